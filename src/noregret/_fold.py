"""Eight blocks of eight rows and columns at once, each added to its transpose, the blocks side by side.

Like `_eight` this module knows the compiler; with it disabled the same is done by plain loops.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from ._eight import place, turned
from ._jit import DISABLED


def _fold(whole: bool) -> Any:
    """fold(A, places, b0, c0, out, to, J, d): entry (b, c) of matrix i, i < 8, is A[places[i] + b places[8 + i] + c];

        out[to + (b (d - b0) - b (b + 1)/2 + c) J + i] <- entry (b0 + b, c0 + c) + entry (c0 + c, b0 + b)

    for all b, c < 8. whole=False: for b <= c only, where b0 = c0, and the diagonal is not doubled. The rows of out are
    the entries of a triangle [d, d] if `to` is where (b0, c0) is."""
    if DISABLED:

        def plain(A: Any, places: Any, b0: int, c0: int, out: Any, to: int, J: int, d: int) -> None:
            for i in range(8):
                at, wide = places[i], places[8 + i]
                for b in range(8):
                    for c in range(0 if whole else b, 8):
                        v = A[at + (b0 + b) * wide + c0 + c]
                        if whole or c > b:
                            v += A[at + (c0 + c) * wide + b0 + b]
                        out[to + (b * (d - b0) - b * (b + 1) // 2 + c) * J + i] = v

        return plain

    @intrinsic
    def fold(typing: Any, A: Any, places: Any, b0: Any, c0: Any, out: Any, to: Any, J: Any, d: Any) -> Any:
        number = types.int64

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            A, places, b0, c0, out, to, J, d = values
            kinds, add, mul = signature.args, builder.add, builder.mul

            def constant(n: int) -> Any:
                return ir.Constant(to.type, n)

            def entry(i: int) -> Any:
                return builder.load(place(context, builder, kinds[1], places, constant(i), to.type))

            first, wide = [entry(i) for i in range(8)], [entry(8 + i) for i in range(8)]

            def rows(row: Any, column: Any, b: int) -> Any:
                """Eight entries of row b of the eight matrices, turned: a vector for every entry."""
                found = []
                for i in range(8):
                    at = add(add(first[i], column), mul(wide[i], add(row, constant(b))))
                    found.append(builder.load(place(context, builder, kinds[0], A, at), align=8))
                return turned(builder, found)

            def keep(b: int, c: int, value: Any) -> None:
                row = add(mul(builder.sub(d, b0), constant(b)), constant(c - b * (b + 1) // 2))
                builder.store(value, place(context, builder, kinds[4], out, add(to, mul(row, J))), align=8)

            one: list[Any] = []
            other = [rows(c0, b0, c) for c in range(8)] if whole else one
            for b in range(8):  # as early as possible: registers are few
                one.append(rows(b0, c0, b))
                for c in range(8 if whole else b):
                    at = (b, c) if whole else (c, b)
                    keep(*at, builder.fadd(one[b][c], other[c][b]))
                if not whole:
                    keep(b, b, one[b][b])
            return context.get_dummy_value()

        return types.none(A, places, number, number, out, number, number, number), generate

    return fold


fold_half = _fold(False)
fold_whole = _fold(True)
