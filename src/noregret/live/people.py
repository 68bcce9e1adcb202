"""Individuals whose path is not learned yet, and the file that keeps them with their agent.

A `Person` is never changed: what is told of somebody makes another record, which takes the first one's place in one
assignment. So whatever is interrupted, a record is the one before or the one after. Whether somebody was learned stands
in `mark`, which all records of one person share and which the compiled call that learns them sets itself."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..agents.base import Agent
from ..agents.contents import contents
from ..agents.files import rebuilt
from ..agents.limits import stored_episodes
from ..checks import Floats
from ..problem.links import Link
from ..problem.masks import check_policy, from_barred
from ..problem.problem import Problem
from ..storage.archive import digest, seal, unseal_bytes
from ..storage.atomic import write_whole

Who = int | str
LONGEST = 200  # characters of a key
_SCALARS = ("who", "episode", "certificate", "referred", "fingerprint", "row", "ended", "until", "belief", "floor",
            "unavailable")  # fmt: skip
_LATER: dict[str, Any] = {
    "belief": None,
    "floor": None,
    "unavailable": None,
}  # what files of earlier versions do not have
_FLAGS = ("bounded", "has_draws")


@dataclass(frozen=True, eq=False)
class Person:
    """An individual whose path is not learned yet.

    states [steps + 1, or as many as were acted in], actions, rewards, others: what was done and what came of it;
    policy [H, S], upper [H+1, S] or None, certificate, referred: the plan; drawn [draws, H, S] plans with other random
    numbers or, where floor is not None, those of the lottery that the policy was drawn from (`agents.lottery`); belief:
    (mean, 95% quantile) of what is believed of the plan's shortfall; unavailable: pairs [state, action] that they
    cannot get; until: how many people must have begun before this one is learned, None: `Live.close` says when"""

    who: Who
    episode: int
    context: tuple[float, ...]
    policy: NDArray[np.int64]
    upper: Floats | None
    certificate: float | None
    referred: bool | None
    fingerprint: str
    drawn: NDArray[np.int16]
    row: dict[str, Any] | None = None
    unavailable: list[list[int]] | None = None
    states: tuple[int, ...] = ()
    actions: tuple[int, ...] = ()
    rewards: tuple[float, ...] = ()
    others: tuple[bool, ...] = ()
    ended: bool = False
    until: int | None = 0
    belief: tuple[float, float] | None = None
    floor: float | None = None
    mark: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4, np.int64))

    def changed(self, **told: Any) -> "Person":
        """The same person with these fields: `dataclasses.replace` without its checks, in a tenth of its time."""
        made = object.__new__(Person)
        made.__dict__.update(self.__dict__, **told)
        return made

    @property
    def steps(self) -> int:
        """Steps whose outcome was observed."""
        return len(self.rewards)

    def same_steps(self, other: "Person") -> bool:
        """Whether the other record has the same decisions."""
        mine, theirs = (self.states, self.actions, self.others), (other.states, other.actions, other.others)
        return mine == theirs

    @property
    def asked(self) -> bool:
        return len(self.actions) > self.steps

    @property
    def learned(self) -> bool:
        return bool(self.mark[0])

    def action(self, p: Problem, action: Any, state: int) -> int:
        """Somebody else's action for this person."""
        made = p.action(action, state)
        if self.unavailable is not None and [state, made] in self.unavailable:
            said = f"{p.action_text(made)} is not available to this person in state {p.state_text(state)}"
            raise ValueError(f"action {said}")
        return made

    def due(self, begun: int) -> bool:
        """Whether nothing more is waited for, when so many people have begun."""
        return self.ended and self.until is not None and begun >= self.until

    def impossible(self, p: Problem) -> int | None:
        """The first step whose outcome the problem's support rules out; None where there is none."""
        if p.layout.dense:
            return None
        for h in range(self.steps):
            if not p.can_follow(self.states[h + 1], self.states[h], self.actions[h]):
                return h
        return None


def key_of(who: Any) -> Who:
    """`who` as a key: a whole number of 64 bits, or text of modest length."""
    who = int(who) if isinstance(who, np.integer) else who
    if isinstance(who, bool) or not isinstance(who, int | str):
        raise ValueError(f"who must be an integer or text, got {check.shown(who)}")
    if isinstance(who, int) and not -(2**63) <= who < 2**63:
        raise ValueError(f"who must be an integer of 64 bits, or text, got one of {who.bit_length()} bits")
    if isinstance(who, str):
        if len(who) > LONGEST:
            raise ValueError(f"who must be text of at most {LONGEST} characters, got {len(who)}")
        try:
            who.encode()
        except UnicodeEncodeError:
            raise ValueError(f"who must be text that can be written as UTF-8, got {check.shown(who)}") from None
    return who


# Files ------------------------------------------------------------------------------------------------------------
def write_people(path: Any, agent: Agent, own: dict[str, Any], people: list[Person]) -> None:
    """The agent, the options of its `Live` and these people, in one file."""
    header, arrays = with_people(agent, own, people)
    write_whole(path, lambda file: seal(file, header, arrays))


def with_people(agent: Agent, own: dict[str, Any], people: list[Person]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, arrays) of that file: numbers stand in arrays over all people, so that many of them are few arrays."""
    header, arrays = contents(agent)
    return _joined(header, arrays, own, people, agent.problem, draws_in(agent, own["draws"]))


def _joined(
    header: dict[str, Any], arrays: dict[str, Any], own: dict[str, Any], people: list[Person], p: Problem, draws: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    kept = [
        {name: getattr(q, name) for name in _SCALARS} | {"bounded": q.upper is not None, "has_draws": len(q.drawn) > 0}
        for q in people
    ]
    arrays |= {f"people.{name}": array for name, array in _stacked(people, p, draws).items()}
    return {"holds": "live", "live": own, "people": kept} | header, arrays


def frozen_people(agent: Agent, own: dict[str, Any], people: list[Person]) -> Callable[[], bytes]:
    """The same file's bytes, of everything as it is now, made when the function is called. Records of people are never
    changed, so that of them the list is enough."""
    header, arrays = contents(agent)
    kept = {name: np.array(array) for name, array in arrays.items()}
    p, draws = agent.problem, draws_in(agent, own["draws"])

    def sealed() -> bytes:
        file = io.BytesIO()
        seal(file, *_joined(header, dict(kept), own, people, p, draws))
        return file.getvalue()

    return sealed


def marked(live: Any) -> str:
    """SHA-256 over a `Live` as it goes on from here: its agent as `fingerprint` has it, and everybody not learned."""
    header, arrays = unseal_bytes(live.snapshot()(), "a snapshot")
    header["clock"], header["others"] = header["clock"][0], []
    header.pop("unavailable", None)
    away = ("plan.", "path.")
    return digest(header, {name: a for name, a in arrays.items() if name != "context" and not name.startswith(away)})


def draws_in(agent: Agent, draws: int) -> int:
    """How many plans each person has: those of the agent's lottery, or so many with other random numbers."""
    return len(agent.buffers[0].plans) or draws


def _shapes(p: Problem, people: int, drawn: int, draws: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """{name: (shape, type)} of the arrays that hold so many people, `drawn` of whom have drawn plans."""
    H, S, n = p.horizon, p.n_states, people
    return {
        "context": ((n, p.context_dim), np.float64), "policy": ((n, H, S), np.int64),
        "upper": ((n, H + 1, S), np.float64), "states": ((n, H + 1), np.int64), "actions": ((n, H), np.int64),
        "rewards": ((n, H), np.float64), "others": ((n, H), np.bool_), "lengths": ((n, 2), np.int64),
        "drawn": ((drawn, draws, H, S), np.int16),
    }  # fmt: skip


def _stacked(people: list[Person], p: Problem, draws: int) -> dict[str, Any]:
    chosen = [q for q in people if len(q.drawn)]
    made = {name: np.zeros(*about) for name, about in _shapes(p, len(people), len(chosen), draws).items()}
    for i, q in enumerate(people):
        made["context"][i], made["policy"][i], made["lengths"][i] = q.context, q.policy, (q.steps, len(q.actions))
        if q.upper is not None:
            made["upper"][i] = q.upper
        for name in ("states", "actions", "rewards", "others"):
            made[name][i, : len(getattr(q, name))] = getattr(q, name)
    for i, q in enumerate(chosen):
        made["drawn"][i] = q.drawn
    return made


def people_in(
    path: Any, header: dict[str, Any], arrays: dict[str, Any], link: Link | None, expert: Any, memory: Any, own: Any
) -> tuple[Agent, dict[str, Any], list[Person]]:
    """What `write_people` wrote, from the header and the arrays of a file."""
    if header.get("holds") != "live":
        raise ValueError(f"{path} holds no open individuals: read it with noregret.load")
    agent = rebuilt(path, header, arrays, link, expert, memory, own)
    try:
        own = header["live"]
        check.fits("live", lambda draws, order, audit, rows, belief=0, at_once=None: None, **own)
        draws = draws_in(agent, check.integer("draws", own["draws"], 0))
        people = _people(header["people"], arrays, agent, draws)
        numbers = [q.episode for q in people]
        if len(set(numbers)) < len(numbers) or stored_episodes(agent.state) & set(numbers):
            raise ValueError("somebody is there twice, or was learned from already")
        if len({q.who for q in people}) < len(people):
            raise ValueError("a key is there twice")
    except Exception as error:  # contents that no Live wrote
        raise ValueError(f"{path} cannot be loaded: {' '.join(str(error).split())[:400]}") from None
    return agent, own, people


def _people(kept: Any, arrays: dict[str, Any], agent: Agent, draws: int) -> list[Person]:
    p, people = agent.problem, []
    if isinstance(kept, list):
        kept = [_LATER | q if isinstance(q, dict) else q for q in kept]
    if not isinstance(kept, list) or not all(isinstance(q, dict) and set(q) == {*_SCALARS, *_FLAGS} for q in kept):
        raise ValueError("people are not as Live writes them")
    drawn = sum(q["has_draws"] is True for q in kept)
    made = {name: arrays[f"people.{name}"] for name in _shapes(p, 0, 0, 0)}
    for name, (shape, kind) in _shapes(p, len(kept), drawn, draws).items():
        if made[name].shape != shape or made[name].dtype != kind:
            raise ValueError(f"people.{name} must be {np.dtype(kind)} of shape {shape}")
    at = 0
    for i, told in enumerate(kept):
        _plain(told, agent.episode)
        n, h = (int(v) for v in made["lengths"][i])
        if not (0 <= n <= h <= min(n + 1, p.horizon)):
            raise ValueError(f"the path of {check.shown(told['who'])} is not one")
        own = np.zeros((0, p.horizon, p.n_states), np.int16)
        if told["has_draws"] != (told["floor"] is not None) and len(agent.buffers[0].plans):
            raise ValueError(f"the plans of {check.shown(told['who'])} are not those of a lottery")
        if told["has_draws"]:
            own, at = made["drawn"][at], at + 1
        upper = made["upper"][i] if told["bounded"] else None
        if upper is not None and not ((upper >= 0.0) & (upper <= p.horizon * (1.0 + 1e-9))).all():
            raise ValueError(f"the plan of {check.shown(told['who'])} is not one")
        fields = {name: told[name] for name in _SCALARS}
        fields["belief"] = None if told["belief"] is None else tuple(told["belief"])
        people.append(Person(
            **fields, context=tuple(made["context"][i].tolist()), policy=p.policy(made["policy"][i]), upper=upper,
            drawn=own, states=tuple(made["states"][i, : max(h, n + (n > 0))].tolist()),
            actions=tuple(made["actions"][i, :h].tolist()), rewards=tuple(made["rewards"][i, :n].tolist()),
            others=tuple(made["others"][i, :h].tolist()),
        ))  # fmt: skip
        _possible(people[-1], p)
    return people


def _plain(told: dict[str, Any], begun: int) -> None:
    """A sentence where what the header says of somebody is of another kind."""
    who = key_of(told["who"])
    kinds = {
        "episode": int, "certificate": float | None, "referred": bool | None, "fingerprint": str, "row": dict | None,
        "ended": bool, "until": int | None, "bounded": bool, "has_draws": bool, "belief": list | None,
        "floor": float | None,
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(told[name], kind) or (kind in (int, int | None) and isinstance(told[name], bool)):
            raise ValueError(f"{name} of {check.shown(who)} cannot be {check.shown(told[name])}")
    if not 0 <= told["episode"] < begun:
        raise ValueError(f"{check.shown(who)} is individual {told['episode']}, and {begun} have begun")
    if told["until"] is not None and not 0 <= told["until"] < 2**62:
        raise ValueError(f"until of {check.shown(who)} cannot be {check.shown(told['until'])}")
    said = told["belief"]
    if said is not None and not (len(said) == 2 and all(type(v) is float and 0.0 <= v < math.inf for v in said)):
        raise ValueError(f"belief of {check.shown(who)} cannot be {check.shown(said)}")
    if told["floor"] is not None and not 0.0 <= told["floor"] <= 1.0:
        raise ValueError(f"floor of {check.shown(who)} cannot be {check.shown(told['floor'])}")
    if told["certificate"] is not None and not math.isfinite(told["certificate"]):
        raise ValueError(f"certificate of {check.shown(who)} cannot be {check.shown(told['certificate'])}")


def _possible(person: Person, p: Problem) -> None:
    """A sentence where nobody can be like that."""
    x = p.context(person.context)
    if x.tolist() != list(person.context):
        raise ValueError(f"the context of {check.shown(person.who)} is longer than the problem allows")
    mask, drawn = from_barred(p, person.unavailable), person.drawn.astype(np.int64)
    check_policy(p, person.policy, mask, f"the plan of {check.shown(person.who)}")
    if drawn.size and (drawn.min() < 0 or drawn.max() >= p.n_actions):
        raise ValueError(f"the drawn plans of {check.shown(person.who)} take actions that are none")
    if drawn.size and not mask[np.arange(p.n_states), drawn].all():
        raise ValueError(f"the drawn plans of {check.shown(person.who)} take an action that is not available")
    for s in person.states:
        p.state(s)
    if person.states:
        p.started(person.states[0])
    for s, a in zip(person.states, person.actions, strict=False):
        person.action(p, a, s)
    for r in person.rewards:
        p.reward(r)
