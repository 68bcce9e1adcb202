"""Actions that are not available to one person: agents keep to them, bounds and regret are about what is left."""

import itertools
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import noregret as nr
from live import BANDITS, EVERYONE, make, place
from noregret.agents import files
from noregret.agents.contents import contents
from noregret.problem.masks import allowed_actions, barred, from_barred

BASE = nr.worlds.random_logit(3, 3, 3, 2, seed=2)
P = BASE.problem
H, S, A = P.horizon, P.n_states, P.n_actions


def taken_from(x):
    """By the context: an action in all states, one in one state, or nothing."""
    if x[1] > 0.3:
        return [2]
    mask = np.zeros((S, A), bool)
    mask[1, :2] = True
    return mask if x[1] < -0.3 else None


CONTEXTS = nr.contexts.Table([[0.7, -0.7], [0.7, -0.4], [0.7, 0.0], [0.7, 0.4], [0.7, 0.7]])
WORLD = nr.World(P, BASE.weights, BASE.reward_weights, CONTEXTS, BASE.initial_state, "masked", unavailable=taken_from)


def random_taken(g):
    """[S, A], True where an action is not available; every state keeps one."""
    made = g.random((S, A)) < 0.4
    made[np.arange(S), g.integers(0, A, S)] = False
    return made


def kept(plan, taken):
    return not taken[np.arange(S)[None], plan.policy].any()


def best_of(world, x, mask):
    """Optimal values [H+1, S] of what is left, in NumPy."""
    V, p, r = np.zeros((H + 1, S)), world.transitions(x), world.rewards(x)
    for h in reversed(range(H)):
        V[h] = np.where(mask, r + p @ V[h + 1], -np.inf).max(1)
    return V


def test_what_is_left():
    p = nr.Problem(2, 3, 3, 1, weight_bound=1.0, reward_bound=1.0, action_names=("wait", "drug A", "drug B"))
    for given in ("drug A", ["drug A"], 1, [1], {1}, np.array([1]), np.tile([False, True, False], (2, 1))):
        assert allowed_actions(p, given).tolist() == [[True, False, True]] * 2
    for nothing in (None, [], ()):
        assert allowed_actions(p, nothing).all()
    mask = allowed_actions(p, [[False, True, False], [False] * 3])
    assert barred(p, mask) == [[0, 1]]
    assert np.array_equal(from_barred(p, [[0, 1]]), mask)
    assert barred(p, from_barred(p, None)) is None
    for given, message in (
        (["drug C"], r"unavailable: it must be an action"),
        ([0, 1, 2], "unavailable must leave an action in every state, state 0 has none"),
        (np.zeros((4, 3), bool), r"unavailable must be a boolean array of shape \(2, 3\), got shape \(4, 3\)"),
        (np.zeros((2, 3)), r"unavailable must be actions by number or name, or a boolean array of shape \(2, 3\)"),
        (7, "unavailable: it must be an action"),
        (object(), "unavailable: it must be an action"),
    ):
        with pytest.raises(ValueError, match=message):
            allowed_actions(p, given)


COMPILED = (
    "uniform-random", "oracle", "certified-psrl", "glm-orl", "psrl-glm", "certified", "referral", "referral-function",
    "conservative", "conservative-function", "fixed-policy", "cece", "psrl", "lsvi-ucb",
)  # fmt: skip  # the last three refuse; the others are slow to compile


@pytest.mark.parametrize("name", [n if n in COMPILED else pytest.param(n, marks=pytest.mark.slow) for n in EVERYONE])
def test_every_agent_keeps_to_it_or_says_why_not(name):
    world = place(name)
    agent, p = make(name, world), world.problem
    x, taken = world.context(3, 0), np.zeros((p.n_states, p.n_actions), bool)
    taken[:, 0] = True
    before = files.contents(agent)[1]
    before = {key: np.array(array) for key, array in before.items()}
    asks = name.endswith("-function") or name == "fixed-policy"
    if not agent.masks or asks:
        said = "takes an action that is not available to this person" if asks else "unavailable must be None, "
        with pytest.raises(ValueError, match=said):
            agent.begin_episode(x, unavailable=taken)
        assert not agent.is_open
        assert all(np.array_equal(array, before[key], equal_nan=True) for key, array in contents(agent)[1].items())
        return
    for k in range(6):
        plan = agent.begin_episode(world.context(3, k), unavailable=taken if k % 2 else None)
        assert (plan.policy == 1).all() or k % 2 == 0
        state = int(p.starts[0])
        if k % 2:
            with pytest.raises(ValueError, match=r"action 0 is not available to this person in state 0"):
                agent.act(state, action=0)
            assert agent.action_probabilities(state, draws=5).probabilities[0] == 0.0
        agent.observe(1.0, int(p.layout.outcomes[state, agent.act(state), 0]))
        agent.end_episode()
        assert agent._in_force.all()  # what learns sees all there is
    assert name not in BANDITS


MAKERS = {
    "certified-psrl": lambda: nr.CertifiedPSRL(P, delta=0.5),
    "certified glm-orl": lambda: nr.Certified(nr.GLMORL(P), delta=0.5, certificates="close"),
    "referral": lambda: nr.Referral(nr.LRORL(P, delta=0.5), nr.UniformRandom(P), 2.5),
    "conservative": lambda: nr.Conservative(nr.LRORL(P, delta=0.5), nr.UniformRandom(P), 0.5),
    "oracle": lambda: nr.Oracle(P, BASE.weights, BASE.reward_weights),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_regret_and_bounds_are_about_what_is_left(kind):
    """Against NumPy: the optimum, the regret of every episode, and bounds on both sides of the truth."""
    agent, total, curve = MAKERS[kind]().fresh(seed=5), 0.0, []
    for k in range(60):
        person = WORLD.individual(k, 5)
        x, mask = person.context, WORLD.allowed(person.context)
        assert (person.unavailable == ~mask).all()
        best = best_of(WORLD, x, mask)
        assert WORLD.optimal(x).values == pytest.approx(best, abs=1e-12)
        plan = agent.begin_episode(x, unavailable=person.unavailable)
        assert kept(plan, ~mask)
        lost = best[0, 0] - WORLD.value(plan.policy, x, 0)
        if plan.upper is not None:
            assert (plan.upper >= best - 1e-9).all()
        if plan.certificate is not None:
            assert lost <= plan.certificate + 1e-9
        total += lost
        curve.append(total)
        while person.steps < H:
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    for compiled in (True, False):
        run = nr.simulate(MAKERS[kind](), WORLD, 60, seeds=[5], compiled=compiled, workers=1)
        assert run.regret[0] == pytest.approx(curve, abs=1e-8)
    assert (kind == "oracle") == (total < 1e-9)
    X = [WORLD.context(5, k) for k in range(60)]
    assert sum(BASE.optimal(x).values[0, 0] - WORLD.optimal(x).values[0, 0] for x in X) > 1.0


def fuzzed(make_one, episodes, seed):
    """Episodes with random masks, plans alone; how many plans had to differ from the one without a mask."""
    agent, g, differ = make_one(), np.random.default_rng(seed), 0
    for k in range(episodes):
        x, taken = g.normal(size=2), random_taken(g)
        x /= max(np.linalg.norm(x), 1.0)
        plan = agent.begin_episode(x, unavailable=taken)
        assert kept(plan, taken)
        if k % 50 == 0:
            s = int(g.integers(0, S)) * 0
            agent.observe(float(g.integers(0, 2)), int(g.integers(0, S))) if agent.act(s) >= 0 else None
        differ += bool(taken.any())
        agent.end_episode()
    return differ


FUZZED = {
    "uniform-random": lambda: nr.UniformRandom(P),
    "psrl-glm": lambda: nr.PSRLGLM(P),
    "epsilon-greedy": lambda: nr.EpsilonGreedy(P, exploration=0.1),
    "certified-psrl": lambda: nr.CertifiedPSRL(P, delta=0.5),
    "conservative": lambda: nr.Conservative(nr.CertifiedPSRL(P, delta=0.5), nr.UniformRandom(P), 0.5),
}


@pytest.mark.parametrize("kind", FUZZED)
def test_no_forbidden_action_in_a_few_episodes(kind):
    assert fuzzed(FUZZED[kind], 200, 0) > 150


@pytest.mark.slow
def test_no_forbidden_action_in_a_million_episodes():
    done = sum(fuzzed(made, 200_000, seed) for seed, made in enumerate(FUZZED.values()))
    print(f"{done:,} of 1,000,000 episodes had a mask, no forbidden action")


def test_without_a_mask_nothing_changes():
    one, two = nr.CertifiedPSRL(P), nr.CertifiedPSRL(P)
    for k in range(5):
        x = BASE.context(0, k)
        plans = one.begin_episode(x), two.begin_episode(x, unavailable=[])
        assert np.array_equal(plans[0].values, plans[1].values)
        assert np.array_equal(plans[0].policy, plans[1].policy)
        assert json.dumps(contents(one)[0]) == json.dumps(contents(two)[0])
        for agent in (one, two):
            agent.end_episode()


def test_files_in_the_middle_of_an_episode(tmp_path):
    agent = nr.CertifiedPSRL(P)
    agent.begin_episode([0.6, 0.8], unavailable=[0, 1])
    agent.act(0)
    agent.save(tmp_path / "agent.npz")
    again = nr.load(tmp_path / "agent.npz")
    assert np.array_equal(again.mask, agent.mask)
    assert again.action_probabilities(0, draws=5).probabilities.tolist() == [0.0, 0.0, 1.0]
    for each in (agent, again):
        with pytest.raises(ValueError, match="not available to this person"):
            each.act(0, action=1)
        each.observe(1.0, 1)
        each.end_episode()
        assert each.begin_episode([0.6, 0.8]).policy.tolist() == agent.policy.tolist()
        assert each.mask.all()
    agent.end_episode()
    agent.begin_episode([0.6, 0.8], unavailable=[0])
    for wrong in ([[0, 9]], [[0]], "all", [[0, 0], [0, 1], [0, 2]], [[0, int(agent.policy[0, 0])]]):
        header, arrays = contents(agent)
        header = json.loads(json.dumps(header)) | {"unavailable": wrong}
        with pytest.raises(ValueError, match=r"unavailable|action|the plan"):
            files.revived(header, dict(arrays), P)


def test_live_keeps_everybodys_own(tmp_path):
    before = nr.CertifiedPSRL(P)
    live = nr.Live(nr.CertifiedPSRL(P), draws=10)
    with pytest.raises(ValueError, match="unavailable must leave an action"):
        live.begin("nobody", [0.6, 0.8], unavailable=[0, 1, 2])
    plans = {
        who: live.begin(who, [0.6, 0.8], unavailable=taken) for who, taken in (("a", [0, 1]), ("b", None), ("c", [2]))
    }
    assert (plans["a"].policy == 2).all()
    live.save(tmp_path / "live.npz")
    for each in (live, nr.Live.load(tmp_path / "live.npz")):
        with pytest.raises(ValueError, match="action 0 is not available to this person in state 0"):
            each.act("a", 0, action=0)
        decision = each.act("a", 0)
        assert decision.action == 2
        assert decision.probability == 1.0
        assert decision.unavailable == [[s, a] for s in range(S) for a in (0, 1)]
        assert each.act("b", 0, action=1).unavailable is None
        with pytest.raises(ValueError, match="not available to this person"):
            each.act("c", 0, action=2)
        assert nr.Decision.from_dict(json.loads(json.dumps(decision.to_dict()))) == decision
        assert decision.replay(before) == decision
    nr.write_decisions([decision], tmp_path / "decisions.parquet")
    assert nr.read_decisions(tmp_path / "decisions.parquet") == [decision]
    with pytest.raises(ValueError, match=r"not available|replay"):
        replace(decision, unavailable=[[0, 2]]).replay(before)


def test_logs_have_a_column():
    p = nr.worlds.clinic().problem
    table = {
        "episode": [1, 1, 2, 2, 3], "step": [0, 1, 0, 1, 0], "state": [2, 1, 2, 1, 2], "action": [1, 1, 2, None, 0],
        "next_state": [1, 0, None, None, 1], "unavailable": ["drug B", "drug A", "drug A", None, None],
        "x0": [0.5] * 5, "x1": [0.5] * 5, "x2": [0.5] * 5,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="row 1: unavailable of episode 1 is not that of row 0"):
            nr.read_log(table, p)
        table["unavailable"][1] = "2; drug B"
        log = nr.read_log(table, p)
        assert [None if e.allowed is None else e.allowed[1].tolist() for e in log] == [
            [True, True, False], [True, False, True], None,
        ]  # fmt: skip
        table["action"][0] = "drug B"
        with pytest.raises(ValueError, match=r"row 0: action 'drug B' \(2\) is not available to episode 1"):
            nr.read_log(table, p)
        assert nr.CertifiedPSRL(p).learn_from(log) == 3


def test_a_world_logs_what_could_be_had():
    rule = np.full((H, S), 2)
    log = WORLD.log(400, seed=1, explore=0.5, rule=rule)
    for e in log:
        mask = WORLD.allowed(e.context)
        assert np.array_equal(e.allowed, mask)
        assert mask[e.states[:-1], e.actions].all()
        said = np.where(mask[:, 2], 2, mask.argmax(1))
        chance = 0.5 / mask.sum(1)[e.states[:-1]] + 0.5 * (said[e.states[:-1]] == e.actions)
        assert e.probabilities == pytest.approx(chance)
    free = BASE.log(50, seed=1, explore=0.5, rule=rule)
    assert all(e.allowed is None for e in free)
    with pytest.raises(ValueError, match="log_chances are not those of everybody here"):
        WORLD.log_chances(rule=rule)
    with pytest.raises(ValueError, match="unavailable must be a function"):
        nr.World(P, BASE.weights, BASE.reward_weights, BASE.contexts, unavailable=[1])
    person = next(q for q in map(WORLD.individual, itertools.count()) if not q.mask[q.state, 2])
    with pytest.raises(ValueError, match="action 2 is not available in state 0"):
        person.step(2)


# With several plans and a floor -------------------------------------------------------------------------------------
LOTTERY = {"plans": 3, "floor": 0.3}


def test_a_lottery_keeps_to_what_is_left():
    """No plan of it, nothing that is drawn, and no chance of an action that cannot be had; chances by the formula of
    `agents.lottery` with the actions that are left, in NumPy."""
    agent, g = nr.PSRLGLM(P, **LOTTERY), np.random.default_rng(3)
    for k in range(40):
        taken, person = random_taken(g), BASE.individual(k)
        plan = agent.begin_episode(person.context, taken)
        assert all(not taken[np.arange(S)[None], one].any() for one in (plan.policy, *plan.plans))
        assert (plan.chances[:, taken] == 0.0).all()
        np.testing.assert_allclose(plan.chances.sum(2), 1.0)
        weights = np.full(3, 1.0 / 3.0)
        for h in range(H):
            s, left = person.state, ~taken[person.state]
            each = 0.3 * left / left.sum() + 0.7 * (plan.plans[:, h, s, None] == np.arange(A))
            found = agent.action_probabilities(s)
            np.testing.assert_allclose(found.probabilities, weights @ each, atol=1e-15)
            assert found.exact
            a = agent.act(s)
            weights = weights * each[:, a] / (weights @ each[:, a])
            agent.observe(*person.step(a))
        agent.end_episode()


def test_regret_of_a_lottery_is_against_what_was_allowed():
    """Both engines, and the value of the draw in NumPy."""
    agent = nr.CertifiedPSRL(P, **LOTTERY)
    run = nr.simulate(agent, WORLD, 60, diagnostics=True)
    slow = nr.simulate(agent, WORLD, 60, compiled=False)
    np.testing.assert_allclose(run.regret, slow.regret, atol=1e-12)
    assert run.diagnostics["certificate_failures"][0, -1] == 0
    again, lost = agent.fresh(0), 0.0
    for k in range(60):
        person = WORLD.individual(k)
        x, s0, mask = person.context, person.state, WORLD.allowed(person.context)
        plan = again.begin_episode(x, ~mask)
        p, r, value = WORLD.transitions(x), WORLD.rewards(x), 0.0
        for one in plan.plans:
            V = np.zeros(S)
            for h in reversed(range(H)):
                Q = r + p @ V
                mean = np.where(mask, Q, 0.0).sum(1) / mask.sum(1)
                V = 0.7 * Q[np.arange(S), one[h]] + 0.3 * mean
            value += V[s0] / 3
        lost += best_of(WORLD, x, mask)[0, s0] - value
        for _ in range(H):
            again.observe(*person.step(again.act(person.state)))
        again.end_episode()
    assert run.final[0] == pytest.approx(lost)


def test_live_records_chances_of_what_is_left(tmp_path):
    live = nr.Live(nr.PSRLGLM(P, **LOTTERY))
    plan, s = live.begin("A", BASE.context(0, 0), unavailable=[0]), BASE.individual(0).state
    live.save(tmp_path / "live.npz")
    live = nr.Live.load(tmp_path / "live.npz")
    decision = live.act("A", s)
    assert decision.action != 0
    assert decision.error == 0.0
    agreed = (plan.plans[:, 0, s] == decision.action).mean()
    assert decision.probability == pytest.approx(0.7 * agreed + 0.3 / 2)  # two are left
    assert decision.replay(nr.PSRLGLM(P, **LOTTERY)) == decision


@pytest.mark.parametrize(
    "make", [lambda p: nr.PSRLGLM(p, plans=3, floor=0.2), lambda p: nr.CertifiedPSRL(p, plans=3), nr.UniformRandom]
)
def test_the_log_of_an_agent_has_what_each_could_get(make):
    """Actions, chances and masks are those of the verbs."""
    agent, n = make(P), 25
    log, player = nr.logged(agent, WORLD, n, 5), agent.fresh(5)
    for k, e in enumerate(log):
        person = WORLD.individual(k, 5)
        player.begin_episode(person.context, taken_from(person.context))
        mask = allowed_actions(P, taken_from(person.context))
        assert np.array_equal(e.allowed, mask)
        for h in range(H):
            said = player.action_probabilities(person.state)
            assert e.actions[h] == player.act(person.state)
            assert np.isclose(e.probabilities[h], said.probabilities[e.actions[h]], rtol=0, atol=1e-12)
            assert not said.probabilities[~mask[person.state]].any()
            player.observe(*person.step(int(e.actions[h])))
        player.end_episode()
    assert len({e.allowed.tobytes() for e in log}) == 3
