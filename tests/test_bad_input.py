"""Bad input gets one clear sentence that names the argument, and changes nothing."""

import math

import numpy as np
import pytest

import noregret as nr
from noregret.agents import contents


def problem(**more):
    return nr.Problem(3, 2, 2, 2, **{"weight_bound": 1.0, "reward_bound": 1.0} | more)


def mask(*shape, off=()):
    made = np.ones(shape, bool)
    for index in off:
        made[index] = False
    return made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_bound": -1.0}, "context_bound must be a positive number, got -1.0"),
        ({"weight_bound": math.inf}, "weight_bound must be a positive number, got inf"),
        ({"weight_bound": 400.0}, "weight_bound . context_bound must be at most 350"),
        ({"reward_bound": "x"}, "reward_bound must be a positive number, got 'x'"),
        ({"link": "logit"}, "link must be a noregret.Link"),
        ({"long_contexts": "cut"}, "long_contexts must be one of 'raise', 'rescale', got 'cut'"),
        (
            {"available": mask(3, 2, off=[1])},
            "available must leave at least one action in every state, state 1 has none",
        ),
        ({"available": np.ones((2, 2), bool)}, r"available must be a boolean array of shape \(3, 2\)"),
        ({"available": np.ones((3, 2))}, "available must be a boolean array .* got float64"),
        ({"support": mask(3, 2, 3, off=[(2, 0)])}, r"support must leave .* \(2, 0\) has none"),
        ({"state_names": ("a", "b")}, "state_names must have 3 different entries"),
        ({"initial_states": ()}, "initial_states must name at least one state"),
        ({"initial_states": 1}, "initial_states must be a sequence of states, got 1"),
        ({"initial_states": "mild"}, "initial_states must be a sequence of states, got 'mild'"),
        ({"initial_states": (0, 3)}, "initial_states must be a state number from 0 to 2, got 3"),
        ({"initial_states": (-1,)}, "initial_states must be a state number from 0 to 2, got -1"),
        ({"initial_states": (0.0, 1.0)}, "initial_states must be a state number from 0 to 2, got 0.0"),
        (
            {"initial_states": ("mild", "grave"), "state_names": ("well", "mild", "severe")},
            "initial_states must be a state number from 0 to 2 or one of well, mild, severe, got 'grave'",
        ),
    ],
)
def test_problem(options, message):
    with pytest.raises(ValueError, match=message):
        problem(**options)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "3", None])
def test_sizes(size):
    with pytest.raises(ValueError, match="n_actions must be an integer of at least 1"):
        nr.Problem(3, size, 2, 2, weight_bound=1.0, reward_bound=1.0)


def test_an_unavailable_pair_may_have_no_support():
    made = problem(support=mask(3, 2, 3, off=[(2, 0)]), available=mask(3, 2, off=[(2, 0)]))
    assert made.n_pairs == 5


BAD_CONTEXTS = [
    ([math.nan, 0.0], "context must be finite"),
    ([math.inf, 0.0], "context must be finite"),
    ([1e200, 0.0], r"context has norm 1e\+200, above context_bound = 1"),
    ([0.1, 0.2, 0.3], r"context must have shape \(2,\), got \(3,\)"),
    (0.5, r"context must have shape \(2,\), got \(\)"),
    (["a", "b"], "context must be 2 numbers"),
    ([0.9, 0.9], "context has norm 1.27279, above context_bound = 1"),
]


def snapshot(agent):
    return [a.copy() for _, a in contents.carried(agent)] + [agent.episode, agent._step, agent._asked, agent.is_open]


def unchanged(agent, before):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(snapshot(agent), before, strict=True))


@pytest.mark.parametrize(("x", "message"), BAD_CONTEXTS)
def test_contexts(x, message):
    agent = nr.GLMORL(problem())
    before = snapshot(agent)
    with pytest.raises(ValueError, match=message):
        agent.begin_episode(x)
    assert unchanged(agent, before)
    est = nr.estimators.OnlineNewton(nr.MultinomialLogit(), 3, 2, 1.0)
    with pytest.raises(ValueError, match=message.replace("context ", "x ")):
        est.update(x, 0)
    assert est.samples == 0
    world = nr.worlds.random_logit(3, 2, 2, 2)
    with pytest.raises(ValueError, match=message):
        world.transitions(x)


def test_long_contexts_can_be_rescaled():
    agent = nr.GLMORL(problem(long_contexts="rescale"))
    agent.begin_episode([3.0, 4.0])
    assert np.allclose(agent._x, [0.6, 0.8])


def test_linear_contexts_must_be_in_the_simplex():
    agent = nr.GLMORL(problem(link=nr.LinearCombination()))
    with pytest.raises(ValueError, match="nonnegative and sum to 1 under LinearCombination"):
        agent.begin_episode([0.5, 0.2])
    with pytest.raises(ValueError, match="nonnegative and sum to 1"):
        agent.begin_episode([-0.1, 0.9])
    agent.begin_episode([0.3, 0.7])


def test_verbs_out_of_order_change_nothing():
    agent = nr.GLMORL(problem())
    for call, message in (
        (lambda: agent.act(0), "act: no episode is open, call begin_episode first"),
        (lambda: agent.observe(1.0, 0), "observe: nothing was done yet, call act first"),
        (agent.end_episode, "end_episode: no episode is open"),
    ):
        before = snapshot(agent)
        with pytest.raises(RuntimeError, match=message):
            call()
        assert unchanged(agent, before)
    agent.begin_episode([0.5, 0.5])
    before = snapshot(agent)
    with pytest.raises(RuntimeError, match="the last episode is still open"):
        agent.begin_episode([0.1, 0.1])
    assert unchanged(agent, before)


@pytest.mark.parametrize(
    ("reward", "state", "message"),
    [
        (1.5, 0, "reward must be a number from 0 to 1, or nan"),
        (-0.1, 0, "reward must be"),
        ("good", 0, "reward must be"),
        (None, 0, "reward must be"),
        (1.0, 3, "next_state must be a state number from 0 to 2, got 3"),
        (1.0, -1, "next_state must be"),
        (1.0, 1.0, "next_state must be"),
    ],
)
def test_observations(reward, state, message):
    agent = nr.GLMORL(problem())
    agent.begin_episode([0.5, 0.5])
    agent.act(0)
    before = snapshot(agent)
    with pytest.raises(ValueError, match=message):
        agent.observe(reward, state)
    assert unchanged(agent, before)


def test_states():
    agent = nr.GLMORL(problem())
    agent.begin_episode([0.5, 0.5])
    with pytest.raises(ValueError, match="state must be a state number from 0 to 2, got 7"):
        agent.act(7)
    agent.act(0)
    agent.observe(1.0, 2)
    with pytest.raises(ValueError, match="state must be the next_state observed last, 2, got 1"):
        agent.act(1)
    agent.act(2)
    agent.observe(1.0, 2)
    with pytest.raises(RuntimeError, match="all 2 steps of the episode are taken"):
        agent.act(2)


def test_an_episode_begins_in_an_initial_state():
    names = ("well", "mild", "severe")
    made = problem(initial_states=("severe", 0, "severe"), state_names=names)
    assert made.initial_states == (0, 2)
    agent = nr.GLMORL(made)
    agent.begin_episode([0.5, 0.5])
    before = snapshot(agent)
    for state in (1, "mild"):
        with pytest.raises(ValueError, match=r"states \('well' \(0\), 'severe' \(2\)\) at step 0, got 'mild' \(1\)"):
            agent.act(state)
        assert unchanged(agent, before)
    agent.act("severe")
    agent.observe(1.0, 1)  # later steps may be anywhere
    agent.act(1)
    agent.observe(1.0, 1)
    agent.end_episode()
    assert agent.episode == 1


def linear_weights(**change):
    W = np.full((3, 2, 3, 2), 1 / 3)
    for index, value in change.get("put", ()):
        W[index] = value
    return W


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (linear_weights(put=[((0, 1, 0, 0), 0.5)]), r"weights\[0, 1, :, j\] must be a distribution"),
        (linear_weights(put=[((1, 0, 0, 0), -0.2), ((1, 0, 1, 0), 0.2 + 2 / 3)]), r"weights\[1, 0, :, j\] must be"),
        (np.ones((3, 2, 3)), r"weights must have shape \(3, 2, 3, 2\), got \(3, 2, 3\)"),
        (linear_weights(put=[((2, 1, 0, 1), np.nan)]), r"weights must be finite, got nan at index \(2, 1, 0, 1\)"),
    ],
)
def test_linear_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        nr.World(problem(link=nr.LinearCombination()), weights, np.full((3, 2, 2), 0.5))


def test_logit_weights_and_rewards():
    W, theta = np.zeros((3, 2, 3, 2)), np.full((3, 2, 2), 0.3)
    W[1, 0, 0] = [0.9, 0.9]
    with pytest.raises(ValueError, match=r"weights\[1, 0, 0\] has norm 1.27279, above weight_bound = 1"):
        nr.World(problem(), W, theta)
    W[:] = 0
    with pytest.raises(ValueError, match=r"reward_weights\[.*\] has norm 2.82843, above reward_bound = 1"):
        nr.World(problem(), W, np.full((3, 2, 2), 2.0))
    with pytest.raises(ValueError, match=r"mean reward -.* at context .*, outside"):
        nr.World(problem(), W, theta)  # the sphere has negative coordinates, rewards would be negative
    late = nr.World(problem(), W, theta, lambda seed, k, agent: [0.5, 0.5] if k < 3 else [-0.5, 0.0])
    with pytest.raises(ValueError, match="mean reward outside"):
        nr.simulate(nr.UniformRandom(problem()), late, 100)
    with pytest.raises(ValueError, match=r"mean reward -0.3 at context, outside \[0, 1\]"):
        late.rewards([-1.0, 0.0])
    with pytest.raises(ValueError, match=r"mean reward -0.3 at contexts\[1\], outside"):
        nr.World(problem(), W, theta, nr.contexts.Table([[1.0, 0.0], [0.0, -1.0]]))
    with pytest.raises(ValueError, match="contexts must have dimension context_dim = 2, got 3"):
        nr.World(problem(), W, theta, nr.contexts.Sphere(3))
    with pytest.raises(ValueError, match="initial_state must be a state number from 0 to 2, got 3"):
        nr.World(problem(), W, theta, nr.contexts.Table([[1.0, 0.0]]), initial_state=3)
    with pytest.raises(ValueError, match="initial_state must be a state, a distribution"):
        nr.World(problem(), W, theta, nr.contexts.Table([[1.0, 0.0]]), initial_state=[0.5, 0.2, 0.2])


def test_every_context_of_a_source_is_checked():
    class Growing(nr.contexts.Table):
        def fill(self, seed, first, X):
            super().fill(seed, first, X)
            X *= 1.0 + 0.01 * first

    base = nr.worlds.random_logit(3, 2, 2, 2)
    world = nr.World(base.problem, base.weights, base.reward_weights, Growing([[0.7, 0.1]]))
    with pytest.raises(ValueError, match=r"has norm .* above context_bound = 1"):
        nr.simulate(nr.UniformRandom(base.problem), world, 5000)


def test_an_adversary_returns_whole_contexts():
    base = nr.worlds.random_logit(3, 2, 2, 2)
    for value, message in ((0.5, r"must return shape \(2,\), got \(\)"), ("x", "the function failed for episode 0")):
        world = nr.World(base.problem, base.weights, base.reward_weights, lambda seed, k, agent, value=value: value)
        with pytest.raises(ValueError, match=message):
            nr.simulate(nr.UniformRandom(base.problem), world, 5)


def test_linear_contexts_can_be_rescaled_onto_the_simplex():
    agent = nr.GLMORL(problem(link=nr.LinearCombination(), long_contexts="rescale"))
    agent.begin_episode([1.0, 3.0])
    assert np.allclose(agent._x, [0.25, 0.75])


def test_an_adversary_is_checked_too():
    base = nr.worlds.random_logit(3, 2, 2, 2)
    world = nr.World(base.problem, base.weights, base.reward_weights, lambda seed, k, agent: [math.nan, 1.0])
    with pytest.raises(ValueError, match="must be finite"):
        nr.simulate(nr.UniformRandom(base.problem), world, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "delta must be a number between 0 and 1, got 0.0"),
        ({"delta": 1.0}, "delta must be"),
        ({"constants": "printed"}, "constants must be one of 'corrected', 'paper', got 'printed'"),
        ({"bonus_scale": -1}, "bonus_scale must be a number of at least 0, got -1"),
        ({"regularization": 0.0}, "regularization must be a positive number, got 0.0"),
        ({"regularization": 1e-15}, "regularization must be at least .* for stable arithmetic, got 1e-15"),
        ({"reward_regularization": 1e-14}, "reward_regularization must be at least 0.001 for stable arithmetic"),
        ({"seed": 2**63}, "seed must be below 2"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"colour": "red"}, "agent glm-orl: got an unexpected keyword argument 'colour'"),
    ],
)
def test_agent_options(options, message):
    with pytest.raises(ValueError, match=message):
        nr.make_agent("glm-orl", problem(), **options)


def test_names():
    with pytest.raises(ValueError, match=r"unknown agent 'glm_orl'; did you mean glm-orl"):
        nr.make_agent("glm_orl", problem())
    with pytest.raises(ValueError, match=r"unknown world 'klinik'; did you mean clinic\?"):
        nr.worlds.make_world("klinik")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes must be an integer of at least 1"),
        ({"episodes": 5, "every": 6}, "every must be at most episodes = 5, got 6"),
        ({"episodes": 5, "seeds": 0}, "seeds must be an integer of at least 1"),
        ({"episodes": 5, "seeds": []}, "seeds must name at least one seed"),
        ({"episodes": 5, "workers": 0}, "workers must be an integer of at least 1"),
    ],
)
def test_simulate(options, message):
    world = nr.worlds.random_logit(3, 2, 2, 2)
    with pytest.raises(ValueError, match=message):
        nr.simulate(nr.UniformRandom(world.problem), world, **options)


def test_agent_and_world_must_fit():
    world = nr.worlds.random_logit(3, 2, 2, 2)
    with pytest.raises(ValueError, match="agent was made for a problem of another shape"):
        nr.simulate(nr.UniformRandom(nr.Problem(3, 2, 3, 2, weight_bound=1.0, reward_bound=1.0)), world, 5)
    with pytest.raises(ValueError, match=r"world must be a noregret\.World, got int"):
        nr.simulate(nr.UniformRandom(problem()), 3, 5)


def test_policies_and_individuals():
    world = nr.worlds.clinic()
    x = world.context(0, 0)
    with pytest.raises(ValueError, match=r"policy must be actions 0 to 2 of shape \(6, 4\)"):
        world.value(np.zeros((2, 4), int), x)
    with pytest.raises(ValueError, match="policy takes an action that is not available"):
        world.value(np.zeros((6, 4), int), x)
    with pytest.raises(ValueError, match=r"not available: 'drug A' \(1\) in state 'remission' \(0\) at step 2"):
        world.value([["wait", "wait", "wait", "drug A"]] * 2 + [["drug A"] * 4] * 4, x)
    for wrong, message in (("drug C", "got 'drug C'"), (1.0, r"got 1\.0"), (True, "got True"), (3, "got 3")):
        with pytest.raises(
            ValueError, match=rf"policy\[0, 2\] must be an action number from 0 to 2 or one of.*{message}"
        ):
            world.value([["wait", "wait", wrong, "drug A"]] * 6, x)
    someone = world.individual(0)
    with pytest.raises(ValueError, match="action 3 is not available in state 2"):
        someone.step(3)


# Bounds are assumptions: nobody gets one by saying nothing --------------------------------------------------------
@pytest.mark.parametrize("name", ["weight_bound", "reward_bound"])
def test_the_two_bounds_must_be_given(name):
    given = {"weight_bound": 1.0, "reward_bound": 1.0}
    del given[name]
    with pytest.raises(ValueError, match=f"^{name} must be given: it bounds the 2-norm of every .*suggest_bounds"):
        nr.Problem(3, 2, 2, 2, **given)


def test_bounds_that_are_implied_need_not_be_given():
    """Rows of probabilities are at most sqrt(d) long; known rewards have the norms they have."""
    theta, available = np.full((3, 2, 2), 0.3), np.array([[1, 1], [1, 1], [1, 0]], bool)
    theta[2, 1] = 9.0  # of a pair that is not available
    made = nr.Problem(3, 2, 2, 2, nr.LinearCombination(), known_rewards=theta, available=available)
    assert made.weight_bound == np.sqrt(2)
    assert made.reward_bound == pytest.approx(0.3 * np.sqrt(2), rel=1e-12)
    assert nr.Problem(3, 2, 2, 2, weight_bound=1.0, known_rewards=0.0 * theta).reward_bound > 0.0
    with pytest.raises(ValueError, match="known_rewards must have shape"):
        nr.Problem(3, 2, 2, 2, weight_bound=1.0, known_rewards=theta[0])
