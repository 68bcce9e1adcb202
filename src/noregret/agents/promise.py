"""What an agent promises, as one sentence: what is assumed, what then holds, and under which conditions."""

import math
from collections.abc import Iterable

from ..checks import Floats
from ..problem.links import LinearCombination, MultinomialLogit
from ..problem.problem import Problem

ALWAYS = "in every episode and for any contexts within the bounds"
OPTIMISM = "plan.upper is at least the optimal value"


def sentence(assumed: Iterable[str], promise: str, caveats: Iterable[str] = ()) -> str:
    """ "if <assumed>, then <promise>; provided that <caveats>"; what is empty is left out."""
    given, provided = list(assumed), "".join(f"; provided that {said}" for said in caveats)
    if not given:
        return f"{promise}{provided}"
    listed = ", ".join(given[:-1]) + (" and " if len(given) > 1 else "") + given[-1]
    return f"if {listed}, then {promise}{provided}"


def _designed(what: str, bound: Floats) -> str:
    low, high = float(bound.min()), float(bound.max())
    said = f"{high:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    return f"the design of {what} holds with weights of norm at most {said} per block"


def transitions_assumed(problem: Problem, shared: bool = False) -> tuple[str, ...]:
    """What an agent takes for granted about next states. Rows of probabilities are short without an assumption.
    shared: the agent uses the problem's design."""
    link, bound = problem.link, problem.weight_bound
    if shared and problem.design is not None:
        return (_designed("transitions", problem.design.bound),)
    linear = isinstance(link, LinearCombination)
    model = "logit" if isinstance(link, MultinomialLogit) else "linear" if linear else link.name
    said = f"the {model} model of transitions holds"
    if linear and bound >= math.sqrt(problem.context_dim):
        return (said,)
    return f"every row of transition weights has norm at most {bound:.4g}", said


def rewards_assumed(problem: Problem, shared: bool = False) -> tuple[str, ...]:
    """Likewise about mean rewards."""
    if shared and problem.reward_design is not None:
        return (_designed("mean rewards", problem.reward_design.bound),)
    if problem.known_rewards is not None:
        return ("mean rewards are as told",)
    kind = "logistic" if problem.rewards == "logistic" else "linear"
    return (f"mean rewards are {kind} with weights of norm at most {problem.reward_bound:.4g}",)
