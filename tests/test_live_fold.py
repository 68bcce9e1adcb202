"""Events folded into a `Live`: the same as its verbs, to the bit; snapshots as bytes."""

import json
import math
import threading

import numpy as np
import pytest

import noregret as nr
from noregret.agents import contents
from noregret.journal.event import FOLDED, KEPT, Entry, Event
from noregret.live.fold import ErasedError, FoldError, beside, fold
from noregret.live.people import marked

NOON = "2026-01-01T12:00:00+00:00"
WORLD = nr.worlds.clinic()


def fresh(**options):
    return nr.Live(nr.CertifiedPSRL(WORLD.problem, seed=3), **options)


def entry(kind, who, **payload):
    """As it comes back from a journal: through JSON."""
    return Entry(kind, NOON, who, json.loads(json.dumps(payload, allow_nan=False)))


def lived(live):
    """One of each verb, and the events that say the same."""
    x = [WORLD.context(seed=0, episode=k) for k in range(4)]
    told = []
    for k, who in enumerate(("a", 2, "c", "d")):
        unavailable = ["drug A"] if who == "c" else None
        live.begin(who, x[k], unavailable)
        told.append(entry("begin", who, x=x[k].tolist(), unavailable=unavailable))
    made = [live.act("a", "moderate", time=NOON), live.act(2, "moderate", "drug B", NOON), live.act("c", 2, time=NOON)]
    for one, by in zip(made, ("agent", "caller", "agent"), strict=True):
        told.append(entry("decide", one.who, step=0, state=one.state, action=one.action, by=by))
    live.observe("a", math.nan, "mild", step=0)
    live.observe(2, 0.5, "severe", step=0)
    live.observe("c", 1.0, "mild", step=0)
    told.append(entry("outcome", "a", step=0, next_state="mild", reward=None))
    told.append(entry("outcome", 2, step=0, next_state="severe", reward=0.5))
    told.append(entry("outcome", "c", step=0, next_state="mild", reward=1.0))
    live.reward("a", 0, 0.25)
    live.observe("c", 0.0, "severe", step=0)
    live.reward(2, 0, 1.0)
    told.append(entry("reward", "a", step=0, reward=0.25))
    told.append(entry("correction", "c", step=0, next_state="severe", reward=0.0))
    told.append(entry("correction", 2, step=0, reward=1.0))
    live.end("c", wait=None)
    live.end(2, wait=1)
    live.close("c")
    live.abandon("d")
    live.abandon("a", learn=True)
    told.append(entry("end", "c", wait=None))
    told.append(entry("end", 2, wait=1))
    told.append(entry("close", "c"))
    told.append(entry("withdraw", "d", learn=False))
    told.append(entry("withdraw", "a", learn=True))
    return made, told


def everything(live):
    return live.open, live.waiting, contents.fingerprint(live.agent), live.snapshot()()


def test_every_kind_of_event_is_its_verb():
    by_verbs, by_events = fresh(draws=5), fresh(draws=5)
    made, told = lived(by_verbs)
    assert {e.kind for e in told} == set(FOLDED)
    folded = [fold(by_events, e) for e in told]
    assert [f for f in folded if isinstance(f, nr.Decision)] == made
    assert all(f.time == NOON for f in folded if isinstance(f, nr.Decision))
    assert [type(f).__name__ for f in folded[:4]] == ["Plan"] * 4
    assert everything(by_verbs) == everything(by_events)
    assert by_events.waiting == (2, "c")  # for somebody more to begin
    before = everything(by_events)
    for kind in KEPT:
        assert fold(by_events, Entry(kind, NOON, None, {"anything": 1})) is None
    assert everything(by_events) == before


def test_what_cannot_be_folded_says_so_and_changes_nothing():
    live = fresh()
    live.begin("a", WORLD.context(seed=0, episode=0))
    before = everything(live)
    advice = int(live._people["a"].policy[0, 2])
    wrong = (advice + 1) % 3
    assert fold(live, entry("decide", "a", step=0, state=2, action=None, by="agent")).action == advice
    for event, error, said in (
        (entry("decide", "b", step=0, state=2, action=0, by="agent"), FoldError, "somebody open"),
        (entry("decide", "a", step=1, state=2, action=0, by="caller"), FoldError, "of step 1, they are at step 0"),
        (entry("decide", "a", step=0, state=2), FoldError, "'action' is missing"),
        (entry("outcome", "a", step=3, next_state=1, reward=0.0), FoldError, "nothing was done"),
        (entry("begin", "a", x=[0.0]), FoldError, "is open already"),
        (Entry("end", NOON, None, {}), FoldError, "lacks who it is about"),
        (Entry("other", NOON, "a", {}), FoldError, "of no kind"),
        (Event("end", NOON, number=8, erased=True), ErasedError, r"event 8 \(end\) was erased"),
    ):
        with pytest.raises(error, match=said):
            fold(live, event)
    again = fresh()
    again.begin("a", WORLD.context(seed=0, episode=0))
    assert everything(again) == before
    with pytest.raises(FoldError, match=f"was action {wrong}, the agent now comes to {advice}"):
        fold(again, entry("decide", "a", step=0, state=2, action=wrong, by="agent"))


def test_a_snapshot_is_of_the_moment_it_was_asked_for(tmp_path):
    live = fresh()
    lived(live)
    live.save(tmp_path / "live.npz")
    sealed = live.snapshot()
    live.begin("late", np.zeros(WORLD.problem.context_dim))
    live.end("late")
    made = []
    thread = threading.Thread(target=lambda: made.append(sealed()))
    thread.start()
    thread.join()
    assert made == [sealed()]
    again = nr.Live.from_bytes(made[0])
    assert everything(again) == everything(nr.Live.load(tmp_path / "live.npz"))
    assert again.agent.episode == 4
    for data, said in ((b"", "snapshot 7 is empty"), (made[0][:-100], "snapshot 7 is damaged")):
        with pytest.raises(ValueError, match=said):
            nr.Live.from_bytes(data, name="snapshot 7")
    with pytest.raises(ValueError, match="data must be bytes"):
        nr.Live.from_bytes("text")


def test_what_open_people_do_can_change_places_with_what_others_do():
    """Folded beside, before the end and the begin of others or after them, it comes to the same."""
    stay = [
        Entry("decide", NOON, "Ms B", {"step": 0, "state": 2, "action": None, "by": "agent"}),
        Entry("outcome", NOON, "Ms B", {"step": 0, "next_state": 1, "reward": None}),
        Entry("reward", NOON, "Ms B", {"step": 0, "reward": 0.5}),
        Entry("decide", NOON, "Ms B", {"step": 1, "state": 1, "action": 1, "by": "house"}),
        Entry("alarm", NOON, None, {"what": "x", "sentence": "y"}),
    ]
    others = [
        Entry("end", NOON, "Mr A", {"wait": 0}),
        Entry("begin", NOON, "Mr C", {"x": WORLD.context(seed=0, episode=2).tolist()}),
    ]
    marks = set()
    for first, second in ((stay, others), (others, stay)):
        live = fresh()
        for k, who in enumerate(("Mr A", "Ms B")):
            fold(live, Entry("begin", NOON, who, {"x": WORLD.context(seed=0, episode=k).tolist()}))
        for event in (*first, *second):
            if event in others:
                assert beside(live, event, own=False) == (False, None)
                fold(live, event)
            else:
                assert beside(live, event, own=event.payload.get("by") == "agent")[0]
        marks.add(marked(live))
    assert len(marks) == 1


def test_what_cannot_be_folded_beside_is_left_alone():
    live = fresh()
    fold(live, Entry("begin", NOON, "Ms B", {"x": WORLD.context(seed=0, episode=0).tolist()}))
    before = marked(live)
    decide = {"step": 0, "state": 2, "action": None, "by": "agent"}
    for who, told in (("nobody", decide), ("Ms B", decide | {"step": 1})):
        assert beside(live, Entry("decide", NOON, who, told), own=True) == (False, None)
    assert marked(live) == before
    assert live.act("Ms B", "moderate", "wait").action == 0
    impossible = next(s for s in range(4) if not WORLD.problem.can_follow(s, 2, 0))
    outcome = Entry("outcome", NOON, "Ms B", {"step": 0, "next_state": impossible, "reward": 0.5})
    assert beside(live, outcome, own=False) == (False, None)
    assert live.step_of("Ms B") == 0
    assert live.agent.refuted is None
