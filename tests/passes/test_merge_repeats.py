"""Repeated computations of long traces, which are merged before they are differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.passes.simplify import common_subexpressions


def determinant(rows: list[list[Any]]) -> Any:
    """Expansion along the first row: n! products, of 2 ** n different minors."""
    if len(rows) == 1:
        return rows[0][0]
    return sum((-1) ** j * rows[0][j] * determinant([row[:j] + row[j + 1:] for row in rows[1:]]) for j in range(len(rows)))


def of_matrix(matrix: Any) -> Any:
    return determinant([[matrix[i, j] for j in range(len(matrix))] for i in range(len(matrix))])


def count_ops(compiled: Any, matrix: Any, stage: str) -> int:
    return compiled.ir(stage, matrix).count(" = ")


def test_a_recursion_that_meets_the_same_minors_has_them_once() -> None:
    rng = np.random.default_rng(0)
    compiled = aj.compile(aj.value_and_grad(of_matrix), backend="interpret")
    for size, most in ((6, 1400), (4, 450)):
        matrix = rng.standard_normal((size, size))
        value, gradient = compiled(matrix)
        np.testing.assert_allclose(value, np.linalg.det(matrix), rtol=1e-9)
        np.testing.assert_allclose(gradient, np.linalg.det(matrix) * np.linalg.inv(matrix).T, rtol=1e-8)
        assert count_ops(compiled, matrix, "adjoint") <= most


def test_derivatives_of_few_repeats_keep_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def waves(x: Any) -> Any:
        return np.sum(np.sin(x) * np.sin(x) + np.sin(x))

    def differentiated() -> str:
        return aj.compile(aj.grad(waves), backend="interpret").ir("adjoint", np.ones(3))

    before = differentiated()
    assert before.count(" = cos ") == 3
    monkeypatch.setattr(common_subexpressions, "MIN_MERGED", 1)
    assert differentiated().count(" = cos ") == 1
