"""Prints a definition as a scalar LLVM function, made to be inlined: the vectoriser sees plain arithmetic."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from adjit.codegen.vector_math.language import Emitter, Number, Value, bits_of

_FLOAT = {
    "add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv", "remainder": "frem",
    # reassoc: a sum over a loop may be split into lanes; contract: and its products be fused
    "add_in_any_order": "fadd reassoc contract", "multiply_in_any_order": "fmul reassoc",
    "less": "fcmp olt", "less_equal": "fcmp ole", "greater": "fcmp ogt", "greater_equal": "fcmp oge",
    "equal": "fcmp oeq", "not_equal": "fcmp une",
}
_UNSIGNED = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "udiv", "remainder": "urem", "and": "and", "or": "or", "xor": "xor",
    "add_in_any_order": "add", "multiply_in_any_order": "mul", "shift_left": "shl", "shift_right": "lshr",
    "less": "icmp ult", "less_equal": "icmp ule", "greater": "icmp ugt", "greater_equal": "icmp uge",
    "equal": "icmp eq", "not_equal": "icmp ne",
}
_SIGNED = _UNSIGNED | {
    "divide": "sdiv", "remainder": "srem", "shift_right": "ashr",
    "less": "icmp slt", "less_equal": "icmp sle", "greater": "icmp sgt", "greater_equal": "icmp sge",
}
_BINARY = {"f": _FLOAT, "i": _SIGNED, "u": _UNSIGNED, "b": _UNSIGNED}
_FLOAT_INTRINSICS = {"absolute": "fabs", "fma": "fma", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
                     "copysign": "copysign", "maximum": "maximum", "minimum": "minimum"}
_UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 100000}'


def llvm_type(type: str) -> str:
    return {"f32": "float", "f64": "double", "bool": "i1"}.get(type) or f"i{type[1:]}"


class LLVMPrinter(Emitter):
    """The text of one function body."""

    def __init__(self, fused: bool) -> None:
        super().__init__(fused)
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.tables: dict[str, str] = {}
        self._block = "body"
        self._count = 0

    def literal(self, number: Number, type: str) -> str:
        if type == "bool":
            return "true" if number else "false"
        if type[0] != "f":
            bits = int(type[1:])
            return str(int(number) % (1 << bits))
        if type == "f32":   # written as the bits of the double, and has to be exact
            (number,) = struct.unpack("<f", struct.pack("<f", number))
        return f"0x{bits_of(number, 64):016X}"

    def instruction(self, code: str, type: str, arguments: tuple[Value, ...]) -> str:
        first, names = arguments[0], [a.name for a in arguments]
        source, target = llvm_type(first.type), llvm_type(type)
        if code in _BINARY[first.kind]:
            return self._assign(f"{_BINARY[first.kind][code]} {source} {names[0]}, {names[1]}")
        if code == "select":
            return self._assign(f"select i1 {names[0]}, {target} {names[1]}, {target} {names[2]}")
        if code == "bitcast":
            return self._assign(f"bitcast {source} {names[0]} to {target}")
        if code == "convert":
            return self._convert(first, type)
        if code == "invert":
            return self._assign(f"xor {source} {names[0]}, {'true' if first.type == 'bool' else '-1'}")
        if code == "negate":
            return self._assign(f"fneg {source} {names[0]}" if first.kind == "f" else f"sub {source} 0, {names[0]}")
        return self._call(f"llvm.{_FLOAT_INTRINSICS[code]}.{first.type}", type, arguments)

    def branch(self, mask: Value, slow: Callable[[], Sequence[Value | Number]], usual: tuple[Value, ...]) -> tuple[Value, ...]:
        label = self._fresh()
        self.lines += [f"  br i1 {mask.name}, label %rare{label}, label %join{label}, !prof !0", f"rare{label}:"]
        before, self._block = self._block, f"rare{label}"
        fixed = self.emit_inside(slow, usual)
        self.lines += [f"  br label %join{label}", f"join{label}:"]
        after, self._block = self._block, f"join{label}"
        return tuple(
            Value(self, self._assign(f"phi {llvm_type(old.type)} [{old.name}, %{before}], [{new.name}, %{after}]"), old.type)
            for new, old in zip(fixed, usual, strict=True))

    def lookup(self, table_name: str, table: Sequence[float], index: Value, type: str) -> Value:
        element = llvm_type(type)
        cells = ", ".join(f"{element} {self.literal(cell, type)}" for cell in table)
        self.tables[table_name] = f"@{table_name} = internal constant [{len(table)} x {element}] [{cells}], align 64"
        place = self._assign(f"getelementptr {element}, ptr @{table_name}, {llvm_type(index.type)} {index.name}")
        return Value(self, self._assign(f"load {element}, ptr {place}"), type)

    def _convert(self, x: Value, type: str) -> str:
        source, target = llvm_type(x.type), llvm_type(type)
        to_float, bits = type[0] == "f", int(type[1:])
        if x.kind == "f" and not to_float:
            return self._call(f"llvm.fpto{'si' if type[0] == 'i' else 'ui'}.sat.{target}.{x.type}", type, (x,))
        if x.kind == "f":
            code = "fpext" if bits > x.bits else "fptrunc"
        elif to_float:
            code = "sitofp" if x.kind == "i" else "uitofp"
        elif bits == x.bits:
            return x.name
        elif bits < x.bits:
            code = "trunc"
        else:
            code = "sext" if x.kind == "i" else "zext"
        return self._assign(f"{code} {source} {x.name} to {target}")

    def _call(self, intrinsic: str, type: str, arguments: tuple[Value, ...]) -> str:
        result = llvm_type(type)
        self.declarations.add(f"declare {result} @{intrinsic}({', '.join(llvm_type(a.type) for a in arguments)})")
        return self._assign(f"call {result} @{intrinsic}({', '.join(f'{llvm_type(a.type)} {a.name}' for a in arguments)})")

    def _assign(self, text: str) -> str:
        name = f"%v{self._fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def _fresh(self) -> int:
        self._count += 1
        return self._count


def print_function(symbol: str, definition: Callable[..., Value], types: Sequence[str], fused: bool) -> tuple[str, str]:
    """The LLVM module with `definition` as the function `symbol` on parameters of these types; and its result type."""
    printer = LLVMPrinter(fused)
    result = definition(*(Value(printer, f"%x{i}", type) for i, type in enumerate(types)))
    parameters = ", ".join(f"{llvm_type(type)} %x{i}" for i, type in enumerate(types))
    text = "\n".join([
        *sorted(printer.declarations), *printer.tables.values(),
        f"define {llvm_type(result.type)} @{symbol}({parameters}) alwaysinline nounwind {{", "body:", *printer.lines,
        f"  ret {llvm_type(result.type)} {result.name}", "}", _UNLIKELY, ""])
    return text, result.type
