"""Alignment of the memory that programs compute in, and limits on the use of a thread's stack, all in bytes."""

from __future__ import annotations

ALIGNMENT = 64
"""Bytes of a cache line and of the widest vector; every offset in the arena, in a kernel's scratch memory and in a buffer is a multiple of
them."""

MAX_TILED_STACK_BYTES = 1 << 22
"""Most bytes that tiles may take of a thread's stack, which has 8 MiB unless the user chose another size. (The exact need is known when
memory is planned; before, the cost model counts only values that surely lie in memory.)"""

MAX_STEP_STACK_BYTES = 1 << 22
"""Most bytes that one step may take of a thread's stack, within tiles or outside."""

POOL_STACK_BYTES = MAX_TILED_STACK_BYTES + MAX_STEP_STACK_BYTES + (4 << 20)
"""Bytes of the stack of a pool thread."""

MAX_CALL_STACK_BYTES = 1 << 14
"""Most bytes of working memory that a program called from C with plain numbers places on the caller's stack."""


def aligned(size: int) -> int:
    """`size` rounded up to `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT
