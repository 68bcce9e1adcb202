"""LR-ORL: optimism over likelihood-ratio sets, with bonuses that know the local shape of the softmax."""

from .. import _checks as check
from .._jit import kernel
from ..optimism import bound_policy
from ..planning import backward_induction_with
from ..problem import Problem
from .glm import tie_key
from .likelihood import SetAgent, apply_describe


@kernel
def plan(par, state, work, x, k, out):
    apply_describe(par.describe, (par, state, work, x))
    local, key = work.local, tie_key(par.seed, k)
    backward_induction_with(
        par.adjust, 0, local.P, par.layout, local.high, 1, key, par, state, work, k, work.Q, out.policy, out.values
    )
    if par.certify == 1:
        bound_policy(local, par.layout, par.sharp, out.policy, work.upper, work.lower, work.passes)


class LRORL(SetAgent):
    name = "lr-orl"
    plan_kernel = staticmethod(plan)
    bounds_values = True

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        bonus: str = "taylor",
        predictor: str = "unscented",
        form: str = "full",
        certify: bool = True,
        regularization: float = 1.0,
        reward_regularization: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            problem, seed, delta=check.positive("delta", delta, below=1.0), bonus=bonus, predictor=predictor, form=form,
            certify=certify, regularization=regularization, reward_regularization=reward_regularization
        )  # fmt: skip
