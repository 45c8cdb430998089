"""Runs chains of matrix products and what lies between them panel by panel, so that what lives inside a panel stays in the cache.

A product whose rows belong to different examples, an activation, a softmax, an attention: for a slice of the batch they take nothing but
that slice, and whole parameters. Such ops become one op, `panels`: each panel runs through all of them, in one thread, without waiting for
the others. The values between them are as large as one panel. Sums over the batch are split: each panel leaves its part. Where one panel
is still too large for the cache, it is split again (the heads of an attention).

Which ops, and how many panels, follows from a small cost model: bytes that do not go through memory any more, against whole operands that
every panel reads again.

Before:
    graph @net(%x: f32[512,64], %w: f32[64,2048], %u: f32[2048,64]) {
      %h: f32[512,2048] = matmul %x, %w {transpose_a=false, transpose_b=false}
      %a: f32[512,2048] = relu %h
      %y: f32[512,64] = matmul %a, %u {transpose_a=false, transpose_b=false}
      %s: f32[64] = reduce_sum %y {axes=(0,)}
      return %s
    }
After:
    graph @net(%x: f32[512,64], %w: f32[64,2048], %u: f32[2048,64]) {
      %0: f32[8,64] = panels %x, %w, %u {count=8, shapes=((8, 64),), sliced=(true, false, false)} [
        graph @panel(%x: f32[64,64], %w: f32[64,2048], %u: f32[2048,64]) {
          %h: f32[64,2048] = matmul %x, %w {transpose_a=false, transpose_b=false}
          %a: f32[64,2048] = relu %h
          %y: f32[64,64] = matmul %a, %u {transpose_a=false, transpose_b=false}
          %0: f32[64] = reduce_sum %y {axes=(0,)}
          return %0
        }
      ]
      %s: f32[64] = reduce_sum %0 {axes=(0,)}
      return %s
    }
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.ops import panels, reduce_sum
from adjit.ir.ops.control_flow import CONTROL_FLOW
from adjit.ir.types import TensorType
from adjit.passes.made_again import made_again
from adjit.passes.options import Options
from adjit.passes.panel_axes import Axes, batch_axes, loop_axes
from adjit.passes.panel_cuts import OpCut, PanelCuts
from adjit.passes.panel_region import PanelRegion
from adjit.passes.panel_rules import Needs, batches_before, is_divisible, is_dropped, is_free, summed_axes
from adjit.passes.regions import in_regions

MOST_PANELS = 64

ROUNDS = 8
"""Most times that ops are left outside one after the other before an axis is given up."""

FEWEST_PANELS = 2

FEWEST_ROWS = 16
"""Rows of a product in a panel, below which its tiles wait for their operands."""

RUN_BYTES = 1 << 15
"""What a core moves while it would wait for the others between two runs of a loop."""

FEWER_BYTES = 4
"""How many times smaller than the operands the parts of a product over the batch have to be, all together."""


def split_into_panels(graph: Graph, options: Options) -> Graph:
    """Gather ops into `panels`; the same graph where that gains nothing, or where `options.cache_bytes` is None."""
    return graph if options.cache_bytes is None else _split_regions(_split_loops(graph, options.cache_bytes), options.cache_bytes)


def _split_regions(graph: Graph, cache_bytes: int) -> Graph:
    """The graph, and the loops and branches that are not in panels, split."""
    graph = in_regions(graph, lambda region: _split_regions(region, cache_bytes), CONTROL_FLOW)
    return _split(graph, cache_bytes, 2)


def _split_loops(graph: Graph, cache_bytes: int) -> Graph:
    """The graph with loops that run panel by panel, with all of their runs, where these do not mix the examples of a batch."""
    best: _Split | None = None
    if not any(op.name == "scan" and _has_products(op) for op in graph.ops):
        return graph
    uses = _Uses(graph)
    for axes in loop_axes(graph, FEWEST_PANELS * FEWEST_ROWS):
        cuts = PanelCuts(graph, axes, uses.maker)
        for count in range(FEWEST_PANELS, min(MOST_PANELS, axes.batch // FEWEST_ROWS) + 1):
            split = _Split(uses, cuts, count, cache_bytes) if axes.batch % count == 0 else None
            if split is not None and split.groups and (best is None or split.gain > best.gain):
                best = split
            if split is not None and split.fits:
                break
    return graph if best is None else best.rebuild()


def _has_products(op: Op) -> bool:
    """Whether an op is a product, or a loop with products."""
    return op.definition.kind is Kind.CONTRACTION or (op.name == "scan" and any(map(_has_products, op.regions[0].ops)))


def _split(graph: Graph, cache_bytes: int, least_rank: int) -> Graph:
    """The graph split along an axis of its products of at least this rank, where that gains something."""
    best: _Split | None = None
    if not any(op.definition.kind is Kind.CONTRACTION for op in graph.ops):
        return graph
    uses = _Uses(graph)
    for axes in batch_axes(graph, least_rank):
        lengths = _lengths(graph, axes, least_rank)
        if not lengths:
            continue
        cuts = PanelCuts(graph, axes, uses.maker)
        for count in range(FEWEST_PANELS, MOST_PANELS + 1):
            if not any(length % count == 0 and count <= most for length, most in lengths.items()):
                continue
            split = _Split(uses, cuts, count, cache_bytes)
            if split.groups and (best is None or split.gain > best.gain):
                best = split
            if split.fits and all(length % count == 0 for length in lengths):
                break       # more panels gain no more
    return graph if best is None else best.rebuild()


def describe_panels(before: Graph, after: Graph, options: Options) -> str:
    """What was gathered, and what it saves by the cost model."""
    found = [op for op in after.ops if op.name == "panels"]
    if not found:
        return ""
    inside = sum(v.type.nbytes * op.attrs["count"] for op in found for inner in op.regions[0].ops for v in inner.results
                 if v not in op.regions[0].results and inner.name not in _FREE)
    return "; ".join(f"{op.attrs['count']} panels of {len(op.regions[0].ops)} ops" for op in found) + (
        f"; {inside / 2**20:.3g} MiB stay in the cache")


_FREE = frozenset({"constant", "broadcast", "reshape"})
"""Ops that become part of the kernels that read them, and of each panel that asks for them."""


def _lengths(graph: Graph, axes: Axes, least_rank: int) -> dict[int, int]:
    """The lengths of the axes of products, and the most panels of each that leave one of them enough rows."""
    longest: dict[int, int] = {}
    for op in graph.ops:
        rank = op.results[0].type.rank if op.definition.kind is Kind.CONTRACTION else 0
        axis = axes.get(op.results[0]) if rank >= least_rank else None
        if axis is not None and not (rank == 2 and axis == 0 and op.attrs["transpose_a"]):
            length = op.result.type.shape[axis]
            longest[length] = max(longest.get(length, 0), length if axis < rank - 2 else length // FEWEST_ROWS)
    return longest


@dataclass(slots=True)
class _Group:
    """Ops that run in the panels of one `panels` op, in order; `number` counts the groups that have to be done before."""

    number: int
    ops: list[Op] = field(default_factory=list)
    needs: dict[Op, Needs] = field(default_factory=dict)
    sums: list[Op] = field(default_factory=list)        # reductions and products over the axis, of which panels leave parts
    peak: int = 0                                       # bytes of one panel


class _Uses:
    """Who makes and reads the values of a graph, however it is cut.

    `stored` are the values that lie in memory as a whole, rather than inside a kernel: what other ops than those of kernels make or read.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.maker = producers(graph)
        self.results = set(graph.results)
        self.readers: dict[Value, list[Op]] = {}
        self.stored: set[Value] = set()
        for op in graph.ops:
            for value in op.operands:
                self.readers.setdefault(value, []).append(op)
            if op.name not in _FREE and op.definition.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION):
                self.stored.update(op.operands, op.results)


class _Split:
    """The groups for one axis and one number of panels, and what they gain."""

    def __init__(self, uses: _Uses, cuts: PanelCuts, count: int, cache_bytes: int) -> None:
        self.uses, self.cuts, self.count, self.cache_bytes = uses, cuts, count, cache_bytes
        self.graph, self.axes, self.maker, self.readers = uses.graph, cuts.axes, uses.maker, uses.readers
        self.outside: set[Op] = set()           # ops that cannot be in a group, as panels of theirs would have to lie in memory
        self.needs: dict[Op, Needs] = {}        # of all ops that are in a group
        self.number: dict[Op, int] = {}         # of its group, or, for an op outside, of the first group that may read it
        candidates = self._assign()
        for _ in range(ROUNDS):
            if not self._reach_memory(candidates):
                break
            candidates = self._assign()
        else:
            candidates = []
        gains = {group.number: self._gain(group) for group in candidates}
        self.groups = [group for group in candidates if gains[group.number] > 0]
        self.gain = sum(gains[group.number] for group in self.groups)
        self.fits = bool(candidates) and all(gains[group.number] and group.peak <= cache_bytes / 2 for group in candidates)
        kept = {op for group in self.groups for op in (*group.ops, *group.sums)}
        self.needs = {op: needs for op, needs in self.needs.items() if op in kept}

    # -- which ops

    def _assign(self) -> list[_Group]:
        self.needs.clear()
        self.number.clear()
        groups: dict[int, _Group] = {}
        for cut in self.cuts.ops:
            op = cut.op
            needs = self._needs(cut)
            ready = 0           # the first group in which the operands are known, as panels or as wholes
            for maker, axis in zip(cut.makers, needs or (None,) * len(cut.makers), strict=True):
                if maker is not None:
                    ready = max(ready, self.number[maker] + (axis is None and maker in self.needs))
            self.number[op] = ready
            if needs is not None:
                self.needs[op] = needs
        for op in reversed(self.graph.ops):
            if op.role is not Role.PRIMAL and op in self.needs:     # where it is read: before, it would have to be kept until then
                latest = min((self._wanted(reader, value) for value in op.results for reader in self.readers.get(value, ())), default=0)
                self.number[op] = max(self.number[op], latest)
        for op in self.graph.ops:
            if op in self.needs:
                group = groups.setdefault(self.number[op], _Group(self.number[op]))
                group.needs[op] = self.needs[op]
                group.ops.append(op)
        for op in self.graph.ops:
            number = self._leaves_parts(op)
            if number is not None:
                groups[number].sums.append(op)
        found = [group for group in groups.values() if self._has_products(group)]
        for group in found:
            self._drop_strangers(group)
        return found

    def _needs(self, cut: OpCut) -> Needs | None:
        """What a panel of the op's result takes, where all of that is there: panels of values outside lie in memory only along the first
        axis."""
        needs = cut.needs_for(self.count)
        if needs is None or cut.is_free(self.count) or cut.op in self.outside:
            return None
        for value, maker, axis in zip(cut.op.operands, cut.makers, needs, strict=True):
            if axis is not None and not self._has_panels(value, maker, axis):
                return None
        return needs

    def _has_panels(self, value: Value, maker: Op | None, axis: int) -> bool:
        if maker is not None and maker in self.needs:
            return self.axes[value] == axis
        return axis == 0 or bool(self.axes.batch) or self._is_made_inside(value, axis)

    def _reach_memory(self, groups: Iterable[_Group]) -> bool:
        """Whether panels along another axis than the first would have to be read or written outside; then what reads or makes them has to
        stay there. (What loops read and give there is copied.)"""
        if self.axes.batch:
            return False
        before = len(self.outside)
        for group in groups:
            for op in group.ops:
                read = (cut and self.maker.get(v) not in group.needs and not is_free(self.maker[v], cut, self.count)
                        for v, cut in zip(op.operands, group.needs[op], strict=True))
                if (self.axes[op.result] and self._is_wanted(op.result, group)) or any(read):
                    self.outside.add(op)
        return len(self.outside) > before

    def _drop_strangers(self, group: _Group) -> None:
        """Leave out what has no connection with a product of the group: updates of parameters that happen to be as long."""
        near: set[Value] = set()
        touched = []
        if self.axes.batch:
            near.update(value for op in group.sums if op.definition.kind is Kind.CONTRACTION for value in op.operands)
        for op in group.ops:
            values = [*op.results, *(v for v, cut in zip(op.operands, group.needs[op], strict=True)
                                     if cut is not None and self.maker.get(v) in group.needs)]
            touched.append(values)
            if _has_products(op):
                near.update(values)
        for in_order in (touched, touched[::-1]) * 2:
            for values in in_order:
                if not near.isdisjoint(values):
                    near.update(values)
        kept = [op for op in group.ops if not near.isdisjoint(op.results)]
        for op in set(group.ops) - set(kept):
            del self.needs[op], group.needs[op]
        group.ops = kept
        group.sums = [op for op in group.sums if all(self.maker.get(v) in group.needs or v not in self.maker for v in op.operands)]

    def _wanted(self, reader: Op, value: Value) -> int:
        """The last group that can make `value` for `reader`."""
        needs = self.needs.get(reader)
        cut = needs is not None and all(axis is not None for v, axis in zip(reader.operands, needs, strict=True) if v is value)
        return self.number[reader] - (not cut)

    def _leaves_parts(self, op: Op) -> int | None:
        """The number of the group that leaves parts of a sum, where that is best: what it adds up is made in panels."""
        if op in self.needs:
            return None
        if op.definition.kind is Kind.REDUCTION:
            (value,) = op.operands
            maker = self.maker.get(value)
            return self.number[maker] if maker is not None and maker in self.needs and self.axes[value] in op.attrs["axes"] else None
        inner = summed_axes(op)
        if inner is None or self.count * op.result.type.nbytes * FEWER_BYTES > sum(value.type.nbytes for value in op.operands):
            return None
        numbers = set()
        for value, cut in zip(op.operands, inner, strict=True):
            maker = self.maker.get(value)
            if not is_divisible(value.type, cut, self.count) or is_dropped(value.type, cut, self.count):
                return None
            if maker is not None and maker in self.needs and self.axes[value] == cut:
                numbers.add(self.number[maker])
            elif maker is not None or cut:
                return None
        return numbers.pop() if len(numbers) == 1 else None

    def _has_products(self, group: _Group) -> bool:
        products = [op for op in group.ops if _has_products(op)]
        return bool(products) and min(map(self._rows, products)) >= FEWEST_ROWS and (
            not self.axes.batch or any(op in self.axes.loops for op in products))

    def _rows(self, op: Op) -> int:
        """Rows of a product in a panel, or columns where these are divided."""
        if self.axes.batch:
            return self.axes.batch // self.count
        axis, shape = self.axes[op.result], op.result.type.shape
        return shape[axis] // self.count if axis >= len(shape) - 2 else shape[-2]

    # -- what is gained

    def _gain(self, group: _Group) -> float:
        """Bytes that do not go through memory any more, less those of whole operands that panels read again; 0 where panels do not fit.
        Sets `peak`."""
        stored = {value for op in group.ops for value in op.results if value in self.uses.stored}
        group.peak = self._peak(group, stored)
        saved = 2.0 * sum(value.type.nbytes for value in stored if not self._is_wanted(value, group))
        saved -= 2.0 * self.count * sum(op.result.type.nbytes for op in group.sums if op.definition.kind is Kind.CONTRACTION)
        saved += float(RUN_BYTES) * sum(int(op.attrs["length"]) for op in group.ops if op in self.axes.loops)
        carried = sum(op.results[index - op.attrs["carries"]].type.nbytes
                      for op in group.ops if op in self.axes.loops for index in self.axes.loops[op].sums)
        if carried > self.cache_bytes / 4:
            return 0.0      # every run of every panel would read and write it all
        whole: dict[Value, int] = {}       # and how often each panel reads it
        for op in group.ops:
            for value, cut in zip(op.operands, group.needs[op], strict=True):
                if cut is None:
                    whole[value] = max(whole.get(value, 0), op.attrs["length"] if op in self.axes.loops else 1)
        saved -= 2.0 * sum(value.type.nbytes for value in self._copied(group))
        again: int = sum(value.type.nbytes * times for value, times in whole.items())
        if sum(value.type.nbytes for value in whole) > self.cache_bytes / 2:
            saved -= float(again) * (self.count - 1)
        if saved < self.cache_bytes or group.peak + self._inside_loops(group) > 2 * self.cache_bytes:
            return 0.0      # so little stays in the cache anyway; so much does not
        return saved * min(1.0, self.cache_bytes / 2 / max(group.peak, 1))      # what does not fit beside the whole operands comes back

    def _peak(self, group: _Group, stored: set[Value]) -> int:
        """The most bytes of a panel that are alive at once."""
        last = {value: index for index, op in enumerate(group.ops) for value in op.operands}
        alive = peak = 0
        ending: dict[int, int] = {}
        for index, op in enumerate(group.ops):
            for value in stored.intersection(op.results):
                size = value.type.nbytes // self.count
                alive += size
                end = last.get(value, index)
                ending[end] = ending.get(end, 0) + size
            peak = max(peak, alive)
            alive -= ending.get(index, 0)
        return peak

    def _copied(self, group: _Group) -> set[Value]:
        """What is brought into another order outside, as panels of it do not lie in one piece."""
        if not self.axes.batch:
            return set()
        ends = {(value, self.axes[value]) for op in group.ops for value in op.results
                if value in self.axes and self._is_wanted(value, group)}
        ends.update((value, cut) for op in group.ops for value, cut in zip(op.operands, group.needs[op], strict=True)
                    if cut is not None and self.maker.get(value) not in group.needs and not self._is_made_inside(value, cut))
        return {value for value, axis in ends if batches_before(value.type, axis, self.axes.batch) > 1}

    def _is_made_inside(self, value: Value, axis: int) -> bool:
        return value in self.maker and is_free(self.maker[value], axis, self.count)

    def _inside_loops(self, group: _Group) -> int:
        """No more bytes than the bodies of loops take for one panel."""
        return sum(value.type.nbytes // (self.count if value in self.axes.loops[op].body else 1)
                   for op in group.ops if op in self.axes.loops
                   for inner in op.regions[0].ops if inner.name not in _FREE for value in inner.results)

    def _is_wanted(self, value: Value, group: _Group) -> bool:
        """Whether anything outside of the group reads the value."""
        return value in self.uses.results or any(op not in group.needs and op not in group.sums for op in self.readers.get(value, ()))

    # -- the new graph

    def rebuild(self) -> Graph:
        """The graph with a `panels` op for each group."""
        grouped = {op for group in self.groups for op in (*group.ops, *group.sums)}
        rest: dict[int, list[Op]] = {}
        for op in self.graph.ops:
            if op not in grouped:
                rest.setdefault(self.number[op], []).append(op)
        by_number = {group.number: group for group in self.groups}
        new: list[Op] = []
        for number in sorted(rest.keys() | by_number.keys()):
            new += rest.get(number, [])
            if number in by_number:
                new += self._panels(by_number[number])
        return self.graph.with_ops(_without_dead_views(new, self.graph.results))

    def _panels(self, group: _Group) -> list[Op]:
        """The op that runs the group, and those that add up the parts it leaves."""
        region = PanelRegion(self.axes, self.count, self.maker, {op: group.needs[op] for op in group.ops})
        results = [value for op in group.ops for value in op.results if value in self.axes and self._is_wanted(value, group)]
        again = made_again(self.graph, results, self.maker, group.needs)
        results = [value for value in dict.fromkeys((*results, *again.small)) if value not in again.values]
        inner = [region.result(value) for value in results]
        given = [region.joined(value) for value in results]
        parts, sums = [], [(op.result, region.part(op), op) for op in group.sums]
        sums += [(value, part, self.maker[value]) for value, part in region.sums.items() if self._is_wanted(value, group)]
        for _, part, _ in sums:
            parts.append(Value(TensorType(part.type.dtype, (self.count, *part.type.shape))))
            inner.append(part)
        graph = Graph("panel", tuple(region.params), tuple(region.ops), tuple(inner))
        if group.peak > self.cache_bytes / 2 and not self.axes.batch:
            graph = _split(graph, self.cache_bytes, 3)     # by the heads of an attention: rows alone would not make it much smaller
        last = group.ops[-1]
        outer = (*(value for value, _ in given), *parts)
        attrs = {"count": self.count, "sliced": tuple(region.sliced), "shapes": tuple(value.type.shape for value in outer)}
        made = [*region.before, Op(panels, tuple(region.operands), outer, attrs, (graph,)), *(op for _, turned in given for op in turned)]
        made = [replace(op, loc=last.loc, role=last.role) for op in made]
        for (value, _, op), part in zip(sums, parts, strict=True):
            total = op.definition if op.definition.kind is Kind.REDUCTION else reduce_sum
            made.append(Op(total, (part,), (value,), {"axes": (0,)}, (), op.loc, op.role))
        return made + again.ops


def _without_dead_views(new: Iterable[Op], results: Iterable[Value]) -> list[Op]:
    """The ops without views that nobody reads any more, as panels made their own."""
    wanted = set(results)
    kept = []
    for op in reversed(list(new)):
        if op.name not in _FREE or not wanted.isdisjoint(op.results):
            kept.append(op)
            wanted.update(op.operands)
    return kept[::-1]
