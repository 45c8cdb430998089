"""PyTorch's values, dtypes, shapes and gradients of expressions: by a file that PyTorch wrote, and by PyTorch itself where it is there."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from support.each import for_each, parametrize_within
from support.torch_expressions import EXPRESSIONS, GOLDEN, flat, summary

import adjit as aj

EXPECTED = json.loads(GOLDEN.read_text())


def check(found: list[Any], expected: list[Any], expression: str) -> None:
    assert [each[:2] for each in found[0]] == [each[:2] for each in expected[0]], expression
    for (dtype, _, ours), (_, _, theirs) in zip(found[0], expected[0], strict=True):
        tolerance = 2e-6 if dtype in ("float32", "float16") else 1e-8
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance, err_msg=expression)
    if expected[1] is not None:
        assert found[1].keys() == expected[1].keys(), expression
        for name, theirs in expected[1].items():
            np.testing.assert_allclose(found[1][name], theirs, 1e-7, 1e-8, err_msg=f"{expression}: gradient of {name}")


@pytest.mark.share(3)
@pytest.mark.parametrize("part", range(3))
def test_as_pytorch(part: int) -> None:
    for_each([(expression, expression) for expression in EXPRESSIONS[part::3]],
             lambda expression: check(summary(aj, expression), EXPECTED[expression], expression))


@parametrize_within("expression", EXPRESSIONS)
def test_the_file_is_pytorchs(expression: str) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if EXPECTED[expression][1] is None:
            return
        try:
            found = summary(torch, expression)
        except RuntimeError as error:
            if "is now removed" in str(error):      # `cholesky` and `qr` of tensors, from PyTorch 2.14 on
                return
            raise
        check(found, EXPECTED[expression], expression)


def test_each_expression_is_in_the_file() -> None:
    assert list(EXPECTED) == EXPRESSIONS
    assert flat([(1, [2]), 3]) == [1, 2, 3]
