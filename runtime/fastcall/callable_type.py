"""Types of compiled functions that are called as machine code: their objects' calls go straight to the fast path.

    function = callable_type(CompiledFunction)(fun, compile_options)     # called in Python at first
    if fastcall_is_ready(type(function), threads):
        activate(function, record)                                  # from now on the fast path tries the programs of `record` first
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

from adjit.codegen.fastcall import object_layout
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.fastcall.descriptors import FunctionDescriptor
from adjit.runtime.native.background_code import BackgroundCode, make_immortal

if TYPE_CHECKING:
    from adjit.codegen.fastcall import compile_fastcall as entry
else:
    entry = LazyModule("adjit.codegen.fastcall.compile_fastcall")

_VECTORCALL, _RECORD, _BOUND = "_adjit_entry", "_adjit_record", "_adjit_bound"
_HAS_VECTORCALL, _BASE_TYPE = 1 << 11, 1 << 10
_MEMBERS = 72       # offset of a type's slot `tp_members`
_SIGNED_SIZE, _UNSIGNED = 19, 18     # kinds of members: Py_ssize_t, unsigned long long


class _Member(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("content", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("size", ctypes.c_int), ("item_size", ctypes.c_int), ("flags", ctypes.c_uint),
                ("slots", ctypes.POINTER(_Slot)))


@cache
def callable_type(base: type) -> type:
    """`base` with a field for the address of the fast path, which is called instead of `base.__call__` once it is activated.

    In a process without a fast path it is `base` itself.
    """
    if not object_layout.known():
        return base
    offset = base.__basicsize__
    members = (_Member * 5)(
        _Member(b"__vectorcalloffset__", _SIGNED_SIZE, offset, 1, None), _Member(_VECTORCALL.encode(), _UNSIGNED, offset, 0, None),
        _Member(_RECORD.encode(), _UNSIGNED, offset + 8, 0, None), _Member(_BOUND.encode(), _UNSIGNED, offset + 16, 0, None))
    slots = (_Slot * 2)(_Slot(_MEMBERS, ctypes.addressof(members)))
    name = f"{base.__module__}.{base.__qualname__}".encode()
    spec = _Spec(name, offset + 24, 0, _BASE_TYPE | _HAS_VECTORCALL, slots)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(("PyType_FromSpecWithBases", ctypes.pythonapi))
    made: type = make(ctypes.addressof(spec), (base,))
    made.__doc__ = base.__doc__
    make_immortal((members, slots, spec, name))
    return made


def fastcall_is_ready(kind: type, threads: int) -> bool:
    """True if objects of a `callable_type` can be activated. If not, the fast path is compiled in the background from now on.

    With one thread the result is True: the fast path is compiled at once.
    """
    code = _entry(kind)
    if threads == 1:
        code.get()
    else:
        code.start()
    return code.loaded is not None


def activate(function: Any, record: FunctionDescriptor, bound: object = None) -> None:
    """Direct calls of an object of a `callable_type`, as a method of `bound`, to the fast path. The object keeps `record` and `bound`
    alive."""
    address = _entry(type(function)).get().address
    object.__setattr__(function, _RECORD, record.address)
    if bound is not None:
        object.__setattr__(function, _BOUND, id(bound))
    object.__setattr__(function, _VECTORCALL, address)


def _entry(kind: type) -> BackgroundCode:
    """The fast path's code for a type. It stays until the process ends: arrays may give back their blocks at any time."""
    return _entry_at(kind.__basicsize__ - 16)


@cache
def _entry_at(field: int) -> BackgroundCode:
    return BackgroundCode(lambda: entry.fastcall_text(field), lambda text: entry.compile_fastcall(text))
