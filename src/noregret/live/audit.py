"""`audit`: one decision of any past week, made again from the journal: what was known, the draw, the plan, bounds."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks as check
from ..agents.contents import fingerprint
from ..journal.event import Event
from ..planning.explained import Explanation
from ..planning.plans import Plan
from ..problem.links import Link
from .decision import Decision
from .fold import FoldError, OtherAction, fold
from .journaled import latest
from .people import Who, key_of
from .replay import compared
from .several import Live


@dataclass(frozen=True, eq=False)
class Audit:
    """One decision, made again; `print` it.

    begun, decided  the two events as they were written
    decision        as it is made now; plan: of which it is a part, made at `begin`
    why             every action in that state with its value and bounds (`Plan.why`); None where there is none, and
                    unexplained says why not
    known           what the agent was before the plan was made: {"label", "guarantee", "fingerprint", "begun"}, the
                    last: how many people had begun
    draw            what keys the random numbers: {"seed", "episode"}, and of a lottery {"plans", "floor"}
    checks          (number of the event, what, as recorded, as it is now)
    start, folded   the snapshot that it began with, and how many events were folded from there; seconds: it took"""

    begun: Event
    decided: Event
    decision: Decision
    plan: Plan
    why: Explanation | None
    unexplained: str | None
    known: dict[str, Any]
    draw: dict[str, Any]
    checks: tuple[tuple[int, str, Any, Any], ...]
    start: int
    folded: int
    seconds: float

    @property
    def reproduced(self) -> bool:
        """Whether everything came out again, to the last bit."""
        return all(recorded == again for _, _, recorded, again in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        p = self.plan
        arrays = {"policy": p.policy, "values": p.values, "lower": p.lower, "upper": p.upper}
        plan = {name: None if a is None else a.tolist() for name, a in arrays.items()}
        names = ("number", "what", "recorded", "again")
        return {
            "who": self.decision.who, "step": self.decision.step, "number": self.decided.number,
            "time": self.decided.time, "by": self._by, "decision": self.decision.to_dict(),
            "plan": plan | {"certificate": p.certificate}, "known": self.known, "draw": self.draw,
            "why": self._why(), "unexplained": self.unexplained, "guarantee": self.known["guarantee"],
            "checks": [dict(zip(names, c, strict=True)) | {"same": c[2] == c[3]} for c in self.checks],
            "reproduced": self.reproduced, "start": self.start, "folded": self.folded, "seconds": self.seconds,
        }  # fmt: skip

    def _why(self) -> dict[str, Any] | None:
        if self.why is None:
            return None
        made: dict[str, Any] = {"action": self.why.action, "against": self.why.against, "draws": self.why.draws}
        for name in ("value", "deviation", "best", "lower", "upper"):
            array = getattr(self.why, name)
            made[name] = None if array is None else [None if np.isnan(v) else float(v) for v in array]
        return made

    @property
    def _by(self) -> str:
        return str((self.decided.payload or {}).get("by", "agent"))

    def __str__(self) -> str:
        d, known = self.decision, self.known
        head = f"event {self.decided.number:,}, {self.decided.time}, decided by the {self._by}"
        draws = ", ".join(f"{name} {value}" for name, value in self.draw.items())
        said = [
            str(d), head, "", f"the agent: {known['label']}, {known['begun']:,} people had begun before",
            f"fingerprint {known['fingerprint']}", f"random numbers: {draws}",
            f"context: {', '.join(f'{v:.4g}' for v in d.context)}", "", str(self.plan), "",
        ]  # fmt: skip
        said.append(str(self.why) if self.why is not None else f"no explanation: {self.unexplained}")
        said += ["", f"{self.folded:,} events folded again from snapshot {self.start:,}, in {self.seconds:.1f} s"]
        said += [f"event {n:,}: {what} was {old}, and is now {new}" for n, what, old, new in self.checks if old != new]
        said.append("reproduced, to the last bit" if self.reproduced else "NOT reproduced")
        return "\n".join(said)


def _events_of(journal: Any, who: Who, step: int) -> tuple[Event, Event]:
    """(their begin, the last decision of that step after it)."""
    theirs = journal.of(who)
    if not theirs:
        raise ValueError(f"who must be somebody in the journal, there is no event of {check.shown(who)} (or not now)")
    chosen = [e for e in theirs if e.kind == "decide" and (e.payload or {}).get("step") == step]
    if not chosen:
        raise ValueError(f"step must be one that was decided for {check.shown(who)}, got {step}")
    return [e for e in theirs if e.kind == "begin" and e.number < chosen[-1].number][-1], chosen[-1]


def _explained(plan: Plan, state: Any, step: int) -> tuple[Explanation | None, str | None]:
    try:
        return plan.why(state, step), None
    except (ValueError, RuntimeError) as error:
        return None, str(error)


def audit(
    journal: Any, who: Who, step: int, *, link: Link | None = None, expert: Any = None, agent: Any = None
) -> Audit:
    """Make one decision again: from the last snapshot before the person came, event by event, to the decision.

    who, step   whose, and which of their steps; link, expert, agent   code that no snapshot holds, as for
    `noregret.load`. A FoldError where that stretch cannot be folded any more, because somebody in it was erased

    >>> import tempfile
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> with tempfile.TemporaryDirectory() as folder, nr.Journal(f"{folder}/clinic.db") as journal:
    ...     live = nr.Live(nr.CertifiedPSRL(world.problem), journal=journal)
    ...     plan = live.begin("Ms B", world.context(seed=0, episode=0))
    ...     decision = live.act("Ms B", "moderate")
    ...     found = nr.audit(journal, "Ms B", 0)
    >>> found.reproduced, found.decision == decision, found.plan.certificate == plan.certificate
    (True, True, True)
    """
    began_at, h = time.perf_counter(), check.integer("step", step, 0)
    begun, decided = _events_of(journal, key_of(who), h)

    def read(data: bytes, name: str) -> Live:
        return Live.from_bytes(data, link=link, expert=expert, agent=agent, name=name)

    live, start = latest(journal, read, begun.number)
    for event in journal.events(start, begun.number):
        fold(live, event)
    player = live.agent
    known = {
        "label": player.label, "guarantee": live.guarantee, "fingerprint": fingerprint(player), "begun": player.episode
    }  # fmt: skip
    draw: dict[str, Any] = {"seed": player.seed, "episode": player.episode}
    plan = fold(live, begun)
    assert isinstance(plan, Plan)
    if plan.plans is not None:
        draw |= {"plans": len(plan.plans), "floor": float(plan.floor)}
    why, unexplained = _explained(plan, (decided.payload or {})["state"], h)
    for event in journal.events(begun.number + 1, decided.number):
        fold(live, event)
    try:
        made = fold(live, decided)
    except OtherAction as other:
        made = other.decision
    if not isinstance(made, Decision):
        raise FoldError(f"event {decided.number} is no decision")
    checks = [(e.number, *one) for e, m in ((begun, plan), (decided, made)) for one in compared(e, m)]
    return Audit(
        begun, decided, made, plan, why, unexplained, known, draw, tuple(checks), start, decided.number + 1 - start,
        time.perf_counter() - began_at,
    )  # fmt: skip
