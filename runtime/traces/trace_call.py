"""Trace of a call: made again where it shows that it should have started otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjit.ir.errors import Refusal, TraceError
from adjit.ir.ops.guard import Outcome
from adjit.runtime.caches.transform_cache import keeps_its_own, kept
from adjit.runtime.capture.tensor_program import Captured
from adjit.runtime.traces.trace_ways import trace_ways
from adjit.runtime.written_arrays import find_same
from adjit.tracer.flow.flow_graph import FlowGraph
from adjit.tracer.flow.lifted_numbers import NotLiftable
from adjit.tracer.flow.printed_texts import PRINTS, READ, RULES
from adjit.tracer.guards.printing import printing_once
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.snapshot import Snapshot, Written
from adjit.tracer.guards.source import Source
from adjit.tracer.guards.state_numbers import is_number
from adjit.tracer.signature import CallSignature
from adjit.tracer.trace import KnownArrays, Pairs, Trace, trace_roots

ANYWHERE = "anywhere"
"""Place of numbers of tensors which says that Python needs them, without that it is known where."""


def trace_call(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], static_names: frozenset[str],
               signature: CallSignature, outcomes: Sequence[Outcome],
               flow: FlowGraph | None, no_call: bool = False) -> tuple[Trace, Captured | None, FlowGraph | None]:
    """Trace `fun`; again, if the first trace shows that it writes to an array that is passed twice, or that was read in another way before.
    With `no_call`, the arguments are none of a call: what the function stores or writes before an exception is taken back, and Python
    writes to no array from outside.
    """
    with printing_once(fun):
        return _trace_call(fun, args, kwargs, static_names, signature, outcomes, flow, no_call)


def _trace_call(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], static_names: frozenset[str],
                signature: CallSignature, outcomes: Sequence[Outcome],
                flow: FlowGraph | None, no_call: bool) -> tuple[Trace, Captured | None, FlowGraph | None]:
    same: Pairs = ()
    early: tuple[np.ndarray, ...] = ()
    wanted: tuple[np.ndarray, ...] | None = ()
    plain_writes = False
    owner = getattr(fun, "__func__", fun)       # holds what is kept; other callables would be held
    state: set[str] | None = set()              # paths of numbers; None if Python needs them
    needed: set[Any] = set()                    # places where Python needs numbers of tensors
    if keeps_its_own(owner):
        state, needed = kept(owner, "numbers of state", set), kept(owner, "numbers that Python needs", set)
    may_read = ANYWHERE not in needed
    while True:
        snapshot = Snapshot(Reachability(trace_roots(fun, signature)).found)
        known = KnownArrays(same, (*early, *(wanted or ())), plain_writes, may_take=wanted is not None,
                            numbers=frozenset(state or ()), may_take_numbers=state is not None, needed=needed if may_read else None,
                            written=snapshot.written, prints=PRINTS in needed, rules=RULES in needed,
                            no_call=no_call)
        guarded = flow is not None
        try:
            trace, captured, flow = trace_ways(fun, args, kwargs, static_names, signature, known, outcomes, flow, snapshot)
        except NotLiftable as error:
            snapshot.restore()
            reads = {source for source in error.sources if source[0] == READ}
            if not reads:
                raise
            needed |= reads
            outcomes, flow = (), FlowGraph() if guarded else None
            continue
        except BaseException as error:
            again = state or (known.read and may_read) or signature.integers()      # perhaps, or without integers as inputs
            if no_call or again or isinstance(error, Refusal) or not isinstance(error, Exception):
                snapshot.restore()      # Python keeps what a function did before it raised an exception of its own
            if not isinstance(error, Exception):
                raise
            if known.read and may_read:         # perhaps because Python needs the numbers
                may_read, outcomes, flow = False, (), FlowGraph() if guarded else None
                continue
            if not state and not isinstance(error, TraceError):
                raise
            outcomes, flow = (), None       # the outcomes are of other guards
            if state:
                state = None
            elif wanted:
                wanted = None
            elif known.taken and not plain_writes and not no_call:
                plain_writes = True
            else:
                raise
            continue
        arguments = [param for param in trace.written_params() if param < len(signature.leaves)]
        same = find_same(signature.memory(), arguments, signature.traced_paths())
        if trace.wanted_numbers is None:        # what is bound in a place is not what the next call can read there
            state, outcomes, flow = None, (), None
            snapshot.restore_arrays()
            if captured is not None:
                captured.undo()
            continue
        if state is not None:       # also those that become numbers of another class, which the next call finds
            state |= trace.wanted_numbers | {each.source.path for each in trace.kept if is_number(each.before)}
        if same == trace.same and not trace.early and (wanted is None or not trace.wanted) and not trace.wanted_numbers:
            if not may_read:
                needed.add(ANYWHERE)
            if known.prints:
                needed.add(PRINTS)
            if snapshot.written:
                trace = _with_writes(trace, snapshot.written)
            return trace, captured, flow
        outcomes, flow = (), None       # they know the arrays and numbers as they were taken before
        trace.restore()
        snapshot.restore()
        early = (*early, *trace.early)
        if wanted is not None:
            wanted = (*wanted, *(array for array in trace.wanted if not any(array is other for other in early)))
        if captured is not None:
            captured.undo()


def _with_writes(trace: Trace, written: Written) -> Trace:
    """The trace, with the arrays to which Python wrote; it holds for no other call if it changed one, which the program does not."""
    if any(np.ndarray.view(array, np.ndarray).tobytes() != content.tobytes() for array, content in written.values()):
        never = Source("what an array holds that Python writes to", object, object(), None, False)
        trace = replace(trace, guards=replace(trace.guards, fixed=(*trace.guards.fixed, never)))
    return replace(trace, by_python=written)
