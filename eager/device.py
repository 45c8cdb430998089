"""Devices by PyTorch's names. Tensors are in the memory of the CPU, or in that of the first card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from adjit.eager.modes import switches
from adjit.ir.errors import ArgumentError, UnsupportedError
from adjit.ir.thread_context import thread
from adjit.tracer.array import TracedArray
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.user_location import find_user_location

KINDS = ("cpu", "cuda", "mps", "xpu", "meta")
"""Kinds that texts can name. Tensors exist on the first two."""


def named(given: Any) -> Any:
    """The name of a device that is given by its number, the card's; others as they are."""
    return f"cuda:{given}" if type(given) is int else given


class device(str):
    """Name of a device, as programs write it: a kind, `type`, and a number, `index`, or None; a number alone is a card's. It is a
    text, equal to "cpu" or "cuda:1".

    Raises `ValueError` for a kind that PyTorch does not know. Tensors and modules can be on "cpu" and on "cuda", the first card: giving
    another device to a function or a method raises `UnsupportedError` there.

    >>> device("cuda:1")
    device(type='cuda', index=1)
    >>> device("cpu").type, device("cpu") == "cpu"
    ('cpu', True)
    >>> device(0)
    device(type='cuda', index=0)
    """

    __slots__ = ()

    def __new__(cls, type: str | int, index: int | None = None) -> Self:
        name: str = named(type)
        kind, _, number = name.partition(":")
        if kind not in KINDS or (number and (index is not None or not number.isdecimal())):
            raise ValueError(f"{type!r} is no device: devices are named as \"cpu\" or \"cuda:0\", of the kinds {', '.join(KINDS)}")
        return super().__new__(cls, name if index is None else f"{name}:{index}")

    @property
    def type(self) -> str:
        """Kind of the device."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:      # type: ignore[override]
        """Number among the devices of its kind, if there is one."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"


CPU, CUDA = device("cpu"), device("cuda:0")


class DeviceRuntime:
    """What `runtime` does for tensors on a device: `put` copies an array there, `operation` makes an operation that runs there, `capsule`
    one of DLPack's for a consumer's stream."""

    put: Callable[[np.ndarray], DeviceLeaf]
    operation: Callable[..., Any]
    capsule: Callable[..., Any]


def is_cuda(given: Any) -> bool:
    """True for the name of the first card, False for that of the CPU, and for None; raises `UnsupportedError` for other devices,
    `ValueError` for names of none."""
    if given is None or given is CPU or given in ("cpu", "cpu:0"):
        return False
    given = named(given)
    if given in ("cuda", "cuda:0"):
        return True
    if isinstance(given, str):
        device(given)       # names the kinds for one that is none of them
    raise UnsupportedError(f"the device {given}: tensors are in the memory of the CPU, or of the first card, \"cuda\"",
                           find_user_location(), hint="leave the device out, or choose it by aj.cuda.is_available()")


def check_device(given: Any) -> None:
    """Accept "cpu" where nothing is made elsewhere; raises `UnsupportedError` for other devices."""
    if given is not None and given is not CPU and given not in ("cpu", "cpu:0"):
        raise UnsupportedError(f"the device {given}: this is made in the memory of the CPU", find_user_location(),
                               hint="leave the device out, and move what is made: .to(device)")


class OnDevice(ArgumentError):
    """A trace for the CPU met a tensor on a device. A function that is compiled for no device in particular is traced for this one then."""


def check_device_program() -> None:
    """Raise `OnDevice` if a tensor on a device is used or made while a function is traced for the CPU."""
    if thread.context.device == "cpu":
        raise OnDevice("a tensor on the device cuda:0 is used in a function that is compiled for the CPU", find_user_location(),
                              hint="compile it with device=\"cuda\", or move the tensor: x.cpu()")


def device_of(array: Any) -> device:
    """Where the content of a tensor is; of a traced one, where the program runs."""
    if isinstance(array, TracedArray):
        return CUDA if thread.context.device == "cuda" else CPU
    return CUDA if isinstance(array, DeviceLeaf) else CPU


def host_content(array: Any) -> Any:
    """The content of a tensor, copied if it is on a device, for checks of its values."""
    return array.copied() if isinstance(array, DeviceLeaf) else array


def on_device(content: np.ndarray) -> DeviceLeaf:
    """A copy of an array on the first card. From now on operations look where their operands are."""
    switches.devices = True
    return DeviceRuntime.put(content)


def common_device(contents: Iterable[Any]) -> str | None:
    """The device of an operation: that of all operands but numbers, "cuda", or None for the CPU. Raises `ArgumentError` if they are on two.
    """
    here = there = False
    for content in contents:
        if isinstance(content, DeviceLeaf):
            there = True
        elif is_ndarray(content) and content.ndim:
            here = True
    if here and there:
        raise ArgumentError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
                          find_user_location(), hint="move the other one, too: x.to(\"cuda\")")
    return "cuda" if there else None


def names_device(given: Any) -> bool:
    """True for a device, or a text or number that names one, among arguments that may be dtypes too."""
    return type(given) is int or (isinstance(given, str) and given.partition(":")[0] in KINDS)


@contextmanager
def running_on(device: str | None) -> Iterator[None]:
    """Trace for a device, or for where traces are for."""
    context = thread.context
    before, context.device = context.device, context.device if device is None else device
    try:
        yield
    finally:
        context.device = before
