"""Effects: calls of functions of Python that nothing reads a result of, and that are seen from outside, such as a print.

An effect is an op without results until derivatives are taken: it is kept where its kind says so, and its place among the other ops is its
order. Then `passes/order_effects.py` makes it a `callback` that takes a token and gives one: data that orders effects, also in loops and
branches, as any other value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, RegionUse, define
from adjit.ir.errors import DTypeError
from adjit.ir.host_functions import function_of
from adjit.ir.ops.callback import HANDLE
from adjit.ir.ops.sampling import no_samples
from adjit.ir.types import I64, TensorType

TOKEN = TensorType(I64, ())
"""Type of the values that order effects: their number since the program began."""


def _infer(*types: TensorType, **attrs: Any) -> tuple[()]:
    if not types or types[0] != HANDLE:
        raise DTypeError(f"the first operand is {types[0] if types else 'missing'}, expected a handle, {HANDLE}")
    return ()


def _evaluate(handle: np.ndarray, *arrays: np.ndarray, function: str) -> tuple[()]:
    function_of(handle)([*arrays, np.zeros((), I64)])
    return ()


effect: OpDefinition = define(
    "effect", Kind.REGION, vjp=None, batch=None, effect=True, attributes={"function": str},
    doc="No result: calls a function of Python for the operands after the first one, which is the handle of the function; `function` is "
        "its name.",
    infer=_infer, evaluate=_evaluate, samples=no_samples, region_use=RegionUse.HOST)


def _infer_end(token: TensorType) -> tuple[()]:
    if token != TOKEN:
        raise DTypeError(f"the token is {token}, expected {TOKEN}")
    return ()


def _evaluate_end(token: np.ndarray) -> tuple[()]:
    return ()


effects_end: OpDefinition = define(
    "effects_end", Kind.CHECK, arity=1, vjp=None, batch=None, effect=True,
    doc="No result: keeps the effects that lead to the operand, a token.",
    infer=_infer_end, evaluate=_evaluate_end, samples=no_samples)
