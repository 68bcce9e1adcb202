"""Programmes when something fails: commits, locks, clocks, full queues, and anything in any order."""

import gc
import json
import random
import threading

import pytest

from noregret.journal.errors import JournalUnavailable, NotTheWriter
from noregret.journal.journal import Journal
from noregret.service import recall as recall_module
from noregret.service import writer as writer_module
from noregret.service.asking import ask
from programmes import (
    Caller,
    Gate,
    context,
    events,
    folded,
    running,
    settings,
    state_of,
    submit,
    until,
)


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "journal.db")


# What is remembered -----------------------------------------------------------------------------------------------
def test_the_collector_of_cycles_need_not_look_at_what_is_remembered(url):
    """Tens of thousands of answers and people stay in memory: looking through them would stop everybody for that
    long."""
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))
        tell("decide", "Ms B", state="moderate")
        tell("outcome", "Ms B", next_state="mild", reward=0.5)
        recall = programme._tenure.writer.recall
        person = recall._people["Ms B"]
        gc.collect()  # tuples of plain values are let go of when they are first looked at
        kept = [*recall._answers.values(), *(known.answer for known in recall._answers.values())]
        assert len(kept) == 6
        assert not any(map(gc.is_tracked, [*kept, person, person.states, person.actions, person.rewards]))


def test_the_oldest_answers_are_forgotten_and_read_again(url, monkeypatch):
    monkeypatch.setattr(recall_module, "ANSWERS", 3)
    with running(url) as programme:
        asked = [ask("begin", k, f"key {k}", {"x": context(k)}) for k in range(6)]
        said = [programme.ask(one) for one in asked]
        recall = programme._tenure.writer.recall
        assert programme.ask(asked[0]) == said[0]
        assert list(recall._answers) == list(recall._keys) == ["key 3", "key 4", "key 5"]
        assert [programme.ask(one) for one in asked] == said


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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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
