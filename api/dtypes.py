"""Dtypes by PyTorch's names, `adjit.float32`, `adjit.long`: NumPy's dtypes themselves, for every argument that takes a dtype; and orders
in memory.

>>> import adjit as aj
>>> aj.tensor([1, 2], dtype=aj.float32).dtype == aj.float
True
>>> np.zeros(2, aj.float64).dtype is aj.double
True

Names of Python's types are attributes only, not exported by `from adjit import *`.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np

from adjit.ir.types import bfloat16 as _bfloat16

float64 = double = np.dtype(np.float64)
float32 = float = np.dtype(np.float32)
float16 = half = np.dtype(np.float16)
complex128 = cdouble = np.dtype(np.complex128)
complex64 = cfloat = np.dtype(np.complex64)
int64 = long = np.dtype(np.int64)
int32 = int = np.dtype(np.int32)
int16 = short = np.dtype(np.int16)
int8 = np.dtype(np.int8)
uint64 = np.dtype(np.uint64)
uint32 = np.dtype(np.uint32)
uint16 = np.dtype(np.uint16)
uint8 = np.dtype(np.uint8)
bool = np.dtype(np.bool_)
bfloat16: np.dtype[Any]
dtype = np.dtype        # the class of all dtypes, for `isinstance`
channels_last, channels_last_3d, contiguous_format, preserve_format, strided = (
    "channels_last", "channels_last_3d", "contiguous_format", "preserve_format", "strided")
"""Names of orders in memory, for `memory_format=` and `layout=`: elements lie in rows here, whatever is asked for."""


def __getattr__(name: str) -> Any:
    """Return the dtype of the package ml_dtypes; where it is not installed the name alone, which is refused where it is used."""
    if name == "bfloat16":
        return _bfloat16() if find_spec("ml_dtypes") is not None else "bfloat16"
    raise AttributeError(f"module 'adjit.dtypes' has no attribute {name!r}")
