"""A digest of bytes in machine code, at the speed at which the second cache gives them: whether an array still holds what it held.

Like XXH3 (Yann Collet, https://github.com/Cyan4973/xxHash): each word is combined with a key, and the product of the two halves is added
to an accumulator together with the word. Here the key changes from stripe to stripe, so that no stripe may take another's place. It is
not made against those who look for two contents with one digest.
"""

from __future__ import annotations

from adjit.codegen.link import CompiledObject
from adjit.codegen.object_code import emit_object
from adjit.codegen.target import TARGETS, host_target

SYMBOL = "adjit_digest"

_LANES, _STREAMS = 8, 4
_STRIPE = 8 * _LANES * _STREAMS
_VECTOR = f"<{_LANES} x i64>"
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def digest_text() -> str:
    """The module: `i64 adjit_digest(ptr data, i64 bytes)`."""
    streams = range(_STREAMS)
    loop, tail = _stripe("a", "%place", "%key", [f"%sum{stream}" for stream in streams]), \
        _stripe("b", "%rest", "%key", [f"%sum{stream}" for stream in streams])
    lines = [
        f"declare i64 @llvm.vector.reduce.add.v{_LANES}i64({_VECTOR})",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        f"define i64 @{SYMBOL}(ptr %data, i64 %bytes) {{",
        "begin:",
        f"  %rest = alloca [{_STRIPE} x i8], align 64",
        f"  %whole = and i64 %bytes, {-_STRIPE}",
        "  br label %head",
        "head:",
        "  %done = phi i64 [0, %begin], [%after, %stripe]",
        f"  %key = phi {_VECTOR} [{_constants(_STREAMS + 1)}, %begin], [%next, %stripe]",
        *(f"  %sum{stream} = phi {_VECTOR} [zeroinitializer, %begin], [%suma{stream}, %stripe]" for stream in streams),
        "  %more = icmp ult i64 %done, %whole",
        "  br i1 %more, label %stripe, label %tail",
        "stripe:",
        "  %place = getelementptr i8, ptr %data, i64 %done",
        *loop,
        f"  %next = add {_VECTOR} %key, {_constants(_STREAMS)}",
        f"  %after = add i64 %done, {_STRIPE}",
        "  br label %head",
        "tail:",        # what is left, with zeros behind it
        "  %left = sub i64 %bytes, %whole",
        "  %last = getelementptr i8, ptr %data, i64 %whole",
        f"  call void @llvm.memset.p0.i64(ptr %rest, i8 0, i64 {_STRIPE}, i1 false)",
        "  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %last, i64 %left, i1 false)",
        *tail,
        f"  %total0 = mul {_VECTOR} %sumb0, {_constants(_STREAMS + 2)}",
    ]
    for stream in streams[1:]:
        lines += [f"  %scaled{stream} = mul {_VECTOR} %sumb{stream}, {_constants(_STREAMS + 2 + stream)}",
                  f"  %total{stream} = add {_VECTOR} %total{stream - 1}, %scaled{stream}"]
    lines += [
        f"  %folded = call i64 @llvm.vector.reduce.add.v{_LANES}i64({_VECTOR} %total{_STREAMS - 1})",
        f"  %length = mul i64 %bytes, {_signed(_GOLDEN)}", "  %with.length = xor i64 %folded, %length",
        "  %high = lshr i64 %with.length, 29", "  %mixed = xor i64 %with.length, %high", f"  %digest = mul i64 %mixed, {_signed(_GOLDEN)}",
        "  ret i64 %digest", "}", ""]
    return "\n".join(lines)


def compile_digest(text: str) -> CompiledObject:
    """The object code, for this processor."""
    return CompiledObject(emit_object(text, host_target() or TARGETS["sse2"], verify=True), SYMBOL)


def _stripe(name: str, place: str, key: str, sums: list[str]) -> list[str]:
    """Add a stripe to the accumulators, which have names of their own afterwards."""
    lines = []
    for stream, sum_before in enumerate(sums):
        n = f"{name}{stream}"
        lines += [
            f"  %at{n} = getelementptr i8, ptr {place}, i64 {8 * _LANES * stream}", f"  %word{n} = load {_VECTOR}, ptr %at{n}, align 8",
            f"  %key{n} = add {_VECTOR} {key}, {_constants(stream)}", f"  %mixed{n} = xor {_VECTOR} %word{n}, %key{n}",
            f"  %low{n} = and {_VECTOR} %mixed{n}, {_splat((1 << 32) - 1)}", f"  %high{n} = lshr {_VECTOR} %mixed{n}, {_splat(32)}",
            f"  %product{n} = mul {_VECTOR} %low{n}, %high{n}", f"  %both{n} = add {_VECTOR} %product{n}, %word{n}",
            f"  %sum{n} = add {_VECTOR} {sum_before}, %both{n}"]
    return lines


def _constants(row: int) -> str:
    """A vector of odd numbers whose bits look random: of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
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
