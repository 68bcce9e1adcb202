"""Certificates to expect after so many people: by simulation in a world drawn within a problem's bounds. Not proved."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..agents.local.certified_psrl import CertifiedPSRL
from ..agents.local.lr_orl import LRORL
from ..checks import Floats
from ..problem.design import places
from ..problem.links import MultinomialLogit
from ..problem.problem import Problem
from ..storage.text import aligned
from ..worlds.contexts import Sphere, Table
from ..worlds.designed import transition_weights
from ..worlds.random_worlds import without_design
from ..worlds.world import World
from .run import simulate

LABEL = "expected, not proved"
STRENGTH = 0.8  # norm of drawn weights, as a part of their bound
MOST = 400  # rows of contexts that are drawn from
WINDOW = 0.1  # a point is the mean over this last part of the people up to it
AGENTS: dict[str, Any] = {"lr-orl": LRORL, "certified-psrl": CertifiedPSRL}


@dataclass(frozen=True)
class Expected:
    """One agent's certificates. people [points]; low, certificate, high [points]: the mean over the last tenth of the
    people up to each point, the least, geometric mean and largest over the worlds drawn. design: by the problem's
    design, or as if it had none."""

    agent: str
    sets: str
    design: bool
    people: NDArray[np.int64]
    low: Floats
    certificate: Floats
    high: Floats

    def after(self, people: float) -> float:
        """The mean certificate after so many people, read off the curve in logarithms."""
        return float(np.exp(np.interp(math.log(people), np.log(self.people), np.log(self.certificate))))

    def needed(self, certificate: float) -> float | None:
        """How many people until the mean certificate is below this; None: more than were simulated."""
        below = np.flatnonzero(self.certificate <= certificate)
        if below.size == 0:
            return None
        i = int(below[0])
        if i == 0:
            return float(self.people[0])
        known, at = np.log(self.certificate[[i, i - 1]]), np.log(self.people[[i, i - 1]])
        return float(np.exp(np.interp(math.log(certificate), known, at)))


class ExpectedCertificates(list[Expected]):
    """In order. Prints as a table of certificates by people."""

    def __repr__(self) -> str:
        last = self[0].people[-1]
        people = sorted({*(k * 10**e for e in range(2, 8) for k in (1, 2, 5) if k * 10**e <= last), int(last)})[-5:]

        def cell(row: Expected, k: int) -> str:
            i = int(np.abs(row.people - k).argmin())
            return f"{row.certificate[i]:.2g} ({row.low[i]:.2g}-{row.high[i]:.2g})"

        rows = [(r.agent, r.sets + ", by design" * r.design, *(cell(r, k) for k in people)) for r in self]
        head = "agent", "sets", *(f"{k:,}" for k in people)
        return f"Mean certificate after so many people, {LABEL} (least and largest of the worlds drawn)\n" + aligned(
            [head, *rows]
        )


def expected_certificates(
    problem: Problem | World,
    people: int = 10_000,
    contexts: ArrayLike | None = None,
    *,
    agents: Sequence[str] = ("lr-orl", "certified-psrl"),
    sets: Sequence[str] = ("online",),
    draws: int = 4,
    seed: int = 0,
    delta: float = 0.05,
) -> ExpectedCertificates:
    """What certificates to expect after so many people: expected, not proved.

    Agents are simulated in worlds drawn within the problem's bounds (`draws` of them): weights in random directions,
    0.8 times as long as they may be. Mean rewards depend on state and action alike, or, where they have a design or not
    every next state is possible, on the state above all. `needed(c)` of a row says how many people until the mean
    certificate is below c.

    problem    or a World: your own guess of the truth, which is simulated as it is, once per draw
    contexts   rows [m, d] like the people to come, say those of an earlier log; None: an intercept and directions drawn
               evenly. They matter more than the weights
    sets       "online", "stored"; the second takes a second for some 2,000 people and draw
    delta      of the agents

    With a design there is a second row per agent, for the same world told without it.

    Caveat: the truth decides. Certificates were within a factor of 1.5 of these on most worlds tried, and of 2 on all
    (docs/regret.md). Rewards near 1 for everybody make them smaller, values that differ a lot between states larger.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> made = nr.expected_certificates(world.problem, 2_000, [world.context(0, k) for k in range(100)], draws=2)
    >>> [row.agent for row in made]
    ['lr-orl', 'certified-psrl']
    >>> row = made[0]
    >>> bool(row.after(2_000) < row.after(500)), bool(500 < row.needed(row.after(1_000)) < 2_000)
    (True, True)
    """
    K, n = check.integer("people", people, 100), check.integer("draws", draws)
    delta = check.positive("delta", delta, below=1.0)
    worlds = [problem] * n if isinstance(problem, World) else [_drawn(problem, contexts, seed + i) for i in range(n)]
    for name in agents:
        check.known("agent", name, AGENTS)
    designed = worlds[0].problem.blocks is not None or worlds[0].problem.reward_blocks is not None
    made = ExpectedCertificates()
    for kind in sets:
        for name in agents:
            for design in (True, False) if designed else (False,):
                told = worlds if design or not designed else [without_design(world) for world in worlds]
                made.append(_curve(name, kind, design, told, K, (seed, delta)))
    return made


def _drawn(problem: Problem, contexts: ArrayLike | None, seed: int) -> World:
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a noregret.Problem or a World, got {check.shown(problem)}")
    return drawn_world(problem, contexts, seed)


def _curve(name: str, sets: str, design: bool, worlds: list[World], K: int, run: tuple[int, float]) -> Expected:
    every = max(K // 400, 1)
    rows: list[Floats] = []
    for i, world in enumerate(worlds):
        agent = AGENTS[name](world.problem, sets=sets, delta=run[1])
        made = simulate(agent, world, K, seeds=[run[0] + i], every=every, diagnostics=True, workers=1)
        total = np.concatenate([[0.0], made.diagnostics["certificate"][0]])
        episodes = np.concatenate([[0], made.episodes])
        points = np.unique(np.geomspace(min(100, K), K, 40).astype(np.int64))
        end = np.searchsorted(episodes, points)
        begin = np.minimum(np.searchsorted(episodes, (1.0 - WINDOW) * points), end - 1)
        rows.append((total[end] - total[begin]) / (episodes[end] - episodes[begin]))
    found = np.maximum(np.array(rows), 1e-12)
    mean: Floats = np.exp(np.log(found).mean(0))
    return Expected(name, sets, design, points, found.min(0), mean, found.max(0))


def drawn_world(problem: Problem, contexts: ArrayLike | None = None, seed: int = 0) -> World:
    """A world within the problem's bounds: weights in random directions, 0.8 times as long as they may be; mean rewards
    by the state above all where they have a design or next states are few, else by state and action alike. contexts:
    rows [m, d] to draw people from; None: (1, u)/sqrt 2, u on the sphere, times the bound on contexts."""
    p, g = problem, np.random.default_rng(check.integer("seed", seed, 0))
    if not isinstance(p.link, MultinomialLogit):
        raise ValueError(f"problem must have the link MultinomialLogit, got {p.link!r}")
    X = _sphere(p, g) if contexts is None else p.contexts(contexts)
    X = X[g.permutation(len(X))[:MOST]]
    levels = np.linspace(0.95, 0.05, p.n_states)[:, None] + g.uniform(-0.05, 0.05, (p.n_states, p.n_actions))
    if p.reward_blocks is None and p.layout.dense == 1:
        levels = g.uniform(0.02, 0.98, levels.shape)
    slots = _rows(p, g) if p.blocks is None else _shared_rows(p, g)
    begin = np.zeros(p.n_states)
    begin[p.starts] = 1.0 / len(p.starts)
    theta = None if p.known_rewards is not None else _reward_weights(p, X, levels, g)
    return World(p, _in_full(p, slots), theta, Table(X), begin if len(p.starts) > 1 else int(p.starts[0]), "drawn")


def _in_full(p: Problem, slots: Floats) -> Floats:
    """[S, A, S', d] from [S, A, M, d]."""
    S, A, M = p.layout.outcomes.shape
    made = np.zeros((S, A, S, p.context_dim))
    s, a, j = np.nonzero(np.arange(M) < p.layout.count[..., None])
    made[s, a, p.layout.outcomes[s, a, j]] = slots[s, a, j]
    return made


def _sphere(p: Problem, g: np.random.Generator) -> Floats:
    made = np.empty((1000, p.context_dim))
    Sphere(p.context_dim, intercept=math.sqrt(0.5)).fill(int(g.integers(2**31)), 0, made)
    return made * p.context_bound


def _rows(p: Problem, g: np.random.Generator) -> Floats:
    """[S, A, M, d], relative to the last slot of every pair."""
    rows = g.standard_normal((*p.layout.outcomes.shape, p.context_dim))
    rows *= STRENGTH * p.weight_bound / np.linalg.norm(rows, axis=-1, keepdims=True)
    last = np.arange(rows.shape[2]) == (p.layout.count - 1)[..., None]
    rows[last] = 0.0
    return rows


def _shared_rows(p: Problem, g: np.random.Generator) -> Floats:
    """The same by the problem's design; shorter where a row would be longer than it may be."""
    slots = transition_weights(p, g)
    longest = np.linalg.norm(slots, axis=-1)[p.layout.available].max(initial=0.0)
    made: Floats = slots * STRENGTH * min(1.0, p.weight_bound / max(float(longest), 1e-300))
    return made


def _reward_weights(p: Problem, X: Floats, levels: Floats, g: np.random.Generator) -> Floats:
    """[S, A, d], by the design of the rewards where there is one."""
    S, A, d = p.n_states, p.n_actions, p.context_dim
    weights, blocks, (unit, offset) = np.zeros((S, A, d)), p.reward_blocks, (p.scale.unit, p.scale.offset)
    kind = p.rewards == "logistic", offset
    if blocks is None:
        for s, a in np.argwhere(p.layout.available):
            wanted = np.full(len(X), levels[s, a])
            weights[s, a] = unit * _within(X, wanted + offset, p.reward_bound / unit, kind, g)
        return weights
    for b in range(blocks.size.size):
        pairs = np.argwhere((blocks.block == b) & p.layout.available)
        if len(pairs) > 0:
            psi, free = blocks.features[pairs[:, 0], pairs[:, 1], 0], places(blocks, b, d)
            lifted = (psi[:, None, :, None] * X[None, :, None, :]).reshape(len(pairs) * len(X), -1)[:, free]
            wanted = np.repeat(levels[pairs[:, 0], pairs[:, 1]], len(X))
            full = np.zeros(psi.shape[1] * d)
            full[free] = unit * _within(lifted, wanted + offset, float(blocks.bound[b]) / unit, kind, g)
            weights[pairs[:, 0], pairs[:, 1]] = psi @ full.reshape(psi.shape[1], d)
    return weights


def _within(U: Floats, wanted: Floats, bound: float, kind: tuple[bool, float], g: np.random.Generator) -> Floats:
    """theta for which U theta is near `wanted`, moved a little in a random direction. Unless they are logistic, means
    are in [offset, 1 + offset]: as far from a constant as fits, up to ten times as far as wanted. kind: (logistic,
    offset)."""
    logistic, offset = kind

    def fitted(means: Floats) -> Floats:
        return np.asarray(np.linalg.lstsq(U, means, rcond=1e-9)[0], float)

    move = 0.1 * bound * g.standard_normal(U.shape[1]) / math.sqrt(U.shape[1])
    if logistic:
        theta = fitted(np.log(wanted / (1.0 - wanted))) + move
        return np.asarray(theta * min(1.0, bound / max(float(np.linalg.norm(theta)), 1e-300)))
    middle = fitted(np.full(len(U), float(wanted.mean())))
    away = fitted(wanted) - middle + move
    one = wanted.max() - wanted.min() < 1e-9  # one level: no farther than its own
    for share in np.geomspace(1.0 if one else 10.0, 1e-3, 60):
        tried = middle + share * away
        means = U @ tried
        if means.min() >= offset and means.max() <= 1.0 + offset and np.linalg.norm(tried) <= bound:
            return np.asarray(tried if offset else 0.999 * tried)
    return np.zeros_like(middle)
