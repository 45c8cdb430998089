"""Rewrites a graph by local rules, in one walk over its ops.

A rule looks at one op (its operands are rewritten already) and gives the value that replaces its result, or None. It emits new
ops by calling their records; those pass through the rules too, so what a rule makes is as simple as what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from adjit.ir.definition import OpDefinition
from adjit.ir.emitter import emitting
from adjit.ir.errors import Location, Role
from adjit.ir.graph import Attributes, Graph, Op, Value, use_counts

Number = bool | int | float
Rule = Callable[[Op, "Rewriter"], "Value | None"]
Rules = Mapping[str, Sequence[Rule]]


class RuleTable(dict[str, list[Rule]]):
    """Rules by the name of the op they look at."""

    def rule(self, *names: str) -> Callable[[Rule], Rule]:
        """Add the decorated rule for the ops `names`; rules are tried in the order in which they were added."""

        def add(rule: Rule) -> Rule:
            for name in names:
                self.setdefault(name, []).append(rule)
            return rule

        return add


def merge(*tables: RuleTable) -> RuleTable:
    """One table with the rules of all, in order."""
    merged = RuleTable()
    for table in tables:
        for name, rules in table.items():
            merged.setdefault(name, []).extend(rules)
    return merged


class Rewriter:
    """The graph under reconstruction, as rules see it; an emitter, so that rules can call op records."""

    def __init__(self, graph: Graph, rules: Rules):
        self._graph = graph
        self._rules = rules
        self._uses = use_counts(graph)
        self._ops: list[Op] = []
        self._makers: dict[Value, Op] = {}
        self._replaced: dict[Value, Value] = {}
        self._loc: Location | None = None
        self._role = Role.PRIMAL

    def maker(self, value: Value, *names: str) -> Op | None:
        """The op that makes `value`, where it is one of `names` (or any, without names); None for a parameter."""
        op = self._makers.get(value)
        return op if op is not None and (not names or op.name in names) else None

    def number(self, value: Value) -> Number | None:
        """The one number that fills `value`, rounded to its dtype; None where it is no constant."""
        op = self.maker(value, "constant")
        if op is None:
            return None
        number: Number = value.type.dtype.type(op.attrs["value"]).item()
        return number

    def used_once(self, value: Value) -> bool:
        """Whether the graph is known to use `value` in one place only: then a rule may replace the op that makes it by another."""
        return self._uses.get(value) == 1

    def emit(self, definition: OpDefinition, operands: Sequence[Value], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[Value, ...]:
        types = definition.result_types([value.type for value in operands], attrs, regions)
        op = Op(definition, tuple(operands), tuple(Value(type) for type in types), dict(attrs), regions, self._loc, self._role)
        replacement = self._replacement(op)
        if replacement is not None:
            return (replacement,)
        self._append(op)
        return op.results

    def run(self) -> Graph:
        """The graph with the rules applied; the same object where none applies."""
        with emitting(self):
            for op in self._graph.ops:
                self._visit(op)
        if not self._replaced:
            return self._graph
        return self._graph.with_ops(self._ops, [self._replaced.get(value, value) for value in self._graph.results])

    def _visit(self, op: Op) -> None:
        operands = tuple(self._replaced.get(value, value) for value in op.operands)
        if operands != op.operands:
            op = op.with_operands(operands)
        self._loc, self._role = op.loc, op.role
        count = len(self._ops)
        replacement = self._replacement(op)
        if replacement is None:
            self._append(op)
            return
        self._replaced[op.result] = replacement
        self._uses[replacement] = self._uses.get(replacement, 0) + self._uses.get(op.result, 0)
        if replacement.name is None and len(self._ops) > count:
            replacement.name = op.result.name

    def _replacement(self, op: Op) -> Value | None:
        for rule in self._rules.get(op.name, ()):
            value = rule(op, self)
            if value is not None:
                if value.type != op.result.type:
                    raise AssertionError(f"the rule {rule.__name__} makes {value.type} of {op.result.type}")
                return value
        return None

    def _append(self, op: Op) -> None:
        self._ops.append(op)
        for value in op.results:
            self._makers[value] = op


def rewrite(graph: Graph, rules: Rules) -> Graph:
    """`graph` with `rules` applied to every op, in order, and to every op that they emit."""
    return Rewriter(graph, rules).run()
