"""How far `Plan.belief` can be believed: where the true shortfall stands among the draws, in worlds from the prior.

    python tests/belief_calibration.py --worlds 400        the table of docs/live.md, minutes

A world has S = 3 states, A = 2 actions, H = 4 steps and d = 3 entries of the context; every row of transition weights
is drawn from the agent's own prior, N(0, B^2/d) with B = 2, and rewards are known, or logistic with weights from their
prior. An agent learns from n people, a log by uniform play or those that it has treated itself ("own play"), and plans
for somebody new; the true shortfall of the plan is held against its draws. Where the posterior is right its rank is
uniform, ties broken at random, and the 95% quantile is exceeded in at most 5% of worlds. There is one rank per world,
so that they are independent."""

import argparse
import math

import numpy as np
from scipy import stats

import noregret as nr

STATES, ACTIONS, STEPS, DIM, BOUND = 3, 2, 4, 3, 2.0
DRAWS = 199  # so that 1/200 is the step of ranks, and the 190th draw the quantile
KINDS = ("known rewards", "logistic rewards", "rewards 0 or 1", "logistic, own play")


def weights(g, *shape):
    return g.normal(0.0, BOUND / math.sqrt(DIM), (*shape, DIM))


def reward_weights(g, kind):
    """[S, A, d]: of logistic means from their prior; else with means in [0, 1] at every context (1, u)/sqrt 2."""
    if kind.startswith("logistic"):
        return weights(g, STATES, ACTIONS)
    theta = g.normal(0.0, 0.5, (STATES, ACTIONS, DIM)) / math.sqrt(2.0)
    for pair in np.ndindex(STATES, ACTIONS):
        while True:
            middle, half = theta[pair][0], np.linalg.norm(theta[pair][1:])
            if middle - half > 0.0 and middle + half < 1.0:
                break
            theta[pair] = g.normal(0.0, 0.5, DIM) / math.sqrt(2.0)
    return theta * math.sqrt(2.0)


def world(kind, seed):
    """(a world of the prior, whose bounds are those of this truth, what the agent is told: the prior's)."""
    g = np.random.default_rng([seed, 7])
    W, theta = weights(g, STATES, ACTIONS, STATES), reward_weights(g, kind)
    rows = W - W[:, :, -1:]
    options = {"rewards": "logistic" if kind.startswith("logistic") else "linear"}
    options |= {"known_rewards": theta} if kind == "known rewards" else {}
    longest = [float(np.linalg.norm(v, axis=-1).max()) * 1.0001 for v in (rows, theta)]
    made = [
        nr.Problem(STATES, ACTIONS, STEPS, DIM, weight_bound=most, reward_bound=reward, **options)
        for most, reward in (longest, (BOUND, max(BOUND, longest[1]) if kind == "known rewards" else BOUND))
    ]
    people = nr.contexts.Sphere(DIM, 1.0, math.sqrt(0.5))
    return nr.World(made[0], W, None if kind == "known rewards" else theta, people, 0), made[1]


def one(kind, n, seed):
    """(rank of the true shortfall among the draws, from 0 to DRAWS; it, the draws' mean and their quantile)."""
    truth, told = world(kind, seed)
    agent = nr.PSRLGLM(told, seed=seed)
    if kind.endswith("own play"):
        for k in range(n):
            person = truth.individual(k, 1000 + seed)
            agent.begin_episode(person.context)
            while person.steps < STEPS:
                agent.observe(*person.step(agent.act(person.state)))
            agent.end_episode()
    else:
        agent.learn_from(truth.log(n, seed=1000 + seed, explore=1.0, rule=np.zeros((STEPS, STATES), int)))
    x = truth.context(5000 + seed, 0)
    plan = agent.begin_episode(x)
    said = plan.belief(draws=DRAWS, state=0)
    short, drawn = truth.optimal(x).values[0, 0] - truth.value(plan.policy, x, 0), said.values[:, 0]
    below, tied = int((drawn < short - 1e-12).sum()), int((np.abs(drawn - short) <= 1e-12).sum())
    g = np.random.default_rng([seed, n, 11])
    return below + int(g.integers(tied + 1)), short, said.mean, said.quantile


def measured(kind, n, worlds, first=0):
    found = [one(kind, n, first + i) for i in range(worlds)]
    rank, short, mean, quantile = (np.array(v) for v in zip(*found, strict=True))
    bins = np.bincount(rank * 10 // (DRAWS + 1), minlength=10)
    return {
        "rank": rank, "chi": stats.chisquare(bins).pvalue, "covered": float(np.mean(short <= quantile + 1e-12)),
        "short": float(short.mean()), "mean": float(mean.mean()), "quantile": float(quantile.mean()),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=400)
    worlds = parser.parse_args().worlds
    print(f"{'':20}{'n':>6}{'p':>10}{'covered':>9}{'shortfall':>11}{'believed':>10}{'95%':>8}")
    for kind in KINDS:
        for n in (20, 200):
            m = measured(kind, n, worlds)
            print(
                f"{kind:20}{n:6}{m['chi']:10.1e}{m['covered']:9.3f}{m['short']:11.4f}{m['mean']:10.4f}{m['quantile']:8.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
