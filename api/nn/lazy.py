"""Lazy modules: layers that take the number of features or channels from the input of their first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from adjit.eager.tensor import Tensor
from adjit.ir.errors import ShapeError, TraceError
from adjit.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, PaddingMode, Size
from adjit.nn.linear import Linear
from adjit.nn.module import Module
from adjit.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from adjit.nn.parameter import UninitializedBuffer, UninitializedParameter
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location


class _Lazy(Module):
    """Base of lazy modules. Parameters and buffers that wait for their shape are materialised at the first call, or when a state is loaded;
    then the module becomes one of the class `_becomes`. An optimiser may be made before."""

    _becomes: type[Module]

    def _wait(self, dtype: Any, *names: str) -> None:
        """Replace these parameters and buffers by some without a shape."""
        for name in names:
            current = vars(self)[name]
            if current is not None:
                make = UninitializedParameter if current.requires_grad else UninitializedBuffer
                waiting = make(device=current.device, dtype=dtype if current.requires_grad else current.dtype)
                object.__setattr__(self, name, waiting)

    def has_uninitialized_params(self) -> bool:
        """True until all parameters and buffers have a shape."""
        return any(isinstance(each, UninitializedParameter | UninitializedBuffer) for each in vars(self).values())

    def initialize_parameters(self, x: Tensor) -> None:
        """Give the parameters the shapes that an input asks for, and their initial values."""
        raise NotImplementedError

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Take the shapes of parameters from the input, then be a module of the class that is not lazy."""
        if is_tracing() and self.has_uninitialized_params():
            raise TraceError(f"{type(self).__name__} takes the shapes of its parameters from its first input, within a compiled function",
                             find_user_location(), hint="call the model once before")
        self.initialize_parameters(x)
        self.__class__ = self._becomes      # type: ignore[assignment]
        return self.forward(x, *args, **kwargs)

    def _before_load(self, state: Mapping[str, Any], prefix: str) -> None:
        for name, waiting in list(vars(self).items()):
            given = state.get(f"{prefix}{name}")
            if isinstance(waiting, UninitializedParameter | UninitializedBuffer) and given is not None:
                waiting.materialize(tuple(given.shape))


class LazyLinear(_Lazy, Linear):
    """`Linear` that takes `in_features` from its first input.

    >>> import adjit
    >>> layer = LazyLinear(2)
    >>> layer(adjit.zeros(5, 3)).shape, layer
    ((5, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    _becomes = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        Linear.__init__(self, 1, 0, bias, device, dtype)
        self.in_features, self.out_features = 0, out_features
        self._wait(dtype, "weight", "bias")

    def initialize_parameters(self, x: Tensor) -> None:
        """Give weight and bias the shapes for an input (..., in_features)."""
        self.in_features = x.shape[-1]
        if self.has_uninitialized_params():
            self.weight.materialize((self.out_features, self.in_features))      # type: ignore[attr-defined]
            if self.bias is not None:
                self.bias.materialize((self.out_features,))     # type: ignore[attr-defined]
            self.reset_parameters()


class _LazyConvolution(_Lazy):
    """Base of lazy convolutions; transposed ones have the input's channels first in the shape of the weight."""

    axes: int
    _transposed = False

    def _begin(self, make: Any, out_channels: int, groups: int, dtype: Any, **settings: Any) -> None:
        make(self, groups, groups, groups=groups, dtype=dtype, **settings)
        self.in_channels, self.out_channels = 0, out_channels
        self._wait(dtype, "weight", "bias")

    def initialize_parameters(self, x: Tensor) -> None:
        """Give weight and bias the shapes for an input (N, C, ...) or (C, ...)."""
        if x.ndim not in (self.axes + 1, self.axes + 2):
            raise ShapeError(f"{type(self).__name__} takes (N, C, ...) or (C, ...) with {self.axes} axes after the channels, got the shape "
                             f"{x.shape}", find_user_location())
        self.in_channels = x.shape[-self.axes - 1]
        if self.has_uninitialized_params():
            first, second = (self.in_channels, self.out_channels) if self._transposed else (self.out_channels, self.in_channels)
            self.weight.materialize((first, second // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()     # type: ignore[operator]


class _LazyNorm(_Lazy):
    """Base of lazy normalisation of channels."""

    def _begin(self, make: Any, dtype: Any, **settings: Any) -> None:
        make(self, 1, dtype=dtype, **settings)
        self.num_features = 0
        self._wait(dtype, "weight", "bias", "running_mean", "running_var")

    def initialize_parameters(self, x: Tensor) -> None:
        """Give parameters and buffers the shapes for an input (N, C, ...), or (C, ...) for instance normalisation."""
        axes = getattr(self, "axes", None)
        self.num_features = x.shape[1 if axes is None else -axes - 1]
        if self.has_uninitialized_params():
            for name in ("weight", "bias", "running_mean", "running_var"):
                waiting = vars(self)[name]
                if waiting is not None:
                    waiting.materialize((self.num_features,))
            self.reset_running_stats()      # type: ignore[operator]
            self.reset_parameters()     # type: ignore[operator]


class LazyConv1d(_LazyConvolution, Conv1d):
    """`Conv1d` that takes `in_channels` from its first input.

    >>> import adjit
    >>> layer = LazyConv1d(8, 2)
    >>> layer(adjit.zeros(1, 3, 5)).shape, layer.in_channels
    ((1, 8, 4), 3)
    """

    _becomes = Conv1d

    def __init__(self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size | Literal["same", "valid"] = 0,
                 dilation: Size = 1, groups: int = 1, bias: bool = True, padding_mode: PaddingMode = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._begin(Conv1d.__init__, out_channels, groups, dtype, kernel_size=kernel_size, stride=stride, padding=padding,
                    dilation=dilation, bias=bias, padding_mode=padding_mode, device=device)


class LazyConv2d(_LazyConvolution, Conv2d):
    """`Conv2d` that takes `in_channels` from its first input.

    >>> import adjit
    >>> layer = LazyConv2d(8, 2)
    >>> layer(adjit.zeros(1, 3, 5, 5)).shape, layer.in_channels
    ((1, 8, 4, 4), 3)
    """

    _becomes = Conv2d

    def __init__(self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size | Literal["same", "valid"] = 0,
                 dilation: Size = 1, groups: int = 1, bias: bool = True, padding_mode: PaddingMode = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._begin(Conv2d.__init__, out_channels, groups, dtype, kernel_size=kernel_size, stride=stride, padding=padding,
                    dilation=dilation, bias=bias, padding_mode=padding_mode, device=device)


class LazyConv3d(_LazyConvolution, Conv3d):
    """`Conv3d` that takes `in_channels` from its first input.

    >>> import adjit
    >>> layer = LazyConv3d(8, 2)
    >>> layer(adjit.zeros(1, 3, 5, 5, 5)).shape, layer.in_channels
    ((1, 8, 4, 4, 4), 3)
    """

    _becomes = Conv3d

    def __init__(self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size | Literal["same", "valid"] = 0,
                 dilation: Size = 1, groups: int = 1, bias: bool = True, padding_mode: PaddingMode = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._begin(Conv3d.__init__, out_channels, groups, dtype, kernel_size=kernel_size, stride=stride, padding=padding,
                    dilation=dilation, bias=bias, padding_mode=padding_mode, device=device)


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    """`ConvTranspose1d` that takes `in_channels` from its first input.

    >>> import adjit
    >>> layer = LazyConvTranspose1d(8, 2)
    >>> layer(adjit.zeros(1, 3, 5)).shape, layer.in_channels
    ((1, 8, 6), 3)
    """

    _becomes = ConvTranspose1d
    _transposed = True

    def __init__(self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0, output_padding: Size = 0,
                 groups: int = 1, bias: bool = True, dilation: Size = 1, padding_mode: Literal["zeros"] = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._begin(ConvTranspose1d.__init__, out_channels, groups, dtype, kernel_size=kernel_size, stride=stride, padding=padding,
                    output_padding=output_padding, bias=bias, dilation=dilation, padding_mode=padding_mode, device=device)


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    """`ConvTranspose2d` that takes `in_channels` from its first input.

    >>> import adjit
    >>> layer = LazyConvTranspose2d(8, 2)
    >>> layer(adjit.zeros(1, 3, 5, 5)).shape, layer.in_channels
    ((1, 8, 6, 6), 3)
    """

    _becomes = ConvTranspose2d
    _transposed = True

    def __init__(self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0, output_padding: Size = 0,
                 groups: int = 1, bias: bool = True, dilation: Size = 1, padding_mode: Literal["zeros"] = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._begin(ConvTranspose2d.__init__, out_channels, groups, dtype, kernel_size=kernel_size, stride=stride, padding=padding,
                    output_padding=output_padding, bias=bias, dilation=dilation, padding_mode=padding_mode, device=device)


class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d):
    """`ConvTranspose3d` that takes `in_channels` from its first input.

    >>> import adjit
    >>> layer = LazyConvTranspose3d(8, 2)
    >>> layer(adjit.zeros(1, 3, 5, 5, 5)).shape, layer.in_channels
    ((1, 8, 6, 6, 6), 3)
    """

    _becomes = ConvTranspose3d
    _transposed = True

    def __init__(self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0, output_padding: Size = 0,
                 groups: int = 1, bias: bool = True, dilation: Size = 1, padding_mode: Literal["zeros"] = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._begin(ConvTranspose3d.__init__, out_channels, groups, dtype, kernel_size=kernel_size, stride=stride, padding=padding,
                    output_padding=output_padding, bias=bias, dilation=dilation, padding_mode=padding_mode, device=device)


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` that takes `num_features` from its first input.

    >>> import adjit
    >>> layer = LazyBatchNorm1d()
    >>> layer(adjit.ones(1, 3, 5)).shape, layer.num_features
    ((1, 3, 5), 3)
    """

    _becomes = BatchNorm1d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        self._begin(BatchNorm1d.__init__, dtype, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats,
                    device=device, bias=bias)


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` that takes `num_features` from its first input.

    >>> import adjit
    >>> layer = LazyBatchNorm2d()
    >>> layer(adjit.ones(1, 3, 5, 5)).shape, layer.num_features
    ((1, 3, 5, 5), 3)
    """

    _becomes = BatchNorm2d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        self._begin(BatchNorm2d.__init__, dtype, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats,
                    device=device, bias=bias)


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` that takes `num_features` from its first input.

    >>> import adjit
    >>> layer = LazyBatchNorm3d()
    >>> layer(adjit.ones(1, 3, 5, 5, 5)).shape, layer.num_features
    ((1, 3, 5, 5, 5), 3)
    """

    _becomes = BatchNorm3d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        self._begin(BatchNorm3d.__init__, dtype, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats,
                    device=device, bias=bias)


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """`InstanceNorm1d` that takes `num_features` from its first input.

    >>> import adjit
    >>> layer = LazyInstanceNorm1d()
    >>> layer(adjit.ones(1, 3, 5)).shape, layer.num_features
    ((1, 3, 5), 3)
    """

    _becomes = InstanceNorm1d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        self._begin(InstanceNorm1d.__init__, dtype, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats,
                    device=device, bias=bias)


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """`InstanceNorm2d` that takes `num_features` from its first input.

    >>> import adjit
    >>> layer = LazyInstanceNorm2d()
    >>> layer(adjit.ones(1, 3, 5, 5)).shape, layer.num_features
    ((1, 3, 5, 5), 3)
    """

    _becomes = InstanceNorm2d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        self._begin(InstanceNorm2d.__init__, dtype, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats,
                    device=device, bias=bias)


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """`InstanceNorm3d` that takes `num_features` from its first input.

    >>> import adjit
    >>> layer = LazyInstanceNorm3d()
    >>> layer(adjit.ones(1, 3, 5, 5, 5)).shape, layer.num_features
    ((1, 3, 5, 5, 5), 3)
    """

    _becomes = InstanceNorm3d

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True) -> None:
        self._begin(InstanceNorm3d.__init__, dtype, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats,
                    device=device, bias=bias)
