"""A digital-health programme: people with symptoms who may drift away, reminders and calls, and what it is told about
them. Made up, but in the shape such programmes have: few states with ordered levels, effects that many pairs share."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats
from ..compiler.jit import strict
from ..numerics.random import CONTEXT, normals, uniforms
from ..problem.design import Design, RewardDesign
from ..problem.layout import used_slots
from ..problem.problem import Problem
from .contexts import Contexts
from .random_worlds import without_design
from .world import World

ENGAGEMENT = ("out", "low", "high")
SYMPTOMS = {2: ("mild", "severe"), 3: ("none", "mild", "severe"), 4: ("none", "mild", "moderate", "severe")}
ACTIONS = ("wait", "message", "call")


class Trait(NamedTuple):
    """One of the features of a person, u in [-1, 1]: yes or no is 1 or -1, a number is cut at two standard deviations.

    Made from ageing, burden and a part of its own: lean + ageing z_1 + burden z_2 + own e, all standard normal."""

    name: str
    ageing: float
    burden: float
    binary: bool
    lean: float = 0.0  # of everybody
    rural: float = 0.0  # more in the rural part of the population


TRAITS = (
    Trait("age", 0.9, 0.0, False, rural=0.4),
    Trait("smartphone", -0.6, -0.3, True, lean=0.2, rural=-0.5),  # uses one every day
    Trait("lives_alone", 0.3, 0.3, True, lean=-0.4),
    Trait("motivation", 0.1, -0.3, False, lean=0.2),
    Trait("shift_work", -0.3, 0.2, True, lean=-0.9),
    Trait("baseline_severity", 0.2, 0.7, False),
    Trait("earlier_dropout", -0.2, 0.5, True, lean=-0.5),
    Trait("sleep", -0.2, -0.6, False),
    Trait("female", 0.0, 0.1, True, lean=0.2),
    Trait("employed", -0.4, -0.3, True, lean=0.3),
    Trait("activity", -0.5, -0.4, False),
    Trait("comorbidity", 0.5, 0.4, True, lean=-0.6),
    Trait("rural", 0.0, 0.0, True, lean=-2.5, rural=5.0),
)
FEATURES = ("intercept", *(trait.name for trait in TRAITS))
_EVERY = dict.fromkeys(FEATURES[:7], 0.0)  # the intercept and six effect modifiers, for every effect of an action

# What moves the odds of next week's state, and for whom: {feature: coefficient}, per level and per unit of u. What is
# listed are the moderators; where 0 is listed the effect is small and random.
EFFECTS: dict[str, dict[str, float]] = {
    "stay": {"intercept": 0.8},
    "change.symptoms": {"intercept": 0.9, "baseline_severity": 0.2, "sleep": -0.1},
    "state.engagement * change.symptoms": {"intercept": -1.2, "motivation": -0.1},
    "action.call * change.symptoms": _EVERY | {"intercept": -0.5, "age": -0.2, "lives_alone": -0.2},
    "change.engagement": {"intercept": -0.9, "earlier_dropout": -0.15, "motivation": 0.15},
    "state.out * rise.engagement": {"intercept": -2.0, "earlier_dropout": -0.1},
    "action.message * change.engagement": _EVERY | {"intercept": 0.4, "smartphone": 0.8, "age": -0.2},
    "action.call * change.engagement": _EVERY | {"intercept": 0.7, "age": 0.5, "lives_alone": 0.4, "shift_work": -0.2},
}
WORTH: dict[str, dict[str, float]] = {
    "1": {"intercept": 0.93, "age": 0.02},
    "state.burden": {"intercept": -0.65, "baseline_severity": -0.02, "sleep": 0.02},
    "state.out": {"intercept": -0.04},
    "action.cost": {"intercept": -0.12, "lives_alone": 0.01, "shift_work": -0.01},
}
_SMALL, _SMALL_WORTH = 0.06, 0.001  # standard deviation of small effects, largest small worth


@strict
def _fill_people(seed, first, part, traits, scale, X):
    """traits [6, d]: lean, rural, ageing, burden, own and binary, as in `Trait`; part: of the people are rural."""
    n, d = X.shape
    lean, rural, ageing, burden, own, binary = traits[0], traits[1], traits[2], traits[3], traits[4], traits[5]
    for k in range(n):
        u, _ = uniforms(seed, first + k, 0, CONTEXT)
        old, heavy = normals(seed, first + k, 1, CONTEXT)
        X[k, 0] = scale[0]
        for j in range(1, d):
            e, _ = normals(seed, first + k, 1 + j, CONTEXT)
            value = lean[j] + ageing[j] * old + burden[j] * heavy + own[j] * e
            if u < part:
                value += rural[j]
            if binary[j] > 0.0:
                value = 1.0 if value > 0.0 else -1.0
            else:
                value = min(max(0.5 * value, -1.0), 1.0)
            X[k, j] = scale[j] * value


class People(Contexts):
    """Contexts (1, u)/sqrt 2 of the programme, u in [-1, 1]^(d-1) divided by sqrt(d - 1): a mixture of two parts of a
    population, three in ten of them rural, in each of which traits go together."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        columns = np.array([(t.lean, t.rural, t.ageing, t.burden, t.binary) for t in TRAITS[: dim - 1]], float)
        lean, rural, ageing, burden, binary = np.vstack([np.zeros((1, 5)), columns.reshape(-1, 5)]).T
        self._traits = np.stack([lean, rural, ageing, burden, np.sqrt(1.0 - ageing**2 - burden**2), binary])
        self.scale = scale_of(dim)

    def fill(self, seed: int, first: int, X: Floats) -> None:
        _fill_people(seed, first, 0.3, self._traits, self.scale, X)


def scale_of(d: int) -> Floats:
    """What traits (1, u) are multiplied by to be a context of norm at most 1."""
    made = np.full(d, 1.0 / math.sqrt(2.0 * max(d - 1, 1)))
    made[0] = math.sqrt(0.5) if d > 1 else 1.0
    return made


def _coefficients(listed: dict[str, dict[str, float]], small: Floats, d: int, moderated: bool) -> Floats:
    """Theta [q, d] for contexts, from what is listed in units of u. `small` [q, 14] is taken where 0 is listed, and
    without moderators where nothing is."""
    made = np.zeros_like(small) if moderated else small.copy()
    for row, effects in enumerate(listed.values()):
        for name, value in effects.items():
            at = row, FEATURES.index(name)
            made[at] = value or small[at]
    scaled: Floats = made[:, :d] / scale_of(d)
    return scaled


def _terms(listed: dict[str, dict[str, float]], d: int, moderated: bool) -> list[str]:
    """The terms of a design, with those of their moderators that are among the first d features."""
    if not moderated:
        return list(listed)
    return [f"{term} by {', '.join(n for n in FEATURES[:d] if n in effects)}" for term, effects in listed.items()]


def _rounded(norm: float) -> float:
    """A bound for that norm: the next half."""
    return math.ceil(2.0 * norm) / 2.0


def _tables(levels: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Attributes of states, engagement by engagement, and of actions."""
    engaged = [float(e) for e in range(3) for _ in range(levels)]
    symptoms = [float(i) for _ in range(3) for i in range(levels)]
    burden = [i / (levels - 1.0) for i in symptoms]
    states = {"engagement": engaged, "symptoms": symptoms, "burden": burden, "out": [float(e == 0.0) for e in engaged]}
    return states, {"message": [0.0, 1.0, 0.0], "call": [0.0, 0.0, 1.0], "cost": [0.0, 0.1, 1.0]}


def _support(levels: int) -> NDArray[np.bool_]:
    """A week changes engagement and symptoms by one level at most; [S, A, S']."""
    step = np.abs(np.subtract.outer(np.arange(3), np.arange(3))) <= 1
    move = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels))) <= 1
    return np.repeat(np.kron(step, move)[:, None], len(ACTIONS), axis=1)


def _rule(horizon: int, levels: int) -> NDArray[np.int64]:
    """What is done today: a reminder every week, and in every fourth a call to those with symptoms above the middle;
    who has left the programme is let go."""
    rule = np.ones((horizon, 3 * levels), np.int64)
    severe = np.arange(3 * levels) % levels > (levels - 1) / 2.0
    rule[::4, severe] = 2
    rule[:, :levels] = 0
    return rule


def _departure(problem: Problem, g: np.random.Generator, people: Floats) -> Floats:
    """Slots [S, A, M, d] that no Theta of the problem's design has, in random directions. They change log-odds by 1:
    that is their root mean square over pairs, next states and people, around the mean over a pair's next states."""
    count, d = problem.layout.count, problem.context_dim
    assert problem.design is not None
    used = (np.arange(problem.layout.outcomes.shape[2]) < count[..., None])[..., None]
    made = g.standard_normal((*problem.layout.outcomes.shape, d)) / scale_of(d) / math.sqrt(d)
    made = np.where(used, made - np.take_along_axis(made, (count - 1)[..., None, None], axis=2), 0.0)
    rest = made - problem.design.nearest(made, problem.layout)[1]
    moved = rest - rest.sum(2, keepdims=True) / count[..., None, None]
    return rest / math.sqrt(float(((moved @ people.T) ** 2).mean(where=used)))


def _problem(
    horizon: int, d: int, levels: int, theta: Floats, theta_r: Floats, moderated: bool
) -> tuple[Problem, Floats]:
    """What the learner is told, but for bounds on rows; and where people begin, [S]."""
    states, actions = _tables(levels)
    names = FEATURES[:d] if moderated else None
    terms, worth = _terms(EFFECTS, d, moderated), _terms(WORTH, d, moderated)
    bound, worth_bound = (_rounded(float(np.linalg.norm(made))) for made in (theta, theta_r))
    design = Design.from_tables(terms, bound, states, actions, contexts=names)
    rewards = RewardDesign.from_tables(worth, worth_bound, states, actions, contexts=names)
    start = np.zeros(3 * levels)
    start[-2:] = 0.4, 0.6  # high engagement, the two worst levels
    return Problem(
        3 * levels, 3, horizon, d, design=design, reward_design=rewards, support=_support(levels),
        state_names=tuple(f"{e}, {s}" for e in ENGAGEMENT for s in SYMPTOMS[levels]), action_names=ACTIONS,
        feature_names=FEATURES[:d], initial_states=(3 * levels - 2, 3 * levels - 1),
    ), start  # fmt: skip


def _told(problem: Problem, slots: Floats, worth: Floats) -> Problem:
    """The problem with bounds on rows and on the reward weights of a pair, too: the truth's, rounded up."""
    last = np.take_along_axis(slots, (problem.layout.count - 1)[..., None, None], axis=2)
    rows = np.where(used_slots(problem.layout), np.linalg.norm(slots - last, axis=-1), 0.0)
    largest = float(np.linalg.norm(worth, axis=-1).max())
    return replace(problem, weight_bound=_rounded(float(rows.max())), reward_bound=_rounded(largest))


def _world(horizon: int, d: int, levels: int, dial: float, g: np.random.Generator, moderated: bool) -> World:
    """The programme, for arguments that have been checked. dial: how far the truth leaves the design."""
    small = _SMALL * g.standard_normal((len(EFFECTS), len(FEATURES)))
    little = _SMALL_WORTH * g.uniform(-1.0, 1.0, (len(WORTH), len(FEATURES)))
    theta, theta_r = _coefficients(EFFECTS, small, d, moderated), _coefficients(WORTH, little, d, moderated)
    problem, start = _problem(horizon, d, levels, theta, theta_r, moderated)
    assert problem.design is not None
    assert problem.reward_design is not None
    source, slots = People(d), problem.to_slots(problem.design.weights(theta))
    if dial > 0.0:
        people = np.empty((1000, d))
        source.fill(0, 0, people)
        slots = slots + dial * _departure(problem, g, people)
    weights, worth = problem.from_slots(slots), problem.reward_design.weights(theta_r)
    parts = weights, worth, source, start, "programme", dial > 0.0
    return World(_told(problem, slots, worth), *parts, rule=_rule(problem.horizon, levels))


def programme(
    horizon: int = 8,
    context_dim: int = 14,
    symptom_levels: int = 2,
    misspecification: float = 0.0,
    seed: int = 0,
    *,
    moderated: bool = True,
    shared: bool = True,
) -> World:
    """A programme of eight weeks: engagement (out, low, high) x symptoms; to wait, to send a message or to call.

    Symptoms get better in those who take part, and people tire of taking part. A week changes either by one level at
    most. Messages keep those who use a smartphone; calls keep the old and those who live alone, ease their symptoms,
    and cost most. Who is out seldom returns. So different people need different things, and `world.rule`, what is done
    today, treats all alike: a message every week, every fourth a call to those with severe symptoms, and nothing for
    those who are out. The best policies gain 0.45 on it, of 8, and more than 1 for one person in ten.

    context_dim       1 to 14: the intercept and the first of age, smartphone, lives_alone, motivation, ...
                      (`problem.feature_names`, effect modifiers first), correlated, some of them yes or no.
                      x = (1, u/sqrt(d - 1))/sqrt 2
    symptom_levels    2, 3 or 4, so that there are 6, 9 or 12 states
    misspecification  from 0 to 1: how far the true weights leave the design, its moderators among it. At 1 the log-odds
                      of next states differ by 1 or so, a factor of e, from the nearest ones in the design
    seed              of the small effects, and of the direction in which the design is left; the large effects stay
    moderated         False: every feature goes with all of the context, and every effect is a little different for
                      everybody. A hard bed: 8 d parameters, and 4 d for rewards
    shared            False: the same truth without designs, its bounds the smallest that are true, for agents that
                      learn every pair alone

    The design has 8 features, each with the moderators that a team would name. How people stay where they are depends
    on nothing. The course of symptoms depends on baseline_severity and sleep, what taking part does to it on
    motivation; the course of engagement on motivation and earlier_dropout, and the way back on earlier_dropout. The
    three effects of messages and calls may depend on six effect modifiers, the same for all three, since nobody knows
    which matters for which: age, smartphone, lives_alone, motivation, shift_work, baseline_severity. In the truth two
    or three matter for each, and the others little. Rewards are satisfaction: a level (age), less for symptoms
    (baseline_severity, sleep) and for being out, and less a call's cost (lives_alone, shift_work). That makes 32
    parameters, and 9 for rewards; one matrix per pair has 924, and 252. The last five features (female, employed,
    activity, comorbidity, rural) are known of everybody and matter for nothing, which who learns pairs alone is not
    told. No week is nearly certain: the likeliest next state has a chance of 0.5 for half of people and pairs, and of
    0.9 at most. Rewards are 0 or 1, with means from 0.05 to 0.95. Bounds, on Theta, on rows and on a pair's reward
    weights, are the truth's, rounded up to the next half. `world.log(people, seed)` is what the rule would have logged.
    All numbers are made up; none was chosen by what some agent makes of it.

    >>> import noregret as nr
    >>> world = nr.worlds.programme()
    >>> print(world.problem.describe().splitlines()[0])
    next states: 32 parameters in 1 block; 924 if every pair had its own
    >>> low = world.problem.state("low, severe")
    >>> for k in (1, 4, 5):  # young with a smartphone, young without one, old: what is best for them in the first week
    ...     x = world.context(seed=0, episode=k)
    ...     print(f"{x[1]:+.2f} {x[2]:+.2f}", world.problem.action_names[world.optimal(x).policy[0, low]])
    -0.13 +0.20 message
    -0.09 -0.20 wait
    +0.14 -0.20 call
    """
    d, levels = check.integer("context_dim", context_dim), check.integer("symptom_levels", symptom_levels)
    if d > len(FEATURES):
        raise ValueError(f"context_dim must be at most {len(FEATURES)}, got {d}")
    if levels not in SYMPTOMS:
        raise ValueError(f"symptom_levels must be 2, 3 or 4, got {levels}")
    dial = check.fraction("misspecification", misspecification)
    g, few = np.random.default_rng(check.integer("seed", seed, 0)), check.flag("moderated", moderated)
    world = _world(horizon, d, levels, dial, g, few)
    return world if check.flag("shared", shared) else without_design(world)
