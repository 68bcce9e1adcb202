"""The parts of a report about what is varied: sizes of the problem, and thresholds of a referral."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import figures, statistics
from .blocks import Folded, Row, Section, Shown, Table, Text
from .compared import BAND, claimed, sources
from .data import SIZES, Group
from .drawing import Look
from .texts import NONE, interval, number, power
from .varied import Axis, Referrals, Scaling


def scaling(
    found: Sequence[Scaling], claims: Sequence[dict[str, Any]], looks: Mapping[str, Look], folder: Path
) -> Section | None:
    """Fitted powers of final regret along each size, beside those claimed."""
    if not found:
        return None
    made = Section("scaling", "How regret grows with the problem")
    for i, one in enumerate(found):
        fits = {(a.variable, label): _fit(a, label) for a in one.axes for label in a.labels}
        base = ", ".join(f"{SIZES[k]} = {v:,}" for k, v in one.base.items())
        picture = figures.scaling(one, fits, looks).save(folder, f"scaling-{i + 1}")
        caption = (
            f"Final regret in {one.world} as one size grows; the base is {base}. Points are means over seeds, bars 95% "
            "bootstrap intervals, lines the fitted powers; all axes logarithmic."
        )
        made.blocks.append(Shown(picture, caption, one.ids))
        made.blocks.append(_table(one, fits, claims, looks))
    return made


def _fit(axis: Axis, label: str) -> statistics.Exponent:
    groups = axis.groups(label)
    paired = all(g.seeds == groups[0].seeds for g in groups)
    return statistics.scaling(np.array(axis.values, dtype=float), [g.final for g in groups], paired)


def _table(
    one: Scaling, fits: Mapping[tuple[str, str], Any], claims: Sequence[dict[str, Any]], looks: Mapping[str, Look]
) -> Table:
    rows = []
    for axis in one.axes:
        for label in axis.labels:
            fit, groups = fits[axis.variable, label], axis.groups(label)
            said = [v for v, _ in claimed(groups[0], axis.variable, claims)]
            entries = {
                "agent": label,
                "size": axis.variable,
                "values": ", ".join(f"{v:,}" for v in axis.values),
                "exponent (95%)": power(fit.value, fit.low, fit.high),
                "off the line": NONE if np.isnan(fit.off) or fit.kind != "power" else f"{100 * fit.off:.0f}%",
                "claimed": ", ".join(f"{v:g}" for v in said) or NONE,
                "reading": _verdict(fit, said),
            }
            rows.append(Row(entries, [i for g in groups for i in g.ids], looks[label]))
    every = [g for axis in one.axes for label in axis.labels for g in axis.groups(label)]
    notes = sources(every, [axis.variable for axis in one.axes], claims)
    notes += ["Off the line: the largest distance of a mean from the fitted power; where it is large, it is none."]
    return Table(f"Powers of final regret in {one.world}", rows, notes)


def _verdict(fit: statistics.Exponent, claimed: Sequence[float]) -> str:
    words = [fit.words] if fit.words else []
    if claimed and np.isfinite(fit.low):
        most = max(claimed)
        if fit.low > most:
            words.append("faster than claimed over these sizes")
        elif fit.high < most:
            words.append("slower than claimed")
        else:
            words.append("agrees with what is claimed")
    return "; ".join(words)


def referral(found: Sequence[Referrals], folder: Path) -> Section | None:
    """What handing the doubtful individuals to an expert costs and saves."""
    if not found:
        return None
    made = Section("referral", "Referral")
    for i, one in enumerate(found):
        picture = figures.referral(one).save(folder, f"referral-{i + 1}")
        caption = (
            f"{one.agent} refers to {one.expert} in {one.setting.title}. Left: regret at the end against the share "
            f"referred, a point a threshold, bars 95% bootstrap intervals. Right: the referral rate over time. {BAND}"
        )
        made.blocks.append(Shown(picture, caption, one.ids))
        rows = [_row(f"{t:g}", g) for t, g in zip(one.thresholds, one.groups, strict=True)]
        for name, group in ((f"{one.agent} alone", one.alone), (f"{one.expert} alone", one.expert_alone)):
            rows += [] if group is None else [_row(name, group)]
        caption = f"{one.setting.title}: {one.agent} refers to {one.expert} above a {one.criterion} of ..."
        notes = ["At end: over the last tenth of the episodes. Certified: the sum of the certificates of those kept."]
        made.blocks.append(Table(caption, rows, notes))
        said = list(dict.fromkeys(g.guarantee for g in one.groups if g.guarantee))
        if said:
            made.blocks.append(Folded("What is guaranteed", [Text(words) for words in said]))
    return made


def _row(name: str, g: Group) -> Row:
    referred, certified = g.has("referred"), g.has("kept_certificate")
    entries = {
        "threshold": name,
        "share referred": f"{100 * (g.curve('referred')[:, -1] / g.episodes).mean():.1f}%" if referred else NONE,
        "referred at end": f"{100 * g.late('referred').mean():.1f}%" if referred else NONE,
        "regret": number(g.final.mean()),
        "95% interval": interval(statistics.mean_interval(g.final)),
        "certified for those kept": number(g.curve("kept_certificate")[:, -1].mean()) if certified else NONE,
    }
    return Row(entries, g.ids)
