"""The mixture set where pairs share weights: one set per block of a design, from all stored steps of its pairs.

Block b has theta* [p]; a step of one of its pairs has logits A_i theta, A_i = phi(s_i, a_i) X_i' (`problem.design`,
`estimators.likelihood.shared`), so L(theta) = sum_i lse(A_i theta) - (A_i theta)_{y_i}. Everything is as in
`estimators.mixture.sets` with p for D, theta for the centred weights and A_i for I (x) x_i' (docs/beyond.md):

    sum_c w_c Int exp(L_c(theta*) - L_c(theta* + v)) N(dv; 0, Lam_c^{-1})  <=  1/delta     at all times, prob. 1 - delta
    1/2 ||Delta||^2_{E_c} + <(1 - s_c) g_c - s_c b_c, Delta> <= beta_c,     Delta = theta* - theta_hat
    E_c = A_c - (1 - s_c)^2 Lam_c - s_c^2 U_c,     U_c = steep_c sum 2 phi(s_c r_i) H_i,     b_c = sum A_i'(t_i - p_i)
    beta_c = ln(1/(delta w_c)) + 1/2 ln det(I + Lam_c^{-1} H_c) + sum j_i - 1/2 tr(H_c Q_c)

A_c = sum A_i'K_i A_i, K_i from `pairwise_curvature`; r_i bounds the span of A_i Delta, t_i is the tilted law of
`walks.excess`; tau/2 (||theta*||^2 - B^2) <= 0 is what is assumed. Components, s_c = 0 for the first two:

    0, 1     centred at 0, Lam = lambda I and 4 lambda I: no -Lam_c on the left, Lam_c/2 ||theta_hat||^2 on the right
    2 .. 4   all steps, Lam = lambda (1/5, 2, 16) I
    5 .. 19  shape epochs: Lam = mu (H at n_c + lambda I), mu = 3/2, 5 and 16. An epoch is decided on at the first
             refresh from 4 p, 16 p, 64 p, 256 p, 1024 p steps on, with the H of that refresh; it begins with the next
             episode

lambda = p/(2 B^2). An epoch begins with an episode, so that the sums over an episode's steps need not be split
(`estimators.mixture.shared_walks`). Cost of a refresh: O(n_outcomes^2 + q^2) a step and O(p^2) an episode, times the
walks, and about a hundred inverses of [p, p]. Memory 8 (8 p^2) bytes per block, and the store.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from ...compiler.jit import kernel
from ...compiler.slots import EMPTY, slot
from ...problem.design import Blocks, largest_feature
from ...problem.layout import Layout
from ..likelihood.shared import SharedPar, SharedWork, natural_regularization, shared_parts
from ..store import Store
from .kronecker import softmax_of
from .refresh import SLACK
from .sets import GROWTH
from .shared_refresh import SCALES, block_refresh, bound_stage, call_stage, screen_stage, search_stage
from .shared_walks import (
    EPOCHS,
    contexts_of,
    curvature_stage,
    excess_stage,
    fit_stage,
    form_of_pair,
    linear_logits,
    project,
    shape_at,
)
from .walks import PLAIN

TIMES = tuple(4.0 ** (1 + e) for e in range(EPOCHS))  # steps, in units of p, from which on an epoch may begin
ISOTROPIC = (1.0, 4.0, 0.2, 2.0, 16.0)  # in units of lambda
TAUS = (0.0, 0.05, 0.25, 1.0, 4.0)  # in units of p/B^2
COMPONENTS = PLAIN + EPOCHS * len(SCALES)
LEAST = 1e-6  # of lambda/(R phi)^2, phi the longest features


class BlockMixturePar(NamedTuple):
    shared: SharedPar  # what the pairs of a block have in common; its regularization is lambda
    refresh: Any  # slot of `block_refresh`, and of its stages:
    fit: Any
    bounds: Any
    curvature: Any
    screen: Any
    excess: Any
    search: Any
    bound: Floats  # B, [B]
    isotropic: Floats  # [B, 5], precisions of the components that are no epochs
    assumed: Floats  # [B, T], values of tau that are tried
    times: Floats  # [B, EPOCHS]
    log_weight: float  # ln(1/w_c)
    growth: float  # refresh when the steps have grown by this factor,
    expansion: Floats  # [B], or when ln det(lambda I + H) has grown by this much


class BlockMixtureState(NamedTuple):
    """E is the largest p. A block uses the first p."""

    map: Floats  # theta_hat, [B, E], regularised maximum likelihood at the last refresh
    information: Floats  # [B, E, E], (H + lambda I)^{-1} there
    weights: Floats  # [B, E], centre of the ellipsoid
    inverse: Floats  # [B, E, E], its E^{-1}
    radius: Floats  # [B], its squared radius
    component: NDArray[np.int64]  # [B], which one it came from; -1: nothing but the assumption
    begins: NDArray[np.int64]  # [B, EPOCHS], first episode of an epoch, -1 before it is decided on
    shape: Floats  # [B, EPOCHS, E, E], H then
    samples: NDArray[np.int64]  # [B], steps with several possible outcomes
    refreshed: NDArray[np.int64]  # [B], how many there were at the last refresh
    gained: Floats  # [B], bound on what ln det(lambda I + H) has gained since
    empty: NDArray[np.int64]  # [B], refreshes at which a set was empty: an assumption must be wrong

    def limits(self, problem: Any) -> dict[str, tuple[float, float]]:
        return {"component": (-1, COMPONENTS - 1), "begins": (-1, 2**62), "radius": (0.0, 1e100)}


class BlockMixtureWork(NamedTuple):
    shared: SharedWork
    z: Floats  # [M]
    p: Floats  # [M]
    at: Floats  # [M], centre of the logits
    left: Floats  # [M]
    right: Floats  # [M]
    cov: Floats  # [M, M], covariance of the logits
    r: Floats  # [M, M]
    step: Floats  # [M, M]
    power: Floats  # [M, M]
    bend: Floats  # [M, M]
    product: Floats  # [M, Q]
    t: Floats  # [Q], Theta_hat x
    f: Floats  # [Q]
    mean: Floats  # [Q]
    D: Floats  # [Q, Q], a form in features
    G: Floats  # [Q, Q], another
    forms: Floats  # [C, Q, Q], X'Q_c X
    row: Floats  # [E]
    old: Floats  # [E]
    vector: Floats  # [E]
    gradient: Floats  # [E]
    acc: Floats  # [E, E]
    risen: Floats  # [E, E]
    E: Floats  # [E, E]
    inverse: Floats  # [E, E]
    grad: Floats  # [EPOCHS + 1, E], g_c: epochs, then all
    hess: Floats  # [EPOCHS + 1, E, E]
    curve: Floats  # [EPOCHS + 1, E, E], A_c
    rise: Floats  # [EPOCHS + 1, E, E], sum 2 phi(LEAP r_i) H_i
    spread: Floats  # [C, E, E], Q_c
    lean: Floats  # [C, E], sum A_i'(t_i - p_i)
    tilts: Floats  # [C, Q], the same of one individual, in features
    steep: Floats  # [C], the largest t_ik/p_ik
    leap: Floats  # [C], s_c
    beta: Floats  # [C], inf where the component is not in use
    share: Floats  # [C]
    trial: Floats  # [C]
    value: Floats  # [C], scores of components
    best: Floats  # [1], least score so far
    part: NDArray[np.int64]  # [C], which sums a component looks at,
    since: NDArray[np.int64]  # [C], and its first episode


def block_mixture_parts(
    blocks: Blocks,
    layout: Layout,
    weight_bound: float,
    context_bound: float,
    store: Store,
    regularization: float | None = None,
) -> tuple[BlockMixturePar, BlockMixtureState, BlockMixtureWork]:
    """Parameters, initial state and scratch of a set per block; store: any of the kind that will be used."""
    natural, entries = natural_regularization(blocks), blocks.start[:, -1]
    least = LEAST * (context_bound * largest_feature(blocks, layout)) ** 2
    lam = 0.5 * natural if regularization is None else np.full(natural.size, float(regularization))
    lam = np.maximum(lam, least)
    shared, _, shared_work = shared_parts(blocks, layout, weight_bound, 0.0, lam, kept=False)
    par = BlockMixturePar(
        shared, *(EMPTY,) * 7, blocks.bound.copy(), np.outer(lam, ISOTROPIC),
        np.outer(natural, TAUS), np.outer(entries, TIMES).astype(float), math.log(COMPONENTS), GROWTH,
        np.maximum(math.log(1.5), entries * math.log(GROWTH)),
    )  # fmt: skip
    state, work = _state(blocks, lam), _work(blocks, shared_work)
    args = par, state, work, store, 0, 1.0
    stages = {
        "fit": fit_stage, "bounds": bound_stage, "curvature": curvature_stage, "screen": screen_stage,
        "excess": excess_stage, "search": search_stage,
    }  # fmt: skip
    filled = {name: call_stage.fill(stage, *args) for name, stage in stages.items()}
    return par._replace(refresh=call_block.fill(block_refresh, *args), **filled), state, work


def _state(blocks: Blocks, lam: Floats) -> BlockMixtureState:
    (n, E), f, whole = blocks.column.shape, np.zeros, np.int64
    eye = np.where(np.arange(E) < blocks.start[:, -1:], 1.0, 0.0)[..., None] * np.eye(E)
    return BlockMixtureState(
        f((n, E)), eye / lam[:, None, None], f((n, E)), eye, blocks.bound**2 * (1.0 + SLACK), np.full(n, -1, whole),
        np.full((n, EPOCHS), -1, whole), f((n, EPOCHS, E, E)), f(n, whole), f(n, whole), f(n), f(n, whole),
    )  # fmt: skip


def _work(blocks: Blocks, shared: SharedWork) -> BlockMixtureWork:
    (M, Q), E, C, f = blocks.features.shape[2:], blocks.column.shape[1], COMPONENTS, np.zeros
    suffixes, each = (EPOCHS + 1, E, E), np.int64
    return BlockMixtureWork(
        shared, f(M), f(M), f(M), f(M), f(M), f((M, M)), f((M, M)), f((M, M)), f((M, M)), f((M, M)), f((M, Q)), f(Q),
        f(Q), f(Q), f((Q, Q)), f((Q, Q)), f((C, Q, Q)), f(E), f(E), f(E), f(E), f((E, E)), f((E, E)), f((E, E)),
        f((E, E)), f(suffixes[:2]), f(suffixes), f(suffixes), f(suffixes), f((C, E, E)), f((C, E)), f((C, Q)), f(C),
        f(C), f(C), f(C), f(C), f(C), f(1), f(C, each), f(C, each),
    )  # fmt: skip


call_block = slot("block mixture refresh")  # call_block(par.refresh, (par, state, work, store, b, ln(1/delta)))


@kernel
def block_due(par, state, work, s, a, x):
    """Count the step of pair (s, a) just stored, at context x; 1 if the set of its block should now be refreshed, else
    0. As `mixture_due`: the steps have grown by `growth`, or ln det(lambda I + H) may have by `expansion`."""
    of = par.shared
    b, n, phi = of.block[s, a], of.outcomes[s, a], of.features[s, a]
    q, xs, z, p, cov = of.size[b], work.shared.xs, work.z, work.p, work.cov
    if n < 2 or q == 0:
        return 0
    contexts_of(of, b, x, xs)
    project(of, b, state.map[b], xs, work.t)
    shape_at(of, b, state.information[b], xs, work.row, work.D)
    form_of_pair(phi, work.D, n, q, work.product, cov)
    linear_logits(phi, work.t, n, q, z)
    softmax_of(z, n, p)
    total = 0.0
    for j in range(n):
        for k in range(j + 1):
            total += p[j] * (1.0 - p[j]) * cov[j, j] if j == k else -2.0 * p[j] * p[k] * cov[j, k]
    state.gained[b] += total
    state.samples[b] += 1
    grown = state.samples[b] >= par.growth * state.refreshed[b]
    return 1 if grown or state.gained[b] >= par.expansion[b] else 0
