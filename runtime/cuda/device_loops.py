"""Loops and branches of programs on a device that the host runs: for drivers without conditional nodes, in profiles, and where a loop calls
Python or checks indices. A `while_loop` waits for its condition in each iteration, a
branch for its predicate; a `scan` waits for nothing.

Slices and rows are addresses within the sliced arrays. Carried values lie in the results of the op and are overwritten in place; where the
plan of a region puts a new value elsewhere, it is copied after each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from adjit.codegen.cuda.nodes import HostNode
from adjit.ir.analysis.buffer_assignment import region_memory
from adjit.ir.graph import carried_operands
from adjit.runtime.cuda.devices import AnyDriver

RunRegion = Callable[[int, Sequence[int], Sequence[int], int], None]
"""Runs a region, by its number, on the addresses of its parameters and results, and of its arena. The address of a result that updates a
parameter in place is 0."""


def run_loop(node: HostNode, addresses: Sequence[int], driver: AnyDriver, run: RunRegion) -> None:
    """Run a loop or a branch; `addresses` are those of its operands, its results and its scratch memory."""
    loop = _Loop(node, addresses, driver, run)
    {"scan": loop.scan, "while_loop": loop.while_loop, "cond": loop.cond}[node.op.name]()


class _Loop:
    def __init__(self, node: HostNode, addresses: Sequence[int], driver: AnyDriver, run: RunRegion):
        self.op = op = node.op
        self.driver, self.run = driver, run
        count, end = len(op.operands), len(op.operands) + len(op.results)
        self.operands, self.results = addresses[:count], addresses[count:end]
        self.scratch = addresses[end] if len(addresses) > end else 0
        self.offsets, _ = region_memory(op.regions)
        starts = carried_operands(op)
        self.first = len(op.results) - len(starts)          # the carried results are the last ones
        self.carried = self.results[self.first:]
        for result, operand in starts.items():
            self._copy(self.results[result], self.operands[operand], op.operands[operand].type.nbytes)

    def scan(self) -> None:
        op = self.op
        (body,), length, slices = op.regions, op.attrs["length"], op.attrs["slices"]
        carries = len(self.carried)
        sliced = [value.type.nbytes for value in body.params[carries:carries + slices]]
        rows = [value.type.nbytes for value in body.results[:self.first]]
        for step in reversed(range(length)) if op.attrs["reverse"] else range(length):
            given = [base + step * nbytes for base, nbytes in zip(self.operands[carries:carries + slices], sliced, strict=True)]
            targets = [base + step * nbytes for base, nbytes in zip(self.results[:self.first], rows, strict=True)]
            self._run(0, (*self.carried, *given, *self.operands[carries + slices:]), targets)

    def while_loop(self) -> None:
        op, carries = self.op, len(self.carried)
        checkpointed, checkpoints = op.attrs["checkpointed"], op.attrs["checkpoints"]
        params = (*self.carried, *self.operands[carries:])
        (offset,) = self.offsets[0]
        assert offset is not None
        flag, counts = np.empty((), np.bool_), np.array([0, 1])         # iterations, and the stride of the stacks
        while True:
            self.run(0, params, [self.scratch + offset], self.scratch)
            self.driver.copy_out(flag, self.scratch + offset)
            if not flag:
                break
            if checkpoints:
                self._save(counts, checkpointed, checkpoints)
            self._run(1, params)
            counts[0] += 1
        if checkpoints:
            for place, count in zip(self.results, counts, strict=False):
                self.driver.copy_in(place, count.reshape(1))

    def _save(self, counts: np.ndarray, checkpointed: Sequence[int], checkpoints: int) -> None:
        """Save the carried values if this iteration is a checkpoint. If the stacks are full, every second checkpoint is dropped first."""
        sizes = [self.op.operands[index].type.nbytes for index in checkpointed]
        stacks = list(zip(self.results[2:2 + len(sizes)], sizes, strict=True))
        if counts[0] == checkpoints * counts[1]:
            for stack, nbytes in stacks:
                for row in range(1, checkpoints // 2):
                    self._copy(stack + row * nbytes, stack + 2 * row * nbytes, nbytes)
            counts[1] *= 2
        row, left = divmod(int(counts[0]), int(counts[1]))
        if not left:
            for index, (stack, nbytes) in zip(checkpointed, stacks, strict=True):
                self._copy(stack + row * nbytes, self.carried[index], nbytes)

    def cond(self) -> None:
        predicate = np.empty((), np.bool_)
        self.driver.copy_out(predicate, self.operands[0])
        self._run(0 if predicate else 1, (*self.carried, *self.operands[1 + len(self.carried):]), self.results[:self.first])

    def _run(self, number: int, params: Sequence[int], targets: Sequence[int] = ()) -> None:
        """Run a region; `targets` are the addresses of the results that it does not carry. Then the new carried values are where the old
        ones were."""
        offsets = self.offsets[number]
        first = len(offsets) - len(self.carried)
        places = [0 if offset is None else self.scratch + offset for offset in offsets[first:]]
        self.run(number, params, (*targets, *places), self.scratch)
        for target, place, value in zip(self.carried, places, self.op.regions[number].results[first:], strict=True):
            if place:
                self._copy(target, place, value.type.nbytes)

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes and target != source:
            self.driver.copy(target, source, nbytes)
