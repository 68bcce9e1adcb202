"""Bounds read off a log: fits are the maximum likelihood, limits cover the truth, few data are said to be few."""

import dataclasses
import math

import numpy as np
import pytest

import noregret as nr
from live import random_play
from noregret.live import bounds


def logged(world, people, seed=0):
    """A log of somebody who acts at random."""
    return nr.read_log(random_play(world, people, seed), world.problem, arrival="key")


@pytest.mark.long
def test_limits_are_above_the_truth_and_not_far():
    """Two standard errors for one row of a pair: of nine pairs' longest rows at least six are below their limits (each
    with probability about .975, or more than six fail less often than 1e-6)."""
    world = nr.worlds.clinic()
    p = world.problem
    found = nr.suggest_bounds(logged(world, 1200))
    rows = world.stored - np.take_along_axis(world.stored, p.layout.count[..., None, None] - 1, 2)
    true = np.where(np.arange(rows.shape[2]) < p.layout.count[..., None], np.linalg.norm(rows, axis=-1), 0.0).max(-1)
    may = p.layout.available
    assert (found.weight_limits[may] >= true[may] - 1e-9).sum() >= 6
    assert (found.reward_limits[may] >= np.linalg.norm(world.reward_weights, axis=-1)[may] - 1e-9).sum() >= 6
    assert true[may].max() <= found.weight_bound <= 2 * true[may].max()
    assert not found.few_visits[may].any()
    assert np.isnan(found.weight_norms[~may]).all()


def test_the_fit_is_the_maximum_of_the_likelihood():
    """The gradient of the penalised log-likelihood vanishes, and its Hessian is that of differences."""
    g = np.random.default_rng(3)
    X, y = g.normal(size=(80, 2)), g.integers(0, 3, 80)
    u, cov = bounds._logit(X, y, 3, 1.0)

    def loss(v):
        z = np.concatenate([X @ v.reshape(2, 2).T, np.zeros((80, 1))], 1)
        return (np.log(np.exp(z).sum(1)) - z[np.arange(80), y]).sum() + v @ v / (2 * bounds.SPREAD**2)

    at, e = u.ravel(), 1e-4 * np.eye(4)
    gradient = [(loss(at + i) - loss(at - i)) / 2e-4 for i in e]
    assert np.abs(gradient).max() < 1e-5
    H = [[(loss(at + i + j) - loss(at + i - j) - loss(at - i + j) + loss(at - i - j)) / 4e-8 for i in e] for j in e]
    assert np.allclose(np.linalg.inv(H), cov.reshape(4, 4), rtol=1e-3)


def test_pairs_with_few_data_are_marked_and_not_relied_on():
    world = nr.worlds.random_logit(4, 3, 5, 3, weight_bound=2.0)
    found = nr.suggest_bounds(logged(world, 40))
    assert found.few_visits.any()
    some = found.weight_limits[~found.few_visits]
    assert found.weight_bound < 1.1 * (some.max() if some.size else np.nanmax(found.weight_limits))
    assert "few steps" in str(found)
    assert "chosen after looking" in str(found)


def test_what_always_happens_has_a_finite_norm():
    u, cov = bounds._logit(np.ones((50, 1)), np.zeros(50, np.int64), 2, 1.0)
    assert 3.0 < u[0, 0] < 30.0
    assert np.isfinite(cov).all()


def test_implied_bounds_are_kept():
    linear = nr.worlds.random_linear(3, 2, 2, 2)
    assert nr.suggest_bounds(logged(linear, 30)).weight_bound == math.sqrt(2)
    world = nr.worlds.random_logit(3, 2, 2, 2)
    told = dataclasses.replace(world.problem, known_rewards=world.reward_weights)
    log = dataclasses.replace(logged(world, 30), problem=told)
    assert nr.suggest_bounds(log).reward_bound == told.reward_bound


def test_logistic_rewards_are_fitted_as_such():
    world = nr.worlds.bandit_logistic(n_actions=2, context_dim=2, reward_bound=2.0)
    found = nr.suggest_bounds(logged(world, 800))
    true = np.linalg.norm(world.reward_weights, axis=-1)
    assert (found.reward_limits >= true).all()
    assert (found.reward_norms <= true + 1.0).all()


def test_bad_arguments_get_a_sentence():
    world = nr.worlds.random_logit(3, 2, 2, 2)
    with pytest.raises(ValueError, match=r"log must be a noregret\.Log where no problem is given, got \[1\]"):
        nr.suggest_bounds([1])
    log = logged(world, 5)
    with pytest.raises(ValueError, match="margin must be"):
        nr.suggest_bounds(log, margin=-1.0)
    with pytest.raises(ValueError, match="problem must be of the shape of the one that the log was read with"):
        nr.suggest_bounds(log, nr.Problem(9, 2, 1, 1, weight_bound=1.0, reward_bound=1.0))
    with pytest.raises(ValueError, match="log must have at least one episode"):
        nr.suggest_bounds(dataclasses.replace(log, episodes=()))
