"""Moves fewer elements: consecutive movement ops become one, and arithmetic is done before elements are repeated, not after."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.ir import ops
from adjit.ir.graph import Attributes, Op, Value
from adjit.ir.types import Shape
from adjit.passes.simplify.constants import ELEMENTWISE
from adjit.passes.simplify.rewrite import Rewriter, RuleTable

MOVEMENT = RuleTable(of_complex=True)


def non_unit_axes(shape: Shape) -> list[int]:
    """Axes whose size is not 1."""
    return [axis for axis, size in enumerate(shape) if size != 1]


def same_without_unit_axes(a: Shape, b: Shape) -> bool:
    """True if two shapes differ only by axes of size 1."""
    return [size for size in a if size != 1] == [size for size in b if size != 1]


# -- reshape

@MOVEMENT.rule("reshape")
def reshape_once(op: Op, graph: Rewriter) -> Value | None:
    """A reshape to the same shape is dropped; of two in a row the last counts."""
    operand = op.operands[0]
    if operand.type == op.result.type:
        return operand
    inner = graph.producer(operand, "reshape")
    return ops.reshape(inner.operands[0], shape=op.result.type.shape) if inner else None


@MOVEMENT.rule("reshape", any_operand=("broadcast",))
def reshape_before_broadcast(op: Op, graph: Rewriter) -> Value | None:
    """Axes of size 1 that a reshape inserts or drops after a broadcast are inserted or dropped by the broadcast itself."""
    inner = graph.producer(op.operands[0], "broadcast")
    before, after = op.operands[0].type.shape, op.result.type.shape
    if inner is None or not same_without_unit_axes(before, after):
        return None
    place = dict(zip(non_unit_axes(before), non_unit_axes(after), strict=True))
    small = inner.operands[0]
    kept = non_unit_axes(small.type.shape)
    squeezed = ops.reshape(small, shape=tuple(small.type.shape[axis] for axis in kept))
    return ops.broadcast(squeezed, shape=after, axes=tuple(place[inner.attrs["axes"][axis]] for axis in kept))


@MOVEMENT.rule("reshape", any_operand=("transpose",))
def squeeze_before_transpose(op: Op, graph: Rewriter) -> Value | None:
    """Axes of size 1 that are dropped after a transpose are dropped before it: a matmul can then absorb the transpose."""
    inner = graph.producer(op.operands[0], "transpose")
    after = op.result.type.shape
    if inner is None or 1 in after or not same_without_unit_axes(op.operands[0].type.shape, after):
        return None
    source = inner.operands[0].type.shape
    kept = non_unit_axes(source)
    moved = [kept.index(axis) for axis in inner.attrs["permutation"] if source[axis] != 1]
    return ops.transpose(ops.reshape(inner.operands[0], shape=tuple(source[axis] for axis in kept)), permutation=tuple(moved))


# -- transpose and flip

@MOVEMENT.rule("transpose")
def transpose_once(op: Op, graph: Rewriter) -> Value | None:
    """A transpose that keeps the order of the axes whose size is not 1 is a reshape; two in a row are one."""
    operand, permutation = op.operands[0], op.attrs["permutation"]
    moved = [axis for axis in permutation if operand.type.shape[axis] != 1]
    if moved == sorted(moved) or operand.type.size == 0:
        return ops.reshape(operand, shape=op.result.type.shape)
    inner = graph.producer(operand, "transpose")
    if inner is None:
        return None
    return ops.transpose(inner.operands[0], permutation=tuple(inner.attrs["permutation"][axis] for axis in permutation))


@MOVEMENT.rule("transpose", any_operand=("broadcast",))
def transpose_before_broadcast(op: Op, graph: Rewriter) -> Value | None:
    """transpose(broadcast(x)) -> broadcast(transpose(x)): fewer elements move."""
    inner = graph.producer(op.operands[0], "broadcast")
    if inner is None:
        return None
    permutation = op.attrs["permutation"]
    target = [permutation.index(axis) for axis in inner.attrs["axes"]]
    order = sorted(range(len(target)), key=target.__getitem__)
    return ops.broadcast(ops.transpose(inner.operands[0], permutation=tuple(order)), shape=op.result.type.shape, axes=tuple(sorted(target)))


@MOVEMENT.rule("transpose", any_operand=("reshape",))
def transpose_before_unsqueeze(op: Op, graph: Rewriter) -> Value | None:
    """Axes of size 1 that are inserted before a transpose are inserted after it."""
    inner = graph.producer(op.operands[0], "reshape")
    if inner is None:
        return None
    source = inner.operands[0].type.shape
    if 1 in source or not same_without_unit_axes(source, op.operands[0].type.shape):
        return None
    kept = non_unit_axes(op.operands[0].type.shape)
    moved = tuple(kept.index(axis) for axis in op.attrs["permutation"] if axis in kept)
    return ops.reshape(ops.transpose(inner.operands[0], permutation=moved), shape=op.result.type.shape)


@MOVEMENT.rule("transpose", any_operand=("matmul",))
def transpose_of_matmul(op: Op, graph: Rewriter) -> Value | None:
    """(a b)' -> b' a', if nothing else uses the product."""
    product = graph.producer(op.operands[0], "matmul")
    if product is None or not graph.used_once(op.operands[0]) or not swaps_matrices(op):
        return None
    a, b = product.operands
    return ops.matmul(b, a, transpose_a=not product.attrs["transpose_b"], transpose_b=not product.attrs["transpose_a"])


def swaps_matrices(transpose: Op) -> bool:
    """True if a transpose swaps the last two axes and no others."""
    rank = transpose.result.type.rank
    return bool(transpose.attrs["permutation"] == (*range(rank - 2), rank - 1, rank - 2))


@MOVEMENT.rule("matmul", any_operand=("transpose",))
def transpose_inside_matmul(op: Op, graph: Rewriter) -> Value | None:
    """A matmul absorbs transposes of its operands: it reads them transposed at no cost."""
    operands, attrs = list(op.operands), dict(op.attrs)
    for position, flag in enumerate(("transpose_a", "transpose_b")):
        transposed = graph.producer(operands[position], "transpose")
        if transposed is not None and swaps_matrices(transposed):
            operands[position], attrs[flag] = transposed.operands[0], not attrs[flag]
    return ops.matmul(*operands, **attrs) if operands != list(op.operands) else None


@MOVEMENT.rule("flip")
def flip_once(op: Op, graph: Rewriter) -> Value | None:
    """Flipping an axis of size 1 is nothing, and so is flipping twice."""
    operand = op.operands[0]
    axes = {axis for axis in op.attrs["axes"] if operand.type.shape[axis] > 1}
    if not axes:
        return operand
    inner = graph.producer(operand, "flip")
    if inner:
        return ops.flip(inner.operands[0], axes=tuple(sorted(axes ^ set(inner.attrs["axes"]))))
    return ops.flip(operand, axes=tuple(sorted(axes))) if len(axes) < len(op.attrs["axes"]) else None


# -- broadcast

@MOVEMENT.rule("broadcast")
def broadcast_once(op: Op, graph: Rewriter) -> Value | None:
    """A broadcast that repeats nothing is a reshape; two in a row are one."""
    operand, shape = op.operands[0], op.result.type.shape
    if operand.type.size == op.result.type.size:
        return ops.reshape(operand, shape=shape)
    inner = graph.producer(operand, "broadcast")
    if inner is None:
        return None
    return ops.broadcast(inner.operands[0], shape=shape, axes=tuple(op.attrs["axes"][axis] for axis in inner.attrs["axes"]))


@MOVEMENT.rule(*ELEMENTWISE, any_operand=("broadcast",), all_operands=("broadcast", "constant"))
def compute_before_broadcast(op: Op, graph: Rewriter) -> Value | None:
    """f(broadcast(x), broadcast(y), c) -> broadcast(f(x, y, c)), if both are broadcast in the same way."""
    moved = _same_movement(op, graph, "broadcast")
    if moved is None:
        return None
    attrs, operands = moved
    return ops.broadcast(op.definition(*operands, **op.attrs), **attrs)


@MOVEMENT.rule(*ELEMENTWISE, any_operand=("reshape",), all_operands=("reshape", "constant"))
def compute_before_reshape(op: Op, graph: Rewriter) -> Value | None:
    """f(reshape(x), c) -> reshape(f(x, c)), if the reshapes insert or drop axes of size 1: then a reduction that keeps its axes is as good
    as one that drops them."""
    moved = _same_movement(op, graph, "reshape")
    if moved is None or not same_without_unit_axes(moved[1][0].type.shape, op.result.type.shape):
        return None
    attrs, operands = moved
    return ops.reshape(op.definition(*operands, **op.attrs), **attrs)


def _same_movement(op: Op, graph: Rewriter, name: str) -> tuple[Attributes, list[Value]] | None:
    """Attributes of the ops called `name` that made all operands but constants, and the operands before these ops; None if the ops
    differ."""
    producers = [graph.producer(value, name, "constant") for value in op.operands]
    moves = [producer for producer in producers if producer is not None and producer.name == name]
    if not moves or None in producers:
        return None
    attrs, before = moves[0].attrs, moves[0].operands[0].type.shape
    if any(move.attrs != attrs or move.operands[0].type.shape != before for move in moves):
        return None
    operands = []
    for producer, value in zip(producers, op.operands, strict=True):
        number = graph.number(value)
        if number is not None:
            operands.append(ops.constant(value=number, dtype=value.type.dtype, shape=before))
        elif producer is not None:
            operands.append(producer.operands[0])
    return attrs, operands


# -- slice, concatenate, pad, update_slice

@MOVEMENT.rule("slice")
def slice_once(op: Op, graph: Rewriter) -> Value | None:
    """A slice of everything is dropped; a slice of a slice is one slice."""
    operand = op.operands[0]
    if operand.type == op.result.type and all(step == 1 for step in op.attrs["step"]):
        return operand
    inner = graph.producer(operand, "slice")
    if inner is None or op.result.type.size == 0:
        return None
    inner_starts, inner_steps = inner.attrs["start"], inner.attrs["step"]
    start = tuple(first + step * begin for first, step, begin in zip(inner_starts, inner_steps, op.attrs["start"], strict=True))
    step = tuple(a * b for a, b in zip(inner_steps, op.attrs["step"], strict=True))
    stop = tuple(begin + stride * (size - 1) + 1 for begin, stride, size in zip(start, step, op.result.type.shape, strict=True))
    return ops.slice(inner.operands[0], start=start, stop=stop, step=step)


@MOVEMENT.rule("slice", any_operand=("concatenate",))
def slice_of_one_piece(op: Op, graph: Rewriter) -> Value | None:
    """A slice that stays inside one operand of a concatenate is a slice of this operand."""
    joined = graph.producer(op.operands[0], "concatenate")
    if joined is None:
        return None
    axis = joined.attrs["axis"]
    begin, end = op.attrs["start"][axis], op.attrs["stop"][axis]
    offset = 0
    for piece in joined.operands:
        size = piece.type.shape[axis]
        if offset <= begin and end <= offset + size:
            return ops.slice(piece, start=with_entry(op.attrs["start"], axis, begin - offset),
                             stop=with_entry(op.attrs["stop"], axis, end - offset), step=op.attrs["step"])
        offset += size
    return None


@MOVEMENT.rule("slice", any_operand=("pad",))
def slice_of_padded(op: Op, graph: Rewriter) -> Value | None:
    """A slice that stays inside the padded value is a slice of this value."""
    padded = graph.producer(op.operands[0], "pad")
    if padded is None or any(padded.attrs["interior"]):
        return None
    inner = padded.operands[0]
    start = tuple(begin - low for begin, low in zip(op.attrs["start"], padded.attrs["low"], strict=True))
    stop = tuple(end - low for end, low in zip(op.attrs["stop"], padded.attrs["low"], strict=True))
    if any(begin < 0 or end > size for begin, end, size in zip(start, stop, inner.type.shape, strict=True)):
        return None
    return ops.slice(inner, start=start, stop=stop, step=op.attrs["step"])


@MOVEMENT.rule("slice", any_operand=("transpose",))
def slice_before_transpose(op: Op, graph: Rewriter) -> Value | None:
    """slice(transpose(x)) -> transpose(slice(x)): fewer elements move, and the order of what comes before is kept."""
    inner = graph.producer(op.operands[0], "transpose")
    if inner is None:
        return None
    order = inner.attrs["permutation"]
    start, stop, step = (tuple(op.attrs[key][order.index(axis)] for axis in range(len(order))) for key in ("start", "stop", "step"))
    return ops.transpose(ops.slice(inner.operands[0], start=start, stop=stop, step=step), permutation=order)


@MOVEMENT.rule("slice", any_operand=("sort",))
def slice_of_sorted(op: Op, graph: Rewriter) -> Value | None:
    """Sorted elements of which nothing but a part is used are those of the part."""
    whole = graph.producer(op.operands[0], "sort")
    if whole is None or not graph.used_once(op.operands[0]):
        return None
    axis, shape = whole.attrs["axis"], op.operands[0].type.shape
    begin, end = op.attrs["start"][axis], op.attrs["stop"][axis]
    if op.attrs["step"][axis] != 1 or end - begin == shape[axis]:
        return None
    part = ops.sort(whole.operands[0], axis=axis, first=whole.attrs["first"] + begin, count=end - begin)
    return ops.slice(part, start=with_entry(op.attrs["start"], axis, 0), stop=with_entry(op.attrs["stop"], axis, end - begin),
                     step=op.attrs["step"])


@MOVEMENT.rule("sort", any_operand=("transpose",))
def sort_before_transpose(op: Op, graph: Rewriter) -> Value | None:
    """sort(transpose(x)) -> transpose(sort(x)): lines along the last axis are sorted where they lie, and a part of them is smaller."""
    inner = graph.producer(op.operands[0], "transpose")
    if inner is None:
        return None
    order = inner.attrs["permutation"]
    return ops.transpose(ops.sort(inner.operands[0], **{**op.attrs, "axis": order[op.attrs["axis"]]}), permutation=order)


@MOVEMENT.rule("transpose", any_operand=("concatenate",))
def transpose_before_concatenate(op: Op, graph: Rewriter) -> Value | None:
    """transpose(concatenate(x, y)) -> concatenate(transpose(x), transpose(y)), if movement ops made x and y: the transposes merge with
    these ops."""
    joined = graph.producer(op.operands[0], "concatenate")
    if joined is None or not all(graph.producer(piece, "reshape", "transpose", "broadcast") for piece in joined.operands):
        return None
    order = op.attrs["permutation"]
    return ops.concatenate(*(ops.transpose(piece, permutation=order) for piece in joined.operands), axis=order.index(joined.attrs["axis"]))


@MOVEMENT.rule("concatenate")
def concatenate_less(op: Op, graph: Rewriter) -> Value | None:
    """Empty operands are dropped, neighbouring slices of one value become one slice, and a concatenate of one operand is the operand."""
    axis = op.attrs["axis"]
    pieces: list[Value] = []
    for piece in op.operands:
        if piece.type.shape[axis] == 0:
            continue
        joined = _neighbours(graph.producer(pieces[-1], "slice"), graph.producer(piece, "slice"), axis) if pieces else None
        if joined is None:
            pieces.append(piece)
        else:
            pieces[-1] = joined
    if not pieces:
        return op.operands[0]
    if len(pieces) == 1:
        return pieces[0]
    return ops.concatenate(*pieces, axis=axis) if len(pieces) < len(op.operands) else None


def _neighbours(left: Op | None, right: Op | None, axis: int) -> Value | None:
    """One slice for two slices that follow each other along `axis` and agree along the other axes; None for any others."""
    if left is None or right is None or left.operands != right.operands:
        return None
    if left.attrs["step"] != right.attrs["step"] or left.attrs["step"][axis] != 1:
        return None
    for key in ("start", "stop"):
        if with_entry(left.attrs[key], axis, 0) != with_entry(right.attrs[key], axis, 0):
            return None
    if left.attrs["stop"][axis] != right.attrs["start"][axis]:
        return None
    return ops.slice(left.operands[0], start=left.attrs["start"], stop=right.attrs["stop"], step=left.attrs["step"])


@MOVEMENT.rule("pad")
def pad_nothing(op: Op, graph: Rewriter) -> Value | None:
    """Padding that adds nothing is dropped."""
    operand = op.operands[0]
    return operand if operand.type == op.result.type and not any((*op.attrs["low"], *op.attrs["high"])) else None


@MOVEMENT.rule("update_slice")
def update_everything(op: Op, graph: Rewriter) -> Value | None:
    """An update of everything is the update; an update of nothing leaves the base."""
    base, update = op.operands
    if update.type.size == 0:
        return base
    return update if update.type == base.type else None


@MOVEMENT.rule("add_slice")
def add_nothing(op: Op, graph: Rewriter) -> Value | None:
    """An update of no elements leaves the base; one of all elements is a sum."""
    base, update = op.operands
    if update.type.size == 0:
        return base
    return ops.add(base, update) if update.type == base.type else None


@MOVEMENT.rule("slice", any_operand=("update_slice",))
def slice_of_update(op: Op, graph: Rewriter) -> Value | None:
    """A slice of exactly the region that an update_slice wrote is the update."""
    updated = graph.producer(op.operands[0], "update_slice")
    if updated is None or updated.operands[1].type != op.result.type or op.result.type.size == 0:
        return None
    steps = zip(op.attrs["step"], updated.attrs["step"], op.result.type.shape, strict=True)
    same = updated.attrs["start"] == op.attrs["start"] and all(a == b or size == 1 for a, b, size in steps)
    return updated.operands[1] if same else None


def with_entry(values: Sequence[int], position: int, value: int) -> tuple[int, ...]:
    return (*values[:position], value, *values[position + 1:])


