"""The one place where the truth and the learner meet: a fused compiled loop, and a Python loop with the same meaning.

One episode: the agent plans for the context, the world rolls the policy out and evaluates it exactly, the agent learns.
The agent's two kernels and the world's one are called through slots from `loop`, which is compiled once for all agents.
An agent with a pause has a third kernel, called between two parts of the roll-out.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..agents.base import Agent, PlanBuffer, Trajectory
from ..agents.commit import call_learn, call_plan, call_replan, put
from ..agents.diagnostics import COLUMNS
from ..agents.refutation import bet_on_returns, until_due, upper_of, watched
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import DISABLED, direct, inlined, kernel
from ..compiler.memory import apart
from ..compiler.slots import EMPTY, Heads, slot
from ..planning.plans import Plan
from ..problem.masks import check_policy
from ..worlds import World
from ..worlds.contexts import Adversary
from ..worlds.truth import behind, behind_lottery, detour, individual, remainder, shortfall, solve, transition
from .model_cache import Acquaintances, acquaintances, look_up, models

CHUNK = 2048  # episodes between two looks at Python: contexts live one chunk at a time, Ctrl-C is heard
_NO_VALUES: Floats = apart(np.zeros((0, 0)))


class Meter(NamedTuple):
    """What is measured along the way."""

    gap: Floats  # [1]: V* - V^pi of the episode, rewards in [0, 1] (`problem.scale`), and so is all below
    epsilon: Floats  # [1]: a larger gap is a mistake
    total: Floats  # [1]: regret so far
    curve: Floats  # [points]
    tally: Floats  # [len(COLUMNS)]: diagnostics so far
    tallies: Floats  # [points, len(COLUMNS)], or [0, 0]


class Kernels(NamedTuple):
    """Slots of what the loop calls."""

    plan: Any
    learn: Any
    roll: Any
    roll_part: Any  # EMPTY without a pause, like the next
    replan: Any
    watch: Any  # EMPTY without diagnostics


class People(NamedTuple):
    """Who comes, one row each."""

    X: Floats  # [n, d], contexts
    starts: NDArray[np.int64]  # [n], initial states
    masks: NDArray[np.bool_]  # [n, S, A], what they can get; or [0, S, A]: everything
    known: Acquaintances  # those who come again (`model_cache`)
    truths: Any  # [C+1]: where the truth about acquaintance c lies, and last that about anybody else


class Visit(NamedTuple):
    """One of them, in one episode."""

    x: Floats
    ready: int  # 1: the truth has this individual's MDP and optimal values already
    start: int
    k: int
    mask: NDArray[np.bool_]  # [S, A], what they can get; or [0, A]: everything


class Span(NamedTuple):
    """Which episodes, and what happens within each."""

    first: int
    last: int  # of all episodes, not of these
    every: int  # a point is recorded every so many
    pause: int  # steps before the agent plans anew; 0: it does not
    watching: int  # 1: diagnostics


class Buffers(NamedTuple):
    """What passes between the agent and the world."""

    out: PlanBuffer
    path: Trajectory
    evidence: Floats  # `refutation`
    upper: Floats  # out.values, or [0, 0] where nothing can be tested by them
    in_force: NDArray[np.bool_]  # [S, A], what the agent's planners look at
    everybody: NDArray[np.bool_]  # [S, A]


call_roll = slot("roll_out", heads=1)
call_part = slot("roll_out_part", heads=1)
call_watch = slot("watch", heads=4)  # par, state, work, truth; (path, out, meter)


@inlined
def meet(truth, visit):
    """The individual's MDP and its optimal values, of what they can get, unless they are there already."""
    if visit.mask.shape[0] > 0:
        put(visit.mask, truth.layout.available)
    if visit.ready == 0:
        individual(truth, visit.x)
        solve(truth)


@inlined
def follow(truth, visit, policy, path):
    """One trajectory."""
    path.states[0] = visit.start
    for h in range(policy.shape[0]):
        s = path.states[h]
        a = policy[h, s]
        path.actions[h] = a
        transition(truth, visit.k, h, s, a, path.rewards[h : h + 1], path.states[h + 1 : h + 2])


@kernel
def roll_out(truth, visit, out, path, gap):
    """The individual's MDP, the policy's exact shortfall gap[0] from optimal at the start, and one trajectory."""
    meet(truth, visit)
    gap[0] = behind(truth, out.policy, visit.start)
    follow(truth, visit, out.policy, path)


@kernel
def roll_out_lottery(truth, visit, out, path, gap):
    """The same with the shortfall of the lottery that the policy was drawn from."""
    meet(truth, visit)
    gap[0] = behind_lottery(truth, out.plans, out.floor[0], visit.start)
    follow(truth, visit, out.policy, path)


@kernel
def roll_out_part(truth, visit, first, last, policy, path, gap):
    """Steps first to last - 1 of a trajectory in two parts; before step 0 also the individual's MDP.

    gap[0] is what the actions of the first part cost (`detour`) and what the policy of the second costs from the state
    reached (`remainder`): never negative, and in expectation over the first part the exact shortfall of both."""
    if first == 0:
        meet(truth, visit)
        behind(truth, policy, visit.start)
        gap[0] = 0.0
        path.states[0] = visit.start
    else:
        gap[0] += remainder(truth, policy, first, path.states[first])
    for h in range(first, last):
        s = path.states[h]
        a = policy[h, s]
        path.actions[h] = a
        if first == 0:
            gap[0] += detour(truth, h, s, a)
        transition(truth, visit.k, h, s, a, path.rewards[h : h + 1], path.states[h + 1 : h + 2])


@inlined
def record(meter, k, span):
    """Count the episode's regret; note the totals where a point is due."""
    meter.total[0] += meter.gap[0]
    if (k + 1) % span.every == 0 or k + 1 == span.last:
        point = (k + span.every) // span.every - 1
        meter.curve[point] = meter.total[0]
        if span.watching == 1:
            for j in range(meter.tally.shape[0]):
                meter.tallies[point, j] = meter.tally[j]


@kernel
def loop(kernels, agent, people, span, buffers, meter):
    """The episodes of all `people`. agent: where its par, state and work lie. Nothing here depends on their types, nor
    on the truth's, so that this is compiled once for all agents and worlds."""
    out, path, X, known = buffers.out, buffers.path, people.X, people.known
    H, watching = out.policy.shape[0], span.watching
    pauses = span.pause > 0 and span.pause < H
    masked, everything = people.masks.shape[0] > 0, buffers.everybody[:0]
    for i in range(X.shape[0]):
        x, k = X[i], span.first + i
        mask = everything
        if masked:
            mask = people.masks[i]
            put(mask, buffers.in_force)
        call_plan(kernels.plan, agent, (x, k, out))
        if masked:
            put(buffers.everybody, buffers.in_force)
        c = look_up(known, x)
        truth, visit = people.truths[c], Visit(x, known.known[c], people.starts[i], k, mask)
        if pauses:
            call_part(kernels.roll_part, (truth,), (visit, 0, span.pause, out.policy, path, meter.gap))
            call_replan(kernels.replan, agent, (x, k, span.pause, path, out))
            call_part(kernels.roll_part, (truth,), (visit, span.pause, H, out.policy, path, meter.gap))
        else:
            call_roll(kernels.roll, (truth,), (visit, out, path, meter.gap))
        if c < known.X.shape[0]:
            known.known[c] = 1
        if watching == 1:
            call_watch(kernels.watch, (*agent, truth), (path, out, meter))
        bet_on_returns(buffers.evidence, buffers.upper, H, path)
        call_learn(kernels.learn, agent, (x, k, H, path))
        record(meter, k, span)


class Setup(NamedTuple):
    """What a session is about besides its agent: the arguments of `simulate`, for one seed."""

    world: World
    seed: int
    episodes: int
    every: int = 1
    diagnostics: bool = False
    epsilon: float | None = None


class Session:
    """One seed of one agent in one world, advanced chunk by chunk."""

    def __init__(self, agent: Any, setup: Setup) -> None:
        self.agent, self.done = agent, 0
        self.world, self.seed, self.episodes, self.every, self.diagnostics, epsilon = setup
        points, f, unit = -(-self.episodes // self.every), np.zeros, self.world.problem.scale.unit
        most = math.inf if epsilon is None else epsilon / unit
        tallies = f((points, len(COLUMNS))) if self.diagnostics else f((0, 0))
        self.meter = Meter(f(1), np.full(1, most), f(1), f(points), f(len(COLUMNS)), tallies)
        self.truth, self.known = self.world.truth(self.seed), apart(acquaintances(self.world))
        self.adaptive = isinstance(self.world.contexts, Adversary)

    def contexts(self, n: int) -> tuple[Floats, NDArray[np.int64]]:
        """Contexts and initial states of the next n episodes."""
        world, X = self.world, np.empty((n, self.world.problem.context_dim))
        if isinstance(world.contexts, Adversary):
            world.contexts.fill(self.seed, self.done, X, self.agent)
        else:
            world.contexts.fill(self.seed, self.done, X)
        X = apart(world.problem.contexts(X, f"contexts of episodes {self.done} and on, row "))
        starts = np.zeros(n, np.int64)
        world.fill_starts(self.seed, self.done, starts, X)
        return X, starts


class FusedSession(Session):
    """For compiled agents."""

    def prepare(self) -> None:
        """Compile what this kind of agent needs, or load it from the cache."""
        agent, p, m = self.agent, self.world.problem, self.meter
        plan, learn = agent.kernels()
        visit, (out, path) = Visit(agent.context, 0, 0, 0, agent.mask), agent.buffers
        with announced(f"the simulator for {agent.name}"):
            if not self.adaptive:
                self.contexts(1)  # compiles the source
            self.pause = agent.pause if 0 < agent.pause < p.horizon else 0
            roll = roll_part = replan = watch = EMPTY
            if self.pause:
                replan = agent.replanning()
                roll_part = call_part.fill(roll_out_part, self.truth, visit, 0, 0, out.policy, path, m.gap)
            else:
                rolled = roll_out_lottery if len(out.plans) else roll_out
                roll = call_roll.fill(rolled, self.truth, visit, out, path, m.gap)
            if self.diagnostics:
                parts = agent.par, agent.state, agent.work
                watch = call_watch.fill(agent.watch_kernel, *parts, self.truth, path, out, m)
            self.kernels = Kernels(plan, learn, roll, roll_part, replan, watch)
            self._lay, self._lay_truths = Heads(), Heads()
            self.truths = self._lay_truths(*models(self.truth, self.known), self.truth)
            if not DISABLED:
                self.truths = np.array(self.truths)
            self._loop = direct(loop, *self.arguments(np.zeros((0, p.context_dim)), np.zeros(0, np.int64)))

    def arguments(self, X: Floats, starts: NDArray[np.int64]) -> tuple[Any, ...]:
        """Of the compiled loop, for these people."""
        a, m = self.agent, self.meter
        span = Span(self.done, self.episodes, self.every, self.pause, int(self.diagnostics))
        out, path = a.buffers
        buffers = Buffers(out, path, a.evidence, upper_of(a, _NO_VALUES), *a.planning_masks)
        heads, people = self._lay(a.par, a.state, a.work), People(X, starts, self._masks(X), self.known, self.truths)
        return self.kernels, heads, people, span, buffers, m

    def _masks(self, X: Floats) -> NDArray[np.bool_]:
        """What those who come can get, [n, S, A]; [0, S, A]: everything. The agent must keep to it."""
        p = self.world.problem
        made = np.zeros((0 if self.world.unavailable is None else len(X), p.n_states, p.n_actions), np.bool_)
        for i in range(len(made)):
            made[i] = self.world.allowed(X[i])
        for mask in np.unique(made, axis=0) if len(made) else ():  # `unique` takes its time with nothing, too
            self.agent.admits(mask)
        kept: NDArray[np.bool_] = apart(made)
        return kept

    def chunk(self) -> tuple[Floats, tuple[Any, ...]]:
        """The contexts of the next chunk, for which there is room then, and the arguments of `loop`."""
        n = min(1 if self.adaptive else CHUNK, self.episodes - self.done)
        if watched(self.agent):
            n = min(n, until_due(self.agent.episode))
        self.agent.make_room(n)
        X, starts = self.contexts(n)
        return X, self.arguments(X, starts)

    def passed(self, n: int) -> int:
        """The chunk was run: so many episodes."""
        self.done += n
        self.agent.met(n)
        self.agent.examine()
        return n

    def advance(self) -> int:
        """Run the next chunk; the number of episodes it had."""
        X, args = self.chunk()
        self._loop(*args)
        return self.passed(len(X))


class PythonSession(Session):
    """For anything with the four verbs: slower, with the same contexts, luck and regret."""

    def prepare(self) -> None:
        if self.diagnostics:
            raise ValueError("diagnostics and epsilon need a compiled agent (a subclass of noregret.agents.Agent)")

    def advance(self) -> int:
        agent, truth, m, H = self.agent, self.truth, self.meter, self.world.problem.horizon
        X, starts = self.contexts(1)
        k, s = self.done, int(starts[0])
        x, more, who = X[0], {}, type(agent).__name__
        if self.world.unavailable is not None:
            truth.layout.available[...] = self.world.allowed(x)
            more = {"unavailable": ~truth.layout.available}
        plan = agent.begin_episode(x, **more)
        policy = self.world.checked(plan.policy, f"plan.policy of {who}")
        check_policy(self.world.problem, policy, truth.layout.available, f"plan.policy of {who}")
        individual(truth, x)
        pause = getattr(agent, "pause", 0) or H
        gap = shortfall(truth, policy, s)
        if isinstance(plan, Plan) and plan.plans is not None:
            gap = behind_lottery(truth, plan.plans, plan.floor, s)
        gap = gap if pause == H else 0.0  # in two parts, as in `roll_out`
        reward, after = np.zeros(1), np.zeros(1, np.int64)
        for h in range(H):
            if h == pause:
                policy = self.world.checked(agent.policy, f"policy of {type(agent).__name__}")
                gap += remainder(truth, policy, h, s)
            action = agent.act(s)
            if action != policy[h, s]:
                raise ValueError(
                    f"{type(agent).__name__}.act returned {action!r} in state {s} at step {h}, its plan.policy says "
                    f"{policy[h, s]}: regret is that of the plan, so both must agree"
                )
            if h < pause < H:
                gap += detour(truth, h, s, int(policy[h, s]))
            transition(truth, k, h, s, policy[h, s], reward, after)
            s = int(after[0])
            agent.observe(self.world.problem.scale.outside(float(reward[0])), s)
        agent.end_episode()
        m.total[0] += gap
        if (k + 1) % self.every == 0 or k + 1 == self.episodes:
            m.curve[(k + self.every) // self.every - 1] = m.total[0]
        self.done += 1
        return 1


def session_kind(agent: Any, compiled: bool) -> type[FusedSession] | type[PythonSession]:
    return FusedSession if compiled and isinstance(agent, Agent) and agent.fused else PythonSession
