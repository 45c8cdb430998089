"""The programs of one compiled function, by signature: the least recently used go first, and a program ends with the objects in its key."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjit.codegen.process.fork_safety import renewed_after_fork
from adjit.runtime.fastcall.descriptors import FunctionDescriptor
from adjit.runtime.program import Program
from adjit.tracer.signature import CallSignature, describe_difference

Found = tuple[Program, tuple[np.ndarray, ...]]
"""A program, and the arrays that its function would reach by itself now."""

VARIANTS = 4
"""Programs cached for one signature, for state that the function reads and that switches to and fro: `train()` and `eval()`, say."""


class CacheInfo(NamedTuple):
    """Calls that found their program, traces made, programs cached now, and the most programs that are cached."""

    hits: int
    traces: int
    size: int
    limit: int


class ProgramCache:
    """Programs by the key of their signature. Any thread may use it at any time.

    `record` is what the native entry knows of the function; `slow` is called by it as `slow(self, *args, **kwargs)`.
    """

    def __init__(self, limit: int, slow: Callable[..., Any]):
        self.limit = limit
        self.traces = 0
        self.record = FunctionDescriptor(slow)
        self._hits = 0
        self._last: Program | None = None
        self._programs: dict[Any, tuple[Program, ...]] = {}       # of each signature, the one used last is the first
        self._ended: deque[tuple[Any, Program]] = deque()       # whose module or optimiser is gone, not yet taken out
        self._lock = renewed_after_fork(self, "_lock", threading.Lock)       # held for moments

    @property
    def last(self) -> Program | None:
        """The program that was called last, in Python or by the native entry."""
        record = self.record.last
        return self._last if record is None else record.program()       # type: ignore[return-value]

    @last.setter
    def last(self, program: Program | None) -> None:
        self._last = program
        self.record.called_in_python()

    def info(self) -> CacheInfo:
        """The counts."""
        with self._lock:
            return CacheInfo(self._hits + self.record.hits, self.traces, sum(map(len, self._programs.values())), self.limit)

    def programs(self) -> list[Program]:
        """All programs, in the order in which they were made."""
        with self._lock:
            return sorted((program for programs in self._programs.values() for program in programs), key=lambda program: program.number)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._programs.clear()
            self.record.clear()
            self._hits = self.traces = 0
            self.last = None

    def find(self, signature: CallSignature, count: bool = False) -> Found | None:
        """The program for a signature that holds now, `count`ed as a hit; None where there is none."""
        programs = self._programs.get(signature.key)
        if programs is None:
            return None
        for program in programs:
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

    def reason(self, signature: CallSignature) -> str:
        """Why this signature has to be traced."""
        with self._lock:
            same, last = self._programs.get(signature.key), self.last
        if same is not None:
            return same[0].changed()
        return "first call" if last is None else describe_difference(last.signature, signature)

    def keep(self, signature: CallSignature, program: Program) -> None:
        """Put a program in, for as long as the objects live that its signature names."""
        key = program.signature.key
        end = functools.partial(_end, weakref.ref(self), key, weakref.ref(program))
        program.owners = tuple(_weakly(owner, end) for owner in signature.owners())
        with self._lock:
            self.traces += 1
            program.number = self.traces
            others = [other for other in self._programs.get(key, ()) if other.may_hold_again()]
            self._programs[key] = (program, *others[:VARIANTS - 1])
            self.last = program
            program.used = self.record.tick()
            while len(self._programs) > 1 and sum(map(len, self._programs.values())) > self.limit:
                for ended in self._programs.pop(min(self._programs, key=self._last_used)):
                    self._withdraw(ended)

    def forget(self, key: Any, program: Program) -> bool:
        """Take a program out; whether it was there."""
        with self._lock:
            return self._remove(key, program)

    def take_back(self, key: Any, program: Program, last: Program | None) -> None:
        """Undo `keep` of a program that could not be run."""
        if self.forget(key, program):
            self.traces -= 1
            self.last = last

    def end(self, key: Any, program: Program) -> None:
        """Take a program out, at any moment: within the garbage collection of an object that it was made with."""
        self._ended.append((key, program))
        if self._lock.acquire(blocking=False):      # the thread that holds it may be this one
            try:
                while self._ended:
                    self._remove(*self._ended.popleft())
            finally:
                self._lock.release()

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


def _weakly(owner: Any, callback: Callable[[Any], None]) -> Any:
    """A weak reference, where that is possible."""
    try:
        return weakref.ref(owner, callback)
    except TypeError:
        return owner


def _end(cache: weakref.ref[ProgramCache], key: Any, program: weakref.ref[Program], owner: Any) -> None:
    """The callback at the end of an object that the key of a program names by its identity."""
    of, ended = cache(), program()
    if of is not None and ended is not None:
        of.end(key, ended)
