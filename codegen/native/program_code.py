"""Code of a planned graph: steps (the lowered ops), the calls of steps, and the functions of the program that makes the calls.

    define internal i64 @step(ptr %places, i64 %low, i64 %high, ptr %scratch)

All steps have this calling convention. `places` points to the argument array: one pointer for each operand of the op, then one for each
result, then one to the op's scratch slot in the arena (null if the op has none). The function runs the tasks low <= t < high. Tasks are
independent and follow from shapes alone, so results do not depend on the distribution of tasks over threads. A step returns 0, or, if an
index is out of range, 1 + the position of the first such index, or `GUARD_MISSED`; only steps with `checks` return anything else than 0,
and they run before anything is written that outlives a failing call. `scratch` points to `scratch_bytes` of aligned memory with undefined
content, which belong to the thread that runs the step: arenas of tiles, packed panels. A step takes little of the stack.

Sizes are constants in the text. Equal texts of one program are emitted once, which is why `offsets` are not in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.module import DISPATCH, Definition, Function
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.memory_sizes import MAX_STEP_SCRATCH_BYTES, POOL_SCRATCH_BYTES

ENTRY = "adjit_run"

OP_SHIFT = 40
"""Bits of a status below the number of the op."""

GUARD_MISSED = 1 << 39
"""Status of the step of a guard that does not hold: no index has this position."""

MAX_GIL_HELD_NS = 5_000.0
"""Estimated nanoseconds up to which a program keeps the GIL: to release it and take it back costs a good part of that."""

ASSUMED_ROWS = 64
"""Rows that the estimate for a program for any number of rows is for."""

MIN_PARALLEL_NS = 15_000.0
"""Estimated nanoseconds from which a step is given to the thread pool: about the time to wake a thread."""

MAX_SPANS = 4096
"""Ranges of tasks that a timed run notes with their threads; further ones are left out."""

SIGNATURE = "ptr noalias nocapture readonly %places, i64 %low, i64 %high, ptr noalias %scratch"
"""Parameters of a step."""


LAUNCH = "adjit.launch"
"""Function that runs a step on the pool: of the pool, the step, its argument array, its number of tasks, and scratch memory."""

_LAUNCH_ARGUMENTS = ("ptr", "%pool"), ("ptr", "%step"), ("ptr", "%places"), ("i64", "%tasks"), ("ptr", "%scratch")


def launch_function() -> Function:
    """The function `LAUNCH`. Without a pool, it runs the step on the calling thread."""
    text = Builder()
    step = ("ptr", "%places"), ("i64", 0), ("i64", "%tasks"), ("ptr", "%scratch")
    with text.if_(text.same("%pool", "null")):
        text.ret("i64", text.call("i64", "%step", *step))
    launch, arguments = text.load("ptr", "%pool"), [*map(" ".join, _LAUNCH_ARGUMENTS)]
    text.ret("i64", text.call("i64", launch, *_LAUNCH_ARGUMENTS))
    return text.end_function(LAUNCH, ", ".join(arguments), "i64", attributes=DISPATCH)


@dataclass(frozen=True, slots=True)
class StepCode:
    """A function that a program calls, with its helpers.

    functions     functions and constants: `@step`, and others of the step alone, named `@step.*` (the program renames them).
    tasks         number of independent tasks, at least 1.
    work          estimated nanoseconds on one thread.
    declarations  LLVM `declare` lines that the text needs.
    shared        functions and constants that steps of any program share, by name: equal names have equal text (`@exp_f32x16`). They call
                  only each other and declared functions.
    checks        True if the step may return anything else than 0.
    offsets       bytes that the program adds to arguments: pairs of an argument index and bytes.
    scratch_bytes bytes of scratch memory, together with those of the region's steps.
    """

    functions: tuple[Definition, ...]
    tasks: int
    work: float
    declarations: frozenset[str] = frozenset()
    shared: Mapping[str, Definition] = field(default_factory=dict)
    checks: bool = False
    offsets: tuple[tuple[int, int], ...] = ()
    scratch_bytes: int = 0

    @property
    def text(self) -> str:
        if len(self.functions) == 1:
            return self.functions[0].text
        return "\n".join([function.text for function in self.functions])


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a step: `code`, with the function's name `function`, for op `number` of the buffer assignment (-1: copy of a result at
    the end).

    `args` has a slot, or None for null, for each operand and result of the op, and for its scratch memory. The name of a table of numbers
    may follow.
    """

    function: str
    code: StepCode
    args: tuple[Slot | str | None, ...]
    number: int
    name: str

    @property
    def parallel(self) -> bool:
        return self.code.tasks > 1 and self.code.work >= MIN_PARALLEL_NS and self.code.scratch_bytes <= POOL_SCRATCH_BYTES


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The functions of a program, which can be linked into another program.

    `functions` are the program's own; `shared` and `declarations` may also belong to other steps. `flush_subnormals`: subnormal numbers
    count as zero.
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
    def scratch_bytes(self) -> int:
        """The most scratch memory that a step takes."""
        return max((call.code.scratch_bytes for call in self.calls), default=0)

    @property
    def checks(self) -> bool:
        """True if the program may return anything else than 0."""
        return any(call.code.checks for call in self.calls)

    @property
    def definitions(self) -> list[Definition]:
        """All functions and constants of the module."""
        return [*(self.shared[name] for name in sorted(self.shared)), *self.functions]

    @property
    def text(self) -> str:
        """The text of the module."""
        return "\n".join([*sorted(self.declarations), *[definition.text for definition in self.definitions], ""])


LeadingDims = Mapping[int, int]
"""Leading dimensions, in elements, of the parameters or operands that are a column range of a matrix, by number."""

LowerGraph = Callable[[Graph, LeadingDims], ProgramCode]
"""Function that lowers a region of an op, with names of its own."""


def check_scratch(op: Op, elements: int) -> None:
    """Raise `UnsupportedError` if one row of windows reads so many elements of an image that they exceed the scratch memory of a step."""
    nbytes = elements * op.result.type.dtype.itemsize
    if nbytes > MAX_STEP_SCRATCH_BYTES:
        raise UnsupportedError(f"{op.name}: windows that reach over {nbytes / 2**20:.3g} MiB of an image have no native code", op.loc,
                               hint="use backend='numba'")
