"""Live agents, met person by person, for several test modules."""

import math

import numpy as np

import noregret as nr


def follow(agent, learner, world, episodes, close):
    """Agent and reference learner meet the same people, in episodes that end early and with rewards that are not seen:
    they must plan alike all the way."""
    g = np.random.default_rng(0)
    for k in range(episodes):
        person = world.individual(k, 0)
        plan = agent.begin_episode(person.context)
        policy, values = learner.plan(person.context, k)
        assert np.array_equal(plan.policy, policy)
        close(plan.values, values)
        path = []
        for h in range(g.integers(0, world.problem.horizon + 1)):
            state = person.state
            assert agent.act(state) == policy[h, state]
            reward, after = person.step(policy[h, state])
            reward = math.nan if g.random() < 0.4 else reward
            agent.observe(reward, after)
            path.append((state, policy[h, state], reward, after))
        agent.end_episode()
        learner.learn(person.context, path)


def saved_and_continued(agent, world, path, seed, episodes=12, at=6):
    """Play, save in the middle of a step of episode `at`, load, and play on with both: (agent, loaded), after checking
    that they agreed in every plan and decision."""
    other = None
    for k in range(episodes):
        person = world.individual(k, seed)
        plan = agent.begin_episode(person.context)
        if k == at:
            agent.act(person.state)
            agent.save(path)
            other = nr.load(path)
        elif k > at:
            same = other.begin_episode(person.context)
            assert np.array_equal(same.policy, plan.policy)
            assert np.array_equal(same.values, plan.values)
        for _ in range(world.problem.horizon):
            state = person.state
            action = agent.act(state)
            seen = person.step(action)
            agent.observe(*seen)
            if k >= at:
                assert other.act(state) == action
                other.observe(*seen)
        agent.end_episode()
        if k >= at:
            other.end_episode()
    return agent, other
