"""Rows of values: the axis along which a value has the rows of a batch, and the ops that keep rows apart or add them up.

The same function, traced for several numbers of rows, gives graphs of the same ops, whose types differ where rows are: that is how the
axes are found. Along its axis a value has `length` elements for each row, one row after the other. Whether an op keeps rows apart is then
a matter of its slice rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from math import prod

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Location
from adjit.ir.graph import Graph, Op, Value, number_of, producers
from adjit.ir.ops.indexing import OUTSIDE
from adjit.ir.row_number import Expression, number_for, rounded
from adjit.ir.types import U64, TensorType
from adjit.passes.tiling.slice_rules import OperandAxes, infer_operand_axes, summed_axes


class RowsMixed(Exception):
    """Raised where a function cannot run on panels of rows. `reason` completes the sentence "... because"; `location` is the user's."""

    def __init__(self, reason: str, location: Location | None = None):
        super().__init__(reason)
        self.reason, self.location = reason, location


@dataclass(frozen=True, slots=True)
class Rows:
    """Axis of a value along which it has rows, and the number of elements along this axis that belong to one row. They lie in `blocks`,
    each of all rows one after the other: (20, n, 3) as (20 n, 3) is 20 blocks. 0 is any number of blocks, where all elements along the axis
    are alike, and -1 that rows are mixed. `SUM` is of values without rows that each panel has of its own: sums over its rows."""

    axis: int
    length: int
    blocks: int = 1


SUM = Rows(-1, 0)


@dataclass(frozen=True, slots=True)
class RowLoop:
    """Regions of a loop or branch that computes with rows, with the numbers of its results that are sums over rows."""

    regions: tuple[RowGraphs, ...]
    sums: frozenset[int]


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
    loops: Mapping[Op, RowLoop] = field(default_factory=dict)

    def type_for(self, value: Value, size: int) -> TensorType:
        """Type of a value of the first graph for so many rows."""
        rows = self.rows.get(value)
        if rows is None or rows.axis < 0:
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
        regions = tuple(region.graph_for(size) for region in self.loops[op].regions) if op in self.loops else op.regions
        return Op(op.definition, tuple(operands), results, attrs, regions, op.loc, op.role)

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


# -- ops


def row_operands(graphs: RowGraphs, ops: Sequence[Op]) -> OperandAxes | None:
    """Axes of the operands along which rows of the op's result are computed from rows, None for operands that are needed as a whole; None
    if the op mixes rows. `ops` are the op in each of the graphs."""
    found: list[OperandAxes | None] = []
    for op, size in zip(ops, graphs.sizes, strict=True):
        if size > 1:
            found.append(_operand_axes(op, graphs.rows[ops[0].results[0]].axis, ops[0], graphs.rows))
    wanted = tuple(graphs.rows[value].axis if value in graphs.rows else None for value in ops[0].operands)
    if not _in_order(ops[0], graphs.rows):
        return None
    if ops[0] in graphs.own_rows:
        return wanted
    alike = all(graphs.rows.get(value) == graphs.rows[ops[0].results[0]] for value in ops[0].results)
    return wanted if found and alike and all(axes == wanted for axes in found) else None


def _in_order(op: Op, rows: Mapping[Value, Rows]) -> bool:
    """True if operands and results have their rows in the same blocks."""
    given, found = [rows[value] for value in op.operands if value in rows], [rows[value] for value in op.results if value in rows]
    if any(each.blocks < 0 or each.axis < 0 for each in (*given, *found)):
        return False
    return op.name == "reshape" or len({each.blocks for each in (*given, *found) if each.blocks and each.length > 1}) <= 1


def blocks_of(op: Op, rows: Mapping[Value, Rows]) -> int:
    """Blocks of the rows of an op's result, from those of its operands."""
    given, result = [rows[value] for value in op.operands if value in rows], rows[op.results[0]]
    if op.name == "reshape" and given:
        return _blocks_of_reshape(op, given[0], result)
    if result.length == 1 or (op.name == "iota" and op.attrs["axis"] == result.axis):
        return 1
    found = {each.blocks for each in given if each.length > 1} - {0}
    return 0 if not found else found.pop() if len(found) == 1 else -1


def _blocks_of_reshape(op: Op, given: Rows, result: Rows) -> int:
    before, after = prod(op.operands[0].type.shape[:given.axis]), prod(op.result.type.shape[:result.axis])
    if not given.blocks and (before, given.length) == (after, result.length):
        return 0
    for blocks in [given.blocks] if given.blocks else range(1, given.length + 1):
        found, left = divmod(before * blocks, after)
        if not left and found and not given.length % blocks and not result.length % found:
            return found
    return -1


def within_rows(graph: Graph, rows: Mapping[Value, Rows], counters: Collection[Value]) -> frozenset[Op]:
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
    rule, along = _RULES.get(op.name), tuple(rows[value].axis if value in rows else None for value in first.operands)
    if rule is not None:
        return rule(op, axis, along)
    if op.name == "reshape" and along[0] is not None:
        return along        # whose blocks are in order
    if op.definition.kind is Kind.CREATION:
        return ()
    if op.definition.kind is Kind.LINALG:
        return _stacked(op, axis)
    return infer_operand_axes(op, axis)


def _take(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    """Whole slices of a table that all rows share, at indices of their own; or of a table of each row at indices that rows share."""
    along, indices = op.attrs["axis"], op.operands[1].type.rank
    if rows[0] is None and rows[1] is not None:
        return (None, axis - along) if along <= axis < along + indices else None
    if rows[0] is None or rows[1] is not None or rows[0] == along:
        return None
    return (rows[0], None) if axis == rows[0] + (indices - 1) * (rows[0] > along) else None


def _scatter(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    """Sums within each row, at indices that rows share."""
    along, indices = op.attrs["axis"], op.operands[1].type.rank
    return None if axis == along or rows[1] is not None else (axis, None, axis + (indices - 1) * (axis > along))


def _along(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    return (axis,) * len(op.operands) if op.attrs["axis"] != axis else None


def _stacked(op: Op, axis: int) -> OperandAxes | None:
    """Stacks of matrices, and of what there is of each, such as its pivots."""
    stacked = max(value.type.rank for value in op.operands) - 2
    in_stacks = axis < stacked and all(value.type.rank > axis and value.type.shape[axis] == op.results[0].type.shape[axis]
                                       for value in op.operands)
    return (axis,) * len(op.operands) if in_stacks else None


def _right_sides(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    """Systems of equations: right-hand sides for one matrix are columns; or stacks."""
    if axis == op.result.type.rank - 1 and not any(along is not None for along in rows[:-1]):
        return (*(None for _ in rows[:-1]), axis)
    return _stacked(op, axis)


def _first(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    """Images and stacks: the first axis, of operands that have it as the result does; kernels are shared."""
    return (axis, *(None for _ in op.operands[1:])) if axis == 0 else None


def _windows(op: Op, axis: int, rows: OperandAxes) -> OperandAxes | None:
    kept = op.result.type.rank - len(op.attrs["sizes"])
    return (axis,) * len(op.operands) if axis < kept else None


_RULES: dict[str, Callable[[Op, int, OperandAxes], OperandAxes | None]] = {
    "take": _take, "scatter_add": _scatter,
    **dict.fromkeys(("take_along_axis", "scatter_add_along_axis", "fft", "rfft", "irfft"), _along), "convolution": _first,
    **dict.fromkeys(("lu_solve", "triangular_solve"), _right_sides),
    **dict.fromkeys(("window_sum", "window_max", "window_max_scatter", "window_max_share", "window_max_take"), _windows)}


def is_sum_over_rows(graphs: RowGraphs, op: Op) -> bool:
    """True if results of an op for panels of rows, combined, are its result for all rows."""
    rows = [graphs.rows.get(value) for value in op.operands]
    if rows[0] == SUM:
        return op.name == "reshape"
    if not _in_order(op, graphs.rows):
        return False
    if op.definition.kind is Kind.REDUCTION:
        return rows[0] is not None and rows[0].axis in op.attrs["axes"]
    if op.name == "convolution_kernel_gradient":
        return all(each is not None and each.axis == 0 for each in rows)
    if op.name == "scatter_add":
        return rows[0] is None and rows[1] is not None and rows[2] is not None and rows[2].axis == op.attrs["axis"] + rows[1].axis
    axes = summed_axes(op)
    return axes is not None and tuple(None if each is None else each.axis for each in rows) == axes
