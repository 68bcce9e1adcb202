"""What Numba looks up for every operation of a kernel, and is remembered here.

For every `a * b` and every `a[i]` Numba tries one template after the other until one takes the types, several times per
operation, and collects what the others said. Kernels consist of the same few hundred operations on numbers and arrays,
so the answers are kept. The size of a type in memory is asked for as often; for every answer Numba parses a module.

Numba's own contexts, which other programs use, are left alone: kernels are compiled with contexts that share all they
know.

What is known of Numba here: the context of types, with its `_lookup_global`, that a context of code can be given
another (`subtarget`), and how the type of an operator answers (`get_call_type`).
"""

import functools
import operator
from typing import Any

from numba import types
from numba.core import errors
from numba.core.typing.context import Context
from numba.extending import models, register_model

_OPERATORS = frozenset({bool, range, *(one for one in vars(operator).values() if callable(one))})
_PLAIN = (types.Number, types.Boolean, types.Literal, types.Array)
_KNOWN = (*_PLAIN, types.UniTuple)  # behind an array a tuple is an index


class _Operator(types.Function):  # type: ignore[misc]
    """The type of an operator, with what it answered before about numbers and arrays, perhaps at an index.

    Other answers are not kept: some, about tuples say, come with code that is compiled for the caller's options."""

    def __init__(self, templates: Any) -> None:
        super().__init__(templates)
        self._answers: dict[Any, Any] = {}

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        if kws or not isinstance(args[0], _PLAIN) or not all(isinstance(one, _KNOWN) for one in args[1:]):
            return super().get_call_type(context, args, kws)
        key = tuple(args)
        if key not in self._answers:
            try:
                self._answers[key] = super().get_call_type(context, args, kws)
            except errors.TypingError as error:
                self._answers[key] = str(error)
        answer = self._answers[key]
        if isinstance(answer, str):
            raise errors.TypingError(answer)  # a new one: Numba adds to it where it happened
        return answer


register_model(_Operator)(models.OpaqueModel)  # to kernels a thing without contents, like every function
_operator = functools.cache(_Operator)


class _Types(Context):  # type: ignore[misc]
    """Numba's context of types, but for operators."""

    __slots__ = ("_numbas",)

    def __init__(self, numbas: Any) -> None:
        self.__dict__ = vars(numbas)  # type: ignore[misc]
        self._numbas = numbas

    def refresh(self) -> None:
        self._numbas.refresh()  # it adds to operators, and must see its own

    def _lookup_global(self, value: Any) -> Any:
        found = super()._lookup_global(value)
        if type(found) is types.Function and found.typing_key in _OPERATORS:
            return _operator(found.templates)
        return found


_types = functools.cache(_Types)
_sizes: dict[str, int] = {}


def remembering(of_types: Any, of_code: Any) -> tuple[Any, Any]:
    """Numba's two contexts, for the compilation of a kernel."""

    def size(kind: Any) -> int:
        name = str(kind)
        if name not in _sizes:
            _sizes[name] = of_code.get_abi_sizeof(kind)
        return _sizes[name]

    made = _types(of_types)
    return made, of_code.subtarget(typing_context=made, get_abi_sizeof=size)
