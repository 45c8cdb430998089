"""Movement ops, constants and copies: a thread moves one element, or several neighbours that always move together."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

from adjit.codegen.cuda.arrays.positions import element_number, offsets_of
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS, MAX_LOAD_BYTES
from adjit.codegen.cuda.text import GLOBAL, KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.llvm.module import Definition
from adjit.codegen.native.arrays.movement import copy_of, moves_of
from adjit.codegen.native.arrays.strided_copy import Axis, Move, simplified
from adjit.ir.graph import Op

UPDATES = frozenset(("add_slice", "update_slice"))
"""Ops whose moves write to one place in order."""

MOST_MOVES = 8
"""Most moves of one launch: each is a part of its code."""


def lower_movement(op: Op, memory: Memory) -> list[Launch]:
    """The launches of a movement op or a constant, in order."""
    launches: list[Launch] = []
    for step in moves_of(op, memory.shared):        # a pad between elements fills first, and the elements overwrite
        moves = [single for move in step for single in _one_by_one(move) if single.count]
        most = 1 if op.name in UPDATES else MOST_MOVES      # in a step of others each element is written once, in any order
        launches += [_launch_of(op, moves[start:start + most], memory) for start in range(0, len(moves), most)]
    return launches


def base_of(op: Op, memory: Memory) -> list[Launch]:
    """The launch that copies the first operand of an op that updates it, unless the result lies in its memory."""
    return [] if memory.shared.get(0) == 0 or not op.result.type.size else [_launch(op, copy_of(op, 0), memory)]


def lower_copy(op: Op, memory: Memory) -> list[Launch]:
    """The launch that copies the bytes of the operand to the result, whose elements may be of another type."""
    type = op.result.type
    return [_launch(op, Move(1, (Axis(type.nbytes, 1, 1),)), memory)] if type.size else []


def lower_table(op: Op, memory: Memory) -> list[Launch]:
    """The launch that copies a table of constants, which is data of the kernel, to the result."""
    data, size = op.attrs["data"], op.result.type.dtype.itemsize
    if not data:
        return []
    text = KernelText(FLAT_THREADS)
    name = f"table.{hashlib.sha256(data).hexdigest()[:32]}"
    escaped = "".join([f"\\{byte:02x}" for byte in data])
    text.shared[name] = Definition(name, f'@{name} = internal constant [{len(data)} x i8] c"{escaped}", align 16')
    target, count, number = text.pointer("write"), text.number(), element_number(text)
    cell = f"i{8 * size}" if size <= 8 else "<2 x i64>"
    with text.where(text.compare("slt", number, count)):
        element = text.let(f"getelementptr inbounds {cell}, ptr @{name}, i64 {number}")
        value = text.let(f"load {cell}, ptr {element}, align {size}")
        align = math.gcd(size, memory.results[0])
        text.do(f"store {cell} {value}, ptr addrspace({GLOBAL}) {_place(text, target, cell, number)}, align {align}")
    size = op.result.type.size
    return [Launch(text.kernel("table"), -(-size // FLAT_THREADS), (Pointer("result", 0, op.result.type.nbytes),), (size,))]


def fill(op: Op, bits: int, memory: Memory) -> list[Launch]:
    """The launch that fills the result of an op with the number that has these bits."""
    type = op.result.type
    return [_launch(op, Move(type.dtype.itemsize, (Axis(type.size, 0, 1),), bits=bits), memory)] if type.size else []


def _one_by_one(move: Move) -> list[Move]:
    return [replace(move, operands=1, operand=move.operand + number, target=move.target + number * move.operand_step)
            for number in range(move.operands)]


def _widened(move: Move, alignment: int) -> Move:
    """The move of larger elements, where neighbours always move together."""
    while not move.added and move.bits is None and move.axes and move.size < min(MAX_LOAD_BYTES, alignment):
        *outer, row = move.axes
        strides = (move.source, move.target, *(stride for axis in outer for stride in (axis.source, axis.target)))
        if (row.source, row.target) != (1, 1) or row.size % 2 or any(stride % 2 for stride in strides):
            break
        axes = (*(Axis(axis.size, axis.source // 2, axis.target // 2) for axis in outer), Axis(row.size // 2, 1, 1))
        move = replace(move, size=2 * move.size, axes=axes, source=move.source // 2, target=move.target // 2)
    return move


def _launch(op: Op, move: Move, memory: Memory) -> Launch:
    return _launch_of(op, [move], memory)


def _launch_of(op: Op, moves: Sequence[Move], memory: Memory) -> Launch:
    """The launch that makes moves of which none reads or writes what another one writes, each by blocks of its own."""
    text = KernelText(FLAT_THREADS)
    target = text.pointer("update" if moves[0].added else "write")
    pointers, numbers, blocks = [Pointer("result", 0, op.result.type.nbytes)], list[int](), 0
    number = element_number(text)
    sources: dict[int, str] = {}
    for move in moves:
        alignment = math.gcd(memory.results[0], *([] if move.bits is not None else [memory.operands[move.operand]]))
        move = _widened(simplified(move), alignment)
        if move.bits is None and move.operand not in sources:
            sources[move.operand] = text.pointer("read")
            pointers.append(Pointer("operand", move.operand, op.operands[move.operand].type.nbytes))
        count, first, start = text.number(), text.number(), text.number()
        numbers += (move.count, move.source, move.target)
        own = number
        if len(moves) > 1:
            before = text.number()
            numbers.append(blocks * FLAT_THREADS)
            own = text.sub(number, before)
        with text.where(text.compare("sge", own, 0) if len(moves) > 1 else "", text.compare("slt", own, count)):
            _make(text, move, alignment, sources.get(move.operand, ""), target, own, first, start)
        blocks += -(-move.count // FLAT_THREADS)
    return Launch(text.kernel("move"), blocks, tuple(pointers), tuple(numbers))


def _make(text: KernelText, move: Move, alignment: int, source: str, target: str, number: str, first: str, start: str) -> None:
    """Move element `number`."""
    sizes = [axis.size for axis in move.axes]
    from_, to = offsets_of(text, number, sizes, [[axis.source for axis in move.axes], [axis.target for axis in move.axes]])
    cell = move.added or (f"i{8 * move.size}" if move.size <= 8 else "<2 x i64>")
    align = min(move.size, alignment)
    place = _place(text, target, cell, text.plus(to, start))
    value = _bits(move)
    if move.bits is None:
        value = text.let(f"load {cell}, ptr addrspace({GLOBAL}) {_place(text, source, cell, text.plus(from_, first))}, align {align}"
                         ", !invariant.load !9")
    if move.added:
        before = text.let(f"load {cell}, ptr addrspace({GLOBAL}) {place}, align {align}")
        value = text.let(f"{'fadd' if cell in ('float', 'double') else 'add'} {cell} {before}, {value}")
    text.do(f"store {cell} {value}, ptr addrspace({GLOBAL}) {place}, align {align}")


def _bits(move: Move) -> str:
    if move.bits is None or move.size <= 8:
        return str(move.bits)
    low, high = move.bits % (1 << 64), move.bits >> 64
    return f"<i64 {low}, i64 {high}>"


def _place(text: KernelText, pointer: str, cell: str, index: str | int) -> str:
    return text.let(f"getelementptr inbounds {cell}, ptr addrspace({GLOBAL}) {pointer}, i64 {index}")

