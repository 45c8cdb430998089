"""Pictures of the graph that tensors remember: nodes, colours and names as torchviz's."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.dot_text import Picture, label, read_dot

import adjit as aj
from adjit.viz.drawing import _digraph_class

LEAF, SAVED, OUTPUT, BASE = "lightblue", "orange", "darkolivegreen1", "darkolivegreen3"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="there is no program dot")


def tensor(*shape: int, requires_grad: bool = True) -> Any:
    return aj.tensor(np.ones(shape, np.float32), requires_grad=requires_grad)


def drawn(*args: Any, **kwargs: Any) -> Picture:
    return read_dot(aj.viz.make_dot(*args, **kwargs).source)


def text(picture: Picture, node: str) -> str:
    return " ".join(label(picture.nodes[node]).split())


def summary(picture: Picture) -> tuple[Counter[Any], Counter[Any]]:
    """The nodes by text and colour, and the edges by the texts of their ends and their style."""
    nodes = Counter((text(picture, node), attributes.get("fillcolor")) for node, attributes in picture.nodes.items())
    edges = Counter((text(picture, start), text(picture, end), *sorted(attributes.items())) for start, end, attributes in picture.edges)
    return nodes, edges


def product() -> tuple[Any, dict[str, Any]]:
    a, b = aj.tensor(2.0, requires_grad=True), aj.tensor(3.0, requires_grad=True)
    return (a + b) * (b + 1), {"a": a, "b": b}


def test_sum_and_product() -> None:
    y, params = product()
    nodes, edges = summary(drawn(y, params=params))
    assert nodes == {("a ()", LEAF): 1, ("b ()", LEAF): 1, ("AccumulateGrad", None): 2, ("AddBackward0", None): 2,
                     ("MulBackward0", None): 1, ("()", OUTPUT): 1}
    assert edges == {
        ("a ()", "AccumulateGrad"): 1, ("b ()", "AccumulateGrad"): 1, ("AccumulateGrad", "AddBackward0"): 3,
        ("AddBackward0", "MulBackward0"): 2, ("MulBackward0", "()"): 1}


def test_look_is_that_of_torchviz() -> None:
    y, params = product()
    picture = drawn(y, params=params)
    assert picture.attributes["node"] == {
        "style": "filled", "shape": "box", "align": "left", "fontsize": "10", "ranksep": "0.1", "height": "0.2", "fontname": "monospace"}
    assert picture.attributes["graph"] == {"size": "12,12"}
    assert not any("shape" in attributes for attributes in picture.nodes.values())


def test_large_pictures_are_drawn_large() -> None:
    x = tensor(3)
    y = x
    for _ in range(5000):
        y = y * 2.0
    picture = drawn(y)
    assert len(picture.nodes) == 5003
    side = float(picture.attributes["graph"]["size"].split(",")[0])
    assert side == pytest.approx(0.15 * (5003 + len(picture.edges)))


def test_leaves_without_names_show_their_shape() -> None:
    y, _ = product()
    nodes, _ = summary(drawn(y))
    assert nodes["()", LEAF] == 2
    nodes, _ = summary(drawn(tensor(4, 3) * tensor(3), params=None))
    assert nodes["(4, 3)", LEAF] == nodes["(3)", LEAF] == nodes["(4, 3)", OUTPUT] == 1


def test_what_requires_no_grad_is_not_drawn() -> None:
    x, w = tensor(2, 3, requires_grad=False), tensor(2, 3)
    nodes, _ = summary(drawn(x * w, params={"x": x, "w": w}))
    assert nodes == {("w (2, 3)", LEAF): 1, ("AccumulateGrad", None): 1, ("MulBackward0", None): 1, ("(2, 3)", OUTPUT): 1}
    picture = drawn(x + 1.0)
    assert summary(picture) == ({("(2, 3)", OUTPUT): 1}, {})


def test_a_parameter_that_is_used_twice_is_drawn_once() -> None:
    x, w = tensor(1, 4, requires_grad=False), tensor(4, 4)
    y = np.tanh(np.tanh(x @ w) @ w)
    nodes, edges = summary(drawn(y, params={"w": w}))
    assert nodes["w (4, 4)", LEAF] == 1
    assert nodes["AccumulateGrad", None] == 1
    assert nodes["TanhBackward0", None] == 2
    assert sum(count for (start, *_), count in edges.items() if start == "AccumulateGrad") == 2


def test_an_operand_that_is_used_twice_has_two_edges() -> None:
    x = tensor(3)
    _, edges = summary(drawn(x * x))
    assert edges["AccumulateGrad", "MulBackward0"] == 2


@pytest.mark.parametrize("container", [tuple, list, lambda outputs: dict(zip("ab", outputs, strict=True))])
def test_several_outputs(container: Any) -> None:
    x = tensor(3)
    h = np.sin(x)
    outputs = container([h * 2.0, np.sum(h)])
    nodes, edges = summary(drawn(outputs, params={"x": x}))
    assert nodes == {("x (3)", LEAF): 1, ("AccumulateGrad", None): 1, ("SinBackward0", None): 1, ("MulBackward0", None): 1,
                     ("SumBackward0", None): 1, ("(3)", OUTPUT): 1, ("()", OUTPUT): 1}
    assert edges["SinBackward0", "MulBackward0"] == edges["SinBackward0", "SumBackward0"] == 1


def test_the_base_of_a_view_is_dark_green() -> None:
    x = tensor(2, 3)
    h = np.sin(x)
    picture = drawn(h.reshape(3, 2).t(), params={"x": x})
    nodes, edges = summary(picture)
    assert nodes["(2, 3)", BASE] == 1
    assert nodes["(2, 3)", OUTPUT] == 1
    assert edges["SinBackward0", "(2, 3)"] == 1
    (dotted,) = (start for start, _, attributes in picture.edges if attributes.get("style") == "dotted")
    assert picture.nodes[dotted]["fillcolor"] == BASE


def test_saved_tensors_are_orange() -> None:
    x, w = aj.tensor([[1.0, 2.0, 3.0]]), tensor(1, 3)
    h = w * x
    y = np.exp(h * w)
    picture = drawn(y, params={"w": w}, show_saved=True)
    saved = {(text(picture, start), text(picture, end)) for start, end, attributes in picture.edges if attributes.get("dir") == "none"}
    assert saved == {("MulBackward0", "operand 1 (1, 3)"), ("MulBackward0", "operand 0 (1, 3)"), ("MulBackward0", "operand 1 = w (1, 3)"),
                     ("ExpBackward0", "result (1, 3)")}
    assert {text(picture, node) for node, attributes in picture.nodes.items() if attributes.get("fillcolor") == SAVED} == {
        end for _, end in saved}
    assert SAVED not in {attributes.get("fillcolor") for attributes in drawn(y).nodes.values()}


def test_saved_tensors_that_were_freed_are_refused() -> None:
    y, params = product()
    y.backward()
    assert drawn(y, params=params).find("MulBackward0")
    with pytest.raises(aj.errors.GraphFreedError, match="retain_graph"):
        drawn(y, params=params, show_saved=True)


def test_attributes_of_nodes() -> None:
    y, params = product()
    y.grad_fn.metadata["note"] = "a \\N long\nnote " + 60 * "x"
    picture = drawn(y, params=params, show_attrs=True)
    node = picture.nodes[picture.one("MulBackward0")]["label"]
    lines = node.split("\n")
    assert lines[0] == "MulBackward0"
    assert lines[2:4] == ["operand 0: [saved tensor]", "operand 1: [saved tensor]"]
    assert lines[4].startswith("note     : a \\\\N long note xxx")
    assert lines[4].endswith("x…")
    assert set(lines[1]) == {"-"}
    assert len(lines) == 5
    assert {label(attributes) for attributes in picture.nodes.values()} >= {"AccumulateGrad", "AddBackward0"}


def test_anomaly_mode_gives_the_source_line() -> None:
    with aj.autograd.detect_anomaly():
        y = np.sin(tensor(3))
    assert "test_viz_make_dot.py" in label(drawn(y, show_attrs=True).nodes["n1"])


def test_text_is_the_same_every_time() -> None:
    assert len({aj.viz.make_dot(*product(), show_attrs=True, show_saved=True).source for _ in range(3)}) == 1


@pytest.mark.parametrize("output", [np.ones(3), 1.0, (), None, [np.float32(1.0)]])
def test_outputs_that_are_no_tensors(output: Any) -> None:
    with pytest.raises(aj.errors.DTypeError, match="draws the graph of tensors") as caught:
        aj.viz.make_dot(output)
    assert caught.value.location is not None
    assert caught.value.location.function == "test_outputs_that_are_no_tensors"


def test_parameters_that_are_no_tensors() -> None:
    y, _ = product()
    with pytest.raises(aj.errors.DTypeError, match=r"params\['w'\] is no tensor but ndarray"):
        aj.viz.make_dot(y, params={"w": np.ones(3)})        # type: ignore[dict-item]


def test_model() -> None:
    model = aj.nn.Sequential(aj.nn.Linear(5, 8), aj.nn.ReLU(), aj.nn.Linear(8, 4))
    picture = drawn(model(aj.tensor(np.ones((1, 5), np.float32))), params=dict(model.named_parameters()), show_saved=True)
    nodes, edges = summary(picture)
    assert {name for name, colour in nodes if colour == LEAF} == {"0.weight (8, 5)", "0.bias (8)", "2.weight (4, 8)", "2.bias (4)"}
    assert nodes["AddmmBackward0", None] == 2
    assert edges["AddmmBackward0", "ReluBackward0"] == edges["ReluBackward0", "AddmmBackward0"] == edges["AddmmBackward0", "(1, 4)"] == 1
    assert edges["ReluBackward0", "result (1, 8)", ("dir", "none")] == 1


def test_without_dot_the_text_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    picture = aj.viz.make_dot(*product())
    for draw in (lambda: picture.render("net", format="png"), lambda: picture.render(outfile="net.png"), lambda: picture.view("net")):
        with pytest.raises(aj.errors.RenderError, match="install Graphviz") as caught:
            draw()
        assert caught.value.source == picture.source
        (file,) = tmp_path.iterdir()
        assert f"DOT text is in {file.name}" in str(caught.value)
        assert file.read_text() == picture.source
        file.unlink()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _digraph_class.cache_clear()
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(aj.errors.UnsupportedError, match=r"pip install 'adjit\[viz\]'"):
        aj.viz.make_dot(*product())


@needs_dot
def test_real_pictures(tmp_path: Path) -> None:
    y, params = product()
    picture = aj.viz.make_dot(y, params=params, show_attrs=True, show_saved=True)
    tree = ElementTree.parse(picture.render(outfile=tmp_path / "y.svg"))
    kinds = [group.get("class") for group in tree.iter("{http://www.w3.org/2000/svg}g")]
    assert kinds.count("node") == len(read_dot(picture.source).nodes)
    assert {shape.get("fill") for shape in tree.iter("{http://www.w3.org/2000/svg}polygon")} >= {"lightblue", "orange", "lightgrey"}
    assert Path(picture.render(outfile=tmp_path / "y.png")).read_bytes().startswith(b"\x89PNG")


def test_same_picture_as_torchviz() -> None:
    torch = pytest.importorskip("torch")
    torchviz = pytest.importorskip("torchviz")

    def pictures(library: Any, make_dot: Any, functional: Any) -> Any:
        def new(*shape: int, grad: bool = True) -> Any:
            return library.tensor(np.ones(shape, np.float32), requires_grad=grad)

        a, b = new(), new()
        yield make_dot((a + b) * (b + 1), params={"a": a, "b": b})
        x, w1, b1, w2, b2 = new(1, 5, grad=False), new(8, 5), new(8), new(4, 8), new(4)
        out = functional.relu(x @ w1.t() + b1) @ w2.t() + b2
        yield make_dot(out, params={"w1": w1, "b1": b1, "w2": w2})
        h = x @ w1.t()
        yield make_dot((h.t(), (h * h).sum()), params={"w1": w1})
        state = new(1, 4, grad=False)
        for _ in range(3):
            state = (state @ w2).sigmoid()[:, :4]
        yield make_dot(state, params={"w2": w2})

    ours = pictures(aj, aj.viz.make_dot, aj.nn.functional)
    theirs = pictures(torch, torchviz.make_dot, torch.nn.functional)
    for mine, other in zip(ours, theirs, strict=True):
        assert summary(read_dot(mine.source)) == summary(read_dot(other.source))
