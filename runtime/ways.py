"""Limits of the ways through a function's decisions on values: how many programs they may become."""

from __future__ import annotations

import weakref
from collections import Counter, deque
from collections.abc import Sequence

from adjit.ir.errors import Location
from adjit.ir.graph import walk
from adjit.ir.ops.guard import Outcome
from adjit.runtime import settings
from adjit.runtime.compile_graph import DeferredPipeline
from adjit.runtime.program import Program
from adjit.tracer.user_location import warn_user

MAX_NUMBERS = 3
"""Values of a float that Python asked for, at one place, that become programs: nearly every call has another one."""

LARGE_OPS = 500
"""Ops of a program, with those of its loops and branches, that take a second to compile: a call that is traced and interpreted takes a
tenth of that (Monte-Carlo paths whose payoffs are appended to a list: 2.0 and 0.6 s; with their gradient 8 and 0.9 s)."""
FEW_LARGE = 3
"""Such programs, one behind the other, that no other call could use, until further ones are no program."""
CALLS_FOR_ONE = 8
"""Calls without a program in place of which one might have been compiled: so many then make one."""


class WayLimits:
    """Ways of one function: how many were traced, and whether another one is worth a program."""

    def __init__(self) -> None:
        self.traces = 0
        self._hits = 0          # of the function's cache, when the last way was traced
        self._warned = False
        self._large = deque[weakref.ref[Program]](maxlen=FEW_LARGE)     # the last programs, if they are large
        self._waiting = 0       # calls since then that became none

    def traced(self, program: Program, outcomes: Sequence[Outcome]) -> None:
        """Count a trace, which is for a call that missed a guard if there are outcomes."""
        self.traces += bool(outcomes)
        self._waiting = 0
        if isinstance(program.pipeline, DeferredPipeline) or sum(1 for _ in walk(program.planned)) < LARGE_OPS:     # found on disk: quick
            self._large.clear()
        else:
            self._large.append(weakref.ref(program))

    def _is_used_once(self) -> bool:
        """True if the last programs were large, and each served the call that it was traced for alone."""
        programs = [program for reference in self._large if (program := reference()) is not None]
        return len(programs) == FEW_LARGE and all(program.calls <= 1 for program in programs)

    def may_grow(self, name: str, ways: Sequence[Program], outcomes: Sequence[Outcome], hits: int) -> bool:
        """True if the way of a call of function `name`, whose first guards have these `outcomes`, becomes a program; else it is run step by
        step, of which the user is warned once where there is a name.

        A new way takes the place of the one that was used longest ago, if as many calls as there are ways found a program since the last
        one was traced.
        """
        number = len(outcomes) - 1
        known = [way for way in ways if way.begins_with(outcomes[:-1]) and len(way.outcomes) > number]
        missed = known[0].trace.value_guards[number] if known else None
        if missed is not None and missed.kind == "float" and len({repr(way.outcomes[number]) for way in known}) >= MAX_NUMBERS:
            self._warn(name, "Python asks for a number here, which is another one in each call", missed.location,
                       "leave float() and .item() out, and return the array; or compute with it by NumPy's functions")
            return False
        if len(ways) >= settings.WAYS.get() and hits - self._hits < settings.WAYS.get():
            location, count = _splits_most(ways)
            self._warn(name, f"it went {len(ways)} ways, of which {count} part here", location,
                       "write it with np.where, aj.cond or aj.while_loop; or set ADJIT_WAYS, if there are a few more")
            return False
        if self._is_used_once() and self._waiting < CALLS_FOR_ONE:
            self._waiting += 1
            location = missed.location if missed is not None else None
            self._warn(name, "large programs for the ways of calls before were used for one call each, and part here", location,
                       "write to arrays of a known size in place of lists that grow with the values (np.where(alive, payoff, 0.0)), "
                       "or use aj.cond or aj.while_loop")
            return False
        self._hits = hits
        return True

    def _warn(self, name: str, why: str, location: Location | None, remedy: str) -> None:
        if name and not self._warned:
            self._warned = True
            place = "" if location is None else f"\n    at {location.describe()}"
            warn_user(f"calls of {name} that decide otherwise on values than calls before run step by step from now on, without "
                      f"compiled code: {why}{place}\n    {remedy}")


def _splits_most(ways: Sequence[Program]) -> tuple[Location | None, int]:
    """The line at which most ways part from others, and how many do."""
    parting: Counter[Location | None] = Counter()
    for way in ways:
        for number, guard in enumerate(way.trace.value_guards):
            before = way.outcomes[:number]
            if any(other is not way and other.begins_with(before) and not other.begins_with(way.outcomes[:number + 1])
                   and len(other.outcomes) > number for other in ways):
                parting[guard.location] += 1
                break
    return parting.most_common(1)[0] if parting else (None, 0)
