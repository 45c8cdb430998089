"""The optimisers of tensors: against PyTorch's formulas and PyTorch itself, groups, states in and out, errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.optimizer_formulas import CASES, NAMES

import adjit as aj
from adjit import optim
from adjit.eager.call import known_calls

RNG = np.random.default_rng(0)
START = [RNG.standard_normal(shape) for shape in ((3, 2), (4,), (), (1, 3, 1))]
GRADS = [[np.asarray(RNG.standard_normal(p.shape)) for p in START] for _ in range(10)]


def parameters(dtype: Any = np.float64) -> list[aj.Tensor]:
    return [aj.tensor(p.astype(dtype), requires_grad=True) for p in START]


def set_gradients(params: list[aj.Tensor], step: int) -> None:
    for param, grad in zip(params, GRADS[step], strict=True):
        param.grad = aj.tensor(grad.astype(param.dtype))


def take_steps(optimizer: optim.Optimizer, params: list[aj.Tensor], steps: Any) -> None:
    for step in steps:
        set_gradients(params, step)
        optimizer.step()


def contents(tensors: Any) -> list[np.ndarray]:
    return [tensor.detach().numpy().copy() for tensor in tensors]


def contents_of_state(optimizer: optim.Optimizer) -> dict[tuple[int, str], np.ndarray]:
    return {(number, name): value.numpy() for number, known in optimizer.state_dict()["state"].items() for name, value in known.items()}


def assert_same_state(ours: optim.Optimizer, theirs: optim.Optimizer) -> None:
    left, right = contents_of_state(ours), contents_of_state(theirs)
    assert left.keys() == right.keys()
    for key, value in left.items():
        np.testing.assert_array_equal(value, right[key])


@pytest.mark.parametrize(("kind", "formula", "options"), [(case[0], case[2], case[3]) for case in CASES], ids=NAMES)
@parametrize_within("dtype", [np.float64, np.float32])
def test_ten_steps(kind: str, formula: Callable[..., Iterator[np.ndarray]], options: dict[str, Any], dtype: Any) -> None:
    params = parameters(dtype)
    places = [param.data.numpy() for param in params]
    optimizer = getattr(optim, kind)(params, **options)
    expected = [list(formula(p.astype(dtype).astype(np.float64), [step[i].astype(dtype).astype(np.float64) for step in GRADS], **options))
                for i, p in enumerate(START)]
    for step in range(10):
        take_steps(optimizer, params, [step])
        for param, place, values in zip(params, places, expected, strict=True):
            assert param.dtype == dtype
            assert np.shares_memory(param.data.numpy(), place)
            np.testing.assert_allclose(place, values[step], *((1e-12, 1e-13) if dtype is np.float64 else (1e-6, 1e-6)))


@pytest.mark.parametrize(("kind", "options"), [(case[0], case[3]) for case in CASES], ids=NAMES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ten_steps_beside_torch(kind: str, options: dict[str, Any], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    ours = parameters(dtype)
    theirs = [torch.tensor(p, dtype=getattr(torch, dtype), requires_grad=True) for p in START]
    own = {"weight_decay": 0.25, "lr": 0.03}
    optimizers = [getattr(library, kind)([{"params": params[:2]}, {"params": params[2:], **own}], **options)
                  for library, params in ((optim, ours), (torch.optim, theirs))]
    for step in range(10):
        set_gradients(ours, step)
        for param, grad in zip(theirs, GRADS[step], strict=True):
            param.grad = torch.tensor(grad, dtype=param.dtype)
        for optimizer in optimizers:
            optimizer.step()
        for param, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(param.detach().numpy(), other.detach().numpy(),
                                       *((1e-12, 1e-13) if dtype == "float64" else (1e-6, 1e-6)))
    left, right = (optimizer.state_dict()["state"] for optimizer in optimizers)
    for number, known in right.items():
        for name, value in known.items():
            if value is not None:
                np.testing.assert_allclose(left[number][name].numpy(), value.numpy(), 1e-5, 1e-6)


def test_state_of_torch_is_taken_over() -> None:
    torch = pytest.importorskip("torch")
    for kind, options in (("SGD", {"momentum": 0.8, "dampening": 0.5, "lr": 0.1}), ("AdamW", {"amsgrad": True}),
                          ("RMSprop", {"centered": True})):
        theirs = [torch.tensor(p, requires_grad=True) for p in START]
        their = getattr(torch.optim, kind)(theirs, **options)

        def their_step(step: int, theirs: Any = theirs, their: Any = their) -> None:
            for param, grad in zip(theirs, GRADS[step], strict=True):
                param.grad = torch.tensor(grad)
            their.step()

        for step in range(3):
            their_step(step)
        ours = [aj.tensor(param.detach().numpy(), requires_grad=True) for param in theirs]
        our = getattr(optim, kind)(ours)
        our.load_state_dict(their.state_dict())
        for step in range(3, 6):
            their_step(step)
        take_steps(our, ours, range(3, 6))
        for param, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(param.detach().numpy(), other.detach().numpy(), 1e-12)


def test_groups_have_options_of_their_own() -> None:
    params = parameters()
    optimizer = optim.SGD([{"params": params[:1], "lr": 0.5}, {"params": params[1:3]}], lr=0.25)
    optimizer.add_param_group({"params": params[3], "lr": 0.125})
    take_steps(optimizer, params, [0])
    for param, start, grad, rate in zip(params, START, GRADS[0], (0.5, 0.25, 0.25, 0.125), strict=True):
        np.testing.assert_array_equal(param.detach().numpy(), start - rate * grad)


def test_learning_rate_may_change_without_another_operation() -> None:
    params = parameters()
    optimizer = optim.SGD(params, lr=0.5)
    take_steps(optimizer, params, [0])
    optimizer.param_groups[0]["lr"] = 0.25
    known = list(known_calls)
    take_steps(optimizer, params, [1])
    assert list(known_calls) == known
    for param, start, first, second in zip(params, START, *GRADS[:2], strict=True):
        np.testing.assert_array_equal(param.detach().numpy(), start - 0.5 * first - 0.25 * second)


@pytest.mark.parametrize("rate", [1, np.float64(0.5), np.float32(0.5), aj.tensor(0.5), aj.tensor(np.array(0.5))])
def test_learning_rates_of_other_types_keep_the_dtype(rate: Any) -> None:
    params = parameters(np.float32)
    optimizer = optim.Adam(params, lr=rate)
    take_steps(optimizer, params, [0, 1])
    others = parameters(np.float32)
    take_steps(optim.Adam(others, lr=float(rate)), others, [0, 1])
    for param, other in zip(params, others, strict=True):
        assert param.dtype == np.float32
        np.testing.assert_allclose(param.detach().numpy(), other.detach().numpy(), 1e-6)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_parameters_without_gradient_are_left_alone(kind: str) -> None:
    options = {"momentum": 0.9, "dampening": 0.5} if kind == "SGD" else {}
    params, others = parameters(), parameters()
    optimizer, other = (getattr(optim, kind)(tensors, **options) for tensors in (params, others))
    set_gradients(params, 0)
    params[1].grad = None
    optimizer.step()
    np.testing.assert_array_equal(params[1].detach().numpy(), START[1])
    assert set(optimizer.state) <= {params[0], params[2], params[3]}
    take_steps(optimizer, params, [1])          # the second step of the others is its first
    set_gradients(others, 1)
    others[0].grad = others[2].grad = others[3].grad = None
    other.step()
    np.testing.assert_array_equal(params[1].detach().numpy(), others[1].detach().numpy())
    if kind != "SGD":
        assert [int(optimizer.state[param]["step"]) for param in params] == [2, 1, 2, 2]


def test_no_gradient_at_all() -> None:
    params = parameters()
    optimizer = optim.Adam(params)
    assert optimizer.step() is None
    assert not optimizer.state
    for param, start in zip(params, START, strict=True):
        np.testing.assert_array_equal(param.detach().numpy(), start)


def test_step_is_no_part_of_the_graph() -> None:
    x = aj.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=0.5)
    y = x * x
    y.sum().backward()
    optimizer.step()
    assert x.is_leaf
    assert x.grad_fn is None
    assert x.requires_grad
    y = (x * x).sum()
    optimizer.zero_grad()
    x.grad = aj.tensor([1.0, 1.0])
    optimizer.step()
    with pytest.raises(aj.errors.InPlaceError):
        y.backward()


def test_closure_computes_the_loss_with_gradients_on() -> None:
    x = aj.tensor([3.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=0.25)

    def closure() -> aj.Tensor:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with aj.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 9.0
    assert x.tolist() == [1.5]


def test_zero_grad() -> None:
    params = parameters()
    optimizer = optim.SGD(params)
    set_gradients(params, 0)
    first = params[0].grad
    optimizer.zero_grad(set_to_none=False)
    assert params[0].grad is first
    assert not np.any(first.numpy())
    optimizer.zero_grad()
    assert all(param.grad is None for param in params)


def test_an_optimiser_of_ones_own() -> None:
    class SignDescent(optim.Optimizer):
        def __init__(self, params: Any, lr: float):
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> None:
            with aj.no_grad():
                for group in self.param_groups:
                    for param in group["params"]:
                        param.sub_(param.grad.sign() * group["lr"])

    params = parameters()
    optimizer = SignDescent(params, 0.25)
    take_steps(optimizer, params, [0])
    for param, start, grad in zip(params, START, GRADS[0], strict=True):
        np.testing.assert_array_equal(param.detach().numpy(), start - 0.25 * np.sign(grad))
    assert repr(optimizer) == "SignDescent (\nParameter Group 0\n    lr: 0.25\n)"


# -- states in and out

@pytest.mark.parametrize(("kind", "options"), [(case[0], case[3]) for case in CASES], ids=NAMES)
def test_a_loaded_state_goes_on_bitwise(kind: str, options: dict[str, Any]) -> None:
    params = parameters(np.float32)
    optimizer = getattr(optim, kind)(params, **options)
    take_steps(optimizer, params, range(5))
    saved, kept = optimizer.state_dict(), contents(params)
    assert kind != "SGD" or all(state.keys() == {"momentum_buffer"} for state in saved["state"].values())
    take_steps(optimizer, params, range(5, 10))
    others = [aj.tensor(array, requires_grad=True) for array in kept]
    other = getattr(optim, kind)(others)
    other.load_state_dict(pickle.loads(pickle.dumps(saved)))
    take_steps(other, others, range(5, 10))
    for param, copied in zip(params, others, strict=True):
        np.testing.assert_array_equal(param.detach().numpy(), copied.detach().numpy())
    assert_same_state(optimizer, other)


def test_layout_of_a_state() -> None:
    params = parameters()
    optimizer = optim.AdamW([{"params": params[:3]}, {"params": params[3:], "lr": 0.5}], betas=(0.5, 0.75))
    set_gradients(params, 0)
    params[0].grad = None
    optimizer.step()
    state = optimizer.state_dict()
    options = {"lr": 1e-3, "betas": (0.5, 0.75), "eps": 1e-8, "weight_decay": 1e-2, "amsgrad": False, "maximize": False}
    assert state["param_groups"] == [{**options, "params": [0, 1, 2]}, {**options, "lr": 0.5, "params": [3]}]
    assert list(state["state"]) == [1, 2, 3]
    assert {name: (value.shape, value.dtype) for name, value in state["state"][1].items()} == {
        "step": ((), np.dtype(np.int64)), "exp_avg": ((4,), np.dtype(np.float64)), "exp_avg_sq": ((4,), np.dtype(np.float64))}


def test_a_state_is_a_copy() -> None:
    params = parameters()
    optimizer = optim.SGD(params, momentum=0.9)
    take_steps(optimizer, params, [0])
    saved = optimizer.state_dict()
    before = saved["state"][0]["momentum_buffer"].numpy().copy()
    optimizer.load_state_dict(saved)
    take_steps(optimizer, params, [1])
    np.testing.assert_array_equal(saved["state"][0]["momentum_buffer"].numpy(), before)
    assert saved["param_groups"][0]["params"] == [0, 1, 2, 3]


def test_deepcopy_and_pickle() -> None:
    params = parameters()
    optimizer = optim.Adam(params, amsgrad=True)
    take_steps(optimizer, params, range(3))
    for others, other in (copy.deepcopy((params, optimizer)), pickle.loads(pickle.dumps((params, optimizer)))):
        assert other.param_groups[0]["params"][0] is others[0]
        kept = contents(params)
        take_steps(other, others, range(3, 5))
        for param, before in zip(params, kept, strict=True):
            np.testing.assert_array_equal(param.detach().numpy(), before)
        own, own_optimizer = copy.deepcopy((params, optimizer))
        take_steps(own_optimizer, own, range(3, 5))
        for left, right in zip(own, others, strict=True):
            np.testing.assert_array_equal(left.detach().numpy(), right.detach().numpy())


def broken(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    params = parameters()
    optimizer = optim.Adam(params)
    take_steps(optimizer, params, [0])
    state = optimizer.state_dict()
    change(state)
    return state


@pytest.mark.parametrize(("change", "words"), [
    (lambda s: s.pop("state"), 'a state is a dict with "state" and "param_groups"'),
    (lambda s: s["param_groups"].append({}), "2 parameter groups, the optimiser has 1"),
    (lambda s: s["param_groups"][0]["params"].pop(), "group 0 has 3 parameters, the optimiser's group 4"),
    (lambda s: s["param_groups"][0].pop("betas"), "group 0 has no betas"),
    (lambda s: s["param_groups"][0].update(lr=-1.0), "group 0: invalid learning rate: -1.0"),
    (lambda s: s["state"].update({7: {}}), "state of parameter 7, which is in no group"),
    (lambda s: s["state"][1].update(exp_avg=aj.tensor([1.0])), r"exp_avg of parameter 1 has the shape \(1,\), expected \(4,\)"),
    (lambda s: s["state"][0].update(step=aj.tensor([1, 2])), r"step of parameter 0 has the shape \(2,\), expected \(\)"),
])
def test_states_that_do_not_fit(change: Callable[[dict[str, Any]], Any], words: str) -> None:
    params = parameters()
    optimizer = optim.Adam(params, lr=0.5)
    take_steps(optimizer, params, [3, 4])
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match=words):
        optimizer.load_state_dict(broken(change))
    assert optimizer.state_dict()["param_groups"] == before["param_groups"]
    for number, known in optimizer.state_dict()["state"].items():
        for name, value in known.items():
            np.testing.assert_array_equal(value.numpy(), before["state"][number][name].numpy())


def test_all_misfits_are_told_at_once() -> None:
    def change(state: dict[str, Any]) -> None:
        state["state"][0]["exp_avg"] = aj.tensor([1.0])
        state["state"][2]["exp_avg_sq"] = aj.tensor([1.0])

    with pytest.raises(ValueError, match=r"exp_avg of parameter 0 .*\n.*exp_avg_sq of parameter 2"):
        optim.Adam(parameters()).load_state_dict(broken(change))


def test_repr() -> None:
    assert repr(optim.SGD(parameters(), lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n"
        "    weight_decay: 0\n)")


def test_named_parameters() -> None:
    params = parameters()
    optimizer = optim.SGD([("a", params[0]), ("b", params[1])])
    assert optimizer.param_groups[0]["params"] == params[:2]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]


# -- errors

ONE = [aj.tensor([1.0], requires_grad=True)]


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: optim.SGD(ONE, lr=-0.1), ValueError, "invalid learning rate: -0.1"),
    (lambda: optim.SGD(ONE, lr=float("nan")), ValueError, "invalid learning rate: nan"),
    (lambda: optim.SGD(ONE, momentum=-0.1), ValueError, "invalid momentum value: -0.1"),
    (lambda: optim.SGD(ONE, weight_decay=-0.1), ValueError, "invalid weight_decay value: -0.1"),
    (lambda: optim.SGD(ONE, nesterov=True), ValueError, "Nesterov momentum requires a momentum"),
    (lambda: optim.SGD(ONE, momentum=0.9, dampening=0.1, nesterov=True), ValueError, "zero dampening"),
    (lambda: optim.Adam(ONE, betas=(1.0, 0.9)), ValueError, "invalid beta parameter at index 0"),
    (lambda: optim.AdamW(ONE, betas=(0.9, -1.0)), ValueError, "invalid beta parameter at index 1"),
    (lambda: optim.Adam(ONE, eps=-1.0), ValueError, "invalid epsilon value: -1.0"),
    (lambda: optim.RMSprop(ONE, alpha=-1.0), ValueError, "invalid alpha value: -1.0"),
    (lambda: optim.Adagrad(ONE, lr_decay=-1.0), ValueError, "invalid lr_decay value: -1.0"),
    (lambda: optim.SGD([{"params": ONE, "lr": -1.0}]), ValueError, "invalid learning rate: -1.0"),
    (lambda: optim.SGD([]), ValueError, "empty list of parameters"),
    (lambda: optim.SGD(ONE[0]), TypeError, "got one tensor"),
    (lambda: optim.SGD([np.ones(2)]), TypeError, "updates tensors, got a ndarray"),
    (lambda: optim.SGD([aj.tensor([1])]), aj.errors.DTypeError, "one of dtype int64"),
    (lambda: optim.SGD([ONE[0] * 2]), ValueError, "updates leaves of the graph"),
    (lambda: optim.SGD(ONE * 2), ValueError, "appears more than once"),
    (lambda: optim.SGD([{"params": ONE}, {"params": ONE}]), ValueError, "appears more than once"),
    (lambda: optim.SGD([{"params": {ONE[0]}}]), TypeError, "pass a list instead of a set"),
    (lambda: optim.SGD([("a", ONE[0]), aj.tensor([1.0])]), ValueError, "either all parameters of a group have names"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_refused_group_is_not_added() -> None:
    optimizer = optim.SGD(parameters())
    with pytest.raises(ValueError):
        optimizer.add_param_group({"params": ONE, "lr": -1.0})
    assert len(optimizer.param_groups) == 1
