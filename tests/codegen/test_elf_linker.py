"""The linker of our own: object files of several modules with state and symbols of the process; the processor without LLVM."""

from __future__ import annotations

import ctypes

import pytest

from adjit.codegen.llvm import target
from adjit.codegen.llvm.elf_linker import link_image
from adjit.codegen.llvm.link import CompiledObject, load
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS

pytestmark = pytest.mark.skipif(not target.host_targets(), reason="no native programs here")

COUNTER = """
@count = internal global i64 5
@zeros = internal global [3 x i64] zeroinitializer
@Py_Version = external global i32
declare i64 @given(i64)
declare hidden i64 @twice(i64)
define i64 @next() {
  %old = load i64, ptr @count
  %new = call i64 @twice(i64 %old)
  store i64 %new, ptr @count
  %version = load i32, ptr @Py_Version
  %wide = zext i32 %version to i64
  %place = getelementptr i64, ptr @zeros, i64 2
  store i64 %wide, ptr %place
  %kept = load i64, ptr %place
  %sum = add i64 %new, %kept
  %end = call i64 @given(i64 %sum)
  ret i64 %end
}
"""
STATE = "@count = global i64 5"
TWICE = """
define hidden i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
"""


def test_several_objects_with_state_and_symbols_of_the_process() -> None:
    first, second = (emit_object(text, TARGETS["sse2"]) for text in (COUNTER, TWICE))
    negated = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: -x)
    known = {"given": ctypes.cast(negated, ctypes.c_void_p).value or 0}
    version = ctypes.c_uint32.in_dll(ctypes.pythonapi, "Py_Version").value
    loaded = [load(CompiledObject(first, "next", "", (second,)), known) for _ in range(2)]
    assert all(kernel.library is not None for kernel in loaded)      # LLVM holds none
    for kernel in loaded:       # each has a state of its own
        next = ctypes.PYFUNCTYPE(ctypes.c_int64)(kernel.address)
        assert [next(), next()] == [-10 - version, -20 - version]
    for codes, known_names, reason in (((first,), known, "unresolved external symbol twice"), ((first, second), {}, "unresolved .* given"),
                                       ((second, first), None, "unresolved .* Py_Version"), ((second,), {}, "does not define next"),
                                       ((emit_object(STATE, TARGETS["sse2"]),), None, "writable data section")):
        with pytest.raises(ValueError, match=reason):
            link_image(codes, ("next",), known_names)


def test_linux_and_llvm_agree_on_the_processor() -> None:
    wanted = {feature for each in TARGETS.values() for feature in each.features}
    assert target._features_by_linux() & wanted == target._features_by_llvm() & wanted
