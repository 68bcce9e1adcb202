"""The dashboard's numbers are the journal's: a fold over events, held against plain counting and against Live."""

import json
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

import noregret as nr
from noregret.journal.event import Event
from noregret.journal.journal import Journal
from noregret.live.several import Live
from noregret.service.pages import figures as module
from noregret.service.pages.figures import ENDED, GONE, WITHDRAWN, Figures, mean_over_people, over_people, windows
from noregret.service.pages.follower import Follower
from noregret.service.pages.groups import parts_of
from noregret.service.pages.routing import Watched
from programmes import settings
from told import CLINIC, P, Teller, told


def counted(events):
    made = Figures()
    for event in events:
        made.add(event)
    return made


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    with told(tmp_path_factory.mktemp("figures") / "clinic.db", 40) as made:
        yield made


def test_the_figures_are_what_plain_counting_finds(journal):
    events = list(journal.events())
    made = counted(events)
    begun = [e for e in events if e.kind == "begin"]
    decided = [e for e in events if e.kind == "decide"]
    assert made.number == len(events) == journal.head
    assert made.kinds == Counter(e.kind for e in events)
    assert made.people == len(begun) == 40
    assert made.open == 3
    assert (made.each("fates") == ENDED).sum() == sum(e.kind == "end" for e in events) == 37
    assert made.decisions == len(decided)
    assert made.pairs == Counter((e.payload["state"], e.payload["action"]) for e in decided)
    assert made.chosen == Counter((e.payload["by"], json.loads(e.answer)["reason"]) for e in decided)
    assert made.by("house") > 0
    assert made.by("caller") > 0
    assert made.with_probability == sum(e.payload["probability"] is not None for e in decided)
    np.testing.assert_array_equal(made.each("certificates"), [json.loads(e.answer)["certificate"] for e in begun])
    for name, by in (("decided", ("agent", "house", "caller")), ("by_house", ("house",)), ("by_caller", ("caller",))):
        said = [sum(d.who == e.who and d.payload["by"] in by for d in decided) for e in begun]
        assert made.each(name).tolist() == said
    returns = [sum(o.payload["reward"] for o in events if o.kind == "outcome" and o.who == e.who) for e in begun]
    np.testing.assert_allclose(made.each("returns"), returns)
    X = np.array([e.payload["x"] for e in begun])
    columns = made.columns(P.feature_names)
    np.testing.assert_array_equal(np.array([columns[n] for n in P.feature_names]).T, X)
    assert [who for who, _ in made.latest] == [e.who for e in begun[-module.LATEST :]]


@pytest.mark.parametrize("order", ["begin", "end"])
def test_open_and_waiting_are_those_of_live(tmp_path, order):
    """Random verbs, waits, closings and withdrawals: after each the counts are those of `Live`."""
    rng = np.random.default_rng(7)
    live = Live(nr.CertifiedPSRL(P), order=order, audit=False)
    with Journal(str(tmp_path / "j.db")) as journal:
        teller, made, seen, keys, waited = Teller(journal, live), Figures(), 0, 0, set()
        for _ in range(120):
            luck, here, ended = rng.random(), live.open, live.waiting
            if luck < 0.45 or not here:
                teller.begin(keys, CLINIC.context(seed=0, episode=keys))
                keys += 1
            elif luck < 0.75:
                teller.end(here[int(rng.integers(len(here)))], [0, 0, 2, None][int(rng.integers(4))])
            elif luck < 0.85 and ended:
                who = ended[int(rng.integers(len(ended)))]
                live.close(who)
                teller.say("close", who, {}, {})
            else:
                learn = bool(rng.integers(2))
                among = here if learn else here + ended
                who = among[int(rng.integers(len(among)))]
                live.abandon(who, learn)
                teller.say("withdraw", who, {"learn": learn}, {})
            teller.flush()
            for event in journal.events(seen):
                made.add(event)
                seen += 1
            assert (made.open, made.waiting) == (len(live.open), len(live.waiting))
            waited.add(made.waiting)
    assert max(waited) > 1


def test_a_step_decided_again_and_a_reward_corrected_count_once():
    def event(number, kind, payload, **answer):
        return Event(kind, "2026-01-01T00:00:00+00:00", "a", payload, json.dumps(answer), number=number)

    made = counted([
        event(0, "begin", {"x": [1.0]}),
        event(1, "decide", {"step": 0, "state": 2, "action": 1, "by": "agent"}, certificate=1.5, referred=True),
        event(2, "decide", {"step": 0, "state": 2, "action": 0, "by": "caller"}),
        event(3, "outcome", {"step": 0, "next_state": 1, "reward": None}),
        event(4, "reward", {"step": 0, "reward": 0.25}),
        event(5, "correction", {"step": 0, "next_state": 1, "reward": 0.75}),
    ])  # fmt: skip
    assert made.decisions == 1
    assert +made.pairs == {(2, 0): 1}
    assert made.by("caller") == 1
    assert made.each("returns").tolist() == [0.75]
    assert made.each("certificates").tolist() == [1.5]  # said by the decision, since `begin` had none
    assert made.each("referred").tolist() == [1]
    with pytest.raises(ValueError, match="event must be number 6, got 8"):
        made.add(event(8, "end", {"wait": 0}))


def test_erased_people_are_counted_and_nothing_of_them_is_known():
    made = counted([
        Event("begin", "2026-01-01T00:00:00+00:00", number=0, erased=True),
        Event("decide", "2026-01-01T00:00:00+00:00", number=1, erased=True),
        Event("begin", "2026-01-01T00:00:00+00:00", "b", {"x": {"sex": "f"}}, number=2),
        Event("withdraw", "2026-01-01T00:00:00+00:00", "b", {"learn": False}, number=3),
        Event("erased", "2026-01-01T00:00:00+00:00", None, {"events": 2}, number=4),
    ])  # fmt: skip
    assert (made.people, made.open, made.waiting, made.erased) == (2, 0, 0, 1)
    assert made.each("fates").tolist() == [GONE, WITHDRAWN]
    assert made.columns() == {"sex": [None, "f"]}
    assert [who for who, _ in made.latest] == ["b"]


def test_windows_and_quantiles():
    assert windows(1) == [(0, 1)]
    assert windows(1000)[-1] == (900, 1000)
    assert len(windows(1000)) == 40
    values = np.arange(100.0)
    values[95] = math.nan
    x, q = over_people(values)
    assert x[-1] == 100.0
    np.testing.assert_allclose(q[-1], np.quantile(np.delete(values[90:], 5), (0.1, 0.5, 0.9)))
    x, mean = mean_over_people(values, np.isfinite(values) & (values > 50.0))
    np.testing.assert_allclose(mean[-1], np.delete(values[90:], 5).mean())
    assert over_people(np.zeros(0))[1].shape == (0, 3)


def test_groups_of_few_people_are_not_shown():
    made = parts_of({"sex": ["f"] * 20 + ["m"] * 4, "age": [float(i) for i in range(24)], "=": ["p", "q"] * 12})
    assert {name: int(who.sum()) for name, who in made.items()} == {
        "sex f": 20, "age < 11.5": 12, "age >= 11.5": 12, "column p": 12, "column q": 12,
    }  # fmt: skip


def test_a_follower_reads_every_event_once_and_forgets_who_was_erased(tmp_path):
    with told(tmp_path / "clinic.db", 6, open_people=1) as journal:
        read, forgotten = [], []

        class Counting:
            head = property(lambda self: journal.head)

            def events(self, start=0):
                for event in journal.events(start):
                    read.append(event.number)
                    yield event

        follower = Follower(Counting(), lambda: forgotten.append(True))
        follower.look(10.0)
        follower.look(10.0)
        assert read == list(range(journal.head))
        with follower as found:
            assert found.people == 6
            assert "person 2" in [who for who, _ in found.latest]
        journal.erase("person 2")
        follower.look(10.0)
        for _ in range(100):
            follower.look(0.1)
            if follower.number == journal.head:
                break
        with follower as found:
            assert (found.people, found.erased) == (6, 1)
            assert "person 2" not in [who for who, _ in found.latest]
        assert forgotten


def test_what_was_made_of_the_figures_before_an_erasure_is_not_shown_after_it(tmp_path):
    with told(tmp_path / "clinic.db", 6) as journal:
        programme = SimpleNamespace(settings=settings(), open_journal=lambda: journal)
        watched = Watched(programme, SimpleNamespace(forget=lambda: None))
        assert "person 2" in repr(watched.view()["sections"])
        journal.erase("person 2")
        assert "person 2" not in repr(watched.view()["sections"])


def test_a_follower_says_when_the_journal_is_away():
    class Away:
        head = 3

        def events(self, start=0):
            raise OSError("the disk is gone")

    follower = Follower(Away())
    follower.look(10.0)
    assert follower.error == "OSError: the disk is gone"
