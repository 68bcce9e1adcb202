"""What every agent shares: the four verbs, its files, and the two kernels the engine calls.

A compiled agent is three named tuples and two kernels, or three:

    plan(par, state, work, x, k, out)
    learn(par, state, work, x, k, n, path)
    replan(par, state, work, x, k, n, path, out)    for agents with a `pause` only, after n = pause steps

par holds numbers and tables fixed at construction (rebuilt, never saved), state the arrays that are carried from
episode to episode and saved, work is scratch; x [d] context, k episode, n steps taken, out: `PlanBuffer`, path:
`Trajectory`. `simulate` runs them in one compiled loop; the verbs below run the same ones one at a time, so both make
the same decisions to the bit. An agent with a `pause` looks once, after so many steps, at what the episode has shown so
far, and may then change the rows of its policy for the steps to come (docs/semantics.md says what its regret is).
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _checks as check
from .._announce import announced
from .._checks import Floats
from .._jit import address, direct, kernel
from .._memory import apart
from .._threads import Lock, locked
from ..planning import Plan
from ..problem import Problem
from .practice import InPractice


class PlanBuffer(NamedTuple):
    policy: NDArray[np.int64]  # [H, S]
    values: Floats  # [H+1, S]


class Trajectory(NamedTuple):
    states: NDArray[np.int64]  # [H+1]
    actions: NDArray[np.int64]  # [H]
    rewards: Floats  # [H], nan where not observed


@kernel
def gap_to_lower(par, state, work, out, gap):
    """A certificate_kernel for agents that keep lower values of their plan in work.lower [H+1, S]."""
    for s in range(gap.shape[0]):
        gap[s] = out.values[0, s] - work.lower[0, s]


def told(problem: Any) -> Problem:
    """`problem`, which must be one."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a noregret.Problem, got {check.shown(problem)}")
    return problem


class Agent(InPractice):
    """A learner: the base of every agent, whose four verbs are begin_episode, act, observe and end_episode.

    `guarantee` is the sentence that is proved of it, or None; `label` its name with the options that are not default;
    `save` writes a file for `noregret.load`. Subclasses set `name`, the kernels `plan_kernel` and `learn_kernel`, and
    implement `_build`. Several threads may share an agent: its methods happen one after another (docs/live.md, "Several
    threads").

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.PSRLGLM(world.problem)
    >>> patient = world.individual(0)
    >>> plan = agent.begin_episode(patient.context)  # the four verbs
    >>> while patient.steps < world.problem.horizon:
    ...     action = agent.act(patient.state)
    ...     reward, state = patient.step(action)
    ...     agent.observe(reward, state)
    >>> agent.end_episode()
    >>> agent.episode, agent.fresh(seed=1).episode  # individuals learned from; a copy that knows nothing
    (1, 0)
    """

    name: ClassVar[str]
    group: ClassVar[str] = "GLM"  # under which heading tables and figures put it
    plan_kernel: ClassVar[Any]
    learn_kernel: ClassVar[Any]
    replan_kernel: ClassVar[Any] = None
    # gap [S] <- upper - lower at step 0 of the plan just made, per state: (par, state, work, out, gap)
    certificate_kernel: ClassVar[Any] = None
    # gap [S] <- share of posterior draws in which out.policy[0, s] is not optimal: (par, state, work, out, x, k, gap)
    doubt_kernel: ClassVar[Any] = None
    fused = True  # whether the compiled loop may run it; False: part of it is Python
    pause = 0  # after so many steps of every episode the rest is planned anew; 0: never
    bounds_values = False  # whether plan values bound the optimal values from above, with the agent's probability
    room = 0  # episodes the state has room for, for agents that store what they saw; 0: nothing is stored
    regret_delta: float | None = None  # share of delta left for bounds on the regret, None if nothing is claimed

    def __init__(self, problem: Problem, seed: int = 0, **options: Any) -> None:
        self._lock = Lock()
        refusal = self.refusal(told(problem))
        if refusal is not None:
            raise ValueError(refusal)
        self.problem, self.seed, self.options = problem, check.integer("seed", seed, 0), options
        check.memory(f"{self.name} with these sizes and options", 8.0 * self._kept())
        self.par, self.state, self.work = apart(self._build())
        H, S = problem.horizon, problem.n_states
        self.episode = 0  # episodes finished
        self._x: Floats = apart(np.zeros(problem.context_dim))
        self._out: PlanBuffer = apart(PlanBuffer(np.zeros((H, S), np.int64), np.zeros((H + 1, S))))
        self._path: Trajectory = apart(Trajectory(np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.zeros(H)))
        self._others = np.zeros(H, np.bool_)  # steps of this episode whose action somebody else chose
        self._step, self._asked, self._open = 0, False, False
        self._direct: tuple[Any, Any] | None = None  # the kernels for the live verbs
        self._direct_replan: Any = None

    def _build(self) -> tuple[Any, Any, Any]:
        """(par, state, work) for self.problem, self.seed and self.options."""
        raise NotImplementedError

    def _kept(self) -> float:
        """Numbers that it will keep, at least: asked before anything is made, so that what cannot fit is refused."""
        return 0.0

    # What it is ---------------------------------------------------------------------------------------------------
    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Why this agent is not for that problem, in one sentence; None if it is."""
        return None

    @property
    def guarantee(self) -> str | None:
        """What is proved about this agent with these options, in one sentence; None if nothing is."""
        return None

    @property
    def label(self) -> str:
        """Name with every option that differs from its default; scaled agents say that they carry no guarantee."""
        defaults = {k: p.default for k, p in inspect.signature(type(self)).parameters.items()}
        said = [
            f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in self.options.items()
            if not isinstance(v, np.ndarray) and v != defaults.get(k)
        ]  # fmt: skip
        centres = self.options.get("centres")
        if isinstance(centres, np.ndarray) and len(centres) > 1:
            said.append(f"{len(centres)} cells")
        if self.options.get("bonus_scale", 1.0) != 1.0:
            said.append("no guarantee")
        return f"{self.name} ({', '.join(said)})" if said else self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label}, {self.episode} episodes>"

    def fresh(self, seed: int | None = None) -> Self:
        """A new agent with the same options and encoder that has seen nothing."""
        made = type(self)(self.problem, seed=self.seed if seed is None else seed, **self.options)
        return made.with_encoder(self.encoder)

    def _share_lock(self, *parts: "Agent") -> None:
        """Have the agents this one is made of, whose arrays are its own, take turns with it: one lock for all."""
        for part in parts:
            part._lock = self._lock
            part._share_lock(*part._made_of())

    def _made_of(self) -> tuple["Agent", ...]:
        """All agents whose arrays it works on."""
        return tuple(self.parts().values())

    def parts(self) -> dict[str, "Agent"]:
        """The agents this one is made of, by the name of the argument; empty unless it wraps others."""
        return {}

    @classmethod
    def rebuild(cls, problem: Problem, seed: int, options: dict[str, Any], parts: dict[str, Any]) -> Self:
        """The agent with these options and parts, as a file has them."""
        return cls(problem, seed=seed, **options, **parts)

    # The four verbs -----------------------------------------------------------------------------------------------
    @locked
    def begin_episode(self, x: ArrayLike | Mapping[str, Any]) -> Plan:
        """Plan for an individual with context x [d], or with a row by column names where the agent has an `encoder`.
        Arrays of the returned plan are the caller's."""
        if self._open:
            raise RuntimeError("begin_episode: the last episode is still open, call end_episode first")
        x = self.problem.context(self.encoded(x))
        self.make_room(1)
        if self._direct is None:
            self._direct = self._compile(direct)
        self._x[:] = x
        self._others[:] = False
        self._direct[0](self.par, self.state, self.work, self._x, self.episode, self._out)
        self._step, self._asked, self._open = 0, False, True
        values, lower = self._out.values.copy(), self._lower()
        upper = values.copy() if self.bounds_values else None
        gap = None if upper is None or lower is None else float((upper[0] - lower[0])[self.problem.starts].max())
        return Plan(self._out.policy.copy(), values, upper, lower, gap)

    @property
    @locked
    def policy(self) -> NDArray[np.int64]:
        """A copy of the policy in force, [H, S]: that of `begin_episode`, or what `pause` has made of it."""
        return np.array(self._out.policy)

    def _lower(self) -> Floats | None:
        """Lower bounds [H+1, S] on the values of the plan just made, for agents that have them."""
        return None

    @locked
    def act(self, state: int | str, action: int | str | None = None) -> int:
        """The action for `state` at the current step. Asking again changes nothing.

        action: somebody else chose this one; it is noted and returned. Confidence sets hold for any actions that are
        chosen by what the agent is told (the context, the state, the past); what is promised of the plan is then about
        the plan, not about what was done."""
        if not self._open:
            raise RuntimeError("act: no episode is open, call begin_episode first")
        h = self._step
        if h == self.problem.horizon:
            raise RuntimeError(f"act: all {h} steps of the episode are taken, call end_episode")
        s = self.problem.state(state)
        if h > 0 and s != self._path.states[h]:
            raise ValueError(f"state must be the next_state observed last, {self._path.states[h]}, got {s}")
        starts = self.problem.initial_states
        if h == 0 and starts is not None and s not in starts:
            raise ValueError(f"state must be one of the problem's initial_states {starts} at step 0, got {s}")
        chosen = int(self._out.policy[h, s]) if action is None else self.problem.action(action, s)
        self._path.states[h], self._path.actions[h], self._others[h] = s, chosen, action is not None
        self._asked = True
        return chosen

    @locked
    def observe(self, reward: float, next_state: int) -> None:
        """What the action led to: a reward in [0, 1] (nan if it was not seen) and the next state.

        Guarantees need that whether a reward is missing, or an episode ends early, does not depend on what was not
        seen."""
        if not self._asked:
            raise RuntimeError("observe: nothing was done yet, call act first")
        h = self._step
        s = self.problem.next_state(next_state, self._path.states[h], self._path.actions[h])
        r = self.problem.reward(reward)
        self._path.rewards[h], self._path.states[h + 1] = r, s
        self._step, self._asked = h + 1, False
        if 0 < self.pause == h + 1 < self.problem.horizon:
            if self._direct_replan is None:
                self._direct_replan = self._compile_replan(direct)
            self._direct_replan(
                self.par, self.state, self.work, self._x, self.episode, h + 1, self._path, self._out
            )  # fmt: skip

    @locked
    def end_episode(self) -> None:
        """Learn from the steps observed, which may be fewer than H."""
        if not self._open:
            raise RuntimeError("end_episode: no episode is open, call begin_episode first")
        self._open = self._asked = False  # whatever happens, nothing is learned twice
        self.episode += 1
        self._learn(self.episode - 1, self._step)

    def _learn(self, k: int, n: int) -> None:
        """Learn from the n steps in the buffers as those of individual k. Learning looks at the steps, not at the plan:
        no kernel that learns reads what planning left in `work`."""
        if self._direct is None:  # loaded in the middle of an episode, or nothing was planned yet
            self._direct = self._compile(direct)
        self._direct[1](self.par, self.state, self.work, self._x, k, n, self._path)

    def make_room(self, episodes: int) -> None:
        """See that the state can take that many more episodes. Kernels allocate nothing, so agents that store what they
        saw are asked here, between episodes; for the others there is nothing to do."""

    def restore_room(self, room: int) -> None:
        """Before any episode: take the room that a file says there was."""
        self.make_room(room)

    # For the engine -----------------------------------------------------------------------------------------------
    def compiled(self) -> tuple[Any, Any]:
        """Addresses of the two kernels for this agent's types, compiled now if need be."""
        return self._compile(address)

    def _compile(self, how: Callable[..., Any]) -> tuple[Any, Any]:
        head = self.par, self.state, self.work, self._x, 0
        with announced(self.name):
            return how(self.plan_kernel, *head, self._out), how(self.learn_kernel, *head, 0, self._path)

    def compiled_replan(self) -> Any:
        """Address of `replan_kernel`, for agents with a pause."""
        return self._compile_replan(address)

    def _compile_replan(self, how: Callable[..., Any]) -> Any:
        head = self.par, self.state, self.work, self._x, 0
        with announced(self.name):
            return how(self.replan_kernel, *head, 0, self._path, self._out)

    # Files --------------------------------------------------------------------------------------------------------
    @locked
    def save(self, path: Any) -> None:
        """Write everything needed to go on, also in the middle of an episode (`noregret.load` reads it)."""
        from .files import write

        write(self, path)
