"""`agent.refresh`: stored sets from all data there is, at any time, on the same event."""

import numpy as np
import pytest

import noregret as nr
from noregret.verification.chance import allowed
from test_shared_weights import designed, play

DELTA = 0.3


def small(kind):
    if kind == "design":
        return designed()
    return nr.worlds.random_logit(3, 2, 5, 2, 1.5, seed=4)


def arrays(state):
    """Copies of all arrays of a state."""
    if isinstance(state, tuple):
        return [v for part in state for v in arrays(part)]
    return [np.array(state)]


def holds(agent, world, x):
    """Whether the sets hold at x: transitions by their 1-norms, rewards by their ranges."""
    policy = np.zeros((world.problem.horizon, world.problem.n_states), int)
    agent.certify(x, policy)
    local, r = agent.work.local, world.reward_weights @ x
    close = np.abs(local.P - world.transitions(x)).sum(2) <= 2.0 * local.half + 1e-9
    return bool((close & (local.low - 1e-9 <= r) & (r <= local.high + 1e-9)).all())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["design", "pairs"])
def test_sets_hold_however_often_and_whenever_they_are_refreshed(kind):
    """delta = 0.3, 40 runs, refreshed after every episode that began well and at no other time: a choice by outcomes.
    A run fails if at any time a set misses the truth, at one of four contexts."""
    world, missed = small(kind), 0
    people = [world.context(99, k) for k in range(4)]
    for seed in range(40):
        agent, failed = nr.LRORL(world.problem, sets="stored", delta=DELTA, seed=seed), False
        for k in range(60):
            someone = world.individual(k, seed)
            agent.begin_episode(someone.context)
            rewards = []
            while someone.steps < world.problem.horizon:
                reward, after = someone.step(agent.act(someone.state))
                agent.observe(reward, after)
                rewards.append(reward)
            agent.end_episode()
            if rewards[0] > 0.5:
                agent.refresh()
                failed = failed or not all(holds(agent, world, x) for x in people)
        missed += failed
    assert missed <= allowed(40, DELTA)


@pytest.mark.study(first=1)
@pytest.mark.parametrize("kind", ["design", "pairs"])
@pytest.mark.parametrize("cls", [nr.LRORL, nr.CertifiedPSRL])
def test_refreshed_sets_have_seen_everything_and_are_narrower(cls, kind):
    world = small(kind)
    agent, x = cls(world.problem, sets="stored"), world.context(5, 0)
    play(agent, world, 299)
    policy = world.optimal(x).policy
    kept, before = agent.state.transitions, agent.certify(x, policy).certificate
    seen = kept.samples if kind == "design" else agent.state.store.visits
    assert (kept.refreshed <= seen).all()
    assert (kept.refreshed < seen).any()
    agent.refresh()
    assert np.array_equal(kept.refreshed, seen)
    rewards = agent.state.rewards
    asked = rewards.samples >= 16  # with fewer there is nothing to gain
    assert np.array_equal(rewards.mixture.refreshed[asked], rewards.samples[asked])
    assert agent.certify(x, policy).certificate < before
    once = arrays(agent.state)
    agent.refresh()  # nothing is new
    assert all(np.array_equal(u, v, equal_nan=True) for u, v in zip(once, arrays(agent.state), strict=True))
    play(agent, world, 20)  # and it goes on


@pytest.mark.long
def test_a_refresh_after_a_log_is_worth_it():
    """3,000 logged people of the programme, whose last refresh was after 2,713 of them: mean certificates of 25 others
    fall by a twentieth."""
    world = nr.worlds.programme()
    agent = nr.CertifiedPSRL(world.problem, sets="stored")
    agent.learn_from(world.log(3000, seed=1))
    people = [world.context(2, k) for k in range(25)]
    policies, means = [world.optimal(x).policy for x in people], []
    for turn in range(2):
        if turn == 1:
            agent.refresh()
        found = [agent.certify(x, policy).certificate for x, policy in zip(people, policies, strict=True)]
        means.append(np.mean(found))
    assert means[1] < 0.97 * means[0]


def test_parts_are_refreshed_where_they_store():
    world = small("pairs")
    p = world.problem
    judged = nr.Certified(nr.PSRLGLM(p), sets="stored")
    asked = nr.Referral(nr.CertifiedPSRL(p, sets="stored"), np.zeros((5, 3), int), 4.0)
    for agent, sets in ((judged, lambda: judged.judge.state), (asked, lambda: asked.agent.state)):
        play(agent, world, 100)
        agent.refresh()
        assert np.array_equal(sets().transitions.refreshed, sets().store.visits)
    for agent in (nr.LRORL(p), nr.PSRLGLM(p), nr.GLMORL(p), nr.LRORL(p, sets="stored")):
        before = arrays(agent.state)
        agent.refresh()  # nothing is stored
        assert all(np.array_equal(u, v, equal_nan=True) for u, v in zip(before, arrays(agent.state), strict=True))


def test_online_sets_refresh_stored_rewards():
    world = small("pairs")
    agent = nr.LRORL(world.problem, reward_sets="bernstein")
    play(agent, world, 200)
    samples = agent.state.rewards.samples
    agent.refresh()
    assert np.array_equal(agent.state.rewards.mixture.refreshed[samples >= 16], samples[samples >= 16])


def test_between_episodes_and_by_its_owner_only():
    world = small("pairs")
    agent = nr.LRORL(world.problem, sets="stored")
    agent.begin_episode(world.context(0, 0))
    with pytest.raises(RuntimeError, match="refresh: an episode is open, call end_episode first"):
        agent.refresh()
    agent.end_episode()
    nr.Certified(agent)
    with pytest.raises(RuntimeError, match="refresh: this lr-orl was taken over"):
        agent.refresh()
