"""Agents notice that an assumption is wrong: the bets, the sets outside of their balls, and what follows."""

import dataclasses
import itertools
import math
import warnings

import numpy as np
import pytest

import noregret as nr
from live import random_play
from noregret.agents import refutation
from noregret.agents.base import Trajectory
from noregret.agents.promise import sentence
from noregret.estimators.outside import distance2, reward_sets_outside, transition_sets_outside
from noregret.report.statistics import binomial_upper

SHAPE = (4, 3, 5, 3)  # S, A, H, d
FALSE = pytest.warns(UserWarning, match="promises nothing any more: after")


def random_world(seed):
    return nr.worlds.random_logit(*SHAPE, weight_bound=4.0, seed=seed)


def assuming(world, weights=1.0, rewards=1.0):
    """The world's problem with other bounds."""
    p = world.problem
    return dataclasses.replace(p, weight_bound=weights * p.weight_bound, reward_bound=rewards * p.reward_bound)


def play(agent, world, n, first=0, seed=0, look=None):
    for k in range(first, first + n):
        person = world.individual(k, seed)
        plan = agent.begin_episode(person.context)
        if look is not None:
            look(k, person.context, plan)
        while person.steps < world.problem.horizon:
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    return agent


@pytest.fixture(scope="module")
def wrong():
    """An agent that was told a third of the bounds, after it noticed."""
    world = random_world(0)
    with FALSE:
        agent = play(nr.LRORL(assuming(world, 1 / 3, 1 / 3)), world, 60)
    return world, agent


# The bets --------------------------------------------------------------------------------------------------------
def wealth(upper, paths):
    """log of the mean wealth after all episodes, from the formula; its largest value so far, and when that was."""
    logs, best, when = np.zeros(len(refutation.BETS)), 0.0, 0
    for i, (states, rewards) in enumerate(paths):
        for h, r in enumerate(rewards):
            u, v = upper[h, states[h]], upper[h + 1, states[h + 1]]
            gain = (0.0 if math.isnan(r) else r) + v - u - refutation.SLACK
            logs += np.log1p(np.array(refutation.BETS) * gain / max(u, refutation.LEAST_UPPER))
        mean = math.log(np.exp(logs).mean())
        if mean > best:
            best, when = mean, i + 1
    return logs, best, when


def test_bets_are_those_of_the_formula():
    g, H, S = np.random.default_rng(0), 4, 3
    upper = np.cumsum(g.random((H + 1, S)), 0)[::-1].copy()
    upper[H] = 0.0
    paths, evidence = [], np.zeros(refutation.SIZE)
    for n in (4, 2, 0, 4, 3):
        states, rewards = g.integers(0, S, n + 1), g.random(n)
        rewards[g.random(n) < 0.3] = np.nan
        path = Trajectory(np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.zeros(H))
        path.states[: n + 1], path.rewards[:n] = states, rewards
        refutation.bet_on_returns(evidence, upper, n, path)
        refutation.bet_on_returns(evidence, np.zeros((0, 0)), n, path)  # no upper values: no bet
        if n:
            paths.append((states, rewards))
    logs, best, when = wealth(upper, paths)
    assert np.allclose(evidence[:5], logs, rtol=1e-12)
    assert evidence[refutation.HIGHEST] == pytest.approx(best, abs=1e-12)
    assert (evidence[refutation.MET], evidence[refutation.RAISED]) == (4, when)


def test_the_wealth_of_a_fair_bet_has_mean_at_most_one():
    """Exactly, over all outcomes of three steps whose means are just what the upper values allow."""
    H, S, p = 3, 2, np.array([0.3, 0.7])
    upper = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        upper[h] = 0.25 + p @ upper[h + 1]  # rewards 0 or 1 with mean 1/4, the next state drawn from p
    total = np.zeros(len(refutation.BETS))
    for rewards in itertools.product((0, 1), repeat=H):
        for states in itertools.product((0, 1), repeat=H):
            chance = np.prod([(0.75, 0.25)[r] for r in rewards]) * np.prod(p[list(states)])
            path = Trajectory(np.array((0, *states)), np.zeros(H, np.int64), np.array(rewards, float))
            evidence = np.zeros(refutation.SIZE)
            refutation.bet_on_returns(evidence, upper, H, path)
            total += chance * np.exp(evidence[:5])
    assert (total <= 1.0).all()
    assert (total > 1.0 - 1e-7).all()


def test_a_reward_where_none_is_possible_is_proof_at_once():
    upper, evidence = np.zeros((2, 1)), np.zeros(refutation.SIZE)
    refutation.bet_on_returns(evidence, upper, 1, Trajectory(np.zeros(2, np.int64), np.zeros(1, np.int64), np.ones(1)))
    assert evidence[refutation.HIGHEST] > math.log(1e5)


def test_looks_are_at_every_individual_and_then_each_tenth_more():
    due = [n for n in range(2000) if refutation.due(n)]
    assert due[:10] == list(range(1, 11))
    assert all(b <= math.ceil(1.1 * a) + 1 for a, b in itertools.pairwise(due))
    for n in range(2000):
        assert n + refutation.until_due(n) == next(d for d in [*due, 2001, 2100, 2200] if d > n) or n > due[-2]


@pytest.mark.parametrize("make", [
    lambda p: nr.LRORL(p), lambda p: nr.LRORL(p, sets="stored"), lambda p: nr.LRORL(p, form="kron", bonus="sharp"),
    lambda p: nr.CertifiedPSRL(p), lambda p: nr.GLMORL(p), lambda p: nr.Certified(nr.UniformRandom(p)),
])  # fmt: skip
def test_upper_values_allow_every_action(make):
    """U_h(s) >= r(s, a) + P U_{h+1} for all available actions, not for the policy's alone: what the bets rest on. (The
    sets hold in these runs, with probability .95 or more each.)"""
    world = nr.worlds.clinic()
    agent, p, checked = make(world.problem), world.problem, []

    def look(k, x, plan):
        if k % 8:
            return
        P, r = world.transitions(x), world.rewards(x)
        Q = r[None] + np.einsum("saj,hj->hsa", P, plan.upper[1:])
        assert (plan.upper[:-1] >= np.where(p.layout.available[None], Q, 0.0).max(2) - 1e-9).all()
        checked.append(k)

    play(agent, world, 40, look=look)
    assert agent.consistent_values
    assert len(checked) == 5
    assert agent.evidence[refutation.MET] == 40


# Sets outside of their balls -------------------------------------------------------------------------------------
@pytest.mark.long
def test_the_distance_is_never_more_than_the_distance():
    """Against the nearest point that projected gradients find, 60 ellipsoids; and near it, where balls are outside."""
    g, ratios = np.random.default_rng(1), []
    for _ in range(60):
        m, d = int(g.integers(1, 4)), int(g.integers(1, 4))
        root = g.normal(size=(m * d, m * d))
        cov = root @ root.T + 0.1 * np.eye(m * d)
        A, c = np.linalg.inv(cov), g.normal(size=(m, d)) * g.uniform(0.5, 4.0)
        u, step = np.zeros((m, d)), 0.5 / np.linalg.eigvalsh(A)[-1]
        for _ in range(4000):
            u = u - step * 2 * (A @ (u - c).ravel()).reshape(m, d)
            u = u / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1.0)
        true = float((u - c).ravel() @ A @ (u - c).ravel())
        found = distance2(c, cov.reshape(m, d, m, d), 1.0)
        assert found <= true * (1 + 1e-6) + 1e-9
        if true > 1e-6:
            ratios.append(found / true)
    assert np.median(ratios) > 0.95
    assert len(ratios) > 30


@pytest.mark.parametrize("options", [{}, {"form": "kron"}, {"reward_sets": "ridge"}, {"sets": "stored"}])
def test_sets_meet_their_balls_where_the_bounds_are_right(options):
    world = random_world(3)
    agent = play(nr.LRORL(world.problem, delta=0.05, **options), world, 60)
    p = agent.problem
    assert not transition_sets_outside(agent.state.transitions, p.layout, p.weight_bound).any()
    assert not reward_sets_outside(agent.par.rewards, agent.state.rewards, p.layout.available).any()
    assert agent.refuted is None


def test_an_ellipsoid_far_from_the_ball_is_outside():
    """Weights are moved to twelve times the bound: as far as no data could, with this radius."""
    world = random_world(3)
    agent = play(nr.LRORL(world.problem, reward_sets="ridge"), world, 60)
    p, sets, rewards = agent.problem, agent.state.transitions, agent.state.rewards
    s, a = np.unravel_index(sets.samples.argmax(), sets.samples.shape)
    sets.weights[s, a, 0, 0] += 12 * p.weight_bound
    rewards.theta[s, a] *= 20.0
    assert np.argwhere(transition_sets_outside(sets, p.layout, p.weight_bound)).tolist() == [[s, a]]
    assert np.argwhere(reward_sets_outside(agent.par.rewards, rewards, p.layout.available)).tolist() == [[s, a]]


# What follows ----------------------------------------------------------------------------------------------------
def test_too_small_bounds_are_noticed_and_nothing_is_promised_any_more(wrong, tmp_path):
    world, agent = wrong
    assert agent.refuted.startswith("after ")
    assert agent.refuted.endswith("a bound is too small, the model is wrong, or a condition on the data does not hold")
    assert agent.guarantee is None
    plan = agent.begin_episode(world.context(seed=0, episode=60))
    assert (plan.upper, plan.lower, plan.certificate) == (None, None, None)
    assert plan.policy.shape == (5, 4)
    agent.end_episode()
    with pytest.raises(RuntimeError, match="certify: nothing can be certified, after"):
        agent.certify(world.context(seed=0, episode=60), plan.policy)
    agent.save(tmp_path / "agent.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once already
        again = nr.load(tmp_path / "agent.npz")
        assert (again.refuted, again.guarantee) == (agent.refuted, None)
        assert again.begin_episode(world.context(seed=0, episode=61)).upper is None
    assert agent.fresh().refuted is None


def test_the_warning_is_given_once():
    agent = nr.LRORL(random_world(0).problem)
    with pytest.warns(UserWarning, match="lr-orl promises nothing any more: so it is"):
        agent.refute("so it is")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.refute("and so it is again")
    assert agent.refuted == "so it is"


def test_simulations_and_verbs_notice_the_same():
    world = random_world(1)
    problem = assuming(world, 1 / 3, 1 / 3)
    with FALSE:
        run = nr.simulate(nr.LRORL(problem), world, 80, seeds=[0], workers=1)
    with FALSE:
        verbs = nr.simulate(nr.LRORL(problem), world, 80, seeds=[0], compiled=False)
    with FALSE:
        agent = play(nr.LRORL(problem), world, 80)
    assert run.refuted == verbs.refuted == (agent.refuted,)
    assert np.array_equal(run.regret, verbs.regret)
    assert "refuted in 1 of 1" in repr(run)
    right = nr.simulate(nr.LRORL(world.problem), world, 80, seeds=2)
    assert right.refuted == (None, None)


def test_evidence_of_both_engines_agrees_to_the_bit():
    from noregret.simulation.engine import FusedSession, PythonSession, Setup

    world = random_world(2)
    made = []
    for kind in (FusedSession, PythonSession):
        session = kind(nr.LRORL(world.problem), Setup(world, 0, 50, 50))
        session.prepare()
        while session.done < 50:
            session.advance()
        made.append(session.agent.evidence.copy())
    assert np.array_equal(*made)
    assert made[0][refutation.MET] == 50


def test_referral_hands_everybody_over_once_its_certificates_are_void():
    world = random_world(0)
    p = assuming(world, 1 / 3, 1 / 3)
    rule = np.zeros((5, 4), int)
    team = nr.Referral(nr.LRORL(p), rule, threshold=50.0)  # nobody would be referred
    with FALSE:
        play(team, world, 60)
    first = int(team.refuted.split(" ")[1])
    assert not team.referred[:first].any()
    assert team.referred[first:].all()
    assert team.guarantee is None
    assert not team.report().proved
    with FALSE:
        run = nr.simulate(nr.Referral(nr.LRORL(p), rule, threshold=50.0), world, 60, seeds=[0], workers=1)
    with FALSE:
        again = nr.simulate(nr.Referral(nr.LRORL(p), rule, threshold=50.0), world, 60, seeds=[0], compiled=False)
    assert np.array_equal(run.regret, again.regret)


def test_a_log_refutes_before_the_first_plan():
    """The warm start of somebody who took 1 and 1 for the bounds: noticed when the log is learned."""
    world = nr.worlds.clinic()
    table = random_play(world, 150)
    problem = dataclasses.replace(world.problem, weight_bound=1.0, reward_bound=1.0)
    learner = nr.CertifiedPSRL(problem)
    with FALSE:
        learner.learn_from(nr.read_log(table, problem, arrival="key"))
    assert learner.guarantee is None
    right = nr.CertifiedPSRL(world.problem)
    right.learn_from(nr.read_log(table, world.problem, arrival="key"))
    assert right.refuted is None


# How often -------------------------------------------------------------------------------------------------------
def refutations(worlds, episodes, delta, share=1.0):
    """In how many of these random worlds an LR-ORL that was told `share` of the bounds is refuted, and when."""
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in worlds:
            world = random_world(seed)
            agent = nr.LRORL(assuming(world, share, share), delta=delta)
            said = nr.simulate(agent, world, episodes, seeds=[seed], every=episodes, workers=1).refuted[0]
            made.append(None if said is None else int(said.split(" ")[1].replace(",", "")))
    return made


@pytest.mark.long
def test_right_bounds_are_rarely_refuted():
    """At delta = .3 with probability at most .3 a world; more than 18 of 30 then has probability below 2e-4."""
    found = [n for n in refutations(range(30), 150, 0.3) if n is not None]
    assert len(found) <= 18, found


@pytest.mark.slow
def test_right_bounds_are_rarely_refuted_in_500_worlds():
    """The bets alone may be wrong with probability .02 * .3 = .006 a world: more than 11 of 500 has probability below
    1e-4. All tests together, sets included, .3. Seen: 0."""
    found = [n for n in refutations(range(500), 300, 0.3) if n is not None]
    print(
        f"refuted in {len(found)} of 500 right worlds at delta .3 (upper limit {binomial_upper(len(found), 500):.3g})"
    )
    assert len(found) <= 11, found


def test_a_third_of_the_bounds_is_noticed():
    """In 10 worlds within 500 individuals: in at least nine (seeds are fixed: nothing here is left to chance)."""
    found = [n for n in refutations(range(10), 500, 0.05, 1 / 3) if n is not None]
    assert len(found) >= 9, found


# Sentences -------------------------------------------------------------------------------------------------------
def test_guarantees_say_what_they_assume():
    p = nr.worlds.random_logit(3, 2, 2, 2, weight_bound=4.0).problem
    said = nr.LRORL(p).guarantee
    assert said.startswith(
        "if every row of transition weights has norm at most 4, the logit model of transitions holds and mean rewards "
        "are linear with weights of norm at most 1.414, then with probability 0.95, "
    )
    for name in ("lr-orl", "certified-psrl", "glm-orl", "glm-rlsvi"):
        assert nr.make_agent(name, p).guarantee.startswith("if every row of transition weights has norm at most 4, ")
    known = dataclasses.replace(p, known_rewards=np.zeros((3, 2, 2)))
    assert "mean rewards are as told, then" in nr.GLMORL(known).guarantee
    linear = nr.worlds.random_linear(3, 2, 2, 2).problem
    assert nr.LRORL(linear).guarantee.startswith("if the linear model of transitions holds and mean rewards")
    tight = dataclasses.replace(linear, weight_bound=1.0)
    assert "norm at most 1, the linear model" in nr.LRORL(tight).guarantee
    bandit = nr.worlds.bandit_logistic().problem
    assert nr.agents.GLMUCB(bandit).guarantee.startswith(
        "if mean rewards are logistic with weights of norm at most 2, "
    )
    judged = nr.Certified(nr.GLMORL(p))
    assert judged.guarantee.count("every row") == 1
    team = nr.Referral(nr.LRORL(p), np.zeros((2, 3), int), threshold=1.0)
    assert team.guarantee.startswith("if every row of transition weights has norm at most 4, ")


def test_conditions_are_part_of_the_sentence():
    agent = nr.LRORL(nr.worlds.random_logit(3, 2, 2, 2).problem)
    agent._caveats = ("nobody jumps the queue",)
    assert agent.guarantee.endswith("shortfall from it; provided that nobody jumps the queue")
    assert sentence((), "it holds") == "it holds"
    assert sentence(("a",), "it holds", ("b", "c")) == "if a, then it holds; provided that b; provided that c"


# Agents that are made of agents ---------------------------------------------------------------------------------------
def test_what_speaks_against_an_agent_stays_when_it_is_taken_over():
    """Wrapped in another, a refuted agent promised again."""
    problem = nr.worlds.clinic().problem
    for wrap in (lambda a: nr.Referral(a, nr.UniformRandom(problem), 3.0), nr.Certified):
        agent = nr.LRORL(problem)
        agent._caveats = ("nobody jumps the queue",)
        agent._own_evidence[0] = 0.5
        with pytest.warns(UserWarning, match="promises nothing any more"):
            agent.refute("it was seen")
        made = wrap(agent)
        assert made.refuted == agent.refuted == "it was seen"
        assert made.guarantee is None
        assert made._caveats == ("nobody jumps the queue",)
    assert nr.Referral(nr.LRORL(problem), nr.UniformRandom(problem), 3.0).refuted is None


def test_an_expert_whose_bounds_are_wrong_refutes_nothing():
    """The sets that a promise rests on are tested, and no others."""
    world = nr.worlds.clinic(horizon=3)
    p = world.problem
    small = dataclasses.replace(p, weight_bound=p.weight_bound / 4, reward_bound=p.reward_bound / 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        team = nr.Referral(nr.LRORL(p), nr.LRORL(small), 0.0)  # everybody is handed to the expert
        run = nr.simulate(team, world, 100)
    assert run.guarantee is not None
    assert run.refuted == (None,)
    with pytest.warns(UserWarning, match="promises nothing any more"):
        run = nr.simulate(nr.Referral(nr.LRORL(small), nr.LRORL(p), 0.0), world, 100)
    assert run.refuted[0] is not None


@pytest.mark.parametrize("length", [1e-3, 1.0, 1e7, 1e10])
def test_contexts_of_any_length_are_tested(length):
    """A Gram matrix of one long context is singular to the last digit."""
    problem = nr.Problem(2, 1, 1, 2, context_bound=length, weight_bound=1.0 / length, reward_bound=1.0 / length)
    agent = nr.LRORL(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(12):
            agent.begin_episode([0.6 * length, 0.79 * length])
            agent.act(0)
            agent.observe(0.5, 1)
            agent.end_episode()
    assert agent.refuted is None
