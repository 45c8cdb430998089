"""Overrides of derivatives in a trace, for tensors that share memory but were computed in different ways.

In the dynamic graph a derivative belongs to a tensor, not to its memory: a write through `x.detach()`, or under `no_grad`, changes the
content of `x`, but not its history. In the graph of a trace a derivative belongs to a value. So an op replaces a value's derivative.
"""

from __future__ import annotations

import functools
from typing import Any

from adjit.ir import ops
from adjit.ir.graph import Graph, Value
from adjit.ir.types import TensorType, is_inexact
from adjit.tracer.array import TracedArray, view_of


def detached_value(value: Value) -> Value:
    """Make `value` a constant to derivatives."""
    return ops.stop_gradient(value) if is_inexact(value.type.dtype) else value


def with_gradient_of(old: Value, new: Value) -> Value:
    """Return `new`, with the derivative of `old`."""
    if not is_inexact(old.type.dtype):
        return new
    (result,) = ops.custom_call.emit(old, ops.stop_gradient(new), regions=_replacement(old.type))
    return result


@functools.lru_cache(maxsize=256)
def _replacement(type: TensorType) -> tuple[Graph, Graph, Graph]:
    """Graphs of a call that returns its second argument, and passes all cotangents to its first."""
    old, new, cotangent = (Value(type, name) for name in ("old", "new", "cotangent"))
    graph = Graph("replace", (old, new), (), (new,))
    return graph, graph, Graph("replace_backward", (cotangent,), (), (cotangent,))


def separate_history(content: Any, history: Value | None = None) -> Any:
    """Share the memory of `content` with a tensor of another history: `history`, or none.

    Within a trace, a read through this tensor after a write through another one has the derivative of the last write through this tensor; a
    write through this tensor does not change the derivatives of the others.
    """
    if not isinstance(content, TracedArray) or not is_inexact(content.dtype):
        return content
    own = _Own(history)
    return view_of(content, own.read, own.write, content.steps)


class _Own:
    """History of a tensor on shared memory: `last` is its last value whose derivative is known."""

    def __init__(self, last: Value | None):
        self.last = last

    def read(self, content: Value) -> Value:
        return detached_value(content) if self.last is None else with_gradient_of(self.last, content)

    def write(self, content: Value, new: Value) -> Value:
        self.last = new
        return with_gradient_of(content, new)
