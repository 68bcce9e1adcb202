"""LinUCB: ridge regression and a bonus with one number to choose (Li, Chu, Langford and Schapire 2010)."""

import math

from .... import checks as check
from ....compiler.jit import kernel
from ....estimators.rewards.forms import RewardPar, RewardState, RewardWork, reward_parts, with_kernels
from ....estimators.rewards.regression import reward_learn
from ....estimators.rewards.shared import dot_of, form_at, shapes_ridge
from ....numerics.linear_algebra import dot
from ....problem.problem import Problem
from ...declared import REGULARIZATION, option
from .family import BanditAgent, length_in, take_best_mean


@kernel
def plan(par, state, work, x, k, out):
    ridge, table = state.ridge, par.ridge
    shared = table.block.shape[0] > 0
    if shared:
        shapes_ridge(table, ridge, work.ridge, x)
    for s in range(work.score.shape[0]):
        for a in range(work.score.shape[1]):
            if shared:
                b, psi = table.block[s, a], table.features[s, a]
                length = math.sqrt(form_at(psi, work.ridge.forms[b, 0, 0]))
                work.score[s, a] = dot_of(psi, work.ridge.t[b, 0]) + par.scale * length
            else:
                work.score[s, a] = dot(ridge.theta[s, a], x) + par.scale * length_in(ridge.inverse[s, a], x)
    take_best_mean(par, work, k, out)


@kernel
def learn(par, state, work, x, k, n, path):
    for h in range(n):
        s, a, reward = path.states[h], path.actions[h], path.rewards[h]
        if not math.isnan(reward):
            reward_learn(par.ridge, state.ridge, work.ridge, s, a, reward, x)


class LinUCB(BanditAgent):
    """LinUCB (Li et al. 2010), as it is practised: take the arm with the largest estimate plus alpha times its length.

        score = theta_hat'u + alpha ||u||_{V^{-1}},   V = lambda I + sum u u',   theta_hat = V^{-1} sum u r

    Without a `reward_design` it is the disjoint LinUCB: a ridge regression for every pair, u = x. With one it is the
    shared LinUCB: a ridge regression for every block, u = X psi(s, a) the features of the arm and the person
    (`RewardDesign`; features in units of the blocks' bounds, where these differ).

    alpha           how much is explored. 1 is the default of MABWiser (`LearningPolicy.LinUCB`, 2.7) and of
                    contextualbandits (`LinUCB`, 0.3). Their tables are these: one model an arm, lambda = 1, no noise
                    estimated. The paper takes 1 + sqrt(ln(2/delta)/2), 2.4 at delta = 0.05
    regularization  lambda, recommended 1

    Nothing is promised: the bonus of a proof has a radius that grows with the data (`OFUL`). On rewards that are 0 or 1
    alpha = 1 is twice a standard deviation at first and is nearly always enough. It runs on logistic rewards, too.
    Cost per episode O(SA d^2), with a design O(q p^2) per block; memory O(SA d^2) or O(p^2) per block; both constant in
    the number of episodes.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.random_logit(n_states=1, n_actions=4, horizon=1)
    >>> ours, proved = (nr.simulate(agent(world.problem), world, 2000, every=2000) for agent in (nr.agents.LinUCB,
    ...                                                                                           nr.agents.OFUL))
    >>> bool(ours.final[0] < proved.final[0])
    True
    >>> print(nr.agents.LinUCB(world.problem).guarantee)
    None
    >>> prices = np.linspace(0.0, 1.0, 20)[None, :, None]  # 20 arms, one number each: what is learned of one is learned
    >>> features = np.concatenate([np.ones_like(prices), prices], axis=2)  # of all
    >>> design = nr.RewardDesign(features, bound=2.0)
    >>> shop = nr.worlds.random_logit(horizon=1, context_dim=3, reward_design=design)
    >>> agent = nr.agents.LinUCB(shop.problem)
    >>> agent.state.ridge.theta.shape  # one block, two features times three entries of the context
    (1, 1, 6)
    """

    name = "linucb"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)
    logistic = False
    uses_ridge = shares_weights = True
    promised = None
    consistent_values = False

    alpha: float = option(1.0, check.nonnegative)
    regularization: float | None = REGULARIZATION

    def _settle(self) -> None:
        self.bounds_values = False

    def _scale(self) -> tuple[float, float]:
        return self.options["alpha"], 1.0

    def _ridge_parts(self, linear: Problem, lam: float | None) -> tuple[RewardPar, RewardState, RewardWork]:
        par, state, work = reward_parts(linear, "ridge", 0.0, lam, shared=True)
        return with_kernels(par, state, work, "learn"), state, work
