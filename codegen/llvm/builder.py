"""The builder of LLVM text: instructions, variables, branches and loops nest as Python's `with` does, and functions within functions.

    text = Builder()
    with text.function("first", ("ptr", "%list"), ("i64", "%count"), result="ptr"):
        with text.if_(text.compare("eq", "%count", 0)):
            text.ret("ptr null")
        text.ret(f"ptr {text.load('ptr', '%list')}")
    print(text)

Instructions are lines of text, appended as they are asked for: compile time counts, and an object for each would take several times it.
What is known of a function besides its lines, the builder notes as it goes (`codegen/llvm/module.py`). Values are the text that stands for
them: the name of a register, a constant, or a Python number.

Blocks have no names outside of the builder. A value leaves a loop or a branch as one that it carries, which becomes a phi, or in a
`Variable`, which lies on the stack until LLVM's pass for that (`emit_object(promote=True)`) has put it into a register: for code that is
compiled once a process, and reads as in C. What follows `ret`, `break_` or `continue_` in the same block is never reached, and not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from adjit.codegen.llvm.module import Definition, Function

Value = str | int
Typed = tuple[str, Value]
"""A type and a value of it."""
Term = Value | tuple[Value, int]
"""A number of elements: known, a value, or either of them times a known number."""

BYTES = {"ptr": 8, "double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1}


class Variable:
    """A variable of one function."""

    __slots__ = ("_text", "_type", "address")

    def __init__(self, text: Builder, address: str, type: str):
        self._text, self.address, self._type = text, address, type

    @property
    def value(self) -> str:
        """Its value at this point of the text."""
        return self._text.load(self._type, self.address)

    def set(self, value: Value) -> None:
        self._text.do(f"store {self._type} {value}, ptr {self.address}")

    def add(self, step: Value = 1) -> None:
        """Add to it."""
        self.set(self._text.let(f"add {self._type} {self.value}, {step}"))


class If:
    """A branch: `values` are those that it carries, as they are before; afterwards what the block set in `following`, where it ran."""

    __slots__ = ("_before", "_carried", "_number", "_text", "following", "values")

    def __init__(self, text: Builder, number: int, carried: Sequence[Typed]):
        self._text, self._number, self._carried, self._before = text, number, carried, text.block
        self.values: tuple[str, ...] = tuple([str(first) for _, first in carried]) if carried else ()
        self.following: Sequence[str] = ()

    def __enter__(self) -> If:
        return self

    def __exit__(self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if error is not None:
            return
        text, number, inside = self._text, self._number, self._text.block
        text.do(f"br label %done{number}")
        text.label(f"done{number}")
        if self._carried:
            self.values = tuple([text.let(f"phi {type} [{first}, %{self._before}], [{following}, %{inside}]")
                                 for (type, first), following in zip(self._carried, self.following, strict=True)])


class For:
    """A loop over a range: its counter, and the carried `values` of this round. The body sets those of the next in `following`; after the
    loop, `values` are the last of them.
    """

    __slots__ = ("_carried", "_exact", "_guard", "_number", "_place", "_step", "_stop", "_text", "counter", "following", "values")

    def __init__(self, text: Builder, number: int, stop: Value, step: Value, carried: Sequence[Typed], exact: bool, guard: If | None):
        self._text, self._number, self._stop, self._step, self._exact, self._guard = text, number, stop, step, exact, guard
        self._carried = carried
        self.counter = f"%i{number}"
        self.values: tuple[str, ...] = tuple([f"%c{number}.{k}" for k in range(len(carried))]) if carried else ()
        self.following: Sequence[str] = ()
        self._place = len(text.lines)

    def __enter__(self) -> For:
        return self

    def __exit__(self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if error is not None:
            return
        text, number, counter = self._text, self._number, self.counter
        text.loops.pop()
        text.do(f"br label %latch{number}")
        text.label(f"latch{number}")
        if self._carried:
            phis = []
            for value, (type, first), following in zip(self.values, self._carried, self.following, strict=True):
                if type == "ptr":
                    text.do(f"{value}.next = freeze ptr {following}")
                    following = f"{value}.next"
                phis.append(f"  {value} = phi {type} [{first}, %before{number}], [{following}, %latch{number}]")
            text.lines[self._place:self._place] = phis
            self.values = tuple(self.following)
        text.do(f"{counter}.sum = add nsw i64 {counter}, {self._step}")
        text.do(f"{counter}.next = freeze i64 {counter}.sum")
        again = text.let(f"icmp {'ne' if self._exact else 'slt'} i64 {counter}.next, {self._stop}")
        text.do(f"br i1 {again}, label %body{number}, label %after{number}")
        text.label(f"after{number}")
        if self._guard is not None:
            self._guard.following = self.following
            self._guard.__exit__(None, None, None)
            self.values = self._guard.values


class DoWhile:
    """A loop that goes on while `again`, which the body sets, holds: the carried `values` of this round, and those of the next, which the
    body sets in `following`; after the loop, `values` are the last of them.
    """

    __slots__ = ("_before", "_carried", "_number", "_place", "_text", "again", "following", "values")

    def __init__(self, text: Builder, number: int, carried: Sequence[Typed], before: str):
        self._text, self._number, self._carried, self._before, self._place = text, number, carried, before, len(text.lines)
        self.values: tuple[str, ...] = tuple([f"%c{number}.{k}" for k in range(len(carried))])
        self.following: Sequence[str] = ()
        self.again = "false"

    def __enter__(self) -> DoWhile:
        return self

    def __exit__(self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if error is not None:
            return
        text, number = self._text, self._number
        text.loops.pop()
        text.lines[self._place:self._place] = [
            f"  {value} = phi {type} [{first}, %{self._before}], [{following}, %{text.block}]"
            for value, (type, first), following in zip(self.values, self._carried, self.following, strict=True)]
        self.values = tuple(self.following)
        text.do(f"br i1 {self.again}, label %round{number}, label %left{number}")
        text.label(f"left{number}")


class Builder:
    """The functions of one module. `declarations` has lines for what is defined elsewhere, but for LLVM's own functions."""

    def __init__(self, declarations: str = "") -> None:
        self.functions: dict[str, Definition] = {}
        self.lines: list[str]                       # of the function under way
        self.uses: set[str]                         # the functions that it calls, and what it has the address of, as `@name`
        self.block: str                             # the block under way
        self.loops: list[tuple[str, str]]           # of the loops around: the blocks of the next round, and of what comes afterwards
        self._variables: list[str]
        self._stack: int                            # bytes that it asks for
        self._over: bool                            # whether the block has ended
        self._returns: int
        self._begin()
        self._declarations = set(filter(None, declarations.split("\n")))
        self._count = 0

    # -- functions

    @contextmanager
    def function(self, name: str, *parameters: str | Typed, result: str = "void", linkage: str = "internal",
                 attributes: str = "nounwind") -> Iterator[None]:
        """What is written inside is the body of a function; the one under way goes on afterwards."""
        outer = self.lines, self.uses, self.block, self.loops, self._variables, self._stack, self._over, self._returns
        self._begin()
        yield
        texts = [parameter if isinstance(parameter, str) else " ".join(map(str, parameter)) for parameter in parameters]
        self.functions[name] = self.end_function(name, ", ".join(texts), result, linkage, attributes)
        self.lines, self.uses, self.block, self.loops, self._variables, self._stack, self._over, self._returns = outer

    def end_function(self, name: str, parameters: str, result: str = "void", linkage: str = "internal",
                     attributes: str = "nounwind") -> Function:
        """What was written so far, as a function; what is written afterwards belongs to another one."""
        lines, returned, returns = self.lines, "void" if result == "void" else None, self._returns
        if self._over:
            returned, returns = lines.pop().removeprefix("  ret "), returns - 1
        elif returned is None:
            lines.append("  unreachable")
        made = Function(name, parameters, self._variables + lines, result=result, returned=returned, linkage=linkage,
                        attributes=attributes, uses=[use[1:] for use in self.uses], stack=self._stack, returns_early=returns > 0)
        self._begin()
        return made

    def _begin(self) -> None:
        self.lines, self.uses, self.block, self.loops = [], set(), "entry", []
        self._variables, self._stack, self._over, self._returns = [], 0, False, 0

    @property
    def declarations(self) -> frozenset[str]:
        """The `declare` lines of LLVM's own functions that were called, and the lines that were given."""
        return frozenset(self._declarations)

    def __str__(self) -> str:
        return "\n".join([*sorted(self._declarations), *map(str, self.functions.values()), ""])

    # -- instructions

    def fresh(self) -> int:
        self._count += 1
        return self._count

    def do(self, instruction: str) -> None:
        if not self._over:
            self.lines.append(f"  {instruction}")

    def let(self, instruction: str) -> str:
        """The name of what the instruction gives."""
        self._count += 1
        name = f"%v{self._count}"
        if not self._over:
            self.lines.append(f"  {name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block, self._over = name, False

    def call(self, result: str, callee: str, *arguments: Typed) -> str:
        """Call `@name` or what a register points to; the name of the result, where there is one. LLVM's own functions are declared."""
        text = f"call {result} {callee}({', '.join([f'{type} {value}' for type, value in arguments])})"
        if callee[0] == "@" and callee not in self.uses:
            self.uses.add(callee)
            if callee.startswith("@llvm."):
                self._declarations.add(f"declare {result} {callee}({', '.join([type for type, _ in arguments])})")
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    def use(self, name: str) -> str:
        """The address `@name` of a function or constant of this module, or of another one."""
        self.uses.add(name)
        return name

    # -- words, which wrap around, and conditions

    def add(self, a: Value, b: Value) -> str:
        return self.let(f"add i64 {a}, {b}")

    def sub(self, a: Value, b: Value) -> str:
        return self.let(f"sub i64 {a}, {b}")

    def mul(self, a: Value, b: Value) -> str:
        return self.let(f"mul i64 {a}, {b}")

    def shl(self, a: Value, b: Value) -> str:
        return self.let(f"shl i64 {a}, {b}")

    def lshr(self, a: Value, b: Value) -> str:
        return self.let(f"lshr i64 {a}, {b}")

    def convert(self, code: str, source: str, value: Value, target: str) -> str:
        """The value in another type, by the instruction of that name (`zext`, `trunc`, `ptrtoint`, ...)."""
        return self.let(f"{code} {source} {value} to {target}")

    def either(self, a: str, b: str) -> str:
        return self.let(f"or i1 {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.let(f"and i1 {a}, {b}")

    def not_(self, condition: str) -> str:
        return self.let(f"xor i1 {condition}, true")

    def compare(self, how: str, a: Value, b: Value, type: str = "i64") -> str:
        """True if the comparison holds of two integers or addresses."""
        return self.let(f"icmp {how} {type} {a}, {b}")

    def same(self, a: Value, b: Value) -> str:
        """True if two addresses are the same."""
        return self.let(f"icmp eq ptr {a}, {b}")

    def differ(self, a: Value, b: Value) -> str:
        """True if two addresses are not the same."""
        return self.let(f"icmp ne ptr {a}, {b}")

    def select(self, condition: str, type: str, yes: Value, no: Value) -> str:
        return self.let(f"select i1 {condition}, {type} {yes}, {type} {no}")

    def larger(self, value: Value, bound: Value) -> str:
        """The larger of two counts."""
        return self.call("i64", "@llvm.smax.i64", ("i64", value), ("i64", bound))

    def smaller(self, value: Value, bound: Value) -> str:
        """The smaller of two counts."""
        return self.call("i64", "@llvm.smin.i64", ("i64", value), ("i64", bound))

    # -- index arithmetic

    def plus(self, a: Value, b: Value) -> Value:
        """The sum of two indices or sizes, which never wraps around; of known ones it is known."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if b in (0, "0"):
            return a
        return b if a in (0, "0") else self.let(f"add nsw i64 {a}, {b}")

    def times(self, a: Value, factor: int) -> Value:
        """An index or a size times a known number, which never wraps around."""
        if isinstance(a, int):
            return a * factor
        return a if factor == 1 else self.let(f"mul nsw i64 {a}, {factor}")

    # -- memory

    def at(self, pointer: str, element: str | int, *terms: Term) -> str:
        """The address that many elements behind `pointer`: of a type, or of so many bytes."""
        scale, type = (element, "i8") if isinstance(element, int) else (1, element)
        for term in terms:
            value, factor = term if isinstance(term, tuple) else (term, 1)
            factor *= scale
            if isinstance(value, int) or value[0] != "%":
                value = int(value) * factor
            elif factor not in (0, 1):
                value = self.let(f"mul nsw i64 {value}, {factor}")
            if value and factor:
                pointer = self.let(f"getelementptr {type}, ptr {pointer}, i64 {value}")
        return pointer

    def load(self, type: str, pointer: str, offset: Value = 0, align: int = 0) -> str:
        """The value `offset` bytes behind `pointer`, which lies at a multiple of `align` bytes, or as its type does."""
        if offset:
            pointer = self.at(pointer, 1, offset)
        return self.let(f"load {type}, ptr {pointer}, align {align}" if align else f"load {type}, ptr {pointer}")

    def store(self, type: str, value: Value, pointer: str, offset: Value = 0, align: int = 0) -> None:
        if offset:
            pointer = self.at(pointer, 1, offset)
        self.do(f"store {type} {value}, ptr {pointer}, align {align}" if align else f"store {type} {value}, ptr {pointer}")

    def increase(self, pointer: str, offset: Value = 0, step: Value = 1) -> None:
        """Add to the word there."""
        if offset:
            pointer = self.at(pointer, 1, offset)
        self.store("i64", self.add(self.load("i64", pointer), step), pointer)

    def atomic_load(self, type: str, pointer: str, order: str) -> str:
        return self.let(f"load atomic {type}, ptr {pointer} {order}, align {BYTES[type]}")

    def atomic_store(self, type: str, value: Value, pointer: str, order: str) -> None:
        self.do(f"store atomic {type} {value}, ptr {pointer} {order}, align {BYTES[type]}")

    def atomic_update(self, operation: str, type: str, pointer: str, value: Value, order: str) -> str:
        """What lay there before, in place of which there is now what the operation makes of it and `value`."""
        return self.let(f"atomicrmw {operation} ptr {pointer}, {type} {value} {order}")

    def compare_exchange(self, type: str, pointer: str, expected: Value, new: Value, orders: str) -> tuple[str, str]:
        """What lay there before, and whether that was expected, so that `new` is there now."""
        pair = self.let(f"cmpxchg ptr {pointer}, {type} {expected}, {type} {new} {orders}")
        return self.let(f"extractvalue {{ {type}, i1 }} {pair}, 0"), self.let(f"extractvalue {{ {type}, i1 }} {pair}, 1")

    def alloca(self, element: str, count: int | None = None, align: int = 0) -> str:
        """Memory on the stack for an element, or an array of them."""
        self._stack += BYTES[element] * (1 if count is None else count)
        type = element if count is None else f"[{count} x {element}]"
        return self.let(f"alloca {type}, align {align}" if align else f"alloca {type}")

    def variable(self, first: Value, type: str = "i64") -> Variable:
        address = f"%var{self.fresh()}"
        self._variables.append(f"  {address} = alloca {type}")
        self._stack += BYTES[type]
        made = Variable(self, address, type)
        made.set(first)
        return made

    def prefetch(self, pointer: str, offset: int = 0, write: bool = False) -> None:
        """Have what lies there brought nearer; it may lie outside of all memory."""
        self.call("void", "@llvm.prefetch.p0", ("ptr", self.at(pointer, 1, offset)), ("i32", int(write)), ("i32", 3), ("i32", 1))

    # -- control flow

    def ret(self, type: str = "void", value: Value = "") -> None:
        """Return from the function."""
        if not self._over:
            self.lines.append(f"  ret {type} {value}" if type != "void" else "  ret void")
            self._returns += 1
            self._over = True

    def if_(self, condition: str, carried: Sequence[Typed] = ()) -> If:
        """What is written inside is done where the condition holds."""
        self._count += 1
        number = self._count
        branch = If(self, number, carried)
        self.do(f"br i1 {condition}, label %then{number}, label %done{number}")
        self.label(f"then{number}")
        return branch

    def for_range(self, start: Value, stop: Value, step: Value = 1, carried: Sequence[Typed] = (), empty: bool = False,
                  exact: bool = False) -> For:
        """A loop from `start` up to `stop`, with the first of the carried values given. It runs at least once unless it may be `empty`.
        The counter of an `exact` one arrives at `stop`: where that is 0, nothing is compared. One that carries nothing may be left early.

        Counters and pointers are frozen, which takes no instruction, and lets LLVM see no progression in them: the search for a cheaper
        one (loop strength reduction) takes a fifth of its time and finds nothing better than the text."""
        guard = None
        if empty and carried:
            guard = self.if_(self.let(f"icmp slt i64 {start}, {stop}"), carried)
        self._count += 1
        number = self._count
        if empty and not carried:
            runs = self.let(f"icmp slt i64 {start}, {stop}")
            self.do(f"br i1 {runs}, label %before{number}, label %after{number}")
        else:
            self.do(f"br label %before{number}")
        self.lines += [f"before{number}:", f"  br label %body{number}"]
        self.label(f"body{number}")
        self.lines.append(f"  %i{number} = phi i64 [{start}, %before{number}], [%i{number}.next, %latch{number}]")
        self.loops.append(("", "") if carried else (f"latch{number}", f"after{number}"))
        return For(self, number, stop, step, carried, exact, guard)

    def do_while(self, carried: Sequence[Typed]) -> DoWhile:
        """A loop without a counter, which runs at least once, with the first of the carried values given."""
        self._count += 1
        number, before = self._count, self.block
        self.do(f"br label %round{number}")
        self.label(f"round{number}")
        self.loops.append(("", ""))
        return DoWhile(self, number, carried, before)

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Goes round until it is left."""
        number = self.fresh()
        self.do(f"br label %round{number}")
        self.label(f"round{number}")
        self.loops.append((f"round{number}", f"left{number}"))
        yield
        self.do(f"br label %round{number}")
        self.loops.pop()
        self.label(f"left{number}")

    def break_(self) -> None:
        """Leave the loop."""
        self._leave(self.loops[-1][1])

    def continue_(self) -> None:
        """Begin the next iteration of the loop."""
        self._leave(self.loops[-1][0])

    def _leave(self, block: str) -> None:
        assert block, "a loop that carries values is not left early"
        self.do(f"br label %{block}")
        self._over = True
