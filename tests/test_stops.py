"""Maximisations that stop early change no plan: values, policies and certificates are those of every action's exact
one. And the small matrices of a stored set's refresh."""

import math

import numpy as np
import pytest

import noregret as nr
from noregret.estimators.likelihood.precision import products_of
from noregret.estimators.mixture import kronecker
from noregret.planning.bellman import expectation
from noregret.planning.maximise import Stops, largest_mean, largest_within, maximisation_work
from noregret.planning.optimism import assess, bonus


def question(g, n):
    root = g.standard_normal((n, n)) * g.uniform(0.3, 2.0, n)
    return g.standard_normal(n), g.random(n) * 5.0, root @ root.T, g.uniform(0.3, 2.0)


@pytest.mark.parametrize("n", [6, 9])
def test_a_maximisation_that_stops_is_right_about_what_it_stopped_at(n):
    g, work, stopped = np.random.default_rng(n), maximisation_work(n), [0, 0]
    for _ in range(600):
        z, V, cov, rho = question(g, n)
        exact = largest_mean(z, V, cov, rho, n, math.inf, work)
        at = exact + 0.03 * g.standard_normal()
        found = largest_within(z, V, cov, rho, n, Stops(math.inf, at, math.inf), work)
        assert found == exact or exact <= found <= at
        stopped[0] += found != exact
        found = largest_within(z, V, cov, rho, n, Stops(math.inf, -math.inf, at), work)
        assert found == exact or (found >= exact >= at)
        stopped[1] += found != exact
    assert stopped[0] > 10
    assert stopped[1] > 50


def recursion(agent, policy):
    """V~ and C of a policy by the formulas, with every maximisation to its end; [H+1, S]. U and L by `assess`."""
    par, local, work = agent.par.search, agent.work.local, agent.work.search
    (H, S), A = policy.shape, agent.problem.n_actions
    top, short = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    upper, lower = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    assess(par, local, work, policy, upper, lower, 0)

    def most(s, a, V):
        return expectation(local.P, par.layout, s, a, V) + bonus(par, local, s, a, V, 1.0, work)

    for h in range(H - 1, -1, -1):
        for s in range(S):
            allowed = [a for a in range(A) if par.layout.available[s, a]]
            Q = {a: min(max(local.high[s, a] + most(s, a, top[h + 1]), 0.0), H - h) for a in allowed}
            top[h, s] = max(Q.values())
            ahead = np.minimum(top[h + 1], upper[h + 1] + short[h + 1])
            loss = [most(s, policy[h, s], short[h + 1])]
            for a in set(allowed) - {policy[h, s]}:
                value = Q[a] if (ahead >= top[h + 1]).all() else min(Q[a], local.high[s, a] + most(s, a, ahead))
                loss.append(value - lower[h, s])
            short[h, s] = min(max(loss), max(top[h, s] - lower[h, s], 0.0))
    return top, lower, short


@pytest.mark.parametrize("kappa", [0.05, 4.0])
def test_a_plan_that_stops_early_is_the_plan_that_does_not(kappa):
    """People enough that actions are ruled out and that the certificate follows the policy."""
    world = nr.worlds.random_logit(3, 3, 4, 2, seed=1)
    agent, loose, glanced = nr.CertifiedPSRL(world.problem, sets="stored", kappa=kappa), 0, 0
    rule = np.zeros((4, 3), int)
    for people in (20, 3000):
        agent.learn_from(world.log(people, seed=people, explore=1.0, rule=rule))
        for k in range(6):
            plan = agent.begin_episode(world.context(2, k))
            loose += int((agent.work.search.loose != 0).sum())
            glanced += int(agent.work.search.rough[0])
            top, lower, short = recursion(agent, np.ascontiguousarray(plan.policy))
            np.testing.assert_allclose(plan.upper, top, rtol=0, atol=1e-11)
            np.testing.assert_allclose(plan.lower, lower, rtol=0, atol=1e-11)
            np.testing.assert_allclose(agent.work.short, short, rtol=0, atol=1e-11)
            agent.end_episode()
    assert loose > 20
    assert glanced > 0


def test_forms_of_a_refresh_are_the_matrices_that_they_stand_for():
    g, n, d = np.random.default_rng(0), 4, 3
    T, J = d * (d + 1) // 2, n * (n + 1) // 2
    products, packed, forms, acc = np.zeros(T), np.zeros(J), np.zeros((T, J)), np.zeros((T, J))
    root, total = g.standard_normal((n * d, n * d)), np.zeros((n * d, n * d))
    cov, q, made = root @ root.T, np.zeros((n, n)), np.zeros((n * d, n * d))
    kronecker.fold(cov, n, d, forms)
    for _ in range(5):
        x, half = g.standard_normal(d), g.standard_normal((n, n))
        lift = np.kron(np.eye(n), x[:, None])
        products_of(x, products)
        kronecker.folded_covariance(forms, products, n, packed, q)
        np.testing.assert_allclose(q, lift.T @ cov @ lift, rtol=1e-12)
        kronecker.logit_covariance(cov, x, n, q)
        np.testing.assert_allclose(q, lift.T @ cov @ lift, rtol=1e-12)
        kronecker.add_kronecker(half + half.T, products, n, packed, acc)
        total += np.kron(half + half.T, np.outer(x, x))
    kronecker.expanded(acc, n, d, made)
    np.testing.assert_allclose(made, total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_an_inverse_by_sweeps_is_the_inverse(size):
    g = np.random.default_rng(size)
    root = g.standard_normal((size, size)) * 10.0 ** g.uniform(-2, 2, size)
    matrix, made, row = root.T @ root + 1e-3 * np.eye(size), np.zeros((size + 1, size + 1)), np.zeros(size + 1)
    logdet = kronecker.inverse_of(matrix, size, 1e-13, row, made)
    found = made[:size, :size]
    assert logdet == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-10, abs=1e-8)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(root @ found @ root.T, root @ np.linalg.inv(matrix) @ root.T, rtol=1e-5, atol=1e-6)
    matrix[size - 1, size - 1] = (matrix[size - 1, : size - 1] ** 2).sum() * 1e-9 - 1e-3
    assert math.isnan(kronecker.inverse_of(matrix, size, 1e-13, row, made))
