"""Where an op goes when its record is called: the ambient emitter.

Derivative rules and NumPy functions are written once, as calls of op records. What a call does is up to the
emitter in force: a `GraphBuilder` appends to a graph, an `Evaluator` runs the op at once on NumPy arrays.
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
        """Do the op; its results."""


def current_emitter() -> Emitter:
    """The innermost emitter of this thread; raises `TraceError` where there is none."""
    emitters: list[Emitter] = thread.context.emitters
    if not emitters:
        raise TraceError("an op was called outside of a trace")
    return emitters[-1]


def emitters() -> list[Emitter]:
    """The emitters of this thread, outermost first."""
    return thread.context.emitters


@contextmanager
def emitting(emitter: Emitter) -> Iterator[Emitter]:
    """Make `emitter` the current one within the block."""
    emitters = thread.context.emitters
    depth = len(emitters)
    try:        # from before the change on: Ctrl-C may come between any two lines
        emitters.append(emitter)
        yield emitter
    finally:
        del emitters[depth:]
