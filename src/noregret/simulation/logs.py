"""What an agent that learns would have logged of a world's individuals, with the exact probabilities of its actions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..agents.base import Agent
from ..agents.commit import call_learn, call_plan, put
from ..agents.probabilities import known_exactly
from ..agents.refutation import bet_on_returns
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import direct, inlined, kernel
from ..problem.log import Log, LoggedEpisode
from ..problem.problem import Problem
from ..worlds import World
from ..worlds.contexts import Adversary
from .engine import FusedSession, Setup, Visit, call_roll
from .model_cache import look_up


class Kept(NamedTuple):
    """What is written down of n individuals."""

    states: NDArray[np.int64]  # [n, H+1]
    actions: NDArray[np.int64]  # [n, H]
    rewards: Floats  # [n, H]
    chances: Floats  # [n, H, A], of all actions, given the past; nan where the agent has no lottery
    weights: Floats  # [N], scratch
    available: NDArray[np.bool_]  # [S, A]
    masks: NDArray[np.bool_]  # [n, S, A], what each could get; [0, S, A]: all that is available
    policies: NDArray[np.int16]  # [n, H, S], what was planned for each; [0, H, S]: not kept


@inlined
def chances_along(plans, floor, path, available, w, chances):
    """chances [H, A] <- P(a | past) along a path (`agents.lottery`). available [S, A]; w [N]: scratch."""
    (N, H, _), A = plans.shape, chances.shape[1]
    for i in range(N):
        w[i] = 1.0 / N
    for h in range(H):
        s, n = path.states[h], 0
        for a in range(A):
            n += int(available[s, a])
        for a in range(A):
            chances[h, a] = floor / n if available[s, a] else 0.0
        for i in range(N):
            chances[h, plans[i, h, s]] += w[i] * (1.0 - floor)
        a = path.actions[h]
        for i in range(N):
            w[i] *= (floor / n + (1.0 - floor if plans[i, h, s] == a else 0.0)) / chances[h, a]


@kernel
def write_down(kernels, agent, people, span, buffers, meter, kept):
    """`engine.loop` for an agent without a pause, and every path written down."""
    out, path, X, known = buffers.out, buffers.path, people.X, people.known
    H = out.policy.shape[0]
    masked = people.masks.shape[0] > 0
    for i in range(X.shape[0]):
        x, k = X[i], span.first + i
        mask, available = buffers.everybody[:0], kept.available
        if masked:
            mask = available = people.masks[i]
            put(mask, kept.masks[k])
            put(mask, buffers.in_force)
        call_plan(kernels.plan, agent, (x, k, out))
        if masked:
            put(buffers.everybody, buffers.in_force)
        c = look_up(known, x)
        truth, visit = people.truths[c], Visit(x, known.known[c], people.starts[i], k, mask)
        call_roll(kernels.roll, (truth,), (visit, out, path, meter.gap))
        if c < known.X.shape[0]:
            known.known[c] = 1
        kept.states[k, H] = path.states[H]
        for h in range(H):
            kept.states[k, h], kept.actions[k, h] = path.states[h], path.actions[h]
            kept.rewards[k, h] = path.rewards[h]
        if kept.policies.shape[0] > 0:
            for h in range(H):
                for s in range(out.policy.shape[1]):
                    kept.policies[k, h, s] = out.policy[h, s]
        if out.plans.shape[0] > 0:
            chances_along(out.plans, out.floor[0], path, available, kept.weights, kept.chances[k])
        bet_on_returns(buffers.evidence, buffers.upper, H, path)
        call_learn(kernels.learn, agent, (x, k, H, path))
        meter.total[0] += meter.gap[0]


def logged(agent: Agent, world: World, people: int, seed: int = 0) -> Log:
    """The log of a fresh copy of `agent` that meets the first so many individuals of that seed and learns from them.

    Probabilities are those of its draws: exact, given the past, of an agent with several plans or a floor
    (`agents.lottery`), and of `UniformRandom` and `FixedPolicy`; nan of any other, whose chances nobody knows. To
    evaluate other policies by weights, have a floor: then no chance of an action that this person can get is 0. People
    and luck are those of `simulate` with the same seed. For `agent.learn_from` and for studies of evaluation, where
    the truth is known.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=3)
    >>> log = nr.logged(nr.PSRLGLM(world.problem, plans=4, floor=0.3), world, people=50, seed=1)
    >>> len(log), log.steps
    (50, 150)
    >>> bool(min(e.probabilities.min() for e in log) >= 0.1 - 1e-12)  # floor/|A|, A of three actions
    True
    """
    if not isinstance(agent, Agent) or not agent.fused or agent.pause:
        raise ValueError("agent must be a compiled noregret agent that plans whole episodes")
    check.instance("world", world, World, "a noregret.World")
    if not world.problem.same_shape(agent.problem):
        raise ValueError("agent was made for a problem of another shape than the world's")
    if isinstance(world.contexts, Adversary):
        raise ValueError("logged needs a world whose contexts do not look at the agent")
    people, seed = check.integer("people", people), check.integer("seed", seed, 0)
    contexts, kept, _ = written(agent, world, people, seed)
    return log_of(world.problem, contexts, kept)


def log_of(p: Problem, contexts: Floats, kept: Kept) -> Log:
    """What was written down, as a log."""
    rewards = np.where(kept.rewards > 0.5, p.scale.high, p.scale.low)
    chances = np.take_along_axis(kept.chances, kept.actions[..., None], 2)[..., 0]
    masks = kept.masks if len(kept.masks) else [None] * len(contexts)
    rows = zip(contexts, kept.states, kept.actions, rewards, chances, masks, strict=True)
    return Log(p, tuple(LoggedEpisode(k, *seen) for k, seen in enumerate(rows)))


def written(agent: Agent, world: World, n: int, seed: int, policies: bool = False) -> tuple[Floats, Kept, Agent]:
    """Contexts [n, d], what is written down of the first n individuals of a seed, and the agent that has learned from
    them. policies: keep everybody's plan."""
    p, f = world.problem, np.zeros
    H, S, A, d = p.horizon, p.n_states, p.n_actions, p.context_dim
    check.memory(f"a log of people = {n}", n * (8.0 * (2 * d + (8 + A) * H) + 2.0 * policies * H * S + S * A))
    session = FusedSession(agent.fresh(seed), Setup(world, seed, n, n))
    session.prepare()
    made = session.agent
    N = len(made.buffers[0].plans)
    kept = Kept(
        f((n, H + 1), np.int64), f((n, H), np.int64), f((n, H)), np.full((n, H, A), np.nan), f(N),
        p.layout.available.copy(), f((n if world.unavailable is not None else 0, S, A), np.bool_),
        f((n if policies else 0, H, S), np.int16),
    )  # fmt: skip
    contexts = _run(session, kept)
    if N == 0:
        _known(made, kept)
    return contexts, kept, made


def _run(session: FusedSession, kept: Kept) -> Floats:
    """Everybody's contexts [n, d]; the rest is in `kept`."""
    met, run = [], None
    while session.done < session.episodes:
        X, args = session.chunk()
        if run is None:
            with announced(f"the log of {session.agent.name}"):
                run = direct(write_down, *args, kept)
        run(*args, kept)
        session.passed(len(X))
        met.append(X)
    return np.concatenate(met)


def _known(agent: Agent, kept: Kept) -> None:
    """kept.chances <- of agents that know them without a draw."""
    (n, H), S = kept.actions.shape, len(kept.available)
    masks, who = kept.available[None], np.zeros(n, np.int64)
    if len(kept.masks):
        masks, who = np.unique(kept.masks, axis=0, return_inverse=True)
        who = who.reshape(n)
    for i, mask in enumerate(masks):
        agent.mask[...] = mask
        found = [[known_exactly(agent, h, s) for s in range(S)] for h in range(H)]
        if found[0][0] is not None:
            table = np.array([[one.probabilities for one in row if one is not None] for row in found])
            kept.chances[who == i] = table[np.arange(H), kept.states[who == i, :-1]]
    agent.mask[...] = kept.available
