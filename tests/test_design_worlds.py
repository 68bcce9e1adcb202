"""Worlds with designs: their weights are in them, within bounds."""

import math

import numpy as np
import pytest

import noregret as nr


def people(world, n=400, seed=7):
    X = np.empty((n, world.problem.context_dim))
    world.contexts.fill(seed, 0, X)
    return world.problem.contexts(X)


# Random truths ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_random_truth_is_in_its_design_and_as_long_as_its_bound(blocks):
    design = nr.worlds.random_design(7, 3, features=4, blocks=blocks, bound=2.5, seed=3)
    assert np.bincount(design.block.ravel()).tolist() == [21 // blocks] * blocks
    world = nr.worlds.random_logit(horizon=4, context_dim=5, seed=2, design=design)
    norms, residual = design.fitted(world.slots, world.problem.layout)
    assert np.allclose(norms, 2.5)
    assert residual < 1e-12
    assert (world.problem.n_states, world.problem.n_actions, world.problem.horizon) == (7, 3, 4)
    assert np.allclose(np.linalg.norm(people(world), axis=1), 1.0)
    assert np.allclose(people(world)[:, 0], math.sqrt(0.5))
    assert not np.array_equal(world.slots, nr.worlds.random_logit(context_dim=5, seed=3, design=design).slots)
    again = nr.worlds.random_logit(horizon=4, context_dim=5, seed=2, design=design)
    assert np.array_equal(world.slots, again.slots)
    assert np.array_equal(world.reward_weights, again.reward_weights)


def test_no_row_of_a_random_truth_is_absurdly_long():
    design = nr.worlds.random_design(6, 2, features=3, blocks=2, bound=60.0)
    world = nr.worlds.random_logit(context_dim=3, design=design)
    assert np.allclose([np.linalg.norm(world.slots[design.block == b], axis=-1).max() for b in range(2)], 8.0)


def test_what_moves_no_odds_takes_nothing_from_the_norm():
    tables = {"health": [0.0, 0.5, 1.0]}, {"dose": [0.0, 1.0]}
    design = nr.Design.from_tables(["state.health", "change.health", "action.dose * next.health"], 3.0, *tables)
    world = nr.worlds.random_logit(design=design, context_dim=3)
    assert np.allclose(design.fitted(world.slots, world.problem.layout)[0], 3.0)


@pytest.mark.parametrize("bound", [0.5, 3.0])
@pytest.mark.parametrize("d", [1, 4])
def test_rewards_of_a_random_truth_are_in_their_design_and_in_0_1(d, bound):
    g = np.random.default_rng(5)
    features = np.concatenate([np.ones((6, 3, 1)), g.uniform(-1.0, 1.0, (6, 3, 3))], axis=-1)
    rewards = nr.RewardDesign(features, bound, np.repeat(np.arange(2), 3)[:, None] * np.ones((1, 3), int))
    for seed in range(5):
        world = nr.worlds.random_logit(context_dim=d, seed=seed, reward_design=rewards)
        theta = world.reward_weights
        norms, residual = rewards.fitted(theta[:, :, None], world.problem.layout)
        assert residual < 1e-12
        assert (norms <= bound * (1 + 1e-9)).all()
        assert (norms < 3.0).all()
        unit = math.sqrt(0.5) if d > 1 else 1.0  # contexts (1, u)/sqrt 2, the worst u against the other weights
        level, swing = theta[..., 0] * unit, np.linalg.norm(theta[..., 1:], axis=-1) * unit
        assert (level - swing).min() >= -1e-12
        assert (level + swing).max() <= 1 + 1e-12
        if bound == 3.0:  # as much as there is room for
            touched = np.minimum(level - swing, 1.0 - level - swing)
            assert np.allclose([touched[:3].min(), touched[3:].min()], 0.0)


def test_both_designs_at_once_and_none():
    rewards = nr.RewardDesign.from_tables(["1", "state.level"], 2.0, {"level": [0, 1, 2, 3]}, {"cost": [0, 1]})
    design = nr.worlds.random_design(4, 2, features=3)
    world = nr.worlds.random_logit(design=design, reward_design=rewards)
    assert (world.problem.design, world.problem.reward_design) == (design, rewards)
    plain = nr.worlds.random_logit()
    assert plain.problem.design is None
    assert (plain.problem.weight_bound, plain.problem.reward_bound) == (2.0, math.sqrt(2.0))
    assert np.allclose(np.linalg.norm(plain.weights[:, :, :-1], axis=-1), 2.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nr.worlds.random_logit(design="moves"), "design must be a noregret.Design or None"),
        (lambda: nr.worlds.random_logit(reward_design=3), "reward_design must be a noregret.RewardDesign or None"),
        (
            lambda: nr.worlds.random_logit(
                reward_design=nr.RewardDesign(np.array([[[1.0]], [[-1.0]], [[3.0]]]), bound=1.0)
            ),
            "reward_design must have features with which all mean rewards",
        ),
        (lambda: nr.worlds.random_design(2, 2, blocks=5), "blocks must be at most the number of pairs, 4"),
    ],
)
def test_bad_input_gets_a_sentence(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_the_same_truth_without_a_design():
    for make in (nr.worlds.shared_logit,):
        shared, alone = make(seed=4), make(seed=4, shared=False)
        x = people(shared, 1)[0]
        assert np.array_equal(shared.transitions(x), alone.transitions(x))
        assert np.array_equal(shared.rewards(x), alone.rewards(x))
        assert alone.problem.design is alone.problem.reward_design is None
        longest = np.linalg.norm(alone.slots, axis=-1).max()
        assert alone.problem.weight_bound == pytest.approx(longest)
        assert alone.problem.weight_bound <= shared.problem.weight_bound
