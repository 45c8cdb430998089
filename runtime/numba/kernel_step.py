"""Steps of fused ops: a compiled kernel, its argument lists prepared once, its blocks split over threads."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from adjit.codegen.llvm.link import LoadedKernel
from adjit.codegen.numba.kernel_source import KernelSource
from adjit.ir.dataclass import dataclass
from adjit.runtime.numba.threads import POOL

SPLIT_NANOSECONDS = 200_000.0
"""Estimated nanoseconds from which a kernel is split over threads: several times the cost of waking a thread."""

PARTS_PER_THREAD = 4
"""Ranges of blocks per thread, taken one after the other, so that a delayed thread leaves work to the others."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel of a fused op: its source, its loaded code, and the origin of the code in words."""

    source: KernelSource
    loaded: LoadedKernel
    origin: str


class KernelStep:
    """A kernel on the memory that `operands` and `results` point to at the time of the call.

    `scratch` is the address of its scratch memory. `owner` stays alive until every thread is done with a call.
    """

    __slots__ = ("_entry", "_kernel", "_last", "_owner", "_parts", "_returned", "_threads", "_whole", "work")

    def __init__(self, kernel: Kernel, operands: Sequence[ctypes.c_void_p], results: Sequence[ctypes.c_void_p],
                 scratch: int, threads: int, owner: object):
        source = kernel.source
        argument_slots = {"operand": operands, "result": results}
        self._returned = (ctypes.c_void_p * 4)()       # the calling convention has pointers for a return value and an exception
        pointer = ctypes.addressof(self._returned)
        arguments: list[Any] = [ctypes.c_void_p(pointer), ctypes.c_void_p(pointer + ctypes.sizeof(self._returned) // 2)]
        for argument in source.arguments:
            if argument.kind in argument_slots:
                arguments.append(argument_slots[argument.kind][argument.index])
            elif argument.kind == "scratch":
                arguments.append(ctypes.c_void_p(scratch + argument.index))
            else:
                arguments.append(ctypes.c_int64(argument.index))
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *map(type, arguments), ctypes.c_int64, ctypes.c_int64)
        self._kernel = kernel
        self._entry = prototype(kernel.loaded.address)
        self._whole = (*arguments, ctypes.c_int64(0), ctypes.c_int64(source.blocks)) if source.blocks else None
        self._last = (*arguments, ctypes.c_int64(0), ctypes.c_int64(0)) if source.finish else None
        ranges = split_blocks(source.blocks, threads if source.work >= SPLIT_NANOSECONDS else 1)
        self._parts = [(*arguments, ctypes.c_int64(low), ctypes.c_int64(high)) for low, high in ranges]
        self._threads = threads
        self._owner = owner
        self.work: float = source.work

    def serial_calls(self) -> list[tuple[int, tuple[Any, ...]]] | None:
        """See `batched_calls.NativeStep.serial_calls`."""
        if len(self._parts) > 1:
            return None
        return [(self._kernel.loaded.address, cells) for cells in (self._whole, self._last) if cells is not None]

    def __call__(self) -> None:
        if len(self._parts) > 1:
            POOL.run(self._entry, self._parts, self._threads, self._owner)
        elif self._whole is not None:
            self._entry(*self._whole)
        if self._last is not None:
            self._entry(*self._last)


def split_blocks(blocks: int, threads: int) -> list[tuple[int, int]]:
    """Ranges that cover `blocks`: a few per thread; a single range for one thread."""
    count = max(1, min(blocks, threads * PARTS_PER_THREAD)) if threads > 1 else 1
    return [(blocks * i // count, blocks * (i + 1) // count) for i in range(count)]
