"""float16 and bfloat16: conversions of every number on every backend and target, NumPy's bits, derivatives, transforms, files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.backends import BACKENDS, COMPILING
from support.each import parametrize_within
from support.native_steps import TARGET_CASES, load_together, run_steps

import adjit as aj
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.fused import lower_fused
from adjit.errors import DTypeError
from adjit.ir import types
from adjit.ir.errors import VerificationError
from adjit.ir.graph import Op
from adjit.ir.ops.region import fused
from adjit.ir.parser import parse
from adjit.ir.types import F16, F32, F64, TensorType, bfloat16
from adjit.ir.verifier import Stage, verify

BF16 = bfloat16()
HALVES = (F16, BF16)
Function = Callable[..., Any]

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)


def floats_near_halves() -> np.ndarray:
    """Every float16 and bfloat16, the numbers half way between two, and their neighbours, as float32."""
    with np.errstate(all="ignore"):
        exact = np.concatenate([EVERY_HALF.view(dtype).astype(F32) for dtype in HALVES])
        ordered = np.sort(exact[np.isfinite(exact)]).astype(F64)
        between = ((ordered[1:] + ordered[:-1]) / 2).astype(F32)
        return np.concatenate([part for x in (exact, between)
                               for part in (x, np.nextafter(x, F32.type(np.inf)), np.nextafter(x, F32.type(-np.inf)))])


def doubles_near_halves() -> np.ndarray:
    """Numbers that two roundings, to float32 first, would round to another float16."""
    near = floats_near_halves().astype(F64)
    return np.concatenate([near, near * (1 + 2.0**-50), near * (1 - 2.0**-50), [1e-310, -1e300, 65519.99999999999, 2.0**-25 * (1 + 1e-15)]])


def assert_same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    bits = np.dtype(f"u{wanted.itemsize}")
    same = np.ascontiguousarray(found).view(bits) == np.ascontiguousarray(wanted).view(bits)
    with np.errstate(all="ignore"):
        bad = ~(same | (np.isnan(found) & np.isnan(wanted)))
    assert not bad.any(), (np.argwhere(bad)[:5], found[bad][:5], wanted[bad][:5])


def conversions() -> list[tuple[np.ndarray, np.dtype]]:
    """All conversions that have an op of their own, of numbers that show their rounding."""
    return [*((EVERY_HALF.view(dtype), F32) for dtype in HALVES), *((floats_near_halves(), dtype) for dtype in HALVES),
            (doubles_near_halves(), F16)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_conversions_have_the_bits_of_numpy(backend: str) -> None:
    convert = aj.compile(lambda x, dtype: x.astype(dtype), backend=backend, static=("dtype",))
    for x, dtype in conversions():
        with np.errstate(all="ignore"):
            assert_same_bits(convert(x, dtype), x.astype(dtype))


@pytest.mark.parametrize("target", TARGET_CASES)
def test_conversions_on_each_target(target: Target) -> None:
    """Without instructions for float16, conversions are arithmetic on bits: no function of a library is called."""
    cases = []
    for x, dtype in conversions():
        source, wanted = types.short_name(x.dtype), types.short_name(dtype)
        graph = parse(f"graph @g(%x: {source}[{x.size}]) {{\n  %y: {wanted}[{x.size}] = convert %x {{dtype={wanted}}}\n  return %y\n}}")
        attrs = {"rows": x.size, "columns": 1, "in_place": (), "scratch_bytes": 0}
        cases.append((x, dtype, lower_fused(Op(fused, graph.params, graph.results, attrs, (graph,)), {}, target)))
    for (x, dtype, _), code in zip(cases, load_together([steps for *_, steps in cases], target), strict=True):
        (found,) = run_steps(code, [x], [TensorType(dtype, x.shape)], 0, target)
        with np.errstate(all="ignore"):
            assert_same_bits(found, x.astype(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_conversions_through_float32(backend: str) -> None:
    @aj.compile(backend=backend)
    def convert(x, i, b):
        halves = [y.astype(dtype) for y in (i, b) for dtype in HALVES]
        other = x.astype(BF16 if x.dtype == F16 else F16)
        return [x.astype(np.float64), x.astype(np.int32), x.astype(bool), x.astype(np.complex128), other, *halves]

    integers, bools = np.array([0, 1, -3, 257, 2049, 70000, -(2**40)]), np.array([True, False])
    for dtype in HALVES:
        x = np.array([0.0, -0.0, 1.5, -2.75, 300.0, 6e-8], dtype)
        wanted = [x.astype(kind) for kind in (np.float64, np.int32, bool, np.complex128)]
        with np.errstate(all="ignore"):
            wanted += [x.astype(F32).astype(BF16 if dtype == F16 else F16), *(y.astype(kind) for y in (integers, bools) for kind in HALVES)]
        for found, right in zip(convert(x, integers, bools), wanted, strict=True):
            assert found.dtype == right.dtype
            np.testing.assert_array_equal(found.astype(np.complex128), right.astype(np.complex128))


# -- bits and dtypes as NumPy's

UNARY = ("negative", "abs", "sign", "square", "reciprocal", "floor", "ceil", "trunc", "rint", "sqrt", "exp", "exp2", "expm1", "log", "log2",
         "log10", "log1p", "cbrt", "sin", "cos", "tan", "arcsin", "arctan", "sinh", "cosh", "tanh", "arcsinh", "isnan", "isinf", "isfinite",
         "signbit", "positive", "fabs", "logical_not", "spacing")
BINARY = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin", "arctan2",
          "hypot", "logaddexp", "equal", "less", "greater_equal", "copysign", "nextafter", "heaviside")


def numbers(dtype: np.dtype, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ufuncs_have_the_bits_of_numpy(backend: str) -> None:
    """NumPy computes each ufunc of float16 in float32 and rounds; so does ml_dtypes. What our functions compute differs from NumPy's in the
    last bit of float32, which a half seldom shows."""
    @aj.compile(backend=backend)
    def both(x, y):
        return [getattr(np, name)(x) for name in UNARY] + [getattr(np, name)(x, y) for name in BINARY]

    for dtype in HALVES[:1 if backend == "numba" else None]:
        edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 6e-8, 65504, 0.5], dtype)
        x = np.concatenate([numbers(dtype, 200), np.repeat(edges, len(edges))])
        y = np.concatenate([numbers(dtype, 200, seed=1), np.tile(edges, len(edges))])
        with np.errstate(all="ignore"):
            wanted = [getattr(np, name)(x) for name in UNARY] + [getattr(np, name)(x, y) for name in BINARY]
        for name, found, right in zip((*UNARY, *BINARY), both(x, y), wanted, strict=True):
            assert found.dtype == right.dtype, name
            same = (found == right) | (np.isnan(found) & np.isnan(right)) if found.dtype != bool else found == right
            assert same.mean() > 0.99, (name, x[~same][:5], found[~same][:5], right[~same][:5])
            np.testing.assert_allclose(found[~same].astype(F32), right[~same].astype(F32), rtol=0.01, err_msg=name)


def chain(x, y):
    return np.tanh(x * y + x) / (1 + np.abs(y)) - np.maximum(x, 0) * y


@pytest.mark.parametrize("backend", BACKENDS)
def test_chains_round_at_each_op(backend: str) -> None:
    for dtype in HALVES:
        x, y = numbers(dtype, 57, 33), numbers(dtype, 57, 33, seed=1)
        wanted = chain(x, y)
        found = aj.compile(chain, backend=backend)(x, y)
        assert found.dtype == wanted.dtype == dtype
        assert (found == wanted).mean() > 0.999
        np.testing.assert_allclose(found.astype(F32), wanted.astype(F32), atol=2e-2)


EXACT: dict[str, Function] = {
    "index": lambda x, y: x[1:, ::-2], "rows": lambda x, y: x[np.array([2, 0, 2])], "where": lambda x, y: np.where(x > y, x, y),
    "concatenate": lambda x, y: np.concatenate([x, y], 1), "with float32": lambda x, y: np.concatenate([x, y.astype(F32)]),
    "stack": lambda x, y: np.stack([x, y]), "pad": lambda x, y: np.pad(x, 1), "roll": lambda x, y: np.roll(x, 1),
    "transpose": lambda x, y: x.T, "reshape": lambda x, y: x.reshape(-1, 2), "sort": lambda x, y: np.sort(x, axis=1),
    "argmax": lambda x, y: np.argmax(x, axis=1), "max": lambda x, y: np.max(x, axis=0), "min": lambda x, y: np.min(x),
    "tril": lambda x, y: np.tril(x), "take": lambda x, y: np.take(x, [1, 2], axis=1), "clip": lambda x, y: np.clip(x, -0.5, 0.5),
    "float": lambda x, y: x * 2.5 + 1, "int": lambda x, y: 2 * x + 1, "float32": lambda x, y: x * np.float32(2.5),
    "int64": lambda x, y: x + np.arange(4), "int8": lambda x, y: x + np.arange(4, dtype=np.int8), "powers": lambda x, y: x**2,
    "frexp": lambda x, y: np.frexp(x), "modf": lambda x, y: np.modf(x), "divmod": lambda x, y: np.divmod(x, y),
    "ldexp": lambda x, y: np.ldexp(x, 3), "nan_to_num": lambda x, y: np.nan_to_num(x), "diff": lambda x, y: np.diff(x),
    "scalar": lambda x, y: x[0, 0] * x, "outer": lambda x, y: np.multiply.outer(x, y), "round": lambda x, y: np.round(x, 1),
    "complex": lambda x, y: x * 1j, "arange": lambda x, y: np.arange(5, dtype=x.dtype) * x[0, 0],
    "array": lambda x, y: np.array([x[0, 0], y[0, 0]]), "full": lambda x, y: np.full_like(x, 2.5) + x,
    "set": lambda x, y: (lambda z: (z.__setitem__((slice(None), 0), 1.3), z)[1])(x.copy())}
NEAR: dict[str, Function] = {
    "sum": lambda x, y: np.sum(x, axis=0), "mean": lambda x, y: np.mean(x), "var": lambda x, y: np.var(x, axis=1),
    "std": lambda x, y: np.std(x), "prod": lambda x, y: np.prod(x, axis=1), "cumsum": lambda x, y: np.cumsum(x, axis=1),
    "median": lambda x, y: np.median(x, axis=1), "norm": lambda x, y: np.linalg.norm(x), "nansum": lambda x, y: np.nansum(x),
    "matmul": lambda x, y: x @ y.T, "trapezoid": lambda x, y: np.trapezoid(x)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_are_numpys(backend: str) -> None:
    """Functions that move or compare elements have NumPy's bits; sums, which we accumulate in float32, are near to NumPy's."""
    for dtype in HALVES[:1 if backend == "numba" else None]:
        x, y = numbers(dtype, 4, 4), numbers(dtype, 4, 4, seed=1)
        compiled = aj.compile(lambda x, y: {name: function(x, y) for name, function in (EXACT | NEAR).items()}, backend=backend)(x, y)
        for name, function in (EXACT | NEAR).items():
            found, wanted = (list(each) if isinstance(each, tuple) else [each] for each in (compiled[name], function(x, y)))
            for a, b in zip(found, wanted, strict=True):
                assert np.asarray(a).dtype == np.asarray(b).dtype, name
                np.testing.assert_allclose(np.asarray(a).astype(complex), np.asarray(b).astype(complex), err_msg=name,
                                           rtol=0 if name in EXACT else 0.03)


def test_sums_accumulate_in_float32() -> None:
    """NumPy rounds to float16 after each row of such a sum, and stops to grow at 2048."""
    x = np.ones((5000, 3), F16)
    assert np.sum(x, axis=0)[0] == 2048
    for backend in BACKENDS:
        np.testing.assert_array_equal(aj.compile(lambda x: np.sum(x, axis=0), backend=backend)(x), np.full(3, 5000, F16))
        assert aj.compile(np.mean, backend=backend)(np.full(100_000, 3.0, F16)) == 3


def test_functions_of_small_integers_are_float16() -> None:
    x = np.arange(-4, 5, dtype=np.int8)
    found = aj.compile(lambda x: np.exp(x))(x)
    assert_same_bits(found, np.exp(x))


# -- derivatives and transforms


def network(p, x):
    h = np.tanh(x @ p["w"] + p["b"])
    return np.mean(np.maximum(h, 0) * h) + np.sum(h[:, 0] / (2 + h[:, 1]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_in_the_dtype_of_the_argument(backend: str) -> None:
    for dtype in HALVES:
        p = {"w": numbers(dtype, 6, 4), "b": numbers(dtype, 4, seed=1)}
        x = numbers(dtype, 9, 6, seed=2)
        wanted = aj.grad(network)({name: value.astype(F64) for name, value in p.items()}, x.astype(F64))
        found = aj.compile(lambda p, x: aj.grad(network)(p, x), backend=backend)(p, x)
        for name in p:
            assert found[name].dtype == dtype
            np.testing.assert_allclose(found[name].astype(F64), wanted[name], atol=0.05, rtol=0.05)


def test_derivatives_are_computed_in_float32() -> None:
    """The rule of each op computes in float32, so that what would overflow in float16 does not: 1 / x^2."""
    x = np.array([0.002, 0.01], F16)
    found = aj.grad(lambda x: np.sum(np.float16(1e-4) / x))(x)
    np.testing.assert_allclose(found.astype(F64), -1e-4 / x.astype(F64)**2, rtol=2e-3)


def test_transforms() -> None:
    for dtype in HALVES:
        x, v = numbers(dtype, 5), numbers(dtype, 5, seed=1)
        exact = [z.astype(F64) for z in (x, v)]

        def f(x):
            return np.sum(np.tanh(x) * x) / 2

        _, tangent = aj.jvp(f, (x,), (v,))
        assert tangent.dtype == dtype
        np.testing.assert_allclose(tangent.astype(F64), aj.jvp(f, exact[:1], exact[1:])[1], atol=0.03)
        hessian = aj.hessian(f)(x)
        assert hessian.dtype == dtype
        np.testing.assert_allclose(hessian.astype(F64), aj.hessian(f)(exact[0]), atol=0.03)
        batch = numbers(dtype, 3, 5)
        mapped = aj.vmap(aj.grad(f))(batch)
        np.testing.assert_array_equal(mapped, np.stack([aj.grad(f)(row) for row in batch]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_and_branches_carry_halves(backend: str) -> None:
    for dtype in HALVES[:1 if backend == "numba" else None]:
        x = numbers(dtype, 6, 3)

        def program(x):
            last, rows = aj.scan(lambda c, row: (np.tanh(c + row), c * row), np.zeros(3, x.dtype), x)
            _, grown = aj.while_loop(lambda s: np.sum(s[1]) < 40, lambda s: (s[0] + 1, s[1] * 2), (0, np.abs(x[0]) + x.dtype.type(1)))
            return last, rows, grown, aj.cond(np.sum(x) > 0, lambda x: x * 2, lambda x: -x, x)

        carried, products = np.zeros(3, dtype), []
        for each in x:
            products.append(carried * each)
            carried = np.tanh(carried + each)
        last, found, grown, chosen = aj.compile(program, backend=backend)(x)
        assert {array.dtype for array in (last, found, grown, chosen)} == {dtype}
        np.testing.assert_allclose(found.astype(F32), np.stack(products).astype(F32), atol=2e-2)
        np.testing.assert_array_equal(chosen, x * dtype.type(2) if np.sum(x.astype(F32)) > 0 else -x)
        gradient = aj.compile(aj.grad(lambda x: np.sum(program(x)[1])), backend=backend)(x)
        wanted = aj.grad(lambda x: np.sum(program(x)[1]))(x.astype(F64))
        np.testing.assert_allclose(gradient.astype(F64), wanted, atol=0.1)


def test_saved_values_are_halves() -> None:
    """Rules read results as rounded to the half, which the rest of the program reads too."""
    def loss(p, x):
        for w in p:
            x = np.tanh(np.dot(x, w)).astype(x.dtype)
        return np.sum(x * x)

    saved = {}
    for dtype in (F32, *HALVES):
        p, x = [numbers(dtype, 8, 8, seed=seed) for seed in range(4)], numbers(dtype, 32, 8)
        compiled = aj.compile(aj.value_and_grad(loss))
        compiled(p, x)
        saved[dtype] = compiled.memory().saved_bytes
    assert saved[F32] == 3 * 32 * 8 * 4
    assert saved[F16] == 3 * 32 * 8 * 2
    assert saved[BF16] <= saved[F32]


# -- in place, files, caches


@pytest.mark.parametrize("backend", COMPILING)
def test_donated_halves_are_updated_in_place(backend: str) -> None:
    for dtype in HALVES:
        step = aj.compile(lambda w, g: w - g * g.dtype.type(0.5), donate=("w",), backend=backend)
        w, g = numbers(dtype, 100), numbers(dtype, 100, seed=1)
        wanted = w - g * dtype.type(0.5)
        assert step(w, g) is w
        np.testing.assert_array_equal(w, wanted)


@pytest.mark.skipif("native" not in COMPILING, reason="native programs are for Linux on x86-64")
def test_exports(tmp_path: Path) -> None:
    for dtype in HALVES:
        x, y = numbers(dtype, 12), numbers(dtype, 12, seed=1)
        compiled = aj.compile(chain)
        compiled.export(tmp_path / f"{dtype}.adjit", x, y)
        found = aj.load(tmp_path / f"{dtype}.adjit")(x, y)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, compiled(x, y))
        compiled.export(tmp_path / f"{dtype}.so", x, y)
        assert "uint16_t" in (tmp_path / f"{dtype}.h").read_text()


# -- errors


def test_linear_algebra_refuses_halves() -> None:
    for dtype in HALVES:
        with pytest.raises(DTypeError, match="linear algebra needs float32 or float64, as in NumPy"):
            aj.compile(np.linalg.solve)(np.eye(3, dtype=dtype), np.ones(3, dtype))


def test_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(types.SHORT_NAMES, "bf16")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(DTypeError, match="which is not installed"):
        aj.compile(lambda x: x.astype("bfloat16"))(np.ones(3))


@parametrize_within("text", [
    "%y: f16[3] = multiply %x, %x", "%y: f64[3] = convert %x {dtype=f64}", "%y: f16[3] = exp %x", "%y: f16[] = reduce_sum %x {axes=(0,)}"])
def test_the_verifier_knows_what_halves_cannot_do(text: str) -> None:
    with pytest.raises((VerificationError, DTypeError)):
        verify(parse(f"graph @g(%x: f16[3]) {{\n  {text}\n  return %y\n}}"), Stage.TRACED)


def test_dtypes_are_named_as_numpy_names_them() -> None:
    assert types.short_name(BF16) == "bf16"
    assert types.SHORT_NAMES["bf16"] is BF16
    assert "bf16" in types.SHORT_NAMES
    assert ml_dtypes.bfloat16 is BF16.type
