"""The ufuncs of scipy.special that SciPy itself computes: calls of the op `external`, with SciPy's dtypes and broadcasting.

They are made at their first use. SciPy has to be installed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.ir.ops.external import scipy_special
from adjit.ir.ops.external_functions import FUNCTIONS as TABLE
from adjit.ir.ops.external_table import call as call_external
from adjit.ir.ops.external_table import of_complex
from adjit.ir.types import is_complex
from adjit.tracer.array import wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.masking import elementwise_rule, rule
from adjit.tracer.functions.ufuncs import broadcast_shapes, store
from adjit.tracer.promotion import as_operand, resolve, to_value
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location

NAMES = tuple(name for name, known in TABLE.items() if known.name == name)
"""Names of the functions; those alone that have a loop of SciPy's for complex numbers are not among them."""


@functools.cache
def external_function(name: str) -> Callable[..., Any]:
    """Return the function with this name of scipy.special; raises `KeyError` if it has no rule."""
    known = TABLE[name]
    function = FUNCTIONS["scipy.special", name] = computed(name, known.arity - known.of_complex)
    return function


@functools.cache
def computed(name: str, count: int) -> Callable[..., Any]:
    """Return the function of `count` operands, with SciPy's loops for the dtypes that the table has."""

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
        known = TABLE[of_complex(name) if is_complex(loop) else name]
        first, real = count - known.of_complex, np.empty(0, loop).real.dtype
        values = [to_value(x, real if number < first else loop, shape) for number, x in enumerate(operands)]
        outputs = len(known.derivatives) // (2 if known.of_complex else 1)
        results = [wrap(call_external(name, *values, output=output)) for output in range(outputs)]
        if out is not None:
            targets = out if isinstance(out, tuple) else (out,)
            results = [store(result, target, casting, name, where) for result, target in zip(results, targets, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Equivalent of `scipy.special.{name}`, computed by it."
    function = dispatched(call)
    rule(function)(elementwise_rule)
    return function


def _ufunc(name: str) -> np.ufunc:
    """The ufunc of SciPy, from where it lies if `scipy.special` has a function around it."""
    try:
        special = scipy_special()
    except UnsupportedError as error:
        error.location = find_user_location()
        raise
    found = getattr(special, name)
    return found if isinstance(found, np.ufunc) else getattr(special._ufuncs, name)     # type: ignore[no-any-return]
