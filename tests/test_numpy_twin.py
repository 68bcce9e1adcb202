"""The vectorised NumPy twin against the compiled loop: the same decisions, hence the same regret to rounding."""

from typing import Any

import numpy as np
import pytest

import noregret as nr
from noregret.bench import numpy_twin
from noregret.worlds import random_logit

TOLERANCE = 1e-9


def compiled(world: nr.World, episodes: int, seed: int, delta: float = 0.05) -> Any:
    return nr.simulate(nr.GLMORL(world.problem, delta=delta), world, episodes, seeds=[seed]).regret[0]


def agree(world: nr.World, episodes: int, seed: int, delta: float = 0.05) -> None:
    twin = numpy_twin.glm_orl(world, episodes, seed=seed, delta=delta)
    assert twin.shape == (episodes,)
    assert twin[-1] > 0.0
    np.testing.assert_allclose(twin, compiled(world, episodes, seed, delta), rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("sizes", "weight_bound", "seed"),
    [
        ((5, 3, 5, 4), 2.0, 0),
        ((5, 3, 5, 4), 2.0, 3),
        ((10, 4, 10, 8), 2.0, 7),
        ((5, 3, 5, 4), 0.3, 1),
        ((2, 3, 1, 2), 2.0, 4),  # one step, two outcomes
        ((30, 2, 4, 3), 4.0, 2**40 + 5),  # the prior cap stops sorting early; a seed of more than 32 bits
    ],
)
def test_same_regret(sizes: tuple[int, int, int, int], weight_bound: float, seed: int) -> None:
    agree(random_logit(*sizes, weight_bound=weight_bound), 400, seed)


def test_same_regret_at_another_confidence() -> None:
    agree(random_logit(5, 3, 5, 4), 300, 2, delta=0.3)


@pytest.mark.parametrize(("sizes", "weight_bound"), [((3, 2, 10, 2), 1.0), ((6, 2, 20, 1), 1.5)])
def test_same_regret_where_predictions_are_projected(
    sizes: tuple[int, int, int, int], weight_bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, project = [], numpy_twin.project
    monkeypatch.setattr(numpy_twin, "project", lambda y, bound: calls.append(y.shape) or project(y, bound))
    agree(random_logit(*sizes, weight_bound=weight_bound), 400, 3)
    assert len(calls) > 30


def test_same_regret_with_contexts_of_many_lengths_and_past_a_refresh() -> None:
    g = np.random.default_rng(0)
    W = g.standard_normal((4, 2, 4, 2))
    W /= np.linalg.norm(W, axis=-1, keepdims=True)
    W[:, :, -1] = 0.0
    theta = np.zeros((4, 2, 2))
    theta[..., 0] = g.random((4, 2))
    source = nr.contexts.Table([[0.3, 0.1], [0.9, 0.2], [0.5, -0.5]])
    agree(nr.World(nr.Problem(4, 2, 10, 2), W, theta, source, initial_state=2), 3000, 5)


def test_twin_says_what_it_takes() -> None:
    with pytest.raises(ValueError, match="logit link"):
        numpy_twin.glm_orl(nr.worlds.random_linear(3, 2, 2, 2), 10)
