"""What a user may ask of the compiler."""

from __future__ import annotations

from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The choices that passes and code generation read; equal options give equal programs.

    memory_budget  how much the forward half may keep for the backward half: bytes (an int), or a fraction of what keeping
                   everything would take (a float). None keeps what is not cheap to compute again.
    only_kernels   whether all that a kernel can run is to be a kernel, single ops too: for backends that have no better code for them.
    cache_bytes    bytes of the caches that a core has for itself, for backends that run programs in tiles; None for those that do not.
    flush_subnormals  whether native programs take subnormal numbers for zeros. What passes compute themselves does not depend on it.
    """

    memory_budget: int | float | None = None
    only_kernels: bool = False
    cache_bytes: int | None = None
    flush_subnormals: bool = False
