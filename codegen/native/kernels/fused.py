"""Steps of a `fused` op, or of one elementwise op, in explicit vectors: one for the blocks of rows, one for the final combination."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.module import DISPATCH, Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.block_combine import BlockCombineWriter, post_results
from adjit.codegen.native.kernels.blocks import BlockWriter
from adjit.codegen.native.kernels.builder import KernelBuilder
from adjit.codegen.native.kernels.elements import ElementsWriter, is_elementwise
from adjit.codegen.native.kernels.plan import choose_lanes, flatten, shorten_lanes
from adjit.codegen.native.kernels.writer import KernelWriter
from adjit.codegen.native.program_code import SIGNATURE, StepCode
from adjit.ir.analysis.kernel_schedule import has_row_work, schedule_kernel
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.region import fused


def lower_fused(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The kernel of a `fused` op. `shared[j] = i`: result j lies in the memory of operand i."""
    (region,) = op.regions
    schedule = schedule_kernel(region, op.attrs["rows"], op.attrs["columns"])
    lanes = choose_lanes(schedule, target)
    schedule = flatten(schedule, lanes)
    lanes = shorten_lanes(lanes, schedule)
    work = 0.03 * (schedule.scratch_bytes + sum(value.type.nbytes for value in region.results))
    combine_work = work
    writers: list[KernelWriter] = []
    blocks = 1
    if is_elementwise(schedule, target, lanes):
        elements = ElementsWriter(schedule, shared, target, lanes)
        elements.write()
        return (StepCode((elements.step_function(),), elements.blocks, elements.estimate(), elements.text.declarations,
                         elements.text.shared),)
    if has_row_work(schedule):
        writer = BlockWriter(schedule, shared, target, lanes)
        writer.write()
        work = writer.estimate()
        writers.append(writer)
        blocks = writer.blocks
    if post_results(schedule):
        combine = BlockCombineWriter(schedule, shared, target, lanes)
        combine.write_combine(blocks)
        writers.append(combine)
    if len(writers) == 1:
        return (_step(writers, blocks, work),)
    if blocks == 1:
        return (_step(writers, 1, work),)
    return _step(writers[:1], blocks, work), _step(writers[1:], 1, combine_work)


def _step(writers: list[KernelWriter], tasks: int, work: float) -> StepCode:
    """The functions of the writers as one step."""
    names = ["step"] if len(writers) == 1 else [f"step.{number}" for number in range(len(writers))]
    functions = [_function(writer.text, name) for name, writer in zip(names, writers, strict=True)]
    if len(writers) > 1:
        text = Builder()
        for name in names:
            text.call("i64", f"@{name}", ("ptr", "%places"), ("i64", "%low"), ("i64", "%high"))
        text.ret("i64", 0)
        functions.append(text.end_function("step", SIGNATURE, "i64", attributes=DISPATCH))
    declarations = frozenset(line for writer in writers for line in writer.text.declarations)
    shared = {name: function for writer in writers for name, function in writer.text.shared.items()}
    return StepCode(tuple(functions), tasks, work, declarations, shared)


def _function(text: KernelBuilder, name: str) -> Function:
    text.ret("i64", 0)
    return text.end_function(name, SIGNATURE, "i64")


def lower_elementwise(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The steps of an elementwise op; none if there are no elements."""
    if not op.result.type.size:
        return ()
    params = tuple(Value(value.type) for value in op.operands)
    result = Value(op.result.type)
    region = Graph(op.name, params, (Op(op.definition, params, (result,), op.attrs),), (result,))
    attrs = {"rows": op.result.type.size, "columns": 1, "in_place": (), "scratch_bytes": 0}
    return lower_fused(Op(fused, op.operands, op.results, attrs, (region,), op.loc, op.role), shared, target)
