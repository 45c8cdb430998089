"""Routines in LLVM text, written as in C: variables, branches and loops nest as Python's `with` does.

    text = RoutineText()
    with text.routine("ptr", "first", "ptr %list", "i64 %count"):
        with text.when(text.compare("eq", "%count", 0)):
            text.give("ptr null")
        text.give(f"ptr {text.load('%list', 0, 'ptr')}")
    print(text)

Variables live on the stack until LLVM's first pass puts them into registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

Value = str | int


class Variable:
    """A variable of one routine; of type i64 unless said otherwise."""

    def __init__(self, text: RoutineText, place: str, kind: str):
        self._text, self.place, self._kind = text, place, kind

    @property
    def now(self) -> str:
        """Its value at this point of the text."""
        return self._text.let(f"load {self._kind}, ptr {self.place}")

    def set(self, value: Value) -> None:
        self._text.do(f"store {self._kind} {value}, ptr {self.place}")

    def count(self, step: Value = 1) -> None:
        """Add to it."""
        self.set(self._text.add(self.now, step))


class RoutineText:
    """The routines of one module. What follows a `give` or `leave` in the same block is never reached, and not written."""

    def __init__(self, declarations: str = ""):
        self._declarations = declarations
        self._routines: list[str] = []
        self._lines: list[str] = []
        self._variables: list[str] = []
        self._ends: list[tuple[str, str]] = []      # of the loops around: where the next round begins, and what comes afterwards
        self._count = 0
        self._over = False      # whether the block has ended

    def __str__(self) -> str:
        return "\n".join([self._declarations, *self._routines, ""])

    def do(self, instruction: str) -> None:
        if not self._over:
            self._lines.append(f"  {instruction}")

    def let(self, instruction: str) -> str:
        """The name of what the instruction gives."""
        name = f"%v{self._fresh()}"
        self.do(f"{name} = {instruction}")
        return name

    def variable(self, first: Value, kind: str = "i64") -> Variable:
        place = f"%var{self._fresh()}"
        self._variables.append(f"  {place} = alloca {kind}")
        made = Variable(self, place, kind)
        made.set(first)
        return made

    def at(self, base: str, offset: Value) -> str:
        """The address `offset` bytes after `base`."""
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def element(self, base: str, index: Value) -> str:
        """The address of a word of an array."""
        return self.let(f"getelementptr i64, ptr {base}, i64 {index}")

    def load(self, base: str, offset: Value = 0, kind: str = "i64") -> str:
        return self.let(f"load {kind}, ptr {self.at(base, offset)}")

    def store(self, typed: str, base: str, offset: Value = 0) -> None:
        self.do(f"store {typed}, ptr {self.at(base, offset)}")

    def increase(self, base: str, offset: int, step: Value = 1) -> None:
        """Add to the word at an address."""
        self.store(f"i64 {self.add(self.load(base, offset), step)}", base, offset)

    def add(self, a: Value, b: Value) -> str:
        return self.let(f"add i64 {a}, {b}")

    def compare(self, how: str, a: Value, b: Value, kind: str = "i64") -> str:
        return self.let(f"icmp {how} {kind} {a}, {b}")

    def same(self, a: Value, b: Value) -> str:
        """Whether two addresses are the same."""
        return self.compare("eq", a, b, "ptr")

    def differ(self, a: Value, b: Value) -> str:
        """Whether two addresses are not the same."""
        return self.compare("ne", a, b, "ptr")

    def call(self, kind: str, function: str, *arguments: str) -> str:
        """Call a function with typed arguments; the name of its result, where it has one."""
        call = f"call {kind} {function}({', '.join(arguments)})"
        if kind == "void":
            self.do(call)
            return ""
        return self.let(call)

    def give(self, typed: str = "void") -> None:
        """Return from the routine."""
        self.do(f"ret {typed}")
        self._over = True

    @contextmanager
    def routine(self, kind: str, name: str, *parameters: str, linkage: str = "internal ") -> Iterator[None]:
        """What is written inside is the body of a function."""
        self._lines, self._variables, self._over = [], [], False
        yield
        if kind == "void":
            self.do("ret void")
        elif not self._over:
            self.do("unreachable")
        head = f"define {linkage}{kind} @{name}({', '.join(parameters)}) nounwind {{"
        self._routines.append("\n".join([head, "entry:", *self._variables, *self._lines, "}"]))

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        inside, after = self._labels("inside", "after")
        self.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self._label(inside)
        yield
        self.do(f"br label %{after}")
        self._label(after)

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Goes round until it is left."""
        head, after = self._labels("round", "done")
        self.do(f"br label %{head}")
        self._label(head)
        self._ends.append((head, after))
        yield
        self.do(f"br label %{head}")
        self._ends.pop()
        self._label(after)

    @contextmanager
    def times(self, count: Value) -> Iterator[str]:
        """A loop over 0 <= i < count, with `i` given; a round that is cut short is followed by the next."""
        counter = self.variable(-1)
        with self.loop():
            counter.count()
            index = counter.now
            with self.when(self.compare("sge", index, count)):
                self.leave()
            yield index

    def leave(self) -> None:
        """Leave the loop."""
        self.do(f"br label %{self._ends[-1][1]}")
        self._over = True

    def again(self) -> None:
        """Begin the next round of the loop."""
        self.do(f"br label %{self._ends[-1][0]}")
        self._over = True

    def _label(self, name: str) -> None:
        self._lines.append(f"{name}:")
        self._over = False

    def _labels(self, *names: str) -> list[str]:
        number = self._fresh()
        return [f"{name}{number}" for name in names]

    def _fresh(self) -> int:
        self._count += 1
        return self._count
