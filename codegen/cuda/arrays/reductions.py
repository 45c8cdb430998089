"""Reductions along axes that no fused kernel can have together: a thread a result, or a block a result if many elements are combined."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjit.codegen.cuda.arrays.movement import fill, lower_copy
from adjit.codegen.cuda.arrays.positions import element_number, offsets_of
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.arrays.reductions import Dimension, dimensions_of
from adjit.codegen.native.step_builder import element_bits
from adjit.ir.graph import Op

MIN_ELEMENTS_FOR_BLOCK = 1 << 10
"""Elements of a result from which a block of threads combines them."""


def lower_reduction(op: Op, memory: Memory) -> list[Launch]:
    """The launches of a reduction."""
    operand, result = op.operands[0].type, op.result.type
    if not result.size:
        return []
    assert op.definition.identity is not None
    if not operand.size:
        return fill(op, element_bits(op.definition.identity(result.dtype), result.dtype), memory)
    dimensions = dimensions_of(op)
    kept = [dimension for dimension in dimensions if not dimension.reduced]
    reduced = [dimension for dimension in dimensions if dimension.reduced]
    if not reduced:
        return lower_copy(op, memory)
    count = math.prod(dimension.size for dimension in reduced)
    by_block = count >= MIN_ELEMENTS_FOR_BLOCK
    text, dtype = KernelText(FLAT_THREADS), result.dtype
    source, target = text.pointer("read"), text.pointer("write")
    results, elements = text.number(), text.number()
    thread = text.thread()
    number = text.block_number() if by_block else element_number(text)

    def combine(a: str, b: str) -> str:
        return text.apply(op, (a, b), 1)

    neutral = text.literal(dtype.type(op.definition.identity(dtype)).item(), dtype)
    with text.where("" if by_block else text.compare("slt", number, results)):
        (base,) = offsets_of(text, number, *_sizes_and_strides(kept))
        start, step = (thread, FLAT_THREADS) if by_block else (0, 1)
        with text.for_range(start, elements, step, [(text.element(dtype), neutral)], empty=by_block) as loop:
            (place,) = offsets_of(text, loop.counter, *_sizes_and_strides(reduced))
            (element,) = text.read(source, operand.dtype, text.plus(base, place), constant=True)
            loop.following = [combine(loop.values[0], element)]
        (total,) = loop.values
        if by_block:
            total = text.over_warps(combine, text.over_lanes(combine, total, dtype, WARP), dtype, thread)
        with text.where(text.compare("eq", thread, 0) if by_block else ""):
            text.write([total], target, dtype, number)
    grid = result.size if by_block else -(-result.size // FLAT_THREADS)
    return [Launch(text.kernel("reduce"), grid, (Pointer("operand", 0, operand.nbytes), Pointer("result", 0, result.nbytes)),
                   (result.size, count))]


def _sizes_and_strides(dimensions: Sequence[Dimension]) -> tuple[list[int], list[list[int]]]:
    return [dimension.size for dimension in dimensions], [[dimension.stride for dimension in dimensions]]
