"""The asymptotic rung: mean values of policies in the model fitted to a log, with intervals from the central limit
theorem. docs/evidence-asymptotic.md has the assumptions and what was measured.

The question psi(theta) is the mean over contexts of V^policy, or of V^policy - V^other, fixed before the log was looked
at. The answer is psi at the fitted weights. With s_k the summed scores of person k, A_k their curvature, A = sum A_k +
lambda and g the gradient of psi, person k has moved it by phi_k = -g'(A - A_k)^{-1} s_k, and

    standard error^2 = sum_k phi_k^2

the delta method with a sandwich clustered by person, in the jackknife form (CR3: each person's score is made larger by
their own leverage). One look: estimate -+ t standard error, t Student's, because the standard error has a variance of
its own (`asymptotic.freedom`). Looks at any time: the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha,
Kennedy and Ramdas (2021). Logs of agents that learned: weights of `log_steps`.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtri, ndtri

from .. import checks as check
from ..checks import Floats
from ..problem.links import MultinomialLogit
from ..problem.log import Log
from ..problem.problem import Problem
from .asymptotic import freedom, student
from .fit import NEXT, Fitted, Part, fit, influences, parts_of, reach, unseen, weak
from .log_steps import Steps, same_for_all, stabilising, step_weights, steps_of
from .plug_in_values import Question, answer, policies, touched

_FEW = 20.0  # effective people below this are no crowd
_LARGE_PART = 0.5  # of half the width: more that nobody knows is too much
_LARGE_BIAS = 1.0  # of a standard error; that of a half is twice as much, and the difference is noisy
_LOOKED_AT = 50  # contexts, where directions that no data inform are tried
_CERTAIN = 1.0 - 1e-12


@dataclass(frozen=True)
class PlugIn:
    """An estimate with its interval, by the central limit theorem: the rung is "asymptotic".

    estimate, standard_error   of the mean value, or of the mean difference of two, in the units of rewards
    lower, upper               the interval; where the data cannot tell, all that is possible at all
    told                       False: the data cannot tell, and `sentence` says why
    sentence                   the answer in words, with what it rests on
    people, steps, parameters  in the log; unknown weights of the model
    effective_people           (sum phi^2)^2/sum phi^4: on how many the standard error rests; n/3 for a bell curve
    freedom                    degrees of freedom of the standard error (Satterthwaite): its t has them
    unknown                    how much weights that no data inform could change the answer; part of the width
    bias                       what the mean of the answers of two halves of the people has more than that of all
    weighted                   "no", "step" or "path": how steps were weighted for a logger that learned
    largest_weight             of a step, 1 where there are none
    looks                      "one": valid at one look, whose time was fixed beforehand; "any": at all times together
    projected                  (lower, upper) from the region for all weights at once: wide, but it does not ask that
                               what is learned about one weight or another settles down (Zhang et al. 2021)
    """

    estimate: float
    lower: float
    upper: float
    standard_error: float
    told: bool
    sentence: str
    people: int
    steps: int
    parameters: int
    effective_people: float
    freedom: float
    unknown: float
    bias: float
    weighted: Literal["no", "step", "path"]
    largest_weight: float
    looks: Literal["one", "any"]
    population: bool
    delta: float
    projected: tuple[float, float]
    rung: Literal["asymptotic"] = "asymptotic"

    @property
    def half_width(self) -> float:
        return 0.5 * (self.upper - self.lower)


def sequence_factor(people: int, delta: float, tuned_for: int = 1000) -> float:
    """How many standard errors an asymptotic confidence sequence is wide on either side (Waudby-Smith et al. 2021).

    With c = rho^2 people, the boundary of Robbins' normal mixture is sqrt((1 + 1/c) ln((1 + c)/delta^2)). rho is chosen
    so that it is narrowest at `tuned_for` people, and must be the same at every look.

    >>> [round(sequence_factor(n, 0.05), 2) for n in (100, 1000, 10000)]
    [3.86, 3.04, 3.24]
    """
    log = -2.0 * math.log(delta)
    c = (log + math.log1p(log)) * people / tuned_for
    return math.sqrt((1.0 + 1.0 / c) * (math.log1p(c) + log))


def plug_in(
    log: Log,
    policy: Any,
    other: Any = None,
    contexts: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    start: Any = None,
    delta: float = 0.05,
    *,
    adaptive: Literal["auto", "no", "step", "path"] = "auto",
    stabiliser: ArrayLike | None = None,
    population: bool = False,
    looks: Literal["one", "any"] = "one",
    tuned_for: int = 1000,
) -> PlugIn:
    """The mean over contexts of V^policy, or of V^policy - V^other, in the model fitted to a log, with an interval.

    policy, other  actions (H, S) or (N, H, S); or chances of actions, floats (H, S, A) or (N, H, S, A); or a function
                   from a context to one of them. They must not have been chosen from this log: take another half
    contexts       (N, d); None: those of the log's people
    weights        of the contexts, at least 0, 0 for who is not in a subgroup; None: equal
    start          a state, or a distribution (S) or (N, S); None: where the log's people began
    delta          the interval misses with about this chance
    adaptive       "no": whoever logged did not learn from these people. "step", "path": they did, and steps are
                   weighted by roots of stabilised propensities. "auto": "no" where the probabilities of the log are
                   those of one rule for all, or are not in it, "step" otherwise
    stabiliser     chances (H, S, A) of the stabilising policy, fixed beforehand; None: all available actions alike
    population     False: the mean over these very contexts. True: over the population they were drawn from
    looks          "one" or "any"; tuned_for: the people at which the sequence is narrowest, the same at all looks

    >>> import noregret as nr
    >>> from noregret.evidence.plug_in import plug_in
    >>> world = nr.worlds.programme()
    >>> calls = world.rule.copy()
    >>> calls[:, 2:] = 2  # a call every week to all who are there
    >>> found = plug_in(world.log(people=500, seed=1), calls, world.rule)
    >>> found.rung, found.told, found.lower < found.estimate < found.upper
    ('asymptotic', True, True)
    """
    p = log.problem
    if not isinstance(p.link, MultinomialLogit):
        raise ValueError(f"log must be of a problem with the link MultinomialLogit, got {p.link!r}")
    check.one_of("adaptive", adaptive, ("auto", "no", "step", "path"))
    check.one_of("looks", looks, ("one", "any"))
    check.positive("delta", delta, below=1.0)
    check.flag("population", population)
    tuned = check.integer("tuned_for", tuned_for)
    steps, stable = steps_of(log), stabilising(p, stabiliser)
    asked = _asked(p, steps, policy, other, contexts, weights, start)
    kind: Any = _kind(steps, p) if adaptive == "auto" else adaptive
    W = step_weights(steps, stable, kind)
    fitted = [fit(part, steps.X) for part in parts_of(p, steps, W)]
    seen = _errors(fitted, p, asked, steps.X, (population, contexts is None), delta)
    factor = student(delta, seen.freedom)
    if looks == "any":
        factor = sequence_factor(len(steps.X), delta, tuned)
    parameters = sum(one.part.at.size for one in fitted)
    estimate, half = seen.estimate, math.hypot(factor * seen.error, seen.unknown)
    several = max(parameters, 1)
    region = math.sqrt(several * float(fdtri(several, seen.freedom, 1.0 - delta)))
    far = math.hypot(region * seen.error, seen.unknown)
    bias = _bias(p, steps, W, asked, estimate)
    why = _cannot(seen, bias, factor)
    low, high = (p.horizon * r for r in p.reward_range)
    limits = (low, high) if other is None else (low - high, high - low)
    return PlugIn(
        estimate,
        *((estimate - half, estimate + half) if why is None else limits),
        seen.error,
        why is None,
        _sentence(estimate, half, why, steps, p, kind, looks),
        len(steps.X),
        steps.a.size,
        parameters,
        seen.effective,
        seen.freedom,
        seen.unknown,
        bias,
        kind,
        float(W.max()),
        looks,
        population,
        delta,
        (estimate - far, estimate + far) if why is None else limits,
    )


class _Seen(NamedTuple):
    """What the fit says about the question."""

    estimate: float
    error: float  # standard error
    effective: float  # people, 0 where nobody moves the answer
    freedom: float  # degrees of freedom of the standard error
    unknown: float
    where: str  # whose weights that is about most


def _kind(steps: Steps, problem: Problem) -> str:
    """Whether to weight a log of which nothing was said."""
    if np.isnan(steps.chance).any() or same_for_all(steps, problem):
        return "no"
    return "step"


def _asked(p: Problem, steps: Steps, policy: Any, other: Any, contexts: Any, weights: Any, start: Any) -> Question:
    X = steps.X if contexts is None else p.contexts(contexts)
    N, S = len(X), p.n_states
    share = np.ones(N) if weights is None else check.finite("weights", check.array("weights", weights, (N,)))
    if N == 0 or share.min() < 0.0 or not 0.0 < share.sum() < math.inf:
        raise ValueError("weights must be at least 0 and not all 0")
    return Question(
        X,
        share / share.sum(),
        _begins(p, steps, N, contexts is None) if start is None else _starts(p, N, S, start),
        policies("policy", policy, p, X),
        None if other is None else policies("other", other, p, X),
    )


def _begins(p: Problem, steps: Steps, N: int, own: bool) -> Floats:
    """Where the log's people began: each themselves, or for other contexts the shares of all."""
    began = np.eye(p.n_states)[steps.begin]
    return began if own else np.broadcast_to(began.mean(0), (N, p.n_states)).copy()


def _starts(p: Problem, N: int, S: int, start: Any) -> Floats:
    if check.alone(start):
        return np.broadcast_to(np.eye(S)[p.started(start)], (N, S)).copy()
    made = check.numbers("start", start, f"a state, or distributions of shape ({S},) or ({N}, {S})")
    if made.shape not in ((S,), (N, S)) or not (made >= 0.0).all() or np.abs(made.sum(-1) - 1.0).max() > 1e-9:
        raise ValueError(f"start must be a state, or distributions over states of shape ({S},) or ({N}, {S})")
    return np.broadcast_to(made, (N, S)).copy()


def _errors(
    fitted: list[Fitted], p: Problem, asked: Question, X: Floats, drawn: tuple[bool, bool], delta: float
) -> _Seen:
    """drawn: whether the contexts are a sample of those that are asked about, and whether they are the log's."""
    found = answer(fitted, p, asked)
    moved = np.zeros(len(X))
    for one, slope in zip(fitted, found.slopes, strict=True):
        moved += influences(one, slope, X)
    estimate = float(asked.share @ found.values)
    population, own = drawn
    spread = asked.share * (found.values - estimate) if population else np.zeros(len(asked.X))
    terms = (moved + spread,) if own else (moved, spread)
    error = math.sqrt(sum(float(part @ part) for part in terms))
    square = float(moved @ moved)
    effective = square**2 / float((moved**4).sum()) if square > 0.0 else 0.0
    drop = 0.5 * float(ndtri(1.0 - 0.5 * delta)) ** 2  # so much a likelihood falls at the end of an interval
    unknown = _unknown(fitted, p, asked, X, drop)
    for b, (one, slope) in enumerate(zip(fitted, found.slopes, strict=True)):
        unknown[b] += unseen(one, slope, X, math.log(2.0 / delta) * p.scale.unit) ** 2
    where = _named(fitted[int(unknown.argmax())].part, p) if unknown.any() else ""
    return _Seen(estimate, error, effective, freedom(*terms), math.sqrt(float(unknown.sum())), where)


def _unknown(fitted: list[Fitted], p: Problem, asked: Question, X: Floats, drop: float) -> Floats:
    """Per block, squared: how far the answer moves along directions that no data inform, each as far as the bound and
    the likelihood allow, both ways, the larger. On some of the contexts."""
    moved = np.zeros(len(fitted))
    listed = [(b, v) for b, one in enumerate(fitted) for v in weak(one)]
    if not listed:
        return moved
    among = np.flatnonzero(asked.share > 0.0)
    few = among[np.linspace(0, among.size - 1, min(_LOOKED_AT, among.size)).astype(int)]
    part = asked.share[few] / asked.share[few].sum()
    cut = [None if c is None else (c if len(c) == 1 else c[few]) for c in (asked.policy, asked.other)]
    small = Question(asked.X[few], part, asked.start[few], cut[0], cut[1])  # type: ignore[arg-type]
    centre = float(part @ answer(fitted, p, small, False).values)
    for b, direction in listed:
        if not touched(fitted[b], small):
            continue
        most = 0.0
        for sign in (1.0, -1.0):
            changed = fitted.copy()
            changed[b] = fitted[b]._replace(theta=reach(fitted[b], sign * direction, X, drop))
            most = max(most, abs(float(part @ answer(changed, p, small, False).values) - centre))
        moved[b] += most**2
    return moved


def _named(part: Part, p: Problem) -> str:
    """A block in words."""
    design: Any = p.design if part.kind == NEXT else p.reward_design
    what = "next states" if part.kind == NEXT else "rewards"
    if design is not None:
        return f"{what} of {design.block_names[part.block]}"
    s, a = divmod(part.block, p.n_actions)
    return f"{what} of action {p.action_text(a)} in state {p.state_text(s)}"


def _bias(p: Problem, steps: Steps, W: Floats, asked: Question, estimate: float) -> float:
    """Quenouille's: the estimate has a bias of about c/n, a half's is 2 c/n. People are halved in turn."""
    if len(steps.X) < 2:
        return math.inf
    halves = []
    for first in (0, 1):
        at = steps.person % 2 == first
        half = Steps(*steps[:2], *(part[at] for part in steps[2:]))
        fitted = [fit(part, steps.X) for part in parts_of(p, half, W[at])]
        halves.append(float(asked.share @ answer(fitted, p, asked, False).values))
    return 0.5 * sum(halves) - estimate


def _cannot(seen: _Seen, bias: float, factor: float) -> str | None:
    """Why the data cannot tell; None: they can."""
    if seen.unknown > _LARGE_PART * factor * seen.error and seen.unknown > 0.0:
        return (
            f"the answer depends on weights about which the log says next to nothing, above all those of the "
            f"{seen.where}: they could change it by {seen.unknown:.2g}"
        )
    if 0.0 < seen.effective < _FEW:
        return f"the answer rests on {seen.effective:.0f} people or so, too few for a central limit theorem"
    if abs(bias) > _LARGE_BIAS * seen.error:
        return (
            f"half of the people would have said {bias:+.2g}, so that a bias is not small beside the standard error "
            f"{seen.error:.2g}: there are too many weights for so few people"
        )
    return None


def _sentence(estimate: float, half: float, why: str | None, steps: Steps, p: Problem, kind: str, looks: str) -> str:
    if why is not None:
        return f"The data cannot tell: {why}."
    when = "at one look, fixed beforehand" if looks == "one" else "at all times together"
    said = [f"{estimate:.3g}, from {estimate - half:.3g} to {estimate + half:.3g} (asymptotic, {when})."]
    if kind == "no" and np.isnan(steps.chance).any():
        said.append("The log has no probabilities: this is right if whoever decided did not learn from these people.")
    choice = p.layout.available.sum(1)[steps.s] > 1
    if kind != "no" and (steps.chance[choice] >= _CERTAIN).any():
        said.append("Some actions were certain, which weights cannot make up for: let the agent have a floor.")
    return " ".join(said)
