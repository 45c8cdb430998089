"""LLVM text under construction: instructions, loops with carried values, and functions that are written while others are under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from adjit.ir.dataclass import dataclass

CALLER = "noinline nounwind optnone"
"""Attributes of functions that do little besides calling others: LLVM takes half the time for them, and they are as quick."""

GLUE = f'{CALLER} "glue"'
"""Those of callers without a loop, or with one whose rounds are long, which need no registers: LLVM takes an eighth of the time where they
are a module of their own."""

Typed = tuple[str, str]
"""A type and a value of it."""


@dataclass(slots=True)
class Loop:
    """A loop: its counter, the carried values of this round, and those of the next, which the body sets; afterwards they are the last."""

    counter: str
    values: tuple[str, ...]
    following: Sequence[str] = field(default=())


class LLVMText:
    """The functions of one module."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self._declarations: set[str] = set()
        self._lines: list[str] = []
        self._count = 0

    def fresh(self) -> int:
        self._count += 1
        return self._count

    def do(self, instruction: str) -> None:
        self._lines.append(f"  {instruction}")

    def let(self, instruction: str) -> str:
        """The name of what the instruction gives."""
        name = f"%v{self.fresh()}"
        self.do(f"{name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        self._lines.append(f"{name}:")

    def call(self, result: str, intrinsic: str, *arguments: Typed) -> str:
        """Call a function of LLVM's own; the name of its result, where it has one."""
        self._declarations.add(f"declare {result} @{intrinsic}({', '.join(type for type, _ in arguments)})")
        text = f"call {result} @{intrinsic}({', '.join(f'{type} {value}' for type, value in arguments)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    def store_first(self, value: str, element: str, lanes: int, pointer: str, count: int, align: int) -> None:
        """Write the first `count` of the lanes in pieces of 4, 2 and 1 elements or the like. Before AVX-512, a store with a mask takes 6 ns
        on processors of one maker, where the pieces take one, and is no quicker on others.
        """
        vector, done = f"<{lanes} x {element}>", 0
        while done < count:
            length = 1 << (count - done).bit_length() - 1
            place = pointer if not done else self.let(f"getelementptr {element}, ptr {pointer}, i64 {done}")
            if length == 1:
                piece, kind = self.let(f"extractelement {vector} {value}, i32 {done}"), element
            else:
                order, kind = ", ".join(f"i32 {done + lane}" for lane in range(length)), f"<{length} x {element}>"
                piece = self.let(f"shufflevector {vector} {value}, {vector} poison, <{length} x i32> <{order}>")
            self.do(f"store {kind} {piece}, ptr {place}, align {align}")
            done += length

    def larger(self, value: str, bound: int | str) -> str:
        """The larger of two counts."""
        return self.call("i64", "llvm.smax.i64", ("i64", value), ("i64", str(bound)))

    def smaller(self, value: str, bound: int | str) -> str:
        """The smaller of two counts."""
        return self.call("i64", "llvm.smin.i64", ("i64", value), ("i64", str(bound)))

    @contextmanager
    def function(self, name: str, parameters: str, linkage: str = "internal", attributes: str = "nounwind") -> Iterator[None]:
        """What is written inside is the body of a function; the one under way goes on afterwards."""
        outer, self._lines = self._lines, []
        yield
        head = f"define {linkage} void @{name}({parameters}) {attributes} {{"
        self.functions[name] = "\n".join([head, "entry:", *self._lines, "  ret void", "}"])
        self._lines = outer

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written inside is done where the condition holds; no value comes out of it."""
        number = self.fresh()
        self.do(f"br i1 {condition}, label %then{number}, label %done{number}")
        self.label(f"then{number}")
        yield
        self.do(f"br label %done{number}")
        self.label(f"done{number}")

    @contextmanager
    def loop(self, start: str | int, stop: str | int, step: int | str = 1, carried: Sequence[Typed] = (), empty: bool = False,
             exact: bool = False) -> Iterator[Loop]:
        """A loop from `start` up to `stop`, with the first of the carried values given. It runs at least once; where it may be
        `empty`, nothing can be carried out of it. The counter of an `exact` one arrives at `stop`: where that is 0, nothing is compared.

        Counters and pointers are frozen, which takes no instruction, and lets LLVM see no progression in them: the search for a cheaper
        one (loop strength reduction) takes a fifth of its time and finds nothing better than the text."""
        assert not (empty and carried)
        number = self.fresh()
        before, body, latch, after = (f"{part}{number}" for part in ("before", "body", "latch", "after"))
        loop = Loop(f"%i{number}", tuple(f"%c{number}.{k}" for k in range(len(carried))))
        if empty:
            runs = self.let(f"icmp slt i64 {start}, {stop}")
            self.do(f"br i1 {runs}, label %{before}, label %{after}")
        else:
            self.do(f"br label %{before}")
        self.label(before)
        self.do(f"br label %{body}")
        self.label(body)
        self.do(f"{loop.counter} = phi i64 [{start}, %{before}], [{loop.counter}.next, %{latch}]")
        place = len(self._lines)
        yield loop
        self.do(f"br label %{latch}")
        self.label(latch)
        phis = []
        for value, (type, first), following in zip(loop.values, carried, loop.following, strict=True):
            if type == "ptr":
                self.do(f"{value}.next = freeze ptr {following}")
                following = f"{value}.next"
            phis.append(f"  {value} = phi {type} [{first}, %{before}], [{following}, %{latch}]")
        self._lines[place:place] = phis
        self.do(f"{loop.counter}.sum = add nsw i64 {loop.counter}, {step}")
        self.do(f"{loop.counter}.next = freeze i64 {loop.counter}.sum")
        again = self.let(f"icmp {'ne' if exact else 'slt'} i64 {loop.counter}.next, {stop}")
        self.do(f"br i1 {again}, label %{body}, label %{after}")
        self.label(after)

    @property
    def declarations(self) -> frozenset[str]:
        """The `declare` lines of LLVM's own functions that were called."""
        return frozenset(self._declarations)

    def __str__(self) -> str:
        return "\n".join([*sorted(self._declarations), *self.functions.values(), ""])
