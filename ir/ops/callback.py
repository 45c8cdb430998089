"""Call of a function of Python, which runs on the host whenever the program comes to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, RegionUse, define
from adjit.ir.errors import DTypeError
from adjit.ir.host_functions import function_of
from adjit.ir.ops.sampling import no_samples
from adjit.ir.types import I64, SHORT_NAMES, TensorType, short_name

HANDLE = TensorType(I64, (2,))
"""Type of a handle, see `host_functions.make_handle`."""

Encoded = tuple[tuple[str, tuple[int, ...]], ...]


def encode_types(types: tuple[TensorType, ...]) -> Encoded:
    """Result types as an attribute."""
    return tuple((short_name(type.dtype), type.shape) for type in types)


def _infer(*types: TensorType, results: Encoded, **attrs: Any) -> tuple[TensorType, ...]:
    if not types or types[0] != HANDLE:
        raise DTypeError(f"the first operand is {types[0] if types else 'missing'}, expected a handle, {HANDLE}")
    return tuple(TensorType(SHORT_NAMES[dtype], shape) for dtype, shape in results)


def _evaluate(handle: np.ndarray, *arrays: np.ndarray, **attrs: Any) -> tuple[np.ndarray, ...]:
    return tuple(function_of(handle)(arrays))


callback: OpDefinition = define(
    "callback", Kind.REGION, vjp=None, batch=None, attributes={"function": str, "results": tuple},
    doc="What a function of Python returns for the operands after the first one, which is the handle of the function; `function` is its "
        "name, `results` are the dtypes and shapes of the results.",
    infer=_infer, evaluate=_evaluate, samples=no_samples, region_use=RegionUse.HOST)
