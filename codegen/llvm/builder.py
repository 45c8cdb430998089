"""Builder of LLVM text. Functions, instructions, branches and loops nest like Python's `with` blocks.

    text = Builder()
    with text.function("first", ("ptr", "%list"), ("i64", "%count"), result="ptr"):
        with text.if_(text.compare("eq", "%count", 0)):
            text.ret("ptr null")
        text.ret(f"ptr {text.load('ptr', '%list')}")
    print(text)

Instructions are lines of text, appended in order: compile time counts, and one object per instruction would take several times as long.
The builder records the other facts about a function as it writes (`codegen/llvm/module.py`). A value is the text that stands for it: the
name of a register, a constant, or a Python number.

Blocks have no names outside of the builder. A value leaves a loop or a branch in one of two ways: as a carried value, which becomes a phi,
or in a `Variable`. A variable lies on the stack until LLVM's mem2reg pass (`emit_object(promote=True)`) puts it into a register: for code
that is compiled once a process, and reads as in C. Text after `ret`, `break_` or `continue_` in the same block is unreachable, and is not
written.
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
"""A number of elements: a known number, a value, or a value times a known number."""

BYTES = {"ptr": 8, "double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1}


class Variable:
    """A variable of one function."""

    __slots__ = ("_text", "_type", "address")

    def __init__(self, text: Builder, address: str, type: str):
        self._text, self.address, self._type = text, address, type

    @property
    def value(self) -> str:
        """The value of the variable at this point of the text."""
        return self._text.load(self._type, self.address)

    def set(self, value: Value) -> None:
        self._text.do(f"store {self._type} {value}, ptr {self.address}")

    def add(self, step: Value = 1) -> None:
        """Add `step` to the variable."""
        self.set(self._text.let(f"add {self._type} {self.value}, {step}"))


class If:
    """A branch. `values` are the carried values: before the branch the old ones, after the branch those that the block set in `following`,
    if the block ran."""

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
    """A loop over a range: its counter, and the carried `values` of the current iteration. The body sets the values of the next iteration
    in `following`; after the loop, `values` are the final ones.
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
        text.do(f"br i1 {again}, label %body{number}, label %after{number}{text.loop_mark}")
        text.label(f"after{number}")
        if self._guard is not None:
            self._guard.following = self.following
            self._guard.__exit__(None, None, None)
            self.values = self._guard.values


class DoWhile:
    """A loop that repeats while `again`, which the body sets, holds. `values` are the carried values of the current iteration; the body
    sets the values of the next iteration in `following`; after the loop, `values` are the final ones.
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
    """The functions of one module. `declarations` holds lines for external definitions, except LLVM's intrinsics."""

    loop_mark = ""
    """Metadata of the branch that ends a loop over a range."""

    def __init__(self, declarations: str = "") -> None:
        self.functions: dict[str, Definition] = {}
        self.lines: list[str]                       # of the current function
        self.uses: set[str]                         # names (`@name`) of functions called, and of symbols whose address is taken
        self.block: str                             # the current block
        self.loops: list[tuple[str, str]]           # enclosing loops: the blocks of the next iteration, and of the code after the loop
        self._variables: list[str]
        self._over: bool                            # True if the current block has its terminator
        self._returns: int
        self._begin()
        self._declarations = set(filter(None, declarations.split("\n")))
        self._count = 0

    # -- functions

    @contextmanager
    def function(self, name: str, *parameters: str | Typed, result: str = "void", linkage: str = "internal",
                 attributes: str = "nounwind") -> Iterator[None]:
        """Context that writes the body of a function. The enclosing function continues after the context."""
        outer = self.lines, self.uses, self.block, self.loops, self._variables, self._over, self._returns
        self._begin()
        yield
        texts = [parameter if isinstance(parameter, str) else " ".join(map(str, parameter)) for parameter in parameters]
        self.functions[name] = self.end_function(name, ", ".join(texts), result, linkage, attributes)
        self.lines, self.uses, self.block, self.loops, self._variables, self._over, self._returns = outer

    def end_function(self, name: str, parameters: str, result: str = "void", linkage: str = "internal",
                     attributes: str = "nounwind") -> Function:
        """The lines written so far, as a function. Later lines belong to another function."""
        lines, returned, returns = self.lines, "void" if result == "void" else None, self._returns
        if self._over:
            returned, returns = lines.pop().removeprefix("  ret "), returns - 1
        elif returned is None:
            lines.append("  unreachable")
        made = Function(name, parameters, self._variables + lines, result=result, returned=returned, linkage=linkage,
                        attributes=attributes, uses=[use[1:] for use in self.uses], returns_early=returns > 0)
        self._begin()
        return made

    def _begin(self) -> None:
        self.lines, self.uses, self.block, self.loops = [], set(), "entry", []
        self._variables, self._over, self._returns = [], False, 0

    @property
    def declarations(self) -> frozenset[str]:
        """The `declare` lines of the LLVM intrinsics that were called, and the lines passed to the constructor."""
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
        """Name of the register that holds the instruction's result."""
        self._count += 1
        name = f"%v{self._count}"
        if not self._over:
            self.lines.append(f"  {name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block, self._over = name, False

    def call(self, result: str, callee: str, *arguments: Typed) -> str:
        """Call `@name`, or a function pointer in a register. Returns the name of the result, if there is one. LLVM's intrinsics and
        functions of other libraries (`codegen/llvm/external.py`) are declared."""
        text = f"call {result} {callee}({', '.join([f'{type} {value}' for type, value in arguments])})"
        if callee[0] == "@" and callee not in self.uses:
            self.uses.add(callee)
            if callee.startswith(("@llvm.", "@adjit_external.")):
                self._declarations.add(f"declare {result} {callee}({', '.join([type for type, _ in arguments])})")
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    def declare(self, name: str) -> None:
        """Declare data outside of the module, whose address alone is used."""
        self._declarations.add(f"declare void {name}()")

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
        """The value converted to another type by the instruction `code` (`zext`, `trunc`, `ptrtoint`, ...)."""
        return self.let(f"{code} {source} {value} to {target}")

    def either(self, a: str, b: str) -> str:
        return self.let(f"or i1 {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.let(f"and i1 {a}, {b}")

    def not_(self, condition: str) -> str:
        return self.let(f"xor i1 {condition}, true")

    def compare(self, how: str, a: Value, b: Value, type: str = "i64") -> str:
        """True if the comparison holds for two integers or addresses."""
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
        """The sum of two indices or sizes, without wrap-around; a Python number if both are."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if b in (0, "0"):
            return a
        return b if a in (0, "0") else self.let(f"add nsw i64 {a}, {b}")

    def times(self, a: Value, factor: int) -> Value:
        """An index or a size times a known number, without wrap-around."""
        if isinstance(a, int):
            return a * factor
        return a if factor == 1 else self.let(f"mul nsw i64 {a}, {factor}")

    # -- memory

    def at(self, pointer: str, element: str | int, *terms: Term) -> str:
        """The address `terms` elements behind `pointer`. `element` is the element type, or the element size in bytes."""
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
        """The value `offset` bytes behind `pointer`. The address is a multiple of `align` bytes, or of the type's own alignment."""
        if offset:
            pointer = self.at(pointer, 1, offset)
        return self.let(f"load {type}, ptr {pointer}, align {align}" if align else f"load {type}, ptr {pointer}")

    def store(self, type: str, value: Value, pointer: str, offset: Value = 0, align: int = 0) -> None:
        if offset:
            pointer = self.at(pointer, 1, offset)
        self.do(f"store {type} {value}, ptr {pointer}, align {align}" if align else f"store {type} {value}, ptr {pointer}")

    def increase(self, pointer: str, offset: Value = 0, step: Value = 1) -> None:
        """Add `step` to the 64-bit word `offset` bytes behind `pointer`."""
        if offset:
            pointer = self.at(pointer, 1, offset)
        self.store("i64", self.add(self.load("i64", pointer), step), pointer)

    def atomic_load(self, type: str, pointer: str, order: str) -> str:
        return self.let(f"load atomic {type}, ptr {pointer} {order}, align {BYTES[type]}")

    def atomic_store(self, type: str, value: Value, pointer: str, order: str) -> None:
        self.do(f"store atomic {type} {value}, ptr {pointer} {order}, align {BYTES[type]}")

    def atomic_update(self, operation: str, type: str, pointer: str, value: Value, order: str) -> str:
        """Atomically replace the value at `pointer` by `operation(old, value)`. Returns the old value."""
        return self.let(f"atomicrmw {operation} ptr {pointer}, {type} {value} {order}")

    def compare_exchange(self, type: str, pointer: str, expected: Value, new: Value, orders: str) -> tuple[str, str]:
        """Atomically write `new` if the value at `pointer` is `expected`. Returns the old value, and true if it was the expected one."""
        pair = self.let(f"cmpxchg ptr {pointer}, {type} {expected}, {type} {new} {orders}")
        return self.let(f"extractvalue {{ {type}, i1 }} {pair}, 0"), self.let(f"extractvalue {{ {type}, i1 }} {pair}, 1")

    def alloca(self, element: str, count: int | None = None, align: int = 0) -> str:
        """Stack memory for an element, or for an array of `count` elements."""
        type = element if count is None else f"[{count} x {element}]"
        return self.let(f"alloca {type}, align {align}" if align else f"alloca {type}")

    def variable(self, first: Value, type: str = "i64") -> Variable:
        address = f"%var{self.fresh()}"
        self._variables.append(f"  {address} = alloca {type}")
        made = Variable(self, address, type)
        made.set(first)
        return made

    def prefetch(self, pointer: str, offset: int = 0, write: bool = False) -> None:
        """Prefetch the cache line at an address. The address may be invalid."""
        self.call("void", "@llvm.prefetch.p0", ("ptr", self.at(pointer, 1, offset)), ("i32", int(write)), ("i32", 3), ("i32", 1))

    # -- control flow

    def ret(self, type: str = "void", value: Value = "") -> None:
        """Return from the function."""
        if not self._over:
            self.lines.append(f"  ret {type} {value}" if type != "void" else "  ret void")
            self._returns += 1
            self._over = True

    def if_(self, condition: str, carried: Sequence[Typed] = ()) -> If:
        """Context for the block that runs if the condition holds."""
        self._count += 1
        number = self._count
        branch = If(self, number, carried)
        self.do(f"br i1 {condition}, label %then{number}, label %done{number}")
        self.label(f"then{number}")
        return branch

    def for_range(self, start: Value, stop: Value, step: Value = 1, carried: Sequence[Typed] = (), empty: bool = False,
                  exact: bool = False) -> For:
        """A loop from `start` up to `stop`; `carried` are the initial values of the carried values. The loop runs at least once unless it
        may be `empty`. The counter of an `exact` loop arrives at `stop`, so a `stop` of 0 needs no comparison. A loop that carries nothing
        may be left early.

        Counters and pointers are frozen. A freeze takes no instruction, and hides the progression from LLVM: the search for a cheaper
        progression (loop strength reduction) takes a fifth of LLVM's time, and finds nothing better than the text."""
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
        """A loop without a counter that runs at least once; `carried` are the initial values of the carried values."""
        self._count += 1
        number, before = self._count, self.block
        self.do(f"br label %round{number}")
        self.label(f"round{number}")
        self.loops.append(("", ""))
        return DoWhile(self, number, carried, before)

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Context for a loop that runs until the body leaves it."""
        number = self.fresh()
        self.do(f"br label %round{number}")
        self.label(f"round{number}")
        self.loops.append((f"round{number}", f"left{number}"))
        yield
        self.do(f"br label %round{number}")
        self.loops.pop()
        self.label(f"left{number}")

    def break_(self) -> None:
        """Leave the innermost loop."""
        self._leave(self.loops[-1][1])

    def continue_(self) -> None:
        """Begin the next iteration of the innermost loop."""
        self._leave(self.loops[-1][0])

    def _leave(self, block: str) -> None:
        assert block, "a loop that carries values is not left early"
        self.do(f"br label %{block}")
        self._over = True
