"""Logistic and known rewards: against the slow reference, against brute force, and in coverage experiments."""

import dataclasses
import functools
import math

import numpy as np
import pytest
from scipy import stats

import noregret as nr
import reference
from live import follow, saved_and_continued
from noregret.theory import constants, widths
from test_agreement import assert_close, assert_state_agrees
from test_agreement import world as plain_world

pytestmark = pytest.mark.deep

EPISODES = 40
DELTA = 0.3


@functools.cache
def world(name, rewards, known):
    """A world of test_agreement with other rewards: logistic ones of both signs, or the same ones, told beforehand."""
    w = plain_world(name)
    theta = w.reward_weights
    if rewards == "logistic":
        theta = np.random.default_rng(8).standard_normal(theta.shape)
        theta *= 2.0 / np.linalg.norm(theta, axis=-1, keepdims=True)
    problem = dataclasses.replace(
        w.problem,
        rewards=rewards,
        reward_bound=2.0 if rewards == "logistic" else w.problem.reward_bound,
        known_rewards=theta if known else None,
    )
    return nr.World(problem, w.weights, None if known else theta, w.contexts, w.initial_state)


def assert_runs_agree(w, kind, seed, options, episodes=EPISODES):
    """Regret to 1e-9; then live: every plan, and everything the agent has learnt."""
    wanted = reference.run(w, kind, episodes, seed, **options)
    run = nr.simulate(nr.make_agent(kind, w.problem, **options), w, episodes, seeds=[seed])
    assert np.all(np.abs(run.regret[0] - wanted.regret) < 1e-9)
    agent = nr.make_agent(kind, w.problem, seed=seed, **options)
    for k in range(episodes):
        person = w.individual(k, seed)
        plan = agent.begin_episode(person.context)
        assert np.array_equal(plan.policy, wanted.policies[k])
        assert_close(plan.values, wanted.values[k])
        for _ in range(w.problem.horizon):
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    assert_state_agrees(agent, wanted.learner)
    assert_rewards_agree(agent, wanted.learner)
    return wanted


def assert_rewards_agree(agent, learner):
    for pair, reward in learner.rewards.items():
        if isinstance(reward, reference.Logistic):
            assert_close(agent.state.rewards.radius[pair], reward.radius())
            assert_close(agent.state.rewards.inverse[pair] @ reward.V, np.eye(len(reward.V)))
        elif isinstance(reward, reference.Known):
            assert np.array_equal(agent.state.rewards.theta[pair], reward.theta)
            assert agent.state.rewards.samples[pair] == 0


# Whole runs ----------------------------------------------------------------------------------------------------------
KINDS = [
    ("glm-orl", {"bonus_scale": 0.05}),
    ("glm-orl", {}),
    ("glm-rlsvi", {"bonus_scale": 0.05}),
    ("certainty-equivalence", {}),
    ("epsilon-greedy", {}),
]


@pytest.mark.study(first=12)
@pytest.mark.parametrize(("rewards", "known"), [("logistic", False), ("logistic", True), ("linear", True)])
@pytest.mark.parametrize("name", ["logit", "linear", "masked-logit", "certain-linear"])
@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[f"{k}-{o.get('bonus_scale', '')}" for k, o in KINDS])
def test_runs(name, rewards, known, kind, options):
    assert_runs_agree(world(name, rewards, known), kind, 3, options)


@pytest.mark.parametrize("name", ["logit", "masked-linear"])
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi"])
def test_options(name, kind):
    """Little regularization and a bound that the truth attains: theta is moved to the possible predictions."""
    options = {"bonus_scale": 0.1, "regularization": 0.1, "reward_regularization": 0.05}
    if kind == "glm-orl":
        options["delta"] = 0.4
    wanted = assert_runs_agree(world(name, "logistic", False), kind, 2**40 + 7, options, 60)
    assert sum(reward.projections for reward in wanted.learner.rewards.values()) > 5


@pytest.mark.parametrize("name", ["logit", "masked-linear"])
def test_runs_are_not_all_ties(name):
    learner = reference.run(world(name, "logistic", False), "glm-orl", EPISODES, 3, bonus_scale=0.05).learner
    assert learner.decisions > 300
    assert learner.ties < 0.6 * learner.decisions


def test_printed_constants_with_known_rewards():
    """The paper knows its rewards, up to notation: its constants go with known linear ones."""
    assert_runs_agree(world("logit", "linear", True), "glm-orl", 3, {"constants": "paper", "bonus_scale": 0.002})


@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi"])
@pytest.mark.parametrize(("rewards", "known"), [("logistic", False), ("logistic", True), ("linear", True)])
@pytest.mark.parametrize("name", ["masked-logit", "linear"])
def test_unseen_rewards_and_short_episodes(name, rewards, known, kind):
    w, options = world(name, rewards, known), {"bonus_scale": 0.05}
    agent, learner = nr.make_agent(kind, w.problem, **options), reference.Learner(w.problem, kind, **options)
    follow(agent, learner, w, EPISODES, assert_close)
    assert_state_agrees(agent, learner)
    assert_rewards_agree(agent, learner)
    seen, steps = agent.state.rewards.samples.sum(), agent.state.transitions.samples.sum()
    assert seen == 0 if known else 0.4 * steps < seen < 0.8 * steps


def test_worlds_pay_logistic_rewards():
    """Means sigma(theta'x), and 1 if v of LUCK is below them."""
    w = world("masked-logit", "logistic", False)
    x = w.context(3, 5)
    assert_close(w.rewards(x), 1 / (1 + np.exp(-w.reward_weights @ x)))
    assert_close(w.rewards(x), reference.individual(w, x)[1])
    paid = []
    for k in range(200):
        person = w.individual(k, 3)
        mean = w.rewards(person.context)[person.state, 1]
        reward, _ = person.step(1)
        assert reward == (reference.uniforms(3, k, 0, reference.LUCK)[1] < mean)
        paid.append(reward)
    assert 20 < sum(paid) < 180


# The estimator on its own --------------------------------------------------------------------------------------------
def bandit(d, reward_bound, delta=0.9, **options):
    """One state, one action, one step: GLM-ORL's reward set then holds with probability 1 - delta/3."""
    problem = nr.Problem(1, 1, 1, d, rewards="logistic", reward_bound=reward_bound, weight_bound=1.0)
    return nr.GLMORL(problem, delta=delta, **options)


def feed(agent, x, reward):
    """Live; returns the upper end of the interval at x before the reward was seen."""
    upper = agent.begin_episode(x).values[0, 0]
    agent.act(0)
    agent.observe(reward, 0)
    agent.end_episode()
    return upper


@pytest.mark.parametrize(("d", "bound", "lam", "projected"), [
    (3, 2.0, None, False), (3, 0.3, 0.02, True), (1, 0.5, 0.05, True), (5, 4.0, 0.01, False),
])  # fmt: skip
def test_logistic_estimator(d, bound, lam, projected):
    """After 1, 10, 300 and 2500 rewards; contexts of every length, also 0."""
    agent, wanted = bandit(d, bound, reward_regularization=lam), reference.Logistic(d, lam, bound, 1.0)
    g, log = np.random.default_rng(d), math.log(3 / 0.9)
    theta = bound * np.eye(d)[0]
    for t in range(1, 2501):
        x = g.standard_normal(d)
        x *= 0.0 if t == 5 else g.uniform(0.02, 1.0) / np.linalg.norm(x)
        reward = float(g.random() < reference.sigmoid(theta @ x))
        upper = feed(agent, x, reward)
        if t in (1, 2, 11, 301, 2500):
            mean, width = wanted.belief(x, bound, log)
            assert_close(upper, min(mean + width, 1.0))
        wanted.update(x, reward)
        if t in (1, 10, 300, 2500):
            state = agent.state.rewards
            assert state.samples[0, 0] == t
            for got, direct in (
                (state.theta, wanted.theta), (state.gram, wanted.V), (state.inverse, np.linalg.inv(wanted.V)),
                (state.radius, wanted.radius()),
            ):  # fmt: skip
                assert_close(got[0, 0], direct)
            assert_close(agent.par.rewards.log_weight, 8.0)
    assert (wanted.projections > 20) == projected


def test_default_regularization():
    """d/(kappa B_r^2) with kappa at B_r R, for logistic rewards; 1 for linear ones."""
    problem = nr.Problem(2, 2, 2, 3, context_bound=1.5, reward_bound=2.0, rewards="logistic", weight_bound=1.0)
    kappa = 1.75 * reference.sigmoid(3.0) * reference.sigmoid(-3.0)
    assert_close(nr.GLMORL(problem).state.rewards.gram[0, 1], 3 / (kappa * 4.0) * np.eye(3))
    assert_close(
        nr.GLMORL(nr.Problem(2, 2, 2, 3, reward_bound=2.0, weight_bound=1.0)).state.rewards.gram[0, 1], np.eye(3)
    )


# Formulas by brute force ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bound", [0.0, 0.2, 1.0, 3.0, 20.0])
def test_logistic_alpha_is_the_least_slope(bound):
    y = np.linspace(-bound, bound, 20_001)
    slope = 1 / (2 + np.exp(y) + np.exp(-y))
    np.testing.assert_allclose(constants.logistic_alpha(bound), slope.min(), rtol=1e-12)


@pytest.mark.parametrize("bound", [0.1, 0.7, 2.0, 5.0])
@pytest.mark.parametrize("w", [0.0, 1e-3, 0.2, 1.0, 3.0, 50.0])
def test_logistic_interval_covers_and_is_tight(bound, w):
    """|sigma(y) - sigma(z)| <= interval for all |y - z| <= w, |y| <= bound. The tanh part is attained at z = w/2 as
    long as w <= 2 bound, the prior part as soon as the nearer end of the box is within w."""
    y = np.linspace(-bound, bound, 4001)
    worst = 0.0
    for z in np.linspace(-bound, bound, 41):
        near = y[np.abs(y - z) <= w + 1e-12]
        reached = np.abs(1 / (1 + np.exp(-near)) - reference.sigmoid(z)).max(initial=0.0)
        interval = widths.logistic_interval(w, z, bound)
        assert reached <= interval + 1e-12
        worst = max(worst, interval - reached)
        if w >= 2 * bound:  # the whole box is possible
            assert_close(interval, min(reached, math.tanh(w / 4)))
    if w <= 2 * bound:
        exact = reference.sigmoid(w / 2) - reference.sigmoid(-w / 2)
        assert_close(widths.logistic_interval(w, w / 2, bound), exact)
    assert_close(widths.logistic_interval(math.inf, 0.0, bound), reference.sigmoid(bound) - 0.5)
    # What the uniform tanh gives away: at most the ratio of the largest slope on the box, 1/4, to the smallest one.
    assert worst <= math.tanh(w / 4) * (1 - 4 * constants.logistic_alpha(bound)) + 1e-3


# Coverage ------------------------------------------------------------------------------------------------------------
def allowed(runs):
    return int(stats.binom.isf(1e-6, runs, DELTA))


def coverage(d, bound, how, lam, runs, steps):
    """Runs in which ||theta - theta*||_V^2 exceeded the radius, the radius without ln(1/delta), and the radius over 4;
    the largest ratio; upper ends of intervals that lay below the mean although the set held."""
    failures, worst, missed = np.zeros(3, int), 0.0, 0
    for run in range(runs):
        g = np.random.default_rng([run, d])
        theta = g.standard_normal(d)
        theta *= bound / np.linalg.norm(theta)
        agent = bandit(d, bound, delta=3 * DELTA, reward_regularization=lam)
        state, log = agent.state.rewards, 8.0 * math.log(1 / DELTA)
        failed = np.zeros(3, bool)
        for t in range(steps):
            if how == "cycle":
                x = np.eye(d)[t % d]
            elif how == "widest":  # an adversary who sees the learner
                x = np.linalg.eigh(state.inverse[0, 0])[1][:, -1] * (-1) ** t
            else:
                x = g.standard_normal(d)
                x *= g.random() ** 0.5 / np.linalg.norm(x)
            mean = reference.sigmoid(theta @ x)
            upper = feed(agent, x, float(g.random() < mean))
            missed += not failed[0] and upper < mean - 1e-12
            e = state.theta[0, 0] - theta
            distance, radius = e @ state.gram[0, 0] @ e, state.radius[0, 0] + log
            failed |= distance > np.array([radius, radius - log, radius / 4])
            worst = max(worst, distance / radius)
        failures += failed
    return failures, worst, missed


@pytest.mark.long
@pytest.mark.parametrize(("d", "bound", "how", "lam"), [
    (2, 1.0, "random", None), (3, 2.0, "cycle", None), (2, 1.5, "widest", None), (2, 3.0, "cycle", 0.01),
])  # fmt: skip
def test_logistic_reward_sets_cover(d, bound, how, lam):
    """At every t of 200 runs, with DELTA = 0.3. A set that fails with probability at most DELTA fails in more than
    `allowed(200)` runs with probability below 1e-6. The interval covers wherever the set holds: no chance involved."""
    failures, worst, missed = coverage(d, bound, how, lam, 200, 80)
    assert failures[0] <= allowed(200)
    assert missed == 0
    assert worst > 0.1  # not vacuously large


@pytest.mark.long
def test_coverage_would_notice_a_wrong_radius():
    """The same experiment: the set passes; without its ln(1/delta) term, or divided by 4, it does not."""
    failures, _, _ = coverage(2, 1.0, "random", None, 200, 80)
    assert failures[0] <= allowed(200)
    assert min(failures[1:]) > allowed(200)


@pytest.mark.long
def test_optimism_never_fails_where_the_sets_held():
    """GLM-ORL at DELTA on a world with logistic rewards: 20 runs, error probability below 1e-6 for the sets; the rest
    is proved and must not fail once."""
    w = world("logit", "logistic", False)
    run = nr.simulate(nr.GLMORL(w.problem, delta=DELTA), w, 1500, 20, every=1500, diagnostics=True)
    count = {k: v[:, -1] for k, v in run.diagnostics.items()}
    assert (count["justified_failures"] == 0).all()
    assert (count["set_failures"] > 0).sum() <= allowed(20)
    assert (count["reward_width"] > 0).all()
    known = world("logit", "logistic", True)
    run = nr.simulate(nr.GLMORL(known.problem, delta=DELTA), known, 1500, 20, every=1500, diagnostics=True)
    assert (run.diagnostics["justified_failures"][:, -1] == 0).all()
    assert (run.diagnostics["reward_width"][:, -1] == 0).all()


# Bad input, files ----------------------------------------------------------------------------------------------------
def test_rewards_must_be_zero_or_one_where_they_are_logistic():
    agent = nr.GLMORL(nr.Problem(3, 2, 2, 2, rewards="logistic", weight_bound=1.0, reward_bound=1.0))
    agent.begin_episode([0.5, 0.5])
    agent.act(0)
    with pytest.raises(ValueError, match=r"reward must be 0 or 1 \(or nan\) where the problem's rewards are logistic"):
        agent.observe(0.5, 0)
    agent.observe(math.nan, 0)
    assert agent.act(0) in (0, 1)


@pytest.mark.parametrize(("options", "message"), [
    ({"rewards": "probit"}, "rewards must be one of 'linear', 'logistic', got 'probit'"),
    ({"known_rewards": np.zeros((3, 2))}, r"known_rewards must have shape \(3, 2, 2\), got \(3, 2\)"),
    ({"known_rewards": np.full((3, 2, 2), np.nan)}, r"known_rewards must be finite, got nan at index \(0, 0, 0\)"),
    ({"known_rewards": np.full((3, 2, 2), 0.9)}, r"known_rewards\[0, 0\] has norm 1.27279, above reward_bound = 1"),
    ({"rewards": "logistic", "reward_bound": 400.0}, r"reward_bound \* context_bound must be at most 350"),
])  # fmt: skip
def test_problem(options, message):
    with pytest.raises(ValueError, match=message):
        nr.Problem(3, 2, 2, 2, **{"weight_bound": 1.0, "reward_bound": 1.0} | options)


def test_known_rewards_are_the_worlds():
    theta, W = np.full((3, 2, 2), 0.3), np.zeros((3, 2, 3, 2))
    problem = nr.Problem(3, 2, 2, 2, known_rewards=theta, weight_bound=1.0, reward_bound=1.0)
    contexts = [[0.6, 0.6], [0.1, 0.9]]
    for given in (None, theta):
        assert np.array_equal(nr.World(problem, W, given, contexts).reward_weights, theta)
    other = theta.copy()
    other[1, 1, 0] += 1e-6
    with pytest.raises(ValueError, match="reward_weights must be None or the problem's known_rewards, they differ"):
        nr.World(problem, W, other, contexts)
    with pytest.raises(ValueError, match="reward_weights must be given: the problem has no known rewards"):
        nr.World(nr.Problem(3, 2, 2, 2, weight_bound=1.0, reward_bound=1.0), W, None, contexts)
    theta[:] = 9.0  # the problem has its own copy
    assert problem.known_rewards.max() == 0.3


def test_mean_reward_refuses():
    for reward in ("a", None, [0.5], 2.0, float("nan")):
        with pytest.raises(ValueError, match="reward must be a number from 0 to 1"):
            nr.estimators.MeanReward(2).update([0.6, 0.8], reward)
    with pytest.raises(ValueError, match=r"reward must be 0 or 1, got 0\.5"):
        nr.estimators.MeanReward(2, "logistic").update([0.6, 0.8], 0.5)
    with pytest.raises(ValueError, match=r"^regularization must be a positive number, got 0"):
        nr.estimators.MeanReward(2, regularization=0)


def test_printed_constants_have_no_logistic_rewards():
    for made in (nr.GLMORL, nr.GLMRLSVI):
        with pytest.raises(ValueError, match="logistic"):
            made(nr.Problem(3, 2, 2, 2, rewards="logistic", weight_bound=1.0, reward_bound=1.0), constants="paper")


@pytest.mark.parametrize(("rewards", "known"), [("logistic", False), ("logistic", True), ("linear", True)])
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi", "epsilon-greedy"])
def test_saved_agents_go_on_identically(tmp_path, kind, rewards, known):
    w = world("masked-logit", rewards, known)
    agent, other = saved_and_continued(nr.make_agent(kind, w.problem, seed=5), w, tmp_path / "agent.npz", 5)
    assert other.problem.rewards == rewards
    assert (other.problem.known_rewards is not None) == known
    assert np.array_equal(agent.state.rewards.theta, other.state.rewards.theta)


@pytest.mark.parametrize("name", ["glm-orl", "orlc-si", "abbasi-yadkori-neu", "ucrl-mnl"])
def test_a_bonus_is_scaled_and_then_cut_to_one(name):
    """With nothing known the half-width at ||x|| = 1 is sqrt(lambda) B_r + sqrt(2 ln(1/delta))/2 over sqrt(lambda),
    far above 1 here: a hundredth of it is a bonus of that size, not of 1/100, and a tenth is cut to 1."""
    link = nr.LinearCombination() if name in ("orlc-si", "abbasi-yadkori-neu") else nr.MultinomialLogit()
    problem = nr.Problem(2, 2, 1, 2, link=link, weight_bound=None if link.implied_weight_bound(2) else 1.0,
                         reward_bound=50.0)  # fmt: skip
    x = np.array([1.0, 0.0])
    for scale in (1.0, 0.1, 0.01, 0.0):
        agent = nr.make_agent(name, problem, bonus_scale=scale)
        agent.begin_episode(x)
        log = agent.par.log_reward if name == "ucrl-mnl" else agent.par.log_confidence
        half = 50.0 + 0.5 * math.sqrt(2 * log)
        bonus = agent.work.belief.bonus if name == "glm-orl" else agent.work.bonus
        assert np.allclose(bonus, min(1.0, scale * half), rtol=1e-12, atol=0), scale
        interval = agent.work.belief.interval if name == "glm-orl" else agent.work.interval
        assert np.array_equal(interval, np.ones((2, 2)))  # what is said of the mean does not depend on the scale


def test_a_scaled_agent_goes_on_looking_at_a_bandit():
    """Two arms, the first seen five times. Half a bonus of the other is still more than 1 and is cut to 1, so that it
    counts as worth all there is; cut first and then halved, it had .5, less than what is known of the first arm."""
    problem = nr.Problem(1, 2, 1, 1, weight_bound=1.0, reward_bound=1.0)
    agent = nr.GLMORL(problem, bonus_scale=0.5)
    for _ in range(5):
        agent.begin_episode([1.0])
        agent.act(0, action=0)
        agent.observe(1.0, 0)
        agent.end_episode()
    plan = agent.begin_episode([1.0])
    half = [
        (1.0 + 0.5 * math.sqrt(2 * agent.par.log_confidence + math.log(1 + n))) / math.sqrt(1 + n) for n in (5.0, 0.0)
    ]
    assert 0.5 * half[1] > 1.0 > 0.5 * half[0] > 0.5  # the bonus of the arm that was never seen is all there is
    assert np.allclose(agent.work.belief.bonus[0], [0.5 * half[0], 1.0])
    assert plan.values[0, 0] == 1.0
