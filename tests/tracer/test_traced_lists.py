"""Arrays made of lists of traced scalars, Python's numbers and traced arrays: dtype, shape and content are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import AdjitError

ARGUMENTS = {
    "float64": (np.float64(1.5), np.float64(-2.0), np.int64(3), np.bool_(True)),
    "python": (1.5, -2.0, 3, True),
    "mixed": (np.float32(1.5), np.float64(2.0), np.int32(3), np.bool_(False)),
    "no dimension": (np.array(1.5), np.float32(2.0), 3, True),
}

MADE: dict[str, Callable[..., Any]] = {
    "scalars": lambda x, y, i, b: np.array([x, y]),
    "number": lambda x, y, i, b: np.array([x, 1.0]),
    "matrix": lambda x, y, i, b: np.array([[x, 1.0], [2, y]]),
    "tuples": lambda x, y, i, b: np.array([(x, y), [y, x]]),
    "one": lambda x, y, i, b: np.array([[[x]]]),
    "integers": lambda x, y, i, b: np.array([i, 1, 2**40]),
    "integer and float": lambda x, y, i, b: np.array([i, 1.5]),
    "bools": lambda x, y, i, b: np.array([b, True, x > 1]),
    "bool and integer": lambda x, y, i, b: np.array([b, 1]),
    "complex": lambda x, y, i, b: np.array([x, 1j]),
    "narrow": lambda x, y, i, b: np.array([i, np.int8(2), np.float32(0.5)]),
    "special": lambda x, y, i, b: np.array([-0.0, np.nan, x, np.inf]),
    "dtype": lambda x, y, i, b: np.array([x, y, 1], dtype=np.float32),
    "ndmin": lambda x, y, i, b: np.array([x, y], ndmin=3),
    "rows": lambda x, y, i, b: np.array([np.array([x, y]), np.array([1, 2])]),
    "row and list": lambda x, y, i, b: np.array([np.array([x, y]), [1, 2]]),
    "stack": lambda x, y, i, b: np.stack(([x, 1], [y, 2])),
    "stack columns": lambda x, y, i, b: np.stack([np.array([x, y]), [1.0, 2.0]], axis=1),
    "function of a list": lambda x, y, i, b: np.sum([x, y, 1]),
    "ragged": lambda x, y, i, b: np.array([[x, y], [1]]),
    "empty": lambda x, y, i, b: np.array([[], [x]]),
    "huge": lambda x, y, i, b: np.array([x, 2**63]),
}


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        made = np.asarray(function(*arguments))
    except ValueError:
        return (ValueError,)
    return made.dtype, made.shape, made.strides, repr(made.tolist())


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("name", MADE)
def test_what_a_list_becomes_is_what_numpy_makes_of_it(name: str, kind: str) -> None:
    assert outcome(aj.compile(MADE[name], backend="interpret"), ARGUMENTS[kind]) == outcome(MADE[name], ARGUMENTS[kind])


def test_an_integer_that_no_dtype_holds_is_refused() -> None:
    with pytest.raises(AdjitError, match="object"):
        aj.compile(lambda x: np.array([x, 2**70]))(1.0)


def test_lists_within_lists_are_one_concatenate() -> None:
    def rotation(angle: Any) -> Any:
        return np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])

    graph = aj.compile(rotation, backend="interpret").ir("traced", 0.3)
    assert graph.count(" = concatenate ") == 1
    np.testing.assert_allclose(aj.jacobian(rotation)(0.3)[0], [-np.sin(0.3), -np.cos(0.3), 0.0])
