"""adjit.nn.functional against torch.nn.functional, where torch is installed: values and gradients in float64, errors of the same cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.nn import functional as F

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
LABELS = np.array([0, 4, 2, -100, 2])
MAP_LABELS = np.array([[0, 4], [-100, 1]])


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape) * 2


def kinks(*shape: int) -> np.ndarray:
    """Numbers that are often equal, and often where functions have kinks."""
    return RNG.integers(-2, 3, shape) * 1.0


def probabilities(*shape: int) -> np.ndarray:
    return RNG.uniform(0.05, 0.95, shape)


X = normal(5, 6)
SCORES = normal(5, 5)
IMAGE = normal(2, 4, 9, 8)
TIES = kinks(2, 3, 8, 9)
C4 = [normal(4) for _ in range(4)]
VARIANCE = np.abs(normal(4)) + 0.1
CLASS_WEIGHT = probabilities(5)
QUERY, KEY, VALUE = normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 6)
MASK = RNG.random((5, 7)) < 0.6
MASK[2] = False
FLOAT_MASK = normal(2, 1, 5, 7)


def same(name: str, *arrays: Any, **options: Any) -> tuple[str, Callable[..., Any], tuple[Any, ...]]:
    """The function of that name with these options, in both libraries. Arrays among the options are converted for torch."""
    text = f"{name} {' '.join(f'{k}={v if not isinstance(v, np.ndarray) else v.shape}' for k, v in options.items())}".strip()
    shapes = "x".join(str(np.shape(array)) for array in arrays if array is not None)

    def of(library: Any, convert: Callable[[Any], Any]) -> Callable[..., Any]:
        fixed = {key: convert(value) if isinstance(value, np.ndarray) else value for key, value in options.items()}
        return lambda *xs: getattr(library, name)(*xs, **fixed)

    return f"{text} {shapes}", of, arrays


CASES = [
    *(same(name, array) for name in ("relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "softsign",
                                     "logsigmoid", "tanh", "sigmoid") for array in (X, kinks(4, 5))),
    same("relu6", X * 5), same("hardtanh", X, min_val=-0.5, max_val=1.5), same("leaky_relu", X, negative_slope=0.3),
    same("elu", X, alpha=0.7), same("gelu", X, approximate="tanh"), same("softplus", X * 4, beta=2.0, threshold=3.0),
    same("softmax", X, dim=0), same("log_softmax", X, dim=1),
    same("linear", normal(3, 2, 4), normal(5, 4), normal(5)), same("linear", normal(4), normal(5, 4)),
    same("linear", normal(3, 4), normal(4)),
    same("linear", normal(0, 4), normal(5, 4), normal(5)),
    same("conv2d", IMAGE, normal(6, 4, 3, 2)), same("conv2d", IMAGE, normal(6, 4, 3, 2), normal(6), stride=2, padding=1),
    same("conv2d", IMAGE, normal(6, 4, 3, 3), stride=(1, 3), padding=(2, 0), dilation=(2, 1)),
    same("conv2d", IMAGE, normal(6, 2, 3, 3), normal(6), groups=2, padding="same"),
    same("conv2d", IMAGE, normal(4, 1, 2, 4), groups=4, padding="same", dilation=2), same("conv2d", IMAGE, normal(3, 4, 1, 1), stride=2),
    same("conv2d", IMAGE, normal(3, 4, 9, 8), normal(3), padding="valid"), same("conv2d", IMAGE[0], normal(3, 4, 2, 2), normal(3)),
    same("conv2d", IMAGE[:0], normal(3, 4, 2, 2), normal(3)), same("conv2d", normal(1, 1, 1, 1), normal(1, 1, 1, 1), padding=1),
    same("conv1d", normal(3, 4, 9), normal(6, 4, 3), normal(6), stride=2, padding=2, dilation=2),
    same("conv1d", normal(4, 9), normal(6, 2, 4), groups=2, padding="same"), same("conv1d", normal(0, 4, 9), normal(6, 4, 3)),
    *(same("max_pool2d", images, **options) for images in (TIES, normal(2, 3, 8, 9), -np.abs(normal(3, 7, 7))) for options in (
        {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": (3, 2), "stride": (1, 2), "ceil_mode": True},
        {"kernel_size": 3, "stride": 3, "padding": (1, 0), "ceil_mode": True}, {"kernel_size": 2, "dilation": 3, "stride": 1})),
    same("max_pool2d", normal(0, 3, 4, 4), kernel_size=2), same("max_pool2d", normal(2, 3, 1, 1), kernel_size=1),
    *(same("avg_pool2d", images, **options) for images in (TIES, normal(3, 7, 7)) for options in (
        {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": (3, 2), "stride": (2, 3), "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": True},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
        {"kernel_size": 2, "divisor_override": 3})),
    *(same("adaptive_avg_pool2d", TIES, output_size=size) for size in (1, 4, (3, 4), (None, 2), (8, 3), (11, 5))),
    same("batch_norm", normal(5, 4), running_mean=C4[0], running_var=VARIANCE),
    same("batch_norm", IMAGE, running_mean=C4[0], running_var=VARIANCE, weight=C4[1], bias=C4[2], eps=0.1),
    same("batch_norm", normal(3, 4, 5), None, None, C4[1], C4[2], training=True),
    same("batch_norm", normal(5, 4), None, None, training=True, eps=0.2),
    same("group_norm", IMAGE, 2, C4[0], C4[1]), same("group_norm", normal(3, 6), 3), same("group_norm", IMAGE, 4, eps=0.3),
    same("group_norm", IMAGE, 1, C4[0]), same("layer_norm", X, (6,)), same("layer_norm", IMAGE, (9, 8), normal(9, 8), normal(9, 8)),
    *(same("normalize", normal(3, 4, 2), p=p, dim=dim) for p, dim in ((2.0, 1), (1.0, 0), (3.0, -1), (float("inf"), 1))),
    same("normalize", np.zeros((2, 3)), eps=0.5),
    same("embedding", np.array([[1, 0, 2], [2, 2, 0]]), normal(3, 4)),
    same("embedding", np.array([1, 0, 1, 2]), normal(3, 4), padding_idx=1),
    same("embedding", np.array([1, 0, 1, 2]), normal(3, 4), padding_idx=-1), same("embedding", np.zeros((0, 2), int), normal(3, 4)),
    same("scaled_dot_product_attention", QUERY, KEY, VALUE), same("scaled_dot_product_attention", QUERY, KEY, VALUE, is_causal=True),
    same("scaled_dot_product_attention", QUERY, KEY, VALUE, scale=0.3),
    same("scaled_dot_product_attention", KEY, QUERY, QUERY, is_causal=True),
    same("scaled_dot_product_attention", QUERY, KEY, VALUE, attn_mask=MASK),
    same("scaled_dot_product_attention", QUERY, KEY, VALUE, FLOAT_MASK),
    same("scaled_dot_product_attention", QUERY[0, 0], KEY[0, 0], VALUE[0, 0]),
    *(same("pad", IMAGE, pad=pad, **options) for pad, options in (
        ((1, 2), {}), ((0, 1, 2, 0), {"value": 0.5}), ((-1, 2, -2, -1), {}), ((2, 1, 1, 3), {"mode": "reflect"}),
        ((2, 1, 1, 3), {"mode": "replicate"}), ((2, 1, 1, 3), {"mode": "circular"}))),
    same("unfold", IMAGE, kernel_size=(3, 2), dilation=2, padding=1, stride=(2, 1)), same("unfold", IMAGE[0], kernel_size=2),
    *(same("cross_entropy", SCORES, LABELS, **options) for options in (
        {}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": CLASS_WEIGHT}, {"weight": CLASS_WEIGHT, "label_smoothing": 0.2},
        {"label_smoothing": 0.1})),
    *(same("cross_entropy", SCORES, np.abs(LABELS) % 5, **options) for options in (
        {"ignore_index": 2, "label_smoothing": 0.1, "weight": CLASS_WEIGHT, "reduction": "sum"}, {"ignore_index": 0},
        {"weight": CLASS_WEIGHT, "reduction": "none", "label_smoothing": 0.3})),
    same("cross_entropy", normal(2, 5, 2), MAP_LABELS, weight=CLASS_WEIGHT, label_smoothing=0.1),
    same("cross_entropy", normal(5), np.array(3)),
    same("cross_entropy", SCORES, np.full(5, -100)), same("cross_entropy", SCORES, np.full(5, -100), reduction="sum"),
    same("cross_entropy", normal(0, 5), np.zeros(0, int)),
    *(same("cross_entropy", SCORES, probabilities(5, 5), **options) for options in (
        {}, {"weight": CLASS_WEIGHT}, {"weight": CLASS_WEIGHT, "label_smoothing": 0.2, "reduction": "none"})),
    *(same("nll_loss", SCORES, LABELS, **options) for options in ({}, {"weight": CLASS_WEIGHT}, {"reduction": "sum"})),
    same("nll_loss", normal(2, 5, 2), np.abs(MAP_LABELS) % 5, ignore_index=1, weight=CLASS_WEIGHT),
    *(same(name, kinks(5, 6), kinks(5, 6), reduction=reduction) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
      for reduction in ("mean", "sum", "none")),
    same("smooth_l1_loss", X, normal(5, 6), beta=0.3), same("smooth_l1_loss", X, normal(5, 6), beta=0.0),
    same("huber_loss", X, normal(5, 6), delta=0.4),
    *(same("binary_cross_entropy", probabilities(4, 3), probabilities(4, 3), **options) for options in (
        {}, {"reduction": "sum"}, {"weight": probabilities(3)})),
    *(same("binary_cross_entropy_with_logits", X, probabilities(5, 6), **options) for options in (
        {}, {"reduction": "none"}, {"weight": probabilities(6)}, {"pos_weight": probabilities(6) * 4},
        {"pos_weight": probabilities(6), "weight": probabilities(5, 1)})),
    *(same("kl_div", X, probabilities(5, 6), reduction=reduction) for reduction in ("mean", "sum", "none", "batchmean")),
    same("kl_div", X, normal(5, 6), log_target=True), same("kl_div", X, target=kinks(5, 6) ** 2),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("of", "arrays"), [pytest.param(of, arrays, id=name) for name, of, arrays in CASES])
def test_values_and_gradients(of: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    tensors = [torch.tensor(x, requires_grad=x.dtype.kind == "f") if isinstance(x, np.ndarray) else x for x in arrays]
    theirs = of(torch.nn.functional, torch.tensor)(*tensors)
    ours = of(F, lambda array: array)
    result = ours(*arrays)
    np.testing.assert_allclose(result, theirs.detach().numpy(), rtol=1e-10, atol=1e-10)
    assert result.dtype == np.float64
    compiled = aj.compile(lambda *xs: ours(*merged(arrays, xs)), backend="interpret")(*variables(arrays))
    np.testing.assert_allclose(compiled, result, rtol=1e-12, atol=1e-12)

    cotangent = np.random.default_rng(1).standard_normal(result.shape)
    theirs.backward(torch.tensor(cotangent))
    places = tuple(range(len(variables(arrays))))
    gradient_of = aj.grad(lambda *xs: np.sum(ours(*merged(arrays, xs)) * cotangent), argnums=places)
    gradients = aj.compile(gradient_of, backend="interpret")(*variables(arrays))
    expected = [tensor.grad for tensor in tensors if isinstance(tensor, torch.Tensor) and tensor.requires_grad]
    for gradient, tensor in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, tensor.numpy(), rtol=1e-10, atol=1e-10)


def variables(arrays: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    """The arrays of floats."""
    return tuple(x for x in arrays if isinstance(x, np.ndarray) and x.dtype.kind == "f")


def merged(arrays: tuple[Any, ...], floats: tuple[Any, ...]) -> list[Any]:
    """`arrays` with those of floats replaced."""
    given = iter(floats)
    return [next(given) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in arrays]


def test_nan_in_a_window() -> None:
    x = TIES.copy()
    x[0, 0, 3, 3] = x[1, 2, 0, 1] = np.nan
    tensor = torch.tensor(x, requires_grad=True)
    pooled = torch.nn.functional.max_pool2d(tensor, 2, 1)
    pooled.sum().backward()
    np.testing.assert_array_equal(F.max_pool2d(x, 2, 1), pooled.detach().numpy())
    np.testing.assert_array_equal(aj.grad(lambda x: np.sum(F.max_pool2d(x, 2, 1)))(x), tensor.grad.numpy())


def test_statistics_of_a_batch() -> None:
    x, mean, variance = torch.tensor(IMAGE), torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    expected = torch.nn.functional.batch_norm(x, mean, variance, training=True, momentum=1.0)
    ours = F.batch_norm_with_statistics(IMAGE)
    for array, tensor in zip(ours, (expected, mean, variance), strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-10, atol=1e-10)
