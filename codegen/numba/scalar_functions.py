"""Functions that scalar code calls, by mangled name: `exp_f32`, `select_i64`, `convert_f32_i64`, `sum_step_f64`.

A name has the op (or reduction step) and the dtype of the operands; `convert` names source and target. Each has two forms:

- `native_helpers`: for kernels compiled by Numba. The definition in `codegen/vector_math` is printed as an LLVM function, which
  LLVM inlines into the kernel; loops that call it become vector code, and no library is called.
- `python_helpers`: for kernels run as ordinary Python, on NumPy scalars, with the NumPy meaning of the op record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.external import address_of, external_symbols
from adjit.codegen.llvm.scalar_calls import scalar_call
from adjit.codegen.process.off_main_thread import off_main_thread
from adjit.codegen.vector_math import half
from adjit.codegen.vector_math.functions import BINARY, UNARY
from adjit.codegen.vector_math.language import Value, select
from adjit.codegen.vector_math.llvm_printer import llvm_type, print_function
from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import DEFINITIONS, OpDefinition
from adjit.ir.types import SHORT_NAMES, is_half

Helper = Callable[..., Any]

_STEPS: dict[str, Callable[..., Any]] = {
    "sum_step": np.add, "product_step": np.multiply, "maximum_step": np.maximum, "minimum_step": np.minimum}


@dataclass(frozen=True, slots=True)
class HelperFunction:
    """One helper: the op or step `operation`; the short dtype names `types` and `result_type`; its LLVM module `text`."""

    name: str
    operation: str
    types: tuple[str, ...]
    result_type: str
    text: str

    @property
    def symbol(self) -> str:
        return _symbol(self.name)


def _symbol(name: str) -> str:
    return f"adjit_{name}"


@cache
@off_main_thread
def processor_has_fma() -> bool:
    """True if this processor has fused multiply-add."""
    import llvmlite.binding as llvm

    if llvm.get_process_triple().startswith(("aarch64", "arm64")):
        return True
    return bool(llvm.get_host_cpu_features().get("fma", False))


@cache
@off_main_thread
def vector_bits() -> int:
    """Bits of the vectors that LLVM uses for loops here. With 512-bit vectors LLVM uses half of that, which avoids a lower clock rate."""
    import llvmlite.binding as llvm

    return 256 if llvm.get_host_cpu_features().get("avx2", False) else 128


@cache
def helper(name: str) -> HelperFunction:
    """The helper with this mangled name; raises `KeyError` if there is none.

    >>> helper("convert_f32_i64").types
    ('f32',)
    """
    operation, _, type = name.rpartition("_")
    record = DEFINITIONS.get(operation)
    if record is not None and record.external is not None:
        return _external(name, record, type)
    definition: Callable[..., Value]
    types: tuple[str, ...]
    in_register = type in SHORT_NAMES and half.in_register(type) == type
    if in_register and operation in UNARY:
        definition, types = UNARY[operation], (type,)
    elif in_register and operation in BINARY:
        definition, types = BINARY[operation], (type, type)
    elif in_register and operation == "select":
        definition, types = select, ("bool", type, type)
    elif operation.startswith("convert_") and type in SHORT_NAMES:
        target, (operation, _, source) = type, operation.partition("_")
        definition, types = (lambda x: half.convert(x, source, target)), (half.in_register(source),)
    else:
        raise KeyError(f"no scalar function is called {name!r}")
    text, result_type = print_function(_symbol(name), definition, types, processor_has_fma(), vector_bits())
    return HelperFunction(name, operation, types, result_type, text)


def _external(name: str, record: OpDefinition, type: str) -> HelperFunction:
    """The helper of an op that a function of another library computes."""
    assert record.external is not None
    types = (type,) * (record.arity or 1)
    text = Builder()
    given = [f"%x{i}" for i in range(len(types))]
    text.ret(llvm_type(type), scalar_call(text, record.external, types, given, type))
    function = text.end_function(_symbol(name), ", ".join(f"{llvm_type(type)} {x}" for x in given), llvm_type(type), linkage="")
    return HelperFunction(name, record.name, types, type, "\n".join([*text.declarations, str(function)]))


def native_helpers(names: Iterable[str]) -> dict[str, Helper]:
    """The helpers as functions that Numba-compiled code can call, by mangled name. This imports Numba."""
    return {name: _border(name) or _native(name) for name in set(names)}


def python_helpers(names: Iterable[str]) -> dict[str, Helper]:
    """The helpers as Python functions on NumPy scalars, by mangled name."""
    return {name: _python(name) for name in set(names)}


_BORDERS: dict[str, Helper] = {
    "real": lambda z: z.real, "imag": lambda z: z.imag, "complex": complex, "conj": lambda z: z.conjugate()}
"""Functions between complex numbers and their parts, which Numba knows."""


@cache
def _border(name: str) -> Helper | None:
    operation = name.rpartition("_")[0]
    if operation not in _BORDERS:
        return None
    import numba

    function = _BORDERS[operation]
    return complex if function is complex else numba.njit(function)     # type: ignore[no-any-return]


@cache
def _native(name: str) -> Helper:
    import llvmlite.binding as llvm
    import numba
    from llvmlite import ir as llvm_ir
    from numba.extending import intrinsic

    function = helper(name)
    for symbol in external_symbols(function.text.encode()):      # Numba links each kernel, too
        llvm.add_symbol(symbol, address_of(symbol))
    llvm_types = {"f32": llvm_ir.FloatType(), "f64": llvm_ir.DoubleType()}

    def ir_type(type: str) -> Any:
        return llvm_types.get(type) or llvm_ir.IntType(int(llvm_type(type)[1:]))

    signature = numba.from_dtype(SHORT_NAMES[function.result_type])(*(numba.from_dtype(SHORT_NAMES[type]) for type in function.types))
    callee_type = llvm_ir.FunctionType(ir_type(function.result_type), [ir_type(type) for type in function.types])

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # Each in a library of its own: flags of the kernel's module (contraction) would break error-free sums.
        context.active_code_library.add_linking_library(_library(name, context.codegen()))
        callee = builder.module.globals.get(function.symbol) or llvm_ir.Function(builder.module, callee_type, function.symbol)
        return builder.call(callee, arguments)

    by_arity: dict[int, Helper] = {   # Numba takes the number of parameters from the function
        1: lambda typing, x: (signature, generate),
        2: lambda typing, x, y: (signature, generate),
        3: lambda typing, x, y, z: (signature, generate),
    }
    native: Helper = intrinsic(by_arity[len(function.types)])
    return native


@cache
def _library(name: str, codegen: Any) -> Any:
    """The helper as a Numba library, to link and inline."""
    import llvmlite.binding as llvm

    library = codegen.create_library(_symbol(name))
    library.add_llvm_module(llvm.parse_assembly(helper(name).text))
    library.finalize()
    return library


@cache
def _python(name: str) -> Helper:
    operation, _, type = name.rpartition("_")
    if operation in _BORDERS:
        return lambda *numbers: getattr(ops, operation).evaluate(*(np.asarray(x, SHORT_NAMES[type]) for x in numbers))[()]
    function = helper(name)
    result = SHORT_NAMES[function.result_type]
    if function.operation == "convert" and (source := _source(name)) != type and "f16" in source + type:
        return _half_conversion(SHORT_NAMES[source], SHORT_NAMES[type])
    evaluate = _STEPS[function.operation] if function.operation in _STEPS else getattr(ops, function.operation).evaluate
    attributes = {"dtype": result} if function.operation == "convert" else {}

    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            arrays = (np.asarray(x, SHORT_NAMES[type]) for x, type in zip(arguments, function.types, strict=True))
            return result.type(evaluate(*arrays, **attributes))

    call.__name__ = name
    return call


def _source(name: str) -> str:
    """The dtype that `convert_f16_f32` converts from."""
    return name.split("_")[1]


def _half_conversion(source: np.dtype, target: np.dtype) -> Helper:
    """The conversion of a half, which is a 16-bit integer in kernels."""
    given, made = (np.dtype(np.uint16) if is_half(dtype) else dtype for dtype in (source, target))

    def call(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(x, given).view(source).astype(target).view(made)[()]

    return call
