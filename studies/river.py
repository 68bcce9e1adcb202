"""RiverSwim of the multinomial-logit papers: `python studies/river.py FOLDER`, the tables and the figure of
docs/agents-mnl.md.

S = 4 places, H = 12 steps, K = 10,000 episodes, known rewards, an estimator per step: the smaller of the two settings
of Cho et al. (2024, arXiv 2405.20165, Figure 1a and Appendix F). Every agent has the same scales of its bonus, and at
each scale the best of four other settings, chosen by a fifth of the episodes of seed 0 and counted on `COUNT`. One
estimator for all steps, values up to H - h and the larger setting, S = 8 and H = 24, have a fifth of the episodes, the
last scales and the settings that were chosen first. Twenty minutes of one core.
"""

import sys
from pathlib import Path

import numpy as np

import noregret as nr
from noregret.report.drawing import Curve, Drawing, looks

SCALES = 0.03, 0.01, 0.003, 0.001, 0.0003
FIRST = 2  # of the scales of the shorter runs
COUNT = [1, 2, 3]
PRIORS = [{"regularization": lam} for lam in (1.0, 10.0, 100.0, 1000.0)]
SETTINGS = {
    "ucrl-mnl": [{"kappa": 0.25} | prior for prior in PRIORS],  # kappa is another scale there
    "ucrl-mnl-ol": PRIORS,
    "rrl-mnl": [{"kappa": k} | prior for k in (0.25, 0.99) for prior in PRIORS[:3:2]],  # by its meaning at most 1/4
    "orrl-mnl": PRIORS,
}
OURS = "psrl-glm", "certified-psrl", "lr-orl", "glm-orl"


def played(world: nr.World, name: str, seeds: list[int], episodes: int, **options) -> nr.Run:
    agent = nr.make_agent(name, world.problem, **options)
    return nr.simulate(agent, world, episodes, seeds, every=max(episodes // 100, 1), workers=1)


def chosen(world: nr.World, name: str, scale: float, episodes: int, **options) -> tuple[nr.Run, dict]:
    """The run on new seeds of the setting that was best on another."""
    tried = [played(world, name, [0], episodes // 5, bonus_scale=scale, **s, **options) for s in SETTINGS[name]]
    best = SETTINGS[name][int(np.argmin([run.final.mean() for run in tried]))]
    return played(world, name, COUNT, episodes, bonus_scale=scale, **best, **options), best


def table(title: str, rows: dict[str, list[str]], heads: list[str]) -> None:
    print(f"\n{title}\n| agent | {' | '.join(heads)} |\n|{' --- |' * (len(heads) + 1)}")
    for name, row in rows.items():
        print(f"| `{name}` | {' | '.join(row)} |", flush=True)


def shown(run: nr.Run) -> str:
    return f"{run.final.mean():,.0f}" if run.final.mean() >= 9.95 else f"{run.final.mean():.1f}"


def main(folder: Path, episodes: int = 10_000) -> None:
    river, heads = nr.worlds.riverswim_logit, [f"{scale:g}" for scale in SCALES] + ["0"]
    steps, large = (river(*size, features="pairs", per_step=True) for size in ((4, 12), (8, 24)))
    found = {name: [chosen(steps, name, scale, episodes, ceiling="horizon") for scale in SCALES] for name in SETTINGS}
    none = {name: played(steps, name, COUNT, episodes, bonus_scale=0.0, ceiling="horizon") for name in SETTINGS}
    rows = {name: [shown(run) for run, _ in tried] + [shown(none[name])] for name, tried in found.items()}
    table("an estimator per step, values up to H", rows, heads)
    for name, tried in found.items():
        print(name, f"{tried[2][0].speed:,.0f} episodes a second; chosen:", [setting for _, setting in tried])
    ours = {name: played(steps, name, COUNT, episodes) for name in (*OURS, "uniform-random")}
    more = {name: played(large, name, COUNT, episodes // 5) for name in ours}
    sizes = ["S = 4, H = 12", "S = 8, H = 24, a fifth of the episodes"]
    table("ours, untuned, an estimator per step", {n: [shown(ours[n]), shown(more[n])] for n in ours}, sizes)
    draw({name: [run for run, _ in tried] for name, tried in found.items()}, ours, folder / "river.png")
    for title, world, ceiling in (
        ("an estimator per step, values up to H - h", steps, "left"),
        ("one estimator for all steps, values up to H", river(4, 12, features="pairs"), "horizon"),
        ("S = 8, H = 24, an estimator per step, values up to H", large, "horizon"),
    ):
        rows = {}
        for name, tried in found.items():
            settings = zip(SCALES[FIRST:], (best for _, best in tried[FIRST:]), strict=True)
            options = [{"bonus_scale": scale, "ceiling": ceiling} | best for scale, best in settings]
            rows[name] = [shown(played(world, name, COUNT, episodes // 5, **each)) for each in options]
        table(f"{title}, a fifth of the episodes", rows, heads[FIRST:-1])


def draw(curves: dict[str, list[nr.Run]], ours: dict[str, nr.Run], path: Path) -> None:
    """Left: regret at the end against the scale. Right: regret as it grows, at the middle scale."""
    made = Drawing(2, 2, "RiverSwim by steps, S = 4, H = 12, values up to H", panel=(5.0, 3.8))
    left, right = made.axes
    made.head(left, f"regret after {ours['psrl-glm'].episodes[-1]:,} episodes", "scale of the bonus")
    made.head(right, f"cumulative regret, scale {SCALES[2]:g} (ours: as they are)", "episode")
    own = looks([(name, name) for name in (*curves, *ours)])
    for name, runs in curves.items():
        ends = np.array([run.final for run in runs])
        made.points(left, name, Curve(SCALES, ends.mean(1), ends.min(1), ends.max(1)), own[name], joined=True)
        made.curve(right, name, _over(runs[2]), own[name])
    for name, run in ours.items():
        made.curve(right, name, _over(run), own[name])
    made.level(left, "uniform-random", float(ours["uniform-random"].final.mean()), own["uniform-random"])
    for axes in made.axes:
        axes.set_ylim(0.5, 5e4)
        made.logarithmic(axes)
    made.draw(path)


def _over(run: nr.Run) -> Curve:
    return Curve(run.episodes, np.maximum(run.regret.mean(0), 0.51))  # nothing lost: along the axis


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    place.mkdir(parents=True, exist_ok=True)
    main(place, *map(int, sys.argv[2:3]))
