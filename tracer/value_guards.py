"""Decisions on values: while a function is traced, Python is told the values of this very call, and what it was told becomes guards.

    if np.sum(x) > 0:       # bool(): evaluated for the arguments of this call, and an op `guard {expected=True}` of the outermost graph

Only what a decision depends on is evaluated, by the meaning of the ops in NumPy, and only once. A value that depends on no argument and no
captured array needs no guard. Values of the regions of derivatives and checkpoints are those of the one run of the region: their ops are
written again into the outermost graph, where common subexpressions are merged later. Values that change from iteration to iteration of a
loop have no value here: `UnknownValueError`. Within `adjit.vmap` a value is that of one example: Python is told it if it is the same for
all examples, which is a decision too; else `DisagreeingExamplesError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.batching import inline_batched
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.emitter import emitting
from adjit.ir.errors import IndexingError, Location
from adjit.ir.graph import Graph, Op, Value, has_effects, quiet
from adjit.ir.interpreter import evaluate_silently, interpret
from adjit.ir.ops.guard import Outcome
from adjit.ir.ops.traits import EXPANDED
from adjit.ir.types import is_float, is_inexact
from adjit.ir.waiting_effects import no_effects
from adjit.tracer.array_wrapper import DeviceLeaf

KINDS = {"bool": "the truth value", "int": "the integer", "float": "the number"}
"""What Python asked for, in words, by the name of the type that it got."""

STEPS = frozenset({"stop_gradient", "floor", "ceil", "trunc", "rint", "sign"})
"""Ops of floats with no derivative but 0."""


class UnknownValueError(Exception):
    """Raised for a value that is not known while tracing."""


class DisagreeingExamplesError(Exception):
    """Raised for a value within `adjit.vmap` that is not the same for all examples."""


@dataclass(frozen=True, slots=True)
class ValueGuard:
    """One decision of a trace: `kind` is the name of the type that Python asked for, at `location`; `expected` what the guard compares."""

    kind: str
    expected: Outcome
    location: Location | None
    point: object = None        # tells decisions at one line apart, see `flow`

    def describe(self, found: Outcome | None = None) -> str:
        """The decision in words; with another value than the expected one if one is given."""
        place = "" if self.location is None else f" at {self.location}"
        return f"{KINDS[self.kind]}{place} is {self.told if found is None else _told(found, self.kind)!r}"

    @property
    def told(self) -> Outcome:
        """What Python was told."""
        return _told(self.expected, self.kind)


class _Arrays(dict[Value, Any]):
    """Arrays by value. What is in the memory of a device is copied when it is asked for: most traces decide on nothing."""

    def __getitem__(self, value: Value) -> np.ndarray:
        array = super().__getitem__(value)
        if isinstance(array, DeviceLeaf):
            self[value] = array = array.copied()
        return array    # type: ignore[no-any-return]


class CallValues:
    """Values of the call that is being traced.

    `expand` expands the transforms of a graph, so that it can be interpreted. `outcomes` are the values of the first guards, if they are
    known: a program computed them, and sums that it adds up in another order may differ in the last bit.
    """

    def __init__(self, expand: Callable[[Graph], Graph], outcomes: Sequence[Outcome] = (), flow: Any = None):
        self.guards: list[ValueGuard] = []
        self.flow = flow        # graph of the ways through the function that are known
        self.asked = 0          # number of questions
        self.expand = expand
        self._outcomes = tuple(outcomes)
        self._root: GraphBuilder | None = None
        self._arrays = _Arrays()
        self._varying: set[Value] = set()       # values that depend on an argument or a captured array
        self._fixed: set[Value] = set()         # values that do not
        self._lifted: dict[Value, Value] = {}
        self._answers: dict[tuple[Value, str], Outcome] = {}
        self._batches: dict[tuple[Value, str], Value] = {}      # values of all examples, by that of one and what Python asked for

    def begin(self, root: GraphBuilder) -> None:
        """Take the values of a trace into `root`."""
        self._root = root

    def bind(self, param: Value, array: Any) -> None:
        """Set the array for a parameter of the outermost graph."""
        self._arrays[param] = array if isinstance(array, DeviceLeaf) else np.asarray(array, param.type.dtype)
        self._varying.add(param)

    def array(self, value: Value, builder: GraphBuilder) -> np.ndarray:
        """The array of a value for this call, without a guard. Raises `UnknownValueError` where it has none."""
        if value in self._arrays:
            return self._arrays[value]
        with np.errstate(all="ignore"):
            return self._computed(value, builder)

    def _computed(self, value: Value, builder: GraphBuilder) -> np.ndarray:
        stack = [(value, builder)]
        while stack:
            wanted, at = stack[-1]
            op, owner, outer = (None, None, None) if wanted in self._arrays else self.maker(wanted, at)
            if op is not None and owner is not None:
                missing = [(operand, owner) for operand in op.operands if operand not in self._arrays]
                if not missing:
                    self._run(op)
                stack += missing
            elif outer is not None and owner is not None and owner.parent is not None:
                if outer in self._arrays:
                    self._arrays[wanted] = self._arrays[outer]
                else:
                    stack.append((outer, owner.parent))
            if wanted in self._arrays:
                stack.pop()
        return self._arrays[value]

    def varies(self, value: Value, builder: GraphBuilder) -> bool:
        """True if a value depends on anything that may change from call to call. Nothing is computed. Raises `UnknownValueError` where
        there is no value."""
        stack = [(value, builder)]
        while stack:
            wanted, at = stack[-1]
            if wanted in self._varying or wanted in self._fixed:
                stack.pop()
                continue
            op, owner, outer = self.maker(wanted, at)
            if op is not None:
                sources = [(operand, owner) for operand in op.operands]
            elif outer is not None and owner.parent is not None:
                sources = [(outer, owner.parent)]
            elif wanted in self._arrays:
                sources = []
            else:
                raise UnknownValueError
            missing = [each for each in sources if each[0] not in self._varying and each[0] not in self._fixed]
            if missing:
                stack += missing
                continue
            varies = any(source in self._varying for source, _ in sources)
            (self._varying if varies else self._fixed).update((wanted,) if op is None else op.results)
            stack.pop()
        return value in self._varying

    def vary(self, value: Value) -> None:
        """Take a value for one that may change from call to call, whatever it depends on."""
        self._varying.add(value)
        self._fixed.discard(value)

    def answer(self, value: Value, builder: GraphBuilder, kind: str, location: Location | None, guarded: bool = True,
               point: object = None) -> Outcome:
        """The value of a scalar for this call, as a `kind`; `guarded`, if it depends on anything that may change."""
        self.asked += 1
        value, builder = self._of_all_examples(value, builder, kind, location, guarded, point)
        now = self.array(value, builder)
        if not guarded or not self.varies(value, builder):
            return _told(now.item(), kind)
        at_root, root, number = self._at_root(value, builder), self._root, len(self.guards)
        known = self._answers.get((at_root, kind))
        if known is not None:
            return known
        assert root is not None
        with emitting(root), root.at(loc=location):
            compared = _compared(at_root, kind)
            if number < len(self._outcomes) and not _may_be(self._outcomes[number], _told(now.item(), kind)):
                self._outcomes = ()         # they are of a trace that decided on other values
            expected = self._outcomes[number] if number < len(self._outcomes) else self.array(compared, root).item()
            told = _told(expected, kind)        # before there is a guard: the integer of NaN is an error
            ops.guard.emit(compared, expected=expected, number=number)
        self.guards.append(ValueGuard(kind, expected, location, point))
        self._answers[at_root, kind] = told
        return told

    def _of_all_examples(self, value: Value, builder: GraphBuilder, kind: str, location: Location | None, guarded: bool,
                         point: object) -> tuple[Value, GraphBuilder]:
        """A value of one example as a value outside of the batch, with the builder of its graph; that all examples have the same is a
        decision of its own. Raises `DisagreeingExamplesError` where they have not."""
        while (at := _batch_around(value, builder)) is not None:
            outer = at.parent
            assert outer is not None
            if (value, kind) not in self._batches:
                graph, operands = self._up_to(value, builder, at, kind)
                with emitting(outer), outer.at(loc=location):
                    size = next(iter(at.example_of.values())).type.shape[0]
                    (self._batches[value, kind],) = inline_batched(graph, operands, size)
            found, builder = self._batches[value, kind], outer
            if found.type.shape:
                with emitting(outer), outer.at(loc=location):
                    first = _first(found)
                    same = ops.reduce_and(_same(found, ops.broadcast(first, shape=found.type.shape, axes=())), axes=(0,))
                if not self.answer(same, outer, "bool", location, guarded, (point, "examples")):
                    raise DisagreeingExamplesError
                found = first
            value = found
        return value, builder

    def _up_to(self, value: Value, builder: GraphBuilder, batch: GraphBuilder, kind: str) -> tuple[Graph, list[Value]]:
        """Graph of what Python asks of `value`, from parameters of the graph for one example, and the outer values that these stand for."""
        made, known = GraphBuilder(batch.name), dict[Value, Value]()
        operands: list[Value] = []
        stack = [(value, builder)]
        while stack:
            wanted, at = stack[-1]
            op, owner, outer = (None, at, None) if wanted in known else self.maker(wanted, at)
            example = None if wanted in known else owner.example_of.get(wanted)
            if wanted in known:
                stack.pop()
            elif owner is batch and op is None:
                operands.append(example if example is not None else self._outer(batch, wanted))
                known[wanted] = made.param(wanted.type)
            elif op is None:
                assert owner.parent is not None
                if outer in known:
                    known[wanted] = known[outer]
                else:
                    stack.append((self._outer(owner, wanted), owner.parent))
            else:
                missing = [(operand, owner) for operand in op.operands if operand not in known]
                if not missing:
                    results = tuple(Value(result.type) for result in op.results)
                    made.append(quiet(op).with_operands([known[operand] for operand in op.operands], results))
                    known.update(zip(op.results, results, strict=True))
                stack += missing
        with emitting(made):
            return made.build([_compared(known[value], kind)]), operands

    @staticmethod
    def _outer(builder: GraphBuilder, param: Value) -> Value:
        outer = builder.stands_for.get(param)
        if outer is None:
            raise UnknownValueError
        return outer

    def is_differentiated(self, value: Value, builder: GraphBuilder) -> bool:
        """True if a derivative that is being traced would go through this value."""
        stack, seen = [(value, builder)], set[Value]()
        while stack:
            current, at = stack.pop()
            if current in seen or not is_inexact(current.type.dtype):
                continue
            seen.add(current)
            try:
                op, owner, outer = self.maker(current, at)
            except UnknownValueError:
                return False
            if current in owner.differentiated:
                return True
            if op is not None and op.name not in STEPS and (op.definition.vjp is not None or op.definition.kind is Kind.REGION):
                stack += [(operand, owner) for operand in op.operands]
            elif outer is not None and owner.parent is not None:
                stack.append((outer, owner.parent))
            elif current in owner.example_of and owner.parent is not None:
                stack.append((owner.example_of[current], owner.parent))
        return False

    def maker(self, value: Value, builder: GraphBuilder) -> tuple[Op | None, GraphBuilder, Value | None]:
        """The op that makes a value, or the outer value that a parameter stands for; and the builder of its graph."""
        at: GraphBuilder | None = builder
        while at is not None and not at.owns(value):
            at = at.parent
        if at is None:
            raise UnknownValueError
        op, outer = at.producer(value), at.stands_for.get(value)
        if op is None and outer is None and value not in self._arrays and value not in at.example_of:
            raise UnknownValueError
        return op, at, outer

    def _run(self, op: Op) -> None:
        arrays = [self._arrays[value] for value in op.operands]
        try:
            if op.name in EXPANDED or op.regions:
                params = tuple(Value(value.type) for value in op.operands)
                alone = Graph(op.name, params, (op.with_operands(params),), op.results)
                with no_effects() if has_effects(op) else nullcontext():
                    results = interpret(self.expand(alone), arrays)
            else:
                results = evaluate_silently(op.definition, arrays, op.attrs)
        except IndexError as error:
            raise error if isinstance(error, IndexingError) else IndexingError(f"{op.name}: {error}", op.loc) from None
        self._arrays.update(zip(op.results, results, strict=True))

    def _at_root(self, value: Value, builder: GraphBuilder) -> Value:
        """The value in the outermost graph, where the ops that make it in a region are written again."""
        stack = [(value, builder)]
        while stack:
            wanted, at = stack[-1]
            if wanted in self._lifted:
                stack.pop()
                continue
            op, owner, outer = self.maker(wanted, at)
            if owner is self._root:
                self._lifted[wanted] = wanted
            elif op is None:
                assert outer is not None
                assert owner.parent is not None
                if outer in self._lifted:
                    self._lifted[wanted] = self._lifted[outer]
                else:
                    stack.append((outer, owner.parent))
            else:
                missing = [(operand, owner) for operand in op.operands if operand not in self._lifted]
                if not missing:
                    self._copy(op)
                stack += missing
        return self._lifted[value]

    def _copy(self, op: Op) -> None:
        assert self._root is not None
        results = tuple(Value(value.type, value.name) for value in op.results)
        self._root.append(quiet(op).with_operands([self._lifted[value] for value in op.operands], results))
        self._lifted.update(zip(op.results, results, strict=True))


def _batch_around(value: Value, builder: GraphBuilder) -> GraphBuilder | None:
    """The innermost graph for one example around a value."""
    at: GraphBuilder | None = builder
    while at is not None and not at.owns(value):
        at = at.parent
    while at is not None and not at.example_of:
        at = at.parent
    return at


def _first(values: Value) -> Value:
    """First element of a vector, as a scalar."""
    return ops.reshape(ops.slice(values, start=(0,), stop=(1,), step=(1,)), shape=())


def _same(a: Value, b: Value) -> Value:
    """Where Python could not tell two values apart: NaN is NaN, and -0.0 is not 0.0."""
    equal = ops.equal(a, b)
    if not is_float(a.type.dtype):
        return equal
    signs = ops.equal(ops.reciprocal(a), ops.reciprocal(b))
    return ops.logical_or(ops.logical_and(equal, signs), ops.logical_and(ops.isnan(a), ops.isnan(b)))


def _may_be(outcome: Outcome, told: Outcome) -> bool:
    """True if a program may have computed an outcome where the trace tells another value: sums in another order differ in the last bits."""
    if type(outcome) is not type(told) or isinstance(told, bool):
        return type(outcome) is type(told)
    return math.isclose(outcome, told, rel_tol=1e-3, abs_tol=1.0 if isinstance(told, int) else 0.0)


def _told(number: Outcome, kind: str) -> Outcome:
    return bool(number) if kind == "bool" else int(number) if kind == "int" else float(number)


def _compared(value: Value, kind: str) -> Value:
    """The scalar that a guard compares: as little of the value as Python gets to know."""
    if value.type.shape:
        value = ops.reshape(value, shape=())
    if kind == "bool" and value.type.dtype.kind != "b":
        return ops.not_equal(value, ops.full_like(value, 0))
    if kind == "int" and is_float(value.type.dtype):
        return ops.add(ops.trunc(value), ops.full_like(value, 0.0))     # 0 for -0.5, too
    return value
