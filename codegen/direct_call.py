"""A builtin function, in machine code, that calls prepared code on prepared arguments: a tenth of what a call through ctypes costs.

    run = make_direct_call(function_address, cells, numbers, release=False, keep=owner)
    run()       # function(*the contents of the cells, *numbers)

Its `self` is an int64 array: the function, the cells to read pointers from when it is called, and the numbers. One small module serves all
calls of three pointers and two numbers.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from adjit.codegen.link import CompiledObject, LoadedKernel, load

POINTERS, NUMBERS = 3, 2

_NO_ARGUMENTS = 0x4     # METH_NOARGS
_DATA = object.__basicsize__     # of an array object, the first field after its header


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def available() -> bool:
    """Whether this is an interpreter whose objects lie as the machine code expects."""
    if sys.implementation.name != "cpython" or not llvm.get_process_triple().startswith(("x86_64", "aarch64")):
        return False
    probe = np.arange(3)
    return bool(ctypes.c_void_p.from_address(id(probe) + _DATA).value == probe.ctypes.data)


def call_text(symbol: str, release: bool) -> str:
    """The LLVM text of the builtin; with `release` it gives up the interpreter's lock while the function runs."""
    lines = ["@_Py_NoneStruct = external global i8", "declare void @Py_IncRef(ptr)", "declare ptr @PyEval_SaveThread()",
             "declare void @PyEval_RestoreThread(ptr)", f"define ptr @{symbol}(ptr %self, ptr %unused) {{",
             f"  %field = getelementptr i8, ptr %self, i64 {_DATA}", "  %block = load ptr, ptr %field",
             "  %function = load ptr, ptr %block"]
    arguments = []
    for i in range(1, POINTERS + NUMBERS + 1):
        lines.append(f"  %place{i} = getelementptr i64, ptr %block, i64 {i}")
        if i <= POINTERS:
            lines += [f"  %cell{i} = load ptr, ptr %place{i}", f"  %value{i} = load ptr, ptr %cell{i}"]
        else:
            lines.append(f"  %value{i} = load i64, ptr %place{i}")
        arguments.append(f"{'ptr' if i <= POINTERS else 'i64'} %value{i}")
    call = f"  call void %function({', '.join(arguments)})"
    released = ["  %state = call ptr @PyEval_SaveThread()", call, "  call void @PyEval_RestoreThread(ptr %state)"]
    lines += [*(released if release else [call]), "  call void @Py_IncRef(ptr @_Py_NoneStruct)", "  ret ptr @_Py_NoneStruct", "}"]
    return "\n".join(lines)


@cache
def _builtin(release: bool) -> tuple[LoadedKernel, _MethodDef]:
    """The loaded code and its description; both stay as long as the process, for builtins do not keep theirs."""
    symbol = "adjit_direct_call"
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="small", jit=True)
    module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{call_text(symbol, release)}\n')
    module.verify()
    loaded = load(CompiledObject(machine.emit_object(module), symbol))
    return loaded, _MethodDef(b"run", loaded.address, _NO_ARGUMENTS, None)


class _Block(np.ndarray):
    """The `self` of a builtin; `kept` lives as long as it does."""

    kept: Any


def make_direct_call(function: int, cells: Sequence[ctypes.c_void_p], numbers: Sequence[int], release: bool,
                     keep: object) -> Callable[[], None]:
    """A function without arguments that calls the code at that address, `void f(POINTERS pointers, NUMBERS int64)`.

    `keep` is kept alive as long as the function. Only where `available()`.
    """
    assert len(cells) == POINTERS
    assert len(numbers) == NUMBERS
    _, definition = _builtin(release)
    block = np.array([function, *(ctypes.addressof(cell) for cell in cells), *numbers], np.int64).view(_Block)
    block.kept = (keep, tuple(cells))
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    builtin: Callable[[], None] = new(ctypes.addressof(definition), block, None)
    return builtin
