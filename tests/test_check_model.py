"""Whether the model is right: bets against it, what it can answer at most, and `check_model`."""

import dataclasses
import itertools
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import noregret as nr
from noregret.agents import refutation
from noregret.estimators.audit import (
    ALONG,
    MIX,
    audit_parts,
    bet_outcome,
    bet_reward,
    features,
    least_squares,
    mixed,
    online_prices,
    reward_logs,
    transition_logs,
)
from noregret.evidence.audited import auditor, go_through, transition_prices
from noregret.evidence.log_steps import steps_of
from noregret.evidence.model_check import stored_log
from noregret.evidence.prices import Seen, most_likely, most_likely_linear
from noregret.report.statistics import binomial_upper
from wrong_models import Truth, certificates, softmax

FALSE = pytest.warns(UserWarning, match="promises nothing any more: after")


def episodes_of(log):
    return [(e.context, e.states, e.actions, e.rewards) for e in log]


@pytest.fixture(scope="module")
def programme():
    """A world with a design, and a log of it."""
    world = nr.worlds.programme(context_dim=3)
    return world, world.log(150, seed=1)


# The bets ---------------------------------------------------------------------------------------------------------
def twin(problem, components, episodes, logits, means):
    """gain [N, C] and squares [R, C+1] of the bets, from the formulas; logits(k) [S, A, M] and means(k) [S, A] are what
    was predicted before episode k."""
    p, d = problem, problem.context_dim
    kept = [c for c in components if c.kind != 0 or p.design is not None]
    listed = features(tuple(kept), d, False)
    (S, A, M), C = p.layout.outcomes.shape, len(kept)
    tilts = [np.zeros((S, A, M, len(f))) for f in listed]
    rates = [np.full((S, A, M, len(f)), 1.0 / c.kappa) for c, f in zip(kept, listed, strict=True)]
    own = [np.zeros((S, A, len(f))) for f in listed]
    pace = [np.full((S, A, len(f)), 1.0 / c.kappa) for c, f in zip(kept, listed, strict=True)]
    place = np.arange(S * A).reshape(S, A) if p.blocks is None else p.blocks.block
    of_rewards = np.arange(S * A).reshape(S, A) if p.reward_blocks is None else p.reward_blocks.block
    gain, squares = np.zeros((place.max() + 1, C)), np.zeros((of_rewards.max() + 1, C + 1))
    for k, (x, states, actions, rewards) in enumerate(episodes):
        f = [np.array([x[i] if j < 0 else x[i] * x[j] for i, j in one]) for one in listed]
        for h, (s, a) in enumerate(zip(states[:-1], actions, strict=True)):
            n = p.layout.count[s, a]
            y = p.layout.outcomes[s, a, :n].tolist().index(states[h + 1])
            for c in range(C):
                q = softmax(logits(k)[s, a, :n] + tilts[c][s, a, :n] @ f[c])
                gain[place[s, a], c] += math.log((1 - MIX) * q[y] + MIX / n)
                rate = rates[c][s, a, :n]
                rate = np.minimum(
                    rate / kept[c].decay * (1 - rate * np.outer(q * (1 - q), f[c] ** 2)), 1 / kept[c].kappa
                )
                rates[c][s, a, :n] = rate
                tilts[c][s, a, :n] += rate * np.outer((np.arange(n) == y) - q, f[c])
                m = np.clip(means(k)[s, a] + own[c][s, a] @ f[c], 0, 1)
                squares[of_rewards[s, a], c] += (rewards[h] - m) ** 2
                rate = pace[c][s, a]
                pace[c][s, a] = np.minimum(rate / kept[c].decay * (1 - rate * f[c] ** 2), 1 / kept[c].kappa)
                own[c][s, a] += pace[c][s, a] * (rewards[h] - m) * f[c]
            squares[of_rewards[s, a], C] += (rewards[h] - means(k)[s, a]) ** 2
    return gain, squares


def predicted(agent, x):
    """(logits [S, A, M], means [S, A]) at x by an agent's sets as they are now."""
    p, state = agent.problem, agent.state
    if p.design is None:
        return state.transitions.weights @ x, np.clip(state.rewards.theta @ x, 0, 1)
    made = []
    for blocks, theta in ((p.blocks, state.transitions.weights[0]), (p.reward_blocks, state.rewards.theta[0, 0])):
        t = [theta[i:j] @ x[blocks.column[0, i:j]] for i, j in itertools.pairwise(blocks.start[0])]
        made.append(blocks.features @ np.array(t))
    return made[0], np.clip(made[1][..., 0], 0, 1)


@pytest.mark.parametrize("shared", [False, True])
def test_bets_are_what_the_formulas_say(shared, programme):
    world = programme[0] if shared else nr.worlds.random_logit(4, 3, 5, 3, weight_bound=4.0, seed=0)
    log = programme[1] if shared else Truth("right", people=40, sizes=(4, 3, 5, 3)).log()
    agent = nr.LRORL(world.problem if shared else log.problem)
    seen, some = [], episodes_of(log)[:40]
    for one in some:
        seen.append(predicted(agent, one[0]))
        agent._learn_all([one])
    gain, squares = twin(agent.problem, ALONG, some, lambda k: seen[k][0], lambda k: seen[k][1])
    audit = agent.state.audit
    assert np.allclose(audit.gain, gain, rtol=1e-9, atol=1e-9)
    assert np.allclose(audit.squares[:, :-1], squares, rtol=1e-9, atol=1e-9)
    count = agent.problem.layout.count
    assert audit.seen[count > 1].sum() == sum(len(e[2]) for e in some)  # no pair of these has one next state alone
    assert np.allclose(audit.expected.sum(2), audit.seen.sum(2))
    assert audit.worth[0] == 40


def test_predictions_add_up_to_one_over_all_that_can_happen():
    """Sum over all sequences of next states of prod q: a martingale has mean one whatever the model."""
    p = nr.Problem(2, 1, 7, 2, weight_bound=3.0, reward_bound=1.0)
    total = np.zeros(2)
    for ys in itertools.product((0, 1), repeat=7):
        par, audit, work = audit_parts(p, ALONG)
        for h, y in enumerate(ys):
            work.f[:] = 0.7 * np.cos(h + np.arange(work.f.size))
            work.z[:] = 0.3 * h - 1.0, 0.0
            bet_outcome(par, audit, work, 0, 0, 2, y)
        total += np.exp(audit.gain[0])
    assert np.allclose(total, 1.0, rtol=1e-12)


@pytest.mark.parametrize("means", [(0.0, 1.0, 0.5, 0.02), (0.3, 0.9, 0.99, 0.5)])
def test_bets_on_rewards_are_a_supermartingale(means):
    """E prod exp(2 (r - mu)^2 - 2 (r - m)^2) <= 1 over rewards 0, 1/2 and 1 with these means."""
    p = nr.Problem(2, 1, 4, 2, weight_bound=3.0, reward_bound=1.0)
    total = 0.0
    for rewards in itertools.product((0.0, 0.5, 1.0), repeat=4):
        par, audit, work = audit_parts(p, ALONG)
        chance, own = 1.0, 0.0
        for h, (mu, r) in enumerate(zip(means, rewards, strict=True)):
            half = min(mu, 1 - mu)  # of its probability is at 1/2
            chance *= {0.0: 1 - mu - half / 2, 0.5: half, 1.0: mu - half / 2}[r]
            work.f[:] = np.cos(h + np.arange(work.f.size))
            bet_reward(par, audit, work, 0, 0, 0.5, r, 0.0)
            own += (r - mu) ** 2
        total = total + chance * np.exp(2 * own - 2 * audit.squares[0, :-2])
    assert (total <= 1.0 + 1e-12).all()
    assert (total > 0.0).all()


def test_stakes_are_shared_out():
    logs = np.array([[1.0, -2.0], [0.5, 3.0], [-4.0, 0.0]])
    e = np.exp(logs)
    assert mixed(logs) == pytest.approx(math.log(0.5 * e.prod(0).mean() + 0.5 * e.mean()))
    assert mixed(np.zeros((0, 3))) == 0.0


# What the model can answer ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["right", "steep"])
def test_no_true_weights_do_better_than_the_price(kind):
    """sum ln p*(y) is at most what all steps say, which is at most what the online sets say; close to each other."""
    truth = Truth(kind, people=120)
    log = truth.log()
    agent = nr.LRORL(truth.problem)
    agent.learn_from(log)
    steps = steps_of(log)
    free, bounded = transition_prices(truth.problem, steps)
    true = np.zeros(6)
    for x, s, a, y in zip(steps.X[steps.person], steps.s, steps.a, steps.slot, strict=True):
        true[2 * s + a] += math.log(truth.transitions(x, 0)[s, a, y])
    sets = agent.state.transitions
    online = online_prices(sets.radius, sets.loss, agent.par.log_transition)
    assert (true <= bounded + 1e-9).all()
    assert (bounded <= free + 0.05).all()
    assert (bounded <= online + 0.05).all()
    assert (bounded - true < 12.0).all()  # six weights a pair: half a nat each, or a little more


def test_the_price_is_the_maximum():
    """Against scipy, with and without a bound that is felt; and whatever is tried stays below."""
    from scipy.optimize import minimize

    g = np.random.default_rng(0)
    X, n = g.standard_normal((80, 2)), 3
    y = np.array([g.choice(n, p=softmax(np.array([2 * x[0], -x[1], 0.0]))) for x in X])

    def rows(k):
        made = np.zeros((k.size, n, n - 1, 2))
        made[:, np.arange(2), np.arange(2)] = X[k][:, None]
        return made.reshape(k.size, n, 4)

    def loss(u):
        z = np.concatenate([X @ u.reshape(2, 2).T, np.zeros((80, 1))], 1)
        return float((np.log(np.exp(z).sum(1)) - z[np.arange(80), y]).sum())

    for bound in (50.0, 0.5):
        near = [
            {"type": "ineq", "fun": lambda u, j=j, bound=bound: bound**2 - (u.reshape(2, 2)[j] ** 2).sum()}
            for j in range(2)
        ]
        best = -minimize(loss, np.zeros(4), constraints=near, method="SLSQP", tol=1e-10).fun
        made = most_likely(Seen(rows, y, np.full(80, n), np.repeat([0, 1], 2), bound), (bound,))[0]
        assert best - 1e-6 <= made <= best + 0.05
    for _ in range(200):
        u = g.standard_normal((2, 2))
        u *= 0.5 * g.random((2, 1)) / np.linalg.norm(u, axis=1, keepdims=True)
        assert -loss(u.ravel()) <= made


def test_the_price_of_mixed_distributions():
    """Columns of W are distributions: whatever is tried stays below, and the truth is not far."""
    g = np.random.default_rng(1)
    X, W = g.dirichlet(np.ones(3), 300), g.dirichlet(np.ones(4), 3).T
    y = np.array([g.choice(4, p=W @ x) for x in X])
    made = most_likely_linear(X, y, 4)
    true = float(np.log((X @ W.T)[np.arange(300), y]).sum())
    tried = [float(np.log((X @ g.dirichlet(np.ones(4), 3))[np.arange(300), y]).sum()) for _ in range(200)]
    assert max(tried) <= made
    assert true <= made <= true + 12.0


def test_the_least_sum_of_squares_is_never_too_large():
    g = np.random.default_rng(2)
    for bound in (0.1, 1.0, 50.0):
        X, r = g.standard_normal((40, 3)), g.random(40)
        gram, moment, theta = X.T @ X, X.T @ r, np.zeros(3)
        for _ in range(4000):
            theta = theta + (moment - gram @ theta) / np.linalg.eigvalsh(gram)[-1]
            theta = theta * min(1.0, bound / np.linalg.norm(theta))
        best = 2 * moment @ theta - theta @ gram @ theta
        several = np.array([gram, np.zeros_like(gram)]), np.array([moment, np.zeros_like(moment)])
        found, nothing = least_squares(*several, bound)  # the second pair was never seen
        assert nothing == 0.0
        assert best - 1e-9 <= found <= best * 1.1 + 1e-3


# Alarms -----------------------------------------------------------------------------------------------------------
def alarmed(worlds, kinds, people, delta):
    """How many of these right worlds are red, or refute their agent."""
    red = refuted = 0
    for seed in worlds:
        truth = Truth(kinds[seed % len(kinds)], seed=seed, people=people)
        log = truth.log()
        red += nr.check_model(log, delta).level == "red"
        agent = nr.LRORL(truth.problem, delta=delta)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent.learn_from(log)
        refuted += agent.refuted is not None
    return red, refuted


def test_right_worlds_are_green():
    """At delta = .3 with probability at most .3 a world: more than 8 of 10 then has probability below 2e-4. Every other
    world is nearly deterministic; in all of them rows are as long as the bound allows."""
    red, refuted = alarmed(range(10), ("right", "steep"), 60, 0.3)
    assert red <= 8
    assert refuted <= 8


@pytest.mark.slow
def test_right_worlds_are_green_in_1000_worlds():
    """More than 360 of 1000 has probability below 1e-4. Seen: none."""
    red, refuted = alarmed(range(1000), ("right", "steep"), 100, 0.3)
    print(f"red in {red} of 1000 right worlds (upper limit {binomial_upper(red, 1000):.3g}), refuted in {refuted}")
    assert red <= 360
    assert refuted <= 360


@pytest.mark.parametrize(("kind", "size", "said"), [
    ("drift", 1.0, "drift"), ("bound", 1.0, "bound"), ("rewards", 1.0, "rewards"), ("reward drift", 1.0, "rewards"),
])  # fmt: skip
def test_wrong_models_are_found(kind, size, said):
    """Seeds are fixed: nothing here is left to chance."""
    found = nr.check_model(Truth(kind, size, seed=1, people=700).log())
    assert found.level == "red"
    assert found.likeliest == said
    assert found[said].sentence.startswith(f"{said}: the data speak against ")


def test_a_wrong_design_is_found_and_refutes_the_agent():
    world = nr.worlds.programme(context_dim=3, misspecification=0.6)
    log = world.log(400, seed=1)
    found = nr.check_model(log)
    assert (found.level, found.likeliest, found["rewards"].level) == ("red", "design", "green")
    agent = nr.LRORL(world.problem)
    with FALSE:
        agent.learn_from(log)
    assert "in ways that the design does not allow (somebody who bet on that had" in agent.refuted
    assert agent.guarantee is None
    along = nr.check_model(agent)
    assert along.level == "red"
    assert along["design"].log_e <= found["design"].log_e + 20.0  # the online sets charge more


def test_alarms_come_before_false_certificates_where_rewards_are_wrong():
    """One world of docs/evidence-model.md, its beginning."""
    noticed, false = certificates("rewards", 1.0, 8, 400)
    assert noticed is not None
    assert false is None


def test_the_shares_add_up():
    assert refutation.SHARE + refutation.MODEL_SHARE + 0.98 <= 1.0 + 1e-12


def test_bets_along_the_way_are_those_of_a_log_and_are_saved(programme, tmp_path):
    world, log = programme
    agent, played = nr.LRORL(world.problem), nr.LRORL(world.problem)
    for _ in range(2):
        agent.learn_from(log)
    played.learn_from(log)
    played.save(tmp_path / "agent.npz")
    again = nr.load(tmp_path / "agent.npz")
    again.learn_from(log)
    for a, b in zip(agent.state.audit, again.state.audit, strict=True):
        assert np.array_equal(a, b)
    part = agent
    logs = transition_logs(part.state.transitions, part.state.audit, part.par.log_transition)
    found = nr.check_model(agent)
    assert found["design"].log_e == pytest.approx(mixed(logs[:, part.par.audit.kind == 0]))
    rewards = reward_logs(part.par.rewards, part.state.rewards, part.state.audit)
    assert found["rewards"].log_e == pytest.approx(mixed(rewards))
    for agent in (part, nr.LRORL(nr.worlds.clinic().problem), played):
        known = agent.par.rewards, agent.state.rewards, agent.state.audit
        assert np.all(reward_logs(*known, at_most=True) >= reward_logs(*known) - 1e-9)
    assert mixed(reward_logs(part.par.rewards, part.state.rewards, part.state.audit, at_most=True)) < 1.0  # no alarm
    assert (found.people, found.source) == (300, "bets along the way")


# The report -------------------------------------------------------------------------------------------------------
def test_what_is_said_of_a_log(programme):
    log = programme[1]
    found = nr.check_model(log)
    assert found.level == "green"
    assert found.likeliest is None
    assert {a.kind for a in found.alarms} == {"design", "drift", "link", "time", "bound", "rewards"}
    assert found.looks[-1].people == found.people == 150
    assert found.steps == log.steps == found.visits.sum()
    rows = found.table()
    assert sum(r["seen"] for r in rows) == pytest.approx(log.steps)
    assert sum(r["expected"] for r in rows) == pytest.approx(log.steps)
    low = [r for r in rows if r["state"] == "low, mild" and r["action"] == "message"]
    assert sum(r["seen"] for r in low) == low[0]["visits"]
    assert found.worth.low <= found.worth.gain <= found.worth.high
    assert found.worth.rung == "asymptotic"
    text = str(found)
    assert text.startswith("green: 150 people, 1,200 steps, a log\n")
    assert "nats a person against a table without them" in text
    assert np.all((found.deciles[:, 0] >= 0) & (found.deciles[:, 0] <= 1))
    assert found.deciles[:, 2].sum() == (found.problem.layout.count * found.visits).sum()
    with pytest.raises(KeyError, match="kind must be one of design, drift"):
        found["weather"]


def test_contexts_are_worth_something_where_they_matter():
    """Contexts decide here, and do not in the same world with weights on the intercept alone."""
    truth = Truth("right", people=300)
    found = nr.check_model(truth.log()).worth
    assert found.low > 0.0
    assert found.model < found.table
    assert "contexts help" in found.sentence
    truth = Truth("right", people=300)
    truth.W[..., 1:] = 0.0
    same = nr.check_model(truth.log()).worth
    assert same.gain < 0.0
    assert same.log_e < 3.0 < found.log_e


def test_an_agent_that_stores_its_steps_is_checked_by_them(programme):
    world, log = programme
    agent = nr.LRORL(world.problem, sets="stored")
    agent.learn_from(log)
    found, of_log = nr.check_model(agent), nr.check_model(log)
    assert found.source == "the steps it stores"
    assert [a.log_e for a in found.alarms] == pytest.approx([a.log_e for a in of_log.alarms])
    made = stored_log(world.problem, agent.state.store)
    for one, e in zip(made, log, strict=True):
        for name in ("context", "states", "actions", "rewards"):
            assert np.array_equal(getattr(one, name), getattr(e, name))


@pytest.mark.parametrize("change", ["linear", "logistic", "known", "signed"])
def test_other_links_and_rewards(change):
    """A right model of each kind is green; rewards that were told wrongly are red."""
    world = (nr.worlds.random_linear if change == "linear" else nr.worlds.random_logit)(3, 2, 3, 2, seed=1)
    p, theta = world.problem, world.reward_weights
    changes = {
        "linear": {}, "known": {"known_rewards": theta, "reward_bound": None},
        "logistic": {"rewards": "logistic", "reward_bound": 2.0},
        "signed": {"reward_range": (-0.5, 1.5), "reward_bound": 1.5 * p.reward_bound},
    }[change]  # fmt: skip
    p = dataclasses.replace(p, **changes)
    theta = 1.5 * theta if change == "signed" else 2.0 * theta - 0.4 if change == "logistic" else theta
    theta = theta * min(1.0, p.reward_bound / np.linalg.norm(theta, axis=-1).max())
    made = nr.World(p, world.weights, theta, world.contexts, 0, "changed", False)
    rule = np.zeros((3, 3), int)
    log = made.log(120, seed=1, explore=1.0, rule=rule)
    found = nr.check_model(log)
    assert found.level == "green", str(found)
    assert ("bound" in {a.kind for a in found.alarms}) == (change != "linear")
    if change == "known":
        other = dataclasses.replace(p, known_rewards=np.roll(theta, 1, axis=1), reward_bound=None)
        assert nr.check_model(nr.Log(other, log.episodes))["rewards"].level == "red"


def test_what_cannot_be_checked_is_said(programme):
    world, log = programme
    with pytest.raises(ValueError, match=r"source must be a noregret\.Log or an agent, got 3"):
        nr.check_model(3)
    with pytest.raises(ValueError, match="or an agent with sets of logit weights or stored steps, got uniform-random"):
        nr.check_model(nr.UniformRandom(world.problem))
    with pytest.raises(ValueError, match="source must have at least one step"):
        nr.check_model(nr.LRORL(world.problem))
    with pytest.raises(ValueError, match="source must have at least one step"):
        nr.check_model(nr.Log(world.problem, ()))
    with pytest.raises(ValueError, match="delta must be"):
        nr.check_model(log, delta=1.5)
    with pytest.raises(ValueError, match=r"found must be what noregret\.check_model returns, got Log"):
        nr.report.check_figure(log, "nowhere.png")


@pytest.mark.long
def test_the_figure_is_drawn(programme, tmp_path):
    world, log = programme
    agent = nr.LRORL(world.problem)
    agent.learn_from(log)
    for name, source in (("log", log), ("agent", agent)):
        nr.report.check_figure(nr.check_model(source), tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000


def test_looks_are_of_what_had_come_by_then(programme):
    """The evidence at a look is that of a log that ends there."""
    world, log = programme
    looks, _ = go_through(log)
    first, _ = go_through(nr.Log(world.problem, log.episodes[: looks[0].people]))
    assert looks[0].logs == pytest.approx(first[-1].logs)
    assert auditor(world.problem).state.audit.gain.shape == (1, 7)


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    """The example of docs/evidence-model.md."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "docs" / "evidence-model.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out.startswith("red: 400 people, 3,200 steps, a log\n")
    assert (tmp_path / "check.png").exists()
