"""float16 and bfloat16: stored as they are, computed in float32.

Ops that only move elements work on halves (the trait `half`). Any other op is emitted between conversions: operands to float32, the result
back, so that each op rounds once, as NumPy's loops for float16 do. Derivatives, batches and kernels therefore see float32, and conversions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition
from adjit.ir.emitter import current_emitter
from adjit.ir.errors import DTypeError
from adjit.ir.graph import Graph, Value
from adjit.ir.types import F32, converts_at_once


def emit_wide(definition: OpDefinition, operands: Sequence[Value], attrs: dict[str, Any], regions: tuple[Graph, ...]) -> tuple[Value, ...]:
    """Emit an op whose operands, or whose attribute `dtype`, are halves; returns its results."""
    convert = DEFINITIONS["convert"]
    if definition is convert:
        return (_converted(operands[0], attrs["dtype"]),)
    if definition.kind is Kind.LINALG:
        half = next(value.type for value in operands if value.type.is_half)
        raise DTypeError(f"{definition.name} of {half}: linear algebra needs float32 or float64, as in NumPy",
                         hint="convert the array with .astype(np.float32) first")
    dtype = next((value.type.dtype for value in operands if value.type.is_half), None) or attrs["dtype"]
    wide = [convert(value, dtype=F32) if value.type.is_half else value for value in operands]
    attrs = {**attrs, "dtype": F32} if "dtype" in attrs else attrs
    results = current_emitter().emit(definition, wide, attrs, regions)
    return tuple(convert(value, dtype=dtype) if value.type.dtype == F32 else value for value in results)


def _converted(x: Value, dtype: Any) -> Value:
    """`x` in another dtype, through float32: ml_dtypes rounds float64 to float32 first, NumPy rounds it to float16 at once."""
    convert = DEFINITIONS["convert"]
    source = x.type.dtype
    if not converts_at_once(source, dtype):
        return convert(convert(x, dtype=F32), dtype=dtype) if source != dtype else x
    (value,) = current_emitter().emit(convert, (x,), {"dtype": dtype})
    return value
