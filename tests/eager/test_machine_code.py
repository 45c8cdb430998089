"""Machine code for calls that are known: it gives what `apply_in_python` gives, leaves the rest to it, and keeps count of references."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit.codegen.fastcall import object_layout
from adjit.eager.apply import apply_in_python, machine_code
from adjit.eager.call import known_calls
from adjit.eager.functional import elementwise, reductions, shapes
from adjit.eager.modes import switches
from adjit.eager.node_names import raw
from adjit.eager.operation import CALLS_BEFORE_STEPS
from adjit.runtime.fastcall import eager_call

pytestmark = pytest.mark.skipif(not object_layout.known(), reason="objects have another layout")

add, exp, multiply = raw(np.add), raw(np.exp), raw(np.multiply)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The routine, in force."""
    monkeypatch.setattr(switches, "autocast", False)        # another test may have switched it on for good
    made = eager_call.known_call(is_at_once=True)
    assert made is not None
    monkeypatch.setattr(machine_code, "call", made)
    return made


def numbers(*shape: int, dtype: str = "f4") -> aj.Tensor:
    return aj.tensor((np.arange(np.prod(shape)).reshape(shape) + 1).astype(dtype))


def same(found: Any, expected: Any) -> None:
    assert type(found) is aj.Tensor
    assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride())
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert (found._view is None) == (expected._view is None)
    assert found._version == expected._version
    assert not found.requires_grad
    assert found.grad_fn is None
    assert found.is_leaf


CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "one": lambda: (exp, numbers(2, 3)),
    "two": lambda: (add, numbers(2, 3), numbers(3)),
    "float": lambda: (add, numbers(2, 3), 2.5),
    "float before": lambda: (add, 2.5, numbers(2, 3)),
    "integer as a float": lambda: (add, numbers(2, 3, dtype="f8"), 3),
    "number in the key": lambda: (elementwise.lerp, numbers(2, 3), numbers(2, 3), 0.25),
    "mask": lambda: (raw(np.where), numbers(2, 3) > 2, numbers(2, 3), numbers(3)),
    "none and bool": lambda: (elementwise.clamp, numbers(2, 3), None, 2.0),
    "list": lambda: (shapes.cat, [numbers(2, 3), numbers(1, 3)], 0),
    "array": lambda: (add, numbers(2, 3), np.ones(3, "f4")),
    "size": lambda: (shapes.reshape, numbers(2, 3), numbers(3, 2).shape),
    "dtype": lambda: (elementwise.to_dtype, numbers(2, 3), np.dtype(np.float64)),
    "view": lambda: (shapes.t, numbers(2, 3)),
    "view of integers": lambda: (shapes.transpose, numbers(2, 3), 0, 1),
    "view of a tuple": lambda: (shapes.reshape, numbers(2, 3), (3, 2)),
    "view without elements": lambda: (shapes.reshape, numbers(0, 3), (3, 0)),
    "view of a view": lambda: (shapes.reshape, numbers(2, 3)[1:], (3,)),
    "copy for want of a view": lambda: (shapes.reshape, numbers(2, 3).t(), (6,)),
    "several": lambda: (reductions.max, numbers(2, 3), 1),
    "several views": lambda: (shapes.chunk, numbers(2, 4), 2, 1),
    "list of views": lambda: (shapes.unbind, numbers(2, 4)[:, 1:]),
    "no dimensions": lambda: (exp, numbers(1)[0]),
}


def test_arguments_by_name(known: Callable[..., Any]) -> None:
    x, y = numbers(2, 3), numbers(2, 3)
    for named in ({"value": 0.5}, {"value": 2}, {"tensor2": y, "value": 0.5}):
        arguments = (x, y, y)[:3 - ("tensor2" in named)]
        assert known(elementwise.addcmul, *arguments, **named) is None
        expected = apply_in_python(elementwise.addcmul, arguments, named)
        same(known(elementwise.addcmul, *arguments, **named), expected)
        assert known(elementwise.addcmul, *arguments, **{**named, "value": 7.5}) is None


@parametrize_within("name", CALLS)
def test_results_are_those_of_python(name: str, known: Callable[..., Any]) -> None:
    function, *arguments = CALLS[name]()
    expected = apply_in_python(function, tuple(arguments))
    found = known(function, *arguments)
    if name == "copy for want of a view":       # Python finds out
        assert found is None
        found = apply_in_python(function, tuple(arguments))
    assert type(found) is type(expected)
    for each, other in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
        check_view(each, other, arguments[0])


def check_view(found: Any, expected: Any, base: Any) -> None:
    same(found, expected)
    if found._view is not None:
        view, other = found._view, expected._view
        assert found._writes is base._writes
        assert np.shares_memory(found.numpy(), base.numpy()) or not found.numel()
        assert view.parent is base
        assert (view.operation, view.index, view.at, view.history) == (other.operation, other.index, other.at, other.history)


LEFT: dict[str, Callable[[], tuple[Any, ...]]] = {
    "never run": lambda: (raw(np.arctanh), numbers(1, 7)),
    "several results are recorded": lambda: (shapes.unbind, numbers(2, 3).requires_grad_()),
    "half requires grad": lambda: (exp, numbers(2, 3, dtype="f2").requires_grad_()),
    "array in a list": lambda: (shapes.cat, [numbers(2, 3), np.ones((2, 3), "f4")], 0),
    "integer beside half": lambda: (add, numbers(2, 3, dtype="f2"), 2),
    "huge integer": lambda: (add, numbers(2, 3), 10 ** 400),
    "zero": lambda: (elementwise.lerp, numbers(2, 3), numbers(2, 3), 0.0),
    "nan": lambda: (elementwise.lerp, numbers(2, 3), numbers(2, 3), float("nan")),
    "object": lambda: (add, numbers(2, 3), object()),
    "no tensor": lambda: (add, 1.0, 2.0),
    "nothing": lambda: (add,),
    "many": lambda: (add, *[numbers(1)] * 9),
    "long list": lambda: (shapes.cat, [numbers(1)] * 17, 0),
}


@parametrize_within("name", LEFT)
def test_other_calls_are_left_to_python(name: str, known: Callable[..., Any]) -> None:
    function, *arguments = LEFT[name]()
    if name in ("several results are recorded", "half requires grad", "zero", "long list", "integer beside half"):
        apply_in_python(function, tuple(arguments))
    assert known(function, *arguments) is None


def leaf(*shape: int) -> aj.Tensor:
    return numbers(*shape).requires_grad_()


RECORDED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "one": lambda: (exp, leaf(2, 3)),
    "result of another": lambda: (exp, leaf(2, 3) * 2.0),
    "second": lambda: (multiply, numbers(2, 3), leaf(3)),
    "both": lambda: (multiply, leaf(2, 3), leaf(2, 3)),
    "float": lambda: (multiply, leaf(2, 3), 2.5),
    "second of two results": lambda: (exp, leaf(2, 3).unbind()[1]),
    "list": lambda: (shapes.cat, [numbers(2, 3), leaf(2, 3)], 0),
    "hidden results": lambda: (elementwise.sigmoid, leaf(2, 3)),
    "sum": lambda: (reductions.var, leaf(2, 3), -1),
    "view": lambda: (shapes.transpose, leaf(2, 3), 0, 1),
    "view of a view": lambda: (shapes.transpose, leaf(2, 3)[1:], 0, 1),
    "array": lambda: (multiply, leaf(2, 3), np.ones((2, 3), "f4")),
}


@parametrize_within("name", RECORDED)
def test_nodes_are_those_of_python(name: str, known: Callable[..., Any]) -> None:
    function, *arguments = RECORDED[name]()
    for _ in range(2):
        expected = apply_in_python(function, tuple(arguments))
    found = known(function, *arguments)
    assert (found.dtype, found.shape, found.stride(), found._index) == (expected.dtype, expected.shape, expected.stride(), expected._index)
    assert found.requires_grad
    node, other = found._node, expected._node
    assert (node.operation, node.edges) == (other.operation, other.edges)
    assert node.sequence == other.sequence + 1
    assert vars(node).keys() == vars(other).keys()
    assert (found._view is None) == (expected._view is None)
    assert len(node.saved) == len(other.saved)
    for mine, theirs in zip(node.saved, other.saved, strict=True):
        assert type(mine) is type(theirs)
        np.testing.assert_array_equal(mine.array, theirs.array)
        assert (mine.counter is None, mine.version) == (theirs.counter is None, theirs.version)
        assert mine.array is theirs.array or mine.counter in (None, found._writes)
    with aj.no_grad():
        assert known(function, *arguments) is None or not known(function, *arguments).requires_grad
    with aj.autograd.detect_anomaly():
        assert known(function, *arguments) is None


def test_references_of_nodes_are_counted(known: Callable[..., Any]) -> None:
    cases = [tuple(make()) for make in RECORDED.values()]
    for function, *arguments in (1 + CALLS_BEFORE_STEPS) * cases:
        apply_in_python(function, tuple(arguments))
        known(function, *arguments)
    objects = [item for case in cases for argument in case for item in (argument, getattr(argument, "array", argument))]
    objects += [*known_calls.values(), *[call.operation for call in known_calls.values()], aj.Tensor, None, 0, 1, True, tuple, list]
    objects += [case[1]._node for case in cases if isinstance(case[1], aj.Tensor)]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(item) for item in objects]

    before = counts()
    for function, *arguments in 50 * cases:
        known(function, *arguments)
    changes = [after - count for after, count in zip(counts(), before, strict=True)]
    assert max(map(abs, changes)) < 25, changes      # each case runs 50 times


def test_references_are_counted(known: Callable[..., Any]) -> None:
    cases = [tuple(make()) for make in (*CALLS.values(), *LEFT.values())]
    for function, *arguments in cases[:len(CALLS)]:
        apply_in_python(function, tuple(arguments))
    objects = [item for case in cases for argument in case for item in (argument, getattr(argument, "array", argument))]
    objects += [*known_calls.values(), *[call.run for call in known_calls.values() if call.is_plain]]
    objects += [np.dtype("f4"), np.ndarray, aj.Tensor, float, tuple, list, (), None, 0]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(item) for item in objects]

    for function, *arguments in CALLS_BEFORE_STEPS * cases:
        known(function, *arguments)
    before = counts()
    for _ in range(50):
        for function, *arguments in cases:
            known(function, *arguments)
    changes = [after - count for after, count in zip(counts(), before, strict=True)]
    assert max(map(abs, changes)) < 25, changes      # each case runs 50 times


def test_errors_are_those_of_python(known: Callable[..., Any]) -> None:
    x, index = numbers(4), aj.tensor([1, 2])
    assert x[index].tolist() == [2.0, 3.0]
    for _ in range(2):
        with pytest.raises(aj.errors.IndexingError, match=r"test_machine_code\.py"):
            x[aj.tensor([1, 9])]
    assert x[index].tolist() == [2.0, 3.0]


def test_a_view_whose_base_got_a_graph_is_recorded() -> None:
    base = numbers(2, 3)
    row = base[1]
    part = row[1:]
    assert (part.exp().requires_grad, part.exp().requires_grad) == (False, False)
    base.mul_(aj.tensor(3.0, requires_grad=True))
    assert part.exp().requires_grad
    assert part[0].requires_grad


def test_modes_traces_and_threads_are_seen(known: Callable[..., Any]) -> None:
    x = numbers(2, 3)
    expected = [x.exp(), x.exp()][0]

    @aj.compile
    def compiled(x: Any) -> Any:
        assert known(exp, x) is None
        return x.exp()

    assert compiled(x).shape == (2, 3)
    with aj.no_grad():
        weight = numbers(2, 3).requires_grad_()
        assert not weight.exp().requires_grad
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend([x.exp(), x.exp()]))
    thread.start()
    thread.join()
    for each in found:
        same(each, expected)
    with aj.autocast("cpu", dtype="bfloat16"):
        assert known(exp, x) is None


def test_python_calls_of_an_operation_that_is_known() -> None:
    """A small operation takes as long as its calls in Python: each is some 50 ns beside NumPy's 300 to 1000."""
    x, y, mask = aj.ones(3, 4), aj.ones(3, 4), aj.ones(3, 4) > 0
    most = {lambda: x + y: 1, lambda: x.exp(): 1, lambda: x.sum(0): 2, lambda: x.sigmoid(): 2, lambda: x.lerp(y, 0.5): 2,
            lambda: aj.where(mask, x, y): 4, lambda: aj.nn.functional.softmax(x, -1): 4, lambda: aj.cat([x, y]): 4,
            lambda: x.t(): 1, lambda: x[0]: 1, lambda: x[:, 1:]: 2, lambda: x.reshape(-1): 2, lambda: x.transpose(0, 1): 2}
    entered: list[str] = []
    for function, count in most.items():
        for _ in range(1 + CALLS_BEFORE_STEPS):
            function()
        entered.clear()
        sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_qualname) if event == "call" else None)
        try:
            function()
        finally:
            sys.setprofile(None)
        assert len(entered) <= 1 + count, entered


def test_subclasses_and_attributes(known: Callable[..., Any]) -> None:
    parameter = aj.nn.Parameter(numbers(2, 3), requires_grad=False)
    parameter.name = "weight"
    assert type(parameter.exp()) is type(parameter.exp()) is aj.Tensor
    made = numbers(2, 3).exp()
    made.note = 1
    assert (vars(made)["note"], made.note) == (1, 1)
    made.requires_grad_()
    made.sum().backward()
    assert made.grad is not None
    assert made.grad.tolist() == [[1.0] * 3] * 2


def test_a_program_that_runs_many_operations_gets_it() -> None:
    """Few operations load neither LLVM nor the routine; code that is on disk is loaded without LLVM, and without the passes."""
    program = """
import sys, time
import adjit as aj
from adjit.eager.apply import CALLS_BEFORE_CODE, machine_code
x = aj.ones(2)
for _ in range(CALLS_BEFORE_CODE // 2):
    x.exp()
assert "llvmlite" not in sys.modules and machine_code.call is None
x.erf()
for _ in range(500):
    for _ in range(CALLS_BEFORE_CODE):
        x.exp()
    if machine_code.call is not None:
        break
    time.sleep(0.01)
calls = machine_code.calls
x.exp()
assert machine_code.calls == calls
assert not {"llvmlite.binding", "adjit.passes.pipeline"} & sys.modules.keys()
"""
    if subprocess.run([sys.executable, "-c", program], timeout=60).returncode:
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)      # all is on disk now
