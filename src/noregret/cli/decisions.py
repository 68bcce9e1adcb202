"""`noregret report-decisions`: what was decided, for those who answer for it."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..agents.files import load
from ..evidence.evaluate import evaluate
from ..evidence.model_check import check_model
from ..live.decision_files import read_decisions
from ..live.groups import groups_of, split
from ..live.log import read_log
from ..problem.problem import Problem
from ..report.board import EVERYBODY, FEW, write_board
from ..report.board_evidence import gain_section, gain_sentence, model_alerts, model_section
from ..simulation.gain import gains_today
from ..storage.tables import columns
from .options import policy_of
from .screen import Command, writable


def decisions(
    file: Annotated[Path, typer.Argument(help="decisions, as write_decisions wrote them", show_default=False)],
    *,
    agent: Annotated[Path | None, typer.Option(help="the agent's file: names, guarantee, protocol")] = None,
    log: Annotated[
        Path | None, typer.Option(help="the log with outcomes and probabilities, as read_log takes it; needs --agent")
    ] = None,
    arrival: Annotated[str | None, typer.Option(help="of the log: a column, key or row, as read_log takes it")] = None,
    rule: Annotated[
        str | None,
        typer.Option(help="what was done before: state=action,state=action,... by name or number; needs --log"),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="subgroups: a column, or COLUMN=CUT,CUT; may be given again")
    ] = None,
    title: Annotated[str, typer.Option(help="of the page")] = "Decisions",
    delta: Annotated[float, typer.Option(help="how often each interval may be wrong")] = 0.05,
    out: Annotated[Path, typer.Option(help="folder for decisions.html and figures/")] = Path("results/decisions"),
) -> None:
    """One page about what was decided: who came, what was done, how sure, gain over the rule, alarms, protocol.

    Example: noregret report-decisions decisions.parquet --agent agent.npz --log log.csv --rule ill=drug,well=wait"""
    command = Command()
    made = read_decisions(file)
    player = None if agent is None else load(agent)
    groups = list(by or [])
    if log is not None and player is None:
        raise ValueError("log needs agent: its file says what the columns of the log mean")
    if rule is not None and log is None:
        raise ValueError("rule needs log: without outcomes nothing can be compared with it")
    writable(out)
    sections: list[Any] = []
    alerts: list[str] = []
    summary: list[str] = []
    if log is not None and player is not None:
        p, table = player.problem, columns(str(log), "log")
        seen = read_log(table, p, player.encoder, arrival)
        if rule is not None:
            found = evaluate(
                policy_of(rule, p), seen, against="log", subgroups=_subgroups(groups, table, seen, p), delta=delta
            )
            sections.append(gain_section(found, gains_today(player, policy_of(rule, p), seen, delta)))
            summary.append(gain_sentence(found))
        checked = check_model(seen, delta)
        sections.append(model_section(checked))
        alerts += model_alerts(checked)
    typed = shlex.join(["noregret", *sys.argv[1:]])
    page = write_board(
        made, out, by=groups, agent=player, sections=sections, alerts=alerts, summary=summary, title=title,
        command=typed,
    )  # fmt: skip
    command.close(page=page)


def _subgroups(by: list[str], table: dict[str, list[Any]], log: Any, problem: Problem) -> dict[str, Any]:
    """Groups of the log's people, by columns of its table or by features of their contexts."""
    X = np.array([e.context for e in log])
    made: dict[str, Any] = {}
    names = list(problem.feature_names or [f"x{j}" for j in range(problem.context_dim)])
    for text in by:
        column, _ = split(text)
        if column in table:
            first: dict[Any, Any] = {}
            for key, value in zip(table["episode"], table[column], strict=True):
                first.setdefault(key, value)
            values = [first[e.key] for e in log]
        elif column in names:
            values = list(X[:, names.index(column)])
        else:
            raise ValueError(f"by must be a column of the log or a feature of the contexts, got {column!r}")
        made |= {name: who for name, who in groups_of(text, values).items() if who.sum() >= FEW and name != EVERYBODY}
    return made
