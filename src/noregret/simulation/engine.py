"""The one place where the truth and the learner meet: a fused compiled loop, and a Python loop with the same meaning.

One episode: the agent plans for the context, the world rolls the policy out and evaluates it exactly, the agent learns.
The agent's two kernels and the world's one are called by address from `loop`, which is compiled once per family of
agents. An agent with a pause has a third kernel, called between two parts of the roll-out.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._announce import announced
from .._checks import Floats
from .._jit import address, inlined, invoke, kernel, reference
from .._memory import apart
from ..agents.base import Agent
from ..agents.refutation import until_due, upper_of, watched
from ..agents.refutation import watch as bet
from ..worlds import World
from ..worlds.contexts import Adversary
from ..worlds.world import behind, detour, individual, remainder, shortfall, solve, transition
from .acquaintances import acquaintances, look_up, model
from .diagnostics import COLUMNS, watch_for

CHUNK = 2048  # episodes between two looks at Python: contexts live one chunk at a time, Ctrl-C is heard


_NO_VALUES: Floats = apart(np.zeros((0, 0)))


class Meter(NamedTuple):
    """What is measured along the way."""

    gap: Floats  # [1]: V* - V^pi of the episode
    epsilon: Floats  # [1]: a larger gap is a mistake
    total: Floats  # [1]: regret so far
    curve: Floats  # [points]
    tally: Floats  # [len(COLUMNS)]: diagnostics so far
    tallies: Floats  # [points, len(COLUMNS)], or [0, 0]


@inlined
def meet(truth, x, ready):
    """The individual's MDP and its optimal values, unless they are there already."""
    if ready == 0:
        individual(truth, x)
        solve(truth)


@kernel
def roll_out(truth, x, ready, start, k, policy, path, gap):
    """The individual's MDP, the policy's exact shortfall gap[0] from optimal at `start`, and one trajectory.

    ready = 1: truth has this individual's MDP and optimal values already."""
    meet(truth, x, ready)
    gap[0] = behind(truth, policy, start)
    path.states[0] = start
    for h in range(policy.shape[0]):
        s = path.states[h]
        a = policy[h, s]
        path.actions[h] = a
        transition(truth, k, h, s, a, path.rewards[h : h + 1], path.states[h + 1 : h + 2])


@kernel
def roll_out_part(truth, x, ready, start, k, first, last, policy, path, gap):
    """Steps first to last - 1 of a trajectory in two parts; before step 0 also the individual's MDP.

    gap[0] is what the actions of the first part cost (`detour`) and what the policy of the second costs from the state
    reached (`remainder`): never negative, and in expectation over the first part the exact shortfall of both."""
    if first == 0:
        meet(truth, x, ready)
        behind(truth, policy, start)
        gap[0] = 0.0
        path.states[0] = start
    else:
        gap[0] += remainder(truth, policy, first, path.states[first])
    for h in range(first, last):
        s = path.states[h]
        a = policy[h, s]
        path.actions[h] = a
        if first == 0:
            gap[0] += detour(truth, h, s, a)
        transition(truth, k, h, s, a, path.rewards[h : h + 1], path.states[h + 1 : h + 2])


@inlined
def record(meter, k, every, last, watching):
    """Count the episode's regret; note the totals where a point is due."""
    meter.total[0] += meter.gap[0]
    if (k + 1) % every == 0 or k + 1 == last:
        point = (k + every) // every - 1
        meter.curve[point] = meter.total[0]
        if watching == 1:
            for j in range(meter.tally.shape[0]):
                meter.tallies[point, j] = meter.tally[j]


@kernel
def loop(
    plan, learn, world, watch, watching, par, state, work, truth, known, X, starts, first, every, last,
    out, path, meter, evidence, upper,
):  # fmt: skip
    """Episodes first, first + 1, ... of `last`, with contexts X [n, d] and initial states [n]; upper: out.values, or
    [0, 0] where nothing can be tested by them."""
    agent, there = (reference(par), reference(state), reference(work)), reference(truth)
    made, way = reference(out), reference(path)
    for i in range(X.shape[0]):
        x, k = X[i], first + i
        invoke(plan, (*agent, x, k, made))
        c = look_up(known, x)
        if c < 0:
            invoke(world, (there, x, 0, starts[i], k, out.policy, way, meter.gap))
            if watching == 1:
                invoke(watch, (*agent, there, way, made, meter))
        else:
            own = model(truth, known, c)
            invoke(world, (own, x, known.known[c], starts[i], k, out.policy, way, meter.gap))
            known.known[c] = 1
            if watching == 1:
                invoke(watch, (*agent, own, way, made, meter))
        bet(evidence, upper, out.policy.shape[0], path)
        invoke(learn, (*agent, x, k, out.policy.shape[0], way))
        record(meter, k, every, last, watching)


@kernel
def loop_with_pause(
    replan, pause, plan, learn, world, watch, watching, par, state, work, truth, known, X, starts, first, every, last,
    out, path, meter, evidence, upper,
):  # fmt: skip
    """The same for agents that plan anew after `pause` steps; world is `roll_out_part`."""
    H, agent, there = out.policy.shape[0], (reference(par), reference(state), reference(work)), reference(truth)
    made, way = reference(out), reference(path)
    for i in range(X.shape[0]):
        x, k = X[i], first + i
        invoke(plan, (*agent, x, k, made))
        invoke(world, (there, x, 0, starts[i], k, 0, pause, out.policy, way, meter.gap))
        invoke(replan, (*agent, x, k, pause, way, made))
        invoke(world, (there, x, 1, starts[i], k, pause, H, out.policy, way, meter.gap))
        if watching == 1:
            invoke(watch, (*agent, there, way, made, meter))
        bet(evidence, upper, H, path)
        invoke(learn, (*agent, x, k, H, way))
        record(meter, k, every, last, watching)


class Session:
    """One seed of one agent in one world, advanced chunk by chunk."""

    def __init__(
        self, agent: Any, world: World, seed: int, episodes: int, every: int, diagnostics: bool, epsilon: float
    ) -> None:
        self.agent, self.world, self.seed = agent, world, seed
        self.episodes, self.every, self.diagnostics, self.done = episodes, every, diagnostics, 0
        points, f = -(-episodes // every), np.zeros
        tallies = f((points, len(COLUMNS))) if diagnostics else f((0, 0))
        self.meter = Meter(f(1), np.full(1, epsilon), f(1), f(points), f(len(COLUMNS)), tallies)
        self.truth, self.known = world.truth(seed), apart(acquaintances(world))
        self.adaptive = isinstance(world.contexts, Adversary)

    def contexts(self, n: int) -> tuple[Floats, NDArray[np.int64]]:
        """Contexts and initial states of the next n episodes."""
        world, X = self.world, np.empty((n, self.world.problem.context_dim))
        if isinstance(world.contexts, Adversary):
            world.contexts.fill(self.seed, self.done, X, self.agent)
        else:
            world.contexts.fill(self.seed, self.done, X)
        X = apart(world.problem.contexts(X, f"contexts of episodes {self.done} and on, row "))
        starts = np.zeros(n, np.int64)
        world.fill_starts(self.seed, self.done, starts)
        return X, starts


class FusedSession(Session):
    """For compiled agents."""

    def prepare(self) -> None:
        """Compile what this kind of agent needs, or load it from the cache."""
        agent, p, m = self.agent, self.world.problem, self.meter
        self.plan, self.learn = agent.compiled()
        x, out, path = agent._x, agent._out, agent._path
        with announced(f"the simulator for {agent.name}"):
            if not self.adaptive:
                self.contexts(1)  # compiles the source
            self.pauses = 0 < agent.pause < p.horizon
            if self.pauses:
                self.replan = agent.compiled_replan()
                self.roll = address(roll_out_part, self.truth, x, 0, 0, 0, 0, 0, out.policy, path, m.gap)
            else:
                self.roll = address(roll_out, self.truth, x, 0, 0, 0, out.policy, path, m.gap)
            self.watch: Any = self.learn  # never called unless watching
            if self.diagnostics:
                head = agent.par, agent.state, agent.work, self.truth, path, out
                self.watch = address(watch_for(agent), *head, m)
            self._loop(np.zeros((0, p.context_dim)), np.zeros(0, np.int64))

    def _loop(self, X: Floats, starts: NDArray[np.int64]) -> None:
        a, kernels = self.agent, (self.plan, self.learn, self.roll, self.watch, int(self.diagnostics))
        where = self.done, self.every, self.episodes
        tests = a._evidence, upper_of(a, _NO_VALUES)
        rest = a.par, a.state, a.work, self.truth, self.known, X, starts, *where, a._out, a._path, self.meter, *tests
        if self.pauses:
            loop_with_pause(self.replan, a.pause, *kernels, *rest)
        else:
            loop(*kernels, *rest)

    def advance(self) -> int:
        """Run the next chunk; the number of episodes it had."""
        n = min(1 if self.adaptive else CHUNK, self.episodes - self.done)
        if watched(self.agent):
            n = min(n, until_due(self.agent.episode))
        self.agent.make_room(n)
        self._loop(*self.contexts(n))
        self.done += n
        self.agent._set_clock(self.agent.episode + n)
        self.agent._examine()
        return n


class PythonSession(Session):
    """For anything with the four verbs: slower, with the same contexts, luck and regret."""

    def prepare(self) -> None:
        if self.diagnostics:
            raise ValueError("diagnostics and epsilon need a compiled agent (a subclass of noregret.agents.Agent)")

    def advance(self) -> int:
        agent, truth, m, H = self.agent, self.truth, self.meter, self.world.problem.horizon
        X, starts = self.contexts(1)
        k, s = self.done, int(starts[0])
        policy = self.world.checked(agent.begin_episode(X[0]).policy, f"plan.policy of {type(agent).__name__}")
        individual(truth, X[0])
        pause = getattr(agent, "pause", 0) or H
        gap = shortfall(truth, policy, s)
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
            agent.observe(float(reward[0]), s)
        agent.end_episode()
        m.total[0] += gap
        if (k + 1) % self.every == 0 or k + 1 == self.episodes:
            m.curve[(k + self.every) // self.every - 1] = m.total[0]
        self.done += 1
        return 1


def session_kind(agent: Any, compiled: bool) -> type[FusedSession] | type[PythonSession]:
    return FusedSession if compiled and isinstance(agent, Agent) and agent.fused else PythonSession
