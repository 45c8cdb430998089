"""Code of a planned graph: steps (the lowered ops), the calls of steps, and the functions of the program that makes the calls.

    define internal i64 @step(ptr %places, i64 %low, i64 %high)

All steps have this calling convention. `places` points to an array of pointers: one for each operand of the op, then one for each result,
then one to the scratch memory of the op (null if it asked for none). The function does the tasks low <= t < high. Tasks are independent
and follow from shapes alone, so results do not depend on how tasks are spread over threads. A step returns 0, or, if an index is out of
range, 1 + the position of the first such index; only steps with `checks` return anything else than 0, and they run before anything is
written.

Sizes are constants in the text. Equal texts of one program are emitted once, which is why `offsets` are not in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from adjit.codegen.llvm.module import Definition
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.memory_sizes import MAX_STEP_STACK_BYTES

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

SIGNATURE = "ptr noalias nocapture readonly %places, i64 %low, i64 %high"
"""Parameters of a step."""


@dataclass(frozen=True, slots=True)
class StepCode:
    """One function that a program calls, with its helpers.

    functions     functions and constants: `@step`, and others of its own whose names begin with `@step.` (the program renames them).
    tasks         how many independent tasks there are; at least 1.
    work          estimated nanoseconds on one thread.
    declarations  LLVM `declare` lines that the text needs.
    shared        functions and constants that steps of any program share, by name: equal names have equal text (`@exp_f32x16`). They call
                  only each other and what is declared.
    checks        whether it may return something else than 0.
    offsets       bytes that the program adds to pointers: pairs of the number of a place and the bytes.
    regions_stack the most stack that a program which it runs takes, in bytes.
    """

    functions: tuple[Definition, ...]
    tasks: int
    work: float
    declarations: frozenset[str] = frozenset()
    shared: Mapping[str, Definition] = field(default_factory=dict)
    checks: bool = False
    offsets: tuple[tuple[int, int], ...] = ()
    nested_stack_bytes: int = 0

    @property
    def text(self) -> str:
        if len(self.functions) == 1:
            return self.functions[0].text
        return "\n".join([function.text for function in self.functions])

    @property
    def stack_bytes(self) -> int:
        """What its functions together ask for of the stack, besides the program that it runs."""
        return sum([function.stack_bytes for function in self.functions])


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


def check_stack(op: Op, elements: int) -> None:
    """Raise `UnsupportedError` where windows reach over so much of an image that what one row of them reads does not fit the stack."""
    nbytes = elements * op.result.type.dtype.itemsize
    if nbytes > MAX_STEP_STACK_BYTES:
        raise UnsupportedError(f"{op.name}: windows that reach over {nbytes / 2**20:.3g} MiB of an image have no native code", op.loc,
                               hint="use backend='numba'")
