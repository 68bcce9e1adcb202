"""The OpenAPI description, made of the operations and their Structs: what is not in them is not said, and what is said
is what is read. `tests/test_service_api.py` holds a running service against it."""

from typing import Any

import msgspec

from ..storage.version import __version__
from .messages import ErrorResponse, Failure
from .operation import Operation, phrase
from .wire import BODY

_REF = "#/components/schemas/{name}"
_PATH = {
    "name": {"schema": {"type": "string", "minLength": 1, "maxLength": 80}, "description": "of the programme"},
    "who": {
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        "description": "the person, under an opaque key of the caller's; slashes as %2F",
    },
    "event": {"schema": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "the event's id"},
    "step": {"schema": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "description": "counted from 0"},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    "description": "New for each request, the same when it is sent again: the same key and body get the same answer, "
    "the same key and another body 409.",
}
_RETRY = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "seconds"}}
_SENTENCES = {
    400: "Not JSON, a key twice, a header missing.",
    401: "No token, or one that nobody knows.",
    403: "The token has another role.",
    404: "No such programme or person.",
    408: "The request took too long to arrive.",
    409: "Not now: the verbs came in another order, or the key was used for another request.",
    413: f"A body of more than {BODY} bytes.",
    415: "Not JSON by its type.",
    422: "A value that cannot be.",
    431: "Headers too long.",
    503: "Nothing was accepted. Ask again after so many seconds, with the same key.",
}


def described(operations: list[Operation], demo: bool = False) -> dict[str, Any]:
    """The document. demo: nobody needs a token."""
    types = [t for op in operations for t in (op.body, *op.answers.values()) if isinstance(t, type)]
    _, parts = msgspec.json.schema_components(_unique([*types, Failure, ErrorResponse]), ref_template=_REF)
    paths: dict[str, Any] = {}
    for op in operations:
        paths.setdefault(op.path, {})[op.method.lower()] = _operation(op, demo)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "noregret",
            "version": __version__,
            "description": "Decisions over HTTP: written before they are answered; the same key gets the same answer.",
        },
        "paths": paths,
        "components": {"schemas": parts},
    }
    if not demo:
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "a token of `noregret token`"},
            "personalizer": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
        }
    return document


def _unique(types: list[Any]) -> list[Any]:
    return list(dict.fromkeys(types))


def _operation(op: Operation, demo: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"operationId": op.verb, "summary": op.summary, "responses": _responses(op)}
    told = [{"name": name, "in": "path", "required": True} | _PATH[name] for name in op.parameters]
    told += [_KEY] if op.keyed else []
    if told:
        said["parameters"] = told
    if op.role is not None and not demo:
        said["security"] = [{"token": []}] + ([{"personalizer": []}] if op.azure else [])
        said["description"] = f"Takes the role {op.role}."
    if op.body is not None:
        types = {"application/json": {"schema": _schema(op.body)}}
        if op.toml:
            types["application/toml"] = {"schema": {"type": "string"}}
        said["requestBody"] = {"required": not op.optional, "content": types}
    return said


def _responses(op: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for status, answer in op.answers.items():
        part: dict[str, Any] = {"description": phrase(status)}
        if isinstance(answer, str):
            schema = {"type": "string"} if answer.startswith("text/") else {}
            part["content"] = {answer: {"schema": schema}}
        elif answer is not None:
            part["content"] = {"application/json": {"schema": _schema(answer)}}
        made[str(status)] = part
    error = _schema(ErrorResponse if op.azure else Failure)
    for status in op.failures():
        part = {"description": _SENTENCES[status]}
        if status not in (408, 431) or not op.azure:  # said by the connection, before anybody knows the path
            part["content"] = {"application/json": {"schema": error}}
        else:
            part["content"] = {"application/json": {"schema": _schema(Failure)}}
        if status == 503:
            part["headers"] = _RETRY
        made[str(status)] = part
    return made


def _schema(made: Any) -> Any:
    """A reference to a Struct; the schema itself of anything else."""
    if made is dict or getattr(made, "__origin__", None) is dict:
        return {"type": "object"}
    if made is Any:
        return {}
    return {"$ref": _REF.format(name=made.__name__)}
