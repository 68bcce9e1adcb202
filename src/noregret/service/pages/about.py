"""What the pages know of a programme beforehand: its names, sizes and house rule, made once from its settings."""

from typing import Any, NamedTuple

from ...checks import Floats
from ...problem.problem import Problem


class About(NamedTuple):
    """title: what people call it; house [S, A]: the house rule's probabilities, with its floor; most: what can be
    gained at most, in the units of rewards; threshold: certificates above it are referred, None: nobody is."""

    name: str
    title: str
    problem: Problem
    house: Floats
    most: float
    threshold: float | None
    shadow: bool

    def state(self, value: Any) -> str:
        """The name of a state, given as a number or by name; what nobody knows is shown as it came."""
        return _named(value, self.problem.state_names, "state")

    def action(self, value: Any) -> str:
        return _named(value, self.problem.action_names, "action")

    def state_number(self, value: Any) -> int:
        """For an order and a place; unknown ones last."""
        return _number(value, self.problem.state_names, self.problem.n_states)

    def action_number(self, value: Any) -> int:
        return _number(value, self.problem.action_names, self.problem.n_actions)


def about(settings: Any) -> About:
    """Of `service.programme_file.Settings`."""
    problem: Problem = settings.made_problem()
    referral = settings.referral
    return About(
        settings.programme.name, settings.programme.title or settings.programme.name, problem,
        settings.made_house(problem).chances, problem.horizon * problem.scale.unit,
        None if referral is None else float(referral.threshold), bool(settings.service.shadow),
    )  # fmt: skip


def _number(value: Any, names: Any, n: int) -> int:
    if isinstance(value, str) and names and value in names:
        return int(names.index(value))
    return value if isinstance(value, int) and 0 <= value < n else n


def _named(value: Any, names: Any, what: str) -> str:
    if isinstance(value, int) and names and 0 <= value < len(names):
        return str(names[value])
    return f"{what} {value}" if isinstance(value, int) else str(value)
