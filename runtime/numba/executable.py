"""Execution of a planned graph: bound steps over one arena, with no decisions left for the call.

NumPy steps read registers, which hold arrays; kernels read one shared `c_void_p` per slot. Slots of the arena are bound once per frame;
slots of parameters and results are set in each call. A frame serves one call at a time; concurrent and nested calls have separate frames.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjit.ir.analysis.buffer_assignment import BufferAssignment, ResultKind
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.interpreter import interpret
from adjit.ir.ops.control_flow import bind_control_flow
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.runtime.arena import allocate, check_size, data_address, new_array, view_as
from adjit.runtime.numba.batched_calls import batch_steps
from adjit.runtime.numba.kernel_step import KernelStep
from adjit.runtime.numba.kernels import Code
from adjit.runtime.numba.matmul_step import MatmulKernel, MatmulStep
from adjit.runtime.numba.steps import CopyStep, Registers, Step, bind_step

Times = list[tuple[Op, int, int]]
"""The ops that ran, each with start and end in nanoseconds of `time.perf_counter_ns`."""


class Executable:
    """A planned graph, ready to run.

    `kernels` has one for every `fused` op, and for every product that NumPy does not compute; `threads` is the maximum number of threads of
    a kernel.
    """

    def __init__(self, graph: Graph, kernels: Mapping[Op, Code], threads: int = 1):
        self.assignment = BufferAssignment(graph)
        self.kernels = dict(kernels)
        self.threads = threads
        self.native = frozenset(op for op in self.assignment.ops if op in self.kernels or op.definition.alias)
        self.regions = {op: [Executable(region, kernels, threads) for region in op.regions]
                        for op in self.assignment.ops if op.name in CONTROL_FLOW}
        self._result_locations = self.assignment.result_locations
        self._frames: list[_Frame] = []

    def run(self, arrays: Sequence[np.ndarray], leaves: Sequence[Any]) -> list[Any]:
        """The results for `arrays`, one per parameter, in the form of `Inputs.prepare` for `leaves`.

        A result in a donated buffer is the item of `leaves` itself; other results are new arrays, or NumPy scalars if they are 0-d. Raises
        `MemoryError` before anything is written.
        """
        frame = self._take()
        frame.enter(arrays)
        if len(self.native) == len(self.assignment.ops):
            for step in frame.joined:
                step()
        else:
            with np.errstate(all="ignore"):
                for step in frame.joined:
                    step()
        return self._finish(frame, leaves)

    def run_timed(self, arrays: Sequence[np.ndarray], leaves: Sequence[Any]) -> tuple[list[Any], Times]:
        """The results, as from `run`, and the time span of each op."""
        frame = self._take()
        frame.enter(arrays)
        times: Times = []
        with np.errstate(all="ignore"):
            for op, step in zip(self.assignment.ops, frame.steps, strict=True):
                begin = time.perf_counter_ns()
                step()
                times.append((op, begin, time.perf_counter_ns()))
        return self._finish(frame, leaves), times

    def run_region(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The results of a region for contiguous arrays. Carried arrays are overwritten if the plan says so."""
        return [np.asarray(array) for array in self.run(arrays, arrays)]

    def _take(self) -> _Frame:
        try:
            return self._frames.pop()
        except IndexError:
            return _Frame(self)

    def _finish(self, frame: _Frame, leaves: Sequence[Any]) -> list[Any]:
        registers = frame.registers
        results = []
        for location in self._result_locations:
            kind, array = location.kind, registers[location.register]
            if kind is ResultKind.DONATED:
                array = leaves[location.param]
            elif kind is ResultKind.SCALAR:
                array = array[()]
            elif kind is not ResultKind.ARRAY:
                array = array.copy()
            results.append(array)
        frame.leave()
        self._frames.append(frame)      # not after an exception: a helper thread may still use the frame
        return results


class _Frame:
    """Memory of one call, and the steps bound to it."""

    def __init__(self, executable: Executable):
        assignment = executable.assignment
        self.arena = allocate(assignment.arena_bytes)
        self.registers: Registers = [None] * len(assignment.registers)
        base = data_address(self.arena)
        own = {slot: new_array(type) for slot, type in assignment.buffers.items() if assignment.is_fixed(slot)}
        cells = {slot: ctypes.c_void_p(base + slot.offset if slot.space == "arena" else None) for slot in assignment.slots.values()}
        cells.update({slot: ctypes.c_void_p(data_address(array)) for slot, array in own.items()})
        for (slot, type), register in assignment.registers.items():
            if slot.space == "arena":
                self.registers[register] = view_as(self.arena, type, slot.offset if type.size else 0)
            elif slot in own:
                self.registers[register] = view_as(own[slot], type)

        moving = {slot: type for slot, type in assignment.buffers.items() if slot not in own}
        used = {assignment.slots[value] for op in assignment.ops if op in executable.native for value in (*op.operands, *op.results)}
        for type in moving.values():
            check_size(type)
        self.params, self.results = (
            [(slot.offset, type, assignment.registers[slot, type], cells[slot] if slot in used else None)
             for slot, type in moving.items() if slot.space == space] for space in ("param", "result"))
        self.views = [
            (register, assignment.registers[slot.base, moving[slot.base]], type, slot.start)
            for (slot, type), register in assignment.registers.items() if slot.base in moving and (slot.start or type != moving[slot])]
        self.parts = [(assignment.registers[slot.base, moving[slot.base]], slot.start, cells[slot]) for slot in used if slot.start]
        self.steps = [self._bind(executable, op, cells, base) for op in assignment.ops]
        self.joined = batch_steps(self.steps)

    def _bind(self, executable: Executable, op: Op, cells: Mapping[Slot, ctypes.c_void_p], base: int) -> Step:
        assignment = executable.assignment
        if op in executable.regions:
            return _bind_control_flow(op, executable.regions[op], self.registers, assignment)
        if op not in executable.native:
            return bind_step(op, self.registers, [assignment.register(v) for v in op.operands],
                             [assignment.register(v) for v in op.results])
        operands, results = [cells[assignment.slots[v]] for v in op.operands], [cells[assignment.slots[v]] for v in op.results]
        if op.definition.alias:
            return CopyStep(operands[0], results[0], op.result.type.nbytes)
        kernel, owner = executable.kernels[op], (self.registers, self.arena)
        if isinstance(kernel, MatmulKernel):
            return MatmulStep(kernel, operands, results, executable.threads, owner)
        scratch = base + sum(slot.offset for slot in op.slots[len(op.results):])
        return KernelStep(kernel, operands, results, scratch, executable.threads, owner)

    def enter(self, arrays: Sequence[np.ndarray]) -> None:
        """Point the parameters at `arrays` and the results at new arrays."""
        registers = self.registers
        for _, type, register, cell in self.results:
            array = registers[register] = np.empty(type.shape, type.dtype)
            if cell is not None:
                cell.value = data_address(array)
        for index, _, register, cell in self.params:
            array = registers[register] = arrays[index]
            if cell is not None:
                cell.value = data_address(array)
        for register, whole, type, start in self.views:
            registers[register] = view_as(registers[whole], type, start)
        for whole, start, cell in self.parts:
            cell.value = data_address(registers[whole]) + start

    def leave(self) -> None:
        """Release the caller's arrays."""
        registers = self.registers
        for _, _, register, _ in self.params:
            registers[register] = None
        for _, _, register, _ in self.results:
            registers[register] = None
        for register, _, _, _ in self.views:
            registers[register] = None


def _bind_control_flow(op: Op, regions: Sequence[Executable], registers: Registers, assignment: BufferAssignment) -> Step:
    run = bind_control_flow(op, [region.run_region for region in regions])
    operands, results = [assignment.register(value) for value in op.operands], [assignment.register(value) for value in op.results]

    def step() -> None:
        run([registers[i] for i in operands], [registers[i] for i in results])

    return step


class Interpretation:
    """Execution of the optimized graph op by op in NumPy, with the results and donations of the planned graph."""

    kernels: Mapping[Op, Code] = {}

    def __init__(self, optimized: Graph, planned: Graph):
        self.assignment = BufferAssignment(planned)
        self.graph = optimized

    def run(self, arrays: Sequence[np.ndarray], leaves: Sequence[Any], on_op: Callable[[Op], None] | None = None) -> list[Any]:
        """The results, as from `Executable.run`; `on_op` is called with each op that ran."""
        results: list[Any] = [np.array(array, copy=True) for array in interpret(self.graph, arrays, on_op)]
        for index, location in enumerate(self.assignment.result_locations):
            if location.kind is ResultKind.DONATED:
                np.copyto(leaves[location.param], results[index])
                results[index] = leaves[location.param]
            elif results[index].ndim == 0:
                results[index] = results[index][()]
        return results

    def run_timed(self, arrays: Sequence[np.ndarray], leaves: Sequence[Any]) -> tuple[list[Any], Times]:
        """The results, as from `run`, and the time span of each op."""
        times: Times = []
        begin = time.perf_counter_ns()

        def on_op(op: Op) -> None:
            times.append((op, times[-1][2] if times else begin, time.perf_counter_ns()))

        return self.run(arrays, leaves, on_op), times
