"""A tile of an op's result is the op on tiles of its operands: every op with a rule, along every axis, in every number of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjit.ir.ops  # noqa: F401  (fills DEFINITIONS)
from adjit.ir.definition import DEFINITIONS
from adjit.ir.graph import Op, Value
from adjit.ir.types import TensorType
from adjit.passes.tiling.graph_slicing import slice_rule
from adjit.passes.tiling.slice_rules import summed_axes, tile_attributes, tile_type

RNG = np.random.default_rng(2)


def numbers(*shape: int) -> np.ndarray:
    return RNG.integers(-9, 9, shape).astype(np.float64)


def cases() -> Iterator[tuple[str, tuple[np.ndarray, ...], dict[str, Any]]]:
    x = numbers(4, 6, 8)
    yield "add", (x, x[::-1].copy()), {}
    yield "select", (x > 0, x, -x), {}
    yield "reduce_sum", (x,), {"axes": (0,)}
    yield "reduce_max", (x,), {"axes": (1,)}
    yield "reduce_sum", (x,), {"axes": (0, 2)}
    yield "broadcast", (x,), {"shape": (4, 2, 6, 8), "axes": (0, 2, 3)}
    yield "broadcast", (numbers(6),), {"shape": (4, 6, 8), "axes": (1,)}
    yield "reshape", (x,), {"shape": (24, 8)}
    yield "reshape", (x,), {"shape": (4, 1, 48)}
    yield "reshape", (x,), {"shape": (4, 6, 2, 4)}
    yield "reshape", (x[:, :1].copy(),), {"shape": (1, 4, 8)}
    yield "transpose", (x,), {"permutation": (2, 0, 1)}
    yield "transpose", (x,), {"permutation": (0, 2, 1)}
    yield "slice", (x,), {"start": (0, 1, 0), "stop": (4, 5, 8), "step": (1, 2, 1)}
    yield "pad", (x,), {"low": (0, 1, 0), "high": (0, 0, 2), "interior": (0, 0, 0), "value": 0.0}
    yield "flip", (x,), {"axes": (1,)}
    yield "concatenate", (x, x), {"axis": 1}
    for name in ("update_slice", "add_slice"):
        yield name, (x, numbers(4, 2, 8)), {"start": (0, 1, 0), "step": (1, 3, 1)}
    for axis in range(3):
        yield "cumsum", (x,), {"axis": axis, "reverse": False}
        yield "argsort", (x,), {"axis": axis}
        for name in ("argpartition", "partition"):
            yield name, (x, x.take([1], axis)), {"axis": axis}
        yield "sort", (x,), {"axis": axis, "first": 1, "count": 2}
        yield "cummax", (x,), {"axis": axis, "reverse": True}
        yield "argmax", (x,), {"axis": axis}
    for transpose_a in (False, True):
        for transpose_b in (False, True):
            attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
            a, b = (8, 4) if transpose_a else (4, 8), (6, 8) if transpose_b else (8, 6)
            yield "matmul", (numbers(*a), numbers(*b)), attrs
            yield "matmul", (numbers(4, *a), numbers(4, *b)), attrs
            yield "matmul", (numbers(2, 6, *a), numbers(2, 6, *b)), attrs


CASES = list(cases())
IDS = [f"{name}-{index}" for index, (name, _, _) in enumerate(CASES)]


def op_of(name: str, arrays: tuple[np.ndarray, ...], attrs: dict[str, Any]) -> Op:
    definition, operands = DEFINITIONS[name], tuple(Value(TensorType(array.dtype, array.shape)) for array in arrays)
    return Op(definition, operands, tuple(map(Value, definition.result_types([value.type for value in operands], attrs))), attrs)


def tile(array: np.ndarray, axis: int, number: int, count: int) -> np.ndarray:
    part = np.split(array, count, axis)[number]
    return part.squeeze(axis) if array.shape[axis] == count else part


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_panel_of_the_result_is_the_op_on_panels(case: tuple[str, tuple[np.ndarray, ...], dict[str, Any]]) -> None:
    op = op_of(*case)
    whole, tried = op.definition.evaluate(*case[1], **case[2]), 0
    for axis in range(op.result.type.rank):
        for count in (2, 3, 4, 6, 8):
            operand_axes = slice_rule(op, axis, (None,) * len(op.operands)).axes_for(count)
            if operand_axes is None:
                continue
            tried += 1
            attrs = tile_attributes(op, axis, operand_axes, count)
            for number in range(count):
                parts = [array if cut is None else tile(array, cut, number, count)
                         for array, cut in zip(case[1], operand_axes, strict=True)]
                small = op_of(op.name, tuple(parts), attrs)
                assert small.result.type == tile_type(op.result.type, axis, count)
                np.testing.assert_array_equal(small.definition.evaluate(*parts, **attrs), tile(whole, axis, number, count))
    assert tried


@pytest.mark.parametrize("case", [case for case in CASES if case[0] == "matmul"])
def test_products_of_panels_along_the_inner_axes_add_up(case: tuple[str, tuple[np.ndarray, ...], dict[str, Any]]) -> None:
    op = op_of(*case)
    cuts = summed_axes(op)
    assert cuts is not None
    parts = [op.definition.evaluate(*(tile(array, cut, number, 4) for array, cut in zip(case[1], cuts, strict=True)), **case[2])
             for number in range(4)]
    np.testing.assert_array_equal(sum(parts), op.definition.evaluate(*case[1], **case[2]))
