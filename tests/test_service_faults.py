"""The failure classes that the service must survive, one test each, named after it.

After each fault: no acknowledged event is lost, none is learned twice, and what the agent knows is what the journal
folds to, to the bit. Small versions; `python -m benchmarks.serve faults` has the large ones, and 100 kill -9 are in the
slow tier."""

import json
import threading
import time
import tomllib
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("msgspec", reason="the extra `serve` is not installed: the service is not tested")

import noregret as nr
from benchmarks.serving import faults
from benchmarks.serving.books import balance
from benchmarks.serving.load import Record
from benchmarks.serving.people import medium
from benchmarks.serving.server import Postgres, programme_text
from benchmarks.serving.zygote import ForkedServer, Zygote
from noregret.agents.contents import fingerprint as mark
from noregret.live.fold import fold
from noregret.service import player as player_module
from noregret.service import writer as writer_module
from noregret.service.asking import ask
from noregret.service.programme import Programme
from noregret.service.programme_file import programme_from

pytestmark = pytest.mark.deep

X = [0.5**0.5, 0.5**0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def settings(**service):
    """Of the medium programme. Its deadline is long: what a busy machine delays is not what is tested here."""
    return programme_from(tomllib.loads(programme_text(medium(), service={"deadline_ms": 60_000.0} | service)))


class Course:
    """Callers of one programme in this process, who keep every answer."""

    def __init__(self, programme):
        self.programme, self.record = programme, Record()

    def __call__(self, verb, who, body=None, key=None, status=200):
        key = key or f"{who}/{verb}/{json.dumps(body)}"
        answer = self.programme.ask(ask(verb, who, key, body or {}))
        assert answer.status == status, answer
        if answer.status == 200:
            self.record.answer(key, answer.text.encode())
        return json.loads(answer.text)

    def person(self, who, steps=10, end=True):
        """Somebody from begin to end."""
        self("begin", who, {"x": X})
        for h in range(steps):
            told = self("decide", who, {"state": h % 3 if h else 0, "step": h})
            self("outcome", who, {"step": h, "next_state": (h + 1) % 3, "reward": float(told["action"] % 2)})
        if end:
            self("end", who)


def until(true, seconds=300.0):
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.005)


def ready(programme):
    until(lambda: programme.state == "ready")
    return programme


def fingerprint(programme):
    """Of the agent in memory, when it has folded everything."""
    until(lambda: programme.facts()["folded"] == programme.facts()["head"])
    return programme.read(lambda live: mark(live.agent))


def folded_again(url, name="load"):
    """The fingerprint of the agent that the journal folds to from its start, with an agent made anew."""
    live = settings().made_live()
    with nr.Journal(url, name, create=False) as journal:
        for event in journal.events(1):
            fold(live, event)
    return mark(live.agent)


@pytest.fixture
def programme(tmp_path):
    with Programme(settings(), str(tmp_path / "journal.db")) as made:
        yield ready(made)


def balanced(programme, *records, replay=True):
    """Stop it and look at the books; the agent in memory was what the journal folds to."""
    held = fingerprint(programme)
    programme.stop()
    assert held == folded_again(programme.url)
    books = balance(programme.url, "load", *records, replay=replay)
    assert books.balanced, books.sentence()
    return books


# Calls ----------------------------------------------------------------------------------------------------------------
def test_missed_call(programme):
    """Somebody never comes back: their outcome and end are not told. Others go on; whoever came later is learned when
    the missing one is withdrawn."""
    call = Course(programme)
    call("begin", "gone", {"x": X})
    call("decide", "gone", {"state": 0})
    for who in ("a", "b"):
        call.person(who, 3)
    assert programme.read(lambda live: (len(live.open), len(live.waiting))) == (1, 2)
    call("withdraw", "gone", {"learn": False})
    assert programme.read(lambda live: (len(live.open), len(live.waiting))) == (0, 0)
    balanced(programme, call.record)


def test_duplicate_call(programme):
    """The same key and body: the same bytes and one event, also from many callers at once. Another body: 409."""
    call, answers = Course(programme), []
    call("begin", "a", {"x": X}, key="k")

    def again():
        answers.append(programme.ask(ask("decide", "a", "d", {"state": 0})).text)

    threads = [threading.Thread(target=again) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(answers) == 16
    assert len(set(answers)) == 1
    call("decide", "a", {"state": 0}, key="d")
    call("decide", "a", {"state": 0, "step": 0}, key="d", status=409)
    call("begin", "b", {"x": X}, key="k", status=409)
    books = balanced(programme, call.record)
    assert (books.kinds["begin"], books.kinds["decide"]) == (1, 1)


def test_calls_out_of_order(programme):
    """The decision of step 1 overtakes the outcome of step 0: refused, then taken under the same key. An old outcome
    that comes again late is the same event; a late reward is taken."""
    call = Course(programme)
    call("begin", "a", {"x": X})
    call("decide", "a", {"state": 0, "step": 0})
    call("decide", "a", {"state": 2, "step": 1}, key="early", status=409)
    call("outcome", "a", {"step": 0, "next_state": 2, "reward": None}, key="o")
    call("decide", "a", {"state": 2, "step": 1}, key="early")
    call("outcome", "a", {"step": 0, "next_state": 2, "reward": None}, key="o")
    call("outcome", "a", {"step": 1, "next_state": 1, "reward": 1.0})
    call("reward", "a", {"step": 0, "reward": 1.0})
    call("end", "a")
    kinds = balanced(programme, call.record).kinds
    assert (kinds["decide"], kinds["outcome"], kinds["reward"]) == (2, 2, 1)


def test_outcome_before_decision(programme):
    call = Course(programme)
    call("outcome", "a", {"step": 0, "next_state": 1, "reward": 1.0}, status=404)
    call("begin", "a", {"x": X})
    call("outcome", "a", {"step": 0, "next_state": 1, "reward": 1.0}, status=409)
    call("decide", "a", {"state": 0})
    call("outcome", "a", {"step": 0, "next_state": 1, "reward": 1.0})  # the same key: a refusal is not kept
    assert balanced(programme, call.record).kinds["outcome"] == 1


def test_outcome_for_a_person_who_ended(programme):
    """Taken until they are learned, refused after that; learned once, with what was told late."""
    call = Course(programme)
    call("begin", "first", {"x": X})
    call.person("a", 2, end=False)
    call("decide", "a", {"state": 2})
    call("end", "a")  # waits for `first`, who came before
    call("outcome", "a", {"step": 2, "next_state": 0, "reward": 1.0})
    call("end", "first")
    until(lambda: programme.read(lambda live: len(live.waiting)) == 0)
    call("reward", "a", {"step": 2, "reward": 0.0}, status=409)
    call("decide", "a", {"state": 0}, status=409)
    balanced(programme, call.record)


# Time -----------------------------------------------------------------------------------------------------------------
class SetBack(datetime):
    """A clock that goes back an hour at every look, as no daylight saving ever did."""

    looks = 0

    @classmethod
    def now(cls, tz=None):
        SetBack.looks += 1
        return datetime(2026, 10, 25, 2, 30, tzinfo=UTC) - timedelta(hours=SetBack.looks)


def test_clock_set_back_and_daylight_saving(programme, monkeypatch):
    """Times are for people: numbers give the order, and nothing that is decided depends on a clock."""
    call = Course(programme)
    call.person("a", 3)
    monkeypatch.setattr(writer_module, "datetime", SetBack)
    call.person("b", 3)
    monkeypatch.undo()
    call.person("c", 3)
    balanced(programme, call.record)
    with nr.Journal(programme.url, "load", create=False) as journal:
        times = [event.time for event in journal.events()]
    assert times != sorted(times)
    assert SetBack.looks > 5


# Snapshots ------------------------------------------------------------------------------------------------------------
def kept(path, rounds=40):
    """A journal with snapshots, and the fingerprint of its agent."""
    with Programme(settings(snapshot_every=50), str(path)) as made:
        call = Course(ready(made))
        for k in range(rounds // 8):
            call.person(f"p{k}")
        until(lambda: (made.last_snapshot or {}).get("number", 0) > 50)
        return call.record, fingerprint(made)


def damage(path, statement, *values):
    import sqlite3

    with sqlite3.connect(path) as base:
        assert base.execute(statement, values).rowcount > 0


@pytest.mark.long
@pytest.mark.parametrize("what", ["damaged", "from an older version", "all gone but the first"])
def test_a_snapshot_that_is_damaged_or_from_an_older_version(tmp_path, what):
    """It is passed over, with an alarm: the one before it is folded from, at worst the first."""
    path = tmp_path / "journal.db"
    record, held = kept(path)
    with nr.Journal(str(path), "load", create=False) as journal:
        newest = journal.snapshots()[0].number
        if what == "from an older version":  # with a checksum of its own: what is in it cannot be read
            journal.drop_snapshot(newest)
            journal.keep_snapshot(newest, b"as it was in 1999", "0.0.1")
    if what == "damaged":
        damage(path, "UPDATE journal_snapshot_parts SET data = zeroblob(length(data)) WHERE number = ?", newest)
    if what == "all gone but the first":
        damage(path, "UPDATE journal_snapshot_parts SET data = zeroblob(1000) WHERE number > 1")
    with Programme(settings(), str(path)) as made:
        assert fingerprint(ready(made)) == held
        until(lambda: any("passed over" in str(event.payload) for event in made.open_journal().events(kinds=["alarm"])))
        Course(made).person("after", 2)
        balanced(made, record, replay=False)
    found = [str(difference) for difference in nr.replay(nr.Journal(str(path), "load")).differences]
    assert found  # the replay says which snapshot is not as it was, and finds nothing else
    assert all("snapshot" in sentence for sentence in found)


# Slow, and full -------------------------------------------------------------------------------------------------------
def test_a_slow_refresh(tmp_path, monkeypatch):
    """While the agent is at work for long, whoever is under way is decided for as ever; for whoever comes new the house
    rule answers by the deadline, the agent folds its choices, and is back when it has caught up."""
    with Programme(settings(deadline_ms=300.0), str(tmp_path / "journal.db")) as made:
        call, slow, gate = Course(ready(made)), threading.Event(), threading.Event()

        def slowly(live, event):
            if slow.is_set() and event.kind == "end":
                gate.wait(60.0)
            return fold(live, event)

        monkeypatch.setattr(player_module, "fold", slowly)
        call.person("a", 3)
        call("begin", "b", {"x": X})
        slow.set()
        call.person("c", 1)
        assert call("decide", "b", {"state": 0})["by"] == "agent"
        call("begin", "d", {"x": X})
        told = call("decide", "d", {"state": 0})
        assert (told["by"], told["reason"], told["action"], told["probability"]) == ("house", "deadline", 0, 1.0)
        gate.set()
        until(lambda: made.facts()["folded"] == made.facts()["head"])
        by = []
        for h in range(9):  # a busy machine may be late once more
            call("outcome", "d", {"step": h, "next_state": 1, "reward": 1.0})
            by.append(call("decide", "d", {"state": 1, "step": h + 1})["by"])
        assert "agent" in by
        balanced(made, call.record)


def test_a_full_queue(tmp_path, monkeypatch):
    """503 with Retry-After for whoever finds no place, nothing of theirs accepted; everybody else is answered."""
    with Programme(settings(queue=4), str(tmp_path / "journal.db")) as made:
        call = Course(ready(made))
        gate, there, taken = threading.Event(), threading.Event(), writer_module.Writer._taken

        def held(self):
            there.set()
            gate.wait(60.0)
            return taken(self)

        monkeypatch.setattr(writer_module.Writer, "_taken", held)
        assert there.wait(60.0)
        got, asks = {}, [ask("begin", f"p{i}", f"k{i}", {"x": X}) for i in range(12)]
        made._on_answers = lambda answers: got.update({a.key: answer for a, answer in answers})
        at_once = {a.key: made.submit(a) for a in asks}
        refused = {key for key, answer in at_once.items() if answer is not None}
        assert 8 <= len(refused) <= 9  # the programme's own notes take a place, too
        assert all(at_once[key].status == 503 and at_once[key].retry_after >= 1 for key in refused)
        gate.set()
        until(lambda: len(got) == len(asks) - len(refused))
        for key, answer in got.items():
            assert answer.status == 200
            call.record.answer(key, answer.text.encode())
        assert balanced(made, call.record).keys == len(got)


# Processes ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    with Zygote(tmp_path_factory.mktemp("zygote")) as made:
        yield made


def forked(zygote, folder, url=None, **tables):
    made = ForkedServer(folder, [faults.programme_file(folder, **tables)], url or f"sqlite:///{folder / 'journal.db'}")
    made.zygote = zygote
    return made


def good(outcome):
    assert outcome.good, outcome.sentence()
    assert len(outcome.record.acknowledged) > 0
    return outcome


@pytest.mark.long
def test_restart_in_the_middle_of_anything(tmp_path, zygote):
    """kill -9 at random moments under load, and callers who ask again under the same keys."""
    good(faults.kills(tmp_path, 5, zygote=zygote, longest=0.6, every=100, callers=4))


@pytest.mark.slow
def test_restart_in_the_middle_of_anything_a_hundred_times(tmp_path, zygote):
    good(faults.kills(tmp_path, 100, zygote=zygote, longest=1.0, every=300, seed=1))


@pytest.mark.long
def test_disk_full(tmp_path, zygote):
    """503 while nothing can be written; nothing half written; without a restart it goes on when there is space."""
    outcome = good(faults.disk_full(tmp_path, zygote=zygote))
    assert outcome.more["503 while full"]
    assert outcome.more["health while full"] == 200


def test_two_service_processes_on_one_database(tmp_path, zygote):
    """The second stands by with 503 and writes nothing; when the first dies it takes over, with the same answers."""
    first, second = forked(zygote, tmp_path), forked(zygote, tmp_path)
    begin = "/v1/programmes/load/people/a/begin"
    with first, second:
        first.start()
        second.start("health")
        status, answer = first.post(begin, {"x": X}, "k")
        assert status == 200
        assert second.post(begin, {"x": X}, "k")[0] == 503
        assert second.get("/ready")[0] == 503
        first.kill()
        second.wait("ready")
        assert second.post(begin, {"x": X}, "k") == (200, answer)
        assert second.post(begin, {"x": X[::-1]}, "k")[0] == 409
        second.stop()
    record = Record()
    record.answer("k", answer)
    assert balance(first.url, "load", record).balanced


def test_hostile_bodies(tmp_path, zygote):
    """Refused with 4xx, cheaply, and nothing is written; `tests/test_service_http.py` has schemathesis."""
    bodies = [
        b"", b"{", b"[]", b"null", b'{"x": []}', b'{"x": "' + b"a" * 70_000 + b'"}', b"[" * 10_000, b'{"x": [1e999]}',
        b'{"x": [NaN]}', b"\xff\xfe", b'{"x": [1, 2, 3]}', b'{"x": {"a": 1}}', b'{"y": 1}',
        b'{"x": [' + b"1," * 9_999 + b"1]}", b'{"x": [' + b"9" * 400 + b"]}",
    ]  # fmt: skip
    from benchmarks.serving.server import fetch

    with forked(zygote, tmp_path) as server:
        server.start()
        url = f"http://127.0.0.1:{server.port}/v1/programmes/load/people/"
        for i, body in enumerate(bodies):
            for verb in ("begin", "decide", "outcome", "reward", "end", "withdraw"):
                status, _ = fetch(f"{url}a/{verb}", body, f"{verb}{i}")
                assert 400 <= status < 500, (verb, body[:50], status)
        for who in ("%00", "a" * 5000, "%ff%fe", "..%2f..", "%F0%9F%98%80" * 100):
            assert fetch(f"{url}{who}/decide", b'{"state": 0}', "k")[0] in (400, 404, 414, 422)
        for key in ("", "k" * 5000):
            assert fetch(f"{url}a/begin", json.dumps({"x": X}).encode(), key)[0] in (400, 422, 431)
        server.stop()
    books = balance(server.url, "load", replay=False)
    assert books.keys == 0


# PostgreSQL -----------------------------------------------------------------------------------------------------------
needs_postgres = pytest.mark.skipif(Postgres.found() is None, reason="PostgreSQL is not installed")


@pytest.mark.long
@needs_postgres
def test_database_restarted_under_load(tmp_path, zygote):
    good(faults.database_restarts(tmp_path, 2, zygote=zygote, longest=0.5, callers=4))


@pytest.mark.long
@needs_postgres
def test_take_over_between_two_service_processes(tmp_path, zygote):
    good(faults.takeovers(tmp_path, 2, zygote=zygote, longest=0.5, callers=4))
