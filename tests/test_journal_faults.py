"""One writer, whatever happens to it; full disks, lost servers, files that are no journals; upgrades."""

import multiprocessing
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import noregret as nr
from noregret.journal import database, errors, schema
from noregret.journal.errors import JournalDamaged, JournalUnavailable, NotTheWriter
from noregret.journal.event import Entry
from noregret.journal.migrations.upgrading import upgrade

T = "2026-11-17T09:30:00.000000Z"
FORK = multiprocessing.get_context("fork")  # a new interpreter would import everything again


def notes(*payloads):
    return [Entry("note", T, payload={"n": n}) for n in payloads]


def puppet(url, pipe):
    """A process of its own that does what it is told: a method of Journal and its arguments."""
    journal = nr.Journal(url)
    while True:
        try:
            name, *told = pipe.recv()
        except EOFError:
            return
        try:
            found = getattr(journal, name)
            pipe.send(len(found(*told)) if name == "write" else found(*told) if callable(found) else found)
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")


class Puppet:
    def __init__(self, url, play=puppet):
        self.pipe, other = FORK.Pipe()
        self.process = FORK.Process(target=play, args=(url, other), daemon=True)
        self.process.start()
        other.close()

    def __call__(self, *told):
        self.pipe.send(told)
        return self.pipe.recv()

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


def test_two_processes_on_one_database(url):
    """The second is refused while the first lives, and goes on where a kill -9 left it."""
    first, second = Puppet(url), Puppet(url)
    assert first("write", notes(1, 2)) == 2
    assert second("lock", 0.1) is False
    assert second("write", notes(3)).startswith("NotTheWriter: somebody else writes the journal of programme")
    assert second("head") == 2
    first.kill()
    assert second("lock", 20.0) is True
    assert second("write", notes(3)) == 1
    with nr.Journal(url) as journal:
        assert [e.payload["n"] for e in journal.events()] == [1, 2, 3]
        assert journal.verify().ok
        second.kill()
        assert journal.lock(20.0)


def endless(url, pipe):
    journal, luck = nr.Journal(url), random.Random(os.getpid())
    journal.lock(20.0)
    while True:
        size = luck.randint(1, 6)
        pipe.send(journal.write([Entry("note", T, payload={"of": size, "i": i}) for i in range(size)])[-1].number)


@pytest.mark.deep
def test_kill_9_at_random_moments(url):
    """What was acknowledged is there, groups are there whole, the chain holds; the next one goes on at once."""
    luck, acknowledged = random.Random(3), -1
    nr.Journal(url).close()
    for _ in range(6):
        writer = Puppet(url, endless)
        acknowledged = writer.pipe.recv()
        time.sleep(luck.uniform(0, 0.1))
        writer.kill()
        while writer.pipe.poll():
            try:
                acknowledged = writer.pipe.recv()
            except EOFError:
                break
    with nr.Journal(url) as journal:
        assert journal.lock(20.0)
        events = list(journal.events())
        assert journal.head == len(events) > acknowledged > 5
        assert journal.verify().ok
    while events:
        size = events[0].payload["of"]
        assert [e.payload for e in events[:size]] == [{"of": size, "i": i} for i in range(size)]
        del events[:size]


def lose_the_lock(journal):
    if journal.url.startswith("sqlite"):
        os.unlink(journal._writer.lock_path)
    else:
        own = journal._writer._connection.info.backend_pid
        journal._server.connect().execute("SELECT pg_terminate_backend(%s, 5000)", (own,))


def test_a_writer_that_lost_its_lock_cannot_write_beside_another(url):
    with nr.Journal(url) as journal:
        journal.write(notes(1))
        lose_the_lock(journal)
        other = Puppet(url)
        assert other("write", notes(2, 3)) == 2
        for _ in range(3):
            with pytest.raises((NotTheWriter, JournalUnavailable)):
                journal.write(notes(-1))
        other.kill()
        assert journal.lock(20.0)
        assert journal.head == 3  # and now its owner knows of what was written meanwhile
        journal.write(notes(4))
        assert [e.payload["n"] for e in journal.events()] == [1, 2, 3, 4]
        assert journal.verify().ok


def test_a_lost_lock_that_nobody_took_is_taken_again(url):
    with nr.Journal(url) as journal:
        journal.write(notes(1))
        lose_the_lock(journal)
        until = time.monotonic() + 20
        while True:
            try:
                journal.write(notes(2))
                break
            except JournalUnavailable:
                assert time.monotonic() < until
        assert journal.head == 2
        assert journal.locked


def test_what_was_not_seen_is_not_written_upon(url):
    """A writer without the lock takes it, but not on top of events that its caller has not been told of."""
    with nr.Journal(url) as one, nr.Journal(url) as two:
        two.write(notes(1))
        two.unlock()
        for _ in range(2):
            with pytest.raises(NotTheWriter, match="has 1 events, not the 0 that were there"):
                one.write(notes(2))
        assert one.head == 1
        one.write(notes(2))
        assert one.verify().ok


def test_the_primary_key_alone_keeps_two_writers_apart(url, monkeypatch):
    """Both are made to believe that they hold the lock; every number is written once, and the chain holds."""
    one, two = nr.Journal(url), nr.Journal(url)
    one.lock()
    for writer in (one._writer, two._writer):
        monkeypatch.setattr(type(writer), "held", True)
        monkeypatch.setattr(type(writer), "lock", lambda self: True)
    if not url.startswith("sqlite"):
        two._writer._open()
    written, refused = [], []

    def write(journal):
        for n in range(30):
            try:
                written.append(journal.write(notes(n))[0].chain)
            except NotTheWriter:
                refused.append(n)
                if not url.startswith("sqlite"):
                    journal._writer._open()
                journal._look()

    threads = [threading.Thread(target=write, args=(journal,)) for journal in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) + len(refused) == 60
    assert sorted(written) == sorted(e.chain for e in one.events())
    assert one.verify().ok
    monkeypatch.undo()
    one.close()
    two.close()


def crowded(url, pipe):
    """Writes until there is no room, and again when there is."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal = nr.Journal(url)
    written = len(journal.write(notes(0)))
    size = os.path.getsize(url.removeprefix("sqlite:///") + "-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300_000, resource.RLIM_INFINITY))
    said = ""
    while not said and written < 2000:
        try:
            written += len(journal.write([Entry("note", T, payload={"n": written, "long": "x" * 9000})] * 3))
        except JournalUnavailable as error:
            said = str(error)
    full = journal.head
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    again = journal.write(notes(-1))[0].number
    pipe.send((said, written, full, again, journal.verify().ok))
    pipe.recv()


def test_disk_full_on_sqlite(tmp_path):
    said, written, full, again, right = Puppet(f"sqlite:///{tmp_path}/journal.db", crowded).pipe.recv()
    assert "is not available" in said
    assert 3 < written == full == again < 2000
    assert right


def test_a_server_that_refuses_to_write(postgres_server):
    with nr.Journal(postgres_server.new()) as journal:
        journal.write(notes(1))
        journal._writer._connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(JournalUnavailable, match="read-only"):
            journal.write(notes(2))
        assert journal.head == 1
        journal.write(notes(2))  # by a new connection
        assert journal.verify().events == 2


def test_drivers_errors_are_told_apart():
    psycopg = pytest.importorskip("psycopg")
    passing = (
        psycopg.errors.DiskFull("no space\nleft"),
        psycopg.errors.AdminShutdown("bye"),
        psycopg.errors.ReadOnlySqlTransaction(),
        sqlite3.OperationalError("database or disk is full"),
        sqlite3.OperationalError("database is locked"),
    )
    lasting = (
        psycopg.errors.UndefinedTable(),
        sqlite3.DatabaseError("malformed"),
        sqlite3.OperationalError("no such table: x"),
    )
    for error in passing:
        made = errors.translated(error, "here")
        assert isinstance(made, JournalUnavailable)
        assert "\n" not in str(made)
    for error in lasting:
        assert type(errors.translated(error, "here")) is JournalDamaged  # of the database, not of one row


@pytest.mark.long
def test_postgresql_restarted_under_a_journal(postgres_server):
    with nr.Journal(postgres_server.new()) as journal:
        journal.write([Entry("begin", T, "a", {"x": [1]}, key="k")])
        journal.keep_snapshot(1, b"one", "1")
        assert journal.answered(["k"])
        for end in (postgres_server.kill, postgres_server.stop):
            end()
            with pytest.raises(JournalUnavailable):
                journal.write(notes(1))
            for ask in (
                lambda: journal.head, journal.lock, lambda: journal.of("a"), lambda: list(journal.events()),
                lambda: journal.answered(["k"]), lambda: journal.keep_snapshot(2, b"", "1"), journal.snapshots,
            ):  # fmt: skip
                with pytest.raises(JournalUnavailable, match="is not available"):
                    ask()
            assert not journal.locked
            postgres_server.start()
            assert journal.of("a") == list(journal.answered(["k"]).values()) == list(journal.events(0, 1))
            assert journal.snapshot(1) == b"one"
            head = journal.head
            assert journal.write(notes(2))[0].number == head
        assert journal.verify().ok


def test_a_writer_who_waits_hears_that_its_connection_was_ended(postgres_server):
    url = postgres_server.new()
    with nr.Journal(url) as journal, nr.Journal(url) as other:
        assert journal.lock()
        assert journal.locked
        pid = journal._writer._connection.info.backend_pid
        other._server.connect().execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        assert not journal.locked
        assert other.lock()
        assert not journal.lock()


def test_a_file_that_was_removed_or_replaced(tmp_path):
    path = tmp_path / "journal.db"
    with nr.Journal(path) as journal:
        journal.write(notes(1))
        os.rename(path, tmp_path / "away.db")
        for replace in (False, True):
            if replace:
                path.write_bytes(b"")
            with pytest.raises(JournalUnavailable, match="removed or replaced"):
                journal.write(notes(2))
        os.rename(tmp_path / "away.db", path)
        assert journal.head == 1
        journal.write(notes(2))
        assert [e.payload["n"] for e in journal.events()] == [1, 2]


REMOVED = """
import os, sys
import noregret as nr
from noregret.journal.errors import JournalUnavailable
from noregret.journal.event import Entry
path = sys.argv[1]
one, two = nr.Journal(path, "one"), nr.Journal(path, "two")
for journal in (one, two):
    journal.write([Entry("begin", "2026-01-01", n, {}) for n in range(500)])
os.unlink(path + "-wal")
for journal in (one, two):
    for n in range(500, 510):
        try:
            journal.write([Entry("begin", "2026-01-01", n, {})])
        except JournalUnavailable as error:
            print(error)
            journal.close()
            journal = nr.Journal(path, journal.programme)
            journal.write([Entry("begin", "2026-01-01", n, {})])
os.kill(os.getpid(), 9)
"""


def test_a_write_ahead_log_that_was_removed(tmp_path):
    """SQLite would go on with a file that has no name, and all of it would end with the process."""
    path = tmp_path / "journal.db"
    run = subprocess.run([sys.executable, "-c", REMOVED, str(path)], capture_output=True, text=True, timeout=120)
    assert run.returncode == -9, run.stderr
    assert "write-ahead log" in run.stdout
    for name in ("one", "two"):
        with nr.Journal(path, name) as journal:
            assert [e.who for e in journal.events()] == list(range(510))
            assert journal.verify().ok


def test_a_journal_is_not_used_in_a_forked_process_or_when_closed(url):
    with nr.Journal(url) as journal:
        journal.write(notes(1))
        pipe, other = FORK.Pipe()

        def use():
            try:
                journal.write(notes(2))
            except RuntimeError as error:
                other.send(str(error))
            os._exit(0)

        process = FORK.Process(target=use)
        process.start()
        assert "forked" in pipe.recv()
        process.join()
        journal.write(notes(2))
    for ask in (lambda: journal.head, lambda: journal.write(notes(3)), lambda: journal.of(1), journal.lock):
        with pytest.raises(RuntimeError, match="closed"):
            ask()


# What is no journal -----------------------------------------------------------------------------------------------
def test_files_that_are_no_journals(tmp_path):
    (tmp_path / "text.db").write_text("This is a diary, and a long one at that. " * 100)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE patients (name)")
    other.commit()
    other.close()
    (tmp_path / "folder.db").mkdir()
    for name, said in {
        "text.db": "no journal, or it is damaged", "other.db": "other tables", "folder.db": "url must be",
        "nowhere/a.db": "url must be",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=said):
            nr.Journal(tmp_path / name)
    assert "patients" in (tmp_path / "other.db").read_bytes().decode(errors="replace")
    for create in ("new.db", "text.db"):
        with pytest.raises(ValueError, match="no journal"):
            nr.Journal(tmp_path / create, create=False)
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(ValueError, match="no such file"):
        nr.Journal.programmes(tmp_path / "new.db")


def test_a_damaged_file_is_found(tmp_path):
    path, luck = tmp_path / "journal.db", random.Random(0)
    with nr.Journal(path) as journal:
        journal.write([Entry("note", T, i, {"text": "x" * 200, "i": i}, key=f"k{i}") for i in range(400)])
        journal.keep_snapshot(400, b"s" * 50_000, "1")
    data = path.read_bytes()
    for _ in range(30):
        torn = bytearray(data)
        for _ in range(3):
            at = luck.randrange(len(data))
            torn[at : at + 200] = luck.randbytes(min(200, len(data) - at))
        path.write_bytes(torn)
        assert not _believed(path)
    path.write_bytes(data[: len(data) // 2])
    assert not _believed(path)
    path.write_bytes(data)
    assert _believed(path)


def _believed(path):
    """Whether a journal says that it and its snapshot are right: what was torn must not go unseen."""
    try:
        with nr.Journal(path, create=False) as journal:
            right = journal.verify().ok and len(journal.snapshot(400)) == 50_000
            numbers = [e.payload["i"] for e in journal.events()]
            people = len(journal.answered([f"k{i}" for i in range(400)])) == 400
    except (ValueError, JournalUnavailable):
        return False
    return right and numbers == list(range(400)) and people


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://host/base", "url must be a path, sqlite:///path or postgresql"), ("", "url must"), (3, "url must"),
        (":memory:", "url must name a file"), ("sqlite://", "url must name a file"), ("a\0b", "url must be"),
        ("postgresql://host/base?nonsense=1", "url must be that of a PostgreSQL database"),
    ],
)  # fmt: skip
def test_urls(url, said):
    with pytest.raises(ValueError, match=said):
        nr.Journal(url)


def test_a_server_that_is_not_there_and_no_password_in_what_is_said(tmp_path):
    pytest.importorskip("psycopg")
    with pytest.raises(JournalUnavailable) as caught:
        nr.Journal(f"postgresql://me:geheim@/base?host={tmp_path}")
    assert "geheim" not in str(caught.value)
    assert "postgresql://me@/base" in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "../x", "é", "x" * 101, None, 3, "-a", "a\n"])
def test_names_of_programmes(name, tmp_path):
    with pytest.raises(ValueError, match="programme must be a name"):
        nr.Journal(tmp_path / "journal.db", name)


# What can be written ----------------------------------------------------------------------------------------------
@pytest.mark.long
def test_what_cannot_be_written_is_said(url):
    deep = {}
    for _ in range(100_000):
        deep = {"in": deep}
    wrong = {
        "kind must be": {"kind": "decided"}, "time must be": {"time": "yesterday"}, "time must be a": {"time": None},
        "who must be": {"who": 1.5}, "who must be a": {"who": True}, "who must be an": {"who": 2**63},
        "who must be an integer": {"who": "x" * 201}, "key must be": {"key": ""},
        "key must be text": {"key": "x" * 501}, "key must be text of": {"key": 3},
        "key must be text without": {"key": "a\0"},
        "key must be text without NUL": {"key": "\ud800"}, "asked must be": {"asked": "text"},
        "asked must be at most": {"asked": bytes(65)}, "payload must be a dict": {"payload": [1]},
        "payload must be JSON": {"payload": {"x": float("inf")}}, "payload must be JSON,": {"payload": {"x": b""}},
        "payload must not be nested": {"payload": deep}, "payload must have at most": {"payload": {"x": "x" * 2**24}},
        "answer must be": {"answer": b"x"}, "answer must be text without": {"answer": "\0"},
        "answer must have at most": {"answer": "x" * (2**24 + 1)},
    }  # fmt: skip
    with nr.Journal(url) as journal:
        for said, how in wrong.items():
            with pytest.raises(ValueError, match=said):
                journal.write([*notes(1), Entry(**({"kind": "note", "time": T} | how))])
        assert journal.head == 0
        journal.write(notes(1))


NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ANY = st.text(st.characters(), max_size=200)  # NUL, halves of surrogate pairs, everything
LINES = st.text(st.sampled_from("\\\n\r\t\"'\0a%;N.é\N{GRINNING FACE}\u2028"), max_size=30)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def fuzzed(request, tmp_path_factory):
    server = request.param == "postgresql" and request.getfixturevalue("postgres_server")
    with nr.Journal(server.new() if server else tmp_path_factory.mktemp("fuzz") / "journal.db") as journal:
        yield journal


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_anything_is_refused_or_comes_back(fuzzed, data):
    """Texts with NUL, halves of surrogate pairs, emoji, backslashes and new lines; any JSON. One row, and several."""
    entries = [
        Entry(
            "note",
            T,
            data.draw(ANY | LINES | st.integers(-(2**63), 2**63 - 1) | st.none()),
            data.draw(st.none() | st.dictionaries(ANY | LINES, JSON, max_size=3)),
            data.draw(st.none() | ANY | LINES),
            data.draw(st.none() | LINES.map(lambda k: f"{k}{fuzzed.head}")),
            data.draw(st.none() | st.binary(max_size=64)),
        )
        for _ in range(data.draw(st.sampled_from([1, 3])))
    ]
    before = fuzzed.head
    keys = [e.key for e in entries if e.key is not None]
    told = "".join(keys + [e.answer for e in entries if e.answer is not None])
    if "\0" in told or any("\ud800" <= c <= "\udfff" for c in told) or len(set(keys)) < len(keys):
        with pytest.raises(ValueError, match="must be"):
            fuzzed.write(entries)
        assert fuzzed.head == before
        return
    made = fuzzed.write(entries)
    back = list(fuzzed.events(before))
    assert back == made
    for event, one in zip(back, entries, strict=True):
        for name, value in vars(one).items():
            found = getattr(event, name)
            assert found == value
            assert type(found) is type(value)
        assert event.key is None or fuzzed.answered([event.key])[event.key] == event
    assert fuzzed.verify(start=before).ok


# Versions ---------------------------------------------------------------------------------------------------------
def versions(url):
    return database.Database(url).read(lambda c: [tuple(r) for r in c.exec_driver_sql("SELECT * FROM journal_version")])


def by_hand(url, *statements):
    connection = database.server_of(url).connect(True)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_migrations_make_the_tables_of_today(url):
    nr.Journal(url).close()
    made = database.Database(url)
    told = made.read(
        lambda c: compare_metadata(
            MigrationContext.configure(c, opts={"version_table": schema.VERSIONS, "include_object": mine}),
            schema.metadata,
        )
    )
    assert told == []
    assert versions(url) == [(schema.VERSION,)]
    made.close()


def mine(thing, name, kind, reflected, other):
    return kind != "table" or name.startswith("journal_")


def test_a_database_of_version_0_is_upgraded(url):
    """One that was being made when its process was killed: it has the table of versions, and nothing in it."""
    by_hand(url, "CREATE TABLE journal_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    with pytest.raises(ValueError, match="there is no journal in"):
        nr.Journal(url, create=False)
    with nr.Journal(url) as journal:
        journal.write(notes(1))
    assert versions(url) == [(schema.VERSION,)]


def test_a_version_of_the_future_is_refused(url):
    nr.Journal(url).close()
    by_hand(url, "UPDATE journal_version SET version_num = '0007'")
    for create in (True, False):
        with pytest.raises(ValueError, match="made by a later version of noregret: its tables have version 0007"):
            nr.Journal(url, create=create)


SECOND = '''
"""What a second version may be like."""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "0002", "0001"

def upgrade():
    op.add_column("journal_events", sa.Column("more", sa.Text))
    op.execute("UPDATE journal_events SET more = kind")
'''


def test_a_journal_goes_on_through_an_upgrade(url, tmp_path):
    with nr.Journal(url) as journal:
        before = journal.write(notes(1, 2, 3))
        journal.keep_snapshot(3, b"three", "1")
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "v0002_more.py").write_text(SECOND)
    made = database.Database(url)
    with made.transaction() as connection:
        upgrade(connection, (str(folder),))
    with made.transaction() as connection:  # nothing is left to do
        upgrade(connection, (str(folder),))
    assert made.read(lambda c: c.exec_driver_sql("SELECT more FROM journal_events").scalars().all()) == ["note"] * 3
    made.close()
    with pytest.raises(ValueError, match="later version"):
        nr.Journal(url)
    by_hand(url, "UPDATE journal_version SET version_num = '0001'", "ALTER TABLE journal_events DROP COLUMN more")
    with nr.Journal(url) as journal:
        assert list(journal.events()) == before
        assert journal.snapshot(3) == b"three"
        assert journal.verify().ok


def test_a_failed_upgrade_leaves_the_database_as_it_was(url, tmp_path):
    nr.Journal(url).close()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "v0002_more.py").write_text(SECOND + '    op.execute("SELECT one FROM nowhere")\n')
    made = database.Database(url)
    with pytest.raises(ValueError, match="nowhere"), made.transaction() as connection:
        upgrade(connection, (str(tmp_path / "more"),))
    made.close()
    assert versions(url) == [("0001",)]
    with nr.Journal(url) as journal:
        journal.write(notes(1))


def test_somebody_writes_while_the_log_is_made(tmp_path):
    """SQLite refuses at once to begin a write-ahead log while others write: the journal waits until they are done."""
    path = tmp_path / "journal.db"
    nr.Journal(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    assert other.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    timer.start()
    with nr.Journal(path) as journal:
        journal.write(notes(1))
    timer.join()
    other.close()
    with nr.Journal(path) as journal:
        assert journal.head == 1


def test_many_open_an_empty_database_at_once(url):
    wrong, barrier = [], threading.Barrier(5)

    def begin(i):
        barrier.wait()
        try:
            with nr.Journal(url, f"p{i}") as journal:
                journal.write(notes(i))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert nr.Journal.programmes(url) == [f"p{i}" for i in range(5)]
