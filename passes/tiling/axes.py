"""Batch axis of each value: the axis along which a program can be cut into tiles.

Most programs have the batch first, everywhere. Where the batch is another axis, it is followed from an axis of a product through all ops
that have the same axis in operands and results; from values that a loop carries, through the loop as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, number_of, producers, readers, use_counts
from adjit.passes.simplify.hoist_loop_invariants import accumulated_value
from adjit.passes.tiling.slice_rules import OperandAxes, infer_operand_axes, replication_divisor, summed_axes


class Axes(dict[Value, int]):
    """Batch axis of each value that has one.

    If `batch` (the length of the batch) is not 0, an axis may hold several batches one after the other (the rows of all iterations of a
    loop), and a tile has a block of each. `loops` holds the loops that are tiled.
    """

    def __init__(self, axes: Mapping[Value, int], batch: int = 0) -> None:
        super().__init__(axes)
        self.batch = batch
        self.loops: dict[Op, LoopSlicing] = {}


@dataclass(frozen=True, slots=True)
class LoopSlicing:
    """Axes of the operands and results of a tiled loop (None for those that all tiles share), and of the values of its body.

    `sums` are the carries that begin with zero and to which each iteration adds a sum over the batch: the results of tiles are added up.
    """

    operand_axes: OperandAxes
    results: OperandAxes
    body: Axes
    sums: tuple[int, ...]


NEVER_TILED = (Kind.INDEXING, Kind.REGION)
"""Kinds of ops that may fail, or that run programs of their own: a tile cannot report an error."""

MAX_AXES = 3
"""Most axes of a graph that are tried."""


def batch_axes(graph: Graph, min_rank: int) -> Iterator[Axes]:
    """Ways to tile a graph with products of at least this rank: along the first axis of everything, and, for rank 2 (not for tiles of
    tiles), along the longest batch axis of a batched product, if some parameter has this axis first, so that its tiles can be read in
    place."""
    values = [*graph.params, *(value for op in graph.ops for value in op.results)]
    yield Axes({value: 0 for value in values if value.type.rank})
    found: list[Axes] = []
    for op in graph.ops if min_rank == 2 else ():
        shape = op.result.type.shape if op.name == "matmul" else ()
        axis = max(range(len(shape)), key=shape.__getitem__) if len(shape) > 2 else 0
        if axis and len(found) < MAX_AXES and not any(axes.get(op.result) == axis for axes in found):
            found.append(_followed(graph, {op.result: axis}))
            if any(found[-1].get(value) == 0 for value in graph.params):
                yield found[-1]


def loop_axes(graph: Graph, min_length: int) -> Iterator[Axes]:
    """Ways to tile the loops of a graph: along axes, at least `min_length` long, whose elements the iterations do not mix."""
    found: list[Axes] = []
    for op in graph.ops:
        for param in op.regions[0].params[:op.attrs["carries"]] if op.name == "scan" else ():
            for axis, batch in enumerate(param.type.shape):
                if batch < min_length or len(found) == MAX_AXES or any(axes.batch == batch and op in axes.loops for axes in found):
                    continue
                cut = _loop_cut(op, {param: axis}, batch)
                if cut is None:
                    continue
                axes = _followed(graph, _outside(op, cut), batch)
                for loop in graph.ops:
                    inner = _loop_cut(loop, _inside(loop, axes), batch) if loop.name == "scan" else None
                    if inner is not None and _is_read_as_cut(graph, loop, inner, axes):
                        axes.loops[loop] = inner
                if op in axes.loops:
                    found.append(axes)
                    yield axes


def _followed(graph: Graph, start: Mapping[Value, int], batch: int = 0, ties: Iterable[tuple[Value, Value]] = ()) -> Axes:
    """Axes that correspond to those of `start`. The two values of a pair in `ties` have the same axis."""
    producer = producers(graph)
    followed = readers(op for op in graph.ops if op.definition.kind is not Kind.REGION or (batch and op.name == "scan"))
    tied: dict[Value, list[Value]] = {}
    for one, other in ties:
        tied.setdefault(one, []).append(other)
        tied.setdefault(other, []).append(one)
    axes, worklist = Axes(start, batch), list(start)

    def reach(other: Value, axis: int | None) -> None:
        if axis is not None and other not in axes:
            axes[other] = axis
            worklist.append(other)

    def reach_loop(op: Op) -> None:
        cut = _loop_cut(op, _inside(op, axes), batch)
        for other, operand_axis in _outside(op, cut).items() if cut is not None else ():
            reach(other, operand_axis)

    while worklist:
        value = worklist.pop()
        source_op = producer.get(value)
        if source_op is not None and batch and source_op.name == "scan":
            reach_loop(source_op)
        elif source_op is not None and (operand_axes := infer_operand_axes(source_op, axes[value], batch)) is not None:
            for other, operand_axis in zip(source_op.operands, operand_axes, strict=True):
                reach(other, operand_axis)
        for op in followed.get(value, ()):
            if op.name == "scan":
                reach_loop(op)
                continue
            for result_axis in range(op.results[0].type.rank):
                operand_axes = infer_operand_axes(op, result_axis, batch)
                if operand_axes is not None and any(
                        v is value and cut == axes[value] for v, cut in zip(op.operands, operand_axes, strict=True)):
                    reach(op.result, result_axis)
        for other in tied.get(value, ()):
            reach(other, axes[value])
    return axes


# -- loops


def _loop_cut(op: Op, start: Mapping[Value, int], batch: int) -> LoopSlicing | None:
    """Slicing of a loop in which values of the body have the axes of `start`; None if an iteration mixes tiles."""
    (body,), carries, slices = op.regions, op.attrs["carries"], op.attrs["slices"]
    first = len(body.results) - carries
    carried = list(zip(body.params[:carries], body.results[first:], strict=True))
    axes = _followed(body, start, batch, carried)
    sums = _sums(body, carries, axes)
    if not axes or any(axes.get(param) != axes.get(result) for param, result in carried) or not _is_cut(body, axes, set(sums.values())):
        return None
    results = [axes.get(value) for value in body.results]
    if None in results[:first]:
        return None
    rows = [axis + 1 for axis in results[:first] if axis is not None]
    operand_axes = [axes.get(param) for param in body.params]
    for index in range(carries, carries + slices):
        operand_axis = operand_axes[index]
        operand_axes[index] = None if operand_axis is None else operand_axis + 1
    return LoopSlicing(tuple(operand_axes), (*rows, *results[first:]), axes, tuple(sums))


def _sums(body: Graph, carries: int, axes: Axes) -> dict[int, Op]:
    """Carries to which each iteration adds a sum over the batch, and the op that makes each sum."""
    producer, uses, first = producers(body), use_counts(body), len(body.results) - carries
    found: dict[int, Op] = {}
    for index in range(carries):
        part = accumulated_value(body, index, first, producer, uses)
        op = producer.get(part) if part is not None else None
        if op is None or part in axes or uses[op.result] > 1:
            continue
        cuts = (next((axes.get(value) for value in op.operands if axes.get(value) in op.attrs["axes"]), None),) \
            if op.name == "reduce_sum" else summed_axes(op)
        sources = [producer.get(value) for value in op.operands]
        if cuts is not None and None not in cuts and tuple(map(axes.get, op.operands)) == cuts \
                and not any(one is not None and one.definition.kind is Kind.CREATION for one in sources):
            found[index] = op
    return found


def _is_cut(body: Graph, axes: Axes, sums: Collection[Op]) -> bool:
    """True if every op of a body, but for `sums`, can run on a tile: it has tiles of the operands that must be tiles, and needs no such
    operand as a whole."""
    producer = producers(body)
    for op in body.ops:
        cut = [value in axes for value in op.results]
        if op in sums:
            continue
        if not any(cut):
            if op.definition.kind in NEVER_TILED or any(value in axes for value in op.operands):
                return False
            continue
        axis = axes[op.results[0]] if len(cut) == 1 else -1
        operand_axes = infer_operand_axes(op, axis, axes.batch) if axis >= 0 else None
        if operand_axes is None:
            if len(cut) > 1 or op.definition.kind is not Kind.CREATION or replication_divisor(op, axis):
                return False
            continue
        for value, operand_axis in zip(op.operands, operand_axes, strict=True):
            source_op = producer.get(value)
            is_replicable = (operand_axis is not None and source_op is not None and source_op.definition.kind is Kind.CREATION
                             and not replication_divisor(source_op, operand_axis))
            if axes.get(value) != operand_axis and not is_replicable:
                return False
    return all(value.type.shape[axis] % axes.batch == 0 for value, axis in axes.items())


def _inside(op: Op, axes: Mapping[Value, int]) -> dict[Value, int]:
    """Axes of values in a loop's body, from the axes of the loop's operands and results."""
    (body,), carries, slices = op.regions, op.attrs["carries"], op.attrs["slices"]
    first = len(body.results) - carries
    found: dict[Value, int] = {}
    for index, (outer, inner) in enumerate((*zip(op.results, body.results, strict=True), *zip(op.operands, body.params, strict=True))):
        number = index - len(op.results)
        is_stacked = index < first or carries <= number < carries + slices
        if outer in axes and axes[outer] >= is_stacked:
            found.setdefault(inner, axes[outer] - is_stacked)
    return found


def _outside(op: Op, cut: LoopSlicing) -> dict[Value, int]:
    """Axes of the operands and results of a loop."""
    pairs = (*zip(op.results, cut.results, strict=True), *zip(op.operands, cut.operand_axes, strict=True))
    return {value: axis for value, axis in pairs if axis is not None}


def _is_read_as_cut(graph: Graph, op: Op, cut: LoopSlicing, axes: Axes) -> bool:
    """True if all results of a loop have the axes that its body gives them, and no result that all tiles share is read, except sums."""
    read, producer = use_counts(graph), producers(graph)
    first = len(op.results) - op.attrs["carries"]
    for index, (value, axis) in enumerate(zip(op.results, cut.results, strict=True)):
        if axes.get(value) != axis:
            return False
        from_zero = index - first in cut.sums and number_of(producer.get(op.operands[index - first])) == 0
        if axis is None and value in read and not from_zero:
            return False
    return True
