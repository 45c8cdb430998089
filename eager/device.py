"""Devices by PyTorch's names. Tensors are in the memory of the CPU, or in that of a card."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from adjit.eager.modes import modes, set_default_device, switches
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

    Raises `ValueError` for a kind that PyTorch does not know. Tensors and modules can be on "cpu" and on cards, "cuda:1": giving another
    device, or a card that is not there, to a function or a method raises `UnsupportedError` there. "cuda" is the current card.

    >>> device("cuda:1")
    device(type='cuda', index=1)
    >>> device("cpu").type, device("cpu") == "cpu"
    ('cpu', True)
    >>> device(0)
    device(type='cuda', index=0)

    Within `with device("cuda"):` tensors, and the parameters of layers, are made there, unless `device=` says otherwise.

    >>> with device("cpu"):
    ...     pass
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

    def __enter__(self) -> Self:
        before = modes.default_device
        make_default(self)
        _entered.devices.append(before)
        return self

    def __exit__(self, *_: object) -> None:
        set_default_device(_entered.devices.pop())

    def __repr__(self) -> str:
        return f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"


class _Entered(threading.local):
    """Default devices before the `with` blocks that a thread is in."""

    def __init__(self) -> None:
        self.devices: list[str | None] = []


_entered = _Entered()

CPU, CUDA = device("cpu"), device("cuda:0")
_cards = [CUDA]


def card(number: int) -> device:
    """The device of a card: the same object each time."""
    while len(_cards) <= number:
        _cards.append(device(f"cuda:{len(_cards)}"))
    return _cards[number]


def place_of(number: int) -> str:
    """The name of a card as programs keep it: "cuda" is the first one, whatever the current one is."""
    return f"cuda:{number}" if number else "cuda"


def number_of(place: str) -> int:
    """The number of a card by the name that programs keep."""
    return int(place.partition(":")[2] or 0)


class DeviceRuntime:
    """What `runtime` does for tensors on a device: `put` copies an array to a card, by its number, `operation` is what makes the operations
    that run on a card, by its name, `capsule` makes one of DLPack's for a consumer's stream, `count` is the number of cards."""

    put: Callable[[Any, int], DeviceLeaf]
    operation: Callable[[str], Callable[..., Any]]
    capsule: Callable[..., Any]
    count: Callable[[], int]


def card_number(given: Any) -> int | None:
    """The number of a card by its name, that of the current card for "cuda"; None for the CPU, and for None. Raises `UnsupportedError` for
    a card that is not there, and for other devices, `ValueError` for names of none."""
    if given is None or given is CPU or given in ("cpu", "cpu:0"):
        return None
    given = named(given)
    if given == "cuda":
        return modes.card
    if given == "cuda:0":
        return 0
    if isinstance(given, str) and device(given).type == "cuda":     # `device` names the kinds for one that is none of them
        number, count = number_of(given), DeviceRuntime.count()
        if number < count:
            return number
        cards = "is one card" if count == 1 else f"are {count} cards"
        raise UnsupportedError(f"the device {given}: there {cards} here", find_user_location(),
                               hint="cards are numbered from 0; aj.cuda.device_count() says how many there are")
    raise UnsupportedError(f"the device {given}: tensors are in the memory of the CPU, or of a card, \"cuda\"",
                           find_user_location(), hint="leave the device out, or choose it by aj.cuda.is_available()")


def make_default(given: Any) -> None:
    """Have tensors be made on a device in this thread; None is the CPU. Raises the errors of `card_number`."""
    set_default_device(None if card_number(given) is None else str(device(named(given))))


def chosen(given: Any) -> Any:
    """The device that is asked for, or where tensors are made otherwise; None for the CPU."""
    return modes.default_device if given is None else given


def is_cuda(given: Any) -> bool:
    """True for the name of a card, False for that of the CPU, and for None; raises the errors of `card_number`."""
    return card_number(given) is not None


def check_device(given: Any) -> None:
    """Accept "cpu" where nothing is made elsewhere; raises `UnsupportedError` for other devices."""
    if given is not None and given is not CPU and given not in ("cpu", "cpu:0"):
        raise UnsupportedError(f"the device {given}: this is made in the memory of the CPU", find_user_location(),
                               hint="leave the device out, and move what is made: .to(device)")


class OnDevice(ArgumentError):
    """A trace for the CPU met a tensor on a device, at `place`. A function that is compiled for no device in particular is traced for this
    one then."""

    place = "cuda"


def check_device_program(place: str) -> None:
    """Raise `OnDevice` if a tensor at a place is used or made while a function is traced for the CPU, `ArgumentError` if it is traced for
    another card."""
    here = thread.context.device
    if here == "cpu":
        error = OnDevice(f"a tensor on the device {card(number_of(place))} is used in a function that is compiled for the CPU",
                         find_user_location(), hint=f"compile it with device=\"{place}\", or move the tensor: x.cpu()")
        error.place = place
        raise error
    if here != place:
        raise _two_devices(card(number_of(here)), card(number_of(place)))


def _two_devices(first: str, second: str) -> ArgumentError:
    return ArgumentError(f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!",
                         find_user_location(), hint=f"move the other one, too: x.to(\"{first if second == 'cpu' else second}\")")


def device_of(array: Any) -> device:
    """Where the content of a tensor is; of a traced one, where the program runs."""
    if isinstance(array, TracedArray):
        place = thread.context.device
        return CPU if place == "cpu" else card(number_of(place))
    return card(number_of(array.device)) if isinstance(array, DeviceLeaf) else CPU


def host_content(array: Any) -> Any:
    """The content of a tensor, copied if it is on a device, for checks of its values."""
    return array.copied() if isinstance(array, DeviceLeaf) else array


def on_device(content: Any, where: Any = "cuda") -> DeviceLeaf:
    """A copy of an array, in the memory of the CPU or of a card, on a card. From now on operations look where their operands are."""
    switches.devices = True
    number = card_number(where)
    assert number is not None
    return DeviceRuntime.put(content, number)


def common_device(contents: Iterable[Any]) -> str | None:
    """The place of an operation: that of all operands but numbers on the CPU, or None for the CPU. Raises `ArgumentError` if they are on
    two."""
    here, there = False, None
    for content in contents:
        if isinstance(content, DeviceLeaf):
            if there is not None and there != content.device:
                raise _two_devices(card(number_of(there)), card(number_of(content.device)))
            there = content.device
        elif is_ndarray(content) and content.ndim:
            here = True
    if here and there:
        raise _two_devices(card(number_of(there)), CPU)
    return there


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
