"""Ctrl-C or too little memory at any line of a verb of `Live`: it is undone or done, never in between, and life goes
on."""

import copy
import functools
from datetime import UTC, datetime

import numpy as np
import pytest

import noregret as nr
from faults import Injector, places
from noregret import checks as check
from noregret.agents import contents
from noregret.live.people import with_people
from noregret.storage.archive import digest

pytestmark = pytest.mark.deep


def noon():
    return datetime(2026, 1, 1, 12, tzinfo=UTC)


def problem():
    support = np.ones((2, 2, 2), bool)
    support[1, 1, 0] = False
    return nr.Problem(
        2, 2, 2, 1, weight_bound=1.0, reward_bound=1.0, support=support, state_names=("ill", "well"),
        action_names=("wait", "drug"),
    )  # fmt: skip


def rule(x):
    return [["drug", "wait"]] * 2


AGENTS = {
    "certified-psrl": lambda: nr.CertifiedPSRL(problem(), seed=1),
    "stored": lambda: nr.CertifiedPSRL(problem(), sets="stored", seed=1),
    "referral": lambda: nr.Referral(nr.CertifiedPSRL(problem(), seed=1), rule, 1.0),
    "lottery": lambda: nr.CertifiedPSRL(problem(), plans=2, floor=0.2, seed=1),
}


def ward(name, journal=None):
    """Five people: a is open after a step, b has done nothing, c and d have ended and wait for a, e has acted."""
    live = nr.Live(AGENTS[name](), draws=3, clock=noon, journal=journal)
    for who in "abcde":
        live.begin(who, [0.5 + 0.1 * ord(who) % 0.5])
    for who in "acd":
        live.act(who, 0)
        live.observe(who, float("nan"), 1)
    live.end("c")
    live.end("d")
    live.act("e", 1, action=1)
    return live


def everything(live):
    """All there is to a `Live`, as a value that can be compared."""
    people = [
        (
            q.who, q.episode, q.context, q.policy.tolist(), q.upper.tolist(), q.certificate, q.referred, q.fingerprint,
            q.drawn.tolist(), q.states, q.actions, repr(q.rewards), q.others, q.ended, q.until,
            q.floor,
        )
        for q in live._people.values()
        if not q.learned
    ]  # fmt: skip
    return people, contents.fingerprint(live.agent), live.agent.episode, live.agent.is_open, live.agent.refuted


def go_on(live):
    """A day's work; what came of it."""
    done = []
    live.begin("new", [0.7])
    for who in live.open:
        person = live._people[who]
        if person.steps < 2:
            done.append(live.act(who, person.states[person.steps] if person.steps else 0))
            live.observe(who, 1.0, 1, step=person.steps)
    for who in reversed(live.open):
        live.end(who)
    for who in live.waiting:
        live.close(who)
    assert live.open == live.waiting == ()
    return done, everything(live)


class Loadable:
    """Whether what is saved now can be loaded; files with the same contents are loaded once."""

    def __init__(self, folder):
        self.path, self.known = folder / "next.npz", set()

    def __call__(self, live):
        own = {"draws": live.draws, "order": live.order, "audit": live.audit, "rows": live.rows}
        contents = digest(*with_people(live.agent, own, list(live._people.values())))
        if contents not in self.known:
            live.save(self.path)
            again = nr.Live.load(self.path, expert=rule if getattr(live.agent, "_ask", None) else None)
            assert everything(again) == everything(live)
            self.known.add(contents)


def outcomes():
    return {"who": ["e", "a", "c"], "step": [0, 0, 0], "reward": [0.5, 1.0, 0.0], "next_state": [1, None, 1]}


VERBS = {  # the first is what `make test` tries
    "observe": lambda v, p: v.observe("e", 1.0, 1),
    "begin": lambda v, p: v.begin("f", [0.9]),
    "act": lambda v, p: v.act("a", "well", action="wait"),
    "again": lambda v, p: v.observe("a", float("nan"), 1),
    "correction": lambda v, p: v.observe("a", 0.5, 0, step=0),
    "refutation": lambda v, p: v.observe("e", 1.0, 0),
    "reward": lambda v, p: v.reward("c", 0, 1.0),
    "observe_all": lambda v, p: v.observe_all(outcomes()),
    "end": lambda v, p: v.end("a"),
    "end and wait": lambda v, p: v.end("a", wait=1),
    "close": lambda v, p: v.close("c"),
    "abandon": lambda v, p: v.abandon("a"),
    "save": lambda v, p: v.save(p),
}
WITH_AGENTS = ("begin", "refutation", "end", "abandon")  # verbs that change the agent
OWN = {
    "certified-psrl": tuple(VERBS),
    "lottery": ("begin", "act"),
}  # what is tried every time, of the others WITH_AGENTS
CASES = [
    pytest.param(name, verb, marks=[] if verb in OWN.get(name, WITH_AGENTS) else pytest.mark.slow)
    for name in AGENTS
    for verb in VERBS
]


# What is raised, and whether once more during the repair
FAULTS = ((MemoryError, False), (KeyboardInterrupt, False), (KeyboardInterrupt, True))


@pytest.fixture(scope="module")
def wards():
    return functools.cache(ward)


@pytest.mark.study(first=1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("faults", ["in turn", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "verb"), CASES)
def test_an_interruption_at_any_line_leaves_a_verb_undone_or_done(wards, name, verb, faults, tmp_path):
    """Every line, the first and the last time that it is come to: too little memory, Ctrl-C, and Ctrl-C with the repair
    interrupted as well, which the next verb then makes up for; in turn along the lines, with a day's work after every
    fourth; or all three at each."""
    path, call, before, loadable = tmp_path / "live.npz", VERBS[verb], wards(name), Loadable(tmp_path)
    before.save(path)
    after = copy.deepcopy(before)
    call(after, path)
    known = [(everything(live), go_on(copy.deepcopy(live))) for live in (before, after)]
    states = [state for state, _ in known]
    one = copy.deepcopy(before)
    lines = places(lambda: call(one, path))
    assert len(lines) > 20
    for i, at in enumerate(lines):
        for error, twice in FAULTS if faults == "all" else [FAULTS[i % 3]]:
            live, fault, raised = copy.deepcopy(before), Injector(at, error), False
            if twice:
                live._catch_up = lambda live=live, fault=fault: interrupted_again(live, fault)
            try:
                fault.run(lambda live=live: call(live, path))
            except error:
                raised = True
            assert fault.fired
            if twice:
                del live._catch_up
                live._settle()  # as the next `begin` does
            found = everything(live)
            assert found in (states if raised else states[1:]), (at, error, twice)
            loadable(live)
            if faults == "all" or i % 4 == 0:
                assert go_on(live) == known[states.index(found)][1], (at, error, twice)
    if verb == "save":
        again = nr.Live.load(path, expert=getattr(before.agent, "_ask", None))
        assert everything(again) == states[0]  # the old file or the new one, which are the same here


def interrupted_again(live, fault):
    if fault.fired:
        raise KeyboardInterrupt("again")
    nr.Live._catch_up(live)


@pytest.mark.long
@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupted_load_harms_nothing(wards, every, tmp_path):
    path = tmp_path / "live.npz"
    wards("certified-psrl").save(path)
    data, whole = path.read_bytes(), everything(nr.Live.load(path))
    tried = 0
    for i, at in enumerate(places(lambda: nr.Live.load(path))[::every]):
        fault = Injector(at, (MemoryError, KeyboardInterrupt)[i % 2])
        try:
            fault.run(lambda: nr.Live.load(path))
        except (MemoryError, KeyboardInterrupt, ValueError):  # a lack of memory may get a sentence
            tried += 1
    assert tried > 50
    assert path.read_bytes() == data
    assert everything(nr.Live.load(path)) == whole


def test_an_interrupted_load_leaves_no_budget(wards, tmp_path):
    """What a file may cost is counted while it is loaded. Left behind, it would be counted on, and refuse others."""
    path, seen = tmp_path / "live.npz", Injector()
    wards("certified-psrl").save(path)
    seen.run(lambda: nr.Live.load(path))
    near = [
        at
        for (code, _), both in seen.lines.items()
        if code.co_name in ("rebuilt", "memory", "limited", "within_budget")
        for at in set(both)
    ]
    assert len(near) > 15
    for at in near:
        with pytest.raises((KeyboardInterrupt, ValueError)):
            Injector(at, KeyboardInterrupt).run(lambda: nr.Live.load(path))
        assert check._budget.get() is None
