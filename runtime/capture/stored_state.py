"""What a compiled function stores in modules and optimisers: attributes and entries of dicts, which each call of its program stores again.

    self.features = output; model.eval(); state["momentum"] = 0.9 * state["momentum"] + grad; state["step"] += 1

The trace takes the changes back. What is stored becomes further results of the function, and is bound by `Effects.finish`. A place whose
tensor the function reads is read at each call, so that a state may be another tensor each time; so is a number that it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.capture import Capture
from adjit.eager.tensor import Tensor
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Value
from adjit.ir.types import I64
from adjit.runtime.capture.state_guard import StateGuard
from adjit.tracer.array import ORDINARY, PLAIN, TracedArray
from adjit.tracer.flow.lifted_numbers import LiftedNumber
from adjit.tracer.flow.printed_texts import mark_of_text, number_for_percent
from adjit.tracer.pending_number import PendingNumber
from adjit.tracer.scope import active_scope, outward

MISSING: Any = object()
_NUMBERS = (int, float)
_LARGEST = 1 << 52
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


class Slot(NamedTuple):
    """Entry of a dict, or a part of what it holds: the indices in `path` lead there."""

    table: dict[Any, Any]
    key: Any
    path: tuple[Any, ...] = ()

    def find(self) -> Any:
        """What is there now; None if there is nothing."""
        value: Any = self.table.get(self.key)
        for index in self.path:
            try:
                value = value[index]
            except (TypeError, IndexError, KeyError):
                return None
        return value

    @property
    def place(self) -> tuple[int, Any]:
        """The entry, as guards name it."""
        return id(self.table), self.key


@dataclass(frozen=True, slots=True)
class StateNumber:
    """Python number of a module or an optimiser that the function changes: it is read at each call."""

    slot: Slot
    kind: type
    value: Value

    def read(self) -> int | float | None:
        """The number now; None for what the program cannot read."""
        now = self.slot.find()
        return now if type(now) is self.kind and -_LARGEST < now < _LARGEST else None      # type: ignore[operator, return-value]

    @property
    def name(self) -> str:
        """Name of the number."""
        return str(self.slot.key)


class ChangedNumbers(Exception):
    """Raised where a function changes Python numbers of modules and optimisers: it is traced anew, with these read at each call."""

    traces_again = True

    def __init__(self, slots: list[Slot]):
        super().__init__(slots)
        self.slots = slots


def take_stores(before: StateGuard, capture: Capture, filled_later: Collection[int],
                numbers: Collection[Slot]) -> Iterator[tuple[Slot, Any]]:
    """Take back what a function stored, and return the places with what it stored there. What cannot be stored again is left.

    Dicts with identities in `filled_later` may keep tensors that are memory already, such as the states of our own optimisers. Raises
    `ChangedNumbers` for numbers that it changes, unless they are among `numbers`.
    """
    found: list[tuple[Slot, Any, Any]] = []
    changed: list[Slot] = []
    known = {slot.place for slot in numbers}
    for table, then in before.tables():
        for key, value in list(table.items()):
            old = then.get(_key(key), MISSING)
            if value is old or _is_same(value, old):
                continue
            if (id(table) in filled_later and not _is_new(value, capture)) or not _can_be_stored(value, capture):
                continue
            slot = Slot(table, key)
            kind = value.kind if isinstance(value, LiftedNumber) else type(value)
            if kind in _NUMBERS and type(old) is kind and slot.place not in known:
                changed.append(slot)
            found.append((slot, value, old))
    if changed:
        raise ChangedNumbers(changed)
    for slot, value, old in found:
        if old is MISSING:
            del slot.table[slot.key]
        else:
            slot.table[slot.key] = old
        yield slot, value


def _key(key: Any) -> Any:
    return id(key) if isinstance(key, Tensor) else key


def _is_same(value: Any, old: Any) -> bool:
    return type(value) is type(old) and isinstance(value, _PLAIN) and value == old


def _is_new(value: Any, capture: Capture) -> bool:
    """True for what was made in the trace, or holds it, and for numbers."""
    if isinstance(value, (dict, list, tuple)):
        return any(_is_new(item, capture) for item in (value.values() if isinstance(value, dict) else value))
    if isinstance(value, Tensor):
        return id(value) not in capture.entries and isinstance(value.array, TracedArray)
    return isinstance(value, (*_NUMBERS, TracedArray))


def _can_be_stored(value: Any, capture: Capture) -> bool:
    if isinstance(value, PendingNumber):
        value.refuse()
    if type(value) in (dict, list, tuple):
        return all(_can_be_stored(item, capture) for item in (value.values() if isinstance(value, dict) else value))
    if isinstance(value, Tensor):
        return type(value) is Tensor or not _is_new(value, capture)     # a parameter that it makes is one of its own only
    return isinstance(value, (TracedArray, *_PLAIN))


def tensors_in(value: Any, slot: Slot) -> Iterator[tuple[Slot, Tensor]]:
    """The tensors that a place holds, with the place of each."""
    if isinstance(value, Tensor):
        yield slot, value
    elif type(value) in (list, tuple, dict):
        for index, item in value.items() if type(value) is dict else enumerate(value):
            yield from tensors_in(item, slot._replace(path=(*slot.path, index)))


class _NumberInTrace(TracedArray):
    """Number that stands for one of the state in a trace, or was computed from such numbers and Python's: in the scope of the trace, so
    that a function of which derivatives are taken, or that `vmap` traces for one example, may store it. `changes`: how often that was.
    """

    __slots__ = ("changes",)
    changes: int

    @property
    def is_of_call(self) -> bool:
        """True: the number is another one in each call."""
        return True

    def mark_to_print(self, form: str | None) -> str | None:
        return mark_of_text(self, form)

    def shown(self, printed: bool, kind: str) -> None:
        """Nothing else than the number of the call."""

    def __int__(self) -> int:
        shown = number_for_percent(self)
        return super().__int__() if shown is None else shown

    def __float__(self) -> float:
        shown = number_for_percent(self)
        return super().__float__() if shown is None else float(shown)


def _computed(name: str) -> Callable[[Any, Any], Any]:
    def method(self: _NumberInTrace, other: Any) -> Any:
        compute: Callable[[Any, Any], Any] = getattr(TracedArray, name)
        if type(other) not in _NUMBERS and not isinstance(other, _NumberInTrace):
            return compute(self, other)
        with outward(self.scope):
            return number_in_trace(compute(self, other).value, self.changes + 1)
    return method


for _name in ("add", "sub", "mul", "truediv"):
    for _prefix in ("", "r", "i"):
        setattr(_NumberInTrace, f"__{_prefix}{_name}__", _computed(f"__{_prefix}{_name}__"))


class _IntInTrace(_NumberInTrace):
    __slots__ = ()
    __class__ = int     # type: ignore[assignment]


class _FloatInTrace(_NumberInTrace):
    __slots__ = ()
    __class__ = float       # type: ignore[assignment]


ORDINARY.update((_IntInTrace, _FloatInTrace))
PLAIN.update((_IntInTrace, _FloatInTrace))


def number_in_trace(value: Value, changes: int = 0) -> TracedArray:
    """The number that stands for one of the state in a trace: it promotes as Python's numbers do."""
    scope = active_scope()
    assert scope is not None
    made = (_IntInTrace if value.type.dtype == I64 else _FloatInTrace)(value, scope, weak=True)
    made.changes = changes
    return made


def changes_of(numbers: Iterable[StateNumber]) -> dict[str, int]:
    """How often the function has changed numbers of the state so far, by their names."""
    found = Counter[str]()
    for number in numbers:
        now = number.slot.table.get(number.slot.key)
        found[number.name] += now.changes if isinstance(now, _NumberInTrace) else 0
    return found
