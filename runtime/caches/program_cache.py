"""Cache of the programs of one compiled function, by signature. The least recently used are evicted first; a program ends with the objects
in its key."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjit.codegen.process.fork_safety import renewed_after_fork
from adjit.ir.ops.guard import Outcome
from adjit.runtime import settings
from adjit.runtime.fastcall.descriptors import FunctionDescriptor
from adjit.runtime.program import Program
from adjit.runtime.ways import WayLimits
from adjit.tracer.signature import CallSignature, describe_difference

Found = tuple[Program, tuple[np.ndarray, ...]]
"""A program, and the current arrays for its captured parameters."""

VARIANTS = 4
"""Programs cached per signature: state that the function reads may switch back and forth, for example with `train()` and `eval()`."""


class CacheInfo(NamedTuple):
    """Number of calls that found their program, of traces, of programs cached now, and the limit on cached programs."""

    hits: int
    traces: int
    size: int
    limit: int


class ProgramCache:
    """Programs by the key of their signature; thread-safe.

    `record` is the fast path's descriptor of the function, which calls `slow(self, *args, **kwargs)` if no program matches.
    """

    def __init__(self, limit: int, slow: Callable[..., Any]):
        self.limit = limit
        self.traces = 0
        self.limits = WayLimits()
        self.record = FunctionDescriptor(slow)
        self._hits = 0
        self._last: Program | None = None
        self._programs: dict[Any, tuple[Program, ...]] = {}       # per signature, the program used last is the first
        self._ended: deque[tuple[Any, Program]] = deque()       # programs whose module or optimiser is gone, not yet removed
        self._lock = renewed_after_fork(self, "_lock", threading.Lock)       # held briefly

    @property
    def last(self) -> Program | None:
        """The program that was called last, in Python or by the fast path."""
        record = self.record.last
        return self._last if record is None else record.program()       # type: ignore[return-value]

    @last.setter
    def last(self, program: Program | None) -> None:
        self._last = program
        self.record.called_in_python()

    def info(self) -> CacheInfo:
        """The current counts."""
        with self._lock:
            return CacheInfo(self._hits + self.record.hits, self.traces, sum(map(len, self._programs.values())), self.limit)

    def programs(self) -> list[Program]:
        """All programs, in the order of their traces."""
        with self._lock:
            return sorted((program for programs in self._programs.values() for program in programs), key=lambda program: program.number)

    def clear(self) -> None:
        """Remove all programs, and reset the counts."""
        with self._lock:
            self._programs.clear()
            self.record.clear()
            self._hits = self.traces = 0
            self.last = None

    def find(self, signature: CallSignature, count: bool = False, outcomes: Sequence[Outcome] = (),
             tried: Sequence[Program] = ()) -> Found | None:
        """A valid program for a signature, `count`ed as a hit; None if there is none. Its first guards on values have these `outcomes`, and
        it is none of those that were `tried`."""
        programs = self._programs.get(signature.key)
        if programs is None:
            return None
        for program in programs:
            if outcomes and (program in tried or not (
                    program.may_be_the_way(tried[-1], outcomes) if tried else program.begins_with(outcomes))):
                continue
            captured = program.current(signature)
            if captured is not None:
                break
        else:
            return None
        with self._lock:
            self._hits += count
            if program is not self.last and signature.key in self._programs:
                program.used = self.record.tick()
                if program is not programs[0]:
                    self._programs[signature.key] = (program, *(other for other in programs if other is not program))
            self.last = program
        return program, captured

    def ways(self, signature: CallSignature) -> list[Program]:
        """The programs for a call of this signature in the present state of what the function reads, the one used last first. They differ
        in their decisions on values."""
        return [program for program in self._programs.get(signature.key, ()) if program.current(signature) is not None]

    def reason(self, signature: CallSignature, outcomes: Sequence[Outcome] = (), tried: Sequence[Program] = ()) -> str:
        """The reason why this signature must be traced; `outcomes` are those of the guards up to the one that missed, in the last program
        that was `tried`."""
        with self._lock:
            same, last = self._programs.get(signature.key), self.last
        if same is not None and outcomes:
            number = len(outcomes) - 1
            ways = (*(program for program in same if program.begins_with(outcomes[:-1])), *reversed(tried))
            way = next((program for program in ways if len(program.outcomes) > number), None)
            if way is not None:
                return f"{way.trace.value_guards[number].describe(outcomes[-1])}, as in no other way through the function"
        if same is not None:
            changed = next(filter(None, (program.changed() for program in same)), "")
            return changed or "arguments are other parts of the same memory, or in another order in memory"
        return "first call" if last is None else describe_difference(last.signature, signature)

    def keep(self, signature: CallSignature, program: Program) -> None:
        """Add a program, for as long as the objects named by its signature live."""
        key = program.signature.key
        end = functools.partial(_end, weakref.ref(self), key, weakref.ref(program))
        program.owners = tuple(_weakly(owner, end) for owner in signature.owners())
        with self._lock:
            self.traces += 1
            program.number = self.traces
            self._programs[key] = (program, *self._others(signature, program))
            self.last = program
            program.used = self.record.tick()
            while len(self._programs) > 1 and sum(map(_states, self._programs.values())) > self.limit:
                for ended in self._programs.pop(min(self._programs, key=self._last_used)):
                    self._withdraw(ended)

    def forget(self, key: Any, program: Program) -> bool:
        """Remove a program. Returns True if it was there."""
        with self._lock:
            return self._remove(key, program)

    def take_back(self, key: Any, program: Program, last: Program | None) -> None:
        """Undo `keep` for a program that could not run."""
        if self.forget(key, program):
            self.traces -= 1
            self.last = last

    def end(self, key: Any, program: Program) -> None:
        """Remove a program at any moment, also within the garbage collection of an object in its key."""
        self._ended.append((key, program))
        if self._lock.acquire(blocking=False):      # the lock may be held by this very thread
            try:
                while self._ended:
                    self._remove(*self._ended.popleft())
            finally:
                self._lock.release()

    def _others(self, signature: CallSignature, program: Program) -> list[Program]:
        """The programs to keep beside a new one: other ways through the function in this state, and what is left of other states."""
        others = [other for other in self._programs.get(program.signature.key, ()) if not program.supersedes(other)]
        for other in self._programs.get(program.signature.key, ()):
            if other not in others:
                self._withdraw(other)
        way = next((other for other in others if program.outcomes and other.outcomes and other.current(signature) is not None), None)
        program.state = program.number if way is None else way.state
        ways = [other for other in others if other.state == program.state][:settings.WAYS.get() - 1]
        rest = [other for other in others if other.state != program.state and other.may_hold_again()]
        states = list(dict.fromkeys(other.state for other in rest))[:VARIANTS - 1]
        kept = {*map(id, ways), *(id(other) for other in rest if other.state in states)}
        for other in others:
            if id(other) not in kept:
                self._withdraw(other)
        return [other for other in others if id(other) in kept]

    def _last_used(self, key: Any) -> int:
        return max(program.last_used for program in self._programs[key])

    def _withdraw(self, program: Program) -> None:
        if program.record is not None:
            self.record.withdraw(program.record)

    def _remove(self, key: Any, program: Program) -> bool:
        self._withdraw(program)
        programs = self._programs.get(key, ())
        left = tuple(other for other in programs if other is not program)
        if left:
            self._programs[key] = left
        else:
            self._programs.pop(key, None)
        if self.last is program:
            self.last = None
        return len(left) < len(programs)


def _states(programs: Sequence[Program]) -> int:
    """Number of programs, of which the ways through the function in one state count as one."""
    return len({program.state for program in programs})


def _weakly(owner: Any, callback: Callable[[Any], None]) -> Any:
    """A weak reference; the object itself if it allows none."""
    try:
        return weakref.ref(owner, callback)
    except TypeError:
        return owner


def _end(cache: weakref.ref[ProgramCache], key: Any, program: weakref.ref[Program], owner: Any) -> None:
    """Callback at the death of an object that a program's key names by its identity."""
    of, ended = cache(), program()
    if of is not None and ended is not None:
        of.end(key, ended)
