"""Type rules that many op records share, and the checks from which other rules are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.types import BOOL, I64, Shape, TensorType, dtype_kind

FLOAT, COMPLEX, INEXACT, INTEGER, REAL, NUMBER, ANY = "f", "c", "fc", "iu", "iuf", "iufc", "biufc"
"""Classes of dtypes, by the letters of `dtype.kind`."""

_CLASS_NAMES = {
    FLOAT: "a float", COMPLEX: "a complex", INEXACT: "a float or complex", INTEGER: "an integer", REAL: "an integer or float",
    NUMBER: "an integer, float or complex", ANY: "a", "b": "the bool", "biu": "the bool or an integer",
    "biuf": "the bool, an integer or float",
}


def require(type: TensorType, kinds: str) -> None:
    """Raise `DTypeError` unless the dtype is of one of `kinds`."""
    if dtype_kind(type.dtype) not in kinds:
        raise DTypeError(f"{_CLASS_NAMES[kinds]} dtype is needed, got {type}", hint="convert the operand with .astype first")


def require_dtype(first: TensorType, other: TensorType) -> None:
    """Raise `DTypeError` unless both have the same dtype."""
    if other.dtype is not first.dtype and other.dtype != first.dtype:
        raise DTypeError(f"operands of different dtypes: {first} and {other}")


def require_same(*types: TensorType) -> None:
    """Raise `ShapeError` or `DTypeError` unless all types are equal."""
    first = types[0]
    for other in types:
        if other is first:
            continue
        if other.shape != first.shape:
            raise ShapeError(f"operands of different shapes: {first} and {other}")
        require_dtype(first, other)


def require_indices(indices: TensorType) -> None:
    """Raise `DTypeError` unless `indices` is i64."""
    if indices.dtype != I64:
        raise DTypeError(f"indices have to be i64, got {indices}")


def require_axis(axis: int, type: TensorType) -> None:
    """Raise `ShapeError` unless `axis` is one of the dimensions, counted from 0."""
    if not 0 <= axis < type.rank:
        raise ShapeError(f"axis {axis} is out of range for {type}")


def require_axes(axes: Sequence[int], type: TensorType) -> None:
    """Raise `ShapeError` unless `axes` are dimensions, counted from 0, each named once and in order."""
    for axis in axes:
        require_axis(axis, type)
    if list(axes) != sorted(set(axes)):
        raise ShapeError(f"axes have to be increasing, got {tuple(axes)}")


def require_length(type: TensorType, **sequences: Sequence[int]) -> None:
    """Raise `ShapeError` unless every sequence has one entry a dimension."""
    for name, sequence in sequences.items():
        if len(sequence) != type.rank:
            raise ShapeError(f"{name} {tuple(sequence)} needs {type.rank} entries for {type}")


def same_as_operands(kinds: str) -> Callable[..., TensorType]:
    """Type rule of most elementwise ops: operands of one type, of a dtype of `kinds`, and a result of the same type."""
    def infer(*types: TensorType) -> TensorType:
        require_same(*types)
        require(types[0], kinds)
        return types[0]
    return infer


def to_bool(kinds: str) -> Callable[..., TensorType]:
    """Type rule of predicates: operands of one type, and bools of the same shape."""
    def infer(*types: TensorType) -> TensorType:
        require_same(*types)
        require(types[0], kinds)
        return types[0].with_dtype(BOOL)
    return infer


def drop_axes(shape: Shape, axes: Sequence[int]) -> Shape:
    """`shape` without `axes`."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def require_number(value: complex, dtype: np.dtype) -> None:
    """Raise `DTypeError` unless `value` is a Python number that `dtype` can hold."""
    if type(value) is complex and dtype.kind == "c":
        return
    if type(value) not in (bool, int, float):
        raise DTypeError(f"a number of an attribute has to be a Python bool, int or float, or complex for a complex dtype, got {value!r}")
    assert not isinstance(value, complex)
    if dtype.kind == "b" and value not in (0, 1):
        raise DTypeError(f"bool has no {value!r}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max or value != int(value):
            raise DTypeError(f"{dtype} has no {value!r}")
