"""The processors that products are written for: width of a vector, number of registers, and whether products are fused with sums.

    host_target().name          # "avx512", "avx2" or "sse2"

A target asks for exactly the features in its list, so its code runs on every processor that has them, and is the same wherever it was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of processor: bytes and number of its vector registers; without `fma`, products are rounded before they are added."""

    name: str
    vector_bytes: int
    registers: int
    fma: bool
    features: tuple[str, ...]

    def lanes(self, element_bytes: int) -> int:
        """Elements of one vector."""
        return self.vector_bytes // element_bytes


TARGETS: dict[str, Target] = {
    target.name: target for target in (
        Target("avx512", 64, 32, True, ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma")),
        Target("avx2", 32, 16, True, ("avx2", "fma")),
        Target("sse2", 16, 16, False, ("sse2",)))}
"""By name, the best first."""


@cache
def host_targets() -> tuple[Target, ...]:
    """The targets whose code this process can run, the best first; none where it is no x86-64 process."""
    import llvmlite.binding as llvm

    if not llvm.get_process_triple().startswith("x86_64"):
        return ()
    present = llvm.get_host_cpu_features()
    return tuple(target for target in TARGETS.values() if all(present.get(feature, False) for feature in target.features))


def host_target() -> Target | None:
    """The best target of this processor; None where there is none."""
    return next(iter(host_targets()), None)


@cache
def machine(target: Target) -> Any:
    """LLVM's code generator for the target."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = ",".join(f"+{feature}" for feature in target.features)
    return llvm.Target.from_default_triple().create_target_machine(
        cpu="x86-64", features=features, opt=2, reloc="pic", codemodel="small", jit=True)
