"""Batched calls: a builtin function, in machine code, that makes a row of prepared calls. All serial kernels between two steps of other
kinds cost one call from Python, which takes a tenth of a call through ctypes.

    run = make_batch(Builtin(load(compile_batch_runner(release=False))), [(function_address, argument_cells), ...], keep=owner)
    run()       # each function in order, on the current content of its cells

Its `self` is an int64 array: for each call the function's address, its number of arguments, and the addresses of the cells that hold the
arguments. All arguments are pointers or int64, which are passed in the same way. The runner rounds the number of arguments up to one of
`ARITIES`; a function ignores the surplus arguments.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from adjit.codegen.llvm.link import CompiledObject, LoadedKernel
from adjit.codegen.process.off_main_thread import off_main_thread

ARITIES = (6, 16, 32, 64)
"""Numbers of arguments that there is code for; the first ones are passed in registers."""

MAX_ARGUMENTS = ARITIES[-1]

_NO_ARGUMENTS = 0x4     # METH_NOARGS
_DATA = object.__basicsize__     # offset of an array object's first field after its header
Cell = Any      # a ctypes number or pointer of eight bytes


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


@cache
@off_main_thread
def available() -> bool:
    """True if this is an interpreter whose objects have the expected layout, on a platform with a known calling convention."""
    import llvmlite.binding as llvm

    if sys.implementation.name != "cpython" or not llvm.get_process_triple().startswith(("x86_64", "aarch64")) or sys.platform == "win32":
        return False
    probe = np.arange(3)
    return bool(ctypes.c_void_p.from_address(id(probe) + _DATA).value == probe.ctypes.data)


def batch_runner_text(symbol: str, release: bool) -> str:
    """The LLVM text of the builtin; with `release`, it releases the GIL while the functions run."""
    lines = [
        "@_Py_NoneStruct = external global i8", "declare void @Py_IncRef(ptr)", "declare ptr @PyEval_SaveThread()",
        "declare void @PyEval_RestoreThread(ptr)", f"define ptr @{symbol}(ptr %self, ptr %unused) {{", "begin:",
        f"  %field = getelementptr i8, ptr %self, i64 {_DATA}", "  %block = load ptr, ptr %field",
        *(["  %state = call ptr @PyEval_SaveThread()"] if release else []), "  br label %head", "head:",
        "  %call = phi ptr [ %block, %begin ], " + ", ".join(f"[ %next{n}, %pass{n} ]" for n in ARITIES),
        "  %function = load ptr, ptr %call", "  %done = icmp eq ptr %function, null", "  br i1 %done, label %end, label %choose", "choose:",
        "  %class_at = getelementptr i64, ptr %call, i64 1", "  %class = load i64, ptr %class_at",
        f"  switch i64 %class, label %pass{ARITIES[-1]} [{' '.join(f'i64 {n}, label %pass{n}' for n in ARITIES[:-1])}]"]
    for n in ARITIES:
        lines.append(f"pass{n}:")
        for i in range(n):
            lines += [f"  %at{n}.{i} = getelementptr i64, ptr %call, i64 {i + 2}", f"  %cell{n}.{i} = load ptr, ptr %at{n}.{i}",
                      f"  %value{n}.{i} = load i64, ptr %cell{n}.{i}"]
        lines += [f"  call void %function({', '.join(f'i64 %value{n}.{i}' for i in range(n))})",
                  f"  %next{n} = getelementptr i64, ptr %call, i64 {n + 2}", "  br label %head"]
    lines += ["end:", *(["  call void @PyEval_RestoreThread(ptr %state)"] if release else []),
              "  call void @Py_IncRef(ptr @_Py_NoneStruct)", "  ret ptr @_Py_NoneStruct", "}"]
    return "\n".join(lines)


@off_main_thread
def compile_batch_runner(release: bool) -> CompiledObject:
    """Object code of the builtin."""
    import llvmlite.binding as llvm

    symbol = "adjit_call_chain"
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, reloc="pic", codemodel="small", jit=True)
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{batch_runner_text(symbol, release)}\n')
    module.verify()
    return CompiledObject(machine.emit_object(module), symbol)


class Builtin:
    """The loaded code, and its method definition for Python. A batch keeps its builtin alive, through its `self`."""

    def __init__(self, loaded: LoadedKernel):
        self.loaded = loaded
        self.definition = _MethodDef(b"run", loaded.address, _NO_ARGUMENTS, None)


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi))


class _Block(np.ndarray):
    """The `self` of a batch; its attribute `kept` lives as long as it does."""

    kept: Any


def make_batch(builtin: Builtin, calls: Sequence[tuple[int, Sequence[Cell]]], keep: object) -> Callable[[], None]:
    """A function without arguments that makes `calls` in order: pairs of a function's address and the cells of its arguments.

    Cells are ctypes pointers or int64, read when the function is called, at most `MAX_ARGUMENTS` per call. `keep` lives as long as the
    function. Requires `available()`.
    """
    words: list[int] = []
    nothing = ctypes.c_int64(0)
    for function, cells in calls:
        taken = next(n for n in ARITIES if n >= len(cells))
        padded = [*cells, *[nothing] * (taken - len(cells))]
        words += [function, taken, *map(ctypes.addressof, padded)]
    block = np.array([*words, 0], np.int64).view(_Block)
    block.kept = (keep, builtin, [tuple(cells) for _, cells in calls], nothing)
    batch: Callable[[], None] = _new_function(ctypes.addressof(builtin.definition), block, None)
    return batch
