"""The HTTP face alone, on a host without an agent: roles, keys, errors, hostile callers, logs, metrics."""

import asyncio
import contextlib
import io
import json
import re
import select
import socket
import subprocess
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import noregret as nr
import serving as lab
from noregret.journal.errors import DAMAGED, JournalDamaged, JournalUnavailable
from noregret.service import app, wire
from noregret.service.app import App, operations
from noregret.service.asking import Refusal
from noregret.service.reading import DEEPEST
from noregret.service.tokens import ROLES, Tokens
from serving import ask

P = "/v1/programmes/null"
PERSON = f"{P}/people/Ms%20B"
DECIDE = f"{PERSON}/decide"
BODIES = {
    "begin": {"x": [0.5, 0.5]}, "decide": {"state": 0}, "outcome": {"next_state": 0, "reward": 0.5}, "end": {},
    "reward": {"step": 0, "reward": 0.5}, "close": {}, "withdraw": {"learn": False}, "erase": {"who": "Ms B"},
    "rank": {"actions": [{"id": "tea", "features": []}]}, "rank_reward": {"eventId": "e", "value": 1.0},
    "azure_rank": {"actions": [{"id": "tea", "features": []}]}, "azure_reward": {"value": 1.0},
    "programme_azure_rank": {"actions": [{"id": "tea", "features": []}]}, "programme_azure_reward": {"value": 1.0},
    "create": {"programme": {}},
}  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """(port, service, programme, tokens by role, the log's file)."""
    tokens = Tokens(tmp_path_factory.mktemp("tokens") / "tokens.json")
    secrets = {role: tokens.add(role, role) for role in ROLES}
    secrets["elsewhere"] = tokens.add("elsewhere", ROLES, ["another"])
    log = io.BytesIO()
    service, programme = lab.null_service(tokens, log)
    with lab.serving(service) as port:
        yield port, service, programme, secrets, log


@pytest.fixture(scope="module")
def port(running):
    return running[0]


@pytest.fixture(scope="module")
def decide(running):
    return running[3]["decide"]


def path_of(op):
    filled = {"name": "null", "who": "Ms%20B", "step": "0", "event": "e1"}
    return re.sub(r"{(\w+)}", lambda found: filled[found[1]], op.path)


def tried(port, op, token, key="k"):
    return ask(port, op.method, path_of(op), BODIES.get(op.verb), token, f"{key}-{op.verb}" if op.keyed else None)


# Roles ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("role", ["nobody", *ROLES, "elsewhere"])
def test_a_token_of_one_role_cannot_do_anothers(running, role):
    """Every path with every role: 401 without a token, 403 with another's, and something else with the right one."""
    port, _, _, secrets, _ = running
    for op in operations():
        status, answer, headers = tried(port, op, secrets.get(role), f"role-{role}")
        if op.role is None:
            assert status == 200, op.verb
        elif role == "nobody":
            assert (status, headers["www-authenticate"]) == (401, "Bearer"), op.verb
        elif role == "elsewhere":  # all roles, in another programme: what is about none may be asked
            assert status == (403 if "{name}" in op.path or op.verb == "create" else status), op.verb
            assert op.verb not in ("azure_rank", "azure_reward", "azure_activate") or status == 404
        elif role != op.role:
            assert status == 403, op.verb
            assert f"the role {op.role}" in json.dumps(answer)
        else:
            assert status not in (401, 403), op.verb
            assert status < 500, op.verb


def test_tokens_that_are_none_are_nobodys(running):
    port, _, _, secrets, _ = running
    good = secrets["decide"]
    for header in (
        {"authorization": f"Basic {good}"}, {"authorization": good}, {"authorization": "Bearer "},
        {"authorization": f"Bearer {good}x"}, {"cookie": f"noregret={good}"}, {"authorization": "Bearer " + "x" * 5000},
    ):  # fmt: skip
        assert ask(port, "POST", DECIDE, {"state": 0}, key="a", headers=header)[0] == 401
    assert ask(port, "POST", DECIDE, {"state": 0}, key="a", headers={"Ocp-Apim-Subscription-Key": good})[0] == 200
    assert ask(port, "POST", f"{DECIDE}?token={good}", {"state": 0}, key="a")[0] == 401


def test_lists_show_what_the_token_may_see(running):
    port, _, _, secrets, _ = running
    assert [one["name"] for one in ask(port, "GET", "/v1/programmes", token=secrets["read"])[1]["programmes"]] == [
        "null"
    ]
    assert ask(port, "GET", "/v1/programmes", token=secrets["elsewhere"])[1] == {"programmes": []}
    assert (
        b'programme="null"'
        not in ask(port, "GET", "/metrics", token=secrets["elsewhere"])[1].split(b"noregret_ready")[1]
    )


def test_a_token_taken_away_is_refused_within_a_second(running):
    port, service, _, _, _ = running
    secret = service.tokens.add("guest", "decide")
    other = Tokens(service.tokens.path)
    assert ask(port, "POST", DECIDE, {"state": 0}, secret, "guest")[0] == 200
    other.remove("guest")
    until = time.monotonic() + 60
    while ask(port, "POST", DECIDE, {"state": 0}, secret, "guest")[0] == 200:
        assert time.monotonic() < until
        time.sleep(0.05)


# Requests -------------------------------------------------------------------------------------------------------------
def test_the_same_key_the_same_bytes_and_another_body_is_refused(port, decide):
    first = ask(port, "POST", DECIDE, b'{"state": 0, "step": 3}', decide, "once")
    again = ask(
        port, "POST", DECIDE, b' {"step":3,"action":null,"state":0}', decide, "once"
    )  # the same, said otherwise
    assert first[:2] == again[:2]
    assert ask(port, "POST", DECIDE, {"state": 0, "step": 4}, decide, "once")[0] == 409


@pytest.mark.parametrize("key", [None, "", "a" * 201, "k\u00e9y", "two words"])
def test_a_writing_request_needs_a_key(port, decide, key):
    status, answer, _ = ask(
        port, "POST", DECIDE, {"state": 0}, decide, headers={} if key is None else {"idempotency-key": key.encode()}
    )
    assert status == 400
    assert "Idempotency-Key" in answer["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 415), (b"{}", 422), (b"null", 422), (b"[]", 422), (b'"state"', 422), (b"{", 400), (b'{"state":0}x', 400),
        (b'{"state":0,"more":1}', 422), (b'{"state":-1}', 422), (b'{"state":1.5}', 422), (b'{"state":true}', 422),
        (b'{"state":null}', 422), (b'{"state":NaN}', 400), (b'{"state":Infinity}', 400), (b'{"state":1e999}', 422),
        (b'{"state":' + b"9" * 10_000 + b"}", 422), (b'{"state":"' + b"a" * 201 + b'"}', 422),
        (b'{"state":"\xff\xfe"}', 400), (b'{"state":"\\ud800"}', 400), (b"\xef\xbb\xbf{}", 400), (b"\x00", 400),
        (b'{"state":0,"step":null,"step":3}', 400), (b'{"step":null,"state":0,"step":null}', 400),
        (b'{"state":0,"state":1}', 400), (b'{"state":0,"st\\u0061te":1}', 400), (b"[" * 10_000, 400),
        (b'{"state":' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400), (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400),
        (b"[" * DEEPEST + b"]" * DEEPEST, 422), (b'{"state":"' + b"[" * 300 + b'"}', 422), (b"7" * 60_000, 422),
        (b" " * 60_000 + b"{}", 422), (b'{"state":0}' + b" " * 60_000, 200), (b'"' * 60_001, 422),
    ],
)  # fmt: skip
def test_bodies_that_are_not_what_they_should_be(port, decide, body, status):
    began = time.process_time()
    headers = {} if body else {"content-type": "text/plain"}
    got, answer, _ = ask(port, "POST", DECIDE, body, decide, f"b{hash(body)}", headers)
    assert got == status, answer
    assert status == 200 or (set(answer) == {"error"} and len(answer["error"]) < 400 and "\n" not in answer["error"])
    assert time.process_time() - began < 0.5  # of the caller, too: they share a process


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200), ("application/json; charset=utf-8", 200), ('APPLICATION/JSON;charset="UTF-8"', 200),
        ("application/json; charset=utf-16", 415), ("text/plain", 415), ("", 415), ("application/xml", 415),
        ("application/x-www-form-urlencoded", 415), ("multipart/form-data", 415), ("application/jsonx", 415),
    ],
)  # fmt: skip
def test_content_types(port, decide, kind, status):
    got = ask(port, "POST", DECIDE, b'{"state": 0}', decide, "kind", {"content-type": kind})
    assert got[0] == status


def test_a_compressed_body_is_refused_before_it_can_grow(port, decide):
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    assert ask(port, "POST", DECIDE, b"\x1f\x8b" + b"\0" * 100, decide, "zip", headers)[0] == 415


def test_bodies_that_may_be_left_out(port, running):
    token = running[3]["report"]
    for i, verb in enumerate(("end", "close", "withdraw")):
        assert ask(port, "POST", f"{PERSON}/{verb}", None, token, f"none-{i}")[0] == 200
    assert ask(port, "POST", f"{PERSON}/outcome", None, token, "none")[0] == 415


@pytest.mark.parametrize(
    ("who", "status", "said"),
    [("Ms%20B", 200, "Ms B"), ("a%2Fb", 200, "a/b"), ("%E2%82%AC", 200, "\u20ac"), ("%00", 200, "\0"),
     ("%ff", 400, None), ("%ED%A0%80", 400, None), ("a" * 200, 200, "a" * 200), ("a" * 201, 422, None),
     ("%", 200, "%"), ("..", 200, ".."),
     ("", 404, None), ("a" * 30_000, 422, None), ("a" * 40_000, 431, None)],
)  # fmt: skip
def test_people_are_named_by_anything_that_can_be_written(port, decide, who, status, said):
    with contextlib.suppress(ConnectionResetError):  # the answer is read, then the connection is gone
        got, answer, _ = ask(port, "POST", f"{P}/people/{who}/decide", {"state": 0}, decide, f"who-{hash(who)}")
        assert got == status
        assert status != 200 or answer["who"] == said


def test_paths_and_methods_that_are_not_there(port):
    for path in (
        "/",
        "/v1",
        "/v1/",
        "/v1/programmes/",
        "/v1//programmes",
        "/%2e%2e/etc/passwd",
        f"{P}/people/a/b/decide",
    ):
        status, answer, _ = ask(port, "GET", path)
        assert (status, set(answer)) == (404, {"error"}), path
    for path in {op.path for op in operations()}:
        here = [op for op in operations() if op.path == path]
        for method in {"GET", "PUT", "DELETE", "PATCH", "POST", "TRACE"} - {op.method for op in here}:
            status, answer, headers = ask(port, method, path_of(here[0]))
            assert (status, set(answer)) == (405, {"error"}), (method, path)
            assert {op.method for op in here} == set(headers["allow"].split(", ")) - {"HEAD"}


# Hostile connections --------------------------------------------------------------------------------------------------
def exchange(port, *parts, pause=0.0, wait=15.0):
    """Bytes sent as they are, and the first answer; what is left of the connection is given up then."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection:
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        got = b""
        with contextlib.suppress(OSError):
            while chunk := connection.recv(1 << 16):
                got += chunk
                front, end, body = got.partition(b"\r\n\r\n")
                if end and len(body) >= int((re.search(rb"content-length: (\d+)", front) or (0, b"0"))[1]):
                    break
    return got


def head(token, length=None, extra=b""):
    more = b"" if length is None else b"content-length: %d\r\n" % length
    return (
        b"POST %s HTTP/1.1\r\nhost: x\r\nidempotency-key: h\r\ncontent-type: application/json\r\n"
        b"authorization: Bearer %s\r\n%s%s\r\n" % (DECIDE.encode(), token.encode(), more, extra)
    )


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"), (b"GET / HTTP/9.9\r\n\r\n", b"400"), (b"\x16\x03\x01\x02\x00\x01", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 100_000, b"431"), (b"GET /" + b"a" * 100_000, b"431"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 20_000, b"431"), (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", b"404"),
    ],
)  # fmt: skip
def test_what_is_no_request(port, sent, status):
    got = exchange(port, sent)
    assert got.split(b" ")[1] == status, got[:200]
    assert b"content-type: application/json" in got
    assert json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]


def test_two_keys_or_two_types_are_refused(port, decide):
    for extra in (b"idempotency-key: other\r\n", b"content-type: text/plain\r\n"):
        assert exchange(port, head(decide, 11, extra) + b'{"state":0}').split(b" ")[1] == b"400"


def test_answers_written_whole_are_as_those_in_parts(port, decide):
    """Kept connections, several requests at once, a last one, and a HEAD, which has no body."""
    asked, last = (
        head(decide, 11, more).replace(b"key: h", b"key: whole") + b'{"state":0}'
        for more in (b"", b"connection: close\r\n")
    )
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=15.0) as connection:
        connection.sendall(asked + asked + last)
        while chunk := connection.recv(1 << 16):
            got += chunk
    first, second, third = got.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert first == second
    top, _, body = first.partition(b"\r\n\r\n")
    names = dict(line.split(b": ") for line in top.split(b"\r\n"))
    assert names == {
        b"content-type": b"application/json", b"cache-control": b"no-store", b"content-length": b"%d" % len(body)
    }  # fmt: skip
    assert third == first.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    told = exchange(port, b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert told.endswith(b"\r\n\r\n")
    assert b"content-length: 0" not in told


def test_answers_without_asgi_are_as_those_with_it(running, decide, monkeypatch):
    """The same requests the short way and, with it closed, the long way: the same headers and bodies."""
    port, _, programme, _, _ = running
    short, bodies = [], [b'{"state":0}', b'{"state":', b'{"nothing":0}', b"[]", b'{"state":0,"state":0}', b""]

    def both(*parts):
        ways = []
        for open_one in (True, False):
            with monkeypatch.context() as m:
                find = App.direct
                found = lambda self, *of, find=find: short.append(find(self, *of)) or short[-1]  # noqa: E731
                m.setattr(App, "direct", found if open_one else lambda self, *of: None)
                ways.append(re.sub(rb"date: .*\r\n", b"", exchange(port, *parts)))
        assert sorted(ways[0].split(b"\r\n")) == sorted(ways[1].split(b"\r\n")), ways
        return ways[0].split(b" ")[1]

    assert [both(head(decide, len(b)) + b) for b in bodies] == [b"200", b"400", b"422", b"422", b"400", b"400"]
    asked = head(decide, 11) + b'{"state":0}'
    assert both(asked.replace(b"Bearer nr_", b"Bearer xx_")) == b"401"
    assert both(asked.replace(b"null", b"none")) == b"404"
    assert both(asked.replace(b"idempotency-key", b"nothing")) == b"400"
    assert both(asked.replace(b"key: h", b"key: g").replace(b"/json", b"/xml")) == b"415"
    assert both(asked.replace(b"\r\nhost", b"\r\nconnection: close\r\nhost")) == b"200"
    assert both(head(decide, 11), b'{"sta', b'te":0}') == b"200"
    assert both(asked.replace(b"Ms%20B", b"%ff")) == b"400"
    assert all(short)
    short.clear()
    programme.full = True
    assert both(asked) == b"503"
    programme.full = False
    for odd in (b"expect: 100-continue\r\n", b"idempotency-key: h\r\n", b"transfer-encoding: chunked\r\n"):
        both(head(decide, 11 if b"chunked" not in odd else None, odd) + b'{"state":0}')
    both(asked.replace(b"/decide", b"/decide?a=b"))
    both(asked.replace(b"/decide", b"/nothing"))
    both(asked.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert short[0]
    assert not any(short[1:])  # none of these went the short way


def test_a_connection_on_which_nothing_is_asked_is_closed(port, decide, monkeypatch):
    with socket.create_connection(("127.0.0.1", port), timeout=15.0) as connection:
        for _ in range(2):
            connection.sendall(head(decide, 11) + b'{"state":0}')
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            time.sleep(1.1)  # looked at once a second
        monkeypatch.setattr(wire, "KEPT", 0.1)
        assert connection.recv(1) == b""


def test_a_large_body_is_refused_by_its_header_before_any_of_it_is_sent(port, decide):
    got = exchange(port, head(decide, 100 << 20, b"expect: 100-continue\r\n"), wait=5)
    assert got.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in got


def test_a_large_body_in_chunks_is_refused_on_the_way(port, decide):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    assert exchange(port, head(decide, None, b"transfer-encoding: chunked\r\n"), *[chunk] * 3).startswith(
        b"HTTP/1.1 413"
    )


def test_without_a_token_a_large_body_is_not_read_either(port):
    assert exchange(port, head("nr_nobody", 100 << 20), b" " * (1 << 20)).startswith(b"HTTP/1.1 401")


@pytest.mark.long
def test_requests_that_come_slowly_are_given_up(port, decide, monkeypatch):
    monkeypatch.setattr(wire, "SLOW", 0.5)
    began = time.monotonic()
    for parts in ([b""], [b"POST /v1/"], [head(decide, 11), b'{"sta']):
        got = exchange(port, *parts)
        assert got.startswith(b"HTTP/1.1 408"), (parts, got)
    drop = [bytes([c]) for c in head(decide, 11)]
    assert exchange(port, *drop, pause=0.02).startswith(b"HTTP/1.1 408")  # a byte at a time
    assert time.monotonic() - began < 20
    monkeypatch.undo()
    assert ask(port, "POST", DECIDE, {"state": 0}, decide, "after")[0] == 200


def test_connections_leave_room_for_the_journal(port, monkeypatch):
    assert wire.Connection.most >= wire.ROOM
    monkeypatch.setattr(wire.Connection, "most", 5)
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    try:
        refused, until = {}, time.monotonic() + 20.0  # which of them is the event loop's choice
        while len(refused) < 3 and time.monotonic() < until:
            for connection in select.select([c for c in held if c not in refused], [], [], 0.2)[0]:
                refused[connection] = connection.recv(1000)
        time.sleep(0.2)
        assert len(refused) >= 3  # and no more than five are kept
        assert all(got.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in got for got in refused.values())
    finally:
        for connection in held:
            connection.close()
    monkeypatch.undo()
    assert ask(port, "GET", "/health")[0] == 200


def test_a_caller_who_goes_away_leaves_nothing_behind(running, decide, monkeypatch):
    port, service, programme, _, _ = running
    monkeypatch.setattr("noregret.service.app.PATIENCE", 0.3)
    programme.silent = True
    try:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head(decide, 11) + b'{"state":0}')
            time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head(decide, 11) + b'{"st')
    finally:
        programme.silent = False
    until = time.monotonic() + 60
    while service._waiting:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert ask(port, "GET", "/health")[0] == 200


def test_requests_of_one_connection_wait_outside(port, monkeypatch):
    """Nothing more is read of a connection while requests of it wait, and all of them are answered, in order."""
    most, received = [0], wire.Connection.data_received

    def counted(self, data):
        received(self, data)
        most[0] = max(most[0], len(self.pipeline))

    monkeypatch.setattr(wire.Connection, "data_received", counted)
    one, number = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n", 60_000
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        sender = threading.Thread(target=connection.sendall, args=(one * number,))
        sender.start()
        got = b""
        while got.count(b"HTTP/1.1 200") < 3_000:
            got += connection.recv(1 << 20)
        waiting = most[0]
        connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            sender.join()
    assert 0 < waiting <= (1 << 18) // len(one) + 1  # what one read brings, however much was sent


def test_a_caller_who_does_not_read_is_not_read_either(port):
    """Answers that nobody takes are not heaped up: the caller's own requests get no further."""
    sent, many = 0, (head("nobody", 11) + b'{"state":0}') * 1_000
    with socket.create_connection(("127.0.0.1", port), timeout=3) as connection, contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            sent += connection.send(many)
    assert sent < 64 << 20


@pytest.mark.parametrize("slow", [head("nobody", 11), b"POST /v1/"])
def test_a_request_behind_another_has_the_same_limits(port, decide, slow, monkeypatch):
    whole = head(decide, 11) + b'{"state":0}'
    monkeypatch.setattr(wire, "SLOW", 0.5)
    with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
        connection.sendall(whole + slow)
        got = b""
        while chunk := connection.recv(1 << 16):
            got += chunk
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"408"]
    monkeypatch.undo()
    with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
        connection.sendall(whole + b"GET /health HTTP/1.1\r\nhost: x\r\nx: " + b"a" * (wire.HEADERS + 1) + b"\r\n\r\n")
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 16):
                got += chunk
    assert b"HTTP/1.1 431" in got
    assert len(re.findall(rb"HTTP/1.1 ", got)) <= 2


def test_a_caller_who_leaves_in_the_middle_of_a_body_is_counted(running, decide):
    port, service, _, _, log = running
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(decide, 11) + b'{"st')
        time.sleep(0.1)
    until = time.monotonic() + 60
    while True:
        service.log.flush()
        lines = [json.loads(line) for line in log.getvalue().decode().splitlines()]
        if found := [line for line in lines if line.get("status") == 499]:
            break
        assert time.monotonic() < until
        time.sleep(0.02)
    assert (found[-1]["verb"], found[-1]["programme"]) == ("decide", "null")
    assert found[-1]["ms"] >= 90  # from its first bytes on


@pytest.mark.long
@pytest.mark.deep
def test_hostile_bodies_cost_little(tmp_path):
    """A process of its own: 100 MB, depth 10,000 and huge numbers, three hundred times, in little memory and time."""
    file = tmp_path / "tokens.json"
    token = Tokens(file).add("app", "decide")
    with lab.process(lab.__file__, "serve", "0", str(file), stderr=subprocess.DEVNULL) as (port, run):
        ask(port, "POST", DECIDE, {"state": 0}, token, "first")

        def high():
            return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{run.pid}/status").read_text())[1]) * 1024

        before, cpu = high(), sum(lab.cpu(run.pid))
        for _ in range(3):
            exchange(port, head(token, 100 << 20), *[b"[" * (1 << 20)] * 100)
        for _ in range(97):
            for body in (b"[" * 30_000, b'{"state":' + b"9" * 30_000 + b"}", b'{"x":' * 8000):
                exchange(port, head(token, len(body)) + body)
        print(f"{(high() - before) >> 20} MiB, {sum(lab.cpu(run.pid)) - cpu:.2f} s")
        assert high() - before < 8 << 20
        assert sum(lab.cpu(run.pid)) - cpu < 5.0
        assert ask(port, "GET", "/health")[0] == 200


# What goes wrong inside -----------------------------------------------------------------------------------------------
def test_a_full_queue_says_when_to_come_again(running, decide):
    port, _, programme, _, _ = running
    programme.full = True
    try:
        status, answer, headers = ask(port, "POST", DECIDE, {"state": 0}, decide, "full")
    finally:
        programme.full = False
    assert (status, answer, headers["retry-after"]) == (503, {"error": "the queue is full"}, "2")


def test_a_defect_is_an_answer_and_its_words_stay_in_the_process(running, decide):
    port, service, programme, _, log = running
    programme.broken = True
    try:
        status, answer, _ = ask(port, "POST", DECIDE, {"state": 0}, decide, "broken")
    finally:
        programme.broken = False
    assert status == 500
    service.log.flush()
    assert "Mr A" not in json.dumps(answer) + log.getvalue().decode()
    line = next(line for line in map(json.loads, log.getvalue().splitlines()) if "error" in line)
    assert line["error"] == "RuntimeError"
    assert re.search(r"serving.py:\d+", line["at"])


def test_a_programme_that_never_answers_is_not_waited_for_for_ever(running, decide, monkeypatch):
    port, _, programme, _, _ = running
    monkeypatch.setattr("noregret.service.app.PATIENCE", 0.3)
    programme.silent = True
    try:
        status, _, headers = ask(port, "POST", DECIDE, {"state": 0}, decide, "silent")
    finally:
        programme.silent = False
    assert (status, headers["retry-after"]) == (503, "1")


def test_without_tokens_only_this_machine_is_answered():
    """Names that point here from elsewhere (DNS rebinding) do not help a page in a browser."""
    service, _ = lab.null_service(log=io.BytesIO())
    with lab.serving(service) as port:
        for host, status in (
            (f"127.0.0.1:{port}", 200), ("localhost", 200), (f"LOCALHOST:{port}", 200), (f"[::1]:{port}", 200),
            ("evil.example", 403), (f"evil.example:{port}", 403), ("127.0.0.1.evil.example", 403), ("", 403),
        ):  # fmt: skip
            assert ask(port, "GET", f"{P}", headers={"host": host})[0] == status, host
        assert "securitySchemes" not in ask(port, "GET", "/openapi.json")[1]["components"]


# Operations -----------------------------------------------------------------------------------------------------------
def test_readiness_follows_the_programmes(running):
    port, _, programme, _, _ = running
    for state, status in (("ready", 200), ("paused", 200), ("loading", 503), ("failed", 503), ("standing by", 503)):
        programme.state = state
        got, answer, _ = ask(port, "GET", "/ready")
        assert (got, answer["programmes"]) == (status, {"null": state})
    programme.state = "ready"


def test_metrics_are_prometheus_and_count_every_request(running):
    port, _, _, secrets, _ = running

    def counted():
        text = ask(port, "GET", "/metrics", token=secrets["read"])[1].decode()
        for line in text.splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"\n]*",?)*\})? [0-9.e+-]+', line), line
        found = re.search(r'noregret_requests_total\{programme="null",verb="decide",status="200"\} (\d+)', text)
        count = re.search(r'noregret_request_seconds_count\{verb="decide"\} (\d+)', text)
        assert 'noregret_house_total{programme="null",reason="deadline"} 2' in text
        assert 'noregret_queue{programme="null"} 0' in text
        assert 'noregret_certificate_bucket{programme="null",le="0.5"}' in text
        assert 'noregret_decisions_total{programme="null",by="agent",referred="false"}' in text
        return int(found[1]), int(count[1])

    ask(port, "POST", DECIDE, {"state": 0}, secrets["decide"], "counted-0")
    before = counted()
    for i in range(3):
        ask(port, "POST", DECIDE, {"state": 0}, secrets["decide"], f"counted-{i}")
    after = counted()
    assert (after[0] - before[0], after[1] - before[1]) == (3, 3)


def test_logs_have_nothing_personal_and_nothing_secret(running):
    port, service, _, secrets, log = running
    people = ("Zacharias", "Zoe%2FZ")
    for who in people:
        ask(port, "POST", f"{P}/people/{who}/begin", {"x": {"name": "Zaphod"}}, secrets["decide"], "key-of-Zoe")
        ask(port, "POST", f"{P}/people/{who}/begin", {"zip": "Zaphod"}, secrets["decide"], "key-of-Zoe")
        ask(port, "GET", f"/nowhere/{who}", token=secrets["read"])
    ask(port, "POST", f"{P}/erase", {"who": "Zacharias"}, secrets["admin"], "erase-Zoe")
    service.log.flush()
    text = log.getvalue().decode()
    for secret in (*secrets.values(), "Zacharias", "Zoe", "Zaphod", "127.0.0.1", "/people"):
        assert secret not in text
    lines = [json.loads(line) for line in text.splitlines()]
    began = [line for line in lines if line.get("verb") == "begin"]
    assert set(began[-1]) == {"time", "programme", "verb", "status", "ms", "key"}
    assert began[-1]["key"] == began[-2]["key"]  # the same key has the same hash
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", began[-1]["time"])


def test_an_export_is_an_archive_and_leaves_no_files(running, tmp_path, monkeypatch):
    port, _, _, secrets, _ = running
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    status, data, headers = ask(port, "GET", f"{P}/export", token=secrets["read"])
    assert (status, headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("events.parquet") == b"PAR1"
    until = time.monotonic() + 60
    while list(tmp_path.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_remembered_audits_are_forgotten_when_somebody_is_erased(running, monkeypatch):
    port, service, _, secrets, _ = running
    forgotten = []
    monkeypatch.setattr(service, "aside", SimpleNamespace(forget=lambda: forgotten.append(True)))
    assert ask(port, "POST", "/v1/programmes/null/erase", {"who": "Ms B"}, secrets["admin"], "e-1")[0] == 200
    assert forgotten == [True]


def test_a_journal_that_cannot_be_read_is_a_503(running, monkeypatch):
    port, _, _, secrets, _ = running

    def away(self, *_):
        raise JournalUnavailable("the database of Mr A is away")

    monkeypatch.setattr(lab.NullJournal, "of", away)
    monkeypatch.setattr(lab.NullJournal, "export", away)
    for path in (PERSON, f"{P}/export"):
        status, answer, headers = ask(port, "GET", path, token=secrets["read"])
        assert (status, headers["retry-after"], "Mr A" in answer["error"]) == (503, "1", False)


def test_a_journal_that_is_damaged_says_so(running, monkeypatch):
    port, _, _, secrets, _ = running

    def damaged(*_):
        raise JournalDamaged("event 7 of Mr A")

    for name in ("of", "export"):
        monkeypatch.setattr(lab.NullJournal, name, damaged)
    for path in (PERSON, f"{PERSON}/audit/0", f"{P}/export"):
        status, answer, _ = ask(port, "GET", path, token=secrets["read"])
        assert (status, answer["error"]) == (503, DAMAGED)


def test_an_export_without_room_is_a_sentence_and_the_next_may_have_some(running, monkeypatch):
    port, _, _, secrets, _ = running

    def full(*_, **__):
        raise OSError(28, "No space left on device", "/tmp/of Mr A")

    with monkeypatch.context() as now:
        now.setattr(lab.NullJournal, "export", full)
        status, answer, _ = ask(port, "GET", f"{P}/export", token=secrets["read"])
        assert (status, "No space" in answer["error"], "Mr A" in answer["error"]) == (503, True, False)
    with monkeypatch.context() as now:
        now.setattr(tempfile, "mkdtemp", full)
        assert ask(port, "GET", f"{P}/export", token=secrets["read"])[0] == 503
    assert ask(port, "GET", f"{P}/export", token=secrets["read"])[0] == 200


@pytest.mark.parametrize(("heads", "status"), [([0, 0, 1], 201), ([0] * 9, 503)])
def test_a_programme_is_made_when_it_is_in_the_journal(heads, status, monkeypatch):
    service, programme = lab.null_service()
    left = iter(heads)
    journal = type("Heads", (), {"head": property(lambda _: next(left))})()
    programme.open_journal = lambda: journal
    service.host.create = lambda settings: programme
    monkeypatch.setattr(app, "CREATED", 0.05)
    if status == 201:
        assert asyncio.run(service.create(None)) is programme
        assert list(left) == []
    else:
        with pytest.raises(Refusal) as refused:
            asyncio.run(service.create(None))
        assert refused.value.answer.status == 503


def test_rank_and_reward_as_personalizer_has_them(running):
    port, _, _, secrets, _ = running
    keys = {"Ocp-Apim-Subscription-Key": secrets["decide"]}
    actions = [{"id": name, "features": [{"hot": True}]} for name in ("milk", "tea", "water")]
    told = {"contextFeatures": [{"user": {"age": 3}}], "actions": actions, "excludedActions": ["milk"], "eventId": "e7"}
    status, answer, _ = ask(port, "POST", "/personalizer/v1.0/rank", told, headers=keys)
    assert status == 201
    assert answer == {
        "ranking": [
            {"id": "tea", "probability": 0.5}, {"id": "milk", "probability": 0.0}, {"id": "water", "probability": 0.5},
        ],
        "eventId": "e7", "rewardActionId": "tea",
    }  # fmt: skip
    assert ask(port, "POST", f"{P}/personalizer/v1.0/rank", told, headers=keys)[1] == answer  # asked again
    made = ask(port, "POST", f"{P}/rank", {"actions": actions}, headers=keys)[1]["eventId"]
    assert made not in ("e7", None)
    report = {"Ocp-Apim-Subscription-Key": secrets["report"]}
    for _ in range(2):
        assert ask(port, "POST", "/personalizer/v1.0/events/e7/reward", {"value": 1.0}, headers=report)[:2] == (
            204,
            b"",
        )
    status, answer, _ = ask(port, "POST", "/personalizer/v1.0/events/e7/reward", {"value": 0.5}, headers=report)
    assert (status, answer["error"]["code"]) == (409, "Conflict")
    assert ask(port, "POST", "/personalizer/v1.0/events/e7/activate", headers=report)[0] == 204
    assert ask(port, "POST", f"{P}/reward", {"eventId": made, "value": 0.0}, headers=report)[0] == 204


def asked_of(programme, monkeypatch):
    """The requests that it is given from now on."""
    asks, submit = [], programme.submit
    monkeypatch.setattr(programme, "submit", lambda one: asks.append(one) or submit(one))
    return asks


def test_a_context_does_not_grow_in_a_rank(running, monkeypatch):
    """Dotted names have those above them in each: 60 kB became a row of 200 MB, which no journal took."""
    port, _, programme, secrets, _ = running
    asks = asked_of(programme, monkeypatch)
    deep = {"K" * 30_000: {f"{i:x}": 1 for i in range(3000)}, "text": "x" * 1001}
    told = {"actions": [{"id": "tea", "features": []}], "contextFeatures": [deep | {"user": {"age": 3}}]}
    status, answer, _ = ask(port, "POST", f"{P}/rank", told, secrets["decide"])
    assert status == 201, answer
    assert asks[0].body["x"] == {"user.age": 3, "age": 3}
    told["contextFeatures"] = [{"age": 10**400}]
    status, answer, _ = ask(port, "POST", f"{P}/rank", told, secrets["decide"])
    assert (status, "contextFeatures" in answer["error"]["message"]) == (422, True)


def test_a_state_that_cannot_be_is_refused_before_anybody_begins(running, monkeypatch):
    port, _, programme, secrets, _ = running
    asks = asked_of(programme, monkeypatch)
    told = {"actions": [{"id": "tea", "features": []}], "contextFeatures": [{"user": {"state": "California"}}]}
    assert ask(port, "POST", f"{P}/rank", told, secrets["decide"])[0] == 201  # there is one state: it is a feature
    assert [one.body.get("state") for one in asks] == [None, 0]
    two = {"n_states": 2, "n_actions": 3, "horizon": 1, "context_dim": 2, "weight_bound": 1.0, "reward_bound": 1.0}
    monkeypatch.setattr(programme, "problem", nr.Problem(**two, action_names=("tea", "milk", "water")))
    asks.clear()
    status, answer, _ = ask(port, "POST", f"{P}/rank", told, secrets["decide"])
    assert (status, "state must be" in answer["error"]["message"], asks) == (422, True, [])


@pytest.mark.parametrize(
    ("told", "sentence"),
    [({"actions": [{"id": "gin", "features": []}]}, "those of the programme"), ({"actions": []}, "length >= 1"),
     ({"actions": [{"id": "tea", "features": []}] * 2}, "different ids"), ({}, "actions"),
     ({"actions": [{"id": "tea", "features": []}], "excludedActions": ["tea"]}, "must leave an action")],
)  # fmt: skip
def test_ranks_that_cannot_be(port, decide, told, sentence):
    status, answer, _ = ask(port, "POST", f"{P}/rank", told, decide)
    assert (status, answer["error"]["code"]) == (422, "UnprocessableEntity")
    assert sentence in answer["error"]["message"]


def of_own(name, **options):
    problem = {"n_states": 2, "n_actions": 2, "horizon": 3, "context_dim": 2, "weight_bound": 2.0, "reward_bound": 1.0}
    told = {"programme": {"name": "mine"}, "problem": problem, "agent": {"name": name, **options}}
    return json.dumps(told | {"house": {"rule": {"0": 1, "1": 0}}}).encode()


def test_programmes_from_bad_files(running):
    port, _, _, secrets, _ = running
    admin = secrets["admin"]
    toml = {"content-type": "application/toml"}
    for body, headers, status, sentence in (
        (b"[programme]\nname = 3", toml, 422, "line 2, programme.name"), (b"[programme", toml, 400, "not TOML"),
        (b"\xff", toml, 400, "UTF-8"), (b"{}", {}, 422, "programme: is missing"), (b"[]", {}, 422, "object"),
        (b'{"problem": {"agent_file": "/etc/passwd"}}', {}, 422, "cannot be given over HTTP"),
        (b"a = " + b"[" * 10_000, toml, 400, "nested"), (b"{}", {"content-type": "text/csv"}, 415, "JSON"),
        (of_own("os:system"), {}, 422, "cannot be named over HTTP"),
        (of_own("certified", agent={"name": "os:system"}), {}, 422, "cannot be named over HTTP"),
        (of_own("certified-psrl", delta=5), {}, 422, "delta must be"),
        (of_own("certified-psrl", plans=10**12), {}, 422, "plans"),
    ):  # fmt: skip
        got, answer, _ = ask(port, "POST", "/v1/programmes", body, admin, headers=headers)
        assert (got, sentence in answer["error"]) == (status, True), (body, answer)


def test_the_description_has_every_operation_and_every_status(running):
    port, service, _, _, _ = running
    told = ask(port, "GET", "/openapi.json")[1]
    assert told["openapi"] == "3.1.0"
    for op in service.operations:
        said = told["paths"][op.path][op.method.lower()]
        assert {int(status) for status in said["responses"]} == {*op.answers, *op.failures()}
        assert ("security" in said) == (op.role is not None)
        assert op.body is None or "requestBody" in said
    refs = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)))
    assert refs <= set(told["components"]["schemas"])
