"""Compiles kernel text with Numba, down to object code that runs without Numba."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.numba.kernel_source import KernelSource
from adjit.codegen.numba.scalar_functions import native_helpers, python_helpers
from adjit.codegen.process.off_main_thread import check_cancelled, off_main_thread
from adjit.ir.types import SHORT_NAMES


def python_kernel(source: KernelSource) -> Callable[..., None]:
    """The kernel as an ordinary Python function on flat arrays."""
    return _define(source, python_helpers(source.helpers))


def _define(source: KernelSource, helpers: Mapping[str, Any]) -> Callable[..., None]:
    names: dict[str, Any] = {name: dtype.type for name, dtype in SHORT_NAMES.items()}
    names |= {"inf": float("inf"), "nan": float("nan"), **helpers}
    exec(compile(source.text, f"<adjit kernel {source.name}>", "exec"), names)
    kernel: Callable[..., None] = names["kernel"]
    return kernel


@off_main_thread
def compile_source(source: KernelSource) -> CompiledObject:
    """Object code for this machine's CPU. Takes about 0.1 s, and 0.4 s more for the first kernel of a process."""
    from numba import types
    from numba.core import compiler, compiler_lock

    kinds = {name: getattr(types, np.dtype(dtype).name) for name, dtype in SHORT_NAMES.items() if name != "bool"}
    signature = [kinds[a.dtype] if a.kind == "size" else types.CPointer(kinds[a.dtype]) for a in source.arguments]
    typing_context, target_context = _target()
    with compiler_lock.global_compiler_lock:
        check_cancelled()     # others may have had it for long
        result = compiler.compile_extra(typing_context, target_context, _define(source, native_helpers(source.helpers)),
                                        (*signature, types.int64, types.int64), types.void, _flags(), {})
        return CompiledObject(result.library._get_compiled_object(), result.fndesc.llvm_func_name)


@functools.cache
def _target() -> tuple[Any, Any]:
    import llvmlite.binding as llvm
    from numba.core.registry import cpu_target

    # Kernels read and write many arrays: let the vectoriser compare all of them.
    llvm.set_option("", "-runtime-memory-check-threshold=1000")
    typing_context, target_context = cpu_target.typing_context, cpu_target.target_context
    typing_context.refresh()
    target_context.refresh()
    return typing_context, target_context


def _flags() -> Any:
    """No exceptions and no reference counts, so the object code needs nothing of Numba; pointers never overlap; every op rounds on its
    own, so that a value has the same bits in whichever kernel it is computed."""
    from numba.core import compiler

    flags = compiler.Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.error_model = "numpy"
    flags.release_gil = True
    flags.noalias = True
    return flags
