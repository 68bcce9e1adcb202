"""Operations that write: the verbs of a person, and what an administrator does with a programme."""

import asyncio
import json
import tomllib
from typing import Any

import msgspec

from ..checks import is_own
from . import messages as m
from .asking import Ask, Refusal, ask, digested
from .operation import Call, Operation, Reply, from_answer, said
from .programme_file import programme_from
from .reading import shallow

PERSON = "/v1/programmes/{name}/people/{who}"
_VERBS: tuple[tuple[str, str, Any, Any, bool, str], ...] = (
    ("begin", "decide", m.Begin, m.Begun, False, "Somebody comes: a plan is made for them."),
    ("decide", "decide", m.Decide, m.Decided, False, "What now? An action, its probability and its certificate."),
    ("outcome", "report", m.Outcome, m.Noted, False, "What the action led to."),
    ("reward", "report", m.Reward, m.Noted, False, "A reward that comes late, or is corrected."),
    ("end", "report", m.End, m.Noted, True, "The person's steps are over."),
    ("close", "report", m.Close, m.Noted, True, "Nothing more is waited for: learn them."),
    ("withdraw", "report", m.Withdraw, m.Noted, True, "The person leaves."),
)


def operations() -> list[Operation]:
    """Verbs first: they are asked most, and routes are tried in order."""
    made = [
        Operation(
            "POST", f"{PERSON}/{verb}", verb, role, summary, None, body, {200: answer}, keyed=True,
            optional=optional, question=personal(verb),
        )
        for verb, role, body, answer, optional, summary in _VERBS
    ]  # fmt: skip
    for verb, summary in (
        ("pause", "From now on the house rule decides; outcomes are still taken."),
        ("resume", "The agent decides again."),
    ):
        made.append(
            Operation(
                "POST", f"/v1/programmes/{{name}}/{verb}", verb, "admin", summary, general(verb), m.Nothing,
                {200: m.Done}, keyed=True, optional=True,
            )
        )  # fmt: skip
    made.append(
        Operation(
            "POST", "/v1/programmes/{name}/erase", "erase", "admin",
            "Erase a person's values. They must have ended or withdrawn; the chain stays verifiable.", _erase, m.Erase,
            {200: m.Erased}, (404,), keyed=True,
        )
    )  # fmt: skip
    made.append(
        Operation(
            "POST", "/v1/programmes", "create", "admin", "Make a programme from its file, as TOML or JSON.", _create,
            dict[str, Any], {201: m.Created}, (409, 503), toml=True,
        )
    )  # fmt: skip
    return made


def personal(verb: str) -> Any:
    def question(call: Call) -> Ask:
        return digested(verb, call.person(), call.own_key, msgspec.to_builtins(call.body))

    return question


def general(verb: str) -> Any:
    async def run(call: Call) -> Reply:
        return from_answer(await call.service.submit(call.programme, ask(verb, None, call.own_key)))

    return run


async def _erase(call: Call) -> Reply:
    answer = await call.service.submit(call.programme, ask("erase", call.body.who, call.own_key))
    if answer.status == 200 and call.service.aside is not None:
        call.service.aside.forget()  # audits that are remembered may be theirs
    return from_answer(answer)


async def _create(call: Call) -> Reply:
    """Files of this machine are nobody's business who speaks HTTP: an agent's file is refused here."""
    if call.token.programmes is not None:
        raise Refusal(403, "this token is for some programmes only and cannot make others")
    text = _text(call.raw)
    if call.body is None:
        try:
            shallow(call.raw)
            table: Any = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is not TOML: {str(error)[:300]}") from None
    else:
        table = call.body
    problem = table.get("problem")
    if isinstance(problem, dict) and problem.get("agent_file") is not None:
        raise Refusal(422, "problem.agent_file cannot be given over HTTP: start the service with the programme's file")
    if _own(table.get("agent")):
        raise Refusal(422, "agent: a class of your own cannot be named over HTTP: start the service with its file")
    try:
        settings = await asyncio.to_thread(programme_from, json.loads(json.dumps(table)), "programme", text)
        if call.service.host.find(settings.name) is None:  # the values of its options: nobody is told 201 for nothing
            await asyncio.to_thread(settings.made_live)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise Refusal(422, str(error)[:2000] or "agent: it would need more memory than there is") from None
    made = await call.service.create(settings)
    return said(201, m.Created(name=settings.name, state=made.state, title=settings.programme.title))


def _own(told: Any) -> bool:
    """Whether a class is named somewhere in [agent] (`module:Class`), which would be imported."""
    inner = told.values() if isinstance(told, dict) else told if isinstance(told, list) else ()
    return is_own(told) or any(_own(part) for part in inner)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Refusal(400, "the body must be UTF-8") from None
