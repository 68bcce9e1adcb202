"""Expected certificates (`nr.expected_certificates`) beside those of runs in the worlds themselves.

    python -m benchmarks.expected [--people 20000] [--sets online,stored] [--worlds clinic,programme]

Of a world its problem and 400 of its contexts are told, not its weights. Ratio: expected over measured, the mean over
the last tenth of the people in both; measured: one run."""

import argparse

import noregret as nr
from noregret.simulation.expected import _curve
from noregret.worlds.random_worlds import without_design

WORLDS = {
    "clinic": nr.worlds.clinic,
    "random-logit S=4 d=3": lambda: nr.worlds.random_logit(4, 3, 4, 3, seed=1),
    "random-logit S=5 d=4": lambda: nr.worlds.random_logit(seed=2),
    "random-logit S=3 d=2": lambda: nr.worlds.random_logit(3, 2, 6, 2, seed=3),
    "random-logit S=6 d=3": lambda: nr.worlds.random_logit(6, 2, 8, 3, weight_bound=1.0, seed=11),
    "shared-logit": lambda: nr.worlds.shared_logit(6, 3, horizon=5, context_dim=3, features=3, seed=5),
    "programme d=4": lambda: nr.worlds.programme(context_dim=4),
    "programme d=8": lambda: nr.worlds.programme(context_dim=8),
}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--people", type=int, default=20_000)
    asked.add_argument("--sets", default="online")
    asked.add_argument("--agents", default="lr-orl,certified-psrl")
    asked.add_argument("--worlds", default="", help="beginnings of names; all of them unless given")
    given = asked.parse_args()
    points = [k for k in (1000, 2000, 5000, 10_000, 20_000) if k <= given.people]
    print("| world | agent | sets | " + " | ".join(f"{k:,}" for k in points) + " |")
    print("| --- " * (3 + len(points)) + "|")
    near = total = 0
    for name, made in WORLDS.items():
        if not name.startswith(tuple(given.worlds.split(","))):
            continue
        world = made()
        people = [world.context(77, k) for k in range(400)]
        for sets in given.sets.split(","):
            options = {"agents": given.agents.split(","), "sets": (sets,)}
            for row in nr.expected_certificates(world.problem, given.people, people, **options):
                plain = world if row.design or world.problem.blocks is None else without_design(world)
                seen = _curve(row.agent, sets, row.design, [plain], given.people, (0, 0.05))
                cells = []
                for k in points:
                    ratio = row.after(k) / seen.after(k)
                    near, total = near + (2 / 3 <= ratio <= 1.5), total + 1
                    cells.append(f"{row.after(k):.2f} / {seen.after(k):.2f} = {ratio:.2f}")
                design = ", by design" if row.design else ""
                print(f"| {name} | `{row.agent}` | {sets}{design} | " + " | ".join(cells) + " |", flush=True)
    print(f"within a factor of 1.5: {near} of {total}")


if __name__ == "__main__":
    main()
