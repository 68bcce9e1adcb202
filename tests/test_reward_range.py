"""Rewards from low to high: what users see is in their units, and a + b r is learned as r is.

With contexts that have a constant entry, mean rewards a + b theta'x are linear, too. Next states, luck and the agents'
own draws are the same, so whatever an agent does may differ only where its prior does: every prior on reward weights is
centred at 0, so tabular agents do the same to the last decision and the others not quite."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import noregret as nr
import reference
from noregret.problem.scale import RewardScale
from noregret.simulation.engine import FusedSession, Setup
from test_cli import noregret

LOW, HIGH = -1.0, 3.0
UNIT = HIGH - LOW


def moved(world, low=LOW, high=HIGH, **told):
    """The same world with rewards low + (high - low) r; contexts are (1, u)/sqrt 2."""
    p, unit = world.problem, high - low
    theta = world.reward_weights * unit
    theta[..., 0] += low * math.sqrt(2.0)
    bound = 1.01 * float(np.linalg.norm(theta, axis=-1).max())
    known = theta if p.known_rewards is not None else None
    problem = replace(p, reward_range=(low, high), reward_bound=bound, known_rewards=known, **told)
    return nr.World(problem, world.weights, theta, world.contexts, world.initial_state)


@pytest.fixture(scope="module")
def plain():
    return nr.worlds.random_logit(n_states=3, n_actions=2, horizon=3, context_dim=3, seed=1)


@pytest.fixture(scope="module")
def signed(plain):
    return moved(plain)


def left(values):
    """Steps to go, [H+1, 1]."""
    return np.arange(len(values) - 1.0, -1.0, -1.0)[:, None]


def test_values_of_a_world_are_in_its_units(plain, signed):
    x, rule = plain.context(0, 0), [[1, 0, 1]] * 3
    for inside, outside in (
        (plain.optimal(x).values, signed.optimal(x).values),
        (plain.values(rule, x), signed.values(rule, x)),
    ):
        assert np.allclose(outside, UNIT * inside + LOW * left(inside), atol=1e-12)
    assert np.allclose(signed.rewards(x), LOW + UNIT * plain.rewards(x), atol=1e-12)
    assert np.array_equal(plain.optimal(x).policy, signed.optimal(x).policy)
    one, other = plain.individual(4, seed=2), signed.individual(4, seed=2)
    for _ in range(3):
        (r, s), (q, t) = one.step(1), other.step(1)
        assert s == t
        assert q == (HIGH if r == 1.0 else LOW)
    people, same = nr.worlds.Episodes(plain), nr.worlds.Episodes(signed)
    people.begin(4, 2)
    same.begin(4, 2)
    assert math.isclose(same.optimal_value, UNIT * people.optimal_value + LOW * 3)
    assert math.isclose(same.cost(0), UNIT * people.cost(0), abs_tol=1e-12)
    rewards = np.concatenate([e.rewards for e in signed.log(20, 0, rule=rule)])
    assert set(rewards.tolist()) == {LOW, HIGH}


# Without a prior on reward weights: the same decisions
@pytest.mark.parametrize("name", ["uniform-random", "psrl", "ucbvi-ch", "ucrl2", "orlc", "rlsvi", "cece", "cece-x"])
def test_tabular_agents_decide_the_same(plain, signed, name):
    runs = [nr.simulate(nr.make_agent(name, w.problem), w, 150, seeds=2, every=50) for w in (plain, signed)]
    assert np.allclose(runs[1].regret, UNIT * runs[0].regret, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["glm-orl", "lr-orl", "psrl-glm", "certified-psrl", "certainty-equivalence"])
def test_with_known_rewards_all_agents_decide_the_same(plain, name):
    p = plain.problem
    told = replace(p, known_rewards=plain.reward_weights)
    known = nr.World(told, plain.weights, None, plain.contexts, plain.initial_state)
    runs = [nr.simulate(nr.make_agent(name, w.problem), w, 100, seeds=2, every=50) for w in (known, moved(known))]
    assert np.allclose(runs[1].regret, UNIT * runs[0].regret, rtol=1e-9, atol=1e-9)


LEARN = "glm-orl glm-rlsvi epsilon-greedy lr-orl psrl-glm certified-psrl omg-cmdp ucrl-mnl orlc-si abbasi-yadkori-neu"


@pytest.mark.parametrize("name", LEARN.split())
def test_rewards_four_times_as_large_are_learned_the_same_to_the_bit(plain, name):
    """Without an offset all priors scale, and four is a power of two: the same numbers inside."""
    p = plain.problem
    problem = replace(p, reward_range=(0.0, 4.0), reward_bound=4.0 * p.reward_bound)
    large = nr.World(problem, plain.weights, 4.0 * plain.reward_weights, plain.contexts, plain.initial_state)
    agents = [nr.make_agent(name, w.problem) for w in (plain, large)]
    runs = [nr.simulate(a, w, 120, seeds=2, every=40) for a, w in zip(agents, (plain, large), strict=True)]
    assert np.array_equal(runs[1].regret, 4.0 * runs[0].regret)
    plans = []
    for agent, w in zip(agents, (plain, large), strict=True):
        agent.learn_from(w.log(30, 2, rule=[[0, 1, 0]] * 3))
        plans.append(agent.begin_episode(w.context(1, 0)))
    assert np.array_equal(plans[1].values, 4.0 * plans[0].values)
    assert (plans[0].certificate is None) == (plans[1].certificate is None)
    if plans[0].certificate is not None:
        assert plans[1].certificate == 4.0 * plans[0].certificate


def test_ridge_regression_of_moved_rewards_is_that_of_the_formulas(signed):
    """Against NumPy: rewards over the unit regressed on contexts, the offset off the mean, B_r over the unit."""
    p, offset = signed.problem, LOW / UNIT
    agent, ranges = nr.GLMORL(p), nr.LRORL(p, reward_sets="ridge", reward_regularization=1.0)
    log = signed.log(200, 3, rule=[[0, 1, 0]] * 3, explore=0.5)
    for one in (agent, ranges):
        one.learn_from(log)
    made = {pair: reference.Ridge(3, 1.0) for pair in np.ndindex(3, 2)}
    for e in log:
        for h in range(3):
            made[e.states[h], e.actions[h]].update(e.context, e.rewards[h] / UNIT)
    x = signed.context(8, 0)
    agent.begin_episode(x)
    ranges.begin_episode(x)
    local, bound = ranges.work.local, p.reward_bound / UNIT
    reach = bound * np.linalg.norm(x)
    for pair, ridge in made.items():
        mean = ridge.theta @ x - offset
        assert np.isclose(agent.work.belief.reward[pair], np.clip(mean, 0, 1), atol=1e-9)
        width = ridge.width(x, bound, agent.par.log_confidence, 1.0)
        assert np.isclose(agent.work.belief.interval[pair], width, atol=1e-9)
        logdet = np.linalg.slogdet(ridge.V)[1]
        half = (bound + 0.5 * math.sqrt(2 * ranges.par.rewards.log + logdet)) * math.sqrt(
            x @ np.linalg.solve(ridge.V, x)
        )
        assert np.isclose(local.low[pair], max(mean - half, 0.0, -reach - offset), atol=1e-9)
        assert np.isclose(local.high[pair], min(mean + half, 1.0, reach - offset), atol=1e-9)


@pytest.mark.parametrize("reward_sets", ["ridge", "hoeffding", "bernstein"])
def test_ranges_of_mean_rewards_move_with_the_rewards(plain, signed, reward_sets):
    """With a lambda that is small beside the data the sets of a + b r are those of r: the same ranges, up to what
    B_r adds (`half_width`), which is of order sqrt(lambda) B_r/sqrt(n)."""
    lam = {"reward_regularization": 1e-3} if reward_sets == "ridge" else {}
    agents = [nr.LRORL(w.problem, reward_sets=reward_sets, **lam) for w in (plain, signed)]
    log, same = (
        plain.log(400, 7, rule=[[0, 1, 0]] * 3, explore=1.0),
        signed.log(400, 7, rule=[[0, 1, 0]] * 3, explore=1.0),
    )
    agents[0].learn_from(log)
    agents[1].learn_from(same)
    ends = []
    for agent in agents:
        agent.begin_episode(plain.context(5, 0))
        ends.append((agent.work.local.low.copy(), agent.work.local.high.copy()))
    (low, high), (low2, high2) = ends
    assert np.allclose(low, low2, atol=0.03)
    assert np.allclose(high, high2, atol=0.03)
    assert (high - low < 0.95).any()  # something was learned


def test_plans_certificates_and_live_verbs_are_in_the_users_units(signed, tmp_path):
    p = signed.problem
    agent = nr.LRORL(p)
    x = signed.context(0, 0)
    plan = agent.begin_episode(x)
    assert (plan.upper[:3] <= HIGH * left(plan.upper)[:3] + 1e-9).all()
    assert plan.upper[0].max() > 3.0
    assert (plan.lower[:3] >= LOW * left(plan.lower)[:3] - 1e-9).all()
    assert plan.lower[0].min() < 0.0
    assert math.isclose(plan.certificate, (plan.upper[0] - plan.lower[0])[p.starts].max(), rel_tol=1e-12)
    agent.act(0)
    for wrong in (LOW - 1e-6, HIGH + 1e-6, math.inf):
        with pytest.raises(ValueError, match="reward must be a number from -1 to 3, or nan"):
            agent.observe(wrong, 0)
    agent.observe(-0.5, 1)
    agent.save(tmp_path / "agent.npz")
    again = nr.load(tmp_path / "agent.npz")
    assert again.problem.reward_range == (LOW, HIGH)
    assert again._path.rewards[0] == agent._path.rewards[0] == 0.125
    for one in (agent, again):
        one.end_episode()
    first, second = agent.begin_episode(x), again.begin_episode(x)
    assert np.array_equal(first.values, second.values)
    assert first.certificate == second.certificate
    assert nr.load(tmp_path / "agent.npz").problem.scale == RewardScale(LOW, HIGH)


def test_live_several_people_learn_what_the_verbs_learn(signed):
    """`Live` keeps rewards as they were told, and learns them in [0, 1]."""
    one, other = nr.LRORL(signed.problem), nr.LRORL(signed.problem)
    live = nr.Live(other)
    for k in range(6):
        a, b = signed.individual(k), signed.individual(k)
        one.begin_episode(a.context)
        live.begin(k, b.context)
        while a.steps < 3:
            one.observe(*a.step(one.act(a.state)))
            decision = live.act(k, b.state)
            live.observe(k, *b.step(decision.action), step=decision.step)
        one.end_episode()
        live.end(k)
    assert np.array_equal(one.state.rewards.moment, other.state.rewards.moment)
    assert np.array_equal(one.state.rewards.theta, other.state.rewards.theta)
    assert np.allclose(one.evidence, other.evidence, atol=1e-9)


def test_compiled_and_live_runs_agree(signed):
    for name in ("glm-orl", "certified-psrl"):
        agent = nr.make_agent(name, signed.problem)
        runs = [nr.simulate(agent, signed, 12, seeds=[3], compiled=c) for c in (True, False)]
        assert np.array_equal(runs[0].regret, runs[1].regret)


def test_thresholds_of_a_referral_are_in_the_users_units(plain, signed):
    rule = [[0, 1, 0]] * 3
    teams = [nr.Referral(nr.LRORL(w.problem), rule, t) for w, t in ((plain, 2.9), (signed, 2.9 * UNIT))]
    runs = [nr.simulate(team, w, 300, seeds=[1]) for team, w in zip(teams, (plain, signed), strict=True)]
    team = nr.Referral(nr.LRORL(signed.problem), rule, 2.9 * UNIT)
    plan = team.begin_episode(signed.context(0, 0))
    assert plan.referred
    assert plan.gap > 2.9 * UNIT
    assert 2.9 * UNIT < team.gaps[0] == plan.gap <= 3 * UNIT
    assert "referred" in str(team.report())
    assert team.report().threshold == 2.9 * UNIT
    assert np.allclose(runs[1].final, UNIT * runs[0].final, rtol=0.2)
    with pytest.raises(ValueError, match="expert was made for a problem of another shape"):
        nr.Referral(nr.LRORL(plain.problem), nr.UniformRandom(signed.problem), 1.0)


def test_a_conservative_agent_counts_from_the_lowest(signed):
    """V(played) - (1 - alpha) V(baseline) is at least what the account says, V counted from H times the lowest."""
    rule, low = [[0, 1, 0]] * 3, 3 * LOW
    knows, total = nr.LRORL(signed.problem, delta=0.5), 0.0
    session = FusedSession(knows, Setup(signed, 1, 2000))
    session.prepare()
    while session.done < 2000:
        session.advance()
    agent = nr.Conservative(knows, rule, 0.5)
    for k in range(40):
        person = signed.individual(k, 1)
        x = person.context
        plan = agent.begin_episode(x)
        total += signed.value(plan.policy, x) - low - 0.5 * (signed.value(rule, x) - low)
        assert 0.0 <= plan.budget <= total + 1e-9
        assert plan.budget <= UNIT * 3 * (k + 1)
        while person.steps < 3:
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    assert plan.budget > 0.0
    assert "the values above -3, the lowest possible, of all plans so far" in agent.guarantee


def test_bounds_on_the_regret_and_diagnostics_scale(plain, signed):
    found = []
    for w in (plain, signed):
        run = nr.simulate(nr.LRORL(w.problem), w, 200, seeds=2, every=100, diagnostics=True, epsilon=0.3 * UNIT)
        assert (run.regret <= run.bounds["certificates"]).all()
        assert (run.regret <= run.bounds["returns"]).all()
        found.append(run)
    for name in ("certificates", "returns"):
        assert np.allclose(found[1].bounds[name], UNIT * found[0].bounds[name], rtol=0.05)
    assert (found[1].diagnostics["mistakes"] > found[0].diagnostics["mistakes"]).all()


@pytest.mark.study(first=2)
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-10.0, 0.0), (2.0, 2.5)])
@pytest.mark.parametrize("reward_sets", ["ridge", "hoeffding", "bernstein"])
def test_sets_hold_and_certificates_are_never_wrong(low, high, reward_sets):
    """delta = .3, 12 seeds: some set fails at some time on no more seeds than Binomial(12, .3) allows but with
    probability 1e-4; and wherever sets held no certificate was wrong, no value too low."""
    world = moved(nr.worlds.random_logit(n_states=2, n_actions=2, horizon=2, context_dim=2, seed=5), low, high)
    agent = nr.LRORL(world.problem, delta=0.3, reward_sets=reward_sets)
    run = nr.simulate(agent, world, 400, seeds=12, every=400, diagnostics=True)
    failed = run.diagnostics["set_failures"][:, -1] > 0
    assert failed.sum() <= stats.binom.ppf(1 - 1e-4, 12, 0.3)
    for name in ("justified_failures", "certificate_failures"):
        assert (run.diagnostics[name][~failed] == 0).all(), name
    assert not any(run.refuted)
    assert (run.bounds["certificates"][:, -1] < 0.999 * 400 * 2 * (high - low)).all()  # they say something


@pytest.mark.parametrize("name", ["glm-orl", "certified-psrl", "psrl-glm"])
@pytest.mark.parametrize(("low", "high"), [(-10.0, 0.0), (5.0, 6.0)])
def test_agents_learn_costs_and_ranges_far_from_0(plain, name, low, high):
    """Regret in units of the range is at most 1.5 times that of the same world with rewards in [0, 1], or much below
    what playing at random loses, where wide sets leave little to compare."""
    worlds = plain, moved(plain, low, high)
    runs = [nr.simulate(nr.make_agent(name, w.problem), w, 600, seeds=3, every=600) for w in worlds]
    chance = nr.simulate(nr.UniformRandom(plain.problem), plain, 600, seeds=3, every=600).final.mean()
    mean = runs[1].final.mean() / (high - low)
    assert mean < max(1.5 * runs[0].final.mean(), 0.5 * chance), (mean, runs[0].final.mean(), chance)


@pytest.mark.parametrize("name", ["oful", "linucb"])
def test_bandits_learn_signed_rewards(name):
    """Ten arms, 600 rounds: less than half of what chance loses; values within the range, OFUL's never too low (they
    fail with probability .05 on each of three seeds at most, so all hold with these seeds or the bound is wrong)."""
    plain = nr.worlds.random_logit(n_states=2, n_actions=10, horizon=1, context_dim=3, seed=2)
    world = moved(plain, -2.0, 1.0)
    run = nr.simulate(nr.make_agent(name, world.problem), world, 600, seeds=3, every=600, diagnostics=True)
    chance = nr.simulate(nr.UniformRandom(world.problem), world, 600, seeds=3, every=600)
    assert run.final.mean() < 0.5 * chance.final.mean()
    agent = nr.make_agent(name, world.problem)
    agent.learn_from(world.log(300, 4, rule=[[0, 1]], explore=1.0))
    values = np.array([agent.begin_episode(world.context(5, k)).values[0] for k in (0,)])
    assert (values >= -2.0).all()
    assert (values <= 1.0).all()
    if name == "oful":
        assert (run.diagnostics["optimism_failures"][:, -1] == 0).all()


def test_compare_is_in_the_users_units():
    """With a design, and without: the interval of a difference of values holds it, and is about UNIT times as wide."""
    for make in (
        lambda: nr.worlds.shared_logit(3, 2, horizon=2, context_dim=2, features=2, seed=3),
        lambda: nr.worlds.random_logit(n_states=3, n_actions=2, horizon=2, context_dim=2, seed=3),
    ):
        world, widths = make(), []
        rule, other = [[0, 1, 0]] * 2, [[1, 0, 1]] * 2
        people = [world.context(9, k) for k in range(5)]
        for w in (world, moved(world, reward_design=None)):
            agent = nr.LRORL(w.problem, sets="stored")
            agent.learn_from(w.log(800, rule=rule, explore=1.0, seed=2))
            for against in (None, other):
                true = np.mean(
                    [w.value(rule, x, 0) - (0.0 if against is None else w.value(against, x, 0)) for x in people]
                )
                found = agent.compare(rule, against, people, start=0)
                assert found.lower <= true <= found.upper
                assert found.lower <= found.estimate <= found.upper
                widths.append(found.upper - found.lower)
        assert np.allclose(np.array(widths[2:]) / UNIT, widths[:2], rtol=0.35), widths


def test_expected_certificates_are_in_the_users_units(plain, signed):
    """Without an offset the drawn worlds are the same but for the unit; with one their means lie in the range, which
    `World` checks."""
    people = [plain.context(0, k) for k in range(50)]
    p = plain.problem
    large = replace(p, reward_range=(0.0, 4.0), reward_bound=4.0 * p.reward_bound)
    ends = [nr.expected_certificates(q, 100, people, draws=1)[0].after(100) for q in (p, large, signed.problem)]
    assert math.isclose(ends[1], 4.0 * ends[0], rel_tol=1e-9)
    assert math.isclose(ends[2], UNIT * ends[0], rel_tol=0.25)


def test_draws_are_mean_rewards_in_the_users_units(signed):
    agent = nr.PSRLGLM(signed.problem)
    agent.learn_from(signed.log(2000, 1, rule=[[0, 1, 0]] * 3, explore=1.0))
    x = signed.context(3, 0)
    drawn = np.mean([agent.draw(x, number=n)[1] for n in range(1, 40)], axis=0)
    assert np.abs(drawn - signed.rewards(x)).max() < 0.2 * UNIT


def test_bad_ranges_get_a_sentence(plain, signed):
    p = plain.problem
    for wrong in ((1.0, 0.0), (0.0, 0.0), (0.0, math.inf), (0.0,), "ab", None, (math.nan, 1.0)):
        with pytest.raises(ValueError, match="reward_range must be"):
            replace(p, reward_range=wrong)
    with pytest.raises(ValueError, match="at most 1e\\+06 times its length from 0"):
        replace(p, reward_range=(1e9, 1e9 + 1))
    with pytest.raises(ValueError, match=r"reward_range must be \(0, 1\) where rewards are logistic"):
        replace(p, reward_range=(-1, 1), rewards="logistic")
    with pytest.raises(ValueError, match=r"agent must be made for the world's reward_range \(-1.0, 3.0\)"):
        nr.simulate(nr.LRORL(p), signed, 10)
    with pytest.raises(ValueError, match=r"outside \[-1, 3\]"):
        nr.World(signed.problem, plain.weights, signed.reward_weights * [-1.0, 1.0, 1.0], plain.contexts)
    linear = nr.Problem(2, 2, 2, 2, link=nr.LinearCombination(), reward_bound=2.0, reward_range=(-1.0, 1.0))
    for name, problem in (("cover-rmax", signed.problem), ("lsvi-ucb", signed.problem), ("kwik-lr-rmax", linear)):
        with pytest.raises(ValueError, match=rf"reward_range must be \(0, 1\) for {name}, got \(-1.0,"):
            nr.make_agent(name, problem)
    with pytest.raises(ValueError, match=r"problem must have reward_range \(0, 1\)"):
        nr.claims(signed.problem, 100)
    assert replace(p, reward_range=[-1, 2]).reward_range == (-1.0, 2.0)


def test_the_ends_of_a_range_are_told_exactly():
    """low + (high - low) may round above high: such a reward would be refused."""
    g = np.random.default_rng(0)
    for low, high in np.sort(g.normal(size=(2000, 2)) * 10 ** g.uniform(-3, 3, (2000, 1)), axis=1):
        scale = RewardScale(float(low), float(high))
        assert scale.inside(scale.outside(1.0)) <= 1.0
        assert scale.low <= scale.outside(1.0) <= scale.high
        assert scale.outside(0.0) == low
        assert scale.inside(high) == 1.0
        assert scale.inside(low) == 0.0


WORLD = """
import math
from dataclasses import replace
import numpy as np
import noregret as nr


def signed():
    w = nr.worlds.random_logit(n_states=2, n_actions=2, horizon=2, context_dim=2, seed=1)
    theta = 4.0 * w.reward_weights
    theta[..., 0] -= math.sqrt(2.0)
    bound = 1.01 * float(np.linalg.norm(theta, axis=-1).max())
    problem = replace(w.problem, reward_range=(-1.0, 3.0), reward_bound=bound)
    return nr.World(problem, w.weights, theta, w.contexts, w.initial_state)
"""
STUDY = """
name = "signed"
episodes = 100
seeds = 2
diagnostics = true
[[worlds]]
name = "mine:signed"
[[agents]]
name = "glm-orl"
[[agents]]
name = "lr-orl"
"""


@pytest.mark.long
@pytest.mark.deep
def test_reports_of_studies_know_the_most_that_can_be_lost(tmp_path):
    """H K (high - low) = 2 100 4 = 800 beside the regret of GLM-ORL, for which nothing is known beforehand."""
    (tmp_path / "mine.py").write_text(WORLD)
    (tmp_path / "signed.toml").write_text(STUDY)
    noregret("study", "run", "signed.toml", "--out", "out", cwd=tmp_path, alone=True)
    noregret("report", "out", cwd=tmp_path, alone=True)
    page = (tmp_path / "out/report/report.html").read_text(encoding="utf-8")
    assert re.search(r"<td[^>]*>800</td>", page)


@pytest.mark.parametrize("unit", [1e-10, 1.0, 1e9])
def test_features_of_rewards_are_kept_in_any_units(unit):
    """Whether a direction matters goes by the range of rewards, not by their units."""
    psi = np.array([[[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.5], [1.0, 0.0]]])
    design = nr.RewardDesign(psi, 2.0 * unit)
    problem = nr.Problem(2, 2, 2, 1, weight_bound=1.0, reward_design=design, reward_range=(0.0, unit))
    assert problem.reward_blocks.size.tolist() == [2]
