"""Small functions of arrays as steps of machine code: they have the bits of the Python function, whose operands they check."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit.codegen.fastcall import object_layout
from adjit.codegen.numpy.chunks import Program
from adjit.codegen.numpy.graph_function import NumpyFunction
from adjit.codegen.numpy.top_indices import top_indices
from adjit.eager.call import known_calls
from adjit.eager.methods import _Top
from adjit.eager.operation import CALLS_BEFORE_STEPS
from adjit.runtime.fastcall.step_functions import step_function

pytestmark = pytest.mark.skipif(not object_layout.known(), reason="objects have another layout")

F = aj.nn.functional
INDICES = aj.tensor([[2, 0], [1, 1], [0, 2]])
LABELS = aj.tensor([1, 0, 4])
MASK = aj.tensor([[True, False, True, False, True]])

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda x, y: (x + y) * 2.0 - x / y,
    "rows": lambda x, y: x + y[0],
    "softmax": lambda x, y: F.softmax(x, -1),
    "softmax of columns": lambda x, y: F.log_softmax(x, 0),
    "layer norm": lambda x, y: F.layer_norm(x, (5,), y[0], y[1]),
    "batch norm": lambda x, y: F.batch_norm(x, None, None, y[0], y[1], training=True),
    "cross entropy": lambda x, y: F.cross_entropy(x, LABELS),
    "labels": lambda x, y: F.one_hot(LABELS, 5) * x,
    "choices": lambda x, y: F.smooth_l1_loss(x, y) + x.clamp(-0.5, 0.5).sum() + x.masked_fill(MASK, 0.0).amax(-1).sum(),
    "kernels": lambda x, y: F.gelu(x) + x.erf() * y.digamma(),
    "sums": lambda x, y: x.sum(0) + x.var(1).sum() + x.prod(-1).sum() + x.std() + x.norm() + x.mean((0, 1)),
    "scan": lambda x, y: x.cumsum(-1) + x.logsumexp(-1, keepdim=True),
    "indices": lambda x, y: x.gather(1, INDICES).sum() + x.index_select(0, INDICES[:, 1]).square() + x[INDICES[:, 0]],
    "columns": lambda x, y: x.gather(0, INDICES).sum() + y.take_along_dim(INDICES % 3, 0).sum() + x.sort(0)[0].sum(),
    "joined": lambda x, y: aj.stack([aj.cat([x, y], 1), aj.cat([y, x], 1)]).tril(),
    "parts": lambda x, y: x[:, 1:3].exp() * F.pad(y, (1, 1))[:, :2] + x.roll(1, 0)[:, ::2][:, :2],
    "order": lambda x, y: x.sort(-1)[0] + x.median(-1, True)[0] * (y.argsort(0) + INDICES.argsort(-1).sum()) + x.cumprod(1),
    "additions": lambda x, y: x.scatter_add(1, INDICES, y).index_add(0, INDICES[:, 1], x) + y.index_add(1, LABELS, x[:, :3]),
    "three dimensions": lambda x, y: (x[:, None, :] * y[None, :, :]).tanh().sum(1),
}


def functions_of(run: Callable[[], Any]) -> Iterator[NumpyFunction]:
    """The functions of forward and backward halves that a program runs."""
    known_calls.clear()
    run().sum().backward()
    for call in list(known_calls.values()):
        yield call.operation.function
        for backward in call.operation._backward.values():
            yield backward.function


def drawn(function: NumpyFunction, seed: int) -> list[Any]:
    draw = np.random.default_rng(seed)
    arrays: list[Any] = []
    for index, type in enumerate(function.params):
        if index in function.weak:
            arrays.append(float(draw.normal()))
        elif type.dtype.kind == "f":
            array = draw.normal(0, 3, type.shape).astype(type.dtype)
            special = draw.random(type.shape) < 0.2
            arrays.append(np.where(special, draw.choice([0.0, -0.0, np.inf, -np.inf, np.nan], type.shape), array).astype(type.dtype)
                          if seed % 2 else array)
        else:
            arrays.append(draw.integers(0, 2, type.shape).astype(type.dtype))
    return arrays


def bits(results: Any) -> list[tuple[Any, ...]]:
    return [(result.dtype, result.shape, result.tobytes()) for result in results]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@parametrize_within("name", PROGRAMS, share=2)
def test_steps_have_the_bits_of_the_python_function(name: str, dtype: str) -> None:
    x, y = (aj.tensor(np.random.default_rng(seed).normal(2, 1, (3, 5)).astype(dtype)).requires_grad_() for seed in (0, 1))
    made = 0
    for function in functions_of(lambda: PROGRAMS[name](x, y)):
        steps = step_function(function, False, is_at_once=True)
        assert steps is not None
        made += steps is not function.run
        for seed in range(2):
            arrays = drawn(function, seed)
            with np.errstate(all="ignore"):
                try:
                    expected = function.run(*arrays)
                except IndexError:
                    with pytest.raises(IndexError):
                        steps(*arrays)
                    continue
                assert bits(steps(*arrays)) == bits(expected), function.text
    assert made >= 2


def softmax(dtype: str = "f4") -> tuple[NumpyFunction, Callable[..., Any]]:
    known_calls.clear()
    F.softmax(aj.ones(3, 5, dtype=dtype), -1)
    (call,) = known_calls.values()
    made = step_function(call.operation.function, True, is_at_once=True)
    assert made is not None
    assert made is not call.operation.function.run_single
    return call.operation.function, made


def test_operands_that_a_table_is_not_for_are_left_to_python() -> None:
    function, steps = softmax()
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")
    given = [x.T, np.asfortranarray(x.T), x.T.astype("f8"), np.ones((6, 10), "f4")[::2, ::2], x.T.astype(">f4")]
    for array in given:
        np.testing.assert_array_equal(steps(array), function.run_single(array))
    for arrays in [(x, x), (np.ones((2, 5), "f4"),), (1.5,), ()]:
        with pytest.raises((TypeError, ValueError, AttributeError)):
            function.run_single(*arrays)
        with pytest.raises((TypeError, ValueError, AttributeError)):
            steps(*arrays)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_first_elements_have_the_order_of_a_stable_sort(dtype: type) -> None:
    draw = np.random.default_rng(0)
    for k, largest in ((1, True), (5, False), (5, True), (40, True), (40, False)):
        top = _Top((3, 40), np.dtype(dtype), k, 1, largest)
        function = top.run._function
        steps = step_function(function, True, is_at_once=True)
        assert not hasattr(steps, "__code__")
        for levels in (2, 1000):
            x = draw.integers(-levels, levels, (3, 40)).astype(dtype)
            if dtype != np.int64:
                x[0, ::7], x[1, 1::5], x[1, 2::5], x[2, 1::9], x[2, 2::9] = np.nan, -0.0, 0.0, np.inf, -np.inf
                x[0, ::14] = np.copysign(x[0, ::14], -1)
            np.testing.assert_array_equal(steps(x), top_indices(x, k, 1, largest))


PROGRAMS_FOR_SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "channels": lambda x, y: F.prelu(x, y), "windows": lambda x, y: F.max_pool2d(x, 2),
    "indices": lambda x, y: F.grid_sample(x, x[:, :5, :, :2]),
}


@pytest.mark.parametrize("name", PROGRAMS_FOR_SHAPES)
def test_programs_for_shapes_are_tables(name: str) -> None:
    draw = np.random.default_rng(0)
    x, y = (aj.tensor(draw.normal(size=shape).astype("f4")).requires_grad_() for shape in ((4, 8, 32, 32), (8,)))
    found = [function for function in functions_of(lambda: PROGRAMS_FOR_SHAPES[name](x, y)) if isinstance(function.run, Program)]
    assert found
    for function in found:
        steps = step_function(function, False, is_at_once=True)
        assert steps is not None
        assert hasattr(steps, "__self__") == function.run.is_short
        arrays = drawn(function, 0)
        assert bits(steps(*arrays)) == bits(steps(*map(np.asfortranarray, arrays))) == bits(function.run(*arrays))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "t": lambda x: x.transpose(0, 2), "part": lambda x: x[:, 1:3, ::2], "element": lambda x: x[1, 2], "reversed": lambda x: np.flip(x, 1),
    "unsqueeze": lambda x: x.unsqueeze(1), "flat": lambda x: x.reshape(-1), "expand": lambda x: x[:, :, :1].expand(2, 4, 6),
    "permuted part": lambda x: x.permute(2, 0, 1)[1:], "last": lambda x: x[..., -1],
}


@pytest.mark.parametrize("dtype", ["f4", "c16", "?"])
def test_views_are_those_of_numpy(dtype: str) -> None:
    whole = np.arange(2 * 3 * 5 * 9).reshape(6, 5, 9).astype(dtype)
    arrays = [np.arange(48).reshape(2, 4, 6).astype(dtype), whole[::4, :4, 1:7], whole[:2, 4:0:-1, 5::-1],
              np.asfortranarray(whole[:2, :4, :6]), np.frombuffer(bytes(48 * np.dtype(dtype).itemsize), dtype).reshape(2, 4, 6)]
    for name, view in VIEWS.items():
        known_calls.clear()
        view(aj.tensor(arrays[0]))
        for call in list(known_calls.values()):
            function = call.operation.function
            steps = step_function(function, True, is_at_once=True)
            assert steps is not None
            assert not hasattr(steps, "__code__"), name
            in_tuple = step_function(function, False, is_at_once=True)
            assert in_tuple is not None
            for array in arrays:
                if array.shape == function.params[0].shape:
                    (made,), expected = in_tuple(array), function.run_single(array)
                    assert steps(array).strides == made.strides
                    assert made.strides == expected.strides, name
                    assert made.flags == expected.flags
                    if np.shares_memory(expected, array):
                        assert made.ctypes.data == expected.ctypes.data
                        assert made.base is array or made.base is array.base
                    np.testing.assert_array_equal(made, expected)
            with pytest.raises((TypeError, ValueError, AttributeError)):
                steps(*[arrays[0]] * 2)
    before = sys.getrefcount(arrays[0])
    for _ in range(100):
        steps(arrays[0][:])
    assert sys.getrefcount(arrays[0]) - before < 50


def test_indices_that_are_out_of_range_are_errors_of_python() -> None:
    known_calls.clear()
    x = aj.ones(3, 5)
    x[LABELS[:2]]
    function = list(known_calls.values())[-1].operation.function
    steps = step_function(function, True, is_at_once=True)
    assert steps is not None
    assert steps(x.numpy(), np.array([-1, 2])).shape == (2, 5)
    for index in (3, -4, 2**62):
        with pytest.raises(IndexError):
            steps(x.numpy(), np.array([0, index]))


def test_references_are_counted() -> None:
    _, steps = softmax("f8")
    x, wrong = np.ones((3, 5)), np.ones((3, 5), "f4")
    before = [sys.getrefcount(thing) for thing in (x, wrong, x.dtype, np.ndarray)]
    for _ in range(1000):
        steps(x)
        steps(wrong)
    assert all(abs(sys.getrefcount(thing) - count) < 100 for thing, count in zip((x, wrong, x.dtype, np.ndarray), before, strict=True))


def test_calls_become_steps_and_keep_their_bits() -> None:
    softmax()       # the routine is there
    known_calls.clear()
    draw = np.random.default_rng(0)
    x = aj.tensor(draw.normal(size=(4, 6)).astype("f4")).requires_grad_()
    found = set()
    for _ in range(3 * CALLS_BEFORE_STEPS):
        x.grad = None
        loss = F.cross_entropy(x, LABELS.repeat(2)[:4])
        loss.backward()
        found.add((loss.detach().numpy().tobytes(), x.grad.numpy().tobytes()))
    assert len(found) == 1
    call = next(call for call in known_calls.values() if call.operation.wanted)
    assert not hasattr(call.operation.run, "__code__")
    assert not any(hasattr(backward.run, "__code__") for backward in call.operation._backward.values() if "run" in vars(backward))


def test_tables_share_their_working_memory() -> None:
    first, second = (step_function(function, False, is_at_once=True) for function in (softmax()[0], softmax("f8")[0]))
    x = np.random.default_rng(0).normal(size=(3, 5))
    before = first(x.astype("f4"))[0].tobytes()
    (between,) = second(x)
    assert first(x.astype("f4"))[0].tobytes() == before
    assert between.tobytes() == second(x)[0].tobytes()
    for steps in (first, second):
        table = steps.__self__[-1]
        assert sum(array.nbytes for array in table.kept if isinstance(array, np.ndarray)) < 200       # numbers alone


def test_threads_share_a_table() -> None:
    function, steps = softmax()
    arrays = [np.random.default_rng(seed).normal(size=(3, 5)).astype("f4") for seed in range(4)]
    expected = [function.run_single(array).tobytes() for array in arrays]
    wrong: list[int] = []

    def work(number: int) -> None:
        wrong.extend(number for _ in range(2000) if steps(arrays[number]).tobytes() != expected[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
