"""`vmap`: whole functions against a loop over the examples; composition with the other transforms; decisions; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest
from support.backends import BACKENDS
from support.each import parametrize_within

import adjit as aj
from adjit.ir.errors import AdjitError, IndexingError, NonDifferentiableError, ShapeError, TraceError

Function = Callable[..., Any]
RNG = np.random.default_rng(0)
SIZE = 5
X = RNG.normal(size=(SIZE, 4))
A = RNG.normal(size=(SIZE, 4, 4))
S = A @ A.transpose(0, 2, 1) + 4 * np.eye(4)
W = {"a": RNG.normal(size=(4, 8)), "b": RNG.normal(size=8)}
MANY = {name: np.stack([value * (1 + 0.1 * example) for example in range(SIZE)]) for name, value in W.items()}
INDICES = RNG.integers(-4, 4, size=(SIZE, 7))
COUNTS = np.array([0, 3, 1, 4, 2])
KEYS = aj.random.split(aj.random.key(3), SIZE)
ROOTS = np.array([2.0, 9.0, 1e6, 1e-3, 1.0])


def loss(p: dict[str, Any], x: Any) -> Any:
    return np.sum(np.tanh(x @ p["a"] + p["b"]) ** 2)


def set_element(x: Any, i: Any) -> Any:
    x = x.copy()
    x[i] = 7.0
    x[:2] *= 2
    return x


def newton(a: Any) -> Any:
    return aj.while_loop(lambda z: np.abs(z * z - a) > 1e-12, lambda z: 0.5 * (z + a / z), a)


def power_sum(n: Any, x: Any) -> Any:
    """Reads `x[i]` for i < n: for an example that is done, i may be out of range."""
    return aj.fori_loop(0, n, lambda i, c: c * 1.5 * x[i] + 1.0, 1.0)


def guarded_read(x: Any, i: Any) -> Any:
    return aj.cond(i < 4, lambda i: x[i] ** 2, lambda i: np.sum(x), i)


def guarded_product(m: Any, x: Any) -> Any:
    """The square root of a negative number is in the branch that is not taken; a product of matrices follows."""
    return aj.cond(x[0] > 0, lambda x: np.sum(m @ np.sqrt(x)), lambda x: np.sum(m @ x), x * np.sign(x[0]) * np.sign(x))


@aj.custom_vjp
def tripled(x: Any, m: Any) -> Any:
    return np.sum(m @ x ** 2)


tripled.defvjp(lambda x, m: (np.sum(m @ x ** 2), (x, m)), lambda r, ct: (ct * 3 * r[0], ct * np.outer(np.ones(4), r[0])))


def host_sine(x: Any) -> Any:
    return aj.pure_callback(np.sin, ((4,), float), x, vjp=lambda ct, result, x: ct * np.cos(x))


def conv(x: Any, k: Any) -> Any:
    return np.sum(aj.nn.functional.conv2d(x[None], k, padding=1) ** 2)


IMAGES, KERNELS = RNG.normal(size=(SIZE, 2, 6, 6)), RNG.normal(size=(SIZE, 2, 2, 3, 3))


class Case(NamedTuple):
    fun: Function
    args: tuple[Any, ...]
    in_axes: Any = 0
    tolerance: float = 0.0


CASES: dict[str, Case] = {
    "sum": Case(lambda x: np.sum(np.sin(x) * x), (X,)),
    "shared parameters": Case(loss, (W, X), (None, 0)),
    "ensemble": Case(loss, (MANY, X[0]), (0, None)),
    "tree of axes": Case(loss, ({"a": MANY["a"], "b": W["b"]}, X), ({"a": 0, "b": None}, 0)),
    "last axis": Case(lambda x: np.cumsum(x), (X.T,), -1),
    "reductions": Case(lambda x: (np.max(x), np.argmin(x), np.mean(x), np.std(x), np.prod(x), np.any(x > 1)), (X,)),
    "einsum": Case(lambda a, x: np.einsum("ij,j->i", a, x) + np.trace(a), (A, X), 0, 1e-14),
    "gradients of examples": Case(aj.grad(loss), (W, X), (None, 0), 1e-14),
    "gradients of an ensemble": Case(aj.value_and_grad(loss), (MANY, X), 0, 1e-14),
    "hessian": Case(aj.hessian(lambda x: np.sum(np.sin(x) * x ** 2)), (X,), 0, 1e-14),
    "jacobian": Case(aj.jacobian(lambda x: np.tanh(S[0] @ x)), (X,), 0, 1e-14),
    "jvp": Case(lambda x: aj.jvp(np.tanh, (x,), (x * 2,))[1], (X,)),
    "hvp": Case(lambda x, v: aj.hvp(lambda x: np.sum(x ** 3), (x,), (v,)), (X, X + 1)),
    "vjp": Case(lambda x: aj.vjp(np.sin, x)[1](x), (X,)),
    "vmap": Case(aj.vmap(lambda a, b: a * b + np.sin(a), (0, None)), (X, X[:, 0])),
    "indices": Case(lambda x, i: x[i] * 2, (X, INDICES)),
    "indices of a shared array": Case(lambda x, i: x[i] * 2, (A[0], INDICES), (None, 0)),
    "indices of an inner axis": Case(lambda a, i: a[:, i], (A, INDICES)),
    "shared indices": Case(lambda a, i: a[:, i], (A, INDICES[0]), (0, None)),
    "gradient of indices": Case(aj.grad(lambda a, i: np.sum(a[:, i] ** 2)), (A, INDICES)),
    "written elements": Case(set_element, (X, INDICES[:, 0])),
    "sorting": Case(lambda x: np.sort(x) + np.argsort(x) + np.median(x), (X,)),
    "masked": Case(lambda x: x[x > 0].sum() + np.mean(x, where=x > -1), (X,)),
    "cholesky": Case(lambda s: np.sum(np.log(np.diagonal(np.linalg.cholesky(s)))), (S,), 0, 1e-13),
    "gradient of solve": Case(aj.grad(lambda s: np.sum(np.linalg.solve(s, np.ones(4)))), (S,), 0, 1e-13),
    "shared matrix of solve": Case(aj.grad(lambda s, b: np.sum(np.linalg.solve(s, b) ** 2), (0, 1)), (S[0], X), (None, 0), 1e-12),
    "determinants": Case(lambda s: np.sum(np.linalg.inv(s)) + np.linalg.det(s) + np.linalg.slogdet(s)[1], (S,), 0, 1e-13),
    "scan": Case(lambda x: aj.scan(lambda c, v: (c * 0.5 + v, c * v), 0.0, x), (X,)),
    "gradient of a scan": Case(aj.grad(lambda x: aj.scan(lambda c, v: (np.tanh(c * 0.5 + v), c), 0.0, x)[0]), (X,)),
    "scan with shared slices": Case(lambda c: aj.scan(lambda c, v: (c * 0.5 + v, c * v), c, X[0]), (X[:, 0],)),
    "fori_loop": Case(lambda x: aj.fori_loop(0, 4, lambda i, c: c * 0.5 + i, x), (X,)),
    "while_loop": Case(newton, (ROOTS,)),
    "gradient of a while_loop": Case(aj.grad(newton), (ROOTS,), 0, 1e-13),
    "counted loop": Case(power_sum, (COUNTS, X)),
    "gradient of a counted loop": Case(aj.grad(power_sum, 1), (COUNTS, X), 0, 1e-13),
    "second derivative of a counted loop": Case(
        aj.grad(lambda n, x: np.sum(aj.grad(power_sum, 1)(n, x) ** 2), 1), (COUNTS, X), 0, 1e-12),
    "while_loop of a shared count": Case(power_sum, (np.array(3), X), (None, 0)),
    "cond": Case(lambda x: aj.cond(x > 0, np.log1p, lambda v: v * v, x), (X[:, 0],)),
    "gradient of a cond": Case(aj.grad(lambda x: aj.cond(x > 0, np.sqrt, lambda v: v * v, x)), (X[:, 0],)),
    "cond of a shared predicate": Case(lambda p, x: aj.cond(p > 0, np.sin, np.cos, x), (np.float64(1.0), X), (None, 0)),
    "branch that would fail": Case(guarded_read, (X, np.array([0, 7, 3, 4, 9]))),
    "gradient of a branch that would fail": Case(aj.grad(guarded_read), (X, np.array([0, 7, 3, 4, 9]))),
    "branch that no example takes": Case(guarded_read, (X, np.arange(5, 10))),
    "gradient beside a NaN": Case(aj.grad(guarded_product), (A[0], X), (None, 0), 1e-13),
    "branch that would not end": Case(lambda x: aj.cond(x > 0, newton, lambda v: v, x), (np.array([2.0, -1.0, 3.0, -2.0, 4.0]),)),
    "random": Case(lambda k: (aj.random.normal(k, (3,)), aj.random.permutation(aj.random.split(k)[1], 6)), (KEYS,)),
    "checkpoint": Case(aj.grad(lambda x: np.sum(aj.checkpoint(np.sin)(x) ** 2)), (X,)),
    "custom_vjp": Case(aj.grad(tripled, (0, 1)), (X, A), 0, 1e-14),
    "custom_vjp with a shared argument": Case(aj.grad(tripled, (0, 1)), (X, A[0]), (0, None), 1e-14),
    "callback": Case(lambda x: host_sine(x) * 2, (X,)),
    "gradient of a callback": Case(aj.grad(lambda x: np.sum(host_sine(x) ** 2)), (X,), 0, 1e-14),
    "convolution of a shared kernel": Case(aj.grad(conv, (0, 1)), (IMAGES, KERNELS[0]), (0, None), 1e-12),
    "convolution": Case(aj.grad(conv, (0, 1)), (IMAGES, KERNELS), 0, 1e-12),
    "pooling": Case(aj.grad(lambda x: np.sum(aj.nn.functional.max_pool2d(x[None], 2) ** 2)), (IMAGES,)),
    "compiled": Case(aj.compile(lambda x: np.sin(x) * 2), (X,)),
    "decision on which all agree": Case(lambda x, n: x * 2 if n > 3 else x * 3, (X, np.arange(4, 9))),
    "decision on a shared argument": Case(lambda x, n: x * 2 if n > 3 else x * 3, (X, np.float64(1.0)), (0, None)),
    "decision in a derivative": Case(aj.grad(lambda x: np.sum(x * 2 if np.sum(x ** 2) > 0 else x)), (X,)),
    "number on which all agree": Case(lambda x: np.sum(x) * int(np.round(np.sum(x * 0)) + 2), (X,)),
    "numbers and names": Case(lambda x, name, power: np.sum(x ** power) if name == "sum" else x, (X, "sum", 2), (0, None, None)),
    "float32": Case(lambda x: np.sum(x * 2), (X.astype(np.float32),)),
    "no examples": Case(lambda x: np.sum(np.sin(x) @ A[0]), (X[:0],)),
}


def axes_of(in_axes: Any, args: tuple[Any, ...]) -> list[Any]:
    return list(in_axes) if isinstance(in_axes, tuple) else [in_axes] * len(args)


def example_of(args: tuple[Any, ...], in_axes: Any, example: int) -> list[Any]:
    def pick(arg: Any, axes: Any) -> Any:
        if axes is None:
            return arg
        return optree.tree_map(lambda leaf, axis: leaf if axis is None else np.take(leaf, example, axis), arg,
                               axes if isinstance(axes, dict) else optree.tree_map(lambda _: axes, arg), none_is_leaf=True)

    return [pick(arg, axes) for arg, axes in zip(args, axes_of(in_axes, args), strict=True)]


def assert_is_loop(found: Any, fun: Function, args: tuple[Any, ...], in_axes: Any, size: int, tolerance: float) -> None:
    """`found` is what `fun` gives for each example, stacked."""
    examples = [fun(*example_of(args, in_axes, example)) for example in range(size)]
    for number, leaf in enumerate(optree.tree_leaves(found)):
        assert len(leaf) == size
        for example in range(size):
            expected = np.asarray(optree.tree_leaves(examples[example])[number])
            assert leaf[example].dtype == expected.dtype
            np.testing.assert_allclose(leaf[example], expected, rtol=tolerance, atol=tolerance)


@parametrize_within("case", CASES.values(), ids=CASES, share=3)
def test_vmap_is_a_loop(case: Case) -> None:
    """Without a tolerance to the bit."""
    size = SIZE if np.size(optree.tree_leaves(case.args)[0]) else 0
    assert_is_loop(aj.vmap(case.fun, case.in_axes)(*case.args), aj.compile(case.fun), case.args, case.in_axes, size, case.tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_agree(backend: Any) -> None:
    for name in ("gradients of examples", "gradient of a counted loop", "gradient of a branch that would fail", "custom_vjp", "indices"):
        case = CASES[name]
        compiled = aj.compile(lambda *args, case=case: aj.vmap(case.fun, case.in_axes)(*args), backend=backend)
        expected = aj.vmap(case.fun, case.in_axes)(*case.args)
        for one, other in zip(optree.tree_leaves(compiled(*case.args)), optree.tree_leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


# -- composition


def test_gradient_of_vmap_is_that_of_the_loop() -> None:
    for fun, tolerance in ((loss, 1e-13), (lambda p, x: aj.cond(x[0] > 0, lambda x: loss(p, x), lambda x: np.sum(p["b"]), x), 1e-13)):
        found = aj.grad(lambda p, fun=fun: np.sum(aj.vmap(fun, (None, 0))(p, X)))(W)
        expected = aj.grad(lambda p, fun=fun: sum(fun(p, X[example]) for example in range(SIZE)))(W)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance)


def test_gradient_by_what_the_examples_share() -> None:
    """A user's rule gives the cotangent of each example, which are summed; no NaN of a branch that is not taken gets into the sum."""
    for fun, args in ((tripled, (X, A[0])), (lambda x, m: guarded_product(m, x), (X, A[0]))):
        found = aj.grad(lambda x, m, fun=fun: np.sum(aj.vmap(fun, (0, None))(x, m)), (0, 1))(*args)
        expected = aj.grad(lambda x, m, fun=fun: sum(fun(x[example], m) for example in range(SIZE)), (0, 1))(*args)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


def test_transforms_compose_in_any_order() -> None:
    np.testing.assert_allclose(aj.vmap(aj.grad(lambda x: np.sum(aj.vmap(np.sin)(x) ** 2)))(X), 2 * np.sin(X) * np.cos(X))
    second = aj.hessian(lambda x: np.sum(aj.vmap(aj.grad(lambda v: v ** 3))(x) ** 2))(X[0])
    np.testing.assert_allclose(second, np.diag(108 * X[0] ** 2), rtol=1e-12)
    total, rows = aj.scan(lambda c, x: (c + aj.vmap(np.sin)(x), aj.vmap(lambda v: v * 2)(x)), np.zeros(4), X)
    np.testing.assert_allclose(total, np.sin(X).sum(0), rtol=1e-13)
    np.testing.assert_array_equal(rows, X * 2)
    value, tangent = aj.jvp(aj.vmap(lambda x: np.sum(x ** 2)), (X,), (X,))
    np.testing.assert_allclose(tangent, 2 * value)
    both = aj.jacobian(aj.vmap(newton))(ROOTS[:4])
    np.testing.assert_allclose(both, np.diag(0.5 / np.sqrt(ROOTS[:4])), rtol=1e-6)


def test_nested_vmaps_have_axes_of_their_own() -> None:
    table = aj.vmap(aj.vmap(lambda a, b: a - b, (None, 0)), (0, None))(X[:, 0], X[0])
    np.testing.assert_array_equal(table, X[:, :1] - X[0])
    swapped = aj.vmap(aj.vmap(lambda a, b: a - b, (0, None)), (None, 0), out_axes=1)(X[:, 0], X[0])
    np.testing.assert_array_equal(swapped, table)


def test_out_axes() -> None:
    axes = {"a": -1, "b": None, "c": 0, "d": 0}
    found = aj.vmap(lambda x: {"a": np.outer(x, x), "b": np.ones(2), "c": 3.0, "d": "name"}, out_axes=axes)(X)
    np.testing.assert_array_equal(found["a"], np.einsum("ni,nj->ijn", X, X))
    np.testing.assert_array_equal(found["b"], np.ones(2))
    np.testing.assert_array_equal(found["c"], np.full(SIZE, 3.0))
    assert found["d"] == "name"
    np.testing.assert_array_equal(aj.vmap(lambda: np.arange(3.0), axis_size=2)(), [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(aj.vmap(lambda x, scale: x * scale)(X, scale=X[:, 0]), X * X[:, :1])


def test_what_examples_share_is_computed_once() -> None:
    """Products with shared weights are not repeated, in the gradients of examples either; nor are the weights."""
    text = aj.compile(lambda w, x: aj.vmap(aj.grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2)), (None, 0))(w, x)).ir(
        "optimized", np.ones((4, 8)), np.ones((100, 4)))
    assert "f64[100,8] = matmul %x, %w" in text
    assert "broadcast %w" not in text


def test_a_shared_left_matrix_is_repeated_if_that_moves_less() -> None:
    """Inputs of many networks: else the weights and all results are transposed."""
    def text(inner: int) -> str:
        x, many = np.ones((32, inner)), np.ones((SIZE, inner, 64))
        return aj.compile(lambda x, many: aj.vmap(lambda w: x @ w)(many)).ir("optimized", x, many)

    assert "transpose %" not in text(8)
    assert "transpose %" in text(400)


def test_examples_of_a_callback_run_in_turn_and_explain_says_so() -> None:
    compiled = aj.compile(lambda x: aj.vmap(host_sine)(x))
    np.testing.assert_allclose(compiled(X), np.sin(X))
    assert "within vmap, for one example after the other\n  callback, 5 times at" in compiled.explain(X)
    assert "within vmap" not in aj.compile(lambda x: aj.vmap(np.sin)(x)).explain(X)


def test_tensors_and_modules_are_mapped() -> None:
    x, layer = aj.tensor(X, requires_grad=True), aj.nn.Linear(4, 3)
    aj.vmap(lambda v: (v * v).sum())(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X)
    found = aj.vmap(layer)(x)
    np.testing.assert_allclose(found.detach().numpy(), layer(x).detach().numpy(), rtol=1e-5)
    found.sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), np.tile(X.sum(0), (3, 1)), rtol=1e-5)


# -- decisions


def branchy(x: Any, n: Any) -> Any:
    return x * 2 if n > 3 else x * 3


def test_a_decision_is_taken_anew_when_the_examples_change_their_mind_together() -> None:
    mapped = aj.vmap(branchy)
    for n, factor in ((np.arange(4, 9), 2), (np.arange(5) - 2, 3), (np.arange(5, 10), 2)):
        np.testing.assert_array_equal(mapped(X, n), X * factor)
    for _ in range(3):
        with pytest.raises(TraceError, match="not the same for all examples") as caught:
            mapped(X, np.arange(2, 7))
        assert caught.value.location is not None
        assert caught.value.location.function == "branchy"
        assert "aj.cond" in caught.value.hint
    np.testing.assert_array_equal(mapped(X, np.arange(5, 10)), X * 2)


@parametrize_within("fun", [
    lambda x: np.sum(x) if x[0] > 0 else x[1], lambda x: x * float(x[0]), lambda x: x[:int(x[0] * 10)], lambda x: [1, 2][int(x[0] > 0)],
    lambda x: x * 2 if aj.grad(lambda v: v ** 2)(x[0]) > 0 else x, lambda x: aj.vmap(lambda v: v if v > 0 else -v)(x),
    lambda x: aj.scan(lambda c, v: (c + (v if x[0] > 0 else -v), v), 0.0, x)[0],
    lambda x: x * 2 if newton(x[0] ** 2) * np.sign(x[0]) > 0 else x,
    lambda x: x * 2 if aj.grad(newton)(x[0] ** 2) * np.sign(x[0]) > 0 else x])
def test_a_decision_on_which_examples_differ_is_refused(fun: Function) -> None:
    """Examples differ in the sign of their first element; then they agree, and the function is mapped."""
    with pytest.raises(TraceError, match="not the same for all examples"):
        aj.vmap(fun)(X)
    same = np.tile(np.abs(X[0]) + 0.1, (SIZE, 1))
    assert_is_loop(aj.vmap(fun)(same), aj.compile(fun), (same,), 0, SIZE, 1e-13)


def test_signs_of_zeros_and_nan_are_told_apart() -> None:
    def told(x: Any) -> Any:
        return np.copysign(1.0, float(x)) + x

    with pytest.raises(TraceError, match="not the same for all"):
        aj.vmap(told)(np.array([0.0, -0.0]))
    assert np.isnan(aj.vmap(told)(np.array([np.nan, np.nan]))).all()
    assert np.array_equal(aj.vmap(told)(np.array([-0.0, -0.0])), [-1, -1])


def test_a_number_through_which_a_derivative_would_go_is_refused() -> None:
    with pytest.raises(TraceError, match="through which no derivative goes"):
        aj.grad(lambda x: np.sum(aj.vmap(lambda v: v * float(v))(x)))(np.ones(3))


def test_no_examples() -> None:
    def equations(a: Any) -> Any:
        return np.linalg.solve(np.eye(2) + 1.0, a)

    def decreasing(a: Any) -> Any:
        return aj.while_loop(lambda x: np.sum(x) > 1.0, lambda x: equations(x) / 2, a)

    none = np.zeros((0, 2))
    assert [aj.vmap(f)(none).shape for f in (equations, decreasing)] == [(0, 2)] * 2
    assert np.array_equal(aj.grad(lambda w: np.sum(aj.vmap(lambda a: equations(w * a))(none)))(np.ones(2)), np.zeros(2))


# -- errors


def error_of(call: Callable[[], Any]) -> AdjitError:
    with pytest.raises(AdjitError) as caught:
        call()
    return caught.value


def test_sizes_that_differ_are_named() -> None:
    error = error_of(lambda: aj.vmap(lambda x, y: x + y)(X, X[:3]))
    assert isinstance(error, ShapeError)
    assert "vmap of <lambda>: the number of examples is 5 for x (axis 0 of (5, 4)) but 3 for y (axis 0 of (3, 4))" in str(error)
    error = error_of(lambda: aj.vmap(loss, (None, 0), axis_size=3)(W, X))
    assert "5 for x (axis 0 of (5, 4)) but 3 for axis_size=3" in str(error)
    error = error_of(lambda: aj.vmap(loss, (0, 0))({"a": MANY["a"], "b": W["b"]}, X))
    assert "8 for p['b'] (axis 0 of (8,))" in str(error)


@parametrize_within(("call", "kind", "text"), [
    (lambda: aj.vmap(np.sin, 1)(X[0]), ShapeError, "in_axes is 1 for args[0], which has shape (4,)"),
    (lambda: aj.vmap(lambda x, n: x * n)(X, 3.0), ShapeError, "in_axes is 0 for n, which is the number 3.0"),
    (lambda: aj.vmap(lambda x, n: x * n)(X, 3), ShapeError, "in_axes is 0 for n, which is the number 3"),
    (lambda: aj.vmap(lambda x: x, None)(X), TraceError, "no argument has an axis of examples"),
    (lambda: aj.vmap(lambda x: x, (0, 0))(X), TraceError, "in_axes has 2 entries for 1 positional arguments"),
    (lambda: aj.vmap(lambda x: x["a"], ({"b": 0},))({"a": X}), TraceError, "in_axes for x has the structure"),
    (lambda: aj.vmap(lambda x: x, out_axes=2)(X[:, 0]), ShapeError, "out_axes is 2 for result, which has shape ()"),
    (lambda: aj.vmap(lambda x: (x, x), out_axes=(0, None))(X), TraceError, "out_axes is None for result[1], which is another one for each"),
    (lambda: aj.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(X), TraceError, "out_axes has the structure"),
    (lambda: aj.vmap(lambda x: x, "0"), TraceError, "an axis of in_axes or out_axes is '0'"),
    (lambda: aj.vmap(lambda x: x.__setitem__(0, 1.0))(X), TraceError, "written to"),
    (lambda: aj.vmap(lambda x, i: x[i])(X, np.full(5, 9)), IndexingError, "out of range"),
    (lambda: aj.vmap(aj.grad(lambda x: x))(X), NonDifferentiableError, "shape (4,)"),
])
def test_errors_say_what_does_not_fit(call: Callable[[], Any], kind: type[AdjitError], text: str) -> None:
    error = error_of(call)
    assert isinstance(error, kind)
    assert text in str(error)


def test_as_a_decorator_with_arguments() -> None:
    @aj.vmap(in_axes=(0, None))
    def product(a: Any, b: Any) -> Any:
        return a * b

    np.testing.assert_array_equal(product(np.arange(3.0), np.array([1.0, 2.0])), np.outer(np.arange(3.0), [1.0, 2.0]))
