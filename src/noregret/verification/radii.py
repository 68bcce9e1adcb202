"""How large the sets are: printed against corrected, and what knowing that few features matter buys."""

import numpy as np

from ..checks import Floats
from ..estimators import Conversion, OnlineNewton
from ..estimators.single import OnePair
from ..problem.links import LinearCombination, MultinomialLogit
from ..worlds import group_norm, sparse_logit
from .coverage import draw_outcome, draw_truth, next_context
from .table import Row


def radius_rows(model: str, wanted: float, steps: int, m: int = 5, d: int = 4, runs: int = 20) -> list[Row]:
    """Printed and corrected estimators on the same data, delta = 0.05, B_p R = 1, random contexts; ratios of

        radius / kappa     the squared radius in the norm of sum x x', which both share (gamma alone is not comparable)
        squared width      gamma ||x||^2_{Z^{-1}}, mean over 50 new contexts
        distance/radius    the corrected set's largest squared distance / radius over the printed one's

    measured: the smallest ratio of any run (the last one: of the maxima over runs); looseness: the ratio of means."""
    link = LinearCombination() if model == "linear" else MultinomialLogit()
    simplex, bound = model == "linear", None if model == "linear" else 1.0
    scaled, squared, filled, plain = np.zeros((4, runs, 2))
    for run in range(runs):
        g = np.random.default_rng([run, m, d])
        W = draw_truth(model, m, d, 1.0, g)
        paper = OnlineNewton(link, m, d, bound, constants="paper")
        pair = paper, OnlineNewton(link, m, d, bound)
        for t in range(steps):
            x = next_context("random", simplex, paper, t, d, g)
            y = int(draw_outcome(model, W @ x, g))
            for i, est in enumerate(pair):
                est.update(x, y)
                if t % 20 == 19:
                    error = est.weights - (W - W.mean(0) if model == "logit" and i == 1 else W)
                    filled[run, i] = max(filled[run, i], np.sum((error @ est.gram) * error) / est.radius)
        probes = [next_context("random", simplex, paper, 0, d, g) for _ in range(50)]
        for i, est in enumerate(pair):
            plain[run, i], scaled[run, i] = est.radius, est.radius / est._par.kappa[0, 0]
            squared[run, i] = np.mean([est.radius * (x @ est.inverse @ x) for x in probes])
    setting, top = f"{model}, S={m} d={d}, {steps} samples", filled.max(0)
    return [
        _ratio_row("radius / kappa", setting, wanted, scaled),
        _ratio_row("squared width", setting, wanted, squared),
        _ratio_row("looseness", setting, wanted, 1.0 / top[None], "in distance^2/radius"),
        _ratio_row("gamma", setting, wanted, plain, "in different norms", advertised=False),
    ]


def _ratio_row(what: str, setting: str, wanted: float, values: Floats, note: str = "", advertised: bool = True) -> Row:
    """values [n, 2]: printed and corrected."""
    ratio, (old, new) = float((values[:, 0] / values[:, 1]).min()), values.mean(0)
    note = f"{old:.4g} and {new:.4g}" + (f", {note}" if note else "")
    nan = float("nan")
    return Row("radii", what, setting, wanted, ratio, nan, float(old / new), advertised, ratio >= wanted, note)


def sparsity_rows(steps: int, context_dim: int = 32, relevant: int = 2, seeds: int = 5) -> list[Row]:
    """One pair of `worlds.sparse_logit` (S = 3, B_p R = 2), delta = 0.05, default lambda: the set from the sparse
    learner, told the group norm of the weights, beside that from the online Newton step as a learner and Theorem A's.

    Squared widths w^2 = gamma ||x||^2_{Z^{-1}} at 50 new contexts, and the regret bounds B_t."""
    width, regret = np.zeros((seeds, 3)), np.zeros((seeds, 2))
    for seed in range(seeds):
        world = sparse_logit(context_dim=context_dim, relevant=relevant, seed=seed)
        p, W = world.problem, world.weights[0, 0]
        group = group_norm(world.weights[:1, :1])
        head = p.link, p.n_states, context_dim, p.weight_bound
        sparse, ons = (Conversion(*head, learner=name, group_bound=b) for name, b in (("sparse", group), ("ons", None)))
        three: tuple[OnePair, ...] = sparse, ons, OnlineNewton(*head)
        X, g = np.empty((steps + 50, context_dim)), np.random.default_rng(seed)
        world.contexts.fill(seed, 0, X)
        for x in X[:steps]:
            y = int(draw_outcome("logit", W @ x, g))
            for est in three:
                est.update(x, y)
        for i, est in enumerate(three):
            width[seed, i] = np.mean([est.radius * (x @ est.inverse @ x) for x in X[steps:]])
        regret[seed] = ons.regret_bound, sparse.regret_bound
    setting = f"d={context_dim} p={relevant}, {steps:,} samples"
    return [
        _ratio_row("B_t, ons / sparse learner", setting, 1.0, regret),
        _ratio_row("width^2, ons / sparse", setting, 1.0, width[:, [1, 0]]),
        _ratio_row("width^2, Thm A / sparse", setting, 1.0, width[:, [2, 0]], advertised=False),
    ]
