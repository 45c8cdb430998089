"""Vectors that are written in part: with a mask on AVX-512; elsewhere in pieces, and where the mask is a value, only if it is not full."""

from __future__ import annotations

import re

import pytest

from adjit.codegen.llvm.target import TARGETS, Target
from adjit.codegen.native.program import lower_program
from adjit.ir.parser import parse
from adjit.passes.options import Options
from adjit.passes.pipeline import run_pipeline

PROGRAMS = {
    "elementwise": """
graph @g(%x: f32[2,11], %y: f32[11]) {
  %b: f32[2,11] = broadcast %y {axes=(1,), shape=(2, 11)}
  %z: f32[2,11] = maximum %x, %b
  %s: bool[2,11] = less %x, %b
  return %z, %s
}""",
    "product": """
graph @g(%x: f64[9,6], %y: f64[6,7]) {
  %z: f64[9,7] = matmul %x, %y {transpose_a=false, transpose_b=false}
  return %z
}"""}
POOLING = """
graph @g(%x: f32[2,9,13]) {
  %z: f32[2,8,12] = window_max %x {dilation=(1, 1), high=(0, 0), interior=(0, 0), low=(0, 0), sizes=(2, 2), stride=(1, 1)}
  return %z
}"""


def text_of(program: str, target: Target) -> str:
    return lower_program(run_pipeline(parse(program), Options(), verify=True).final, target).text


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_known_parts_are_written_in_pieces_before_avx512(name: str, target: Target) -> None:
    assert ("masked.store" in text_of(PROGRAMS[name], target)) == target.avx512


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_full_masks_are_not_used_before_avx512(target: Target) -> None:
    """Each store with a mask stands behind a comparison of the mask."""
    text = text_of(POOLING, target)
    stores = len(re.findall(r"call void @llvm\.masked\.store", text))
    assert stores
    assert len(re.findall(r"icmp ne i\d+ %v\d+, -1", text)) == (0 if target.avx512 else stores)
