"""Asymptotic intervals from the fitted model (docs/evidence-asymptotic.md): the fit, derivatives, the sandwich, what no
data inform, weights for loggers that learned, and how often intervals miss."""

import numpy as np
import pytest
from scipy import optimize, stats

import asymptotic
import noregret as nr
from noregret.evidence import fit as fitting
from noregret.evidence.log_steps import same_for_all, stabilising, step_weights, steps_of
from noregret.evidence.plug_in import plug_in, sequence_factor
from noregret.evidence.plug_in_values import Question, answer, policies
from noregret.planning.derivatives import dense, expand
from noregret.problem.design import pair_blocks
from noregret.problem.log import Log, LoggedEpisode

UNIT = 1.0 / np.sqrt(2.0)


def random_problem(g, design, rewards="linear", known=False):
    """Three states, two actions, a mask, an action that is not available, contexts (1, u)/sqrt 2 in R^2."""
    support = np.ones((3, 2, 3), bool)
    support[0, 1, 2] = False
    available = np.ones((3, 2), bool)
    available[2, 1] = False
    options = {"weight_bound": 8.0, "reward_bound": 3.0, "rewards": rewards}
    if design:
        blocks = np.array([[0, 1], [0, 1], [0, 1]])
        moderators = np.array([[True, True], [True, False], [True, True]])
        features = g.standard_normal((3, 2, 3, 3))
        options["design"] = nr.Design(features, 6.0, blocks, moderators=moderators)
        options["reward_design"] = None if known else nr.RewardDesign(g.standard_normal((3, 2, 2)), 6.0)
    if known:
        options["known_rewards"] = g.uniform(0.0, 0.5, (3, 2, 2))
    return nr.Problem(3, 2, 3, 2, support=support, available=available, **options)


def random_log(g, problem, people, floor=0.3):
    """Anything that the problem allows: next states and rewards by coins that lean with the context."""
    episodes, layout = [], problem.layout
    for k in range(people):
        x, s = np.array([1.0, g.uniform(-1.0, 1.0)]) * UNIT, int(g.integers(3))
        states, actions, rewards, chances = [s], [], [], []
        for _ in range(problem.horizon if k % 5 else 2):  # some are short
            likely = floor + (1.0 - 2.0 * floor) * (x[1] > 0.0) if layout.available[s].all() else 0.0
            a = int(g.random() < likely)
            to = layout.outcomes[s, a, : layout.count[s, a]]
            odds = np.exp(np.arange(to.size) * (0.3 + x[1]) + a)
            actions.append(a)
            chances.append(likely if a else 1.0 - likely)
            rewards.append(np.nan if g.random() < 0.05 else float(g.random() < 0.5 + 0.3 * x[1]))
            s = int(g.choice(to, p=odds / odds.sum()))
            states.append(s)
        parts = np.array(states), np.array(actions), np.array(rewards), np.array(chances)
        episodes.append(LoggedEpisode(k, x, *parts))
    return Log(problem, tuple(episodes))


class Twin:
    """The same from the formulas, step by step, with the free entries of all blocks in one vector."""

    def __init__(self, log, W):
        self.problem, self.log, self.W = log.problem, log, W
        p = log.problem
        self.next = p.blocks or pair_blocks(p.layout, p.weight_bound, p.context_dim)
        self.worth = None if p.known_rewards is not None else p.reward_blocks or fitting.reward_pair_blocks(p)
        self.places, n = {}, 0
        for name, blocks in (("next", self.next), ("worth", self.worth)):
            for b in range(0 if blocks is None else blocks.size.size):
                for i in range(int(blocks.size[b])):
                    for c in blocks.column[b, blocks.start[b, i] : blocks.start[b, i + 1]]:
                        self.places[name, b, i, int(c)] = n
                        n += 1
        self.n = n

    def row(self, name, blocks, s, a, k, x):
        made, b = np.zeros(self.n), blocks.block[s, a]
        for i in range(int(blocks.size[b])):
            for c in range(x.size):
                if (name, b, i, c) in self.places:
                    made[self.places[name, b, i, c]] = blocks.features[s, a, k, i] * x[c]
        return made

    def rows(self):
        """Per step: person, weight, rows of the logits, slot, row of the reward, reward."""
        t, layout = 0, self.problem.layout
        for k, e in enumerate(self.log):
            for h, (s, a) in enumerate(zip(e.states[:-1], e.actions, strict=True)):
                m = layout.count[s, a]
                A = np.array([self.row("next", self.next, s, a, j, e.context) for j in range(m)])
                y = list(layout.outcomes[s, a, :m]).index(e.states[h + 1])
                f = None if self.worth is None else self.row("worth", self.worth, s, a, 0, e.context)
                yield k, self.W[t], A, y, f, e.rewards[h]
                t += 1

    def scores(self, theta):
        """(loss, scores [n, p], curvatures [n, p, p])."""
        n, logistic = len(self.log), self.problem.rewards == "logistic"
        loss, S, C = 0.0, np.zeros((n, self.n)), np.zeros((n, self.n, self.n))
        for k, w, A, y, f, r in self.kept:
            z = A @ theta
            prob = np.exp(z - z.max())
            prob /= prob.sum()
            loss -= w * np.log(prob[y])
            S[k] += w * A.T @ (prob - np.eye(len(z))[y])
            C[k] += w * A.T @ (np.diag(prob) - np.outer(prob, prob)) @ A
            if f is not None and not np.isnan(r):
                z = f @ theta
                q = 1.0 / (1.0 + np.exp(-z)) if logistic else z
                loss += w * (-r * np.log(q) - (1 - r) * np.log(1 - q) if logistic else 0.5 * (q - r) ** 2)
                S[k] += w * (q - r) * f
                C[k] += w * (q * (1 - q) if logistic else 1.0) * np.outer(f, f)
        return loss, S, C


def weights_for(log, kind):
    steps = steps_of(log)
    return steps, step_weights(steps, stabilising(log.problem, None), kind)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("design", "rewards", "known"),
    [(True, "linear", False), (False, "logistic", False), (True, "logistic", True), (False, "linear", False)],
)
def test_fit_and_sandwich_are_the_formulas(design, rewards, known):
    """The penalised likelihood has its maximum at the fit, and the standard error is the jackknife's of one Newton step
    without a person: by loops over steps and an inverse per person."""
    g = np.random.default_rng(3)
    problem = random_problem(g, design, rewards, known)
    log = random_log(g, problem, 150)
    steps, W = weights_for(log, "step")
    fitted = [fitting.fit(part, steps.X) for part in fitting.parts_of(problem, steps, W)]
    twin = Twin(log, W)
    twin.kept = list(twin.rows())
    theta = np.concatenate([one.theta.ravel()[one.part.at] for one in fitted])
    penalty = np.concatenate([np.full(one.part.at.size, one.penalty) for one in fitted])
    assert theta.size == twin.n
    _, S, C = twin.scores(theta)
    np.testing.assert_allclose(S.sum(0), -penalty * theta, atol=1e-6)
    whole = lambda at: twin.scores(at)[0] + 0.5 * penalty @ at**2  # noqa: E731
    slope = lambda at: twin.scores(at)[1].sum(0) + penalty * at  # noqa: E731
    if design:  # an optimiser that starts elsewhere gets to the same point
        far = optimize.minimize(whole, np.full(twin.n, 0.1), jac=slope, method="BFGS", options={"gtol": 1e-6})
        np.testing.assert_allclose(far.x, theta, atol=2e-4)
    policy, rule = np.zeros((3, 3), int), np.array([[1, 1, 0]] * 3)
    asked = Question(steps.X, np.full(150, 1 / 150), np.eye(3)[steps.begin], *(
        policies("policy", one, problem, steps.X) for one in (policy, rule)))  # fmt: skip
    found = answer(fitted, problem, asked)
    slopes, A = np.concatenate(found.slopes), C.sum(0) + np.diag(penalty)
    moved = np.array([-slopes @ np.linalg.solve(A - C[k], S[k]) for k in range(150)])
    seen = plug_in(log, policy, rule, adaptive="step")
    assert seen.standard_error == pytest.approx(np.sqrt(moved @ moved), rel=2e-3)
    wide = plug_in(log, policy, rule, adaptive="step", population=True)
    both = moved + (found.values - found.values.mean()) / 150
    assert wide.standard_error == pytest.approx(np.sqrt(both @ both), rel=2e-3)
    apart = plug_in(log, policy, rule, steps.X, None, asked.start, adaptive="step", population=True)
    spread = (found.values - found.values.mean()) / 150
    assert apart.standard_error == pytest.approx(np.sqrt(moved @ moved + spread @ spread), rel=2e-3)
    assert seen.parameters == twin.n
    assert seen.steps == steps.a.size


@pytest.mark.parametrize(("design", "rewards"), [(True, "linear"), (False, "logistic"), (True, "logistic")])
def test_values_and_slopes(design, rewards):
    """Values are those of the world with the fitted weights, slopes those of small changes of every weight; a policy
    that draws actions is the mean of those it draws from, where it draws once."""
    g = np.random.default_rng(5)
    problem = random_problem(g, design, rewards)
    log = random_log(g, problem, 80)
    steps, W = weights_for(log, "no")
    fitted = [fitting.fit(part, steps.X) for part in fitting.parts_of(problem, steps, W)]
    X, share = steps.X[:6], g.dirichlet(np.ones(6))
    start, mixed = g.dirichlet(np.ones(3), 6), g.dirichlet(np.ones(2), (3, 3))
    mixed[:, 2] = [1.0, 0.0]
    rule = np.array([[1, 1, 0]] * 3)
    made = [policies("policy", one, problem, X) for one in (mixed, rule)]
    asked = Question(X, share, start, *made)
    found, step = answer(fitted, problem, asked), 1e-5
    for b, one in enumerate(fitted):
        for e, at in enumerate(one.part.at):
            ends = []
            for sign in (1.0, -1.0):
                theta = one.theta.ravel().copy()
                theta[at] += sign * step
                moved = fitted.copy()
                moved[b] = one._replace(theta=theta.reshape(one.theta.shape))
                ends.append(share @ answer(moved, problem, asked, False).values)
            assert found.slopes[b][e] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)
    slots, worth = np.zeros((*problem.layout.outcomes.shape, 2)), np.zeros((3, 2, 2))
    for one in fitted:
        s, a = one.part.members
        weights = np.einsum("pmq,qd->pmd", one.part.features[s, a], one.theta)
        if one.part.kind == fitting.NEXT:
            slots[s, a] = weights
        else:
            worth[s, a] = weights[:, 0]
    for i, x in enumerate(X):
        z = np.where(np.arange(slots.shape[2]) < problem.layout.count[..., None], slots @ x, -np.inf)
        P = problem.from_slots(np.exp(z) / np.exp(z).sum(-1, keepdims=True))
        r, values = worth @ x, []
        r = 1.0 / (1.0 + np.exp(-r)) if rewards == "logistic" else r
        for policy in (mixed, np.eye(2)[rule]):
            V = np.zeros(3)
            for h in (2, 1, 0):
                V = (policy[h] * (r + P @ V)).sum(1)
            values.append(start[i] @ V)
        assert found.values[i] == pytest.approx(values[0] - values[1], abs=1e-12)


def test_slopes_are_those_of_joint_intervals():
    """`planning.derivatives` goes along every weight; here one pass back and one forth give the same."""
    g = np.random.default_rng(8)
    problem = random_problem(g, False)
    log = random_log(g, problem, 60)
    steps, W = weights_for(log, "no")
    fitted = [fitting.fit(part, steps.X) for part in fitting.parts_of(problem, steps, W)]
    X, policy, layout = steps.X[:4], np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]]), problem.layout
    sizes = [one.theta.shape[0] for one in fitted]
    ends, m = np.cumsum([0, *sizes]), sum(sizes)
    features, worth = np.zeros((*layout.outcomes.shape, m)), np.zeros((3, 2, m))
    z, r = np.zeros((4, *layout.outcomes.shape)), np.zeros((4, 3, 2))
    for one, first, last in zip(fitted, ends, ends[1:], strict=False):
        s, a = one.part.members
        if one.part.kind == fitting.NEXT:
            features[s, a, :, first:last] = one.part.features[s, a]
            z[:, s, a] = np.einsum("nd,qd,pmq->npm", X, one.theta, one.part.features[s, a])
        else:
            worth[s, a, first:last] = one.part.features[s, a, 0]
            r[:, s, a] = np.einsum("nd,qd,pq->np", X, one.theta, one.part.features[s, a, 0])
    e = np.exp(z) * (np.arange(z.shape[-1]) < layout.count[..., None])
    P = e / e.sum(-1, keepdims=True)

    class Rows:
        pass

    Rows.P, Rows.centred = P, features - np.einsum("nsak,sakm->nsam", P, features)[..., None, :]
    made = expand(Rows, dense(layout, P), (r, worth), layout, np.broadcast_to(policy, (4, 3, 3)))
    start = np.eye(3)[[0, 1, 2, 0]]
    slope = np.einsum("ns,nsm,nd->md", start / 4, made.D[:, 0], X)
    asked = Question(X, np.full(4, 0.25), start, policies("policy", policy, problem, X), None)
    found = answer(fitted, problem, asked)
    np.testing.assert_allclose(np.concatenate(found.slopes), slope.ravel(), atol=1e-12)
    np.testing.assert_allclose(found.values, (start * made.V[:, 0]).sum(1), atol=1e-12)


def test_logistic_rewards_agree_with_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    g = np.random.default_rng(2)
    problem = random_problem(g, False, "logistic")
    log = random_log(g, problem, 200)
    steps, W = weights_for(log, "no")
    for part in fitting.parts_of(problem, steps, W):
        if part.kind != fitting.LOGISTIC or not part.pairs:
            continue
        one, pair = fitting.fit(part, steps.X), part.pairs[0]
        other = linear_model.LogisticRegression(C=1.0 / one.penalty, fit_intercept=False, tol=1e-10, max_iter=10_000)
        other.fit(steps.X[pair.person], pair.target)
        np.testing.assert_allclose(one.theta[0], other.coef_[0], atol=1e-4)


def test_what_no_data_inform():
    """A pair that nobody has met, a next state that never came at a pair met five times: the answer is a sentence
    where the policy goes there, and a number where it does not."""
    g = np.random.default_rng(4)
    problem = random_problem(g, False)
    log = random_log(g, problem, 300, floor=0.0)  # action 1 for some, 0 for others, all states
    without = [e for e in log if not ((e.actions == 1) & (e.states[:-1] == 1)).any()]
    never = Log(problem, tuple(without))
    there, elsewhere = np.array([[0, 1, 0]] * 3), np.array([[0, 0, 0]] * 3)
    unseen = plug_in(never, there, adaptive="no")
    assert not unseen.told
    assert "action 1 in state 1" in unseen.sentence
    assert (unseen.lower, unseen.upper) == (0.0, 3.0)
    assert unseen.unknown > 0.1
    assert plug_in(never, elsewhere, adaptive="no").told
    both = plug_in(never, there, there, adaptive="no")  # equal: no weight matters
    assert (both.told, both.lower, both.estimate, both.upper) == (True, 0.0, 0.0, 0.0)
    seldom = [e for e in log if ((e.actions == 1) & (e.states[:-1] == 1)).sum() == 1][:5]
    assert not plug_in(Log(problem, (*without, *seldom)), there, adaptive="no").told
    assert plug_in(Log(problem, (*without, *seldom)), elsewhere, adaptive="no").told


def test_few_people_are_no_crowd():
    problem = random_problem(np.random.default_rng(1), True)
    few = plug_in(random_log(np.random.default_rng(1), problem, 12), np.zeros((3, 3), int))
    assert not few.told
    assert few.sentence.startswith("The data cannot tell: ")


def test_weights_of_steps():
    """sqrt(e/P), its product along a person's steps; whether a log is that of one rule for all."""
    g = np.random.default_rng(6)
    problem = random_problem(g, False)
    log = random_log(g, problem, 20)
    steps = steps_of(log)
    even = stabilising(problem, None)
    wanted, along = [], []
    for e in log:
        ratio = [1.0 / problem.layout.available[s].sum() / q for s, q in zip(e.states, e.probabilities, strict=False)]
        wanted += list(np.sqrt(ratio))
        along += list(np.sqrt(np.cumprod(ratio)))
    np.testing.assert_allclose(step_weights(steps, even, "step"), wanted, rtol=1e-12)
    np.testing.assert_allclose(step_weights(steps, even, "path"), along, rtol=1e-9)
    assert not same_for_all(steps, problem)  # actions followed the context
    world = nr.worlds.programme()
    ruled = world.log(100, 1)
    assert same_for_all(steps_of(ruled), world.problem)
    assert plug_in(ruled, world.rule).weighted == "no"
    assert plug_in(log, np.zeros((3, 3), int)).weighted == "step"
    certain = steps._replace(chance=np.ones(steps.a.size))  # two actions of a state, both certain: by the context
    assert not same_for_all(certain, problem)


@pytest.mark.deep
def test_weighting_by_the_logging_rule_changes_nothing():
    world = nr.worlds.programme()
    log, other = world.log(200, 3), np.where(world.rule == 1, 0, world.rule)
    plain = plug_in(log, other, world.rule, adaptive="no")
    same = plug_in(log, other, world.rule, adaptive="path", stabiliser=world.log_chances())
    assert same.estimate == pytest.approx(plain.estimate, abs=1e-9)
    assert same.standard_error == pytest.approx(plain.standard_error, rel=1e-9)
    assert (plain.weighted, same.weighted, same.largest_weight) == ("no", "path", pytest.approx(1.0))


def test_units_and_order_do_not_matter():
    """Rewards in other units give the same in those; contexts, starts and weights may be given or not."""
    g = np.random.default_rng(7)
    problem = random_problem(g, False)
    log = random_log(g, problem, 200)
    costs = nr.Problem(3, 2, 3, 2, support=problem.support, available=problem.available, weight_bound=8.0,
                       reward_bound=12.0, reward_range=(-4.0, 0.0))  # fmt: skip
    moved = [LoggedEpisode(e.key, e.context, e.states, e.actions, 4.0 * e.rewards - 4.0, e.probabilities) for e in log]
    policy, rule = np.zeros((3, 3), int), np.array([[1, 1, 0]] * 3)
    one = plug_in(log, policy, rule)
    four = plug_in(Log(costs, tuple(moved[::-1])), policy, rule)
    assert four.weighted == one.weighted == "step"
    steps = steps_of(log)
    again = plug_in(log, lambda x: policy, np.broadcast_to(rule, (200, 3, 3)), steps.X, np.ones(200),
                    np.eye(3)[steps.begin])  # fmt: skip
    assert (again.estimate, again.standard_error) == (one.estimate, one.standard_error)
    # the intercept takes up the other zero; the penalty is in units of its own, so not to the last digit
    assert four.estimate == pytest.approx(4.0 * one.estimate, abs=2e-3)
    assert four.standard_error == pytest.approx(4.0 * one.standard_error, rel=5e-3)
    halves = [plug_in(Log(problem, log.episodes[i::2]), policy, rule, steps.X, None, np.eye(3)[steps.begin],
                      adaptive="step").estimate for i in (0, 1)]  # fmt: skip
    assert one.bias == pytest.approx(np.mean(halves) - one.estimate, abs=1e-9)
    half = (np.arange(200) % 2).astype(float)
    part = plug_in(log, policy, rule, weights=half)
    cut = plug_in(log, policy, rule, steps.X[1::2], None, np.eye(3)[steps.begin[1::2]])
    assert part.estimate == pytest.approx(cut.estimate, abs=1e-12)


def test_bad_input():
    world = nr.worlds.programme()
    log, rule = world.log(50, 1), world.rule
    for words, options in {
        "adaptive must be": {"adaptive": "maybe"},
        "looks must be": {"looks": "often"},
        "delta": {"delta": 1.5},
        "weights must be": {"weights": -np.ones(50)},
        "start must be": {"start": np.full(6, 0.3)},
        "stabiliser must be": {"stabiliser": np.full((8, 6, 3), 0.5)},
        "population": {"population": 3},
        "contexts": {"contexts": [[1.0]]},
        "other": {"other": [[1]]},
    }.items():
        with pytest.raises(ValueError, match=words):
            plug_in(log, rule, **options)
    with pytest.raises(ValueError, match="policy must be probabilities"):
        plug_in(log, np.full((8, 6, 3), 0.5))
    with pytest.raises(ValueError, match="at least one episode"):
        plug_in(Log(world.problem, ()), rule)
    blind = Log(world.problem, tuple(
        LoggedEpisode(e.key, e.context, e.states, e.actions, e.rewards, np.full(8, np.nan)) for e in log))  # fmt: skip
    with pytest.raises(ValueError, match="probability of every action"):
        plug_in(blind, rule, adaptive="step")
    assert plug_in(world.log(400, 1), rule).told
    linear = nr.worlds.make_world("random-linear")
    zero = np.zeros((linear.problem.horizon, linear.problem.n_states), int)
    with pytest.raises(ValueError, match="MultinomialLogit"):
        plug_in(linear.log(20, 1, rule=zero), zero)


@pytest.mark.long
def test_notes_about_how_actions_were_chosen():
    world = nr.worlds.programme()
    log = world.log(400, 1)
    unknown = [LoggedEpisode(e.key, e.context, e.states, e.actions, e.rewards, np.full(8, np.nan)) for e in log]
    assert "did not learn" in plug_in(Log(world.problem, tuple(unknown)), world.rule).sentence
    sure = [LoggedEpisode(e.key, e.context, e.states, e.actions, e.rewards, np.ones(8)) for e in log]
    found = plug_in(Log(world.problem, tuple(sure)), world.rule)
    assert found.weighted == "step"
    assert "floor" in found.sentence


def test_the_sequence_is_robbins_mixture():
    """Sums of standard normals leave the boundary at some time with chance at most delta: 2,000 walks of 1,000 steps.
    If it were exactly delta = .1, 241 would leave with chance below 2e-3; Wald intervals lose more than a half."""
    walks = np.cumsum(np.random.default_rng(0).standard_normal((2000, 1000)), 1)
    n = np.arange(1, 1001)
    factor = np.array([sequence_factor(k, 0.1, 100) for k in n])
    left = (np.abs(walks) > factor * np.sqrt(n)).any(1).sum()
    assert stats.binom.sf(240, 2000, 0.1) < 2e-3
    assert left <= 240
    assert (np.abs(walks) > 1.645 * np.sqrt(n)).any(1).sum() > 1000
    narrow = min(range(1, 1001), key=lambda k: factor[k - 1])
    assert 85 <= narrow <= 115


def test_intervals_are_student_s():
    """Half the width is t times the standard error, of as many degrees of freedom as the spread of squared influences
    says: the jackknife's influences, by loops. The sequence has none; the region for all weights is an F."""
    g = np.random.default_rng(9)
    n, problem = 160, nr.Problem(1, 2, 1, 1, weight_bound=1.0, reward_bound=1.0)
    chance, r = np.where(g.random(n) < 0.3, 0.05, 0.5), (g.random(n) < 0.4).astype(float)
    one, a = np.ones(1), np.array([1, 1, 0, 0] * (n // 4))
    rows = [(k, one, np.zeros(2, int), *(part[k : k + 1] for part in (a, r, chance))) for k in range(n)]
    log, W = Log(problem, tuple(LoggedEpisode(*row) for row in rows)), np.sqrt(0.5 / chance) * (a == 1)
    mean = (W * r).sum() / W.sum()
    phi = W * (r - mean) / (W.sum() - W)
    square = (phi**2).sum()
    freedom = 2.0 / ((phi**4).sum() / square**2 - 1.0 / n)
    policy = np.ones((1, 1), int)
    found = plug_in(log, policy, contexts=[[1.0]], start=0, adaptive="step")
    assert found.told
    assert 40.0 < found.freedom < 100.0
    assert found.freedom == pytest.approx(freedom, rel=1e-2)  # a penalty, and a series instead of an inverse
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, freedom) * np.sqrt(square), rel=3e-3)
    assert found.half_width > 1.01 * 1.96 * found.standard_error
    at_any_time = plug_in(log, policy, contexts=[[1.0]], start=0, adaptive="step", looks="any")
    assert at_any_time.half_width == pytest.approx(sequence_factor(n, 0.05) * found.standard_error, rel=1e-9)
    wide = 0.5 * (found.projected[1] - found.projected[0])
    region = np.sqrt(found.parameters * stats.f.ppf(0.95, found.parameters, found.freedom))
    assert wide == pytest.approx(region * found.standard_error, rel=1e-9)
    assert wide > found.half_width


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_rewards_that_never_differ_have_no_standard_error(reward):
    """Everybody who had the action got the same: whose chance to get something else is ln(2/.05)/m has not seen it with
    chance .025. Of 30 people that is .12, which is no small part of the width: a sentence, not an interval of width 0.
    The other action's answer stands; of 3,000 it is little."""
    g = np.random.default_rng(1)
    problem, one = nr.Problem(1, 2, 1, 1, weight_bound=1.0, reward_bound=1.0), np.ones(1)

    def told(had, others=1000):
        a = np.array([1] * had + [0] * others)
        r = np.where(a == 1, reward, g.random(a.size) < 0.5)
        rows = [(k, one, np.zeros(2, int), a[k : k + 1], r[k : k + 1], np.full(1, 0.5)) for k in range(a.size)]
        log, most = Log(problem, tuple(LoggedEpisode(*row) for row in rows)), np.ones((1, 1), int)
        return [plug_in(log, *asked, contexts=[[1.0]], start=0) for asked in ((most,), (1 - most,), (most, 1 - most))]

    alike, other, apart = told(30)
    assert alike.unknown == pytest.approx(np.log(40.0) / 30, rel=1e-2)
    assert not alike.told
    assert "rewards of action 1 in state 0" in alike.sentence
    assert other.told
    assert not apart.told
    assert told(3000)[2].told


def test_who_could_have_got_another_reward_decides_what_that_is_worth():
    """Everybody got 0, 980 of one kind and 20 of another. About the 20 alone, 20 people say something, not 1,000."""
    problem = nr.Problem(1, 1, 1, 2, weight_bound=1.0, reward_bound=2.0)
    kinds = np.array([[1.0, 0.0]] * 980 + [[0.0, 1.0]] * 20)
    rows = [(k, x, np.zeros(2, int), np.zeros(1, int), np.zeros(1), np.ones(1)) for k, x in enumerate(kinds)]
    log, only = Log(problem, tuple(LoggedEpisode(*row) for row in rows)), np.zeros((1, 1), int)
    many, few = (plug_in(log, only, contexts=[x], start=0, adaptive="no").unknown for x in ([1.0, 0.0], [0.0, 1.0]))
    assert many == pytest.approx(np.log(40.0) / 980, rel=1e-2)
    assert few == pytest.approx(np.log(40.0) / 20, rel=1e-2)


@pytest.mark.long
def test_intervals_cover_after_weighting():
    """A bandit whose arms are alike, an agent that learns, 1,000 people, 100 runs at 95%. If the interval missed 7 in
    100, more than 18 misses would have chance 1e-4. Unweighted it misses more often than weighted: it does in 11 of 100
    (`tests/asymptotic.py`), so that not more misses than weighted would have chance .03 or so."""
    assert stats.binom.sf(18, 100, 0.07) < 1e-4
    found = asymptotic.no_gap(100, 1, 1, 0.02, ("no", "step"))
    misses = {kind: rows[:, 2].sum() for kind, rows in found.items()}
    assert misses["step"] <= 18
    assert misses["no"] > misses["step"]


@pytest.mark.long
def test_intervals_cover_with_a_fixed_rule():
    """20 logs of 1,000 people of the programme at 95%: with 7 in 100 missed, more than 6 have chance 4e-4."""
    assert stats.binom.sf(6, 20, 0.07) < 4e-4
    rows = asymptotic.programme(20, horizon=4)
    assert rows[:, 0].sum() <= 6
    assert rows[:, 2].all()
    assert 0.4 < rows[:, 3].std() < 1.7  # chi-square with 19 degrees of freedom: beyond has chance 2e-5 and 1e-4


@pytest.mark.slow
def test_coverage_with_a_fixed_rule():
    """1,000 logs: 93% to 97% (if it were 95% exactly, beyond has chance .004)."""
    found = asymptotic.programme(1000)
    print("fixed rule, programme: missed, standard error, told", found.mean(0))
    assert 0.03 <= found[:, 0].mean() <= 0.07


@pytest.mark.slow
def test_coverage_with_a_learner():
    """Weighted 93% or more, of 1,000 runs each (if it were 95% exactly, less has chance .002), shown or not. Unweighted
    less than that for the bandit; with three steps of noise it is between."""
    for size in ((1, 1), (2, 3)):
        found = asymptotic.no_gap(1000, *size, 0.05, ("no", "step"))
        print(size, {kind: (rows.mean(0), asymptotic.shown(rows)) for kind, rows in found.items()})
        assert found["step"][:, [0, 2]].mean(0).max() <= 0.07
        assert found["no"][:, 2].mean() > (0.07 if size == (1, 1) else found["step"][:, 2].mean())


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.5, 0.1])
def test_coverage_of_what_is_shown_where_few_had_an_action(mean):
    """Floor .02: about ten people had the action that was out of favour, and rewards may be rare. Intervals that are
    shown cover 93% or more of 2,000 runs, of which at least 1,200 are shown: at 95% exactly, less has chance .002."""
    assert stats.binom.sf(0.07 * 1200, 1200, 0.05) < 2e-3
    found = asymptotic.no_gap(2000, 1, 1, 0.02, ("step",), mean=mean)["step"]
    print(f"mean {mean}: shown", asymptotic.shown(found), "told", found[:, [1, 3]].mean(0))
    assert max(asymptotic.shown(found)) <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("learns", [False, True])
def test_coverage_at_six_looks(learns):
    """Wald misses far more often than 1 in 20; the sequence does not."""
    wald, sequence = asymptotic.at_looks(300, [200, 400, 700, 1000, 1400, 2000], learns).mean(0)
    print("six looks, learner" if learns else "six looks, fixed rule", wald, sequence)
    assert wald > 0.09
    assert sequence <= 0.05


@pytest.mark.slow
def test_programme_gains_are_told_from_nothing():
    """Ten worlds, 3,000 logged people, policies of an agent that learned from 3,000 others."""
    excluded = [found.lower > 0.0 for _, gain, found, _ in asymptotic.ten_worlds() if gain >= 0.4]
    assert len(excluded) >= 8
    assert sum(excluded) >= 0.9 * len(excluded)
