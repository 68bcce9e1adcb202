"""What confidence sets say about one individual: for every pair an ellipsoid of logits, and a range of mean rewards.

Where an estimator knows the weights of a pair up to an ellipsoid, the linear predictors of one individual lie in

    { z + v :  v = rho cov^{1/2} u, ||u||_2 <= 1,  max v - min v <= span }

(logits, up to a common shift). `LocalSets` holds that for all pairs at once; estimators fill it in for a context
(`estimators.likelihood_ratio`, `estimators.mixture`, `estimators.sign_union`), and `optimism` plans with it. Everything
the planner needs from an estimator is here, so any set can go with any planner.
"""

from typing import NamedTuple

import numpy as np

from ._checks import Floats
from .problem import Layout


class LocalSets(NamedTuple):
    z: Floats  # [S, A, M], centre; padding 0
    P: Floats  # [S, A, M], softmax(z), or the estimated distribution under a link without logits; padding 0
    cov: Floats  # [S, A, M, M], symmetric; matters on differences only; zeros under a link without logits
    rho: Floats  # [S, A]
    span: Floats  # [S, A], bound on max v - min v
    second: Floats  # [S, A], bound on the second-order error of <softmax(z + v), V> over span(V)
    half: Floats  # [S, A], bound on |<P* - P, V>| over span(V): half the 1-norm width
    low: Floats  # [S, A], of the mean reward
    high: Floats  # [S, A]


def local_sets(layout: Layout) -> LocalSets:
    """Room for the sets of every pair."""
    S, A, M = layout.outcomes.shape
    f = np.zeros
    return LocalSets(f((S, A, M)), f((S, A, M)), f((S, A, M, M)), *(f((S, A)) for _ in range(6)))
