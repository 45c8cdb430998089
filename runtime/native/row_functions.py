"""Calls of machine code for the rows of matrices (`codegen/native/row_functions.py`). Arrays are contiguous, unless a function says
where its rows lie, and not empty."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from adjit.codegen.native.row_functions import (
    MANY,
    TOGETHER,
    additions_text,
    compile_rows,
    extrema_text,
    fill_text,
    indexed_text,
    products_text,
    scan_text,
    slices_text,
    sums_text,
)
from adjit.runtime.arena import data_address
from adjit.runtime.native.background_code import BackgroundCode
from adjit.runtime.native.code import native_target

_FLOATS = {"f": "float", "d": "double"}


@cache
def _function(text: Callable[..., str], arrays: int, numbers: int, *arguments: object) -> Callable[..., int]:
    code = BackgroundCode(partial(text, *arguments), compile_rows)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * arrays, *[ctypes.c_int64] * numbers)(code.get().address)


def sum_rows(x: np.ndarray, sums: np.ndarray, length: int, stride: int) -> None:
    """Write the sums of rows of `length` elements to `sums`: the rows begin `stride` elements apart in the memory of `x`. Both are float32.
    """
    _function(sums_text, 2, 3, native_target().name)(data_address(x), data_address(sums), sums.size, length, stride)


def sum_slices(x: np.ndarray, sums: np.ndarray, slices: int) -> None:
    """Write the sums of `slices` slices, one behind the other in the memory of `x`, to each row of `sums`. Both are float32."""
    _function(slices_text, 2, 3, native_target().name)(data_address(x), data_address(sums), len(sums), slices, sums.shape[1])


def extrema_rows(better: str, x: np.ndarray, results: np.ndarray) -> bool:
    """Write the largest ("ogt") or smallest ("olt") elements of the rows of `x`, float32 as for `sum_rows`; False if one is NaN."""
    return not _function(extrema_text, 2, 2, better)(data_address(x), data_address(results), results.size, x.size // results.size)


def fill(x: np.ndarray, value: np.ndarray) -> bool:
    """Fill a contiguous array with an array of one element; False if elements have neither 4 nor 8 bytes, or lie at odd places."""
    if x.itemsize not in (4, 8) or data_address(x) % 8:
        return False
    word = int.from_bytes(value.tobytes() * (8 // x.itemsize), "little", signed=True)
    _function(fill_text, 1, 2, native_target().name)(data_address(x), word, x.nbytes)
    return True


def scan_rows(combine: str, x: np.ndarray, results: np.ndarray, length: int, reverse: bool) -> bool:
    """Write running results of rows of `length` floats, or the last ones of all rows, by "fadd" or "fmul"; False for too few rows."""
    rows = x.size // length
    if rows < TOGETHER:
        return False
    if results.size != x.size and combine == "fmul" and rows >= MANY:
        _function(products_text, 2, 2, _FLOATS[x.dtype.char], native_target().name)(data_address(x), data_address(results), rows, length)
        return True
    function = _function(scan_text, 2, 4, combine, _FLOATS[x.dtype.char], results.size == x.size)
    function(data_address(x), data_address(results), rows, length, length - 1 if reverse else 0, -1 if reverse else 1)
    return True


def at_indices(x: np.ndarray, indices: np.ndarray, elements: np.ndarray, adds: bool) -> bool:
    """Take `elements` of the rows of `x` at `indices` (int64), or add them there; False if an index is out of range."""
    type = _FLOATS[x.dtype.char] if adds else f"i{8 * x.itemsize}"
    length, count = x.shape[-1], indices.shape[-1]
    return not _function(indexed_text, 3, 3, type, adds)(
        data_address(x), data_address(indices), data_address(elements), x.size // length, length, count)


def add_rows(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int) -> bool:
    """Add updates of any layout to the slices of `x` along `axis` at indices that were checked; False if there is no machine code for
    these arrays."""
    char = x.dtype.char
    if char not in _FLOATS or updates.dtype != x.dtype or not x.flags.carray:
        return False
    updates, indices = np.ascontiguousarray(updates), np.ascontiguousarray(indices, np.int64)
    if not (updates.flags.aligned and indices.flags.aligned):
        return False
    slices, outer = x.shape[axis], math.prod(x.shape[:axis])
    _function(additions_text, 3, 4, _FLOATS[char])(data_address(x), data_address(indices), data_address(updates), outer, indices.size,
                                                   slices, x.size // (slices * outer))
    return True
