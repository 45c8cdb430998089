"""Layers that change the shape of their input: upsampling, windows as columns and back, pixels out of channels, `Unflatten`."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.eager.tensor import Tensor
from adjit.nn import functional
from adjit.nn.convolution import Size
from adjit.nn.functional.arguments import InterpolationMode
from adjit.nn.module import Module


class Upsample(Module):
    """Layer that resizes images, see `functional.interpolate`.

    >>> import adjit
    >>> Upsample(scale_factor=2)(adjit.arange(4.0).reshape(1, 1, 2, 2))
    tensor([[[[0., 0., 1., 1.],
              [0., 0., 1., 1.],
              [2., 2., 3., 3.],
              [2., 2., 3., 3.]]]])
    """

    def __init__(self, size: Size | None = None, scale_factor: float | Sequence[float] | None = None, mode: InterpolationMode = "nearest",
                 align_corners: bool | None = None, recompute_scale_factor: bool | None = None) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = tuple(map(float, scale_factor)) if isinstance(scale_factor, (tuple, list)) else (
            None if scale_factor is None else float(scale_factor))      # type: ignore[arg-type]
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Resize (N, C, L), (N, C, H, W) or (N, C, D, H, W)."""
        return functional.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

    def extra_repr(self) -> str:
        first = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{first}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` with the mode "nearest".

    >>> import adjit
    >>> UpsamplingNearest2d((1, 4))(adjit.arange(2.0).reshape(1, 1, 1, 2)).flatten()
    tensor([0., 0., 1., 1.])
    """

    def __init__(self, size: Size | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """`Upsample` with the mode "bilinear" and `align_corners`.

    >>> import adjit
    >>> UpsamplingBilinear2d((1, 3))(adjit.arange(2.0).reshape(1, 1, 1, 2)).flatten()
    tensor([0.0000, 0.5000, 1.0000])
    """

    def __init__(self, size: Size | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


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


class Unfold(Module):
    """Layer that gives the windows of images as columns, see `functional.unfold`.

    >>> import adjit
    >>> Unfold(2)(adjit.zeros(1, 3, 4, 5)).shape
    (1, 12, 12)
    """

    def __init__(self, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C * KH * KW, windows), or both without N."""
        return functional.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """Adjoint of `Unfold`: layer that sums windows to images, see `functional.fold`.

    >>> import adjit
    >>> Fold((4, 5), 2)(adjit.zeros(1, 12, 12)).shape
    (1, 3, 4, 5)
    """

    def __init__(self, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C * KH * KW, windows) to (N, C, *output_size), or both without N."""
        return functional.fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class PixelShuffle(Module):
    """Layer that makes pixels out of channels, see `functional.pixel_shuffle`.

    >>> import adjit
    >>> PixelShuffle(2)(adjit.zeros(1, 8, 3, 4)).shape
    (1, 2, 6, 8)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C * r * r, H, W) to (..., C, H * r, W * r)."""
        return functional.pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Layer that makes channels out of pixels, see `functional.pixel_unshuffle`.

    >>> import adjit
    >>> PixelUnshuffle(2)(adjit.zeros(1, 2, 6, 8)).shape
    (1, 8, 3, 4)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C, H * r, W * r) to (..., C * r * r, H, W)."""
        return functional.pixel_unshuffle(x, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Layer that interleaves the channels of groups, see `functional.channel_shuffle`.

    >>> import adjit
    >>> ChannelShuffle(2)(adjit.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, C, ...) with its channels in another order."""
        return functional.channel_shuffle(x, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
