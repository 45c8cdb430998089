"""The elementary functions: 2 ulp in float32, 4 ulp in float64, special values exact, no library called."""

from __future__ import annotations

import ctypes
import itertools
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm
import numpy as np
import pytest
from support import special_references
from support.accuracy import LONG, double_points, edges, errors_in_ulps, point_pairs, single_points
from support.project import ROOT

from adjit.codegen.numba.scalar_functions import native_helpers, processor_has_fma, vector_bits
from adjit.codegen.vector_math.functions import BINARY, UNARY
from adjit.codegen.vector_math.language import FORMATS, Value
from adjit.codegen.vector_math.llvm_printer import UNLIKELY, LLVMPrinter, llvm_type, print_function
from adjit.ir import special_functions
from adjit.ir.definition import DEFINITIONS, Rounding

DTYPES = {"f32": np.float32, "f64": np.float64}
BOUND = {"f32": 2.0, "f64": 4.0}

# Where float64 is looked at closely.
RANGES = {
    "exp": (-746, 710), "exp2": (-1076, 1025), "expm1": (-40, 710), "log": (0.5, 2), "log2": (0.5, 2), "log10": (0.5, 2), "log1p": (-1, 3),
    "sin": (-1000, 1000), "cos": (-1000, 1000), "tan": (-1000, 1000), "tanh": (-20, 20), "sinh": (-711, 711), "cosh": (-711, 711),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-4, 4), "arcsinh": (-4, 4), "arccosh": (1, 4), "arctanh": (-1, 1),
    "cbrt": (0.1, 10), "sigmoid": (-750, 40), "sqrt": (0, 4),
}
SPECIAL = {
    "erf": (-6, 6), "erfc": (-6, 28), "erfcx": (-27, 30), "erfinv": (-1, 1), "lgamma": (-8, 12), "digamma": (-8, 12), "trigamma": (-8, 12),
    "i0e": (-40, 40), "i1e": (-40, 40),
}
RANGES |= SPECIAL
PAIRED = ("arctan2", "hypot", "power", "logaddexp")


def test_every_function_that_is_not_exact_is_compared() -> None:
    """With others here, and for its time and its errors by the benchmarks."""
    rounded = {name for name, definition in DEFINITIONS.items() if definition.rounding is Rounding.APPROXIMATE}
    assert {*RANGES, *PAIRED} == rounded | {"sqrt"}
    assert runpy.run_path(str(ROOT / "benchmarks" / "vector_math.py"))["RANGES"].keys() == rounded


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(x, y) + np.log1p(np.exp(-np.where(x == y, 0, abs(x - y))))


def _special(name: str) -> Callable[..., np.ndarray]:
    """In long double by other methods; in float64, for float32, as the record means it, which is tested against the former."""
    def call(x: np.ndarray) -> np.ndarray:
        return np.asarray(getattr(special_functions if x.dtype == np.float64 else special_references, name)(x))
    return call


REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "sigmoid": _sigmoid, "logaddexp": _logaddexp, **{name: _special(name) for name in SPECIAL}}


def reference(name: str) -> Callable[..., np.ndarray]:
    return REFERENCES.get(name) or getattr(np, name)


def native_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, reloc="pic", codemodel="small", jit=True)


class Loop:
    """A function over arrays, compiled on its own."""

    def __init__(self, name: str, type: str, fused: bool = True) -> None:
        arity = 1 if name in UNARY else 2
        function, _ = print_function("function", (UNARY | BINARY)[name], [type] * arity, fused, vector_bits())
        element = {"f32": "float", "f64": "double"}[type]
        self.link(name, f"{function}\n{loop_text(element, element, arity, 1)}", arity)

    def link(self, name: str, text: str, arity: int) -> None:
        machine = native_machine()
        self.jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
        module = llvm.parse_assembly(text)
        module.verify()
        self.library = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module)).export_symbol("loop").link(self.jit, name)
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (arity + 1))(self.library["loop"])

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        out = np.empty_like(arrays[0])
        self.run(out.size, *(a.ctypes.data for a in (out, *arrays)))
        return out


class VectorLoop(Loop):
    """A function over arrays of whole vectors of so many bits, printed as kernels of native programs have it."""

    def __init__(self, name: str, type: str, bits: int, avx512: bool) -> None:
        arity = 1 if name in UNARY else 2
        printer = LLVMPrinter(True, bits // FORMATS[int(type[1:])].bits, avx512)
        result = (UNARY | BINARY)[name](*(Value(printer, f"%x{i}", type) for i in range(arity)))
        vector = printer.type_text(type)
        parameters = ", ".join(f"{vector} %x{i}" for i in range(arity))
        self.link(name, "\n".join([
            *sorted(printer.declarations), *printer.tables.values(), f"define {vector} @function({parameters}) {{", "body:", *printer.lines,
            f"  ret {vector} {result.name}", "}", loop_text(llvm_type(type), vector, arity, printer.width), UNLIKELY]), arity)


def loop_text(element: str, vector: str, arity: int, width: int) -> str:
    loads = "".join(f"  %p{i} = getelementptr {element}, ptr %a{i}, i64 %i\n  %x{i} = load {vector}, ptr %p{i}, align 4\n"
                    for i in range(arity))
    return f"""define void @loop(i64 %n, ptr %out{''.join(f', ptr %a{i}' for i in range(arity))}) {{
entry:
  br label %body
body:
  %i = phi i64 [0, %entry], [%next, %body]
{loads}  %y = call {vector} @function({', '.join(f'{vector} %x{i}' for i in range(arity))})
  %p = getelementptr {element}, ptr %out, i64 %i
  store {vector} %y, ptr %p, align 4
  %next = add i64 %i, {width}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %body, label %end
end:
  ret void
}}"""


def beside_cancellation(name: str, arguments: Sequence[np.ndarray], exact: np.ndarray) -> np.ndarray | None:
    """The larger term where the last sum cancels: next to the zeros of logaddexp, and of lgamma and digamma of negative numbers.

    In float32 those of lgamma and digamma are right, too.
    """
    x = arguments[0]
    if name == "logaddexp":
        other = np.maximum(*arguments)
    elif name == "lgamma" and x.dtype == LONG:
        other = np.where((x < -0.5) & np.isfinite(exact), special_references.positive_lgamma(abs(x)), 0)
        return np.where(other == 0, 0, np.maximum(1, np.maximum(abs(other), abs(exact + other))))
    elif name == "digamma" and x.dtype == LONG:
        other = np.where((x < 0) & np.isfinite(exact), special_references.positive_digamma(1 - np.minimum(x, 0)), 0)
        return np.where(other == 0, 0, np.maximum(abs(other), abs(exact - other)))
    else:
        return None
    return np.maximum(abs(other), abs(exact - other))


def worst_error(name: str, computed: Callable[..., np.ndarray], arrays: tuple[np.ndarray, ...]) -> tuple[float, tuple[float, ...]]:
    """The largest error, and where it is."""
    return worst_errors(name, [computed], arrays)[0]


def worst_errors(name: str, functions: Sequence[Callable[..., np.ndarray]],
                 arrays: tuple[np.ndarray, ...]) -> list[tuple[float, tuple[float, ...]]]:
    """That of several: the reference is the slow part."""
    wide = np.float64 if arrays[0].dtype == np.float32 else LONG
    with np.errstate(all="ignore"):
        arguments = [a.astype(wide) for a in arrays]
        exact = reference(name)(*arguments)
        beside = beside_cancellation(name, arguments, exact)
        errors = [errors_in_ulps(computed(*arrays), exact, beside) for computed in functions]
    places = [int(np.argmax(error)) for error in errors]
    return [(float(error[place]), tuple(float(a[place]) for a in arrays)) for error, place in zip(errors, places, strict=True)]


needs_long_double = pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="no wider format than float64 here")
FUSED = [pytest.param(True, marks=pytest.mark.skipif(not processor_has_fma(), reason="no fma here")), False]


@pytest.mark.share(3)
@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("name", RANGES)
def test_float32_is_within_2_ulp(name: str, fused: bool) -> None:
    """On a sample; `make accuracy` takes all of float32."""
    error, place = worst_error(name, Loop(name, "f32", fused), (single_points(20011),))
    assert error <= BOUND["f32"], place


@pytest.mark.slow
def test_every_float32_is_within_2_ulp(exhaustive: bool) -> None:
    """As `make accuracy`: the functions of one argument, a minute each."""
    if not exhaustive:
        pytest.skip("--exhaustive, for half an hour")
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "vector_math_errors.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.share(3)
@needs_long_double
@pytest.mark.parametrize("name", RANGES)
def test_float64_is_within_4_ulp(name: str, exhaustive: bool) -> None:
    """With and without fma; and the NumPy formulas of the records, which lack error-free sums and are a little less exact."""
    functions: list[Callable[..., np.ndarray]] = [Loop(name, "f64", fused) for fused in (processor_has_fma(), False)]
    functions += [getattr(special_functions, name)] if name in SPECIAL else []
    count = 10_000 if exhaustive or name not in SPECIAL else 800        # the references of those take seconds
    results = worst_errors(name, functions, (double_points(*RANGES[name], count),))
    for (error, place), bound in zip(results, [BOUND["f64"]] * 2 + [20 if name == "digamma" else 8], strict=False):
        assert error <= bound, place


@needs_long_double
@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize(("name", "type"), [*itertools.product(PAIRED, DTYPES)])
def test_functions_of_two_are_within_bounds(name: str, type: str, fused: bool) -> None:
    error, place = worst_error(name, Loop(name, type, fused), point_pairs(DTYPES[type], 10_000, name == "power"))
    assert error <= BOUND[type], place


@needs_long_double
@pytest.mark.parametrize("fused", FUSED)
def test_power_is_as_exact_beside_one(fused: bool) -> None:
    """Where a part of the table ends, large exponents would show a logarithm that has cancelled."""
    g = np.random.default_rng(0)
    x = 1 + g.uniform(-0.06, 0.06, 100_000)
    y = g.uniform(-1, 1, x.size) * 700 / np.abs(np.log(x)).clip(1e-6)
    error, place = worst_error("power", Loop("power", "f64", fused), (x, y))
    assert error <= 1.0, place


@pytest.mark.skipif(not processor_has_fma(), reason="here `Loop` and kernels differ in fma")
@pytest.mark.parametrize("type", DTYPES)
def test_kernels_give_the_same_bits(type: str) -> None:
    """Inlined, vectorised, and with contraction allowed around: nothing of that touches a function."""
    import numba

    names = ("exp", "log", "log1p", "sin", "tan", "tanh", "arcsinh", "cbrt", "sigmoid", "erf", "erfc", "lgamma")
    with np.errstate(invalid="ignore"):   # signalling NaN
        x = single_points(200_003).astype(DTYPES[type])
    body = "".join(f"    for i in range(x.size):\n        out[{row}, i] = {name}_{type}(x[i])\n" for row, name in enumerate(names))
    scope = native_helpers([f"{name}_{type}" for name in names])
    exec(f"def kernel(x, out):\n{body}", scope)
    out = np.empty((len(names), x.size), x.dtype)
    numba.njit(scope["kernel"], error_model="numpy", fastmath={"contract"})(x, out)
    for name, row in zip(names, out, strict=True):
        alone = Loop(name, type)(x)
        np.testing.assert_array_equal(np.isnan(row), np.isnan(alone), name)
        number = ~np.isnan(row)
        np.testing.assert_array_equal(row[number].view(f"i{x.itemsize}"), alone[number].view(f"i{x.itemsize}"), name)


@pytest.mark.skipif(not llvm.get_host_cpu_features().get("avx512f", False), reason="no AVX-512 here")
@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("name", [*RANGES, *PAIRED])
def test_instructions_of_avx512_give_the_same_bits(name: str, type: str) -> None:
    """As those of AVX2, for vectors of all sizes."""
    if name in UNARY:
        arrays = (single_points(1_000_003) if type == "f32" else double_points(*RANGES[name], 2_000),)
    else:
        arrays = point_pairs(DTYPES[type], 2_000, name == "power")
    whole = arrays[0].size // 16 * 16
    arrays = tuple(array[:whole] for array in arrays)
    expected = VectorLoop(name, type, 256, avx512=False)(*arrays)
    for bits in (128, 256, 512):
        computed = VectorLoop(name, type, bits, avx512=True)(*arrays)
        same = (computed.view(f"i{computed.itemsize}") == expected.view(f"i{computed.itemsize}")) | np.isnan(computed) & np.isnan(expected)
        assert same.all(), (bits, [a[~same][:3] for a in arrays])


@pytest.mark.parametrize("type", DTYPES)
def test_exact_results(type: str) -> None:
    dtype = DTYPES[type]
    f = FORMATS[64 if type == "f64" else 32]
    k = np.arange(1 - f.bias, f.bias + 1).astype(dtype)
    np.testing.assert_array_equal(Loop("log2", type)(Loop("exp2", type)(k)), k)
    np.testing.assert_array_equal(Loop("exp2", type)(k), np.ldexp(dtype(1), k.astype(np.int32)))
    roots = np.arange(1, 200)
    np.testing.assert_array_equal(Loop("cbrt", type)((roots**3).astype(dtype)), roots)
    if type == "f64":
        tens = np.arange(0, 11)
        np.testing.assert_array_equal(Loop("log10", type)((10**tens).astype(dtype)), tens)
    base, exponent = np.repeat(np.arange(-12, 13), 6), np.tile(np.arange(6), 25)
    np.testing.assert_array_equal(Loop("power", type)(base.astype(dtype), exponent.astype(dtype)), base**exponent)
    x = edges(dtype)
    np.testing.assert_array_equal(Loop("power", type)(x, np.ones_like(x)), x)


@pytest.mark.parametrize("type", DTYPES)
def test_odd_and_even_functions(type: str) -> None:
    """Bit for bit, and with it the sign of zero."""
    x = edges(DTYPES[type])
    x = x[~np.isnan(x)]
    bits = f"i{x.itemsize}"
    for name in ("sin", "tan", "sinh", "tanh", "arcsin", "arctan", "arcsinh", "arctanh", "erf", "erfinv", "i1e", "cbrt"):
        loop = Loop(name, type)
        usable = ~np.isnan(loop(x))
        np.testing.assert_array_equal(loop(-x)[usable].view(bits), (-loop(x))[usable].view(bits), name)
    for name in ("cos", "cosh"):
        loop = Loop(name, type)
        usable = ~np.isnan(loop(x))
        np.testing.assert_array_equal(loop(-x)[usable].view(bits), loop(x)[usable].view(bits), name)


def called(name: str, type: str) -> list[str]:
    """What the machine code of a function calls, its own vector variant apart."""
    text, _ = print_function("function", (UNARY | BINARY)[name], [type] * (1 if name in UNARY else 2), processor_has_fma(), vector_bits())
    assembly = native_machine().emit_assembly(llvm.parse_assembly(text))
    return re.findall(r"^\s+(?:callq?|jmpq?|bl?)\s+(?!function_v)([A-Za-z_]\w*)", assembly, re.MULTILINE)


@pytest.mark.parametrize("type", DTYPES)
def test_nothing_is_called(type: str) -> None:
    names = (*RANGES, *PAIRED, "remainder", "floor", "rint")
    assert {name: called(name, type) for name in names} == {name: [] for name in names}


def test_equal_instructions_are_emitted_once() -> None:
    """sin and cos of one x share their reduction, the rare branch included."""
    def lines(*names: str) -> int:
        printer = LLVMPrinter(fused=True)
        x = Value(printer, "%x", "f32")
        for name in names:
            UNARY[name](x)
        return len(printer.lines)

    assert lines("sin", "sin") == lines("sin")
    assert lines("sin", "cos") < lines("sin") + 10
    assert lines("sin", "cos") < lines("sin") + lines("exp")


def test_values_of_different_types_do_not_mix() -> None:
    printer = LLVMPrinter(fused=True)
    with pytest.raises(TypeError, match="got a value of type f64, expected f32"):
        Value(printer, "%x", "f32") + Value(printer, "%y", "f64")
