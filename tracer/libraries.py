"""Choice of functions that other libraries compute: traced functions use LAPACK where SciPy is there, unless the trace is for a library for
C, which has nothing but its own code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

_own_code = ContextVar("own_code", default=False)


def has_lapack() -> bool:
    """True if what is traced may call LAPACK."""
    return not _own_code.get() and _scipy_is_installed()


@cache
def _scipy_is_installed() -> bool:
    return find_spec("scipy") is not None


@contextmanager
def own_code() -> Iterator[None]:
    """Context for traces of programs that call no other library, as far as there is code of our own."""
    token = _own_code.set(True)
    try:
        yield
    finally:
        _own_code.reset(token)
