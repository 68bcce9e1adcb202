"""`noregret serve-demo`: a real server on loopback and simulated patients, so that its dashboard moves."""

import contextlib
import json
import math
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import checks as check
from ..service.client import Client
from ..worlds import World, clinic

NAME = "clinic"
_FILE = """# The clinic of `noregret serve-demo`: four states, three treatments, six visits.
[programme]
name = "clinic"
title = "Adaptive treatment, simulated patients"
seed = 1

[problem]
state_names = ["remission", "mild", "moderate", "severe"]
action_names = ["wait", "drug A", "drug B"]
feature_names = ["intercept", "age", "marker"]
horizon = 6
context_dim = 3
weight_bound = 4.4
reward_bound = 1.7320508075688772
initial_states = ["moderate"]
available = {{ remission = ["wait"], severe = ["drug A", "drug B"] }}
support = {support}

[agent]
name = "certified-psrl"
plans = 8    # what is played is drawn from eight plans, and a tenth of it is left to chance:
floor = 0.1  # so the probability of every action is on record, and can be weighed against the house rule

[house]
rule = {{ remission = "wait", mild = "drug A", moderate = "drug A", severe = "drug B" }}
floor = 0.1

[learning]
order = "end"  # everybody has six visits, so ends do not depend on outcomes

[service]
snapshot_every = 2000
"""


def demo(
    port: Annotated[int, typer.Option(help="of the server, on 127.0.0.1; 0: any that is free")] = 8080,
    rate: Annotated[float, typer.Option(help="decisions a second, about")] = 20.0,
    folder: Annotated[Path, typer.Option(help="the journal; started again, the demo goes on with it")] = Path(
        "results/serve-demo"
    ),
    seconds: Annotated[float | None, typer.Option(help="stop by itself after so long")] = None,
) -> None:
    """Start a server with the clinic as its programme, let simulated patients come, and say where the dashboard is.

    The house rule answers while the agent is compiled for the first time. Ctrl-C stops both. Example:
    noregret serve-demo --rate 50"""
    check.positive("rate", rate)
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    world, file = clinic(), folder / "clinic.toml"
    file.write_text(programme(world))
    port = port or _free()
    words = [sys.executable, "-m", "noregret", "serve", "--programme", str(file), "--demo", "--port", str(port)]
    words += ["--journal", f"sqlite:///{(folder / 'journal.db').resolve()}"]
    print(f"starting {' '.join(words[2:])}", flush=True)
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        _until_it_answers(server, port, folder)
        print(f"dashboard  http://127.0.0.1:{port}/programmes/{NAME}    (Ctrl-C stops it)", flush=True)
        _patients(world, port, rate, begun, math.inf if seconds is None else begun + seconds, stop)
    finally:
        _stop(server)
    print(f"stopped; everything is in {folder / 'journal.db'}: noregret replay {folder / 'journal.db'}")


def programme(world: World) -> str:
    """The demo's programme file."""
    return _FILE.format(support=json.dumps(np.asarray(world.problem.support).tolist()))


class _Patient:
    """One simulated patient: the clinic's truth in plain NumPy, since nothing is to be compiled for it."""

    def __init__(self, world: World, who: str, luck: np.random.Generator) -> None:
        self.world, self.who, self.luck, self.step = world, who, luck, 0
        self.support, people = np.asarray(world.problem.support), np.asarray(world.contexts.support)
        self.x, self.state = people[luck.integers(len(people))], world.problem.state("moderate")

    def happens(self, action: int) -> tuple[float, int]:
        """(reward, next state) of an action."""
        w, s = self.world, self.state
        logits = w.weights[s, action] @ self.x
        chances = np.exp(logits) * self.support[s, action]
        self.state = int(self.luck.choice(len(chances), p=chances / chances.sum()))
        self.step += 1
        return float(self.luck.random() < w.reward_weights[s, action] @ self.x), self.state


def _patients(world: World, port: int, rate: float, begun: float, until: float, stop: Any) -> None:
    """Patients who come and go, a dozen open at a time, until it is time to stop; those still open then withdraw."""
    client, problem = Client(f"http://127.0.0.1:{port}", NAME), world.problem
    states: tuple[str, ...] = problem.state_names or ()
    run, luck = f"{datetime.now(UTC):%y%m%d-%H%M%S}", np.random.default_rng(0)
    waiting: deque[_Patient] = deque()
    said: set[str] = set()
    came = decided = 0
    due = said_at = time.monotonic()
    while not stop.is_set() and time.monotonic() < until:
        if len(waiting) < 12:
            patient = _Patient(world, f"{run}-{came}", luck)
            came += 1
            client.begin(patient.who, patient.x.tolist())
        else:
            patient = waiting.popleft()
        told = client.decide(patient.who, states[patient.state], step=patient.step)
        decided += 1
        if told["by"] not in said:
            said.add(told["by"])
            print(_first(told, time.monotonic() - begun), flush=True)
        reward, after = patient.happens(problem.action(told["action"], patient.state))
        client.outcome(patient.who, states[after], reward, step=patient.step - 1)
        if patient.step == problem.horizon:
            client.end(patient.who)
        else:
            waiting.append(patient)
        due += 1.0 / rate
        if time.monotonic() - said_at > 10.0:
            said_at = time.monotonic()
            print(f"{came} patients, {decided} decisions", flush=True)
        stop.wait(max(due - time.monotonic(), 0.0))
    for patient in waiting:
        client.withdraw(patient.who)


def _first(told: dict[str, Any], seconds: float) -> str:
    who = "the house rule, while the agent is made ready" if told["by"] == "house" else "the agent"
    sure = "" if told.get("certificate") is None else f", certificate {told['certificate']:.2f}"
    return f"first decision by {who}, after {seconds:.1f} s: {told['state']} -> {told['action']}{sure}"


def _free() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _until_it_answers(server: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
    while True:
        if server.poll() is not None:
            raise ValueError(f"the server did not start: {(folder / 'server.log').read_text()[-500:].strip()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.05)


def _stop(server: "subprocess.Popen[bytes]") -> None:
    """As systemd would; whoever does not listen within half a minute is killed."""
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
