"""Execution of programs on a device: launches of kernels on an arena, and on the memory of arguments and results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.cuda.program import CHECKS, DeviceProgram, HostNode, Verification
from adjit.ir.analysis.buffer_assignment import ResultKind
from adjit.ir.errors import IndexingError
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.ops.guard import GuardMiss, same_outcome
from adjit.ir.ops.indexing import check_indices
from adjit.runtime.cuda.device_array import Buffer, DeviceArray, new, put
from adjit.runtime.cuda.device_loops import run_loop
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

        A result in the buffer of a donated array on the device is the item of `leaves` itself. Raises `IndexingError` and `GuardMiss`
        before any argument is written; a program that checks indices, or decides on values, waits for them.
        """
        call = _Call(self, arrays)
        self._run(self.program, call.memory())
        return self._finish(call, leaves)

    def run_timed(self, arrays: Sequence[np.ndarray | DeviceArray], leaves: Sequence[Any]) -> tuple[list[Any], Times]:
        """The results, as from `run`, and the time span of each op: each launch is waited for."""
        call, times = _Call(self, arrays), list[tuple[Op, int, int]]()
        self._run(self.program, call.memory(), times)
        return self._finish(call, leaves), times

    def _run(self, program: DeviceProgram, memory: _Memory, times: Times | None = None) -> None:
        for step in program.steps:
            begin = time.perf_counter_ns()
            if isinstance(step, Verification):
                self._verify(program, memory, step)
            elif isinstance(step, HostNode):
                if step.programs:
                    run_loop(step, memory.addresses(step.places), self.driver, partial(self._run_region, step, memory.checks))
                elif step.op.definition.is_check:
                    self._decide(step.op, memory.addresses(step.places)[0])
                else:
                    self._call_host(step.op, memory.addresses(step.places))
                if times is not None:
                    self.driver.synchronize()
                    times.append((step.op, begin, time.perf_counter_ns()))
            elif times is None:
                self.driver.run(step, [memory.addresses(node.places) for node in step])
            else:
                for node in step:
                    begin = time.perf_counter_ns()
                    self.driver.run([replace(node, after=())], [memory.addresses(node.places)])
                    self.driver.synchronize()
                    times.append((node.op, begin, time.perf_counter_ns()))

    def _run_region(self, node: HostNode, checks: int, number: int, params: Sequence[int], results: Sequence[int], arena: int) -> None:
        program, memory = node.programs[number], _Memory(params, results, arena, checks)
        self._run(program, memory)
        for index, value in enumerate(program.assignment.graph.results):
            (source,) = memory.addresses([program.assignment.slots[value]])
            if value.type.nbytes and results[index] not in (0, source):         # 0: it updates a parameter in place
                self.driver.copy(results[index], source, value.type.nbytes)

    def _decide(self, op: Op, address: int) -> None:
        """Raise `GuardMiss` if the value of a guard is not the one that it expects."""
        value = np.empty((), op.operands[0].type.dtype)
        self.driver.copy_out(value, address)
        if not same_outcome(value.item(), op.attrs["expected"]):
            raise GuardMiss(op.attrs["number"], value.item())

    def _call_host(self, op: Op, addresses: Sequence[int]) -> None:
        """Call a function of Python on copies of the operands, and copy what it returns to the device."""
        operands = [np.empty(value.type.shape, value.type.dtype) for value in op.operands]
        for array, address in zip(operands, addresses, strict=False):
            if array.nbytes:
                self.driver.copy_out(array, address)
        for array, address in zip(op.definition.evaluate(*operands, **op.attrs), addresses[len(operands):], strict=False):
            if array.nbytes:
                self.driver.copy_in(address, np.ascontiguousarray(array))

    def _verify(self, program: DeviceProgram, memory: _Memory, step: Verification) -> None:
        """Raise `IndexingError` for an index that is out of range."""
        words = np.empty(len(program.checks), np.int64)
        self.driver.copy_out(words, memory.checks)
        for number in step.checks:
            if words[number]:
                op = program.checks[number]
                indices, axis = np.empty(op.operands[1].type.shape, np.int64), op.attrs["axis"]
                size = op.operands[0].type.shape[axis]
                self.driver.copy_out(indices, memory.addresses([program.assignment.slots[op.operands[1]]])[0])
                try:
                    check_indices(indices, size, axis)
                except IndexError as error:
                    raise IndexingError(f"{op.name}: {error}", op.loc) from None
                raise IndexingError(f"{op.name}: an index was out of range for axis {axis} of size {size}", op.loc)

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
                self.driver.copy(copy.address, call.memory().addresses([slot])[0], value.type.nbytes)
                results.append(copy)
        self._arenas.append(call.arena)
        return results


class _Memory:
    """Addresses of the memory of a program or a region while it runs: its parameters, its results, its arena, and the words of its checks.
    All programs of a call share the words: they are read before a loop or a branch begins."""

    def __init__(self, params: Sequence[int], results: Sequence[int], arena: int, checks: int):
        self.bases = {"param": params, "result": results}
        self.arena, self.checks = arena, checks

    def addresses(self, places: Sequence[Slot]) -> list[int]:
        """The address of each place."""
        return [self.arena + slot.offset if slot.space == "arena" else self.checks + slot.start if slot.space == CHECKS
                else self.bases[slot.space][slot.offset] + slot.start for slot in places]


class _Call:
    """Memory of one call."""

    def __init__(self, executable: DeviceExecutable, arrays: Sequence[np.ndarray | DeviceArray]):
        driver, assignment = executable.driver, executable.assignment
        self.arena = executable.take_arena()
        self.arrays: dict[Slot, DeviceArray] = {
            Slot("param", index): array if isinstance(array, DeviceArray) else put(driver, array) for index, array in enumerate(arrays)}
        self.checks = Buffer(driver, 8 * max(len(program.checks) for program in executable.program.programs()))
        self.arrays |= {slot: new(driver, type) for slot, type in assignment.buffers.items() if slot.space == "result"}
        self.counts = len(arrays), len(assignment.graph.results)

    def memory(self) -> _Memory:
        """The addresses of all that."""
        params, results = ([array.address if (array := self.arrays.get(Slot(space, index))) is not None else 0
                            for index in range(count)]
                           for space, count in zip(("param", "result"), self.counts, strict=True))
        return _Memory(params, results, self.arena.address, self.checks.address)
