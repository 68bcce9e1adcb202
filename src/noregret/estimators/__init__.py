"""Learning the parameters of one pair from its observations: transitions, and rewards."""

from .conversion import Conversion
from .mean_reward import MeanReward
from .online_newton import OnlineNewton
from .reward_set import RewardSet

__all__ = ["Conversion", "MeanReward", "OnlineNewton", "RewardSet"]
