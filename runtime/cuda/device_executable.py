"""Execution of programs on a device: launches of kernels on an arena, and on the memory of arguments and results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.cuda.program import CHECKS, DeviceProgram, Node
from adjit.ir.analysis.buffer_assignment import ResultKind
from adjit.ir.errors import IndexingError
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.ops.indexing import check_indices
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
        first = self.program.before_checks()
        self._first = _part(self.program, first)            # what runs before indices are known to be in range, and the rest
        self._rest = _part(self.program, sorted({*range(len(self.program.nodes))}.difference(first)))

    def run(self, arrays: Sequence[np.ndarray | DeviceArray], leaves: Sequence[Any]) -> list[Any]:
        """The results for `arrays`, one per parameter, in the form of `DeviceInputs.prepare` for `leaves`: arrays on the device.

        A result in the buffer of a donated array on the device is the item of `leaves` itself. Raises `IndexingError` before any argument
        is written; a program that checks indices waits for them.
        """
        call = _Call(self, arrays)
        for nodes in (self._first, self._rest):
            self.driver.run(nodes, [call.addresses(node.places) for node in nodes])
            if nodes is self._first and nodes:
                self._check(call)
        return self._finish(call, leaves)

    def _check(self, call: _Call) -> None:
        """Raise `IndexingError` for an index that is out of range."""
        words = np.empty(len(self.program.checks), np.int64)
        self.driver.copy_out(words, call.checks.address)
        for op, word in zip(self.program.checks, words.tolist(), strict=True):
            if word:
                indices, axis = np.empty(op.operands[1].type.shape, np.int64), op.attrs["axis"]
                size = op.operands[0].type.shape[axis]
                self.driver.copy_out(indices, call.addresses([self.assignment.slots[op.operands[1]]])[0])
                try:
                    check_indices(indices, size, axis)
                except IndexError as error:
                    raise IndexingError(f"{op.name}: {error}", op.loc) from None
                raise IndexingError(f"{op.name}: an index was out of range for axis {axis} of size {size}", op.loc)

    def run_timed(self, arrays: Sequence[np.ndarray | DeviceArray], leaves: Sequence[Any]) -> tuple[list[Any], Times]:
        """The results, as from `run`, and the time span of each op: each launch is waited for."""
        call = _Call(self, arrays)
        times: Times = []
        for nodes in (self._first, self._rest):
            for node in nodes:
                begin = time.perf_counter_ns()
                self.driver.run([replace(node, after=())], [call.addresses(node.places)])
                self.driver.synchronize()
                times.append((node.op, begin, time.perf_counter_ns()))
            if nodes is self._first and nodes:
                self._check(call)
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
        self.checks = Buffer(driver, 8 * len(executable.program.checks))
        self.arrays |= {slot: new(driver, type) for slot, type in assignment.buffers.items() if slot.space == "result"}

    def addresses(self, places: Sequence[Slot]) -> list[int]:
        """The address of each place."""
        return [self.arena.address + slot.offset if slot.space == "arena" else self.checks.address + slot.start if slot.space == CHECKS
                else self.arrays[slot.base].address + slot.start for slot in places]


def _part(program: DeviceProgram, numbers: Sequence[int]) -> list[Node]:
    """Some nodes of a program, whose dependencies name each other."""
    place = {number: index for index, number in enumerate(numbers)}
    return [replace(node, after=tuple(place[other] for other in node.after if other in place))
            for node in (program.nodes[number] for number in numbers)]
