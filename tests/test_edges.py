"""The corners of every agent's domain: the smallest sizes, contexts that say nothing, more features than observations,
worlds that are all but deterministic, a million updates of one pair."""

import math

import numpy as np
import pytest
from live import EVERYONE, SMALL, table_of
from live import make as make_small

import noregret as nr

BANDITS = ("oful", "glm-ucb", "ol2m", "gloc")
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
    logistic = name in BANDITS[1:]
    g = np.random.default_rng(seed)
    problem = nr.Problem(
        S, A, H, d, nr.LinearCombination() if linear else nr.MultinomialLogit(),
        weight_bound=None if linear else weight_bound, reward_bound=4.0 if logistic else 2.0 * math.sqrt(d),
        rewards="logistic" if logistic else "linear", initial_states=(0,),
    )  # fmt: skip
    cls = {"fixed-policy": nr.agents.FixedPolicy, "referral": nr.CertifiedPSRL}.get(name.split("-fun")[0])
    cls = cls or (nr.LRORL if name.startswith("certified") else nr.agents.agent_class(name))
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
    for name, array in nr.agents.files._leaves("state", agent.state):
        assert not np.isnan(array).any(), name
    assert agent.episode == episodes


def checked_run(agent, world, episodes=50, **more):
    """The compiled loop and the live verbs agree, and no regret is negative."""
    run = nr.simulate(agent, world, episodes, workers=1, **more)
    steps = np.diff(run.regret, axis=1, prepend=0.0)
    assert np.isfinite(steps).all()
    assert steps.min() >= -1e-9
    return run


@pytest.mark.parametrize("name", EVERYONE)
@pytest.mark.parametrize("size", SIZES, ids=lambda s: "S%d-A%d-H%d-d%d" % s)
def test_smallest_sizes(name, size):
    world = world_for(name, *size)
    agent = make(name, world)
    run = checked_run(agent, world)
    slow = nr.simulate(agent, world, 12, compiled=False, workers=1)
    assert np.array_equal(slow.regret, run.regret[:, :12])
    checked_live(agent, world, 12)
    if size[1] == 1:  # one action: nothing can be lost
        assert abs(run.final).max() <= 1e-9
