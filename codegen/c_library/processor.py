"""Detection of processor features, in LLVM text: the x86-64 levels that the processor and the system support."""

from __future__ import annotations

from adjit.codegen.llvm.target import Target

_BITS = {
    "sse2": ("one.d", 26), "sse3": ("one.c", 0), "ssse3": ("one.c", 9), "fma": ("one.c", 12), "sse4.1": ("one.c", 19),
    "sse4.2": ("one.c", 20), "avx2": ("seven.b", 5), "avx512f": ("seven.b", 16), "avx512dq": ("seven.b", 17), "avx512bw": ("seven.b", 30),
    "avx512vl": ("seven.b", 31), "f16c": ("one.c", 29)}
"""Register of CPUID (leaf 1 or 7) and bit, by feature."""

RUNS_SYMBOL = "adjit_runs"

_OSXSAVE = 1 << 27
_CPUID = 'asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"'
_XGETBV = 'asm sideeffect "xgetbv", "={ax},={dx},{cx}"'


def level_function(targets: list[Target]) -> str:
    """`i64 @level.mask()`: bit k is set if the processor runs code for `targets[k]`, and the system saves the registers of that code.

    Source: Intel's Software Developer's Manual, volume 1, chapters 13 and 14.
    """
    quad = "{i32, i32, i32, i32}"
    lines = ["define internal i64 @level.mask() nounwind {", "entry:",
             f"  %zero = call {quad} {_CPUID}(i32 0, i32 0)", f"  %last = extractvalue {quad} %zero, 0",
             f"  %one = call {quad} {_CPUID}(i32 1, i32 0)", f"  %one.c = extractvalue {quad} %one, 2",
             f"  %one.d = extractvalue {quad} %one, 3",
             "  %has7 = icmp uge i32 %last, 7", "  br i1 %has7, label %ask, label %know", "ask:",
             f"  %seven = call {quad} {_CPUID}(i32 7, i32 0)", f"  %asked = extractvalue {quad} %seven, 1", "  br label %know", "know:",
             "  %seven.b = phi i32 [0, %entry], [%asked, %ask]", f"  %saves = and i32 %one.c, {_OSXSAVE}",
             "  %saved = icmp ne i32 %saves, 0",
             "  br i1 %saved, label %state, label %decide", "state:", f"  %xcr = call {{i32, i32}} {_XGETBV}(i32 0)",
             "  %low = extractvalue {i32, i32} %xcr, 0", "  br label %decide", "decide:", "  %kept = phi i32 [0, %know], [%low, %state]"]
    total = "0"
    for k, target in enumerate(targets):
        needs: dict[str, int] = {"kept": 0xE6 if target.vector_bytes == 64 else 0x6 if target.vector_bytes == 32 else 0}
        for feature in target.features:
            register, bit = _BITS[feature]
            needs[register] = needs.get(register, 0) | 1 << bit
        flag = "true"
        for register, bits in needs.items():
            name = f"%l{k}.{register}"
            lines += [f"  {name} = and i32 %{register}, {bits}", f"  {name}.all = icmp eq i32 {name}, {bits}",
                      f"  {name}.so = and i1 {flag}, {name}.all"]
            flag = f"{name}.so"
        lines += [f"  %l{k}.bit = select i1 {flag}, i64 {1 << k}, i64 0", f"  %l{k}.total = or i64 {total}, %l{k}.bit"]
        total = f"%l{k}.total"
    return "\n".join([*lines, f"  ret i64 {total}", "}"])


def runs_text(target: Target) -> str:
    """`i64 @adjit_runs()`: 1 if the processor runs code for a target, else 0."""
    return f"{level_function([target])}\ndefine i64 @{RUNS_SYMBOL}() nounwind {{\n  %all = call i64 @level.mask()\n  ret i64 %all\n}}"
