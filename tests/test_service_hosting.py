"""Several programmes in a process, several processes on a database: who has what, and who takes over."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import noregret as nr
from noregret.journal.journal import Journal
from noregret.service import serving
from noregret.service.hosting import Host
from noregret.service.programme_file import programme_from
from noregret.service.writer import Lost
from programmes import Caller, Gate, P, context, events, folded, settings, state_of, table, until

pytestmark = pytest.mark.deep


def ready(host, *names):
    until(lambda: all(name in host.programmes and host.programmes[name].state == "ready" for name in names))


def standing(host, name):
    return host.programmes[name].state == "standing by"


@pytest.mark.long
def test_every_process_gets_its_own_first_and_takes_over_what_is_free(url):
    both = [settings("a"), settings("b")]
    with contextlib.ExitStack() as stack:
        first = Host(url, both, preferred=["a"], grace=60.0)
        first.start()
        stack.callback(first.stop)
        ready(first, "a")
        assert standing(first, "b")  # nobody has it: it is another's first
        second = stack.enter_context(Host(url, both, preferred=["b"], grace=0.05))
        ready(second, "b")
        assert standing(second, "a")
        tell = Caller(first.find("a"))
        assert tell("begin", "Ms B", x=context(0))[0] == 200
        made = tell("decide", "Ms B", key="d", state="moderate")
        assert made[1]["by"] == "agent"
        state = first.find("a").read(state_of)
        first.stop()
        ready(second, "a")
        assert second.find("a").read(state_of) == state
        tell = Caller(second.find("a"), "later")
        assert tell("decide", "Ms B", key="d", state="moderate") == made  # a retry
        assert tell("outcome", "Ms B", next_state="mild", reward=0.5)[0] == 200
        assert second.find("a").read(state_of) == folded(url, "a")


def test_a_programme_that_another_process_creates_is_found(tmp_path):
    url = str(tmp_path / "journal.db")
    with Host(url, look=0.02, grace=0.02) as second:
        with Host(url, look=0) as first:
            made = first.create(settings("new"))
            assert first.create(settings("new")) is made
            with pytest.raises(ValueError, match=r"programme\.name: new is taken by another programme"):
                first.create(settings("new", deadline_ms=7.0))
            ready(first, "new")
            until(lambda: second.find("new") is not None)
            assert second.find("new").settings.table() == made.settings.table()
            assert second.find("new").state == "standing by"
        ready(second, "new")


@pytest.mark.long
def test_programmes_that_were_created_are_there_after_a_restart(tmp_path):
    url = str(tmp_path / "journal.db")
    nr.CertifiedPSRL(P).save(tmp_path / "agent.npz")
    told = {name: part for name, part in table("filed").items() if name != "agent"}
    filed = programme_from(told | {"problem": {"agent_file": str(tmp_path / "agent.npz")}})
    with Host(url, look=0) as host:
        for made in (filed, settings("new")):
            host.create(made)
        ready(host, "filed", "new")
    (tmp_path / "agent.npz").unlink()  # that one cannot be served any more
    with Host(url, look=60.0) as host:
        assert sorted(host.programmes) == ["new"]


@pytest.mark.long
def test_programmes_may_have_a_file_each(tmp_path):
    with Host(str(tmp_path / "{programme}.db"), [settings("a"), settings("b")]) as host:
        ready(host, "a", "b")
        assert Caller(host.find("a"))("begin", "Ms B", x=context(0))[0] == 200
    assert len(events(str(tmp_path / "a.db"), "begin", name="a")) == 1
    assert events(str(tmp_path / "b.db"), "begin", name="b") == []
    with pytest.raises(ValueError, match="settings must have different names, got a, a"):
        Host("x.db", [settings("a"), settings("a")])


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from programmes import Caller, context, settings, until
from noregret.service import serving
from noregret.service.hosting import Host
host = Host({url!r}, [settings("clinic")])
host.start()
until(lambda: host.find("clinic").state == "ready")
tell = Caller(host.find("clinic"), "child")
k = 0
while True:
    assert tell("begin", k, x=context(k))[0] == 200
    status, made = tell("decide", k, state="moderate")
    print(k, made["action"], flush=True)
    assert tell("outcome", k, next_state="mild", reward=0.5)[0] == 200
    assert tell("end", k)[0] == 200
    k += 1
"""


@contextlib.contextmanager
def child(url):
    text = SCRIPT.format(tests=str(Path(__file__).parent), url=url)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env=env)
    try:
        yield made
    finally:
        made.kill()
        made.wait()
        made.stdout.close()


@pytest.mark.long
def test_a_process_that_is_killed_is_replaced_and_what_it_answered_is_there(postgres_server):
    url = postgres_server.new()
    with child(url) as other:
        told = [other.stdout.readline() for _ in range(5)]
        with Host(url, [settings("clinic")], look=0) as host:
            programme = host.find("clinic")
            assert programme.state == "standing by"
            other.send_signal(signal.SIGKILL)
            told += other.stdout.readlines()
            ready(host, "clinic")
            made = {e.who: e for e in events(url, "decide")}
            for line in told:
                who, action = line.rstrip("\n").split(" ", 1)
                assert made[int(who)].payload["by"] == "agent"
                assert f'"action":"{action}"' in made[int(who)].answer
            assert Caller(programme)("begin", "Ms B", x=context(0))[0] == 200
            assert programme.read(state_of) == folded(url)
    with Journal(url, "clinic") as journal:
        assert journal.verify().ok


@pytest.mark.long
def test_a_database_that_restarts_is_waited_for(postgres_server):
    url = postgres_server.new()
    with Host(url, [settings("clinic")], look=0) as host:
        ready(host, "clinic")
        programme = host.find("clinic")
        tell = Caller(programme)
        assert tell("begin", "Ms B", x=context(0))[0] == 200
        postgres_server.kill()
        assert tell("decide", "Ms B", key="d", state="moderate")[0] == 503
        postgres_server.start()
        until(lambda: programme.state == "ready")
        assert tell("decide", "Ms B", key="d", state="moderate")[0] == 200
        assert len(events(url, "decide")) == 1
        assert programme.read(state_of) == folded(url)


@contextlib.contextmanager
def looping():
    """An event loop in a thread called "loop"."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loop", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30.0)
        loop.close()


def where(programme):
    """The names of the threads that commit."""
    journal, found = programme._tenure.journal, set()
    write = journal.write
    journal.write = lambda entries: (found.add(threading.current_thread().name), write(entries))[1]
    return found


def test_on_a_file_rounds_run_on_the_loop_and_programmes_do_not_wait_for_each_other(tmp_path, monkeypatch):
    url = str(tmp_path / "{programme}.db")
    with looping() as loop:
        host = Host(url, [settings("one"), settings("two")], look=0)
        host.start(loop)
        try:
            ready(host, "one", "two")
            one, two = (host.find(name) for name in ("one", "two"))
            threads, slow, begin = where(two), Gate(nr.Live.begin), nr.Live.begin
            begins = {"slow": slow}
            monkeypatch.setattr(nr.Live, "begin", lambda live, who, *of: begins.get(who, begin)(live, who, *of))
            waits = threading.Thread(target=lambda: Caller(one)("begin", "slow", x=context(0)))
            waits.start()
            assert slow.held.wait(30.0)  # the first programme's agent is at work, and its round waits for it
            assert Caller(two)("begin", "Ms B", x=context(0))[1]["by"] == "agent"
            assert Caller(two, "j")("decide", "Ms B", state="moderate")[1]["by"] == "agent"
            assert threads == {"loop"}
            slow.open()
            waits.join(30.0)
            assert [e.payload["x"] for e in events(url.format(programme="one"), "begin", name="one")] == [context(0)]
        finally:
            host.stop()


@pytest.mark.long
def test_on_a_server_rounds_run_in_a_thread_of_the_programme(postgres_server):
    with looping() as loop:
        host = Host(postgres_server.new(), [settings("clinic")], look=0)
        host.start(loop)
        try:
            ready(host, "clinic")
            threads = where(host.find("clinic"))
            assert Caller(host.find("clinic"))("begin", "Ms B", x=context(0))[0] == 200
            assert threads == {"writer clinic"}
        finally:
            host.stop()


def test_journals_are_made_side_by_side(tmp_path):
    """Migrations of several databases at once, in threads of one process."""
    made = []
    threads = [threading.Thread(target=lambda k=k: made.append(Journal(tmp_path / f"{k}.db").head)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [0] * 8


def test_a_lost_journal_says_whose_it_is():
    from noregret.journal.errors import JournalUnavailable, NotTheWriter

    assert Lost(NotTheWriter("x")).taken
    assert not Lost(JournalUnavailable("x")).taken


# However it ends, the log says why --------------------------------------------------------------------------------
def test_a_service_that_cannot_start_says_so(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(serving.Host, "start", lambda *_: 1 / 0)
    with pytest.raises(SystemExit):
        serving.run([], str(tmp_path / "journal.db"), "127.0.0.1", 0, None)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert lines[0]["event"] == "starting"
    assert [line["error"] for line in lines if "could not be started" in line["event"]] == ["ZeroDivisionError"]
    assert (lines[-1]["event"], lines[-1]["status"]) == ("ended", "3")


@pytest.mark.parametrize(("what", "said"), [("signal.SIGTERM", '"stopped"'), ("signal.SIGSEGV", "Segmentation fault")])
def test_a_service_that_is_ended_while_it_loads_says_so(tmp_path, what, said):
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from noregret.service import serving\n"
        f"serving.load_programme = lambda file: os.kill(os.getpid(), {what})\n"
        f"serving.run([Path('x')], {str(tmp_path / 'journal.db')!r}, '127.0.0.1', 0, None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert said in done.stderr
