"""How far the posterior can be believed: ranks of the truth among draws of `PSRLGLM.draw`, in worlds drawn from the
prior (simulation-based calibration, Talts et al. 2018).

    python tests/calibration.py --pairs 3000        the table of docs/exploration.md, minutes

A world has S x A pairs of one step, whose weights are drawn independently: as many ranks per world. Everybody meets a
random pair, so that n is the number of rewards, or outcomes, of one pair. Where the posterior is right the rank of the
truth among 50 draws is uniform on 0, ..., 50."""

import argparse
import math

import numpy as np
from scipy import stats

import noregret as nr

DRAWS, DIM, STATES, ACTIONS = 50, 3, 3, 40
PAIRS = STATES * ACTIONS
WEIGHT_BOUND, REWARD_BOUND, SMALL = 2.0, 3.0, 0.1
MIDDLE, MOST = (12, 38), (2, 48)  # 27 and 47 of the 51 ranks: about a half, and nine tenths
KINDS = ("logistic rewards", "rewards 0 or 1", "rewards with little noise", "transitions")


def contexts(g, n):
    """(1, u)/sqrt 2 with u on the unit sphere, [n, d]."""
    u = g.standard_normal((n, DIM - 1))
    return np.concatenate([np.ones((n, 1)), u / np.linalg.norm(u, axis=1, keepdims=True)], axis=1) / math.sqrt(2.0)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reward_weights(g, kind):
    """[S A, d] from the prior: N(0, B_r^2/d) under the logistic curve. Else N(0, 1/4) at every x, given that means stay
    in [0, 1], and so far from its ends that rewards do, too."""
    margin = SMALL if kind == "rewards with little noise" else 0.0
    if kind == "logistic rewards":
        return g.normal(0.0, REWARD_BOUND / math.sqrt(DIM), (PAIRS, DIM))
    kept = np.zeros((0, DIM))
    while len(kept) < PAIRS:
        theta = g.normal(0.0, 0.5, (100 * PAIRS, DIM)) / math.sqrt(2.0)
        middle, half = theta[:, 0], np.linalg.norm(theta[:, 1:], axis=1)
        inside = (middle - half > margin) & (middle + half < 1.0 - margin)
        kept = np.concatenate([kept, theta[inside] * math.sqrt(2.0)])
    return kept[:PAIRS]


def world(kind, n, seed):
    """Ranks [S A] of the truth among draws for somebody new, after n people for every pair; and the errors of the
    draws' mean over their standard deviation."""
    g, logistic = np.random.default_rng([seed, n]), kind == "logistic rewards"
    problem = nr.Problem(
        STATES, ACTIONS, 1, DIM, weight_bound=WEIGHT_BOUND, reward_bound=REWARD_BOUND,
        rewards="logistic" if logistic else "linear",
    )  # fmt: skip
    W = g.normal(0.0, WEIGHT_BOUND / math.sqrt(DIM), (PAIRS, STATES, DIM))
    theta = reward_weights(g, kind)
    pair, X = g.permutation(np.repeat(np.arange(PAIRS), n)), contexts(g, n * PAIRS)
    P = softmax(np.einsum("ijd,id->ij", W[pair], X))
    after = (P.cumsum(1) < g.random((len(pair), 1))).sum(1)
    mean = (theta[pair] * X).sum(1)
    mean = 1.0 / (1.0 + np.exp(-mean)) if logistic else mean
    rewards = (g.random(len(pair)) < mean).astype(float)
    if kind == "rewards with little noise":
        rewards = mean + g.uniform(-SMALL, SMALL, len(pair))
    log = {
        "episode": np.arange(len(pair)),
        "step": np.zeros(len(pair), int),
        "state": pair // ACTIONS,
        "action": pair % ACTIONS,
    }
    log |= {"reward": rewards, "next_state": np.minimum(after, STATES - 1)} | {f"x{i}": X[:, i] for i in range(DIM)}
    agent = nr.PSRLGLM(problem, seed=seed)
    agent.learn_from(nr.read_log(log, problem, arrival="key"))
    x, V = contexts(g, 1)[0], g.random(STATES)
    drawn = [agent.draw(x, i) for i in range(1, DRAWS + 1)]
    if kind == "transitions":
        truth, made = softmax(W @ x) @ V, np.array([P.reshape(PAIRS, STATES) @ V for P, _ in drawn])
    else:
        truth, made = theta @ x, np.array([r.reshape(PAIRS) for _, r in drawn])
        truth = 1.0 / (1.0 + np.exp(-truth)) if logistic else truth
    return (made < truth).sum(0), (truth - made.mean(0)) / made.std(0, ddof=1)


def measured(kind, n, pairs, seed=0):
    """{rank: of the truth [N], error: [N], and what they come to}."""
    found = [world(kind, n, seed + i) for i in range(math.ceil(pairs / PAIRS))]
    rank, error = (np.concatenate(v) for v in zip(*found, strict=True))
    bins = np.bincount(np.minimum(rank // 5, 9), minlength=10)  # five ranks each, the last six
    share = np.array([5.0] * 9 + [6.0]) / (DRAWS + 1)
    return {
        "rank": rank,
        "error": error,
        "chi": stats.chisquare(bins, share * len(rank)).pvalue,
        "half": np.mean((rank >= MIDDLE[0]) & (rank <= MIDDLE[1])) * 0.5 / (27.0 / 51.0),
        "most": np.mean((rank >= MOST[0]) & (rank <= MOST[1])) * 0.9 / (47.0 / 51.0),
        "size": float(np.sqrt(np.mean(error**2))),
        "bias": float(np.mean(error)),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3000)
    pairs = parser.parse_args().pairs
    print(f"{'':28}{'n':>5}{'p':>10}{'50%':>8}{'90%':>8}{'error':>8}{'bias':>8}")
    for kind in KINDS:
        for n in (5, 50, 500):
            m = measured(kind, n, pairs)
            numbers = f"{m['half']:8.3f}{m['most']:8.3f}{m['size']:8.3f}{m['bias']:8.3f}"
            print(f"{kind:28}{n:5}{m['chi']:10.1e}{numbers}", flush=True)


if __name__ == "__main__":
    main()
