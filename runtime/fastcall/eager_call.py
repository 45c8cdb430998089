"""Machine code for calls on eager tensors that are known: compiled, or found on disk, once a program has run many of them."""

from __future__ import annotations

import ctypes
import inspect
import types
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.fastcall import object_layout
from adjit.eager.call import DYNAMIC_FLOATS, HASHABLE, Call, known_calls
from adjit.eager.modes import modes, switches
from adjit.eager.node import Node, SavedTensor, edge_of, next_sequence
from adjit.eager.size import Size
from adjit.eager.tensor import Tensor
from adjit.eager.views import View
from adjit.ir.lazy_module import LazyModule
from adjit.ir.thread_context import ThreadContext, thread
from adjit.runtime.fastcall import step_functions
from adjit.runtime.native.background_code import BackgroundCode, make_immortal

if TYPE_CHECKING:
    from adjit.codegen.fastcall import eager_call
else:
    eager_call = LazyModule("adjit.codegen.fastcall.eager_call")

_FASTCALL, _NEW = 0x82, 65      # METH_FASTCALL | METH_KEYWORDS, Py_tp_new


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def known_call(is_at_once: bool = False) -> Callable[..., Tensor | None] | None:
    """The function `known_call` of `codegen/fastcall/eager_call.py`; None while it is compiled in the background, unless it is wanted
    `is_at_once`, and in a process whose objects have another layout."""
    if not object_layout.known():
        return None
    code = _code()
    if is_at_once:
        code.get()
    else:
        code.start()
    step_functions.start(is_at_once)
    return None if code.loaded is None else _function()


@cache
def _code() -> BackgroundCode:
    return BackgroundCode(lambda: eager_call.eager_call_text(_slots()), lambda text: eager_call.compile_eager_call(text))


def _slots() -> dict[str, int]:
    classes = {kind.__name__: kind for kind in (Call, ThreadContext, View)}
    found = {}
    for name in eager_call.SLOTS:
        kind, slot = name.split(".")
        found[name] = object_layout.slot_offset(inspect.getattr_static(classes[kind], slot))
    return found


@cache
def _function() -> Callable[..., Tensor | None]:
    """The routine as a function of Python's. It stays until the process ends."""
    get_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(("PyType_GetSlot", ctypes.pythonapi))
    objects: dict[str, Any] = {
        "Tensor": Tensor, "View": View, "ndarray": np.ndarray, "dtype": np.dtype,
        "NoneType": types.NoneType, "ellipsis": types.EllipsisType,
        **{kind.__name__: kind for kind in (int, float, bool, str, tuple, Size, list, IndexError, RuntimeError)},
        **{name: name for name in ("array", "_writes", "_requires_grad", "_view", "_history", "context", "autocast", "grad", "anomaly",
                                   "run", "_node", "_index", "_accumulator", "operation", "edges", "saved", "sequence")},
        "Node": Node, "SavedTensor": SavedTensor, "edge_of": edge_of, "next_sequence": next_sequence, "modes": modes,
        "known_calls": known_calls, "dynamic": DYNAMIC_FLOATS, "hashable": HASHABLE, "thread": thread, "switches": switches,
        "no_items": (), "zero": 0, "new_object": get_slot(Tensor, _NEW)}
    table = tuple(objects[name] for name in eager_call.OBJECTS)
    loaded = _code().loaded
    assert loaded is not None
    method = _Method(b"known_call", loaded.address, _FASTCALL, b"Result of a known call that records nothing; None for others.")
    make_immortal((table, method))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(("PyCFunction_NewEx", ctypes.pythonapi))
    return make(ctypes.addressof(method), table, None)      # type: ignore[no-any-return]
