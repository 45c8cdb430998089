"""Tensors within a trace: which ones it read and wrote, so that a compiled program can do the same to them later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjit.eager.tensor import Tensor
from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import TraceError
from adjit.ir.graph import Value
from adjit.ir.types import TensorType
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.inputs import check_array
from adjit.tracer.scope import active_scope
from adjit.tracer.source import find_user_location


@dataclass(slots=True)
class Entry:
    """A tensor that a trace met: the parameter that stands for its content, and what it was before."""

    tensor: Tensor
    value: Value
    payload: np.ndarray
    before: dict[str, Any]


class Capture:
    """The tensors of one trace. While it is under way they hold traced arrays."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}

    def enter(self, tensor: Tensor) -> TracedArray:
        """Put a traced array into a tensor, that stands for what the tensor holds when the program runs."""
        scope = active_scope()
        if scope is None:
            raise TraceError("a tensor is used in a trace, and there is none", find_user_location())
        root = scope.root
        assert isinstance(root.builder, GraphBuilder)
        array = tensor.payload
        value = root.builder.param(TensorType(check_array(array, "a tensor", find_user_location()), array.shape), role="captured")
        self.entries[id(tensor)] = Entry(tensor, value, array, dict(vars(tensor)))
        tensor.payload = TracedArray(value, root, scalar=False)
        return tensor.payload

    def read_gradient(self, tensor: Tensor) -> None:
        """Note that the gradient of a tensor is looked at."""

    def write_gradient(self, tensor: Tensor) -> None:
        """Note that the gradient of a tensor is set."""

    def restore(self) -> None:
        """Give all tensors back what they held before."""
        for entry in self.entries.values():
            vars(entry.tensor).clear()
            vars(entry.tensor).update(entry.before)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.captures: list[Capture] = []


_stack = _Stack()


def current_capture() -> Capture | None:
    """The capture under way in this thread."""
    return _stack.captures[-1] if _stack.captures else None


@contextmanager
def capturing() -> Iterator[Capture]:
    """Note the tensors that the trace within the block meets; at its end they are what they were."""
    capture = Capture()
    _stack.captures.append(capture)
    try:
        yield capture
    finally:
        _stack.captures.pop()
        capture.restore()


def traced(operand: Any) -> TracedArray:
    """An operand in the trace under way: a tensor's content, an array or a number."""
    return trace_tensor(operand) if isinstance(operand, Tensor) else as_traced(operand)


def trace_tensor(tensor: Tensor) -> TracedArray:
    """A tensor's content in the trace under way."""
    payload = tensor.payload
    if isinstance(payload, TracedArray):
        return payload
    capture = current_capture()
    if capture is None:
        raise TraceError("a tensor is used in a trace that knows nothing of tensors", find_user_location())
    return capture.enter(tensor)
