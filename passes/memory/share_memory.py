"""Which values of a graph lie in the same memory: aliases, in-place results, results in their final buffers.

What one op writes, with every reshape of it and contiguous slices, is one `Content`. Contents that follow each other in the same
memory, each written over the one before, are one `Buffer`. A buffer either has a fixed place (a parameter, a fresh result of the graph)
or a place in the arena that the memory plan chooses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from adjit.ir import ops
from adjit.ir.aliases import alias_start, part_starts
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import WRITABLE_ROLES, Graph, Op, Slot, Value
from adjit.ir.memory_sizes import aligned
from adjit.ir.verifier import in_place_operands
from adjit.passes.memory.donation import Donations, match_donations, may_fail
from adjit.passes.memory.slices import slices_to_copy


@dataclass(slots=True, eq=False)
class Content:
    """What one op writes, alive from op `first` (-1: a parameter) to op `last` (number of ops: it outlives the program). `parts` has the
    values that are slices of it, and the bytes where they begin."""

    values: list[Value]
    first: int
    last: int
    goal: Slot | None = None             # the parameter or result buffer it should lie in
    param: int | None = None             # set where it is what the caller passed in
    over: Content | None = None          # the content it is written over
    replaced: bool = False               # another content is written over it
    parts: dict[Value, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return aligned(self.values[0].type.nbytes)

    def start(self, value: Value) -> int:
        """Where a value begins, in bytes."""
        return self.parts.get(value, 0)


@dataclass(slots=True, eq=False)
class Buffer:
    """Contents that lie in the same memory one after the other; `slot` is None where the arena is to hold it."""

    contents: list[Content]
    slot: Slot | None
    size: int

    @property
    def first(self) -> int:
        return self.contents[0].first

    @property
    def last(self) -> int:
        return self.contents[-1].last


@dataclass(frozen=True, slots=True)
class Sharing:
    """The graph, with copies where a donated buffer is still needed when its new content is made, and its buffers."""

    graph: Graph
    buffers: tuple[Buffer, ...]


def share_memory(graph: Graph, donations: Donations | None = None) -> Sharing:
    """Decide what shares memory. Parameters that are not donated are never written.

    `donations` are those of the graph in any order of its ops, where they are known already.
    """
    donations = donations or match_donations(graph)
    matches, sources = dict(donations.matches), donations.sources
    separate: set[Value] = set()
    while True:
        goals = _goals(graph, matches)
        contents, content_of = _contents(graph, goals, separate)
        joined = _join_parts(graph, content_of, separate)
        if joined is not graph:
            graph = joined
            continue
        _write_in_place(graph, content_of, sources)
        failing = max(may_fail(graph), default=-1) if matches and "carried" not in graph.param_roles else -1
        late = _settle(contents, len(graph.ops), failing)
        if not late:
            return Sharing(graph, _buffers(contents))
        graph = _copy_at_the_end(graph, late, content_of, matches, separate, failing)


def _goals(graph: Graph, matches: dict[int, Value]) -> dict[Value, Slot]:
    """The final buffer of each result that an op makes; a value returned twice has the place of its first mention."""
    goals = {value: Slot("param", index) for index, value in matches.items()}
    params = set(graph.params)
    for index, value in enumerate(graph.results):
        if value not in params:
            goals.setdefault(value, Slot("result", index))
    return goals


def _contents(graph: Graph, goals: dict[Value, Slot], separate: set[Value]) -> tuple[list[Content], dict[Value, Content]]:
    """All contents in the order in which they are made, and that of each value."""
    contents = [Content([value], -1, -1, Slot("param", index), index) for index, value in enumerate(graph.params)]
    content_of = {content.values[0]: content for content in contents}
    copied = separate | slices_to_copy(graph)
    for index, op in enumerate(graph.ops):
        for value in op.operands:
            content_of[value].last = index
        for value in op.results:
            goal = goals.get(value)
            start = alias_start(op)
            if start is not None and value not in copied and _may_join(content_of[op.operands[0]], value, goal, graph):
                joined = content_of[op.operands[0]]
                joined.values.append(value)
                if value.type.nbytes != joined.values[0].type.nbytes:
                    joined.parts[value] = joined.start(op.operands[0]) + start
                joined.goal = goal or joined.goal
                content_of[value] = joined
            else:
                content_of[value] = Content([value], index, index, goal)
                contents.append(content_of[value])
    for value in graph.results:
        content_of[value].last = len(graph.ops)
    return contents, content_of


def _may_join(content: Content, value: Value, goal: Slot | None, graph: Graph) -> bool:
    """A result of the graph owns its memory: it is no alias of a parameter (but of the donated one it replaces) or of another result, and
    no part of something."""
    if goal is None:
        return True
    if value.type.nbytes != content.values[0].type.nbytes:
        return False
    if content.param is not None:
        return goal == content.goal and graph.param_roles[content.param] in WRITABLE_ROLES
    return content.goal is None


def _join_parts(graph: Graph, content_of: dict[Value, Content], separate: set[Value]) -> Graph:
    """Have what is concatenated to a result of the graph made there, part by part. Parts that are needed elsewhere too are copied there:
    gives the graph with these copies, which are entered in `separate`.
    """
    sequence: list[Op] = []
    for index, op in enumerate(graph.ops):
        starts = part_starts(op)
        goal = None if starts is None else content_of[op.result].goal
        own: set[Value] = set()
        if goal is not None and goal.space == "result":
            times = Counter(content_of[value] for value in op.operands)
            own = {value for value in op.operands if times[content_of[value]] == 1 and _ends_as(content_of[value], value, index)}
        if starts is None or goal is None or not own or 2 * sum(value.type.nbytes for value in own) < op.result.type.nbytes:
            sequence.append(op)
            continue
        operands = list(op.operands)
        for position, (value, start) in enumerate(zip(op.operands, starts, strict=True)):
            if value in own:
                content_of[value].goal = goal.behind(start)
            elif value.type.size:
                operands[position] = copy = Value(value.type)
                separate.add(copy)
                sequence.append(Op(ops.reshape, (value,), (copy,), {"shape": value.type.shape}, loc=op.loc, role=op.role))
        sequence.append(op.with_operands(operands))
    return graph.with_ops(sequence) if len(sequence) > len(graph.ops) else graph


def _ends_as(content: Content, value: Value, index: int) -> bool:
    """Whether a value is all of its content, read for the last time by op `index`, and may lie anywhere."""
    return content.param is None and content.goal is None and content.last == index and value not in content.parts and value.type.size > 0


def _write_in_place(graph: Graph, content_of: dict[Value, Content], sources: dict[Value, int]) -> None:
    """Choose the operand that each op writes over. From the last op to the first, so that what leads to a buffer with a fixed
    place goes there from the start.
    """
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        dying = _dying(op, index, content_of)
        for value in sorted(op.results, key=lambda value: content_of[value].goal is None) if dying else ():
            content = content_of[value]
            if content.first != index or content.values[0] is not value or not value.type.nbytes:
                continue
            goal = content.goal
            donor = goal.offset if goal is not None and goal.space == "param" else None
            fitting = [other for other, nbytes in dying.items() if nbytes == value.type.nbytes and not other.replaced
                       and (other.param is None or (other.param == donor and graph.param_roles[other.param] in WRITABLE_ROLES))]
            if not fitting:
                continue

            def derived(other: Content, donor: int | None = donor) -> bool:
                return donor is not None and bool(sources.get(other.values[0], 0) >> donor & 1)

            chosen = min(fitting, key=lambda other: (other.param is None, not derived(other)))
            content.over, chosen.replaced = chosen, True
            if goal is not None:
                chosen.goal = goal


def _dying(op: Op, index: int, content_of: dict[Value, Content]) -> dict[Content, int]:
    """Contents that a result may be written over, with their bytes: read for the last time by this op, and only at the element that is
    written.
    """
    allowed = in_place_operands(op)
    if not allowed:
        return {}
    elsewhere = {content_of[operand] for position, operand in enumerate(op.operands)
                 if position not in allowed or operand in content_of[operand].parts}
    if op.name == "panels":     # its parameters are memory of their own, but for those that results lie in
        elsewhere.update(content for content, times in Counter(content_of[operand] for operand in op.operands).items() if times > 1)
    read = {content_of[op.operands[position]]: op.operands[position].type.nbytes for position in sorted(allowed)}
    return {content: nbytes for content, nbytes in read.items() if content.last == index and content not in elsewhere}


def _settle(contents: list[Content], count: int, failing: int) -> list[Content]:
    """Give up the goals that would destroy what a donated buffer still has to give, or would have to keep as the program may still fail,
    up to op `failing`; the final contents among them."""
    params = {content.param: content for content in contents if content.param is not None}
    late: list[Content] = []
    for content in contents:
        if content.param is not None or content.goal is None or content.goal.space != "param":
            continue
        if content.first > failing:
            if content.over is not None and content.over.goal == content.goal:
                continue
            if params[content.goal.offset].last < content.first:
                _stop_overwriting(content)
                continue
        elif content.over is not None and content.over.param is not None:
            _stop_overwriting(content)
        content.goal = None
        if content.last == count:
            late.append(content)
    return late


def _stop_overwriting(content: Content) -> None:
    """`content` goes to a fixed place, what it was to be written over stays in the arena."""
    if content.over is not None:
        content.over.replaced = False
        content.over = None


def _buffers(contents: list[Content]) -> tuple[Buffer, ...]:
    buffer_of: dict[Content, Buffer] = {}
    for content in contents:
        if content.over is None:
            buffer_of[content] = Buffer([content], content.goal, content.size)
        else:
            buffer_of[content] = buffer_of[content.over]
            buffer_of[content].contents.append(content)
    return tuple(dict.fromkeys(buffer_of.values()))


def _copy_at_the_end(graph: Graph, late: list[Content], content_of: dict[Value, Content], matches: dict[int, Value],
                     separate: set[Value], failing: int) -> Graph:
    """Copy what was made too early for its donated buffer, as soon as that is free and nothing fails any more; what comes later uses
    the copy.

    The copy is a `reshape` to the same shape. It is entered in `matches` in place of what it copies, and in `separate`, with a
    result that was a copy already: nothing listed there is an alias.
    """
    makers = {value: (index, op) for index, op in enumerate(graph.ops) for value in op.results}
    copies: dict[int, list[Op]] = {}
    for param, value in list(matches.items()):
        content = content_of[value]
        if content not in late:
            continue
        index, maker = makers[value]
        copy = Value(value.type, value.name)
        copies.setdefault(max(index, content_of[graph.params[param]].last, failing), []).append(
            Op(ops.reshape, (value,), (copy,), {"shape": value.type.shape}, loc=maker.loc, role=maker.role))
        matches[param] = copy
        separate.add(copy)
        if content.values[0] is value:
            separate.add(value)
    renamed: dict[Value, Value] = {}
    sequence: list[Op] = []
    for index, op in enumerate(graph.ops):
        sequence.append(op.with_operands([renamed.get(value, value) for value in op.operands]))
        for copy_op in copies.get(index, ()):
            sequence.append(copy_op)
            renamed[copy_op.operands[0]] = copy_op.result
    return graph.with_ops(sequence, [renamed.get(value, value) for value in graph.results])
