"""Live use: many people at a time, late outcomes, the chance of each action, decisions that can be replayed; for every
agent."""

import dataclasses
import json
import math
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from scipy.stats import binomtest

import noregret as nr
from live import EVERYONE, arrays_of, differing, make, place, played, steps_of, table_of
from noregret.agents import contents, files
from noregret.agents.composed import own
from noregret.agents.probabilities import NotAsked
from noregret.verification import chance

# What planning itself writes, beside learning: counters, records, kept plans
BY_PLANS = (
    "gate",
    "forced",
    ".Q",
    "stale",
    "planned",
    "policy",
    "values",
    "referred",
    "gap",
    "held",
    "margin",
    "budget",
)


def of_plans(names):
    return {name for name in names if name.endswith(BY_PLANS)}


SLOW = {"certified-stored"}  # minutes of compiling


@pytest.mark.study(first=2)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in EVERYONE])
def test_every_agent_in_practice(name, tmp_path):
    """Chances, files, logged data and several people at a time, beside the same agent left alone."""
    world = place(name)
    H = world.problem.horizon
    alone, asked = make(name, world), make(name, world)
    g, again = np.random.default_rng(0), np.random.default_rng(0)
    played(alone, world, range(12), g=g)
    played(asked, world, range(12), g=again)
    kept = {"expert": asked._ask} if getattr(asked, "_ask", None) is not None else {}
    # Asked for chances at every step, saved and loaded at random points: decides as if nothing had happened.
    for k in range(12, 18):
        person = world.individual(k, 3)
        plans = [agent.begin_episode(person.context) for agent in (alone, asked)]
        assert np.array_equal(plans[0].values, plans[1].values)
        for _ in range(H):
            before, buffers = arrays_of(asked), [a.copy() for _, a in contents.carried(asked)]
            told = None
            with suppress(NotAsked) if kept else nullcontext():
                told = asked.action_probabilities(person.state, draws=20)
            assert not differing(before, arrays_of(asked))
            pairs = zip(buffers, (v for _, v in contents.carried(asked)), strict=True)
            assert all(np.array_equal(u, v, equal_nan=True) for u, v in pairs)
            if told is not None and told.draws > 0:
                assert told.probabilities.sum() == pytest.approx(1.0)
                assert (told.probabilities >= 0.0).all()
            action = alone.act(person.state)
            if g.random() < 0.5:
                asked.save(tmp_path / "agent.npz")
                asked = nr.load(tmp_path / "agent.npz", **kept)
            assert asked.act(person.state) == action
            if g.random() < 0.3:
                asked.save(tmp_path / "agent.npz")  # asked, but the outcome has not come in
                asked = nr.load(tmp_path / "agent.npz", **kept)
            outcome = person.step(action)
            for agent in (alone, asked):
                agent.observe(*outcome)
        for agent in (alone, asked):
            agent.end_episode()
    assert not differing(arrays_of(alone), arrays_of(asked))
    assert contents.fingerprint(alone) == contents.fingerprint(asked)
    # A log of the same people's steps, learned without planning, and through the verbs with somebody else's actions.
    log, rows = steps_of(world, 5)
    read = nr.read_log(log, world.problem, arrival="key")
    by_log, by_verbs = make(name, world), make(name, world)
    assert by_log.learn_from(read) == by_log.episode == 5
    for context, path in rows:
        by_verbs.begin_episode(context)
        for s, a, r, after in path:
            assert by_verbs.act(s, action=a) == a
            by_verbs.observe(r, after)
        by_verbs.end_episode()
    apart = differing(arrays_of(by_log), arrays_of(by_verbs))
    assert apart == of_plans(apart)
    # One after another, Live is the verbs; at the same time, it is learning in the order of the ends.
    if alone.pause:
        with pytest.raises(ValueError, match="agent must plan whole episodes"):
            nr.Live(alone)
        return
    live, verbs = nr.Live(make(name, world), order="end"), make(name, world)
    done = []
    for k in range(6):
        person = world.individual(k, 3)
        live.begin(k, person.context)
        for h in range(H):
            done.append(live.act(k, person.state).action)
            live.observe(k, *person.step(done[-1]), step=h)
        live.end(k)
    assert done == played(verbs, world, range(6))
    assert not differing(arrays_of(live.agent), arrays_of(verbs))
    assert contents.fingerprint(live.agent) == contents.fingerprint(verbs)
    meet_two(live, world, 6)
    assert live.agent.episode == 8
    # The chances that Live draws before it begins are those that the agent draws once it has begun.
    live, verbs = nr.Live(make(name, world), draws=20), make(name, world)
    for k in range(4):
        person = world.individual(k, 3)
        live.begin(k, person.context)
        verbs.begin_episode(person.context)
        for h in range(H):
            told = None
            with suppress(NotAsked) if kept else nullcontext():
                told = verbs.action_probabilities(person.state, draws=20)
            decision, action = live.act(k, person.state), verbs.act(person.state)
            chance = None if told is None or (told.draws == 0 and not told.exact) else told.probabilities[action]
            assert (decision.action, decision.probability) == (action, chance)
            seen = person.step(action)
            live.observe(k, *seen, step=h)
            verbs.observe(*seen)
        live.end(k)
        verbs.end_episode()


def meet_two(live, world, k):
    """Two people side by side; the second ends first."""
    people = [world.individual(k + i, 3) for i in range(2)]
    for i, person in enumerate(people):
        live.begin(f"p{i}", person.context)
    for h in range(world.problem.horizon):
        for i, person in enumerate(people):
            live.observe(f"p{i}", *person.step(live.act(f"p{i}", person.state).action), step=h)
    live.end("p1")
    live.end("p0")


@pytest.mark.long
@pytest.mark.deep
def test_chances_are_those_of_the_algorithm():
    """Epsilon-greedy: epsilon/A plus, for the greedy action, 1 - epsilon; steps are independent of each other. Uniform
    play and a fixed policy are known exactly."""
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=2)
    agent = nr.EpsilonGreedy(world.problem, seed=4)
    played(agent, world, range(7))
    greedy = nr.CertaintyEquivalence(world.problem, seed=4)
    played_same(greedy, agent, world, 7)
    person = world.individual(7, 3)
    plan, best = agent.begin_episode(person.context), greedy.begin_episode(person.context)
    draws, epsilon = 20_000, 8.0 ** (-1.0 / 3.0)
    for h in range(2):
        told = agent.action_probabilities(person.state, draws)
        right = np.full(2, epsilon / 2)
        right[best.policy[h, person.state]] += 1.0 - epsilon
        count = round(told.probabilities[0] * told.draws)
        assert binomtest(count, told.draws, right[0]).pvalue > 1e-6  # error probability 2e-6 in all
        assert not told.exact
        action = agent.act(person.state)
        share = told.probabilities[action]
        assert action == plan.policy[h, person.state]
        assert told.error == pytest.approx(np.sqrt(right * (1 - right) / told.draws), rel=0.2)
        agent.observe(*person.step(action))
        assert h > 0 or agent.action_probabilities(person.state, draws).draws == round(share * draws)
    uniform = nr.UniformRandom(world.problem)
    uniform.begin_episode(person.context)
    assert uniform.action_probabilities(0).probabilities.tolist() == [0.5, 0.5]
    assert uniform.action_probabilities(0).exact


def played_same(agent, like, world, episodes):
    """Let `agent` learn what `like` (epsilon-greedy, seed 4) learned from its first episodes."""
    other = nr.EpsilonGreedy(world.problem, seed=4)
    for k in range(episodes):
        person = world.individual(k, 3)
        other.begin_episode(person.context)
        agent.begin_episode(person.context)
        for _ in range(world.problem.horizon):
            s = person.state
            a = other.act(s)
            agent.act(s, action=a)
            seen = person.step(a)
            other.observe(*seen)
            agent.observe(*seen)
        other.end_episode()
        agent.end_episode()
    assert not differing(arrays_of(other), arrays_of(like))


@pytest.mark.long
def test_a_fresh_optimist_is_random_in_its_ties_only():
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=2)
    agent = nr.GLMORL(world.problem)
    agent.begin_episode([0.6, 0.8])
    told = agent.action_probabilities(0, 4000)
    assert binomtest(round(told.probabilities[0] * 4000), 4000, 0.5).pvalue > 1e-6
    agent.act(0, action=1)  # somebody else's choice says nothing about the plan
    agent.observe(1.0, 2)
    assert agent.action_probabilities(2, 4000).draws == 4000


def test_kept_plans_are_as_random_as_when_they_were_made():
    """UCRL2 keeps its plan: its ties were settled in an earlier episode, except where it plans anew."""
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=2)
    agent = nr.make_agent("ucrl2", world.problem)
    agent.begin_episode([0.6, 0.8])
    assert 0.3 < agent.action_probabilities(0, 500).probabilities[0] < 0.7
    agent.end_episode()  # nothing was learned
    plan = agent.begin_episode([0.6, 0.8])
    assert agent.action_probabilities(0, 500).probabilities[plan.policy[0, 0]] == 1.0


def test_bad_input_to_the_new_verbs():
    agent = nr.GLMORL(dataclasses.replace(nr.worlds.clinic().problem, initial_states=None))
    with pytest.raises(RuntimeError, match="action_probabilities: no episode is open"):
        agent.action_probabilities(0)
    agent.begin_episode(nr.worlds.clinic().context(0, 0))
    before = contents.fingerprint(agent)
    with pytest.raises(ValueError, match="action must be an action number from 0 to 2"):
        agent.act(0, action=7)
    stuck = np.argwhere(~agent.problem.layout.available)[0]
    with pytest.raises(ValueError, match=r"action 'drug A' \(1\) is not available in state 'remission' \(0\)"):
        agent.act(int(stuck[0]), action=int(stuck[1]))
    with pytest.raises(ValueError, match="draws must be an integer of at least 1"):
        agent.action_probabilities(0, 0)
    assert contents.fingerprint(agent) == before
    assert not agent._asked


# Several people ----------------------------------------------------------------------------------------------------
def clinic_live(**options):
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=2)
    return nr.Live(nr.CertifiedPSRL(world.problem, seed=1), **options), world


def test_order_of_learning_and_late_rewards():
    """order="end" learns as people end, order="begin" as they began; both as the verbs would in that order."""
    for order, expected in (("end", [2, 0, 1]), ("begin", [0, 1, 2])):
        live, world = clinic_live(order=order)
        people = [world.individual(k, 3) for k in range(3)]
        paths = []
        for k, person in enumerate(people):
            live.begin(k, person.context)
            path = []
            for h in range(2):
                s = person.state
                a = live.act(k, s).action
                r, after = person.step(a)
                live.observe(k, math.nan if h == 0 else r, after, step=h)
                path.append((s, a, r, after))
            live.reward(k, 0, path[0][2])  # it came late
            paths.append((person.context, path))
        for i, k in enumerate((2, 0, 1)):
            live.end(k)
            assert len(live.open) == 2 - i
        twin = nr.CertifiedPSRL(world.problem, seed=1)
        twin.make_room(3)
        for k in expected:
            context, path = paths[k]
            twin._set_clock(k)
            twin.begin_episode(context)
            for s, a, r, after in path:
                twin.act(s, action=a)
                twin.observe(r, after)
            twin.end_episode()
        apart = differing(arrays_of(live.agent), arrays_of(twin))
        assert apart == of_plans(apart)


@pytest.mark.parametrize("order", ["end", "begin"])
def test_few_are_learned_at_once(order):
    """Ten people wait for the first one (order="begin") or for ten more to begin (order="end"). Each event then learns
    two of them, in the order in which they began; what is refused or only told learns nobody; at last everything is as
    if all had been learned together."""
    live, world = clinic_live(order=order, at_once=2)
    whole, _ = clinic_live(order=order)
    both = (live, whole)
    for k in range(11):
        for one in both:
            one.begin(k, world.individual(k, 3).context)
            one.act(k, 0)
            one.observe(k, 0.5, 1)
    wait = 0 if order == "begin" else 1
    for k in range(10, 0, -1):
        for one in both:
            one.end(k, wait=wait)
    assert live.waiting == whole.waiting == tuple(range(1, 11))
    for one in both:
        one.end(0, wait=wait)
    if order == "end":
        for one in both:
            one.begin("next", [0.6, 0.8])
            one.abandon("next")
        left = 7  # of eleven: two by each of these events
    else:
        left = 9
    assert whole.waiting == ()
    assert live.waiting == tuple(range(11 - left, 11))
    for _ in range(5):  # neither a verb that is refused nor one that only tells
        with pytest.raises(ValueError, match="has ended and is not learned yet"):
            live.begin(10, [0.6, 0.8])
        with pytest.raises(ValueError, match="who must be somebody open"):
            live.end("nobody")
    for one in both:
        one.observe(10, 1.0, 1, step=0) if one is live else None
        one.observe(10, 0.5, 1, step=0) if one is live else None
    again = nr.Live.from_bytes(live.snapshot()())
    assert again.waiting == live.waiting == tuple(range(11 - left, 11))
    assert again.at_once == 2
    for k in range(20, 23):
        for one in (*both, again):
            one.begin(k, world.individual(k, 3).context)
            one.abandon(k)
    assert again.waiting == live.waiting == ()
    assert not differing(arrays_of(live.agent), arrays_of(again.agent))
    apart = differing(arrays_of(live.agent), arrays_of(whole.agent))
    assert apart == of_plans(apart)


@pytest.mark.parametrize("order", ["end", "begin"])
def test_ends_that_depend_on_the_outcome(order):
    """Two hundred people, half of whom get worse, and those end first. Learned as they end, the bound on the value
    falls below it; learned as they began, it holds."""
    theta = np.array([[[0.0]], [[1.0]]])
    problem = nr.Problem(2, 1, 2, 1, known_rewards=theta, initial_states=(0,), weight_bound=1.0, reward_bound=1.0)
    live = nr.Live(nr.CertifiedPSRL(problem), order=order, audit=False)
    g, after = np.random.default_rng(0), {}
    for k in range(200):
        live.begin(k, [1.0])
        live.act(k, 0)
        after[k] = int(g.integers(2))  # state 1 pays 1 and is reached half of the time: the value is 1/2
        live.observe(k, 0.0, after[k])
    for k in [k for k in after if after[k] == 0]:
        live.end(k)
    plan = live.begin("next", [1.0])
    assert (plan.upper[0, 0] < 0.5) == (order == "end")
    for k in [k for k in after if after[k] == 1]:
        live.end(k)
    live.abandon("next")
    plan = live.begin("last", [1.0])
    if order == "begin":
        assert plan.lower[0, 0] <= 0.5 <= plan.upper[0, 0]
        assert plan.certificate < 0.6


@pytest.mark.long
@pytest.mark.parametrize("order", ["end", "begin"])
def test_bounds_hold_with_many_open(order):
    """Twenty runs of sixty people, up to thirty open at a time: ends by the calendar (order="end") or by the outcome
    (order="begin"). A run fails if a bound of any plan fails; with probability 1e-6 chance explains more failures."""
    world, delta, failed = nr.worlds.random_logit(2, 2, 2, 2, seed=2), 0.05, 0
    optimal = {}
    for seed in range(20):
        live = nr.Live(nr.CertifiedPSRL(world.problem, delta=delta, seed=seed), order=order, audit=False)
        g, due, fine = np.random.default_rng(seed), {}, True
        for k in range(60):
            person = world.individual(k, seed)
            x, start = person.context, person.state
            plan = live.begin(k, x)
            best = optimal.setdefault(x.tobytes(), world.optimal(x).values[0, start])
            own = world.value(plan.policy, x, start)
            fine &= plan.lower[0, start] <= own + 1e-9
            fine &= best <= plan.upper[0, start] + 1e-9
            fine &= best - own <= plan.certificate + 1e-9
            for h in range(2):
                live.observe(k, *person.step(live.act(k, person.state).action), step=h)
            due[k] = k + (int(g.integers(30)) if order == "end" else 30 * person.state)
            for who in [w for w in live.open if due[w] <= k]:
                live.end(who)
        failed += not fine
    assert failed <= chance.allowed(20, delta)


def test_a_plan_is_made_once_and_records_stay():
    """Referral: who was referred is what was decided at `begin`, whatever is known at `end`; the gate counts once."""
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=2)
    live = nr.Live(nr.Referral(nr.CertifiedPSRL(world.problem), nr.UniformRandom(world.problem), 1.5))
    plans = {}
    for k in range(20):
        plans[k] = live.begin(k, world.individual(k, 3).context)
    before = live.agent.referred, live.agent.gaps
    for k in reversed(range(20)):
        person = world.individual(k, 3)
        for h in range(2):
            decision = live.act(k, person.state)
            assert decision.action == plans[k].policy[h, person.state]
            assert decision.referred == plans[k].referred
            live.observe(k, *person.step(decision.action), step=h)
        live.end(k)
    assert np.array_equal(before[0], live.agent.referred)
    assert np.array_equal(before[1], live.agent.gaps)
    assert live.agent.referred.tolist() == [plans[k].referred for k in range(20)]
    assert sum(live.agent.agent.gate.values()) == 20
    assert len({plan.policy.tobytes() for plan in plans.values()}) > 1  # others have other draws


@pytest.mark.deep
@pytest.mark.study(first=1)
@pytest.mark.parametrize("at_once", [None, 1])
def test_saved_with_people_open(tmp_path, at_once):
    """Stopped between any two verbs, loaded, continued: as if it had not stopped."""
    one, world = clinic_live(draws=20, order="begin", at_once=at_once)
    two, _ = clinic_live(draws=20, order="begin", at_once=at_once)
    people, g, decisions = {}, np.random.default_rng(3), []
    for t in range(120):
        verb = g.integers(0, 4)
        if verb == 0 and len(people) < 4:
            people[f"n{t}"] = world.individual(t, 3)
            for live in (one, two):
                live.begin(f"n{t}", people[f"n{t}"].context)
        elif people:
            who = list(people)[int(g.integers(len(people)))]
            person = people[who]
            if person.steps == 2 or verb == 3:
                for live in (one, two):
                    live.end(who)
                del people[who]
            else:
                pair = [live.act(who, person.state) for live in (one, two)]
                assert pair[0] == pair[1]
                decisions.append(pair[0])
                seen = person.step(pair[0].action)
                for live in (one, two):
                    live.observe(who, *seen, step=pair[0].step)
        if t % 7 == 0:
            two.save(tmp_path / "live.npz")
            two = nr.Live.load(tmp_path / "live.npz")
        assert one.open == two.open == tuple(people)
    assert not differing(arrays_of(one.agent), arrays_of(two.agent))
    assert any(d.probability not in (None, 0.0, 1.0) for d in decisions)
    two.begin("last", [0.6, 0.8])
    two.observe("last", 1.0, two.act("last", 0).action)
    two.save(tmp_path / "live.npz")
    data, whole = (tmp_path / "live.npz").read_bytes(), nr.Live.load(tmp_path / "live.npz")
    for where in g.integers(0, len(data), 60):  # one bit: the same, or a sentence
        (tmp_path / "live.npz").write_bytes(data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :])
        with suppress(ValueError):
            same = nr.Live.load(tmp_path / "live.npz")
            assert same.open == whole.open
            assert same._people[same.open[0]].states == whole._people[same.open[0]].states
            assert not differing(arrays_of(same.agent), arrays_of(whole.agent))
    (tmp_path / "live.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"read it with noregret\.Live\.load"):
        nr.load(tmp_path / "live.npz")
    one.agent.save(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match=r"read it with noregret\.load"):
        nr.Live.load(tmp_path / "agent.npz")


def test_outcomes_as_a_table():
    live, world = clinic_live()
    people = {who: world.individual(i, 3) for i, who in enumerate(("ann", "bob", "cem"))}
    for who, person in people.items():
        live.begin(who, person.context)
        live.act(who, person.state)
    table = {"who": ["ann", "bob", "cem"], "reward": [1.0, None, 0.0], "next_state": [0, 1.0, 2]}
    bad = table | {"next_state": [0, 1, 7]}
    with pytest.raises(ValueError, match="row 2: next_state must be a state number from 0 to 2, got 7"):
        live.observe_all(bad)
    assert live.observe_all(table) == 3  # nothing of the bad table was noted
    assert live.observe_all(table) == 3  # delivered twice: nothing changes
    with pytest.raises(ValueError, match="row 0: observe: nothing was done with 'ann' since, call act first; or name"):
        live.observe_all(table | {"reward": [0.0, None, 0.0]})
    live.act("ann", 0)
    late = {"who": ["bob", "ann"], "step": [0, 1], "reward": [1.0, 1.0], "next_state": [None, 2]}
    assert live.observe_all(late) == 2
    assert live.observe_all(late) == 2
    twice = {"who": ["bob", "bob"], "step": [0, 0], "reward": [1.0, 0.0], "next_state": [None, None]}
    with pytest.raises(ValueError, match="row 1: step 0 of 'bob' is there twice, with another outcome"):
        live.observe_all(twice)
    assert live._people["bob"].rewards == (1.0,)
    for who in people:
        live.end(who)
    assert live.agent.state.means.samples.sum() == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: v.begin("a", [0.6, 0.8]), "who: 'a' is open already"),
        (lambda v: v.begin(True, [0.6, 0.8]), "who must be an integer or text, got True"),
        (lambda v: v.begin("b", [6.0, 0.8]), "context has norm"),
        (lambda v: v.begin("b", {"age": 3}), r"a row by column names needs agent\.encoder"),
        (lambda v: v.act("b", 0), "who must be somebody open, got 'b'"),
        (lambda v: v.act("a", 9), "state must be a state number"),
        (lambda v: v.reward("a", 0, 1.0), "step must be one that was observed, below 0 for 'a', got 0"),
        (lambda v: v.end("b"), "who must be somebody open"),
        (lambda v: v.abandon("a", learn=1), "learn must be True or False"),
        (lambda v: v.observe_all({"who": ["a"]}), "table must have the columns who, reward and next_state, reward"),
        (lambda v: nr.Live(v), "agent must be an agent of noregret"),
        (lambda v: nr.Live(v.agent), "agent must be free, this certified-psrl was taken over by a Live"),
        (lambda v: nr.Live(v.agent.fresh(), order="any"), "order must be one of 'end', 'begin'"),
    ],
)
def test_bad_input_to_live(call, message):
    live, _ = clinic_live()
    live.begin("a", [0.6, 0.8])
    before = contents.fingerprint(live.agent)
    with pytest.raises(ValueError, match=message):
        call(live)
    assert live.open == ("a",)
    assert contents.fingerprint(live.agent) == before
    with pytest.raises(RuntimeError, match="observe: nothing was done with 'a' since"):
        live.observe("a", 1.0, 0)


def test_abandoned():
    live, _ = clinic_live(order="begin")
    for who in ("a", "b", "c"):
        live.begin(who, [0.6, 0.8])
        live.act(who, 0)
        live.observe(who, 1.0, 1)
    live.end("b")
    assert live.agent.state.means.samples.sum() == 0  # waits for a
    assert "1 ended and not learned yet" in repr(live)
    live.abandon("a")
    assert live.agent.state.means.samples.sum() == 1
    live.abandon("c", learn=True)
    assert live.agent.state.means.samples.sum() == 2
    assert live.open == ()
    assert live.agent.episode == 3


# The world as it is -------------------------------------------------------------------------------------------------
def two_steps(**options):
    """Somebody with two steps done, of which only the first was observed."""
    live, world = clinic_live(**options)
    live.begin("a", [0.6, 0.8])
    live.act("a", 0)
    live.observe("a", 0.5, 1)
    return live, world


def test_a_late_duplicate_is_not_the_next_outcome():
    live, _ = two_steps()
    live.observe("a", 0.5, 1)  # delivered twice, nothing was done since
    live.act("a", 1)
    person = live._people["a"]
    for outcome in ((0.5, 1), (1.0, 2)):  # the first one a third time, or the next one: nobody can tell
        with pytest.raises(
            ValueError, match="step must be named for 'a': is this the outcome of step 1, or an earlier"
        ):
            live.observe("a", *outcome)
        with pytest.raises(ValueError, match="row 0: step must be named for 'a'"):
            live.observe_all({"who": ["a"], "reward": outcome[:1], "next_state": outcome[1:]})
    live.observe("a", 0.5, 1, step=0)
    live.observe_all({"who": ["a"], "reward": [0.5], "next_state": [1], "step": [0]})
    assert live._people["a"] is person  # the same record
    live.observe("a", 0.5, 1, step=1)  # the same outcome, of the next step
    assert live._people["a"].rewards == (0.5, 0.5)
    with pytest.raises(RuntimeError, match="observe: nothing was done with 'a' at step 2, call act first"):
        live.observe("a", 0.5, 1, step=2)


def test_outcomes_are_corrected_until_they_are_learned():
    live, world = two_steps()
    with pytest.raises(RuntimeError, match="nothing was done with 'a' since, call act first; or name the step"):
        live.observe("a", 0.5, 2)
    live.observe("a", math.nan, 2, step=0)  # the next state was another one; of the reward this says nothing
    assert live._people["a"].rewards == (0.5,)
    live.act("a", 2)
    with pytest.raises(ValueError, match="next_state of step 0 of 'a' was 2, in which step 1 was decided: it cannot"):
        live.observe("a", 0.5, 1, step=0)
    live.reward("a", 0, 1.0)
    live.reward("a", 0, 0.25)
    with pytest.raises(ValueError, match=r"reward of step 0 of 'a' was told, 0\.25: it can be corrected, not unsaid"):
        live.reward("a", 0, math.nan)
    live.observe("a", 1.0, 0, step=1)
    live.observe("a", 0.75, 1, step=1)
    done = live._people["a"].actions
    live.end("a")
    with pytest.raises(ValueError, match="who must be somebody open, or ended and not learned yet, got 'a'"):
        live.observe("a", 1.0, 0, step=1)
    twin = nr.CertifiedPSRL(world.problem, seed=1)
    twin.begin_episode([0.6, 0.8])
    for s, a, r, after in ((0, done[0], 0.25, 2), (2, done[1], 0.75, 1)):
        twin.act(s, action=a)
        twin.observe(r, after)
    twin.end_episode()
    assert not differing(arrays_of(live.agent), arrays_of(twin))


@pytest.mark.parametrize("order", ["end", "begin"])
def test_rewards_may_come_after_the_end(order):
    """wait=2: until two more have begun; wait=None: until `close`. Learned is what was told by then."""
    live, _ = clinic_live(order=order)

    def seen():
        return int(live.agent.state.means.samples.sum())

    for who in "abc":
        live.begin(who, [0.6, 0.8])
        live.act(who, 0)
        live.observe(who, math.nan, 1)
    live.end("a", wait=2)
    live.end("b", wait=None)
    live.end("c")
    assert live.waiting == (("a", "b", "c") if order == "begin" else ("a", "b"))  # everybody behind waits, too
    live.begin("d", [0.6, 0.8])
    live.reward("a", 0, 1.0)
    live.observe("b", 1.0, 2, step=0)  # a correction
    assert seen() == 0  # c's reward never came, the others may still
    with pytest.raises(ValueError, match="who must be somebody open, 'a' has ended"):
        live.act("a", 1)
    with pytest.raises(ValueError, match="who: 'a' has ended and is not learned yet: late outcomes could not be told"):
        live.begin("a", [0.6, 0.8])
    with pytest.raises(RuntimeError, match="close: 'd' is open, call end first"):
        live.close("d")
    for wait in (-1, 1.5, "2"):
        with pytest.raises(ValueError, match="wait must be an integer of at least 0"):
            live.end("d", wait=wait)
    live.begin("e", [0.6, 0.8])
    assert live.waiting == (("b", "c") if order == "begin" else ("b",))
    assert seen() == 1
    live.close("b")
    assert live.waiting == ()
    assert seen() == 2
    assert live.open == ("d", "e")


def test_a_state_outside_the_support_refutes_and_is_not_lost(tmp_path):
    support = np.ones((2, 2, 2), bool)
    support[1, 1, 0] = False
    problem = nr.Problem(
        2, 2, 3, 1, weight_bound=1.0, reward_bound=1.0, support=support, state_names=("ill", "well"),
        action_names=("wait", "drug"),
    )  # fmt: skip
    live = nr.Live(nr.CertifiedPSRL(problem), order="end")
    for who in "ab":
        live.begin(who, [1.0])
    before = live.act("a", "well", action="wait")
    assert before.certificate is not None
    live.observe("a", 1.0, "well")
    live.act("a", "well", action="drug")
    with pytest.raises(ValueError, match="row 1: who must be"):
        live.observe_all({"who": ["a", "c"], "step": [1, 0], "reward": [1.0, 1.0], "next_state": ["ill", "ill"]})
    assert live.agent.refuted is None
    with pytest.warns(UserWarning, match="certified-psrl promises nothing any more: individual 0 went"):
        live.observe("a", 1.0, "ill", step=1)
    said = (
        "individual 0 went from state 'well' (1) with action 'drug' (1) to state 'ill' (0), which the problem's support"
    )
    assert live.agent.refuted.startswith(said)
    assert live.guarantee is None
    later = live.act("a", "ill")  # life goes on
    assert (later.step, later.certificate, later.refuted) == (2, None, live.agent.refuted)
    assert "no promise: individual 0 went" in str(later)
    live.observe("a", 1.0, "well", step=2)
    assert live.act("b", "ill").certificate is None
    live.save(tmp_path / "live.npz")
    again = nr.Live.load(tmp_path / "live.npz")
    assert again.agent.refuted == live.agent.refuted
    for one in (live, again):
        one.end("a")
        assert one.agent.state.means.samples.sum() == 1  # the step before
        assert one.open == ("b",)


def test_the_guarantee_names_the_conditions_of_its_order():
    conditions = {
        "end": "nobody's end, closing, arrival or context depends on outcomes of people not learned yet",
        "begin": "no action follows an outcome of somebody who began later",
    }
    for order, said in conditions.items():
        live, _ = clinic_live(order=order)
        assert live.guarantee.startswith(live.agent.guarantee)
        assert said in live.guarantee
    assert nr.Live(nr.UniformRandom(live.agent.problem)).guarantee is None


@pytest.mark.long
def test_too_little_memory_for_draws_changes_nothing(monkeypatch):
    """Before, the agent was left in the middle of an episode and nobody could begin any more."""
    live, _ = clinic_live(draws=1000)
    live.begin("a", [0.6, 0.8])
    before = contents.fingerprint(live.agent)
    with monkeypatch.context() as scarce:
        scarce.setattr("noregret.checks._memory", lambda: 10_000.0)
        with pytest.raises(ValueError, match="draws = 1000 would need at least"):
            live.begin("b", [0.6, 0.8])
    assert contents.fingerprint(live.agent) == before
    assert live.open == ("a",)
    live.begin("b", [0.6, 0.8])
    live.end("a")
    live.end("b")
    assert live.agent.episode == 2


def test_keys_of_modest_length(tmp_path):
    live, _ = clinic_live()
    for who in (10**10_000, 2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="who must be an integer of 64 bits, or text, got one of"):
            live.begin(who, [0.6, 0.8])
    with pytest.raises(ValueError, match="who must be text of at most 200 characters, got 201"):
        live.begin("a" * 201, [0.6, 0.8])
    with pytest.raises(ValueError, match="who must be text that can be written as UTF-8"):
        live.begin("\ud800", [0.6, 0.8])
    keys = (2**63 - 1, -(2**63), "ä" * 200, np.int64(7))
    for who in keys:
        live.begin(who, [0.6, 0.8])
    live.save(tmp_path / "live.npz")
    assert nr.Live.load(tmp_path / "live.npz").open == live.open == keys


@pytest.mark.filterwarnings("ignore:certified-psrl promises nothing any more")
def test_a_bound_too_small_is_noticed_by_live_as_by_the_verbs():
    """Everybody is learned at once: the tests are asked after the same individuals, with the same words."""
    problem = nr.Problem(1, 1, 3, 1, weight_bound=1.0, reward_bound=0.1)
    verbs, live = nr.CertifiedPSRL(problem), nr.Live(nr.CertifiedPSRL(problem), order="end")
    for k in range(60):
        verbs.begin_episode([1.0])
        live.begin(k, [1.0])
        for h in range(3):
            verbs.act(0)
            live.act(k, 0)
            verbs.observe(1.0, 0)
            live.observe(k, 1.0, 0, step=h)
        verbs.end_episode()
        live.end(k)
        assert live.agent.refuted == verbs.refuted
    assert "a bound is too small" in live.agent.refuted
    assert live.guarantee is None
    assert contents.fingerprint(live.agent) == contents.fingerprint(verbs)


def test_agents_in_python_are_refused():
    player = type("Player", (), dict.fromkeys(own.VERBS, print) | {"problem": clinic_live()[1].problem})()
    with pytest.raises(ValueError, match="one of the library's throughout, Player has an agent of your own"):
        nr.Live(own.OwnAgent(player))


def test_a_discarded_live_frees_its_agent():
    live, _ = clinic_live()
    agent = live.agent
    with pytest.raises(RuntimeError, match="begin_episode: this certified-psrl was taken over by a Live"):
        agent.begin_episode([0.6, 0.8])
    live.begin("a", [0.6, 0.8])
    del live
    agent.begin_episode([0.6, 0.8])
    assert agent.episode == 1


# Decisions ---------------------------------------------------------------------------------------------------------
def decided(tmp_path):
    """Decisions with an agent saved before each person."""
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=2)
    live = nr.Live(nr.Referral(nr.CertifiedPSRL(world.problem, seed=2), table_of(world.problem), 1.9), draws=50)
    made = []
    for k in range(40):
        person = world.individual(k, 3)
        live.agent.save(tmp_path / f"{k}.npz")
        live.begin(k, person.context)
        for h in range(2):
            made.append(live.act(k, person.state, action=1 if k % 5 == h else None))
            live.observe(k, *person.step(made[-1].action), step=h)
        live.end(k)
    return made


@pytest.mark.long
@pytest.mark.deep
def test_decisions_are_replayed_and_kept(tmp_path):
    made = decided(tmp_path)
    assert {d.referred for d in made} == {True, False}
    assert any(d.by_other and d.action != d.advice for d in made)
    for d in made[::7]:
        agent = nr.load(tmp_path / f"{d.episode}.npz")
        before = contents.fingerprint(agent)
        assert d.replay(agent) == d
        assert contents.fingerprint(agent) == before
        with pytest.raises(ValueError, match="the agent is not the one that decided"):
            d.replay(nr.load(tmp_path / f"{(d.episode + 1) % 40}.npz"))
        wrong = dataclasses.replace(d, advice=1 - d.advice, action=1 - d.action)
        with pytest.raises(ValueError, match=rf"the agent now says action {d.advice}"):
            wrong.replay(agent)
        assert nr.Decision.from_dict(json.loads(json.dumps(d.to_dict()))) == d
    made[0] = dataclasses.replace(made[0], who="a,\n'\"b", certificate=0.1 + 0.2, probability=None, draws=None)
    for kind in ("parquet", "csv"):
        nr.write_decisions(made, tmp_path / f"decisions.{kind}")
        assert nr.read_decisions(tmp_path / f"decisions.{kind}") == made
    with pytest.raises(ValueError, match=r"path must end in \.parquet or \.csv"):
        nr.write_decisions(made, tmp_path / "decisions.txt")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not a table of decisions"):
        nr.read_decisions(tmp_path / "other.csv")


def test_an_expert_is_not_asked_again():
    """Where a function plans, a replay checks that it was asked, and no chance is drawn by asking it."""
    world = nr.worlds.random_logit(3, 2, 2, 2, seed=2)
    asked = []

    def expert(x):
        asked.append(x)
        return table_of(world.problem)

    agent = nr.Referral(nr.CertifiedPSRL(world.problem), expert, 0.0)
    live, before = nr.Live(agent, draws=10), files.copy_of(agent)
    live.begin(0, [0.6, 0.8])
    decision = live.act(0, 0)
    assert decision.referred
    assert decision.replay(before) == decision
    assert decision.probability == 1.0
    assert len(asked) == 1


def test_decisions_say_when_where_and_in_names(tmp_path):
    encoder = nr.Encoder({"age": (18, 90)}, {"sex": ("f", "m")}, missing=("age",))
    problem = nr.Problem(
        2, 2, 2, encoder.context_dim, context_bound=encoder.context_bound, weight_bound=1.0, reward_bound=1.0,
        state_names=("ill", "well"), action_names=("wait", "drug"), initial_states=("ill",),
    )  # fmt: skip
    agent = nr.UniformRandom(problem).with_encoder(encoder)
    agent.save(tmp_path / "agent.npz")
    noon = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    live = nr.Live(agent, rows=True, clock=lambda: noon)
    live.begin("a", {"age": np.float64(np.nan), "sex": "f", "name": "nobody else's business"})
    with pytest.raises(ValueError, match=r"initial_states \('ill' \(0\)\) at step 0, got 'well' \(1\)"):
        live.act("a", "well")
    first = live.act("a", "ill", action="drug")
    assert (first.state_name, first.action_name, first.time) == ("ill", "drug", "2026-03-01T12:30:00+00:00")
    assert first.advice_name == problem.action_names[first.advice]
    assert first.row == {"age": None, "sex": "f"}
    assert str(first).startswith("a, step 0, state ill: action drug chosen by somebody else (advice: ")
    live.observe("a", 1.0, "well")
    with pytest.raises(ValueError, match=r"next_state observed last, 'well' \(1\), got 'ill' \(0\)"):
        live.act("a", "ill")
    summer = timezone(timedelta(hours=2))
    assert live.act("a", "well", time=datetime(2026, 6, 1, 1, tzinfo=summer)).time == "2026-05-31T23:00:00+00:00"
    assert live.act("a", "well", time="2026-06-01T01:00:00+02:00").time == "2026-05-31T23:00:00+00:00"
    for time in ("yesterday", "2026-06-01T01:00:00", datetime(2026, 6, 1), 3):
        with pytest.raises(ValueError, match="time must be a datetime with a time zone"):
            live.act("a", "well", time=time)
    live.save(tmp_path / "live.npz")
    again = nr.Live.load(tmp_path / "live.npz", clock=lambda: noon)
    second = live.act("a", "well")
    assert second.to_dict() == again.act("a", "well").to_dict()
    before = nr.load(tmp_path / "agent.npz")
    for d in (first, second):
        assert d.replay(before) == d
        assert dataclasses.replace(d, time="2020-01-01T00:00:00+00:00").replay(before) == d
        with pytest.raises(ValueError, match="replay: the agent now says"):
            dataclasses.replace(d, state_name="wall").replay(before)
        with pytest.raises(ValueError, match="replay: the row is not that of the context"):
            dataclasses.replace(d, row={"age": 20, "sex": "f"}).replay(before)
        assert nr.Decision.from_dict(json.loads(json.dumps(d.to_dict()))).to_dict() == d.to_dict()
    for kind in ("parquet", "csv"):
        nr.write_decisions([first, second], tmp_path / f"decisions.{kind}")
        kept = nr.read_decisions(tmp_path / f"decisions.{kind}")
        assert [d.to_dict() for d in kept] == [d.to_dict() for d in (first, second)]
    with pytest.raises(ValueError, match="clock must be a function that returns a datetime, or None, got 3"):
        nr.Live(agent.fresh(), clock=3)
