"""What each event of a journal does to a `Live`: the one meaning that the service, `Live(journal=...)`, `replay` and
`audit` share.

    kind        payload                                                         what is done
    begin       {"x": [floats] or {row}, "unavailable": as given}               begin(who, x, unavailable)
    decide      {"step", "state", "action", "by", "probability", "advice"}      act(who, state), or with action=
    outcome     {"step", "next_state", "reward"}                                observe(who, reward, next_state, step)
    correction  the same, or {"step", "reward"}                                 the same, or reward(who, step, reward)
    reward      {"step", "reward"}                                              reward(who, step, reward)
    end         {"wait": 0, n or null}                                          end(who, wait)
    close       {}                                                              close(who)
    withdraw    {"learn": bool}                                                 abandon(who, learn)

`by` says whose choice an action was: "agent", "caller" or "house"; the last two are somebody else's. A reward that is
null is not known. All other kinds change nothing. The order of the events alone decides what the agent knows: time
stands in the decisions and nothing is computed from it."""

import math
from collections.abc import Callable
from typing import Any

from ..journal.event import KEPT, Entry
from ..planning.plans import Plan
from .decision import Decision

Folded = Plan | Decision | None


class FoldError(RuntimeError):
    """An event that cannot be folded, or that the agent now comes to another action for: what is in memory is not what
    the journal says."""


class OtherAction(FoldError):
    """The agent now comes to another action than it did; decision: its own, now."""

    def __init__(self, sentence: str, decision: Decision) -> None:
        super().__init__(sentence)
        self.decision = decision


class ErasedError(FoldError):
    """An event whose person was erased: only a later snapshot leads past it."""


def fold(live: Any, event: Entry) -> Folded:
    """Do to `live` what the event says; the plan of a `begin`, the decision of a `decide`.

    Where a decision was the agent's own, the agent must come to the same action, or there is a FoldError (OtherAction;
    an action that is null in the payload is not compared: whoever asks for it first does not know it). A FoldError,
    too, where the event was refused, or was erased (ErasedError).

    >>> import noregret as nr
    >>> from noregret.journal.event import Entry
    >>> world = nr.worlds.clinic()
    >>> live, noon = nr.Live(nr.CertifiedPSRL(world.problem)), "2026-01-01T12:00:00+00:00"
    >>> plan = fold(live, Entry("begin", noon, 7, {"x": world.context(seed=0, episode=0).tolist()}))
    >>> chosen = {"step": 0, "state": "moderate", "action": 2, "by": "caller"}
    >>> fold(live, Entry("decide", noon, 7, chosen)).by_other
    True
    """
    done = _MEANING.get(event.kind)
    if done is None:
        if event.kind in KEPT:
            return None
        raise FoldError(f"{_named(event)} is of no kind that is known")
    if event.payload is None or event.who is None:
        if getattr(event, "erased", False):
            raise ErasedError(f"{_named(event)} was erased")
        raise FoldError(f"{_named(event)} lacks who it is about, or what it says")
    try:
        return done(live, event.who, event.payload, event)
    except FoldError:
        raise
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else error
        raise FoldError(f"{_named(event)} cannot be folded: {said}") from error


def beside(live: Any, event: Entry, own: bool) -> tuple[bool, Folded]:
    """(whether it was folded, the decision of a `decide`): `fold` of what is quickly done, while another thread is in a
    verb of `live` about other people (`Live.act_beside`). own: the agent is asked for the action.

    Events of open people, other than their begin and end, can change places with every event of others: what comes out
    is the same. Where it is False nothing was done, and the event must wait for its turn."""
    told, who = event.payload, event.who
    if event.kind not in _BESIDE:
        return event.kind in KEPT, None
    if told is None or who is None:
        return False, None
    try:
        if event.kind == "decide":
            made = live.act_beside(who, told["step"], told["state"], None if own else told["action"], event.time)
            return made is not None, made
        return live.tell_beside(who, known(told["reward"]), told.get("next_state"), told["step"]), None
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        raise FoldError(f"{_named(event)} cannot be folded: {error}") from error


_BESIDE = frozenset(("decide", "outcome", "correction", "reward"))


def _named(event: Entry) -> str:
    number = getattr(event, "number", None)
    return f"a new {event.kind}" if number is None else f"event {number} ({event.kind})"


def _begin(live: Any, who: Any, told: dict[str, Any], event: Entry) -> Plan:
    made: Plan = live.begin(who, told["x"], told.get("unavailable"))
    return made


def _decide(live: Any, who: Any, told: dict[str, Any], event: Entry) -> Decision:
    action, own = told["action"], told.get("by", "agent") == "agent"
    if told["step"] != (at := live.step_of(who)):
        raise FoldError(f"{_named(event)} is of step {told['step']}, they are at step {at}")
    made: Decision = live.act(who, told["state"], None if own else action, event.time)
    if action is not None and action != made.action:
        raise OtherAction(f"{_named(event)} was action {action}, the agent now comes to {made.action}", made)
    return made


def known(reward: Any) -> Any:
    """A reward as a verb takes it: null is one that is not known."""
    return math.nan if reward is None else reward


def _outcome(live: Any, who: Any, told: dict[str, Any], event: Entry) -> None:
    if told.get("next_state") is None:
        live.reward(who, told["step"], known(told["reward"]))
    else:
        live.observe(who, known(told["reward"]), told["next_state"], told["step"])


def _end(live: Any, who: Any, told: dict[str, Any], event: Entry) -> None:
    live.end(who, told.get("wait", 0))


def _close(live: Any, who: Any, told: dict[str, Any], event: Entry) -> None:
    live.close(who)


def _withdraw(live: Any, who: Any, told: dict[str, Any], event: Entry) -> None:
    live.abandon(who, told.get("learn", False))


_MEANING: dict[str, Callable[[Any, Any, dict[str, Any], Entry], Folded]] = {
    "begin": _begin, "decide": _decide, "outcome": _outcome, "correction": _outcome, "reward": _outcome, "end": _end,
    "close": _close, "withdraw": _withdraw,
}  # fmt: skip
