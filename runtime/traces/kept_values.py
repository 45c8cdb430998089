"""Values of a trace that the function keeps where it reads, too: whether the next call depends on them shows in a second trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from adjit.ir.errors import Refusal, TraceError
from adjit.ir.graph import graph_key
from adjit.runtime.capture.tensor_program import Captured
from adjit.tracer.array import WRITTEN, TracedArray, TracedNDArray
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_errors import EscapedArrayError
from adjit.tracer.guards.side_effects import KeptValue
from adjit.tracer.guards.snapshot import Snapshot
from adjit.tracer.guards.source import MISSING, rebind
from adjit.tracer.guards.stand_ins import ValueWasRead, class_guard, stand_in
from adjit.tracer.guards.stored_values import StoredValue
from adjit.tracer.guards.templates import CONSTANT, holds_traced
from adjit.tracer.trace import Trace
from adjit.tracer.user_location import find_user_location


def check_kept(trace: Trace, name: str, trace_again: Callable[[Snapshot], tuple[Trace, Captured | None]],
               take: Callable[[], Snapshot]) -> Trace:
    """Raise `TraceError` if the function reads in one call what it stored in the call before: traced once more, it meets a value of the
    trace before, which tells so, or its list gets longer again. If it is the same program then, it does not depend on what is there, but
    for its class: the trace returned has guards for that alone.

    What the function had stored is taken away then: a value of a trace is an error for whoever reads it. `trace_again` traces what is no
    call, after a snapshot: of that trace nothing is left, nor of an exception that it raises.
    """
    by_key = {each.source.key: each for each in trace.kept if not each.is_next}
    location, second = None, None
    for each in trace.kept:
        if each.is_next:
            each.restore()
    stood_in = False
    while True:
        snapshot = take()
        try:
            with np.errstate(all="ignore"):     # what stands in for a value of the call may be any
                second, _ = trace_again(snapshot)
            second.restore()
            snapshot.restore_arrays()
            again = [by_key[each.source.key] for each in second.kept if each.source.key in by_key and not each.is_next and (
                each.source.path.startswith("len(") or is_ndarray(each.before))]
        except EscapedArrayError as error:
            snapshot.restore()
            stand_ins = [] if stood_in else [_stand_in(each) for each in by_key.values()]
            if any(stand_ins):
                stood_in = True
                continue
            again = [each for each in by_key.values() if each.source.value is error.array] or list(by_key.values())
            location = error.location
        except Exception as error:
            snapshot.restore()
            if stood_in:
                return trace    # perhaps because of the content of what stands in
            if isinstance(error, Refusal):
                raise
            second, again = None, []        # the next call may raise it
        break
    if again:
        take_back(trace)
        location = again[0].location or location or find_user_location()
        value = WRITTEN[id(again[0].source.value)][1] if id(again[0].source.value) in WRITTEN else again[0].source.value
        if isinstance(value, TracedArray) and value.scope.parent is not None:
            raise TraceError(f"{name} keeps a value of a function that is differentiated, mapped or looped over in {again[0].source.path}, "
                             "and reads it in the next call: such values end with that function", location,
                             hint="return it from that function (has_aux=True of aj.grad, a result of aj.vmap, a carry of a loop), and "
                                  "store it outside of it")
        raise TraceError(
            f"{name} keeps a value in {again[0].source.path} and reads it in the next call: between calls a compiled function keeps "
            "arrays whose shape and dtype stay, and numbers, but nothing that grows and is read", location,
            hint="pass the value as an argument and return the new one; or make an array outside of the function and write to its elements "
                 "(state[:] = value)")
    try:
        if second is None or not _is_same(trace, second):
            refused = next((each.refusal for each in trace.kept if each.refusal is not None), None)
            if refused is not None:
                take_back(trace)
                raise refused()
            return trace
        numbers = {each.source.path for each in trace.kept if each.refusal is not None}
        missing = {each.source.key for each in trace.kept if each.before is MISSING}
        if not all(other.moved or each.path in numbers or each.parts == other.parts for each, other in _pairs(trace, second)) or any(
                source.key in missing for each in second.stored for source in each.moved):
            return trace        # what is stored depends on what was there
    except ValueWasRead:        # a stand-in is a result, or stored
        return trace
    free = {key: each for key, each in by_key.items() if each.alone}
    fixed = tuple(class_guard(source, free[source.key]) if source.key in free else source for source in trace.guards.fixed)
    return replace(trace, guards=replace(trace.guards, fixed=fixed), stored=tuple(
        other if other.moved else each for each, other in _pairs(trace, second)))


def _stand_in(kept: KeptValue) -> bool:
    """Bind an array or a number of NumPy's where the function stored one of the trace, and there was none of its type before (nothing,
    0.0): what the next call finds there. False if the function did not store one."""
    stored = kept.source.value
    array = WRITTEN[id(stored)][1] if id(stored) in WRITTEN else stored
    if not isinstance(array, TracedArray) or not (array.scalar or isinstance(array, TracedNDArray)) or not holds_traced(kept.source.read()):
        return False
    if array.scope.parent is not None or (kept.before is MISSING and isinstance(kept.source.holder, (list, deque))):
        return False        # no result; an item that was added
    return rebind(kept.source.read, stand_in(array.dtype, None if array.scalar else array.shape))


def _pairs(one: Trace, again: Trace) -> list[tuple[StoredValue, StoredValue]]:
    """What a trace stores, each with the value of another trace; itself for a number that this one does not store."""
    found, others = [], list(reversed(again.stored))
    for each in one.stored:
        found.append((each, others.pop() if others and others[-1].path == each.path else each))
    return found


def take_back(trace: Trace) -> None:
    """Give the places of kept values what they held before the trace."""
    trace.restore()
    for each in reversed(trace.kept):
        each.restore()


def _is_same(one: Trace, again: Trace) -> bool:
    """True if two traces of a function for one call do the same; in the second one a number that the first one stored may be there."""
    stored, numbers = [[each.path for each in trace.stored] for trace in (one, again)], {
        each.source.path for each in one.kept if each.refusal is not None}
    named = {index for index, _, _ in one.guards.captured}
    same_captures = len(one.captured) == len(again.captured) and all(
        first is second or (index not in named and first.dtype == second.dtype and first.tobytes() == second.tobytes())
        for index, (first, second) in enumerate(zip(one.captured, again.captured, strict=True)))
    expected = [path for path in stored[0] if path not in numbers or path in stored[1]]
    if stored[1] != expected or any(_made_of(each) != _made_of(other) for each, other in _pairs(one, again)):
        return False
    return one.out_tree == again.out_tree and one.out_leaves == again.out_leaves and same_captures and (
        graph_key(one.graph) == graph_key(again.graph))


def _made_of(stored: StoredValue) -> list[object]:
    """What a stored value is made of, whatever the constants are."""
    return [kind if kind is CONSTANT else (kind, number) for kind, number in stored.parts]
