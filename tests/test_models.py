"""What agents say of one individual: `agent.model`."""

import numpy as np
import pytest

import noregret as nr
from clinic import CLINIC, RULE, X, learned


def softmax(z):
    """[S, A, S'] from predictors in slots."""
    p = CLINIC.problem
    used = np.arange(z.shape[2]) < p.layout.count[..., None]
    e = np.where(used, np.exp(z - z.max(-1, keepdims=True)), 0.0)
    return p.from_slots(e / e.sum(-1, keepdims=True))


MAKERS = {
    "glm-orl": (nr.GLMORL, "proved"),
    "certainty-equivalence": (nr.CertaintyEquivalence, None),
    "lr-orl": (nr.LRORL, "proved"),
    "psrl-glm": (nr.PSRLGLM, "believed"),
    "certified-psrl": (nr.CertifiedPSRL, "believed"),
    "certified": (lambda p: nr.Certified(nr.EpsilonGreedy(p)), "proved"),
    "referral": (lambda p: nr.Referral(nr.CertifiedPSRL(p), RULE, 3.0), "believed"),
    "psrl": (nr.agents.PSRL, "believed"),
    "ucbvi": (nr.agents.UCBVI, None),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_model_has_distributions_and_rewards_in_range(name):
    make, rung = MAKERS[name]
    agent = learned(make)
    model = agent.model(X)
    assert model.rung == rung
    assert np.allclose(model.P.sum(2), 1.0)
    assert model.P.min() >= 0.0
    assert model.r.min() >= 0.0
    assert model.r.max() <= 1.0
    met = CLINIC.problem.layout.available
    away = np.abs(model.P - CLINIC.transitions(X))[met], np.abs(model.r - CLINIC.rewards(X))[met]
    if "psrl" != name != "ucbvi":  # those take everybody for alike
        assert away[0].mean() < 0.12
        assert away[1].mean() < 0.1
    if model.P_width is not None:  # the sets of this seed hold
        assert (away[0] <= model.P_width[met] + 1e-9).all()
        assert (away[1] <= model.r_width[met] + 1e-9).all()
    assert len(model.table()) == CLINIC.problem.n_pairs
    assert "remission" in str(model)


@pytest.mark.parametrize("name", ["lr-orl", "psrl-glm", "certified-psrl", "certainty-equivalence"])
def test_the_weights_of_a_model_give_it(name):
    model = learned(MAKERS[name][0]).model(X)
    assert np.allclose(softmax(model.weights @ X), model.P, atol=1e-9)
    assert np.allclose(np.clip(model.reward_weights @ X, 0.0, 1.0), model.r, atol=1e-9)


def test_asking_changes_nothing():
    asked, other = learned(nr.CertifiedPSRL), learned(nr.CertifiedPSRL)
    plan, same = asked.begin_episode(X), other.begin_episode(X)
    asked.model(CLINIC.context(0, 5))
    assert np.array_equal(plan.policy, same.policy)
    for agent in (asked, other):
        agent.act(2)
        agent.observe(1.0, 1)
        agent.end_episode()
        agent.begin_episode(X)
    assert np.array_equal(asked.policy, other.policy)
    first, second = (agent.model(X) for agent in (asked, other))
    assert np.array_equal(first.P, second.P)
    assert np.array_equal(first.r, second.r)


@pytest.mark.long
def test_deviations_are_those_of_draws():
    """Of 400 draws a standard deviation is estimated to 1/sqrt(800) = 3.5%; the first order of the softmax is off by
    more where little is known. 25% of the mean deviation over pairs is ten standard errors and covers both."""
    agent = learned(nr.PSRLGLM, 1000)
    model = agent.model(X)
    drawn = [agent.draw(X, number=n) for n in range(1, 401)]
    P, r = np.std([d[0] for d in drawn], axis=0), np.std([d[1] for d in drawn], axis=0)
    seen = (model.r_deviation < 0.2) & CLINIC.problem.layout.available
    assert seen.sum() >= 7
    assert abs(P[seen].mean() / model.P_deviation[seen].mean() - 1.0) < 0.25
    assert abs(r[seen].mean() / model.r_deviation[seen].mean() - 1.0) < 0.25


def test_all_next_states_also_where_few_are_possible():
    p = CLINIC.problem
    model = nr.PSRLGLM(p).model(X)
    assert not p.layout.dense
    assert model.P.shape == (p.n_states, p.n_actions, p.n_states)
    assert (model.P[~p.support] == 0.0).all()


@pytest.mark.long
def test_rewards_are_in_the_problems_units():
    world = nr.worlds.programme(context_dim=4)
    p = nr.Problem(
        n_states=2,
        n_actions=2,
        horizon=2,
        context_dim=2,
        weight_bound=1.0,
        reward_bound=10.0,
        reward_range=(-10.0, 0.0),
    )
    assert np.allclose(nr.LRORL(p).model([1.0, 0.0]).r_width, 10.0)
    agent = nr.PSRLGLM(p)
    assert agent.model([1.0, 0.0]).r.max() <= 0.0
    assert nr.PSRLGLM(world.problem).model(world.context(0, 0)).r.shape == (
        world.problem.n_states,
        world.problem.n_actions,
    )


def test_agents_without_a_model_say_so():
    with pytest.raises(ValueError, match="model: uniform-random keeps no model"):
        nr.UniformRandom(CLINIC.problem).model(X)
    with pytest.raises(ValueError, match="context"):
        nr.PSRLGLM(CLINIC.problem).model([1.0])
