"""Discrete Fourier transforms in passes, one for each factor of the length (in Stockham's order: every pass reads and writes whole lines,
and none has to sort). A thread computes an element of what its pass writes, as a sum of as many terms as the factor has; a prime length is
one pass, the sum that defines the transform. The powers of the root of unity are data of the kernels.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from adjit.codegen.cuda.arrays.positions import element_number
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.llvm.module import Definition
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.types import complex_dtype, is_complex, is_half, real_dtype

MAX_LENGTH, MAX_FACTOR = 1 << 24, 1 << 17
"""Longest line, and largest prime factor of its length: so many terms an element take a second of a card."""

_TABLE = 1 << 12
"""Most powers of the root of unity in one table, which is text of a kernel: of more, each is a product of two."""

_ONE_PASS, _MOST_TERMS = 32, 8
"""Longest line that one pass transforms, and most terms of a pass of small factors."""


def factors_of(length: int) -> list[int]:
    """Factors of the passes of a transform: small primes together.

    >>> factors_of(4096), factors_of(30), factors_of(2 * 101)
    ([8, 8, 8, 8], [30], [101, 2])
    """
    if length <= _ONE_PASS:
        return [length]
    primes, left, divisor = list[int](), length, 2
    while divisor * divisor <= left:
        if left % divisor:
            divisor += 1
        else:
            primes.append(divisor)
            left //= divisor
    factors: list[int] = []
    for prime in sorted([*primes, left] if left > 1 else primes, reverse=True):
        if factors and factors[-1] * prime <= _MOST_TERMS:
            factors[-1] *= prime
        else:
            factors.append(prime)
    return factors


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass over lines of `length`: `done` is the product of the factors of the passes before."""

    length: int
    factor: int
    done: int
    inverse: bool


def lower_fourier(op: Op, memory: Memory) -> list[Launch]:
    """The launches of `fft`, `rfft` or `irfft`."""
    operand, result, axis = op.operands[0].type, op.result.type, op.attrs["axis"]
    length, real = op.attrs.get("length", operand.shape[axis]), real_dtype(result.dtype)
    factors = factors_of(length) if 0 < length <= MAX_LENGTH else []
    if length > MAX_LENGTH or max(factors, default=0) > MAX_FACTOR or is_half(real):
        raise UnsupportedError(f"a Fourier transform of lines of {length} {operand.dtype} has no code for the device 'cuda' yet: they may "
                               f"have {MAX_LENGTH} float32 or float64, and no prime factor above {MAX_FACTOR}", op.loc,
                               hint="omit device= to compile for the CPU")
    if not result.size:
        return []
    after = math.prod(operand.shape[axis + 1:])
    whole = math.prod(operand.shape[:axis]) * length * after
    nbytes, between = whole * complex_dtype(real).itemsize, complex_dtype(real)
    inverse, done, launches = op.name == "irfft" or op.attrs.get("inverse", False), 1, list[Launch]()
    source, dtype = Pointer("operand", 0, operand.nbytes), operand.dtype
    for number, factor in enumerate(factors):
        is_last = number == len(factors) - 1
        target = Pointer("result", 0, result.nbytes) if is_last else Pointer("work", 0, nbytes, number % 2 * nbytes)
        count = result.shape[axis] if is_last else length
        given = operand.shape[axis] if not number else length
        text = KernelText(FLAT_THREADS)
        _write_pass(text, _Pass(length, factor, done, inverse), after, (given, dtype), (count, result.dtype if is_last else between))
        total = whole // length * count
        launches.append(Launch(text.kernel("fourier"), -(-total // FLAT_THREADS), (source, target), (total,)))
        source, dtype, done = target, between, done * factor
    return launches


def _write_pass(text: KernelText, step: _Pass, after: int, given: tuple[int, np.dtype], wanted: tuple[int, np.dtype]) -> None:
    """Write a pass from lines of `given` elements to lines of `wanted` ones, of these dtypes, whose elements lie `after` apart. Element
    (j, s, k) of what it writes is the sum of elements (q, j, k) of what it reads, each times a power of the root of unity."""
    (terms, from_), (count, to) = given, wanted
    real = real_dtype(to)
    part, zero = text.element(real), text.literal(0, real)
    source, target, elements = text.pointer("read"), text.pointer("write"), text.number()
    number = element_number(text)
    rest = step.length // (step.done * step.factor)         # how many j there are

    def binary(code: str, a: str, b: str) -> str:
        return text.let(f"f{code} {part} {a}, {b}")

    def divided(value: str, by: int) -> tuple[str, str]:
        return text.let(f"udiv i64 {value}, {by}"), text.let(f"urem i64 {value}, {by}")

    def element(line: str, column: str, position: str) -> tuple[str, str]:
        """The parts of an element: of half of a line, whose other half is conjugate, the mirrored one's."""
        place, mirrored = position, "false"
        if terms < step.length:
            mirrored = text.compare("uge", position, terms)
            place = text.select(mirrored, "i64", text.sub(step.length, position), position)
        index = text.add(text.mul(text.add(text.mul(line, terms), place), after), column)
        (value,) = text.read(source, from_, index, constant=True)
        if not is_complex(from_):
            return value, zero
        a, b = (text.let(f"extractelement {text.element(from_)} {value}, i32 {which}") for which in range(2))
        return a, b if terms == step.length else text.select(mirrored, part, text.let(f"fneg {part} {b}"), b)

    with text.where(text.compare("slt", number, elements)):
        upper, column = divided(number, after)
        line, place = divided(upper, count)
        upper, k = divided(place, step.done)
        j, s = divided(upper, step.factor)
        with text.for_range(0, step.factor, 1, [(part, zero), (part, zero)]) as loop:
            position = text.add(text.mul(loop.counter, rest), j)
            a, b = element(line, column, text.add(text.mul(position, step.done), k))
            power = text.let(f"urem i64 {text.mul(text.mul(s, position), step.done)}, {step.length}")
            c, d = _root(text, step, real, power)
            total, imaginary = loop.values
            total = binary("add", total, binary("sub", binary("mul", a, c), binary("mul", b, d)))
            imaginary = binary("add", imaginary, binary("add", binary("mul", a, d), binary("mul", b, c)))
            loop.following = [total, imaginary]
        found = loop.values[0]
        if is_complex(to):
            type = text.element(to)
            found = text.let(f"insertelement {type} poison, {part} {found}, i32 0")
            found = text.let(f"insertelement {type} {found}, {part} {loop.values[1]}, i32 1")
        text.write([found], target, to, number)


def _root(text: KernelText, step: _Pass, real: np.dtype, power: str) -> Sequence[str]:
    """Cosine and sine of a power of the root of unity."""
    part, turn = text.element(real), (2j if step.inverse else -2j) * np.pi / step.length

    def found(powers: np.ndarray, index: str) -> list[str]:
        table = _table(text, np.exp(turn * powers).astype(complex_dtype(real)))
        return [text.let(f"load {part}, ptr {text.at(table, part, (index, 2), which)}, align {real.itemsize}") for which in range(2)]

    if step.length <= _TABLE:
        return found(np.arange(step.length), power)
    high, low = (text.let(f"{code} i64 {power}, {_TABLE}") for code in ("udiv", "urem"))
    (a, b), (c, d) = found(np.arange(0, step.length, _TABLE), high), found(np.arange(_TABLE), low)
    products = [text.let(f"fmul {part} {x}, {y}") for x, y in ((a, c), (b, d), (a, d), (b, c))]
    return [text.let(f"{code} {part} {x}, {y}") for code, x, y in (("fsub", *products[:2]), ("fadd", *products[2:]))]


def _table(text: KernelText, numbers: np.ndarray) -> str:
    """Pairs of a cosine and a sine, as data of the kernel."""
    data = numbers.tobytes()
    name = f"roots.{hashlib.sha256(data).hexdigest()[:32]}"
    escaped = "".join([f"\\{byte:02x}" for byte in data])
    text.shared[name] = Definition(name, f'@{name} = internal constant [{len(data)} x i8] c"{escaped}", align 16')
    return f"@{name}"
