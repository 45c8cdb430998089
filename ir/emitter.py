"""Ambient emitter: the destination of an op when its record is called.

Derivative rules and NumPy functions are written once, as calls of op records. The emitter in force decides what a call does: a
`GraphBuilder` appends to a graph, an `Evaluator` runs the op at once on NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from adjit.ir.errors import TraceError
from adjit.ir.graph import Attributes, Graph, Value
from adjit.ir.thread_context import thread

if TYPE_CHECKING:
    from adjit.ir.definition import OpDefinition


class Emitter(Protocol):
    def emit(self, definition: OpDefinition, operands: Sequence[Value], attrs: Attributes,
             regions: tuple[Graph, ...] = ()) -> tuple[Value, ...]:
        """Emit the op; returns its results."""


def current_emitter() -> Emitter:
    """Innermost emitter of this thread; raises `TraceError` if there is none."""
    emitters: list[Emitter] = thread.context.emitters
    if not emitters:
        raise TraceError("an op was called outside of a trace")
    return emitters[-1]


def emitters() -> list[Emitter]:
    """Emitters of this thread, outermost first."""
    return thread.context.emitters


@contextmanager
def emitting(emitter: Emitter) -> Iterator[Emitter]:
    """Make `emitter` the current one within the block."""
    emitters = thread.context.emitters
    depth = len(emitters)
    try:        # entered before the change: Ctrl-C may come between any two lines
        emitters.append(emitter)
        yield emitter
    finally:
        del emitters[depth:]
