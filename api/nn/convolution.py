"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from adjit.eager.device import check_device
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError
from adjit.nn import functional, init
from adjit.nn.functional.arguments import one_per_axis
from adjit.nn.linear import empty_parameter
from adjit.nn.module import Module, refuse
from adjit.nn.parameter import Parameter
from adjit.tracer.user_location import find_user_location

Size = int | Sequence[int]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


class _Convolution(Module):
    """Base of convolutions over one and two axes."""

    axes: int
    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
                 padding: Size | Literal["same", "valid"] = 0, dilation: Size = 1, groups: int = 1, bias: bool = True,
                 padding_mode: PaddingMode = "zeros", device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__()
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{name}: {in_channels} and {out_channels} channels do not divide into {groups} groups",
                                find_user_location())
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ArgumentError(f"{name}: padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', got {padding_mode!r}",
                                find_user_location())
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ArgumentError(f"{name}: padding is a number, one for each axis, 'same' or 'valid', got {padding!r}", find_user_location())
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = one_per_axis(kernel_size, self.axes, name, "kernel_size", 1)
        self.stride = one_per_axis(stride, self.axes, name, "stride", 1)
        self.padding = padding if isinstance(padding, str) else one_per_axis(padding, self.axes, name, "padding", 0)
        self.dilation = one_per_axis(dilation, self.axes, name, "dilation", 1)
        self.groups = groups
        self.padding_mode = padding_mode
        self.weight = empty_parameter((out_channels, in_channels // groups, *self.kernel_size), dtype)
        self.register_parameter("bias", empty_parameter((out_channels,), dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.weight_and_bias_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the convolution; raises `ShapeError` for inputs of other shapes."""
        convolve = functional.conv1d if self.axes == 1 else functional.conv2d
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            x, padding = functional.pad(x, self._edges(), self.padding_mode), 0
        return convolve(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _edges(self) -> tuple[int, ...]:
        """Padding before and after each axis, the last axis first."""
        if self.padding == "valid":
            return (0, 0) * self.axes
        if self.padding == "same":
            totals = [gap * (size - 1) for gap, size in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(total // 2, total - total // 2) for total in totals]
        else:
            pairs = [(int(edge), int(edge)) for edge in self.padding]
        return tuple(edge for pair in reversed(pairs) for edge in pair)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        parts += [f"padding={self.padding}"] if self.padding not in ((0,) * self.axes, "valid") else []
        parts += [f"dilation={self.dilation}"] if self.dilation != (1,) * self.axes else []
        parts += [f"groups={self.groups}"] if self.groups != 1 else []
        parts += ["bias=False"] if self.bias is None else []
        parts += [f"padding_mode={self.padding_mode!r}"] if self.padding_mode != "zeros" else []
        return ", ".join(parts)


class Conv1d(_Convolution):
    """Cross-correlation over one axis: (N, in_channels, L) to (N, out_channels, M); without N for one sequence.

    Arguments are as in `functional.conv1d`; `padding_mode` other than "zeros" pads with elements of the input.

    >>> import adjit
    >>> Conv1d(3, 8, 3, padding=1)(adjit.zeros(1, 3, 5)).shape
    (1, 8, 5)
    """

    axes = 1


class Conv2d(_Convolution):
    """Cross-correlation of images: (N, in_channels, H, W) to (N, out_channels, ...); without N for one image.

    Arguments are as in `functional.conv2d`; `padding_mode` other than "zeros" pads with elements of the input.

    >>> import numpy as np
    >>> from adjit.eager.tensor import as_tensor
    >>> Conv2d(3, 8, 3, padding=1)(as_tensor(np.zeros((1, 3, 5, 5), np.float32))).shape
    (1, 8, 5, 5)
    """

    axes = 2


class MaxPool(Module):
    """Base of maximum pooling over one and two axes."""

    axes: int

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
                 return_indices: bool = False, ceil_mode: bool = False) -> None:
        super().__init__()
        refuse(type(self).__name__, return_indices=return_indices)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, ...) or (C, ...), with one more axis for each axis of the windows."""
        pool = functional.max_pool1d if self.axes == 1 else functional.max_pool2d
        return pool(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
                f"ceil_mode={self.ceil_mode}")


class MaxPool2d(MaxPool):
    """The largest element of each window of (N, C, H, W) or (C, H, W), see `functional.max_pool2d`.

    >>> import adjit
    >>> MaxPool2d(2)(adjit.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    axes = 2


class AvgPool2d(Module):
    """The mean of each window, see `functional.avg_pool2d`.

    >>> import adjit
    >>> AvgPool2d(2)(adjit.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, H, W) or (C, H, W)."""
        return functional.avg_pool2d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                                     self.divisor_override)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """The means of `output_size` windows, see `functional.adaptive_avg_pool2d`.

    >>> import adjit
    >>> AdaptiveAvgPool2d(1)(adjit.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5000]]])
    """

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, H, W) or (C, H, W)."""
        return functional.adaptive_avg_pool2d(x, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"
