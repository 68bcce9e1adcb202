"""Estimators of one state-action pair: transition weights and mean rewards, with confidence sets."""

from .likelihood.single import LikelihoodRatioSet
from .linear.sign_union import SignUnionSet
from .mixture.single import MixtureSet
from .newton.conversion import Conversion
from .newton.online_newton import OnlineNewton
from .rewards.single import MeanReward, RewardSet

__all__ = [
    "Conversion", "LikelihoodRatioSet", "MeanReward", "MixtureSet", "OnlineNewton", "RewardSet", "SignUnionSet",
]  # fmt: skip
