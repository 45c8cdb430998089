"""`grad` and its family on functions: values, trees, composition, errors; outside of a compiled function and inside of one."""

from __future__ import annotations

import functools
import gc
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
from support.each import parametrize_within
from support.tracing import counted_runs

import adjit as aj
from adjit.ir.errors import AdjitError, DTypeError, NonDifferentiableError, ShapeError, TraceError
from adjit.runtime.compile_function import compile
from adjit.runtime.exports.load import load
from adjit.runtime.jacobians import hessian, jacobian
from adjit.runtime.native.code import native_is_supported
from adjit.runtime.transforms import checkpoint, grad, hvp, jvp, stop_gradient, value_and_grad, vjp

Function = Callable[..., Any]
X = np.array([0.3, -0.7, 1.2])
V = np.array([1.0, -2.0, 0.5])


@pytest.fixture(params=["outside", "inside"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Calls a function directly, or within a compiled function."""
    if request.param == "outside":
        return lambda f, *args, **kwargs: f(*args, **kwargs)
    return lambda f, *args, **kwargs: compile(lambda *args, **kwargs: f(*args, **kwargs))(*args, **kwargs)


def differences(f: Function, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The Jacobian of `f` at `x` by central differences, the output's axes first."""
    columns = []
    for index in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[index] += step
        behind[index] -= step
        columns.append((np.asarray(f(ahead)) - np.asarray(f(behind))) / (2 * step))
    return np.stack(columns, -1).reshape(np.shape(columns[0]) + x.shape)


def f(x):
    return np.sum(np.sin(x) * x ** 2) + np.prod(x)


def g(x):
    return np.tanh(x) * np.cumsum(x ** 2) * x[0]


def assert_trees_close(found: Any, expected: Any, rtol: float = 1e-7) -> None:
    assert optree.tree_structure(found) == optree.tree_structure(expected)
    for one, other in zip(optree.tree_leaves(found), optree.tree_leaves(expected), strict=True):
        assert np.shape(one) == np.shape(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12)


# -- values

def test_grad_against_differences(run):
    np.testing.assert_allclose(run(grad(f), X), differences(f, X), rtol=1e-6)


def test_value_and_grad(run):
    value, gradient = run(value_and_grad(f), X)
    assert value == pytest.approx(f(X))
    np.testing.assert_array_equal(gradient, grad(f)(X))


def test_numbers_that_hips_autograd_gives(run):
    # autograd 1.9.1, the same function and numbers
    a = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
    y = np.array([1.0, 1.0, -1.0, 1.0])
    loss = lambda w: np.sum(np.log(1 + np.exp(-y * (a @ w))))       # noqa: E731
    w = np.array([0.1, -0.2, 0.3])
    np.testing.assert_allclose(run(grad(loss), w), [-0.6019844467271376, 0.6030960970045872, -1.3499290836504902], rtol=1e-12)
    np.testing.assert_allclose(run(hessian(loss), w), [
        [0.4291457726519896, -0.4415848324054046, 0.17136072058084462], [-0.4415848324054046, 1.822294959780486, -0.526738903844863],
        [0.1713607205808446, -0.526738903844863, 0.9451745576712838]], rtol=1e-12)


def test_vjp(run):
    def both(x, ct):
        out, pullback = vjp(g, x)
        return out, pullback(ct)
    out, pulled = run(both, X, V)
    assert isinstance(pulled, tuple)
    np.testing.assert_allclose(out, g(X), rtol=1e-12)
    np.testing.assert_allclose(pulled[0], V @ differences(g, X), rtol=1e-6)


def test_vjp_and_jvp_of_trees(run):
    primals = ({"a": X, "b": [np.float32(2.0), V]}, 3.0)

    def tree(p, y):
        return [p["a"] * y, {"c": p["b"][0] * p["b"][0]}]

    out, pulled = run(lambda *primals: (lambda out, pullback: (out, pullback([V, {"c": np.float32(1.0)}])))(*vjp(tree, *primals)), *primals)
    assert_trees_close(out, [3 * X, {"c": np.float32(4.0)}])
    assert_trees_close(pulled, ({"a": 3 * V, "b": [np.float32(4.0), np.zeros(3)]}, X @ V))
    value, tangent = run(lambda *primals: jvp(tree, primals, ({"a": V, "b": [np.float32(1.0), X]}, 1.0)), *primals)
    assert_trees_close(value, out)
    assert_trees_close(tangent, [3 * V + X, {"c": np.float32(4.0)}])
    product = run(lambda *primals: hvp(lambda p, y: np.sum(tree(p, y)[0]) * y, primals, primals), *primals)
    assert_trees_close(product, ({"a": np.full(3, 18.0), "b": [np.float32(0.0), np.zeros(3)]}, 12 * np.sum(X)))


def test_a_pullback_can_be_called_again_and_keeps_its_primals():
    x = X.copy()
    _, pullback = vjp(g, x)
    first = pullback(V)
    x[:] = 0
    assert_trees_close(pullback(V), first)
    assert_trees_close(pullback(2 * V), (2 * first[0],))


def test_jvp(run):
    value, tangent = run(lambda x, v: jvp(g, (x,), (v,)), X, V)
    np.testing.assert_allclose(value, g(X), rtol=1e-12)
    np.testing.assert_allclose(tangent, differences(g, X) @ V, rtol=1e-6)


def test_jacobian(run):
    np.testing.assert_allclose(run(jacobian(g), X), differences(g, X), rtol=1e-6, atol=1e-9)


def test_jacobian_puts_the_output_first(run):
    x = np.arange(6.0).reshape(2, 3)
    found = run(jacobian(lambda x: np.sin(x).T @ np.ones((2, 4))), x)
    assert found.shape == (3, 4, 2, 3)
    np.testing.assert_allclose(found, differences(lambda x: np.sin(x).T @ np.ones((2, 4)), x), atol=1e-8)


def test_hessian_is_the_jacobian_of_the_gradient(run):
    found = run(hessian(f), X)
    np.testing.assert_allclose(found, differences(grad(f), X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found, run(jacobian(grad(f)), X), rtol=1e-12)


def test_hvp_is_the_hessian_times_the_vector(run):
    found = run(lambda x, v: hvp(f, (x,), (v,)), X, V)
    np.testing.assert_allclose(found, hessian(f)(X) @ V, rtol=1e-10)


def test_hvp_of_two_primals(run):
    two = lambda x, y: np.sum(x * x * y)        # noqa: E731
    first, second = run(lambda x, y: hvp(two, (x, y), (V, 2 * V)), X, X + 1)
    np.testing.assert_allclose(first, 2 * (X + 1) * V + 2 * X * 2 * V, rtol=1e-12)
    np.testing.assert_allclose(second, 2 * X * V, rtol=1e-12)


# -- composition

def cube(x):
    return x ** 3 * np.sin(x)


DERIVATIVES = [      # of x^3 sin x
    lambda x: 3 * x ** 2 * np.sin(x) + x ** 3 * np.cos(x),
    lambda x: 6 * x * np.sin(x) + 6 * x ** 2 * np.cos(x) - x ** 3 * np.sin(x),
    lambda x: 6 * np.sin(x) + 18 * x * np.cos(x) - 9 * x ** 2 * np.sin(x) - x ** 3 * np.cos(x),
]


def pushed(f):
    return lambda x: jvp(f, (x,), (np.ones_like(x),))[1]


def pulled(f):
    return lambda x: vjp(f, x)[1](np.ones_like(x))[0]


STEPS = {
    "grad": grad,
    "value_and_grad": lambda f: lambda x: value_and_grad(f)(x)[1],
    "jvp": pushed,
    "vjp": pulled,
    "jacobian": jacobian,
    "checkpoint": lambda f: grad(checkpoint(f)),
    "around": lambda f: checkpoint(grad(f)),
    "compiled": lambda f: grad(compile(f)),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("outer", STEPS)
@parametrize_within("inner", STEPS)
def test_second_order(run, outer, inner):
    x = np.float64(0.8)
    assert run(STEPS[outer](STEPS[inner](cube)), x) == pytest.approx(DERIVATIVES[1](x), rel=1e-10)


@pytest.mark.parametrize("names", [
    ("grad", "grad", "grad"), ("jvp", "jvp", "jvp"), ("vjp", "vjp", "vjp"), ("grad", "jvp", "grad"), ("jvp", "grad", "grad"),
    ("grad", "grad", "jvp"), ("jacobian", "grad", "jvp"), ("grad", "checkpoint", "grad"), ("checkpoint", "checkpoint", "checkpoint"),
    ("around", "around", "jvp"), ("vjp", "jacobian", "checkpoint"), ("compiled", "compiled", "compiled"), ("jvp", "vjp", "value_and_grad"),
])
def test_third_order(run, names):
    x = np.float64(0.8)
    transformed = functools.reduce(lambda f, name: STEPS[name](f), reversed(names), cube)
    assert run(transformed, x) == pytest.approx(DERIVATIVES[2](x), rel=1e-10)


def test_vjp_of_vjp_of_a_vector_function(run):
    # the pullback as a function of the cotangent is linear: its own pullback gives J v back
    def twice(x, v):
        return vjp(lambda ct: vjp(g, x)[1](ct)[0], np.ones_like(x))[1](v)[0]
    np.testing.assert_allclose(run(twice, X, V), differences(g, X) @ V, rtol=1e-6)


def test_a_pullback_used_within_another_derivative(run):
    def loss(x, ct):
        _, pullback = vjp(g, x)
        return grad(lambda ct: np.sum(pullback(ct)[0] * V))(ct)
    np.testing.assert_allclose(run(loss, X, np.ones(3)), differences(g, X) @ V, rtol=1e-6)


def test_gradient_of_a_pushforward(run):
    pushes = lambda x: np.sum(jvp(g, (x,), (V,))[1])     # noqa: E731
    np.testing.assert_allclose(run(grad(pushes), X), differences(pushes, X), rtol=1e-6)


def test_no_perturbation_confusion(run):
    # J. Siskind, B. Pearlmutter, "Perturbation confusion and referential transparency", 2005: d/dx (x d/dy (x + y)) = 1
    assert run(grad(lambda x: x * grad(lambda y: x + y)(1.0)), 1.0) == 1.0
    assert run(grad(lambda x: x * jvp(lambda y: x + y, (1.0,), (1.0,))[1]), 1.0) == 1.0
    assert run(grad(lambda x: x * grad(lambda y: x * y)(2.0)), 3.0) == 6.0


def test_inner_gradients_close_over_outer_values(run):
    def outer(x, y):
        inner = grad(lambda y: np.sum(x ** 2 * y ** 3))(y)       # 3 x^2 y^2
        return np.sum(inner * x)
    np.testing.assert_allclose(run(grad(outer, (0, 1)), X, X + 2)[0], 9 * X ** 2 * (X + 2) ** 2, rtol=1e-12)
    np.testing.assert_allclose(run(grad(outer, (0, 1)), X, X + 2)[1], 6 * X ** 3 * (X + 2), rtol=1e-12)


def test_the_same_argument_twice(run):
    first, second = run(lambda x: grad(lambda a, b: np.sum(a * a * b), (0, 1))(x, x), X)
    np.testing.assert_allclose(first, 2 * X * X)
    np.testing.assert_allclose(second, X * X)


def test_arguments_that_are_outputs(run):
    out, (dx, dy) = run(lambda x, y: (lambda out, pullback: (out, pullback((V, 2 * V, 3 * V))))(*vjp(lambda x, y: (x, y, x), x, y)), X, V)
    assert_trees_close(out, (X, V, X))
    np.testing.assert_allclose(dx, 4 * V)
    np.testing.assert_allclose(dy, 2 * V)


# -- strong zero: the branch that is not taken contributes nothing

def test_the_branch_not_taken_contributes_exactly_zero(run):
    x = np.array([-1.0, 0.0, 4.0])
    assert run(grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0))), x).tolist() == [0, 0, 0.25]
    assert run(grad(lambda x: np.sum(np.where(x != 0, np.sin(x) / x, 1.0))), np.array([0.0]))[0] == 0
    assert run(grad(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0))), x).tolist() == [0, 0, 0.25]
    assert run(hessian(lambda x: np.sum(np.where(x > 0, x ** 1.5, 0.0))), np.array([0.0, 4.0])).tolist() == [[0, 0], [0, 0.375]]


def test_the_pushforward_has_no_nan_either(run):
    pushed = run(lambda x, v: jvp(lambda x: np.where(x > 0, np.sqrt(x), 0.0), (x,), (v,))[1], np.array([0.0, 4.0]), np.array([0.0, 1.0]))
    assert pushed.tolist() == [0, 0.25]


def test_second_derivatives_have_no_nan_either(run):
    def root(x):
        return np.sum(np.where(x > 0, np.sqrt(x), 0.0))

    def quotient(x):
        return np.sum(np.where(x != 0, 1.0 / (x * x), 0.0))

    seen = np.array([1.0, np.nan, np.inf])

    def misfit(p):
        return np.sum(np.where(np.isfinite(seen), (p[0] - seen) ** 2 * p[1], 0.0))

    x = np.array([-1.0, 0.0, 4.0])
    assert run(hessian(root), x).tolist() == np.diag([0, 0, -1 / 32]).tolist()
    assert run(lambda x, v: hvp(root, (x,), (v,)), x, np.ones(3)).tolist() == [0, 0, -1 / 32]
    assert run(lambda x, v: hvp(quotient, (x,), (v,)), np.array([0.0, 1.0]), np.ones(2)).tolist() == [0, 6]
    for found in run(hessian(misfit), np.array([3.0, 2.0])), run(jacobian(grad(misfit)), np.array([3.0, 2.0])):
        assert found.tolist() == [[4, 4], [4, 0]]


def test_nan_where_the_derivative_is_nan(run):
    assert np.isnan(run(grad(lambda x: np.sum(x * np.array([np.nan, 1.0]))), np.ones(2))).tolist() == [True, False]


# -- trees, dtypes, argnums

PARAMS = {"w": [np.ones((2, 3), np.float32), np.full(3, 2.0)], "b": (np.float64(1.5), {"unused": np.zeros((0, 2), np.float32)}),
          "none": None}


def model(params, x, scale=1.0):
    return np.sum(x @ params["w"][0] * params["w"][1]) * params["b"][0] * scale


def test_gradients_have_the_tree_of_the_argument(run):
    x = np.array([[1.0, 2.0]])
    value, gradients = run(value_and_grad(model), PARAMS, x)
    assert value == 27.0
    expected = {"w": [np.array([[3.0] * 3, [6.0] * 3], np.float32), np.full(3, 4.5)],
                "b": (np.float64(18.0), {"unused": np.zeros((0, 2), np.float32)}), "none": None}
    assert_trees_close(gradients, expected)


@dataclass
class Layer:
    weight: np.ndarray
    name: tuple = ()


def test_dataclasses_are_trees(run):
    found = run(grad(lambda layer, x: np.sum(layer.weight * x)), Layer(X), V)
    assert isinstance(found, Layer)
    np.testing.assert_array_equal(found.weight, V)


@pytest.mark.parametrize("layout", [lambda x: x[::-1], lambda x: x.astype(">f8"), lambda x: np.asfortranarray(np.stack([x, x]))])
def test_any_layout_of_the_argument(run, layout):
    np.testing.assert_allclose(run(grad(lambda x: np.sum(x ** 3)), layout(X)), 3 * layout(X) ** 2, rtol=1e-12)


def test_keyword_arguments_pass_through(run):
    x = np.array([[1.0, 2.0]])
    assert_trees_close(run(lambda p, x: grad(model)(p, x, scale=2.0), PARAMS, x)["w"][1], np.full(3, 9.0))
    assert_trees_close(run(lambda p, x, s: grad(model)(p, x, scale=s), PARAMS, x, np.float64(2.0))["w"][1], np.full(3, 9.0))
    assert run(grad(lambda x, kind: x * 2 if kind == "double" else x), 3.0, kind="double") == 2.0


@pytest.mark.parametrize(("argnums", "expected"), [
    (0, 12.0), (1, 9.0), (-1, 9.0), ((0, 1), (12.0, 9.0)), ((1,), (9.0,)), ([-1, 0], (9.0, 12.0)), ((), ()),
])
def test_argnums(run, argnums, expected):
    assert run(grad(lambda x, y: x * x * y, argnums), 3.0, 2.0) == expected


def test_jacobian_and_hessian_of_several_arguments(run):
    def h(x, y):
        return {"a": x * y[0], "b": np.sum(x) + y}
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    found = run(jacobian(h, (0, 1)), x, y)
    assert_trees_close(found, {"a": (3.0 * np.eye(2), np.array([[1.0, 0, 0], [2.0, 0, 0]])), "b": (np.ones((3, 2)), np.eye(3))})
    second = run(hessian(lambda x, y: np.sum(x) ** 2 * y[0], (0, 1)), x, y)
    assert_trees_close(second[0][0], np.full((2, 2), 6.0))
    assert_trees_close(second[0][1], np.array([[6.0, 0, 0], [6.0, 0, 0]]))
    assert_trees_close(second[1][0], np.array([[6.0, 6.0], [0, 0], [0, 0]]))
    assert_trees_close(second[1][1], np.zeros((3, 3)))
    bare = run(jacobian(lambda p: p["x"] * 2), {"x": x})
    assert_trees_close(bare, {"x": 2 * np.eye(2)})


def test_empty_and_scalar_jacobians(run):
    assert run(jacobian(lambda x: x * x), np.zeros((0, 2))).shape == (0, 2, 0, 2)
    assert_trees_close(run(jacobian(lambda x: x * x), 3.0), np.float64(6.0))
    assert run(jacobian(lambda x: x[:0]), np.ones(3, np.float32)).dtype == np.float32
    assert run(grad(lambda x: np.sum(x)), np.zeros(0)).shape == (0,)


def test_has_aux(run):
    def with_aux(x):
        return np.sum(x * x), {"doubled": 2 * x, "note": "text", "count": len(x)}
    gradient, aux = run(grad(with_aux, has_aux=True), X)
    np.testing.assert_allclose(gradient, 2 * X)
    assert_trees_close(aux["doubled"], 2 * X)
    assert (aux["note"], aux["count"]) == ("text", 3)
    (value, aux), gradient = run(value_and_grad(with_aux, has_aux=True), X)
    assert value == pytest.approx(X @ X)
    np.testing.assert_allclose(gradient, 2 * X)


def test_dtypes_of_gradients(run):
    value, gradient = run(value_and_grad(lambda x: np.sum(x * x)), np.ones(2, np.float32))
    assert (value.dtype, gradient.dtype) == (np.float32, np.float32)
    gradient = run(grad(lambda x: np.sum(x.astype(np.float64) * 3)), np.ones(2, np.float32))
    assert gradient.dtype == np.float32
    assert run(grad(lambda x, y: np.sum(x * y)), 2.0, np.ones(2, np.float32)).dtype == np.float64


def test_constant_outputs_have_zero_gradients(run):
    assert_trees_close(run(grad(lambda x: 3.0), X), np.zeros(3))
    assert_trees_close(run(grad(lambda x: np.sum(V)), X), np.zeros(3))
    assert_trees_close(run(jacobian(lambda x: V), X), np.zeros((3, 3)))
    value, tangent = run(lambda x: jvp(lambda x: V, (x,), (x,)), X)
    assert_trees_close((value, tangent), (V, np.zeros(3)))


def test_integers_on_the_way_carry_nothing(run):
    labels = np.array([0, 2, 1])
    found = run(grad(lambda x, labels: np.sum(x[labels] * np.argmax(x)) + np.sum(np.floor(x))), X, labels)
    assert_trees_close(found, np.full(3, 2.0))


# -- checkpoint and stop_gradient

def test_checkpoint_changes_nothing_but_what_is_kept(run):
    block = lambda x, p, power=2: np.tanh(x * p["w"]) ** power + p["b"]     # noqa: E731
    p = {"w": V, "b": X}

    def loss(p, x, block):
        for _ in range(3):
            x = block(x, p, power=3)
        return np.sum(x)
    assert_trees_close(run(grad(lambda p, x: loss(p, x, checkpoint(block))), p, X), grad(lambda p, x: loss(p, x, block))(p, X))
    assert_trees_close(checkpoint(block)(X, p), block(X, p))


def test_checkpoint_closes_over_traced_values(run):
    def loss(x):
        inner = checkpoint(lambda y: np.sin(y * x))
        return np.sum(inner(x))
    np.testing.assert_allclose(run(grad(loss), X), 2 * X * np.cos(X * X), rtol=1e-12)


def test_stop_gradient(run):
    assert run(grad(lambda x: x * stop_gradient(x)), 3.0) == 3.0
    found = run(grad(lambda p: np.sum(stop_gradient(p)["a"] * p["b"])), {"a": X, "b": V})
    assert_trees_close(found, {"a": np.zeros(3), "b": X})
    assert stop_gradient({"a": X, "n": 1})["a"] is X
    assert run(grad(grad(lambda x: x ** 3 * stop_gradient(x))), 2.0) == 24.0


# -- compiled once

@pytest.mark.parametrize("transform", [
    grad, value_and_grad, jacobian, hessian, lambda f: grad(grad(f)), lambda f: lambda x: vjp(f, x)[1](1.0),
    lambda f: lambda x: jvp(f, (x,), (1.0,)), lambda f: lambda x: hvp(f, (x,), (1.0,)), lambda f: grad(checkpoint(f)),
])
def test_writing_a_transform_anew_traces_nothing_anew(transform):
    def function(x):
        return cube(x)

    with counted_runs(function) as traces:
        first = transform(function)(0.8)
    assert traces
    with counted_runs(function) as traces:
        assert_trees_close(transform(function)(0.8), first)
        transform(function)(0.9)
    assert not traces


def test_settings_do_not_mix():
    def function(x, y):
        return x * x * y

    assert grad(function)(3.0, 2.0) == 12.0
    assert grad(function, 1)(3.0, 2.0) == 9.0
    assert grad(function, (0,))(3.0, 2.0) == (12.0,)
    assert value_and_grad(function)(3.0, 2.0) == (18.0, 12.0)


def test_a_wrapped_function_is_not_taken_for_the_one_it_wraps():
    assert grad(cube)(0.8) == pytest.approx(DERIVATIVES[0](0.8))

    @functools.wraps(cube)
    def twice(x):
        return 2 * cube(x)
    assert grad(twice)(0.8) == pytest.approx(2 * DERIVATIVES[0](0.8))


def test_functions_are_freed_with_what_was_made_of_them():
    def make():
        captured = np.ones(3)
        function = lambda x: np.sum(captured * x * x)      # noqa: E731
        grad(function)(X)
        return weakref.ref(function)
    reference = make()
    gc.collect()
    assert reference() is None


def test_a_function_can_be_pickled_after_its_gradient_was_taken():
    grad(cube)(0.8)
    stored = cube.__dict__
    assert stored
    for value in pickle.loads(pickle.dumps(stored)).values():     # what a pickler by value takes along
        assert not value.made


def test_what_is_kept_for_other_callables_is_bounded():
    instances = [Scaled(np.float64(number)) for number in range(200)]
    first = grad(instances[0].loss)
    assert grad(instances[0].loss) is first
    for instance in instances:
        grad(instance.loss)
    assert grad(instances[0].loss) is not first


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def loss(self, x):
        return np.sum(self.factor * x * x)

    def __call__(self, x):
        return self.loss(x)

    @compile
    def compiled_loss(self, x):
        return self.loss(x)


def test_methods_instances_and_ufuncs(run):
    one, other = Scaled(np.float64(1.0)), Scaled(np.float64(3.0))
    for _ in range(2):
        np.testing.assert_allclose(run(grad(one.loss), X), 2 * X)
        np.testing.assert_allclose(run(grad(other.loss), X), 6 * X)
        np.testing.assert_allclose(run(grad(other), X), 6 * X)
        assert run(grad(np.sin), 0.0) == 1.0


@pytest.mark.parametrize("transform", [aj.grad, lambda f: lambda p: aj.value_and_grad(f)(p)[1], aj.jacobian, aj.func.grad,
                                       lambda f: aj.grad(aj.checkpoint(f)), lambda f: aj.grad(functools.partial(f))])
def test_state_of_the_object_of_a_compiled_method(transform):
    class Fit:
        def __init__(self):
            self.calls, self.scale, self.weights = 0, 2.0, np.ones(3)

        @aj.compile
        def loss(self, p):
            self.calls += 1
            return self.scale * np.sum(self.weights * p**2)

    fit, p = Fit(), np.array([1.0, 2.0, 3.0])
    gradient = transform(fit.loss)
    for call in range(4):
        fit.scale = 2.0 + call
        if call == 2:
            fit.weights = p
        if call == 3:
            fit.weights[0] = 7.0
        np.testing.assert_allclose(gradient(p), fit.scale * 2 * fit.weights * p)
        assert fit.calls == call + 1


def test_gradient_of_a_compiled_method():
    one, other = Scaled(np.float64(1.0)), Scaled(np.float64(3.0))
    np.testing.assert_allclose(grad(one.compiled_loss)(X), 2 * X)
    np.testing.assert_allclose(grad(other.compiled_loss)(X), 6 * X)
    np.testing.assert_allclose(grad(one.compiled_loss)(X + 1), 2 * (X + 1))
    assert [grad(each.compiled_loss).cache_info().traces for each in (one, other)] == [1, 1]


def test_static_arguments_of_a_compiled_function_stay_static():
    @compile(static=("limit",), backend="interpret")
    def loss(x, limit):
        return np.sum(x) if limit > 1.0 else np.sum(2 * x)
    assert grad(loss)(X, 2.0).tolist() == [1, 1, 1]
    assert grad(loss)(X, limit=0.5).tolist() == [2, 2, 2]


def test_gradient_of_a_compiled_function(run):
    compiled = compile(lambda x, power: np.sum(x ** power), static=("power",))
    np.testing.assert_allclose(run(lambda x: grad(lambda x: compiled(x, 3))(x), X), 3 * X ** 2)
    np.testing.assert_allclose(run(grad(compile(f)), X), grad(f)(X))


# -- errors

def error_of(call: Callable[[], Any]) -> AdjitError:
    with pytest.raises(AdjitError) as caught:
        call()
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_transforms.py")
    return caught.value


def test_gradient_of_a_vector(run):
    error = error_of(lambda: run(grad(g), X))
    assert isinstance(error, NonDifferentiableError)
    assert error.message == "grad of g: the output has shape (3,), expected a scalar"
    assert "adjit.vjp" in error.hint
    assert "adjit.jacobian" in error.hint
    error = error_of(lambda: run(value_and_grad(lambda x: (np.sum(x), x)), X))
    assert error.message.startswith("value_and_grad of <lambda>: the output is a tree")
    assert "has_aux=True" in error.hint
    assert "`return`" in error_of(lambda: run(grad(lambda x: None), X)).hint


@pytest.mark.parametrize(("argument", "what"), [
    (np.arange(3), r"with respect to p\['w'\]\[1\], which is i64\[3\]"),
    (np.array([True]), r"with respect to p\['w'\]\[1\], which is bool\[1\]"),
    (3, r"with respect to p\['w'\]\[1\], which is the Python int 3"),
    (True, r"with respect to p\['w'\]\[1\], which is the Python bool True"),
    ("text", r"with respect to p\['w'\]\[1\], which is a str"),
])
def test_gradient_with_respect_to_something_else_than_floats(run, argument, what):
    def loss(p):
        return np.sum(p["w"][0])
    with pytest.raises(NonDifferentiableError, match="grad of loss " + what):
        run(grad(loss), {"w": [X, argument]})


def test_the_hint_for_integers_names_astype(run):
    assert ".astype(float)" in error_of(lambda: run(grad(lambda x: np.sum(x)), np.arange(3))).hint
    assert "3.0" in error_of(lambda: run(grad(lambda x: x * 1.0), 3)).hint
    for call in (lambda x: vjp(lambda x: x * 1.0, x), lambda x: jvp(lambda x: x * 1.0, (x,), (x,)), jacobian(lambda x: x * 1.0)):
        assert isinstance(error_of(lambda call=call: run(call, np.arange(3))), NonDifferentiableError)


def test_outputs_that_are_no_floats(run):
    for output in (lambda x: np.argmax(x), lambda x: x > 0, lambda x: "text", lambda x: False):
        assert isinstance(error_of(lambda output=output: run(grad(output), X)), NonDifferentiableError)
        assert isinstance(error_of(lambda output=output: run(lambda x: vjp(output, x)[0], X)), NonDifferentiableError)
        assert isinstance(error_of(lambda output=output: run(jacobian(output), X)), NonDifferentiableError)


def test_argnums_out_of_range(run):
    error = error_of(lambda: run(grad(cube, 1), 1.0))
    assert error.message == "grad: argnums names argument 1, but cube was called with 1 positional arguments"
    error_of(lambda: run(grad(cube, -2), 1.0))
    assert "twice" in error_of(lambda: run(grad(lambda x, y: x * y, (0, -2)), 1.0, 2.0)).message
    with pytest.raises(TypeError):
        grad(cube, 1.0)


@pytest.mark.parametrize("transform", [grad, value_and_grad, jacobian, hessian, checkpoint])
def test_what_is_no_function(transform):
    with pytest.raises(TypeError, match=r"takes a function( as its first argument)?, got array"):
        transform(X)


def test_has_aux_needs_a_pair(run):
    assert isinstance(error_of(lambda: run(grad(cube, has_aux=True), 1.0)), TraceError)


@pytest.mark.parametrize(("cotangent", "kind", "words"), [
    (np.ones(2), ShapeError, r"has shape \(2,\), expected \(3,\)"),
    ((np.ones(3),), ShapeError, "has the structure"),
    (np.ones(3, np.float32), DTypeError, "has dtype float32, expected float64"),
    (1.0, ShapeError, r"has shape \(\), expected \(3,\)"),
    ("text", DTypeError, "is a str"),
])
def test_cotangents_and_tangents_that_do_not_fit(run, cotangent, kind, words):
    with pytest.raises(kind, match="the cotangent " + words):
        run(lambda x: vjp(g, x)[1](cotangent), X)
    with pytest.raises(kind, match=r"tangents(\[0\])? " + words):
        run(lambda x: jvp(g, (x,), (cotangent,)), X)


def test_primals_and_tangents_have_to_be_tuples(run):
    assert "expected a tuple" in error_of(lambda: run(lambda x: jvp(g, x, x), X)).message
    assert isinstance(error_of(lambda: run(lambda x: jvp(g, (x,), (x, x)), X)), ShapeError)


def test_a_pullback_is_dead_after_its_trace():
    kept = []

    def leak(x):
        out, pullback = vjp(g, x)
        kept.append(pullback)
        return out
    compile(leak)(X)
    with pytest.raises(TraceError):
        compile(lambda ct: kept[0](ct))(V)


def penalized(x: Any) -> Any:
    if x[0] > 5.0:
        return 10**6
    if x[0] < -5.0:
        return np.int64(3)
    return np.sum(x * x)


@pytest.mark.parametrize(("start", "value"), [(1.0, None), (10.0, 1e6), (-10.0, 3.0)])
def test_an_integer_that_a_way_returns_is_a_number_without_gradient(start, value):
    x = np.array([start, 2.0])
    expected = (np.sum(x * x), 2 * x) if value is None else (value, 0 * x)
    for each in (value_and_grad(penalized), compile(value_and_grad(penalized))):
        found, gradient = each(x)
        assert found == expected[0]
        assert isinstance(found, np.float64)
        np.testing.assert_array_equal(gradient, expected[1])
    np.testing.assert_array_equal(hessian(penalized)(x), 2 * np.eye(2) * (value is None))


@pytest.mark.parametrize(("function", "found", "line"), [
    (lambda x: True, "the Python bool True", "lambda x: True"),
    (lambda x: np.sum(x > 0), r"i64\[\], made by reduce_sum", "np.sum"),
    (lambda x: "much", "a str", "much")])
def test_other_outputs_are_refused_at_the_line_that_returns_them(function, found, line):
    with pytest.raises(NonDifferentiableError, match=found) as caught:
        grad(function)(X)
    assert line in str(caught.value.location and caught.value.location.source())


def test_transforms_have_the_reports_of_their_programs(tmp_path: Path) -> None:
    def loss(x):
        return np.sum(x * x) if x[0] > 0 else np.sum(x)

    gradient, x = grad(loss), np.ones(3)
    gradient(x)
    assert gradient.explain().startswith("@grad_loss")
    assert gradient.cache_info().traces == 1
    assert "multiply" in gradient.ir("adjoint", x)
    assert gradient.memory(x).arena_bytes >= 0
    assert list(gradient.kernels(x))
    gradient.clear_cache()
    assert gradient.cache_info().size == 0
    assert jvp(loss, (x,), (x,))[1] == 6.0
    assert hessian(loss).explain(x).startswith("@jacobian_grad_loss")
    assert jacobian(loss).explain(x).startswith("@jacobian_loss")
    transformed = checkpoint(loss)
    with pytest.raises(TraceError, match=rf"compile it as one: adjit.compile\({transformed.__name__}\).explain"):
        transformed.explain(x)
    assert compile(transformed).explain(x)
    if native_is_supported():
        both = value_and_grad(loss)
        both.export(tmp_path / "both.adjit", x)
        assert load(tmp_path / "both.adjit")(2 * x)[1].tolist() == [4.0, 4.0, 4.0]
