"""Control-flow graph of a traced function: the points at which it decided, and the ops that were recorded from one to the next.

The graph grows with each trace. What is not in it nobody has seen.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from types import CodeType, FrameType
from typing import Any

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value, attributes_key, has_effects
from adjit.ir.types import F64, TensorType
from adjit.tracer.flow.identity_uses import asks_for_class, asks_for_identity
from adjit.tracer.user_location import is_ours

Key = Any
"""Number of a point, or a `structured._Back`."""

Source = tuple[object, ...]
"""A variable: its code and its name; or what is reached from there by attributes and items: their names. Behind that of an array,
`CONTENT` stands for what it holds."""

CONTENT = ...


EITHER = "either"
"""Last part of the source of a variable whose class is part of the state: a float of Python's or NumPy's."""

APART = "apart"
"""Last part of the source of a variable that gets a copy of its own of an array which something else holds, too."""

SHARED: Source = ("shared",)
"""Source of arrays that more than one name holds, of which each gets a copy where ways differ in this alone."""


GROWN = "grown"
"""Last part of the source of a list that decisions make longer or shorter."""

ListForm = type | tuple[Any, ...] | str
"""What the items of such a list are, see `form_of_item`."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Ops from one point to the next: `inputs` are the values of the state before, `outputs` those of the state behind, of which the last
    is the decision if the next point is one. `captured` are values that stand for arrays from outside."""

    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]
    captured: Mapping[Value, object]
    end: Key

    def does_the_same(self, other: Block) -> bool:
        """True if two recordings have the same ops, but for what decisions within regions became; or the same outputs and effects, as a
        view may be read in one of them and not in the other."""
        known: dict[Hashable, int] = {}
        return self.end == other.end and (_names(self.ops) == _names(other.ops) or _expressions(self, known) == _expressions(other, known))


def joined_forms(first: ListForm | None, second: ListForm | None) -> ListForm | None:
    """The kind of items that comprises both kinds: floats of Python's and NumPy's may lie in one list. None if there is none."""
    if first == second:
        return first
    if isinstance(first, tuple) and isinstance(second, tuple) and first[0] is second[0] is tuple and len(first) == len(second):
        parts = tuple(map(joined_forms, first[1:], second[1:]))
        return None if None in parts else (tuple, *parts)
    floats = (float, EITHER, (F64, True, ()), (F64, False, ()))
    return EITHER if first in floats and second in floats else None


def _names(ops: Iterable[Op]) -> list[Hashable]:
    return [op.name if op.regions else (op.name, attributes_key(op.attrs)) for op in ops]


def _expressions(block: Block, known: dict[Hashable, int]) -> tuple[list[int], list[Hashable]]:
    """Numbers of the outputs, equal for equal expressions of the inputs, and the names of the ops that are there for what they do."""
    numbers: dict[Value, int] = {}
    for place, value in enumerate(block.inputs):
        numbers.setdefault(value, known.setdefault(("input", place), len(known)))
    for value, array in block.captured.items():
        numbers[value] = known.setdefault(("captured", id(array)), len(known))
    for op, name in zip(block.ops, _names(block.ops), strict=True):
        operands = tuple(numbers[value] for value in op.operands)
        for index, value in enumerate(op.results):
            numbers[value] = known.setdefault((name, operands, index), len(known))
    return [numbers[value] for value in block.outputs], _names(op for op in block.ops if op.definition.is_check or has_effects(op))


class FlowMismatch(BaseException):
    """Raised where something decides what Python does that no point shows: a trace does other things behind a point than one before. The
    functions that are traced do not catch it, as they might an `Exception`."""


class TraceAgain(BaseException):
    """Raised in the functions that are traced where another trace will do better, and this one has seen enough."""


class EndOfExploration(BaseException):
    """Raised in the functions that are traced where exploring them takes too long."""


MAX_EXPLORED_POINTS = 500
"""Points, besides twice the known ones, after which an exploration ends: what it does is not what a call does, and may go on forever."""

MAX_EXPLORED_LINES = 100_000
"""Lines of Python after which an exploration ends: a loop of numbers alone comes by no point."""


LIFTED_AFTER = 8
"""Times that a trace comes by points which differ in numbers alone until it is made again, with these as part of the state."""


class FlowGraph:
    """Points by the number of their key, with the types of their states, and the blocks behind each outcome. `recorders` are those of the
    last trace."""

    def __init__(self) -> None:
        self.types: dict[Key, tuple[TensorType, ...]] = {}
        self.blocks: dict[Key, dict[bool, Block]] = {}
        self.unstructured: set[Key] = set()         # points with known ways that never meet as branches and loops do
        self.between: dict[Key, int] = {}       # points at which a loop goes on or ends, and the number of its iterator among those of the
        # point before: Python does not come by there
        self.checked: set[Key] = set()      # points at which the program checks what holds for lifted numbers: nor there
        self.lifted: set[Source] = set()    # variables whose numbers are part of the state
        self.fixed: set[Source] = set()     # variables that hold numbers which Python needs
        self.unshared_types: set[TensorType] = set()        # of arrays that got a copy for each of their names
        self.met: dict[int, Any] = {}       # references to arrays that points of this trace have met, by identity: those of regions live on
        self.written_types: set[TensorType] = set()         # of arrays that were written to after a point that they are part of
        self._floats: dict[Key, tuple[Hashable, Mapping[Source, bool]]] = {}        # at points, with their places: which are Python's
        self._stays: dict[Hashable, bool] = {}       # whether variables with such a float at a place had one at the next point
        self._shared: dict[Key, Mapping[Source, bool]] = {}         # whether something else holds the array of a variable, at points
        self._shared_at: dict[Hashable, bool] = {}      # the same at places, when they were first seen
        self._written_at: dict[Hashable, bool] = {}     # whether something traced was written to an array, at places, when first seen
        self._rejoined: set[Source] = set()
        self.list_forms: dict[Source, ListForm] = {}        # of lists whose items are of one kind
        self.capacities: dict[Source, int] = {}     # items that lifted lists have room for, where that is not the usual number
        self._lists: dict[Key, tuple[Hashable, Mapping[Source, tuple[int, int]]]] = {}      # at points, with their places: identity, length
        self._growth: dict[Hashable, int] = {}      # by how many items lists grew behind a place, when that was first seen
        self._grown: set[Source] = set()
        self._disagreeing: set[Source] = set()
        self._classes: dict[CodeType, bool] = {}
        self._identity: dict[CodeType, bool] = {}
        self.lifts = True       # whether there may be lifted variables
        self._varying: set[Source] = set()      # variables by whose numbers alone ways differ
        self._seen: dict[Hashable, dict[Source, Any]] = {}      # numbers of variables at a point, by all else
        self.structured: set[Key] = set()       # points at which branches and loops of the last trace begin
        self.growing = False    # whether the last trace goes ways that nobody had seen: it will be made again, and emits no more of them
        self.exploring = False
        self.guides = True      # whether Python is led to the end of a known branch or loop on a shortest way, not on that of the call
        self.guided = False     # whether it was in the last trace
        self.forwarded = False      # whether Python was led past rounds that nobody traced, in the last trace: it is no program
        self.met_again = False      # whether the last trace came by points that one before it came by
        self._numbered_before = 0
        self.again = False          # whether the last trace was ended to be made again
        self.lifts_early = False    # whether a trace may end as soon as numbers are known that will be lifted
        self._waiting: Counter[Hashable] = Counter()        # times that points came up which differ in numbers alone
        self.has_ways = False   # whether there were blocks before the trace under way: after an error the call is traced without them
        self.points_left = 0        # that may be passed while exploring
        self._goals: dict[Key, tuple[list[Key], list[Key]]] = {}       # of an exploration
        self.recorders: list[Any] = []
        self.guards: list[Any] = []         # guards of the traces that are part of it
        self.contents: dict[int, Any] = {}      # arrays that Python read in one of them, and what was read of their form
        self.forms: dict[int, tuple[Any, ...]] = {}
        self.viewed: set[int] = set()
        self.depends_on_strides = False
        self.changes_state = False      # whether the function changes what not only its own frames hold: no point shows it
        self._analysis: tuple[dict[Key, Key | None], dict[Key, frozenset[Key]]] | None = None       # of the present blocks
        self._sources: dict[Key, tuple[Source, ...]] = {}       # variables that hold numbers at a point
        self._families: dict[Key, int] = {}         # points that differ in counters alone, as the iterations of a loop
        self._family_numbers: dict[Hashable, int] = {}
        self._outcomes: dict[int, set[bool]] = {}           # of all points of a family
        self._numbers: dict[Hashable, int] = {}
        self._kept: list[object] = []        # objects that keys name by identity

    def number(self, key: Hashable, kept: Iterable[object], family: Hashable = None) -> int:
        """The number of a point with this key, which names the objects `kept` by their identity. `family` is the key without counters."""
        known = self._numbers.get(key)
        self.met_again = self.met_again or (known is not None and known < self._numbered_before)
        if known is None:
            known = self._numbers[key] = len(self._numbers)
            self._kept += kept
            if family is not None:
                self._families[known] = self._family_numbers.setdefault(family, len(self._family_numbers))
        return known

    def note_numbers(self, point: Key, key: Hashable, numbers: Sequence[tuple[Source, Any]], family: Hashable) -> None:
        """Note the numbers that variables hold at a point; `key` says all else, and `family` all but the counters."""
        self._sources.setdefault(point, tuple(source for source, _ in numbers))
        fixed = tuple((source, repr(number)) for source, number in numbers if source in self.fixed)
        seen = self._seen.setdefault((key, fixed), dict(numbers))
        varying = {source for source, number in numbers if repr(seen.get(source)) != repr(number)}
        self._varying |= varying
        if self.lifts_early and self.lifts and not varying <= self.lifted | self.fixed:
            self._waiting[family] += 1
            if self._waiting[family] >= LIFTED_AFTER:
                self.again = True
                raise TraceAgain

    def note_classes(self, point: Key, place: Hashable, floats: Mapping[Source, bool], start: Key) -> None:
        """Note of variables whether they hold a float of Python's or of NumPy's at a point. Ways will differ by the class alone if what was
        decided at a place, that of the point `start` before, says whether a float of Python's becomes one of NumPy's."""
        self._sources[point] = (*self._sources[point], *floats)
        before, known = self._floats.get(start, (None, {}))
        self._floats[point] = place, floats
        for source, is_pythons in floats.items():
            if known.get(source) and self._stays.setdefault((before, source), is_pythons) != is_pythons:
                self._varying.add(source)

    def note_shared(self, point: Key, place: Hashable, shared: Mapping[Source, bool], start: Key) -> None:
        """Note of variables that hold arrays whether something else holds them, too, at a point, which comes after the point `start`. Ways
        differ by that where not all points of a place agree; again and again, if an array that one variable held gets to others, too."""
        self._sources[point] = (*self._sources[point], *shared)
        before, self._shared[point] = self._shared.get(start, {}), shared
        self._rejoined |= {source for source, now in shared.items() if now and before.get(source) is False}
        self._disagreeing |= {source for source, now in shared.items() if self._shared_at.setdefault((place, source), now) != now}
        if not self._rejoined.isdisjoint(self._disagreeing):
            self._varying |= self._disagreeing

    def note_fresh(self, place: Hashable, fresh: Mapping[Source, bool]) -> None:
        """Note of arrays that the function made whether something traced was written to them. Ways differ by that where not all points
        of a place agree, as `out[i] = ...` comes behind a decision: the rounds up to the first write are others."""
        self._varying |= {source for source, written in fresh.items() if self._written_at.setdefault((place, source), written) != written}

    def note_lists(self, point: Key, place: Hashable, lists: Sequence[tuple[Source, int, int, ListForm | None]], start: Key) -> None:
        """Note identity, length and form of the lists at a point. Ways differ in them where what is decided at a place, that of the point
        `start` before, says by how many items a list grows."""
        self._sources[point] = (*self._sources[point], *(source for source, *_ in lists))
        before, known = self._lists.get(start, (None, {}))
        self._lists[point] = place, {source: (identity, length) for source, identity, length, _ in lists}
        for source, identity, length, form in lists:
            if form is not None:
                joined = joined_forms(self.list_forms.setdefault(source, form), form)
                if joined is None:
                    self.fixed.add(source)
                else:
                    self.list_forms[source] = joined
            was, size = known.get(source, (None, 0))
            if was == identity and self._growth.setdefault((before, source), length - size) != length - size:
                self._grown.add(source)
            if source in self._grown and source in self.list_forms and source not in self.lifted | self.fixed:
                self._varying.add(source)
                self._waiting[source] += self.lifts_early and self.lifts
                if self._waiting[source] >= LIFTED_AFTER:
                    self.again = True
                    raise TraceAgain

    def enlarge(self, source: Source, count: int) -> None:
        """Give a lifted list room for more than `count` items; what was recorded with it is forgotten."""
        self.capacities[source] = 2 << count.bit_length()
        self._forget({key for key, sources in self._sources.items() if source in sources})

    def widen(self, source: Source, form: ListForm) -> None:
        """Give a lifted list items of another kind; what was recorded with it is forgotten."""
        self.list_forms[source] = form
        self._forget({key for key, sources in self._sources.items() if source in sources})

    @property
    def lifts_lists(self) -> bool:
        """Whether the state has lists."""
        return any(source[-1] is GROWN for source in self.lifted)

    def lift_more(self) -> bool:
        """Lift the variables by whose numbers alone ways differ; returns whether there are new ones."""
        new = self._varying - self.lifted - self.fixed if self.lifts else set()
        self.lifted |= new
        if new:
            self._forget({key for key, sources in self._sources.items() if not new.isdisjoint(sources)})
        return bool(new)

    def _forget(self, keys: set[Key]) -> None:
        """Forget points that no trace will come by again, and what leads to them."""
        for key in keys:
            del self._sources[key]
        self.blocks = {key: left for key, blocks in self.blocks.items() if key not in keys and (
            left := {outcome: block for outcome, block in blocks.items() if block.end not in keys})}
        self._analysis = None

    def asks_for_identity(self, frame: FrameType) -> bool:
        """True if code that runs at a point compares objects by identity: then no number is lifted."""
        known = self._identity.get(frame.f_code)
        if known is None:
            known = self._identity[frame.f_code] = asks_for_identity(frame)
        return known

    def asks_for_class(self, frame: FrameType) -> bool:
        """True if code that runs at a point asks for the class of objects, or what attributes they have."""
        known = self._classes.get(frame.f_code)
        if known is None:
            known = self._classes[frame.f_code] = asks_for_class(frame)
        return known

    def note_reads(self, contents: Mapping[int, Any], forms: Mapping[int, tuple[Any, ...]], viewed: set[int], strides: bool) -> None:
        """Note what a trace read: its blocks are part of the graph."""
        self.contents = {**self.contents, **contents}
        self.forms = {**self.forms, **forms}
        self.viewed = self.viewed | viewed
        self.depends_on_strides = self.depends_on_strides or strides

    def lifted_contents(self) -> set[Source]:
        """The arrays whose content is part of the state, and the lists."""
        return {source for source in self.lifted if source[-1] in (CONTENT, GROWN)}

    def unlifted(self, sources: Collection[Source] | None) -> FlowGraph:
        """Make a graph without what was recorded, in which these variables are not lifted; None: no variable is."""
        made = FlowGraph()
        made.fixed = self.fixed | set(sources or ())
        made.lifts = sources is not None and self.lifts
        made.guides, made.capacities = self.guides, self.capacities
        return made

    def unknown_outcome(self, key: Key) -> bool | None:
        """An outcome that nobody has seen at a point, but at another point of its family: in another iteration; None if there is none."""
        if key not in self._families:
            return None
        known = self.blocks.get(key, {})
        return next((outcome for outcome in (True, False) if outcome not in known
                     and outcome in self._outcomes.get(self._families[key], ())), None)

    @contextmanager
    def exploration(self) -> Iterator[None]:
        """Have the traces within go ways that nobody has seen; `EndOfExploration` ends one that takes too long."""
        lines_left, before, recorders = MAX_EXPLORED_LINES, sys.gettrace(), self.recorders

        def count(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
            nonlocal lines_left
            if is_ours(frame.f_globals.get("__name__", "")):
                return None
            lines_left -= 1
            if lines_left < 0:
                raise EndOfExploration
            return count

        self.exploring, self.points_left, self.recorders = True, MAX_EXPLORED_POINTS + 2 * len(self.blocks), []
        self._goals = self._unknown_behind()
        sys.settrace(count)
        try:
            yield
        finally:
            sys.settrace(before)
            self.exploring, self.recorders = False, recorders

    def explored_outcome(self, key: Key) -> bool | None:
        """An outcome of a point that an exploration chooses, as nobody has seen it there, or it leads to one that nobody has seen; None if
        there is none."""
        self.points_left -= 1
        if self.points_left < 0:
            raise EndOfExploration
        unknown = self.unknown_outcome(key)
        if unknown is not None or key not in self._goals:
            return unknown
        behind = [sum(self.unknown_outcome(goal) is not None for goal in goals) for goals in self._goals[key]]
        return None if behind[False] == behind[True] else behind[True] > behind[False]

    def _unknown_behind(self) -> dict[Key, tuple[list[Key], list[Key]]]:
        """For points with two known outcomes, and each of these: the points with one that nobody has seen, up to where the ways meet."""
        unknown, joins = {key for key in self.blocks if self.unknown_outcome(key) is not None}, self.analysis()[0]

        def behind(start: Key, join: Key | None) -> list[Key]:
            return [key for key in reachable(start, lambda at: [] if at == join else self.successors(at)) if key in unknown and key != join]

        return {key: (behind(blocks[False].end, joins[key]), behind(blocks[True].end, joins[key]))
                for key, blocks in (self.blocks.items() if unknown else ()) if len(blocks) == 2 and joins[key] is not None}

    def worth_exploring(self) -> int:
        """Number of points with an outcome that was seen in other iterations only."""
        return sum(self.unknown_outcome(key) is not None for key in self.blocks)

    def analysis(self) -> tuple[dict[Key, Key | None], dict[Key, frozenset[Key]]]:
        """Immediate postdominators of all points, and the points of each cycle."""
        if self._analysis is None:
            keys = list(dict.fromkeys([*self.blocks, *(block.end for blocks in self.blocks.values() for block in blocks.values())]))
            self._analysis = immediate_postdominators(keys, self.successors), cycles(keys, self.successors)
        return self._analysis

    def has_cycles(self) -> bool:
        """True if a way comes back to a point."""
        return bool(self.analysis()[1])

    def holds(self) -> bool:
        """True if what the traces read besides the arguments is what it was, and each array is the same object."""
        return all((now := guards.current()) is not None and all(map(is_, now, guards.arrays)) for guards in self.guards)

    def begin(self) -> int:
        """Begin a trace that emits what is known; returns the number of known points."""
        self.recorders.clear()
        self.structured.clear()
        self.growing = self.guided = self.forwarded = self.again = False
        self.met_again, self._numbered_before = False, len(self._numbers)
        self._waiting.clear()
        self.met = {}
        return len(self.types)

    def learned(self) -> bool:
        """True if another trace would have fewer guards than the last one."""
        return any(recorder.learned() for recorder in self.recorders)

    def add(self, start: Key, outcome: bool, block: Block) -> None:
        """Add a block that was recorded."""
        known = self.blocks.setdefault(start, {})
        if block.end in self.between and outcome in known and known[outcome].end not in self.between:
            return      # a break out of the last iteration looks like the end of the loop
        if outcome in known and block.end not in self.between and known[outcome].end not in self.between \
                and not block.does_the_same(known[outcome]):
            raise FlowMismatch
        if start in self._families:
            self._outcomes.setdefault(self._families[start], set()).add(outcome)
        if outcome not in known or known[outcome].end != block.end:
            self._analysis, self.growing = None, True
        known[outcome] = block      # the newest one, whose regions have the outcomes that were seen since

    def kept_items(self, start: Key, members: frozenset[Key]) -> dict[Key, list[int | None]]:
        """For each item of the state at the points that are reached from `start` through `members`: the item of the state at `start`
        that it is, whichever way was taken; None if it is another value."""
        found: dict[Key, list[int | None]] = {start: list(range(len(self.types[start])))}
        waiting = [start]
        while waiting:
            key = waiting.pop()
            for block in self.blocks.get(key, {}).values():
                if key not in members:
                    continue
                items = dict(zip(block.inputs, found[key], strict=False))
                after = [items.get(value) for value in block.outputs]
                known = found.get(block.end)
                merged = after if known is None else [
                    first if first == second else None for first, second in zip(known, after, strict=True)]
                if merged != known:
                    found[block.end] = merged
                    waiting.append(block.end)
        return found

    def outcomes_towards(self, goal: Key, start: Key) -> dict[Key, bool]:
        """For each point on the ways from `start` to `goal`: the outcome by which the goal is reached over the fewest points."""
        leading: dict[Key, list[tuple[Key, bool]]] = {}
        for key in reachable(start, lambda key: [] if key == goal else self.successors(key)):
            for outcome, block in self.blocks.get(key, {}).items() if key != goal else ():
                leading.setdefault(block.end, []).append((key, outcome))
        found: dict[Key, bool] = {}
        reached = [goal]
        for end in reached:
            for before, outcome in leading.get(end, ()):
                if before not in found:
                    found[before] = outcome
                    reached.append(before)
        return found

    def successors(self, key: Key) -> list[Key]:
        return [block.end for block in self.blocks.get(key, {}).values()]


def reachable(start: Key, successors: Callable[[Key], Iterable[Key]]) -> list[Key]:
    """Keys that are reached from `start`, which is the first, in reverse postorder."""
    order: list[Key] = []
    seen = {start}
    stack = [(start, iter(successors(start)))]
    while stack:
        key, following = stack[-1]
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors(successor))))
                break
        else:
            order.append(key)
            stack.pop()
    return order[::-1]


def immediate_postdominators(keys: Sequence[Key], successors: Callable[[Key], Sequence[Key]]) -> dict[Key, Key | None]:
    """The first key that every way from a key to the end passes, for all `keys`, which have all their successors among them; None where the
    ways have no key in common. The algorithm of Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm, on the reversed graph.
    """
    predecessors: dict[Key, list[Key]] = {key: [] for key in keys}
    for key in keys:
        for successor in successors(key):
            predecessors[successor].append(key)
    ends = [key for key in keys if not successors(key)]
    order: list[Key] = []       # postorder of the reversed graph, from its ends
    seen: set[Key] = set()
    for end in ends:
        if end in seen:
            continue
        seen.add(end)
        stack = [(end, iter(predecessors[end]))]
        while stack:
            key, following = stack[-1]
            for before in following:
                if before not in seen:
                    seen.add(before)
                    stack.append((before, iter(predecessors[before])))
                    break
            else:
                order.append(key)
                stack.pop()
    exit_number = len(order)
    number = {key: index for index, key in enumerate(order)}
    dominator: list[int | None] = [None] * exit_number + [exit_number]
    changed = True
    while changed:
        changed = False
        for key in reversed(order):
            after = [number[successor] for successor in successors(key) if successor in number]
            known = [index for index in after if dominator[index] is not None] if after else [exit_number]
            if not known:
                continue
            new = known[0]
            for other in known[1:]:
                new = _intersect(new, other, dominator)
            if dominator[number[key]] != new:
                dominator[number[key]] = new
                changed = True
    found = {}
    for key in keys:
        index = dominator[number[key]] if key in number else None
        found[key] = order[index] if index is not None and index != exit_number else None
    return found


def _intersect(first: int, second: int, dominator: list[int | None]) -> int:
    while first != second:
        while first < second:
            first = dominator[first]        # type: ignore[assignment]
        while second < first:
            second = dominator[second]      # type: ignore[assignment]
    return first


def cycles(keys: Sequence[Key], successors: Callable[[Key], Sequence[Key]]) -> dict[Key, frozenset[Key]]:
    """For each key that reaches itself: the keys that it reaches and that reach it."""
    return {key: members for members in _strongly_connected(keys, successors) for key in members}


def _strongly_connected(keys: Sequence[Key], successors: Callable[[Key], Sequence[Key]]) -> list[frozenset[Key]]:
    """Sets of keys that reach each other, and single keys that reach themselves: Tarjan's algorithm."""
    number: dict[Key, int] = {}
    low: dict[Key, int] = {}
    stack: list[Key] = []
    on_stack: set[Key] = set()
    found: list[frozenset[Key]] = []
    for root in keys:
        if root in number:
            continue
        work = [(root, iter(successors(root)))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            key, following = work[-1]
            for successor in following:
                if successor not in number:
                    number[successor] = low[successor] = len(number)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(successors(successor))))
                    break
                if successor in on_stack:
                    low[key] = min(low[key], number[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == number[key]:
                    members = set()
                    while key not in members:
                        member = stack.pop()
                        on_stack.discard(member)
                        members.add(member)
                    if len(members) > 1 or key in successors(key):
                        found.append(frozenset(members))
    return found
