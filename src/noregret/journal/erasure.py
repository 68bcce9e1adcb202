"""Erasing one person: what they said and were told goes, the chain stays."""

from collections.abc import Sequence

from .. import checks as check
from .event import Event, Who

_OPENS, _ENDS = ("begin",), ("end", "withdraw")


def check_erasable(who: Who, events: Sequence[Event], folded: Sequence[int], learned: int | None) -> tuple[int, int]:
    """(first, past): snapshots of more than `first` events and of fewer than `past` may have the person in them.

    events   the person's own; folded: the numbers of the snapshots that there are. A sentence where nobody of that name
    came, where they are open, or where no snapshot would be left from which the fold can go on"""
    if not events:
        raise ValueError(f"who must be somebody in the journal, there is no event of {check.shown(who)}")
    last = [e.kind for e in events if e.kind in _OPENS + _ENDS]
    if last and last[-1] in _OPENS:
        raise ValueError(f"who must not be open, {check.shown(who)} has not ended: withdraw them first")
    first, past = events[0].number, events[-1].number + 1
    past = max(past, past if learned is None else check.integer("learned", learned, 0))
    if folded and max(folded) < past:
        raise ValueError(
            f"there must be a snapshot after {check.shown(who)} was learned: of {past} events or more, the last one is "
            f"of {max(folded)}. Without it nothing could be folded any more"
        )
    return first, past
