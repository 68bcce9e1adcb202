"""`check_model`: does what was seen agree with the model that is declared?"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..agents.base import Agent
from ..agents.refutation import parts_behind
from ..checks import Floats
from ..estimators.audit import KINDS, AuditState, mixed, reward_logs, transition_logs
from ..estimators.store import Store
from ..problem.log import Log, LoggedEpisode
from ..problem.problem import Problem
from ..storage.text import aligned
from .audited import Look, go_through

GREEN, YELLOW, RED = "green", "yellow", "red"
NORMAL = 1.96  # standard errors of a 95% interval
ABOUT = {
    "design": "that pairs share weights as the design says",
    "link": "that logits are linear in contexts",
    "drift": "that the model stays the same as people come",
    "time": "that the model is the same at every step",
    "bound": "the bound on transition weights",
    "rewards": "the model of mean rewards",
}


class Alarm(NamedTuple):
    """The evidence against one part of the model. log_e: the natural logarithm of an e-value, what somebody who bet
    against it with a stake of 1 has won; people: after how many it was highest."""

    kind: str
    level: str  # green, yellow or red
    log_e: float
    people: int
    sentence: str


class Worth(NamedTuple):
    """What contexts are worth for prediction, against a table of next states by pair without them. Losses are mean
    -ln p of a next state, predicted before it was seen; gain is what the model saves per individual."""

    model: float
    table: float
    gain: float
    low: float  # 95% interval of the gain
    high: float
    rung: str  # asymptotic
    log_e: float  # evidence that contexts matter at all: proved, ln of an e-value
    sentence: str


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """What `check_model` found; `print` it, `table` has the calibration, `noregret.report.check_figure` draws it.

    level     green, yellow or red: the worst of all alarms
    alarms    one per part of the model: kind, level, log_e, people, sentence
    looks     (people, {kind: log_e}) along the way
    worth     what contexts are worth for prediction, against a table without them
    visits    [S, A]; seen, expected [S, A, M]: next states by pair and slot (`problem.layout`)
    deciles   [10, 3]: mean prediction, share seen and number, by tenth of the predicted probability of a next state
    reward_deciles   likewise, by tenth of the predicted mean reward, in units of the range of rewards

    >>> import noregret as nr
    >>> found = nr.check_model(nr.worlds.programme(context_dim=3).log(200, seed=1))
    >>> found.level, found["drift"].level, found.likeliest
    ('green', 'green', None)
    >>> row = found.table()[0]
    >>> row["state"], row["action"], row["next_state"], row["visits"] >= row["seen"]
    ('out, mild', 'wait', 'out, mild', True)
    """

    problem: Problem
    people: int
    steps: int
    delta: float
    source: str
    alarms: tuple[Alarm, ...]
    looks: tuple[Look, ...]
    worth: Worth
    visits: NDArray[np.int64]
    seen: Floats
    expected: Floats
    deciles: Floats
    reward_deciles: Floats

    @property
    def level(self) -> str:
        return max((a.level for a in self.alarms), key=(GREEN, YELLOW, RED).index, default=GREEN)

    @property
    def likeliest(self) -> str | None:
        """The kind of the highest e-value, where there is an alarm: what explains most. Every e-value is evidence
        against the whole of the model, and what a design leaves out may be learned by bets on drift, too."""
        return max(self.alarms, key=lambda a: a.log_e).kind if self.level != GREEN else None

    def __getitem__(self, kind: str) -> Alarm:
        """The alarm of a kind: check["drift"]."""
        for alarm in self.alarms:
            if alarm.kind == kind:
                return alarm
        raise KeyError(f"kind must be one of {', '.join(a.kind for a in self.alarms)}, got {kind!r}")

    def table(self) -> list[dict[str, Any]]:
        """A row per pair and next state that was possible: state, action, next_state, visits, expected, seen, and z,
        their difference in standard deviations of a binomial. For a data frame."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        p = self.problem
        for s, a in np.argwhere(p.layout.available):
            n, visits = int(p.layout.count[s, a]), int(self.visits[s, a])
            for j in range(n):
                expected, seen = float(self.expected[s, a, j]), float(self.seen[s, a, j])
                spread = math.sqrt(expected * max(1.0 - expected / visits, 0.0)) if visits else 0.0
                after = int(p.layout.outcomes[s, a, j])
                yield {
                    "state": p.state_names[s] if p.state_names else int(s),
                    "action": p.action_names[a] if p.action_names else int(a),
                    "next_state": p.state_names[after] if p.state_names else after, "visits": visits,
                    "expected": expected, "seen": seen, "z": (seen - expected) / spread if spread > 1e-9 else 0.0,
                }  # fmt: skip

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("model", "level", "ln e", "after")]
        rows += [(a.kind, a.level, f"{a.log_e:.1f}", f"{a.people:,}") for a in self.alarms]
        loud = sorted((a for a in self.alarms if a.level != GREEN), key=lambda a: -a.log_e)
        said = [a.sentence for a in loud[:1]]
        said += [f"less, and perhaps of the same cause: {', '.join(a.kind for a in loud[1:])}"] if loud[1:] else []
        far = sorted(self._rows(), key=lambda row: -abs(row["z"]))[:3]
        shown = ", ".join(
            f"{r['state']} / {r['action']} -> {r['next_state']} {r['seen']:.0f} seen, {r['expected']:.0f} expected"
            for r in far if r["visits"]
        )  # fmt: skip
        pairs, met = int(self.problem.layout.available.sum()), int((self.visits > 0).sum())
        return "\n".join([
            f"{self.level}: {self.people:,} people, {self.steps:,} steps, {self.source}", aligned(rows), *said,
            self.worth.sentence, f"pairs visited: {met} of {pairs}; farthest from what was expected: {shown or 'none'}",
        ])  # fmt: skip


def check_model(source: Any, delta: float = 0.05) -> ModelCheck:
    """Whether what was seen agrees with the model that is declared: link, bound, design, no drift, rewards.

    source   a `Log`, or an agent. One that stores its steps (sets="stored") is checked by all of them, as a log is; one
             with online sets by the bets that it made while it learned, which cost a wider set (docs/evidence-model.md)
    delta    red where the evidence is such that a right model shows it, ever, in any kind, with probability at most
             delta; yellow where it would be red if no other kind were asked about

    Evidence is an e-value: what somebody has won who bet, with a stake of 1, on predictions of a richer model, against
    the best that the declared one could have said with any weights. Looking again and again is allowed. It needs what
    the confidence sets need of a log: the order of arrival, and actions chosen by what the log says.

    >>> import noregret as nr
    >>> world = nr.worlds.programme(context_dim=3)
    >>> print(nr.check_model(world.log(400, seed=1)).level)
    green
    >>> wrong = nr.worlds.programme(context_dim=3, misspecification=0.6)  # pairs do not share what the design says
    >>> found = nr.check_model(wrong.log(400, seed=1))
    >>> found.level, found["design"].level, found["rewards"].level
    ('red', 'red', 'green')
    """
    delta = check.positive("delta", delta, below=1.0)
    if isinstance(source, Log):
        return _checked(source, delta, "a log")
    if not isinstance(source, Agent):
        raise ValueError(f"source must be a noregret.Log or an agent, got {check.shown(source)}")
    with source.lock.held:
        for part in parts_behind(source):
            store = getattr(part.state, "store", None)
            if isinstance(store, Store) and store.contexts.shape[0]:
                return _checked(stored_log(part.problem, store), delta, "the steps it stores")
            if getattr(part, "certifies", False) and part.state.audit.seen.shape[0]:
                return _from_bets(part, delta)
    raise ValueError(
        f"source must be a noregret.Log, or an agent with sets of logit weights or stored steps, got {source.name}"
    )


def stored_log(problem: Problem, store: Store) -> Log:
    """What an agent has stored."""
    p, (N, H) = problem, store.outcomes.shape
    pairs = np.full(N * H, -1, np.int64)
    for s, a in np.ndindex(*store.last.shape):
        at = int(store.last[s, a])
        while at >= 0:
            pairs[at] = s * p.n_actions + a
            at = int(store.previous.ravel()[at])
    pairs = pairs.reshape(N, H)
    made: list[LoggedEpisode] = []
    for k in range(N):
        n = int((pairs[k] >= 0).sum())
        if n:
            s, a = np.divmod(pairs[k, :n], p.n_actions)
            after = p.layout.outcomes[s, a, store.outcomes[k, :n]]
            seen = np.where(store.rewards[k, :n] < 0.0, np.nan, store.rewards[k, :n])
            came, rewards = np.append(s, after[-1]), p.scale.low + p.scale.unit * seen
            made.append(LoggedEpisode(k, store.contexts[k].copy(), came, a, rewards, np.full(n, np.nan)))
    return Log(p, tuple(made))


def _checked(log: Log, delta: float, source: str) -> ModelCheck:
    log = replace(log, episodes=tuple(e for e in log if len(e.actions)))
    if not len(log):
        raise ValueError("source must have at least one step")
    looks, made = go_through(log)
    return _made(log.problem, tuple(looks), made.state.audit, delta, source)


def _from_bets(part: Any, delta: float) -> ModelCheck:
    """What an agent with online sets knows without its steps."""
    audit, state, kinds = part.state.audit, part.state, part.par.audit.kind
    if audit.seen.sum() == 0:
        raise ValueError("source must have at least one step")
    logs = transition_logs(state.transitions, audit, part.par.log_transition)
    made = {KINDS[int(kind)]: mixed(logs[:, kinds == kind]) for kind in np.unique(kinds)}
    if part.par.audit.rewards:
        made["rewards"] = mixed(reward_logs(part.par.rewards, state.rewards, audit))
    look = Look(int(audit.worth[0]), made)
    return _made(part.problem, (look,), audit, delta, "bets along the way")


def _made(problem: Problem, looks: tuple[Look, ...], audit: AuditState, delta: float, source: str) -> ModelCheck:
    alarms = tuple(_alarm(kind, looks, delta) for kind in looks[-1].logs)
    visits = audit.seen.sum(2).astype(np.int64)
    bins = audit.bins.copy()
    bins[:, :, :2] /= np.maximum(bins[:, :, 2:], 1.0)
    return ModelCheck(
        problem, looks[-1].people, int(visits.sum()), delta, source, alarms, looks, _worth(audit, problem), visits,
        audit.seen.copy(), audit.expected.copy(), bins[0], bins[1],
    )  # fmt: skip


def _alarm(kind: str, looks: tuple[Look, ...], delta: float) -> Alarm:
    """By the highest e-value of all looks: it is as rare as a high one at any of them."""
    best = max(looks, key=lambda look: look.logs[kind])
    best = best if best.logs[kind] > 0.0 else looks[-1]
    log_e, kinds = best.logs[kind], len(best.logs)
    level = RED if log_e >= math.log(kinds / delta) else YELLOW if log_e >= math.log(1.0 / delta) else GREEN
    about = ABOUT[kind]
    if level == GREEN:
        said = f"{kind}: nothing speaks against {about}"
    else:
        odds = f"{math.exp(min(log_e, 30.0)):,.0f}" if log_e < 16.0 else f"1e{log_e / math.log(10.0):.0f}"
        said = f"{kind}: the data speak against {about}; somebody who bet on that has {odds} times the stake"
        said += f" after {best.people:,} people"
    return Alarm(kind, level, log_e, best.people, said)


def _worth(audit: AuditState, problem: Problem) -> Worth:
    people, total, squares, model, table = (float(v) for v in audit.worth)
    steps = max(float(audit.seen[problem.layout.count > 1].sum()), 1.0)
    mean = total / people
    error = math.sqrt(max(squares / people - mean**2, 0.0) / max(people - 1.0, 1.0))
    visits = audit.seen.sum(2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = float(np.where(audit.seen > 0.0, audit.seen * np.log(audit.seen / visits), 0.0).sum())
    low, high, log_e = mean - NORMAL * error, mean + NORMAL * error, -model - best
    verdict = "contexts help" if low > 0.0 else "a table without contexts predicts better" if high < 0.0 else "unclear"
    said = (
        f"contexts save {mean:.3g} nats a person against a table without them ({low:.3g} to {high:.3g}, 95%, "
        f"asymptotic): {verdict}"
    )
    return Worth(model / steps, table / steps, mean, low, high, "asymptotic", log_e, said)
