"""ORRL-MNL: values perturbed next state by next state, local curvature (Cho, Hwang, Lee and Oh 2024, Algorithm 2)."""

from ....compiler.jit import kernel
from ....numerics.linear_algebra import dot
from ...endings import plan_model
from .family import SAMPLES, STEP_SIZE, MNLAgent, believe, longest_feature, mean_feature, sizes_of
from .online import descent_steps
from .radii import cho_regularization, cho_step, descent_radius, descent_samples
from .rrl_mnl import draw, factors


@kernel
def plan(par, state, work, x, k, out):
    believe(par, state, work, x)
    (H, S), A, noise, P = out.policy.shape, work.r.shape[1], work.noise, work.P
    factors(work.spread, work.factor)
    for h in range(H):
        for b in range(work.draws.shape[0]):
            t, eta, lam = state.samples[b] + 1.0, par.step[b], par.regularization[b]
            beta = par.scale * descent_radius(sizes_of(par, b), float(H), eta, lam, t, par.log)
            draw(par, k, h, H, work, b, H * beta)
            for s in range(S):
                for a in range(A):
                    if par.block[s, a] == b:
                        count, phi, mean = par.layout.count[s, a], par.features[s, a], work.q[1]
                        mean_feature(phi, P[s, a], count, mean)
                        most, _ = longest_feature(work.spread[b], phi, count)
                        total = 3.0 * H * beta * beta * most
                        for j in range(count):
                            best = dot(phi[j], work.draws[b, 0]) - dot(mean, work.draws[b, 0])
                            for m in range(1, work.draws.shape[1]):
                                best = max(best, dot(phi[j], work.draws[b, m]) - dot(mean, work.draws[b, m]))
                            total += P[s, a, j] * best
                        noise[h, s, a] = total
    plan_model(par, work, P, work.r, par.clip, k, out)


class ORRLMNL(MNLAgent):
    """ORRL-MNL (Cho et al. 2024, Algorithm 2): values perturbed next state by next state, online mirror descent.

        Q_h = clip( r + P_theta V_{h+1} + sum_j P_j max_m phibar_j' xi_h^m + 3 H beta^2 max_j ||phi_j||^2_{A^-1},
                    0, H - h )                                                                                (h from 0)
        xi_h^m ~ N(0, sigma^2 A^-1),   m = 1, ..., ceil(1 - ln(H U)/ln Phi(1)),   sigma = H beta
        theta, A   as `agents.baselines.mnl.online` has them (descent), A = lambda I and theta = 0 at first
        eta = alpha/2,  alpha = ln U + 2(1 + L B),  lambda = max(1, 12 sqrt 2 L^3 alpha, 48 L^2 p alpha)
        beta^2 = alpha (Gamma_A + Gamma_B) + lambda B^2,   Gamma_B = sqrt 6 (2 alpha/3) p ln(1 + 2 t L^2/(p lambda))
        Gamma_A = (3 ln(U t) + L B) (5 lambda/4 + 4 ln(H sqrt(1 + 2 t)/delta)) + 2

    (5) to (7), Lemmas 13 to 15, the line before (53) and Theorem 2 of the paper; phibar_j = phi_j - sum P_i phi_i,
    other letters as in `UCRLMNL`. t counts the steps of a block, as in `RRLMNL` (ours). The published clip is at most
    H (`ceiling`), with no least value. In the proof of Lemma 13 a distance |theta - theta*| is dropped that is at most
    2 B, so that the printed beta is for B <= 1/2.

    step_size     eta; None: as above
    samples       how many xi are drawn; None: as above

    Cost per episode O(sum (Q d)^2 + H M (Q d)^2) and `samples` H (Q^2 a block + Q M a pair); memory O(sum (Q d)^2).
    Both are constant in the number of episodes. Other options: `MNLAgent`. No guarantee is claimed.

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(3, 2, 4, 2)
    >>> full, tuned = (
    ...     nr.simulate(nr.agents.ORRLMNL(world.problem, **o), world, 500)
    ...     for o in ({}, {"regularization": 1.0, "bonus_scale": 0.003})
    ... )
    >>> bool(tuned.final[0] < 0.5 * full.final[0])
    True
    """

    name = "orrl-mnl"
    plan_kernel = staticmethod(plan)
    steps_kernel = staticmethod(descent_steps)
    randomised = True

    step_size: float | None = STEP_SIZE
    samples: int | None = SAMPLES

    def _recommended(self, p: float, L: float, B: float, U: int) -> float:
        return cho_regularization(p, L, B, U)

    def _eta(self, L: float, B: float, U: int) -> float:
        return cho_step(L, B, U)

    def _samples(self) -> int:
        return self.samples or descent_samples(self.problem.horizon, self._outcomes())
