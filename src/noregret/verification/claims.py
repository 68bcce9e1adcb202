"""What the theory says about a problem before its first episode: the printed numbers beside the corrected ones.

    for claim in claims(problem, episodes=100_000):
        print(claim.name, claim.printed, claim.corrected, claim.note)

Both columns are a priori: worst cases over everything the assumptions allow. What an agent computes from its data is
usually much smaller.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks as check
from ..estimators.newton.online_newton import SLACK, STEP, THEOREM_A, THEOREM_B, default_regularization
from ..estimators.rewards import logistic as rewards
from ..numerics.linear_algebra import least_regularization
from ..problem.links import Constants
from ..problem.problem import Problem
from ..storage.text import aligned
from ..theory import bounds, lower, radii, widths
from ..theory.constants import linear_l1, logistic_alpha, logit_alpha_pinned, logit_alpha_printed, logit_alpha_simple
from .claims_sets import SetRegret

PRINTED_REGULARIZATION = 1.0  # likewise, with constants="paper"


@dataclass(frozen=True)
class Claim:
    """One quantity: where the paper has it, its value as printed and as corrected (None: there is none)."""

    name: str
    where: str
    printed: float | None
    corrected: float | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """printed / corrected."""
        if self.printed is None or not self.corrected or math.inf in (self.printed, self.corrected):
            return None
        return self.printed / self.corrected


@dataclass(frozen=True)
class Setting:
    """The scalars behind the bounds, for the pair with the worst of each: the ones the agents run with."""

    counts: tuple[int, ...]  # numbers of outcomes of the pairs that can be met and have something to learn
    kappa_min: float
    kappa_max: float
    norm2: float
    log_weight: float
    regularization: float
    l1: float  # to the 1-norm
    spread: float  # 2 bonus <= spread * span(V) * w, in GLM-ORL
    printed_alpha: float
    printed_norm2: float

    @property
    def outcomes(self) -> int:
        return self.counts[-1]


def setting(problem: Problem) -> Setting:
    p, link, d, theorem_a = problem, problem.link, problem.context_dim, problem.link.form == "A"
    form, step = (THEOREM_A, 2.0 - SLACK) if theorem_a else (THEOREM_B, STEP)

    def kappas(counts: set[int], bound: float) -> list[float]:
        return [step * check.positive(f"alpha of {link!r}", link.alpha(m, bound)) for m in counts]

    def norm2(counts: set[int], constants: Constants = "corrected") -> float:
        return max(link.weight_norm2(m, p.weight_bound, d, constants) for m in counts)

    everywhere = {int(m) for m in p.layout.count.flat}
    met = {int(m) for m in p.layout.count[p.layout.available]}
    uncertain = {m for m in met if m > 1} or met  # a pair with one outcome has no width
    slopes = [radii.theorem_b_log_weight(link.alpha(m, p.reach), STEP) for m in uncertain if not theorem_a]
    l1 = max(link.l1(m) for m in uncertain)
    usual = default_regularization(form, d, min(kappas(everywhere, p.reach)), norm2(everywhere))
    return Setting(
        counts=tuple(sorted(uncertain)),
        kappa_min=min(kappas(uncertain, p.reach)),
        kappa_max=max(kappas(uncertain, 0.0 if theorem_a else p.reach)),
        norm2=norm2(uncertain),
        log_weight=radii.theorem_a_log_weight(SLACK) if theorem_a else max(slopes),
        regularization=max(usual, least_regularization(max(kappas(everywhere, p.reach)), p.context_bound, d)),
        l1=l1,
        spread=linear_l1(p.n_states) if link.width == "l2" else l1,
        printed_alpha=min(link.alpha(m, p.reach, "paper") for m in uncertain),
        printed_norm2=norm2(uncertain, "paper"),
    )


class _Corrected:
    """The corrected bounds of a problem, as functions of the number of episodes."""

    def __init__(self, problem: Problem, delta: float) -> None:
        p = self.problem = problem
        self.setting, self.delta = setting(p), delta
        # Smallest and largest coefficient of x x' in the rewards' Gram matrices, and their lambda.
        self.reward_kappas = 1.0, 1.0
        self.reward_regularization = max(1.0, least_regularization(1.0, p.context_bound, p.context_dim))
        if p.rewards != "linear":
            flattest, steepest = logistic_alpha(p.reward_bound * p.context_bound), logistic_alpha(0.0)
            self.reward_kappas = low, _ = (2.0 - SLACK) * flattest, (2.0 - SLACK) * steepest
            self.reward_regularization = rewards.default_regularization(p.context_dim, low, p.reward_bound)

    def radius(self, samples: float, delta: float) -> float:
        p, s = self.problem, self.setting
        return bounds.largest_radius(
            s.norm2, s.regularization, s.log_weight, s.kappa_min, s.kappa_max, context_dim=p.context_dim,
            context_bound=p.context_bound, samples=samples, delta=delta,
        )  # fmt: skip

    def reward_radius(self, samples: float, delta: float) -> float:
        """zeta, with 2 xi_r <= 2 zeta ||x||_{V^{-1}}; for logistic rewards V is divided by the smallest kappa."""
        p = self.problem
        if p.known_rewards is not None:
            return 0.0
        if p.rewards == "linear":
            lam = self.reward_regularization
            return bounds.largest_reward_radius(p.reward_bound, lam, p.context_dim, p.context_bound, samples, delta)
        return 0.25 * math.sqrt(self.logistic_radius(samples, delta) / self.reward_kappas[0])  # tanh(w/4) <= w/4

    def logistic_radius(self, samples: float, delta: float) -> float:
        p, slope = self.problem, radii.theorem_a_log_weight(SLACK)
        return bounds.largest_radius(
            p.reward_bound**2, self.reward_regularization, slope, *self.reward_kappas, context_dim=p.context_dim,
            context_bound=p.context_bound, samples=samples, delta=delta, gradient2=1.0,
        )  # fmt: skip

    def potentials(self, episodes: float) -> tuple[float, float]:
        """Of transitions and of rewards."""
        p, s = self.problem, self.setting
        both = (s.kappa_max, s.regularization), (self.reward_kappas[1], self.reward_regularization)
        transitions, learned = (
            bounds.potential(p.n_pairs, p.context_dim, kappa, episodes, p.horizon, p.context_bound, lam)
            for kappa, lam in both
        )
        return transitions, learned if p.known_rewards is None else 0.0

    def growth(self, episodes: float) -> bounds.Growth:
        s, H, (transitions, learned) = self.setting, self.problem.horizon, self.potentials(episodes)
        radius, zeta = self.radius(episodes * H, self.delta), self.reward_radius(episodes * H, self.delta)
        return bounds.bonus_growth(H, s.spread, radius, s.kappa_min, transitions, zeta, learned)

    def regret(self, episodes: float) -> float:
        growth = self.growth(episodes)
        bonuses = growth.root * math.sqrt(episodes) + growth.constant
        return bounds.regret_from_bonuses(bonuses, self.problem.horizon, episodes, self.delta)

    def mistakes(self, epsilon: float, episodes: float) -> float:
        H, growth = self.problem.horizon, self.growth(episodes)
        if bounds.mistakes_closed(epsilon, H, self.delta, growth, episodes) > 1e300:
            return math.inf
        return float(bounds.mistakes(epsilon, H, self.delta, growth))

    def rlsvi_regret(self, episodes: float) -> float:
        p, s, samples = self.problem, self.setting, episodes * self.problem.horizon
        delta = bounds.rlsvi_delta(p.n_pairs, episodes)
        transitions, learned = self.potentials(episodes)
        return bounds.rlsvi_regret(
            p.n_states, p.n_pairs, p.horizon, episodes, l1=s.l1, radius=self.radius(samples, delta),
            kappa_min=s.kappa_min, transition_potential=transitions,
            reward_radius=self.reward_radius(samples, delta), reward_potential=learned,
        )  # fmt: skip

    def width(self, samples: float) -> float:
        """Of the 1-norm, at ||x|| = R, the samples spread evenly over d directions."""
        p, s = self.problem, self.setting
        gram = s.regularization + s.kappa_min * samples * p.context_bound**2 / p.context_dim
        w = math.sqrt(self.radius(samples, self.delta) / gram) * p.context_bound
        if p.link.width == "tanh":
            return min(widths.logit_l1(w), max(widths.logit_diameter(m, p.reach) for m in s.counts))
        return min(2.0, s.l1 * w)

    def first_width(self) -> float:
        """Before any data, when P_hat is uniform."""
        p, width = self.problem, self.width(0)
        if p.link.width == "tanh":
            width = min(width, max(widths.logit_prior_cap(np.full(m, 1.0 / m), p.reach) for m in self.setting.counts))
        return width

    def first_bonus(self) -> float:
        """The largest at step 1 before any data: span(V) <= H - 1."""
        p, s = self.problem, self.setting
        share = 0.5 * self.first_width()
        if p.link.width == "l2":
            w = math.sqrt(self.radius(0, self.delta) / s.regularization) * p.context_bound
            share = min(1.0, 0.5 * s.spread * min(math.sqrt(2.0), w))
        return (p.horizon - 1) * share + self.first_interval()

    def first_interval(self) -> float:
        p = self.problem
        if p.known_rewards is not None:
            return 0.0
        w2 = p.context_bound**2 / self.reward_regularization
        if p.rewards == "logistic":
            w = math.sqrt(self.logistic_radius(0, self.delta) * w2)
            return widths.logistic_interval(w, 0.0, p.reward_bound * p.context_bound)
        return widths.reward_interval(w2, 0.0, p.reward_bound, self.reward_regularization, self.delta)


class _Printed:
    """The printed ones, with lambda = eta = 1."""

    def __init__(self, problem: Problem, made: Setting, delta: float) -> None:
        self.problem, self.setting, self.delta = problem, made, delta
        self.alpha, self.beta = made.printed_alpha, problem.link.beta("paper")
        self.l1 = math.sqrt(problem.n_states) * self.beta

    def radius(self, samples: int) -> float:
        p, s = self.problem, self.setting
        spread = 0.5 * self.alpha * samples * p.context_bound**2 / (PRINTED_REGULARIZATION * p.context_dim)
        return radii.printed(
            s.outcomes, s.printed_norm2, p.weight_bound, p.context_bound, self.alpha, PRINTED_REGULARIZATION,
            samples=samples, logdet=p.context_dim * math.log1p(spread), delta=self.delta,
        )  # fmt: skip

    def width(self, samples: int) -> float:
        p = self.problem
        gram = PRINTED_REGULARIZATION + 0.5 * self.alpha * samples * p.context_bound**2 / p.context_dim
        return self.l1 * math.sqrt(self.radius(samples) / gram) * p.context_bound

    def first_interval(self) -> float:
        w2 = self.problem.context_bound**2 / PRINTED_REGULARIZATION
        return widths.reward_interval_printed(w2, 0.0, self.problem.context_dim, PRINTED_REGULARIZATION, self.delta)

    def first_bonus(self) -> float:
        return (self.problem.horizon - 1) * self.width(0) + self.first_interval()

    def regret(self, episodes: int) -> float:
        p, s = self.problem, self.setting
        radius = bounds.radius_printed(
            s.outcomes, s.printed_norm2, p.weight_bound, p.context_bound, self.alpha, PRINTED_REGULARIZATION,
            context_dim=p.context_dim, samples=episodes * p.horizon, delta=self.delta,
        )  # fmt: skip
        return bounds.regret_printed(
            p.n_states, p.n_actions, p.horizon, episodes, context_dim=p.context_dim, context_bound=p.context_bound,
            alpha=self.alpha, beta=self.beta, regularization=PRINTED_REGULARIZATION, radius=radius, delta=self.delta,
        )  # fmt: skip

    def rlsvi_order(self, episodes: int) -> float:
        p, norm = self.problem, math.sqrt(self.setting.printed_norm2)
        return bounds.rlsvi_order_printed(
            p.n_states, p.n_actions, p.horizon, episodes, p.context_dim, self.alpha, self.beta, norm
        )

    def mistakes(self, epsilon: float, episodes: int) -> float:
        p = self.problem
        return bounds.mistakes_printed(
            epsilon, p.n_states, p.n_actions, p.horizon, episodes, context_dim=p.context_dim,
            context_bound=p.context_bound, beta=self.beta, regularization=PRINTED_REGULARIZATION,
            radius=self.radius(episodes * p.horizon),
        )  # fmt: skip


class Claims(list[Claim]):
    """In order, or by name: `claims(problem, 1000)["regret of GLM-ORL"]`. Prints as a table."""

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            return check.known("claim", at, {claim.name: claim for claim in self})
        return super().__getitem__(at)

    def __repr__(self) -> str:
        def number(value: float | None) -> str:
            return "-" if value is None else f"{value:.4g}"

        rows = [(c.name, number(c.printed), number(c.corrected), c.note) for c in self]
        return aligned([("", "printed", "corrected", ""), *rows])


def claims(problem: Problem, episodes: int, delta: float = 0.05, epsilon: float | None = None) -> Claims:
    """What the theory says of `problem` before its first episode: constants, radii, bonuses and bounds.

    In the order in which an episode meets them, each as printed in the paper and as corrected.

    episodes  K, at which the bounds are evaluated
    delta     of all sets and one bound together, as in GLM-ORL; regret and mistakes at once cost one more share
    epsilon   an episode with V* - V^pi above it is a mistake; default H/10

    Sets, widths and bonuses are those of pairs learned alone, also where the problem has a design.

    Rows without a printed value are about agents that are not in the paper (docs/regret.md), with their default options
    and, where the problem has a design, by it; "no design": the same problem without.

    Caveat: regret bounds are often vacuous, above H K; the note then says from about how many episodes they are not.

    >>> import noregret as nr
    >>> problem = nr.Problem(n_states=5, n_actions=3, horizon=5, context_dim=4, weight_bound=1.0, reward_bound=1.0)
    >>> claim = nr.claims(problem, episodes=100_000)["regret of GLM-ORL"]
    >>> print(f"{claim.printed:.1e} as printed, {claim.corrected:.1e} as corrected, {claim.note}")
    6.6e+09 as printed, 2.8e+06 as corrected, vacuous up to K = 9.1e+06
    """
    if not isinstance(problem, Problem):
        has = "a World has one: world.problem"
        raise ValueError(f"problem must be a noregret.Problem ({has}), got {check.shown(problem)}")
    if not problem.scale.plain:
        raise ValueError(f"problem must have reward_range (0, 1), got {problem.reward_range}")
    K = check.integer("episodes", episodes)
    delta = check.positive("delta", delta, below=1.0)
    p = problem
    eps = check.positive("epsilon", p.horizon / 10.0 if epsilon is None else epsilon)
    if not 1e-9 * p.horizon <= eps <= p.horizon:
        raise ValueError(f"epsilon must be from {1e-9 * p.horizon:g} to the horizon {p.horizon}, got {eps:g}")
    shares = delta / (2 * p.n_states * p.n_actions + p.n_states * p.horizon), delta / (2 * p.n_pairs + 1)
    new = _Corrected(p, shares[1])
    old = _Printed(p, new.setting, shares[0])
    of_the_episode = _of_the_link(p, new.setting), _of_the_sets(p, K, old, new, shares), _of_the_plan(p, old, new)
    *sums, most, least = _of_the_run(p, K, eps, old, new)
    return Claims(itertools.chain(*of_the_episode, sums, _of_sets(p, K, delta), (most, least)))


def _printed_alpha_holds(p: Problem, s: Setting) -> bool:
    """Whether e^{-BR}/m^2 is at most the exact curvature; other links are printed with the alpha they came with."""
    exact = logit_alpha_pinned(s.outcomes, p.reach)
    return p.link.form != "A" or s.printed_alpha <= exact * (1.0 + 1e-12)


def _of_the_link(p: Problem, s: Setting) -> list[Claim]:
    where, m, alpha = "Section 2", s.outcomes, p.link.alpha(s.outcomes, p.reach)
    curvature = [Claim("alpha", where, s.printed_alpha, alpha, "strong convexity")]
    if p.link.form == "A":
        printed, pinned = logit_alpha_printed(m, p.reach), logit_alpha_pinned(m, p.reach)
        verdict = "printed is valid here" if _printed_alpha_holds(p, s) else "printed: invalid"
        curvature = [
            Claim("alpha, last row pinned", where, printed, pinned, f"exact; {verdict}"),
            Claim("alpha, simple formula", where, printed, logit_alpha_simple(m, p.reach), "pinned; always valid"),
            Claim("alpha, rows centred", where, printed, alpha, "exact; what the agents use"),
        ]
    printed_l1 = math.sqrt(p.n_states) * p.link.beta("paper")
    return [
        *curvature,
        Claim("beta", where, p.link.beta("paper"), p.link.beta(), "smoothness"),
        Claim("l1 of P per l2 of W x", "Section 4", printed_l1, s.l1, "Lipschitz constant"),
    ]


def _of_the_sets(p: Problem, K: int, old: _Printed, new: _Corrected, shares: tuple[float, float]) -> list[Claim]:
    where, none, some = "Theorem 3.1", "no data", "K H/pairs samples"
    each, most = max(K * p.horizon // p.n_pairs, 1), K * p.horizon
    note = "squared radius, in Z" if _printed_alpha_holds(p, new.setting) else "printed: invalid alpha"

    def radius(n: int, when: str) -> Claim:
        return Claim(f"gamma, {when}", where, old.radius(n), new.radius(n, new.delta), note)

    def width(n: int, when: str) -> Claim:
        return Claim(f"l1 width, {when}", "Section 4", old.width(n), new.width(n), "contexts in d even directions")

    scaled = old.radius(most) / (0.5 * old.alpha), new.radius(most, new.delta) / new.setting.kappa_min
    return [
        Claim("delta' of one set", "Section 4", *shares, "union bound over the sets"),
        radius(0, none),
        radius(each, some),
        radius(most, "K H samples"),
        Claim("gamma/kappa, K H samples", where, *scaled, "in sum xx': comparable"),
        Claim(f"l1 width, {none}", "Section 4", old.width(0), new.first_width(), "at ||x|| = R; 2 says nothing"),
        width(each, some),
        width(most, "K H samples"),
    ]


def _of_the_plan(p: Problem, old: _Printed, new: _Corrected) -> list[Claim]:
    linear = p.rewards == "linear"
    note = "printed fails: B_r > sqrt d" if p.reward_bound > math.sqrt(p.context_dim) else "1 says nothing"
    interval, bonus = (old.first_interval(), old.first_bonus()) if linear else (None, None)
    if p.known_rewards is not None:
        note = "rewards are known"
    elif not linear:
        note = "logistic: none is printed"
    return [
        Claim("reward interval, no data", "Section 4", interval, new.first_interval(), note),
        Claim("bonus at step 1, no data", "Algorithm 2", bonus, new.first_bonus(), f"values reach H = {p.horizon}"),
    ]


def _of_the_run(p: Problem, K: int, eps: float, old: _Printed, new: _Corrected) -> list[Claim]:
    H = p.horizon
    luck = (
        bounds.deviation_printed(p.n_states, H, K, old.delta),
        bounds.martingale_deviation(bounds.trajectory_sigma(H), K, new.delta),
    )
    least = lower.order(K, p.n_states, p.n_actions, p.context_dim, H)

    def mistakes(episodes: float) -> float:
        return new.mistakes(eps, episodes)

    def claim(name: str, where: str, printed: float | None, bound: Callable[[float], float], most: int) -> Claim:
        if p.design is not None or p.reward_design is not None:  # agents share weights then
            return Claim(name, where, printed, None, "not worked out for designs")
        return Claim(name, where, printed, bound(K), _vacuous(bound, most, K))

    return [
        Claim("deviation of trajectories", "Theorem 4.1", *luck, "S H^2 becomes sigma_H"),
        claim("regret of GLM-ORL", "Theorem 4.1", old.regret(K), new.regret, H),
        claim(f"mistakes above {eps:g}", "Theorem 4.6", old.mistakes(eps, K), mistakes, 1),
        Claim("order for GLM-RLSVI", "Theorem 4.7", old.rlsvi_order(K), None, "no constant is printed"),
        claim("E regret of GLM-RLSVI", "Theorem 4.7", None, new.rlsvi_regret, H),
        Claim("H K", "", None, float(H * K), "bounds above it are vacuous"),
        Claim("H sqrt(d S A K)", "Theorem 5.1", least, None, "lower bound, an order only"),
    ]


def _of_sets(p: Problem, K: int, delta: float) -> list[Claim]:
    """Of the agents over online likelihood-ratio sets, by the problem's design and without it."""
    if not SetRegret.covers(p):
        return []
    designs = ("regret of {}", True), ("{}, no design", False)
    made = []
    for said, shared in designs if p.blocks is not None or p.reward_blocks is not None else designs[:1]:
        of = SetRegret(p, delta, shared)
        for name, bound in (("LR-ORL", of.lr_orl), ("CertifiedPSRL", of.certified)):
            made.append(Claim(said.format(name), "", None, bound(K), _vacuous(bound, p.horizon, K)))
    return made


def _vacuous(bound: Callable[[float], float], most: int, episodes: int) -> str:
    """Whether bound(K) < most * K, and if not, from about which K on."""
    if bound(episodes) < most * episodes:
        return "says something at this K"
    high = 2.0 * episodes
    while not bound(high) < most * high:
        high *= 2.0
        if high > 1e100:
            return "vacuous"
    low = 0.5 * high
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if bound(middle) < most * middle else (middle, high)
    return f"vacuous up to K = {high:.1e}"
