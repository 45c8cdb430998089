"""Rows of values: the axis along which a value has the rows of a batch, and the ops that keep rows apart or add them up.

The same function, traced for several numbers of rows, gives graphs of the same ops, whose types differ where rows are: that is how the
axes are found. Along its axis a value has `length` elements for each row, one row after the other. Whether an op keeps rows apart is then
a matter of its slice rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Location
from adjit.ir.graph import Graph, Op, Value, number_of, producers, structural_key
from adjit.ir.ops.indexing import OUTSIDE
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.row_number import Expression, expression_of, number_for, rounded
from adjit.ir.types import U64, Shape, TensorType
from adjit.passes.tiling.slice_rules import OperandAxes, infer_operand_axes, summed_axes


class RowsMixed(Exception):
    """Raised where a function cannot run on panels of rows. `reason` completes the sentence "... because"; `location` is the user's."""

    def __init__(self, reason: str, location: Location | None = None):
        super().__init__(reason)
        self.reason, self.location = reason, location


@dataclass(frozen=True, slots=True)
class Rows:
    """Axis of a value along which it has rows, and the number of elements along this axis that belong to one row."""

    axis: int
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class RowGraphs:
    """Graphs of a function for `sizes` rows, op by op the same. `rows` has the axis of each value of the first graph that has rows,
    `numbers` the number that each `constant` of it stands for whose value depends on the number of rows, `counters` the parameters that
    are the numbers of the rows."""

    sizes: tuple[int, ...]
    graphs: tuple[Graph, ...]
    rows: Mapping[Value, Rows]
    numbers: Mapping[Op, Expression]
    counters: frozenset[Value] = frozenset()
    own_rows: frozenset[Op] = frozenset()       # `take` and `scatter_add` whose indices are within the row that they belong to

    def type_for(self, value: Value, size: int) -> TensorType:
        """Type of a value of the first graph for so many rows."""
        rows = self.rows.get(value)
        if rows is None:
            return value.type
        return value.type.with_shape((*value.type.shape[:rows.axis], rows.length * size, *value.type.shape[rows.axis + 1:]))

    def op_for(self, op: Op, size: int, operands: Sequence[Value]) -> Op:
        """An op of the first graph for so many rows, on these operands."""
        results = tuple([Value(self.type_for(value, size), value.name) for value in op.results])
        attrs = dict(op.attrs)
        if op.operands and op.name == "slice" and op.operands[0] in self.rows:
            axis = self.rows[op.operands[0]].axis
            attrs["stop"] = (*attrs["stop"][:axis], operands[0].type.shape[axis], *attrs["stop"][axis + 1:])
        if "shape" in attrs and op.results[0] in self.rows:
            attrs["shape"] = results[0].type.shape
        if op in self.numbers:
            attrs["value"] = rounded(number_for(self.numbers[op], size), op.result.type.dtype).item()
        return Op(op.definition, tuple(operands), results, attrs, op.regions, op.loc, op.role)

    def graph_for(self, size: int) -> Graph:
        """The graph for so many rows."""
        first = self.graphs[0]
        known = {value: Value(self.type_for(value, size), value.name) for value in first.params}
        made: list[Op] = []
        for op in first.ops:
            made.append(self.op_for(op, size, [known[value] for value in op.operands]))
            known.update(zip(op.results, made[-1].results, strict=True))
        return Graph(first.name, tuple(known[value] for value in first.params), tuple(made), tuple(known[value] for value in first.results),
                     first.param_roles)


def align(graphs: Sequence[Graph], sizes: Sequence[int], counters: Sequence[int] = (), known: Collection[Expression] = ()) -> RowGraphs:
    """Find the rows of the values of graphs that one function has for `sizes` rows; the parameters `counters` are the numbers of the rows,
    and `known` numbers that Python computed from how many there are. Raises `RowsMixed` if the graphs are not the same op by op, or differ
    in more than numbers of rows."""
    if len({len(graph.ops) for graph in graphs}) > 1:
        loop = next((op for op in graphs[0].ops if op.name in CONTROL_FLOW
                     and any(length and length % sizes[0] == 0 for value in op.operands for length in value.type.shape)), None)
        if loop is not None:        # of which more or less is computed ahead
            raise RowsMixed(f"{loop.name} runs a graph of its own on the rows", loop.loc)
        loc = next((ops[0].loc for ops in zip(*(graph.ops for graph in graphs), strict=False)
                    if len({(op.name, op.loc) for op in ops}) > 1), None)
        raise RowsMixed("other operations run for other numbers of rows", loc)
    rows: dict[Value, Rows] = {}
    numbers: dict[Op, Expression] = {}
    places = [_places(graph) for graph in graphs]
    for values in zip(*(graph.params for graph in graphs), strict=True):
        _find_rows(values, sizes, rows, None)
    for ops in zip(*(graph.ops for graph in graphs), strict=True):
        op = ops[0]
        wiring = {(each.name, tuple(place[value] for value in each.operands)) for each, place in zip(ops, places, strict=True)}
        if len(wiring) > 1 or len({len(each.results) for each in ops}) > 1:
            raise RowsMixed("other operations run for other numbers of rows", op.loc)
        for values in zip(*(each.results for each in ops), strict=True):
            _find_rows(values, sizes, rows, op.loc)
        if op.regions and len({structural_key(replaced) for replaced in ops}) > 1:
            raise RowsMixed(f"{op.name} runs a graph of its own on the rows", op.loc)
        number = _check_attributes(ops, sizes, rows, known)
        if number is not None:
            numbers[op] = number
    if len({tuple(place[value] for value in graph.results) for graph, place in zip(graphs, places, strict=True)}) > 1:
        raise RowsMixed("other values are returned for other numbers of rows")
    counting = frozenset(graphs[0].params[index] for index in counters)
    return RowGraphs(tuple(sizes), tuple(graphs), rows, numbers, counting, _within_rows(graphs[0], rows, counting))


def _places(graph: Graph) -> dict[Value, int]:
    values = (*graph.params, *(value for op in graph.ops for value in op.results))
    return {value: number for number, value in enumerate(values)}


def _find_rows(values: Sequence[Value], sizes: Sequence[int], rows: dict[Value, Rows], loc: Location | None) -> None:
    """Enter the rows of a value that has these types for `sizes` rows."""
    types = [value.type for value in values]
    if len({type.dtype for type in types}) > 1 or len({type.rank for type in types}) > 1:
        raise RowsMixed("an array has another dtype or another number of dimensions for another number of rows", loc)
    for axis, lengths in enumerate(zip(*(type.shape for type in types), strict=True)):
        if len(set(lengths)) == 1:
            continue
        length = lengths[0] // sizes[0]
        if not length or any(extent != length * size for extent, size in zip(lengths, sizes, strict=True)) or values[0] in rows:
            raise RowsMixed(f"the shape of an array, {_shape_text(types[0].shape)} for {sizes[0]} rows, is not that of rows", loc)
        rows[values[0]] = Rows(axis, length)


def _shape_text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _check_attributes(ops: Sequence[Op], sizes: Sequence[int], rows: Mapping[Value, Rows], known: Collection[Expression]
                      ) -> Expression | None:
    """Check that attributes differ as the types do; returns the number that a constant stands for."""
    op = ops[0]
    number = None
    for name, value in op.attrs.items():
        found = [each.attrs.get(name) for each in ops]
        if all(other is value or (type(other) is type(value) and (other == value or (other != other and value != value)))
               for other in found):
            continue
        if name == "shape" and all(each.attrs["shape"] == each.result.type.shape for each in ops):
            continue
        if name == "stop" and op.operands[0] in rows and _stops_with_rows(ops, rows[op.operands[0]].axis):
            continue
        if op.name == "constant" and name == "value":
            number = expression_of(found, sizes, op.result.type.dtype, known)
            if number is not None:
                continue
            raise RowsMixed("a number depends on the number of rows in another way than by arithmetic", op.loc)
        raise RowsMixed(f"{op.name} is another one for another number of rows", op.loc)
    return number


def _stops_with_rows(ops: Sequence[Op], axis: int) -> bool:
    """True if slices are whole along an axis, and alike along the others."""
    stops = [each.attrs["stop"] for each in ops]
    return all(each.attrs["stop"][axis] == each.operands[0].type.shape[axis] for each in ops) and (
        len({(*stop[:axis], *stop[axis + 1:]) for stop in stops}) == 1)


# -- ops


def row_operands(graphs: RowGraphs, ops: Sequence[Op]) -> OperandAxes | None:
    """Axes of the operands along which rows of the op's result are computed from rows, None for operands that are needed as a whole; None
    if the op mixes rows. `ops` are the op in each of the graphs."""
    found: list[OperandAxes | None] = []
    for op, size in zip(ops, graphs.sizes, strict=True):
        if size > 1:
            found.append(_operand_axes(op, graphs.rows[ops[0].results[0]].axis, ops[0], graphs.rows))
    wanted = tuple(graphs.rows[value].axis if value in graphs.rows else None for value in ops[0].operands)
    if ops[0] in graphs.own_rows:
        return wanted
    alike = all(graphs.rows.get(value) == graphs.rows[ops[0].results[0]] for value in ops[0].results)
    return wanted if found and alike and all(axes == wanted for axes in found) else None


def _within_rows(graph: Graph, rows: Mapping[Value, Rows], counters: Collection[Value]) -> frozenset[Op]:
    """Ops at indices of which each is within its own row: `x[np.arange(n), columns]`, as `joined_index` joins the two, with a check that
    the column is one of the row's."""
    producer = producers(graph)
    return frozenset(op for op in graph.ops if op.name in ("take", "scatter_add") and op.operands[0] in rows and op.operands[1] in rows
                     and op.attrs["axis"] == rows[op.operands[0]].axis and rows[op.operands[1]] == Rows(0, 1)
                     and op.operands[1].type.rank == 1 and _is_within(op.operands[1], rows[op.operands[0]].length, producer, counters))


def _is_within(index: Value, length: int, producer: Mapping[Value, Op], counters: Collection[Value]) -> bool:
    checks: list[Op] = []
    made = producer.get(index)
    while made is not None and made.name == "select" and number_of(producer.get(made.operands[2])) == OUTSIDE:
        check = producer.get(made.operands[0])
        checks += [] if check is None else [check]
        made = producer.get(made.operands[1])
    if made is None or made.name != "add":
        return False
    first, column = producer.get(made.operands[0]), made.operands[1]
    if first is None or first.name != "multiply" or number_of(producer.get(first.operands[1])) != length:
        return False
    counter = producer.get(first.operands[0])
    counts = first.operands[0] in counters or (counter is not None and counter.name == "iota" and counter.attrs["axis"] == 0)
    return counts and any(check.name == "less" and number_of(producer.get(check.operands[1])) == length and _is_unsigned(
        producer.get(check.operands[0]), column) for check in checks)


def _is_unsigned(op: Op | None, value: Value) -> bool:
    """True if an op takes an integer as one without a sign, of which negative ones are large."""
    return op is not None and op.name == "convert" and op.operands == (value,) and op.attrs["dtype"] == U64


def _operand_axes(op: Op, axis: int, first: Op, rows: Mapping[Value, Rows]) -> OperandAxes | None:
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op, axis, tuple(rows[value].axis if value in rows else None for value in first.operands))
    if op.definition.kind is Kind.CREATION:
        return ()
    if op.definition.kind is Kind.LINALG:
        in_stacks = all(value.type.rank > axis + 2 and value.type.shape[axis] == op.results[0].type.shape[axis] for value in op.operands)
        return (axis,) * len(op.operands) if in_stacks else None
    return infer_operand_axes(op, axis)


def _take(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    """Whole slices of a table that all rows share, at indices of their own; or of a table of each row at indices that rows share."""
    along, indices = op.attrs["axis"], op.operands[1].type.rank
    if rows[0] is None and rows[1] is not None:
        return (None, axis - along) if along <= axis < along + indices else None
    if rows[0] is None or rows[1] is not None or rows[0] == along:
        return None
    return (rows[0], None) if axis == rows[0] + (indices - 1) * (rows[0] > along) else None


def _along(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    return (axis,) * len(op.operands) if op.attrs["axis"] != axis else None


def _first(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    """Images and stacks: the first axis, of operands that have it as the result does; kernels are shared."""
    return (axis, *(None for _ in op.operands[1:])) if axis == 0 else None


def _windows(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    kept = op.result.type.rank - len(op.attrs["sizes"])
    return (axis,) * len(op.operands) if axis < kept else None


_RULES: dict[str, Callable[[Op, int, OperandAxes], OperandAxes | None]] = {
    "take": _take, **dict.fromkeys(("take_along_axis", "scatter_add_along_axis", "fft", "rfft", "irfft"), _along), "convolution": _first,
    **dict.fromkeys(("window_sum", "window_max", "window_max_scatter", "window_max_share", "window_max_take"), _windows)}


def is_sum_over_rows(graphs: RowGraphs, op: Op) -> bool:
    """True if results of an op for panels of rows, combined, are its result for all rows."""
    rows = [graphs.rows.get(value) for value in op.operands]
    if op.definition.kind is Kind.REDUCTION:
        return rows[0] is not None and rows[0].axis in op.attrs["axes"]
    if op.name == "convolution_kernel_gradient":
        return all(each is not None and each.axis == 0 for each in rows)
    if op.name == "scatter_add":
        return rows[0] is None and rows[1] is not None and rows[2] is not None and rows[2].axis == op.attrs["axis"] + rows[1].axis
    axes = summed_axes(op)
    return axes is not None and tuple(None if each is None else each.axis for each in rows) == axes
