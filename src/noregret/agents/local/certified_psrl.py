"""Certified PSRL: plans that explore, by a part of what is not known or by posterior sampling, behind a gate that makes
them provable."""

import math

from ... import checks as check
from ...beliefs.local import is_shared
from ...compiler.jit import formula, inlined, kernel
from ...compiler.slots import filled
from ...numerics.random import POSTERIOR
from ...planning.bonuses import EXACT, GLANCE, UPPER_AGAIN
from ...planning.optimism import SHARP, assess, optimum
from ...problem.problem import Problem
from ..commit import put
from ..declared import DELTA, REGULARIZATION, REWARD_REGULARIZATION, option
from ..locks import locked
from ..lottery import FLOOR, PLANS, STREAM, play
from ..lottery import price as price_of
from ..promise import ALWAYS
from .belief import unsure
from .draws import apply_draw, doubt, plan_draw
from .explore import apply_propose
from .family import REGRET_SHARE, RUNGS, SetAgent
from .lottery import apply_proposals, assess_lottery
from .options import BONUS, CERTIFICATES, EXPLORATION, FORM, POSTERIOR_SCALE, PREDICTOR, REWARD_SETS, SETS
from .sets import apply_describe, follow

LEAST_PART, LARGEST_PART = 0.2, 0.76  # of the bonus, on the first and the last of the RUNGS; geometric between
GROWTH, EARLY = 0.5, 5000.0  # of the usual kappa (`kappa_at`)


@formula
def kappa_at(kappa: float, growth: float, k: float) -> float:
    """kappa (1 + growth ln(k/5000)) for individual k, from the 5,000th on. What the sampler has settled the sets settle
    later: its plans become known faster than what they leave out is ruled out, and V~ - U over U - L grows."""
    return kappa * (1.0 + growth * math.log(max(k / EARLY, 1.0)))


@kernel
def passes(starts, kappa, top, upper, lower):
    """Whether a policy with these values [S] at the first step may be played: at every initial state
    top - upper <= kappa (upper - lower)."""
    for i in range(starts.shape[0]):
        s = starts[i]
        if top[s] - upper[s] > kappa * (upper[s] - lower[s]) + 1e-12:
            return False
    return True


@inlined
def climb(par, work, k, kappa, policy, top):
    """policy [H, S] <- itself if it passes the gate, else the first of the rungs that does; returns how many rungs were
    tried, RUNGS + 1 if none passes. Per pair and with TAYLOR bonuses every candidate is judged once, by U (EXACT).
    Elsewhere what does not pass by a U that takes less time (GLANCE) is judged again by U itself:

    Under SHARP bonuses by that of rewards alone, the centre of the sets for the model. It is at most U, so what passes
    with it passes.

    Where weights are shared the draw is first judged by a U without first-order terms. It is nearly always smaller, and
    Theorem 8 asks nothing of U: V* - V^pi <= V~ - L = (V~ - U) + (U - L), so what passes with any U is short by at most
    (1 + kappa)(U - L) of the same U. Close certificates need U anyway."""
    search, local, scratch, upper, lower = par.search, work.local, work.search, work.upper, work.lower
    sharp = search.kind == SHARP
    how, tried = GLANCE if sharp or (par.close == 0 and is_shared(local)) else EXACT, 0
    while True:
        assess(search, local, scratch, policy, upper, lower, how)
        passed = passes(par.starts, kappa, top[0], upper[0], lower[0])
        if how == GLANCE and not passed:
            assess(search, local, scratch, policy, upper, lower, UPPER_AGAIN if sharp else EXACT)
            passed = passes(par.starts, kappa, top[0], upper[0], lower[0])
        if passed or tried == RUNGS:
            break
        how = GLANCE if sharp else EXACT
        part = LEAST_PART * (LARGEST_PART / LEAST_PART) ** (tried / (RUNGS - 1.0))
        optimum(search, local, scratch, work.mean, k, part, policy, work.values)
        tried += 1
    return tried if passed else RUNGS + 1


@kernel
def plan(par, state, work, x, k, out):
    """Propose a policy (work.policy), for which work.local has the posterior; describe the sets of x (work.local);
    out.values <- V~; let the proposal through the gate, or a rung, or the optimistic policy; work.upper, work.lower <-
    U and L of what is played."""
    if filled(par.propose):
        apply_propose(par.propose, (par, state, work, x, k, work.policy, work.values))
    else:
        apply_draw(par.draw, (par, state, work, x, k, POSTERIOR))
        plan_draw(par, work, k, work.policy, work.values)
    apply_describe(par.describe, (par, state, work, x, 1))
    optimum(par.search, work.local, work.search, work.mean, k, 1.0, out.policy, out.values)
    tried = climb(par, work, k, kappa_at(par.kappa, par.kappa_growth, k), work.policy, out.values)
    if tried <= RUNGS:
        put(work.policy, out.policy)
    else:
        how = GLANCE if par.search.kind == SHARP else EXACT
        assess(par.search, work.local, work.search, out.policy, work.upper, work.lower, how)
    state.gate[tried] += 1
    follow(par, state, work, x, out.policy, out.values)


@kernel
def plan_gated(par, state, work, x, k, out):
    """The same with several plans or a floor: every plan goes through the gate, without the floor."""
    apply_proposals(par.proposals, (par, state, work, x, k, out))
    apply_describe(par.describe, (par, state, work, x, 1))
    optimum(par.search, work.local, work.search, work.mean, k, 1.0, out.policy, out.values)
    kappa = kappa_at(par.kappa, par.kappa_growth, k)
    for i in range(out.plans.shape[0]):
        tried = climb(par, work, k + i * STREAM, kappa, out.plans[i], out.values)
        if tried > RUNGS:
            put(out.policy, out.plans[i])
        state.gate[tried] += 1
    out.floor[0] = par.floor
    assess_lottery(par, work, out)
    play(par, k, out)


def usual_kappa(problem: Problem) -> float:
    """4, with one step 10, or the largest number of actions that a state has, if that is more. V~ is the best of all
    actions' largest values: the more there are, the further it is above the U of one that is known; and with one step
    they have no future in common whose uncertainty would be in both."""
    return max(10.0 if problem.horizon == 1 else 4.0, float(problem.layout.available.sum(axis=1).max()))


class CertifiedPSRL(SetAgent):
    """Play the plan of `PSRLGLM` if the confidence sets do not object, otherwise a more optimistic one.

    They do not object where, for all that they know, the policy may still be nearly optimal.

    Over the sets of this individual let V~ be the optimistic value, U and L the upper and lower value of a policy. It
    is played if at every initial state the problem allows

        V~ - U <= kappa (U - L)

    Candidates, in turn: the plan of PSRL-GLM, optimistic policies with a part of the bonus (.2 to .76, six rungs), the
    optimistic policy itself, which always passes. Then, wherever the sets hold, V* - V^pi <= (1 + kappa)(U - L): the
    regret is at most the sum of 1 + kappa times the played policies' own widths, for any sampler and any contexts.
    plan.certificate is at most V~ - L at the worst initial state (`certificates`, see `SetAgent`).

    kappa             0 is optimism, large values trust the sampler; `gate` counts which candidates were played. None:
                      4, with one step 10, or the number of actions there are to choose from where that is more, times
                      1 + ln(k/5000)/2 from the 5,000th individual on: hardly a plan is refused, and regret is that of
                      PSRL-GLM. With .5 certificates become smaller, at the price of more regret while the sets are wide
                      (docs/exploration.md)
    exploration, posterior_scale   of the sampler, see `PSRLGLM`; any keeps the guarantee
    delta, sets, bonus, reward_sets, certificates, predictor, form, regularization, reward_regularization   see
    `LRORL` and `SetAgent`
    plans, floor      see `PSRLGLM`: every plan passes the gate; bounds, certificate and promise are those of the draw,
                      and a floor has a price that no data makes smaller

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
    plan_kernel = own_plan = staticmethod(plan)
    lottery_kernel = staticmethod(plan_gated)
    doubt_kernel, belief_kernel = staticmethod(doubt), staticmethod(unsure)
    draws_models = bounds_values = True

    kappa: float | None = option(None, check.nonnegative)
    delta: float = DELTA
    sets: str = SETS
    bonus: str | None = BONUS
    exploration: str = EXPLORATION
    posterior_scale: float = POSTERIOR_SCALE
    reward_sets: str | None = REWARD_SETS
    certificates: str | None = CERTIFICATES
    predictor: str = PREDICTOR
    form: str = FORM
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION
    plans: int = PLANS
    floor: float = FLOOR

    def _settle(self) -> None:
        super()._settle()
        self.regret_delta = REGRET_SHARE * self.delta

    @property
    def gate_kappa(self) -> float:
        """kappa, as given or as usual: of the first individuals."""
        return usual_kappa(self.problem) if self.kappa is None else self.kappa

    @property
    def gate_growth(self) -> float:
        """Of kappa; none where it was given."""
        return GROWTH if self.kappa is None else 0.0

    @property
    def watch_columns(self) -> set[str]:
        return super().watch_columns | {"refused"}

    @property
    @locked
    def gate(self) -> dict[str, int]:
        """How many episodes were played by the proposal ("draw"), by an optimistic policy with a part of the bonus, and
        by full optimism; with several plans, how many of those."""
        n = self.state.gate
        return {"draw": int(n[0]), "part": int(n[1 : RUNGS + 1].sum()), "optimism": int(n[RUNGS + 1])}

    @property
    def promised(self) -> str:  # type: ignore[override]
        factor = 1 + kappa_at(self.gate_kappa, self.gate_growth, float(self.episode))
        factor = math.ceil(1000.0 * factor) / 1000.0  # a promise is not rounded down
        price = price_of(self.problem, self.floor)
        if self._lottery() == 0:
            return f"{ALWAYS}, the plan's shortfall is at most plan.certificate and {factor:.7g} times its own width"
        extra = f" plus {price:.4g}, what the floor may cost" if price > 0.0 else ""
        return (
            f"{ALWAYS}, the shortfall of what is drawn, in the mean over the draw, is at most plan.certificate and "
            f"{factor:.7g} times the mean width of its plans{extra}"
        )
