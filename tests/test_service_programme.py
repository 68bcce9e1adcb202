"""A programme at work, without HTTP: who decides, what is answered, what is written, what is left after a failure."""

import json
import random
import threading
import time

import numpy as np
import pytest

import noregret as nr
from clinic import CLINIC, RULE
from noregret.journal.errors import JournalUnavailable, NotTheWriter
from noregret.journal.journal import Journal
from noregret.live.fold import FoldError
from noregret.live.several import Live
from noregret.service import player as player_module
from noregret.service import writer as writer_module
from noregret.service.asking import ask
from noregret.service.programme_file import Settings, programme_from
from noregret.service.shadow import difference, planned, report
from programmes import HOUSE, Caller, context, events, folded, running, settings, state_of, table, until


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "journal.db")


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


# What is answered -------------------------------------------------------------------------------------------------
def test_an_episode_is_decided_by_the_agent_and_learned(url):
    with running(url) as programme:
        tell = Caller(programme)
        status, begun = tell("begin", "Ms B", x=context(0))
        assert (status, begun["by"], begun["episode"], set(begun["plan"])) == (200, "agent", 0, {"moderate"})
        twin = nr.Live(settings().made_live().agent, order="end", audit=False)
        plan = twin.begin("Ms B", context(0))
        assert begun["certificate"] == plan.certificate
        for h, (state, after) in enumerate([("moderate", "mild"), ("mild", "remission")]):
            status, made = tell("decide", "Ms B", state=state)
            due = twin.act("Ms B", state)
            assert (status, made["step"], made["by"], made["reason"]) == (200, h, "agent", None)
            assert (made["action"], made["certificate"]) == (due.action_name, due.certificate)
            assert tell("outcome", "Ms B", next_state=after, reward=0.5)[0] == 200
            twin.observe("Ms B", 0.5, after, h)
        assert tell("end", "Ms B")[0] == 200
        twin.end("Ms B")
        assert programme.read(state_of) == state_of(twin) == folded(url)
        facts = programme.facts()
        assert (facts["events"]["decide"], facts["head"], facts["state"]) == (2, facts["folded"], "ready")


def test_a_caller_may_choose(url):
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        made = tell("decide", "Ms B", state="moderate", action="wait")[1]
        assert (made["action"], made["by"], made["probability"]) == ("wait", "caller", None)
        assert programme.read(state_of) == folded(url)


def test_who_comes_out_of_order_is_told_so(url):
    with running(url) as programme:
        tell = Caller(programme)
        assert tell("decide", "nobody", state="moderate")[0] == 404
        assert tell("begin", "Ms B", x=[3.0, 0.0, 0.0])[0] == 422
        assert tell("begin", "Ms B", x={"age": 3})[0] == 422
        assert tell("begin", "Ms B")[0] == 422
        assert tell("begin", "Ms B", x=context(0))[0] == 200
        assert tell("begin", "Ms B", x=context(0))[0] == 409
        assert tell("outcome", "Ms B", next_state="mild", reward=0.1)[0] == 409  # before a decision
        assert tell("decide", "Ms B", state="mild")[0] == 422  # nobody begins there
        assert tell("decide", "Ms B", state="moderate", step=1)[0] == 409
        assert tell("decide", "Ms B", state="moderate")[0] == 200
        assert tell("decide", "Ms B", state="moderate")[0] == 409  # its outcome is missing
        assert tell("outcome", "Ms B", next_state="mild", reward=7.0)[0] == 422
        assert tell("outcome", "Ms B", next_state="mild", reward=None)[0] == 200
        assert tell("decide", "Ms B", state="severe")[0] == 409
        assert tell("reward", "Ms B", step=0, reward=0.25)[0] == 200
        assert tell("reward", "Ms B", step=1, reward=0.25)[0] == 409
        assert tell("close", "Ms B")[0] == 409
        assert tell("end", "Ms B")[0] == 200
        assert tell("end", "Ms B")[0] == 409
        assert tell("decide", "Ms B", state="mild")[0] == 409  # ended
        assert tell("reward", "Ms B", step=0, reward=0.75)[0] == 409  # learned
        assert tell("begin", "Ms B", x=context(1))[0] == 200  # she comes again
        assert tell("withdraw", "Ms B")[0] == 200
        assert tell("withdraw", "Ms B")[0] == 404
        kinds = [event.kind for event in events(url) if event.who == "Ms B"]
        assert kinds == ["begin", "decide", "outcome", "reward", "end", "begin", "withdraw"]
        assert programme.read(state_of) == folded(url)


def test_whoever_waits_to_be_learned_can_still_be_told_of(url):
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        tell("decide", "Ms B", state="moderate")
        assert tell("end", "Ms B", wait="close")[0] == 200
        assert tell("begin", "Ms B", x=context(0))[0] == 409  # not learned yet
        assert tell("outcome", "Ms B", next_state="mild", reward=None, step=0)[0] == 200
        assert tell("reward", "Ms B", step=0, reward=0.5)[0] == 200
        assert tell("reward", "Ms B", step=0, reward=0.75)[0] == 200
        assert tell("close", "Ms B")[0] == 200
        assert tell("reward", "Ms B", step=0, reward=0.5)[0] == 409
        kinds = [event.kind for event in events(url) if event.who == "Ms B"]
        assert kinds == ["begin", "decide", "end", "outcome", "reward", "correction", "close"]
        assert programme.read(state_of) == folded(url)


def test_the_same_key_gets_the_same_answer_and_another_body_is_refused(url):
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        first = tell("decide", "Ms B", key="a", state="moderate")
        assert tell("decide", "Ms B", key="a", state="moderate") == first
        assert tell("decide", "Ms B", key="a", state="mild")[0] == 409
        assert tell("decide", "Mr C", key="a", state="moderate")[0] == 409
        assert tell("end", "Ms B", key="a")[0] == 409
        assert len(events(url, "decide")) == 1
    with running(url, ready=False) as programme:  # for ever
        assert Caller(programme)("decide", "Ms B", key="a", state="moderate") == first


def test_one_key_twice_in_a_batch_is_written_once(url):
    with running(url) as programme:
        writer = programme._tenure.writer
        held = Gate(writer.journal.write)
        writer.journal.write = held
        here = threading.Thread(target=lambda: Caller(programme, "x")("begin", "Mr A", x=context(1)))
        here.start()
        assert held.held.wait(10.0)  # the others wait together
        requests = [ask("begin", "Ms B", "same", {"x": context(0)}) for _ in range(3)]
        requests += [ask("begin", "Ms B", "same", {"x": context(1)}), ask("end", "Ms B", "another")]
        threading.Timer(0.02, held.open).start()
        answers = submit(programme, requests)
        here.join()
        assert [a.status for a in answers] == [200, 200, 200, 409, 200]
        assert len({a.text for a in answers[:3]}) == 1
        assert [e.who for e in events(url, "begin")] == ["Mr A", "Ms B"]


def test_a_refusal_is_not_remembered(url):
    with running(url) as programme:
        tell = Caller(programme)
        assert tell("decide", "Ms B", key="early", state="moderate")[0] == 404
        tell("begin", "Ms B", x=context(0))
        assert tell("decide", "Ms B", key="early", state="moderate")[0] == 200


# Who decides ------------------------------------------------------------------------------------------------------
def test_the_house_rule_decides_while_the_agent_is_made(url, monkeypatch):
    making = Gate(Settings.made_live)
    monkeypatch.setattr(Settings, "made_live", lambda self: making(self))
    with running(url, ready=False) as programme:
        tell = Caller(programme)
        begun = tell("begin", "Ms B", x=context(0))[1]
        assert (begun["by"], begun["plan"], begun["certificate"]) == ("house", {"moderate": "drug A"}, None)
        made = tell("decide", "Ms B", state="moderate")[1]
        assert (made["action"], made["by"], made["reason"], made["probability"]) == ("drug A", "house", "loading", 1.0)
        assert programme.state == "loading"
        assert tell("outcome", "Ms B", next_state="mild", reward=0.5)[0] == 200
        tell("begin", "Mr A", x=context(1))
        assert tell("end", "Mr A")[0] == 200
        assert tell("reward", "Mr A", step=0, reward=0.0)[0] == 409
        assert tell("begin", "Mr A", x=context(1))[0] == 503  # was he learned? nobody knows yet
        making.open()
        until(lambda: programme.state == "ready")
        assert tell("decide", "Ms B", state="mild")[1]["by"] == "agent"
        assert tell("begin", "Mr A", x=context(1))[0] == 200
        assert programme.read(state_of) == folded(url)
        assert programme.facts()["house"] == {"loading": 1}


def test_a_slow_refresh_makes_nobody_wait_longer_than_the_deadline(url, monkeypatch):
    with running(url, settings(deadline_ms=30.0)) as programme:
        tell = Caller(programme)
        for k, who in enumerate(("Mr A", "Ms B")):
            while tell("begin", who, key=f"begin {who}", x=context(k))[0] != 200:
                pass
        slow = Gate(nr.Live.end)
        monkeypatch.setattr(nr.Live, "end", lambda self, *args: slow(self, *args))
        assert tell("end", "Mr A")[0] == 200  # nobody waits for what is learned from him
        began = time.monotonic()
        made = tell("decide", "Ms B", state="moderate")[1]
        assert (made["by"], made["reason"]) == ("house", "deadline")
        assert time.monotonic() - began < 5.0
        assert slow.held.is_set()
        slow.open()
        assert tell("outcome", "Ms B", next_state="mild", reward=0.5)[0] == 200
        until(lambda: programme.facts()["folded"] == programme.facts()["head"])
        assert programme.read(state_of) == folded(url)


def test_a_decision_that_both_have_made_is_whose_claim_came_first(url, monkeypatch):
    """The player has computed the agent's action when the deadline passes: the house rule's is written and folded."""
    with running(url, settings(deadline_ms=30.0)) as programme:
        tell = Caller(programme)
        while tell("begin", "Ms B", key="b", x=context(0))[0] != 200:
            pass
        late = Gate(player_module.Batch.claim)
        monkeypatch.setattr(player_module.Batch, "claim", lambda *args: late(*args))
        made = tell("decide", "Ms B", state="moderate")[1]
        assert (made["by"], made["reason"]) == ("house", "deadline")
        late.open()
        until(lambda: programme.facts()["folded"] == programme.facts()["head"])
        assert programme.read(lambda live: live._people["Ms B"].others) == (True,)
        assert programme.read(state_of) == folded(url)


def test_an_agent_that_fails_is_replaced_by_the_house_rule_until_it_is_resumed(url, monkeypatch):
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))

        def broken(*_):
            raise FoldError("it does not fold")

        monkeypatch.setattr(player_module, "fold", broken)
        assert tell("decide", "Ms B", state="moderate", action="wait")[0] == 200
        until(lambda: programme.state == "failed")
        until(lambda: events(url, "alarm"))
        assert "it does not fold" in events(url, "alarm")[0].payload["sentence"]
        assert programme.facts()["alarms"][-1]["what"] == "failed"
        assert tell("outcome", "Ms B", next_state="mild", reward=0.5)[0] == 200
        assert tell("decide", "Ms B", state="mild")[1]["reason"] == "failed"
        monkeypatch.undo()
        assert tell("resume", None)[0] == 200
        until(lambda: programme.state == "ready")
        assert tell("outcome", "Ms B", next_state="moderate", reward=0.5)[0] == 200
        assert tell("decide", "Ms B", state="moderate")[1]["by"] == "agent"
        assert programme.read(state_of) == folded(url)


@pytest.mark.parametrize("chosen", [{}, {"action": "wait"}])
def test_an_alarm_does_not_say_whose_event_failed(url, chosen):
    with running(url, settings(deadline_ms=500.0)) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        programme.read(lambda live: live.abandon("Ms B"))  # the agent does not know her any more
        programme.submit(ask("decide", "Ms B", "d", {"state": "moderate"} | chosen))
        until(lambda: events(url, "alarm"))
        said = events(url, "alarm")[0].payload["sentence"]
        assert "decide" in said
        assert "Ms B" not in said + programme.facts()["failure"]


def test_paused_it_learns_and_the_house_rule_decides_also_after_a_restart(url):
    with running(url) as programme:
        tell = Caller(programme)
        assert tell("pause", None)[0] == 200
        assert programme.state == "paused"
        tell("begin", "Ms B", x=context(0))
        assert tell("decide", "Ms B", state="moderate")[1]["reason"] == "paused"
    with running(url) as programme:
        tell = Caller(programme, "later")
        assert programme.state == "paused"
        tell("outcome", "Ms B", next_state="mild", reward=0.5)
        assert tell("decide", "Ms B", state="mild")[1]["reason"] == "paused"
        assert tell("resume", None)[0] == 200
        tell("outcome", "Ms B", next_state="moderate", reward=0.5)
        assert tell("decide", "Ms B", state="moderate")[1]["by"] == "agent"
        assert programme.read(state_of) == folded(url)


def test_the_house_rule_tells_nobody_of_what_they_cannot_get(url):
    with running(url, settings(shadow=True)) as programme:
        tell, barred = Caller(programme), [[s == 2 and a == 1 for a in range(3)] for s in range(4)]
        assert tell("begin", "Mr A", x=context(0))[1]["plan"] == {"moderate": "drug A"}
        plan = tell("begin", "Ms B", x=context(1), unavailable=barred)[1]["plan"]
        assert plan["moderate"] in ("wait", "drug B")
        assert tell("decide", "Ms B", state="moderate")[1]["action"] in ("wait", "drug B")


def test_in_shadow_the_agent_decides_nothing(url):
    with running(url, settings(shadow=True)) as programme:
        tell = Caller(programme)
        assert tell("begin", "Ms B", x=context(0))[1]["reason"] == "shadow"
        made = tell("decide", "Ms B", state="moderate")[1]
        assert (made["by"], made["reason"], made["action"]) == ("house", "shadow", "drug A")
        until(lambda: programme.facts()["folded"] == programme.facts()["head"])
        assert programme.read(state_of) == folded(url)


# What is left after a failure -------------------------------------------------------------------------------------
def test_a_full_queue_refuses_and_loses_nothing(url):
    with running(url, settings(queue=5)) as programme:
        until(lambda: events(url, "snapshot"))  # its note has a place in the queue, too
        writer = programme._tenure.writer
        held = Gate(writer.journal.write)
        writer.journal.write = held
        first = threading.Thread(target=lambda: Caller(programme, "x")("begin", "Mr A", x=context(1)))
        first.start()
        assert held.held.wait(10.0)
        requests = [ask("begin", k, f"key {k}", {"x": context(k)}) for k in range(20)]
        threading.Timer(0.02, held.open).start()
        answers = submit(programme, requests)
        first.join()
        taken = [a for a in answers if a.status == 200]
        n = len(taken)
        assert n in (4, 5)  # a note of the programme's own may wait there, too
        assert {(a.status, a.retry_after) for a in answers if a not in taken} == {(503, 1)}
        assert [e.who for e in events(url, "begin")] == ["Mr A", *range(n)]
        assert [a.status for a in submit(programme, requests[n : n + 3])] == [200] * 3


@pytest.mark.parametrize("written", [False, True])
def test_a_commit_that_fails_is_answered_503_and_asked_again(url, written):
    """written: the database had it, and went away before it said so."""
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        writer = programme._tenure.writer
        write = writer.journal.write

        def fails(entries):
            if written:
                write(entries)
            raise JournalUnavailable("disk full")

        writer.journal.write = fails
        assert tell("decide", "Ms B", key="a", state="moderate")[0] == 503
        until(lambda: programme.state == "ready")
        assert programme._tenure.writer is not writer
        assert tell("decide", "Ms B", key="a", state="moderate")[0] == 200
        assert tell("outcome", "Ms B", next_state="mild", reward=0.5)[0] == 200
        assert [e.payload["step"] for e in events(url, "decide")] == [0]
        assert programme.read(state_of) == folded(url)
        assert programme.facts()["failures"] == 1


def test_a_journal_that_is_away_is_waited_for(url, monkeypatch):
    with running(url) as programme:
        tell = Caller(programme)
        away = threading.Event()
        away.set()
        init = Journal.__init__

        def opened(self, *args, **options):
            if away.is_set():
                raise JournalUnavailable("no such server")
            init(self, *args, **options)

        monkeypatch.setattr(Journal, "__init__", opened)
        programme._tenure.writer.journal.write = lambda entries: (_ for _ in ()).throw(JournalUnavailable("gone"))
        assert [tell("begin", "Ms B", key="a", x=context(0))[0] for _ in range(3)] == [503] * 3
        assert programme.state == "standing by"
        away.clear()
        until(lambda: programme.state == "ready")
        assert tell("begin", "Ms B", key="a", x=context(0))[0] == 200


def test_a_programme_that_lost_its_lock_stands_by(url, monkeypatch):
    with running(url) as programme:
        other = Journal(url, "clinic")
        monkeypatch.setattr("noregret.service.programme.IDLE", 0.01)
        programme._tenure.writer.journal.unlock()
        assert other.lock(5.0)
        until(lambda: programme.state == "standing by")
        answer = programme.submit(ask("begin", "Ms B", "a", {"x": context(0)}))
        assert (answer.status, answer.retry_after) == (503, 1)
        other.close()
        until(lambda: programme.state == "ready")
        assert Caller(programme)("begin", "Ms B", x=context(0))[0] == 200


def test_somebody_who_wrote_beside_is_noticed(url):
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        programme._tenure.writer.journal.write = lambda entries: (_ for _ in ()).throw(NotTheWriter("another's"))
        assert tell("decide", "Ms B", key="a", state="moderate")[0] == 503
        until(lambda: programme.state == "ready")
        assert tell("decide", "Ms B", key="a", state="moderate")[0] == 200
        assert programme.read(state_of) == folded(url)


def test_a_clock_that_is_set_back_changes_nothing(url, monkeypatch):
    class Back:
        n = 0

        @classmethod
        def now(cls, zone):
            from datetime import datetime, timedelta

            cls.n += 1
            return datetime(2026, 10, 25, 3, tzinfo=zone) - timedelta(minutes=20 * cls.n)

    with running(url) as programme:
        monkeypatch.setattr(writer_module, "datetime", Back)
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        assert tell("decide", "Ms B", state="moderate")[1]["by"] == "agent"
        assert tell("outcome", "Ms B", next_state="mild", reward=0.5)[0] == 200
        told = [e.time for e in events(url, "begin", "decide", "outcome")]
        assert told == sorted(told, reverse=True)
        assert programme.read(state_of) == folded(url)


def test_a_journal_of_another_agent_is_not_served(url):
    with running(url):
        pass
    other = settings().model_copy(deep=True)
    other.programme.seed = 4
    with running(url, other, ready=False) as programme:
        until(lambda: programme.state == "failed")
        assert "another agent" in programme.facts()["failure"]
        assert programme.submit(ask("begin", "Ms B", "a", {"x": context(0)})).status == 503


# Snapshots --------------------------------------------------------------------------------------------------------
def steps(tell, who, k, n=6):
    """Somebody comes, stays n steps and ends: 2 n + 2 events."""
    assert tell("begin", who, x=context(k))[0] == 200
    state = "moderate"
    for _ in range(n):
        assert tell("decide", who, state=state)[0] == 200
        state = {"moderate": "mild", "mild": "remission"}.get(state, "remission")
        assert tell("outcome", who, next_state=state, reward=0.5)[0] == 200
    assert tell("end", who)[0] == 200


def kept(url):
    with Journal(url, "clinic") as journal:
        return [one.number for one in journal.snapshots()]


def test_snapshots_are_kept_and_damaged_ones_passed_over(url):
    told = settings(snapshot_every=10)
    with running(url, told) as programme:
        tell = Caller(programme)
        for k in range(4):
            steps(tell, k, k)
        state = programme.read(state_of)
        until(lambda: len(kept(url)) >= 4)
        until(lambda: programme.facts()["queue"] == 0)
    numbers = kept(url)
    assert numbers[-1] == 1
    assert len(numbers) == 4
    with Journal(url, "clinic") as journal:
        journal.keep_snapshot(numbers[0], b"PK, and then nothing", "0.0.1")  # of a version that wrote others
    with running(url, told) as programme:
        assert programme.read(state_of) == state == folded(url)
        until(lambda: events(url, "alarm"))
        assert f"snapshot {numbers[0]} was passed over" in events(url, "alarm")[-1].payload["sentence"]
    for number in kept(url):
        with Journal(url, "clinic") as journal:
            journal.keep_snapshot(number, b"damaged", "0.0.1")
    with running(url, told) as programme:  # from the start
        assert programme.read(state_of) == state


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


# Anything, in any order -------------------------------------------------------------------------------------------
class Model:
    """The service as it is meant: one request after another, on a `Live`, in one thread."""

    def __init__(self):
        self.live = settings().made_live()
        self.said = {}

    def answer(self, one):
        """(status below 400, the action) of a request."""
        if one.key in self.said:
            asked, answer = self.said[one.key]
            return answer if asked == one.asked else (False, None)
        try:
            answer = True, self.done(one.verb, one.who, one.body)
        except (ValueError, RuntimeError):
            return False, None
        self.said[one.key] = one.asked, answer
        return answer

    def done(self, verb, who, body):
        live, person = self.live, self.live._people.get(who)
        if verb == "decide":
            if person is not None and person.asked:
                raise RuntimeError("decided")
            return live.act(who, body["state"], body.get("action")).action_name
        known = body.get("reward") if body.get("reward") is not None else float("nan")
        if verb == "begin":
            live.begin(who, body["x"])
        elif verb == "outcome":
            live.observe(who, known, body["next_state"], body["step"])
        elif verb == "reward":
            live.reward(who, body["step"], known)
        elif verb == "end":
            live.end(who, body["wait"] if body["wait"] != "close" else None)
        elif verb == "close":
            live.close(who)
        else:
            live.abandon(who, body["learn"])
        return None


def anything(rng, model, n):
    """n requests, most of them possible, some of them nonsense, one in six repeated with its key."""
    made = []
    states, actions = ("remission", "mild", "moderate", "severe"), ("wait", "drug A", "drug B")
    for i in range(n):
        who = rng.randrange(6)
        person = model.live._people.get(who)
        step = 0 if person is None else max(person.steps - rng.randrange(2) * (rng.random() < 0.3), 0)
        state = states[person.states[-1]] if person is not None and person.states else "moderate"
        state = rng.choice(states) if rng.random() < 0.1 else state
        at = states.index(state) if person is None or step >= len(person.states) else person.states[step]
        after = states[min(max(at + rng.choice((-1, 1)), 0), 3)] if rng.random() < 0.995 else rng.choice(states)
        reward = rng.choice((None, round(rng.random(), 2)))
        verb = rng.choice(
            ("begin", "decide", "decide", "outcome", "outcome", "outcome", "reward", "end", "close", "withdraw")
        )
        body = {
            "begin": {"x": context(rng.randrange(50))},
            "decide": {"state": state} | ({"action": rng.choice(actions)} if rng.random() < 0.2 else {}),
            "outcome": {"next_state": after, "reward": reward, "step": step},
            "reward": {"step": step, "reward": reward}, "end": {"wait": rng.choice((0, 0, 1, "close"))}, "close": {},
            "withdraw": {"learn": rng.random() < 0.5},
        }[verb]  # fmt: skip
        one = ask(verb, who, f"key {i} of {n} {rng.random()}", body)
        if made and rng.random() < 0.16:
            before = rng.choice(made)[0]
            one = ask(
                before.verb, before.who, before.key, before.body if rng.random() < 0.8 else before.body | {"no": 1}
            )
        made.append((one, model.answer(one)))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_any_interleaving_is_answered_as_one_after_another(url, seed):
    """Requests of six people with duplicates, submitted in heaps of any size; a restart in the middle."""
    rng, model = random.Random(seed), Model()
    told = settings(snapshot_every=40)
    for _ in range(2):
        with running(url, told) as programme:
            made = anything(rng, model, 150)
            while made:
                heap = [made.pop(0) for _ in range(min(len(made), rng.choice((1, 2, 7, 30))))]
                for (one, due), answer in zip(heap, submit(programme, [one for one, _ in heap]), strict=True):
                    assert (answer.status < 400) == due[0], (one.verb, one.body, answer)
                    assert answer.status < 500
                    assert json.loads(answer.text).get("action") == due[1]
            until(lambda: programme.facts()["folded"] == programme.facts()["head"])
            assert programme.read(state_of) == state_of(model.live)
    assert folded(url) == state_of(model.live)


class Unreliable:
    """A journal whose commits fail now and then, before or after they are made."""

    def __init__(self, monkeypatch, rng, chance):
        self.rng, self.chance, self.failures = rng, chance, 0
        write = Journal.write

        def written(journal, entries):
            told = list(entries)
            how = rng.random() if any(e.key for e in told) else 1.0
            if how < self.chance / 2:
                self.failures += 1
                raise JournalUnavailable("disk full")
            made = write(journal, told)
            if how < self.chance:
                self.failures += 1
                raise JournalUnavailable("the connection broke")
            return made

        monkeypatch.setattr(Journal, "write", written)


@pytest.mark.parametrize("seed", range(2))
def test_failing_commits_and_a_short_deadline_leave_journal_and_agent_the_same(url, seed, monkeypatch):
    """Everybody asks again with the same key until there is an answer. House and agent race for every decision."""
    rng, model = random.Random(seed), Model()
    requests = [one for one, _ in anything(rng, model, 200)]
    with running(url, settings(snapshot_every=30, deadline_ms=0.5)) as programme:
        bad = Unreliable(monkeypatch, rng, 0.4)
        answers, waiting, n = {}, requests, 0
        while waiting:
            heap, waiting = waiting[:10], waiting[10:]
            for one, answer in zip(heap, submit(programme, heap), strict=True):
                if answer.status == 503:
                    waiting.append(one)
                else:
                    answers.setdefault(one.key, set()).add((answer.status, answer.text))
            n += 1
            until(lambda: programme.state == "ready")
            if n > len(requests) // 10:  # some were told to come again only because the agent was late
                programme._tenure.writer.deadline = 60.0
        monkeypatch.undo()
        until(lambda: programme.state == "ready")
        until(lambda: programme.facts()["folded"] == programme.facts()["head"])
        assert programme.read(state_of) == folded(url)
        assert bad.failures > 0
    with Journal(url, "clinic") as journal:
        stored = {e.key: e.answer for e in journal.events() if e.key is not None}
        assert journal.verify().ok
    for key, said in answers.items():
        assert {text for status, text in said if status == 200} == ({stored[key]} if key in stored else set())


# The agent beside the house rule ----------------------------------------------------------------------------------
def test_the_shadow_report_bounds_the_difference_and_says_when_it_is_certified(url, tmp_path):
    """The agent's sets hold with probability 0.95 at all times, and the seed is fixed: the bounds hold the truth. With
    a house rule that harms, the agent is certified after a log of 20,000 people."""
    agent = nr.CertifiedPSRL(CLINIC.problem)
    agent.learn_from(CLINIC.log(20_000, seed=1, explore=1.0, rule=RULE))
    agent.save(tmp_path / "agent.npz")
    bad = HOUSE | {"mild": "wait", "moderate": "wait"}
    told = {k: v for k, v in table(shadow=True).items() if k not in ("agent", "problem")}
    told |= {"problem": {"agent_file": str(tmp_path / "agent.npz")}, "house": {"rule": bad}}
    with running(url, programme_from(told)) as programme:
        assert programme.shadow()["sentence"] == "nobody has come yet"
        tell = Caller(programme)
        for k in range(12):
            assert tell("begin", k, x=context(k))[0] == 200
        before = programme.read(state_of)
        found = programme.shadow()
        assert (found["people"], programme.read(state_of)) == (12, before)
        copy, house = nr.Live.from_bytes(programme.read(nr.Live.snapshot)()), programme.house
        bounds = []
        for k in range(12):
            x = CLINIC.context(seed=5, episode=k)
            bounds.append(difference(copy, house, x))
            truth = CLINIC.value(planned(copy, x)[1], x) - CLINIC.value(house.policy, x)
            assert bounds[-1][0] <= truth <= bounds[-1][1]
        assert (found["lower"], found["upper"]) == tuple(np.mean(bounds, 0))
        assert found["certified"]
        assert found["lower"] > 0.0
        assert "is certified not to be worse" in found["sentence"]
    new = settings().made_live()  # which has seen nobody
    found = report(lambda asked: asked(new), house, [CLINIC.context(seed=5, episode=0)])
    assert not found["certified"]
    assert found["lower"] < 0.0 < found["upper"]
    assert "is not certified" in found["sentence"]
