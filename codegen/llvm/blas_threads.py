"""One thread for the BLAS library that SciPy brings, while a program calls it.

OpenBLAS blocks matrices by its number of threads: from some 200 rows on, factors have other bits on two threads than on one. Programs have
the same bits on any machine, and threads of their own. So a step that calls LAPACK has OpenBLAS use one thread until it is done. The
setting belongs to the process, and several threads may run such steps: a counter tells the first to come and the last to leave, who
restores what was set before. With another BLAS library the numbers of threads are left alone.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.external import BLAS_STATE
from adjit.codegen.llvm.module import Function
from adjit.ir.extension_module import extension_module

_LOCK, _COUNT, _SAVED, _GET, _SET = range(0, 40, 8)
_PREFIXES = "scipy_", "scipy_openblas_", ""
_state = (ctypes.c_int64 * 5)()
"""The lock, steps under way, the number of threads before, and the library's functions to get and set the number."""


@cache
def state_address() -> int:
    """The address of the state. The first call looks for OpenBLAS's functions, which loads SciPy's module for LAPACK."""
    library = ctypes.CDLL(extension_module("scipy.linalg.cython_lapack").__file__)
    for prefix in _PREFIXES:
        found = [getattr(library, f"{prefix}openblas_{verb}_num_threads", None) for verb in ("get", "set")]
        addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found if function is not None]
        if len(addresses) == 2:
            _state[3], _state[4] = addresses
            os.register_at_fork(after_in_child=_after_fork)
            break
    return ctypes.addressof(_state)


def _after_fork() -> None:
    """Forget the steps of threads that the child does not have."""
    if _state[1]:
        _state[0] = _state[1] = 0
        ctypes.CFUNCTYPE(None, ctypes.c_int)(_state[4])(_state[2])


def one_thread_functions() -> dict[str, Function]:
    """The functions `adjit_blas_begin` and `adjit_blas_end`, which a step calls before and after its calls of LAPACK."""
    text = Builder()
    _write(text, "adjit_blas_begin", 1)
    _write(text, "adjit_blas_end", -1)
    return {name: function for name, function in text.functions.items() if isinstance(function, Function)}


def _write(text: Builder, name: str, step: int) -> None:
    state = f"@{BLAS_STATE}"
    with text.function(name, attributes="noinline nounwind"):
        text.use(state)
        change = text.load("ptr", state, _SET)
        with text.if_(text.same(change, "null")):
            text.ret()
        with text.loop():
            _, taken = text.compare_exchange("i64", state, 0, 1, "acquire monotonic")
            with text.if_(taken):
                text.break_()
            text.call("void", "@llvm.x86.sse2.pause")
        before = text.load("i64", state, _COUNT)
        after = text.add(before, step)
        text.store("i64", after, state, _COUNT)
        with text.if_(text.compare("eq", before if step > 0 else after, 0)):
            if step > 0:
                known = text.call("i32", text.load("ptr", state, _GET))
                text.store("i64", text.convert("sext", "i32", known, "i64"), state, _SAVED)
                text.call("void", change, ("i32", 1))
            else:
                text.call("void", change, ("i32", text.convert("trunc", "i64", text.load("i64", state, _SAVED), "i32")))
        text.atomic_store("i64", 0, state, "release")
