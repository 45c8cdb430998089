"""Execution of a planned graph in real memory that exposes mistakes, for the tests of the memory plan.

Every buffer is bytes; a buffer is written through its slot only; freed bytes, and all bytes at the start, are filled with 0xFF (NaN for
floats). The simulation does not know how the plan was made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjit.ir.graph import Graph, Slot, Value
from adjit.ir.interpreter import evaluate
from adjit.ir.types import TensorType

POISON = 0xFF


class Memory:
    """Arena, the caller's arrays and the fresh results, as bytes."""

    def __init__(self, graph: Graph, arrays: Sequence[np.ndarray]):
        size = 0
        for op in graph.ops:
            sizes = [value.type.nbytes for value in op.results] + [op.attrs.get("scratch_bytes", 0)]
            for slot, need in zip(op.slots, sizes, strict=False):
                if slot.space == "arena":
                    size = max(size, slot.offset + need)
        self.buffers = {"arena": np.full(size, POISON, np.uint8)}
        for i, array in enumerate(arrays):
            self.buffers[f"param+{i}"] = np.frombuffer(bytearray(np.ascontiguousarray(array).tobytes()), np.uint8)
        for i, value in enumerate(graph.results):
            self.buffers[f"result+{i}"] = np.full(value.type.nbytes, POISON, np.uint8)

    def at(self, slot: Slot, nbytes: int) -> np.ndarray:
        """Return the bytes of a slot, to read or write."""
        in_arena = slot.space == "arena"
        buffer, begin = self.buffers["arena" if in_arena else str(slot.base)], slot.offset if in_arena else slot.start
        assert begin + nbytes <= len(buffer)
        return buffer[begin:begin + nbytes]

    def array(self, slot: Slot, type: TensorType) -> np.ndarray:
        return self.at(slot, type.nbytes).view(type.dtype).reshape(type.shape)


def simulate(graph: Graph, arrays: Sequence[np.ndarray]) -> tuple[tuple[np.ndarray, ...], Memory]:
    """Return the results of a planned graph, and its final memory. Results are read after the last op."""
    memory = Memory(graph, arrays)
    places: dict[Value, Slot] = {value: Slot("param", i) for i, value in enumerate(graph.params)}
    for op in graph.ops:
        if op.name == "free":
            for value in op.operands:
                assert places[value].space == "arena"
                memory.at(places[value], value.type.nbytes)[:] = POISON
            continue
        for slot in op.slots[len(op.results):]:
            memory.at(slot, op.attrs["scratch_bytes"])[:] = POISON
        operands = [memory.array(places[value], value.type).copy() for value in op.operands]
        for operand in operands:
            operand.flags.writeable = False
        computed = evaluate(op.definition, operands, op.attrs, op.regions)
        for value, slot, array in zip(op.results, op.slots, computed, strict=False):
            memory.array(slot, value.type)[...] = array
            places[value] = slot
    return tuple(memory.array(places[value], value.type).copy() for value in graph.results), memory
