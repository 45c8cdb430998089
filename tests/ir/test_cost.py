"""What graphs have to do, counted."""

from __future__ import annotations

import numpy as np
import pytest

import adjit as aj
from adjit.ir.analysis.cost import Cost, cost_of
from adjit.ir.parser import parse


@pytest.mark.parametrize(("text", "operations", "nbytes"), [
    ("%y: f32[4,2] = matmul %x, %w {transpose_a=false, transpose_b=false}", 2 * 4 * 3 * 2, 4 * (12 + 6 + 8)),
    ("%y: f32[3,4] = transpose %x {permutation=(1, 0)}", 0, 4 * 24),
    ("%y: f32[4] = reduce_sum %x {axes=(1,)}", 12, 4 * 16),
    ("%y: f32[12] = reshape %x {shape=(12,)}", 0, 0),
])
def test_one_op(text: str, operations: int, nbytes: int) -> None:
    graph = parse(f"graph @f(%x: f32[4,3], %w: f32[3,2]) {{\n  {text}\n  return %y\n}}")
    assert cost_of(graph) == Cost(operations, nbytes)


def planned_cost(function: object, *arrays: np.ndarray) -> Cost:
    compiled = aj.compile(function, backend="interpret")        # type: ignore[arg-type]
    return cost_of(parse(compiled.ir("planned", *arrays)))


def test_what_a_kernel_has_within_is_not_moved() -> None:
    x = np.ones((8, 5))
    assert planned_cost(lambda x: np.exp(np.sin(x) + x), x) == Cost(3 * 40, 2 * x.nbytes)


def test_loops_count_as_often_as_they_run() -> None:
    x, w = np.ones((7, 4, 4)), np.ones((4, 4))
    once, many = (planned_cost(lambda x, w: aj.scan(lambda c, a: (c @ a, None), w, x)[0], x[:n], w) for n in (1, 7))
    assert many.operations == 7 * once.operations == 7 * 128
