"""What was decided, why, and the same again."""

import hashlib
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np

from .. import _checks as check
from ..agents.base import Agent
from ..agents.files import copy_of, fingerprint

_KINDS: dict[Any, tuple[str, ...]] = {
    int: ("episode", "step", "state", "action", "advice", "seed"),
    str: ("agent", "version", "fingerprint"),
    bool: ("by_other",),
    dict: ("options",),
    (list, tuple): ("context",),
    (int, str): ("who",),
}
_MAYBE = ("probability", "draws", "error", "certificate", "referred")


@dataclass(frozen=True)
class Decision:
    """One action for one individual, as `Live.act` records it.

    who           the individual's key; episode: their number, which keys the agent's random numbers
    step, context, state   what was known of them (context [d] as the agent saw it)
    action        what was done; advice: what the plan said; by_other: whether somebody else chose
    probability   the chance with which the agent chooses `action` here (`noregret.live.probabilities`), draws: how many
                  plans that rests on, error: its standard error; None where it was not asked for
    certificate   a bound on the plan's shortfall from optimal, None without one; referred: whether an expert planned
    agent, options, seed, version   who decided: name, options (arrays by their SHA-256), and of which library version
    fingerprint   SHA-256 over the agent's saved contents before the individual's plan was made; "" if not asked for

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.CertifiedPSRL(world.problem)
    >>> live = nr.Live(agent)
    >>> plan = live.begin("Ms B", world.context(seed=0, episode=0))
    >>> decision = live.act("Ms B", "moderate", action="wait")  # she would rather not
    >>> decision.action, decision.by_other, decision.certificate == plan.certificate
    (0, True, True)
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

    def __str__(self) -> str:
        how = f"chosen by somebody else (advice: {self.advice})" if self.by_other else "as advised"
        chance = "" if self.probability is None else f", chance {self.probability:.3g} ({self.draws} draws)"
        proof = "" if self.certificate is None else f", plan at most {self.certificate:.3g} short of optimal"
        handed = ", planned by the expert" if self.referred else ""
        return f"{self.who}, step {self.step}, state {self.state}: action {self.action} {how}{chance}{proof}{handed}"

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self) | {"context": list(self.context)}

    @classmethod
    def from_dict(cls, made: dict[str, Any]) -> Self:
        """The decision of `to_dict`; a ValueError where it is none."""
        kept = check.mapping("decision", made)
        lacking = {f.name for f in fields(cls)} ^ set(kept)
        if lacking:
            raise ValueError(f"decision must have the entries of Decision.to_dict, wrong are {check.shown(lacking)}")
        for kind, names in _KINDS.items():
            for name in names:
                if not isinstance(kept[name], kind) or (isinstance(kept[name], bool) and kind is not bool):
                    raise ValueError(f"decision: {name} cannot be {check.shown(kept[name])}")
        for name in _MAYBE:
            if kept[name] is not None and not isinstance(kept[name], int | float):
                raise ValueError(f"decision: {name} cannot be {check.shown(kept[name])}")
        if min(kept[name] for name in _KINDS[int]) < 0 or not all(isinstance(v, int | float) for v in kept["context"]):
            raise ValueError("decision: episode, step, state, action and context must be numbers, and from 0")
        return cls(**(kept | {"context": tuple(kept["context"])}))

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
        twin, asked = copy_of(agent), getattr(agent, "_ask", None) is not None
        if asked:
            first = np.tile(agent.problem.layout.available.argmax(1), (agent.problem.horizon, 1))
            twin._ask = lambda x: first  # type: ignore[attr-defined]
        plan = twin.begin_episode(np.array(self.context))
        advice, referred = int(plan.policy[self.step, self.state]), getattr(plan, "referred", None)
        if asked and referred:
            advice = self.advice
        again = replace(self, advice=advice, certificate=plan.certificate, referred=referred)
        if not self.by_other:
            again = replace(again, action=advice)
        if again != self:
            said = f"action {again.advice}, certificate {again.certificate}, referred {again.referred}"
            raise ValueError(
                f"replay: the agent now says {said}; recorded were action {self.advice}, certificate "
                f"{self.certificate}, referred {self.referred} (by noregret {self.version})"
            )
        return again


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
