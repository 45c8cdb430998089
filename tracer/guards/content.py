"""Fingerprints of the arrays that Python reads: a trace holds for this content only."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ascontiguousarray

MAX_CHECKSUM_BYTES = 1 << 12
"""Bytes up to which `zlib` is as quick as a call of machine code from Python."""


class _NativeDigest:
    """Digest of the bytes at an address, in machine code; `runtime.native.digest` sets it."""

    digest: Callable[[int, int], int] | None = None


native_digest = _NativeDigest()


def fingerprint(array: np.ndarray) -> int:
    """Checksum of the content, to notice that an array was written to."""
    return zlib.crc32(in_memory_order(array).reshape(-1).view(np.uint8).data)


def form_of(array: np.ndarray) -> tuple[Any, ...]:
    """Return the shape, dtype and strides of an array, its address and its flags."""
    plain = np.ndarray.view(array, np.ndarray)
    return (plain.shape, plain.dtype, plain.strides, plain.__array_interface__["data"][0], bool(plain.flags.writeable))


def in_memory_order(array: np.ndarray) -> np.ndarray:
    """Return the elements as a C-contiguous array: in memory order if there are no gaps, else a copy."""
    plain = np.ndarray.view(array, np.ndarray)
    return plain.T if plain.flags.f_contiguous else ascontiguousarray(plain)


class ContentGuard:
    """Content that an array had when it was traced; `path` is its expression in the code.

    Machine code reads memory ten times as fast as `zlib`, but is not there when the first functions are traced.
    """

    __slots__ = ("_checksum", "_digest", "_form", "array", "path")

    def __init__(self, path: str, array: np.ndarray, checksum: int | None = None):
        self.path = path
        self.array = array
        self._form = _form(array)
        self._checksum = fingerprint(array) if checksum is None else checksum
        self._digest: int | None = None

    def holds(self, array: np.ndarray | None = None) -> bool:
        """True if the array, or the array that replaced it, has this content."""
        array = self.array if array is None else array
        if _form(array) != self._form:
            return False
        if native_digest.digest is None or array.nbytes <= MAX_CHECKSUM_BYTES:
            return fingerprint(array) == self._checksum
        return self._machine_digest(array) == self._digest

    def digest(self) -> int | None:
        """Machine-code digest of the content that the trace holds for; None if the array has other content by now."""
        if self._digest is None:
            self._machine_digest(self.array)
        return self._digest

    def _machine_digest(self, array: np.ndarray) -> int:
        assert native_digest.digest is not None
        ordered = in_memory_order(array)
        found = native_digest.digest(ordered.ctypes.data, ordered.nbytes)
        if self._digest is None and fingerprint(array) == self._checksum:
            self._digest = found
        return found


def _form(array: np.ndarray) -> tuple[object, ...]:
    return array.shape, array.dtype, array.flags.c_contiguous
