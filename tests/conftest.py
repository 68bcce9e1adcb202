"""What pytest leaves alone, and how workers share what is compiled."""

import fcntl
import functools
import gc
import zlib
from collections import Counter

import pytest
from numba.core.compiler_lock import global_compiler_lock

import postgres
from noregret.compiler import jit

collect_ignore = ["fuzz_loader.py"]  # a program of its own, with a dependency of its own: `make fuzz`


def pytest_configure(config):
    """Nothing is compiled twice: a worker that needs what another one is compiling waits, and finds it in the cache."""
    if not hasattr(config, "workerinput") or jit.DISABLED:
        return
    file = (config.cache.mkdir("compiling") / "lock").open("w")
    compile = jit._made_for

    @functools.wraps(compile)  # its module as well: the cache must not take this file for a part of the compiler
    def compile_alone(dispatcher, signature):
        function = dispatcher.py_func
        place = zlib.crc32(f"{function.__module__} {function.__qualname__} {signature}".encode())
        with global_compiler_lock:  # before the other lock, as everywhere: threads cannot wait for each other
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
            try:
                return compile(dispatcher, signature)
            finally:
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)

    jit._made_for = compile_alone


def pytest_collection():
    """Thousands of tests are kept anyway: looking for garbage among them, now or later, finds nothing."""
    gc.disable()


def pytest_collection_finish():
    gc.enable()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items):
    """Of a study the default run has the first cases: `@pytest.mark.study(first=2)` makes all others `long`."""
    met = Counter()
    for item in items:
        study = item.get_closest_marker("study")
        if study is not None:
            name = item.nodeid.partition("[")[0]
            if met[name] >= study.kwargs["first"]:
                item.add_marker(pytest.mark.long)
            met[name] += 1


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server for the whole session; where none can be had, a sentence."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: journals on PostgreSQL are not tested")
    try:
        server = postgres.Server()
    except postgres.Unavailable as error:
        pytest.skip(f"no journal on PostgreSQL is tested: {error}")
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Where a journal can be made: on SQLite, and on PostgreSQL."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_server").new()
    return f"sqlite:///{tmp_path}/journal.db"
