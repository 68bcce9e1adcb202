"""`nr.Client`: the same key again where that helps, Retry-After, several addresses, one sentence for what is wrong."""

import contextlib
import http.server
import json
import socket
import subprocess
import sys
import threading
import time

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
