"""The two NumPy programs of `noregret bench` against the compiled loop: the same decisions, hence the same regret."""

from typing import Any

import numpy as np
import pytest

import noregret as nr
from benchmarks import numpy_rearranged, numpy_twin
from noregret.worlds import random_logit

pytestmark = pytest.mark.deep

TOLERANCE = 1e-9


def compiled(world: nr.World, episodes: int, seed: int, delta: float = 0.05) -> Any:
    return nr.simulate(nr.GLMORL(world.problem, delta=delta), world, episodes, seeds=[seed]).regret[0]


def assert_agrees(world: nr.World, episodes: int, seed: int, delta: float = 0.05) -> None:
    expected = compiled(world, episodes, seed, delta)
    for program in (numpy_twin, numpy_rearranged):
        curve = program.glm_orl(world, episodes, seed=seed, delta=delta)
        assert curve.shape == (episodes,)
        assert curve[-1] > 0.0
        np.testing.assert_allclose(curve, expected, rtol=0.0, atol=TOLERANCE)


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
    assert_agrees(random_logit(*sizes, weight_bound=weight_bound), 400, seed)


def test_same_regret_at_another_confidence() -> None:
    assert_agrees(random_logit(5, 3, 5, 4), 300, 2, delta=0.3)


@pytest.mark.parametrize(("sizes", "weight_bound"), [((3, 2, 10, 2), 1.0), ((6, 2, 20, 1), 1.5)])
def test_same_regret_where_predictions_are_projected(
    sizes: tuple[int, int, int, int], weight_bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, project = [], numpy_rearranged.project
    monkeypatch.setattr(numpy_rearranged, "project", lambda y, bound: calls.append(y.shape) or project(y, bound))
    assert_agrees(random_logit(*sizes, weight_bound=weight_bound), 400, 3)
    assert len(calls) > 30


@pytest.mark.long
def test_same_regret_with_contexts_of_many_lengths_and_past_a_refresh() -> None:
    g = np.random.default_rng(0)
    W = g.standard_normal((4, 2, 4, 2))
    W /= np.linalg.norm(W, axis=-1, keepdims=True)
    W[:, :, -1] = 0.0
    theta = np.zeros((4, 2, 2))
    theta[..., 0] = g.random((4, 2))
    source = nr.contexts.Table([[0.3, 0.1], [0.9, 0.2], [0.5, -0.5]])
    assert_agrees(
        nr.World(nr.Problem(4, 2, 10, 2, weight_bound=1.0, reward_bound=1.0), W, theta, source, initial_state=2),
        3000,
        5,
    )


@pytest.mark.parametrize(("sizes", "weight_bound"), [((5, 3, 5, 4), 2.0), ((6, 2, 20, 1), 1.5), ((12, 2, 6, 3), 0.3)])
def test_same_beliefs(sizes: tuple[int, int, int, int], weight_bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regret sees decisions only, and caps and clips hide differences: compare what has been learned."""
    world, seed, episodes, made = random_logit(*sizes, weight_bound=weight_bound), 6, 400, []
    learner = numpy_rearranged.Learner
    monkeypatch.setattr(numpy_rearranged, "Learner", lambda *args: made.append(learner(*args)) or made[0])
    numpy_rearranged.glm_orl(world, episodes, seed=seed)
    (twin,), agent, S, H = made, nr.GLMORL(world.problem, seed=seed), world.problem.n_states, world.problem.horizon
    for k in range(episodes):
        someone = world.individual(k, seed)
        plan = agent.begin_episode(someone.context)
        for _ in range(H):
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
    newton, ridge, work = agent.state.transitions, agent.state.rewards, agent.work
    expected = {  # the plan is that of the last episode, the state what was learned from it
        "V": (twin.V[:, :S], plan.values[:-1]),
        "P_hat": (twin.model[:S], work.belief.P.transpose(2, 1, 0)),
        "xi_p": (2.0 * twin.model[S], work.xi.T),
        "r_hat + xi_r": (twin.model[S + 1], work.r.T),
        "W": (twin.weights[:-1], (newton.weights - newton.weights[:, :, -1:]).transpose(2, 1, 0, 3)[:-1]),
        "theta": (twin.weights[-1], ridge.theta.transpose(1, 0, 2)),
        "inverse of Z": (twin.inverse[0], newton.inverse.swapaxes(0, 1)),
        "inverse of V": (twin.inverse[1], ridge.inverse.swapaxes(0, 1)),
        "gamma": (8.0 * twin.sheet[-4], (newton.radius + 8.0 * agent.par.log_confidence).T),
        "ln det V": (4.0 * twin.sheet[-3], (ridge.logdet + 2.0 * agent.par.log_confidence).T),
    }
    for name, (ours, theirs) in expected.items():
        np.testing.assert_allclose(ours.ravel(), theirs.ravel(), rtol=1e-9, atol=1e-10, err_msg=name)


def test_rearranged_program_says_what_it_takes() -> None:
    with pytest.raises(ValueError, match="logit link"):
        numpy_rearranged.glm_orl(nr.worlds.random_linear(3, 2, 2, 2), 10)
