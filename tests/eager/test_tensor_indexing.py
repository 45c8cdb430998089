"""Indices of tensors are PyTorch's: integers, also those in tensors without dimensions, take views before arrays choose elements. Expected
values are those of PyTorch 2.14."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import IndexingError

CUBE = np.arange(27.0, dtype=np.float32).reshape(3, 3, 3)


def _in_turn(array: Any, index: tuple[Any, ...]) -> Any:
    """What the index chooses, by taking integers first, one by one, and then NumPy's rule for what is left."""
    basic = tuple(slice(None) if isinstance(item, list) else item for item in index)
    return array[basic][tuple(item if isinstance(item, list) else slice(None) for item in index if not isinstance(item, int))]


@pytest.mark.parametrize("compiled", [False, True])
def test_integers_are_taken_before_arrays_choose(compiled: bool) -> None:
    items = [1, slice(None), slice(1, None), None, [0, 2], [2]]
    indices = [index for count in (2, 3, 4) for index in itertools.product(items, repeat=count)
               if sum(item is not None for item in index) <= 3 and any(isinstance(item, list) for item in index)]
    indices = [index for index in indices if len({len(item) for item in index if isinstance(item, list)}) == 1][::3]

    def at(x: Any) -> list[Any]:
        return [x[index] for index in indices]

    for index, found in zip(indices, (aj.compile(at, backend="interpret") if compiled else at)(aj.tensor(CUBE)), strict=True):
        np.testing.assert_array_equal(found.numpy(), _in_turn(CUBE, index), str(index))


@pytest.mark.parametrize("compiled", [False, True])
def test_examples_of_integers_beside_arrays(compiled: bool) -> None:
    i, mask = aj.tensor([0, 1, 2]), aj.tensor([True, False, True])

    def at(x: Any) -> list[Any]:
        x = x * 1
        found = [x[1, :, i], x[1, :, mask], x[-1, ..., [0, 2]], x[None, 1, :, i], x[0, :, None, i]]
        x[1, :, [0, 2]] = aj.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        return [*found, x[1], aj.ones(2, 3, 4)[0, :, [0, 1]]]

    first, masked, last, new, between, written, other = (aj.compile(at) if compiled else at)(aj.tensor(CUBE))
    assert first.tolist() == CUBE[1].tolist()
    assert masked.tolist() == CUBE[1][:, [0, 2]].tolist()
    assert last.tolist() == [[18, 20], [21, 23], [24, 26]]
    assert new.tolist() == [CUBE[1].tolist()]
    assert between.tolist() == [[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]]]
    assert written.tolist() == [[1, 10, 2], [3, 13, 4], [5, 16, 6]]
    assert other.shape == (3, 2)


WRITES: list[tuple[Callable[[Any, Any], Any], list[list[float]]]] = [
    (lambda x, t: x[t].mul_(5.0), [[1, 1], [5, 5], [1, 1]]),
    (lambda x, t: x[-t].mul_(5.0), [[1, 1], [1, 1], [5, 5]]),
    (lambda x, t: x[t, :1].fill_(7.0), [[1, 1], [7, 1], [1, 1]]),
    (lambda x, t: x[:, t].fill_(7.0), [[1, 7], [1, 7], [1, 7]]),
    (lambda x, t: x[t][0].add_(1.0), [[1, 1], [2, 1], [1, 1]]),
    (lambda x, t: x[t, t].add_(1.0), [[1, 1], [1, 2], [1, 1]]),
    (lambda x, t: x[t].__setitem__(t, 4.0), [[1, 1], [1, 4], [1, 1]]),
    (lambda x, t: x[None, t, None].sub_(1.0), [[1, 1], [0, 0], [1, 1]]),
    (lambda x, t: x[..., t].sub_(1.0), [[1, 0], [1, 0], [1, 0]]),
    (lambda x, t: x.select(0, t).fill_(3.0), [[1, 1], [3, 3], [1, 1]]),
    (lambda x, t: x.narrow(0, t.item(), 2).fill_(3.0), [[1, 1], [3, 3], [3, 3]]),
    (lambda x, t: [row.mul_(3.0) for row in (x[i] for i in aj.arange(2) + t)], [[1, 1], [3, 3], [3, 3]]),
    (lambda x, t: x[1:][t].fill_(0.0), [[1, 1], [1, 1], [0, 0]]),
    (lambda x, t: x.t()[t].fill_(0.0), [[1, 0], [1, 0], [1, 0]]),
    (lambda x, t: x[t, [1]].fill_(9.0), [[1, 1], [1, 1], [1, 1]]),       # an array chooses a copy
]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_writes_at_integers_in_tensors_are_seen(compiled: bool, dtype: str) -> None:
    def write(xs: Any, t: Any) -> None:
        for (change, _), x in zip(WRITES, xs, strict=True):
            change(x, t)

    xs = [aj.ones(3, 2) for _ in WRITES]
    (aj.compile(write, backend="interpret") if compiled else write)(xs, aj.tensor(1, dtype=dtype))
    for number, (x, (_, expected)) in enumerate(zip(xs, WRITES, strict=True)):
        assert x.tolist() == expected, number


def test_numpy_arrays_without_dimensions_are_integers_too() -> None:
    x = aj.zeros(2, 2)
    x[np.array(1)].add_(1.0)
    x[np.int64(0)].add_(2.0)
    assert x.tolist() == [[2, 2], [1, 1]]


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_writes_at_integers_in_tensors(compiled: bool) -> None:
    def step(w: Any, t: Any, u: Any) -> Any:
        y = w * 1
        part = y[t]
        part.mul_(5.0)
        y.mul_(2.0)
        part[u].mul_(w[0, 0])
        loss = (y * y).sum() + part.sum()
        (gradient,) = aj.autograd.grad(loss, w, create_graph=True)
        (gradient * gradient).sum().backward()
        return y.detach(), gradient.detach()

    w = aj.tensor([[2.0, 3.0], [1.0, 4.0]], requires_grad=True)
    y, gradient = (aj.compile(step) if compiled else step)(w, aj.tensor(1), aj.tensor(0))
    assert y.tolist() == [[4, 6], [20, 40]]     # the element at (1, 0) is 10 w10 w00
    assert gradient.tolist() == [[8 * 2 + 2 * 20 * 10 + 10, 8 * 3], [2 * 20 * 20 + 20, 200 * 4 + 10]]
    # d/dw of the sum of squares of (8 a + 200 a c^2 + 10 c, 8 b, 200 a^2 c + 10 a, 200 d + 10), with a = 2, b = 3, c = 1, d = 4
    assert w.grad.tolist() == [[2 * 426 * 208 + 2 * 820 * 810, 2 * 24 * 8], [2 * 426 * 810 + 2 * 820 * 800, 2 * 810 * 200]]


def test_views_at_integers_in_tensors_are_returned_as_views() -> None:
    at = aj.compile(lambda x, t: (x[t], x[:, t]))
    x = aj.zeros(3, 2)
    for number in (1, 0):
        row, column = at(x, aj.tensor(number))
        row.add_(1.0)
        column.mul_(3.0)
    assert x.tolist() == [[3, 1], [3, 3], [0, 0]]
    w = aj.ones(3, 2, requires_grad=True)

    @aj.compile
    def part(w: Any, t: Any) -> Any:
        y = w * 2
        return y, y[t]

    y, row = part(w, aj.tensor(1))
    row.mul_(4.0)
    (y * y).sum().backward()
    assert y.tolist() == [[2, 2], [8, 8], [2, 2]]
    assert w.grad.tolist() == [[8, 8], [128, 128], [8, 8]]


def test_writes_at_integers_in_loops_and_branches() -> None:
    @aj.compile
    def fill(x: Any, count: Any) -> Any:
        i = aj.tensor(0)
        while i < count:
            x[i].fill_(1.0 * i + 1)
            i = i + 1
        if x.sum() > 8:
            x[i - 1].neg_()
        return i

    x = aj.zeros(5)
    assert fill(x, aj.tensor(3)).item() == 3
    assert x.tolist() == [1, 2, 3, 0, 0]
    assert fill(x, aj.tensor(4)).item() == 4
    assert x.tolist() == [1, 2, 3, -4, 0]


@pytest.mark.parametrize("compiled", [False, True])
def test_bools_are_masks_of_a_new_axis(compiled: bool) -> None:
    def at(x: Any, yes: Any, no: Any) -> Any:
        return x[True], x[False], x[:, yes], x[yes, [0, 1]], x[0, no], x[..., True]

    found = (aj.compile(at) if compiled else at)(aj.tensor(CUBE), aj.tensor(True), aj.tensor(False))
    assert [tuple(one.shape) for one in found] == [(1, 3, 3, 3), (0, 3, 3, 3), (3, 1, 3, 3), (2, 3, 3), (0, 3, 3), (3, 3, 3, 1)]
    assert found[0].tolist() == [CUBE.tolist()]
    x = aj.tensor(CUBE)
    x[True] = 1.0
    assert x.sum().item() == 27


def test_bytes_are_masks_with_a_warning() -> None:
    x, mask = aj.arange(3.0), aj.tensor([1, 0, 2], dtype="uint8")
    with pytest.warns(UserWarning, match="is a mask"):
        assert x[mask].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="is a mask"):
        assert aj.compile(lambda x, m: x[m] * 2)(x, mask).tolist() == [0, 4]
    with pytest.warns(UserWarning, match="is a mask"):
        x[mask.numpy()] = 5.0
    assert x.tolist() == [5, 1, 5]


def test_lists_with_tensors_or_lists_are_tuples_with_a_warning() -> None:
    x = aj.tensor(CUBE)
    for index in ([[0, 1], [1, 2]], [aj.tensor([0, 1]), aj.tensor([1, 2])]):
        with pytest.warns(UserWarning, match="the same as a tuple"):
            assert x[index].tolist() == CUBE[[0, 1], [1, 2]].tolist()
    with pytest.warns(UserWarning, match="the same as a tuple"):
        assert x[[0, slice(1, None)]].tolist() == CUBE[0, 1:].tolist()


@pytest.mark.parametrize(("index", "message"), [
    (aj.tensor(5), "index 5 is out of bounds"), ((0, 0, 0, 0), "too many indices"), ((0, [0], [0], [0]), "too many indices"),
    ((..., [0], ...), "single ellipsis"), (1.5, "not by float"), (aj.tensor([1.0]), "an array of float32"),
    ([True, False], "boolean index did not match"), ("a", "not by str")])
def test_indices_that_are_refused(index: Any, message: str) -> None:
    with pytest.raises(aj.errors.IndexingError, match=message):
        aj.tensor(CUBE)[index]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_masks_choose_whole_parts(axes: int) -> None:
    """Values, gradients and names of a mask of the first axes; also of an array of NumPy's, of a transposed tensor, and of none."""
    x = np.random.default_rng(0).normal(size=(4, 3, 5))
    mask = np.random.default_rng(1).random(x.shape[:axes]) < 0.4
    for chosen, given in ((mask, aj.tensor(mask)), (mask, mask), (np.zeros_like(mask), aj.zeros(mask.shape, dtype=bool))):
        leaf = aj.tensor(x.T, requires_grad=True)
        found = leaf.permute(2, 1, 0)[given]
        np.testing.assert_array_equal(found.detach().numpy(), x[chosen])
        assert found.grad_fn.name() == "IndexBackward0"
        (found * found).sum().backward()
        expected = np.zeros_like(x)
        expected[chosen] = 2 * x[chosen]
        np.testing.assert_allclose(leaf.grad.numpy().T, expected)
    with pytest.raises(IndexingError, match="mask"):
        leaf[aj.zeros(mask.shape[0] + 3, dtype=bool)]


def test_indices_beyond_the_axis_are_refused_whatever_their_dtype() -> None:
    x = aj.arange(12.0).reshape(3, 4)
    for wrong in (-1, 4):
        for index in (aj.full((3, 2), wrong), aj.full((3, 2), wrong, dtype=aj.int32)):
            with pytest.raises(IndexingError, match=f"index {wrong} is out of range: there are 4 elements"):
                x.gather(1, index)
    with pytest.raises(IndexingError):
        x[aj.tensor([0, 3])]
    with pytest.raises(IndexingError):
        aj.tensor(1.0)[aj.tensor([0])]
    np.testing.assert_array_equal(x[aj.tensor([-1, 0])].numpy(), x.numpy()[[2, 0]])
