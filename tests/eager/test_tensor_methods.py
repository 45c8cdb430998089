"""Operators and methods of tensors: NumPy's values, PyTorch's arguments, gradients and node names."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from support.each import parametrize_within
from support.tensor_expressions import CASES

import adjit
from adjit.eager.functional.reductions import ValuesAndIndices
from adjit.eager.node_names import node_name
from adjit.eager.tensor import Tensor, new_tensor, tensor
from adjit.errors import DTypeError, InPlaceError, ShapeError, TraceError, UnsupportedError


def inputs(dtype=np.float64):
    """x, y, p: 3x4 (p within (0, 1)); v: 4; b: 2x3x4; s: a scalar; i, k: integers; m: a mask."""
    random = np.random.default_rng(0)
    floats = {"x": random.standard_normal((3, 4)), "y": random.standard_normal((3, 4)), "p": random.uniform(0.1, 0.9, (3, 4)),
              "v": random.standard_normal(4), "b": random.standard_normal((2, 3, 4)), "s": np.array(0.7)}
    others = {"i": random.integers(0, 3, (3, 4)), "k": np.array([2, 0, 2]), "m": random.random((3, 4)) < 0.5}
    return {name: value.astype(dtype) for name, value in floats.items()} | others


# The shape of these depends on values.
OF_VALUES = ("[m]", ", m]", "masked_select", "nonzero()", "nonzero(a")
IDS = [case[0] for case in CASES]
# PyTorch has another name here, for a reason of its own.
OTHER_NAMES = {"x.masked_select(m)", "x.masked_select(v > 0)", "x.view_as(x)", "x.scatter(1, i, 5.0)", "x.norm(0, dim=0)"}


def added(x, index, values):
    out = x.copy()
    np.add.at(out, (index, np.arange(index.shape[1])), values[:index.shape[0], :index.shape[1]])
    return out


def put(x, index, values):
    out = x.copy()
    np.put_along_axis(out, index, values, 1)
    return out


def evaluate(expression, values):
    return eval(expression, {"np": np, "added": added, "put": put, **values})


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def name_of(expected, dtype):
    """The expected name, which a conversion has for other dtypes only."""
    name, _, condition = expected.partition(" if ")
    return name if condition in ("", np.dtype(dtype).name) else None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@parametrize_within(("expression", "in_numpy", "name"), CASES, ids=IDS)
def test_values_as_numpy(expression, in_numpy, name, dtype):
    arrays = inputs(dtype)
    with np.errstate(all="ignore"):
        expected = flat(evaluate(in_numpy, arrays))
    actual = flat(evaluate(expression, {key: tensor(array) for key, array in arrays.items()}))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert isinstance(a, Tensor)
        assert a.grad_fn is None
        assert (a.shape, a.dtype) == (np.shape(e), np.asarray(e).dtype)
        tolerance = 1e-5 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(a.numpy(), e, rtol=tolerance, atol=tolerance)


@parametrize_within(("expression", "in_numpy", "name"), CASES, ids=IDS)
def test_node_names(expression, in_numpy, name):
    for dtype in (np.float32, np.float64):
        values = {key: tensor(array, requires_grad=array.dtype.kind == "f") for key, array in inputs(dtype).items()}
        result = flat(evaluate(expression, values))[0]
        if name in ("of x", "None or not"):
            continue
        expected = None if name is None else name_of(name, dtype)
        found = result.grad_fn.name() if result.grad_fn is not None else None
        assert found == expected


@parametrize_within(("expression", "in_numpy", "name"), [case for case in CASES if case[2] is not None],
                    ids=[case[0] for case in CASES if case[2] is not None])
def test_gradients_as_finite_differences(expression, in_numpy, name):
    arrays = inputs()
    random = np.random.default_rng(1)
    values = {key: tensor(array, requires_grad=array.dtype.kind == "f") for key, array in arrays.items()}
    result = flat(evaluate(expression, values))[0]
    if result.grad_fn is None or result.dtype != np.float64:
        return
    weight = random.standard_normal(result.shape)
    result.backward(tensor(weight))
    used = [key for key in values if arrays[key].dtype.kind == "f" and values[key].grad is not None]
    assert used or not np.any(flat(evaluate(in_numpy, {**arrays, "x": arrays["x"] + 1e-6}))[0] - result.detach().numpy())
    direction = {key: random.standard_normal(arrays[key].shape) for key in used}

    def shifted(step):
        moved = {key: array + step * direction[key] if key in used else array for key, array in arrays.items()}
        with np.errstate(all="ignore"):
            return np.sum(weight * flat(evaluate(in_numpy, moved))[0])

    difference = (shifted(1e-6) - shifted(-1e-6)) / 2e-6
    gradient = sum((np.sum(values[key].grad.numpy() * direction[key]) for key in used), 0.0)
    np.testing.assert_allclose(gradient, difference, rtol=1e-6, atol=1e-6)


@parametrize_within(("expression", "in_numpy", "name"), CASES, ids=IDS)
def test_as_torch(expression, in_numpy, name):
    torch = pytest.importorskip("torch")
    for dtype in (np.float32, np.float64):
        arrays = inputs(dtype)
        ours = {key: tensor(array, requires_grad=array.dtype.kind == "f") for key, array in arrays.items()}
        theirs = {key: torch.tensor(array, requires_grad=array.dtype.kind == "f") for key, array in arrays.items()}
        result, expected = flat(evaluate(expression, ours)), flat(evaluate(expression, theirs))
        assert len(result) == len(expected)
        tolerance = 1e-5 if dtype is np.float32 else 1e-10
        for a, e in zip(result, expected, strict=True):
            assert (a.shape, str(a.dtype)) == (tuple(e.shape), str(e.dtype).removeprefix("torch."))
            np.testing.assert_allclose(a.detach().numpy(), e.detach().numpy(), rtol=tolerance, atol=tolerance)
        if expected[0].grad_fn is None or result[0].grad_fn is None:
            if expression not in OTHER_NAMES:
                assert result[0].requires_grad == expected[0].requires_grad or "floor" in expression or "trunc" in expression
            continue
        if expression not in OTHER_NAMES:
            assert result[0].grad_fn.name() == type(expected[0].grad_fn).__name__
        weight = np.random.default_rng(2).standard_normal(result[0].shape).astype(result[0].dtype)
        result[0].backward(tensor(weight))
        expected[0].backward(torch.tensor(weight))
        for key, value in theirs.items():
            if value.requires_grad:
                gradient = np.zeros_like(arrays[key]) if ours[key].grad is None else ours[key].grad.numpy()
                wanted = np.zeros_like(arrays[key]) if value.grad is None else value.grad.numpy()
                np.testing.assert_allclose(gradient, wanted, rtol=10 * tolerance, atol=10 * tolerance, err_msg=key)


def test_within_a_compiled_function():
    expressions = [expression for expression, *_ in CASES if not any(part in expression for part in OF_VALUES)]
    values = {key: tensor(array) for key, array in inputs().items()}

    def everything(values):
        return [flat(evaluate(expression, values)) for expression in expressions]

    for expression, compiled, eager in zip(expressions, adjit.compile(everything)(values), everything(values), strict=True):
        for a, e in zip(compiled, eager, strict=True):
            assert (a.shape, a.dtype) == (e.shape, e.dtype), expression
            np.testing.assert_allclose(a.numpy(), e.numpy(), rtol=1e-12, atol=1e-12, err_msg=expression)


@pytest.mark.parametrize("read", [lambda x: x.item(), lambda x: x.tolist(), bool, float, int, lambda x: float(f"{x:.2f}"),
                                  lambda x: np.arange(3.0)[x.int()], lambda x: x.equal(x)])
def test_values_that_are_read_while_tracing_are_those_of_the_call(read):
    outer = tensor(1.0)
    for function in (lambda x: x * read(outer), lambda x: x * read(x)):
        compiled = adjit.compile(function)
        for number in (2.0, 1.0, 2.0):
            assert compiled(tensor(number)).item() == function(tensor(number)).item()


def test_arrays_are_not_read_while_tracing():
    with pytest.raises(TraceError):
        adjit.compile(lambda x: x * np.asarray(x))(tensor(2.0))


def test_a_mask_of_a_compiled_function_holds_for_its_count():
    x, mask = tensor([1.0, 2.0]), tensor([True, False])
    chosen = adjit.compile(lambda x, mask: (x[mask] * 2).view(-1, 1))
    assert [chosen(x, each).tolist() for each in (mask, ~mask, mask | True, mask & False)] == [[[2.0]], [[4.0]], [[2.0], [4.0]], []]
    assert chosen.cache_info().traces == 3
    with pytest.raises(UnsupportedError, match="traced bool mask"):
        adjit.vmap(lambda x: x[x > 1])(tensor([[1.0, 2.0], [2.0, 3.0]]))

    @adjit.compile
    def masked(x, mask):
        y = x.clone()
        y[mask] = 5.0
        return y

    assert masked(x, mask).tolist() == [5.0, 2.0]
    assert masked(x, ~mask).tolist() == [1.0, 5.0]


# -- gradients where functions have kinks


def gradient_of(fun, values):
    x = tensor(np.array(values, np.float64), requires_grad=True)
    fun(x).backward()
    return x.grad.tolist()


@pytest.mark.parametrize(("fun", "values", "expected"), [
    (lambda x: x.norm(), [0.0, 0.0], [0.0, 0.0]),
    (lambda x: x.norm(3), [0.0, 0.0], [0.0, 0.0]),
    (lambda x: x.norm(1), [2.0, -1.0, 0.0], [1.0, -1.0, 0.0]),
    (lambda x: x.std(), [1.0, 1.0], [0.0, 0.0]),
    (lambda x: x.max(), [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
    (lambda x: x.amax(0), [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
    (lambda x: x.max(0).values, [1.0, 3.0, 3.0], [0.0, 1.0, 0.0]),
    (lambda x: x.min(0)[0], [1.0, 3.0, 1.0], [1.0, 0.0, 0.0]),
    (lambda x: x.clamp(0, 1).sum(), [-1.0, 0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 1.0, 1.0, 0.0]),
    (lambda x: x.relu().sum(), [-1.0, 0.0, 2.0], [0.0, 0.0, 1.0]),
    (lambda x: x.abs().sum(), [-1.0, 0.0, 2.0], [-1.0, 0.0, 1.0]),
    (lambda x: x.prod(), [2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
], ids=lambda value: "call" if callable(value) else None)
def test_gradients_at_kinks(fun, values, expected):
    assert gradient_of(fun, values) == expected


# -- sorting and extrema


def test_sorting_is_stable_both_ways_and_nan_is_largest():
    x = tensor(np.array([1.0, np.nan, 0.0, 1.0, 0.0]))
    values, indices = x.sort()
    assert indices.tolist() == [2, 4, 0, 3, 1]
    values, indices = x.sort(descending=True)
    assert indices.tolist() == [1, 0, 3, 2, 4]
    assert values.tolist()[1:] == [1.0, 1.0, 0.0, 0.0]
    assert x.topk(3).indices.tolist() == [1, 0, 3]
    assert tensor(3.0).sort().indices.item() == 0


def test_of_larger_sources_a_part_is_scattered():
    x, source = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[10.0, 20.0], [30.0, 40.0]], requires_grad=True)
    index = tensor([[1]])
    for result, corner in ((x.scatter_add(0, index, source), 13.0), (x.scatter(0, index, source), 10.0)):
        assert result.tolist() == [[1.0, 2.0], [corner, 4.0]]
        source.grad = None
        result.sum().backward()
        assert source.grad.tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_values_and_indices_have_names():
    found = tensor([[1.0, 5.0], [7.0, 2.0]]).max(dim=1)
    assert isinstance(found, ValuesAndIndices)
    assert found.values.tolist() == [5.0, 7.0]
    assert found.indices.tolist() == [1, 0]
    assert found.indices.dtype == np.int64
    values, indices = tensor([[1.0, 5.0], [7.0, 2.0]]).topk(1)
    assert (values.tolist(), indices.tolist()) == ([[5.0], [7.0]], [[1], [0]])


# -- views and writes


VIEWS = ["x[0]", "x[0, 1]", "x[1:]", "x[:, 0]", "x[..., None]", "x.view(-1)", "x.reshape(2, 6)", "x.flatten()", "x.unflatten(1, (2, 2))",
         "x.t()", "x.T", "x.mT", "x.transpose(0, 1)", "x.permute(1, 0)", "x.movedim(0, 1)", "x.unsqueeze(0)", "x.squeeze(0)",
         "x.narrow(0, 1, 2)", "x.select(0, 1)", "x.split(2)[1]", "x.chunk(2)[0]", "x.unbind()[2]", "x.ravel()", "x.swapaxes(0, 1)"]


@pytest.mark.parametrize("expression", VIEWS)
def test_views_share_memory(expression):
    x = tensor(np.arange(12.0).reshape(3, 4))
    view = evaluate(expression, {"x": x})
    before = x.numpy().copy()
    view.add_(100.0)
    assert int(np.sum(x.numpy() != before)) == view.numel()
    x.zero_()
    assert not view.any()


@pytest.mark.parametrize("expression", ["x[[0, 1]]", "x[x > 3]", "x.clone()", "x.flip(0)", "x.repeat(1, 1)", "x + 0", "x.T.reshape(-1)",
                                        "x.gather(0, i)"])
def test_copies_do_not(expression):
    x = tensor(np.arange(12.0).reshape(3, 4))
    evaluate(expression, {"x": x, "i": tensor(np.zeros((3, 4), np.int64))}).fill_(100.0)
    assert x.tolist() == np.arange(12.0).reshape(3, 4).tolist()


WRITES = [
    ("add_", (2.0,), lambda x: x + 2), ("sub_", (2.0,), lambda x: x - 2), ("mul_", (3.0,), lambda x: x * 3),
    ("div_", (4.0,), lambda x: x / 4),
    ("pow_", (2,), lambda x: x ** 2), ("clamp_", (-0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)), ("relu_", (), lambda x: np.maximum(x, 0)),
    ("exp_", (), np.exp), ("neg_", (), np.negative), ("abs_", (), np.abs), ("zero_", (), np.zeros_like),
    ("fill_", (7,), lambda x: np.full_like(x, 7)), ("copy_", (np.arange(4.0),), lambda x: np.broadcast_to(np.arange(4.0), x.shape)),
    ("masked_fill_", (np.eye(3, 4) > 0, -1.0), lambda x: np.where(np.eye(3, 4) > 0, -1.0, x)),
    ("sigmoid_", (), lambda x: 1 / (1 + np.exp(-x))),
    ("lerp_", (np.ones((3, 4)), 0.5), lambda x: 0.5 * x + 0.5), ("addcmul_", (np.full(4, 2.0), np.full(4, 3.0)), lambda x: x + 6),
]


@pytest.mark.parametrize(("name", "args", "expected"), WRITES, ids=[name for name, *_ in WRITES])
def test_methods_that_write(name, args, expected):
    for dtype in (np.float32, np.float64):
        array = np.random.default_rng(0).standard_normal((3, 4)).astype(dtype)
        memory = array.copy()
        x = new_tensor(memory)
        assert getattr(x, name)(*args) is x
        assert x.array is memory
        assert memory.dtype == dtype
        np.testing.assert_allclose(memory, expected(array), rtol=1e-6)


@pytest.mark.parametrize(("write", "expected"), [
    (lambda x: operator.iadd(x, 1), lambda x: x + 1), (lambda x: operator.isub(x, x), lambda x: x - x),
    (lambda x: operator.imul(x, np.arange(4.0)), lambda x: x * np.arange(4.0)), (lambda x: operator.itruediv(x, 2), lambda x: x / 2),
    (lambda x: operator.ipow(x, 2), lambda x: x ** 2),
])
def test_augmented_assignment_writes(write, expected):
    array = np.random.default_rng(0).standard_normal((3, 4))
    memory = array.copy()
    x = new_tensor(memory)
    assert write(x) is x
    np.testing.assert_allclose(memory, expected(array))


def test_alpha_of_writes():
    x = tensor([1.0, 2.0])
    x.add_(tensor([10.0, 20.0]), alpha=-0.5)
    assert x.tolist() == [-4.0, -8.0]
    x.sub_(1.0, alpha=2)
    assert x.tolist() == [-6.0, -10.0]


@pytest.mark.parametrize(("index", "value"), [
    (0, 5.0), ((0, 1), 5.0), (slice(1, None), np.arange(4.0)), ((slice(None), 0), np.array([1.0, 2.0, 3.0])), (Ellipsis, 2.0),
    (np.array([0, 2]), np.ones((2, 4))), ([0, 2], 3), ((slice(None), np.array([1, 1])), 4.0), (np.eye(3, 4) > 0, 9.0),
    (np.eye(3, 4) > 0, np.array([1.0, 2.0, 3.0])), (np.array([True, False, True]), 0.0),
    ((np.array([0, 1]), np.array([1, 2])), np.array([5.0, 6.0])),
])
def test_items_are_set(index, value):
    expected = np.arange(12.0).reshape(3, 4)
    x, y = tensor(expected), tensor(expected)
    expected[index] = value
    x[index] = value
    assert x.tolist() == expected.tolist()
    if not isinstance(index, (tuple, list)):
        y[tensor(index) if isinstance(index, np.ndarray) else index] = tensor(value) if isinstance(value, np.ndarray) else value
        assert y.tolist() == expected.tolist()


def test_gradients_go_through_what_was_written():
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    y[1] = 0.0
    y[tensor([True, False, False])] = 5.0
    y.mul_(x)
    assert y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 0.0, 12.0]
    with pytest.raises(InPlaceError):
        x.add_(1.0)


@pytest.mark.parametrize("run", [lambda fun: fun, adjit.compile], ids=["eager", "compiled"])
def test_gradients_go_through_views_that_were_written(run):
    def write(x):
        y = x * 2
        y[0] += x[1] * 3
        y[1, None] = (y[0] + 1) * x[2]
        y[2:] = 1.0
        return y

    def fill(x):
        out = x.new_zeros(4)
        for i in range(4):
            out[i] = x[i] ** (i + 1)
        return out

    for fun, values, gradients in ((write, [8.0, 27.0, 1.0, 1.0], [8.0, 12.0, 9.0, 0.0]),
                                   (fill, [1.0, 4.0, 27.0, 256.0], [1.0, 4.0, 27.0, 256.0])):
        x = tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        y = run(fun)(x)
        assert y.tolist() == values
        y.sum().backward()
        assert x.grad.tolist() == gradients


def test_writes_that_do_not_fit():
    x = tensor([1, 2])
    with pytest.raises(DTypeError):
        x.add_(0.5)
    with pytest.raises(ShapeError):
        tensor([1.0, 2.0]).add_(tensor([[1.0], [2.0]]))
    with pytest.raises(ShapeError, match="fill_ takes one number"):
        tensor([1.0, 2.0]).fill_(np.ones(2))


def test_random_content():
    x = tensor(np.zeros((100, 100), np.float32))
    first = x.normal_(2.0, 0.5).numpy().copy()
    assert abs(first.mean() - 2.0) < 0.05
    assert abs(first.std() - 0.5) < 0.05
    assert not np.array_equal(first, x.normal_(2.0, 0.5).numpy())
    x.uniform_(-1.0, 3.0)
    assert -1.0 <= x.min().item() < -0.9
    assert 2.9 < x.max().item() <= 3.0
    x.bernoulli_(0.25)
    assert set(np.unique(x.numpy())) == {0.0, 1.0}
    assert abs(x.mean().item() - 0.25) < 0.05
    with pytest.raises(DTypeError, match="normal_ fills floating-point tensors"):
        tensor([1, 2]).normal_()


# -- arguments


def test_numpys_names_of_arguments():
    x = tensor([[1.0, 2.0], [3.0, 5.0]])
    assert x.sum(axis=0, keepdims=True).tolist() == [[4.0, 7.0]]
    assert x.max(axis=0).values.tolist() == [3.0, 5.0]
    assert x.var(axis=0, ddof=0).tolist() == [1.0, 2.25]
    assert x.transpose().tolist() == [[1.0, 3.0], [2.0, 5.0]]
    assert x.transpose((1, 0)).tolist() == [[1.0, 3.0], [2.0, 5.0]]
    with pytest.raises(TypeError, match="two names of one argument"):
        x.sum(dim=0, axis=0)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x: x.mm(x[0]), ShapeError, "mm takes tensors of 2 and 2 dimensions"),
    (lambda x: x.view(4, 4), ShapeError, "view: an array of shape"),
    (lambda x: x.expand(2, -1, 2, 3), ShapeError, "expand: a tensor of shape"),
    (lambda x: x.repeat(2), ShapeError, "repeat: 1 numbers for 2 dimensions"),
    (lambda x: x.split((1, 5)), ShapeError, "do not add up"),
    (lambda x: x.split(0), ValueError, "positive size"),
    (lambda x: x.chunk(0), ValueError, "positive number"),
    (lambda x: x.narrow(0, 1, 5), ShapeError, "narrow: dimension 0"),
    (lambda x: x.topk(4), ShapeError, "topk: k = 4 of 3"),
    (lambda x: x.unsqueeze(0).t(), ShapeError, "at most two dimensions"),
    (lambda x: x.clamp(), ValueError, "at least one of min and max"),
    (lambda x: x.div(2, rounding_mode="up"), ValueError, "rounding_mode"),
    (lambda x: x.norm("nuc"), ValueError, "p is a number or 'fro'"),
    (lambda x: x.gather(0, tensor([0, 1])), ShapeError, "gather: an index of shape"),
    (lambda x: x.gather(0, x), IndexError, "integer dtype"),
    (lambda x: x.gather(0, tensor([[5, 0, 0]])), IndexError, "out of range"),
    (lambda x: x[5], IndexError, "out of bounds"),
    (lambda x: x["a"], IndexError, "valid indices"),
    (lambda x: x + "a", TypeError, "unsupported operand"),
    (lambda x: x.unflatten(1, (2, 2)), ShapeError, "unflatten: the sizes"),
    (lambda x: x.flatten(1, 0), ValueError, "comes after"),
], ids=lambda value: "call" if callable(value) and not isinstance(value, type) else None)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))


def test_names_of_unknown_functions():
    def leaky_relu6_of(x):
        return x

    assert node_name(leaky_relu6_of) == "LeakyRelu6OfBackward0"
    assert node_name(np.logaddexp2) == "Logaddexp2Backward0"


MASKS = [
    ((4, 2), [True, False, True], "(3,)", "(4,)"), ((4, 2), [[True], [True]], "(2, 1)", "(4, 2)"),
    ((4,), [True, False, True, False, False], "(5,)", "(4,)"), ((4, 2), (slice(None), [True]), "(1,)", "(2,)"),
    ((4, 2), (..., [True, True, False]), "(3,)", "(2,)"), ((4, 2), [False, False, False, False, True], "(5,)", "(4,)"),
]


def masks(index, make):
    return tuple(make(item) if isinstance(item, list) else item for item in index) if isinstance(index, tuple) else make(index)


@pytest.mark.parametrize("make", [list, np.array, tensor], ids=["list", "ndarray", "tensor"])
@pytest.mark.parametrize(("shape", "index", "mask", "axes"), MASKS)
def test_a_mask_has_the_sizes_of_its_axes(shape, index, mask, axes, make):
    def read(x):
        return x[masks(index, make)]

    def write(x):
        y = x * 1
        y[masks(index, make)] = 9
        return y

    if make is tensor:      # a mask that is traced can only be written through, and by itself
        functions = [read, write] if isinstance(index, tuple) else [read, write, adjit.compile(write)]
    else:
        functions = [read, write, adjit.compile(read), adjit.compile(write)]
    for function in functions:
        with pytest.raises(IndexError) as caught:
            function(tensor(np.zeros(shape)))
        assert isinstance(caught.value, adjit.errors.AdjitError)
        if make is list and isinstance(index[0], list):     # a list of lists is a tuple of them, as in PyTorch
            continue
        assert mask in str(caught.value)
        assert axes in str(caught.value)
        assert __file__.rpartition("/")[2] in str(caught.value)


@pytest.mark.parametrize("wrapped", [lambda f: f, adjit.compile], ids=["eager", "compiled"])
def test_masks_beside_other_indices(wrapped):
    array = np.arange(24.0).reshape(2, 3, 4)
    rows, corner = np.array([True, False, True, True]), np.array([[True, False, True], [False, False, True]])
    x = tensor(array)
    assert wrapped(lambda x: x[..., rows])(x).tolist() == array[..., rows].tolist()
    assert wrapped(lambda x: x[corner, 1:])(x).tolist() == array[corner, 1:].tolist()
    assert wrapped(lambda x: x[None, :, :, rows])(x).tolist() == array[None, :, :, rows].tolist()


def test_tensors_of_one_integer_are_indices_and_bounds():
    x = tensor(np.arange(5.0))
    one, three = tensor(1), tensor(3)
    assert x[one:three].tolist() == [1.0, 2.0]
    assert x[one].item() == 1.0
    assert x[::np.int64(2)].tolist() == [0.0, 2.0, 4.0]
    x[one:three] = 0.0
    x[three] += 1.0
    assert x.tolist() == [0.0, 0.0, 0.0, 4.0, 4.0]
    assert [7, 8][one] == 8
    with pytest.raises(TypeError, match="index"):
        x[tensor(1.0):]


@pytest.mark.parametrize("wrapped", [lambda f: f, adjit.compile], ids=["eager", "compiled"])
def test_view_never_copies(wrapped):
    x = tensor(np.arange(6.0).reshape(2, 3))
    with pytest.raises(ShapeError, match=r"view: .*shape \(3, 2\)(.|\n)*use reshape"):
        wrapped(lambda x: x.T.view(-1))(x)
    with pytest.raises(ShapeError, match="view"):
        wrapped(lambda x: x[:, :2].view(4))(x)
    assert wrapped(lambda x: x.T.reshape(-1))(x).tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    assert wrapped(lambda x: x[:, :2].view(2, 1, 2))(x).shape == (2, 1, 2)
    assert wrapped(lambda x: x.view(size=(3, -1)))(x).shape == (3, 2)
    assert wrapped(lambda x: x[:0].view(0, 7))(x).shape == (0, 7)
    x.view(-1)[0] = 9.0
    assert x[0, 0].item() == 9.0


@pytest.mark.parametrize(("run", "message"), [
    (lambda x: x.expand(5, 3), r"expand: a tensor of shape \(2, 3\) cannot get the sizes \(5, 3\)"),
    (lambda x: x.masked_fill(tensor([True, False]), 0.0), r"masked_fill: the mask of shape \(2,\)"),
    (lambda x: x.copy_(tensor([1.0, 2.0])), r"a write in place: the new content of shape \(2,\)"),
    (lambda x: x @ x, r"operand 2: f64\[2,3\], a tensor"),
])
def test_errors_name_what_was_called(run, message):
    with pytest.raises(ShapeError, match=message) as caught:
        run(tensor(np.ones((2, 3))))
    assert "an argument" not in str(caught.value)


MORE = {
    "median": (lambda x: x.median(dim=1).values, lambda a: np.sort(a, 1)[:, 1]),
    "median of all": (lambda x: x.median(), lambda a: np.sort(a.ravel())[5]),
    "median with NaN": (lambda x: (x / x * x).median(0).values, lambda a: np.where(np.any(a == 0, 0), np.nan, np.sort(a, 0)[1])),
    "diff": (lambda x: x.diff(dim=0), lambda a: np.diff(a, axis=0)),
    "nansum": (lambda x: (x / x).nansum(dim=1), lambda a: np.sum(a != 0, 1)),
    "nanmean": (lambda x: (x / x * x).nanmean(), lambda a: a[a != 0].mean()),
    "take_along_dim": (lambda x: x.take_along_dim(tensor([[0, 2, 1, 0]]), dim=0),
        lambda a: np.take_along_axis(a, np.array([[0, 2, 1, 0]]), 0)),
    "index_fill": (lambda x: x.index_fill(1, tensor([0, 3]), 7.0),
        lambda a: np.stack([a[:, 0] * 0 + 7, a[:, 1], a[:, 2], a[:, 0] * 0 + 7], 1)),
    "index_copy_": (lambda x: x.clone().index_copy_(0, tensor([2, 0]), x[:2]), lambda a: np.stack([a[1], a[1], a[0]])),
}


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("wrapped", [lambda f: f, adjit.compile], ids=["eager", "compiled"])
def test_less_common_methods(name, wrapped):
    method, expected = MORE[name]
    array = np.array([[3.0, -1.0, 0.0, 4.0], [2.0, 5.0, 1.0, 1.5], [6.0, 2.5, 9.0, -2.0]])
    np.testing.assert_allclose(wrapped(method)(tensor(array)).numpy(), expected(array))


def test_the_gradient_of_a_median_goes_to_the_element():
    x = tensor([3.0, 1.0, 2.0, 5.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_where_the_memory_of_a_tensor_is():
    x = tensor(np.arange(6.0).reshape(2, 3))
    assert (x.stride(), x.T.stride(), x.stride(0), x.device) == ((3, 1), (1, 3), 3, "cpu")
    assert x[1].data_ptr() == x.data_ptr() + 24


def test_drawn_from_probabilities_and_written_at_indices():
    adjit.manual_seed(0)
    p = tensor(np.array([0.0, 1.0] + [0.5] * 200), requires_grad=True)
    drawn = p.bernoulli()
    assert (drawn[0].item(), drawn[1].item(), set(drawn.tolist()), drawn.dtype) == (0.0, 1.0, {0.0, 1.0}, np.float64)
    assert 60 < drawn.sum().item() < 140
    x = tensor(np.zeros((2, 2))).index_put_((tensor([0, 1]), tensor([1, 0])), tensor(np.array([3.0, 4.0])))
    assert x.tolist() == [[0.0, 3.0], [4.0, 0.0]]
    assert x.index_put_((tensor([0, 0]),), tensor(1.0), accumulate=True).tolist() == [[2.0, 5.0], [4.0, 0.0]]
