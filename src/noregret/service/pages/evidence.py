"""What a journal says about the agent against the house rule, and about the model: a log of everybody who ended, for
`evaluate` and `check_model`. Runs in the process beside the service (`answering`)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ...checks import Floats
from ...evidence.evaluate import evaluate
from ...evidence.evaluation import EVERYONE
from ...evidence.model_check import check_model
from ...journal.event import Event
from ...live.fold import known
from ...problem.log import Log, LoggedEpisode
from ...report.blocks import Section, Table, Text
from ...report.board import FEW
from ...report.board_evidence import gain_section, gain_sentence, model_alerts, model_section, today_table
from ...simulation.gain import gains_today
from .groups import parts_of

DELTA = 0.05  # how often each interval may be wrong
FEWEST = 20  # people who ended, before anything is asked
UNKNOWN = (
    "Whether what was done was better than the house rule cannot be told from outcomes: the probabilities of the "
    "agent's actions are not on record. The options plans and floor of an agent put exact ones there, and draws of "
    "[service] in the programme's file estimates."
)


class _Path:
    """Somebody's steps, as the events tell them."""

    def __init__(self, who: Any, told: dict[str, Any]) -> None:
        self.who, self.told = who, told
        self.decided: dict[int, tuple[Any, Any, float]] = {}
        self.came: dict[int, tuple[Any, float]] = {}

    def add(self, event: Event) -> None:
        told = event.payload or {}
        step = int(told.get("step", 0))
        if event.kind == "decide":
            self.decided[step] = told["state"], told["action"], known(told.get("probability"))
        elif told.get("next_state") is not None:
            self.came[step] = told["next_state"], known(told.get("reward"))
        elif step in self.came:
            self.came[step] = self.came[step][0], known(told.get("reward"))


def log_of(events: Iterable[Event], agent: Any) -> tuple[Log, list[Any]]:
    """(log, what each came with) of everybody who ended with at least one step, in the order of arrival. Whoever was
    erased, or withdrew and was not learned, is not in it."""
    open_to: dict[Any, _Path] = {}
    ended: list[_Path] = []
    order: list[_Path] = []
    for event in events:
        if event.erased or event.who is None or event.payload is None:
            continue
        if event.kind == "begin":
            order.append(_Path(event.who, event.payload))
            open_to[event.who] = order[-1]
        elif event.who in open_to and event.kind in ("decide", "outcome", "correction", "reward"):
            open_to[event.who].add(event)
        elif event.who in open_to and (
            event.kind == "end" or (event.kind == "withdraw" and event.payload.get("learn"))
        ):
            ended.append(open_to[event.who])  # late rewards may still come: the path stays where it is
        elif event.kind == "withdraw":
            open_to.pop(event.who, None)
    done = {id(path) for path in ended}
    kept = [(path, made) for path in order if id(path) in done and (made := _episode(path, agent)) is not None]
    return Log(agent.problem, tuple(made for _, made in kept)), [path.told.get("x") for path, _ in kept]


def _episode(path: _Path, agent: Any) -> LoggedEpisode | None:
    p, n = agent.problem, 0
    while n in path.decided and n in path.came:
        n += 1
    if n == 0:
        return None
    states = [p.state(path.decided[h][0]) for h in range(n)] + [p.state(path.came[n - 1][0])]
    barred = path.told.get("unavailable")
    return LoggedEpisode(
        path.who, p.context(agent.encoded(path.told["x"])), np.array(states, np.int64),
        np.array([p.action(path.decided[h][1]) for h in range(n)], np.int64),
        np.array([path.came[h][1] for h in range(n)], float), np.array([path.decided[h][2] for h in range(n)], float),
        None if barred is None else agent.mask_of(barred),
    )  # fmt: skip


def found_in(events: Iterable[Event], agent: Any, house: Any) -> dict[str, Any]:
    """{people, sentence, alerts, sections, level}: texts for a page. house [S, A]: the house rule's probabilities."""
    log, came = log_of(events, agent)
    made: dict[str, Any] = {"people": len(log), "sentence": "", "today": [], "alerts": [], "sections": []}
    made["level"] = None
    if len(log) < FEWEST:
        made["sentence"] = (
            f"{len(log):,} people have ended; the value against the house rule is asked for from {FEWEST} on."
        )
        return made
    if agent.refuted is not None:
        made["alerts"].append(f"An assumption was refuted: {agent.refuted}.")
    made["sections"].append(plain(_gain(log, came, agent, np.asarray(house, float), made)))
    try:
        checked = check_model(log, DELTA)
        made["sections"].append(plain(model_section(checked)))
        made["alerts"] += model_alerts(checked)
        made["level"] = checked.level
    except (ValueError, RuntimeError) as error:
        made["sections"].append(plain(Section("model", "Is the model right?", [Text(f"Cannot be told: {error}.")])))
    return made


def _gain(log: Log, came: list[Any], agent: Any, house: Floats, made: dict[str, Any]) -> Section:
    """Against the house rule: what was done, by the probabilities on record, and what the model would do now."""
    chances = np.tile(house, (agent.problem.horizon, 1, 1))
    try:
        today = gains_today(agent, chances.argmax(2), log, DELTA)
    except (ValueError, RuntimeError):
        today = []
    made["today"] = [_today(*row) for row in today]
    if sum(bool(np.isfinite(e.probabilities[0])) for e in log) < FEWEST:
        made["sentence"] = UNKNOWN
        return Section("gain", "", [Text(UNKNOWN), *([today_table(today)] if today else [])])
    try:
        found = evaluate(chances, log, against="log", subgroups=_subgroups(came, agent), delta=DELTA)
    except (ValueError, RuntimeError) as error:
        made["sentence"] = f"Whether what was done was better than the house rule cannot be told: {error}."
        return Section("gain", "", [Text(made["sentence"]), *([today_table(today)] if today else [])])
    made["sentence"] = gain_sentence(found)
    shown = tuple(row for row in found if row.people >= FEW or row.subgroup == EVERYONE)
    return gain_section(replace(found, rows=shown), today)


def _today(what: str, rung: str, gain: float, interval: tuple[float, float]) -> str:
    return (
        f"What the agent's model would do now, over the house rule: {gain:+.3g} per person, {rung} "
        f"{interval[0]:+.3g} to {interval[1]:+.3g}."
    )


def _subgroups(came: list[Any], agent: Any) -> dict[str, Any]:
    if came and all(isinstance(x, dict) for x in came):
        names = sorted({k for x in came for k in x})
        columns = {k: [x.get(k) for x in came] for k in names}
    else:
        names = list(agent.problem.feature_names or [f"x{j}" for j in range(agent.problem.context_dim)])
        columns = {k: [x[j] for x in came] for j, k in enumerate(names)}
    return parts_of(columns)


def plain(section: Section) -> dict[str, Any]:
    """A section of paragraphs and tables for JSON; `rebuilt` reads it."""
    blocks = []
    for block in section.blocks:
        if isinstance(block, Table):
            rows = [dict(row.entries) for row in block.rows]
            blocks.append({
                "caption": block.caption, "rows": rows, "notes": list(block.notes), "words": sorted(block.words)
            })  # fmt: skip
        elif isinstance(block, Text):
            blocks.append({"text": block.words, "kind": block.kind})
    return {"key": section.key, "title": section.title, "blocks": blocks}
