"""Which axis of each value belongs to the batch: the axis along which a program could be cut into panels.

Most programs have the batch first, everywhere. Where a chain has it elsewhere, it is followed, from an axis of a product, through all ops
that have the same axis in operands and results; from what a loop carries, through the loop as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, number_of, producers, readers, use_counts
from adjit.passes.panels.rules import Needs, free_length, operand_axes, summed_axes
from adjit.passes.simplifications.move_out_of_loops import added_in_each_run


class Axes(dict[Value, int]):
    """The axis of each value that has one.

    Where `batch`, the length of the batch, is not 0, an axis may be several batches one after the other (the rows of all runs of a loop),
    of each of which a panel has its part. `loops` are those that are cut.
    """

    def __init__(self, axes: Mapping[Value, int], batch: int = 0) -> None:
        super().__init__(axes)
        self.batch = batch
        self.loops: dict[Op, LoopCut] = {}


@dataclass(frozen=True, slots=True)
class LoopCut:
    """The axes of the operands and results of a loop, None for those that all panels share, and those of its body.

    `sums` are carries that begin with zero, and to which each run adds a sum over the batch: results of panels add up to them.
    """

    needs: Needs
    results: Needs
    body: Axes
    sums: tuple[int, ...]


NEVER_IN_PANELS = (Kind.INDEXING, Kind.REGION)
"""Kinds of ops that may fail, or run programs of their own: panels have no way to say so."""

MOST_AXES = 3
"""How many axes of a graph are followed."""


def batch_axes(graph: Graph, least_rank: int) -> Iterator[Axes]:
    """Ways to cut a graph with products of at least this rank: along the first axis of everything; and, but for panels of panels, along
    the longest axes of batches of products, where something that lies in memory has one of these first, so that its panels can be read in
    place."""
    values = [*graph.params, *(value for op in graph.ops for value in op.results)]
    yield Axes({value: 0 for value in values if value.type.rank})
    found: list[Axes] = []
    for op in graph.ops if least_rank == 2 else ():
        shape = op.result.type.shape if op.name == "matmul" else ()
        axis = max(range(len(shape)), key=shape.__getitem__) if len(shape) > 2 else 0
        if axis and len(found) < MOST_AXES and not any(axes.get(op.result) == axis for axes in found):
            found.append(_followed(graph, {op.result: axis}))
            if any(found[-1].get(value) == 0 for value in graph.params):
                yield found[-1]


def loop_axes(graph: Graph, shortest: int) -> Iterator[Axes]:
    """Ways to cut the loops of a graph: along axes, at least as long as `shortest`, of which the runs do not mix the elements."""
    found: list[Axes] = []
    for op in graph.ops:
        for param in op.regions[0].params[:op.attrs["carries"]] if op.name == "scan" else ():
            for axis, batch in enumerate(param.type.shape):
                if batch < shortest or len(found) == MOST_AXES or any(axes.batch == batch and op in axes.loops for axes in found):
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
    """The axes that are the same as those of `start`. Each of two values of `ties` has that of the other."""
    maker = producers(graph)
    followed = readers(op for op in graph.ops if op.definition.kind is not Kind.REGION or (batch and op.name == "scan"))
    tied: dict[Value, list[Value]] = {}
    for one, other in ties:
        tied.setdefault(one, []).append(other)
        tied.setdefault(other, []).append(one)
    axes, waiting = Axes(start, batch), list(start)

    def reach(other: Value, place: int | None) -> None:
        if place is not None and other not in axes:
            axes[other] = place
            waiting.append(other)

    def reach_loop(op: Op) -> None:
        cut = _loop_cut(op, _inside(op, axes), batch)
        for other, place in _outside(op, cut).items() if cut is not None else ():
            reach(other, place)

    while waiting:
        here = waiting.pop()
        made = maker.get(here)
        if made is not None and batch and made.name == "scan":
            reach_loop(made)
        elif made is not None and (needs := operand_axes(made, axes[here], batch)) is not None:
            for other, place in zip(made.operands, needs, strict=True):
                reach(other, place)
        for op in followed.get(here, ()):
            if op.name == "scan":
                reach_loop(op)
                continue
            for place in range(op.results[0].type.rank):
                needs = operand_axes(op, place, batch)
                if needs is not None and any(v is here and cut == axes[here] for v, cut in zip(op.operands, needs, strict=True)):
                    reach(op.result, place)
        for other in tied.get(here, ()):
            reach(other, axes[here])
    return axes


# -- loops


def _loop_cut(op: Op, start: Mapping[Value, int], batch: int) -> LoopCut | None:
    """How a loop is cut where values of its body have the axes of `start`; None where a run mixes panels."""
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
    needs = [axes.get(param) for param in body.params]
    for index in range(carries, carries + slices):
        place = needs[index]
        needs[index] = None if place is None else place + 1
    return LoopCut(tuple(needs), (*rows, *results[first:]), axes, tuple(sums))


def _sums(body: Graph, carries: int, axes: Axes) -> dict[int, Op]:
    """The carries to which each run adds a sum over the batch, and the ops that make it."""
    maker, uses, first = producers(body), use_counts(body), len(body.results) - carries
    found: dict[int, Op] = {}
    for index in range(carries):
        part = added_in_each_run(body, index, first, maker, uses)
        op = maker.get(part) if part is not None else None
        if op is None or part in axes or uses[op.result] > 1:
            continue
        cuts = (next((axes.get(value) for value in op.operands if axes.get(value) in op.attrs["axes"]), None),) \
            if op.name == "reduce_sum" else summed_axes(op)
        made = [maker.get(value) for value in op.operands]
        if cuts is not None and None not in cuts and tuple(map(axes.get, op.operands)) == cuts \
                and not any(one is not None and one.definition.kind is Kind.CREATION for one in made):
            found[index] = op
    return found


def _is_cut(body: Graph, axes: Axes, sums: Collection[Op]) -> bool:
    """Whether every op of a body, but for `sums`, has panels of what it needs panels of, and nothing that is a panel as a whole."""
    maker = producers(body)
    for op in body.ops:
        cut = [value in axes for value in op.results]
        if op in sums:
            continue
        if not any(cut):
            if op.definition.kind in NEVER_IN_PANELS or any(value in axes for value in op.operands):
                return False
            continue
        axis = axes[op.results[0]] if len(cut) == 1 else -1
        needs = operand_axes(op, axis, axes.batch) if axis >= 0 else None
        if needs is None:
            if len(cut) > 1 or op.definition.kind is not Kind.CREATION or free_length(op, axis):
                return False
            continue
        for value, place in zip(op.operands, needs, strict=True):
            made = maker.get(value)
            is_free = place is not None and made is not None and made.definition.kind is Kind.CREATION and not free_length(made, place)
            if axes.get(value) != place and not is_free:
                return False
    return all(value.type.shape[axis] % axes.batch == 0 for value, axis in axes.items())


def _inside(op: Op, axes: Mapping[Value, int]) -> dict[Value, int]:
    """The axes of values of a loop's body, from those of its operands and results."""
    (body,), carries, slices = op.regions, op.attrs["carries"], op.attrs["slices"]
    first = len(body.results) - carries
    found: dict[Value, int] = {}
    for index, (outer, inner) in enumerate((*zip(op.results, body.results, strict=True), *zip(op.operands, body.params, strict=True))):
        number = index - len(op.results)
        is_stacked = index < first or carries <= number < carries + slices
        if outer in axes and axes[outer] >= is_stacked:
            found.setdefault(inner, axes[outer] - is_stacked)
    return found


def _outside(op: Op, cut: LoopCut) -> dict[Value, int]:
    """The axes of the operands and results of a loop."""
    pairs = (*zip(op.results, cut.results, strict=True), *zip(op.operands, cut.needs, strict=True))
    return {value: axis for value, axis in pairs if axis is not None}


def _is_read_as_cut(graph: Graph, op: Op, cut: LoopCut, axes: Axes) -> bool:
    """Whether all results of a loop have the axes that its body gives them; what all panels share must not be read, but for sums."""
    read, maker = use_counts(graph), producers(graph)
    first = len(op.results) - op.attrs["carries"]
    for index, (value, axis) in enumerate(zip(op.results, cut.results, strict=True)):
        if axes.get(value) != axis:
            return False
        from_zero = index - first in cut.sums and number_of(maker.get(op.operands[index - first])) == 0
        if axis is None and value in read and not from_zero:
            return False
    return True
