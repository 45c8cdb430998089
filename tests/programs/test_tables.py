"""Programs with array constants: every bit, on every backend, also in loops and as results."""

from __future__ import annotations

import numpy as np
import pytest

from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.control_flow import emit_scan
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.ops.creation import table_attributes
from adjit.ir.types import F32, F64, I64, TensorType
from adjit.passes.options import Options
from adjit.runtime.compile_graph import compile_graph
from adjit.runtime.inputs import Inputs
from adjit.runtime.machine import core_cache_bytes

SPECIAL = np.array([0.0, -0.0, 5e-324, -1e-310, np.inf, -np.inf, np.nan, 0.1])
LARGE = np.random.default_rng(0).standard_normal((300, 301))


def table(array: np.ndarray) -> Value:
    return ops.table(**table_attributes(array))


def graph() -> Graph:
    def body(x: Value, y: Value) -> list[Value]:
        steps = table(np.arange(12.0).reshape(4, 3) ** 0.5)

        def step(carried: list[Value], slices: list[Value]) -> tuple[list[Value], list[Value]]:
            inner = table(np.array([3, 1, 2]))
            turned = ops.take(carried[0], ops.subtract(inner, ops.full_like(inner, 1)), axis=0)
            return [turned], [ops.add(turned, slices[0])]

        rows, last = emit_scan(step, [x], [steps], 4)
        whole = table(LARGE)
        return [table(SPECIAL), table(SPECIAL.astype(np.float32)), ops.multiply(y, whole), whole, ops.transpose(whole, permutation=(1, 0)),
                *rows, *last, table(np.zeros((2, 0))), table(np.array([True, False])), table(np.arange(5)),
                ops.reduce_sum(table(np.arange(5)), axes=(0,))]
    return trace_graph("tables", [TensorType(F64, (3,)), TensorType(F64, LARGE.shape)], body)


@pytest.mark.parametrize("backend", ["native", "numba", "interpret"])
def test_tables_keep_every_bit(backend: str) -> None:
    traced, arrays = graph(), [np.array([0.5, -1.0, 2.0]), np.random.default_rng(1).standard_normal(LARGE.shape)]
    wanted = interpret(traced, arrays)
    native = backend == "native"
    made = compile_graph(traced, backend, Options(None, native, core_cache_bytes() if native else None), 2, True)
    prepared = Inputs(traced, ["x", "y"]).prepare(arrays, arrays)
    for _ in range(2):          # results are not the constants themselves: writing to them changes nothing
        found = made.executable.run(prepared, arrays)
        for one, other in zip(found, wanted, strict=True):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
            if one.ndim:
                one[...] = 1
    assert {value.type.dtype for value in traced.results} >= {F32, F64, I64}
