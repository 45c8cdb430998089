"""Writes in place, views and version counters: what the graph knows afterwards, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj

Program = Callable[[Any], Any]


def parameter(*numbers: float) -> Any:
    return aj.tensor(list(numbers), requires_grad=True)


def names(node: Any) -> Any:
    return None if node is None else [node.name(), *(names(below) for below, _ in node.next_functions)]


def version(tensor: Any) -> int:
    return int(tensor._writes[0])


@pytest.mark.parametrize(("write", "name"), [
    (lambda y: y.add_(1.0), "AddBackward0"), (lambda y: y.mul_(2.0), "MulBackward0"), (lambda y: y.zero_(), "ZeroBackward0"),
    (lambda y: y.exp_(), "ExpBackward0"), (lambda y: y.clamp_(0.0, 1.0), "ClampBackward1"), (lambda y: y.__setitem__(0, 1.0), "CopySlices"),
    (lambda y: y.__iadd__(1.0), "AddBackward0"), (lambda y: y.copy_(aj.tensor([1.0, 1.0])), "CopyBackwards")])
def test_a_write_gives_the_tensor_a_new_node_and_a_new_version(write: Program, name: str) -> None:
    x = parameter(1.0, 2.0)
    y = x * 2
    before, memory = version(y), y.array
    write(y)
    assert version(y) > before
    assert y.array is memory
    assert y.grad_fn.name() == name
    assert y.requires_grad
    y.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize(("write", "gradient"), [
    (lambda y: y.add_(1.0), [2, 2]), (lambda y: y.mul_(3.0), [6, 6]), (lambda y: y.zero_(), [0, 0]), (lambda y: y.fill_(4.0), [0, 0]),
    (lambda y: y.__setitem__(0, 5.0), [0, 2]), (lambda y: y.__setitem__(slice(None), 5.0), [0, 0]), (lambda y: y[1:].mul_(10.0), [2, 20]),
    (lambda y: y.add_(y), [4, 4]), (lambda y: y.mul_(y), [8, 16]), (lambda y: y.sub_(y, alpha=0.5), [1, 1]), (lambda y: y.neg_(), [-2, -2]),
    (lambda y: y.masked_fill_(y > 3.0, 0.0), [2, 0]), (lambda y: y.copy_(aj.tensor([1.0, 1.0])), [0, 0])])
def test_gradients_after_a_write(write: Program, gradient: list[float]) -> None:
    x = parameter(1.0, 2.0)
    y = x * 2
    write(y)
    y.sum().backward()
    assert x.grad.tolist() == gradient


def test_functions_of_numpy_that_write_are_writes_in_place() -> None:
    x = parameter(1.0, 2.0, 3.0)
    with pytest.raises(aj.errors.InPlaceError, match="a leaf that requires grad"):
        np.put(x, 0, 5.0)
    y = x * 2
    part, memory = y[1:], y.array
    np.add.at(y, [1, 1], x[:2])
    np.put(part, [1], x[0] * 10)
    assert y.array is memory
    assert version(y) == version(part) == 2
    assert y.tolist() == [2, 7, 10]
    y.sum().backward()
    assert x.grad.tolist() == [13, 3, 0]

    @aj.compile
    def filled(x: Any) -> Any:
        y = aj.zeros(2, 2)
        np.fill_diagonal(y, x)
        np.copyto(y[0], 7.0, where=[False, True])
        return y

    assert filled(aj.tensor([1.0, 2.0])).tolist() == [[1, 7], [0, 2]]


def test_an_item_is_set_to_what_requires_grad() -> None:
    x, v = parameter(1.0, 2.0, 3.0), aj.tensor(5.0, requires_grad=True)
    y = x * 2
    y[1] = v * 3
    (y * aj.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [2, 0, 200]
    assert v.grad.item() == 30


def test_a_plain_tensor_requires_grad_after_what_does_was_written_to_it() -> None:
    x = parameter(4.0)
    buffer = aj.tensor([0.0, 0.0, 0.0])
    part = buffer[:2]
    buffer[1] = x[0] * 5
    assert (part * 2).requires_grad
    assert part.requires_grad
    assert buffer.requires_grad
    assert not buffer.is_leaf
    assert buffer.grad_fn.name() == "CopySlices"
    part.sum().backward()
    assert x.grad.tolist() == [5]


def test_one_write_reads_another() -> None:
    x = parameter(1.0, 2.0, 3.0)
    y = x.clone()
    y[0] = y[1].clone() * y[2].clone()
    y[1] = y[0].clone()
    (y * aj.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert y.tolist() == [6, 6, 3]
    assert x.grad.tolist() == [0, 9, 9]


@pytest.mark.parametrize("view", [
    lambda y: y[1:], lambda y: y[0], lambda y: y.reshape(3, 2), lambda y: y.view(-1), lambda y: y.T, lambda y: y.unsqueeze(1),
    lambda y: y.transpose(0, 1), lambda y: y.permute(1, 0), lambda y: y[:, ::2], lambda y: y.diagonal(), lambda y: y[None],
    lambda y: y.narrow(1, 1, 2), lambda y: y.select(1, 2), lambda y: y.flatten(), lambda y: y.T[1:].T[:, 1], lambda y: y.split(1)[1],
    lambda y: y.unbind(1)[2], lambda y: y.detach(), lambda y: y[1:1]])
def test_views_share_memory_and_versions_both_ways(view: Program) -> None:
    """Writes to a view are seen in what it is a view of, and the other way round, in values, versions and gradients."""
    x = aj.tensor(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
    connected = view(x * 1.0).requires_grad
    index = np.asarray(view(aj.tensor(np.arange(6).reshape(2, 3))).numpy()).reshape(-1)
    base = x * 1.0
    part = view(base)
    base.mul_(2.0)
    assert version(part) == version(base) == 1
    np.testing.assert_array_equal(part.detach().numpy().reshape(-1), 2 * np.arange(1.0, 7.0)[index])
    if connected:
        part.sum().backward()
        expected = np.zeros(6)
        expected[index] = 2.0
        np.testing.assert_array_equal(x.grad.numpy().reshape(-1), expected)
        x.grad = None
    base = x * 1.0
    part = view(base)
    part.mul_(3.0)
    assert version(part) == version(base) == 1
    factor = np.ones(6)
    factor[index] = 3.0
    np.testing.assert_array_equal(base.detach().numpy().reshape(-1), factor * np.arange(1.0, 7.0))
    if connected:
        base.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy().reshape(-1), factor)


def test_a_product_of_views_of_what_is_written_to_is_refused() -> None:
    x = parameter(1.0, 2.0, 3.0)
    y = x.clone()
    y[0] = y[1] * y[2]
    with pytest.raises(aj.errors.InPlaceError, match="MulBackward0 needs its operand 0"):
        y.sum().backward()


@pytest.mark.parametrize(("write", "gradient"), [
    (lambda y: y.view(-1).mul_(y), [2, 4, 6]), (lambda y: y.mul_(y.view(-1)), [2, 4, 6]), (lambda y: y[:2].mul_(y[1:]), [2, 4, 3]),
    (lambda y: y.unsqueeze(0).mul_(y), [2, 4, 6]), (lambda y: y.mul_(y.detach()), [1, 2, 3]),
    (lambda y: y[:2].mul_(y[1:].data), [2, 3, 1])])
def test_what_is_written_to_and_an_operand_may_have_the_same_memory(write: Program, gradient: list[float]) -> None:
    x = parameter(1.0, 2.0, 3.0)
    y = x.clone()
    write(y)
    y.sum().backward()
    assert x.grad.tolist() == gradient


@pytest.mark.parametrize("write", [
    lambda y: y.diagonal().add_(100.0), lambda y: y.T.diagonal(1).mul_(3.0), lambda y: y[:, 1:].diagonal().add_(y[0, :2]),
    lambda y: y.T.diagonal(-1).__setitem__(0, 7.0), lambda y: y.unsqueeze(0).transpose(0, 2).diagonal(0, 0, 1).zero_(),
    lambda y: y.reshape(1, 2, 3).transpose(0, 2).diagonal(0, 2, 1).mul_(2.0), lambda y: y[:, :1].diagonal().fill_(4.0)])
def test_diagonals_are_views_whatever_the_strides(write: Program) -> None:
    def program(x: Any) -> Any:
        y = x * 1.0
        write(y)
        (y * y).sum().backward()
        return y.detach()

    content = np.arange(1.0, 7.0).reshape(2, 3)
    leaves = [aj.tensor(content.copy(), requires_grad=True) for _ in range(2)]
    results = [program(leaves[0]), aj.compile(program, backend="interpret")(leaves[1])]
    assert not np.array_equal(results[0].numpy(), content)
    np.testing.assert_array_equal(*(result.numpy() for result in results))
    np.testing.assert_array_equal(*(leaf.grad.numpy() for leaf in leaves))


def test_siblings_see_writes() -> None:
    x = parameter(1.0, 2.0, 3.0)
    y = x * 1.0
    left, right = y[:2], y[1:]
    left.mul_(10.0)
    assert right.tolist() == [20, 3]
    right.sum().backward()
    assert x.grad.tolist() == [0, 10, 1]


def test_expanded_views_follow_and_are_not_written_to() -> None:
    x = aj.tensor([[1.0], [2.0]], requires_grad=True)
    y = x * 1.0
    wide = y.expand(2, 3)
    y.mul_(4.0)
    assert wide.tolist() == [[4.0] * 3, [8.0] * 3]
    wide.sum().backward()
    assert x.grad.tolist() == [[12], [12]]
    with pytest.raises(aj.errors.InPlaceError, match="clone"):
        y.expand(2, 3).add_(1.0)


@pytest.mark.parametrize("write", [
    lambda x: x.add_(1.0), lambda x: x.__setitem__(0, 1.0), lambda x: x.__iadd__(1.0), lambda x: x.zero_(), lambda x: x[1:].mul_(2.0),
    lambda x: x.reshape(2, 1).zero_(), lambda x: x[1:1].add_(1.0), lambda x: x.copy_(x * 2)])
def test_a_leaf_that_requires_grad_is_written_to_within_no_grad_only(write: Program) -> None:
    x = parameter(1.0, 2.0)
    with pytest.raises(aj.errors.InPlaceError, match="no_grad"):
        write(x)
    assert x.tolist() == [1, 2]
    assert version(x) == 0
    with aj.no_grad():
        write(x)
    assert version(x) == 1
    assert x.is_leaf
    assert x.requires_grad
    x.data.fill_(7.0)
    assert x.tolist() == [7, 7]


def test_in_place_update_of_a_leaf() -> None:
    x = parameter(1.0, 2.0)
    same = x
    (x * 3).sum().backward()
    with aj.no_grad():
        x -= 0.5 * x.grad
    assert same is x
    assert x.tolist() == [-0.5, 0.5]


@pytest.mark.parametrize(("program", "name"), [
    (lambda y: y.exp(), "ExpBackward0"), (lambda y: y.sigmoid(), "SigmoidBackward0"), (lambda y: y.relu(), "ReluBackward0"),
    (lambda y: y.sqrt(), "SqrtBackward0"), (lambda y: y.tanh(), "TanhBackward0")])
def test_a_saved_result_that_changed_is_refused(program: Program, name: str) -> None:
    x = parameter(1.0, 2.0)
    z = program(x * 1.0)
    z.add_(1.0)
    with pytest.raises(aj.errors.InPlaceError) as refused:
        z.sum().backward()
    message = str(refused.value)
    assert name in message
    assert "its result" in message
    assert "version 1" in message
    assert "clone" in message


@pytest.mark.parametrize(("program", "name"), [
    (lambda y: y * y, "MulBackward0"), (lambda y: y.sin(), "SinBackward0"), (lambda y: y ** 3, "PowBackward0"),
    (lambda y: y.log(), "LogBackward0"),
    (lambda y: y @ y, "DotBackward0"), (lambda y: y.maximum(aj.tensor([1.5, 1.5])), "MaximumBackward0")])
def test_a_saved_operand_that_changed_is_refused(program: Program, name: str) -> None:
    x = parameter(1.0, 2.0)
    y = x * 1.0
    z = program(y)
    y[0] = 9.0
    with pytest.raises(aj.errors.InPlaceError, match=f"{name} needs its operand 0"):
        z.sum().backward()


def test_a_write_through_a_view_or_a_detached_tensor_is_noticed() -> None:
    for change in (lambda y: y[:1].zero_(), lambda y: y.detach().zero_(), lambda y: y.T.add_(1.0)):
        x = aj.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = x * 1.0
        z = y * y
        change(y)
        with pytest.raises(aj.errors.InPlaceError, match="MulBackward0"):
            z.sum().backward()


def test_what_is_not_saved_may_change() -> None:
    x = parameter(1.0, 2.0)
    y = x * 1.0
    z = y + y
    w = (z / 2.0)
    y.zero_()
    z.zero_()
    w.add_(1.0)
    w.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_quotients_may_change() -> None:
    a, b = parameter(1.0, 4.0), parameter(2.0, 8.0)
    y = a / b
    y += 1.0
    y.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), [1 / 2, 1 / 8])
    np.testing.assert_allclose(b.grad.numpy(), [-1 / 4, -4 / 64])


def test_writes_under_no_grad_are_no_part_of_the_graph() -> None:
    x = parameter(1.0, 2.0)
    y = x * 3
    with aj.no_grad():
        y.mul_(100.0)
    y.sum().backward()
    assert y.tolist() == [300, 600]
    assert x.grad.tolist() == [3, 3]


def test_data_is_not_followed() -> None:
    x = parameter(1.0, 2.0)
    y = x * 1.0
    z = y * y
    y.data.fill_(5.0)
    z.sum().backward()
    assert x.grad.tolist() == [10, 10]


def test_detached_tensors_share_memory() -> None:
    x = parameter(1.0, 2.0)
    y = x * 2
    detached = y.detach()
    assert not detached.requires_grad
    assert detached.grad_fn is None
    detached[0] = 50.0
    assert y.tolist() == [50, 4]


def test_shapes_and_dtypes_of_writes() -> None:
    y = parameter(1.0, 2.0) * 1.0
    with pytest.raises(aj.errors.ShapeError, match=r"\(3, 2\)"):
        y.add_(aj.tensor(np.ones((3, 2), np.float32)))
    with pytest.raises(aj.errors.DTypeError, match="int64"):
        aj.tensor([1, 2]).add_(aj.tensor([0.5, 0.5]))
    assert y.tolist() == [1, 2]
    y.add_(aj.tensor([1, 1]))
    assert y.dtype == np.float32
    y[:] = aj.tensor([[7.0, 8.0]])
    assert y.tolist() == [7, 8]


def test_gradients_of_gradients_through_writes() -> None:
    x = aj.tensor(np.array([0.5, 1.5]), requires_grad=True)
    y = x * x
    y[0] = (y[1].clone() * x[0]).exp()
    (first,) = aj.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = aj.autograd.grad(first[0], x)
    a, b = 0.5, 1.5
    inner = np.exp(b * b * a)
    np.testing.assert_allclose(first.detach().numpy(), [inner * b * b, inner * 2 * a * b + 2 * b])
    np.testing.assert_allclose(second.numpy(), [inner * b ** 4, inner * (2 * b + 2 * b ** 3 * a)])


@pytest.mark.parametrize("function", [
    lambda x: x * 1, lambda x: x + 0, lambda x: x / 1, lambda x: x ** 1, lambda x: x.clone(), lambda x: +(x * 1), lambda x: np.positive(x),
    lambda x: x.clamp(-100.0, 100.0), lambda x: x.maximum(x), lambda x: x[[0, 1]], lambda x: x.tril(5) if x.ndim > 1 else x.abs(),
    lambda x: np.concatenate([x]), lambda x: x.repeat(1), lambda x: x.roll(0, 0), lambda x: x.masked_fill(x > 99, 0.0),
    lambda x: np.where(True, x, x), lambda x: x.lerp(x, 0.5), lambda x: x.cumsum(0), lambda x: x.nan_to_num(), lambda x: x.mul(1.0)])
def test_results_that_are_no_views_have_memory_of_their_own(function: Program) -> None:
    x = aj.tensor([3.0, 4.0])
    y = function(x)
    assert not np.shares_memory(x.numpy(), y.numpy())
    y.zero_()
    assert x.tolist() == [3, 4]


def test_gradients_do_not_share_memory() -> None:
    a, b = parameter(1.0), parameter(2.0)
    given = aj.tensor([1.0])
    (a + b).backward(given)
    a.grad.add_(10.0)
    assert b.grad.tolist() == [1]
    assert given.tolist() == [1]
    given.zero_()
    assert (a.grad.tolist(), b.grad.tolist()) == ([11], [1])


@pytest.mark.parametrize("write", [
    lambda view, x: view.__setitem__(..., view[...].mul_(x.mean())), lambda view, x: view.mul_(x.mean()), lambda view, x: view.exp_()])
def test_no_elements_cannot_have_changed(write: Any) -> None:
    x = parameter(1.0, 2.0, 3.0)
    base = x.clone()
    write(base[0:0], x)
    base.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_shapes_that_change_without_a_record_keep_their_gradient():
    leaf = aj.ones(3, requires_grad=True)
    base = aj.ones(2, 3, requires_grad=True)
    computed, view = base * 1, base[0]
    with aj.no_grad():
        leaf.unsqueeze_(0)
        computed.t_()
        view.unsqueeze_(0)
    assert leaf.requires_grad
    assert leaf.is_leaf
    assert leaf.shape == (1, 3)
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [[2, 2, 2]]
    ((computed * aj.arange(6.0).reshape(3, 2)).sum() + view.sum()).backward()
    assert base.grad.tolist() == [[1, 3, 5], [1, 3, 5]]
