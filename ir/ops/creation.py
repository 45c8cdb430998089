"""Ops without operands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpCost, OpDefinition, Sample, define
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.graph import Value
from adjit.ir.ops.rules import REAL, require, require_axis, require_number
from adjit.ir.types import BOOL, F32, F64, I32, I64, U32, Shape, TensorType


@lru_cache(maxsize=1024)
def _checked(dtype: np.dtype, shape: Shape) -> TensorType:
    if any(size < 0 for size in shape):
        raise ShapeError(f"sizes cannot be negative, got {shape}")
    return TensorType(dtype, shape)


def _infer_constant(*, value: complex, dtype: np.dtype, shape: Shape) -> TensorType:
    require_number(value, dtype)
    return _checked(dtype, shape)


def _evaluate_constant(*, value: complex, dtype: np.dtype, shape: Shape) -> np.ndarray:
    if not shape and dtype.kind in "biuf" and dtype.isbuiltin == 1:
        scalar: np.ndarray = dtype.type(value)[...]     # a tenth of the time
        return scalar
    return np.full(shape, value, dtype)


def _constant_samples() -> Iterator[Sample]:
    for value in (0.0, -0.0, 0.1, float("inf"), -float("inf"), float("nan"), 7):
        yield Sample((), {"value": value, "dtype": F64, "shape": (2, 3)})
    yield Sample((), {"value": 0.1, "dtype": F32, "shape": ()})
    yield Sample((), {"value": -(2 ** 63), "dtype": I64, "shape": (0, 2)})
    yield Sample((), {"value": True, "dtype": BOOL, "shape": (2,)})


constant: OpDefinition = define(
    "constant", Kind.CREATION, half=True, arity=0, attributes={"value": (bool, int, float, complex), "dtype": np.dtype, "shape": tuple},
    doc="An array filled with one number.",
    infer=_infer_constant, evaluate=_evaluate_constant, vjp=lambda ct, operands, results, attrs: (), samples=_constant_samples,
    cost=OpCost.FREE, uniform=True)


def _infer_iota(*, dtype: np.dtype, shape: Shape, axis: int) -> TensorType:
    type = _checked(dtype, shape)
    require(type, REAL)
    if type.is_half:
        raise DTypeError(f"{type} is stored only: iota computes in f32")
    require_axis(axis, type)
    return type


def _evaluate_iota(*, dtype: np.dtype, shape: Shape, axis: int) -> np.ndarray:
    along = [1] * len(shape)
    along[axis] = shape[axis]
    return np.broadcast_to(np.arange(shape[axis], dtype=dtype).reshape(along), shape)


def _iota_samples() -> Iterator[Sample]:
    for dtype in (F32, F64, I32, I64, U32):
        yield Sample((), {"dtype": dtype, "shape": (2, 3, 4), "axis": 1})
    yield Sample((), {"dtype": I64, "shape": (5,), "axis": 0})
    yield Sample((), {"dtype": F64, "shape": (2, 0), "axis": 1})


iota: OpDefinition = define(
    "iota", Kind.CREATION, arity=0, attributes={"dtype": np.dtype, "shape": tuple, "axis": int},
    doc="Each element is its index along `axis`.",
    infer=_infer_iota, evaluate=_evaluate_iota, vjp=lambda ct, operands, results, attrs: (), samples=_iota_samples,
    cost=OpCost.FREE)


MAX_TABLE_BYTES = 1 << 12
"""Bytes of content up to which a program holds it as a table, which each call copies; more than that is better an array to be read where it
is."""


def _infer_table(*, data: bytes, dtype: np.dtype, shape: Shape) -> TensorType:
    type = _checked(dtype, shape)
    if len(data) != type.nbytes:
        raise DTypeError(f"{type} takes {type.nbytes} bytes, got {len(data)}")
    if dtype.kind == "b" and data.strip(b"\0\1"):
        raise DTypeError("an element of a bool array is a byte 0 or 1")
    return type


def _evaluate_table(*, data: bytes, dtype: np.dtype, shape: Shape) -> np.ndarray:
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _table_samples() -> Iterator[Sample]:
    yield Sample((), {"data": b"", "dtype": F64, "shape": (2, 0)})
    floats = np.array([[0.0, -0.0, 0.1, np.inf], [-np.inf, np.nan, 5e-324, -1e30]])
    for array in (floats, floats.astype(F32), np.arange(-3, 5, dtype=I64), np.arange(7, dtype=I32), np.array(3, U32),
                  np.array([True, False, True]), np.sqrt(np.arange(3000.0))):
        yield Sample((), table_attributes(array))


def table_attributes(array: np.ndarray) -> dict[str, Any]:
    """Attributes of the `table` of an array."""
    return {"data": array.tobytes(), "dtype": array.dtype, "shape": array.shape}


table: OpDefinition = define(
    "table", Kind.CREATION, half=True, arity=0, attributes={"data": bytes, "dtype": np.dtype, "shape": tuple},
    doc="An array constant; `data` are the bytes of its elements, in C order.",
    infer=_infer_table, evaluate=_evaluate_table, vjp=lambda ct, operands, results, attrs: (), samples=_table_samples)


def full_like(value: Value, number: complex) -> Value:
    """Constant with the type of `value`."""
    return constant(value=number, dtype=value.type.dtype, shape=value.type.shape)
