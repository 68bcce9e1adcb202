"""Named tuples by reference, for kernels that are called by address (`_jit`)."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import lower_getattr_generic, models, register_model


class Reference(types.Type):  # type: ignore[misc]
    """A named tuple that lies in memory, to a kernel that is called by address: entries are read where they are used,
    parts that are named tuples are references again. By value every call would copy an agent's hundred arrays.

    What is behind a reference does not change while a call lasts; the compiler is told so. The function that made it
    must not read through it, only pass it on."""

    def __init__(self, to: Any) -> None:
        self.to = to
        super().__init__(name=f"Reference({to})")


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(kind.to).get_value_type().as_pointer())


@infer_getattr
class _ReferenceEntries(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:
        if name in reference.to.fields:
            return passed(reference.to.types[reference.to.fields.index(name)])
        return None


@lower_getattr_generic(Reference)
def _entry(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    place = reference.to.fields.index(name)
    where = cgutils.gep_inbounds(builder, value, 0, place)
    return where if isinstance(reference.to.types[place], types.BaseNamedTuple) else _read(builder, where)


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


def passed(kind: Any) -> Any:
    """The type a kernel called by address sees."""
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind
