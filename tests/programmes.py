"""A programme in the clinic's problem, and people who come to it."""

import contextlib
import json
import threading
import time
from unittest import mock

import noregret as nr
from clinic import CLINIC
from noregret.agents.contents import fingerprint
from noregret.journal.journal import Journal
from noregret.live.fold import fold
from noregret.live.several import Live
from noregret.service.asking import ask
from noregret.service.player import Player
from noregret.service.programme import Programme
from noregret.service.programme_file import programme_from

P = CLINIC.problem
HOUSE = {"remission": "wait", "mild": "drug A", "moderate": "drug A", "severe": "drug B"}


def table(name="clinic", **service):
    """The programme's file; `service` are options of its section [service]."""
    return {
        "programme": {"name": name, "seed": 3},
        "problem": {
            "state_names": list(P.state_names), "action_names": list(P.action_names), "horizon": P.horizon,
            "context_dim": 3, "weight_bound": 4.4, "reward_bound": 3**0.5, "initial_states": ["moderate"],
            "support": P.support.tolist(), "available": {"remission": ["wait"], "severe": ["drug A", "drug B"]},
        },
        "agent": {"name": "certified-psrl"},
        "house": {"rule": HOUSE},
        "learning": {"order": "end"},
        "service": {"deadline_ms": 60_000.0} | service,
    }  # fmt: skip


def settings(name="clinic", **service):
    return programme_from(table(name, **service))


def context(k):
    return CLINIC.context(seed=5, episode=k).tolist()


def until(true, seconds=30.0):
    """Wait until it is; programmes load in a second, or compile for a minute."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)


@contextlib.contextmanager
def running(url, told=None, ready=True, **options):
    """A programme at work, ready unless told otherwise. What it loaded is not put aside for the collector of cycles: it
    would look at all that a test session holds, for half a second."""
    with mock.patch.object(Player, "_settle_memory"), Programme(told or settings(), url, **options) as programme:
        if ready:
            until(lambda: programme.state in ("ready", "paused"), 240.0)  # it may have to compile
        yield programme


class Caller:
    """Asks with keys of its own: `caller("begin", "Ms B", x=...)` gives (status, the answer's table)."""

    def __init__(self, programme, prefix="k"):
        self.programme, self.prefix, self.n = programme, prefix, 0

    def __call__(self, verb, who, key=None, **body):
        self.n += 1
        answer = self.programme.ask(ask(verb, who, key or f"{self.prefix}{self.n}", body))
        return answer.status, json.loads(answer.text)


def state_of(live):
    """Everything that decides what a Live does next."""
    fields = ("who", "episode", "states", "actions", "rewards", "others", "ended", "until")
    return fingerprint(live.agent), [str([getattr(q, name) for name in fields]) for q in live._people.values()]


def folded(url, name="clinic"):
    """The state after folding the whole journal from its first snapshot; `replay` says the same of every decision."""
    with Journal(url, name) as journal:
        until(lambda: journal.snapshots())  # the first is written beside everything else
        first = journal.snapshots()[-1]
        live = Live.from_bytes(journal.snapshot(first.number))
        for event in journal.events(first.number):
            fold(live, event)
        found = nr.replay(journal)
        assert found.ok, str(found)
    return state_of(live)


def events(url, *kinds, name="clinic"):
    with Journal(url, name) as journal:
        return list(journal.events(kinds=kinds or None))


def submit(programme, requests):
    """Submit all at once, and wait for all answers, in order."""
    found, here = {}, threading.Condition()

    def take(answers):
        with here:
            found.update((id(one), answer) for one, answer in answers)
            here.notify()

    programme._on_answers = take
    for one in requests:
        said = programme.submit(one)
        if said is not None:
            take([(one, said)])
    with here:
        assert here.wait_for(lambda: all(id(one) in found for one in requests), 30.0)
    return [found[id(one)] for one in requests]


class Gate:
    """A function that waits: `held` says that somebody does, `open()` lets them go on."""

    def __init__(self, function):
        self.function, self.held, self._open = function, threading.Event(), threading.Event()

    def __call__(self, *args, **options):
        self.held.set()
        assert self._open.wait(30.0)
        return self.function(*args, **options)

    def open(self):
        self._open.set()


def steps(tell, who, k, n=6):
    """Somebody comes, stays n steps and ends: 2 n + 2 events."""
    assert tell("begin", who, x=context(k))[0] == 200
    state = "moderate"
    for _ in range(n):
        assert tell("decide", who, state=state)[0] == 200
        state = {"moderate": "mild", "mild": "remission"}.get(state, "remission")
        assert tell("outcome", who, next_state=state, reward=0.5)[0] == 200
    assert tell("end", who)[0] == 200
