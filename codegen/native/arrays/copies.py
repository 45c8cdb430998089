"""Copies of whole arrays as steps."""

from __future__ import annotations

from adjit.codegen.native.step_code import SIGNATURE, StepCode

PART_BYTES = 256 << 10
"""What one task copies, at most."""

NANOSECONDS_A_BYTE = 0.04
DECLARATION = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"

_WHOLE = """define internal i64 @step({signature}) nounwind {{
entry:
  %from = load ptr, ptr %places
  %places.1 = getelementptr ptr, ptr %places, i64 1
  %to = load ptr, ptr %places.1
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 {nbytes}, i1 false)
  ret i64 0
}}"""

_PARTS = """define internal i64 @step({signature}) nounwind {{
entry:
  %from = load ptr, ptr %places
  %places.1 = getelementptr ptr, ptr %places, i64 1
  %to = load ptr, ptr %places.1
  %begin = mul i64 %low, {part}
  %reach = mul i64 %high, {part}
  %inside = icmp ult i64 %reach, {nbytes}
  %end = select i1 %inside, i64 %reach, i64 {nbytes}
  %count = sub i64 %end, %begin
  %source = getelementptr i8, ptr %from, i64 %begin
  %place = getelementptr i8, ptr %to, i64 %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %place, ptr %source, i64 %count, i1 false)
  ret i64 0
}}"""


def lower_copy(nbytes: int) -> StepCode:
    """Copies that many bytes from the first place to the second."""
    tasks = max(-(-nbytes // PART_BYTES), 1)
    text = (_WHOLE if tasks == 1 else _PARTS).format(signature=SIGNATURE, nbytes=nbytes, part=PART_BYTES)
    return StepCode(text, tasks, nbytes * NANOSECONDS_A_BYTE, frozenset([DECLARATION]))
