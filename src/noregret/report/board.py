"""What was decided, for those who answer for it: `noregret report-decisions`.

One page made from recorded decisions, the agent and, where it is given, the log of outcomes: who came and what was
done, by subgroup; certificates and belief; who was referred; the gain over the rule, by rungs; alarms; the protocol.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..live.decision import Decision
from ..live.groups import column_of, groups_of, split
from ..planning.plans import ALL
from .blocks import Row, Section, Shown, Table, Text
from .drawing import COLOURS, MUTED, Curve, Drawing, Look
from .rendering import render
from .texts import NONE, counted

PAGE, FIGURES, FIGURE = "decisions.html", "figures", "decisions"
EVERYBODY = "everybody"
FEW = 5  # people: a group with fewer is not shown, for their privacy
NO_WORDS: frozenset[str] = frozenset()  # actions may have any names
WINDOW = 40  # points of a running median


@dataclass(frozen=True)
class Person:
    """One of them: the decisions in order, of which the first says who they are."""

    decisions: tuple[Decision, ...]

    @property
    def first(self) -> Decision:
        return self.decisions[0]


def people_in(decisions: Sequence[Decision]) -> list[Person]:
    """By individual, in the order of their numbers; each decision once, the last record of a step counts."""
    found: dict[tuple[int, str], dict[int, Decision]] = {}
    for d in decisions:
        found.setdefault((d.episode, str(d.who)), {})[d.step] = d
    return [Person(tuple(steps[h] for h in sorted(steps))) for _, steps in sorted(found.items())]


def groups_by(people: Sequence[Person], by: Sequence[str], names: Sequence[str] | None) -> dict[str, NDArray[np.bool_]]:
    """Everybody, and then the groups of each `by` (`live.groups`)."""
    X = np.array([p.first.context for p in people])
    rows = [p.first.row for p in people]
    known = dict(zip(names or [f"x{j}" for j in range(X.shape[1])], X.T, strict=True))
    made = {EVERYBODY: np.ones(len(people), bool)}
    for text in by:
        column, _ = split(text)
        values = column_of(column, rows, known)
        made |= groups_of(text, values)
    return made


def write_board(
    decisions: Sequence[Decision],
    out: Any,
    *,
    by: Sequence[str] = (),
    agent: Any = None,
    sections: Sequence[Section] = (),
    alerts: Sequence[str] = (),
    summary: Sequence[str] = (),
    title: str = "Decisions",
    command: str = "",
) -> Path:
    """Write decisions.html, and figures/ beside it, into the folder `out`; the page's path.

    decisions   as `Live.act` made them, or `read_decisions` read them
    by          subgroups: "sex" for a group per value, "age=40,60" to cut; columns of the rows that were kept
                (`Live(rows=True)`), or features of the contexts
    agent       the agent that decided, for its problem's names, its guarantee and its protocol
    sections    more parts, before the protocol; alerts, summary: more sentences

    Groups of fewer than five people are left out, so that the page says nothing about single people.

    >>> import tempfile
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.CertifiedPSRL(world.problem)
    >>> live = nr.Live(agent)
    >>> made = []
    >>> for k in range(6):
    ...     patient = world.individual(k)
    ...     plan = live.begin(k, patient.context)
    ...     made.append(live.act(k, patient.state))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = nr.report.write_board(made, folder, agent=agent)
    ...     page.name, "6 people" in page.read_text()
    ('decisions.html', True)
    """
    found = people_in([_decision(d) for d in decisions])
    if not found:
        raise ValueError("decisions must hold at least one decision")
    problem = None if agent is None else agent.problem
    groups = groups_by(found, by, None if problem is None else problem.feature_names)
    shown = {name: who for name, who in groups.items() if who.sum() >= FEW or name == EVERYBODY}
    folder = Path(out)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    most = None if problem is None else problem.horizon * problem.scale.unit
    parts = [
        Section("people", "Who came", [_who(found, shown, len(groups) - len(shown))]),
        Section("actions", "What was done", [_by_state(found), _by_group(found, shown)]),
        Section("sure", "How sure", _sure(found, shown, most, folder)),
        *sections,
        Section("protocol", "Protocol", _protocol(found, agent)),
    ]
    return render(
        folder / PAGE, title=title, description=_lead(found), summary=[*_summary(found, most), *summary],
        facts=_facts(found), command=command, sections=[s for s in parts if s.blocks],
        alerts=[*_alerts(found), *alerts], alarm="Attention.", brand="noregret report-decisions",
    )  # fmt: skip


def _decision(value: Any) -> Decision:
    if not isinstance(value, Decision):
        raise ValueError(f"decisions must be noregret.Decision, got {check.shown(value)}")
    return value


# First sentences --------------------------------------------------------------------------------------------------
def _lead(people: Sequence[Person]) -> str:
    times = sorted(d.time for p in people for d in p.decisions if d.time)
    when = f", from {times[0][:10]} to {times[-1][:10]}" if times else ""
    return f"{counted(len(people), 'person', 'people')}, {sum(len(p.decisions) for p in people):,} decisions{when}."


def _summary(people: Sequence[Person], most: float | None) -> list[str]:
    steps = [d for p in people for d in p.decisions]
    others, referred = sum(d.by_other for d in steps), [p.first.referred for p in people]
    made = [f"Somebody else than the agent chose {others:,} of {len(steps):,} actions ({others / len(steps):.0%})."]
    if any(r is not None for r in referred):
        handed = sum(bool(r) for r in referred)
        made.append(f"{handed:,} of {len(people):,} people were referred to the expert ({handed / len(people):.0%}).")
    certificates = _certificates(people)
    known = certificates[np.isfinite(certificates)]
    if known.size:
        said = f"Certificates: half of the plans are at most {np.median(known):.3g} short of optimal"
        if most is not None:
            said += f", of at most {most:g} that there is; {(known > ALL * most).mean():.0%} say nothing yet"
        made.append(f"{said}.")
    exact = [d for d in steps if d.probability is not None and d.error == 0.0]
    if exact:
        made.append(f"The exact probability of the action is on record for {len(exact) / len(steps):.0%} of them.")
    return made


def _alerts(people: Sequence[Person]) -> list[str]:
    said = dict.fromkeys(d.refuted for p in people for d in p.decisions if d.refuted)
    return [f"An assumption was refuted: {sentence}." for sentence in said]


def _facts(people: Sequence[Person]) -> list[tuple[str, str]]:
    steps = [d for p in people for d in p.decisions]
    names, versions = dict.fromkeys(d.agent for d in steps), dict.fromkeys(d.version for d in steps)
    return [
        ("people", f"{len(people):,}"), ("decisions", f"{len(steps):,}"), ("agent", ", ".join(names)),
        ("version", ", ".join(f"noregret {v}" for v in versions)),
    ]  # fmt: skip


# Tables -------------------------------------------------------------------------------------------------------------
def _who(people: Sequence[Person], groups: Mapping[str, NDArray[np.bool_]], hidden: int) -> Table:
    rows = [
        Row({"group": name, "people": f"{who.sum():,}", "share": f"{who.mean():.0%}", "decisions": _steps(people, who)})
        for name, who in groups.items()
    ]
    notes = [f"{counted(hidden, 'group')} of fewer than {FEW} people not shown."] if hidden else []
    return Table("People by group", rows, notes, NO_WORDS)


def _steps(people: Sequence[Person], who: NDArray[np.bool_]) -> str:
    return f"{sum(len(p.decisions) for p, w in zip(people, who, strict=True) if w):,}"


def _action(d: Decision) -> str:
    return d.action_name if d.action_name is not None else f"action {d.action}"


def _state(d: Decision) -> str:
    return d.state_name if d.state_name is not None else f"state {d.state}"


def _order(people: Sequence[Person], number: Callable[[Decision], int], name: Callable[[Decision], str]) -> list[str]:
    found = {(number(d), name(d)) for p in people for d in p.decisions}
    return [text for _, text in sorted(found)]


def _shares(steps: Sequence[Decision], actions: Sequence[str]) -> dict[str, str]:
    n = len(steps)
    counts = {a: sum(_action(d) == a for d in steps) for a in actions}
    return {a: f"{c / n:.0%}" if n else NONE for a, c in counts.items()}


def _by_state(people: Sequence[Person]) -> Table:
    actions = _order(people, lambda d: d.action, _action)
    rows = []
    for state in _order(people, lambda d: d.state, _state):
        steps = [d for p in people for d in p.decisions if _state(d) == state]
        rows.append(Row({"state": state, "decisions": f"{len(steps):,}", **_shares(steps, actions)}))
    return Table("What was done in each state", rows, words=NO_WORDS)


def _by_group(people: Sequence[Person], groups: Mapping[str, NDArray[np.bool_]]) -> Table:
    actions, rows = _order(people, lambda d: d.action, _action), []
    for name, who in groups.items():
        chosen = [p for p, w in zip(people, who, strict=True) if w]
        steps = [d for p in chosen for d in p.decisions]
        referred = [p.first.referred for p in chosen]
        handed = f"{np.mean([bool(r) for r in referred]):.0%}" if any(r is not None for r in referred) else NONE
        by_other = f"{np.mean([d.by_other for d in steps]):.0%}" if steps else NONE
        rows.append(Row({"group": name, **_shares(steps, actions), "by others": by_other, "referred": handed}))
    return Table("What was done in each group", rows, ["By others: somebody else than the agent chose."], NO_WORDS)


# Certificates -------------------------------------------------------------------------------------------------------
def _certificates(people: Sequence[Person]) -> Floats:
    """[n], nan where there is none: without a certificate, or planned by the expert."""
    return np.array([np.nan if p.first.certificate is None else p.first.certificate for p in people])


def _sure(people: Sequence[Person], groups: Mapping[str, Any], most: float | None, folder: Path) -> list[Any]:
    values, rows = _certificates(people), []
    believed = _believed(people, groups)
    if not np.isfinite(values).any():
        return [Text("No plan had a certificate.", "note"), *believed]
    for name, who in groups.items():
        known = values[who & np.isfinite(values)]
        entries = {"group": name, "with certificate": f"{known.size:,}"}
        if known.size:
            entries |= {
                "median": f"{np.median(known):.3g}",
                "90% are at most": f"{np.quantile(known, 0.9):.3g}",
                "say nothing": NONE if most is None else f"{(known > ALL * most).mean():.0%}",
            }
        else:
            entries |= dict.fromkeys(("median", "90% are at most", "say nothing"), NONE)
        rows.append(Row(entries))
    note = "A certificate bounds how far the plan falls short of optimal, with the agent's probability (protocol)."
    picture = _figure(people, values).save(folder / FIGURES, FIGURE)
    shown = Shown(picture, "One point a person, in the order they came; the line is a running median.", ())
    return [Table("Certificates", rows, [note], NO_WORDS), *believed, shown]


def _believed(people: Sequence[Person], groups: Mapping[str, Any]) -> list[Table]:
    """What the posterior said of the plans, where it was asked."""
    known = np.array([p.first.belief is not None and p.first.belief_quantile is not None for p in people])
    if not known.any():
        return []
    mean, high = (np.array([getattr(p.first, name) or 0.0 for p in people]) for name in ("belief", "belief_quantile"))
    rows = []
    for name, who in groups.items():
        some = who & known
        rows.append(Row({
            "group": name, "asked": f"{some.sum():,}", "mean": f"{mean[some].mean():.3g}" if some.any() else NONE,
            "median of 95% quantiles": f"{np.median(high[some]):.3g}" if some.any() else NONE,
        }))  # fmt: skip
    note = "How far plans fall short of optimal by models drawn from the posterior: believed, not proved."
    return [Table("Belief", rows, [note], NO_WORDS)]


def _figure(people: Sequence[Person], certificates: Floats) -> Drawing:
    handed = np.array([np.nan if p.first.referred is None else float(p.first.referred) for p in people])
    panels = 2 if np.isfinite(handed).any() else 1
    made = Drawing(panels, panels, "", panel=(5.0, 3.0))
    order = np.arange(1, len(people) + 1)
    known = np.isfinite(certificates)
    axes = made.axes[0]
    made.head(axes, "certificate", "person")
    axes.plot(order[known], certificates[known], linestyle="", marker=".", markersize=2.5, color=MUTED, alpha=0.5)
    made.curve(axes, "running median", Curve(*_running(order[known], certificates[known], np.median)), Look(COLOURS[0]))
    axes.set_ylim(0.0, None)
    if panels == 2:
        made.head(made.axes[1], "share referred, recently", "person")
        met = np.isfinite(handed)
        curve = Curve(*_running(order[met], handed[met], np.mean))
        made.curve(made.axes[1], "referred", curve, Look(COLOURS[1]))
        made.axes[1].set_ylim(-0.02, 1.02)
    for axes in made.axes:
        made.linear(axes)
    return made


def _running(x: Any, y: Floats, over: Any) -> tuple[Any, Any]:
    """The median, or mean, over windows of a tenth of the people, at most WINDOW of them."""
    size = max(len(x) // 10, 1)
    ends = np.unique(np.linspace(size, len(x), min(WINDOW, len(x) - size + 1)).round().astype(int))
    return x[ends - 1], np.array([over(y[e - size : e]) for e in ends])


# Protocol -------------------------------------------------------------------------------------------------------------
def _protocol(people: Sequence[Person], agent: Any) -> list[Any]:
    steps = [d for p in people for d in p.decisions]
    made: list[Any] = []
    if agent is not None:
        said = agent.guarantee
        made.append(Text(f"Guarantee: {said}." if said else "Nothing is guaranteed of this agent."))
    kinds: dict[str, list[Decision]] = {}
    for d in steps:
        kinds.setdefault(json.dumps([d.agent, d.seed, d.options], sort_keys=True), []).append(d)
    for some in kinds.values():
        d = some[0]
        rows = [Row({"option": k, "value": v}) for k, v in [("seed", str(d.seed)), *_plain(d.options).items()]]
        about = f"Who decided: {d.agent}, {counted(len(some), 'decision')}"
        made.append(Table(about, rows, words={"value"}))
    if agent is not None:
        made.append(
            Table("What was assumed", [Row({"assumption": k, "value": v}) for k, v in _assumed(agent)], words={"value"})
        )
    audited = sum(bool(d.fingerprint) for d in steps)
    made.append(
        Text(f"{audited / len(steps):.0%} of the decisions carry the agent's fingerprint, and can be replayed.", "note")
    )
    return made


def _plain(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Options as one table; those of parts under their names."""
    made: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, Mapping) and "options" in value:
            made[f"{prefix}{name}"] = f"{value.get('agent')}"
            made |= _plain(value["options"], f"{prefix}{name}.")
        else:
            made[f"{prefix}{name}"] = f"{value:g}" if isinstance(value, float) else str(value)
    return made


def _assumed(agent: Any) -> list[tuple[str, str]]:
    p, (low, high) = agent.problem, agent.problem.reward_range
    return [
        ("states, actions, steps", f"{p.n_states}, {p.n_actions}, {p.horizon}"), ("features", f"{p.context_dim}"),
        ("link", p.link.name), ("context_bound", f"{p.context_bound:g}"), ("weight_bound", f"{p.weight_bound:g}"),
        ("reward_bound", f"{p.reward_bound:g}"), ("rewards", f"{p.rewards}, from {low:g} to {high:g}"),
        ("weights", p.describe().replace("\n", "; ")),
    ]  # fmt: skip
