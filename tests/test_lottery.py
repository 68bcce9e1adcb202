"""Lotteries over plans with a floor: exact probabilities, the value of the draw, and bounds for it.

The exact test. If the chance of action a given the past is p, the product over decisions of e^{c 1{a taken}}/(1 + p
(e^c - 1)) is a nonnegative martingale of mean 1 for every c and every choice, by the past, of the decisions that count:
those whose p lies in a bin. The mean over actions, bins and c of these products has mean 1 as well, so it is above 1e6
with probability at most 1e-6 (Markov's inequality; at all times together by Ville's): a computed error, no
approximation. Chances that are wrong for some decisions, or noisy, make it large."""

import itertools
import math

import numpy as np
import pytest

import noregret as nr
from noregret.agents.lottery import STREAM, price, step_chances
from noregret.planning.optimism import bonus
from noregret.planning.randomised import bound_randomised, shortfall_randomised
from noregret.simulation.logs import written

BINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 1.0)
TILTS = (-1.0, -0.3, -0.1, 0.1, 0.3, 1.0)


def log_wealth(chances, actions):
    """Of the exact test: chances [n, A], actions [n]."""
    found = []
    for a, c in itertools.product(range(chances.shape[1]), TILTS):
        p, taken = chances[:, a], actions == a
        if (taken & (p <= 0.0)).any() or (~taken & (p >= 1.0 + 1e-9)).any():
            return math.inf
        gain = c * taken - np.log1p(np.minimum(p, 1.0) * math.expm1(c))
        where = np.digitize(p, BINS)
        found += [gain[where == b].sum() for b in range(1, len(BINS) + 1)]
    top = max(found)
    return top + math.log(np.mean(np.exp(np.array(found) - top)))


def small(**options):
    return nr.worlds.random_logit(3, 3, 3, 2, seed=4, **options)


def masked():
    """Some actions are not available."""
    available = np.ones((3, 3), bool)
    available[0, 2] = available[2, :2] = False
    p = nr.Problem(3, 3, 3, 2, weight_bound=6.0, reward_bound=1.0, available=available)
    g = np.random.default_rng(0)
    return nr.World(p, g.normal(size=(3, 3, 3, 2)), g.uniform(0.2, 0.6, size=(3, 3, 2)), nr.contexts.Simplex(2))


def chances_by_hand(plans, floor, available, path, others):
    """P(a | past) [n, A] along a path of (state, action), from the formula."""
    w, made = [1.0 / len(plans)] * len(plans), []
    for h, (s, a) in enumerate(path):

        def p(i, b, h=h, s=s):
            random = floor / available[s].sum() if available[s, b] else 0.0
            return random + (1.0 - floor) * (plans[i][h][s] == b)

        made.append([sum(w[i] * p(i, b) for i in range(len(plans))) for b in range(available.shape[1])])
        if not others[h]:
            w = [w[i] * p(i, a) / made[-1][a] for i in range(len(plans))]
    return np.array(made)


def test_weights_follow_bayes_rule_and_paths_have_the_product():
    """Against the formula in plain Python, and against the draw itself: an index and an action for every (h, s)."""
    world, g = masked(), np.random.default_rng(1)
    may = world.problem.layout.available
    for trial in range(40):
        floor = (0.0, 0.3, 1.0)[trial % 3]
        plans = np.array([[[g.choice(np.flatnonzero(may[s])) for s in range(3)] for _ in range(3)] for _ in range(4)])
        states, others = g.integers(0, 3, 3), g.random(3) < (0.0 if trial % 2 else 0.4)
        i = g.integers(4)
        path = [(s, int(plans[i][h][s])) for h, s in enumerate(states)]
        actions = np.array([a for _, a in path])
        wanted = chances_by_hand(plans, floor, may, path, others)
        for h in range(3):
            found = step_chances(plans, floor, may, (states[:h], actions[:h], others[:h]), int(states[h]))
            assert np.allclose(found, wanted[h], rtol=0, atol=1e-12)
        if not others.any():  # the sum over what can be drawn: plans, and at each step the plan's action or any
            whole = 0.0
            for j in range(4):
                each = [floor / may[s].sum() + (1 - floor) * (plans[j][h][s] == a) for h, (s, a) in enumerate(path)]
                whole += math.prod(each) / 4
            assert math.isclose(whole, math.prod(wanted[np.arange(3), actions]), rel_tol=1e-12)


def values_by_hand(world, x, plans, floor):
    """[H+1, S], the mean over plans of their values with a floor."""
    P, r, may = world.transitions(x), world.rewards(x), world.problem.layout.available
    H, S = plans.shape[1:]
    total = np.zeros((H + 1, S))
    for policy in plans:
        V = np.zeros((H + 1, S))
        for h in range(H - 1, -1, -1):
            Q = r + P @ V[h + 1]
            mean = (np.where(may, Q, 0.0)).sum(1) / may.sum(1)
            V[h] = (1 - floor) * Q[np.arange(S), policy[h]] + floor * mean
        total += V / len(plans)
    return total


def by_verbs(agent, world, people, seed, check=None):
    """(regret of the draws, chances [n, H, A], actions [n, H]), met verb by verb."""
    regret, H = 0.0, world.problem.horizon
    chances, actions = np.zeros((people, H, world.problem.n_actions)), np.zeros((people, H), int)
    for k in range(people):
        person = world.individual(k, seed)
        plan = agent.begin_episode(person.context)
        own = values_by_hand(world, person.context, plan.plans, plan.floor)[0, person.state]
        regret += world.optimal(person.context).values[0, person.state] - own
        if check is not None:
            check(plan, person, own)
        for h in range(H):
            said = agent.action_probabilities(person.state)
            assert said.exact
            assert said.draws == len(plan.plans)
            assert not said.error.any()
            chances[k, h], actions[k, h] = said.probabilities, agent.act(person.state)
            agent.observe(*person.step(int(actions[k, h])))
        agent.end_episode()
    return regret, chances, actions


AGENTS = {
    "adaptive": lambda p: nr.PSRLGLM(p, plans=3, floor=0.2),
    "floor alone": lambda p: nr.PSRLGLM(p, floor=0.2),
    "certified-psrl": lambda p: nr.CertifiedPSRL(p, plans=3, floor=0.2, certificates="close"),
    "posterior": lambda p: nr.PSRLGLM(p, plans=3, floor=0.2, exploration="posterior"),
    "certified": lambda p: nr.Certified(nr.PSRLGLM(p, plans=3, floor=0.2)),
    "referral": lambda p: nr.Referral(nr.CertifiedPSRL(p, plans=3, floor=0.2), rule_of(p), 2.99),
    "lotteries": lambda p: nr.Referral(nr.CertifiedPSRL(p, plans=3), nr.PSRLGLM(p, plans=3, floor=0.5), 2.99),
}


def rule_of(p):
    return np.tile(p.layout.available.argmax(1), (p.horizon, 1))


@pytest.mark.study(first=3)
@pytest.mark.parametrize("kind", AGENTS)
def test_verbs_the_compiled_loop_and_the_log_are_one(kind):
    """Regret is that of the draw, computed by hand; chances and actions are the same to 1e-12 and to the bit."""
    world = masked()
    agent, n = AGENTS[kind](world.problem), 25
    regret, chances, actions = by_verbs(agent.fresh(5), world, n, 5)
    assert math.isclose(nr.simulate(agent, world, n, [5]).final[0], regret, rel_tol=1e-9)
    assert math.isclose(nr.simulate(agent, world, n, [5], compiled=False).final[0], regret, rel_tol=1e-9)
    _, kept, _ = written(agent, world, n, 5)
    assert np.array_equal(kept.actions, actions)
    assert np.allclose(kept.chances, chances, rtol=0, atol=1e-12)
    log = nr.logged(agent, world, n, 5)
    assert np.allclose([e.probabilities for e in log], np.take_along_axis(chances, actions[..., None], 2)[..., 0])
    assert [len(set(e.actions.tolist())) for e in log]
    assert log.problem is world.problem
    floor = 0.2 if kind not in ("referral", "lotteries") else 0.0
    assert (kept.chances[world.problem.layout.available[kept.states[:, :-1]]] >= floor / 3 - 1e-12).all()


def test_the_first_plan_is_that_of_the_agent_alone():
    """And the others are those of other streams of the same seed."""
    world = small()
    x = world.context(0, 0)
    for cls in (nr.PSRLGLM, nr.CertifiedPSRL):
        alone, several = cls(world.problem, seed=2), cls(world.problem, seed=2, plans=40)
        plan = several.begin_episode(x)
        assert np.array_equal(plan.plans[0], alone.begin_episode(x).policy)
        assert any(not np.array_equal(plan.plans[0], other) for other in plan.plans[1:])
        assert any(np.array_equal(plan.policy, one) for one in plan.plans)
        assert cls(world.problem).begin_episode(x).plans is None
        other = nr.PSRLGLM(world.problem, seed=2)
        other.met(STREAM)  # plan 1 has the random numbers of that episode
        if cls is nr.PSRLGLM:
            assert np.array_equal(plan.plans[1], other.begin_episode(x).policy)


@pytest.mark.long
def test_actions_drawn_agree_with_their_chances():
    """The exact test on 30,000 decisions of an agent that learns; error probability 1e-6. Chances that are noisy, or
    those of a lottery without its memory, fail it."""
    world = small()
    _, kept, _ = written(nr.PSRLGLM(world.problem, plans=4, floor=0.1), world, 10_000, 3)
    chances, actions = kept.chances.reshape(-1, 3), kept.actions.ravel()
    assert log_wealth(chances, actions) < math.log(1e6)
    g = np.random.default_rng(0)
    drawn = np.array([g.multinomial(50, p) for p in chances / chances.sum(1, keepdims=True)]) / 50  # what estimates are
    assert log_wealth(drawn, actions) > math.log(1e6)
    assert log_wealth(*estimated(world, 60, 20)) == math.inf


@pytest.mark.slow
def test_a_million_decisions_agree_and_the_estimate_does_not():
    """As above, on 10^6 decisions each of two agents. The estimate of an agent without a lottery, from 200 other draws,
    calls impossible what was done: within a hundred people."""
    world = nr.worlds.clinic()
    for agent in (nr.PSRLGLM(world.problem, plans=8, floor=0.05), nr.CertifiedPSRL(world.problem, plans=3)):
        _, kept, _ = written(agent, world, 170_000, 1)
        assert kept.actions.size > 10**6
        wealth = log_wealth(kept.chances.reshape(-1, 3), kept.actions.ravel())
        print(f"{agent.label}: log-wealth {wealth:.1f} after {kept.actions.size:,} decisions")
        assert wealth < math.log(1e6)
    assert log_wealth(*estimated(world, 100, 200)) == math.inf


def estimated(world, people, draws):
    """(chances [n, A], actions [n]) of an agent without a lottery, by other draws than the one that is played."""
    agent, chances, actions = nr.PSRLGLM(world.problem), [], []
    for k in range(people):
        person = world.individual(k, 1)
        agent.begin_episode(person.context)
        while person.steps < world.problem.horizon:
            said = agent.action_probabilities(person.state, draws=draws)
            action = agent.act(person.state)
            if said.draws:
                chances.append(said.probabilities)
                actions.append(action)
            agent.observe(*person.step(action))
        agent.end_episode()
    return np.array(chances), np.array(actions)


def test_the_value_of_a_lottery_is_that_of_its_paths():
    """The sum over all paths of chance times return, with the weights' recursion, is the mean over plans."""
    world, floor = masked(), 0.3
    x, may, g = world.context(0, 0), world.problem.layout.available, np.random.default_rng(2)
    plans = np.array([[[g.choice(np.flatnonzero(may[s])) for s in range(3)] for _ in range(3)] for _ in range(3)])
    P, r = world.transitions(x), world.rewards(x)
    total = 0.0
    for actions in itertools.product(range(3), repeat=3):
        for later in itertools.product(range(3), repeat=2):
            states = (0, *later)
            if not may[states, actions].all():
                continue
            p = chances_by_hand(plans, floor, may, list(zip(states, actions, strict=True)), [False] * 3)
            chance = math.prod(p[h, a] for h, a in enumerate(actions))
            chance *= P[0, actions[0], later[0]] * P[later[0], actions[1], later[1]]
            total += chance * sum(r[s, a] for s, a in zip(states, actions, strict=True))
    assert math.isclose(total, values_by_hand(world, x, plans, floor)[0, 0], rel_tol=1e-12)


# Bounds -----------------------------------------------------------------------------------------------------------
def some_chances(world, g):
    may = world.problem.layout.available
    made = g.dirichlet(np.ones(3), size=(3, 3)) * may * (g.random((3, 3, 3)) < 0.7)
    made += 1e-300 * may
    made[0] = np.where(may.cumsum(1) == 1, may, False)  # without a draw at the first step
    return made / made.sum(2, keepdims=True)


@pytest.mark.parametrize("bonus_kind", ["taylor", "sharp"])
def test_bounds_of_randomised_policies_are_what_the_recursions_say(bonus_kind):
    """docs/beyond.md, section 7, in plain Python; and what is asked about is bounded."""
    world, g = masked(), np.random.default_rng(3)
    agent = nr.LRORL(world.problem, bonus=bonus_kind, certificates="close")
    agent.learn_from(nr.logged(nr.UniformRandom(world.problem), world, 150, 1))
    may = world.problem.layout.available
    for k in range(3):
        x, chances = world.context(5, k), some_chances(world, g)
        plan = agent.certify(x, chances)
        work, search = agent.work, agent.par.search
        assert np.array_equal(plan.chances, chances)
        assert (plan.policy == chances.argmax(2)).all()
        top, wide = plan.upper + 0.1, work.search.kept + 0.1  # so that U + C decides somewhere
        work.search.kept[:] = wide
        each, upper, lower, short = np.zeros((3, 3, 3)), np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((4, 3))
        bound_randomised(search, work.local, work.search, chances, each, upper, lower)
        shortfall_randomised(search, work.local, work.search, chances, (each, top, upper, lower), short)
        assert np.allclose(upper, plan.values)
        assert np.allclose(lower, plan.lower)

        def mean(s, a, V, sign, work=work, search=search):
            return work.local.P[s, a] @ V + sign * bonus(search, work.local, s, a, V, sign, work.search)

        U, L, C = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((4, 3))
        for h, s in itertools.product((2, 1, 0), range(3)):
            left, c, open_ = 3.0 - h, chances[h, s], np.flatnonzero(may[s])
            high, low = work.local.high[s], work.local.low[s]
            U[h, s] = sum(c[a] * np.clip(high[a] + mean(s, a, U[h + 1], 1.0), 0, left) for a in open_)
            own = {a: np.clip(low[a] + mean(s, a, L[h + 1], -1.0), 0, left) for a in open_}
            L[h, s] = sum(c[a] * own[a] for a in open_)
            ahead, found = np.minimum(top[h + 1], U[h + 1] + C[h + 1]), [0.0]
            for a in open_:
                B = (
                    min(wide[h, s, a], high[a] + mean(s, a, ahead, 1.0))
                    if (ahead < top[h + 1]).any()
                    else wide[h, s, a]
                )
                same = c[a] * np.clip(mean(s, a, C[h + 1], 1.0), 0, left)
                found.append(same + sum(c[b] * (B - own[b]) for b in open_ if b != a))
            C[h, s] = min(max(found), max(top[h, s] - L[h, s], 0.0))
        assert np.allclose(U, upper, rtol=0, atol=1e-9)
        assert np.allclose(L, lower, rtol=0, atol=1e-9)
        assert np.allclose(C, short, rtol=0, atol=1e-9)
        true = world.values(chances, x)
        assert (plan.lower <= true + 1e-9).all()
        assert (true <= plan.values + 1e-9).all()
        starts = world.problem.starts
        assert (world.optimal(x).values - true)[0][starts].max() <= plan.certificate + 1e-9


def test_a_policy_without_a_draw_is_certified_as_before():
    world = masked()
    agent = nr.LRORL(world.problem)
    agent.learn_from(nr.logged(nr.UniformRandom(world.problem), world, 150, 1))
    for k in range(3):
        x = world.context(5, k)
        policy = world.optimal(x).policy
        one, other = agent.certify(x, policy), agent.certify(x, np.eye(3)[policy])
        for name in ("values", "upper", "lower", "certificate"):
            assert np.allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-12)
        assert np.allclose(world.values(policy, x), world.values(np.eye(3)[policy], x))
        assert np.array_equal(one.chances, other.chances)


@pytest.mark.parametrize("kind", ["certified-psrl", "certified"])
def test_certificates_are_those_of_the_draw(kind):
    """Wherever the sets hold, at every state: checked with the truth at delta = 1e-6; and against `certify` of each
    plan with its floor."""
    world = masked()
    agent = AGENTS[kind](world.problem)
    seen = []

    def check(plan, person, own):
        best = world.optimal(person.context).values[0]
        true = values_by_hand(world, person.context, plan.plans, plan.floor)
        assert (plan.lower <= true + 1e-9).all()
        assert (plan.upper >= world.optimal(person.context).values - 1e-9).all()
        assert (best - true[0])[world.problem.starts].max() <= plan.certificate + 1e-9
        may = world.problem.layout.available
        each = [0.8 * np.eye(3)[one] + 0.2 * may / may.sum(1, keepdims=True) for one in plan.plans]
        lowers = [agent.certify(person.context, one).lower for one in each]
        assert np.allclose(plan.lower, np.mean(lowers, 0), rtol=0, atol=1e-12)
        seen.append(plan.certificate)

    by_verbs(agent, world, 12, 0, check)
    run = nr.simulate(AGENTS[kind](world.problem), world, 300, diagnostics=True, every=300)
    assert run.diagnostics["certificate_failures"][0, -1] <= run.diagnostics["set_failures"][0, -1] == 0.0
    assert len(seen) == 12


def test_what_a_floor_may_cost():
    """No policy loses more by a floor, and in a world where every other action ends all rewards one loses as much."""
    H, floor, g = 3, 0.3, np.random.default_rng(0)
    for _ in range(20):
        world = nr.worlds.random_logit(3, 3, H, 2, seed=int(g.integers(1000)))
        x, policy = world.context(0, 0), g.integers(0, 3, (H, 3))
        chances = (1 - floor) * np.eye(3)[policy] + floor / 3
        assert (world.values(policy, x) - world.values(chances, x))[0].max() <= price(world.problem, floor) + 1e-12
    f = floor * 2 / 3
    lost, alive = 0.0, 1.0  # the policy has 1 at each of H steps; whoever leaves has nothing from that step on
    for h in range(H):
        lost, alive = lost + alive * f * (H - h), alive * (1 - f)
    assert math.isclose(price(world.problem, floor), lost, rel_tol=1e-12)
    agent = nr.CertifiedPSRL(world.problem, plans=2, floor=floor)
    assert f"plus {lost:.4g}, what the floor may cost" in agent.guarantee
    assert "the mean width of its plans" in agent.guarantee
    assert "floor" not in nr.CertifiedPSRL(world.problem, plans=2).guarantee
    drawn = "the shortfall of what is drawn, in the mean over the draw"
    assert drawn in nr.Certified(nr.PSRLGLM(world.problem, plans=2)).guarantee
    assert drawn in nr.Referral(agent, rule_of(world.problem), 1.0).guarantee
    assert "gets a draw that is, in the mean over it, at most 1 worse" in agent._owner.guarantee


@pytest.mark.long
def test_doubt_does_not_look_at_what_was_drawn():
    """Who is referred is decided by the lottery: with one plan and a floor f the doubt is 1 - f times that of the plan
    alone, and f times something between 0 and 1, whatever is drawn."""
    world, kept = masked(), 0
    rule, limit = rule_of(world.problem), 0.55
    for k in range(24):
        x = world.context(1, k)
        for options in ({"floor": 0.2}, {"plans": 3, "floor": 0.2}):
            agent = nr.Referral(nr.PSRLGLM(world.problem, seed=k, **options), rule, limit, "doubt")
            plan = agent.begin_episode(x)
            alone = nr.Referral(nr.PSRLGLM(world.problem, seed=k), rule, limit, "doubt").begin_episode(x)
            if "plans" not in options:
                assert 0.8 * alone.gap - 1e-12 <= plan.gap <= 0.8 * alone.gap + 0.2 + 1e-12
            assert plan.referred == (plan.gap > limit)
            kept += not plan.referred
            if plan.referred:
                assert plan.floor == 0.0
                assert np.array_equal(plan.policy, rule)
                assert agent.action_probabilities(0).probabilities.max() == 1.0
            else:
                assert plan.floor == 0.2
    assert 0 < kept < 48


def test_belief_is_that_of_the_draw():
    """`plan.belief` and the criterion "belief" of `Referral` are about the lottery: with all actions at random they are
    those of uniform play, whatever was drawn."""
    world = masked()
    limit, x, rule = 0.0, world.context(1, 0), rule_of(world.problem)
    gaps = [
        nr.Referral(nr.PSRLGLM(world.problem, seed=3, **options), rule, limit, "belief").begin_episode(x).gap
        for options in ({"floor": 1.0}, {"plans": 3, "floor": 1.0}, {"plans": 3, "floor": 0.1})
    ]
    assert math.isclose(gaps[0], gaps[1], rel_tol=1e-9)
    assert gaps[2] != gaps[1] > 0.0
    agent = nr.PSRLGLM(world.problem, seed=3, plans=3, floor=1.0)
    assert math.isclose(agent.begin_episode(x).belief(39).quantile, gaps[0], rel_tol=1e-9)


# Files, Live, and what cannot be ----------------------------------------------------------------------------------
def test_an_interrupted_episode_goes_on_with_the_same_chances(tmp_path):
    world = masked()
    agent = AGENTS["certified-psrl"](world.problem)
    by_verbs(agent, world, 5, 0)
    person = world.individual(5, 0)
    agent.begin_episode(person.context)
    agent.observe(*person.step(agent.act(person.state)))
    agent.act(person.state, action=int(np.flatnonzero(world.problem.layout.available[person.state])[-1]))
    agent.save(tmp_path / "a.npz")
    again = nr.load(tmp_path / "a.npz")
    reward, state = person.step(int(agent._path.actions[1]))
    for one in (agent, again):
        one.observe(reward, state)
    for s in range(3):
        assert np.array_equal(agent.action_probabilities(s).probabilities, again.action_probabilities(s).probabilities)
    for one in (agent, again):
        one.act(state)
        one.end_episode()
    x = world.context(0, 6)
    assert np.array_equal(agent.begin_episode(x).plans, again.begin_episode(x).plans)


@pytest.mark.parametrize("name", ["plan.plans", "plan.floor"])
def test_files_that_no_lottery_wrote_are_refused(name, tmp_path):
    from noregret.storage.archive import seal, unseal

    agent = AGENTS["floor alone"](masked().problem)
    agent.begin_episode([0.5, 0.5])
    agent.save(tmp_path / "a.npz")
    header, arrays = unseal(tmp_path / "a.npz")
    arrays = {k: v.copy() for k, v in arrays.items()}
    arrays[name].flat[0] = 7
    with open(tmp_path / "b.npz", "wb") as file:
        seal(file, header, arrays)
    with pytest.raises(ValueError, match="out of range"):
        nr.load(tmp_path / "b.npz")


def test_people_open_at_once_keep_their_own_lotteries(tmp_path):
    """Decisions have the chances of the agent's own verbs where one comes after the other; and of each person's own
    plans where all are open together, saved and loaded on the way; they can be made again."""
    world = masked()
    make = AGENTS["referral"]
    verbs = make(world.problem)
    _, chances, actions = by_verbs(verbs, world, 6, 0)
    live = nr.Live(make(world.problem))
    for k in range(6):
        person = world.individual(k, 0)
        live.begin(k, person.context)
        for h in range(3):
            decision = live.act(k, person.state)
            assert decision.action == actions[k, h]
            assert decision.draws == 3
            assert decision.error == 0.0
            assert math.isclose(decision.probability, chances[k, h, decision.action], rel_tol=1e-12)
            live.observe(k, *person.step(decision.action), step=h)
        live.end(k)
    assert "(3 plans)" in str(decision)

    live.agent.save(tmp_path / "before.npz")
    people = [world.individual(k, 0) for k in range(6, 10)]
    plans = [live.begin(k, person.context) for k, person in enumerate(people)]
    paths = [[] for _ in people]
    for h in range(3):
        if h == 1:
            live.save(tmp_path / "live.npz")
            live = nr.Live.load(tmp_path / "live.npz")
        for k, person in enumerate(people):
            other = int(np.flatnonzero(world.problem.layout.available[person.state])[0]) if (h, k) == (0, 1) else None
            decision = live.act(k, person.state, action=other)
            paths[k].append((person.state, decision.action))
            others = [(i, k) == (0, 1) for i in range(h + 1)]
            may = world.problem.layout.available
            wanted = chances_by_hand(plans[k].plans, plans[k].floor, may, paths[k], others)[h, decision.action]
            assert math.isclose(decision.probability, wanted, rel_tol=1e-12, abs_tol=1e-300)
            live.observe(k, *person.step(decision.action), step=h)
    first = nr.Live(nr.load(tmp_path / "before.npz"))
    first.begin("x", people[0].context)
    decision = first.act("x", people[0].state if people[0].steps == 0 else paths[0][0][0])
    assert decision.replay(nr.load(tmp_path / "before.npz")) == decision


def test_the_plan_shows_the_draw():
    world = masked()
    agent = AGENTS["adaptive"](world.problem)
    plan = agent.begin_episode(world.context(0, 0))
    assert plan.plans.shape == (3, 3, 3)
    assert plan.floor == 0.2
    assert np.allclose(plan.chances.sum(2), 1.0)
    assert not plan.chances[:, ~world.problem.layout.available].any()
    assert np.allclose(agent.action_probabilities(0).probabilities, plan.chances[0, 0])
    assert agent.label == "psrl-glm (plans=3, floor=0.2)"


class OwnPlan(nr.PSRLGLM):
    name = "own-plan"

    @staticmethod
    @nr.kernel
    def plan_kernel(par, state, work, x, k, out):
        out.policy[0, 0] = 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: nr.PSRLGLM(p, plans=0), "plans must be an integer of at least 1"),
        (lambda p: nr.PSRLGLM(p, plans=10_000), "plans must be at most 1,024"),
        (lambda p: nr.CertifiedPSRL(p, floor=1.5), "floor must be a number from 0 to 1"),
        (lambda p: OwnPlan(p, floor=0.1), "plans must be 1 and floor 0 in a class with a plan_kernel of its own"),
        (lambda p: nr.Referral(nr.CertifiedPSRL(p), nr.PSRLGLM(p, plans=2), 1.0), "expert must have as many plans"),
        (lambda p: nr.LRORL(p).certify([0.5, 0.5], np.full((3, 3, 3), 0.5)), "policy must be probabilities"),
        (lambda p: nr.LRORL(p).certify([0.5, 0.5], np.full((3, 3, 3), 1 / 3)), "policy takes an action that is not"),
        (lambda p: nr.logged(nr.agents.CECE(p), masked(), 5), "agent must be a compiled noregret agent that"),
        (lambda p: nr.logged(nr.PSRLGLM(p), p, 5), "world must be a noregret.World"),
    ],
)
def test_what_cannot_be_is_said(make, said):
    with pytest.raises(ValueError, match=said):
        make(masked().problem)


def test_agents_without_a_draw_log_what_is_known():
    """Uniform play has its chances; of others nobody knows them."""
    world = masked()
    may = world.problem.layout.available
    for e in nr.logged(nr.UniformRandom(world.problem), world, 20, 0):
        assert np.allclose(e.probabilities, 1.0 / may.sum(1)[e.states[:-1]])
    for e in nr.logged(nr.PSRLGLM(world.problem), world, 5, 0):
        assert np.isnan(e.probabilities).all()
