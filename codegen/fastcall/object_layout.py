"""Layout of Python's and NumPy's objects: field offsets for machine code, and a check that they hold in this process."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache, partial
from types import CellType, MemberDescriptorType
from typing import Any

import numpy as np

TYPE = 8
"""Offset of an object's type pointer."""

SIZE, ITEMS = 16, 24
"""Offsets in tuples, lists and dicts: the number of items; a tuple's items, or the address of a list's items."""

CELL = 16
"""Offset of a closure cell's content."""

FUNCTION = {"__code__": 48, "__defaults__": 56, "__kwdefaults__": 64}
"""Offsets in a Python function."""

PARTIAL = {"func": 16, "args": 24, "keywords": 32}
"""Offsets in a `functools.partial`."""

NUMBER = 16
"""Offset of the value in a Python float and in NumPy's scalars."""

DATA, RANK, SHAPE, STRIDES, BASE, DESCR, FLAGS = 16, 24, 32, 40, 48, 56, 64
"""Offsets in an array."""

NATIVE_ORDER, TYPE_NUMBER = 26, 28
"""Offsets in a dtype: its byte order (one character), and its type number."""

CONTIGUOUS, F_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x2, 0x100, 0x400

API = {"PyArray_Type": 2, "PyArray_Scalar": 60, "PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}
"""Indices in the table of NumPy's C functions; the same in all of 2.x."""


@cache
def known() -> bool:
    """True if this is CPython with the GIL, on x86-64 Linux, and every field has the offset that the constants of this module give."""
    free_threaded = "t" in getattr(sys, "abiflags", "")
    if sys.implementation.name != "cpython" or free_threaded or object.__basicsize__ != SIZE:
        return False
    if not (sys.platform == "linux" and platform.machine() == "x86_64" and np.__version__.startswith("2.")):
        return False
    return _containers() and _numbers() and all(map(_array, _probes())) and numpy_function("PyArray_Type") == id(np.ndarray)


def numpy_function(name: str) -> int:
    """The address of a function, or an object, of NumPy's C interface."""
    return int(_table()[API[name]] or 0)


@cache
def _table() -> Any:
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]    # not in NumPy 1

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))


def word(address: int) -> int:
    """The word at an address."""
    return ctypes.c_int64.from_address(address).value


def slot_offset(slot: MemberDescriptorType) -> int:
    """Offset of a class's slot in its objects."""
    return word(word(id(slot) + 40) + 16)


def _containers() -> bool:
    items: list[Any] = [[], (), {}]
    frozen, table, cell = tuple(items), dict.fromkeys(range(3)), CellType(items)
    lists = word(id(items) + ITEMS)
    return word(id(items) + TYPE) == id(list) and word(id(items) + SIZE) == word(id(frozen) + SIZE) == word(id(table) + SIZE) == 3 and \
        [word(lists + 8 * i) for i in range(3)] == [word(id(frozen) + ITEMS + 8 * i) for i in range(3)] == [*map(id, items)] and \
        word(id(cell) + CELL) == id(items) and _attributes()


def _attributes() -> bool:
    class Slotted:
        __slots__ = ("first", "second")

    def function(first: int = 1, *, second: int = 2) -> None:
        pass

    bound = partial(function, 1, second=2)
    slotted: Any = Slotted()
    items: list[Any] = []
    slotted.second = items
    return all(word(id(function) + offset) == id(getattr(function, name)) for name, offset in FUNCTION.items()) and \
        all(word(id(bound) + offset) == id(getattr(bound, name)) for name, offset in PARTIAL.items()) and \
        word(id(slotted) + slot_offset(Slotted.second)) == id(items) and not word(id(slotted) + slot_offset(Slotted.first))  # type: ignore


def _numbers() -> bool:
    kinds = (np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint8, np.bool_)
    values: list[np.generic] = [kind(3) for kind in kinds]
    return ctypes.c_double.from_address(id(0.1) + NUMBER).value == 0.1 and all(
        ctypes.string_at(id(value) + NUMBER, value.nbytes) == value.tobytes() for value in values)


def _probes() -> list[np.ndarray]:
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    locked = np.zeros(3)
    locked.flags.writeable = False
    odd = np.zeros(9, np.uint8)[1:].view(np.float64)
    return [base, base[1], base[:, ::2], base.T, np.zeros(()), np.empty((0, 3)), np.zeros(5, np.bool_), np.zeros(2, ">i4"), locked, odd]


def _array(array: np.ndarray) -> bool:
    address, flags = id(array), array.flags
    rank, shape, strides = ctypes.c_int32.from_address(address + RANK).value, word(address + SHAPE), word(address + STRIDES)
    number = ctypes.c_int32.from_address(id(array.dtype) + TYPE_NUMBER).value
    order = ctypes.string_at(id(array.dtype) + NATIVE_ORDER, 1).decode()
    wanted = flags.c_contiguous * CONTIGUOUS | flags.f_contiguous * F_CONTIGUOUS | flags.aligned * ALIGNED | flags.writeable * WRITEABLE
    found = ctypes.c_int32.from_address(address + FLAGS).value & (CONTIGUOUS | F_CONTIGUOUS | ALIGNED | WRITEABLE)
    return (word(address + TYPE), word(address + DATA), word(address + DESCR)) == (id(np.ndarray), array.ctypes.data, id(array.dtype)) and \
        word(address + BASE) == (0 if array.base is None else id(array.base)) and \
        [(word(shape + 8 * i), word(strides + 8 * i)) for i in range(rank)] == [*zip(array.shape, array.strides, strict=True)] and \
        found == wanted and \
        (number, order) == (array.dtype.num, array.dtype.byteorder)
