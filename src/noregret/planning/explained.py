"""What can be asked of a plan: how good it is believed to be, and why it says what it says. To be read by a user."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..problem.problem import Problem
from ..storage.text import aligned

MOST_FEATURES = 8  # shown


@dataclass(frozen=True, eq=False)
class BelievedShortfall:
    """How far a plan is believed to fall short of optimal, from models drawn from the agent's posterior. Not proved.

    mean       of V* - V^plan over the draws, in the initial state where it is largest (or in the one asked about)
    quantile   the shortfall is believed to be at most this with probability 95%: of n draws the k-th smallest, k =
               ceil(.95 (n + 1)), likewise in the worst initial state
    draws      n
    values     [n, S], V*_0 - V^plan_0 of every draw and state
    rung       "believed"

    Certificates are proved, and worst case; this is what the same data make likely if the prior and the model are
    right (docs/live.md has how well it was calibrated).

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.CertifiedPSRL(world.problem)
    >>> agent.learn_from(world.log(300, seed=1, rule=[[0, 1, 1, 1]] * world.problem.horizon))
    300
    >>> plan = agent.begin_episode(world.context(seed=2, episode=0))
    >>> said = plan.belief(draws=99)
    >>> said.rung, bool(0.0 <= said.quantile <= plan.certificate)
    ('believed', True)
    """

    mean: float
    quantile: float
    draws: int
    values: Floats
    rung: str = "believed"

    def __str__(self) -> str:
        return (
            f"{self.rung}, not proved: {self.mean:.3g} short of optimal on average, at most {self.quantile:.3g} with "
            f"probability 95% ({self.draws:,} draws)"
        )

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Effect:
    """What one entry of the context does to a decision: its name, its value, the value it was set to, and by how much
    the advantage of the advised action over the next best fell then."""

    feature: str
    value: float
    baseline: float
    change: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a plan advises an action in one state: every action with its value, bounds and belief, and what moved it.

    state, step   where; action: the advice. All arrays are by action, [A], nan where one is not available (best: 0)
    value         of taking the action now and following the plan after that: the mean over posterior draws, or the
                  value in the fitted model where the agent keeps no posterior
    deviation     the standard deviation of the same over the draws; None without a posterior. Believed
    best          the probability that the action is the best one, going on optimally: the share of draws. Believed
    lower, upper  proved bounds on that same value, with the agent's probability; None where it certifies nothing
    effects       of each entry of the context: in the fitted model let the advantage be Q(advised action) less the
                  largest Q of the others, going on optimally. The change is the advantage as it is, less the advantage
                  for somebody with that entry at its baseline and all others as they are. Changes need not add up
    advantage     that advantage; against: the other action
    draws         how many models were drawn, 0: none

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.CertifiedPSRL(world.problem)
    >>> agent.learn_from(world.log(2000, seed=1, explore=1.0, rule=[[0, 1, 1, 1]] * world.problem.horizon))
    2000
    >>> plan = agent.begin_episode(world.context(seed=2, episode=0))
    >>> why = plan.why("severe")
    >>> names = world.problem.action_names
    >>> names[why.action], names[int(why.best.argmax())]
    ('drug B', 'drug B')
    >>> print("\\n".join(str(why).splitlines()[:2]))
    step 0, state severe: drug B
    action    value         best  proved
    """

    state: int
    step: int
    action: int
    value: Floats
    deviation: Floats | None
    best: Floats | None
    lower: Floats | None
    upper: Floats | None
    effects: tuple[Effect, ...]
    advantage: float
    against: int | None
    draws: int
    problem: Problem

    def _name(self, a: int) -> str:
        names = self.problem.action_names
        return names[a] if names else f"action {a}"

    def table(self) -> list[dict[str, Any]]:
        """A row per available action: action, advised, value, deviation, best, lower, upper; None where unknown."""

        def at(values: Floats | None, a: int) -> float | None:
            return None if values is None else float(values[a])

        return [
            {
                "action": self._name(a), "advised": a == self.action, "value": float(self.value[a]),
                "deviation": at(self.deviation, a), "best": at(self.best, a), "lower": at(self.lower, a),
                "upper": at(self.upper, a),
            }
            for a in np.flatnonzero(~np.isnan(self.value)).tolist()
        ]  # fmt: skip

    def __str__(self) -> str:
        p = self.problem
        state = p.state_names[self.state] if p.state_names else f"state {self.state}"
        rows = [["action", "value", "best", "proved"]]
        for row in sorted(self.table(), key=lambda row: (not row["advised"], -row["value"])):
            spread = "" if row["deviation"] is None else f" +- {row['deviation']:.2f}"
            best = "?" if row["best"] is None else f"{row['best']:.0%}"
            proved = "nothing" if row["lower"] is None else f"{row['lower']:.2f} to {row['upper']:.2f}"
            rows.append(
                [f"{'*' if row['advised'] else ' '} {row['action']}", f"{row['value']:.2f}{spread}", best, proved]
            )
        where = f"state {state}" if p.state_names else state
        said = [f"step {self.step}, {where}: {self._name(self.action)}", aligned(rows), self._rungs()]
        if self.against is not None:
            where = "ahead of" if self.advantage >= 0.0 else "behind"
            ahead = f"in the fitted model {where} {self._name(self.against)} by {abs(self.advantage):.2f}"
            said.append(f"{ahead}; for the advice (+) or against it (-), beside {_baseline(self.effects)}:")
            order = sorted(self.effects, key=lambda e: -abs(e.change))
            lines = [[f"  {e.feature} = {e.value:.3g}", f"{e.change:+.2f}"] for e in order[:MOST_FEATURES]]
            said += [aligned(lines)] if lines else []
            said += [f"  and {len(order) - MOST_FEATURES} others"] if len(order) > MOST_FEATURES else []
        return "\n".join(said)

    __repr__ = __str__

    def _rungs(self) -> str:
        if self.draws:
            return f"value: now this, then the plan; +- and best are believed ({self.draws:,} draws), not proved"
        return "value: now this, then the plan, in the fitted model; the agent keeps no posterior"


def _baseline(effects: tuple[Effect, ...]) -> str:
    zero = all(e.baseline == 0.0 for e in effects)
    return f"the same person with that entry {'0' if zero else 'at its baseline'}"


def model_values(problem: Problem, P: Floats, r: Floats, met: NDArray[np.bool_]) -> Floats:
    """Optimal Q [H, S, A] in a model P [S, A, S'], r [S, A] in the problem's units; -inf where met [S, A] is False."""
    H = problem.horizon
    Q, V = np.zeros((H, *r.shape)), np.zeros(problem.n_states)
    for h in range(H - 1, -1, -1):
        Q[h] = np.where(met, r + P @ V, -np.inf)
        V = Q[h].max(1)
    return Q


def values_after(problem: Problem, P: Floats, r: Floats, policy: NDArray[Any], h: int, s: int) -> Floats:
    """[A]: an action in state s at step h, and the policy [H, S] after that, in such a model."""
    V, states = np.zeros(problem.n_states), np.arange(problem.n_states)
    for later in range(problem.horizon - 1, h, -1):
        V = r[states, policy[later]] + P[states, policy[later]] @ V
    return np.asarray(r[s] + P[s] @ V)
