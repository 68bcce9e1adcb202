"""Gymnasium, both ways: worlds as environments, environments as worlds, agents in an environment's own `step`."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import noregret as nr

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'noregret[gym]'")

from gymnasium.utils.env_checker import check_env  # noqa: E402

pytestmark = pytest.mark.deep

ONE = [1.0]


# Worlds as environments -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(nr.gym.IDS))
def test_registered_environments_pass_the_checker_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name)
        check_env(env.unwrapped)
        env.close()
    assert env.unwrapped.world.name == nr.gym.IDS[name]


def test_options_of_a_world_go_through_make():
    env = gymnasium.make("noregret.gym:noregret/RandomLogit-v0", n_states=3, horizon=2, show_step=True)
    assert env.observation_space["obs"].n == 3
    assert env.observation_space["step"].n == 3
    with pytest.raises(ValueError, match=r"world random-logit: .*n_state"):
        gymnasium.make("noregret/RandomLogit-v0", n_state=3)


@pytest.mark.parametrize("world", [nr.worlds.clinic(), nr.worlds.hard_linear(n_states=4)], ids=["clinic", "hard"])
def test_an_environment_meets_the_individuals_of_the_simulator(world):
    env, H = nr.gym.Env(world, show_step=True), world.problem.horizon
    g = np.random.default_rng(0)
    for k in range(20):
        seen, info = env.reset(seed=7) if k == 0 else env.reset()
        person = world.individual(k, seed=7)
        best = world.optimal(person.context).values
        assert info["episode_index"] == k
        for h in range(H):
            assert np.array_equal(seen["context"], person.context)
            assert (seen["obs"], seen["step"]) == (person.state, h)
            assert info["optimal_value"] == pytest.approx(best[h, person.state], abs=1e-12)
            assert np.array_equal(info["action_mask"], world.problem.layout.available[person.state])
            a, s = int(env.action_space.sample(info["action_mask"])), person.state
            a = a if g.random() < 0.5 else int(np.flatnonzero(info["action_mask"])[0])
            expected = person.step(a)
            seen, reward, terminated, truncated, info = env.step(a)
            assert (reward, seen["obs"]) == expected
            assert (terminated, truncated) == (h + 1 == H, False)
            means = world.rewards(person.context)[s, a] + world.transitions(person.context)[s, a] @ best[h + 1]
            assert info["regret"] == pytest.approx(best[h, s] - means, abs=1e-12)
        with pytest.raises(RuntimeError, match="over after"):
            env.step(a)


def test_resetting_to_a_context_or_an_episode():
    env = nr.gym.Env(nr.worlds.clinic())
    first = [env.reset(seed=3), env.reset(), env.reset()]
    again, info = env.reset(options={"episode": 1})
    assert np.array_equal(again["context"], first[1][0]["context"])
    assert info["episode_index"] == 1
    assert env.reset()[1]["episode_index"] == 2
    x = np.array([0.5, -0.5, 0.1])
    assert np.array_equal(env.reset(options={"context": x})[0]["context"], x)
    with pytest.raises(ValueError, match=r'options\["context"\] must have shape \(3,\)'):
        env.reset(options={"context": [1.0]})
    with pytest.raises(ValueError, match=r'options\["context"\] has norm'):
        env.reset(options={"context": [1.0, 1.0, 1.0]})
    with pytest.raises(ValueError, match="options must be one of 'context', 'episode', got 'contexts'"):
        env.reset(options={"contexts": x})
    assert env.reset()[1]["episode_index"] == 4  # what was refused changed nothing


def test_without_a_seed_environments_differ_and_a_given_generator_is_used():
    def contexts(env):
        return [env.reset()[0]["context"] for _ in range(4)]

    world = nr.worlds.random_logit(context_dim=3)
    assert not np.array_equal(contexts(nr.gym.Env(world)), contexts(nr.gym.Env(world)))
    made = []
    for _ in range(2):
        env = nr.gym.Env(world)
        env.np_random = np.random.default_rng(5)
        made.append(contexts(env))
    assert np.array_equal(*made)


def test_unavailable_actions_are_replaced_or_refused():
    world = nr.worlds.clinic()
    env, strict = nr.gym.Env(world), nr.gym.Env(world, unavailable="raise")
    env.reset(seed=0)
    for k in range(100):  # until somebody is in remission, where waiting is all one can do, after two steps
        env.reset(options={"episode": k})
        if [env.step(2)[0]["obs"] for _ in range(2)] == [1, 0]:
            break
    seen, _, _, _, info = env.step(1)
    assert info["action"] == 0
    strict.reset(seed=0, options={"episode": k})
    for _ in range(2):
        strict.step(2)
    with pytest.raises(ValueError, match="action 1 is not available in state 0"):
        strict.step(1)
    assert strict.step(0)[0]["obs"] == seen["obs"]  # the refused action cost nothing
    with pytest.raises(ValueError, match="action must be from 0 to 2, got 3"):
        strict.step(3)
    with pytest.raises(RuntimeError, match="call reset first"):
        nr.gym.Env(world).step(0)
    with pytest.raises(ValueError, match=r"world must be a noregret\.World, got str"):
        nr.gym.Env("clinic")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vectors_of_environments(mode):
    vector = gymnasium.make_vec("noregret/Clinic-v0", num_envs=2, vectorization_mode=mode)
    single = [nr.gym.Env(nr.worlds.clinic()) for _ in range(2)]
    seen, info = vector.reset(seed=11)
    alone = [env.reset(seed=11 + i) for i, env in enumerate(single)]
    for _ in range(6):
        assert np.array_equal(seen["context"], [s["context"] for s, _ in alone])
        assert np.array_equal(seen["obs"], [s["obs"] for s, _ in alone])
        assert np.array_equal(info["action_mask"], [i["action_mask"] for _, i in alone])
        seen, reward, terminated, _, info = vector.step(np.array([1, 2]))
        steps = [env.step(a) for env, a in zip(single, (1, 2), strict=True)]
        alone = [(s[0], s[4]) for s in steps]
        assert np.array_equal(reward, [s[1] for s in steps])
    assert terminated.all()
    vector.close()


def test_a_line_of_text_says_what_happened():
    env = gymnasium.make("noregret/Clinic-v0", render_mode="ansi")
    env.reset(seed=5)
    assert env.render() == "[0/6] moderate   (intercept 0.577, age 0.577, marker -0.577)"
    env.step(1)
    assert env.render().startswith("[1/6] moderate, drug A -> reward 0, severe   (")


# Environments as worlds -----------------------------------------------------------------------------------------------
def value_iteration(env, horizon):
    """Optimal returns [n] of `horizon` steps, from the environment's own table."""
    table, n, A = env.unwrapped.P, env.observation_space.n, env.action_space.n
    V = np.zeros(n)
    for _ in range(horizon):
        backed = [
            [sum(p * (r + (0.0 if over else V[t])) for p, t, r, over in table[s][a]) for a in range(A)]
            for s in range(n)
        ]  # fmt: skip
        V = np.max(backed, axis=1)
    return V


def uniform_play(world, x=ONE):
    """The return of uniformly random actions from the start."""
    P, r, V = world.transitions(x), world.rewards(x), np.zeros(world.problem.n_states)
    for _ in range(world.problem.horizon):
        V = (r + P @ V).mean(1)
    return world.returns(V[world.start(0, 0)])


@pytest.mark.parametrize(
    ("name", "options", "horizon"),
    [
        ("FrozenLake-v1", {"is_slippery": True}, 30),
        ("FrozenLake-v1", {"is_slippery": False}, 12),
        ("FrozenLake-v1", {"reward_schedule": (10, -5, -1)}, 20),
        ("CliffWalking-v1", {}, 20),
        ("CliffWalking-v1", {"is_slippery": True}, 40),
        ("Taxi-v4", {}, 25),
        ("Taxi-v4", {"is_rainy": True}, 15),
    ],
)
@pytest.mark.parametrize("link", ["logit", "linear"])
def test_optimal_values_are_those_of_the_environments_own_table(name, options, horizon, link):
    env = gymnasium.make(name, **options)
    world = nr.gym.world_from(env, horizon, link)
    values = world.returns(world.optimal(ONE).values)
    expected = value_iteration(env, horizon)
    assert np.abs(values[0, :-1] - expected).max() < 1e-9
    assert np.abs(values[:, world.sink]).max() < 1e-9  # being over is worth nothing, at every step
    start = env.unwrapped.initial_state_distrib @ expected
    assert world.returns(world.value(world.optimal(ONE).policy, ONE)) == pytest.approx(start)


@pytest.mark.long
def test_every_policy_has_its_value_of_the_environment():
    """The exact value of a fixed random policy against 1,000 episodes of the environment itself: 4.5 standard errors,
    an error probability of 7e-6."""
    env = gymnasium.make("CliffWalking-v1", is_slippery=True)
    world = nr.gym.world_from(env, 25)
    policy = np.random.default_rng(1).integers(0, 4, (25, 49))
    agent = nr.agents.FixedPolicy(world.problem, policy)
    played = nr.gym.play(agent, env, 1_000, reward_range=world.reward_map, seed=0)
    error = played.returns.std() / np.sqrt(1_000)
    assert abs(played.returns.mean() - world.returns(world.value(policy, ONE))) < 4.5 * error


def test_mixtures_of_lakes_are_lakes_in_between():
    lakes = [gymnasium.make("FrozenLake-v1", success_rate=q) for q in (1.0, 0.0)]
    world = nr.gym.mixture_world(lakes, 20, contexts=[[0.8, 0.2], [0.4, 0.6]])
    assert world.problem.context_dim == 2
    for q in (0.8, 0.4):
        own = nr.gym.world_from(gymnasium.make("FrozenLake-v1", success_rate=q), 20)
        assert np.allclose(world.transitions([q, 1 - q]), own.transitions(ONE), atol=1e-12)
        assert np.allclose(world.rewards([q, 1 - q]), own.rewards(ONE), atol=1e-12)


def test_contexts_of_the_logit_name_environments():
    rates = (0.4, 0.6, 0.8)
    lakes = [gymnasium.make("FrozenLake-v1", success_rate=q) for q in rates]
    g = np.random.default_rng(0)
    for X in (None, g.standard_normal((3, 3)), g.standard_normal((3, 5))):
        world = nr.gym.contextual_world(lakes, 20, X)
        for x, lake in zip(np.eye(3) if X is None else X, lakes, strict=True):
            own = nr.gym.world_from(lake, 20)
            assert np.allclose(world.transitions(x), own.transitions(ONE), atol=1e-9)
            assert np.allclose(world.rewards(x), own.rewards(ONE), atol=1e-9)
    alike = nr.gym.contextual_world([lakes[0], lakes[0]], 20, [[1.0], [1.0]])  # dependent, and still exact
    assert np.allclose(alike.transitions(ONE), nr.gym.world_from(lakes[0], 20).transitions(ONE))
    with pytest.raises(ValueError, match="contexts must determine the environments"):
        nr.gym.contextual_world(lakes[:2], 20, [[1.0], [1.0]])


def test_the_horizon_is_the_time_limit_unless_told():
    assert nr.gym.world_from(gymnasium.make("FrozenLake-v1")).problem.horizon == 100
    with pytest.raises(ValueError, match="horizon must be given: the environment has no time limit"):
        nr.gym.world_from(gymnasium.make("CliffWalking-v1"))


class Broken:
    """A table that is none."""

    observation_space = action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, P=3.0):
        self.P = P


def test_what_cannot_be_a_world_says_why():
    lake, dry = gymnasium.make("FrozenLake-v1"), gymnasium.make("FrozenLake-v1", is_slippery=False)
    with pytest.raises(ValueError, match=r"env must have a table P of transitions.* CartPole-v1 has none"):
        nr.gym.world_from(gymnasium.make("CartPole-v1"), 5)
    with pytest.raises(ValueError, match=r"env\.P\[0\]\[0\] must be a list of \(probability, .*got None"):
        nr.gym.world_from(Broken(), 5)
    with pytest.raises(ValueError, match=r"env\.P\[0\]\[0\] must have probabilities that sum to 1, they sum to 0\.5"):
        nr.gym.world_from(Broken({0: {0: [(0.5, 0, 1.0, True)]}}), 5)
    with pytest.raises(ValueError, match="env must have a Discrete action_space that starts at 0"):
        nr.gym.play(nr.agents.UniformRandom(CORRIDOR), gymnasium.make("Pendulum-v1"), 1)
    with pytest.raises(ValueError, match="envs must have the same supports for the logit: environments 0 and 1"):
        nr.gym.contextual_world([lake, dry], 5)
    with pytest.raises(ValueError, match="envs must have the same states and actions, environments 0 and 1"):
        nr.gym.mixture_world([lake, gymnasium.make("CliffWalking-v1")], 5)
    with pytest.raises(ValueError, match="envs must be a list of environments"):
        nr.gym.mixture_world(lake, 5)
    with pytest.raises(ValueError, match='known_support=False needs link="linear"'):
        nr.gym.world_from(lake, 5, known_support=False)
    with pytest.raises(ValueError, match=r"reward_range must contain every reward and 0.*\[-100, 0\]"):
        nr.gym.world_from(gymnasium.make("CliffWalking-v1"), 5, reward_range=(-1, 0))
    with pytest.raises(ValueError, match="fickle passenger"):
        nr.gym.world_from(gymnasium.make("Taxi-v4", fickle_passenger=True), 5)
    with pytest.raises(ValueError, match="initial_state must be a state from 0 to 15, got 16"):
        nr.gym.world_from(lake, 5, initial_state=16)


class Corridor(gymnasium.Env):
    """Observations as CARL gives them: {"obs": a position, "context": {"length": L}}; the end is reached by walking."""

    observation_space = gymnasium.spaces.Dict(
        obs=gymnasium.spaces.Box(0.0, 9.0, (1,)),
        context=gymnasium.spaces.Dict(length=gymnasium.spaces.Box(0.0, 9.0)),
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, reward=1.0, limit=99):
        self.reward, self.limit = reward, limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps, self.length = 0.25, 0, int(self.np_random.integers(1, 4))
        return self._seen(), {}

    def step(self, action):
        self.at, self.steps = self.at + (1.0 if action else -1.0 if self.at >= 1.0 else 0.0), self.steps + 1
        over = self.at >= self.length
        return self._seen(), self.reward if over else 0.0, over, self.steps == self.limit, {}

    def _seen(self):
        return {"obs": np.array([self.at]), "context": {"length": np.array([self.length])}}


CORRIDOR = nr.Problem(4, 2, 5, 3, nr.LinearCombination(), reward_bound=2.0, initial_states=(0,))
HOW = {
    "context": lambda seen: np.eye(3)[int(seen["context"]["length"][0]) - 1],
    "discretise": lambda seen: int(seen["obs"][0]),
    "sink": 3,
}


def test_agents_play_environments_with_contexts_of_their_own():
    agent = nr.PSRLGLM(CORRIDOR, seed=1)
    played = nr.gym.play(agent, Corridor(), 300, **HOW, seed=2)
    assert agent.episode == 300
    assert played.returns[-100:].mean() == 1.0
    assert (played.steps > played.contexts.argmax(1)).all()  # a corridor of length L takes L steps
    assert repr(played).startswith("<Played 300 episodes: mean return ")
    again = nr.gym.play(nr.PSRLGLM(CORRIDOR, seed=1), Corridor(), 300, **HOW, seed=2)
    assert np.array_equal(again.steps, played.steps)


def test_truncated_episodes_end_early_and_say_so():
    seen = []

    class Watched(nr.agents.UniformRandom):
        def end_episode(self):
            seen.append(self._step)
            super().end_episode()

    played = nr.gym.play(Watched(CORRIDOR, seed=1), Corridor(limit=2), 200, **HOW, seed=2)
    assert played.truncated.any()
    assert played.terminated.any()
    assert not (played.truncated & played.terminated).any()
    assert np.array_equal(seen, np.where(played.truncated, 2, 5))  # what is over stays so up to step H


def test_playing_says_what_is_missing_and_loses_nothing():
    agent = nr.agents.UniformRandom(CORRIDOR)
    with pytest.raises(ValueError, match=r"context must be a function of the observation, whose own is \{'length'"):
        nr.gym.play(agent, Corridor(), 1, discretise=HOW["discretise"])
    with pytest.raises(ValueError, match="discretise must be given: an observation is not a state number"):
        nr.gym.play(agent, Corridor(), 1, context=HOW["context"])
    with pytest.raises(ValueError, match=r"discretise\(observation\) must be a state number from 0 to 3, got 9"):
        nr.gym.play(agent, Corridor(), 1, context=HOW["context"], discretise=lambda seen: 9)
    with pytest.raises(ValueError, match="env must have the problem's 2 actions, got Discrete"):
        nr.gym.play(agent, gymnasium.make("FrozenLake-v1"), 1)
    assert agent.episode == 0
    with pytest.raises(ValueError, match="reward_range must contain 0"):
        nr.gym.play(agent, Corridor(), 1, **HOW, reward_range=(0.5, 2.0))
    with pytest.raises(ValueError, match=r"reward_range must contain every reward: it is \[0, 1\].* paid 7"):
        nr.gym.play(agent, Corridor(reward=7.0), 50, **HOW)
    with pytest.raises(ValueError, match=r"sink must be given.*: the environment terminated after"):
        nr.gym.play(agent, Corridor(), 50, **(HOW | {"sink": None}))
    before = agent.episode
    nr.gym.play(agent, Corridor(reward=7.0), 5, **HOW, reward_range=(0.0, 7.0))  # no episode was left open
    assert agent.episode == before + 5


def test_playing_a_worlds_environment_is_meeting_its_individuals():
    world = nr.worlds.clinic()
    live, other = nr.GLMORL(world.problem), nr.GLMORL(world.problem)
    nr.gym.play(live, nr.gym.Env(world), 60, seed=4)
    for k in range(60):
        person = world.individual(k, seed=4)
        other.begin_episode(person.context)
        while person.steps < 6:
            other.observe(*person.step(other.act(person.state)))
        other.end_episode()
    x = world.context(4, 60)
    plans = live.begin_episode(x), other.begin_episode(x)
    assert np.array_equal(plans[0].policy, plans[1].policy)
    assert np.array_equal(plans[0].values, plans[1].values)


# Learned --------------------------------------------------------------------------------------------------------------
def worth(world, agent, x=ONE, plans=20):
    """Mean return of the next plans, exactly: nothing is learned between them, agents that draw models draw anew."""
    values = []
    for _ in range(plans):
        values.append(world.value(agent.begin_episode(x).policy, x))
        agent.end_episode()
    return world.returns(np.mean(values))


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "known_rewards", "episodes"),
    [(nr.PSRLGLM, True, 1_500), pytest.param(nr.agents.PSRL, False, 4_000, marks=pytest.mark.slow)],
)
def test_frozen_lake_is_learned(make, known_rewards, episodes):
    """Slippery, 30 steps: within 5% of the optimal probability of reaching the goal."""
    env = gymnasium.make("FrozenLake-v1")
    world = nr.gym.world_from(env, 30, known_rewards=known_rewards)
    agent = make(world.problem, seed=1)
    nr.gym.play(agent, env, episodes, seed=1)
    best = world.returns(world.value(world.optimal(ONE).policy, ONE))
    assert best == pytest.approx(0.34787, abs=1e-5)
    assert uniform_play(world) < 0.02
    assert worth(world, agent) > 0.95 * best


@pytest.mark.long
@pytest.mark.parametrize("make", [nr.PSRLGLM, nr.CertaintyEquivalence])
def test_cliff_walking_is_learned(make):
    """The rules are known (a step costs 1, the cliff 100, the end nothing), where actions lead is not: no support is
    told. Within 5% of the optimal return, and so within 5% of the way from uniform play to optimal play."""
    env = gymnasium.make("CliffWalking-v1")
    world = nr.gym.world_from(env, 20, "linear", known_support=False, known_rewards=True)
    agent = make(world.problem, seed=1)
    nr.gym.play(agent, env, 500, reward_range=world.reward_map, seed=1)
    best, lost = world.returns(world.value(world.optimal(ONE).policy, ONE)), uniform_play(world)
    assert best == pytest.approx(-13.0)
    assert lost == pytest.approx(-273.6, abs=0.1)
    mean = worth(world, agent)
    assert mean > 1.05 * best
    assert best - mean < 0.05 * (best - lost)


def test_slippery_cliff_walking_is_learned_in_the_simulator():
    """60 steps, supports and rules known: 5% of the optimal return."""
    world = nr.gym.world_from(gymnasium.make("CliffWalking-v1", is_slippery=True), 60, known_rewards=True)
    run = nr.simulate(nr.PSRLGLM(world.problem), world, episodes=600, seeds=2, every=100)
    regret = np.diff(run.regret, axis=1)[:, -1] / 100  # of an episode, on the scale from 0 to 1
    best = world.returns(world.value(world.optimal(ONE).policy, ONE))
    assert best == pytest.approx(-53.07, abs=0.01)
    assert (regret * 100 < 0.05 * -best).all()


# Without Gymnasium ----------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_without_gymnasium_one_sentence_says_what_is_missing():
    code = """
import sys
sys.modules["gymnasium"] = None
import noregret as nr
class Lake:
    class observation_space: n = 1
    class action_space: n = 1
    P = {0: {0: [(1.0, 0, 1.0, True)]}}
print(nr.gym.world_from(Lake, 3, initial_state=0).optimal([1.0]).values[0, 0])
try:
    nr.gym.Env
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1.0\nnoregret.gym.Env needs the extra: pip install 'noregret[gym]'\n"


@pytest.mark.long
def test_importing_noregret_does_not_import_gymnasium():
    code = "import sys, noregret; print('gymnasium' in sys.modules, hasattr(noregret, 'gymnastics'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
