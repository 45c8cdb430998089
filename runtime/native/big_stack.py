"""The stack check of a thread for a program; and calls on a big-stack thread where the stack is too small."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from adjit.codegen.native.artifact import Artifact
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.native.background_code import BackgroundCode

if TYPE_CHECKING:
    from adjit.codegen.native.threads import big_stack
else:
    big_stack = LazyModule("adjit.codegen.native.threads.big_stack")

ASSUMED_STACK_BYTES = 1 << 15
"""Bytes that any thread has left: Python and NumPy take as much."""

_CONTEXT_BYTES, _STACK_POINTER = 4096, 160      # of glibc's ucontext_t

CALL_CODE = BackgroundCode(lambda: big_stack.big_stack_text(), lambda text: big_stack.compile_big_stack(text))
"""`adjit_call` for callers other than the entry, which has its own."""


def stack_needed(artifact: Artifact) -> int:
    """Stack bytes that a run of a program needs; 0 where every thread has enough."""
    return artifact.stack_bytes + ASSUMED_STACK_BYTES if artifact.stack_bytes > ASSUMED_STACK_BYTES else 0


def has_stack(need: int) -> bool:
    """True if this thread has `need` bytes of stack left; False where the system does not say."""
    try:
        low, high = _own.stack
    except AttributeError:
        low, high = _own.stack = _find_stack()
    system = _system()
    if not high or system.getcontext(_own.context) != 0:
        return False
    here = ctypes.c_uint64.from_buffer(_own.context, _STACK_POINTER).value
    return low + need <= here <= high


def call_on_big_stack(run: int, need: int, *arguments: Any) -> int:
    """Call `adjit_run` at the address `run` on a thread with that much stack; `NO_STACK` where the system has none."""
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, *(ctypes.c_void_p,) * 5)(CALL_CODE.get().address)
    status: int = call(run, need, *arguments)
    return status


class _Own(threading.local):
    """State of each thread: the bounds of its stack, and memory for the registers of the processor."""

    stack: tuple[int, int]

    def __init__(self) -> None:
        self.context = ctypes.create_string_buffer(_CONTEXT_BYTES)


_own = _Own()


def _find_stack() -> tuple[int, int]:
    """The addresses between which the stack of this thread lies; twice 0 where the system does not say."""
    attributes = ctypes.create_string_buffer(64)
    low, size = ctypes.c_uint64(), ctypes.c_uint64()
    try:
        system = _system()
        self = ctypes.c_uint64(system.pthread_self())
        if system.getcontext(_own.context) or system.pthread_getattr_np(self, attributes):
            return 0, 0
        system.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
        system.pthread_attr_destroy(attributes)
    except AttributeError:      # another C library
        return 0, 0
    return low.value, low.value + size.value


@cache
def _system() -> Any:
    """The C library."""
    library = ctypes.CDLL(None)
    library.pthread_self.restype = ctypes.c_uint64
    return library
