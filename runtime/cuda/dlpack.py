"""Arrays of a card for other libraries, and theirs for programs, by DLPack: the same memory, and streams that wait for each other.

A consumer names its stream, and the producer has it wait for what it has launched. When a consumer gives memory back, what it has launched
on that stream may still use it, so our stream waits for that before the memory is given out again.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any

import numpy as np

from adjit.ir.errors import DTypeError, UnsupportedError
from adjit.ir.types import TensorType, is_half
from adjit.runtime.cuda.device_array import Buffer, DeviceArray
from adjit.runtime.cuda.devices import AnyDriver
from adjit.runtime.cuda.driver import Driver
from adjit.tracer.array_checks import check_array
from adjit.tracer.lowering import contiguous_strides
from adjit.tracer.user_location import find_user_location

CUDA = 2
"""DLPack's number of NVIDIA GPUs."""

LEGACY, PER_THREAD, NO_STREAM = 1, 2, -1
"""Streams that a consumer may name: the two default ones of a process, and none to wait for."""

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_Deleter = CFUNCTYPE(None, c_void_p)


class _Tensor(Structure):
    _fields_ = (("data", c_void_p), ("kind", c_int32), ("number", c_int32), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8),
                ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64))


class _Managed(Structure):
    """`DLManagedTensor`, in capsules named "dltensor"."""

    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _Versioned(Structure):
    """`DLManagedTensorVersioned`, in capsules named "dltensor_versioned"."""

    _fields_ = (("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", _Tensor))


_KINDS: dict[bytes, type[Structure]] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_exported: dict[int, tuple[Any, ...]] = {}     # what consumers hold: structure, shape, array, stream
_numbers = itertools.count(1)
_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _api))
_name_of = ctypes.PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", _api))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", _api))
_is_valid = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_address_in = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))
_USED = {name: b"used_" + name for name in _KINDS}     # capsules keep a pointer to their name


def capsule(array: DeviceArray, stream: int | None, versioned: bool) -> Any:
    """A capsule of an array's memory. `stream` is the consumer's: it waits for what computes the array; -1 if it needs not, None for the
    default stream."""
    driver = array.driver
    if not isinstance(driver, Driver):
        raise BufferError("arrays of the emulated device are not in the memory of a card")
    if stream == 0:
        raise BufferError("stream 0 is ambiguous: 1 is the default stream of a process, 2 that of a thread")
    stream = LEGACY if stream is None else stream
    if stream not in (NO_STREAM, driver.stream):
        driver.let_wait(stream)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    shape = (c_int64 * max(2 * array.ndim, 1))(*array.shape, *contiguous_strides(array.shape))
    strides = ctypes.cast(ctypes.addressof(shape) + 8 * array.ndim, POINTER(c_int64))
    code = _BFLOAT if is_half(array.dtype) and array.dtype.kind == "V" else _CODES[array.dtype.kind]
    tensor = _Tensor(array.address if array.size else 0, CUDA, driver.number, array.ndim, code, 8 * array.dtype.itemsize, 1,
                     ctypes.cast(shape, POINTER(c_int64)), strides, 0)
    number, deleter = next(_numbers), ctypes.cast(_give_back_versioned if versioned else _give_back, c_void_p)
    made = _Versioned(1, 0, number, deleter, 0, tensor) if versioned else _Managed(tensor, number, deleter)
    _exported[number] = made, shape, array, stream
    return _new(ctypes.addressof(made), name, ctypes.cast(_unused, c_void_p))


def _release(number: int) -> None:
    _, _, array, stream = _exported.pop(number)
    if stream not in (NO_STREAM, array.driver.stream):
        array.driver.wait_for(stream)


@_Deleter
def _give_back(address: int) -> None:
    _release(_Managed.from_address(address).context)


@_Deleter
def _give_back_versioned(address: int) -> None:
    _release(_Versioned.from_address(address).context)


@_Deleter
def _unused(address: int) -> None:
    """Free what a capsule holds that no consumer took."""
    for name, kind in _KINDS.items():
        if _is_valid(address, name):
            made: Any = kind.from_address(_address_in(address, name))
            _release(made.context)


class Borrowed(Buffer):
    """Memory that another library owns: it gets it back with the last user here."""

    __slots__ = ("__weakref__",)

    def __init__(self, driver: AnyDriver, address: int, give_back: Any):
        self.driver, self.address, self.owner = driver, address, None
        weakref.finalize(self, _return, driver, give_back).atexit = False


def _return(driver: AnyDriver, give_back: Any) -> None:
    driver.synchronize()        # the owner may give the memory out again at once
    give_back()


def borrowed(value: Any, driver: AnyDriver, what: str) -> DeviceArray:
    """An array on the memory of an array of another library, in that of a card. Our stream waits for what computes it.

    Raises `UnsupportedError` for an array that is not contiguous, or on another card; `DTypeError` for elements that programs do not have.
    `what` names it in messages.
    """
    number = value.__dlpack_device__()[1]
    if driver.stream is None or number != driver.number:
        raise UnsupportedError(f"{what} is in the memory of card {number}, and programs run on the {driver.name}", find_user_location(),
                               hint="copy it to the CPU first")
    held = value.__dlpack__(stream=driver.stream)
    name = _name_of(held)
    made: Any = _KINDS[name].from_address(_pointer_of(held, name))
    tensor, delete = made.tensor, _Deleter(made.deleter) if made.deleter else None
    _rename(held, _USED[name])       # from now on it is ours to give back
    address = ctypes.addressof(made)
    buffer = Borrowed(driver, (tensor.data or 0) + tensor.byte_offset, lambda: delete and delete(address))
    shape = tuple(tensor.shape[:tensor.ndim])
    if tensor.strides and 0 not in shape and any(size > 1 and step != packed for size, step, packed in zip(
            shape, tensor.strides[:tensor.ndim], contiguous_strides(shape), strict=True)):
        raise UnsupportedError(f"{what} is not contiguous, as programs on a card read arrays", find_user_location(),
                               hint="pass a contiguous copy: x.contiguous()")
    kind = next((kind for kind, code in _CODES.items() if code == tensor.code), None)
    if kind is None or tensor.lanes != 1:
        raise DTypeError(f"{what} has elements that programs do not have", find_user_location(), hint="convert it first")
    dtype = np.dtype(np.bool_) if kind == "b" else np.dtype(f"{kind}{tensor.bits // 8}")
    check_array(np.empty(0, dtype), what, find_user_location())
    return DeviceArray(buffer, TensorType(dtype, shape))
