"""Steps of Fourier transforms: calls of the loops of NumPy's ufuncs, which run PocketFFT without the interpreter.

A loop takes the addresses of its operands, lengths, and distances in bytes, as ufuncs with a signature have them (NumPy's C API,
`PyUFuncGenericFunction`). It transforms several lines at once where it is given several, so lines are passed in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from adjit.codegen.llvm.external import loop_symbols
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import StepBuilder, ceil_div, split_iterations
from adjit.ir.graph import Op
from adjit.ir.ops.fourier import POCKETFFT

LINES_OF_BLOCK, ELEMENTS_OF_BLOCK = (8, 128), 1 << 16
"""Least and largest number of lines of a block, and elements from which on it gets fewer lines."""

NS_PER_LINE, NS_PER_BUTTERFLY = 100.0, 0.6


def lower_fourier(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `fft`, `rfft` or `irfft`."""
    given, made, axis = op.operands[0].type, op.result.type, op.attrs["axis"]
    before, after = math.prod(given.shape[:axis]), math.prod(given.shape[axis + 1:])
    if not before * after:
        return ()
    length = max(given.shape[axis], made.shape[axis])
    outer, lines = (1, before) if after == 1 else (before, after)
    block = max(LINES_OF_BLOCK[0], min(LINES_OF_BLOCK[1], ELEMENTS_OF_BLOCK // length))
    extents = (outer, ceil_div(lines, block))
    work = before * after * (NS_PER_LINE + NS_PER_BUTTERFLY * length * math.log2(length + 1))
    task_split = split_iterations(extents, work)
    text = StepBuilder(target)
    sizes = given.dtype.itemsize, made.dtype.itemsize
    ends = [(type.shape[axis] * after * size, (type.shape[axis] if after == 1 else 1) * size)
            for type, size in zip((given, made), sizes, strict=True)]      # distances of the next outer index, and of the next line
    with text.step():
        addresses, lengths, distances, factor = (text.scratch(8 * count) for count in (3, 3, 5, 1))
        for number, value in enumerate((given.shape[axis], made.shape[axis])):
            text.store("i64", value, lengths, 8 * (number + 1))
        for number, value in enumerate((ends[0][1], 0, ends[1][1], after * sizes[0], after * sizes[1])):
            text.store("i64", value, distances, 8 * number)
        text.store(*(("double", "1.0") if max(sizes) == 16 else ("float", "1.0")), factor)
        text.store("ptr", factor, addresses, 8)
        source, to = text.place(0), text.place(1)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (index, part):
                first = text.times(part, block)
                text.store("i64", text.smaller(text.sub(lines, first), block), lengths)
                text.store("ptr", text.at(source, 1, (index, ends[0][0]), (first, ends[0][1])), addresses)
                text.store("ptr", text.at(to, 1, (index, ends[1][0]), (first, ends[1][1])), addresses, 16)
                _call(text, op, [("ptr", addresses), ("ptr", lengths), ("ptr", distances)])
    return (text.code(task_split.tasks, work),)


def _call(text: StepBuilder, op: Op, arguments: list[tuple[str, str]]) -> None:
    is_single = op.operands[0].type.dtype.itemsize == (4 if op.name == "rfft" else 8)
    name = {"fft": "ifft" if op.attrs.get("inverse") else "fft", "irfft": "irfft",
            "rfft": "rfft_n_odd" if op.operands[0].type.shape[op.attrs["axis"]] % 2 else "rfft_n_even"}[op.name]
    types = {"fft": "DdD", "rfft": "ddD", "irfft": "Ddd"}[op.name]
    loop, data = loop_symbols(POCKETFFT, name, types.translate({68: "F", 100: "f"}) if is_single else types)
    text.use(data)
    text.declare(data)
    text.call("void", loop, *arguments, ("ptr", data))
