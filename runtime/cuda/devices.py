"""The devices of this process: the driver is made when the first program for a device asks for it, or the first array is put there."""

from __future__ import annotations

import threading

from adjit.runtime import settings
from adjit.runtime.cuda.driver import Driver
from adjit.runtime.cuda.emulated_driver import EmulatedDriver

AnyDriver = Driver | EmulatedDriver

_made: dict[str, AnyDriver] = {}
_lock = threading.Lock()


def driver() -> AnyDriver:
    """The driver that `ADJIT_CUDA` asks for; raises `UnsupportedError` if there is no card."""
    wanted = settings.CUDA.get()
    with _lock:
        if wanted not in _made:
            _made[wanted] = EmulatedDriver() if wanted == "emulated" else Driver()
        return _made[wanted]
