"""Named tuples by reference, for kernels that are called through slots, and how Python lays one out in memory.

By value every call would copy an agent's hundred arrays, seven numbers each, and a call from Python would first have to
take them out of their objects, in code that is compiled for every kind of agent. So `laid` writes the numbers, and
where the arrays lie, into one block of memory, and kernels get its address.

In such a block everything takes whole words of eight bytes: a number one, an array of n axes 5 + 2n (what Numba calls
meminfo, parent, nitems, itemsize, data, shape, strides), a tuple the words of its entries, one after the other.

What is known of Numba here: the order of these words (its data model of arrays and tuples), and how a type of one's own
is read in kernels.
"""

import functools
import hashlib
import struct
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, lower_getattr_generic, models, register_model, unbox

from .cache import spelled

NUMBERS = (types.int64, types.uint64, types.float64, types.boolean)
TAKEN = "arrays, numbers (float64, int64, uint64, and bool outside tuples), and tuples of these"


class Reference(types.Type):  # type: ignore[misc]
    """A tuple that lies in memory: entries are read where they are used, entries that are named tuples are references
    again, unless they hold numbers alone.

    What is behind a reference does not change while a call lasts; the compiler is told so. The function that made it
    must not read through it, only pass it on. The name is short, since it becomes part of the name of every function
    that takes one."""

    def __init__(self, to: Any) -> None:
        self.to = to
        super().__init__(name=f"Reference({getattr(to, 'instance_class', tuple).__name__}, {_digest(to)})")


@functools.cache
def _digest(kind: Any) -> str:
    return hashlib.sha256(spelled(kind).encode()).hexdigest()[:16]


def passed(kind: Any) -> Any:
    """The type that a kernel called through a slot sees."""
    kind = types.unliteral(kind)
    return Reference(kind) if _refers(kind) else kind


def _refers(kind: Any) -> bool:
    return isinstance(kind, types.BaseNamedTuple) and not all(one in NUMBERS for one in kind.types)


def by_reference(value: Any) -> bool:
    """Whether Python passes a value by reference: a named tuple is, unless it holds numbers alone."""
    return hasattr(value, "_fields") and any(isinstance(part, np.ndarray | tuple) for part in value)


@functools.cache
def size(kind: Any) -> int:
    """Words that a value of a type takes."""
    if kind in NUMBERS or isinstance(kind, Reference):
        return 1
    if isinstance(kind, types.Array):
        return 5 + 2 * int(kind.ndim)
    if isinstance(kind, types.BaseTuple) and types.boolean not in kind.types:  # Numba would put two into one word
        return sum(map(size, kind.types))
    raise TypeError(f"a kernel takes {TAKEN}, got {kind}")


# In kernels -----------------------------------------------------------------------------------------------------------
@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


@infer_getattr
class _ReferenceEntries(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:
        if name in reference.to.fields:
            return passed(reference.to.types[reference.to.fields.index(name)])
        return None


@lower_getattr_generic(Reference)
def _entry(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    return entry(context, builder, reference.to, value, reference.to.fields.index(name))


def entry(context: Any, builder: Any, to: Any, value: Any, place: int) -> Any:
    """The entry at `place` of the tuple of type `to` that lies at `value`; a named tuple stays where it is."""
    kind, word = to.types[place], sum(map(size, to.types[:place]))
    where = builder.gep(value, [ir.Constant(ir.IntType(64), word)], inbounds=True)
    if _refers(kind):
        return where
    return _read(builder, builder.bitcast(where, context.get_value_type(kind).as_pointer()))


def _read(builder: Any, where: Any) -> Any:
    """What is in memory, number by number: of an array most are never used."""
    kind = where.type.pointee
    if not hasattr(kind, "elements") and not hasattr(kind, "count"):
        value = builder.load(where)
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value
    made = ir.Constant(kind, ir.Undefined)
    for i in range(len(kind.elements) if hasattr(kind, "elements") else kind.count):
        made = builder.insert_value(made, _read(builder, cgutils.gep_inbounds(builder, where, 0, i)), i)
    return made


def referred(builder: Any, value: Any) -> Any:
    """A named tuple at hand as a reference."""
    return builder.bitcast(cgutils.alloca_once_value(builder, value), ir.IntType(64).as_pointer())


@unbox(Reference)
def _from_python(kind: Any, address: Any, c: Any) -> Any:
    """Python hands over an address, as an integer (`laid`)."""
    pointer = c.pyapi.long_as_voidptr(address)
    return NativeValue(c.builder.bitcast(pointer, ir.IntType(64).as_pointer()))


# In Python ------------------------------------------------------------------------------------------------------------
class Laid:
    """A tuple of arrays and numbers, laid out in memory as kernels read it: valid as long as this object lives."""

    __slots__ = ("_kept", "address", "value")

    def __init__(self, value: Any) -> None:
        form: list[str] = ["="]
        numbers: list[Any] = []
        for part in value:
            _append(part, form, numbers)
        block = np.empty(max(len(numbers), 1), np.int64)
        struct.pack_into("".join(form), block.data, 0, *numbers)
        self.value, self._kept, self.address = value, block, int(block.__array_interface__["data"][0])

    def __reduce__(self) -> Any:  # a copy of the tuple has arrays elsewhere
        return Laid, (self.value,)


def _append(value: Any, form: list[str], numbers: list[Any]) -> None:
    """The words of a value, and what each of them is."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        data = value.__array_interface__["data"][0]
        numbers += (0, 0, value.size, value.itemsize, data, *value.shape, *value.strides)
        form.append(f"{5 + 2 * value.ndim}q")
    elif kind is Laid:
        numbers.append(value.address)
        form.append("q")
    elif isinstance(value, tuple):
        for part in value:
            _append(part, form, numbers)
    elif kind is float or kind is np.float64:
        numbers.append(value)
        form.append("d")
    elif kind in (int, bool, np.int64, np.uint64, np.bool_):
        numbers.append(int(value))
        form.append("Q" if numbers[-1] >> 63 > 0 else "q")
    else:
        raise TypeError(f"a kernel takes {TAKEN}, got {kind.__name__}")
