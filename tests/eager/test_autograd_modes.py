"""Gradients on and off, and what is not computed because nobody asked: pruning."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.eager.operation import Operation


def parameter(*numbers: float) -> Any:
    return aj.tensor(list(numbers), requires_grad=True)


def test_no_grad_as_block_and_decorator() -> None:
    x = parameter(1.0)
    with aj.no_grad():
        y = x * 2
        assert not aj.is_grad_enabled()
    assert aj.is_grad_enabled()
    assert not y.requires_grad
    assert y.is_leaf

    @aj.no_grad()
    def double(x: Any) -> Any:
        """Twice."""
        return x * 2

    @aj.no_grad
    def triple(x: Any) -> Any:
        return x * 3

    assert not double(x).requires_grad
    assert not triple(x).requires_grad
    assert double.__doc__ == "Twice."
    assert (x * 2).requires_grad


def test_nested_modes() -> None:
    seen = []
    with aj.no_grad():
        with aj.enable_grad():
            seen.append(aj.is_grad_enabled())
            with aj.set_grad_enabled(False):
                seen.append(aj.is_grad_enabled())
            seen.append(aj.is_grad_enabled())
        seen.append(aj.is_grad_enabled())
    assert seen == [True, False, True, False]
    assert aj.is_grad_enabled()


def test_the_same_object_twice() -> None:
    off = aj.no_grad()
    with off:
        with off:
            pass
        assert not aj.is_grad_enabled()
    assert aj.is_grad_enabled()


def test_an_exception_ends_a_mode() -> None:
    with pytest.raises(KeyError), aj.no_grad():
        raise KeyError
    assert aj.is_grad_enabled()


def test_set_grad_enabled_is_a_function_too() -> None:
    aj.set_grad_enabled(False)
    try:
        assert not aj.is_grad_enabled()
    finally:
        aj.set_grad_enabled(True)
    assert aj.is_grad_enabled()

    @aj.set_grad_enabled(False)
    def mode() -> bool:
        return aj.is_grad_enabled()

    assert aj.is_grad_enabled()
    assert not mode()
    assert aj.is_grad_enabled()


def test_generators_run_within_the_mode_and_their_callers_do_not() -> None:
    seen: list[Any] = []

    @aj.no_grad()
    def produce() -> Iterator[int]:
        try:
            seen.append(aj.is_grad_enabled())
            received = yield 1
            seen.append((received, aj.is_grad_enabled()))
            try:
                yield 2
            except KeyError:
                seen.append(("caught", aj.is_grad_enabled()))
            yield 3
        finally:
            seen.append(("closed", aj.is_grad_enabled()))

    generator: Any = produce()
    assert next(generator) == 1
    assert aj.is_grad_enabled()
    assert generator.send("hello") == 2
    assert generator.throw(KeyError()) == 3
    assert aj.is_grad_enabled()
    generator.close()
    assert seen == [False, ("hello", False), ("caught", False), ("closed", False)]

    @aj.no_grad()
    def with_result() -> Any:
        yield 1
        return "end"

    def delegate() -> Any:
        return (yield from with_result())

    found = delegate()
    assert next(found) == 1
    with pytest.raises(StopIteration) as stop:
        next(found)
    assert stop.value.value == "end"
    assert aj.is_grad_enabled()


def test_modes_hold_for_one_thread() -> None:
    seen = []
    with aj.no_grad():
        thread = threading.Thread(target=lambda: seen.append(aj.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not aj.is_grad_enabled()
    assert seen == [True]


def test_results_of_no_grad_can_be_made_leaves() -> None:
    x = parameter(1.0, 2.0)
    with aj.no_grad():
        y = x * 2
    y.requires_grad_()
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3, 3]
    assert x.grad is None


def test_detach_cuts() -> None:
    x = parameter(2.0)
    (x * x.detach()).backward()
    assert x.grad.tolist() == [2]


def test_gradient_of_a_leaf_that_no_longer_wants_one() -> None:
    x = parameter(1.0)
    y = x * 2
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


# -- pruning


def test_constants_are_not_in_the_graph() -> None:
    x, constant = parameter(1.0, 2.0), aj.tensor([3.0, 4.0])
    y = constant * 2 + 1
    assert y.grad_fn is None
    node = (x * y).grad_fn
    assert [below is None for below, _ in node.next_functions] == [False, True]
    assert (y * y).grad_fn is None


@pytest.mark.parametrize(("which", "saved"), [((True, True), 2), ((True, False), 1), ((False, True), 1)])
def test_only_what_is_needed_is_saved(which: tuple[bool, bool], saved: int) -> None:
    a, b = (aj.tensor([1.0, 2.0], requires_grad=requires_grad) for requires_grad in which)
    node = (a * b).grad_fn
    assert len(node.saved_tensors) == saved
    if saved == 1:
        assert node.saved_tensors[0].array is (b if which[0] else a).array


def test_linear_with_plain_input_saves_the_input_only() -> None:
    x, w = aj.tensor(np.ones((1, 5))), aj.tensor(np.ones((8, 5)), requires_grad=True)
    node = aj.nn.functional.linear(x, w).grad_fn
    (saved,) = node.saved_tensors
    assert saved.shape == (1, 5)


def test_no_work_for_what_requires_no_grad() -> None:
    """The backward half of a product by a constant matrix computes one product of matrices, not two."""
    a, b = aj.tensor(np.ones((3, 4)), requires_grad=True), aj.tensor(np.ones((4, 5)))

    def products(node: Any) -> int:
        operation: Operation = node.operation
        return sum(op.name == "matmul" for op in operation.backward((True,)).graph.ops)

    assert products((a @ b).grad_fn) == 1
    assert products((a @ b.requires_grad_()).grad_fn) == 2


def test_nothing_is_recorded_nor_derived_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[str] = []
    original = Operation._derive

    def derive(self: Operation, *args: Any) -> None:
        derived.append(self.name)
        original(self, *args)

    monkeypatch.setattr(Operation, "_derive", derive)
    x = aj.tensor(np.ones((7, 11, 13)))         # a shape that no other test has
    _ = (x * 2).exp().sum()
    with aj.no_grad():
        _ = (x.requires_grad_() * 2).exp().sum()
    assert derived == []
    _ = (x * 2).exp()
    assert derived == ["MulBackward0", "ExpBackward0"]


def test_backward_visits_only_what_leads_to_the_inputs() -> None:
    x, w = parameter(1.0, 2.0), parameter(3.0, 4.0)
    left, right = x.exp(), w.exp()
    visited = []
    for node in (left.grad_fn, right.grad_fn):
        node.register_hook(lambda pulled, given, node=node: visited.append(node.name()))
    (left * right).sum().backward(inputs=[x])
    assert visited == ["ExpBackward0"]
    assert w.grad is None
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.detach().numpy()) * np.exp(w.detach().numpy()), rtol=1e-6)


def test_integers_and_bools_carry_no_gradient() -> None:
    x = parameter(1.0, -2.0)
    assert not (x > 0).requires_grad
    assert not x.long().requires_grad
    assert not x.argmax().requires_grad
    assert not x.isnan().requires_grad
    values, indices = x.max(0)
    assert values.requires_grad
    assert not indices.requires_grad


@pytest.mark.parametrize("function", ["floor", "sign", "round", "ceil", "trunc"])
def test_steps_have_a_gradient_of_zero(function: str) -> None:
    x = parameter(0.3, 1.7)
    y = getattr(x, function)()
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]


# -- threads


def test_threads_share_operations_and_nothing_else() -> None:
    results: dict[int, float] = {}
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            x = aj.tensor(np.full(3, 0.1 * number), requires_grad=True)
            for turn in range(60):
                size = 3 + turn % 5
                y = (x.sum() * np.arange(1.0, size)).exp().sum()
                x.grad = None
                y.backward()
                if number % 2:
                    with aj.no_grad():
                        assert not (x * 2).requires_grad
            results[number] = float(x.grad[0].item())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    last = np.arange(1.0, 3 + 59 % 5)
    for number, found in results.items():
        assert found == pytest.approx(float((last * np.exp(0.3 * number * last)).sum()))


def test_backward_from_several_threads_into_one_leaf() -> None:
    x = parameter(1.0)
    roots = [(x * number).sum() for number in range(1, 9)]
    threads = [threading.Thread(target=root.backward) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [36]
