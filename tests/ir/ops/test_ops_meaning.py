"""What op records compute, against NumPy, SciPy and plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.special.cython_special
from support.op_cases import assert_identical, for_each_op, for_each_sample

from adjit.ir import ops
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.random import philox_4x32
from adjit.ir.ops.sampling import edges
from adjit.ir.types import F32, F64, I64, U32, U64


def padded(x: np.ndarray, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...], value: float) -> np.ndarray:
    """Interior padding by `np.insert`, outer padding by `np.pad`."""
    for axis, gap in enumerate(interior):
        places = [i for i in range(1, x.shape[axis]) for _ in range(gap)]
        x = np.insert(x, places, value, axis)
    return np.pad(x, list(zip(low, high, strict=True)), constant_values=value) if x.ndim else x


def updated(base: np.ndarray, update: np.ndarray, start: tuple[int, ...], step: tuple[int, ...], adding: bool = False) -> np.ndarray:
    out = base.copy()
    for place in np.ndindex(update.shape):
        goal = tuple(first + i * stride for first, i, stride in zip(start, place, step, strict=True))
        out[goal] = out[goal] + update[place] if adding else update[place]
    return out


def scattered(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, adding: bool) -> np.ndarray:
    out = np.moveaxis(base, axis, 0).copy()
    rows = np.moveaxis(updates, tuple(range(axis, axis + indices.ndim)), tuple(range(indices.ndim)))
    for place in np.ndindex(indices.shape):
        out[indices[place]] = out[indices[place]] + rows[place] if adding else rows[place]
    return np.moveaxis(out, 0, axis)


def scattered_along(base: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int) -> np.ndarray:
    out = base.copy()
    for place in np.ndindex(indices.shape):
        target = (*place[:axis], indices[place], *place[axis + 1:])
        out[target] += updates[place]
    return out


def broadcasted(x: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.expand_dims(x, [axis for axis in range(len(shape)) if axis not in axes]), shape)


def accumulated(function: np.ufunc) -> Callable[..., np.ndarray]:
    def oracle(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
        out = np.moveaxis(x, axis, 0).copy()
        if reverse:
            out = out[::-1]
        for i in range(1, len(out)):
            out[i] = function(out[i - 1], out[i])
        return np.moveaxis(out[::-1] if reverse else out, 0, axis)
    return oracle


def strong(function: np.ufunc) -> Callable[..., np.ndarray]:
    def oracle(ct: np.ndarray, local: np.ndarray) -> np.ndarray:
        out = np.asarray(function(ct, local))
        out[ct == 0] = 0
        return out
    return oracle


def random_bits(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Philox4x32-10 in Python's integers."""
    out = np.empty(counter.shape, np.uint64)
    for place in np.ndindex(counter.shape):
        c, k = [int(counter[place]) & 0xFFFFFFFF, int(counter[place]) >> 32, 0, 0], [int(key[place]) & 0xFFFFFFFF, int(key[place]) >> 32]
        for _ in range(10):
            (high0, low0), (high1, low1) = divmod(0xD2511F53 * c[0], 2 ** 32), divmod(0xCD9E8D57 * c[2], 2 ** 32)
            c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
            k = [(k[0] + 0x9E3779B9) % 2 ** 32, (k[1] + 0xBB67AE85) % 2 ** 32]
        out[place] = c[0] | c[1] << 32
    return out


def trigamma(x: np.ndarray) -> np.ndarray:
    """By SciPy's zeta function, reflected for negative numbers."""
    y = np.where(x < 0, 1 - x.astype(F64), x)
    positive = np.where(np.isinf(y), 0, scipy.special.zeta(2, y))
    sine = np.where(np.fmod(x, 1) == 0, 0, np.sin(np.pi * np.fmod(x.astype(F64), 1)))
    return np.where(np.isinf(x) & (x < 0), np.inf, np.where(x < 0, np.square(np.pi / sine) - positive, positive)).astype(x.dtype)


def convolved(x: np.ndarray, w: np.ndarray, stride: Any, low: Any, high: Any, interior: Any, dilation: Any, groups: int,
              elements: Sequence[tuple[int, ...]] = ()) -> np.ndarray:
    """Each element of the result as one sum over the elements of a kernel, or over `elements`, where the others are 0. Negative padding is
    cut off after the other."""
    source = _around(x, low, high, interior, 0.0)
    spread = [max((length - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1, 0) for i, length in enumerate(source.shape[2:])]
    out = np.zeros((len(x), len(w), *spread), x.dtype)
    inputs, outputs = w.shape[1], len(w) // groups
    for place in np.ndindex(out.shape):
        first = place[1] // outputs * inputs
        for element in elements or np.ndindex(w.shape[1:]):
            at = tuple(p * s + k * d for p, s, k, d in zip(place[2:], stride, element[1:], dilation, strict=True))
            out[place] += w[(place[1], *element)] * source[(place[0], first + element[0], *at)]
    return out


def kernel_gradient(x: np.ndarray, ct: np.ndarray, sizes: Any, groups: int, scratch_bytes: int, **attrs: Any) -> np.ndarray:
    """A convolution is linear in its kernels: the product of the cotangent with what each element of a kernel does alone."""
    out = np.zeros((ct.shape[1], x.shape[1] // groups, *sizes), x.dtype)
    for place in np.ndindex(out.shape):
        one = np.zeros_like(out)
        one[place] = 1
        out[place] = np.sum(convolved(x, one, groups=groups, elements=[place[1:]], **attrs) * ct)
    return out


def _around(x: np.ndarray, low: Any, high: Any, interior: Any, value: float) -> np.ndarray:
    before = (0,) * (x.ndim - len(low))
    wide = padded(x, (*before, *(max(n, 0) for n in low)), (*before, *(max(n, 0) for n in high)), (*before, *interior), value)
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for a, b, size in zip(low, high, wide.shape[len(before):], strict=True))
    return wide[(..., *cut)]


def windows_of(x: np.ndarray, value: float, sizes: Any, stride: Any, low: Any, high: Any, interior: Any, dilation: Any) -> Any:
    """(place of a window, its elements, and where those are in the padded array) of all windows."""
    source, axes = _around(x, low, high, interior, value), len(sizes)
    counts = [max((length - dilation[i] * (sizes[i] - 1) - 1) // stride[i] + 1, 0) for i, length in enumerate(source.shape[x.ndim - axes:])]
    for place in np.ndindex(*x.shape[:x.ndim - axes], *counts):
        inner = place[x.ndim - axes:]
        at = [(*place[:x.ndim - axes], *(p * s + k * d for p, s, k, d in zip(inner, stride, element, dilation, strict=True)))
              for element in np.ndindex(*sizes)]
        yield place, [source[where] for where in at], at


def pooled(combine: Callable[..., Any], value: float) -> Callable[..., np.ndarray]:
    def oracle(x: np.ndarray, **attrs: Any) -> np.ndarray:
        found = {place: combine(elements) for place, elements, _ in windows_of(x, value, **attrs)}
        shape = tuple(np.max(list(found), axis=0) + 1) if found else _none_of(x, **attrs)
        out = np.zeros(shape, x.dtype)
        for place, number in found.items():
            out[place] = number
        return out
    return oracle


def _none_of(x: np.ndarray, sizes: Any, stride: Any, **attrs: Any) -> tuple[int, ...]:
    return (*x.shape[:-2], *(max((length - size) // step + 1, 0) for length, size, step in zip(x.shape[-2:], sizes, stride, strict=True)))


def scattered_to_largest(x: np.ndarray, ct: np.ndarray, **attrs: Any) -> np.ndarray:
    wide = np.zeros_like(_around(x, attrs["low"], attrs["high"], attrs["interior"], 0.0))
    for place, elements, at in windows_of(x, -np.inf, **attrs):
        wide[at[int(np.argmax(elements))]] += ct[place]
    inside = tuple(slice(low, low + size) for low, size in zip(attrs["low"], x.shape[x.ndim - len(attrs["low"]):], strict=True))
    return wide[(..., *inside)]


def shared_by_largest(x: np.ndarray, ct: np.ndarray, **attrs: Any) -> np.ndarray:
    out = np.zeros_like(x)
    for place, elements, at in windows_of(x, -np.inf, **attrs):
        tied = [where for where, element in zip(at, elements, strict=True) if not element < np.max(elements)]
        for where in tied:
            out[where] = ct[place] / x.dtype.type(len(tied))
    return out


def taken_at_largest(x: np.ndarray, y: np.ndarray, **attrs: Any) -> np.ndarray:
    source = _around(y, attrs["low"], attrs["high"], attrs["interior"], 0.0)
    out = pooled(max, -np.inf)(x, **attrs)
    for place, elements, at in windows_of(x, -np.inf, **attrs):
        out[place] = source[at[int(np.argmax(elements))]]
    return out


def converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats to integers in Python's whole numbers; the rest is NumPy's."""
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return np.array(x.tolist(), dtype) if dtype.kind == "b" else x.astype(dtype)
    bits = 64 if dtype.itemsize == 8 or dtype == U32 else 32

    def whole(number: float) -> int:
        number -= (offset := 2.0**63 if dtype == U64 and number >= 2.0**63 else 0.0)
        fits = math.isfinite(number) and -2**(bits - 1) <= int(number) < 2**(bits - 1)
        return ((int(number) if fits else -2**(bits - 1)) + int(offset)) % 2 ** (8 * dtype.itemsize)
    unsigned = [whole(number) for number in x.reshape(-1).tolist()]
    return np.array(unsigned, f"u{dtype.itemsize}").view(dtype).reshape(x.shape)


def fourier(x: np.ndarray, axis: int, sign: int, half: np.ndarray | None = None) -> np.ndarray:
    """The sums of the definition; of a whole spectrum whose `half` is given, without imaginary parts that it cannot have."""
    if half is not None:
        ends = [k for k in (0, x.shape[axis] // 2) if 2 * k % x.shape[axis] == 0]
        x = np.moveaxis(x.copy(), axis, -1)
        x[..., ends] = x[..., ends].real
        x = np.moveaxis(x, -1, axis)
    index = np.arange(x.shape[axis])
    turns = np.exp(sign * 2j * np.pi * (np.outer(index, index) % len(index)).astype(np.longdouble) / len(index))
    return np.moveaxis(np.moveaxis(x, axis, -1) @ turns, -1, axis).astype(np.result_type(x.dtype, np.complex64))


def external(*arrays: np.ndarray, function: str, output: int) -> np.ndarray:
    """The C functions of SciPy, called by Python one number at a time."""
    def scalar(*numbers: float) -> Any:
        if function == "sici":      # Python has it of complex numbers alone
            return scipy.special.sici(*numbers)[output]
        if function == "wofz":
            value = scipy.special.cython_special.wofz(complex(*numbers))
            return (value.real, value.imag)[output]
        if function.startswith("complex_"):
            values = getattr(scipy.special, function.removeprefix("complex_"))(*map(complex, numbers[::2], numbers[1::2]))
            value = np.atleast_1d(values)[output // 2]
            return (value.real, value.imag)[output % 2]
        if function == "eval_hermite":
            return scipy.special.cython_special.eval_hermite(int(numbers[0]), numbers[1])
        return getattr(scipy.special.cython_special, function)(*numbers)

    return np.asarray(np.vectorize(scalar, otypes=[float])(*(array.astype(float) for array in arrays))).astype(arrays[0].dtype)


def running(better: Callable[[Any, Any], bool]) -> Callable[..., np.ndarray]:
    """The best element so far, or the first NaN."""
    def along(row: np.ndarray) -> np.ndarray:
        best, found = row[:1], []
        for k in range(len(row)):
            best = best if np.isnan(best[0]) or not (np.isnan(row[k]) or better(row[k], best[0]) or row[k] == best[0]) else row[k:k + 1]
            found.append(best)
        return np.concatenate(found)

    def compute(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
        if not x.size:
            return x
        return np.flip(np.apply_along_axis(along, axis, np.flip(x, axis)), axis) if reverse else np.apply_along_axis(along, axis, x)
    return compute


def sorted_part(x: np.ndarray, axis: int, first: int, count: int) -> np.ndarray:
    if not x.size:
        return x
    return np.apply_along_axis(
        lambda row: np.array(sorted(row, key=lambda e: (e != e, e if e == e else 0)), x.dtype)[first:first + count], axis, x)


def partitioned(x: np.ndarray, pivot: np.ndarray, axis: int) -> np.ndarray:
    """Indices in the order of sides of the pivot."""
    def side(e: Any, p: Any) -> int:
        return int(bool(e > p or (e != e and p == p))) - int(bool(e < p or (p != p and e == e)))

    lines, pivots = np.moveaxis(x, axis, -1), np.moveaxis(pivot, axis, -1)
    order = np.zeros(lines.shape, I64)
    for place in np.ndindex(lines.shape[:-1]):
        order[place] = sorted(range(lines.shape[-1]), key=lambda i, place=place: side(lines[place][i], pivots[place][0]))
    return np.moveaxis(order, -1, axis)


ORACLES: dict[str, Callable[..., Any]] = {
    "add_slice": lambda base, update, start, step: updated(base, update, start, step, adding=True),
    "argsort": lambda x, axis: np.apply_along_axis(
        lambda row: np.array(sorted(range(len(row)), key=lambda i: (row[i] != row[i], row[i] if row[i] == row[i] else 0, i)), I64), axis, x)
        if x.size else np.zeros(x.shape, I64),
    "argpartition": partitioned, "partition": lambda x, pivot, axis: np.take_along_axis(x, partitioned(x, pivot, axis), axis),
    "bitcast": lambda x: np.frombuffer(x.tobytes(), {"f": f"i{x.itemsize}", "i": f"f{x.itemsize}"}[x.dtype.kind]).reshape(x.shape),
    "broadcast": broadcasted,
    "cummax": running(lambda a, b: a > b), "cummin": running(lambda a, b: a < b), "sort": sorted_part,
    "convolution": convolved, "convolution_kernel_gradient": kernel_gradient,
    "window_max": pooled(max, -np.inf), "window_max_scatter": scattered_to_largest, "window_max_take": taken_at_largest,
    "window_max_share": shared_by_largest,
    "window_sum": pooled(sum, 0.0),
    "complex": lambda x, y: np.array([complex(a, b) for a, b in zip(x.ravel(), y.ravel(), strict=True)],
                                     np.result_type(x.dtype, np.complex64)).reshape(x.shape),
    "view_as_complex": lambda x: np.array([complex(a, b) for a, b in x.reshape(-1, 2)], np.result_type(x.dtype, np.complex64)).reshape(
        x.shape[:-1]),
    "view_as_real": lambda x: np.stack([x.real, x.imag], axis=-1),
    "concatenate": lambda *arrays, axis: np.concatenate(arrays, axis),
    "constant": lambda value, dtype, shape: np.full(shape, value, dtype),
    "convert": converted,
    "cumprod": accumulated(np.multiply),
    "cumsum": accumulated(np.add),
    "digamma": lambda x: scipy.special.psi(x),
    "erf": lambda x: scipy.special.erf(x),
    "erfc": lambda x: scipy.special.erfc(x),
    "erfcx": lambda x: np.where(
        x < -1, 2 * np.exp(np.square(x.astype(np.longdouble))) - scipy.special.erfcx(-x), scipy.special.erfcx(x)).astype(x.dtype),
    "erfinv": lambda x: scipy.special.erfinv(x),
    "fft": lambda x, axis, inverse: fourier(x, axis, 1 if inverse else -1),
    "rfft": lambda x, axis: np.take(fourier(x, axis, -1), range(x.shape[axis] // 2 + 1), axis),
    "irfft": lambda x, axis, length: fourier(
        np.concatenate([x, np.conj(np.flip(np.take(x, range(1, (length + 1) // 2), axis), axis))], axis), axis, 1, x).real,
    "external": external,
    "flip": lambda x, axes: x[tuple(slice(None, None, -1 if axis in axes else None) for axis in range(x.ndim))],
    "i0e": lambda x: scipy.special.i0e(x),
    "i1e": lambda x: scipy.special.i1e(x),
    "table": lambda data, dtype, shape: np.ndarray(shape, dtype, bytearray(data)),
    "iota": lambda dtype, shape, axis: np.indices(shape)[axis].astype(dtype),
    "lgamma": lambda x: np.where(abs(x) < 1e-300, -np.log(abs(x)), np.where(np.isinf(x), np.inf, scipy.special.gammaln(x))).astype(x.dtype),
    "matmul": lambda a, b, transpose_a, transpose_b: np.einsum(
        f"...{'ji' if transpose_a else 'ij'},...{'kj' if transpose_b else 'jk'}->...ik", a, b),
    "pad": padded,
    "philox": random_bits,
    "relu": lambda x: np.where(x > 0, x, np.where(x <= 0, 0, x)),
    "reshape": lambda x, shape: np.array([x[place] for place in np.ndindex(x.shape)], x.dtype).reshape(shape),
    "scatter_add": lambda base, indices, updates, axis: scattered(base, indices, updates, axis, adding=True),
    "scatter_add_along_axis": scattered_along,
    "scatter_set": lambda base, indices, updates, axis: scattered(base, indices, updates, axis, adding=False),
    "sigmoid": lambda x: scipy.special.expit(x),
    "slice": lambda x, start, stop, step: x[np.ix_(*(np.arange(*bounds) for bounds in zip(start, stop, step, strict=True)))],
    "stop_gradient": lambda x: x,
    "strong_divide": strong(np.divide),
    "strong_multiply": strong(np.multiply),
    "strong_product": lambda a, b: strong(lambda b, a: strong(np.multiply)(a, b))(b, a),
    "take": lambda x, indices, axis: np.take(x, indices, axis),
    "transpose": lambda x, permutation: np.einsum(x, list(range(x.ndim)), list(permutation)),
    "trigamma": trigamma,
    "update_slice": updated,
}
CLOSE = {"erf": 4, "erfc": 8, "erfcx": 8, "erfinv": 8, "lgamma": 64, "digamma": 16, "trigamma": 16,
         "i0e": 16, "i1e": 16, "sigmoid": 8, "matmul": 16, "convolution": 16, "convolution_kernel_gradient": 16, "window_sum": 16,
         "window_max_scatter": 8, "fft": 64, "rfft": 64, "irfft": 64}
"""Ops that do the same sums in another order, or whose oracle is another algorithm: differences in units in the last place."""


@for_each_op(*(kind for kind in Kind if kind not in (Kind.REGION, Kind.MEMORY, Kind.CHECK, Kind.LINALG)), in_one_item=True)
def test_every_op_has_something_to_be_compared_with(definition: OpDefinition) -> None:
    assert (definition.numpy is not None) != (definition.name in ORACLES)


@for_each_sample()
def test_evaluate_means_what_numpy_means(definition: OpDefinition, sample: Sample) -> None:
    if definition.kind is Kind.LINALG:      # see test_matrix_ops.py
        return
    (found,) = evaluate(definition, sample.arrays, sample.attrs)
    with np.errstate(all="ignore"):
        if definition.numpy is None:
            expected = np.asarray(ORACLES[definition.name](*sample.arrays, **sample.attrs))
        elif definition.kind is Kind.REDUCTION:
            expected = np.asarray(definition.numpy(*sample.arrays, axis=sample.attrs["axes"])).astype(found.dtype)
        else:
            expected = np.asarray(definition.numpy(*sample.arrays, **sample.attrs))
    if definition.name in CLOSE and found.dtype.kind in "fc":
        tolerance, tiny = CLOSE[definition.name] * np.finfo(found.dtype).eps, np.finfo(found.dtype).tiny
        is_sum = definition.kind in (Kind.CONTRACTION, Kind.WINDOW) or definition.external is not None
        around = tolerance * np.max(np.abs(expected), initial=0) if is_sum else 16 * tiny
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=around)
    else:
        assert_identical(found, expected)


# -- random bits: the known answers of Random123 (kat_vectors, philox 4x32, 10 rounds)

@pytest.mark.parametrize(("counter", "key", "expected"), [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
])
def test_philox_known_answers(counter: str, key: str, expected: str) -> None:
    words = [np.array([int(word, 16)], np.uint64) for word in counter.split()]
    keys = [np.array([int(word, 16)], np.uint64) for word in key.split()]
    found = philox_4x32((words[0], words[1], words[2], words[3]), (keys[0], keys[1]))
    assert " ".join(f"{int(word[0]):08x}" for word in found) == expected


def test_philox_op_gives_the_first_two_words() -> None:
    (bits,) = evaluate(ops.philox, [np.zeros(1, np.uint64), np.zeros(1, np.uint64)], {})
    assert int(bits[0]) == 0xE169C58D_6627E8D5


# -- functions that NumPy does not have

@pytest.mark.parametrize("dtype", [F32, F64])
def test_sigmoid_is_right_far_out(dtype: np.dtype) -> None:
    x = np.array([-np.inf, -700.0, -100.0, -20.0, -0.0, 20.0, 100.0, 700.0, np.inf], dtype)
    (found,) = evaluate(ops.sigmoid, [x], {})
    np.testing.assert_allclose(found, scipy.special.expit(x), rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
    assert found[0] == 0
    assert found[-1] == 1


@pytest.mark.parametrize("dtype", [F32, F64])
def test_erf_to_the_last_bits(dtype: np.dtype) -> None:
    x = np.concatenate([np.linspace(-6, 6, 1001), [1e-300, 1e-10, -1e-5]]).astype(dtype)
    (found,) = evaluate(ops.erf, [x], {})
    np.testing.assert_array_max_ulp(found, scipy.special.erf(x.astype(F64)).astype(dtype), 2)


# -- indices

@pytest.mark.parametrize("definition", [ops.take, ops.scatter_add, ops.scatter_set, ops.take_along_axis, ops.scatter_add_along_axis])
@pytest.mark.parametrize("index", [-1, 3, 2 ** 40])
def test_indices_out_of_range(definition: OpDefinition, index: int) -> None:
    base, indices, updates = np.zeros((2, 3)), np.array([[0, index], [1, 1]]), np.ones((2, 2))
    if definition in (ops.take, ops.scatter_add, ops.scatter_set):
        indices = indices[0]
    with pytest.raises(IndexError, match=rf"index {index - 3 if index < 0 else index} is out of bounds for axis 1 with size 3"):
        evaluate(definition, [base, indices, updates][:definition.arity], {"axis": 1})


def test_the_last_of_repeated_indices_counts() -> None:
    (found,) = evaluate(ops.scatter_set, [np.zeros(3), np.array([1, 2, 1, 1]), np.array([5.0, 6.0, 7.0, 8.0])], {"axis": 0})
    assert found.tolist() == [0, 8, 6]


# -- reductions and scans of nothing

@pytest.mark.parametrize(("name", "expected"), [("reduce_sum", 0.0), ("reduce_prod", 1.0)])
def test_reduction_of_nothing(name: str, expected: float) -> None:
    (found,) = evaluate(DEFINITIONS[name], [np.zeros((0, 3))], {"axes": (0,)})
    assert_identical(found, np.full(3, expected))


@pytest.mark.parametrize("dtype", [F32, F64])
def test_nan_sorts_last_and_counts_as_the_extremum(dtype: np.dtype) -> None:
    x = edges(dtype)
    (order,) = evaluate(ops.argsort, [x], {"axis": 0})
    assert np.isnan(x[order[-1]])
    assert (np.diff(x[order[:-1]].astype(F64)) >= 0).all()
    for definition in (ops.argmax, ops.argmin):
        assert evaluate(definition, [x], {"axis": 0})[0] == np.flatnonzero(np.isnan(x))[0]
