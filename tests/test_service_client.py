"""`nr.Client`: the same key again where that helps, Retry-After, several addresses, one sentence for what is wrong."""

import contextlib
import http.server
import json
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import noregret as nr
from noregret.service.client import Refused


class Script(http.server.BaseHTTPRequestHandler):
    """Answers what the server's list says, in order: (status, body, headers), or "drop" for no answer at all."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.path, dict(self.headers), json.loads(body) if body else None, time.monotonic()))
        answer = self.server.script.pop(0) if self.server.script else (200, {"number": 1}, {})
        if answer == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, body, headers = answer
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def scripted(*script):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Script)
    server.daemon_threads = True
    server.script, server.asked = list(script), []
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def closed():
    """An address at which nobody listens."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{tried.getsockname()[1]}"


def keys(server):
    return [headers["idempotency-key"] for _, headers, _, _ in server.asked]


def test_verbs_paths_and_bodies():
    with scripted() as (server, url), nr.Client(url, "my clinic", token="nr_secret") as client:
        client.begin("Ms B/2", {"age": 54}, unavailable=["drug A"])
        client.begin("Mr A", (1, 0.5))
        client.decide("Ms B/2", "ill")
        client.decide("Ms B/2", 1, action="drug B", step=2)
        client.outcome("Ms B/2", "well", reward=1.0, step=0)
        client.outcome("Ms B/2", "well")
        client.reward("Ms B/2", 1, 0.5)
        client.end("Ms B/2")
        client.end("Ms B/2", wait="close")
        client.close("Ms B/2")
        client.withdraw("Ms B/2", learn=True)
        client.get("alarms")
        client.get()
    here = "/v1/programmes/my%20clinic"
    person = f"{here}/people/Ms%20B%2F2"
    assert [(path, body) for path, _, body, _ in server.asked] == [
        (f"{person}/begin", {"x": {"age": 54}, "unavailable": ["drug A"]}),
        (f"{here}/people/Mr%20A/begin", {"x": [1.0, 0.5]}),
        (f"{person}/decide", {"state": "ill"}),
        (f"{person}/decide", {"state": 1, "action": "drug B", "step": 2}),
        (f"{person}/outcome", {"next_state": "well", "reward": 1.0, "step": 0}),
        (f"{person}/outcome", {"next_state": "well"}),
        (f"{person}/reward", {"step": 1, "reward": 0.5}),
        (f"{person}/end", {}),
        (f"{person}/end", {"wait": "close"}),
        (f"{person}/close", {}),
        (f"{person}/withdraw", {"learn": True}),
        (f"{here}/alarms", None),
        (here, None),
    ]
    assert all(headers["authorization"] == "Bearer nr_secret" for _, headers, _, _ in server.asked)
    assert len(set(keys_of_posts(server))) == 11


def keys_of_posts(server):
    return [headers["idempotency-key"] for _, headers, body, _ in server.asked if body is not None]


def test_the_same_key_until_there_is_an_answer_and_retry_after_is_kept():
    busy = (503, {"error": "the queue is full"}, {"retry-after": "1"})
    with scripted("drop", busy, (502, b"<html>", {}), (200, {"number": 7}, {})) as (server, url):
        assert nr.Client(url, "clinic").end("Ms B") == {"number": 7}
    assert len(server.asked) == 4
    assert len(set(keys(server))) == 1
    times = [when for *_, when in server.asked]
    assert times[2] - times[1] >= 1.0


def test_a_key_of_the_callers_own():
    with scripted() as (server, url):
        client = nr.Client(url, "clinic")
        client.end("Ms B", key="visit-7")
        client.end("Ms B", key="visit-7")
    assert keys(server) == ["visit-7", "visit-7"]


def test_what_is_refused_is_not_asked_again():
    with scripted((409, {"error": "this person has ended"}, {})) as (server, url):
        with pytest.raises(Refused, match=r"^this person has ended \(409\)$") as error:
            nr.Client(url, "clinic").decide("Ms B", 0)
        assert isinstance(error.value, ValueError)
        assert error.value.status == 409
        assert len(server.asked) == 1
    with scripted((500, b"oops", {})) as (_, url), pytest.raises(Refused, match="answered 500"):
        nr.Client(url, "clinic").decide("Ms B", 0)


def test_the_next_address_is_tried_at_once_and_remembered():
    with scripted() as (server, url):
        client = nr.Client([closed(), url], "clinic", patience=5)
        began = time.monotonic()
        client.end("Ms B")
        client.end("Ms B")
        assert len(server.asked) == 2
        assert time.monotonic() - began < 2.0


def test_a_process_that_stands_by_sends_its_callers_on():
    standing_by = (503, {"error": "another process has this programme"}, {"retry-after": "1"})
    with scripted(standing_by) as (first, one), scripted() as (second, two):
        nr.Client([one, two], "clinic").end("Ms B")
        assert keys(first) == keys(second)


def test_nobody_answers_is_one_sentence_after_the_patience():
    began = time.monotonic()
    with pytest.raises(ConnectionError, match=r"^http://127.0.0.1:\d+ does not answer: Connection refused$"):
        nr.Client(closed(), "clinic", patience=0.3).end("Ms B")
    assert time.monotonic() - began < 5.0
    busy = (503, {"error": "the queue is full"}, {"retry-after": "60"})
    with scripted(busy, busy) as (_, url), pytest.raises(ConnectionError, match=r"^the queue is full$"):
        nr.Client(url, "clinic", patience=0.5).end("Ms B")  # it does not wait a minute to give up


def test_one_connection_serves_many_requests_and_a_lost_one_is_made_anew():
    with scripted((200, {}, {}), (200, {}, {}), (200, {}, {"connection": "close"})) as (server, url):
        accepted, plain = [], server.get_request
        server.get_request = lambda: accepted.append(1) or plain()
        with nr.Client(url, "clinic") as client:
            for _ in range(5):
                client.end("Ms B")
    assert len(server.asked) == 5
    assert len(accepted) == 2


@pytest.mark.parametrize(
    ("url", "programme"),
    [("127.0.0.1:80", "a"), ("ftp://x", "a"), ([], "a"), (3, "a"), ("http://x", ""), ("http://x", 3)],
)
def test_bad_arguments_are_one_sentence(url, programme):
    with pytest.raises(ValueError, match=r"^(url|programme) must be"):
        nr.Client(url, programme)


def test_nan_is_refused_before_it_is_sent():
    with scripted() as (server, url):
        with pytest.raises(ValueError, match="JSON"):
            nr.Client(url, "clinic").reward("Ms B", 0, float("nan"))
        assert not server.asked


@pytest.mark.long
def test_the_client_needs_nothing_but_the_standard_library_beside_the_library():
    heavy = "{'starlette', 'uvicorn', 'msgspec', 'sqlalchemy', 'alembic', 'httptools', 'uvloop'}"
    text = (
        f"import sys, noregret as nr; nr.Client('http://127.0.0.1:9', 'a'); print(sorted({heavy} & set(sys.modules)))"
    )
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[]"


# Servers that lie -----------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def lying(*pieces, again=0, pause=0.0):
    """Whoever connects gets these bytes, the last of them so many times more; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answered(caller):
            with caller, contextlib.suppress(OSError):
                caller.recv(1 << 16)
                for piece in (*pieces, *(pieces[-1] for _ in range(again))):
                    caller.sendall(piece)
                    time.sleep(pause)

        def listen():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answered, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def whole(body, *headers, status=b"200 OK"):
    head = (b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers)
    return b"\r\n".join(head) + b"\r\n\r\n" + body


ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize("pieces", [
    [whole(b"{{{")], [whole(b"")], [whole(b"[]")], [whole(b'"x"')], [whole(b"null")], [whole(b"[" * 100_000)],
    [whole(b'{"a":' + b"9" * 5_000 + b"}")], [whole(b"{}")[:-1]],
    [b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\n{}"],
    [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n{}"], [b"SSH-2.0\r\n"],
    [whole(b'{"error":"x"}', "retry-after: ²".encode("latin-1"), status=b"503 No")],
])  # fmt: skip
def test_an_answer_that_is_none_is_no_answer(pieces):
    with lying(*pieces) as url, pytest.raises(ConnectionError):
        nr.Client(url, "clinic", patience=0.1, timeout=5.0).decide("Ms B", 0)


@pytest.mark.parametrize("pieces", [
    [ENDLESS, b" "], [b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 200 OK\r\na: ", b"x"],
])  # fmt: skip
def test_an_answer_that_comes_in_drops_is_waited_for_as_long_as_any_other(pieces):
    with lying(*pieces, again=400, pause=0.05) as url:
        began = time.monotonic()
        with pytest.raises(ConnectionError, match=r"took too long|timed out"):
            nr.Client(url, "clinic", patience=0.0, timeout=0.5).decide("Ms B", 0)
        assert time.monotonic() - began < 10.0


def test_an_answer_without_an_end_is_given_up(monkeypatch):
    monkeypatch.setattr(nr.service.client, "LONGEST", 1 << 20)
    with lying(ENDLESS, b" " * (1 << 16), again=1000) as url, pytest.raises(ConnectionError, match="1,048,576 bytes"):
        nr.Client(url, "clinic", patience=0.0, timeout=60.0).decide("Ms B", 0)


def test_a_kept_connection_has_its_whole_timeout_again():
    with scripted() as (_, url), nr.Client(url, "clinic", patience=0.0, timeout=0.5) as client:
        for _ in range(4):
            client.end("Ms B")
            time.sleep(0.2)


def test_numbers_of_numpy_are_numbers():
    with scripted() as (server, url), nr.Client(url, "clinic", patience=0.0) as client:
        client.begin("Ms B", {"age": np.int64(3), "marker": np.float32(0.5)})
        client.decide("Ms B", np.int64(1))
        client.outcome("Ms B", np.int64(0), reward=np.float32(0.5))
    told = [body for _, _, body, _ in server.asked]
    assert told == [{"x": {"age": 3, "marker": 0.5}}, {"state": 1}, {"next_state": 0, "reward": 0.5}]


@pytest.mark.parametrize("ask", [
    lambda c: c.begin("w", 5), lambda c: c.begin("w", None), lambda c: c.begin("w", "ab"),
    lambda c: c.decide("w", object()), lambda c: c.decide("w", 1, key=5), lambda c: c.decide("w", 1, key="é"),
    lambda c: c.decide("w", 1, key="a\r\nb"), lambda c: c.get("a\r\nb"),
    lambda c: nr.Client("http://h:99999", "p"), lambda c: nr.Client("http://h:x", "p"),
    lambda c: nr.Client("http://a b", "p"), lambda c: nr.Client("http://h/\r\nx", "p"),
    lambda c: nr.Client("http://h", "p", token="a\nb"), lambda c: nr.Client("http://h", "p", token=5),
])  # fmt: skip
def test_what_cannot_be_asked_is_one_sentence_at_once(ask):
    client, began = nr.Client(closed(), "clinic", patience=20.0), time.monotonic()
    with pytest.raises(ValueError, match="must be"):
        ask(client)
    assert time.monotonic() - began < 5.0
