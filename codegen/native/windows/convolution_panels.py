"""Panels: what a block of windows reads, laid out so that each element of a window is at a known distance, whatever the strides.

A convolution with strides (s, t) reads each of its s x t phases with stride 1, so a panel holds, for every channel, one plane for each
phase that a kernel reads: rows of the padded image s apart, of elements t apart. Padding and interior zeros are written out. A window of
row r and column c then begins r * width + c elements behind the start of a plane: windows, counted row by row with the columns that a
row has too many, lie next to each other, and whole vectors of them are read anywhere.

One and two axes count as three, of which the first ones have one element: a panel has the planes of all kernel elements along the first
axis, as channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod

from adjit.codegen.gemm.kernels import Kernel
from adjit.codegen.gemm.vectors import Term, VectorText
from adjit.codegen.native.step_code import SIGNATURE, StepCode
from adjit.codegen.target import Target
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Attributes
from adjit.ir.ops.convolution import convolution_sliding
from adjit.ir.ops.sliding import Sliding
from adjit.ir.types import Shape, TensorType, short_name

NEAR = 4
"""Strides up to which whole vectors are loaded and taken apart."""

LANES = 16
"""The most that a vector has."""

LEAST_COLUMNS = 64
"""Windows of a row below which it is not cut."""

PANEL_BYTES = 192 << 10
"""The most that a panel takes, where one row of windows does not need more."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution over three axes; `inputs` and `outputs` are the channels of one group.

    `taps` are the elements of a kernel in one plane, `results` the sizes of the result: more than there are windows where `spread_phases`
    makes several results of one.
    """

    dtype: str
    images: int
    groups: int
    inputs: int
    outputs: int
    sliding: Sliding
    taps: int
    results: tuple[int, int, int]

    @property
    def channels(self) -> int:
        """Planes that an element of the result is made of."""
        return self.inputs * self.sliding.sizes[0]

    @property
    def plane(self) -> int:
        return prod(self.sliding.lengths[1:])

    @property
    def places(self) -> int:
        """Elements of one channel of the result."""
        return prod(self.results)

    @property
    def products(self) -> int:
        return self.images * self.groups * self.outputs * self.channels * self.taps * self.places


def geometry_of(x: TensorType, outputs: int, sizes: Shape, attrs: Attributes) -> Geometry:
    """Of a convolution of `x` with as many kernels of these sizes."""
    plain, missing = convolution_sliding(x, sizes, attrs), 3 - len(sizes)
    ones, zeros = (1,) * missing, (0,) * missing
    sliding = Sliding(ones + plain.lengths, ones + plain.sizes, ones + plain.stride, zeros + plain.low, zeros + plain.high,
                      zeros + plain.interior, ones + plain.dilation)
    groups = attrs["groups"]
    results = sliding.counts
    return Geometry(short_name(x.dtype), x.shape[0], groups, x.shape[1] // groups, outputs // groups, sliding, prod(sliding.sizes[1:]),
                    (results[0], results[1], results[2]))


@dataclass(frozen=True, slots=True)
class Phase:
    """Every so many rows and columns of a result, from `row` and `column` on: made by the `taps` of a kernel, each a number and where the
    first window has its element, by row and column."""

    row: int
    column: int
    taps: tuple[tuple[int, int, int], ...]


def spread_phases(geometry: Geometry) -> tuple[Geometry, tuple[int, int], list[Phase]]:
    """A convolution over elements with zeros between, as one without for each phase of the result: those of its kernel's elements that meet
    no zeros. The windows of all of them, how many rows and columns apart the results of a phase are, and the phases."""
    s = geometry.sliding
    sizes, apart = s.sizes, (s.interior[1] + 1, s.interior[2] + 1)
    found = [[[(k, (r + k * s.dilation[axis] - s.low[axis]) // apart[axis - 1]) for k in range(sizes[axis])
               if (r + k * s.dilation[axis] - s.low[axis]) % apart[axis - 1] == 0] for r in range(apart[axis - 1])] for axis in (1, 2)]
    first = [min(place for phase in phases for _, place in phase) for phases in found]
    last = [max(place for phase in phases for _, place in phase) for phases in found]
    counts = [-(-geometry.results[axis] // apart[axis - 1]) for axis in (1, 2)]
    reach = [end - start + 1 for start, end in zip(first, last, strict=True)]
    high = [count + size - 1 - length + start for count, size, length, start in zip(counts, reach, s.lengths[1:], first, strict=True)]
    sliding = Sliding(s.lengths, (sizes[0], *reach), (s.stride[0], 1, 1), (s.low[0], -first[0], -first[1]), (s.high[0], *high),
                      (s.interior[0], 0, 0), (s.dilation[0], 1, 1))
    phases = [Phase(row, column, tuple((i * sizes[2] + j, down - first[0], along - first[1])
                                       for i, down in found[0][row] for j, along in found[1][column]))
              for row in range(apart[0]) for column in range(apart[1])]
    return replace(geometry, sliding=sliding), apart, phases


@dataclass(frozen=True, slots=True)
class Block:
    """A block of `rows` x `columns` windows, and the panel that it reads."""

    geometry: Geometry
    rows: int
    columns: int

    @property
    def counts(self) -> tuple[int, int]:
        """Blocks along both axes."""
        _, height, width = self.geometry.sliding.counts
        return -(-height // self.rows), -(-width // self.columns)

    @property
    def phases(self) -> list[tuple[int, int]]:
        """The phases of rows and columns that kernels read."""
        s = self.geometry.sliding
        rows, columns = (sorted({k * s.dilation[axis] % s.stride[axis] for k in range(s.sizes[axis])}) for axis in (1, 2))
        return [(row, column) for row in rows for column in columns]

    @property
    def height(self) -> int:
        return self.rows + self._shift(1, self.geometry.sliding.sizes[1] - 1)

    @property
    def width(self) -> int:
        return self.columns + self._shift(2, self.geometry.sliding.sizes[2] - 1)

    @property
    def plane(self) -> int:
        """Elements from one phase to the next: the last row is written in whole vectors."""
        return self.height * self.width + (LANES if len(self.phases) > 1 else 0)

    @property
    def channel(self) -> int:
        """Elements of one channel of the panel."""
        return len(self.phases) * self.plane

    @property
    def span(self) -> int:
        """Windows of a whole block, with those between its rows that do not count."""
        return (self.rows - 1) * self.width + self.columns

    @property
    def offsets(self) -> list[int]:
        """Where the elements of a kernel's plane lie for the first window."""
        s, plane, width = self.geometry.sliding, self.plane, self.width
        number = {phase: index for index, phase in enumerate(self.phases)}
        return [number[i * s.dilation[1] % s.stride[1], j * s.dilation[2] % s.stride[2]] * plane
                + self._shift(1, i) * width + self._shift(2, j) for i in range(s.sizes[1]) for j in range(s.sizes[2])]

    def _shift(self, axis: int, element: int) -> int:
        return element * self.geometry.sliding.dilation[axis] // self.geometry.sliding.stride[axis]


def choose_block(geometry: Geometry, channels: int, windows: int, tasks: int) -> Block:
    """The largest block of which `channels` make a panel that is not too large, with `windows` of them at most and at least `tasks` in all.

    Whole rows where one fits, else a part of one.
    """
    element_bytes = 4 if geometry.dtype == "f32" else 8
    depth, height, width = geometry.sliding.counts
    wanted = -(-tasks // (geometry.images * geometry.groups * depth))

    def fits(block: Block) -> bool:
        return channels * block.channel * element_bytes <= PANEL_BYTES and block.span <= windows

    columns = width
    while columns > LEAST_COLUMNS and not fits(Block(geometry, 1, columns)):
        columns = -(-columns // 2)
    rows = -(-height // min(wanted, height))
    while rows > 1 and not fits(Block(geometry, rows, columns)):
        rows -= 1
    return Block(geometry, -(-height // -(-height // rows)), columns)


class PanelText(VectorText):
    """The text of a step over panels; `shared` has functions that others have too."""

    def __init__(self, target: Target, dtype: str) -> None:
        super().__init__(target, dtype)
        self.shared: dict[str, str] = {}

    @contextmanager
    def step(self, attributes: str = "nounwind") -> Iterator[None]:
        """What is written inside is the body of `@step`."""
        outer, self._lines = self._lines, []
        yield
        head = f"define internal i64 @step({SIGNATURE}) {attributes} {{"
        self.functions["step"] = "\n".join([head, "entry:", *self._lines, "  ret i64 0", "}"])
        self._lines = outer

    def code(self, tasks: int, work: float) -> StepCode:
        """The finished step."""
        return StepCode("\n".join(self.functions.values()) + "\n", tasks, work, frozenset(self._declarations), self.shared)

    def share(self, kernel: Kernel) -> str:
        """The name of a function that convolutions share, which this step calls."""
        self.shared[kernel.name] = kernel.text
        self._declarations |= kernel.declarations
        return kernel.name

    def place(self, number: int) -> str:
        """The pointer to operand, result or scratch number `number`."""
        return self.let(f"load ptr, ptr {self.let(f'getelementptr ptr, ptr %places, i64 {number}')}, align 8")

    def array(self, elements: int) -> str:
        """Memory on the stack."""
        return self.let(f"alloca [{elements} x {self.scalar}], align 64")

    def clear(self, pointer: str, elements: int) -> None:
        self.call("void", "llvm.memset.p0.i64", ("ptr", pointer), ("i8", "0"), ("i64", str(elements * self.bytes)), ("i1", "false"))

    def linear(self, *terms: Term) -> str:
        """A sum of numbers, values, and values times numbers."""
        total = "0"
        for term in terms:
            value, factor = term if isinstance(term, tuple) else (term, 1)
            if isinstance(value, int):
                value, factor = str(value * factor), 1
            if value == "0" or factor == 0:
                continue
            product = value if factor == 1 else self.let(f"mul nsw i64 {value}, {factor}")
            total = product if total == "0" else self.let(f"add nsw i64 {total}, {product}")
        return total

    def split(self, number: str, *sizes: int) -> list[str]:
        """The digits of a number, the last ones first in `sizes` from behind; the first digit is what is left."""
        digits: list[str] = []
        for size in reversed(sizes):
            digits.append("0" if size == 1 else self.let(f"urem i64 {number}, {size}"))
            number = number if size == 1 else self.let(f"udiv i64 {number}, {size}")
        return [number, *reversed(digits)]

    def mask_below(self, count: str) -> str:
        """Lanes whose number is below `count`."""
        return self.let(f"icmp slt <{self.lanes} x i32> {self._lane_numbers()}, {self.spread_number(count)}")

    def masked_load(self, pointer: str, mask: str, filler: str = "zeroinitializer") -> str:
        """The elements of the lanes in the mask, those of `filler` in the others."""
        return self.call(self.vector, f"llvm.masked.load.{self._suffix(self.lanes)}.p0", ("ptr", pointer), ("i32", str(self.bytes)),
                         (f"<{self.lanes} x i1>", mask), (self.vector, filler))

    def masked_store(self, value: str, pointer: str, mask: str) -> None:
        """Write the lanes in the mask; before AVX-512 without it where that is all of them, for the reason of `store_first`."""
        kind = f"<{self.lanes} x i1>"
        arguments = (self.vector, value), ("ptr", pointer), ("i32", str(self.bytes)), (kind, mask)
        if self.target.avx512:
            self.call("void", f"llvm.masked.store.{self._suffix(self.lanes)}.p0", *arguments)
            return
        bits = self.let(f"bitcast {kind} {mask} to i{self.lanes}")
        with self.when(self.let(f"icmp eq i{self.lanes} {bits}, -1")):
            self.store(value, pointer)
        with self.when(self.let(f"icmp ne i{self.lanes} {bits}, -1")):
            self.call("void", f"llvm.masked.store.{self._suffix(self.lanes)}.p0", *arguments)

    def inside(self, start: str, limit: str, stride: int = 1) -> str:
        """Lanes whose positions `start`, `start + stride`, ... are at least 0 and below `limit`."""
        kind = f"<{self.lanes} x i32>"
        return self.let(f"icmp ult {kind} {self._positions(start, stride)}, {self.spread_number(limit)}")     # negative ones are very large

    def _positions(self, start: str, stride: int) -> str:
        return self.let(f"add <{self.lanes} x i32> {self.spread_number(start)}, {self._lane_numbers(stride)}")

    def row_elements(self, row: str, start: str, limit: str, stride: int, spread: int, filler: str = "zeroinitializer") -> str:
        """A vector of a padded row: of its elements `start`, `start + stride`, ..., those below `limit`, of which every `spread`th is one
        of the row in memory, from 0 on; `filler` for the others."""
        kind, bools = f"<{self.lanes} x i32>", f"<{self.lanes} x i1>"
        mask = self.inside(start, limit, stride)
        if spread == stride == 1:
            return self.masked_load(self.at(row, start), mask, filler)
        position = self._positions(start, stride)
        if spread > 1:
            steps = self._constants([spread] * self.lanes)
            whole = self.let(f"icmp eq {kind} {self.let(f'urem {kind} {position}, {steps}')}, zeroinitializer")
            mask = self.let(f"and {bools} {mask}, {whole}")
            position = self.let(f"udiv {kind} {position}, {steps}")
        wide = self.let(f"sext {kind} {position} to <{self.lanes} x i64>")
        places = self._addresses(row, wide)
        return self.call(self.vector, f"llvm.masked.gather.{self._suffix(self.lanes)}.v{self.lanes}p0", (f"<{self.lanes} x ptr>", places),
                         ("i32", str(self.bytes)), (bools, mask), (self.vector, filler))

    def scatter(self, value: str, pointer: str, stride: int, mask: str) -> None:
        """Store the lanes in the mask `stride` elements apart."""
        numbers = f"<{', '.join(f'i64 {lane * stride}' for lane in range(self.lanes))}>"
        self.call("void", f"llvm.masked.scatter.{self._suffix(self.lanes)}.v{self.lanes}p0", (self.vector, value),
                  (f"<{self.lanes} x ptr>", self._addresses(pointer, numbers)), ("i32", str(self.bytes)), (f"<{self.lanes} x i1>", mask))

    def _addresses(self, pointer: str, numbers: str) -> str:
        return self.let(f"getelementptr {self.scalar}, ptr {pointer}, <{self.lanes} x i64> {numbers}")

    def picked(self, vectors: Sequence[str], first: int) -> str:
        """Every `len(vectors)`th lane of vectors that follow each other, from `first` on."""
        result = vectors[0]
        places = [divmod(first + lane * len(vectors), self.lanes) for lane in range(self.lanes)]
        for index, vector in enumerate(vectors):
            if index == 0:
                order = [lane if number == 0 else at for at, (number, lane) in enumerate(places)]
                if order != list(range(self.lanes)):
                    result = self.shuffle(vector, "poison", order)
            elif any(number == index for number, _ in places):
                result = self.shuffle(result, vector, [self.lanes + lane if number == index else at
                                                       for at, (number, lane) in enumerate(places)])
        return result

    def interleaved(self, parts: Sequence[str], number: int) -> str:
        """Vector `number` of the lanes of all parts in turns."""
        places = [divmod(number * self.lanes + at, len(parts)) for at in range(self.lanes)]
        result = "zeroinitializer"
        for index, part in enumerate(parts):
            if part != "zeroinitializer":
                result = self.shuffle(result, part, [self.lanes + lane if own == index else at for at, (lane, own) in enumerate(places)])
        return result

    def _lane_numbers(self, stride: int = 1) -> str:
        return self._constants([lane * stride for lane in range(self.lanes)])

    def _constants(self, numbers: Sequence[int]) -> str:
        return f"<{', '.join(f'i32 {number}' for number in numbers)}>"

    def spread_number(self, number: str) -> str:
        kind = f"<{self.lanes} x i32>"
        narrow = number if number.lstrip("-").isdigit() else self.let(f"trunc i64 {number} to i32")
        return self.shuffled(kind, self.let(f"insertelement {kind} poison, i32 {narrow}, i32 0"))

    def shuffled(self, kind: str, value: str) -> str:
        """The first lane in all lanes."""
        return self.let(f"shufflevector {kind} {value}, {kind} poison, <{self.lanes} x i32> zeroinitializer")


def zeros(text: PanelText, place: int, elements: int) -> StepCode:
    """The step that fills a result with zeros."""
    with text.step():
        text.clear(text.place(place), elements)
    return text.code(1, elements * text.bytes / 8)


STAGE = "step.stage"


def emit_staging(text: PanelText, block: Block) -> None:
    """Writes the function that fills a panel: with `channels` channels of an image, from `image` on, for the windows of plane `depth` from
    `row` and `column` on."""
    s = block.geometry.sliding
    spread = tuple(gap + 1 for gap in s.interior)
    row_vectors = -(-block.width // text.lanes)
    with text.function(STAGE, "ptr noalias %image, ptr noalias %panel, i64 %channels, i64 %depth, i64 %row, i64 %column"), \
            text.loop(0, "%channels") as channel, text.loop(0, s.sizes[0]) as inner:
        deep = text.linear(("%depth", s.stride[0]), (inner.counter, s.dilation[0]), -s.low[0])
        plane_counts, plane = _element(text, deep, s.lengths[0], spread[0])
        source = text.at("%image", text.linear((channel.counter, s.lengths[0] * block.geometry.plane), (plane, block.geometry.plane)))
        target = text.at("%panel", text.linear((channel.counter, s.sizes[0] * block.channel), (inner.counter, block.channel)))
        rows, columns = (sorted({phase[axis] for phase in block.phases}) for axis in (0, 1))
        for number, down in enumerate(rows):
            with text.loop(0, block.height) as line:
                high = text.linear(("%row", s.stride[1]), (line.counter, s.stride[1]), down - s.low[1])
                row_counts, row = _element(text, high, s.lengths[1], spread[1])
                counts = text.let(f"and i1 {plane_counts}, {row_counts}")
                limit = text.let(f"select i1 {counts}, i64 {max((s.lengths[2] - 1) * spread[2] + 1, 0)}, i64 0")
                line_source = text.at(source, (row, s.lengths[2]))
                line_target = text.at(target, number * len(columns) * block.plane, (line.counter, block.width))
                with text.loop(0, row_vectors * text.lanes, text.lanes) as vector:
                    start = text.linear(("%column", s.stride[2]), (vector.counter, s.stride[2]), -s.low[2])
                    values = _phases(text, line_source, start, limit, s.stride[2], spread[2], columns)
                    for phase, value in enumerate(values):
                        text.store(value, text.at(line_target, phase * block.plane, vector.counter))


def _phases(text: PanelText, row: str, start: str, limit: str, stride: int, spread: int, phases: Sequence[int]) -> list[str]:
    """A vector of each phase of a padded row."""
    if spread > 1 or stride > NEAR:
        return [text.row_elements(row, text.linear(start, phase), limit, stride, spread) for phase in phases]
    vectors = [text.row_elements(row, text.linear(start, number * text.lanes), limit, 1, 1) for number in range(stride)]
    return [text.picked(vectors, phase) for phase in phases]


def _element(text: PanelText, position: str, length: int, spread: int) -> tuple[str, str]:
    """Whether there is an element at a position of a padded axis, and its number."""
    if spread == 1:
        return text.let(f"icmp ult i64 {position}, {length}"), position
    number, rest = text.let(f"sdiv i64 {position}, {spread}"), text.let(f"srem i64 {position}, {spread}")
    inside, whole = text.let(f"icmp ult i64 {number}, {length}"), text.let(f"icmp eq i64 {rest}, 0")
    return text.let(f"and i1 {inside}, {whole}"), number
