"""Programs of complex numbers: compiled, with numba, eager; gradients against finite differences in real and imaginary directions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit.errors import NonDifferentiableError

Function = Callable[..., Any]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.asarray(generator.normal(size=shape) + 1j * generator.normal(size=shape))


V, W, A, B, Z = numbers(5), numbers(5, seed=1), numbers(3, 4, seed=2), numbers(4, 3, seed=3), numbers(4, 4, seed=4) + 2 * np.eye(4)
INDEX = np.array([2, 0, 1, 1])


def arithmetic(z: Any, w: Any) -> tuple[Any, ...]:
    return (z + w, z * w - 2j, z / w, -z, z**2, z**3, z**-2, z**0.5, z**w, 2**z, 1 / z, np.square(z), np.reciprocal(z), abs(z), np.sign(z),
            z.real, z.imag, z.conj(), np.angle(z), 1j * z.real, z * 3, z + w.real, np.maximum(z, w), np.where(z.real > 0, z, w))


def elementary(z: Any, w: Any) -> tuple[Any, ...]:
    return (np.exp(z), np.log(z), np.sqrt(z), np.sin(z), np.cos(z), np.tan(z), np.sinh(z), np.cosh(z), np.tanh(z), np.arcsin(z),
            np.arccos(z), np.arctan(z), np.arcsinh(z), np.arccosh(z), np.arctanh(z), np.log1p(z), np.expm1(z), np.log2(z), np.log10(z),
            np.exp2(z), np.sinc(w))


def reductions(z: Any, w: Any) -> tuple[Any, ...]:
    return (np.sum(z), np.prod(z), np.mean(z), np.var(z), np.std(z, ddof=1), np.cumsum(w), np.cumprod(w), np.max(z), np.min(w), np.sort(z),
            np.linalg.norm(z), np.linalg.norm(w, 1), np.diff(z), np.trapezoid(z), np.average(z, weights=np.abs(w)), np.median(z))


def products(a: Any, b: Any) -> tuple[Any, ...]:
    return (a @ b, a.conj().T @ a, np.vdot(a, b), np.einsum("ij,jk->ik", a, b), np.tensordot(a, b, 1), np.outer(a[0], b[0]), np.kron(a, b),
            np.trace(a @ b), np.inner(a, b.T), np.dot(a[0], b), np.convolve(a[0], b[:, 0]), np.correlate(a[0], b[:, 0], "full"),
            np.vecdot(a, b.T), a @ b.real, a @ b[:, 0].conj(), a.conj() @ b[:, 0], a.conj().T @ a[:, 0], b[:, 0] @ a.T,
            a[:1].conj() @ b.conj(), a[:1] @ a.conj().T, np.stack([a, a]) @ b[:, :1])


def movement(z: Any, a: Any) -> tuple[Any, ...]:
    return (z[::-1], z[INDEX], a[1:, ::2], a.T, np.concatenate([z, z.real]), np.stack([z, 2j * z]), np.pad(z, 1, constant_values=2j),
            np.roll(z, 2), np.take(a, INDEX, axis=1), np.diag(z), np.tril(a), np.repeat(z, 2), z.reshape(5, 1) + z, a.astype(np.complex64),
            np.zeros(2, complex) + z[0], np.array([z[0], 1j, 2.0]), np.linspace(z[0], z[1], 4), np.interp(0.5, np.arange(5.0), z))


def linear_algebra(z: Any, b: Any) -> tuple[Any, ...]:
    positive = z @ z.conj().T + 0.1 * np.eye(4)
    sign, logarithm = np.linalg.slogdet(z)
    return (np.linalg.solve(z, b), np.linalg.inv(z), np.linalg.det(z), sign, logarithm, np.linalg.cholesky(positive),
            np.linalg.matrix_power(z, 3))


def writes(z: Any, w: Any) -> tuple[Any, ...]:
    z, out = z.copy(), np.zeros(5, complex)
    z.real[1:3] = w.real[:2]
    z.imag[0] = 3.0
    z[4] *= 1j
    z.real = z.real * 2
    z[w.real > 0] = 2 - 1j
    for i in range(5):
        out[i] = w[i] * z[4 - i]
    np.add.at(out, np.array([0, 0, 3]), w[:3])
    return z, out


CASES: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    "arithmetic": (arithmetic, (V, W)), "elementary": (elementary, (V, W)), "reductions": (reductions, (V, W)),
    "products": (products, (A, B)), "movement": (movement, (V, A)), "linear algebra": (linear_algebra, (Z, B)), "writes": (writes, (V, W))}


def assert_same(found: Any, expected: Any, what: str = "") -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    np.testing.assert_allclose(found, expected, rtol=1000 * eps, atol=1000 * eps, err_msg=what)


def real_loss(fun: Function) -> Function:
    """Sum of Re(conj(c) * result), with fixed numbers c."""
    def loss(*arguments: Any) -> Any:
        results = fun(*arguments)
        total = 0.0
        for position, result in enumerate(results if isinstance(results, tuple) else (results,)):
            shape = np.shape(result)
            weight = numbers(*shape, seed=10 + position)
            total = total + np.sum(weight.real * np.real(result)) + np.sum(weight.imag * np.imag(result))
        return total
    return loss


def check_gradient(fun: Function, arguments: tuple[np.ndarray, ...], gradients: Any, rtol: float = 1e-6) -> None:
    """Gradients against differences along a random direction: the derivative is Re(conj(gradient) * direction)."""
    for position, gradient in enumerate(gradients):
        direction = numbers(*arguments[position].shape, seed=77)
        if arguments[position].dtype.kind == "f":
            direction = direction.real
        step = 1e-6

        def at(distance: float, position: int = position, direction: np.ndarray = direction) -> Any:
            moved = list(arguments)
            moved[position] = arguments[position] + distance * direction
            return fun(*moved)

        expected = (at(step) - at(-step)) / (2 * step)
        np.testing.assert_allclose(np.sum((np.conj(gradient) * direction).real), expected, rtol=rtol, atol=1e-6)


@parametrize_within("name", CASES)
def test_compiled_programs_compute_what_numpy_does(name: str) -> None:
    fun, arguments = CASES[name]
    compiled = aj.compile(fun)
    for given in (arguments, tuple(np.asfortranarray(x)[..., ::1] for x in arguments), tuple(x[::-1][::-1] for x in arguments)):
        for number, (found, expected) in enumerate(zip(compiled(*given), fun(*given), strict=True)):
            assert_same(found, expected, f"result {number}")


@parametrize_within("name", CASES, share=2)
def test_gradients_descend(name: str) -> None:
    fun, arguments = CASES[name]
    loss = real_loss(fun if name != "movement" else lambda z, a: tuple(x for i, x in enumerate(fun(z, a)) if i != 13))
    check_gradient(loss, arguments, aj.compile(aj.grad(loss, (0, 1)))(*arguments), 1e-5)


@parametrize_within("name", ["arithmetic", "products", "movement"])
def test_other_backends(name: str) -> None:
    fun, arguments = CASES[name]
    for found, expected in zip(aj.compile(fun, backend="interpret")(*arguments), fun(*arguments), strict=True):
        assert_same(found, expected)


def test_numba() -> None:
    def fun(z: Any, a: Any) -> Any:
        return np.exp(z) * z.conj(), np.sum(abs(z)), a @ a.T, z[::-1] / z

    for found, expected in zip(aj.compile(fun, backend="numba")(V, A), fun(V, A), strict=True):
        assert_same(found, expected)
    loss = real_loss(fun)
    check_gradient(loss, (V, A), aj.compile(aj.grad(loss, (0, 1)), backend="numba")(V, A))


@parametrize_within("name", ["arithmetic", "elementary", "reductions", "products", "linear algebra"])
def test_tensors(name: str) -> None:
    """Eager tensors have the same values and gradients."""
    fun, arguments = CASES[name]
    tensors = [aj.tensor(x, requires_grad=True) for x in arguments]
    results = fun(*tensors)
    for found, expected in zip(results, fun(*arguments), strict=True):
        assert_same(found.detach().numpy() if isinstance(found, aj.Tensor) else found, expected)
    loss = real_loss(fun)
    loss(*tensors).backward()
    check_gradient(loss, arguments, [x.grad.numpy() for x in tensors], 1e-5)


@parametrize_within("size", [1, 2, 3, 7, 8, 15, 16, 17, 33, 1000])
@parametrize_within("dtype", [np.complex64, np.complex128])
def test_lengths_around_those_of_vectors(size: int, dtype: type) -> None:
    z, w = numbers(size).astype(dtype), numbers(size, seed=1).astype(dtype)
    compiled = aj.compile(lambda z, w: (z * w + z, np.sum(z * w.conj()), abs(z), (z[:, None] * w[None, :3]).T, z * w[0]))
    for found, expected in zip(compiled(z, w), compiled.fun(z, w), strict=True):
        expected = np.asarray(expected)
        assert np.asarray(found).dtype == expected.dtype
        tolerance = 1e-4 if dtype is np.complex64 else 1e-12
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


# -- loops and branches


def test_scan_and_its_gradient() -> None:
    def fun(z: Any, w: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            carry = carry * x + 0.3j * np.conj(carry)
            return carry, np.exp(carry) * x
        return aj.scan(step, z, w)

    compiled = aj.compile(fun)
    last, rows = compiled(V[:2] * 0.3, W)
    carry, expected = V[:2] * 0.3, []
    for x in W:
        carry = carry * x + 0.3j * np.conj(carry)
        expected.append(np.exp(carry) * x)
    assert_same(last, carry)
    assert_same(rows, np.stack(expected))
    loss = real_loss(fun)
    gradients = aj.compile(aj.grad(loss, (0, 1)))(V[:2] * 0.3, W)

    def plain(z: Any, w: Any) -> Any:
        rows = []
        for x in w:
            z = z * x + 0.3j * np.conj(z)
            rows.append(np.exp(z) * x)
        return z, np.stack(rows)
    check_gradient(real_loss(plain), (V[:2] * 0.3, W), gradients)


def test_while_and_cond() -> None:
    def newton(z: Any) -> Any:
        return aj.while_loop(lambda z: abs(z**3 - 1) > 1e-12, lambda z: z - (z**3 - 1) / (3 * z**2), z)

    root = aj.compile(newton)(1.5 + 1j)
    assert abs(root**3 - 1) < 1e-12

    def mandelbrot(c: Any) -> Any:
        return aj.fori_loop(0, 6, lambda i, z: z * z + c, 0j * c)

    def plain(c: Any) -> Any:
        z = 0j * c
        for _ in range(6):
            z = z * z + c
        return z
    c = 0.3 * V
    assert_same(aj.compile(mandelbrot)(c), plain(c))
    check_gradient(real_loss(plain), (c,), [aj.compile(aj.grad(real_loss(mandelbrot)))(c)])

    def branch(z: Any) -> Any:
        return aj.cond(z[0].real > 0, lambda z: z * 2j, lambda z: np.conj(z), z)

    for z in (V, -V):
        assert_same(aj.compile(branch)(z), branch(z))
        check_gradient(real_loss(branch), (z,), [aj.compile(aj.grad(real_loss(branch)))(z)])


def test_decisions_of_python_on_complex_values() -> None:
    def fun(z: Any) -> Any:
        if z[0].real > 0:
            return z * complex(aj.stop_gradient(z[1]))
        while abs(z[0]) < 10:
            z = z * (1 + 1j)
        return z

    compiled = aj.compile(fun)
    for z in (V, -V, np.abs(V) + 0j, V):
        assert_same(compiled(z), fun(z))


def test_python_complex_is_weak() -> None:
    compiled = aj.compile(lambda z, number: (z * number, number * 2, number + 1j))
    for z in (V, V.astype(np.complex64), V.real.astype(np.float32)):
        for number in (1 + 2j, 3j):
            expected = z * number, number * 2, number + 1j
            for found, wanted in zip(compiled(z, number), expected, strict=True):
                assert_same(found, wanted)
    assert "complex" in str(compiled.explain())


def test_calls_after_the_first_are_fast_and_right() -> None:
    compiled = aj.compile(lambda z, w: z * w)
    for seed in range(6):
        z, w = numbers(50, seed=seed), numbers(50, seed=seed + 100)
        assert_same(compiled(z, w), z * w)


# -- transforms


def test_convention() -> None:
    """The gradient of |z|^2 is 2 z, that of Re(z) is 1, that of Im(z) is i."""
    assert aj.grad(lambda z: abs(z) ** 2)(3 + 4j) == 6 + 8j
    assert aj.grad(np.real)(3 + 4j) == 1
    assert aj.grad(np.imag)(3 + 4j) == 1j
    z = V
    gradient = aj.grad(lambda z: np.sum(abs(z - W) ** 2))
    for _ in range(200):
        z = z - 0.1 * gradient(z)
    np.testing.assert_allclose(z, W, atol=1e-8)


def test_holomorphic() -> None:
    for fun, derivative in ((lambda z: z**3, lambda z: 3 * z**2), (np.exp, np.exp), (lambda z: np.sin(z) * 1j, lambda z: 1j * np.cos(z)),
                            (np.arctan, lambda z: 1 / (1 + z * z))):
        np.testing.assert_allclose(aj.grad(fun, holomorphic=True)(0.3 + 0.4j), derivative(0.3 + 0.4j), rtol=1e-14)
    second = aj.grad(aj.grad(lambda z: z**4, holomorphic=True), holomorphic=True)
    np.testing.assert_allclose(second(1 + 1j), 12 * (1 + 1j) ** 2)


def test_errors_name_the_way_out() -> None:
    with pytest.raises(NonDifferentiableError, match=r"the output is complex \(c128\[\]\)[\s\S]*abs\(z\) \*\* 2[\s\S]*holomorphic=True"):
        aj.grad(lambda z: z * z)(1j)
    with pytest.raises(NonDifferentiableError, match="output and arguments have to be complex"):
        aj.grad(lambda z: abs(z), holomorphic=True)(1j)
    with pytest.raises(NonDifferentiableError, match="output and arguments have to be complex"):
        aj.grad(lambda x: x * 1j, holomorphic=True)(1.0)


@parametrize_within("name", ["arithmetic", "products", "linear algebra"])
def test_vjp_and_jvp_are_adjoint(name: str) -> None:
    """Re(conj(ct) * jvp(t)) = Re(conj(vjp(ct)) * t)."""
    fun, arguments = CASES[name]
    tangents = tuple(numbers(*x.shape, seed=5 + i) for i, x in enumerate(arguments))
    results, pushed = aj.compile(lambda a, t: aj.jvp(fun, a, t), backend="interpret")(arguments, tangents)
    cotangents = tuple(numbers(*np.shape(x), seed=20 + i) if np.asarray(x).dtype.kind == "c" else numbers(*np.shape(x), seed=20 + i).real
                       for i, x in enumerate(results))
    pulled = aj.compile(lambda a, c: aj.vjp(fun, *a)[1](c), backend="interpret")(arguments, tuple(np.asarray(c) for c in cotangents))
    left = sum(np.sum((np.conj(c) * p).real) for c, p in zip(cotangents, pushed, strict=True))
    right = sum(np.sum((np.conj(p) * t).real) for p, t in zip(pulled, tangents, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-10)


def test_second_order() -> None:
    def loss(z: Any) -> Any:
        return np.sum(abs(np.sin(z) * z[::-1]) ** 2) + np.real(np.prod(z))

    product = aj.hvp(loss, (V,), (W,))
    step = 1e-6
    expected = (aj.grad(loss)(V + step * W) - aj.grad(loss)(V - step * W)) / (2 * step)
    np.testing.assert_allclose(product, expected, rtol=1e-6, atol=1e-7)


def test_checkpoint_and_custom_rules() -> None:
    @aj.custom_vjp
    def cube(z: Any) -> Any:
        return z**3

    cube.defvjp(lambda z: (cube(z), z), lambda z, ct: (ct * np.conj(3 * z**2),))

    def loss(z: Any) -> Any:
        return real_loss(lambda z: aj.checkpoint(lambda z: np.exp(cube(z)))(z))(z)

    check_gradient(real_loss(lambda z: np.exp(z**3)), (0.3 * V,), [aj.compile(aj.grad(loss))(0.3 * V)])


def test_mixed_real_and_complex_arguments() -> None:
    def fun(x: Any, z: Any) -> Any:
        return np.exp(1j * x) * z, x / z

    loss = real_loss(fun)
    gradients = aj.compile(aj.grad(loss, (0, 1)))(V.real.copy(), W)
    assert gradients[0].dtype == np.float64
    check_gradient(loss, (V.real.copy(), W), gradients)


# -- the rest


def test_discarded_imaginary_parts_are_warned_of() -> None:
    with pytest.warns(np.exceptions.ComplexWarning):
        assert_same(aj.compile(lambda z: z.astype(np.float64))(V), V.real)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(aj.compile(lambda z: z.real.astype(np.float32))(V), V.real.astype(np.float32))


def test_exported_program(tmp_path: Path) -> None:
    compiled = aj.compile(lambda z, number: (z * number, np.sum(z)))
    path = tmp_path / "program.adjit"
    compiled.export(path, V, 2 + 1j)
    loaded = aj.load(path)
    for found, expected in zip(loaded(W, 3j), (W * 3j, np.sum(W)), strict=True):
        assert_same(found, expected)


def test_views_of_tensors() -> None:
    z = aj.tensor(V.copy(), requires_grad=True)
    w = z * 1
    w.real[0] = 5.0
    w.imag.mul_(2.0)
    assert w.is_complex()
    assert_same(w.detach().numpy()[0], 5 + 2j * V[0].imag)
    (abs(w) ** 2).sum().backward()
    expected = 2 * V.real + 8j * V.imag
    expected[0] = 8j * V[0].imag
    np.testing.assert_allclose(z.grad.numpy(), expected)
    assert aj.tensor([1j, 2.0]).dtype == np.complex64


def test_matrices_of_derivatives() -> None:
    """Real arguments with complex results, complex arguments with real results; both complex is an error."""
    x = np.array([0.3, 0.7])
    np.testing.assert_allclose(aj.jacobian(lambda x: np.exp(1j * x))(x), np.diag(1j * np.exp(1j * x)))
    np.testing.assert_allclose(aj.jacobian(lambda z: abs(z) ** 2)(V), np.diag(2 * V))
    with pytest.raises(NonDifferentiableError, match=r"arguments and outputs are complex[\s\S]*adjit.jvp"):
        aj.jacobian(lambda z: z * z)(V)
    with pytest.raises(NonDifferentiableError, match="arguments and outputs are complex"):
        aj.hessian(lambda z: np.sum(abs(z) ** 2))(V)
    with pytest.raises(NonDifferentiableError, match=r"an argument is complex[\s\S]*adjit.jacrev"):
        aj.jacfwd(lambda z: abs(z))(V)
    with pytest.raises(NonDifferentiableError, match=r"an output is complex[\s\S]*adjit.jacfwd"):
        aj.jacrev(lambda x: x * 1j)(x)


def test_backward_of_a_complex_tensor_needs_a_cotangent() -> None:
    z = aj.tensor(V, requires_grad=True)
    with pytest.raises(NonDifferentiableError, match=r"of a complex tensor \(complex128\)"):
        (z * z).sum().backward()
    (z * z).sum().backward(gradient=aj.tensor(np.asarray(1j)))
    np.testing.assert_allclose(z.grad.numpy(), 1j * np.conj(2 * V))


def test_examples_one_by_one_and_at_once() -> None:
    def fun(z: Any, w: Any) -> Any:
        return np.exp(z) * w.conj(), np.sum(z * w), abs(z), z @ w

    found = aj.compile(aj.vmap(fun))(A, A[::-1])
    for position, expected in enumerate(zip(*(fun(z, w) for z, w in zip(A, A[::-1], strict=True)), strict=True)):
        np.testing.assert_allclose(found[position], np.stack(expected), rtol=1e-12)


def test_header_for_c(tmp_path: Path) -> None:
    compiled = aj.compile(lambda z: (z * 2, np.sum(z.astype(np.complex64))))
    compiled.export(tmp_path / "program.so", V)
    header = (tmp_path / "program.h").read_text()
    assert "z: double _Complex [5]" in header
    assert "float _Complex a number" in header
