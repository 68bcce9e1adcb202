"""Products of small matrices, eight columns at a time, held in registers: loops over short rows do not become that.

All work on flat arrays with offsets and strides, in place. They read and write whole groups of eight numbers, so rows
are padded to multiples of eight, or the array has eight numbers to spare. Like `_jit` this module knows the compiler:
vectors of eight doubles are written down directly, and come out as whatever the machine has. With the compiler disabled
the same sums are plain loops.
"""

from typing import Any, Literal

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from ._jit import DISABLED

WIDTH = 8


def padded(n: int, to: int = WIDTH) -> int:
    """The next multiple."""
    return -(-n // to) * to


def _product(rows: int, groups: int, what: Literal["set", "add", "subtract"]) -> Any:
    """C[c + r cs + l] <- sum_k A[a + r ar + k ak] B[b + k bs + l], or that added to what is there, or subtracted: a
    kernel product(C, c, cs, A, a, ar, ak, B, b, bs, count) for r < rows, l < WIDTH groups, k < count."""
    fresh = what == "set"
    if DISABLED:

        def plain(C: Any, c: int, cs: int, A: Any, a: int, ar: int, ak: int, B: Any, b: int, bs: int, n: int) -> None:
            for r in range(rows):
                for at in range(WIDTH * groups):
                    total = 0.0 if fresh else C[c + r * cs + at]
                    for k in range(n):
                        term = A[a + r * ar + k * ak] * B[b + k * bs + at]
                        total += -term if what == "subtract" else term
                    C[c + r * cs + at] = total

        return plain

    @intrinsic
    def product(
        typing: Any, C: Any, c: Any, cs: Any, A: Any, a: Any, ar: Any, ak: Any, B: Any, b: Any, bs: Any, count: Any
    ) -> Any:
        whole = types.int64
        signature = types.none(C, whole, whole, A, whole, whole, whole, B, whole, whole, whole)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            C, c, cs, A, a, ar, ak, B, b, bs, count = values
            vector, lane = ir.VectorType(ir.DoubleType(), WIDTH), ir.IntType(32)
            kinds = signature.args
            out, left, right = (make_array(kinds[i])(context, builder, v).data for i, v in ((0, C), (3, A), (7, B)))

            def place(base: Any, at: Any) -> Any:
                return builder.bitcast(builder.gep(base, [at]), vector.as_pointer())

            def number(n: int) -> Any:
                return ir.Constant(c.type, n)

            starts = [
                builder.add(builder.add(c, builder.mul(cs, number(r))), number(WIDTH * g))
                for r in range(rows) for g in range(groups)
            ]  # fmt: skip
            firsts = [builder.add(a, builder.mul(ar, number(r))) for r in range(rows)]
            sums = [cgutils.alloca_once(builder, vector) for _ in starts]
            nothing = ir.Constant(vector, [0.0] * WIDTH)
            for at, total in zip(starts, sums, strict=True):
                builder.store(nothing if fresh else builder.load(place(out, at), align=8), total)
            with cgutils.for_range(builder, count) as loop:
                here = builder.add(b, builder.mul(bs, loop.index))
                across = [
                    builder.load(place(right, builder.add(here, number(WIDTH * g))), align=8) for g in range(groups)
                ]
                step = builder.mul(ak, loop.index)
                for r, first in enumerate(firsts):
                    v = builder.load(builder.gep(left, [builder.add(first, step)]))
                    one = builder.insert_element(ir.Constant(vector, ir.Undefined), v, lane(0))
                    same = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(lane, WIDTH), [0] * WIDTH))
                    for g, row in enumerate(across):
                        total = sums[r * groups + g]
                        term = builder.fmul(same, row, flags=("contract",))
                        join = builder.fsub if what == "subtract" else builder.fadd
                        builder.store(join(builder.load(total), term, flags=("contract",)), total)
            for at, total in zip(starts, sums, strict=True):
                builder.store(builder.load(total), place(out, at), align=8)
            return context.get_dummy_value()

        return signature, generate

    return product


add_products = _product(4, 1, "add")  # four rows
add_wide_products = _product(4, 3, "add")  # four rows, three groups of eight
subtract_product = _product(1, 1, "subtract")
subtract_products = _product(4, 1, "subtract")
subtract_wide_products = _product(4, 3, "subtract")
set_product = _product(1, 1, "set")
set_square_product = _product(3, 3, "set")  # three rows, three groups of eight
set_wide_product = _product(1, 3, "set")  # three groups of eight
set_widest_product = _product(1, 5, "set")  # five
set_sixfold_product = _product(1, 6, "set")  # six
