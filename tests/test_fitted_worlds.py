"""Worlds made from what agents have learned: `agent.world`, `agent.weights`."""

import numpy as np
import pytest

import noregret as nr

CLINIC = nr.worlds.clinic()
RULE = [[0, 1, 1, 1]] * CLINIC.problem.horizon
LOG = CLINIC.log(400, seed=1, explore=0.5, rule=RULE)


def learned(agent, log=LOG):
    agent.learn_from(log)
    return agent


@pytest.mark.parametrize("make", [nr.PSRLGLM, nr.LRORL, nr.CertaintyEquivalence, lambda p: nr.Certified(nr.PSRLGLM(p))])
def test_the_fitted_world_is_the_model(make):
    agent = learned(make(CLINIC.problem))
    world = agent.world(LOG)
    met = CLINIC.problem.layout.available
    for k in range(5):
        x = world.context(0, k)
        model = agent.model(x)
        assert np.allclose(world.transitions(x)[met], model.P[met], atol=1e-9)
        assert np.allclose(world.rewards(x)[met], model.r[met], atol=1e-9)
    assert world.problem.same_shape(CLINIC.problem)
    assert world.start(0, 0) == 2


def test_agents_run_in_it_and_lose_what_numpy_says():
    """Means outside [0, 1] are clipped by the compiled loop as by `World.rewards`: exact regret is the same."""
    people = np.array([CLINIC.context(7, k) for k in range(6)])
    world = learned(nr.PSRLGLM(CLINIC.problem), CLINIC.log(30, seed=1, explore=0.5, rule=RULE)).world(people, draw=3)
    raw = np.einsum("sad,nd->nsa", world.reward_weights, people)[:, CLINIC.problem.layout.available]
    assert raw.min() < 0.0 or raw.max() > 1.0
    run = nr.simulate(nr.UniformRandom(CLINIC.problem), world, 20, every=1)
    lost, agent = 0.0, nr.UniformRandom(CLINIC.problem)
    for k in range(20):
        x = world.context(0, k)
        plan = agent.begin_episode(x)
        agent.end_episode()
        lost += world.optimal(x).values[0, 2] - world.value(plan.policy, x)
    assert np.isclose(run.final[0], lost)
    with pytest.raises(ValueError, match="outside"):  # without `clip` such weights are no world
        nr.World(world.problem, world.weights, world.reward_weights, people, 2)


def test_draws_are_those_of_the_posterior():
    """Means and standard deviations over 300 drawn worlds beside those of `agent.model`, pairs with little spread: 300
    draws know a mean to 1/17 of a deviation and a deviation to 4%. The bars are five and more such errors wide."""
    agent = learned(nr.PSRLGLM(CLINIC.problem), CLINIC.log(2000, seed=1, explore=0.5, rule=RULE))
    x = CLINIC.context(2, 0)
    model = agent.model(x)
    drawn = [agent.world([x], draw=n) for n in range(300)]
    P, r = np.array([w.transitions(x) for w in drawn]), np.array([w.rewards(x) for w in drawn])
    met = CLINIC.problem.layout.available & (model.r_deviation < 0.1)
    inside = met & (model.r > 3 * model.r_deviation) & (model.r < 1 - 3 * model.r_deviation)
    assert inside.sum() >= 3
    assert np.abs((P.mean(0) - model.P)[met]).max() < 0.35 * model.P_deviation[met].max()
    assert abs(P.std(0)[met].mean() / model.P_deviation[met].mean() - 1.0) < 0.25
    assert (np.abs(r.mean(0) - model.r)[inside] < 0.35 * model.r_deviation[inside]).all()
    assert abs(r.std(0)[inside].mean() / model.r_deviation[inside].mean() - 1.0) < 0.25
    assert np.array_equal(agent.world([x], draw=5).weights, agent.world([x], draw=5).weights)


@pytest.mark.parametrize("draw", [None, 1])
def test_designs_stay_designs(draw):
    world = nr.worlds.programme(context_dim=4)
    log = world.log(300, seed=1)
    agent = learned(nr.PSRLGLM(world.problem), log)
    made = agent.world(log, draw, rule=world.rule)
    assert made.problem.design is not None
    assert not made.misspecified
    x = world.context(2, 0)
    if draw is None:
        assert np.allclose(made.transitions(x), agent.model(x).P, atol=1e-9)
        assert np.allclose(made.rewards(x), agent.model(x).r, atol=1e-9)
    assert nr.simulate(nr.PSRLGLM(made.problem), made, 5).final.size == 1
    assert len(made.log(3, seed=0)) == 3


def test_mixtures_have_distributions():
    world = nr.worlds.random_linear(3, 2, horizon=3)
    agent = learned(nr.PSRLGLM(world.problem), world.log(200, seed=1, explore=1.0, rule=np.zeros((3, 3), int)))
    made = agent.world(world.contexts)
    x = world.context(0, 1)
    assert np.allclose(made.transitions(x).sum(2), 1.0)
    assert np.abs(made.transitions(x) - agent.model(x).P).mean() < 0.05
    with pytest.raises(ValueError, match="draw must be None"):
        agent.world(world.contexts, draw=0)


def test_worlds_that_cannot_be():
    with pytest.raises(ValueError, match="keeps no weights"):
        nr.UniformRandom(CLINIC.problem).world(LOG)
    with pytest.raises(ValueError, match="keeps no posterior"):
        nr.GLMORL(CLINIC.problem).world(LOG, draw=0)
    with pytest.raises(ValueError, match="draw must be"):
        nr.PSRLGLM(CLINIC.problem).world(LOG, draw=-1)
    with pytest.raises(ValueError, match="agent must be an agent of noregret"):
        nr.world_of(3, LOG)
