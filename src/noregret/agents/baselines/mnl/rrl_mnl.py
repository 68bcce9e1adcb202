"""RRL-MNL: values perturbed in the direction of the longest feature (Cho, Hwang, Lee and Oh 2024, Algorithm 1)."""

import math

from ....compiler.jit import inlined, kernel
from ....numerics.linear_algebra import dot
from ....numerics.random import CORE, normals
from ...endings import plan_model
from .family import KAPPA, SAMPLES, MNLAgent, believe, longest_feature, sizes_of
from .online import newton_steps
from .radii import newton_radius, newton_samples


@inlined
def factors(C, factor):
    """factor [B, Q, Q] <- lower triangles with L L' = C [B, Q, Q]; a direction that x does not touch has 0."""
    for b in range(C.shape[0]):
        L = factor[b]
        for i in range(L.shape[0]):
            for j in range(i + 1):
                v = C[b, i, j]
                for o in range(j):
                    v -= L[i, o] * L[j, o]
                if i == j:
                    L[i, i] = math.sqrt(v) if v > 1e-14 * C[b, i, i] else 0.0
                else:
                    L[i, j] = v / L[j, j] if L[j, j] > 0.0 else 0.0


@inlined
def draw(par, k, h, H, work, b, deviation):
    """work.draws[b, m] <- deviation times N(0, C_b), m = 0, 1, ...: coordinate i takes number ((b H + h) M + m) Q + i
    of the normals of this episode."""
    M, Q, L = work.draws.shape[1], work.draws.shape[2], work.factor[b]
    first, even, odd = (b * H + h) * M * Q, 0.0, 0.0
    for m in range(M):
        for i in range(Q):
            number = first + m * Q + i
            if number % 2 == 0 or number == first:  # they come in twos
                even, odd = normals(par.seed, k, number // 2, CORE)
            work.q[0, i] = even if number % 2 == 0 else odd
        for i in range(Q):
            total = 0.0
            for o in range(i + 1):
                total += L[i, o] * work.q[0, o]
            work.draws[b, m, i] = deviation * total


@kernel
def plan(par, state, work, x, k, out):
    believe(par, state, work, x)
    (H, S), A, noise = out.policy.shape, work.r.shape[1], work.noise
    factors(work.spread, work.factor)
    for h in range(H):
        for b in range(work.draws.shape[0]):
            t = state.samples[b] + 1.0
            radius = newton_radius(sizes_of(par, b), par.kappa[b], par.regularization[b], t, par.log)
            draw(par, k, h, H, work, b, H * par.scale * radius)
        for s in range(S):
            for a in range(A):
                b, phi = par.block[s, a], par.features[s, a]
                _, j = longest_feature(work.spread[b], phi, par.layout.count[s, a])
                best = dot(phi[j], work.draws[b, 0])
                for m in range(1, work.draws.shape[1]):
                    best = max(best, dot(phi[j], work.draws[b, m]))
                noise[h, s, a] = best
    plan_model(par, work, work.P, work.r, par.clip, k, out)


class RRLMNL(MNLAgent):
    """RRL-MNL (Cho et al. 2024, Algorithm 1): values perturbed along the longest feature, online Newton steps.

        Q_h = clip( r + P_theta V_{h+1} + max_m phi_j*' xi_h^m, 0, H - h ),   j* = argmax_j ||phi_j||_{A^-1}  (h from 0)
        xi_h^m ~ N(0, sigma^2 A^-1),   m = 1, ..., ceil(1 - ln H/ln Phi(1)),   sigma = H alpha
        theta, A   as `agents.baselines.mnl.online` has them (newton), A = lambda I and theta = 0 at first
        alpha^2 = 8 p/kappa ln(1 + t U L^2/(p lambda)) + (32 L B/3 + 16/kappa) ln((1 + ceil(2 log2(t U L B))) t^2/delta)
                  + 2 sqrt 2 + 2 lambda B^2

    with lambda = L^2: (2) to (4), Lemmas 1 and 6 and Theorem 1 of the paper; letters as in `UCRLMNL`. The paper has an
    estimator per step of an episode, and t counts episodes; here one serves all steps, and t counts its steps (ours).
    The published clip is at most H (`ceiling`), with no least value.

    kappa         as in `UCRLMNL`; A grows by kappa/2 times the features, so that with the default the estimate hardly
                  settles in runs of ordinary length
    samples       how many xi are drawn; None: as above

    Cost per episode O(sum (Q d)^2 + H M (Q d)^2) and `samples` H (Q^2 a block + Q a pair); memory O(sum (Q d)^2). Both
    are constant in the number of episodes. Other options: `MNLAgent`. No guarantee is claimed.

    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(3, 2, 4, 2)
    >>> full, tuned = (
    ...     nr.simulate(nr.agents.RRLMNL(world.problem, **o), world, 500)
    ...     for o in ({}, {"kappa": 0.1, "bonus_scale": 0.003})
    ... )
    >>> bool(tuned.final[0] < 0.5 * full.final[0])
    True
    """

    name = "rrl-mnl"
    plan_kernel = staticmethod(plan)
    steps_kernel = staticmethod(newton_steps)
    randomised = True

    kappa: float | None = KAPPA
    samples: int | None = SAMPLES

    def _recommended(self, p: float, L: float, B: float, U: int) -> float:
        return L * L

    def _samples(self) -> int:
        return self.samples or newton_samples(self.problem.horizon)
