"""Locations of the indices that a program checks, for error messages that say which index was out of range, and of the values of its
guards. Loops and branches are included: their memory is as it was when the check failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from adjit.codegen.native.artifact import GuardCheck, IndexCheck, nested_check
from adjit.ir.analysis.buffer_assignment import BufferAssignment, is_dealt, part_bytes
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Op, Slot
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.types import Shape, short_name


@dataclass(frozen=True, slots=True)
class _Storage:
    """Memory of an array, as seen by the program. If the array is a slice, `base_shape` is the shape of the sliced array; where that is
    any number of rows, it begins with minus the elements of one."""

    slot: Slot
    base_shape: Shape | None = None


def index_checks(assignment: BufferAssignment) -> dict[int, IndexCheck]:
    """The checks of a planned graph, keyed by the check number in the returned status (`artifact.py`)."""
    found = {}
    for number, op in enumerate(assignment.ops):
        if op.definition.kind is Kind.INDEXING:
            found[number] = _check(op, _Storage(assignment.slots[op.operands[1]]))
        if op.name in CONTROL_FLOW:
            storages = [_Storage(assignment.slots[value]) for value in op.operands]
            checks = _nested_checks(op, storages, [_Storage(slot) for slot in op.slots])
            found.update((nested_check(number, position), check) for position, check in enumerate(checks) if check is not None)
    return found


def guard_checks(assignment: BufferAssignment) -> dict[int, GuardCheck]:
    """The guards of a planned graph, keyed as `index_checks`."""
    found = {}
    for number, op in enumerate(assignment.ops):
        if op.definition.is_check:
            (value,), slot = op.operands, assignment.slots[op.operands[0]]
            found[number] = GuardCheck(op.attrs["number"], slot.space, slot.offset, slot.start, short_name(value.type.dtype),
                                       repr(op.attrs["expected"]), _place(op))
    return found


def _place(op: Op) -> tuple[str, int, str] | None:
    return None if op.loc is None else (op.loc.file, op.loc.line, op.loc.function)


def _nested_checks(op: Op, operands: Sequence[_Storage | None], slots: Sequence[_Storage | None]) -> Iterator[IndexCheck | None]:
    """The check of each op within the regions of an op, in the order of `nested_ops`; None for ops without a check.

    `operands` has the memory of the op's operands, `slots` the memory of its results and its scratch memory.
    """
    params = _param_storages(op, operands, slots)
    scratch = slots[len(op.results)] if len(slots) > len(op.results) and not is_dealt(op) else None

    def storage(slot: Slot) -> _Storage | None:
        if slot.space == "param":
            found = params[slot.offset]
            if found is None or not slot.start:
                return found
            return None if found.base_shape else _Storage(found.slot.offset_by(slot.start))
        if slot.space == "arena" and scratch is not None:
            return _Storage(Slot(scratch.slot.space, scratch.slot.offset + part_bytes(op) + slot.offset))
        return None

    for region in op.regions:
        assignment = BufferAssignment(region)
        if op.name == "panels" and region is op.regions[-1]:        # sums alone
            yield from [None] * len(assignment.ops)
            continue
        for inner in assignment.ops:
            here = [storage(assignment.slots[value]) for value in inner.operands]
            check = _check(inner, here[1]) if inner.definition.kind is Kind.INDEXING else None
            # an array of the panel's rows is another one for all rows, and so is its size
            yield replace(check, size=0) if check is not None and not check.space and op.name == "panels" else check
            if inner.name in CONTROL_FLOW:
                yield from _nested_checks(inner, here, [storage(slot) for slot in inner.slots])


def _param_storages(op: Op, operands: Sequence[_Storage | None], slots: Sequence[_Storage | None]) -> list[_Storage | None]:
    """Memory of the parameters of an op's regions: carried values lie in the op's results, slices in the sliced operands."""
    if op.name == "cond":
        return list(operands[1:])
    slices = op.attrs.get("slices", 0)
    if op.name == "panels":
        rows = [storage and _Storage(storage.slot, (-(value.type.shape[0] // op.attrs["sizes"][0]), *value.type.shape[1:]))
                for storage, value in zip(operands[:slices], op.operands[:slices], strict=True)]
        return [*slots[len(op.results) - len(op.attrs["initial"]):len(op.results)], *rows, None, None, *operands[slices + 1:]]
    carries = op.attrs["carries"]
    carried = slots[len(op.results) - carries:len(op.results)]
    sliced = [storage and _Storage(storage.slot, storage.base_shape or value.type.shape)
              for storage, value in zip(operands[carries:carries + slices], op.operands[carries:carries + slices], strict=True)]
    return [*carried, *sliced, *operands[carries + slices:]]


def _check(op: Op, indices: _Storage | None) -> IndexCheck:
    base, values = op.operands[:2]
    axis = op.attrs["axis"]
    slot = Slot("", 0) if indices is None else indices.slot
    shape = values.type.shape if indices is None or indices.base_shape is None else indices.base_shape
    return IndexCheck(op.name, slot.space, slot.offset, shape, axis, base.type.shape[axis], _place(op), slot.start, "from_end" in op.attrs)
