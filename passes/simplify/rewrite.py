"""Rewrites a graph by local rules, in one walk over its ops.

A rule looks at one op (its operands are rewritten already) and returns the value that replaces the op's result, or None. A rule emits new
ops by calling their records; the new ops pass through the rules too, so the result of a rule is simplified as well.

There are about a hundred rules, and most ops fit none. So a rule names, besides the ops that it looks at, the ops that have to make their
operands, and a table finds the rules for an op by these names: once for each combination of names, not once for each op.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import OpDefinition
from adjit.ir.emitter import emitting
from adjit.ir.errors import Location, Role
from adjit.ir.graph import Attributes, Graph, Op, Value, use_counts
from adjit.ir.types import is_complex

Number = bool | int | float
"""Number of a constant; of complex ones, which few rules look at, a Python complex."""
Rule = Callable[[Op, "Rewriter"], "Value | None"]
ProducerNames = frozenset[str | None]
"""Names of the ops that make the operands of an op; None stands for a parameter."""


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """Rule of a table, for ops with an operand made by one of `any_operand`, and all operands made by ops of `all_operands`; None means any
    op. `of_complex`: the rule holds for complex numbers, too."""

    rule: Rule
    any_operand: frozenset[str] | None = None
    all_operands: frozenset[str] | None = None
    of_complex: bool = False

    def fits(self, producers: ProducerNames, is_complex: bool = False) -> bool:
        """True if the rule is to be tried for an op whose operands are made by these ops; `is_complex`: an operand or the result is."""
        return (self.of_complex or not is_complex) and (self.any_operand is None or not self.any_operand.isdisjoint(producers)) and (
            self.all_operands is None or producers <= self.all_operands)


class RuleTable:
    """Rules by the name of the op they look at, in the order in which they are tried. `of_complex`: those added here hold for complex
    numbers, too."""

    def __init__(self, of_complex: bool = False) -> None:
        self.of_complex = of_complex
        self.entries: dict[str, list[RuleEntry]] = {}
        self.found: dict[tuple[str, ProducerNames, bool], tuple[Rule, ...]] = {}

    def rule(self, *names: str, any_operand: Collection[str] | None = None,
             all_operands: Collection[str] | None = None) -> Callable[[Rule], Rule]:
        """Add the decorated rule for the ops `names`; rules are tried in the order in which they were added.

        `any_operand` and `all_operands` restrict the producers of operands for which the rule is tried, as in `RuleEntry`. For other
        producers the rule must return None.
        """

        def add(rule: Rule) -> Rule:
            entry = RuleEntry(rule, None if any_operand is None else frozenset(any_operand),
                              None if all_operands is None else frozenset(all_operands), self.of_complex)
            for name in names:
                self.entries.setdefault(name, []).append(entry)
            return rule

        return add

    def find(self, name: str, producers: ProducerNames, is_complex: bool) -> tuple[Rule, ...]:
        """Rules to try for an op called `name` whose operands are made by `producers`; cached in `found`."""
        rules = self.found[name, producers, is_complex] = tuple(
            entry.rule for entry in self.entries.get(name, ()) if entry.fits(producers, is_complex))
        return rules


def merge(*tables: RuleTable) -> RuleTable:
    """Table with the rules of all `tables`, in order."""
    merged = RuleTable()
    for table in tables:
        for name, entries in table.entries.items():
            merged.entries.setdefault(name, []).extend(entries)
    return merged


class Rewriter:
    """Graph under reconstruction, as rules see it; an emitter, so that rules can call op records."""

    def __init__(self, graph: Graph, rules: RuleTable):
        self._graph = graph
        self._rules = rules
        self._has_complex = has_complex(graph)
        self._uses = use_counts(graph)
        self._ops: list[Op] = []
        self._producers: dict[Value, Op] = {}
        self._producer_names: dict[Value, str] = {}
        self._replaced: dict[Value, Value] = {}
        self._loc: Location | None = None
        self._role = Role.PRIMAL

    def producer(self, value: Value, *names: str) -> Op | None:
        """Op that makes `value`, if its name is one of `names` (any name if none are given); else None. None for a parameter."""
        op = self._producers.get(value)
        return op if op is not None and (not names or op.name in names) else None

    def number(self, value: Value) -> Number | None:
        """Number that fills `value`, rounded to its dtype; None if `value` is no constant."""
        op = self.producer(value, "constant")
        if op is None:
            return None
        number: Number = value.type.dtype.type(op.attrs["value"]).item()
        return number

    def used_once(self, value: Value) -> bool:
        """True if the graph is known to use `value` only once: then a rule may replace the op that makes it."""
        return self._uses.get(value) == 1

    def emit(self, definition: OpDefinition, operands: Sequence[Value], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[Value, ...]:
        types = definition.result_types([value.type for value in operands], attrs, regions)
        op = Op(definition, tuple(operands), tuple([Value(type) for type in types]), dict(attrs), regions, self._loc, self._role)
        replacement = self._replacement(op)
        if replacement is not None:
            return (replacement,)
        self._append(op)
        return op.results

    def run(self) -> Graph:
        """Graph with the rules applied; the same object if none applies."""
        with emitting(self):
            for op in self._graph.ops:
                self._visit(op)
        if not self._replaced:
            return self._graph
        return self._graph.with_ops(self._ops, [self._replaced.get(value, value) for value in self._graph.results])

    def _visit(self, op: Op) -> None:
        replaced = self._replaced
        if not replaced.keys().isdisjoint(op.operands):
            op = op.with_operands([replaced.get(value, value) for value in op.operands])
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
        of_complex = self._has_complex and any(is_complex(value.type.dtype) for value in (*op.operands, *op.results))
        key = op.name, frozenset(map(self._producer_names.get, op.operands)), of_complex
        rules = self._rules.found.get(key)
        for rule in self._rules.find(*key) if rules is None else rules:
            value = rule(op, self)
            if value is not None:
                if value.type != op.result.type:
                    raise AssertionError(f"the rule {rule.__name__} makes {value.type} of {op.result.type}")
                return value
        return None

    def _append(self, op: Op) -> None:
        self._ops.append(op)
        for value in op.results:
            self._producers[value] = op
            self._producer_names[value] = op.name


def has_complex(graph: Graph) -> bool:
    """True if a value of the graph is complex."""
    return any(is_complex(value.type.dtype) for value in graph.params) or any(
        is_complex(value.type.dtype) for op in graph.ops for value in op.results)


def rewrite(graph: Graph, rules: RuleTable) -> Graph:
    """Copy of `graph` with `rules` applied to every op, in order, and to every op that they emit."""
    if rules.entries.keys().isdisjoint([op.name for op in graph.ops]):
        return graph
    return Rewriter(graph, rules).run()
