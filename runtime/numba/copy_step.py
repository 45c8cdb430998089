"""Copies as steps: `reshape` into another slot."""

from __future__ import annotations

import ctypes
from typing import Any

BYTES_PER_NS = 10
"""Speed of a copy of memory, roughly."""

_memmove = ctypes.CDLL(None).memmove
_ADDRESS = ctypes.cast(_memmove, ctypes.c_void_p).value
_memmove.argtypes, _memmove.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_void_p


class CopyStep:
    """Copies `size` bytes from where `source` points to where `target` points when it is called."""

    def __init__(self, source: ctypes.c_void_p, target: ctypes.c_void_p, size: int):
        self._arguments = (target, source, ctypes.c_int64(size))
        self.work = size / BYTES_PER_NS

    def serial_calls(self) -> list[tuple[int, tuple[Any, ...]]]:
        """The `serial_calls` of `chain.NativeStep`."""
        assert _ADDRESS is not None
        return [(_ADDRESS, self._arguments)]

    def __call__(self) -> None:
        target, source, size = self._arguments
        _memmove(target, source, size.value)
