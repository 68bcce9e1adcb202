"""Actions that are not available to one person: contraindications, what is out of stock, what was refused."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from .layout import Layout
from .problem import Problem

Mask = NDArray[np.bool_]  # [S, A], True where an action may be taken


def allowed_actions(problem: Problem, unavailable: Any, name: str = "unavailable") -> Mask:
    """What is left to somebody, bool [S, A] of its own, True where an action may be taken.

    unavailable   None; an action, or several, by name or number, in all states; or a boolean array [S, A], True where
                  an action is not available to them

    >>> import noregret as nr
    >>> problem = nr.worlds.clinic().problem
    >>> allowed_actions(problem, ["drug A"])[2].tolist()  # moderate
    [True, False, True]
    """
    made, shape = problem.layout.available.copy(), (problem.n_states, problem.n_actions)
    if unavailable is None:
        return made
    given = unavailable if isinstance(unavailable, np.ndarray) else None
    if given is None and isinstance(unavailable, list | tuple) and any(np.ndim(row) for row in unavailable):
        given = check.anything(name, unavailable)
    if given is not None and given.dtype == np.bool_:
        if given.shape != shape:
            raise ValueError(f"{name} must be a boolean array of shape {shape}, got shape {given.shape}")
        made &= ~given
    else:
        listed = unavailable if isinstance(unavailable, list | tuple | set | frozenset | np.ndarray) else [unavailable]
        if given is not None and given.ndim != 1:
            raise ValueError(
                f"{name} must be actions by number or name, or a boolean array of shape {shape}, True where an action "
                f"is not available, got {given.dtype} of shape {given.shape}"
            )
        for one in listed:
            made[:, problem.action(one, name=f"{name}: it")] = False
    empty = np.flatnonzero(~made.any(1))
    if empty.size:
        raise ValueError(f"{name} must leave an action in every state, state {problem.state_text(empty[0])} has none")
    return made


def barred(problem: Problem, mask: Mask) -> list[list[int]] | None:
    """The pairs [state, action] that the mask takes away, for files; None where it takes nothing."""
    gone = problem.layout.available & ~mask
    made: list[list[int]] | None = np.argwhere(gone).tolist() if gone.any() else None
    return made


def from_barred(problem: Problem, pairs: Any) -> Mask:
    """The mask of `barred`; a ValueError where it is none."""
    if pairs is None:
        return problem.layout.available.copy()
    if not isinstance(pairs, list) or not pairs:
        raise ValueError("unavailable must be pairs of a state and an action")
    taken = np.zeros((problem.n_states, problem.n_actions), np.bool_)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or any(type(i) is not int for i in pair):
            raise ValueError("unavailable must be pairs of a state and an action")
        s, a = problem.state(pair[0]), problem.action(pair[1])
        taken[s, a] = True
    return allowed_actions(problem, taken)


def check_policy(problem: Problem, policy: Any, mask: Mask, name: str) -> None:
    """A sentence where a policy [H, S] takes an action that the mask bars."""
    wrong = np.argwhere(~mask[np.arange(problem.n_states)[None], policy])
    if wrong.size:
        h, s = (int(i) for i in wrong[0])
        raise ValueError(
            f"{name} takes an action that is not available to this person: {problem.action_text(policy[h, s])} in "
            f"state {problem.state_text(s)} at step {h}"
        )


def relaid(par: Any, available: Mask) -> Any:
    """Nested named tuples whose layouts all have that one array of what is available."""
    if not hasattr(par, "_fields"):
        return par
    if isinstance(par, Layout):
        return par._replace(available=available)
    return type(par)(*(relaid(getattr(par, field), available) for field in par._fields))
