"""What tampering leaves behind, and what erasing does not."""

import hashlib
import json

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

import noregret as nr
from noregret.journal.chain import START
from noregret.journal.database import server_of
from noregret.journal.event import Entry

T = "2026-11-17T09:30:00.000000Z"


def run(url, *statements):
    """Change the database behind the journal's back."""
    connection = server_of(url).connect()
    for statement in statements:
        connection.execute(statement)
    connection.close()


def filled(url, people=3):
    journal = nr.Journal(url, "school")
    journal.write([Entry("made", T, payload={"agent": "certified-psrl"})])
    for i in range(people):
        who = f"pupil {i}"
        journal.write([Entry("begin", T, who, {"x": [0.5, i]}, f'{{"secret": {i}}}', f"b{i}", b"\x01" * 32)])
        journal.write([
            Entry("decide", T, who, {"step": 0, "state": 0, "action": 1, "probability": 0.25}, "{}", f"d{i}"),
            Entry("outcome", T, who, {"step": 0, "next_state": 1, "reward": None}, "{}", f"o{i}"),
            Entry("end", T, who, {"wait": 0}, "{}", f"e{i}"),
        ])  # fmt: skip
    return journal


def test_the_chain_is_the_formula(url):
    """Written from the documentation: length-prefixed fields, salted, and the chain over canonical JSON."""
    with filled(url) as journal:
        engine = sa.create_engine(journal._server.dialect, creator=journal._server.connect)
        with engine.connect() as connection:
            rows = connection.execute(sa.text("SELECT * FROM journal_events ORDER BY number")).mappings().all()
        engine.dispose()
        chain = START
        for row in rows:
            told = bytes(row["salt"])
            for name in ("who", "key", "asked", "payload", "answer"):
                value = row[name]
                if value is None:
                    told += b"\xff" * 8
                else:
                    raw = value.encode() if isinstance(value, str) else bytes(value)
                    told += len(raw).to_bytes(8, "big") + raw
            digest = hashlib.sha256(told).digest()
            assert digest == bytes(row["digest"])
            line = ["school", row["number"], row["kind"], row["time"], digest.hex()]
            chain = hashlib.sha256(chain + json.dumps(line, separators=(",", ":")).encode()).digest()
            assert chain == bytes(row["chain"])
        assert chain == journal.chain
        assert len({bytes(row["salt"]) for row in rows}) == len(rows)


E = "UPDATE journal_events SET"
TAMPERED = {
    "altered payload": ([f"{E} payload = '{{\"step\":0,\"action\":0}}' WHERE number = 2"], "event 2 was altered"),
    "altered answer": ([f"{E} answer = '' WHERE number = 2"], "event 2 was altered"),
    "answer taken away": ([f"{E} answer = NULL WHERE number = 2"], "event 2 was altered"),
    "another person": ([f"{E} who = '\"pupil 9\"' WHERE number = 3"], "event 3 was altered"),
    "another kind": ([f"{E} kind = 'note' WHERE number = 3"], "event 3 does not follow"),
    "another time": ([f"{E} time = '2026-11-17T09:30:01.000000Z' WHERE number = 0"], "event 0 does not follow"),
    "removed": (["DELETE FROM journal_events WHERE number = 5"], "event 5 is missing"),
    "several removed": (["DELETE FROM journal_events WHERE number IN (5, 6)"], "events 5 to 6 are missing"),
    "the first removed": (["DELETE FROM journal_events WHERE number = 0"], "event 0 is missing"),
    "the last removed": (["DELETE FROM journal_events WHERE number = 12"], "13 events once, now there are 12"),
    "removed and closed up": (
        ["DELETE FROM journal_events WHERE number = 5", f"{E} number = 1000 + number WHERE number > 5",
         f"{E} number = number - 1001 WHERE number > 1000"],
        "event 5 does not follow",
    ),
    "swapped": (
        [f"{E} number = 99 WHERE number = 3", f"{E} number = 3 WHERE number = 4", f"{E} number = 4 WHERE number = 99"],
        "event 3 does not follow",
    ),
    "inserted": (
        [f"{E} number = 1000 + number WHERE number > 5", f"{E} number = number - 999 WHERE number > 1000",
         "INSERT INTO journal_events SELECT programme, 6, kind, time, who, NULL, asked, payload, answer, salt, digest,"
         " chain, erased FROM journal_events WHERE number = 5"],
        "event 6 was altered",
    ),
    "emptied silently": (
        [f"{E} who = NULL, key = NULL, asked = NULL, payload = NULL, answer = NULL, salt = NULL, erased = TRUE"
         " WHERE number = 2"],
        "event 2 was emptied, and no event says",
    ),
    "marked as erased": ([f"{E} erased = TRUE WHERE number = 2"], "event 2 is marked as erased and is not"),
    "without its salt": ([f"{E} salt = NULL WHERE number = 2"], "event 2 was altered"),
}  # fmt: skip


@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_found(how, url):
    statements, said = TAMPERED[how]
    with filled(url) as journal:
        assert journal.verify().ok
        journal.keep_snapshot(13, b"all of it", "1")
    run(url, *statements)
    with nr.Journal(url, "school") as journal:
        found = journal.verify()
        assert not found.ok
        assert any(said in sentence for sentence in found.wrong), found.wrong
        assert str(found).count("\n") == len(found.wrong)


def test_a_journal_written_anew_is_found_by_what_was_noted_elsewhere(tmp_path):
    with filled(f"{tmp_path}/one.db") as one, filled(f"{tmp_path}/two.db") as two:
        noted = {one.head: one.chain, 4: list(one.events())[3].chain}
        assert one.verify(known=noted).ok
        assert two.verify().ok
        assert two.verify(known=noted).found == 2
        assert one.verify(known={14: bytes(32)}).wrong == (
            "there were 14 events once, now there are 13: the last ones are missing",
        )


def test_verifying_from_the_middle(url):
    with filled(url) as journal:
        found = journal.verify(start=5)
        assert (found.ok, found.events, found.chain) == (True, 8, journal.chain)
        assert journal.verify(start=13).events == 0
        with pytest.raises(ValueError, match="start must be at most"):
            journal.verify(start=14)
    run(url, "UPDATE journal_events SET answer = '' WHERE number = 2")
    with nr.Journal(url, "school") as journal:
        assert not journal.verify(start=2).ok
        assert journal.verify(start=3).ok


def test_erasing_one_person(url):
    with filled(url) as journal:
        for n in (1, 4, 5, 6, 8, 9, 13):
            journal.keep_snapshot(n, b"%d" % n, "1")
        before = list(journal.events())
        done = journal.erase("pupil 1")
        assert (done.kind, done.number, done.payload) == ("erased", 13, {"events": 4, "numbers": [5, 6, 7, 8]})
        assert journal.of("pupil 1") == []
        assert journal.answered(["b1", "d1"]) == {}
        after = list(journal.events())
        for old, new in zip(before, after, strict=False):
            assert (new.kind, new.time, new.digest, new.chain) == (old.kind, old.time, old.digest, old.chain)
            if old.who == "pupil 1":
                assert new.erased
                assert (new.who, new.payload, new.answer, new.key, new.asked) == (None,) * 5
            else:
                assert new == old
        found = journal.verify()
        assert (found.ok, found.erased, found.events) == (True, 4, 14)
        assert [s.number for s in journal.snapshots()] == [13, 9, 5, 4, 1]
        journal.write([Entry("begin", T, "pupil 1", {"x": [0.0]}, key="b1")])  # a stranger now
        assert journal.verify().ok
    run(url, "DELETE FROM journal_events WHERE number = 6")
    with nr.Journal(url, "school") as journal:
        assert not journal.verify().ok


def test_erasing_needs_somebody_who_ended_and_a_snapshot_after(url):
    with filled(url) as journal:
        journal.keep_snapshot(1, b"made", "1")
        journal.keep_snapshot(8, b"middle", "1")
        for who, learned, said in (
            ("nobody", None, "no event of 'nobody'"), ("pupil 1", None, "of 9 events or more, the last one is of 8"),
            ("pupil 0", 9, "of 9 events or more"), (True, None, "who must be"),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=said):
                journal.erase(who, learned)
        journal.write([Entry("begin", T, "pupil 0", {"x": [1]})])
        with pytest.raises(ValueError, match="withdraw them first"):
            journal.erase("pupil 0")
        assert journal.head == 14
        journal.write([Entry("withdraw", T, "pupil 0", {"learn": False})])
        journal.keep_snapshot(15, b"now", "1")
        journal.erase("pupil 0")
        assert [s.number for s in journal.snapshots()] == [15, 1]
        assert journal.verify().ok


def test_nothing_of_an_erased_person_is_left_in_the_file(tmp_path):
    path = tmp_path / "journal.db"
    with nr.Journal(path) as journal:
        secret = [Entry("begin", T, "Zanzibar", {"x": ["Ouagadougou" * 500]}, "Antananarivo", "Reykjavik", b"Thimphu")]
        journal.write([Entry("begin", T, i, {"x": [0.5]}) for i in range(200)])
        journal.write([*secret, Entry("end", T, "Zanzibar", {})])
        journal.write([Entry("begin", T, -i, {"x": [0.5]}) for i in range(1, 200)])
        journal.keep_snapshot(201, b"Zanzibar is open here", "1")
        journal.keep_snapshot(journal.head, b"learned", "1")

        def left():
            data = b"".join(file.read_bytes() for file in tmp_path.iterdir())
            return [
                name
                for name in (b"Zanzibar", b"Ouagadougou", b"Antananarivo", b"Reykjavik", b"Thimphu")
                if name in data
            ]

        assert len(left()) == 5
        journal.erase("Zanzibar")
        assert left() == []
        assert journal.verify().ok


def test_export(url, tmp_path):
    with filled(url) as journal:
        journal.write([
            Entry("reward", T, "pupil 0", {"step": 0, "reward": 0.5}),
            Entry("correction", T, "pupil 0", {"step": 0, "next_state": 2, "reward": 0.75}),
        ])  # fmt: skip
        journal.erase("pupil 1")
        journal.write([Entry("begin", T, "pupil 2", {"x": [9], "unavailable": [1]}), Entry("note", T)])
        paths = journal.export(tmp_path / "new" / "folder")
        events = list(journal.events())
    assert [path.name for path in paths] == [
        "events.parquet",
        "decisions.parquet",
        "outcomes.parquet",
        "people.parquet",
        "log.parquet",
    ]
    rows, decisions, outcomes, people, log = (pq.read_table(path).to_pylist() for path in paths)
    assert [(r["number"], r["kind"], r["erased"], r["chain"]) for r in rows] == [
        (e.number, e.kind, e.erased, e.chain.hex()) for e in events
    ]
    assert json.loads(rows[1]["payload"]) == {"x": [0.5, 0]}
    assert json.loads(rows[1]["who"]) == "pupil 0"
    assert [tuple(d[n] for n in ("who", "episode", "probability", "next_state", "reward")) for d in decisions] == [
        ("pupil 0", 0, 0.25, 2, 0.75), ("pupil 2", 2, 0.25, 1, None),
    ]  # fmt: skip
    assert [(o["kind"], o["who"], o["reward"]) for o in outcomes] == [
        ("outcome", "pupil 0", None), ("outcome", "pupil 2", None), ("reward", "pupil 0", 0.5),
        ("correction", "pupil 0", 0.75),
    ]  # fmt: skip
    assert [(p["who"], p["episode"], p["how"], p["decisions"]) for p in people] == [
        ("pupil 0", 0, "end", 1), ("pupil 2", 2, "end", 1), ("pupil 2", 3, None, 0),
    ]  # fmt: skip
    assert [tuple(step[n] for n in ("episode", "x0", "next_state", "reward", "probability")) for step in log] == [
        (0, 0.5, 2, 0.75, 0.25), (2, 0.5, 1, None, 0.25),
    ]  # fmt: skip


def test_export_of_nothing_and_of_odd_names(tmp_path):
    with nr.Journal(tmp_path / "journal.db") as journal:
        assert [pq.read_table(path).num_rows for path in journal.export(tmp_path / "a")] == [0] * 5
        who = [7, "seven", "\ud800", "\0"]
        journal.write([Entry("begin", T, w, {"x": {"name": "\0"}}) for w in who])
        people = pq.read_table(journal.export(tmp_path / "b")[3])
        assert [json.loads(w) for w in people["who"].to_pylist()] == who
