"""An agent of one's own, in plain Python, certified."""

import numpy as np
import pytest

import noregret as nr
from noregret.agents import draw_model
from noregret.compiler.jit import DISABLED
from noregret.compiler.slots import EMPTY


class Mostly:
    """Takes the action with the better mean reward so far; ties go to the first."""

    label = "mostly"

    def __init__(self, problem, seed=0):
        self.problem, self.seed = problem, seed
        self.sums, self.counts = np.zeros(problem.n_actions), np.ones(problem.n_actions)
        self.calls = []

    def fresh(self, seed):
        return Mostly(self.problem, seed)

    def begin_episode(self, x):
        self.calls.append("begin")
        best = int((self.sums / self.counts).argmax())
        available = self.problem.layout.available
        row = np.where(available[:, best], best, available.argmax(1))
        self.h, self.policy = 0, np.tile(row, (self.problem.horizon, 1))
        return nr.Plan(self.policy, np.zeros((self.problem.horizon + 1, self.problem.n_states)))

    def act(self, state):
        self.calls.append("act")
        self.last = int(self.policy[self.h, state])
        return self.last

    def observe(self, reward, next_state):
        self.calls.append("observe")
        self.sums[self.last] += reward
        self.counts[self.last] += 1
        self.h += 1

    def end_episode(self):
        self.calls.append("end")


def test_plans_of_an_own_agent_are_certified():
    """It plays as it would alone, and every certificate holds."""
    world = nr.worlds.clinic(horizon=3)
    alone, judged = Mostly(world.problem), nr.Certified(Mostly(world.problem))
    for k in range(40):
        one, other = world.individual(k), world.individual(k)
        plan, own = judged.begin_episode(one.context), alone.begin_episode(other.context)
        assert np.array_equal(plan.policy, own.policy)
        short = world.optimal(one.context).values[0, one.state] - world.value(plan.policy, one.context)
        assert short <= plan.certificate + 1e-9
        while one.steps < 3:
            action = judged.act(one.state)
            assert judged.act(one.state) == action == alone.act(other.state)  # asked again, it is not asked again
            judged.observe(*one.step(action))
            alone.observe(*other.step(action))
        judged.end_episode()
        alone.end_episode()
    assert judged.agent.player.calls == alone.calls
    assert "plan.certificate" in judged.guarantee
    assert judged.label == "mostly, certified"


def test_an_own_agent_is_simulated_with_its_certificates():
    world = nr.worlds.clinic(horizon=3)
    runs = [nr.simulate(a, world, 60) for a in (Mostly(world.problem), nr.Certified(Mostly(world.problem)))]
    assert np.array_equal(runs[0].regret, runs[1].regret)
    assert runs[1].guarantee is not None


def test_what_an_own_agent_cannot_do(tmp_path):
    world = nr.worlds.clinic(horizon=3)
    agent = nr.Certified(Mostly(world.problem))
    for refused, said in (
        (lambda: agent.save(tmp_path / "agent.npz"), "save: mostly is an agent of your own"),
        (lambda: nr.Live(agent), "agent must be one of the library's throughout"),
        (lambda: nr.Referral(agent, [[0, 1, 1, 1]] * 3, 1.0), "agent must be compiled throughout"),
        (lambda: agent.learn_from(None), "learn_from: an agent of your own learns from episodes only"),
        (lambda: nr.Certified(object()), "agent must be a compiled noregret agent, or an object with a problem and"),
    ):
        with pytest.raises(ValueError, match=said):
            refused()
    agent.begin_episode(world.context(0, 0))
    with pytest.raises(ValueError, match=r"action must be None: mostly\.act cannot be told what somebody else chose"):
        agent.act(2, action=1)
    assert agent.agent.player.calls == ["begin"]


def test_an_own_agent_that_disagrees_with_its_plan():
    world = nr.worlds.clinic(horizon=3)
    player = Mostly(world.problem)
    agent = nr.Certified(player)
    agent.begin_episode(world.context(0, 0))
    player.policy = 1 - player.policy
    with pytest.raises(ValueError, match="bounds are those of the plan, so both must agree"):
        agent.act(2)


def test_interrupted_before_it_began(monkeypatch):
    """An own agent that has planned for somebody is not asked twice about them."""
    world = nr.worlds.clinic(horizon=3)
    agent = nr.Certified(Mostly(world.problem))
    with monkeypatch.context() as patch:
        patch.setattr(nr.Certified, "make_room", lambda self, n: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            agent.begin_episode(world.context(0, 0))
    agent.begin_episode(world.context(0, 0))
    assert agent.agent.player.calls == ["begin"]
    agent.end_episode()
    with monkeypatch.context() as patch:
        patch.setattr(nr.Certified, "make_room", lambda self, n: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            agent.begin_episode(world.context(0, 1))
    agent.begin_episode(world.context(0, 2))
    assert agent.agent.player.calls == ["begin", "end", "begin", "end", "begin"]


@pytest.mark.parametrize("name", ["psrl", "certified-psrl", "cece"])
def test_a_next_state_outside_the_support_refutes(name, tmp_path):
    """It is no typing error: the support was declared, and is wrong. The steps before it are learned."""
    support = np.ones((3, 2, 3), bool)
    support[0, :, 2] = False
    problem = nr.Problem(3, 2, 3, 2, weight_bound=1.0, reward_bound=1.0, support=support)
    agents = [nr.make_agent(name, problem), nr.make_agent(name, problem)]
    for agent, last in zip(agents, (2, None), strict=True):
        agent.begin_episode([0.6, 0.8])
        agent.act(0, action=1)
        agent.observe(1.0, 0)
        if last is not None:
            agent.act(0, action=1)
            with pytest.warns(UserWarning, match="promises nothing any more"):
                agent.observe(1.0, last)
            agent.save(tmp_path / "agent.npz")
            agent.act(2, action=0)
            agent.observe(1.0, 2)
        agent.end_episode()
    told, cut = agents
    said = "individual 0 went from state 0 with action 1 to state 2, which the problem's support rules out; "
    assert told.refuted == f"{said}their steps from 1 on are not learned"
    assert told.guarantee is None
    assert told.begin_episode([0.6, 0.8]).certificate is None
    leaves = [dict(nr.agents.contents.leaves("state", a.state)) for a in (told, cut)]
    assert all(np.array_equal(leaves[0][key], leaves[1][key]) for key in leaves[0] if not key.endswith("gate"))
    back = nr.load(tmp_path / "agent.npz")
    assert back.refuted == told.refuted
    back.end_episode()
    assert back.episode == 1


@pytest.mark.skipif(DISABLED, reason="needs the compiler")
@pytest.mark.parametrize("kind", [nr.PSRLGLM, nr.CertifiedPSRL])
def test_draws_are_compiled_when_one_is_asked_for(kind):
    """Plans that explore by their uncertainty draw nothing until somebody asks."""
    world = nr.worlds.clinic(horizon=3)
    made = kind(world.problem)
    assert made.par.draw == EMPTY
    team = nr.Referral(made, nr.UniformRandom(world.problem), 0.5, "doubt")
    assert made.par.draw != EMPTY
    assert team.par.agent.draw == made.par.draw
    nr.simulate(team, world, 5)


@pytest.mark.skipif(DISABLED, reason="needs the compiler")
def test_a_class_with_a_plan_of_its_own_can_draw_from_the_beginning():
    @nr.kernel
    def plan(par, state, work, x, k, out):
        draw_model(par, state, work, x, k)

    class Own(nr.PSRLGLM):
        name, plan_kernel = "own", staticmethod(plan)

    world = nr.worlds.clinic(horizon=3)
    own, built_in, x = Own(world.problem), nr.PSRLGLM(world.problem), world.context(0, 0)
    assert own.par.draw != EMPTY
    assert built_in.par.draw == EMPTY
    for one, other in zip(own.draw(x, 3), built_in.draw(x, 3), strict=True):
        assert np.array_equal(one, other)
