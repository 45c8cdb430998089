"""Modes of the dynamic graph in this thread: gradients on or off, anomaly detection."""

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any, Self, TypeVar, overload

import numpy as np

from adjit.tracer.scope import calls_in_python

F = TypeVar("F", bound=Callable[..., Any])


grad_mode_toggled = ctypes.c_int64(0)
"""1 if the recording of gradients was ever switched, in any thread: machine code reads it before it reads `modes`."""


class _Modes(threading.local):
    grad = True
    anomaly = False
    autocast: np.dtype[Any] | None = None
    autocast_device = "cpu"
    default_float = np.dtype(np.float32)        # of all threads
    card = 0
    default_device: str | None = None

    @property
    def key(self) -> object:
        """What programs depend on: `grad`, unless another mode is in force, in which calls go through Python."""
        if self.autocast is None and self.default_float is _FLOAT32 and self.default_device is None:
            return self.grad
        return self.grad, self.autocast, self.autocast_device, self.default_float, self.default_device, self.card


class _Switches:
    def __init__(self) -> None:
        self.autocast = self.devices = False


switches = _Switches()
"""`switches.autocast`: True from the first block of `autocast` on, in any thread. Until then operations need not look at the mode.
`switches.devices`: True from the first tensor on a device on: operations look where their operands are."""

_FLOAT32 = _Modes.default_float
_lock, _in_python = threading.Lock(), ExitStack()
modes = _Modes()
"""Modes of this thread. `modes.grad`: operations are recorded. `modes.anomaly`: nodes record the line, and backward looks for NaN.
`modes.autocast`: the dtype in which products of float32 matrices on `modes.autocast_device` are computed. `modes.default_float`: the dtype
of tensors of Python floats. `modes.card`: the number of the card that "cuda" stands for. `modes.default_device`: where tensors are made if
nothing else says it, a card's name or None for the CPU.
"""


def set_default_float(dtype: np.dtype[Any]) -> None:
    """Set the dtype of tensors of Python floats, in all threads. Machine code knows float32 alone."""
    with _lock:
        _in_python.close()
        if dtype != _FLOAT32:
            _in_python.enter_context(calls_in_python())
        _Modes.default_float = _FLOAT32 if dtype == _FLOAT32 else dtype


_device_blocks: list[ExitStack] = []


def set_default_device(name: str | None) -> None:
    """Set where tensors are made in this thread, a card's name or None for the CPU. While a thread has a card, calls go through Python."""
    with _lock:
        before, modes.default_device = modes.default_device, name
        if name is not None and before is None:
            _device_blocks.append(ExitStack())
            _device_blocks[-1].enter_context(calls_in_python())
        elif name is None and before is not None:
            _device_blocks.pop().close()


class _Mode:
    """Context manager or decorator that sets one mode for a block, or for every call of a function."""

    mode: str
    value: bool

    _before: list[bool]

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        made = super().__new__(cls)
        made._before = []
        return made

    def __enter__(self) -> Self:
        self._before.append(getattr(modes, self.mode))
        grad_mode_toggled.value = 1
        setattr(modes, self.mode, self.value)
        return self

    def __exit__(self, *exception: object) -> None:
        setattr(modes, self.mode, self._before.pop())

    def __call__(self, fun: F) -> F:
        if inspect.isgeneratorfunction(fun):
            return self._within_generator(fun)      # type: ignore[return-value]

        @functools.wraps(fun)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return fun(*args, **kwargs)

        return within       # type: ignore[return-value]

    def _within_generator(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a generator so that it always runs within the mode, and leaves its caller's mode unchanged in between."""

        @functools.wraps(fun)
        def within(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = fun(*args, **kwargs)
            resume: Callable[[], Any] = functools.partial(next, generator)
            while True:
                try:
                    with self._again():
                        item = resume()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield item
                except GeneratorExit:
                    with self._again():
                        generator.close()
                    raise
                except BaseException as error:
                    resume = functools.partial(generator.throw, error)
                else:
                    resume = functools.partial(generator.send, sent)

        return within

    def _again(self) -> _Mode:
        return type(self)()


class _NoGrad(_Mode):
    mode, value = "grad", False


@overload
def no_grad() -> _Mode: ...


@overload
def no_grad(function: F, /) -> F: ...


def no_grad(*function: Any) -> Any:
    """Context manager within which nothing is recorded: results do not require grad. Also a decorator of functions and generators, with or
    without parentheses. Holds for this thread only.

    >>> from adjit.eager.tensor import tensor
    >>> x = tensor([1.0], requires_grad=True)
    >>> with no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    >>> @no_grad
    ... def double(x):
    ...     return x * 2
    >>> double(x).requires_grad
    False
    """
    return _NoGrad()(*function) if function else _NoGrad()        # with a function: `@no_grad` without parentheses


def inference_mode(mode: Any = True) -> Any:
    """Context manager or decorator like `no_grad`, by PyTorch's name; `inference_mode(False)` is `enable_grad`. Tensors
    that are made within it may be used in differentiated computations afterwards, as those of `no_grad`.

    >>> from adjit.eager.tensor import tensor
    >>> with inference_mode():
    ...     y = tensor([1.0], requires_grad=True) * 2
    >>> y.requires_grad
    False
    """
    if callable(mode):      # `@inference_mode` without parentheses
        return no_grad(mode)
    return no_grad() if mode else enable_grad()


class _EnableGrad(_Mode):
    mode, value = "grad", True


@overload
def enable_grad() -> _Mode: ...


@overload
def enable_grad(function: F, /) -> F: ...


def enable_grad(*function: Any) -> Any:
    """Context manager within which operations are recorded, also inside of `no_grad`. Also a decorator, with or without parentheses.

    >>> from adjit.eager.tensor import tensor
    >>> x = tensor([1.0], requires_grad=True)
    >>> with no_grad(), enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """
    return _EnableGrad()(*function) if function else _EnableGrad()        # with a function: `@enable_grad` without parentheses


class set_grad_enabled(_Mode):
    """Switch that turns the recording of operations on or off, as `mode` says: at once, and until the end of the block if it is used as a
    context manager. Also a decorator.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    mode = "grad"

    def __init__(self, mode: bool) -> None:
        self.value = bool(mode)
        self._before.append(modes.grad)
        grad_mode_toggled.value = 1
        modes.grad = self.value

    def __enter__(self) -> Self:
        return self

    def __call__(self, fun: F) -> F:
        self.__exit__()
        return super().__call__(fun)

    def _again(self) -> _Mode:
        return set_grad_enabled(self.value)


class _DetectAnomaly(_Mode):
    mode, value = "anomaly", True


@overload
def detect_anomaly() -> _Mode: ...


@overload
def detect_anomaly(function: F, /) -> F: ...


def detect_anomaly(*function: Any) -> Any:
    """Context manager within which operations record the user's line, and a NaN in a backward pass raises `AnomalyError` that names the
    operation and its line. Also a decorator, with or without parentheses. Costs time: for debugging.

    >>> from adjit.eager.tensor import tensor
    >>> x = tensor([0.0], requires_grad=True)
    >>> with detect_anomaly():      # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     (x / x).sum().backward()
    Traceback (most recent call last):
    adjit.errors.AnomalyError: DivBackward0 gives NaN in the gradient of operand 1
    """
    return _DetectAnomaly()(*function) if function else _DetectAnomaly()        # with a function: `@detect_anomaly` without parentheses


class set_detect_anomaly(_Mode):
    """Switch of `detect_anomaly`, as `mode` says: at once, and until the end of the block if it is used as a context manager.

    >>> with set_detect_anomaly(True):
    ...     modes.anomaly
    True
    """

    mode = "anomaly"

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.value = bool(mode)
        self._before.append(modes.anomaly)
        grad_mode_toggled.value = 1
        modes.anomaly = self.value

    def __enter__(self) -> Self:
        return self

    def _again(self) -> _Mode:
        return set_detect_anomaly(self.value)


def is_grad_enabled() -> bool:
    """True if operations are recorded now.

    >>> is_grad_enabled()
    True
    """
    return modes.grad
