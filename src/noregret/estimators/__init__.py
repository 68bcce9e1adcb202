"""Learning the parameters of one pair from its observations: transitions, and rewards."""

from .conversion import Conversion
from .mean_reward import MeanReward
from .mixture_set import MixtureSet
from .online_newton import OnlineNewton

__all__ = ["Conversion", "MeanReward", "MixtureSet", "OnlineNewton"]
