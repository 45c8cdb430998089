"""Scalar functions mean what the op records mean: every elementwise op and reduction step, every dtype, on the records' samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.each import for_each

from adjit.codegen.numba.scalar_functions import helper, native_helpers, python_helpers
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Rounding
from adjit.ir.ops.sampling import edge_pairs
from adjit.ir.types import SHORT_NAMES, short_name

# These round, each in its own way; how much is tested in test_vector_math.
ROUNDED = {name for name, definition in DEFINITIONS.items() if definition.rounding is Rounding.APPROXIMATE}
# Which of two equal zeros comes out is not specified.
EITHER_ZERO = {"relu", "maximum", "minimum", "fmax", "fmin", "maximum_step", "minimum_step"}
STEPS = {"sum_step": np.add, "product_step": np.multiply, "maximum_step": np.maximum, "minimum_step": np.minimum}

Arrays = tuple[np.ndarray, ...]


def loops(names: Sequence[str], functions: dict[str, Callable[..., Any]]) -> Callable[..., None]:
    """One function that applies each helper to arrays of its own: `f(*operands of the first, result of the first, ...)`."""
    parameters: list[str] = []
    body: list[str] = []
    for index, name in enumerate(names):
        operands = [f"x{index}_{i}" for i in range(len(helper(name).types))]
        parameters += [*operands, f"y{index}"]
        body += [f"    for i in range(len(y{index})):", f"        y{index}[i] = {name}({', '.join(f'{x}[i]' for x in operands)})"]
    scope = dict(functions)
    exec("\n".join([f"def loops({', '.join(parameters)}):", *body]), scope)
    return scope["loops"]


def run(names: Sequence[str], operands: Sequence[Arrays], *, native: bool) -> list[np.ndarray]:
    function = loops(names, (native_helpers if native else python_helpers)(names))
    if native:
        import numba
        function = numba.njit(function, error_model="numpy")
    flat = [tuple(np.ascontiguousarray(a).reshape(-1) for a in arrays) for arrays in operands]
    results = [np.empty(arrays[0].size, SHORT_NAMES[helper(name).result_type]) for name, arrays in zip(names, flat, strict=True)]
    function(*(array for arrays, result in zip(flat, results, strict=True) for array in (*arrays, result)))
    return [result.reshape(arrays[0].shape) for result, arrays in zip(results, operands, strict=True)]


def assert_same(operation: str, computed: np.ndarray, expected: np.ndarray) -> None:
    assert computed.dtype == expected.dtype
    if operation in ROUNDED and expected.dtype.kind == "f":
        info = np.finfo(expected.dtype)   # the formulas of some records lose subnormal results
        np.testing.assert_allclose(computed, expected, rtol=8 * float(info.eps), atol=float(info.tiny), err_msg=operation)
    else:
        np.testing.assert_array_equal(computed, expected, operation)
    if expected.dtype.kind == "f" and operation not in EITHER_ZERO:
        zeros = (expected == 0) & (computed == 0)
        np.testing.assert_array_equal(np.signbit(computed[zeros]), np.signbit(expected[zeros]), f"the sign of zero in {operation}")


def samples_by_helper(definition: OpDefinition) -> dict[str, Arrays]:
    """The operands of all samples of a dtype as one flat array each, by the helper that they are for."""
    found: dict[str, list[Arrays]] = {}
    for sample in definition.samples():
        name = f"{definition.name}_{short_name(sample.arrays[-1].dtype)}"
        if definition.name == "convert":
            name += f"_{short_name(sample.attrs['dtype'])}"
        found.setdefault(name, []).append(tuple(array.reshape(-1) for array in sample.arrays))
    return {name: tuple(map(np.concatenate, zip(*samples, strict=True))) for name, samples in found.items()}


ELEMENTWISE = [record for record in DEFINITIONS.values() if record.kind is Kind.ELEMENTWISE and record.name not in (
    "stop_gradient", "real", "imag", "complex", "conj")]
"""`stop_gradient` has no function: its scalar code is the operand. Parts of complex numbers are Numba's."""


@pytest.mark.share(3)
@pytest.mark.parametrize("part", range(6))
def test_op_means_what_its_record_says(part: int, exhaustive: bool) -> None:
    """Of each op the first dtype: numba takes a tenth of a second for a function. Native kernels, made of the same definitions, are tested
    with all of them."""
    found: dict[str, tuple[OpDefinition, Arrays]] = {}
    for definition in ELEMENTWISE[part::6]:
        samples = list(samples_by_helper(definition).items())
        found |= {name: (definition, arrays) for name, arrays in (samples if exhaustive else samples[:1])}

    def check(definition: OpDefinition, arrays: Arrays, computed: np.ndarray) -> None:
        attributes = {"dtype": computed.dtype} if definition.name == "convert" else {}
        with np.errstate(all="ignore"):
            expected = definition.evaluate(*arrays, **attributes)
        assert_same(definition.name, computed, expected)

    results = run(list(found), [arrays for _, arrays in found.values()], native=True)
    for_each(((name, (*case, computed)) for (name, case), computed in zip(found.items(), results, strict=True)), check)


@pytest.mark.parametrize("step", STEPS)
def test_reduction_step(step: str, exhaustive: bool) -> None:
    dtypes = [dtype for dtype in SHORT_NAMES if dtype != "bool" or step in EITHER_ZERO]
    names = [f"{step}_{dtype}" for dtype in (dtypes if exhaustive else ("f32", "i64"))]
    operands = [edge_pairs(SHORT_NAMES[helper(name).types[0]]) for name in names]
    for arrays, computed in zip(operands, run(names, operands, native=True), strict=True):
        with np.errstate(all="ignore"):
            assert_same(step, computed, STEPS[step](*arrays))


def test_python_helpers_on_flat_arrays() -> None:
    """The same text runs as ordinary Python, one operation of each kind."""
    chosen = ["exp_f32", "add_i8", "select_u16", "convert_f64_i32", "isnan_f64", "maximum_f32", "floor_divide_i64", "philox_u64",
              "sum_step_f64"]
    f64 = np.array([1.5, -2.5, 100.0])
    operands: list[Arrays] = [
        (np.float32([0.5, -1, np.nan]),), (np.int8([127, -128, 3]), np.int8([1, -1, 4])),
        (np.array([True, False, True]), np.uint16([1, 2, 3]), np.uint16([4, 5, 6])), (f64,), (np.array([np.nan, 1.0]),),
        (np.float32([1, np.nan]), np.float32([2, 3])), (np.array([7, -7, 7]), np.array([2, 2, 0])),
        (np.uint64([1, 2]), np.uint64([3, 4])), (f64, f64)]
    native, plain = (run(chosen, operands, native=native) for native in (True, False))
    for name, a, b in zip(chosen, native, plain, strict=True):
        assert_same(helper(name).operation, a, b)


def test_narrow_integers_wrap_around() -> None:
    names = ["add_i8", "multiply_u16", "subtract_u64", "negative_i32", "abs_i64", "square_i16", "power_i32"]
    operands: list[Arrays] = [
        (np.int8([127]), np.int8([1])), (np.uint16([65535]), np.uint16([2])), (np.uint64([0]), np.uint64([1])),
        (np.int32([-2**31]),), (np.int64([-2**63]),), (np.int16([256]),), (np.int32([3]), np.int32([40]))]
    values = [int(y[0]) for y in run(names, operands, native=True)]
    assert values == [-128, 65534, 2**64 - 1, -2**31, -2**63, 0, (3**40 + 2**31) % 2**32 - 2**31]


@pytest.mark.parametrize("expression", [
    "exp_f32(x)", "exp_f64(x)", "log_f32(x)", "tanh_f32(x)", "sigmoid_f64(x)", "erf_f32(x)", "convert_f32_i32(x)",
    "strong_multiply_f32(x, y)", "maximum_f32(x, y)", "select_f32(x < y, x, y)", "power_i32(x, y)"])
def test_a_loop_becomes_vector_code(expression: str) -> None:
    name = expression.partition("(")[0]
    code = kernel_code(f"""for i in range(lo, hi):
        x, y = a[i], b[i]
        out[i] = {expression}""", name)
    assert re.search(r"<\d+ x (float|double|i32)>", code)
    assert f"@adjit_{name}" not in code, "the function is inlined"


@pytest.mark.parametrize(("name", "expression"), [
    ("sin_f32", "sin_f32(a[i])"), ("cos_f64", "cos_f64(a[i])"), ("tan_f32", "tan_f32(a[i])"),
    ("power_f32", "power_f32(a[i], b[i])"), ("remainder_f32", "remainder_f32(a[i], b[i])")])
def test_a_function_with_a_long_branch_is_called_for_vectors(name: str, expression: str) -> None:
    code = kernel_code(f"""for i in range(lo, hi):
        out[i] = {expression}""", name)
    assert re.search(rf"call <\d+ x \w+> @adjit_{name}_v\d+\(", code)


@pytest.mark.parametrize(("step", "type"), [(s, t) for s in STEPS for t in ("f32", "f64", "i32")])
def test_a_reduction_becomes_vector_code(step: str, type: str) -> None:
    name = f"{step}_{type}"
    code = kernel_code(f"""total = a[lo]
    for i in range(lo + 1, hi):
        total = {name}(total, a[i])
    out[0] = total""", name)
    assert re.search(r"llvm.vector.reduce.\w+", code)


def kernel_code(body: str, name: str) -> str:
    """The optimised LLVM code of a kernel over pointers, compiled as kernels are, contraction allowed."""
    from numba import types
    from numba.core import compiler
    from numba.core.registry import cpu_target

    function = helper(name)
    scope = native_helpers([name])
    exec(f"def kernel(a, b, out, lo, hi):\n    {body}", scope)
    flags = compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.noalias = True
    flags.nrt, flags.error_model, flags.fastmath = False, "numpy", {"contract"}
    operand, result = (types.CPointer(getattr(types, SHORT_NAMES[type].name)) for type in (function.types[-1], function.result_type))
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    compiled = compiler.compile_extra(cpu_target.typing_context, cpu_target.target_context, scope["kernel"],
                                    (operand, operand, result, types.int64, types.int64), types.void, flags, {})
    return str(compiled.library.get_llvm_str())


@pytest.mark.parametrize("name", ["gamma_f32", "exp_f16", "exp", "convert_f32"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(KeyError, match="no scalar function is called"):
        helper(name)
