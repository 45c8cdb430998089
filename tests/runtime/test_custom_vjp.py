"""`custom_vjp`: functions with a derivative rule of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adjit import autograd
from adjit.eager.tensor import tensor
from adjit.ir.errors import AdjitError, DTypeError, NonDifferentiableError, ShapeError, TraceError
from adjit.ir.graph import walk
from adjit.runtime.compile_function import compile
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.jacobians import hessian
from adjit.runtime.transforms import checkpoint, grad, jvp, value_and_grad, vjp
from adjit.tracer.trace import trace_function

X = np.array([0.3, -0.7, 1.2])
Y = np.array([2.0, 3.0, -1.0])


@pytest.fixture(params=["outside", "inside"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Calls a function directly, or within a compiled function."""
    if request.param == "outside":
        return lambda f, *args: f(*args)
    return lambda f, *args: compile(lambda *args: f(*args))(*args)


def with_rule(fun: Callable[..., Any], forward: Callable[..., Any], backward: Callable[..., Any]) -> custom_vjp:
    made = custom_vjp(fun)
    made.defvjp(forward, backward)
    return made


def log1pexp(x):
    return np.log(1 + np.exp(x))


stable = with_rule(log1pexp, lambda x: (log1pexp(x), x), lambda x, ct: (ct * (1 - 1 / (1 + np.exp(x))),))


def test_the_rule_is_used(run):
    # the example of JAX's documentation: by the ordinary rules the derivative at 100 is nan, as exp(100) is inf in float32
    x = np.float32(100.0)
    assert run(grad(stable), x) == 1.0
    assert run(stable, 0.0) == pytest.approx(np.log(2))
    np.testing.assert_allclose(run(grad(lambda x: np.sum(stable(x) * Y)), X), Y / (1 + np.exp(-X)))


def test_the_rule_may_say_anything(run):
    wrong = with_rule(lambda x, y: x * y, lambda x, y: (x * y, (x, {"y": y}, "static")),
                      lambda residuals, ct: (ct * 100 + residuals[0], ct * residuals[1]["y"] * len(residuals[2])))
    dx, dy = run(grad(lambda x, y: np.sum(wrong(x, y)), (0, 1)), X, Y)
    np.testing.assert_allclose(dx, 100 + X)
    np.testing.assert_allclose(dy, 6 * Y)
    assert run(lambda x, y: np.sum(wrong(x, y)), X, Y) == pytest.approx(X @ Y)


def test_trees_and_static_arguments(run):
    def fun(params, mode, x):
        return {"out": params["w"] * x if mode == "times" else x, "more": (x, None)}

    def forward(params, mode, x):
        return fun(params, mode, x), (params, x)

    def backward(residuals, ct):
        params, x = residuals
        return {"w": ct["out"] * x, "b": None}, None, ct["out"] * params["w"] + ct["more"][0]

    rule = with_rule(fun, forward, backward)
    params = {"w": Y, "b": np.ones(2, np.float32)}

    def loss(params, x):
        out = rule(params, x=x, mode="times")
        return np.sum(out["out"]) + np.sum(out["more"][0])
    value, (gradients, dx) = run(value_and_grad(loss, (0, 1)), params, X)
    assert value == pytest.approx(np.sum(Y * X + X))
    np.testing.assert_allclose(gradients["w"], X)
    assert gradients["b"].tolist() == [0, 0]
    assert gradients["b"].dtype == np.float32
    np.testing.assert_allclose(dx, Y + 1)


def test_integer_arguments_get_none(run):
    def fun(x, indices):
        return x[indices]

    def backward(residuals, ct):
        (indices,) = residuals
        assert indices.dtype == np.int64
        return np.sum(ct) * np.ones(3), None

    gather = with_rule(fun, lambda x, indices: (fun(x, indices), (indices,)), backward)
    assert run(grad(lambda x, indices: np.sum(gather(x, indices))), X, np.array([0, 0])).tolist() == [2, 2, 2]


def test_the_rule_is_differentiated_for_higher_orders(run):
    square = with_rule(lambda x: x * x, lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
    assert run(grad(grad(square)), 3.0) == 2.0
    assert run(grad(grad(grad(lambda x: x * square(x)))), 3.0) == 6.0
    np.testing.assert_allclose(run(hessian(lambda x: np.sum(square(x) * X)), Y), np.diag(2 * X))
    assert run(lambda x: jvp(grad(square), (x,), (1.0,))[1], 3.0) == 2.0


def test_jvp_and_vjp_use_the_rule(run):
    triple = with_rule(lambda x: x, lambda x: (x, None), lambda _, ct: (3 * ct,))
    assert run(lambda x: jvp(triple, (x,), (2.0,))[1], 5.0) == 6.0
    assert run(lambda x: vjp(triple, x)[1](2.0)[0], 5.0) == 6.0


def test_within_a_checkpoint_and_around_one(run):
    triple = with_rule(np.sin, lambda x: (np.sin(x), x), lambda x, ct: (3 * ct * np.cos(x),))
    assert run(grad(checkpoint(lambda x: triple(x) * x)), 0.5) == pytest.approx(3 * np.cos(0.5) * 0.5 + np.sin(0.5))
    around = with_rule(checkpoint(np.sin), lambda x: (checkpoint(np.sin)(x), x), lambda x, ct: (3 * ct * checkpoint(np.cos)(x),))
    assert run(grad(around), 0.5) == pytest.approx(3 * np.cos(0.5))


def test_a_rule_that_takes_a_derivative(run):
    rule = with_rule(np.sin, lambda x: (np.sin(x), x), lambda x, ct: (ct * grad(np.sin)(x),))
    assert run(grad(rule), 0.5) == pytest.approx(np.cos(0.5))
    assert run(grad(grad(rule)), 0.5) == pytest.approx(-np.sin(0.5))


def test_functions_and_rules_may_close_over_arrays_and_traced_values(run):
    def loss(x, scale):
        rule = with_rule(lambda x: x * Y, lambda x: (x * Y * 1.0, None), lambda _, ct: (ct * Y * scale,))
        return np.sum(rule(x))
    np.testing.assert_allclose(run(grad(loss), X, 10.0), 10 * Y)

    def both(x, scale):
        rule = with_rule(lambda x: x * scale, lambda x: (x * scale, x), lambda x, ct: (ct * scale * x,))
        return np.sum(rule(x))
    np.testing.assert_allclose(run(grad(both), X, 10.0), 10 * X)


def test_a_derivative_with_respect_to_what_it_closes_over(run):
    def loss(x, scale):
        rule = with_rule(lambda x: x * scale, lambda x: (x * scale, x), lambda x, ct: (ct * scale,))
        return np.sum(rule(x))
    with pytest.raises(NonDifferentiableError, match="a value it closes over"):
        run(grad(loss, 1), X, np.float64(10.0))


def test_missing_cotangents_arrive_as_zeros(run):
    def backward(_, ct):
        return (10 * ct[0] + ct[1],)
    two = with_rule(lambda x: (x, x), lambda x: ((x, x), None), backward)
    assert run(grad(lambda x: two(x)[0]), 1.0) == 10.0
    assert run(grad(lambda x: two(x)[1]), 1.0) == 1.0


def error_of(kind: type[AdjitError], call: Callable[[], Any]) -> AdjitError:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_custom_vjp.py")
    return caught.value


@pytest.mark.parametrize(("forward", "backward", "kind", "words"), [
    (lambda x: np.sin(x), lambda x, ct: (ct,), TraceError, "has to return a pair"),
    (lambda x: ((np.sin(x),), x), lambda x, ct: (ct,), TraceError, "the function itself"),
    (lambda x: (np.sum(x), x), lambda x, ct: (ct,), TraceError, "f64[], the function itself * of f64[3]"),
    (lambda x: (np.sin(x), x), lambda x, ct: ct, ShapeError, "a tuple with one cotangent for each of its 1 arguments, got ndarray"),
    (lambda x: (np.sin(x), x), lambda x, ct: (ct, ct), ShapeError, "got 2 items"),
    (lambda x: (np.sin(x), x), lambda x, ct: (np.sum(ct),), ShapeError, "has shape (), expected (3,)"),
    (lambda x: (np.sin(x), x), lambda x, ct: (ct.astype(np.float32),), DTypeError, "has dtype float32, expected float64"),
    (lambda x: (np.sin(x), x), lambda x, ct: ({"x": ct},), ShapeError, "the structure"),
])
def test_rules_that_do_not_fit(forward, backward, kind, words):
    rule = with_rule(np.sin, forward, backward)
    assert words in error_of(kind, lambda: grad(lambda x: np.sum(rule(x)))(X)).message


def test_a_function_without_a_rule():
    bare = custom_vjp(log1pexp)
    assert bare(0.0) == np.log(2)
    assert "defvjp" in error_of(TraceError, lambda: grad(bare)(1.0)).hint
    bare.defvjp(lambda x: (log1pexp(x), None), lambda _, ct: (7 * ct,))
    assert grad(bare)(1.0) == 7.0
    error_of(TraceError, lambda: bare.defvjp(log1pexp, log1pexp))


def test_a_rule_may_call_its_own_function(run):
    @custom_vjp
    def total(x):
        return np.log(np.sum(np.exp(x)))

    total.defvjp(lambda x: (total(x), x), lambda x, ct: (2 * ct * np.exp(x - total(x)),))       # twice the truth: the rule is what counts
    share = np.exp(X) / np.sum(np.exp(X))
    np.testing.assert_allclose(run(grad(total), X), 2 * share)
    np.testing.assert_allclose(run(hessian(total), X), 2 * (np.diag(share) - 2 * np.outer(share, share)))
    assert np.isfinite(run(grad(lambda x: np.sum(hessian(total)(x) ** 2)), X)).all()


def test_keyword_only_arguments_have_no_place_in_a_rule():
    rule = with_rule(lambda x, *, scale: x * scale, lambda x: (x, None), lambda _, ct: (ct,))
    assert "scale" in error_of(TraceError, lambda: grad(lambda x: rule(x, scale=2.0))(1.0)).message


FACTOR = np.array(2.0)


def test_an_array_of_the_rule_that_is_bound_anew_is_noticed(monkeypatch):
    rule = with_rule(lambda x: x, lambda x: (x, None), lambda _, ct: (ct * FACTOR,))
    gradient = compile(grad(rule))
    assert (gradient(1.0), grad(rule)(1.0)) == (2.0, 2.0)
    monkeypatch.setitem(globals(), "FACTOR", np.array(5.0))
    assert (gradient(1.0), grad(rule)(1.0)) == (5.0, 5.0)


@custom_vjp
def doubled_and_tripled(x):
    return 2.0 * x, 3.0 * x


doubled_and_tripled.defvjp(lambda x: (doubled_and_tripled(x), None),
                           lambda residuals, cotangents: (100.0 * cotangents[0] + 1000.0 * cotangents[1],))


@pytest.mark.parametrize("wrap", [lambda function: function, compile], ids=["eager", "compiled"])
@pytest.mark.parametrize(("used", "expected"), [((0,), 100.0), ((1,), 1000.0), ((0, 1), 1100.0)], ids=["first", "second", "both"])
def test_tensors_of_which_not_all_are_used(wrap, used, expected):
    x = tensor(0.5, dtype="float64", requires_grad=True)
    results = wrap(lambda x: doubled_and_tripled(x))(x)
    sum(results[index] for index in used).backward()
    assert x.grad.item() == expected


@custom_vjp
def seven_times(x):
    return 7.0 * x


@custom_vjp
def rule_within_forward(x):
    return 2.0 * x


@custom_vjp
def rule_within_backward(x):
    return 2.0 * x


seven_times.defvjp(lambda x: (seven_times(x), x), lambda x, cotangent: (cotangent * np.cos(x),))
rule_within_forward.defvjp(lambda x: (rule_within_forward(x), seven_times(x)), lambda kept, cotangent: (cotangent * kept,))
rule_within_backward.defvjp(lambda x: (rule_within_backward(x), x), lambda x, cotangent: (cotangent * seven_times(x),))


@pytest.mark.parametrize("wrap", [lambda function: function, compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("function", [
    lambda x: seven_times(x * x) * x, lambda x: rule_within_forward(x * x) * x, lambda x: rule_within_backward(x * x) * x,
], ids=["plain", "in forward", "in backward"])
def test_second_derivatives_of_tensors_use_all_rules(wrap, function):
    """The rules are not the derivatives of the functions: any place where one is not used shows."""
    x = tensor(0.7, dtype="float64", requires_grad=True)
    y = wrap(function)(x)
    (first,) = autograd.grad(y, x, create_graph=True)
    (y + first * first).backward()
    slope, curvature = float(grad(function)(0.7)), float(grad(grad(function))(0.7))
    np.testing.assert_allclose([first.item(), x.grad.item()], [slope, slope + 2.0 * slope * curvature], rtol=1e-12)


def test_a_rule_sees_python_state_of_each_call(run):
    """Traces of functions that may read more than their arguments are not shared by calls."""
    def total(x):
        scale, y = [0.0], 0.0
        scaled = with_rule(lambda x: x * scale[0], lambda x: (x * scale[0], scale[0]), lambda scale, ct: (ct * scale,))
        for scale[0] in (1.0, 10.0):
            y = y + scaled(x)
        return np.sum(y)

    value, gradient = run(value_and_grad(total), X)
    assert value == pytest.approx(11 * X.sum())
    np.testing.assert_allclose(gradient, [11.0, 11.0, 11.0])


def test_ops_of_a_shared_rule_have_the_line_of_their_call():
    def total(a, b):
        first = np.linalg.det(a)
        return np.sum((first + np.linalg.det(a)) * b)

    graph = trace_function(total, (np.eye(2) + 1.0, np.ones(2)), {}).graph
    calls = [op for op in graph.ops if op.name == "custom_call"]
    lines = [{inner.loc.line for inner in walk(op.regions[0])} for op in calls]
    first = total.__code__.co_firstlineno
    assert lines == [{first + 1}, {first + 2}]
