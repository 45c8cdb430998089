"""Collectives keep their order among each other: ranks that compute different things in between wait for each other in the same places."""

from __future__ import annotations

import pytest

from adjit.ir.analysis.collective_order import collectives_of
from adjit.ir.communicator import FIELDS
from adjit.ir.parser import parse
from adjit.passes.options import Options
from adjit.passes.schedule import schedule

TABLE = f"i64[{len(FIELDS)}]"
GATHERED = f"""graph @f(%x: f64[1000], %y: f64[500], %t: {TABLE}) {{
  %big: f64[1000] = sin %x
  %a: f64[2,500] = all_gather %y, %t {{note="", size=2}}
  %b: f64[1000] = all_reduce %big, %t {{note="", op="sum"}}
  %p: f64[] = reduce_sum %b {{axes=(0,)}}
  %q: f64[] = reduce_sum %a {{axes=(0, 1)}}
  return %p, %q
}}
"""
"""Less memory is needed if the second collective is first."""


def test_schedule_keeps_the_order() -> None:
    graph = parse(GATHERED)
    assert collectives_of(schedule(graph, Options())) == collectives_of(graph) == (
        "all_gather f64[500] size=2", "all_reduce f64[1000] op=sum")


def test_schedule_would_change_the_order_of_other_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjit.passes.memory.donation.COLLECTIVES", frozenset())
    graph = parse(GATHERED)
    assert collectives_of(schedule(graph, Options())) == collectives_of(graph)[::-1]


DONATED = f"""graph @f(%m: f64[4] donated, %n: f32[4] donated, %g: f64[4], %h: f32[4], %t: {TABLE}) {{
  %m1: f64[4] = add %m, %g
  %n1: f32[4] = add %n, %h
  %a: f64[2,4] = all_gather %m1, %t {{note="", size=2}}
  %b: f32[2,4] = all_gather %n1, %t {{note="", size=2}}
  return %m1, %n1, %a, %b
}}
"""


def test_order_goes_with_what_donated_buffers_need() -> None:
    """A donated buffer is written behind all collectives that may fail, but for those that need what is written."""
    graph = parse(DONATED)
    scheduled = schedule(graph, Options())
    assert len(scheduled.ops) == len(graph.ops)
    assert collectives_of(scheduled) == collectives_of(graph)


def test_what_guards_need_comes_first_in_order() -> None:
    graph = parse(f"""graph @f(%x: f64[3], %y: f64[], %t: {TABLE}) {{
      %a: f64[3] = all_reduce %x, %t {{note="", op="max"}}
      %b: f64[] = all_reduce %y, %t {{note="", op="sum"}}
      %c: bool[] = greater %b, %y
      guard %c {{expected=true, number=0}}
      return %a
    }}
    """)
    assert collectives_of(schedule(graph, Options())) == collectives_of(graph)


def test_loops_and_branches_are_lines_of_their_own() -> None:
    graph = parse(f"""graph @f(%x: f64[3], %t: {TABLE}) {{
      %y: f64[3] = scan %x, %t {{carries=1, length=3, reverse=false, scratch_bytes=0, slices=0}} [
        graph @body(%c: f64[3] carried, %t: {TABLE}) {{
          %d: f64[3] = all_reduce %c, %t {{note="", op="max"}}
          return %d
        }}
      ]
      return %y
    }}
    """)
    assert collectives_of(graph) == ("scan of 3 iterations", "{", "all_reduce f64[3] op=max", "}")
