"""What one step leaves of a value after its second order, or its third: quadratic forms. docs/joint.md, section 4.

All of it is in coordinates y in which the set is a product of unit balls, u = root y. At a pair with c_k the centred
features in them and J_i the integrals of `displaced` (tilde: minus the mean under p, +: the next step), the brackets

    a = <p* - p, V+> - Cov_p(V+, v) - K3(V+, v, v)/2 - K4(V+, v, v, v)/6
    b = <p* - p, D+> - Cov_p(D+, v) - K3(D+, v, v)/2
    c = ( <p* - p, E+> - Cov_p(E+, v) )/2,     d = <p* - p, F+>/6

without the last term of a and b and the covariance of c where the rest is that after second order (and no d), are at
most y'q y, q = sum_k w_k c_k c_k' + matrices, from maxima over the set. `carried` bounds <p*, y'W y> for forms W of the
next step. `unrolled` puts them together.
"""

from typing import Any, NamedTuple

import numpy as np

from ..beliefs.displaced import Rows
from ..checks import Floats
from ..problem.layout import Layout
from .derivatives import Step
from .forms import Groups, absolute, group_norm, smallest, spectral_norm, steepest_form, top_eigenvalue


class Here(NamedTuple):
    """The pairs of one step of a policy; padding is 0."""

    step: Step
    P: Floats  # [n, S, M]
    most: Floats
    off: Floats
    moments: Floats  # [3, n, S, M]
    away: Floats
    span: Floats  # [n, S]
    white: Floats  # [n, S, M, m], c_k
    slope: Floats  # [n, S, M, m], p_k c_k

    @property
    def lengths(self) -> Floats:
        """||c_k||^2, [n, S, M]: the trace of a form is the sum of its weights times these."""
        made: Floats = (self.white**2).sum(-1)
        return made

    def largest(self, weights: Floats) -> Floats:
        """[n, S], the largest sum_k w_k (c_k'y)^2 on the set: c_k is of one block, so y is in one ball."""
        return top_eigenvalue(of_weights(weights, self))

    @property
    def divergence(self) -> Floats:
        """[n, S]: at least KL(p || p*)."""
        return self.largest(self.moments[0])


def here_of(rows: Rows, step: Step) -> Here:
    pick = step.pick
    moments = np.stack([moment[pick] for moment in rows.moments])
    return Here(
        step, rows.P[pick], rows.most[pick], rows.off[pick], moments, rows.away[pick], rows.span[pick],
        rows.white[pick], rows.slope[pick],
    )  # fmt: skip


# Weights of (c_k'y)^2 -------------------------------------------------------------------------------------------------
def _smaller(first: Floats, second: Floats, lengths: Floats) -> Floats:
    """Of two weights [..., M] the one whose form has the smaller trace, per pair."""
    ahead = ((second - first) * lengths).sum(-1, keepdims=True)
    return np.where((ahead >= 0.0) | np.isnan(second.sum(-1, keepdims=True)), first, second)


def _span(values: Floats, step: Step) -> Floats:
    """max - min over the possible next states, [n, S] from [n, S']."""
    met = values[step.after]
    top = np.where(step.used, met, -np.inf).max(-1)
    made: Floats = top - np.where(step.used, met, np.inf).min(-1)
    return made


def _slope_span(inside: Floats, groups: Groups, layout: Layout, step: Step) -> Floats:
    """At least span(D) over the set: the largest `group_norm` of D_j - D_k, [n, S] from [n, S', m]."""
    n, S, _ = inside.shape
    apart = np.zeros((n, S, S))
    for k in range(S):
        apart[:, k] = group_norm(inside - inside[:, k, None], groups)
    if layout.dense:
        return np.broadcast_to(apart.max((1, 2))[:, None], (n, S))
    i, after = step.after
    found = np.zeros((n, S))
    for k in range(after.shape[2]):
        met = apart[i, after, after[:, :, k, None]]
        both = step.used & step.used[:, :, k, None]
        found = np.maximum(found, np.where(both, met, 0.0).max(-1))
    return found


def row_weights(met: Floats, span: Floats, rows: Rows, groups: Groups, pick: Any) -> Floats:
    """[..., M] for rows of pairs with values met [..., M] at the next states: the bracket of the values after second
    order is at most the sum of these times (c_k'u)^2. span: of the values; pick: index of the pairs."""
    P, away, slope = rows.P[pick], rows.away[pick], rows.slope[pick]
    J1, J2 = (moment[pick] for moment in rows.moments[:2])
    size = np.abs(met - (P * met).sum(-1, keepdims=True))  # in padding J and P are 0
    steepest = group_norm((met[..., None, :] @ slope)[..., 0, :], groups)
    c = rows.white[pick]
    most = steepest + 0.5 * top_eigenvalue(((P * size)[..., None] * c).swapaxes(-1, -2) @ c)
    first = (span * rows.span[pick])[..., None] * J2
    return _smaller(first, size * away * J2 + most[..., None] * J1, (c**2).sum(-1))


def value_weights(V: Floats, rows: Rows, groups: Groups, step: Step) -> Floats:
    """[n, S, M]: a of V+ [n, S'], after second order."""
    return row_weights(V[step.after], _span(V, step), rows, groups, step.pick)


def value_weights_after_third(V: Floats, here: Here, groups: Groups) -> Floats:
    """[n, S, M]: a of V+ [n, S'], after third order."""
    J1, J2, J3 = here.moments
    met = V[here.step.after]
    size = np.abs(met - (here.P * met).sum(-1, keepdims=True))
    steepest = group_norm((met[..., None, :] @ here.slope)[..., 0, :], groups)
    second, third = here.largest(here.P * size), here.largest(here.P * size * here.away)
    most = 0.5 * here.largest(here.P) * steepest + 0.5 * second + third / 6.0
    made: Floats = size * here.away**2 * J3 + steepest[..., None] * here.away * J2 + most[..., None] * J1
    return made


def slope_weights(D: Floats, here: Here, groups: Groups, layout: Layout, after_third: bool = False) -> Floats:
    """[n, S, M]: b of D+ [n, S', m]."""
    J1, J2, _ = here.moments
    met = D[here.step.after]
    mean = np.einsum("nsk,nskm->nsm", here.P, met)
    size = group_norm(met - mean[..., None, :], groups) * here.step.used
    span, mixed = _slope_span(D, groups, layout, here.step), (here.P * size * here.away).sum(-1)
    turned = (met - mean[..., None, :]).swapaxes(-1, -2) @ here.slope
    mixed = np.fmin(mixed, sum(spectral_norm(turned[..., first:last, :]) for first, last in groups))
    if not after_third:
        return _smaller(span[..., None] * J1, (size + mixed[..., None]) * J1, here.lengths)
    most = mixed + 0.5 * here.largest(here.P * size)
    sizes = size * here.away * J2 + most[..., None] * J1
    return _smaller((span * here.span)[..., None] * J2, sizes, here.lengths)


# Matrices -------------------------------------------------------------------------------------------------------------
def _summed(weights: Floats, A: Floats, step: Step) -> Floats:
    """sum_k weights_k A_k, [n, S, m, m] from [n, S, M] and matrices of the next step."""
    n, S, _ = weights.shape
    shares = np.zeros((n, S, A.shape[1]))
    i, s = np.arange(n)[:, None, None], np.arange(S)[None, :, None]
    np.add.at(shares, (i, s, step.after[1]), weights * step.used)
    made: Floats = (shares @ A.reshape(n, A.shape[1], -1)).reshape(n, S, *A.shape[2:])
    return made


class Apart(NamedTuple):
    """Symmetric matrices of the next states minus C, their mean over all states; sizes: |A - C|."""

    A: Floats  # [n, S', m, m]
    sizes: Floats

    def off(self, here: Here) -> Floats:
        """At least |<p* - p, y'A y>| as a form, [n, S, m, m]."""
        return _summed(here.off, self.sizes, here.step)

    def moved(self, here: Here, groups: Groups, positive: bool = False) -> tuple[Floats, Floats]:
        """(at least |Cov_p(y'A y, v)|, at least E_p A~ v~^2 Int (1 - t) e^{t v~} dt/Z) as forms, [n, S, m, m] each.
        positive: the second is no bound from below. A~ = (A - C) + (C - <p, A>), each with its own size: that needs
        eigenvectors of one matrix per state, not of one per pair and next state."""
        n, S, M, m = here.slope.shape
        met = self.A[here.step.after].reshape(n, S, M, m * m)
        X = (here.slope.swapaxes(-1, -2) @ met).reshape(n, S, m, m, m)
        mean = _summed(here.P, self.A, here.step)
        each, all_of_them = self.sizes, absolute(mean)
        if positive:
            each, all_of_them = 0.5 * (each + self.A), 0.5 * (all_of_them - mean)
        shares = here.moments[0] * here.away**2
        rest = _summed(shares, each, here.step) + shares.sum(-1)[..., None, None] * all_of_them
        return steepest_form(X, groups), rest


def apart(A: Floats) -> Apart:
    away = A - A.mean(1, keepdims=True)
    return Apart(away, absolute(away))


def carried(W: Floats, here: Here, groups: Groups, cubic: bool) -> Floats:
    """At least <p*, y'W y> as a form, [n, S, m, m], of positive semidefinite W [n, S', m, m] of the next step."""
    mean, most, far = _summed(here.P, W, here.step), _summed(here.most, W, here.step), apart(W)
    ways = [mean + far.off(here), most]
    if cubic:
        first, rest = far.moved(here, groups, positive=True)
        ways.append(mean + first + rest)
    return smallest(*ways)


def bend_forms(E: Floats, here: Here, groups: Groups, cubic: bool) -> tuple[Floats, Floats]:
    """c after second order and after third, [n, S, m, m] each from E+ [n, S', m, m]; without cubic the first only,
    twice."""
    far = apart(E)
    off = far.off(here)
    if not cubic:
        return 0.5 * off, 0.5 * off
    first, rest = far.moved(here, groups)
    share = np.minimum(here.divergence, 1.0)[..., None, None]
    return 0.5 * smallest(off, first + rest), 0.5 * (share * first + rest)


def twist_form(F: Floats, here: Here, groups: Groups) -> Floats:
    """d, [n, S, m, m] from the third derivative F+ [n, S', m, m, m]."""
    return _summed(here.off, steepest_form(F - F.mean(1, keepdims=True), groups), here.step) / 6.0


def of_weights(weights: Floats, here: Here) -> Floats:
    made: Floats = (weights[..., None] * here.white).swapaxes(-1, -2) @ here.white
    return made
