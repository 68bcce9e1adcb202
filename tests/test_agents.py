"""One conformance test walks over every agent; then what is particular to some."""

import math

import numpy as np
import pytest

import noregret as nr
from noregret.agents import files

WORLDS = {
    "logit": lambda: nr.worlds.random_logit(4, 3, 4, 3, seed=1),
    "linear": lambda: nr.worlds.random_linear(3, 2, 4, 3, seed=1),
    "clinic": nr.worlds.clinic,
}
OPTIONS = [
    ("glm-orl", {}),
    ("glm-orl", {"constants": "paper", "bonus_scale": 0.01}),
    ("glm-orl", {"bonus_scale": 0.05}),
    ("glm-rlsvi", {}),
    ("glm-rlsvi", {"constants": "paper"}),
    ("epsilon-greedy", {}),
    ("certainty-equivalence", {}),
    ("uniform-random", {}),
    ("oracle", {}),
]
IDS = [f"{n}{'-' if o else ''}{'-'.join(map(str, o.values()))}" for n, o in OPTIONS]


def make(name, options, world, **more):
    told = {"weights": world.weights, "reward_weights": world.reward_weights} if name == "oracle" else {}
    return nr.make_agent(name, world.problem, **options, **told, **more)


def play(agent, world, episodes, seed=0):
    """The live agent against the world's individuals; decisions and regret."""
    decisions, regret = [], []
    for k in episodes:
        someone = world.individual(k, seed)
        start = someone.state
        plan = agent.begin_episode(someone.context)
        for _ in range(world.problem.horizon):
            action = agent.act(someone.state)
            decisions.append(action)
            agent.observe(*someone.step(action))
        agent.end_episode()
        best = world.optimal(someone.context).values[0, start]
        regret.append(best - world.value(plan.policy, someone.context, start))
    return decisions, np.cumsum(regret)


def test_every_agent_is_walked_over():
    assert set(nr.agents.names()) == {name for name, _ in OPTIONS}


@pytest.mark.parametrize("where", WORLDS)
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=IDS)
def test_conformance(name, options, where, tmp_path):
    world = WORLDS[where]()
    agent = make(name, options, world)
    a = nr.simulate(agent, world, 120, seeds=[3, 4])
    # Same seed, same run: again, on other numbers of workers, at another resolution, alone, and through the live verbs.
    assert np.array_equal(a.regret, nr.simulate(agent, world, 120, seeds=[3, 4]).regret)
    assert np.array_equal(a.regret[:, 4::5], nr.simulate(agent, world, 120, [3, 4], every=5, workers=1).regret)
    assert np.array_equal(a.regret[1:], nr.simulate(agent, world, 120, seeds=[4]).regret)
    live = nr.simulate(agent, world, 120, seeds=[3, 4], compiled=False)
    assert np.array_equal(a.regret, live.regret)
    other = nr.simulate(agent, world, 120, seeds=[5])
    if name != "oracle":
        assert not np.array_equal(a.regret[0], other.regret[0])
    # Regret is a sum of shortfalls; nothing is taken that is not available; values are finite.
    assert (np.diff(a.regret) >= -1e-8).all()
    assert np.isfinite(a.regret).all()
    one = make(name, options, world, seed=3)
    decisions, regret = play(one, world, range(60), seed=3)
    assert np.allclose(regret, a.regret[0, :60], atol=1e-8)
    plan = one.begin_episode(world.context(3, 60))
    assert world.problem.layout.available[np.arange(world.problem.n_states)[None], plan.policy].all()
    assert np.isfinite(plan.values).all()
    if plan.upper is not None and plan.lower is not None:
        assert (plan.upper >= plan.lower - 1e-12).all()
    # Saved in the middle of an episode, loaded, continued: as if it had not stopped. The state does not grow.
    size = sum(v.nbytes for _, v in files._leaves("", one.state))
    one.save(tmp_path / "agent.npz")
    two = nr.load(tmp_path / "agent.npz")
    for agent in (one, two):
        agent.act(world.start(3, 60))
        agent.end_episode()
        more, _ = play(agent, world, range(61, 90), seed=3)
        decisions.append(tuple(more))
    assert decisions[-1] == decisions[-2]
    for (_, u), (_, v) in zip(files._leaves("", one.state), files._leaves("", two.state), strict=True):
        assert np.array_equal(u, v)
    assert sum(v.nbytes for _, v in files._leaves("", one.state)) == size


def test_oracle_has_no_regret_and_uniform_has_a_lot():
    world = WORLDS["logit"]()
    oracle = nr.simulate(make("oracle", {}, world), world, 500, seeds=2)
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 500, seeds=2)
    assert np.abs(oracle.regret).max() < 1e-6
    assert uniform.final.min() > 100


def test_labels_say_what_differs_and_where_no_guarantee_is_left():
    problem = WORLDS["logit"]().problem
    assert nr.GLMORL(problem).label == "glm-orl"
    scaled = nr.GLMORL(problem, bonus_scale=0.1)
    assert scaled.label == "glm-orl (bonus_scale=0.1, no guarantee)"
    assert scaled.guarantee is None
    assert "probability 0.95" in nr.GLMORL(problem).guarantee
    assert nr.GLMORL(problem, constants="paper").guarantee is None
    assert nr.GLMRLSVI(problem, bonus_scale=2.0).guarantee is None
    world = WORLDS["logit"]()
    run = nr.simulate(nr.GLMORL(world.problem, bonus_scale=0.1), world, 10)
    assert "no guarantee" in run.label
    assert run.guarantee is None
    assert run.table()["agent"][0] == run.label


def test_upper_values_are_claimed_only_where_they_are_proved():
    world = WORLDS["logit"]()
    x = world.context(0, 0)
    assert nr.GLMORL(world.problem).begin_episode(x).upper is not None
    assert nr.GLMORL(world.problem, bonus_scale=0.5).begin_episode(x).upper is None
    assert nr.GLMORL(world.problem, constants="paper").begin_episode(x).upper is None
    assert nr.GLMRLSVI(world.problem).begin_episode(x).upper is None


def test_missing_rewards_and_short_episodes():
    """The transition is learned without its reward; an episode may end early, or before it began."""
    world = WORLDS["logit"]()
    agent = nr.GLMORL(world.problem)
    agent.begin_episode(world.context(0, 0))
    a = agent.act(0)
    agent.observe(math.nan, 1)
    agent.end_episode()
    assert agent.state.newton.samples[0, a] == 1
    assert agent.state.ridge.samples.sum() == 0
    agent.begin_episode(world.context(0, 1))
    agent.end_episode()
    assert agent.state.newton.samples.sum() == 1
    assert agent.episode == 2


def test_learning_is_shared_across_individuals_but_personal():
    """After enough patients GLM-ORL starts marker 1 on drug A and marker -1 on drug B, whatever the age."""
    world = nr.worlds.clinic()
    agent = nr.GLMORL(world.problem, bonus_scale=0.2)
    play(agent, world, range(4000))
    for x in world.contexts.support:
        drug = 1 if x[2] > 0 else 2
        assert agent.begin_episode(x).policy[0, 2] == drug
        agent.end_episode()


def test_any_object_with_the_four_verbs_is_an_agent():
    world = WORLDS["logit"]()

    class First:
        def fresh(self, seed):
            return First()

        def begin_episode(self, x):
            return nr.Plan(np.zeros((4, 4), np.int64), np.zeros((5, 4)))

        def act(self, state):
            return 0

        def observe(self, reward, next_state):
            assert 0 <= reward <= 1

        def end_episode(self):
            pass

    run = nr.simulate(First(), world, 30, seeds=2)
    assert run.label == "First"
    expected = [
        world.optimal(x).values[0, 0] - world.value(np.zeros((4, 4), int), x)
        for x in (world.context(0, k) for k in range(30))
    ]
    assert np.allclose(run.regret[0], np.cumsum(expected), atol=1e-9)


def test_agents_share_individuals_and_luck():
    """Two agents that always do the same see the same rewards: the luck belongs to the world's seed."""
    world = WORLDS["logit"]()
    steps = [[world.individual(k, 7).step(1) for k in range(50)] for _ in range(2)]
    assert steps[0] == steps[1]
    assert steps[0] != [world.individual(k, 8).step(1) for k in range(50)]


@pytest.mark.parametrize("damage", ["truncate", "foreign", "newer", "pickle"])
def test_loading_refuses_what_it_did_not_write(tmp_path, damage):
    path = tmp_path / "agent.npz"
    nr.GLMORL(WORLDS["logit"]().problem).save(path)
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "foreign":
        np.savez(path, a=np.ones(3))
    elif damage == "newer":
        with np.load(path) as f:
            arrays = dict(f)
        arrays["header"] = np.frombuffer(bytes(arrays["header"]).replace(b'"noregret": 1', b'"noregret": 9'), np.uint8)
        np.savez(path, **arrays)
    else:
        np.save(path.with_suffix(".npy"), np.array([{}], dtype=object), allow_pickle=True)
        path = path.with_suffix(".npy")
    with pytest.raises(ValueError, match=r"not an agent saved by noregret|reads format 1"):
        nr.load(path)


def test_saving_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "agent.npz"
    agent = nr.GLMORL(WORLDS["logit"]().problem)
    agent.save(path)
    before = path.read_bytes()

    def broken(*args, **kwargs):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(OSError, match="no space"):
        agent.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
