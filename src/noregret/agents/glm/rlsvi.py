"""GLM-RLSVI: randomised exploration by perturbed rewards (Modi and Tewari 2020, Algorithm 3; after Russo 2019)."""

import math

from ...beliefs.point import EUCLIDEAN
from ...compiler.jit import inlined, kernel
from ...numerics.random import NOISE, normals
from ...planning.bellman import UNCLIPPED
from ...problem.problem import Problem
from ..declared import BONUS_SCALE, CONSTANTS, REGULARIZATION, REWARD_REGULARIZATION
from ..endings import plan_model
from .family import CONFIDENCE, GROUP_BOUND, LEARNER, GLMAgent, apply_beliefs


@kernel
def plan(par, state, work, x, k, out):
    # delta = 1/(2 n_pairs k^2) in episode k = 1, 2, ...: the chances of failure sum to at most pi^2/6
    log = par.log_confidence + 2.0 * math.log(k + 1.0)
    apply_beliefs(par.believe, (par, state, work, x, log))
    belief = work.belief
    perturb(par, k, belief, work.noise)
    plan_model(par, work, belief.P, belief.reward, UNCLIPPED, k, out)


@inlined
def perturb(par, k, belief, noise):
    """noise [H, S, A] ~ N(0, S H phi^2), or N(0, S H phi) as printed, independently."""
    H, S, A = noise.shape
    lipschitz = par.belief.lipschitz
    for h in range(H):
        left = float(H - h - 1)  # the paper's H - h, which counts steps from 1
        for i in range(0, S * A, 2):
            first, second = normals(par.seed, k, h * S * A + i, NOISE)
            for j in range(i, min(i + 2, S * A)):
                s, a = j // A, j % A
                z = first if j == i else second
                if par.belief.printed == 1:
                    phi = left * belief.width[s, a] + min(par.reward_reach, belief.interval[s, a])
                    deviation = math.sqrt(S * H * phi)
                else:
                    width = belief.width[s, a]
                    if par.belief.width == EUCLIDEAN:  # as a bound on the 1-norm
                        width = min(2.0, lipschitz[s, a] * width)
                    phi = 0.5 * left * width + belief.interval[s, a]
                    deviation = math.sqrt(float(S * H)) * phi
                noise[h, s, a] = par.scale * deviation * z


class GLMRLSVI(GLMAgent):
    """GLM-RLSVI (Modi and Tewari 2020): perturb rewards enough to be optimistic with constant probability.

        Q_h = P_hat V_{h+1} + r_hat + b_h,   b_h ~ N(0, S H phi_h^2),   phi_h = 1/2 (H - h - 1) xi_p + xi_r  (h from 0)

    Nothing is clipped: clipping breaks the argument. Values are random, not bounds.

    constants     "paper": variance S H phi, phi = (H - h - 1) xi_p + xi_r, sup-norm widths, as printed. The paper's
                  delta = pi^2/(SA) exceeds 1 for small problems; 1/(2 n_pairs k^2) is used in both
    bonus_scale   multiplies the standard deviation; anything but 1 carries no guarantee
    confidence, learner, group_bound, regularization, reward_regularization   see `GLMAgent`

    Cost and memory as GLM-ORL, plus S A H normal draws an episode.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> proved, tuned = (nr.simulate(nr.GLMRLSVI(world.problem, bonus_scale=b), world, 300) for b in (1.0, 0.005))
    >>> tuned.label
    'glm-rlsvi (bonus_scale=0.005, no guarantee)'
    >>> bool(tuned.final[0] < 0.5 * proved.final[0])  # the noise that the proof needs is a lot
    True
    """

    name = "glm-rlsvi"
    plan_kernel = staticmethod(plan)
    uses_widths = True
    width_cap = 2.0
    perturbs = True

    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    confidence: str = CONFIDENCE
    learner: str = LEARNER
    group_bound: float | None = GROUP_BOUND
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION

    def _log_confidence(self, problem: Problem) -> float:
        return math.log(float(self._sets()))

    def _promise(self) -> str | None:
        if self.options["constants"] != "corrected" or self.options["bonus_scale"] != 1.0:
            return None
        return "in every episode whose sets hold, the plan is optimistic with probability at least 0.158 given the past"
