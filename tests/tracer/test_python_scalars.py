"""Traced scalars that stand for Python's numbers: integers of floats, bools, methods, at several values in turn."""

from __future__ import annotations

import math
import operator
import traceback
from typing import Any

import numpy as np
import pytest

import adjit as aj

EXPRESSIONS = [
    "(x > 0) + (x > 1)", "(x > 0) - (x < 0)", "-(x > 1)", "~(x > 1)", "abs(x > 1) * 2", "(x > 1) / 2", "(x > 1) // 1",
    "(x > 1) ** 2", "(x > 1) << 2", "2 + (x > 1)", "True - (x > 1)", "divmod(x > 1, 1)", "(x > 1) & True", "(x > 1) | (x < 0)",
    "(x > 1) ^ 3", "round(x > 1)",
    "[10, 20][x > 1]", "'ab' * (x > 1)", "isinstance(x > 1, bool)", "isinstance(x > 1, int)", "operator.index(x > 1)", "(x > 1) + x",
    "sum(v > 1 for v in (x, 2.0, 0.0))", "(x > 1) is True", "(x > 1) is not False", "math.isnan(x) + math.isfinite(x)", "str(x > 1)",
    "(x > 1).bit_length()", "(x == 2) == 1", "x.is_integer() + 1", "x.as_integer_ratio()", "x.hex()", "float.fromhex(x.hex())",
    "round(x).bit_length()", "round(x).numerator", "math.floor(x).to_bytes(4, 'little', signed=True)", "x.__floor__()", "x.conjugate()",
    "round(x) + 0.5", "math.floor(x) * 2", "math.ceil(x) - (x > 1)"]


def tried(function: Any, x: Any) -> Any:
    try:
        return function(x)
    except (OverflowError, ValueError, TypeError) as error:
        return type(error).__name__, str(error).split("\n")[0]


def as_python(x: Any) -> Any:
    return tuple(map(as_python, x)) if isinstance(x, tuple) else x.item() if isinstance(x, np.generic) else x


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_python_floats_and_what_they_compare_to(text: str) -> None:
    function = eval(f"lambda x: {text}", {"math": math, "operator": operator})
    compiled = aj.compile(function, backend="interpret")
    for x in (1.5, 2.0, -1.25):
        expected, found = function(x), as_python(compiled(x))
        assert (found, type(found)) == (expected, type(expected))


def test_a_match_on_a_comparison_takes_its_case() -> None:
    def by_case(x: Any) -> Any:
        match x > 0:
            case True:
                return x
            case False:
                return -2 * x
        return 77.0

    compiled = aj.compile(by_case, backend="interpret")
    assert [float(compiled(x)) for x in (1.0, -2.0, 0.0)] == [1.0, 4.0, 0.0]
    assert float(aj.grad(by_case)(-2.0)) == -2.0


def test_numpys_scalars_compare_as_numpys() -> None:
    both = aj.compile(lambda x: (x > 0) + (x > 1), backend="interpret")
    assert both(np.float64(2.0)) is np.True_
    with pytest.raises(TypeError, match="boolean subtract"):
        aj.compile(lambda x: (x > 0) - (x > 1), backend="interpret")(np.float64(2.0))
    assert aj.compile(lambda x: ((x > 1) + np.ones(2, bool)).sum(), backend="interpret")(2.0) == 2


@pytest.mark.parametrize("function", [round, math.floor, math.ceil, math.trunc, int])
def test_integers_of_infinity_and_nan_raise_as_in_python(function: Any) -> None:
    def rounded(x: Any) -> Any:
        return function(x) * x

    compiled = aj.compile(rounded)
    gradient = aj.grad(rounded)
    for x in (1.5, math.inf, -1.5, math.nan, 1e300, -math.inf, 2.5):
        assert as_python(tried(compiled, x)) == tried(rounded, x)
        assert as_python(tried(gradient, x)) == (tried(function, x) if not math.isfinite(x) else float(function(x)))


def test_the_error_of_an_integer_names_the_users_line() -> None:
    compiled = aj.compile(lambda x: round(x) + 1)
    assert compiled(1.5) == 3
    with pytest.raises(OverflowError, match="cannot convert float infinity to integer") as caught:
        compiled(math.inf)
    assert any(frame.line is not None and "round(x) + 1" in frame.line for frame in traceback.extract_tb(caught.tb))


def test_checks_of_many_integers_are_one_guard() -> None:
    def total(x: Any) -> Any:
        result = 0.0
        for k in range(40):
            result = result + math.floor(x + k) * 0.5
        return result

    compiled = aj.compile(total)
    assert compiled(0.5) == total(0.5)
    assert compiled.ir("traced").count("  guard ") == 1
    with pytest.raises(ValueError, match="NaN"):
        compiled(math.nan)
