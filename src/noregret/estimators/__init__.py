"""Learning the parameters of one pair from its observations: transitions by online Newton steps, rewards by ridge."""

from .online_newton import OnlineNewton

__all__ = ["OnlineNewton"]
