"""Staged input tiles: the elements that a block of windows reads, laid out so that each window element has a known offset, for any stride.

A convolution with strides (s, t) reads each of its s x t phases with stride 1. So an input tile holds, for every channel, one plane for
each phase that a kernel reads: rows of the padded image s apart, with elements t apart. Padding and interior zeros are written out. A
window of row r and column c then begins r * width + c elements behind the start of a plane. So windows, counted row by row, are adjacent (a
row has some columns too many), and whole vectors of windows are read at any offset.

One and two axes are extended to three by leading axes of size one: a tile has the planes of all kernel elements along the first axis, as
channels.
axis, as channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from adjit.codegen.native.conv.window_builder import MAX_SHUFFLED_STRIDE, WindowBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Attributes
from adjit.ir.ops.convolution import convolution_windows
from adjit.ir.ops.window_geometry import WindowGeometry
from adjit.ir.types import Shape, TensorType, short_name

MAX_LANES = 16
"""Maximum number of lanes of a vector, over all targets."""

MIN_BLOCK_COLUMNS = 64
"""Windows of a row below which the row is not cut."""

MAX_INPUT_TILE_BYTES = 192 << 10
"""Maximum bytes of an input tile, unless one row of windows needs more."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Geometry of a convolution over three axes; `inputs` and `outputs` are the channels of one group.

    `taps` is the number of elements of a kernel in one plane. `results` are the sizes of the result: larger than the number of windows if
    `spread_phases` computes several results from one window.
    """

    dtype: str
    images: int
    groups: int
    inputs: int
    outputs: int
    window: WindowGeometry
    taps: int
    results: tuple[int, int, int]

    @property
    def channels(self) -> int:
        """Number of planes that an element of the result is summed over."""
        return self.inputs * self.window.sizes[0]

    @property
    def plane(self) -> int:
        return prod(self.window.lengths[1:])

    @property
    def positions(self) -> int:
        """Elements of one channel of the result."""
        return prod(self.results)

    @property
    def products(self) -> int:
        return self.images * self.groups * self.outputs * self.channels * self.taps * self.positions


def geometry_of(x: TensorType, outputs: int, sizes: Shape, attrs: Attributes) -> Geometry:
    """The geometry of a convolution of `x` with `outputs` kernels of these sizes."""
    plain, missing = convolution_windows(x, sizes, attrs), 3 - len(sizes)
    ones, zeros = (1,) * missing, (0,) * missing
    window = WindowGeometry(ones + plain.lengths, ones + plain.sizes, ones + plain.stride, zeros + plain.low, zeros + plain.high,
                      zeros + plain.interior, ones + plain.dilation)
    groups = attrs["groups"]
    results = window.counts
    return Geometry(short_name(x.dtype), x.shape[0], groups, x.shape[1] // groups, outputs // groups, window, prod(window.sizes[1:]),
                    (results[0], results[1], results[2]))


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of the result: every n-th row and column, from `row` and `column` on. `taps` are the kernel elements that contribute to the
    phase, each with its index and with the row and column of its element for the first window."""

    row: int
    column: int
    taps: tuple[tuple[int, int, int], ...]


def spread_phases(geometry: Geometry) -> tuple[Geometry, tuple[int, int], list[Phase]]:
    """The phases of a convolution over an input with interior zeros. Each phase of the result is a convolution without zeros, with the
    kernel elements that meet no zeros. Returns the geometry of the windows of all phases, the distance in rows and columns between results
    of one phase, and the phases."""
    s = geometry.window
    sizes, apart = s.sizes, (s.interior[1] + 1, s.interior[2] + 1)
    found = [[[(k, (r + k * s.dilation[axis] - s.low[axis]) // apart[axis - 1]) for k in range(sizes[axis])
               if (r + k * s.dilation[axis] - s.low[axis]) % apart[axis - 1] == 0] for r in range(apart[axis - 1])] for axis in (1, 2)]
    first = [min(place for phase in phases for _, place in phase) for phases in found]
    last = [max(place for phase in phases for _, place in phase) for phases in found]
    counts = [-(-geometry.results[axis] // apart[axis - 1]) for axis in (1, 2)]
    reach = [end - start + 1 for start, end in zip(first, last, strict=True)]
    high = [count + size - 1 - length + start for count, size, length, start in zip(counts, reach, s.lengths[1:], first, strict=True)]
    window = WindowGeometry(s.lengths, (sizes[0], *reach), (s.stride[0], 1, 1), (s.low[0], -first[0], -first[1]), (s.high[0], *high),
                      (s.interior[0], 0, 0), (s.dilation[0], 1, 1))
    phases = [Phase(row, column, tuple((i * sizes[2] + j, down - first[0], along - first[1])
                                       for i, down in found[0][row] for j, along in found[1][column]))
              for row in range(apart[0]) for column in range(apart[1])]
    return replace(geometry, window=window), apart, phases


@dataclass(frozen=True, slots=True)
class Block:
    """A block of `rows` x `columns` windows, and the input tile that it reads."""

    geometry: Geometry
    rows: int
    columns: int

    @property
    def counts(self) -> tuple[int, int]:
        """Number of blocks along both axes."""
        _, height, width = self.geometry.window.counts
        return -(-height // self.rows), -(-width // self.columns)

    @property
    def phases(self) -> list[tuple[int, int]]:
        """The phases of rows and columns that kernels read."""
        s = self.geometry.window
        rows, columns = (sorted({k * s.dilation[axis] % s.stride[axis] for k in range(s.sizes[axis])}) for axis in (1, 2))
        return [(row, column) for row in rows for column in columns]

    @property
    def height(self) -> int:
        return self.rows + self._shift(1, self.geometry.window.sizes[1] - 1)

    @property
    def width(self) -> int:
        return self.columns + self._shift(2, self.geometry.window.sizes[2] - 1)

    @property
    def plane(self) -> int:
        """Elements of the plane of one phase. The last row is written in whole vectors, which needs a margin."""
        return self.height * self.width + (MAX_LANES if len(self.phases) > 1 else 0)

    @property
    def channel(self) -> int:
        """Elements of one channel of the input tile."""
        return len(self.phases) * self.plane

    @property
    def span(self) -> int:
        """Windows of a whole block, including the unused ones between its rows."""
        return (self.rows - 1) * self.width + self.columns

    @property
    def offsets(self) -> list[int]:
        """Offsets of the elements of a kernel's plane for the first window."""
        s, plane, width = self.geometry.window, self.plane, self.width
        number = {phase: index for index, phase in enumerate(self.phases)}
        return [number[i * s.dilation[1] % s.stride[1], j * s.dilation[2] % s.stride[2]] * plane
                + self._shift(1, i) * width + self._shift(2, j) for i in range(s.sizes[1]) for j in range(s.sizes[2])]

    def _shift(self, axis: int, element: int) -> int:
        return element * self.geometry.window.dilation[axis] // self.geometry.window.stride[axis]


def choose_block(geometry: Geometry, channels: int, windows: int, tasks: int) -> Block:
    """The largest block whose input tile for `channels` channels fits, with at most `windows` windows, so that there are at least `tasks`
    tasks.

    The block has whole rows if one fits, else a range of columns.
    """
    element_bytes = 4 if geometry.dtype == "f32" else 8
    depth, height, width = geometry.window.counts
    wanted = -(-tasks // (geometry.images * geometry.groups * depth))

    def fits(block: Block) -> bool:
        return channels * block.channel * element_bytes <= MAX_INPUT_TILE_BYTES and block.span <= windows

    columns = width
    while columns > MIN_BLOCK_COLUMNS and not fits(Block(geometry, 1, columns)):
        columns = -(-columns // 2)
    rows = -(-height // min(wanted, height))
    while rows > 1 and not fits(Block(geometry, rows, columns)):
        rows -= 1
    return Block(geometry, -(-height // -(-height // rows)), columns)


STAGE = "step.stage"


def emit_staging(text: WindowBuilder, block: Block) -> None:
    """The function that stages an input tile: `channels` channels of an image, from `image` on, for the windows of plane `depth`, from
    `row` and `column` on."""
    s = block.geometry.window
    spread = tuple(gap + 1 for gap in s.interior)
    row_vectors = -(-block.width // text.lanes)
    with text.function(STAGE, "ptr noalias %image, ptr noalias %panel, i64 %channels, i64 %depth, i64 %row, i64 %column"), \
            text.for_range(0, "%channels") as channel, text.for_range(0, s.sizes[0]) as inner:
        deep = text.linear(("%depth", s.stride[0]), (inner.counter, s.dilation[0]), -s.low[0])
        plane_counts, plane = _element(text, deep, s.lengths[0], spread[0])
        source = text.at("%image", text.scalar, text.linear((channel.counter, s.lengths[0] * block.geometry.plane),
                                                            (plane, block.geometry.plane)))
        target = text.at("%panel", text.scalar, text.linear((channel.counter, s.sizes[0] * block.channel), (inner.counter, block.channel)))
        rows, columns = (sorted({phase[axis] for phase in block.phases}) for axis in (0, 1))
        for number, down in enumerate(rows):
            with text.for_range(0, block.height) as line:
                high = text.linear(("%row", s.stride[1]), (line.counter, s.stride[1]), down - s.low[1])
                row_counts, row = _element(text, high, s.lengths[1], spread[1])
                counts = text.both(plane_counts, row_counts)
                limit = text.select(counts, "i64", max((s.lengths[2] - 1) * spread[2] + 1, 0), 0)
                line_source = text.at(source, text.scalar, (row, s.lengths[2]))
                line_target = text.at(target, text.scalar, number * len(columns) * block.plane, (line.counter, block.width))
                with text.for_range(0, row_vectors * text.lanes, text.lanes) as vector:
                    start = text.linear(("%column", s.stride[2]), (vector.counter, s.stride[2]), -s.low[2])
                    values = _phases(text, line_source, start, limit, s.stride[2], spread[2], columns)
                    for phase, value in enumerate(values):
                        text.store_vector(value, text.at(line_target, text.scalar, phase * block.plane, vector.counter))


def _phases(text: WindowBuilder, row: str, start: str, limit: str, stride: int, spread: int, phases: Sequence[int]) -> list[str]:
    """A vector of each phase of a padded row."""
    if spread > 1 or stride > MAX_SHUFFLED_STRIDE:
        return [text.row_elements(row, text.linear(start, phase), limit, stride, spread) for phase in phases]
    vectors = [text.row_elements(row, text.linear(start, number * text.lanes), limit, 1, 1) for number in range(stride)]
    return [text.picked(vectors, phase) for phase in phases]


def _element(text: WindowBuilder, position: str, length: int, spread: int) -> tuple[str, str]:
    """True if a position of a padded axis holds an element of the image; and the index of the element."""
    if spread == 1:
        return text.compare("ult", position, length), position
    number, rest = text.let(f"sdiv i64 {position}, {spread}"), text.let(f"srem i64 {position}, {spread}")
    inside, whole = text.compare("ult", number, length), text.compare("eq", rest, 0)
    return text.both(inside, whole), number
