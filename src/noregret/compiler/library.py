"""Kernels that are called by name become machine code only inside their callers.

Numba optimises every function it compiles and makes machine code of it, links the optimised code into each caller, and
optimises it there again. Of our kernels most are called by name only, so that their own machine code is never run. Here
a kernel's code waits: a caller links what is not optimised yet, and optimisation and machine code are made once, for a
kernel whose address is asked for, together with all it calls. That takes a quarter off the time of compiling.

What a caller links is the same whether or not the kernel also has an address, and whether or not it comes from the
cache, so results do not depend on what was compiled first.

Private points of Numba: `JITCodeLibrary` and its `_final_module`, `_linking_libraries`, `_shared_module`,
`_reload_init`, `_codegen`, `_ensure_finalized` and `_optimize_functions`, `_LowerResult`, `_dynfunc.make_function`, the
flag `no_compile`. Passes and pipelines are public.
"""

from typing import Any

from llvmlite.binding import Linkage
from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites

from .contexts import remembering
from .inlining import with_inlining


class WaitingLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of one kernel, which waits until its address is asked for."""

    _shared_module: Any

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def _optimize_functions(self, module: Any) -> None:
        """Numba makes passes for declarations as well, which are five of six functions, and runs them on nothing."""
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _get_module_for_linking(self) -> Any:
        """This kernel and all it calls, not optimised."""
        if self._shared_module is None:
            module = self._final_module.clone()
            for library in dict.fromkeys(self._linking_libraries):
                module.link_in(library._get_module_for_linking(), preserve=True)
                self._reload_init.update(library._reload_init)
            for function in list(module.functions):
                if not function.is_declaration and function.linkage == Linkage.external:
                    function.linkage = "linkonce_odr"
            self._shared_module = module
        return self._shared_module

    @global_compiler_lock
    def _ensure_finalized(self) -> None:
        """Numba asks whether it is done before it takes its lock: it finalizes whatever it compiles at once, under the
        lock. What waits may be asked for by two threads, of which the second is to find it done."""
        super()._ensure_finalized()

    @global_compiler_lock
    def finalize(self) -> None:
        self._get_module_for_linking()  # before anything is optimised
        super().finalize()

    @property
    def waits(self) -> bool:
        return not self._finalized


@register_pass(mutates_CFG=False, analysis_only=False)
class _Wait(LoweringPass):  # type: ignore[misc]
    """Before code is made: a kernel that Python does not call directly gets a library that waits."""

    _name = "noregret_wait"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = WaitingLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_compile = state.flags.no_cpython_wrapper
        return False


@register_pass(mutates_CFG=False, analysis_only=False)
class _Enter(LoweringPass):  # type: ignore[misc]
    """After it: other kernels know it by an object that nobody calls."""

    _name = "noregret_enter"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        if state.flags.no_compile:
            made = state["cr"]
            known = _dynfunc.make_function(
                made.fndesc.lookup_module(), made.fndesc.qualname, "", 0, made.env, (state.library,)
            )
            state.targetctx.insert_user_function(known, made.fndesc, [state.library])
            state["cr"] = made._replace(cfunc=known)
        return False


_SAME = hash(Flags())  # Numba hashes the names of all options, which is the same number for all flags


class _Flags(Flags):  # type: ignore[misc]
    """Options that are quick to compare: Numba does so for every operation, and reads all of them each time."""

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, _Flags) else bool(super().__eq__(other))

    def __hash__(self) -> int:
        return _SAME


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's pipeline, with libraries that wait, and without a pass for expressions that allocate arrays."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        state = self.state
        state.flags = _Flags(state.flags)
        state.typingctx, state.targetctx = remembering(state.typingctx, state.targetctx)

    def define_pipelines(self) -> list[Any]:
        passes = with_inlining(DefaultPassBuilder.define_nopython_pipeline(self.state))
        passes.passes = [(one, said) for one, said in passes.passes if one is not NopythonRewrites]
        passes.add_pass_after(_Wait, IRLegalization)
        passes.add_pass_after(_Enter, NativeLowering)
        passes.finalize()
        return [passes]
