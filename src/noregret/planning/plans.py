"""A plan: a policy for one individual, with its values and bounds, as people see it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..problem.problem import Problem
from ..storage.text import aligned, shortened
from .explained import BelievedShortfall, Explanation

MOST_STEPS, MOST_STATES = 12, 8  # shown of a plan
ALL = 0.95  # of the horizon: a certificate above says nothing that was not known before any data


@dataclass(frozen=True, repr=False)
class Plan:
    """A policy for one individual and what the planner believed of it.

    policy [H, S]; values [H+1, S] as the planner computed them (upper bounds for optimistic agents, perturbed values
    for randomised ones, exact values for `World.optimal`). upper and lower [H+1, S] bound the optimal value and the
    policy's own value with the agent's probability, None where the agent claims no such thing; certificate bounds the
    policy's shortfall from optimal in any initial state the problem allows, likewise: at most the largest upper - lower
    at step 0. problem says which names states and actions have (None: numbers).

    Of an agent that draws its plan from several, or has a floor (`agents.lottery`): plans [N, H, S] and floor are what
    the policy was drawn from, `chances` with which probabilities; bounds and certificate are then about the draw, the
    mean over plans. plans is None of any other agent. randomised [H, S, A]: of `agent.certify`, the probabilities that
    were asked about; policy is then the likeliest action.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> x = world.context(seed=0, episode=0)
    >>> plan = nr.LRORL(world.problem).begin_episode(x)
    >>> plan.policy.shape, plan.values.shape
    ((6, 4), (7, 4))
    >>> bool((plan.lower <= plan.upper).all())
    True
    >>> best = world.optimal(x)  # a plan as well, with exact values
    >>> round(float(best.values[0, 2]), 2), best.certificate is None
    (4.61, True)
    >>> best  # what to do at each step in each state
    step  remission  mild    moderate  severe
    0     wait       drug B  drug B    drug B
    1     wait       drug B  drug B    drug B
    2     wait       drug B  drug B    drug B
    3     wait       drug B  drug B    drug B
    4     wait       drug B  drug B    drug B
    5     wait       wait    wait      drug B
    """

    policy: NDArray[np.int64]
    values: Floats
    upper: Floats | None = None
    lower: Floats | None = None
    certificate: float | None = None
    problem: Problem | None = field(default=None, compare=False)
    plans: NDArray[np.int64] | None = None
    floor: float = 0.0
    randomised: Floats | None = None
    mask: NDArray[np.bool_] | None = field(default=None, compare=False)
    _asks = None  # who answers `why` and `belief`: the agent that made the plan (`agents.explaining`)

    def table(self) -> list[dict[str, Any]]:
        """A row per step and state, for a data frame: step, state, action, value, lower, upper (None where there are no
        bounds), states and actions by their names.

        >>> import noregret as nr
        >>> world = nr.worlds.clinic()
        >>> plan = nr.LRORL(world.problem).begin_episode(world.context(seed=0, episode=0))
        >>> rows = plan.table()
        >>> len(rows), list(rows[0])
        (24, ['step', 'state', 'action', 'value', 'lower', 'upper'])
        >>> rows[0]["state"], rows[0]["action"]
        ('remission', 'wait')
        """
        (H, S), p = self.policy.shape, self.problem
        states = p.state_names if p is not None and p.state_names else range(S)
        actions: Any = p.action_names if p is not None and p.action_names else None

        def at(values: Floats | None, h: int, s: int) -> float | None:
            return None if values is None else float(values[h, s])

        return [
            {
                "step": h, "state": states[s], "action": actions[a] if actions else a,
                "value": float(self.values[h, s]), "lower": at(self.lower, h, s), "upper": at(self.upper, h, s),
            }
            for h in range(H) for s in range(S) for a in [int(self.policy[h, s])]
        ]  # fmt: skip

    def figure(self, path: Any, within: float | None = None, title: str | None = None) -> None:
        """Draw the plan: steps across, states down, a colour per action; a dot where it is proved that the plan falls
        short by at most `within` from there on (None: a tenth of what can be gained in the steps left). path: .png,
        .svg or .pdf. As `noregret.report.plan_figure`."""
        if not _PAINTER:
            raise RuntimeError("figure: import noregret, which knows how plans are drawn")
        _PAINTER[0](self, path, within, title)

    def why(self, state: Any, step: int = 0, draws: int = 200, baseline: Any = None) -> Explanation:
        """Why the plan says what it says in a state: every action's value with bounds and belief, the probability of
        being the best, and what each entry of the context does to the decision (`Explanation`).

        draws     models drawn from the posterior; baseline [d]: what entries of the context are set to, 0 by default
                  (the means of a population, say)

        Only of plans that an agent made, and until it learns again: a RuntimeError then."""
        return self._asked("why").why(self, state, step, draws, baseline)  # type: ignore[no-any-return]

    def belief(self, draws: int = 200, state: Any = None) -> BelievedShortfall:
        """How far the plan is believed to fall short of optimal: mean and 95% quantile over so many models drawn from
        the posterior, in the worst initial state or in the one given. Believed, not proved; as long as for `why`."""
        return self._asked("belief").belief(self, draws, state)  # type: ignore[no-any-return]

    def _asked(self, verb: str) -> Any:
        if self._asks is None:
            raise RuntimeError(f"{verb}: this plan has no agent to ask, it was made without one, copied or changed")
        return self._asks

    @property
    def chances(self) -> Floats:
        """Probabilities [H, S, A] of the actions: 1 of the policy's own, or those of the draw before the first step.
        What was done at one step changes those of the next, so the product over steps is not the chance of a path
        (`agent.action_probabilities`)."""
        if self.randomised is not None:
            return self.randomised.copy()
        if self.problem is None:
            raise ValueError("chances needs a plan with a problem, which knows the actions")
        given = self.policy[None] if self.plans is None else self.plans
        may, (N, H, S) = self.problem.layout.available if self.mask is None else self.mask, given.shape
        made = np.tile(self.floor * may / may.sum(1, keepdims=True), (H, 1, 1))
        h, s = np.ogrid[:H, :S]
        for policy in given:
            made[h, s, policy] += (1.0 - self.floor) / N
        return made

    def __repr__(self) -> str:
        """A row per step, a column per state; the middle of a large plan is left out."""
        (H, S), p = self.policy.shape, self.problem
        states = p.state_names if p is not None and p.state_names else tuple(f"state {s}" for s in range(S))
        actions = p.action_names if p is not None and p.action_names else None
        steps, shown = shortened(range(H), MOST_STEPS), shortened(range(S), MOST_STATES)

        def done(h: int, s: int) -> str:
            a = int(self.policy[h, s])
            return str(a) if actions is None else actions[a]

        head = ["step", *("..." if s is None else states[s] for s in shown)]
        rows = [
            ["..."] * len(head) if h is None else [str(h), *("..." if s is None else done(h, s) for s in shown)]
            for h in steps
        ]
        table = aligned([head, *rows])
        if None in steps or None in shown:
            table += f"\n[{H} steps, {S} states]"
        if self.certificate is None:
            return table
        if self.certificate > ALL * H * (1.0 if p is None else p.scale.unit):
            return f"{table}\nat most {self.certificate:.3g} short of optimal, which says nothing yet"
        return f"{table}\nat most {self.certificate:.3g} short of optimal"


_PAINTER: list[Any] = []  # pictures are made in a room that comes later; whoever puts rooms together says how


def drawn_with(figure: Any) -> None:
    """figure(plan, path, within, title) draws plans from now on."""
    _PAINTER[:] = [figure]
