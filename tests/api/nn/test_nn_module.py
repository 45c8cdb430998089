"""`Module`: what is registered, how it is listed, converted, copied, hooked and printed."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import DTypeError, TraceError, UnsupportedError


class Net(nn.Module):
    """A bit of everything: layers, a parameter, buffers of both kinds, a shared layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(aj.tensor([2.0]))
        self.first = nn.Linear(2, 3)
        self.blocks = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
        self.again = self.first
        self.register_buffer("steps", aj.tensor(0))
        self.register_buffer("cache", aj.tensor([1.0]), persistent=False)
        self.register_parameter("nothing", None)
        self.size = 3

    def forward(self, x: Any, factor: float = 1.0) -> Any:
        return self.blocks(self.first(x)) * self.scale * factor


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


def test_parameters_are_listed_once_and_in_order() -> None:
    net = Net()
    expected = ["scale", "first.weight", "first.bias", "blocks.1.weight", "blocks.1.bias"]
    assert names(net.named_parameters()) == expected
    assert [id(p) for p in net.parameters()] == [id(net.get_parameter(name)) for name in expected]
    assert names(net.named_parameters(recurse=False)) == ["scale"]
    assert names(net.named_parameters(prefix="net"))[:2] == ["net.scale", "net.first.weight"]
    assert names(net.named_parameters(remove_duplicate=False))[-2:] == ["again.weight", "again.bias"]


def test_a_parameter_shared_between_modules_is_listed_once() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    net = nn.ModuleList([first, second])
    assert names(net.named_parameters()) == ["0.weight", "0.bias", "1.bias"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_buffers_and_modules() -> None:
    net = Net()
    assert names(net.named_buffers()) == ["steps", "cache"]
    assert names(net.named_modules()) == ["", "first", "blocks", "blocks.0", "blocks.1"]
    assert names(net.named_modules(remove_duplicate=False))[-1] == "again"
    assert names(net.named_children()) == ["first", "blocks"]
    assert list(net.children()) == [net.first, net.blocks]
    assert list(net.buffers()) == [net.steps, net.cache]
    assert net.get_submodule("blocks.1") is net.blocks[1]
    with pytest.raises(AttributeError, match=r"'scale' is no module"):
        net.get_submodule("scale.weight")
    with pytest.raises(AttributeError, match="no parameter"):
        net.get_parameter("steps")


def test_attributes_are_ordinary_ones() -> None:
    net = Net()
    assert vars(net)["scale"] is net.scale
    assert vars(net)["first"] is net.first
    assert net.nothing is None
    assert net.size == 3


def test_setting_keeps_what_an_attribute_is() -> None:
    net = Net()
    with pytest.raises(TypeError, match=r"Net\.scale is a parameter and is set to a Tensor: set it to a Parameter"):
        net.scale = aj.tensor([1.0])
    with pytest.raises(TypeError, match=r"Net\.first is a module"):
        net.first = aj.tensor([1.0])
    with pytest.raises(TypeError, match=r"Net\.steps is a buffer"):
        net.steps = 3
    net.nothing = nn.Parameter([1.0])
    net.steps = aj.tensor(5)
    net.first = nn.Identity()
    net.cache = nn.Parameter([1.0])
    assert names(net.named_parameters()) == ["scale", "cache", "nothing", "blocks.1.weight", "blocks.1.bias", "again.weight", "again.bias"]
    assert names(net.named_buffers()) == ["steps"]
    net.scale = None
    assert "scale" not in names(net.named_parameters())


def test_deleting_takes_out() -> None:
    net = Net()
    del net.scale, net.first, net.steps
    assert names(net.named_parameters()) == ["blocks.1.weight", "blocks.1.bias", "again.weight", "again.bias"]
    assert names(net.named_buffers()) == ["cache"]
    with pytest.raises(AttributeError):
        del net.scale


def test_registering_checks_names_and_kinds() -> None:
    net = Net()
    with pytest.raises(KeyError, match=r"without '\.'"):
        net.register_buffer("a.b", aj.tensor(1.0))
    with pytest.raises(KeyError, match="not empty"):
        net.add_module("", nn.Identity())
    with pytest.raises(KeyError, match="has an attribute 'forward' already"):
        net.add_module("forward", nn.Identity())
    with pytest.raises(TypeError, match="has to be a Parameter or None, got a Tensor"):
        net.register_parameter("new", aj.tensor(1.0))
    with pytest.raises(TypeError, match="has to be a Module"):
        net.register_module("new", 3)       # type: ignore[arg-type]


def test_forgetting_to_initialise_is_said() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            self.linear = nn.Linear(2, 2)

    class Empty(nn.Module):
        def __init__(self) -> None:
            self.size = 2

    with pytest.raises(AttributeError, match=r"Forgetful is not initialised, cannot set 'linear'.*super\(\).__init__\(\) before"):
        Forgetful()
    with pytest.raises(AttributeError, match=r"Empty.__init__ has to call super\(\).__init__\(\)"):
        list(Empty().parameters())
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Empty().eval()


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'frist'") as caught:
        Net().frist(1)
    assert caught.value.name == "frist"
    assert isinstance(caught.value.obj, Net)


def test_forward_has_to_be_defined() -> None:
    with pytest.raises(NotImplementedError, match=r"Module defines no forward\(\)"):
        nn.Module()(1)


def test_train_and_eval_reach_all_modules() -> None:
    net = Net()
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())


def test_requires_grad_and_zero_grad() -> None:
    net = Net()
    x = aj.tensor(np.ones((1, 2), np.float32))
    net(x).sum().backward()
    assert net.scale.grad is not None
    gradient = net.scale.grad
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is gradient
    np.testing.assert_array_equal(gradient.numpy(), [0.0])
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())
    assert net.requires_grad_(False) is net
    assert not net(x).requires_grad


def test_apply_goes_from_inside_out() -> None:
    seen: list[str] = []
    net = Net()
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_conversion_keeps_the_objects() -> None:
    net = Net()
    before = list(net.parameters())
    net(aj.tensor(np.ones((1, 2), np.float32))).sum().backward()
    values = net.first.weight.detach().numpy().astype(np.float64)
    assert net.double() is net
    assert all(new is old for new, old in zip(net.parameters(), before, strict=True))
    assert {tensor.dtype.name for tensor in (*net.parameters(), net.cache, net.scale.grad)} == {"float64"}
    assert net.steps.dtype == np.int64
    np.testing.assert_array_equal(net.first.weight.detach().numpy(), values)
    assert net(aj.tensor(np.ones((1, 2)))).dtype == np.float64
    assert net.float().scale.dtype == net.to(np.float32).scale.dtype == np.float32
    assert net.to("cpu") is net
    with pytest.raises(DTypeError, match="cannot be converted to int64"):
        net.to(np.int64)
    with pytest.raises(UnsupportedError, match="the device cuda:1"):
        net.to("cuda:1")


def test_conversion_is_refused_in_a_trace() -> None:
    net = Net()

    @aj.compile
    def convert(x: Any) -> Any:
        net.double()
        return x

    with pytest.raises(TraceError, match="converted within a compiled function"):
        convert(np.ones(2))
    assert net.scale.dtype == np.float32


def test_hooks_see_and_change_arguments_and_output() -> None:
    net, seen = Net(), []
    x = aj.tensor(np.ones((1, 2), np.float32))
    plain = net(x).detach().numpy()

    def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
        seen.append("before")
        assert module is net
        return args[0] * 2.0

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        seen.append("after")
        np.testing.assert_array_equal(args[0].numpy(), 2.0 * x.numpy())
        return output + 1.0

    handles = [net.register_forward_pre_hook(before), net.register_forward_hook(after),
               net.register_forward_hook(lambda module, args, output: seen.append("first"), prepend=True)]
    expected = Net.forward(net, x * 2.0).detach().numpy() + 1.0
    np.testing.assert_allclose(net(x).detach().numpy(), expected, 1e-6)
    assert seen == ["before", "first", "after"]
    for handle in handles:
        handle.remove()
    np.testing.assert_array_equal(net(x).detach().numpy(), plain)
    assert len(seen) == 3


def test_hooks_with_keyword_arguments() -> None:
    net = Net()
    x = aj.tensor(np.ones((1, 2), np.float32))
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {"factor": kwargs["factor"] * 2.0}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, kwargs, output: output * kwargs["factor"], with_kwargs=True)
    np.testing.assert_allclose(net(x, factor=3.0).detach().numpy(), Net.forward(net, x, 36.0).detach().numpy(), 1e-6)


def test_copies_and_pickles_are_independent_and_keep_sharing() -> None:
    net = Net()
    net.steps += 3
    net(aj.tensor(np.ones((1, 2), np.float32))).sum().backward()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.again is twin.first
        assert names(twin.named_parameters()) == names(net.named_parameters())
        assert all(isinstance(parameter, nn.Parameter) and parameter.requires_grad for parameter in twin.parameters())
        assert twin.steps.item() == 3
        with aj.no_grad():
            twin.scale.add_(1.0)
        assert net.scale.item() == 2.0
        assert twin.scale.item() == 3.0
        x = aj.tensor(np.ones((1, 2), np.float32))
        np.testing.assert_allclose(twin(x).detach().numpy(), net(x).detach().numpy() * 1.5, 1e-6)
    assert copy.deepcopy(net).scale.grad is None


def test_a_shallow_copy_shares_what_there_is_and_nothing_more() -> None:
    net = Net()
    twin = copy.copy(net)
    assert twin.first is net.first
    twin.more = nn.Linear(1, 1)
    assert "more.weight" in names(twin.named_parameters())
    assert "more.weight" not in names(net.named_parameters())


def test_parameter() -> None:
    data = aj.tensor([1.0, 2.0])
    parameter = nn.Parameter(data)
    assert repr(parameter) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert isinstance(parameter, aj.Tensor)
    assert parameter.is_leaf
    with aj.no_grad():
        parameter.mul_(2.0)
    np.testing.assert_array_equal(data.numpy(), [2.0, 4.0])
    assert not nn.Parameter([1.0], requires_grad=False).requires_grad
    assert nn.Parameter([1.0]).dtype == np.float32
    with pytest.raises(DTypeError, match="only floating-point tensors can require grad"):
        nn.Parameter([1, 2])
    assert type(parameter * 1.0) is aj.Tensor


def test_text_is_a_tree() -> None:
    assert repr(Net()) == """\
Net(
  (first): Linear(in_features=2, out_features=3, bias=True)
  (blocks): Sequential(
    (0): ReLU()
    (1): Linear(in_features=3, out_features=3, bias=True)
  )
  (again): Linear(in_features=2, out_features=3, bias=True)
)"""
    assert repr(nn.BatchNorm2d(3)) == "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    assert repr(nn.LayerNorm(3, bias=False)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=False)"
    assert repr(nn.GroupNorm(1, 3)) == "GroupNorm(1, 3, eps=1e-05, affine=True, bias=True)"
    assert repr(nn.Dropout(0.25)) == "Dropout(p=0.25, inplace=False)"
    assert repr(nn.MSELoss()) == "MSELoss()"


# -- containers


def test_sequential() -> None:
    first, second, third = nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)
    model = nn.Sequential(first, second)
    assert model.append(third) is model
    assert list(model) == [first, second, third]
    assert (len(model), model[0], model[-1]) == (3, first, third)
    assert list(model[1:]) == [second, third]
    x = aj.tensor(np.ones((4, 2), np.float32))
    np.testing.assert_array_equal(model(x).detach().numpy(), third(second(first(x))).detach().numpy())
    model[1] = nn.Tanh()
    assert isinstance(model[1], nn.Tanh)
    model.insert(1, second)
    assert [type(module).__name__ for module in model] == ["Linear", "ReLU", "Tanh", "Linear"]
    del model[2]
    assert list(model) == [first, second, third]
    assert names(model.named_children()) == ["0", "1", "2"]
    with pytest.raises(IndexError, match="index 3 of a Sequential of 3"):
        model[3]
    named = nn.Sequential(OrderedDict(enter=first, leave=third))
    assert list(named.state_dict()) == ["enter.weight", "enter.bias", "leave.weight", "leave.bias"]
    assert named.leave is third
    assert names(named[1:].named_children()) == ["leave"]


def test_sequential_runs_a_module_as_often_as_it_is_in_it() -> None:
    double = nn.Linear(1, 1, bias=False)
    with aj.no_grad():
        double.weight.fill_(2.0)
    model = nn.Sequential(double, double, double, double)[1:]
    assert model(aj.tensor([[1.0]])).item() == 8.0
    assert len(list(model.parameters())) == 1


def test_module_list_and_dict() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2)])
    layers += [nn.Linear(2, 2), nn.Tanh()]
    assert len(layers) == 3
    assert len(layers[:2]) == 2
    assert len(list(layers.parameters())) == 4
    heads = nn.ModuleDict({"a": nn.Linear(2, 2)})
    heads["b"] = nn.Tanh()
    assert list(heads) == heads.keys() == ["a", "b"]
    assert "b" in heads
    assert heads.items()[1][1] is heads["b"] is heads.values()[1]
    assert isinstance(heads.pop("b"), nn.Tanh)
    assert len(heads) == 1
    with pytest.raises(KeyError, match="c"):
        heads["c"]
    with pytest.raises(NotImplementedError):
        layers(1)


def test_parameter_list() -> None:
    parameters = nn.ParameterList([aj.tensor([1.0]), nn.Parameter([2.0, 3.0])])
    parameters.append(np.zeros((2, 2)))
    assert [parameter.shape for parameter in parameters] == [(1,), (2,), (2, 2)]
    assert names(parameters.named_parameters()) == ["0", "1", "2"]
    parameters[0] = aj.tensor([5.0])
    assert next(iter(parameters.parameters())).item() == 5.0
    assert repr(parameters) == """\
ParameterList(
  (0): Parameter containing: [float32 of size 1]
  (1): Parameter containing: [float32 of size 2]
  (2): Parameter containing: [float64 of size 2x2]
)"""
