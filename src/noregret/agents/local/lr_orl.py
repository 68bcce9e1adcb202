"""LR-ORL: optimism over likelihood-ratio sets, with bonuses that know the local shape of the softmax."""

import math

from ...compiler.jit import kernel
from ...planning.bonuses import EXACT
from ...planning.optimism import assess, optimum
from ..commit import put
from ..declared import BONUS_SCALE, DELTA, REGULARIZATION, REWARD_REGULARIZATION, choice
from ..promise import ALWAYS, OPTIMISM
from .family import REGRET_SHARE, SetAgent
from .options import BONUS, CERTIFICATES, FORM, PREDICTOR, REWARD_SETS, SETS
from .sets import apply_describe, follow


@kernel
def plan(par, state, work, x, k, out):
    apply_describe(par.describe, (par, state, work, x, 0))
    optimum(par.search, work.local, work.search, work.mean, k, par.scale, out.policy, out.values)
    if par.certify == 1:
        assess(par.search, work.local, work.search, out.policy, work.upper[:0], work.lower, EXACT)
        put(out.values, work.upper)  # its own policy attains the largest values
        follow(par, state, work, x, out.policy, out.values)


class LRORL(SetAgent):
    """Plan with the largest value that the sets of this individual's logits and mean rewards allow.

        Q_h = clip( r_high + P_hat V_{h+1} + bonus(V_{h+1}), 0, H - h )                                   (h from 0)

    with the bonus of `optimism`: free of a global curvature constant and of the union over states that a 1-norm width
    pays for, so that its guarantee is worth running with. Every plan is certified: plan.upper bounds the optimal
    values, plan.lower the plan's own, plan.certificate its shortfall.

    delta         all sets of all pairs hold in all episodes with probability 1 - delta (a fiftieth of it is kept for a
                  bound on the regret)
    optimism      "bonus", or "randomised": the first-order term of the bonus times the largest of J standard normals,
                  drawn anew for every (s, a, h), J = ceil(1 + ln(SAH)/0.1727). Then every plan whose sets hold is
                  optimistic with probability at least 0.158 given the past; nothing is certified
    bonus_scale   multiplies every bonus; anything but 1 carries no guarantee
    sets, bonus, reward_sets, certificates, predictor, form, regularization, reward_regularization   see `SetAgent`

    Cost per episode O(SA (Md)^2 + S A H M^2) to plan and O(H M (Md)^2) to learn, memory O(SA (Md)^2), constant in the
    number of episodes with online sets; "kron" has d for Md.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.LRORL(world.problem, delta=0.05)
    >>> patient = world.individual(0)
    >>> plan = agent.begin_episode(patient.context)
    >>> best, own = world.optimal(patient.context).values[0, 2], world.value(plan.policy, patient.context)
    >>> bool(plan.lower[0, 2] <= own <= best <= plan.upper[0, 2])  # with probability 0.95, for everybody at once
    True
    >>> bool(best - own <= plan.certificate)
    True
    """

    name = "lr-orl"
    plan_kernel = staticmethod(plan)
    promised = f"{ALWAYS}, {OPTIMISM} and plan.certificate at least the plan's shortfall from it"

    delta: float = DELTA
    sets: str = SETS
    bonus: str | None = BONUS
    optimism: str = choice("bonus", "randomised")
    bonus_scale: float = BONUS_SCALE
    reward_sets: str | None = REWARD_SETS
    certificates: str | None = CERTIFICATES
    predictor: str = PREDICTOR
    form: str = FORM
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION

    def _settle(self) -> None:
        super()._settle()
        self.bounds_values = self.optimism == "bonus" and self.bonus_scale == 1.0
        if not self.bounds_values:
            self.certificate_kernel = None
        self.regret_delta = REGRET_SHARE * self.delta if self.bounds_values else None

    def _perturbations(self) -> float:
        p = self.problem
        if self.options["optimism"] == "bonus":
            return 0.0
        return float(math.ceil(1.0 + math.log(p.n_states * p.n_actions * p.horizon) / 0.17275))

    def _promise(self) -> str | None:
        if self.options["bonus_scale"] != 1.0:
            return None
        if self.options["optimism"] == "randomised":
            return "in every episode whose sets hold, the plan is optimistic with probability at least 0.158"
        return super()._promise()
