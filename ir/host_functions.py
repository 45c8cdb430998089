"""Functions of Python that programs call while they run (op `callback`).

A program reaches its function by a handle, an array of two integers that is an input of the graph: the address of `_call_from_machine_code`
and the function's number. So no address is in the code, which may be cached on disk, and every backend finds the function the same way.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import DTypeError, Location, ShapeError
from adjit.ir.types import TensorType

DONE = 0x61646A6974
"""Status of a call that wrote its results. Any other number is a failure: an interrupt may come before the call's first instruction."""

NOTE = "in a function that the program calls"


@dataclass(frozen=True, slots=True)
class HostFunction:
    """`run(*arrays)` returns a sequence of results; `location` is the line that made it part of a program."""

    name: str
    run: Callable[..., Sequence[Any]]
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    location: Location | None = None

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Results for copies of `arrays`, which the function may keep. 0-d arrays are passed as NumPy scalars.

        Raises `ShapeError` or `DTypeError` for results of other types than `results`; errors of the function itself get a note.
        """
        try:
            found = self.run(*[np.array(array)[()] for array in arrays])
            return [self._checked(index, result) for index, result in enumerate(found)]
        except BaseException as error:
            if not was_raised_by_host(error):
                error.add_note(f"{NOTE}{'' if self.location is None else f', at {self.location}'}")
            raise

    def _checked(self, index: int, result: Any) -> np.ndarray:
        expected = self.results[index]
        array = np.asarray(result)
        which = f"result {index} of {self.name}" if len(self.results) > 1 else f"the result of {self.name}"
        if array.shape != expected.shape:
            raise ShapeError(f"{which} has shape {array.shape}, but result_shapes says {expected.shape}", self.location,
                             hint="shapes are fixed while the function is compiled: return this shape, or correct result_shapes")
        weak = type(result) in (bool, int, float) and np.can_cast(np.min_scalar_type(result), expected.dtype, "same_kind")
        if array.dtype != expected.dtype and not weak:
            raise DTypeError(f"{which} has dtype {array.dtype}, but result_shapes says {expected.dtype}", self.location,
                             hint="convert the result with .astype, or correct result_shapes")
        return array.astype(expected.dtype, copy=False)


_functions: dict[int, HostFunction] = {}
_handles: dict[int, weakref.ref[np.ndarray]] = {}
_numbers = itertools.count()
_failure = threading.local()


def make_handle(function: HostFunction) -> np.ndarray:
    """A handle for `function`, which lives as long as the handle."""
    number = next(_numbers)
    handle = np.array([ctypes.cast(_call_from_machine_code, ctypes.c_void_p).value, number], np.int64)
    _functions[number] = function
    _handles[number] = weakref.ref(handle, lambda _: (_functions.pop(number, None), _handles.pop(number, None)))
    return handle


def function_of(handle: np.ndarray) -> HostFunction:
    """The function of a handle."""
    return _functions[int(handle[1])]


def was_raised_by_host(error: BaseException) -> bool:
    """True if a function of the user raised `error`: it is no error of an op."""
    return any(note.startswith(NOTE) for note in getattr(error, "__notes__", ()))


def note_failure(error: BaseException) -> None:
    """Keep the error of a call that failed in this thread, for `take_failure`."""
    _failure.error = error


def take_failure() -> BaseException | None:
    """The error of the call that failed last in this thread, once."""
    found: BaseException | None = getattr(_failure, "error", None)
    _failure.error = None
    return found


def _call(number: int, places: int) -> int:
    """Call function `number`. `places` are the addresses of its operands, then of its results."""
    try:
        function = _functions[number]
        types = function.operands + function.results
        addresses = (ctypes.c_void_p * len(types)).from_address(places)
        arrays = [_array_at(address, type) for address, type in zip(addresses, types, strict=True)]
        for target, result in zip(arrays[len(function.operands):], function(arrays[:len(function.operands)]), strict=True):
            target[...] = result
    except BaseException as error:
        note_failure(error)
        return 0
    return DONE


_call_from_machine_code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(_call)


def _array_at(address: int | None, type: TensorType) -> np.ndarray:
    if not type.nbytes:
        return np.empty(type.shape, type.dtype)
    memory = memoryview((ctypes.c_char * type.nbytes).from_address(address or 0))
    return np.frombuffer(memory, type.dtype).reshape(type.shape)
