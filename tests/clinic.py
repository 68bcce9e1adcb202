"""The clinic with its rule, and agents that have learned a log of it."""

import noregret as nr

CLINIC = nr.worlds.clinic()
RULE = [[0, 1, 1, 1]] * CLINIC.problem.horizon
X = CLINIC.context(seed=2, episode=0)


def learned(make, people=300):
    agent = make(CLINIC.problem)
    agent.learn_from(CLINIC.log(people, seed=1, explore=0.5, rule=RULE))
    return agent
