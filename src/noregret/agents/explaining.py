"""What a plan is asked about after it was made: the agent's answers, as long as it has not learned since.

A plan keeps a reference to the agent, the context, and how often the agent had learned; nothing is computed or copied
until somebody asks. An agent that has learned since no longer knows what the plan rested on, and says so."""

from dataclasses import replace
from typing import Any

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..compiler.announcements import announced
from ..compiler.jit import direct
from ..compiler.memory import apart
from ..planning.explained import BelievedShortfall, Effect, Explanation, model_values, values_after
from ..planning.plans import Plan
from ..problem.links import LinearCombination
from ..problem.masks import relaid
from ..problem.problem import Problem
from .local.belief import Answers, Question, ask_draws, quantile_place, room_for_draws
from .locks import Lock, locked
from .probabilities import MOST_DRAWS, check_draws

LEAST = 19  # draws: of fewer the 95% quantile is none of them


def _gone() -> None:
    """In the place of an explainer whose plan was copied or sent elsewhere."""


class Explainer:
    """What a plan asks. Copies of a plan have none."""

    __slots__ = ("agent", "changes", "episode", "mask", "x")

    def __init__(self, agent: Any, x: Floats) -> None:
        self.agent, self.x = agent, x
        self.changes, self.episode = agent.changes, agent.episode
        self.mask = agent.mask.copy()

    def __reduce__(self) -> Any:
        return _gone, ()

    @property
    def lock(self) -> Lock:
        made: Lock = self.agent.lock
        return made

    def _fresh(self, verb: str) -> Any:
        if self.agent.changes != self.changes:
            raise RuntimeError(
                f"{verb}: the agent has learned since this plan was made, what it rested on is gone; ask before that"
            )
        return self.agent

    @locked
    def belief(self, plan: Plan, draws: Any, state: Any) -> BelievedShortfall:
        """`Plan.belief`."""
        agent, n = self._fresh("belief"), check_draws(draws, LEAST)
        p: Problem = agent.problem
        starts = p.starts if state is None else [p.started(state)]
        if agent.believer() is None:
            raise ValueError(f"belief: {agent.name} keeps no posterior to draw from")
        short = self._drawn(plan, n, 0, int(starts[0]))[0] * p.scale.unit
        place = quantile_place(n)
        top = np.sort(short[:, starts], axis=0)[place - 1]
        return BelievedShortfall(float(short[:, starts].mean(0).max()), max(float(top.max()), 0.0), n, short)

    def _drawn(self, plan: Plan, n: int, h: int, s: int) -> Answers:
        """What `ask_draws` finds in n draws, rewards in [0, 1]."""
        agent, p = self.agent.believer(), plan.problem
        assert p is not None
        check.memory(f"draws = {n}", 8.0 * n * (p.n_states + 2 * p.n_actions))
        agent.prepare_doubt()
        plans = np.ascontiguousarray(plan.policy[None] if plan.plans is None else plan.plans)
        answers: Answers = apart(room_for_draws(n, p.n_states, p.n_actions))
        x, plans = apart((self.x, plans))
        question = Question(plans, float(plan.floor), h, s)
        par = relaid(agent.par, apart(self.mask.copy()))  # the optimum is that of what this person can get
        args = par, agent.state, agent.work, x, self.episode, question, answers
        with announced(f"what {agent.name} believes"):
            direct(ask_draws, *args)(*args)
        return answers

    @locked
    def why(self, plan: Plan, state: Any, step: Any, draws: Any, baseline: Any) -> Explanation:
        """`Plan.why`."""
        agent, n = self._fresh("why"), check_draws(draws, LEAST)
        p: Problem = agent.problem
        s, h = p.state(state), check.integer("step", step, 0)
        if h >= p.horizon:
            raise ValueError(f"step must be from 0 to {p.horizon - 1}, got {check.shown(step)}")
        zero = np.zeros(p.context_dim) if baseline is None else check.array("baseline", baseline, (p.context_dim,))
        met, unit, action = self.mask[s], p.scale.unit, int(plan.policy[h, s])
        effects, advantage, against = self._effects(h, s, action, zero)
        bounds = self._bounds(plan, h, s)
        if agent.believer() is None:
            model = agent.model(self.x)
            value = np.where(met, values_after(p, model.P, model.r, plan.policy, h, s), np.nan)
            return Explanation(s, h, action, value, None, None, *bounds, effects, advantage, against, 0, p)
        _, own, best = self._drawn(plan, n, h, s)
        own = np.where(met, unit * own + p.scale.low * (p.horizon - h), np.nan)
        told = own.mean(0), own.std(0, ddof=1), best.mean(0)
        return Explanation(s, h, action, *told, *bounds, effects, advantage, against, n, p)

    def _bounds(self, plan: Plan, h: int, s: int) -> tuple[Floats | None, Floats | None]:
        """(lower, upper) [A] of an action at (h, s) before the plan, where the agent certifies."""
        judge, p = self.agent.certifier(), self.agent.problem
        if judge is None or self.agent.refuted is not None:
            return None, None
        lower, upper = np.full(p.n_actions, np.nan), np.full(p.n_actions, np.nan)
        for a in np.flatnonzero(self.mask[s]):
            found = [judge.certify(self.x, policy) for policy in _changed(plan, h, s, int(a))]
            lower[a] = np.mean([one.lower[h, s] for one in found])
            upper[a] = np.mean([one.values[h, s] for one in found])
        return lower, upper

    def _effects(self, h: int, s: int, action: int, zero: Floats) -> tuple[tuple[Effect, ...], float, int | None]:
        """(effects, advantage, against) of `Explanation`."""
        agent, p = self.agent, self.agent.problem
        others = np.flatnonzero(self.mask[s])
        others = others[others != action]
        if not others.size:
            return (), float("nan"), None

        def advantage(x: Floats) -> tuple[float, int]:
            model = agent._model_of(apart(x.copy()))
            q = model_values(p, model.P, model.r, self.mask)[h, s]
            rival = int(others[q[others].argmax()])
            return float(q[action] - q[rival]), rival

        own, rival = advantage(self.x)
        if isinstance(p.link, LinearCombination):  # entries are shares: none can be changed alone
            return (), own, rival
        names = p.feature_names or (agent.encoder.feature_names if agent.encoder is not None else None)
        made = []
        for i in np.flatnonzero(self.x != zero):
            other = self.x.copy()
            other[i] = zero[i]
            name = names[i] if names else f"x[{i}]"
            made.append(Effect(name, float(self.x[i]), float(zero[i]), own - advantage(other)[0]))
        return tuple(made), own, rival


def _changed(plan: Plan, h: int, s: int, a: int) -> list[Any]:
    """The policy with action a at (h, s); of a lottery every plan so, with its floor elsewhere, all equally likely."""
    if plan.plans is None:
        policy = plan.policy.copy()
        policy[h, s] = a
        return [policy]
    made = [replace(plan, policy=one, plans=one[None]).chances for one in plan.plans]
    for chances in made:
        chances[h, s] = np.arange(chances.shape[2]) == a
    return made


def check_belief(agent: Any, draws: Any) -> int:
    """How many draws, an argument of that name, for an agent that has a posterior to draw from."""
    if agent.believer() is None:
        raise ValueError(f"belief must be 0: {agent.name} keeps no posterior to draw from")
    return check.integer("belief", draws, LEAST, MOST_DRAWS)


def askable(plan: Plan, agent: Any) -> Plan:
    """The plan of the agent's open episode, with whom to ask about it."""
    object.__setattr__(plan, "_asks", Explainer(agent, agent.context.copy()))
    return plan
