"""Tensor types: a dtype and a shape, and their text form `f32[32,784]`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import DTypeError

Shape = tuple[int, ...]

SHORT_NAMES: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128),
}
_NAME_OF: dict[np.dtype, str] = {dtype: name for name, dtype in SHORT_NAMES.items()}

BOOL = SHORT_NAMES["bool"]
I32 = SHORT_NAMES["i32"]
I64 = SHORT_NAMES["i64"]
U32 = SHORT_NAMES["u32"]
U64 = SHORT_NAMES["u64"]
F32 = SHORT_NAMES["f32"]
F64 = SHORT_NAMES["f64"]
C64 = SHORT_NAMES["c64"]
C128 = SHORT_NAMES["c128"]


def short_name(dtype: np.dtype) -> str:
    """`f32` for `np.dtype('float32')`; raises `DTypeError` for a dtype outside the IR.

    >>> short_name(np.dtype('int64'))
    'i64'
    """
    try:
        return _NAME_OF[dtype]
    except KeyError:
        raise unsupported_dtype(dtype) from None


def unsupported_dtype(dtype: np.dtype) -> DTypeError:
    """Error for an array whose dtype the IR does not have."""
    return DTypeError(
        f"dtype {dtype} is not supported",
        hint="supported: bool, (u)int8 to (u)int64, float32, float64, complex64, complex128; convert the array with .astype first")


def in_native_order(dtype: np.dtype) -> np.dtype:
    """Dtype in native byte order; a dtype without byte order, such as NumPy's variable-width strings, is returned unchanged."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def check_dtype(dtype: np.dtype) -> np.dtype:
    """`dtype` in native byte order; raises `DTypeError` if the IR has no such dtype."""
    name = _NAME_OF.get(in_native_order(dtype))
    if name is None:
        raise unsupported_dtype(dtype)
    return SHORT_NAMES[name]        # NumPy has several 64-bit dtypes that are equal but different objects


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f"


def is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c"


def is_inexact(dtype: np.dtype) -> bool:
    """True for floats and complex numbers: what has derivatives."""
    return dtype.kind in "fc"


def real_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of the parts of complex numbers; any other dtype is returned unchanged.

    >>> real_dtype(C64)
    dtype('float32')
    """
    return {C64: F32, C128: F64}.get(dtype, dtype)


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of complex numbers whose parts have a float dtype.

    >>> complex_dtype(F64)
    dtype('complex128')
    """
    return {F32: C64, F64: C128}[dtype]


def is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iu"


@dataclass(frozen=True, slots=True)
class TensorType:
    """Type of a value: dtype and static shape.

    >>> str(TensorType(np.dtype('float32'), (32, 784)))
    'f32[32,784]'
    """

    dtype: np.dtype
    shape: Shape
    size: int = field(init=False, compare=False, repr=False)
    """Number of elements."""
    nbytes: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:        # size and hash are read far more often than types are made
        size = 1
        for length in self.shape:       # `math.prod` asks each time whether a function is being traced
            size *= length
        _put_size(self, size)
        _put_nbytes(self, size * self.dtype.itemsize)

    def __eq__(self, other: object) -> bool:
        """Equality, written out for speed, as is the hash: keys of ops contain many types."""
        return self is other or (isinstance(other, TensorType) and self.shape == other.shape and self.dtype == other.dtype)

    def __hash__(self) -> int:
        return hash(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def with_shape(self, shape: Iterable[int]) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: np.dtype) -> TensorType:
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"


_put_size, _put_nbytes = (vars(TensorType)[name].__set__ for name in ("size", "nbytes"))
