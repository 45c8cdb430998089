"""Small functions of arrays as machine code: their table, made once they were called some times, and the routine that goes through it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.fastcall import object_layout
from adjit.codegen.numpy.chunks import Program
from adjit.codegen.numpy.graph_function import NumpyFunction
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import TensorType
from adjit.runtime.arena import data_address
from adjit.runtime.native.background_code import BackgroundCode, make_immortal

if TYPE_CHECKING:
    from adjit.codegen.fastcall import step_routine
    from adjit.codegen.numpy import steps
else:
    step_routine = LazyModule("adjit.codegen.fastcall.step_routine")
    steps = LazyModule("adjit.codegen.numpy.steps")

_FASTCALL = 0x80


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def start(is_at_once: bool = False) -> None:
    """Compile the routine in the background, or find it on disk; wait for it if it is wanted `is_at_once`."""
    if not object_layout.known():
        return
    if is_at_once:
        _code().get()
    else:
        _code().start()


def step_function(function: NumpyFunction, single: bool, is_at_once: bool = False) -> Callable[..., Any] | None:
    """What computes the same as `run` of a function, or `run_single`: one of them where the function stays in Python; None while the
    routine is compiled, unless it is wanted `is_at_once`. Results for some arrays are compared."""
    if not object_layout.known() or function.calls_host:
        return function.run_single if single else function.run
    if is_at_once:
        start(is_at_once)
    if _code().loaded is None:
        return None
    run = function.run_single if single else function.run
    if function.is_view:
        is_strided = not any(isinstance(thing, partial) for thing in function.bound.values()) and "reshape" not in function.text
        table = steps.view_table(function.run_single, function.params[0], function.results[0], single, is_strided)
        made = None if table is None else _bound(run, table)
        return made if made is not None and _agree_on_views(made, run, function.params[0], is_strided) else run
    if isinstance(function.run, Program):
        table = steps.program_table(function.run, function.params, function.weak, function.results, single) if function.is_quick else None
        return run if table is None else _bound(run, table)
    table = steps.table_of(function.run, function.text, function.bound, function.params, function.weak, function.results, single)
    if table is None:
        return run
    made = _bound((lambda *arrays: function.run(*arrays)[0]) if single else run, table)
    return made if _agrees(made, run, function.params, function.weak) else run


@cache
def _code() -> BackgroundCode:
    return BackgroundCode(lambda: step_routine.step_routine_text(), lambda text: step_routine.compile_step_routine(text))


@cache
def _routine() -> tuple[Any, int]:
    """What makes functions of Python's, and the address of the description of the routine."""
    loaded = _code().loaded
    assert loaded is not None
    method = _Method(b"run", loaded.address, _FASTCALL, b"Results of a small function of arrays.")
    make_immortal(method)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(("PyCFunction_NewEx", ctypes.pythonapi))
    return make, ctypes.addressof(method)


def _bound(run: Callable[..., Any], table: Any) -> Callable[..., Any]:
    objects = (run, data_address(table.words), np.ndarray, float, object_layout.numpy_function("PyArray_NewFromDescr"),
               object_layout.numpy_function("PyArray_SetBaseObject"), table)
    make, method = _routine()
    return make(method, objects, None)      # type: ignore[no-any-return]


def _agrees(made: Callable[..., Any], run: Callable[..., Any], params: tuple[TensorType, ...], weak: frozenset[int]) -> bool:
    """True if results for some arrays have the bits of those in Python."""
    draw = np.random.default_rng(0)
    arrays = [0.75 if index in weak else draw.normal(0.5, 1, type.shape).astype(type.dtype) if type.dtype.kind == "f" else
              draw.integers(0, 2, type.shape).astype(type.dtype) for index, type in enumerate(params)]
    with np.errstate(all="ignore"):
        try:
            ours, theirs = made(*arrays), run(*arrays)
        except IndexError:
            return True
    ours, theirs = (found if isinstance(found, tuple) else (found,) for found in (ours, theirs))
    return all(np.shape(one) == np.shape(other) and np.asarray(one).tobytes() == np.asarray(other).tobytes()
               for one, other in zip(ours, theirs, strict=True))


def _agree_on_views(made: Callable[..., Any], run: Callable[..., Any], param: TensorType, is_strided: bool) -> bool:
    """True if views of arrays of some layouts are the same."""
    locked = steps.laid_out(param)
    locked.flags.writeable = False
    arrays = [locked, *([steps.laid_out(param, 2)[::-1]] if is_strided and param.rank else [])]
    pairs = [[found[0] if isinstance(found, tuple) else found for found in (made(array), run(array))] for array in arrays]
    return all(ours.base is theirs.base and (ours.__array_interface__, ours.strides, ours.flags) == (
        theirs.__array_interface__, theirs.strides, theirs.flags) for ours, theirs in pairs)
