"""Populations to learn from, by name. The truth and the learner meet only in `simulate`."""

from collections.abc import Callable
from typing import Any

from .. import checks as check
from .blind import BlindOptimum, blind_optimum
from .clinic import clinic
from .designed import random_design
from .hard import HardWorld, hard_linear, hard_logit
from .icu import SepsisTables, icu_sepsis, mixed_value, sepsis_tables
from .individual import Episodes, Individual
from .programme import programme
from .random_worlds import bandit_logistic, group_norm, random_linear, random_logit, shared_logit, sparse_logit
from .riverswim import riverswim_logit
from .starts import InTurn, StartsByContext
from .tilt import tilt
from .world import World

_MAKERS = (
    bandit_logistic, clinic, hard_linear, hard_logit, icu_sepsis, programme, random_linear, random_logit,
    riverswim_logit, shared_logit, sparse_logit,
)  # fmt: skip
_WORLDS: dict[str, Callable[..., World]] = {make.__name__.replace("_", "-"): make for make in _MAKERS}

__all__ = [
    "BlindOptimum",
    "Episodes",
    "HardWorld",
    "InTurn",
    "Individual",
    "SepsisTables",
    "StartsByContext",
    "World",
    "bandit_logistic",
    "blind_optimum",
    "clinic",
    "group_norm",
    "hard_linear",
    "hard_logit",
    "icu_sepsis",
    "make_world",
    "mixed_value",
    "names",
    "programme",
    "random_design",
    "random_linear",
    "random_logit",
    "riverswim_logit",
    "sepsis_tables",
    "shared_logit",
    "sparse_logit",
    "tilt",
]


def names() -> list[str]:
    """Every world's name, for `make_world` and the command line.

    >>> import noregret as nr
    >>> print(*nr.worlds.names()[:5])
    bandit-logistic clinic hard-linear hard-logit icu-sepsis
    >>> print(*nr.worlds.names()[5:])
    programme random-linear random-logit riverswim-logit shared-logit sparse-logit
    """
    return list(_WORLDS)


def world_maker(name: str) -> Callable[..., World]:
    """The function that makes the world of that name; of `module:function`, the user's own, whose module is
    imported."""
    return check.imported("world", name) if check.is_own(name) else check.known("world", name, _WORLDS)


def make_world(name: str, /, **options: Any) -> World:
    """A world by its name: `make_world("random-logit", n_states=4)` is `random_logit(n_states=4)`.

    A name of the form "module:function" is a world of your own: the module is imported, and its function is called with
    the options and returns a `World`.

    >>> import noregret as nr
    >>> nr.worlds.make_world("random-logit", n_states=4, context_dim=2).weights.shape
    (4, 3, 4, 2)
    """
    make = world_maker(name)
    check.fits(f"world {name}", make, **options)
    made = make(**options)
    if not isinstance(made, World):
        raise ValueError(f"world {name!r} must return a noregret.World, got {check.shown(made)}")
    return made
