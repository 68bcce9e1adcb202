"""Certified PSRL: posterior sampling behind a gate that makes it provable."""

from .. import _checks as check
from .._jit import inlined, kernel
from ..optimism import bound_policy
from ..planning import NONE, apply_planner, backward_induction_with
from ..problem import Problem
from .glm import tie_key
from .likelihood import SetAgent, apply_describe
from .psrl_glm import draw

RUNGS = 6  # optimistic policies with a part of the bonus that are tried before full optimism


@inlined
def passes(par, work, top):
    """Whether the policy with values in work.upper, work.lower may be played: at every initial state
    top - upper <= kappa (upper - lower)."""
    for i in range(par.starts.shape[0]):
        s = par.starts[i]
        if top[0, s] - work.upper[0, s] > par.kappa * (work.upper[0, s] - work.lower[0, s]) + 1e-12:
            return False
    return True


@kernel
def plan(par, state, work, x, k, out):
    apply_describe(par.describe, (par, state, work, x))
    local, layout, key = work.local, par.layout, tie_key(par.seed, k)
    work.scale[0] = 1.0
    backward_induction_with(
        par.adjust, 0, local.P, layout, local.high, 1, key, par, state, work, k, work.Q, out.policy, out.values
    )
    draw(par, state, work, x, k)
    head = work.P[0], layout, work.r[0], work.r[0], work.none, NONE, 1
    apply_planner(par.planner, (*head, key, work.Q, work.policy, work.values))
    bound_policy(local, layout, par.sharp, work.policy, work.upper, work.lower, work.passes)
    played = 0
    while played <= RUNGS and not passes(par, work, out.values):
        played += 1
        if played <= RUNGS:
            scale = 0.2 * 3.8 ** ((played - 1.0) / (RUNGS - 1.0))
            work.scale[0] = scale
            for s in range(work.r.shape[1]):
                for a in range(work.r.shape[2]):
                    work.r[0, s, a] = work.mean[s, a] + scale * (local.high[s, a] - work.mean[s, a])
            backward_induction_with(
                par.adjust, 0, local.P, layout, work.r[0], 1, key, par, state, work, k, work.Q, work.policy, work.values
            )
            bound_policy(local, layout, par.sharp, work.policy, work.upper, work.lower, work.passes)
        else:
            bound_policy(local, layout, par.sharp, out.policy, work.upper, work.lower, work.passes)
    if played <= RUNGS:
        for h in range(out.policy.shape[0]):
            for s in range(out.policy.shape[1]):
                out.policy[h, s] = work.policy[h, s]
    state.gate[played] += 1


class CertifiedPSRL(SetAgent):
    name = "certified-psrl"
    plan_kernel = staticmethod(plan)
    samples = bounds_values = True

    def __init__(
        self,
        problem: Problem,
        kappa: float = 0.5,
        delta: float = 0.05,
        bonus: str = "taylor",
        posterior_scale: float = 1.0,
        form: str = "full",
        regularization: float = 1.0,
        reward_regularization: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            problem, seed, kappa=check.nonnegative("kappa", kappa), delta=check.positive("delta", delta, below=1.0),bonus=bonus, posterior_scale=check.nonnegative("posterior_scale", posterior_scale),
            form=form,  regularization=regularization, reward_regularization=reward_regularization
        )  # fmt: skip
