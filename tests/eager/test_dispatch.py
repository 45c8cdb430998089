"""Calls of eager operations: what is found again without a trace, and NumPy's handling of errors around them."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import adjit as aj
from adjit.eager import call
from adjit.eager.call import known_calls
from adjit.ir.thread_context import thread


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operations that are traced."""
    names: list[str] = []
    trace = call._trace

    def counting(name, *args):      # type: ignore[no-untyped-def]
        names.append(name)
        return trace(name, *args)
    monkeypatch.setattr(call, "_trace", counting)
    known_calls.clear()
    return names


def test_equal_calls_are_traced_once(traced: list[str]) -> None:
    x, y = aj.ones(3, 2), aj.ones(3, 2)
    for number in (1, 2.0, 3):
        for _ in range(3):
            assert ((x + y) * number).exp().sum(0).shape == (2,)
    assert traced == ["AddBackward0", "MulBackward0", "ExpBackward0", "SumBackward1"]


def test_calls_that_differ_in_an_argument_are_different(traced: list[str]) -> None:
    x = aj.tensor([[1.0, -2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(x.sum(0).numpy(), [4.0, 2.0])
    np.testing.assert_array_equal(x.sum(1).numpy(), [-1.0, 7.0])
    np.testing.assert_array_equal(x.sum(0, True).numpy(), [[4.0, 2.0]])
    np.testing.assert_array_equal(x.sum((0, 1)).numpy(), 6.0)
    for number in (0.0, -0.0):
        assert np.signbit(x.copysign(number).numpy()).all() == np.signbit(number)
    assert x.pow(2).numpy().tolist() == x.pow(2.0).numpy().tolist()
    assert (x.double() + x.double()).dtype == np.float64


def test_an_operation_within_a_try_block_is_traced_once(traced: list[str]) -> None:
    """An index out of range raises at its values: there is nothing to decide when the operation is traced."""
    x, index = aj.arange(4.0), aj.tensor([1, 9])
    for _ in range(3):
        try:
            x[index[:1]]
            x[index]
        except IndexError as error:
            message = str(error)
        else:
            pytest.fail("no error")
        assert "9" in message
    assert traced.count("IndexBackward0") == 2


def test_warnings_are_silent_and_numpys_state_stays() -> None:
    x = aj.tensor([1.0, -1.0])
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        for _ in range(3):
            (x / 0.0, x.sqrt(), (x * 1e38 * 1e38).exp(), x.log().sum())
            assert np.geterr()["divide"] == "warn"
    found = []

    def run() -> None:
        with np.errstate(all="raise"):
            found.append((x / 0.0).numpy())
    for thread_ in [threading.Thread(target=run) for _ in range(3)]:
        thread_.start()
        thread_.join()
    np.testing.assert_array_equal(found, [[np.inf, -np.inf]] * 3)


def test_operations_within_the_call_of_an_operation() -> None:
    """As a finalizer may run some when NumPy makes an array."""
    x = aj.tensor([1.0, 2.0])
    x + x, x.exp()
    silently = thread.context.silently
    assert silently is not None
    with np.errstate(all="raise"):
        inner = silently(lambda: ((x + x).numpy(), (x / 0.0).numpy(), x.exp().numpy(), x[aj.tensor([0])].numpy()))
    np.testing.assert_array_equal(inner[0], [2.0, 4.0])
    np.testing.assert_array_equal(inner[1], [np.inf, np.inf])
    np.testing.assert_array_equal(inner[3], [1.0])


def test_modes_hold_for_calls_that_are_known() -> None:
    w = aj.ones(2, 2, requires_grad=True)
    x = aj.ones(2, 2)
    for _ in range(2):
        assert not (x @ x).requires_grad
        assert all(made.requires_grad for made in (x @ w, w + x, w.exp()))
        with aj.no_grad():
            assert not any(made.requires_grad for made in (x @ w, w + x, w.exp()))
        with aj.autocast("cpu"):
            assert (x @ x).dtype == aj.bfloat16
        assert (x @ x).dtype == np.float32
    view = x[0]
    view.add_(w[0])
    assert all(made.requires_grad for made in (x, x + x, view * view, view.exp()))


def test_views_are_found_again_and_follow_their_base(traced: list[str]) -> None:
    x = aj.tensor(np.arange(24.0).reshape(2, 3, 4))
    for _ in range(3):
        views = x[1], x[:, 1:], x[..., None], x[-1, :, ::2], x.reshape(-1), x.view(6, 4), x.transpose(0, 2), x.unsqueeze(1), x[0, 0, 0]
        copied = x.transpose(0, 2).reshape(-1)
    assert len(traced) == len(views) + 1
    x.zero_()
    assert all(not view.numpy().any() for view in views)
    assert copied.numpy().any()
    w = aj.ones(2, requires_grad=True)
    x.view(-1)[:2] = w
    assert all(view.requires_grad for view in views)
    (views[6].sum() + views[8] * 2.0).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [3.0, 1.0])
    with pytest.raises(IndexError):
        x[5]
    assert tuple(x[np.int64(1)].shape) == (3, 4)


def test_tensors_of_zeros_and_ones(traced: list[str]) -> None:
    for value, dtype in ((1, aj.int8), (0.5, aj.float32), (True, aj.bool), (0, None)):
        assert aj.full((2,), value, dtype=dtype).numpy().tolist() == [value, value]
    assert aj.full((2,), True).dtype == np.bool_
    assert aj.full((2,), 1).dtype == np.int64
    assert aj.full((), 1.0).shape == ()
    assert not traced
    with pytest.raises(aj.errors.AdjitError):
        aj.zeros(-1)
    assert aj.ones(2, dtype=aj.bfloat16).dtype == aj.bfloat16


def test_keys_of_a_generator_are_those_of_a_compiled_step() -> None:
    eager, compiled = (aj.Generator().manual_seed(7) for _ in range(2))
    draw = aj.compile(lambda: aj.rand(3, generator=compiled))
    for _ in range(4):
        np.testing.assert_array_equal(aj.rand(3, generator=eager).numpy(), draw().numpy())
    assert int(eager.get_state()[1]) == 4


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("size", [5, 300])
def test_indices_count_from_the_end_and_are_checked(dtype: type, size: int) -> None:
    """By NumPy itself for few, before a flat read for many."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, size))
    index = rng.integers(0 if dtype is np.uint8 else -min(size, 100), min(size, 100), (40, 300)).astype(dtype)
    leaf = aj.tensor(x, requires_grad=True)
    taken = aj.take_along_dim(leaf, aj.tensor(index), 1)
    np.testing.assert_array_equal(taken.detach().numpy(), np.take_along_axis(x, index, 1))
    taken.sum().backward()
    counts = np.zeros(x.shape)
    np.add.at(counts, (np.arange(40)[:, None], index), 1.0)
    np.testing.assert_array_equal(leaf.grad.numpy(), counts)
    rows = index[0, :7].astype(np.int64).clip(-40, 39)
    np.testing.assert_array_equal(leaf[aj.tensor(rows)].detach().numpy(), x[rows])
    np.testing.assert_array_equal(leaf[:, aj.tensor(rows.clip(-size, size - 1))].detach().numpy(), x[:, rows.clip(-size, size - 1)])
    for wrong in (size, -size - 1):
        if np.iinfo(dtype).min <= wrong <= np.iinfo(dtype).max:
            index[3, 3] = wrong
            with pytest.raises(IndexError, match=f"index {index[3, 3]} is out of bounds for axis 1 with size {size}"):
                aj.take_along_dim(leaf, aj.tensor(index), 1)
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 1 with size {size}"):
                leaf[:, aj.tensor([wrong])]


def test_copies_and_conversions_are_found_again(traced: list[str]) -> None:
    x = aj.tensor([1.5, -2.5])
    for _ in range(3):
        copies = x.clone(), x.double(), x.int(), x.to(aj.float64), x.contiguous()
        assert [copy.dtype for copy in copies] == [np.float32, np.float64, np.int32, np.float64, np.float32]
        copies[0].zero_()
        assert x.numpy().tolist() == [1.5, -2.5]
    assert traced.count("CloneBackward0") == 1
    assert traced.count("ToCopyBackward0") == 2


def test_views_of_views_follow_their_base() -> None:
    base = aj.ones(2, 3)
    row = base[1]
    part = row[1:]
    assert (part * 2.0).tolist() == [2.0, 2.0]
    base.mul_(aj.tensor(3.0, requires_grad=True))       # the graph of the base changes, and so do those of its views
    assert (part * 2.0).requires_grad
    (part * 2.0).sum().backward()
    assert base[1, 0].requires_grad
    assert row[0].item() == 3.0


def test_a_call_is_known_to_record_or_not_to() -> None:
    """Another thread may meet a call while its first run is noted: what is true of it by then must be enough."""
    known_calls.clear()
    aj.ones(2).exp()
    (call,) = known_calls.values()
    assert (call.is_plain, call.is_single) == (True, False)
    known_calls.clear()
    aj.ones(2).requires_grad_().exp()
    assert [(call.is_plain, call.is_single) for call in known_calls.values() if call.operation.wanted] == [(False, True)]
