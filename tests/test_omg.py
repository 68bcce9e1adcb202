"""OMG-CMDP: its program against scipy and against a plain primal method, its runs, its refusals."""

import math

import numpy as np
import pytest
from scipy import optimize

import noregret as nr
import reference
from noregret.agents.baselines.linear import omg
from test_agreement import masked

WORLDS = {
    "logit": lambda: nr.worlds.random_logit(3, 2, 3, 2, seed=1),
    "linear": lambda: nr.worlds.random_linear(3, 2, 3, 2, seed=1),
    "masked": lambda: masked(nr.MultinomialLogit(), True),
    "clinic": lambda: nr.worlds.clinic(horizon=4),
}


def program(P, r, available, initial, H):
    """(triples (h, s, a), flow matrix F, right side b): occupancy measures are q > 0 with F q = b; P [S, A, S]."""
    S = len(r)
    mass, triples = initial.copy(), []
    for h in range(H):
        here = np.flatnonzero(mass > 0)
        mass = np.zeros(S)
        for s in here:
            for a in np.flatnonzero(available[s]):
                triples.append((h, s, a))
                mass += P[s, a]
    rows = {key: i for i, key in enumerate(dict.fromkeys((h, s) for h, s, _ in triples))}
    F, b = np.zeros((len(rows), len(triples))), np.zeros(len(rows))
    for i, (h, s, a) in enumerate(triples):
        F[rows[h, s], i] += 1
        if h == 0:
            b[rows[h, s]] = initial[s]
        for t in np.flatnonzero(P[s, a] if h + 1 < H else 0 * P[s, a]):
            F[rows[h + 1, t], i] -= P[s, a, t]
    return triples, F, b


def occupancy_of_uniform(triples, P, available, initial):
    q, mass, h = np.zeros(len(triples)), initial.copy(), 0
    after = np.zeros(len(initial))
    for i, (step, s, a) in enumerate(triples):
        if step > h:
            mass, after, h = after, np.zeros(len(initial)), step
        q[i] = mass[s] / available[s].sum()
        after += q[i] * P[s, a]
    return q


def solve(P, r, available, initial, H, gamma):
    """argmax gamma <q, r> + sum ln q, by feasible Newton steps on q; {(h, s, a): q}."""
    triples, F, b = program(P, r, available, initial, H)
    q = occupancy_of_uniform(triples, P, available, initial)
    reward = np.array([r[s, a] for _, s, a in triples])
    for _ in range(3000):
        g = gamma * reward + 1 / q
        # in units of q: step = q y, y maximises <q g, y> - |y|^2/2 subject to F (q y) = 0
        G = F * q
        nu = np.linalg.lstsq(G.T, q * g, rcond=None)[0]
        y = q * g - G.T @ nu
        decrement = np.linalg.norm(y)
        q = q * (1 + y * (1.0 if decrement < 0.25 else 1 / (1 + decrement)))
        if decrement < 1e-11:
            break
    assert decrement < 1e-8
    assert np.abs(F @ q - b).max() < 1e-9
    return dict(zip(triples, q, strict=True))


class Slow:
    def __init__(self, problem, seed, gamma=30.0, initial=None):
        S = problem.n_states
        self.p, self.seed, self.gamma = problem, seed, gamma
        self.initial = np.full(S, 1 / S) if initial is None else np.array(initial, float)
        self.learner = reference.Learner(problem, "certainty-equivalence", seed)

    def plan(self, x, k):
        """The policy, and its values in the estimated MDP; -1 where a state cannot occur."""
        p, available = self.p, self.learner.available
        S, A, H = p.n_states, p.n_actions, p.horizon
        P, r, _, _ = self.learner.beliefs(x, k)
        for s, a in np.ndindex(S, A):
            support = self.learner.outcomes[s, a]
            P[s, a, support] = 0.999 * P[s, a, support] + 0.001 / len(support)
        q = solve(P, r, available, self.initial, H, self.gamma * math.sqrt(k + 1))
        policy = np.full((H, S), -1)
        for h, s in {(h, s) for h, s, _ in q}:
            chances = [(a, q[h, s, a]) for a in range(A) if (h, s, a) in q]
            left = reference.uniforms(self.seed, k, int(h * S + s), reference.EXPLORE)[0] * sum(c for _, c in chances)
            for a, c in chances:
                policy[h, s] = a
                left -= c
                if left < 0:
                    break
        return policy, P, r


@pytest.mark.parametrize("where", WORLDS)
@pytest.mark.parametrize("given", [False, True])
def test_plans_agree_with_the_slow_version(where, given):
    world, seed = WORLDS[where](), 6
    p = world.problem
    initial = np.eye(p.n_states)[1] if given else None
    agent, slow = nr.agents.OMGCMDP(p, initial=initial, seed=seed), Slow(p, seed, initial=initial)
    for k in range(30):
        person = world.individual(k, seed)
        plan, (policy, P, r) = agent.begin_episode(person.context), slow.plan(person.context, k)
        assert np.array_equal(plan.policy[policy >= 0], policy[policy >= 0])
        V = np.zeros((p.horizon + 1, p.n_states))  # of the whole policy drawn, in the estimated MDP
        for h in reversed(range(p.horizon)):
            for s in range(p.n_states):
                V[h, s] = r[s, plan.policy[h, s]] + P[s, plan.policy[h, s]] @ V[h + 1]
        assert np.abs(plan.values - V).max() < 1e-9
        path = []
        for _ in range(p.horizon):
            s = person.state
            a = agent.act(s)
            reward, after = person.step(a)
            agent.observe(reward, after)
            path.append((s, a, reward, after))
        agent.end_episode()
        slow.learner.learn(person.context, path)


@pytest.mark.parametrize("where", WORLDS)
@pytest.mark.parametrize("gamma", [1.0, 300.0, 1e5])
def test_the_program_is_solved(where, gamma):
    """q = 1/(gamma gap) from the multipliers is the measure that the primal method finds."""
    world = WORLDS[where]()
    p = world.problem
    agent = nr.agents.OMGCMDP(p)
    agent.begin_episode(world.context(0, 0))
    belief, layout = agent.work.glm.belief, p.layout
    H, S = p.horizon, p.n_states
    V = np.outer(2.0 * np.arange(H, -1, -1), np.ones(S))  # a crude feasible start
    omg.multipliers(agent.par, layout, gamma, belief.P, belief.reward, V, agent.work)
    P = p.from_slots(belief.P)
    wanted = solve(P, belief.reward, layout.available, np.full(S, 1 / S), H, gamma)
    for (h, s, a), q in wanted.items():
        assert 1 / (gamma * (V[h, s] - belief.reward[s, a] - P[s, a] @ V[h + 1])) == pytest.approx(q, rel=1e-6)
    assert sum(wanted.values()) == pytest.approx(H)
    # What the barrier costs: the optimal value is within (number of terms)/gamma
    value = sum(q * belief.reward[s, a] for (_, s, a), q in wanted.items())
    best = np.zeros(S)
    for _ in range(H):
        best = np.where(layout.available, belief.reward + P @ best, -np.inf).max(1)
    assert -1e-9 <= best.mean() - value <= len(wanted) / gamma + 1e-9


def test_the_program_against_scipy():
    g = np.random.default_rng(1)
    P, r, available = g.dirichlet(np.ones(2), (2, 2)), g.random((2, 2)), np.ones((2, 2), bool)
    triples, F, b = program(P, r, available, np.array([0.7, 0.3]), 2)
    reward = np.array([r[s, a] for _, s, a in triples])
    ours = np.array(list(solve(P, r, available, np.array([0.7, 0.3]), 2, 5.0).values()))
    found = optimize.minimize(
        lambda q: -(5.0 * reward @ q + np.log(q).sum()), np.full(8, 0.25), jac=lambda q: -(5.0 * reward + 1 / q),
        bounds=[(1e-6, 1)] * 8, constraints={"type": "eq", "fun": lambda q: F @ q - b, "jac": lambda q: F},
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert found.success
    assert np.abs(found.x - ours).max() < 1e-5
    assert -found.fun <= 5.0 * reward @ ours + np.log(ours).sum() + 1e-9


def test_regret_falls_and_is_far_below_uniform_play():
    world = nr.worlds.random_logit(4, 3, 4, 3, seed=1)
    run = nr.simulate(nr.agents.OMGCMDP(world.problem), world, 2000, seeds=8, every=100)
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 2000, seeds=8, every=100)
    assert run.final.max() < uniform.final.min() / 5
    assert run.late.max() < run.regret[:, 0].min() / 100 / 3
    assert run.guarantee is None


def test_unreachable_states_and_refusals():
    problem = nr.worlds.clinic(horizon=3).problem
    agent = nr.agents.OMGCMDP(problem, initial=[0, 0, 1, 0])
    assert agent.par.reachable.tolist() == [
        [False, False, True, False], [False, True, False, True], [True, False, True, True],
    ]  # fmt: skip
    for initial, message in (([1, 1, 0, 0], "sum to 1"), ([1, 0], "shape"), ([-1, 2, 0, 0], "nonnegative")):
        with pytest.raises(ValueError, match=f"initial must .*{message}"):
            nr.agents.OMGCMDP(problem, initial=initial)
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        nr.agents.OMGCMDP(problem, gamma=0)


def test_saved_with_its_initial_distribution(tmp_path):
    problem = nr.worlds.clinic(horizon=3).problem
    nr.agents.OMGCMDP(problem, initial=[0, 0, 1, 0], gamma=5.0).save(tmp_path / "a.npz")
    two = nr.load(tmp_path / "a.npz")
    assert two.options["initial"].tolist() == [0, 0, 1, 0]
    assert two.par.gamma == 5.0
