"""Events: times at which functions of time and state are zero."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import TraceError
from adjit.ode.interpolation import between
from adjit.ode.methods import Step
from adjit.runtime.control_flow import while_loop
from adjit.runtime.transforms import jvp, stop_gradient
from adjit.tracer.array import as_traced
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]
State = dict[str, Any]

EVENTS = 16
"""Times of an event that does not end the integration, unless the user says how many."""


@dataclasses.dataclass(frozen=True)
class Found:
    """Events within a step: whether a terminal one ends it, time and state there, and the records with the events of the step."""

    ends: Any
    t: Any
    y: Any
    records: State


class Events:
    """Functions, and their attributes `terminal` and `direction`, as SciPy has them: `terminal` is how often the event occurs until it ends
    the integration, 0 for one that does not."""

    def __init__(self, functions: Sequence[Function], most: int) -> None:
        self.functions = tuple(functions)
        self.most = most
        self.terminal = tuple(int(getattr(event, "terminal", None) or 0) for event in self.functions)
        self.direction = tuple(float(getattr(event, "direction", 0)) for event in self.functions)
        self.key = self.functions, most, self.terminal, self.direction

    @classmethod
    def of(cls, events: Any, most: int | None) -> Events:
        functions = () if events is None else (events,) if callable(events) else tuple(events)
        if not all(map(callable, functions)):
            raise TraceError("solve_ivp: events are functions of (t, y), or a list of them", find_user_location())
        for terminal in (getattr(event, "terminal", None) for event in functions):
            if terminal is not None and (not isinstance(terminal, (bool, int, np.bool_, np.integer)) or terminal < 0):
                raise TraceError(f"solve_ivp: terminal is {terminal!r}", find_user_location(),
                                 hint="True, False, or how often the event occurs until it ends the integration")
        made = cls(functions, most or EVENTS)
        if most is None and all(made.terminal):
            made = cls(functions, max(made.terminal, default=1))
        return made

    def bound(self, functions: Sequence[Function]) -> BoundEvents:
        return BoundEvents(self, functions)


class BoundEvents:
    """Events as functions of time and a vector, within a loop over steps."""

    def __init__(self, events: Events, functions: Sequence[Function]) -> None:
        self.events, self.functions = events, functions

    def start(self, t: Any, y: Any) -> State:
        if not self.functions:
            return {}
        number, most = len(self.functions), self.events.most
        return {"g": self._values(t, y), "counts": np.zeros(number, np.int64), "t_events": np.full((number, most), np.nan),
                "y_events": np.full((number, most, y.shape[0]), np.nan, y.dtype)}

    def _values(self, t: Any, y: Any) -> Any:
        return np.stack([np.reshape(as_traced(g(t, y)), ()).astype(np.float64) for g in self.functions])

    def within(self, t: Any, y: Any, h: Any, step: Step, end: Any, good: Any, forward: Any, s: State) -> Found:
        if not self.functions:
            return Found(np.asarray(False), end, step.y, {})
        before, after = s["g"], self._values(end, step.y)
        rises, falls = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
        wanted = [rises[i] if d > 0 else falls[i] if d < 0 else rises[i] | falls[i] for i, d in enumerate(self.events.direction)]
        seen = [good & flag for flag in wanted]
        parts = [self._part(g, t, y, h, step, flag) for g, flag in zip(self.functions, seen, strict=True)]
        first: Any = np.asarray(np.inf)
        for i, (part, flag, terminal) in enumerate(zip(parts, seen, self.events.terminal, strict=True)):
            first = np.where(flag & (part < first) & (s["counts"][i] + 1 >= terminal), part, first) if terminal else first
        ends = np.isfinite(first)
        first = np.where(ends, first, 1.0)
        counts, t_events, y_events = s["counts"].copy(), s["t_events"].copy(), s["y_events"].copy()
        for i, (part, flag) in enumerate(zip(parts, seen, strict=True)):
            kept = flag & (part <= first)
            place = np.minimum(counts[i], self.events.most - 1)
            there = kept & (counts[i] < self.events.most)
            t_events[i, place] = np.where(there, t + part * h, t_events[i, place])
            y_events[i, place] = np.where(there, between(y, h, step.coefficients, part), y_events[i, place])
            counts[i] = counts[i] + np.where(kept, 1, 0)
        records = {"g": np.where(good, after, before), "counts": counts, "t_events": t_events, "y_events": y_events}
        return Found(ends, t + first * h, between(y, h, step.coefficients, first), records)

    def _part(self, g: Function, t: Any, y: Any, h: Any, step: Step, flag: Any) -> Any:
        """The part of the step at which an event is zero: bisection, then two steps of Newton's method, which have the derivatives."""
        def value(s: Any, t: Any, y: Any, h: Any, q: Any) -> Any:
            return np.reshape(as_traced(g(t + s * h, between(y, h, q, s))), ()).astype(np.float64)

        fixed = [stop_gradient(x) for x in (t, y, h, step.coefficients)]
        sign = np.sign(value(np.asarray(0.0), *fixed))

        def halve(state: tuple[Any, Any]) -> tuple[Any, Any]:
            low, high = state
            middle = 0.5 * (low + high)
            same = np.sign(value(middle, *fixed)) == sign
            return np.where(same, middle, low), np.where(same, high, middle)

        ends = while_loop(lambda state: flag & (state[1] - state[0] > 1e-9), halve, (np.asarray(0.0), np.asarray(1.0)))
        part = stop_gradient(0.5 * (ends[0] + ends[1]))
        for _ in range(2):
            left, slope = jvp(lambda s: value(s, t, y, h, step.coefficients), (part,), (np.asarray(1.0),))
            regular = flag & (slope != 0)
            part = part - np.where(regular, left, 0.0) / np.where(regular, slope, 1.0)
        return np.clip(part, 0.0, 1.0)

    def are_complete(self, last: State) -> Any:
        """True if no event occurred more often than there are places."""
        return np.all(last["counts"] <= self.events.most) if self.functions else np.asarray(True)

    def results(self, last: State, unravel: Function) -> tuple[Any, Any]:
        if not self.functions:
            return None, None
        number = len(self.functions)
        return [last["t_events"][i] for i in range(number)], [unravel(last["y_events"][i]) for i in range(number)]
