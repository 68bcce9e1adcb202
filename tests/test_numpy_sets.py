"""The two NumPy programs for LR-ORL of `noregret bench` against the compiled agent: regret, sets and bounds."""

import numpy as np
import pytest

import noregret as nr
from benchmarks import numpy_sets, numpy_sets_twin
from noregret.agents.local.lr_orl import LRORL
from noregret.worlds import random_logit

pytestmark = pytest.mark.deep

PROGRAMS = (numpy_sets, numpy_sets_twin)
WORLDS = [
    ((4, 3, 4, 3), {}, 150, 0.05),
    ((2, 2, 12, 2), {"weight_bound": 1.0, "seed": 1}, 200, 0.5),  # two outcomes
    ((3, 2, 12, 2), {"weight_bound": 3.0, "seed": 4}, 260, 0.05),  # past the end of a chunk
    ((3, 2, 3, 1), {"weight_bound": 2.0}, 100, 0.9),
]


@pytest.mark.study(first=2)
@pytest.mark.parametrize(("sizes", "options", "episodes", "delta"), WORLDS)
def test_same_regret(sizes, options, episodes, delta):
    world = random_logit(*sizes, **options)
    agent = LRORL(world.problem, delta=delta, **numpy_sets.OPTIONS)
    wanted = nr.simulate(agent, world, episodes, seeds=[2**40 + 3]).regret[0]
    for program in PROGRAMS:
        curve = program.lr_orl(world, episodes, seed=2**40 + 3, delta=delta)
        assert curve.shape == (episodes,)
        np.testing.assert_allclose(curve, wanted, rtol=0.0, atol=1e-8)


@pytest.mark.study(first=2)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("sizes", "options", "episodes", "delta"), WORLDS[1:3])
def test_same_sets_and_bounds(sizes, options, episodes, delta, program, monkeypatch):
    """Regret sees decisions only, and clips hide differences: compare what was planned last, and what was learned."""
    world, made, kind = random_logit(*sizes, **options), [], program.Learner
    monkeypatch.setattr(numpy_sets, "CHUNK", 64)
    numpy_sets.lr_orl(world, episodes, 6, delta, lambda *args: made.append(kind(*args)) or made[0])
    (twin,), p = made, world.problem
    S, A, d = p.n_states, p.n_actions, p.context_dim
    agent = LRORL(p, seed=6, delta=delta, **numpy_sets.OPTIONS)
    for k in range(episodes):
        person = world.individual(k, 6)
        plan = agent.begin_episode(person.context)
        for _ in range(p.horizon):
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()

    def by_action(array):
        return np.asarray(array).swapaxes(0, 1).reshape(A * S, *array.shape[2:])

    sets, rewards = agent.state.transitions, agent.state.rewards
    inverse = by_action(sets.inverse).reshape(-1, S, d, S, d).transpose(0, 2, 1, 4, 3).reshape(-1, S * d, S * d)
    assert 0.0 < plan.lower[0, 0] < plan.upper[0, 0] < p.horizon  # nothing hides in a clip
    expected = {
        "upper": (twin.V, plan.upper),
        "lower": (twin.L, plan.lower),
        "W": (twin.W, by_action(sets.weights)),
        "inverse": (twin.inverse, inverse),
        "rho2": (twin.rho2, by_action(sets.radius)),
        "theta": (twin.theta, by_action((rewards.inverse @ rewards.moment[..., None])[..., 0])),
        "inverse of V": (twin.ridge, by_action(rewards.inverse)),
    }
    for name, (ours, theirs) in expected.items():
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("world", [nr.worlds.random_linear(3, 2, 2, 2), nr.worlds.clinic()])
def test_programs_say_what_they_take(world):
    with pytest.raises(ValueError, match="logit link, full support"):
        numpy_sets.lr_orl(world, 10)
