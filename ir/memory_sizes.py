"""Alignment of the memory that programs compute in, and limits of a thread's scratch memory, all in bytes."""

from __future__ import annotations

ALIGNMENT = 64
"""Bytes of a cache line and of the widest vector; every offset in the arena, in a kernel's scratch memory and in a buffer is a multiple of
them."""

MAX_TILE_SCRATCH_BYTES = 1 << 22
"""Most bytes that the arenas of tiles take of a thread's scratch memory. (The exact need is known when memory is planned; before, the cost
model counts only values that surely lie in memory.)"""

MAX_STEP_SCRATCH_BYTES = 1 << 22
"""Most bytes of scratch memory that one step takes, within tiles or outside: packed panels of products, input tiles of convolutions."""

POOL_SCRATCH_BYTES = MAX_TILE_SCRATCH_BYTES + MAX_STEP_SCRATCH_BYTES
"""Bytes of scratch memory of a pool thread; the calling thread's scratch memory lies behind the arena of the program."""

POOL_STACK_BYTES = POOL_SCRATCH_BYTES + (4 << 20)
"""Bytes of the stack of a pool thread, which holds its scratch memory."""

MAX_CALL_STACK_BYTES = 1 << 14
"""Most bytes of working memory that a program called from C with plain numbers places on the caller's stack."""


def aligned(size: int) -> int:
    """`size` rounded up to `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT
