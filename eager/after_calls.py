"""Calls that a compiled function leaves to Python: `scheduler.step()` within it is made at the end of each call of its program, which reads
the numbers that it sets at the next call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

from adjit.eager.capture import Capture, current_capture, is_number, made_in_trace
from adjit.eager.tensor import Tensor
from adjit.ir.errors import Location, TraceError
from adjit.tracer.pending_number import PendingNumber
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location


class CallAfter(NamedTuple):
    """Call that each call of a program makes when all else is done."""

    owner: weakref.ref[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: Location | None
    marks: list[tuple[dict[str, Any], str, Any]]       # entries that hold marks behind it, with what they held
    what: str = "a schedule steps"

    def __call__(self, given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        """Make the call with the arguments of a call of the program."""
        owner = self.owner()
        if owner is not None:
            self.function(owner, *given[0], **given[1])

    def without_values(self) -> CallAfter:
        """The call without values of the trace."""
        return self._replace(args=(), kwargs={}, marks=[])

    def unmark(self) -> str | None:
        """Give entries what they held, but for those that the function has set behind the call; the first of these."""
        left: str | None = None
        for table, key, value in self.marks:
            if isinstance(table.get(key), PendingNumber):
                table[key] = value
            else:
                left = left or key
        return left


def left_to_calls(method: Callable[..., Any]) -> Callable[..., Any]:
    """Have each call of a program make the call of a method that sets numbers of `self.optimizer` and of `self`."""
    @wraps(method)
    def leave(self: Any, *args: Any, **kwargs: Any) -> Any:
        capture = current_capture()
        if capture is None or made_in_trace(self.optimizer):
            return method(self, *args, **kwargs)
        _check(self, method)
        args, kwargs = tuple(map(_detached, args)), {name: _detached(value) for name, value in kwargs.items()}
        capture.calls_after.append(CallAfter(weakref.ref(self), method, args, kwargs, find_user_location(), list(_mark(self, method))))
        return None
    return leave


def _check(schedule: Any, method: Callable[..., Any]) -> None:
    scope, what = active_scope(), f"{type(schedule).__name__}.{method.__name__}()"
    if not hasattr(schedule, "_last_lr") or getattr(schedule, "_is_initial", False) is True:
        raise TraceError(f"the compiled function makes a {type(schedule).__name__} for an optimiser from outside", find_user_location(),
                         hint="make the schedule outside of the function")
    if scope is not None and scope is not scope.root:
        raise TraceError(f"{what} is called in a loop, a branch or a derivative of a compiled function, which runs without Python",
                         find_user_location(), hint="call it behind that, in the compiled function or outside of it")
    if any(isinstance(value, Tensor) for group in schedule.optimizer.param_groups for name, value in group.items() if name != "params"):
        raise TraceError(f"{what} in a compiled function sets a learning rate that is a tensor", find_user_location(),
                         hint="make the learning rate a float, or call it outside of the function")


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _mark(schedule: Any, method: Callable[..., Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Put marks in place of the numbers of an optimiser's groups, and of what a schedule and the ones within it hold."""
    call = f"{type(schedule).__name__}.{method.__name__}()"
    tables: list[tuple[dict[str, Any], list[str]]] = [
        (group, [key for key, value in group.items() if _holds_number(value)]) for group in schedule.optimizer.param_groups]
    parts = [schedule]
    for part in parts:
        parts += vars(part).get("_schedulers", ())
        tables.append((vars(part), [key for key in vars(part) if key not in ("optimizer", "_schedulers")]))
    for table, keys in tables:
        for key in keys:
            if not isinstance(table[key], PendingNumber):       # as behind an earlier call
                value, table[key] = table[key], PendingNumber(call, "get_last_lr()" if key == "_last_lr" else key)
                yield table, key, value


def _holds_number(value: Any) -> bool:
    return is_number(value) or (type(value) is tuple and any(map(is_number, value)))


@contextmanager
def marks_taken_back(capture: Capture) -> Iterator[None]:
    """Take the marks of calls back at the end of the block, which is the function that is traced. Raises `TraceError` if it has set a
    number behind a call that sets it."""
    try:
        yield
    finally:
        left = [(call, key) for call in capture.calls_after if (key := call.unmark()) is not None]
    for call, key in left:
        raise TraceError(f"the compiled function sets {key!r} behind {call.function.__qualname__}(), which sets it when the program "
                         "is done", call.location, hint="set it before the call, or make one of the two outside of the function")
