"""How kernels are compiled, cached and called by address: the module that, with `compiler.references`, knows Numba's
internals.

A *kernel* works on arrays its caller owns: it allocates nothing, returns nothing (or one number) and releases
the GIL. `_nrt=False` makes the compiler enforce the first point and drops the reference counts, about a third of
the time at small sizes.

Inside a module kernels call each other by name. Across the seams (engine -> agent, agent -> planner, estimator -> link)
they are called through slots (`compiler.slots`), so that one compiled loop serves every agent. Python calls a kernel
through a small entrance that is handed one address: named tuples are laid out in memory by Python
(`compiler.references`), so that no code is compiled that takes them apart.

Private points of Numba that the room uses: the options `_nrt` and `no_cpython_wrapper`, `get_call_template`, the
cache's index and key (`compiler.cache`), libraries of code (`compiler.library`), contexts (`compiler.contexts`), the
calling convention, the structure of arrays, and how named tuples lie in memory (`compiler.references`).
`tests/test_jit.py` fails if a release moves one.

Under NUMBA_DISABLE_JIT=1 everything runs as plain Python: pdb and coverage work; sums are then added in order, so
results agree with the compiled ones to rounding, not to the bit.
"""

import functools
import gc
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numba import config, njit, typeof, types
from numba.core import cgutils, errors
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic, overload, register_jitable
from numba.np.arrayobj import make_array, populate_array

from ..checks import or_a_sentence
from .cache import keep
from .inlining import plainly
from .library import KernelCompiler
from .references import Laid, Reference, by_reference, entry, passed, size

F = TypeVar("F", bound=Callable[..., Any])
DISABLED = bool(config.DISABLE_JIT)

# Not the full "fast": nan and inf must keep their meaning, and the exponential's rounding trick must survive.
# Types of what kernels of links are called with
NUMBER, VECTOR, ROWS = types.float64, types.float64[::1], types.float64[:, ::1]
COUNTS = types.int64[::1]

_RELAXED = {"reassoc", "contract", "nsz", "arcp"}


@contextmanager
def no_collection() -> Iterator[None]:
    """While something is compiled Python looks for no garbage: that would take a tenth of the time."""
    was = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was:
            gc.enable()


_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


def _compile(function: Any, fastmath: Any, inline: str = "never", bare: bool = False) -> Any:
    # Every option is stated: one left out would be inherited from whichever caller compiles first.
    options = {"fastmath": fastmath, "inline": inline, "no_cpython_wrapper": bare, **_OPTIONS}
    made: Any = njit(function, pipeline_class=KernelCompiler, **options)
    if not DISABLED:
        made.get_call_template = functools.partial(_for_any_number, made.get_call_template)
        told = sorted(fastmath) if fastmath else fastmath  # the order of a set differs between processes
        keep(made, (sorted((options | {"fastmath": told}).items()), bool(config.BOUNDSCHECK)))
    return made


def _for_any_number(template: Any, args: Any, kws: Any) -> Any:
    """How Numba is to call a kernel. Left alone, it compiles one for every constant that it is called with, and for the
    first values of variables as well."""
    return template(tuple(types.unliteral(one) for one in args), kws)


class Kernel:
    """A kernel: to other kernels a function they may call by name, to Python one that is compiled at its first call."""

    def __init__(self, function: Any, fastmath: Any) -> None:
        self.py_func, self._fastmath = function, fastmath
        self.bare = _compile(function, fastmath, bare=True)
        self._numba_type_ = typeof(self.bare)  # what a kernel that names this one sees
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        return _direct(self, args)(*args)

    def __reduce__(self) -> str:  # copied as functions are, which is not at all, and pickled by its name
        return self.__qualname__  # type: ignore[attr-defined, no-any-return]


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


class _Entrance:
    def __init__(self, function: Any) -> None:
        self.py_func = function
        self._enter: Any = None
        self._dispatcher = _compile(function, _RELAXED)

    def __call__(self, *args: Any) -> Any:
        if self._enter is None:
            self._enter = _made_for(self._dispatcher, tuple(map(typeof, args)))[0].entry_point
        return self._enter(*args)


def entrance(function: Callable[..., Any]) -> Any:
    """A kernel for Python alone, with the same types at every call: compiled code takes the arguments out of their
    objects, which is faster and takes longer to compile. For what is called for every individual (`agents.commit`)."""
    return function if DISABLED else _Entrance(function)


def strict(function: Callable[..., Any]) -> Any:
    """Compile with IEEE semantics: random numbers, exp, whatever must come out the same everywhere."""
    return _kernel(function, False)


def formula(function: F) -> F:
    """A scalar formula: a Python function for people, with a sentence where it has no value (`checks`), and inside
    kernels, which may call it as well, the bare arithmetic."""
    made = or_a_sentence(function)
    if not DISABLED:
        register_jitable(function)
        overload(made, strict=False)(lambda *args, **options: function)
    return made


if DISABLED:

    def direct(function: Any, *args: Any) -> Any:
        return function

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

    def compiled(function: Any, args: Any) -> Any:
        """(what is compiled of a kernel for the types of `args`, its address), from the cache where it is there; named
        tuples are passed by reference. Asked for again, both are looked up by what decides the types."""
        key = function, _kind(args)
        if key not in _made:
            _made[key] = _made_for(getattr(function, "bare", function), tuple(passed(typeof(value)) for value in args))
        return _made[key]

    def _made_for(dispatcher: Any, signature: Any) -> Any:
        """One thread compiles, optimises and saves; others find it done."""
        with global_compiler_lock, no_collection(), plainly():
            dispatcher.compile(signature)
            made = dispatcher.overloads[signature]
            waited = getattr(made.library, "waits", False)
            where = int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
            if waited:
                dispatcher._cache.save_overload(signature, made)
        return made, where

    def call_at(context: Any, builder: Any, where: Any, returns: Any, kinds: Any, values: Any) -> Any:
        """Code for a call of the kernel at an address; what it raises is raised here."""
        pointer = context.call_conv.get_function_type(returns, kinds).as_pointer()
        target = builder.inttoptr(where, pointer)
        status, made = context.call_conv.call_function(builder, target, returns, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value() if returns == types.none else made

    @intrinsic
    def _spread(typing: Any, where: Any, args: Any, returns: Any) -> Any:
        """Call the kernel at `where` with the entries of a tuple that lies in memory."""

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            to = signature.args[1].to
            each = [entry(context, builder, to, values[1], i) for i in range(len(to.types))]
            return call_at(context, builder, values[0], signature.return_type, to.types, each)

        return returns(where, args, returns), generate

    def _through(where, args, returns):
        return _spread(where, args, returns)

    _enter = _compile(_through, _RELAXED)
    _directs: dict[Any, Any] = {}

    def _zero(kind: Any) -> Any:
        """A value of a type that a kernel returns: by it an entrance knows what to give back."""
        if isinstance(kind, types.BaseTuple):
            return tuple(_zero(one) for one in kind)
        return None if kind == types.none else {types.float64: 0.0, types.boolean: False}.get(kind, 0)

    class _Direct:
        """A kernel compiled for some types, to be called from Python with these types only."""

        def __init__(self, function: Any, args: Any) -> None:
            kinds = [passed(typeof(value)) for value in args]
            for kind in kinds:
                size(kind)  # says so where one is not taken
            made, self.where = compiled(function, args)
            returns = made.signature.return_type
            self.zero = _zero(returns)
            self.enter = _made_for(_enter, (types.int64, Reference(types.Tuple(kinds)), returns))[0].entry_point

        def __call__(self, *args: Any) -> Any:
            block = Laid([Laid(value) if by_reference(value) else value for value in args])
            return self.enter(self.where, block.address, self.zero)

    def _direct(function: Any, args: Any) -> Any:
        key = function, _kind(args)
        if key not in _directs:
            _directs[key] = _Direct(function, args)
        return _directs[key]

    class _Keeping:
        """Likewise, and it keeps the last named tuples laid out: most calls bring the same."""

        def __init__(self, function: Any, args: Any) -> None:
            same = _direct(function, args)
            self.where, self.zero, self.enter = same.where, same.zero, same.enter
            self.kept = tuple(Laid(value) if by_reference(value) else None for value in args)

        def __call__(self, *args: Any) -> Any:
            kept = self.kept
            each: Any = tuple(
                old if old is None or old.value is value else Laid(value) for old, value in zip(kept, args, strict=True)
            )
            self.kept = each
            block = Laid([value if old is None else old for old, value in zip(each, args, strict=True)])
            return self.enter(self.where, block.address, self.zero)

    def direct(function: Any, *args: Any) -> Any:
        """`function` compiled for the types of `args`, as a callable that no longer looks at them: call it with
        the same types only."""
        return _Keeping(function, args)

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
