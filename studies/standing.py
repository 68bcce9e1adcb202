"""How wide standing questions are: `python studies/standing.py`, the table of docs/joint.md, section 9. Three
minutes of one core.

In every world K people are logged under a rule; the question is what the best policies would have brought 60 other
people over that rule, and stands from the 250th person on.
"""

import sys

import numpy as np

import noregret as nr
from noregret.agents.local.questions import joint_set
from noregret.agents.local.standing import Standing, asked_direction, stored_steps
from noregret.planning.joint import joint_interval

PANEL, SINCE = 60, 250


def random_world() -> tuple[nr.World, np.ndarray]:
    """30 weights of transitions, 18 of rewards: features 1 and two uniform ones."""
    g = np.random.default_rng(0)
    design = nr.worlds.random_design(6, 3, 5, 1, 4.0, 0, context_dim=6)
    psi = np.concatenate([np.ones((6, 3, 1)), g.uniform(size=(6, 3, 2))], axis=2) / np.sqrt(3.0)
    world = nr.worlds.random_logit(horizon=8, context_dim=6, design=design, reward_design=nr.RewardDesign(psi, 3.0))
    return world, np.zeros((8, 6), np.int64)


def worlds():
    for d in (4, 14):
        world = nr.worlds.programme(context_dim=d)
        yield f"programme, {d} features", world, world.rule
    yield "random", *random_world()


def unlimited(agent: nr.LRORL, contexts: np.ndarray, policy: np.ndarray, other: np.ndarray, start: int) -> float:
    """Half the width if the sum of the steps were known exactly, its limit 0."""
    p, joint = agent.problem, joint_set(agent)
    steps = stored_steps(agent.state.store, agent.episode, p.n_actions, p.scale.offset)
    weights = np.full(len(contexts), 1.0 / len(contexts))
    question = {"contexts": contexts, "policy": policy, "other": other, "weights": weights, "start": start}
    direction = asked_direction(joint, steps, question, Standing(SINCE, 0.01))._replace(limit=0.0)
    found = joint_interval(joint, **question, directions=[direction])
    return 0.5 * (found.upper - found.lower) * p.scale.unit


def main(*sizes: int) -> None:
    print("half widths: without since, delta .01, .01 and .04, the same planned, numerical, no limit; truth inside")
    for name, world, rule in worlds():
        people = np.array([world.context(2, k) for k in range(PANEL)])
        best = np.array([world.optimal(x).policy for x in people])
        other = np.broadcast_to(rule, best.shape)
        true = np.mean([world.value(p, x) - world.value(rule, x) for p, x in zip(best, people, strict=True)])
        for K in sizes or (3000, 5000, 20_000):
            found = []
            for share, delta, until in ((0.05, None, None), (0.05, 0.01, None), (0.01, 0.04, None), (0.01, 0.04, K)):
                agent = nr.LRORL(world.problem, sets="stored", delta=share)
                agent.learn_from(world.log(K, seed=1, rule=rule))
                agent.refresh()
                more = {} if delta is None else {"since": SINCE, "delta": delta, "until": until}
                found.append(agent.compare(best, other, people, start=world.initial_state, **more))
                if delta == 0.01:
                    rest = unlimited(agent, people, best, other, world.initial_state)
            numerical = 0.5 * (found[1].numerical[1] - found[1].numerical[0])
            inside = all(one.lower <= true <= one.upper for one in found)
            widths = ", ".join(f"{one.half_width:.3f}" for one in found)
            print(f"{name}, {K:,} people, gain {true:.2f}: {widths}, {numerical:.3f}, {rest:.3f}; {inside}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
