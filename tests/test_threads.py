"""Several threads at one agent: whoever reads sees it before or after a verb, never in between, and who writes is not
disturbed. Several processes: one writes the file, others read it."""

import copy
import pickle
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import noregret as nr
from live import make, place, played
from noregret.agents import locks as _threads
from noregret.agents.contents import fingerprint
from noregret.agents.files import copy_of

pytestmark = pytest.mark.deep

EPISODES = 25
AGENTS = ("certified-psrl", "lr-orl", "certified", "referral", "certified-psrl-stored", "glm-orl", "psrl")


@contextmanager
def eager():
    """Threads change places often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def written(agent, world, each=None):
    """Play; what every plan was. `each` is called after every verb."""
    plans, each = [], each or (lambda: None)
    for k in range(EPISODES):
        person = world.individual(k, 3)
        plan = agent.begin_episode(person.context)
        plans.append((plan.policy.tobytes(), plan.values.tobytes(), plan.certificate))
        each()
        for _ in range(world.problem.horizon):
            action = agent.act(person.state)
            each()
            agent.observe(*person.step(action))
            each()
        agent.end_episode()
        each()
    return plans


def readings(agent, world):
    """Name -> a reading of the agent, as something that can be compared."""
    x = world.context(7, 0)
    policy = np.tile(world.problem.layout.available.argmax(1), (world.problem.horizon, 1))
    made = {"fingerprint": lambda: fingerprint(agent), "policy": lambda: agent.policy.tobytes()}
    judge = agent if hasattr(agent, "certify") else getattr(agent, "agent", None)
    if hasattr(judge, "certify"):

        def certified():
            plan = judge.certify(x, policy)
            return plan.upper.tobytes(), plan.lower.tobytes(), plan.certificate

        made["certify"] = certified
    made["copy"] = lambda: fingerprint(copy_of(agent))
    return made


def hammered(name):
    """(plans with readers at work, plans without, name -> readings that no moment of the run without has)."""
    world = place(name)
    quiet, agent = make(name, world), make(name, world)
    seen = {reading: {look()} for reading, look in readings(quiet, world).items()}

    def look_around():
        for reading, look in readings(quiet, world).items():
            seen[reading].add(look())

    expected = written(quiet, world, look_around)
    looks, stop = readings(agent, world), threading.Event()
    torn, wrong = {reading: 0 for reading in looks}, []

    def read(which):
        try:
            while not stop.is_set():
                for reading in which:
                    torn[reading] += looks[reading]() not in seen[reading]
        except BaseException as error:
            wrong.append(error)

    orders = (list(looks), list(reversed(looks)), ["certify"] if "certify" in looks else list(looks))
    threads = [threading.Thread(target=read, args=(order,)) for order in orders]
    with eager():
        for thread in threads:
            thread.start()
        try:
            plans = written(agent, world)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    return plans, expected, torn, wrong, fingerprint(agent) == fingerprint(quiet)


@pytest.mark.study(first=1)
@pytest.mark.parametrize("name", AGENTS)
def test_one_writes_and_others_read(name):
    plans, expected, torn, wrong, same = hammered(name)
    assert not wrong
    assert plans == expected
    assert same
    assert not any(torn.values()), torn


class Nothing:
    """A lock that keeps nobody out."""

    held = property(lambda self: self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


@pytest.mark.long
def test_without_the_lock_the_test_above_fails(monkeypatch):
    """It can tell: with a lock that keeps nobody out, readings or plans are torn."""
    monkeypatch.setattr("noregret.agents.base.Lock", Nothing)
    for _ in range(20):
        plans, expected, torn, wrong, same = hammered("certified-psrl")
        if plans != expected or not same or any(torn.values()) or wrong:
            return
    pytest.fail("nothing was torn in twenty runs without a lock")


@pytest.mark.long
def test_several_write():
    """People under keys of their own, each in a thread: everybody is learned from once."""
    world, n = place("psrl"), 40
    live = nr.Live(nr.CertifiedPSRL(world.problem), order="end")
    wrong = []

    def treat(who):
        try:
            for i in range(n):
                person = world.individual(i, who)
                live.begin(f"{who} {i}", person.context)
                for h in range(world.problem.horizon):
                    done = live.act(f"{who} {i}", person.state).action
                    live.observe(f"{who} {i}", *person.step(done), step=h)
                live.end(f"{who} {i}")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=treat, args=(who,)) for who in range(4)]
    with eager():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert live.open == ()
    assert live.agent.episode == 4 * n
    assert live.agent.state.sampler.samples.sum() == 4 * n * world.problem.horizon


def test_agents_made_of_agents_share_one_lock():
    p = place("certified").problem
    inner = nr.PSRLGLM(p)
    outer = nr.Referral(nr.Certified(inner), nr.UniformRandom(p), 1.0)
    parts = (outer.agent, outer.expert, outer.agent.judge, inner)
    assert all(part.lock is outer.lock for part in parts)
    assert nr.Live(outer).lock is outer.lock


def test_copies_have_locks_of_their_own(tmp_path):
    world = place("psrl")
    agent = make("certified", world)
    other = copy.deepcopy(agent)
    assert other.lock is not agent.lock
    assert other.agent.lock is other.judge.lock is other.lock
    assert agent.fresh().lock is not agent.lock
    agent.save(tmp_path / "a.npz")
    assert nr.load(tmp_path / "a.npz").lock is not agent.lock
    with agent.lock.held:  # somebody is at work: the copy does not wait
        done = []
        thread = threading.Thread(target=lambda: done.append(other.begin_episode(world.context(0, 0))))
        thread.start()
        thread.join(60)
        assert done
    assert isinstance(copy.deepcopy(_threads.Lock()), _threads.Lock)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
@pytest.mark.parametrize("name", ["psrl", "referral"])
def test_a_copy_has_a_memory_of_its_own_and_goes_on_alike(name, copied):
    world = place(name)
    agent = make(name, world)
    played(agent, world, range(3))
    agent.begin_episode(world.context(0, 5))
    before = fingerprint(agent)
    other = copied(agent)
    other.end_episode()
    played(other, world, range(3))
    assert (fingerprint(agent), agent.episode) == (before, 3)
    agent.end_episode()
    played(agent, world, range(3))
    assert fingerprint(agent) == fingerprint(other)


def test_a_copy_of_a_live_has_people_of_its_own():
    live = nr.Live(make("psrl", place("psrl")))
    other = copy.copy(live)
    other.begin(1, place("psrl").context(0, 0))
    assert (live.open, other.open) == ((), (1,))


READ = """
import sys, time
import noregret as nr
from noregret.agents.contents import fingerprint
seen, until = set(), time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    seen.add(fingerprint(nr.load(sys.argv[1])))
print(*sorted(seen))
"""


@pytest.mark.long
def test_another_process_reads_what_one_writes(tmp_path):
    """A file is replaced whole: a reader gets one of the agents that were saved, and no other."""
    world, path = place("psrl"), tmp_path / "agent.npz"
    agent = nr.agents.PSRL(world.problem, seed=3)
    played(agent, world, range(1))  # compiled before anybody waits for it
    agent.save(path)
    saved = {fingerprint(agent)}
    with (tmp_path / "seen").open("w") as out:  # no pipe: nobody reads while it is written to
        command = [sys.executable, "-c", READ, str(path), "5"]
        reader = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    k = 1
    while reader.poll() is None:
        person = world.individual(k, 3)
        agent.begin_episode(person.context)
        agent.observe(*person.step(agent.act(person.state)))
        agent.end_episode()
        agent.save(path)
        saved.add(fingerprint(agent))
        k += 1
        time.sleep(0.001)
    said = (tmp_path / "seen").read_text()
    assert reader.returncode == 0, said
    seen = set(said.split())
    assert seen <= saved
    assert len(seen) > 1
