"""A host without an agent, for tests of the HTTP face alone; and servers as processes of their own, for all the rest.

`python tests/serving.py measure` says what a request costs the HTTP face alone, in processor time."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import noregret as nr
from noregret.service.app import App, Service
from noregret.service.asking import Answer, encoded, refused
from noregret.service.logs import Log
from noregret.service.tokens import Tokens
from noregret.service.wire import server


class NullProgramme:
    """Answers at once, from the event loop, what a programme could answer; remembers keys; learns nothing.

    full: the queue is; silent: nothing is ever answered; broken: it raises."""

    def __init__(self, name="null", horizon=1):
        self.settings = SimpleNamespace(name=name, programme=SimpleNamespace(title="A programme of nothing"))
        self.problem = nr.Problem(
            n_states=1, n_actions=3, horizon=horizon, context_dim=2, weight_bound=1.0, reward_bound=1.0,
            action_names=("tea", "milk", "water"),
        )  # fmt: skip
        self.state, self.encoder = "ready", None
        self.full = self.silent = self.broken = False
        self.on_answers = None
        self._known, self._number = {}, 0

    def submit(self, ask):
        if self.broken:
            raise RuntimeError("the words of Mr A")
        if self.full:
            return refused(503, "the queue is full", 2)
        if not self.silent:
            self.on_answers([(ask, self._answer(ask))])
        return None

    def _answer(self, ask):
        if ask.key in self._known:
            asked, answer = self._known[ask.key]
            return answer if asked == ask.asked else refused(409, "the key was used for another request")
        self._number += 1
        told = {"who": ask.who, "number": self._number, "step": 0}
        if ask.verb == "begin":
            told |= {"episode": 0, "plan": None, "certificate": None, "referred": None, "by": "agent", "version": "0"}
            told |= {"reason": None}
        elif ask.verb == "decide":
            told |= {
                "state": 0, "action": "tea", "probability": 0.5, "certificate": 0.25, "referred": False, "by": "agent",
                "reason": None, "version": "0",
            }  # fmt: skip
        elif ask.verb in ("pause", "resume"):
            self.state = "paused" if ask.verb == "pause" else "ready"
        elif ask.verb == "erase":
            told = {"who": ask.who, "erased": 3}
        answer = Answer(200, encoded(told))
        if len(self._known) < 1000:  # a memory that grows is work for the collector, which is not of HTTP
            self._known[ask.key] = ask.asked, answer
        return answer

    def facts(self):
        return {"queue": 0, "head": self._number, "house": {"deadline": 2, "loading": 1}, "alarms": []}

    def shadow(self):
        return {"people": 0, "lower": None, "upper": None, "certified": False, "sentence": "nobody has come yet"}

    def open_journal(self):
        return NullJournal()


class NullJournal:
    url = "sqlite:///nowhere"

    def of(self, who):
        return []

    def close(self):
        pass

    def export(self, folder):
        Path(folder).mkdir()
        (Path(folder) / "events.parquet").write_bytes(b"PAR1")


class NullHost:
    def __init__(self, *programmes):
        self.programmes = {made.settings.name: made for made in programmes}

    def find(self, name):
        return self.programmes.get(name)

    def create(self, settings):
        raise NotImplementedError


def null_service(tokens=None, log=None):
    """(service, its one programme)."""
    programme = NullProgramme()
    service = Service(NullHost(programme), tokens, Log(log))
    programme.on_answers = service.on_answers
    return service, programme


@contextlib.contextmanager
def serving(service, pages=()):
    """A server in a thread of this process; gives its port."""
    ready, ports = threading.Event(), []

    def started(port):
        ports.append(port)
        ready.set()

    made = server(App(service, pages), "127.0.0.1", 0, service.tick, started)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        assert ready.wait(30), "the server did not start"
        yield ports[0]
    finally:
        made.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def ask(port, method, path, body=None, token=None, key=None, headers=None, timeout=30):
    """(status, answer, headers); the answer decoded where it is JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    told = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None:
        told.setdefault("content-type", "application/json")
    if token is not None:
        told["authorization"] = f"Bearer {token}"
    if key is not None:
        told["idempotency-key"] = key
    try:
        connection.request(method, path, body, told)
        response = connection.getresponse()
        data = response.read()
    finally:
        connection.close()
    found = {name.lower(): value for name, value in response.getheaders()}
    return response.status, json.loads(data) if "json" in found.get("content-type", "") else data, found


@contextlib.contextmanager
def process(*arguments, env=None, stderr=None):
    """A process that says its port on the first line of its output; gives (port, process)."""
    told = {**os.environ, **(env or {})}
    run = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=stderr, env=told, text=True)
    try:
        line = run.stdout.readline()
        assert line, f"the server ended with {run.wait()}"
        yield int(line.rsplit(":", 1)[1].split("/")[0]), run
    finally:
        if run.poll() is None:
            run.kill()
        run.wait()
        run.stdout.close()


def measure(port, requests, connections, body, token):
    """Processor time of a process at this port for so many decisions, in microseconds a request: the kernel's share and
    its own, by callers that send the next request when they have the answer."""
    head = (
        "POST /v1/programmes/null/people/{who}/decide HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        "idempotency-key: {key}\r\n{token}content-length: {n}\r\n\r\n"
    )
    secret = f"authorization: Bearer {token}\r\n" if token else ""

    async def caller(n, first):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for i in range(n):
            key = f"key-{first}-{i}"
            writer.write(head.format(who=f"person{i}", key=key, token=secret, n=len(body)).encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer)[1]))
        writer.close()

    async def everybody():
        await asyncio.gather(*(caller(requests // connections, c) for c in range(connections)))

    asyncio.run(everybody())


def cpu(pid):
    """Seconds of processor time of a process, (user, system)."""
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(parts[11]) / os.sysconf("SC_CLK_TCK"), int(parts[12]) / os.sysconf("SC_CLK_TCK")


def main():
    """`serve PORT [TOKENS]`, or `measure [REQUESTS] [CONNECTIONS]`."""
    if sys.argv[1] == "serve":
        service, _ = null_service(Tokens(sys.argv[3]) if len(sys.argv) > 3 else None)

        def told(port):
            print(f"http://127.0.0.1:{port}", flush=True)

        server(App(service), "127.0.0.1", int(sys.argv[2]), service.tick, told).run()
        return
    n, k = (int(sys.argv[2]) if len(sys.argv) > 2 else 20_000), (int(sys.argv[3]) if len(sys.argv) > 3 else 16)
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/tokens.json"
        token = Tokens(file).add("app", "decide")
        with process(__file__, "serve", "0", file, stderr=subprocess.DEVNULL) as (port, run):
            measure(port, 1000, k, b'{"state":0}', token)
            before, began = cpu(run.pid), time.perf_counter()
            measure(port, n, k, b'{"state":0}', token)
            user, system = (after - b for after, b in zip(cpu(run.pid), before, strict=True))
            wall = time.perf_counter() - began
            print(
                f"{(user + system) / n * 1e6:.1f} us of processor time each ({user / n * 1e6:.1f} of it not in the "
                f"kernel), {n} requests on {k} connections, {n / wall:.0f} a second with the caller on the same machine"
            )


if __name__ == "__main__":
    main()
