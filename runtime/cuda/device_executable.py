"""Execution of programs on a device: launches of kernels on an arena, and on the memory of arguments and results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.cuda.program import DeviceProgram
from adjit.ir.analysis.buffer_assignment import ResultKind
from adjit.ir.graph import Graph, Op, Slot
from adjit.runtime.cuda.device_array import Buffer, DeviceArray, new, put
from adjit.runtime.cuda.devices import AnyDriver

if TYPE_CHECKING:
    from adjit.runtime.numba.executable import Times
    from adjit.runtime.numba.kernels import Code


class DeviceExecutable:
    """A planned graph, ready to run on a device. Raises `UnsupportedError` for an op without code for devices."""

    kernels: Mapping[Op, Code] = {}      # other backends have one per fused op

    def __init__(self, planned: Graph, driver: AnyDriver):
        self.program, self.driver = DeviceProgram(planned), driver
        self.assignment = self.program.assignment
        driver.prepare(self.program)
        self._arenas: list[Buffer] = []

    def run(self, arrays: Sequence[np.ndarray | DeviceArray], leaves: Sequence[Any]) -> list[Any]:
        """The results for `arrays`, one per parameter, in the form of `DeviceInputs.prepare` for `leaves`: arrays on the device.

        A result in the buffer of a donated array on the device is the item of `leaves` itself.
        """
        call = _Call(self, arrays)
        self.driver.run(self.program.nodes, [call.addresses(node.places) for node in self.program.nodes])
        return self._finish(call, leaves)

    def run_timed(self, arrays: Sequence[np.ndarray | DeviceArray], leaves: Sequence[Any]) -> tuple[list[Any], Times]:
        """The results, as from `run`, and the time span of each op: each launch is waited for."""
        call = _Call(self, arrays)
        times: Times = []
        for node in self.program.nodes:
            begin = time.perf_counter_ns()
            self.driver.run([node], [call.addresses(node.places)])
            self.driver.synchronize()
            times.append((node.op, begin, time.perf_counter_ns()))
        return self._finish(call, leaves), times

    def take_arena(self) -> Buffer:
        try:
            return self._arenas.pop()
        except IndexError:
            return Buffer(self.driver, self.assignment.arena_bytes)

    def _finish(self, call: _Call, leaves: Sequence[Any]) -> list[Any]:
        results: list[Any] = []
        for value, location in zip(self.assignment.graph.results, self.assignment.result_locations, strict=True):
            slot = self.assignment.slots[value]
            own = call.arrays.get(slot)
            if location.kind is ResultKind.DONATED and own is not None:
                leaf = leaves[location.param]
                results.append(leaf if isinstance(leaf, DeviceArray) else own)
            elif slot == Slot("result", len(results)) and own is not None:
                results.append(own)
            else:
                copy = new(self.driver, value.type)
                self.driver.copy(copy.address, call.addresses([slot])[0], value.type.nbytes)
                results.append(copy)
        self._arenas.append(call.arena)
        return results


class _Call:
    """Memory of one call."""

    def __init__(self, executable: DeviceExecutable, arrays: Sequence[np.ndarray | DeviceArray]):
        driver, assignment = executable.driver, executable.assignment
        self.arena = executable.take_arena()
        self.arrays: dict[Slot, DeviceArray] = {
            Slot("param", index): array if isinstance(array, DeviceArray) else put(driver, array) for index, array in enumerate(arrays)}
        self.arrays |= {slot: new(driver, type) for slot, type in assignment.buffers.items() if slot.space == "result"}

    def addresses(self, places: Sequence[Slot]) -> list[int]:
        """The address of each place."""
        return [self.arena.address + slot.offset if slot.space == "arena" else self.arrays[slot.base].address + slot.start
                for slot in places]
