"""The ufuncs of scipy.special that SciPy itself computes: calls of the op `external`, with SciPy's dtypes and broadcasting.

They are made at their first use. SciPy has to be installed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import UnsupportedError
from adjit.ir.ops.external import scipy_special
from adjit.ir.ops.external_functions import FUNCTIONS as TABLE
from adjit.tracer.array import wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.masking import elementwise_rule, rule
from adjit.tracer.functions.ufuncs import broadcast_shapes, store
from adjit.tracer.promotion import as_operand, resolve, to_value
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location

NAMES = tuple(TABLE)
"""Names of the functions."""


@functools.cache
def external_function(name: str) -> Callable[..., Any]:
    """Return the function with this name of scipy.special; raises `KeyError` if it has no rule."""
    known = TABLE[name]
    count = known.arity - known.of_complex

    def call(*inputs: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: Any = "same_kind", order: str = "K",
             subok: bool = True) -> Any:
        if len(inputs) > count:
            inputs, out = inputs[:count], inputs[count:]
        if len(inputs) != count:
            raise TypeError(f"{name}() takes {count} operands, {len(inputs)} were given")
        if where is not True and out is None:
            raise UnsupportedError(f"{name}(where=...) without out= leaves elements undefined", find_user_location(),
                                   hint="write np.where(condition, result, other)")
        operands = tuple(map(as_operand, inputs))
        loop = resolve(_ufunc(name), operands, dtype, casting)[-1]
        shape = broadcast_shapes(name, *operands)
        if known.of_complex:
            number, real = to_value(operands[-1], loop, shape), np.empty(0, loop).real.dtype
            values = [*(to_value(x, real, shape) for x in operands[:-1]), ops.real(number), ops.imag(number)]
        else:
            values = [to_value(x, loop, shape) for x in operands]
        found = [ops.external(*values, function=name, output=output) for output in range(len(known.derivatives))]
        results = [wrap(ops.complex(*found))] if known.of_complex else list(map(wrap, found))
        if out is not None:
            targets = out if isinstance(out, tuple) else (out,)
            results = [store(result, target, casting, name, where) for result, target in zip(results, targets, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Equivalent of `scipy.special.{name}`, computed by it."
    function = FUNCTIONS["scipy.special", name] = dispatched(call)
    rule(function)(elementwise_rule)
    return function


def _ufunc(name: str) -> np.ufunc:
    """The ufunc of SciPy, from where it lies if `scipy.special` has a function around it."""
    special = scipy_special()
    found = getattr(special, name)
    return found if isinstance(found, np.ufunc) else getattr(special._ufuncs, name)     # type: ignore[no-any-return]
