"""PSRL-GLM: plan for a model drawn from the (approximate) posterior of a generalized linear population."""

import numpy as np

from .. import _checks as check
from .._jit import address, kernel
from .._random import DOUBT, POSTERIOR
from ..planning import NONE, TIE, apply_planner, hook_addresses
from ..problem import Problem
from .glm import tie_key
from .set_agent import SetAgent
from .set_draws import apply_draw, apply_several, best_draw, best_of_draws
from .sets import SetPar, SetState, SetWork

DRAWS = 32  # models drawn to see how sure a plan is


@kernel
def plan(par, state, work, x, k, out):
    apply_draw(par.draw, (par, state, work, x, k, POSTERIOR))
    key = tie_key(par.seed, k)
    if work.P.shape[0] == 1:
        head = work.P[0], par.layout, work.r[0], work.r[0], work.none, NONE, 1
        apply_planner(par.planner, (*head, key, work.Q, out.policy, out.values))
    else:
        args = par.layout, par.best_draw, work.P, work.r, key, k, work.Q, out.policy, out.values
        apply_several(par.several, args)


@kernel
def doubt(par, state, work, out, x, k, gap):
    """gap [S] <- the share of DRAWS models in which the first action of the plan is not an optimal one."""
    for s in range(gap.shape[0]):
        gap[s] = 0.0
    for m in range(DRAWS):
        apply_draw(par.draw, (par, state, work, x, k * DRAWS + m, DOUBT))
        head = work.P[0], par.layout, work.r[0], work.r[0], work.none, NONE, 1
        apply_planner(par.planner, (*head, tie_key(par.seed, k), work.Q, work.policy, work.values))
        for s in range(gap.shape[0]):
            if work.Q[s, out.policy[0, s]] < work.values[0, s] - TIE:
                gap[s] += 1.0 / DRAWS


class PSRLGLM(SetAgent):
    """Posterior sampling: draw a model of the population, plan for it, play that, learn.

        logits ~ N(W x, scale^2 (I (x) x') Lambda^{-1} (I (x) x)),  mean reward ~ N(theta'x, (scale ||x||_{V^{-1}}/2)^2)

    one draw per pair and episode, shared over the steps. W and Lambda are the online Laplace approximation of the
    posterior (`estimators.likelihood_ratio` with c = 1/2), theta and V ridge regression. Under the linear link the
    distribution itself is drawn around its ridge estimate (`agents.set_draws.draw_linear`).

    draws             J > 1 draws J models and plans with the best of them in every backup: insurance against a
                      posterior that has collapsed too early
    posterior_scale   multiplies every standard deviation; 1 is untuned

    The default where regret alone counts; it carries no guarantee: Bayesian regret is that of posterior sampling up to
    the error of the approximation. For a proved bound use `CertifiedPSRL`, for certificates around this agent
    `Certified`. Cost and memory as LR-ORL with online sets.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> run = nr.simulate(nr.PSRLGLM(world.problem), world, 300, seeds=2)
    >>> floor = nr.simulate(nr.UniformRandom(world.problem), world, 300, seeds=2)
    >>> bool(run.final.mean() < 0.2 * floor.final.mean())
    True
    >>> print(run.guarantee)
    None
    """

    name = "psrl-glm"
    plan_kernel = staticmethod(plan)
    doubt_kernel = staticmethod(doubt)
    draws_models, uses_sets = True, False
    certificate_kernel = None

    def __init__(
        self,
        problem: Problem,
        draws: int = 1,
        posterior_scale: float = 1.0,
        form: str = "full",
        regularization: float | None = None,
        reward_regularization: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            problem, seed, draws=check.integer("draws", draws),
            posterior_scale=check.nonnegative("posterior_scale", posterior_scale), form=form,
            regularization=regularization, reward_regularization=reward_regularization,
        )  # fmt: skip

    def _build(self) -> tuple[SetPar, SetState, SetWork]:
        par, state, work = super()._build()
        if self.options["draws"] > 1:
            layout, key = par.layout, np.uint64(0)
            hook, _ = hook_addresses(best_draw, None, layout, (work.P, work.r), 0)
            rest = key, 0, work.Q, work.policy, work.values
            several = address(best_of_draws, layout, 0, work.P, work.r, *rest)
            par = par._replace(several=several, best_draw=hook)
        return par, state, work
