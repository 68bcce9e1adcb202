"""Ctrl-C or too little memory at any line of a verb of an agent: it is undone or done, never in between, the agent can
be used, and what it then saves can be loaded."""

import signal
import warnings
from contextlib import suppress

import numpy as np
import pytest

import noregret as nr
from faults import Injector, places
from live import EVERYONE, make, place, played, steps_of, table_of
from noregret.agents import contents, files

pytestmark = pytest.mark.deep

# One of each kind: their verbs come to every line that the verbs of the others come to
KINDS = (
    "certified-psrl-lottery", "certified-stored", "referral-function", "conservative-function", "cece",
    "uniform-random",
)  # fmt: skip


def everything(agent):
    """All there is to an agent, as a value that can be compared; of the buffers what an open episode says."""
    episode, step, asked, opened = agent._clock.tolist()
    n, path = step + asked, agent._path
    now = None
    if opened:
        now = (
            agent._x.tolist(), agent.policy.tolist(), path.states[: max(n, step + (step > 0))].tolist(),
            path.actions[:n].tolist(), repr(path.rewards[:step].tolist()), agent._others[:n].tolist(),
            agent._out.plans.tolist(), agent._out.floor.tolist(),
            agent.mask.tolist(),
        )  # fmt: skip
    coder = None if agent.encoder is None else agent.encoder.to_dict()
    return (
        contents.fingerprint(agent),
        (episode, step, asked, opened),
        now,
        coder,
        agent.refuted,
        agent._root()._caveats,
    )


class Case:
    """An agent after three people, in the middle of the fourth where a verb asks for it; fresh copies of it."""

    def __init__(self, name, folder):
        self.name, self.world, self.folder = name, place(name), folder
        self.agent = make(name, self.world)
        played(self.agent, self.world, range(3), g=np.random.default_rng(1))
        columns, _ = steps_of(self.world, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.log = nr.read_log(columns, self.agent.problem)
        self.x, self.start = self.world.context(3, 3), int(self.world.problem.starts[0])
        self.taken = None  # from whoever comes: an action in one state, where the agent can do without
        if self.agent.masks and self.agent._ask is None and "fixed" not in name:
            self.taken = np.zeros(self.world.problem.layout.available.shape, bool)
            self.taken[1, int(self.world.problem.layout.available[1].argmax())] = True

    def copy(self):
        return files.copy_of(self.agent)

    def ready(self, verb):
        """A copy on which the verb may be called."""
        agent, H = self.copy(), self.agent.problem.horizon
        if verb in ("begin", "learn_from", "make_room", "refresh"):
            return agent
        agent.begin_episode(self.x)
        steps = {"act": 0, "other": 0, "observe": 0, "pause": max(agent.pause - 1, 0), "certify": 0}.get(verb, H - 1)
        state = self.start
        for h in range(steps + (verb in ("end", "save"))):
            state = self.after(agent, h, state)
        if verb in ("observe", "pause"):
            agent.act(state)
        self.state = state
        return agent

    @staticmethod
    def after(agent, h, state):
        after = int(agent.problem.layout.outcomes[state, agent.act(state), 0])
        agent.observe(1.0, after)
        return after

    def call(self, agent, verb):
        p, s = agent.problem, int(agent._path.states[agent._step])
        last = int(p.layout.available[self.start].nonzero()[0][-1])
        return {
            "begin": lambda: agent.begin_episode(self.x, self.taken),
            "act": lambda: agent.act(self.start),
            "other": lambda: agent.act(self.start, action=last),
            "observe": lambda: agent.observe(1.0, int(p.layout.outcomes[s, agent._path.actions[agent._step], 0])),
            "pause": lambda: agent.observe(1.0, int(p.layout.outcomes[s, agent._path.actions[agent._step], 0])),
            "end": agent.end_episode,
            "learn_from": lambda: agent.learn_from(self.log),
            "make_room": lambda: agent.make_room(500),
            "refresh": agent.refresh,
            "certify": lambda: agent.certify(self.x, table_of(p)),
            "save": lambda: agent.save(self.folder / "faulty.npz"),
        }[verb]

    def load(self, path):
        return nr.load(path, expert=self.agent._ask if getattr(self.agent, "_ask", None) else None)

    def go_on(self, agent):
        """The rest of the episode, another person, saved and loaded on the way; what came of it."""
        agent.save(self.folder / "on.npz")
        agent = self.load(self.folder / "on.npz")
        state = int(agent._path.states[agent._step]) if agent.is_open and agent._step + agent._asked else self.start
        if agent.is_open:
            while agent._step < agent.problem.horizon:
                state = self.after(agent, agent._step, state)
            agent.end_episode()
        agent.begin_episode(self.world.context(3, 4))
        self.after(agent, 0, self.start)
        agent.end_episode()
        return everything(agent)


def verbs_of(agent):
    made = ["begin", "act", "other", "observe", "end", "learn_from", "save"]
    made += ["pause"] if agent.pause else []
    made += ["certify"] if getattr(agent, "certifies", hasattr(agent, "judge")) else []
    return [*made, "make_room", "refresh"] if agent.room else made


@pytest.mark.study(first=2)
@pytest.mark.parametrize(
    "errors",
    [
        pytest.param((KeyboardInterrupt, MemoryError), id="some, in turn"),
        pytest.param((KeyboardInterrupt,), marks=pytest.mark.slow, id="KeyboardInterrupt"),
        pytest.param((MemoryError,), marks=pytest.mark.slow, id="MemoryError"),
    ],
)
@pytest.mark.parametrize("name", [n if n in KINDS else pytest.param(n, marks=pytest.mark.slow) for n in EVERYONE])
def test_a_verb_is_undone_or_done(name, errors, tmp_path):
    """Every line of every verb, the first and the last time that it is come to; by default every third of them."""
    case, every = Case(name, tmp_path), 3 if len(errors) > 1 else 1
    tried = missed = 0
    for verb in verbs_of(case.agent):
        reference = case.ready(verb)
        before = everything(reference)
        case.call(reference, verb)()  # compiles
        after = everything(reference)
        lines, earlier = [0], []
        while lines != earlier:  # until Python's caches have what they will keep
            again, earlier = case.ready(verb), lines
            lines = places(case.call(again, verb))
            assert everything(again) == after, verb
        outcome, agent = {}, case.ready(verb)
        for i, at in enumerate(lines[::every]):
            error = errors[i % len(errors)]
            injector = Injector(at, error)
            for _ in range(3):
                with suppress(error, ValueError):  # loading makes a sentence of a lack of memory
                    injector.count = 0
                    injector.run(case.call(agent, verb))
                if injector.fired:
                    break
                agent = case.ready(verb)  # one that was interrupted before has less to do: then a new one
            else:
                missed += 1  # even a new one came to fewer lines than the one that was counted
                continue
            found = everything(agent)
            assert found in (before, after), (verb, at)
            tried += 1
            if at % 29 == 0:
                going = case.go_on(agent)
                assert outcome.setdefault(found == after, going) == going, (verb, at)
            if found != before:  # otherwise the same one goes on: it may be interrupted again and again
                agent = case.ready(verb)
    assert tried > 100 // every + 50 * missed
    case.agent.save(tmp_path / "faulty.npz")  # removes what an interrupted one left
    assert [p for p in tmp_path.iterdir() if p.suffix == ".part"] == []


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
@pytest.mark.parametrize("name", ["uniform-random", "certified-psrl", "referral-function", "cece"])
def test_ctrl_c_at_any_moment(name, tmp_path):
    """A real signal, between any two instructions of Python: beside an agent that is left alone, the other is
    interrupted at random and asked again where it says that nothing has happened."""
    case, g, armed = Case(name, tmp_path), np.random.default_rng(7), [False]
    calm, shaken = case.copy(), case.copy()

    def ring(number, frame):
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    earlier, cut = signal.signal(signal.SIGALRM, ring), 0
    try:
        for k in range(3, 40):
            person = case.world.individual(k, 3)
            verbs = [lambda agent, x=person.context: agent.begin_episode(x)]
            verbs += [
                v
                for _ in range(2)
                for v in (
                    lambda agent: agent.act(int(agent._path.states[agent._step]) if agent._step else case.start),
                    lambda agent: agent.observe(
                        1.0, int(agent.problem.layout.outcomes[tuple(pair_of(agent))][0])
                    ),
                )
            ]  # fmt: skip
            for verb in [*verbs, lambda agent: agent.end_episode()]:
                before = everything(shaken)
                verb(calm)
                done, longest = False, 5e-5
                while not done:
                    longest *= 1.5
                    assert longest < 60.0, "the verb changes nothing"
                    try:
                        armed[0] = True
                        signal.setitimer(signal.ITIMER_REAL, float(g.uniform(1e-6, longest)))
                        verb(shaken)
                        armed[0] = False
                    except KeyboardInterrupt:
                        cut += 1
                    finally:
                        armed[0] = False
                        signal.setitimer(signal.ITIMER_REAL, 0.0)
                    found = everything(shaken)
                    done = found != before
                assert found == everything(calm)
    finally:
        signal.signal(signal.SIGALRM, earlier)
    assert cut > 20


def pair_of(agent):
    """The state and the action whose outcome is awaited."""
    return int(agent._path.states[agent._step]), int(agent._path.actions[agent._step])
