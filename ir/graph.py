"""Graph: immutable ops in single-assignment form, in an explicit order.

There is no hash-consing and there are no use lists. The order of ops is meaning (it decides which values are live at the same time), and an
analysis computes uses when it needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Location, Role
from adjit.ir.types import TensorType

if TYPE_CHECKING:
    from adjit.ir.definition import OpDefinition

Attributes = Mapping[str, Any]


class Value:
    """Tensor of a graph. Compared by identity; `name` is only a hint for the printer."""

    __slots__ = ("name", "type")

    def __init__(self, type: TensorType, name: str | None = None):
        self.type = type
        self.name = name

    def __repr__(self) -> str:
        return f"<Value {self.name or ''}: {self.type}>"


@dataclass(frozen=True, slots=True)
class Slot:
    """Memory of a planned value: byte `offset` of the arena, or byte `start` of the buffer of parameter or result number `offset`."""

    space: str
    offset: int
    start: int = 0

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Slot) and self.offset == other.offset and self.start == other.start
                                 and self.space == other.space)

    def __hash__(self) -> int:
        return hash((self.space, self.offset, self.start))

    def __str__(self) -> str:
        return f"{self.space}+{self.offset}" + (f":{self.start}" if self.start else "")

    @property
    def base(self) -> Slot:
        """Whole buffer that contains the slot; in the arena, the slot itself."""
        return Slot(self.space, self.offset) if self.start else self

    def offset_by(self, nbytes: int) -> Slot:
        """Slot that begins `nbytes` later in the same memory."""
        if not nbytes:
            return self
        return Slot("arena", self.offset + nbytes) if self.space == "arena" else Slot(self.space, self.offset, self.start + nbytes)


SLOT_SPACES = ("arena", "param", "result")


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation. `attrs` is never changed; `regions` are closed graphs owned by the op.

    The memory plan sets `slots`: one for each result, and one more if the op needs scratch memory.
    """

    definition: OpDefinition
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attrs: Attributes = field(default_factory=dict)
    regions: tuple[Graph, ...] = ()
    loc: Location | None = None
    role: Role = Role.PRIMAL
    slots: tuple[Slot, ...] = ()
    name: str = field(init=False, repr=False)
    """Name of the definition."""

    def __init__(self, definition: OpDefinition, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes | None = None,
                 regions: tuple[Graph, ...] = (), loc: Location | None = None, role: Role = Role.PRIMAL, slots: tuple[Slot, ...] = ()):
        put_definition, put_operands, put_results, put_attrs, put_regions, put_loc, put_role, put_slots, put_name = _put_op
        put_definition(self, definition)
        put_operands(self, operands)
        put_results(self, results)
        put_attrs(self, {} if attrs is None else attrs)
        put_regions(self, regions)
        put_loc(self, loc)
        put_role(self, role)
        put_slots(self, slots)
        put_name(self, definition.name)       # read ten times for each op that is made

    @property
    def result(self) -> Value:
        """Only result of the op."""
        (value,) = self.results
        return value

    def with_operands(self, operands: Iterable[Value], results: tuple[Value, ...] | None = None, role: Role | None = None) -> Op:
        """Copy of the op on other values. Passes make thousands of these, and `dataclasses.replace` takes twice as long."""
        return Op(self.definition, tuple(operands), self.results if results is None else results, self.attrs, self.regions, self.loc,
                  role or self.role, self.slots)

    def with_slots(self, slots: tuple[Slot, ...]) -> Op:
        """Copy of the op with these slots."""
        return Op(self.definition, self.operands, self.results, self.attrs, self.regions, self.loc, self.role, slots)


def has_effects(op: Op) -> bool:
    """True if an op of its regions is an effect."""
    return bool(op.regions) and any(region.has_effects for region in op.regions)


def without_effects(graph: Graph) -> Graph:
    """A graph for a repeated run, whose effects were seen in the first one."""
    return graph if not graph.has_effects else graph.with_ops([quiet(op) for op in graph.ops if not op.definition.effect])


def quiet(op: Op) -> Op:
    """An op whose regions have no effects, for a repeated run."""
    return replace(op, regions=tuple(map(without_effects, op.regions))) if has_effects(op) else op


def is_kept(op: Op) -> bool:
    """True if an op is needed even where its results are not."""
    return op.definition.is_kept or has_effects(op)


_put_op = tuple(vars(Op)[name].__set__ for name in ("definition", "operands", "results", "attrs", "regions", "loc", "role", "slots",
                                                    "name"))


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Function in SSA form: parameters, ordered ops, results.

    `param_roles[i]` is the role of parameter i: "input", "donated" (its buffer may be overwritten), "updated" (a tensor, or an array that
    the function writes to: its new content is one of the last results of the graph, which are assigned to the parameters of this role in
    order), "carried" (as "updated", from one iteration of a loop's body to the next) or "captured" (an array reached through a closure, a
    global or an attribute).
    """

    name: str
    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    param_roles: tuple[str, ...] = ()
    _has_effects: bool | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if not self.param_roles:
            object.__setattr__(self, "param_roles", ("input",) * len(self.params))

    @property
    def has_effects(self) -> bool:
        """True if an op of the graph, or of its regions, is an effect."""
        if self._has_effects is None:
            object.__setattr__(self, "_has_effects", any(op.definition.effect or has_effects(op) for op in self.ops))
        return bool(self._has_effects)

    def with_ops(self, ops: Sequence[Op], results: Sequence[Value] | None = None) -> Graph:
        return replace(self, ops=tuple(ops), results=self.results if results is None else tuple(results))

    def __eq__(self, other: object) -> bool:
        """Structural equality: same ops, attributes, types, locations, roles and wiring; names of values do not count."""
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or _structure(self) == _structure(other)

    def __hash__(self) -> int:
        return hash((self.name, tuple([value.type for value in self.params]), len(self.ops), tuple([value.type for value in self.results])))

    def __str__(self) -> str:
        return f"<Graph {self.name}: {len(self.params)} params, {len(self.ops)} ops, {len(self.results)} results>"

    __repr__ = __str__


PARAM_ROLES = ("input", "donated", "updated", "carried", "captured")

WRITABLE_ROLES = ("donated", "updated", "carried")
"""Roles of parameters whose buffers may be overwritten."""


def updated_results(graph: Graph) -> dict[int, int]:
    """Index of the result that is the new content of each updated or carried parameter, by the parameter's index."""
    updated = [index for index, role in enumerate(graph.param_roles) if role in ("updated", "carried")]
    return dict(zip(updated, range(len(graph.results) - len(updated), len(graph.results)), strict=True))


def carried_operands(op: Op) -> dict[int, int]:
    """Number of the operand with which each carried result of a loop or a branch begins, by the number of the result; none of `panels`,
    which begin with numbers. What a region carries are its first parameters and its last results; a branch carries something in planned
    graphs alone."""
    if op.name == "panels":
        return {}
    first = 1 if op.name == "cond" else 0
    count = op.regions[0].param_roles.count("carried") if first else op.attrs["carries"]
    return {len(op.results) - count + index: first + index for index in range(count)}


def hand_to_regions(op: Op, operands: Sequence[Value], params: Sequence[Sequence[Value]], bodies: Sequence[Sequence[Op]]) -> Op:
    """Copy of an op whose regions have other ops, `bodies`, and take the further `operands`: region i as its parameters `params[i]`. For
    loops, branches and functions that are differentiated or recomputed."""
    count = len(op.regions[0].params) + (op.name == "cond")
    roles = ["input"] * len(operands)
    regions = tuple(replace(region, params=(*region.params, *more), ops=tuple(body), param_roles=(*region.param_roles, *roles))
                    for region, more, body in zip(op.regions, params, bodies, strict=True))
    return replace(op, operands=(*op.operands[:count], *operands, *op.operands[count:]), regions=regions)


def walk(graph: Graph) -> Iterator[Op]:
    """Ops of the graph; before each op, those of its regions."""
    for op in graph.ops:
        for region in op.regions:
            yield from walk(region)
        yield op


def external_op(graph: Graph, module: str = "") -> Op | None:
    """An op of the graph or its regions that another library computes, from a module whose name begins with `module`, if there is one."""
    return next((op for op in walk(graph) if op.definition.external is not None and op.definition.external[0].startswith(module)), None)


def walk_distinct(graph: Graph) -> Iterator[Op]:
    """Ops as of `walk`, those of a region that several ops share only once."""
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        for op in waiting.pop().ops:
            for region in op.regions:
                if id(region) not in seen:
                    seen.add(id(region))
                    waiting.append(region)
            yield op


def producers(graph: Graph) -> dict[Value, Op]:
    """Op that defines each value (parameters are absent)."""
    return {value: op for op in graph.ops for value in op.results}


def positions(ops: Iterable[Op]) -> dict[Value, int]:
    """Index of the op that defines each value (parameters are absent)."""
    return {value: index for index, op in enumerate(ops) for value in op.results}


def readers(ops: Iterable[Op]) -> dict[Value, list[Op]]:
    """Ops that read each value, in order. An op that reads a value twice is listed twice; a value without readers is absent."""
    found: dict[Value, list[Op]] = {}
    for op in ops:
        for value in op.operands:
            found.setdefault(value, []).append(op)
    return found


def number_of(op: Op | None) -> bool | int | float | None:
    """Number that a `constant` op fills its result with; None for any other op, and for None."""
    return op.attrs["value"] if op is not None and op.definition.uniform else None


def use_counts(graph: Graph) -> dict[Value, int]:
    """Number of times that each value is an operand or a result of the graph."""
    counts: dict[Value, int] = {}
    for op in graph.ops:
        for value in op.operands:
            counts[value] = counts.get(value, 0) + 1
    for value in graph.results:
        counts[value] = counts.get(value, 0) + 1
    return counts


def last_uses(graph: Graph) -> dict[Value, int]:
    """Index of the last op that uses each value; `len(graph.ops)` for results of the graph.

    A value without uses has the index of the op that makes it (-1 for a parameter).
    """
    last: dict[Value, int] = dict.fromkeys(graph.params, -1)
    for index, op in enumerate(graph.ops):
        for value in op.results:
            last[value] = index
        for value in op.operands:
            last[value] = index
    for value in graph.results:
        last[value] = len(graph.ops)
    return last


def live_ops(graph: Graph) -> list[Op]:
    """Ops that the results of the graph need."""
    return needed_ops(graph.ops, graph.results)


def needed_ops(ops: Sequence[Op], values: Iterable[Value], known: AbstractSet[Value] = frozenset()) -> list[Op]:
    """Ops among `ops` on which `values` depend, in order, all checks and all effects; producers of `known` values are not needed."""
    needed = set(values)
    kept: list[Op] = []
    for op in reversed(ops):
        if is_kept(op) or (not needed.isdisjoint(op.results) and known.isdisjoint(op.results)):
            needed.update(op.operands)
            kept.append(op)
    return kept[::-1]


def attribute_key(value: Any) -> tuple[type, Any]:
    """Key of an attribute for which equal means identical: NaN equals NaN, -0.0 differs from 0.0, True from 1."""
    if isinstance(value, tuple) and not _ONLY_INTS.issuperset(map(type, value)):
        return tuple, tuple(map(attribute_key, value))
    return type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value


_ONLY_INTS = frozenset({int})


def attributes_key(attrs: Attributes) -> tuple[tuple[str, tuple[type, Any]], ...]:
    """`attribute_key` of each attribute, in the order of their names."""
    return tuple([(name, attribute_key(attrs[name])) for name in sorted(attrs)]) if attrs else ()


def structural_key(op: Op) -> Hashable:
    """Key of an op without its operands: equal for ops that the same code can run.

    Names of values, locations and roles do not count; slots count within regions.
    """
    numbers = {value: index for index, value in reversed(list(enumerate(op.operands)))}
    return (op.name, tuple((numbers[value], value.type) for value in op.operands), tuple(value.type for value in op.results),
            attributes_key(op.attrs), tuple(graph_key(region) for region in op.regions))


def graph_key(graph: Graph, key_of_attributes: Callable[[Op], Hashable] = lambda op: attributes_key(op.attrs)) -> Hashable:
    """Key like `structural_key`, for a closed graph."""
    numbers: dict[Value, int] = {}
    for value in graph.params:
        numbers[value] = len(numbers)
    ops = []
    for op in graph.ops:
        operands = tuple([numbers[value] for value in op.operands])
        for value in op.results:
            numbers[value] = len(numbers)
        ops.append((op.name, operands, tuple([value.type for value in op.results]), key_of_attributes(op),
                    tuple([graph_key(region, key_of_attributes) for region in op.regions]), op.slots))
    results = tuple([numbers[value] for value in graph.results])
    return tuple([value.type for value in graph.params]), graph.param_roles, tuple(ops), results


def text_key(graph: Graph) -> Hashable:
    """Key of a graph: equal for graphs that are `==` and have the same names of values, so that one may stand for the other in any text."""
    return _structure(graph, named=True)


def _structure(graph: Graph, named: bool = False) -> tuple[Any, ...]:
    numbers: dict[Value, int] = {}

    def number(value: Value) -> tuple[Any, ...]:
        return numbers.setdefault(value, len(numbers)), value.type, value.name if named else None

    params = tuple(number(value) for value in graph.params)
    ops = tuple(
        (op.name, tuple(number(v) for v in op.operands), tuple(number(v) for v in op.results),
         attributes_key(op.attrs),
         tuple(_structure(region, named) for region in op.regions), op.loc, op.role, op.slots)
        for op in graph.ops)
    return graph.name, params, graph.param_roles, ops, tuple(number(v) for v in graph.results)
