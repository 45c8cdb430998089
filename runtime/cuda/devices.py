"""The devices of this process: a driver is made when the first program for its card asks for it, or the first array is put there."""

from __future__ import annotations

import threading

from adjit.runtime import settings
from adjit.runtime.cuda.driver import Driver, card_count
from adjit.runtime.cuda.emulated_driver import EmulatedDriver

AnyDriver = Driver | EmulatedDriver

_made: dict[tuple[str, int], AnyDriver] = {}
_lock = threading.Lock()


def driver(number: int = 0) -> AnyDriver:
    """The driver of a card that `ADJIT_CUDA` asks for; raises `UnsupportedError` if it is not there."""
    wanted = settings.CUDA.get()
    with _lock:
        found = _made.get((wanted, number))
        if found is None:
            found = _made[wanted, number] = Driver(number) if wanted == "auto" else EmulatedDriver(number)
        return found


def count() -> int:
    """The number of cards; 0 without a driver."""
    kind, _, number = settings.CUDA.get().partition(":")
    return int(number or 1) if kind == "emulated" else card_count()


def made() -> list[AnyDriver]:
    """The drivers in use."""
    return [found for (wanted, _), found in _made.items() if wanted == settings.CUDA.get()]
