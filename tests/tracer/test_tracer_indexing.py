"""Reading and writing by index, and views, follow NumPy's rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.tracing import assert_as_numpy, assert_same, run_traced

import adjit as aj

INDICES = [
    0,
    -1,
    (1, 2),
    (1, -1, 0),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(None, None, 2),
    slice(-1, 0, -2),
    slice(5, 2),
    slice(10, None),
    ...,
    (..., 0),
    (0, ...),
    (1, ..., 2),
    None,
    (None, 0),
    (slice(None), None, 1),
    (..., None),
    (..., slice(1, 3)),
    (),
    [0, 1],
    [-1, 0, 0],
    ([0, 1], [1, -1]),
    ([0, 1], slice(None), [1, 2]),
    (slice(None), [2, 0]),
    (0, slice(None), [1, 2]),
    (0, [1, 2]),
    (slice(None), 0, [1, 2]),
    ([0, 1], None, [1, 2]),
    ([[0], [1]], [0, 2]),
    (..., [0, 1]),
    (slice(1), [0, 2], slice(None, None, -1)),
    np.array([1, 0]),
    (np.array(1), 0),
    (np.int32(1),),
    [],
    np.zeros((0,), int),
    (np.array([0, 1], np.int32), np.array([1], np.uint8)),
    (None, [1, 0], None, 2),
    (np.array([[0, 1], [1, 0]]),),
    (slice(None, None, -1), slice(2, 0, -1), slice(None, None, -2)),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_reading(index):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert_as_numpy(lambda x: x[index], x)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_writing_numbers_and_arrays(index):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    part = x[index]

    def fun(x, values):
        y, z, w = x.copy(), x.copy(), x.copy()
        y[index] = -1
        z[index] = values
        w[index] = values.ravel()[:1] if values.ndim and values.size else 7.0
        return y, z, w

    assert_as_numpy(fun, x, 100 + np.arange(part.size, dtype=np.float64).reshape(part.shape))


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_augmented_assignment(index):
    def fun(x):
        y = x.copy()
        y[index] += 10
        y[index] *= 2
        return y

    assert_as_numpy(fun, np.arange(24, dtype=np.float64).reshape(2, 3, 4))


MASKS = [
    np.array([True, False]),
    np.array([[True, False, True], [False, False, True]]),
    np.zeros((2, 3, 4), bool),
    np.arange(24).reshape(2, 3, 4) % 5 == 0,
]


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: str(mask.shape))
def test_plain_masks(mask):
    def fun(x):
        y = x.copy()
        y[mask] = -1
        return x[mask], y

    assert_as_numpy(fun, np.arange(24.0).reshape(2, 3, 4))


def test_mask_beside_other_indices():
    x = np.arange(24.0).reshape(2, 3, 4)
    columns = np.array([True, False, True, True])
    assert_as_numpy(lambda x: [x[:, 1, columns], x[..., columns], x[0, :, columns], x[[0, 1, 1], 0, columns]], x)


def test_traced_masks_write():
    def fun(x):
        y, z = x.copy(), x.copy()
        y[x > 5] = 0
        z[x[:, 0] > 2] = np.array([1.0, 2, 3])
        return y, z

    assert_as_numpy(fun, np.arange(9.0).reshape(3, 3))


def test_traced_integers_as_indices():
    x = np.arange(24.0).reshape(2, 3, 4)

    def fun(x, i, rows):
        y = x.copy()
        row = y[i]  # a view, as in NumPy
        row += 100
        y[i, 1] += 5
        y[:, rows] = 0
        y[0, rows, i] = rows
        return (
            x[i],
            x[i, 0, 1],
            x[..., i],
            x[rows % 2],
            x[:, rows],
            x[i, rows],
            x[rows % 2, rows],
            x[rows % 2, :, rows],
            row,
            y,
            x[1:][0][rows],
        )

    assert_as_numpy(fun, x, np.int64(-1), np.array([0, -1, 2]))
    assert_as_numpy(fun, x, np.int32(1), np.array([1, 1], np.int8))


def test_an_index_that_turns_out_of_range_raises():
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        run_traced(lambda x, i: x[i], np.arange(3.0), np.array([0, 3]))
    with pytest.raises(IndexError, match="index -9 is out of bounds for axis 0 with size 3"):
        run_traced(lambda x, i: x[i], np.arange(3.0), np.int64(-9))


INSIDE_AND_OUTSIDE = [(i, j) for i in (-4, -3, 0, 2, 3, 1 << 62, -1 << 63) for j in (-5, -4, 0, 3, 4, 7, -1 << 63)]


def test_each_of_several_indices_is_within_its_own_axis():
    """The element that they make together may exist all the same: a[0, 5] is not a[1, 1]."""
    a = np.arange(12.0).reshape(3, 4)

    def write(a, i, j):
        b = a.copy()
        b[i, j] = 7.0
        return b

    def add(a, i, j):
        b = a.copy()
        np.add.at(b, (i, j), 1.0)
        return b

    for access in (lambda a, i, j: a[i, j], write, add, lambda a, i, j: aj.grad(lambda a: a[i, j])(a)):
        compiled = {backend: aj.compile(access, backend=backend) for backend in ("native", "interpret")}
        for i, j in INSIDE_AND_OUTSIDE:
            inside = -3 <= i < 3 and -4 <= j < 4
            for backend, function in compiled.items():
                if inside:
                    np.testing.assert_array_equal(function(a, np.int64(i), np.int64(j)), access(a, i, j), err_msg=backend)
                else:
                    with pytest.raises(IndexError, match="one of several indices is out of range for its axis"):
                        function(a, np.int64(i), np.int64(j))
    with pytest.raises(IndexError, match="one of several"):
        run_traced(lambda a, i, j: a[i, :, j], np.zeros((2, 2, 3)), np.array([0, 1]), np.array([3, 0]))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (3, "index 3 is out of bounds for axis 0 with size 3"),
        (-4, "index -4 is out of bounds for axis 0 with size 3"),
        ([0, 5], "index 5 is out of bounds for axis 0 with size 3"),
        ((0, 0), "too many indices for array: array is 1-dimensional, but 2 were indexed"),
        (1.5, "only integers, slices"),
        ([1.5], "must be of integer"),
        ((..., ...), "single ellipsis"),
        (np.array([True, False]), "boolean index did not match"),
    ],
)
def test_wrong_indices(index, message):
    for write in (False, True):
        with pytest.raises(IndexError, match=message):
            run_traced(lambda x, write=write: x.copy().__setitem__(index, 0) if write else x[index], np.arange(3.0))


def test_wrong_values():
    with pytest.raises(ValueError, match=r"an array of shape \(2,\) cannot be assigned to elements of shape \(3,\)"):
        run_traced(lambda x: x.copy().__setitem__(slice(None), [1, 2]), np.arange(3.0))


def test_assignment_casts_as_numpy():
    def fun(x):
        y = np.zeros_like(x, dtype=np.int32)
        y[0] = 2.7
        y[1:] = x[1:]
        z = np.zeros_like(x, dtype=bool)
        z[:] = x
        return y, z

    assert_as_numpy(fun, np.array([1.5, -2.5, 0.0]))


def test_iteration_unpacking_and_membership():
    def fun(x):
        a, b = x
        rows = [row * 2 for row in x]
        return a + b, rows, len(x)

    assert_as_numpy(fun, np.arange(6.0).reshape(2, 3))
    with pytest.raises(TypeError, match="has no len"):
        run_traced(lambda x: len(x), np.float64(1.0))
    with pytest.raises(TypeError, match="of unsized object"):
        run_traced(lambda x: len(x), np.array(1.0))
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        run_traced(lambda x: list(x), np.array(1.0))


def test_take_and_take_along_axis():
    x = np.arange(12.0).reshape(3, 4)
    order = np.argsort(-x, axis=1)
    assert_as_numpy(
        lambda x: [
            np.take(x, [0, -1]),
            np.take(x, [[0], [2]], axis=0),
            np.take(x, 1, axis=1),
            x.take([5, 50], mode="clip"),
            np.take(x, [-1, 13], mode="wrap"),
            np.take_along_axis(x, order, 1),
            np.take_along_axis(x, order[:1], axis=1),
            np.take_along_axis(x, np.array([3, -1]), axis=None),
        ],
        x,
    )
    assert_as_numpy(lambda x, i: [np.take(x, i, axis=1), np.take_along_axis(x, i[:, None], axis=1)], x, np.array([1, -1, 0]))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_basic_or_integer_index(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    if data.draw(st.booleans()):
        index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    else:
        count = data.draw(st.integers(1, len(shape)))
        places = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
        index = tuple(
            data.draw(
                st.one_of(
                    st.just(slice(None)),
                    st.slices(size),
                    st.integers(-size, size - 1),
                    hnp.arrays(np.int64, places, elements=st.integers(-size, size - 1)),
                )
            )
            for size in shape[:count]
        )
    values = -np.arange(1.0, x[index].size + 1).reshape(np.shape(x[index]))

    def fun(x, values):
        y = x.copy()
        y[index] = values
        return x[index], y

    assert_as_numpy(fun, x, values)


# -- views


@st.composite
def view_programs(draw):
    """Steps on a growing list of arrays: make a view of one, write to one."""
    steps = []
    for _ in range(draw(st.integers(1, 7))):
        steps.append(
            (
                draw(
                    st.sampled_from(
                        [
                            "slice",
                            "reverse",
                            "integer",
                            "newaxis",
                            "reshape",
                            "transpose",
                            "ravel",
                            "flip",
                            "split",
                            "copy",
                            "swap",
                            "squeeze",
                        ]
                    )
                ),
                draw(st.integers(0, 20)),
                draw(st.integers(0, 20)),
            )
        )
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(["set", "add", "set_part", "ufunc"])), draw(st.integers(0, 20)), draw(st.integers(0, 20))))
    return steps


def run_view_program(steps, x):
    arrays = [x.copy()]
    for number, (kind, which, how) in enumerate(steps):
        a = arrays[which % len(arrays)]
        axis = how % a.ndim if a.ndim else 0
        if kind == "slice" and a.ndim:
            arrays.append(a[(slice(None),) * axis + (slice(how % 2, None, 1 + how % 3),)])
        elif kind == "reverse" and a.ndim:
            arrays.append(a[(slice(None),) * axis + (slice(None, None, -1 - how % 2),)])
        elif kind == "integer" and a.ndim > 1 and a.shape[axis]:
            arrays.append(a[(slice(None),) * axis + (how % a.shape[axis],)])
        elif kind == "newaxis" and a.ndim < 5:
            arrays.append(a[..., None] if how % 2 else np.expand_dims(a, 0))
        elif kind == "reshape":
            shapes = [(-1,), (a.size, 1), (1, a.size), a.shape[::-1]] + ([(2, a.size // 2)] if a.size % 2 == 0 else [])
            arrays.append(a.reshape(shapes[how % len(shapes)]) if a.size else a)
        elif kind == "transpose":
            arrays.append(a.T)
        elif kind == "ravel":
            arrays.append(a.ravel())
        elif kind == "flip" and a.ndim:
            arrays.append(np.flip(a, axis))
        elif kind == "split" and a.ndim:
            arrays.extend(np.array_split(a, 2, axis))
        elif kind == "copy":
            arrays.append(a.copy())
        elif kind == "swap" and a.ndim > 1:
            arrays.append(np.swapaxes(a, axis, -1))
        elif kind == "squeeze":
            arrays.append(np.squeeze(a))
        elif kind == "set":
            a[...] = number
        elif kind == "add" and a.ndim:
            a += number
        elif kind == "set_part" and a.ndim and a.shape[0]:
            a[how % a.shape[0]] = a[0] * 2 + number
        elif kind == "ufunc" and a.ndim:
            np.multiply(a, 3, out=a)
    return arrays


@settings(max_examples=100, deadline=None)
@given(view_programs())
def test_views_alias_as_in_numpy(steps):
    x = np.arange(12, dtype=np.float64).reshape(3, 4)
    assert_same(run_traced(lambda x: run_view_program(steps, x), x), run_view_program(steps, x))


def test_reshape_copies_where_the_elements_do_not_lie_in_order():
    def fun(x):
        y = x.copy()
        copied, viewed = y.T.reshape(-1), y[:, :2].T.reshape(2, 1, 3)
        copied[0] = 100
        viewed[0] = 50
        flat = y.flatten()
        flat[:] = 0
        return y, copied, viewed

    assert_as_numpy(fun, np.arange(12.0).reshape(3, 4))


def test_overlapping_copies():
    def fun(x):
        y, z = x.copy(), x.copy()
        y[1:] = y[:-1]
        z[1:] += z[:-1]
        y[::-1] = y
        return y, z

    assert_as_numpy(fun, np.arange(5.0))


def test_einsum_of_another_order_of_axes_is_a_view():
    def fun(x):
        y = np.outer(x, x)
        turned, summed = np.einsum("ij->ji", y), np.einsum("ij->i", y)
        y[0, 1] = 7
        turned[2, 1] = 8
        return y, turned, summed

    assert_as_numpy(fun, np.arange(3.0))


def test_read_only_views():
    for fun in (lambda x: np.broadcast_to(x.copy(), (2, 3)), lambda x: np.diagonal(np.outer(x, x)), lambda x: np.diag(np.outer(x, x))):
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            run_traced(lambda x, fun=fun: fun(x).__setitem__(0, 1), np.arange(3.0))


def test_read_only_views_follow_their_base_and_their_copies_can_be_written_to():
    def fun(x):
        y = np.outer(x, x)
        d, b = np.diagonal(y), np.broadcast_to(y[0], (2, 3))
        flat = b.reshape(6)
        flat[0] = 9
        y += 1
        return y, d, b, flat

    assert_as_numpy(fun, np.arange(3.0))


def test_scalars_are_rebound_and_arrays_written_to():
    def fun(x):
        total = x.sum()
        before = total
        total += 1
        first = x[0]
        first *= 3
        cell = np.zeros_like(x)[0, ...]
        other = cell
        other[...] = 4
        return total, before, first, x[0], cell

    assert_as_numpy(fun, np.arange(3.0))
