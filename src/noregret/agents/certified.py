"""temporary"""

from .base import Agent


class Certified(Agent):
    pass
