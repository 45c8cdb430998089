"""Simplification of convolutions and pooling.

Exceptions to "every bit": zeros that padding wrote may be added in another order; and if the largest element of a window is NaN, all
elements share its cotangent, including negative ones, although a relu came before the window.
"""

from __future__ import annotations

from adjit.ir import ops
from adjit.ir.graph import Op, Value
from adjit.ir.types import is_float
from adjit.passes.simplify.rewrite import Rewriter, RuleTable

WINDOWS = RuleTable()


@WINDOWS.rule("convolution", "convolution_kernel_gradient", "window_sum", any_operand=("pad",))
def windows_of_padded(op: Op, graph: Rewriter) -> Value | None:
    """Padding with zeros before a window op becomes padding by the windows themselves."""
    return _without_padding(op, graph, 0.0)


@WINDOWS.rule("window_max", any_operand=("pad",))
def largest_of_padded(op: Op, graph: Rewriter) -> Value | None:
    """Padding with -inf before a `window_max` becomes padding by the windows themselves."""
    return _without_padding(op, graph, float("-inf"))


def _without_padding(op: Op, graph: Rewriter, value: float) -> Value | None:
    pad = graph.producer(op.operands[0], "pad")
    if pad is None or pad.attrs["value"] != value or any(op.attrs["interior"]):
        return None
    rank = op.operands[0].type.rank
    axes = rank - len(op.attrs["low"])
    given = [pad.attrs[name] for name in ("low", "high", "interior")]
    if any(any(numbers[:axes]) for numbers in given) or (op.name == "window_max" and any(given[2])):
        return None
    low, high = (tuple(a + b for a, b in zip(numbers[axes:], op.attrs[name], strict=True))
                 for numbers, name in zip(given, ("low", "high"), strict=False))
    return op.definition(pad.operands[0], *op.operands[1:], **{**op.attrs, "low": low, "high": high, "interior": given[2][axes:]})


@WINDOWS.rule("window_max", any_operand=("relu",))
def relu_of_fewer(op: Op, graph: Rewriter) -> Value | None:
    """max(relu(x)) -> relu(max(x)): there are fewer windows than elements."""
    inner = graph.producer(op.operands[0], "relu")
    if inner is None or op.result.type.size > op.operands[0].type.size:
        return None
    return ops.relu(ops.window_max(inner.operands[0], **op.attrs))


@WINDOWS.rule("select", any_operand=("less_equal",))
def relu_of_fewer_cotangents(op: Op, graph: Rewriter) -> Value | None:
    """Gradient of max(relu(x)): select(relu(x) <= 0, 0, scatter(relu(x), ct)) -> scatter(x, ct'), with ct' = 0 for windows whose largest
    relu(x) is 0.

    A window gives its cotangent to an element that equals its largest, so the element is 0 exactly if the largest is 0. Elements that are
    not 0 are the same in x and relu(x).
    """
    condition, zero, scatter = (graph.producer(value) for value in op.operands)
    if condition is None or zero is None or scatter is None or scatter.name not in _SCATTERS or condition.name != "less_equal":
        return None
    source, cotangent = scatter.operands
    inner = graph.producer(source, "relu")
    if inner is None or condition.operands[0] is not source or {graph.number(condition.operands[1]), graph.number(op.operands[1])} != {0}:
        return None
    if cotangent.type.size > source.type.size:
        return None
    largest = ops.relu(ops.window_max(inner.operands[0], **scatter.attrs))
    nothing = ops.constant(value=0.0, dtype=cotangent.type.dtype, shape=cotangent.type.shape)
    kept = ops.select(ops.less_equal(largest, nothing), nothing, cotangent)
    return scatter.definition(inner.operands[0], kept, **scatter.attrs)


_SCATTERS = ("window_max_scatter", "window_max_share")


@WINDOWS.rule("reduce_max", "reduce_sum")
def reduction_of_blocks(op: Op, graph: Rewriter) -> Value | None:
    """A reduction of [..., h, a, w, b] over a and b, as NumPy users write pooling, becomes a window op on [..., h * a, w * b]."""
    (x,) = op.operands
    if not _lies_in_windows(x, op.attrs["axes"]):
        return None
    pool = ops.window_max if op.name == "reduce_max" else ops.window_sum
    return pool(_merged(x), **_non_overlapping(x))


@WINDOWS.rule("select", any_operand=("less",))
def shared_among_largest(op: Op, graph: Rewriter) -> Value | None:
    """Derivative of a `reduce_max` that `reduction_of_blocks` rewrites: 0 where x < max(x), elsewhere the cotangent divided by the number
    of largest elements."""
    lost, repeated = graph.producer(op.operands[0], "less"), graph.producer(op.operands[2], "broadcast")
    if lost is None or repeated is None or graph.number(op.operands[1]) != 0:
        return None
    x, shape = lost.operands[0], op.result.type.shape
    axes = tuple(axis for axis in range(len(shape)) if axis not in repeated.attrs["axes"])
    bound, share = graph.producer(lost.operands[1], "broadcast"), graph.producer(repeated.operands[0], "divide")
    if not _lies_in_windows(x, axes) or bound is None or share is None or bound.attrs != repeated.attrs:
        return None
    count = graph.producer(share.operands[1], "window_sum")
    if count is None or not _is_pool(bound.operands[0], x, graph) or not _is_count(count, lost.result, x, graph):
        return None
    return ops.reshape(ops.window_max_share(_merged(x), share.operands[0], **_non_overlapping(x)), shape=shape)


def _lies_in_windows(x: Value, axes: tuple[int, ...]) -> bool:
    """True if `axes` are the second and the last of the last four axes, none of which has size 1."""
    rank = x.type.rank
    return rank >= 4 and axes == (rank - 3, rank - 1) and min(x.type.shape[rank - 4:]) > 1 and is_float(x.type.dtype)


def _merged(x: Value) -> Value:
    *outer, height, a, width, b = x.type.shape
    return ops.reshape(x, shape=(*outer, height * a, width * b))


def _non_overlapping(x: Value) -> dict[str, tuple[int, ...]]:
    sizes = (x.type.shape[-3], x.type.shape[-1])
    return {"sizes": sizes, "stride": sizes, "low": (0, 0), "high": (0, 0), "interior": (0, 0), "dilation": (1, 1)}


def _is_pool(largest: Value, x: Value, graph: Rewriter) -> bool:
    """True if `largest` holds the largest elements of non-overlapping windows of `x`, with a relu before or after."""
    source = _root(x, graph)
    after, before = graph.producer(largest, "relu"), graph.producer(source, "relu")
    if after is not None and before is not None:
        largest, source = after.operands[0], _root(before.operands[0], graph)
    op = graph.producer(largest, "window_max")
    return op is not None and op.attrs == _non_overlapping(x) and _root(op.operands[0], graph) is source


def _root(value: Value, graph: Rewriter) -> Value:
    """Value of which `value` is a reshape; `value` itself if it is none."""
    producer = graph.producer(value, "reshape")
    return value if producer is None else _root(producer.operands[0], graph)


def _is_count(op: Op, lost: Value, x: Value, graph: Rewriter) -> bool:
    """True if `op` counts the elements of each window that are not `lost`."""
    ones = graph.producer(_root(op.operands[0], graph), "select")
    return (op.attrs == _non_overlapping(x) and ones is not None and ones.operands[0] is lost
            and graph.number(ones.operands[1]) == 0 and graph.number(ones.operands[2]) == 1)
