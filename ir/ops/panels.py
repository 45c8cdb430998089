"""Op of programs for any number of rows: `panels`, a loop over blocks of rows, whose number is data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, RegionUse, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.ops.sampling import no_samples
from adjit.ir.types import I64, TensorType

PANEL_SIZES = (64, 8, 1)
"""Rows of panels."""

SIZES_OF_LARGE_LAYERS = (64, 32, 16, 8, 2, 1)
"""Rows of panels of functions with large sums, such as gradients of large layers, or products with large matrices: each panel reads them
all, so that few panels count. They are more code."""

SIZES_OF_NARROW_LAYERS = (256, *SIZES_OF_LARGE_LAYERS)
"""The same where the numbers of a row are few beside them."""

NARROW_SIZES = (512, 128, 32, 8, 1)
"""Rows of panels of functions of few numbers a row: a panel costs 5 to 20 ns besides, and 64 rows of a density take 30. 1,000 rows are 8
panels; of 512, 64, 8 and 1 they would be 13."""

SIZES_OF_SHORT_FUNCTIONS = tuple(1 << power for power in range(9, -1, -1))
"""The same of functions of few operations: 1,000 rows are 6 panels, and 100 are 3 in place of 7."""

SIZES_OF_LOOPS = (64, 32, 8, 1)
"""Rows of panels of functions with loops, of which an iteration costs the same for a few rows as for one: few panels count."""

ROWS_PER_PASS = 4
"""Rows that take as long to compute as it takes to read large layers: 3 of 784 x 256 (float32), 7 of 1,024 x 1,024."""

MOST_ROWS = 1_000_004
"""Most rows of a call that a program for any number serves: what Python does for more was not seen. It is even, as the other numbers that
functions are traced for are not: what becomes of a remainder shows."""

MOST_PARTS = 16
"""Most parts of the rows, each a task with carried values of its own: as many threads as are used."""

PANELS_PER_PART = 2
"""Least panels of a part, of the largest size. A part costs some passes over its carried values: as much as a few rows, of gradients of
layers."""

Body = Callable[..., Sequence[np.ndarray]]


def row_type(type: TensorType, sizes: Sequence[int], number: int) -> TensorType:
    """Type of a panel of `sizes[number]` rows of an array whose type is that of `sizes[0]` rows."""
    return type.with_shape((type.shape[0] // sizes[0] * sizes[number], *type.shape[1:]))


def _infer(*types: TensorType, regions: Sequence[Graph], initial: tuple[Any, ...], slices: int, sizes: tuple[int, ...], parts: int,
           beginnings: int, padded: bool, **attrs: Any) -> tuple[TensorType, ...]:
    carries = len(initial)
    *regions, combine = regions
    if parts < 1:
        raise ShapeError(f"rows in {parts} parts: one is the least")
    if not sizes or sizes[-1] != 1 or list(sizes) != sorted(set(sizes), reverse=True) or len(regions) != len(sizes) + beginnings:
        raise ShapeError(f"panels of {sizes} rows, and {beginnings} that begin, for {len(regions)} regions: sizes fall to 1")
    if not 0 <= beginnings < len(sizes):
        raise ShapeError(f"{beginnings} regions begin, of {len(sizes)} sizes: the largest has none that does")
    if types[slices] != TensorType(I64, ()):
        raise ShapeError(f"the number of rows is {types[slices]}, expected i64[]")
    if any(not type.shape or type.shape[0] % sizes[0] for type in types[:slices]):
        raise ShapeError(f"an array of rows has no {sizes[0]} rows along its first axis")
    rows = [value.type for value in regions[0].results[:len(regions[0].results) - carries]]
    carried = [value.type for value in regions[0].results[len(rows):]]
    for number, region in enumerate((*regions, combine)):
        if region is combine:
            given, made = [*carried, *carried], carried
        else:
            size = number if number < len(sizes) else number - beginnings
            given = [*carried, *(row_type(type, sizes, size) for type in types[:slices]), types[slices], *types[slices:]]
            made = [*(row_type(type, sizes, size) for type in rows), *carried]
        for found, expected, what in ((region.params, given, "takes"), (region.results, made, "gives")):
            if [value.type for value in found] != expected:
                raise ShapeError(f"@{region.name} {what} {', '.join(str(value.type) for value in found)}, "
                                 f"expected {', '.join(map(str, expected))}")
    return (*rows, *carried)


def least_rows(sizes: Sequence[int], padded: bool) -> list[int]:
    """Least rows of a panel of each size: if it may be padded, as many as take longer in smaller panels.

    >>> least_rows((64, 16, 8, 2, 1), True)
    [64, 11, 4, 2, 1]
    """
    if not padded:
        return list(sizes)
    took = [rows * (ROWS_PER_PASS + 1) for rows in range(sizes[0])]
    found = [1]
    for size in reversed(sizes[1:-1]):
        least = next((rows for rows in range(size) if took[rows] >= ROWS_PER_PASS + size), size)
        for rows in range(least, len(took)):
            took[rows] = ROWS_PER_PASS + size + took[max(0, rows - size)]
        found.append(least)
    return [sizes[0], *reversed(found)]


def parts_of(count: int, parts: int, sizes: Sequence[int]) -> int:
    """Number of parts of so many rows, at most `parts`. It follows from the number of rows alone."""
    return max(1, min(parts, count // (PANELS_PER_PART * sizes[0])))


def panels_of(count: int, sizes: Sequence[int], parts: int = 1, padded: bool = False) -> Iterator[list[tuple[int, int]]]:
    """Number of the size, and first row, of each panel of `count` rows, for each of `parts` parts: as many panels of the largest size as
    there are, dealt to the parts, and in the last part as many of the next size as there are, and so on. If they are `padded`, the last
    panel may have fewer rows than its size.

    >>> list(panels_of(21, (8, 4, 1), 2))
    [[(0, 0)], [(0, 8), (1, 16), (2, 20)]]
    >>> list(panels_of(23, (8, 4, 1), padded=True))
    [[(0, 0), (0, 8), (1, 16), (1, 20)]]
    """
    whole, least = count // sizes[0], least_rows(sizes, padded)
    for part in range(parts):
        begin, end = whole * part // parts * sizes[0], whole * (part + 1) // parts * sizes[0]
        found = [(0, row) for row in range(begin, end, sizes[0])]
        for number, size in enumerate(sizes) if part == parts - 1 else ():
            while count - end >= least[number]:
                found.append((number, end))
                end += size
        yield found


def run_panels(bodies: Sequence[Body], combine: Body, arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray],
               initial: Sequence[np.ndarray], slices: int, sizes: Sequence[int], parts: int, per_row: Sequence[int],
               padded: bool) -> list[np.ndarray]:
    """Run a body for each panel; fills `rows` and returns the last carries, those of the parts combined. `per_row` has the length along
    the first axis that a row takes, of each array of rows, then of each of the results `rows`. The last row is repeated in panels that are
    `padded`."""
    count, found = int(arrays[slices]), list[Sequence[np.ndarray]]()
    for panels in panels_of(count, sizes, parts_of(count, parts, sizes), padded):
        carried: Sequence[np.ndarray] = [array.copy() for array in initial]
        for number, begin in panels:
            taken = np.minimum(np.arange(begin, begin + sizes[number]), count - 1)
            end = int(taken[-1]) + 1
            given = [array.reshape(count, length, *array.shape[1:])[taken].reshape(-1, *array.shape[1:])
                     for array, length in zip(arrays[:slices], per_row, strict=False)]
            begins = not begin and number + len(bodies) >= 2 * len(sizes)
            body = bodies[number + len(bodies) - len(sizes)] if begins else bodies[number]
            out = body(*carried, *given, np.asarray(begin, I64), np.asarray(end, I64), *arrays[slices + 1:])
            for row, value, length in zip(rows, out, per_row[slices:], strict=False):
                row[begin * length:end * length] = value[:(end - begin) * length]
            carried = out[len(rows):]
        found.append(carried)
    return list(reduce(lambda one, two: combine(*one, *two), found))


def lengths_per_row(op_types: Sequence[TensorType], sizes: Sequence[int]) -> list[int]:
    """Length along the first axis that a row takes in arrays of these types."""
    return [type.shape[0] // sizes[0] for type in op_types]


def _evaluate(*arrays: np.ndarray, regions: Sequence[Graph], initial: tuple[Any, ...], slices: int, sizes: tuple[int, ...], parts: int,
              padded: bool, **attrs: Any) -> tuple[np.ndarray, ...]:
    carries = len(initial)
    results = [value.type for value in regions[0].results[:len(regions[0].results) - carries]]
    taken = [value.type for value in regions[0].params[carries:carries + slices]]
    begin = [np.full(value.type.shape, number, value.type.dtype) for value, number in zip(regions[0].params, initial, strict=False)]
    per_row, count = lengths_per_row([*taken, *results], sizes), int(arrays[slices])
    rows = [np.empty((count * length, *type.shape[1:]), type.dtype) for type, length in zip(results, per_row[slices:], strict=True)]
    *bodies, combine = [lambda *given, region=region: interpret(region, given) for region in regions]
    return (*rows, *run_panels(bodies, combine, arrays, rows, begin, slices, sizes, parts, per_row, padded))


panels: OpDefinition = define(
    "panels", Kind.REGION, vjp=None, batch=None,
    attributes={"initial": tuple, "slices": int, "sizes": tuple, "parts": int, "beginnings": int, "padded": bool, "scratch_bytes": int},
    regions=2,
    doc="Runs a region for each panel of rows of `slices` arrays: as many panels of `sizes[0]` rows as there are, then of `sizes[1]`, down "
        "to single rows, each size by a region of its own. How many rows there are is data, the operand behind the arrays; types are those "
        "of `sizes[0]` rows. A region takes the carried values, then its rows of each array, the number of its first row, that of the row "
        "behind the last, then the other operands as they are; it returns rows, then the carried values for the next panel. They begin "
        "filled with the numbers `initial`; or, of fewer rows, with what the first panel gives, by one of `beginnings` further regions, "
        "which do not read what is carried: one for each of the smallest sizes. If they are `padded`, the last panel may have fewer rows "
        "than its size, if that is neither the largest nor 1: the region is given copies of the last row, which its sums leave out. Many "
        "rows are divided into up to `parts` parts, which do not wait for each other, and the last region combines the carried values of "
        "a part with those of the parts before. Results: arrays of all rows, then the carried values after the last part.",
    infer=_infer, evaluate=_evaluate, samples=no_samples, region_use=RegionUse.CONTROL_FLOW)


def rows_of(graph: Graph) -> tuple[dict[Value, int], int]:
    """Arrays of rows of a program for any number of rows, with the length along the first axis that a row takes; and the number of the
    parameter that tells how many there are, -1 if there is none."""
    found: dict[Value, int] = {}
    count = -1
    for op in graph.ops:
        if op.name == "panels":
            slices, sizes = op.attrs["slices"], op.attrs["sizes"]
            values = (*op.operands[:slices], *op.results[:len(op.results) - len(op.attrs["initial"])])
            found.update(zip(values, lengths_per_row([value.type for value in values], sizes), strict=True))
            count = graph.params.index(op.operands[slices])
    return found, count
