"""Digest of bytes in machine code, at the speed of the L2 cache. It detects whether an array still has the same content.

The digest is like XXH3 (Yann Collet, https://github.com/Cyan4973/xxHash): each word is combined with a key, and the product of the word's
two halves is added to an accumulator, and so is the word. Here the key changes from block to block, so that swapped blocks change the
digest. The digest does not withstand an attacker who searches for collisions.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS, host_target

SYMBOL = "adjit_digest"

_LANES, _STREAMS = 8, 4
_STRIPE = 8 * _LANES * _STREAMS
_VECTOR = f"<{_LANES} x i64>"
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def digest_text() -> str:
    """The module: `i64 adjit_digest(ptr data, i64 bytes)`."""
    text = Builder()
    with text.function(SYMBOL, "ptr %data", "i64 %bytes", result="i64", linkage=""):
        rest, whole = text.alloca("i8", _STRIPE, 64), text.let(f"and i64 %bytes, {-_STRIPE}")
        start = [(_VECTOR, _constants(_STREAMS + 1)), *[(_VECTOR, "zeroinitializer")] * _STREAMS]
        with text.for_range(0, whole, _STRIPE, start, empty=True) as loop:
            key, *sums = loop.values
            sums = _with_stripe(text, text.at("%data", 1, loop.counter), key, sums)
            loop.following = [text.let(f"add {_VECTOR} {key}, {_constants(_STREAMS)}"), *sums]
        key, *sums = loop.values
        left = text.sub("%bytes", whole)        # a last block, with zeros behind the remaining bytes
        text.call("void", "@llvm.memset.p0.i64", ("ptr", rest), ("i8", 0), ("i64", _STRIPE), ("i1", "false"))
        text.call("void", "@llvm.memcpy.p0.p0.i64", ("ptr", rest), ("ptr", text.at("%data", 1, whole)), ("i64", left), ("i1", "false"))
        sums = _with_stripe(text, rest, key, sums)
        scaled = [text.let(f"mul {_VECTOR} {total}, {_constants(_STREAMS + 2 + stream)}") for stream, total in enumerate(sums)]
        total = scaled[0]
        for other in scaled[1:]:
            total = text.let(f"add {_VECTOR} {total}, {other}")
        folded = text.call("i64", f"@llvm.vector.reduce.add.v{_LANES}i64", (_VECTOR, total))
        mixed = text.let(f"xor i64 {folded}, {text.mul('%bytes', _signed(_GOLDEN))}")
        text.ret("i64", text.mul(text.let(f"xor i64 {mixed}, {text.lshr(mixed, 29)}"), _signed(_GOLDEN)))
    return str(text)


def compile_digest(text: str) -> CompiledObject:
    """Object code for this processor."""
    return CompiledObject(emit_object(text, host_target() or TARGETS["sse2"], verify=True), SYMBOL)


def _with_stripe(text: Builder, place: str, key: str, sums: list[str]) -> list[str]:
    """The accumulators after one more block."""
    found = []
    for stream, total in enumerate(sums):
        word = text.load(_VECTOR, place, 8 * _LANES * stream, align=8)
        own_key = text.let(f"add {_VECTOR} {key}, {_constants(stream)}")
        mixed = text.let(f"xor {_VECTOR} {own_key}, {word}")
        low, high = text.let(f"and {_VECTOR} {mixed}, {_splat((1 << 32) - 1)}"), text.let(f"lshr {_VECTOR} {mixed}, {_splat(32)}")
        both = text.let(f"add {_VECTOR} {text.let(f'mul {_VECTOR} {low}, {high}')}, {word}")
        found.append(text.let(f"add {_VECTOR} {total}, {both}"))
    return found


def _constants(row: int) -> str:
    """A vector of pseudorandom odd numbers, made by splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    found = []
    for step in range(row * _LANES + 1, (row + 1) * _LANES + 1):
        mixed = step * _GOLDEN & _MASK
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ mixed >> shift) * factor & _MASK
        found.append(f"i64 {_signed((mixed ^ mixed >> 31) | 1)}")
    return f"<{', '.join(found)}>"


def _splat(value: int) -> str:
    return f"<{', '.join([f'i64 {value}'] * _LANES)}>"


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
