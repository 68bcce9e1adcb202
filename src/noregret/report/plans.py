"""A plan as a picture: steps across, states down, a colour per action, and where something is proved."""

import math
from textwrap import fill
from typing import Any

import numpy as np

from .. import checks as check
from ..planning.plans import Plan
from .drawing import COLOURS, INK, MUTED, Drawing

PART = 0.1  # of what can be gained in the steps left: from there on a cell counts as certified
TALL, WIDE = 0.2, 0.34  # inches of a cell, at least
LONGEST = 28  # characters of a name
MOST = 60  # states drawn with names of their own
_HATCHES = ("", "////", "....", "xxxx")  # the ninth action has the first colour again, with stripes


def plan_figure(plan: Plan, path: Any, within: float | None = None, title: str | None = None) -> None:
    """Draw a plan to a file, .png, .svg or .pdf; `Plan.figure` is the same.

    within   dots mark the steps and states from which on the plan is proved to fall short of optimal by at most so
             much; None: a tenth of what can be gained in the steps left. Plans without bounds have no dots
    title    None: what the certificate says, where there is one

    >>> import tempfile
    >>> from pathlib import Path
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> plan = nr.LRORL(world.problem).begin_episode(world.context(seed=0, episode=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nr.report.plan_figure(plan, f"{folder}/plan.png")
    ...     Path(f"{folder}/plan.png").stat().st_size > 1000
    True
    """
    check.instance("plan", plan, Plan, "a noregret.Plan")
    limit = None if within is None else check.nonnegative("within", within)
    (H, S), p = plan.policy.shape, plan.problem
    states = [str(s) for s in range(S)] if p is None or not p.state_names else [_short(n) for n in p.state_names]
    longest = max(map(len, states)) if S <= MOST else 4
    high, wide = min(max(TALL * S, 1.2), 24.0), min(max(WIDE * H, 2.6), 14.0)
    made = Drawing(1, 1, title or _said(plan), panel=(max(wide + 0.085 * longest + 0.5, 4.2), high + 0.6))
    axes = made.axes[0]
    axes.grid(False)
    used = _cells(axes, plan.policy)
    proved = certified_cells(plan, limit)
    if proved.any():
        h, s = np.nonzero(proved)
        size = min(16.0, 2500.0 / (S * max(H, 1)) + 4.0)
        axes.scatter(h, s, s=size, color="white", edgecolors=INK, linewidths=0.7, zorder=3)
    axes.set_xlim(-0.5, H - 0.5)
    axes.set_ylim(S - 0.5, -0.5)
    every = max(1, math.ceil(H / 20))
    axes.set_xticks(range(0, H, every), [str(h) for h in range(0, H, every)])
    if S <= MOST:
        axes.set_yticks(range(S), states, fontsize=8 if S <= 30 else 7)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("step", fontsize=8.5)
    _legend(made, plan, used, proved.any(), limit)
    made.draw(path)


def certified_cells(plan: Plan, within: float | None = None) -> Any:
    """[H, S], True where upper - lower is at most `within`, or a tenth of what can be gained from there on; nowhere
    without a certificate."""
    H, S = plan.policy.shape
    if plan.certificate is None or plan.upper is None or plan.lower is None:
        return np.zeros((H, S), bool)
    unit = 1.0 if plan.problem is None else plan.problem.scale.unit
    most = PART * unit * np.arange(H, 0, -1.0)[:, None] if within is None else within
    return (plan.upper - plan.lower)[:H] <= most


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."


def _said(plan: Plan) -> str:
    if plan.certificate is None:
        return "what to do"
    return f"what to do: at most {plan.certificate:.3g} short of optimal"


def _look(a: int) -> dict[str, Any]:
    return {"facecolor": COLOURS[a % len(COLOURS)], "hatch": _HATCHES[a // len(COLOURS) % len(_HATCHES)]}


def _cells(axes: Any, policy: Any) -> list[int]:
    """Squares of all cells, action by action; the actions that there are."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    used = [int(a) for a in np.unique(policy)]
    for a in used:
        squares = [Rectangle((h - 0.46, s - 0.46), 0.92, 0.92) for h, s in np.argwhere(policy == a)]
        axes.add_collection(PatchCollection(squares, edgecolor="white", linewidth=0.3, alpha=0.8, **_look(a)))
    return used


def _legend(made: Drawing, plan: Plan, used: list[int], dotted: bool, limit: float | None) -> None:
    """Actions, and what a dot says, below."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    p = plan.problem
    names = p.action_names if p is not None and p.action_names else None
    handles: list[Any] = [Patch(alpha=0.8, edgecolor="white", **_look(a)) for a in used]
    labels = [_short(names[a]) if names else f"action {a}" for a in used]
    width = made.panel[0]
    columns = max(1, min(len(labels), int(11.0 * width / (max(map(len, labels)) + 6))))
    room = 0.19 * math.ceil(len(labels) / columns) + 0.15
    made.figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8.5,
        handlelength=1.1,
        handleheight=1.1,
        labelcolor=INK,
    )
    if dotted:
        about = f"by at most {limit:g}" if limit is not None else "by at most a tenth of what can be gained"
        dot = Line2D([], [], marker="o", linestyle="", markersize=4, color="white", markeredgecolor=INK)
        text = fill(f"proved to fall short {about} from there on", int(12.0 * width) - 10)
        made.axes[0].legend([dot], [text], loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize=8,
                            borderaxespad=0.2, handletextpad=0.2, labelcolor=MUTED)  # fmt: skip
    made.figure.set_figheight(made.figure.get_figheight() + room)
