"""Certified: any agent, with proved bounds on the value of each of its plans.

Beside the agent a judge keeps confidence sets, learns from every episode, and bounds the values of whatever policy the
agent chose: the bounds hold for any Markov policy fixed before the episode, so they ask nothing of the agent.
"""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...beliefs.individual import IndividualModel
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import kernel
from ...compiler.memory import apart
from ...compiler.slots import slot
from ...planning.plans import Plan
from ...problem.problem import Problem
from ..base import Agent, part_learn, part_plan
from ..local.diagnostics import watch_certified
from ..local.lottery import judge_lottery, lottery_work
from ..local.lr_orl import LRORL
from ..local.sets import SetPar, SetState, SetWork, gap_conceded, judge
from ..locks import locked
from ..registry import VERBS
from .own import OwnAgent, is_own

part_judge = slot("judge")  # (par, state, work, x, k, policy, values) of the judge
part_judge_lottery = slot("judge of a lottery")  # (par, state, work, x, k, out)


class CertifiedPar(NamedTuple):
    plan: Any  # slots of the agent's kernels
    learn: Any
    judge_learn: Any  # and of the judge's
    judge_assess: Any
    agent: Any
    judge: SetPar


class CertifiedState(NamedTuple):
    agent: Any
    judge: SetState


class CertifiedWork(NamedTuple):
    agent: Any
    judge: SetWork


@kernel
def certified_plan(par, state, work, x, k, out):
    part_plan(par.plan, (par.agent, state.agent, work.agent, x, k, out))
    part_judge(par.judge_assess, (par.judge, state.judge, work.judge, x, k, out.policy, out.values))


@kernel
def certified_lottery(par, state, work, x, k, out):
    """The same for an agent with several plans or a floor."""
    part_plan(par.plan, (par.agent, state.agent, work.agent, x, k, out))
    part_judge_lottery(par.judge_assess, (par.judge, state.judge, work.judge, x, k, out))


@kernel
def certified_learn(par, state, work, x, k, n, path):
    part_learn(par.learn, (par.agent, state.agent, work.agent, x, k, n, path))
    part_learn(par.judge_learn, (par.judge, state.judge, work.judge, x, k, n, path))


@kernel
def certificates(par, state, work, out, gap):
    """gap [S] <- the judge's certificates at step 0."""
    gap_conceded(par.judge, state.judge, work.judge, out, gap)


@kernel
def watch_judge(par, state, work, truth, path, out, meter):
    watch_certified(par.judge, work.judge, truth, path, out, meter)


class Certified(Agent):
    """`agent` plays as it would alone; its plans come with bounds.

    plan.upper [H+1, S] bounds the optimal values, plan.lower the values of the agent's own policy, plan.certificate the
    policy's shortfall at any initial state the problem allows: with probability 1 - delta, in all episodes at once.
    plan.values are those upper values, not the agent's.

    agent                                       a compiled agent that plans whole episodes, taken over as it is; or any
                                                object of your own with the five verbs and a `problem` (docs/howto.md),
                                                whose plans are then judged in Python's time, one person after another.
                                                It is yours to keep: such a `Certified` cannot be saved
    delta, sets, bonus, reward_sets, predictor, form, certificates   of the judge (`SetAgent`)

    Of an agent with several plans or a floor (`PSRLGLM`), bounds are those of what it draws, in the mean over the draw.

    The judge learns from the episodes played here, not from those the agent knew before. Cost: the agent's and that of
    LR-ORL.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> x = world.context(seed=0, episode=0)
    >>> alone, judged = nr.EpsilonGreedy(world.problem), nr.Certified(nr.EpsilonGreedy(world.problem))
    >>> np.array_equal(judged.begin_episode(x).policy, alone.begin_episode(x).policy)
    True
    >>> judged.end_episode()
    >>> rule = [[0, 1, 1, 1]] * world.problem.horizon  # drug A to everybody who is ill: any policy can be judged
    >>> said = judged.certify(x, rule)
    >>> bool(said.lower[0, 2] <= world.value(rule, x) <= said.upper[0, 2])
    True
    """

    name = "certified"
    any_range = masks = True
    plan_kernel = staticmethod(certified_plan)
    learn_kernel = staticmethod(certified_learn)
    certificate_kernel = staticmethod(certificates)
    watch_kernel = staticmethod(watch_judge)
    bounds_values = consistent_values = True

    def __init__(
        self,
        agent: Any,
        delta: float = 0.05,
        sets: str = "online",
        bonus: str | None = None,
        reward_sets: str | None = None,
        predictor: str = "unscented",
        form: str = "full",
        certificates: str | None = None,
    ) -> None:
        if is_own(agent):
            agent = OwnAgent(agent)
        elif not isinstance(agent, Agent) or not agent.fused:
            raise ValueError(
                "agent must be a compiled noregret agent, or an object with a problem and the verbs "
                f"{', '.join(VERBS)}, got {type(agent).__name__}"
            )
        agent.as_part("agent")
        options: dict[str, Any] = {
            "delta": check.positive("delta", delta, below=1.0), "sets": sets, "bonus": bonus,
            "reward_sets": reward_sets, "predictor": predictor, "form": form, "certificates": certificates,
        }  # fmt: skip
        refusal = LRORL.refusal(agent.problem)
        if refusal is not None:
            raise ValueError(refusal.replace(LRORL.name, self.name))
        self.agent, self.judge = agent, LRORL(agent.problem, seed=agent.seed, **options)
        super().__init__(agent.problem, agent.seed, **options)
        self.group, self.fused = agent.group, agent.fused
        self._set_clock(agent.episode)
        self.make_room(0)
        self.encoder = agent.encoder
        self._refutation, quoted = agent._refutation, agent._promise() is not None
        self._caveats = agent._caveats if quoted else ()
        agent._owner = self.judge._owner = self  # last: whatever was refused before, the agent is still free

    def build(self) -> tuple[CertifiedPar, CertifiedState, CertifiedWork]:
        a, j = self.agent, self.judge
        plan, learn = a.kernels_as_part()
        with announced("the judge"):
            judge_learn = part_learn.fill(j.learn_kernel, j.par, j.state, j.work, j._x, 0, 0, j._path)
            judge_assess = part_judge.fill(judge, j.par, j.state, j.work, j._x, 0, j._out.policy, j._out.values)
            if self._lottery() > 0:
                self.plan_kernel = certified_lottery
                j.work = apart(j.work._replace(lottery=lottery_work(self.problem, self._lottery())))
                judge_assess = part_judge_lottery.fill(judge_lottery, j.par, j.state, j.work, j._x, 0, a._out)
        par = CertifiedPar(plan, learn, judge_learn, judge_assess, a.par, j.par)
        return par, CertifiedState(a.state, j.state), CertifiedWork(a.work, j.work)

    def _lottery(self) -> int:
        return int(self.agent._lottery())

    def _promise(self) -> str | None:
        own, said = self.agent._promise(), str(self.judge._promise())
        if self._lottery() > 0:
            said = said.replace(
                "the plan's shortfall from it", "the shortfall of what is drawn, in the mean over the draw"
            )
        return f"{said}{'' if own is None else f'; {own}'}"

    def _assumed(self) -> tuple[str, ...]:
        own = () if self.agent._promise() is None else self.agent._assumed()
        return tuple(dict.fromkeys((*self.judge._assumed(), *own)))

    @property
    def label(self) -> str:
        return f"{self.agent.label}, certified"

    @property
    def watch_columns(self) -> set[str]:
        return self.judge.watch_columns

    @property
    def regret_delta(self) -> float | None:  # type: ignore[override]
        """Of the judge."""
        return self.judge.regret_delta

    def _made_of(self) -> dict[str, Agent]:
        return {"agent": self.agent, "judge": self.judge}

    def parts(self) -> dict[str, Agent]:
        return {"agent": self.agent}

    @classmethod
    def rebuild(cls, problem: Problem, seed: int, options: dict[str, Any], parts: dict[str, Any]) -> Self:
        return cls(parts["agent"], **options)

    def fresh(self, seed: int | None = None) -> Self:
        """Likewise, with a fresh agent and a fresh judge."""
        own = self._player()
        made = self.agent.fresh(seed) if own is None else own.player.fresh(self.seed if seed is None else seed)
        return type(self)(made, **self.options).with_encoder(self.encoder)

    # An agent of the user's own hears of everything first: whatever it says, nothing has happened here yet -----------
    def _player(self) -> OwnAgent | None:
        return self.agent if isinstance(self.agent, OwnAgent) else None

    def plan_for(self, x: Any, unavailable: Any = None) -> Plan:
        own = self._player()
        if own is not None and not self.is_open:
            self.mask_of(unavailable)
            own.hear(self.problem.context(self.encoded(x)))
        plan = super().plan_for(x, unavailable)
        if own is not None:
            own.begun()
        return plan

    @locked
    def act(self, state: int | str, action: int | str | None = None) -> int:
        """As `Agent.act`; asked again, an agent of your own is not asked again."""
        own = self._player()
        if own is not None and self.is_open and not self._asked and self._step < self.problem.horizon:
            s = self._next(state)
            own.acted(s, None if action is None else self.problem.action(action, s))
        return super().act(state, action)

    @locked
    def observe(self, reward: float, next_state: int | str) -> None:
        """As `Agent.observe`."""
        own = self._player()
        if own is not None and self._asked:
            own.player.observe(self.problem.reward(reward), self.problem.state(next_state, "next_state"))
        super().observe(reward, next_state)

    @locked
    def end_episode(self) -> None:
        """As `Agent.end_episode`."""
        own = self._player()
        if own is not None and self.is_open:
            own.player.end_episode()
        super().end_episode()

    @locked
    def learn_from(self, log: Any) -> int:
        """As `Agent.learn_from`, for agents of the library."""
        if self._player() is not None:
            raise ValueError("learn_from: an agent of your own learns from episodes only")
        return super().learn_from(log)

    @locked
    def save(self, path: Any) -> None:
        """As `Agent.save`, for agents of the library."""
        if self._player() is not None:
            raise ValueError(f"save: {self.agent.label} is an agent of your own, which the library cannot write")
        super().save(path)

    def _model_of(self, x: Floats) -> IndividualModel:
        """The agent's, with the judge's widths; the judge's where the agent has none."""
        judged: IndividualModel = self.judge._model_of(x)
        try:
            own: IndividualModel = self.agent._model_of(x)
        except ValueError:
            return judged
        if judged.P_width is None or judged.r_width is None:
            return own
        P = np.minimum(judged.P_width + np.abs(own.P - judged.P), np.maximum(own.P, 1.0 - own.P))
        return replace(own, P_width=P, r_width=judged.r_width + np.abs(own.r - judged.r))

    def certifier(self) -> Any:
        return self.judge

    def _rests_on(self) -> tuple[Agent, ...]:
        return (self.judge,) if self.agent._promise() is None else (self.judge, *self.agent._rests_on())

    def _room_in(self, state: Any) -> int:
        return self.judge._room_in(state.judge)

    def _roomier(self, state: Any, episodes: int) -> Any:
        return CertifiedState(self.agent._roomier(state.agent, episodes), self.judge._roomier(state.judge, episodes))

    def _renew(self) -> None:
        self.judge._renew()

    def _lower(self) -> Floats | None:
        return np.array(self.work.judge.lower)

    def _gap(self, upper: Floats, lower: Floats) -> float:
        close = self.par.judge.close
        return float(self.work.judge.short[0][self.problem.starts].max()) if close else super()._gap(upper, lower)

    @locked
    def certify(self, x: ArrayLike, policy: ArrayLike) -> Plan:
        """Bounds for any policy, as `SetAgent.certify`."""
        return self.judge.certify(x, policy)
