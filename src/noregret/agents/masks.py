"""Actions that are not available to one person, as an agent sees them.

All layouts in an agent's par have one array of what is available, its own. The compiled call that plans writes the
person's mask into it first and everybody's mask afterwards (`commit.opened`): planners, sets and certificates see what
this person can get, and whatever learns sees what there is."""

from typing import Any

import numpy as np

from ..compiler.memory import apart
from ..problem.masks import Mask, allowed_actions, check_policy, relaid
from ..problem.problem import Problem
from .owned import Owned


class Masked(Owned):
    """The part of `Agent` that knows what is available to whom."""

    problem: Problem
    masks: bool
    label: Any
    _out: Any

    def _with_masks(self, par: Any) -> Any:
        """par with one array of what is available, which `opened` writes to."""
        available = self.problem.layout.available
        self._everybody, self._in_force, self._mask = (apart(available.copy()) for _ in range(3))
        return relaid(par, self._in_force)

    def _masks(self, mask: Mask) -> tuple[Mask, Mask, Mask, Mask]:
        """What `opened` takes."""
        return apart(mask), self._everybody, self._in_force, self._mask

    @property
    def planning_masks(self) -> tuple[Mask, Mask]:
        """What its planners look at, and what everybody can get, [S, A] each: the agent's own arrays."""
        return self._in_force, self._everybody

    @property
    def mask(self) -> Mask:
        """What is available to the person of the open episode, bool [S, A]: the agent's own array."""
        return self._root()._mask  # type: ignore[no-any-return]

    def _masked(self) -> dict[str, Any]:
        """What a `Plan` says of it; nothing where everything can be had."""
        return {} if np.array_equal(self.mask, self._everybody) else {"mask": self.mask.copy()}

    def mask_of(self, unavailable: Any) -> Mask:
        """[S, A], True where an action is left; a sentence where the agent cannot do without the others."""
        made = allowed_actions(self.problem, unavailable)
        if unavailable is not None:
            self.admits(made)
        return made

    def admits(self, mask: Mask) -> None:
        """A sentence where it would not keep to what is available."""
        if not self.masks:
            raise ValueError(f"unavailable must be None, {self.name} cannot plan without actions for one person")
        for name, part in self._made_of().items():
            if not (self._ask is not None and name in ("expert", "baseline")):  # who is asked is looked at then
                part.admits(mask)

    def _open_action(self, action: Any, state: int) -> int:
        """Somebody else's action for the open episode."""
        p = self.problem
        made = p.action(action, state)
        if not self.mask[state, made]:
            said = f"{p.action_text(made)} is not available to this person in state {p.state_text(state)}"
            raise ValueError(f"action {said}")
        return made

    def check_open(self) -> None:
        """A sentence where the plan of the open episode, of a file, does not keep to its mask."""
        for policy in (self._out.policy, *self._out.plans):
            check_policy(self.problem, policy, self.mask, "the plan")
