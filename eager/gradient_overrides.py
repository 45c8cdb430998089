"""Values of a trace whose derivative is that of another value: tensors on one memory, each of which was computed in a way of its own.

In the dynamic graph a derivative belongs to a tensor, not to its memory: what is written through `x.detach()`, or under `no_grad`, changes
what `x` holds, and not how `x` was computed. In the graph of a trace a derivative belongs to a value. So the values say it.
"""

from __future__ import annotations

import functools
from typing import Any

from adjit.ir import ops
from adjit.ir.graph import Graph, Value
from adjit.ir.types import TensorType, is_float
from adjit.tracer.array import TracedArray, view_of


def detached_value(value: Value) -> Value:
    """`value` as a constant to derivatives."""
    return ops.stop_gradient(value) if is_float(value.type.dtype) else value


def with_gradient_of(old: Value, new: Value) -> Value:
    """`new`, with the derivative of `old`."""
    if not is_float(old.type.dtype):
        return new
    (result,) = ops.custom_call.emit(old, ops.stop_gradient(new), regions=_replacement(old.type))
    return result


@functools.lru_cache(maxsize=256)
def _replacement(type: TensorType) -> tuple[Graph, Graph, Graph]:
    """Of a call that gives its second argument, and hands all cotangents to its first."""
    old, new, cotangent = (Value(type, name) for name in ("old", "new", "cotangent"))
    graph = Graph("replace", (old, new), (), (new,))
    return graph, graph, Graph("replace_backward", (cotangent,), (), (cotangent,))


def separate_history(content: Any, history: Value | None = None) -> Any:
    """The same memory for a tensor that was computed in another way: as `history`, or not at all.

    Within a trace, what it reads after others have written there has the derivative of what was last written through itself; and what is
    written through it leaves the others theirs.
    """
    if not isinstance(content, TracedArray) or not is_float(content.dtype):
        return content
    own = _Own(history)
    return view_of(content, own.read, own.write, content.steps)


class _Own:
    """How a tensor on memory of others was computed: `last` is what it held when that was last known."""

    def __init__(self, last: Value | None):
        self.last = last

    def read(self, content: Value) -> Value:
        return detached_value(content) if self.last is None else with_gradient_of(self.last, content)

    def write(self, content: Value, new: Value) -> Value:
        self.last = new
        return with_gradient_of(content, new)
