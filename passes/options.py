"""Options of the passes: those that a user sets, and those that the backend sets."""

from __future__ import annotations

from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that passes and code generation read; equal options give equal programs.

    memory_budget  bytes that the forward half may save for the backward half (an int), or a fraction of the bytes of saving
                   everything (a float). None saves the values that are not cheap to recompute.
    only_kernels   True if every op that a kernel can run becomes a kernel, single ops too: for backends without better code for them. Set
                   by the backend.
    cache_bytes    bytes of the private caches of a core, for backends that run programs in tiles; None for other backends. Set by the
                   backend.
    flush_subnormals  True if native programs flush subnormal numbers to zero. Constant folding in passes does not depend on it.
    """

    memory_budget: int | float | None = None
    only_kernels: bool = False
    cache_bytes: int | None = None
    flush_subnormals: bool = False
