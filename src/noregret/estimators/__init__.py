"""Learning the parameters of one pair from its observations: transitions, and rewards."""

from .conversion import Conversion
from .mean_reward import MeanReward
from .online_newton import OnlineNewton
from .sign_union import SignUnionSet

__all__ = ["Conversion", "MeanReward", "OnlineNewton", "SignUnionSet"]
