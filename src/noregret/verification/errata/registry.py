"""The registry: every check of docs/errata.md by name.

>>> from noregret.verification.errata import CHECKS
>>> CHECKS["value-clip"]().printed_holds
False
"""

from collections.abc import Callable

from . import conversion, estimation, lower_bound, optimism, randomised
from ._tools import Finding

CHECKS: dict[str, Callable[[], Finding]] = {
    # The model
    "curvature-of-the-logit": estimation.curvature_of_the_logit,
    "curvature-in-a-ball": estimation.curvature_in_a_ball,
    "pinning-and-curvature": estimation.pinning_and_curvature,
    "smoothness-of-the-logit": estimation.smoothness_of_the_logit,
    "width-of-the-logit": estimation.width_of_the_logit,
    "calibration": estimation.calibration,
    # The estimator
    "tabular-average": estimation.tabular_average,
    "squared-norms": estimation.squared_norms,
    "gradient-norm": estimation.gradient_norm,
    "monotone-gradient": estimation.monotone_gradient,
    "small-variance-case": estimation.small_variance_case,
    "peeling": estimation.peeling,
    "norm-bound-for-b": estimation.norm_bound_for_b,
    "radius-growth": estimation.radius_growth,
    "reward-interval": estimation.reward_interval,
    # GLM-ORL
    "value-clip": optimism.value_clip,
    "norm-of-mixtures": optimism.norm_of_mixtures,
    "visit-deviation": optimism.visit_deviation,
    "failure-event": optimism.failure_event,
    "sign-of-the-value-difference": optimism.sign_of_the_value_difference,
    "elliptic-sum": optimism.elliptic_sum,
    "horizon-exponent": optimism.horizon_exponent,
    "determinant-bound": optimism.determinant_bound,
    # Mistakes
    "mistakes-unreachable-pair": optimism.unreachable_pair,
    "mistakes-shrinkage-factor": optimism.shrinkage_factor,
    "mistakes-unscaled-potential": optimism.unscaled_potential,
    "mistakes-and-curvature": optimism.mistakes_and_curvature,
    # GLM-RLSVI
    "rlsvi-variance": randomised.variance_of_the_perturbation,
    "rlsvi-noise-sum": randomised.sum_of_the_noise,
    "rlsvi-failure-budget": randomised.failure_budget,
    "rlsvi-reward-clip": randomised.reward_clip,
    "gaussian-maximum": randomised.gaussian_maximum,
    # The lower bound
    "lower-bound-horizon": lower_bound.growth_with_the_horizon,
    "lower-bound-two-halves": lower_bound.two_halves,
    "lower-bound-linear-case": lower_bound.linear_case,
    "lower-bound-starts": lower_bound.starts,
    "lower-bound-zero-probabilities": lower_bound.zero_probabilities,
    # Conversion, corollary, related work
    "conversion-identity": conversion.identity,
    "conversion-sign": conversion.sign_of_the_gradient,
    "conversion-stray-factor": conversion.stray_factor,
    "conversion-weight-term": conversion.weight_term,
    "logit-corollary": conversion.logit_corollary,
    "improvement-over-related-work": conversion.improvement_over_related_work,
}
