"""Layers that change the shape of their input: pooling over one axis, upsampling, transposed convolutions, padding, `Unflatten`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from adjit.eager.device import check_device
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError
from adjit.nn import functional, init
from adjit.nn.convolution import MaxPool, Size
from adjit.nn.functional.arguments import one_per_axis
from adjit.nn.linear import empty_parameter
from adjit.nn.module import Module
from adjit.nn.parameter import Parameter
from adjit.tracer.user_location import find_user_location


class MaxPool1d(MaxPool):
    """Largest element of each window of (N, C, L) or (C, L), see `functional.max_pool1d`.

    >>> import adjit
    >>> MaxPool1d(2)(adjit.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    axes = 1


class AvgPool1d(Module):
    """Mean of each window, see `functional.avg_pool1d`.

    >>> import adjit
    >>> AvgPool1d(2)(adjit.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True) -> None:
        super().__init__()
        self.kernel_size = one_per_axis(kernel_size, 1, "AvgPool1d", "kernel_size", 1)
        self.stride = self.kernel_size if stride is None else one_per_axis(stride, 1, "AvgPool1d", "stride", 1)
        self.padding = one_per_axis(padding, 1, "AvgPool1d", "padding", 0)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, L) or (C, L)."""
        return functional.avg_pool1d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _TransposedConvolution(Module):
    """Base of transposed convolutions over one and two axes."""

    axes: int
    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0,
                 output_padding: Size = 0, groups: int = 1, bias: bool = True, dilation: Size = 1,
                 padding_mode: Literal["zeros"] = "zeros", device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__()
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{name}: {in_channels} and {out_channels} channels do not divide into {groups} groups",
                                find_user_location())
        if padding_mode != "zeros":
            raise ArgumentError(f"{name}: padding_mode is 'zeros', got {padding_mode!r}", find_user_location())
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = one_per_axis(kernel_size, self.axes, name, "kernel_size", 1)
        self.stride = one_per_axis(stride, self.axes, name, "stride", 1)
        self.padding = one_per_axis(padding, self.axes, name, "padding", 0)
        self.output_padding = one_per_axis(output_padding, self.axes, name, "output_padding", 0)
        self.dilation = one_per_axis(dilation, self.axes, name, "dilation", 1)
        self.groups = groups
        self.weight = empty_parameter((in_channels, out_channels // groups, *self.kernel_size), dtype)
        self.register_parameter("bias", empty_parameter((out_channels,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.weight_and_bias_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer; raises `ShapeError` for inputs of other shapes."""
        convolve = functional.conv_transpose1d if self.axes == 1 else functional.conv_transpose2d
        return convolve(x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        parts += [f"padding={self.padding}"] if any(self.padding) else []
        parts += [f"dilation={self.dilation}"] if self.dilation != (1,) * self.axes else []
        parts += [f"output_padding={self.output_padding}"] if any(self.output_padding) else []
        parts += [f"groups={self.groups}"] if self.groups != 1 else []
        parts += ["bias=False"] if self.bias is None else []
        return ", ".join(parts)


class ConvTranspose1d(_TransposedConvolution):
    """Adjoint of `Conv1d` as a layer, see `functional.conv_transpose1d`. weight: (in_channels, out_channels / groups, K).

    >>> import adjit
    >>> ConvTranspose1d(3, 8, 2, stride=2)(adjit.zeros(1, 3, 5)).shape
    (1, 8, 10)
    """

    axes = 1


class ConvTranspose2d(_TransposedConvolution):
    """Adjoint of `Conv2d` as a layer, see `functional.conv_transpose2d`. weight: (in_channels, out_channels / groups, KH, KW).

    >>> import adjit
    >>> ConvTranspose2d(3, 8, 2, stride=2)(adjit.zeros(1, 3, 5, 5)).shape
    (1, 8, 10, 10)
    """

    axes = 2


class Upsample(Module):
    """Layer that resizes images, see `functional.interpolate`.

    >>> import adjit
    >>> Upsample(scale_factor=2)(adjit.arange(4.0).reshape(1, 1, 2, 2))
    tensor([[[[0., 0., 1., 1.],
              [0., 0., 1., 1.],
              [2., 2., 3., 3.],
              [2., 2., 3., 3.]]]])
    """

    def __init__(self, size: Size | None = None, scale_factor: float | Sequence[float] | None = None,
                 mode: Literal["nearest"] = "nearest") -> None:
        super().__init__()
        self.size = size
        self.scale_factor = tuple(map(float, scale_factor)) if isinstance(scale_factor, (tuple, list)) else (
            None if scale_factor is None else float(scale_factor))      # type: ignore[arg-type]
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        """Resize (N, C, L) or (N, C, H, W)."""
        return functional.interpolate(x, self.size, self.scale_factor, self.mode)

    def extra_repr(self) -> str:
        first = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{first}, mode={self.mode!r}"


class ZeroPad2d(Module):
    """Layer that pads images with zeros: one number for all sides, or (left, right, top, bottom); negative numbers crop.

    >>> import adjit
    >>> ZeroPad2d((1, 0, 0, 1))(adjit.ones(1, 1, 2))
    tensor([[[0., 1., 1.],
             [0., 0., 0.]]])
    """

    def __init__(self, padding: Size) -> None:
        super().__init__()
        self.padding = one_per_axis(padding, 4, "ZeroPad2d", "padding", -(1 << 62))

    def forward(self, x: Tensor) -> Tensor:
        """Pad (N, C, H, W) or (C, H, W)."""
        return functional.pad(x, self.padding)

    def extra_repr(self) -> str:
        return str(self.padding)


class Unflatten(Module):
    """Layer that splits the dimension `dim` into several, of the sizes `unflattened_size`, of which one may be -1.

    >>> import adjit
    >>> Unflatten(1, (2, -1))(adjit.zeros(5, 6)).shape
    (5, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with one dimension split."""
        return x.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
