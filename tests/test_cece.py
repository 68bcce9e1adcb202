"""CECE, which clusters episodes and classifies the running one, and what an agent with a pause is in a run."""

import math

import numpy as np
import pytest

import noregret as nr
import reference as ref
from noregret.agents.baselines.rmax import cece
from test_rmax import Twin, backward


class CeceTwin(Twin):
    """Everything from the list of past episodes, the clusters' weights on them and the models fitted last."""

    def __init__(self, problem, seed, clusters=2, explore=1, recluster=100, memory=1000, rounds=10, smoothing=1.0,
                 use_rewards=True):  # fmt: skip
        super().__init__(problem, seed)
        self.C, self.T, self.L, self.B, self.rounds = clusters, explore, recluster, memory, rounds
        self.c, self.use_rewards, self.weights = smoothing, use_rewards, []
        P = self.support / np.maximum(self.support.sum(2, keepdims=True), 1)
        self.models = [(1 / clusters, P, np.full((self.S, self.A), 0.5))] * clusters

    def log_likelihood(self, model, steps):
        share, P, mean = model
        total = math.log(share)
        for s, a, r, y in steps:
            total += math.log(P[s, a, y])
            if self.use_rewards and not math.isnan(r):
                total += r * math.log(mean[s, a]) + (1 - r) * math.log(1 - mean[s, a])
        return total

    def posterior(self, steps):
        logs = np.array([self.log_likelihood(model, steps) for model in self.models])
        odds = np.exp(logs - logs.max())
        return odds / odds.sum()

    def fit(self, episodes, weights):
        made = []
        for c in range(self.C):
            n, total, rated = (
                self.c * self.support,
                np.full((self.S, self.A), self.c),
                np.full((self.S, self.A), 2 * self.c),
            )
            for steps, w in zip(episodes, weights, strict=True):
                for s, a, r, y in steps:
                    n[s, a, y] += w[c]
                    if not math.isnan(r):
                        total[s, a] += w[c] * r
                        rated[s, a] += w[c]
            share = (self.c + sum(w[c] for w in weights)) / (len(weights) + self.C * self.c)
            made.append((share, n / np.maximum(n.sum(2, keepdims=True), 1e-300), total / rated))
        return made

    def plan(self, x, k):
        _, P, mean = max(self.models, key=lambda model: model[0])
        policy, V = backward(P, mean, self.available, self.H, self.seed, k, False)
        return self.explore(policy, k, self.T), V

    def replan(self, steps, k):
        logs = [self.log_likelihood(model, steps) for model in self.models]
        _, P, mean = self.models[int(np.argmax(logs))]
        return backward(P, mean, self.available, self.H, self.seed, k, False)

    def learn(self, x, steps):
        k = len(self.past)
        self.past.append((x, steps))
        u, _ = ref.uniforms(self.seed, k, self.H * self.S, ref.EXPLORE)
        self.weights.append(np.eye(self.C)[int(u * self.C)] if k < self.L else self.posterior(steps))
        if (k + 1) % self.L == 0:
            kept = [steps for _, steps in self.past[-self.B :]]
            for _ in range(self.rounds):
                self.models = self.fit(kept, self.weights[-self.B :])
                self.weights[-self.B :] = [self.posterior(steps) for steps in kept]


@pytest.mark.parametrize(
    "options",
    [
        {"recluster": 12, "memory": 30, "rounds": 4},
        {"clusters": 3, "explore": 2, "recluster": 10, "rounds": 3, "smoothing": 0.3, "use_rewards": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("where", ["logit", "linear", "clinic"])
def test_cece_is_its_formula(where, options):
    """Plans before and after the pause; some rewards are not seen."""
    world = {
        "logit": lambda: nr.worlds.random_logit(3, 2, 4, 2, seed=1),
        "linear": lambda: nr.worlds.random_linear(3, 2, 4, 2, seed=1),
        "clinic": nr.worlds.clinic,
    }[where]()
    agent, twin = nr.agents.CECE(world.problem, **options, seed=2), CeceTwin(world.problem, 2, **options)
    changed = 0
    for k in range(60):
        someone = world.individual(k, 5)
        plan, (policy, V) = agent.begin_episode(someone.context), twin.plan(someone.context, k)
        assert np.allclose(plan.values, V, rtol=0, atol=1e-9), k
        assert np.array_equal(plan.policy, policy), k
        steps = []
        for h in range(world.problem.horizon):
            if h == agent.pause:
                rows, values = twin.replan(steps, k)
                policy[h:] = rows[h:]
                assert np.array_equal(agent.policy, policy), k
                assert np.allclose(agent._out.values, values, rtol=0, atol=1e-9), k
                changed += not np.array_equal(policy, plan.policy)
            s = someone.state
            a = agent.act(s)
            assert a == policy[h, s]
            r, y = someone.step(a)
            r = math.nan if (k + h) % 7 == 0 else r
            agent.observe(r, y)
            steps.append((s, a, r, y))
        agent.end_episode()
        twin.learn(np.array(someone.context), steps)
    assert changed > 3
    assert np.allclose(agent.state.share, [model[0] for model in twin.models], rtol=0, atol=1e-9)
    assert np.allclose(agent.state.r, [model[2] for model in twin.models], rtol=0, atol=1e-9)


# An agent with a pause ------------------------------------------------------------------------------------------------
def two_kinds(horizon=8):
    """The clinic with middle-aged patients of either marker, who need opposite drugs; the learner is not told which."""
    base = nr.worlds.clinic(horizon)
    middle = base.contexts.support[np.abs(base.contexts.support[:, 1]) < 1e-9]
    return nr.World(base.problem, base.weights, base.reward_weights, middle, initial_state="moderate")


def test_the_regret_of_two_parts_is_right_on_average():
    """The same agent, context and first policy with many lucks: the recorded regret, which depends on the states that
    were reached, averages to V* - (exact value of the two-part behaviour), summed over all histories of the first part.
    Means over 4000 lucks, tolerance five standard errors: wrong with probability below 1e-6."""
    world = two_kinds(4)
    p, T = world.problem, 2
    agent = nr.agents.CECE(p, explore=T, recluster=20, seed=0)
    nr.simulate(agent, world, 1)
    for k in range(60):
        someone = world.individual(k, 0)
        agent.begin_episode(someone.context)
        for _ in range(p.horizon):
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
    x = world.context(0, 60)
    P, r, best = world.transitions(x), world.rewards(x), world.optimal(x).values
    agent.begin_episode(x)
    first = agent.policy
    agent.end_episode()

    def suffix(states, rewards):
        """Values of the rest of the plan after this first part."""
        path = agent._path
        path.states[: T + 1], path.rewards[:T] = states, rewards
        path.actions[:T] = [first[h, s] for h, s in enumerate(states[:-1])]
        agent._out.policy[:] = first
        cece.replan(agent.par, agent.state, agent.work, x, 60, T, path, agent._out)
        return world.values(agent.policy, x)

    def exact(h, states, rewards):
        if h == T:
            return suffix(states, rewards)[T, states[-1]]
        s = states[-1]
        a, total = first[h, s], r[s, first[h, s]]
        for y in np.flatnonzero(P[s, a] > 0):
            for seen, chance in ((1.0, r[s, a]), (0.0, 1 - r[s, a])):
                total += P[s, a, y] * chance * exact(h + 1, [*states, y], [*rewards, seen])
        return total

    start = world.start(0, 0)
    g, recorded = np.random.default_rng(0), []
    known = {}
    for _ in range(4000):
        states, rewards, lost = [start], [], 0.0
        for h in range(T):
            s = states[-1]
            a = first[h, s]
            lost += best[h, s] - r[s, a] - P[s, a] @ best[h + 1]
            rewards.append(float(g.random() < r[s, a]))
            states.append(int(g.choice(p.n_states, p=P[s, a])))
        key = (*states, *rewards)
        if key not in known:
            known[key] = suffix(states, rewards)[T, states[-1]]
        recorded.append(lost + best[T, states[-1]] - known[key])
    assert min(recorded) >= -1e-12
    wanted = best[0, start] - exact(0, [start], [])
    assert np.std(recorded) > 0
    assert abs(np.mean(recorded) - wanted) <= 5 * np.std(recorded) / math.sqrt(4000)


def test_fused_and_live_agree_and_diagnostics_work():
    world = two_kinds()
    agent = nr.agents.CECE(world.problem, explore=3, recluster=25)
    fused = nr.simulate(agent, world, 200, seeds=3)
    assert np.array_equal(fused.regret, nr.simulate(agent, world, 200, seeds=3, compiled=False).regret)
    watched = nr.simulate(agent, world, 200, seeds=3, diagnostics=True, epsilon=0.5)
    assert np.array_equal(fused.regret, watched.regret)
    assert set(watched.diagnostics) == {"optimism_failures", "steps", "mistakes"}


@pytest.mark.parametrize("stop", [0, 1, 2, 3])
def test_saved_before_at_and_after_the_pause(stop, tmp_path):
    world = two_kinds()
    one = nr.agents.CECE(world.problem, explore=2, recluster=10)
    for k in range(30):
        someone = world.individual(k, 1)
        one.begin_episode(someone.context)
        for h in range(8):
            if k == 29 and h == stop:
                one.save(tmp_path / "a.npz")
                two = nr.load(tmp_path / "a.npz")
            action = one.act(someone.state)
            if k == 29 and h >= stop:
                assert two.act(someone.state) == action
            outcome = someone.step(action)
            one.observe(*outcome)
            if k == 29 and h >= stop:
                two.observe(*outcome)
                assert np.array_equal(one.policy, two.policy)
        one.end_episode()
    two.end_episode()
    for u, v in zip(one.state, two.state, strict=True):
        assert np.array_equal(u, v)


@pytest.mark.long
@pytest.mark.deep
def test_cece_tells_kinds_apart_and_beats_uniform_play_and_one_model_for_all():
    """Eight seeds. Regret per episode over the last tenth: below 0.65 of uniform play's, and below that of the same
    agent with a single cluster, on every seed; after clustering the kinds of most remembered episodes are found."""
    world = two_kinds()
    uniform = nr.simulate(nr.UniformRandom(world.problem), world, 3000, seeds=4, every=100).late.mean()
    run = nr.simulate(nr.agents.CECE(world.problem, explore=2), world, 4000, seeds=8, every=100)
    blind = nr.simulate(nr.agents.CECE(world.problem, clusters=1, explore=2), world, 4000, seeds=8, every=100)
    assert run.late.max() <= 0.65 * uniform
    assert run.late.max() < blind.late.min()
    assert (run.late < run.regret[:, 0] / 100).all()
    agent = nr.agents.CECE(world.problem, explore=2)
    marker = []
    for k in range(1000):
        someone = world.individual(k, 3)
        agent.begin_episode(someone.context)
        for _ in range(8):
            agent.observe(*someone.step(agent.act(someone.state)))
        agent.end_episode()
        marker.append(someone.context[2] > 0)
    right = (agent.state.weights.argmax(1) == np.array(marker)).mean()
    assert max(right, 1 - right) > 0.8


def test_the_observed_context_is_not_used():
    world = two_kinds()
    plans = []
    for swap in (1.0, -1.0):
        agent = nr.agents.CECE(world.problem, recluster=10, seed=1)
        for k in range(25):
            someone = world.individual(k, 1)
            plans.append(agent.begin_episode(someone.context * [1.0, 1.0, swap]).policy)
            for _ in range(8):
                agent.observe(*someone.step(agent.act(someone.state)))
            agent.end_episode()
    assert np.array_equal(plans[:25], plans[25:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"explore": 8}, "explore must be below horizon = 8, got 8"),
        ({"explore": 0}, "explore must be an integer of at least 1, got 0"),
        ({"memory": 50}, "memory must be at least recluster = 100, got 50"),
        ({"clusters": 0}, "clusters must be an integer of at least 1, got 0"),
        ({"smoothing": -1}, "smoothing must be a positive number, got -1"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        nr.make_agent("cece", two_kinds().problem, **options)
