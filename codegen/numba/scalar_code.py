"""Scalar code of op records, as Python text with typed names: `exp` of an f32 becomes `exp_f32(x)`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from adjit.codegen.vector_math.half import number_bits, register_type
from adjit.ir.graph import Op
from adjit.ir.types import is_half, short_name

_CALL = re.compile(r"\b([A-Za-z_]\w*)\(")
_ARITHMETIC = re.compile(r"\} [-+*/] \{")
_STEPS = {"reduce_sum": "sum_step", "reduce_prod": "product_step", "reduce_max": "maximum_step", "reduce_min": "minimum_step",
          "reduce_and": "logical_and", "reduce_or": "logical_or"}


def literal(value: bool | int | float, dtype: np.dtype) -> str:
    """A number of this dtype: `f32(0.5)`."""
    if dtype == np.bool_:
        return str(bool(value))
    if is_half(dtype):
        return f"u16({number_bits(value, dtype)})"
    if dtype.kind != "f":
        return f"{short_name(dtype)}({int(value)})"
    number = float(dtype.type(value))
    text = repr(number) if math.isfinite(number) else {math.inf: "inf", -math.inf: "-inf"}.get(number, "nan")
    return f"{short_name(dtype)}({text})"


def expression(op: Op, names: Sequence[str], helpers: dict[str, None]) -> str:
    """The scalar expression of an elementwise op. Helpers that it calls are added to `helpers`."""
    result = op.result.type.dtype
    dtype = op.operands[1 if op.name == "select" else 0].type.dtype
    if op.name == "convert":
        suffix = f"{short_name(dtype)}_{short_name(result)}"
        if dtype == result:
            return names[0]
    else:
        suffix = register_type(dtype)
    template = str(op.definition.scalar)
    if dtype == np.bool_ and _ARITHMETIC.search(template):
        template = f"{op.name}({', '.join(f'{{{i}}}' for i in range(len(names)))})"       # True + True is 2 in Python
    text = _typed(template, suffix, helpers).format(*names)
    return f"{short_name(result)}{text}" if _needs_cast(template, result) else text


def reduction_step(op: Op, accumulator: str, element: str, helpers: dict[str, None]) -> str:
    """The expression that adds one element to a reduction."""
    name = f"{_STEPS[op.name]}_{short_name(op.result.type.dtype)}"
    helpers[name] = None
    return f"{name}({accumulator}, {element})"


def identity(op: Op) -> str:
    """The neutral element of a reduction."""
    if op.definition.identity is None:
        raise ValueError(f"{op.name} is not a reduction")
    return literal(op.definition.identity(op.result.type.dtype), op.result.type.dtype)


def _typed(template: str, suffix: str, helpers: dict[str, None]) -> str:
    def mangle(match: re.Match[str]) -> str:
        name = f"{match[1]}_{suffix}"
        helpers[name] = None
        return name + "("
    return _CALL.sub(mangle, template)


def _needs_cast(template: str, dtype: np.dtype) -> bool:
    """True if the result must be cast back: infix arithmetic of narrow integers widens in Python and Numba."""
    return template.startswith("(") and dtype.kind in "iu"
