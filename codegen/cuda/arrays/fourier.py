"""Discrete Fourier transforms, as the sums that define them: a thread an element of the result, with the powers of the root of unity as
data of the kernel. That takes n products an element where a fast transform takes log n, and is for short lines."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from adjit.codegen.cuda.arrays.positions import element_number
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.llvm.module import Definition
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.types import complex_dtype, is_complex, is_half, real_dtype

MAX_LENGTH = 1 << 12
"""Longest line: the roots of unity are text of the kernel."""


def lower_fourier(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `fft`, `rfft` or `irfft`."""
    operand, result, axis = op.operands[0].type, op.result.type, op.attrs["axis"]
    length = op.attrs.get("length", operand.shape[axis])
    if length > MAX_LENGTH or is_half(real_dtype(result.dtype)):
        raise UnsupportedError(f"a Fourier transform of lines of {length} {operand.dtype} has no code for the device 'cuda' yet: they may "
                               f"have {MAX_LENGTH} float32 or float64", op.loc, hint="omit device= to compile for the CPU")
    if not result.size:
        return []
    real = real_dtype(result.dtype)
    text = KernelText(FLAT_THREADS)
    part = text.element(real)
    roots = _table(text, length, real, op.name == "irfft" or op.attrs.get("inverse", False))
    source, target, elements = text.pointer("read"), text.pointer("write"), text.number()
    after, terms, zero = math.prod(operand.shape[axis + 1:]), operand.shape[axis], text.literal(0, real)
    number = element_number(text)

    def binary(code: str, a: str, b: str) -> str:
        return text.let(f"f{code} {part} {a}, {b}")

    with text.where(text.compare("slt", number, elements)):
        column, line = (text.let(f"{code} i64 {number}, {after}") for code in ("urem", "udiv"))
        goal = text.let(f"urem i64 {line}, {result.shape[axis]}")
        first = text.add(text.mul(text.let(f"udiv i64 {line}, {result.shape[axis]}"), terms * after), column)
        with text.for_range(0, terms, 1, [(part, zero), (part, zero)]) as loop:
            (element,) = text.read(source, operand.dtype, text.add(first, text.mul(loop.counter, after)), constant=True)
            root = text.let(f"urem i64 {text.mul(loop.counter, goal)}, {length}")
            c, s = (text.let(f"load {part}, ptr {text.at(roots, part, (root, 2), which)}, align {real.itemsize}") for which in range(2))
            total, imaginary = loop.values
            if is_complex(operand.dtype):
                a, b = (text.let(f"extractelement {text.element(operand.dtype)} {element}, i32 {which}") for which in range(2))
            else:
                a, b = element, zero
            if op.name == "irfft":      # all elements but the first, and the last of an even length, stand for two
                edge = text.compare("eq", loop.counter, 0)
                if length % 2 == 0:
                    edge = text.either(edge, text.compare("eq", loop.counter, length // 2))
                once = binary("mul", a, c)
                both = binary("sub", once, binary("mul", b, s))
                total = binary("add", total, text.select(edge, part, once, binary("add", both, both)))
            elif is_complex(operand.dtype):
                total = binary("add", total, binary("sub", binary("mul", a, c), binary("mul", b, s)))
                imaginary = binary("add", imaginary, binary("add", binary("mul", a, s), binary("mul", b, c)))
            else:
                total, imaginary = binary("add", total, binary("mul", a, c)), binary("add", imaginary, binary("mul", a, s))
            loop.following = [total, imaginary]
        found = loop.values[0]
        if is_complex(result.dtype):
            type = text.element(result.dtype)
            found = text.let(f"insertelement {type} poison, {part} {found}, i32 0")
            found = text.let(f"insertelement {type} {found}, {part} {loop.values[1]}, i32 1")
        text.write([found], target, result.dtype, number)
    pointers = Pointer("operand", 0, operand.nbytes), Pointer("result", 0, result.nbytes)
    return [Launch(text.kernel("fourier"), -(-result.size // FLAT_THREADS), pointers, (result.size,))]


def _table(text: KernelText, length: int, real: np.dtype, inverse: bool) -> str:
    """The powers of the root of unity: pairs of a cosine and a sine."""
    turns = np.exp((2j if inverse else -2j) * np.pi / length * np.arange(length)).astype(complex_dtype(real))
    data = turns.tobytes()
    name = f"roots.{hashlib.sha256(data).hexdigest()[:32]}"
    escaped = "".join([f"\\{byte:02x}" for byte in data])
    text.shared[name] = Definition(name, f'@{name} = internal constant [{len(data)} x i8] c"{escaped}", align 16')
    return f"@{name}"
