"""Memos in functions that are differentiated: `if x == self.last_x: return self.last_value`.

What an earlier call stored has no derivative by the arguments of this one, so a gradient would be 0, or lack a part, where the memo is hit.
A hit is a decision for which a differentiated value is, or is close to, an equal one that is held where the function stores. The derivative
is refused if the output does not depend on its arguments then, or depends on something else that the function has stored.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import Location, TraceError
from adjit.ir.graph import Graph, Value
from adjit.tracer.flow.bytecode_flow import stored_and_read
from adjit.tracer.guards.bytecode import FILLS, reads_of
from adjit.tracer.guards.function_caches import caches_among
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import Source, names_in
from adjit.tracer.guards.state_numbers import StateNumbers, is_number
from adjit.tracer.scope import Scope
from adjit.tracer.user_location import find_user_location
from adjit.tracer.value_guards import CallValues, UnknownValueError

_ALIKE = frozenset({"reshape", "broadcast", "convert", "reduce_and", "reduce_or"})
_JOINING = frozenset({"bitwise_and", "bitwise_or", "logical_and", "logical_or"})
_LARGER = {"less": False, "less_equal": False, "greater": True, "greater_equal": True}
"""Comparisons, and whether the first operand is the larger one if they hold."""
_MAGNITUDES = frozenset({"abs", "square", "multiply", "power", "matmul"})
_MOST_OPS = 64


class Hit(NamedTuple):
    """Decision that found a differentiated value to be what is held at `path`; `other` is the captured array which that was, or a number
    in it, None for a constant of the trace."""

    path: str
    other: Value | None
    location: Location | None


class Memos:
    """Places that a function stores to and reads, as they were before the trace, and the hits in this trace."""

    def __init__(self, scope: Scope, known: Reachability, numbers: StateNumbers, may_take: bool):
        self._scope, self._known, self._numbers, self._may_take = scope, known, numbers, may_take
        self.hits: list[Hit] = []
        self.wanted: set[str] = set()       # paths of numbers that another trace has to have for inputs
        self._found: list[Source] | None = None

    def clear_caches(self, fun: Any) -> None:
        """Empty the caches with floats for keys of functions that `fun` calls: they give what they had computed for an equal number."""
        for cache in caches_among([fun, *(source.value for source in self._known.found)]):
            held = gc.get_referents(cache)      # keys and results, or a dict of them
            keys = [key for each in held for key in (each if isinstance(each, dict) else (each,)) if isinstance(key, tuple)]
            if any(isinstance(part, (float, complex, np.inexact)) for key in keys for part in key):
                cache.cache_clear()

    def note(self, decided: Value, scope: Scope | None, truth: bool) -> None:
        """Note a decision in a function that is differentiated, if it is a hit."""
        values, builder = self._scope.values, None if scope is None else scope.builder
        if values is None or not isinstance(builder, GraphBuilder) or not builder.is_differentiated:
            return
        location = find_user_location()
        try:
            for pair in _equal_pairs(values, decided, builder, truth):
                for one, (other, at) in (pair, pair[::-1]):
                    hit = self._hit(values, *one, other, at, location)
                    if hit is not None:
                        self.hits.append(hit)
                        return
        except UnknownValueError:
            return

    def _hit(self, values: CallValues, one: Value, builder: GraphBuilder, other: Value, at: GraphBuilder,
             location: Location | None) -> Hit | None:
        if not np.array_equal(values.array(one, builder), values.array(other, at)) or not values.is_differentiated(one, builder) or (
                values.is_differentiated(other, at)):
            return None
        origins = set(self._origins([other], at))
        for made, place in self._captured().items():
            if made in origins:
                return Hit(place, made, location)
        if not origins <= {captured.value for captured in self._scope.captures.values()}:
            return None         # an argument
        now = values.array(other, at)
        return next((Hit(place, None, location) for place, held in self._constants() if _is_held(now, held)), None)

    def check(self, hits: Sequence[Hit], graph: Graph, operands: Sequence[Value], around: GraphBuilder, arguments: int, outputs: int,
              what: str) -> None:
        """Raise `TraceError` if the first `outputs` results of a function that is differentiated by its first `arguments` parameters are
        what earlier calls stored, of which these decisions tell. `operands` are the values of the graph `around` for all
        parameters."""
        numbers = {source.path for source in self._stored() if isinstance(source.held, (float, complex, np.inexact))
                   and is_number(source.held)}
        numbers -= set(self._numbers.places().values())
        if self._may_take and (new := numbers - set(self._numbers.paths)):
            self.wanted |= new      # then it shows what they are used for
            return
        used = _needed_params(graph, outputs)
        depends = any(graph.params[index] in used for index in range(arguments))
        captured, own = self._captured(), {hit.other for hit in hits}
        outer = [value for param, value in zip(graph.params, operands, strict=True) if param in used]
        stored = [captured[value] for value in self._origins(outer, around) if value in captured and value not in own]
        if depends and not stored and not numbers:
            return
        hit = hits[0]
        raise TraceError(f"{what}: an argument equals what an earlier call stored in {hit.path}, and the function returns what it stored "
                         f"then{f' ({stored[0]})' if stored else ''}, which has no derivative", hit.location,
                         hint="leave the memo out of the function that is differentiated, or empty it before the call; "
                              "aj.value_and_grad computes the value and the gradient at once")

    def _origins(self, wanted: Sequence[Value], builder: GraphBuilder) -> Iterator[Value]:
        """Parameters of the outermost graph on which values depend."""
        values, seen = self._scope.values, set[Value]()
        assert values is not None
        stack = [(value, builder) for value in wanted]
        while stack:
            value, at = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            op, owner, outer = values.maker(value, at)
            if op is not None:
                stack += [(operand, owner) for operand in op.operands]
            elif outer is not None and owner.parent is not None:
                stack.append((outer, owner.parent))
            elif owner is self._scope.builder:
                yield value

    def _captured(self) -> dict[Value, str]:
        """The captured arrays that are held, or were, where the function stores, with the places of these."""
        places = {id(source.value): source.path for source in self._stored()} | self._numbers.places()
        return {captured.value: places[identity] for identity, captured in self._scope.captures.items() if identity in places}

    def _stored(self) -> list[Source]:
        """Places that the function reads and stores to."""
        if self._found is None:
            codes = self._known.codes
            names = {name for code in codes for _, name in stored_and_read(code)[0]}
            names |= {name for code in codes for kind, name in reads_of(code) if kind == FILLS}
            self._found = [source for source in self._known.found if not names.isdisjoint(names_in(source.path))]
        return self._found

    def _constants(self) -> Iterator[tuple[str, Any]]:
        """What such places hold that are no inputs, with the keys of dicts."""
        inputs = set(self._numbers.places().values())
        for source in self._stored():
            if source.path not in inputs:
                yield source.path, source.held
            if isinstance(source.value, dict):
                for key in dict.keys(source.value):
                    yield from ((f"the keys of {source.path}", part) for part in (key if isinstance(key, tuple) else (key,)))


def _is_held(now: np.ndarray, held: Any) -> bool:
    """True if a value is a float, or an array of floats, that a place holds."""
    return isinstance(held, (float, complex, np.inexact, np.ndarray)) and np.array_equal(now, held)


def _needed_params(graph: Graph, outputs: int) -> set[Value]:
    """Parameters on which the first results of a graph depend."""
    needed = set(graph.results[:outputs])
    for op in reversed(graph.ops):
        if not needed.isdisjoint(op.results):
            needed.update(op.operands)
    return needed


_Place = tuple[Value, GraphBuilder]


def _equal_pairs(values: CallValues, decided: Value, builder: GraphBuilder, truth: bool) -> Iterator[tuple[_Place, _Place]]:
    """Values that a decision has found equal, or close: operands of comparisons, and of differences of which the magnitude is small."""
    stack = [(decided, builder, truth)]
    for _ in range(_MOST_OPS):
        if not stack:
            return
        value, at, holds = stack.pop()
        op, owner, outer = values.maker(value, at)
        if op is None:
            if outer is not None and owner.parent is not None:
                stack.append((outer, owner.parent, holds))
        elif op.name in _ALIKE or op.name in _JOINING:
            stack += [(operand, owner, holds) for operand in op.operands]
        elif op.name == "logical_not":
            stack.append((op.operands[0], owner, not holds))
        elif op.name == ("equal" if holds else "not_equal"):
            yield (op.operands[0], owner), (op.operands[1], owner)
            for operand in op.operands:
                yield from _differences(values, operand, owner)
        elif op.name in _LARGER:
            yield from _differences(values, op.operands[_LARGER[op.name] is holds], owner)


def _differences(values: CallValues, small: Value, builder: GraphBuilder) -> Iterator[tuple[_Place, _Place]]:
    """Operands of the differences of which a value is a magnitude."""
    stack, seen = [(small, builder, False)], set[Value]()
    while stack and len(seen) < _MOST_OPS:
        value, at, is_magnitude = stack.pop()
        op, owner, _ = values.maker(value, at)
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.name == "subtract" and is_magnitude:
            yield (op.operands[0], owner), (op.operands[1], owner)
        else:
            stack += [(operand, owner, is_magnitude or op.name in _MAGNITUDES) for operand in op.operands]
