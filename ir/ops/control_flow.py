"""Ops that run closed graphs repeatedly, or one of two: `scan`, `while_loop` and `cond`.

The execution of a loop is written here once, over functions of arrays: the interpreter, eager tensors and the numba backend pass functions
that run the regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjit.ir.batching import (
    any_example,
    batch_region,
    batched_operands,
    batched_results,
    choose,
    emit_again,
    inline_batched,
    is_batched,
    move_axis,
    needs_own_operands,
    rebuilt,
    spread,
    take_part,
)
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, RegionUse, define
from adjit.ir.errors import DTypeError, ShapeError, TraceError
from adjit.ir.graph import Graph, Op, Value, carried_operands
from adjit.ir.interpreter import interpret
from adjit.ir.ops.sampling import no_samples
from adjit.ir.types import BOOL, I64, TensorType

Body = Callable[..., Sequence[np.ndarray]]

COUNT = TensorType(I64, ())


def _check(found: Sequence[TensorType], expected: Sequence[TensorType], what: str) -> None:
    if list(found) != list(expected):
        raise ShapeError(f"{what}: expected {', '.join(map(str, expected))}, got {', '.join(map(str, found))}")


def _types(values: Sequence[Any]) -> list[TensorType]:
    return [value.type for value in values]


# -- scan


def _infer_scan(*types: TensorType, regions: Sequence[Graph], length: int, carries: int, slices: int,
                **attrs: Any) -> tuple[TensorType, ...]:
    (body,) = regions
    given = list(types)
    for index in range(carries, carries + slices):
        if not types[index].shape or types[index].shape[0] != length:
            raise ShapeError(f"{types[index]} has no {length} slices along its first axis")
        given[index] = types[index].with_shape(types[index].shape[1:])
    _check(given, _types(body.params), f"@{body.name} takes")
    rows, carried = _types(body.results), list(types[:carries])
    if carries:
        rows = rows[:-carries]
    _check(_types(body.results)[len(rows):], carried, f"what @{body.name} carries on")
    return (*(row.with_shape((length, *row.shape)) for row in rows), *carried)


def run_scan(body: Body, arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray], length: int, carries: int, slices: int,
             reverse: bool) -> list[np.ndarray]:
    """Run `body` for each of `length` slices; fills `rows` and returns the last carries. `body` may write over the carries that it is
    given."""
    carried: Sequence[np.ndarray] = [array.copy() for array in arrays[:carries]]
    sliced, fixed = arrays[carries:carries + slices], arrays[carries + slices:]
    for step in reversed(range(length)) if reverse else range(length):
        out = body(*carried, *(array[step, ...] for array in sliced), *fixed)
        for row, value in zip(rows, out, strict=False):
            row[step] = value
        carried = out[len(rows):]
    return list(carried)


def _evaluate_scan(*arrays: np.ndarray, regions: Sequence[Graph], length: int, carries: int, slices: int, reverse: bool,
                   **attrs: Any) -> tuple[np.ndarray, ...]:
    (body,) = regions
    values = body.results[:len(body.results) - carries]
    rows = [np.empty((length, *value.type.shape), value.type.dtype) for value in values]
    return (*rows, *run_scan(_interpreted(body), arrays, rows, length, carries, slices, reverse))


def _batched_carries(flags: list[bool], carries: int, carried_by: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """`flags` of operands, with those carries batched that become so in a later iteration; `carried_by` gives the flags of the carries
    after an iteration."""
    while True:
        new = [a or b for a, b in zip(flags, carried_by(flags), strict=False)]
        if new == flags[:carries]:
            return flags
        flags = [*new, *flags[carries:]]


def _spread_carries(op: Op, operands: Sequence[Value], flags: Sequence[bool], size: int) -> list[Value]:
    """Operands of a loop, those carries batched for which `flags` says so."""
    return [spread(value, example, size) if flag and index < op.attrs["carries"] else value
            for index, (value, example, flag) in enumerate(zip(operands, op.operands, flags, strict=True))]


def _batch_scan(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    (body,), carries, slices = op.regions, op.attrs["carries"], op.attrs["slices"]
    rows = len(body.results) - carries
    flags = _batched_carries(batched_operands(op, operands), carries,
                             lambda flags: batched_results(batch_region(body, flags, size), body)[rows:])
    region = batch_region(body, flags, size, [*[False] * rows, *flags[:carries]])
    given = [move_axis(value, 0, 1) if flag and carries <= index < carries + slices else value      # the slices have the batch axis first
             for index, (value, flag) in enumerate(zip(_spread_carries(op, operands, flags, size), flags, strict=True))]
    results = emit_again(op, given, (region,))
    return [move_axis(value, 1, 0) if index < rows and is_batched(value, example) else value
            for index, (value, example) in enumerate(zip(results, op.results, strict=True))]


scan: OpDefinition = define(
    "scan", Kind.REGION, regions=1, vjp=None, batch=_batch_scan,
    attributes={"length": int, "carries": int, "slices": int, "reverse": bool, "scratch_bytes": int},
    doc="Runs the region `length` times, from the last slice to the first if `reverse`. The region takes `carries` carried values, then a "
        "slice of each of `slices` operands along their first axis, then the other operands as they are; it returns rows, then the "
        "carried values of the next iteration. Results: the stacked rows, then the carried values after the last iteration.",
    infer=_infer_scan, evaluate=_evaluate_scan, samples=no_samples, region_use=RegionUse.CONTROL_FLOW, runs="length")


# -- while_loop


def _infer_while(*types: TensorType, regions: Sequence[Graph], carries: int, checkpointed: tuple[int, ...], checkpoints: int,
                 **attrs: Any) -> tuple[TensorType, ...]:
    condition, body = regions
    _check(types, _types(condition.params), f"@{condition.name} takes")
    _check(types, _types(body.params), f"@{body.name} takes")
    _check(_types(condition.results), [TensorType(BOOL, ())], f"@{condition.name} gives")
    _check(_types(body.results), types[:carries], f"what @{body.name} carries on")
    stacks = [types[index].with_shape((checkpoints, *types[index].shape)) for index in checkpointed]
    return (*((COUNT, COUNT, *stacks) if checkpoints else ()), *types[:carries])


def run_while(condition: Body, body: Body, arrays: Sequence[np.ndarray], stacks: Sequence[np.ndarray], carries: int,
              checkpointed: Sequence[int], checkpoints: int) -> tuple[int, int, list[np.ndarray]]:
    """Run `body` while `condition` holds; returns the number of iterations, the stride of the stacks, and the last carries. `body` may
    write over the carries that it is given.

    `stacks` are filled with the carried values at the start of every iteration; if a stack has fewer rows than there are iterations, of
    every second one, then of every fourth, and so on.
    """
    carried: Sequence[np.ndarray] = [array.copy() for array in arrays[:carries]]
    fixed = arrays[carries:]
    trips, stride = 0, 1
    while condition(*carried, *fixed)[0]:
        if checkpoints:
            if trips == checkpoints * stride:
                for stack in stacks:
                    stack[:checkpoints // 2] = stack[::2].copy()
                stride *= 2
            if trips % stride == 0:
                for stack, index in zip(stacks, checkpointed, strict=True):
                    stack[trips // stride] = carried[index]
        carried = body(*carried, *fixed)
        trips += 1
    return trips, stride, list(carried)


def _evaluate_while(*arrays: np.ndarray, regions: Sequence[Graph], carries: int, checkpointed: tuple[int, ...], checkpoints: int,
                    **attrs: Any) -> tuple[np.ndarray, ...]:
    condition, body = regions
    stacks = [np.empty((checkpoints, *arrays[index].shape), arrays[index].dtype) for index in checkpointed]
    trips, stride, carried = run_while(_interpreted(condition), _interpreted(body), arrays, stacks, carries, checkpointed, checkpoints)
    return (*((np.asarray(trips, I64), np.asarray(stride, I64), *stacks) if checkpoints else ()), *carried)


def _batch_while(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    """The loop goes on while it does for any example. The carries of examples that are done stay: their iterations are run on those of an
    example that is not, where they could fail, and are dropped."""
    (condition, body), carries = op.regions, op.attrs["carries"]

    def asks(flags: list[bool]) -> bool:
        return batched_results(batch_region(condition, flags, size), condition)[0]

    def carried_by(flags: list[bool]) -> Sequence[bool]:
        return [True] * carries if asks(flags) else batched_results(batch_region(body, flags, size), body)

    flags = _batched_carries(batched_operands(op, operands), carries, carried_by)
    given = _spread_carries(op, operands, flags, size)
    test, step = batch_region(condition, flags, size), batch_region(body, flags, size, flags[:carries])
    if asks(flags):
        alone = needs_own_operands(body)

        def run_step(*values: Value) -> list[Value]:
            (going,) = inline_batched(condition, values, size)
            known = take_part(going, values, body.params) if alone else values
            new = inline_batched(body, known, size)
            return [choose(going, spread(value, example, size), old)
                    for value, example, old in zip(new, body.results, values, strict=False)]

        step = rebuilt(step, run_step)
        test = rebuilt(test, lambda *values: [any_example(inline_batched(condition, values, size)[0])])
    return emit_again(op, given, (test, step))


while_loop: OpDefinition = define(
    "while_loop", Kind.REGION, regions=2, vjp=None, batch=_batch_while,
    attributes={"carries": int, "checkpointed": tuple, "checkpoints": int, "scratch_bytes": int},
    doc="Runs the second region while the first one returns true. Both take `carries` carried values, then the other operands; the second "
        "returns the carried values of the next iteration. Results: the carried values at the end. If `checkpoints` (a power of two) is "
        "not 0, before them: the number of iterations, a stride, and for each of the carries `checkpointed` a stack of its values at the "
        "start of every iteration (every 2nd, 4th, ... one: the first stride with which `checkpoints` rows are enough).",
    infer=_infer_while, evaluate=_evaluate_while, samples=no_samples, region_use=RegionUse.CONTROL_FLOW)


# -- cond


def _infer_cond(*types: TensorType, regions: Sequence[Graph], **attrs: Any) -> tuple[TensorType, ...]:
    if types[0] != TensorType(BOOL, ()):
        raise DTypeError(f"the predicate is {types[0]}, expected bool[]")
    for region in regions:
        _check(types[1:], _types(region.params), f"@{region.name} takes")
    first, second = regions
    _check(_types(second.results), _types(first.results), f"@{second.name} gives")
    return tuple(_types(first.results))


def _evaluate_cond(*arrays: np.ndarray, regions: Sequence[Graph], **attrs: Any) -> tuple[np.ndarray, ...]:
    return interpret(regions[0 if arrays[0] else 1], arrays[1:])


def _batch_cond(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    """With a predicate of each example both branches run, for all examples. Where a branch could fail, it runs only if an example takes it,
    and on the operands of such an example for the others."""
    predicate, *others = operands
    flags = batched_operands(op, operands)
    if not flags[0]:
        wanted = [False] * len(op.results)
        for region in op.regions:
            wanted = [a or b for a, b in zip(wanted, batched_results(batch_region(region, flags[1:], size), region), strict=True)]
        return emit_again(op, operands, tuple(batch_region(region, flags[1:], size, wanted) for region in op.regions))
    branches = []
    for region, mask in zip(op.regions, (predicate, DEFINITIONS["logical_not"](predicate)), strict=True):
        results = _run_for_some(op, region, mask, others, size) if needs_own_operands(region) else inline_batched(region, others, size)
        branches.append([spread(value, example, size) for value, example in zip(results, region.results, strict=True)])
    return [choose(predicate, yes, no) for yes, no in zip(*branches, strict=True)]


def _run_for_some(op: Op, region: Graph, mask: Value, operands: Sequence[Value], size: int) -> Sequence[Value]:
    """Results of a branch for the examples for which `mask` is true; zeros if there is none."""
    batched = batch_region(region, [is_batched(value, example) for value, example in zip(operands, region.params, strict=True)], size)
    params = [Value(value.type) for value in operands]
    zeros = rebuilt(Graph(batched.name, tuple(params), (), tuple(params)), lambda *values: [
        DEFINITIONS["constant"](value=value.type.dtype.type(0).item(), dtype=value.type.dtype, shape=value.type.shape)
        for value in batched.results])
    return emit_again(op, (any_example(mask), *take_part(mask, operands, region.params)), (batched, zeros))


cond: OpDefinition = define(
    "cond", Kind.REGION, regions=2, vjp=None, batch=_batch_cond, attributes={"scratch_bytes": int},
    doc="The results of the first region if the first operand is true, else of the second; both take the other operands.",
    infer=_infer_cond, evaluate=_evaluate_cond, samples=no_samples, region_use=RegionUse.CONTROL_FLOW)


def display_name(op: Op) -> str:
    """Name of an op in reports: the function that a region was traced from, if that says more than the name of the op."""
    return op.regions[-1].name if op.regions and op.name != "cond" else op.name


def nested_graphs(graph: Graph) -> Iterator[Graph]:
    """Graph, followed by the regions of its loops and branches."""
    yield graph
    for op in graph.ops:
        if op.definition.region_use is RegionUse.CONTROL_FLOW:
            for region in op.regions:
                yield from nested_graphs(region)


def _interpreted(region: Graph) -> Body:
    return lambda *arrays: interpret(region, arrays)


def bind_control_flow(op: Op, regions: Sequence[Body]) -> Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]:
    """Function that runs `op` on operands and writes its results into given arrays, using functions that run its regions."""
    attrs = {name: value for name, value in op.attrs.items() if name != "scratch_bytes"}
    if op.name == "cond":
        carried = len(carried_operands(op))

        def branch(operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
            copies = [array.copy() for array in operands[1:1 + carried]]       # the region may write over them
            _copy(regions[0 if operands[0] else 1](*copies, *operands[1 + carried:]), results)
        return branch
    if op.name == "scan":
        rows = len(op.results) - attrs["carries"]
        step = partial(run_scan, regions[0])

        def scan_steps(operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
            _copy(step(operands, results[:rows], **attrs), results[rows:])
        return scan_steps
    if op.name != "while_loop":
        raise TraceError(f"{op.name} is no loop and no branch")
    count = len(op.results) - attrs["carries"]

    def loop(operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        trips, stride, carried = run_while(regions[0], regions[1], operands, results[2:count], **attrs)
        if count:
            results[0][...], results[1][...] = trips, stride
        _copy(carried, results[count:])
    return loop


def run_control_flow(op: Op, regions: Sequence[Body]) -> Callable[..., tuple[np.ndarray, ...]]:
    """Function like that of `bind_control_flow`, which takes the operands and returns new arrays."""
    run, types = bind_control_flow(op, regions), [value.type for value in op.results]

    def call(*operands: np.ndarray) -> tuple[np.ndarray, ...]:
        results = tuple(np.empty(type.shape, type.dtype) for type in types)
        run(operands, results)
        return results

    return call


def _copy(arrays: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> None:
    for array, target in zip(arrays, targets, strict=True):
        np.copyto(target, array)
