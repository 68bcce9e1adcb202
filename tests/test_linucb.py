"""LinUCB: a plain Python version written from the formula, disjoint and shared, and that of another library."""

import math

import numpy as np
import pytest

import noregret as nr
import reference
from test_bandits import masked_world

pytestmark = pytest.mark.deep


class Slow:
    """features(s, a, x) [p] of a pair, block(s, a): which regression it belongs to."""

    def __init__(self, problem, alpha, lam, features, block, p):
        self.p, self.alpha, self.features, self.block = problem, alpha, features, block
        blocks = {block(s, a) for s in range(problem.n_states) for a in range(problem.n_actions)}
        self.V, self.b = {b: lam * np.eye(p) for b in blocks}, {b: np.zeros(p) for b in blocks}

    def score(self, s, a, x):
        u, V, b = self.features(s, a, x), self.V[self.block(s, a)], self.b[self.block(s, a)]
        return u @ np.linalg.solve(V, b) + self.alpha * math.sqrt(u @ np.linalg.solve(V, u))

    def plan(self, x, k, seed):
        S, A = self.p.n_states, self.p.n_actions
        policy, values, key = np.zeros((1, S), int), np.zeros(S), reference.words(seed, k, 0, reference.TIE)[0]
        for s in range(S):
            scores = [self.score(s, a, x) if self.p.layout.available[s, a] else -math.inf for a in range(A)]
            tied = [a for a in range(A) if scores[a] >= max(scores) - 1e-9]
            policy[0, s] = tied[(reference.mix(key, s) * len(tied)) >> 32] if len(tied) > 1 else tied[0]
            values[s] = min(max(max(scores), 0.0), 1.0)
        return policy, values

    def learn(self, s, a, x, r):
        u = self.features(s, a, x)
        self.V[self.block(s, a)] += np.outer(u, u)
        self.b[self.block(s, a)] += r * u


def agree(agent, slow, world, episodes=80, seed=5):
    g = np.random.default_rng(0)
    for k in range(episodes):
        person = world.individual(k, seed)
        plan, (policy, values) = agent.begin_episode(person.context), slow.plan(person.context, k, seed)
        assert np.array_equal(plan.policy, policy), k
        assert np.abs(plan.values[0] - values).max() < 1e-9
        s, a = person.state, agent.act(person.state)
        reward, after = person.step(a)
        reward = math.nan if g.random() < 0.1 else reward
        agent.observe(reward, after)
        agent.end_episode()
        if not math.isnan(reward):
            slow.learn(s, a, person.context, reward)


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize(("alpha", "lam"), [(1.0, 1.0), (0.1, 0.3), (0.0, 2.0)])
def test_disjoint(logistic, alpha, lam):
    world = masked_world(logistic)
    d = world.problem.context_dim
    agent = nr.agents.LinUCB(world.problem, alpha=alpha, regularization=lam, seed=5)
    agree(agent, Slow(world.problem, alpha, lam, lambda s, a, x: x, lambda s, a: (s, a), d), world)


@pytest.mark.parametrize("moderated", [False, True])
def test_shared(moderated):
    """Two blocks with bounds 2 and 1: features of the second count half."""
    g = np.random.default_rng(1)
    S, A, q, d = 2, 4, 2, 3
    psi, block = np.stack([np.ones((S, A)), g.standard_normal((S, A))], axis=-1), np.array([[0, 0, 1, 1], [1, 0, 1, 0]])
    goes = np.array([[True, True, True], [True, False, True]]) if moderated else np.ones((q, d), bool)
    design = nr.RewardDesign(psi, [2.0, 1.0], block, moderators=goes)
    world = nr.worlds.random_logit(horizon=1, context_dim=d, reward_design=design, seed=3)
    agent = nr.agents.LinUCB(world.problem, alpha=0.5, seed=5)

    def features(s, a, x):
        return np.outer(psi[s, a], x)[goes] * (0.5 if block[s, a] else 1.0)

    agree(agent, Slow(world.problem, 0.5, 1.0, features, lambda s, a: block[s, a], int(goes.sum())), world)


def test_shared_features_are_learned_from_all_arms():
    """Forty arms that differ in one number: with the design it costs a quarter of what it does without. Measured: a
    tenth, in every one of four runs."""
    x = np.linspace(0.0, 1.0, 40)[None, :, None]
    design = nr.RewardDesign(np.concatenate([np.ones_like(x), x], axis=2), 2.0)
    world = nr.worlds.random_logit(horizon=1, context_dim=3, reward_design=design, seed=4)
    alone = nr.worlds.random_worlds.without_design(world)
    shared = nr.simulate(nr.agents.LinUCB(world.problem), world, 1000, seeds=4, every=1000).final
    each = nr.simulate(nr.agents.LinUCB(alone.problem), alone, 1000, seeds=4, every=1000).final
    assert shared.max() < 0.25 * each.min()


def test_the_same_choices_as_mabwiser():
    """Where it is installed: MABWiser's LinUCB on the same people chooses the same arms, once nothing is tied."""
    mab = pytest.importorskip("mabwiser.mab", reason="mabwiser is not installed")
    world = nr.worlds.random_logit(1, 3, 1, 3, seed=2)
    agent = nr.agents.LinUCB(world.problem, alpha=0.7)
    other = mab.MAB([0, 1, 2], mab.LearningPolicy.LinUCB(alpha=0.7), seed=0)
    other.fit([0], [0.0], np.zeros((1, 3)))
    for k in range(100):
        person = world.individual(k)
        x = person.context
        agent.begin_episode(x)
        a, theirs = agent.act(0), other.predict([x])
        seen = (agent.state.ridge.samples[0] > 0).all()
        assert a == theirs or not seen
        reward, after = person.step(a)
        agent.observe(reward, after)
        agent.end_episode()
        other.partial_fit([a], [reward], [x])


def test_refusals_and_no_promise():
    problem = nr.worlds.bandit_logistic().problem
    with pytest.raises(ValueError, match="linucb is for problems with horizon 1, got horizon 5"):
        nr.agents.LinUCB(nr.worlds.random_logit().problem)
    with pytest.raises(ValueError, match="alpha must be"):
        nr.agents.LinUCB(problem, alpha=-1.0)
    for p in (problem, nr.worlds.random_linear(horizon=1).problem):
        assert nr.agents.LinUCB(p).guarantee is None
