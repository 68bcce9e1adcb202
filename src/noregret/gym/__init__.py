"""Gymnasium, both ways: worlds as environments (`Env`), environments as worlds (`world_from`, `mixture_world`,
`contextual_world`), and agents that decide in an environment's own `step` (`play`).

Importing this registers `noregret/Clinic-v0` and the others with Gymnasium where that is installed (the extra `gym`).
Only `Env` needs it: the rest asks environments for a table, spaces, `reset` and `step`.

>>> import noregret as nr
>>> nr.gym.IDS["noregret/Clinic-v0"]  # Gymnasium's id -> the name in `noregret.worlds`
'clinic'
>>> sorted(set(nr.worlds.names()) - set(nr.gym.IDS.values()))  # those without an id
['bandit-logistic', 'icu-sepsis']
"""

import sys
from typing import TYPE_CHECKING, Any

from ..storage.text import readable
from .playing import Played, play
from .registration import IDS, register
from .tables import RewardMap
from .worlds import GymWorld, contextual_world, mixture_world, world_from

if TYPE_CHECKING:
    from .env import Env

__all__ = [
    "IDS",
    "Env",
    "GymWorld",
    "Played",
    "RewardMap",
    "contextual_world",
    "mixture_world",
    "play",
    "world_from",
]

register()
readable(sys.modules[__name__])


def __getattr__(name: str) -> Any:
    """`Env`, when it is first asked for: it alone cannot be had without Gymnasium."""
    if name == "Env":
        from .env import Env

        return Env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
