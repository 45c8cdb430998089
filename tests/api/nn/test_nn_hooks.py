"""Hooks of modules in backward passes and around their state, as PyTorch calls them; lazy modules."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import ShapeError, TraceError


class Product(nn.Module):
    """Two results of three inputs, of which one is no tensor."""

    def forward(self, a: aj.Tensor, number: int, b: aj.Tensor) -> Any:
        return a * b, number * a


@pytest.mark.parametrize("compiled", [False, True])
def test_backward_hooks(compiled: bool) -> None:
    """All gradients come at once, with None for what has none; what hooks return replaces them."""
    module, seen = Product(), []

    def before(module: nn.Module, grad_output: Any) -> Any:
        return tuple(None if grad is None else grad * 3.0 for grad in grad_output)

    def after(module: nn.Module, grad_input: Any, grad_output: Any) -> Any:
        seen.append([[grad is None for grad in grads] for grads in (grad_input, grad_output)])
        return tuple(None if grad is None else grad + 1.0 for grad in grad_input)

    module.register_full_backward_pre_hook(before)
    handle = module.register_full_backward_hook(after)
    a, b = aj.tensor([1.0, 2.0], requires_grad=True), aj.tensor([3.0, 4.0], requires_grad=True)

    def step(a: aj.Tensor, b: aj.Tensor) -> aj.Tensor:
        loss = module(a, 5, b)[0].sum()
        loss.backward()
        return loss

    (aj.compile(step) if compiled else step)(a, b)
    assert seen == [[[False, True, False], [False, True]]]
    np.testing.assert_array_equal(a.grad.numpy(), [10.0, 13.0])
    np.testing.assert_array_equal(b.grad.numpy(), [4.0, 7.0])
    if not compiled:
        handle.remove()
        step(a, b)
        assert len(seen) == 1


def test_backward_hooks_without_gradients_of_inputs() -> None:
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append((inputs, outputs[0].shape)))
    layer(aj.ones(4, 3)).sum().backward()
    assert seen == [((None,), (4, 2))]
    np.testing.assert_array_equal(layer.bias.grad.numpy(), [4.0, 4.0])       # type: ignore[union-attr]


def test_hooks_of_states() -> None:
    model, called = nn.Sequential(nn.Linear(2, 2)), []
    inner = model[0]
    inner.register_state_dict_pre_hook(lambda module, prefix, keep_vars: called.append((prefix, keep_vars)))
    inner.register_state_dict_post_hook(lambda module, state, prefix, _: state.update({f"{prefix}old": state.pop(f"{prefix}bias")}))
    inner.register_load_state_dict_pre_hook(lambda module, state, prefix, *_: state.update({f"{prefix}bias": state.pop(f"{prefix}old")}))
    inner.register_load_state_dict_post_hook(lambda module, keys: called.append(keys.missing_keys))
    state = {"0.weight": np.ones((2, 2)), "0.old": np.ones(2)}
    model.load_state_dict(state)
    np.testing.assert_array_equal(inner.bias.detach().numpy(), [1.0, 1.0])       # type: ignore[union-attr]
    assert list(state) == ["0.weight", "0.old"]
    assert list(model.state_dict()) == ["0.weight", "0.old"]
    assert called == [[], ("0.", False)]


def test_lazy_modules() -> None:
    """An optimiser is made before; copies and states work before and after the first call."""
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    other, loaded = copy.deepcopy(model), copy.deepcopy(model)
    optimizer = aj.optim.SGD(model.parameters(), lr=0.1)
    images = aj.randn(3, 2, 5, 5)
    with pytest.raises(ShapeError, match="has no shape yet"):
        model[0].weight.shape       # noqa: B018
    with pytest.raises(TraceError, match="call the model once before"):
        aj.compile(model)(images)
    model(images)
    assert [type(module) for module in model] == [nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    assert (model[0].in_channels, model[1].num_features, model[3].in_features) == (2, 4, 36)
    before = model[3].weight.detach().clone()
    aj.compile(model)(images).square().mean().backward()
    optimizer.step()
    assert not np.array_equal(model[3].weight.detach().numpy(), before.numpy())
    loaded.load_state_dict(model.state_dict())
    model.eval(), loaded.eval()
    np.testing.assert_array_equal(loaded(images).detach().numpy(), model(images).detach().numpy())
    assert isinstance(other[0], nn.LazyConv2d)
    assert repr(other[0]) == "LazyConv2d(0, 4, kernel_size=(3, 3), stride=(1, 1))"


def test_buffers() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Buffer(aj.ones(2))
            self.cache = nn.Buffer(aj.ones(2), persistent=False)

    module = Scaled()
    assert list(module.state_dict()) == ["scale"]
    assert [name for name, _ in module.named_buffers()] == ["scale", "cache"]
    assert module.get_buffer("cache") is module.cache
    with pytest.raises(AttributeError, match="is no buffer"):
        module.get_buffer("training")
    module.set_submodule("inner", nn.Linear(2, 2))
    assert module.get_submodule("inner").weight.shape == (2, 2)


def test_running_statistics_stay_where_they_are_not_tracked() -> None:
    norm = nn.BatchNorm1d(2)
    norm.track_running_stats = False
    norm(aj.randn(5, 2))
    np.testing.assert_array_equal(norm.running_mean.numpy(), [0.0, 0.0])      # type: ignore[union-attr]
    assert norm.num_batches_tracked.item() == 0       # type: ignore[union-attr]


def test_softmax_in_another_dtype() -> None:
    x = aj.tensor([0.0, 1.0], requires_grad=True)
    result = nn.functional.softmax(x, dim=0, dtype=aj.float64)
    assert result.dtype == np.float64
    result[0].backward()
    assert x.grad.dtype == np.float32


def test_packed_sequences_need_their_order() -> None:
    x = aj.zeros(4, 2, 3)
    with pytest.raises(ValueError, match="enforce_sorted=False"):
        nn.utils.rnn.pack_padded_sequence(x, [2, 4])
    with pytest.raises(ValueError, match="from 1 to 4"):
        nn.utils.rnn.pack_padded_sequence(x, [5, 4])
    packed = nn.utils.rnn.pack_padded_sequence(x, aj.tensor([2, 4]), enforce_sorted=False)
    with pytest.raises(ShapeError, match="packed sequences with 5 features"):
        nn.GRU(5, 2)(packed)
