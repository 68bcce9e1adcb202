"""What is believed of one individual, as people read it: probabilities of next states and mean rewards, by names."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..checks import Floats
from ..problem.problem import Problem
from ..storage.text import aligned, shortened

MOST_ROWS, MOST_STATES = 12, 4  # shown of a model
SAYS = {
    "believed": "+- is one standard deviation of the posterior: believed, not proved",
    "proved": "+- is at most how far the truth is, with the agent's probability: proved where its assumptions hold",
}


def means_at(problem: Problem, theta: Floats, x: Floats) -> Floats:
    """Mean rewards [S, A] from weights [S, A, d] in the problem's units, moved into its range."""
    z = theta @ x
    if problem.rewards == "logistic":
        return np.asarray(1.0 / (1.0 + np.exp(-z)))
    return np.asarray(np.clip(z, problem.scale.low, problem.scale.high))


def entry_widths(P: Floats, width: Floats) -> Floats:
    """A width [S, A] of every entry of P [S, A, S'], where it says more than that probabilities are in [0, 1]."""
    return np.asarray(np.minimum(width[..., None], np.maximum(P, 1.0 - P)))


@dataclass(frozen=True, repr=False, eq=False)
class IndividualModel:
    """A model of one individual: what an agent believes follows each action in each state, and how sure it is.

    P             [S, A, S'], probabilities of all next states, 0 outside the support
    r             [S, A], mean rewards in the problem's own units
    P_deviation   [S, A, S'] and r_deviation [S, A]: standard deviations of a normal posterior, of P to first order, of
                  r before it is cut to the range of rewards; believed. None for agents that keep no posterior
    P_width       [S, A, S'] and r_width [S, A]: at most how far each number is from the truth, with the agent's
                  probability, for all pairs, people and times at once; proved. None for agents without confidence
                  sets, and where an assumption was refuted
    weights       [S, A, M, d] and reward_weights [S, A, d], what P and r came from (None where there are no such
                  weights): slots of next states as `problem.layout` has them. P is the link of weights x, moved to
                  what the problem's bounds allow where the agent does so; r is reward_weights x (the logistic function
                  of it), moved into the range of rewards
    problem       whose names and units these are

    Pairs whose action is not available mean nothing. `table` has a row per pair, for a data frame.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.PSRLGLM(world.problem)
    >>> agent.learn_from(world.log(200, seed=1, rule=[[0, 1, 1, 1]] * world.problem.horizon))
    200
    >>> model = agent.model(world.context(seed=2, episode=0))
    >>> model.P.shape, model.r.shape, model.rung
    ((4, 3, 4), (4, 3), 'believed')
    >>> row = model.table()[0]
    >>> row["state"], row["action"], round(row["to mild"], 2)
    ('remission', 'wait', 0.36)
    >>> print("\\n".join(str(model).splitlines()[:3]))
    state      action  reward        next states
    remission  wait    1.00 +- 0.03  remission 0.64 +- 0.13, mild 0.36 +- 0.13
    mild       wait    0.70 +- 0.18  moderate 0.70 +- 0.17, remission 0.30 +- 0.17
    """

    P: Floats
    r: Floats
    P_deviation: Floats | None = None
    r_deviation: Floats | None = None
    P_width: Floats | None = None
    r_width: Floats | None = None
    weights: Floats | None = field(default=None, repr=False)
    reward_weights: Floats | None = field(default=None, repr=False)
    problem: Problem | None = None

    @property
    def rung(self) -> str | None:
        """Of the uncertainty that is shown: "believed" where there is a posterior, else "proved" where there are sets,
        else None."""
        return "believed" if self.P_deviation is not None else "proved" if self.P_width is not None else None

    def _shown(self) -> tuple[Floats | None, Floats | None]:
        return (self.P_deviation, self.r_deviation) if self.P_deviation is not None else (self.P_width, self.r_width)

    def _names(self) -> tuple[Any, Any]:
        p, (S, A) = self.problem, self.r.shape
        states = p.state_names if p is not None and p.state_names else range(S)
        actions = p.action_names if p is not None and p.action_names else range(A)
        return states, actions

    def _pairs(self) -> list[tuple[int, int]]:
        met = np.ones(self.r.shape, bool) if self.problem is None else self.problem.layout.available
        return [(int(s), int(a)) for s, a in np.argwhere(met)]

    def table(self) -> list[dict[str, Any]]:
        """A row per pair whose action is available: state, action, reward with reward_deviation and reward_width, and
        for every next state `to NAME`, `to NAME deviation`, `to NAME width`; columns that there are."""
        (states, actions), rows = self._names(), []
        more = [("deviation", self.P_deviation, self.r_deviation), ("width", self.P_width, self.r_width)]
        for s, a in self._pairs():
            row = {"state": states[s], "action": actions[a], "reward": float(self.r[s, a])}
            row |= {f"reward_{name}": float(r[s, a]) for name, _, r in more if r is not None}
            for j, after in enumerate(states):
                row[f"to {after}"] = float(self.P[s, a, j])
                row |= {f"to {after} {name}": float(P[s, a, j]) for name, P, _ in more if P is not None}
            rows.append(row)
        return rows

    def __str__(self) -> str:
        """A row per pair, its likeliest next states first; the middle of a large model is left out."""
        (states, actions), (P, r), pairs = self._names(), self._shown(), self._pairs()
        states = [f"state {s}" for s in states] if isinstance(states, range) else states
        actions = [f"action {a}" for a in actions] if isinstance(actions, range) else actions

        def number(value: float, unsure: float | None) -> str:
            return f"{value:.2f}" if unsure is None else f"{value:.2f} +- {unsure:.2f}"

        rows = [["state", "action", "reward", "next states"]]
        for i in shortened(range(len(pairs)), MOST_ROWS):
            if i is None:
                rows.append(["..."] * 4)
                continue
            s, a = pairs[i]
            order = [int(j) for j in np.argsort(-self.P[s, a], kind="stable") if self.P[s, a, j] > 0.0]
            said = [f"{states[j]} {number(self.P[s, a, j], None if P is None else P[s, a, j])}" for j in order]
            rest = [f"{len(said) - MOST_STATES} others {self.P[s, a, order[MOST_STATES:]].sum():.2f}"]
            said = said if len(said) <= MOST_STATES + 1 else said[:MOST_STATES] + rest
            reward = number(self.r[s, a], None if r is None else r[s, a])
            rows.append([str(states[s]), str(actions[a]), reward, ", ".join(said)])
        said = [aligned(rows)]
        said += [f"[{len(pairs)} pairs]"] if len(pairs) > MOST_ROWS else []
        return "\n".join(said if self.rung is None else [*said, SAYS[self.rung]])

    __repr__ = __str__
