"""Agents that learn by a design: one block per pair is the paper's model to the last digits, sets hold, files load."""

import numpy as np
import pytest

import noregret as nr
from live import regret_by_verbs
from noregret.beliefs.local import derive_first_shared, make_rows
from noregret.compiler.jit import kernel
from noregret.estimators.likelihood.shared import natural_regularization, shared_parts
from noregret.estimators.likelihood.shared_visit import learn_shared
from noregret.numerics.linear_algebra import triangle_times
from noregret.planning.optimism import bonus, shortfall
from noregret.planning.shared import bound_shared, largest_first, moved, plan_shared
from reference_shared import SharedSet

TABLES = {
    "states": {"level": [0.0, 0.4, 0.7, 1.0], "home": ["yes", "no", "no", "yes"]},
    "actions": {"dose": [0.0, 0.5, 1.0], "kind": ["none", "drug", "drug"]},
}
CONTEXTS = ("intercept", "age", "sex")
MODERATED = [
    "rise.level by intercept",
    "fall.level * state.home by intercept, sex",
    "action.dose * change.level",
    "action.kind * next.home by age",
]
TERMS = ["rise.level", "fall.level * state.home", "action.dose * change.level", "action.kind * next.home"]


def designed(blocks=(), bound=2.5, support=None, known=False, logistic=False, seed=0, moderated=False):
    """A world whose truth has the norm of the bound."""
    g = np.random.default_rng(seed)
    terms, psi = (MODERATED if moderated else TERMS), ["1", "state.level", "action.kind"]
    if moderated:
        psi = ["1 by intercept", "state.level by intercept, age", "action.kind by intercept, age"]
    design = nr.Design.from_tables(terms, bound, **TABLES, blocks=blocks, contexts=CONTEXTS)
    rewards = nr.RewardDesign.from_tables(psi, 2.0, **TABLES, contexts=CONTEXTS)
    d = 3
    X = np.column_stack([np.ones(40), g.uniform(-1.0, 1.0, (40, d - 1))]) / np.sqrt(d)
    theta = g.standard_normal((design.n_blocks, len(design.names), d))
    theta *= 1.0 if design.moderators is None else design.moderators
    theta *= bound / np.linalg.norm(theta, axis=(1, 2), keepdims=True)
    r = np.zeros((1, 4, d))
    r[0, :, 0] = np.array([0.35, 0.45, 0.0, -0.1]) * np.sqrt(d)
    r[0, 1:, 1] = 0.08 * np.sqrt(d)
    psi = {"known_rewards": rewards.weights(r)} if known else {"reward_design": rewards}
    more = {"rewards": "logistic"} if logistic else {}
    problem = nr.Problem(4, 3, 5, d, design=design, support=support, **psi, **more)
    return nr.World(problem, design.weights(theta), rewards.weights(r), contexts=X)


def mask(seed=0):
    support = np.random.default_rng(seed).random((4, 3, 4)) < 0.6
    support[..., 1] = True
    return support


@pytest.mark.long
@pytest.mark.parametrize("support", [None, mask()], ids=["dense", "masked"])
@pytest.mark.parametrize("rewards", ["linear", "logistic"])
def test_one_block_per_pair_is_the_same_agent(support, rewards):
    S, A, d, B = 4, 2, 3, 2.0
    support = None if support is None else support[:, :A]
    head, more = (S, A, 4, d), {"weight_bound": B, "support": support, "rewards": rewards}
    plain = nr.Problem(*head, reward_bound=1.5, **more)
    n = plain.layout.count
    norms = np.sqrt(np.where(n == 2, 0.5, n - 1.0)) * B  # of centred weights (docs/beyond.md, notation)
    designs = {"design": nr.Design.per_pair(S, A, np.maximum(norms, 0.1).ravel())}
    designs["reward_design"] = nr.RewardDesign.per_pair(S, A, 1.5)
    shared = nr.Problem(*head, **designs, **more)
    base = nr.worlds.random_logit(S, A, 4, d, B, seed=3)
    theta = base.reward_weights if rewards == "linear" else base.reward_weights - 0.5
    worlds = [nr.World(p, base.weights, theta, base.contexts, misspecified=True) for p in (plain, shared)]
    for options in ({"delta": 0.1}, {"delta": 0.1, "bonus": "sharp"}):
        made = [nr.LRORL(w.problem, regularization=2.0, **options) for w in worlds]
        runs = [nr.simulate(agent, worlds[0], 300, seeds=2) for agent in made]
        assert np.allclose(runs[0].final, runs[1].final, rtol=0, atol=1e-10)
        for agent in made:
            play(agent, worlds[0], 40)
        for agent in made:  # small sets, in which first-order terms decide
            agent.state.transitions.radius[:] /= 400.0
        x = worlds[0].context(0, 100)
        first, second = (agent.begin_episode(x) for agent in made)
        assert np.array_equal(first.policy, second.policy)
        assert np.allclose(first.upper, second.upper, rtol=0, atol=1e-9)
        assert np.allclose(first.lower, second.lower, rtol=0, atol=1e-9)


def play(agent, world, episodes, seed=0):
    for k in range(episodes):
        person = world.individual(k, seed)
        agent.begin_episode(person.context)
        while person.steps < world.problem.horizon:
            agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()


@pytest.mark.parametrize("posterior", [False, True], ids=["set", "posterior"])
@pytest.mark.parametrize("kind", [{}, {"support": mask(3)}, {"moderated": True}], ids=["dense", "masked", "moderated"])
def test_a_block_learns_as_the_formulas_say(posterior, kind):
    world = designed(blocks="action.kind", **kind)
    p, blocks, g = world.problem, world.problem.blocks, np.random.default_rng(5)
    lam = natural_regularization(blocks)
    par, state, work = shared_parts(blocks, p.layout, p.weight_bound, 2.0, lam, posterior=posterior)
    twins = [SharedSet(p, b, float(lam[b]), 2.0, posterior) for b in range(blocks.size.size)]
    for _ in range(400):
        s, a = int(g.integers(4)), int(g.integers(3))
        x = g.standard_normal(3)
        x *= g.uniform(0.1, 1.0) / np.linalg.norm(x)
        y = int(g.integers(p.layout.count[s, a]))
        learn_shared(par, state, work, s, a, y, x)
        twins[blocks.block[s, a]].learn(s, a, y, x)
    for b, twin in enumerate(twins):
        E = int(blocks.start[b, -1])
        assert np.allclose(state.weights[b, :E], twin.theta, rtol=1e-9, atol=1e-10)
        assert np.allclose(state.gram[b, :E, :E], twin.precision, rtol=1e-9, atol=1e-10)
        assert np.allclose(state.inverse[b, :E, :E], np.linalg.inv(twin.precision), rtol=1e-7, atol=1e-9)
        assert abs(state.radius[b] - twin.radius2) < 1e-8


def test_many_outcomes_and_few_features_learn_as_the_formulas_say():
    g = np.random.default_rng(8)
    S, A, d, q = 15, 2, 2, 3
    design = nr.Design(g.standard_normal((S, A, S, q)), 2.0)
    p = nr.Problem(S, A, 3, d, design=design, reward_bound=1.0)
    lam = natural_regularization(p.blocks)
    par, state, work = shared_parts(p.blocks, p.layout, p.weight_bound, 2.0, lam)
    twin = SharedSet(p, 0, float(lam[0]), 2.0, False)
    for _ in range(300):
        s, a, y = int(g.integers(S)), int(g.integers(A)), int(g.integers(S))
        x = g.standard_normal(d)
        x *= g.uniform(0.1, 1.0) / np.linalg.norm(x)
        learn_shared(par, state, work, s, a, y, x)
        twin.learn(s, a, y, x)
    assert np.allclose(state.weights[0], twin.theta, rtol=1e-9, atol=1e-10)
    assert np.allclose(state.gram[0], twin.precision, rtol=1e-9, atol=1e-10)
    assert np.allclose(state.inverse[0], np.linalg.inv(twin.precision), rtol=1e-7, atol=1e-9)
    assert abs(state.radius[0] - twin.radius2) < 1e-8


WORLDS = [
    {},
    {"blocks": "action.kind"},
    {"moderated": True},
    {"blocks": ["state.home", "action"]},
    {"support": mask(1)},
    {"known": True},
    {"logistic": True},
    {"bound": 12.0, "seed": 2},
    {"bound": 0.2, "seed": 3},
]


@pytest.mark.study(first=1)
@pytest.mark.parametrize("kind", WORLDS, ids=lambda k: ", ".join(k) or "one block")
def test_certificates_and_optimism_hold(kind):
    """delta = 0.3: by the promise a whole run may fail with probability 0.3. None of these does, at fixed seeds; what
    follows from the sets (`justified_failures`) never may."""
    world = designed(**kind)
    for cls in (nr.LRORL, nr.CertifiedPSRL):
        run = nr.simulate(cls(world.problem, delta=0.3), world, 400, seeds=4, diagnostics=True)
        counts = run.diagnostics
        assert counts["justified_failures"][:, -1].sum() == 0
        assert counts["set_failures"][:, -1].sum() == 0
        assert counts["optimism_failures"][:, -1].sum() == 0
        assert counts["certificate_failures"][:, -1].sum() == 0


def test_sharing_makes_certificates_smaller_and_regret_lower():
    world = designed()
    apart = nr.Problem(4, 3, 5, 3, weight_bound=world.problem.weight_bound, reward_bound=world.problem.reward_bound)
    agents = [nr.CertifiedPSRL(p, exploration="posterior", kappa=0.5) for p in (world.problem, apart)]
    runs = [nr.simulate(agent, world, 2000, seeds=2, diagnostics=True) for agent in agents]
    assert runs[0].final.mean() < 0.7 * runs[1].final.mean()
    widths = [run.diagnostics["certificate"][:, -1].mean() for run in runs]
    assert widths[0] < 0.8 * widths[1]


@pytest.mark.parametrize("cls", [nr.LRORL, nr.PSRLGLM, nr.CertifiedPSRL])
@pytest.mark.parametrize(
    "kind", [{"moderated": True}, {"blocks": "action", "known": True}, {"logistic": True}], ids=str
)
def test_files_and_copies_go_on_as_before(cls, kind, tmp_path):
    world = designed(**kind)
    agent = cls(world.problem, seed=4)
    play(agent, world, 12)
    agent.save(tmp_path / "agent.npz")
    again = nr.load(tmp_path / "agent.npz")
    assert again.problem.design == world.problem.design
    assert again.problem.reward_design == world.problem.reward_design
    for a in (agent, again):
        play(a, world, 5, seed=1)
    x = world.context(0, 50)
    assert np.array_equal(agent.begin_episode(x).values, again.begin_episode(x).values)


def test_live_and_simulated_agents_do_the_same():
    world = designed(blocks="action")
    for cls in (nr.LRORL, nr.PSRLGLM, nr.CertifiedPSRL):
        run = nr.simulate(cls(world.problem, seed=0), world, 30, seeds=1)
        agent = cls(world.problem, seed=0)
        assert abs(regret_by_verbs(agent, world, 30, 0) - run.final[0]) < 1e-9


def test_a_wrong_design_or_bound_is_noticed():
    world = designed(bound=12.0)
    p = world.problem
    small = nr.Design.from_tables(TERMS, 4.0, **TABLES)  # a third of the truth
    tight = nr.Problem(4, 3, 5, 3, design=small, reward_design=p.reward_design)
    agent = nr.LRORL(tight, delta=0.05)
    with pytest.warns(UserWarning, match="promises nothing any more"):
        play(agent, world, 700)
    assert "block 0 of the design" in agent.refuted
    assert agent.guarantee is None


def test_the_guarantee_names_the_design():
    world = designed(blocks="action.kind")
    said = nr.LRORL(world.problem).guarantee
    assert "the design of transitions holds with weights of norm at most 2.5 per block" in said
    assert "the design of mean rewards holds with weights of norm at most 2 per block" in said
    assert "the design" not in nr.GLMORL(world.problem, confidence="conversion").guarantee


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sets": "stored-plain"}, "sets must be"),
        ({"form": "kron"}, "sets must be"),
    ],
)
def test_what_designs_do_not_go_with_is_said(options, said):
    with pytest.raises(ValueError, match=said):
        nr.LRORL(designed().problem, **options)


def test_draws_of_one_block_move_all_its_pairs_together():
    """With one feature every logit is a multiple of one drawn number: ranks of all pairs agree."""
    design = nr.Design.from_tables(["change.level"], 2.0, **TABLES)
    problem = nr.Problem(4, 3, 5, 1, design=design, reward_bound=1.0)
    agent = nr.PSRLGLM(problem)
    drawn = []
    for number in range(1, 12):
        P, _ = agent.draw([1.0], number)
        logits = np.log(P[..., :1] / P[..., -1:])[..., 0] / (0.0 - 1.0)  # theta, from every pair
        assert np.allclose(logits, logits[0, 0])
        drawn.append(logits[0, 0])
    assert np.std(drawn) > 0.3


@pytest.mark.deep
@pytest.mark.parametrize("kind", [{}, {"support": mask(1)}, {"moderated": True}], ids=["dense", "masked", "moderated"])
def test_a_shortfall_followed_step_by_step_is_right_and_smaller(kind):
    """On the event of the sets it never lies, for the best policy and for arbitrary ones."""
    world = designed(**kind)
    agent, g = nr.LRORL(world.problem, delta=0.05), np.random.default_rng(0)
    play(agent, world, 800)
    parts = []
    for k in range(10):
        x = world.context(5, k)
        best = world.optimal(x)
        for policy in (best.policy, *g.integers(0, 3, (3, 5, 4))):
            plan = agent.certify(x, policy)
            lost = best.values[0] - world.values(policy, x)[0]
            apart = (plan.upper[0] - plan.lower[0]).max()
            assert lost.max() <= plan.certificate + 1e-9
            assert plan.certificate <= apart + 1e-9
            if policy is best.policy:
                parts.append(plan.certificate / apart)
    assert np.mean(parts) < 0.999


@pytest.mark.parametrize("kind", ["taylor", "sharp"])
def test_a_shortfall_is_what_the_recursion_says(kind):
    """The recursion of docs/beyond.md, section 7, in plain Python. V~ and Q~ are taken half larger than they are, so
    that U + C decides somewhere."""
    world = designed(known=True)
    agent, g = nr.LRORL(world.problem, bonus=kind, certificates="close"), np.random.default_rng(3)
    play(agent, world, 400)
    agent.state.transitions.radius[:] /= 100.0
    for k in range(4):
        x = world.context(5, k)
        policy = np.where(g.random((5, 4)) < 0.5, world.optimal(x).policy, g.integers(0, 3, (5, 4)))
        plan = agent.certify(x, policy)
        work, search, short = agent.work, agent.par.search, np.zeros((6, 4))
        left = np.arange(5, -1, -1.0)[:, None]
        top, wide = np.minimum(plan.upper + 0.5, left), np.minimum(work.search.kept + 0.5, left[:5, :, None])
        work.search.kept[:], work.search.loose[:] = wide, 0  # none of them is to be made sharper
        shortfall(search, work.local, work.search, policy, top, plan.values, plan.lower, short)

        def highest(s, a, V, work=work, search=search):
            return work.local.P[s, a] @ V + bonus(search, work.local, s, a, V, 1.0, work.search)

        C, decided = np.zeros((6, 4)), 0
        for h in range(4, -1, -1):
            for s in range(4):
                found = [min(max(highest(s, policy[h, s], C[h + 1]), 0.0), 5.0 - h)]
                for a in set(range(3)) - {int(policy[h, s])}:
                    ahead = np.minimum(top[h + 1], plan.values[h + 1] + C[h + 1])
                    own = work.local.high[s, a] + highest(s, a, ahead)
                    own = own if (ahead < top[h + 1]).any() else np.inf
                    decided += own < wide[h, s, a]
                    found.append(min(wide[h, s, a], own) - plan.lower[h, s])
                C[h, s] = min(max(found), max(top[h, s] - plan.lower[h, s], 0.0))
        assert decided > 0
        assert np.allclose(short, C, rtol=0, atol=1e-9)


def test_a_shortfall_is_much_smaller_where_sets_are_small():
    """Sets as small as a hundred thousand people would make them, rewards known."""
    world = designed(known=True)
    agent, parts = nr.LRORL(world.problem), []
    play(agent, world, 800)
    agent.state.transitions.radius[:] /= 100.0
    for k in range(10):
        x = world.context(5, k)
        plan = agent.certify(x, world.optimal(x).policy)
        parts.append(plan.certificate / (plan.upper[0] - plan.lower[0]).max())
    assert np.mean(parts) < 0.97


@pytest.mark.parametrize("part", [1.0, 0.4])
def test_actions_that_are_ruled_out_change_no_plan(part):
    """`plan_shared` finds the first-order terms of rivals alone; here the bonus of every pair. With sets as small as a
    few thousand people would make them the rows of some pairs are never asked for."""
    world, ruled_out = designed(known=True), 0
    agent = nr.LRORL(world.problem)
    play(agent, world, 400)
    agent.state.transitions.radius[:] /= 5.0
    par, work = agent.par.search, agent.work
    for k in range(8):
        agent.certify(world.context(5, k), np.zeros((5, 4), int))  # describes the individual
        local, policy, values = work.local, np.zeros((5, 4), int), np.zeros((6, 4))
        local.made[:] = 0
        plan_shared(par, local, work.search, local.low, k, part, policy, values)
        ruled_out += int((local.made == 0).sum())
        V, reward = np.zeros(4), local.low + part * (local.high - local.low)
        for h in range(4, -1, -1):
            Q = np.array(
                [
                    [local.P[s, a] @ V + part * bonus(par, local, s, a, V, 1.0, work.search) for a in range(3)]
                    for s in range(4)
                ]
            )
            Q = np.clip(reward + Q, 0.0, 5.0 - h)
            V = Q.max(1)
            assert np.allclose(values[h], V, rtol=0, atol=1e-12)
            assert (Q[np.arange(4), policy[h]] >= V - 1e-9).all()
    assert 0 < ruled_out < 8 * 4 * 3


def test_bounds_side_by_side_are_those_of_every_pair():
    """`bound_shared` against the bonus of every pair, upwards and downwards; with a glance the upper values may be
    smaller, the lower ones are the same; alone they are, too."""
    world, g, less = designed(known=True), np.random.default_rng(3), 0.0
    agent = nr.LRORL(world.problem)
    play(agent, world, 400)
    agent.state.transitions.radius[:] /= 50.0
    par, work = agent.par.search, agent.work
    for k in range(4):
        policy = g.integers(0, 3, (5, 4))
        agent.certify(world.context(5, k), policy)
        local, found = work.local, np.zeros((5, 6, 4))
        bound_shared(par, local, work.search, policy, found[0], found[1], 0)
        bound_shared(par, local, work.search, policy, found[2], found[3], 1)
        bound_shared(par, local, work.search, policy, found[0, :0], found[4], 0)
        for sign, reward, values in ((1.0, local.high, found[0]), (-1.0, local.low, found[1])):
            V = np.zeros(4)
            for h in range(4, -1, -1):
                pairs = [(s, policy[h, s]) for s in range(4)]
                b = [local.P[i] @ V + sign * bonus(par, local, *i, V, sign, work.search) for i in pairs]
                V = np.clip([reward[i] for i in pairs] + np.array(b), 0.0, 5.0 - h)
                assert np.allclose(values[h], V, rtol=0, atol=1e-12)
        assert (found[2] <= found[0] + 1e-13).all()
        assert np.allclose(found[3], found[1], rtol=0, atol=1e-13)
        assert np.allclose(found[4], found[1], rtol=0, atol=1e-13)
        less += (found[0] - found[2]).sum()
    assert less > 0.0


def sets_at_hand(concentration, H, seed):
    """An agent whose local sets are made up: next states as from a Dirichlet distribution, small ellipsoids, bounds on
    first-order terms that are as close as can be."""
    world = nr.worlds.shared_logit(6, 3, horizon=H, context_dim=2, features=3, bound=2.0)
    agent, g = nr.LRORL(world.problem), np.random.default_rng(seed)
    play(agent, world, 2)
    agent.certify(world.context(5, 0), np.zeros((H, 6), int))
    local = agent.work.local
    local.P[:], local.high[:] = g.dirichlet(np.full(6, concentration), (6, 3)), g.uniform(0.0, 0.9, (6, 3))
    local.low[:], local.half[:] = local.high - 0.1, g.uniform(0.05, 1.0, (6, 3))
    local.second[:], local.rho[:], local.made[:] = g.uniform(0.0, 0.05, (6, 3)), g.uniform(0.1, 1.0, (6, 3)), 0
    for s, a in np.ndindex(6, 3):
        root = np.tril(local.factor[local.block[s, a]]).T @ local.columns[s, a]
        root = root - (root @ local.P[s, a])[:, None]
        local.reach[s, a] = local.rho[s, a] * np.sqrt(np.linalg.eigvalsh((root * local.P[s, a]) @ root.T)[-1] + 1e-12)
    return agent


@kernel  # 20,000 calls a case from Python take seconds
def bonuses(par, local, V, sign, work, found):
    for s in range(found.shape[0]):
        for a in range(found.shape[1]):
            found[s, a] = bonus(par, local, s, a, V, sign, work)


@pytest.mark.parametrize(("concentration", "part"), [(1.0, 1.0), (0.05, 1.0), (0.05, 2.5)])
def test_what_is_kept_from_the_step_before_changes_no_plan(concentration, part):
    """Terms that can have moved by rounding alone, and actions that cannot have caught up, over 60 steps, against the
    bonus of every pair. Where next states are all but certain the best action changes far from the end."""
    H, stayed, settled, changed = 60, 0, 0, 0
    for seed in range(20):
        agent, policy = sets_at_hand(concentration, H, seed), np.zeros((H, 6), int)
        values = np.zeros((H + 1, 6))
        par, work, local = agent.par.search, agent.work.search, agent.work.local
        work.leaders[:] = -1
        plan_shared(par, local, work, local.low, 3, part, policy, values)
        stayed += work.leaders[0] >= 0
        settled += ((work.known < work.first) & (work.first < work.known + 1e-13)).any()
        V, b, reward = np.zeros(6), np.zeros((6, 3)), local.low + part * (local.high - local.low)
        for h in range(H - 1, -1, -1):
            bonuses(par, local, V, 1.0, work, b)
            Q = np.clip(reward + local.P @ V + part * b, 0.0, float(H - h))
            V = Q.max(1)
            assert np.allclose(values[h], V, rtol=0, atol=1e-11)
            assert (values[h] >= V - 1e-12).all()
            assert (Q[np.arange(6), policy[h]] >= V - 1e-9).all()
        changed += (policy[:-10] != policy[1:-9]).any()
    assert stayed > 2
    assert settled > 5 or concentration < 1.0
    assert changed > 2 or concentration == 1.0


@pytest.mark.parametrize("concentration", [3.0, 0.05])
def test_what_is_kept_from_the_step_before_changes_no_bound(concentration):
    """Likewise `bound_shared`, for policies that change once; what is kept makes no upper value smaller, and no lower
    one larger."""
    H, kept, g = 60, 0, np.random.default_rng(6)
    for seed in range(10):
        agent, policy = sets_at_hand(concentration, H, seed), np.repeat(g.integers(0, 3, (2, 6)), H // 2, axis=0)
        par, work, local = agent.par.search, agent.work.search, agent.work.local
        found = np.zeros((5, H + 1, 6))
        bound_shared(par, local, work, policy, found[2], found[3], 1)
        kept += ((work.age[1] > 0.0) & (work.both[1] > 0.0)).any()
        bound_shared(par, local, work, policy, found[0, :0], found[4], 0)
        kept += ((work.age[1] > 0.0) & (work.both[1] > 0.0)).any()
        bound_shared(par, local, work, policy, found[0], found[1], 0)
        kept += ((work.age[0] > 0.0) & (work.both[0] > 0.0)).any()
        for sign, reward, values in ((1.0, local.high, found[0]), (-1.0, local.low, found[1])):
            V, b = np.zeros(6), np.zeros((6, 3))
            for h in range(H - 1, -1, -1):
                bonuses(par, local, V, sign, work, b)
                V = np.clip((reward + local.P @ V + sign * b)[np.arange(6), policy[h]], 0.0, float(H - h))
                assert np.allclose(values[h], V, rtol=0, atol=1e-11)
                assert (sign * (values[h] - V) >= -1e-12).all()
        assert np.allclose(found[3:], found[1], rtol=0, atol=1e-11)
    assert kept > 15 or concentration < 1.0


@pytest.mark.parametrize("first", [False, True])
def test_no_first_order_term_is_beyond_its_reach(first):
    """`largest_first` of what `curve` and `derive_first_shared` say, over random values, some of two points."""
    world, g, closest = nr.worlds.shared_logit(14, 2, horizon=3, context_dim=2, features=3, bound=2.0), None, 0.0
    agent, g = nr.CertifiedPSRL(world.problem), np.random.default_rng(4)
    play(agent, world, 30)
    plan = agent.begin_episode(world.context(5, 1))
    local = agent.work.local
    if first:
        agent.model(world.context(5, 1))
        derive_first_shared(local, world.problem.layout, agent.work.derive)
    assert plan.policy.shape == (3, 14)
    for i in range(28):
        make_rows(local, i, 14)
    for _ in range(40):
        V = g.random(14) if g.random() < 0.5 else (g.random(14) < 0.2) + 5.0
        terms = np.linalg.norm(local.rows[..., :14] @ V, axis=-1)
        for i in range(28):
            s, a = divmod(i, 2)
            most = largest_first(local.reach[s, a], local.P[s, a] @ V, V.min(), V.max())
            assert terms[i] <= most * (1 + 1e-12)
            closest = max(closest, terms[i] / most)
        W = 3.0 - V + g.normal() * V + 0.1 * g.random(14)  # another step
        apart = np.linalg.norm(local.rows[..., :14] @ W, axis=-1) - terms
        assert (np.abs(apart) <= local.reach.ravel() * moved(V, W) * (1 + 1e-12)).all()
    assert closest > (0.1 if first else 0.4)  # it is a bound that decides something


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 9])
def test_a_triangle_times_rows(n):
    g = np.random.default_rng(n)
    L, rows, out = g.random((n + 1, n + 1)), g.random((n + 1, 7)), np.full((n + 1, 7), 3.0)
    triangle_times(L, rows, n, 7, out)
    assert np.allclose(out[:n], np.tril(L[:n, :n]).T @ rows[:n], rtol=0, atol=1e-14)
    assert (out[n] == 3.0).all()


def test_one_individual_is_described_as_the_formulas_say():
    """P, half, and second and rows of `curve` and `make_rows`, D in NumPy, with more outcomes than features."""
    world = nr.worlds.shared_logit(14, 2, horizon=3, context_dim=2, features=3, bound=2.0)
    agent = nr.LRORL(world.problem)
    play(agent, world, 60)
    agent.state.transitions.radius[:] /= 400.0
    x = world.context(5, 1)
    agent.certify(x, np.zeros((3, 14), int))
    local, theta = agent.work.local, agent.state.transitions.weights[0].reshape(3, 2)
    phi = world.problem.blocks.features
    z = phi @ theta @ x
    P = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    assert np.allclose(local.P, P, rtol=0, atol=1e-12)
    X = np.kron(np.eye(3), x[:, None])  # [p, q]
    cov = phi @ (X.T @ np.linalg.inv(agent.state.transitions.gram[0]) @ X) @ np.swapaxes(phi, -1, -2)
    centred = cov - cov.mean(-1, keepdims=True)
    centred = centred - centred.mean(-2, keepdims=True)
    root = np.swapaxes(local.factor[local.block], -1, -2) @ local.columns
    assert np.allclose(np.swapaxes(root, -1, -2) @ root, centred, rtol=0, atol=1e-9)
    V, decided = np.random.default_rng(0).random(14), 0
    g = P * (V - (P @ V)[..., None])
    for i in range(28):
        make_rows(local, i, 14)
    first = np.linalg.norm((local.rows[..., :14] @ V).reshape(14, 2, 3), axis=-1)
    assert np.allclose(first, local.rho * np.sqrt(np.einsum("saj,sajk,sak->sa", g, cov, g)), rtol=0, atol=1e-9)
    for s, a in np.ndindex(14, 2):
        p, rho, size = P[s, a], local.rho[s, a], local.span[s, a]
        values = np.linalg.eigvals((np.diag(p) - np.outer(p, p)) @ cov[s, a]).real
        least, most = rho**2 * values.max(), rho**2 * (values**4).sum() ** 0.25
        decided += most < size**2 / 4
        psi = (np.exp(size) - size - 1) / size**2
        assert np.isclose(local.second[s, a], min(most, size**2 / 4) * psi, rtol=1e-8, atol=0)
        assert least <= most * (1 + 1e-12)
        assert local.half[s, a] <= np.tanh(size / 4) + 1e-12
    assert decided > 0
