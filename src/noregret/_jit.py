"""How kernels are compiled, cached and called by address: the module that, with `_reference`, knows Numba's internals.

A *kernel* works on arrays its caller owns: it allocates nothing, returns nothing (or one number) and releases
the GIL. `_nrt=False` makes the compiler enforce the first point and drops the reference counts, about a third of
the time at small sizes. Eight private points of Numba are used, in these two: the options `_nrt` and
`no_cpython_wrapper`, the cache file's `_source_stamp` and `_load_index`, the `entry_point` of a compiled function, the
array structure behind `merged`, the calling convention behind `caller`, and how named tuples lie in memory
(`_reference`).
`tests/test_jit.py` fails if a Numba release moves one.

Kernels reach each other in two ways. Inside a module they call each other by name and are inlined. Across the
seams (agent <-> engine, estimator <-> link) they go by address, so that one compiled loop serves every agent and
one compiled estimator every link. So nearly all of them are called by kernels only, and what takes an agent's hundred
arrays out of their Python objects, often half of the compiler's work, is made where Python calls (`Kernel`, `direct`).

Under NUMBA_DISABLE_JIT=1 everything runs as plain Python: pdb and coverage work; sums are then added in order, so
results agree with the compiled ones to rounding, not to the bit.
"""

import functools
import inspect
import math
import struct
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
from numba import config, njit, typeof, types
from numba.core import cgutils, errors
from numba.extending import intrinsic, overload, register_jitable
from numba.np.arrayobj import make_array, populate_array

from ._checks import shown
from ._reference import passed

F = TypeVar("F", bound=Callable[..., Any])
DISABLED = bool(config.DISABLE_JIT)

# Not the full "fast": nan and inf must keep their meaning, and the exponential's rounding trick must survive.
_RELAXED = {"reassoc", "contract", "nsz", "arcp"}

_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


# Changing these compiles nothing anew
WITHOUT_KERNELS = {
    "cli", "gym", "studies", "report", "live",
    "figures.py", "claims.py", "_announce.py", "_checks.py", "_files.py", "_sealed.py", "_spreadsheets.py",
    "_threads.py", "problem.py", "agents/files.py", "agents/own.py", "agents/practice.py",
    "agents/promise.py", "agents/shared.py", "agents/trusted.py",
    "simulation/checkpoint.py", "simulation/run.py", "worlds/bandit.py", "worlds/blind.py",
    "worlds/hard.py", "worlds/random_worlds.py", "worlds/sparse.py", "worlds/tilt.py",
}  # fmt: skip


def _package_stamp() -> tuple[Any, ...]:
    """Identity of every source file of the package that may hold kernels, and of the compiler flags.

    Numba invalidates a cached function when *its own* file changes, not when a callee in another file does, and it
    ignores the flags. Every kernel therefore carries this stamp."""
    here = Path(__file__).parent
    found = [
        p for p in here.rglob("*.py")
        if not {p.relative_to(here).parts[0], p.relative_to(here).as_posix()} & WITHOUT_KERNELS
    ]  # fmt: skip
    files = sorted((str(p.relative_to(here)), p.stat().st_mtime_ns, p.stat().st_size) for p in found)
    checked = bool(config.BOUNDSCHECK)  # code with and without bounds checks must not share a cache
    return (tuple(files), repr(sorted(_OPTIONS.items())), repr(sorted(_RELAXED)), checked)


_STAMP = _package_stamp()


def _compile(function: Any, fastmath: Any, inline: str = "never", bare: bool = False) -> Any:
    # Every option is stated: one left out would be inherited from whichever caller compiles first.
    options = {"fastmath": fastmath, "inline": inline, "no_cpython_wrapper": bare, **_OPTIONS}
    try:
        made: Any = njit(function, cache=True, **options)
    except RuntimeError:  # defined at a prompt or by exec: there is no file to keep a cache beside
        return njit(function, cache=False, **options)
    file = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if file is not None:
        file._source_stamp = (file._source_stamp, _STAMP)
        file._load_index = _forgiving(file._load_index)
    return made


def _forgiving(load: Callable[[], Any]) -> Callable[[], Any]:
    """An index that cannot be read is an empty one: it may name a class of another version of this package."""

    def attempt() -> Any:
        try:
            return load()
        except Exception:
            return {}

    return attempt


class Kernel:
    """A kernel: to other kernels a function without an entrance from Python, which is compiled when Python calls it."""

    def __init__(self, function: Any, fastmath: Any) -> None:
        self.py_func, self._fastmath, self._entered = function, fastmath, None
        self.bare = _compile(function, fastmath, bare=True)
        self._numba_type_ = typeof(self.bare)  # what a kernel that names this one sees
        functools.update_wrapper(self, function)

    @property
    def entered(self) -> Any:
        """The same, compiled with an entrance."""
        if self._entered is None:
            f = self.py_func
            twin = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
            twin.__module__, twin.__qualname__ = f.__module__, f"{f.__qualname__}_entered"  # a cache file of its own
            self._entered = _compile(twin, self._fastmath)
        return self._entered

    def __call__(self, *args: Any) -> Any:
        return self.entered(*args)

    def __reduce__(self) -> Any:
        return Kernel, (self.py_func, self._fastmath)


def _kernel(function: Any, fastmath: Any) -> Any:
    return function if DISABLED else Kernel(function, fastmath)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel: plain loops over arrays that the caller owns.

    It must allocate nothing (the compiler refuses) and returns nothing or one number. Sums may be reordered; nan and
    inf keep their meaning. For the gradient of a `Link`; under NUMBA_DISABLE_JIT=1 it is the function itself.

    >>> import numpy as np
    >>> import noregret as nr
    >>> @nr.kernel
    ... def running_sum(z):
    ...     for i in range(1, z.shape[0]):
    ...         z[i] += z[i - 1]
    >>> z = np.array([1.0, 2.0, 3.0])
    >>> running_sum(z)  # in place: a kernel returns nothing, or one number
    >>> z
    array([1., 3., 6.])
    """
    return _kernel(function, _RELAXED)


def inlined(function: Callable[..., Any]) -> Any:
    """A small relaxed kernel that is pasted into its callers: where a call per (s, a) would cost several times its
    body."""
    return _compile(function, _RELAXED, inline="always")


def entrance(function: Callable[..., Any]) -> Any:
    """What Python calls in a kernel's place: it calls the kernel by address, and does what must happen in the same
    breath (`behind`)."""
    return function if DISABLED else _compile(function, _RELAXED)


def strict(function: Callable[..., Any]) -> Any:
    """Compile with IEEE semantics: random numbers, exp, whatever must come out the same everywhere."""
    return _kernel(function, False)


def formula(function: F) -> F:
    """A scalar formula: a Python function for people, `answering` with a sentence where it has no value, and inside
    kernels, which may call it as well, the bare arithmetic."""
    made = answering(function)
    if not DISABLED:
        register_jitable(function)
        overload(made, strict=False)(lambda *args, **options: function)
    return made


def answering(function: F) -> F:
    """`function`, with one sentence where its arguments lead to no number: a division by zero, the logarithm of what is
    not positive, an overflow, text, nan."""

    @functools.wraps(function)
    def asked(*args: Any, **options: Any) -> Any:
        given = (*args, *options.values())
        kinds = (getattr(getattr(value, "dtype", None), "kind", "") for value in given)
        if not any(isinstance(value, complex) for value in given) and "c" not in kinds:
            try:
                with np.errstate(divide="raise", over="raise", invalid="raise"):
                    made = function(*args, **options)
                if not isinstance(made, complex) and not (isinstance(made, float) and math.isnan(made)):
                    return made
            except (ArithmeticError, TypeError, ValueError, AttributeError, LookupError) as error:
                if type(error) is ValueError and str(error).split(" ")[0] in inspect.signature(function).parameters:
                    raise  # a sentence already, about an argument of this function
        names = inspect.signature(function).bind(*args, **options).arguments  # a TypeError where they do not fit at all
        said = ", ".join(f"{name} = {shown(value)}" for name, value in names.items())
        raise ValueError(f"{function.__name__} has no value at {said}")

    return asked  # type: ignore[return-value]


if DISABLED:

    def reference(value: Any) -> Any:
        return value

    def address(function: Any, *args: Any) -> Any:
        return function

    def direct(function: Any, *args: Any) -> Any:
        return function

    def behind(through: Any, function: Any, args: Any, *rest: Any) -> Any:
        return lambda args, *rest: through(function, args, *rest)

    def caller(*fixed: Any) -> Any:
        return lambda function, args: function(*args)

    def merged(array: Any) -> Any:
        return array.reshape(-1, *array.shape[2:])

    def bits(x: float) -> int:
        return int(struct.unpack("<q", struct.pack("<d", x))[0])

    def from_bits(n: int) -> float:
        return float(struct.unpack("<d", struct.pack("<Q", n & 0xFFFFFFFFFFFFFFFF))[0])

else:
    _made: dict[Any, Any] = {}

    def _kind(value: Any) -> Any:
        """What decides the compiler's type of a value; asking for the type itself takes a hundred times as long."""
        if isinstance(value, tuple):
            return type(value), *map(_kind, value)
        if isinstance(value, np.ndarray):
            return value.dtype, value.ndim, value.flags.num  # orders, whether writeable and aligned; who owns it
        return (int, value.bit_length() > 63) if type(value) is int else type(value)

    @intrinsic
    def reference(typing: Any, value: Any) -> Any:
        """A named tuple as a `Reference`, to pass on to kernels that are called by address."""

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return cgutils.alloca_once_value(builder, values[0])

        return passed(value)(value), generate

    def _compiled(function: Any, args: Any, by_address: bool = False) -> Any:
        """(what is compiled of `function` for the types of `args`, its address); asked for again, both are looked up by
        what decides the types."""
        key = function, by_address, _kind(args)
        if key not in _made:
            signature = tuple(passed(typeof(a)) if by_address else typeof(a) for a in args)
            dispatcher = function.bare if isinstance(function, Kernel) else function
            dispatcher.compile(signature)
            made = dispatcher.overloads[signature]
            _made[key] = made, int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
        return _made[key]

    def address(function: Any, *args: Any) -> Any:
        """Address of `function` compiled for the types of `args`, from the cache where it is there."""
        made, where = _compiled(function, args, by_address=True)
        if made.signature.return_type != types.none:
            raise TypeError(f"{function.__name__}: a kernel called by address returns nothing")
        return where

    def direct(function: Any, *args: Any) -> Any:
        """`function` compiled for the types of `args`, as a callable that no longer looks at them.

        The dispatcher spends about 8 us on the types of an agent's forty arrays; this skips it. Call it with the same
        types only."""
        made, where = _compiled(function, args, by_address=True)
        if made.signature.return_type != types.none:
            return _compiled(function.entered, args)[0].entry_point
        enter = _compiled(_enter, (where, args))[0].entry_point
        return lambda *args: enter(where, args)

    def behind(through: Any, function: Any, args: Any, *rest: Any) -> Any:
        """The kernel `function` behind an `entrance`, both compiled for the types of args and rest: a callable
        (args, *rest) that runs through(address of the kernel, args, *rest). Call it with the same types only."""
        where = address(function, *args)
        enter = _compiled(through, (where, args, *rest))[0].entry_point
        return lambda args, *rest: enter(where, args, *rest)

    def caller(*fixed: Any) -> Any:
        """`call(address, (a, b, ...))`: call a kernel by its address; what it raises is raised here.

        Nothing can be checked behind an address, and a wrong type there corrupts memory. Where outsiders bring
        kernels (links) the argument types are `fixed` and any other call does not compile; the engine, without
        `fixed`, compiles both ends from the same objects."""

        @intrinsic
        def call(typing: Any, where: Any, args: Any) -> Any:
            if fixed and tuple(args.types) != fixed:
                raise errors.TypingError(f"called with {args.types}, declared for {fixed}")

            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                given, kinds = signature.args[1].types, [passed(kind) for kind in signature.args[1].types]
                pointer = context.call_conv.get_function_type(types.none, kinds).as_pointer()
                target = builder.inttoptr(values[0], pointer)
                unpacked = [
                    value if kind == passed else cgutils.alloca_once_value(builder, value)
                    for value, kind, passed in zip(cgutils.unpack_tuple(builder, values[1]), given, kinds, strict=True)
                ]
                status, _ = context.call_conv.call_function(builder, target, types.none, kinds, unpacked)
                with cgutils.if_unlikely(builder, status.is_error):
                    context.call_conv.return_status_propagate(builder, status)
                return context.get_dummy_value()

            return types.none(where, args), generate

        return call

    @intrinsic
    def merged(typing: Any, array: Any) -> Any:
        """A C-ordered array [a, b, ...] seen as [a b, ...]. Free, where `reshape` is a call of about 25 ns."""
        if not isinstance(array, types.Array) or array.layout != "C" or array.ndim < 2:
            raise errors.TypingError(f"merged takes a C-ordered array of two axes or more, got {array}")
        result = array.copy(ndim=array.ndim - 1)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            source = make_array(signature.args[0])(context, builder, values[0])
            target = make_array(signature.return_type)(context, builder)
            shape = cgutils.unpack_tuple(builder, source.shape)
            populate_array(
                target,
                data=source.data,
                shape=[builder.mul(shape[0], shape[1]), *shape[2:]],
                strides=cgutils.unpack_tuple(builder, source.strides)[1:],
                itemsize=source.itemsize,
                meminfo=source.meminfo,
                parent=source.parent,
            )
            return target._getvalue()

        return result(array), generate

    @intrinsic
    def bits(typing: Any, x: Any) -> Any:
        return types.int64(types.float64), lambda c, b, s, v: b.bitcast(v[0], c.get_value_type(types.int64))

    @intrinsic
    def from_bits(typing: Any, n: Any) -> Any:
        return types.float64(types.int64), lambda c, b, s, v: b.bitcast(v[0], c.get_value_type(types.float64))


invoke = caller()  # for the engine only


def _through(where, args):
    invoke(where, args)


_enter = None if DISABLED else _compile(_through, _RELAXED)
