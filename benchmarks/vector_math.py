"""Speed of the elementary and special functions as machine code of whole vectors, against NumPy and SciPy on the same array, one thread.

    python benchmarks/vector_math.py                 all functions, a table
    python benchmarks/vector_math.py exp lgamma      some

Both sides write into an array that is there, and fit the caches. Calls alternate and the least time of each counts, so that other
work on the machine disturbs both alike. A ratio above 1: ours is faster.
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

from adjit.codegen.scalar_functions import processor_has_fma
from adjit.codegen.vector_math.functions import BINARY, UNARY
from adjit.codegen.vector_math.language import Value
from adjit.codegen.vector_math.llvm_printer import UNLIKELY, LLVMPrinter, llvm_type

SIZE = 1 << 14
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
    printer = LLVMPrinter(fused, width)
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
    """The least time of each call an element, taken in turns."""
    best = [float("inf")] * len(calls)
    for _, (index, call) in itertools.product(range(rounds), enumerate(calls)):
        begin = time.perf_counter_ns()
        call()
        best[index] = min(best[index], time.perf_counter_ns() - begin)
    return [nanoseconds / SIZE for nanoseconds in best]


def measured(name: str, dtype: str, bits: int, rounds: int) -> tuple[float, float]:
    """Nanoseconds an element: ours, and NumPy's or SciPy's."""
    low, high = RANGES[name]
    random = np.random.default_rng(0)
    arrays = [random.uniform(low, high, SIZE).astype(DTYPES[dtype]) for _ in range(2 if name in PAIRED else 1)]
    ours, out, theirs = kernel(name, dtype, bits, processor_has_fma()), *(np.empty_like(arrays[0]) for _ in range(2))
    function = RIVALS.get(name) or getattr(np, name)
    mine, other = least_nanoseconds([ours(out, *arrays), lambda: function(*arrays, out=theirs)], rounds)
    return mine, other


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="functions; all by default")
    parser.add_argument("--rounds", type=int, default=200, help="calls of each, of which the fastest counts")
    parser.add_argument("--bits", type=int, default=BITS, help="size of a vector")
    options = parser.parse_args()
    initialize()
    print("| function | dtype | ns an element | NumPy, SciPy | ratio |\n|---|---|---|---|---|")
    for name, dtype in itertools.product(options.names or RANGES, DTYPES):
        ours, theirs = measured(name, dtype, options.bits, options.rounds)
        print(f"| {name} | {dtype} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
