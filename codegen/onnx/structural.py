"""Ops that move, combine or select elements in ONNX: movement, reductions, products, windows, indexing, sorting, loops and branches.

A rule takes the writer and the op, and binds the op's results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.codegen.onnx.writer import Writer, element_type, value_info
from adjit.ir.errors import ExportError
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.types import I64, TensorType, is_float

Rule = Callable[[Writer, Op, Callable[[Graph, Sequence[Value]], "list[Value]"]], None]
"""The last argument writes a region for operands, and returns its results."""

RULES: dict[str, Rule] = {}
_INT64_MAX = int(np.iinfo(np.int64).max)


def _rule(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(rule: Callable[..., None]) -> Callable[..., None]:
        RULES.update(dict.fromkeys(names, rule))
        return rule
    return register


# -- creation

@_rule("constant")
def _constant(w: Writer, op: Op, inline: Any) -> None:
    w.bind_narrow(op.result, (w.constant(op.attrs["value"], op.result.type.dtype), ()))


@_rule("iota", "table")
def _table(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, w.constant(op.definition.evaluate(**op.attrs)))


# -- movement

@_rule("broadcast")
def _broadcast(w: Writer, op: Op, inline: Any) -> None:
    (x,) = op.operands
    name, shape = w.narrow(x)
    aligned = (1,) * (x.type.rank - len(shape)) + shape
    new = [1] * op.result.type.rank
    for axis, size in zip(op.attrs["axes"], aligned, strict=True):
        new[axis] = size
    target = _without_leading_ones(new)
    if target != _without_leading_ones(shape):
        name = w.node("Reshape", name, w.integers(target))
        shape = target
    w.bind_narrow(op.result, (name, shape))


def _without_leading_ones(shape: Sequence[int]) -> tuple[int, ...]:
    first = next((index for index, size in enumerate(shape) if size != 1), len(shape))
    return tuple(shape[first:])


@_rule("reshape")
def _reshape(w: Writer, op: Op, inline: Any) -> None:
    (x,) = op.operands
    name, shape = w.narrow(x)
    if shape == () and w.is_narrow(x):
        w.bind_narrow(op.result, (name, ()))
    else:
        w.bind(op.result, w.node("Reshape", w.name(x), w.integers(op.result.type.shape), **_of_empty(op.result.type.shape)))


def _of_empty(shape: Sequence[int]) -> dict[str, int]:
    return {"allowzero": 1} if 0 in shape else {}


@_rule("transpose")
def _transpose(w: Writer, op: Op, inline: Any) -> None:
    (x,) = op.operands
    if x.type.rank < 2:
        w.same(op.result, x)
    else:
        w.bind(op.result, w.node("Transpose", w.name(x), perm=list(op.attrs["permutation"])))


@_rule("flip")
def _flip(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, _flipped(w, w.name(op.operands[0]), op.attrs["axes"]))


def _flipped(w: Writer, x: str, axes: Sequence[int]) -> str:
    return w.node("Slice", x, w.integers([-1] * len(axes)), w.integers([-_INT64_MAX] * len(axes)), w.integers(axes),
                  w.integers([-1] * len(axes)))


@_rule("slice")
def _slice(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, _sliced(w, w.name(op.operands[0]), op.attrs["start"], op.attrs["stop"], op.attrs["step"], op.operands[0].type.shape))


def _sliced(w: Writer, x: str, start: Sequence[int], stop: Sequence[int], step: Sequence[int], shape: Sequence[int]) -> str:
    axes = [axis for axis, size in enumerate(shape) if (start[axis], stop[axis], step[axis]) != (0, size, 1)]
    if not axes:
        return x
    return w.node("Slice", x, *(w.integers([numbers[axis] for axis in axes]) for numbers in (start, stop)), w.integers(axes),
                  w.integers([step[axis] for axis in axes]))


@_rule("pad")
def _pad(w: Writer, op: Op, inline: Any) -> None:
    (x,), attrs = op.operands, op.attrs
    w.bind(op.result, _padded(w, w.name(x), x.type, attrs["low"], attrs["high"], attrs["interior"], attrs["value"]))


def _padded(w: Writer, x: str, type: TensorType, low: Sequence[int], high: Sequence[int], interior: Sequence[int], value: Any) -> str:
    """An array with elements between its neighbours, then at its ends; negative numbers take away."""
    shape = list(type.shape)
    fill = w.constant(value, type.dtype)
    if type.size == 0:
        sizes = [before + size + max(size - 1, 0) * between + after
                 for size, before, between, after in zip(shape, low, interior, high, strict=True)]
        return w.node("Expand", fill, w.integers(sizes))
    for axis, count in enumerate(interior):
        if count and shape[axis] > 1:       # a further axis, filled up, is folded into the one before; the last filling goes
            x = w.node("Reshape", x, w.integers([*shape[:axis + 1], 1, *shape[axis + 1:]]))
            after = [count if place == axis + 1 else 0 for place in range(len(shape) + 1)]
            x = w.node("Pad", x, w.integers([*[0] * len(after), *after]), fill)
            longer = shape[axis] * (count + 1)
            x = w.node("Reshape", x, w.integers([*shape[:axis], longer, *shape[axis + 1:]]))
            shape[axis] = longer - count
            x = w.node("Slice", x, w.integers([0]), w.integers([shape[axis]]), w.integers([axis]))
    if any(number > 0 for number in (*low, *high)):
        x = w.node("Pad", x, w.integers([max(number, 0) for number in (*low, *high)]), fill)
        shape = [size + max(before, 0) + max(after, 0) for size, before, after in zip(shape, low, high, strict=True)]
    start = [max(-number, 0) for number in low]
    stop = [size - max(-number, 0) for size, number in zip(shape, high, strict=True)]
    return _sliced(w, x, start, stop, [1] * len(shape), shape)


@_rule("concatenate")
def _concatenate(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, w.node("Concat", *map(w.name, op.operands), axis=op.attrs["axis"]))


@_rule("update_slice", "add_slice")
def _update_slice(w: Writer, op: Op, inline: Any) -> None:
    """The base as one row, of which the places of the update are known."""
    base, update = op.operands
    rows = [start + step * np.arange(size)
            for start, step, size in zip(op.attrs["start"], op.attrs["step"], update.type.shape, strict=True)]
    places = np.ravel_multi_index(np.meshgrid(*rows, indexing="ij"), base.type.shape).reshape(-1, 1) if rows else np.zeros((1, 1))
    flat = w.node("ScatterND", w.node("Reshape", w.name(base), w.integers([-1])), w.constant(places, np.int64),
                  w.node("Reshape", w.name(update), w.integers([-1])), **({"reduction": "add"} if op.name == "add_slice" else {}))
    w.bind(op.result, w.node("Reshape", flat, w.integers(base.type.shape), **_of_empty(base.type.shape)))


# -- reductions

_REDUCTIONS = {"reduce_sum": "ReduceSum", "reduce_prod": "ReduceProd", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin",
               "reduce_and": "ReduceMin", "reduce_or": "ReduceSum"}
"""Bools are reduced as integers: `model.as_integers`."""


@_rule(*_REDUCTIONS)
def _reduce(w: Writer, op: Op, inline: Any) -> None:
    (x,), axes = op.operands, op.attrs["axes"]
    if axes:
        w.bind(op.result, w.node(_REDUCTIONS[op.name], w.name(x), w.integers(axes), keepdims=0))
    else:
        w.same(op.result, x)


# -- products

@_rule("matmul")
def _matmul(w: Writer, op: Op, inline: Any) -> None:
    a, b = op.operands
    swapped = (op.attrs["transpose_a"], op.attrs["transpose_b"])
    names = [w.name(a), w.name(b)]
    if a.type.rank == 2 and any(swapped) and is_float(a.type.dtype):
        w.bind(op.result, w.node("Gemm", *names, transA=int(swapped[0]), transB=int(swapped[1])))
        return
    for index, (operand, is_swapped) in enumerate(zip(op.operands, swapped, strict=True)):
        if is_swapped:
            rank = operand.type.rank
            names[index] = w.node("Transpose", names[index], perm=[*range(rank - 2), rank - 1, rank - 2])
    w.bind(op.result, w.node("MatMul", *names))


@_rule("convolution")
def _convolution(w: Writer, op: Op, inline: Any) -> None:
    images, kernels = op.operands
    x, pads = _ends(w, op, images, kernels.type.shape[2:], 0.0)
    w.bind(op.result, w.node("Conv", x, w.name(kernels), kernel_shape=list(kernels.type.shape[2:]), strides=list(op.attrs["stride"]),
                             dilations=list(op.attrs["dilation"]), group=op.attrs["groups"], pads=pads))


def _ends(w: Writer, op: Op, x: Value, sizes: Sequence[int], value: float) -> tuple[str, list[int]]:
    """The operand of windows, and the padding that the operator adds itself: none where it is negative, or as wide as a window."""
    low, high, interior = (tuple(op.attrs[name]) for name in ("low", "high", "interior"))
    if not any(interior) and all(0 <= number < size for ends in (low, high) for number, size in zip(ends, sizes, strict=True)):
        return w.name(x), [*low, *high]
    others = (0,) * (x.type.rank - len(sizes))
    return _padded(w, w.name(x), x.type, others + low, others + high, others + interior, value), [0] * 2 * len(sizes)


# -- windows

@_rule("window_max", "window_sum")
def _windows(w: Writer, op: Op, inline: Any) -> None:
    """Windows of images with one channel; sums as products with ones."""
    (x,), attrs = op.operands, op.attrs
    sizes, is_sum = attrs["sizes"], op.name == "window_sum"
    name, pads = _ends(w, op, x, sizes, 0.0 if is_sum else -math.inf)
    rank = x.type.rank - len(sizes)
    as_images = not is_sum and rank == 2
    if not as_images:
        name = w.node("Reshape", name, w.integers([-1, 1, *_padded_sizes(op, pads)]))
    geometry = {"kernel_shape": list(sizes), "strides": list(attrs["stride"]), "dilations": list(attrs["dilation"]), "pads": pads}
    if is_sum:
        name = w.node("Conv", name, w.constant(np.ones((1, 1, *sizes)), x.type.dtype), **geometry)
    else:
        name = w.node("MaxPool", name, **geometry)
    w.bind(op.result, name if as_images else w.node("Reshape", name, w.integers(op.result.type.shape)))


def _padded_sizes(op: Op, pads: Sequence[int]) -> list[int]:
    """Sizes of the window's axes once the padding is added that the operator does not add."""
    attrs, (x,) = op.attrs, op.operands
    rank = len(attrs["sizes"])
    sizes = list(x.type.shape[x.type.rank - rank:])
    if any(pads) or not any((*attrs["low"], *attrs["high"], *attrs["interior"])):
        return sizes
    return [size + max(size - 1, 0) * between + before + after for size, between, before, after
            in zip(sizes, attrs["interior"], attrs["low"], attrs["high"], strict=True)]


# -- indexing

@_rule("take")
def _take(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, w.node("Gather", *map(w.name, op.operands), axis=op.attrs["axis"]))


@_rule("take_along_axis")
def _take_along_axis(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, w.node("GatherElements", *map(w.name, op.operands), axis=op.attrs["axis"]))


@_rule("scatter_add_along_axis")
def _scatter_along_axis(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, w.node("ScatterElements", *map(w.name, op.operands), axis=op.attrs["axis"], reduction="add"))


@_rule("scatter_add", "scatter_set")
def _scatter(w: Writer, op: Op, inline: Any) -> None:
    """The axis goes to the front, and back."""
    base, indices, updates = op.operands
    axis, count = op.attrs["axis"], indices.type.rank
    there = [axis, *(other for other in range(base.type.rank) if other != axis)]
    first = list(range(axis, axis + count))
    moved = w.node("Transpose", w.name(base), perm=there) if axis else w.name(base)
    update = w.node("Transpose", w.name(updates), perm=[*first, *(other for other in range(updates.type.rank) if other not in first)]) \
        if axis else w.name(updates)
    places = w.node("Reshape", w.name(indices), w.integers([*indices.type.shape, 1]))
    result = w.node("ScatterND", moved, places, update, **({"reduction": "add"} if op.name == "scatter_add" else {}))
    w.bind(op.result, w.node("Transpose", result, perm=[int(place) for place in np.argsort(there)]) if axis else result)


# -- sorting and sums along an axis

@_rule("cumsum")
def _cumsum(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, w.node("CumSum", w.name(op.operands[0]), w.constant(op.attrs["axis"], np.int64), reverse=int(op.attrs["reverse"])))


@_rule("sort", "argsort")
def _sort(w: Writer, op: Op, inline: Any) -> None:
    (x,), axis = op.operands, op.attrs["axis"]
    values, indices = w.node_of("TopK", [w.name(x), w.integers([x.type.shape[axis]])], 2, axis=axis, largest=0, sorted=1)
    if op.name == "argsort":
        w.bind(op.result, indices)
        return
    start = [op.attrs["first"] if place == axis else 0 for place in range(x.type.rank)]
    stop = [first + size for first, size in zip(start, op.result.type.shape, strict=True)]
    w.bind(op.result, _sliced(w, values, start, stop, [1] * x.type.rank, x.type.shape))


@_rule("partition", "argpartition")
def _partition(w: Writer, op: Op, inline: Any) -> None:
    """The elements by their side of the pivot; of equal numbers TopK takes the first ones first."""
    (x, pivot), axis = (w.name(value) for value in op.operands), op.attrs["axis"]
    sides = [w.node("Less", *pair) for pair in ((pivot, x), (x, pivot))]
    if is_float(op.operands[0].type.dtype):
        missing = [w.node("IsNaN", name) for name in (x, pivot)]
        pairs = missing, missing[::-1]
        sides = [w.node("Or", side, w.node("And", first, w.node("Not", second)))
                 for side, (first, second) in zip(sides, pairs, strict=True)]
    above, below = (w.node("Cast", side, to=element_type(I64)) for side in sides)
    _, order = w.node_of("TopK", [w.node("Sub", above, below), w.integers([op.result.type.shape[axis]])], 2, axis=axis, largest=0, sorted=1)
    w.bind(op.result, order if op.name == "argpartition" else w.node("GatherElements", x, order, axis=axis))


@_rule("argmax", "argmin")
def _argmax(w: Writer, op: Op, inline: Any) -> None:
    w.bind(op.result, w.node("ArgMax" if op.name == "argmax" else "ArgMin", w.name(op.operands[0]), axis=op.attrs["axis"], keepdims=0))


# -- loops and branches

@_rule("custom_call", "checkpoint")
def _call(w: Writer, op: Op, inline: Any) -> None:
    for result, value in zip(op.results, inline(op.regions[0], op.operands), strict=True):
        w.same(result, value)


@_rule("scan")
def _scan(w: Writer, op: Op, inline: Any) -> None:
    """ONNX's Scan takes and returns the carried values first; it needs one array of slices to count. Not every runtime has its backwards
    direction: slices and rows are turned around instead."""
    (body,), carries, slices = op.regions, op.attrs["carries"], op.attrs["slices"]
    given = [w.name(value) for value in op.operands[:carries + slices]]
    if not slices:
        given.append(w.constant(np.arange(op.attrs["length"]), np.int64))
    rows = len(body.results) - carries
    with w.graph_of_node() as nodes:
        inputs = _parameters(w, body.params[:carries + slices])
        if not slices:
            inputs.append(value_info(w.fresh(), TensorType(I64, ())))
        for param, operand in zip(body.params[carries + slices:], op.operands[carries + slices:], strict=True):
            w.same(param, operand)
        results = inline(body, body.params)
        outputs = _outputs(w, [*results[rows:], *results[:rows]])
    if op.attrs["reverse"]:
        given[carries:] = [_flipped(w, name, (0,)) for name in given[carries:]]
    names = w.node_of("Scan", given, len(op.results), body=w.graph(body.name, nodes, inputs, outputs), num_scan_inputs=max(slices, 1))
    if op.attrs["reverse"]:
        names = [*names[:carries], *(_flipped(w, name, (0,)) for name in names[carries:])]
    for result, name in zip([*op.results[rows:], *op.results[:rows]], names, strict=True):
        w.bind(result, name)


@_rule("while_loop")
def _while_loop(w: Writer, op: Op, inline: Any) -> None:
    condition, body = op.regions
    carries = op.attrs["carries"]
    if op.attrs["checkpoints"]:
        raise ExportError("ONNX has no derivative of a loop whose number of rounds depends on values", op.loc,
                          hint="export the function without its derivative")
    (holds,) = inline(condition, op.operands)
    given = ["", w.name(holds), *(w.name(value) for value in op.operands[:carries])]
    with w.graph_of_node() as nodes:
        inputs = [value_info(w.fresh(), TensorType(I64, ())), value_info(w.fresh(), holds.type), *_parameters(w, body.params[:carries])]
        for param, operand in zip(body.params[carries:], op.operands[carries:], strict=True):
            w.same(param, operand)
        results = inline(body, body.params)
        (again,) = inline(condition, [*results, *op.operands[carries:]])
        outputs = _outputs(w, [again, *results])
    names = w.node_of("Loop", given, carries, body=w.graph(body.name, nodes, inputs, outputs))
    for result, name in zip(op.results, names, strict=True):
        w.bind(result, name)


@_rule("cond")
def _cond(w: Writer, op: Op, inline: Any) -> None:
    branches = []
    for region in op.regions:
        with w.graph_of_node() as nodes:
            outputs = _outputs(w, inline(region, op.operands[1:]))
        branches.append(w.graph(region.name, nodes, [], outputs))
    names = w.node_of("If", [w.name(op.operands[0])], len(op.results), then_branch=branches[0], else_branch=branches[1])
    for result, name in zip(op.results, names, strict=True):
        w.bind(result, name)


def _parameters(w: Writer, params: Sequence[Value]) -> list[Any]:
    infos = []
    for param in params:
        name = w.fresh()
        w.bind(param, name)
        infos.append(value_info(name, param.type))
    return infos


def _outputs(w: Writer, values: Sequence[Value]) -> list[Any]:
    """Outputs of a graph of a node, each with a name of its own."""
    infos = []
    for value in values:
        name = w.fresh()
        w.result(name, value)
        infos.append(value_info(name, value.type))
    return infos
