"""Layers that normalise: over features, groups of channels, batches, single images, neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.eager.device import chosen
from adjit.eager.foreach_update import update_in_place
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor, own_tensor
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.nn import functional, init
from adjit.nn.linear import empty_parameter
from adjit.nn.module import Module
from adjit.nn.parameter import Parameter
from adjit.tracer.user_location import find_user_location

Array = Any


class _Scaled(Module):
    """Base of layers with a weight of ones and a bias of zeros, if they have any."""

    weight: Parameter | None
    bias: Parameter | None

    def _add_parameters(self, shape: tuple[int, ...], weight: bool, bias: bool, dtype: Any) -> None:
        self.register_parameter("weight", empty_parameter(shape, dtype) if weight else None)
        self.register_parameter("bias", empty_parameter(shape, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weights to one, biases to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Scaled):
    """Normalisation to mean 0 and variance 1 over the last dimensions, of the shape `normalized_shape`; then `weight` and `bias`.

    >>> LayerNorm(4)(own_tensor(np.ones((2, 4), np.float32))).shape
    (2, 4)
    """

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.normalized_shape = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._add_parameters(self.normalized_shape, elementwise_affine, elementwise_affine and bias, dtype)
        self.to(device=chosen(device))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; raises `ShapeError` if the shape does not end in `normalized_shape`."""
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(_Scaled):
    """`x / sqrt(mean(x**2) + eps) * weight` over the last dimensions, of the shape `normalized_shape`.

    `eps` is by default the machine epsilon of the dtype of `x`. weight: of the shape `normalized_shape`, ones at first.
    Source: Zhang and Sennrich, Root mean square layer normalization, arXiv:1910.07467.

    >>> RMSNorm(2)(own_tensor(np.array([[3.0, 4.0]], np.float32)))
    tensor([[0.8485, 1.1314]], grad_fn=<RmsNormBackward0>)
    """

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.normalized_shape = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._add_parameters(self.normalized_shape, elementwise_affine, False, dtype)
        self.to(device=chosen(device))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; raises `ShapeError` if the shape does not end in `normalized_shape`."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Scaled):
    """Normalisation to mean 0 and variance 1 over groups of channels and all dimensions after them; then `weight` and `bias` per channel.

    >>> import adjit
    >>> GroupNorm(1, 2)(adjit.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
                 dtype: Any = None, *, bias: bool = True) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups", find_user_location())
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_parameters((num_channels,), affine, affine and bias, dtype)
        self.to(device=chosen(device))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, num_channels, ...) to the same shape."""
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class _Tracking(_Scaled):
    """Base of normalisation of channels, with running statistics for evaluation.

    With `momentum` m, running = (1 - m) * running + m * batch; None takes the mean over all batches. The running variance averages unbiased
    variances. A module that is made without `track_running_stats` has none, and evaluates by the batch too; where the attribute is set to
    False later, running statistics stay as they are.
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _set_up(self, num_features: int, eps: float, momentum: float | None, affine: bool, track_running_stats: bool, bias: bool,
                device: Any, dtype: Any) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._add_parameters((num_features,), affine, affine and bias, dtype)
        kind = modes.default_float if dtype is None else np.dtype(dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", own_tensor(np.zeros(num_features, kind)) if tracked else None)
        self.register_buffer("running_var", own_tensor(np.ones(num_features, kind)) if tracked else None)
        self.register_buffer("num_batches_tracked", own_tensor(np.zeros((), np.int64)) if tracked else None)
        self.to(device=chosen(device))

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.constant_(self.num_batches_tracked, 0)

    def _track(self, mean: Tensor, variance: Tensor, momentum: float | None, counts: bool = True) -> None:
        """Update the running statistics by those of a batch; the number of batches too, if it `counts`."""
        update_in_place(_follow, [self.running_mean, self.running_var, self.num_batches_tracked], [mean, variance],     # type: ignore[list-item]
                        momentum, counts)

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")


class _BatchNorm(_Tracking):
    """Base of batch normalisation: mean 0 and variance 1 of each channel over the batch; in evaluation by the running mean and variance of
    training."""

    dims: tuple[int, ...]

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        super().__init__()
        self._set_up(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape; raises `ShapeError` for other numbers of dimensions or channels, and in training for one value
        per channel."""
        if x.ndim not in self.dims or x.shape[1] != self.num_features:
            raise ShapeError(f"{type(self).__name__} takes {' or '.join(map(str, self.dims))} dimensions, the second of them "
                             f"{self.num_features} channels, got the shape {x.shape}", find_user_location())
        if not self.training and self.running_mean is not None:
            return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        normal, mean, variance = functional.batch_norm_with_statistics(x, self.weight, self.bias, self.eps)
        if self.training and self.track_running_stats and self.running_mean is not None:
            self._track(mean, variance, self.momentum)
        return normal


def _follow(running: Sequence[Array], batch: Sequence[Array], momentum: float | None, counts: bool) -> list[Array]:
    """Return the running mean, variance and count after a batch."""
    mean, variance, count = running
    count = count + 1 if counts else count
    part = 1.0 / count.astype(mean.dtype) if momentum is None else momentum
    return [*((1.0 - part) * old + part * new.astype(old.dtype) for old, new in zip((mean, variance), batch, strict=True)), count]


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L).

    weight, bias: (C,), ones and zeros at first; buffers running_mean, running_var: (C,), num_batches_tracked: ().
    Arguments: `eps`, `momentum` (None: the mean over all batches), `affine`, `track_running_stats`, `bias`.

    >>> import adjit
    >>> norm = BatchNorm1d(1)
    >>> norm(adjit.tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    >>> norm.running_mean
    tensor([0.2000])
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images, (N, C, H, W).

    weight, bias: (C,), ones and zeros at first; buffers running_mean, running_var: (C,), num_batches_tracked: ().
    Arguments: `eps`, `momentum` (None: the mean over all batches), `affine`, `track_running_stats`, `bias`.

    >>> import adjit
    >>> norm = BatchNorm2d(3)
    >>> norm(adjit.zeros(2, 3, 5, 5)).shape, norm.running_var.shape
    ((2, 3, 5, 5), (3,))
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of volumes, (N, C, D, H, W); parameters, buffers and arguments as in `BatchNorm2d`.

    >>> import adjit
    >>> norm = BatchNorm3d(3)
    >>> norm(adjit.zeros(2, 3, 5, 5, 4)).shape, norm.running_var.shape
    ((2, 3, 5, 5, 4), (3,))
    """

    dims = (5,)


class _InstanceNorm(_Tracking):
    """Base of instance normalisation: mean 0 and variance 1 of each channel of each element of a batch.

    By default without parameters (`affine`) and running statistics. With `track_running_stats`, evaluation uses the running mean and
    variance, which follow the means over the batch; the batches are not counted, and a `momentum` of None is 0, as in PyTorch.
    """

    axes: int

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        super().__init__()
        self._set_up(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, ...) or (C, ...) to the same shape; raises `ShapeError` for other shapes."""
        if x.ndim not in (self.axes + 1, self.axes + 2) or ((self.affine or self.running_mean is not None) and (
                x.shape[-self.axes - 1] != self.num_features)):
            raise ShapeError(f"{type(self).__name__} takes (N, C, ...) or (C, ...), with {self.num_features} channels and {self.axes} "
                             f"axes after them, got the shape {x.shape}", find_user_location())
        batch = x if x.ndim == self.axes + 2 else x.unsqueeze(0)
        if not self.training and self.track_running_stats and self.running_mean is not None:
            normal = functional.batch_norm(batch, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        elif self.training and self.track_running_stats and self.running_mean is not None:
            normal, mean, variance = functional.instance_norm_with_statistics(batch, self.weight, self.bias, self.eps)
            self._track(mean, variance, self.momentum or 0.0, counts=False)
        else:
            normal = functional.instance_norm(batch, weight=self.weight, bias=self.bias, eps=self.eps)
        return normal if batch is x else normal.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L), see `functional.instance_norm`; with `affine` weight and bias of the shape (C,).

    >>> import adjit
    >>> InstanceNorm1d(1)(adjit.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    axes = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W), see `functional.instance_norm`; with `affine` weight and bias of the shape (C,).

    >>> import adjit
    >>> InstanceNorm2d(1)(adjit.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000]]]])
    """

    axes = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W), see `functional.instance_norm`; with `affine` weight and bias (C,).

    >>> import adjit
    >>> InstanceNorm3d(1)(adjit.tensor([[[[[1.0, 3.0]]]]]))
    tensor([[[[[-1.0000,  1.0000]]]]])
    """

    axes = 3


class LocalResponseNorm(Module):
    """Normalisation by the squares of neighbouring channels, see `functional.local_response_norm`.

    >>> import adjit
    >>> LocalResponseNorm(2, alpha=1.0, beta=1.0)(adjit.tensor([[[1.0], [2.0]]])).flatten()
    tensor([0.6667, 0.5714])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, ...) to the same shape."""
        return functional.local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
