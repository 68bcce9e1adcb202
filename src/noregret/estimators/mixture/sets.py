"""Sets for the weights of a multinomial logit from all stored observations: the mixture set, and a plain one.

For one pair with n outcomes, D = (n - 1) d free parameters, weights W [n, d] whose rows sum to zero; L is the sum of
the losses -ln p_W(y_i | x_i). Write L_c for the sum over i > n_c. The process

    sum_c w_c Int exp(L_c(W*) - L_c(W* + v)) N(dv; 0, Lam_c^{-1})

with Int exp(L(W*) - L(W)) N(dW; 0, Lam_c^{-1}) as further components, is a martingale of mean one: below 1/delta at all
times with probability 1 - delta (Ville). On that event every component gives a quadratic inequality for
Delta = W* - W_hat at any W_hat (Gibbs' inequality with N(W_hat, Q), Q = (H_c + Lam_c)^{-1}; g_c and H_c: gradient and
Hessian of L_c at W_hat):

    1/2 ||Delta||^2_{A_c - Lam_c} + <g_c, Delta>  <=  beta_c
    beta_c = ln(1/(delta w_c)) + 1/2 ln det(I + Lam_c^{-1} H_c) + sum_{i > n_c} j_i - 1/2 tr(H_c Q)

where j_i >= E lse(z_i + u) - lse(z_i), u = V x_i with V ~ N(0, Q), and A_c is a lower curvature of L_c over what is
already known of W* (`pairwise_curvature`). Components:

    0, 1     centred at 0, Lam = lambda/2 I and 2 lambda I: no -Lam_c on the left, Lam_c/2 ||W_hat||^2 on the right
    2 .. 4   n_c = 0, Lam = R^2 (1, 4, 16) I
    5 .. 12  shape epochs: Lam = mu (H at n_c + lambda I), mu = 3/2 and 5, n_c the first refresh from 32, 128, 512, 2048
             observations on

With proportions a_c that sum to one, the components' inequalities may be added up, and ln sum_c w_c I_c >= sum_c a_c
ln(w_c I_c/a_c) makes the sum's right side smaller by the entropy of a. tau/2 times what is assumed,
sum_j ||w_j - w_n||^2 <= (n - 1) B_p^2, may be added for any tau >= 0. What comes out is an ellipsoid: centre W_hat -
E^{-1} g, squared radius 2 beta + ||g||^2_{E^{-1}}. All of them hold on the one event, so refreshing at any time, using
one set to sharpen the next, and keeping whichever is best cost nothing.

"plain" keeps component 0 alone, with all of delta, the bound H <= 1/2 in beta, tau = lambda with the bound on
||W*||_F^2, and the curvature 2 h(span) H.

A refresh costs O(n_samples (M^2 d^2 + intervals M^2)) (`mixture_refresh`); `mixture_due` says when one is worth it.
Caveats: the set is about W*, not about the data: a wrong link or bound makes it wrong. delta is fixed at the start.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import checks as check
from ...beliefs.local import largest_span
from ...checks import Floats
from ...compiler.jit import kernel
from ...compiler.slots import EMPTY, slot
from ..likelihood.precision import logits_at
from ..store import Store, empty_store
from .kronecker import logit_covariance, softmax_of
from .refresh import SCALES, SLACK, apply_stage, assumed_covariance, bound_stage, mixture_refresh, search_stage
from .walks import CENTRED, EPOCHS, PLAIN, curvature_stage, excess_stage, fit_stage

FORMS = ("mixture", "plain")
THOROUGH = 500
GROWTH = 1.15  # of the number of observations between two refreshes


class MixturePar(NamedTuple):
    count: NDArray[np.int64]  # type: ignore[assignment]  # [S, A], numbers of outcomes; hides tuple.count
    refresh: Any  # slot of `mixture_refresh`, and of its stages:
    fit: Any
    bounds: Any
    curvature: Any
    excess: Any
    search: Any
    form: int  # MIXTURE or SINGLE
    weight_bound: float
    regularization: float  # lambda
    isotropic: Floats  # [5], precisions of the components that are no epochs
    assumed: Floats  # [T], values of tau that are tried
    log_weight: Floats  # [C], ln(1/w_c)
    thorough: int  # observations up to which every component is looked at closely
    growth: float  # refresh when n has grown by this factor,
    expansion: Floats  # [S, A], or when ln det(lambda I + H) has grown by this much


class MixtureState(NamedTuple):
    map: Floats  # [S, A, M, d], regularised maximum likelihood at the last refresh
    information: Floats  # [S, A, M d, M d], (H + lambda I)^{-1} there
    centre: Floats  # [S, A, M, d], of the ellipsoid
    cov: Floats  # [S, A, M d, M d], its E^{-1} on centred weights
    radius: Floats  # [S, A], its squared radius
    component: NDArray[np.int64]  # [S, A], which one it came from; -1: nothing but the assumption
    begins: NDArray[np.int64]  # [S, A, 4], n_c of the epochs, -1 before
    shape: Floats  # [S, A, 4, M d, M d], H at n_c
    refreshed: NDArray[np.int64]  # [S, A], observations at the last refresh
    gained: Floats  # [S, A], bound on what ln det(lambda I + H) has gained since
    empty: NDArray[np.int64]  # [S, A], refreshes at which a set was empty: an assumption must be wrong

    def limits(self, problem: Any) -> dict[str, tuple[float, float]]:
        return {"component": (-1, 62), "begins": (-1, 2**62)}


class MixtureWork(NamedTuple):
    z: Floats  # [M]
    p: Floats  # [M]
    at: Floats  # [M], centre of the logits
    q: Floats  # [M, M], covariance of the logits
    r: Floats  # [M, M]
    step: Floats  # [M, M]
    power: Floats  # [M, M]
    left: Floats  # [M]
    right: Floats  # [M]
    bend: Floats  # [M, M]
    gram: Floats  # [d, d], sum xx'
    old: Floats  # [M, d]
    vector: Floats  # [M d]
    gradient: Floats  # [M d]
    products: Floats  # [T], of the entries of a context, T = d(d+1)/2
    packed: Floats  # [J], a lower triangle, J = M(M+1)/2
    acc: Floats  # [T, J], sums of (form) (x) xx'
    forms: Floats  # [C, T, J], covariances, likewise (`kronecker.fold`)
    E: Floats  # [M d, M d]
    inverse: Floats  # [M d, M d]
    grad: Floats  # [5, M d], g_c: epochs, then all
    hess: Floats  # [5, M d, M d]
    curve: Floats  # [5, M d, M d], A_c
    spread: Floats  # [C, M d, M d], Q_c
    beta: Floats  # [C], inf where the component is not in use
    share: Floats  # [C]
    trial: Floats  # [C]
    best: Floats  # [1], least score so far
    value: Floats  # [C], scores of components
    screening: NDArray[np.int64]  # [1]


def mixture_parts(
    count: NDArray[np.int64],
    context_dim: int,
    weight_bound: float,
    context_bound: float = 1.0,
    form: str = "mixture",
    regularization: float | None = None,
    store: Store | None = None,
) -> tuple[MixturePar, MixtureState, MixtureWork]:
    """Parameters, state and scratch for one set per pair; count [S, A] is the number of outcomes; store: any store of
    the kind that will be used (None: one of these sizes)."""
    check.one_of("form", form, FORMS)
    (S, A), M, d = count.shape, int(count.max()), context_dim
    D, f, whole = M * d, np.zeros, np.int64
    components = 1 if form == "plain" else PLAIN + EPOCHS * len(SCALES)
    if regularization is None:
        regularization = default_regularization(context_dim, weight_bound, form)
    lam = check.positive("regularization", regularization)
    if form == "plain":
        assumed, isotropic = np.array([lam]), np.array([lam])
    else:
        assumed = np.array([0.0, 0.1, 0.4, 1.6, 6.4]) / weight_bound**2
        isotropic = np.array([0.5 * lam, 2.0 * lam] + [context_bound**2 * 4.0**j for j in range(PLAIN - CENTRED)])
    free = (count - 1.0) * d
    par = MixturePar(
        np.ascontiguousarray(count, np.int64), *(EMPTY,) * 6, FORMS.index(form), weight_bound, lam, isotropic,
        assumed, np.full(components, math.log(components)), THOROUGH, GROWTH,
        np.maximum(math.log(1.5), free * math.log(GROWTH)),
    )  # fmt: skip
    state = MixtureState(
        f((S, A, M, d)), f((S, A, D, D)), f((S, A, M, d)), f((S, A, D, D)), f((S, A)), np.full((S, A), -1, whole),
        np.full((S, A, EPOCHS), -1, whole), f((S, A, EPOCHS, D, D)), np.zeros((S, A), whole), f((S, A)),
        np.zeros((S, A), whole),
    )  # fmt: skip
    for s, a in np.ndindex(S, A):
        n = int(count[s, a])
        state.information[s, a, : n * d, : n * d] = np.eye(n * d) / lam
        known = [[assumed_covariance(n, j, k) for k in range(n)] for j in range(n)]
        state.cov[s, a, : n * d, : n * d] = np.kron(known, np.eye(d))
        state.radius[s, a] = (n - 1) * weight_bound**2 * (1.0 + SLACK)
    square, table, T, J = f((D, D)), f((M, M)), d * (d + 1) // 2, M * (M + 1) // 2
    work = MixtureWork(
        f(M), f(M), f(M), table, table.copy(), table.copy(), table.copy(), f(M), f(M), table.copy(), f((d, d)),
        f((M, d)), f(D), f(D), f(T), f(J), f((T, J)), f((components, T, J)), square, square.copy(),
        f((EPOCHS + 1, D)), f((EPOCHS + 1, D, D)), f((EPOCHS + 1, D, D)), f((components, D, D)), f(components),
        f(components), f(components), f(1), f(components), np.zeros(1, whole),
    )  # fmt: skip
    if store is None:
        store = empty_store(S, A, 1, d, 0)
    args = par, state, work, store, 0, 0, 1.0
    stages = {
        "fit": fit_stage, "bounds": bound_stage, "curvature": curvature_stage, "excess": excess_stage,
        "search": search_stage,
    }  # fmt: skip
    filled = {name: apply_stage.fill(stage, *args) for name, stage in stages.items()}
    return par._replace(refresh=apply_mixture.fill(mixture_refresh, *args), **filled), state, work


def default_regularization(context_dim: int, weight_bound: float, form: str) -> float:
    """lambda = d / B_p^2, which makes weights as long as is assumed likely under N(0, 1/lambda); twice that for the
    mixture, which has a component on either side. Any positive value is valid."""
    return (1.0 if form == "plain" else 2.0) * context_dim / weight_bound**2


apply_mixture = slot("mixture refresh")  # apply_mixture(par.refresh, (par, state, work, store, s, a, ln(1/delta)))


@kernel
def mixture_due(par, state, work, store, s, a, x):
    """Count the observation of pair (s, a) just stored, at context x; 1 if its set should now be refreshed, else 0.

    Due when n has grown by `growth`, or when ln det(lambda I + H) may have grown by `expansion`: each observation adds
    at most tr((H + lambda I)^{-1} (diag p - pp') (x) xx'), with the inverse of the last refresh. O((M d)^2)."""
    n = par.count[s, a]
    if n < 2:
        return 0
    z, p, q = work.z, work.p, work.q
    logit_covariance(state.information[s, a], x, n, q)
    logits_at(state.map[s, a], x, n, z)
    softmax_of(z, n, p)
    total = 0.0
    for j in range(n):
        for k in range(j + 1):
            total += p[j] * (1.0 - p[j]) * q[j, j] if j == k else -2.0 * p[j] * p[k] * q[j, k]
    state.gained[s, a] += total
    samples = store.visits[s, a]
    return 1 if samples >= par.growth * state.refreshed[s, a] or state.gained[s, a] >= par.expansion[s, a] else 0


@kernel
def mixture_fill(par, state, s, a, x, norm, sets):
    """What the set of pair (s, a) says at context x, norm = ||x||: sets.z, cov, rho and span at [s, a] (`LocalSets`).
    O((M d)^2)."""
    n, z, cov = par.count[s, a], sets.z[s, a], sets.cov[s, a]
    logits_at(state.centre[s, a], x, n, z)
    logit_covariance(state.cov[s, a], x, n, cov)
    rho = math.sqrt(state.radius[s, a])
    sets.rho[s, a], sets.span[s, a] = rho, largest_span(cov, rho, z, par.weight_bound * norm, n)
