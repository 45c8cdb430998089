"""Tiles the gradient of a weight and its update by rows, in one op, so that the gradient never lies in memory.

The gradient of a weight is a product over the batch, `A^T G`. A block of its rows needs the same columns of A and all of G; the elementwise
ops that follow (an optimiser's update) need the same rows of their other operands. So the product and these ops become one op, `tiled`: the
rows of a gradient are still in the cache when the update reads them, on the core that computed them.

Before:
    graph @step(%x: f32[64,512], %g: f32[64,1024], %p: f32[512,1024]) {
      %w: f32[512,1024] = matmul %x, %g {transpose_a=true, transpose_b=false}
      %r: f32[512,1024] = constant {dtype=f32, shape=(512, 1024), value=0.5}
      %d: f32[512,1024] = multiply %w, %r
      %n: f32[512,1024] = subtract %p, %d
      return %n
    }
After:
    graph @step(%x: f32[64,512], %g: f32[64,1024], %p: f32[512,1024]) {
      %n: f32[512,1024] = tiled %x, %g, %p {count=32, shapes=((512, 1024),), sliced=(true, false, true)} [
        graph @rows(%x: f32[64,16], %g: f32[64,1024], %p: f32[16,1024]) {
          %w: f32[16,1024] = matmul %x, %g {transpose_a=true, transpose_b=false}
          %r: f32[16,1024] = constant {dtype=f32, shape=(16, 1024), value=0.5}
          %d: f32[16,1024] = multiply %w, %r
          %n: f32[16,1024] = subtract %p, %d
          return %n
        }
      ]
      return %n
    }
"""

from __future__ import annotations

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Attributes, Graph, Op, Value, producers, readers
from adjit.ir.ops import tiled
from adjit.ir.types import Shape, TensorType, is_float
from adjit.passes.options import Options
from adjit.passes.simplify.dead_code import eliminate_dead_code

MIN_TILES = 8
"""Fewest tiles, so that threads can share them evenly."""

MIN_TILE_ROWS = 16

MATMUL_TILE_ROWS = 8
"""Rows that products compute at a time; tile heights are multiples of it if possible."""


def tile_weight_updates(graph: Graph, options: Options) -> Graph:
    """Gather gradients of weights and their updates into `tiled`; the same graph if `options.cache_bytes` is None."""
    if options.cache_bytes is None:
        return graph
    uses = None
    for matmul in graph.ops:
        if matmul.name == "matmul" and matmul.attrs["transpose_a"] and matmul.result.type.rank == 2:
            count = _count(matmul, options.cache_bytes)
            if count:
                uses = uses or _DefUses(graph)
                update = _find(matmul, uses)
                if update is not None:
                    graph = _rebuild(uses, update, count)
                    uses = None
    return eliminate_dead_code(graph, options)      # without the views that tiles have made their own


def describe_updates(before: Graph, after: Graph, options: Options) -> str:
    """Number, size and tiles of the gradients that never lie in memory."""
    kept = set(before.ops)
    found = [op for op in after.ops if op.name == "tiled" and op not in kept]
    nbytes = sum(op.attrs["count"] * inner.result.type.nbytes for op in found for inner in op.regions[0].ops if inner.name == "matmul")
    gradients = f"{len(found)} gradient{'s' * (len(found) > 1)} of {nbytes / 2**20:.3g} MiB"
    return f"{gradients} and the updates by rows, in {', '.join(str(op.attrs['count']) for op in found)} tiles" if found else ""


def _count(matmul: Op, cache_bytes: int) -> int:
    """Tile count of a product; 0 if tiles gain nothing or would have too few rows.

    The rows of a tile take a fraction of the cache, as an update reads other operands too. The whole operand, which every tile reads, has
    to stay in the cache as well.
    """
    (rows, _), nbytes = matmul.result.type.shape, matmul.result.type.nbytes
    if not is_float(matmul.result.type.dtype) or matmul.operands[1].type.nbytes > cache_bytes / 2 or nbytes < cache_bytes / 8:
        return 0
    min_count = max(MIN_TILES, -(-nbytes * 16 // cache_bytes))
    counts = [count for count in range(min_count, rows // MIN_TILE_ROWS + 1) if rows % count == 0]
    return next((count for count in counts if rows // count % MATMUL_TILE_ROWS == 0), counts[0] if counts else 0)


class _DefUses:
    """Graph with the producers and readers of its values."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.results = set(graph.results)
        self.position = {op: index for index, op in enumerate(graph.ops)}
        self.producer = producers(graph)
        self.readers = readers(graph.ops)

    def is_from_contraction(self, value: Value) -> bool:
        """True if a product, or an op with a region, makes the value."""
        return value in self.producer and self.producer[value].definition.kind in (Kind.CONTRACTION, Kind.REGION)

    def is_used_outside(self, value: Value, members: set[Op]) -> bool:
        """True if an op outside `members` reads the value."""
        return value in self.results or any(op not in members for op in self.readers.get(value, ()))


@dataclass(frozen=True, slots=True)
class _Update:
    """Product with the elementwise ops that follow it, and ops that only these read. `later` holds ops that depend on a member without
    being one; they come after all members."""

    matmul: Op
    members: set[Op]
    later: set[Op]


def _find(matmul: Op, uses: _DefUses) -> _Update | None:
    """Elementwise ops from a product to results of the graph; None if the product is needed as a whole, or if other products would have to
    wait for this one in memory."""
    shape, graph = matmul.result.type.shape, uses.graph

    def has_same_shape(op: Op) -> bool:
        return op.definition.kind is Kind.ELEMENTWISE and op.result.type.shape == shape

    if matmul.result in uses.results or not all(map(has_same_shape, uses.readers.get(matmul.result, ()))):
        return None
    members, later = {matmul}, set[Op]()
    inside, outside = {matmul.result}, set[Value]()
    pending = set[Value]()
    for op in graph.ops[uses.position[matmul] + 1:]:
        if outside.isdisjoint(op.operands) and not inside.isdisjoint(op.operands) and has_same_shape(op):
            members.add(op)
            inside.update(op.results)
            pending.update(value for value in op.operands if value not in inside and uses.is_from_contraction(value))
            if len(pending) > 1:
                return None
        elif not (inside.isdisjoint(op.operands) and outside.isdisjoint(op.operands)):
            later.add(op)
            outside.update(op.results)
    if not all(op.result in uses.results for op in members if uses.is_used_outside(op.result, members)):
        return None
    worklist = list(members - {matmul})
    while worklist:
        for value in worklist.pop().operands:
            producer = uses.producer.get(value)
            if producer is not None and producer not in members and has_same_shape(producer) and not uses.is_used_outside(value, members) \
                    and not any(map(uses.is_from_contraction, producer.operands)):
                members.add(producer)
                worklist.append(producer)
    return _Update(matmul, members, later) if len(members) > 1 else None


def _rebuild(uses: _DefUses, update: _Update, count: int) -> Graph:
    """Graph with one op for all members."""
    ops, members = uses.graph.ops, update.members
    last = max(uses.position[op] for op in members)
    before = [op for op in ops[:last] if op not in members and op not in update.later]
    delayed = [op for op in ops[:last] if op in update.later]
    return uses.graph.with_ops([*before, _tiled_op(uses, update, count), *delayed, *ops[last + 1:]])


def _tiled_op(uses: _DefUses, update: _Update, count: int) -> Op:
    members = sorted(update.members, key=uses.position.__getitem__)
    rows = _TileBody(uses, update.matmul, count)
    for op in members:
        rows.add(op)
    results = tuple(op.result for op in members if uses.is_used_outside(op.result, update.members))
    region = Graph("rows", tuple(rows.params.values()), tuple(rows.ops), tuple(rows.inner[value] for value in results))
    attrs = {"count": count, "sliced": tuple(rows.sliced), "shapes": tuple(value.type.shape for value in results)}
    last = members[-1]
    return Op(tiled, tuple(value for value, _ in rows.params), results, attrs, (region,), last.loc, last.role)


class _TileBody:
    """Graph of one tile of rows, under construction."""

    def __init__(self, uses: _DefUses, matmul: Op, count: int) -> None:
        self.uses, self.matmul = uses, matmul
        length, columns = matmul.result.type.shape
        self.shape = (length // count, columns)
        self.params: dict[tuple[Value, Shape], Value] = {}      # by the outer value, and the shape of its block
        self.sliced: list[bool] = []
        self.inner: dict[Value, Value] = {}
        self.ops: list[Op] = []

    def add(self, op: Op) -> None:
        if op is self.matmul:
            a, b = op.operands
            self.append(op, (self.param(a, (a.type.shape[0], self.shape[0]), True), self.param(b, b.type.shape, False)), op.attrs)
        else:
            self.append(op, tuple(self.rows_of(value) for value in op.operands), op.attrs)

    def rows_of(self, value: Value) -> Value:
        """Rows of `value`: made in the region, a view of a whole operand, or a sliced operand."""
        producer = self.uses.producer.get(value)
        if value not in self.inner and producer is not None and (
                producer.definition.uniform or (producer.name == "broadcast" and 0 not in producer.attrs["axes"])):
            operands = tuple(self.param(v, v.type.shape, False) for v in producer.operands)
            self.append(producer, operands, {**producer.attrs, "shape": self.shape})
        return self.inner.get(value) or self.param(value, self.shape, True)

    def append(self, op: Op, operands: tuple[Value, ...], attrs: Attributes) -> None:
        result = self.inner[op.result] = Value(TensorType(op.result.type.dtype, self.shape), op.result.name)
        self.ops.append(Op(op.definition, operands, (result,), attrs, (), op.loc, op.role))

    def param(self, value: Value, part: Shape, cut: bool) -> Value:
        if (value, part) not in self.params:
            self.params[value, part] = Value(TensorType(value.type.dtype, part), value.name)
            self.sliced.append(cut)
        return self.params[value, part]
