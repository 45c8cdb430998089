"""The report on a program's memory: numbers by hand, the table, the picture."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest

from adjit.ir.errors import Role, UnsupportedError
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops import fused
from adjit.ir.parser import parse
from adjit.passes.memory.plan_memory import peak_bytes, plan_memory
from adjit.passes.options import Options
from adjit.runtime.reports.memory_report import MemoryReport, format_bytes, memory_report

SOURCE = "def loss(x):\n    h = np.exp(x)\n    t = np.sin(h)\n    return np.concatenate([h, t])\n"


def step(folder: Path) -> Graph:
    file = folder / "model.py"
    file.write_text(SOURCE)
    return parse(textwrap.dedent(f"""
        graph @step(%x: f32[1024]) {{
          %h: f32[1024] = exp %x  # {file}:2 in loss
          %v: f32[32,32] = reshape %h {{shape=(32, 32)}}  # {file}:2 in loss
          %t: f32[32,32] = sin %v  # {file}:3 in loss
          %c: f32[2048] = concatenate %h, %h {{axis=0}}  # {file}:4 in loss
          %d: f32[2048] = cos %c  # {file}:4 in loss, adjoint
          %r: f32[] = reduce_sum %d {{axes=(0,)}}  # {file}:4 in loss, adjoint
          %s: f32[32] = reduce_sum %t {{axes=(0,)}}  # {file}:3 in loss, update
          return %r, %s
        }}"""))


def report(graph: Graph) -> MemoryReport:
    return memory_report(graph, plan_memory(graph, Options()))


def test_a_picture_without_matplotlib_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"cannot be drawn: .*matplotlib(.|\n)*pip install 'adjit\[plot\]'"):
        report(step(tmp_path)).plot(tmp_path / "memory.png")


def test_numbers_by_hand(tmp_path: Path) -> None:
    found = report(step(tmp_path))
    assert found.live_bytes == (4096, 4096, 8192, 16384, 12288, 12288, 4096)
    assert found.peak_bytes == found.arena_bytes == 16384 == peak_bytes(step(tmp_path))
    assert found.naive_bytes == 4096 + 4096 + 8192 + 8192      # h, t, c, d; v is a view, r and s are returned
    assert found.saved_bytes == 8192 + 4096                    # c, and t, which an update reads
    assert [(block.name, block.size, block.first_use, block.last_use) for block in found.blocks] == [
        ("h", 4096, 0, 3), ("t", 4096, 2, 6), ("c", 8192, 3, 4), ("d", 8192, 4, 5)]
    assert [block.role for block in found.blocks] == [Role.PRIMAL, Role.PRIMAL, Role.PRIMAL, Role.ADJOINT]
    c, d = found.blocks[2:]
    assert c.offset == d.offset      # written over in place
    assert found.blocks[0].source == "model.py:2  h = np.exp(x)"


def test_kernels_name_the_line_inside_and_show_their_scratch() -> None:
    found = report(parse(textwrap.dedent("""
        graph @step(%x: f32[256]) {
          %a: f32[256], %b: f32[256] = fused %x {columns=256, in_place=(0,), rows=1, scratch_bytes=512} [  # model.py:9 in f
            graph @exp_sin(%x: f32[256]) {
              %a: f32[256] = exp %x  # model.py:3 in f
              %b: f32[256] = sin %a  # model.py:4 in f, recompute
              return %a, %b
            }
          ]
          %r: f32[256] = maximum %a, %b
          %q: f32[] = reduce_sum %r {axes=(0,)}
          return %q
        }""")))
    assert [(block.name, block.size, block.source, block.role) for block in found.blocks[:3]] == [
        ("a", 1024, "model.py:3", Role.PRIMAL), ("b", 1024, "model.py:4", Role.RECOMPUTE),
        ("scratch of exp_sin", 512, "model.py:9", Role.PRIMAL)]
    assert found.live_bytes[0] == 2560


def test_what_stays_within_a_kernel_is_not_kept() -> None:
    optimized = parse(textwrap.dedent("""
        graph @step(%x: f32[64]) {
          %h: f32[64] = exp %x
          %k: f32[64] = sin %h
          %s: f32[] = reduce_sum %k {axes=(0,)}
          %d: f32[64] = multiply %h, %k  # model.py:2 in f, adjoint
          return %s, %d
        }"""))
    h, k = optimized.ops[0].result, optimized.ops[1].result
    forward = parse(textwrap.dedent("""
        graph @kernel(%x: f32[64]) {
          %h: f32[64] = exp %x
          %k: f32[64] = sin %h
          return %k, %h
        }"""))
    attrs = {"rows": 1, "columns": 64, "in_place": (), "scratch_bytes": 0}

    def kept(region: Graph, results: tuple[Value, ...], rest: tuple[Op, ...]) -> int:
        kernel = Op(fused, optimized.params, results, attrs, (region,))
        return memory_report(optimized, plan_memory(optimized.with_ops([kernel, *rest]), Options())).saved_bytes

    assert memory_report(optimized, plan_memory(optimized, Options())).saved_bytes == 512
    assert kept(forward, (k, h), optimized.ops[2:]) == 512
    assert kept(optimized, optimized.results, ()) == 0


def test_table(tmp_path: Path) -> None:
    lines = str(report(step(tmp_path))).splitlines()
    assert lines[0] == "@step: 16.4 kB of working memory at the peak, in an arena of 16.4 kB"
    assert lines[1] == "kept for the backward half: 12.3 kB; keeping every intermediate value would take 24.6 kB"
    assert lines[3].split() == ["8.19", "kB", "3-4", "forward", "model.py:4", "return", "np.concatenate([h,", "t])"]
    assert len(lines) == 3 + 4


def test_table_sums_up_what_it_leaves_out() -> None:
    ops = "\n".join(f"%a{i}: f32[256] = exp %x" for i in range(40))
    last = "\n".join(f"%s{i + 1}: f32[256] = {'add %s' + str(i) if i else 'negative'} %a{i}".replace(" %a", ", %a" if i else " %a")
                     for i in range(40))
    text = f"graph @many(%x: f32[256]) {{\n{ops}\n{last}\n%r: f32[] = reduce_sum %s40 {{axes=(0,)}}\nreturn %r\n}}"
    lines = str(report(parse(text))).splitlines()
    assert re.search(r"in \d+ smaller blocks", lines[-1])
    assert len(lines) == 3 + 25 + 1


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_picture(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"memory.{suffix}"
    report(step(tmp_path)).plot(path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    if suffix == "svg":
        for words in (b"model.py:4", b"16.4 kB of working memory at the peak", b"backward", b"bytes in use", b"np.concatenate"):
            assert words in content


def test_program_without_working_memory(tmp_path: Path) -> None:
    found = report(parse("graph @none(%x: f32[4]) {\n%r: f32[4] = exp %x\nreturn %r\n}"))
    assert (found.peak_bytes, found.arena_bytes, found.blocks) == (0, 0, ())
    found.plot(tmp_path / "none.png")
    assert str(found).startswith("@none: 0 B of working memory")
    empty = report(parse("graph @empty(%x: f32[4]) {\nreturn %x\n}"))
    empty.plot(tmp_path / "empty.png")
    assert empty.live_bytes == ()


def test_dollar_signs_in_source_are_drawn_as_they_are(tmp_path: Path) -> None:
    """Matplotlib takes what stands between two dollar signs for a formula."""
    (tmp_path / "cost.py").write_text("h = price['$'] ** rate['$_{']\n")
    graph = parse(textwrap.dedent(f"""
        graph @cost(%x: f32[1024]) {{
          %h: f32[1024] = exp %x  # {tmp_path}/cost.py:1 in cost
          %s: f32[] = reduce_sum %h {{axes=(0,)}}
          return %s
        }}"""))
    report(graph).plot(tmp_path / "cost.svg")
    assert (tmp_path / "cost.svg").stat().st_size > 1000


def test_format_bytes() -> None:
    assert [format_bytes(n) for n in (0, 999, 1000, 999_499, 999_500, 2_400_000, 10**10)] == [
        "0 B", "999 B", "1 kB", "999 kB", "1 MB", "2.4 MB", "10 GB"]
