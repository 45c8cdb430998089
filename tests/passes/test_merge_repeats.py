"""Repeated computations of long traces, which are merged before they are differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.interpreter import interpret
from adjit.passes.options import Options
from adjit.passes.simplify import common_subexpressions
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.parts import PARTS
from adjit.passes.simplify.rewrite import rewrite
from adjit.tracer.trace import trace_function


def determinant(rows: list[list[Any]]) -> Any:
    """Expansion along the first row: n! products, of 2 ** n different minors."""
    if len(rows) == 1:
        return rows[0][0]
    return sum((-1) ** j * rows[0][j] * determinant([row[:j] + row[j + 1:] for row in rows[1:]]) for j in range(len(rows)))


def of_matrix(matrix: Any) -> Any:
    return determinant([[matrix[i, j] for j in range(len(matrix))] for i in range(len(matrix))])


def of_joined(matrix: Any) -> Any:
    """The same with the minors as matrices, each made of what is left and right of a column."""
    if len(matrix) == 1:
        return matrix[0, 0]
    minors = [np.concatenate([matrix[1:, :j], matrix[1:, j + 1:]], axis=1) for j in range(len(matrix))]
    return sum((-1) ** j * matrix[0, j] * of_joined(minor) for j, minor in enumerate(minors))


def of_deleted(matrix: Any) -> Any:
    """The same with `np.delete`, which joins what is left and right of a column, too."""
    if len(matrix) == 1:
        return matrix[0, 0]
    return sum((-1) ** j * matrix[0, j] * of_deleted(np.delete(matrix[1:], j, axis=1)) for j in range(len(matrix)))


def count_ops(compiled: Any, matrix: Any, stage: str) -> int:
    return compiled.ir(stage, matrix).count(" = ")


def test_a_recursion_that_meets_the_same_minors_has_them_once() -> None:
    rng = np.random.default_rng(0)
    indexed = aj.compile(aj.value_and_grad(of_matrix), backend="interpret")
    joined = aj.compile(aj.value_and_grad(of_joined), backend="interpret")
    deleted = aj.compile(aj.value_and_grad(of_deleted), backend="interpret")
    for compiled, size, most in ((indexed, 6, 1400), (indexed, 4, 450), (joined, 6, 1500), (joined, 4, 900), (deleted, 5, 1200)):
        matrix = rng.standard_normal((size, size))
        value, gradient = compiled(matrix)
        np.testing.assert_allclose(value, np.linalg.det(matrix), rtol=1e-9)
        np.testing.assert_allclose(gradient, np.linalg.det(matrix) * np.linalg.inv(matrix).T, rtol=1e-8)
        assert count_ops(compiled, matrix, "adjoint") <= most


def test_parts_of_joined_arrays_are_parts_of_the_pieces() -> None:
    """Random programs of slices, concatenates and reshapes: the rules keep every element, and leave no slice of a concatenate."""
    rng, left = np.random.default_rng(0), 0
    for _ in range(40):
        def rearranged(x: Any, y: Any) -> Any:
            arrays = [x, y]
            for _ in range(8):
                first, second = (arrays[i] for i in rng.integers(len(arrays), size=2))
                kind, axis = rng.integers(3), int(rng.integers(2))
                begin, end = sorted(rng.integers(0, first.shape[axis] + 1, size=2))
                if kind == 0 and first.shape[1 - axis] == second.shape[1 - axis]:
                    arrays.append(np.concatenate([first, second], axis=axis))
                elif kind == 1 and end > begin:
                    step = int(rng.integers(1, 3))
                    arrays.append(first[begin:end:step] if axis == 0 else first[:, begin:end:step])
                else:
                    arrays.append(first.reshape(first.shape[::-1]))
            return arrays[-1]

        x, y = rng.standard_normal((2, 4, 4))
        graph = trace_function(rearranged, (x, y), {}).graph
        split = rewrite(graph, PARTS)
        for a, b in zip(interpret(graph, [x, y]), interpret(split, [x, y]), strict=True):
            np.testing.assert_array_equal(a, b)
        joined = {op.result for op in split.ops if op.name == "concatenate"}
        left += sum(op.name == "slice" and op.operands[0] in joined for op in eliminate_dead_code(split, Options()).ops)
    assert left <= 10       # those with steps


def test_derivatives_of_few_repeats_keep_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def waves(x: Any) -> Any:
        return np.sum(np.sin(x) * np.sin(x) + np.sin(x))

    def differentiated() -> str:
        return aj.compile(aj.grad(waves), backend="interpret").ir("adjoint", np.ones(3))

    before = differentiated()
    assert before.count(" = cos ") == 3
    monkeypatch.setattr(common_subexpressions, "MIN_MERGED", 1)
    assert differentiated().count(" = cos ") == 1
