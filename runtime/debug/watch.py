"""Whether calls of compiled programs are watched for NaNs and infinities, in this thread or, by `ADJIT_NANS`, in the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.modes import detect_anomaly
from adjit.ir.graph import WRITABLE_ROLES
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import is_inexact
from adjit.runtime import settings
from adjit.tracer.scope import calls_in_python

if TYPE_CHECKING:
    from adjit.runtime.capture.compiled_operation import Half
    from adjit.runtime.debug import find_nans
    from adjit.runtime.debug.op_by_op import Observer
    from adjit.runtime.program import Program
else:
    find_nans = LazyModule("adjit.runtime.debug.find_nans")


class _State(threading.local):
    depth = 0
    reference = False
    observe: Observer | None = None


_state = _State()


@contextmanager
def nans() -> Iterator[None]:
    """Raise `NonFiniteError` in calls within the block whose results have a NaN or an infinity: with the op that made it, and its operands.

    The call is then run again, op by op. The error names the first op, of the forward or the backward half, that made what the results
    got, the line of the function, the operands where it did, and the iteration of a loop. Arguments and state are as before the call. An
    infinity that stands in the program as a number (`np.inf` in a mask) is no fault by itself. `backward()` counts as a call; of
    tensors that no compiled function made, it names the operation that gives a NaN (`AnomalyError`). Calls take longer within the block,
    mostly for copies of what they overwrite.

    With `ADJIT_NANS=1` all calls of the process are watched.

    >>> import numpy as np
    >>> import adjit as aj
    >>> f = aj.compile(lambda x: np.sum(np.sqrt(x)))
    >>> with aj.debug.nans():           # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     aj.grad(f)(np.array([4.0, 0.0]))
    Traceback (most recent call last):
    adjit.errors.NonFiniteError: divide in the backward half makes inf
    """
    with calls_in_python(), detect_anomaly():
        try:
            _state.depth += 1
            yield
        finally:
            _state.depth -= 1


def is_watched() -> bool:
    """True if the results of calls of this thread are looked at."""
    return _state.depth > 0 or settings.NANS.get()


@contextmanager
def reference(observe: Observer | None = None) -> Iterator[None]:
    """Run programs op by op, by the meaning of their ops in NumPy, within the block; `observe` as in `run_op_by_op`."""
    before = _state.reference, _state.observe
    try:
        _state.reference, _state.observe = True, observe
        yield
    finally:
        _state.reference, _state.observe = before


def is_reference() -> bool:
    """True if programs of this thread are run op by op."""
    return _state.reference


def observer() -> Observer | None:
    """What looks at each op of a program that runs op by op."""
    return _state.observe


class Watched:
    """Arrays of a call, with copies of those that it may overwrite: parameters with a writable role, and those `written`."""

    def __init__(self, arrays: Sequence[np.ndarray], roles: Sequence[str] = (), written: Sequence[int] = ()):
        self._arrays = arrays
        self._copies = {index: arrays[index].copy() for index, role in enumerate(roles) if role in WRITABLE_ROLES}
        self._copies.update((index, arrays[index].copy()) for index in written if index not in self._copies)

    def check(self, program: Program | Half, results: Sequence[Any], paths: Sequence[str]) -> None:
        """Raise `NonFiniteError` if results have a NaN or an infinity; arrays that were overwritten get their contents back."""
        if all(is_finite(np.asarray(result)) for result in results):
            return
        arrays = [self._copies.get(index, array) for index, array in enumerate(self._arrays)]
        error = find_nans.explain_nonfinite(program, arrays, paths)
        if error is None:
            return
        for index, copy in self._copies.items():
            np.copyto(self._arrays[index], copy)
        raise error


def is_finite(array: np.ndarray) -> bool:
    """True if an array has no NaN and no infinity; of other numbers than floats always."""
    return not is_inexact(array.dtype) or bool(np.isfinite(array).all())
