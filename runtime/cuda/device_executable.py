"""Execution of programs on a device: launches of kernels on an arena, and on the memory of arguments and results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.cuda.nodes import CHECK_WORDS, GraphNode, HostNode, Node, Verification, launches_of
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.target import SM_90
from adjit.ir.analysis.buffer_assignment import ResultKind
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Slot
from adjit.ir.lazy_module import LazyModule
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.guard import GuardMiss, same_outcome
from adjit.ir.types import TensorType
from adjit.runtime import settings
from adjit.runtime.cuda.call_status import CallStatus, Doubts, doubts_of, index_error
from adjit.runtime.cuda.code import Launches, Lowering, stays_on_device
from adjit.runtime.cuda.device_array import Buffer, DeviceArray, new, put
from adjit.runtime.cuda.device_loops import run_loop
from adjit.runtime.cuda.devices import AnyDriver
from adjit.runtime.cuda.driver import CudaError, Driver
from adjit.runtime.cuda.graph import Addresses
from adjit.runtime.cuda.host_counters import counted

if TYPE_CHECKING:
    from adjit.codegen.native import compile_program
    from adjit.codegen.native.artifact import Artifact
    from adjit.runtime.numba.executable import Times
    from adjit.runtime.numba.kernels import Code
else:
    compile_program = LazyModule("adjit.codegen.native.compile_program")


class DeviceExecutable:
    """A planned graph, ready to run on a device. Raises `UnsupportedError` for an op without code for devices."""

    kernels: Mapping[Op, Code] = {}      # other backends have one per fused op

    def __init__(self, planned: Graph, driver: AnyDriver, ptx: Mapping[str, str] = MappingProxyType({}),
                 launches: Launches | None = None):
        """`ptx` has the code of kernels that need not be compiled, by name; `launches` are those that a cache had."""
        self._lowering, self._is_cached = Lowering(launches), launches is not None
        self.program = DeviceProgram(planned, lower=self._lowering, conditional=stays_on_device(planned, driver))
        self.driver = driver
        self.assignment = self.program.assignment
        driver.prepare(self.program, ptx)
        types = {slot.offset: type for slot, type in self.assignment.buffers.items() if slot.space == "result"}
        self.made = [types.get(number) for number in range(len(planned.results))]
        self.arena_bytes = aligned(self.assignment.arena_bytes)
        self._check_bytes = aligned(8 * self.program.words)
        self._returned = tuple(self._returns())
        self._arenas: list[Buffer] = []
        self.copied: list[int] | None = None        # bytes of each array that the last call through Python had from the processor
        self._numbers: dict[int, tuple[bytes, DeviceArray]] = {}        # those of the last call, by their parameter
        self._writes = [role in WRITABLE_ROLES for role in planned.param_roles]
        self._counters = {number: counted(planned, number) for number, (kind, *_) in enumerate(self._returned)
                          if kind is ResultKind.DONATED}
        self._launchers: dict[int, Callable[[Addresses], None]] = {}        # by the identity of the step

    @cached_property
    def lowered(self) -> DeviceProgram:
        """The program with the text of its kernels, which a program of a cache does not have."""
        return DeviceProgram(self.assignment.graph, conditional=self.program.conditional) if self._is_cached else self.program

    @cached_property
    def _one_by_one(self) -> DeviceProgram:
        """The program with loops that the host runs and checks that it looks at, so that each launch can be waited for."""
        if not any(isinstance(node, HostNode) and self.program.stays(node) for node in self.program.nodes) and not self.program.defers:
            return self.program
        program = DeviceProgram(self.assignment.graph)
        self.driver.prepare(program)
        return program

    @property
    def launches(self) -> Launches:
        """The launches of each op, for a cache."""
        return self._lowering.made

    @cached_property
    def is_direct(self) -> bool:
        """True if a call is one launch of a graph on a card, and nothing else, so that the fast path can run it."""
        steps = self.program.steps
        return (isinstance(self.driver, Driver) and not settings.CUDA_SYNC.get() and len(steps) == 1 and isinstance(steps[0], tuple)
                and not self.program.defers
                and all(kind in (ResultKind.DONATED, ResultKind.ARRAY) for kind, *_ in self._returned))

    @cached_property
    def code(self) -> _Code:
        """What exports say of the program."""
        return _Code(compile_program.device_artifact(self.assignment.graph, SM_90))

    def run(self, arrays: Sequence[np.ndarray | DeviceArray], leaves: Sequence[Any]) -> list[Any]:
        """The results for `arrays`, one per parameter, in the form of `DeviceInputs.prepare` for `leaves`: arrays on the device.

        A result in the buffer of a donated array on the device is the item of `leaves` itself. Before any argument is written, `GuardMiss`
        is raised, and `IndexingError`, if the host looks at the checks of indices; else the device leaves out what follows, and who reads a
        result gets the error (`CallStatus`).
        """
        one_by_one = settings.CUDA_SYNC.get()
        program = self._one_by_one if one_by_one else self.program
        call = _Call(self, arrays, program)
        self.driver.begin(program.assignment.graph.name)
        self._run(program, call.addresses, [] if one_by_one else None)
        return self._finish(call, leaves)

    def run_timed(self, arrays: Sequence[np.ndarray | DeviceArray], leaves: Sequence[Any]) -> tuple[list[Any], Times]:
        """The results, as from `run`, and the time span of each op: each launch is waited for."""
        program = self._one_by_one
        call, times = _Call(self, arrays, program), list[tuple[Op, int, int]]()
        self._run(program, call.addresses, times)
        return self._finish(call, leaves), times

    def _run(self, program: DeviceProgram, memory: Addresses, times: Times | None = None) -> None:
        for step in program.steps:
            begin = time.perf_counter_ns()
            if isinstance(step, Verification):
                self._verify(program, memory, step)
            elif isinstance(step, HostNode):
                if step.programs:
                    run_loop(step, memory.of(step.places), self.driver, partial(self._run_region, step, memory))
                elif step.op.definition.is_check:
                    self._decide(step.op, memory.of(step.places)[0])
                else:
                    self._call_host(step.op, memory.of(step.places))
                if times is not None:
                    self.driver.synchronize()
                    times.append((step.op, begin, time.perf_counter_ns()))
            elif times is None:
                self._launch(step, memory)
            else:
                for node in launches_of(step):
                    begin = time.perf_counter_ns()
                    times.append((node.op, begin, begin + self._waited_for(node, memory)))

    def _waited_for(self, node: Node, memory: Addresses) -> int:
        """The time span of a launch, in nanoseconds."""
        try:
            return self.driver.run_timed([node], memory)[0]
        except CudaError as error:
            raise CudaError(f"{error.message}: it is {node.op.name} of {self.program.assignment.graph.name}", node.op.loc,
                            hint="this process has lost the card; please report the program") from None

    def _launch(self, nodes: tuple[GraphNode, ...], memory: Addresses) -> None:
        launch = self._launchers.get(id(nodes))
        if launch is None:
            launch = self._launchers[id(nodes)] = self.driver.launcher(nodes)
        launch(memory)

    def _run_region(self, node: HostNode, outer: Addresses, number: int, params: Sequence[int], results: Sequence[int], arena: int) -> None:
        program, memory = node.programs[number], outer.region(params, results, arena)
        self._run(program, memory)
        for index, value in enumerate(program.assignment.graph.results):
            (source,) = memory.of([program.assignment.slots[value]])
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

    def _verify(self, program: DeviceProgram, memory: Addresses, step: Verification) -> None:
        """Raise `IndexingError` for an index that is out of range."""
        words = np.empty((len(program.checks), CHECK_WORDS), np.int64)
        self.driver.copy_out(words, memory.checks)
        for number in step.checks:
            if words[number, 0]:
                raise index_error(program.checks[number], words[number, 1:])

    def there(self, param: int, array: np.ndarray) -> DeviceArray:
        """A copy of an array of NumPy's on the device; of a number that is read alone the one of the call before, if it is the same."""
        if array.ndim or self._writes[param]:
            return put(self.driver, array)
        content = array.tobytes()
        known = self._numbers.get(param)
        if known is None or known[0] != content:
            self._numbers[param] = known = content, put(self.driver, array)
        return known[1]

    def take_memory(self) -> Buffer:
        """Memory for the arena, the words of checks and the working memory of one call, which nobody uses."""
        try:
            return self._arenas.pop()
        except IndexError:
            return Buffer(self.driver, self.arena_bytes + self._check_bytes + self.program.work_bytes)

    def parts_of(self, memory: Buffer) -> tuple[int, int, int]:
        """Addresses of the arena, the words and the working memory."""
        checks = memory.address + self.arena_bytes
        return memory.address, checks, checks + self._check_bytes

    def _finish(self, call: _Call, leaves: Sequence[Any]) -> list[Any]:
        results = list[Any]()
        for number, (kind, slot, param, type) in enumerate(self._returned):
            if kind is ResultKind.DONATED:
                leaf = leaves[param]
                counter = None if isinstance(leaf, DeviceArray) or type.rank else self._counters[number]
                content = None if counter is None else counter.of(call.arrays, type.dtype)
                if content is not None:
                    results.append(content)
                    continue
                results.append(leaf if isinstance(leaf, DeviceArray) else call.params[slot.offset])
                results[-1].written()
            elif kind is ResultKind.ARRAY:
                results.append(call.made[number])
            else:
                copy = new(self.driver, type)
                self.driver.copy(copy.address, call.addresses.of([slot])[0], type.nbytes)
                results.append(copy)
            results[-1].doubts = call.doubts_of(kind is ResultKind.DONATED)
        self._arenas.append(call.memory)
        return results

    def _returns(self) -> Iterator[tuple[ResultKind, Slot, int, TensorType]]:
        """How each result leaves the program: in a donated parameter, as the array made for it, or as a copy of a slot."""
        assignment = self.assignment
        for number, (value, location) in enumerate(zip(assignment.graph.results, assignment.result_locations, strict=True)):
            slot, kind = assignment.slots[value], ResultKind.COPY
            if slot in assignment.buffers:
                if location.kind is ResultKind.DONATED:
                    kind = ResultKind.DONATED
                elif slot == Slot("result", number):
                    kind = ResultKind.ARRAY
            yield kind, slot, location.param, value.type


class _Code:
    """Description of a program, as native programs have it."""

    def __init__(self, artifact: Artifact):
        self.artifact = artifact


class _Call:
    """Memory of one call, and the doubts about its results: what nobody has looked at yet."""

    def __init__(self, executable: DeviceExecutable, arrays: Sequence[np.ndarray | DeviceArray], program: DeviceProgram):
        driver, self.arrays = executable.driver, arrays
        executable.copied = [array.nbytes for array in arrays if not isinstance(array, DeviceArray)]
        self.memory = executable.take_memory()
        self.params = [array if isinstance(array, DeviceArray) else executable.there(index, array) for index, array in enumerate(arrays)]
        self.made = [None if type is None else new(driver, type) for type in executable.made]
        params = [array.address for array in self.params]       # views are made anew now, if their bases were written to
        self.doubts, status = doubts_of(self.params, waits=program.may_not_end), Buffer(driver, 8 * CHECK_WORDS) if program.defers else None
        self.own = None if status is None else CallStatus(status, program.all_checks)
        self.addresses = Addresses(params, [0 if array is None else array.address for array in self.made],
                                   *executable.parts_of(self.memory), 0 if status is None else status.address)

    def doubts_of(self, kept: bool) -> Doubts | None:
        """Doubts about a result; `kept` if the call leaves its memory as it was where a check fails."""
        return {**self.doubts, self.own: kept} if self.own is not None else self.doubts or None
