"""Rows of `noregret.evaluate` that weigh what was logged: PDIS, WPDIS and DR, proved and asymptotic, and MDR."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..checks import Floats
from . import asymptotic as central
from .bets import Part, betting_bounds, running_guess
from .evaluation import NARROW, Row
from .models import Predicted
from .overlap import missing, unmet
from .people import People, Target
from .scores import before, doubly_robust, effective, normalised, per_decision

FEW = 50.0  # people that weights are worth: fewer are no crowd, and the central limit theorem says nothing
LARGE = 0.2  # of the sum of squares: what one person may have at most, likewise

BETTING = "bets on scores, docs/evidence.md"
BY_STATE = ", weights by state"
METHODS = {
    "repeated": "asymptotic confidence sequence",
    "wald": "Wald",
    "stabilised": "Wald with stabilised variances",
}


class Side(NamedTuple):
    """One policy of the question, where the people were. model: None for the logging rule itself."""

    target: Target
    model: Predicted | None

    def among(self, kept: Any) -> "Side":
        return Side(self.target.among(kept), None if self.model is None else self.model.among(kept))

    def weights(self, by_state: bool) -> Floats:
        """[n, H]: w_h of the path; or, by state, visits_h times the ratio of the step."""
        return self.known(by_state) * self.target.ratio

    def known(self, by_state: bool) -> Floats:
        """[n, H]: the part of a weight that is known before the action is drawn."""
        if not by_state or self.model is None or self.model.visits is None:
            return before(self.target.weights)
        return self.model.visits


class Asked(NamedTuple):
    """What is asked of the people of one subgroup; rewards and values in [0, 1] and [0, H]."""

    people: People
    sides: list[Side]  # the policy, and the one it is compared with
    floor: Floats | None  # [n, H, A], at least the chance of every action in the states met
    delta: float
    looks: str
    learning: bool

    def among(self, kept: Any) -> "Asked":
        floor = None if self.floor is None else self.floor[kept]
        people, sides = self.people.among(kept), [side.among(kept) for side in self.sides]
        return self._replace(people=people, sides=sides, floor=floor)


def logged_pairs(people: People, Q: Floats) -> Floats:
    """[n, H]: of the actions that were taken."""
    return np.asarray(np.take_along_axis(Q, people.actions[:, :, None], 2)[:, :, 0])


def part_of(asked: Asked, side: Side, reflected: bool, by_model: bool) -> Part:
    """A policy's share in a score; reflected: of the rewards 1 - r, that is of H less its value."""
    people, target, H = asked.people, side.target, asked.people.states.shape[1]
    r = np.nan_to_num(1.0 - people.rewards if reflected else people.rewards)
    none = np.zeros_like(r)
    if not by_model or side.model is None or asked.floor is None:
        return Part(target.weights, target.ratio, r, none, none, none)
    most = H - np.arange(H, dtype=float)
    Q, V = side.model.Q, side.model.V
    if reflected:
        Q, V = most[:, None] - Q, most - V
    taken = target.chances > 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.where(taken, target.chances * Q / asked.floor, 0.0).max(2) - V
    seen = people.seen
    worst = np.where(seen, np.clip(worst, 0.0, 1e300), 0.0)  # without a floor: nothing is taken
    return Part(
        target.weights, target.ratio, r, np.where(seen, logged_pairs(people, Q), 0.0), np.where(seen, V, 0.0), worst
    )


def proved_bounds(asked: Asked, by_model: bool, counts: Any = None) -> tuple[Floats, Floats]:
    """(lower [m], upper [m]) after so many of the people, all of them if None; docs/evidence.md."""
    H = asked.people.states.shape[1]
    at = np.array([len(asked.people.X)]) if counts is None else np.asarray(counts)
    made, guesses = [], []
    for turn in (False, True):
        parts = [part_of(asked, side, turn != (i == 1), by_model) for i, side in enumerate(asked.sides)]
        guess = np.zeros(len(asked.people.X))
        for i, side in enumerate(asked.sides):
            if by_model and side.model is not None:
                V = side.model.V[:, 0]
                guess = guess + (H - V if turn != (i == 1) else V)
            else:
                guess = guess + running_guess(parts[i : i + 1], H)
        made.append(parts)
        guesses.append(guess)
    return betting_bounds(made[0], made[1], (guesses[0], guesses[1]), asked.delta, at)


def scored(asked: Asked, side: Side, by_model: bool, by_state: bool = False) -> tuple[Floats, Floats]:
    """(scores, guesses) [n] of one policy; everybody is complete."""
    people, weights, H = asked.people, side.weights(by_state), asked.people.states.shape[1]
    if by_model and side.model is not None:
        Q, V = logged_pairs(people, side.model.Q), side.model.V
        return doubly_robust(weights, people.rewards, Q, V), V[:, 0]
    none = np.zeros_like(weights)
    part = Part(weights, side.target.ratio, people.rewards, none, none, none)
    return per_decision(weights, people.rewards), running_guess([part], H)


class Interval(NamedTuple):
    """An estimate and its interval, rewards in [0, 1]."""

    estimate: float
    half: float
    method: str
    share: float  # of the sum of squares that the largest has


def asymptotic_interval(asked: Asked, by_model: bool, by_state: bool = False) -> Interval:
    """PDIS, or DR `by_model`, or MDR `by_state` as well, from complete people."""
    H = asked.people.states.shape[1]
    found = [scored(asked, side, by_model, by_state) for side in asked.sides]
    score, guess = (found[0][i] - (found[1][i] if len(found) > 1 else 0.0) for i in (0, 1))
    rest = score - guess
    if asked.looks == "repeated":
        made, method = central.repeated(guess, rest, asked.delta), "repeated"
    elif asked.learning:
        made, method = central.stabilised(guess, rest, float(H), asked.delta), "stabilised"
    else:
        made, method = central.wald(guess, rest, asked.delta), "wald"
    return Interval(made.estimate, made.half, METHODS[method] + BY_STATE * by_state, _share(rest))


def normalised_interval(asked: Asked) -> Interval:
    """WPDIS, likewise; none for one look at the log of somebody who learned."""
    found = [normalised(side.target.weights, asked.people.rewards) for side in asked.sides]
    estimate = found[0][0] - (found[1][0] if len(found) > 1 else 0.0)
    rest = found[0][1] - (found[1][1] if len(found) > 1 else 0.0) - estimate
    none = np.zeros_like(rest)
    if asked.looks == "once" and asked.learning:
        return Interval(estimate, math.inf, "none: the logger learned", _share(rest))
    repeated = asked.looks == "repeated"
    made = central.repeated(none, rest, asked.delta) if repeated else central.wald(none, rest, asked.delta)
    return Interval(estimate, made.half, METHODS["repeated" if repeated else "wald"], _share(rest))


def _share(rest: Floats) -> float:
    square = (rest - rest.mean()) ** 2
    return float(square.max(initial=0.0) / max(square.sum(), 1e-300))


def weighted_rows(name: str, asked: Asked) -> list[Row]:
    """The rows of one subgroup, values in [0, H] and differences in [-H, H]."""
    whole = asked.among(asked.people.complete)
    rows, some = [], len(whole.people.X) > 0
    model, by_state = asked.sides[0].model is not None, _by_state(asked)
    for estimator, by_model in (("PDIS", False), ("DR", True)):
        if by_model and not model:
            continue
        central_one = asymptotic_interval(whole, by_model) if some else None
        if len(asked.people.X) and (not by_model or asked.floor is not None):
            rows.append(_proved(name, estimator, asked, by_model))
        if central_one is not None:
            rows.append(_asymptotic(name, estimator, whole, central_one))
        if not by_model and some:
            rows.append(_asymptotic(name, "WPDIS", whole, normalised_interval(whole)))
        if by_model and by_state and some:
            rows.append(_asymptotic(name, "MDR", whole, asymptotic_interval(whole, True, True), True))
    return rows


def _by_state(asked: Asked) -> bool:
    """Whether the model knows how often the rule that logged is where."""
    return all(side.model is None or side.model.visits is not None for side in asked.sides)


def _uncovered(asked: Asked, half: float, by_state: bool) -> str:
    """A sentence where a policy does what whoever logged did not, or where an interval would be decided by the model
    for those who did not get it; docs/evidence.md."""
    H = asked.people.states.shape[1]
    for side in asked.sides:
        known = side.known(by_state)
        lacks = missing(known, side.target.ratio)
        alone = unmet(asked.people, side.target, known)
        if lacks.max() > 0.0 or alone @ (H - np.arange(H)) > half:
            worse = lacks if lacks.max() > 0.0 else alone
            h = int(np.argmax(worse))
            return f"at step {h} the policy does what nobody got, or hardly anybody, for {worse[h]:.0%} of the people"
    return ""


def _limits(asked: Asked) -> tuple[float, float]:
    H = float(asked.people.states.shape[1])
    return (0.0, H) if len(asked.sides) == 1 else (-H, H)


def _worth(asked: Asked, by_state: bool = False) -> tuple[float, float]:
    """(effective people, largest weight), the worse of the two policies."""
    found = [effective(side.weights(by_state)) for side in asked.sides]
    return min(size for size, _ in found), max(largest for _, largest in found)


def _why(size: float, largest: float, people: int) -> str:
    return f"{people:,} people count for {size:,.3g} (largest weight {largest:,.3g})"


def _proved(name: str, estimator: str, asked: Asked, by_model: bool) -> Row:
    lower, upper = (float(side[0]) for side in proved_bounds(asked, by_model))
    (low, high), (size, largest), n = _limits(asked), _worth(asked), len(asked.people.X)
    told = 0.0 <= upper - lower <= NARROW * (high - low)
    says = "" if told else f"the proved interval is nearly all that is possible, {_why(size, largest, n)}"
    if upper < lower:
        says = "the bounds contradict each other: the logged probabilities are not those that actions were taken with"
    return Row(name, estimator, "proved", 0.5 * (lower + upper), lower, upper, told, n, size, largest, BETTING, says)


def _asymptotic(name: str, estimator: str, asked: Asked, found: Interval, by_state: bool = False) -> Row:
    (low, high), (size, largest), n = _limits(asked), _worth(asked, by_state), len(asked.people.X)
    lower, upper = found.estimate - found.half, found.estimate + found.half
    says = ""
    if n < central.FIRST:
        says = f"{n} people are too few for the central limit theorem"
    elif found.share == 0.0:
        says = "nobody's score differs from anybody's"
    elif math.isinf(found.half):
        says = "the logger learned, and these scores are no martingale at one look"
    elif size < FEW:
        says = f"no crowd: {_why(size, largest, n)}"
    elif found.share > LARGE:
        says = f"no crowd: of {n:,} people one makes {found.share:.0%} of the variance"
    elif upper - lower > NARROW * (high - low):
        says = f"the interval is nearly all that is possible, {_why(size, largest, n)}"
    else:
        says = _uncovered(asked, found.half, by_state)
    if says:
        lower, upper = low, high
    return Row(
        name, estimator, "asymptotic", found.estimate, lower, upper, not says, n, size, largest, found.method, says
    )
