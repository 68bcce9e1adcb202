"""How often intervals of `evidence.plug_in` miss, in worlds whose truth is known: the tables of
docs/evidence-asymptotic.md.

    python tests/asymptotic.py --runs 1000        all tables, half an hour of one core
    python tests/asymptotic.py --runs 4000 --only "bandit, floor 0.02"

The learner here is like Thompson sampling with normal posteriors: of two actions it takes the one whose mean return so
far is larger, up to its standard errors, with a floor. Its probabilities are exact. All runs are made at once."""

import argparse

import numpy as np
from scipy.special import ndtr

import noregret as nr
from noregret.evidence.asymptotic import student
from noregret.evidence.plug_in import plug_in
from noregret.problem.log import Log, LoggedEpisode


def learner_paths(g, runs, people, horizon, floor, chance, mean, learns=True):
    """(states [runs, people, H+1], actions, rewards, probabilities [runs, people, H]) of two actions; chance [S, 2, S],
    mean [S, 2]. Every person begins in state 0. learns=False: both actions are equally likely for ever."""
    S, shape, i = len(mean), (runs, people, horizon), np.arange(runs)
    states, actions = np.zeros((runs, people, horizon + 1), int), np.zeros(shape, int)
    rewards, chances, edges = np.zeros(shape), np.zeros(shape), np.cumsum(chance, -1)
    n, sums, squares = np.zeros((3, runs, horizon, S, 2))
    for k in range(people):
        middle = (sums + 0.25) / (n + 0.5)
        spread = np.maximum((squares + 0.5) / (n + 1.0) - middle**2, 0.05) / (n + 1.0)
        best = ndtr((middle[..., 1] - middle[..., 0]) / np.sqrt(spread.sum(-1)))
        second = 0.5 * floor + (1.0 - floor) * best if learns else np.full(best.shape, 0.5)
        for h in range(horizon):
            s = states[:, k, h]
            likely = second[i, h, s]
            a = (g.random(runs) < likely).astype(int)
            actions[:, k, h], chances[:, k, h] = a, np.where(a == 1, likely, 1.0 - likely)
            rewards[:, k, h] = g.random(runs) < mean[s, a]
            states[:, k, h + 1] = np.minimum((g.random(runs)[:, None] > edges[s, a]).sum(1), S - 1)
        left = np.cumsum(rewards[:, k, ::-1], 1)[:, ::-1]
        for h in range(horizon):
            at = i, h, states[:, k, h], actions[:, k, h]
            n[at] += 1.0
            sums[at] += left[:, h]
            squares[at] += left[:, h] ** 2
    return states, actions, rewards, chances


def small_problem(S, H):
    return nr.Problem(S, 2, H, 1, weight_bound=4.0, reward_bound=1.0)


def logs_of(problem, paths):
    one = np.ones(1)
    for states, actions, rewards, chances in zip(*paths, strict=True):
        rows = zip(states, actions, rewards, chances, strict=True)
        yield Log(problem, tuple(LoggedEpisode(k, one, *row) for k, row in enumerate(rows)))


def first_of(log, people):
    return Log(log.problem, log.episodes[:people])


def missed(found, truth):
    return not found.lower <= truth <= found.upper


def out(found, truth):
    """(missed, whether the answer was an interval): a sentence has one, too, which is not shown."""
    away = abs(found.estimate - truth)
    return missed(found, truth) if found.told else away > student(
        found.delta, found.freedom
    ) * found.standard_error, found.told


def no_gap(runs, S, H, floor, kinds, people=1000, seed=1, mean=0.5):
    """{kind: rows (value missed, told, difference missed, told, its standard error)}: every action is as good as the
    other. Missed: told or not."""
    g, problem = np.random.default_rng(seed), small_problem(S, H)
    paths = learner_paths(g, runs, people, H, floor, np.full((S, 2, S), 1.0 / S), np.full((S, 2), mean))
    one, zero, table = np.ones((H, S), int), np.zeros((H, S), int), {kind: [] for kind in kinds}
    for log in logs_of(problem, paths):
        for kind in kinds:
            value = plug_in(log, one, contexts=[[1.0]], start=0, adaptive=kind)
            more = plug_in(log, one, zero, contexts=[[1.0]], start=0, adaptive=kind)
            table[kind].append((*out(value, mean * H), *out(more, 0.0), more.standard_error))
    return {kind: np.array(rows, float) for kind, rows in table.items()}


def shown(rows):
    """(misses among the intervals of values that are shown, among those of differences)."""
    return [rows[rows[:, told] > 0.0, told - 1].mean() for told in (1, 3)]


def at_looks(runs, times, learns, seed=2):
    """rows (Wald missed at some look, the sequence did): one step, no gap, the difference of two actions."""
    g, problem, rows = np.random.default_rng(seed), small_problem(1, 1), []
    paths = learner_paths(g, runs, max(times), 1, 0.1, np.ones((1, 2, 1)), np.full((1, 2), 0.5), learns)
    one, zero = np.ones((1, 1), int), np.zeros((1, 1), int)
    for log in logs_of(problem, paths):
        asked = [
            [plug_in(first_of(log, n), one, zero, contexts=[[1.0]], start=0, looks=looks) for n in times]
            for looks in ("one", "any")
        ]
        rows.append([any(missed(found, 0.0) for found in listed) for listed in asked])
    return np.array(rows, float)


def programme_question(world, people=100, seed=99):
    """(contexts, optimal policies, start, true mean gain over the rule)."""
    X = np.stack([world.context(seed, k) for k in range(people)])
    best, start = np.stack([world.optimal(x).policy for x in X]), np.asarray(world.initial_state, float)
    gains = [(world.values(p, x) - world.values(world.rule, x))[0] @ start for p, x in zip(best, X, strict=True)]
    return X, best, start, float(np.mean(gains))


def programme(runs, people=1000, first=1000, **sizes):
    """rows (missed, standard error, told, (estimate - truth)/standard error): the log of the rule, 25% at random."""
    world = nr.worlds.programme(**sizes)
    X, best, start, truth = programme_question(world)
    rows = []
    for r in range(runs):
        found = plug_in(world.log(people, first + r), best, world.rule, X, start=start)
        away = (found.estimate - truth) / found.standard_error
        rows.append((missed(found, truth), found.standard_error, found.told, away))
    return np.array(rows, float)


def sampler(runs, kinds=("no", "step"), people=1000):
    """{kind: rows (missed, standard error, told)}: the programme's people, while `PSRLGLM` with a floor learns."""
    world = nr.worlds.programme()
    X, best, start, truth = programme_question(world)
    agent, table = nr.PSRLGLM(world.problem, plans=5, floor=0.1), {kind: [] for kind in kinds}
    for r in range(runs):
        log = nr.logged(agent, world, people, seed=500 + r)
        for kind in kinds:
            found = plug_in(log, best, world.rule, X, start=start, adaptive=kind)
            table[kind].append((out(found, truth)[0], found.standard_error, found.told))
    return {kind: np.array(rows, float) for kind, rows in table.items()}


def populations(runs, people=300):
    """rows (missed by the interval about these people, by the one about the population): the mean over all people that
    could come of the rule's value."""
    world = nr.worlds.programme(horizon=2, context_dim=4)
    everybody, rows = np.stack([world.context(7, k) for k in range(20_000)]), []
    start = np.asarray(world.initial_state, float)
    truth = np.mean([world.values(world.rule, x)[0] @ start for x in everybody])
    for r in range(runs):
        log = world.log(people, 5000 + r)
        rows.append([missed(plug_in(log, world.rule, population=wide), truth) for wide in (False, True)])
    return np.array(rows, float)


def ten_worlds(people=3000):
    """(seed, true gain, found, sequence) of ten programmes: policies drawn by an agent that learned another log."""
    for seed in range(10):
        world = nr.worlds.programme(seed=seed)
        agent, log = nr.PSRLGLM(world.problem), world.log(people, 200 + seed)
        agent.learn_from(world.log(people, 100 + seed))
        policy = []
        for e in log:
            policy.append(agent.begin_episode(e.context).policy)
            agent.end_episode()
        gains = [
            (world.values(p, e.context) - world.values(world.rule, e.context))[0, e.states[0]]
            for p, e in zip(policy, log, strict=True)
        ]
        found = [plug_in(log, np.stack(policy), world.rule, looks=looks) for looks in ("one", "any")]
        yield seed, float(np.mean(gains)), *found


def _print_no_gap(name, found):
    for kind, rows in found.items():
        for what, one, i in zip(("value", "difference"), shown(rows), (0, 2), strict=True):
            print(f"{name}, {kind}, {what}: missed {rows[:, i].mean():.4f}, of those shown {one:.4f}, "
                  f"sentences {1.0 - rows[:, i + 1].mean():.4f}", flush=True)  # fmt: skip


def _print(name, rows):
    print(f"{name:58s}", "  ".join(f"{x:.4f}" for x in rows.mean(0)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    runs, wanted = given.runs, lambda name: name.startswith(given.only)
    if wanted("fixed"):
        _print("fixed rule, programme, 1000 people: missed, se, told, z", programme(runs))
    for floor in (0.02, 0.05, 0.1):
        for mean in (0.5, 0.1):
            name = f"bandit, floor {floor}, mean {mean}"
            if wanted(name):
                _print_no_gap(name, no_gap(runs, 1, 1, floor, ("no", "step"), mean=mean))
    if wanted("three"):
        _print_no_gap("three steps, floor .05", no_gap(runs, 2, 3, 0.05, ("no", "step", "path")))
    if wanted("sampler"):
        for kind, rows in sampler(runs).items():
            _print(f"PSRLGLM, floor .1, programme, {kind}: missed, se, told", rows)
    if wanted("looks"):
        times = [200, 400, 700, 1000, 1400, 2000]
        _print("six looks, fixed: Wald, sequence", at_looks(runs, times, False))
        _print("six looks, learner weighted: Wald, sequence", at_looks(runs, times, True))
    if wanted("population"):
        _print("population: about these people, about all", populations(runs))
    if wanted("ten"):
        for seed, gain, found, wide in ten_worlds():
            print(f"world {seed}: gain {gain:.3f}, {found.lower:.3f} to {found.upper:.3f}, "
                  f"any time {wide.lower:.3f} to {wide.upper:.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
