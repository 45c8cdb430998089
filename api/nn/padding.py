"""Layers that pad the last axes: with zeros, a number, or elements of the input."""

from __future__ import annotations

from adjit.eager.tensor import Tensor
from adjit.nn import functional
from adjit.nn.convolution import Size
from adjit.nn.functional.arguments import one_per_axis
from adjit.nn.module import Module


class _Padding(Module):
    """Base of padding: one number for all sides, or two for each axis, the last axis first; negative numbers crop."""

    axes: int
    mode: str
    value: float = 0.0

    def __init__(self, padding: Size) -> None:
        super().__init__()
        self.padding = one_per_axis(padding, 2 * self.axes, type(self).__name__, "padding", -(1 << 62))

    def forward(self, x: Tensor) -> Tensor:
        """Pad (N, C, ...) or (C, ...), with one more axis for each axis that is padded."""
        return functional.pad(x, self.padding, self.mode, self.value)      # type: ignore[call-overload, no-any-return]

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Padding):
    """Base of padding with a number."""

    mode = "constant"

    def __init__(self, padding: Size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ZeroPad1d(_Padding):
    """Layer that pads (N, C, L) or (C, L) with zeros.

    One number for all sides, or (left, right); negative numbers crop.

    >>> import adjit
    >>> ZeroPad1d((2, 1))(adjit.arange(3.0).reshape(1, 3)).flatten()
    tensor([0., 0., 0., 1., 2., 0.])
    """

    axes = 1
    mode = "constant"


class ZeroPad2d(_Padding):
    """Layer that pads (N, C, H, W) or (C, H, W) with zeros.

    One number for all sides, or (left, right, top, bottom); negative numbers crop.

    >>> import adjit
    >>> ZeroPad2d((2, 1, 0, 0))(adjit.arange(3.0).reshape(1, 1, 3)).flatten()
    tensor([0., 0., 0., 1., 2., 0.])
    """

    axes = 2
    mode = "constant"


class ZeroPad3d(_Padding):
    """Layer that pads (N, C, D, H, W) or (C, D, H, W) with zeros.

    One number for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    >>> import adjit
    >>> ZeroPad3d((2, 1, 0, 0, 0, 0))(adjit.arange(3.0).reshape(1, 1, 1, 3)).flatten()
    tensor([0., 0., 0., 1., 2., 0.])
    """

    axes = 3
    mode = "constant"


class ConstantPad1d(_ConstantPad):
    """Layer that pads (N, C, L) or (C, L) with a number.

    One number for all sides, or (left, right); negative numbers crop.

    >>> import adjit
    >>> ConstantPad1d((2, 1), 7.0)(adjit.arange(3.0).reshape(1, 3)).flatten()
    tensor([7., 7., 0., 1., 2., 7.])
    """

    axes = 1


class ConstantPad2d(_ConstantPad):
    """Layer that pads (N, C, H, W) or (C, H, W) with a number.

    One number for all sides, or (left, right, top, bottom); negative numbers crop.

    >>> import adjit
    >>> ConstantPad2d((2, 1, 0, 0), 7.0)(adjit.arange(3.0).reshape(1, 1, 3)).flatten()
    tensor([7., 7., 0., 1., 2., 7.])
    """

    axes = 2


class ConstantPad3d(_ConstantPad):
    """Layer that pads (N, C, D, H, W) or (C, D, H, W) with a number.

    One number for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    >>> import adjit
    >>> ConstantPad3d((2, 1, 0, 0, 0, 0), 7.0)(adjit.arange(3.0).reshape(1, 1, 1, 3)).flatten()
    tensor([7., 7., 0., 1., 2., 7.])
    """

    axes = 3


class ReflectionPad1d(_Padding):
    """Layer that pads (N, C, L) or (C, L) with the elements next to the edge, mirrored.

    One number for all sides, or (left, right); negative numbers crop.

    >>> import adjit
    >>> ReflectionPad1d((2, 1))(adjit.arange(3.0).reshape(1, 3)).flatten()
    tensor([2., 1., 0., 1., 2., 1.])
    """

    axes = 1
    mode = "reflect"


class ReflectionPad2d(_Padding):
    """Layer that pads (N, C, H, W) or (C, H, W) with the elements next to the edge, mirrored.

    One number for all sides, or (left, right, top, bottom); negative numbers crop.

    >>> import adjit
    >>> ReflectionPad2d((2, 1, 0, 0))(adjit.arange(3.0).reshape(1, 1, 3)).flatten()
    tensor([2., 1., 0., 1., 2., 1.])
    """

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Padding):
    """Layer that pads (N, C, D, H, W) or (C, D, H, W) with the elements next to the edge, mirrored.

    One number for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    >>> import adjit
    >>> ReflectionPad3d((2, 1, 0, 0, 0, 0))(adjit.arange(3.0).reshape(1, 1, 1, 3)).flatten()
    tensor([2., 1., 0., 1., 2., 1.])
    """

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Padding):
    """Layer that pads (N, C, L) or (C, L) with the elements at the edge.

    One number for all sides, or (left, right); negative numbers crop.

    >>> import adjit
    >>> ReplicationPad1d((2, 1))(adjit.arange(3.0).reshape(1, 3)).flatten()
    tensor([0., 0., 0., 1., 2., 2.])
    """

    axes = 1
    mode = "replicate"


class ReplicationPad2d(_Padding):
    """Layer that pads (N, C, H, W) or (C, H, W) with the elements at the edge.

    One number for all sides, or (left, right, top, bottom); negative numbers crop.

    >>> import adjit
    >>> ReplicationPad2d((2, 1, 0, 0))(adjit.arange(3.0).reshape(1, 1, 3)).flatten()
    tensor([0., 0., 0., 1., 2., 2.])
    """

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Padding):
    """Layer that pads (N, C, D, H, W) or (C, D, H, W) with the elements at the edge.

    One number for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    >>> import adjit
    >>> ReplicationPad3d((2, 1, 0, 0, 0, 0))(adjit.arange(3.0).reshape(1, 1, 1, 3)).flatten()
    tensor([0., 0., 0., 1., 2., 2.])
    """

    axes = 3
    mode = "replicate"


class CircularPad1d(_Padding):
    """Layer that pads (N, C, L) or (C, L) with the elements of the other end.

    One number for all sides, or (left, right); negative numbers crop.

    >>> import adjit
    >>> CircularPad1d((2, 1))(adjit.arange(3.0).reshape(1, 3)).flatten()
    tensor([1., 2., 0., 1., 2., 0.])
    """

    axes = 1
    mode = "circular"


class CircularPad2d(_Padding):
    """Layer that pads (N, C, H, W) or (C, H, W) with the elements of the other end.

    One number for all sides, or (left, right, top, bottom); negative numbers crop.

    >>> import adjit
    >>> CircularPad2d((2, 1, 0, 0))(adjit.arange(3.0).reshape(1, 1, 3)).flatten()
    tensor([1., 2., 0., 1., 2., 0.])
    """

    axes = 2
    mode = "circular"


class CircularPad3d(_Padding):
    """Layer that pads (N, C, D, H, W) or (C, D, H, W) with the elements of the other end.

    One number for all sides, or (left, right, top, bottom, front, back); negative numbers crop.

    >>> import adjit
    >>> CircularPad3d((2, 1, 0, 0, 0, 0))(adjit.arange(3.0).reshape(1, 1, 1, 3)).flatten()
    tensor([1., 2., 0., 1., 2., 0.])
    """

    axes = 3
    mode = "circular"
