"""The pass `differentiate`: text before and after, roles, locations, and values of nested transforms."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder, trace_graph
from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.emitter import emitting
from adjit.ir.errors import Location, NonDifferentiableError, Role, VerificationError
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.types import F32, F64, I64, TensorType
from adjit.ir.verifier import Stage, verify
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.options import Options

SCALAR = TensorType(F64, ())
Body = Callable[..., Sequence[Value]]


def expand(graph: Graph | str) -> Graph:
    """`graph` before and after the pass, verified."""
    if isinstance(graph, str):
        graph = parse(textwrap.dedent(graph))
    verify(graph, Stage.TRACED)
    result = differentiate(graph, Options())
    verify(result, Stage.ADJOINT, "differentiate")
    return result


def check_text(before: str, after: str) -> None:
    expected = parse(textwrap.dedent(after))
    result = expand(before)
    assert result == expected, print_graph(result)


def gradient(body: Callable[..., Value], *types: TensorType, wrt: tuple[int, ...] = (0,)) -> Graph:
    """The graph of the derivatives of a scalar body; its regions may hold further such calls, through `pulled`."""
    return trace_graph("gradient", types, lambda *values: pulled(body, *values, wrt=wrt))


def pulled(body: Callable[..., Value], *values: Value, wrt: tuple[int, ...] = (0,)) -> tuple[Value, ...]:
    """Emit a `vjp` op for a scalar body; the derivatives."""
    region = trace_graph("body", [value.type for value in values], lambda *inner: [body(*inner)])
    one = ops.full_like(region.results[0], 1.0)
    return ops.vjp.emit(*values, one, regions=(region,), wrt=wrt, cotangents=(0,))[1:]


def call(definition: OpDefinition, bodies: Sequence[Graph], *values: Value) -> Value:
    (result,) = definition.emit(*values, regions=bodies)
    return result


def region(body: Body, *types: TensorType) -> Graph:
    return trace_graph("region", types, body)


def run(graph: Graph, *numbers: float) -> list[float]:
    return [float(array) for array in interpret(expand(graph), [np.array(number) for number in numbers])]


def test_a_graph_without_transforms_stays_the_same_object() -> None:
    graph = trace_graph("f", [SCALAR], lambda x: [ops.stop_gradient(ops.sin(x))])
    assert differentiate(graph, Options()) is graph


def test_nothing_is_emitted_for_what_is_not_asked() -> None:
    check_text("""
        graph @f(%x: f64[2], %w: f64[2], %ct: f64[2]) {
          %y: f64[2], %aux: f64[2], %dw: f64[2] = vjp %x, %w, %ct {cotangents=(0,), wrt=(1,)} [
            graph @g(%x: f64[2], %w: f64[2]) {
              %a: f64[2] = exp %x
              %y: f64[2] = multiply %a, %w
              %aux: f64[2] = sin %y
              return %y, %aux
            }
          ]
          return %y, %aux, %dw
        }
    """, """
        graph @f(%x: f64[2], %w: f64[2], %ct: f64[2]) {
          %a: f64[2] = exp %x
          %y: f64[2] = multiply %a, %w
          %aux: f64[2] = sin %y
          %dw: f64[2] = strong_multiply %ct, %a  # adjoint
          return %y, %aux, %dw
        }
    """)


def test_contributions_are_added_and_same_arguments_stay_apart() -> None:
    check_text("""
        graph @f(%x: f64[], %ct: f64[]) {
          %y: f64[], %da: f64[], %db: f64[] = vjp %x, %x, %ct {cotangents=(0,), wrt=(0, 1)} [
            graph @g(%a: f64[], %b: f64[]) {
              %c: f64[] = add %a, %b
              %d: f64[] = add %c, %a
              return %d
            }
          ]
          return %y, %da, %db
        }
    """, """
        graph @f(%x: f64[], %ct: f64[]) {
          %c: f64[] = add %x, %x
          %d: f64[] = add %c, %x
          %da: f64[] = add %ct, %ct  # adjoint
          return %d, %da, %ct
        }
    """)


def test_parameters_that_are_results_and_unused_ones() -> None:
    check_text("""
        graph @f(%x: f64[2], %n: f32[3], %c0: f64[2], %c1: f64[2]) {
          %y: f64[2], %z: f64[2], %dx: f64[2], %dn: f32[3] = vjp %x, %n, %c0, %c1 {cotangents=(0, 1), wrt=(0, 1)} [
            graph @g(%x: f64[2], %n: f32[3]) {
              return %x, %x
            }
          ]
          return %y, %z, %dx, %dn
        }
    """, """
        graph @f(%x: f64[2], %n: f32[3], %c0: f64[2], %c1: f64[2]) {
          %dx: f64[2] = add %c0, %c1  # adjoint
          %dn: f32[3] = constant {dtype=f32, shape=(3,), value=0.0}  # adjoint
          return %x, %x, %dx, %dn
        }
    """)


def test_stop_gradient_and_integers_cut() -> None:
    check_text("""
        graph @f(%x: f64[2], %ct: f64[2]) {
          %y: f64[2], %dx: f64[2] = vjp %x, %ct {cotangents=(0,), wrt=(0,)} [
            graph @g(%x: f64[2]) {
              %a: f64[2] = exp %x
              %b: f64[2] = stop_gradient %a
              %i: i64[2] = convert %a {dtype=i64}
              %c: f64[2] = convert %i {dtype=f64}
              %d: f64[2] = add %b, %c
              %e: f64[2] = multiply %d, %x
              return %e
            }
          ]
          return %y, %dx
        }
    """, """
        graph @f(%x: f64[2], %ct: f64[2]) {
          %a: f64[2] = exp %x
          %b: f64[2] = stop_gradient %a
          %i: i64[2] = convert %a {dtype=i64}
          %c: f64[2] = convert %i {dtype=f64}
          %d: f64[2] = add %b, %c
          %e: f64[2] = multiply %d, %x
          %dx: f64[2] = strong_multiply %ct, %d  # adjoint
          return %e, %dx
        }
    """)


CUSTOM = """
    custom_call %x [
      graph @f(%x: f64[]) {
        %y: f64[] = sin %x
        return %y
      }
      graph @forward(%x: f64[]) {
        %y: f64[] = sin %x
        %residual: f64[] = exp %x
        return %y, %residual
      }
      graph @backward(%residual: f64[], %ct: f64[]) {
        %dx: f64[] = multiply %ct, %residual
        return %dx
      }
    ]
"""


def test_a_custom_call_brings_its_rule() -> None:
    check_text(f"""
graph @f(%x: f64[], %ct: f64[]) {{
  %y: f64[], %dx: f64[] = vjp %x, %ct {{cotangents=(0,), wrt=(0,)}} [
    graph @g(%x: f64[]) {{
      %y: f64[] = {CUSTOM.strip()}
      return %y
    }}
  ]
  return %y, %dx
}}
""", """
graph @f(%x: f64[], %ct: f64[]) {
  %y: f64[] = sin %x
  %residual: f64[] = exp %x
  %dx: f64[] = multiply %ct, %residual  # adjoint
  return %y, %dx
}
""")


def test_a_custom_call_off_the_path_means_its_first_region() -> None:
    check_text(f"""
graph @f(%x: f64[]) {{
  %y: f64[] = {CUSTOM.strip()}
  return %y
}}
""", """
graph @f(%x: f64[]) {
  %y: f64[] = sin %x
  return %y
}
""")


def five_times() -> tuple[Graph, Graph, Graph]:
    """The identity, whose rule says 5 a cotangent."""
    return (region(lambda x: [ops.add(x, ops.full_like(x, 0.0))], SCALAR),
            region(lambda x: [ops.add(x, ops.full_like(x, 0.0)), x], SCALAR),
            region(lambda x, ct: [ops.multiply(ct, ops.full_like(x, 5.0))], SCALAR, SCALAR))


def test_the_rule_of_a_call_that_an_inner_derivative_passes_by_is_still_met() -> None:
    # d/dy of d/dx (x * custom(y)) = custom'(y) = 5; the inner derivative does not go through the call
    rules = five_times()
    graph = gradient(lambda y: pulled(lambda x, y: ops.multiply(x, call(ops.custom_call, rules, y)), y, y)[0], SCALAR)
    assert run(graph, 3.0) == [5.0]


def test_a_rule_is_differentiated_like_any_other_code() -> None:
    # the rule says d/dx = 3 x^2 for what is computed as x; so the second derivative is 6 x
    rules = (region(lambda x: [ops.negative(x)], SCALAR), region(lambda x: [ops.negative(x), x], SCALAR),
             region(lambda x, ct: [ops.multiply(ct, ops.multiply(ops.full_like(x, 3.0), ops.multiply(x, x)))], SCALAR, SCALAR))
    graph = gradient(lambda x: pulled(lambda x: call(ops.custom_call, rules, x), x)[0], SCALAR)
    assert run(graph, 2.0) == [12.0]


def test_missing_cotangents_of_a_custom_call_are_zeros() -> None:
    rules = (region(lambda x: [x, x], SCALAR), region(lambda x: [x, x], SCALAR),
             region(lambda first, second: [ops.add(ops.multiply(first, ops.full_like(first, 7.0)), second)], SCALAR, SCALAR))
    assert run(gradient(lambda x: ops.custom_call.emit(x, regions=rules)[0], SCALAR), 1.0) == [7.0]
    assert run(gradient(lambda x: ops.custom_call.emit(x, regions=rules)[1], SCALAR), 1.0) == [1.0]


def test_a_custom_call_has_no_rule_for_what_it_closes_over() -> None:
    rules = (region(lambda x, c: [ops.multiply(x, c)], SCALAR, SCALAR), region(lambda x, c: [ops.multiply(x, c), c], SCALAR, SCALAR),
             region(lambda c, ct: [ops.multiply(ct, c)], SCALAR, SCALAR))
    assert run(gradient(lambda x, c: call(ops.custom_call, rules, x, c), SCALAR, SCALAR), 2.0, 3.0) == [3.0]
    with pytest.raises(NonDifferentiableError, match="a value it closes over") as error:
        expand(gradient(lambda x, c: call(ops.custom_call, rules, x, c), SCALAR, SCALAR, wrt=(1,)))
    assert error.value.hint == "pass the value as an argument"


def test_checkpoint_without_a_derivative_is_its_region_with_its_roles() -> None:
    check_text("""
        graph @f(%x: f64[]) {
          %y: f64[] = checkpoint %x [
            graph @g(%x: f64[]) {
              %a: f64[] = checkpoint %x [  # a.py:3 in h, update
                graph @h(%x: f64[]) {
                  %b: f64[] = sin %x  # a.py:2 in h
                  return %b
                }
              ]
              return %a
            }
          ]
          return %y
        }
    """, """
        graph @f(%x: f64[]) {
          %b: f64[] = sin %x  # a.py:2 in h, update
          return %b
        }
    """)


def test_a_checkpoint_in_a_checkpoint_is_run_again_from_the_inner_one() -> None:
    inner = region(lambda x: [ops.sin(ops.sin(x))], SCALAR)
    outer = region(lambda x: [call(ops.checkpoint, (inner,), ops.exp(x))], SCALAR)
    graph = gradient(lambda x: call(ops.checkpoint, (outer,), x), SCALAR)
    roles = [(op.name, op.role) for op in expand(graph).ops if op.name in ("exp", "sin")]
    assert roles == [("exp", Role.PRIMAL), ("sin", Role.PRIMAL), ("sin", Role.PRIMAL), ("exp", Role.RECOMPUTE), ("sin", Role.RECOMPUTE)]
    x = 0.3
    assert run(graph, x) == pytest.approx([math.cos(math.sin(math.exp(x))) * math.cos(math.exp(x)) * math.exp(x)])


def test_the_backward_half_reads_nothing_of_the_first_run_of_a_checkpoint() -> None:
    body = region(lambda x: [ops.multiply(ops.exp(x), ops.sin(ops.exp(x)))], SCALAR)
    graph = expand(gradient(lambda x: ops.tanh(call(ops.checkpoint, (body,), ops.negative(x))), SCALAR))
    inside = {value for op in graph.ops if op.role is Role.PRIMAL and op.name in ("exp", "sin") for value in op.results}
    assert inside
    assert not any(inside & set(op.operands) for op in graph.ops if op.role is not Role.PRIMAL)


def test_a_custom_call_within_a_checkpoint_uses_its_rule_on_the_second_run() -> None:
    rules = five_times()
    body = region(lambda x: [call(ops.custom_call, rules, ops.sin(x))], SCALAR)
    assert run(gradient(lambda x: call(ops.checkpoint, (body,), x), SCALAR), 0.3) == pytest.approx([5 * math.cos(0.3)])


def nth_derivative(body: Callable[[Value], Value], order: int) -> Callable[[Value], Value]:
    return body if order == 0 else lambda x: pulled(nth_derivative(body, order - 1), x)[0]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_derivatives(order: int) -> None:
    x = 0.7
    expected = [math.cos(x), -math.sin(x), -math.cos(x), math.sin(x)][order - 1]
    graph = trace_graph("f", [SCALAR], lambda x: [nth_derivative(ops.sin, order)(x)])
    assert run(graph, x) == pytest.approx([expected])
    held = region(lambda x: [ops.sin(x)], SCALAR)
    graph = trace_graph("f", [SCALAR], lambda x: [nth_derivative(lambda x: call(ops.checkpoint, (held,), x), order)(x)])
    assert run(graph, x) == pytest.approx([expected])


def test_a_derivative_within_a_checkpoint_within_a_derivative() -> None:
    body = region(lambda x: list(pulled(lambda x: ops.sin(ops.multiply(x, x)), x)), SCALAR)      # 2 x cos x^2
    x = 0.4
    expected = 2 * math.cos(x * x) - 4 * x * x * math.sin(x * x)
    assert run(gradient(lambda x: call(ops.checkpoint, (body,), x), SCALAR), x) == pytest.approx([expected])


def test_the_pullback_of_a_pullback_is_the_pushforward() -> None:
    # the cotangent is 0 there, and the derivative of sqrt at 0 infinite: neither may show
    types = [SCALAR, SCALAR]
    inner = region(lambda x: [ops.multiply(ops.sin(x), x)], SCALAR)
    pullback = region(lambda x, ct: ops.vjp.emit(x, ct, regions=(inner,), wrt=(0,), cotangents=(0,)), *types)

    def body(x: Value, tangent: Value) -> tuple[Value, ...]:
        return ops.vjp.emit(x, ops.full_like(x, 0.0), tangent, regions=(pullback,), wrt=(1,), cotangents=(1,))

    value, _, pushed = run(trace_graph("jvp", types, body), 0.5, 3.0)
    assert value == pytest.approx(0.5 * math.sin(0.5))
    assert pushed == pytest.approx(3 * (math.sin(0.5) + 0.5 * math.cos(0.5)))


def test_locations_are_kept_and_given_to_the_adjoint() -> None:
    check_text("""
        graph @f(%x: f64[], %ct: f64[]) {
          %y: f64[], %dx: f64[] = vjp %x, %ct {cotangents=(0,), wrt=(0,)} [  # train.py:9 in step
            graph @g(%x: f64[]) {
              %a: f64[] = sin %x  # model.py:2 in g
              return %a
            }
          ]
          return %y, %dx
        }
    """, """
        graph @f(%x: f64[], %ct: f64[]) {
          %a: f64[] = sin %x  # model.py:2 in g
          %c: f64[] = cos %x  # model.py:2 in g, adjoint
          %dx: f64[] = strong_multiply %ct, %c  # model.py:2 in g, adjoint
          return %a, %dx
        }
    """)


def make_op(vjp: Callable[..., Sequence[Value | None]] | None) -> OpDefinition:
    return OpDefinition("opaque", Kind.MOVEMENT, "A test op.", infer=lambda type: type, evaluate=lambda array: array, vjp=vjp,
                        batch=None, samples=lambda: iter(()))


def opaque_gradient(vjp: Callable[..., Sequence[Value | None]] | None, use: Callable[[Value, Value], Value]) -> Graph:
    opaque = make_op(vjp)

    def body(x: Value) -> Sequence[Value]:
        return [use(x, opaque(x))]

    builder = GraphBuilder("inner")
    x = builder.param(SCALAR)
    with emitting(builder), builder.at(loc=Location("model.py", 7, "loss")):
        inner = builder.build(body(x))
    return trace_graph("f", [SCALAR], lambda x: ops.vjp.emit(x, ops.full_like(x, 1.0), regions=(inner,), wrt=(0,), cotangents=(0,)))


def test_an_op_without_a_derivative_is_named_with_its_line() -> None:
    with pytest.raises(NonDifferentiableError, match="opaque has no derivative") as error:
        differentiate(opaque_gradient(None, ops.multiply), Options())
    assert error.value.location == Location("model.py", 7, "loss")
    assert "stop_gradient" in str(error.value)
    graph = differentiate(opaque_gradient(None, lambda x, y: ops.multiply(x, ops.stop_gradient(y))), Options())
    assert [op.name for op in graph.ops if op.role is Role.ADJOINT] == ["strong_multiply"]


def test_a_wrong_rule_is_found() -> None:
    with pytest.raises(VerificationError, match=r"gives f64\[2\] for operand 1 of type f64\[\]"):
        differentiate(opaque_gradient(lambda *_: [ops.constant(value=0.0, dtype=F64, shape=(2,))], ops.multiply), Options())
    with pytest.raises(VerificationError, match="gives 2 cotangents for 1 operands"):
        differentiate(opaque_gradient(lambda ct, *_: [ct, ct], ops.multiply), Options())


def test_parameter_roles_and_names_stay() -> None:
    result = expand("""
        graph @f(%x: f32[] donated, %w: f32[] captured) {
          %y: f32[] = checkpoint %x [
            graph @g(%x: f32[]) {
              return %x
            }
          ]
          %z: f32[] = add %y, %w
          return %z
        }
    """)
    assert result.param_roles == ("donated", "captured")
    assert [value.name for value in result.params] == ["x", "w"]


def chain(length: int) -> Graph:
    def body(x: Value) -> Value:
        for _ in range(length):
            x = ops.add(ops.multiply(x, x), x)
        return x
    return gradient(body, TensorType(F32, ()))


def test_the_joint_graph_is_linear_in_the_program_and_deep_programs_work() -> None:
    small, large = len(expand(chain(100)).ops), len(expand(chain(5000)).ops)
    assert large - small == 49 * (small - 1)      # 1: the cotangent that starts it


def test_integer_arguments_have_zero_cotangents() -> None:
    graph = gradient(lambda x, n: ops.multiply(x, ops.convert(n, dtype=F64)), SCALAR, TensorType(I64, ()), wrt=(0, 1))
    dx, dn = interpret(expand(graph), [np.array(2.0), np.array(3)])
    assert (dx, dn) == (3.0, 0)
    assert dn.dtype == np.int64
