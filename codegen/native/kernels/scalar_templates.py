"""The instructions of elementwise ops and of steps of reductions, on vectors of any width: printed once, then put in by text replacement.

Kernels hold the same functions over and over, in every copy of a loop's body. A `Template` is the text that a definition of
`codegen/vector_math/` prints, with marks for the operands and for what has to be named anew each time.

Every op rounds on its own: where several kernels or loops compute a value, it has the same bits in each, whatever else they do with it.
The derivative of a maximum depends on that: it goes to the elements that are equal to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cache, partial

from adjit.codegen.llvm.module import Definition, Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.vector_math import arithmetic
from adjit.codegen.vector_math.functions import BINARY, UNARY
from adjit.codegen.vector_math.language import Value, convert, fma, select, slow_path
from adjit.codegen.vector_math.llvm_printer import UNLIKELY, LLVMPrinter
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Op
from adjit.ir.types import short_name

NUMBER, BLOCK, OPERANDS = "\x01", "\x02", "\x03\x04\x05\x06"
"""Marks: of names, of the block before the instructions, of the operands."""

_MAX_INLINED_INSTRUCTIONS = 160
"""Instructions of a function that is printed in place; a longer one is called."""



MIN_EXACT_QUOTIENT = {32: 2.0**-30, 64: 2.0**-300}
"""Smallest |quotient| for which Markstein's residual does not underflow, for divisors in [MIN_EXACT_QUOTIENT^2, MIN_EXACT_QUOTIENT^-2]."""


def _larger(a: Value, b: Value) -> Value:
    """As `arithmetic.larger`, but that of two zeros it takes any: three instructions instead of six."""
    larger = select(a > b, a, b)
    return select(a.equals(a), larger, a) if a.kind == "f" else larger


def _smaller(a: Value, b: Value) -> Value:
    smaller = select(a < b, a, b)
    return select(a.equals(a), smaller, a) if a.kind == "f" else smaller


def _sum_with_product(total: Value, a: Value, b: Value) -> Value:
    """The sum with one more product."""
    return fma(a, b, total)


def _sum_with_strong_product(total: Value, cotangent: Value, local: Value) -> Value:
    return select(cotangent.equals(0.0), total, fma(cotangent, local, total))


def quotient_by_number(a: Value, divisor: Value, inverse: Value, zero: Value) -> Value:
    """`a / divisor` for a positive divisor and `inverse = 1 / divisor`: a product, corrected by what it leaves, is the rounded quotient
    (Markstein 1990), as long as nothing that is too small for it comes up; else it is divided, as it is where `inverse` and `zero` are
    NaN."""
    q = a * inverse
    q = fma(-fma(q, divisor, -a), inverse, q)      # so that zeros keep their sign
    (result,) = slow_path(~(abs(q) >= MIN_EXACT_QUOTIENT[a.bits]) & a.differs(zero), lambda: (a / divisor,), q)
    return result


def _strong_quotient_by_number(a: Value, divisor: Value, inverse: Value, zero: Value) -> Value:
    return select(a.equals(0.0), 0.0, quotient_by_number(a, divisor, inverse, zero))


SUMS_WITH: dict[str, Callable[..., Value]] = {
    "multiply": _sum_with_product, "square": _sum_with_product, "strong_multiply": _sum_with_strong_product}
"""Sums with one more product, for the ops that are products."""

QUOTIENTS_BY_NUMBER: dict[str, Callable[..., Value]] = {"divide": quotient_by_number, "strong_divide": _strong_quotient_by_number}
"""Quotients by a number whose inverse is known."""

_OTHERS: dict[str, Callable[..., Value]] = {
    "reduce_sum": arithmetic.add, "reduce_prod": arithmetic.multiply, "reduce_max": _larger, "reduce_min": _smaller,
    "reduce_and": arithmetic.logical_and, "reduce_or": arithmetic.logical_or, "maximum": _larger, "minimum": _smaller,
    **{f"{name}_by_number": definition for name, definition in QUOTIENTS_BY_NUMBER.items()},
    **{f"sum_with_{name}": definition for name, definition in SUMS_WITH.items()},
    "select": select, "stop_gradient": lambda x: x}
"""Definitions that are not in the tables of `codegen/vector_math/`, or are better for vectors that are written out."""


@dataclass(frozen=True, slots=True)
class Template:
    """Instructions with marks, and the name of what they give; `last_block`: the block in which they end, where it is another one. `shared`
    are the tables that they read, and the function that they call, where there is one.
    """

    text: str
    result: str
    lines: int
    last_block: str = ""
    declarations: frozenset[str] = frozenset()
    shared: dict[str, Definition] = field(default_factory=dict)


def template_of(op: Op, width: int, target: Target) -> Template:
    """The template of an elementwise op, or of the step that takes one more element into a reduction (operands: so far, the element)."""
    if op.definition.kind is Kind.REDUCTION:
        return template(op.name, (short_name(op.result.type.dtype),) * 2, "", width, target)
    converted = short_name(op.result.type.dtype) if op.name == "convert" else ""
    return template(op.name, tuple([short_name(value.type.dtype) for value in op.operands]), converted, width, target)


@cache
def template(name: str, types: tuple[str, ...], converted: str, width: int, target: Target) -> Template:
    """The template of the op with this name on operands of these dtypes; `converted`: the dtype that a conversion gives."""
    printer = LLVMPrinter(target.fma, width, target.avx512, prefix=f"t{NUMBER}.", label=f"{NUMBER}.", block=BLOCK)
    result = _definition(name, converted)(*[Value(printer, mark, type) for mark, type in zip(OPERANDS, types, strict=False)])
    if len(printer.lines) > _MAX_INLINED_INSTRUCTIONS:
        return _call(name, types, result, printer)
    text = "\n".join(printer.lines)
    last = printer.block if printer.block != BLOCK else ""
    return Template(text, result.name, len(printer.lines), last, frozenset(printer.declarations), _shared(printer, "!prof" in text))


def _shared(printer: LLVMPrinter, branches: bool) -> dict[str, Definition]:
    shared = {name: Definition(name, table) for name, table in printer.tables.items()}
    return shared | {"!0": Definition("!0", UNLIKELY)} if branches else shared


def _definition(name: str, converted: str) -> Callable[..., Value]:
    if name == "convert":
        return partial(convert, type=converted)
    return _OTHERS.get(name) or UNARY.get(name) or BINARY[name]


def _call(name: str, types: tuple[str, ...], result: Value, printer: LLVMPrinter) -> Template:
    """A call of the function with these instructions."""
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
    """Instructions that stand alone in a function with the parameters `%x0`, `%x1`, ..."""
    for i, mark in enumerate(OPERANDS):
        text = text.replace(mark, f"%x{i}")
    return text.replace(f"{NUMBER}.", "").replace(BLOCK, "entry")
