"""What a rule that explores a little would have logged of a world's individuals."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import strict
from ..numerics.random import LOGGED, uniforms
from ..problem.log import Log, LoggedEpisode
from .contexts import Adversary
from .truth import individual, transition


@strict
def _logged(truth, X, rules, masks, explore, states, actions, rewards):
    """states [n, H+1], whose first column is given, actions [n, H] and rewards [n, H] of individuals X [n, d]. rules
    [n, H, S], or [1, H, S] for everybody; masks [n, S, A], or [0, S, A]: everything is available."""
    n, H = actions.shape
    S, A = truth.r.shape
    for k in range(n):
        rule = rules[k if rules.shape[0] > 1 else 0]
        if masks.shape[0] > 0:
            for s in range(S):
                for b in range(A):
                    truth.layout.available[s, b] = masks[k, s, b]
        individual(truth, X[k])
        for h in range(H):
            s = states[k, h]
            a = rule[h, s]
            u, v = uniforms(truth.seed, k, h, LOGGED)
            if u < explore:
                count = 0
                for b in range(A):
                    count += int(truth.layout.available[s, b])
                left = int(v * count)
                a = -1
                while left >= 0:
                    a += 1
                    left -= int(truth.layout.available[s, a])
            actions[k, h] = a
            transition(truth, k, h, s, a, rewards[k, h:], states[k, h + 1 :])


def recorded(world: Any, people: int, seed: int, explore: float, rule: NDArray[np.int64]) -> Log:
    """The log of the first so many individuals of a seed."""
    p = world.problem
    if isinstance(world.contexts, Adversary):
        raise ValueError("log needs a world whose contexts do not look at the agent")
    H, d = p.horizon, p.context_dim
    check.memory(f"a log of people = {people}", 8.0 * people * (2 * d + 6 * H))
    X, states = np.empty((people, d)), np.zeros((people, H + 1), np.int64)
    actions, rewards, starts = np.zeros((people, H), np.int64), np.zeros((people, H)), np.zeros(people, np.int64)
    world.contexts.fill(seed, 0, X)
    X = p.contexts(X)
    world.fill_starts(seed, 0, starts, X)
    states[:, 0] = starts
    with announced("the world"):
        masks = np.array([world.allowed(x) for x in X if world.unavailable is not None])
        masks = masks.reshape(-1, p.n_states, p.n_actions).astype(np.bool_)
        rules = np.array([within(rule, mask) for mask in masks]) if len(masks) else np.array(rule)[None]
        _logged(world.truth(seed), X, rules, masks, explore, states, actions, rewards)
    scale = world.problem.scale
    rewards = np.where(rewards > 0.5, scale.high, scale.low)
    if len(masks):
        at, own = np.arange(H), zip(rules, masks, states, actions, strict=True)
        chances = np.array([mixed(may, r, explore)[at, s[:H], a] for r, may, s, a in own])
    else:
        chances = mixed(p.layout.available, rule, explore)[np.arange(H), states[:, :H], actions]
    left: Any = masks if len(masks) else [None] * people
    rows = zip(X, states, actions, rewards, chances, left, strict=True)
    return Log(p, tuple(LoggedEpisode(k, *seen) for k, seen in enumerate(rows)))


def within(rule: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rule [H, S] of somebody to whom mask [S, A] is available: where it says something else, the first action."""
    return np.where(mask[np.arange(len(mask))[None], rule], rule, mask.argmax(1)[None])


def mixed(may: NDArray[np.bool_], rule: NDArray[np.int64], explore: float) -> Floats:
    """Probabilities [H, S, A] of a rule that takes an action at random, of those in may [S, A], with chance
    `explore`."""
    made: Floats = np.broadcast_to(explore * may / may.sum(1, keepdims=True), (len(rule), *may.shape)).copy()
    h, s = np.ogrid[: len(rule), : len(may)]
    made[h, s, rule] += 1.0 - explore
    return made
