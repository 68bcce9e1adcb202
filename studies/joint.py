"""How wide joint intervals are where the set is known: `python studies/joint.py`, the table of docs/joint.md, section
8. Ten seconds.

One block of 5 random features (30 weights). The set is what K people tell at the truth: precision = Fisher information
+ I, squared radius 30 ln(1 + K/30) + 2 ln 20. Three quarters of their actions are the rule's, the others random. The
question is what the best policies bring 150 people over the rule.
"""

import math

import numpy as np

import noregret as nr
from noregret.agents.local.questions import joint_set
from noregret.beliefs.displaced import rows_at
from noregret.beliefs.joint import JointSet, space_of
from noregret.planning import unrolled
from noregret.planning.joint import joint_interval

PANEL, LOGGED = 150, 300


def world_of() -> nr.World:
    design = nr.worlds.random_design(6, 3, 5, 1, 4.0, 0, context_dim=6)
    rewards = nr.RewardDesign(np.random.default_rng(0).uniform(size=(6, 3, 1)), 3.0)
    return nr.worlds.random_logit(horizon=8, context_dim=6, design=design, reward_design=rewards)


def solved(features: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Weights [1, q, d] of the one block with features [S, A, M, q] for rows [S, A, M, d]."""
    q, d = features.shape[-1], wanted.shape[-1]
    return np.linalg.lstsq(features.reshape(-1, q), wanted.reshape(-1, d), rcond=None)[0][None]


def information(world: nr.World, made: JointSet, rule: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of one person, about the weights of transitions [30, 30] and of rewards [6, 6]; variances of rewards at most."""
    X = np.array([world.context(3, k) for k in range(LOGGED)])
    rows = rows_at(made._replace(radius=np.ones(1)), space_of(made._replace(radius=np.ones(1))), X)
    S, A = made.layout.available.shape
    total, rewards = np.zeros((30, 30)), np.zeros((6, 6))
    for i, x in enumerate(X):
        where = np.eye(S)[0]
        for h in range(made.horizon):
            often = where[:, None] * (0.25 / A + 0.75 * (np.arange(A) == rule[h][:, None]))
            c = rows.centred[i][..., :5]
            curve = np.einsum("sa,sak,sakm,sakl->ml", often, rows.P[i], c, c)
            total += np.kron(curve, np.outer(x, x)) / LOGGED
            size = float((often * made.reward_blocks.features[:, :, 0, 0] ** 2).sum())
            rewards += 4.0 * size * np.outer(x, x) / LOGGED
            where = np.einsum("sa,sak->k", often, rows.P[i])
    return total, rewards


def main() -> None:
    world = world_of()
    rule = np.zeros((8, 6), np.int64)
    agent = nr.LRORL(world.problem)
    made = joint_set(agent)
    W = world.weights
    made = made._replace(
        centre=solved(made.blocks.features, W - W[:, :, -1:]),
        reward_centre=solved(made.reward_blocks.features, world.reward_weights[:, :, None]),
    )
    transitions, rewards = information(world, made, rule)
    X = np.array([world.context(2, k) for k in range(PANEL)])
    best = np.array([world.optimal(x).policy for x in X])
    for K, unknown in ((500, 0), (1500, 0), (5000, 0), (20_000, 0), (1500, 1), (5000, 1), (20_000, 1)):
        radius, reward_radius = (math.sqrt(n * math.log(1 + K / n) + 2 * math.log(20)) for n in (30, 6))
        joint = made._replace(
            precision=(K * transitions + np.eye(30))[None],
            radius=np.array([radius]),
            reward_precision=(K * rewards + np.eye(6))[None],
            reward_radius=np.array([unknown * reward_radius]),
        )
        span = np.median(rows_at(joint, space_of(joint), X).span)
        found = []
        for rows in (unrolled.CUBIC, 0):
            unrolled.CUBIC, kept = rows, unrolled.CUBIC
            found.append(joint_interval(joint, X, best, rule))
            unrolled.CUBIC = kept
        numerical = 0.5 * (found[0].numerical_upper - found[0].numerical_lower)
        half = [0.5 * (one.upper - one.lower) for one in found]
        name = f"{K:,}{', rewards unknown' if unknown else ''}: gain {found[0].centre:.2f}, span {span:.2f}"
        widths = f"first order {found[0].first_order:.3f}, numerical {numerical:.3f}, proved {half[0]:.3f}"
        print(f"{name}, {widths}, by many rows {half[1]:.3f}")


if __name__ == "__main__":
    main()
