"""The content of arrays that Python reads, as a number: a trace holds for this content only."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from numpy import ascontiguousarray

MAX_CHECKSUM_BYTES = 1 << 12
"""Bytes up to which `zlib` is as quick as a call of machine code from Python."""


class _NativeDigest:
    """`digest` of the bytes at an address, in machine code, once `runtime.native.digest` has put it here."""

    digest: Callable[[int, int], int] | None = None


native_digest = _NativeDigest()


def fingerprint(array: np.ndarray) -> int:
    """A checksum of the content, to notice that an array was written to."""
    return zlib.crc32(in_memory_order(array).reshape(-1).view(np.uint8).data)


def in_memory_order(array: np.ndarray) -> np.ndarray:
    """The elements as a C-contiguous array: in the order in which they lie in memory where there are no gaps, else a copy."""
    plain = array.view(np.ndarray)
    return plain.T if plain.flags.f_contiguous else ascontiguousarray(plain)


class ContentGuard:
    """What an array held when it was traced with; `path` is how the code writes it.

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
        """True if the array, or the one that has taken its place, has this content."""
        array = self.array if array is None else array
        if _form(array) != self._form:
            return False
        if native_digest.digest is None or array.nbytes <= MAX_CHECKSUM_BYTES:
            return fingerprint(array) == self._checksum
        return self._machine_digest(array) == self._digest

    def digest(self) -> int | None:
        """The digest in machine code of the content that the trace holds for; None where the array has another one by now."""
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
