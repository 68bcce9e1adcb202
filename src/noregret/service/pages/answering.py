"""The process beside the service that answers long questions (`aside`): lines of JSON in, lines of JSON out.

It opens the journal itself, to read. A question has "ask" ("evidence", "person" or "audit"), the journal's "url" and
"programme", and what the answer needs; the URL comes by standard input, since others may see arguments of a process."""

import contextlib
import json
import os
import sys
import time
from types import SimpleNamespace
from typing import Any, TextIO

import numpy as np

from ...journal.event import Event
from ...journal.journal import Journal
from ...live.audit import audit
from ...live.fold import FoldError, fold
from ...live.several import Live
from ..shadow import contexts_of, report
from .evidence import found_in

DRAWS = 200  # of the posterior, for what is believed of the alternatives


def evidence(journal: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The agent of the newest snapshot, and the events up to now. house: [S, A]; shadow: as its file says."""
    live, at = restored(journal, int(journal.head))
    stop = int(journal.head)
    made = found_in(journal.events(stop=stop), live.agent, question["house"])
    if question.get("shadow"):
        made["today"].append(_sentence(_shadowed(journal, live, question["house"])))
    return {"number": stop, "agent": at} | made


def _shadowed(journal: Any, live: Live, house: Any) -> str:
    """`service.shadow`, by the agent of the newest snapshot."""
    rule: Any = SimpleNamespace(chances=np.array(house))
    agent = live.agent
    contexts = contexts_of(journal, lambda x: agent.problem.context(agent.encoded(x)))
    return str(report(lambda ask: ask(live), rule, contexts)["sentence"])


def _sentence(text: str) -> str:
    return f"Shadow mode: {text}."


def person(journal: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The plan of somebody whose `begin` is event number "begin", made again now, with why; and whether every decision
    comes out as it stands in the journal."""
    began = time.monotonic()
    number, who = int(question["begin"]), question["who"]
    live, start = restored(journal, number)
    folded = 0
    for event in journal.events(start=start, stop=number):
        fold(live, event)
        folded += 1
    own = [e for e in journal.of(who) if e.number >= number]
    later = next((i for i, e in enumerate(own) if i and e.kind == "begin"), len(own))
    own = own[:later]
    plan: Any = fold(live, own[0])
    made: dict[str, Any] = {
        "policy": plan.policy.tolist(), "certificate": plan.certificate, "start": start, "folded": folded,
        "referred": getattr(plan, "referred", None), "guarantee": live.guarantee,
    }  # fmt: skip
    for name in ("values", "lower", "upper"):
        array = getattr(plan, name)
        made[name] = None if array is None else array.tolist()
    made["steps"] = [_why(plan, live, e) for e in own if e.kind == "decide"]
    told = json.loads(own[0].answer or "{}")
    made["checks"] = [_compared(own[0], "certificate", told.get("certificate"), plan.certificate)]
    made["checks"] += _again(live, own)
    made["reproduced"] = all(c["same"] for c in made["checks"])
    return made | {"seconds": time.monotonic() - began}


def _why(plan: Any, live: Live, event: Event) -> dict[str, Any]:
    told = event.payload or {}
    step, state = int(told["step"]), live.agent.problem.state(told["state"])
    made: dict[str, Any] = {"step": step, "state": state, "advice": int(plan.policy[step, state]), "rows": []}
    try:
        why = plan.why(state, step, DRAWS)
    except (ValueError, RuntimeError) as error:
        return made | {"sentence": f"Alternatives cannot be compared: {error}."}
    made["rows"] = why.table()
    made["effects"] = [[e.feature, e.value, e.change] for e in why.effects]
    made["against"] = why.against
    return made | {"advantage": why.advantage, "draws": why.draws}


def _again(live: Live, own: list[Event]) -> list[dict[str, Any]]:
    """Their decisions folded again. Other people's events in between change what the agent knows, not this plan."""
    found = []
    for event in own[1:]:
        if event.kind in ("end", "withdraw", "close"):
            break
        told = event.payload or {}
        try:
            made: Any = fold(live, event)
        except FoldError as error:
            found.append({"number": event.number, "step": told.get("step"), "what": str(error), "same": False})
            break
        if event.kind == "decide":
            found.append(_compared(event, "action", told["action"], made.action))
            if told.get("by", "agent") == "agent" and told.get("probability") is not None:
                found.append(_compared(event, "probability", told["probability"], made.probability))
            if told.get("advice") is not None:
                found.append(_compared(event, "advice", told["advice"], made.advice))
    return found


def _compared(event: Event, what: str, recorded: Any, again: Any) -> dict[str, Any]:
    """One comparison. A certificate that nobody was told cannot differ."""
    same = recorded == again or (what == "certificate" and recorded is None)
    return {
        "number": event.number, "step": (event.payload or {}).get("step"), "what": what, "same": same,
        "recorded": recorded, "again": again,
    }  # fmt: skip


def restored(journal: Any, number: int) -> tuple[Live, int]:
    """(agent with its people, events folded) of the newest good snapshot up to event `number`."""
    why = "there is none"
    for kept in journal.snapshots():
        if kept.number <= number:
            try:
                return Live.from_bytes(journal.snapshot(kept.number)), int(kept.number)
            except ValueError as error:
                why = str(error)
    raise ValueError(f"no snapshot up to event {number} can be read: {why}")


def audited(journal: Any, question: dict[str, Any]) -> dict[str, Any]:
    """One decision, for the API: `noregret.audit`."""
    return audit(journal, question["who"], int(question["step"])).to_dict()


ANSWERS = {"evidence": evidence, "person": person, "audit": audited}


def answered(question: dict[str, Any]) -> dict[str, Any]:
    """The answer, or {"error": a sentence}."""
    try:
        with Journal(question["url"], question["programme"], create=False) as journal:
            return ANSWERS[question["ask"]](journal, question)
    except Exception as error:  # a page says what it is, the process goes on
        return {"error": f"{error}" if isinstance(error, ValueError | RuntimeError | OSError) else repr(error)}


def serve(lines: Any, out: TextIO) -> None:
    """Answer until there are no more questions."""
    for line in lines:
        with contextlib.redirect_stdout(sys.stderr):
            said = json.dumps(answered(json.loads(line)), allow_nan=True)
        out.write(said + "\n")
        out.flush()


if __name__ == "__main__":
    os.nice(19)
    serve(sys.stdin, sys.stdout)
