"""Agents in a process that was forked."""

import os
import sys
import threading

import pytest

import noregret as nr
from noregret.agents.locks import Lock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # that it has threads is the point
]


def in_child(what, seconds=30):
    """What a forked child says, "hangs" if nothing comes."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(out)
            os.write(into, str(what()).encode())
        finally:
            os._exit(0)
    os.close(into)
    timer = threading.Timer(seconds, lambda: os.kill(pid, 9))
    timer.start()
    said = b"".join(iter(lambda: os.read(out, 4096), b"")).decode()
    timer.cancel()
    os.close(out)
    os.waitpid(pid, 0)
    return said or "hangs"


def tried(agent, x):
    try:
        return agent.begin_episode(x).policy.shape
    except RuntimeError as error:
        return error


def test_a_lock_that_another_thread_holds_is_a_sentence_in_a_forked_child():
    world = nr.worlds.clinic()
    agent, idle = nr.UniformRandom(world.problem), nr.UniformRandom(world.problem)
    x = world.context(0, 0)
    for one in (agent, idle):  # compiled before the fork
        one.begin_episode(x)
        one.end_episode()
    held, free = threading.Event(), threading.Event()

    def hold():
        with agent.lock.held:
            held.set()
            free.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert "another thread was at work with this agent when the process was forked" in in_child(
            lambda: tried(agent, x), 5
        )
        assert in_child(lambda: tried(idle, x)) == "(6, 4)"  # nobody was at work with this one
    finally:
        free.set()
        thread.join()
    assert tried(agent, x) == (6, 4)  # the parent goes on


def test_a_lock_of_the_forking_thread_stays_its_own():
    lock = Lock()
    with lock.held:
        assert in_child(lambda: lock.held.acquire(blocking=False)) == "True"
    with lock.held:
        pass


def test_locks_are_not_kept_alive_by_being_known():
    from noregret.agents import locks as _threads

    lock = Lock()
    assert lock in _threads._locks
    before = len(_threads._locks)
    assert sys.getrefcount(lock) == 2
    del lock
    assert len(_threads._locks) == before - 1
