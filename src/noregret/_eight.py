"""Eight numbers at once: a value of type `Eight` is loaded from an array, worked on with + - * / and stored.

For kernels that do the same for eight pairs side by side. Loops over short rows become that only when the compiler can
show that nothing overlaps, and then with a test in front; written with these values the same sums are added in the same
order always. Like `_jit` and `_tiles` this module knows the compiler. With it disabled an Eight is a NumPy array [8].
"""

import operator
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np.arrayobj import make_array

from ._jit import DISABLED, inlined

_VECTOR, _WHOLE, _LANE = ir.VectorType(ir.DoubleType(), 8), ir.VectorType(ir.IntType(64), 8), ir.IntType(32)
_FUSED = ("contract",)


class _Eight(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="Eight")


_eight = _Eight()


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _spread(builder: Any, value: Any) -> Any:
    """One number, eight times."""
    if value.type == _VECTOR:
        return value
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, _LANE(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_LANE, 8), [0] * 8))


def _operator(name: Any, instruction: str) -> None:
    pairs = (_eight, _eight), (_eight, types.float64), (types.float64, _eight)

    class Template(ConcreteTemplate):  # type: ignore[misc]
        cases: ClassVar[Any] = [signature(_eight, *kinds) for kinds in pairs]

    infer_global(name)(Template)

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        left, right = (_spread(builder, v) for v in values)
        return getattr(builder, instruction)(left, right, flags=_FUSED)

    for kinds in pairs:
        lower_builtin(name, *kinds)(lower)


def _constant(values: list[Any]) -> Any:
    return ir.Constant(_VECTOR, values)


if DISABLED:

    def load(array: Any, at: int) -> Any:
        return np.array(array[at : at + 8])

    def store(array: Any, at: int, value: Any) -> None:
        array[at : at + 8] = value

    def same(x: float) -> Any:
        return np.full(8, x)

    def least(u: Any, v: Any) -> Any:
        return np.where(u < v, u, v)

    def most(u: Any, v: Any) -> Any:
        return np.where(u > v, u, v)

    def root(v: Any) -> Any:
        return np.sqrt(v)

    def either(u: Any, v: Any, yes: Any, no: Any) -> Any:
        return np.where(u < v, yes, no)

    def power_of_two(shifted: Any) -> Any:
        return ((np.asarray(shifted).view(np.int64) << 52) + (1023 << 52)).view(np.float64)

    def total(v: Any) -> Any:
        return float(v.sum())

    def highest(v: Any) -> Any:
        return float(v.max())

    def dots(A: Any, a: int, stride: int, x: Any) -> Any:
        return np.array([(A[a + r * stride : a + r * stride + 8] * x).sum() for r in range(8)])

    place = turned = None  # of the compiler

    def turn(A: Any, a: int, stride: int, out: Any, to: int) -> None:
        rows = np.array([A[a + r * stride : a + r * stride + 8] for r in range(8)])
        out[to : to + 64] = rows.T.ravel()

else:
    for _name, _instruction in (
        (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv")
    ):  # fmt: skip
        _operator(_name, _instruction)

    def place(context: Any, builder: Any, kind: Any, array: Any, at: Any, of: Any = _VECTOR) -> Any:
        """A pointer to what begins at entry `at` of a flat array."""
        data = make_array(kind)(context, builder, array).data
        return builder.bitcast(builder.gep(data, [at]), of.as_pointer())

    @intrinsic
    def load(typing: Any, array: Any, at: Any) -> Any:
        """The eight numbers of a flat array from `at` on."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return builder.load(place(context, builder, sig.args[0], *values), align=8)

        return _eight(array, types.int64), generate

    @intrinsic
    def store(typing: Any, array: Any, at: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            builder.store(values[2], place(context, builder, sig.args[0], *values[:2]), align=8)
            return context.get_dummy_value()

        return types.none(array, types.int64, _eight), generate

    @intrinsic
    def same(typing: Any, x: Any) -> Any:
        """One number, eight times."""
        return _eight(types.float64), lambda c, builder, s, values: _spread(builder, values[0])

    @intrinsic
    def least(typing: Any, u: Any, v: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", *values), *values)

        return _eight(_eight, _eight), generate

    @intrinsic
    def most(typing: Any, u: Any, v: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", *values), *values)

        return _eight(_eight, _eight), generate

    @intrinsic
    def root(typing: Any, v: Any) -> Any:
        """Square roots."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            made = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), "llvm.sqrt.v8f64"
            )  # fmt: skip
            return builder.call(made, values)

        return _eight(_eight), generate

    @intrinsic
    def either(typing: Any, u: Any, v: Any, yes: Any, no: Any) -> Any:
        """Of every lane `yes` where u < v, else `no`."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", *values[:2]), *values[2:])

        return _eight(_eight, _eight, _eight, _eight), generate

    @intrinsic
    def power_of_two(typing: Any, shifted: Any) -> Any:
        """2^n, n the integer in the low bits of n + 1.5 * 2^52."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            whole = builder.shl(builder.bitcast(values[0], _WHOLE), ir.Constant(_WHOLE, [52] * 8))
            return builder.bitcast(builder.add(whole, ir.Constant(_WHOLE, [1023 << 52] * 8)), _VECTOR)

        return _eight(_eight), generate

    def _folded(builder: Any, v: Any, join: Any) -> Any:
        """One number from eight: halves are joined, then halves of those, and again."""
        for width in (4, 2, 1):
            mask = ir.Constant(ir.VectorType(_LANE, 8), [(i + width) % 8 for i in range(8)])
            v = join(v, builder.shuffle_vector(v, v, mask))
        return builder.extract_element(v, _LANE(0))

    @intrinsic
    def total(typing: Any, v: Any) -> Any:
        """The sum of the eight numbers."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            return _folded(builder, values[0], builder.fadd)

        return types.float64(_eight), generate

    @intrinsic
    def highest(typing: Any, v: Any) -> Any:
        """The largest of the eight numbers."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            def larger(u: Any, v: Any) -> Any:
                return builder.select(builder.fcmp_ordered(">", u, v), u, v)

            return _folded(builder, values[0], larger)

        return types.float64(_eight), generate

    def _neighbours(width: int) -> Any:
        """Masks for two vectors u and v: the lanes of both without the bit `width`, v's in the gaps of u's, and those
        with it, u's in the gaps of v's."""
        low = [i if i & width == 0 else 8 + i - width for i in range(8)]
        high = [i + width if i & width == 0 else 8 + i for i in range(8)]
        return [ir.Constant(ir.VectorType(_LANE, 8), mask) for mask in (low, high)]

    @intrinsic
    def dots(typing: Any, A: Any, a: Any, stride: Any, x: Any) -> Any:
        """Lane r: sum_l A[a + r stride + l] x_l, l < 8. Neighbours are added, then neighbours of those, and again."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            A, a, stride, x = values
            rows = []
            for r in range(8):
                at = builder.add(a, builder.mul(stride, ir.Constant(a.type, r)))
                v = builder.load(place(context, builder, sig.args[0], A, at), align=8)
                rows.append(builder.fmul(v, x))
            for width in (1, 2, 4):
                masks = _neighbours(width)
                rows = [
                    builder.fadd(*(builder.shuffle_vector(u, v, mask) for mask in masks))
                    for u, v in zip(rows[::2], rows[1::2], strict=True)
                ]
            return rows[0]

        return _eight(A, types.int64, types.int64, _eight), generate

    def turned(builder: Any, rows: list[Any]) -> list[Any]:
        """Eight vectors, transposed."""
        for width in (1, 2, 4):
            low, high = _neighbours(width)
            for r in range(8):
                if r & width == 0:
                    u, v = rows[r], rows[r + width]
                    rows[r] = builder.shuffle_vector(u, v, low)
                    rows[r + width] = builder.shuffle_vector(u, v, high)
        return rows

    @intrinsic
    def turn(typing: Any, A: Any, a: Any, stride: Any, out: Any, to: Any) -> Any:
        """out[to + 8 c + r] <- A[a + r stride + c], r and c below 8."""

        def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            A, a, stride, out, to = values
            rows = []
            for r in range(8):
                at = builder.add(a, builder.mul(stride, ir.Constant(a.type, r)))
                rows.append(builder.load(place(context, builder, sig.args[0], A, at), align=8))
            for c, row in enumerate(turned(builder, rows)):
                at = builder.add(to, ir.Constant(to.type, 8 * c))
                builder.store(row, place(context, builder, sig.args[3], out, at), align=8)
            return context.get_dummy_value()

        return types.none(A, types.int64, types.int64, out, types.int64), generate


@inlined
def exps(x):
    """e^x of every lane, as `links.exp`."""
    x = most(least(x, same(700.0)), same(-700.0))
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    y = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    y = y * r + 1.0 / 39916800.0
    y = y * r + 1.0 / 3628800.0
    y = y * r + 1.0 / 362880.0
    y = y * r + 1.0 / 40320.0
    y = y * r + 1.0 / 5040.0
    y = y * r + 1.0 / 720.0
    y = y * r + 1.0 / 120.0
    y = y * r + 1.0 / 24.0
    y = y * r + 1.0 / 6.0
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    return y * power_of_two(shifted)
