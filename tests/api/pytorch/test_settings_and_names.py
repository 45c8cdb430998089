"""Names, settings and errors that PyTorch programs rely on: modules by PyTorch's places, default dtypes, autocast, scalers, hooks."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import numpy as np
import pytest
from support.each import for_each

import adjit as aj
from adjit import nn
from adjit.amp import cuda as amp_cuda
from adjit.nn import functional as F
from adjit.pytorch_modules import PLACES

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def test_modules_by_pytorchs_places() -> None:
    def check(place: str) -> None:
        home, _, last = f"adjit.{place}".rpartition(".")
        before = getattr(importlib.import_module(home), last, None)
        module = importlib.import_module(f"adjit.{place}")
        assert before is None or before is module       # it hides no function
        name = place.rpartition(".")[2]
        assert module is importlib.import_module(f"adjit.{place}")
        with pytest.raises(AttributeError, match=place):
            module.nonsense     # noqa: B018
        if place.startswith("optim."):
            assert any(each.lower() == name for each in dir(aj.optim) if hasattr(module, each))
        if place.startswith("distributions."):
            assert any(each.lower() == name.replace("_", "").lower() for each in dir(aj.distributions) if hasattr(module, each))

    for_each([(place, (place,)) for place in PLACES], check)
    for place, name, found in (
            ("nn.modules", "Module", nn.Module), ("nn.modules.module", "Module", nn.Module), ("nn.modules.conv", "Conv2d", nn.Conv2d),
            ("optim.lr_scheduler", "_LRScheduler", aj.optim.lr_scheduler.LRScheduler), ("utils.data.dataset", "Dataset",
            aj.utils.data.Dataset), ("autograd.function", "Function", aj.autograd.Function),
            ("cuda.amp", "GradScaler", amp_cuda.GradScaler)):
        assert getattr(importlib.import_module(f"adjit.{place}"), name) is found
    for place, name, kind in (("batchnorm", "_BatchNorm", nn.BatchNorm2d), ("loss", "_Loss", nn.MSELoss), ("conv", "_ConvNd", nn.Conv1d)):
        assert issubclass(kind, getattr(importlib.import_module(f"adjit.nn.modules.{place}"), name))
    assert nn.modules.utils._pair(3) == (3, 3)
    assert pickle.loads(pickle.dumps(nn.modules.activation.ReLU)) is nn.ReLU


def test_a_default_dtype() -> None:
    double = aj.compile(lambda x: aj.zeros(2) + x)
    ones = aj.tensor([1, 1])
    assert double(ones).dtype == np.float32
    try:
        aj.set_default_dtype(aj.float64)
        made = (aj.tensor([1.0]), aj.zeros(2), aj.rand(2), aj.Tensor([1]), ones / 2, ones * 0.5, nn.Linear(2, 2).weight, double(ones),
                nn.BatchNorm1d(2).running_mean, aj.linspace(0, 1, 3))
        assert {x.dtype for x in made} == {np.dtype(np.float64)}
        assert aj.get_default_dtype() is aj.float64
        assert aj.finfo().bits == 64
        with pytest.raises(TypeError, match="only floating-point types"):
            aj.set_default_dtype(aj.int64)
    finally:
        aj.set_default_dtype(aj.float32)
    assert double(ones).dtype == aj.tensor([1.0]).dtype == np.float32
    assert double.cache_info().traces == 2


def test_autocast() -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)), aj.tensor(X)

    def step(x: Any) -> Any:
        with aj.autocast("cpu", dtype=aj.float16):
            out = model(x)
            loss = nn.functional.mse_loss(out, aj.zeros(4, 2))
        return out, loss

    plain = model(x)
    for call in (step, aj.compile(step)):
        out, loss = call(x)
        assert (out.dtype, loss.dtype) == (np.float16, np.float32)
        np.testing.assert_allclose(out.detach().float().numpy(), plain.detach().numpy(), 0.02, 0.02)
        model.zero_grad()
        loss.backward()
        assert model[0].weight.grad.dtype == np.float32
    around = aj.compile(lambda x: model(x))
    assert around(x).dtype == np.float32
    with aj.autocast(dtype="float16"):
        assert around(x).dtype == np.float16
        assert aj.is_autocast_enabled()
        with aj.autocast(enabled=False):
            assert model(x).dtype == np.float32
    assert around(x).dtype == np.float32
    with pytest.raises(ValueError, match="bfloat16 or float16"):
        aj.autocast(dtype=aj.float64)


def test_dtypes_within_autocast() -> None:
    """Those of PyTorch, function by function."""
    b, x, labels = aj.ones(2, 3, 3), aj.tensor(X), aj.tensor([0, 1, 0, 1])
    half, image = x.half(), aj.ones(1, 1, 5, 5)
    function = nn.functional
    narrow = (lambda: x @ x.T, lambda: function.linear(x, aj.ones(2, 3)), lambda: b.bmm(b), lambda: aj.einsum("ij,kj->ik", x, x),
              lambda: function.conv2d(image, aj.ones(1, 1, 3, 3)), lambda: nn.MultiheadAttention(4, 2)(*[aj.ones(2, 2, 4)] * 3)[0],
              lambda: function.scaled_dot_product_attention(b, b, b), lambda: nn.LSTM(3, 3)(b)[0], lambda: nn.BatchNorm1d(3)(half),
              lambda: half.softmax(-1), lambda: function.gelu(half))
    wide = (lambda: x.mv(aj.ones(3)), lambda: function.cross_entropy(half, labels), lambda: function.mse_loss(half, half),
            lambda: half.prod(), lambda: aj.cat([x, half]), lambda: x + half, lambda: function.layer_norm(x, (3,)))
    with aj.autocast("cpu", dtype=aj.float16):
        assert [call().dtype.name for call in narrow] == ["float16"] * len(narrow)
        assert [call().dtype.name for call in wide] == ["float32"] * len(wide)
        assert (x.double() @ x.double().T).dtype == np.float64


def test_a_scaler_leaves_steps_out() -> None:
    w = aj.tensor([1.0], requires_grad=True)
    optimizer, scaler = aj.optim.SGD([w], lr=0.5), aj.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    for factor, scale, value in ((1.0, 16.0, 0.5), (np.inf, 8.0, 0.5), (1.0, 16.0, 0.0)):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(ValueError, match="unscale_"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert (scaler.get_scale(), w.item()) == (scale, value)
    other = aj.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 16.0
    assert aj.amp.GradScaler("mps").scale(w) is w


@pytest.mark.parametrize("around", [lambda function: function, aj.compile])
def test_steps_within_the_backward_pass(around: Any) -> None:
    w = aj.tensor([1.0, 2.0], requires_grad=True)

    def update(leaf: Any) -> None:
        with aj.no_grad():
            leaf -= 0.1 * leaf.grad
        leaf.grad = None

    handle = w.register_post_accumulate_grad_hook(update)

    @around
    def step(x: Any) -> Any:
        loss = (w * x * w).sum()
        loss.backward()
        return loss.detach()

    losses = [step(aj.tensor([1.0, 1.0])).item() for _ in range(3)]
    np.testing.assert_allclose(losses, [5.0, 5 * 0.64, 5 * 0.64 ** 2], 1e-6)
    assert w.grad is None
    handle.remove()
    step(aj.tensor([1.0, 1.0]))
    assert w.grad is not None
    with pytest.raises(RuntimeError, match="non-leaf"):
        (w * 2).register_post_accumulate_grad_hook(update)


@pytest.mark.parametrize("around", [lambda function: function, aj.compile])
def test_the_function_batch_norm_updates_statistics(around: Any) -> None:
    norm, x, mean, variance = nn.BatchNorm1d(3), aj.tensor(X), aj.zeros(3), aj.ones(3)
    function = around(lambda x: nn.functional.batch_norm(x, mean, variance, training=True, momentum=0.1))
    for _ in range(2):
        np.testing.assert_allclose(function(x).numpy(), norm(x).detach().numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(mean.numpy(), norm.running_mean.numpy(), 1e-6)
    np.testing.assert_allclose(variance.numpy(), norm.running_var.numpy(), 1e-6)
    nn.functional.batch_norm(X, np.zeros(3), variance.numpy().copy(), training=True)        # arrays stay as they are


def test_layers_are_fused_with_normalisation() -> None:
    aj.manual_seed(0)
    for layer, norm, shape, fuse in ((nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), (2, 2, 5, 5), nn.utils.fuse_conv_bn_eval),
                                     (nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3), (4, 2), nn.utils.fuse_linear_bn_eval)):
        x = aj.randn(*shape)
        norm(layer(x))      # statistics
        with aj.no_grad():
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.uniform_(-1, 1)
        expected = norm.eval()(layer.eval()(x)).detach().numpy()
        np.testing.assert_allclose(fuse(layer, norm)(x).detach().numpy(), expected, 1e-5, 1e-5)
        with pytest.raises(ValueError, match="eval"):
            fuse(layer.train(), norm)


@pytest.mark.parametrize(("kind", "function"), [("LSTMCell", aj.lstm_cell), ("GRUCell", aj.gru_cell), ("RNNCell", aj.rnn_tanh_cell)])
def test_cells_as_functions(kind: str, function: Any) -> None:
    cell, x, h = getattr(nn, kind)(3, 2), aj.tensor(X), aj.tensor(X[:, :2])
    state = (h, h * 2) if kind == "LSTMCell" else h
    found, expected = function(x, state, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh), cell(x, state)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-5, 1e-6)


def test_the_precision_of_products_is_noted() -> None:
    aj.set_float32_matmul_precision("high")
    assert aj.get_float32_matmul_precision() == "high"
    aj.set_float32_matmul_precision("highest")
    assert repr(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))).startswith("ParametrizedLinear(\n  in_features=2, out")


def test_words_and_dtypes() -> None:
    one_hot, x = nn.functional.one_hot, aj.tensor(X)
    for call, words in ((lambda: one_hot(aj.tensor([3]), 2), "smaller than num_classes"),
                        (lambda: one_hot(aj.tensor([-1])), "non-negative"),
                        (lambda: aj.linalg.inv(aj.zeros(2, 2)), "input matrix is singular"),
                        (lambda: aj.zeros(2, 2).inverse(), "input matrix is singular"),
                        (lambda: aj.linalg.cholesky(aj.stack([aj.eye(2), -aj.eye(2)])), r"Batch element 1.*not positive-definite"),
                        (lambda: aj.linalg.solve(aj.zeros(2, 2), aj.ones(2)), "solver failed because the input matrix is singular"),
                        (lambda: aj.where(x > 1, x), "invalid combination of arguments"),
                        (lambda: aj.func.vmap(lambda a, b: a + b)(aj.ones(2), aj.ones(3)), r"2 for a .* 3 for b")):
        with pytest.raises((IndexError, TypeError, RuntimeError, ValueError), match=words):
            call()
    assert issubclass(aj.linalg.LinAlgError, RuntimeError)
    assert aj.outer(aj.tensor([1, 2]), aj.tensor([1.0])).dtype == np.float32
    assert aj.fft.rfft(x, dim=0).shape == (3, 3)
    assert aj.fft.fftn(input=x, dim=(0, 1)).shape == (4, 3)
    assert aj.vmap(lambda a: a.sum(), in_dims=1)(x).shape == (3,)
    assert aj.LongTensor([2 ** 53 + 1]).item() == 2 ** 53 + 1
    assert x.type(aj.DoubleTensor).dtype == np.float64
    assert x.shape[1:].numel() == 3
    assert aj.linalg.lstsq(x, aj.ones(4, 1)).solution.shape == (3, 1)


def test_adam_with_decoupled_decay_is_adamw() -> None:
    found = []
    for make in (lambda p: aj.optim.Adam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
                 lambda p: aj.optim.AdamW(p, lr=0.1, weight_decay=0.1)):
        w = aj.tensor([1.0, 2.0], requires_grad=True)
        optimizer = make([w])
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        found.append(w.tolist())
    assert found[0] == found[1]


def test_results_are_written_into_out() -> None:
    out, pair = aj.empty(2), (aj.empty(2), aj.empty(2, dtype=aj.int64))
    assert aj.add(aj.ones(2), 1, out=out) is out
    assert out.tolist() == [2.0, 2.0]
    assert aj.cat([aj.ones(1), aj.zeros(1)], out=out).tolist() == out.tolist() == [1.0, 0.0]
    assert aj.stack([aj.ones(2), aj.ones(2)], out=aj.empty(0)).shape == (2, 2)
    values, indices = aj.max(aj.tensor([[1.0, 3.0], [5.0, 2.0]]), 0, out=pair)
    assert values is pair[0]
    assert pair[0].tolist() == [5.0, 3.0]
    assert indices.tolist() == [1, 0]
    with pytest.raises(ValueError, match="don't support automatic differentiation"):
        aj.exp(aj.zeros(2, requires_grad=True), out=out)
    with pytest.raises(TypeError, match="can't be cast"):
        aj.exp(aj.zeros(2), out=aj.empty(2, dtype=aj.int64))
    with pytest.raises(ValueError, match="out= has the shape"):
        aj.exp(aj.zeros(3), out=out)


def test_scatter_reduces() -> None:
    index = aj.tensor([0, 0, 1])
    assert aj.ones(3).scatter_(0, index, aj.tensor([1.0, 2.0, 3.0]), reduce="add").tolist() == [4.0, 4.0, 1.0]
    assert aj.full((3,), 2.0).scatter(0, index, aj.tensor([1.0, 2.0, 3.0]), reduce="multiply").tolist() == [4.0, 6.0, 2.0]
    with pytest.raises(ValueError, match="'add', 'multiply' or None"):
        aj.ones(3).scatter(0, index, 1.0, reduce="sum")


def test_differences_and_repeats_take_pytorchs_arguments() -> None:
    x = aj.tensor([1.0, 4.0, 9.0], requires_grad=True)
    made = aj.diff(x, prepend=aj.tensor([0.0]), append=aj.tensor([16.0]))
    assert made.tolist() == [1.0, 3.0, 5.0, 7.0]
    assert aj.repeat_interleave(aj.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    assert x.detach().repeat_interleave(aj.tensor([1, 0, 2]), output_size=3).tolist() == [1.0, 9.0, 9.0]
    with pytest.raises(ValueError, match="output_size is 4"):
        x.repeat_interleave(aj.tensor([1, 0, 2]), output_size=4)


def test_print_options() -> None:
    x = aj.tensor([0.125, 1e-6])
    aj.set_printoptions(precision=2, sci_mode=False)
    try:
        assert str(x) == "tensor([0.12, 0.00])"
        aj.set_printoptions(profile="full")
        assert "..." not in str(aj.zeros(2000))
        with pytest.raises(ValueError, match="profile is one of"):
            aj.set_printoptions(profile="long")
    finally:
        aj.set_printoptions(profile="default")
    assert str(x) == "tensor([1.2500e-01, 1.0000e-06])"


def test_old_names_of_reductions() -> None:
    x, y, labels = aj.eye(3), aj.ones(3, 3), aj.tensor([0, 1, 2])
    with pytest.warns(UserWarning, match="write reduction='sum'"):
        assert F.mse_loss(x, y, False).item() == 6.0
    with pytest.warns(UserWarning, match="write reduction='none'"):
        assert nn.CrossEntropyLoss(None, None, -100, False)(x, labels).shape == (3,)
    with pytest.warns(UserWarning, match="write reduction='sum'"):
        summed = nn.CrossEntropyLoss(None, False)(x, labels)
    np.testing.assert_allclose(summed.item(), F.cross_entropy(x, labels, reduction="sum").item())
    for call in (lambda: F.mse_loss(x, y, "sum"), lambda: F.nll_loss(x, labels, None, -100)):
        with pytest.raises(ValueError, match="size_average is True, False or None"):
            call()


def test_tables_of_a_module() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert [*model._modules] == ["0", "1"]
    assert [*model[0]._parameters] == ["weight", "bias"]
    assert [*model[1]._buffers] == ["running_mean", "running_var", "num_batches_tracked"]
    model[0]._parameters["bias"] = None
    del model._modules["1"]
    assert [name for name, _ in model.named_parameters()] == ["0.weight"]
    with pytest.raises(KeyError):
        model._parameters["0"]


def test_initial_values_of_a_generator() -> None:
    made = [nn.init.kaiming_normal_(aj.empty(3, 2), generator=aj.Generator().manual_seed(seed)).tolist() for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(("run", "numpys", "text"), [
    (lambda: aj.ones(2, 3) @ aj.ones(2, 3), ValueError, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"),
    (lambda: aj.ones(4, 2) + aj.ones(3), ValueError,
     r"size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 1"),
    (lambda: aj.cat([aj.ones(2, 3), aj.ones(2, 4)]), RuntimeError, "sizes of tensors must match except in dimension 0"),
    (lambda: aj.ones(2, requires_grad=True).numpy(), RuntimeError, r"Can't call numpy\(\) on Tensor that requires grad"),
    (lambda: F.cross_entropy(aj.ones(2, 3), aj.tensor([0, 3])), IndexError, "Target 3 is out of bounds"),
    (lambda: F.embedding(aj.tensor([5]), aj.ones(3, 2)), IndexError, "index out of range in self"),
    (lambda: nn.Linear(3, 2)(aj.ones(5, 4)), ValueError, r"mat1 and mat2 shapes cannot be multiplied \(5x4 and 3x2\)"),
    (lambda: F.linear(aj.tensor(1.0), aj.ones(2, 3)), ValueError, "x of shape"),
    (lambda: nn.Conv2d(3, 2, 3)(aj.ones(1, 4, 8, 8)), ValueError, r"input\[1, 4, 8, 8\] to have 3 channels, but got 4 channels instead"),
    (lambda: aj.ones(6).view(4, 2), ValueError, r"shape '\[4, 2\]' is invalid for input of size 6"),
    (lambda: aj.ones(2, 3).t().view(6), ValueError, "view size is not compatible with input tensor's size and stride"),
    (lambda: aj.ones(2, requires_grad=True).clone().backward(), ValueError, "grad can be implicitly created only for scalar outputs"),
    (lambda: bool(aj.ones(2)), ValueError, "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: aj.ones(2).item(), ValueError, "a Tensor with 2 elements cannot be converted to Scalar"),
    (lambda: aj.ones(3)[5], IndexError, "out of bounds"),
    (lambda: aj.tensor([1, 2]).mean(), TypeError, "floating-point"),
])
def test_errors_are_caught_as_pytorchs(run: Any, numpys: type[Exception], text: str) -> None:
    with pytest.raises(RuntimeError, match=text) as caught:
        run()
    assert isinstance(caught.value, numpys)


def test_lists_of_numbers_of_several_dtypes() -> None:
    for numbers, dtype in (([np.float32(3.0), 2], np.float32), ([np.float16(3.0), 2], np.float16), ([np.int32(3), 2.5], np.float32),
                           ([np.ones(2, np.float32), [1, 2]], np.float32), ([np.float64(3.0), 2], np.float64),
                           ([aj.tensor(1.0), 2], np.float32), ([np.complex64(1), 2.0], np.complex64)):
        assert aj.tensor(numbers).dtype == dtype


@pytest.mark.parametrize(("draw", "what"), [
    (lambda: aj.zeros(2).normal_(0, -1), "std >= 0, but found std=-1"),
    (lambda: aj.zeros(2).uniform_(1, 0), "to - from >= 0"),
    (lambda: aj.zeros(2).exponential_(0), "lambd > 0"),
    (lambda: aj.zeros(2).geometric_(1.5), r"p in \(0, 1\)"),
    (lambda: aj.zeros(2).bernoulli_(1.5), r"p in \[0, 1\]"),
    (lambda: aj.tensor([0.5, 2.0]).bernoulli(), "found 2.0 among probabilities"),
    (lambda: aj.zeros(2).cauchy_(0, -1), "sigma > 0"),
    (lambda: aj.zeros(2).log_normal_(0, -1), "std > 0"),
    (lambda: aj.normal(0.0, -1.0, (2,)), "std >= 0"),
    (lambda: aj.normal(aj.zeros(2), aj.tensor([1.0, -3.0])), "found -3.0 among std"),
    (lambda: aj.poisson(aj.tensor([-1.0])), "rates >= 0"),
    (lambda: nn.init.normal_(aj.zeros(2), 0.0, -1.0), "std >= 0"),
    (lambda: nn.init.uniform_(aj.zeros(2), 1.0, 0.0), "b - a >= 0"),
    (lambda: aj.arange(3, 0), "inconsistent with step sign"),
])
def test_parameters_of_what_is_drawn(draw: Any, what: str) -> None:
    with pytest.raises(RuntimeError, match=what):
        draw()


def test_new_tensors_are_written_into_out() -> None:
    out = aj.empty(3)
    for make in (lambda: aj.zeros(3, out=out), lambda: aj.full((3,), 2, out=out), lambda: aj.arange(3, out=out),
                 lambda: aj.linspace(0, 1, 3, out=out), lambda: aj.logspace(0, 1, 3, out=out), lambda: aj.rand(3, out=out),
                 lambda: aj.randn(3, out=out), lambda: aj.randperm(3, out=out), lambda: aj.randint(0, 9, (3,), out=out)):
        assert make() is out
    assert aj.ones(2, out=out[:2]).tolist() == out[:2].tolist() == [1.0, 1.0]
    whole = aj.empty(0, dtype="int64")
    assert aj.eye(2, out=whole) is whole
    assert whole.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="out= has the shape"):
        aj.zeros(2, out=out)


def test_modules_compile_in_place() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    x, expected = aj.tensor(X), model(aj.tensor(X)).tolist()
    model.compile(backend="interpret")
    y = model(x)
    assert (y.grad_fn.name(), y.tolist()) == ("CompiledBackward", expected)
    for copied in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied(x).grad_fn.name() != "CompiledBackward"
    copied = copy.deepcopy(model)
    copied[0].weight.detach().zero_()
    assert model(x).tolist() == expected
    assert aj.compile(lambda x: model(x) * 2, backend="interpret")(x).tolist() == (2 * y).tolist()
    handle = model.register_forward_hook(lambda module, args, output: output * 0)
    assert not model(x).any()
    handle.remove()
    assert model(x).tolist() == expected


def test_extra_state() -> None:
    class Counting(nn.Module):
        def __init__(self, count: int) -> None:
            super().__init__()
            self.weight, self.count = nn.Parameter(aj.ones(1)), count

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    model = nn.Sequential(Counting(5), nn.Linear(1, 1))
    state = model.state_dict()
    assert [*state] == ["0.weight", "0._extra_state", "1.weight", "1.bias"]
    other = nn.Sequential(Counting(0), nn.Linear(1, 1))
    assert not any(other.load_state_dict(state))
    assert other[0].count == 5
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match=r"missing: 0\._extra_state"):
        other.load_state_dict(state)


def test_assert_close() -> None:
    close = aj.testing.assert_close
    close({"a": [aj.ones(2), 1.0]}, {"a": [aj.ones(2) + 1e-6, 1.0]})
    close(aj.tensor([np.nan]), aj.tensor([np.nan]), equal_nan=True)
    close(aj.ones(2), aj.ones(2).double(), check_dtype=False)
    for actual, expected, text in (
            ([aj.ones(2, 2)], [aj.tensor([[1.0, 1.0], [1.5, 0.0]])],
             r"Mismatched elements: 2 / 4 \(50.0%\)\nGreatest absolute difference: 1.0 at index \(1, 1\) \(up to 1e-05 allowed\)\n"
             r"Greatest relative difference: inf at index \(1, 1\) \(up to 1.3e-06 allowed\)\n\nThe failure occurred for item \[0\]"),
            (aj.tensor([1, 2]), aj.tensor([1, 3]), "Tensor-likes are not equal"), (aj.ones(2), aj.ones(3), "'shape' do not match"),
            (aj.ones(2), aj.ones(2).double(), "'dtype' do not match"), ({"a": 1}, {"b": 1}, "Missing keys in the actual mapping: "),
            ([1], [1, 2], "length of the sequences"), (1.0, 1.5, "Absolute difference: 0.5"),
            (aj.tensor([np.nan]), aj.tensor([np.nan]), "1 / 1")):
        with pytest.raises(AssertionError, match=text):
            close(actual, expected)
    with pytest.raises(AssertionError, match=r"^own words$"):
        close(1.0, 2.0, msg="own words")


def test_bits_are_viewed() -> None:
    x = aj.tensor([1.0, -2.0])
    bits = x.view(aj.int32)
    bits[1] = 0
    assert x.tolist() == [1.0, 0.0]
    assert x.view(aj.uint8).shape == (8,)
    assert x.view(aj.int64).tolist() == [0x3F800000]
    with pytest.raises(RuntimeError, match="view: "):
        aj.ones(3).view(aj.int64)

    @aj.compile
    def roots(x: aj.Tensor) -> aj.Tensor:       # the fast inverse square root of Quake III
        y = (0x5F3759DF - (x.view(aj.int32) >> 1)).view(aj.float32)
        return y * (1.5 - 0.5 * x * y * y)

    np.testing.assert_allclose(roots(aj.tensor([4.0, 0.25])).tolist(), [0.5, 2.0], rtol=2e-3)
