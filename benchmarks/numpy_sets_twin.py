"""LR-ORL in vectorised NumPy, learning step for step as the kernels do: the twin of `noregret bench`.

It plans with `numpy_sets`, all pairs at once. A step of learning takes Lambda^-1 of its pair as the step before left it
and changes it at once, by a product of matrices; `numpy_sets` is how fast NumPy gets when learning is rearranged, too.
"""

import math

import numpy as np

from benchmarks import numpy_sets
from benchmarks.numpy_sets import Step, lower_curvature
from noregret.checks import Floats
from noregret.worlds import World


class Learner(numpy_sets.Learner):
    """The same state, learned from one step at a time."""

    def learn(self, path: list[Step], x: Floats) -> None:
        for i, y, reward in path:
            self.transition(i, y, x)
            self.reward(i, reward, x)

    def transition(self, i: int, y: int, x: Floats) -> None:
        """One step of the likelihood-ratio set of pair i."""
        S, _, _, d = self.shape
        W, inverse = self.W[i], self.inverse[i]
        z = W @ x
        p = np.exp(z)
        p /= p.sum()
        K = (x @ inverse.reshape(d, -1)).reshape(S, d * S)
        cov = x @ K.reshape(S, d, S)
        r = self.spans(z[None], cov[None], self.rho2[i : i + 1])
        weighted = 2.0 * lower_curvature(r) * p
        D = np.diag(weighted) - weighted[:, None] * p
        R = np.linalg.inv(self.unit + D @ cov)
        a = p - self.unit[y]
        direction = R @ a
        gain = 2.0 * math.log(self.gains(cov[None], p[None], [y]).item())
        self.rho2[i] += a @ (cov @ direction) - gain
        W -= (direction @ K).reshape(d, S).T
        inverse -= K.T @ (R @ (D @ K))

    def reward(self, i: int, reward: float, x: Floats) -> None:
        """One step of ridge regression for the mean reward of pair i."""
        theta, inverse = self.theta[i], self.ridge[i]
        Vx = inverse @ x
        q = Vx @ x
        theta += Vx * ((reward - theta @ x) / (1.0 + q))
        inverse -= Vx[:, None] * (Vx / (1.0 + q))
        self.growth[i] += math.log1p(q)


def lr_orl(world: World, episodes: int, seed: int = 0, delta: float = 0.05) -> Floats:
    """Cumulative regret [episodes], as `numpy_sets.lr_orl`."""
    return numpy_sets.lr_orl(world, episodes, seed, delta, Learner)
