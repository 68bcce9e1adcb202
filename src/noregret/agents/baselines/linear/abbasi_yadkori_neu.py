"""Optimism over entrywise confidence boxes (Abbasi-Yadkori and Neu 2014, Algorithm 1)."""

from .... import checks as check
from ....compiler.jit import kernel
from ....estimators.linear.entrywise import IDENTITY, SIGMA
from ....planning.bellman import expectation
from ....problem.links import LinearCombination, MultinomialLogit
from ...declared import BONUS_SCALE, DELTA, REGULARIZATION, REWARD_REGULARIZATION, option
from ...endings import plan_hooked
from ...promise import ALWAYS, OPTIMISM
from .box import close_box, poured, sort_down
from .family import EntrywiseAgent, believe


@kernel
def plan(par, state, work, x, k, out):
    believe(par, state, work, x)
    work.empty[0] = 0
    if par.variant == 1:
        count = par.layout.count
        for s in range(count.shape[0]):
            for a in range(count.shape[1]):
                work.empty[0] += close_box(
                    work.P[s, a], work.width[s, a], par.scale, count[s, a], work.low[s, a], work.high[s, a]
                )
    plan_hooked(par, state, work, work.P, work.r, k, out.policy, out.values)


@kernel
def adjust(par, state, work, k, h, P, V_next, Q):
    """Q += max p'V_next - P_hat'V_next over the box of every pair."""
    outcomes, count = par.layout.outcomes, par.layout.count
    if par.variant == 1:
        sort_down(V_next, work.order)
    for s in range(Q.shape[0]):
        for a in range(Q.shape[1]):
            if par.variant == 1:
                best = poured(work.low[s, a], work.high[s, a], par.slots[s, a], work.order, V_next)
                Q[s, a] += best - expectation(P, par.layout, s, a, V_next)
            else:
                for j in range(count[s, a]):
                    up = min(1.0, P[s, a, j] + par.scale * work.width[s, a, j])
                    Q[s, a] += (up - P[s, a, j]) * V_next[outcomes[s, a, j]]


class AbbasiYadkoriNeu(EntrywiseAgent):
    """Optimism over an interval for every transition probability (Abbasi-Yadkori and Neu 2014).

    Every transition probability is a generalized linear function of the context, P(j|s, a, x) = mu(theta_j'x); plans
    with the largest mean of V_{h+1} that the intervals of the entries allow.

        Q_h = clip( r_hat + xi_r + max { p'V_{h+1} : |p_j - P_hat_j| <= w_j, 0 <= p_j <= 1 }, 0, H - h )    (h from 0)

    mu is the identity under LinearCombination (ridge regression) and the sigmoid under every other link (an online
    Newton step per entry): P_hat and w of `estimators.linear.entrywise`. The structure is the paper's, from memory; the
    radii are this library's.

    repaired      False: as published, nothing makes p sum to one, so every entry goes to its upper end. True:
                  sum p = 1, by pouring mass into the best next states (`agents.baselines.linear.box`); never a larger
                  value as long as the intervals allow a distribution
    delta         split evenly over S^2 A entries and, unless rewards are known, S A mean rewards

    Caveat: the entries of a multinomial logit with three or more possible outcomes are not sigmoids of linear
    functions. There the model is wrong and nothing is claimed; with at most two outcomes everywhere it is exact. Where
    the intervals of a pair allow no distribution (then one of them is wrong), repaired=True plans with the nearer ends,
    normalised; `empty_sets` counts such pairs.

    Cost per episode O(SA(Sd + d^2) + S^2 A H), memory O(SA(Sd + d^2)), both constant in the number of episodes.

    >>> import noregret as nr
    >>> for world in (nr.worlds.random_linear(), nr.worlds.clinic(), nr.worlds.random_logit()):
    ...     agent = nr.agents.AbbasiYadkoriNeu(world.problem, repaired=True)
    ...     print(world.name, agent.problem.layout.count.max(), agent.guarantee is not None)
    random-linear 5 True
    clinic 2 True
    random-logit 5 False
    """

    name = "abbasi-yadkori-neu"
    plan_kernel = staticmethod(plan)
    hooks = adjust, None
    promised = f"{ALWAYS}, {OPTIMISM}, where transitions are linear in the context or a logit with two outcomes"

    delta: float = DELTA
    repaired: bool = option(False, check.flag)
    bonus_scale: float = BONUS_SCALE
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION

    def _settle(self) -> None:
        p, self.variant = self.problem, self.repaired
        binary = isinstance(p.link, MultinomialLogit) and int(p.layout.count.max()) <= 2
        self.bounds_values = (isinstance(p.link, LinearCombination) or binary) and self.bonus_scale == 1.0

    def _model(self) -> tuple[int, float, int]:
        p = self.problem
        S, A = p.n_states, p.n_actions
        mean = IDENTITY if isinstance(p.link, LinearCombination) else SIGMA
        return mean, p.weight_bound, S * S * A + (S * A if p.known_rewards is None else 0)

    @property
    def empty_sets(self) -> int:
        """Pairs whose intervals allowed no distribution in the last plan (0 unless repaired)."""
        return int(self.work.empty[0])
