"""Learning the parameters of one pair from its observations: transitions, and rewards."""

from .conversion import Conversion
from .online_newton import OnlineNewton

__all__ = ["Conversion", "OnlineNewton"]
