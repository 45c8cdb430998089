"""Working memory of a compiled program over time, by source line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from adjit.ir.analysis.aliases import is_elided
from adjit.ir.analysis.buffer_assignment import arena_bytes, tile_bytes
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import ArgumentError, Role
from adjit.ir.graph import Graph, Op, Slot, Value, positions
from adjit.ir.ops.control_flow import display_name
from adjit.ir.ops.traits import ALIASES, CONTROL_FLOW
from adjit.passes.autodiff.partition.choose_saved_values import saved_values
from adjit.runtime.reports.memory_blocks import MemoryBlock, ends, format_bytes, html_table
from adjit.runtime.reports.memory_plot import draw_timeline
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.runtime.reports.what_if import WhatIf

MAX_ROWS = 25
"""Maximum number of blocks that the text of a report lists."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The working memory of a program, without its arguments and results.

    peak_bytes    the maximum of bytes in use at one time
    arena_bytes   the bytes allocated: at least the peak, since blocks have fixed offsets
    saved_bytes   the values that the forward half saves for the backward half
    naive_bytes   the bytes of all intermediate values, if each op had memory of its own
    live_bytes    the bytes in use during each op
    blocks        every block, in the order of the ops that write them
    tile_bytes    bytes of the arenas of tiles, in the scratch memory of each thread

    `print` it for a table, `.plot(path)` it for a picture.
    """

    name: str
    peak_bytes: int
    arena_bytes: int
    saved_bytes: int
    naive_bytes: int
    live_bytes: tuple[int, ...]
    blocks: tuple[MemoryBlock, ...]
    tile_bytes: int = 0
    budgets: Callable[[Sequence[int | float | None]], WhatIf] | None = field(default=None, compare=False, repr=False)

    @user_frames_only
    def what_if(self, budgets: Sequence[int | float | None]) -> WhatIf:
        """Compile the program for each of these memory budgets (bytes, a fraction of its working memory, or None), and run it: saved, peak
        and arena bytes, predicted and measured time. `print` it, or `.plot(path)` it.

        The report has to be one for example arguments. Raises `ArgumentError` if it is not.

        >>> import numpy as np
        >>> import adjit as aj
        >>> step = aj.compile(aj.grad(lambda x: np.sum(np.sin(np.exp(x) @ x.T))))
        >>> table = step.memory(np.ones((8, 8))).what_if([0.0, 1.0])
        >>> [choice.budget for choice in table.choices]
        [0.0, 1.0]
        """
        if self.budgets is None:
            raise ArgumentError("what_if needs arguments to run the program with", find_user_location(),
                                hint="f.memory(*args).what_if([0.25, 0.5, 1.0])")
        return self.budgets(budgets)

    def _repr_html_(self) -> str:
        largest = sorted(self.blocks, key=lambda block: (-block.size, block.first_use))[:MAX_ROWS]
        head = "<br>".join(map(escape, str(self).splitlines()[:2]))
        return f"<p>{head}</p>" + html_table(("size", "ops", "phase", "source"), [
            (format_bytes(block.size), f"{block.first_use}-{block.last_use}", block.role.phase, block.source) for block in largest])

    def plot(self, path: str | Path) -> None:
        """Draw the memory timeline to an image file (PNG, SVG or PDF, by its suffix): each block over the ops that use it and over its
        bytes of the arena, and the bytes in use. Needs matplotlib (`pip install adjit[plot]`).
        """
        draw_timeline(self.name, self.blocks, self.live_bytes, self.arena_bytes, self.naive_bytes, Path(path))

    def __str__(self) -> str:
        lines = [
            f"@{self.name}: {format_bytes(self.peak_bytes)} of working memory at the peak, in an arena of {format_bytes(self.arena_bytes)}"
            + (f", and up to {format_bytes(self.tile_bytes)} in each thread for a tile" if self.tile_bytes else ""),
            f"kept for the backward half: {format_bytes(self.saved_bytes)}; "
            f"keeping every intermediate value would take {format_bytes(self.naive_bytes)}"]
        if self.blocks:
            lines.append(f"{'size':>10}  {'ops':>11}  {'phase':<10}  source")
        largest = sorted(self.blocks, key=lambda block: (-block.size, block.first_use))
        for block in largest[:MAX_ROWS]:
            uses = f"{block.first_use}-{block.last_use}"
            lines.append(f"{format_bytes(block.size):>10}  {uses:>11}  {block.role.phase:<10}  {block.source}")
        if len(largest) > MAX_ROWS:
            rest = sum(block.size for block in largest[MAX_ROWS:])
            lines.append(f"{format_bytes(rest):>10}  in {len(largest) - MAX_ROWS} smaller blocks")
        return "\n".join(lines)


def memory_report(optimized: Graph, planned: Graph) -> MemoryReport:
    """The report on a planned graph; `optimized` is the same program before fusion, for comparison."""
    ops = [op for op in planned.ops if op.definition.kind is not Kind.MEMORY]
    blocks = _blocks(ops)
    live = _live_bytes(blocks, len(ops))
    return MemoryReport(planned.name, max(live, default=0), arena_bytes(planned), _saved_bytes(optimized, ops),
                        _naive_bytes(optimized), live, blocks, tile_bytes(planned))


def both_halves(forward: MemoryReport, backward: MemoryReport, first: Graph, second: Graph, kept: Sequence[int | None]) -> MemoryReport:
    """The report on a program in two halves, planned as `first` and `second`.

    `kept[i]` is the result of the first half that is parameter i of the second half; None for arguments of the program. Each half has its
    own arena. Saved values lie between the arenas: some are results, which the caller may hold, the others are not.
    """
    ops = [[op for op in planned.ops if op.definition.kind is not Kind.MEMORY] for planned in (first, second)]
    count = len(ops[0])
    made = positions(ops[0])
    producers = {value: _producer(op, position) for op in ops[0] for position, value in enumerate(op.results)}
    last = _last_uses(ops[1])[0]
    offset = forward.arena_bytes + backward.arena_bytes
    saved: list[MemoryBlock] = []
    for number, param in zip(kept, second.params, strict=False):
        if number is not None:
            value = first.results[number]
            producer = producers.get(value)
            saved.append(MemoryBlock(
                value.name or (display_name(producer) if producer else "result"), value.type.nbytes, made.get(value, 0),
                count + last.get(param, 0),
                Role.PRIMAL, producer.loc if producer else None, offset))
            offset += value.type.nbytes
    later = tuple(replace(block, first_use=block.first_use + count, last_use=block.last_use + count,
                          offset=block.offset + forward.arena_bytes) for block in backward.blocks)
    blocks = (*forward.blocks, *saved, *later)
    live = _live_bytes(blocks, count + len(ops[1]))
    return MemoryReport(forward.name, max(live, default=0), offset, sum(block.size for block in saved),
                        forward.naive_bytes + backward.naive_bytes, live, blocks, max(forward.tile_bytes, backward.tile_bytes))


def _blocks(ops: list[Op]) -> tuple[MemoryBlock, ...]:
    last, aliases = _last_uses(ops)
    blocks: list[MemoryBlock] = []
    for index, op in enumerate(ops):
        for position, slot in enumerate(op.slots):
            if slot.space != "arena":
                continue
            if position == len(op.results):
                blocks.append(MemoryBlock(
                    f"scratch of {display_name(op)}", op.attrs["scratch_bytes"], index, index, op.role, op.loc, slot.offset))
                continue
            value, producer = op.results[position], _producer(op, position)
            if value not in aliases and value.type.nbytes:
                blocks.append(MemoryBlock(value.name or display_name(op), value.type.nbytes, index, last.get(value, index), producer.role,
                                          producer.loc or op.loc, slot.offset))
    return tuple(blocks)


def _last_uses(ops: list[Op]) -> tuple[dict[Value, int], set[Value]]:
    """The last op that reads each op's result, directly or through reshapes and views; and these reshapes and views, which write
    nothing."""
    last: dict[Value, int] = {}
    root: dict[Value, Value] = {}
    slots: dict[Value, Slot] = {}
    for index, op in enumerate(ops):
        slots.update(zip(op.results, op.slots, strict=False))
        for value in op.operands:
            last[root.get(value, value)] = index
        if op.definition.kind is not Kind.MEMORY and is_elided(op, slots):
            root[op.result] = root.get(op.operands[0], op.operands[0])
    return last, set(root)


def _producer(op: Op, position: int) -> Op:
    """The op that computes a result: for a fused op, an op of its region."""
    if not op.regions or op.name in CONTROL_FLOW:
        return op
    target = op.regions[0].results[position]
    return next((inner for inner in op.regions[0].ops if target in inner.results), op)


def _live_bytes(blocks: tuple[MemoryBlock, ...], count: int) -> tuple[int, ...]:
    """Bytes in use during each op. If a block is overwritten in place, only the new block counts."""
    changes = [0] * (count + 1)
    for block, end in zip(blocks, ends(blocks), strict=True):
        changes[block.first_use] += block.size
        changes[end] -= block.size
    return tuple(accumulate(changes))[:-1]


def _saved_bytes(optimized: Graph, ops: list[Op]) -> int:
    """Bytes of the values that cross from the forward to the backward half and lie in memory. A fused kernel may hold both ends of such a
    value: then the value is in no memory.
    """
    root: dict[Value, Value] = {}
    for op in optimized.ops:
        if op.name in ALIASES:
            root[op.result] = root.get(op.operands[0], op.operands[0])
    made = {value for op in ops for value in op.results}
    crossing = {root.get(value, value) for value in saved_values(optimized)}
    return sum(value.type.nbytes for value in crossing & made)


def _naive_bytes(optimized: Graph) -> int:
    """Bytes of every op's results, except reshapes (views) and the results of the program."""
    results = set(optimized.results)
    return sum(value.type.nbytes for op in optimized.ops if op.name not in ALIASES for value in op.results if value not in results)
