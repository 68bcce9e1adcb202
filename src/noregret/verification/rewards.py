"""Do the ranges of mean rewards contain the truth as often as they claim, at all times and contexts together?

A run feeds one `RewardSet` with rewards of a random truth and looks after every observation at the mean of the context
just seen and of a panel of others. It fails if one of them is ever outside its range. Delta is 0.3: see
`verification.coverage`. Contexts are in the simplex: random, always one, indicators in turn, or (worst) the member of
the panel whose range is widest; theta is uniform, near the ends of [0, 1], or on them. Rewards are 0 or 1, or
beta-distributed; logistic ones 0 or 1 with any contexts of length 1.
"""

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..estimators import RewardSet
from .coverage import DELTA, Coverage

CONTEXTS = ("random", "one", "cycle", "worst")
LAWS = ("bernoulli", "beta")


def reward_coverage(
    form: str,
    contexts: str,
    law: str = "bernoulli",
    runs: int = 500,
    steps: int = 300,
    d: int = 2,
    delta: float = DELTA,
) -> Coverage:
    """`runs` independent runs of `steps` rewards. Seeds are the numbers of the runs. The ratios are each run's largest
    |mean - middle| / half-width; above 1 it was outside."""
    check.one_of("contexts", contexts, CONTEXTS)
    check.one_of("law", law, LAWS)
    ratios = np.array([_run(form, contexts, law, run, steps, d, delta) for run in range(runs)])
    return Coverage(f"reward range, {form}", contexts, True, delta, ratios)


def _run(form: str, contexts: str, law: str, run: int, steps: int, d: int, delta: float) -> float:
    g = np.random.default_rng([run, d, CONTEXTS.index(contexts), LAWS.index(law)])
    logistic = form == "logistic"
    if logistic:
        theta = g.standard_normal(d)
        theta *= 2.0 / np.linalg.norm(theta)
        bound, others = 2.0, g.standard_normal((4, d))
        others /= np.linalg.norm(others, axis=1, keepdims=True)
    else:
        theta = [g.random(d), 0.1 * g.random(d), np.round(g.random(d))][run % 3]
        bound, others = np.sqrt(d), g.dirichlet(np.ones(d), 4)
    panel = np.concatenate((np.eye(d), others))
    means = _means(panel, theta, logistic)
    est = RewardSet(d, bound, delta=delta, form=form)  # type: ignore[arg-type]
    ranges = np.array([est.interval(x) for x in panel])
    worst = 0.0
    for t in range(steps):
        if contexts == "random":
            x = g.dirichlet(np.ones(d))
        elif contexts == "worst":
            x = panel[np.argmax(ranges[:, 1] - ranges[:, 0])]
        else:
            x = panel[0 if contexts == "one" else t % d]
        mean = float(_means(x, theta, logistic))
        if law == "beta" and 0.0 < mean < 1.0 and not logistic:
            reward = float(g.beta(2.0 * mean, 2.0 * (1.0 - mean)))
        else:
            reward = float(g.random() < mean)
        est.update(x, reward)
        seen = np.concatenate((panel, x[None]))
        ranges = np.array([est.interval(y) for y in seen])
        middle, half = ranges.mean(1), 0.5 * (ranges[:, 1] - ranges[:, 0]) + 1e-9
        worst = max(worst, float((np.abs(np.append(means, mean) - middle) / half).max()))
        ranges = ranges[:-1]
    return worst


def _means(x: Floats, theta: Floats, logistic: bool) -> Floats:
    z = x @ theta
    return np.asarray(1.0 / (1.0 + np.exp(-z)) if logistic else z)
