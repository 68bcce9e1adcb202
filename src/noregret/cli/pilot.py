"""Worlds that a pilot suggests: drawn from what a saved agent has learned, with the people of a log."""

import warnings
from typing import Any

import numpy as np

from ..agents.files import load
from ..live.log import read_log
from ..simulation.fitted import world_of
from ..worlds import World
from .options import policy_of

NAME = f"{__name__}:pilot"


def pilot(agent: str, log: str, rule: Any = None, seed: int = 0) -> World:
    """Model number `seed` from the posterior of a saved agent, as a world: by the name `noregret.cli.pilot:pilot` in
    studies, and by --pilot on the command line.

    agent   file of an agent that has learned the pilot, and has a posterior (`PSRLGLM`, `CertifiedPSRL`)
    log     file of the pilot's log, whose people come again and begin where they began; as `read_log` takes it
    rule    what is done today: state=action,state=action,..., or actions [H, S]. (In a study file a list is several
            values, so there it is words)
    """
    player = load(agent)
    p = player.problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the order of the people, which does not matter here
        seen = read_log(log, p, player.encoder)
    begin = np.bincount([e.states[0] for e in seen], minlength=p.n_states) / len(seen)
    told = policy_of(rule, p) if isinstance(rule, str) else rule
    return world_of(player, seen, seed, initial_state=begin, rule=told, name=f"pilot, draw {seed}")
