"""Control flow of a code object: which local variables are live at an instruction, how deep the stack is, and where a decision leads.

Backward liveness over the instructions, as in A. Appel, Modern Compiler Implementation, chapter 10.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import sys
from functools import lru_cache
from types import CodeType

from adjit.ir.dataclass import dataclass

Place = tuple[object, ...]
"""Where a decision is made: equal for instructions from which the same outcomes lead to the same instructions. The condition of a `while`
is in the bytecode twice."""

_READING = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "LOAD_CLOSURE"})
_WRITING = frozenset({"STORE_FAST", "LOAD_FAST_AND_CLEAR"})
_READING_TWO = frozenset({"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"})
_ENDING = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_JUMPING = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"})
_SILENT = frozenset({"CACHE", "NOP", "EXTENDED_ARG", "NOT_TAKEN"})
_CALLING = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_ASKING_FOR_ALL = frozenset({"locals", "vars", "eval", "exec", "dir"})
_CALL_CACHES = 10       # bytes
_OPERANDS = {"COMPARE_OP": 2, "TO_BOOL": 1, "UNARY_NOT": 1}
"""Instructions besides jumps that ask for the truth of a value, and how many operands they take from the stack."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision at an instruction: its place, the local variables that are live after it (None: all), the depth of the stack below the
    operands."""

    place: Place
    live: frozenset[str] | None
    depth: int


@dataclass(frozen=True, slots=True)
class CodeFlow:
    """Control flow of one code object, by the offset of its instructions."""

    decisions: dict[int, Decision]
    calls: dict[int, Decision]
    """Calls, of which the place is the offset, and the depth that of the stack without callable and arguments."""

    depths: dict[int, int]
    """Depth of the stack before each instruction."""

    counting: tuple[tuple[int, int, int], ...] = ()
    """Loops whose items no code reads: begin and end of the loop, and the place of its iterator on the stack, from below."""

    leaving: tuple[tuple[int, int, int], ...] = ()
    """Loops that a `break` or `return` leaves, and loops around these and around `while` loops, likewise."""

    def leaving_at(self, offset: int) -> frozenset[int]:
        """Places on the stack of iterators of such loops around an instruction."""
        return frozenset(place for begin, end, place in self.leaving if begin <= offset < end)

    def counters_at(self, offset: int) -> frozenset[int]:
        """Places on the stack of iterators of loops around an instruction whose items no code reads: `for _ in range(n)` runs the same code
        in each round."""
        return frozenset(place for begin, end, place in self.counting if begin <= offset < end)

    def call_at(self, offset: int) -> Decision | None:
        """The call under way at the last offset of a frame, which may be that of the cache behind the call."""
        before = [call for call in self.calls if call <= offset]
        return self.calls[max(before)] if before and offset - max(before) <= _CALL_CACHES else None


@lru_cache(maxsize=1024)
def flow_of(code: CodeType) -> CodeFlow | None:
    """Control flow of `code`; None if its instructions are not understood."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None         # the depth of their stacks is another one than `dis` says
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _SILENT or i.is_jump_target]
    if not instructions:
        return None
    index_at = {instruction.offset: index for index, instruction in enumerate(instructions)}
    successors = [_successors(instructions, index, index_at) for index in range(len(instructions))]
    handlers = _handlers(code, instructions, index_at)
    depths = _depths(instructions, successors, handlers)
    if depths is None:
        return None
    live = _liveness(instructions, successors, handlers)
    everything = not _ASKING_FOR_ALL.isdisjoint(code.co_names)
    decisions, calls = {}, {}
    for index, instruction in enumerate(instructions):
        depth = depths[index]
        if depth is None or not successors[index]:
            continue
        handler = (live[handlers[index][0]],) if index in handlers else ()
        after = None if everything else frozenset().union(*(live[i] for i in successors[index]), *handler)
        name = instruction.opname
        if name in _CALLING:
            below = depth + min(dis.stack_effect(instruction.opcode, instruction.arg), 0) - 1
            calls[instruction.offset] = Decision((instruction.offset,), after, below)
        elif "POP_JUMP" in name and "NONE" not in name:
            decisions[instruction.offset] = Decision(_targets(instructions, index, successors), after, depth - 1)
        elif name == "FOR_ITER":
            decisions[instruction.offset] = Decision(("for", instruction.offset), after, depth)
        elif name.startswith("JUMP_IF_"):
            decisions[instruction.offset] = Decision((instruction.offset,), after, depth)
        elif name in _OPERANDS:
            following = successors[index][0]
            jumps = "POP_JUMP" in instructions[following].opname
            place = _targets(instructions, following, successors) if jumps else (instruction.offset,)
            if jumps and not everything:
                after = frozenset().union(*(live[i] for i in successors[following]), *handler)
            decisions[instruction.offset] = Decision(place, after, depth - _OPERANDS[name])
    known = {each.offset: depth for each, depth in zip(instructions, depths, strict=True) if depth is not None}
    return CodeFlow(decisions, calls, known, _counting(instructions, depths, successors, live),
                    _leaving(instructions, depths, successors))


def _counting(instructions: list[dis.Instruction], depths: list[int | None], successors: list[tuple[int, ...]],
              live: list[frozenset[str]]) -> tuple[tuple[int, int, int], ...]:
    """Loops whose items are stored in local variables that are dead; see `CodeFlow.counting`."""
    found = []
    for index, instruction in enumerate(instructions):
        depth = depths[index]
        if instruction.opname == "FOR_ITER" and depth is not None:
            store = instructions[index + 1]
            unread = store.opname == "STORE_FAST" and all(store.argval not in live[i] for i in successors[index + 1])
            if unread:
                found.append((instruction.offset, instruction.argval, depth - 1))
    return tuple(found)


def _leaving(instructions: list[dis.Instruction], depths: list[int | None],
             successors: list[tuple[int, ...]]) -> tuple[tuple[int, int, int], ...]:
    """Loops with a way out of their body, or with a loop within that values end; see `CodeFlow.leaving`."""
    loops = [(i.offset, i.argval, depth - 1) for i, depth in zip(instructions, depths, strict=True)
             if i.opname == "FOR_ITER" and depth is not None]
    begins = {begin for begin, *_ in loops}
    found: list[tuple[int, int, int]] = []
    for begin, end, place in reversed(loops):       # inner loops first
        inside = [index for index, other in enumerate(instructions) if begin < other.offset < end]
        targets = [(instructions[i].offset, instructions[j].offset) for i in inside for j in successors[i]]
        if any(instructions[i].opname.startswith("RETURN") for i in inside) \
                or any(not begin <= target < end or (target < source and target not in begins) for source, target in targets) \
                or any(begin < inner < end for inner, *_ in found):
            found.append((begin, end, place))
    return tuple(found)


def _successors(instructions: list[dis.Instruction], index: int, index_at: dict[int, int]) -> tuple[int, ...]:
    instruction = instructions[index]
    name = instruction.opname
    if name in _ENDING:
        return ()
    following = (index + 1,) if index + 1 < len(instructions) else ()
    if instruction.opcode not in dis.hasjrel and instruction.opcode not in dis.hasjabs:
        return following
    target = (index_at[instruction.argval],)
    return target if name in _JUMPING else following + target


def _targets(instructions: list[dis.Instruction], index: int, successors: list[tuple[int, ...]]) -> Place:
    """Offsets of the instructions that run where the operand of a conditional jump is true, and where it is false."""
    following, target = (instructions[_behind_jumps(instructions, i, successors)].offset for i in successors[index])
    return (target, following) if "IF_TRUE" in instructions[index].opname else (following, target)


def _behind_jumps(instructions: list[dis.Instruction], index: int, successors: list[tuple[int, ...]]) -> int:
    seen = set()
    while index not in seen and (instructions[index].opname in _JUMPING or instructions[index].opname in _SILENT):
        seen.add(index)
        (index,) = successors[index]
    return index


def _handlers(code: CodeType, instructions: list[dis.Instruction], index_at: dict[int, int]) -> dict[int, tuple[int, int]]:
    """For each instruction that is protected: the index of its handler, and the depth of the stack there."""
    found = {}
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        for index, instruction in enumerate(instructions):
            if entry.start <= instruction.offset < entry.end:
                found[index] = index_at[entry.target], entry.depth + 1 + bool(entry.lasti)
    return found


def _depths(instructions: list[dis.Instruction], successors: list[tuple[int, ...]],
            handlers: dict[int, tuple[int, int]]) -> list[int | None] | None:
    """Depth of the stack before each instruction; None for those that are never reached. None if two ways disagree."""
    depths: list[int | None] = [None] * len(instructions)
    depths[0] = 0
    waiting = [0]
    while waiting:
        index = waiting.pop()
        instruction, depth = instructions[index], depths[index]
        assert depth is not None
        found = []
        for position, successor in enumerate(successors[index]):
            jumps = position == 1 or instruction.opname in _JUMPING
            found.append((successor, depth + dis.stack_effect(instruction.opcode, instruction.arg, jump=jumps)))
        if index in handlers:
            found.append(handlers[index])
        for successor, after in found:
            if depths[successor] is None:
                depths[successor] = after
                waiting.append(successor)
            elif depths[successor] != after:
                return None
    return depths


def _liveness(instructions: list[dis.Instruction], successors: list[tuple[int, ...]],
              handlers: dict[int, tuple[int, int]]) -> list[frozenset[str]]:
    """Local variables that are live before each instruction."""
    reads, writes = [], []
    for instruction in instructions:
        names = instruction.argval
        if instruction.opname == "STORE_FAST_LOAD_FAST":
            stored, loaded = _two(names, instruction)
            reads.append(set() if stored == loaded else {loaded})
            writes.append({stored})
        elif instruction.opname == "STORE_FAST_STORE_FAST":
            reads.append(set())
            writes.append(set(_two(names, instruction)))
        elif instruction.opname in _READING_TWO:
            reads.append(set(_two(names, instruction)))
            writes.append(set())
        else:
            reads.append({names} if instruction.opname in _READING else set())
            writes.append({names} if instruction.opname in _WRITING else set())
    live: list[frozenset[str]] = [frozenset()] * len(instructions)
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(instructions))):
            after: set[str] = set().union(*(live[i] for i in successors[index]))
            before = (after - writes[index]) | reads[index]
            if index in handlers:
                before |= live[handlers[index][0]]
            if before != live[index]:
                live[index] = frozenset(before)
                changed = True
    return live


def _two(names: object, instruction: dis.Instruction) -> tuple[str, str]:
    if not isinstance(names, tuple):
        raise TypeError(f"{instruction} in Python {sys.version}")
    return names


def lines_that_decide(code: CodeType, offset: int) -> frozenset[int]:
    """Lines of the decisions on which it depends whether the instruction at an offset runs, and how often: those on which it is control
    dependent, directly or by others (Ferrante, Ottenstein and Warren, 1987)."""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _SILENT or i.is_jump_target]
    index_at = {instruction.offset: index for index, instruction in enumerate(instructions)}
    successors = [_successors(instructions, index, index_at) for index in range(len(instructions))]
    before: list[list[int]] = [[] for _ in instructions]
    for index, after in enumerate(successors):
        for each in after:
            before[each].append(index)
    deciding, waiting = set[int](), [index_at[offset]]
    while waiting:
        target = waiting.pop()
        avoiding = {index for index, after in enumerate(successors) if not after and index != target}
        ends = list(avoiding)
        for end in ends:        # what comes to an end without the target
            new = {index for index in before[end] if index != target} - avoiding
            avoiding |= new
            ends += new
        new = {index for index, after in enumerate(successors) if index not in deciding and not (
            avoiding.isdisjoint(after) or avoiding.issuperset(after))}
        deciding |= new
        waiting += new
    return frozenset(line for index in deciding if (line := (instructions[index].positions or dis.Positions()).lineno) is not None)


Name = tuple[str, str]
"""Kind ("attribute" or "variable") and name of a binding that lives on behind a call."""

Read = tuple[str, str, str | None]
"""Kind and name of a binding that is read, and the variable whose attribute it is, as `_owner` gives it."""

_STORING = {"STORE_ATTR": "attribute", "STORE_GLOBAL": "variable", "STORE_NAME": "variable", "STORE_DEREF": "variable"}
_LOADING = {**dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "DELETE_ATTR"), "attribute"), **dict.fromkeys(
    ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "DELETE_GLOBAL",
     "DELETE_NAME", "DELETE_DEREF"), "variable")}


@lru_cache(maxsize=1024)
def stored_and_read(code: CodeType) -> tuple[frozenset[Name], frozenset[Read]]:
    """Names that a code object and its nested ones store, and those that they may read before they have stored them in the same object."""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _SILENT or i.is_jump_target]
    index_at = {instruction.offset: index for index, instruction in enumerate(instructions)}
    successors = [_successors(instructions, index, index_at) for index in range(len(instructions))]
    handlers = _handlers(code, instructions, index_at)
    local = {name for i in instructions if i.opname.startswith(("STORE_FAST", "STORE_DEREF", "STORE_GLOBAL", "DELETE_"))
             for name in (i.argval if isinstance(i.argval, tuple) else (i.argval,))}
    stores = {index: (_STORING[i.opname], i.argval, _owner(instructions, index, local))
              for index, i in enumerate(instructions) if i.opname in _STORING}
    done: dict[int, frozenset[object]] = {0: frozenset()}       # what is stored on all ways to an instruction
    waiting = [0]
    while waiting:
        index = waiting.pop()
        after = done[index] | ({stores[index]} if index in stores and stores[index][2] is not None else frozenset())
        ways = [(each, after) for each in successors[index]]
        ways += [(handlers[index][0], done[index])] if index in handlers else []
        for following, known in ways:
            common = done[following] & known if following in done else known
            if done.get(following) != common:
                done[following] = common
                waiting.append(following)
    reads = {index: (_LOADING[i.opname], i.argval, _owner(instructions, index, local))
             for index, i in enumerate(instructions) if i.opname in _LOADING}
    read: set[Read] = {each for index, each in reads.items()
                       if instructions[index].opname.startswith("DELETE") or each not in done.get(index, ())}
    stored: set[Name] = {(kind, name) for kind, name, _ in stores.values()}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            both = stored_and_read(inner)
            stored |= both[0]
            read |= both[1]
    return frozenset(stored), frozenset(read)


@lru_cache(maxsize=1024)
def reset_by(code: CodeType) -> frozenset[Name]:
    """Names that a code object and its nested ones store, other than what `+=` and the like store."""
    steps = [i for i in dis.get_instructions(code) if i.opname not in _SILENT | {"SWAP"}]
    return frozenset((_STORING[step.opname], step.argval) for before, step in itertools.pairwise(steps) if step.opname in _STORING and not (
        before.opname == "BINARY_OP" and before.argrepr.endswith("="))).union(*(
            reset_by(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _owner(instructions: list[dis.Instruction], index: int, local: set[str]) -> str | None:
    """The variable, never bound anew, whose attribute an instruction stores or loads; "" for a variable itself, None if it is not known."""
    if "ATTR" not in instructions[index].opname and instructions[index].opname != "LOAD_METHOD":
        return ""
    reached = instructions[index].is_jump_target       # with an object of another way, too
    before = instructions[index - 1]
    if before.opname == "COPY" and before.arg == 1:
        reached, before = reached or before.is_jump_target, instructions[index - 2]
    if reached or not before.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL")):
        return None
    name = before.argval[-1] if isinstance(before.argval, tuple) else before.argval
    return None if name in local else str(name)
