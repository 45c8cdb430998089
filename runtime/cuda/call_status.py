"""What checks of indices have found in calls that nobody waited for.

The device looks at the checks of a call, and leaves out what follows a bad index. The results of the call, and what later calls compute
from them, are in doubt until somebody reads one: then the status of the call is read, and `IndexingError` raised, each time. An argument
that the call would have written to has kept its content: it is told of once. Doubts are passed on by calls; arrays without any have None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from adjit.codegen.cuda.nodes import CHECK_WORDS
from adjit.ir.errors import IndexingError
from adjit.ir.graph import Op
from adjit.ir.ops.indexing import check_indices

_MOST_DOUBTS = 16
"""Most calls that an array is in doubt for: one more, and they are waited for. A training step that looks up rows of what it trains passes
on a doubt at each step."""


class _Memory(Protocol):
    driver: Any
    address: int


class CallStatus:
    """The words in which the device says what the checks of a call have found, until somebody looks."""

    __slots__ = ("_checks", "_found", "_memory", "is_told")

    def __init__(self, memory: _Memory, checks: Sequence[Op]):
        """`memory` has `CHECK_WORDS` words."""
        self._memory: _Memory | None = memory
        self._checks, self._found = checks, np.zeros(CHECK_WORDS, np.int64)
        self.is_told = False            # somebody got the error

    @property
    def is_known(self) -> bool:
        """True if somebody has looked."""
        return self._memory is None

    def error(self) -> IndexingError | None:
        """What the call has found, once it is done."""
        if self._memory is not None:
            self._memory.driver.copy_out(self._found, self._memory.address)
            self._memory = None
        number, *indices = self._found.tolist()
        return index_error(self._checks[number - 1], indices) if number else None


Doubts = Mapping[CallStatus, bool]
"""Calls that may have failed; True for those that would have left the content as it was before."""


def doubts_of(arrays: Iterable[Any], waits: bool = False) -> dict[CallStatus, bool]:
    """Doubts about what is computed from these arrays, or other objects. Raises `IndexingError` for a call that is known to have failed,
    or, if somebody `waits`, for any."""
    found: dict[CallStatus, bool] = {}
    for array in arrays:
        doubts: Doubts | None = getattr(array, "doubts", None)
        for status, kept in (doubts or {}).items():
            found[status] = found.get(status, True) and kept
    look = waits or len(found) > _MOST_DOUBTS
    settle({status: kept for status, kept in found.items() if look or status.is_known})
    return {status: kept for status, kept in found.items() if not status.is_known}


def settle(doubts: Doubts) -> None:
    """Wait for the calls. Raises `IndexingError` if one has failed; if it has left the content as it was, once."""
    for status, kept in doubts.items():
        error = status.error()
        if error is not None and not (kept and status.is_told):
            status.is_told = True
            raise error


def index_error(op: Op, indices: Any) -> IndexingError:
    """The error of a check that found these lowest and highest indices."""
    axis = op.attrs["axis"]
    size = op.operands[0].type.shape[axis]
    try:
        check_indices(np.asarray(indices, np.int64), size, axis)
    except IndexError as error:
        return IndexingError(f"{op.name}: {error}", op.loc)
    return IndexingError(f"{op.name}: an index was out of range for axis {axis} of size {size}", op.loc)
