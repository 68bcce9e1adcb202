"""`/rank` and `/reward` in the manner of Azure Personalizer, for programmes of one step.

An event is a person of one decision: rank is `begin` and `decide`, reward is `outcome` and `end`. The keys of these
four are made of the event's id, so that whatever is sent again finds its first answer, and another reward for the same
event is a 409. What Personalizer's client sends and gets is kept: paths, field names, statuses (201, 204) and errors.

    context     contextFeatures are flattened into one row, later entries win: {"user": {"age": 3}} has the columns
                "user.age" and, unless another entry is called so, "age". A list of texts is its sorted members with
                "+" between. The programme's encoder takes the columns it declares; of others, what `begin` would not
                take (names above 200 characters, texts above 1,000) is left out. Where there are several states, the
                column "state" says in which one the event begins
    actions     ids are the programme's actions; those that are not sent, and excludedActions, are unavailable. Features
                of actions belong to the programme's `reward_design`; those sent are not read
    ranking     the chosen action first, with its probability; then the others in the order sent. Their probabilities
                are known where they are 0 (excluded) or what is left for one; null elsewhere
    default     there is no default reward. An event nobody rewards stays open: use [learning] order = "end", and end or
                withdraw such events under their ids. activate changes nothing: withdraw events that were never seen"""

import hashlib
import uuid
from typing import Any

import msgspec

from . import messages as m
from .asking import Refusal, ask
from .operation import Call, Operation, Reply, as_azure, from_answer, said

LONGEST_NAME, LONGEST_TEXT = 200, 1000  # characters of a column and of its value (`messages.Row`)
_OWN = "/v1/programmes/{name}"
_PATHS = (("azure", "/personalizer/v1.0"), ("programme_azure", f"{_OWN}/personalizer/v1.0"))


def operations() -> list[Operation]:
    """Under the programme's name; and at Personalizer's own paths, below an endpoint that is the service (where the
    token has one programme) or the programme (http://host:8080/v1/programmes/NAME)."""
    rank, reward, shown = "Which of these actions?", "The reward of an event.", "It was shown. Nothing changes by it."
    made = [
        Operation("POST", f"{_OWN}/rank", "rank", "decide", rank, _rank, m.RankRequest, {201: m.RankResponse},
                  (409, 503), azure=True),
        Operation("POST", f"{_OWN}/reward", "rank_reward", "report", reward, _reward, m.RewardOfEvent, {204: None},
                  (409, 503), azure=True),
    ]  # fmt: skip
    for name, path in _PATHS:
        made += [
            Operation("POST", f"{path}/rank", f"{name}_rank", "decide", rank, _rank, m.RankRequest,
                      {201: m.RankResponse}, (404, 409, 503), azure=True),
            Operation("POST", f"{path}/events/{{event}}/reward", f"{name}_reward", "report", reward, _reward_at,
                      m.RewardRequest, {204: None}, (404, 409, 503), azure=True),
            Operation("POST", f"{path}/events/{{event}}/activate", f"{name}_activate", "report", shown, _activate,
                      None, {204: None}, (404, 409, 422), azure=True),
        ]  # fmt: skip
    return made


def row_of(features: list[dict[str, Any]] | None) -> dict[str, Any]:
    """One row of what Personalizer nests, with dotted names; and with last names alone where those are free.

    >>> row_of([{"user": {"age": 3, "likes": ["tea", "milk"]}}, {"day": "monday"}])
    {'user.age': 3, 'user.likes': 'milk+tea', 'day': 'monday', 'age': 3, 'likes': 'milk+tea'}
    """
    row: dict[str, Any] = {}

    def put(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                put(f"{name}.{key}"[: LONGEST_NAME + 1] if name else key, inner)  # what is too long does not grow
        elif isinstance(value, list):
            row[name] = "+".join(sorted(str(part) for part in value if not isinstance(part, dict | list)))
        else:
            row[name] = value
        if len(name) > LONGEST_NAME:
            row.pop(name, None)

    for entry in features or []:
        put("", entry)
    short = {name.rsplit(".", 1)[-1]: value for name, value in row.items() if "." in name}
    return row | {name: value for name, value in short.items() if name not in row}


def _only(call: Call) -> Any:
    """The programme: of the path, or the only one that this token may ask."""
    if call.programme is None:
        named, token = call.service.host.programmes, call.token
        mine = [name for name in named if token.may("decide", name) or token.may("report", name)]
        if len(mine) != 1:
            raise Refusal(404, f"there are {len(mine)} programmes for this token: the endpoint is /v1/programmes/NAME")
        call.name, call.programme = mine[0], call.service.host.programmes[mine[0]]
    problem = call.programme.problem
    if problem.horizon != 1:
        raise Refusal(
            409, f"rank is for programmes of one step, this one has {problem.horizon}: begin, decide, outcome"
        )
    return call.programme


def _key(event: str, verb: str) -> str:
    """Of a request about an event; ids may have characters that a key must not."""
    return f"event-{verb}-{hashlib.sha256(event.encode()).hexdigest()}"


async def _rank(call: Call) -> Reply:
    programme, told = _only(call), call.body
    problem = programme.problem
    names = [str(name) for name in problem.action_names or range(problem.n_actions)]
    sent = [action.id for action in told.actions]
    if len(set(sent)) < len(sent):
        raise Refusal(422, "actions must have different ids")
    unknown = [i for i in sent if i not in names]
    if unknown:
        raise Refusal(422, f"actions must be those of the programme ({', '.join(names)}), got {unknown[0][:80]}")
    excluded = set(told.excluded_actions or ())
    barred = [a for a, name in enumerate(names) if name not in sent or name in excluded]
    if len(barred) == len(names):
        raise Refusal(422, "excludedActions must leave an action")
    event, row = told.event_id or str(uuid.uuid4()), _row(programme, told)
    start = row.get("state", 0) if problem.n_states > 1 else 0
    try:
        problem.started(start)  # before anything is written
    except ValueError as error:
        raise Refusal(422, str(error)) from None
    call.key = _key(event, "rank")
    body: dict[str, Any] = {"x": row} | ({"unavailable": barred} if barred else {})
    begun = await call.service.submit(programme, ask("begin", event, _key(event, "begin"), body))
    if begun.status != 200:
        return as_azure(from_answer(begun))
    answer = await call.service.submit(programme, ask("decide", event, call.key, {"state": start}))
    if answer.status != 200:
        return as_azure(from_answer(answer))
    chosen = msgspec.json.decode(answer.text)
    name = _named(chosen["action"], names)
    order = [name, *(i for i in sent if i != name)]
    return said(201, m.RankResponse(_ranked(order, excluded, chosen["probability"]), event, name))


def _row(programme: Any, told: Any) -> dict[str, Any]:
    """The row of a request, as `begin` would take it."""
    known = () if programme.encoder is None else programme.encoder.columns
    made = row_of(told.context_features)
    row = {n: v for n, v in made.items() if n in known or not isinstance(v, str) or len(v) <= LONGEST_TEXT}
    try:
        msgspec.convert(row, m.Row)
    except msgspec.ValidationError as error:
        raise Refusal(422, f"contextFeatures: {str(error).partition(' - at')[0]}") from None
    return row


def _named(action: Any, names: list[str]) -> str:
    return names[action] if isinstance(action, int) else str(action)


def _ranked(order: list[str], excluded: set[str], chance: float | None) -> list[m.RankedAction]:
    """Probabilities, where they are known: the chosen one's, 0 of what was excluded, the rest if it is one action's."""
    others = [name for name in order[1:] if name not in excluded]
    made = [m.RankedAction(order[0], 1.0 if chance is None and not others else chance)]
    for name in order[1:]:
        if name in excluded or chance == 1.0:
            made.append(m.RankedAction(name, 0.0))
        else:
            alone = len(others) == 1 and chance is not None
            made.append(m.RankedAction(name, 1.0 - chance if alone and chance is not None else None))
    return made


async def _reward(call: Call) -> Reply:
    return await _rewarded(call, call.body.event_id)


async def _reward_at(call: Call) -> Reply:
    return await _rewarded(call, call.text("event", 200))


async def _rewarded(call: Call, event: str) -> Reply:
    programme = _only(call)
    call.key = _key(event, "reward")
    body = {"next_state": 0, "reward": call.body.value, "step": 0}
    for verb, key, said_of in (("outcome", call.key, body), ("end", _key(event, "end"), {})):
        answer = await call.service.submit(programme, ask(verb, event, key, said_of))
        if answer.status != 200:
            return as_azure(from_answer(answer))
    return Reply(204)


async def _activate(call: Call) -> Reply:
    _only(call)
    call.text("event", 200)
    return Reply(204)
