"""Whether a log has what a policy does.

An action that the logger never takes leaves no trace in weights: whoever should have got it weighs 0, and an estimate
is short of their rewards, with a small standard error. If the logger can take all that the policy takes, then at every
step, for any weights v that are known before the action is drawn,

    E[ v (pi/b)(a_h) ] = E[ v ]

so that the mean of v (pi/b - 1) is within its standard errors of 0 (`missing`). Few who got nothing may hide there:
what nobody at all got, a model has to say (`unmet`)."""

import numpy as np

from ..checks import Floats
from .people import People, Target

ERRORS = 4.0  # standard errors; 1,000 people with weights of 20 are below by chance once in 2,500 steps


def missing(v: Floats, ratio: Floats) -> Floats:
    """[H]: the part of E v that the mean of v ratio [n, H] lacks, where it is more than chance explains, else 0."""
    n = len(v)
    short = -(v * (ratio - 1.0))
    mean, error = short.mean(0), short.std(0, ddof=1) / np.sqrt(n)
    lacks = mean > np.maximum(ERRORS * error, 1e-9)
    made: Floats = np.where(lacks, mean / np.maximum(v.mean(0), 1e-300), 0.0)
    return made


def unmet(people: People, target: Target, v: Floats) -> Floats:
    """[H]: the part of E v, of people who are complete, for whom the policy does what nobody in their state got."""
    n, H = people.states.shape
    A = target.chances.shape[2]
    if A == 0:  # the rule that logged
        return np.zeros(H)
    got = np.zeros((H, int(people.states.max(initial=0)) + 1, A), bool)
    steps = np.broadcast_to(np.arange(H), (n, H))
    got[steps, people.states, people.actions] = True
    alone = np.where(got[steps, people.states], 0.0, target.chances).sum(2)
    made: Floats = (v * alone).sum(0) / np.maximum(v.sum(0), 1e-300)
    return made
