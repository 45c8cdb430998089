"""Arrays that a traced function makes and fills mean the same as in NumPy: values in every bit, gradients as finite differences."""

from __future__ import annotations

import copy
import gc
import math
import queue
import threading
import types
from collections.abc import Callable
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest
from numpy import array, empty, ones, zeros

import adjit as aj
from adjit.ir.errors import AdjitError, TraceError
from adjit.tracer.trace import trace_function

X = np.array([0.3, -1.2, 2.0, 0.7, -0.4, 1.1])
CLOSED = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
INDEX = np.array([2, 0, 2])


def filled(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """Program that writes to a new array in several ways."""
    def program(x):
        y = make()
        flat = y.reshape(-1)
        flat[0] = x[0]
        y[..., -1] += x[1] * 2
        flat[1:] *= x[2]
        return y, flat
    return program


def of_zeros_bound_elsewhere(x, make=zeros):
    y, z, table = make(3), ones(2), {"empty": empty}
    y[1], z[0] = x[0], x[1]
    e = table["empty"](2)
    e[:] = x[:2]
    return y, z, e, array([x[0], 1.0])


def views_from_before(x):
    y = np.zeros((3, 4))
    rows, column, diagonal, block = list(y), y[:, 1], y.reshape(-1)[::5], y.reshape(2, 6)[:, 1:4]
    back, part, new, flat = y[::-1, ::-2], y.T[1:], y[1, None, :2], y.ravel()
    y[1] = x[:4]
    rows[0][2] = x[4]
    column += x[3]
    diagonal *= x[5]
    block[1, 0] = 7.0
    back[0] -= x[:2]
    part[0] = x[1:4]
    new += 1.0
    flat[3:5] = x[2]
    return y, rows, column, diagonal, block, back, part, new, flat


def elements_one_by_one(x):
    y, z, w, total = np.zeros((2, 3)), np.zeros(3), np.zeros(6), 0.0
    early, places = z.flat, z.flat
    for i, number in enumerate(z.flat):
        z[i] = x[i]
        total += number
    y.flat[1], w.flat = x[0], x[::-1]
    y.flat[2:4] = 5.0
    y.flat[[0, 5]] = x[1:3]
    for i, _ in enumerate(y.flat):
        total = total + y.flat[i] * i
    found = early[1], next(places), early[1:], y.flat.copy()
    return y, z, w, total, found, z.flat[x[:3].argmin()], np.array(CLOSED.flat)[2] * x[0]


def written_and_read(x):
    y = np.zeros(4)
    a = x[:4] + y
    y[0] = 5.0
    b = x[:4] + y
    y[1] = x[1]
    c = x[:4] * y
    y[2:] = c[:2]
    return a, b, c, y


def lists(x):
    y = np.zeros((2, 4))
    y[0] = [x[0], 1, x[1], 2.5]
    y[1, 1:] = (x[2], x[3], 0)
    matrix = np.array([[x[0], 0.0], [0, x[1]]])
    return (y, matrix, np.array([1, 2, x[0]]), np.asarray([x[:2], x[2:4]]), np.stack([[x[0], 1.0], x[:2]]), np.vstack([x, [1.0] * 6]),
            np.concatenate([[x[0]], [1.0, x[1]]]), np.hstack([x[:2], [x[2], 3]]), np.column_stack([[x[0], x[1]], [1.0, 2.0]]),
            np.mean([x[0], x[1], 1.0]), np.sum([x[0], x[1]]), np.max([x[0], x[1]]), np.prod([x[0], 2.0]), np.dot([x[0], 1.0], [2.0, x[1]]),
            np.full(3, x[0]), np.full((2, 2), [x[0], 1.0]), np.linspace(x[0], x[1], 4), np.where([True, False], [x[0], x[1]], 0.0))


def ufuncs_of_lists(x):
    y, table = np.zeros(3), {"square": np.square}
    np.add.at(y, [0, 2, 0], [x[0], x[1], x[2]])
    known, level = np.square([1.0, 2.0]), x[0] * np.array([1.0, x[1]])
    known[0] = x[5]
    return (y, known, level, table["square"]([x[0], x[1]]), np.exp((x[0], [1.0][0])), np.maximum([x[0], x[1]], 0),
            np.add(1.0, [[x[0]], [x[1]]]), np.multiply.outer([x[0]], [x[1], 2]), np.add.reduce([x[0], x[1], 1]),
            np.maximum.accumulate([x[0], x[1], x[2]]),
            np.add.reduceat([x[0], x[1], x[2]], [0, 1]), np.power([x[0], x[2]], 2), np.isnan([x[0], x[1]]), np.modf([x[0], 2.5])[0],
            np.greater([x[0], x[1]], [0, 0]), np.logical_and([x[0], x[1]], [True, False]), np.sqrt([np.square([x[0], x[1]]), known]),
            np.add(CLOSED, [x[0], 1, x[1], 2]), [x[0], 1, x[1], 2] - CLOSED,
            [x[0], x[1]] * CLOSED[:2, :2], np.multiply([x[0], x[1]], 2.0, y[1:]))


def made_by_the_class(x):
    y, z = np.ndarray((2,), np.float64), np.ndarray(shape=(2, 3), dtype=np.float32, order="F")
    y[0], y[1] = x[0], x[1]
    z[:] = x[0]
    z[1] = x[:3]
    whole = np.zeros(4)
    part = np.ndarray((2,), np.float64, whole, 8)
    whole[1] = x[2]
    part[1] = x[3]
    again = np.ndarray((3,), buffer=whole, strides=(8,))
    again *= x[4]
    return y, z, whole, part, again, np.ndarray((2, 2), buffer=CLOSED) * x[0]


def joined(x):
    return (np.r_[x[0], 1.0, x], np.r_[0:3, x[:2]], np.r_[1.0:2.0:3j, x[1]], np.c_[x, np.arange(6.0)], np.c_[x[:2], [1, 2]],
            np.r_["0,2", x, x], np.r_["1,2,0", x[:2], [1.0, 2.0]], np.block([[x[0], x[1:3]], [np.zeros((2, 1)), np.eye(2)]]),
            np.block([x, 1.0]), np.r_[1:4, 0.5], np.r_[x[0], 1:3, [x[1]]], np.c_[[x[0], 1.0], [2.0, x[1]]],
            np.fft.rfft([x[0], 1.0, x[1]]), np.percentile([x[0], 3.0, x[1]], [20, 10 + x[0] ** 2]))


def outputs(x):
    y, z, w = np.empty(6), np.ones((2, 3)), np.zeros(())
    assert np.add(x, 1, out=y) is y
    np.multiply(x.reshape(2, 3), 2.0, z)
    np.sum(x, out=w)
    np.cumsum(x, out=y[::-1])
    np.copyto(z[0], x[:3])
    return y, z, w


def masks_and_places(x):
    y = np.arange(6.0)
    y[y > 2] = x[3:]
    y[[0, 1]] += x[:2]
    y[np.array([5, 4])] = x[1]
    z = np.zeros((3, 4))
    z[INDEX[:2], 1] = x[:2]
    z[np.argmax(x) % 3] = x[:4]
    z[:, np.array([True, False, False, True])] *= x[0]
    return y, z


def dtypes(x):
    y, z, b = np.zeros(3, int), np.zeros(3, np.float32), np.zeros(3, bool)
    y[0], y[1:], z[:], b[1] = x[2] * 3, 1.9, x[:3], x[0]
    y[2] += 1
    return y, z, b


def known_content(x):
    n = np.arange(3)
    shape = np.array([2, 3])
    counts = np.zeros(3, int)
    counts[1] += 2
    total = 0.0
    for i in range(counts[1]):
        total = total + x[n[i + 1]]
    if np.ones(3).sum() > 2 and float(n[2]) == 2.0:
        total = total * np.linalg.norm(n)
    return x.reshape(shape), total, x[counts], x[np.array([True, False] * 3)], np.zeros(3), {"n": n + 1}


def computed(x):
    y, z = np.zeros(3) + 1, CLOSED[0].copy()
    y[0] = x[0]
    z[1] = x[1]
    w, v = CLOSED * 2, np.zeros_like(CLOSED)
    w[0], v[1] = x[0], x[1]
    (u, t), grid = np.meshgrid(np.arange(3.0), np.arange(2.0)), np.mgrid[0:2, 0:3]
    u[0], t[1, 1] = x[0], x[1]
    s = np.tile(np.array([1.0, 2.0]), 2)
    s[::2] = x[:2]
    return y, z, w, v, u, t, s, x[:2] @ grid[1] * 1.0


def through_helpers(x):
    def fill(out, values):
        for k in range(len(out)):
            out[k] = values[k]
        return out
    made = [fill(np.empty(2), x[2 * k:]) for k in range(3)]
    swap = made[0].copy()
    made[0][:], made[1][:] = made[1].copy(), swap
    for row in np.zeros((2, 2)):
        row += x[0]
    return np.array(made), swap


def of_no_dimension(x):
    y, z = np.zeros(()), np.array(1.0)
    y[...] = x[0]
    z += x[1]
    v = y[()]
    y[()] = x[2]
    return y, z, v, np.asarray(x[0]) * 1.0


def conversions(x):
    y = x.copy()
    same = np.asarray(y), np.asanyarray(y), np.ascontiguousarray(y), np.array(y, copy=None)
    same[0][0] = 1.0
    same[2][1] = x[5]
    other = np.array(y)
    other[2] = 9.0
    fortran = np.asfortranarray(y.reshape(2, 3))
    fortran[0, 2] = 4.0
    return y, other, np.asarray(y, dtype=np.float32), fortran, np.array([y, other]), np.array(y, ndmin=2)


def scalars(x):
    return (np.float64(x[0]) * 2, np.float32(x[1]), np.int64(x[2] * 3), np.float64([x[0], 1.0]), np.bool_(x[0]), np.float64(2.5) * x[0],
            np.full(2, np.float32(x[0])))


PROGRAMS: dict[str, Callable[[Any], Any]] = {program.__name__: program for program in (
    of_zeros_bound_elsewhere, views_from_before, elements_one_by_one, written_and_read, lists, ufuncs_of_lists, made_by_the_class, joined,
    outputs, masks_and_places, dtypes, known_content, computed, through_helpers, of_no_dimension, conversions, scalars)}
PROGRAMS |= {name: filled(make) for name, make in {
    "zeros": lambda: np.zeros(4), "ones": lambda: np.ones((2, 3)), "full": lambda: np.full((2, 2), 3.0), "eye": lambda: np.eye(3),
    "identity": lambda: np.identity(2), "arange": lambda: np.arange(5.0), "linspace": lambda: np.linspace(0.0, 1.0, 7),
    "geomspace": lambda: np.geomspace(1.0, 8.0, 4), "zeros_like": lambda: np.zeros_like(CLOSED),
    "full_like": lambda: np.full_like(CLOSED, 2.0),
    "copy": lambda: CLOSED.copy(), "array": lambda: np.array([[1.0, 2.0], [3.0, 4.0]]),
    "array of an outside array": lambda: np.array(CLOSED),
    "computed": lambda: np.sin(np.arange(6.0)).reshape(2, 3), "of an outside array": lambda: CLOSED[1:] * 2, "tri": lambda: np.tri(3),
    "indices": lambda: np.indices((2, 2)) * 1.0, "mgrid": lambda: np.mgrid[0.0:2.0, 0.0:3.0], "tile": lambda: np.tile([1.0, 2.0], 2),
    "float32": lambda: np.zeros((2, 2), np.float32), "concatenate": lambda: np.concatenate([[1.0, 2.0], [3.0]]),
    "astype": lambda: np.arange(4).astype(float), "random": lambda: np.random.default_rng(0).normal(size=4),
    "diag": lambda: np.diag([1.0, 2.0]),
    "outer": lambda: np.outer([1.0, 2.0], [3.0, 4.0]), "linalg": lambda: np.linalg.inv(np.array([[2.0, 1.0], [1.0, 3.0]]))}.items()}


def leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in leaves(item)]
    return leaves(list(result.values())) if isinstance(result, dict) else [np.asarray(result)]


def same_bits(found: Any, expected: Any) -> None:
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes(), f"{a} is not {b}"


def weighted(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One number that all floats of the result have a part in."""
    def total(x):
        result, number = program(x), 0.0
        for position, leaf in enumerate(flat_floats(result)):
            number = number + np.sum(leaf * np.cos(np.arange(leaf.size) + position).reshape(leaf.shape))
        return number
    return total


def flat_floats(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in flat_floats(item)]
    if isinstance(result, dict):
        return flat_floats(list(result.values()))
    return [result] if result.dtype == np.float64 else []


def differences(total: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.eye(len(x))
    return np.array([(total(x + step) - total(x - step)) / 2e-6 for step in steps])


@pytest.mark.share(2)
@pytest.mark.filterwarnings("ignore:.*random")
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    program = PROGRAMS[name]
    for backend in ("interpret", "native") if name in ("views_from_before", "lists", "masks_and_places") else ("interpret",):
        compiled = aj.compile(program, backend=backend)
        for x in (X, X[::-1].copy(), X * 2):
            same_bits(compiled(x), program(x))
    total = weighted(program)
    np.testing.assert_allclose(aj.compile(aj.grad(total), backend="interpret")(X), differences(total, X), rtol=1e-6, atol=1e-7)


def test_universal_functions_are_themselves_within_a_trace() -> None:
    seen, table = [], {np.add: 1}

    def traits():
        return isinstance(np.add, np.ufunc), copy.deepcopy(np.add) is np.add, np.add.nin, np.add.__doc__, str(np.add), table[np.add]

    def asks(x):
        seen.append(traits())
        with pytest.raises(TypeError, match="did not contain a loop"):
            np.add([1], ["a"])
        return np.add(x, 1)
    aj.compile(asks)(X)
    assert type(np.add) is np.ufunc
    seen.append(traits())
    assert len(seen) >= 2
    assert all(found == seen[-1] for found in seen)


@pytest.mark.parametrize("show", [memoryview, lambda y: memoryview(y[1:]), lambda y: y.data])
def test_memory_that_a_memoryview_shows_gets_no_traced_values(show: Callable[[Any], memoryview]) -> None:
    def written_later(x):
        y = np.zeros(3)
        shown = show(y)
        y[1] = x[0]
        return y * shown[0]

    def shown_later(x):
        y = np.zeros(3)
        y[1] = x[0]
        return y * show(y)[0]

    def read_only(x):
        y = np.array([1.0, 2.0, 3.0])
        shown = show(y)
        factor = shown[1]
        del shown
        y[1] = x[0]
        return y * factor

    for program in (written_later, shown_later):
        with pytest.raises(TraceError, match="memoryview shows"):
            aj.compile(program)(X)
    same_bits(aj.compile(read_only)(X), read_only(X))


def test_what_a_memoryview_of_an_outside_array_shows_is_watched() -> None:
    outside = np.array([1.0, 2.0])
    compiled = aj.compile(lambda x: x * memoryview(outside)[1])
    same_bits(compiled(X), X * 2.0)
    outside[1] = 5.0
    same_bits(compiled(X), X * 5.0)

    def writes(x):
        shown = memoryview(outside)
        outside[0] = x[0]
        return x * shown[0]
    with pytest.raises(TraceError, match="memoryview shows"):
        aj.compile(writes)(X)
    assert outside.tolist() == [1.0, 5.0]


# -- functions of `math`

_NAMES = """sin cos tan asin acos atan sinh cosh tanh asinh atanh exp exp2 expm1 log1p log2 log10 log sqrt cbrt fabs degrees radians
    erf erfc gamma lgamma floor ceil trunc isnan isinf isfinite modf"""
MATH: dict[str, Callable[[Any], Any]] = {name: getattr(math, name) for name in _NAMES.split()} | {
    "acosh": lambda t: math.acosh(t + 1), "atan2": lambda t: math.atan2(t, 2.0), "pow": lambda t: math.pow(t, 2.5),
    "fmod": lambda t: math.fmod(t, 0.2), "copysign": lambda t: math.copysign(t, -1), "hypot": lambda t: math.hypot(t, 1.0),
    "hypot of three": lambda t: math.hypot(t, 1.0, t), "dist": lambda t: math.dist([t, 1.0], (0.5, t)),
    "fsum": lambda t: math.fsum([t, 2.0, t]), "prod": lambda t: math.prod([t, 2.0, t]), "log of a base": lambda t: math.log(t, 3.0),
    "ldexp": lambda t: math.ldexp(t, 3), "isclose": lambda t: math.isclose(t, 0.37), "bound by name": lambda t: exp(t) + sqrt(2.0),
    "abs and round": lambda t: abs(-t) + round(t * 10, 1), "divmod": lambda t: divmod(t, 0.1)[0], "sum": lambda t: sum([t, t * 2]),
    "pow of Python": lambda t: pow(t, 2)}


def test_functions_of_math() -> None:
    def all_of(t):
        return {name: function(t) for name, function in MATH.items()}

    for backend in ("interpret", "native"):
        compiled = aj.compile(all_of, backend=backend)
        for t in (0.37, 0.81):
            found, expected = compiled(t), all_of(t)
            for name in MATH:
                np.testing.assert_allclose(found[name], expected[name], rtol=4e-15, err_msg=name)
    for name, function in MATH.items():
        if isinstance(function(0.37), float) and name not in ("abs and round", "divmod"):
            np.testing.assert_allclose(aj.grad(function)(0.37), (function(0.370001) - function(0.369999)) / 2e-6, rtol=1e-6, err_msg=name)
    assert aj.compile(lambda t, y: math.sin(t) * y)(0.5, np.ones(2, np.float32)).dtype == np.float32     # Python's floats are weak
    assert np.isnan(aj.compile(math.sqrt)(-1.0))
    with pytest.raises(AdjitError, match="length-1"):
        aj.compile(lambda x: math.sin(x))(X)
    assert type(math.sin) is types.BuiltinFunctionType


# -- what is known, and what is left behind

def test_what_is_never_written_to_is_a_constant() -> None:
    def fun(x):
        a, b, c = np.zeros(6), np.arange(6.0), np.array([1.0, 5.0, 2.0, 2.0, 0.0, 1.0])
        return x * a + b + x * c + np.array([1.0, 5.0, 2.0, 2.0, 0.0, 1.0]) + np.linspace(0.0, 1.0, 6)

    graph = trace_function(fun, (X,), {}).graph
    assert len(graph.params) == 1
    large = trace_function(lambda x: (x + np.sqrt(np.arange(1000.0))) * np.sqrt(np.arange(1000.0)), (1.0,), {})
    assert [array.shape for array in large.captured] == [(1000,)]      # of equal contents there is one
    same_bits(aj.compile(fun)(X), fun(X))


def test_sequences_have_every_bit() -> None:
    def copied(content):
        def fun(x):
            made = np.empty_like(content)
            made[...] = content
            return x + made * 1, made
        return fun

    for content in (np.arange(0.0, -5.0, -1.0), np.arange(-0.0, 3.0), np.linspace(0.0, 1.0, 7), np.arange(5, dtype=np.int8),
                    np.array([-0.0, 1.0, 2.0]), np.arange(3.0, 9.0, 0.1), np.array([0.0, -0.0, 0.0]), np.full(3, np.nan),
                    np.array([np.inf, 1.0, 2.0]), np.array([2**53, 2**53 + 2.0, 2**53 + 4.0]), np.array([5e-324] * 3),
                    np.arange(6.0)[::-1], np.zeros((0, 2)), np.array([-np.nan, np.nan, -np.nan])):
        same_bits(aj.compile(copied(content), backend="interpret")(1.0)[1], content)


def test_arrays_are_ordinary_ones_afterwards() -> None:
    kept: list[Any] = []

    def fun(x):
        y = np.zeros(3)
        view = y[1:]
        written = np.zeros(2)
        written[0] = x[0]
        kept.extend([y, view, written])
        return written

    aj.compile(fun)(X)
    assert [type(array) for array in kept] == [np.ndarray, np.ndarray, np.ndarray]
    np.testing.assert_array_equal(kept[2], [X[0], 0.0])
    kept.clear()
    gc.collect()
    functions = [np.zeros, np.array, np.empty, np.arange]
    assert {type(function) for function in functions} == {types.BuiltinFunctionType}
    assert type(np.float64) is type
    assert np.ones.__code__.co_filename.endswith("numeric.py")


def test_errors_leave_nothing_behind() -> None:
    def fun(x):
        y = np.zeros(3)
        y[5] = x[0]

    for _ in range(2):
        with pytest.raises(AdjitError, match="out of bounds"):
            aj.compile(fun)(X)
    assert type(np.zeros) is types.BuiltinFunctionType
    assert type(np.zeros(3)) is np.ndarray


def test_other_threads_see_ordinary_functions() -> None:
    seen: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()

    def look() -> None:
        made = zeros(3)
        made[0] = 1.0
        seen.put([type(made), type(np.ones(2)), type(np.array([1.0])), math.sin(0.5), np.float64(1.0), type(np.mean([1.0, 2.0]))])

    def fun(x):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return x * 2

    aj.compile(fun)(X)
    assert seen.get(timeout=60) == [np.ndarray, np.ndarray, np.ndarray, math.sin(0.5), 1.0, np.float64]


def test_writes_from_within_a_loop_are_refused() -> None:
    def fun(x):
        y = np.zeros(3)

        def body(i, total):
            y[0] = total
            inner = np.zeros(2)
            inner[1] = total
            return inner[1] + 1

        return aj.fori_loop(0, 3, body, x[0])

    with pytest.raises(TraceError, match="made outside of"):
        aj.compile(fun)(X)

    def inside(x):
        def body(i, total):
            inner = np.zeros(2)
            inner[1] = total
            return inner.sum() + CLOSED[1, i] + np.take(np.arange(4.0), i)
        return aj.fori_loop(0, 3, body, x[0])

    np.testing.assert_allclose(aj.compile(inside)(X), X[0] + CLOSED[1, :3].sum() + 3.0, rtol=1e-14)
    assert aj.compile(aj.grad(inside))(X)[0] == 1.0


def test_writes_of_numbers_from_within_a_loop_are_refused() -> None:
    """They would happen once, while tracing; in a function that is differentiated, which runs once, they are what they are in Python."""
    scratch = np.zeros(3)
    for write in (lambda y: y.__setitem__(1, 5.0), lambda y: y.__iadd__(1), lambda y: y.fill(2.0), lambda y: np.copyto(y, 1.0),
                  lambda y: np.add.at(y, [0], 1.0), lambda y: np.exp(np.ones(3), out=y), lambda y: y.flat.__setitem__(0, 1.0),
                  lambda y: np.cumsum([1.0, 2.0, 3.0], out=y), lambda y: y.sort()):
        for outside in (False, True):
            def fun(x, write=write, outside=outside):
                y = scratch if outside else np.zeros(3)

                def body(i, total):
                    write(y)
                    return total + y[1]

                return aj.fori_loop(0, 4, body, x[0]) + y[0]

            with pytest.raises(TraceError, match=r"made outside of|from outside"):
                aj.compile(fun)(X)
        assert not scratch.any()

    def cubic(x):
        powers = np.zeros(3, int)

        def inner(t):
            powers[1] = 3
            return np.sum(t ** int(powers[1]))

        return aj.grad(inner)(x) * powers[1]

    np.testing.assert_allclose(aj.compile(cubic)(X), 9 * X ** 2, rtol=1e-14)


def test_a_gradient_within_a_trace_and_second_order() -> None:
    def energy(x):
        y = np.zeros((2, 3))
        y[0], y[1, ::-1] = x[:3] ** 3, x[3:] * x[0]
        return np.sum(y ** 2)

    expected = aj.grad(lambda x: np.sum(x[:3] ** 6) + np.sum((x[3:] * x[0]) ** 2))
    np.testing.assert_allclose(aj.compile(aj.grad(energy))(X), expected(X), rtol=1e-12)
    np.testing.assert_allclose(aj.hvp(energy, (X,), (np.ones(6),)), differences_of(aj.grad(energy)), rtol=1e-6)


def differences_of(gradient: Callable[[Any], Any]) -> np.ndarray:
    step = 1e-6 * np.ones(6)
    result: np.ndarray = (gradient(X + step) - gradient(X - step)) / 2e-6
    return result


def test_classes_say_where_they_are_from_while_they_are_intercepted() -> None:
    """Compiled code of other libraries looks at the module of np.ndarray to tell how to convert."""
    found: queue.SimpleQueue[str] = queue.SimpleQueue()

    def look(x):
        for kind in (np.ndarray, np.float64, memoryview):
            found.put(kind.__module__)
        return x

    for function in (look, aj.compile(look)):
        function(np.ones(2))
        assert [found.get(timeout=60) for _ in range(3)] == ["numpy", "numpy", "builtins"]
