"""Builds graphs op by op: infers types, keeps locations and roles, and closes regions over outer values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from adjit.ir.definition import OpDefinition
from adjit.ir.emitter import emitting
from adjit.ir.errors import AdjitError, Location, Role, TraceError
from adjit.ir.graph import Attributes, Graph, Op, Value
from adjit.ir.thread_context import thread
from adjit.ir.types import TensorType


class GraphBuilder:
    """Appends ops to a graph under construction.

    `parent` is the builder of the enclosing graph: a value of the parent that is used here becomes a parameter, and is listed in
    `captures`, so that regions are closed. `locate` returns the user's location for an op emitted outside of `at`.
    """

    def __init__(self, name: str, parent: GraphBuilder | None = None, locate: Callable[[], Location | None] | None = None):
        self.name = name
        self.parent = parent
        self.params: list[Value] = []
        self.param_roles: list[str] = []
        self.ops: list[Op] = []
        self.captures: dict[Value, Value] = {}     # outer value -> parameter that stands for it
        self.stands_for: dict[Value, Value] = {}   # parameter -> the one value of the enclosing graph that it stands for
        self.example_of: dict[Value, Value] = {}   # parameter -> batched value of the enclosing graph, of which it is one example
        self.differentiated: frozenset[Value] = frozenset()     # parameters with respect to which the graph will be differentiated
        self._origin: dict[Value, Op | None] = {}
        self._locate: Callable[[], Location | None] = locate or (parent._locate if parent else lambda: None)
        self._loc: Location | None = None
        self._role: Role = Role.PRIMAL

    def param(self, type: TensorType, name: str | None = None, role: str = "input") -> Value:
        """Add a parameter and return its value."""
        value = Value(type, name)
        self.params.append(value)
        self.param_roles.append(role)
        self._origin[value] = None
        return value

    @property
    def is_differentiated(self) -> bool:
        """True if the graph, or one around it, will be differentiated."""
        return bool(self.differentiated) or (self.parent is not None and self.parent.is_differentiated)

    def owns(self, value: Value) -> bool:
        return value in self._origin

    def take_back(self, position: int) -> None:
        """Remove the ops from a position on. Their values are unknown from then on: it is an error to use one."""
        for op in self.ops[position:]:
            for value in op.results:
                del self._origin[value]
        del self.ops[position:]

    def producer(self, value: Value) -> Op | None:
        """Op of this graph that makes `value`; None for a parameter and for a value of another graph."""
        return self._origin.get(value)

    def resolve(self, value: Value) -> Value:
        """Value in this graph for `value`, which is captured from an enclosing graph if necessary."""
        if value in self._origin:
            return value
        if value in self.captures:
            return self.captures[value]
        if self.parent is None:
            raise TraceError(
                f"a traced value ({value.type}) is used outside of the trace that made it", self.location(),
                hint="return it from the compiled function instead of storing it in a global, an attribute or a list")
        self.parent.resolve(value)
        param = self.param(value.type, value.name)
        self.captures[value] = param
        self.stands_for[param] = value
        return param

    @property
    def role(self) -> Role:
        """Role of the ops that are emitted now."""
        return self._role

    def location(self) -> Location | None:
        return self._loc if self._loc is not None else self._locate()

    @contextmanager
    def at(self, loc: Location | None = None, role: Role | None = None) -> Iterator[None]:
        """Emit within the block at this location and in this role; None keeps the outer one."""
        saved = self._loc, self._role
        self._loc = loc if loc is not None else self._loc
        self._role = role if role is not None else self._role
        try:
            yield
        finally:
            self._loc, self._role = saved

    def emit(self, definition: OpDefinition, operands: Sequence[Value], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[Value, ...]:
        """Append an op and return its results. Errors of the type rule get the user's lines, of the op and of its operands."""
        origin, probe = self._origin, thread.context.row_probe
        attrs = dict(attrs) if probe is None else probe.plain(attrs)
        resolved = tuple([value if value in origin else self.resolve(value) for value in operands])
        try:
            types = definition.result_types([value.type for value in resolved], attrs, regions)
        except AdjitError as error:
            raise self._explain(error, definition, resolved) from None
        results = tuple([Value(type) for type in types])
        op = Op(definition, resolved, results, attrs, regions, self._locate() if self._loc is None else self._loc, self._role)
        self.ops.append(op)
        for value in results:
            origin[value] = op
        return results

    def append(self, op: Op) -> None:
        """Append a finished op whose operands are known here."""
        self.ops.append(op)
        for value in op.results:
            self._origin[value] = op

    def inline(self, graph: Graph, arguments: Sequence[Value], role: Role | None = None) -> tuple[Value, ...]:
        """Append copies of the ops of `graph`, its parameters replaced by `arguments`; returns the results.

        Locations and roles stay; `role`, if given, replaces the roles. Ops without a location get that of this call.
        """
        mapping = dict(zip(graph.params, (self.resolve(value) for value in arguments), strict=True))
        here = self.location() if any(op.loc is None for op in graph.ops) else None
        origin, append = self._origin, self.ops.append
        for op in graph.ops:
            results = tuple([Value(value.type, value.name) for value in op.results])
            copy = Op(op.definition, tuple([mapping[value] for value in op.operands]), results, op.attrs, op.regions, op.loc or here,
                      role or op.role)
            append(copy)
            for value, made in zip(op.results, results, strict=True):
                mapping[value] = made
                origin[made] = copy
        return tuple(mapping[value] for value in graph.results)

    def build(self, results: Sequence[Value]) -> Graph:
        """Finished graph."""
        resolved = tuple(self.resolve(value) for value in results)
        return Graph(self.name, tuple(self.params), tuple(self.ops), resolved, tuple(self.param_roles))

    def computes_same(self, a: Value, b: Value, most: int = 64) -> bool:
        """True if two values are made by the same ops of the same values; at most `most` pairs of ops are compared."""
        pairs = [(a, b)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            most -= 1
            builder: GraphBuilder | None = self
            while builder is not None and not (builder.owns(a) and builder.owns(b)):
                a, b = (next((outer for outer, inner in builder.captures.items() if inner is x), x) for x in (a, b))
                builder = builder.parent
            if a is b:
                continue
            first, second = (builder._origin.get(x) if builder is not None else None for x in (a, b))
            if first is None or second is None or not most or first.regions or first.name != second.name or first.attrs != second.attrs:
                return False
            pairs += zip(first.operands, second.operands, strict=True)
        return True

    def origin(self, value: Value) -> str:
        """Origin of a value, in words, for messages."""
        outer = next((outer for outer, inner in self.captures.items() if inner is value), value)
        if self.parent is not None and (outer is not value or not self.owns(value)):
            return self.parent.origin(outer)
        op = self._origin.get(value)
        if op is None:
            if value in self.params and self.param_roles[self.params.index(value)] == "captured":
                return f"{value.type}, an ordinary array from outside of the arguments"
            return f"{value.type}, argument {value.name!r}" if value.name else f"{value.type}, an argument"
        source = self._indexed(op)
        made = f"made by {op.name}" if source is None else f"{'part' if value.type.shape else 'element'} of {source.name or 'an array'}"
        return f"{value.type}, {made} at {op.loc.describe()}" if op.loc else f"{value.type}, {made}"

    def made_at(self, value: Value) -> Location | None:
        """The line that made a value, if it is known."""
        op = self._origin.get(value)
        return None if op is None else op.loc

    def _indexed(self, op: Op) -> Value | None:
        """Array that an op takes a part of: an index (`p[0]`) is a slice, and a reshape that leaves axes out."""
        if op.name == "reshape":
            inner = self._origin.get(op.operands[0])
            op = inner if inner is not None and inner.loc == op.loc else op
        return op.operands[0] if op.name == "slice" else None

    def _explain(self, error: AdjitError, definition: OpDefinition, operands: Sequence[Value]) -> AdjitError:
        origins = "".join(f"\n    operand {i + 1}: {self.origin(value)}" for i, value in enumerate(operands))
        return type(error)(f"{definition.name}: {error.message}{origins}", error.location or self.location(), error.hint)


def trace_graph(name: str, types: Sequence[TensorType], body: Callable[..., Sequence[Value]]) -> Graph:
    """Graph of `body(*values)`, which calls op records: for derivative rules, passes and tests."""
    builder = GraphBuilder(name)
    params = [builder.param(type) for type in types]
    with emitting(builder):
        return builder.build(body(*params))
