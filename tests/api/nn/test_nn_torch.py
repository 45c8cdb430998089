"""Layers against PyTorch, where it is installed: the same weights, outputs and all gradients in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj

torch = pytest.importorskip("torch")

TOLERANCE = 1e-10


def copied(layer: Any, theirs: Any) -> Any:
    """Our layer with the weights of theirs; the names of both are the same."""
    layer.double()
    theirs.double()
    layer.load_state_dict({name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()})
    return layer


def array(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def outputs(result: Any) -> list[Any]:
    """The tensors of a result, in tuples too."""
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in outputs(item)]
    return [] if result is None else [result]


def compare(layer: Any, theirs: Any, *inputs: np.ndarray, constants: Any = (), **kwargs: Any) -> None:
    """Outputs, gradients of the inputs, gradients of the parameters and buffers are equal; `constants` follow the inputs."""
    copied(layer, theirs)
    ours_in = [aj.tensor(x, requires_grad=True) for x in inputs]
    theirs_in = [torch.tensor(x, requires_grad=True) for x in inputs]
    ours_more = [aj.tensor(x) for x in constants]
    theirs_more = [torch.tensor(x) for x in constants]
    ours_out = outputs(layer(*ours_in, *ours_more, **kwargs))
    theirs_out = outputs(theirs(*theirs_in, *theirs_more, **{
        name: torch.tensor(value) if isinstance(value, np.ndarray) else value for name, value in kwargs.items()}))
    assert len(ours_out) == len(theirs_out) > 0
    ours_sum: Any = 0.0
    theirs_sum: Any = 0.0
    for index, (mine, other) in enumerate(zip(ours_out, theirs_out, strict=True)):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), TOLERANCE, TOLERANCE)
        weight = array(mine.shape, 100 + index)
        ours_sum, theirs_sum = ours_sum + (mine * weight).sum(), theirs_sum + (other * torch.tensor(weight)).sum()
    ours_sum.backward()
    theirs_sum.backward()
    for mine, other in zip(ours_in, theirs_in, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), TOLERANCE, TOLERANCE)
    expected = dict(theirs.named_parameters())
    found = dict(layer.named_parameters())
    assert list(found) == list(expected)
    for name, parameter in found.items():
        np.testing.assert_allclose(parameter.grad.numpy(), expected[name].grad.numpy(), TOLERANCE, TOLERANCE, err_msg=name)
    for name, buffer in theirs.named_buffers():
        np.testing.assert_allclose(dict(layer.named_buffers())[name].numpy(), buffer.numpy(), TOLERANCE, TOLERANCE, err_msg=name)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 5), (2, 3, 2, 5)])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    compare(aj.nn.Linear(5, 3, bias), torch.nn.Linear(5, 3, bias), array(shape))


def test_bilinear() -> None:
    compare(aj.nn.Bilinear(3, 4, 2), torch.nn.Bilinear(3, 4, 2), array((5, 3)), array((5, 4), 1))


@pytest.mark.parametrize("options", [
    {}, {"stride": 2}, {"padding": 1, "dilation": 2}, {"groups": 2, "bias": False}, {"padding": "same"},
    {"padding": 2, "padding_mode": "reflect"}, {"padding": 1, "padding_mode": "replicate"}, {"padding": "same", "padding_mode": "circular"},
], ids=str)
@pytest.mark.parametrize("axes", [1, 2])
def test_convolutions(axes: int, options: dict[str, Any]) -> None:
    ours, theirs = (getattr(library.nn, f"Conv{axes}d")(4, 6, 3, **options) for library in (aj, torch))
    compare(ours, theirs, array((2, 4, 9, 8)[:2 + axes]))


@pytest.mark.parametrize("options", [
    {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1)}, {"kernel_size": 1, "groups": 4},
    {"kernel_size": (3, 2), "dilation": (1, 2)},
], ids=str)
def test_convolutions_with_an_argument_for_each_axis(options: dict[str, Any]) -> None:
    compare(aj.nn.Conv2d(4, 8, **options), torch.nn.Conv2d(4, 8, **options), array((2, 4, 9, 8)))


@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"padding": 1, "stride": 2}, {"ceil_mode": True}], ids=str)
def test_pooling(options: dict[str, Any]) -> None:
    compare(aj.nn.MaxPool2d(2, **options), torch.nn.MaxPool2d(2, **options), array((2, 3, 7, 6)))
    compare(aj.nn.AvgPool2d(2, **options), torch.nn.AvgPool2d(2, **options), array((2, 3, 7, 6)))
    compare(aj.nn.AdaptiveAvgPool2d((2, 3)), torch.nn.AdaptiveAvgPool2d((2, 3)), array((2, 3, 7, 6)))


@pytest.mark.parametrize("name", ["ReLU", "GELU", "Tanh", "Sigmoid", "SiLU", "ELU", "LeakyReLU", "Softplus", "Identity", "Flatten"])
def test_activations(name: str) -> None:
    compare(getattr(aj.nn, name)(), getattr(torch.nn, name)(), array((3, 4, 2)))


@pytest.mark.parametrize(("name", "options"), [
    ("GELU", {"approximate": "tanh"}), ("Softmax", {"dim": 1}), ("LogSoftmax", {"dim": 0}), ("ELU", {"alpha": 0.3}),
    ("LeakyReLU", {"negative_slope": 0.3}), ("Softplus", {"beta": 3.0, "threshold": 2.0}), ("Flatten", {"start_dim": 0, "end_dim": 1}),
])
def test_activations_with_settings(name: str, options: dict[str, Any]) -> None:
    compare(getattr(aj.nn, name)(**options), getattr(torch.nn, name)(**options), array((3, 4, 2)))


@pytest.mark.parametrize("options", [{}, {"elementwise_affine": False}, {"bias": False, "eps": 0.1}], ids=str)
def test_layer_norm(options: dict[str, Any]) -> None:
    compare(aj.nn.LayerNorm((4, 2), **options), torch.nn.LayerNorm((4, 2), **options), array((3, 4, 2)))


@pytest.mark.parametrize("options", [{}, {"affine": False}], ids=str)
def test_group_norm(options: dict[str, Any]) -> None:
    compare(aj.nn.GroupNorm(3, 6, **options), torch.nn.GroupNorm(3, 6, **options), array((2, 6, 4, 3)))


@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"affine": False, "momentum": 0.5}, {"track_running_stats": False}], ids=str)
@pytest.mark.parametrize(("name", "shape"), [("BatchNorm1d", (5, 3)), ("BatchNorm1d", (4, 3, 2)), ("BatchNorm2d", (2, 3, 4, 2))])
def test_batch_norm(name: str, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    ours, theirs = getattr(aj.nn, name)(3, **options), getattr(torch.nn, name)(3, **options)
    for step in range(3):
        ours.zero_grad()
        theirs.zero_grad()
        compare(ours, theirs, array(shape, step) * (1 + step) + step)
    ours.zero_grad()
    theirs.zero_grad()
    compare(ours.eval(), theirs.eval(), array(shape, 9))


def test_embedding() -> None:
    indices = np.array([[1, 2, 1], [0, 3, 3]])
    for options in ({}, {"padding_idx": 3}, {"padding_idx": -4}):
        compare(aj.nn.Embedding(4, 3, **options), torch.nn.Embedding(4, 3, **options), constants=[indices])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_values(reduction: str) -> None:
    prediction, target = array((4, 3)), array((4, 3), 1)
    for name, options in (("MSELoss", {}), ("L1Loss", {}), ("SmoothL1Loss", {"beta": 0.5}), ("HuberLoss", {"delta": 0.7})):
        ours, theirs = (getattr(library.nn, name)(reduction=reduction, **options) for library in (aj, torch))
        compare(ours, theirs, prediction, target)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_probabilities(reduction: str) -> None:
    probability, target, weight = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4, 3))
    compare(aj.nn.BCELoss(weight, reduction=reduction), torch.nn.BCELoss(torch.tensor(weight), reduction=reduction), probability,
            constants=[target])
    compare(aj.nn.BCEWithLogitsLoss(weight, reduction=reduction, pos_weight=weight[0]),
            torch.nn.BCEWithLogitsLoss(torch.tensor(weight), reduction=reduction, pos_weight=torch.tensor(weight[0])), array((4, 3)),
            constants=[target])
    for kind in (reduction, "batchmean"):
        compare(aj.nn.KLDivLoss(reduction=kind), torch.nn.KLDivLoss(reduction=kind), np.log(probability), constants=[target])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2)])
def test_losses_of_labels(shape: tuple[int, ...], reduction: str) -> None:
    weight = np.array([0.5, 1.0, 2.0])
    labels = np.random.default_rng(0).integers(0, 3, shape[:1] + shape[2:])
    labels.flat[0] = -100
    for options in ({}, {"label_smoothing": 0.2}):
        compare(aj.nn.CrossEntropyLoss(weight, reduction=reduction, **options),
                torch.nn.CrossEntropyLoss(torch.tensor(weight), reduction=reduction, **options), array(shape), constants=[labels])
    compare(aj.nn.NLLLoss(weight, reduction=reduction), torch.nn.NLLLoss(torch.tensor(weight), reduction=reduction), array(shape),
            constants=[labels])


RECURRENT = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("GRU", {})]


@pytest.mark.parametrize("options", [
    {}, {"num_layers": 2, "bidirectional": True}, {"num_layers": 3, "batch_first": True}, {"bias": False, "bidirectional": True},
], ids=str)
@pytest.mark.parametrize(("name", "kind"), RECURRENT)
def test_recurrent_networks(name: str, kind: dict[str, Any], options: dict[str, Any]) -> None:
    compare(getattr(aj.nn, name)(3, 4, **kind, **options), getattr(torch.nn, name)(3, 4, **kind, **options), array((5, 2, 3)))


@pytest.mark.parametrize("batch", [(2,), ()])
@pytest.mark.parametrize(("name", "kind"), RECURRENT)
def test_recurrent_networks_with_first_states(name: str, kind: dict[str, Any], batch: tuple[int, ...]) -> None:
    ours, theirs = (getattr(library.nn, name)(3, 4, num_layers=2, bidirectional=True, **kind) for library in (aj, torch))
    copied(ours, theirs)
    states = [array((4, *batch, 4), 1), array((4, *batch, 4), 2)][:2 if name == "LSTM" else 1]

    class Ours(aj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = ours

        def forward(self, x: Any, *states: Any) -> Any:
            return self.inner(x, states if len(states) > 1 else states[0])

    class Theirs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = theirs

        def forward(self, x: Any, *states: Any) -> Any:
            return self.inner(x, states if len(states) > 1 else states[0])

    compare(Ours(), Theirs(), array((5, *batch, 3)), *states)


@pytest.mark.parametrize("shape", [(2, 3), (3,)])
@pytest.mark.parametrize(("name", "kind"), RECURRENT)
def test_cells(name: str, kind: dict[str, Any], shape: tuple[int, ...]) -> None:
    for bias in (True, False):
        compare(getattr(aj.nn, f"{name}Cell")(3, 4, bias=bias, **kind), getattr(torch.nn, f"{name}Cell")(3, 4, bias=bias, **kind),
                array(shape))


@pytest.mark.parametrize("options", [
    {}, {"batch_first": True}, {"bias": False}, {"kdim": 5, "vdim": 3},
], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(options: dict[str, Any], need_weights: bool) -> None:
    ours, theirs = aj.nn.MultiheadAttention(8, 2, **options), torch.nn.MultiheadAttention(8, 2, **options)
    inputs = [array((7, 3, 8)), array((5, 3, options.get("kdim", 8)), 1), array((5, 3, options.get("vdim", 8)), 2)]
    inputs = [np.swapaxes(x, 0, 1) for x in inputs] if options.get("batch_first") else inputs
    compare(ours, theirs, *inputs, need_weights=need_weights)


def test_multihead_attention_with_masks() -> None:
    ours, theirs = aj.nn.MultiheadAttention(8, 2), torch.nn.MultiheadAttention(8, 2)
    inputs = [array((5, 3, 8)), array((5, 3, 8), 1), array((5, 3, 8), 2)]
    causal, padding = np.triu(np.ones((5, 5), bool), 1), np.array([[False] * 5, [False] * 4 + [True], [False] * 3 + [True] * 2])
    for masks in ({"attn_mask": causal}, {"key_padding_mask": padding}, {"attn_mask": causal, "key_padding_mask": padding},
                  {"attn_mask": array((5, 5), 3)}, {"attn_mask": array((6, 5, 5), 4)},
                  {"attn_mask": causal, "average_attn_weights": False}, {"attn_mask": causal, "need_weights": False}):
        ours.zero_grad()
        theirs.zero_grad()
        compare(ours, theirs, *inputs, **masks)
    ours.zero_grad()
    theirs.zero_grad()
    copied(ours, theirs)
    x = aj.tensor(inputs[0])
    by_flag, by_mask = ours(x, x, x, is_causal=True)[0], ours(x, x, x, attn_mask=causal)[0]
    np.testing.assert_allclose(by_flag.detach().numpy(), by_mask.detach().numpy(), 1e-12)
    compare(ours, theirs, inputs[0][:, 0], inputs[1][:, 0], inputs[2][:, 0])


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu", "batch_first": True}], ids=str)
def test_transformer_encoder(options: dict[str, Any]) -> None:
    layers = [library.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options) for library in (aj, torch)]
    compare(*layers, array((5, 3, 8)))
    ours = aj.nn.TransformerEncoder(layers[0], 2, aj.nn.LayerNorm(8))
    theirs = torch.nn.TransformerEncoder(layers[1], 2, torch.nn.LayerNorm(8), enable_nested_tensor=False)
    compare(ours, theirs, array((5, 3, 8)))


def test_texts_of_modules() -> None:
    def build(nn: Any) -> list[Any]:
        return [
            nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, groups=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten()),
            nn.ModuleList([nn.Linear(2, 3), nn.Linear(2, 3), nn.Tanh()]), nn.ModuleDict({"a": nn.Linear(2, 3, bias=False)}),
            nn.LSTM(3, 4, num_layers=2, dropout=0.5, bidirectional=True), nn.GRUCell(3, 4), nn.Embedding(4, 3, padding_idx=0),
            nn.GELU(), nn.Softmax(dim=1), nn.CrossEntropyLoss(), nn.Conv1d(2, 4, 3, dilation=2, bias=False),
            nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Identity(), nn.Bilinear(2, 3, 4), nn.AdaptiveAvgPool2d(1), nn.RNN(3, 4),
        ]
    for ours, theirs in zip(build(aj.nn), build(torch.nn), strict=True):
        assert repr(ours) == repr(theirs)


def test_nodes_of_linear_layers() -> None:
    def names(tensor: Any) -> list[str]:
        found, waiting = [], [tensor.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None:
                found.append(node.name().rpartition("::")[2])
                waiting += [inner for inner, _ in node.next_functions]
        return found

    for shape in ((2, 5), (2, 3, 5), (2, 3, 2, 5)):
        ours, theirs = (library.nn.Linear(5, 3)(library.tensor(np.zeros(shape, np.float32), requires_grad=True)) for library in (aj, torch))
        assert names(ours) == names(theirs)
