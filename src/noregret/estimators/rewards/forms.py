"""What is learned of mean rewards, one independent problem per pair: eight forms behind one par, state and work.

form        rewards, mean           learned by                                                         says
KNOWN       any                     nothing: theta is given                                            both
RIDGE       in [0, 1], theta'x      ridge regression, `estimators.rewards.regression`                  both
NEWTON      0 or 1, sigma(theta'x)  online Newton steps, `estimators.rewards.logistic`                 estimates
LOGISTIC    0 or 1, sigma(theta'x)  a likelihood-ratio set, likewise                                   ranges
HOEFFDING   in [0, 1], theta'x      `estimators.rewards.mixture` with nu_i = w_i = 1/4                  ranges
BERNSTEIN   in [0, 1], theta'x      the same with nu_i, w_i from the ranges of the means themselves     ranges
CALIBRATED  in [0, 1], theta'x      ridge regression with the noise of the data, `rewards.calibrated`  posterior
LAPLACE     0 or 1, sigma(theta'x)  a normal approximation with the observed curvature, likewise       posterior, r_hat

Two questions may be asked of a form, for one context x and all pairs at once:

    estimates   r_hat and xi_r, at most how far it is from the mean, for the ln(1/delta) that is given with the
                question; and the bonus: the same with the set's radius times `scale`, at most 1 after that
    ranges      low and high, for the ln(1/delta) given at construction

and RIDGE, NEWTON and KNOWN have a third, the `posterior` that is drawn from, which is all that the last two say, but
that LAPLACE has the r_hat of `estimates`, with the interval of the bound alone. What else is said of a pair holds for
all contexts and at all times together with probability 1 - delta, delta the pair's own. Missing rewards teach nothing.

Rewards are told, and means said, in units of the problem's range of rewards, which is [0, 1] then (`problem.scale`);
weights are those of the problem over the range's length. So a reward r has the mean theta'x - offset, with offset =
low/(high - low), and what is regressed on x is r + offset.

Memory is constant in time; BERNSTEIN needs a store besides: a refresh goes over the pair's stored rewards. It is due
when their number has grown by GROWTH (`reward_due`), and may be run at any time. Every kernel is compiled when it is
asked for (`with_kernels`, `with_refresh`) and reached through a slot, but ridge regression, which is pasted into
`learn` where there is no set of rewards (`rewards_learn`).
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...checks import Floats
from ...compiler.jit import inlined
from ...compiler.slots import EMPTY, slot
from ...numerics.linear_algebra import least_regularization, refresh_address
from ...problem.design import Blocks
from ...problem.problem import Problem
from ...theory.constants import logistic_alpha
from ...theory.radii import theorem_a_log_weight
from ..newton.online_newton import SLACK
from ..store import Store
from .calibrated import calibrated_step, estimate_laplace, laplace_step, posterior_calibrated
from .logistic import default_regularization, estimate_newton, logistic_step, newton_step, ranges_logistic
from .mixture import (
    SHIFTS,
    RewardMixturePar,
    RewardMixtureState,
    RewardMixtureWork,
    mixture_parts,
    mixture_step,
    ranges_mixture,
    with_mixture,
)
from .refresh import mixture_refresh
from .regression import (
    BERNSTEIN,
    CALIBRATED,
    HOEFFDING,
    KNOWN,
    LAPLACE,
    LOGISTIC,
    NEWTON,
    RIDGE,
    call_learn,
    estimate_known,
    estimate_ridge,
    posterior,
    ranges_known,
    ranges_ridge,
    ridge_step,
)
from .shared import (
    RewardSizes,
    call_one,
    call_shapes,
    estimates_lifted,
    learn_lifted,
    one_logistic,
    one_mixture,
    one_ridge,
    posterior_lifted,
    ranges_lifted,
    reward_sizes,
    scaled_blocks,
    shapes_mixture,
    shapes_ridge,
)

FORMS = {"ridge": RIDGE, "newton": NEWTON, "logistic": LOGISTIC, "hoeffding": HOEFFDING, "bernstein": BERNSTEIN}
FORMS |= {"calibrated": CALIBRATED, "laplace": LAPLACE}
SETS = ("ridge", "hoeffding", "bernstein", "logistic")  # the forms that say ranges
GROWTH = 1.15  # of a pair's rewards between refreshes
FIRST = 16  # rewards before the first refresh

SetForm = Literal["ridge", "hoeffding", "bernstein", "logistic"]
Form = SetForm | Literal["newton", "calibrated", "laplace"]


class RewardPar(NamedTuple):
    form: int  # one of `regression`: KNOWN, RIDGE, ... LAPLACE
    logistic: int  # 1: means are sigma(theta'x)
    refresh: Any  # slot of `numerics.linear_algebra.refresh_inverse`
    learn: Any  # slots of what learns a reward in this form, and of the questions
    estimates: Any
    posterior: Any
    ranges: Any
    log: float  # ln(1/delta) of the ranges, of one pair
    bound: float  # B_r
    regularization: float  # lambda
    start: float  # d ln lambda
    log_weight: float  # coefficient of ln(1/delta) in a squared radius, of NEWTON
    factor: float  # on lambda, of CALIBRATED
    largest: float  # R
    scale: float  # on the radius, of a bonus
    offset: float  # a linear mean reward is theta'x less this
    mixture: RewardMixturePar
    inner: Any  # with a design: slots of what learns a reward of one block, of the shapes of all, of a pair's range
    shapes: Any
    one: Any
    block: NDArray[np.int64]  # [S, A], with a design; else empty
    features: Floats  # psi, [S, A, Q], likewise, and the next two (`problem.design.Blocks`)
    begin: NDArray[np.int64]  # [B, Q+1], its `start`
    column: NDArray[np.int64]  # [B, E]


class RewardState(NamedTuple):
    """Of pairs, [S, A]; with a design of blocks, [B, 1], and d is E."""

    theta: Floats  # [S, A, d]
    gram: Floats  # V, [S, A, d, d], lambda I at first
    inverse: Floats  # V^{-1}
    logdet: Floats  # [S, A], ln det V / lambda^d
    moment: Floats  # [S, A, d], sum x r where means are linear
    radius: Floats  # [S, A], squared, where they are logistic (NEWTON: without its ln(1/delta) term); negative: no set
    samples: NDArray[np.int64]  # [S, A], rewards learned
    squares: Floats  # [S, A], sum r^2 under CALIBRATED, sum ||x||^2 under LAPLACE; likewise the next three; else empty
    rest: Floats  # [S, A], RSS when it was found
    level: Floats  # [S, A], lambda
    measured: NDArray[np.int64]  # [S, A], samples then
    seen: Floats  # [2], the least and the largest reward of all pairs; (1, 0) before the first, and in other forms
    inside: NDArray[np.int64]  # [S, A], rewards strictly between 0 and 1, under CALIBRATED; else 0 or empty
    mixture: RewardMixtureState

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        """For `agents.limits`: a reward is in [0, 1], and what is regressed on x in that plus the offset."""
        far = max(1.0, abs(problem.scale.offset), abs(problem.scale.offset + 1.0))
        most = far**2 * float(self.samples.max(initial=0)) if problem.rewards == "linear" else 1e100
        return {"squares": (0.0, most), "rest": (0.0, most), "seen": (0.0, 1.0)}

    def fault(self) -> str | None:
        """Likewise: what else is wrong."""
        if self.level.size == 0:
            return None
        if np.any(self.measured > self.samples):
            return "has measured more rewards than it has learned"
        if np.any(self.inside > self.samples):
            return "has seen more rewards than it has learned"
        least, size = np.linalg.eigvalsh(self.gram)[..., 0], np.trace(self.gram, axis1=-2, axis2=-1)
        if not np.all((self.level > 0.0) & (self.level <= least * (1.0 + 1e-6) + 1e-9 * size)):
            return "has a level that is not in its Gram matrix"
        return None


class RewardWork(NamedTuple):
    h: Floats  # [d]
    factor: Floats  # [d, d]
    mixture: RewardMixtureWork
    lifted: Floats  # [E], X psi
    ends: Floats  # [2], a range
    t: Floats  # [B, 2, Q], of `estimators.rewards.shared`, and the next two
    forms: Floats  # [B, 2, 3, Q, Q]
    columns: Floats  # [3, Q, E]


def estimated(problem: Problem, intervals: bool = True) -> Form:
    """The form that gives an estimate with an interval: "newton" for logistic rewards, else "ridge".

    Where no interval is asked for, "laplace" for logistic ones: "newton" learns with the least curvature that the
    bounds allow, e^(-B_r R) or so, and hardly anything where they are wide."""
    if problem.rewards != "logistic":
        return "ridge"
    return "newton" if intervals else "laplace"


def reward_parts(
    problem: Problem,
    form: Form,
    log: float = 0.0,
    regularization: float | None = None,
    name: str = "regularization",
    *,
    shared: bool = False,
    scale: float = 1.0,
) -> tuple[RewardPar, RewardState, RewardWork]:
    """Parameters, initial state and scratch for all pairs; log = ln(1/delta) of ranges, delta per pair; regularization:
    lambda, an argument of that name, None: recommended; shared: by the problem's reward_design, where it has one;
    scale: of bonuses.

    Known rewards make any form KNOWN; logistic ones need "newton" or "logistic", which linear ones refuse."""
    check.one_of("form", form, tuple(FORMS))
    p, f, logistic, known = problem, np.zeros, problem.rewards == "logistic", problem.known_rewards is not None
    blocks = scaled_blocks(problem) if shared else None
    sizes = reward_sizes(problem, blocks)
    (S, A), d = sizes.shape, sizes.dim
    if logistic != (form in ("newton", "logistic", "laplace")) and not known:
        raise ValueError(f'form must be "logistic" exactly where the rewards are, got {form!r} with {p.rewards} ones')
    kind = KNOWN if known else FORMS[form]
    mixture = kind in (HOEFFDING, BERNSTEIN)
    lam = _regularization(sizes, form, mixture, regularization, name, p.scale.offset)
    mixture_par, mixture_state, mixture_work = mixture_parts(sizes, mixture)
    factor = lam / sizes.context_bound**2 if form == "calibrated" else 1.0
    par = RewardPar(
        kind, int(logistic), refresh_address(d), EMPTY, EMPTY, EMPTY, EMPTY, float(log), sizes.bound, lam,
        d * math.log(lam), theorem_a_log_weight(SLACK), factor, sizes.context_bound, float(scale), p.scale.offset,
        mixture_par, EMPTY, EMPTY, EMPTY, *_table_of(blocks),
    )  # fmt: skip
    theta = np.array(p.known_rewards, float) / p.scale.unit if known else f((S, A, d))
    prior = lam * sizes.bound**2 + (2.0 * log if form == "logistic" else 0.0) if logistic else 0.0
    own = (S, A) if kind in (CALIBRATED, LAPLACE) else (0, 0)
    state = RewardState(
        theta, np.tile(lam * np.eye(d), (S, A, 1, 1)), np.tile(np.eye(d) / lam, (S, A, 1, 1)), f((S, A)), f((S, A, d)),
        np.full((S, A), prior), np.zeros((S, A), np.int64), f(own), f(own), np.full(own, lam),
        np.zeros(own, np.int64), np.array([1.0, 0.0]), np.zeros(own, np.int64), mixture_state,
    )  # fmt: skip
    Q, E = (0, 0) if blocks is None else (blocks.features.shape[3], d)
    n = S if Q else 0
    work = RewardWork(
        f(d), f((d, d)), mixture_work, f(E), f(2), f((n, 2, Q)), f((n, 2, 3, Q, Q)), f((3, Q, E))
    )  # fmt: skip
    return (with_mixture(par, state, work) if mixture else par), state, work


def _table_of(blocks: Blocks | None) -> tuple[Any, Any, Any, Any]:
    """The block of every pair, its features, and where their entries are; empty where there are none."""
    if blocks is None:
        none = np.zeros((0, 0), np.int64)
        return none, np.zeros((0, 0, 0)), none, none
    return blocks.block, np.ascontiguousarray(blocks.features[:, :, 0]), blocks.start, blocks.column


def _regularization(p: RewardSizes, form: Form, mixture: bool, asked: float | None, name: str, offset: float) -> float:
    """lambda, the one asked for or the recommended one: 1, or `default_regularization` where means are logistic."""
    far = max(1.0, abs(offset), abs(offset + 1.0))  # means are so far from 0 at most
    curvature, recommended = 1.0, 1.0 / far**2
    if form == "newton":
        curvature = (2.0 - SLACK) * logistic_alpha(0.0)
        kappa = (2.0 - SLACK) * logistic_alpha(p.bound * p.context_bound)
        recommended = default_regularization(p.dim, kappa, p.bound)
    elif form in ("logistic", "laplace"):
        curvature, recommended = 0.25, default_regularization(p.dim, 1.0, p.bound)
    elif form == "calibrated":
        recommended = (p.context_bound / far) ** 2  # sigma^2/tau^2 before any data
    least = least_regularization(curvature, p.context_bound, p.dim)
    if mixture:
        if asked is not None:
            lam = check.positive(name, asked)
            raise ValueError(f"{name} must be None with form {form!r}, a mixture over many, got {lam:g}")
        return SHIFTS[0] * p.context_bound**2
    if asked is None:
        return max(recommended, least)
    lam = check.positive(name, asked)
    if lam < least:
        raise ValueError(f"{name} must be at least {least:.3g} for stable arithmetic, got {lam:g}")
    return lam


_KERNELS: dict[str, dict[int, Any]] = {
    "learn": {
        RIDGE: ridge_step, NEWTON: newton_step, LOGISTIC: logistic_step, HOEFFDING: mixture_step,
        BERNSTEIN: mixture_step, CALIBRATED: calibrated_step, LAPLACE: laplace_step,
    },
    "estimates": {KNOWN: estimate_known, RIDGE: estimate_ridge, NEWTON: estimate_newton, LAPLACE: estimate_laplace},
    "posterior": {
        KNOWN: posterior, RIDGE: posterior, NEWTON: posterior, CALIBRATED: posterior_calibrated,
        LAPLACE: posterior_calibrated,
    },
    "ranges": {
        KNOWN: ranges_known, RIDGE: ranges_ridge, LOGISTIC: ranges_logistic, HOEFFDING: ranges_mixture,
        BERNSTEIN: ranges_mixture,
    },
}  # fmt: skip
_LIFTED: dict[str, Any] = {
    "learn": learn_lifted, "estimates": estimates_lifted, "posterior": posterior_lifted, "ranges": ranges_lifted,
}  # fmt: skip
_ONE: dict[int, Any] = {RIDGE: one_ridge, LOGISTIC: one_logistic, HOEFFDING: one_mixture, BERNSTEIN: one_mixture}
call_estimates, call_posterior, call_ranges = slot("reward estimates"), slot("reward posterior"), slot("reward ranges")
_SLOTS: dict[str, Any] = {
    "learn": call_learn, "estimates": call_estimates, "posterior": call_posterior, "ranges": call_ranges,
}  # fmt: skip
_call_refresh = slot("reward refresh")


def kernel_of(name: str, par: RewardPar, state: RewardState, work: RewardWork) -> tuple[Any, tuple[Any, ...]]:
    """The kernel that learns in this form or answers a question, and arguments of the types it takes:

    learn       par, state, work, s, a, reward, x
    estimates   par, state, work, x, log, r_hat [S, A], xi_r [S, A], bonus [S, A]
    posterior   par, state, work, x, mean [S, A], deviation [S, A], share [S, A]
    ranges      par, state, work, x, low [S, A], high [S, A]"""
    shared = par.block.size > 0
    table = np.zeros(par.block.shape if shared else state.samples.shape)
    x = np.zeros(state.theta.shape[2])
    args: Any = par, state, work, x, table, table
    if name == "learn":
        args = par, state, work, 0, 0, 0.0, x
    elif name == "estimates":
        args = par, state, work, x, 0.0, table, table, table
    elif name == "posterior":
        args = par, state, work, x, table, table, table
    return (_LIFTED[name] if shared else _KERNELS[name][par.form]), args


def _with_inner(par: RewardPar, state: RewardState, work: RewardWork, names: tuple[str, ...]) -> RewardPar:
    """par with what learns and bounds the rewards of one block in its slots, where there is a design."""
    if par.block.size == 0:
        return par
    if "learn" in names:
        like = par, state, work, 0, 0, 0.0, work.lifted
        par = par._replace(inner=call_learn.fill(_KERNELS["learn"][par.form], *like))
    if "ranges" in names:
        x, psi = work.lifted, par.features[0, 0]
        shapes = shapes_mixture if par.form in (HOEFFDING, BERNSTEIN) else shapes_ridge
        one = call_one.fill(_ONE[par.form], par, state, work, 0, psi, 0.0, work.ends)
        par = par._replace(shapes=call_shapes.fill(shapes, par, state, work, x), one=one)
    return par


def with_kernels(par: RewardPar, state: RewardState, work: RewardWork, *names: str) -> RewardPar:
    """par with kernels in these slots; known rewards need none that learns."""
    par = _with_inner(par, state, work, names)
    kernels = {name: kernel_of(name, par, state, work) for name in names if (name, par.form) != ("learn", KNOWN)}
    return par._replace(**{name: _SLOTS[name].fill(function, *args) for name, (function, args) in kernels.items()})


def with_refresh(par: RewardPar, state: RewardState, work: RewardWork, store: Store) -> RewardPar:
    """par with the refresh in its slot, compiled for a store of this type: BERNSTEIN only, else par itself."""
    if par.form != BERNSTEIN:
        return par
    made = _call_refresh.fill(mixture_refresh, par, state, work, store, 0, 0)
    return par._replace(mixture=par.mixture._replace(refresh=made))


@inlined
def place_of(par, s, a):
    """Where the state keeps what pair (s, a) has taught: there, or with a design in the row of its block."""
    return (par.block[s, a], 0) if par.block.shape[0] > 0 else (s, a)


@inlined
def reward_due(par, state, s, a):
    """Whether a refresh of pair (s, a), or of its block, would pay: 1 or 0."""
    if par.form != BERNSTEIN:
        return 0
    b, c = place_of(par, s, a)
    n = state.samples[b, c]
    return 1 if n >= FIRST and n >= GROWTH * state.mixture.refreshed[b, c] else 0


@inlined
def reward_behind(par, state, s, a):
    """Whether rewards of pair (s, a), or of its block, came in since the last refresh, and are enough for one: 1 or
    0."""
    if par.form != BERNSTEIN:
        return 0
    b, c = place_of(par, s, a)
    n = state.samples[b, c]
    return 1 if n >= FIRST and n > state.mixture.refreshed[b, c] else 0


@inlined
def reward_refresh(par, state, work, store, s, a):
    """nu_i and w_i of pair (s, a), or of its block, anew from the store, under BERNSTEIN; nothing elsewhere. O(n (d^2 +
    C))."""
    if par.form == BERNSTEIN:
        b, c = place_of(par, s, a)
        _call_refresh(par.mixture.refresh, (par, state, work, store, b, c))
        state.mixture.refreshed[b, c] = state.samples[b, c]
