"""Convolutions and pooling with less around them.

Exception to "every bit": zeros that padding wrote may be added in another order.
"""

from __future__ import annotations

from adjit.ir import ops
from adjit.ir.graph import Op, Value
from adjit.passes.rewrite import Rewriter, RuleTable

WINDOWS = RuleTable()


@WINDOWS.rule("convolution", "convolution_kernel_gradient", "window_sum")
def windows_of_padded(op: Op, graph: Rewriter) -> Value | None:
    """What is padded with zeros is padded by the windows themselves."""
    return _without_padding(op, graph, 0.0)


@WINDOWS.rule("window_max")
def largest_of_padded(op: Op, graph: Rewriter) -> Value | None:
    """As above, with what is smaller than all."""
    return _without_padding(op, graph, float("-inf"))


def _without_padding(op: Op, graph: Rewriter, value: float) -> Value | None:
    pad = graph.maker(op.operands[0], "pad")
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


@WINDOWS.rule("window_max")
def relu_of_fewer(op: Op, graph: Rewriter) -> Value | None:
    """max(relu(x)) -> relu(max(x)): there are fewer windows than elements."""
    inner = graph.maker(op.operands[0], "relu")
    if inner is None or op.result.type.size > op.operands[0].type.size:
        return None
    return ops.relu(ops.window_max(inner.operands[0], **op.attrs))


@WINDOWS.rule("select")
def relu_of_fewer_cotangents(op: Op, graph: Rewriter) -> Value | None:
    """Where relu(x) is 0, 0, elsewhere what goes to the largest of relu(x): only what comes from windows whose largest is not 0.

    A window hands its cotangent to an element that equals its largest: one is 0 exactly if the other is. Elements that are not are the
    same in x and relu(x).
    """
    condition, zero, scatter = (graph.maker(value) for value in op.operands)
    if condition is None or zero is None or scatter is None or scatter.name != "window_max_scatter" or condition.name != "less_equal":
        return None
    source, cotangent = scatter.operands
    inner = graph.maker(source, "relu")
    if inner is None or condition.operands[0] is not source or {graph.number(condition.operands[1]), graph.number(op.operands[1])} != {0}:
        return None
    if cotangent.type.size > source.type.size:
        return None
    largest = ops.relu(ops.window_max(inner.operands[0], **scatter.attrs))
    nothing = ops.constant(value=0.0, dtype=cotangent.type.dtype, shape=cotangent.type.shape)
    kept = ops.select(ops.less_equal(largest, nothing), nothing, cotangent)
    return ops.window_max_scatter(inner.operands[0], kept, **scatter.attrs)
