"""Live agents, met person by person, for several test modules."""

import math

import numpy as np

import noregret as nr


def follow(agent, learner, world, episodes, close):
    """Agent and reference learner meet the same people, in episodes that end early and with rewards that are not seen:
    they must plan alike all the way."""
    g = np.random.default_rng(0)
    for k in range(episodes):
        person = world.individual(k, 0)
        plan = agent.begin_episode(person.context)
        policy, values = learner.plan(person.context, k)
        assert np.array_equal(plan.policy, policy)
        close(plan.values, values)
        path = []
        for h in range(g.integers(0, world.problem.horizon + 1)):
            state = person.state
            assert agent.act(state) == policy[h, state]
            reward, after = person.step(policy[h, state])
            reward = math.nan if g.random() < 0.4 else reward
            agent.observe(reward, after)
            path.append((state, policy[h, state], reward, after))
        agent.end_episode()
        learner.learn(person.context, path)


def regret_by_verbs(agent, world, episodes, seed):
    """What an agent has lost that met so many people verb by verb, as `simulate` adds it up."""
    regret = 0.0
    for k in range(episodes):
        person = world.individual(k, seed)
        x = person.context
        plan = agent.begin_episode(x)
        regret += world.optimal(x).values[0, person.state] - world.values(plan.policy, x)[0, person.state]
        while person.steps < world.problem.horizon:
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
    return regret


def saved_and_continued(agent, world, path, seed, episodes=12, at=6):
    """Play, save in the middle of a step of episode `at`, load, and play on with both: (agent, loaded), after checking
    that they agreed in every plan and decision."""
    other = None
    for k in range(episodes):
        person = world.individual(k, seed)
        plan = agent.begin_episode(person.context)
        if k == at:
            agent.act(person.state)
            agent.save(path)
            other = nr.load(path)
        elif k > at:
            same = other.begin_episode(person.context)
            assert np.array_equal(same.policy, plan.policy)
            assert np.array_equal(same.values, plan.values)
        for _ in range(world.problem.horizon):
            state = person.state
            action = agent.act(state)
            seen = person.step(action)
            agent.observe(*seen)
            if k >= at:
                assert other.act(state) == action
                other.observe(*seen)
        agent.end_episode()
        if k >= at:
            other.end_episode()
    return agent, other


# Every agent, small ------------------------------------------------------------------------------------------------
SMALL = {
    "cece": {"recluster": 5, "memory": 20},
    "lsvi-ucb": {"memory": 8, "bonus_scale": 0.001},
    "cover-rmax": {"m": 2, "r0": 0.5, "max_balls": 3},
    "ucrl2": {"bonus_scale": 0.01},
    "ucbvi-ch": {"bonus_scale": 0.01},
}
# In a world whose pairs share weights
DESIGNED = (
    "certified-psrl-design", "certified-psrl-design-stored", "glm-orl-design", "glm-rlsvi-design",
    "epsilon-greedy-design",
)  # fmt: skip
COMPOSED = (
    "fixed-policy", "certified", "certified-psrl-stored", "certified-stored", "referral", "referral-function",
    "certified-psrl-lottery",
    "conservative", "conservative-function",
    *DESIGNED,
)  # fmt: skip
BANDITS = ("oful", "linucb", "glm-ucb", "ol2m", "gloc", "ofuglb", "glb-omd")
EVERYONE = (*nr.agents.names(), *COMPOSED)


def table_of(problem):
    """Some policy."""
    return np.tile(problem.layout.available.argmax(1), (problem.horizon, 1))


def place(name):
    """A small world the agent is for."""
    if name in BANDITS:
        linear = name in ("oful", "linucb")
        return nr.worlds.random_logit(2, 2, 1, 2, seed=2) if linear else nr.worlds.bandit_logistic(2, 2)
    if name == "kwik-lr-rmax":
        return nr.worlds.random_linear(3, 2, 3, 2, seed=2)
    if name in DESIGNED:
        psi = np.stack([np.ones((3, 2)), np.linspace(-1.0, 1.0, 6).reshape(3, 2)], axis=-1) / np.sqrt(2.0)
        design = nr.worlds.random_design(3, 2, features=3, blocks=2, bound=2.0)
        return nr.worlds.random_logit(
            horizon=3, context_dim=2, design=design, reward_design=nr.RewardDesign(psi, 2.0), seed=2
        )
    return nr.worlds.random_logit(3, 2, 3, 2, seed=2)


def make(name, world, seed=3):
    """The agent `name`, of EVERYONE, with small memories."""
    p = world.problem
    if name == "fixed-policy":
        return nr.agents.FixedPolicy(p, table_of(p), seed=seed)
    if name == "certified":
        return nr.Certified(nr.PSRLGLM(p, seed=seed))
    if name == "certified-psrl-design":
        return nr.CertifiedPSRL(p, seed=seed)
    if name in ("certified-psrl-stored", "certified-psrl-design-stored"):
        return nr.CertifiedPSRL(p, sets="stored", seed=seed)
    if name == "certified-psrl-lottery":
        return nr.CertifiedPSRL(p, sets="stored", plans=2, floor=0.2, seed=seed)
    if name == "certified-stored":
        return nr.Certified(nr.PSRLGLM(p, seed=seed), sets="stored-plain", bonus="taylor", reward_sets="bernstein")
    if name.startswith("referral"):
        expert = nr.UniformRandom(p, seed=seed) if name == "referral" else lambda x: table_of(p)
        return nr.Referral(nr.CertifiedPSRL(p, seed=seed), expert, 2.5)
    if name.startswith("conservative"):
        baseline = nr.UniformRandom(p, seed=seed) if name == "conservative" else lambda x: table_of(p)
        return nr.Conservative(nr.CertifiedPSRL(p, seed=seed), baseline, 0.5)
    name = name.removesuffix("-design")
    told = {"weights": world.weights, "reward_weights": world.reward_weights} if name == "oracle" else {}
    return nr.make_agent(name, p, seed=seed, **told, **SMALL.get(name, {}))


def played(agent, world, episodes, seed=3, g=None):
    """Live episodes, cut short and with rewards missing by `g`; what was done."""
    done = []
    for k in episodes:
        person = world.individual(k, seed)
        agent.begin_episode(person.context)
        steps = world.problem.horizon if g is None else int(g.integers(0, world.problem.horizon + 1))
        for _ in range(steps):
            done.append(agent.act(person.state))
            reward, after = person.step(done[-1])
            agent.observe(math.nan if g is not None and g.random() < 0.2 else reward, after)
        agent.end_episode()
    return done


def arrays_of(agent):
    """Copies of all arrays of the state, by name, without the room that nobody has taken."""
    arrays = nr.agents.contents.contents(agent)[1]
    return {name: np.array(a) for name, a in arrays.items() if name.startswith("state.")}


def differing(a, b):
    """Names of arrays that are not equal to the bit."""
    return {name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)}


def steps_of(world, episodes, seed=5):
    """A log of uniform play as columns, and as (context, steps)."""
    columns = {c: [] for c in ("episode", "step", "state", "action", "reward", "next_state")}
    columns |= {f"x{j}": [] for j in range(world.problem.context_dim)}
    rows, g = [], np.random.default_rng(seed)
    for k in range(episodes):
        person, path = world.individual(k, seed), []
        for h in range(world.problem.horizon):
            s = person.state
            a = int(g.choice(np.flatnonzero(world.problem.layout.available[s])))
            r, after = person.step(a)
            path.append((s, a, r, after))
            for name, value in zip(columns, (k, h, *path[-1], *person.context), strict=True):
                columns[name].append(value)
        rows.append((person.context, path))
    return columns, rows


def random_play(world, people, seed=0):
    """A table of the steps of `UniformRandom`, with the names of the features where there are some."""
    agent, p, rows = nr.UniformRandom(world.problem, seed=seed), world.problem, []
    for k in range(people):
        person = world.individual(k, seed)
        agent.begin_episode(person.context)
        while person.steps < p.horizon:
            h, s = person.steps, person.state
            a = agent.act(s)
            r, after = person.step(a)
            agent.observe(r, after)
            rows.append((k, h, s, a, r, after, *person.context))
        agent.end_episode()
    features = p.feature_names or [f"x{j}" for j in range(p.context_dim)]
    names = ("episode", "step", "state", "action", "reward", "next_state", *features)
    return dict(zip(names, zip(*rows, strict=True), strict=True))
