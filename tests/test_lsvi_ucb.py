"""LSVI-UCB against a twin with the full feature vectors, its memory, and whether it learns."""

import math

import numpy as np
import pytest

import noregret as nr
import reference
from noregret.verification import promises

WORLDS = {
    "linear": lambda: nr.worlds.random_linear(3, 2, 3, 2, seed=4),
    "logit": lambda: nr.worlds.random_logit(3, 2, 3, 3, seed=1),
    "clinic": nr.worlds.clinic,
    "logistic": promises.logistic_rewards,
}


class Twin:
    """Regressions on phi = e_sa (x) x with one S A d x S A d matrix per step, everything summed afresh each episode."""

    def __init__(self, problem, seed, bonus_scale=1.0, delta=0.05, memory=2000, regularization=1.0):
        p = self.p = problem
        self.seed, self.scale, self.delta, self.memory, self.lam = seed, bonus_scale, delta, memory, regularization
        self.dim = p.n_states * p.n_actions * p.context_dim
        self.available = np.ones((p.n_states, p.n_actions), bool) if p.available is None else np.asarray(p.available)
        self.episodes = []  # lists of (h, x, s, a, r, s')

    def phi(self, s, a, x):
        made = np.zeros((self.p.n_states, self.p.n_actions, len(x)))
        made[s, a] = x
        return made.ravel()

    def plan(self, x, k):
        p, dim = self.p, self.dim
        S, A, H = p.n_states, p.n_actions, p.horizon
        beta = self.scale * dim * H * math.sqrt(math.log(2 * dim * (k + 1) * H / self.delta))
        data = [step for episode in self.episodes[-self.memory :] for step in episode]
        key = reference.words(self.seed, k, 0, reference.TIE)[0]
        policy, V, q = np.zeros((H, S), int), np.zeros((H + 1, S)), None
        for h in reversed(range(H)):
            Lambda, moment = self.lam * np.eye(dim), np.zeros(dim)
            for step, y, s, a, r, after in data:
                if step == h:
                    f = self.phi(s, a, y)
                    ahead = 0.0 if q is None else max(q(after, b, y) for b in np.flatnonzero(self.available[after]))
                    Lambda, moment = Lambda + np.outer(f, f), moment + f * (r + ahead)
            w, inverse = np.linalg.solve(Lambda, moment), np.linalg.inv(Lambda)

            def q(s, a, y, w=w, inverse=inverse, top=H - h):
                f = self.phi(s, a, y)
                return float(np.clip(w @ f + beta * math.sqrt(f @ inverse @ f), 0, top))

            for s in range(S):
                Q = np.array([q(s, a, x) if self.available[s, a] else -np.inf for a in range(A)])
                tied = np.flatnonzero(Q.max() - 1e-9 <= Q)
                policy[h, s] = tied[reference.mix(key, h * S + s) * len(tied) >> 32]
                V[h, s] = Q.max()
        return policy, V


@pytest.mark.parametrize("where", WORLDS)
@pytest.mark.parametrize("options", [{}, {"bonus_scale": 0.002}, {"bonus_scale": 0.01, "memory": 12, "delta": 0.2}],
                         ids=["plain", "scaled", "forgetful"])  # fmt: skip
def test_plans_agree_with_the_formulas(where, options):
    """32 episodes, some rewards missing, some episodes cut short: the same policies, and values to 1e-9."""
    world = WORLDS[where]()
    agent, twin = nr.agents.LSVIUCB(world.problem, seed=3, **options), Twin(world.problem, 3, **options)
    for k in range(32):
        someone = world.individual(k, seed=3)
        x, plan = someone.context, agent.begin_episode(someone.context)
        policy, V = twin.plan(x, k)
        assert np.array_equal(plan.policy, policy)
        assert np.allclose(plan.values, V, rtol=0, atol=1e-9)
        steps = []
        for h in range(world.problem.horizon - (k % 7 == 3)):
            s = someone.state
            a = agent.act(s)
            reward, after = someone.step(a)
            if (k + h) % 6 == 1:
                reward = math.nan
            else:
                steps.append((h, x, s, a, reward, after))
            agent.observe(reward, after)
        twin.episodes.append(steps)
        agent.end_episode()


def test_forgetting_leaves_the_matrices_of_what_is_kept():
    """After 40 times the memory: what was added and taken out again has left no trace beyond rounding."""
    world = WORLDS["linear"]()
    agent, kept = nr.agents.LSVIUCB(world.problem, bonus_scale=0.01, memory=10), []
    for k in range(400):
        someone = world.individual(k)
        agent.begin_episode(someone.context)
        path = []
        for h in range(3):
            s = someone.state
            a = agent.act(s)
            agent.observe(*someone.step(a))
            path.append((h, s, a))
        agent.end_episode()
        kept.append((someone.context, path))
    wanted = np.tile(np.eye(2), (3, 3, 2, 1, 1))
    for x, path in kept[-10:]:
        for where in path:
            wanted[where] += np.outer(x, x)
    assert np.allclose(agent.state.gram, wanted, rtol=0, atol=1e-12)
    assert np.allclose(agent.state.inverse, np.linalg.inv(wanted), rtol=0, atol=1e-12)


def test_it_learns_with_a_small_bonus():
    """No guarantee; less than half of uniform play's regret, and falling."""
    world = WORLDS["linear"]()
    run = nr.simulate(nr.agents.LSVIUCB(world.problem, bonus_scale=0.01), world, 1500, seeds=4, every=500)
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 1500, seeds=4, every=500)
    steps = np.diff(run.regret.mean(0), prepend=0.0)
    assert run.final.mean() < 0.5 * uniform.final.mean()
    assert steps[-1] < 0.7 * steps[0]


def test_nothing_is_claimed_and_bad_options_are_refused():
    world = WORLDS["linear"]()
    agent = nr.agents.LSVIUCB(world.problem)
    assert agent.guarantee is None
    assert agent.begin_episode(world.context(0, 0)).upper is None
    assert agent.group == "contextual"
    for options, message in (
        ({"memory": 0}, "memory must be an integer of at least 1, got 0"),
        ({"delta": 1.0}, "delta must be a number between 0 and 1"),
        ({"regularization": 0}, "regularization must be a positive number"),
        ({"regularization": 1e-9}, "regularization must be at least 1e-06 for stable arithmetic"),
        ({"bonus_scale": -1}, "bonus_scale must be a number of at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            nr.agents.LSVIUCB(world.problem, **options)
