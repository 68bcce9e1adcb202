"""What a caller is told, as JSON text. It is stored with the event, so that the same key gets the same bytes again."""

from typing import Any

from ..problem.problem import Problem
from ..storage.version import __version__
from .asking import encoded
from .house import House, left
from .items import AGENT, Item


class Phrasing:
    """Answers of one programme, states and actions by name where the problem has names."""

    def __init__(self, problem: Problem, house: House) -> None:
        self.states: Any = problem.state_names or tuple(range(problem.n_states))
        self.actions: Any = problem.action_names or tuple(range(problem.n_actions))
        self.starts = problem.starts.tolist()
        self._house = house.chances

    def text(self, item: Item, number: int, episode: int) -> str:
        """Of an item that was claimed and will be event `number`; episode: of a begin."""
        if item.kind == "decide":
            return encoded(self._decide(item, number))
        if item.kind == "begin":
            return encoded(self._begin(item, number, episode))
        told: dict[str, Any] = {"who": item.who}
        if "step" in item.payload:
            told["step"] = item.payload["step"]
        return encoded(told | {"number": number})

    def _decide(self, item: Item, number: int) -> dict[str, Any]:
        told, made = item.payload, item.made if item.by == AGENT else None
        return {
            "who": item.who, "step": told["step"], "state": self.states[told["state"]],
            "action": self.actions[told["action"]], "probability": told["probability"],
            "certificate": None if made is None else made.certificate,
            "referred": None if made is None else made.referred,
            "by": told["by"], "reason": item.reason, "version": __version__, "number": number,
        }  # fmt: skip

    def _begin(self, item: Item, number: int, episode: int) -> dict[str, Any]:
        """plan: the first action in each state that somebody may begin in; of the house rule, the likeliest that is
        left to them."""
        made = item.made if item.by == AGENT else None
        first = self._likeliest(item) if made is None else made.policy[0].tolist()
        return {
            "who": item.who, "episode": episode,
            "plan": {str(self.states[s]): self.actions[first[s]] for s in self.starts},
            "certificate": None if made is None else made.certificate,
            "referred": None if made is None else getattr(made, "referred", None),
            "by": "house" if made is None else "agent", "reason": item.reason, "version": __version__,
            "number": number,
        }  # fmt: skip

    def _likeliest(self, item: Item) -> dict[int, int]:
        mask = None if item.standing is None else item.standing.mask
        chances = {s: self._house[s] if mask is None else left(self._house[s], mask[s]) for s in self.starts}
        return {s: int(row.argmax()) for s, row in chances.items()}
