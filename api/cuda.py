"""Graphics cards, by PyTorch's names: what there is, and what is in its memory. See the page on NVIDIA GPUs.

>>> import os, adjit as aj
>>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
>>> device = aj.device("cuda" if aj.cuda.is_available() else "cpu")
>>> aj.zeros(2, device=device).device
device(type='cuda', index=0)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from adjit.eager.device import card_number
from adjit.eager.modes import modes
from adjit.ir.errors import ArgumentError, UnsupportedError
from adjit.ir.lazy_module import LazyModule
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.runtime.cuda import devices
else:
    devices = LazyModule("adjit.runtime.cuda.devices")

__all__ = [
    "Memory", "current_device", "device", "device_count", "empty_cache", "get_device_name", "is_available", "manual_seed",
    "manual_seed_all", "mem_get_info", "memory", "memory_allocated", "memory_reserved", "set_device", "synchronize",
]


def is_available() -> bool:
    """Return True if there is a card that programs can be compiled for, or an emulated one (`ADJIT_CUDA=emulated`).

    >>> is_available() == (device_count() > 0)
    True
    """
    try:
        devices.driver()
    except UnsupportedError:
        return False
    return True


def device_count() -> int:
    """Return the number of cards; with `ADJIT_CUDA=emulated:2` there are two.

    >>> import os
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> device_count()
    1
    """
    return devices.count()


def current_device() -> int:
    """Return the number of the card that "cuda" stands for in this thread. Raises `UnsupportedError` if there is none.

    >>> import os
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> current_device()
    0
    """
    devices.driver(modes.card)
    return modes.card


def set_device(device: Any) -> None:
    """Have "cuda" stand for a card, by its number or name, in this thread. Raises `UnsupportedError` for one that is not there.

    >>> set_device(0)
    """
    number = card_number(device)
    if number is None:
        raise ArgumentError(f"{device!r} is no card", find_user_location(), hint="name one by its number, or as \"cuda:1\"")
    modes.card = number


class device:
    """Context within which "cuda" stands for a card, by its number or name.

    >>> with device(0):
    ...     pass
    """

    def __init__(self, device: Any):
        self._number, self._before = card_number(device), modes.card

    def __enter__(self) -> None:
        self._before = modes.card
        if self._number is not None:
            modes.card = self._number

    def __exit__(self, *_: object) -> None:
        modes.card = self._before


def _driver(device: Any) -> devices.AnyDriver:
    """The driver of a card, of the current one for None."""
    number = card_number("cuda" if device is None else device)
    return devices.driver(modes.card if number is None else number)


def get_device_name(device: Any = None) -> str:
    """Return the name of a card, by default of the current one. Raises `UnsupportedError` if it is not there.

    >>> import os
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> get_device_name()
    'emulated device'
    """
    return _driver(device).name


def synchronize(device: Any = None) -> None:
    """Wait until all that was launched on a card, by default the current one, is computed; errors of kernels are raised here at the latest.
    Raises `UnsupportedError` if it is not there.

    >>> import os
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> synchronize()
    """
    _driver(device).synchronize()


class Memory(NamedTuple):
    """Bytes of a card's memory: `free`, which any process may still get, and `total`, all of it; `used` by arrays and working memory of
    programs of this process, and `reserved`, what this process has of the system for these and for more.

    >>> Memory(free=6, total=10, used=3, reserved=4).used
    3
    """

    free: int
    total: int
    used: int
    reserved: int


def memory(device: Any = None) -> Memory:
    """Return how much of the memory of a card, by default the current one, is free and in use. Raises `UnsupportedError` if there is none.

    >>> import os, numpy as np, adjit as aj
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> before = memory().used
    >>> x = aj.device_put(np.zeros(1000))
    >>> memory().used - before
    8000
    """
    return Memory(*_driver(device).memory())


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that this process has of the system, by PyTorch's name; see `memory`.

    >>> import os
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> memory_reserved() >= memory_allocated()
    True
    """
    return memory(device).reserved


def memory_allocated(device: Any = None) -> int:
    """Return the bytes of all arrays and working memory of programs on the card. Raises `UnsupportedError` if there is none.

    >>> import os, numpy as np, adjit as aj
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> before = memory_allocated()
    >>> x = aj.device_put(np.zeros(1000))
    >>> memory_allocated() - before
    8000
    """
    return memory(device).used


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the bytes of the card's memory that are free, and all. Raises `UnsupportedError` if there is no card.

    >>> import os
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> free, everything = mem_get_info()
    >>> 0 < free < everything
    True
    """
    return memory(device)[:2]


def empty_cache() -> None:
    """Give memory that is reserved on cards, and not in use, back to the system, for other processes; without a card return at once.

    >>> empty_cache()
    """
    for driver in devices.made():
        driver.trim()


def manual_seed(seed: int) -> None:
    """Return at once: `adjit.manual_seed` seeds the generator, which is one for all devices.

    >>> manual_seed(0)
    """


manual_seed_all = manual_seed


__path__: list[str] = []        # for `import adjit.cuda.amp`


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module("adjit.cuda.amp")
    raise AttributeError(f"module 'adjit.cuda' has no attribute {name!r}", name=name, obj=None)
