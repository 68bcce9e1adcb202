"""Estimators of one state-action pair: transition weights and mean rewards, with confidence sets."""

from .conversion import Conversion
from .likelihood_set import LikelihoodRatioSet
from .mean_reward import MeanReward
from .mixture_set import MixtureSet
from .online_newton import OnlineNewton
from .reward_set import RewardSet
from .sign_union import SignUnionSet

__all__ = [
    "Conversion", "LikelihoodRatioSet", "MeanReward", "MixtureSet", "OnlineNewton", "RewardSet", "SignUnionSet",
]  # fmt: skip
