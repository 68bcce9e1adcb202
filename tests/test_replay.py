"""A journal folded again: every decision reproduced, or what does not come out again named; one decision audited."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import noregret as nr
from benchmarks.replay import filled
from memory_journal import MemoryJournal
from noregret.cli import app
from noregret.live import journaled
from noregret.live.fold import FoldError
from test_live_faults import noon, rule, ward

WORLD = nr.worlds.clinic()
SAID = CliRunner()


def life(journal, people=30, **options):
    """People who come, act, are overruled, end and are learned, with random numbers of seed 5; the decisions."""
    live, g = nr.Live(nr.CertifiedPSRL(WORLD.problem, seed=3), journal=journal, clock=noon, **options), []
    rng, made = np.random.default_rng(5), []
    for k in range(people):
        person = WORLD.individual(k, 3)
        live.begin(f"p{k}", person.context)
        g.append(person)
        for j in rng.permutation(len(g))[:2]:
            one = g[j]
            if one.steps < WORLD.problem.horizon and f"p{j}" in live.open:
                h, other = one.steps, int(WORLD.problem.layout.available[one.state].argmax())
                made.append(live.act(f"p{j}", one.state, other if rng.random() < 0.2 else None))
                reward, state = one.step(made[-1].action)
                live.observe(f"p{j}", float("nan") if rng.random() < 0.2 else reward, state, step=h)
        if k % 3 == 2:
            live.end(f"p{k // 3}", wait=int(rng.integers(3)))
    return live, made


def test_every_decision_is_reproduced(monkeypatch):
    monkeypatch.setattr(journaled, "EVERY", 40)
    journal = MemoryJournal()
    _, made = life(journal, draws=4)
    found = nr.replay(journal)
    assert found.ok, str(found)
    assert found.decisions == len(made) > 40
    assert found.own == sum(not d.by_other for d in made) < len(made)
    assert (found.people, found.start, found.head, found.skipped) == (30, 1, journal.head, ())
    assert found.folded == journal.head - 1
    assert found.snapshots == len(journal.blobs) - 1 >= 2
    assert str(found).endswith("all reproduced")
    half = sorted(journal.blobs)[-1]
    later = nr.replay(journal, start=half + 3)
    assert later.ok
    assert (later.start, later.folded) == (half, journal.head - half)


def altered(journal, kind, change, which=-1):
    """The number of an event of that kind whose payload and answer were changed."""
    event = [e for e in journal.rows if e.kind == kind and (e.payload or {}).get("by", "agent") == "agent"][which]
    told, answer = dict(event.payload), json.loads(event.answer or "{}")
    change(told, answer)
    journal.rows[event.number] = dataclasses.replace(event, payload=told, answer=json.dumps(answer))
    return event.number


@pytest.mark.parametrize(
    ("kind", "change", "what"),
    [
        ("decide", lambda told, _: told.update(action=(told["action"] + 1) % 3), "action"),
        ("decide", lambda told, _: told.update(probability=0.123), "probability"),
        ("decide", lambda told, _: told.update(advice=(told["advice"] + 1) % 3), "advice"),
        ("decide", lambda _, answer: answer.update(certificate=answer["certificate"] * (1 + 1e-15)), "certificate"),
        ("begin", lambda _, answer: answer.update(certificate=0.5), "certificate"),
    ],
)
def test_whatever_was_changed_is_named(kind, change, what):
    journal = MemoryJournal()
    life(journal, people=12, draws=4)
    number = altered(journal, kind, change)
    found = nr.replay(journal)
    assert not found.ok
    assert (found.differences[0].number, found.differences[0].what) == (number, what)
    assert f"event {number}, p" in str(found)
    assert "NOT reproduced" in str(found)


def test_an_outcome_that_was_changed_is_found_at_the_next_snapshot():
    journal = MemoryJournal()
    live, _ = life(journal, people=12)
    live.keep_snapshot()
    altered(journal, "outcome", lambda told, _: told.update(reward=0.77), which=0)
    found = nr.replay(journal)
    assert [d.what for d in found.differences][-1] == "the agent in the snapshot before it"
    journal.blobs[max(journal.blobs)] = b"PK no more"
    found = nr.replay(journal)
    assert [d.what for d in found.differences][-1] == "the snapshot before it"
    del journal.blobs[1]
    with pytest.raises(ValueError, match="no snapshot that can be used: snapshot"):
        nr.replay(journal)


def test_stretches_of_somebody_erased_are_bridged():
    journal = MemoryJournal()
    live, _ = life(journal, people=12)
    gone = live.agent.episode
    live.begin("gone", WORLD.context(seed=0, episode=gone))
    first = journal.head - 1
    live.abandon("gone")
    live.erase("gone")
    live.begin("new", WORLD.context(seed=0, episode=gone))
    found = nr.replay(journal)
    assert found.ok, str(found)
    kept = max(journal.blobs)
    assert found.skipped == ((first, kept, "somebody was erased"),)
    assert found.folded == journal.head - 1 - (kept - first)
    assert "were not folded: somebody was erased" in str(found)
    del journal.blobs[kept]
    found = nr.replay(journal)
    assert found.skipped == ((first, journal.head, "somebody was erased"),)


def test_an_expert_is_handed_in_again():
    journal = ward("referral", MemoryJournal()).journal
    assert nr.replay(journal, expert=rule).ok
    other = nr.replay(journal, expert=lambda x: [["wait", "wait"]] * 2)
    assert {d.what for d in other.differences} >= {"action", "advice"}
    with pytest.raises(ValueError, match="expert"):
        nr.replay(journal)


@pytest.mark.long
def test_a_decision_is_audited_from_the_journal():
    journal = MemoryJournal()
    live, made = life(journal, draws=4)
    plans = {e.who: e for e in journal.rows if e.kind == "begin"}
    for decision in made[:: len(made) // 4]:
        found = nr.audit(journal, decision.who, decision.step)
        assert found.reproduced, str(found)
        assert found.decision == decision
        assert found.begun == plans[decision.who]
        assert found.known["fingerprint"] == decision.fingerprint
        assert found.known["begun"] == found.draw["episode"] == decision.episode
        assert found.plan.policy[decision.step, decision.state] == decision.advice == found.why.action
        assert found.plan.certificate == decision.certificate
        assert (found.why.lower <= found.why.upper + 1e-12)[WORLD.problem.layout.available[decision.state]].all()
        told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert told["reproduced"]
        assert {c["what"] for c in told["checks"]} >= {"action", "advice", "certificate"}
        assert str(found).endswith("reproduced, to the last bit")
    altered(journal, "decide", lambda told, _: told.update(probability=0.9))
    assert not nr.audit(journal, *[(d.who, d.step) for d in made if not d.by_other][-1]).reproduced
    for who, step, said in (("nobody", 0, "somebody in the journal"), ("p0", 9, "step must be one that was decided")):
        with pytest.raises(ValueError, match=said):
            nr.audit(journal, who, step)
    live.abandon("p29")
    live.erase("p29")
    del journal.blobs[max(journal.blobs)]
    live.begin("after", WORLD.context(seed=0, episode=1))
    live.act("after", "moderate")
    with pytest.raises(FoldError, match="was erased"):
        nr.audit(journal, "after", 0)


def test_on_the_command_line(tmp_path):
    url = str(tmp_path / "clinic.db")
    with nr.Journal(url, "clinic") as journal:
        _, made = life(journal, people=6)
    said = SAID.invoke(app, ["replay", url])
    assert said.exit_code == 0, said.output
    assert f"{len(made)} decisions were compared" in said.output
    assert SAID.invoke(app, ["replay", url, "--programme", "clinic", "--from", "3"]).exit_code == 0
    one = SAID.invoke(app, ["audit", url, made[0].who, str(made[0].step)])
    assert one.exit_code == 0, one.output
    assert f"{made[0].who}, step {made[0].step}" in one.output
    with nr.Journal(url, "other") as journal:
        nr.Live(nr.CertifiedPSRL(WORLD.problem), journal=journal)
    with pytest.raises(ValueError, match="has several, clinic, other: name one"):
        SAID.invoke(app, ["replay", url], catch_exceptions=False, standalone_mode=False)


@pytest.mark.slow
def test_ten_thousand_people_are_reproduced(tmp_path):
    """220,001 events at S=10, A=4, H=10, d=8 (benchmarks/replay.py): all decisions, and the agent at four snapshots."""
    with nr.Journal(tmp_path / "people.db") as journal:
        filled(journal, 10_000)
        found = nr.replay(journal)
    assert found.ok, str(found)
    assert (found.people, found.decisions, found.folded) == (10_000, 100_000, 220_000)
    assert found.snapshots == 4
