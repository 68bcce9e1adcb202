"""The corners of every agent's domain: the smallest sizes, contexts that say nothing, more features than observations,
worlds that are all but deterministic, a million updates of one pair."""

import itertools
import math

import numpy as np
import pytest

import noregret as nr
import reference
from live import BANDITS, EVERYONE, SMALL
from live import make as make_small

pytestmark = pytest.mark.deep

SIZES = [(1, 1, 1, 1), (2, 1, 1, 1), (2, 1, 3, 1), (2, 2, 2, 1), (1, 3, 2, 2), (2, 2, 1, 2)]


def contexts_for(problem, rows):
    """Rows as contexts of the problem; under the linear link each is moved into the simplex."""
    X = np.atleast_2d(np.asarray(rows, float))
    if isinstance(problem.link, nr.LinearCombination):
        X = np.abs(X) + 1e-3
        X /= X.sum(1, keepdims=True)
    return X


def world_for(name, S, A, H, d, contexts=None, weight_bound=2.0, spread=None, pay=None, seed=2):
    """A world of that size which the agent is for; skips with the agent's own sentence where there is none.

    spread: every logit is this or minus this; pay: mean reward of every pair, for everybody."""
    linear = name == "kwik-lr-rmax"
    logistic = name in BANDITS[2:]
    g, designs = np.random.default_rng(seed), {}
    if name.endswith("-design") and not name.startswith("certified"):
        designs["design"] = nr.Design.per_pair(S, A, math.sqrt(S) * weight_bound)
        designs["reward_design"] = nr.RewardDesign.per_pair(S, A, 2.0 * math.sqrt(d))
        name = name.removesuffix("-design")
    problem = nr.Problem(
        S, A, H, d, nr.LinearCombination() if linear else nr.MultinomialLogit(),
        weight_bound=None if linear else weight_bound, reward_bound=4.0 if logistic else 2.0 * math.sqrt(d),
        rewards="logistic" if logistic else "linear", initial_states=(0,), **designs,
    )  # fmt: skip
    known = {"fixed-policy": nr.agents.FixedPolicy, "referral": nr.CertifiedPSRL, "conservative": nr.CertifiedPSRL}
    cls = known.get(name.split("-fun")[0])
    cls = cls or (nr.LRORL if name.startswith("certified") else nr.agents.registry.agent_class(name))
    refusal = cls.refusal(problem)
    if refusal is not None:
        pytest.skip(refusal)
    if linear:
        W = np.swapaxes(g.dirichlet(np.full(S, 0.3), (S, A, d)), 2, 3)
    else:
        W = g.standard_normal((S, A, S, d))
        W *= 0.5 * weight_bound / np.linalg.norm(W, axis=-1, keepdims=True)
        if spread is not None:
            W[:] = 0.0
            W[..., 0] = spread * g.choice([-0.5, 0.5], (S, A, S))
        W -= W[:, :, -1:]
    if contexts is None:
        contexts = [np.r_[1.0, np.zeros(d - 1)]] + [np.r_[0.6, 0.8 * np.eye(d - 1)[j]] for j in range(d - 1)]
    X = contexts_for(problem, contexts)
    theta = np.zeros((S, A, d))
    if logistic:
        theta[..., 0] = g.uniform(-1, 1, (S, A)) if pay is None else 4.0 * (2 * pay - 1)
    else:
        theta[..., 0] = g.random((S, A)) if pay is None else pay
        if linear:
            theta[:] = theta[..., :1]
    return nr.World(problem, W, theta, X, 0, name="edge")


def make(name, world, seed=3):
    """The agent, without the options that go with the sizes of other tests."""
    if name in SMALL and name not in ("lsvi-ucb", "cover-rmax"):
        extra = {"recluster": 5, "memory": 20} if name == "cece" else SMALL[name]
        return nr.make_agent(name, world.problem, seed=seed, **extra)
    return make_small(name, world, seed)


def checked_live(agent, world, episodes, rewards=None, seed=3):
    """Live episodes in which everything the agent says is looked at: numbers finite, actions available, bounds true."""
    p, start = world.problem, 0
    sound = agent.guarantee is not None
    for k in range(episodes):
        person = world.individual(k, seed)
        plan = agent.begin_episode(person.context)
        assert np.isfinite(plan.values).all()
        assert plan.policy.min() >= 0
        assert p.layout.available[np.arange(p.n_states)[None], plan.policy].all()
        best, own = world.optimal(person.context).values, world.values(plan.policy, person.context)
        assert np.isfinite(own).all()
        assert best[0, start] - own[0, start] >= -1e-9
        if plan.upper is not None and sound:
            assert np.isfinite(plan.upper).all()
            assert plan.upper[0, start] >= best[0, start] - 1e-9
            assert plan.upper.max() <= p.horizon + 1e-9
        if plan.lower is not None and sound:
            assert plan.lower.min() >= -1e-9
            assert plan.lower[0, start] <= own[0, start] + 1e-9
        if plan.certificate is not None and sound:
            assert math.isfinite(plan.certificate)
            assert best[0, start] - own[0, start] <= plan.certificate + 1e-9
        for _ in range(p.horizon):
            action = agent.act(person.state)
            assert p.layout.available[person.state, action]
            reward, after = person.step(action)
            agent.observe(reward if rewards is None else rewards, after)
        agent.end_episode()
    for name, array in nr.agents.contents.leaves("state", agent.state):
        assert not np.isnan(array).any(), name
    assert agent.episode == episodes


def checked_run(agent, world, episodes=50, **more):
    """The compiled loop and the live verbs agree, and no regret is negative."""
    run = nr.simulate(agent, world, episodes, workers=1, **more)
    steps = np.diff(run.regret, axis=1, prepend=0.0)
    assert np.isfinite(steps).all()
    assert steps.min() >= -1e-9
    return run


@pytest.mark.study(first=37)
@pytest.mark.parametrize("name", EVERYONE)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_smallest_sizes(name, size):
    world = world_for(name, *size)
    agent = make(name, world)
    run = checked_run(agent, world)
    slow = nr.simulate(agent, world, 12, compiled=False, workers=1)
    assert np.array_equal(slow.regret, run.regret[:, :12])
    checked_live(agent, world, 12)
    if size[1] == 1:  # one action: nothing can be lost
        assert abs(run.final).max() <= 1e-9


# Contexts ----------------------------------------------------------------------------------------------------------
def without_zero(name, world):
    if isinstance(world.problem.link, nr.LinearCombination):
        pytest.skip(f"{name} needs the linear link, whose contexts sum to 1")


@pytest.mark.study(first=33)
@pytest.mark.parametrize("name", EVERYONE)
def test_contexts_of_norm_zero(name):
    """Somebody of whom nothing is known: next states are uniform, mean rewards 0 (logistic: 1/2)."""
    horizon = 1 if name in BANDITS else 3
    world = world_for(name, 3, 2, horizon, 2, [[0.0, 0.0], [1.0, 0.0], [0.6, -0.8]])
    without_zero(name, world)
    agent = make(name, world)
    checked_run(agent, world)
    checked_live(agent, world, 12)
    only = world_for(name, 3, 2, horizon, 2, [[0.0, 0.0]])
    agent = make(name, only)
    run = checked_run(agent, only)
    assert abs(run.final).max() <= 1e-9  # every action is as good as every other
    checked_live(agent, only, 12)


@pytest.mark.study(first=39)
@pytest.mark.parametrize("name", EVERYONE)
def test_duplicate_contexts(name):
    """The same individual again and again: the other directions are never seen."""
    world = world_for(name, 3, 2, 1 if name in BANDITS else 3, 3, [[0.6, 0.8, 0.0]])
    agent = make(name, world)
    checked_run(agent, world, 200)
    checked_live(agent, world, 30)


@pytest.mark.parametrize("name", EVERYONE)
def test_more_features_than_observations(name):
    g = np.random.default_rng(4)
    X = g.standard_normal((3, 20))
    X[:, 0] = np.abs(X[:, 0])  # mean rewards look at this entry alone
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    world = world_for(name, 3, 2, 1 if name in BANDITS else 2, 20, X)
    agent = make(name, world)
    checked_run(agent, world, 3)
    checked_live(agent, world, 3)


# Worlds that are all but deterministic, rewards that are always the same ---------------------------------------------
@pytest.mark.study(first=33)
@pytest.mark.parametrize("name", EVERYONE)
def test_nearly_deterministic_weights(name):
    """Logits of +-40: probabilities of e^-40 and 1 - e^-40."""
    world = world_for(name, 3, 2, 1 if name in BANDITS else 3, 2, weight_bound=50.0, spread=40.0)
    for x in world.contexts.support:
        P = world.transitions(x)
        assert np.isfinite(P).all()
        assert P.min() >= 0.0
        np.testing.assert_allclose(P.sum(2), 1.0, rtol=1e-14)
        if world.problem.link.name == "logit":
            assert P.min() < 1e-10
    agent = make(name, world)
    checked_run(agent, world, 200)
    checked_live(agent, world, 30)


@pytest.mark.study(first=25)
@pytest.mark.parametrize("pay", [0.0, 1.0])
@pytest.mark.parametrize("name", EVERYONE)
def test_rewards_that_are_always_the_same(name, pay):
    world = world_for(name, 3, 2, 1 if name in BANDITS else 3, 2, [[1.0, 0.0]], pay=pay)
    agent = make(name, world)
    run = checked_run(agent, world, 200)
    assert abs(run.final).max() <= 1e-9
    checked_live(agent, world, 30, rewards=pay)


@pytest.mark.study(first=34)
@pytest.mark.parametrize("pay", [0.0, 1.0])
@pytest.mark.parametrize("name", [n for n in EVERYONE if n not in BANDITS])
def test_logistic_rewards_that_are_always_the_same(name, pay):
    """Rewards whose mean is as near to 0 or 1 as the bound allows, and that never differ."""
    base = world_for(name, 3, 2, 3, 2, [[1.0, 0.0]])
    link, bound = base.problem.link, base.problem.weight_bound
    problem = nr.Problem(
        3, 2, 3, 2, link, weight_bound=bound, reward_bound=30.0, rewards="logistic", initial_states=(0,)
    )
    x = base.contexts.support[0]
    theta = np.broadcast_to(30.0 * (2.0 * pay - 1.0) * x / (x @ x) * np.linalg.norm(x), (3, 2, 2))
    world = nr.World(problem, base.weights, theta / max(1.0, np.linalg.norm(theta[0, 0]) / 30.0), [x])
    agent = make(name, world)
    checked_run(agent, world, 100)
    checked_live(agent, world, 30, rewards=pay)


# A twin --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["glm-orl", "glm-rlsvi", "certainty-equivalence", "epsilon-greedy"])
@pytest.mark.parametrize(
    ("size", "contexts"),
    [((2, 1, 1, 1), None), ((2, 2, 2, 1), None), ((3, 2, 3, 2), [[0.0, 0.0], [1.0, 0.0]]), ((3, 2, 2, 20), None)],
    ids=["least", "S2-d1", "zero", "d20"],
)
def test_the_reference_agrees(kind, size, contexts):
    world = world_for(kind, *size, contexts=contexts)
    wanted = reference.run(world, kind, 25, 1)
    run = nr.simulate(nr.make_agent(kind, world.problem), world, 25, seeds=[1], workers=1)
    np.testing.assert_allclose(run.regret[0], wanted.regret, rtol=0, atol=1e-9)


# A million updates of one pair --------------------------------------------------------------------------------------
MANY = {
    "glm-orl": {},
    "glm-orl, conversion": {"confidence": "conversion"},
    "glm-orl, logistic rewards": {},
    "glm-orl, linear link": {},
    "lr-orl": {},
    "lr-orl, kron": {"form": "kron", "reward_sets": "ridge"},
    "lr-orl, linear link": {},
    "orlc-si": {},
    "abbasi-yadkori-neu": {},
}
STEPS = 1000  # an episode


def steps_from(world, g, episodes):
    """A log in which the next state has the same law after both states, so that each pair is met every other time."""
    p, made = world.problem, []
    for k in range(episodes):
        x = world.contexts.support[k % len(world.contexts.support)]
        states = (g.random(STEPS + 1) < world.transitions(x)[0, 0, 1]).astype(np.int64)
        states[0] = 0
        rewards = (g.random(STEPS) < world.rewards(x)[states[:-1], 0]).astype(float)
        made.append(
            nr.problem.log.LoggedEpisode(k, x, states, np.zeros(STEPS, np.int64), rewards, np.full(STEPS, np.nan))
        )
    return nr.Log(p, tuple(made))


def widths_at(agent, x):
    """(transitions, rewards) widths of pair (0, 0) at x, and the truth they are about."""
    agent.begin_episode(x)
    agent.end_episode()
    work = agent.work
    if hasattr(work, "local"):
        local = work.local
        return 2.0 * local.half[0, 0], local.high[0, 0] - local.low[0, 0], local.P[0, 0].copy(), local.low, local.high
    belief = getattr(work, "belief", work)  # the agents of `agents.entrywise` have a width for every entry
    low, high = belief.reward - belief.interval, belief.reward + belief.interval
    return belief.width[0, 0].sum(), 2.0 * belief.interval[0, 0], belief.P[0, 0].copy(), low, high


@pytest.mark.study(first=4)
@pytest.mark.parametrize("case", MANY)
def test_a_million_updates_of_one_pair(case):
    """Widths stay finite and shrink like 1/sqrt(n), sets contain the truth, inverses are those of their matrices."""
    name, linear = case.split(",")[0], "linear link" in case
    link = nr.LinearCombination() if linear or name in ("orlc-si",) else nr.MultinomialLogit()
    rewards = "logistic" if "logistic" in case else "linear"
    problem = nr.Problem(
        2, 1, STEPS, 2, link, reward_bound=1.5, rewards=rewards, weight_bound=None if link.name == "linear" else 1.0
    )
    if link.name == "linear":
        X, W = [[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]], np.array([[0.2, 0.7], [0.8, 0.3]])
    else:
        X, W = [[0.9, 0.1], [0.3, -0.7], [0.5, 0.5]], np.array([[0.6, -0.4], [0.0, 0.0]])
    world = nr.World(problem, np.tile(W, (2, 1, 1, 1)), np.tile([0.6, 0.2], (2, 1, 1)), X)
    agent, g = nr.make_agent(name, problem, **MANY[case]), np.random.default_rng(0)
    x, seen = world.contexts.support[2], []
    truth, mean = world.transitions(x)[0, 0], world.rewards(x)
    for episodes in (2, 20, 200, 1800):  # 10^3, 10^4, 10^5, 10^6 visits of the pair, nearly
        agent.learn_from(steps_from(world, g, episodes))
        xi, spread, P, low, high = widths_at(agent, x)
        assert math.isfinite(xi)
        assert math.isfinite(spread)
        if agent.guarantee is not None:
            assert np.abs(P - truth).sum() <= xi + 1e-9
            assert (low <= mean + 1e-9).all()
            assert (mean <= high + 1e-9).all()
        seen.append((xi, spread))
    assert all(b[0] < a[0] and b[1] < a[1] for a, b in itertools.pairwise(seen)), seen
    assert seen[-1][0] < 0.25 * seen[-3][0]  # a hundred times as much data: a tenth, but for logarithms
    assert seen[-1][1] < 0.25 * seen[-3][1]
    assert np.abs(P - truth).sum() < 0.01
    checked = 0
    parts = (getattr(agent.state, kind, None) for kind in ("transitions", "entries", "means", "rewards"))
    for part in parts:
        matrices = getattr(part, "precision", getattr(part, "gram", None))
        if matrices is not None and hasattr(part, "inverse") and matrices.shape == part.inverse.shape:
            for gram, inverse in zip(matrices[:, 0], part.inverse[:, 0], strict=True):
                exact = np.linalg.inv(gram)
                assert np.abs(inverse - exact).max() <= 1e-9 * np.abs(exact).max()
                checked += 1
    assert checked > 0
