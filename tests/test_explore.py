"""Exploration by a random part of the measured uncertainty (docs/exploration.md): against its twin in NumPy
(`reference_explore`), what it promises in words, and its files."""

import dataclasses
import functools
import io
import math
import warnings

import numpy as np
import pytest
from scipy import stats

import calibration
import noregret as nr
import reference_explore
from benchmarks.beds import Size, WorldBed, deep_sea
from live import arrays_of, differing, follow, played, saved_and_continued
from mutations import Source, changed_array, used
from noregret.agents.local.explore import boldness
from noregret.beliefs.local import MORE, local_sets
from noregret.compiler.jit import direct, kernel
from noregret.estimators.chance import shares_of
from noregret.estimators.rewards.calibrated import noise_of_all
from noregret.numerics.random import POSTERIOR, normals
from noregret.planning.optimism import TAYLOR, optimum, search_parts
from noregret.storage import archive
from test_agreement import masked

EPISODES = 60


@functools.cache
def world(name):
    if name == "dense":
        return nr.worlds.random_logit(4, 3, 4, 3)
    if name == "clinic":
        return nr.worlds.clinic()
    if name == "masked":  # pairs with one to three outcomes, contexts of different lengths, a random initial state
        return masked(nr.MultinomialLogit(), certain=True)
    if name == "linear":
        return nr.worlds.random_linear(3, 3, 5, 2, seed=4)
    if name in ("sure", "sure-2"):  # every pair leads to one state, some to themselves; d = 1, or people are alike
        g, d = np.random.default_rng(5), 1 if name == "sure" else 2
        weights, theta = np.repeat(np.eye(5)[g.integers(5, size=(5, 3))][..., None], d, -1), np.zeros((5, 3, d))
        theta[4], theta[1, 0] = 1.0, 0.3
        return nr.World(nr.Problem(5, 3, 6, d, nr.LinearCombination(), reward_bound=1.5), weights, theta)
    if name == "sure-known":
        w = world("sure")
        problem = dataclasses.replace(w.problem, known_rewards=w.reward_weights)
        return nr.World(problem, w.weights, w.reward_weights, w.contexts)
    if name == "linear-masked":
        return masked(nr.LinearCombination(), certain=True)
    if name == "zero":  # contexts of many lengths, 0 among them
        w = world("dense")
        people = nr.contexts.Table([[0.0, 0.0, 0.0], [0.6, 0.3, -0.5], [0.1, 0.0, 0.02], [1e-7, 0.0, 0.0]])
        return nr.World(w.problem, w.weights, np.abs(w.reward_weights) / 2, people)
    if name == "known":
        w = world("dense")
        problem = dataclasses.replace(w.problem, known_rewards=w.reward_weights)
        return nr.World(problem, w.weights, w.reward_weights, w.contexts)
    if name == "logistic":
        w = world("dense")
        problem = dataclasses.replace(w.problem, rewards="logistic", reward_bound=3.0)
        theta = 3.0 * w.reward_weights / np.linalg.norm(w.reward_weights, axis=-1, keepdims=True)
        return nr.World(problem, w.weights, theta - theta.mean(1, keepdims=True) * 0.5, w.contexts)
    if name == "one-step":
        return nr.worlds.random_logit(2, 4, 1, 3, seed=2)
    if name == "bandit":
        return nr.worlds.bandit_logistic(3, 2)
    g = np.random.default_rng(7)
    psi = np.concatenate([np.ones((4, 3, 1)), g.uniform(-1.0, 1.0, (4, 3, 1))], axis=-1) / np.sqrt(2.0)
    of_rewards = nr.RewardDesign(psi, [1.0, 2.5], np.arange(12).reshape(4, 3) % 2)
    if name == "design":  # two blocks of transitions, two of rewards with different bounds
        design = nr.worlds.random_design(4, 3, features=3, blocks=2, bound=2.0)
        return nr.worlds.random_logit(horizon=4, context_dim=2, design=design, reward_design=of_rewards, seed=2)
    if name in ("loose", "design-loose"):  # bounds far above what is true
        w = world("dense" if name == "loose" else "design-pairs")
        p = w.problem
        d = p.design
        design = None if d is None else nr.Design(d.features, 60.0, d.block)
        told = dataclasses.replace(p, weight_bound=40.0, design=design)
        return nr.World(told, w.slots, w.reward_weights, w.contexts)
    if name == "reward-design":  # of rewards alone
        return nr.worlds.random_logit(4, 3, 4, 2, reward_design=of_rewards, seed=2)
    if name == "design-pairs":  # of transitions alone
        design = nr.worlds.random_design(4, 3, features=3, blocks=2, bound=2.0)
        return nr.worlds.random_logit(horizon=4, context_dim=2, design=design, seed=2)
    if name == "design-logistic":
        w = world("reward-design")
        problem = dataclasses.replace(w.problem, rewards="logistic")
        return nr.World(problem, w.weights, w.reward_weights, w.contexts)
    raise KeyError(name)


WORLDS = (
    "dense", "clinic", "masked", "linear", "sure", "sure-2", "sure-known",
    "linear-masked", "zero", "known", "logistic", "one-step", "bandit", "design",
    "reward-design", "design-pairs", "design-logistic", "loose", "design-loose",
)  # fmt: skip


def close(actual, wanted):
    np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-9)


def nearly(actual, wanted):
    """Where contexts are 1e-7 of their bound, and V is rounded by 1e-8 of its lambda."""
    np.testing.assert_allclose(actual, wanted, rtol=1e-7, atol=1e-7)


# The twin ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", WORLDS)
def test_plans_of_the_live_verbs(name):
    """With short episodes and unseen rewards."""
    agent = nr.PSRLGLM(world(name).problem, seed=5)
    learner = reference_explore.Explorer(world(name).problem, 5)
    follow(agent, learner, world(name), EPISODES, nearly if name == "zero" else close)
    assert learner.bold > 0


@kernel
def planned(par, local, work, mean, scale, policy, values):
    optimum(par, local, work, mean, 0, scale, policy, values)


def chain(stays):
    """(P, spreads, what is known of the way) of six states in a row, each of which leads to the next one for sure, or
    of one that stays beside five that are not met; H = 5."""
    c = np.array([0.02, 0.05, 0.01, 0.03, 0.04, 0.06])
    met = c[[0] * 5] if stays else c[:5]
    pairs = [(i, j) for i in range(5) for j in range(i)]
    variance = (met**2).sum() + 2.0 * sum(met[i] * met[j] * (1.0 if stays else 1.0 / 6.0) for i, j in pairs)
    return np.eye(6) if stays else np.eye(6)[[1, 2, 3, 4, 5, 5]], c, min(met.sum(), math.sqrt(2.0 * variance))


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_errors_of_independent_pairs_cancel_and_those_of_one_pair_do_not(stays, scale):
    """Rewards alone are not known, with standard deviation c: along a chain of pairs and for a pair that is met five
    times. There standard deviations add, and here variances, with a correlation of 1/6."""
    P, c, wanted = chain(stays)
    problem = nr.Problem(6, 1, 5, 1, nr.LinearCombination(), reward_bound=1.0)
    local = local_sets(problem.layout)
    local.P[:, 0], local.rho[:], local.half[:] = P, 1.0, MORE
    mean, policy, values = np.full((6, 1), 0.1), np.zeros((5, 6), np.int64), np.zeros((6, 6))
    local.high[:] = mean + c[:, None]
    par, work = search_parts(problem.layout, local, 0, TAYLOR, bounds=False, ways=True)
    direct(planned, par, local, work, mean, scale, policy, values)(par, local, work, mean, scale, policy, values)
    close(values[0, 0], 0.5 + scale * wanted)
    assert wanted < c[:5].sum() or stays


def test_short_ways_are_explored_as_ever_and_long_ones_less():
    """Both ends of the minimum are met: the twin counts them."""
    for name in ("dense", "linear"):
        learner = reference_explore.run(world(name), EPISODES, 3)[1]
        assert learner.summed > 0
        assert learner.added > 0


@pytest.mark.parametrize("name", ["dense", "linear", "reward-design"])
def test_rewards_between_0_and_1(name):
    """Those of the worlds are 0 or 1. Here some are between, of few pairs at first, and within a small range."""
    w = world(name)
    agent, learner = nr.PSRLGLM(w.problem, seed=5), reference_explore.Explorer(w.problem, 5)
    for k in range(EPISODES):
        person, path = w.individual(k, 5), []
        plan = agent.begin_episode(person.context)
        policy, values = learner.plan(person.context, k)
        assert np.array_equal(plan.policy, policy)
        close(plan.values, values)
        for _ in range(w.problem.horizon):
            s, a = person.state, agent.act(person.state)
            _, after = person.step(a)
            paid = (0.1 + 0.02 * ((k + s) % 3)) * (a != 1 or k > 20)
            agent.observe(paid, after)
            path.append((s, a, paid, after))
        agent.end_episode()
        learner.learn(person.context, path)
    assert 0 < agent.state.means.inside.sum() < agent.state.means.samples.sum()


@pytest.mark.parametrize("name", WORLDS)
def test_simulated_runs(name):
    wanted, learner = reference_explore.run(world(name), EPISODES, 3)
    run = nr.simulate(nr.PSRLGLM(world(name).problem), world(name), EPISODES, seeds=[3])
    (nearly if name == "zero" else close)(run.regret[0], wanted)
    assert learner.ties < 0.6 * learner.decisions  # the comparison means something


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dense", {"form": "kron"}),
        ("dense", {"posterior_scale": 0.3, "regularization": 0.5, "reward_regularization": 0.2}),
        ("masked", {"posterior_scale": 2.0, "regularization": 3.0, "reward_regularization": 5.0}),
        ("logistic", {"reward_regularization": 0.4}),
        ("logistic", {"reward_regularization": 0.05}),  # a quarter of the mean of ||x||^2 is more
        ("design-logistic", {"reward_regularization": 0.02}),
        ("linear", {"regularization": 0.5, "posterior_scale": 0.0}),
    ],
)
def test_options(name, options):
    agent = nr.PSRLGLM(world(name).problem, seed=5, **options)
    follow(agent, reference_explore.Explorer(world(name).problem, 5, **options), world(name), EPISODES, close)


@pytest.mark.parametrize("name", ["loose", "design-loose"])
def test_bounds_are_no_priors(name):
    """However large the bounds are, a logit begins with a standard deviation of at most 2 at the first context that is
    learned. A posterior that is sampled takes the bounds for what they say, and so does whoever is told lambda."""
    w = world(name)
    p, x = w.problem, 0.25 * w.context(0, 0)
    longest = np.linalg.norm(x)
    if p.blocks is not None:  # of features less their mean over the pair
        phi = p.blocks.features - p.blocks.features.mean(2, keepdims=True)
        longest *= np.sqrt((phi**2).sum(-1).mean())

    def deviation(agent=nr.PSRLGLM, **options):
        made = agent(p, **options)
        made.begin_episode(x)
        made.act(0)
        made.observe(0.0, 1)
        made.end_episode()
        kept = made.state.sampler
        one = kept.precision @ kept.inverse if p.blocks is None else kept.gram @ kept.inverse
        np.testing.assert_allclose(one, np.broadcast_to(np.eye(one.shape[-1]), one.shape), atol=1e-9)
        if p.blocks is None:
            return longest / np.sqrt(kept.prior).min()
        unseen = kept.samples == 0
        return longest * np.sqrt(np.diagonal(kept.inverse[unseen], axis1=1, axis2=2)[:, : p.blocks.start[0, -1]]).max()

    for agent in (nr.PSRLGLM, nr.CertifiedPSRL):
        assert deviation(agent) == pytest.approx(2.0)
        assert deviation(agent, form="kron") == pytest.approx(2.0) if p.blocks is None else True
    assert deviation(exploration="posterior") > 2.5
    assert deviation(regularization=0.01) == pytest.approx(10.0 * longest)


@pytest.mark.parametrize("name", ["loose", "design-loose"])
def test_who_leaves_without_a_step_settles_no_prior(name):
    w = world(name)
    agent, learner = nr.PSRLGLM(w.problem, seed=5), reference_explore.Explorer(w.problem, 5)
    for k in range(12):
        x = w.context(0, k) * (1.0 if k == 0 else 0.1)
        plan = agent.begin_episode(x)
        policy, values = learner.plan(x, k)
        assert np.array_equal(plan.policy, policy)
        close(plan.values, values)
        if k > 0:
            action = agent.act(0)
            agent.observe(0.0, 1)
            learner.learn(x, [(0, action, 0.0, 1)])
        agent.end_episode()


def test_files_keep_a_prior_and_take_no_other(tmp_path):
    """Of sets, of a posterior that was told its lambda, and of one that waits for the first context."""
    w, file = world("loose"), tmp_path / "agent.npz"
    for agent in (nr.LRORL(w.problem), nr.LRORL(w.problem, regularization=1e31), nr.PSRLGLM(w.problem)):
        x, state = w.context(0, 0), agent.state
        for _ in range(2):  # before anybody was learned, and after
            agent.save(file)
            for node in ("transitions", "sampler"):
                assert np.array_equal(getattr(nr.load(file).state, node).prior, getattr(state, node).prior)
            agent.begin_episode(x)
            agent.act(0)
            agent.observe(0.0, 1)
            agent.end_episode()
    for agent, kept in (
        (nr.LRORL(w.problem), "transitions"),
        (nr.PSRLGLM(w.problem, exploration="posterior"), "sampler"),
    ):
        getattr(agent.state, kept).prior[0, 0] *= 2.0
        agent.save(file)
        with pytest.raises(ValueError, match="prior is not what the problem and the options make it"):
            nr.load(file)


def test_a_river_whose_ways_are_not_told_is_found():
    """RiverSwim of eight places, all of them possible after each for all that is known, and a bound of 14 on logits.
    With a prior as wide as the bound one look was believed: 590 in 600 episodes, where uniform play loses 1,550."""
    w = nr.worlds.riverswim_logit(8, 24, features="pairs", known_support=False, shared=False)
    assert w.problem.weight_bound > 14.0
    assert nr.simulate(nr.PSRLGLM(w.problem), w, 300, seeds=4).final.max() < 100.0


class First:
    """Certified PSRL whose gate lets everything pass, with the values of its first candidate for those of the plan."""

    def __init__(self, problem, **options):
        self.agent = nr.CertifiedPSRL(problem, kappa=1e12, **options)
        self.act, self.observe, self.end_episode = self.agent.act, self.agent.observe, self.agent.end_episode

    def begin_episode(self, x):
        plan = self.agent.begin_episode(x)
        return dataclasses.replace(plan, values=self.agent.work.values.copy(), lower=None, upper=None)


@pytest.mark.parametrize("name", WORLDS)
def test_the_first_candidate_of_the_gate(name):
    agent = First(world(name).problem, seed=5)
    to = nearly if name == "zero" else close
    follow(agent, reference_explore.Explorer(world(name).problem, 5), world(name), 30, to)
    assert agent.agent.gate["draw"] == 30


@pytest.mark.parametrize("name", ["dense", "design"])
def test_the_first_candidate_with_stored_sets(name):
    agent = First(world(name).problem, seed=5, sets="stored")
    follow(agent, reference_explore.Explorer(world(name).problem, 5), world(name), 15, close)


@pytest.mark.parametrize("name", ["dense", "masked", "linear"])
def test_simulated_runs_of_the_gate(name):
    wanted, _ = reference_explore.run(world(name), EPISODES, 3)
    run = nr.simulate(nr.CertifiedPSRL(world(name).problem, kappa=1e12), world(name), EPISODES, seeds=[3])
    close(run.regret[0], wanted)


def test_the_gate():
    """Every candidate that the gate plays, and the values and bounds of the plan."""
    w = nr.worlds.random_logit(2, 2, 12, 2, weight_bound=1.0, seed=1)
    options = {"kappa": 0.02, "delta": 0.5}
    agent = nr.CertifiedPSRL(w.problem, seed=3, reward_sets="ridge", **options)
    learner = reference_explore.Gate(w.problem, 3, **options)
    for k in range(100):
        person = w.individual(k, 3)
        plan, wanted = agent.begin_episode(person.context), learner.begin(person.context)
        assert np.array_equal(plan.policy, wanted.policy)
        np.testing.assert_allclose(plan.values, wanted.values, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(plan.lower, wanted.lower, rtol=1e-8, atol=1e-8)
        for _ in range(w.problem.horizon):
            state = person.state
            seen = person.step(agent.act(state))
            learner.observe(state, int(plan.policy[person.steps - 1, state]), *seen)
            agent.observe(*seen)
        agent.end_episode()
        learner.end()
    assert len(set(learner.gate)) >= 4
    assert agent.gate["draw"] == learner.gate.count(0) > 0


# What it promises in words -------------------------------------------------------------------------------------------
def in_other_units(w, times):
    """The world with contexts so many times as long, and weights as much shorter."""
    p = w.problem
    told = {"context_bound": p.context_bound * times}
    told |= {"weight_bound": p.weight_bound / times, "reward_bound": p.reward_bound / times}
    contexts = nr.contexts.Table(np.stack([w.context(0, k) for k in range(50)]) * times)
    problem = dataclasses.replace(p, **told)
    return nr.World(problem, w.weights / times, w.reward_weights / times, contexts, w.initial_state)


@pytest.mark.parametrize("name", ["dense", "clinic", "logistic", "masked"])
def test_units_of_contexts_change_no_decision(name):
    """The prior has the length of the contexts."""
    here, there = in_other_units(world(name), 1.0), in_other_units(world(name), 10.0)
    one, other = nr.PSRLGLM(here.problem, seed=2), nr.PSRLGLM(there.problem, seed=2)
    for k in range(EPISODES):
        person, same = here.individual(k, 2), there.individual(k, 2)
        plan, planned = one.begin_episode(person.context), other.begin_episode(same.context)
        assert np.array_equal(plan.policy, planned.policy)
        close(planned.values, plan.values)
        for _ in range(here.problem.horizon):
            for agent, who in ((one, person), (other, same)):
                agent.observe(*who.step(agent.act(who.state)))
        one.end_episode()
        other.end_episode()


@pytest.mark.deep
def test_a_bound_on_contexts_that_is_far_too_large():
    """75 times as large, which is nearly what the weights' bound allows: regret within a factor of 1.5, on the same
    people. Fixed seeds."""
    w = world("clinic")
    problem = dataclasses.replace(w.problem, context_bound=75.0 * w.problem.context_bound)
    loose = nr.World(problem, w.weights, w.reward_weights, w.contexts, w.initial_state)
    lost = [nr.simulate(nr.PSRLGLM(where.problem), where, 600, seeds=range(12)).final.mean() for where in (w, loose)]
    assert lost[1] < 1.5 * lost[0]
    assert lost[0] < 1.5 * lost[1]


def one_state(actions=2, dim=2, **told):
    """A problem of one step and one state."""
    return nr.Problem(1, actions, 1, dim, weight_bound=1.0, **{"reward_bound": 1.0} | told)


def fed(agent, contexts, reward_of):
    """Episodes of one step; the actions that were taken."""
    actions = []
    for k, x in enumerate(contexts):
        agent.begin_episode(x)
        actions.append(agent.act(0))
        agent.observe(reward_of(k, actions[-1]), 0)
        agent.end_episode()
    return actions


def used_of(inside, seen, rest, free):
    """The part of the range that rewards use (docs/exploration.md); inside [S, A], seen: the length they took, rest and
    free: added up over the pairs that paid something between 0 and 1."""
    m, tau = np.sqrt(inside * np.sum(inside)), math.sqrt((2.0 * seen**2 + rest) / (8.0 + free))
    return ((8.0 + m * min(seen, 2.0 * tau) ** 0.85) / (8.0 + m)) ** (1.0 / 0.85)


def test_the_noise_of_rewards_is_found():
    """sigma^2 after n rewards theta'x + e, e uniform on [-c, c]. The regularised sum of squares lies between
    sum e^2 - ||Pi e||^2 and sum e^2 + lambda ||theta||^2, Pi the projection on d = 2 directions; 4 rewards have at most
    half the range that was seen. sum e^2 is within
    Hoeffding's bound, and ||Pi e||^2 <= c^2 (d + 2 sqrt(d t) + 2 t) (Hsu, Kakade and Zhang 2012), t = ln(1/delta), each
    but for delta = 1e-7."""
    n, c, t, g = 3000, 0.1, math.log(1e7), np.random.default_rng(1)
    angle = g.uniform(0.0, 2.0 * math.pi, n)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 0.3 + [0.6, 0.0]
    theta, e = np.array([0.7, 0.2]), g.uniform(-c, c, n)
    agent = nr.PSRLGLM(one_state(actions=1))
    rewards = X @ theta + e
    fed(agent, X, lambda k, a: float(rewards[k]))
    state = agent.state.means
    seen, found = int(state.measured[0, 0]), float(noise_of_all(state)[0, 0])
    assert state.samples[0, 0] == n
    assert seen >= n / 1.5 - 1
    hoeffding = c**2 * math.sqrt((t + math.log(2.0)) / (2.0 * seen))
    first = ((8.0 + n * np.ptp(rewards)) / (8.0 + n)) ** 2
    low = (seen * (c**2 / 3.0 - hoeffding) - c**2 * (2.0 + 2.0 * math.sqrt(2.0 * t) + 2.0 * t)) / (4.0 + seen)
    high = (first + seen * (c**2 / 3.0 + hoeffding) + theta @ theta) / (4.0 + seen)
    assert low < found < high
    assert 0.7 * c**2 / 3.0 < low
    assert high < 2.0 * c**2 / 3.0
    length = (X[:seen] ** 2).sum() / seen
    used = used_of(seen, np.ptp(rewards[:seen]), state.rest[0, 0], seen - 2)
    then = (used**2 + state.rest[0, 0]) / (4.0 + seen)
    np.testing.assert_allclose(state.level[0, 0], max(4.0 * then, 1e-3) * length, rtol=1e-9)


def test_the_range_of_rewards_is_that_of_all_pairs():
    """What one action pays says how far the rewards of the other may lie, as soon as that has paid something between 0
    and 1; a reward at an end of the range takes effect at once."""
    agent, x = nr.PSRLGLM(one_state()), [0.6, 0.3]
    fed(agent, [x] * 40, lambda k, a: 0.2 + 0.01 * a)
    state = agent.state.means
    assert state.samples.min() > 0
    assert np.array_equal(state.inside, state.samples)
    close(state.seen, [0.2, 0.21])
    used = used_of(state.inside, 0.01, state.rest.sum(), np.maximum(state.measured - 2, 0).sum())
    close(noise_of_all(state), (used**2 + state.rest) / (4.0 + state.measured))
    agent.begin_episode(x)
    agent.act(0)
    before = noise_of_all(state)
    agent.observe(1.0, 0)
    agent.end_episode()
    assert np.all(noise_of_all(state) > 3.0 * before)  # that of the other action as well


def test_an_action_that_paid_nothing_may_pay_much():
    """All others pay .05 +- .01. One that has paid 0 may be one that pays 0 or 1, and has the noise of those."""
    agent = nr.PSRLGLM(one_state(actions=4))
    fed(agent, [[0.6, 0.3]] * 200, lambda k, a: 0.0 if a == 2 else 0.05 + 0.01 * (-1) ** k)
    state = agent.state.means
    n = int(state.measured[0, 2])
    assert n > 0
    close(noise_of_all(state)[0, 2], 2.0 / (8.0 + n))
    others = [0, 1, 3]
    assert np.all(noise_of_all(state)[0, others] < 0.5 * 2.0 / (8.0 + state.measured[0, others]))


def test_small_rewards_are_told_apart():
    """Two actions that pay .02 and .03 of a range of 1, within .002. Fixed seeds; the worse one was taken 130 times of
    1,000 while 8 rewards had a noise of 1/2 whatever was seen, and 41 times since."""
    g = np.random.default_rng(5)
    actions = fed(nr.PSRLGLM(one_state()), [[0.6, 0.3]] * 1000, lambda k, a: 0.02 + 0.01 * a + 0.002 * g.uniform(-1, 1))
    assert actions.count(0) < 50


def test_the_share_of_the_prior_begins_at_one_and_vanishes():
    """With equal rewards the noise only becomes smaller, and so does the share after every reward; of an action that
    was not taken it stays."""
    agent, x, shares = nr.PSRLGLM(one_state()), np.array([0.6, 0.3]), []
    agent.begin_episode(x)
    assert np.array_equal(agent.work.share, np.ones((1, 2)))
    taken = agent.act(0)
    for _ in range(60):
        agent.observe(0.9, 0)
        agent.end_episode()
        agent.begin_episode(x)
        shares.append(agent.work.share[0].copy())
        close(shares[-1][1 - taken], 1.0)
        if agent.act(0) != taken:
            break
    shares = np.array(shares)[:, taken]
    assert len(shares) > 5
    assert np.all(np.diff(shares) < 0.0)
    assert shares[0] < 1.0


@pytest.mark.parametrize("rewards", ["linear", "logistic"])
@pytest.mark.parametrize("paid", [0.0, 0.3, 0.9])
def test_an_unseen_action_is_tried(rewards, paid):
    """Whatever the other one pays. With 0.9 it looks better where |z|/2 or, boldly, |z| exceeds about 0.8: in one
    episode of ten."""
    agent, g = nr.PSRLGLM(one_state(rewards=rewards, reward_bound=3.0)), np.random.default_rng(0)
    pays = (lambda k, a: paid) if rewards == "linear" else (lambda k, a: float(g.random() < paid))
    actions = fed(agent, [[0.6, 0.6]] * 150, pays)
    assert set(actions) == {0, 1}


@pytest.mark.deep
def test_one_episode_of_fifty_is_bold():
    """Exact binomial tests at 1e-6: of the numbers of 10^5 episodes, and of those with a large |z|, which must not say
    anything about it."""
    drawn = np.abs([normals(11, k, 0, POSTERIOR) for k in range(100_000)])
    bold = drawn[:, 1] > stats.norm.isf(0.01)
    assert stats.binomtest(int(bold.sum()), bold.size, 0.02).pvalue > 1e-6
    large = drawn[:, 0] > 1.0
    assert stats.binomtest(int(bold[large].sum()), int(large.sum()), 0.02).pvalue > 1e-6


def test_the_longer_it_takes_the_oftener_episodes_are_bold():
    assert [round(boldness.py_func(k), 4) for k in (0, 1000, 2000, 100_000)] == [0.02, 0.02, 0.0755, 0.3884]
    w = world("one-step")
    agent, learner = nr.PSRLGLM(w.problem, seed=5), reference_explore.Explorer(w.problem, 5)
    for k in range(0, 4000, 1):  # nobody is learned, so that plans differ by their numbers alone
        x = w.context(0, k)
        plan = agent.begin_episode(x)
        if k >= 3900:
            policy, values = learner.plan(x, k)
            assert np.array_equal(plan.policy, policy)
            close(plan.values, values)
        agent.end_episode()
    assert 4 < learner.bold < 25  # of a hundred, 10.9 to 11.1% each


# Chance --------------------------------------------------------------------------------------------------------------
@kernel
def shares_kernel(chance, count, out):
    out[0], out[1] = shares_of(chance, count)


def shares(agent):
    """phi of steps and of rewards."""
    args = agent.state.chance, agent.problem.layout.count, np.zeros(2)
    direct(shares_kernel, *args)(*args)
    return args[2]


def test_where_every_pair_changes_all_is_chance():
    """Steps that go back and forth; exactly 1, so that nothing else is planned, though rewards are always 0."""
    agent = nr.PSRLGLM(nr.Problem(2, 1, 6, 1, nr.LinearCombination(), reward_bound=1.0))
    for k in range(30):
        agent.begin_episode([1.0])
        state = 0
        for h in range(6):
            agent.act(state)
            state = (h // 2 + k) % 2
            agent.observe(0.0, state)
        agent.end_episode()
    assert agent.state.chance.turned.min() > 0
    assert agent.state.chance.varied.max() == 0
    assert np.array_equal(shares(agent), [1.0, 1.0])


def test_arms_say_nothing_of_chance():
    """Whatever they pay: steps say nothing there, and rewards are believed to be sure only where steps are."""
    agent = nr.PSRLGLM(one_state(actions=5))
    fed(agent, [[0.6, 0.3]] * 100, lambda k, a: 0.0)
    assert agent.state.chance.rewards.sum() == 100
    assert agent.state.chance.steps.sum() == 0
    assert np.array_equal(shares(agent), [1.0, 1.0])


def test_pairs_with_one_possible_next_state_say_nothing_of_chance():
    support = np.zeros((3, 2, 3), bool)
    support[[0, 1, 2], :, [1, 2, 0]] = True
    problem = nr.Problem(3, 2, 6, 1, nr.LinearCombination(), reward_bound=1.0, support=support, initial_states=(0,))
    agent = nr.PSRLGLM(problem)
    for _ in range(30):
        agent.begin_episode([1.0])
        for h in range(6):
            agent.act(h % 3)
            agent.observe(0.0, (h + 1) % 3)
        agent.end_episode()
    assert agent.state.chance.steps.sum() == 150
    assert np.array_equal(shares(agent), [1.0, 1.0])


def test_what_is_always_the_same_becomes_sure():
    """Next states and rewards of 5 states and 3 actions, those of the last steps not looked at."""
    for name in ("sure", "sure-2"):
        w = world(name)
        agent = nr.PSRLGLM(w.problem, seed=1)
        played(agent, w, range(100))
        chance, (steps, pays) = agent.state.chance, shares(agent)
        assert chance.turned.sum() == 0
        assert chance.steps.sum() == 500
        n = chance.steps[chance.steps > 0]
        close(steps, 2.0 / (2.0 + (1.0 - 2.0 / (n + 1.0)).sum()))
        assert steps < 0.4
        assert steps < pays < 1.0
        agent.begin_episode(w.context(0, 0))
        part = steps / (steps + (1.0 - steps) * (chance.steps + 1.0) / 2.0)
        seen = np.take_along_axis(agent.work.local.P, chance.led[..., None], -1)[..., 0]
        often = chance.steps > 0
        assert np.all(seen[often] >= 1.0 - part[often])


def test_known_rewards_stay_known():
    """Whatever was paid: a mean of .3 is seen as 0 or 1."""
    w = world("sure-known")
    agent = nr.PSRLGLM(w.problem, seed=1)
    played(agent, w, range(60))
    assert shares(agent)[0] < 1.0
    agent.begin_episode(w.context(0, 0))
    close(agent.work.hope, w.reward_weights[..., 0])


def test_a_deep_sea_is_not_searched_twice():
    """Fixed seeds; 36 before chance was measured, 18 since."""
    w = WorldBed("deep-sea", Size(600, 4), Size(600, 4), make=functools.partial(deep_sea, rows=5))
    lost = [nr.simulate(nr.PSRLGLM(w.problem(s)), w.world(s), 600, seeds=[s]).final[0] for s in range(4)]
    assert np.mean(lost) < 27.0


# What is drawn -------------------------------------------------------------------------------------------------------
def drawn_and_expected(name, x, episodes=15, draws=400):
    """Draws of an agent with some data, transitions [n, S, A, S'] and rewards [n, S, A], and the twin that saw it."""
    agent, learner = nr.PSRLGLM(world(name).problem, seed=5), reference_explore.Explorer(world(name).problem, 5)
    follow(agent, learner, world(name), episodes, close)
    before = arrays_of(agent)
    P, r = zip(*(agent.draw(x, i) for i in range(1, draws + 1)), strict=True)
    assert not differing(before, arrays_of(agent))
    return np.array(P), np.array(r), learner


@pytest.mark.deep
@pytest.mark.study(first=1)
@pytest.mark.parametrize("name", ["dense", "design", "reward-design", "logistic", "design-logistic"])
def test_draws_have_the_distributions_of_the_twin(name):
    """Kolmogorov-Smirnov at level 1e-6 for every pair: mean rewards are normal given [0, 1], or under the logistic
    curve cut to it; differences of logits are normal."""
    x = world(name).context(9, 0)
    P, r, learner = drawn_and_expected(name, x)
    for s, a in np.ndindex(r.shape[1:]):
        mean, spread, _ = learner.rewards.at((s, a), x)
        if world(name).problem.rewards == "logistic":
            inside = r[:, s, a][(r[:, s, a] > 0.0) & (r[:, s, a] < 1.0)]
            assert inside.size > 200
        law = stats.truncnorm(-mean / spread, (1.0 - mean) / spread, mean, spread)
        kept = r[:, s, a] if world(name).problem.rewards == "linear" else inside
        assert stats.kstest(kept, law.cdf).pvalue > 1e-6
        assert np.unique(kept).size == kept.size
        t = learner.transitions.at((s, a), x)
        deviation = math.sqrt(t.cov[0, 0] + t.cov[-1, -1] - 2.0 * t.cov[0, -1])
        logit = np.log(P[:, s, a, 0] / P[:, s, a, -1])
        assert stats.kstest(logit, stats.norm(math.log(t.P[0] / t.P[-1]), deviation).cdf).pvalue > 1e-6


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["transitions", "logistic rewards"])
def test_ranks_of_the_truth_among_draws(kind):
    """Chi-square at level 1e-6, in worlds from the prior."""
    assert calibration.measured(kind, 50, 240)["chi"] > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 50, 500])
@pytest.mark.parametrize("kind", calibration.KINDS)
def test_nine_of_ten_intervals_hold(kind, n):
    """What docs/exploration.md says. If nine of ten held, fewer than 84% of 600 would with a probability below 1e-6;
    errors may be a fifth larger than they are said to be."""
    found = calibration.measured(kind, n, 600)
    assert found["most"] > 0.84
    assert found["size"] < 1.2


# Files ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [nr.PSRLGLM, nr.CertifiedPSRL])
@pytest.mark.parametrize("name", ["dense", "logistic", "linear", "design"])
def test_a_saved_agent_goes_on_to_the_bit(kind, name, tmp_path):
    agent, other = saved_and_continued(kind(world(name).problem, seed=1), world(name), tmp_path / "a.npz", 1)
    assert not differing(arrays_of(agent), arrays_of(other))


@pytest.mark.parametrize("kind", [nr.PSRLGLM, nr.CertifiedPSRL])
def test_a_saved_agent_whose_rewards_are_far_from_0(kind, tmp_path):
    """What is regressed on x is about 100 then, and its squares are as large. A file is tried with an x for whom no
    reward can be as large as that: nothing is said of it."""
    agent = kind(one_state(reward_bound=200.0, reward_range=(100.0, 101.0)))
    fed(agent, [[0.6, 0.6]] * 30, lambda k, a: 100.0 + 0.3 * a + 0.01 * (k % 3))
    agent.save(tmp_path / "a.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = nr.load(tmp_path / "a.npz")
    assert loaded.refuted is None
    assert not differing(arrays_of(agent), arrays_of(loaded))


def damaged(path, name, change):
    """The file with an array changed, and the checksum that goes with it."""
    header, arrays = archive.unseal(path)
    arrays[name] = change(arrays[name].copy())
    file = io.BytesIO()
    archive.seal(file, {k: v for k, v in header.items() if k not in ("noregret", "version")}, arrays)
    return file.getvalue()


def first_to(value):
    def change(array):
        array.flat[0] = value
        return array

    return change


DAMAGE = [
    *[("rest", v) for v in (-0.1, 1e6, math.inf, math.nan)],
    *[("seen", v) for v in (-0.1, 1.5, math.nan)],
    *[("inside", v) for v in (-1, 10**6)],
    *[("level", v) for v in (0.0, -1.0, 1e6, math.inf, math.nan)],
    *[("squares", v) for v in (-1.0, 1e6, math.nan)],
    *[("measured", v) for v in (-1, 10**6)],
]
OF_CHANCE = [
    *[("led", v) for v in (-1, 10**6)],
    *[(name, v) for name in ("turned", "varied") for v in (-1, 10**6)],
    *[(name, -1) for name in ("steps", "rewards")],
    *[("paid", v) for v in (-0.1, 1.5, math.nan)],
]


@pytest.mark.parametrize("where", ["dense", "design"])
def test_damaged_numbers_in_a_file(where, tmp_path):
    agent, path = nr.PSRLGLM(world(where).problem, seed=1), tmp_path / "a.npz"
    played(agent, world(where), range(8))
    agent.save(path)
    nr.load(path)
    own = [(f"chance.{name}", value) for name, value in OF_CHANCE if where == "dense"]
    for name, value in [*((f"means.{name}", value) for name, value in DAMAGE), *own]:
        (tmp_path / "b.npz").write_bytes(damaged(path, f"state.{name}", first_to(value)))
        with pytest.raises(ValueError, match=r"b\.npz") as error:
            nr.load(tmp_path / "b.npz")
        assert "\n" not in str(error.value)
        assert "state" in str(error.value), (name, value, str(error.value))


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.parametrize("where", ["dense", "design", "logistic"])
def test_whatever_a_file_says_of_rewards(where, tmp_path):
    """A file with one array changed at random is refused with one sentence, or makes an agent that can be used."""
    agent, path, g = nr.PSRLGLM(world(where).problem, seed=1), tmp_path / "a.npz", np.random.default_rng(3)
    played(agent, world(where), range(8))
    agent.save(path)
    names, taken = ("squares", "rest", "seen", "inside", "level", "measured", "moment", "gram", "theta", "samples"), 0
    for i in range(160):
        change = functools.partial(changed_array, source=Source(g))
        (tmp_path / "b.npz").write_bytes(damaged(path, f"state.means.{names[i % len(names)]}", change))
        made, said = None, ""
        try:
            made = nr.load(tmp_path / "b.npz")
        except ValueError as error:
            said = str(error)
        if made is None:
            assert said.startswith(str(tmp_path / "b.npz"))
            assert "\n" not in said
        else:
            used(made)
            taken += 1
    assert 0 < taken < 120
