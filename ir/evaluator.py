"""Runs ops at once, on NumPy arrays: the emitter in force outside of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from adjit.ir.definition import OpDefinition
from adjit.ir.errors import AdjitError, Location
from adjit.ir.graph import Attributes, Graph, Value
from adjit.ir.types import TensorType


class ArrayValue(Value):
    """A value that holds its array."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray):
        super().__init__(TensorType(array.dtype, array.shape))
        self.array = array


class Evaluator:
    """Evaluates every op where it is called. `locate` gives the user's location for errors."""

    def __init__(self, locate: Callable[[], Location | None] | None = None):
        self._locate = locate or (lambda: None)

    def emit(self, definition: OpDefinition, operands: Sequence[Value], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[Value, ...]:
        arrays = [_array_of(value) for value in operands]
        try:
            definition.result_types([value.type for value in operands], attrs, regions)
        except AdjitError as error:
            raise type(error)(f"{definition.name}: {error.message}", error.location or self._locate(), error.hint) from None
        return tuple(ArrayValue(array) for array in evaluate(definition, arrays, attrs, regions))


def evaluate(definition: OpDefinition, arrays: Sequence[np.ndarray], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[np.ndarray, ...]:
    """The results of one op, as arrays of the inferred dtypes; NumPy's floating-point warnings are silent."""
    with np.errstate(all="ignore"):
        out = definition.evaluate(*arrays, **attrs, regions=regions) if definition.regions else definition.evaluate(*arrays, **attrs)
    return tuple(np.asarray(array) for array in (out if isinstance(out, tuple) else (out,)))


def _array_of(value: Value) -> np.ndarray:
    if not isinstance(value, ArrayValue):
        raise TypeError("a value of a graph cannot be evaluated at once")
    return value.array
