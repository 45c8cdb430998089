"""Builder of the LLVM text of one step: its arguments, its tasks, loop nests, and vectors of any element type.

The work of each task follows from shapes: the iterations of the outermost loops are assigned to tasks in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from adjit.codegen.gemm.kernels import Kernel
from adjit.codegen.llvm.builder import Value
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.llvm.vectors import VectorBuilder
from adjit.codegen.native.program_code import SIGNATURE, StepCode
from adjit.ir.dataclass import dataclass
from adjit.ir.memory_sizes import aligned
from adjit.ir.types import is_half

NS_PER_TASK = 1 << 12
MAX_TASKS = 64
BYTES_PER_NS = 24
"""Estimated memory bandwidth of one thread, in bytes per nanosecond."""


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def power_of_two_below(count: int) -> int:
    """The largest power of two that is at most `count`.

    >>> power_of_two_below(1), power_of_two_below(10), power_of_two_below(16)
    (1, 8, 16)
    """
    return 1 << (count.bit_length() - 1)


def element_type(dtype: np.dtype) -> str:
    """The LLVM type of an element in memory; a bool is a byte."""
    return {"f": {4: "float", 8: "double"}}.get(dtype.kind, {}).get(dtype.itemsize) or f"i{8 * dtype.itemsize}"


def element_bits(value: float, dtype: np.dtype) -> int:
    """The bits of a number of this dtype, as an unsigned integer.

    >>> hex(element_bits(1.0, np.dtype(np.float32)))
    '0x3f800000'
    """
    return int.from_bytes(np.array(value, dtype).tobytes(), "little")


def literal(value: float, dtype: np.dtype) -> str:
    """A number of this dtype in LLVM's syntax."""
    if dtype.kind == "f" and not is_half(dtype):
        return f"0x{element_bits(float(dtype.type(value)), np.dtype(np.float64)):016X}"
    return str(element_bits(value, dtype))


@dataclass(frozen=True, slots=True)
class TaskSplit:
    """Distribution of the iterations of a loop nest over tasks: the first `loops` loops have `iterations` iterations in all, `per_task` a
    task."""

    loops: int
    iterations: int
    per_task: int

    @property
    def tasks(self) -> int:
        return ceil_div(self.iterations, self.per_task)


def split_iterations(extents: Sequence[int], work: float) -> TaskSplit:
    """The task split for `work` nanoseconds: as many tasks as are worthwhile, from as few of the leading loops as possible.

    >>> split_iterations((4, 100, 7), 38_000.0)
    TaskSplit(loops=2, iterations=400, per_task=40)
    """
    wanted = max(1, min(MAX_TASKS, int(work / NS_PER_TASK) + 1))
    loops, iterations = 0, 1
    while loops < len(extents) and iterations < wanted:
        iterations *= extents[loops]
        loops += 1
    return TaskSplit(loops, iterations, ceil_div(iterations, min(wanted, iterations)))


class StepBuilder(VectorBuilder):
    """A builder of one step. `shared` has the functions that the step shares with others."""

    def __init__(self, target: Target, dtype: str = "", lanes: int = 1) -> None:
        super().__init__(target, dtype, lanes)
        self.shared: dict[str, Definition] = {}
        self.scratch_bytes = 0

    # -- the step

    @contextmanager
    def step(self, attributes: str = "nounwind") -> Iterator[None]:
        """Context that writes the body of `@step`."""
        with self.function("step", SIGNATURE, result="i64", attributes=attributes):
            yield
            self.ret("i64", 0)

    def code(self, tasks: int, work: float, checks: bool = False, offsets: tuple[tuple[int, int], ...] = ()) -> StepCode:
        """The finished step."""
        return StepCode(tuple(self.functions.values()), tasks, work, self.declarations, self.shared, checks, offsets,
                        self.scratch_bytes)

    def task_split(self, kernel: Kernel) -> str:
        """The name of the kernel's function, which is added to the shared functions."""
        self.shared[kernel.name] = kernel.function
        self._declarations |= kernel.declarations
        return kernel.name

    def place(self, number: Value) -> str:
        """The pointer argument with this number: operands, then results, then scratch memory."""
        return self.load("ptr", self.at("%places", "ptr", number), align=8)

    def scratch(self, nbytes: int) -> str:
        """The next `nbytes` of the thread's scratch memory, aligned."""
        pointer = self.at("%scratch", 1, self.scratch_bytes)
        self.scratch_bytes += aligned(nbytes)
        return pointer

    def parts(self, counts: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Phases of a step, each with its number of tasks. Yields the index of each phase, in a branch for it, and the task's number within
        it."""
        start = 0
        for part, count in enumerate(counts):
            low, high = "%low", "%high"
            if len(counts) > 1:
                low = self.larger(self.sub("%low", start), 0)
                high = self.smaller(self.sub("%high", start), count)
            with self.for_range(low, high, empty=True) as loop:
                yield part, loop.counter
            start += count

    # -- loops

    @contextmanager
    def nest(self, extents: Sequence[int]) -> Iterator[list[str]]:
        """A loop nest, outermost loop first. Yields the counters."""
        with ExitStack() as loops:
            yield ["0" if extent == 1 else loops.enter_context(self.for_range(0, extent)).counter for extent in extents]

    @contextmanager
    def iterations(self, task: str, extents: Sequence[int], task_split: TaskSplit) -> Iterator[list[str]]:
        """The iterations of a loop nest that belong to a task. Yields the counters of all loops."""
        with ExitStack() as loops:
            counters: list[str] = []
            if task_split.iterations > 1:
                if task_split.per_task > 1:
                    low = self.let(f"mul nsw i64 {task}, {task_split.per_task}")
                    high = self.smaller(self.let(f"add nsw i64 {low}, {task_split.per_task}"), task_split.iterations)
                    task = loops.enter_context(self.for_range(low, high)).counter
                counters = self.split(task, extents[:task_split.loops])
            else:
                counters = ["0"] * task_split.loops
            yield counters + loops.enter_context(self.nest(extents[task_split.loops:]))

    def split(self, number: str, extents: Sequence[int]) -> list[str]:
        """The counters of a loop nest in iteration `number`, counted through the whole nest."""
        counters = ["0"] * len(extents)
        several = [index for index, extent in enumerate(extents) if extent > 1]
        for index in reversed(several[1:]):
            counters[index] = self.let(f"urem i64 {number}, {extents[index]}")
            number = self.let(f"udiv i64 {number}, {extents[index]}")
        if several:
            counters[several[0]] = number
        return counters

    @contextmanager
    def chunks(self, count: int, width: int) -> Iterator[str]:
        """A loop over the starts of chunks of `width` elements that cover `count`, at least one chunk; the last one may overlap its
        neighbour."""
        if count == width:
            yield "0"
            return
        with self.for_range(0, count, width) as loop:
            yield loop.counter if count % width == 0 else self.smaller(loop.counter, count - width)

    def blocks(self, count: int, width: int) -> Iterator[tuple[Value, int]]:
        """Loops over chunks that cover `count` elements without overlap: of `width`, then of smaller powers of two."""
        done = 0
        while done < count:
            times = (count - done) // width
            if times:
                with self.for_range(0, times * width, width) as loop:
                    yield self.plus(loop.counter, done), width
                done += times * width
            width = power_of_two_below(width - 1) if width > 1 else 1

    def ends_at(self, counter: str, count: int, block: int) -> str:
        """End of block `counter` of `count // block` blocks (at least one); the last block includes the remainder."""
        full = max(count // block, 1)
        if full == 1:
            return str(count)
        last = self.compare("eq", counter, full - 1)
        end = self.let(f"mul nsw i64 {self.plus(counter, 1)}, {block}")
        return self.select(last, "i64", count, end)

    # -- elements

    def width(self, count: int, size: int) -> int:
        """Lanes of vectors for `count` elements of `size` bytes: those of the target, or the next power of two below `count`."""
        return min(self.target.lanes(size), power_of_two_below(count))

    def copy(self, target: str, source: str, size: int | str) -> None:
        """Copy `size` bytes."""
        self.call("void", "@llvm.memcpy.p0.p0.i64", ("ptr", target), ("ptr", source), ("i64", str(size)), ("i1", "false"))


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a shape, in elements.

    >>> strides_of((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1:]) for axis in range(len(shape)))
