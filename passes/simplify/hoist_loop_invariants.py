"""Moves work out of loops: loop-invariant values are computed once, and products of all iterations become one product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Op, Value, live_ops, number_of, producers, use_counts
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.ir.types import Shape
from adjit.passes.autodiff.reverse_ad import append_copy
from adjit.passes.options import Options

HOISTED_FROM = CONTROL_FLOW - {"panels"}        # what panels share was taken out when they were made
CHEAP_TO_REPEAT = (Kind.CREATION, Kind.MOVEMENT)
NEVER_HOISTED = (Kind.INDEXING, Kind.REGION)      # they may fail, or run long, even if the loop has no iteration


def hoist_loop_invariants(graph: Graph, options: Options) -> Graph:
    """Move ops out of the bodies of loops.

    To before the loop: ops that depend on no carried or sliced value; and the product of a slice with such a loop-invariant matrix, which
    becomes one product for all slices. To behind the loop: the sum over all iterations of products `transpose(a) @ b`, which becomes one
    product of the stacked factors if that moves less memory than the sum (so do outer products of vectors); the sum of rows of such a
    factor; and rows that are products of another row. A matrix that every iteration transposes is transposed once, before the loop.
    Constants move the other way, into the body.

    Before:
        graph @f(%x: f32[9,8,4], %w: f32[4,4], %h: f32[8,4]) {
          %last: f32[8,4] = scan %h, %x, %w {carries=1, length=9, reverse=false, scratch_bytes=0, slices=1} [
            graph @step(%h: f32[8,4] carried, %x: f32[8,4], %w: f32[4,4]) {
              %p: f32[8,4] = matmul %x, %w {transpose_a=false, transpose_b=false}
              %n: f32[8,4] = add %h, %p
              return %n
            }
          ]
          return %last
        }

    After:
        graph @f(%x: f32[9,8,4], %w: f32[4,4], %h: f32[8,4]) {
          %0: f32[72,4] = reshape %x {shape=(72, 4)}
          %1: f32[72,4] = matmul %0, %w {transpose_a=false, transpose_b=false}
          %2: f32[9,8,4] = reshape %1 {shape=(9, 8, 4)}
          %last: f32[8,4] = scan %h, %x, %2, %w {carries=1, length=9, reverse=false, scratch_bytes=0, slices=2} [
            graph @step(%h: f32[8,4] carried, %x: f32[8,4], %p: f32[8,4], %w: f32[4,4]) {
              %n: f32[8,4] = add %h, %p
              return %n
            }
          ]
          return %last
        }
    """
    if not any(op.name in HOISTED_FROM for op in graph.ops):
        return graph
    builder = GraphBuilder(graph.name)
    values = {value: builder.param(value.type, value.name, role) for value, role in zip(graph.params, graph.param_roles, strict=True)}
    producer = producers(graph)
    changed = False
    with emitting(builder):
        for op in graph.ops:
            operands = tuple(values[value] for value in op.operands)
            if op.name not in HOISTED_FROM:
                results = append_copy(builder, op, operands, op.regions)
            else:
                body = _Body(builder, op, operands, [producer.get(value) for value in op.operands])
                with builder.at(op.loc, op.role):
                    results = body.run()
                changed = changed or body.changed
            values.update(zip(op.results, results, strict=True))
        new = builder.build([values[value] for value in graph.results])
    return new if changed else graph


@dataclass(slots=True)
class _Region:
    """Region under change."""

    graph: Graph
    ops: list[Op]
    results: list[Value]


@dataclass(slots=True)
class _Body:
    """Loop or branch, and the ops moved out of it, which go to `builder`."""

    builder: GraphBuilder
    op: Op
    operands: tuple[Value, ...]
    producer: Sequence[Op | None]
    changed: bool = False
    regions: list[_Region] = field(default_factory=list)

    def run(self) -> tuple[Value, ...]:
        """Append the op; returns its results."""
        self._sink_constants()
        if self.op.name != "cond":
            self._hoist_invariants()
        if self.op.name != "scan":
            return append_copy(self.builder, self.op, self.operands, self.op.regions)
        self._batch_matmuls_of_slices()
        self._hoist_transposes()
        return self._sink_sums()

    # -- constants into the body

    def _sink_constants(self) -> None:
        """Create constants in the body that uses them."""
        op = self.op
        offset = 1 if op.name == "cond" else 0
        first = offset + op.attrs.get("carries", 0) + op.attrs.get("slices", 0)
        regions = list(op.regions)
        for index in range(first, len(op.operands)):
            producer = self.producer[index]
            if producer is None or producer.definition.kind is not Kind.CREATION:
                continue
            for number, region in enumerate(regions):
                param = region.params[index - offset]
                if any(param in inner.operands for inner in region.ops) or param in region.results:
                    constant = replace(producer, results=(Value(param.type, param.name),))
                    regions[number] = _substituted(region, {param: constant.result}, [constant])
                    self.changed = True
        self.op = replace(op, regions=tuple(regions))

    # -- loop-invariant values

    def _hoist_invariants(self) -> None:
        """Compute values that depend on no carried or sliced value once, before the loop."""
        op = self.op
        fixed = op.attrs["carries"] + op.attrs.get("slices", 0)
        regions = list(op.regions)
        new_values: list[Value] = []
        new_params: list[dict[int, Value]] = []
        moved: set[Op] = set()
        for region in regions:
            outer: dict[Value, Value] = dict(zip(region.params[fixed:], self.operands[fixed:], strict=True))
            producer = producers(region)
            invariant: set[Value] = set(outer)
            for inner in region.ops:
                if inner.definition.kind not in NEVER_HOISTED and invariant.issuperset(inner.operands):
                    invariant.update(inner.results)
            moving = {inner: None for inner in region.ops
                      if inner.operands and inner.definition.kind not in CHEAP_TO_REPEAT and not invariant.isdisjoint(inner.results)}
            used = {value for inner in region.ops if inner not in moving for value in inner.operands}.union(region.results)
            found: dict[int, Value] = {}
            for value in (value for inner in moving for value in inner.results if value in used):
                found[len(new_values)] = value
                new_values.append(self._hoist(value, outer, producer))
            new_params.append(found)
            moved.update(moving)
        if not new_values:
            return
        self.changed = True
        for number, (region, found) in enumerate(zip(regions, new_params, strict=True)):
            params = [found.get(index) or Value(value.type) for index, value in enumerate(new_values)]
            kept = [inner for inner in region.ops if inner not in moved]
            regions[number] = Graph(region.name, (*region.params, *params), tuple(kept), region.results,
                                    (*region.param_roles, *("input" for _ in params)))
        self.operands = (*self.operands, *new_values)
        self.op = replace(op, regions=tuple(regions), operands=self.operands)

    def _hoist(self, value: Value, outer: dict[Value, Value], producer: dict[Value, Op]) -> Value:
        """Value of the body that is loop-invariant, computed before the loop."""
        stack = [value]
        while stack:
            op = producer.get(stack[-1])
            if stack[-1] in outer:
                stack.pop()
                continue
            assert op is not None
            missing = [operand for operand in op.operands if operand not in outer]
            if missing:
                stack.extend(missing)
                continue
            results = append_copy(self.builder, op, tuple(outer[operand] for operand in op.operands), op.regions)
            outer.update(zip(op.results, results, strict=True))
            stack.pop()
        return outer[value]

    # -- products of slices

    def _batch_matmuls_of_slices(self) -> None:
        """`x[t] @ w` for all t becomes one product."""
        op = self.op
        (body,), carries, slices, length = op.regions, op.attrs["carries"], op.attrs["slices"], op.attrs["length"]
        outer = dict(zip(body.params, self.operands, strict=True))
        sliced, fixed = set(body.params[carries:carries + slices]), set(body.params[carries + slices:])
        stacks = {value: outer[value] for value in sliced}
        products: list[tuple[Op, Value]] = []
        for inner in body.ops:
            if inner.name == "reshape" and inner.operands[0] in stacks:
                stacks[inner.result] = stacks[inner.operands[0]]
            if inner.name == "matmul" and inner.result.type.rank == 2 and inner.operands[0] in stacks and inner.operands[1] in fixed \
                    and not inner.attrs["transpose_a"] and length > 1:
                (rows, inside), columns = inner.operands[0].type.shape, inner.result.type.shape[1]
                flat = ops.reshape(stacks[inner.operands[0]], shape=(length * rows, inside))
                product = ops.matmul(flat, outer[inner.operands[1]], **inner.attrs)
                products.append((inner, ops.reshape(product, shape=(length, rows, columns))))
        if not products:
            return
        self.changed = True
        moved = {inner for inner, _ in products}
        params = (*body.params[:carries + slices], *(inner.result for inner, _ in products), *body.params[carries + slices:])
        roles = (*body.param_roles[:carries + slices], *("input" for _ in products), *body.param_roles[carries + slices:])
        self.operands = (*self.operands[:carries + slices], *(value for _, value in products), *self.operands[carries + slices:])
        region = Graph(body.name, params, tuple(inner for inner in body.ops if inner not in moved), body.results, roles)
        self.op = replace(op, operands=self.operands, regions=(region,), attrs={**op.attrs, "slices": slices + len(products)})

    def _hoist_transposes(self) -> None:
        """Transpose a loop-invariant matrix once, not in the product of every iteration."""
        op = self.op
        (body,), first = op.regions, op.attrs["carries"] + op.attrs["slices"]
        outer = dict(zip(body.params[first:], self.operands[first:], strict=True))
        transposed: dict[Value, Value] = {}
        inside: list[Op] = []
        for inner in body.ops:
            right = inner.operands[1] if inner.name == "matmul" else None
            if right in outer and inner.attrs["transpose_b"] and right.type.rank == 2 and op.attrs["length"] > 1:
                param = transposed.setdefault(right, Value(right.type.with_shape(right.type.shape[::-1])))
                inner = replace(inner, operands=(inner.operands[0], param), attrs={**inner.attrs, "transpose_b": False})
            inside.append(inner)
        if not transposed:
            return
        self.changed = True
        self.operands = (*self.operands, *(ops.transpose(outer[value], permutation=(1, 0)) for value in transposed))
        region = Graph(body.name, (*body.params, *transposed.values()), tuple(inside), body.results,
                       (*body.param_roles, *("input" for _ in transposed)))
        self.op = replace(op, operands=self.operands, regions=(region,))

    # -- sums over all iterations

    def _sink_sums(self) -> tuple[Value, ...]:
        """Compute sums that a loop carries, and rows, behind the loop."""
        op = self.op
        (body,), carries, slices, length = op.regions, op.attrs["carries"], op.attrs["slices"], op.attrs["length"]
        first = len(body.results) - carries
        producer, uses = producers(body), use_counts(body)
        sliced = dict(zip(body.params[carries:carries + slices], self.operands[carries:carries + slices], strict=True))
        fixed = dict(zip(body.params[carries + slices:], self.operands[carries + slices:], strict=True))
        rows = list(body.results[:first])
        after_loop: dict[int, Callable[[Callable[[Value], Value]], Value]] = {}     # by the index of the result

        def is_stacked(value: Value) -> bool:
            return value in sliced or value in rows

        def stacked_bytes(value: Value) -> int:
            return 0 if is_stacked(value) else value.type.nbytes

        demanded: set[Value] = set()
        moved: set[Value] = set()

        def demand(value: Value) -> None:
            demanded.add(value)
            if not is_stacked(value):
                rows.append(value)

        summands = {i: accumulated_value(body, i, first, producer, uses) for i in range(carries)} if length > 1 else {}
        sums = {i: summand for i, summand in summands.items() if summand is not None}
        for i, summand in sums.items():
            made = producer.get(summand)
            factors = None if made is None else _factors(made, producer)
            if factors is None:
                continue
            a, b = factors
            if stacked_bytes(a) + (stacked_bytes(b) if b is not a else 0) <= 2 * summand.type.nbytes:
                demand(a)
                demand(b)
                after_loop[first + i] = lambda stack, a=a, b=b, i=i, shape=summand.type.shape: self._after_start(   # type: ignore[misc]
                    i, _product_of_all(stack(a), stack(b), shape))
        for i, summand in sums.items():
            made = producer.get(summand)
            if made is not None and made.name == "reduce_sum" and is_stacked(made.operands[0]):
                demand(made.operands[0])
                axes = (0, *(axis + 1 for axis in made.attrs["axes"]))
                after_loop[first + i] = lambda stack, x=made.operands[0], axes=axes, i=i: self._after_start(    # type: ignore[misc]
                    i, ops.reduce_sum(stack(x), axes=axes))
        for i, row in enumerate(body.results[:first]):
            made = producer.get(row)
            if made is not None and made.name == "matmul" and row.type.rank == 2 and not made.attrs["transpose_a"] and length > 1 \
                    and made.operands[1] in fixed and is_stacked(made.operands[0]) and uses[row] == 1 and row not in demanded \
                    and made.operands[0] not in moved:
                demand(made.operands[0])
                moved.add(row)
                after_loop[i] = lambda stack, made=made: _product_of_rows(stack(made.operands[0]), fixed[made.operands[1]], made)   # type: ignore[misc]
        if not after_loop:
            return append_copy(self.builder, op, self.operands, op.regions)
        self.changed = True
        kept_rows = [row for row in rows if row not in moved]
        carried = [i for i in range(carries) if first + i not in after_loop]
        params = [*carried, *range(carries, len(body.params))]
        results_of_body = (*kept_rows, *(body.results[first + i] for i in carried))
        region = Graph(body.name, tuple(body.params[i] for i in params), tuple(live_ops(body.with_ops(body.ops, results_of_body))),
                       results_of_body, tuple(body.param_roles[i] for i in params))
        types = [row.type.with_shape((length, *row.type.shape)) for row in kept_rows] + [body.params[i].type for i in carried]
        new = replace(op, operands=tuple(self.operands[i] for i in params), results=tuple(map(Value, types)), regions=(region,),
                      attrs={**op.attrs, "carries": len(carried)})
        self.builder.append(new)

        def stack(value: Value) -> Value:
            return sliced[value] if value in sliced else new.results[kept_rows.index(value)]

        results: list[Value] = []
        for index, old in enumerate(op.results):
            if index in after_loop:
                results.append(after_loop[index](stack))
            elif index < first:
                results.append(new.results[kept_rows.index(body.results[index])])
            else:
                results.append(new.results[len(kept_rows) + carried.index(index - first)])
            results[-1].name = old.name
        return tuple(results)

    def _after_start(self, carry: int, total: Value) -> Value:
        """Sum that begins with the initial carry. Derivatives begin with zeros, which are left out."""
        return total if number_of(self.producer[carry]) == 0 else ops.add(self.operands[carry], total)


def accumulated_value(body: Graph, carry: int, first: int, producer: dict[Value, Op], uses: dict[Value, int]) -> Value | None:
    """Value that each iteration adds to a carry, if the carry has no other use; else None."""
    param, result = body.params[carry], body.results[first + carry]
    op = producer.get(result)
    if op is None or op.name != "add" or uses.get(param) != 1 or uses[result] != 1 or param not in op.operands:
        return None
    return op.operands[1] if op.operands[0] is param else op.operands[0]


def _factors(product: Op, producer: dict[Value, Op]) -> tuple[Value, Value] | None:
    """The values `a` and `b` with a product `transpose(a) @ b` of two matrices, in any shape: their elements are those of matrices with the
    columns of the product. None if they would have to be transposed."""
    if product.name != "matmul" or product.result.type.rank != 2:
        return None
    found = []
    for value, transposed in zip(product.operands, (not product.attrs["transpose_a"], product.attrs["transpose_b"]), strict=True):
        if transposed and value.type.shape[1] != 1:         # a column has its elements in the order of a row
            return None
        while (made := producer.get(value)) is not None and made.name == "reshape":
            value = made.operands[0]
        found.append(value)
    return found[0], found[1]


def _product_of_all(a: Value, b: Value, shape: Shape) -> Value:
    """Sum over all rows of `transpose(a) @ b`, of this shape."""
    flat = [ops.reshape(value, shape=(value.type.size // columns, columns)) for value, columns in zip((a, b), shape, strict=True)]
    return ops.matmul(*flat, transpose_a=True, transpose_b=False)


def _product_of_rows(rows: Value, matrix: Value, made: Op) -> Value:
    """Product of each of the stacked rows with the same matrix."""
    length, count, inside = rows.type.shape
    product = ops.matmul(ops.reshape(rows, shape=(length * count, inside)), matrix, **made.attrs)
    return ops.reshape(product, shape=(length, *made.result.type.shape))


def _substituted(region: Graph, new: dict[Value, Value], before: Sequence[Op]) -> Graph:
    """Region in which the keys of `new` are replaced by its values, made by the ops `before`."""
    inner = [op.with_operands([new.get(value, value) for value in op.operands]) for op in region.ops]
    return region.with_ops((*before, *inner), [new.get(value, value) for value in region.results])
