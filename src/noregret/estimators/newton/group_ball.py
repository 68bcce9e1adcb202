"""The (2,1)-ball { W [m, d] : sum over columns ||W_j||_2 <= B }: matrices with few large columns."""

import math
from typing import Any

import numpy as np

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot

STEPS = 12  # of accelerated projected gradient per observation, from where the last one ended


@inlined
def project_on_group_ball(W, bound, columns):
    """Euclidean projection in place: column norms are soft-thresholded so that they sum to `bound`; columns [d] is
    scratch. Newton's method on the piecewise linear equation, from the left: monotone, ends after finitely many
    steps."""
    m, d = W.shape
    total = 0.0
    for b in range(d):
        size = 0.0
        for j in range(m):
            size += W[j, b] * W[j, b]
        columns[b] = math.sqrt(size)
        total += columns[b]
    if total > bound:
        threshold = (total - bound) / d
        for _ in range(d + 1):
            inside, active = 0.0, 0
            for b in range(d):
                if columns[b] > threshold:
                    inside += columns[b]
                    active += 1
            new = (inside - bound) / active
            if new <= threshold:
                break
            threshold = new
        for b in range(d):
            scale = 1.0 - threshold / columns[b] if columns[b] > threshold else 0.0
            for j in range(m):
                W[j, b] *= scale


@kernel
def group_descent(gram, regularization, slope, bound, W, pull, spare, columns):
    """W <- a better point of the (2,1)-ball for q(W) = 1/2 <W, W G> + <slope, W>, G = gram - regularization I.

    Accelerated projected gradient with restarts (Nesterov 1983; O'Donoghue and Candes 2015), step 1/L with L the
    largest row sum of |G|. pull [m, d], spare [2, m, d], columns [d] are scratch."""
    m, d = W.shape
    Y, new = spare[0], spare[1]
    largest = 0.0
    for b in range(d):
        total = 0.0
        for c in range(d):
            total += abs(gram[b, c] - (regularization if b == c else 0.0))
        largest = max(largest, total)
    if largest > 0.0:
        for j in range(m):
            for b in range(d):
                Y[j, b] = W[j, b]
        momentum = 1.0
        for _ in range(STEPS):
            for j in range(m):
                for b in range(d):
                    total = slope[j, b] - regularization * Y[j, b]
                    for c in range(d):
                        total += Y[j, c] * gram[b, c]
                    new[j, b] = Y[j, b] - total / largest
            project_on_group_ball(new, bound, columns)
            uphill = 0.0
            for j in range(m):
                for b in range(d):
                    uphill += (Y[j, b] - new[j, b]) * (new[j, b] - W[j, b])
            ahead = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            push = (momentum - 1.0) / ahead if uphill <= 0.0 else 0.0
            momentum = ahead if uphill <= 0.0 else 1.0
            for j in range(m):
                for b in range(d):
                    Y[j, b] = new[j, b] + push * (new[j, b] - W[j, b])
                    W[j, b] = new[j, b]


def group_address(n_outcomes: int, dim: int) -> Any:
    """Address of `group_descent`, for `apply_group_descent`."""
    square, rows, f = np.eye(dim), np.zeros((n_outcomes, dim)), np.zeros
    return apply_group_descent.fill(group_descent, square, 1.0, rows, 1.0, rows, rows, f((2, n_outcomes, dim)), f(dim))


apply_group_descent = slot("group descent")
