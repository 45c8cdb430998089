"""The emulated device as a driver: memory of this process, kernels as machine code of this processor, each access checked.

New memory is filled with NaN, so that what nobody wrote is seen. Nodes run in a random order that their dependencies allow; a dependency
that is missing is found as two nodes without an order that touch the same bytes.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from adjit.codegen.cuda.emulated import EmulatedKernel, EmulationError
from adjit.codegen.cuda.nodes import Conditional, GraphNode, HostNode, Node, conflict
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.target import SM_90
from adjit.eager.device import place_of
from adjit.runtime.arena import allocate
from adjit.runtime.cuda.graph import Addresses

_UNWRITTEN = 0xFF
"""Bytes of new memory: NaN, and indices out of range."""


class EmulatedDriver:
    """An emulated device, by its number. `seed` begins the sequence of orders."""

    name = "emulated device"
    target = SM_90
    stream: int | None = None
    has_conditional_nodes = True

    def __init__(self, number: int = 0, seed: int = 0) -> None:
        self.number, self.place = number, place_of(number)
        self._random = random.Random(seed)
        self._memory: dict[int, np.ndarray] = {}
        self.held: dict[int, int] = {}      # bytes of arrays and working memory, by address
        self._kernels: dict[str, EmulatedKernel] = {}

    def prepare(self, program: DeviceProgram, ptx: Mapping[str, str] = MappingProxyType({})) -> None:
        """Compile the kernels of a program for this processor; `ptx` is for cards. Raises `EmulationError` for an order that its memory
        does not allow."""
        for each in program.programs():
            check_order(each.nodes)
        for step in program.steps:
            if isinstance(step, tuple):
                _check_graph(step)
        for kernel in program.kernels.values():
            if kernel.name not in self._kernels:
                self._kernels[kernel.name] = EmulatedKernel(kernel)

    def allocate(self, nbytes: int) -> int:
        """The address of new memory."""
        block = allocate(nbytes)
        block.fill(_UNWRITTEN)
        self._memory[block.ctypes.data] = block
        return int(block.ctypes.data)

    def free(self, address: int) -> None:
        del self._memory[address]

    def copy_in(self, address: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the device."""
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def copy_out(self, array: np.ndarray, address: int) -> None:
        """Copy from the device to a contiguous array."""
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy on the device."""
        ctypes.memmove(target, source, nbytes)

    def copy_from(self, target: int, other: EmulatedDriver, source: int, nbytes: int) -> None:
        """Copy from the memory of another device."""
        ctypes.memmove(target, source, nbytes)

    def launcher(self, nodes: Sequence[GraphNode]) -> Callable[[Addresses], None]:
        """A function that runs the nodes."""
        return partial(self.run, nodes)

    def run(self, nodes: Sequence[GraphNode], addresses: Addresses) -> None:
        """Run the nodes. Raises `EmulationError`."""
        self._run(nodes, addresses, {})

    def _run(self, nodes: Sequence[GraphNode], addresses: Addresses, conditions: dict[int, ctypes.c_uint32]) -> None:
        """Run a graph. A condition is the number of a conditional node, by its handle, which is the address of that for kernels."""
        for node in nodes:
            if isinstance(node, Conditional):
                conditions[node.handle] = ctypes.c_uint32(0)
        waiting = dict.fromkeys(range(len(nodes)))
        while waiting:
            ready = [number for number in waiting if not any(before in waiting for before in nodes[number].after)]
            number = self._random.choice(ready)
            del waiting[number]
            node = nodes[number]
            if isinstance(node, Conditional):
                while conditions[node.handle].value:
                    self._run(node.body, addresses, conditions)
                    if not node.repeats:
                        break
                continue
            launch, own = node.launch, addresses.of(node.places)
            numbers = (*launch.numbers, *(ctypes.addressof(conditions[handle]) for handle in node.handles))
            places = [(address, pointer.nbytes) for address, pointer in zip(own, launch.pointers, strict=True)]
            order = np.array(self._random.sample(range(launch.grid), launch.grid), np.int64)
            self._kernels[launch.kernel.name].launch(launch.grid, places, numbers, order)

    def memory(self) -> tuple[int, int, int, int]:
        """Bytes of memory that are free, and all; bytes in arrays and programs, twice."""
        page, used = os.sysconf("SC_PAGE_SIZE"), sum(self.held.values())
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page, used, used

    def describe(self) -> str:
        """What reports say of the device."""
        return "threads of a card as fibres of this processor, for tests (ADJIT_CUDA=emulated)"

    def trim(self) -> None:
        """Return at once: no memory is kept."""

    def begin(self, program: str) -> None:
        """Return at once: no error arrives late."""

    def registers(self, kernel: str) -> tuple[int, int] | None:
        """None: registers are a card's."""

    def run_timed(self, nodes: Sequence[Node], addresses: Addresses) -> list[int]:
        """Run the nodes one by one, and return the time span of each in nanoseconds: times of the emulation."""
        spans = []
        for node in nodes:
            begin = time.perf_counter_ns()
            self.run([replace(node, after=())], addresses)
            spans.append(time.perf_counter_ns() - begin)
        return spans

    def synchronize(self) -> None:
        """Return at once: nothing is under way."""


def _check_graph(nodes: Sequence[GraphNode]) -> None:
    check_order(nodes)
    for node in nodes:
        if isinstance(node, Conditional):
            _check_graph(node.body)


def check_order(nodes: Sequence[GraphNode | HostNode]) -> None:
    """Raise `EmulationError` if two nodes without an order between them touch the same bytes, and one of them writes there."""
    before: list[set[int]] = []
    for number, node in enumerate(nodes):
        before.append(set(node.after).union(*(before[other] for other in node.after)))
        for other in range(number):
            if other not in before[number] and conflict(nodes[other], node):
                raise EmulationError(f"{node.name} and {nodes[other].name} use the same memory, and neither waits")
