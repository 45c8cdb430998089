"""Convolutions as implicit products: kernels times panels of windows that are never written out.

A task is a block of windows of one image and one group. Its panel is staged once; then a tile of some kernels by some vectors of
windows stays in registers while channels and kernel elements run, each vector of windows being read at the distance of its kernel
element. The sums go to a buffer that has the panel's row width, and from there, row by row, to the result.

An element is one chain of multiply-adds for each part of the channels (`PART` products at most, as in a product of matrices), and the
sum of the parts in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from adjit.codegen.gemm.plan import PART, WHOLE, equal_parts, row_tiles, runs
from adjit.codegen.native.convolution_panels import STAGE, Block, Geometry, PanelText, choose_block, emit_staging, geometry_of, zeros
from adjit.codegen.native.step_code import StepCode
from adjit.codegen.target import Target
from adjit.ir.graph import Op

NANOSECONDS_A_VECTOR = 0.15
OUTPUTS = 64
"""The most kernels whose sums are held at once."""

SUMS = 1024
"""The most windows of a block: their sums stay near."""

TASKS = 16
UNROLLED_TAPS = 16


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """`chunks` are the kernels that are worked on together, `tiles` by chunk size the rows of its tiles; `parts` are channels that
    are summed on their own; a tile is `vectors` wide."""

    block: Block
    chunks: tuple[int, ...]
    tiles: Mapping[int, tuple[int, ...]]
    vectors: int
    parts: tuple[int, ...]

    @property
    def tasks(self) -> int:
        down, along = self.block.counts
        g = self.block.geometry
        return g.images * g.groups * g.sliding.counts[0] * down * along


def plan_convolution(geometry: Geometry, target: Target) -> ConvolutionPlan:
    """Decides by shapes and target only."""
    chunks = equal_parts(geometry.outputs, OUTPUTS)
    products = geometry.channels * geometry.taps
    parts: tuple[int, ...] = (geometry.channels,)
    if products > WHOLE:
        parts = equal_parts(geometry.channels, max(PART // geometry.taps, 1))
    block = choose_block(geometry, max(parts), SUMS * max(1, OUTPUTS // (2 * max(chunks))), TASKS)
    lanes = target.lanes(4 if geometry.dtype == "f32" else 8)
    needed = -(-block.span // lanes)
    most = max(chunks)
    widths: tuple[int, ...]
    if target.registers < 32:
        widths = (4,) if most <= 2 else (3,) if most <= 4 else (2,)
    else:
        widths = (8, 6, 4) if most <= 2 else (4, 3) if most <= 4 else (3, 2)
    vectors = min(widths, key=lambda width: (-(-needed // width) * width, -width))
    tiles = {chunk: row_tiles(chunk, vectors, target) for chunk in set(chunks)}
    return ConvolutionPlan(block, chunks, tiles, vectors, parts)


def lower_convolution(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The steps of a convolution: none where the result is empty."""
    x, w = op.operands
    geometry = geometry_of(x.type, w.type.shape[0], w.type.shape[2:], op.attrs)
    if not op.result.type.size:
        return ()
    text = PanelText(target, geometry.dtype)
    if not w.type.size:
        return (zeros(text, 2, op.result.type.size),)
    plan = plan_convolution(geometry, target)
    _Writer(text, plan).write()
    lanes = target.lanes(4 if geometry.dtype == "f32" else 8)
    work = (geometry.products / lanes) * NANOSECONDS_A_VECTOR + op.result.type.nbytes / 8
    return (text.code(plan.tasks, work),)


class _Writer:
    """Writes the step of a plan."""

    def __init__(self, text: PanelText, plan: ConvolutionPlan):
        self.text, self.plan, self.block, self.geometry = text, plan, plan.block, plan.block.geometry
        self.tile_span = plan.vectors * text.lanes
        self.sums_row = -(-self.block.span // self.tile_span) * self.tile_span
        self.panel_size = max(plan.parts) * self.block.channel
        self.slack = self.tile_span + text.lanes + max(self.block.offsets, default=0)

    def write(self) -> None:
        text, g, block, plan = self.text, self.geometry, self.block, self.plan
        s = g.sliding
        emit_staging(text, block)
        down, along = block.counts
        with text.step():
            x, w, y = (text.place(number) for number in range(3))
            panel, sums = text.array(self.panel_size + self.slack), text.array(max(plan.chunks) * self.sums_row)
            text.clear(text.at(panel, self.panel_size), self.slack)
            with text.loop("%low", "%high", empty=True) as task:
                image, group, depth, tall, wide = text.split(task.counter, g.groups, s.counts[0], down, along)
                row, column = text.linear((tall, block.rows)), text.linear((wide, block.columns))
                rows = text.smaller(text.linear(s.counts[1], (row, -1)), block.rows)
                columns = text.smaller(text.linear(s.counts[2], (column, -1)), block.columns)
                span = text.linear((rows, block.width), -block.width, columns)
                stop = text.let(f"sdiv i64 {text.linear(span, self.tile_span - 1)}, {self.tile_span}")
                source = text.at(x, (text.linear((image, g.groups * g.inputs), (group, g.inputs)), s.lengths[0] * g.plane))
                first = text.linear((image, g.groups * g.outputs), (group, g.outputs))
                target = text.at(y, (first, g.places), (depth, s.counts[1] * s.counts[2]), (row, s.counts[2]), column)
                if len(plan.parts) == 1:
                    self.stage(source, panel, "0", g.inputs, depth, row, column)
                for _, start, chunk, times in runs(plan.chunks):
                    with text.loop(0, times) as many:
                        outputs = text.linear((many.counter, chunk), start)
                        weights = text.at(w, (text.linear(outputs, (group, g.outputs)), g.channels * g.taps))
                        self.chunk(source, panel, weights, sums, chunk, stop, depth, row, column)
                        text.do(f"call void @{self.flush()}(ptr {sums}, ptr {text.at(target, (outputs, g.places))}, i64 {chunk}, "
                                f"i64 {rows}, i64 {columns})")

    def stage(self, source: str, panel: str, first: str, channels: int, depth: str, row: str, column: str) -> None:
        s = self.geometry.sliding
        corner = self.text.at(source, (first, s.lengths[0] * self.geometry.plane))
        self.text.do(f"call void @{STAGE}(ptr {corner}, ptr {panel}, i64 {channels}, i64 {depth}, i64 {row}, i64 {column})")

    def chunk(self, source: str, panel: str, weights: str, sums: str, chunk: int, stop: str, depth: str, row: str, column: str) -> None:
        """The sums of some kernels over all parts of the channels."""
        text, g, plan = self.text, self.geometry, self.plan
        for index, start, part, times in runs(plan.parts):
            with text.loop(0, times) as many:
                channel = text.linear((many.counter, part), start)
                if len(plan.parts) > 1:
                    self.stage(source, panel, channel, part, depth, row, column)
                more = "0" if len(plan.parts) == 1 else text.let(f"icmp ne i64 {text.linear(many.counter, index)}, 0")
                with text.loop(0, stop) as tile:
                    at = text.linear((tile.counter, self.tile_span))
                    for _, output, rows, count in runs(plan.tiles[chunk]):
                        with text.loop(0, count) as tall:
                            outputs = text.linear((tall.counter, rows), output)
                            corner = text.at(weights, (outputs, g.channels * g.taps), (channel, g.taps))
                            text.do(f"call void @{self.tile(rows)}(ptr {text.at(panel, at)}, ptr {corner}, "
                                    f"ptr {text.at(sums, (outputs, self.sums_row), at)}, i64 {part}, i1 {more})")

    def tile(self, rows: int) -> str:
        """The name of the function of a tile: sums of `rows` kernels over the channels of a panel."""
        name, text, plan = f"step.tile_{rows}", self.text, self.plan
        if name in text.functions:
            return name
        text.functions[name] = ""
        cells = [(i, j) for i in range(rows) for j in range(plan.vectors)]
        row = self.geometry.channels * self.geometry.taps
        offsets = self.block.offsets
        chains = 2 if len(cells) < 8 and len(offsets) > 1 else 1
        with text.function(name, "ptr noalias %panel, ptr noalias %weights, ptr noalias %sums, i64 %channels, i1 %more"):
            start = [("ptr", "%panel"), ("ptr", "%weights"), *[(text.vector, "zeroinitializer")] * (len(cells) * chains)]
            with text.loop(0, "%channels", 1, start) as loop:
                panel, weights, *now = loop.values
                if len(offsets) <= UNROLLED_TAPS:
                    for tap, offset in enumerate(offsets):
                        own = slice(tap % chains * len(cells), (tap % chains + 1) * len(cells))
                        now[own] = self.products(cells, now[own], text.at(panel, offset), text.at(weights, tap), row)
                else:
                    with text.loop(0, len(offsets), 1, [(text.vector, value) for value in now]) as taps:
                        place = text.let(f"getelementptr i64, ptr @step.offsets, i64 {taps.counter}")
                        distance = text.let(f"load i64, ptr {place}, align 8")
                        sums = list(taps.values)
                        sums[:len(cells)] = self.products(cells, sums[:len(cells)], text.at(panel, distance),
                                                          text.at(weights, taps.counter), row)
                        taps.following = sums
                    now = list(taps.following)
                loop.following = [text.at(panel, self.block.channel), text.at(weights, len(offsets)), *now]
            sums = list(loop.following[2:])
            if chains > 1:
                sums = [text.add(a, b) for a, b in zip(sums[:len(cells)], sums[len(cells):], strict=True)]
            self.finish(cells, sums)
        if len(offsets) > UNROLLED_TAPS:
            numbers = ", ".join(f"i64 {offset}" for offset in offsets)
            text.functions["step.offsets"] = f"@step.offsets = internal constant [{len(offsets)} x i64] [{numbers}], align 64"
        return name

    def products(self, cells: list[tuple[int, int]], sums: list[str], panel: str, weights: str, row: int) -> list[str]:
        text = self.text
        vectors = [text.load(text.at(panel, j * text.lanes)) for j in range(self.plan.vectors)]
        factors = [text.splat(text.at(weights, i * row)) for i in range(cells[-1][0] + 1)]
        return [text.multiply_add(factors[i], vectors[j], value) for (i, j), value in zip(cells, sums, strict=True)]

    def finish(self, cells: list[tuple[int, int]], sums: list[str]) -> None:
        """Store the sums, added to those of the parts before."""
        text = self.text
        places = [text.at("%sums", i * self.sums_row + j * text.lanes) for i, j in cells]
        if len(self.plan.parts) == 1:
            for value, place in zip(sums, places, strict=True):
                text.store(value, place, aligned=True)
            return
        text.do("br i1 %more, label %add, label %new")
        text.label("new")
        for value, place in zip(sums, places, strict=True):
            text.store(value, place, aligned=True)
        text.do("ret void")
        text.label("add")
        for value, place in zip(sums, places, strict=True):
            text.store(text.add(text.load(place, aligned=True), value), place, aligned=True)

    def flush(self) -> str:
        """The name of the function that writes sums to the result, without what lies between rows."""
        name, text, g = "step.flush", self.text, self.geometry
        if name in text.functions:
            return name
        text.functions[name] = ""
        with text.function(name, "ptr noalias %sums, ptr noalias %out, i64 %outputs, i64 %rows, i64 %columns"), \
                text.loop(0, "%outputs") as output, text.loop(0, "%rows") as row:
            source = text.at("%sums", (output.counter, self.sums_row), (row.counter, self.block.width))
            target = text.at("%out", (output.counter, g.places), (row.counter, g.sliding.counts[2]))
            with text.loop(0, "%columns", text.lanes) as column:
                left = text.linear("%columns", (column.counter, -1))
                mask = text.mask_below(left)
                value = text.masked_load(text.at(source, column.counter), mask)
                text.masked_store(value, text.at(target, column.counter), mask)
        return name
