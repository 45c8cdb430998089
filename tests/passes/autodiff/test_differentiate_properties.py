"""Random programs with calls in calls: their derivatives against differences, and against each other however the calls are made."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.types import F64, TensorType
from adjit.ir.verifier import Stage, verify
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.options import Options

VECTOR = TensorType(F64, (3,))
X, Y, DIRECTION = np.array([0.3, -0.5, 0.8]), np.array([-0.2, 0.9, 0.4]), np.array([0.7, -0.3, 0.5])

PLAIN = {
    "add": ops.add, "multiply": ops.multiply, "subtract": ops.subtract,
    "sin": lambda a, b: ops.sin(a), "tanh": lambda a, b: ops.tanh(b),
    "spread": lambda a, b: ops.broadcast(ops.reduce_sum(ops.multiply(a, b), axes=(0,)), shape=(3,), axes=()),
    "flip": lambda a, b: ops.flip(a, axes=(0,)),
    "stop": lambda a, b: ops.add(ops.stop_gradient(a), b),
    "take": lambda a, b: ops.take(a, ops.argsort(b, axis=0), axis=0),
}
STEP = st.tuples(st.sampled_from(sorted(PLAIN)), st.none(), st.integers(0, 7), st.integers(0, 7))


def calling(programs: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    call = st.tuples(st.sampled_from(["call", "call", "derivative"]), programs, st.integers(0, 7), st.integers(0, 7))
    return st.lists(st.one_of(STEP, call), min_size=1, max_size=4)


PROGRAM = st.recursive(st.lists(STEP, min_size=1, max_size=3), calling, max_leaves=4)


def apply(program: Any, x: Value, y: Value, how: str) -> Value:
    """Run the steps; each takes two of the values there are. `how` says what becomes of a call."""
    values = [x, y]
    for kind, inner, first, second in program:
        a, b = values[first % len(values)], values[second % len(values)]
        if kind in PLAIN:
            values.append(PLAIN[kind](a, b))
        elif kind == "derivative":
            values.append(ops.tanh(pulled(inner, a, b, how)[1]))
        else:
            values.append(call(inner, a, b, how))
    return ops.tanh(values[-1])


def region_of(program: Any, how: str) -> Graph:
    return trace_graph("inner", [VECTOR, VECTOR], lambda a, b: [apply(program, a, b, how)])


def pulled(program: Any, a: Value, b: Value, how: str, cotangent: Value | None = None) -> tuple[Value, ...]:
    """The value and the cotangents of both arguments."""
    one = ops.full_like(a, 1.0) if cotangent is None else cotangent
    return ops.vjp.emit(a, b, one, regions=(region_of(program, how),), wrt=(0, 1), cotangents=(0,))


def call(program: Any, a: Value, b: Value, how: str) -> Value:
    if how == "inline":
        return apply(program, a, b, how)
    inner = region_of(program, how)
    if how == "checkpoint":
        (result,) = ops.checkpoint.emit(a, b, regions=(inner,))
        return result
    forward = trace_graph("forward", [VECTOR, VECTOR], lambda a, b: [apply(program, a, b, how), a, b])
    backward = trace_graph("backward", [VECTOR] * 3, lambda a, b, ct: pulled(program, a, b, how, ct)[1:])
    (result,) = ops.custom_call.emit(a, b, regions=(inner, forward, backward))
    return result


def evaluate(graph: Graph, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    verify(graph, Stage.TRACED)
    expanded = differentiate(graph, Options())
    verify(expanded, Stage.ADJOINT, "differentiate")
    return interpret(expanded, arrays)


def derivatives(program: Any, how: str) -> Graph:
    return trace_graph("gradient", [VECTOR, VECTOR], lambda x, y: pulled(program, x, y, how))


@settings(max_examples=60, deadline=None)
@given(PROGRAM)
def test_checkpoints_and_rules_change_no_derivative(program: Any) -> None:
    inline = evaluate(derivatives(program, "inline"), X, Y)
    # A region adds up its own cotangents before they meet those from outside of it: sums of three and more round in another order.
    for found, expected in zip(evaluate(derivatives(program, "checkpoint"), X, Y), inline, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    for found, expected in zip(evaluate(derivatives(program, "custom"), X, Y), inline, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(PROGRAM, st.sampled_from(["inline", "checkpoint", "custom"]))
def test_the_pushforward_is_the_transpose_of_the_pullback(program: Any, how: str) -> None:
    # <u, J v> = <J^T u, v>
    def push(x: Value, y: Value, v: Value) -> list[Value]:
        pullback = trace_graph("pullback", [VECTOR] * 3, lambda x, y, ct: pulled(program, x, y, how, ct)[1:])
        return [ops.vjp.emit(x, y, ops.full_like(x, 0.0), v, v, regions=(pullback,), wrt=(2,), cotangents=(0, 1))[-1]]
    (pushed,) = evaluate(trace_graph("push", [VECTOR] * 3, push), X, Y, DIRECTION)
    _, dx, dy = evaluate(derivatives(program, how), X, Y)
    np.testing.assert_allclose(np.sum(pushed), (dx + dy) @ DIRECTION, rtol=1e-9, atol=1e-12)


def smooth(program: Any) -> Any:
    """Without the steps whose derivative is not that of the function, or that jump."""
    return [("add" if kind in ("stop", "take") else kind, inner and smooth(inner), first, second) for kind, inner, first, second in program]


@settings(max_examples=60, deadline=None)
@given(PROGRAM.map(smooth), st.sampled_from(["inline", "checkpoint", "custom"]))
def test_derivatives_are_what_differences_say(program: Any, how: str) -> None:
    graph = trace_graph("f", [VECTOR, VECTOR], lambda x, y: [apply(program, x, y, how)])
    step = 1e-6
    ahead, behind = (np.sum(evaluate(graph, X + sign * step * DIRECTION, Y)[0]) for sign in (1, -1))
    _, dx, _ = evaluate(derivatives(program, how), X, Y)
    np.testing.assert_allclose(dx @ DIRECTION, (ahead - behind) / (2 * step), rtol=2e-6, atol=1e-6)
