"""Calls of functions and modules of `nn` that PyTorch has by the same name: their options, and inputs that any library can make.

`tests/support/pytorch_references.py` writes what PyTorch gives for them to `tests/api/nn/pytorch_references.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Library(NamedTuple):
    """What cases need of a library: PyTorch, or adjit."""

    nn: Any
    functional: Any
    tensor: Callable[..., Any]
    grad: Callable[..., Any]
    log_softmax: Callable[..., Any]


class Case(NamedTuple):
    """Function or module, arguments and inputs. Inputs that are floating-point are differentiated."""

    name: str
    inputs: tuple[Array, ...]
    options: dict[str, Any]
    settings: tuple[Any, ...] | None = None     # of a module; None for a function
    run: Callable[..., Any] | None = None       # (library, function or module, inputs) -> results, where it is no plain call
    training: bool = True

    @property
    def title(self) -> str:
        """Name by which the results are stored."""
        shown = {key: value.shape if isinstance(value, Array) else value for key, value in self.options.items()}
        settings = "" if self.settings is None else f"{tuple(x.shape if isinstance(x, Array) else x for x in self.settings)}"
        shapes = "x".join(str(x.shape).replace(" ", "") for x in self.inputs)
        return f"{self.name}{settings} {shapes} {shown}{'' if self.training else ' evaluated'}"


RNG = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).round(3)


def positive(*shape: int) -> Array:
    return np.abs(normal(*shape)) + 0.1


def below(high: int, *shape: int) -> Array:
    return RNG.integers(0, high, shape)


def call(name: str, *inputs: Array, run: Callable[..., Any] | None = None, **options: Any) -> Case:
    return Case(name, inputs, options, None, run)


def module(name: str, *settings: Any, inputs: Sequence[Array], run: Callable[..., Any] | None = None, training: bool = True,
           **options: Any) -> Case:
    return Case(name, tuple(inputs), options, settings, run, training)


def function_cases() -> Iterator[Case]:
    x, signs, labels = normal(4, 5), np.sign(normal(4, 5)), np.array([0, 4, 2, 1])
    for name in ("hardshrink", "softshrink", "tanhshrink", "softmin", "mish", "hardswish"):
        yield call(name, x, **({"dim": 1} if name == "softmin" else {}))
    yield call("threshold", x, threshold=0.3, value=-2.0)
    images = {1: normal(2, 3, 11), 2: normal(2, 3, 8, 9), 3: normal(2, 2, 6, 5, 4)}
    for axes, image in images.items():
        for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}):
            yield call(f"max_pool{axes}d", image, return_indices=True, **options)
            yield call(f"avg_pool{axes}d", image, count_include_pad=False, **options)
        yield call(f"lp_pool{axes}d", np.abs(image) + 0.1, norm_type=3.0, kernel_size=2, ceil_mode=True)
        yield call(f"adaptive_avg_pool{axes}d", image, output_size=3)
        yield call(f"adaptive_max_pool{axes}d", image, output_size=3, return_indices=True)
        for mode in ("nearest", "nearest-exact", "area", *{1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}[axes]):
            for options in ({"scale_factor": 1.7}, {"size": [9, 4, 7][:axes]}):
                yield call("interpolate", image, mode=mode, **options)
    yield call("interpolate", images[2], size=(5, 12), mode="bicubic", align_corners=True)
    yield call("interpolate", normal(1, 1, 70, 4), size=(33, 7), mode="bilinear", align_corners=False)
    yield call("interpolate", images[2], size=(4, 5), mode="bilinear", antialias=True)
    yield call("interpolate", images[2], size=(4, 12), mode="bicubic", antialias=True)
    grid, volume = RNG.uniform(-1.3, 1.3, (2, 4, 3, 2)).round(3), RNG.uniform(-1.3, 1.3, (2, 2, 2, 3, 3)).round(3)
    for mode, padding in (("bilinear", "zeros"), ("bilinear", "border"), ("nearest", "reflection"), ("bicubic", "reflection")):
        yield call("grid_sample", images[2], grid, mode=mode, padding_mode=padding, align_corners=padding == "border")
    yield call("grid_sample", images[3], volume, padding_mode="reflection", align_corners=False)
    yield call("affine_grid", normal(2, 2, 3), size=(2, 3, 4, 5), align_corners=True)
    yield call("affine_grid", normal(2, 3, 4), size=(2, 3, 2, 4, 1), align_corners=False)
    yield call("fractional_max_pool2d", images[2], kernel_size=2, output_size=(4, 3), return_indices=True,
               _random_samples=RNG.random((2, 3, 2)))
    yield call("fractional_max_pool3d", images[3], kernel_size=2, output_size=(4, 3, 2), _random_samples=RNG.random((2, 2, 3)))
    yield call("conv3d", images[3], normal(4, 1, 3, 2, 1), normal(4), stride=2, padding=(1, 2, 0), groups=2)
    yield call("conv_transpose3d", images[3], normal(2, 3, 2, 2, 3), normal(3), stride=2, padding=1, output_padding=1)
    yield call("conv_tbc", normal(5, 2, 3), normal(3, 3, 4), normal(4), pad=1)
    yield call("fold", normal(2, 12, 12), output_size=(4, 5), kernel_size=2)
    yield call("fold", normal(12, 6), output_size=(4, 5), kernel_size=2, stride=2, padding=(0, 1))
    yield call("instance_norm", images[2])
    yield call("local_response_norm", images[2], size=4, alpha=0.5, beta=0.6, k=2.0)
    yield call("pixel_shuffle", normal(2, 8, 3, 4), upscale_factor=2)
    yield call("pixel_unshuffle", normal(2, 2, 6, 4), downscale_factor=2)
    yield call("channel_shuffle", normal(2, 6, 3), groups=3)
    yield call("cosine_similarity", normal(4, 1, 5), normal(3, 5), dim=-2)
    yield call("pdist", normal(5, 3), p=3.0)
    yield call("bilinear", normal(4, 2, 3), normal(4, 2, 5), normal(6, 3, 5), normal(6))
    yield call("scaled_dot_product_attention", normal(2, 6, 5, 4), normal(2, 2, 7, 4), normal(2, 2, 7, 3), enable_gqa=True, scale=0.3)
    for reduction in ("mean", "sum", "none"):
        yield call("poisson_nll_loss", positive(4, 5), target=below(5, 4, 5) * 1.0, log_input=False, full=True, reduction=reduction)
        for shape in ((4,), (4, 1), (1, 5)):
            yield call("gaussian_nll_loss", x, normal(4, 5), positive(*shape), full=True, reduction=reduction)
        yield call("soft_margin_loss", x, target=signs, reduction=reduction)
        yield call("hinge_embedding_loss", x, target=signs, margin=0.7, reduction=reduction)
        yield call("cosine_embedding_loss", x, normal(4, 5), target=signs[:, 0], margin=0.1, reduction=reduction)
        yield call("multi_margin_loss", x, target=labels, p=2, margin=0.8, weight=positive(5), reduction=reduction)
        yield call("multilabel_margin_loss", x, target=np.array([[3, 0, -1, 1, 2], [0, 1, 2, 3, 4], [-1, 0, 0, 0, 0], [2, -1, -1, -1, -1]]),
                   reduction=reduction)
        yield call("multilabel_soft_margin_loss", x, target=(signs > 0) * 1.0, weight=positive(5), reduction=reduction)
        yield call("triplet_margin_with_distance_loss", x, normal(4, 5), normal(4, 5), swap=True, reduction=reduction)
        yield call("linear_cross_entropy", x, normal(7, 5), target=labels, linear_bias=normal(7), reduction=reduction, label_smoothing=0.1)
        yield call("ctc_loss", normal(12, 3, 6), run=connectionist, reduction=reduction)
    yield call("margin_ranking_loss", np.zeros(3), np.zeros(3), target=np.ones(3))
    for mode in ("sum", "mean", "max"):
        yield call("embedding_bag", normal(7, 3), run=bags, mode=mode, padding_idx=2)
    yield call("embedding", normal(7, 3), run=rows, scale_grad_by_freq=True)


def connectionist(library: Library, function: Any, x: Any, **options: Any) -> Any:
    """The loss of normalised scores: PyTorch's derivative in the log-probabilities holds after `log_softmax` only."""
    targets = [library.tensor(np.array(each)) for each in ([[1, 2, 2, 3], [4, 4, 1, 1], [5, 1, 5, 1]], [12, 10, 12], [4, 2, 3])]
    return function(library.log_softmax(x, -1), *targets, **options)


def bags(library: Library, function: Any, weight: Any, **options: Any) -> Any:
    return function(library.tensor(np.array([1, 2, 4, 5, 2, 6, 1])), weight, library.tensor(np.array([0, 3, 3, 5])), **options)


def rows(library: Library, function: Any, weight: Any, **options: Any) -> Any:
    return function(library.tensor(np.array([[1, 2], [2, 5]])), weight, **options)


def packed(library: Library, layer: Any, x: Any, *states: Any) -> Any:
    """Outputs and states of sequences of different lengths, padded again."""
    rnn = library.nn.utils.rnn
    output, last = layer(rnn.pack_padded_sequence(x, [4, 1, 5], enforce_sorted=False), *states)
    return *rnn.pad_packed_sequence(output, padding_value=0.5), last


def masked(library: Library, layer: Any, source: Any, target: Any) -> Any:
    mask = library.tensor(np.where(np.tri(5, dtype=bool), 0.0, -np.inf))
    return layer(source, target, tgt_mask=mask, src_key_padding_mask=library.tensor(np.array([[False, False, True], [False] * 3])))


def unpooled(library: Library, layer: Any, x: Any) -> Any:
    values, indices = library.functional.max_pool2d(x, 2, return_indices=True)
    return layer(values, indices, output_size=x.shape)


def module_cases() -> Iterator[Case]:
    images = {1: normal(2, 4, 7), 2: normal(2, 4, 6, 5), 3: normal(2, 4, 4, 5, 3)}
    for axes, image in images.items():
        yield module(f"ConvTranspose{axes}d", 4, 6, 3, inputs=[image], padding=1, stride=2, groups=2)
        yield module(f"BatchNorm{axes}d", 4, inputs=[image], momentum=None)
        yield module(f"InstanceNorm{axes}d", 4, inputs=[image], affine=True, track_running_stats=True)
        yield module(f"InstanceNorm{axes}d", 4, inputs=[image], affine=True, track_running_stats=True, training=False)
        for kind in ("Constant", "Reflection", "Replication", "Circular"):
            yield module(f"{kind}Pad{axes}d", (1, 2, 2, 1, 1, 0)[:2 * axes], *([3.0] if kind == "Constant" else []), inputs=[image])
    yield module("Conv3d", 4, 2, 3, inputs=[images[3]], padding=1, padding_mode="replicate")
    yield module("MaxUnpool2d", 2, inputs=[images[2]], run=unpooled)
    yield module("Upsample", inputs=[images[2]], size=(5, 9), mode="bilinear", align_corners=True)
    yield module("EmbeddingBag", 7, 3, inputs=[below(7, 2, 4)], mode="sum")
    yield module("Embedding", 7, 3, inputs=[below(7, 2, 4)], max_norm=0.7)
    yield module("AdaptiveLogSoftmaxWithLoss", 8, 10, [4, 7], inputs=[normal(6, 8), np.array([0, 3, 5, 9, 7, 4])], div_value=2.0,
                 head_bias=True)
    sequence = normal(5, 3, 4)
    for name in ("RNN", "GRU", "LSTM"):
        yield module(name, 4, 5, inputs=[sequence], num_layers=2, bidirectional=True)
        yield module(name, 4, 5, inputs=[sequence], bidirectional=True, run=packed)
    yield module("LSTM", 4, 5, inputs=[sequence], proj_size=2, num_layers=2)
    query, key = normal(5, 2, 6), normal(4, 2, 6)
    yield module("MultiheadAttention", 6, 2, inputs=[query, key, normal(4, 2, 6)], add_bias_kv=True, add_zero_attn=True)
    yield module("TransformerDecoderLayer", 6, 2, inputs=[query, key], dim_feedforward=8, dropout=0.0, norm_first=True)
    yield module("Transformer", 6, 2, 1, 1, 8, 0.0, inputs=[normal(3, 2, 6), normal(5, 2, 6)], run=masked)


CASES: list[Case] = [*function_cases(), *module_cases()]


def leaves(result: Any) -> list[Any]:
    """Tensors of a result, in tuples too."""
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in leaves(item)]
    return [] if result is None else [result]


def weights(shape: Sequence[int], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(tuple(shape))


def outcome(case: Case, library: Library, twice: bool) -> dict[str, Any]:
    """What a library gives: shapes, numbers in random directions of values, gradients and, if `twice`, second derivatives other than 0;
    names and buffers of modules."""
    inputs = [library.tensor(x, requires_grad=True) if x.dtype.kind == "f" else library.tensor(x) for x in case.inputs]
    options = {key: library.tensor(value) if isinstance(value, Array) else value for key, value in case.options.items()}
    found: dict[str, Any] = {}
    leaf = [x for x in inputs if x.requires_grad]
    if case.settings is None:
        function: Any = getattr(library.functional, case.name)
        results = leaves(case.run(library, function, *inputs, **options) if case.run else function(*inputs, **options))
    else:
        layer: Any = getattr(library.nn, case.name)(*case.settings, **options).double()
        with_names = dict(layer.named_parameters())
        for number, parameter in enumerate(with_names.values()):
            parameter.data.copy_(library.tensor(weights(parameter.shape, 100 + number) * 0.5))
        layer.train(case.training)
        results = leaves(case.run(library, layer, *inputs) if case.run else layer(*inputs))
        leaf += with_names.values()
        found["state"] = list(layer.state_dict())
        found["text"] = repr(layer).replace("NonDynamicallyQuantizableLinear", "Linear")
    found["shapes"] = [list(x.shape) for x in results]
    found["values"] = [projected(x, number) for number, x in enumerate(results)]
    total: Any = sum((x * library.tensor(weights(x.shape, number))).sum() for number, x in enumerate(results) if x.requires_grad)
    if any(x.requires_grad for x in results):
        first = library.grad(total, leaf, create_graph=twice, allow_unused=True)
        found["gradients"] = [None if x is None else projected(x, number) for number, x in enumerate(first)]
        squares = [(x * x).sum() for x in first if twice and x is not None and x.requires_grad]
        if squares:
            second = library.grad(sum(squares[1:], squares[0]), leaf, allow_unused=True)
            numbers = [0.0 if x is None else projected(x, number) for number, x in enumerate(second)]
            found |= {"second": numbers} if any(numbers) else {}
    if case.settings is not None:
        found["buffers"] = [projected(x, number) for number, x in enumerate(layer.buffers())]
    return found


def projected(x: Any, seed: int) -> float:
    return float(np.sum(x.detach().numpy() * weights(x.shape, 50 + seed)))
