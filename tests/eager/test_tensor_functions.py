"""The functions of tensors at the top of the package: their values by formulas, dtypes, gradients, and PyTorch's where it is installed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import AdjitError, UnsupportedError
from adjit.tensor_functions import FUNCTIONS, METHODS


@pytest.mark.parametrize(("made", "expected", "dtype"), [
    (lambda: aj.zeros(2, 3), np.zeros((2, 3)), np.float32),
    (lambda: aj.zeros((2, 3), dtype=np.int32), np.zeros((2, 3)), np.int32),
    (lambda: aj.ones([2]), np.ones(2), np.float32),
    (lambda: aj.ones(()), np.ones(()), np.float32),
    (lambda: aj.full((2, 1), 2.5), np.full((2, 1), 2.5), np.float32),
    (lambda: aj.full((2,), 7), np.full(2, 7), np.int64),
    (lambda: aj.full((2,), True), np.full(2, True), np.bool_),
    (lambda: aj.zeros_like(aj.tensor([[1, 2]])), np.zeros((1, 2)), np.int64),
    (lambda: aj.ones_like(aj.tensor([1, 2]), dtype="float64"), np.ones(2), np.float64),
    (lambda: aj.full_like(aj.tensor([1.0, 2.0]), 3), np.full(2, 3), np.float32),
    (lambda: aj.arange(4), np.arange(4), np.int64),
    (lambda: aj.arange(1, 7, 2), np.array([1, 3, 5]), np.int64),
    (lambda: aj.arange(0.0, 1.0, 0.25), np.array([0.0, 0.25, 0.5, 0.75]), np.float32),
    (lambda: aj.arange(3, dtype=np.float64), np.arange(3.0), np.float64),
    (lambda: aj.linspace(-1, 1, 5), np.array([-1, -0.5, 0, 0.5, 1]), np.float32),
    (lambda: aj.eye(2, 3), np.eye(2, 3), np.float32),
    (lambda: aj.cat([aj.zeros(1, 2), aj.ones(2, 2)]), np.array([[0, 0], [1, 1], [1, 1]]), np.float32),
    (lambda: aj.cat([aj.zeros(1, 2), aj.ones(1, 1)], dim=1), np.array([[0, 0, 1]]), np.float32),
    (lambda: aj.stack([aj.zeros(2), aj.ones(2)], dim=1), np.array([[0, 1], [0, 1]]), np.float32),
    (lambda: aj.where(aj.tensor([True, False]), aj.tensor([1.0, 2.0]), 5.0), np.array([1.0, 5.0]), np.float32),
    (lambda: aj.where(aj.tensor([[0, 3], [4, 0]]))[1], np.array([1, 0]), np.int64),
    (lambda: aj.einsum("ij,j->i", aj.tensor([[1.0, 2.0]]), aj.tensor([3.0, 4.0])), np.array([11.0]), np.float32),
    (lambda: aj.exp(input=aj.tensor([0.0])), np.array([1.0]), np.float32),
    (lambda: aj.sum(aj.tensor([[1.0, 2.0]]), dim=1), np.array([3.0]), np.float32),
    (lambda: aj.max(aj.tensor([[1.0, 2.0]]), dim=1).indices, np.array([1]), np.int64),
    (lambda: aj.maximum(aj.tensor([1.0, 5.0]), aj.tensor([2.0, 3.0])), np.array([2.0, 5.0]), np.float32),
    (lambda: aj.matmul(aj.eye(2), aj.tensor([1.0, 2.0])), np.array([1.0, 2.0]), np.float32),
])
def test_values_and_dtypes(made: Any, expected: np.ndarray, dtype: Any) -> None:
    result = made()
    assert isinstance(result, aj.Tensor)
    assert result.dtype == dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result.numpy(), expected)


def test_tensors_like_others_are_laid_out_as_they_are() -> None:
    x = aj.ones(3, 4).t()
    assert aj.ones_like(x).stride() == aj.zeros_like(x, memory_format=aj.preserve_format).stride() == (1, 4)
    assert aj.empty_like(aj.ones(2, 3, 4).permute(2, 0, 1)).stride() == (1, 12, 4)
    assert aj.ones_like(x, memory_format=aj.contiguous_format).stride() == (3, 1)
    assert aj.ones_like(aj.ones(3).expand(2, 3)).stride() == (3, 1)


def test_gradients_flow() -> None:
    x = aj.tensor([1.0, -2.0], requires_grad=True)
    (aj.cat([x, 3 * x]).sum() + aj.stack([x, x]).sum() + aj.where(x > 0, x, 10 * x).sum() + aj.exp(aj.zeros(2) * x).sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [7.0, 16.0])
    leaf = aj.ones(2, requires_grad=True)
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert not aj.zeros_like(leaf).requires_grad


def test_random_ones_draw_from_the_default_generator() -> None:
    def draws() -> list[aj.Tensor]:
        return [aj.rand(1000), aj.randn(1000), aj.randint(10, (1000,)), aj.randint(-3, 4, (50, 20)), aj.randperm(9),
                aj.rand_like(aj.zeros(2)), aj.randn_like(aj.zeros(2, dtype=np.float64))]

    aj.manual_seed(3)
    first = draws()
    second = draws()
    aj.manual_seed(3)
    for one, other, again in zip(first, second, draws(), strict=True):
        np.testing.assert_array_equal(one.numpy(), again.numpy())
        assert not np.array_equal(one.numpy(), other.numpy())
    uniform, normal, below_ten, around_zero, order = (tensor.numpy() for tensor in first[:5])
    assert uniform.dtype == normal.dtype == np.float32
    assert uniform.min() >= 0.0
    assert uniform.max() < 1.0
    assert abs(uniform.mean() - 0.5) < 0.05
    assert abs(normal.mean()) < 0.15
    assert abs(normal.std() - 1.0) < 0.1
    assert set(below_ten) == set(range(10))
    assert set(around_zero.ravel()) == set(range(-3, 4))
    assert around_zero.shape == (50, 20)
    assert sorted(order) == list(range(9))


def test_in_a_capture_random_numbers_are_new_at_every_call() -> None:
    @aj.compile
    def noisy(x: aj.Tensor) -> Any:
        return aj.cat([x + aj.rand(2), aj.zeros(1)]) * aj.ones(3)

    x = aj.tensor([1.0, 2.0])
    first, second = noisy(x).numpy(), noisy(x).numpy()
    assert not np.array_equal(first, second)
    assert first[2] == second[2] == 0.0
    assert noisy.cache_info().traces == 1


def test_memory() -> None:
    array = np.zeros(2)
    shared = aj.from_numpy(array)
    shared += 1
    np.testing.assert_array_equal(array, [1.0, 1.0])
    assert aj.is_tensor(shared)
    assert not aj.is_tensor(array)
    with pytest.raises(TypeError, match=r"from_numpy takes an ndarray, got a list: adjit\.tensor"):
        aj.from_numpy([1.0])
    made = aj.zeros(2)
    made += 1
    np.testing.assert_array_equal(aj.zeros(2).numpy(), [0.0, 0.0])


@pytest.mark.parametrize("make", [
    lambda device: aj.tensor([1.0], device=device), lambda device: aj.as_tensor([1.0], device=device),
    lambda device: aj.zeros(2, device=device), lambda device: aj.randn(2, device=device), lambda device: aj.arange(2, device=device),
    lambda device: aj.zeros(2).to(device), lambda device: nn.Linear(2, 2).to(device),
    lambda device: nn.Linear(2, 2).to(device=device)])
def test_devices_that_there_are_not(make: Any) -> None:
    make("cpu")
    with pytest.raises(UnsupportedError, match=r"the device cuda:1: there are 0 cards here"):
        make("cuda:1")


def test_names() -> None:
    for name in FUNCTIONS:
        assert getattr(aj, name) is FUNCTIONS[name]
        assert FUNCTIONS[name].__doc__
    for name in METHODS:
        assert callable(getattr(aj.Tensor, name))
    assert {"zeros", "exp", "compile", "nn"} <= set(dir(aj))
    assert not set(FUNCTIONS) & set(aj.__all__)
    with pytest.raises(AttributeError, match="no attribute 'zeroes'"):
        aj.zeroes       # noqa: B018
    with pytest.raises(AdjitError):
        aj.cat([aj.zeros(2), aj.zeros(2, 2)])


def test_they_are_imported_on_demand() -> None:
    program = ("import sys, adjit\nassert 'adjit.tensor_functions' not in sys.modules\nadjit.zeros(1)\n"
               "assert 'adjit.tensor_functions' in sys.modules")
    subprocess.run([sys.executable, "-c", program], check=True)


def test_as_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in FUNCTIONS:
        assert hasattr(torch, name) or name in ("mT",), name
    for call in (lambda lib: lib.arange(0, 1, 0.1), lambda lib: lib.linspace(0, 1, 7), lambda lib: lib.full((2,), 3),
                 lambda lib: lib.eye(3), lambda lib: lib.arange(5, 1, -2), lambda lib: lib.zeros(3, 0),
                 lambda lib: lib.sum(input=lib.ones(2, 3), dim=1, keepdim=True), lambda lib: lib.var(lib.arange(5.0)),
                 lambda lib: lib.clamp(lib.arange(5.0), 1, 3), lambda lib: lib.topk(lib.arange(5.0), 2).indices,
                 lambda lib: lib.transpose(lib.arange(6).reshape(2, 3), 0, 1), lambda lib: lib.softmax(lib.arange(3.0), dim=0)):
        ours, theirs = call(aj), call(torch)
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
