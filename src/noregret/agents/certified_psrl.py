"""Certified PSRL: posterior sampling behind a gate that makes it provable."""

from .. import _checks as check
from .._jit import inlined, kernel
from .._random import POSTERIOR
from .._threads import locked
from ..planning import NONE, apply_planner
from ..problem import Problem
from .glm import tie_key
from .psrl_glm import doubt
from .set_agent import REGRET_SHARE, SetAgent
from .set_draws import apply_draw
from .sets import apply_describe, assess, optimum

RUNGS = 6  # optimistic policies with a part of the bonus that are tried before full optimism
LEAST, MOST = 0.2, 0.76  # those parts, in geometric progression


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
    apply_draw(par.draw, (par, state, work, x, k, POSTERIOR))
    head = work.P[0], par.layout, work.r[0], work.r[0], work.none, NONE, 1
    apply_planner(par.planner, (*head, tie_key(par.seed, k), work.Q, work.policy, work.values))
    apply_describe(par.describe, (par, state, work, x))
    optimum(par, work, k, 1.0, out.policy, out.values)
    assess(par, work, work.policy)
    tried = 0
    while tried < RUNGS and not passes(par, work, out.values):
        optimum(par, work, k, LEAST * (MOST / LEAST) ** (tried / (RUNGS - 1.0)), work.policy, work.values)
        assess(par, work, work.policy)
        tried += 1
    if passes(par, work, out.values):
        for h in range(out.policy.shape[0]):
            for s in range(out.policy.shape[1]):
                out.policy[h, s] = work.policy[h, s]
    else:
        tried += 1
        assess(par, work, out.policy)
    state.gate[tried] += 1


class CertifiedPSRL(SetAgent):
    """Play the policy of a posterior draw if the confidence sets do not object, otherwise a more optimistic one.

    They do not object where, for all that they know, the policy may still be nearly optimal.

    Over the sets of this individual let V~ be the optimistic value, U and L the upper and lower value of a policy. It
    is played if at every initial state the problem allows

        V~ - U <= kappa (U - L)

    Candidates, in turn: the draw of PSRL-GLM, optimistic policies with a part of the bonus (.2 to .76, six rungs), the
    optimistic policy itself, which always passes. Then, wherever the sets hold, V* - V^pi <= (1 + kappa)(U - L): the
    regret is at most 1 + kappa times the sum of the played policies' own widths, for any sampler and any contexts.
    plan.certificate is V~ - L at the worst initial state.

    kappa             0 is optimism, large values trust the sampler; `gate` counts which candidates were played
    posterior_scale   of the sampler; any value keeps the guarantee
    delta, sets, bonus, reward_sets, predictor, form, regularization, reward_regularization   see `LRORL` and `SetAgent`

    Cost per episode that of LR-ORL and PSRL-GLM, plus two passes for each rung that is tried.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.CertifiedPSRL(world.problem, kappa=0.5)
    >>> for k in range(20):
    ...     patient = world.individual(k)
    ...     x = patient.context
    ...     plan = agent.begin_episode(x)
    ...     while patient.steps < world.problem.horizon:
    ...         agent.observe(*patient.step(agent.act(patient.state)))
    ...     agent.end_episode()
    >>> bool(world.optimal(x).values[0, 2] - world.value(plan.policy, x) <= plan.certificate)
    True
    >>> agent.gate  # whose policies were played: so early the sets know too little to object to any draw
    {'draw': 20, 'part': 0, 'optimism': 0}
    """

    name = "certified-psrl"
    plan_kernel = staticmethod(plan)
    doubt_kernel = staticmethod(doubt)
    draws_models = bounds_values = True

    def __init__(
        self,
        problem: Problem,
        kappa: float = 0.5,
        delta: float = 0.05,
        sets: str = "online",
        bonus: str | None = None,
        posterior_scale: float = 1.0,
        reward_sets: str | None = None,
        predictor: str = "unscented",
        form: str = "full",
        regularization: float | None = None,
        reward_regularization: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            problem, seed, kappa=check.nonnegative("kappa", kappa), delta=check.positive("delta", delta, below=1.0),
            sets=sets, bonus=bonus, posterior_scale=check.nonnegative("posterior_scale", posterior_scale),
            reward_sets=reward_sets, predictor=predictor, form=form, regularization=regularization,
            reward_regularization=reward_regularization,
        )  # fmt: skip
        self.regret_delta = REGRET_SHARE * self.options["delta"]

    @property
    @locked
    def gate(self) -> dict[str, int]:
        """How many episodes were played by the draw, by an optimistic policy with a part of the bonus, and by full
        optimism."""
        n = self.state.gate
        return {"draw": int(n[0]), "part": int(n[1 : RUNGS + 1].sum()), "optimism": int(n[RUNGS + 1])}

    def _promise(self) -> str | None:
        return (
            f"with probability {1 - self.options['delta']:g}, in every episode and for any contexts within the bounds, "
            f"the plan's shortfall is at most plan.certificate and {1 + self.options['kappa']:g} times its own width"
        )
