"""How small kernels are pasted into their callers (`jit.inlined`), with less work than Numba makes of it.

For every call Numba reads the function's bytecode anew, and then copies what it made of it twice, with all variables of
the function once per block. Here what was read is kept, and copied once. What is pasted is the same.

While a kernel is compiled Numba tries operations that do not fit, thousands of times, and has a bold face for what it
says about each. `plainly` spares it that.

What is known of Numba here: the pass `InlineInlinables` with its `_do_work`, `InlineWorker` with `run_untyped_passes`,
`inline_function` and `_compiler_pipeline`, that `inline_ir` copies blocks by `copy.deepcopy`, how its intermediate code
is made up (`Scope`, `Block`), and where its errors find their colours.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import errors, ir
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.inline_closurecall import InlineWorker
from numba.core.untyped_passes import InlineInlinables

_read: dict[Any, Any] = {}  # the intermediate code of what is pasted


class _Fresh(ir.Block):  # type: ignore[misc]
    """A block that nobody else has: a copy of it would be thrown away."""

    def __deepcopy__(self, memo: Any) -> "_Fresh":
        return self


def _copied(code: Any, function: Any) -> Any:
    """A copy of a function's intermediate code, with a name of its own. Places in files do not change, and are not
    copied."""
    made, old = code.copy(), next(iter(code.blocks.values())).scope
    memo: dict[int, Any] = {}
    made.func_id, made.blocks = FunctionIdentity.from_function(function), {}
    scope = ir.Scope(old.parent, old.loc)
    scope.redefined.update(old.redefined)
    scope.var_redefinitions.update({name: set(versions) for name, versions in old.var_redefinitions.items()})
    memo[id(old)] = scope
    for var in old.localvars._con.values():
        memo[id(var)] = scope.define(var.name, var.loc)
    for label, block in code.blocks.items():
        made.blocks[label] = new = _Fresh(scope, block.loc)
        for line in block.body:
            for one in (line, getattr(line, "value", None)):
                place = getattr(one, "loc", None)
                memo[id(place)] = place
            new.body.append(copy.deepcopy(line, memo))
    return made


class _Worker(InlineWorker):  # type: ignore[misc]
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._compiler_pipeline = untyped_pipeline

    def run_untyped_passes(self, func: Any, enable_ssa: bool = False) -> Any:
        if func not in _read:
            _read[func] = super().run_untyped_passes(func, enable_ssa)
        self.flags.enable_ssa = enable_ssa
        return _copied(_read[func], func)

    def inline_function(self, *args: Any, **options: Any) -> Any:
        made = super().inline_function(*args, **options)
        for _, block in made[3]:
            block.__class__ = ir.Block  # from here on the caller's
        return made


@register_pass(mutates_CFG=True, analysis_only=False)
class Inline(InlineInlinables):  # type: ignore[misc]
    _name = "noregret_inline"

    def _do_work(self, state: Any, work_list: Any, block: Any, i: int, expr: Any, inline_worker: Any) -> Any:
        known = state.typingctx, state.targetctx, state.locals, state.pipeline, state.flags
        worker = _Worker(*known, validator=inline_worker.validator)
        return super()._do_work(state, work_list, block, i, expr, worker)


def with_inlining(passes: Any) -> Any:
    """Passes of Numba's, with this one in the place of its own."""
    passes.passes = [(Inline if one is InlineInlinables else one, said) for one, said in passes.passes]
    return passes


def untyped_pipeline(state: Any) -> Any:
    return with_inlining(DefaultPassBuilder.define_untyped_pipeline(state))


@contextmanager
def plainly() -> Iterator[None]:
    """Errors of Numba's in plain letters, for a while."""
    scheme: Any = errors.termcolor()
    scheme._markup = lambda said, *style: said
    try:
        yield
    finally:
        vars(scheme).pop("_markup", None)
