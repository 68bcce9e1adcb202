"""Slots: how kernels call kernels that are chosen when a program runs.

Kernels reach each other in two ways. Inside a module they call each other by name and are compiled together. Across the
seams (engine -> agent, agent -> planner, estimator -> link) a kernel is put into a slot, a field of `par`, and called
through it: so one compiled loop serves every agent, and one compiled estimator every link.

    call_beliefs = slot("beliefs")                                         # declared once, where the protocol is said
    par = par._replace(believe=call_beliefs.fill(believe, par, state, work, x))    # compiled for these types
    call_beliefs(par.believe, (par, state, work, x))                       # in another kernel

Behind an address nothing can be checked, and a wrong type there would corrupt memory. So what is in a slot is the
address of a kernel together with a digest of the slot's name and of the types it was compiled for. A call compares it
with the digest of what it passes, one comparison of integers, and raises a sentence where they differ. `EMPTY` has no
kernel, and is refused in the same way.

What is known of Numba here: how a function called at an address is told its arguments, returns, and raises
(`call_conv`), and how an intrinsic is written.
"""

import hashlib
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import intrinsic

from .cache import spelled
from .jit import DISABLED
from .references import Laid, Reference, passed, referred


class Slot(NamedTuple):
    """What a field of `par` holds of a kernel: address, and digest of what it may be called with."""

    address: int
    digest: int


def _nothing(*args: Any) -> None:
    raise RuntimeError("a slot that is empty was called")


EMPTY: Any = _nothing if DISABLED else Slot(0, 0)


def _digest(name: str, heads: int, kinds: Any) -> int:
    text = f"{name} {heads} {', '.join(spelled(getattr(kind, 'to', kind)) for kind in kinds)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 2  # an int64 above 0


if DISABLED:

    def slot(name: str, *fixed: Any, heads: int = 0) -> Any:
        if heads:
            call: Any = lambda where, first, args: where(*first, *args)  # noqa: E731
        else:
            call = lambda where, args: where(*args)  # noqa: E731
        call.fill = lambda function, *args: function
        return call

    class Heads:
        def __call__(self, *tuples: Any) -> Any:
            return tuples

    def filled(where: Any) -> bool:
        return where is not EMPTY

else:
    from .jit import call_at, compiled, inlined

    def slot(name: str, *fixed: Any, heads: int = 0) -> Any:
        """A kind of slot: `call(where, (a, b, ...))` for kernels, and `call.fill(kernel, a, b, ...)` for Python, which
        compiles the kernel for the types of a, b, ... and returns what `where` is to hold.

        fixed: the types, where they are known; any other call does not compile. heads: so many arguments in front are
        named tuples whose types only the kernel knows, and the call is `call(where, heads, (a, b, ...))` with the
        addresses of their blocks (`Heads`): so the caller is compiled once for all of them."""

        def code(context: Any, builder: Any, where: Any, first: Any, args: Any, signature: Any) -> Any:
            given = signature.args[-1].types
            kinds = [passed(one) for one in given]
            address, digest = cgutils.unpack_tuple(builder, where)
            wanted = ir.Constant(ir.IntType(64), _digest(name, heads, kinds))
            with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", digest, wanted)):
                said = f"the slot {name!r} is empty, or holds a kernel for other types than it was called with"
                context.call_conv.return_user_exc(builder, RuntimeError, (said,))
            values = [
                referred(builder, value) if isinstance(to, Reference) and not isinstance(one, Reference) else value
                for value, one, to in zip(cgutils.unpack_tuple(builder, args), given, kinds, strict=True)
            ]
            at_front = [] if first is None else cgutils.unpack_tuple(builder, first)
            opaque = [types.int64] * len(at_front)  # an address takes the place of a reference
            return call_at(context, builder, address, types.none, [*opaque, *kinds], [*at_front, *values])

        def checked(where: Any, args: Any) -> None:
            if getattr(where, "instance_class", None) is not Slot:
                raise errors.TypingError(f"the slot {name!r} is called at {where}, which is no slot")
            if fixed and tuple(args.types) != fixed:
                raise errors.TypingError(f"the slot {name!r} is called with {args.types}, declared for {fixed}")

        if heads:

            @intrinsic
            def call(typing: Any, where: Any, first: Any, args: Any) -> Any:
                checked(where, args)
                return types.none(where, first, args), lambda c, b, s, v: code(c, b, v[0], v[1], v[2], s)

        else:

            @intrinsic
            def call(typing: Any, where: Any, args: Any) -> Any:
                checked(where, args)
                return types.none(where, args), lambda c, b, s, v: code(c, b, v[0], None, v[1], s)

        def fill(function: Any, *args: Any) -> Slot:
            made, where = compiled(function, args)
            if made.signature.return_type != types.none:
                raise TypeError(f"{function.__name__}: a kernel called through a slot returns nothing")
            return Slot(where, _digest(name, heads, made.signature.args[heads:]))

        call.fill, call.protocol = fill, f"{name} {heads} {fixed}"  # the second decides what callers are compiled to
        return call

    @inlined
    def filled(where):
        """Whether there is a kernel in a slot."""
        return where.address != 0

    class Heads:  # type: ignore[no-redef]
        """The blocks of a few named tuples, laid out anew where one is another tuple than last time. Addresses are
        valid until then, and as long as this object lives."""

        def __init__(self) -> None:
            self._laid: tuple[Laid, ...] = ()

        def __call__(self, *tuples: Any) -> Any:
            old = self._laid or (None,) * len(tuples)
            self._laid = tuple(
                kept if kept is not None and kept.value is value else Laid(value)
                for kept, value in zip(old, tuples, strict=True)
            )
            return tuple(laid.address for laid in self._laid)
