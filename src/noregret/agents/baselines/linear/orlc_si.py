"""ORLC-SI: optimism with certificates and side information (Dann, Li, Wei and Brunskill 2019, Algorithm 2)."""

import math

from .... import checks as check
from ....checks import Floats
from ....compiler.jit import inlined, kernel, merged
from ....estimators.linear.entrywise import IDENTITY
from ....planning.bellman import expectation
from ....problem.links import LinearCombination, simplex_rows
from ...base import gap_to_lower
from ...declared import BONUS_SCALE, DELTA, REGULARIZATION, REWARD_REGULARIZATION, option
from ...endings import plan_hooked
from ...promise import OPTIMISM
from .family import EntrywiseAgent, believe


@kernel
def plan(par, state, work, x, k, out):
    believe(par, state, work, x)
    if par.variant == 1:  # an entry moves by at most as much again when the row is projected
        simplex_rows(merged(work.P), 1.0, merged(par.layout.count), work.moved)
        for i in range(work.width.shape[0]):
            for a in range(work.width.shape[1]):
                for j in range(work.width.shape[2]):
                    work.width[i, a, j] = min(1.0, 2.0 * work.width[i, a, j])
    work.lower[work.lower.shape[0] - 1] = 0.0
    plan_hooked(par, state, work, work.P, work.r, k, out.policy, out.values)


@inlined
def bonus(par, work, s, a, V):
    """sum_j w_j V(outcome j): the l1 norm of V times the width of an entry."""
    total = 0.0
    for j in range(par.layout.count[s, a]):
        total += work.width[s, a, j] * V[par.layout.outcomes[s, a, j]]
    return par.scale * total


@kernel
def adjust(par, state, work, k, h, P, V_next, Q):
    for s in range(Q.shape[0]):
        for a in range(Q.shape[1]):
            Q[s, a] += bonus(par, work, s, a, V_next)


@kernel
def settle(par, state, work, k, h, P, policy, V):
    """The lower values of the policy just chosen: the same bonus, subtracted."""
    H, S = policy.shape
    for s in range(S):
        a = policy[h, s]
        pessimistic = work.reward[s, a] - work.bonus[s, a]
        q = pessimistic + expectation(P, par.layout, s, a, work.lower[h + 1]) - bonus(par, work, s, a, V[h + 1])
        work.lower[h, s] = min(max(q, 0.0), float(H - h))


class ORLCSI(EntrywiseAgent):
    """ORLC-SI (Dann et al. 2019): optimism with certificates, transitions being linear in the context.

    Every transition probability is a linear function of the context; ridge regression for each, a bonus for its error
    times the size of V, and a certificate.

        Q_h     = clip( r_hat + P_hat V_{h+1} + psi, 0, H - h ),       V_h = max Q_h           (h from 0)
        lower_h = clip( r_hat + P_hat lower_{h+1} - psi, 0, H - h )    at the action chosen
        psi     = ||V_{h+1}||_1 w + xi_r
        w       = ( sqrt(lambda) B_p + sqrt(1/2 ln(1/delta') + 1/4 ln det Z/lambda^d) ) ||x||_{Z^-1},   xi_r likewise

    the norm over the possible next states. P_hat = clip(theta_j'x, 0, 1), entry by entry: as published, rows need not
    sum to one. plan.certificate bounds how far the policy is from optimal, in any initial state.

    delta'        delta/(S(SA + A + H)); this and the radius are from memory of the paper. The split covers the S^2 A
                  entries and S A mean rewards, which is what the guarantee needs
    normalise     True: rows are projected on the simplex. An entry's error then is at most 2 w, not w: each entry of
                  the projection is max(P_hat_j - t, 0) with |t| <= w. So w is doubled

    Widths are capped at 1, which loses nothing. On other links than LinearCombination the linear model is fitted all
    the same (with B_p = sqrt(d)); it is then wrong, and nothing is claimed.

    Cost per episode O(SA(Sd + d^2) + S^2 A H), memory O(SA(Sd + d^2)), both constant in the number of episodes.

    >>> import noregret as nr
    >>> linear, logit = nr.worlds.random_linear(), nr.worlds.random_logit()
    >>> print(*nr.agents.ORLCSI(linear.problem).guarantee.split(", "), sep="\\n")
    if the linear model of transitions holds and mean rewards are linear with weights of norm at most 2
    then with probability 0.95
    in every episode and for any contexts in the simplex
    plan.upper is at least the optimal value and plan.lower at most the policy's
    >>> print(nr.agents.ORLCSI(logit.problem).guarantee)
    None
    """

    name = "orlc-si"
    plan_kernel = staticmethod(plan)
    certificate_kernel = staticmethod(gap_to_lower)
    hooks = adjust, settle
    promised = f"in every episode and for any contexts in the simplex, {OPTIMISM} and plan.lower at most the policy's"

    delta: float = DELTA
    normalise: bool = option(False, check.flag)
    bonus_scale: float = BONUS_SCALE
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION

    def _settle(self) -> None:
        self.variant = self.normalise
        self.bounds_values = isinstance(self.problem.link, LinearCombination) and self.bonus_scale == 1.0

    def _model(self) -> tuple[int, float, int]:
        p = self.problem
        S, A, H = p.n_states, p.n_actions, p.horizon
        bound = p.weight_bound if isinstance(p.link, LinearCombination) else math.sqrt(p.context_dim)
        return IDENTITY, bound, S * (S * A + A + H)

    def _lower(self) -> Floats | None:
        return self.work.lower.copy() if self.bounds_values else None
