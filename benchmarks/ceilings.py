"""The limits of this machine, measured: multiply-adds a second, and bytes a second from each level of memory, on all cores.

    python ceilings.py [--quick]         prints JSON

The kernels are written in LLVM's language and compiled by llvmlite, so that nothing but the processor is measured: chains of fused
multiply-adds in registers; sums of what is read; and `a = b * s + c` as in STREAM, whose bytes
are counted as there: two arrays read, one written.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from machine import cache_sizes, cores

CHAINS = 12
"""Independent chains of multiply-adds: two units, four cycles of latency, and some to spare; they fit 16 registers with the factors."""

SIZES = [2 ** power for power in range(15, 31)]
"""Bytes that a core works on; the largest is far beyond the caches that it can count on."""


@dataclass(frozen=True)
class Compiler:
    """LLVM for this processor; `lanes` is the number of float32 in its widest vector."""

    machine: Any
    jit: Any
    lanes: int

    @classmethod
    def for_host(cls) -> Compiler:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        lanes = 16 if features.get("avx512f") else 8 if features.get("avx") else 4
        flags = features.flatten() + (",-prefer-256-bit" if lanes == 16 else "")
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=flags, opt=3, reloc="pic", codemodel="small", jit=True)
        return cls(machine, llvm.create_lljit_compiler(machine, use_jit_link=True), lanes)

    def function(self, text: str, name: str, *types: Any) -> Callable[..., None]:
        module = llvm.parse_assembly(f'target triple = "{llvm.get_process_triple()}"\n{text}')
        module.verify()
        builder = llvm.JITLibraryBuilder().add_object_img(self.machine.emit_object(module)).add_current_process().export_symbol(name)
        library = builder.link(self.jit, name)
        function = ctypes.CFUNCTYPE(None, *types)(library[name])
        function.library = library      # type: ignore[attr-defined]  # the code lives as long as the function
        return function


def multiply_add(compiler: Compiler, scalar: str, lanes: int) -> str:
    """`run(n, out)`: n rounds of CHAINS fused multiply-adds on registers."""
    vector, suffix = f"<{lanes} x {scalar}>", f"v{lanes}f{32 if scalar == 'float' else 64}"
    chains = range(CHAINS)
    lines = [f"define void @fma_{scalar}(i64 %n, ptr %out) {{", "entry:", f"  %x = load volatile {vector}, ptr %out, align 4",
             "  br label %loop", "loop:", "  %i = phi i64 [0, %entry], [%i1, %loop]"]
    lines += [f"  %a{c} = phi {vector} [%x, %entry], [%b{c}, %loop]" for c in chains]
    lines += [f"  %b{c} = call {vector} @llvm.fma.{suffix}({vector} %a{c}, {vector} %x, {vector} %x)" for c in chains]
    lines += ["  %i1 = add i64 %i, 1", "  %end = icmp eq i64 %i1, %n", "  br i1 %end, label %done, label %loop", "done:"]
    lines += [f"  store volatile {vector} %b{c}, ptr %out, align 4" for c in chains]
    lines += ["  ret void", "}", f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})"]
    return "\n".join(lines)


def read(lanes: int) -> str:
    """`read(n, x, o)`: the sum of n float32, in eight sums of vectors."""
    vector, width = f"<{lanes} x float>", 8
    lines = ["define void @read(i64 %n, ptr %x, ptr %o) {", "entry:", "  br label %loop", "loop:",
             "  %i = phi i64 [0, %entry], [%i1, %loop]"]
    lines += [f"  %a{c} = phi {vector} [zeroinitializer, %entry], [%b{c}, %loop]" for c in range(width)]
    for c in range(width):
        lines += [f"  %q{c} = add i64 %i, {c * lanes}", f"  %p{c} = getelementptr float, ptr %x, i64 %q{c}",
                  f"  %v{c} = load {vector}, ptr %p{c}, align 4", f"  %b{c} = fadd {vector} %a{c}, %v{c}"]
    lines += [f"  %i1 = add i64 %i, {width * lanes}", "  %more = icmp slt i64 %i1, %n", "  br i1 %more, label %loop, label %done", "done:"]
    lines += [f"  store volatile {vector} %b{c}, ptr %o, align 4" for c in range(width)]
    return "\n".join([*lines, "  ret void", "}"])


def triad(lanes: int) -> str:
    """`triad(n, b, c, a)`: a = b * 3 + c of n float32."""
    vector, width = f"<{lanes} x float>", 4
    three = f"<{', '.join(['float 3.0'] * lanes)}>"
    lines = ["define void @triad(i64 %n, ptr noalias %b, ptr noalias %c, ptr noalias %a) {", "entry:", "  br label %loop", "loop:",
             "  %i = phi i64 [0, %entry], [%i1, %loop]"]
    for k in range(width):
        lines += [f"  %o{k} = add i64 %i, {k * lanes}", *(f"  %p{n}{k} = getelementptr float, ptr %{n}, i64 %o{k}" for n in "abc"),
                  f"  %b{k} = load {vector}, ptr %pb{k}, align 4", f"  %c{k} = load {vector}, ptr %pc{k}, align 4",
                  f"  %m{k} = fmul {vector} %b{k}, {three}", f"  %s{k} = fadd {vector} %m{k}, %c{k}",
                  f"  store {vector} %s{k}, ptr %pa{k}, align 4"]
    lines += [f"  %i1 = add i64 %i, {width * lanes}", "  %more = icmp slt i64 %i1, %n", "  br i1 %more, label %loop, label %done", "done:"]
    return "\n".join([*lines, "  ret void", "}"])


def repeated(name: str, arrays: str) -> str:
    """`NAME_repeated(times, n, ...)`: calls the kernel many times, so that a call from Python is no part of what is timed."""
    params = [f"ptr %{array}" for array in arrays]
    return "\n".join([
        f"define void @{name}_repeated(i64 %times, i64 %n, {', '.join(params)}) {{", "entry:", "  br label %loop", "loop:",
        "  %t = phi i64 [0, %entry], [%t1, %loop]", f"  call void @{name}(i64 %n, {', '.join(params)})", "  %t1 = add i64 %t, 1",
        "  %end = icmp eq i64 %t1, %times", "  br i1 %end, label %done, label %loop", "done:", "  ret void", "}"])


def on_all_cores(works: list[Callable[[], None]], repeats: int) -> float:
    """The least seconds, of `repeats`, from when all threads start to when the last ends."""
    best = float("inf")
    for _ in range(repeats):
        ready = threading.Barrier(len(works) + 1)

        def work(one: Callable[[], None], ready: threading.Barrier = ready) -> None:
            ready.wait()
            one()
        threads = [threading.Thread(target=work, args=(one,)) for one in works]
        for thread in threads:
            thread.start()
        ready.wait()
        begin = time.perf_counter()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - begin)
    return best


def peak_operations(compiler: Compiler, scalar: str, threads: int, repeats: int) -> float:
    lanes = compiler.lanes if scalar == "float" else compiler.lanes // 2
    run = compiler.function(multiply_add(compiler, scalar, lanes), f"fma_{scalar}", ctypes.c_int64, ctypes.c_void_p)
    count = 2_000_000
    outs = [np.full(64, 0.5, np.float32 if scalar == "float" else np.float64) for _ in range(threads)]
    works: list[Callable[[], None]] = [lambda out=out: run(count, out.ctypes.data) for out in outs]      # type: ignore[misc]
    seconds = on_all_cores(works, repeats)
    return 2 * CHAINS * lanes * count * threads / seconds


def bandwidths(compiler: Compiler, threads: int, sizes: list[int], seconds: float) -> dict[str, list[float]]:
    """Bytes a second for each number of bytes that all cores together work on."""
    longs, pointers = ctypes.c_int64, ctypes.c_void_p
    lanes = compiler.lanes
    kernels = {
        "read": (compiler.function(f"{read(lanes)}\n{repeated('read', 'xo')}", "read_repeated", longs, longs, *[pointers] * 2), 1),
        "triad": (compiler.function(f"{triad(lanes)}\n{repeated('triad', 'bca')}", "triad_repeated", longs, longs, *[pointers] * 3), 3)}
    largest = max(sizes) // threads // 4
    memory = [np.ones(largest, np.float32) for _ in range(threads)]
    outs = [np.empty(64, np.float32) for _ in range(threads)]
    found: dict[str, list[float]] = {name: [] for name in kernels}
    for size in sizes:
        for name, (kernel, arrays) in kernels.items():
            count = size // threads // 4 // arrays // 128 * 128      # whole rounds of the loops
            repeat = max(1, int(seconds * 50e9 / size))

            def work(base: int, out: int, kernel: Any = kernel, arrays: int = arrays, count: int = count, repeat: int = repeat) -> None:
                addresses = [base + i * count * 4 for i in range(arrays)] + ([out] if arrays == 1 else [])
                kernel(repeat, count, *addresses)
            works: list[Callable[[], None]] = [lambda m=m, o=o: work(m.ctypes.data, o.ctypes.data)      # type: ignore[misc]
                                               for m, o in zip(memory, outs, strict=True)]
            found[name].append(count * 4 * arrays * threads * repeat / on_all_cores(works, 3))
    return found


def measure(quick: bool) -> dict[str, Any]:
    """Operations a second by dtype; bytes a second by working set; which working sets stand for L2, L3 and DRAM."""
    compiler, threads = Compiler.for_host(), cores()
    peaks = {dtype: peak_operations(compiler, scalar, threads, 5 if quick else 15)
             for dtype, scalar in (("float32", "float"), ("float64", "double"))}
    caches = cache_sizes()
    second = caches.get("L2", 2 ** 20) * threads
    sizes = [size for size in SIZES if not quick or size in (2 ** 15, 2 ** 18, 2 ** 21, 2 ** 25, 2 ** 29)]
    found = bandwidths(compiler, threads, sizes, 0.01 if quick else 0.04)
    best = [max(pair) for pair in zip(*found.values(), strict=True)]

    def at(size: int) -> float:
        return best[min(range(len(sizes)), key=lambda i: abs(np.log(sizes[i] / size)))]
    return {"operations": peaks, "threads": threads, "vector_bytes": 4 * compiler.lanes, "sizes": sizes, **found,
            "L2": at(second // 2), "L3": at(4 * second), "DRAM": best[-1]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats")
    print(json.dumps(measure(parser.parse_args().quick)))
