"""Language of scalar functions: arithmetic on a `Value` emits an instruction.

    def sigmoid(x: Value) -> Value:
        e = exp(-abs(x))
        return select(x < 0.0, e, 1.0) / (1.0 + e)

The `Emitter` decides how an instruction looks; a new backend writes one class, and has every function.

Rules for definitions, so that a loop around them becomes vector code and every backend gives the same bits:
- No loop and no call. The only branch is `slow_path`, around code that is skipped unless some element needs it.
- Fused products are written as `fma`; nothing else may be contracted or reordered (error-free sums depend on each rounding).
- A comparison with NaN is false, and selects are written so that NaN stays in the arithmetic.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence

from adjit.ir.dataclass import dataclass

Number = bool | int | float


@dataclass(frozen=True, slots=True)
class Format:
    """Properties of a floating-point format that a definition reads."""

    bits: int
    mantissa: int   # stored bits
    bias: int

    @property
    def digits(self) -> int:
        return self.mantissa + 1

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def unit(self) -> float:
        """The limit from which all numbers of the format are integers."""
        return 2.0**self.mantissa

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def exponent_bits(self) -> int:
        """Mask of the bits of the exponent and of the sign."""
        return (1 << self.bits) - (1 << self.mantissa)


FORMATS = {32: Format(32, 23, 127), 64: Format(64, 52, 1023)}


def bits_of(number: float, bits: int) -> int:
    """The bits of a float as an unsigned integer."""
    float_code, integer_code = {32: ("<f", "<I"), 64: ("<d", "<Q")}[bits]
    (pattern,) = struct.unpack(integer_code, struct.pack(float_code, number))
    return int(pattern)


def float_of(pattern: int, bits: int) -> float:
    """The float with these bits."""
    float_code, integer_code = {32: ("<f", "<I"), 64: ("<d", "<Q")}[bits]
    (number,) = struct.unpack(float_code, struct.pack(integer_code, pattern))
    return float(number)


class Emitter(ABC):
    """Emitter of the instructions of one function. Equal instructions, also within `slow_path`, are emitted once."""

    def __init__(self, fused: bool) -> None:
        """`fused`: the target has fused multiply-add."""
        self.fused = fused
        self.known: dict[Hashable, Value] = {}
        self.known_branches: dict[Hashable, tuple[Value, ...]] = {}

    def constant(self, number: Value | Number, type: str) -> Value:
        if isinstance(number, Value):
            if number.type != type:
                raise TypeError(f"got a value of type {number.type}, expected {type}")
            return number
        return Value(self, self.literal(number, type), type)

    has_half_instructions = False
    """True if the target has instructions between float16 and float32: `widen_half` and `narrow_half`."""

    def has_exponent_instructions(self, type: str) -> bool:
        """True if the target has instructions for `scale`, `exponent` and `mantissa` on values of this type."""
        return False

    def emit(self, code: str, type: str, *arguments: Value) -> Value:
        key = (code, type, *(a.name for a in arguments))
        if key not in self.known:
            compared = arguments[0].compared if type == "bool" else type
            self.known[key] = Value(self, self.instruction(code, type, arguments), type, compared)
        return self.known[key]

    def emit_slow_path(self, mask: Value, slow: Callable[[], Sequence[Value | Number]], fast: tuple[Value, ...]) -> tuple[Value, ...]:
        closed_over = (cell.cell_contents for cell in slow.__closure__ or ())
        key = (slow.__code__, *(v.name if isinstance(v, Value) else v for v in (mask, *fast, *closed_over)))
        if key not in self.known_branches:
            self.known_branches[key] = self.branch(mask, slow, fast)
        return self.known_branches[key]

    def emit_branch(self, slow: Callable[[], Sequence[Value | Number]], fast: tuple[Value, ...]) -> list[Value]:
        """The values of slow(). Its instructions are not reused after the branch, as they do not always run."""
        known, branches = dict(self.known), dict(self.known_branches)
        values = [self.constant(new, old.type) for new, old in zip(slow(), fast, strict=True)]
        self.known, self.known_branches = known, branches
        return values

    @abstractmethod
    def literal(self, number: Number, type: str) -> str:
        """The text of a constant."""

    @abstractmethod
    def instruction(self, code: str, type: str, arguments: tuple[Value, ...]) -> str:
        """Emit one instruction. Returns the name of its result, of this type."""

    @abstractmethod
    def branch(self, mask: Value, slow: Callable[[], Sequence[Value | Number]], fast: tuple[Value, ...]) -> tuple[Value, ...]:
        """The values of slow() if the mask is true, else `fast`."""

    @abstractmethod
    def lookup(self, table_name: str, table: Sequence[float], index: Value, type: str) -> Value:
        """table[index]; the index is in range."""


class Value:
    """A name in the function being emitted.

    Types: f32 f64, i8 to i64, u8 to u64, and bool. For a bool, `compared` is the type of the compared values.
    """

    __slots__ = ("compared", "emitter", "name", "type")

    def __init__(self, emitter: Emitter, name: str, type: str, compared: str | None = None) -> None:
        self.emitter, self.name, self.type, self.compared = emitter, name, type, compared or type

    @property
    def kind(self) -> str:
        """f, i, u or b."""
        return self.type[0]

    @property
    def bits(self) -> int:
        return 1 if self.type == "bool" else int(self.type[1:])

    @property
    def format(self) -> Format:
        return FORMATS[self.bits]

    def _with(self, code: str, other: Value | Number, type: str | None = None, swapped: bool = False) -> Value:
        other = self.emitter.constant(other, self.type)
        return self.emitter.emit(code, type or self.type, *((other, self) if swapped else (self, other)))

    def __add__(self, other: Value | Number) -> Value: return self._with("add", other)
    def __radd__(self, other: Number) -> Value: return self._with("add", other, swapped=True)
    def __sub__(self, other: Value | Number) -> Value: return self._with("subtract", other)
    def __rsub__(self, other: Number) -> Value: return self._with("subtract", other, swapped=True)
    def __mul__(self, other: Value | Number) -> Value: return self._with("multiply", other)
    def __rmul__(self, other: Number) -> Value: return self._with("multiply", other, swapped=True)
    def __truediv__(self, other: Value | Number) -> Value: return self._with("divide", other)
    def __rtruediv__(self, other: Number) -> Value: return self._with("divide", other, swapped=True)
    def __and__(self, other: Value | Number) -> Value: return self._with("and", other)
    def __or__(self, other: Value | Number) -> Value: return self._with("or", other)
    def __xor__(self, other: Value | Number) -> Value: return self._with("xor", other)
    def __lshift__(self, other: Value | Number) -> Value: return self._with("shift_left", other)
    def __rshift__(self, other: Value | Number) -> Value: return self._with("shift_right", other)   # of i64: an arithmetic shift
    def __lt__(self, other: Value | Number) -> Value: return self._with("less", other, "bool")
    def __le__(self, other: Value | Number) -> Value: return self._with("less_equal", other, "bool")
    def __gt__(self, other: Value | Number) -> Value: return self._with("greater", other, "bool")
    def __ge__(self, other: Value | Number) -> Value: return self._with("greater_equal", other, "bool")
    def equals(self, other: Value | Number) -> Value: return self._with("equal", other, "bool")
    def differs(self, other: Value | Number) -> Value: return self._with("not_equal", other, "bool")   # true for NaN
    def __neg__(self) -> Value: return self.emitter.emit("negate", self.type, self)
    def __abs__(self) -> Value: return self.emitter.emit("absolute", self.type, self)
    def __invert__(self) -> Value: return self.emitter.emit("invert", self.type, self)


def like(x: Value, number: Value | Number) -> Value:
    """A number as a value of the type of x."""
    return x.emitter.constant(number, x.type)


def select(mask: Value, a: Value | Number, b: Value | Number) -> Value:
    """a if the mask is true, else b. Two bare numbers have the type of the mask's compared values."""
    type = next((v.type for v in (a, b) if isinstance(v, Value)), mask.compared)
    return mask.emitter.emit("select", type, mask, mask.emitter.constant(a, type), mask.emitter.constant(b, type))


def fma(a: Value, b: Value | Number, c: Value | Number) -> Value:
    """a b + c, rounded once, or twice if the target has no fused multiply-add."""
    b, c = like(a, b), like(a, c)
    return a.emitter.emit("fma", a.type, a, b, c) if a.emitter.fused else a * b + c


def scale(x: Value | Number, n: Value) -> Value:
    """x 2^n for an integer n, rounded once. `scale`, `exponent` and `mantissa` require `has_exponent_instructions`."""
    return n.emitter.emit("scale", n.type, like(n, x), n)


def exponent(x: Value) -> Value:
    """The integer k with 2^k <= |x| < 2^(k + 1); -inf for zero, inf for infinity."""
    return x.emitter.emit("exponent", x.type, x)


def mantissa(x: Value) -> Value:
    """x times a power of two, in 3/4..3/2; 1 for zero and infinity; NaN for negative numbers."""
    return x.emitter.emit("mantissa", x.type, x)


def sqrt(x: Value) -> Value: return x.emitter.emit("sqrt", x.type, x)
def copysign(x: Value | Number, sign: Value) -> Value: return sign.emitter.emit("copysign", sign.type, like(sign, x), sign)
def maximum(a: Value, b: Value) -> Value: return a.emitter.emit("maximum", a.type, a, b)         # NaN if either is
def minimum(a: Value, b: Value) -> Value: return a.emitter.emit("minimum", a.type, a, b)
def add_in_any_order(a: Value, b: Value) -> Value: return a.emitter.emit("add_in_any_order", a.type, a, b)
def multiply_in_any_order(a: Value, b: Value) -> Value: return a.emitter.emit("multiply_in_any_order", a.type, a, b)
def to_bits(x: Value) -> Value: return x.emitter.emit("bitcast", f"u{x.bits}", x)
def to_float(bits: Value) -> Value: return bits.emitter.emit("bitcast", f"f{bits.bits}", bits)
def bitcast(x: Value) -> Value: return x.emitter.emit("bitcast", f"{'i' if x.kind == 'f' else 'f'}{x.bits}", x)


def rint(x: Value) -> Value:
    """The nearest integer, ties to even. Processors without FMA have no rounding instruction either: there a large number is added and
    subtracted."""
    if x.emitter.fused:
        return x.emitter.emit("rint", x.type, x)
    a = abs(x)
    return copysign(select(a < x.format.unit, (a + x.format.unit) - x.format.unit, a), x)


def _rounded(code: str, x: Value, passed: Callable[[Value], Value], step: float) -> Value:
    """An integer near x: the nearest, or one `step` further if the nearest has `passed` x."""
    if x.emitter.fused:
        return x.emitter.emit(code, x.type, x)
    nearest = rint(x)
    return copysign(select(passed(nearest), nearest + step, nearest), x)


def floor(x: Value) -> Value: return _rounded("floor", x, lambda nearest: nearest > x, -1.0)
def ceil(x: Value) -> Value: return _rounded("ceil", x, lambda nearest: nearest < x, 1.0)


def trunc(x: Value) -> Value:
    a = abs(x)
    return x.emitter.emit("trunc", x.type, x) if x.emitter.fused else copysign(floor(a), x)


def convert(x: Value, type: str) -> Value:
    """x converted to another type. Floats are truncated toward zero, as in the op record `convert`."""
    if x.type == type:
        return x
    if type == "bool":
        return x.differs(0)
    return _whole(x, type) if x.kind == "f" and type[0] in "iu" else x.emitter.emit("convert", type, x)


def _whole(x: Value, type: str) -> Value:
    """A float as an integer. Values out of range become the smallest signed integer."""
    if type == "u64":
        far = x >= 2.0**63
        near = convert(_whole(select(far, x - 2.0**63, x), "i64"), type)
        return select(far, near ^ (1 << 63), near)
    bits = 64 if type in ("i64", "u32") else 32
    limit = 1 << (bits - 1)
    return convert(select(abs(x) < float(limit), x.emitter.emit("convert", f"i{bits}", x), -limit), type)


def in_double(definition: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """`definition`, a function of float64, extended to float32: widened, computed, and rounded once."""
    def widened(x: Value) -> Value:
        return convert(definition(convert(x, "f64")), "f32") if x.type == "f32" else definition(x)
    return widened


def slow_path(mask: Value, slow: Callable[[], Sequence[Value | Number]], *fast: Value) -> tuple[Value, ...]:
    """The values of slow() where the mask is true, `fast` elsewhere. slow() costs nothing while the mask is false."""
    return mask.emitter.emit_slow_path(mask, slow, fast)
