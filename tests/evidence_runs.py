"""Many short logs at once, of a logger that learns, in a world whose truth is known: for tests of coverage."""

import numpy as np

import noregret as nr
from noregret.evidence.models import Predicted, predicted, values_by
from noregret.evidence.people import People, people_of, target_of
from noregret.evidence.weighted import Asked, Side
from noregret.problem.asked import Policies
from noregret.problem.log import Log, LoggedEpisode


def small_world(horizon=2, states=2, seed=3):
    """Two kinds of people, [2, d]; everything about them is known."""
    made = nr.worlds.random_logit(n_states=states, n_actions=2, horizon=horizon, context_dim=2, seed=seed)
    kinds = np.array([[1.0, 1.0], [1.0, -1.0]]) * np.sqrt(0.5)
    return nr.World(made.problem, made.weights, made.reward_weights, contexts=kinds)


def even_world():
    """One step, two actions that are equally good: a logger that learns prefers one of them by luck alone."""
    p = nr.Problem(2, 2, 1, 2, weight_bound=1.0, reward_bound=1.0)
    kinds = np.array([[1.0, 1.0], [1.0, -1.0]]) * np.sqrt(0.5)
    return nr.World(p, np.zeros((2, 2, 2, 2)), np.tile([np.sqrt(0.5), 0.0], (2, 2, 1)), contexts=kinds)


def learned_logs(world, runs, people, seed, floor=0.1, decay=0.0):
    """(kind [R, n], states [R, n, H+1], actions, rewards, chances [R, n, H]) of R loggers that follow, at every step
    and state, the action whose returns were better so far, and any action with chance max(floor, k^-decay)."""
    p, g = world.problem, np.random.default_rng(seed)
    H, S, A, R = p.horizon, p.n_states, p.n_actions, runs
    X = world.contexts.support
    P, r = np.stack([world.transitions(x) for x in X]), np.stack([world.rewards(x) for x in X])
    total, count = np.zeros((R, H, S, A)), np.zeros((R, H, S, A))
    kind = g.integers(0, len(X), (R, people))
    shape = R, people, H
    states, actions = np.zeros((R, people, H + 1), np.int64), np.zeros(shape, np.int64)
    rewards, chances, run = np.zeros(shape), np.zeros(shape), np.arange(R)
    for k in range(people):
        explore = max(floor, (k + 1.0) ** -decay) if decay > 0.0 else floor
        s = np.full(R, world.start(0, 0))
        for h in range(H):
            mean = total[run, h, s] / np.maximum(count[run, h, s], 1.0)
            best = (mean + 1e-9 * g.random(mean.shape)).argmax(1)
            a = np.where(g.random(R) < explore, g.integers(0, A, R), best)
            chances[:, k, h] = np.where(a == best, 1.0 - explore, 0.0) + explore / A
            states[:, k, h], actions[:, k, h] = s, a
            rewards[:, k, h] = g.random(R) < r[kind[:, k], s, a]
            edges = np.cumsum(P[kind[:, k], s, a], 1)
            s = (g.random((R, 1)) > edges[:, :-1]).sum(1)
        states[:, k, H] = s
        to_go = np.cumsum(rewards[:, k, ::-1], 1)[:, ::-1]
        for h in range(H):
            at = run, h, states[:, k, h], actions[:, k, h]
            total[at] += to_go[:, h]
            count[at] += 1.0
    return kind, states, actions, rewards, chances


def logs_of(world, made):
    """The same as a `Log` each."""
    X = world.contexts.support
    for kind, states, actions, rewards, chances in zip(*made, strict=True):
        rows = zip(X[kind], states, actions, rewards, chances, strict=True)
        yield Log(world.problem, tuple(LoggedEpisode(k, *row) for k, row in enumerate(rows)))


def exact(world, policy, kind):
    """[n]: the value of the policy for every person."""
    values = np.array([world.values(policy, x)[0, world.start(0, 0)] for x in world.contexts.support])
    return values[kind]


def people_in(world, made, i):
    """The people of run i, without a log."""
    kind, states, actions, rewards, chances = (part[i] for part in made)
    seen = np.ones(actions.shape, bool)
    X, H = world.contexts.support[kind], actions.shape[1]
    return People(np.arange(len(kind)), X, states[:, :H], actions, rewards, chances, seen)


def simply_asked(world, made, i, policy, table):
    """The question of a value, of run i, with a model that somebody made beforehand: Q [kinds, H, S, A]."""
    people, steps = people_in(world, made, i), np.arange(policy.shape[0])
    target = target_of(people, Policies(world.problem, "policy", policy, people.X))
    Q = table[made[0][i][:, None], steps, people.states]
    side = Side(target, Predicted(Q, (target.chances * Q).sum(2)))
    return Asked(people, [side], None, 0.05, "once", True)


def exact_table(world, policy):
    """Q [kinds, H, S, A] of the policy, in truth."""
    chances = (policy[..., None] == np.arange(world.problem.n_actions)).astype(float)
    return np.stack([values_by(world.transitions(x), world.rewards(x), chances)[0] for x in world.contexts.support])


def all_asked(world, log, policy, kind, floor, compared=True):
    """(question, exact values [n], whether by a model): a value and a difference to doing nothing, PDIS and DR."""
    p, people = world.problem, people_of(log)
    other = np.zeros_like(policy)
    both = [Policies(p, "policy", one, people.X) for one in ((policy, other) if compared else (policy,))]
    sides = [Side(target_of(people, of), model) for of, model in zip(both, predicted(log, people, both), strict=True)]
    least = np.full((*people.states.shape, p.n_actions), floor / p.n_actions)
    values = None if kind is None else [exact(world, one, kind) for one in (policy, other)]
    for two in (False, True)[: 1 + compared]:
        asked = Asked(people, sides if two else sides[:1], least, 0.05, "repeated", True)
        true = None if values is None else values[0] - values[1] if two else values[0]
        for by_model in (False, True):
            yield asked, true, by_model
