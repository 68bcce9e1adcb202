"""A smoke test of an installed noregret: `make smoke` runs it with a fresh virtual environment's Python.

It refuses to try a checkout. Everything happens in an empty folder: the version and the package's files, a live agent
that is saved and loaded, a simulation, a study with its report, and the commands. It takes about a minute, most of it
compiling.
"""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

STUDY = """\
name = "smoke"
episodes = 40
seeds = 2
points = 4

[[worlds]]
name = "clinic"

[[agents]]
name = "glm-orl"

[[agents]]
name = "uniform-random"
"""


def command(line: str) -> str:
    """What `noregret` prints when it is given these words; an exit status other than 0 ends the test."""
    program = Path(sysconfig.get_path("scripts")) / "noregret"
    done = subprocess.run([program, *line.split()], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"smoke: noregret {line} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def files() -> None:
    """The package is the installed one, with what is no Python in it."""
    import noregret as nr

    package, home = Path(nr.__file__).parent, Path(sysconfig.get_path("purelib"))
    if home not in package.parents:
        sys.exit(f"smoke: noregret is imported from {package}, not from {home}: install it there first")
    for name in ("py.typed", "report/style.css", "report/script.js", "report/template.html.j2"):
        assert (package / name).is_file(), f"the package lacks {name}"
    assert importlib.metadata.version("noregret") == nr.__version__
    assert command("--version").strip() == nr.__version__


def live() -> None:
    """An agent decides, learns, is saved, and goes on from its file."""
    import noregret as nr

    world = nr.worlds.clinic()
    agent = nr.GLMORL(world.problem)
    for k in range(20):
        patient = world.individual(k)
        agent.begin_episode(patient.context)
        while patient.steps < world.problem.horizon:
            agent.observe(*patient.step(agent.act(patient.state)))
        agent.end_episode()
    agent.save("agent.npz")
    assert nr.load("agent.npz").episode == 20


def simulated() -> None:
    """The compiled loop, with exact regret; playing uniformly loses more than learning."""
    import noregret as nr

    world = nr.worlds.clinic()
    learned, uniform = (
        nr.simulate(agent, world, episodes=2_000, seeds=2, every=1_000).final.mean()
        for agent in (nr.EpsilonGreedy(world.problem), nr.UniformRandom(world.problem))
    )
    assert 0.0 < learned < uniform


def commands() -> None:
    """A study from its file to its report, and the other commands that answer at once."""
    Path("smoke.toml").write_text(STUDY)
    command("study run smoke.toml --workers 1")
    command("report results/smoke")
    pages = list(Path("results").rglob("*.html"))
    assert pages, "no report was written"
    assert "glm-orl" in pages[0].read_text()
    assert "GLM-ORL" in command("bounds --states 4 --actions 3 --horizon 5 --dim 3 --episodes 1000")
    assert "compare" in command("--help")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="noregret-smoke-") as folder:
        os.chdir(folder)
        for part in (files, live, simulated, commands):
            part()
            print(f"smoke: {part.__name__} works", flush=True)
        os.chdir("/")
    print("4 passed, 0 failed")


if __name__ == "__main__":
    main()
