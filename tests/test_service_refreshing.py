"""Stored sets of a service: made anew beside the player, put in place by events; nobody waits for them, and whatever
breaks in the middle of one, journal and agent are the same."""

import threading

import pytest

import noregret as nr
from noregret.agents.local.put_off import Refresh
from noregret.journal.errors import JournalUnavailable
from noregret.journal.journal import Journal
from noregret.service.programme_file import Settings, programme_from
from noregret.service.refreshing import Refresher
from programmes import Caller, P, context, folded, running, state_of, table, until

pytestmark = pytest.mark.deep


def stored(**service):
    told = table(**service)
    return programme_from(told | {"agent": {"name": "certified-psrl", "sets": "stored"}})


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'journal.db'}"


def treated(tell, who, k=0, end=True):
    """From begin to end; by whom the plan was and all decisions were."""
    by = {tell("begin", who, x=context(k))[1]["by"]}
    state = "moderate"
    for h in range(P.horizon):
        made = tell("decide", who, state=state, step=h)[1]
        by.add(made["by"])
        after = [s for s in range(P.n_states) if P.can_follow(s, P.state(state), P.action(made["action"]))]
        state = P.state_names[after[(k + h) % len(after)]]
        assert tell("outcome", who, step=h, next_state=state, reward=0.5)[0] == 200
    if end:
        assert tell("end", who)[0] == 200
    return by


def kinds(programme):
    return dict(programme.facts()["events"])


def settled(programme, url):
    """All that is due is refreshed, and the agent is what the journal says."""
    until(lambda: programme.state == "ready" and not programme.read(lambda live: live.due_refresh()))
    until(lambda: programme._tenure.player.under_way is None)
    until(lambda: programme.facts()["folded"] == programme.facts()["head"])
    assert programme.read(state_of) == folded(url)


class Held:
    """Refreshes that are computed only once `go` is set; `begun` says that one waits."""

    def __init__(self, monkeypatch):
        self.begun, self.go, compute = threading.Event(), threading.Event(), Refresh.compute

        def waits(refresh):
            if threading.current_thread().name == "refresher":
                self.begun.set()
                assert self.go.wait(120.0)
            return compute(refresh)

        monkeypatch.setattr(Refresh, "compute", waits)


def test_nobody_waits_for_a_refresh(url, monkeypatch):
    """While one is under way, for as long as it takes, people begin, are decided for by the agent, and are learned."""
    held = Held(monkeypatch)
    with running(url, stored()) as programme:
        tell = Caller(programme)
        assert treated(tell, "first") == {"agent"}
        assert held.begun.wait(120.0)
        for k in range(5):
            assert treated(tell, f"p{k}", k) == {"agent"}
        until(lambda: programme.read(lambda live: live.agent.state.store.visits.sum()) == 6 * P.horizon)
        assert "refresh" not in kinds(programme)
        held.go.set()
        settled(programme, url)
        assert kinds(programme)["refresh"] > 1
    with Journal(url, "clinic") as journal:
        assert nr.replay(journal).ok
        assert journal.verify().ok


@pytest.mark.parametrize("snapshot", [False, True])
def test_stopped_in_the_middle_of_a_refresh_it_goes_on_where_it_was(url, snapshot, monkeypatch):
    """Nothing of a refresh that is under way is kept anywhere: it is due again."""
    held = Held(monkeypatch)
    with running(url, stored()) as programme:
        tell = Caller(programme)
        for k in range(4):
            treated(tell, f"p{k}", k)
        assert held.begun.wait(120.0)
        if snapshot:
            player = programme._tenure.player
            number, sealed = programme.read(lambda live: (player.folded, live.snapshot()))
            programme._desk.sealer.seal(number, player.generation, sealed)
            until(lambda: programme.last_snapshot["number"] == number)
    held.go.set()  # of the one that is gone: nobody hears of it
    with running(url, stored()) as programme:
        settled(programme, url)
        assert kinds(programme)["refresh"] > 0
        assert treated(Caller(programme, "again"), "more", 9) == {"agent"}
        settled(programme, url)
    with Journal(url, "clinic") as journal:
        assert nr.replay(journal).ok


@pytest.mark.parametrize("written", [False, True])
def test_a_commit_that_fails_is_of_a_refresh(url, written, monkeypatch):
    write, failed = Journal.write, []

    def fails(journal, entries):
        told = list(entries)
        wrong = len(failed) < 3 and any(e.kind == "refresh" for e in told)
        if wrong and not written:
            failed.append(1)
            raise JournalUnavailable("disk full")
        made = write(journal, told)
        if wrong:
            failed.append(1)
            raise JournalUnavailable("the connection broke")
        return made

    monkeypatch.setattr(Journal, "write", fails)
    with running(url, stored()) as programme:
        tell = Caller(programme)
        for k in range(3):
            for verb, body in (("begin", {"x": context(k)}), ("withdraw", {"learn": True})):
                while tell(verb, f"p{k}", key=f"{verb} {k}", **body)[0] == 503:
                    pass
        who, k = "q", 0
        while len(failed) < 3:
            key, k = f"{who}{k}", k + 1
            for verb, body in (
                ("begin", {"x": context(k)}), ("decide", {"state": "moderate", "step": 0}),
                ("outcome", {"step": 0, "next_state": "mild", "reward": 0.5}), ("end", {}),
            ):  # fmt: skip
                while tell(verb, key, key=f"{verb} {key}", **body)[0] == 503:
                    pass
            assert k < 200
        settled(programme, url)
    with Journal(url, "clinic") as journal:
        assert nr.replay(journal).ok


def test_one_that_cannot_be_made_is_an_alarm_and_the_next_is_tried(url, monkeypatch):
    compute, tried = Refresh.compute, []

    def fails(refresh):
        tried.append(1)
        if len(tried) == 1:
            raise MemoryError
        return compute(refresh)

    monkeypatch.setattr(Refresh, "compute", fails)
    with running(url, stored()) as programme:
        tell = Caller(programme)
        assert treated(tell, "first") == {"agent"}
        until(lambda: tried)
        until(lambda: programme.facts()["alarms"])
        assert programme.facts()["alarms"][-1]["what"] == "refresh"
        assert treated(tell, "second") == {"agent"}
        settled(programme, url)


def test_a_journal_begun_without_is_refreshed_by_those_who_learn(url, monkeypatch):
    own = Settings.live_options
    monkeypatch.setattr(Settings, "live_options", lambda self: {k: v for k, v in own(self).items() if k != "refreshes"})
    with running(url, stored()) as programme:
        treated(Caller(programme), "first")
    monkeypatch.undo()
    with running(url, stored()) as programme:
        treated(Caller(programme, "b"), "second")
        until(lambda: programme.facts()["folded"] == programme.facts()["head"])
        assert programme.read(lambda live: (live.refreshes, bool(live.agent.state.transitions.refreshed.sum()))) == (
            "at once", True
        )  # fmt: skip
        assert "refresh" not in kinds(programme)
        assert programme.read(state_of) == folded(url)


def test_the_thread_ends_with_its_player():
    done = []
    one = Refresher(done.append, lambda *_: None)
    one.stop()  # never begun
    two = Refresher(done.append, lambda *_: None)
    two.begin(type("Made", (), {"compute": lambda self: None})())
    until(lambda: done)
    two.stop()
    two._thread.join(5.0)
    assert not two._thread.is_alive()
