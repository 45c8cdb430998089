"""Effects of programs that may find, at a guard, that the call goes another way: they wait until the program has ended.

Such a program has written nothing that its caller sees, and another one runs in its place. What it would have printed is dropped with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from adjit.ir.ops.guard import GuardMiss

Call = Callable[[], object]


class _State(threading.local):
    waiting: list[Call] | None = None


_state = _State()


def run_effect(call: Call) -> None:
    """Call an effect now, or once the program under way in this thread has ended."""
    if _state.waiting is None:
        call()
    else:
        _state.waiting.append(call)


@contextmanager
def waiting_effects() -> Iterator[None]:
    """Have the effects of the program that runs within the block wait for its end; a `GuardMiss` drops them."""
    outer, mine = _state.waiting, list[Call]()
    missed = False
    try:
        _state.waiting = mine
        yield
    except GuardMiss:
        missed = True
        raise
    finally:
        _state.waiting = outer
        for call in () if missed else mine:
            run_effect(call)


@contextmanager
def no_effects() -> Iterator[None]:
    """Drop the effects of ops that are evaluated within the block: the program itself will run them."""
    outer = _state.waiting
    try:
        _state.waiting = []
        yield
    finally:
        _state.waiting = outer
