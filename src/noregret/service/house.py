"""The house rule: what a programme does where the agent cannot answer, with its probabilities.

It is fixed before anything happens and looks at the state alone, so whatever it decides is somebody else's choice to
the agent, and keeps the guarantees. An action is drawn by a number from SHA-256 of (seed, who, visit, step): no clock,
no process and no order of requests has a part in it, and asking again draws the same."""

import hashlib
import json
from typing import Any

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..problem.masks import Mask
from ..problem.problem import Problem


class House:
    """A rule for the states of a problem.

    rule    {state: action}, or {state: {action: probability}}; every state is named
    floor   the chance with which any available action is taken at random instead
    seed    of the numbers that draw

    >>> import noregret as nr
    >>> problem = nr.worlds.clinic().problem
    >>> rule = {"remission": "wait", "mild": "drug A", "moderate": "drug A", "severe": {"drug A": 0.5, "drug B": 0.5}}
    >>> house = House(problem, rule, floor=0.3)
    >>> house.chances[2].round(2).tolist()  # moderate: 0.3 is shared by the three
    [0.1, 0.8, 0.1]
    >>> house.decide("Ms B", visit=0, step=4, state=2) == house.decide("Ms B", visit=0, step=4, state=2)
    True
    """

    def __init__(self, problem: Problem, rule: Any, floor: float = 0.0, seed: int = 0) -> None:
        self.problem, self.seed = problem, check.integer("seed", seed, 0)
        self.floor = check.fraction("floor", floor)
        self.chances = _chances(problem, check.mapping("rule", rule))
        open_to = problem.layout.available / problem.layout.available.sum(1, keepdims=True)
        self.chances = (1.0 - self.floor) * self.chances + self.floor * open_to
        self._rows: list[list[float]] = self.chances.tolist()

    @property
    def policy(self) -> Any:
        """Actions [H, S] of a rule that draws nothing, for an expert; a ValueError where it does."""
        if not (self.chances.max(1) == 1.0).all():
            raise ValueError("rule must have one action a state, and no floor, to be an expert's")
        return np.tile(self.chances.argmax(1), (self.problem.horizon, 1))

    def decide(self, who: Any, visit: int, step: int, state: int, mask: Mask | None = None) -> tuple[int, float]:
        """(action, its probability). mask [S, A]: what is left to this person; where the rule's actions are not, any
        that is, all equally likely."""
        row = self._rows[state] if mask is None else left(self.chances[state], mask[state]).tolist()
        at, action = drawn(self.seed, who, visit, step), len(row) - 1
        for a, chance in enumerate(row):
            at -= chance
            if chance > 0.0:
                action = a
                if at < 0.0:
                    break
        return action, row[action]


def left(chances: Floats, allowed: Any) -> Floats:
    """Chances [A] among the actions that are allowed [A]."""
    made = np.where(allowed, chances, 0.0)
    total = made.sum()
    return np.asarray(made / total if total > 0.0 else allowed / allowed.sum(), np.float64)


def drawn(seed: int, who: Any, visit: int, step: int) -> float:
    """A number in [0, 1) that belongs to this person's step."""
    said = hashlib.sha256(json.dumps(["house", seed, who, visit, step]).encode()).digest()
    return (int.from_bytes(said[:8], "big") >> 11) * 2.0**-53


def _chances(problem: Problem, rule: dict[Any, Any]) -> Floats:
    made, told = np.zeros((problem.n_states, problem.n_actions)), set()
    for given, chosen in rule.items():
        s = problem.state(_named(given), "rule: each key")
        said = chosen if isinstance(chosen, dict) else {chosen: 1.0}
        for action, chance in said.items():
            a = problem.action(_named(action), s, f"rule: in {problem.state_text(s)} it")
            made[s, a] += check.fraction(f"rule: the probability in {problem.state_text(s)}", chance)
        if abs(made[s].sum() - 1.0) > 1e-9:
            raise ValueError(f"rule: the probabilities in {problem.state_text(s)} must sum to 1, got {made[s].sum():g}")
        made[s] /= made[s].sum()
        told.add(s)
    lacking = [problem.state_text(s) for s in range(problem.n_states) if s not in told]
    if lacking:
        raise ValueError(f"rule must name an action for every state, none for {', '.join(lacking)}")
    return made


def _named(given: Any) -> Any:
    """Keys of a file are text; a number among them is a number."""
    return int(given) if isinstance(given, str) and given.isdigit() else given
