"""Convolutions over one, two and three axes, and transposed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from adjit.eager.device import chosen
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError
from adjit.nn import functional, init
from adjit.nn.functional.arguments import one_per_axis
from adjit.nn.linear import empty_parameter
from adjit.nn.module import Module
from adjit.nn.parameter import Parameter
from adjit.tracer.user_location import find_user_location

Size = int | Sequence[int]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


class _Convolution(Module):
    """Base of convolutions over one, two and three axes."""

    axes: int
    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
                 padding: Size | Literal["same", "valid"] = 0, dilation: Size = 1, groups: int = 1, bias: bool = True,
                 padding_mode: PaddingMode = "zeros", device: Any = None, dtype: Any = None) -> None:
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
        self.to(device=chosen(device))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.weight_and_bias_(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the convolution; raises `ShapeError` for inputs of other shapes."""
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[self.axes - 1]
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
        parts += [f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []
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


class Conv3d(_Convolution):
    """Cross-correlation over three axes: (N, in_channels, D, H, W) to (N, out_channels, ...); without N for one volume.

    Arguments are as in `functional.conv3d`; `padding_mode` other than "zeros" pads with elements of the input.

    >>> import adjit
    >>> Conv3d(3, 8, 3, padding=1)(adjit.zeros(1, 3, 2, 5, 5)).shape
    (1, 8, 2, 5, 5)
    """

    axes = 3


class _TransposedConvolution(Module):
    """Base of transposed convolutions over one, two and three axes."""

    axes: int
    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0,
                 output_padding: Size = 0, groups: int = 1, bias: bool = True, dilation: Size = 1,
                 padding_mode: Literal["zeros"] = "zeros", device: Any = None, dtype: Any = None) -> None:
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
        self.to(device=chosen(device))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.weight_and_bias_(self.weight, self.bias)

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Apply the layer, with results of the size `output_size`, or by `output_padding`; raises `ShapeError` for other inputs."""
        convolve = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[self.axes - 1]
        more = self.output_padding if output_size is None else self._padding_for(x, output_size)
        return convolve(x, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)

    def _padding_for(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """Output padding that gives this size."""
        wanted = tuple(output_size)[-self.axes:]
        least = [(length - 1) * step - 2 * edge + gap * (size - 1) + 1 for length, step, edge, gap, size in zip(
            x.shape[-self.axes:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True)]
        if len(wanted) != self.axes or not all(0 <= size - low < step for size, low, step in zip(wanted, least, self.stride, strict=True)):
            raise ArgumentError(f"{type(self).__name__}: output_size {tuple(output_size)} is not between {least} and a stride more",
                                find_user_location())
        return tuple(size - low for size, low in zip(wanted, least, strict=True))

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


class ConvTranspose3d(_TransposedConvolution):
    """Adjoint of `Conv3d` as a layer, see `functional.conv_transpose3d`. weight: (in_channels, out_channels / groups, KD, KH, KW).

    >>> import adjit
    >>> ConvTranspose3d(3, 8, 2, stride=2)(adjit.zeros(1, 3, 1, 5, 5)).shape
    (1, 8, 2, 10, 10)
    """

    axes = 3
