"""The best loss in hindsight, bounded from below with the data at hand.

    min_{W in K} L(W) >= L(V) - max_{W in K} <grad L(V), V - W>       for any V in K: the Frank-Wolfe gap

K is the Frobenius ball of radius B_0 or the (2,1)-ball, both around W_1. The cost grows with the number of
observations: for one pair, for studies, and to see what the quadratic bound of `conversion` gives away. For the two
links whose Phi is known; one's own link comes with a gradient only.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...problem.links import Link, MultinomialLogit
from .group_ball import project_on_group_ball

STEPS = 400  # of projected gradient, at most
GAP = 1e-4  # stop at this Frank-Wolfe gap


class ExactHindsight:
    """Observations, the learner's total loss, and B_t = that loss minus a lower bound on the best one."""

    def __init__(self, link: Link, par: Any, count: NDArray[np.int64]) -> None:
        self._link, self._par, self._m = link, par, int(count[0])
        self._X: list[Floats] = []
        self._y: list[int] = []
        self._loss = 0.0
        self._known: tuple[int, float] = (0, 0.0)
        self._point: Floats | None = None

    def observe(self, x: Floats, y: int, prediction: Floats) -> None:
        self._loss += float(self._losses(prediction[None], np.array([y]))[0])
        self._X.append(x)
        self._y.append(y)

    def _losses(self, z: Floats, y: NDArray[np.int64]) -> Floats:
        """Phi(z) - z_y for rows z [t, m]."""
        if isinstance(self._link, MultinomialLogit):
            top = z.max(1)
            phi = top + np.log(np.exp(z - top[:, None]).sum(1))
        else:
            phi = 0.5 * (z * z).sum(1)
        return np.asarray(phi - z[np.arange(len(y)), y])

    def regret_bound(self) -> float:
        """B_t. Kept until the next observation."""
        if self._known[0] != len(self._y):
            self._known = len(self._y), self._loss - self._least()
        return self._known[1]

    def _least(self) -> float:
        """A lower bound on the loss of every W in K."""
        X, y, m, d = np.array(self._X), np.array(self._y), self._m, len(self._X[0])
        start, hits = self._par.start[0, 0], np.eye(m)[y]
        W = np.zeros((m, d)) if self._point is None else self._point
        curvature = self._link.beta() * float(np.linalg.eigvalsh(X.T @ X)[-1])
        best, Y, momentum = -math.inf, W, 1.0
        for step in range(STEPS):
            if step % 20 == 0:
                value, pull = self._at(X, y, hits, W, start)
                best = max(best, value - self._gap(pull, W))
                if self._gap(pull, W) <= GAP:
                    break
            _, pull = self._at(X, y, hits, Y, start)
            new = self._project(Y - pull / max(curvature, 1e-300))
            ahead = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            if float(np.sum((Y - new) * (new - W))) > 0.0:
                ahead, momentum = 1.0, 1.0
            Y, W, momentum = new + (momentum - 1.0) / ahead * (new - W), new, ahead
        self._point = W
        return best

    def _at(self, X: Floats, y: NDArray[np.int64], hits: Floats, W: Floats, start: float) -> tuple[float, Floats]:
        """(L, its gradient [m, d]) at W_1 + W."""
        z = X @ W.T + start * X.sum(1, keepdims=True)
        p = z.copy()
        self._link.gradient(p, np.full(len(y), self._m))
        return float(self._losses(z, y).sum()), (p - hits).T @ X

    def _gap(self, pull: Floats, W: Floats) -> float:
        group = self._par.group_bound
        dual = math.sqrt(self._par.norm2[0, 0]) * float(np.linalg.norm(pull))
        if group > 0.0:
            dual = min(dual, group * float(np.linalg.norm(pull, axis=0).max()))
        return float(np.sum(pull * W)) + dual

    def _project(self, W: Floats) -> Floats:
        """On the (2,1)-ball if there is one, else on the Frobenius ball."""
        group, limit = self._par.group_bound, math.sqrt(self._par.norm2[0, 0])
        if group == 0.0:
            size = float(np.linalg.norm(W))
            return W * (limit / size) if size > limit else W
        made = np.array(W)
        project_on_group_ball(made, group, np.zeros(W.shape[1]))
        return made
