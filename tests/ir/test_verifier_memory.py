"""V7 and V8: each way of breaking a memory plan is found, on its op."""

from __future__ import annotations

import textwrap

import pytest

from adjit.ir.errors import VerificationError
from adjit.ir.parser import parse
from adjit.ir.verifier import Stage, verify

BROKEN = {
    "V7 used after free": """
        %a: f32[4] @ arena+0 = exp %x
        free %a
        %r: f32[4] @ result+0 = sin %a
        return %r""",
    "V7 freed twice": """
        %a: f32[4] @ arena+0 = exp %x
        %r: f32[4] @ result+0 = sin %a
        free %a
        free %a
        return %r""",
    "V7 never freed": """
        %a: f32[4] @ arena+0 = exp %x
        %r: f32[4] @ result+0 = sin %a
        return %r""",
    "V7 a parameter or result is freed": """
        %r: f32[4] @ result+0 = sin %x
        free %x
        return %r""",
    "V7 the memory also holds": """
        %a: f32[4] @ arena+0 = exp %x
        %b: f32[2,2] @ arena+0 = reshape %a {shape=(2, 2)}
        free %a
        %r: f32[2,2] @ result+0 = sin %b
        free %b
        return %r""",
    "V8 0 slots, expected 1": """
        %r: f32[4] = sin %x
        return %r""",
    "V8 arena+8 overlaps a live value": """
        %a: f32[4] @ arena+0 = exp %x
        %b: f32[4] @ arena+8 = sin %x
        free %b
        %r: f32[4] @ result+0 = sin %a
        free %a
        return %r""",
    "V8 arena+0 overlaps a live value": """
        %a: f32[4] @ arena+0 = exp %x
        %b: f32[] @ arena+0 = reduce_sum %a {axes=(0,)}
        %r: f32[4] @ result+0 = broadcast %b {axes=(), shape=(4,)}
        free %b
        return %r""",
    "V8 used after it was written over": """
        %a: f32[4] @ arena+0 = exp %x
        %b: f32[4] @ arena+0 = sin %a
        %r: f32[4] @ result+0 = add %a, %b
        free %b
        return %r""",
    "V8 a parameter that is not donated is written": """
        %a: f32[4] @ param+0 = exp %x
        %r: f32[4] @ result+0 = sin %a
        return %r""",
    "V8 used after it was written over: <Value d": """
        %a: f32[4] @ param+1 = exp %x
        %r: f32[4] @ result+0 = add %a, %d
        return %r""",
    "V8 param+1 overlaps a live value: <Value d": """
        %m: f32[1,4] @ arena+0 = reshape %x {shape=(1, 4)}
        %n: f32[4,4] @ arena+64 = matmul %m, %m {transpose_a=true, transpose_b=false}
        free %m
        %k: f32[4] @ param+1 = fused %d, %n {columns=4, in_place=(), rows=4, scratch_bytes=0} [
          graph @kernel(%p: f32[4], %q: f32[4,4]) {
            %s: f32[4] = reduce_sum %q {axes=(0,)}
            %o: f32[4] = add %p, %s
            return %o
          }
        ]
        free %n
        return %k""",
    "V8 result+1 does not hold 16 bytes": """
        %r: f32[4] @ result+1 = sin %x
        return %r""",
    "V8 a result of the graph lies in arena": """
        %r: f32[4] @ arena+0 = sin %x
        return %r""",
    "V8 a result of the graph lies in param+0": """
        %r: f32[2,2] @ param+0 = reshape %x {shape=(2, 2)}
        return %r""",
    "V8 two results of the graph share memory": """
        %r: f32[4] @ param+1 = sin %x
        %s: f32[2,2] @ param+1 = reshape %r {shape=(2, 2)}
        return %r, %s""",
    "V8 a result of the graph is written over": """
        %r: f32[4] @ param+1 = sin %x
        %s: f32[4] @ param+1 = cos %x
        return %r, %s""",
    "V8 a result of the graph is written over: <Value d": """
        %s: f32[4] @ param+1 = cos %x
        return %d, %s""",
    "V8 arena+0 is written twice by one op": """
        %a: f32[4] @ arena+0 = exp %x
        %b: f32[4] @ arena+0, %c: f32[4] @ arena+0 = fused %a {columns=4, in_place=(0,), rows=1, scratch_bytes=0} [
          graph @kernel(%p: f32[4]) {
            %q: f32[4] = sin %p
            %r: f32[4] = cos %p
            return %q, %r
          }
        ]
        %r: f32[4] @ result+0 = add %b, %c
        free %b
        free %c
        return %r""",
    "V8 arena+16 overlaps a live value": """
        %a: f32[8] @ arena+0 = concatenate %x, %x {axis=0}
        %b: f32[8] @ arena+64 = fused %a scratch @ arena+16 {columns=8, in_place=(), rows=1, scratch_bytes=32} [
          graph @kernel(%p: f32[8]) {
            %q: f32[8] = sin %p
            return %q
          }
        ]
        free %a
        %r: f32[8] @ result+0 = sin %b
        free %b
        return %r""",
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_plans_are_found(message: str) -> None:
    graph = parse("graph @broken(%x: f32[4], %d: f32[4] donated) {\n" + textwrap.dedent(BROKEN[message]) + "\n}")
    with pytest.raises(VerificationError) as caught:
        verify(graph, Stage.PLANNED, after="plan_memory")
    assert message in str(caught.value)
    assert "after pass 'plan_memory'" in str(caught.value)


SOUND = {
    "in place, twice": """
        %a: f32[4] @ arena+0 = exp %x
        %b: f32[4] @ arena+0 = sin %a
        %r: f32[4] @ result+0 = cos %b
        free %b
        return %r""",
    "in place over memory with a dead alias": """
        %a: f32[4] @ arena+0 = exp %x
        %v: f32[2,2] @ arena+0 = reshape %a {shape=(2, 2)}
        %s: f32[2,2] @ result+1 = sin %v
        %b: f32[4] @ arena+0 = sin %a
        %r: f32[4] @ result+0 = cos %b
        free %b
        return %r, %s""",
    "the old content of a donated buffer is used up": """
        %a: f32[4] @ arena+0 = exp %d
        %r: f32[4] @ param+1 = cos %x
        %s: f32[4] @ result+1 = sin %a
        free %a
        return %r, %s""",
    "a parameter returned as it is": """
        %r: f32[4] @ result+1 = cos %x
        return %d, %r, %d, %x""",
    "a result listed twice": """
        %r: f32[4] @ result+1 = cos %x
        return %r, %r""",
    "an alias of an input": """
        %v: f32[2,2] @ param+0 = reshape %x {shape=(2, 2)}
        %r: f32[2,2] @ result+0 = cos %v
        return %r""",
}


@pytest.mark.parametrize("case", SOUND)
def test_sound_plans_pass(case: str) -> None:
    verify(parse("graph @sound(%x: f32[4], %d: f32[4] donated) {\n" + textwrap.dedent(SOUND[case]) + "\n}"), Stage.PLANNED)
