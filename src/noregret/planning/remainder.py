"""What is left of a value after its second order: a quadratic form in u that bounds it. docs/joint.md, section 4.

At a pair with c_k the centred features and J_i the integrals of `displaced` (tilde: minus the mean under p, +: the next
step), the rest is at most, added up with upper occupancies,

    sum_k w_k (c_k'u)^2 + 1/2 sum_k off_k |E+_k - C|(u)
    w_k = min of   span(V+) R J_2,k                                                        and
                   |V~_k| away_k J_2,k + ( max |Cov_p(V+, v)| + 1/2 sum_l p_l |V~_l| away_l^2 ) J_1,k
        + min of   span(D+) J_1,k                                                          and
                   ( max |D~_k| + sum_l p_l max |D~_l| away_l ) J_1,k

The maxima are over the set. Either is taken for all k of a pair, whichever has the smaller trace. |A|(u) is u'|A|u, the
absolute value of a symmetric matrix, taken in coordinates in which the set is a ball; C is any matrix common to the
next states; off_k >= |p*_k - p_k|.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..beliefs.displaced import Rows
from ..checks import Floats
from ..problem.layout import Layout
from .derivatives import Expansion, Step, step_of

Groups = tuple[tuple[int, int], ...]


class Course(NamedTuple):
    """A policy, or the common part of two, with upper bounds on how often it is where."""

    policy: NDArray[np.int64]  # [n, H, S]
    made: Expansion
    visits: Floats  # [n, H, S]


def sizes_of(E: Floats, roots: Floats) -> Floats:
    """|E - C| [n, S, m, m] in the coordinates y, u = root y; C is the middle of the entries of E [n, S, m, m]."""
    inverse, white = np.linalg.inv(roots)[:, None], roots[:, None]
    centre = 0.5 * (E.max(1, keepdims=True) + E.min(1, keepdims=True))
    values, vectors = np.linalg.eigh(white @ (E - centre) @ white)
    size = (vectors * np.abs(values)[..., None, :]) @ vectors.swapaxes(-1, -2)
    made: Floats = inverse @ size @ inverse
    return made


def _span(values: Floats, step: Step) -> Floats:
    """max - min over the possible next states, [n, S] from [n, S']."""
    met = values[step.after]
    top = np.where(step.used, met, -np.inf).max(-1)
    made: Floats = top - np.where(step.used, met, np.inf).min(-1)
    return made


def group_norm(inside: Floats, groups: Groups) -> Floats:
    """The largest value of a linear form over a product of unit balls, [...] from [..., m]."""
    made: Floats = np.zeros(inside.shape[:-1])
    for first, last in groups:
        made = made + np.sqrt((inside[..., first:last] ** 2).sum(-1))
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


def _smaller(first: Floats, second: Floats, lengths: Floats) -> Floats:
    """Of two weights [n, S, M] the one whose form has the smaller trace, per pair."""
    better = ((first - second) * lengths).sum(-1, keepdims=True) <= 0.0
    return np.where(better, first, second)


def row_weights(met: Floats, span: Floats, rows: Rows, groups: Groups, pick: Any) -> Floats:
    """[..., M] for rows of pairs with values met [..., M] at the next states: the bracket of the values is at most the
    sum of these times (c_k'u)^2. span: of the values; pick: index of the pairs in arrays [n, S, A, ...]."""
    P, away, slope = rows.P[pick], rows.away[pick], rows.slope[pick]
    J1, J2 = (moment[pick] for moment in rows.moments)
    size = np.abs(met - (P * met).sum(-1, keepdims=True))  # in padding J and P are 0
    steepest = group_norm((met[..., None, :] @ slope)[..., 0, :], groups)
    most = steepest + 0.5 * (P * size * away**2).sum(-1)
    first = (span * rows.span[pick])[..., None] * J2
    return _smaller(first, size * away * J2 + most[..., None] * J1, (slope**2).sum(-1))


def value_weights(V: Floats, rows: Rows, groups: Groups, step: Step) -> Floats:
    """[n, S, M]: the bracket of V+ [n, S'] is at most sum_k of these times (c_k'u)^2."""
    return row_weights(V[step.after], _span(V, step), rows, groups, step.pick)


def slope_weights(D: Floats, rows: Rows, groups: Groups, layout: Layout, step: Step) -> Floats:
    """[n, S, M]: the bracket of D+ [n, S', m] is at most sum_k of these times (c_k'u)^2."""
    P, J1 = rows.P[step.pick], rows.moments[0][step.pick]
    inside = D @ rows.roots
    met = inside[step.after]
    mean = np.einsum("nsk,nskm->nsm", P, met)
    size = group_norm(met - mean[..., None, :], groups) * step.used
    mixed = (P * size * rows.away[step.pick]).sum(-1, keepdims=True)
    first = _slope_span(inside, groups, layout, step)[..., None] * J1
    return _smaller(first, (size + mixed) * J1, (rows.slope[step.pick] ** 2).sum(-1))


def forms(course: Course, rows: Rows, groups: Groups, layout: Layout) -> Floats:
    """[n, m, m]: the forms of all pairs of a course, added up with its visits."""
    n, H, S = course.policy.shape
    m = rows.roots.shape[-1]
    made = np.zeros((n, m, m))
    for h in range(H - 1):  # there is nothing after the last step
        step, mass = step_of(layout, course.policy, h), course.visits[:, h]
        if not mass.any():
            continue
        weights = value_weights(course.made.V[:, h + 1], rows, groups, step)
        weights = weights + slope_weights(course.made.D[:, h + 1], rows, groups, layout, step)
        c = rows.centred[step.pick].reshape(n, -1, m)
        made += ((weights * mass[..., None]).reshape(n, -1, 1) * c).swapaxes(1, 2) @ c
        met = np.zeros((n, S))
        np.add.at(met, (step.after[0], step.after[1]), mass[..., None] * rows.off[step.pick])
        sizes = sizes_of(course.made.E[:, h + 1], rows.roots).reshape(n, S, m * m)
        made += 0.5 * (met[:, None, :] @ sizes).reshape(n, m, m)
    return made
