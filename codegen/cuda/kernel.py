"""Kernels and their launches, as plain data: LLVM text, and what a launch passes to it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from adjit.ir.dataclass import dataclass

NAME = "adjit_kernel"
"""Name of a kernel in its own text until its content names it. Names are unique in a process: kernels of all programs may be loaded into
one context."""

Access = Literal["read", "write", "update"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: LLVM text of a module that holds it alone, threads of a block, bytes of shared memory. Its parameters are pointers, which
    say how the kernel uses their memory, then `numbers` 64-bit integers."""

    name: str
    text: str
    threads: int
    shared_bytes: int
    pointers: tuple[Access, ...]
    numbers: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument of a launch: operand or result number `index`, scratch memory of the plan from byte `index` on, the word of a check, or
    working memory, which is any launch's; the launch touches `nbytes` bytes from byte `start` on."""

    kind: Literal["operand", "result", "scratch", "check", "work"]
    index: int
    nbytes: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of `grid` blocks of a kernel."""

    kernel: Kernel
    grid: int
    pointers: tuple[Pointer, ...]
    numbers: tuple[int, ...] = ()


def named_kernel(label: str, text: str, threads: int, shared_bytes: int, pointers: Sequence[Access], numbers: int) -> Kernel:
    """A kernel under a name that its text gives it; `label` says to readers of a profile what it does."""
    digest = hashlib.sha256(f"{threads} {text}".encode()).hexdigest()[:16]
    name = f"adjit_{label}_{digest}"
    return Kernel(name, text.replace(f"@{NAME}", f"@{name}"), threads, shared_bytes, tuple(pointers), numbers)
