"""Conservative: an agent that is never worse than a share of what was done before, in sum, at any time.

Before every episode the agent plans and the baseline plans, and bounds on both values come from the same sets. An
account is kept of how much everything played so far is worth above a share of the baseline, at least. The agent's plan
is played if the account stays at 0 or above, otherwise the baseline. The agent learns from every episode, whoever
decided.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.announcements import announced
from ...planning.margin import call_margin, margin, margin_work
from ...planning.plans import Plan
from ...problem.masks import check_policy
from ...problem.problem import Problem
from ..base import Agent, gap_to_lower
from ..locks import locked
from ..promise import ALWAYS
from . import conservative_kernels as kernels
from .conservative_kernels import ConservativePar, ConservativeState, ConservativeWork
from .conservative_report import ConservativeReport
from .pair import Pair


@dataclass(frozen=True)
class ConservativePlan(Plan):
    """The plan that is played. held: whether it is the baseline's; margin: at least what the agent's plan is worth
    above 1 - alpha of the baseline; budget: the account with this individual. All bounds are those of what is
    played."""

    held: bool = False
    margin: float = 0.0
    budget: float = 0.0

    @property
    def referred(self) -> bool:
        """Whether somebody else than the agent planned, as for `Referral`."""
        return self.held


class Conservative(Pair):
    """An agent that plays its plans only as far as a baseline pays for them.

    agent      an agent with confidence sets (`LRORL`, `CertifiedPSRL`, or any other in a `Certified`); it is taken over
               as it is, with what it has learned
    baseline   what was done before: a policy [H, S] of actions; a function x -> policy [H, S], asked about everybody
               (then `simulate` runs episode by episode); or another agent, which learns from every episode as well
    alpha      the share of the baseline's value that may be put at risk, from 0 to 1

    Let V be values counted from the lowest possible, H times the low end of `reward_range`. With the agent's
    probability 1 - delta, after every individual n,

        sum over k <= n of V(what was played for k)  >=  (1 - alpha) sum over k <= n of V(baseline for k).

    It keeps an account of lower bounds on V(played) - (1 - alpha) V(baseline), one number for everybody so far. Playing
    the baseline adds alpha times its lower value. The agent's plan adds its margin, which may be negative; it is played
    only if the account stays at 0 or above. The margin follows both policies through the same model
    (`planning.margin`): what they have in common costs nothing. docs/beyond.md, Theorem 14; the idea is that of Wu et
    al. (2016), Kazerouni et al. (2017) and Garcelon et al. (2020), whose accounts add up bounds on each policy apart.

    Where episodes may begin in several states the bounds are those of the worst. The baseline must choose by what the
    agent is told: the context, the state, the past. Where an assumption was refuted everybody gets the baseline. How
    many get it is not bounded: with alpha = 0 that may be everybody. `report` says who did. Cost: both agents' own, and
    two assessments of a policy; memory 24 bytes per individual.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> rule = [[0, 1, 1, 1]] * world.problem.horizon  # drug A to everybody who is ill: actions [H, S]
    >>> agent = nr.Conservative(nr.CertifiedPSRL(world.problem), rule, alpha=0.1)
    >>> plan = agent.begin_episode(world.context(seed=0, episode=0))
    >>> plan.held, plan.budget  # nothing is known yet, not even of the baseline
    (True, 0.0)
    >>> np.array_equal(plan.policy, rule)
    True
    """

    name = "conservative"
    beside, stands = "baseline", "it is compared with"
    any_range = masks = True
    plan_kernel = staticmethod(kernels.conservative_plan)
    learn_kernel = staticmethod(kernels.conservative_learn)
    certificate_kernel = staticmethod(gap_to_lower)
    asks_everybody = True

    def __init__(
        self, agent: Agent, baseline: Agent | ArrayLike | Callable[[Floats], ArrayLike], alpha: float = 0.1
    ) -> None:
        check.instance("agent", agent, Agent, "a compiled noregret agent")
        if not agent.fused:
            raise ValueError("agent must be compiled throughout, part of it is Python")
        if agent._lottery() > 0:
            raise ValueError("agent must have plans=1 and floor=0, margins are those of one policy")
        sets = next((a for a in agent._rests_on() if getattr(a, "certifies", False)), None)
        if sets is None:
            raise ValueError(
                f"agent must be one with confidence sets (LRORL, CertifiedPSRL, or Certified around another), "
                f"{agent.label} has none"
            )
        self.sets: Any = sets  # the agent, or the part of it, whose sets the bounds rest on
        self._heard: tuple[Floats, NDArray[np.int64]] | None = None  # asked about, and not begun yet
        self._join(agent, baseline)
        super().__init__(agent, alpha=check.fraction("alpha", alpha))

    @property
    def baseline(self) -> Agent:
        """Whose plan is played where the account does not allow the agent's."""
        return self.other

    def _as_agent(self, agent: Agent, other: Any) -> Agent:
        made = super()._as_agent(agent, other)
        if made._lottery() > 0:
            raise ValueError("baseline must have plans=1 and floor=0, margins are those of one policy")
        return made

    def build(self) -> tuple[ConservativePar, ConservativeState, ConservativeWork]:
        a, b, p, sets = self.agent, self.baseline, self.problem, self.sets
        made, share = margin_work(p.horizon, p.n_states), 1.0 - self.options["alpha"]
        own, others = a.kernels_as_part(), b.kernels_as_part()
        with announced("the margin over the baseline"):
            policy, known = b._out.policy, (sets.par.search, sets.work.local, sets.work.search)
            slot = call_margin.fill(margin, *known, policy, policy, share, made)
        par = ConservativePar(*own, *others, slot, known[0], share, 0, p.starts, a.par, b.par)
        state = ConservativeState(a.state, b.state, np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        lower = np.zeros((p.horizon + 1, p.n_states))
        return par, state, ConservativeWork(a.work, b.work, b._out, *known[1:], made, lower)

    # What it is ---------------------------------------------------------------------------------------------------
    def _promise(self) -> str | None:
        if self.agent._promise() is None:
            return None
        p, delta = self.problem, self.sets.delta
        low = p.horizon * p.scale.low
        said = "the values" if low == 0.0 else f"the values above {low:g}, the lowest possible,"
        return (
            f"with probability {1 - delta:g}, {ALWAYS}, plan.certificate is at least the plan's shortfall, and at any "
            f"time {said} of all plans so far add up to at least {1 - self.options['alpha']:g} of the baseline's"
        )

    def _assumed(self) -> tuple[str, ...]:
        return self.sets._assumed()  # type: ignore[no-any-return]

    @property
    def par(self) -> ConservativePar:
        """As built; where an assumption was refuted no bound is worth anything, and everybody gets the baseline."""
        return self._par._replace(void=1) if self.refuted is not None else self._par

    @par.setter
    def par(self, value: ConservativePar) -> None:
        self._par = value

    @property
    def label(self) -> str:
        who = "function" if self._ask is not None else self.baseline.label
        return f"{self.agent.label}, at least {1 - self.options['alpha']:g} of {who}"

    @classmethod
    def rebuild(cls, problem: Problem, seed: int, options: dict[str, Any], parts: dict[str, Any]) -> Self:
        baseline = parts.get("baseline", parts.get("expert"))
        if baseline is None:
            raise ValueError("expert must be given, the agent was saved with a function for its baseline")
        return cls(parts["agent"], baseline, **options)

    # Verbs and records --------------------------------------------------------------------------------------------
    def plan_for(self, x: Any, unavailable: Any = None) -> ConservativePlan:
        """Plan for an individual with context x [d] (or a row, see `Agent`); play that, or the baseline."""
        if self._ask is not None and not self.is_open:
            self.prepare(self.problem.context(self.encoded(x)))
            check_policy(self.problem, self.baseline.par.policy, self.mask_of(unavailable), "the baseline's policy")
        plan = super().plan_for(x, unavailable)
        self._heard = None
        return plan  # type: ignore[return-value]

    def prepare(self, x: Floats) -> None:
        """Ask the function about an individual who is going to be planned for. Whatever it does, nothing has changed;
        interrupted before the episode has begun, it is not asked twice about the same person."""
        if self._ask is None:
            return
        if self._heard is None or not np.array_equal(self._heard[0], x):
            self._heard = x.copy(), self.problem.policy(self._ask(x.copy()), "the baseline's policy")
        self.baseline.par.policy[...] = self._heard[1]

    def plan_made(self) -> ConservativePlan:
        plan, k, unit = super().plan_made(), self.episode, self.problem.scale.unit
        known = {f.name: getattr(plan, f.name) for f in fields(Plan)}
        state = self.state
        more = float(state.margin[k]) * unit, float(state.budget[k]) * unit
        return ConservativePlan(**known, held=bool(state.held[k] == 1), margin=more[0], budget=more[1])

    def _lower(self) -> Floats | None:
        return np.array(self.work.lower)

    def _gap(self, upper: Floats, lower: Floats) -> float:
        own = self.state.held[self.episode] == 0
        return self.agent._gap(upper, lower) if own else super()._gap(upper, lower)

    def _rests_on(self) -> tuple[Agent, ...]:
        return (self.sets,)

    @property
    @locked
    def held(self) -> NDArray[np.bool_]:
        """Who got the baseline, [individuals met], in order."""
        return self._handed()

    @property
    @locked
    def budget(self) -> float:
        """The account: at least how much more everything played so far is worth than 1 - alpha of the baseline."""
        return self.report().budget

    @locked
    def report(self) -> ConservativeReport:
        """Who got the baseline, how often as the population went by, and what is proved of all together."""
        state, unit, proved = self.state, self.problem.scale.unit, self.guarantee is not None
        met = state.held >= 0
        told = state.margin[met] * unit, state.budget[met] * unit
        return ConservativeReport(self.options["alpha"], proved, self.held, *told, self._first())
