"""Tensors on a device, emulated, beside what is on the CPU: numbers, indices, names of devices, and modules that make tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import for_each

import adjit as aj
from adjit import distributions, nn
from adjit.errors import ArgumentError, IndexingError, UnsupportedError
from adjit.nn.utils import parametrizations

A = np.arange(12.0, dtype=np.float32).reshape(4, 3)


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")


def there(array: Any = A) -> Any:
    return aj.tensor(array, device="cuda")


@pytest.mark.parametrize("module", [aj.amp, aj.cuda.amp])
def test_gradients_of_two_bytes_are_scaled(module: Any) -> None:
    scaler = module.GradScaler() if module is aj.cuda.amp else module.GradScaler("cuda")
    w = there([[1.0], [1.0]]).requires_grad_()
    with aj.cuda.amp.autocast() if module is aj.cuda.amp else aj.autocast("cuda"):
        made = there([[1e-4, 1e-4]]) @ w
    assert made.dtype == aj.float16
    scaler.scale((made.float() * 1e-4).sum()).backward()        # 1e-8 is 0 in float16
    optimizer = aj.optim.SGD([w], lr=1.0)
    scaler.unscale_(optimizer)
    np.testing.assert_allclose(w.grad.cpu().numpy(), [[1e-8], [1e-8]], rtol=2e-3)
    scaler.step(optimizer)


def test_a_scaler_without_a_card_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjit.amp.grad_scaler.is_available", lambda: False)
    assert not aj.amp.GradScaler("cuda").is_enabled()
    assert not aj.cuda.amp.GradScaler().is_enabled()
    assert aj.amp.GradScaler("cpu").is_enabled()


D, V = distributions, np.array([0.25, 0.5], np.float32)
FAMILIES: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda v: D.Uniform(0.0, v + 1), "binomial": lambda v: D.Binomial(1, v),
    "transformed": lambda v: D.TransformedDistribution(D.Normal(v, aj.tensor(1.0)), [D.transforms.AffineTransform(0.0, 2.0)])}


def _family(make: Callable[[Any], Any], draws: bool, value: Any) -> None:
    here, on_card = make(aj.tensor(V)), make(there(V))
    np.testing.assert_allclose(on_card.log_prob(value).cpu().numpy(), here.log_prob(value).numpy(), rtol=1e-5)
    if draws:
        assert on_card.sample().is_cuda


def test_numbers_beside_the_parameters_of_a_distribution() -> None:
    for_each({name: (make, name == "transformed", 1.0 if name == "binomial" else 0.75) for name, make in FAMILIES.items()}, _family)
    v = there(V)
    assert all(each.is_cuda for each in (D.Beta(v, 2.0, False).concentration0, D.StudentT(3.0, v, validate_args=False).df))
    assert aj.normal(v, 1.0).is_cuda
    assert aj.normal(0.0, v).is_cuda


def _drawn(a: Any) -> tuple[Any, Any]:
    aj.manual_seed(3)
    return D.Gamma(a, a).sample(), D.Poisson(10 * a).sample()


def test_compiled_draws_have_the_bits_of_eager_ones_on_the_cpu() -> None:
    a = np.array([0.5, 3.0, 40.0])
    for on_card, here in zip(aj.compile(_drawn)(there(a)), _drawn(aj.tensor(a)), strict=True):
        np.testing.assert_array_equal(on_card.cpu().numpy(), here.numpy())


def test_indices_on_the_cpu() -> None:
    x, rows, mask = there().requires_grad_(), aj.tensor([2, 0, 2]), aj.tensor(A > 4)
    for index in (rows, (slice(1, 3), rows), mask, (slice(None), mask[2])):
        on_cpu = tuple(np.asarray(item) if isinstance(item, aj.Tensor) else item for item in index) if type(index) is tuple else index
        np.testing.assert_array_equal(x[index].detach().cpu().numpy(), A[on_cpu if type(index) is tuple else np.asarray(index)])
    x[rows].sum().backward()
    np.testing.assert_array_equal(x.grad.cpu().numpy()[:, 0], [1, 0, 2, 0])
    for index, value in ((rows, 0.0), (mask, -1.0), (1, aj.tensor([7.0, 8.0, 9.0])), ((slice(None), 1), aj.zeros(4)),
                         (rows, aj.tensor(2.0))):
        written, expected = there(), aj.tensor(A)
        written[index] = value
        expected[index] = value
        np.testing.assert_array_equal(written.cpu().numpy(), expected.numpy())
    written, expected = there(), aj.tensor(A)
    for each in (written, expected):
        each[each > 4] = each[each > 4] * 2
    assert written.tolist() == expected.tolist()
    with pytest.raises(IndexingError, match=r"(?s)out of bounds for axis 0 with size 4.*test_more_device_tensors"):
        there()[rows + 2]
    back = aj.tensor(A)
    back[1] = there(A[0])
    np.testing.assert_array_equal(back[1].numpy(), A[0])
    with pytest.raises(ArgumentError, match="at least two devices"):
        there()[rows] = aj.zeros(3)
    with pytest.raises(ArgumentError, match="at least two devices"):
        aj.tensor(A)[rows.cuda()]


def _parametrised(wrap: Any) -> None:
    layer = wrap(nn.Linear(3, 2).to("cuda"))
    assert all(each.is_cuda for each in (*layer.parameters(), *layer.buffers()))
    assert layer(there()).is_cuda
    if wrap is parametrizations.orthogonal:
        rows = layer.weight.detach().cpu().numpy()
        np.testing.assert_allclose(rows @ rows.T, np.eye(2), atol=1e-5)


def test_parametrisations_on_the_card() -> None:
    wraps = (parametrizations.spectral_norm, parametrizations.orthogonal, nn.utils.spectral_norm)
    for_each({wrap.__module__ + wrap.__name__: wrap for wrap in wraps}, _parametrised, share=3)


def test_statistics_of_batches_that_are_moved() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3)).to("cuda")
    aj.optim.swa_utils.update_bn([(aj.tensor(A), None)], model, device="cuda")
    np.testing.assert_allclose(model[0].running_mean.cpu().numpy(), A.mean(0))


def test_an_optimiser_that_computes_on_the_cpu() -> None:
    """LBFGS holds its history as NumPy's arrays: parameters on a card are copied."""
    found = []
    for device in ("cuda", "cpu"):
        w = aj.tensor([3.0, -1.0], device=device, requires_grad=True)
        optimizer = aj.optim.LBFGS([w], max_iter=3)

        def closure(w: Any = w, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.step(closure)
        found.append(w.detach().cpu().tolist())
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    averaged = aj.optim.swa_utils.AveragedModel(nn.Linear(2, 1), device="cuda")
    assert all(each.is_cuda for each in averaged.module.parameters())


def test_lengths_on_the_cpu() -> None:
    log_probs = np.log(np.full((2, 1, 2), 0.5, np.float32))
    for labels, lengths in ((aj.tensor([[1]]), (aj.tensor([2]), aj.tensor([1]))), (there([[1]]), ([2], [1]))):
        assert nn.functional.ctc_loss(there(log_probs), labels, *lengths).item() == pytest.approx(0.2877, abs=1e-4)


def test_conversions() -> None:
    x = there()
    x[:2].unsqueeze(0).expand(1, 2, 3).zero_()
    assert x.tolist() == [[0.0] * 3, [0.0] * 3, *A[2:].tolist()]
    with pytest.raises(ArgumentError, match="the gradient of a tensor on cuda:0 is there, too, got one on cpu"):
        there().requires_grad_().grad = aj.tensor(A)
    held = aj.device_put(A)
    with pytest.raises(UnsupportedError, match=r"(?s)is read in a traced function .*pass it to the function as an argument"):
        aj.compile(lambda x: x + held, device="cuda")(held)
    x = there()
    copied = x.clone().requires_grad_().numpy(force=True)
    np.testing.assert_array_equal(copied, A)
    made = aj.tensor([1.0, 2.0], dtype=aj.float64).type_as(x)
    assert (made.device, made.dtype) == (x.device, x.dtype)
    draws = [aj.randn(2, generator=aj.Generator(device).manual_seed(1), device=device).tolist() for device in ("cuda", "cpu")]
    assert draws[0] == draws[1]
    array = aj.device_put(A, "cuda:0")
    assert aj.tensor(array).is_cuda
    assert aj.as_tensor(array).data_ptr() == array.address != aj.tensor(array).data_ptr()
    assert aj.tensor(array, device="cpu").tolist() == aj.as_tensor(array, aj.float64, "cpu").tolist() == A.tolist()


def test_names_of_devices() -> None:
    x = there()
    assert aj.device(0) == "cuda:0"
    for made in (aj.tensor(A).to(0), aj.zeros(2, device=0), nn.Linear(2, 2).to(0).weight, nn.Linear(2, 2, device=0).bias):
        assert made.device == x.device
    for name in (x.device, "cuda:0", 0):
        assert aj.compile(lambda x: x + 1, device=name)(x).is_cuda
    assert not aj.compile(lambda x: x + 1, device=aj.device("cpu:0"))(aj.tensor(A)).is_cuda
    with pytest.raises(UnsupportedError, match="the device cuda:1"):
        nn.Linear(2, 2).cuda(1)
    for wrong in (lambda: x.to("cude"), lambda: nn.Linear(2, 2).to("cude"), lambda: aj.zeros(2, device="cude")):
        with pytest.raises(ValueError, match="'cude' is no device: devices are named as"):
            wrong()


def test_a_default_device() -> None:
    cpu, sums = aj.zeros(2), aj.compile(lambda x: x + aj.ones(2))
    with aj.device("cuda") as device:
        assert device == aj.get_default_device() == "cuda"
        made = [aj.tensor([1.0]), aj.tensor(A), aj.zeros(2), aj.rand(2), aj.arange(3), aj.as_tensor([1.0]), aj.as_tensor(cpu),
                aj.asarray([1.0]), aj.eye(2), aj.randint(0, 3, (2,)), nn.Linear(2, 2).weight, nn.LSTM(2, 2).weight_ih_l0,
                nn.BatchNorm1d(2).running_mean, nn.LazyLinear(2).weight, nn.Embedding(3, 2).weight, sums(aj.zeros(2)),
                aj.compile(lambda: aj.zeros(2) + 1)()]
        assert {x.device for x in made} == {aj.device("cuda:0")}
        here = [aj.zeros_like(cpu), aj.rand_like(cpu), aj.full_like(cpu, 1.0), cpu.new_zeros(2), aj.from_numpy(A),
                aj.tensor([1.0], device="cpu"), aj.zeros(2, device="cpu"), nn.Linear(2, 2, device="cpu").weight]
        with aj.device("cpu"):
            here.append(aj.zeros(2))
        assert {x.device for x in here} == {aj.device("cpu")}
        assert aj.zeros(1).is_cuda
    assert not aj.zeros(2).is_cuda
    assert not sums(cpu).is_cuda
    with pytest.raises(UnsupportedError, match="the device mps"), aj.device("mps"):
        pass
    aj.set_default_device("cuda:0")
    assert aj.zeros(2).is_cuda
    aj.set_default_device(None)
    assert aj.get_default_device() == "cpu"
