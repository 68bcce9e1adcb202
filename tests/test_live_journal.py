"""`Live` with a journal: every event is written before a verb returns, and memory is what the journal says, whatever
happens."""

import copy
import functools
import json
import math

import numpy as np
import pytest

import noregret as nr
from faults import Injector, places
from memory_journal import MemoryJournal
from noregret.agents.contents import leaves
from noregret.journal.errors import JournalUnavailable
from noregret.live import journaled
from noregret.live.fold import ErasedError, FoldError
from noregret.live.journaled import folded_again
from test_live_faults import AGENTS, VERBS, everything, go_on, noon, rule, ward
from test_live_fold import WORLD, lived

VERBS = {verb: call for verb, call in VERBS.items() if verb != "save"}
CASES = [pytest.param("certified-psrl", verb, 9) for verb in ("begin", "act", "observe", "end", "abandon")]
CASES += [pytest.param(name, verb, 1, marks=pytest.mark.slow) for name in AGENTS for verb in VERBS]


def code(name):
    return {"expert": rule} if name == "referral" else {}


def from_journal(live, name="certified-psrl"):
    """What somebody else would make of its journal."""
    read = lambda data, label: nr.Live.from_bytes(data, clock=noon, name=label, **code(name))  # noqa: E731
    return everything(folded_again(live.journal, read)[0])


@pytest.fixture(scope="module")
def wards():
    return functools.cache(lambda name: ward(name, MemoryJournal()))


def fresh(journal=None, **options):
    return nr.Live(nr.CertifiedPSRL(WORLD.problem, seed=3), journal=journal, clock=noon, **options)


def test_the_journal_says_what_was_done(tmp_path):
    """One of each verb, beside a `Live` without a journal: the same decisions, and the events that say so."""
    plain = fresh(draws=5)
    done, told = lived(plain)
    with nr.Journal(tmp_path / "journal.db") as journal:
        live = fresh(journal, draws=5)
        assert lived(live)[0] == done
        assert everything(live) == everything(plain) == from_journal(live)
        made, *events = journal.events()
        assert made.payload["agent"] == "certified-psrl"
        assert made.payload["live"] == {"draws": 5, "order": "begin", "audit": True, "rows": False}
        assert [s.number for s in journal.snapshots()] == [1]
        assert [(e.kind, e.who) for e in events] == [(e.kind, e.who) for e in told]
        p = WORLD.problem
        for event, same in zip(events, told, strict=True):
            right = dict(same.payload)
            for name in ("state", "next_state"):
                right |= {name: p.state(right[name])} if name in right else {}
            assert {k: event.payload[k] for k in right} == right
        assert [json.loads(e.answer)["certificate"] for e in events if e.kind == "decide"] == [
            d.certificate for d in done
        ]
        # asked again, told again: nothing new, nothing written
        live.begin("new", WORLD.context(seed=0, episode=9))
        live.act("new", "moderate")
        head = journal.head
        live.act("new", "moderate")
        live.observe("new", math.nan, "mild", step=0)
        live.observe("new", math.nan, "mild", step=0)
        assert journal.head == head + 1
        with pytest.raises(ValueError, match="somebody open"):
            live.act("nobody", 0)
        assert journal.head == head + 1
        assert not live._stale
        assert journal.verify().ok


def test_resumed_from_the_last_good_snapshot(tmp_path, recwarn):
    path = tmp_path / "journal.db"
    with nr.Journal(path) as journal:
        live = fresh(journal)
        lived(live)
        assert live.keep_snapshot() == journal.head - 1
        live.begin("late", WORLD.context(seed=0, episode=7))
        whole = everything(live)
        with nr.Journal(path) as other, pytest.raises(RuntimeError, match="somebody else writes"):
            fresh(other)
    with nr.Journal(path) as journal:
        assert everything(nr.Live.resume(journal, clock=noon)) == whole
        again = fresh(journal)
        assert everything(again) == whole
        assert again.open == ("late",)
        last = journal.snapshots()[0].number
        blob = journal.snapshot(last)
        journal.keep_snapshot(last, blob[:-200] + bytes(200), "0")
        assert not recwarn.list
        with pytest.warns(UserWarning, match=f"snapshot {last} is damaged.*an earlier snapshot is used"):
            assert everything(nr.Live.resume(journal, clock=noon)) == whole
        journal.drop_snapshot(last)
        journal.drop_snapshot(1)
        with pytest.raises(ValueError, match="no snapshot that can be used"):
            nr.Live.resume(journal)
        assert everything(fresh(journal)) == whole  # the agent that it was begun with is as good as a snapshot
        with pytest.raises(ValueError, match="agent must be the one that the journal was begun with"):
            nr.Live(nr.CertifiedPSRL(WORLD.problem, seed=4), journal=journal)
        with pytest.raises(ValueError, match="draws must be what the journal was begun with, 0, got 3"):
            fresh(journal, draws=3)


def test_an_expert_who_is_a_function_is_handed_in_again():
    live = ward("referral", MemoryJournal())
    with pytest.warns(UserWarning, match="snapshot 1 cannot be loaded"), pytest.raises(ValueError, match="expert"):
        nr.Live.resume(live.journal)
    assert everything(nr.Live.resume(live.journal, expert=rule)) == everything(live)
    with pytest.raises(FoldError, match="comes to"):  # another rule for whoever is referred
        nr.Live.resume(live.journal, expert=lambda x: [["wait", "wait"]] * 2)


def test_rows_masks_and_keys_come_back():
    encoder = nr.Encoder({"age": (0, 90)}, {"sex": ("f", "m")}, missing=("age",))
    d, bound = encoder.context_dim, encoder.context_bound
    p = nr.Problem(2, 2, 2, d, weight_bound=1.0, reward_bound=1.0, context_bound=bound)
    agent = nr.CertifiedPSRL(p, plans=2, floor=0.1).with_encoder(encoder)
    live = nr.Live(agent, journal=MemoryJournal(), rows=True, clock=noon)
    for who, row, away in (
        (-5, {"age": np.float64(33.0), "sex": "m", "more": object()}, np.array([[True, False], [False, False]])),
        ("Ünal", {"age": None, "sex": "f"}, {1}),
        (2**63 - 1, {"age": 60, "sex": np.str_("m")}, np.int64(0)),
    ):
        live.begin(who, row, away)
        live.act(who, 0)
    again = nr.Live.resume(live.journal, clock=noon)
    assert everything_else(again) == everything_else(live)
    assert again.open == (-5, "Ünal", 2**63 - 1)
    for who in live.open:
        assert again.act(who, 0) == live.act(who, 0)


def everything_else(live):
    return [(q.who, q.row, q.unavailable, q.actions, q.drawn.tolist(), q.context) for q in live._people.values()]


@pytest.mark.study(first=10)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.filterwarnings("ignore")
def test_a_write_that_fails_was_done_or_not(wards, verb, when):
    """The database is away before the commit, or goes away after it: what is in the journal then is what counts."""
    before = wards("certified-psrl")
    live, after = copy.deepcopy(before), copy.deepcopy(before)
    VERBS[verb](after, None)
    if verb == "again":  # nothing new, nothing written
        assert after.journal.head == before.journal.head
        return
    assert after.journal.head > before.journal.head
    live.journal.fails = when
    with pytest.raises(JournalUnavailable):
        VERBS[verb](live, None)
    right = after if when == "after" else before
    assert live.open == right.open
    assert everything(live) == everything(right) == from_journal(live)
    assert live.journal.head == right.journal.head
    assert go_on(live) == go_on(copy.deepcopy(right))


@pytest.mark.study(first=1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "verb", "every"), CASES)
def test_an_interruption_at_any_line_leaves_journal_and_memory_one(wards, name, verb, every):
    """The first and the last time that each line is come to, or every ninth of these; the error of each in turn."""
    before, call = wards(name), VERBS[verb]
    after = copy.deepcopy(before)
    call(after, None)
    states = [(everything(one), one.journal.head) for one in (before, after)]
    one = copy.deepcopy(before)
    lines = places(lambda: call(one, None))
    assert len(lines) > 20
    for i, at in enumerate(lines[::every]):
        live, error = copy.deepcopy(before), (KeyboardInterrupt, MemoryError)[i % 2]
        fault, raised = Injector(at, error), False
        try:
            fault.run(lambda live=live: call(live, None))
        except error:
            raised = True
        assert fault.fired
        _ = live.open  # the next verb
        found = everything(live), live.journal.head
        assert found in (states if raised else states[1:]), (at, error)
        if live.agent is not before.agent and i % 8 == 0:
            assert from_journal(live, name) == found[0]


def test_others_are_refused_while_it_is_locked_and_later_go_on():
    journal = MemoryJournal()
    live = ward("certified-psrl", journal)
    journal.fails, journal.free = "before", False
    with pytest.raises(JournalUnavailable):
        live.end("a")
    with pytest.raises(RuntimeError, match="somebody else writes"):
        live.act("b", 0)
    journal.free = True
    assert live.act("b", 0).who == "b"


def test_snapshots_are_kept_along_the_way(monkeypatch):
    monkeypatch.setattr(journaled, "EVERY", 10)
    live = ward("certified-psrl", MemoryJournal())
    kept = [e.payload["folded"] for e in live.journal.events(kinds=["snapshot"])]
    assert kept == [11]
    assert sorted(live.journal.blobs) == [1, 11]
    assert live.journal.rows[11].kind == "snapshot"
    del live.journal.blobs[1]
    assert from_journal(live) == everything(live)


@pytest.mark.parametrize("order", ["begin", "end"])
def test_few_at_once_come_out_of_the_journal_as_they_went_in(order):
    """Whoever is learned by which event follows from the events: not from snapshots, erasures, verbs that were refused
    or writes that failed in between."""
    live = fresh(MemoryJournal(), order=order, at_once=1)
    for k in range(8):
        live.begin(k, WORLD.context(seed=0, episode=k))
        live.act(k, "moderate")
        live.observe(k, 0.5, "mild")
    for k in range(7, -1, -1):
        live.end(k, wait=0 if order == "begin" else 2)
    left = []

    def checked():
        left.append(len(live.waiting))
        assert from_journal(live) == everything(live)

    checked()
    live.begin("x", WORLD.context(seed=0, episode=8))
    live.begin("y", WORLD.context(seed=0, episode=9))
    checked()
    live.keep_snapshot()
    with pytest.raises(ValueError, match="is open already"):
        live.begin("x", WORLD.context(seed=0, episode=8))
    live.erase(0)
    checked()
    live.journal.fails = "before"
    with pytest.raises(JournalUnavailable):
        live.end("x")
    checked()
    live.journal.fails = "after"
    with pytest.raises(JournalUnavailable):
        live.abandon("y")
    checked()
    live.end("x", wait=None)
    checked()
    assert left == ([7, 5, 5, 5, 4, 4] if order == "begin" else [8, 7, 7, 7, 6, 6])
    live.journal.free = True
    with pytest.raises(ValueError, match="at_once must be what the journal was begun with, 1, got None"):
        nr.Live(nr.CertifiedPSRL(WORLD.problem, seed=3), journal=live.journal, order=order)


def test_somebody_who_was_erased():
    live = ward("certified-psrl", MemoryJournal())
    with pytest.raises(ValueError, match="'a' is not learned yet, withdraw them first"):
        live.erase("a")
    with pytest.raises(ValueError, match="'c' is not learned yet"):
        live.erase("c")
    live.end("a")
    live.erase("a")
    assert [e.kind for e in live.journal.rows if e.erased] == ["begin", "decide", "outcome", "end"]
    assert from_journal(live) == everything(live)
    live.begin("new", [0.5])
    assert from_journal(live) == everything(live)
    for n in [n for n in live.journal.blobs if n > 1]:
        del live.journal.blobs[n]
    with pytest.raises(ErasedError, match=r"event 1 \(begin\) was erased"):
        nr.Live.resume(live.journal)


def test_without_a_journal():
    live = fresh()
    assert live.journal is None
    for verb in (live.keep_snapshot, lambda: live.erase("a")):
        with pytest.raises(RuntimeError, match="there is no journal"):
            verb()


def test_the_log_of_a_journal_teaches_what_was_learned(tmp_path):
    """Exported, read and learned by a new agent: the same state, to the bit."""
    p = WORLD.problem
    agent = nr.CertifiedPSRL(p, seed=3, plans=3, floor=0.2)
    with nr.Journal(tmp_path / "journal.db") as journal:
        live = nr.Live(agent, journal=journal, clock=noon)
        flags = np.zeros((p.n_states, p.n_actions), bool)
        flags[1, 0] = True
        for k, unavailable in enumerate((None, ["drug A"], flags.tolist(), None)):
            person = WORLD.individual(k, 0)
            live.begin(f"who {k}", person.context.tolist(), unavailable)
            for h in range(p.horizon - k):
                made = live.act(f"who {k}", person.state)
                reward, after = person.step(made.action)
                live.observe(f"who {k}", float("nan") if h == 1 else reward, after, step=h)
        live.act("who 3", person.state)  # never told
        for k in range(4):
            live.end(f"who {k}") if k != 1 else live.abandon("who 1")
        path = journal.export(tmp_path)[4]
        decided = [e.payload for e in journal.events(kinds=["decide"]) if e.who != "who 1"]
    log = nr.read_log(path, p)
    assert [len(e.actions) for e in log] == [p.horizon, p.horizon - 2, p.horizon - 3]
    assert np.concatenate([e.probabilities for e in log]).tolist() == [told["probability"] for told in decided[:-1]]
    assert not log.episodes[1].allowed[1, 0]
    taught = nr.CertifiedPSRL(p, seed=3, plans=3, floor=0.2)
    taught.learn_from(log)
    same = dict(leaves("state", taught.state))
    for name, array in leaves("state", agent.state):
        if name != "state.gate":  # which counts plans
            assert np.array_equal(array, same[name]), name
