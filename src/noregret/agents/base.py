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
`commit.opened` plans and opens an episode; `commit.learned` closes it, adds to the evidence against what is assumed
(`refutation`, which planning and learning never read), and learns.
"""

import copy
import inspect
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import kernel
from ..compiler.memory import apart, copied
from ..compiler.slots import Heads, slot
from ..planning.plans import Plan
from ..problem.problem import Problem
from .buffers import PlanBuffer as PlanBuffer
from .buffers import Trajectory as Trajectory
from .buffers import buffers
from .commit import call_learn, call_plan, call_replan, learned, observed, opened
from .contents import write
from .data import FromData
from .declared import Declared, last
from .explaining import askable
from .locks import Lock, locked
from .lottery import lottery_of
from .owned import ASKED, EPISODE, STEP
from .promise import rewards_assumed, sentence, transitions_assumed
from .refutation import SIZE, examine, upper_of

_NO_VALUES: Floats = apart(np.zeros((0, 0)))


part_plan = slot("plan")  # (par, state, work, x, k, out), for agents that hold others
part_learn = slot("learn")  # (par, state, work, x, k, n, path)


@kernel
def gap_to_lower(par, state, work, out, gap):
    """A certificate_kernel for agents that keep lower values of their plan in work.lower [H+1, S]."""
    for s in range(gap.shape[0]):
        gap[s] = out.values[0, s] - work.lower[0, s]


def checked_problem(problem: Any) -> Problem:
    """`problem`, which must be one."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a noregret.Problem, got {check.shown(problem)}")
    return problem


class Agent(FromData, Declared):
    """A learner: the base of every agent, whose four verbs are begin_episode, act, observe and end_episode.

    `guarantee` is the sentence that is proved of it, or None; `label` its name with the options that are not default;
    `save` writes a file for `noregret.load`. Subclasses set `name`, the kernels `plan_kernel` and `learn_kernel`,
    declare their options (`agents.declared`) and implement `build`. State, clock and refutation are in `agents.owned`,
    masks in `agents.masks`, rows and logs in `agents.data`. Several threads may share an agent: its methods
    happen one after another (docs/live.md, "Several threads").

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

    problem: Problem
    seed: int = last(default=0, kw_only=True)

    def __init__(self, problem: Problem, *args: Any, **options: Any) -> None:
        given, seed = self._given(args, options)
        self._own_lock, self._own_clock, self._own_evidence = Lock(), np.zeros(4, np.int64), np.zeros(SIZE)
        refusal = self.refusal(checked_problem(problem))
        if refusal is not None:
            raise ValueError(refusal)
        self.options = given | {name: made.checked(given[name]) for name, made in self.declared.items()}
        self.problem, self.seed = problem, check.integer("seed", seed, 0)
        self._settle()
        check.memory(f"{self.name} with these sizes and options", 8.0 * self._kept())
        par, state, work = apart(self.build())
        self.par, self._own_state, self.work = self._with_masks(par), state, work
        self._x: Floats = apart(np.zeros(problem.context_dim))
        self._next_x: Floats = apart(np.zeros(problem.context_dim))  # of an episode that may come to nothing
        self._out, self._path = buffers(problem, self._lottery())
        self._others = np.zeros(problem.horizon, np.bool_)  # steps of this episode whose action somebody else chose
        self._spare = buffers(problem, 0)[1]  # steps that come from elsewhere
        self._refutation: str | None = None
        self._caveats: tuple[str, ...] = ()
        self._slots: tuple[Any, Any] | None = None  # of plan and learn
        self._slot_replan: Any = None
        self._heads = Heads()

    def _settle(self) -> None:
        """Check the options that it takes the problem, or each other, to check, and settle what follows from them."""

    def build(self) -> tuple[Any, Any, Any]:
        """(par, state, work) for self.problem, self.seed and self.options."""
        raise NotImplementedError

    def _kept(self) -> float:
        """Numbers that it will keep, at least: asked before anything is made, so that what cannot fit is refused."""
        return 0.0

    # What it is ---------------------------------------------------------------------------------------------------
    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Why this agent is not for that problem, in one sentence; None if it is."""
        return cls.refused_range(problem)

    @property
    def guarantee(self) -> str | None:
        """What is proved about this agent with these options, and what that assumes, in one sentence; None if nothing
        is, or if an assumption was `refuted`."""
        promise = self._promise()
        if promise is None or self.refuted is not None:
            return None
        return sentence(self._assumed(), promise, self._root()._caveats)

    def _promise(self) -> str | None:
        """What holds where everything in `_assumed` does; None if nothing is proved."""
        if not self.bounds_values or self.promised is None:
            return None
        return f"with probability {1 - self.options['delta']:g}, {self.promised}"

    def _assumed(self) -> tuple[str, ...]:
        """What the promise takes for granted."""
        p, shared = self.problem, self.shares_weights
        return transitions_assumed(p, shared) + rewards_assumed(p, shared)

    @property
    def label(self) -> str:
        """Name with every option that differs from its default; scaled agents say that they carry no guarantee."""
        defaults = {k: p.default for k, p in inspect.signature(type(self)).parameters.items()}
        defaults |= {k: made.default for k, made in self.declared.items()}
        said = [
            f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in self.options.items()
            if not isinstance(v, np.ndarray) and v != defaults.get(k)
        ]  # fmt: skip
        centres = self.options.get("centres")
        if isinstance(centres, np.ndarray) and len(centres) > 1:
            said.append(f"{len(centres)} cells")
        if not self.sound or self.options.get("bonus_scale", 1.0) != 1.0:
            said.append("no guarantee")
        return f"{self.name} ({', '.join(said)})" if said else self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label}, {self.episode} episodes>"

    def __copy__(self) -> Self:
        """Two agents with one memory would spoil each other: a copy has its own, as a deep one."""
        return copy.deepcopy(self)

    def fresh(self, seed: int | None = None) -> Self:
        """A new agent with the same options and encoder that has seen nothing."""
        made = type(self)(self.problem, seed=self.seed if seed is None else seed, **self.options)
        return made.with_encoder(self.encoder)

    def parts(self) -> dict[str, "Agent"]:
        """The agents this one is made of, by the name of the argument; empty unless it wraps others."""
        return {}

    @classmethod
    def rebuild(cls, problem: Problem, seed: int, options: dict[str, Any], parts: dict[str, Any]) -> Self:
        """The agent with these options and parts, as a file has them."""
        return cls(problem, seed=seed, **options, **parts)

    # The four verbs -----------------------------------------------------------------------------------------------
    @locked
    def begin_episode(self, x: ArrayLike | Mapping[str, Any], unavailable: Any = None) -> Plan:
        """Plan for an individual with context x [d], or with a row by column names where the agent has an `encoder`.
        unavailable: actions that this person cannot get (`problem.masks.allowed_actions`): values, certificates and
        regret are then about what is left. Arrays of the returned plan are the caller's."""
        self._own_verb("begin_episode")
        return self.plan_for(x, unavailable)

    def plan_for(self, x: Any, unavailable: Any = None) -> Plan:
        """What `begin_episode` does, for whoever has taken the agent over."""
        if self.is_open:
            raise RuntimeError("begin_episode: the last episode is still open, call end_episode first")
        context, masks = self.problem.context(self.encoded(x)), self._masks(self.mask_of(unavailable))
        self._next_x[:] = context
        self.examine()
        self.make_room(1)
        plan, k = self.kernels()[0], self.episode
        heads, after = self._heads(self.par, self.state, self.work), np.array((k, 0, 0, 1))
        opened(plan, heads, (self._next_x, k, self._out), self._x, self._others, masks, self._clock, after)
        return askable(self.plan_made(), self)

    def plan_made(self) -> Plan:
        """The plan of the open episode, in arrays of its own."""
        inside, lower = self._out.values, None if self.refuted is not None else self._lower()
        bounded, scale = self.bounds_values and self.refuted is None, self.problem.scale
        gap = self._gap(inside, lower) * scale.unit if bounded and lower is not None else None
        values, lower = scale.values(inside), None if lower is None else scale.values(lower)
        upper = values.copy() if bounded else None
        more = lottery_of(self._out) | self._masked()
        return Plan(self._out.policy.copy(), values, upper, lower, gap, self.problem, **more)

    def plan_on(self, par: Any, state: Any, work: Any, x: Floats, k: int, out: PlanBuffer, mask: Any) -> None:
        """Run `plan_kernel` on arrays laid out like the agent's, such as copies: the agent itself does not change.
        mask [S, A]: what is available."""
        mark, lay, plan, others = np.zeros(4, np.int64), Heads(), self.kernels()[0], np.zeros_like(self._others)
        masks = *self._masks(mask)[:3], np.empty_like(mask)
        opened(plan, lay(par, state, work), (x, k, out), np.zeros_like(x), others, masks, mark, mark)

    def replan_on(self, par: Any, state: Any, work: Any, x: Floats, k: int, path: Trajectory, out: PlanBuffer) -> None:
        """Likewise `replan_kernel`, after `pause` steps of `path`."""
        n, mark, lay = self.pause, np.zeros(4, np.int64), Heads()
        heads, outcome = lay(par, state, work), (float(path.rewards[n - 1]), int(path.states[n]))
        observed(self.replanning(), heads, (x, k, n, path, out), *outcome, mark, mark)

    @property
    @locked
    def policy(self) -> NDArray[np.int64]:
        """A copy of the policy in force, [H, S]: that of `begin_episode`, or what `pause` has made of it."""
        return np.array(self._out.policy)

    def _gap(self, upper: Floats, lower: Floats) -> float:
        """The certificate of the plan just made, rewards in [0, 1]."""
        return float((upper[0] - lower[0])[self.problem.starts].max())

    def _lower(self) -> Floats | None:
        """Lower bounds [H+1, S] on the values of the plan just made, for agents that have them; rewards in [0, 1]."""
        return None

    @locked
    def act(self, state: int | str, action: int | str | None = None) -> int:
        """The action for `state` at the current step. Asking again changes nothing.

        action: somebody else chose this one; it is noted and returned. Confidence sets hold for any actions that are
        chosen by what the agent is told (the context, the state, the past); what is promised of the plan is then about
        the plan, not about what was done."""
        self._own_verb("act")
        if not self.is_open:
            raise RuntimeError("act: no episode is open, call begin_episode first")
        h, s = self._step, self._next(state)
        chosen = int(self._out.policy[h, s]) if action is None else self._open_action(action, s)
        path, others, clock = self._path, self._others, self._clock
        path.states[h], path.actions[h], others[h], clock[ASKED] = s, chosen, action is not None, 1  # one breath
        return chosen

    def _next(self, state: Any) -> int:
        """The state of the step to come, which must be the one reached."""
        h, p = self._step, self.problem
        if h == p.horizon:
            raise RuntimeError(f"act: all {h} steps of the episode are taken, call end_episode")
        s = p.state(state) if h > 0 else p.started(state)
        if h > 0 and s != self._path.states[h]:
            last = p.state_text(self._path.states[h])
            raise ValueError(f"state must be the next_state observed last, {last}, got {p.state_text(s)}")
        return s

    @locked
    def observe(self, reward: float, next_state: int | str) -> None:
        """What the action led to: a reward in the problem's range (nan if it was not seen) and the next state.

        Guarantees need that whether a reward is missing, or an episode ends early, does not depend on what was not
        seen; and that rewards are not missing because of a next state that tells of them. A next state outside the
        declared support refutes the assumptions (`refuted`); the steps before it are learned."""
        self._own_verb("observe")
        if not self._asked:
            raise RuntimeError("observe: nothing was done yet, call act first")
        h = self._step
        r, s = self._outcome(reward, next_state)
        path, clock, pauses = self._path, self._clock, 0 < self.pause == h + 1 < self.problem.horizon
        if not pauses or self._impossible(s) < h + 1:
            path.rewards[h], path.states[h + 1], clock[STEP : ASKED + 1] = r, s, (h + 1, 0)  # one breath
            self._see_support()
            return
        heads, k = self._heads(self.par, self.state, self.work), self.episode
        after = np.array((k, h + 1, 0, 1))
        observed(self.replanning(), heads, (self._x, k, h + 1, path, self._out), r, s, clock, after)

    def _outcome(self, reward: Any, next_state: Any) -> tuple[float, int]:
        """The reward as agents see it, in [0, 1]: (reward - low)/(high - low); and the number of the next state."""
        return self.problem.scale.inside(self.problem.reward(reward)), self.problem.state(next_state, "next_state")

    def _impossible(self, after: int | None = None) -> int:
        """Steps of the open episode before the first that leaves the support, all of them if none does; after: the
        state reached by the step to come."""
        p, path, n = self.problem, self._path, self._step
        states = [*path.states[: n + 1].tolist(), *([] if after is None else [after])]
        if not p.layout.dense:
            for h in range(len(states) - 1):
                if not p.can_follow(states[h + 1], states[h], int(path.actions[h])):
                    return h
        return len(states) - 1

    def _see_support(self) -> None:
        """Refuted, if the open episode has left the support."""
        h, p, path = self._impossible(), self.problem, self._path
        if h < self._step:
            s, a, after = p.state_text(path.states[h]), p.action_text(path.actions[h]), p.state_text(path.states[h + 1])
            self.refute(
                f"individual {self.episode} went from state {s} with action {a} to state {after}, which the problem's "
                f"support rules out; their steps from {h} on are not learned"
            )

    @locked
    def end_episode(self) -> None:
        """Learn from the steps observed, which may be fewer than H."""
        self._own_verb("end_episode")
        if not self.is_open:
            raise RuntimeError("end_episode: no episode is open, call begin_episode first")
        k, n, upper = self.episode, self._impossible(), upper_of(self, _NO_VALUES)
        self._see_support()
        self._learn(k, self._x, n, self._path, upper, self._clock, np.array((k + 1, 0, 0, 0)))
        self.examine()

    def _learn(self, k: int, x: Floats, n: int, path: Trajectory, upper: Floats, mark: Any, told: Any) -> None:
        """Learn n steps as those of individual k, with upper values [H+1, S] of the plan made for them ([0, 0]: none),
        and write `told` [4] to `mark`, in one breath. Learning looks at the steps, not at the plan: no kernel that
        learns reads what planning left in `work`."""
        learn, self._root()._changes = self.kernels()[1], self.changes + 1
        self.make_room(k + 1 - self.episode)
        heads = self._heads(self.par, self.state, self.work)
        learned(learn, heads, (x, k, n, path), self.evidence, upper, mark, told)

    def learn_steps(
        self, k: int, x: Any, states: Any, actions: Any, rewards: Any, upper: Floats | None, *, mark: Any, told: Any
    ) -> None:
        """Learn the steps of individual k that somebody else kept: states [n+1], actions [n], rewards [n]; then write
        `told` [4] to `mark`, in the same call."""
        n, scale = self._lay_steps(x, states, actions, rewards), self.problem.scale
        fit = upper is not None and self.consistent_values and self.refuted is None
        inside = scale.inner_values(upper) if fit else _NO_VALUES  # type: ignore[arg-type]
        self._learn(k, self._next_x, n, self._spare, inside, mark, told)

    def _lay_steps(self, x: Any, states: Any, actions: Any, rewards: Any) -> int:
        """`_next_x`, `_spare` <- steps that come from elsewhere. How many they are."""
        n, path = len(actions), self._spare
        self._next_x[:] = x
        path.states[: n + 1], path.actions[:n] = states, actions
        path.rewards[:n] = self.problem.scale.inside(np.asarray(rewards, float))
        return n

    def _learn_all(self, episodes: Any, caveats: tuple[str, ...] = ()) -> None:
        """Learn from all of these, (x, states, actions, rewards) each, or from none: on a copy that is then put in
        place of the state. caveats: conditions under which promises hold then."""
        k, path, x, mark = self.episode, self._spare, self._next_x, np.zeros(4, np.int64)
        learn, lay = self.kernels()[1], Heads()
        check.memory("a copy of the agent, to learn a log all or not at all", _bytes_in(self.state))
        state = self._roomier(copied(self.state, {}), k + len(episodes))
        heads = lay(self.par, state, self.work)
        for context, states, actions, rewards in episodes:
            n = self._lay_steps(context, states, actions, rewards)
            learned(learn, heads, (x, k, n, path), self.evidence, _NO_VALUES, mark, mark)
            k += 1
        root, clock = self._root(), self._clock
        said = tuple(dict.fromkeys((*root._caveats, *caveats)))
        root._own_state, root._caveats, root._changes, clock[EPISODE] = state, said, root._changes + 1, k  # one breath
        examine(self)

    # Room -----------------------------------------------------------------------------------------------------------
    @property
    def room(self) -> int:
        """Episodes the state has room for, for agents that store what they saw; 0: nothing is stored."""
        return self._room_in(self.state)

    def _room_in(self, state: Any) -> int:
        return 0

    def make_room(self, episodes: int) -> None:
        """See that the state can take that many more episodes. Kernels allocate nothing, so agents that store what they
        saw are asked here, between episodes; for the others there is nothing to do."""
        self._root()._take(self._root()._roomier(self._root().state, self.episode + episodes))

    def _take(self, state: Any) -> None:
        self._own_state = state

    def _roomier(self, state: Any, episodes: int) -> Any:
        """The same state with room for so many episodes in all, which may be itself. Nothing of the agent changes."""
        return state

    # For the simulator and for `Live` -------------------------------------------------------------------------------
    @property
    def context(self) -> Floats:
        """The context [d] of the open episode: the agent's own array, to be read only."""
        return self._x

    @property
    def buffers(self) -> tuple[PlanBuffer, Trajectory]:
        """Where the kernels write: the plan and the path of the episode under way. The agent's own arrays."""
        return self._out, self._path

    @property
    def asks_function(self) -> bool:
        """Whether it has an expert, or a baseline, who is a function."""
        return self._ask is not None

    def met(self, individuals: int) -> None:
        """So many more were met by the compiled loop, or the open episode is kept elsewhere: the clock moves on."""
        self._set_clock(self.episode + individuals)

    def kernels(self) -> tuple[Any, Any]:
        """Slots of the two kernels for this agent's types, compiled now if need be (`agents.commit`)."""
        if self._slots is None:
            with announced(self.name):
                self._slots = self._filled(call_plan, call_learn)
        return self._slots

    def kernels_as_part(self) -> tuple[Any, Any]:
        """The same for an agent that holds this one, and knows the types of its par, state and work."""
        with announced(self.name):
            return self._filled(part_plan, part_learn)

    def _filled(self, plan: Any, learn: Any) -> tuple[Any, Any]:
        head = self.par, self.state, self.work, self._x, 0
        return plan.fill(self.plan_kernel, *head, self._out), learn.fill(self.learn_kernel, *head, 0, self._path)

    def replanning(self) -> Any:
        """Slot of `replan_kernel`, for agents with a pause."""
        if self._slot_replan is None:
            head = self.par, self.state, self.work, self._x, 0
            with announced(self.name):
                self._slot_replan = call_replan.fill(self.replan_kernel, *head, 0, self._path, self._out)
        return self._slot_replan

    # Files --------------------------------------------------------------------------------------------------------
    @locked
    def save(self, path: Any) -> None:
        """Write everything needed to go on, also in the middle of an episode (`noregret.load` reads it)."""
        write(self, path)


def _bytes_in(value: Any) -> float:
    """Of all arrays in nested named tuples."""
    if isinstance(value, tuple):
        return sum(map(_bytes_in, value))
    return float(value.nbytes) if isinstance(value, np.ndarray) else 0.0
