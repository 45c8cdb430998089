"""Chooses the order of axes of connected elementwise ops so that fewer elements are transposed.

An elementwise op works in any order of axes, as long as the order is the same for all operands. So the values that such ops connect, a
*component*, can be permuted by one permutation. Constants, iota and broadcasts are then created in the permuted order; a reduction of a
permuted value leaves a smaller value to transpose, and so does a broadcast to a permuted value. Transposes at the border of the component
with the same permutation disappear. A component is permuted if that moves fewer bytes; then its neighbours are looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.graph import Graph, Op, Value, live_ops, producers
from adjit.ir.ops.creation import table_attributes
from adjit.passes.options import Options

MAX_ROUNDS = 8
"""Most iterations of the pass: each moves transposes one component further."""

NARROW, WIDE = 8, 64
"""Lengths of a last axis. A kernel over 2000 x 4 elements of `exp(-b * t) * sin(c * t)` with its 4 tangents took 36 us, the one over
4 x 2000 and the transpose behind it 10 us."""

Permutation = tuple[int, ...]


def choose_layouts(graph: Graph, options: Options) -> Graph:
    """Permute components of elementwise ops where that removes transposes.

    Before:
        graph @f(%x: f32[8,32], %s: f32[32]) {
          %a: f32[32,8] = transpose %x {permutation=(1, 0)}
          %b: f32[32,8] = broadcast %s {axes=(0,), shape=(32, 8)}
          %c: f32[32,8] = multiply %a, %b
          %d: f32[32,8] = tanh %c
          %m: f32[8] = reduce_max %d {axes=(0,)}
          %e: f32[8,32] = transpose %d {permutation=(1, 0)}
          return %e, %m
        }

    After:
        graph @f(%x: f32[8,32], %s: f32[32]) {
          %b: f32[8,32] = broadcast %s {axes=(1,), shape=(8, 32)}
          %c: f32[8,32] = multiply %x, %b
          %d: f32[8,32] = tanh %c
          %m: f32[8] = reduce_max %d {axes=(1,)}
          return %d, %m
        }
    """
    for _ in range(MAX_ROUNDS):
        if not any(op.name == "transpose" for op in graph.ops):
            break
        permutations = _Components(graph).permutations()
        if not permutations:
            break
        graph = _Permuted(graph, permutations).run()
    return graph


def _compose(first: Permutation, second: Permutation) -> Permutation:
    """Permutation equal to `first` followed by `second`."""
    return tuple(first[axis] for axis in second)


def _inverse(permutation: Permutation) -> Permutation:
    return tuple(permutation.index(axis) for axis in range(len(permutation)))


def _is_identity(permutation: Permutation) -> bool:
    return permutation == tuple(range(len(permutation)))


@dataclass(slots=True, eq=False)
class _Component:
    """Values whose axes must lie in one order, and the ops at their border: transposes into and out of the component, reductions and
    broadcasts."""

    values: list[Value]
    neighbours: set[int]            # components (by id) that a transpose, a reduction or a broadcast connects with this one
    producers: list[Op]
    readers: list[Op]


class _Components:
    """Components of a graph, and the permutations that they should get."""

    def __init__(self, graph: Graph) -> None:
        self.producer = producers(graph)
        self.pinned = set(graph.results)        # values that must lie in their original order
        self.joined: dict[Value, Value] = {}
        for op in graph.ops:
            if _is_elementwise(op):
                for value in op.operands:
                    self._join(value, op.result)
        self.components: dict[Value, _Component] = {}
        for value in self.joined:
            self.components.setdefault(self._root(value), _Component([], set(), [], [])).values.append(value)
        for op in graph.ops:
            if not _is_elementwise(op):
                self._add_border(op)

    def _root(self, value: Value) -> Value:
        root = value
        while self.joined[root] is not root:
            root = self.joined[root]
        while value is not root:
            self.joined[value], value = root, self.joined[value]
        return root

    def _join(self, a: Value, b: Value) -> None:
        for value in (a, b):
            self.joined.setdefault(value, value)
        self.joined[self._root(a)] = self._root(b)

    def _component(self, value: Value) -> _Component | None:
        return self.components[self._root(value)] if value in self.joined else None

    def _add_border(self, op: Op) -> None:
        if op.name != "transpose" and op.name != "broadcast" and op.definition.kind is not Kind.REDUCTION:
            self.pinned.update(op.operands)
            return
        before, after = self._component(op.operands[0]), self._component(op.result)
        if before is not None:
            before.readers.append(op)
        if after is not None:
            after.producers.append(op)
        if before is not None and after is not None:
            before.neighbours.add(id(after))
            after.neighbours.add(id(before))

    def permutations(self) -> dict[Value, Permutation]:
        """Permutation of each value in a component that should be permuted; of two neighbouring components, only one is chosen."""
        best: list[tuple[int, _Component, Permutation]] = []
        for component in self.components.values():
            wanted = [_inverse(op.attrs["permutation"]) for op in component.producers if op.name == "transpose"]
            wanted += [op.attrs["permutation"] for op in component.readers if op.name == "transpose"]
            savings = ((self._saved_bytes(component, permutation), permutation) for permutation in dict.fromkeys(wanted))
            saved, permutation = max(savings, default=(0, ()))
            if saved > 0:
                best.append((saved, component, permutation))
        permuted: set[int] = set()
        permutations: dict[Value, Permutation] = {}
        for _, component, permutation in sorted(best, key=lambda found: -found[0]):
            if component.neighbours.isdisjoint(permuted):
                permuted.add(id(component))
                permutations.update(dict.fromkeys(component.values, permutation))
        return permutations

    def _saved_bytes(self, component: _Component, permutation: Permutation) -> int:
        """Bytes that are no longer moved if the component is permuted. A transpose reads and writes all its bytes."""
        saved = 0
        if self._narrows(component, permutation):
            return 0
        for value in component.values:
            producer = self.producer.get(value)
            if producer is not None and producer.name == "transpose":
                if _is_identity(_compose(producer.attrs["permutation"], permutation)) and value not in self.pinned:
                    saved += 2 * value.type.nbytes
            elif producer is None or value in self.pinned or not (_is_elementwise(producer) or _is_flexible(producer)):
                saved -= 2 * value.type.nbytes
            elif producer.name == "broadcast" and not _is_identity(_order_of_broadcast(producer, permutation)):
                saved -= 2 * producer.operands[0].type.nbytes
        for value in {op.operands[0] for op in component.readers if op.name == "transpose" and op.attrs["permutation"] == permutation}:
            saved += 2 * value.type.nbytes
        for op in component.readers:
            if op.definition.kind is Kind.REDUCTION:
                last = len(permutation) - 1
                if last in op.attrs["axes"] and permutation[last] not in op.attrs["axes"]:
                    saved -= op.operands[0].type.nbytes      # no longer fused into the kernel of the operand
                if not _is_identity(_order_of_reduction(op, permutation)):
                    saved -= 2 * op.result.type.nbytes
        return saved


    def _narrows(self, component: _Component, permutation: Permutation) -> bool:
        """True if kernels of the component would run along an axis shorter than a vector instead of a long one. Broadcasts are what keeps
        them from running along all axes as one."""
        shapes = [value.type.shape for value in component.values if self._is_broadcast(value)]
        return any(shape[permutation[-1]] < NARROW <= WIDE <= shape[-1] for shape in shapes)

    def _is_broadcast(self, value: Value) -> bool:
        producer = self.producer.get(value)
        return producer is not None and producer.name == "broadcast" and producer.operands[0].type.size > 1


def _is_elementwise(op: Op) -> bool:
    return op.definition.kind is Kind.ELEMENTWISE and op.result.type.rank > 1


def _is_flexible(op: Op) -> bool:
    """True if the op can create its result in any order of axes."""
    return op.definition.kind is Kind.CREATION or op.name == "broadcast"


def _order_of_broadcast(op: Op, permutation: Permutation) -> Permutation:
    """Permutation of the operand that makes the broadcast's result permuted."""
    positions = [permutation.index(axis) for axis in op.attrs["axes"]]
    return tuple(sorted(range(len(positions)), key=positions.__getitem__))


def _order_of_reduction(op: Op, permutation: Permutation) -> Permutation:
    """Permutation that turns the reduction of the permuted operand into the original result."""
    left = [axis for axis in permutation if axis not in op.attrs["axes"]]
    return tuple(left.index(axis) for axis in sorted(left))


class _Permuted:
    """Graph under reconstruction, with the values in `permutations` permuted.

    `plain` maps a value of the old graph to its equal in the new one, `permuted` to its permuted form. Each form is made from the other on
    demand.
    """

    def __init__(self, graph: Graph, permutations: dict[Value, Permutation]) -> None:
        self.graph, self.permutations = graph, permutations
        self.plain: dict[Value, Value] = {value: value for value in graph.params}
        self.permuted: dict[Value, Value] = {}
        self.ops: list[Op] = []
        self.producer: dict[Value, Op] = {}
        self.made: dict[tuple[Value, Permutation], Value] = {}

    def run(self) -> Graph:
        for op in self.graph.ops:
            self._visit(op)
        last = self.ops[-1]
        results = [self._view(value, tuple(range(value.type.rank)), last) for value in self.graph.results]
        graph = self.graph.with_ops(self.ops, results)
        return graph.with_ops(live_ops(graph))

    def _visit(self, op: Op) -> None:
        permutation = self.permutations.get(op.results[0]) if op.results else None
        if op.name == "transpose":
            self._keep(op.result, self._view(op.operands[0], op.attrs["permutation"], op), None, op)
        elif permutation is not None and _is_elementwise(op):
            self.permuted[op.result] = self._emit(op, [self._view(value, permutation, op) for value in op.operands], op.attrs)
        elif permutation is not None and _is_flexible(op):
            self.permuted[op.result] = self._create_permuted(op, permutation)
        elif op.definition.kind is Kind.REDUCTION and op.operands[0] in self.permutations:
            order = self.permutations[op.operands[0]]
            axes = tuple(sorted(order.index(axis) for axis in op.attrs["axes"]))
            small = self._emit(op, [self._view(op.operands[0], order, op)], {**op.attrs, "axes": axes})
            self._keep(op.result, small, _order_of_reduction(op, order), op)
        else:
            operands = tuple(self._view(value, tuple(range(value.type.rank)), op) for value in op.operands)
            self._append(op if operands == op.operands else op.with_operands(operands))
            self.plain.update((value, value) for value in op.results)

    def _keep(self, value: Value, found: Value, order: Permutation | None, op: Op) -> None:
        """Record `found`, transposed by `order`, as the equal of the old `value`: in permuted form if `value` is in `permutations`, else
        plain."""
        order = tuple(range(value.type.rank)) if order is None else order
        permutation = self.permutations.get(value)
        if permutation is None:
            self.plain[value] = self._transposed(found, order, op)
        else:
            self.permuted[value] = self._transposed(found, _compose(order, permutation), op)

    def _create_permuted(self, op: Op, permutation: Permutation) -> Value:
        attrs: dict[str, Any] = {**op.attrs, "shape": tuple(op.attrs["shape"][axis] for axis in permutation)}
        operands: list[Value] = []
        if op.name == "broadcast":
            operands = [self._view(op.operands[0], _order_of_broadcast(op, permutation), op)]
            attrs["axes"] = tuple(sorted(permutation.index(axis) for axis in op.attrs["axes"]))
        elif op.name == "iota":
            attrs["axis"] = permutation.index(op.attrs["axis"])
        elif op.name == "table":
            attrs = table_attributes(ops.table.evaluate(**op.attrs).transpose(permutation))
        return self._emit(op, operands, attrs)

    def _view(self, value: Value, permutation: Permutation, op: Op) -> Value:
        """Equal of the old `value`, transposed by `permutation`."""
        if value in self.plain:
            return self._transposed(self.plain[value], permutation, op)
        back = _inverse(self.permutations[value])
        return self._transposed(self.permuted[value], _compose(back, permutation), op)

    def _transposed(self, value: Value, permutation: Permutation, op: Op) -> Value:
        if _is_identity(permutation):
            return value
        producer = self.producer.get(value)
        if producer is not None and producer.name == "transpose":
            return self._transposed(producer.operands[0], _compose(producer.attrs["permutation"], permutation), op)
        known = (value, permutation)
        if known not in self.made:
            self.made[known] = self._emit(op, [value], {"permutation": permutation}, ops.transpose)
        return self.made[known]

    def _emit(self, op: Op, operands: Iterable[Value], attrs: Any, definition: OpDefinition | None = None) -> Value:
        """Result of an op that takes the place of `op`: the same kind, or `definition`."""
        inputs, kind = tuple(operands), definition or op.definition
        (type,) = kind.result_types([value.type for value in inputs], attrs)
        result = Value(type, op.result.name if definition is None else None)
        self._append(Op(kind, inputs, (result,), attrs, (), op.loc, op.role))
        return result

    def _append(self, op: Op) -> None:
        self.ops.append(op)
        self.producer.update((value, op) for value in op.results)
