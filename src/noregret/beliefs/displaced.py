"""What weights anywhere in a joint set can do to the next states of one pair, for given contexts.

At a pair with features f_k (one row per next state) the logits of an individual are displaced by v_k = f_k'u, u = Delta
x. On the set v_k - v_l <= R_kl, the smaller of what the ellipsoid and what the bound on the weights allow, at least 0.
With p = softmax(z) at the centre and p_t = softmax(z + t v),

    p_t,k <= 1/sum_l exp(z_l - z_k - t R_kl) = p_k phi_k(t),   p_t,k <= p_k e^{t away_k},   away_k >= |v_k - <p, v>|
    p_t,k >= 1/sum_l exp(z_l - z_k + t R_lk)

ln phi_k is concave and phi_k increases. The integrals of p_t,k against (1 - t)^i/i! are bounded from above: on a part
of [0, 1] phi_k is below its tangent in logarithms, an exponential, which is below its chord; and below its value at
the end. docs/joint.md, section 2.
"""

from typing import NamedTuple

import numpy as np

from ..checks import Floats
from ..problem.layout import used_slots
from .joint import JointSet, Space

PARTS = 8  # of [0, 1]
_FAR = 700.0  # exp of it is a number
_TINY = 1e-30


class Rows(NamedTuple):
    """Per context, pair and slot; padding is 0 everywhere."""

    P: Floats  # [n, S, A, M], at the centre
    most: Floats  # [n, S, A, M], at least p*
    off: Floats  # [n, S, A, M], at least |p* - p|
    moments: Floats  # [3, n, S, A, M], at least p_k Int (1 - t)^i/i! e^{t c_k'u}/Z(t) dt, i = 1, 2, 3
    centred: Floats  # [n, S, A, M, m]: c_k, features minus their mean under P
    away: Floats  # [n, S, A, M], at least |c_k'u|
    span: Floats  # [n, S, A], at least max v - min v
    white: Floats  # [n, S, A, M, m], root'c_k
    slope: Floats  # [n, S, A, M, m], p_k root'c_k: |Cov_p(U, v)| is at most the norm of sum_k U_k slope_k, per group
    roots: Floats  # [n, m, m]: u = root y with y in the product of unit balls


def roots_at(space: Space, X: Floats) -> Floats:
    """[n, m, m]: for each context the image of the ellipsoids in the space of u, as a root of its matrix, group by
    group. A little is added, so that it has an inverse."""
    n, d = X.shape
    made = np.zeros((n, space.rows, space.rows))
    if not space.starts:
        made += np.eye(space.rows)
    for (first, last), root in zip(space.starts, space.roots, strict=True):
        size = last - first
        seen = np.einsum("nc,icp->nip", X, root.reshape(size, d, size * d), optimize=True)
        square = seen @ seen.transpose(0, 2, 1)
        more = 1e-13 * np.trace(square, axis1=1, axis2=2) / size + _TINY
        values, vectors = np.linalg.eigh(square)
        values = np.sqrt(np.maximum(values, 0.0) + more[:, None])
        made[:, first:last, first:last] = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
    return made


def logits_at(joint: JointSet, X: Floats) -> Floats:
    """[n, S, A, M] at the centre."""
    weights = np.einsum("bqd,nd->nbq", joint.centre, X)
    made: Floats = np.einsum("saki,nsai->nsak", joint.blocks.features, weights[:, joint.blocks.block], optimize=True)
    return made


def _reach(joint: JointSet, space: Space, X: Floats, z: Floats, roots: Floats) -> Floats:
    """R [n, S, A, M, M], at least v_k - v_l and 0."""
    white = np.einsum("saki,nij->nsakj", space.features, roots, optimize=True)
    gram = white @ white.swapaxes(-1, -2)
    own = np.einsum("...kk->...k", gram)
    square = own[..., :, None] + own[..., None, :] - 2.0 * gram
    rounding = 1e-14 * (own[..., :, None] + own[..., None, :])
    ellipsoid = np.sqrt(np.maximum(square, 0.0) + rounding * (square != 0.0))
    apart = joint.blocks.features[..., :, None, :] - joint.blocks.features[..., None, :, :]
    cap = np.linalg.norm(apart, axis=-1) * joint.blocks.bound[joint.blocks.block][..., None, None]
    cap = cap * np.linalg.norm(X, axis=1)[:, None, None, None, None] - (z[..., :, None] - z[..., None, :])
    reach: Floats = np.maximum(np.minimum(ellipsoid, cap), 0.0)
    both = used_slots(joint.layout)
    reach *= both[..., :, None] & both[..., None, :]
    return reach


def _integrals(gaps: Floats, reach: Floats, away: Floats, p: Floats) -> tuple[Floats, Floats]:
    """(at least p_1 [n, S, A, M], moments [3, ...]); gaps_kl = z_l - z_k, -inf where l is padding."""
    h, moments = 1.0 / PARTS, np.zeros((3, *p.shape))
    powers, grow = np.exp(-h * reach), np.exp(np.minimum(h * away, _FAR / PARTS))
    terms = np.exp(np.minimum(gaps, _FAR))
    now, simple = 1.0 / terms.sum(-1), p
    for i in range(PARTS):
        steep = (terms * reach).sum(-1) * now
        terms = terms * powers
        after, later = 1.0 / terms.sum(-1), simple * grow
        end = now * np.exp(np.minimum(h * steep, _FAR))
        for j, (whole, rising) in enumerate(_weights(i * h, h)):
            falling = whole - rising
            tangent = np.minimum(falling * now + rising * end, falling * simple + rising * later)
            moments[j] += np.minimum(whole * after, tangent)
        now, simple = after, later
    return np.minimum(now, simple), moments * (1.0 + 1e-13)


def _weights(t: float, h: float) -> list[tuple[float, float]]:
    """Integrals over [t, t + h] of (1 - s)^i/i! and of the same times (s - t)/h, i = 1, 2, 3."""
    a, b, made, factorial = 1.0 - t, 1.0 - t - h, [], 1.0
    for i in (1, 2, 3):
        factorial *= i
        whole = (a ** (i + 1) - b ** (i + 1)) / (i + 1)
        moved = (a * whole - (a ** (i + 2) - b ** (i + 2)) / (i + 2)) / h
        made.append((whole / factorial, moved / factorial))
    return made


def rows_at(joint: JointSet, space: Space, X: Floats) -> Rows:
    """Everything about the rows of all pairs for contexts X [n, d]."""
    used, z, roots = used_slots(joint.layout), logits_at(joint, X), roots_at(space, X)
    reach = _reach(joint, space, X, z, roots)
    gaps = np.where(used, z, -np.inf)[..., None, :] - z[..., :, None]
    p = used / np.exp(np.minimum(gaps, _FAR)).sum(-1)
    mean = np.einsum("nsak,sakm->nsam", p, space.features, optimize=True)
    centred = (space.features - mean[..., None, :]) * used[..., None]
    white = np.einsum("nsaki,nij->nsakj", centred, roots, optimize=True)
    both = np.maximum(reach, reach.swapaxes(-1, -2))
    away = np.minimum(np.linalg.norm(white, axis=-1) * (1.0 + 1e-12), (both * p[..., None, :]).sum(-1))
    most, moments = _integrals(gaps, reach, away, p)
    least = 1.0 / np.exp(np.minimum(gaps + reach.swapaxes(-1, -2), _FAR)).sum(-1)
    most, moments = most * used, moments * used
    off = np.maximum(most - p, p - least * used)
    return Rows(p, most, off, moments, centred, away, reach.max((-1, -2)), white, p[..., None] * white, roots)
