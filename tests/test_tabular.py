"""The tabular learners against a slow version written from their formulas, linear programs, and what they promise."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import optimize, special, stats

import noregret as nr
import reference
from noregret.agents.baselines import groups as cells
from noregret.agents.baselines.tabular import family as tabular
from noregret.agents.baselines.tabular import ucbvi as tabular_ucbvi
from noregret.agents.baselines.tabular import ucrl2 as tabular_ucrl2
from noregret.numerics.random import POSTERIOR, fill_uniforms, gamma, gammas, inverse_normal, uniforms

pytestmark = pytest.mark.deep


# A slow second implementation ----------------------------------------------------------------------------------------
def draw_gamma(shape, seed, k, index):
    """Marsaglia and Tsang (2000), with the steps of the random numbers as docs/semantics.md has them."""
    if shape == 1:
        return -math.log(1 - reference.uniforms(seed, k, 16 * index, POSTERIOR)[0])
    if shape < 1:
        u = reference.uniforms(seed, k, 16 * index + 15, POSTERIOR)[0]
        power = (1 - u) ** (1 / shape)
    d = shape - 1 / 3 + (shape < 1)
    for i in range(15):
        u, v = reference.uniforms(seed, k, 16 * index + i, POSTERIOR)
        z = special.ndtri(u)
        w = (1 + z / math.sqrt(9 * d)) ** 3
        if w > 0 and math.log(v) < z * z / 2 + d - d * w + d * math.log(w):
            return d * w * (power if shape < 1 else 1)
    raise AssertionError("fifteen rejections")


def best_in_ball(p, radius, V):
    """max q V over distributions q with ||q - p||_1 <= radius (Jaksch et al. 2010, figure 2); p, V on the support."""
    q, order = p.copy(), np.argsort(V)
    q[order[-1]] = min(1.0, q[order[-1]] + radius / 2)
    for i in order:
        q[i] = max(0.0, q[i] - max(0.0, q.sum() - 1))
    return q @ V


class Cell:
    """What one cell has seen, dense [S, A, S']."""

    def __init__(self, problem):
        S, A, H = problem.n_states, problem.n_actions, problem.horizon
        self.counts, self.k = np.zeros((S, A, S)), 0
        self.rewards, self.seen, self.at = np.zeros((S, A)), np.zeros((S, A)), np.zeros((H + 1, S))
        self.Q = np.array([np.full((S, A), float(H - h)) for h in range(H)])
        self.kept, self.then = None, None

    @property
    def n(self):
        return self.counts.sum(2)


class Twin:
    """Plans of every agent of the family, one pair at a time."""

    def __init__(self, name, problem, seed, options):
        self.name, self.p, self.seed, self.o = name, problem, seed, options
        self.support = problem.from_slots(
            (np.arange(problem.layout.outcomes.shape[2]) < problem.layout.count[..., None]).astype(float)
        ).astype(bool)
        self.centres = options.get("centres")
        self.cells = [Cell(problem) for _ in range(1 if self.centres is None else len(self.centres))]
        self.delta, self.c = options.get("delta", 0.05) / len(self.cells), options.get("bonus_scale", 1.0)

    def cell(self, x):
        near = 0 if self.centres is None else int(np.argmin(((self.centres - x) ** 2).sum(1)))
        return self.cells[near]

    def pick(self, k, h, Q):
        """(action, value) in every state; ties by the key of the episode."""
        S = self.p.n_states
        key, chosen = reference.words(self.seed, k, 0, reference.TIE)[0], []
        for s in range(S):
            allowed = np.flatnonzero(self.p.layout.available[s])
            best = max(Q[s, a] for a in allowed)
            tied = [a for a in allowed if Q[s, a] >= best - 1e-9]
            chosen.append((tied[(reference.mix(key, h * S + s) * len(tied)) >> 32], best))
        return np.array([a for a, _ in chosen]), np.array([v for _, v in chosen])

    def plan(self, x, k):
        me, p, S, A, H = self.cell(x), self.p, self.p.n_states, self.p.n_actions, self.p.horizon
        self.told = None if p.known_rewards is None else np.clip(p.known_rewards @ x, 0.0, 1.0)
        if self.name == "ucrl2" and me.kept is not None and (me.n - me.then < np.maximum(1, me.then)).all():
            return me.kept
        model = getattr(self, self.name.replace("-", "_"))
        policy, V, low = np.zeros((H, S), int), np.zeros((H + 1, S)), np.zeros((H + 1, S))
        sampled = self.sample(me, k) if self.name == "psrl" else None
        for h in reversed(range(H)):
            Q = np.zeros((S, A))
            floor = np.zeros((S, A))
            for s in range(S):
                for a in range(A):
                    if p.layout.available[s, a]:
                        on = self.support[s, a]
                        c = me.counts[s, a][on]
                        P = c / c.sum() if c.sum() else np.full(on.sum(), 1 / on.sum())
                        more = (sampled,) if sampled else (low[h + 1][on],)
                        made = model(me, k, h, s, a, c.sum(), P, V[h + 1][on], *more)
                        Q[s, a], floor[s, a] = made if isinstance(made, tuple) else (made, 0.0)
            if self.name not in ("psrl", "rlsvi") or self.o.get("constants") == "practised":
                Q = np.clip(Q, 0, H - h)
            policy[h], V[h] = self.pick(k, h, Q)
            low[h] = np.clip(floor[np.arange(S), policy[h]], 0, H - h)
        me.kept, me.then, self.low = (policy, V), me.n.copy(), low
        return policy, V

    def mean(self, me, s, a):
        return me.rewards[s, a] / max(1, me.seen[s, a])

    def ucrl2(self, me, k, h, s, a, n, P, V, low):
        S, A, H = self.p.n_states, self.p.n_actions, self.p.horizon
        t = me.k * H + 1
        r = self.mean(me, s, a) + self.c * math.sqrt(
            7 * math.log(2 * S * A * t / self.delta) / (2 * max(1, me.seen[s, a]))
        )
        r = r if self.told is None else self.told[s, a]
        width = self.c * math.sqrt(14 * len(P) * math.log(2 * A * t / self.delta) / max(1, n))
        return min(1, r) + best_in_ball(P, width, V)

    def ucbvi_ch(self, me, k, h, s, a, n, P, V, low):
        S, A, H, K = self.p.n_states, self.p.n_actions, self.p.horizon, self.o.get("episodes", 100_000)
        kind = self.o.get("bonus", "hoeffding")
        if kind == "practised":
            b = min(self.c / math.sqrt(n) + (H - h) / n, H - h) if n else H - h
            if self.told is not None:
                return self.told[s, a] + P @ V + (b if len(P) > 1 else 0.0)
            return self.mean(me, s, a) + P @ V + b
        T = (me.k * H + 1) ** 2 if K is None else K * H
        factor = {"hoeffding": 5, "bernstein": 5, "tight": 3, "monotone": 5 * H}[kind]
        L = math.log(factor * S * A * T / self.delta)
        seen = me.seen[s, a]
        r = min(1.0, self.mean(me, s, a) + self.c * math.sqrt(L / (2 * seen))) if seen else 1.0
        r = r if self.told is None else self.told[s, a]
        var, on = P @ (V - P @ V) ** 2, self.support[s, a]
        if len(P) == 1:
            b = 0.0
        elif n == 0 or (n == 1 and kind == "monotone"):
            b = H - h - 1 if kind == "monotone" else H
        elif kind == "hoeffding":
            b = self.c * 7 * H * L / math.sqrt(n)
        elif kind == "bernstein":
            visits = np.maximum(1, me.at[h + 1][on])
            doubt = P @ np.minimum(100**2 * S**2 * A * H**3 * L**2 / visits, H**2) if h + 1 < H else 0.0
            b = self.c * (math.sqrt(8 * L * var / n) + 14 * H * L / (3 * n) + math.sqrt(8 * doubt / n))
        elif kind == "tight":
            b = self.c * (math.sqrt(2 * L * var / n) + 7 * H * L / (3 * n))
        else:
            b = self.c * max(math.sqrt(4.5 * L * var / (n - 1)), 7 * (H - h - 1) * L / (n - 1))
            b = min(H - h - 1, b)
        me.Q[h, s, a] = min(me.Q[h, s, a], r + P @ V + b)
        return me.Q[h, s, a]

    ucbvi_bf = ucbvi_ch

    def orlc(self, me, k, h, s, a, n, P, V, low):
        S, A, H = self.p.n_states, self.p.n_actions, self.p.horizon
        r, seen, m = self.mean(me, s, a), me.seen[s, a], len(P)
        sigma, gap = math.sqrt(P @ (V - P @ V) ** 2), P @ (V - low) / H
        r = r if self.told is None else self.told[s, a]
        if self.o.get("constants") == "paper":
            log = math.log(5.2 * (5 * S * A * H + 4 * S * A + 4 * S * S * A) / self.delta)
            phi = 1.0
            if seen:
                phi = min(1.0, math.sqrt(0.52 / seen * (1.4 * math.log(math.log(max(math.e, seen))) + log)))
            psi = self.c * ((1 + math.sqrt(12) * sigma) * phi + 45 * S * H**2 * phi**2 + gap)
            return r + P @ V + psi, r + P @ low - psi
        M, left = self.support.sum(2).max(), H - h - 1
        log = math.log(7 * S * A * (H + M + 1) / self.delta)
        width = self.c * math.sqrt((log + 2 * math.log(seen)) / (2 * seen)) if seen else 1.0
        psi = 0.0 if m == 1 else left
        if m > 1 and n > 1:
            rate = (log + 2 * math.log(n)) / (n - 1)
            psi = self.c * (math.sqrt(2 * rate) * sigma + gap + (1 + m) * (H + 7 / 3) * left * rate)
            psi = min(left, psi)
        width = width if self.told is None else 0.0
        return min(1, r + width) + P @ V + psi, max(0, r - width) + P @ low - psi

    def rlsvi(self, me, k, h, s, a, n, P, V, low):
        S, A, H = self.p.n_states, self.p.n_actions, self.p.horizon
        beta = 0.5 * S * H**3 * math.log(2 * H * S * A * (me.k + 1))
        i = (h * S + s) * A + a
        z = special.ndtri(reference.uniforms(self.seed, k, i - i % 2, reference.NOISE)[i % 2])
        rewarded = 1 + (me.seen[s, a] if self.told is None else n)
        r = me.rewards[s, a] / rewarded if self.told is None else self.told[s, a]
        noise, after = self.c * math.sqrt(beta / rewarded) * z, n / (n + 1) * (P @ V)
        if self.o.get("constants") == "practised":
            noise = (self.c / math.sqrt(rewarded) + (H - h) / rewarded) / 2 * z
            after += np.mean(V) / (n + 1)  # the rest, evenly
        return r + after + noise

    def sample(self, me, k):
        P, r = {}, {}
        S, A, M = self.p.layout.outcomes.shape
        for s in range(S):
            for a in range(A):
                if self.p.layout.available[s, a]:
                    first, c = (s * A + a) * (M + 2), me.counts[s, a][self.support[s, a]]
                    g = [draw_gamma(self.o.get("prior", 1.0) + v, self.seed, k, first + j) for j, v in enumerate(c)]
                    P[s, a] = np.array(g) / sum(g)
                    wins = me.rewards[s, a]
                    u = draw_gamma(1 + wins, self.seed, k, first + M)
                    v = draw_gamma(1 + me.seen[s, a] - wins, self.seed, k, first + M + 1)
                    r[s, a] = u / (u + v)
        return P, r

    def psrl(self, me, k, h, s, a, n, P, V, sampled):
        return (sampled[1] if self.told is None else self.told)[s, a] + sampled[0][s, a] @ V

    def learn(self, x, steps):
        me = self.cell(x)
        me.k += 1
        for h, (s, a, reward, after) in enumerate(steps):
            me.counts[s, a, after] += 1
            me.at[h, s] += 1
            if not math.isnan(reward):
                me.rewards[s, a] += reward
                me.seen[s, a] += 1


def told(world):
    """The same world, with mean rewards that are known."""
    problem = dataclasses.replace(world.problem, known_rewards=world.reward_weights)
    return nr.World(problem, world.weights, world.reward_weights, world.contexts, world.initial_state)


WORLDS = {
    "alike": lambda: nr.worlds.random_linear(3, 2, 4, 1, seed=1),
    "clinic": nr.worlds.clinic,
    "logit": lambda: nr.worlds.random_logit(4, 3, 3, 3, seed=1),
    "told": lambda: told(nr.worlds.random_logit(4, 3, 3, 3, seed=1)),
    "river": lambda: nr.worlds.riverswim_logit(4, 5),
}
TWINS = [
    ("ucrl2", {}),
    ("ucrl2", {"bonus_scale": 0.1}),
    ("ucbvi-ch", {}),
    ("ucbvi-ch", {"bonus_scale": 0.005}),
    ("ucbvi-ch", {"bonus_scale": 0.005, "episodes": None}),
    ("ucbvi-bf", {"bonus_scale": 0.03}),
    ("ucbvi-bf", {"bonus": "tight", "bonus_scale": 0.1}),
    ("ucbvi-bf", {"bonus": "monotone", "bonus_scale": 0.01}),
    ("ucbvi-bf", {"bonus": "practised"}),
    ("ucbvi-bf", {"bonus": "practised", "bonus_scale": 0.3}),
    ("orlc", {}),
    ("orlc", {"bonus_scale": 0.002}),
    ("orlc", {"constants": "paper", "bonus_scale": 0.001}),
    ("psrl", {}),
    ("psrl", {"prior": 0.3}),
    ("rlsvi", {}),
    ("rlsvi", {"bonus_scale": 0.1}),
    ("rlsvi", {"constants": "practised"}),
    ("rlsvi", {"constants": "practised", "bonus_scale": 0.1}),
]


@pytest.mark.study(first=60)
@pytest.mark.parametrize("where", WORLDS)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("name", "options"), TWINS, ids=[f"{n}-{'-'.join(map(str, o.values()))}" for n, o in TWINS])
def test_plans_are_those_of_the_formulas(name, options, where, split):
    """45 episodes, masks, cells, missing rewards."""
    world = WORLDS[where]()
    if split:
        rows = np.array([world.context(0, k) for k in range(40)])
        options = options | {"centres": cells.kmeans(rows, 3)}
    agent = nr.make_agent(name, world.problem, **options, seed=5)
    twin = Twin(name, world.problem, 5, options | ({"bonus": "bernstein"} if options.get("bonus") is None and
                                                   name == "ucbvi-bf" else {}))  # fmt: skip
    kinds = set()
    for k in range(45):
        someone, steps = world.individual(k, 5), []
        plan = agent.begin_episode(someone.context)
        policy, V = twin.plan(someone.context, k)
        assert np.allclose(plan.values, V, rtol=0, atol=1e-9)
        assert np.array_equal(plan.policy, policy)
        if name == "orlc":
            assert np.allclose(agent.work.lower, twin.low, rtol=0, atol=1e-9)
        kinds |= set(np.round(V[0], 9))
        for h in range(world.problem.horizon):
            s = someone.state
            a = agent.act(s)
            reward, after = someone.step(a)
            reward = math.nan if (7 * k + h) % 11 == 0 else reward
            agent.observe(reward, after)
            steps.append((s, a, reward, after))
        agent.end_episode()
        twin.learn(someone.context, steps)
    if options.get("bonus_scale", 1.0) != 1.0 and where == "alike" and not split:
        assert len(kinds) > 3  # the values are not only the clip


# Inner problems ------------------------------------------------------------------------------------------------------
SUPPORT = (np.random.default_rng(5).random((5, 3, 5)) < 0.5) | (np.arange(5) == 1)


@pytest.mark.parametrize("support", [None, SUPPORT], ids=["dense", "masked"])
def test_inner_maximisation_is_that_of_a_linear_program(support):
    """300 instances with coinciding values, degenerate estimates and radii from 0 to 2.5."""
    problem = nr.Problem(5, 3, 2, 1, support=support, weight_bound=1.0, reward_bound=1.0)
    g, agent = np.random.default_rng(1), nr.agents.UCRL2(problem)
    layout = agent.problem.layout
    for trial in range(20):
        P = np.zeros(layout.outcomes.shape)
        for s in range(5):
            for a in range(3):
                m = layout.count[s, a]
                P[s, a, :m] = g.multinomial(4, np.full(m, 1 / m)) / 4 if trial % 2 else g.dirichlet(np.ones(m))
        V = g.integers(0, 4, 5).astype(float) if trial % 3 == 0 else g.random(5)
        agent.work.xi[:] = g.choice([0.0, 0.1, 0.7, 2.0, 2.5], (5, 3))
        Q = np.zeros((5, 3))
        tabular_ucrl2.adjust(agent.par, agent.state, agent.work, 0, 0, P, V, Q)
        for s in range(5):
            for a in range(3):
                m = layout.count[s, a]
                v, p = V[layout.outcomes[s, a, :m]], P[s, a, :m]
                # variables q and e >= |q - p|: sum q = 1, sum e <= xi
                rows = np.block([[np.eye(m), -np.eye(m)], [-np.eye(m), -np.eye(m)], [np.zeros(m), np.ones(m)]])
                made = optimize.linprog(
                    np.r_[-v, np.zeros(m)],
                    rows,
                    np.r_[p, -p, agent.work.xi[s, a]],
                    [np.r_[np.ones(m), np.zeros(m)]],
                    [1],
                )
                assert p @ v + Q[s, a] == pytest.approx(-made.fun, abs=1e-9)


@pytest.mark.parametrize("support", [None, SUPPORT], ids=["dense", "masked"])
def test_variance(support):
    problem = nr.Problem(5, 3, 2, 1, support=support, weight_bound=1.0, reward_bound=1.0)
    g, layout = np.random.default_rng(2), problem.layout
    for _ in range(50):
        V, P = 10 * g.random(5), np.zeros(layout.outcomes.shape)
        for s in range(5):
            for a in range(3):
                m = layout.count[s, a]
                P[s, a, :m] = g.dirichlet(np.full(m, 0.3))
                v, p = V[layout.outcomes[s, a, :m]], P[s, a, :m]
                wanted = float(sum(p[i] * p[j] * (v[i] - v[j]) ** 2 for i in range(m) for j in range(i)))
                assert tabular.variance(P, layout, s, a, V, p @ v) == pytest.approx(wanted, rel=1e-10, abs=1e-14)


def test_the_monotone_bonus_is_monotone_and_the_sum_is_not():
    """P V + bonus(V) must not fall when V rises, or optimistic values would say nothing about the optimal ones."""
    one, seven = tabular_ucbvi.MAX

    def largest(P, V, rate, left):
        return P @ V + min(left, max(math.sqrt(one * rate * (P @ (V - P @ V) ** 2)), seven * left * rate))

    g = np.random.default_rng(0)
    for _ in range(20_000):
        P, left, rate = g.dirichlet(np.full(4, g.choice([0.1, 1.0]))), g.integers(1, 9), 10 ** g.uniform(-5, 0.5)
        low = left * g.random(4) * (g.random(4) < 0.8)
        high = low + (left - low) * g.random(4) * (g.random(4) < 0.5)
        assert largest(P, low, rate, left) <= largest(P, high, rate, left) + 1e-12
    P, rate = np.array([0.01, 0.99]), 0.01
    values = [P @ V + math.sqrt(2 * rate * (P @ (V - P @ V) ** 2)) + 7 / 3 * rate for V in ([0.0, 1.0], [0.1, 1.0])]
    assert values[1] < values[0]


# Random numbers ------------------------------------------------------------------------------------------------------
def test_normal_quantiles():
    p = np.r_[2.0 ** -np.arange(2, 54), np.linspace(0.001, 0.999, 999), 1 - 2.0 ** -np.arange(2, 54)]
    assert np.allclose([inverse_normal(v) for v in p], special.ndtri(p), rtol=1e-13, atol=1e-15)


def test_many_uniforms_are_the_same_uniforms():
    u, v = np.zeros((2, 37))
    fill_uniforms(2**40 + 3, 2**33 + 1, 5, 16, POSTERIOR, u, v)
    assert [*zip(u, v, strict=True)] == [uniforms(2**40 + 3, 2**33 + 1, 5 + 16 * i, POSTERIOR) for i in range(37)]


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 1.5, 7.0, 1000.0])
def test_gamma_variates(shape):
    """Kolmogorov-Smirnov on 8,000 draws, level 1e-6; the plain-Python form gives the same."""
    made = [gamma(shape, 3, k, i, POSTERIOR) for k in range(2000) for i in range(4)]
    assert stats.kstest(made, stats.gamma(shape).cdf).pvalue > 1e-6
    shapes, room = np.full(8000, shape), np.zeros((4, 8000))
    gammas(shapes, 3, 0, POSTERIOR, *room)
    assert np.array_equal(room[3][:4], made[:4])
    assert np.array_equal(room[3], [gamma(shape, 3, 0, i, POSTERIOR) for i in range(8000)])
    assert made[:40] == pytest.approx([draw_gamma(shape, 3, k, i) for k in range(10) for i in range(4)], rel=1e-12)


# What is promised ----------------------------------------------------------------------------------------------------
def two_kinds(order="random"):
    """Two individuals that share nothing; contexts are table rows, so that cells hold one of them each."""
    base = nr.worlds.random_linear(3, 2, 3, 2, seed=4)
    return nr.World(base.problem, base.weights, base.reward_weights, nr.contexts.Table(np.eye(2), order))


def masked():
    """The clinic, where only one patient ever comes."""
    world = nr.worlds.clinic()
    return nr.World(
        world.problem, world.weights, world.reward_weights, nr.contexts.Table(world.contexts.support[:1]), 2
    )


INSIDE = {
    "alike": (lambda: nr.worlds.random_linear(3, 2, 3, 1, seed=2), {}),
    "cells": (two_kinds, {"centres": np.eye(2)}),
    "masked": (masked, {}),
}
OPTIMISTIC = [
    ("ucrl2", {}), ("ucbvi-ch", {}), ("ucbvi-ch", {"episodes": None}), ("ucbvi-bf", {}),
    ("ucbvi-bf", {"bonus": "monotone"}), ("ucbvi-bf", {"bonus": "monotone", "episodes": None}), ("orlc", {}),
    ("orlc", {"constants": "paper"}),
]  # fmt: skip


@pytest.mark.study(first=14)
@pytest.mark.parametrize("where", INSIDE)
@pytest.mark.parametrize(("name", "options"), OPTIMISTIC)
def test_optimism_never_fails_inside_the_assumptions(name, options, where):
    """24 seeds, 1,500 episodes, every state and step, delta = 0.3: a run may fail with probability at most 0.3."""
    make, more = INSIDE[where]
    world = make()
    agent = nr.make_agent(name, world.problem, **options, **more, delta=0.3)
    run = nr.simulate(agent, world, 1500, seeds=24, every=1500, diagnostics=True)
    assert run.diagnostics["optimism_failures"].sum() == 0
    claims = options.get("constants") != "paper" and (name != "ucbvi-bf" or "bonus" in options)
    assert (agent.guarantee is not None) == agent.bounds_values == claims


@pytest.mark.study(first=1)
@pytest.mark.parametrize(
    ("name", "options", "episodes"),
    [
        ("ucrl2", {}, 30_000),
        ("ucbvi-ch", {"episodes": 250_000}, 250_000),
        ("ucbvi-bf", {}, 30_000),
        ("ucbvi-bf", {"bonus": "monotone"}, 30_000),
        ("orlc", {}, 30_000),
        ("orlc", {"constants": "paper"}, 30_000),
    ],
)
def test_optimism_never_fails_when_the_bonuses_are_small(name, options, episodes):
    """20 seeds in a world of two states and steps, until the bonuses separate the actions: late regret is less than
    half of uniform play's."""
    world = nr.worlds.random_linear(2, 2, 2, 1, seed=3)
    agent = nr.make_agent(name, world.problem, **options, delta=0.3)
    run = nr.simulate(agent, world, episodes, seeds=20, every=episodes // 10, diagnostics=True)
    assert run.diagnostics["optimism_failures"].sum() == 0
    assert run.late.mean() < 0.5 * nr.simulate(nr.UniformRandom(world.problem), world, 2000).late.mean()


def test_optimism_fails_without_the_bonus():
    """The experiment above can tell: with a hundredth of the bonus it finds failures."""
    make, _ = INSIDE["alike"]
    for name, scale in (("ucrl2", 0.03), ("ucbvi-ch", 0.001), ("ucbvi-bf", 0.01), ("orlc", 0.01)):
        agent = nr.make_agent(name, make().problem, bonus_scale=scale)
        run = nr.simulate(agent, make(), 300, seeds=4, every=300, diagnostics=True)
        assert run.diagnostics["optimism_failures"].sum() > 0
        assert agent.guarantee is None


@pytest.mark.long
@pytest.mark.parametrize("split", [False, True])
def test_certificates_of_orlc(split):
    """20 seeds: lower values below the plan's own and certificates above its shortfall in every state, delta = 0.3;
    they come to say something (two seeds)."""
    world = two_kinds("cycle") if split else nr.worlds.random_linear(2, 2, 2, 1, seed=3)
    H, S = world.problem.horizon, world.problem.n_states
    last = []
    for seed in range(20):
        agent = nr.agents.make_agent("orlc", world.problem, delta=0.3, seed=seed, centres=np.eye(2) if split else None)
        for k in range(40 if split else 3000 if seed < 2 else 100):
            someone = world.individual(k, seed)
            plan = agent.begin_episode(someone.context)
            if k % 10 == 0 or k > 2990:
                best = world.optimal(someone.context).values
                own = [world.value(plan.policy, someone.context, s) for s in range(S)]
                assert (plan.lower[0] <= np.array(own) + 1e-9).all()
                assert (plan.upper >= best - 1e-9).all()
                assert plan.certificate >= (best[0] - own)[world.problem.starts].max() - 1e-9
            for _ in range(H):
                agent.observe(*someone.step(agent.act(someone.state)))
            agent.end_episode()
        last.append(plan.upper[0, 0] - plan.lower[0, 0])  # where episodes start
        assert last[-1] <= plan.certificate <= H
    if not split:
        assert np.mean(last[:2]) < 0.75 * H


@pytest.mark.parametrize("where", INSIDE)
@pytest.mark.parametrize(
    ("name", "options", "factor"),
    [
        ("psrl", {}, 8.0),
        ("rlsvi", {"bonus_scale": 0.05}, 3.0),
        ("ucrl2", {}, 1.5),
        ("ucbvi-bf", {"bonus": "tight"}, 1.5),
    ],
)
def test_regret_falls_and_beats_uniform_play(name, options, factor, where):
    """Late regret per episode is below that of the first tenth and below uniform play's by the factor, in the mean of 8
    seeds."""
    make, more = INSIDE[where]
    world = make()
    run = nr.simulate(nr.make_agent(name, world.problem, **options, **more), world, 4000, seeds=8, every=400)
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 4000, seeds=8, every=400)
    assert run.late.mean() < 0.8 * run.regret[:, 0].mean() / 400
    assert factor * run.late.mean() < uniform.late.mean()


@pytest.mark.long
def test_psrl_draws_from_the_posterior():
    """600 worlds from the prior, at the fifth episode: the planned value and the optimal one have the same distribution
    given the past, so each is the larger one half of the time (binomial, level 1e-6), and they differ less than two
    independent draws from the prior would."""
    drawn, true = np.zeros(600), np.zeros(600)
    for seed in range(600):
        world = nr.worlds.random_linear(3, 2, 3, 1, concentration=1.0, seed=seed)
        agent = nr.agents.PSRL(world.problem, seed=seed)
        for k in range(5):
            someone = world.individual(k, seed)
            plan = agent.begin_episode(someone.context)
            for _ in range(3):
                agent.observe(*someone.step(agent.act(someone.state)))
            agent.end_episode()
        drawn[seed], true[seed] = plan.values[0, 0], world.optimal(someone.context).values[0, 0]
    assert stats.binomtest(int((drawn > true).sum()), 600).pvalue > 1e-6
    assert stats.ks_2samp(drawn, true).pvalue > 1e-6
    assert np.corrcoef(drawn, true)[0, 1] > 0.2


def test_rlsvi_is_optimistic_often_enough():
    """At least 0.158 of the episodes, given the past; an excess of failures has probability 1e-6 (Hoeffding)."""
    world = INSIDE["alike"][0]()
    agent, n, failures = nr.make_agent("rlsvi", world.problem, seed=3), 400, 0
    for k in range(n):
        someone = world.individual(k, 3)
        plan = agent.begin_episode(someone.context)
        failures += plan.values[0, someone.state] < world.optimal(someone.context).values[0, someone.state]
        for _ in range(world.problem.horizon):
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
    assert failures <= n * (1 - 0.158) + math.sqrt(0.5 * n * math.log(1e6))
    assert 0.05 * n < failures


@pytest.mark.long
def test_ucrl2_replans_when_a_count_has_doubled():
    world = INSIDE["alike"][0]()
    agent, plans, before = nr.agents.UCRL2(world.problem), [], None
    for k in range(2000):
        someone = world.individual(k, 0)
        stale = agent.state.stale[0] == 1.0
        plan = agent.begin_episode(someone.context)
        plans.append(stale)
        if k and not stale:
            assert np.array_equal(plan.policy, before)
        before = plan.policy
        for _ in range(world.problem.horizon):
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
    pairs = world.problem.n_pairs
    assert pairs <= sum(plans) <= pairs * (2 + math.log2(6000 / pairs))


def test_bad_options():
    problem = nr.Problem(3, 2, 3, 2, weight_bound=1.0, reward_bound=1.0)
    for name, options, message in (
        ("ucrl2", {"centres": [1.0, 2.0]}, r"centres must have shape \(m, 2\) with m and d at least 1, got \(2,\)"),
        (
            "psrl",
            {"centres": [[1.0, 2.0, 3.0]]},
            r"centres must have shape \(m, 2\) with m and d at least 1, got \(1, 3\)",
        ),
        ("psrl", {"prior": 0}, "prior must be a positive number, got 0"),
        (
            "ucbvi-ch",
            {"bonus": "big"},
            "bonus must be one of 'hoeffding', 'bernstein', 'tight', 'monotone', 'practised', got 'big'",
        ),
        ("ucbvi-bf", {"episodes": 0}, "episodes must be an integer of at least 1, got 0"),
        ("ucbvi-ch", {"delta": 1.0}, "delta must be a number between 0 and 1, got 1.0"),
        ("orlc", {"constants": "best"}, "constants must be one of 'corrected', 'paper', got 'best'"),
        ("rlsvi", {"bonus_scale": -1}, "bonus_scale must be a number of at least 0, got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            nr.make_agent(name, problem, **options)


def test_labels_and_groups():
    problem = nr.Problem(3, 2, 3, 2, weight_bound=1.0, reward_bound=1.0)
    assert nr.agents.UCBVI(problem).label == "ucbvi-ch"
    assert nr.agents.UCBVI(problem, bonus="tight").label == "ucbvi-ch (bonus=tight)"
    assert nr.make_agent("ucbvi-bf", problem).label == "ucbvi-bf"
    assert nr.make_agent("ucbvi-bf", problem, bonus="monotone").label == "ucbvi-bf (bonus=monotone)"
    assert nr.make_agent("psrl", problem, centres=np.eye(2)).guarantee.endswith("the same for everybody in a cell")
    assert {nr.make_agent(n, problem).group for n in ("ucrl2", "ucbvi-ch", "orlc", "psrl", "rlsvi")} == {"tabular"}


# As practised, and known rewards --------------------------------------------------------------------------------------
def test_practised_constants_learn_where_the_printed_ones_do_not():
    """S = 10, A = 4, H = 10, 500 episodes of four worlds: printed they are uniform play, practised a third of it and
    less. Measured over 12 worlds (`noregret bench --regret --beds tabular`): 354 and 341 of 1,562."""
    lost = np.zeros((5, 4))
    for seed in range(4):
        world = nr.worlds.random_linear(10, 4, 10, 1, seed=seed)
        agents = [
            nr.agents.UCBVIBF(world.problem, bonus="practised"), nr.agents.UCBVIBF(world.problem),
            nr.agents.TabularRLSVI(world.problem, constants="practised"), nr.agents.TabularRLSVI(world.problem),
            nr.UniformRandom(world.problem),
        ]  # fmt: skip
        lost[:, seed] = [nr.simulate(agent, world, 500, [seed], every=500).final[0] for agent in agents]
    ucbvi, printed, rlsvi, proved, uniform = lost.mean(1)
    assert max(ucbvi, rlsvi) < uniform / 3
    assert min(printed, proved) > 0.9 * uniform
    assert all(agent.guarantee is None for agent in (agents[0], agents[2]))


def test_known_rewards_are_not_learned_again():
    """With them RiverSwim costs PSRL less: nothing has to be tried for its reward. Twelve runs."""
    world = nr.worlds.riverswim_logit()
    blind = nr.worlds.riverswim_logit(known_rewards=False)
    known, learned = (
        nr.simulate(nr.agents.PSRL(w.problem), w, 300, seeds=12, every=300).final.mean() for w in (world, blind)
    )
    assert known < learned
    for name in ("ucrl2", "ucbvi-ch", "orlc", "psrl"):
        said = nr.make_agent(name, world.problem).guarantee
        assert said.startswith("if mean rewards are as told, then ")
        alike = "transitions" if name in ("orlc", "psrl") else "transitions and mean rewards"  # the others keep values
        assert said.endswith(f"where {alike} are the same for everybody")
