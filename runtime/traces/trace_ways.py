"""Ways through a function: it is traced again, as long as the ways that were recorded meet as branches, or come back as loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from adjit.ir.errors import TraceError
from adjit.ir.ops.guard import Outcome
from adjit.runtime.capture.tensor_program import Captured, trace_with_tensors
from adjit.runtime.traces.kept_values import check_kept, take_back
from adjit.tracer.flow.flow_graph import SHARED, EndOfExploration, FlowGraph, FlowMismatch, TraceAgain
from adjit.tracer.flow.lifted_numbers import ARGUMENT, STATE, NotLiftable
from adjit.tracer.flow.printed_texts import READ
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.snapshot import Snapshot
from adjit.tracer.signature import CallSignature, function_name
from adjit.tracer.trace import KnownArrays, Trace, trace_roots

MIN_EXPLORED = 2
"""Decisions of other iterations from which on a trace that explores them is worth its time."""

MAX_EXPLORATIONS = 4
"""Traces for one program that explore: of an `if` within an `if`, each goes one more way, in all iterations."""

MAX_LIFTS = 4
"""Traces for one program in which variables become part of the state."""

MAX_FORWARDED = 3
"""Traces for one program in which Python is led past rounds of loops."""

MAX_BRANCHES = 1000
"""Decisions of a function none of which comes back to another, above which its ways stay ways. A sum over 500 paths that end early has
1,800: as branches of one program they take 28 s to trace, explore and compile, and the next call goes another way; a way takes 7 s."""

MAX_TRACES = 4
"""Traces for one program: each has the branches and loops of the one before."""


def trace_ways(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], static_names: frozenset[str],
               signature: CallSignature, arrays: KnownArrays, outcomes: Sequence[Outcome],
               flow: FlowGraph | None, start: Snapshot) -> tuple[Trace, Captured | None, FlowGraph | None]:
    """Trace `fun`, and return the last trace, with the ways that are known; None for these if guards alone are right. `start` is what each
    trace begins with."""
    make = partial(trace_with_tensors, fun, args, kwargs, static_names, signature)

    def check(trace: Trace) -> Trace:
        return check_kept(trace, function_name(fun),
                          lambda before: make(replace(arrays, written=before.written, no_call=True), outcomes),
                          lambda: Snapshot(Reachability(trace_roots(fun, signature)).found))

    return _Ways(partial(make, arrays), flow, outcomes, check, start).trace()


class _Ways:
    """The ways that are known, and how many traces of each kind are left. `make(outcomes, flow)` makes a trace, and `check` is
    `check_kept`. `start` is what the function reached before the first trace."""

    def __init__(self, make: Callable[..., tuple[Trace, Captured | None]], flow: FlowGraph | None, outcomes: Sequence[Outcome],
                 check: Callable[[Trace], Trace], start: Snapshot):
        self.make, self.flow, self.outcomes, self.check, self.start = make, flow, outcomes, check, start
        self.left, self.lifts, self.forwards, self.explorations = MAX_TRACES, MAX_LIFTS, MAX_FORWARDED, MAX_EXPLORATIONS
        self.repeated = False       # whether the last trace should have shown all

    def trace(self) -> tuple[Trace, Captured | None, FlowGraph | None]:
        while self.left:
            self.left -= 1
            flow = self.flow
            known = flow is not None and bool(flow.blocks)
            points = 0 if flow is None else flow.begin()
            if flow is not None:
                flow.has_ways, flow.lifts_early = known, self.lifts > 0 and not flow.changes_state
            try:
                trace, captured = self.make(() if known else self.outcomes, flow)
            except (Exception, FlowMismatch, NotLiftable, TraceAgain) as error:
                if not self.recovers(error, known):
                    raise
                self.start.restore()    # also what the function had stored before it raised an exception of its own
                continue
            if flow is not None and flow.forwarded:
                self.forward(flow, captured)
                continue
            trace = self.checked(trace, captured)
            if flow is None or captured is not None or not self.goes_on(flow, points):
                break
            trace.restore()
            self.start.restore()        # the next trace begins with what this one began with
        return trace, captured, self.flow

    def recovers(self, error: BaseException, known: bool) -> bool:
        """True if another trace may do without what the error came of; `known`: the trace followed ways that were recorded."""
        flow = self.flow
        if isinstance(error, TraceAgain):
            assert flow is not None
            self.again(flow)
        elif flow is not None and flow.guided:      # values do not go with the decisions on a way that the call does not go
            flow.guides = False
            self.left += 1
        elif isinstance(error, NotLiftable):
            if any(source[0] in (ARGUMENT, READ) for source in error.sources):
                return False
            if flow is None or any(source[0] == STATE for source in error.sources):
                raise TraceError("Python needs a number that is state") from None       # which is no input then
            self.unlift(flow, error.sources).guides = True      # an error on the way was of the variable
        elif flow is not None and flow.lifted:
            self.unlift(flow, flow.lifted_contents() or None)
        elif flow is not None and flow.unshared_types:
            self.unlift(flow, {SHARED})
        elif known or isinstance(error, FlowMismatch):
            self.flow = None        # something decides that the points do not show: guards alone are right in any case
        else:
            return False
        return True

    def again(self, flow: FlowGraph) -> None:
        """Trace again, with more variables as part of the state if there are any."""
        self.left, self.lifts, self.repeated = self.left + 1, self.lifts - (not flow.changes_state and flow.lift_more()), False

    def unlift(self, flow: FlowGraph, sources: Any) -> FlowGraph:
        """Trace again, without variables of which Python needs the number: there is an end to them."""
        self.flow = flow.unlifted(sources)
        self.left += 1
        return self.flow

    def forward(self, flow: FlowGraph, captured: Captured | None) -> None:
        """Trace again after Python was led past rounds of a loop: this trace did not go the way of the call."""
        if captured is not None:
            captured.undo()
        self.forwards -= 1
        flow.guides = self.forwards > 0 and captured is None and (self.forwards == MAX_FORWARDED - 1 or flow.met_again)
        self.left, self.repeated = self.left + 1, not flow.guides

    def checked(self, trace: Trace, captured: Captured | None) -> Trace:
        """The trace, if calls can do again what it keeps in state that it reads; raises `TraceError` otherwise."""
        refused = next((each.refusal for each in trace.kept if each.refusal is not None), None)
        if captured is not None and refused is not None:
            take_back(trace)
            raise refused()
        if captured is None and not all(each.is_next for each in trace.kept):
            trace = self.check(trace)
        trace.restore()     # the program stores it again
        return trace

    def goes_on(self, flow: FlowGraph, points: int) -> bool:
        """True if another trace may have more of the ways as branches and loops; `points` is the number of points before this trace."""
        if self.lifts and not flow.changes_state and flow.lift_more():
            self.left, self.lifts, self.forwards, self.repeated = self.left + 1, self.lifts - 1, MAX_FORWARDED, False
            return True
        if flow.changes_state:
            self.flow = None
            return bool(flow.structured)
        is_unmet = self.repeated and not flow.structured and len(flow.types) > points     # each run makes a class of its own
        self.repeated = True
        if is_unmet or (len(flow.blocks) > MAX_BRANCHES and not flow.structured and not flow.has_cycles()):
            self.flow = None
            return False
        if not flow.unstructured:       # more ways of what does not meet as branches do help none
            self.explorations -= _explore(flow, self.explorations, partial(self.make, (), flow))
        if flow.again:
            self.again(flow)
            return True
        return bool(flow.learned())


def _explore(flow: FlowGraph, most: int, trace: Callable[[], object]) -> int:
    """Trace the ways that this call does not go, but that it goes in other iterations of the same loops: `if x[i] > 0` in a loop over i is
    known after one call. What is recorded on the way becomes no program. Returns the number of traces, at most `most`."""
    worth = flow.worth_exploring()
    for count in range(most):
        if worth < MIN_EXPLORED:
            return count
        try:
            with flow.exploration():
                trace()
        except (Exception, FlowMismatch, NotLiftable, EndOfExploration, TraceAgain):
            return count + 1    # values do not go with the decisions: any error may come of it
        before, worth = worth, flow.worth_exploring()
        if worth > (0.75 * before if count else before):        # the first one finds decisions within decisions
            return count + 1
    return most
