"""How long one waits for the first use of an agent: processor seconds with an empty cache, function by function.

    python tools/waiting.py                       # the three agents that have a limit
    python tools/waiting.py GLMORL LRORL          # others, by the names of their classes
    python tools/waiting.py --functions 20 ...    # and the twenty functions whose compilation takes longest

The first use is the agent's construction, its first plan and its first `simulate`, in the clinic. Every agent gets a
process and a cache of its own. The seconds of a function leave out those of the functions compiled on its way. What is
left over is the package's import, the run itself, and what is written to the cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

LIMITS = {"GLMORL": 12.0, "CertifiedPSRL": 20.0, "CertifiedPSRL stored": 30.0}  # processor seconds


def first_use(name: str) -> None:
    """In a process of its own: print {"seconds": ..., "functions": {name: [times compiled, seconds]}} as JSON."""
    from numba.core import event

    spent: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    open_: list[list[float]] = []  # [start, seconds of what was compiled within]

    class Recorder(event.Listener):  # type: ignore[misc]
        def on_start(self, happening: object) -> None:
            open_.append([time.process_time(), 0.0])

        def on_end(self, happening: object) -> None:
            start, within = open_.pop()
            seconds = time.process_time() - start
            function = happening.data["dispatcher"].py_func  # type: ignore[attr-defined]
            entry = spent[f"{function.__module__.removeprefix('noregret.')}.{function.__qualname__}"]
            entry[0], entry[1] = entry[0] + 1, entry[1] + seconds - within
            if open_:
                open_[-1][1] += seconds

    with event.install_listener("numba:compile", Recorder()):
        import noregret as nr

        kind, *sets = name.split()
        world = nr.worlds.clinic()
        agent = getattr(nr, kind)(world.problem, **({"sets": sets[0]} if sets else {}))
        agent.begin_episode(world.context(0, 0))
        nr.simulate(agent, world, 10)
    print(json.dumps({"seconds": time.process_time(), "functions": spent}))


def measure(name: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"NUMBA_CACHE_DIR": cache, "NOREGRET_QUIET": "1"}
        command = [sys.executable, __file__, "--inside", name]
        return dict(json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "agents", nargs="*", default=list(LIMITS), help='class names, with "stored" behind for such sets'
    )
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="show the N slowest functions")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        return first_use(asked.inside)
    for name in asked.agents:
        made = measure(name)
        functions: dict[str, list[float]] = made["functions"]  # type: ignore[assignment]
        compiled = sum(seconds for _, seconds in functions.values())
        limit = f", limit {LIMITS[name]:.0f}" if name in LIMITS else ""
        count = sum(int(times) for times, _ in functions.values())
        print(f"{name}: {made['seconds']:.1f} s{limit}; {compiled:.1f} s in {count} compilations", flush=True)
        slowest = sorted(functions.items(), key=lambda item: -item[1][1])[: asked.functions]
        for function, (times, seconds) in slowest:
            print(f"    {seconds:6.2f} s  {int(times):3d} x  {function}")


if __name__ == "__main__":
    main()
