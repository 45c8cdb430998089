"""Tensors, modules and optimisers on a device, emulated: what they compute is what they compute on the CPU."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.pytorch_programs import GOLDEN, run

import adjit as aj
from adjit import nn
from adjit.errors import ArgumentError, InPlaceError, ShapeError, UnsupportedError
from adjit.runtime.capture.compiled_operation import Half as CompiledHalf
from adjit.runtime.cuda import devices

EXPECTED = json.loads(GOLDEN.read_text())
RNG = np.random.default_rng(0)
A, B, C = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 5), (5, 3), (4, 5)))


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")


def _writes(a: Any, c: Any) -> Any:
    made = a * 1
    made += c
    made[1] *= 3
    made.t()[0].add_(1.0)
    rows = made[2:]
    rows.mul_(c[2:])
    made.view(-1)[3] = 7
    rows[0, :2] = c[0, :2]
    return made, rows


def _views(a: Any) -> Any:
    made = a * 2
    row = made[1]
    made.mul_(3)
    after = row + 1
    made[0] = row
    return made, after


def _indices(*rows: Any) -> Callable[[Any], Any]:
    return lambda a: a.gather(1, aj.tensor(rows).to(a.device))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "product": (lambda a, b: a @ b, (A, B)), "sum": (lambda a: a.sum(0), (A,)), "softmax": (lambda a: a.softmax(1), (A,)),
    "part": (lambda a: a[1:3, ::2], (A,)), "cat": (lambda a, c: aj.cat([a, c]), (A, C)), "t": (lambda a: a.t().contiguous().view(-1), (A,)),
    "where": (lambda a, c: aj.where(a > 0, a, c), (A, C)), "writes": (_writes, (A, C)), "views": (_views, (A,)),
    "max": (lambda a: a.max(1)[0], (A,)), "layer_norm": (lambda a: nn.functional.layer_norm(a, (5,)), (A,)),
    "cross_entropy": (lambda a: nn.functional.cross_entropy(a, aj.tensor([1, 0, 2, 3], device=a.device)), (A,)),
    "sort": (lambda a: a.sort(1)[0], (A,)), "cumsum": (lambda a: a.cumsum(0), (A,)), "mask": (lambda a: a[a > 0], (A,)),
    "expand": (lambda a: a.unsqueeze(0).expand(3, 4, 5), (A,)),
    "new": (lambda a: a.new_ones(3) + a[0, :3] + aj.zeros(3, device=a.device), (A,)),
    "fill": (lambda a: a.clone().fill_(2.0) * a, (A,)), "unbind": (lambda a: aj.stack(list(a.unbind(0))), (A,)),
    "einsum": (lambda a: aj.einsum("ij,kj->ik", a, a), (A,)), "topk": (lambda a: a.topk(2)[0], (A,)),
    "gather": (_indices([0, 1], [1, 2], [3, 3], [4, 0]), (A,)), "flip": (lambda a: a.flip(0).roll(1, 0), (A,)),
    "double": (lambda a: a.double().sum(), (A,)),
    "conv": (lambda a: nn.functional.conv1d(a[None], aj.ones(2, 4, 3, device=a.device)), (A,)),
}


def _run(program: Callable[..., Any], arrays: tuple[np.ndarray, ...], device: str) -> list[np.ndarray]:
    """Results, gradients, and gradients of these."""
    given = [aj.tensor(array, device=device).requires_grad_() for array in arrays]
    results = program(*given)
    results = results if isinstance(results, tuple) else (results,)
    assert all(result.device.type == device for result in results)
    first = aj.autograd.grad((results[0] * results[0]).sum(), given, create_graph=True)
    sum((each * each).sum() for each in first).backward()
    found = [*results, *first, *(each.grad for each in given)]
    assert all(each.device.type == device for each in found)
    return [each.detach().cpu().numpy() for each in found]


def check(name: str) -> None:
    program, arrays = PROGRAMS[name]
    for here, there in zip(_run(program, arrays, "cpu"), _run(program, arrays, "cuda"), strict=True):
        np.testing.assert_allclose(there, here, rtol=3e-5, atol=1e-5, err_msg=name)
        assert here.dtype == there.dtype


def test_programs_compute_what_they_compute_on_the_cpu() -> None:
    for_each({name: name for name in PROGRAMS}, check, share=3)


def _model() -> Any:
    aj.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.25), nn.Linear(8, 1))


def _losses(model: Any, optimizer: Any, x: Any, wrap: Callable[[Any], Any] = lambda step: step) -> list[float]:
    aj.manual_seed(1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    step = wrap(step)
    return [step(x).item() for _ in range(4)]


@pytest.mark.parametrize("kind", [aj.optim.Adam, lambda params: aj.optim.SGD(params, 0.1, momentum=0.9)])
def test_training_eager_and_compiled(kind: Any) -> None:
    model = _model()
    expected = _losses(model, kind(model.parameters()), aj.tensor(A))
    for wrap in (lambda step: step, aj.compile(device="cuda")):
        other = _model().to("cuda")
        optimizer = kind(other.parameters())
        found = _losses(other, optimizer, aj.tensor(A, device="cuda"), wrap)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        for key, tensor in other.state_dict().items():
            assert tensor.is_cuda
            np.testing.assert_allclose(tensor.cpu().numpy(), model.state_dict()[key].numpy(), rtol=1e-3, atol=1e-4)
        assert all(each.is_cuda for state in optimizer.state.values() for each in state.values() if isinstance(each, aj.Tensor))


def test_a_compiled_step_keeps_everything_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(5, 2).cuda()
    optimizer = aj.optim.Adam(model.parameters())
    x = aj.tensor(A).cuda()

    @aj.compile(device="cuda")
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    step(x)
    addresses = [param.data_ptr() for param in model.parameters()]
    copies: list[int] = []
    used = devices.driver()
    for name in ("copy_in", "copy_out"):
        monkeypatch.setattr(used, name, lambda *arguments: copies.append(1))
    step(x)
    assert not copies
    assert [param.data_ptr() for param in model.parameters()] == addresses
    assert step.cache_info().traces == 1


def test_moves_have_a_derivative() -> None:
    x = aj.tensor(A, requires_grad=True)
    there = x.to("cuda")
    assert there.is_cuda
    assert not there.is_leaf
    assert there.to("cuda") is there
    (gradient,) = aj.autograd.grad((there ** 3).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert x.grad.device.type == "cpu"
    np.testing.assert_allclose(x.grad.numpy(), 6 * A, rtol=1e-6)


def test_what_tensors_say_and_how_they_leave() -> None:
    x = aj.tensor([1.5, 2.0], device="cuda")
    assert repr(x) == "tensor([1.5000, 2.0000], device='cuda:0')"
    assert (x.device, x.get_device(), x.is_cpu) == (aj.device("cuda:0"), 0, False)
    assert (x.tolist(), x[1].item(), float(x[0])) == ([1.5, 2.0], 2.0, 1.5)
    assert x.stride() == (1,)
    assert aj.tensor(x).is_cuda
    assert aj.tensor(x).data_ptr() != x.data_ptr()
    for back in (pickle.loads(pickle.dumps(x)), x.cpu(), aj.tensor(x, device="cpu"), aj.tensor(x.tolist())):
        assert back.device.type == "cpu"
        np.testing.assert_array_equal(back.numpy(), [1.5, 2.0])
    twin = copy.deepcopy(x)
    twin.add_(1.0)
    assert (twin.is_cuda, x.tolist()) == (True, [1.5, 2.0])
    for copied in (x.copy_(aj.tensor([3.0, 4.0])), aj.tensor(x).copy_(other=aj.tensor([3.0, 4.0]))):
        assert (copied.is_cuda, copied.tolist()) == (True, [3.0, 4.0])
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy\. Use Tensor\.cpu\(\) to copy"):
            convert()
    model = nn.Linear(2, 1).to("cuda")
    state = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    model.load_state_dict({name: tensor + 1 for name, tensor in state.items()})
    np.testing.assert_array_equal(model.weight.detach().cpu().numpy(), state["weight"].numpy() + 1)
    assert model.cpu().weight.device.type == "cpu"


def test_states_are_loaded_to_where_their_parameters_are(tmp_path: Path) -> None:
    model = nn.Linear(5, 1).cuda()
    optimizer = aj.optim.Adam(model.parameters())
    model(aj.tensor(A, device="cuda")).sum().backward()
    optimizer.step()
    aj.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint")
    checkpoint = aj.load(tmp_path / "checkpoint")
    assert not checkpoint["model"]["weight"].is_cuda
    assert aj.load(tmp_path / "checkpoint", map_location="cuda")["model"]["weight"].tolist() == model.weight.tolist()
    for state in (checkpoint["optimizer"], optimizer.state_dict()):
        other = aj.optim.Adam(model.parameters())
        other.load_state_dict(state)
        assert all(each.is_cuda for known in other.state.values() for each in known.values())
        other.step()


def test_devices_do_not_mix() -> None:
    here, there = aj.tensor(A), aj.tensor(A, device="cuda")
    for mixed in (lambda: here + there, lambda: aj.cat([there, here]), lambda: nn.Linear(5, 1)(there)):
        with pytest.raises(ArgumentError, match="but found at least two devices, cuda:0 and cpu!"):
            mixed()
    assert (there * aj.tensor(2.0)).is_cuda                  # numbers are copied
    with pytest.raises(UnsupportedError, match="compiled for the CPU"):
        aj.compile(lambda x: x + 1, device="cpu")(there)
    with pytest.raises(ArgumentError, match="compiled for the CPU"):
        aj.compile(lambda: there + 1, device="cpu")()
    with pytest.raises(ArgumentError, match="is on the CPU, and the function is compiled for 'cuda'"):
        aj.compile(lambda x: here + x)(there)
    with pytest.raises(ArgumentError, match=r"a tensor of shape .* is on the CPU, and the function is compiled for 'cuda'"):
        aj.compile(lambda x: x + 1, device="cuda")(here)
    with pytest.raises(UnsupportedError, match="is moved to cpu in a function that is compiled for cuda:0"):
        aj.compile(lambda x: x.cpu() + 1, device="cuda")(there)
    with pytest.raises(UnsupportedError, match="the device cuda:1"):
        here.cuda(1)


def test_compiled_functions_follow_their_tensors() -> None:
    model, x = nn.Linear(5, 1).to("cuda"), aj.tensor(A)
    run = aj.compile(lambda x: model(x).sum())
    there = run(x.cuda())
    assert there.is_cuda
    model.cpu()
    for _ in range(3):
        assert run(x).item() == pytest.approx(there.item(), rel=1e-5)
    model.cuda()
    assert run(x.cuda()).is_cuda
    assert [program.backend for program in run.programs()].count("cuda") == 1
    assert run.cache_info().traces == 2
    of_closure = aj.compile(lambda: (model.weight * 2).sum())
    assert of_closure().is_cuda
    with pytest.raises(UnsupportedError, match="cannot flush"):
        aj.compile(lambda x: x + 1, flush_subnormals=True)(x.cuda())


def test_a_module_that_moves_is_traced_again() -> None:
    model = nn.Linear(5, 1)
    run = aj.compile(lambda x: model(x), device="cuda")
    with pytest.raises(ArgumentError, match="is on the CPU"):
        run(aj.tensor(A, device="cuda"))
    model.to("cuda")
    there = run(aj.tensor(A, device="cuda")).detach().cpu().numpy()
    here = aj.compile(lambda x: model.to("cpu")(x))
    model.to("cpu")
    np.testing.assert_allclose(here(aj.tensor(A)).detach().numpy(), there, rtol=1e-6)
    with pytest.raises(ArgumentError, match="is on the CPU"):
        run(aj.tensor(A, device="cuda"))


def test_programs_follow_the_tensors() -> None:
    """Without device= a program is for the device of its tensors, whether they are arguments, in a closure, or made there."""
    there, model = aj.tensor(A, device="cuda"), nn.Linear(5, 1).to("cuda")
    for made in (aj.compile(model)(there), aj.compile(lambda: there + 1)(),
                 aj.compile(lambda x: x.to("cuda") + aj.zeros(5, device="cuda"))(there[0]),
                 aj.grad(lambda x: (model(x) ** 2).sum())(there), aj.func.vmap(aj.func.grad(lambda x: (x ** 3).sum()))(there)):
        assert made.is_cuda
    assert aj.compile(lambda x: 2 * x)(aj.device_put(A)).device == "cuda"
    on_both = aj.compile(lambda x: x * 2)
    assert [on_both(x).device.type for x in (there, aj.tensor(A), there, aj.tensor(A))] == ["cuda", "cpu", "cuda", "cpu"]
    assert on_both.cache_info().traces == 2


def test_mixed_precision_is_of_one_device() -> None:
    layer, x = nn.Linear(5, 3).to("cuda"), aj.tensor(A, device="cuda")
    with aj.autocast("cuda"):
        assert layer(x).dtype == aj.compile(lambda x: layer(x))(x).dtype == aj.float16
        assert (aj.tensor(A) @ aj.tensor(B)).dtype == aj.float32
    with aj.autocast("cpu", dtype=aj.float16):
        assert layer(x).dtype == aj.float32


def test_compiled_functions_do_not_write_to_views_from_outside() -> None:
    x = aj.tensor(A, device="cuda")
    row = x[1]

    @aj.compile(device="cuda")
    def write(row: Any) -> None:
        row.mul_(2.0)

    with pytest.raises(InPlaceError, match="that is a view"):
        write(row)
    np.testing.assert_array_equal(x.cpu().numpy(), A)

    @aj.compile(device="cuda")
    def both(x: Any, row: Any) -> Any:
        x.mul_(2.0)
        return row + 1

    with pytest.raises(InPlaceError, match="reads a view from outside"):
        both(x, row)


def _detached_views(device: str) -> list[Any]:
    """What tensors hold after writes through detached views, `.data`, views of parameters, and steps of programs."""
    found = []
    hidden = aj.zeros(2, 3, device=device) + 1
    first, turned = hidden[:, 0].detach(), hidden.t().detach()
    first -= 1
    turned += 5
    found += [hidden, first, turned, hidden.data[0].fill_(7.0), hidden]
    layer = nn.Linear(3, 2).to(device)
    layer.weight[0].detach().zero_()
    found.append(layer.weight[0])
    turned_weight = nn.Parameter(aj.ones(3, 2, device=device).t())
    row, optimizer = turned_weight.data[0], aj.optim.SGD([turned_weight], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        (turned_weight ** 2).sum().backward()
        optimizer.step()

    step()
    found += [turned_weight, row]
    plain = nn.Parameter(aj.ones(2, device=device))
    row, optimizer = plain.data[0], aj.optim.SGD([plain], lr=0.1)
    aj.compile(lambda: (optimizer.zero_grad(), (plain * plain).sum().backward(), optimizer.step()))()
    found += [plain, row]
    base = aj.zeros(3, 4, device=device)
    base[1].add_(1)
    found.append(aj.compile(lambda x, y: x.sum() + 2 * y.sum())(base, base[1]))
    given = aj.arange(4.0, device=device).reshape(2, 2)
    found += [aj.compile(view)(given) for view in (lambda x: x[:, 0], lambda x: x.t(), nn.Flatten())]

    def twice(x: Any) -> Any:
        made = x * 2
        return made, made[0]

    made, row = aj.compile(twice)(given)
    row.add_(1)
    return [each.tolist() for each in [*found, made]]


def test_views_that_are_detached_follow_their_base() -> None:
    for there, here in zip(_detached_views("cuda"), _detached_views("cpu"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-6)
    for write in (lambda x: x.expand(2, 6).add_(1), lambda x: x.unfold(0, 3, 1)[0].mul_(2)):
        with pytest.raises(InPlaceError, match="may repeat elements"):
            write(aj.ones(6, device="cuda"))
    row = aj.ones(6, device="cuda").expand(2, 6).transpose(0, 1)[0]
    with pytest.raises(InPlaceError, match="may repeat elements"):
        row.add_(1)
    assert row.tolist() == [1.0, 1.0]       # nothing was written


def test_cards_by_name() -> None:
    assert aj.cuda.is_available()
    assert (aj.cuda.device_count(), aj.cuda.current_device(), aj.cuda.get_device_name()) == (1, 0, "emulated device")
    aj.cuda.set_device(0)
    aj.cuda.synchronize()
    before = aj.cuda.memory_allocated()
    x = aj.zeros(1000, device="cuda")
    assert aj.cuda.memory_allocated() - before == 4 * x.numel()
    del x
    assert aj.cuda.memory_allocated() == before
    free, everything = aj.cuda.mem_get_info()
    assert 0 < free < everything


@pytest.mark.parametrize("make", [
    lambda device: nn.Linear(5, 3, device=device), lambda device: nn.GRU(5, 3, batch_first=True, device=device),
    lambda device: nn.LazyLinear(3, device=device), lambda device: nn.Conv1d(5, 3, 1, device=device),
    lambda device: nn.LayerNorm(5, device=device)])
def test_layers_are_made_on_a_device(make: Any) -> None:
    aj.manual_seed(0)
    layer, x = make("cuda"), aj.tensor(A[None] if not isinstance(make("cpu"), nn.Conv1d) else A.T[None])
    there = layer(x.cuda())
    assert all(param.is_cuda for param in layer.parameters())
    here = layer.cpu()(x)
    for one, other in zip(*(result if isinstance(result, tuple) else (result,) for result in (here, there)), strict=True):
        np.testing.assert_allclose(other.detach().cpu().numpy(), one.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_script_that_chooses_its_device() -> None:
    """One of the PyTorch programs, with mixed precision, on the card that it finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager, compiled = (run("devices", "adjit", compile) for compile in (None, aj.compile(device="cuda")))
    assert eager["kinds"] == [0.0, 0.0, 1.0, 0.0]           # bfloat16, on the CPU, is_cuda, parameters on the CPU
    np.testing.assert_allclose(compiled["losses"], eager["losses"], rtol=1e-4)
    np.testing.assert_allclose(eager["losses"], EXPECTED["devices"]["losses"], rtol=1e-2)      # float16 products


WRITES: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.__setitem__(0, 1), "column": lambda x: x[:, 1].fill_(1), "view": lambda x: x.view(-1)[2].copy_(x[1, 1]),
    "diagonal": lambda x: x.t().diagonal().copy_(x[0, :2].clone()), "unbind": lambda x: x.unbind(1)[2].zero_(),
    "data": lambda x: x.data[1].detach()[0:2].fill_(1), "unfold": lambda x: x.unfold(1, 2, 2)[0].zero_(),
}


def _write_to_view(write: Callable[[Any], Any], dtype: Any) -> None:
    found = []
    for device in ("cuda", "cpu"):
        x = aj.tensor([[3, 0, -2, 5], [7, 1, 0, 0]]).to(dtype).to(device)
        write(x)
        found.append(x.tolist())
    assert found[0] == found[1]


def test_writes_through_views_of_integers_and_masks() -> None:
    for_each({name: (write, aj.bool if name == "item" else aj.int64) for name, write in WRITES.items()}, _write_to_view, share=4)


def test_layouts_of_views_are_those_of_pytorch() -> None:
    """What copies in PyTorch is a copy on a device, too, though each view is one there: strides are known."""
    x = aj.arange(6.0, device="cuda").reshape(2, 3)
    turned, expanded = x.t(), x[:, None].expand(-1, 2, -1)
    assert [each.stride() for each in (turned, x[:, 1], expanded, x.view(3, 2).t()[0])] == [(1, 3), (3,), (3, 0, 1), (2,)]
    assert [each.is_contiguous() for each in (x, turned, x[1], expanded)] == [True, False, True, False]
    with pytest.raises(ShapeError, match="view size is not compatible"):
        turned.view(-1)
    copies = [turned.contiguous(), turned.flatten(), expanded.reshape(-1, 3)]
    copies[0] += 1
    x.zero_()
    assert [each.tolist()[1] for each in copies] == [[2.0, 5.0], 3.0, [0.0, 1.0, 2.0]]
    x.reshape(3, 2)[0] = 7
    assert x.tolist() == [[7.0, 7.0, 0.0], [0.0, 0.0, 0.0]]


def test_places_and_numbers_are_operands() -> None:
    """A loop over places compiles no more than one place does: the integers of an index and the number are operands."""
    made, compiled = [], CompiledHalf.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledHalf, "__init__", lambda half, *given: (made.append(1), compiled(half, *given))[1])
        x, y = (aj.zeros(4, 8, device=device) for device in ("cuda", "cpu"))
        for each in (x, y):
            for k in range(1, 4):
                each[k % 4, 2 * k - 1:2 * k + 2:2] = k / 3
        assert len(made) <= 3           # the place is read, its new content made, and that written; another test may have done the same
    assert x.tolist() == y.tolist()
    w = aj.ones(8, device="cuda", requires_grad=True)
    row = x[2]
    row.copy_(w * 3)                    # a gradient arrives at a view at a place that is an operand
    x.sum().backward()
    assert w.grad.tolist() == [3.0] * 8
    (w.flip(0)[::2] * 2).sum().backward()       # a pad between elements is filled before they are written
    assert w.grad.tolist() == [3.0, 5.0] * 4
