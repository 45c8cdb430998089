"""Alignment of the memory that programs compute in, and shares of a thread's stack, all in bytes."""

from __future__ import annotations

ALIGNMENT = 64
"""Every place in the arena, in a kernel's scratch memory and in a buffer starts at a multiple of it: a cache line, the widest vector."""

MAX_TILED_STACK_BYTES = 1 << 22
"""Panels may take so much of the stack of a thread, which has 8 MiB where nobody chose another size. (What they take is known when memory
is planned; before, the cost model counts only what surely lies in memory.)"""

MAX_STEP_STACK_BYTES = 1 << 22
"""So may one step, within panels or outside."""

POOL_STACK_BYTES = MAX_TILED_STACK_BYTES + MAX_STEP_STACK_BYTES + (4 << 20)
"""Stack of a thread of the pool."""

MAX_CALL_STACK_BYTES = 1 << 14
"""Working memory of a program that C calls with plain numbers, up to which it lies on the stack of the caller."""


def aligned(size: int) -> int:
    """`size` rounded up to `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT
