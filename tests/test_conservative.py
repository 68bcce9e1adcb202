"""Conservative: bounds on margins, the account, who decides, what is never fallen below; files, engines, records."""

import math
import warnings

import numpy as np
import pytest

import noregret as nr
from live import place, steps_of
from noregret.agents.composed import conservative
from noregret.planning.margin import margin, margin_work
from noregret.planning.optimism import assess
from noregret.simulation.engine import FusedSession, Setup
from noregret.verification import chance

ONE = place("conservative")  # S = 3, A = 2, H = 3, d = 2; everybody begins in state 0
H, S, ALPHA = ONE.problem.horizon, ONE.problem.n_states, 0.2


def good_rule(world=ONE):
    """The policy that is best for the mean context: a good one for everybody."""
    return world.optimal(np.mean([world.context(9, k) for k in range(200)], axis=0)).policy


def regret_of(agent, world, seed, episodes):
    """Regret [episodes] of a run by the compiled loop; the agent is there afterwards."""
    session = FusedSession(agent, Setup(world, seed, episodes))
    session.prepare()
    while session.done < episodes:
        session.advance()
    return np.diff(session.meter.curve[:episodes], prepend=0.0)


def trained(cls=nr.LRORL, episodes=400, **options):
    agent = cls(ONE.problem, **options)
    regret_of(agent, ONE, 0, episodes)
    return agent


# The bound, from its formulas ----------------------------------------------------------------------------------------
def least_mean(local, s, a, V):
    """The smallest <P, V> of a pair by beyond.md, section 6, in NumPy."""
    P, v = local.P[s, a], -V
    mean, span = P @ v, np.ptp(v)
    g = P * (v - mean)
    rho, first = local.rho[s, a], 0.0
    if np.isfinite(rho):
        first = rho * math.sqrt(max(g @ local.cov[s, a] @ g, 0.0)) + span * local.second[s, a]
    most = min(span * local.half[s, a], v.max() - mean, first if np.isfinite(rho) else math.inf)
    return -(mean + max(most, 0.0))


def bounds_of(local, policy):
    """(upper, lower) [H+1, S] of a policy."""
    made = np.zeros((2, H + 1, S))
    for h in reversed(range(H)):
        for s, a in enumerate(policy[h]):
            made[0, h, s] = np.clip(local.high[s, a] - least_mean(local, s, a, -made[0, h + 1]), 0, H - h)
            made[1, h, s] = np.clip(local.low[s, a] + least_mean(local, s, a, made[1, h + 1]), 0, H - h)
    return made


def margins(local, pi, beta, c):
    """Theorem 14 of docs/beyond.md, in NumPy."""
    (up, low), (other_up, other_low) = bounds_of(local, pi), bounds_of(local, beta)
    W = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        below = np.maximum(low[h + 1], W[h + 1] + c * other_low[h + 1])
        above = np.minimum(other_up[h + 1], (up[h + 1] - W[h + 1]) / c)
        for s in range(S):
            a, b = pi[h, s], beta[h, s]
            if a == b:
                own = (1 - c) * local.low[s, a] + least_mean(local, s, a, W[h + 1])
            else:
                own = local.low[s, a] + least_mean(local, s, a, below)
                own -= c * (local.high[s, b] - least_mean(local, s, b, -above))
            W[h, s] = max(own, low[h, s] - c * other_up[h, s])
    return W


@pytest.mark.deep
@pytest.mark.parametrize("c", [0.8, 1.0])
def test_margins_are_those_of_the_formulas_and_hold(c):
    """Against a twin in NumPy, and against the truth: never above it, never below the obvious bound, and (1 - c) times
    the lower value for a policy with itself."""
    agent, g, sharper = trained(delta=0.3), np.random.default_rng(0), 0
    search, local, scratch, made = agent.par.search, agent.work.local, agent.work.search, margin_work(H, S)
    for k in range(40):
        x = ONE.context(5, k)
        pi, beta = g.integers(0, 2, (H, S)), g.integers(0, 2, (H, S))
        if k % 2:
            pi = np.where(g.random((H, S)) < 0.2, pi, beta)  # most actions in common
        own, other = agent.certify(x, pi), agent.certify(x, beta)
        margin(search, local, scratch, pi, beta, c, made)
        assert made.least == pytest.approx(margins(local, pi, beta, c), abs=1e-10)
        true = ONE.values(pi, x) - c * ONE.values(beta, x)
        obvious = own.lower - c * other.values
        assert (made.least <= true + 1e-9).all()
        assert (made.least >= obvious - 1e-9).all()
        sharper += made.least[0, 0] > obvious[0, 0] + 0.05
        margin(search, local, scratch, beta, beta, c, made)
        assert made.least == pytest.approx((1 - c) * other.lower, abs=1e-9)
    assert sharper >= 20


def test_every_decision_against_a_loop_in_python():
    """Twin: the bare agent plans, NumPy bounds both policies and keeps the account, the bare agent learns."""
    rule, world = good_rule(), ONE
    both, bare = nr.Conservative(nr.LRORL(world.problem, delta=0.5), rule, ALPHA), nr.LRORL(world.problem, delta=0.5)
    total, held = 0.0, 0
    for k in range(150):
        person = world.individual(k, 3)
        x = person.context
        plan, own = both.begin_episode(x), bare.begin_episode(x)
        worth = margins(bare.work.local, own.policy, rule, 1 - ALPHA)[0, 0]
        lower = bounds_of(bare.work.local, rule)[1]
        hold = total + worth < 0.0
        total += ALPHA * lower[0, 0] if hold else worth
        held += hold
        assert plan.held == plan.referred == hold
        assert (plan.margin, plan.budget) == pytest.approx((worth, total), abs=1e-9)
        assert np.array_equal(plan.policy, rule if hold else own.policy)
        assert np.array_equal(plan.upper, own.upper)
        assert plan.lower == pytest.approx(lower if hold else own.lower, abs=1e-9)
        assert plan.certificate == pytest.approx((plan.upper - plan.lower)[0, 0], abs=1e-12)
        bare._out.policy[...] = plan.policy  # whoever decided, it learns
        while person.steps < H:
            action = both.act(person.state)
            assert bare.act(person.state) == action
            seen = person.step(action)
            for one in (both, bare):
                one.observe(*seen)
        for one in (both, bare):
            one.end_episode()
    assert 20 < held < 145
    assert both.budget == pytest.approx(total)
    assert np.array_equal(both.agent.state.transitions.weights, bare.state.transitions.weights)


# The promise ---------------------------------------------------------------------------------------------------------
def values_of(world, rule, seed, episodes):
    """(optimal, the rule's) values [episodes] of those who come, exactly."""
    known: dict[bytes, tuple[float, float]] = {}
    made = []
    for k in range(episodes):
        x = world.context(seed, k)
        if x.tobytes() not in known:
            best = world.optimal(x).policy
            known[x.tobytes()] = float(world.value(best, x)), float(world.value(rule, x))
        made.append(known[x.tobytes()])
    return np.array(made).T


def falls(world, rule, seeds, episodes, **options):
    """In how many runs the sum of V(played) - (1 - alpha) V(rule) ever falls below 0, or below what the account says;
    in how many the agent alone falls below 0; and the share of people held."""
    fell, alone, held = 0, 0, []
    for seed in seeds:
        best, base = values_of(world, rule, seed, episodes)
        agent = nr.Conservative(nr.CertifiedPSRL(world.problem, seed=seed, **options), rule, ALPHA)
        lost = regret_of(agent, world, seed, episodes)
        report, true = agent.report(), np.cumsum(best - lost - (1 - ALPHA) * base)
        assert (report.budgets >= -1e-12).all()
        fell += bool((true < np.maximum(report.budgets, 0.0) - 1e-9).any())
        held.append(report.rate)
        lost = regret_of(nr.CertifiedPSRL(world.problem, seed=seed, **options), world, seed, episodes)
        alone += bool((np.cumsum(best - lost - (1 - ALPHA) * base) < -1e-9).any())
    return fell, alone, float(np.mean(held))


def first_rule(world):
    """The best policy of the clinic's first patient, for everybody: poor for half of them, so worth beating."""
    return world.optimal(world.context(0, 0)).policy


@pytest.mark.long
def test_it_never_falls_below_in_a_few_runs():
    """delta = 0.3: in eight runs of 400 as many failures as chance allows; the agent alone falls below in many."""
    fell, alone, held = falls(ONE, good_rule(), range(8), 400, delta=0.3)
    assert fell <= chance.allowed(8, 0.3)
    assert alone >= 3
    assert 0.05 < held < 0.9


@pytest.mark.slow
def test_it_never_falls_below_in_a_thousand_runs():
    """The clinic, delta = 0.05, 1,000 runs of 600 patients."""
    world = nr.worlds.clinic()
    fell, alone, held = falls(world, first_rule(world), range(1000), 600, delta=0.05)
    print(f"fell below: {fell} of 1,000; the agent alone: {alone}; held: {held:.1%}")
    assert fell <= chance.allowed(1000, 0.05)
    assert alone > 300


@nr.kernel
def by_marker(par, state, work, x, k, out):
    """Of the clinic's patients whoever is ill gets drug A or B, by the marker."""
    for h in range(out.policy.shape[0]):
        for s in range(out.policy.shape[1]):
            out.policy[h, s] = 0 if s == 0 else (1 if x[2] > 0.0 else 2)


class ByMarker(nr.UniformRandom):
    name = "by-marker"
    plan_kernel = staticmethod(by_marker)


@nr.kernel
def apart(par, local, work, policy, other, share, made):
    """L - c U, which bounds each policy apart, in the place of `margin`."""
    assess(par, local, work, policy, made.upper, made.lower, 0)
    assess(par, local, work, other, made.other_upper, made.other_lower, 0)
    for h in range(made.least.shape[0]):
        for s in range(made.least.shape[1]):
            made.least[h, s] = made.lower[h, s] - share * made.other_upper[h, s]


@pytest.mark.slow
def test_what_it_costs_in_the_clinic(monkeypatch):
    """20,000 patients, a good baseline: at most a tenth more regret than the agent alone, at three alphas; with bounds
    on each policy apart it costs more."""
    world, size = nr.worlds.clinic(), {"episodes": 20_000, "seeds": 40, "every": 20_000}
    p = world.problem
    alone = nr.simulate(nr.CertifiedPSRL(p), world, **size).final.mean()
    print(f"alone {alone:.1f}, baseline {nr.simulate(ByMarker(p), world, **size).final.mean():.1f}")
    for alpha in (0.05, 0.1, 0.2):
        cost = []
        for bound in (margin, apart):
            monkeypatch.setattr(conservative, "margin", bound)
            agent = nr.Conservative(nr.CertifiedPSRL(p), ByMarker(p), alpha)
            cost.append(nr.simulate(agent, world, **size).final.mean())
        print(f"alpha {alpha}: {cost[0]:.1f}, bounds apart {cost[1]:.1f}")
        assert cost[0] <= 1.1 * alone
        assert cost[0] < cost[1]


# Files, engines, records ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["policy", pytest.param("agent", marks=pytest.mark.slow), "function"])
def test_both_engines_agree_and_so_do_files(kind, tmp_path):
    rule = good_rule()
    baseline = {"policy": rule, "agent": nr.UniformRandom(ONE.problem), "function": lambda x: rule}[kind]
    agent = nr.Conservative(nr.CertifiedPSRL(ONE.problem, delta=0.5), baseline, 0.5)
    fast, slow = (nr.simulate(agent, ONE, 80, seeds=[4, 5], compiled=c, workers=1) for c in (True, False))
    assert np.array_equal(fast.regret, slow.regret)
    assert agent.fused == (kind != "function")
    one = agent.fresh(seed=4)
    play(one, ONE, range(60))
    x = ONE.context(4, 60)
    one.begin_episode(x)
    one.act(0)
    one.save(tmp_path / "agent.npz")
    given = {"expert": baseline} if kind == "function" else {}
    two = nr.load(tmp_path / "agent.npz", **given)
    for each in (one, two):
        each.observe(0.5, 1)
        each.end_episode()
        play(each, ONE, range(61, 120))
    assert str(one.report()) == str(two.report())
    assert np.array_equal(one.report().budgets, two.report().budgets)
    assert one.held.size == 120
    assert 0 < one.held.sum() < 120
    if kind == "function":
        with pytest.raises(ValueError, match="expert must be given, the agent was saved with a function"):
            nr.load(tmp_path / "agent.npz")


def play(agent, world, episodes, seed=4):
    for k in episodes:
        person = world.individual(k, seed)
        agent.begin_episode(person.context)
        while person.steps < world.problem.horizon:
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()


def test_asking_for_chances_and_logs_leave_the_account():
    agent = nr.Conservative(nr.CertifiedPSRL(ONE.problem, delta=0.5), good_rule(), 0.5)
    play(agent, ONE, range(40))
    plan = agent.begin_episode(ONE.context(4, 40))
    chances = agent.action_probabilities(0, draws=30)  # other draws are held against the account before this one
    assert chances.probabilities.sum() == pytest.approx(1.0)
    assert agent.budget == plan.budget
    agent.end_episode()
    before = agent.budget
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = nr.read_log(steps_of(ONE, 5)[0], ONE.problem)
    assert agent.learn_from(log) == 5
    assert agent.budget == before
    after = agent.begin_episode(ONE.context(4, 50))
    assert after.budget == pytest.approx(before + (after.margin if not after.held else after.budget - before))
    assert agent.report().episodes == 42


def test_live_keeps_one_account_for_people_at_the_same_time():
    calls = []

    def rule(x):
        calls.append(x)
        return good_rule()

    live = nr.Live(nr.Conservative(nr.CertifiedPSRL(ONE.problem, delta=0.5), rule, 0.5), draws=5)
    plans = [live.begin(k, ONE.context(4, k)) for k in range(6)]
    assert len(calls) == 6  # nobody was asked about twice
    charges = np.diff([0.0, *(plan.budget for plan in plans)])
    assert (np.cumsum(charges) >= -1e-12).all()
    decision = live.act(0, 0)
    assert decision.referred == plans[0].held
    assert ("the plan is the baseline's" in str(decision)) == plans[0].held


def test_refuted_it_plays_the_baseline():
    agent = nr.Conservative(trained(episodes=4000, delta=0.5), good_rule(), 0.9)
    x = ONE.context(0, 0)
    assert not agent.begin_episode(x).held
    agent.end_episode()
    with pytest.warns(UserWarning, match="promises nothing any more"):
        agent.refute("it was seen otherwise")
    plan = agent.begin_episode(x)
    assert plan.held
    assert plan.certificate is None
    assert agent.guarantee is None


def test_words_and_bad_input():
    p, rule = ONE.problem, good_rule()
    agent = nr.Conservative(nr.LRORL(p, delta=0.1), rule, 0.25)
    assert agent.guarantee.endswith(
        "with probability 0.9, in every episode and for any contexts within the bounds, plan.certificate is at least "
        "the plan's shortfall, and at any time the values of all plans so far add up to at least 0.75 of the baseline's"
    )
    assert agent.label == "lr-orl (delta=0.1), at least 0.75 of fixed-policy"
    assert str(agent.report()) == "nobody was met yet"
    play(agent, ONE, range(12))
    said = str(agent.report()).splitlines()
    assert said[0].startswith("12 individuals, ")
    assert said[-1].endswith("more than 0.75 of the baseline, with the agent's probability")
    good = nr.LRORL(p)
    for args, message in (
        ((nr.PSRLGLM(p), rule), r"agent must be one with confidence sets \(LRORL, .*\), psrl-glm has none"),
        ((nr.LRORL(p, bonus_scale=0.5), rule), "agent must be one with confidence sets"),
        ((nr.CertifiedPSRL(p, plans=3), rule), "agent must have plans=1 and floor=0"),
        ((good, nr.PSRLGLM(p, floor=0.1)), "baseline must have plans=1 and floor=0"),
        ((3, rule), "agent must be a compiled noregret agent, got int"),
        ((good, good), "baseline must be another agent"),
        ((good, np.zeros((1, 3), int)), r"baseline must be actions 0 to 1 of shape \(3, 3\)"),
        ((good, nr.UniformRandom(nr.worlds.clinic().problem)), "baseline was made for a problem of another shape"),
        ((good, rule, 1.5), "alpha must be a number from 0 to 1"),
        ((good, nr.make_agent("cece", p)), "baseline must plan whole episodes, cece plans again"),
    ):
        with pytest.raises(ValueError, match=message):
            nr.Conservative(*args)
    with pytest.raises(ValueError, match="the baseline's policy must be actions 0 to 1"):
        nr.Conservative(good, lambda x: [7]).begin_episode([0.6, 0.8])


@pytest.mark.parametrize(
    "make", [lambda a, rule: nr.Conservative(a, rule, 0.1), lambda a, rule: nr.Referral(a, rule, 1.0)]
)
def test_what_an_agent_has_against_it_stays(make):
    """Evidence that was gathered before it was taken over counts on."""
    world = nr.worlds.clinic(horizon=3)
    agent = nr.CertifiedPSRL(world.problem)
    for k in range(3):
        person = world.individual(k)
        agent.begin_episode(person.context)
        for _ in range(3):
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    before = agent.evidence.copy()
    assert (before != 0.0).any()
    np.testing.assert_array_equal(make(agent, [[0, 1, 1, 1]] * 3).evidence, before)
