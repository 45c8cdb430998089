"""Speed of the elementary and special functions as machine code of whole vectors, against NumPy and SciPy on the same array, one thread.

    python benchmarks/vector_math.py                 all functions, a table
    python benchmarks/vector_math.py exp lgamma      some

Both sides read and write the same arrays, which fit the L1 cache or the second, with usual arguments and with such as come from far
apart. What a call of a single vector takes is taken off. Calls alternate and the least time of each counts, so that other work on the
machine disturbs both alike. A ratio above 1: ours is faster.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import scipy.special

from adjit.codegen.numba.scalar_functions import processor_has_fma
from adjit.codegen.vector_math.functions import BINARY, UNARY
from adjit.codegen.vector_math.language import Value
from adjit.codegen.vector_math.llvm_printer import UNLIKELY, LLVMPrinter, llvm_type

CACHES = {"L1": 1 << 14, "L2": 1 << 18}
"""Bytes of an array."""
BITS = 512 if llvm.get_host_cpu_features().get("avx512f") else 256
DTYPES = {"f32": np.float32, "f64": np.float64}

# Where arguments are taken from.
RANGES = {
    "exp": (-10, 10), "exp2": (-10, 10), "expm1": (-10, 10), "log": (1e-3, 100), "log2": (1e-3, 100), "log10": (1e-3, 100),
    "log1p": (-0.9, 100), "cbrt": (-10, 10), "sin": (-10, 10), "cos": (-10, 10), "tan": (-10, 10), "arcsin": (-1, 1), "arccos": (-1, 1),
    "arctan": (-5, 5), "sinh": (-5, 5), "cosh": (-5, 5), "tanh": (-5, 5), "arcsinh": (-10, 10), "arccosh": (1, 10),
    "arctanh": (-0.99, 0.99), "sigmoid": (-10, 10), "erf": (-4, 4), "erfc": (-4, 8), "erfcx": (-4, 8), "erfinv": (-0.999, 0.999),
    "lgamma": (0.1, 20), "digamma": (0.1, 20), "trigamma": (0.1, 20), "i0e": (-20, 20), "i1e": (-20, 20), "arctan2": (-5, 5),
    "hypot": (-5, 5), "power": (0.1, 10), "logaddexp": (-10, 10),
}
# Where others come from: uniform, or of all exponents between.
WIDE = RANGES | {
    "exp": (-87, 88), "exp2": (-125, 127), "expm1": (-87, 88), "sin": (-1000, 1000), "cos": (-1000, 1000), "tan": (-1000, 1000),
    "sinh": (-88, 88), "cosh": (-88, 88), "tanh": (-30, 30), "sigmoid": (-80, 80), "logaddexp": (-80, 80), "erfc": (-9, 9),
}
LOGARITHMIC = {
    "log": (1e-37, 1e37), "log2": (1e-37, 1e37), "log10": (1e-37, 1e37), "log1p": (1e-37, 1e37), "cbrt": (1e-37, 1e37),
    "arcsin": (1e-37, 1), "arccos": (1e-37, 1), "arctan": (1e-37, 1e37), "arcsinh": (1e-37, 1e37), "arccosh": (1, 1e37),
    "arctanh": (1e-37, 1), "arctan2": (1e-18, 1e18), "hypot": (1e-37, 1e37), "power": (1e-6, 1e6),
}
# Of the others NumPy's function of that name is.
RIVALS: dict[str, Callable[..., Any]] = {
    "sigmoid": scipy.special.expit, "erf": scipy.special.erf, "erfc": scipy.special.erfc, "erfcx": scipy.special.erfcx,
    "erfinv": scipy.special.erfinv, "lgamma": scipy.special.gammaln, "digamma": scipy.special.psi,
    "trigamma": lambda x, out: scipy.special.polygamma(1, x), "i0e": scipy.special.i0e, "i1e": scipy.special.i1e,
}
PAIRED = ("arctan2", "hypot", "power", "logaddexp")


def initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def kernel_text(name: str, dtype: str, bits: int, fused: bool) -> str:
    """The function as a loop of whole vectors, which is what kernels of machine code consist of."""
    definition, arity = (UNARY | BINARY)[name], 2 if name in PAIRED else 1
    element, width = llvm_type(dtype), bits // int(dtype[1:])
    printer = LLVMPrinter(fused, width, avx512=bits == 512)
    result = definition(*(Value(printer, f"%x{i}", dtype) for i in range(arity)))
    vector, last = printer.type_text(dtype), printer.lines
    labels = [line[:-1] for line in last if line.startswith("join")]
    loads = [line for i in range(arity) for line in (
        f"  %p{i} = getelementptr {element}, ptr %a{i}, i64 %i", f"  %x{i} = load {vector}, ptr %p{i}, align 4")]
    return "\n".join([
        *sorted(printer.declarations), *printer.tables.values(),
        f"define void @kernel(i64 %n, ptr %out{''.join(f', ptr %a{i}' for i in range(arity))}) {{", "entry:", "  br label %body", "body:",
        f"  %i = phi i64 [0, %entry], [%next, %{labels[-1] if labels else 'body'}]", *loads, *last,
        f"  %p = getelementptr {element}, ptr %out, i64 %i", f"  store {vector} {result.name}, ptr %p, align 4",
        f"  %next = add i64 %i, {width}", "  %more = icmp ult i64 %next, %n", "  br i1 %more, label %body, label %end",
        "end:", "  ret void", "}", UNLIKELY])


def kernel(name: str, dtype: str, bits: int, fused: bool) -> Callable[..., Callable[[], object]]:
    """Takes the arrays, the result first, and gives what calls the loop on them."""
    arity = 2 if name in PAIRED else 1
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=f"{llvm.get_host_cpu_features().flatten()},-prefer-256-bit", opt=2, reloc="pic", jit=True)
    jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
    code = machine.emit_object(llvm.parse_assembly(kernel_text(name, dtype, bits, fused)))
    library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol("kernel").link(jit, name)
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (arity + 1))(library["kernel"])

    def bound(out: np.ndarray, *arrays: np.ndarray) -> Callable[[], object]:
        addresses = [array.ctypes.data for array in (out, *arrays)]
        return lambda alive=(jit, library): function(out.size, *addresses)
    return bound


def least_nanoseconds(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """The least time of each call, taken in turns."""
    best = [float("inf")] * len(calls)
    for _, (index, call) in itertools.product(range(rounds), enumerate(calls)):
        begin = time.perf_counter_ns()
        call()
        best[index] = min(best[index], time.perf_counter_ns() - begin)
    return best


def arguments(name: str, dtype: str, size: int, wide: bool) -> list[np.ndarray]:
    random, logarithmic = np.random.default_rng(0), wide and name in LOGARITHMIC
    low, high = LOGARITHMIC[name] if logarithmic else (WIDE if wide else RANGES)[name]
    ends = np.log((low, high)) if logarithmic else (low, high)
    arrays = [random.uniform(*ends, size) for _ in range(2 if name in PAIRED else 1)]
    if logarithmic:
        arrays = [np.exp(array) for array in arrays]
    if name == "power":   # powers of all sizes that there are
        arrays[1] = random.uniform(-80, 80, size) / np.log(arrays[0]) if wide else random.uniform(-10, 10, size)
    return [array.astype(DTYPES[dtype]) for array in arrays]


def aligned_arrays(count: int, size: int, dtype: str) -> list[np.ndarray]:
    """Arrays in one piece of memory: aligned, and no two of them at the same place of a page, which some processors take for the same."""
    step = size + 1216 // (int(dtype[1:]) // 8)
    memory = np.zeros(count * step + 64, DTYPES[dtype])
    start = -memory.ctypes.data % 64 // memory.itemsize
    return [memory[start + i * step:][:size] for i in range(count)]


def measured(name: str, dtype: str, bits: int, rounds: int, cache: str, wide: bool) -> tuple[float, float]:
    """Nanoseconds an element: ours, and NumPy's or SciPy's."""
    size = CACHES[cache] // (int(dtype[1:]) // 8)
    out, *arrays = aligned_arrays(3 if name in PAIRED else 2, size, dtype)
    for array, values in zip(arrays, arguments(name, dtype, size, wide), strict=True):
        array[:] = values
    ours, theirs = kernel(name, dtype, bits, processor_has_fma()), RIVALS.get(name) or getattr(np, name)
    few = bits // int(dtype[1:])
    vector, *vectors = (array[:few] for array in (out, *arrays))
    mine, other, *little = least_nanoseconds([
        ours(out, *arrays), lambda: theirs(*arrays, out=out), ours(vector, *vectors), lambda: theirs(*vectors, out=vector)], rounds)
    return (mine - little[0]) / (size - few), (other - little[1]) / (size - few)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="functions; all by default")
    parser.add_argument("--rounds", type=int, default=100, help="calls of each, of which the fastest counts")
    parser.add_argument("--bits", type=int, default=BITS, help="size of a vector")
    parser.add_argument("--dtypes", nargs="+", default=[*DTYPES], choices=[*DTYPES])
    options = parser.parse_args()
    initialize()
    cases = [*itertools.product(CACHES, (False, True))]
    print("| function | dtype | ns an element | NumPy, SciPy |", *(f"{cache}{', wide' * wide} |" for cache, wide in cases))
    print("|" + "---|" * (4 + len(cases)))
    for name, dtype in itertools.product(options.names or RANGES, options.dtypes):
        times = [measured(name, dtype, options.bits, options.rounds, *case) for case in cases]
        ratios = (f"{theirs / ours:.2f} |" for ours, theirs in times)
        print(f"| {name} | {dtype} | {times[0][0]:.3f} | {times[0][1]:.3f} |", *ratios, flush=True)


if __name__ == "__main__":
    main()
