"""Code of a planned graph: functions in LLVM text, and the calls of steps that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adjit.codegen.llvm.module import Definition
from adjit.codegen.native.step_code import StepCode
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Slot

ENTRY = "adjit_run"

FRAME_BYTES = 16 << 10
"""Of the stack, allowed for a step and the program that calls it, besides what they ask for: registers that are saved, and values that do
not fit into them."""

OP_SHIFT = 40
"""Bits of a returned number below that of the op."""

NO_STACK = -1
"""What `adjit_call` (`threads/big_stack.py`) returns in place of what the program does, where it could not be called."""

MAX_GIL_HELD_NS = 5_000.0
"""Estimated work up to which a program keeps the interpreter's lock: giving it up and taking it back costs some of that."""

MIN_PARALLEL_NS = 15_000.0
"""Estimated work from which a step is given to the threads; about what waking one takes, which then joins in where it can."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a step: `code` under the name `function`, for op number `number` of the layout (-1: a copy of a result at the end).

    `args` has a slot, or None for null, for each operand and result of the op, and its scratch memory; behind them there may be the name
    of a table of numbers.
    """

    function: str
    code: StepCode
    args: tuple[Slot | str | None, ...]
    number: int
    name: str

    @property
    def parallel(self) -> bool:
        return self.code.tasks > 1 and self.code.work >= MIN_PARALLEL_NS


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The functions of a program, which can become part of another one's.

    `functions` has everything of its own, `shared` and `declarations` what other steps may bring along too. `flush_subnormals` says
    whether subnormal numbers are zeros to it.
    """

    entry: str
    functions: tuple[Definition, ...]
    shared: dict[str, Definition]
    declarations: frozenset[str]
    calls: tuple[Call, ...]
    flush_subnormals: bool = False

    @property
    def work(self) -> float:
        """Estimated nanoseconds on one thread."""
        return sum(call.code.work for call in self.calls)

    @property
    def stack_bytes(self) -> int:
        """The most that a run takes of the stack of a thread; about, and rather too much than too little."""
        width = max((len(call.args) for call in self.calls), default=0)
        return FRAME_BYTES + 8 * width + max((call.code.stack_bytes + call.code.nested_stack_bytes for call in self.calls), default=0)

    @property
    def checks(self) -> bool:
        """True if it may return something else than 0."""
        return any(call.code.checks for call in self.calls)

    @property
    def definitions(self) -> list[Definition]:
        """All functions and constants of the module."""
        return [*(self.shared[name] for name in sorted(self.shared)), *self.functions]

    @property
    def text(self) -> str:
        """The module."""
        return "\n".join([*sorted(self.declarations), *[definition.text for definition in self.definitions], ""])


LeadingDims = Mapping[int, int]
"""For parameters, or operands, that are some columns of a matrix, by their numbers: elements from one of its rows to the next."""

LowerGraph = Callable[[Graph, LeadingDims], ProgramCode]
"""Lowers a planned graph that an op owns; its names are its own."""
