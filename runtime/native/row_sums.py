"""Calls of the machine code that adds the rows of float32 matrices (`codegen/native/row_sums.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

from adjit.codegen.native.row_sums import compile_row_sums, row_sums_text
from adjit.runtime.arena import data_address
from adjit.runtime.native.background_code import BackgroundCode

_CODE = BackgroundCode(row_sums_text, compile_row_sums)


@cache
def _function() -> Callable[[int, int, int, int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(_CODE.get().address)


def sum_rows(x: np.ndarray, sums: np.ndarray) -> None:
    """Write the sums of the rows of `x` to `sums`: the elements of `x`, in their order, are as many rows as `sums` has elements. Both are
    contiguous float32 arrays that are not empty."""
    _function()(data_address(x), data_address(sums), sums.size, x.size // sums.size)
