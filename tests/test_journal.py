"""Journals: what is written comes back, one writer, chain, erasure, snapshots, export, failures; on every database."""

import contextlib
import os
import signal
import threading

import pytest

import noregret as nr
from noregret.journal.database import server_of
from noregret.journal.errors import JournalUnavailable, KeyTaken, NotTheWriter
from noregret.journal.event import Entry, Event
from noregret.journal.snapshots import PIECE

T = "2026-11-17T09:30:00.000000Z"


def entry(kind="note", who=None, payload=None, **more):
    return Entry(kind, T, who, payload, **more)


@pytest.fixture
def journal(url):
    with nr.Journal(url) as made:
        yield made


def test_what_is_written_comes_back(journal):
    said = [
        entry("made", payload={"agent": "certified-psrl"}),
        entry("begin", "Ms B", {"x": [0.1, 1e-300, -0.0]}, answer='{"plan": 1}', key="k-1", asked=b"\x00\xff" * 16),
        entry("decide", 7, {"step": 0, "action": 1, "probability": None}, key="k-2"),
    ]
    events = journal.write(said)
    assert [e.number for e in events] == [0, 1, 2]
    assert journal.head == 3
    assert journal.chain == events[-1].chain
    assert list(journal.events()) == events
    for event, one in zip(events, said, strict=True):
        assert isinstance(event, Event)
        assert {name: getattr(event, name) for name in vars(one)} == vars(one)
    assert journal.of("Ms B") == [events[1]]
    assert journal.of(7) == [events[2]]
    assert journal.of("7") == []
    assert journal.answered(["k-2", "new", "k-1"]) == {"k-1": events[1], "k-2": events[2]}
    assert list(journal.events(1, 2)) == [events[1]]
    assert list(journal.events(kinds=["begin", "made"])) == events[:2]
    assert journal.write([]) == []
    assert journal.verify().ok


def test_another_journal_sees_it_and_goes_on(url):
    with nr.Journal(url, "a") as one:
        one.write([entry(), entry()])
        with nr.Journal(url, "a") as two, nr.Journal(url, "b") as other:
            assert two.head == 2
            assert not two.lock()
            other.write([entry()])
            with pytest.raises(NotTheWriter, match="somebody else writes"):
                two.write([entry()])
            one.write([entry()])
            assert two.head == 3
            one.unlock()
            two.write([entry()])
            assert not one.lock()
    with nr.Journal(url, "a", create=False) as one:
        assert [e.number for e in one.events()] == [0, 1, 2, 3]
        assert one.verify().ok
    assert nr.Journal.programmes(url) == ["a", "b"]


def test_all_or_none(journal):
    journal.write([entry(key="one")])
    for wrong in ([entry(), entry(key="one")], [entry(key="two"), entry(key="two")]):
        with pytest.raises(KeyTaken, match="key must be new"):
            journal.write(wrong)
    with pytest.raises(ValueError, match="payload must be JSON"):
        journal.write([entry(), entry(payload={"x": float("nan")})])
    assert journal.head == 1
    journal.write([entry()])
    assert [e.number for e in journal.events()] == [0, 1]
    assert journal.verify().ok


def test_snapshots(journal):
    journal.write([entry()] * 3)
    blobs = {1: b"first", 2: bytes(range(256)) * 3000, 3: b""}
    for number, blob in blobs.items():
        journal.keep_snapshot(number, blob, "0.9")
    assert [(s.number, s.size, s.version) for s in journal.snapshots()] == [
        (3, 0, "0.9"),
        (2, 768_000, "0.9"),
        (1, 5, "0.9"),
    ]
    for number, blob in blobs.items():
        assert journal.snapshot(number) == blob
    journal.keep_snapshot(1, b"again", "1.0")
    assert journal.snapshot(1) == b"again"
    journal.drop_snapshot(2)
    assert [s.number for s in journal.snapshots()] == [3, 1]
    with pytest.raises(ValueError, match="there is none of 2 events"):
        journal.snapshot(2)


def test_read_from_other_threads_while_writing(journal):
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            numbers = [e.number for e in journal.events()]
            if numbers != list(range(len(numbers))) or journal.head < len(numbers):
                wrong.append(numbers)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(40):
        journal.write([entry(who=i, payload={"i": i})] * 3)
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert journal.head == 120


def test_a_damaged_snapshot_is_told_and_an_unfinished_one_is_not_there(url):
    """Pieces are written first and described last: what a killed process left is not seen, and goes with the next."""
    with nr.Journal(url) as journal:
        journal.write([entry()] * 3)
        journal.keep_snapshot(1, b"a" * 300_000, "1")
        journal.keep_snapshot(2, b"b" * 300_000, "1")
        connection = server_of(url).connect()
        connection.execute("DELETE FROM journal_snapshots WHERE number = 1")
        other = "SELECT data FROM journal_snapshot_parts WHERE number = 1 AND part = 1"
        connection.execute(f"UPDATE journal_snapshot_parts SET data = ({other}) WHERE number = 2 AND part = 1")
        assert [s.number for s in journal.snapshots()] == [2]
        with pytest.raises(ValueError, match="there is none of 1 events"):
            journal.snapshot(1)
        with pytest.raises(ValueError, match="after 2 events is damaged"):
            journal.snapshot(2)
        journal.keep_snapshot(3, b"c", "1")
        left = connection.execute("SELECT DISTINCT number FROM journal_snapshot_parts ORDER BY number").fetchall()
        connection.close()
        assert [row[0] for row in left] == [2, 3]
        assert journal.snapshot(3) == b"c"


def test_a_snapshot_that_another_process_swept_away_is_not_there(url, monkeypatch):
    with nr.Journal(url) as journal, nr.Journal(url) as other:
        transactions, shelf = [], journal._shelf.database
        transaction = shelf.transaction

        def interrupted(**how):  # by somebody who took over, after the first piece
            transactions.append(1)
            if len(transactions) == 3:
                other.keep_snapshot(5, b"theirs", "1")
            return transaction(**how)

        monkeypatch.setattr(shelf, "transaction", interrupted)
        with pytest.raises(JournalUnavailable, match="keep it again"):
            journal.keep_snapshot(1, b"ours" * PIECE, "1")
        assert [s.number for s in journal.snapshots()] == [5]
        journal.keep_snapshot(1, b"ours" * PIECE, "1")
        assert journal.snapshot(1) == b"ours" * PIECE


def test_pieces_of_a_snapshot_are_flushed_with_the_row_that_describes_them(url, monkeypatch):
    with nr.Journal(url) as journal:
        lazy, database = [], journal._shelf.database
        transaction = database.transaction
        asked = "PRAGMA synchronous" if database.server.private else "SHOW synchronous_commit"

        @contextlib.contextmanager
        def watched(**how):
            with transaction(**how) as connection:
                lazy.append((how.get("lazily", False), connection.exec_driver_sql(asked).scalar()))
                yield connection

        monkeypatch.setattr(database, "transaction", watched)
        journal.keep_snapshot(0, b"x" * (PIECE + 1), "1")
        sure, unsure = (2, 1) if database.server.private else ("on", "off")
        assert lazy == [(True, unsure)] * 3 + [(False, sure)]  # what was there before goes, two pieces, their row
        assert database.read(lambda connection: connection.exec_driver_sql(asked).scalar()) == sure


def test_a_waiting_writer_gets_the_lock_when_it_is_free(url):
    with nr.Journal(url) as one, nr.Journal(url) as two:
        one.write([entry()])
        later = threading.Timer(0.2, one.unlock)
        later.start()
        assert two.lock(wait=20.0)
        later.join()
        assert two.head == 1
        assert two.locked
        assert not one.locked


@pytest.mark.parametrize("how", [KeyboardInterrupt, "driver"])
def test_a_commit_that_may_have_happened_is_asked_for(url, how, monkeypatch):
    """The answer was lost after the commit: nobody writes on until they have asked for the head, which knows of it."""
    with nr.Journal(url) as journal:
        journal.write([entry()])
        append = journal._writer.append

        def lost(rows):
            append(rows)
            raise how if how is KeyboardInterrupt else journal._server.errors()[0]("gone")

        monkeypatch.setattr(journal._writer, "append", lost)
        with pytest.raises((KeyboardInterrupt, OSError, ValueError)):
            journal.write([entry(), entry()])
        monkeypatch.undo()
        with pytest.raises(NotTheWriter, match="has 3 events, not the 1"):
            journal.write([entry()])
        assert journal.head == 3
        assert journal.write([entry()])[0].number == 3
        assert journal.verify().ok


def test_a_server_that_is_slow_to_notice_does_not_lock_us_out(postgres_server):
    """The server's end of a connection that we closed has the lock until it is scheduled again: here .3 s later."""
    with nr.Journal(postgres_server.new()) as journal:
        journal.write([entry()])
        former = journal._writer._connection.info.backend_pid
        os.kill(former, signal.SIGSTOP)
        later = threading.Timer(0.3, os.kill, (former, signal.SIGCONT))
        later.start()
        try:
            journal._writer.drop()
            assert not journal.locked
            assert journal.write([entry()])[0].number == 1
        finally:
            later.join()
        with nr.Journal(journal.url) as other:
            assert not other.lock()


def test_a_connection_that_the_driver_gave_up_is_remembered_and_dropped(postgres_server):
    """psycopg finishes a connection itself after an interrupted wait; then it knows nothing of it any more."""
    with nr.Journal(postgres_server.new()) as journal:
        journal.write([entry()])
        process = journal._writer._connection.info.backend_pid
        journal._writer._connection.pgconn.finish()
        journal._writer.drop()
        assert journal._writer._former == process
        assert journal.write([entry()])[0].number == 1


def test_keys_are_looked_up_one_by_one_however_many_are_asked_for(postgres_server):
    """The planner knows nothing of a table that is young. It must not read all of it for sixty keys."""
    with nr.Journal(postgres_server.new()) as journal:
        for i in range(4):
            journal.write([entry(key=f"{i} {j}", payload={"much": "x" * 500}) for j in range(1000)])
        for n in (1, 2, 3, 16, 64, 500):
            query, told = journal._server.by_keys([f"new {i}" for i in range(n)], journal.programme)
            asked = query.replace("$1", "%s").replace("$2", "%s")
            with journal._server.connect() as connection:
                plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {asked}", told).fetchall())
            assert "using journal_events_key" in plan, plan
            assert "Seq Scan" not in plan, plan


def test_whatever_is_written_comes_back_by_its_key_and_by_whose_it_is(url):
    odd = 'a"b\\c,{}\n\t NULL é 😀 %s $1 \\x41'
    told = [Entry("begin", T, odd, {"x": [odd, None]}, odd, odd, b"\x00\xff\\x41"), Entry("alarm", T)]
    with nr.Journal(url) as journal:
        made = journal.write(told)
        assert journal.answered([odd, "another", '"', "\\"]) == {odd: made[0]}
        assert journal.of(odd) == made[:1]
        assert list(journal.events()) == made
        for n in (1, 2, 31, 32, 33, 100):  # by whatever statement
            made += journal.write([Entry("alarm", T, key=f"{n} {i}", payload={"i": i}) for i in range(n)])
        assert list(journal.events()) == made
        assert journal.verify().ok
