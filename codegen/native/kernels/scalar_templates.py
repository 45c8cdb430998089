"""Templates of the instructions of elementwise ops and of reduction steps, on vectors of any width: printed once, then instantiated by text
replacement.

Kernels use the same functions in every copy of a loop's body. A `Template` is the text that a definition of `codegen/vector_math/` prints,
with marks for the operands and for names that must be unique.

Every op rounds on its own, so a value has the same bits in every kernel and loop that computes it, whatever the context. The derivative of
a maximum depends on that: it goes to the elements that equal the maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import cache, partial
from typing import TYPE_CHECKING

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.vector_math import arithmetic
from adjit.codegen.vector_math.functions import BINARY, UNARY
from adjit.codegen.vector_math.language import Value, convert, fma, select, slow_path
from adjit.codegen.vector_math.llvm_printer import UNLIKELY, LLVMPrinter, llvm_type
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import HALVES, short_name

if TYPE_CHECKING:
    from adjit.codegen.llvm import scalar_calls
    from adjit.codegen.vector_math import half
else:
    scalar_calls, half = LazyModule("adjit.codegen.llvm.scalar_calls"), LazyModule("adjit.codegen.vector_math.half")

NUMBER, BLOCK, OPERANDS = "\x01", "\x02", "\x03\x04\x05\x06"
"""Marks for unique names, for the block before the instructions, and for the operands."""

_MAX_INLINED_INSTRUCTIONS = 160
"""Maximum instructions of a function that is inlined; a longer one is called."""



MIN_EXACT_QUOTIENT = {32: 2.0**-30, 64: 2.0**-300}
"""Smallest |quotient| for which Markstein's residual does not underflow, for divisors in [MIN_EXACT_QUOTIENT^2, MIN_EXACT_QUOTIENT^-2]."""


def _larger(a: Value, b: Value) -> Value:
    """The larger number, like `arithmetic.larger`, but with either of two zeros: three instructions instead of six."""
    larger = select(a > b, a, b)
    return select(a.equals(a), larger, a) if a.kind == "f" else larger


def _smaller(a: Value, b: Value) -> Value:
    smaller = select(a < b, a, b)
    return select(a.equals(a), smaller, a) if a.kind == "f" else smaller


def _sum_with_product(total: Value, a: Value, b: Value) -> Value:
    """`total + a * b`."""
    return fma(a, b, total)


def _sum_with_strong_product(total: Value, cotangent: Value, local: Value) -> Value:
    return select(cotangent.equals(0.0), total, fma(cotangent, local, total))


def quotient_by_number(a: Value, divisor: Value, inverse: Value, zero: Value) -> Value:
    """`a / divisor`, correctly rounded, for a positive divisor and `inverse = 1 / divisor`: the product, corrected by its residual
    (Markstein 1990), unless an intermediate result underflows. Then, and if `inverse` and `zero` are NaN, a division is used."""
    q = a * inverse
    q = fma(-fma(q, divisor, -a), inverse, q)      # in this form the sign of a zero is preserved
    (result,) = slow_path(~(abs(q) >= MIN_EXACT_QUOTIENT[a.bits]) & a.differs(zero), lambda: (a / divisor,), q)
    return result


def _strong_quotient_by_number(a: Value, divisor: Value, inverse: Value, zero: Value) -> Value:
    return select(a.equals(0.0), 0.0, quotient_by_number(a, divisor, inverse, zero))


SUMS_WITH: dict[str, Callable[..., Value]] = {
    "multiply": _sum_with_product, "square": _sum_with_product, "strong_multiply": _sum_with_strong_product}
"""Functions `total + product`, for the ops that are products."""

QUOTIENTS_BY_NUMBER: dict[str, Callable[..., Value]] = {"divide": quotient_by_number, "strong_divide": _strong_quotient_by_number}
"""Quotients by a number with a known inverse."""

BY_CONSTANT: dict[str, Callable[..., Value]] = {
    "floor_divide": arithmetic.floor_divide_by_constant, "remainder": arithmetic.remainder_by_constant}
"""Divisions of integers of up to `MAX_BITS_BY_CONSTANT` bits by a constant."""

MAX_BITS_BY_CONSTANT = 32

_OTHERS: dict[str, Callable[..., Value]] = {
    "reduce_sum": arithmetic.add, "reduce_prod": arithmetic.multiply, "reduce_max": _larger, "reduce_min": _smaller,
    "reduce_and": arithmetic.logical_and, "reduce_or": arithmetic.logical_or, "maximum": _larger, "minimum": _smaller,
    **{f"{name}_by_number": definition for name, definition in QUOTIENTS_BY_NUMBER.items()},
    **{f"sum_with_{name}": definition for name, definition in SUMS_WITH.items()},
    **{f"{name}_by_constant": definition for name, definition in BY_CONSTANT.items()},
    "select": select, "stop_gradient": lambda x: x}
"""Definitions that are not in the tables of `codegen/vector_math/`, or that suit explicit vectors better."""


@dataclass(frozen=True, slots=True)
class Template:
    """Instructions with marks, and the name of their result. `last_block` is the block in which they end, if not the first one. `shared`
    holds the tables that they read, and the function that they call, if any.
    """

    text: str
    result: str
    lines: int
    last_block: str = ""
    declarations: frozenset[str] = frozenset()
    shared: dict[str, Definition] = field(default_factory=dict)


def template_of(op: Op, width: int, target: Target, by_constant: bool = False) -> Template:
    """The template of an elementwise op, or of the step that adds an element to a reduction (operands: accumulator, element).
    `by_constant`: the last operand is a literal."""
    if op.definition.kind is Kind.REDUCTION:
        return template(op.name, (short_name(op.result.type.dtype),) * 2, "", width, target)
    types = tuple([short_name(value.type.dtype) for value in op.operands])
    if op.definition.external is not None:
        return _external(op.name, op.definition.external, types, short_name(op.result.type.dtype), width)
    dtype = op.operands[0].type.dtype
    if by_constant and op.name in BY_CONSTANT and dtype.kind in "iu" and 8 * dtype.itemsize <= MAX_BITS_BY_CONSTANT:
        return template(f"{op.name}_by_constant", types, "", width, target)
    return template(op.name, types, short_name(op.result.type.dtype) if op.name == "convert" else "", width, target)


@cache
def template(name: str, types: tuple[str, ...], converted: str, width: int, target: Target) -> Template:
    """The template of the op with this name on operands of these dtypes; `converted` is the result dtype of a conversion."""
    if name in _BORDERS:
        return _BORDERS[name](types[0], width)
    printer = LLVMPrinter(target.fma, width, target.avx512, prefix=f"t{NUMBER}.", label=f"{NUMBER}.", block=BLOCK, half=target.f16c)
    operands = [Value(printer, mark, "u16" if type in HALVES else type) for mark, type in zip(OPERANDS, types, strict=False)]
    result = _definition(name, types[0], converted)(*operands)
    if len(printer.lines) > _MAX_INLINED_INSTRUCTIONS and not target.is_gpu:
        return _call(name, types, result, printer)
    text = "\n".join(printer.lines)
    last = printer.block if printer.block != BLOCK else ""
    return Template(text, result.name, len(printer.lines), last, frozenset(printer.declarations), _shared(printer, "!prof" in text))


@cache
def _external(name: str, external: tuple[str, ...], types: tuple[str, ...], result: str, width: int) -> Template:
    """A call of a function that calls a function of another library for each lane."""
    lanes = "" if width == 1 else f"x{width}"
    text = Builder()
    vectors = [llvm_type(type) if width == 1 else f"<{width} x {llvm_type(type)}>" for type in (*types, result)]
    returned = "poison"
    for lane in range(width):
        names = [f"%x{i}" if width == 1 else text.let(f"extractelement {vector} %x{i}, i64 {lane}")
                 for i, vector in enumerate(vectors[:-1])]
        made = scalar_calls.scalar_call(text, external, types, names, result)
        returned = made if width == 1 else text.let(f"insertelement {vectors[-1]} {returned}, {llvm_type(result)} {made}, i64 {lane}")
    text.ret(vectors[-1], returned)
    symbol = f"adjit_{name}_{types[0]}{lanes}"
    function = text.end_function(symbol, ", ".join(f"{vector} %x{i}" for i, vector in enumerate(vectors[:-1])), vectors[-1],
                                 attributes="noinline nounwind")
    arguments = ", ".join(f"{vector} {mark}" for vector, mark in zip(vectors[:-1], OPERANDS, strict=False))
    return Template(f"  %t{NUMBER} = call {vectors[-1]} @{symbol}({arguments})", f"%t{NUMBER}", 60, declarations=text.declarations,
                    shared={symbol: function})


def _part(index: int, type: str, width: int) -> Template:
    """Every second lane, from `index` on."""
    scalar = llvm_type(_PART_OF[type])
    if width == 1:
        return Template(f"  %t{NUMBER} = extractelement <2 x {scalar}> {OPERANDS[0]}, i32 {index}", f"%t{NUMBER}", 1)
    return _shuffle(f"<{2 * width} x {scalar}>", OPERANDS[0], "poison", range(index, 2 * width, 2))


def _interleaved(type: str, width: int) -> Template:
    scalar = llvm_type(type)
    if width > 1:
        return _shuffle(f"<{width} x {scalar}>", OPERANDS[0], OPERANDS[1], (lane // 2 + (lane % 2) * width for lane in range(2 * width)))
    return Template(f"  %t{NUMBER}.r = insertelement <2 x {scalar}> poison, {scalar} {OPERANDS[0]}, i32 0\n"
                    f"  %t{NUMBER} = insertelement <2 x {scalar}> %t{NUMBER}.r, {scalar} {OPERANDS[1]}, i32 1", f"%t{NUMBER}", 2)


def _conjugate(type: str, width: int) -> Template:
    vector = f"<{2 * width} x {llvm_type(_PART_OF[type])}>"
    lanes = ", ".join(f"i32 {lane + (lane % 2) * 2 * width}" for lane in range(2 * width))
    return Template(f"  %t{NUMBER}.n = fneg {vector} {OPERANDS[0]}\n"
                    f"  %t{NUMBER} = shufflevector {vector} {OPERANDS[0]}, {vector} %t{NUMBER}.n, <{2 * width} x i32> <{lanes}>",
                    f"%t{NUMBER}", 2)


def _shuffle(vector: str, a: str, b: str, lanes: Iterable[int]) -> Template:
    order = [f"i32 {lane}" for lane in lanes]
    return Template(f"  %t{NUMBER} = shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> <{', '.join(order)}>", f"%t{NUMBER}", 1)


_PART_OF = {"c64": "f32", "c128": "f64"}
_BORDERS: dict[str, Callable[[str, int], Template]] = {
    "real": partial(_part, 0), "imag": partial(_part, 1), "complex": _interleaved, "conj": _conjugate}
"""Ops between complex numbers in memory, whose parts alternate, and reals: permutations of lanes."""


def _shared(printer: LLVMPrinter, branches: bool) -> dict[str, Definition]:
    shared = {name: Definition(name, table) for name, table in printer.tables.items()}
    return shared | {"!0": Definition("!0", UNLIKELY)} if branches else shared


def _definition(name: str, source: str, converted: str) -> Callable[..., Value]:
    if name == "convert":
        of_halves = source in HALVES or converted in HALVES
        return partial(half.convert, source=source, target=converted) if of_halves else partial(convert, type=converted)
    return _OTHERS.get(name) or UNARY.get(name) or BINARY[name]


def _call(name: str, types: tuple[str, ...], result: Value, printer: LLVMPrinter) -> Template:
    """A call of a function with these instructions."""
    symbol = f"adjit_{name}_{types[0]}x{printer.width}" + ("" if printer.fused else "_unfused")
    returned = printer.type_text(result.type)
    operands = [printer.type_text(type) for type in types]
    parameters = ", ".join([f"{operand} %x{i}" for i, operand in enumerate(operands)])
    lines = [_unmarked(line) for line in printer.lines]
    function = Function(symbol, parameters, lines, result=returned, returned=f"{returned} {_unmarked(result.name)}",
                        attributes="noinline nounwind willreturn memory(none)", uses=printer.tables)
    arguments = ", ".join([f"{operand} {mark}" for operand, mark in zip(operands, OPERANDS, strict=False)])
    return Template(f"  %t{NUMBER} = call {returned} @{symbol}({arguments})", f"%t{NUMBER}", 60,
                    declarations=frozenset(printer.declarations), shared={symbol: function, **_shared(printer, True)})


def _unmarked(text: str) -> str:
    """The instructions without marks, as the body of a function with the parameters `%x0`, `%x1`, ..."""
    for i, mark in enumerate(OPERANDS):
        text = text.replace(mark, f"%x{i}")
    return text.replace(f"{NUMBER}.", "").replace(BLOCK, "entry")
