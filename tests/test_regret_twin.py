"""docs/regret.md once more: the bound written anew from the text, its sizes by attack, and the proof's chain of
inequalities followed through episodes of sets and plans that share no code with the library's."""

import math
from collections import defaultdict

import numpy as np
import pytest

import noregret as nr
from noregret.theory import likelihood_bounds as lb
from noregret.verification.claims_sets import SetRegret, _block_size, _logistic_size, shares_of, transition_sizes


# The formulas, from the text --------------------------------------------------------------------------------------
def g(r):
    return 0.5 - r / 6.0 + r * r / 24.0 if r < 1e-3 else (math.exp(-r) + r - 1.0) / r**2


def psi(r):
    return 0.5 + r / 6.0 + r * r / 24.0 if r < 1e-3 else (math.exp(r) - r - 1.0) / r**2


def h(r):
    return 0.5 / g(r)


def chi(w2):
    y = w2 / 4.0
    return y / math.log1p(y) if y > 1e-9 else 1.0


def tau(k, w2):
    return math.expm1(k * w2) / w2 if w2 > 1e-9 else k


class Limits:
    """Section 3, for one k, without any of the library's roundings up: E, A and Gamma by turns."""

    def __init__(self, size, T, H, near, log_set, log_event, k):
        p, B2, lam, apart, b, n, kappa, N, m, slack = size
        self.p, self.lam, self.each, self.T = p, lam, (1.0 - 1.0 / n) * apart**2 / 2.0, T
        eta, w2, L = 1.5, apart**2 / lam, self.L(T)
        w, given = math.sqrt(w2), lam * B2 + 2.0 * log_event
        first = lam * B2 + 2.0 * log_set + slack * T
        worst = tau(0.5, w2)
        E = 1.0
        for _ in range(200):  # sqrt E by iteration instead of the formula for roots
            E = given + 2.0 * worst * (1.0 + b + math.sqrt(E) * w / 2.0) * L
        Y = {j: tau(j, w2) * h(2.0 * b + math.sqrt(E) * w) * L for j in (0.5, k)}
        A = (given + 2.0 * Y[k]) / (2.0 * k - 1.0)
        lost = psi(math.sqrt(N * w2)) * chi(w2) * h(2.0 * b + math.sqrt(E) * w) * L if N else 0.0
        Gamma, far = first + A + 2.0 * lost, T
        for _ in range(8):
            r = min(2.0 * b + math.sqrt(E) * w, m * math.sqrt(Gamma) * w)
            plain = min(r, b + math.log(eta / kappa))
            N1 = min(T, ((lam * B2 + A) / 4.0 + log_event) / (kappa * (1.0 - eta**-0.5) ** 2 / 2.0))
            omega2 = min(near / max(m * m * Gamma, H), w2)
            won = math.log1p(g(plain) * kappa * math.exp(-near / 2.0) * omega2 / eta)
            N2 = T
            for _ in range(300):
                N2 = min(N2, self.L(N2) / won) if won > 0.0 else N2
            steep, once = r, 0.0
            if n == 2:
                steep, once = min(r, b + math.log1p(N1 * w2)), 1.0
            bends = h(math.sqrt(near)), h(plain), h(steep)
            growth = L, self.L(N2), self.L(N1)

            def total(weight, bends=bends, growth=growth, omega2=omega2, once=once):
                near_one = weight(omega2) * bends[0]
                more = [max(weight(w2) * bends[i] - near_one, 0.0) * growth[i] for i in (1, 2)]
                return near_one * growth[0] + sum(more) + once * weight(w2)

            E = min(E, given + 2.0 * total(lambda v: tau(0.5, v)))
            A = min(A, (given + 2.0 * total(lambda v: tau(k, v))) / (2.0 * k - 1.0))
            lost = total(lambda v: psi(math.sqrt(N * v)) * chi(v)) if N else 0.0
            Gamma, far = min(Gamma, first + A + 2.0 * lost), min(far, N1 + N2)
        self.Gamma, self.far = Gamma, far
        self.F = math.exp(1.5 * near) * chi(omega2) * bends[0]

    def L(self, N, sets=1):
        P = self.p * sets
        return P * math.log(1.0 + N * self.each / (self.lam * P))


def regret(K, H, sizes, logs, near, times, rewards):
    """Theorem 12 for one near and the best k; times = 2: the widths of Theorem 13. rewards: what they add."""
    sigma = math.sqrt(H * (H - 1) * (2 * H - 1) / 24.0)
    Q, far = one_sum(K, H, sizes, logs.transitions, logs.event, near)
    u = sigma * math.sqrt((K + 1) * (math.log(K + 1) + 2.0 * logs.event))
    moved = times * (2.0 * sigma * math.sqrt(K * Q) + 2.0 * (H - 1) * psi(math.sqrt(near)) * Q) + H * far
    return u + (moved if H > 1 else 0.0) + rewards


def one_sum(K, H, sizes, log_set, log_event, near):
    Q = far = 0.0
    for size, number in sizes:
        if size.dim > 0:
            made = [Limits(size, K * H, H, near, log_set, log_event, k) for k in (0.6, 0.75, 1.0, 1.5)]
            Q += min(one.Gamma for one in made) * made[0].F * made[0].L(K * H, number)
            far += number * min(one.far for one in made)
    return Q, far


def logistic_part(K, H, size, number, logs, near):
    Q, far = one_sum(K, H, [(size, number)], logs.rewards, logs.event, near)
    return math.sqrt(K * H * Q) + 2.0 * psi(math.sqrt(near)) * Q + H * far + 1e-9 * H * K


def hoeffding_part(K, H, d, number, R, B, log):
    P, shift, best = d * number, R**2 / 1000.0, math.inf
    L = P * math.log2(1.0 + K * H * R**2 / (shift * P))
    for scale, weight in ((3.0, 0.1), (24.0, 0.4), (192.0, 0.4), (1536.0, 0.1)):
        lam = scale * R**2 / d
        beta = log + d / 2.0 * math.log(1.0 + K * H * R**2 / (4.0 * d * lam)) - math.log(weight)
        beta += min(K * H / 20.0, 1000.0) * R**2 / (8.0 * lam)
        one = 2.0 * math.sqrt(2.0 * beta) * (0.5 * math.sqrt(H * L) + math.sqrt(2.0 * H * lam * P / shift))
        best = min(best, math.sqrt(K) * (one + 2.0 * B * math.sqrt(2.0 * H * shift * P)) + H * L)
    return best + 2.1e-7 * H * K


def random_problem(seed):
    """Problems of all the kinds that the bound covers; extreme ones among them."""
    r = np.random.default_rng(seed)
    S, A, H, d = (int(r.integers(low, high)) for low, high in ((2, 5), (1, 4), (1, 7), (1, 5)))
    bounds = {"weight_bound": float(np.exp(r.uniform(-1.0, 1.0))), "context_bound": float(np.exp(r.uniform(-0.5, 0.7)))}
    more = {"reward_bound": float(np.exp(r.uniform(-1.0, 0.7))), "rewards": ("linear", "logistic")[seed % 2]}
    if seed % 3 == 1:
        S = 14 if seed % 4 == 0 else S  # more than twelve outcomes
        bound = bounds.pop("weight_bound")
        more["design"] = nr.Design(r.normal(size=(S, A, S, 2)) / 2.0, bound, r.integers(2, size=(S, A)))
    elif seed % 3 == 2 and seed % 2 == 0:
        more["known_rewards"] = np.zeros((S, A, d))
    return nr.Problem(S, A, H, d, **bounds, **more)


@pytest.mark.study(first=6)
@pytest.mark.parametrize("seed", range(18))
def test_no_claim_is_below_the_bound_of_the_text(seed):
    """`SetRegret` may round up (one more stray visit, a count of far visits within 1%, one k for all), never down."""
    p = random_problem(seed)
    H, of, logs = p.horizon, SetRegret(p, 0.05), shares_of(p, 0.05)
    pairs = p.n_pairs
    sets, ranges = (pairs if b is None else b.size.size for b in (p.blocks, p.reward_blocks))
    share = 1.0 if p.known_rewards is not None else 0.2
    events = 3 * (sets + (ranges if p.rewards == "logistic" and p.known_rewards is None else 0)) + 1
    assert np.exp(-np.array([logs.transitions, logs.event])) == pytest.approx(
        [0.98 * 0.05 * share / sets, 0.02 * 0.05 / events]
    )
    for K in (1e2, 1e8, 1e14):
        for times, made in ((1.0, of.lr_orl(K)), (2.0, of.certified(K, 3.0) / 4.0)):
            found = math.inf
            for near in (1.0, 0.5, 0.25, 0.1, 0.03, 0.01):
                rewards = 0.0
                if p.known_rewards is None and p.rewards == "logistic":
                    rewards = logistic_part(K, H, *_logistic_size(p, True), logs, near)
                elif p.known_rewards is None:
                    d, R, B = p.context_dim, p.context_bound, p.reward_bound
                    rewards = hoeffding_part(K, H, d, pairs, R, B, logs.rewards)
                found = min(found, regret(K, H, of.sizes, logs, near, times, rewards))
            if math.isfinite(made):
                assert found * (1.0 - 1e-9) <= made <= 1.05 * found


# Sizes by attack --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [0, 1, 4, 7])
def test_no_truth_and_no_context_exceeds_the_sizes(seed):
    """Rows of A, true logits and true probabilities of random weights at the edge of what is assumed."""
    p, r = random_problem(seed), np.random.default_rng(seed)
    sizes = [size for size, _ in transition_sizes(p)]
    n = p.n_states
    for _ in range(200):
        x = r.normal(size=p.context_dim)
        x *= p.context_bound / np.linalg.norm(x)
        s, a = int(r.integers(n)), int(r.integers(p.n_actions))
        if p.blocks is None:
            W = r.normal(size=(n, p.context_dim)) + 3.0 * np.outer(r.normal(size=n), x)
            W[-1] = 0.0
            W[:-1] *= p.weight_bound / np.linalg.norm(W[:-1], axis=1, keepdims=True)
            rows, theta, size = np.kron(np.eye(n), x[None]), (W - W.mean(0)).ravel(), sizes[0]
        else:
            b = int(p.blocks.block[s, a])
            rows = np.einsum("jq,c->jqc", p.blocks.features[s, a], x).reshape(n, -1)
            theta = r.normal(size=rows.shape[1]) + 3.0 * (rows[0] - rows[r.integers(1, n)])
            theta *= p.blocks.bound[b] / np.linalg.norm(theta)
            size = _block_size(p, p.blocks, b)
            assert size in sizes
        z = rows @ theta
        apart = max(float(np.linalg.norm(rows[j] - rows[k])) for j in range(n) for k in range(n))
        assert apart <= size.apart * (1.0 + 1e-9)
        if n > 12:  # r is taken from the two largest distances from the mean
            assert np.sort(np.linalg.norm(rows - rows.mean(0), axis=1))[-2:].sum() <= size.wider * apart
        assert np.ptp(z) <= size.reach * (1.0 + 1e-9)
        assert np.exp(z - z.max()).min() / np.exp(z - z.max()).sum() >= size.least * (1.0 - 1e-9)
        assert theta @ theta <= size.norm2 * (1.0 + 1e-9)


def test_the_least_probability_of_a_block_is_not_cut_off():
    """Logits 340 apart: e^-340, and not the e^-300 at which exponents were once cut."""
    features = np.zeros((2, 1, 2, 1))
    features[:, :, 0] = 1.0
    problem = nr.Problem(2, 1, 2, 80, design=nr.Design(features, 340.0), reward_bound=1.0)
    size = _block_size(problem, problem.blocks, 0)
    assert size.reach == pytest.approx(340.0)
    assert math.log(size.least) == pytest.approx(-340.0)


def test_logistic_claims_are_about_the_agents_sets():
    """lambda, the first radius, and what rho2 carries for every reward."""
    p = random_problem(1)
    assert p.rewards == "logistic"
    (size, number), agent, logs = _logistic_size(p, True), nr.LRORL(p), shares_of(p, 0.05)
    par, state = agent.par.rewards, agent.state.rewards
    assert par.regularization == pytest.approx(size.regularization)
    assert number == (p.n_pairs if p.reward_blocks is None else p.reward_blocks.size.size)
    assert state.radius.max() == pytest.approx(size.regularization * size.norm2 + 2.0 * logs.rewards)
    args = {"near": 0.1, "log_set": 3.0, "log_event": 5.0}
    plain, real = (lb.likelihood_limits(s, 1e13, 4, **args).radius for s in (size._replace(slack=0.0), size))
    assert real == pytest.approx(plain + 10.0, rel=0.2)  # 10^13 times 10^-12
    assert real > plain + 9.0


# The chain of the proof -------------------------------------------------------------------------------------------
def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


class OnlineSet:
    """Section 2 of beyond.md for any A, with what Theorem 11 adds up."""

    def __init__(self, dim, B2, lam, log):
        self.theta, self.precision, self.rho2 = np.zeros(dim), lam * np.eye(dim), lam * B2 + 2.0 * log
        self.start, self.log, self.steps, self.loss, self.grown, self.largest = lam * B2, log, 0.0, 0.0, 0.0, self.rho2

    def look(self, A, reach):
        """(z, cov, w, r) of a visit; reach [n, n]."""
        z, cov = A @ self.theta, A @ np.linalg.solve(self.precision, A.T)
        apart = np.sqrt(np.maximum(np.add.outer(np.diag(cov), np.diag(cov)) - 2.0 * cov, 0.0))
        most = np.minimum(math.sqrt(self.rho2) * apart, reach - np.subtract.outer(z, z))
        return z, cov, float(apart.max()), float((most - np.diag(np.diag(most))).max())

    def visit(self, A, y, reach, truth, N, worst):
        """Learn y; returns (w, r, p, true p, what ln det Lambda wins). N = 3 with two outcomes: Gauss and Hermite."""
        z, cov, w, r = self.look(A, reach)
        p, true, n, w2 = softmax(z), softmax(A @ truth), len(z), w * w
        curved, eye = np.diag(p) - np.outer(p, p), np.eye(len(z))
        G = A.T @ curved @ A
        after = self.precision + 2.0 * g(r) * G
        a = A.T @ (p - eye[y])
        step = float(a @ np.linalg.solve(after, a))
        values, U = np.linalg.eigh(cov - cov[-1:] - cov[:, -1:] + cov[-1, -1])
        points = math.sqrt(N) * (U * np.sqrt(np.maximum(values, 0.0)))[:, 1:].T
        phat = (1.0 - (n - 1.0) / N) * p + sum(softmax(z + u) + softmax(z - u) for u in points) / (2.0 * N)
        assert phat.sum() == pytest.approx(1.0)
        error = truth - self.theta
        before, held = float(error @ self.precision @ error), float(error @ self.precision @ error) <= self.rho2
        grown = float(np.linalg.slogdet(after)[1] - np.linalg.slogdet(self.precision)[1])
        trace = float(np.trace(np.linalg.solve(self.precision, G)))
        self.theta = self.theta - np.linalg.solve(after, a)
        self.precision = after
        self.rho2 += step - 2.0 * math.log(phat[y] / p[y])
        self.largest = max(self.largest, self.rho2)
        self.steps, self.grown = self.steps + step, self.grown + grown
        lost = psi(math.sqrt(N) * w) * chi(w2) * h(r) * grown
        self.loss += lost
        now = truth - self.theta
        if held:
            assert now @ after @ now <= before + 2.0 * math.log(p[y] / true[y]) + step + 1e-8  # Lemma 1
        assert math.log(p[y] / phat[y]) <= psi(math.sqrt(N) * w) * trace + 1e-12  # Lemma 3
        assert self.rho2 <= self.start + 2.0 * self.log + self.steps + 2.0 * self.loss + 1e-8  # Theorem 11
        worst["2b"] = max(worst["2b"], trace / (chi(w2) * h(r) * grown) if grown > 1e-7 else 0.0)
        return w, r, p, true, grown


class Chain:
    """Optimism over such sets with logistic rewards, in a small world, and every inequality of Theorems 12 and 13."""

    def __init__(self, seed, S, A, H, d, B, near, Gamma, shared):
        self.r, self.S, self.A, self.H, self.d, self.B = np.random.default_rng(seed), S, A, H, d, B
        self.near, self.Gamma, self.shared = near, Gamma, shared
        self.omega2 = near / max(Gamma, H)
        self.F = math.exp(1.5 * near) * chi(self.omega2) * h(math.sqrt(near))
        self.worst, self.stops, self.near_visits = defaultdict(float), 0, 0
        self.paid = np.zeros(3)
        r = self.r
        if shared:
            self.phi = 0.7 * r.normal(size=(S, A, S, 2))
            self.phi -= self.phi[:, :, -1:]
            truth = r.normal(size=2 * d)
            self.truths, self.index = [truth * B / np.linalg.norm(truth)], np.zeros((S, A), int)
            lam, norm2 = 4.0 * 2 * d / B**2, B * B
        else:
            rows = r.normal(size=(S * A, S, d))
            rows *= B / np.linalg.norm(rows, axis=2, keepdims=True)
            rows[:, -1] = 0.0
            self.truths, self.index = list((rows - rows.mean(1, keepdims=True)).reshape(S * A, -1)), None
            self.index = np.arange(S * A).reshape(S, A)
            lam, norm2 = 4.0 * d / B**2, (0.5 if S == 2 else S - 1.0) * B * B
        self.sets = [OnlineSet(t.size, norm2, lam, math.log(60.0)) for t in self.truths]
        means = r.normal(size=(S * A, d))
        self.means = means / np.linalg.norm(means, axis=1, keepdims=True)
        self.ranges = [OnlineSet(d, 1.0, float(d), math.log(60.0)) for _ in means]

    def rows(self, s, a, x):
        """(A, reach) of a visit."""
        norm = np.linalg.norm(x)
        if self.shared:
            phi = self.phi[s, a]
            reach = np.linalg.norm(phi[:, None] - phi[None], axis=-1) * self.B * norm
            return np.einsum("jq,c->jqc", phi, x).reshape(self.S, -1), reach
        reach = np.full((self.S, self.S), 2.0 * self.B * norm)
        reach[-1] = reach[:, -1] = self.B * norm
        return np.kron(np.eye(self.S), x[None]), reach

    def know(self, x):
        known, cap = {}, float(np.linalg.norm(x))
        for s in range(self.S):
            for a in range(self.A):
                made, (A, reach) = self.sets[self.index[s, a]], self.rows(s, a, x)
                z, cov, w, r = made.look(A, reach)
                p = softmax(z)
                curved = (np.diag(p) - np.outer(p, p)) @ cov
                top = max(float(np.linalg.eigvals(curved).real.max()), 0.0)
                second = min(made.rho2 * top, r * r / 4.0) * psi(r)
                means = self.ranges[s * self.A + a]
                (zr, _), _, wr, _ = means.look(np.stack([x, 0.0 * x]), cap * (1.0 - np.eye(2)))
                ends = np.clip([zr - math.sqrt(means.rho2) * wr, zr + math.sqrt(means.rho2) * wr], -cap, cap)
                low, high, mid = 1.0 / (1.0 + np.exp(-np.array([*ends, zr])))
                mean = 1.0 / (1.0 + math.exp(-self.means[s * self.A + a] @ x))
                true = softmax(A @ self.truths[self.index[s, a]])
                known[s, a] = {
                    "P": p, "cov": cov, "rho": math.sqrt(made.rho2), "second": second, "half": math.tanh(r / 4.0),
                    "w": w, "r": r, "trace": float(np.trace(curved)), "low": low, "high": high, "mean": mean,
                    "wr": wr, "trace_r": mid * (1.0 - mid) * wr * wr, "true": true,
                }  # fmt: skip
        return known

    @staticmethod
    def bonus(k, V):
        mean, span = k["P"] @ V, np.ptp(V)
        form = k["P"] * (V - mean)
        first = k["rho"] * math.sqrt(max(form @ k["cov"] @ form, 0.0)) + span * k["second"]
        return max(min(first, span * k["half"], V.max() - mean), 0.0)

    def plan(self, known, optimistic):
        """(policy, V~, V^pi, U, L)."""
        V, own, U, L = (np.zeros((self.H + 1, self.S)) for _ in range(4))
        policy = self.r.integers(self.A, size=(self.H, self.S))
        for t in range(self.H - 1, -1, -1):
            for s in range(self.S):
                every = [known[s, a] for a in range(self.A)]
                Q = [np.clip(k["high"] + k["P"] @ V[t + 1] + self.bonus(k, V[t + 1]), 0.0, self.H - t) for k in every]
                V[t, s] = max(Q)
                policy[t, s] = int(np.argmax(Q)) if optimistic else policy[t, s]
                k = every[policy[t, s]]
                own[t, s] = k["mean"] + k["true"] @ own[t + 1]
                U[t, s] = np.clip(k["high"] + k["P"] @ U[t + 1] + self.bonus(k, U[t + 1]), 0.0, self.H - t)
                L[t, s] = np.clip(k["low"] + k["P"] @ L[t + 1] - self.bonus(k, -L[t + 1]), 0.0, self.H - t)
        return policy, V, own, U, L

    def episode(self, x, optimistic):
        known = self.know(x)
        policy, V, own, U, L = self.plan(known, optimistic)
        tops, gap = ((V,), V - own) if optimistic else ((U, L), U - L)
        for t in range(self.H):
            for s in range(self.S):
                k = known[s, policy[t, s]]
                wide = k["high"] - k["low"] + sum(self.bonus(k, v) for W in tops for v in (W[t + 1], -W[t + 1]))
                assert -1e-9 <= gap[t, s] <= wide + k["true"] @ gap[t + 1] + 1e-9
        s, stopped = int(self.r.integers(self.S)), False
        for t in range(self.H):
            a = int(policy[t, s])
            s, stopped = self.step(x, s, a, t, known[s, a], [W[t + 1] for W in tops], stopped)

    def step(self, x, s, a, t, k, nexts, stopped):
        (A, reach), b = self.rows(s, a, x), self.index[s, a]
        y, reward = int(self.r.choice(self.S, p=k["true"])), int(self.r.random() < k["mean"])
        far = k["w"] ** 2 > self.omega2
        stops = not stopped and (far or k["wr"] ** 2 > self.omega2)
        w, r, p, true, won = self.sets[b].visit(A, y, reach, self.truths[b], self.S, self.worst)
        if stops and far:
            self.stops += 1
            assert w * w >= math.exp(-self.near / 2.0) * k["w"] ** 2 * (1.0 - 1e-9)
        if not (p < true / 1.5).any():  # Lemma 5
            assert won >= math.log1p(g(r) * true.min() * w * w / 1.5) - 1e-9
        args = np.stack([x, 0.0 * x]), 1 - reward, np.linalg.norm(x) * (1.0 - np.eye(2)), self.means[s * self.A + a]
        won_r = self.ranges[s * self.A + a].visit(*args, 3, self.worst)[-1]
        stopped = stopped or stops
        if not stopped:
            self.near_visits += 1
            assert k["r"] <= math.sqrt(self.near) * (1.0 + 1e-9)
            for name, trace, grown in (("F", k["trace"], won), ("F of rewards", k["trace_r"], won_r)):
                self.worst[name] = max(self.worst[name], trace / (self.F * grown) if grown > 1e-9 else 0.0)
            span, bend = self.H - t - 1, psi(math.sqrt(self.near))
            for V in nexts:
                both, tr = self.bonus(k, V) + self.bonus(k, -V), self.Gamma * k["trace"]
                assert both <= span * (math.sqrt(tr) + 2.0 * tr * bend) + 1e-9
                self.paid[0] += both
            tr = self.Gamma * k["trace_r"]
            assert k["high"] - k["low"] <= math.sqrt(tr) + 2.0 * tr * bend + 1e-9
            self.paid[1] += k["high"] - k["low"]
        return y, stopped


@pytest.mark.long
@pytest.mark.parametrize(
    ("S", "A", "H", "d", "B", "near", "Gamma", "shared"),
    [
        (2, 1, 12, 1, 1.0, 1.0, 40.0, False),  # few pairs, met many times in an episode
        (2, 1, 12, 1, 5.0, 3.0, 60.0, False),  # nearly deterministic
        (3, 2, 4, 2, 1.5, 3.0, 60.0, False),
        (3, 2, 8, 2, 1.0, 3.0, 60.0, True),  # one block, met at every step
    ],
)  # fmt: skip
def test_the_chain_of_the_proof_holds_link_by_link(S, A, H, d, B, near, Gamma, shared):
    """From the width of a plan to Q, in episodes planned with the sets of their start. Gamma is checked in the end."""
    K = 100
    for seed, optimistic in ((0, True), (1, False)):
        chain = Chain(seed, S, A, H, d, B, near, Gamma, shared)
        for k in range(K):
            x = np.eye(d)[0] if k % 3 else chain.r.normal(size=d)
            chain.episode(x / np.linalg.norm(x) * (0.1 if k % 11 == 5 else 1.0), optimistic)
        assert max(one.largest for one in chain.sets + chain.ranges) <= Gamma
        assert chain.stops > 0
        assert chain.near_visits > 20
        assert all(v <= 1.0 + 1e-6 for v in chain.worst.values())
        Q, Q_r = (Gamma * chain.F * sum(one.grown for one in made) for made in (chain.sets, chain.ranges))
        sigma, bend = math.sqrt(H * (H - 1) * (2 * H - 1) / 24.0), psi(math.sqrt(near))
        times = 1.0 if optimistic else 2.0
        assert chain.paid[0] <= times * (2.0 * sigma * math.sqrt(K * Q) + 2.0 * (H - 1) * bend * Q)
        assert chain.paid[1] <= math.sqrt(K * H * Q_r) + 2.0 * bend * Q_r
