"""Objects that hold an array and that adjit's NumPy functions accept in its place: eager tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import Any, ClassVar, Self

Function = Callable[..., Any]


class ArrayWrapper:
    """Holder of an array: `array` is an ndarray, or a traced array while a function is captured.

    A function of adjit that is called with a wrapper among its arguments passes the call to `apply_wrapped`.
    """

    array: Any

    def traced(self) -> Any:
        """The array as a traced array of the trace under way."""
        raise NotImplementedError

    def _python_number(self, kind: type) -> Any:
        """What `kind(x)`, `float` or `int`, gives within the trace under way: a number that calls compute, where that is possible."""
        raise NotImplementedError

    def as_argument(self, traced: Any) -> Any:
        """Argument for a traced function in place of this wrapper, whose content is the parameter `traced`."""
        raise NotImplementedError

    def signature_key(self) -> tuple[Any, ...]:
        """Properties besides dtype and shape that a trace depends on."""
        raise NotImplementedError

    def around(self, traced: Any) -> Any:
        """Wrap another array in a wrapper like this one, for a function that is traced into a region."""
        raise NotImplementedError

    @classmethod
    def apply_closure(cls, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `function` within the trace under way; it takes wrappers, and may read other wrappers from its closure."""
        raise NotImplementedError

    @classmethod
    def apply_wrapped(cls, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `function`, which is written over traced arrays, with wrappers among its arguments."""
        raise NotImplementedError


class HoldsTraced:
    """Base of objects that stand for those of a library, or of Python, and hold traced arrays: sparse matrices, rotations, lists."""

    __slots__ = ()

    def opened(self) -> Any:
        """What NumPy's functions take it for."""
        return self


class DeviceLeaf:
    """Array in the memory of a device, as an argument of a function that is compiled for this device: `device` is the device's name. Its
    elements are not here, so that only its type is traced."""

    __slots__ = ()

    device: str
    shape: tuple[int, ...]
    dtype: Any
    view_steps: tuple[int, ...] | None      # strides that a view has in PyTorch, in elements; None for arrays in C order

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @staticmethod
    def borrowed(value: Any, path: Callable[[], str]) -> DeviceLeaf:
        """An array on the memory of an array of another library, in that of a card. `runtime` sets this."""
        raise NotImplementedError

    def copied(self) -> Any:
        """The elements, as an array of NumPy's."""
        raise NotImplementedError

    def copy(self) -> Self:
        """A copy on the device."""
        raise NotImplementedError

    def assign(self, content: Any) -> None:
        """Overwrite the elements with those of another array of this shape and dtype, on the device or not."""
        raise NotImplementedError

    @property
    def address(self) -> int:
        """Where the first element is, in the memory of the device."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        raise NotImplementedError

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides, in elements, that a tensor of this content has in PyTorch: those of the view that it stands for."""
        raise NotImplementedError

    def follow(self, base: Self, read: Callable[[], Any], write: Callable[[Any], None] | None, steps: tuple[int, ...]) -> None:
        """Stand for a view of `base`, as a copy: `read` makes its content anew, before it is used, if the base was written to; `write`
        writes its content, the array, to the base. Without `write`, as of a view that repeats elements, it cannot be written to. `steps`
        are the strides of the view, in elements."""
        raise NotImplementedError

    def written(self) -> None:
        """Note that a program wrote to the elements."""
        raise NotImplementedError

    @property
    def is_view(self) -> bool:
        """True if the array follows another one."""
        raise NotImplementedError


class IdentityKeyed:
    """Base of objects that compiled functions take by reference; the compiling code compares their contents. See `eager.state.Stateful`.

    `__adjit_reads__`, if it is not empty: the contents are guarded as those of other objects are; the attributes that methods read, "" for
    all of them."""

    __adjit_reads__: ClassVar[Mapping[str, str]] = {}


def held_by(function: Any) -> list[Any]:
    """Objects that a callable passes to its function besides the arguments: the object of a method, the bound arguments of a partial; the
    callable itself if it is taken by reference."""
    if isinstance(function, IdentityKeyed):
        return [function]
    if isinstance(function, MethodType):
        return [function.__self__, *held_by(function.__func__)]
    if isinstance(function, partial):
        return [*held_by(function.func), *function.args, *function.keywords.values()]
    return []


def find_wrapper(args: Sequence[Any], kwargs: Mapping[str, Any]) -> ArrayWrapper | None:
    """Return the first wrapper among the arguments, also within lists and tuples."""
    for arg in args:
        if isinstance(arg, ArrayWrapper):
            return arg
        if isinstance(arg, (list, tuple)) and (found := find_wrapper(arg, {})) is not None:
            return found
    for arg in kwargs.values():
        if isinstance(arg, ArrayWrapper):
            return arg
        if isinstance(arg, (list, tuple)) and (found := find_wrapper(arg, {})) is not None:
            return found
    return None
