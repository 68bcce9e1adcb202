"""What the order of the logit agents in RiverSwim rests on: `python studies/river_support.py PART ...`, tables of
docs/agents-mnl.md, 10 seeds, known rewards, values up to H.

told      which next states are possible is known, as in `studies/river.py`; both sizes
untold    all places are possible, as far as the learner knows; both sizes
ours      untold, agents of ours, as they are
prior     untold, no bonus, less regularization
large     untold, the larger size with an estimator per step, which takes as long as all others together
"""

import sys

import noregret as nr

SCALES = 1e-4, 1e-5, 0.0
AGENTS = {
    "ucrl-mnl": {"kappa": 0.25, "ceiling": "horizon"},
    "rrl-mnl": {"kappa": 0.25, "ceiling": "horizon"},
    "ucrl-mnl-ol": {"step_size": 2.0, "ceiling": "horizon"},
    "orrl-mnl": {"step_size": 2.0, "ceiling": "horizon"},
}
FITTED = AGENTS | {
    "ucrl-mnl-ol": {"step_size": 1.0, "ceiling": "horizon"},
    "orrl-mnl": {"step_size": 1.0, "ceiling": "horizon"},
}  # stable with a weak prior
OURS = "psrl-glm", "certified-psrl", "lr-orl", "uniform-random"
SMALL, LARGE = (4, 12), (8, 24)


def regret(world: nr.World, name: str, episodes: int, **options) -> str:
    """Mean and standard deviation over the seeds, which the paper's figure shades."""
    agent = nr.make_agent(name, world.problem, **options)
    final = nr.simulate(agent, world, episodes, seeds=10, every=episodes, workers=1).final
    digits = 0 if final.mean() >= 9.95 else 1
    return f"{final.mean():,.{digits}f} +-{final.std():,.{digits}f}"


def table(title: str, world: nr.World, episodes: int, columns: list[dict[str, float]], agents=AGENTS) -> None:
    key = max(columns[0], key=lambda k: len({c[k] for c in columns}))
    heads = " | ".join(f"{c[key]:g}" for c in columns)
    print(f"\n{title}, {episodes} episodes\n| {key} | {heads} |\n|{' --- |' * (len(columns) + 1)}")
    for name, own in agents.items():
        print(f"| `{name}` | {' | '.join(regret(world, name, episodes, **own, **c) for c in columns)} |", flush=True)


def river(size: tuple[int, int], **options) -> nr.World:
    return nr.worlds.riverswim_logit(*size, features="pairs", **options)


def main(parts: list[str]) -> None:
    def scales(*used: float, prior: float = 1.0) -> list[dict[str, float]]:
        return [{"bonus_scale": scale, "regularization": prior} for scale in used]

    untold, pairs = {"known_support": False}, {"known_support": False, "shared": False}
    if "told" in parts:
        table("told, S = 4, an estimator per step", river(SMALL, per_step=True), 300, scales(*SCALES, prior=10.0))
        table("told, S = 8, an estimator per step", river(LARGE, per_step=True), 100, scales(1e-4, 0.0, prior=10.0))
    if "untold" in parts:
        table("untold, S = 4, an estimator per step", river(SMALL, per_step=True, **untold), 300, scales(*SCALES))
        table("untold, S = 8, one estimator a pair", river(LARGE, **pairs), 300, scales(*SCALES))
    if "ours" in parts:
        print("\nuntold, 300 episodes\n| agent | S = 4, by steps | S = 8 |\n| --- | --- | --- |")
        for name in OURS:
            worlds = river(SMALL, per_step=True, **untold), river(LARGE, **pairs)
            print(f"| `{name}` | {' | '.join(regret(world, name, 300) for world in worlds)} |", flush=True)
    if "prior" in parts:
        columns = [{"regularization": prior, "bonus_scale": 0.0} for prior in (0.1, 0.3)]
        world = river(SMALL, per_step=True, **untold)
        table("untold, S = 4, an estimator per step, no bonus", world, 300, columns, FITTED)
    if "large" in parts:
        table("untold, S = 8, one a pair and step", river(LARGE, per_step=True, **pairs), 200, scales(1e-5))


if __name__ == "__main__":
    main(sys.argv[1:] or ["told", "untold", "ours", "prior"])
