"""Convolutions as implicit matrix products: kernels times windows, without a matrix of windows (no im2col) in memory.

A task is a block of windows of one image and one group. Its input tile is staged once. Then a register tile of some kernels by some vectors
of windows stays in registers while channels and kernel elements run; the vectors of windows are read at the offset of the kernel element.
The sums go to a buffer with the row width of the input tile, and from there, row by row, to the result.

An element of the result is one chain of multiply-adds for each block of channels (at most `KC` products, as in a matrix product), and the
sum of the blocks in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from adjit.codegen.gemm.plan import KC, row_tiles, runs, split_evenly
from adjit.codegen.llvm.module import OPTNONE, Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.conv.direct import is_direct, lower_direct
from adjit.codegen.native.conv.input_tile import (
    MAX_INPUT_TILE_BYTES,
    STAGE,
    Block,
    Geometry,
    choose_block,
    emit_staging,
    geometry_of,
    spread_phases,
)
from adjit.codegen.native.conv.window_builder import WindowBuilder, zeros
from adjit.codegen.native.program_code import StepCode, check_scratch
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op

NS_PER_VECTOR = 0.15

MAX_TILE_INPUT_BYTES = 20 << 10
"""Maximum bytes that a register tile reads of a block of channels: each row tile reads them again."""

TILE_ROW_BYTES = 256
"""Bytes of a row that a register tile reads with the widest vectors, roughly."""

MAX_CHUNK_WEIGHT_BYTES = 128 << 10
"""Bytes of the kernels of a chunk above which the kernels are read once for several images."""

MAX_SUM_BYTES = 256 << 10
MAX_CHUNK_OUTPUTS = 64
"""Maximum number of kernels whose sums are held at once."""

MAX_BLOCK_WINDOWS = 1024
"""Maximum number of windows of a block: their sums stay in the near caches."""

MIN_TASKS = 16
MAX_UNROLLED_TAPS, MAX_UNROLLED_VECTORS = 16, 8


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """Plan of one convolution.

    A task has a block of windows of `images` images, for all kernels or, with `splits`, for one of the `chunks` of kernels, whose sums are
    held in one buffer. `stage` channels are staged at once; `part` channels are summed in one chain. A register tile is `vectors` wide;
    `tiles` has the row tiles of a chunk, by the chunk's size. The result has `phases`, in row-major order, whose rows and columns are
    `apart`. A phase lists the kernel elements that contribute to it, each with its index and its offset in the input tile. There is one
    phase, unless the input has interior zeros.
    """

    block: Block
    images: int
    chunks: tuple[int, ...]
    splits: bool
    stage: int
    part: int
    vectors: int
    tiles: Mapping[int, tuple[int, ...]]
    apart: tuple[int, int]
    phases: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def tasks(self) -> int:
        down, along = self.block.counts
        g = self.block.geometry
        groups = -(-g.images // self.images)
        return groups * g.groups * g.window.counts[0] * down * along * (len(self.chunks) if self.splits else 1)


def plan_convolution(geometry: Geometry, target: Target) -> ConvolutionPlan:
    """The plan of a convolution. It depends on shapes and target only."""
    apart, spread = (1, 1), None
    if any(geometry.window.interior[1:]) and geometry.window.stride[1:] == (1, 1):
        geometry, apart, spread = spread_phases(geometry)
    g, taps, depth = geometry, geometry.taps, geometry.window.sizes[0]
    element_bytes = 4 if g.dtype == "f32" else 8
    lanes = target.lanes(element_bytes)
    chunks = split_evenly(g.outputs, MAX_CHUNK_OUTPUTS)
    most = max(chunks)
    row_bytes = (TILE_ROW_BYTES + g.window.sizes[2] * element_bytes) * g.window.sizes[1]     # for every target: blocks decide bits
    part = max(min(MAX_TILE_INPUT_BYTES // (row_bytes * depth), KC // (taps * depth)), 1)
    if part * 5 >= g.inputs * 4:
        part = g.inputs
    part = max(split_evenly(g.inputs, part))
    splits = len(chunks) > 1 and g.images * g.groups * g.window.counts[0] < MIN_TASKS
    wanted = -(-MIN_TASKS // len(chunks)) if splits else MIN_TASKS
    windows = MAX_BLOCK_WINDOWS * max(1, MAX_CHUNK_OUTPUTS // (2 * most)) // prod(apart)
    block = choose_block(g, min(g.inputs, 8 * part) * depth, windows, wanted)
    stage, images = min(g.inputs, max(MAX_INPUT_TILE_BYTES // (block.channel * depth * element_bytes) // part, 1) * part), 1
    if block.counts == (1, 1) and most * g.channels * taps * element_bytes > MAX_CHUNK_WEIGHT_BYTES:
        blocks = g.groups * g.window.counts[0] * (len(chunks) if splits else 1)
        images = max(min(g.images * blocks // MIN_TASKS, MAX_SUM_BYTES // (most * block.span * prod(apart) * element_bytes)), 1)
        if images > 1:
            stage = min(stage, max(MAX_CHUNK_WEIGHT_BYTES // (most * taps * depth * element_bytes) // part, 1) * part)
    vectors = _tile_vectors(-(-block.span // lanes), most, target)
    return ConvolutionPlan(block, images, chunks, splits, stage, part, vectors,
                           {chunk: row_tiles(chunk, vectors, target) for chunk in set(chunks)}, apart,
                           (tuple(enumerate(block.offsets)),) if spread is None else tuple(
                               tuple((tap, down * block.width + along) for tap, down, along in phase.taps) for phase in spread))


def _tile_vectors(needed: int, rows: int, target: Target) -> int:
    """The tile width that rounds `needed` vectors of windows up the least."""
    widths: tuple[int, ...]
    if target.registers < 32:
        widths = (4,) if rows <= 2 else (3,) if rows == 3 else (2,)
    else:
        widths = (8, 6, 4) if rows <= 2 else (4, 3) if rows <= 4 else (3, 2)
    return min(widths, key=lambda width: (-(-needed // width) * width, -width))


def lower_convolution(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The steps of a convolution; none if the result is empty."""
    x, w = op.operands
    geometry = geometry_of(x.type, w.type.shape[0], w.type.shape[2:], op.attrs)
    if not op.result.type.size:
        return ()
    text = WindowBuilder(target, geometry.dtype)
    if not w.type.size:
        return (zeros(text, 2, op.result.type.size),)
    if is_direct(op):
        return lower_direct(op, target, geometry.dtype)
    plan = plan_convolution(geometry, target)
    writer = _Writer(text, plan)
    check_scratch(op, writer.elements)
    writer.write()
    work = geometry.products / text.lanes * NS_PER_VECTOR + op.result.type.nbytes / 8
    return (text.code(plan.tasks, work),)


@dataclass(frozen=True, slots=True)
class _Task:
    """Work of a task: addresses of its corner in the images and in the result, the `count` of images, the first window, and the actual size
    of the block."""

    source: str
    result: str
    weights: str
    count: str
    depth: str
    row: str
    column: str
    rows: str
    columns: str
    tiles: str


class _Writer:
    """Writer of a plan's step."""

    def __init__(self, text: WindowBuilder, plan: ConvolutionPlan):
        self.text, self.plan, self.block, self.geometry = text, plan, plan.block, plan.block.geometry
        self.tile_span = plan.vectors * text.lanes
        self.sums_row = -(-self.block.span // self.tile_span) * self.tile_span
        self.sums_phase = max(plan.chunks) * self.sums_row
        self.sums_image = len(plan.phases) * self.sums_phase
        self.input_tile_size = plan.stage * self.geometry.window.sizes[0] * self.block.channel
        self.slack = self.tile_span + text.lanes + self.block.channel
        self.elements = self.input_tile_size + self.slack + plan.images * self.sums_image + text.lanes
        self.image = self.geometry.window.lengths[0] * self.geometry.plane

    def write(self) -> None:
        text, g, block, plan = self.text, self.geometry, self.block, self.plan
        s = g.window
        emit_staging(text, block)
        down, along = block.counts
        with text.step(OPTNONE):
            x, w, y = (text.place(number) for number in range(3))
            input_tile, sums = text.array(self.input_tile_size + self.slack), text.array(plan.images * self.sums_image + text.lanes)
            if len(block.phases) == 1:      # tiles also read the unstaged margin, for sums that are dropped: garbage there can be slow
                text.clear(text.at(input_tile, text.scalar, self.input_tile_size), self.slack)
            else:
                text.clear(input_tile, self.input_tile_size + self.slack)
            with text.for_range("%low", "%high", empty=True) as task:
                image, group, depth, tall, wide, chunk = text.digits(task.counter, g.groups, s.counts[0], down, along,
                                                                     len(plan.chunks) if plan.splits else 1)
                first = text.linear((image, plan.images))
                row, column = text.linear((tall, block.rows)), text.linear((wide, block.columns))
                rows = text.smaller(text.linear(s.counts[1], (row, -1)), block.rows)
                columns = text.smaller(text.linear(s.counts[2], (column, -1)), block.columns)
                span = text.linear((rows, block.width), -block.width, columns)
                work = _Task(
                    text.at(x, text.scalar, (text.linear((first, g.groups * g.inputs), (group, g.inputs)), self.image)),
                    text.at(y, text.scalar, (text.linear((first, g.groups * g.outputs), (group, g.outputs)), g.positions),
                            (depth, g.results[1] * g.results[2]), (row, plan.apart[0] * g.results[2]), (column, plan.apart[1])),
                    text.at(w, text.scalar, (group, g.outputs * g.channels * g.taps)), text.smaller(text.linear(g.images, (first, -1)),
                                                                                                    plan.images),
                    depth, row, column, rows, columns,
                    text.let(f"sdiv i64 {text.linear(span, self.tile_span - 1)}, {self.tile_span}"))
                once = plan.images == 1 and plan.stage >= g.inputs
                if once:
                    self.stage(work, work.source, input_tile, str(g.inputs))
                for index, start, size, times in runs(plan.chunks):
                    bounds: tuple[str | int, str | int] = (0, times)
                    if plan.splits:
                        own = text.linear(chunk, -index)
                        bounds = text.larger(own, 0), text.smaller(text.linear(own, 1), times)
                    with text.for_range(*bounds, empty=plan.splits) as many:
                        self.chunk(work, input_tile, sums, text.linear((many.counter, size), start), size, once)

    def stage(self, work: _Task, source: str, input_tile: str, channels: str) -> None:
        self.text.call("void", f"@{STAGE}", ("ptr", source), ("ptr", input_tile), ("i64", channels), ("i64", work.depth), ("i64", work.row),
                       ("i64", work.column))

    def chunk(self, work: _Task, input_tile: str, sums: str, output: str, size: int, staged: bool) -> None:
        """The results of a chunk of kernels, from kernel `output` on."""
        text, g, plan = self.text, self.geometry, self.plan
        weights = text.at(work.weights, text.scalar, (output, g.channels * g.taps))
        with text.for_range(0, g.inputs, plan.stage) as stage:
            channels = text.smaller(text.linear(g.inputs, (stage.counter, -1)), plan.stage)
            with text.for_range(0, work.count) as image:
                if not staged:
                    source = text.at(work.source, text.scalar, (image.counter, g.groups * g.inputs * self.image),
                                     (stage.counter, self.image))
                    self.stage(work, source, input_tile, channels)
                self.parts(work, input_tile, weights, text.at(sums, text.scalar, (image.counter, self.sums_image)), stage.counter, channels,
                           size)
        with text.for_range(0, work.count) as image:
            target = text.at(work.result, text.scalar, (image.counter, g.groups * g.outputs * g.positions), (output, g.positions))
            left = [text.linear(have, (first, -step)) for have, first, step
                    in zip(g.results[1:], (work.row, work.column), plan.apart, strict=True)]
            rows, columns = (text.smaller(most, text.linear((count, step))) for most, count, step
                             in zip(left, (work.rows, work.columns), plan.apart, strict=True))
            text.call("void", f"@{self.flush()}", ("ptr", text.at(sums, text.scalar, (image.counter, self.sums_image))), ("ptr", target),
                      ("i64", size), ("i64", rows), ("i64", columns))

    def parts(self, work: _Task, input_tile: str, weights: str, sums: str, first: str, channels: str, size: int) -> None:
        """The products over all channels of an input tile, in blocks; `first` is the tile's first channel in the group."""
        text, g, plan = self.text, self.geometry, self.plan
        depth = g.window.sizes[0]
        with text.for_range(0, channels, plan.part) as part:
            count = text.linear((text.smaller(text.linear(channels, (part.counter, -1)), plan.part), depth))
            channel = text.linear(first, part.counter)
            more = text.compare("ne", channel, 0)
            with text.for_range(0, work.tiles) as tile:
                at = text.linear((tile.counter, self.tile_span))
                source = text.at(input_tile, text.scalar, (part.counter, depth * self.block.channel), at)
                for _, output, rows, times in runs(plan.tiles[size]):
                    with text.for_range(0, times) as tall:
                        outputs = text.linear((tall.counter, rows), output)
                        corner = text.at(weights, text.scalar, (outputs, g.channels * g.taps), (channel, depth * g.taps))
                        target = text.at(sums, text.scalar, (outputs, self.sums_row), at)
                        for phase, taps in enumerate(plan.phases):
                            text.call("void", f"@{self.tile(rows, phase, taps)}", ("ptr", source), ("ptr", corner),
                                      ("ptr", text.at(target, text.scalar, phase * self.sums_phase)), ("i64", count), ("i1", more))

    def tile(self, rows: int, phase: int, taps: Sequence[tuple[int, int]]) -> str:
        """The name of the function for a register tile of a phase: sums of `rows` kernels over the channels of an input tile."""
        name, text, plan = f"step.tile_{rows}_{phase}", self.text, self.plan
        if name in text.functions:
            return name
        text.functions[name] = Definition(name, "")
        cells = [(i, j) for i in range(rows) for j in range(plan.vectors)]
        row = self.geometry.channels * self.geometry.taps
        chains = 2 if len(cells) < 8 and len(taps) > 1 else 1
        with text.function(name, "ptr noalias %panel, ptr noalias %weights, ptr noalias %sums, i64 %channels, i1 %more"):
            start = [("ptr", "%panel"), ("ptr", "%weights"), *[(text.vector, "zeroinitializer")] * (len(cells) * chains)]
            with text.for_range(0, "%channels", 1, start) as loop:
                input_tile, weights, *now = loop.values
                if len(taps) <= MAX_UNROLLED_TAPS:
                    for index, (tap, offset) in enumerate(taps):
                        own = slice(index % chains * len(cells), (index % chains + 1) * len(cells))
                        now[own] = self.products(cells, now[own], text.at(input_tile, text.scalar, offset),
                                                 text.at(weights, text.scalar, tap), row)
                else:
                    with text.for_range(0, len(taps), 1, [(text.vector, value) for value in now]) as each:
                        pair = text.at(text.use(f"@step.taps_{phase}"), "[2 x i64]", each.counter)
                        number, distance = (text.load("i64", address, align=8)
                                            for address in (pair, text.at(pair, "i64", 1)))
                        sums = list(each.values)
                        sums[:len(cells)] = self.products(cells, sums[:len(cells)], text.at(input_tile, text.scalar, distance),
                                                          text.at(weights, text.scalar, number), row)
                        each.following = sums
                    now = list(each.following)
                loop.following = [text.at(input_tile, text.scalar, self.block.channel),
                                  text.at(weights, text.scalar, self.geometry.taps), *now]
            sums = list(loop.following[2:])
            if chains > 1:
                sums = [text.fadd(a, b) for a, b in zip(sums[:len(cells)], sums[len(cells):], strict=True)]
            self.finish(cells, sums)
        if len(taps) > MAX_UNROLLED_TAPS:
            numbers = ", ".join(f"[2 x i64] [i64 {tap}, i64 {offset}]" for tap, offset in taps)
            table = f"step.taps_{phase}"
            text.functions[table] = Definition(table, f"@{table} = internal constant [{len(taps)} x [2 x i64]] [{numbers}], align 64")
        return name

    def products(self, cells: list[tuple[int, int]], sums: list[str], input_tile: str, weights: str, row: int) -> list[str]:
        text = self.text
        vectors = [text.load_vector(text.at(input_tile, text.scalar, j * text.lanes)) for j in range(self.plan.vectors)]
        factors = [text.broadcast(text.at(weights, text.scalar, i * row)) for i in range(cells[-1][0] + 1)]
        return [text.multiply_add(factors[i], vectors[j], value) for (i, j), value in zip(cells, sums, strict=True)]

    def finish(self, cells: list[tuple[int, int]], sums: list[str]) -> None:
        """Store the sums, added to the sums of the earlier blocks of channels."""
        text = self.text
        addresses = [text.at("%sums", text.scalar, i * self.sums_row + j * text.lanes) for i, j in cells]
        if self.plan.part >= self.geometry.inputs:
            for value, address in zip(sums, addresses, strict=True):
                text.store_vector(value, address, aligned=True)
            return
        with text.if_("%more"):
            for value, address in zip(sums, addresses, strict=True):
                text.store_vector(text.fadd(text.load_vector(address, aligned=True), value), address, aligned=True)
            text.ret()
        for value, address in zip(sums, addresses, strict=True):
            text.store_vector(value, address, aligned=True)

    def flush(self) -> str:
        """The name of the function that copies sums to the result, without the gaps between rows."""
        name, text, g = "step.flush", self.text, self.geometry
        if name in text.functions:
            return name
        text.functions[name] = Definition(name, "")
        down, along = self.plan.apart
        wide = g.results[2]
        with text.function(name, "ptr noalias %sums, ptr noalias %out, i64 %outputs, i64 %rows, i64 %columns"), \
                text.for_range(0, "%outputs") as output, text.for_range(0, "%rows") as row:
            line, phase = (row.counter, "0") if down == 1 else (
                text.let(f"udiv i64 {row.counter}, {down}"), text.let(f"urem i64 {row.counter}, {down}"))
            source = text.at("%sums", text.scalar, (phase, along * self.sums_phase), (output.counter, self.sums_row),
                             (line, self.block.width))
            target = text.at("%out", text.scalar, (output.counter, g.positions), (row.counter, wide))
            if self.block.counts[1] == along == 1 and wide <= MAX_UNROLLED_VECTORS * text.lanes:
                for start in range(0, wide, text.lanes):
                    text.store_vector(text.load_vector(text.at(source, text.scalar, start)), text.at(target, text.scalar, start),
                                      min(text.lanes, wide - start))
                return name
            with text.for_range(0, "%columns", text.lanes * along) as column:
                first = column.counter if along == 1 else text.let(f"udiv i64 {column.counter}, {along}")
                parts = [text.load_vector(text.at(source, text.scalar, number * self.sums_phase, first)) for number in range(along)]
                for number in range(along):
                    mask = text.mask_below(text.linear("%columns", (column.counter, -1), -number * text.lanes))
                    value = parts[0] if along == 1 else text.interleaved(parts, number)
                    text.masked_store(value, text.at(target, text.scalar, column.counter, number * text.lanes), mask)
        return name
