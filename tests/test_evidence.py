"""`noregret.evaluate` by weights: the estimators, the proved bounds, what the answer says, what it refuses."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import efficiency
import noregret as nr
from evidence_runs import all_asked, exact, learned_logs, logs_of, small_world
from noregret.evidence import asymptotic, bets, scores
from noregret.evidence.models import Predicted, predicted, values_by, visited
from noregret.evidence.overlap import missing, unmet
from noregret.evidence.people import one_rule, people_of, target_of
from noregret.evidence.weighted import Asked, Side, part_of, proved_bounds, scored, weighted_rows
from noregret.problem.asked import Policies
from noregret.problem.log import Log, LoggedEpisode

RULE = [[0, 1, 1, 1]] * 6  # of the clinic


def replaced(log, **fields):
    """The same log with other arrays in every episode: name -> function of the old array."""
    kept = ("key", "context", "states", "actions", "rewards", "probabilities")
    made = (LoggedEpisode(*(fields.get(n, lambda v: v)(getattr(e, n)) for n in kept)) for e in log)
    return Log(log.problem, tuple(made))


# Estimators ----------------------------------------------------------------------------------------
def logged_numbers():
    g = np.random.default_rng(20)
    n, H, A = 40, 3, 3
    a, r, b = g.integers(0, A, (n, H)), g.random((n, H)), g.uniform(0.1, 0.9, (n, H))
    chances, Q = g.dirichlet(np.ones(A), (n, H)), g.random((n, H, A)) * 3
    return a, r, b, chances, Q


def test_estimators_are_those_of_a_published_library():
    """Numbers of scope-rl 0.2.1 (PerDecisionImportanceSampling, SelfNormalizedPDIS, DoublyRobust) on these arrays. It
    adds 1e-10 to the mean weight that it divides by."""
    a, r, b, chances, Q = logged_numbers()
    ratio = np.take_along_axis(chances, a[:, :, None], 2)[:, :, 0] / b
    w, taken, V = np.cumprod(ratio, 1), np.take_along_axis(Q, a[:, :, None], 2)[:, :, 0], (chances * Q).sum(2)
    assert scores.per_decision(w, r).mean() == pytest.approx(1.0964817312106607, abs=1e-12)
    assert scores.doubly_robust(w, r, taken, V).mean() == pytest.approx(1.608099672132416, abs=1e-12)
    step = (w * r).mean(0) / w.mean(0)
    assert scores.normalised(w, r)[0] == pytest.approx(step.sum(), abs=1e-12)
    assert (step * w.mean(0) / (w.mean(0) + 1e-10)).sum() == pytest.approx(1.4489989421329574, abs=1e-12)


def test_estimators_by_their_definitions():
    """Person by person and step by step, DR in the recursive form of Jiang and Li: V + ratio (r + next - Q)."""
    a, r, b, chances, Q = logged_numbers()
    n, H = r.shape
    ratio = np.take_along_axis(chances, a[:, :, None], 2)[:, :, 0] / b
    w, V = np.cumprod(ratio, 1), (chances * Q).sum(2)
    taken = np.take_along_axis(Q, a[:, :, None], 2)[:, :, 0]
    for k in range(n):
        later = 0.0
        for h in range(H - 1, -1, -1):
            later = V[k, h] + ratio[k, h] * (r[k, h] + later - taken[k, h])
        assert scores.doubly_robust(w, r, taken, V)[k] == pytest.approx(later, abs=1e-12)
        by_hand = sum(math.prod(ratio[k, : h + 1]) * r[k, h] for h in range(H))
        assert scores.per_decision(w, r)[k] == pytest.approx(by_hand, abs=1e-12)
    assert scores.normalised(w, r)[1].mean() == pytest.approx(scores.normalised(w, r)[0], abs=1e-12)


# Exact means, by listing everything that can happen ------------------------------------------------
def everything(world, logging):
    """(log of every path that can happen to the world's first kind, their probabilities)."""
    p, x = world.problem, world.contexts.support[0]
    P, r, episodes, chance = world.transitions(x), world.rewards(x), [], []
    steps = list(itertools.product(range(p.n_actions), (0.0, 1.0), range(p.n_states)))
    for path in itertools.product(steps, repeat=p.horizon):
        s, weight, states, b = world.start(0, 0), 1.0, [world.start(0, 0)], []
        for h, (a, reward, after) in enumerate(path):
            b.append(logging[h, s, a])
            weight *= b[-1] * (r[s, a] if reward else 1.0 - r[s, a]) * P[s, a, after]
            s = after
            states.append(s)
        actions, rewards, _ = zip(*path, strict=True)
        found = x, np.array(states), np.array(actions), np.array(rewards), np.array(b)
        episodes.append(LoggedEpisode(len(episodes), *found))
        chance.append(weight)
    return Log(p, tuple(episodes)), np.array(chance)


@pytest.fixture(scope="module")
def listed():
    """A person's every path in a small world, the policy's weights there, a model that is wrong."""
    world, g = small_world(horizon=2), np.random.default_rng(4)
    logging = g.dirichlet(np.full(2, 2.0), (2, 2))
    log, chance = everything(world, logging)
    assert chance.sum() == pytest.approx(1.0)
    people = people_of(log)
    policy = np.array([[1, 0], [0, 1]])
    other = g.dirichlet(np.ones(2), (2, 2))
    sides, values = [], []
    for given in (policy, other):
        of = Policies(world.problem, "policy", given, people.X)
        Q = g.random((2, 2, 2)) * np.array([2.0, 1.0])[:, None, None]
        at = Q[np.arange(2), people.states]
        sides.append(Side(target_of(people, of), predicted_as(at, target_of(people, of))))
        x = world.contexts.support[0]
        values.append(values_by(world.transitions(x), world.rewards(x), of[0])[1][0, world.start(0, 0)])
    floor = logging[np.arange(2), people.states]
    return Asked(people, sides, floor, 0.05, "once", True), chance, values


def predicted_as(Q, target):
    return Predicted(Q, (target.chances * Q).sum(2))


def test_scores_have_the_exact_mean(listed):
    asked, chance, values = listed
    for side, value in zip(asked.sides, values, strict=True):
        people, target = asked.people, side.target
        taken = np.take_along_axis(side.model.Q, people.actions[:, :, None], 2)[:, :, 0]
        assert chance @ scores.per_decision(target.weights, people.rewards) == pytest.approx(value, abs=1e-12)
        dr = scores.doubly_robust(target.weights, people.rewards, taken, side.model.V)
        assert chance @ dr == pytest.approx(value, abs=1e-12)


def test_weights_by_state_are_right_if_visits_or_values_are():
    """Three steps, every path: visits are the mean weight of the paths to a state, and the mean of MDR's scores is the
    value with right visits and wrong Q, with right Q and wrong visits, and not with both wrong."""
    world, g = small_world(horizon=3), np.random.default_rng(6)
    logging = g.dirichlet(np.full(2, 3.0), (3, 2))
    log, chance = everything(world, logging)
    people, x, start = people_of(log), world.contexts.support[0], world.start(0, 0)
    of = Policies(world.problem, "policy", np.array([[1, 0], [0, 1], [1, 1]]), people.X)
    target, P = target_of(people, of), world.transitions(x)
    right, V = values_by(P, world.rewards(x), of[0])
    often = visited(P, of[0], start) / np.maximum(visited(P, logging, start), 1e-300)
    for h in range(3):
        before = target.weights[:, h - 1] if h else np.ones(len(chance))
        for s in range(2):
            at = chance * (people.states[:, h] == s)
            assert (at @ before) == pytest.approx(at.sum() * often[h, s], abs=1e-12)
    steps = np.arange(3)
    values = {"right": right, "wrong": right * g.uniform(0.5, 1.5, right.shape)}
    visits = {"right": often, "wrong": often * g.uniform(0.5, 1.5, often.shape)}
    for how, table in values.items():
        for known, ratio in visits.items():
            ratio[0] = 1.0  # everybody begins where they began
            Q = table[steps, people.states]
            model = Predicted(Q, (target.chances * Q).sum(2), ratio[steps, people.states])
            asked = Asked(people, [Side(target, model)], None, 0.05, "once", False)
            mean = chance @ scored(asked, asked.sides[0], True, True)[0]
            if "right" in (how, known):
                assert mean == pytest.approx(V[0, start], abs=1e-12)
            else:
                assert abs(mean - V[0, start]) > 0.01


def test_the_least_variances_are_those_of_scores_by_the_truth():
    """tests/efficiency.py against every path: mean squares of PDIS and of its other side, the variance of DR with the
    right Q, and of MDR with the right Q and visits."""
    world, g = small_world(horizon=3), np.random.default_rng(7)
    logging = g.dirichlet(np.full(2, 3.0), (3, 2))
    log, chance = everything(world, logging)
    people, x, start, steps = people_of(log), world.contexts.support[0], world.start(0, 0), np.arange(3)
    of = Policies(world.problem, "policy", g.dirichlet(np.ones(2), (3, 2)), people.X)
    target, P, r = target_of(people, of), world.transitions(x), world.rewards(x)
    Q = values_by(P, r, of[0])[0][steps, people.states]
    often = (visited(P, of[0], start) / np.maximum(visited(P, logging, start), 1e-300))[steps, people.states]
    side = Side(target, Predicted(Q, (target.chances * Q).sum(2), often))
    asked = Asked(people, [side], None, 0.05, "once", False)
    found = efficiency.of_person(P, r, logging, of[0], start)
    for wanted, by_state in ((found.by_path, False), (found.by_state, True)):
        assert chance @ (scored(asked, side, True, by_state)[0] - found.value) ** 2 == pytest.approx(wanted, abs=1e-12)
    assert found.by_state < 0.99 * found.by_path
    for wanted, rewards in ((found.square, people.rewards), (found.reflected, 1.0 - people.rewards)):
        assert chance @ scores.per_decision(target.weights, rewards) ** 2 == pytest.approx(wanted, abs=1e-12)
    own = efficiency.of_person(P, r, of[0], of[0], start)
    assert own.by_path == pytest.approx(own.by_state) == pytest.approx(found.its_own)


def test_visits_by_the_model_and_the_rule_that_logged():
    """Both come from the log: the rule from its probabilities, visits from a model of the people before."""
    world = nr.worlds.programme(horizon=3, context_dim=2)
    log = world.log(80, seed=1)
    people, chances = people_of(log), world.log_chances()
    rule = one_rule(people, world.problem)
    met = np.zeros(rule.shape[:2], bool)
    met[np.arange(3), people.states] = True
    assert np.allclose(rule.sum(2), 1.0)
    assert np.allclose(rule[met], chances[met], atol=1e-12)
    calls = world.rule.copy()
    calls[:, [3, 5]] = 2
    of = Policies(world.problem, "policy", calls, people.X)
    found = predicted(log, people, [of], rule)[0]
    agent = nr.CertaintyEquivalence(world.problem)
    agent.learn_from(Log(log.problem, log.episodes[:20]))  # what person 20 or 21 is asked of: 20 grows to 22
    for i in (20, 21):
        P, s = agent.model(people.X[i]).P, people.states[i]
        ours, theirs = visited(P, of[i], s[0]), visited(P, rule, s[0])
        np.testing.assert_allclose(found.visits[i], (ours / np.maximum(theirs, 1e-300))[np.arange(3), s], rtol=1e-12)
    assert (found.visits[:, 0] == 1.0).all()
    logged = predicted(log, people, [Policies(world.problem, "policy", rule, people.X)], rule)[0]
    np.testing.assert_allclose(logged.visits, 1.0, atol=1e-12)
    learned = next(logs_of(small_world(), learned_logs(small_world(), 1, 40, seed=5)))
    assert one_rule(people_of(learned), learned.problem) is None
    certain = replaced(learned, probabilities=np.ones_like)  # both actions of a state, both certain: by something else
    assert one_rule(people_of(certain), certain.problem) is None


@pytest.mark.parametrize("by_model", [False, True])
@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize("turn", [False, True], ids=["lower", "upper"])
def test_every_bet_is_a_supermartingale(listed, by_model, compared, turn):
    """E[exp(gain - lambda v)] <= 1 exactly, for every lambda and several guesses, by listing all paths; and the cuts
    bind somewhere, so that they are tried."""
    asked, chance, values = listed
    sides = asked.sides[: 2 if compared else 1]
    parts = [part_of(asked, side, turn != (i == 1), by_model) for i, side in enumerate(sides)]
    mean = [2.0 - v if turn != (i == 1) else v for i, v in enumerate(values[: len(parts)])]
    lam = bets.lambdas(2, len(parts))
    for guess in (0.0, 0.7, 1.5, 3.0):
        apart = [bets.log_wealth([part_at(p, i) for p in parts], np.array([guess]), lam)[0] for i in range(len(chance))]
        wealth = chance @ np.exp(np.array(apart) - lam * sum(mean))
        assert (wealth <= 1.0 + 1e-12).all()
        assert wealth.min() > 0.5
    plain = chance @ sum((p.weights * p.rewards).sum(1) + p.moves.sum(1) for p in parts)
    assert plain == pytest.approx(sum(mean), abs=1e-12)


def part_at(part, i):
    return bets.Part(*(field[i : i + 1] for field in part))


def test_cuts_leave_the_mean_alone(listed):
    """With the cut t_h the score of a bet keeps its mean, and never falls below its floor: the twin, path by path."""
    asked, chance, values = listed
    part, g = part_of(asked, asked.sides[0], False, True), 0.6
    for lam in (0.5, 0.3, 0.25, 0.1):
        room, cut, totals = bets.RISK / lam, 0, []
        for i in range(len(chance)):
            total = 0.0
            for h in range(2):
                before = 1.0 if h == 0 else part.weights[i, h - 1]
                t = min(1.0, (total - g + room) / max(before * part.worst[i, h], 1e-300))
                cut += t < 1.0
                total += t * before * (part.V[i, h] - part.ratio[i, h] * part.Q[i, h])
                assert total - g >= -room - 1e-12
                total += part.weights[i, h] * part.rewards[i, h]
            totals.append(total)
            wealth = bets.log_wealth([part_at(part, i)], np.array([g]), np.array([lam]))[0, 0]
            assert wealth == pytest.approx(math.log1p(lam * (total - g)) + lam * g, abs=1e-12)
        assert chance @ np.array(totals) == pytest.approx(values[0], abs=1e-12)
        assert cut > 0 or lam < 0.3


def test_bounds_solve_their_equation():
    g = np.random.default_rng(0)
    lam = bets.lambdas(3, 1)
    wealth = np.cumsum(g.normal(0.3, 1.0, (200, lam.size)) * lam, 0)
    counts = np.array([1, 7, 200])
    share = np.exp(bets.shares(lam))
    assert share.sum() == pytest.approx(1.0)
    for n, v in zip(counts, bets.lower_bounds(wealth, lam, counts, 0.025), strict=True):
        assert math.log((share * np.exp(wealth[n - 1] - lam * n * v)).sum()) == pytest.approx(math.log(40.0), abs=1e-6)


# Coverage ------------------------------------------------------------------------------------------
@pytest.mark.long
def test_proved_bounds_hold_at_all_times_while_the_logger_learns():
    """60 runs, delta = 0.05, every one of 120 people: more than 8 of 60 missed has probability below 0.004 if one run
    is missed with chance 0.05. The slow test has 1,000 runs."""
    world, policy = small_world(), np.ones((2, 2), np.int64)
    made = learned_logs(world, 60, 120, seed=1, floor=0.2)
    counts, missed = np.arange(1, 121), np.zeros(4, int)
    for kind, log in zip(made[0], logs_of(world, made), strict=True):
        for i, (asked, v, by_model) in enumerate(all_asked(world, log, policy, kind, 0.2)):
            lower, upper = proved_bounds(asked, by_model, counts)
            true = np.cumsum(v) / counts
            missed[i] += bool(((true < lower - 1e-9) | (true > upper + 1e-9)).any())
    assert (missed <= 8).all()


@pytest.mark.long
def test_wrong_probabilities_are_noticed():
    """Every action logged with chance 1/2, while most were taken with 0.9: the bounds miss, or contradict."""
    world, policy = small_world(), np.ones((2, 2), np.int64)
    made = learned_logs(world, 10, 400, seed=2, floor=0.2)
    missed, crossed = 0, 0
    for kind, log in zip(made[0], logs_of(world, made), strict=True):
        wrong = replaced(log, probabilities=lambda b: np.full_like(b, 0.5))
        row = nr.evaluate(policy, wrong).row("PDIS", "proved")
        true = exact(world, policy, kind).mean()
        missed += not row.lower <= true <= row.upper
        crossed += row.upper < row.lower
        assert row.told == (row.upper >= row.lower) or row.says
        assert ("contradict" in row.says) == (row.upper < row.lower)
    assert missed >= 8
    assert crossed >= 1


def test_a_model_knows_only_the_people_before():
    world = small_world()
    made = learned_logs(world, 1, 60, seed=5)
    log = next(logs_of(world, made))
    later = replaced(Log(log.problem, log.episodes[30:]), rewards=lambda r: 1.0 - r)
    changed = Log(log.problem, (*log.episodes[:30], *later))
    people = people_of(log)
    of = Policies(world.problem, "policy", np.ones((2, 2), np.int64), people.X)
    first, second = (predicted(one, people_of(one), [of])[0].Q for one in (log, changed))
    assert np.array_equal(first[:31], second[:31])
    assert not np.array_equal(first[45:], second[45:])


# Asymptotic ----------------------------------------------------------------------------------------
def test_sequence_and_wald_by_their_formulas():
    g = np.random.default_rng(3)
    e, guess = g.normal(0.2, 1.5, 400), g.random(400)
    found = asymptotic.repeated(guess, e, 0.05)
    V, scale = 400 * e.var(), e[:50].var()
    t = 1000 * scale / (2 * math.log(20) + math.log(1 + 2 * math.log(20)))
    assert found.half == pytest.approx(math.sqrt((V + t) * (math.log(1 + V / t) + 2 * math.log(20))) / 400)
    assert found.estimate == pytest.approx((guess + e).mean())
    once = asymptotic.wald(guess, e, 0.05)
    assert once.half == pytest.approx(1.96 * e.std() / 20, rel=0.01)
    assert once.half < found.half
    even = asymptotic.stabilised(guess, np.where(np.arange(400) < 200, e, 3.0 * e), 1.0, 0.05)
    plain = asymptotic.wald(guess, np.where(np.arange(400) < 200, e, 3.0 * e), 0.05)
    assert even.half < plain.half  # those with the larger variance count less


def test_degrees_of_freedom():
    """Of sums of squares: n for n normal terms (their mean over 400 samples, whose standard error is below 3%), those
    of two groups by hand, and the quantiles that come of them."""
    g = np.random.default_rng(8)
    assert np.mean([asymptotic.freedom(g.normal(size=300)) for _ in range(400)]) == pytest.approx(280.0, rel=0.08)
    first, second = g.normal(size=40), 3.0 * g.standard_t(3, size=25)
    parts = [((d**4).sum() - (d**2).sum() ** 2 / len(d)) for d in (first, second)]
    total = (first**2).sum() + (second**2).sum()
    assert asymptotic.freedom(first, second) == pytest.approx(2.0 * total**2 / sum(parts))
    assert asymptotic.freedom(np.zeros(5)) == 5.0
    for delta, n in ((0.05, 7.0), (0.01, 30.0)):
        assert asymptotic.student(delta, n) == pytest.approx(stats.t.isf(0.5 * delta, n))
    heavy = second - second.mean()
    once, n = asymptotic.wald(np.zeros(60), np.concatenate([heavy, np.zeros(35)]), 0.05), asymptotic.freedom
    centred = np.concatenate([heavy, np.zeros(35)])
    assert once.half == pytest.approx(stats.t.isf(0.025, n(centred)) * math.sqrt((centred**2).sum()) / 60)


def test_scales_are_known_beforehand():
    e = np.random.default_rng(0).normal(size=300)
    other = np.where(np.arange(300) < 120, e, 5.0)
    assert np.array_equal(asymptotic.recent_scale(e, 1.0)[:121], asymptotic.recent_scale(other, 1.0)[:121])


# The answer ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def clinic():
    world = nr.worlds.clinic()
    return world, world.log(400, seed=1, rule=RULE, explore=0.3)


def test_rows_subgroups_and_text(clinic):
    world, log = clinic
    floor = world.log_chances(0.3, RULE)
    found = nr.evaluate(RULE, log, floor=floor, subgroups={"half": lambda x: x[1] > 0, "some": np.arange(400) < 250})
    assert {row.subgroup for row in found} == {"everyone", "half", "some"}
    true = np.array([world.values(RULE, e.context)[0, e.states[0]] for e in log])
    for name, kept in (("everyone", np.ones(400, bool)), ("some", np.arange(400) < 250)):
        for estimator, rung in (("PDIS", "proved"), ("DR", "proved"), ("DR", "asymptotic"), ("WPDIS", "asymptotic")):
            row = found.row(estimator, rung, name)
            assert row.lower <= true[kept].mean() <= row.upper
            assert row.people == kept.sum()
    text = str(found)
    assert text == repr(found)
    assert "rung" in text
    assert "proved" in text
    assert max(map(len, text.splitlines()[:8])) <= 120
    assert len(found.table()) == len(found)
    assert found.table()[0]["estimator"] == "PDIS"
    with pytest.raises(ValueError, match="must be those of a row"):
        found.row("IPS")


@pytest.mark.long
def test_policies_in_every_form_are_one(clinic):
    _, log = clinic
    chances = np.zeros((6, 4, 3))
    h, s = np.ogrid[:6, :4]
    chances[h, s, np.array(RULE)] = 1.0
    rows = [
        nr.evaluate(given, log).rows
        for given in (RULE, chances, [RULE] * 400, lambda x: RULE, lambda x: chances, np.stack([chances] * 400))
    ]
    assert all(row == rows[0] for row in rows)


@pytest.mark.long
def test_differences_units_and_the_log_itself(clinic):
    _, log = clinic
    wait = np.array([[0, 0, 0, 1]] * 6)
    apart = nr.evaluate(wait, log, against=RULE).row("PDIS", "asymptotic").estimate
    alone = [nr.evaluate(one, log).row("PDIS", "asymptotic").estimate for one in (wait, RULE)]
    assert apart == pytest.approx(alone[0] - alone[1], abs=1e-12)
    done = nr.evaluate(RULE, log, against="log").row("PDIS", "asymptotic").estimate
    assert done == pytest.approx(alone[1] - np.mean([e.rewards.sum() for e in log]), abs=1e-12)
    same = nr.evaluate(RULE, log, against=RULE)
    assert all(row.lower == row.upper == 0.0 for row in same)
    assert "the same" in str(same)


def test_rewards_in_other_units():
    def made(low, high):
        p = nr.Problem(2, 2, 2, 1, weight_bound=1.0, reward_bound=5.0, reward_range=(low, high))
        mean = low + (high - low) * np.array([[[0.2], [0.6]], [[0.7], [0.4]]])
        world = nr.World(p, np.zeros((2, 2, 2, 1)), mean, contexts=[[1.0]])
        return nr.evaluate([[1, 0]] * 2, world.log(150, seed=1, rule=[[0, 1]] * 2, explore=0.5), floor=0.25)

    for plain, other in zip(made(0.0, 1.0), made(-1.0, 3.0), strict=True):
        for name in ("estimate", "lower", "upper"):
            near = 1e-9 if "PDIS" in plain.estimator else 0.5  # the model's prior knows the units
            assert getattr(other, name) == pytest.approx(-2.0 + 4.0 * getattr(plain, name), abs=near)


def test_the_data_cannot_tell(clinic):
    world, log = clinic
    far = np.array([[0, 2, 2, 2]] * 6)
    found = nr.evaluate(far, log)
    row = found.row("PDIS", "asymptotic")
    assert not row.told
    assert (row.lower, row.upper) == (0.0, 6.0)
    assert "no crowd" in row.says
    assert "agent=" in row.says or "better here" in row.says
    assert "cannot tell" in str(found)
    sure = nr.evaluate(far, log, agent=nr.LRORL(world.problem))
    by_sets = sure.row("model sets")
    agent = nr.LRORL(world.problem)
    agent.learn_from(log)
    direct = agent.compare(far, contexts=[e.context for e in log], start=2)
    assert (by_sets.lower, by_sets.upper) == pytest.approx((direct.lower, direct.upper), abs=1e-9)
    assert by_sets.rung == "proved"
    assert math.isnan(by_sets.effective)


def two_steps(people, chance, pay, seed=0):
    """A log of two states that are equally likely at both steps; chance [S]: of action 1; pay [S, A]: mean rewards."""
    g, problem = np.random.default_rng(seed), nr.Problem(2, 2, 2, 1, weight_bound=1.0, reward_bound=1.0)
    states = g.integers(0, 2, (people, 3))
    likely = np.asarray(chance)[states[:, :2]]
    actions = (g.random((people, 2)) < likely).astype(int)
    rewards = (g.random((people, 2)) < np.asarray(pay)[states[:, :2], actions]).astype(float)
    chances = np.where(actions == 1, likely, 1.0 - likely)
    rows = zip(states, actions, rewards, chances, strict=True)
    return Log(problem, tuple(LoggedEpisode(k, np.ones(1), *row) for k, row in enumerate(rows)))


def test_what_nobody_got_is_no_interval():
    """Action 1 is never taken in state 0, where it would pay .9: every estimate by weights is far too small, and none
    is shown. Taken by one in five it is weighed, and the intervals hold."""
    policy, pay = np.array([[1, 0], [1, 0]]), [[0.5, 0.9], [0.5, 0.5]]
    truth = 2.0 * (0.5 * 0.9 + 0.5 * 0.5)
    found = nr.evaluate(policy, two_steps(3000, [0.0, 0.5], pay), looks="once")
    rows = [row for row in found if row.rung == "asymptotic" and row.estimator != "plug-in"]
    assert [row.estimator for row in rows] == ["PDIS", "WPDIS", "DR", "MDR"]
    for row in rows:
        assert not row.told
        assert "nobody got" in row.says
        assert abs(row.estimate - truth) > 0.2
    assert "better here: DR" not in str(found)
    some = nr.evaluate(policy, two_steps(3000, [0.2, 0.5], pay), looks="once")
    for row in some:
        if row.rung == "asymptotic":
            assert row.told
            assert row.lower - 0.1 < truth < row.upper + 0.1


def test_a_few_who_got_nothing_are_seen_where_they_matter():
    """One in twenty-five is in a state where the policy's action is never taken: their weights are missed by less than
    chance explains, but the interval is narrower than what they could be worth."""
    g, problem = np.random.default_rng(3), nr.Problem(2, 2, 1, 1, weight_bound=1.0, reward_bound=1.0)
    s = (g.random(2000) < 0.04).astype(int)
    a = np.where(s == 1, 0, (g.random(2000) < 0.5).astype(int))
    r = (g.random(2000) < 0.5).astype(float)
    b = np.where(s == 1, 1.0, 0.5)
    rows = zip(np.stack([s, s], 1), a[:, None], r[:, None], b[:, None], strict=True)
    log = Log(problem, tuple(LoggedEpisode(k, np.ones(1), *row) for k, row in enumerate(rows)))
    policy, people = np.ones((1, 2), int), people_of(log)
    target = target_of(people, Policies(problem, "policy", policy, people.X))
    v = np.ones((2000, 1))
    assert missing(v, target.ratio) == [0.0]
    assert unmet(people, target, v) == pytest.approx([s.mean()])
    found = nr.evaluate(policy, log, looks="once")
    assert "nobody got" in found.row("PDIS", "asymptotic").says
    assert found.row("PDIS", "asymptotic").half_width == 0.5  # all that is possible


def test_weights_are_missed_by_no_more_than_chance():
    """Where the logger may do everything, logs of 500 people with weights of 20: each is called short with chance
    .00115 (the binomial's sum), so more than 6 of 1,000 with chance 1e-4."""
    assert stats.binom.sf(6, 1000, 0.00115) < 2e-4
    g, short = np.random.default_rng(4), 0
    for _ in range(1000):
        ratio = np.where(g.random((500, 1)) < 0.05, 20.0, 0.0)
        short += bool(missing(np.ones((500, 1)), ratio).any())
    assert short <= 6


def test_wald_is_never_shown_at_repeated_looks(clinic):
    _, log = clinic
    repeated, once = nr.evaluate(RULE, log), nr.evaluate(RULE, log, looks="once")
    assert not any("Wald" in row.method for row in repeated)
    assert once.row("DR", "asymptotic").method == "Wald"
    assert once.row("DR", "asymptotic").half_width < 0.75 * repeated.row("DR", "asymptotic").half_width
    learned = nr.evaluate(RULE, log, looks="once", learning=True)
    assert learned.row("DR", "asymptotic").method == "Wald with stabilised variances"
    assert not learned.row("WPDIS").told


def test_learning_is_seen_in_the_probabilities():
    world = small_world()
    made = learned_logs(world, 1, 100, seed=5, floor=0.3)
    log = next(logs_of(world, made))
    found = nr.evaluate(np.ones((2, 2), np.int64), log, looks="once")
    assert "stabilised" in found.row("PDIS", "asymptotic").method
    assert "MDR" not in {row.estimator for row in found}


@pytest.mark.deep
def test_weights_by_state_where_one_rule_logged(clinic):
    """A row for policies far from the log, where weights of paths are worth a handful; its label says what it is."""
    world, few = clinic
    log, far = world.log(1000, seed=2, rule=RULE, explore=0.3), np.array([RULE[0]] * 2 + [[0, 1, 1, 2]] * 4)
    found = nr.evaluate(far, log, looks="once")
    row, path = found.row("MDR"), found.row("DR")
    assert (row.rung, row.method) == ("asymptotic", "Wald, weights by state")
    assert row.effective > 5.0 * path.effective
    assert row.told
    assert not path.told
    assert row.lower <= np.mean([world.values(far, e.context)[0, e.states[0]] for e in log]) <= row.upper
    assert "beyond the state" in str(found)
    assert "MDR" not in {one.estimator for one in nr.evaluate(far, few, learning=True)}
    done = nr.evaluate(far, few, against="log").row("MDR").estimate
    assert done == pytest.approx(
        nr.evaluate(far, few).row("MDR").estimate - np.mean([e.rewards.sum() for e in few]), abs=1e-9
    )
    short = nr.worlds.programme(horizon=1, context_dim=2)
    assert "MDR" not in {one.estimator for one in nr.evaluate(short.rule, short.log(100, seed=1))}


def test_missing_numbers_are_said_and_taken_for_the_worst(clinic):
    _, log = clinic
    whole = nr.evaluate(RULE, log)
    g = np.random.default_rng(0)
    lost = replaced(log, rewards=lambda r: np.where(g.random(len(r)) < 0.05, np.nan, r))
    some = nr.evaluate(RULE, lost)
    assert some.row("PDIS", "proved").lower < whole.row("PDIS", "proved").lower
    assert some.row("PDIS", "proved").upper > whole.row("PDIS", "proved").upper
    assert some.row("PDIS", "asymptotic").people < some.row("PDIS", "proved").people == 400
    assert "take the worst" in str(some)
    bare = replaced(Log(log.problem, log.episodes[:100]), probabilities=lambda b: b * np.nan)
    left = nr.evaluate(RULE, Log(log.problem, (*bare, *log.episodes[100:])))
    assert left.row("PDIS", "proved").people == 300
    assert "100 of 400 people have no probability" in str(left)


def test_a_log_without_order_says_so(clinic):
    _, log = clinic
    shuffled = Log(log.problem, log.episodes[:60], ordered=False)
    assert "order of arrival is not known" in str(nr.evaluate(RULE, shuffled))
    assert "order of arrival" not in str(nr.evaluate(RULE, Log(log.problem, log.episodes[:60])))


def test_a_log_without_probabilities(clinic):
    world, log = clinic
    bare = replaced(log, probabilities=lambda b: b * np.nan)
    found = nr.evaluate(RULE, bare, agent=nr.LRORL(world.problem))
    assert found.row("model sets").people == 400
    assert not any(row.estimator in ("PDIS", "WPDIS", "DR") for row in found)
    assert "log has no probabilities of its actions" in str(found)


def test_bad_questions(clinic):
    world, log = clinic
    for sentence, args, options in (
        ("log must be what", (RULE, [1]), {}),
        ("log must have at least one episode", (RULE, Log(log.problem, ())), {}),
        ("policy must be actions", ([[0]], log), {}),
        ("policy must be probabilities", (np.full((6, 4, 3), 0.5), log), {}),
        ("against must be actions", (RULE, log), {"against": [[7]]}),
        ("delta must be", (RULE, log), {"delta": 1.5}),
        ("looks must be", (RULE, log), {"looks": "often"}),
        ("learning must be", (RULE, log), {"learning": 3}),
        ("floor must be from 0 to 1", (RULE, log), {"floor": 2.0}),
        ("floor must be at most every logged probability", (RULE, log), {"floor": 0.5}),
        ("subgroups must be", (RULE, log), {"subgroups": [1]}),
        (r"subgroups\['none'\] must have", (RULE, log), {"subgroups": {"none": lambda x: False}}),
        (r"subgroups\['odd'\] must be", (RULE, log), {"subgroups": {"odd": [1, 0]}}),
        ("agent must have confidence sets", (RULE, log), {"agent": nr.UniformRandom(world.problem)}),
    ):
        with pytest.raises(ValueError, match=sentence):
            nr.evaluate(*args, **options)


def test_short_logs_have_no_asymptotic_interval(clinic):
    _, log = clinic
    few = Log(log.problem, log.episodes[:20])
    row = nr.evaluate(RULE, few).row("DR", "asymptotic")
    assert not row.told
    assert "too few" in row.says
    world = small_world()
    five = next(logs_of(world, learned_logs(world, 1, 5, 0)))
    asked = next(all_asked(world, five, np.ones((2, 2), np.int64), None, 0.1))[0]
    assert [row.people for row in weighted_rows("x", asked)] == [5] * 5


def test_the_log_of_an_agent_that_learned():
    """Its probabilities are exact, and change as it learns."""
    world = nr.worlds.clinic(horizon=3)
    log = nr.logged(nr.PSRLGLM(world.problem, plans=4, floor=0.4), world, people=300, seed=1)
    rule = RULE[:3]
    true = np.mean([world.values(rule, e.context)[0, e.states[0]] for e in log])
    for looks in ("once", "repeated"):
        found = nr.evaluate(rule, log, floor=0.4 / 3, looks=looks)
        for estimator in ("PDIS", "DR"):
            row = found.row(estimator, "proved")
            assert row.lower <= true <= row.upper
        method = found.row("DR", "asymptotic").method
        assert method == ("asymptotic confidence sequence" if looks == "repeated" else "Wald with stabilised variances")


@pytest.mark.long
def test_who_says_that_the_logger_learned_is_heard_by_the_fitted_model():
    """The log of one rule: weights are 1 unless it is said to have learned."""
    world = nr.worlds.programme(horizon=2, context_dim=4)
    log = world.log(400, seed=1)
    widths = {
        said: nr.evaluate(world.rule, log, learning=said).row("plug-in").half_width for said in (None, False, True)
    }
    assert widths[None] == widths[False] != widths[True]
