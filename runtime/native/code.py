"""Loaded code of native programs: from this process, else from the disk cache, else compiled by LLVM and cached on disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from adjit.codegen.llvm.link import CompiledObject, LoadedKernel
from adjit.codegen.llvm.target import TARGETS, Target, host_targets, is_x86_64
from adjit.codegen.native.artifact import Artifact
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph
from adjit.ir.lazy_module import LazyModule
from adjit.runtime import settings
from adjit.runtime.caches.disk_cache import compiler, obtain_code, sha256
from adjit.runtime.native.threads import TEAM_CODE

if TYPE_CHECKING:
    import json

    from adjit.codegen.native import compile_program as native
    from adjit.codegen.native.compile_program import OverlappedCodegen
else:
    json = LazyModule("json")
    native = LazyModule("adjit.codegen.native.compile_program")

MIN_POOL_WAIT_NS = 15e6
"""Estimated nanoseconds from which a program's first call waits for the thread pool; LLVM compiles the pool in the time of a small
program."""


@dataclass(frozen=True, slots=True)
class NativeCode:
    """The loaded code of a program, its description, and its origin in words."""

    loaded: LoadedKernel
    artifact: Artifact
    origin: str
    key: str        # key of the code in the disk cache


def native_is_supported() -> bool:
    """True if this process can run native programs: CPython on Linux, on a supported processor."""
    return sys.implementation.name == "cpython" and sys.platform == "linux" and is_x86_64()


def native_target() -> Target:
    """The target named by the setting `ADJIT_TARGET`, else the best one of this processor.

    Raises `ValueError` for a target that this processor does not support.
    """
    name = settings.TARGET.get()
    if name == "auto":
        return host_targets()[0]
    target = TARGETS[name]
    if target not in host_targets():
        names = ", ".join(t.name for t in host_targets()) or "none of them"
        raise ValueError(f"environment variable {settings.TARGET.variable}={name!r}: this processor has {names}")
    return target


def obtain_program(planned: Graph, target: Target, timed: bool = False, threads: int = 1,
                   flush_subnormals: bool = False, overlapped: OverlappedCodegen | None = None) -> NativeCode:
    """The code of a planned graph. `overlapped` may have compiled some of it already. Raises `UnsupportedError` for an op without machine
    code.

    Code of equal text is loaded once per process and shared by all functions.
    """
    on_step = overlapped.start_step if overlapped else None
    code = native.lower_program(planned, target, timed=timed, flush_subnormals=flush_subnormals, on_step=on_step)
    text = code.text
    if threads > 1 and code.work >= MIN_POOL_WAIT_NS:
        TEAM_CODE.start()
    key = sha256(json.dumps([*compiler(), "program", target.name, text]).encode())

    def compile() -> CompiledObject:
        return overlapped.finish(code) if overlapped else native.compile_program_text(text, target, settings.VERIFY.get())

    loaded, origin = obtain_code(key, compile)
    return NativeCode(loaded, native.make_artifact(planned, code, target), origin, key)
