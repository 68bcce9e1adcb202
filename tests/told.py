"""A journal as the service writes it, of people in the clinic, and a programme that stands beside it for the pages."""

import json
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np

import noregret as nr
from clinic import CLINIC, RULE
from noregret.journal.event import Entry
from noregret.journal.journal import Journal
from noregret.live.several import Live
from noregret.service.pages import answering
from noregret.service.programme_file import programme_from

P = CLINIC.problem
RULES = {"remission": "wait", "mild": "drug A", "moderate": "drug A", "severe": "drug A"}
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def settings(name="clinic", title="The clinic"):
    """The clinic's programme file."""
    return programme_from({
        "programme": {"name": name, "title": title},
        "problem": {
            "state_names": list(P.state_names), "action_names": list(P.action_names), "horizon": P.horizon,
            "feature_names": list(P.feature_names), "context_dim": P.context_dim, "weight_bound": P.weight_bound,
            "reward_bound": P.reward_bound, "initial_states": ["moderate"],
            "available": {"remission": ["wait"], "severe": ["drug A", "drug B"]},
        },
        "agent": {"name": "certified-psrl"}, "house": {"rule": RULES},
    })  # fmt: skip


SETTINGS = settings()


class Teller:
    """Writes what happens with a `Live` to a journal: the writer of the service without its threads."""

    def __init__(self, journal, live=None, seed=0):
        self.journal, self.seed = journal, seed
        self.live = live or Live(nr.CertifiedPSRL(P), audit=False)
        self.now, self.waiting, self.number = NOON, [], journal.head
        if not self.number:
            options = {"order": self.live.order, "draws": self.live.draws}
            self.say("made", None, {"agent": "certified-psrl", "live": options})
            self.flush()
            self.keep()

    def keep(self):
        self.flush()
        self.journal.keep_snapshot(self.number, self.live.snapshot()(), nr.__version__)

    def say(self, kind, who=None, payload=None, answer=None):
        self.now += timedelta(seconds=7)
        said = None if answer is None else json.dumps({"who": who} | answer)
        self.waiting.append(Entry(kind, self.now.isoformat(), who, payload, said))
        self.number += 1
        if len(self.waiting) >= 500:
            self.flush()

    def flush(self):
        if self.waiting:
            self.journal.write(self.waiting)
            self.waiting = []

    def begin(self, who, x):
        plan = self.live.begin(who, x)
        told = {"certificate": plan.certificate, "referred": getattr(plan, "referred", None), "by": "agent"}
        self.say("begin", who, {"x": np.asarray(x).tolist(), "unavailable": None}, told)
        return plan

    def decide(self, who, state, by="agent", action=None, reason=None, probability=None):
        made = self.live.act(who, state, None if by == "agent" else action)
        payload = {
            "step": made.step, "state": made.state, "action": made.action, "by": by, "probability": probability,
            "advice": made.advice,
        }  # fmt: skip
        self.say("decide", who, payload, {"reason": reason, "by": by})
        return made

    def outcome(self, who, reward, next_state, step):
        self.live.observe(who, reward, next_state, step)
        self.say("outcome", who, {"step": step, "next_state": int(next_state), "reward": reward}, {})

    def end(self, who, wait=0):
        self.live.end(who, wait)
        self.say("end", who, {"wait": wait}, {})

    def visit(self, k, who, steps=None, house=0.1, caller=0.05):
        """One person of the clinic, whole or only so many steps; now and then the house rule or a caller decides."""
        rng, patient = np.random.default_rng([self.seed, k]), CLINIC.individual(k)
        self.begin(who, patient.context)
        for h in range(P.horizon if steps is None else steps):
            state, luck = patient.state, rng.random()
            if luck < house:
                made = self.decide(who, state, "house", RULE[h][state], "deadline" if luck < 0.06 else "loading", 1.0)
            elif luck < house + caller:
                able = np.flatnonzero(P.layout.available[state])
                made = self.decide(who, state, "caller", int(rng.choice(able)))
            else:
                made = self.decide(who, state)
            reward, after = patient.step(made.action)[:2]
            self.outcome(who, float(reward), int(after), h)
        if steps is None:
            self.end(who)


def told(path, people, open_people=3, keys=None, every=20_000):
    """A journal with so many people, the last few of them open."""
    journal = Journal(str(path), "clinic")
    teller, kept = Teller(journal), 0
    for k in range(people):
        whole = k < people - open_people
        teller.visit(k, keys[k] if keys and k < len(keys) else f"person {k}", None if whole else 1 + k % 3)
        if teller.number - kept >= every:
            teller.keep()
            kept = teller.number
    teller.keep()
    return journal


def crowd(path, people):
    """A journal with so many people of one step each, quickly: no agent, no snapshot, certificates by a formula."""
    rng = np.random.default_rng(5)
    luck, certificates = rng.random(people), 6.0 / np.sqrt(1.0 + np.arange(people) / 200.0)
    with Journal(str(path), "clinic") as journal:
        journal.write([Entry("made", NOON.isoformat(), None, {"agent": "certified-psrl", "live": {"order": "begin"}})])
        for first in range(0, people, 1000):
            batch = []
            for k in range(first, min(first + 1000, people)):
                time, who, by = (
                    (NOON + timedelta(minutes=11 * k)).isoformat(),
                    f"person {k}",
                    "agent" if k % 9 else "house",
                )
                told = {
                    "certificate": certificates[k] * (0.8 + 0.4 * luck[k]),
                    "referred": bool(k < people * luck[k] / 3),
                }
                step = {"step": 0, "state": 2, "action": k % 3, "by": by, "probability": 1 / 3, "advice": k % 3}
                batch += [
                    Entry("begin", time, who, {"x": [0.5, float(k % 3 - 1), luck[k]]}, json.dumps(told)),
                    Entry("decide", time, who, step, '{"reason": "deadline"}' if by == "house" else "{}"),
                    Entry("outcome", time, who, {"step": 0, "next_state": 1, "reward": float(luck[k] > 0.4)}, "{}"),
                    Entry("end", time, who, {"wait": 0}, "{}"),
                ]  # fmt: skip
            journal.write(batch)


class Programme:
    """What the pages need of a programme, around a journal that somebody else writes."""

    def __init__(self, path, settings=SETTINGS):
        self.path, self.settings, self.state, self.alarms = str(path), settings, "ready", []

    def open_journal(self):
        return Journal(self.path, self.settings.name)

    def facts(self):
        with self.open_journal() as journal:
            return {"head": journal.head, "queue": 0, "commits": 12, "batches": {1: 3, 8: 9}, "alarms": self.alarms}


def host_of(*programmes):
    made = {p.settings.name: p for p in programmes}
    return SimpleNamespace(programmes=made, find=made.get)


class Answered:
    """In the place of the process beside: answers at once, in this process."""

    def __init__(self, answer=None):
        self.answer, self.known = answer, {}

    def ask(self, key, question):
        made = Future()
        if key not in self.known:
            self.known[key] = answering.answered(question) if self.answer is None else self.answer
        made.set_result(self.known[key])
        return made

    def forget(self):
        pass
