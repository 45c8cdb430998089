"""Printer of a definition as an LLVM function that the loop vectoriser can handle.

Most definitions become one scalar function that is inlined: the vectoriser sees plain arithmetic, and flattens `slow_path` branches. If a
branch is long, or reads a table (which would become a gather for every element), the scalar function stays a call, and names its vector
variant, which keeps the branch: it is taken if any lane needs it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from adjit.codegen.vector_math.language import Emitter, Number, Value, bits_of, like, select

_FLOAT = {
    "add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv",
    # reassoc: a sum over a loop may be split into lanes; contract: products may be fused into it
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
_AVX512 = {"scale": ("scalef", ""), "exponent": ("getexp", ""), "mantissa": ("getmant", "15")}
"""AVX-512 instruction and immediate operand: the interval 3/4..3/2, 1 for -0.0, and NaN for negative numbers."""
_MAX_INLINED_INSTRUCTIONS = 60
"""Maximum instructions of a branch that the vectoriser may run for all elements; the longest of these branches (in power) has 30."""
UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 100000}'


def llvm_type(type: str) -> str:
    return {"f32": "float", "f64": "double", "bool": "i1"}.get(type) or f"i{type[1:]}"


class LLVMPrinter(Emitter):
    """The text of one function body, `width` elements at a time (1: scalars); `avx512`, `half`: for a processor that has it, or
    conversions of float16. Names of values begin with `prefix`, block labels count from `label`, and the first block is `block`.
    """

    def __init__(self, fused: bool, width: int = 1, avx512: bool = False, prefix: str = "v", label: str = "", block: str = "body",
                 half: bool = False) -> None:
        super().__init__(fused)
        self.width, self.avx512, self.has_half_instructions = width, avx512, half
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.tables: dict[str, str] = {}
        self.longest_branch = 0
        self.block = block
        self._prefix, self._label = f"%{prefix}", label
        self._count = 0

    def type_text(self, type: str) -> str:
        return llvm_type(type) if self.width == 1 else f"<{self.width} x {llvm_type(type)}>"

    def has_exponent_instructions(self, type: str) -> bool:
        return self.avx512 and self.width * int(type[1:]) in (128, 256, 512)

    def _halves(self) -> str:
        return "half" if self.width == 1 else f"<{self.width} x half>"

    def literal(self, number: Number, type: str) -> str:
        text = element_literal(number, type)
        return text if self.width == 1 else f"splat ({llvm_type(type)} {text})"

    def instruction(self, code: str, type: str, arguments: tuple[Value, ...]) -> str:
        first, names = arguments[0], [a.name for a in arguments]
        source, target = self.type_text(first.type), self.type_text(type)
        if code in _BINARY[first.kind]:
            return self._assign(f"{_BINARY[first.kind][code]} {source} {names[0]}, {names[1]}")
        if code == "select":
            return self._assign(f"select {source} {names[0]}, {target} {names[1]}, {target} {names[2]}")
        if code == "bitcast":
            return self._assign(f"bitcast {source} {names[0]} to {target}")
        if code == "convert":
            return self._convert(first, type)
        if code == "widen_half":
            return self._assign(f"fpext {self._halves()} {self._assign(f'bitcast {source} {names[0]} to {self._halves()}')} to {target}")
        if code == "narrow_half":
            return self._assign(f"bitcast {self._halves()} {self._assign(f'fptrunc {source} {names[0]} to {self._halves()}')} to {target}")
        if code == "invert":
            return self._assign(f"xor {source} {names[0]}, {self.literal(-1, first.type)}")
        if code == "negate":
            negation = f"fneg {source}" if first.kind == "f" else f"sub {source} {self.literal(0, first.type)},"
            return self._assign(f"{negation} {names[0]}")
        if code in _AVX512:
            return self._avx512(code, type, arguments)
        return self._call(f"llvm.{_FLOAT_INTRINSICS[code]}.{self._suffix(type)}", self.type_text(type), arguments)

    def branch(self, mask: Value, slow: Callable[[], Sequence[Value | Number]], fast: tuple[Value, ...]) -> tuple[Value, ...]:
        label = f"{self._label}{self._fresh()}"
        any_lane = mask.name
        if self.width > 1:
            any_lane = self._call(f"llvm.vector.reduce.or.v{self.width}i1", "i1", (mask,))
        self.lines += [f"  br i1 {any_lane}, label %rare{label}, label %join{label}, !prof !0", f"rare{label}:"]
        before, self.block = self.block, f"rare{label}"
        start = len(self.lines)
        fixed = self.emit_branch(lambda: self._chosen(mask, slow(), fast), fast)
        self.longest_branch = max(self.longest_branch, len(self.lines) - start)
        self.lines += [f"  br label %join{label}", f"join{label}:"]
        after, self.block = self.block, f"join{label}"
        return tuple(
            Value(self, self._assign(f"phi {self.type_text(old.type)} [{old.name}, %{before}], [{new.name}, %{after}]"), old.type)
            for new, old in zip(fixed, fast, strict=True))

    def lookup(self, table_name: str, table: Sequence[float], index: Value, type: str) -> Value:
        element = llvm_type(type)
        cells = ", ".join(f"{element} {element_literal(cell, type)}" for cell in table)
        self.tables[table_name] = f"@{table_name} = internal constant [{len(table)} x {element}] [{cells}], align 64"
        if self.width == 1:
            return Value(self, self._load(table_name, index.name, llvm_type(index.type), element), type)
        if self.has_exponent_instructions(type) and self.width * int(type[1:]) == 512 and len(table) <= 4 * self.width:
            return self._permutation(table_name, len(table), index, type)
        places = self._assign(f"getelementptr {element}, ptr @{table_name}, {self.type_text(index.type)} {index.name}")
        vector, pointers, mask = self.type_text(type), f"<{self.width} x ptr>", f"<{self.width} x i1>"
        gather = f"@llvm.masked.gather.{self._suffix(type)}.v{self.width}p0"
        self.declarations.add(f"declare {vector} {gather}({pointers}, i32, {mask}, {vector})")
        alignment = f"i32 {int(type[1:]) // 8}"
        text = f"call {vector} {gather}({pointers} {places}, {alignment}, {mask} splat (i1 true), {vector} poison)"
        return Value(self, self._assign(text), type)

    def _permutation(self, table_name: str, length: int, index: Value, type: str) -> Value:
        """Lookup in a table that fits two registers, or four, with an index bit that selects the pair of registers."""
        vector, indices, pair = self.type_text(type), self.type_text(index.type), 2 * self.width
        intrinsic = f"@llvm.x86.avx512.vpermi2var.p{'s' if type == 'f32' else 'd'}.512"
        self.declarations.add(f"declare {vector} {intrinsic}({vector}, {indices}, {vector})")
        found = []
        for start in range(0, length, pair):
            places = (self._assign(f"getelementptr [{first} x {llvm_type(type)}], ptr @{table_name}, i64 1") if first else f"@{table_name}"
                      for first in (start, start + self.width))
            low, high = (self._assign(f"load {vector}, ptr {place}, align 64") for place in places)
            name = self._assign(f"call {vector} {intrinsic}({vector} {low}, {indices} {index.name}, {vector} {high})")
            found.append(Value(self, name, type))
        return found[0] if len(found) == 1 else select((index & pair).differs(0), found[1], found[0])

    def _load(self, table_name: str, index: str, index_type: str, element: str) -> str:
        place = self._assign(f"getelementptr {element}, ptr @{table_name}, {index_type} {index}")
        return self._assign(f"load {element}, ptr {place}")

    def _chosen(self, mask: Value, slow: Sequence[Value | Number], fast: tuple[Value, ...]) -> Sequence[Value | Number]:
        """The result of a branch in a vector: lanes outside of the mask keep the fast values."""
        if self.width == 1:
            return slow
        return [select(mask, like(old, new), old) for new, old in zip(slow, fast, strict=True)]

    def _convert(self, x: Value, type: str) -> str:
        source, target = self.type_text(x.type), self.type_text(type)
        to_float, bits = type[0] == "f", int(type[1:])
        if x.kind == "f" and not to_float:
            code = "fptosi"         # only for values that fit; definitions convert no others
        elif x.kind == "f":
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

    def _avx512(self, code: str, type: str, arguments: tuple[Value, ...]) -> str:
        instruction, interval = _AVX512[code]
        bits, vector, lanes = self.width * int(type[1:]), self.type_text(type), f"i{max(self.width, 8)}"
        operands = [(vector, argument.name) for argument in arguments] + [("i32", interval)] * bool(interval)
        operands += [(vector, "zeroinitializer"), (lanes, "-1")] + [("i32", "4")] * (bits == 512)      # all lanes, current rounding mode
        intrinsic = f"@llvm.x86.avx512.mask.{instruction}.p{'s' if type == 'f32' else 'd'}.{bits}"
        self.declarations.add(f"declare {vector} {intrinsic}({', '.join(type for type, _ in operands)})")
        return self._assign(f"call {vector} {intrinsic}({', '.join(map(' '.join, operands))})")

    def _suffix(self, type: str) -> str:
        name = type if type[0] == "f" else llvm_type(type)
        return name if self.width == 1 else f"v{self.width}{name}"

    def _call(self, intrinsic: str, result: str, arguments: tuple[Value, ...]) -> str:
        types = [self.type_text(a.type) for a in arguments]
        self.declarations.add(f"declare {result} @{intrinsic}({', '.join(types)})")
        return self._assign(f"call {result} @{intrinsic}({', '.join(f'{t} {a.name}' for t, a in zip(types, arguments, strict=True))})")

    def _assign(self, text: str) -> str:
        name = f"{self._prefix}{self._fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def _fresh(self) -> int:
        self._count += 1
        return self._count


def element_literal(number: Number, type: str) -> str:
    if type == "bool":
        return "true" if number else "false"
    if type[0] != "f":
        return str(int(number) % (1 << int(type[1:])))
    if type == "f32":   # LLVM writes a float as the bits of a double, which must be exact
        (number,) = struct.unpack("<f", struct.pack("<f", number))
    return f"0x{bits_of(number, 64):016X}"


def print_function(symbol: str, definition: Callable[..., Value], types: Sequence[str], fused: bool, vector_bits: int) -> tuple[str, str]:
    """The LLVM module with `definition` as the function `symbol` on parameters of these types; and its result type.

    `vector_bits` is the size of the vectors that loops are expected to use.
    """
    scalar = LLVMPrinter(fused)
    result = definition(*(Value(scalar, f"%x{i}", type) for i, type in enumerate(types)))
    if not scalar.tables and scalar.longest_branch <= _MAX_INLINED_INSTRUCTIONS:
        return _module(scalar, _function(scalar, symbol, types, result, "alwaysinline nounwind")), result.type
    vector = LLVMPrinter(fused, vector_bits // int(types[0][1:]))
    vector_symbol, pure = f"{symbol}_v{vector.width}", "noinline nounwind willreturn memory(none)"
    result = definition(*(Value(vector, f"%x{i}", type) for i, type in enumerate(types)))
    mapping = f'"vector-function-abi-variant"="_ZGV_LLVM_N{vector.width}{"v" * len(types)}_{symbol}({vector_symbol})"'
    return _module(
        vector,
        _function(vector, vector_symbol, types, result, pure),
        _function_of_one(vector, symbol, vector_symbol, types, result.type, f"{pure} {mapping}"),
        f'@llvm.compiler.used = appending global [1 x ptr] [ptr @{vector_symbol}], section "llvm.metadata"'), result.type


def _function(printer: LLVMPrinter, symbol: str, types: Sequence[str], result: Value, attributes: str) -> str:
    parameters = ", ".join(f"{printer.type_text(type)} %x{i}" for i, type in enumerate(types))
    returned = printer.type_text(result.type)
    return "\n".join([f"define {returned} @{symbol}({parameters}) {attributes} {{", "body:", *printer.lines,
                      f"  ret {returned} {result.name}", "}"])


def _function_of_one(vector: LLVMPrinter, symbol: str, vector_symbol: str, types: Sequence[str], result: str, attributes: str) -> str:
    """The scalar function, as a call of the vector function: a second body would be as long."""
    lines, arguments = [], []
    for i, type in enumerate(types):
        wide = vector.type_text(type)
        lines += [f"  %one{i} = insertelement {wide} poison, {llvm_type(type)} %x{i}, i64 0",
                  f"  %all{i} = shufflevector {wide} %one{i}, {wide} poison, <{vector.width} x i32> zeroinitializer"]
        arguments.append(f"{wide} %all{i}")
    returned = vector.type_text(result)
    parameters = ", ".join(f"{llvm_type(type)} %x{i}" for i, type in enumerate(types))
    return "\n".join([f"define {llvm_type(result)} @{symbol}({parameters}) {attributes} {{", *lines,
                      f"  %y = call {returned} @{vector_symbol}({', '.join(arguments)})",
                      f"  %first = extractelement {returned} %y, i64 0", f"  ret {llvm_type(result)} %first", "}"])


def _module(printer: LLVMPrinter, *definitions: str) -> str:
    return "\n".join([*sorted(printer.declarations), *printer.tables.values(), *definitions, UNLIKELY, ""])
