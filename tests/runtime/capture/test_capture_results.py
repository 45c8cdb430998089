"""What comes back from a compiled function: views, detached tensors and leaves are what they are eagerly."""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import COMPILING

import adjit as aj
from adjit import nn
from adjit.ir.errors import UnsupportedError

Around = Callable[[Any], Any]


def matrix(requires_grad: bool = False) -> Any:
    return aj.tensor(np.arange(6.0).reshape(2, 3), requires_grad=requires_grad)


OUTSIDE = matrix()


def no_grad_view(a: Any) -> Any:
    with aj.no_grad():
        return a.view(-1)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "view": lambda a: a.view(-1), "item": lambda a: a[1], "slice of a slice": lambda a: a[:, 1:][0], "transposed": lambda a: a.T,
    "part": lambda a: a.unbind(1)[2], "detached": lambda a: a.detach(), "view of a detached one": lambda a: a.detach()[0].view(3, 1),
    "detached view": lambda a: a[0].detach(), "data": lambda a: a.data, "no_grad": no_grad_view, "diagonal": lambda a: a.diagonal()}


@pytest.mark.parametrize("backend", COMPILING)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_an_argument_is_one(view: str, backend: str) -> None:
    function = aj.compile(VIEWS[view], backend=backend)
    for requires_grad in (False, True):
        for _ in range(4):              # by way of Python, and of the native entry
            ours, theirs = matrix(requires_grad), matrix(requires_grad)
            result, expected = function(ours), VIEWS[view](theirs)
            assert (result.requires_grad, result.is_leaf) == (expected.requires_grad, expected.is_leaf)
            assert (result._writes is ours._writes) == (expected._writes is theirs._writes)
            with aj.no_grad():
                result.zero_()
                expected.zero_()
            assert ours.tolist() == theirs.tolist()


def test_a_view_of_a_tensor_from_outside_is_one() -> None:
    view, other = aj.compile(lambda x: (OUTSIDE[0], x + 1))(aj.ones(1))
    view.fill_(7.0)
    assert OUTSIDE[0].tolist() == [7.0] * 3
    assert other.tolist() == [2.0]


def test_a_view_shows_what_the_function_wrote() -> None:
    def function(a: Any) -> Any:
        view = a[0]
        view.add_(10.0)
        a[1].mul_(2.0)
        return view, a, a[1]

    given = matrix()
    first, same, second = aj.compile(function)(given)
    assert same is given
    assert (first.tolist(), second.tolist()) == ([10.0, 11.0, 12.0], [6.0, 8.0, 10.0])
    first.zero_()
    assert given[0].tolist() == [0.0] * 3


def test_gradients_go_through_views() -> None:
    given = matrix(True)
    row = aj.compile(lambda a: a[1])(given)
    (row * row).sum().backward()
    assert given.grad.tolist() == [[0.0] * 3, [6.0, 8.0, 10.0]]


@pytest.mark.parametrize("first", [True, False])
def test_a_view_of_another_result_is_one(first: bool) -> None:
    def function(a: Any) -> Any:
        made = a * 2
        return (made, made[0], made.detach()) if first else (made[0], made, made.detach())

    given = matrix(True)
    results = aj.compile(function)(given)
    made, row = (results[0], results[1]) if first else (results[1], results[0])
    (row * row).sum().backward()
    assert given.grad.tolist() == [[0.0, 8.0, 16.0], [0.0] * 3]
    results[2].zero_()
    assert row.tolist() == [0.0] * 3
    assert made.tolist() == [[0.0] * 3] * 2


def test_a_result_twice_is_one_tensor() -> None:
    function = aj.compile(lambda a: (a[0], a * 2, a[0]))
    assert function(matrix())[0].tolist() == [0.0, 1.0, 2.0]

    def twice(a: Any) -> Any:
        row = a[0]
        return row, row

    one, other = aj.compile(twice)(matrix())
    assert one is other


def test_what_would_have_two_histories_on_one_memory_is_refused() -> None:
    factor = aj.tensor(2.0, requires_grad=True)

    def function(a: Any) -> Any:
        alias = a.detach()
        alias.mul_(factor)
        return alias

    with pytest.raises(UnsupportedError, match="shares memory with another tensor") as caught:
        aj.compile(function)(matrix())
    assert "x.clone()" in caught.value.hint


LEAVES: dict[str, Callable[[Any], Any]] = {
    "computed": lambda a: (a.detach() * 2).requires_grad_(), "detached": lambda a: a.detach().requires_grad_(),
    "made": lambda a: aj.zeros(2, 3, requires_grad=True), "not": lambda a: a.detach().requires_grad_(False),
    "parameter": lambda a: nn.Parameter(aj.ones(2, 3)), "within no_grad": aj.no_grad()(lambda a: (a * 2).requires_grad_())}


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_leaves_stay_leaves(leaf: str, requires_grad: bool) -> None:
    function = aj.compile(lambda a: (LEAVES[leaf](a), (a * 3).sum()), backend="interpret")
    given = matrix(requires_grad)
    found, total = function(given)
    expected = LEAVES[leaf](given)
    assert (found.requires_grad, found.is_leaf) == (expected.requires_grad, expected.is_leaf)
    assert total.requires_grad is requires_grad
    if expected.requires_grad:
        (found * 2).sum().backward()
        assert found.grad.tolist() == [[2.0] * 3] * 2
        assert given.grad is None
    if requires_grad:
        total.backward()
        assert given.grad.tolist() == [[3.0] * 3] * 2


def test_a_functional_training_loop() -> None:
    def step(w: Any, x: Any) -> Any:
        (slope,) = aj.autograd.grad(((w * x) ** 2).sum(), w)
        return (w - 0.1 * slope).detach().requires_grad_()

    found = []
    for function in (step, aj.compile(step)):
        w = matrix(True)
        for _ in range(4):
            w = function(w, matrix())
        found.append(w.tolist())
    np.testing.assert_allclose(found[1], found[0], 1e-12)


def test_a_leaf_that_another_result_leads_to_is_refused() -> None:
    def function(a: Any) -> Any:
        leaf = (a * 2).detach().requires_grad_()
        return leaf, (leaf ** 2).sum()

    with pytest.raises(UnsupportedError, match="a backward pass would not reach the leaf"):
        aj.compile(function)(matrix())


@pytest.mark.parametrize("function", [
    lambda w, u: w.floor().sum() + u.detach().sum(), lambda w, u: (w.sign() * 2).sum()])
def test_a_result_that_nothing_changes_has_gradients_of_zero(function: Any) -> None:
    for run in (function, aj.compile(function)):
        w, u = matrix(True), matrix(True)
        result = run(w, u)
        assert result.requires_grad
        result.backward()
        assert w.grad.tolist() == [[0.0] * 3] * 2
        assert u.grad is None


def test_the_loss_of_labels_that_are_all_ignored() -> None:
    model = nn.Linear(2, 3)
    loss = aj.compile(lambda x: nn.functional.cross_entropy(model(x), aj.tensor([-100, -100]), reduction="sum"))(aj.ones(2, 2))
    loss.backward()
    assert model.weight.grad.tolist() == [[0.0] * 2] * 3


def test_the_gradient_of_what_was_computed_is_asked_for_with_a_warning() -> None:
    w = matrix(True)
    hidden = w * 2
    with pytest.warns(UserWarning, match="retain_grad"):
        assert hidden.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (w.grad, w.detach().grad) == (None, None)
        hidden.retain_grad()
        assert hidden.grad is None
        hidden.sum().backward()
        assert hidden.grad.tolist() == [[1.0] * 3] * 2


def test_the_class_of_tensors_makes_them_as_in_pytorch() -> None:
    for call in (lambda: aj.Tensor([1, 2]), aj.compile(lambda: aj.Tensor([1, 2]))):
        assert (call().tolist(), call().dtype) == ([1.0, 2.0], np.float32)
    assert aj.Tensor(2, 3).shape == aj.Tensor(aj.ones(2, 3).shape).shape == (2, 3)
    assert aj.Tensor().numel() == 0


@pytest.mark.parametrize("around", [lambda function: function, aj.compile])
def test_batch_statistics_that_are_no_longer_tracked(around: Around) -> None:
    norm = nn.BatchNorm1d(2)
    norm.track_running_stats = False
    call = around(norm)
    x = aj.tensor(np.arange(6.0, dtype=np.float32).reshape(3, 2))
    call(x)
    assert (norm.running_mean.tolist(), norm.num_batches_tracked.item()) == ([0.0, 0.0], 0)
    norm.eval()
    np.testing.assert_allclose(call(x).tolist(), x.tolist(), 1e-4)       # by the statistics that there are, as in PyTorch
    norm.train().track_running_stats = True
    call(x)
    assert norm.num_batches_tracked.item() == 1


def test_the_gradient_of_one_result_where_a_broadcast_of_an_operand_is_another() -> None:
    """What is kept is chosen for gradients of all results: here the broadcast, where that of one result alone would take the number."""
    def function(w: Any, number: Any) -> Any:
        filled = w * 1.0
        filled[...] = number
        product = filled * w
        return (product * 0.5).sum(), filled, product

    found = []
    for run in (function, aj.compile(function, backend="interpret")):
        w = aj.tensor(np.ones((1, 3)), requires_grad=True)
        run(w, aj.tensor(np.array(3.0)))[0].backward()
        found.append(w.grad.tolist())
    assert found[0] == found[1] == [[1.5] * 3]


def test_views_of_copies_share_the_copy() -> None:
    def function(a: Any) -> Any:
        repeated = (a * 2).expand(2, 2, 3)
        flat = repeated.reshape(-1)
        return repeated, flat, flat.view(3, 4)

    _, flat, square = aj.compile(function)(matrix())
    square.zero_()
    assert flat.tolist() == [0.0] * 12


@pytest.mark.parametrize("backend", COMPILING)
def test_arrays_may_be_overwritten_before_the_backward_pass(backend: str) -> None:
    """An array has no version counter: the gradient is of what it held in the call, given as an argument or read from outside."""
    table = np.arange(3.0)
    compiled = aj.compile(lambda w, x: (w * x[0] * table).sum(), backend=backend)
    w = aj.tensor(np.ones(3), requires_grad=True)
    for _ in range(4):      # through Python, then by the fast path
        batch = np.array([[1.0, 2.0, 3.0]])
        table[:] = [0.0, 1.0, 2.0]
        value = compiled(w, batch)
        batch[:], table[:] = 100.0, 100.0
        w.grad = None
        value.backward()
        assert w.grad.tolist() == [0.0, 2.0, 6.0]


def test_full_backward_hooks_that_were_removed_leave_nothing_behind() -> None:
    layer = aj.nn.Linear(2, 2)
    handle = layer.register_full_backward_hook(lambda module, inputs, outputs: None)
    with pytest.raises(aj.errors.UnsupportedError, match="a module Linear has a hook"):
        aj.compile(lambda x: layer(x))(aj.ones(1, 2))
    handle.remove()
    assert aj.compile(lambda x: layer(x))(aj.ones(1, 2)).shape == (1, 2)


def test_tensors_of_a_step_whose_data_is_set() -> None:
    @aj.compile
    def descend(x: Any) -> Any:
        z = aj.zeros_like(x, requires_grad=True)
        d = aj.zeros_like(x, requires_grad=True)
        (d * x).sum().backward()
        d.data = d + d.grad
        for _ in range(2):
            (gradient,) = aj.autograd.grad(((z - x) ** 2).sum(), z)
            z.data -= 0.25 * gradient
        z = z.detach()
        return (z * x).sum(), z, d.detach()

    loss, z, d = descend(aj.tensor([1.0, 2.0]))
    assert (loss.item(), z.tolist(), d.tolist()) == (3.75, [0.75, 1.5], [1, 2])


def test_where_of_a_condition_and_arrays_of_tensors() -> None:
    rows, columns = aj.compile(lambda mask: aj.where(mask))(aj.tensor([[True, False], [False, True]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])

    @aj.compile
    def through_numpy(x: Any) -> Any:
        array = np.tanh(x.detach().numpy()) * 0 + x.detach().cpu().numpy()
        again = aj.from_numpy(array)
        again.mul_(2.0)
        return again, array.sum()

    again, total = through_numpy(aj.tensor([1.0, 2.0], requires_grad=True))
    assert (again.tolist(), float(total), again.requires_grad) == ([2, 4], 6.0, False)


def test_results_that_are_dataclasses_and_dicts() -> None:
    """As the outputs of models in libraries for PyTorch."""
    class Output(OrderedDict[str, Any]):
        def __post_init__(self) -> None:
            for field in dataclasses.fields(self):       # type: ignore[arg-type]
                if getattr(self, field.name) is not None:
                    self[field.name] = getattr(self, field.name)

        def __getitem__(self, key: Any) -> Any:
            return dict(self.items())[key] if isinstance(key, str) else tuple(self.values())[key]

    @dataclasses.dataclass
    class Scores(Output):
        loss: Any = None
        logits: Any = None
        attentions: Any = None

    layer = nn.Linear(2, 3)

    def forward(x: aj.Tensor) -> Scores:
        logits = layer(x)
        scores = Scores(logits=logits, loss=logits.square().mean())
        scores["pooled"] = logits.sum()
        return scores

    expected, found = forward(aj.ones(1, 2)), aj.compile(forward)(aj.ones(1, 2))
    assert type(found) is Scores
    assert [*found] == [*expected] == ["loss", "logits", "pooled"]
    assert found.attentions is None
    assert found[0] is found.loss is found["loss"]
    np.testing.assert_allclose(found["pooled"].detach().numpy(), expected["pooled"].detach().numpy(), 1e-6)
    found.loss.backward()
    assert layer.weight.grad.shape == (3, 2)
