"""A programme at work, without HTTP: what is answered, and who decides."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import noregret as nr
from clinic import CLINIC, RULE
from noregret.journal.errors import DAMAGED, JournalDamaged, RowDamaged
from noregret.journal.journal import Journal
from noregret.live.fold import FoldError
from noregret.service import player as player_module
from noregret.service.asking import Refusal, ask
from noregret.service.programme_file import Settings, programme_from
from noregret.service.recall import Recall
from noregret.service.shadow import difference, planned, report
from programmes import (
    HOUSE,
    Caller,
    Gate,
    context,
    events,
    folded,
    running,
    settings,
    state_of,
    submit,
    table,
    until,
)


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "journal.db")


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
    monkeypatch.setattr(Settings, "made_live", lambda self, options: making(self, options))
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
        assert slow.held.wait(5.0)
        assert tell("decide", "Ms B", state="moderate")[1]["by"] == "agent"  # nor for anything that is decided already
        begun = tell("begin", "Mr C", x=context(2))[1]  # a plan that is not made
        assert (begun["by"], begun["certificate"]) == ("house", None)
        assert tell("decide", "Mr C", state="moderate")[1]["reason"] == "deadline"
        assert time.monotonic() - began < 5.0
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
        monkeypatch.setattr(player_module, "LONG", frozenset(["decide"]))  # so that it is the player's
        late = Gate(player_module.Batch.claim)
        monkeypatch.setattr(player_module.Batch, "claim", lambda *args: late(*args))
        made = tell("decide", "Ms B", state="moderate")[1]
        assert (made["by"], made["reason"]) == ("house", "deadline")
        late.open()
        until(lambda: programme.facts()["folded"] == programme.facts()["head"])
        assert programme.read(lambda live: live._people["Ms B"].others) == (True,)
        assert programme.read(state_of) == folded(url)


def test_what_is_decided_already_waits_for_nobody(url, monkeypatch):
    """The writer folds it itself, while the player learns and plans; numbers are given as events are written, and
    folding in their order comes to the same."""
    told = settings(deadline_ms=5000.0, snapshot_every=10**6)
    with running(url, told) as programme, ThreadPoolExecutor(4) as pool:
        tell, threads = Caller(programme), {}
        acted, end, begin = nr.Live._acted, Gate(nr.Live.end), nr.Live.begin

        def noted(verb, method):
            return lambda *args, **more: (threads.update({verb: threading.current_thread().name}), method(*args, **more))[1]  # fmt: skip  # noqa: E501

        for k, who in enumerate(("Mr A", "Ms B")):
            assert tell("begin", who, x=context(k))[0] == 200
        monkeypatch.setattr(nr.Live, "_acted", noted("act", acted))
        monkeypatch.setattr(nr.Live, "begin", noted("begin", begin))
        monkeypatch.setattr(nr.Live, "end", lambda *args: end(*args))
        assert tell("end", "Mr A")[0] == 200
        assert end.held.wait(5.0)
        third = pool.submit(programme.ask, ask("begin", "Mr C", "third", {"x": context(2)}))
        again = pool.submit(programme.ask, ask("begin", "Mr C", "third", {"x": context(2)}))  # waits for the first
        until(lambda: "third" in {item.ask.key for batch in programme._tenure.writer._slow for item in batch.items})
        soon = pool.submit(programme.ask, ask("decide", "Mr C", "soon", {"state": "moderate"}))  # comes after his begin
        for step, (state, after) in enumerate((("moderate", "mild"), ("mild", "remission"))):
            made = tell("decide", "Ms B", state=state, step=step)[1]
            assert made["by"] == "agent"
            assert tell("outcome", "Ms B", next_state=after, reward=0.5, step=step)[0] == 200
        assert threads == {"act": f"writer {programme.name}"}
        assert [one.result() for one in (third, again, soon) if one.done()] == []
        end.open()
        said = [one.result(5.0) for one in (third, again, soon)]
        assert [one.status for one in said] == [200, 200, 200]
        assert said[0] == said[1]
        assert threads["begin"] == f"player {programme.name}"
        kinds = [(e.kind, e.who) for e in events(url) if e.who is not None]
        assert kinds[2:7] == [("end", "Mr A"), *[("decide", "Ms B"), ("outcome", "Ms B")] * 2]
        assert kinds[7:] == [("begin", "Mr C"), ("decide", "Mr C")]
        assert programme.read(state_of) == folded(url)


def test_a_snapshot_has_the_first_events_and_no_others(url, monkeypatch):
    """While the player is at a begin, what others do overtakes it. Whoever reads finds everything up to a number."""
    told = settings(deadline_ms=5000.0, snapshot_every=10**6)
    with running(url, told) as programme, ThreadPoolExecutor(4) as pool:
        tell, player = Caller(programme), programme._tenure.player
        for k, who in enumerate(("Mr A", "Ms B")):
            assert tell("begin", who, x=context(k))[0] == 200
        begin = Gate(nr.Live.begin)
        monkeypatch.setattr(nr.Live, "begin", lambda *args: begin(*args))
        third = pool.submit(programme.ask, ask("begin", "Mr C", "third", {"x": context(2)}))
        assert begin.held.wait(5.0)
        assert tell("decide", "Ms B", state="moderate")[0] == 200  # overtakes the begin
        read = pool.submit(programme.read, lambda live: (player.folded, live.snapshot()()))
        until(lambda: player.orderly)
        late = pool.submit(programme.ask, ask("decide", "Mr A", "late", {"state": "moderate"}))  # comes after the mark
        begin.open()
        assert [one.result(5.0).status for one in (third, late)] == [200, 200]
        number, blob = read.result(5.0)
        after = [(e.kind, e.who) for e in events(url)[number - 1 :] if e.who is not None]
        assert after == [("begin", "Mr C"), ("decide", "Mr A")]
        live = nr.Live.from_bytes(blob)
        assert (live.step_of("Ms B"), len(live._people["Ms B"].actions), len(live._people["Mr A"].actions)) == (0, 1, 0)
        assert tell("outcome", "Ms B", next_state="mild", reward=0.5)[0] == 200
        assert programme.read(state_of) == folded(url)


def test_an_agent_that_fails_is_replaced_by_the_house_rule_until_it_is_resumed(url, monkeypatch):
    with running(url) as programme:
        tell = Caller(programme)
        tell("begin", "Ms B", x=context(0))

        def broken(*_):
            raise FoldError("it does not fold")

        monkeypatch.setattr(player_module, "beside", broken)
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


@pytest.mark.study(first=1)
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


@pytest.mark.parametrize("column", ["payload", "who"])
def test_a_damaged_row_is_the_damage_of_one_person(url, column):
    """The agent cannot be folded past it: the house rule decides. Requests about that person are refused, those of
    others are not, and what was answered under its key is answered again."""
    with running(url) as programme:
        tell = Caller(programme)
        for who in ("Ms A", "Ms B"):
            tell("begin", who, x=context(0))
            told = tell("decide", who, key=f"{who} 0", state="moderate")
    with sqlite3.connect(url) as database:
        damage = f"UPDATE journal_events SET {column} = '{{' WHERE kind = 'decide' AND key = 'Ms B 0'"
        assert database.execute(damage).rowcount == 1
    with running(url, ready=False) as programme:
        until(lambda: programme.state == "failed")
        tell = Caller(programme, "again ")
        assert tell("outcome", "Ms A", next_state="mild", reward=1.0)[0] == 200
        assert tell("decide", "Ms A", state="mild")[1]["by"] == "house"
        assert tell("decide", "Ms B", key="Ms B 0", state="moderate") == told
        if column == "payload":
            assert tell("outcome", "Ms B", next_state="mild", reward=1.0) == (503, {"error": DAMAGED})
        assert tell("decide", "Ms A", key="other", state="mild")[0] == 409
        assert "is damaged: its" in programme.facts()["alarms"][-1]["sentence"]
    with Journal(url, "clinic") as journal:
        assert not journal.verify().ok


def test_a_damaged_database_is_not_the_damage_of_one_person():
    """A row is refused to whoever it is about; what the database says of itself stops the programme."""

    class Damaged:
        def __init__(self, error):
            self.error = error

        def of(self, who):
            raise self.error

    with pytest.raises(Refusal, match=DAMAGED):
        Recall(Damaged(RowDamaged("event 7")), CLINIC.problem).standing("Ms A")
    with pytest.raises(JournalDamaged, match="no journal"):
        Recall(Damaged(JournalDamaged("that is no journal")), CLINIC.problem).standing("Ms A")
