"""The compiler's private points, and the cache: what a Numba release could break."""

import json
import operator
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

import noregret as nr
from noregret.compiler import inlining
from noregret.compiler.cache import spelled, stamp
from noregret.compiler.contexts import remembering
from noregret.compiler.jit import DISABLED, compiled, inlined, kernel
from noregret.compiler.slots import EMPTY, Heads, slot
from noregret.problem.links import apply_gradient
from noregret.simulation.engine import loop, roll_out

pytestmark = pytest.mark.skipif(DISABLED, reason="needs the compiler")
PACKAGE = Path(nr.__file__).parent


def test_allocation_in_a_kernel_does_not_compile():
    @kernel
    def greedy(z):
        z[0] = np.zeros(3)[0]

    with pytest.raises(Exception, match="Only accept returning of array"):
        greedy(np.ones(1))


BY_NAME = """
@kernel
def scaled(z, factor):
    for i in range(z.shape[0]):
        z[i] *= factor

@kernel
def scaled_twice(z):
    factor = 0
    scaled(z, 2)
    for i in range(3):
        factor += i
    scaled(z, factor)
"""  # in no file, so in no cache


def test_a_kernel_called_by_name_is_compiled_once_and_has_no_machine_code_of_its_own():
    """Whatever constants it is called with. Once its address is asked for it has, and callers link what they did."""
    exec(BY_NAME, made := {"kernel": kernel})
    scaled, scaled_twice, z = made["scaled"], made["scaled_twice"], np.ones(2)
    scaled_twice(z)
    assert z.tolist() == [6.0, 6.0]
    (code,) = (one.library for one in scaled.bare.overloads.values())
    assert code.waits
    assert not any(one.library.waits for one in scaled_twice.bare.overloads.values())
    linked = str(code._get_module_for_linking())
    scaled(z, 2)
    assert z.tolist() == [12.0, 12.0]
    assert not code.waits
    assert str(code._get_module_for_linking()) == linked


def test_threads_may_ask_for_the_address_of_one_kernel_at_once():
    """The thread that comes first makes the machine code, and the others find it."""
    together = threading.Barrier(4)
    exec(BY_NAME, made := {"kernel": kernel})

    def asked(_):
        together.wait()
        return compiled(made["scaled_twice"], (np.ones(2),))[1]

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(asked, range(4)))) == 1


def test_code_that_waits_is_finalized_once_where_two_threads_found_it_waiting():
    exec(BY_NAME, made := {"kernel": kernel})
    made["scaled_twice"](np.ones(2))
    ((code, name),) = ((one.library, one.fndesc.llvm_func_name) for one in made["scaled"].bare.overloads.values())
    with ThreadPoolExecutor(4) as pool:
        with global_compiler_lock:  # all of them ask before any may begin
            asked = [pool.submit(code.get_pointer_to_function, name) for _ in range(4)]
            time.sleep(0.2)
        assert len({one.result() for one in asked}) == 1


PASTED = """
@inlined
def larger(a, b):
    for i in range(2):
        if a < b:
            a = b
    return a

@inlined
def largest(a, b, c):
    low = larger(a, b)
    return larger(low, c)

@kernel
def both(z):
    low = 100.0  # names of the caller's are its own
    z[0] = largest(z[0], z[1], z[2]) + largest(z[1], z[2], z[3])
    z[1] = larger(z[2], low)

@kernel
def other(z):
    z[0] = largest(z[0], z[1], z[2])
"""


def test_what_is_pasted_is_read_once_and_stays_as_it_was_read(monkeypatch):
    read, count = {}, []
    monkeypatch.setattr(inlining, "_read", read)
    real = inlining.InlineWorker.run_untyped_passes
    monkeypatch.setattr(
        inlining.InlineWorker, "run_untyped_passes", lambda self, f, ssa: count.append(f.__name__) or real(self, f, ssa)
    )
    exec(PASTED, made := {"kernel": kernel, "inlined": inlined})
    z = np.array([1.0, 3.0, 2.0, 5.0])
    made["both"](z)
    assert z.tolist() == [3.0 + 5.0, 100.0, 2.0, 5.0]
    assert sorted(count) == ["larger", "largest"]
    lines = {f: [str(line) for block in code.blocks.values() for line in block.body] for f, code in read.items()}
    names = {f: set(next(iter(code.blocks.values())).scope.localvars._con) for f, code in read.items()}
    made["other"](z)
    assert z[0] == 100.0
    assert sorted(count) == ["larger", "largest"]
    for f, code in read.items():
        assert [str(line) for block in code.blocks.values() for line in block.body] == lines[f]
        assert set(next(iter(code.blocks.values())).scope.localvars._con) == names[f]


def test_errors_are_bold_again_after_a_kernel_was_compiled():
    exec(BY_NAME, made := {"kernel": kernel})
    before = str(numba.core.errors.TypingError("said"))
    made["scaled"](np.ones(2), 2)
    assert str(numba.core.errors.TypingError("said")) == before
    with inlining.plainly():
        assert str(numba.core.errors.TypingError("said")) == "said"


def test_what_callers_link_is_not_optimised_even_where_the_address_came_first():
    linked = []
    for early in (True, False):
        exec(BY_NAME, made := {"kernel": kernel})
        if early:
            made["scaled"](np.ones(2), 2)
        made["scaled_twice"](np.ones(2))
        (code,) = (one.library for one in made["scaled"].bare.overloads.values())
        linked.append(str(code._get_module_for_linking()).count("\n"))
    assert linked[0] == linked[1]


call_double = slot("double")
call_headed = slot("headed", heads=1)


@kernel
def double(z):
    for i in range(z.shape[0]):
        z[i] *= 2


@kernel
def doubled(where, z):
    call_double(where, (z,))


def test_a_slot_calls_its_kernel():
    z = np.ones(2)
    doubled(call_double.fill(double, z), z)
    assert z.tolist() == [2.0, 2.0]


def test_a_slot_called_with_other_types_says_so():
    where = call_double.fill(double, np.ones(1))
    for z in (np.ones(2, np.int64), np.ones((2, 2))[:, 0]):
        with pytest.raises(RuntimeError, match="slot 'double' is empty, or holds a kernel for other types"):
            doubled(where, z)
    other = slot("other").fill(double, np.ones(1))  # the same types under another name
    with pytest.raises(RuntimeError, match="slot 'double'"):
        doubled(other, np.ones(1))


def test_an_empty_slot_says_so_and_an_integer_is_none():
    with pytest.raises(RuntimeError, match="slot 'double' is empty"):
        doubled(EMPTY, np.ones(1))
    with pytest.raises(Exception, match="which is no slot"):
        doubled(0, np.ones(1))


def test_where_types_are_declared_another_call_does_not_compile():
    @kernel
    def wrong(link, z, count):
        apply_gradient(link, (z.T, count))

    with pytest.raises(Exception, match="declared for"):
        wrong(nr.MultinomialLogit().gradient_address(), np.ones((2, 3)), np.ones(2, np.int64))


def test_a_kernel_in_a_slot_returns_nothing():
    @kernel
    def returns(x):
        return x[0]

    with pytest.raises(TypeError, match="returns nothing"):
        call_double.fill(returns, np.ones(1))


@pytest.mark.parametrize("value", [1.5, 7, True])
def test_python_gets_the_number_that_a_kernel_returns(value):
    @kernel
    def back(x, flag):
        if flag:
            return x
        return x

    assert back(value, False) == value
    assert type(back(value, True)) is type(value)


def test_what_a_kernel_cannot_take_is_said():
    with pytest.raises(TypeError, match="a kernel takes arrays, numbers"):
        double(np.float32(1.0))


def test_operators_are_looked_up_once_and_numbas_own_are_left_alone():
    numbas = cpu_target.typing_context
    ours, code = remembering(numbas, cpu_target.target_context)
    for args in ((types.float64, types.int64), (types.int64, types.literal(2)), (types.boolean, types.boolean)):
        plain, made = numbas.resolve_value_type(operator.mul), ours.resolve_value_type(operator.mul)
        assert type(plain) is types.Function is not type(made)
        found = made.get_call_type(ours, args, {})
        assert found == plain.get_call_type(numbas, args, {})
        assert made.get_call_type(ours, args, {}) is found
    kind = code.get_value_type(types.float64[:, ::1])
    assert code.get_abi_sizeof(kind) == cpu_target.target_context.get_abi_sizeof(kind) == 72


def test_a_wrong_operation_is_refused_every_time_in_the_same_words():
    def wrong(z):
        z[0] = z << 1.0

    said = []
    for _ in range(2):
        with pytest.raises(numba.TypingError, match="lshift") as refused:
            kernel(wrong)(np.ones(2))
        said.append(str(refused.value).count("lshift"))
    assert said[0] == said[1]


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


call_sums = slot("sums")


@kernel
def passed_on(where, first, second, out):
    for i in range(4):  # other tuples at the same place of the code
        call_sums(where, (first if i % 2 == 0 else second, out[i]))
    made = Part(second.part.numbers, first.part.count)  # a tuple made here
    call_sums(where, (Whole(first.name, made, first.scale, first.table), out[4]))


def test_named_tuples_in_a_slot_are_read_where_they_are_used():
    g = np.random.default_rng(0)
    first, second = (Whole(i, Part(g.normal(size=5), 3 + i), 2.0 + i, g.normal(size=(5, 2))) for i in range(2))
    out = np.zeros((5, 5))
    passed_on(call_sums.fill(scaled_sums, first, out[0]), first, second, out)
    mixed = first._replace(part=Part(second.part.numbers, first.part.count))
    for i, whole in enumerate((first, second, first, second, mixed)):
        n, wanted = whole.part.count, np.zeros(5)
        wanted[:n] = (whole.scale * whole.part.numbers + whole.table[:, whole.name])[:n]
        np.testing.assert_allclose(out[i], wanted, rtol=1e-15)


@kernel
def through_heads(where, heads, out):
    call_headed(where, heads, (out,))


def test_heads_are_passed_without_their_types_and_laid_out_again_where_they_are_others():
    first = Whole(1, Part(np.arange(3.0), 3), 2.0, np.ones((3, 2)))
    second, out, lay = first._replace(scale=3.0), np.zeros(3), Heads()
    where = call_headed.fill(scaled_sums, first, out)
    for whole in (first, second, first):
        through_heads(where, lay(whole), out)
        assert out.tolist() == [1.0, 1.0 + whole.scale, 1.0 + 2.0 * whole.scale]
    copied = pickle.loads(pickle.dumps(lay))  # arrays elsewhere
    copied._laid[0].value.part.numbers[:] = 0.0
    through_heads(where, tuple(one.address for one in copied._laid), out)
    assert out.tolist() == [1.0, 1.0, 1.0]
    assert first.part.numbers[2] == 2.0


def test_an_error_in_a_slot_reaches_the_caller():
    world = nr.worlds.random_logit(3, 2, 2, 2)
    agent = nr.GLMORL(world.problem)
    agent.state.transitions.inverse[:] = -np.eye(2)  # no honest history leads here
    with pytest.raises(ValueError, match="positive definite"):
        agent.begin_episode(world.context(0, 0))


@pytest.mark.long
@pytest.mark.deep
def test_cache_is_hit_by_a_new_process_and_dies_with_an_edited_callee(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "noregret", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import noregret as nr; w = nr.worlds.random_logit(3, 2, 2, 2)\n"
        "r = nr.simulate(nr.UniformRandom(w.problem), w, 20)\n"
        "from noregret.simulation.engine import loop, roll_out\n"
        "hits = [sum(made.stats.cache_hits.values()) for made in (loop.bare, roll_out.bare)]\n"
        "import numpy as np; from noregret.problem.links import softmax_rows; z = np.zeros((1, 2))\n"
        "softmax_rows(z, np.array([2])); assert (z == 0.5).all()  # in a slot before, from Python now\n"
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
    assert "compiling uniform-random (once; kept for later runs): some seconds" in said
    assert re.search(r"compiling .* took \d+ s", said)
    assert "compiling" not in silent
    callee = tmp_path / "noregret" / "planning" / "bellman.py"  # inlined into kernels of other files
    callee.write_text(
        callee.read_text().replace("V[h, s] = r[s, a] + expectation", "V[h, s] = 0.5 * r[s, a] + expectation")
    )
    third, said = go()
    assert re.search(
        r"compiling the simulator for uniform-random \(once; kept for later runs\): about \d+ s here", said
    )
    assert third[:2] == ["1", "0"]  # what rolls out plans, the loop calls it through a slot
    assert third[2] != first[2]


@pytest.mark.long
@pytest.mark.deep
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


@pytest.mark.long
@pytest.mark.deep
def test_a_cache_written_by_another_version_is_ignored(tmp_path):
    """An index may name classes that no longer exist: that must not be the user's problem."""
    shutil.copytree(PACKAGE, tmp_path / "noregret", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import noregret as nr; w = nr.worlds.random_logit(3, 2, 2, 2); w.context(0, 0); print('fine')"
    env = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run = lambda: subprocess.run(  # noqa: E731
        [sys.executable, "-c", code], cwd=tmp_path, env=env,
        capture_output=True, text=True,
    )  # fmt: skip
    assert run().stdout == "fine\n"
    indices = list(tmp_path.rglob("*_fill_sphere*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(pickle.dumps(numba.__version__) + b"cno_such_module\nClass\n.")
    again = run()
    assert again.stdout == "fine\n", again.stderr


EDITS = {
    "words alone": ("planning/bellman.py", '"""', '"""Words. ', {}),
    "a callee in another file": ("planning/bellman.py", "V[h, s] = r[s, a] + expectation",
        "V[h, s] = 0.5 * r[s, a] + expectation", {"roll_out"}),
    "a constant of another file": ("numerics/linear_algebra.py", "REFRESH = 1000", "REFRESH = 999", {"learn"}),
    "another agent": ("agents/baselines/tabular/psrl.py", "def plan(par, state, work, x, k, out):",
        "def plan(par, state, work, x, k, out):\n    x[0] += 0.0", {"other"}),
    "who compiles": ("compiler/jit.py", '"""', '"""Words. ', {"loop", "plan", "learn", "roll_out", "other"}),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.deep
def test_an_edit_compiles_anew_exactly_what_can_reach_it(tmp_path):
    copy = tmp_path / "noregret"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import json, noregret as nr; from noregret.compiler.cache import stamp\n"
        "from noregret.simulation.engine import loop, roll_out\n"
        "from noregret.agents.baselines.tabular.psrl import PSRL\n"
        "kernels = {'loop': loop, 'roll_out': roll_out, 'plan': nr.GLMORL.plan_kernel, 'learn': nr.GLMORL.learn_kernel,"
        " 'other': PSRL.plan_kernel}\n"
        "print(json.dumps({name: stamp(kernel) for name, kernel in kernels.items()}))"
    )

    def stamps():
        env = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, check=True)
        return json.loads(done.stdout)

    before = stamps()
    assert stamps() == before
    ours = {"loop": loop, "roll_out": roll_out, "plan": nr.GLMORL.plan_kernel, "learn": nr.GLMORL.learn_kernel}
    assert {name: stamp(kernel) for name, kernel in ours.items()} == {name: before[name] for name in ours}  # shared
    for what, (file, old, new, changed) in EDITS.items():
        text = (copy / file).read_text()
        assert old in text, what
        (copy / file).write_text(text.replace(old, new, 1))
        after = stamps()
        assert {name for name in before if after[name] != before[name]} == set(changed), what
        (copy / file).write_text(text)


def test_a_type_is_spelled_with_the_names_of_its_entries():
    """Else entries that change places would be read at each other's."""
    kind = numba.typeof(Whole(1, Part(np.ones(2), 3), 2.0, np.ones((2, 2))))
    assert "('name', 'part', 'scale', 'table')" in spelled(kind)
    assert "('numbers', 'count')" in spelled(kind)
