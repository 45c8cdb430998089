"""Pooling of windows over one, two and three axes: the largest elements, means and norms; and the inverse of maximum pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError
from adjit.nn import functional
from adjit.nn.convolution import Size
from adjit.nn.functional.arguments import OutputSize, one_per_axis
from adjit.nn.module import Module
from adjit.tracer.user_location import find_user_location


class _Pool(Module):
    """Layer that calls the function of its name with its settings."""

    axes: int
    _function: str

    def _pool(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(functional, f"{self._function}{self.axes}d")(*args, **kwargs)


class _MaxPool(_Pool):
    """Base of maximum pooling."""

    _function = "max_pool"

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
                 return_indices: bool = False, ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Any:
        """Pool (N, C, ...) or (C, ...), with one more axis for each axis of the windows; with `return_indices` elements and indices."""
        return self._pool(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
                f"ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPool):
    """Largest element of each window of (N, C, L) or (C, L), see `functional.max_pool1d`.

    >>> import adjit
    >>> MaxPool1d(2)(adjit.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    axes = 1


class MaxPool2d(_MaxPool):
    """Largest element of each window of (N, C, H, W) or (C, H, W), see `functional.max_pool2d`.

    >>> import adjit
    >>> MaxPool2d(2)(adjit.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    axes = 2


class MaxPool3d(_MaxPool):
    """Largest element of each window of (N, C, D, H, W) or (C, D, H, W), see `functional.max_pool3d`.

    >>> import adjit
    >>> MaxPool3d(2)(adjit.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    axes = 3


class AvgPool1d(_Pool):
    """Mean of each window of (N, C, L) or (C, L), see `functional.avg_pool1d`.

    >>> import adjit
    >>> AvgPool1d(2)(adjit.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    axes = 1
    _function = "avg_pool"

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
        return self._pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)      # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_Pool):
    """Mean of each window of (N, C, H, W) or (C, H, W), see `functional.avg_pool2d`.

    >>> import adjit
    >>> AvgPool2d(2)(adjit.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """

    axes = 2
    _function = "avg_pool"

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
        """Pool (N, C, ...) or (C, ...), with one more axis for each axis of the windows."""
        return self._pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,      # type: ignore[no-any-return]
                          self.divisor_override)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool3d(AvgPool2d):
    """Mean of each window of (N, C, D, H, W) or (C, D, H, W), see `functional.avg_pool3d`.

    >>> import adjit
    >>> AvgPool3d(2)(adjit.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    axes = 3


class _LPPool(_Pool):
    """Base of pooling by norms."""

    _function = "lp_pool"

    def __init__(self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, ...) or (C, ...), with one more axis for each axis of the windows."""
        return self._pool(x, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)      # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}")


class LPPool1d(_LPPool):
    """Norm of each window of (N, C, L) or (C, L), see `functional.lp_pool1d`.

    >>> import adjit
    >>> LPPool1d(2, 2)(adjit.tensor([[3.0, 4.0, 0.0, 2.0]]))
    tensor([[5., 2.]])
    """

    axes = 1


class LPPool2d(_LPPool):
    """Norm of each window of (N, C, H, W) or (C, H, W), see `functional.lp_pool2d`.

    >>> import adjit
    >>> LPPool2d(2, (1, 2))(adjit.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    axes = 2


class LPPool3d(_LPPool):
    """Norm of each window of (N, C, D, H, W) or (C, D, H, W), see `functional.lp_pool3d`.

    >>> import adjit
    >>> LPPool3d(2, (1, 1, 2))(adjit.tensor([[[[3.0, 4.0]]]]))
    tensor([[[[5.]]]])
    """

    axes = 3


class _AdaptivePool(_Pool):
    """Base of pooling into a given number of windows."""

    def __init__(self, output_size: OutputSize) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Any:
        """Pool (N, C, ...) or (C, ...), with one more axis for each axis of the windows."""
        return self._pool(x, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means of `output_size` windows, see `functional.adaptive_avg_pool1d`.

    >>> import adjit
    >>> AdaptiveAvgPool1d(2)(adjit.tensor([[1.0, 3.0, 2.0]]))
    tensor([[2.0000, 2.5000]])
    """

    axes = 1
    _function = "adaptive_avg_pool"


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means of `output_size` windows, see `functional.adaptive_avg_pool2d`.

    >>> import adjit
    >>> AdaptiveAvgPool2d(1)(adjit.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5000]]])
    """

    axes = 2
    _function = "adaptive_avg_pool"


class AdaptiveAvgPool3d(_AdaptivePool):
    """Means of `output_size` windows, see `functional.adaptive_avg_pool3d`.

    >>> import adjit
    >>> AdaptiveAvgPool3d(1)(adjit.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    axes = 3
    _function = "adaptive_avg_pool"


class _AdaptiveMaxPool(_AdaptivePool):
    """Base of maximum pooling into a given number of windows."""

    _function = "adaptive_max_pool"

    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, x: Tensor) -> Any:
        """Pool (N, C, ...) or (C, ...), with one more axis for each axis of the windows; with `return_indices` elements and indices."""
        return self._pool(x, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Largest elements of `output_size` windows, see `functional.adaptive_max_pool1d`.

    >>> import adjit
    >>> AdaptiveMaxPool1d(2)(adjit.tensor([[1.0, 3.0, 2.0]]))
    tensor([[3., 3.]])
    """

    axes = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Largest elements of `output_size` windows, see `functional.adaptive_max_pool2d`.

    >>> import adjit
    >>> AdaptiveMaxPool2d(1)(adjit.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """

    axes = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Largest elements of `output_size` windows, see `functional.adaptive_max_pool3d`.

    >>> import adjit
    >>> AdaptiveMaxPool3d(1)(adjit.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    axes = 3


class _FractionalMaxPool(_Pool):
    """Base of maximum pooling of windows at random places."""

    _function = "fractional_max_pool"

    def __init__(self, kernel_size: Size, output_size: Size | None = None, output_ratio: float | Sequence[float] | None = None,
                 return_indices: bool = False, _random_samples: Any = None) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{name} takes output_size or output_ratio: give one of them", find_user_location())
        self.kernel_size = one_per_axis(kernel_size, self.axes, name, "kernel_size", 1)
        self.output_size = None if output_size is None else one_per_axis(output_size, self.axes, name, "output_size", 1)
        self.output_ratio = output_ratio if output_ratio is None or isinstance(output_ratio, (tuple, list)) else (
            (float(output_ratio),) * self.axes)        # type: ignore[arg-type]
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, x: Tensor) -> Any:
        """Pool (N, C, ...) or (C, ...), with one more axis for each axis of the windows; with `return_indices` elements and indices."""
        return self._pool(x, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """Largest elements of windows at random places of images, see `functional.fractional_max_pool2d`.

    >>> import adjit
    >>> FractionalMaxPool2d(2, output_size=1)(adjit.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """

    axes = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Largest elements of windows at random places of volumes, see `functional.fractional_max_pool3d`.

    >>> import adjit
    >>> FractionalMaxPool3d(2, output_size=1)(adjit.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    axes = 3


class _MaxUnpool(_Pool):
    """Base of the inverse of maximum pooling."""

    _function = "max_unpool"

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = one_per_axis(kernel_size, self.axes, name, "kernel_size", 1)
        self.stride = self.kernel_size if stride is None else one_per_axis(stride, self.axes, name, "stride", 1)
        self.padding = one_per_axis(padding, self.axes, name, "padding", 0)

    def forward(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Put the elements of `x` at the indices that the pooling gave with them; all others are 0."""
        return self._pool(x, indices, self.kernel_size, self.stride, self.padding, output_size)     # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Inverse of `MaxPool1d`, see `functional.max_unpool1d`.

    >>> import adjit
    >>> MaxUnpool1d(2)(*MaxPool1d(2, return_indices=True)(adjit.tensor([[1.0, 3.0, 2.0, 0.0]])))
    tensor([[0., 3., 2., 0.]])
    """

    axes = 1


class MaxUnpool2d(_MaxUnpool):
    """Inverse of `MaxPool2d`, see `functional.max_unpool2d`.

    >>> import adjit
    >>> MaxUnpool2d(2)(*MaxPool2d(2, return_indices=True)(adjit.arange(4.0).reshape(1, 2, 2)))
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    axes = 2


class MaxUnpool3d(_MaxUnpool):
    """Inverse of `MaxPool3d`, see `functional.max_unpool3d`.

    >>> import adjit
    >>> MaxUnpool3d(2)(*MaxPool3d(2, return_indices=True)(adjit.arange(8.0).reshape(1, 2, 2, 2))).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 7.])
    """

    axes = 3
