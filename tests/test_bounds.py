"""Regret and mistake bounds: each formula against a slow recomputation or an experiment that could refute it."""

import math

import numpy as np
import pytest

import noregret as nr
from noregret.cli.bounds import STARTS
from noregret.theory import bounds, constants, lower, radii, widths
from noregret.verification.claims import Claim, claims, setting
from test_cli import noregret


# Martingales -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_deviation_holds_for_all_episodes_at_once(sigma):
    """Walks of +-sigma at delta = 0.3: at most 0.3 of 4000 may ever cross, and 5 standard deviations of luck."""
    runs, K, delta = 4000, 1000, 0.3
    steps = np.random.default_rng(7).choice([-sigma, sigma], (runs, K))
    line = np.array([bounds.martingale_deviation(sigma, k, delta) for k in range(1, K + 1)])
    crossed = (np.cumsum(steps, 1) > line).any(1).mean()
    assert crossed <= delta + 5 * math.sqrt(delta * (1 - delta) / runs)
    assert crossed > 0.02  # a constant twice as large would be noticed
    fixed = bounds.martingale_deviation_fixed(sigma, K, delta)
    assert (steps.sum(1) > fixed).mean() <= delta
    assert fixed < line[-1]


def test_fixed_deviation_does_not_hold_for_all_episodes():
    """Why the mistake bound, whose N is random, takes the other one."""
    K, delta = 3000, 0.3
    walks = np.cumsum(np.random.default_rng(1).choice([-1.0, 1.0], (1000, K)), 1)
    line = np.array([bounds.martingale_deviation_fixed(1.0, k, delta) for k in range(1, K + 1)])
    assert (walks > line).any(1).mean() > delta + 5 * math.sqrt(delta * (1 - delta) / 1000)


@pytest.mark.parametrize("H", [1, 2, 5, 10, 100])
def test_sigma_is_half_the_root_of_the_squared_ranges(H):
    ranges = [H - h - 1 for h in range(H)]  # of T_{h+1}, which lies in [0, H - h - 1]
    assert bounds.trajectory_sigma(H) == pytest.approx(0.5 * math.sqrt(sum(r * r for r in ranges)))
    assert bounds.trajectory_sigma(H) <= H * (H + 1) / 4
    assert bounds.return_sigma(H) == H / 2


def test_one_episode_refutes_the_printed_deviation_of_the_main_text():
    """Two absorbing states, entered with chance 1/2 after the first step, bonuses H - h in one and 0 in the other: the
    weighted visits miss their mean by H (H-1)/4 with probability 1/2, far above S H sqrt(K log(6 log(2K)/delta_1))."""
    S, H, K = 2, 100, 1
    delta = 0.05 / (2 * S * 1 + S * H)
    weights = np.array([H - h for h in range(1, H)])
    expected, seen = 0.5 * weights.sum(), 0.0
    assert expected - seen == H * (H - 1) / 4
    appendix = bounds.deviation_printed(S, H, K, delta)
    assert appendix / H < 630 < expected - seen < appendix


# Sums of widths --------------------------------------------------------------------------------------------------
def random_run(g, n_pairs, d, H, K, R, kappas):
    """Contexts, visits and kappas of a run whose pairs are met several times in an episode."""
    lam = g.uniform(0.05, 2.0)
    Z = np.tile(lam * np.eye(d), (n_pairs, 1, 1))
    few = g.standard_normal((3, d))
    steps, bad, radius = [], 0, np.zeros(n_pairs)
    for k in range(K):
        x = few[g.integers(3)] if k % 2 else g.standard_normal(d)
        x = R * x / np.linalg.norm(x) * (1.0 if k % 3 else g.uniform(0, 1))
        kappa = g.uniform(*kappas)
        pairs = g.integers(0, max(1, n_pairs - k % 2), H)
        norms = np.array([x @ np.linalg.solve(Z[i], x) for i in pairs])
        visits = np.array([(pairs == i).sum() for i in pairs])
        good = visits * kappa * norms <= 1.0
        bad += len(set(pairs[~good]))
        steps += [(h, math.sqrt(norms[h]), good[h]) for h in range(H)]
        for i in pairs:
            Z[i] += kappa * np.outer(x, x)
            radius[i] += 2.0 * x @ np.linalg.solve(Z[i], x)
    total = sum(np.linalg.slogdet(z)[1] for z in Z) - n_pairs * d * math.log(lam)
    return lam, steps, bad, radius, total


@pytest.mark.parametrize("seed", range(6))
def test_potential_doublings_and_the_sum_of_widths(seed):
    g = np.random.default_rng(seed)
    n, d, H, K, R, low, high = 3, 3, 5, 60, g.uniform(0.5, 3), 0.1, 0.9
    lam, steps, bad, radius, total = random_run(g, n, d, H, K, R, (low, high))
    assert total <= bounds.potential(n, d, high, K, H, R, lam)
    assert bad <= total / math.log(2)
    growth = bounds.bonus_growth(H, 1.0, 1.0, low, total, 0.0, 0.0)
    assert sum((H - h - 1) * w for h, w, good in steps if good) <= growth.root * math.sqrt(K)
    assert sum(min((H - h - 1) * w, H - h) for h, w, _ in steps) <= growth.root * math.sqrt(K) + growth.constant
    coarse = (H - 1) * math.sqrt(H * total / (low * math.log(2)))
    assert coarse / math.sqrt(3) < growth.root < coarse
    rewards = bounds.bonus_growth(H, 0.0, 1.0, 1.0, 0.0, 1.0, total)
    assert sum(2 * w for _, w, good in steps if good) * math.sqrt(low) <= rewards.root * math.sqrt(K)
    assert radius.max() <= bounds.largest_radius(
        0.0, lam, 1.0, low, high, context_dim=d, context_bound=R, samples=K * H, delta=1.0
    )


@pytest.mark.parametrize("u", [1.0, 1.000001])
def test_doubling_and_the_sums_of_widths_are_attained(u):
    """One pair met H times an episode, d = 1, every context just so long that N kappa ||x||^2_{Z^-1} = u: at u = 1 no
    visit is bad and the roots are attained (transitions up to Cauchy and Schwarz), just above all are bad."""
    H, K, kappa, z = 6, 30, 0.3, 1.0
    norms = []
    for _ in range(K):
        x2 = u * z / (H * kappa)
        norms.append(math.sqrt(x2 / z))
        z += H * kappa * x2
    D = math.log(z)
    if u > 1:
        assert K * (1 - 1e-5) < K <= D / math.log(2) < K * (1 + 1e-5)
        return
    growth = bounds.bonus_growth(H, 1.0, 1.0, kappa, D, 0.0, 0.0)
    transitions = sum(h * w for w in norms for h in range(H))
    assert 0.8 * growth.root * math.sqrt(K) < transitions <= growth.root * math.sqrt(K)
    rewards = bounds.bonus_growth(H, 0.0, 1.0, 1.0, 0.0, 1.0, D)
    assert sum(2 * H * w * math.sqrt(kappa) for w in norms) == pytest.approx(rewards.root * math.sqrt(K))


@pytest.mark.parametrize("S", [2, 3, 4, 5, 8])
def test_the_centred_spread_fits_the_same_constant(S):
    """2 ||V - mean||_2 <= linear_l1(S) span(V), attained with half of the states at either end."""
    V = np.random.default_rng(S).random((5000, S)) ** np.random.default_rng(1).uniform(0.1, 5, (5000, 1))
    spread = 2 * np.linalg.norm(V - V.mean(1, keepdims=True), axis=1)
    assert (spread <= constants.linear_l1(S) * np.ptp(V, axis=1) + 1e-12).all()
    half = (np.arange(S) < S // 2).astype(float)
    assert 2 * np.linalg.norm(half - half.mean()) == pytest.approx(constants.linear_l1(S))


def test_radii_by_adding_up():
    run = {"context_dim": 3, "context_bound": 1.5, "samples": 500, "delta": 0.01}
    got = bounds.largest_radius(4.0, 2.0, 8.0, 0.1, 0.3, **run)
    assert got == pytest.approx(4 * 2 + 8 * math.log(100) + 60 * math.log(1 + 0.3 * 500 * 2.25 / 6))
    V = np.diag([1 + 100 * 0.25] * 3)  # 300 samples of norm 1/2 in even directions: the worst log-determinant
    x = np.array([0.5, 0.0, 0.0])
    w2 = float(x @ np.linalg.inv(V) @ x)
    zeta = bounds.largest_reward_radius(1.3, 1.0, 3, 0.5, 300, 0.02)
    assert zeta * math.sqrt(w2) == pytest.approx(
        widths.reward_interval(w2, float(np.linalg.slogdet(V)[1]), 1.3, 1.0, 0.02)
    )


# Regret and mistakes ---------------------------------------------------------------------------------------------
EXPLICIT = dict(
    n_pairs=6, context_dim=2, context_bound=1.5, l1=0.7, radius=40.0, kappa_min=0.2, kappa_max=0.5, regularization=3.0,
    reward_radius=2.0, reward_regularization=0.5,
)  # fmt: skip


def test_explicit_regret_term_by_term():
    H, K, delta = 4, 1000, 0.01
    D = 12 * math.log(1 + 0.5 * K * H * 2.25 / (3 * 12))
    DV = 12 * math.log(1 + K * H * 2.25 / (0.5 * 12))
    steps = math.sqrt(sum(h * h for h in range(H)))
    by_hand = (
        steps / 2 * math.sqrt((K + 1) * math.log((K + 1) / delta**2))
        + steps * 0.7 * math.sqrt(40 * K * D / (0.2 * math.log(2)))
        + 4 * math.sqrt(K * H * DV / math.log(2))
        + 10 * (D + DV) / math.log(2)
    )
    assert bounds.regret_explicit(H, K, delta, **EXPLICIT) == pytest.approx(by_hand)
    assert bounds.regret_from_returns(7.0, H, K, delta) == pytest.approx(7 + bounds.martingale_deviation(2, K, delta))
    assert bounds.regret_from_bonuses(7.0, 1, K, delta) == 7.0  # one step: nothing is left to luck


def test_explicit_regret_is_sublinear():
    per_episode = [bounds.regret_explicit(5, 10.0**n, 0.01, **EXPLICIT) / 10.0**n for n in range(3, 13)]
    assert (np.diff(per_episode) < 0).all()
    assert per_episode[-1] < 1e-2


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("growth", [(0.0, 0.0), (2.0, 5.0), (0.0, 40.0), (7.0, 0.0)])
@pytest.mark.parametrize("H", [1, 3])
def test_mistakes_by_trying_every_number(epsilon, growth, H):
    growth, delta, top = bounds.Growth(*growth), 0.1, 60_000
    N = np.arange(top)
    sigma2 = sum(h * h for h in range(H)) / 4
    right = np.sqrt(sigma2 * (N + 1) * np.log((N + 1) / delta**2)) + growth.root * np.sqrt(N) + growth.constant
    brute = int(N[epsilon * N <= right].max())
    assert brute < top - 1
    assert bounds.mistakes(epsilon, H, delta, growth) == brute
    for K in (0, 1, brute - 1, brute, brute + 1, 10 * brute + 1):
        if K >= 0:
            limited = bounds.mistakes(epsilon, H, delta, growth, K)
            assert limited == min(brute, K)
            assert limited <= bounds.mistakes_closed(epsilon, H, delta, growth, K) * (1 + 1e-9)


def test_infinite_growth_is_refused():
    with pytest.raises(ValueError, match="growth must be finite"):
        bounds.mistakes(0.1, 3, 0.1, bounds.Growth(math.inf, 0.0))


def test_rlsvi_regret_term_by_term():
    S, n, H, K, L, gamma, kappa, D, zeta, DV = 4, 8, 3, 500, 0.7, 60.0, 0.3, 25.0, 3.0, 30.0
    c = 1 / 0.15865525393145707
    g = math.sqrt(2 * math.log(2 * H * n * K))
    xi_p = L * math.sqrt(gamma * K * H * D / (kappa * math.log(2))) + 2 * H * D / math.log(2)
    xi_r = zeta * math.sqrt(K * H * DV / math.log(2)) + H * DV / math.log(2)
    sd = math.sqrt(H * S)
    by_hand = H * math.pi**2 / 6 + (2 * c + 1) * (H * (1 + H * sd * g) * xi_p + xi_r + sd * g * (H / 2 * xi_p + xi_r))
    sums = {"transition_potential": D, "reward_radius": zeta, "reward_potential": DV}
    got = bounds.rlsvi_regret(S, n, H, K, l1=L, radius=gamma, kappa_min=kappa, **sums)
    assert got == pytest.approx(by_hand)
    assert bounds.rlsvi_delta(n, 7) == 1 / (2 * 8 * 49)


def test_the_largest_of_many_normals_stays_below_its_bound_on_average():
    n = 3000
    mean = np.abs(np.random.default_rng(0).standard_normal((300, n))).max(1).mean()
    assert 0.8 * math.sqrt(2 * math.log(2 * n)) < mean < math.sqrt(2 * math.log(2 * n))


def test_printed_bounds_term_by_term():
    S, A, H, K, d, R, alpha, beta, lam, delta = 3, 2, 4, 1000, 5, 1.5, 0.02, 1.0, 2.0, 0.001
    t = K * H
    tau = math.log(2 * math.ceil(2 * math.log(S * t)) * t**2 / delta)
    reach = 0.8 * R
    f = lam * 6.0 + 8 * reach + 2 * (4 / alpha + 8 / 3 * reach) * tau
    log = math.log(1 + K * H * R**2 / (lam * d))
    gamma = alpha / (2 * S) + f + 8 * d / alpha * log
    got = bounds.radius_printed(S, 6.0, 0.8, R, alpha, lam, context_dim=d, samples=t, delta=delta)
    assert got == pytest.approx(gamma)
    regret = S * H**2 * math.sqrt(K * math.log(6 * math.log(2 * K) / delta)) + 4 * beta * H * math.sqrt(
        2 * S * gamma * K * H / alpha
    ) * math.sqrt(2 * H * S * A * d * log)
    run = {"context_dim": d, "context_bound": R, "beta": beta, "regularization": lam}
    got = bounds.regret_printed(S, A, H, K, alpha=alpha, radius=gamma, delta=delta, **run)
    assert got == pytest.approx(regret)
    wrong = 16 * (lam + H) * d * S**2 * A * H**4 * 77.0 / (lam * 0.25) * math.log(R**2 * K * H / lam + 1)
    assert bounds.mistakes_printed(0.5, S, A, H, K, radius=77.0, **run) == pytest.approx(wrong)
    order = (math.sqrt(d) * 3.0 / math.sqrt(alpha) + d / alpha) * math.sqrt(H**7 * S**3 * A * K)
    assert bounds.rlsvi_order_printed(S, A, H, K, d, alpha, beta, 3.0) == pytest.approx(order)
    assert lower.order(K, S, A, d, H) == pytest.approx(H * math.sqrt(d * S * A * K))


# Claims ----------------------------------------------------------------------------------------------------------
def masked(link):
    support = np.ones((4, 2, 4), bool)
    support[0, :, 3] = support[1, 1, :2] = False
    support[2, 0, 1:] = False
    available = np.ones((4, 2), bool)
    available[3, 1] = False
    return nr.Problem(4, 2, 3, 3, link, weight_bound=1.2, reward_bound=0.5, support=support, available=available)


PROBLEMS = [
    nr.Problem(5, 3, 5, 4, weight_bound=1.0, reward_bound=1.0),
    nr.Problem(5, 3, 5, 4, nr.LinearCombination(), reward_bound=1.0),
    masked(nr.MultinomialLogit()),
    masked(nr.LinearCombination()),
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_claims_start_where_the_agents_start(problem):
    """The setting is the agent's, and no number it plans the first episode with is larger than claimed."""
    made = {c.name: c.corrected for c in claims(problem, 100)}
    agent = nr.GLMORL(problem)
    par, s = agent.par.transitions, setting(problem)
    learns = problem.layout.available & (problem.layout.count > 1)
    assert par.regularization == pytest.approx(s.regularization)
    assert par.kappa[learns].min() == pytest.approx(s.kappa_min)
    assert par.norm2[learns].max() == pytest.approx(s.norm2)
    assert par.log_weight[learns].max() == pytest.approx(s.log_weight)
    assert math.exp(-agent.par.log_confidence) == pytest.approx(made["delta' of one set"])
    radius = agent.state.transitions.radius + par.log_weight * agent.par.log_confidence
    assert radius[learns].max() == pytest.approx(made["gamma, no data"])
    x = np.eye(problem.context_dim)[0]
    plan = agent.begin_episode(x)
    belief = agent.work.belief
    l1 = belief.width * (agent.par.belief.lipschitz if problem.link.width == "l2" else 1.0)
    assert np.minimum(l1, 2.0)[learns].max() == pytest.approx(made["l1 width, no data"])
    assert belief.interval.max() == pytest.approx(made["reward interval, no data"])
    V = plan.values[1]
    spread = np.linalg.norm(V - V.mean()) if problem.link.width == "l2" else np.ptp(V) / 2
    bonus = np.minimum(spread * belief.width, np.ptp(V)) + belief.interval
    assert bonus[problem.layout.available].max() <= made["bonus at step 1, no data"] + 1e-12


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_run_stays_below_what_was_claimed_beforehand(problem):
    """Radii and widths along a run with hostile repetition, against their a-priori bounds at every count of samples."""
    agent, s, g = nr.GLMORL(problem), setting(problem), np.random.default_rng(3)
    d, H, learns = problem.context_dim, problem.horizon, problem.layout.available & (problem.layout.count > 1)
    delta = 0.05 / (2 * problem.n_pairs + 1)
    total, K = 0.0, 150
    for k in range(K):
        x = g.dirichlet(np.ones(d)) if k % 3 else np.eye(d)[k % d]
        V, state = agent.begin_episode(x).values, 0
        belief, spreads = agent.work.belief, agent.par.belief
        for h in range(H):
            spread = np.linalg.norm(V[h + 1] - V[h + 1].mean()) if spreads.width == 2 else np.ptp(V[h + 1]) / 2
            a = agent.act(state)
            phi = min(spread * belief.width[state, a], np.ptp(V[h + 1])) + belief.interval[state, a]
            total += min(2 * phi, H - h)
            after = int(problem.layout.outcomes[state, a, g.integers(problem.layout.count[state, a])])
            agent.observe(float(g.random() < 0.5), after)
            state = after
        agent.end_episode()
    newton, n = agent.state.transitions, agent.state.transitions.samples.max()
    radius = newton.radius + agent.par.transitions.log_weight * agent.par.log_confidence
    args = s.norm2, s.regularization, s.log_weight, s.kappa_min, s.kappa_max
    more = {"context_dim": d, "context_bound": problem.context_bound, "delta": delta}
    assert radius[learns].max() <= bounds.largest_radius(*args, samples=n, **more)
    D = bounds.potential(problem.n_pairs, d, s.kappa_max, K, H, problem.context_bound, s.regularization)
    DV = bounds.potential(problem.n_pairs, d, 1.0, K, H, problem.context_bound, 1.0)
    assert newton.logdet[learns].sum() <= D
    assert agent.state.rewards.logdet.sum() <= DV
    gamma, zeta = (
        bounds.largest_radius(*args, samples=K * H, **more),
        bounds.largest_reward_radius(problem.reward_bound, 1.0, d, problem.context_bound, K * H, delta),
    )
    growth = bounds.bonus_growth(H, s.spread, gamma, s.kappa_min, D, zeta, DV)
    assert total <= growth.root * math.sqrt(K) + growth.constant


def test_corrected_radii_are_far_smaller_than_printed():
    """A priori, delta = 0.05 for one pair: S = 5, d = 4, B_p R = 1, 2000 samples (logit), 1000 (linear). gamma/kappa is
    the squared radius in the norm of sum xx', the same for both; gamma alone is in each one's own Z."""
    for problem, samples, plain, scaled in ((PROBLEMS[0], 2000, 40, 400), (PROBLEMS[1], 1000, 12, 36)):
        s, R, d = setting(problem), problem.context_bound, problem.context_dim
        logdet = d * math.log(1 + 0.5 * s.printed_alpha * samples * R**2 / d)
        run = {"samples": samples, "logdet": logdet, "delta": 0.05}
        old = radii.printed(5, s.printed_norm2, problem.weight_bound, R, s.printed_alpha, 1.0, **run)
        new = bounds.largest_radius(
            s.norm2,
            s.regularization,
            s.log_weight,
            s.kappa_min,
            s.kappa_max,
            context_dim=d,
            context_bound=R,
            samples=samples,
            delta=0.05,
        )
        assert old / new > plain
        assert (old / (0.5 * s.printed_alpha)) / (new / s.kappa_min) > scaled


def test_claims_give_radii_100_times_smaller_for_the_logit_and_20_times_for_the_linear_link():
    for problem, times in zip(PROBLEMS[:2], (100, 20), strict=True):
        made = {c.name: c for c in claims(problem, 2000)}
        assert made["gamma/kappa, K H samples"].ratio > times
        assert made["gamma, K H samples"].ratio > times / 4


def test_claims_say_what_is_wrong():
    made = {c.name: c for c in claims(nr.Problem(3, 2, 4, 2, weight_bound=3.0, reward_bound=2.0), 1000)}
    assert "invalid" in made["alpha, last row pinned"].note
    assert "invalid" in made["gamma, no data"].note
    assert "printed fails" in made["reward interval, no data"].note
    assert "vacuous" in made["regret of GLM-ORL"].note
    fine = {c.name: c for c in claims(nr.Problem(3, 2, 4, 2, weight_bound=1.0, reward_bound=1.0), 10**9, epsilon=1.0)}
    assert "valid here" in fine["alpha, last row pinned"].note
    assert fine["regret of GLM-ORL"].note == "says something at this K"
    assert fine["regret of GLM-ORL"].corrected < fine["H K"].corrected < fine["regret of GLM-ORL"].printed
    assert "mistakes above 1" in fine


@pytest.mark.parametrize("problem", PROBLEMS)
def test_regret_in_the_claims_is_the_explicit_bound(problem):
    K, s = 5000, setting(problem)
    delta, samples = 0.05 / (2 * problem.n_pairs + 1), K * problem.horizon
    d, R = problem.context_dim, problem.context_bound
    explicit = bounds.regret_explicit(
        problem.horizon, K, delta, n_pairs=problem.n_pairs, context_dim=d, context_bound=R, l1=s.spread,
        radius=bounds.largest_radius(
            s.norm2, s.regularization, s.log_weight, s.kappa_min, s.kappa_max, context_dim=d, context_bound=R,
            samples=samples, delta=delta,
        ),
        kappa_min=s.kappa_min, kappa_max=s.kappa_max, regularization=s.regularization,
        reward_radius=bounds.largest_reward_radius(problem.reward_bound, 1.0, d, R, samples, delta),
        reward_regularization=1.0,
    )  # fmt: skip
    made = {c.name: c.corrected for c in claims(problem, K)}
    assert made["regret of GLM-ORL"] == pytest.approx(explicit)


def test_vacuous_up_to_is_where_the_bound_crosses():
    problem = nr.Problem(3, 2, 4, 2, weight_bound=1.0, reward_bound=1.0)
    note = next(c.note for c in claims(problem, 100) if c.name == "regret of GLM-ORL")
    K = int(float(note.split("=")[1]))
    for episodes, below in ((int(0.9 * K), False), (int(1.1 * K), True)):
        made = {c.name: c.corrected for c in claims(problem, episodes)}
        assert (made["regret of GLM-ORL"] < made["H K"]) is below


@pytest.mark.parametrize(
    "problem",
    [
        nr.Problem(1, 1, 1, 1, weight_bound=1.0, reward_bound=1.0),
        nr.Problem(2, 1, 1, 1, weight_bound=350.0, reward_bound=1.0),
        nr.Problem(2, 1, 3, 1, nr.LinearCombination(), reward_bound=1.0),
    ],
)
def test_extreme_problems_give_numbers(problem):
    for claim in claims(problem, 1):
        assert isinstance(claim, Claim)
        assert not any(v is not None and math.isnan(v) for v in (claim.printed, claim.corrected, claim.ratio))


def test_a_link_of_your_own():
    def half(z, count):
        for i in range(z.shape[0]):
            for j in range(count[i]):
                z[i, j] = 0.5 + 0.5 * z[i, j]

    link = nr.Link(half, alpha=0.5, beta=0.5, l1=0.7)
    made = {c.name: c for c in claims(nr.Problem(2, 2, 3, 2, link, weight_bound=1.0, reward_bound=1.0), 1000)}
    assert made["alpha"].corrected == 0.5
    assert made["l1 of P per l2 of W x"].corrected == 0.7
    assert made["regret of GLM-ORL"].corrected < made["regret of GLM-ORL"].printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(episodes=0), "episodes must be an integer of at least 1, got 0"),
        (dict(episodes=10, delta=1.0), "delta must be a number between 0 and 1, got 1.0"),
        (dict(episodes=10, epsilon=0.0), "epsilon must be a positive number, got 0.0"),
        (dict(episodes=10, epsilon=1e-200), "epsilon must be from"),
        (dict(episodes=10, epsilon=100.0), "epsilon must be from"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        claims(PROBLEMS[0], **arguments)


# Runs ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [nr.worlds.random_logit, nr.worlds.random_linear])
def test_runs_add_up_their_own_bounds(make):
    """Bounds (i) and (ii), and mistakes, from the outside: the same episodes met live, with plans and returns as a user
    sees them, widths recomputed from the beliefs the agent reports."""
    world, K, eps = make(3, 2, 4, 2, seed=6), 60, 0.3
    p = world.problem
    agent = nr.GLMORL(p, delta=0.1)
    run = nr.simulate(agent, world, K, seeds=[0], diagnostics=True, epsilon=eps)
    excess, bonuses, wrong = [], [], []
    for k in range(K):
        someone = world.individual(k)
        start = someone.state
        plan = agent.begin_episode(someone.context)
        wrong.append(world.optimal(someone.context).values[0, start] - world.value(plan.policy, someone.context) > eps)
        total, sum_of_bonuses = 0.0, 0.0
        for h in range(4):
            s = someone.state
            a = agent.act(s)
            V = plan.upper[h + 1]
            spread = np.linalg.norm(V - V.mean()) if p.link.name == "linear" else np.ptp(V) / 2
            bonus = min(spread * agent.work.belief.width[s, a], np.ptp(V)) + agent.work.belief.interval[s, a]
            sum_of_bonuses += min(2 * bonus, 4 - h)
            reward, after = someone.step(a)
            agent.observe(reward, after)
            total += reward
        agent.end_episode()
        excess.append(plan.upper[0, start] - total)
        bonuses.append(sum_of_bonuses)
    share = 0.1 / (2 * 6 + 1) / 2
    assert agent.regret_delta == pytest.approx(2 * share)
    for k in range(K):
        root = math.sqrt((k + 2) * math.log((k + 2) / share**2))
        assert run.bounds["returns"][0, k] == pytest.approx(sum(excess[: k + 1]) + 2.0 * root)
        sigma = math.sqrt((1 + 4 + 9) / 4)
        assert run.bounds["bonuses"][0, k] == pytest.approx(sum(bonuses[: k + 1]) + sigma * root)
    assert run.diagnostics["mistakes"][0].tolist() == np.cumsum(wrong).tolist()
    assert 0 < sum(wrong) < K
    assert set(run.table()) >= {"bound_from_returns", "bound_from_bonuses", "mistakes"}


def test_bounds_are_reported_where_they_are_claimed_only():
    world = nr.worlds.random_linear(3, 2, 2, 2)
    for agent in (
        nr.GLMORL(world.problem, bonus_scale=0.5),
        nr.GLMORL(world.problem, constants="paper"),
        nr.GLMRLSVI(world.problem),
        nr.UniformRandom(world.problem),
    ):
        run = nr.simulate(agent, world, 10, diagnostics=True)
        assert run.bounds == {}
        assert "mistakes" not in run.diagnostics
    assert nr.simulate(nr.GLMORL(world.problem), world, 10).bounds == {}
    other = nr.Problem(3, 2, 2, 2, nr.LinearCombination(), weight_bound=0.5, reward_bound=1.0)  # assumes too much
    assert nr.simulate(nr.GLMORL(other), world, 10, diagnostics=True).bounds == {}
    counted = nr.simulate(nr.UniformRandom(world.problem), world, 50, epsilon=0.01).diagnostics["mistakes"]
    assert 0 < counted[0, -1] <= 50
    with pytest.raises(ValueError, match="epsilon must be a positive number"):
        nr.simulate(nr.UniformRandom(world.problem), world, 50, epsilon=0.0)


@pytest.mark.parametrize("rewards", ["logistic", "known"])
def test_claims_know_other_rewards(rewards):
    theta = np.full((3, 2, 2), 0.5)
    chosen = {"rewards": "logistic"} if rewards == "logistic" else {"known_rewards": theta}
    plain = {c.name: c for c in claims(nr.Problem(3, 2, 4, 2, weight_bound=1.0, reward_bound=1.0), 10_000)}
    made = {c.name: c for c in claims(nr.Problem(3, 2, 4, 2, weight_bound=1.0, reward_bound=1.0, **chosen), 10_000)}
    interval = made["reward interval, no data"]
    assert interval.corrected == (pytest.approx(1 / (1 + math.exp(-1)) - 0.5) if rewards == "logistic" else 0.0)
    assert (interval.printed is None) == (rewards == "logistic")
    if rewards == "known":
        assert made["regret of GLM-ORL"].corrected < plain["regret of GLM-ORL"].corrected
    else:  # the same by hand, from the formulas
        alpha, d, t, delta = 1 / (2 + math.e + 1 / math.e), 2, 40_000, 0.05 / 13
        low, high = 1.75 * alpha, 1.75 / 4
        lam = d / low
        gamma = lam + 8 * math.log(1 / delta) + d / low * math.log(1 + high * t / (lam * d))
        D = 12 * math.log(1 + high * t / (lam * 12))
        without = {
            c.name: c
            for c in claims(nr.Problem(3, 2, 4, 2, known_rewards=theta, weight_bound=1.0, reward_bound=1.0), 10_000)
        }
        extra = 2 * math.sqrt(gamma / low) / 4 * math.sqrt(t * D / math.log(2)) + 10 * D / math.log(2)
        gained = made["regret of GLM-ORL"].corrected - without["regret of GLM-ORL"].corrected
        assert gained == pytest.approx(extra, rel=1e-9)


def test_claims_by_name_and_as_text():
    made = claims(PROBLEMS[0], 1000)
    assert made["alpha, last row pinned"] is made[0]
    assert "corrected" in repr(made)
    assert all(claim.name in repr(made) for claim in made)
    with pytest.raises(ValueError, match="unknown claim 'gama'"):
        made["gama"]
    with pytest.raises(ValueError, match=r"problem must be a noregret\.Problem"):
        claims(nr.worlds.clinic(), 1000)


def test_tiny_deltas_do_no_harm():
    world = nr.worlds.random_linear(3, 2, 2, 2)
    run = nr.simulate(nr.GLMORL(world.problem, delta=1e-170), world, 10, diagnostics=True)
    assert np.isfinite(run.bounds["returns"]).all()
    assert all(math.isfinite(c.corrected) for c in claims(world.problem, 1000, delta=1e-200) if c.corrected is not None)


def test_runs_notice_what_an_agent_was_told_wrongly():
    """A group bound that is too small, known rewards that are others: no guarantee. The right ones: a guarantee."""
    world = nr.worlds.sparse_logit(3, 2, 2, 4, 2)
    norm = world.group_norm()
    assert norm == pytest.approx(nr.worlds.group_norm(world.weights))
    for bound, sound in ((norm, True), (0.5 * norm, False)):
        agent = nr.GLMORL(world.problem, confidence="conversion", learner="sparse", group_bound=bound)
        run = nr.simulate(agent, world, 5, diagnostics=True)
        assert (run.guarantee is not None) == (run.bounds != {}) == sound
    for theta, sound in ((world.reward_weights, True), (0.9 * world.reward_weights, False)):
        told = nr.Problem(3, 2, 2, 4, weight_bound=2.0, reward_bound=math.sqrt(2), known_rewards=theta)
        assert (nr.simulate(nr.GLMORL(told), world, 5).guarantee is not None) == sound


# The command -----------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_bounds_prints_a_table_within_100_columns(tmp_path):
    made = claims(PROBLEMS[0], 20_000)
    assert {c.name for c in made} >= set(STARTS)
    lines = noregret("bounds", "--episodes", 20_000, cwd=tmp_path, alone=True).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("logit link, S=5 A=3 H=5 d=4, B_p=1 R=1 B_r=1: K=20,000, delta=0.05")
    assert lines[2].split() == ["known", "beforehand", "printed", "corrected", "ratio", "paper", "note"]
    for claim in made:  # one line each: nothing is wrapped
        assert any(line.startswith(claim.name) and line.rstrip().endswith(claim.note) for line in lines)
    assert len(lines) == len(made) + 3 + len(STARTS)
    assert list(tmp_path.iterdir()) == []


def test_bounds_of_a_world(tmp_path):
    done = noregret("bounds", "--world", "clinic", "--epsilon", 1, cwd=tmp_path)
    assert "S=4 A=3 pairs=9 H=6 d=3" in done.stdout
    assert "mistakes above 1 " in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--link", "lineer"], "unknown link 'lineer'; did you mean linear"),
        (["--states", "0"], "states must be an integer of at least 1, got 0"),
        (["--world", "clinic", "--dim", "3"], "--dim does not go with it"),
        (["--weight-bound", "900"], "weight_bound * context_bound must be at most 350, got 900"),
        (["--epsilon", "-1"], "epsilon must be a positive number, got -1.0"),
    ],
)
def test_mistakes_on_the_command_line_get_one_sentence(tmp_path, args, message):
    done = noregret("bounds", *args, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
