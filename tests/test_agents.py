"""One conformance test walks over every agent; then what is particular to some."""

import dataclasses
import math

import numpy as np
import pytest

import noregret as nr
from noregret.agents import contents
from noregret.verification import promises

WORLDS = {
    "logit": lambda: nr.worlds.random_logit(4, 3, 4, 3, seed=1),
    "linear": lambda: nr.worlds.random_linear(3, 2, 4, 3, seed=1),
    "clinic": nr.worlds.clinic,
    "logistic": promises.logistic_rewards,
}
MAIN = ("glm-orl", "lr-orl", "psrl-glm", "certified-psrl")
OPTIONS = [
    ("glm-orl", {}),
    ("glm-orl", {"constants": "paper", "bonus_scale": 0.01}),
    ("glm-orl", {"bonus_scale": 0.05}),
    ("glm-orl", {"confidence": "conversion"}),
    ("glm-rlsvi", {}),
    ("glm-rlsvi", {"constants": "paper"}),
    ("glm-rlsvi", {"confidence": "conversion", "learner": "ftrl"}),
    ("lr-orl", {}),
    ("lr-orl", {"bonus": "sharp", "predictor": "plug-in", "reward_sets": "bernstein"}),
    ("lr-orl", {"optimism": "randomised", "form": "kron", "reward_sets": "ridge"}),
    ("lr-orl", {"sets": "stored", "bonus": "taylor", "reward_sets": "hoeffding"}),
    ("psrl-glm", {}),
    ("psrl-glm", {"exploration": "posterior", "draws": 3, "posterior_scale": 0.5}),
    ("certified-psrl", {}),
    ("certified-psrl", {"sets": "stored", "kappa": 2.0}),
    ("certified-psrl", {"kappa": 0.1, "certificates": "close"}),
    ("orlc-si", {}),
    ("orlc-si", {"normalise": True, "bonus_scale": 0.05}),
    ("abbasi-yadkori-neu", {}),
    ("abbasi-yadkori-neu", {"repaired": True, "bonus_scale": 0.05}),
    ("lsvi-ucb", {"bonus_scale": 0.001}),
    ("lsvi-ucb", {"bonus_scale": 0.001, "memory": 50}),
    ("ucrl-mnl", {}),
    ("ucrl-mnl", {"kappa": 0.1, "bonus_scale": 0.003, "growth": 1.5}),
    ("ucrl-mnl-ol", {"regularization": 1.0, "bonus_scale": 0.003}),
    ("rrl-mnl", {"kappa": 0.1, "bonus_scale": 0.003}),
    ("orrl-mnl", {"regularization": 1.0, "bonus_scale": 0.003, "samples": 5}),
    ("oful", {}),
    ("oful", {"bonus_scale": 0.1}),
    ("linucb", {}),
    ("linucb", {"alpha": 0.3, "regularization": 0.5}),
    ("glm-ucb", {}),
    ("glm-ucb", {"constants": "paper"}),
    ("ol2m", {}),
    ("ol2m", {"constants": "paper", "bonus_scale": 0.1}),
    ("gloc", {}),
    ("gloc", {"constants": "paper"}),
    ("ofuglb", {}),
    ("ofuglb", {"constants": "paper", "memory": 20}),
    ("glb-omd", {}),
    ("glb-omd", {"constants": "paper", "bonus_scale": 0.3}),
    ("omg-cmdp", {}),
    ("cover-rmax", {}),
    ("cover-rmax", {"m": 4, "r0": 0.5, "max_balls": 5}),
    ("kwik-lr-rmax", {}),
    ("kwik-lr-rmax", {"alpha0": 0.5, "keep_learning": True}),
    ("cece", {"recluster": 20, "memory": 50}),
    ("cece", {"clusters": 3, "explore": 2, "recluster": 15, "use_rewards": False}),
    ("cece-x", {}),
    ("cece-x", {"explore": 2, "smoothing": 0.5}),
    ("ucrl2", {}),
    ("ucrl2", {"bonus_scale": 0.1}),
    ("ucbvi-ch", {"bonus_scale": 0.01}),
    ("ucbvi-bf", {}),
    ("ucbvi-bf", {"bonus": "monotone"}),
    ("orlc", {}),
    ("psrl", {}),
    ("rlsvi", {}),
    ("rlsvi", {"constants": "practised"}),
    ("ucbvi-bf", {"bonus": "practised"}),
    ("epsilon-greedy", {}),
    ("certainty-equivalence", {}),
    ("uniform-random", {}),
    ("oracle", {}),
]
IDS = [f"{n}{'-' if o else ''}{'-'.join(map(str, o.values()))}" for n, o in OPTIONS]


def place(name, where):
    """The world, or, for an agent that is not for it, its first step, with logistic rewards if need be."""
    world = WORLDS[where]()
    refuses = nr.agents.registry.agent_class(name).refusal
    if refuses(world.problem) is None or "link" in refuses(world.problem):
        return world
    problem = dataclasses.replace(world.problem, horizon=1)
    if refuses(problem) is not None:
        problem = dataclasses.replace(problem, rewards="logistic")
    return nr.World(problem, world.weights, world.reward_weights, world.contexts, world.initial_state)


def make(name, options, world, **more):
    told = {"weights": world.weights, "reward_weights": world.reward_weights} if name == "oracle" else {}
    return nr.make_agent(name, world.problem, **options, **told, **more)


def play(agent, world, episodes, seed=0, counted=False):
    """The live agent against the world's individuals; decisions and, where it is counted, regret."""
    decisions, regret = [], []
    for k in episodes:
        someone = world.individual(k, seed)
        x, start, lost = someone.context, someone.state, 0.0
        best = world.optimal(x).values if counted else None
        plan = agent.begin_episode(x)
        for h in range(world.problem.horizon):
            s, action = someone.state, agent.act(someone.state)
            decisions.append(action)
            if counted and h < agent.pause:  # in two parts: what the first actions cost, then the rest of the plan
                lost += best[h, s] - world.rewards(x)[s, action] - world.transitions(x)[s, action] @ best[h + 1]
            elif counted and h == agent.pause > 0:
                lost += best[h, s] - world.values(agent.policy, x)[h, s]
            agent.observe(*someone.step(action))
        agent.end_episode()
        if counted:
            regret.append(lost if agent.pause else best[0, start] - world.value(plan.policy, x, start))
    return decisions, np.cumsum(regret)


def test_every_agent_is_walked_over():
    assert set(nr.agents.names()) == {name for name, _ in OPTIONS}


def rooms():
    """Every agent in the first world, with all its options; in the others, where there is less time, the main agents
    with their first."""
    first = {name: options for name, options in reversed(OPTIONS)}
    for where in WORLDS:
        for (name, options), label in zip(OPTIONS, IDS, strict=True):
            further = [] if options is first[name] and name in MAIN else [pytest.mark.long]
            marks = [] if where == "logit" else [pytest.mark.deep, *further]
            yield pytest.param(name, options, where, marks=marks, id=f"{where}-{label}")


@pytest.mark.parametrize(("name", "options", "where"), list(rooms()))
def test_conformance(name, options, where, tmp_path):
    world = place(name, where)
    if where == "logistic" and name.startswith("glm-") and options.get("constants") == "paper" and name != "glm-ucb":
        pytest.skip("the paper prints nothing for logistic rewards")
    stored = options.get("sets", "online") != "online"
    if nr.agents.registry.agent_class(name).refusal(world.problem) is not None or (stored and where == "linear"):
        with pytest.raises(ValueError, match=r'link must be|sets must be "online" under LinearCombination'):
            make(name, options, world)
        pytest.skip("refused, in one sentence")
    conforms(make(name, options, world), make(name, options, world, seed=3), world, tmp_path / "agent.npz")


def conforms(agent, one, world, file):
    """agent, and one which is the same with seed 3, do what every agent must."""
    a = nr.simulate(agent, world, 70, seeds=[3, 4])
    # Same seed, same run: again, on other numbers of workers, at another resolution, alone, and through the live verbs.
    assert np.array_equal(a.regret, nr.simulate(agent, world, 70, seeds=[3, 4]).regret)
    assert np.array_equal(a.regret[:, 4::5], nr.simulate(agent, world, 70, [3, 4], every=5, workers=1).regret)
    assert np.array_equal(a.regret[1:], nr.simulate(agent, world, 70, seeds=[4]).regret)
    live = nr.simulate(agent, world, 70, seeds=[3, 4], compiled=False)
    assert np.array_equal(a.regret, live.regret)
    other = nr.simulate(agent, world, 70, seeds=[5])
    if "oracle" not in agent.label:
        assert not np.array_equal(a.regret[0], other.regret[0])
    # Regret is a sum of shortfalls; nothing is taken that is not available; values are finite.
    assert (np.diff(a.regret) >= -1e-8).all()
    assert np.isfinite(a.regret).all()
    decisions, regret = play(one, world, range(40), seed=3, counted=True)
    assert np.allclose(regret, a.regret[0, :40], atol=1e-8)
    someone = world.individual(40, seed=3)
    plan = one.begin_episode(someone.context)
    assert world.problem.layout.available[np.arange(world.problem.n_states)[None], plan.policy].all()
    assert np.isfinite(plan.values).all()
    assert (plan.upper is None) == (not one.bounds_values)
    if plan.lower is not None:
        assert (plan.lower <= plan.values + 1e-9).all()
        assert plan.certificate is None or plan.certificate >= 0.0
    # Saved in the middle of an episode, loaded, continued: as if it had not stopped. The state does not grow.
    size = sum(v.nbytes for _, v in contents.leaves("", one.state))
    if world.problem.horizon > 1:
        one.observe(*someone.step(one.act(someone.state)))
    outcome = someone.step(one.act(someone.state))
    one.save(file)  # asked, but the outcome has not come in
    two = nr.load(file)
    for agent in (one, two):
        agent.observe(*outcome)
        agent.end_episode()
        more, _ = play(agent, world, range(41, 60), seed=3)
        decisions.append(tuple(more))
    assert decisions[-1] == decisions[-2]
    kept, again = contents.contents(one)[1], contents.contents(two)[1]  # without room for individuals to come
    assert all(np.array_equal(kept[name], again[name]) for name in kept if name.startswith("state."))
    assert one.room or sum(v.nbytes for _, v in contents.leaves("", one.state)) == size


COMPOSED = {
    "certified psrl-glm": lambda w: nr.Certified(nr.PSRLGLM(w.problem)),
    "certified glm-orl, stored": lambda w: nr.Certified(nr.GLMORL(w.problem, bonus_scale=0.1), sets="stored"),
    "referral of lr-orl to the oracle": lambda w: nr.Referral(nr.LRORL(w.problem, delta=0.5), oracle(w), 2.5),
    "referral of certified-psrl, stored": lambda w: nr.Referral(
        nr.CertifiedPSRL(w.problem, sets="stored", delta=0.5), nr.UniformRandom(w.problem), 2.5
    ),
    "referral of certified, stored": lambda w: nr.Referral(
        nr.Certified(nr.PSRLGLM(w.problem), delta=0.5, sets="stored", bonus="taylor"), first_actions(w), 2.5
    ),
    "conservative, lr-orl beside the oracle": lambda w: nr.Conservative(nr.LRORL(w.problem), oracle(w), 0.6),
    "conservative, certified": lambda w: nr.Conservative(nr.Certified(nr.PSRLGLM(w.problem)), first_actions(w), 0.6),
    "referral by doubt, psrl-glm": lambda w: nr.Referral(
        nr.PSRLGLM(w.problem, "posterior", 3), oracle(w), 0.4, "doubt"
    ),
    "referral by belief, psrl-glm": lambda w: nr.Referral(nr.PSRLGLM(w.problem), oracle(w), 0.4, "belief"),
    "referral by doubt, certified-psrl": lambda w: nr.Referral(nr.CertifiedPSRL(w.problem), oracle(w), 0.4, "doubt"),
}


def oracle(world):
    return nr.Oracle(world.problem, world.weights, world.reward_weights)


def first_actions(world):
    return np.tile(world.problem.layout.available.argmax(1), (world.problem.horizon, 1))


@pytest.mark.study(first=1)
@pytest.mark.parametrize("where", ["logit", "clinic", pytest.param("linear", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "certified psrl-glm" else pytest.mark.slow) for kind in COMPOSED]
)
def test_composed_agents_conform(kind, where, tmp_path):
    if where == "linear" and "stored" in kind:
        pytest.skip("linear links have online sets only")
    world = WORLDS[where]()
    agent = COMPOSED[kind](world)
    conforms(agent, agent.fresh(seed=3), world, tmp_path / "agent.npz")
    assert agent.episode == 0
    if isinstance(agent, nr.Referral):
        met = agent.fresh(seed=3)
        play(met, world, range(100), seed=3)
        assert met.referred.size == 100


@pytest.mark.parametrize(
    "name", ["certified-psrl", *(pytest.param(n, marks=pytest.mark.slow) for n in ("lr-orl", "certified", "referral"))]
)
def test_stored_agents_outgrow_their_room(name, tmp_path):
    """Beyond the first 64 episodes: the same as with room from the start, saved and loaded with what has grown."""
    world = WORLDS["clinic"]()

    def built():
        if name == "certified":
            return nr.Certified(nr.PSRLGLM(world.problem, seed=3), sets="stored", bonus="taylor")
        if name == "referral":
            return nr.Referral(nr.CertifiedPSRL(world.problem, sets="stored", seed=3), first_actions(world), 5.5)
        return nr.make_agent(name, world.problem, sets="stored", seed=3)

    grown, roomy = built(), built()
    roomy.make_room(1000)
    assert roomy.room >= 1000
    a, b = (play(agent, world, range(150), seed=3)[0] for agent in (grown, roomy))
    assert a == b
    assert 150 <= grown.room < 1000
    x = world.context(3, 150)
    grown.save(tmp_path / "agent.npz")
    loaded = nr.load(tmp_path / "agent.npz")
    assert loaded.room >= 150
    assert loaded.episode == 150
    c, d = (play(agent, world, range(150, 330), seed=3)[0] for agent in (grown, loaded))
    assert c == d
    plans = [agent.begin_episode(x) for agent in (grown, loaded)]
    assert np.array_equal(plans[0].values, plans[1].values)
    assert (plans[0].lower is None) == (plans[1].lower is None)
    assert plans[0].lower is None or np.array_equal(plans[0].lower, plans[1].lower)
    judges = [getattr(agent, "agent", agent) if name == "referral" else agent for agent in (grown, loaded)]
    bounds = [judge.certify(x, plans[0].policy) for judge in judges]
    assert np.array_equal(bounds[0].lower, bounds[1].lower)
    assert np.array_equal(bounds[0].upper, plans[0].upper)


@pytest.mark.long
def test_known_rewards_need_not_be_learned(tmp_path):
    """Agents with local sets take them as they are: the range is a point, and all of delta goes to the transitions."""
    base = WORLDS["logit"]()
    problem = dataclasses.replace(base.problem, known_rewards=base.reward_weights)
    world = nr.World(problem, base.weights, None, base.contexts)
    for make_one in (nr.LRORL, nr.PSRLGLM, nr.CertifiedPSRL, lambda p, seed=0: nr.Certified(nr.PSRLGLM(p, seed=seed))):
        conforms(make_one(problem), make_one(problem, seed=3), world, tmp_path / "agent.npz")
    agent = nr.LRORL(problem)
    agent.begin_episode(world.context(0, 0))
    assert np.allclose(agent.work.local.low, world.rewards(world.context(0, 0)), atol=1e-12)
    assert np.array_equal(agent.work.local.low, agent.work.local.high)


def test_the_same_past_gives_the_same_numbers_wherever_the_memory_lies():
    """Twelve agents with arrays all over the heap: equal states to the last bit."""
    world, kept = WORLDS["logit"](), []
    for i in range(12):
        kept.append(np.zeros(4 + 3 * i))  # so that free gaps of all sizes arise
        agent = nr.LRORL(world.problem, seed=3)
        play(agent, world, range(30), seed=3)
        kept.append([v.copy() for _, v in contents.leaves("", agent.state)])
    for states in kept[3::2]:
        assert all(np.array_equal(u, v) for u, v in zip(kept[1], states, strict=True))


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
    assert agent.state.transitions.samples[0, a] == 1
    assert agent.state.rewards.samples.sum() == 0
    agent.begin_episode(world.context(0, 1))
    agent.end_episode()
    assert agent.state.transitions.samples.sum() == 1
    assert agent.episode == 2


@pytest.mark.long
@pytest.mark.deep
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


def test_agents_that_do_not_do_what_they_plan_are_refused():
    world = nr.worlds.clinic()

    class Wrong:
        def __init__(self, policy, action):
            self.policy, self.action = policy, action

        def fresh(self, seed):
            return self

        def begin_episode(self, x):
            return nr.Plan(self.policy, np.zeros((7, 4)))

        def act(self, state):
            return self.action

        def observe(self, reward, next_state):
            pass

        def end_episode(self):
            pass

    fine = np.array([[0, 1, 1, 1]] * 6)
    for policy, action, message in (
        (fine, 99, "act returned 99 in state 2 at step 0, its plan.policy says 1"),
        (np.full((6, 4), 7), 7, "plan.policy of Wrong must be actions 0 to 2"),
        (np.zeros((1, 1), int), 0, "plan.policy of Wrong must be actions 0 to 2 of shape"),
        (np.zeros((6, 4), int), 0, "plan.policy of Wrong takes an action that is not available"),
    ):
        with pytest.raises(ValueError, match=message):
            nr.simulate(Wrong(policy, action), world, 5)


def test_the_last_episode_is_always_recorded():
    world = WORLDS["logit"]()
    agent = nr.UniformRandom(world.problem)
    whole = nr.simulate(agent, world, 100)
    thin = nr.simulate(agent, world, 100, every=60)
    assert thin.episodes.tolist() == [60, 100]
    assert np.array_equal(thin.regret[0], whole.regret[0, [59, 99]])
    assert np.array_equal(thin.regret, nr.simulate(agent, world, 100, every=60, compiled=False).regret)


def test_an_agent_with_other_assumptions_carries_no_guarantee():
    world = nr.worlds.random_logit(3, 2, 3, 2, weight_bound=2.0)
    bounds = {"weight_bound": 0.1, "reward_bound": 2.0}
    run = nr.simulate(nr.GLMORL(nr.Problem(3, 2, 3, 2, **bounds)), world, 50)
    assert run.guarantee is None
    assert "other assumptions" in run.label
    wider = nr.simulate(nr.GLMORL(nr.Problem(3, 2, 3, 2, weight_bound=3.0, reward_bound=2.0)), world, 50)
    assert wider.guarantee is not None


def test_rescaled_contexts_are_the_same_live_and_fused():
    problem = nr.Problem(3, 2, 3, 2, long_contexts="rescale", weight_bound=1.0, reward_bound=1.0)
    world = nr.World(problem, np.zeros((3, 2, 3, 2)), np.full((3, 2, 2), 0.4), nr.contexts.Table([[3, 4], [2, 0.5]]))
    agent = nr.GLMORL(problem)
    fused = nr.simulate(agent, world, 50, seeds=2)
    assert np.array_equal(fused.regret, nr.simulate(agent, world, 50, seeds=2, compiled=False).regret)
    assert np.allclose(np.linalg.norm(world.context(0, 0)), 1.0)


def test_one_failing_seed_stops_the_others():
    base = nr.worlds.random_logit(3, 2, 2, 2)
    seen = []

    def choose(seed, episode, agent):
        seen.append(seed)
        return [2.0, 2.0] if seed == 1 and episode == 5 else [0.7, 0.1]

    world = nr.World(base.problem, base.weights, base.reward_weights, choose)
    with pytest.raises(ValueError, match=r"row .* has norm 2.8"):
        nr.simulate(nr.UniformRandom(base.problem), world, 10**7, seeds=2, workers=2)
    assert len(seen) < 10**6


def test_diagnostics_show_what_applies():
    world = WORLDS["logit"]()
    shown = {
        name: set(nr.simulate(nr.make_agent(name, world.problem), world, 20, diagnostics=True).diagnostics)
        for name in ("glm-orl", "glm-rlsvi", "uniform-random")
    }
    assert shown["glm-orl"] - shown["glm-rlsvi"] == {"justified_failures", "excess", "bonuses"}
    assert shown["uniform-random"] == {"optimism_failures", "steps"}


def test_loading_compares_links(tmp_path):
    nr.GLMORL(WORLDS["logit"]().problem).save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="link must be the one the agent was saved with, 'logit', got 'linear'"):
        nr.load(tmp_path / "a.npz", link=nr.LinearCombination())


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
        arrays["header"] = np.frombuffer(bytes(arrays["header"]).replace(b'"noregret": 5', b'"noregret": 9'), np.uint8)
        np.savez(path, **arrays)
    else:
        np.save(path.with_suffix(".npy"), np.array([{}], dtype=object), allow_pickle=True)
        path = path.with_suffix(".npy")
    with pytest.raises(ValueError, match=r"not a file saved by noregret|is damaged, or was cut short|reads format 5"):
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


@pytest.mark.study(first=3)
@pytest.mark.parametrize("name", ["glm-rlsvi", "rlsvi", "psrl", "omg-cmdp"])
def test_randomised_agents_learn_with_their_own_constants(name):
    """A small world, nothing scaled: regret per episode in the last tenth is below half of that in the first and below
    a twentieth of uniform play's, on each of four fixed seeds."""
    world = nr.worlds.random_linear(2, 2, 2, 1, seed=3)
    run = nr.simulate(nr.make_agent(name, world.problem), world, 100_000, 4, every=10_000)
    floor = nr.simulate(nr.UniformRandom(world.problem), world, 10_000, 4, every=10_000).final / 10_000
    assert (run.late < 0.5 * run.regret[:, 0] / 10_000).all()
    assert (run.late < 0.05 * floor).all()
