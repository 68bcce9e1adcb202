"""The cache of compiled kernels: which entries of it are still good.

Numba keeps what it compiles in files, and drops them when the file that holds the function changes. That is too little,
since a kernel may call others from other files, and too much, since most edits do not concern it. Here an entry lives
as long as what the kernel was compiled from: the kernel's own code, the kernels, formulas and named tuples it reaches
by name, the values of the constants it reads, and the options. So an edit compiles anew exactly what can reach it. What
is called through a slot has an entry of its own.

What is known of Numba here: a dispatcher's `_cache`, the classes `FunctionCache` and `IndexDataCacheFile`, and what
they call `_index_key`, `_load_index`, `_source_stamp` and `_impl`.
"""

import functools
import hashlib
import inspect
import sys
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache

_FOREIGN = {"numba", "llvmlite", "numpy", *sys.stdlib_module_names}  # their versions are Numba's business


def _source(thing: Any) -> Any:
    """The Python function behind a kernel or a formula; None if there is none."""
    function = getattr(thing, "py_func", thing)
    return inspect.unwrap(function) if isinstance(function, FunctionType) else None


def _ours(module: str) -> bool:
    return module in sys.modules and module.split(".")[0] not in _FOREIGN


@functools.cache
def _file(module: str) -> str:
    """Digest of a module's source."""
    file = getattr(sys.modules[module], "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


def _module(value: Any) -> str:
    """Of a thing that has one."""
    return (value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)) or ""


@functools.cache
def _by_hand(module: str) -> list[str]:
    """Digests of a module that makes code by hand, with the help of Numba, and of those of that kind it builds on."""
    found, left = {}, [module]
    while left:
        one = left.pop()
        if one not in found:
            taken = {_module(value) for value in vars(sys.modules[one]).values()}
            found[one] = any(name.split(".")[0] == "numba" for name in taken)
            left += filter(_ours, taken) if found[one] else []
    return sorted(_file(one) for one, by_hand in found.items() if by_hand)


def _code(code: CodeType) -> tuple[Any, ...]:
    """What a function does, whatever its place in the file."""
    return code.co_name, code.co_code.hex(), [_shown(c) for c in code.co_consts], code.co_names, code.co_varnames


def _shown(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return _code(constant)
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)


def _names(code: CodeType) -> set[str]:
    """Every name that the code and the functions within it read."""
    inner = (_names(c) for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*inner)


@functools.cache
def _reads(function: FunctionType) -> tuple[str, tuple[Any, ...]]:
    """(what the function itself consists of, functions it names)."""
    names, own, others = _names(function.__code__), [repr(_code(function.__code__))], []
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    reached = [(name, function.__globals__[name]) for name in sorted(names & set(function.__globals__))]
    reached += [("", value) for value in (*cells, *(function.__defaults__ or ()))]
    while reached:
        name, value = reached.pop()
        if isinstance(value, ModuleType):
            if _ours(_module(value)):
                reached += [(f"{name}.{n}", getattr(value, n)) for n in sorted(names) if hasattr(value, n)]
        elif isinstance(value, tuple):
            reached += [(f"{name}[{i}]", part) for i, part in enumerate(value)]
        elif isinstance(value, np.ndarray):
            own.append(f"{name} {value.dtype} {value.shape} {value.tobytes().hex()}")
        elif isinstance(value, type) and hasattr(value, "_fields"):
            own.append(f"{name} {fields_of(value)}")
        elif isinstance(value, str | int | float | np.generic | types.Type):
            own.append(f"{name} {value!r}")
        elif _ours(_module(value)):
            if (source := _source(value)) is not None:
                others.append(source)
            else:
                own.append(f"{name} {getattr(value, 'protocol', None)} {_by_hand(_module(value))}")
    return hashlib.sha256("\n".join(own).encode()).hexdigest(), tuple(others)


def fields_of(kind: Any) -> str:
    """A named tuple's class: its name and those of its entries, in order."""
    return f"{kind.__module__}.{kind.__qualname__}{kind._fields}"


@functools.cache
def reached_by(function: Any) -> frozenset[Any]:
    """The Python functions that are compiled into a kernel, itself among them."""
    found, left = set(), [_source(function)]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += _reads(one)[1]
    return frozenset(found)


def stamp(function: Any) -> str:
    """What a kernel is compiled from, in a few letters: an entry of the cache with another stamp is not used."""
    parts = sorted(_reads(source)[0] for source in reached_by(function))
    return hashlib.sha256(repr((_by_hand(f"{__package__}.jit"), parts)).encode()).hexdigest()


def spelled(kind: Any) -> str:
    """A type in full, with the names of the entries of its named tuples: two that are spelled alike lie in memory
    alike."""
    if isinstance(kind, types.BaseNamedTuple):
        return f"{fields_of(kind.instance_class)}({', '.join(map(spelled, kind.types))})"
    if isinstance(kind, types.BaseTuple):
        return f"({', '.join(map(spelled, kind.types))})"
    return str(kind)


class _File(IndexDataCacheFile):  # type: ignore[misc]
    """A kernel's files in the cache. The stamp is made when it is first asked for, not where the kernel is defined."""

    def __init__(self, path: str, name: str, function: Any, options: Any) -> None:
        self._made_from = function, options
        super().__init__(path, name, None)

    @property
    def _source_stamp(self) -> Any:
        function, options = self._made_from
        return stamp(function), options

    @_source_stamp.setter
    def _source_stamp(self, value: Any) -> None:
        pass  # the superclass sets it

    def _load_index(self) -> Any:
        """An index that cannot be read is an empty one: it may name a class of another version of this package."""
        try:
            return super()._load_index()
        except Exception:
            return {}


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, with our stamps."""

    def __init__(self, function: Any, options: Any) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        if "<locals>" not in function.__qualname__:  # else the line, which Numba adds, tells apart what has one name
            version = "".join(map(str, sys.version_info[:2]))
            base = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}.py{version}"
        self._cache_file = _File(self._cache_path, base, function, options)

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return *super()._index_key(signature, codegen), ", ".join(map(spelled, signature))


class Cache:
    """A kernel's cache, made when it is first used: at an import nothing is looked up."""

    def __init__(self, function: Any, options: Any) -> None:
        self._function, self._options = function, repr(options)

    @functools.cached_property
    def _real(self) -> Any:
        try:
            return _KernelCache(self._function, self._options)
        except RuntimeError:  # defined at a prompt or by exec: there is no file to keep a cache beside
            return NullCache()

    def save_overload(self, signature: Any, made: Any) -> None:
        """What has no machine code of its own is not kept: it is in the entries of those that call it."""
        if not getattr(made.library, "waits", False):
            self._real.save_overload(signature, made)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def keep(dispatcher: Any, options: Any) -> None:
    """Give a dispatcher a cache. options: whatever else decides its code."""
    dispatcher._cache = Cache(dispatcher.py_func, options)


@functools.cache
def folder() -> Path:
    """Where the cache of this package's own kernels lies."""
    return Path(CompileResultCacheImpl(keep).locator.get_cache_path())
