"""Files that somebody wrote on purpose: real ones, changed, with the checksum that goes with the change.

    make fuzz                                    ten minutes
    python tests/fuzz_loader.py -runs=10000      as many files; any option of libFuzzer

Coverage decides what is tried next (atheris). Whatever comes: one sentence, or an agent that plans, acts and learns
with finite numbers, soon and within memory. Nothing that a file brings along is run."""

import inspect
import resource
import sys
import time
from pathlib import Path

import atheris

import noregret as nr
from noregret import checks as _checks
from noregret.agents import files
from noregret.live import people
from noregret.problem import encoder, layout, problem
from noregret.storage import archive as _sealed

sys.path.insert(0, str(Path(__file__).parent))
from mutations import FOLDER, changed, opened, seeds, used

for _module in (_sealed, files, people, encoder, problem, layout, _checks):  # not the kernels, which are compiled
    for _owner in (_module, *(c for c in vars(_module).values() if inspect.isclass(c))):
        for _function in list(vars(_owner).values()):
            if inspect.isfunction(_function) and _function.__module__ == _module.__name__:
                atheris.instrument_func(_function)

NAMES = (
    "glm-orl", "certified-psrl", "certified-psrl-stored", "psrl", "ucrl2", "cece", "lsvi-ucb", "cover-rmax", "glm-ucb",
    "referral", "certified", "kwik-lr-rmax",
)  # fmt: skip
SECONDS, ROOM = 20.0, 4 * 2**30
FILES = [(data, *opened(data), load) for data, load in seeds(NAMES)]


def one(data):
    """One input of the fuzzer."""
    path = FOLDER / "fuzzed.npz"
    content, load = changed(atheris.FuzzedDataProvider(data), FILES)
    path.write_bytes(content)
    begun = time.thread_time()
    try:
        made = load(path)
    except ValueError as error:
        made, said, kind = None, str(error), type(error)
    if made is None:
        assert kind is ValueError, kind
        assert "\n" not in said, said
        assert said.startswith(str(path)), said
    if isinstance(made, nr.Live):
        for who in made.open:
            made.end(who)
        made = made.agent
    try:
        if made is not None:
            used(made)
    except ValueError as error:  # numbers that fit somebody and not somebody else: a kernel says so
        said = str(error)
        if "positive definite" not in said:
            raise
    assert time.thread_time() - begun < SECONDS, "too slow"


def main():
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, resource.RLIM_INFINITY))
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
