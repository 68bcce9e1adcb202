"""What a worker does, whatever engine it belongs to: run a cell for a while, and hand back bytes.

A worker reads and writes no files, so it may sit anywhere. A cell that is not done when its time is up comes back as a
checkpoint, and goes on from there in whichever worker gets it next.
"""

import datetime
import os
import platform
import time
import traceback
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..agents.composed.conservative import Conservative
from ..agents.composed.referral import Referral
from ..agents.files import own_classes
from ..simulation.catalogue import RULE
from ..simulation.checkpoint import begun, can_be_kept, resumed, snapshot
from ..simulation.engine import Setup
from ..simulation.run import Measured, recorded_episodes
from ..storage.version import __version__
from .cell import Cell
from .cell_file import Finished, encode
from .closing import closing


@dataclass(frozen=True)
class Task:
    """A cell, the checkpoint to go on from (or None), and for how many seconds at most to work on it before handing it
    back (it is looked at after every chunk of episodes)."""

    cell: Cell
    checkpoint: bytes | None = None
    patience: float = 30.0


@dataclass(frozen=True)
class Answer:
    """One of: result (a cell's file), checkpoint, failure (a traceback). episodes: run in this task; version: of the
    library that ran them; note: a line for people, or empty."""

    id: str
    episodes: int = 0
    done: int = 0
    result: bytes | None = None
    checkpoint: bytes | None = None
    failure: str | None = None
    version: str = ""
    note: str = ""


def work(task: Task) -> Answer:
    """Never raises for what the cell does wrong."""
    try:
        answer = _advanced(task)
    except Exception:
        answer = Answer(task.cell.id, failure=traceback.format_exc())
    return replace(answer, version=__version__)


def _advanced(task: Task) -> Answer:
    cell, start = task.cell, time.monotonic()
    world = cell.make_world()
    setup = Setup(world, cell.seed, cell.episodes, cell.every, cell.diagnostics, cell.epsilon)
    session, seconds, note, refused = None, 0.0, "", False
    if task.checkpoint is not None:
        own = own_classes(cell.make_agent(world)) if cell.has_own_agent else {}
        try:
            session, seconds = resumed(task.checkpoint, cell.run, setup, own)
        except ValueError as error:
            note, refused = f"{cell.id} is begun anew: {error}", bool(own)
    if session is None:
        session = begun(cell.make_agent(world), setup)
    first, kept = session.done, can_be_kept(session.agent) and not refused  # what cannot be read back is not kept again
    while session.done < cell.episodes:
        before = time.thread_time()
        session.advance()
        seconds += time.thread_time() - before
        if session.done < cell.episodes and time.monotonic() - start > task.patience:
            if kept:
                made = snapshot(session, cell.run, seconds)
                return Answer(cell.id, session.done - first, session.done, checkpoint=made, note=note)
            note = note or f"{cell.id} is run in one piece: its agent is your own, and no checkpoint can be made of it"
    result = encode(_finished(cell, session, world, seconds))
    return Answer(cell.id, session.done - first, session.done, result=result, note=note)


def _finished(cell: Cell, session: Any, world: Any, seconds: float) -> Finished:
    agent, points = session.agent, recorded_episodes(cell.episodes, cell.every)
    world.name = cell.setting()
    made = Measured((cell.seed,), points, session.diagnostics)
    made.take(0, session, seconds)
    run = made.run(agent, world, cell.epsilon is not None)
    columns = {"episode": points, "regret": run.regret[0]}
    columns |= {k: v[0] for k, v in run.diagnostics.items()}
    columns |= {f"bound_from_{k}": v[0] for k, v in run.bounds.items()}
    if isinstance(agent, Referral):
        kept = np.where(agent.referred, 0.0, agent.gaps)
        columns |= {"referred": agent.referred.cumsum()[points - 1], "kept_certificate": kept.cumsum()[points - 1]}
    if isinstance(agent, Conservative):
        columns |= {"referred": agent.held.cumsum()[points - 1]}
    p, options = world.problem, getattr(agent, "options", {})
    inner = getattr(getattr(agent, "agent", agent), "options", {})
    facts = {
        "label": run.label,
        "agent": run.agent,
        "group": run.group,
        "guarantee": run.guarantee,
        "world": run.world,
        "problem": {
            "S": p.n_states, "A": p.n_actions, "H": p.horizon, "d": p.context_dim, "link": p.link.name,
            "weight_bound": p.weight_bound, "context_bound": p.context_bound, "reward_bound": p.reward_bound,
        } | ({} if p.scale.plain else {"reward_range": p.reward_range}),
        "delta": options.get("delta", inner.get("delta")),
        "seconds": round(seconds, 6),
        "version": __version__,
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip
    if cell.closing and world.rule is not None and cell.agent != RULE:
        facts["closing"] = closing(cell.make_agent(world), world, cell.episodes, cell.seed)
    return Finished(cell, facts, columns)


def machine() -> str:
    """What kind of machine this is, in words."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} cores, Python {platform.python_version()}"
