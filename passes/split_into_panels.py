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
from dataclasses import field

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops import panels
from adjit.ir.types import TensorType
from adjit.passes.options import Options
from adjit.passes.panel_rules import Needs, is_divisible, panel_attributes, panel_needs, panel_type

MOST_PANELS = 64

FEWEST_PANELS = 2

FEWEST_ROWS = 16
"""Rows of a product in a panel, below which its tiles wait for their operands."""


def split_into_panels(graph: Graph, options: Options) -> Graph:
    """Gather ops into `panels`; the same graph where that gains nothing, or where `options.cache_bytes` is None."""
    return graph if options.cache_bytes is None else _split(graph, options.cache_bytes, 2)


def _split(graph: Graph, cache_bytes: int, least_rank: int) -> Graph:
    """The graph split along the first axis of its products of at least this rank, where that gains something."""
    best: _Split | None = None
    for count in _counts(graph, least_rank):
        split = _Split(graph, count, cache_bytes)
        if split.groups and (best is None or split.gain > best.gain):
            best = split
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


def _counts(graph: Graph, least_rank: int) -> list[int]:
    """Numbers of panels that fit at least one product, the fewest first."""
    longest: dict[int, int] = {}        # by the length of the first axis, the most panels that leave products enough rows
    for op in graph.ops:
        rank = op.results[0].type.rank if op.definition.kind is Kind.CONTRACTION else 0
        if rank >= least_rank and not (rank == 2 and op.attrs["transpose_a"]):
            length = op.result.type.shape[0]
            longest[length] = max(longest.get(length, 0), length if rank > 2 else length // FEWEST_ROWS)
    return [count for count in range(FEWEST_PANELS, MOST_PANELS + 1)
            if any(length % count == 0 and count <= most for length, most in longest.items())]


@dataclass(slots=True)
class _Group:
    """Ops that run in the panels of one `panels` op, in order; `number` counts the groups that have to be done before."""

    number: int
    ops: list[Op] = field(default_factory=list)
    needs: dict[Op, Needs] = field(default_factory=dict)
    sums: list[Op] = field(default_factory=list)        # reductions over the first axis, of which panels leave parts
    peak: int = 0                                       # bytes of one panel


class _Split:
    """The groups for one number of panels, and what they gain."""

    def __init__(self, graph: Graph, count: int, cache_bytes: int) -> None:
        self.graph, self.count, self.cache_bytes = graph, count, cache_bytes
        self.maker = {value: op for op in graph.ops for value in op.results}
        self.readers: dict[Value, list[Op]] = {}
        for op in graph.ops:
            for value in op.operands:
                self.readers.setdefault(value, []).append(op)
        self.needs: dict[Op, Needs] = {}        # of all ops that are in a group
        self.number: dict[Op, int] = {}         # of its group, or, for an op outside, of the first group that may read it
        candidates = self._assign()
        gains = {group.number: self._gain(group) for group in candidates}
        self.groups = [group for group in candidates if gains[group.number] > 0]
        self.gain = sum(gains[group.number] for group in self.groups)
        kept = {op for group in self.groups for op in (*group.ops, *group.sums)}
        self.needs = {op: needs for op, needs in self.needs.items() if op in kept}

    # -- which ops

    def _assign(self) -> list[_Group]:
        groups: dict[int, _Group] = {}
        for op in self.graph.ops:
            needs = None if self._is_free(op) else panel_needs(op, self.count)
            self.number[op] = max((self._ready(value, cut) for value, cut in
                                   zip(op.operands, needs or (False,) * len(op.operands), strict=True)), default=0)
            if needs is not None:
                self.needs[op] = needs
        for op in reversed(self.graph.ops):
            if op.role is not Role.PRIMAL and op in self.needs:     # where it is read: before, it would have to be kept until then
                latest = min((self._wanted(reader, op.result) for reader in self.readers.get(op.result, ())), default=0)
                self.number[op] = max(self.number[op], latest)
        for op in self.graph.ops:
            if op in self.needs:
                group = groups.setdefault(self.number[op], _Group(self.number[op]))
                group.needs[op] = self.needs[op]
                group.ops.append(op)
        for op in self.graph.ops:
            if self._leaves_parts(op):
                groups[self.number[self.maker[op.operands[0]]]].sums.append(op)
        for group in groups.values():
            self._drop_strangers(group)
        return [group for group in groups.values() if self._has_products(group)]

    def _drop_strangers(self, group: _Group) -> None:
        """Leave out what has no connection with a product of the group: updates of parameters that happen to be as long."""
        near: set[Value] = set()
        for ops_in_order in (group.ops, group.ops[::-1]) * 2:
            for op in ops_in_order:
                touched = {*op.results, *(v for v, cut in zip(op.operands, group.needs[op], strict=True) if cut)}
                if op.definition.kind is Kind.CONTRACTION or not near.isdisjoint(touched):
                    near.update(v for v in touched if self.maker.get(v) in group.needs)
        kept = [op for op in group.ops if not near.isdisjoint(op.results)]
        for op in set(group.ops) - set(kept):
            del self.needs[op], group.needs[op]
        group.ops = kept
        group.sums = [op for op in group.sums if self.maker[op.operands[0]] in group.needs]

    def _ready(self, value: Value, cut: bool) -> int:
        """The first group in which `value` is known, as a panel (`cut`) or as a whole."""
        op = self.maker.get(value)
        if op is None:
            return 0
        return self.number[op] + (op in self.needs and not cut)

    def _wanted(self, reader: Op, value: Value) -> int:
        """The last group that can make `value` for `reader`."""
        cut = reader in self.needs and all(flag for v, flag in zip(reader.operands, self.needs[reader], strict=True) if v is value)
        return self.number[reader] - (not cut)

    def _is_free(self, op: Op) -> bool:
        """Whether each panel may make a copy of its own: numbers, and whole values that repeat along the first axis."""
        return op.name == "constant" or (op.name == "broadcast" and is_divisible(op.result.type, self.count)
                                         and panel_needs(op, self.count) == (False,))

    def _leaves_parts(self, op: Op) -> bool:
        """Whether a reduction over the first axis is best split: what it adds up is made in panels."""
        maker = self.maker.get(op.operands[0]) if op.definition.kind is Kind.REDUCTION else None
        return maker in self.needs and 0 in op.attrs["axes"]

    def _has_products(self, group: _Group) -> bool:
        products = [op for op in group.ops if op.definition.kind is Kind.CONTRACTION]
        rows = (op.result.type.shape[0] // self.count if op.result.type.rank == 2 else op.result.type.shape[-2] for op in products)
        return bool(products) and min(rows) >= FEWEST_ROWS

    # -- what is gained

    def _gain(self, group: _Group) -> float:
        """Bytes that do not go through memory any more, less those of whole operands that panels read again; 0 where panels do not fit.
        Sets `peak`."""
        stored = {value for op in group.ops for value in op.results if self._is_stored(value)}
        group.peak = self._peak(group, stored)
        saved = 2.0 * sum(value.type.nbytes for value in stored if not self._is_wanted(value, group))
        whole = {value for op in group.ops for value, cut in zip(op.operands, group.needs[op], strict=True) if not cut}
        again = sum(value.type.nbytes for value in whole)
        if again > self.cache_bytes / 2:
            saved -= float(again) * (self.count - 1)
        if saved < self.cache_bytes or group.peak > 2 * self.cache_bytes:
            return 0.0      # so little stays in the cache anyway; so much does not
        return saved * min(1.0, self.cache_bytes / 2 / max(group.peak, 1))      # what does not fit beside the whole operands comes back

    def _is_stored(self, value: Value) -> bool:
        """Whether a value lies in memory as a whole, rather than inside a kernel: what other ops than those of kernels make or read."""
        return any(op.name not in _FREE and op.definition.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION)
                   for op in (self.maker[value], *self.readers.get(value, ())))

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

    def _is_wanted(self, value: Value, group: _Group) -> bool:
        """Whether anything outside of the group reads the value."""
        return value in self.graph.results or any(op not in group.needs and op not in group.sums for op in self.readers.get(value, ()))

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
        region = _Region(self, group)
        results = [value for op in group.ops for value in op.results if self._is_wanted(value, group)]
        inner = [region.mapping[value] for value in results]
        parts = []
        for op in group.sums:
            part = region.part(op)
            parts.append(Value(TensorType(part.type.dtype, (self.count, *part.type.shape))))
            inner.append(part)
        graph = Graph("panel", tuple(region.params), tuple(region.ops), tuple(inner))
        if group.peak > self.cache_bytes / 2:
            graph = _split(graph, self.cache_bytes, 3)     # by the heads of an attention: rows alone would not make it much smaller
        last = group.ops[-1]
        outer = (*results, *parts)
        attrs = {"count": self.count, "sliced": tuple(region.sliced), "shapes": tuple(value.type.shape for value in outer)}
        made = [Op(panels, tuple(region.operands), outer, attrs, (graph,), last.loc, last.role)]
        for op, part in zip(group.sums, parts, strict=True):
            made.append(Op(op.definition, (part,), op.results, {"axes": (0,)}, (), op.loc, op.role))
        return made


class _Region:
    """The graph of one panel, under construction."""

    def __init__(self, split: _Split, group: _Group) -> None:
        self.split, self.group = split, group
        self.params: list[Value] = []
        self.operands: list[Value] = []
        self.sliced: list[bool] = []
        self.ops: list[Op] = []
        self.mapping: dict[Value, Value] = {}       # what is known as a panel
        self.whole: dict[Value, Value] = {}         # and as a whole
        for op in group.ops:
            self.add(op, group.needs[op])

    def add(self, op: Op, needs: Needs) -> Value:
        operands = tuple(self.panel(value) if cut else self.entire(value) for value, cut in zip(op.operands, needs, strict=True))
        result = Value(panel_type(op.result.type, self.split.count), op.result.name)
        self.ops.append(Op(op.definition, operands, (result,), panel_attributes(op, self.split.count), op.regions, op.loc, op.role))
        self.mapping[op.result] = result
        return result

    def panel(self, value: Value) -> Value:
        """A panel of `value`: made here, or an operand that is sliced."""
        if value in self.mapping:
            return self.mapping[value]
        maker = self.split.maker.get(value)
        if maker is not None and self.split._is_free(maker):
            return self.add(maker, (False,) * len(maker.operands))
        self.mapping[value] = self.param(value, Value(panel_type(value.type, self.split.count), value.name), True)
        return self.mapping[value]

    def entire(self, value: Value) -> Value:
        if value not in self.whole:
            self.whole[value] = self.param(value, Value(value.type, value.name), False)
        return self.whole[value]

    def param(self, outer: Value, inner: Value, cut: bool) -> Value:
        self.params.append(inner)
        self.operands.append(outer)
        self.sliced.append(cut)
        return inner

    def part(self, op: Op) -> Value:
        """What one panel adds to a reduction over the first axis."""
        operand = self.mapping[op.operands[0]]
        dropped = op.operands[0].type.rank - operand.type.rank
        axes = tuple(axis - dropped for axis in op.attrs["axes"] if axis >= dropped)
        if not axes:
            return operand
        (result,) = (Value(inferred) for inferred in op.definition.result_types([operand.type], {"axes": axes}))
        self.ops.append(Op(op.definition, (operand,), (result,), {"axes": axes}, (), op.loc, op.role))
        return result


def _without_dead_views(new: Iterable[Op], results: Iterable[Value]) -> list[Op]:
    """The ops without views that nobody reads any more, as panels made their own."""
    wanted = set(results)
    kept = []
    for op in reversed(list(new)):
        if op.name not in _FREE or not wanted.isdisjoint(op.results):
            kept.append(op)
            wanted.update(op.operands)
    return kept[::-1]
