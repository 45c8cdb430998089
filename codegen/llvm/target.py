"""Target processors of machine code: vector width, number of registers, and fused multiply-add.

    host_target().name          # "avx512", "avx2" or "sse2"

A target enables exactly the features in its list, so its code runs on every processor that has them, and is the same on whichever machine
it was compiled.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from functools import cache
from typing import Any

from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of processor: bytes and number of its vector registers. Without `fma`, products are rounded before they are added.

    `triple` is LLVM's name of the system; empty for the system of this process.
    """

    name: str
    vector_bytes: int
    registers: int
    fma: bool
    features: tuple[str, ...]
    triple: str = ""

    @property
    def cpu(self) -> str:
        """LLVM's name of the base processor, to which `features` are added."""
        if self.is_gpu:
            return self.name
        return "generic" if self.triple.startswith("aarch64") else "x86-64"

    @property
    def is_gpu(self) -> bool:
        """True if each lane is a thread: code has no vectors, and calls of functions cost what they do nowhere else."""
        return self.triple.startswith("nvptx64")

    @property
    def avx512(self) -> bool:
        """True if the target has AVX-512's instructions for exponents and mantissas, and for tables in registers."""
        return "avx512f" in self.features

    @property
    def f16c(self) -> bool:
        """True if the target has instructions that convert float16, as all processors with AVX-512 or of 64-bit ARM have."""
        return self.avx512 or "f16c" in self.features or self.triple.startswith("aarch64")

    @property
    def feature_text(self) -> str:
        """The features in LLVM's syntax: `+avx2,+fma`."""
        return ",".join(f"+{feature}" for feature in self.features)

    def lanes(self, element_bytes: int) -> int:
        """Number of elements of one vector."""
        return self.vector_bytes // element_bytes


TARGETS: dict[str, Target] = {
    target.name: target for target in (
        Target("avx512", 64, 32, True, ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma")),
        Target("avx2", 32, 16, True, ("avx2", "fma", "f16c")),
        Target("sse2", 16, 16, False, ("sse2",)))}
"""Targets by name, the best first."""

LEVELS: dict[str, Target] = {
    "x86-64-v4": TARGETS["avx512"], "x86-64-v3": TARGETS["avx2"],
    "x86-64-v2": Target("sse4", 16, 16, False, ("sse2", "sse3", "ssse3", "sse4.1", "sse4.2"))}
"""The levels of x86-64 that exported programs hold code for, the best first."""

NEON = Target("neon", 16, 32, True, ("neon",), "aarch64-unknown-linux-gnu")
"""64-bit ARM, for exports: this process runs no code for it."""


@cache
def is_installed(package: str) -> bool:
    """True if a package can be imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def is_x86_64() -> bool:
    """True if this process runs code for x86-64 and LLVM is installed, which is not imported for the answer."""
    return platform.machine() == "x86_64" and sys.maxsize > 1 << 32 and is_installed("llvmlite")


@cache
def host_targets() -> tuple[Target, ...]:
    """The targets whose code this process can run, the best first. Empty if this is no x86-64 process, or llvmlite is not installed."""
    if not is_x86_64():
        return ()
    present = _features_by_linux() or _features_by_llvm()
    return tuple(target for target in TARGETS.values() if present.issuperset(target.features))


def _features_by_linux() -> frozenset[str]:
    """The features of the first processor that Linux lists, without those that it does not allow; empty elsewhere. LLVM, which has the same
    names for those of our targets, takes 50 ms to import."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            found = re.search(r"^flags\s*:(.*)\n", file.read(1 << 13).decode(), re.MULTILINE)
    except OSError:
        return frozenset()
    return frozenset(found[1].split()) if found else frozenset()


@off_main_thread
def _features_by_llvm() -> frozenset[str]:
    import llvmlite.binding as llvm

    return frozenset(name for name, is_present in llvm.get_host_cpu_features().items() if is_present)


def host_target() -> Target | None:
    """The best target of this processor; None if no target fits."""
    return next(iter(host_targets()), None)


@cache
def machine(target: Target) -> Any:
    """LLVM's code generator for the target. Calls of llvmlite share it, since llvmlite runs one call at a time."""
    return make_machine(target)


def make_machine(target: Target, optimized: bool = True) -> Any:
    """A new code generator. One that is not `optimized` takes a tenth of the time."""
    import llvmlite.binding as llvm

    if target.triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    else:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    triple = target.triple or llvm.get_process_triple()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.cpu, features=target.feature_text, opt=2 if optimized else 0, reloc="pic", codemodel="small", jit=not target.triple)
