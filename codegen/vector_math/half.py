"""float16 and bfloat16 as 16-bit integers, and their conversions.

Registers and memory hold the bits; nothing is computed of them but the conversions below, which round to nearest even and keep NaN,
infinities, subnormal numbers and signs of zeros. Processors without instructions for float16 do it with integers: LLVM would call a
function of a library.

Source: F. Giesen, "float_to_half_fast3_rtne"; S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms
using rounding to odd", 2008.
"""

from __future__ import annotations

import numpy as np

from adjit.codegen.vector_math import language
from adjit.codegen.vector_math.language import Value, select, to_bits, to_float
from adjit.ir.types import HALVES, is_half, short_name


def register_type(dtype: np.dtype) -> str:
    """Short name of the type in which kernels hold values: `u16` for halves, that of the dtype for all others.

    >>> register_type(np.dtype(np.float16)), register_type(np.dtype(np.float32))
    ('u16', 'f32')
    """
    return "u16" if is_half(dtype) else short_name(dtype)


def in_register(name: str) -> str:
    """`register_type` of the dtype with this short name."""
    return "u16" if name in HALVES else name


def number_bits(value: float, dtype: np.dtype) -> int:
    """The bits of a number as a half.

    >>> hex(number_bits(1.0, np.dtype(np.float16)))
    '0x3c00'
    """
    return int(np.array(value, dtype).view(np.uint16))


def convert(x: Value, source: str, target: str) -> Value:
    """`x`, a value of the dtype `source` in a register, converted to `target`; for halves the conversions that have an op of their own."""
    if source == "f16":
        return _from_float16(x)
    if source == "bf16":
        return to_float(language.convert(x, "u32") << 16)
    if target == "f16":
        return _to_float16(_rounded_to_odd(x) if x.type == "f64" else x)
    if target == "bf16":
        return _to_bfloat16(x)
    return language.convert(x, target)


def _from_float16(x: Value) -> Value:
    if x.emitter.has_half_instructions:
        return x.emitter.emit("widen_half", "f32", x)
    bits = language.convert(x, "u32")
    magnitude = bits & 0x7FFF
    fraction = language.convert(language.convert(magnitude, "i32"), "f32") * 2.0**-24       # subnormal numbers have no hidden bit
    normal = to_float((magnitude << 13) + select(magnitude >= 0x7C00, (255 - 31) << 23, (127 - 15) << 23))
    return to_float(to_bits(select(magnitude < 0x400, fraction, normal)) | ((bits & 0x8000) << 16))


def _to_float16(x: Value) -> Value:
    if x.emitter.has_half_instructions:
        return x.emitter.emit("narrow_half", "u16", x)
    bits = to_bits(x)
    magnitude = bits & 0x7FFFFFFF
    subnormal = to_bits(to_float(magnitude) + 0.5) - language.bits_of(0.5, 32)      # the sum rounds to the unit of subnormal numbers
    normal = (magnitude - ((127 - 15) << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13
    large = select(magnitude > 0x7F800000, 0x7E00, 0x7C00)
    half = select(magnitude < (127 - 14) << 23, subnormal, select(magnitude >= (127 + 16) << 23, large, normal))
    return language.convert(half | ((bits >> 16) & 0x8000), "u16")


def _to_bfloat16(x: Value) -> Value:
    bits = to_bits(x)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return language.convert(select(x.equals(x), rounded, ((bits >> 16) & 0x8000) | 0x7FC0), "u16")


def _rounded_to_odd(x: Value) -> Value:
    """A float64 as the float32 toward zero whose last bit tells whether it is inexact: rounded again, it gives what one rounding gives."""
    near = language.convert(x, "f32")
    back = language.convert(near, "f64")
    bits = to_bits(near)
    toward_zero = select(abs(back) > abs(x), bits - 1, bits)
    return to_float(select(back.equals(x), bits, toward_zero | 1))
