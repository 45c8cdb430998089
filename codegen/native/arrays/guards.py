"""Step of a guard: compares the bits of a scalar with those that the trace saw."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import GUARD_MISSED, StepCode
from adjit.codegen.native.step_builder import StepBuilder, element_type
from adjit.ir.graph import Op

GUARD_NS = 1.0


def lower_guard(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step that returns `GUARD_MISSED` unless the operand has the bits of the expected number; any NaN is NaN."""
    (value,), expected = op.operands, op.attrs["expected"]
    dtype, size = value.type.dtype, value.type.dtype.itemsize
    text = StepBuilder(target)
    with text.step():
        if expected != expected:
            element = element_type(dtype)
            number = text.load(element, text.place(0), align=size)
            differs = text.let(f"fcmp ord {element} {number}, {number}")
        else:
            word = text.load(f"i{8 * size}", text.place(0), align=size)
            wide = word if size == 8 else text.let(f"zext i{8 * size} {word} to i64")
            differs = text.compare("ne", wide, _bits(expected, dtype))
        with text.if_(differs):
            text.ret("i64", GUARD_MISSED)
    return (text.code(1, GUARD_NS, checks=True),)


def _bits(number: bool | int | float, dtype: np.dtype) -> int:
    unsigned = int(np.array(number, dtype).view(f"u{dtype.itemsize}"))
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
