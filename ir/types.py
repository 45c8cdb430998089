"""Tensor types: a dtype and a shape, and their text form `f32[32,784]`.

bfloat16 is the dtype of the package ml_dtypes, which is loaded where the dtype is first asked for: `BF16` has no constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import DTypeError

Shape = tuple[int, ...]


class _ShortNames(dict[str, np.dtype]):
    """Dtypes by short name; `bf16` is added where it is first asked for."""

    def __missing__(self, name: str) -> np.dtype:
        if name != "bf16":
            raise KeyError(name)
        return bfloat16()

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name == "bf16"


SHORT_NAMES: dict[str, np.dtype] = _ShortNames({
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128),
})
HALVES = ("f16", "bf16")
"""Short names of the dtypes that are stored in 16 bits and computed in float32."""

_NAME_OF: dict[np.dtype, str] = {dtype: name for name, dtype in SHORT_NAMES.items()}

BOOL = SHORT_NAMES["bool"]
I32 = SHORT_NAMES["i32"]
I64 = SHORT_NAMES["i64"]
U32 = SHORT_NAMES["u32"]
U64 = SHORT_NAMES["u64"]
F16 = SHORT_NAMES["f16"]
F32 = SHORT_NAMES["f32"]
F64 = SHORT_NAMES["f64"]
C64 = SHORT_NAMES["c64"]
C128 = SHORT_NAMES["c128"]

LARGEST_INTEGER = 1 << 52
"""Largest absolute value of a Python integer that is an input of a program: it and small sums of such are exact as floats."""


SUPPORTED_DTYPES = "bool, (u)int8 to (u)int64, float16, bfloat16, float32, float64, complex64, complex128"


def bfloat16() -> np.dtype:
    """The dtype bfloat16 of ml_dtypes; raises `DTypeError` if the package is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        raise DTypeError("bfloat16 is a dtype of the package ml_dtypes, which is not installed",
                         hint="pip install adjit[bfloat16]") from None
    dtype: np.dtype = np.dtype(ml_dtypes.bfloat16)
    SHORT_NAMES["bf16"] = dtype
    _NAME_OF[dtype] = "bf16"
    return dtype


def _name_of(dtype: np.dtype) -> str | None:
    name = _NAME_OF.get(dtype)
    if name is None and dtype.type.__name__ == "bfloat16" and dtype == bfloat16():
        return "bf16"
    return name


def short_name(dtype: np.dtype) -> str:
    """`f32` for `np.dtype('float32')`; raises `DTypeError` for a dtype outside the IR.

    >>> short_name(np.dtype('int64'))
    'i64'
    """
    name = _NAME_OF.get(dtype) or _name_of(dtype)
    if name is None:
        raise unsupported_dtype(dtype)
    return name


def unsupported_dtype(dtype: np.dtype) -> DTypeError:
    """Error for an array whose dtype the IR does not have."""
    remedy = "" if dtype.kind in "SUV" else "; convert the array with .astype first"
    return DTypeError(f"dtype {dtype} is not supported", hint=f"supported: {SUPPORTED_DTYPES}{remedy}")


def in_native_order(dtype: np.dtype) -> np.dtype:
    """Dtype in native byte order; a dtype without byte order, such as NumPy's variable-width strings, is returned unchanged."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def is_supported(dtype: np.dtype) -> bool:
    """True if the IR has this dtype, in native byte order."""
    return _name_of(in_native_order(dtype)) is not None


def check_dtype(dtype: np.dtype) -> np.dtype:
    """`dtype` in native byte order; raises `DTypeError` if the IR has no such dtype."""
    name = _name_of(in_native_order(dtype))
    if name is None:
        raise unsupported_dtype(dtype)
    return SHORT_NAMES[name]        # NumPy has several 64-bit dtypes that are equal but different objects


def is_half(dtype: np.dtype) -> bool:
    """True for float16 and bfloat16, which are stored as they are and computed in float32."""
    return dtype.itemsize == 2 and dtype_kind(dtype) == "f"


def converts_at_once(source: np.dtype, target: np.dtype) -> bool:
    """True if there is one op for this conversion: halves are converted from and to f32, and f64 to f16, which rounds once as in NumPy."""
    if is_half(source):
        return target == F32
    return not is_half(target) or source == F32 or (source == F64 and target == F16)


def dtype_kind(dtype: np.dtype) -> str:
    """`dtype.kind`, and `f` for bfloat16, whose kind is that of plain bytes in NumPy."""
    kind = dtype.kind
    return "f" if kind == "V" and dtype.type.__name__ == "bfloat16" else kind


def float_limits(dtype: np.dtype) -> Any:
    """`np.finfo`, or that of ml_dtypes for bfloat16, which NumPy does not know."""
    if dtype.kind != "V":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)      # type: ignore[no-untyped-call]


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or is_half(dtype)


def is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c"


def is_inexact(dtype: np.dtype) -> bool:
    """True for floats and complex numbers: what has derivatives."""
    return dtype.kind in "fc" or is_half(dtype)


def real_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of the parts of complex numbers; any other dtype is returned unchanged.

    >>> real_dtype(C64)
    dtype('float32')
    """
    return {C64: F32, C128: F64}.get(dtype, dtype)


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of complex numbers whose parts have a float dtype, or that of the smallest ones that hold it.

    >>> complex_dtype(F64), complex_dtype(F16)
    (dtype('complex128'), dtype('complex64'))
    """
    return C128 if dtype == F64 else C64


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
    is_half: bool = field(init=False, compare=False, repr=False)
    """True for float16 and bfloat16."""

    def __post_init__(self) -> None:        # size and hash are read far more often than types are made
        size = 1
        for length in self.shape:       # `math.prod` asks each time whether a function is being traced
            size *= length
        _put_size(self, size)
        _put_nbytes(self, size * self.dtype.itemsize)
        _put_is_half(self, is_half(self.dtype))

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


_put_size, _put_nbytes, _put_is_half = (vars(TensorType)[name].__set__ for name in ("size", "nbytes", "is_half"))
