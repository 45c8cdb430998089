"""Objects of other packages that hold an array and that NumPy's functions of ours are to understand: eager tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import Any

Function = Callable[..., Any]


class ArrayWrapper:
    """Holds an array: `array`, an ndarray, or a traced array while a function is captured.

    A function of ours that is called with a wrapper among its arguments hands the call to `apply_wrapped`.
    """

    array: Any

    def traced(self) -> Any:
        """The array as a traced array of the trace under way."""
        raise NotImplementedError

    def as_argument(self, traced: Any) -> Any:
        """What a function that is traced gets in place of this wrapper, whose content is the parameter `traced`."""
        raise NotImplementedError

    def signature_key(self) -> tuple[Any, ...]:
        """What else than dtype and shape a trace depends on."""
        raise NotImplementedError

    def around(self, traced: Any) -> Any:
        """A wrapper like this one around another array, for a function that is traced into a region."""
        raise NotImplementedError

    @classmethod
    def apply_closure(cls, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `function`, which is given wrappers and may reach others by itself, within the trace under way."""
        raise NotImplementedError

    @classmethod
    def apply_wrapped(cls, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `function`, which is written over traced arrays, with wrappers among its arguments."""
        raise NotImplementedError


class IdentityKeyed:
    """Objects that compiled functions take by reference; who compiles looks after what they hold. See `eager.state.Stateful`."""


def held_by(function: Any) -> list[Any]:
    """What a callable object is called with besides its arguments: the object of a method, what a partial binds; itself if it is taken
    by reference."""
    if isinstance(function, IdentityKeyed):
        return [function]
    if isinstance(function, MethodType):
        return [function.__self__, *held_by(function.__func__)]
    if isinstance(function, partial):
        return [*held_by(function.func), *function.args, *function.keywords.values()]
    return []


def find_wrapper(args: Sequence[Any], kwargs: Mapping[str, Any]) -> ArrayWrapper | None:
    """The first wrapper among the arguments, also within lists and tuples."""
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
