"""What pytest leaves alone, and how workers share what is compiled."""

import fcntl
import zlib

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

collect_ignore = ["fuzz_loader.py"]  # a program of its own, with a dependency of its own: `make fuzz`


def pytest_configure(config):
    """Nothing is compiled twice: a worker that needs what another one is compiling waits, and finds it in the cache."""
    if not hasattr(config, "workerinput"):
        return
    file = (config.cache.mkdir("compiling") / "lock").open("w")
    compile = Dispatcher.compile

    def compile_alone(self, signature):
        place = zlib.crc32(f"{self.py_func.__module__} {self.py_func.__qualname__} {signature}".encode())
        with global_compiler_lock:  # before the other lock, as everywhere: threads cannot wait for each other
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
            try:
                return compile(self, signature)
            finally:
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)

    Dispatcher.compile = compile_alone
