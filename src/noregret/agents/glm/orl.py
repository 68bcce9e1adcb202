"""GLM-ORL: optimism in the face of uncertainty for contextual MDPs (Modi and Tewari 2020, Algorithm 2)."""

import math

from ...compiler.jit import kernel
from ...numerics.random import tie_key
from ...planning.bellman import TO_REST, Model, Operator, Solution, apply_planner
from ...problem.problem import Problem
from ..declared import BONUS_SCALE, CONSTANTS, DELTA, REGULARIZATION, REWARD_REGULARIZATION
from ..promise import ALWAYS, OPTIMISM
from .family import CONFIDENCE, GROUP_BOUND, LEARNER, GLMAgent, apply_beliefs


@kernel
def plan(par, state, work, x, k, out):
    """Believe; then plan with rewards r_hat + xi_r and widths par.scale xi_p, values clipped to [0, H - h]."""
    apply_beliefs(par.believe, (par, state, work, x, par.log_confidence))
    belief = work.belief
    for s in range(work.r.shape[0]):
        for a in range(work.r.shape[1]):
            work.r[s, a] = belief.reward[s, a] + belief.bonus[s, a]
            work.xi[s, a] = par.scale * belief.width[s, a]
    key = tie_key(par.seed, k)  # a word that picks among actions of equal value
    model = Model(belief.P, work.r, work.xi, work.noise)
    found = Solution(work.Q, out.policy, out.values)
    apply_planner(par.planner, (par.layout, model, Operator(par.belief.spread, TO_REST, key), found))


class GLMORL(GLMAgent):
    """GLM-ORL (Modi and Tewari 2020): plan with the largest value the confidence sets allow, then learn.

        Q_h = clip( P_hat V_{h+1} + r_hat + spread(V_{h+1}) xi_p + xi_r, 0, H - h )        (h from 0)

    delta         the sets of all pairs, and with them optimism in every episode, hold with probability 1 - delta
    constants     "corrected": half the span of V (or its centred 2-norm, linear link), Theorems A and B, delta split
                  over 2 n_pairs + 1 events, or over the blocks of a design and one. "paper": the sup-norm, Theorem 3.1,
                  delta/(2SA + SH); the value clip is H - h in both, the printed one (H - h - 1) being a slip that makes
                  the last step worthless
    bonus_scale   multiplies every bonus, that of a reward before it is cut to 1; anything but 1 carries no guarantee
    confidence, learner, group_bound, regularization, reward_regularization   see `GLMAgent`

    Cost per episode O(SA(Sd + d^2) + S^2 A H), memory O(SA(Sd + d^2)), both constant in the number of episodes. With a
    design: `estimators.newton.shared`.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.GLMORL(world.problem, delta=0.1)
    >>> print(*agent.guarantee.split(", "), sep="\\n")
    if every row of transition weights has norm at most 4.4
    the logit model of transitions holds and mean rewards are linear with weights of norm at most 1.732
    then with probability 0.9
    in every episode and for any contexts within the bounds
    plan.upper is at least the optimal value
    >>> x = world.context(seed=0, episode=0)
    >>> plan = agent.begin_episode(x)
    >>> bool(plan.upper[0, 2] >= world.optimal(x).values[0, 2])
    True
    >>> print(nr.GLMORL(world.problem, bonus_scale=0.1).guarantee)
    None
    """

    name = "glm-orl"
    plan_kernel = staticmethod(plan)
    uses_widths = optimistic = consistent_values = steady = True
    promised = f"{ALWAYS}, {OPTIMISM}"

    delta: float = DELTA
    constants: str = CONSTANTS
    bonus_scale: float = BONUS_SCALE
    confidence: str = CONFIDENCE
    learner: str = LEARNER
    group_bound: float | None = GROUP_BOUND
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION

    def _settle(self) -> None:
        super()._settle()
        self.bounds_values = self.constants == "corrected" and self.bonus_scale == 1.0
        self.regret_delta = math.exp(-self._log_confidence(self.problem)) if self.bounds_values else None

    def _log_confidence(self, problem: Problem) -> float:
        S, A, H = problem.n_states, problem.n_actions, problem.horizon
        bounded = self._sets() + 1  # and the bound on the regret
        events = 2 * S * A + S * H if self.options["constants"] == "paper" else bounded
        return math.log(events / self.options["delta"])
