"""Tensors as other dtypes, Python numbers, NumPy arrays, and copies of themselves."""

from __future__ import annotations

import copy
import operator
import pickle
from collections import deque
from pathlib import Path

import numpy as np
import pytest

import adjit as aj
from adjit.eager.call import known_calls
from adjit.eager.conversions import from_dlpack
from adjit.eager.tensor import Tensor, tensor
from adjit.errors import DTypeError, NonDifferentiableError, ShapeError, UnsupportedError


def test_dtypes():
    x = tensor([1.5, 2.5])
    assert x.dtype == np.float32
    assert x.float() is x
    assert x.to(np.float32) is x
    assert x.to("cpu") is x
    assert x.cpu() is x
    for name, dtype in {"double": np.float64, "int": np.int32, "long": np.int64, "short": np.int16, "bool": np.bool_}.items():
        assert getattr(x, name)().dtype == dtype
        assert x.to(dtype).dtype == dtype
        assert x.astype(dtype).dtype == dtype
    assert x.to(tensor([1])).dtype == np.int64
    assert x.to("cpu", np.float64).dtype == np.float64
    assert x.to(dtype="float64").dtype == np.float64
    assert x.to(np.float32, copy=True) is not x
    assert x.int().tolist() == [1, 2]
    assert x.is_floating_point()
    assert not x.int().is_floating_point()
    with pytest.raises(UnsupportedError, match="cuda"):
        x.to("cuda:0")
    with pytest.raises(DTypeError):
        x.to(np.longdouble)


def test_promotion_of_floats():
    assert (tensor([1.0]) * 2.5).dtype == np.float32
    assert tensor(deque([np.float64(1), 2.0])).dtype == np.float64
    assert (tensor([1.0]) + np.float64(1)).dtype == np.float32       # NumPy's numbers count as Python's
    assert (np.ones(1) + tensor([1.0])).dtype == np.float64
    assert isinstance(np.ones(1) + tensor([1.0]), Tensor)


def test_python_numbers_and_lists():
    assert tensor(2.5).item() == 2.5
    assert type(tensor([[3]]).item()) is int
    assert float(tensor([2.0])) == 2.0
    assert int(tensor(3.9)) == 3
    assert [10, 20, 30][tensor(1)] == 20
    assert tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert bool(tensor(1.0))
    assert not tensor([False])
    assert f"{tensor(3.14159):.2f}" == "3.14"
    assert f"{tensor(2.0)}" == "2.0"
    assert f"{tensor([2.0])}" == "tensor([2.])"
    with pytest.raises(ShapeError, match="only one element"):
        tensor([1.0, 2.0]).item()
    with pytest.raises(ShapeError, match="ambiguous"):
        bool(tensor([1.0, 2.0]))
    with pytest.raises(DTypeError, match="only integer tensors"):
        operator.index(tensor(1.0))


def test_iteration_length_and_membership():
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    first, second = x
    (first * second).sum().backward()
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert 3.0 in x
    assert 5.0 not in x
    for fails in (len, iter):
        with pytest.raises(TypeError, match="0-d tensor"):
            fails(tensor(1.0))


def test_sizes():
    x = tensor(np.zeros((2, 3), np.float32))
    assert x.size() == (2, 3)
    assert x.size(-1) == 3
    assert x.dim() == x.ndim == 2
    assert x.numel() == x.nelement() == 6
    assert x.element_size() == x.itemsize == 4
    assert x.nbytes == 24
    assert x.T.shape == (3, 2)
    assert x.H.shape == (3, 2)
    assert not x.T.is_contiguous()
    assert x.T.contiguous().is_contiguous()
    assert x.contiguous() is x
    with pytest.raises(ShapeError):
        _ = tensor([1.0]).mT


def test_arrays_share_memory_unless_grad_is_required():
    x = tensor([1.0, 2.0])
    x.numpy()[0] = 5.0
    np.asarray(x)[1] = 6.0
    assert x.tolist() == [5.0, 6.0]
    assert np.array(x).base is None
    assert np.from_dlpack(x).tolist() == [5.0, 6.0]
    assert np.asarray(x, np.float64).dtype == np.float64
    y = tensor([1.0], requires_grad=True)
    for convert in (lambda: y.numpy(), lambda: np.asarray(y), lambda: np.from_dlpack(y)):
        with pytest.raises(NonDifferentiableError, match="would lose the gradient"):
            convert()
    assert y.detach().numpy().tolist() == [1.0]
    assert y.numpy(force=True).tolist() == [1.0]


def test_dlpack_both_ways_without_a_copy():
    array = np.zeros(3)
    x = from_dlpack(array)
    x.add_(1.0)
    assert array.tolist() == [1.0, 1.0, 1.0]
    shared = np.from_dlpack(x)
    x.zero_()
    assert shared.tolist() == array.tolist() == [0.0, 0.0, 0.0]
    assert from_dlpack(np.zeros(2, np.float16)).dtype == np.float16


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    x = tensor([1.0, 2.0])
    theirs = torch.from_dlpack(x)
    theirs.add_(1.0)
    assert x.tolist() == [2.0, 3.0]
    ours = from_dlpack(theirs)
    theirs.mul_(2.0)
    assert ours.tolist() == [4.0, 6.0]


def test_new_tensors_of_the_same_dtype():
    x = tensor(np.ones(2))
    assert x.new_zeros(2, 3).tolist() == [[0.0] * 3] * 2
    assert x.new_ones((2,)).dtype == np.float64
    assert x.new_ones(2, dtype=np.int64).tolist() == [1, 1]
    assert x.new_full((2,), 7.0).tolist() == [7.0, 7.0]
    assert x.new_tensor([1, 2]).dtype == np.float64
    assert x.new_zeros(1, requires_grad=True).requires_grad
    first, second = x.new_zeros(2), x.new_zeros(2)
    first.add_(1.0)
    assert second.tolist() == [0.0, 0.0]


def test_numpy_functions_take_tensors():
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert np.sin(x).grad_fn.name() == "SinBackward0"
    assert np.sum(x, axis=0).grad_fn.name() == "SumBackward1"
    assert np.add(np.ones((2, 2), np.float32), x).grad_fn.name() == "AddBackward0"
    assert np.concatenate([x, x]).grad_fn.name() == "CatBackward0"
    assert np.stack([x, x]).grad_fn.name() == "StackBackward0"
    assert np.where(x > 2, x, 0.0).tolist() == [[0.0, 0.0], [3.0, 4.0]]
    assert np.add.reduce(x, axis=0).tolist() == [4.0, 6.0]
    assert np.add.reduce(x, axis=0).grad_fn.name() == "SumBackward1"
    assert np.multiply.outer(x, x).grad_fn.name() == "MulBackward0"
    assert np.var(x).item() == 1.25
    assert np.shape(x) == (2, 2)
    (np.ones((2, 2), np.float32) @ x).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_comparisons_of_whole_tensors():
    x = tensor([1.0, 2.0])
    assert x.allclose(tensor([1.0, 2.0 + 1e-6]))
    assert not x.allclose(tensor([1.0, 2.1]))
    assert x.equal(tensor([1.0, 2.0]))
    assert not x.equal(tensor([1.0]))
    assert (x == "a") is False
    assert (x != None) is True      # noqa: E711
    assert len({x, x, tensor([1.0, 2.0])}) == 2


def test_copies_of_leaves():
    x = tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.tolist() == [1.0, 2.0]
        assert made.requires_grad
        assert made.is_leaf
        assert made.grad.tolist() == [2.0, 4.0]
        assert made.array is not x.array
    memo = {}
    pair = copy.deepcopy([x, x], memo)
    assert pair[0] is pair[1]
    with pytest.raises(NonDifferentiableError, match="its graph cannot be copied"):
        copy.deepcopy(x * 2)


def test_numpy_writes_files_of_tensors(tmp_path: Path) -> None:
    values = tensor([[1.0, 2.0]])
    np.save(tmp_path / "one.npy", values)
    np.savez(tmp_path / "all.npz", values, named=values)
    np.savetxt(tmp_path / "text", values)
    with np.load(tmp_path / "all.npz") as archive:
        for found in (np.load(tmp_path / "one.npy"), archive["arr_0"], archive["named"], np.loadtxt(tmp_path / "text", ndmin=2)):
            np.testing.assert_array_equal(found, [[1.0, 2.0]])
    with pytest.raises(NonDifferentiableError, match="requires grad is converted"):
        np.save(tmp_path / "one.npy", values.requires_grad_())


def test_bincount_has_as_many_elements_as_the_largest_integer_asks_for() -> None:
    def count(x: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        return aj.bincount(x), x.bincount(weights), aj.bincount(x, weights, minlength=4)

    compiled, weights = aj.compile(count, backend="interpret"), tensor([0.5, 1.0, 2.0])
    for numbers in ([0, 2, 2], [1, 0, 2], [5, 1, 1]):
        for found in (count(tensor(numbers), weights), compiled(tensor(numbers), weights)):
            expected = np.bincount(numbers), np.bincount(numbers, weights.numpy()), np.bincount(numbers, weights.numpy(), 4)
            assert [each.tolist() for each in found] == [each.tolist() for each in expected]
            assert [each.dtype for each in found] == [np.int64, np.float32, np.float32]
    assert compiled.cache_info().traces == 2
    before = len(known_calls)
    aj.bincount(tensor([2, 0, 1]))      # a call that is known
    assert len(known_calls) == before
    for wrong, error in (([-1, 0], ValueError), ([0.5], DTypeError), ([[1]], ShapeError)):
        with pytest.raises(error, match="bincount"):
            aj.bincount(tensor(wrong))


def test_deep_copies_share_memory_as_their_originals_do():
    x = aj.arange(6.0).reshape(2, 3)
    row, whole, column, repeated = copy.deepcopy((x[0], x, x[:, 1], x[0].expand(2, 3)))
    whole.fill_(7.0)
    assert (row.tolist(), column.tolist(), x.tolist()) == ([7, 7, 7], [7, 7], [[0, 1, 2], [3, 4, 5]])
    repeated[0] = 5.0
    assert repeated.tolist() == [[5, 5, 5], [0, 1, 2]]


def test_a_tensor_of_no_dimension_has_one_for_pytorch():
    x = aj.tensor(3.0, requires_grad=True)
    for name in ("cumsum", "cumprod", "mean", "logsumexp", "flip", "sum", "softmax"):
        found = getattr(x, name)(0)
        assert (found.shape, found.item()) == ((), 1.0 if name == "softmax" else 3.0), name
    assert np.isnan(x.detach().std(0).item())
    assert x.index_select(0, aj.tensor([0])).shape == ()
    x.cumsum(-1).backward()
    assert x.grad.item() == 1.0
