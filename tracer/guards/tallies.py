"""Numbers outside that a function only adds to, and does not read: counters, running totals.

    self.calls += 1; stats["rounds"] += n; total += loss        # each call of a program does so again

For the time of the trace a `Tally` is bound in the place: a number that notes what is computed with it. Each call computes the same with
the number that is there then, so it needs no guard.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.tracer.array import TracedArray
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.guards.code_reads import CodeReads
from adjit.tracer.guards.container_log import first_number, log_hooks
from adjit.tracer.guards.source import MISSING, Source

if TYPE_CHECKING:
    from adjit.tracer.guards.templates import Template, TemplateMaker

Step = tuple[Callable[[Any, Any], Any], Any]


class Tally:
    """Number, text or tuple that stands for `number` in its place, which is the same for all that comes of it; `steps` are the
    operations on it since, with their second operands."""

    number: Any
    place: object
    steps: tuple[Step, ...]


class _IntegerTally(Tally, int):
    """An integer."""


class _FloatTally(Tally, float):
    """A float, or a number to which a traced one was added: what it is then, nobody asks."""


class _ComplexTally(Tally, complex):
    """A complex number."""


class _TextTally(Tally, str):
    """A text."""


class _TupleTally(Tally, tuple):    # type: ignore[type-arg]
    """A tuple."""


_CLASSES: tuple[tuple[Any, type], ...] = (((int, np.integer), _IntegerTally), (float, _FloatTally), (np.floating, _FloatTally), (
    (complex, np.complexfloating), _ComplexTally), (str, _TextTally), (tuple, _TupleTally))


def tally(number: Any, place: object, steps: tuple[Step, ...] = ()) -> Any:
    """Make a tally of a number."""
    kind: Any = next((tallied for kinds, tallied in _CLASSES if issubclass(type(number), kinds)), None)
    made = _FloatTally(0.0) if kind is None else kind(number)
    made.number, made.place, made.steps = number, place, steps
    return made


def is_tally(number: Any) -> bool:
    return issubclass(type(number), Tally)


def is_counted(number: Any) -> bool:
    """True for what a tally can stand for."""
    return type(number) in (bool, int, float, complex, str, tuple) or issubclass(type(number), np.number)


def _step(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if is_tally(other):
            return NotImplemented
        unknown = self.number is None or isinstance(other, TracedArray) or is_ndarray(other)
        value = None if unknown else compute(self.number, other)
        return tally(value, self.place, (*self.steps, (compute, other)))
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"):
    setattr(Tally, f"__{_name.rstrip('_')}__", _step(getattr(operator, _name)))


def counted_again(source: Source, number: Any, make: TemplateMaker) -> Template:
    """Template of the number in a place behind a call: what the trace did with a tally, done with what is there. Raises
    `NotRepeatableError` if a call cannot make one of the operands."""
    steps = [(compute, make(operand)) for compute, operand in number.steps]

    def template(results: Sequence[Any], made: dict[int, Any]) -> Any:
        value = source.read()
        if value is MISSING:
            value = first_number(source.holder)
        for compute, operand in steps:
            value = compute(value, operand(results, made))
        return value
    return template


log_hooks.tally, log_hooks.is_tally, log_hooks.is_counted = tally, is_tally, is_counted


def counting_containers(sources: Collection[Source], containers: Iterable[Any], reads: CodeReads) -> set[int]:
    """Identities of the containers whose items are only changed, by whatever path the code reaches them; of those without a source, which
    modules hold, nobody knows."""
    wanted = {id(container) for container in containers if isinstance(container, (dict, list))} & {id(source.value) for source in sources}
    read = set[int]()
    for source in sources:
        if id(source.value) in wanted and reads.of(f"{source.path}[0]"):
            read.add(id(source.value))
    return wanted - read
