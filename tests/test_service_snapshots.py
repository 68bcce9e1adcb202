"""Snapshots of programmes, counts that go on after a restart, and people who are erased."""

import threading
import time

import pytest

import noregret as nr
from noregret.journal.errors import JournalUnavailable
from noregret.journal.journal import Journal
from noregret.live.several import Live
from noregret.service.asking import ask
from noregret.service.sealing import Sealer
from programmes import (
    Caller,
    Gate,
    context,
    events,
    folded,
    running,
    settings,
    state_of,
    steps,
    submit,
    until,
)


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "journal.db")


# Snapshots --------------------------------------------------------------------------------------------------------
def kept(url):
    with Journal(url, "clinic") as journal:
        return [one.number for one in journal.snapshots()]


@pytest.mark.long
def test_snapshots_are_kept_and_damaged_ones_passed_over(url):
    told = settings(snapshot_every=10)
    with running(url, told) as programme:
        tell = Caller(programme)
        for k in range(100):  # one is taken when the one before is written
            steps(tell, k, k)
            if len(kept(url)) >= 4:
                break
        state = programme.read(state_of)
        until(lambda: not programme._desk.sealer.busy)
        until(lambda: programme.facts()["queue"] == 0)
    numbers = kept(url)
    assert numbers[-1] == 1
    assert len(numbers) == 4
    assert state == folded(url)
    with Journal(url, "clinic") as journal:
        journal.keep_snapshot(numbers[0], b"PK, and then nothing", "0.0.1")  # of a version that wrote others
    with running(url, told) as programme:
        assert programme.read(state_of) == state
        until(lambda: events(url, "alarm"))
        assert f"snapshot {numbers[0]} was passed over" in events(url, "alarm")[-1].payload["sentence"]
    for number in kept(url):
        with Journal(url, "clinic") as journal:
            journal.keep_snapshot(number, b"damaged", "0.0.1")
    with running(url, told) as programme:  # from the start
        assert programme.read(state_of) == state


@pytest.mark.parametrize("far", [False, True])
def test_no_snapshot_is_taken_while_one_is_being_written(url, far, monkeypatch):
    """However often they are due: each holds a copy of the agent, and whoever catches up must come to something else.
    far: while it catches up from the journal, otherwise as people come."""
    if far:
        with running(url, settings(snapshot_every=10_000)) as programme:
            tell = Caller(programme)
            for k in range(12):
                steps(tell, f"before {k}", k)
    go, taken, write, seal = threading.Event(), [], Sealer.keep, Sealer.seal

    def waits(sealer, journal, number, blob):
        assert go.wait(60.0)
        write(sealer, journal, number, blob)

    def counted(sealer, number, generation, sealed):
        taken.append(number)
        seal(sealer, number, generation, sealed)

    monkeypatch.setattr(Sealer, "keep", waits)
    monkeypatch.setattr(Sealer, "seal", counted)
    with running(url, settings(snapshot_every=10)) as programme:
        tell = Caller(programme, "again")
        for k in range(6):
            steps(tell, f"p{k}", k)
        until(lambda: programme.facts()["folded"] == programme.facts()["head"])
        assert len(taken) == 1  # of some sixty events, and before them of 120 more
        go.set()
        until(lambda: programme.last_snapshot is not None)
        until(lambda: not programme._desk.sealer.busy)
        steps(tell, "one more", 7)
        until(lambda: len(taken) >= 2)
        assert programme.read(state_of) == folded(url)


def test_a_snapshot_that_is_dropped_during_a_replay_is_no_difference(url, monkeypatch):
    with running(url, settings(snapshot_every=10)) as programme:
        steps(Caller(programme), "Ms B", 0)
        until(lambda: len(kept(url)) == 2)
    with Journal(url, "clinic") as journal:
        dropped, read = kept(url)[0], journal.snapshot
        monkeypatch.setattr(journal, "snapshot", lambda n: (journal.drop_snapshot(dropped), read(n))[1])
        found = nr.replay(journal)
        assert found.ok, str(found)
        assert (found.snapshots, found.decisions) == (0, 6)


def test_a_snapshot_of_what_was_not_committed_is_not_kept(url, monkeypatch):
    with running(url, settings(snapshot_every=10)) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        writer = programme._tenure.writer
        requests = [ask("begin", k, f"k {k}", {"x": context(k)}) for k in range(12)]

        def fails(entries):
            if len(entries) > 1:
                time.sleep(0.05)  # the player has folded all of it
                raise JournalUnavailable("disk full")
            return write(entries)

        write, writer.journal.write = writer.journal.write, fails
        held = Gate(fails)
        writer.journal.write = held
        first = threading.Thread(target=lambda: Caller(programme, "x")("end", "Ms B"))
        first.start()
        assert held.held.wait(10.0)
        threading.Timer(0.02, held.open).start()
        assert {a.status for a in submit(programme, requests)} == {503}
        first.join()
        until(lambda: programme.state == "ready")
        assert kept(url) == [1]
        assert programme.read(state_of) == folded(url)


def test_counts_go_on_after_a_restart(url):
    with running(url, settings(snapshot_every=10)) as programme:
        tell = Caller(programme)
        steps(tell, 0, 0)
        until(lambda: len(kept(url)) > 1)
        until(lambda: len(events(url, "snapshot")) == len(kept(url)))
        before = programme.facts()["events"]
    with running(url, settings(snapshot_every=10)) as programme:
        assert programme.facts()["events"] == before
        assert Caller(programme, "later")("begin", "Mr C", x=context(1))[1]["episode"] == 1
    kinds = [e.kind for e in events(url)]
    assert before == {kind: kinds[:-1].count(kind) for kind in set(kinds[:-1])}


@pytest.mark.long
def test_somebody_is_erased_and_the_rest_can_be_folded(url):
    with running(url) as programme:
        tell = Caller(programme)
        steps(tell, "Ms B", 0)
        tell("begin", "Mr A", x=context(1))
        assert tell("erase", "Mr A")[0] == 409  # he is open
        assert tell("erase", "Ms B", key="e")[1] == {"who": "Ms B", "erased": 14}
        assert tell("erase", "Ms B", key="e")[1] == {"who": "Ms B", "erased": 0}
        assert tell("decide", "Mr A", state="moderate")[1]["by"] == "agent"
        state = programme.read(state_of)
        with Journal(url, "clinic") as journal:
            assert journal.of("Ms B") == []
            assert journal.verify().ok
    with running(url) as programme:
        assert programme.read(state_of) == state


def test_told_to_stop_it_answers_also_who_asked_twice(url):
    with running(url) as programme:
        writer, told = programme._tenure.writer, []
        programme._on_answers = told.extend
        gate = writer.journal.write = Gate(writer.journal.write)
        asks = [ask("begin", "Ms B", "a", {"x": context(0)})]
        asks += [ask("begin", "Mr A", "b", {"x": context(1)}) for _ in range(2)]
        assert programme.submit(asks[0]) is None
        assert gate.held.wait(30.0)
        assert [programme.submit(one) for one in asks[1:]] == [None, None]
        stopping = threading.Thread(target=programme.stop)
        stopping.start()
        until(programme._stopping.is_set)
        gate.open()
        stopping.join(30.0)
        said = {id(one): answer for one, answer in told}
        assert [said[id(one)].status for one in asks] == [200] * 3
        assert said[id(asks[1])] == said[id(asks[2])]


def away(*_):
    raise JournalUnavailable("the database is away")


@pytest.mark.study(first=1)
@pytest.mark.parametrize("fails", [False, True])
def test_an_erasure_between_two_begins_of_one_batch(url, fails, monkeypatch):
    with running(url) as programme:
        tell, told = Caller(programme), []
        tell("begin", "Ms B", x=context(0))
        tell("withdraw", "Ms B")
        until(lambda: events(url, "snapshot"))  # the first is whole: whoever keeps one sweeps what is half written
        with Journal(url, "clinic") as journal:
            number = journal.head
            journal.keep_snapshot(number, programme.read(Live.snapshot)(), "test")
        writer = programme._tenure.writer
        gate = writer.journal.write = Gate(writer.journal.write)
        first = ask("begin", "Mr A", "a", {"x": context(1)})
        asks = [ask("begin", "Ms B", key, {"x": context(2)}) for key in ("b", "c")]
        erase = ask("erase", "Ms B", "e")
        programme._on_answers = told.extend
        programme.submit(first)
        assert gate.held.wait(30.0)
        programme.submit(asks[0])
        programme._desk.note("erase now", who="Ms B", ask=erase, learned=number)
        programme.submit(asks[1])
        if fails:
            monkeypatch.setattr(writer.recall, "answered", away)
        gate.open()
        until(lambda: len(told) == 4)
        expected = [503] * 3 if fails else [200, 409, 503]  # she is open again: neither erased nor begun twice
        said = {one.key: answer.status for one, answer in told}
        assert [said[key] for key in "abce"] == [200, *expected]
        until(lambda: programme.state == "ready")
        assert programme.read(state_of) == folded(url)


def test_who_comes_again_while_they_are_erased_is_not(url):
    with running(url) as programme:
        tell, told, erase = Caller(programme), [], ask("erase", "Ms B", "e")
        tell("begin", "Ms B", x=context(0))
        tell("withdraw", "Ms B")
        number = programme.facts()["head"]  # of the snapshot without her
        tell("begin", "Ms B", x=context(1))
        tell("end", "Ms B", wait="close")
        until(lambda: events(url, "snapshot"))
        with Journal(url, "clinic") as journal:
            journal.keep_snapshot(journal.head, programme.read(Live.snapshot)(), "test")
        programme._on_answers = told.extend
        programme._desk.note("erase now", "Ms B", ask=erase, learned=number)
        until(lambda: told)
        assert [(one.key, answer.status) for one, answer in told] == [("e", 503)]
        assert tell("begin", "Ms B", x=context(2))[0] == 409
        assert tell("erase", "Ms B")[0] == 409  # she has ended and is not learned yet
        assert programme.state == "ready"
        assert programme.read(state_of) == folded(url)


def test_a_snapshot_that_waits_to_be_written_does_not_outlive_an_erasure(url, monkeypatch):
    with running(url) as programme:
        tell, tenure = Caller(programme), programme._tenure
        player, read = tenure.player, tenure.player.read
        assert tell("begin", "Ms B", x=context(0))[0] == 200
        assert tell("end", "Ms B", wait="close")[0] == 200
        with_her = programme.read(lambda live: (player.folded, player.generation, live.snapshot()))
        assert tell("close", "Ms B")[0] == 200

        def late(function, timeout):  # the player takes a snapshot while the sealer is about to ask it for another
            tenure.seal(*with_her)
            return read(function, timeout)

        monkeypatch.setattr(player, "read", late)
        assert tell("erase", "Ms B")[1] == {"who": "Ms B", "erased": 3}
        done = threading.Event()
        programme._desk.sealer.do(lambda journal: done.set())
        assert done.wait(30.0)
        assert with_her[0] not in kept(url)
