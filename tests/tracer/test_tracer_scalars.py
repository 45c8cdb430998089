"""Scalars, arrays of no dimension, and layouts: what NumPy copies is not written through, and what it views is."""

from __future__ import annotations

from operator import setitem
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit import numpy as anp
from adjit.ir.errors import DTypeError, TraceError
from adjit.tracer.array import TracedArray
from adjit.tracer.trace import trace_function

X, M = np.arange(3.0) + 1, np.arange(12.0).reshape(3, 4)

OF_ONE = (
    "{}.T", "{}.transpose()", "np.transpose({})", "{}.reshape(())", "np.reshape({}, ())", "{}.reshape(-1)", "{}.squeeze()",
    "np.squeeze({})",
    "np.flip({})", "{}.ravel()", "{}.flatten()", "np.expand_dims({}, ())", "np.expand_dims({}, 0)", "np.broadcast_to({}, ())",
    "np.broadcast_arrays({}, {})", "np.atleast_1d({})", "{}[()]", "{}[...]", "{}[None]", "{}[..., None]", "{}.copy()", "np.copy({})",
    "np.zeros_like({})", "np.full_like({}, 3)", "np.positive({})", "{}.astype(int)", "{}.astype(float, copy=False)",
    "np.where(True, {}, 1)", "np.clip({}, 0, 1)", "np.round({}, 1)", "np.nan_to_num({})", "np.isclose({}, 1)", "np.select([True], [{}])",
    "np.take({}, 0)", "np.moveaxis({}, (), ())", "np.tile({}, ())", "np.roll({}, 1)", "np.tensordot({}, {}, 0)", "np.dot({}, {})",
    "np.inner({}, {})", "np.vdot({}, {})", "np.outer({}, {})", "np.kron({}, {})", "np.multiply.outer({}, {})", "np.einsum(',->', {}, {})",
    "{}.real", "np.average({})", "np.mean({})", "np.std({})", "np.pad({}, 1)", "np.repeat({}, 2)", "np.append({}, 1)", "np.modf({})[0]",
    "np.divmod({}, 2)[0]", "{} ** 2", "abs({})", "np.sinc({})", "{} == 1", "np.count_nonzero({})", "np.diff({})", "np.swapaxes({}, 0, -1)",
    "np.average({}, returned=True)[1]", "np.add.reduce({})", "np.add.accumulate({})")
ALONG = ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "cumsum", "cumprod", "ptp", "sort", "argsort", "mean", "std", "var",
         "count_nonzero", "flip", "average", "squeeze")
OF_SEVERAL = (
    "x[0]", "m[0, ..., 0]", "m[0, 0, ...]", "x[np.array(0)]", "x[np.array(0), ...]", "m[0][0]", "m[np.array(0), 0, ...]", "next(iter(x))",
    "x[:1].squeeze()", "x[:1].reshape(())", "np.tensordot(x, x, 1)", "np.einsum('i,i->', x, x)", "x @ x", "np.inner(x, x)", "np.vdot(x, x)",
    "np.trace(m)", "np.take(x, 0)", "np.where(z > 1, z, z)", "np.mean(x)", "x.sum(keepdims=True)", "np.array_equal(x, x)", "x.max()")
STRONG = tuple(f"np.{name}({pair})" for name in ("dot", "inner", "vdot", "outer", "kron")
               for pair in ("x32[:1], 2.5", "2.5, x32[:1]", "x32[0], 2", "f, x32[0]", "x32[:1], True", "x32[:1], x32[0]"))


def described(x: Any) -> Any:
    """Whether it is a scalar, and its dtype and shape."""
    if isinstance(x, tuple):
        return tuple(map(described, x))
    if isinstance(x, bool):
        return True, "bool", ()
    return x.scalar if isinstance(x, TracedArray) else isinstance(x, np.generic), str(x.dtype), x.shape


@parametrize_within("text", [
    *(text.replace("{}", name) for text in OF_ONE for name in "sz"), *OF_SEVERAL, *STRONG, "np.tensordot(x32, 2.5, 0)",
    *(f"np.{name}({of}, axis={axis})" for name in ALONG for of in "sz" for axis in (0, -1, 1, (0,), None)),
    *(f"np.{name}({of}, axis={axis})" for name in ("take", "repeat") for of in ("s, 0", "z, 0") for axis in (0, -1, 1))], share=3)
def test_what_is_a_scalar_and_what_an_array(text):
    def function(x, m, f):
        names = {"np": np, "x": x, "m": m, "f": f, "s": x.sum(), "z": x[0, ...].copy(), "x32": x.astype(np.float32)}
        try:
            found.append(described(eval(text, names)))
        except (TypeError, ValueError, IndexError):
            found.append("refused")
        return x

    found: list[Any] = []
    with np.errstate(all="ignore"):
        function(X, M, 1.5)
    trace_function(function, (X, M, 1.5), {})
    assert found[0] == found[1]


def same(function, *arguments):
    """NumPy's results are ours, also those that only an alias could change."""
    wanted = function(*[argument.copy(order="K") for argument in arguments])
    for a, b in zip(aj.compile(function, backend="interpret")(*arguments), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


BODIES = (
    "s = x.sum(); v = s.reshape(-1); v[0] = 5", "s = x.sum(); v = s; s += 1", "s = x[0, 0]; v = s[...]; v += 1",
    "s = v = x.sum(); s.fill(3)",
    "s = np.zeros_like(x, shape=()); v = s.reshape(-1); v[0] = 5", "s = x.copy()[0, 0, ...]; v = s.reshape(-1); v[0] = 5",
    "s = x.copy()[0, 0]; v = s[None]; v[0] = 5", "s = np.copy(x.sum()); v = s; s += 1", "s = np.where(True, x.sum(), 0); v = s; s += 1",
    "s = x.sum().copy(); v = s; s += 1", "s = x.mean().astype(int); v = s; s += 1",
    "s = x.copy(); v = s.T.reshape(-1); v[0] = 9", "s = x.copy(); v = s[:, ::2].reshape(-1); v[0] = 9",
    "s = x.copy(); v = s[:2].reshape(-1); v[0] = 9", "s = x.T.copy(); v = s.reshape(-1); v[0] = 9",
    "s = x.copy(); v = s.T.ravel(); s[0] = 9",
    "s = x @ x.T; v = s.reshape(-1); v[1] = 9", "s = (x.T * 2)[0]; v = s.reshape(2, -1) if s.size % 2 == 0 else s; v[0] = 9",
    "s = x.T * 2; v = s[:, None].reshape(s.shape); v[0] = 9", "s = x.T * 2; v = s.reshape(-1) * 1; s += 1",
    "s = x.T * 2; v = s.T; v[0] = 9")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("body", BODIES)
def test_writes_reach_what_they_reach_in_numpy(body, order):
    names: dict[str, Any] = {"np": np}
    exec(f"def function(x):\n    {body}\n    return s * 1, v * 1", names)
    same(names["function"], np.array(M, order=order))


@pytest.mark.parametrize("body", [
    "s = x * 2; v = s.reshape(-1); v[0] = 9", "s = x[:, 1:] * 2; v = s.reshape(-1); v[0] = 9", "s = x[::-1] * 2; v = s.ravel(); s[0] = 9",
    "s = x[[0, 1]]; v = s.reshape(-1); v[0] = 9", "s = np.broadcast_to(x[0], (2, 4)) + 1; v = s.reshape(-1); v[0] = 9"])
def test_new_arrays_in_c_order_are_known(body):
    names: dict[str, Any] = {"np": np}
    exec(f"def function(x):\n    {body}\n    return s * 1, v * 1", names)
    same(names["function"], M)


@pytest.mark.parametrize("write", [
    lambda s: setitem(s, (), 1), lambda s: np.add(1, 2, out=s), lambda s: np.copyto(s, 1), lambda s: np.sum(X, out=s),
    lambda s: setitem(s, (..., None), 1)])
def test_scalars_are_not_written_to(write):
    with pytest.raises(TypeError):
        write(X.sum())
    with pytest.raises(DTypeError) as caught:
        trace_function(lambda x: write(x.sum()), (X,), {})
    assert caught.value.location.file.endswith("test_tracer_scalars.py")
    assert "array of no dimension" in caught.value.hint
    trace_function(lambda x: (write(anp.array(x.sum())), x)[1], (X,), {})       # what the hint says


def test_scalars_made_arrays_can_be_written_to():
    def function(x):
        s = x.sum()
        for make in (anp.array, anp.asarray):
            other = make(s)
            other.reshape(-1)[0] = 5
            results.append(other.scalar)
        return s, other, anp.asarray(other) is other

    results: list[bool] = []
    s, other, kept = aj.compile(function, backend="interpret")(X)
    assert (s, other, kept, results) == (6, 5, True, [False, False])


def write_flat(s):
    s.reshape(-1)[0] = 1


def read_flat(s):
    flat = s.reshape(-1)
    s[0] = 1
    return flat + 1


@pytest.mark.parametrize("make", [
    lambda x: x.T * 2, lambda x: np.copy(x.T), lambda x: x.T.astype(int), lambda x: np.zeros_like(x.T), lambda x: x[:, [0, 1]],
    lambda x: np.sort(x.T), lambda x: np.where(x.T > 0, x.T, 0), lambda x: x.copy("F"), lambda x: np.einsum("ij,jk->ki", x, x.T)])
def test_a_layout_that_is_not_known_is_not_guessed(make):
    for use in (write_flat, read_flat):
        with pytest.raises(TraceError, match="depends on the memory layout") as caught:
            trace_function(lambda x, use=use: (use(make(x)), x)[1], (M,), {})
        assert ".copy()" in caught.value.hint
        assert caught.value.location.function == use.__name__
        trace_function(lambda x, use=use: (use(make(x).copy()), x)[1], (M,), {})


def looked_up(x):
    return {1.0: 5.0}.get(x, 7.0) * x


def stored(x):
    table = {1.0: 5.0}
    table[x] = 3.0
    return table[1.0] * x


def remembered(x):
    known = {}

    def value(k):
        if k < 2:
            return k
        if k not in known:
            known[k] = value(k - 1) + value(k - 2)
        return known[k]
    return value(x)


def behind_branches(x):
    y = x if x > 0 else 2 * x
    table = {y: 1.0}
    z = y + 1 if x > -1 else y - 1
    return table.get(1.0, 7.0) + z


@pytest.mark.parametrize("function", [
    looked_up, stored, remembered, behind_branches, lambda x: len({x, 1.0}), lambda x: 3 * x if x in {1, 2} else x])
@pytest.mark.filterwarnings("ignore:calls of")
@pytest.mark.parametrize("kind", [float, np.int64, np.float32])
def test_a_scalar_is_the_key_that_it_is_in_python(function, kind):
    compiled = aj.compile(function)
    for number in (1, 2, 3, 1, -1, 0):
        assert compiled(kind(number)) == function(kind(number))
    if kind is float:
        assert aj.grad(looked_up)(1.0) == 5.0


def test_what_has_no_hash_in_numpy_has_none():
    for array in (X, np.array(1.0)):
        with pytest.raises(DTypeError, match="unhashable type") as caught:
            aj.compile(lambda x: {x: 1})(array)
        assert "lambda x: {x: 1}" in caught.value.location.source()
    with pytest.raises(TraceError, match="the hash"):
        aj.compile(lambda x: aj.fori_loop(0, 3, lambda i, c: {0: 1.0, 1: 2.0, 2: 3.0}[i] * c, x))(1.0)


def test_a_rounded_number_promotes_as_pythons_integer():
    def fun(x):
        return round(x) * x, round(x) / 3

    x = np.float32(2.6)
    product, third = aj.compile(fun)(x)
    assert (product, product.dtype) == (fun(x)[0], np.float32)
    assert third == fun(x)[1]


@pytest.mark.parametrize(("function", "error"), [
    (lambda x: x[0][0], IndexError), (lambda x: np.sum(x)[-1], IndexError), (lambda x: list(x[0]), TypeError),
    (lambda x: [part + 1 for part in x[0]], TypeError), (lambda x: max(x[0]), TypeError), (lambda x: float(x[0])[0], TypeError)],
    ids=["element", "last", "list", "loop", "max", "float"])
def test_scalars_have_no_elements(function: Any, error: type[Exception]) -> None:
    """An index into a scalar is an `IndexError`, as in NumPy; loops over one do not end there without a word."""
    for call in (function, aj.compile(function, backend="interpret")):
        with pytest.raises(error):
            call(np.arange(3.0))
