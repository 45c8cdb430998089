"""Execution of native programs: one call of machine code for a whole planned graph.

A call passes arrays of pointers to parameters and results, and working memory. Concurrent and nested calls have separate working memory.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.artifact import Artifact, GuardCheck, IndexCheck, failed_check, nested_check
from adjit.codegen.native.program_code import ASSUMED_ROWS, MAX_GIL_HELD_NS, MAX_SPANS, MIN_PARALLEL_NS, ProgramCode
from adjit.ir.analysis.buffer_assignment import BufferAssignment
from adjit.ir.errors import ArgumentError, IndexingError
from adjit.ir.graph import Graph, Op
from adjit.ir.host_functions import take_failure
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.guard import GuardMiss
from adjit.ir.ops.indexing import check_indices, counted_from_start
from adjit.ir.types import SHORT_NAMES, TensorType
from adjit.runtime.arena import allocate, check_size, data_address
from adjit.runtime.native.background_code import BackgroundCode
from adjit.runtime.native.code import MIN_POOL_WAIT_NS, NativeCode, obtain_program
from adjit.runtime.native.threads import Pool, pool_at_hand, pool_for

if TYPE_CHECKING:
    from adjit.codegen.native import compile_program, piece_loop
    from adjit.runtime.numba.executable import Times
    from adjit.runtime.numba.kernels import Code
else:
    compile_program = LazyModule("adjit.codegen.native.compile_program")
    piece_loop = LazyModule("adjit.codegen.native.piece_loop")

_ARGUMENTS = (ctypes.c_void_p,) * 4
_KEEPING = ctypes.PYFUNCTYPE(ctypes.c_int64, *_ARGUMENTS)
_RELEASING = ctypes.CFUNCTYPE(ctypes.c_int64, *_ARGUMENTS)
_TIMED = ctypes.CFUNCTYPE(ctypes.c_int64, *_ARGUMENTS, ctypes.c_void_p)


MAX_KEEPING_PIECES = 16
"""Pieces of a short program for which other threads of Python may wait."""


@cache
def _piece_loops() -> tuple[Callable[..., int], Callable[..., int]]:
    """The loop over pieces, which lets other threads of Python run meanwhile; and the same that does not."""
    address = _PIECE_LOOP.get().address
    return _RELEASING(address), _KEEPING(address)


_PIECE_LOOP = BackgroundCode(lambda: piece_loop.piece_loop_text(), lambda text: piece_loop.compile_piece_loop(text))


class NativeExecutable:
    """A native program, ready to run.

    `code.loaded.address` is the address of `adjit_run` (`codegen/native/program.py`). `threads` is the maximum number of threads of a step.
    `planned` returns the graph of the code; only reports ask for it.
    """

    kernels: Mapping[Op, Code] = {}      # other backends have one per fused op
    keeps_memory = True     # from one call to the next

    def __init__(self, code: NativeCode, planned: Callable[[], Graph], threads: int = 1):
        self.code, self.threads = code, threads
        self._planned = planned
        artifact = code.artifact
        self.short = artifact.work < MAX_GIL_HELD_NS
        has_rows = artifact.count >= 0
        self._team = threads if has_rows or artifact.work >= MIN_PARALLEL_NS else 1       # no thread pool if no step is worth it
        self._long, self._is_new = artifact.work >= MIN_POOL_WAIT_NS, True
        self._entry = (_KEEPING if self.short and not has_rows else _RELEASING)(code.loaded.address)
        self._own = [(index, result.shape, SHORT_NAMES[result.dtype], result.param) for index, result in enumerate(artifact.results)]
        self._is_new_memory = not any(result.per_row or result.param >= 0 for result in artifact.results)
        self._of_rows = {index: result for index, result in enumerate(artifact.results) if result.per_row}
        self._scalars = [index for index, shape, _, param in self._own if param < 0 and not shape]
        self._frames: list[_Frame] = []
        self._timed: NativeCode | None = None
        self._clock = (0, 0)
        self.thread_spans: list[tuple[Op, int, int, int]] = []      # of the last timed run: op, number of a thread, begin and end in ns

    @property
    def rows_without_gil(self) -> int:
        """The number of rows from which calls are long enough for other threads of Python to run meanwhile; 0 if that does not depend on
        rows, -1 if no call is."""
        artifact = self.code.artifact
        if not self.short:
            return 0
        return -1 if artifact.count < 0 else int(ASSUMED_ROWS * MAX_GIL_HELD_NS / max(artifact.work, 1))

    @property
    def pool(self) -> Pool | None:
        """The thread pool of the program; None if it runs on the calling thread alone."""
        return pool_for(self._team)

    def pool_of_call(self) -> Pool | None:
        """The thread pool for the next call. A short program does not wait for it: the first call runs alone, and starts to create the
        pool."""
        if self._long:
            return self.pool
        first, self._is_new = self._is_new, False
        return pool_at_hand(self._team, make=not first)

    def is_alone(self) -> bool:
        """True if the program runs on one thread while its thread pool is still being made."""
        return self._team > 1 and pool_at_hand(self._team) is None

    @cached_property
    def assignment(self) -> BufferAssignment:
        """The buffer assignment of the graph's values."""
        return BufferAssignment(self._planned())

    @cached_property
    def program(self) -> ProgramCode:
        """The text of the program, written at the first access."""
        artifact = self.code.artifact
        return compile_program.lower_program(self.assignment.graph, TARGETS[artifact.target], flush_subnormals=artifact.flush_subnormals)

    def run(self, arrays: Sequence[np.ndarray], leaves: Sequence[Any]) -> list[Any]:
        """The results for `arrays`, one per parameter, in the form of `Inputs.prepare` for `leaves`.

        A result in a donated buffer is the item of `leaves` itself; other results are new arrays, or NumPy scalars if they are 0-d. Raises
        `MemoryError` before anything is written, and `IndexingError` before donated parameters are written.
        """
        frame = self._take()
        results = self._enter(frame, arrays, leaves)
        pool = self.pool_of_call() if self._team > 1 else None
        status = self._entry(frame.params, frame.results, frame.arena, pool.address if pool else None)
        return self._finish(frame, results, status)

    def run_pieces(self, table: int, pieces: int, current: int, results: int, index: int) -> None:
        """Run the program on one piece of arrays after another, as the table at an address says (`codegen/native/piece_loop.py`). In the
        table, the addresses of a piece are from byte `current` on, those of its results from byte `results` on; `index` is the address of
        a buffer, or 0."""
        frame = self._take()
        loop = _piece_loops()[self.short and pieces < MAX_KEEPING_PIECES]
        status = loop(self.code.loaded.address, table, frame.arena, index)
        if status:
            raise self.error_of(status, table + current, table + results, frame.arena)
        self._frames.append(frame)

    def run_timed(self, arrays: Sequence[np.ndarray], leaves: Sequence[Any]) -> tuple[list[Any], Times]:
        """The results, as from `run`, and the time span of each op."""
        if self._timed is None:
            artifact = self.code.artifact
            self._timed = obtain_program(self.assignment.graph, TARGETS[artifact.target], True, self.threads, artifact.flush_subnormals)
        ops = self.assignment.ops
        frame, pool = self._take(), self.pool
        results = self._enter(frame, arrays, leaves)
        noted = np.zeros(2 * len(ops) + 1 + 4 * MAX_SPANS, np.int64)
        begin = time.perf_counter_ns()
        timed = _TIMED(self._timed.loaded.address)
        status = timed(frame.params, frame.results, frame.arena, pool.address if pool else None, noted.ctypes.data)
        end = time.perf_counter_ns()
        results = self._finish(frame, results, status)
        cycles, rows = noted[:2 * len(ops)].reshape(-1, 2), noted[2 * len(ops):]
        spans = rows[1:1 + 4 * min(int(rows[0]), MAX_SPANS)].reshape(-1, 4)
        times, in_ns = self._times(cycles, begin, end)
        self.thread_spans = [(ops[number], thread, in_ns(first), in_ns(last)) for number, thread, first, last in spans.tolist()]
        return results, times

    def error_of(self, status: int, params: int, results: int, arena: int) -> BaseException:
        """The exception for a failed call of a Python function, or a failed check, of `adjit_run`; `params`, `results` and `arena` are the
        addresses passed to it."""
        number, position = failed_check(status)
        guard = self.code.artifact.guards.get(number)
        if guard is not None:
            return GuardMiss(guard.number, read_guard(guard, params, results, arena))
        checks = self.code.artifact.checks
        check = checks.get(number) or checks.get(nested_check(number, position))
        if check is None:       # an interrupt that came before the first instruction of the function leaves no error
            return take_failure() or KeyboardInterrupt()
        if not check.space:
            return _out_of_range(check)
        address = _address(check, params, results, arena)
        count = int(np.prod(check.shape))
        if count < 0:
            rows = ctypes.c_void_p.from_address(params + 8 * self.code.artifact.count).value or 0
            count *= -ctypes.c_int64.from_address(rows).value
        indices = np.frombuffer(memoryview((ctypes.c_int64 * count).from_address(address)), np.int64)
        try:
            check_indices(counted_from_start(indices, check.size) if check.from_end else indices, check.size, check.axis)
        except IndexError as error:
            return IndexingError(f"{check.op}: {error}", check.location)
        return _out_of_range(check)

    def other_way(self, miss: GuardMiss, name: str, ways: int = 1) -> ArgumentError:
        """The exception for a call of an exported program that decides otherwise on values than the calls it was exported for."""
        guard = next(guard for guard in self.code.artifact.guards.values() if guard.number == miss.number)
        exported = "was exported for calls" if ways == 1 else f"was exported for {ways} ways of calls; those most like this one are"
        return ArgumentError(f"{name} {exported} in which a decision on values has the outcome {guard.expected}; for these "
                             f"arguments it is {miss.outcome!r}", guard.location, hint="export it with example arguments like these, too "
                             "(ways=); or decide with np.where, aj.cond or aj.while_loop")

    def _take(self) -> _Frame:
        try:
            return self._frames.pop()
        except IndexError:
            return _Frame(self.code.artifact)

    def _enter(self, frame: _Frame, arrays: Sequence[np.ndarray], leaves: Sequence[Any]) -> list[Any]:
        """Write the addresses of a call into its frame. Returns the results, which are not yet computed."""
        params, addresses = frame.params, frame.results
        params[:len(arrays)] = [data_address(array) for array in arrays]
        if self._is_new_memory:
            results = [np.empty(shape, dtype) for _, shape, dtype, _ in self._own]
            addresses[:len(results)] = [data_address(array) for array in results]
            return results
        results = []
        for index, shape, dtype, param in self._own:
            if param < 0:
                if index in self._of_rows:
                    shape = self._of_rows[index].shape_for(int(arrays[self.code.artifact.count]))
                array = np.empty(shape, dtype)
                addresses[index] = data_address(array)
                results.append(array)
            else:
                results.append(leaves[param])
        return results

    def _finish(self, frame: _Frame, results: list[Any], status: int) -> list[Any]:
        if status:
            raise self.error_of(status, ctypes.addressof(frame.params), ctypes.addressof(frame.results), frame.arena)
        if self.keeps_memory:
            self._frames.append(frame)
        for index in self._scalars:
            results[index] = results[index][()]
        return results

    def _times(self, cycles: np.ndarray, begin: int, end: int) -> tuple[Times, Callable[[int], int]]:
        """The cycles of each op in nanoseconds, and what converts others. The length of a cycle is known the better, the longer ago the
        first timed call was."""
        if not len(cycles):
            return [], lambda cycle: begin
        first = self._clock if self._clock[1] else (begin, int(cycles[0, 0]))
        self._clock = first
        passed = max(int(cycles.max()) - first[1], 1)
        length = (end - first[0]) / passed
        zero = last = int(cycles[0, 0])

        def in_ns(cycle: int) -> int:
            return begin + int((cycle - zero) * length)

        times: Times = []
        for op, (start, stop) in zip(self.assignment.ops, cycles.tolist(), strict=True):
            if not start:       # the op has no step
                start = stop = last
            last = stop
            times.append((op, in_ns(start), in_ns(stop)))
        return times, in_ns


def _address(check: IndexCheck | GuardCheck, params: int, results: int, arena: int) -> int:
    if check.space == "arena":
        return arena + check.offset
    pointers = params if check.space == "param" else results
    return (ctypes.c_void_p.from_address(pointers + 8 * check.offset).value or 0) + check.start


def read_guard(guard: GuardCheck, params: int, results: int, arena: int) -> bool | int | float:
    """The value of a guard that failed, from the memory of its call."""
    dtype = SHORT_NAMES[guard.dtype]
    content = ctypes.string_at(_address(guard, params, results, arena), dtype.itemsize)
    outcome: bool | int | float = np.frombuffer(content, dtype)[0].item()
    return outcome


def _out_of_range(check: IndexCheck) -> IndexingError:
    axis = f"axis {check.axis} of size {check.size}" if check.size else "its axis"
    return IndexingError(f"{check.op}: an index was out of range for {axis}", check.location)


class _Frame:
    """Memory of one call."""

    __slots__ = ("_block", "arena", "params", "results")

    def __init__(self, artifact: Artifact):
        passed = [(param.dtype, param.shape) for param in artifact.params]
        for dtype, shape in [*passed, *((result.dtype, result.shape) for result in artifact.results)]:
            check_size(TensorType(SHORT_NAMES[dtype], shape))
        self._block = allocate(artifact.arena_bytes)
        self.arena = data_address(self._block)
        self.params = (ctypes.c_void_p * len(artifact.params))()
        self.results = (ctypes.c_void_p * len(artifact.results))()
