"""Compilation of native steps, and runs of them on NumPy arrays, without programs or the runtime.

    steps = lower_op(op, {}, target)                               # or lower_fused(op, {}, target)
    (found,) = run_steps(steps, [x, y], [op.result.type], scratch_bytes=0, target=target)

- `TARGET_CASES`: the targets that this machine has, to parametrise tests with; `BEST` is the first of them; `some` of the cases for others.
- `load_together` compiles the steps of many ops in one module, for `run_steps` in place of the steps.
- `run_steps` verifies the text, links it with nothing but `memcpy` and `memset`, and runs the steps in order. Each operand and
  result lies at the end of a page behind which nothing may be touched, so an access out of bounds ends the process; so does scratch
  memory, that of the op and that of the thread, which starts out as garbage.
- `shared={j: i}`: result j lies in the memory of operand i. `one_at_a_time`: tasks run one by one, last first.
- A failed check raises `CheckFailed` with the position.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from support.object_code import undefined_symbols

from adjit.codegen.llvm.external import PREFIX, address_of, external_symbols
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target, host_targets, machine
from adjit.codegen.native.program_code import StepCode
from adjit.ir.types import TensorType

TARGET_CASES = [pytest.param(target, id=target.name) for target in host_targets()]
BEST = next(iter(host_targets()), None)
"""Target that programs are compiled for on this machine, None if it has none."""

T = TypeVar("T")


def some(cases: Iterable[T], target: Target, exhaustive: bool, turn: int) -> list[T]:
    """All cases for the best target that this machine has; for another one in three of them, others in the next turn."""
    return list(cases)[turn % 3::3] if not exhaustive and target is not BEST else list(cases)


_STEP = re.compile(r"@step(?![\w])")
_numbers = itertools.count()


class CheckFailed(Exception):
    """Raised if a step found an index out of range, at `position`."""

    def __init__(self, position: int):
        super().__init__(f"index out of range at position {position}")
        self.position = position


def module_text(steps: Sequence[StepCode]) -> str:
    """Make one module with the steps as `@run0`, `@run1`, ..."""
    shared: dict[str, Definition] = {}
    for step in steps:
        for name, function in step.shared.items():
            assert shared.setdefault(name, function) == function, f"two texts of {name}"
    parts = [*sorted({line for step in steps for line in step.declarations}), *map(str, shared.values())]
    for number, step in enumerate(steps):
        parts.append(_STEP.sub(f"@step{number}", step.text))
        parts.append(f"define i64 @run{number}(ptr %places, i64 %low, i64 %high, ptr %scratch) {{\n"
                     f"  %status = call i64 @step{number}(ptr %places, i64 %low, i64 %high, ptr %scratch)\n  ret i64 %status\n}}")
    return "\n".join([*parts, ""])


class LoadedSteps:
    """Machine code of steps; `run(places)` does all tasks of all steps."""

    def __init__(self, steps: Sequence[StepCode], functions: Sequence[Callable[[int, int, int, int], int]], library: Any):
        self.steps = steps
        self._functions = functions
        self._library = library

    def run(self, places: Sequence[int], one_at_a_time: bool = False) -> None:
        for step, function in zip(self.steps, self._functions, strict=True):
            offsets = dict(step.offsets)
            scratch = guarded(np.full(max(step.scratch_bytes, 1), 0xFF, np.uint8), aligned=True)
            pointers = (ctypes.c_void_p * len(places))(*(place + offsets.get(number, 0) for number, place in enumerate(places)))
            ranges = [(t, t + 1) for t in reversed(range(step.tasks))] if one_at_a_time else [(0, step.tasks)]
            for low, high in ranges:
                status = function(ctypes.addressof(pointers), low, high, scratch.ctypes.data)
                assert status == 0 or step.checks
                if status:
                    raise CheckFailed(status - 1)


def load_together(programs: Sequence[Sequence[StepCode]], target: Target) -> list[LoadedSteps]:
    """Compile rows of steps in one module: LLVM takes milliseconds for a module, and half a millisecond for a function in it. Equal texts
    are compiled once."""
    import llvmlite.binding as llvm

    numbers: dict[tuple[str, frozenset[str]], int] = {}
    different: list[StepCode] = []
    for step in itertools.chain.from_iterable(programs):
        if numbers.setdefault((step.text, step.declarations), len(different)) == len(different):
            different.append(step)
    if not different:
        return [LoadedSteps(steps, (), None) for steps in programs]
    module = llvm.parse_assembly(module_text(different))
    module.verify()
    code = machine(target).emit_object(module)
    assert {symbol for symbol in undefined_symbols(code) if not symbol.startswith(PREFIX)} <= {"memcpy", "memset"}
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in external_symbols(code):
        builder.import_symbol(symbol, address_of(symbol))
    for number in range(len(different)):
        builder.export_symbol(f"run{number}")
    library = builder.link(_linker(), f"steps_{next(_numbers)}")
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    functions = [kind(library[f"run{number}"]) for number in range(len(different))]
    return [LoadedSteps(steps, [functions[numbers[step.text, step.declarations]] for step in steps], library) for steps in programs]


def run_steps(steps: Sequence[StepCode] | LoadedSteps, operands: Sequence[np.ndarray], result_types: Sequence[TensorType],
              scratch_bytes: int, target: Target, *, shared: Mapping[int, int] | None = None,
              one_at_a_time: bool = False) -> list[np.ndarray]:
    """Return the results of the steps; operands stay unchanged."""
    loaded = steps if isinstance(steps, LoadedSteps) else load_together([steps], target)[0]
    shared = shared or {}
    inputs = [guarded(array) for array in operands]
    outputs = [inputs[shared[j]] if j in shared else guarded(np.full(type.shape, 77, type.dtype)) for j, type in enumerate(result_types)]
    scratch = guarded(np.full(max(scratch_bytes, 1), 0xFF, np.uint8), aligned=True)
    places = [array.ctypes.data for array in (*inputs, *outputs)] + [scratch.ctypes.data if scratch_bytes else 0]
    loaded.run(places, one_at_a_time)
    for index, (array, before) in enumerate(zip(inputs, operands, strict=True)):
        if index not in shared.values():
            assert array.tobytes() == np.array(before, order="C").tobytes(), f"operand {index} was written to"
    return [array.reshape(-1).view(type.dtype).reshape(type.shape).copy() for array, type in zip(outputs, result_types, strict=True)]


def guarded(array: np.ndarray, aligned: bool = False) -> np.ndarray:
    """Copy an array so that it ends where readable memory ends; `aligned`: it starts at a multiple of 64 and ends up to 63 bytes earlier.
    """
    size = -(-array.nbytes // 64) * 64 if aligned else array.nbytes
    length = (size // mmap.PAGESIZE + 1) * mmap.PAGESIZE
    pages = mmap.mmap(-1, length + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start + length), ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    copy = np.frombuffer(pages, array.dtype, array.size, length - size).reshape(array.shape)
    copy[...] = array
    return copy


_jit: list[Any] = []


def _linker() -> Any:
    import llvmlite.binding as llvm

    if not _jit:
        _jit.append(llvm.create_lljit_compiler(machine(host_targets()[0]), use_jit_link=True))
    return _jit[0]
