"""Pictures of compiled programs: what is drawn, and what happens without Graphviz."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.dot_text import Picture, label, read_dot

import adjit as aj
from adjit.ir.parser import parse
from adjit.viz.drawing import _digraph_class
from adjit.viz.graph_drawing import draw_graph

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="there is no program dot")


def drawn(text: str, *results: str) -> Picture:
    return read_dot(draw_graph(parse(textwrap.dedent(text)), "title", results).source)


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = aj.nn.functional.relu(x @ params["w1"] + params["b1"])
    hidden = aj.nn.functional.relu(hidden @ params["w2"] + params["b2"])
    return np.mean((hidden @ params["w3"] + params["b3"] - y) ** 2)


def step(params: Any, x: Any, y: Any) -> Any:
    value, grads = aj.value_and_grad(loss)(params, x, y)
    return aj.optim.sgd(0.1).update(params, grads, aj.optim.sgd(0.1).init(params))[0], value


def arguments() -> tuple[Any, ...]:
    generator = np.random.default_rng(0)
    sizes = (8, 16, 12, 4)
    params = {}
    for layer in (1, 2, 3):
        params[f"w{layer}"] = generator.standard_normal((sizes[layer - 1], sizes[layer])).astype(np.float32)
        params[f"b{layer}"] = np.zeros(sizes[layer], np.float32)
    return params, np.ones((32, 8), np.float32), np.ones((32, 4), np.float32)


@pytest.fixture(scope="module")
def pictures() -> aj.viz.GraphPictures:
    return aj.viz.graph(step, *arguments())


def test_constants_are_written_into_ops_and_broadcasts_left_out() -> None:
    picture = drawn("""
        graph @f(%x: f32[4,3], %b: f32[3]) {
          %c: f32[3] = constant {dtype=f32, shape=(3,), value=0.1}
          %s: f32[3] = multiply %b, %c
          %w: f32[4,3] = broadcast %s {axes=(1,), shape=(4, 3)}
          %d: f32[] = constant {dtype=f32, shape=(), value=2.0}
          %e: f32[4,3] = broadcast %d {axes=(), shape=(4, 3)}
          %p: f32[4,3] = power %x, %e
          %r: f32[4,3] = add %p, %w
          %t: f32[3] = reduce_sum %r {axes=(0,)}
          return %t
        }""", "total")
    assert picture.ends() == {
        ("b|f32[3]", "multiply(·, 0.1)|f32[3]"), ("x|f32[4,3]", "power(·, 2)|f32[4,3]"), ("multiply(·, 0.1)|f32[3]", "add|f32[4,3]"),
        ("power(·, 2)|f32[4,3]", "add|f32[4,3]"), ("add|f32[4,3]", "reduce_sum axes 0|f32[3]"),
        ("reduce_sum axes 0|f32[3]", "total|f32[3]")} | LEGEND | {("forward", "parameter")}


LEGEND = {("parameter", "result")}


def test_transposed_operands_of_products_are_marked() -> None:
    picture = drawn("""
        graph @f(%x: f32[4,3], %y: f32[5,3]) {
          %p: f32[4,5] = matmul %x, %y {transpose_a=false, transpose_b=true}
          %q: f32[5,4] = transpose %p {permutation=(1, 0)}
          return %p, %q
        }""", "p", "q")
    assert picture.find("matmul(·, ·ᵀ)|f32[4,5]")
    assert picture.find("transpose permutation 1, 0|f32[5,4]")


def test_what_is_returned_as_it_came_is_drawn() -> None:
    picture = drawn("""
        graph @f(%x: f32[3]) {
          %c: f32[3] = constant {dtype=f32, shape=(3,), value=0.5}
          %w: f32[4,3] = broadcast %x {axes=(1,), shape=(4, 3)}
          return %x, %c, %w
        }""", "same", "fixed", "wide")
    assert picture.ends() - LEGEND == {("x|f32[3]", "same|f32[3]"), ("x|f32[3]", "wide|f32[4,3]")}
    assert picture.find("fixed = 0.5|f32[3]")


def test_roles_have_colours_and_boxes_and_what_is_kept_is_red(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def loss(x, w):\n    h = np.sin(x)  # \\N and \"quotes\"\n    return h\n")
    picture = drawn(f"""
        graph @step(%x: f32[3], %w: f32[3] donated, %k: f32[3] captured) {{
          %h: f32[3] = sin %x  # {file}:2 in loss
          %y: f32[3] = multiply %h, %k  # {file}:3 in loss
          %g: f32[3] = multiply %w, %y  # {file}:3 in loss, adjoint
          %c: f32[3] = cos %x  # {file}:2 in loss, recompute
          %e: f32[3] = multiply %g, %c  # {file}:2 in loss, adjoint
          %u: f32[3] = subtract %w, %e  # {file}:3 in loss, update
          return %u, %y
        }}""", "[0]", "[1]")
    colours = {name: picture.nodes[picture.one(f"{name}|")]["fillcolor"] for name in ("sin", "cos", "subtract")}
    assert len(set(colours.values())) == 3
    assert colours["sin"] == picture.nodes["legend_primal"]["fillcolor"]
    assert colours["cos"] == picture.nodes["legend_recompute"]["fillcolor"]
    assert colours["subtract"] == picture.nodes["legend_update"]["fillcolor"]
    inside = {box: {label(picture.nodes[node]) for node in nodes} for box, nodes in picture.subgraphs.items()}
    assert inside["cluster_primal"] == {"x|f32[3]", "k|f32[3]", "sin|f32[3]", "multiply|f32[3]", "[1]|f32[3]"}
    assert inside["cluster_adjoint"] == {"x|f32[3]", "w|f32[3]", "cos|f32[3]", "multiply|f32[3]"}
    assert inside["cluster_update"] == {"w|f32[3]", "subtract|f32[3]", "[0]|f32[3]"}
    red = [(start, end) for start, end, attributes in picture.edges if "penwidth" in attributes]
    assert [(label(picture.nodes[a]), label(picture.nodes[b])) for a, b in red] == [("multiply|f32[3]", "multiply|f32[3]")]
    assert red[0][0] in picture.subgraphs["cluster_primal"]
    assert red[0][1] in picture.subgraphs["cluster_adjoint"]
    assert "dashed" in picture.nodes[picture.one("k|")]["style"]
    shapes = [picture.nodes[picture.one(text)].get("shape", picture.attributes["node"]["shape"]) for text in ("k|", "[0]|", "sin|")]
    assert len(set(shapes)) == 3
    tip = picture.nodes[picture.one("sin|")]["tooltip"]
    assert "model.py:2 in loss" in tip
    assert r"h = np.sin(x)  # \\N and" in tip


def test_kernels_list_their_ops_in_the_colours_of_their_roles() -> None:
    picture = drawn("""
        graph @f(%x: f32[8,3]) {
          %a: f32[8,3], %b: f32[3] = fused %x {columns=3, in_place=(), rows=8, scratch_bytes=0} [
            graph @reduce_sum_3(%v: f32[8,3]) {
              %c: f32[8,3] = constant {dtype=f32, shape=(8, 3), value=0.1}  # m.py:1 in f
              %d: f32[8,3] = multiply %v, %c  # m.py:1 in f
              %e: f32[8,3] = exp %d  # m.py:2 in f
              %f: f32[8,3] = exp %e  # m.py:2 in f
              %g: f32[3] = reduce_sum %f {axes=(0,)}  # m.py:3 in f, adjoint
              return %e, %g
            }
          ]
          %s: f32[8,3] = sin %a  # m.py:4 in f, adjoint
          return %s, %b
        }""", "[0]", "[1]")
    kernel = picture.one("reduce_sum_3 8 × 3")
    assert label(picture.nodes[kernel]).replace("\N{NO-BREAK SPACE}", " ") == (
        "reduce_sum_3 8 × 3|multiply(·, 0.1), 2 exp|reduce_sum axes 0|f32[8,3], f32[3]")
    rows = re.findall(r'<td align="left" bgcolor="(.*?)"', picture.nodes[kernel]["label"])
    assert rows[1:3] == [picture.nodes["legend_primal"]["fillcolor"], picture.nodes["legend_adjoint"]["fillcolor"]]
    assert not any(kernel in nodes for nodes in picture.subgraphs.values())         # it does the work of two halves
    assert picture.nodes[kernel]["tooltip"] == "m.py:1 in f: multiply\nm.py:2 in f: exp, exp\nm.py:3 in f: reduce_sum"
    (kept,) = (attributes for start, end, attributes in picture.edges if start == kernel and end == picture.one("sin"))
    assert "penwidth" in kept
    assert "penwidth" not in next(attributes for start, end, attributes in picture.edges if end == picture.one("[1]"))


def test_a_training_step_is_drawn_whole(pictures: aj.viz.GraphPictures) -> None:
    params, x, y = arguments()
    compiled = aj.compile(step)
    fused = compiled.ir("fused", params, x, y)
    for picture in (read_dot(pictures.before.source), read_dot(pictures.after.source)):
        used = {node for start, end, _ in picture.edges for node in (start, end)}
        assert used <= set(picture.nodes)
        assert set(picture.nodes) - used <= {"legend_kept"}
        for name in ("params.w1", "params.b3", "x", "y"):
            assert picture.find(f"{name}|f32")
        results = [node for node in picture.nodes if node.startswith("result")]
        names = sorted(label(picture.nodes[node]).split("|")[0] for node in results)
        assert names == sorted([*(f"[0]['{name}']" for name in params), "[1]"])
    after = read_dot(pictures.after.source)
    tables = [node for node in after.nodes.values() if "<table" in node["label"]]
    assert len(tables) == fused.count(" = fused ") + fused.count(" = matmul_epilogue ") > 3
    assert len(after.nodes) < len(read_dot(pictures.before.source).nodes)
    assert any("penwidth" in attributes for _, _, attributes in after.edges)
    assert "legend_kept" in after.nodes


@pytest.mark.parametrize("stage", ["traced", "adjoint", "optimized", "fused", "planned"])
def test_every_stage_can_be_drawn(pictures: aj.viz.GraphPictures, stage: str) -> None:
    picture = read_dot(pictures.at(stage).source)
    assert picture.attributes["graph"]["label"].startswith(f"@step, {stage}: ")
    assert not picture.find("free")
    box = picture.nodes.get("legend_kernel", {"label": ""})
    assert label(box) == {"traced": "function", "fused": "kernel", "planned": "kernel"}.get(stage, "")
    assert len([node for node in picture.nodes if node.startswith("result")]) == 7


@pytest.mark.parametrize("count", [400, 700])
def test_large_graphs_ask_for_a_coarse_layout(count: int) -> None:
    lines = [f"          %v{i + 1}: f32[3] = sin %v{i}" for i in range(count)]
    picture = drawn("\n".join(["        graph @f(%v0: f32[3]) {", *lines, f"          return %v{count}", "        }"]), "r")
    assert ("nslimit" in picture.attributes["graph"]) == (count > 500)


def test_stage_that_there_is_not(pictures: aj.viz.GraphPictures) -> None:
    with pytest.raises(ValueError, match="the stages are traced, adjoint"):
        pictures.at("linked")


def test_titles_count_what_is_drawn() -> None:
    pictures = aj.viz.graph(lambda x: np.sum(np.exp(x) * 2.0), np.ones(4))
    assert read_dot(pictures.before.source).attributes["graph"]["label"] == "@<lambda>, optimized: 3 ops"
    assert read_dot(pictures.after.source).attributes["graph"]["label"] == "@<lambda>, fused: 1 kernel"
    assert read_dot(pictures.before.source).name == "lambda"
    assert len(read_dot(pictures.before.source).nodes) == 3 + 2 + 3      # with x, the result, and a legend of three


def test_compiled_functions_and_methods_are_taken_as_they_are() -> None:
    class Model:
        scale = np.full(3, 2.0)

        @aj.compile
        def forward(self, x: Any) -> Any:
            return np.sin(x) * self.scale

    model, x = Model(), np.ones(3)
    picture = read_dot(aj.viz.graph(model.forward, x).before.source)
    assert picture.find("self.scale|f64[3]")
    assert Model.forward.cache_info().traces == 1
    compiled = aj.compile(lambda x: np.cos(x))
    with pytest.raises(aj.errors.TraceError, match="was not compiled for any arguments yet"):
        aj.viz.graph(compiled)
    compiled(np.ones(5))
    assert read_dot(aj.viz.graph(compiled).before.source).find("cos|f64[5]")
    assert read_dot(aj.viz.graph(compiled, x=np.ones(2)).before.source).find("cos|f64[2]")
    assert compiled.cache_info().traces == 2


def test_the_function_is_not_run() -> None:
    x = np.ones(3)
    compiled = aj.compile(lambda x: np.exp(x), donate="x")
    aj.viz.graph(compiled, x)
    np.testing.assert_array_equal(x, np.ones(3))


def fake_dot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `dot` that writes down what it was called with, and nothing else on the PATH but what it needs."""
    script = folder / "dot"
    script.write_text(f"#!{sys.executable}\n" + textwrap.dedent("""
        import sys
        from pathlib import Path
        words = sys.argv[1:]
        kind = next(word[2:] for word in words if word.startswith("-T"))
        source = Path(words[-1]).read_text() if words[-1].endswith(".gv") else sys.stdin.read()
        output = f"<?xml?><svg kind='{kind}'>{source.split()[1]} {len(source)}</svg>"
        named = [word[2:] for word in words if word.startswith("-o") and len(word) > 2] + [b for a, b in zip(words, words[1:]) if a == "-o"]
        if named:
            Path(named[0]).write_text(output)
        else:
            sys.stdout.write(output)
        """))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_rendering_calls_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: aj.viz.GraphPictures, suffix: str) -> None:
    fake_dot(tmp_path, monkeypatch)
    folder = tmp_path / "out.d"
    folder.mkdir()
    files = pictures.render(folder / f"my.step.{suffix}")
    assert files == (folder / f"my.step-before.{suffix}", folder / f"my.step-after.{suffix}")
    for file, picture in zip(files, (pictures.before, pictures.after), strict=True):
        assert file.read_text() == f"<?xml?><svg kind='{suffix}'>step {len(picture.source)}</svg>"
    assert sorted(folder.iterdir()) == sorted(files)


def test_notebooks_show_both_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: aj.viz.GraphPictures) -> None:
    fake_dot(tmp_path, monkeypatch)
    assert pictures._repr_html_() == "".join(
        f"<svg kind='svg'>step {len(picture.source)}</svg>" for picture in (pictures.before, pictures.after))


@pytest.mark.parametrize("path", ["step", "step.txt", "step.jpg.gz"])
def test_the_suffix_has_to_name_a_format(tmp_path: Path, pictures: aj.viz.GraphPictures, path: str) -> None:
    with pytest.raises(ValueError, match=r"ends in \.svg, \.png, \.pdf"):
        pictures.render(tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_without_dot_the_text_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: aj.viz.GraphPictures) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(aj.errors.RenderError, match="no program `dot`") as caught:
        pictures.render(tmp_path / "step.svg")
    assert caught.value.source == pictures.before.source
    assert f"DOT text is in {tmp_path / 'step-before.gv'}" in str(caught.value)
    assert "install Graphviz" in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_viz_graph.py")
    assert (tmp_path / "step-before.gv").read_text() == pictures.before.source
    assert (tmp_path / "step-after.gv").read_text() == pictures.after.source
    with pytest.raises(aj.errors.RenderError, match=r"DOT text is its \.source"):
        pictures.after.pipe(format="svg")
    with pytest.raises(aj.errors.RenderError):
        pictures._repr_html_()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _digraph_class.cache_clear()
    monkeypatch.setitem(sys.modules, "graphviz", None)
    pictures = aj.viz.graph(lambda x: np.exp(x), np.ones(3))
    with pytest.raises(aj.errors.UnsupportedError, match=r"pip install 'adjit\[viz\]'"):
        _ = pictures.before


@needs_dot
def test_real_pictures(tmp_path: Path, pictures: aj.viz.GraphPictures) -> None:
    for file, picture in zip(pictures.render(tmp_path / "step.svg"), (pictures.before, pictures.after), strict=True):
        tree = ElementTree.parse(file)
        kinds = [group.get("class") for group in tree.iter("{http://www.w3.org/2000/svg}g")]
        expected = read_dot(picture.source)
        assert kinds.count("node") == len(expected.nodes)
        assert kinds.count("cluster") == len(expected.subgraphs)
        tips = [link.get("{http://www.w3.org/1999/xlink}title") or "" for link in tree.iter("{http://www.w3.org/2000/svg}a")]
        assert any("test_viz_graph.py" in tip and "np.mean" in tip for tip in tips)
    for file in pictures.render(tmp_path / "step.png"):
        assert file.read_bytes().startswith(b"\x89PNG")
    assert pictures._repr_html_().count("<svg") == 2
