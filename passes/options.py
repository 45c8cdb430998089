"""Options of the passes: those that a user sets, and those that the backend sets."""

from __future__ import annotations

from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RollingRule:
    """Loops that are worth rolling. An op that stays unrolled costs some 200 us of compile time with its derivative; a rolled iteration
    0.03 us of each call, forward and backward.

    min_trips         iterations
    min_ops           ops of all iterations together
    max_fused_bytes   bytes of the largest value of a body of elementwise ops alone, which fuses across iterations
    max_copied_bytes  bytes of separate arrays that are copied into one, so that each iteration takes a row of it
    """

    min_trips: int = 8
    min_ops: int = 500
    max_fused_bytes: int = 256 << 10
    max_copied_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that passes and code generation read; equal options give equal programs.

    memory_budget  bytes that the forward half may save for the backward half (an int), or a fraction of the bytes of saving
                   everything (a float). None saves the values that are not cheap to recompute.
    only_kernels   True if every op that a kernel can run becomes a kernel, single ops too: for backends without better code for them. Set
                   by the backend.
    cache_bytes    bytes of the private caches of a core, for backends that run programs in tiles; None for other backends. Set by the
                   backend.
    rolling        which Python loops become `scan` ops; None: all stay unrolled, and so they do with a memory budget, which knows
                   nothing of values within loops.
    flush_subnormals  True if native programs flush subnormal numbers to zero. Constant folding in passes does not depend on it.
    """

    memory_budget: int | float | None = None
    only_kernels: bool = False
    cache_bytes: int | None = None
    flush_subnormals: bool = False
    rolling: RollingRule | None = None
