"""Every NumPy function that is known to the tracer works on tensors: NumPy's values, and the gradients of compiled functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import adjit as aj
import adjit.nn.functional as F
from adjit.eager.tensor import Tensor
from adjit.tracer.registry import FUNCTIONS

GENERATOR = np.random.default_rng(3)
A, B = GENERATOR.uniform(0.2, 0.9, (2, 3)), GENERATOR.uniform(0.2, 0.9, (2, 3))
SQUARE, LONG = GENERATOR.uniform(0.2, 0.9, (3, 3)), GENERATOR.uniform(0.2, 0.9, 6)
ROWS = np.array([[0, 1, 1], [1, 0, 1]])

Case = tuple[Callable[..., Any], Sequence[np.ndarray]]


def written(write: Callable[..., Any]) -> Callable[..., Any]:
    """Function of what `write` leaves of its first argument."""
    def content(a: Any, *others: Any) -> Any:
        target = a * 1.0
        assert write(target, *others) is None
        return target

    return content


# What is not called as f(a), or f(a, b) for ufuncs of two operands.
SPECIAL: dict[str, Case] = {
    "arccosh": (lambda a: np.arccosh(a + 1.0), [A]), "append": (np.append, [A, B]),
    "array_split": (lambda a: np.array_split(a, 2, axis=1), [A]),
    "astype": (lambda a: np.astype(a, np.float32), [A]), "average": (lambda a, w: np.average(a, axis=1, weights=w), [A, B]),
    "broadcast_arrays": (np.broadcast_arrays, [A, A[0]]), "broadcast_to": (lambda a: np.broadcast_to(a, (4, 2, 3)), [A]),
    "block": (lambda a, b: np.block([[a, b], [b, a]]), [A, B]),
    "clip": (lambda a: np.clip(a, 0.3, 0.6), [A]), "column_stack": (lambda a, b: np.column_stack([a, b]), [A, B]),
    "concatenate": (lambda a, b: np.concatenate([a, b], 1), [A, B]),
    "diff": (lambda a: np.diff(a, axis=1), [A]), "dot": (np.dot, [A, SQUARE]), "dstack": (lambda a, b: np.dstack([a, b]), [A, B]),
    "einsum": (lambda a, b: np.einsum("ij,kj->ik", a, b), [A, B]), "expand_dims": (lambda a: np.expand_dims(a, 1), [A]),
    "flip": (lambda a: np.flip(a, 1), [A]), "hsplit": (lambda a: np.hsplit(a, 3), [A]),
    "full_like": (lambda a: np.full_like(a, 2.0), [A]),
    "hstack": (lambda a, b: np.hstack([a, b]), [A, B]), "inner": (np.inner, [A, B]), "kron": (np.kron, [A, B]),
    "linspace": (lambda a, b: np.linspace(a, b, 5), [A, B]), "matmul": (np.matmul, [A, SQUARE]),
    "meshgrid": (lambda a, b: np.meshgrid(a, b), [LONG, A[0]]), "moveaxis": (lambda a: np.moveaxis(a, 0, 1), [A]),
    "outer": (np.outer, [A, B]),
    "pad": (lambda a: np.pad(a, 1, constant_values=0.5), [A]), "repeat": (lambda a: np.repeat(a, 2, axis=1), [A]),
    "reshape": (lambda a: np.reshape(a, (3, 2)), [A]), "roll": (lambda a: np.roll(a, 1, axis=1), [A]),
    "rollaxis": (lambda a: np.rollaxis(a, 1), [A]), "row_stack": (lambda a, b: np.vstack([a, b]), [A, B]),
    "select": (lambda a, b: np.select([A > 0.5, A > 0.3], [a, b], 0.1), [A, B]), "split": (lambda a: np.split(a, 3, axis=1), [A]),
    "stack": (lambda a, b: np.stack([a, b], 1), [A, B]), "swapaxes": (lambda a: np.swapaxes(a, 0, 1), [A]),
    "take": (lambda a: np.take(a, [2, 0, 2], axis=1), [A]), "take_along_axis": (lambda a: np.take_along_axis(a, ROWS, 1), [A]),
    "tensordot": (lambda a, b: np.tensordot(a, b, axes=[[1], [1]]), [A, B]), "tile": (lambda a: np.tile(a, (2, 1)), [A]),
    "trace": (np.trace, [SQUARE]), "vdot": (np.vdot, [A, B]), "vecdot": (np.vecdot, [A, B]), "vsplit": (lambda a: np.vsplit(a, 2), [A]),
    "vstack": (lambda a, b: np.vstack([a, b]), [A, B]), "where": (lambda a, b: np.where(A > 0.5, a, b), [A, B]),
    "nan_to_num": (lambda a: np.nan_to_num(a * 2), [A]), "isclose": (np.isclose, [A, B]), "allclose": (np.allclose, [A, B]),
    "array_equal": (np.array_equal, [A, B]), "trapezoid": (lambda a: np.trapezoid(a, dx=0.5, axis=1), [A]),
    "floor_divide": (lambda a, b: np.floor_divide(a, b * 0.3), [A, B]), "squeeze": (lambda a: np.squeeze(a[:1], axis=0), [A]),
    "float_power": (np.float_power, [A, B]),
    "cholesky": (lambda a: np.linalg.cholesky(a @ a.T + np.eye(3)), [SQUARE]), "det": (np.linalg.det, [SQUARE]),
    "inv": (np.linalg.inv, [SQUARE]), "matrix_power": (lambda a: np.linalg.matrix_power(a, -3), [SQUARE]), "norm": (np.linalg.norm, [A]),
    "slogdet": (np.linalg.slogdet, [SQUARE]), "solve": (np.linalg.solve, [SQUARE, B.T]),
    "eigh": (lambda a: np.linalg.eigh(a @ a.T), [SQUARE]), "eigvalsh": (lambda a: np.linalg.eigvalsh(a @ a.T), [SQUARE]),
    "eig": (lambda a: np.linalg.eig(a @ a.T), [SQUARE]), "eigvals": (lambda a: np.linalg.eigvals(a @ a.T), [SQUARE]),
    "roots": (lambda a: np.abs(np.roots(a)), [LONG]),
    "qr": (np.linalg.qr, [SQUARE]), "svd": (np.linalg.svd, [SQUARE]), "svdvals": (lambda a: np.linalg.svd(a, compute_uv=False), [A]),
    "cond": (lambda a: np.linalg.cond(a, "fro"), [SQUARE]), "matrix_norm": (np.linalg.matrix_norm, [A]),
    "lstsq": (lambda a, b: np.linalg.lstsq(a.T, b)[0], [A, LONG[:3]]), "pinv": (np.linalg.pinv, [SQUARE]),
    "multi_dot": (lambda a, b: np.linalg.multi_dot([a, b.T, a]), [A, B]), "tensorinv": (lambda a: np.linalg.tensorinv(a, ind=1), [SQUARE]),
    "tensorsolve": (np.linalg.tensorsolve, [SQUARE, B[0]]), "vector_norm": (np.linalg.vector_norm, [A]),
    "apply_along_axis": (lambda a: np.apply_along_axis(lambda row: row * row.sum(), 1, a), [A]),
    "apply_over_axes": (lambda a: np.apply_over_axes(np.sum, a, [0]), [A]), "argpartition": (lambda a: np.argpartition(a, 1), [A]),
    "bincount": (lambda a: np.bincount([0, 2, 1, 1, 3, 0], a), [LONG]), "choose": (lambda a, b: np.choose(ROWS, [a, b]), [A, B]),
    "compress": (lambda a: np.compress([True, False, True], a, axis=1), [A]),
    "convolve": (np.convolve, [LONG, A[0]]), "correlate": (np.correlate, [LONG, A[0]]), "cross": (np.cross, [A, B]),
    "cumulative_prod": (lambda a: np.cumulative_prod(a, axis=1), [A]), "cumulative_sum": (lambda a: np.cumulative_sum(a, axis=1), [A]),
    "delete": (lambda a: np.delete(a, 1, axis=1), [A]), "diag_indices_from": (np.diag_indices_from, [SQUARE]),
    "digitize": (lambda a: np.digitize(a, [0.2, 0.4, 0.6]), [A]), "dsplit": (lambda a: np.dsplit(a[None], 3), [A]),
    "histogram2d": (lambda a, b: np.histogram2d(a, b, 2, weights=a), [LONG, LONG[::-1].copy()]),
    "histogramdd": (lambda a: (lambda counts, edges: (counts, *edges))(*np.histogramdd(a, 2)), [A]),
    "insert": (lambda a, b: np.insert(a, 1, b[:, 0], axis=1), [A, B]),
    "interp": (lambda a, b: np.interp(a, [0.0, 0.5, 1.0], b), [A, B[0]]), "isin": (np.isin, [A, B]),
    "nanpercentile": (lambda a: np.nanpercentile(a, [25, 60]), [A]), "nanquantile": (lambda a: np.nanquantile(a, 0.3, axis=1), [A]),
    "percentile": (lambda a: np.percentile(a, [25, 60]), [A]), "quantile": (lambda a: np.quantile(a, 0.3, axis=1), [A]),
    "partition": (lambda a: np.partition(a, 1), [A]),
    "piecewise": (lambda a: np.piecewise(a, [A > 0.5], [lambda x: x ** 2, 3.0]), [A]),
    "polyadd": (np.polyadd, [LONG, A[0]]), "polysub": (np.polysub, [LONG, A[0]]), "polymul": (np.polymul, [LONG, A[0]]),
    "polyder": (np.polyder, [LONG]), "polyint": (np.polyint, [LONG]), "polyval": (np.polyval, [A[0], B]),
    "polyfit": (lambda a, b: np.polyfit(a, b, 2), [LONG, LONG[::-1].copy()]), "resize": (lambda a: np.resize(a, (3, 4)), [A]),
    "searchsorted": (lambda a, b: np.searchsorted(np.sort(a), b), [LONG, B]), "vander": (lambda a: np.vander(a, 3), [LONG]),
    "sort_complex": (lambda a: np.sort_complex(a).real, [LONG]),
    "copyto": (written(lambda a, b: np.copyto(a, b[0], where=A > 0.5)), [A, B]),
    "fill_diagonal": (written(lambda a, b: np.fill_diagonal(a, b[0])), [SQUARE, B]),
    "place": (written(lambda a, b: np.place(a, A > 0.5, b[0])), [A, B]), "put": (written(lambda a, b: np.put(a, [1, 4], b[0])), [A, B]),
    "put_along_axis": (written(lambda a, b: np.put_along_axis(a, ROWS[:, :1], b[:, :1], 1)), [A, B]),
    "putmask": (written(lambda a, b: np.putmask(a, A > 0.5, b)), [A, B]),
    "array_equiv": (np.array_equiv, [A, B]), "geomspace": (lambda a, b: np.geomspace(a, b, 5), [A, B]),
    "logspace": (lambda a, b: np.logspace(a, b, 5), [A, B]), "ldexp": (lambda a: np.ldexp(a, ROWS), [A]),
    "logn": (lambda a, b: np.lib.scimath.logn(a + 1.0, b), [A, B]), "poly": (np.poly, [LONG]), "polydiv": (np.polydiv, [LONG, A[0]]),
    "vecmat": (np.vecmat, [LONG[:2], A]),
    "sliding_window_view": (lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=1), [A]),
    "at": (written(lambda a, b: np.multiply.at(a, ([0, 0, 1], [1, 1, 2]), b[1])), [A, B]),
}
# Of integers or bools.
DISCRETE: dict[str, Case] = {
    **{name: (getattr(np, name), [np.array([1, 6, 3]), np.array([2, 3, 1])])
       for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm")},
    "invert": (np.invert, [np.array([1, 6, 3])]), "bitwise_count": (np.bitwise_count, [np.array([1, -6, 3])]),
    "ix_": (np.ix_, [np.array([0, 2]), np.array([1, 0, 1])]), "packbits": (np.packbits, [ROWS]),
    "unpackbits": (np.unpackbits, [np.array([3, 200], np.uint8)]),
    "ravel_multi_index": (lambda i, j: np.ravel_multi_index((i, j), (3, 4)), [np.array([0, 2]), np.array([3, 1])]),
    "unravel_index": (lambda i: np.unravel_index(i, (3, 4)), [np.array([0, 7, 11])])}
# Their results are texts, dtypes and orders of contraction: NumPy's own.
ANSWERS: dict[str, Callable[[Any], Any]] = {
    "array2string": np.array2string, "array_repr": np.array_repr, "array_str": np.array_str, "common_type": np.common_type,
    "min_scalar_type": np.min_scalar_type, "einsum_path": lambda a: np.einsum_path("ij,kj->ik", a, a)}
# They answer questions about arrays.
NOT_HERE = ("matrix_rank", "can_cast", "result_type", "iscomplexobj", "isrealobj", "ndim", "shape", "size", "empty_like")
# Their results have shapes that depend on values.
DEPENDENT: dict[str, Callable[[Any], Any]] = {
    "argwhere": np.argwhere, "extract": lambda x: np.extract(x > 0.5, x), "flatnonzero": np.flatnonzero, "nonzero": np.nonzero,
    "unique": np.unique, "union1d": lambda x: np.union1d(x, x), "trim_zeros": np.trim_zeros,
    "setxor1d": lambda x: np.setxor1d(x, x[:2]), "intersect1d": lambda x: np.intersect1d(x, x), "setdiff1d": lambda x: np.setdiff1d(x, x),
    "compress_by_values": lambda x: np.compress(x, x)}

NAMES = sorted({function.__name__ for function in FUNCTIONS if callable(function)}
               - set(DISCRETE) - set(ANSWERS) - set(NOT_HERE) - set(DEPENDENT) | {"at"})


def case(name: str) -> Case:
    if name in SPECIAL:
        return SPECIAL[name]
    function = getattr(np, name)
    return function, [A, B] if isinstance(function, np.ufunc) and function.nin == 2 else [A]


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def weighted(results: Any) -> Any:
    """One number that all differentiable results have a part in."""
    total: Any = 0.0
    for number, result in enumerate(as_list(results)):
        if np.dtype(result.dtype).kind == "f":
            total = total + np.sum(result * np.cos(np.arange(np.prod(result.shape, dtype=int)).reshape(result.shape) + number))
    return total


@pytest.mark.share(4)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name: str) -> None:
    function, arrays = case(name)
    leaves = [aj.tensor(array, requires_grad=True) for array in arrays]
    results, expected = as_list(function(*leaves)), as_list(function(*arrays))
    assert len(results) == len(expected)
    for result, array in zip(results, expected, strict=True):
        if isinstance(array, bool):
            assert bool(result) == array
            return
        assert isinstance(result, Tensor)
        assert result.shape == array.shape
        assert result.dtype == array.dtype
        np.testing.assert_allclose(result.detach().numpy(), array, rtol=1e-12, atol=1e-14)
    if not any(result.requires_grad for result in results):
        assert not any(result.dtype.kind == "f" for result in results) or name in ("ones_like", "zeros_like", "full_like")
        return
    places = tuple(range(len(arrays)))

    def pure(*xs: Any) -> Any:
        return weighted(function(*xs))

    def slope(*xs: Any) -> Any:
        return sum(np.sum(gradient * (gradient + 1.0)) for gradient in aj.grad(pure, argnums=places)(*xs))

    root = weighted(results)
    first = aj.autograd.grad(root, leaves, create_graph=True, allow_unused=name == "copysign")
    first = tuple(leaf * 0 if gradient is None else gradient for leaf, gradient in zip(leaves, first, strict=True))
    wanted = aj.compile(aj.grad(pure, argnums=places), backend="interpret")(*arrays)
    for found, gradient in zip(first, wanted, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), gradient, rtol=1e-10, atol=1e-12)
    again: Any = sum((found * (found + 1.0)).sum() for found in first)
    if again.requires_grad:
        again.backward()
    curvature = aj.compile(aj.grad(slope, argnums=places), backend="interpret")(*arrays)
    for leaf, gradient in zip(leaves, curvature, strict=True):
        found_again = np.zeros_like(gradient) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(found_again, gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", DISCRETE)
def test_integers(name: str) -> None:
    function, arrays = DISCRETE[name]
    results, expected = as_list(function(*map(aj.tensor, arrays))), as_list(function(*arrays))
    for result, array in zip(results, expected, strict=True):
        assert isinstance(result, Tensor)
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result.numpy(), array)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_about_tensors_are_those_of_numpy(name: str) -> None:
    assert ANSWERS[name](aj.tensor(A, requires_grad=True)) == ANSWERS[name](A)


@pytest.mark.parametrize("name", DEPENDENT)
def test_shapes_that_depend_on_values_are_those_of_each_call(name: str) -> None:
    function = DEPENDENT[name]
    for numbers in ([0.0, 1.0, 3.0], [2.0, 0.75, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, 4.0], [2.0, 2.0, 0.0]):
        array, leaf = np.array(numbers), aj.tensor(np.array(numbers), requires_grad=True)
        found, expected = as_list(function(leaf)), as_list(function(array))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.detach().numpy(), other)
            assert one.dtype == other.dtype
        if found[0].requires_grad and len({*numbers}) == 3:
            (found[0] * np.arange(1.0, 1.0 + expected[0].size)).sum().backward()
            kept = [number for number in array if number in expected[0]]
            weights = {number: sum(place + 1.0 for place, other in enumerate(expected[0]) if other == number) for number in kept}
            np.testing.assert_array_equal(leaf.grad.numpy(), [weights.get(number, 0.0) for number in array])


def test_shapes_that_depend_on_values_are_refused_within_a_compiled_function() -> None:
    with pytest.raises(aj.errors.UnsupportedError, match=r"number of elements that .* mask chooses .* depends on values"):
        aj.compile(lambda x: np.flatnonzero(x).sum())(aj.tensor([0.0, 1.0]))


def test_operands_are_never_written_to(exhaustive: bool) -> None:
    for name in NAMES[::1 if exhaustive else 2]:
        function, arrays = case(name)
        leaves = [aj.tensor(array, requires_grad=True) for array in arrays]
        results = [result for result in as_list(function(*leaves)) if isinstance(result, Tensor) and result.requires_grad]
        kept = [result.detach().numpy().copy() for result in results]
        if results:
            weighted(results).backward(retain_graph=True)
            weighted(results).backward()
        for leaf, array in zip(leaves, arrays, strict=True):
            np.testing.assert_array_equal(leaf.detach().numpy(), array, err_msg=name)
        for result, array in zip(results, kept, strict=True):
            np.testing.assert_array_equal(result.detach().numpy(), array, err_msg=name)


# -- several results


def test_results_of_split_and_unbind() -> None:
    x = aj.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    first, second = x.split(1)
    columns = x.unbind(1)
    assert second.grad_fn.next_functions[0][1] == 0
    assert [column.grad_fn is columns[0].grad_fn for column in columns] == [True] * 3
    (second.sum() * 10 + columns[2].sum()).backward()
    assert x.grad.tolist() == [[0, 0, 1], [10, 10, 11]]
    assert first.grad is None


@pytest.mark.parametrize(("method", "values", "indices", "gradient"), [
    (lambda x: x.max(1), [5, 9], [1, 0], [[0, 1, 0], [1, 0, 0]]), (lambda x: x.min(1), [1, 2], [0, 2], [[1, 0, 0], [0, 0, 1]]),
    (lambda x: x.sort(1), [[1, 3, 5], [2, 4, 9]], [[0, 2, 1], [2, 1, 0]], [[1, 1, 1], [1, 1, 1]]),
    (lambda x: x.topk(1, 1), [[5], [9]], [[1], [0]], [[0, 1, 0], [1, 0, 0]])])
def test_values_with_their_places(method: Callable[[Any], Any], values: Any, indices: Any, gradient: Any) -> None:
    x = aj.tensor([[1.0, 5.0, 3.0], [9.0, 4.0, 2.0]], requires_grad=True)
    found, places = method(x)
    assert found.tolist() == values
    assert places.tolist() == indices
    assert places.dtype == np.int64
    assert not places.requires_grad
    found.sum().backward()
    assert x.grad.tolist() == gradient


# -- unusual contents and layouts


@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: x.exp(), lambda x: x.sum(), lambda x: x.mean(0), lambda x: x.T,
                                      lambda x: x @ x.T, lambda x: x.cumsum(1), lambda x: x.relu(), lambda x: x[:0], lambda x: x + x])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_empty_tensors(function: Callable[[Any], Any], shape: tuple[int, int]) -> None:
    x = aj.tensor(np.ones(shape), requires_grad=True)
    y = function(x)
    y.sum().backward()
    assert x.grad.shape == shape


@pytest.mark.parametrize("layout", [lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: np.asfortranarray(a),
                                    lambda a: np.broadcast_to(a[:1], a.shape), lambda a: a[..., None][:, :, 0]])
def test_layouts(layout: Callable[[np.ndarray], np.ndarray]) -> None:
    base = np.arange(1.0, 13.0).reshape(3, 4)
    array = layout(base)
    x = aj.as_tensor(array).requires_grad_()
    (x.exp() * x[0]).sum().backward()
    gradient = np.exp(array) * array[0]
    gradient[0] += np.exp(array).sum(0)
    np.testing.assert_allclose(x.grad.numpy(), gradient)


def test_infinities_nan_and_signed_zeros() -> None:
    x = aj.tensor(np.array([np.inf, -np.inf, np.nan, -0.0, 0.0]), requires_grad=True)
    y = x * 2
    np.testing.assert_array_equal(y.detach().numpy(), [np.inf, -np.inf, np.nan, -0.0, 0.0])
    assert np.signbit(y.detach().numpy()).tolist()[3:] == [True, False]
    x.abs().sum().backward()
    assert x.grad.numpy()[:2].tolist() == [1, -1]
    assert x.grad.numpy()[3:].tolist() == [0, 0]


def test_masked_infinities_have_no_gradient() -> None:
    """A cotangent of exactly 0 contributes exactly 0."""
    x = aj.tensor(np.array([0.0, 4.0]), requires_grad=True)
    root = x.sqrt()
    np.where(x.detach() > 0, root, 0.0).sum().backward()
    assert x.grad.tolist() == [0, 0.25]


def test_broadcast_gradients_have_the_shapes_of_their_operands() -> None:
    a, b, c = (aj.tensor(np.ones(shape), requires_grad=True) for shape in ((3, 1), (1, 4), ()))
    (a * b + c).sum().backward()
    assert [x.grad.shape for x in (a, b, c)] == [(3, 1), (1, 4), ()]
    assert a.grad.tolist() == [[4]] * 3
    assert c.grad.item() == 12


def test_mixed_dtypes() -> None:
    a, b = aj.tensor([1.0, 2.0], requires_grad=True), aj.tensor(np.array([3.0, 4.0]), requires_grad=True)
    y = a * b
    assert y.dtype == np.float64
    y.sum().backward()
    assert a.grad.dtype == np.float32
    assert b.grad.dtype == np.float64
    assert (a * 2).dtype == np.float32
    assert (a * np.float64(2)).dtype == np.float32
    assert (a + aj.tensor([1, 2])).dtype == np.float32


def test_the_same_operand_twice() -> None:
    a = aj.tensor([1.0, 2.0], requires_grad=True)
    (a + a).sum().backward()
    assert a.grad.tolist() == [2, 2]
    a.grad = None
    (a * a).sum().backward()
    assert a.grad.tolist() == [2, 4]
    a.grad = None
    np.concatenate([a, a, a]).sum().backward()
    assert a.grad.tolist() == [3, 3]


PIECEWISE = {
    "x ** 0": lambda x: x ** 0, "x * 0": lambda x: x * 0, "where": lambda x: np.where(aj.tensor([True] * 3), 1.0, x) * 0 ** 2,
    "floor": lambda x: x.floor(), "leaky_relu": F.leaky_relu, "hardtanh": F.hardtanh, "relu6": F.relu6, "relu": F.relu, "abs": abs,
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_results_require_grad_though_the_derivative_is_zero(name):
    x = aj.tensor([-2.0, 0.5, 3.0], requires_grad=True)
    y = PIECEWISE[name](x)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (3,)


@pytest.mark.parametrize("name", ["leaky_relu", "hardtanh", "relu6", "relu", "abs"])
def test_the_second_derivative_of_piecewise_linear_functions_is_zero(name):
    x = aj.tensor([-2.0, 0.5, 3.0], requires_grad=True)
    (first,) = aj.autograd.grad(PIECEWISE[name](x).sum(), x, create_graph=True)
    (second,) = aj.autograd.grad((first * first).sum(), x)
    assert second.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("function", [np.zeros_like, np.ones_like, aj.stop_gradient, lambda x: np.full_like(x, 2.0)])
def test_constants_of_the_shape_of_a_tensor_require_no_grad(function):
    assert not function(aj.tensor([1.0], requires_grad=True)).requires_grad


def test_gradients_of_leaves_lie_in_memory_as_the_leaves_do() -> None:
    """Programs write `p.grad.view(-1)`."""
    layer, x = aj.nn.Linear(3, 5), aj.ones(4, 3, requires_grad=True)
    aj.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
    turned = aj.ones(3, 4).t().requires_grad_()
    (turned * 2.0).sum().backward()
    for leaf in (layer.weight, layer.bias, x, turned):
        assert leaf.grad.stride() == leaf.stride()
    assert aj.cat([each.grad.view(-1) for each in layer.parameters()]).tolist() == [4.0] * 20
    weight = aj.ones(3, 4, requires_grad=True)
    weight.permute(1, 0).exp().sum().backward()
    assert weight.grad.view(-1).shape == (12,)


def test_a_gradient_of_repeated_rows_is_written_once() -> None:
    """NumPy copies a view that repeats rows in another order, from which it would have to be copied again."""
    x = aj.ones(3, 4).requires_grad_()
    x.sum(0).backward(aj.arange(4.0))
    assert x.grad is not None
    assert x.grad.is_contiguous()
    assert x.grad.tolist() == [[0.0, 1.0, 2.0, 3.0]] * 3
    seed = aj.arange(4.0)
    x.grad = None
    x.sum(0).backward(seed)
    x.grad.zero_()      # type: ignore[attr-defined]
    assert seed.tolist() == [0.0, 1.0, 2.0, 3.0]
