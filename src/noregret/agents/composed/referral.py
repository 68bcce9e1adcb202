"""Referral: an agent decides where it is sure enough and hands the other individuals to an expert.

Before every episode the agent plans. If its certificate, a bound on how far its plan falls short of optimal, is above
a threshold in some initial state the problem allows, the expert's policy is played instead. The agent learns from every
episode, whoever decided.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.memory import apart, copied
from ...planning.plans import Plan
from ...problem.masks import check_policy
from ...problem.problem import Problem
from ..base import Agent
from ..locks import locked
from ..registry import with_kernel
from . import referral_kernels as kernels
from .pair import Pair
from .referral_kernels import ReferralPar, ReferralState, ReferralWork
from .referral_report import ReferralReport

KERNELS = {"certificate": "certificate_kernel", "doubt": "doubt_kernel", "belief": "belief_kernel"}  # by criterion
CRITERIA = tuple(KERNELS)


@dataclass(frozen=True)
class ReferralPlan(Plan):
    """The plan that is played. gap: what was compared with the threshold; referred: whether the policy is the expert's.
    Then there is no certificate and no lower value: the agent's are about its own policy."""

    referred: bool = False
    gap: float = 0.0


class Referral(Pair):
    """An agent that hands an individual to an expert where its certificate is above `threshold`.

    agent        an agent with certificates (`certificate_kernel`), or with posterior draws (`doubt_kernel`,
                 `belief_kernel`) under the other criteria; it is taken over as it is, with what it has learned
    expert       another agent, which plans for every individual and learns from every episode as well; a policy [H, S]
                 of actions; or a function x -> policy [H, S], asked only when somebody is handed over (then `simulate`
                 runs episode by episode)
    threshold    in units of reward; under "doubt" a share from 0 to 1
    criterion    "certificate": the largest certificate over the initial states the problem allows. "doubt": the
                 largest share of posterior draws in which the plan's first action there is not optimal; proves
                 nothing. "belief": the 95% quantile over 39 posterior draws of how far the plan falls short of optimal
                 there, the largest over initial states; in units of reward, believed, proves nothing

    What stays true when the agent learns from what the expert does: its confidence sets and certificates hold for any
    actions chosen before their outcomes are seen, and the choice to refer looks only at the past and at the context.
    So with the agent's probability 1 - delta, for all individuals at once, whoever is kept gets a policy at most
    `threshold` worse than optimal, and

        regret <= sum of the certificates of those kept + the expert's own shortfall on the others
               <= threshold * kept + the expert's own shortfall on the others.

    Of an agent with several plans or a floor (`PSRLGLM`) the certificate is that of its draw, and whether somebody is
    handed over does not depend on what is drawn. The expert's policy has probability 1, or, of an expert with as many
    plans, its own.

    This needs an expert who chooses by what the agent is told: the context, the state, the past. One who knows more
    about the individual, and acts on it, confounds the data, and the sets are then void. Nor do bounds on how fast
    certificates shrink carry over: an expert who never tries an action teaches nothing about it, and the agent may go
    on referring for ever.
    `report` says who was referred. Cost: both agents' own; memory 16 bytes per individual.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> rule = [[0, 1, 1, 1]] * world.problem.horizon  # drug A to everybody who is ill: actions [H, S]
    >>> team = nr.Referral(nr.CertifiedPSRL(world.problem), rule, threshold=3.0)
    >>> plan = team.begin_episode(world.context(seed=0, episode=0))
    >>> plan.referred, bool(plan.gap > 3.0)  # nothing is known yet: the certificate is above 3
    (True, True)
    >>> np.array_equal(plan.policy, rule)
    True
    """

    name = "referral"
    beside, stands = "expert", "that refers"
    any_range = masks = True
    plan_kernel = staticmethod(kernels.referral_plan)
    learn_kernel = staticmethod(kernels.referral_learn)

    def __init__(
        self,
        agent: Agent,
        expert: Agent | ArrayLike | Callable[[Floats], ArrayLike],
        threshold: float,
        criterion: str = "certificate",
    ) -> None:
        check.instance("agent", agent, Agent, "a compiled noregret agent")
        if not agent.fused:
            raise ValueError("agent must be compiled throughout, part of it is Python")
        if getattr(agent, KERNELS[check.one_of("criterion", criterion, CRITERIA)]) is None:
            raise ValueError(_without(agent, criterion))
        self._join(agent, expert)
        limit = check.nonnegative("threshold", threshold)
        if criterion == "doubt" and limit > 1.0:
            raise ValueError(
                f"threshold must be a share from 0 to 1 under criterion='doubt', got {check.shown(threshold)}"
            )
        super().__init__(agent, threshold=limit, criterion=criterion)

    @property
    def expert(self) -> Agent:
        """Who plans for those that are handed over."""
        return self.other

    def _as_agent(self, agent: Agent, other: Any) -> Agent:
        made = super()._as_agent(agent, other)
        if made._lottery() not in (0, agent._lottery()):
            raise ValueError(
                f"expert must have as many plans as the agent, or none to draw from: {made._lottery()} and "
                f"{agent._lottery()}"
            )
        return made

    def _lottery(self) -> int:
        return self.agent._lottery()

    def build(self) -> tuple[ReferralPar, ReferralState, ReferralWork]:
        a, e, p = self.agent, self.expert, self.problem
        criterion, gap = self.options["criterion"], np.zeros(p.n_states)
        doubtful = criterion != "certificate"
        if doubtful:
            a.prepare_doubt()
        head = a.par, a.state, a.work, a._out
        own, others = a.kernels_as_part(), e.kernels_as_part()
        with announced(f"the certificates of {a.name}"):
            if doubtful:
                measure = kernels.part_doubt.fill(getattr(a, KERNELS[criterion]), *head, a._x, 0, gap)
            else:
                measure = kernels.part_certificate.fill(a.certificate_kernel, *head, gap)
        par = ReferralPar(
            *own, measure, *others, int(doubtful), self.options["threshold"] / self._unit, p.starts, a.par, e.par
        )  # fmt: skip
        state = ReferralState(a.state, e.state, np.zeros(0, np.int64), np.zeros(0))
        return par, state, ReferralWork(a.work, e.work, e._out, gap)

    @property
    def _unit(self) -> float:
        """Of what is compared with the threshold: that of rewards, or 1 of a share."""
        return 1.0 if self.options["criterion"] == "doubt" else self.problem.scale.unit

    # What it is ---------------------------------------------------------------------------------------------------
    def _promise(self) -> str | None:
        own, limit = self.agent._promise(), self.options["threshold"]
        if own is None or self.options["criterion"] != "certificate":
            return None
        what = "a policy" if self._lottery() == 0 else "a draw that is, in the mean over it,"
        return f"{own}; whoever is not referred gets {what} at most {limit:g} worse than optimal"

    def _assumed(self) -> tuple[str, ...]:
        return self.agent._assumed()

    @property
    def par(self) -> ReferralPar:
        """As built; where an assumption was refuted no certificate is worth anything, and everybody is referred."""
        void = self.refuted is not None and self.options["criterion"] == "certificate"
        return self._par._replace(threshold=-math.inf) if void else self._par

    @par.setter
    def par(self, value: ReferralPar) -> None:
        self._par = value

    @property
    def label(self) -> str:
        who = "function" if self._ask is not None else self.expert.label
        return f"{self.agent.label}, refers to {who} above {self.options['threshold']:g}" + (
            "" if self.options["criterion"] == "certificate" else f" {self.options['criterion']}"
        )

    @classmethod
    def rebuild(cls, problem: Problem, seed: int, options: dict[str, Any], parts: dict[str, Any]) -> Self:
        if "expert" not in parts:
            raise ValueError("expert must be given, the agent was saved with a function")
        return cls(parts["agent"], parts["expert"], **options)

    # Verbs and records --------------------------------------------------------------------------------------------
    def plan_for(self, x: Any, unavailable: Any = None) -> ReferralPlan:
        """Plan for an individual with context x [d] (or a row, see `Agent`), or have the expert plan."""
        if self._ask is not None and not self.is_open:
            self._hear(self.problem.context(self.encoded(x)), self.mask_of(unavailable))
        return super().plan_for(x, unavailable)  # type: ignore[return-value]

    def _hear(self, x: Floats, mask: Any) -> None:
        """Ask the function about an individual who is going to be handed over. Who is, a plan on a copy says: so the
        function may fail, or be interrupted, and nothing has changed."""
        self.make_room(1)
        seen: dict[int, Any] = {}
        state, work, out, k = *(copied(v, seen) for v in (self.state, self.work, self._out)), self.episode
        self.plan_on(self.par, state, work, apart(x), k, out, mask)
        if self._hands_over(state, k):
            said = self.problem.policy(self._ask(x.copy()), "the expert's policy")
            check_policy(self.problem, said, mask, "the expert's policy")
            self.expert.par.policy[...] = said

    def plan_made(self) -> ReferralPlan:
        plan, k = super().plan_made(), self.episode
        referred, gap = bool(self.state.referred[k] == 1), float(self.state.gap[k]) * self._unit
        known = {f.name: getattr(plan, f.name) for f in fields(Plan)}
        certified = not referred and self.options["criterion"] == "certificate"
        known |= {"certificate": gap if certified else None, "lower": None if referred else known["lower"]}
        return ReferralPlan(**known, referred=referred, gap=gap)

    def _lower(self) -> Floats | None:
        return self.agent._lower()

    def _hands_over(self, state: Any, k: int) -> bool:
        return self._ask is not None and bool(state.referred[k] == 1)

    def _rests_on(self) -> tuple[Agent, ...]:
        return self.agent._rests_on()

    @property
    @locked
    def referred(self) -> NDArray[np.bool_]:
        """Who was handed over, [individuals met], in order."""
        return self._handed()

    @property
    @locked
    def gaps(self) -> Floats:
        """What was compared with the threshold, likewise."""
        return np.asarray(self.state.gap[self.state.referred >= 0] * self._unit)

    @locked
    def report(self) -> ReferralReport:
        """Who was referred, how often as the population went by, and what is proved about those kept."""
        o, proved = self.options, self.guarantee is not None
        return ReferralReport(o["threshold"], o["criterion"], proved, self.referred, self.gaps, self._first())


def _without(agent: Agent, criterion: str) -> str:
    what = "certificates" if criterion == "certificate" else "posterior draws"
    names = ", ".join(with_kernel(KERNELS[criterion])) or "none in this version"
    return f"agent must be one with {what} (built in: {names}), {agent.name} has none"
