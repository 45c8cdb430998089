"""Index maps: the element of each value of a fused region at each position of the kernel's iteration space.

A fused kernel runs over `rows * columns` positions in row-major order. Every value of its region has an `IndexMap`, which tells the element
of the value that belongs to position p. A map is a tuple of digits (size, stride), outermost first: the element's index is made of the
digits `(p // stride) % size`. With rows R and columns C:

    ((R * C, 1),)   one element a position ("full")
    ((R, C),)       one a row
    ((C, 1),)       one a column
    ()              one in all
    ((H, W),)       for C = H * W: one for each group of W columns

Maps are canonical: digits of size 1 are left out, and digits that continue each other are merged, so reshaping never changes a map.
"""

from __future__ import annotations

from collections.abc import Iterable

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.types import Shape

Digit = tuple[int, int]
IndexMap = tuple[Digit, ...]


def full_map(size: int) -> IndexMap:
    """Map of a value with one element a position.

    >>> full_map(6), full_map(1)
    (((6, 1),), ())
    """
    return ((size, 1),) if size > 1 else ()


def merge_digits(digits: Iterable[Digit]) -> IndexMap:
    """Canonical map with these digits.

    >>> merge_digits([(2, 12), (1, 0), (3, 4), (4, 1)])
    ((24, 1),)
    """
    merged: list[Digit] = []
    for size, stride in digits:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return tuple(merged)


def split_map(index_map: IndexMap, shape: Shape) -> tuple[Digit, ...] | None:
    """Digits of a map, one for each dimension of `shape`; None if a dimension would need several.

    >>> split_map(((24, 1),), (2, 1, 12))
    ((2, 12), (1, 0), (12, 1))
    """
    digits: list[Digit] = []
    rest = list(index_map)
    for size in reversed(shape):
        if size == 1:
            digits.append((1, 0))
            continue
        if not rest or rest[-1][0] % size:
            return None
        available, stride = rest.pop()
        digits.append((size, stride))
        if available > size:
            rest.append((available // size, stride * size))
    return tuple(reversed(digits)) if not rest else None


def scale_map(index_map: IndexMap, factor: int) -> IndexMap:
    """Map in a space in which every `factor` consecutive positions are one position of the old space."""
    return tuple((size, stride * factor) for size, stride in index_map)


def operand_map(op: Op, result: IndexMap) -> IndexMap | None:
    """Map of the operands of an elementwise op, reshape or broadcast whose result has the map `result`."""
    if op.name == "broadcast":
        digits = split_map(result, op.result.type.shape)
        return None if digits is None else merge_digits(digits[axis] for axis in op.attrs["axes"])
    return result


def reduced_map(op: Op, operand: IndexMap) -> IndexMap | None:
    """Map of the result of a reduction whose operand has the map `operand`."""
    digits = split_map(operand, op.operands[0].type.shape)
    return None if digits is None else merge_digits(digit for axis, digit in enumerate(digits) if axis not in op.attrs["axes"])


def infer_maps(graph: Graph, positions: int, rows: int = 0) -> dict[Value, IndexMap]:
    """Map of every value of a fused region that runs over `positions` positions, in `rows` rows.

    A value with as many elements as there are positions is full; the other maps follow from the ops that connect the values. Values that
    only single numbers connect with the rest are one a row if they have as many elements as there are rows. The operand of a slice is an
    array that the slice, which is full, is read from.
    """
    maps: dict[Value, IndexMap] = {}
    full = full_map(positions)
    maps.update((op.operands[0], full_map(op.operands[0].type.size)) for op in graph.ops if op.name == "slice")
    values = [*graph.params, *(value for op in graph.ops for value in op.results)]
    for value in values:
        size = value.type.size
        if size == positions:
            maps[value] = full
        elif size == 1:
            maps[value] = ()
    _infer(graph, maps, len(values))
    unconnected = [value for value in values if value not in maps and value.type.size == rows]
    if unconnected:
        maps.update(dict.fromkeys(unconnected, merge_digits([(rows, positions // rows)])))
        _infer(graph, maps, len(values))
    return maps


def _infer(graph: Graph, maps: dict[Value, IndexMap], count_of_values: int) -> None:
    count = -1
    while count != len(maps) < count_of_values:
        count = len(maps)
        for op in graph.ops:
            _infer_forward(op, maps)
        for op in reversed(graph.ops):
            _infer_backward(op, maps)


def _infer_forward(op: Op, maps: dict[Value, IndexMap]) -> None:
    kind = op.definition.kind
    known = [maps[value] for value in op.operands if value in maps]
    if op.result in maps or not known:
        return
    if kind is Kind.REDUCTION:
        reduced = reduced_map(op, known[0])
        if reduced is not None:
            maps[op.result] = reduced
    elif kind is Kind.ELEMENTWISE or op.definition.alias:
        maps[op.result] = known[0]


def _infer_backward(op: Op, maps: dict[Value, IndexMap]) -> None:
    if op.definition.kind is Kind.REDUCTION or op.name == "slice" or op.result not in maps:
        return
    for value in op.operands:
        inferred = operand_map(op, maps[op.result])
        if value not in maps and inferred is not None:
            maps[value] = inferred


def map_extent(index_map: IndexMap, rows: int, columns: int) -> str:
    """"scalar", "row", "column", "full" or "other"; one row counts as scalars, one column as rows."""
    if not index_map:
        return "scalar"
    if index_map == full_map(rows * columns):
        return "row" if columns == 1 else "full"
    if index_map == ((rows, columns),):
        return "row"
    if index_map == ((columns, 1),):
        return "column"
    return "other"


def split_at_rows(index_map: IndexMap, columns: int) -> IndexMap | None:
    """Map in which no digit depends on both the row and the column; None if this needs divisions of positions.

    >>> split_at_rows(((12, 1),), 4), split_at_rows(((3, 2),), 4)
    (((3, 4), (4, 1)), None)
    """
    digits: list[Digit] = []
    for size, stride in index_map:
        if stride % columns == 0 or columns % (size * stride) == 0:
            digits.append((size, stride))
        elif columns % stride == 0 and size * stride % columns == 0:
            digits += [(size * stride // columns, columns), (columns // stride, stride)]
        else:
            return None
    return tuple(digits)


def contiguous_run(op: Op) -> int:
    """Elements of a slice that lie together in its operand.

    The last axes are whole, but for the first of them, along which the slice takes element after element.
    """
    run = 1
    axes = zip(op.result.type.shape, op.operands[0].type.shape, op.attrs["step"], strict=True)
    for size, whole, step in reversed(list(axes)):
        if size > 1 and step != 1:
            break
        run *= size
        if size != whole:
            break
    return run


def row_starts(op: Op, columns: int) -> tuple[int, list[tuple[int, int, int]]]:
    """First element of a slice in its operand, and digits of a row's number, with their weights, whose sum is the distance of the row's
    first element from it: rows of `columns` elements, which lie together. A digit is `(row // stride) % size`."""
    run, first, terms = contiguous_run(op), 0, []
    inside, stride = 1, 1       # elements of the slice, and of the operand, for each step along an axis
    for size, whole, start, step in zip(*(reversed(t) for t in (op.result.type.shape, op.operands[0].type.shape, op.attrs["start"],
                                                                op.attrs["step"])), strict=True):
        first += start * stride
        if inside >= run and size > 1:
            terms.append((size, inside // columns, step * stride))
        inside, stride = inside * size, stride * whole
    if run > columns:
        terms.append((run // columns, 1, columns))
    return first, terms


def row_map(rows: int, columns: int) -> IndexMap:
    return merge_digits([(rows, columns)])


def reduction_scope(operand: IndexMap, result: IndexMap, rows: int, columns: int) -> str | None:
    """Scope of a reduction of a region; None if one kernel cannot run it.

    "inner": along each row; "columns": down each column; "all": over everything; "rows": over values of rows; "post": over values of
    columns, after the rows are done.
    """
    if operand == result and operand != ():
        return None       # only axes of size 1: a reshape
    if columns > 1 and operand == full_map(rows * columns):
        if result == row_map(rows, columns):
            return "inner"
        if result == ((columns, 1),):
            return "columns"
        return "all" if result == () else None
    if result != ():
        return None
    if operand == row_map(rows, columns):
        return "rows"
    return "post" if operand == ((columns, 1),) else None
