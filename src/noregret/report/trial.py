"""A trial plan as a figure and as a page: `noregret plan-trial`."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import Floats
from ..studies.closing import RUNGS
from ..studies.trial import LABEL, TrialPlan
from .blocks import Row, Section, Shown, Table, Text, Words
from .curves import extent, mean
from .drawing import COLOURS, INK, MUTED, Drawing, Look
from .rendering import render
from .texts import NONE, sentence

PAGE, FIGURES, FIGURE = "trial.html", "figures", "trial"
MOST = 120  # points of a curve
DASHED = (0, (5, 2))


def trial_figure(plan: TrialPlan) -> Drawing:
    """A trial plan as panels; `draw(path)` of what comes back writes an image.

    Left: the share of people whose plan is certified. Middle: regret per person so far. Right: the gain over the rule,
    where there is one. Lines are means over replications, bands reach from the lowest to the highest.

    >>> import tempfile
    >>> import noregret as nr
    >>> plan = nr.plan_trial("clinic", "lr-orl", people=200, threshold=5.0, replications=1)
    >>> figure = nr.report.trial_figure(plan)
    >>> len(figure.axes)  # the clinic has no rule
    2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     figure.draw(f"{folder}/trial.png")
    """
    panels = 2 if plan.gain is None else 3
    made = Drawing(panels, panels, f"{plan.about}", panel=(4.3, 3.2))
    at = _thinned(plan.people)
    x, own = plan.people[at], Look(COLOURS[0])
    share, lost = made.axes[:2]
    made.head(share, f"certified at {plan.threshold:g}, share of people", "people so far")
    made.curve(share, plan.agent, mean(x, plan.certified[:, at], extent), own)
    made.level(share, f"aim: {plan.share:.0%}", plan.share, Look(MUTED, DASHED))
    share.set_ylim(-0.02, 1.02)
    if math.isfinite(plan.expected):
        share.axvline(plan.expected, color=INK, linewidth=1.0, linestyle=(0, (1, 1.5)))
        share.annotate(
            f"{plan.expected:,.0f}",
            (plan.expected, 0.03),
            xytext=(-4, 0),
            textcoords="offset points",
            fontsize=8,
            ha="right",
        )
    made.head(lost, "regret per person so far", "people so far")
    per_person = plan.regret[:, at] / x
    made.curve(lost, plan.agent, mean(x, per_person, extent), own)
    if plan.rule_regret is not None and plan.gain is not None:
        rule = Look(COLOURS[1])
        made.curve(lost, "the rule", mean(x, plan.rule_regret[:, at] / x, extent), rule)
        made.head(made.axes[2], "mean gain over the rule so far", "people so far")
        made.curve(made.axes[2], plan.agent, mean(x, plan.gain[:, at], extent), own)
        made.axes[2].axhline(0.0, color=MUTED, linewidth=0.8)
        made.linear(made.axes[2], "y")
    lost.set_ylim(0.0, None)
    made.linear(lost, "y")
    for axes in made.axes:
        axes.set_xlim(x[0], x[-1])
        made.logarithmic(axes, "x")
    return made


def _thinned(people: Any) -> Any:
    first = max(int(np.searchsorted(people, 20)), 0)  # the first people say little
    first = first if first < len(people) - 1 else 0
    return np.unique(np.geomspace(first + 1, len(people), MOST).round().astype(int)) - 1


def write_trial(plan: TrialPlan, out: Any, command: str = "") -> Path:
    """Write trial.html, and figures/ beside it, into the folder `out`; the page's path.

    >>> import tempfile
    >>> import noregret as nr
    >>> plan = nr.plan_trial("clinic", "lr-orl", people=2_000, threshold=4.0, share=0.5, replications=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = nr.report.write_trial(plan, folder)
    ...     page.name, "expected, not proved" in page.read_text()
    ('trial.html', True)
    """
    folder = Path(out)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    picture = trial_figure(plan).save(folder / FIGURES, FIGURE)
    caption = "Means over replications; bands from the lowest to the highest. Certified: among the last fifth so far."
    sections = [
        Section("course", "As people come", [Shown(picture, caption, ()), _course(plan)]),
        Section("end", "Could one tell at the end?", _end(plan)),
        Section("meaning", "What the numbers are", [_words(plan)]),
    ]
    facts = [
        ("agent", plan.agent), ("worlds", ", ".join(plan.worlds)), ("people", f"{plan.people[-1]:,} a replication"),
        ("replications", str(len(plan.certified))), ("threshold", f"{plan.threshold:g}"), ("aim", f"{plan.share:.0%}"),
    ]  # fmt: skip
    return render(
        folder / PAGE, title="Trial plan", description=f"By simulation: {LABEL}.",
        summary=[sentence(s) for s in plan.sentences()],
        facts=facts, command=command, sections=[s for s in sections if s.blocks], brand="noregret plan-trial",
    )  # fmt: skip


def _course(plan: TrialPlan) -> Table:
    return Table("Means over replications, with their range", [Row(row) for row in plan.rows()])


def _end(plan: TrialPlan) -> list[Any]:
    if not plan.closings:
        return [Text("The worlds have no rule to compare with.", "note")]
    truth = np.array([c["true"] for c in plan.closings])
    rows = []
    for rung in RUNGS:
        found = np.array([c[rung] for c in plan.closings if c.get(rung) is not None], float).reshape(-1, 2)
        if len(found):
            known = truth[[c.get(rung) is not None for c in plan.closings]]
            rows.append(Row(_rung(rung, found, known)))
    note = (
        f"Gain: mean over {plan.closings[0]['people']} of the people, of the plans made for them over the rule; in "
        f"truth {truth.mean():+.3g} ({truth.min():+.3g} to {truth.max():+.3g}). The plans were chosen by the same "
        "data, which asymptotic intervals do not allow for: the last column says how much that matters here."
    )
    return [Table("Intervals for the gain over the rule at the end", rows, [note])] if rows else [Text(note, "note")]


def _rung(rung: str, found: Floats, truth: Floats) -> dict[str, str]:
    covered = (found[:, 0] <= truth) & (truth <= found[:, 1])
    width = float(np.median(found[:, 1] - found[:, 0])) / 2
    return {
        "rung": rung,
        "median half-width": f"{width:.3g}" if np.isfinite(width) else NONE,
        "shows a gain": f"{(found[:, 0] > 0).mean():.0%}",
        "holds the true gain": f"{covered.sum()} of {len(found)}",
    }


def _words(plan: TrialPlan) -> Words:
    return Words([
        ("Certified", f"The plan's certificate, a proved bound on its shortfall from optimal, is at most "
                      f"{plan.threshold:g}. Who is not certified would be referred at this threshold."),
        ("People needed", "From so many people on the share is kept up to the end; the median over replications."),
        ("Regret, gain", "Exact: the simulated worlds know the values of all plans."),
        ("Proved, asymptotic, believed", "What an interval rests on: finite samples and the model's assumptions; a "
                                         "central limit theorem at one look; the posterior."),
        ("Caveat", "The truth decides. Worlds that are unlike the programme predict nothing about it."),
    ])  # fmt: skip
