"""A session as bytes, between two of its chunks: what it takes to go on elsewhere as if it had not stopped."""

import io
import json
import math
import zipfile
from typing import Any

import numpy as np

from ..agents.files import contents, revived
from ..worlds import World
from .engine import Session, session_kind

FORMAT = 1
_METER = ("total", "curve", "tally", "tallies")


def begun(
    agent: Any, world: World, seed: int, episodes: int, every: int, diagnostics: bool, epsilon: float | None
) -> Any:
    """A prepared session of a fresh agent; the arguments are those of `simulate`, for one seed."""
    threshold = math.inf if epsilon is None else epsilon
    watched = diagnostics or epsilon is not None
    made = session_kind(agent, True)(agent, world, seed, episodes, every, watched, threshold)
    made.prepare()
    return made


def snapshot(session: Session, seconds: float) -> bytes:
    """`seconds`: processor time so far, kept beside it."""
    header, arrays = contents(session.agent)
    head = {"session": FORMAT, "agent": header, "done": session.done, "seconds": seconds}
    arrays |= {f"meter.{name}": getattr(session.meter, name) for name in _METER}
    file = io.BytesIO()
    np.savez(file, header=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    return file.getvalue()


def resumed(
    data: bytes, world: World, seed: int, episodes: int, every: int, diagnostics: bool, epsilon: float | None
) -> tuple[Any, float]:
    """(session, processor seconds so far) from a `snapshot` of a session with the same arguments; ValueError where the
    bytes are not one."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        head = json.loads(bytes(arrays.pop("header")).decode())
        if head["session"] != FORMAT:
            raise ValueError("another format")
        agent = revived(head["agent"], arrays, world.problem)
        made = begun(agent, world, seed, episodes, every, diagnostics, epsilon)
        for name in _METER:
            target, kept = getattr(made.meter, name), arrays[f"meter.{name}"]
            if target.shape != kept.shape:
                raise ValueError(f"{name} has another shape")
            target[...] = kept
        made.done, seconds = int(head["done"]), float(head["seconds"])
        if not 0 <= made.done == agent.episode <= episodes:
            raise ValueError("the clocks disagree")
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"this is not a checkpoint of that run, or it is damaged: {error}") from None
    return made, seconds
