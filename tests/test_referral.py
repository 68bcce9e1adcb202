"""Referral: who is handed over, what is learned, what is proved about the others; records, files, both engines."""

import dataclasses

import numpy as np
import pytest

import noregret as nr
from noregret import agents
from noregret.agents import registry
from noregret.planning.bellman import expectation
from noregret.report import run_figures as figures
from noregret.verification import chance


@nr.kernel
def lower_values(par, state, work, out, gap):
    """gap <- planned value - a lower bound on the policy's own, by the sets of the plan just made (logit: half spans).

    gap holds the lower values of the next step, a column of work.Q those of this one."""
    H, S = out.policy.shape
    for s in range(S):
        gap[s] = 0.0
    for h in range(H - 1, -1, -1):
        low, high = gap[0], gap[0]
        for s in range(S):
            low, high = min(low, gap[s]), max(high, gap[s])
        for s in range(S):
            a = out.policy[h, s]
            v = work.belief.reward[s, a] - work.belief.interval[s, a] - 0.5 * (high - low) * work.belief.width[s, a]
            work.Q[s, 0] = max(v + expectation(work.belief.P, par.layout, s, a, gap), low, 0.0)
        for s in range(S):
            gap[s] = work.Q[s, 0]
    for s in range(S):
        gap[s] = out.values[0, s] - gap[s]


@nr.kernel
def fading(par, state, work, out, x, k, gap):
    for s in range(gap.shape[0]):
        gap[s] = (2.0 + s) / (k + 2.0 + gap.shape[0])


class Certified(nr.GLMORL):
    """GLM-ORL with the obvious certificate."""

    name = "certified-glm-orl"
    certificate_kernel = staticmethod(lower_values)
    doubt_kernel = staticmethod(fading)


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setitem(registry._AGENTS, Certified.name, Certified)


def place():
    """Few pairs, a short horizon: certificates that fall below H/2 within some thousand episodes."""
    return nr.worlds.random_logit(3, 2, 2, 2, seed=2)


def oracle(world):
    return nr.Oracle(world.problem, world.weights, world.reward_weights)


def lost(world, policy, x, start):
    """The exact shortfall of a policy from optimal."""
    return float(world.optimal(x).values[0, start] - world.value(policy, x, start))


def meet(agent, world, episodes, seed=0):
    """Live episodes; what was planned for whom."""
    seen = []
    for k in episodes:
        someone = world.individual(k, seed)
        plan = agent.begin_episode(someone.context)
        seen.append((someone.context, someone.state, plan))
        while someone.steps < world.problem.horizon:
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
    return seen


def test_every_step_against_a_loop_in_python():
    """Twin: the bare agent plans, a Python comparison decides, the bare agent learns from what was done."""
    world, threshold = place(), 1.2
    both = nr.Referral(Certified(world.problem, seed=3), nr.UniformRandom(world.problem, seed=3), threshold)
    bare, expert, gap = Certified(world.problem, seed=3), nr.UniformRandom(world.problem, seed=3), np.zeros(3)
    handed = 0
    for k in range(600):
        person = world.individual(k, 3)
        plan = both.begin_episode(person.context)
        own, other = bare.begin_episode(person.context), expert.begin_episode(person.context)
        lower_values(bare.par, bare.state, bare.work, bare._out, gap)
        refer = gap[0] > threshold  # everybody begins in state 0
        handed += refer
        assert plan.referred == refer
        assert plan.gap == gap[0]
        assert np.array_equal(plan.policy, other.policy if refer else own.policy)
        assert np.array_equal(plan.values, own.values)
        assert np.array_equal(plan.upper, own.upper)
        assert plan.certificate == (None if refer else gap[0])
        bare._out.policy[...] = plan.policy  # whoever decided, both learn from it
        expert._out.policy[...] = plan.policy
        while person.steps < world.problem.horizon:
            state = person.state
            action = both.act(state)
            assert bare.act(state) == expert.act(state) == action
            seen = person.step(action)
            for one in (both, bare, expert):
                one.observe(*seen)
        for one in (both, bare, expert):
            one.end_episode()
    assert 100 < handed < 590
    assert np.array_equal(both.agent.state.transitions.weights, bare.state.transitions.weights)
    assert both.agent.episode == both.episode == 600


def test_only_initial_states_count():
    """With a state in which nobody can begin, its certificate does not matter."""
    world = place()
    gaps = []
    for starts in ((0,), None, (1,)):
        problem = dataclasses.replace(world.problem, initial_states=starts)
        agent = nr.Referral(Certified(problem), nr.UniformRandom(problem), 0.1, criterion="doubt")
        gaps.append(agent.begin_episode([0.6, 0.8]).gap)
    assert gaps == pytest.approx([2.0 / 5.0, 4.0 / 5.0, 3.0 / 5.0])


def test_the_extremes_are_the_agent_and_the_expert():
    world = place()
    agent, expert = Certified(world.problem), nr.UniformRandom(world.problem)
    never = nr.simulate(nr.Referral(agent.fresh(), expert.fresh(), 3.0), world, 300, seeds=2)
    always = nr.simulate(nr.Referral(agent.fresh(), expert.fresh(), 0.0), world, 300, seeds=2)
    assert np.array_equal(never.regret, nr.simulate(agent, world, 300, seeds=2).regret)
    assert np.array_equal(always.regret, nr.simulate(expert, world, 300, seeds=2).regret)


@pytest.mark.study(first=2)
@pytest.mark.parametrize("kind", ["oracle", "policy", "function"])
def test_both_engines_agree_and_so_do_files(kind, tmp_path):
    world = place()
    table = np.array([[0, 1, 0], [1, 0, 1]])
    expert = {"oracle": oracle(world), "policy": table, "function": lambda x: table if x[0] > 0 else 1 - table}[kind]
    agent = nr.Referral(Certified(world.problem), expert, 1.7)
    fast = nr.simulate(agent, world, 150, seeds=[4, 5])
    slow = nr.simulate(agent, world, 150, seeds=[4, 5], compiled=False)
    assert np.array_equal(fast.regret, slow.regret)
    assert not np.array_equal(fast.regret[0], fast.regret[1])
    assert agent.fused == (kind != "function")
    assert agent.episode == 0  # copies were run
    one = agent.fresh(seed=4)
    seen = meet(one, world, range(100), seed=4)
    played = np.cumsum([lost(world, plan.policy, x, s) for x, s, plan in seen])
    assert np.allclose(played, fast.regret[0, :100], atol=1e-8)
    # Saved in the middle of an episode, loaded, and played on.
    person = world.individual(100, 4)
    one.begin_episode(person.context)
    one.act(person.state)
    one.save(tmp_path / "agent.npz")
    given = {"expert": expert} if kind == "function" else {}
    two = nr.load(tmp_path / "agent.npz", agent=Certified, **given)
    assert two.options == one.options
    assert two.agent.seed == one.agent.seed == 4
    outcome = person.step(one.act(person.state))
    for each in (one, two):
        each.observe(*outcome)
        each.end_episode()
    assert str(one.report()) == str(two.report())
    more = [meet(each, world, range(101, 250), seed=4) for each in (one, two)]
    for (_, _, a), (_, _, b) in zip(*more, strict=True):
        assert (a.referred, a.gap) == (b.referred, b.gap)
        assert np.array_equal(a.policy, b.policy)
    assert np.array_equal(one.referred, two.referred)
    assert one.referred.size == 250
    assert 0.2 < one.referred.mean() < 0.9
    if kind == "function":
        with pytest.raises(ValueError, match="expert must be given, the agent was saved with a function"):
            nr.load(tmp_path / "agent.npz", agent=Certified)


def test_an_expert_with_its_own_problem_is_saved_with_it(tmp_path):
    world = place()
    other = dataclasses.replace(world.problem, weight_bound=5.0)
    agent = nr.Referral(Certified(world.problem), nr.UniformRandom(other, seed=7), 1.0)
    meet(agent, world, range(5))
    agent.save(tmp_path / "agent.npz")
    back = nr.load(tmp_path / "agent.npz", agent=Certified)
    assert back.problem.weight_bound == world.problem.weight_bound
    assert back.expert.problem.weight_bound == 5.0
    assert (back.expert.seed, back.expert.episode) == (7, 5)


def test_functions_are_asked_only_when_needed_and_may_fail():
    world, calls = place(), []

    def ask(x):
        calls.append(x)
        if len(calls) == 3:
            raise RuntimeError("no answer")
        return np.ones((2, 3), int)

    agent = nr.Referral(Certified(world.problem), ask, 0.2, criterion="doubt")
    meet(agent, world, range(2))
    with pytest.raises(RuntimeError, match="no answer"):
        agent.begin_episode([0.6, 0.8])
    seen = meet(agent, world, range(2, 30))  # it can be asked again
    assert [plan.referred for _, _, plan in seen] == [2.0 / (k + 5.0) > 0.2 for k in range(2, 30)]
    assert len(calls) == 1 + agent.referred.sum()


@pytest.mark.long
def test_kept_individuals_lose_at_most_the_threshold():
    """At delta = 0.3, over 40 runs: in all but as many as chance allows, nobody who was kept lost more than their
    certificate, so nobody more than the threshold, and the report's bound covers those kept."""
    world, threshold, failed, kept = place(), 0.7, 0, 0
    expert = nr.UniformRandom(world.problem)  # tries everything, so that certificates come down
    for seed in range(40):
        agent = nr.Referral(Certified(world.problem, delta=0.3, seed=seed), expert.fresh(seed), threshold)
        ours = [(plan, lost(world, plan.policy, x, s)) for x, s, plan in run_on(agent, world, seed)]
        kept += len(ours)
        failed += any(v > plan.certificate + 1e-9 for plan, v in ours)
        assert all(plan.certificate <= threshold for plan, _ in ours)
        total = agent.gaps[~agent.referred][-len(ours) :].sum()
        assert sum(plan.certificate for plan, _ in ours) == pytest.approx(total)
    assert kept > 200
    assert failed <= chance.allowed(40, 0.3)


def run_on(agent, world, seed, episodes=6000, live=20):
    """Most episodes compiled, the last ones live; those who were kept among the last."""
    from noregret.simulation.engine import FusedSession, Setup

    session = FusedSession(agent, Setup(world, seed, episodes))
    session.prepare()
    while session.done < episodes:
        session.advance()
    seen = meet(agent, world, range(episodes, episodes + live), seed)
    return [(x, s, plan) for x, s, plan in seen if not plan.referred]


def test_report():
    world = place()
    agent = nr.Referral(Certified(world.problem), nr.UniformRandom(world.problem), 0.05, criterion="doubt")
    assert str(agent.report()) == "nobody was met yet"
    meet(agent, world, range(120))
    report = agent.report()
    gaps = 2.0 / (np.arange(120) + 5.0)
    assert np.array_equal(report.gaps, gaps)
    assert np.array_equal(report.referred, gaps > 0.05)
    assert report.by_decade == [(1, 10, 1.0), (11, 100, 25 / 90), (101, 120, 0.0)]
    assert report.mean_referred == pytest.approx(gaps[gaps > 0.05].mean())
    assert report.mean_kept == pytest.approx(gaps[gaps <= 0.05].mean())
    assert report.kept_bound is None
    assert str(report).splitlines() == [
        "120 individuals, 35 referred (29.2%): doubt above 0.05",
        "  1 to 10     100.0%",
        "  11 to 100    27.8%",
        "  101 to 120    0.0%",
        f"mean doubt: {report.mean_referred:.3g} (referred), {report.mean_kept:.3g} (kept)",
    ]
    # An agent that was taken over after twenty individuals: those are not in its report.
    old = Certified(world.problem)
    meet(old, world, range(20))
    taken = nr.Referral(old, nr.UniformRandom(world.problem), 1.9)
    meet(taken, world, range(20, 130))
    assert taken.episode == 130
    assert [(a, b) for a, b, _ in taken.report().by_decade] == [(21, 100), (101, 130)]
    assert taken.report().kept_bound == pytest.approx(taken.gaps[~taken.referred].sum())


@pytest.mark.parametrize("name", ["orlc-si", "orlc"])
def test_built_in_certificates_are_those_of_the_plan(name):
    world = nr.worlds.random_linear(3, 2, 3, 2, seed=1)
    assert name in registry.with_kernel("certificate_kernel")
    agent, gap = nr.make_agent(name, world.problem, delta=0.3), np.zeros(3)
    for _, _, plan in meet(agent, world, range(300)):
        last = plan
    agent.certificate_kernel(agent.par, agent.state, agent.work, agent._out, gap)
    assert gap[world.problem.starts].max() == last.certificate
    assert np.array_equal(gap, last.upper[0] - last.lower[0])


def test_guarantee_and_label():
    problem = place().problem
    agent = nr.Referral(Certified(problem, delta=0.1), nr.UniformRandom(problem), 0.5)
    assert "probability 0.9" in agent.guarantee
    assert agent.guarantee.endswith("whoever is not referred gets a policy at most 0.5 worse than optimal")
    assert agent.label == "certified-glm-orl (delta=0.1), refers to uniform-random above 0.5"
    assert nr.Referral(Certified(problem), nr.UniformRandom(problem), 0.5, "doubt").guarantee is None
    scaled = Certified(problem, bonus_scale=0.1)
    assert nr.Referral(scaled, nr.UniformRandom(problem), 0.5).guarantee is None
    world = nr.worlds.random_logit(3, 2, 2, 2, weight_bound=2.5, seed=2)
    assert nr.simulate(agent, world, 10).guarantee is None  # the agent was told a smaller bound


def test_bad_input_is_one_sentence():
    world = place()
    problem, good, expert = world.problem, Certified(world.problem), nr.UniformRandom(world.problem)
    began = Certified(problem)
    began.begin_episode([0.6, 0.8])
    other = nr.worlds.random_logit(4, 2, 2, 2).problem
    for args, message in (
        ((nr.GLMORL(problem), expert, 1.0), r"agent must be one with certificates \(built in: .*\), glm-orl has none"),
        ((nr.GLMORL(problem), expert, 1.0, "doubt"), r"one with posterior draws \(built in: .*\), glm-orl has none"),
        ((3, expert, 1.0), "agent must be a compiled noregret agent, got int"),
        ((good, good, 1.0), "expert must be another agent"),
        ((good, nr.UniformRandom(other), 1.0), "expert was made for a problem of another shape"),
        ((good, np.zeros((1, 3), int), 1.0), r"expert must be actions 0 to 1 of shape \(2, 3\)"),
        ((good, expert, -1.0), "threshold must be a number of at least 0"),
        ((good, expert, 2.0, "doubt"), "threshold must be a share from 0 to 1"),
        ((good, expert, 1.0, "fear"), "criterion must be one of 'certificate', 'doubt', 'belief', got 'fear'"),
        ((began, expert, 1.0), "agent must not be in the middle of an episode"),
        ((good, nr.make_agent("cece", problem), 1.0), "expert must plan whole episodes, cece plans again"),
    ):
        with pytest.raises(ValueError, match=message):
            nr.Referral(*args)
    with pytest.raises(ValueError, match="the expert's policy must be actions 0 to 1"):
        nr.Referral(good, lambda x: [7], 0.0).begin_episode([0.6, 0.8])


@pytest.mark.deep
def test_study_and_figure(tmp_path):
    world, expert = place(), np.array([[0, 1, 0], [1, 0, 1]])
    agent = Certified(world.problem)
    study = nr.referral_study(agent, expert, world, 400, [0.0, 1.3, 3.0], seeds=[1, 2], every=50)
    alone, fixed = (
        nr.simulate(a, world, 400, [1, 2], every=50) for a in (agent, agents.FixedPolicy(world.problem, expert))
    )
    assert np.array_equal(study.alone, alone.regret)
    assert np.array_equal(study.expert_alone, fixed.regret)
    assert np.array_equal(study.regret[0], fixed.regret)
    assert np.array_equal(study.regret[2], alone.regret)
    assert study.share[0].tolist() == [1.0, 1.0]
    assert study.share[2].tolist() == [0.0, 0.0]
    middle = nr.simulate(nr.Referral(agent.fresh(), expert, 1.3), world, 400, [1, 2], every=50)
    assert np.array_equal(study.regret[1], middle.regret)
    assert (np.diff(study.referred, axis=2) >= 0).all()
    assert np.allclose(study.kept_regret[2], alone.final)
    assert (study.kept_regret <= study.certified + 1e-9).all()
    assert np.array_equal(study.saved[1], alone.final - middle.final)
    assert len(str(study).splitlines()) == 5
    figures.referral_figure(study, tmp_path / "study.png")
    assert (tmp_path / "study.png").stat().st_size > 20_000
    asked = nr.referral_study(agent, lambda x: expert, world, 30, [1.3], every=10)
    assert np.array_equal(asked.regret, nr.referral_study(agent, expert, world, 30, [1.3], every=10).regret)
    for changed, message in (
        ({"thresholds": []}, "thresholds must name at least one"),
        ({"thresholds": [-1]}, "thresholds must be a number of at least 0"),
        ({"every": 99}, "every must be at most episodes = 30, got 99"),
    ):
        with pytest.raises(ValueError, match=message):
            nr.referral_study(agent, expert, world, 30, **{"thresholds": [1.0], **changed})


def test_command(tmp_path, monkeypatch, capsys):
    from noregret.cli.referral import referral

    monkeypatch.chdir(tmp_path)
    world = "random-logit:n_states=3:n_actions=2:horizon=2:context_dim=2"
    referral("certified-glm-orl:delta=0.1", world, expert="uniform-random", threshold="0.5,1", episodes=200, seeds=2)
    said = capsys.readouterr().out
    for word in (
        "refers to uniform-random",
        "agent alone",
        "expert alone",
        "saved",
        "referral.png",
        "referral.parquet",
    ):
        assert word in said
    assert (tmp_path / "results" / "referral.parquet").exists()
    with pytest.raises(ValueError, match="agent must be one with certificates"):
        referral("glm-orl", world, threshold="1", episodes=20, seeds=1)
    with pytest.raises(ValueError, match="threshold must be comma-separated numbers"):
        referral("certified-glm-orl", world, threshold="low", episodes=20, seeds=1)


def test_policies_by_name():
    """An expert's policy in names, or in names and numbers, is the policy in numbers; what is wrong is named."""
    world = nr.worlds.clinic()
    H, x = world.problem.horizon, world.context(seed=0, episode=0)
    numbers, names = [[0, 1, 1, 2]] * H, [["wait", "drug A", 1, "drug B"]] * H
    for rule in (names, np.array(names, object), np.array([["wait", "drug A", "drug A", "drug B"]] * H)):
        team = nr.Referral(nr.CertifiedPSRL(world.problem), rule, threshold=0.0)
        assert team.begin_episode(x).policy.tolist() == numbers
        assert team.agent.certify(x, rule).policy.tolist() == numbers
    asked = nr.Referral(nr.CertifiedPSRL(world.problem), lambda x: names, threshold=0.0)
    assert asked.begin_episode(x).policy.tolist() == numbers
    with pytest.raises(ValueError, match=r"expert\[0, 1\] must be an action number from 0 to 2 or one of wait, drug A"):
        nr.Referral(nr.CertifiedPSRL(world.problem), [["wait", "drug C", 1, 1]] * H, threshold=0.0)
