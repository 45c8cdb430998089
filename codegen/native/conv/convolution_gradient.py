"""Gradient of a convolution with respect to its kernels, as an implicit matrix product: cotangents times windows.

The images are cut into partitions. Each partition is summed by tasks of its own into partial sums in the scratch memory: for each kernel
element a row of outputs. A task stages a block of windows, like the convolution, and transposes the block of the cotangent, so that outputs
are contiguous. A register tile of some kernel elements by some vectors of outputs then stays in registers while the windows of the block
run. The partial sums are added in order at the end. The partitions follow from shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from adjit.codegen.gemm.kernels import Kernel
from adjit.codegen.gemm.packing import MAX_ROWS_AT_ONCE, transposed_block
from adjit.codegen.gemm.plan import runs, split_evenly
from adjit.codegen.llvm.module import OPTNONE, Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.conv.input_tile import (
    MAX_INPUT_TILE_BYTES,
    MIN_BLOCK_COLUMNS,
    STAGE,
    Block,
    Geometry,
    choose_block,
    emit_staging,
    geometry_of,
)
from adjit.codegen.native.conv.window_builder import WindowBuilder, zeros
from adjit.codegen.native.program_code import StepCode, check_scratch
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op
from adjit.ir.ops.convolution import partial_sums

NS_PER_VECTOR = 0.18
MAX_BLOCK_WINDOWS = 384
"""Maximum number of windows of a block: that many products are summed in one chain."""

MAX_TRANSPOSED_BYTES = 96 << 10
"""Maximum bytes of the transposed cotangent of a block: every register tile reads all of it."""

MAX_TRANSPOSED_OUTPUTS = 64
"""Maximum number of outputs that are transposed at once."""

ROW_ALIGN = 16
"""Divisor of the row length of partial sums, in elements."""

MIN_TASKS = 16

MIN_LANES_PER_OUTPUT, MAX_DOT_TAPS = 4, 12
"""Thresholds for dot products: outputs are not transposed if a vector has at least `MIN_LANES_PER_OUTPUT` lanes for each; then
`MAX_DOT_TAPS` kernel elements are summed at once."""


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """Plan of a kernel gradient. `parts` is the number of partitions of the images, `inputs` the channels of each channel chunk, `columns`
    the outputs of each task, in whole vectors.

    A register tile has the kernel elements of `channels` channels; `taps` has for each tile the first and the last (excluded) of these
    elements.
    """

    block: Block
    parts: int
    inputs: tuple[int, ...]
    columns: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]
    channels: int

    @property
    def tasks(self) -> int:
        return self.parts * self.block.geometry.groups * len(self.columns) * len(self.inputs)


def plan_gradient(geometry: Geometry, parts: int, target: Target) -> GradientPlan:
    """The plan of a kernel gradient. It depends on shapes and target only."""
    lanes = target.lanes(4 if geometry.dtype == "f32" else 8)
    vectors = split_evenly(-(-geometry.outputs // lanes), max(MAX_TRANSPOSED_OUTPUTS // lanes, 1))
    columns = tuple(count * lanes for count in vectors)
    width = max(width for count in vectors for width in tile_vectors(count, target))
    most = (target.registers - 2 - width) // width
    taps = split_evenly(geometry.taps, most)
    starts = [sum(taps[:index]) for index in range(len(taps))]
    channels = max(most // geometry.taps, 1)
    wanted = max(MIN_TASKS // (parts * geometry.groups * len(columns)), 1)
    element_bytes, depth = target.vector_bytes // lanes, geometry.window.sizes[0]
    least = Block(geometry, 1, min(MIN_BLOCK_COLUMNS, geometry.window.counts[2])).channel * depth * element_bytes
    inputs = split_evenly(geometry.inputs, max(min(-(-geometry.inputs // wanted), MAX_INPUT_TILE_BYTES // least), 1))
    windows = min(MAX_BLOCK_WINDOWS, max(MAX_TRANSPOSED_BYTES // (max(columns) * element_bytes), 32))
    block = choose_block(geometry, max(inputs) * depth, windows, 1)
    ranges = tuple((start, start + count) for start, count in zip(starts, taps, strict=True))
    return GradientPlan(block, parts, inputs, columns, ranges, channels)


def tile_vectors(vectors: int, target: Target) -> tuple[int, ...]:
    """The vectors of each register tile across outputs."""
    return split_evenly(vectors, 3 if target.registers >= 32 else 2)


def lower_kernel_gradient(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The steps of the kernel gradient: the partial sums, then their sum."""
    x, ct = op.operands
    sizes = op.attrs["sizes"]
    geometry = geometry_of(x.type, ct.type.shape[1], sizes, op.attrs)
    if not op.result.type.size:
        return ()
    text = WindowBuilder(target, geometry.dtype)
    if not ct.type.size:
        return (zeros(text, 2, op.result.type.size),)
    parts, _ = partial_sums(x.type, ct.type, sizes, op.attrs["groups"])
    plan = plan_gradient(geometry, parts, target)
    writer = _Writer(text, plan)
    check_scratch(op, writer.input_tile + writer.cotangent)
    writer.write()
    work = geometry.products / text.lanes * NS_PER_VECTOR + ct.type.nbytes / 8
    return text.code(plan.tasks, work), _sum_of_parts(geometry, parts, target)


def row_of(geometry: Geometry) -> int:
    """Elements of a row of partial sums: the outputs, padded."""
    return -(-geometry.outputs // ROW_ALIGN) * ROW_ALIGN


class _Writer:
    """Writer of the step for partial sums."""

    def __init__(self, text: WindowBuilder, plan: GradientPlan):
        self.text, self.plan, self.block, self.geometry = text, plan, plan.block, plan.block.geometry
        self.row = row_of(self.geometry)
        self.uses_dots = self.geometry.outputs * MIN_LANES_PER_OUTPUT <= text.lanes
        self.offsets = self.block.offsets
        self.names: dict[tuple[int, ...], str] = {}     # by relative offsets of kernel elements
        self.input_tile = max(plan.inputs) * self.geometry.window.sizes[0] * self.block.channel + text.lanes
        self.cotangent = 0 if self.uses_dots else (self.block.rows * self.block.columns + text.lanes) * max(plan.columns)

    def write(self) -> None:
        text, plan, g, block = self.text, self.plan, self.geometry, self.block
        s = g.window
        emit_staging(text, block)
        with text.step(OPTNONE):
            x, ct, _, scratch = (text.place(number) for number in range(4))
            input_tile = text.array(self.input_tile)
            cotangent = "" if self.uses_dots else text.array(self.cotangent)
            with text.for_range("%low", "%high", empty=True) as task:
                part, group, columns, inputs = text.digits(task.counter, g.groups, len(plan.columns), len(plan.inputs))
                bounds = [text.let(f"udiv i64 {text.linear((at, g.images))}, {plan.parts}") for at in (part, text.linear(part, 1))]
                sums = text.at(scratch, text.scalar, (text.linear((part, g.groups), group), g.channels * g.taps * self.row))
                for first_output, count in self.chosen(columns, plan.columns):
                    for first_input, some in self.chosen(inputs, plan.inputs):
                        source = text.at(x, text.scalar, (text.linear((group, g.inputs), first_input), s.lengths[0] * g.plane))
                        target = text.at(sums, text.scalar, (first_input, s.sizes[0] * g.taps * self.row), first_output)
                        given = text.at(ct, text.scalar, (text.linear((group, g.outputs), first_output), g.positions))
                        with text.for_range(bounds[0], bounds[1], empty=True) as image:
                            at_x = text.at(source, text.scalar, (image.counter, g.groups * g.inputs * s.lengths[0] * g.plane))
                            at_ct = text.at(given, text.scalar, (image.counter, g.groups * g.outputs * g.positions))
                            new = text.compare("eq", image.counter, bounds[0])
                            rest = text.linear(-1, g.outputs, (first_output, -1))
                            self.blocks(at_x, at_ct, input_tile, cotangent, target, new, rest, count, some)

    def chosen(self, number: str, sizes: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Code for each different size, of which only the chunk `number` runs. Yields the chunk's start and its size."""
        text = self.text
        for index, start, size, times in runs(sizes):
            own = text.linear(number, -index)
            with text.for_range(text.larger(own, 0), text.smaller(text.linear(own, 1), times), empty=True) as once:
                yield text.linear((once.counter, size), start), size

    def blocks(self, x: str, ct: str, input_tile: str, cotangent: str, sums: str, new: str, rest: str, columns: int, inputs: int) -> None:
        """Add the contribution of one image, block by block."""
        text, g, block = self.text, self.geometry, self.block
        s = g.window
        down, along = block.counts
        depth_count, high, wide = s.counts
        with text.for_range(0, depth_count * down * along) as loop:
            depth, tall, across = text.digits(loop.counter, down, along)
            row, column = text.linear((tall, block.rows)), text.linear((across, block.columns))
            rows = text.smaller(text.linear(high, (row, -1)), block.rows)
            width = text.smaller(text.linear(wide, (column, -1)), block.columns)
            text.call("void", f"@{STAGE}", ("ptr", x), ("ptr", input_tile), ("i64", inputs), ("i64", depth), ("i64", row), ("i64", column))
            source = text.at(ct, text.scalar, (depth, high * wide), (row, wide), column)
            fresh = text.both(new, text.compare("eq", loop.counter, 0))
            if self.uses_dots:
                self.dots(input_tile, source, sums, rows, width, fresh, inputs)
            elif along == 1:
                length = text.linear((rows, wide))
                self.transpose(source, cotangent, columns, length, rest)
            else:
                with text.for_range(0, rows) as line:
                    done = text.mul(text.mul(line.counter, width), columns)
                    self.transpose(text.at(source, text.scalar, (line.counter, wide)), text.at(cotangent, text.scalar, done), columns,
                                   width, rest)
            if not self.uses_dots:
                self.tiles(input_tile, cotangent, sums, rows, width, fresh, columns, inputs)

    def transpose(self, source: str, target: str, columns: int, length: str, rest: str) -> None:
        """Transpose consecutive windows of the cotangent, so that outputs are contiguous."""
        name = self.text.task_split(_transpose_kernel(self.text.target, self.text.dtype))
        self.text.call("void", f"@{name}", ("ptr", source), ("ptr", target), ("i64", columns), ("i64", length), ("i64", rest),
                       ("i64", self.geometry.positions))

    def tiles(self, input_tile: str, cotangent: str, sums: str, rows: str, width: str, fresh: str, columns: int, inputs: int) -> None:
        """Products of all kernel elements of the staged channels with all vectors of outputs."""
        text, g, plan = self.text, self.geometry, self.plan
        planes = inputs * g.window.sizes[0]
        for _, start, channels, times in runs(split_evenly(planes, plan.channels)):
            with text.for_range(0, times) as many:
                plane = text.linear((many.counter, channels), start)
                for first, last in plan.taps:
                    for _, vector, vectors, count in runs(tile_vectors(columns // text.lanes, text.target)):
                        with text.for_range(0, count) as across:
                            column = text.linear((across.counter, vectors * text.lanes), vector * text.lanes)
                            target = text.at(sums, text.scalar, (plane, g.taps * self.row), first * self.row, column)
                            name = self.tile(channels, first, last, vectors, columns)
                            source = text.at(input_tile, text.scalar, (plane, self.block.channel), self.offsets[first])
                            given = text.at(cotangent, text.scalar, column)
                            text.call("void", f"@{name}", ("ptr", source), ("ptr", given), ("ptr", target), ("i64", rows), ("i64", width),
                                      ("i1", fresh))

    def dots(self, input_tile: str, cotangent: str, sums: str, rows: str, width: str, fresh: str, inputs: int) -> None:
        """Dot products of the cotangent's rows with rows of the input tile, both in place, for so few outputs that vectors of outputs would
        be nearly empty."""
        text, g = self.text, self.geometry
        with text.for_range(0, g.outputs) as output, text.for_range(0, inputs * g.window.sizes[0]) as plane:
            for start in range(0, g.taps, MAX_DOT_TAPS):
                name = self.dot(start, min(start + MAX_DOT_TAPS, g.taps))
                target = text.at(sums, text.scalar, (plane.counter, g.taps * self.row), start * self.row, output.counter)
                source = text.at(input_tile, text.scalar, (plane.counter, self.block.channel), self.offsets[start])
                given = text.at(cotangent, text.scalar, (output.counter, g.positions))
                text.call("void", f"@{name}", ("ptr", source), ("ptr", given), ("ptr", target), ("i64", rows), ("i64", width),
                          ("i1", fresh))

    def apart(self, first: int, last: int) -> tuple[int, ...]:
        """Offsets of kernel elements relative to the first of them."""
        return tuple(offset - self.offsets[first] for offset in self.offsets[first:last])

    def dot(self, first: int, last: int) -> str:
        """The name of the function that sums the products of some kernel elements of one plane. Equal relative offsets share a function."""
        offsets, text = self.apart(first, last), self.text
        name = self.names.setdefault(offsets, f"step.dot_{len(self.names)}")
        if name in text.functions:
            return name
        text.functions[name] = Definition(name, "")
        with text.function(name, "ptr noalias %panel, ptr noalias %cotangent, ptr noalias %sums, i64 %rows, i64 %width, i1 %fresh"):
            with text.for_range(0, "%rows", 1, [(text.vector, "zeroinitializer")] * len(offsets)) as line:
                source = text.at("%panel", text.scalar, (line.counter, self.block.width))
                given = text.at("%cotangent", text.scalar, (line.counter, self.geometry.window.counts[2]))
                with text.for_range(0, "%width", text.lanes, [(text.vector, value) for value in line.values]) as loop:
                    mask = text.mask_below(text.linear("%width", (loop.counter, -1)))
                    factor = text.load_vector(text.at(given, text.scalar, loop.counter), mask)
                    loop.following = [text.multiply_add(factor, text.load_vector(text.at(source, text.scalar, loop.counter, offset), mask),
                                                        value)
                                      for offset, value in zip(offsets, loop.values, strict=True)]
                line.following = loop.following
            for index, value in enumerate(line.following):
                total = text.call(text.scalar, f"@llvm.vector.reduce.fadd.v{text.lanes}{text.dtype}", (text.scalar, "0.0"),
                                  (text.vector, value))
                address = text.at("%sums", text.scalar, index * self.row)
                before = text.let(f"load {text.scalar}, ptr {address}, align {text.bytes}")
                added = text.let(f"fadd {text.scalar} {before}, {total}")
                chosen = text.let(f"select i1 %fresh, {text.scalar} {total}, {text.scalar} {added}")
                text.do(f"store {text.scalar} {chosen}, ptr {address}, align {text.bytes}")
        return name

    def tile(self, channels: int, first: int, last: int, vectors: int, columns: int) -> str:
        """The name of the function for a register tile: sums over the windows of a block. Equal relative offsets share a function."""
        offsets, text = self.apart(first, last), self.text
        name = f"step.tile_{channels}_{self.names.setdefault(offsets, str(len(self.names)))}_{vectors}_{columns}"
        if name in text.functions:
            return name
        text.functions[name] = Definition(name, "")
        addresses = [channel * self.block.channel + offset for channel in range(channels) for offset in offsets]
        rows = [channel * self.geometry.taps + tap for channel in range(channels) for tap in range(last - first)]
        cells = [(i, j) for i in range(len(addresses)) for j in range(vectors)]
        with text.function(name, "ptr noalias %panel, ptr noalias %cotangent, ptr noalias %sums, i64 %rows, i64 %width, i1 %fresh"):
            start = [("ptr", "%cotangent"), *[(text.vector, "zeroinitializer")] * len(cells)]
            with text.for_range(0, "%rows", 1, start) as line:
                begin = text.at("%panel", text.scalar, (line.counter, self.block.width))
                carried = [("ptr", begin), ("ptr", line.values[0]), *((text.vector, value) for value in line.values[1:])]
                with text.for_range(0, "%width", 1, carried) as loop:
                    input_tile, cotangent, *now = loop.values
                    given = [text.load_vector(text.at(cotangent, text.scalar, j * text.lanes), aligned=True) for j in range(vectors)]
                    factors = [text.broadcast(text.at(input_tile, text.scalar, address)) for address in addresses]
                    sums = [text.multiply_add(factors[i], given[j], value) for (i, j), value in zip(cells, now, strict=True)]
                    loop.following = [text.at(input_tile, text.scalar, 1), text.at(cotangent, text.scalar, columns), *sums]
                line.following = list(loop.following[1:])
            self.finish([text.at("%sums", text.scalar, rows[i] * self.row + j * text.lanes) for i, j in cells], list(line.following[1:]))
        return name

    def finish(self, addresses: list[str], sums: list[str]) -> None:
        """Store the sums, or add them to the sums in memory."""
        text = self.text
        with text.if_("%fresh"):
            for value, address in zip(sums, addresses, strict=True):
                text.store_vector(value, address)
            text.ret()
        for value, address in zip(sums, addresses, strict=True):
            text.store_vector(text.fadd(text.load_vector(address), value), address)


@cache
def _transpose_kernel(target: Target, dtype: str) -> Kernel:
    """The function that transposes `length` windows of `columns` outputs, which are `apart` elements apart, so that the outputs of a window
    are contiguous. If there are only `rest` + 1 outputs, the last one is repeated."""
    text = WindowBuilder(target, dtype)
    name, at_once = f"adjit_turn_windows_{dtype}x{text.lanes}", min(text.lanes, MAX_ROWS_AT_ONCE)
    parameters = "ptr noalias %from, ptr noalias %to, i64 %columns, i64 %length, i64 %rest, i64 %apart"
    sources = text.alloca("ptr", text.lanes, 64)
    row = text.strides(text.mul("%columns", text.bytes), text.lanes)
    with text.for_range(0, "%columns", text.lanes) as column:
        with text.for_range(0, text.lanes) as lane:
            output = text.smaller(text.linear(column.counter, lane.counter), "%rest")
            source = text.at("%from", text.scalar, text.let(f"mul nsw i64 {output}, %apart"))
            text.do(f"store ptr {source}, ptr {text.at(sources, 'ptr', lane.counter)}, align 8")
        with text.for_range(0, "%length", text.lanes) as window:
            mask = text.mask_below(text.linear("%length", (window.counter, -1)))
            target_ = text.at("%to", text.scalar, text.mul(window.counter, "%columns"), column.counter)
            with text.for_range(0, text.lanes, at_once) as group:
                own = text.at(sources, "ptr", group.counter)
                rows = []
                for index in range(at_once):
                    source = text.load("ptr", text.at(own, "ptr", index), align=8)
                    rows.append(text.load_vector(text.at(source, text.scalar, window.counter), mask))
                bases = row.bases(text.at(target_, text.scalar, group.counter), text.lanes)
                for number, vector in enumerate(transposed_block(text, rows)):
                    text.store_vector(vector, row.row(bases, number), aligned=True, lanes=at_once)
    return Kernel(text.end_function(name, parameters), text.declarations)


def _sum_of_parts(geometry: Geometry, parts: int, target: Target) -> StepCode:
    """The step that adds the partial sums in order, and transposes rows of outputs into kernels."""
    text, g = WindowBuilder(target, geometry.dtype), geometry
    row, rows = row_of(g), g.channels * g.taps
    vectors = -(-g.outputs // text.lanes)
    with text.step():
        result, scratch = text.place(2), text.place(3)
        with text.for_range("%low", "%high", empty=True) as task:
            group, vector = text.digits(task.counter, vectors)
            column = text.linear((vector, text.lanes))
            mask = text.mask_below(text.linear(g.outputs, (column, -1)))
            source = text.at(scratch, text.scalar, (group, rows * row), column)
            target_ = text.at(result, text.scalar, (text.linear((group, g.outputs), column), rows))
            with text.for_range(0, rows) as line:
                address = text.at(source, text.scalar, (line.counter, row))
                total = text.load_vector(address)
                if parts > 1:
                    with text.for_range(1, parts, 1, [(text.vector, total)]) as part:
                        part.following = [text.fadd(part.values[0], text.load_vector(text.at(address, text.scalar,
                                                                                             (part.counter, g.groups * rows * row))))]
                    total = part.following[0]
                text.scatter(total, text.at(target_, text.scalar, line.counter), rows, mask)
    return text.code(g.groups * vectors, parts * g.groups * rows * row * text.bytes / 8)
