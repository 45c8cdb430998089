"""Step of the op `tiled`: a task is one tile, which runs the region, a program of its own, on slices of the operands.

A slice is a pointer into the sliced array: nothing is copied. A column range of a matrix keeps the matrix's leading dimension, which
products can read (`LeadingDims`). The arena of a tile is the first part of the thread's scratch memory; the rest is the scratch memory of
the region's steps. All the tiles of a thread use the same memory, so that it stays in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adjit.codegen.llvm.module import DISPATCH
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import LowerGraph, StepCode
from adjit.codegen.native.step_builder import StepBuilder
from adjit.ir.analysis.buffer_assignment import BufferAssignment
from adjit.ir.graph import Op
from adjit.ir.ops.tiled import is_column_tile, tile_stride_bytes


def lower_tiled(op: Op, shared: Mapping[int, int], target: Target, lower_graph: LowerGraph) -> tuple[StepCode, ...]:
    """The step of a planned `tiled` op."""
    (region,) = op.regions
    count, operands = op.attrs["count"], len(op.operands)
    slices = [(value.type, param.type, is_sliced)
              for value, param, is_sliced in zip(op.operands, region.params, op.attrs["sliced"], strict=True)]
    leading_dims = {index: whole.shape[1] for index, (whole, part, is_sliced) in enumerate(slices)
               if is_sliced and is_column_tile(whole, part, count)}
    program = lower_graph(region, leading_dims)
    text = StepBuilder(target)
    with text.step(DISPATCH):       # a tile takes microseconds, the computation of its addresses some dozen instructions
        pointers = [text.place(number) for number in range(operands + len(op.results))]
        params, results = (text.alloca("ptr", max(1, len(values))) for values in (region.params, region.results))
        arena, scratch = text.scratch(BufferAssignment(region).arena_bytes), text.scratch(program.scratch_bytes)
        steps = [tile_stride_bytes(whole, part, count) if is_sliced else 0 for whole, part, is_sliced in slices]
        steps += [tile_stride_bytes(value.type, part.type, count) for value, part in zip(op.results, region.results, strict=True)]
        with text.for_range("%low", "%high") as tile:
            for index, (place, step) in enumerate(zip(pointers, steps, strict=True)):
                distance = text.mul(tile.counter, step)
                pointer = text.at(place, 1, distance)
                array, position = (params, index) if index < operands else (results, index - operands)
                text.store("ptr", pointer, text.at(array, "ptr", position))
            text.call("i64", f"@{program.entry}", ("ptr", params), ("ptr", results), ("ptr", arena), ("ptr", "null"), ("ptr", scratch))
    code = text.code(count, count * program.work)
    functions = {**program.shared, **{function.name: function for function in program.functions}}
    return (replace(code, shared=functions, declarations=code.declarations | program.declarations),)
