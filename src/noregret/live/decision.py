"""What was decided, why, and the same again: the record of a decision, and how one is made."""

import hashlib
import json
from copy import deepcopy
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from .. import checks as check
from ..agents.base import Agent
from ..agents.contents import fingerprint
from ..agents.files import copy_of
from ..agents.probabilities import from_policies, known_exactly, of_lottery
from ..problem.encoder import Encoder
from ..problem.masks import from_barred
from ..problem.problem import Problem
from ..storage.tables import is_missing
from ..storage.version import __version__
from .people import Person

_NESTED = (dict, list)
_FROM_0 = ("episode", "step", "state", "action", "advice", "seed")


@dataclass(frozen=True)
class Decision:
    """One action for one individual, as `Live.act` records it.

    who           the individual's key; episode: their number, which keys the agent's random numbers
    step, context, state   what was known of them (context [d] as the agent saw it)
    action        what was done; advice: what the plan said; by_other: whether somebody else chose
    probability   the chance with which the agent chooses `action` here, given the past. Of an agent with several plans
                  or a floor it is exact (`agents.lottery`), error is 0 and draws its number of plans; of any other an
                  estimate from `draws` plans with other random numbers, error: its standard error; None where it was
                  not asked for
    certificate   a bound on the plan's shortfall from optimal, None without one; referred: whether an expert planned
    agent, options, seed, version   who decided: name, options (arrays by their SHA-256), and of which library version
    fingerprint   SHA-256 over the agent's saved contents before the individual's plan was made; "" if not asked for
    time          when it was made, UTC, ISO 8601; decisions are compared without it
    state_name, action_name, advice_name   names of state, action and advice, None where the problem has none
    row           the encoder's columns of the row given at `begin`, where `Live` was told to keep them (rows=True)
    refuted       the sentence of `agent.refuted` at that time: an assumption was seen to be false, no certificate
    belief        what is believed of the plan's shortfall, its mean over belief_draws posterior draws, and
                  belief_quantile, what it is below with probability 95% (`Plan.belief`); not proved. None where `Live`
                  was not told to ask (belief=n)
    unavailable   pairs [state, action] that this person could not get; None: all could be had

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.CertifiedPSRL(world.problem)
    >>> live = nr.Live(agent)
    >>> plan = live.begin("Ms B", world.context(seed=0, episode=0))
    >>> decision = live.act("Ms B", "moderate", action="wait")  # she would rather not
    >>> decision.action, decision.by_other, decision.certificate == plan.certificate
    (0, True, True)
    >>> decision.state_name, decision.action_name
    ('moderate', 'wait')
    >>> decision.replay(nr.CertifiedPSRL(world.problem)) == decision  # an agent that knows as much decides the same
    True
    """

    who: int | str
    episode: int
    step: int
    context: tuple[float, ...]
    state: int
    action: int
    advice: int
    by_other: bool
    probability: float | None
    draws: int | None
    error: float | None
    certificate: float | None
    referred: bool | None
    agent: str
    options: dict[str, Any]
    seed: int
    version: str
    fingerprint: str
    time: str = field(default="", compare=False)
    state_name: str | None = None
    action_name: str | None = None
    advice_name: str | None = None
    row: dict[str, Any] | None = None
    refuted: str | None = None
    belief: float | None = None
    belief_quantile: float | None = None
    belief_draws: int | None = None
    unavailable: list[list[int]] | None = None

    def __str__(self) -> str:
        state = self.state if self.state_name is None else self.state_name
        action = self.action if self.action_name is None else self.action_name
        advice = self.advice if self.advice_name is None else self.advice_name
        how = f"chosen by somebody else (advice: {advice})" if self.by_other else "as advised"
        how_many = f"{self.draws} plans" if self.error == 0.0 and self.draws else f"{self.draws} draws"
        chance = "" if self.probability is None else f", chance {self.probability:.3g} ({how_many})"
        proof = "" if self.certificate is None else f", plan at most {self.certificate:.3g} short of optimal"
        if self.belief is not None and self.belief_quantile is not None:
            proof += f", believed {self.belief:.3g} short of optimal (95%: at most {self.belief_quantile:.3g})"
        whose = "baseline's" if self.agent == "conservative" else "expert's"
        handed = f", the plan is the {whose}" if self.referred else ""
        false = "" if self.refuted is None else f", no promise: {self.refuted}"
        return f"{self.who}, step {self.step}, state {state}: action {action} {how}{chance}{proof}{handed}{false}"

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self) | {"context": list(self.context)}

    @classmethod
    def from_dict(cls, made: dict[str, Any]) -> Self:
        """The decision of `to_dict`; a ValueError where it is none."""
        kept = check.mapping("decision", made)
        needed = {f.name for f in fields(cls) if f.default is MISSING}
        lacking = (needed - set(kept)) | (set(kept) - {f.name for f in fields(cls)})
        if lacking:
            raise ValueError(f"decision must have the entries of Decision.to_dict, wrong are {check.shown(lacking)}")
        if isinstance(kept["context"], list):
            kept["context"] = tuple(kept["context"])
        try:
            told = dict(_kinds().model_validate(kept))
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            raise ValueError(f"decision: {name} cannot be {check.shown(kept[name])}") from None
        if min(told[name] for name in _FROM_0) < 0:
            raise ValueError("decision: episode, step, state, action and context must be numbers, and from 0")
        return cls(**told)

    def replay(self, agent: Agent) -> "Decision":
        """Decide again with an agent loaded from a file that was saved before this individual's plan was made; a
        ValueError where it is not that agent, or does not come to the same advice and certificate to the last bit.

        Where an expert who is a function planned, the advice was theirs: only that they were asked is checked. The
        agent is not changed."""
        if not self.fingerprint:
            raise ValueError("replay: the decision was recorded without a fingerprint (audit=False)")
        found = fingerprint(agent)
        if found != self.fingerprint:
            raise ValueError(
                f"replay: the agent is not the one that decided, its fingerprint is {found[:12]}..., not "
                f"{self.fingerprint[:12]}...; load the file saved before episode {self.episode}"
            )
        asked = agent.asks_function and not agent.asks_everybody
        twin = copy_of(agent, ask=not asked)
        mask = ~from_barred(agent.problem, self.unavailable)
        plan = twin.begin_episode(np.array(self.context), None if self.unavailable is None else mask)
        advice, referred = int(plan.policy[self.step, self.state]), getattr(plan, "referred", None)
        if asked and referred:
            advice = self.advice
        certificate = plan.certificate if self.refuted is None else None
        told: dict[str, Any] = {}
        if self.belief_draws is not None and not (asked and referred):
            short = plan.belief(self.belief_draws)
            told = {"belief": max(short.mean, 0.0), "belief_quantile": short.quantile}
        action = self.action if self.by_other else advice
        again = replace(
            self, advice=advice, certificate=certificate, referred=referred, action=action, **told,
            **_names(agent.problem, self.state, action, advice),
        )  # fmt: skip
        if self.row is not None and agent.encoder is not None:
            x = agent.problem.context(agent.encoder.encode(self.row)).tolist()
            if tuple(x) != self.context:
                raise ValueError(f"replay: the row is not that of the context, it is encoded as {check.shown(x)}")
        if again != self:
            said = f"action {again.advice}, certificate {again.certificate}, referred {again.referred}"
            raise ValueError(
                f"replay: the agent now says {said}; recorded were action {self.advice}, certificate "
                f"{self.certificate}, referred {self.referred} (by noregret {self.version})"
            )
        return again


@cache
def _kinds() -> type[BaseModel]:
    """The fields of `Decision`, to hold a dictionary against."""
    kinds: dict[str, Any] = {f.name: (f.type, ... if f.default is MISSING else f.default) for f in fields(Decision)}
    return create_model("Decision", __config__=ConfigDict(strict=True), **kinds)


def described(agent: Agent) -> dict[str, Any]:
    """The agent's options for a record, those of its parts under their names; arrays by their SHA-256."""
    made: dict[str, Any] = {}
    for name, value in agent.options.items():
        if isinstance(value, np.ndarray):
            value = f"array {list(value.shape)} sha256 {hashlib.sha256(value.tobytes()).hexdigest()}"
        made[name] = value
    for name, part in agent.parts().items():
        made[name] = {"agent": part.name, "seed": part.seed, "options": described(part)}
    return made


def plainly(agent: Agent) -> dict[str, Any]:
    """`described` as it comes out of JSON."""
    made: dict[str, Any] = json.loads(json.dumps(described(agent)))
    return made


def _own(options: dict[str, Any]) -> dict[str, Any]:
    """A copy for one decision: nobody who changes it changes another's."""
    made = options.copy()
    for name, value in options.items():
        if value.__class__ in _NESTED:
            made[name] = deepcopy(value)
    return made


def decided(agent: Agent, person: Person, s: int, time: str, options: Any, chance_of: bool, draws: int = 0) -> Decision:
    """The record of the last action of a person, which was taken in state s. options: `plainly`; chance_of: whether its
    probability is part of the record; draws: of what is believed."""
    h, p = len(person.actions) - 1, agent.problem
    chosen, advice = person.actions[h], int(person.policy[h, s])
    chance: tuple[float, int, float] | tuple[None, None, None] = (None, None, None)
    if person.floor is not None:
        past = person.states[:h], person.actions[:h], person.others[:h]
        chances = of_lottery(person.drawn, person.floor, from_barred(p, person.unavailable), past, s)
        chance = float(chances.probabilities[chosen]), chances.draws, 0.0
    elif chance_of:
        found = known_exactly(agent, h, s)
        if found is None and len(person.drawn):
            found = from_policies(person.drawn, person.states, person.actions[:h], person.others, s, p.n_actions)
        if found is not None and (found.exact or found.draws > 0):
            chance = float(found.probabilities[chosen]), found.draws, float(found.error[chosen])
    return Decision(
        who=person.who, episode=person.episode, step=h, context=person.context, state=s, action=chosen,
        advice=advice, by_other=person.others[h], probability=chance[0], draws=chance[1], error=chance[2],
        certificate=person.certificate if agent.refuted is None else None, referred=person.referred,
        agent=agent.name, options=_own(options), seed=agent.seed, version=__version__,
        fingerprint=person.fingerprint, time=time, **_names(p, s, chosen, advice),
        row=None if person.row is None else dict(person.row), refuted=agent.refuted, unavailable=person.unavailable,
        **_believed(person, draws),
    )  # fmt: skip


def _believed(person: Person, draws: int) -> dict[str, Any]:
    if person.belief is None:
        return {}
    return {"belief": person.belief[0], "belief_quantile": person.belief[1], "belief_draws": draws}


def _names(p: Problem, state: int, action: int, advice: int) -> dict[str, Any]:
    """Of state, action and advice, None where the problem has none."""
    states, actions = p.state_names, p.action_names
    made = {"action_name": actions[action], "advice_name": actions[advice]} if actions else {}
    return {"state_name": states[state] if states else None, "action_name": None, "advice_name": None} | made


def row_of(encoder: Encoder | None, x: Any) -> dict[str, Any] | None:
    """The encoder's columns of a row, as plain values."""
    if encoder is None or not hasattr(x, "keys"):
        return None
    found = {column: x[column] for column in encoder.columns}
    plain = {c: v.item() if isinstance(v, np.generic) else v for c, v in found.items()}
    return {c: None if is_missing(v) else v if isinstance(v, str | int | float) else str(v) for c, v in plain.items()}


def now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


def utc(time: Any) -> str:
    """A time with a zone (a datetime, or ISO 8601 text) as text in UTC."""
    try:
        made = datetime.fromisoformat(time) if isinstance(time, str) else time
        if not isinstance(made, datetime) or made.tzinfo is None:
            raise ValueError
        return (made if made.tzinfo is UTC else made.astimezone(UTC)).isoformat()
    except (ValueError, OverflowError):
        raise ValueError(
            f"time must be a datetime with a time zone, or such a time in ISO 8601, got {check.shown(time)}"
        ) from None
