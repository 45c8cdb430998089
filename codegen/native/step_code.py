"""Steps, the lowered ops of a planned graph: functions in LLVM text, all with one calling convention.

    define internal i64 @step(ptr %places, i64 %low, i64 %high)

`places` points to an array of pointers: one for each operand of the op, then one for each result, then one to its scratch memory (null
where it asked for none). The function does the tasks low <= t < high. Tasks are independent, and what they are follows from
shapes alone, so that results do not depend on how tasks are spread over threads. It returns 0, or, where an index is out of range,
1 + the position of the first such index; only steps with `checks` return anything else than 0, and they run before anything is written.

Sizes are constants in the text. Equal texts of one program are emitted once; that is why `offsets` are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from adjit.codegen.llvm.module import Definition
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.memory_sizes import MAX_STEP_STACK_BYTES

SIGNATURE = "ptr noalias nocapture readonly %places, i64 %low, i64 %high"


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


def check_stack(op: Op, elements: int) -> None:
    """Raise `UnsupportedError` where windows reach over so much of an image that what one row of them reads does not fit the stack."""
    nbytes = elements * op.result.type.dtype.itemsize
    if nbytes > MAX_STEP_STACK_BYTES:
        raise UnsupportedError(f"{op.name}: windows that reach over {nbytes / 2**20:.3g} MiB of an image have no native code", op.loc,
                               hint="use backend='numba'")
