"""The compiler's private points, and the cache: what a Numba release could break."""

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import noregret as nr
from noregret._jit import DISABLED, WITHOUT_KERNELS, address, invoke, kernel, reference
from noregret.links import apply_gradient

pytestmark = pytest.mark.skipif(DISABLED, reason="needs the compiler")
PACKAGE = Path(nr.__file__).parent


def test_allocation_in_a_kernel_does_not_compile():
    @kernel
    def greedy(z):
        z[0] = np.zeros(3)[0]

    with pytest.raises(Exception, match="Only accept returning of array"):
        greedy(np.ones(1))


def test_a_call_by_address_with_other_types_does_not_compile():
    @kernel
    def wrong(link, z, count):
        apply_gradient(link, (z.T, count))

    with pytest.raises(Exception, match="declared for"):
        wrong(nr.MultinomialLogit().gradient_address(), np.ones((2, 3)), np.ones(2, np.int64))


def test_a_kernel_called_by_address_returns_nothing():
    @kernel
    def returns(x):
        return x[0]

    with pytest.raises(TypeError, match="returns nothing"):
        address(returns, np.ones(1))


class Part(NamedTuple):
    numbers: np.ndarray
    count: int


class Whole(NamedTuple):
    name: int
    part: Part
    scale: float
    table: np.ndarray


@kernel
def scaled_sums(whole, out):
    part = whole.part
    for i in range(part.count):
        out[i] = whole.scale * part.numbers[i] + whole.table[i, whole.name]


@kernel
def passed_on(where, first, second, out):
    for i in range(4):  # other tuples at the same place of the code
        invoke(where, (first if i % 2 == 0 else second, out[i]))
    kept = reference(first)
    invoke(where, (kept, out[4]))
    invoke(where, (kept, out[5]))


def test_named_tuples_behind_an_address_are_read_where_they_are_used():
    g = np.random.default_rng(0)
    first, second = (Whole(i, Part(g.normal(size=5), 3 + i), 2.0 + i, g.normal(size=(5, 2))) for i in range(2))
    out = np.zeros((6, 5))
    passed_on(address(scaled_sums, first, out[0]), first, second, out)
    for i, whole in enumerate((first, second, first, second, first, first)):
        n, wanted = whole.part.count, np.zeros(5)
        wanted[:n] = (whole.scale * whole.part.numbers + whole.table[:, whole.name])[:n]
        np.testing.assert_allclose(out[i], wanted, rtol=1e-15)


def test_an_error_behind_an_address_reaches_the_caller():
    world = nr.worlds.random_logit(3, 2, 2, 2)
    agent = nr.GLMORL(world.problem)
    agent.state.transitions.inverse[:] = -np.eye(2)  # no honest history leads here
    with pytest.raises(ValueError, match="positive definite"):
        agent.begin_episode(world.context(0, 0))


def test_cache_is_hit_by_a_new_process_and_dies_with_any_edited_file(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "noregret", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import noregret as nr; w = nr.worlds.random_logit(3, 2, 2, 2)\n"
        "r = nr.simulate(nr.UniformRandom(w.problem), w, 20)\n"
        "from noregret.simulation.engine import loop, roll_out\n"
        "hits = [sum(made.stats.cache_hits.values()) for made in (loop.entered, roll_out.bare)]\n"
        "import numpy as np; from noregret.links import softmax_rows; z = np.zeros((1, 2))\n"
        "softmax_rows(z, np.array([2])); assert (z == 0.5).all()  # by address before, from Python now\n"
        "print(*hits, repr(r.regret[0, -1]))"
    )

    def go():
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
        env.pop("NOREGRET_QUIET", None)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.split(), done.stderr

    first, said = go()
    second, silent = go()
    assert first[:2] == ["0", "0"]
    assert second[:2] == ["1", "1"]
    assert first[2] == second[2]
    assert "compiling uniform-random (once; kept for later runs)" in said
    assert "compiling" not in silent
    callee = tmp_path / "noregret" / "planning.py"  # inlined into kernels of other files
    callee.write_text(
        callee.read_text().replace("V[h, s] = r[s, a] + expectation", "V[h, s] = 0.5 * r[s, a] + expectation")
    )
    third, _ = go()
    assert third[:2] == ["0", "0"]
    assert third[2] != first[2]


def test_plain_python_agrees_with_the_compiled_code(tmp_path):
    code = (
        "import sys, noregret as nr, numpy as np; w = nr.worlds.random_logit(3, 2, 2, 2)\n"
        "r = nr.simulate(nr.GLMORL(w.problem, bonus_scale=0.1), w, 30); np.save(sys.argv[1], r.regret)"
    )
    curves = []
    for off in ("0", "1"):
        file = tmp_path / f"{off}.npy"
        env = os.environ | {"NUMBA_DISABLE_JIT": off}
        subprocess.run([sys.executable, "-c", code, str(file)], env=env, check=True, capture_output=True)
        curves.append(np.load(file))
    assert np.allclose(*curves, rtol=0, atol=1e-9)


def test_a_cache_written_by_another_version_is_ignored(tmp_path):
    """An index may name classes that no longer exist: that must not be the user's problem."""
    shutil.copytree(PACKAGE, tmp_path / "noregret", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import noregret as nr; w = nr.worlds.random_logit(3, 2, 2, 2); w.context(0, 0); print('fine')"
    run = lambda: subprocess.run(  # noqa: E731
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run().stdout == "fine\n"
    indices = list(tmp_path.rglob("*_fill_sphere*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(pickle.dumps(numba.__version__) + b"cno_such_module\nClass\n.")
    again = run()
    assert again.stdout == "fine\n", again.stderr


def test_what_the_stamp_leaves_out_has_no_kernels():
    """Else a changed kernel there would go on running as it was compiled before."""
    left = [PACKAGE / name for name in WITHOUT_KERNELS]
    files = [file for path in left for file in (path.rglob("*.py") if path.is_dir() else [path])]
    assert len(files) > 10
    for file in files:
        text = file.read_text()
        assert not re.search(r"@(kernel|inlined|strict|formula|njit)|import .*\bkernel\b", text), file
