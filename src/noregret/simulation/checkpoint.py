"""A session as bytes, between two of its chunks: what it takes to go on elsewhere as if it had not stopped.

A checkpoint names the run it belongs to and the version of the library that made it. Another run's, or another
version's, is not continued: numbers are filed under the run that made them."""

import io
from typing import Any

from ..agents.base import Agent
from ..agents.composed.own import has_player
from ..agents.contents import contents
from ..agents.files import revived
from ..storage.archive import seal, unseal_bytes
from .engine import FusedSession, Session, Setup, session_kind

FORMAT = 2
_METER = ("total", "curve", "tally", "tallies")


def begun(agent: Any, setup: Setup) -> Any:
    """A prepared session of a fresh agent. Agents that are Python have no diagnostics."""
    kind = session_kind(agent, True)
    watched = kind is FusedSession and (setup.diagnostics or setup.epsilon is not None)
    made = kind(agent, setup._replace(diagnostics=watched))
    made.prepare()
    return made


def can_be_kept(agent: Any) -> bool:
    """Whether a session of this agent can be written down: not where part of it is an object of the user's own."""
    return isinstance(agent, Agent) and not has_player(agent)


def snapshot(session: Session, of: dict[str, Any], seconds: float) -> bytes:
    """`of`: which run this is, in plain values; `seconds`: processor time so far, kept beside it."""
    header, arrays = contents(session.agent)
    head = {"holds": "checkpoint", "session": FORMAT, "of": of, "seed": session.seed, "agent": header}
    head |= {"done": session.done, "seconds": seconds}
    arrays |= {f"meter.{name}": getattr(session.meter, name) for name in _METER}
    file = io.BytesIO()
    seal(file, head, arrays)
    return file.getvalue()


def episodes_done(data: bytes, of: dict[str, Any]) -> int:
    """Episodes that a checkpoint of the run `of` has behind it; 0 where it is damaged, or another's."""
    try:
        return int(_opened(data, of)[0]["done"])
    except (ValueError, KeyError, TypeError):
        return 0


def _opened(data: bytes, of: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    from ..storage.version import __version__

    head, arrays = unseal_bytes(data, "the checkpoint")
    if head.get("holds") != "checkpoint" or head.get("session") != FORMAT:
        raise ValueError("it is no checkpoint of a run")
    if head.get("version") != __version__:
        raise ValueError(f"it was made by noregret {head.get('version')}, this is {__version__}")
    if head.get("of") != of:
        raise ValueError("it is another run's")
    return head, arrays


def resumed(
    data: bytes, of: dict[str, Any], setup: Setup, own: dict[str, type[Agent]] | None = None
) -> tuple[Any, float]:
    """(session, processor seconds so far) from a `snapshot` of the run `of`, a session with the same setup; ValueError
    where the bytes are not one. own: classes of the user's own, as for `revived`."""
    try:
        head, arrays = _opened(data, of)
        agent = revived(head["agent"], arrays, setup.world.problem, own=own)
        if not head["seed"] == agent.seed == setup.seed:
            raise ValueError("it has another seed")
        made = begun(agent, setup)
        for name in _METER:
            target, kept = getattr(made.meter, name), arrays[f"meter.{name}"]
            if target.shape != kept.shape:
                raise ValueError(f"{name} has another shape")
            target[...] = kept
        made.done, seconds = int(head["done"]), float(head["seconds"])
        if not 0 <= made.done == agent.episode <= setup.episodes:
            raise ValueError("the clocks disagree")
    except Exception as error:  # whatever agents and worlds say of contents that are not theirs
        raise ValueError(f"this is not a checkpoint of that run, or it is damaged: {error}") from None
    return made, seconds
