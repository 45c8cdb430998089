"""`f.report()`: the page of a compiled program, its facts, and how it does in a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.__main__ import main
from adjit.ir.parser import parse
from adjit.runtime.reports import page as pages


def loss(p: Any, x: Any) -> Any:
    h = np.tanh(x @ p["w"])
    c, _ = aj.scan(lambda c, t: (np.tanh(c * 0.5 + t), None), h[0], h)
    return np.sum(np.exp(c))


ARGUMENTS = {"w": np.linspace(-1, 1, 12).reshape(3, 4)}, np.linspace(0, 1, 15).reshape(5, 3)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found.group(1))     # type: ignore[no-any-return]


def test_facts_of_a_program(tmp_path: Path) -> None:
    step = aj.compile(aj.value_and_grad(loss))
    page = step.report(tmp_path / "step.html", *ARGUMENTS)
    assert page.path == tmp_path / "step.html"
    text = page.path.read_text()
    assert text == page.html
    assert "<iframe srcdoc=" in page._repr_html_()
    assert not re.search(r'(src|href)="(?!data:)', text[:text.index("<script>")])     # nothing from a network
    data = data_of(text)
    graph = data["graphs"]["before fusion"]
    by_name = {node["op"]: node for node in graph["nodes"]}
    assert by_name["matmul"]["line"].endswith(f"test_page.py:{loss.__code__.co_firstlineno + 1}")
    assert by_name["matmul"]["operations"] == 2 * 5 * 3 * 4
    loops = [node for node in graph["nodes"] if node["kind"] == "loop"]
    assert [node["loop"] for node in loops] == ["loop, 5 times"] * 2
    assert all(any(inner["parent"] == node["id"] for inner in graph["nodes"]) for node in loops)
    assert all(operand < node["id"] for node in graph["nodes"] for operand in node["operands"])
    assert "fused" not in by_name
    assert any(node["kind"] == "kernel" for node in data["graphs"]["after fusion"]["nodes"])
    assert {row["why"].split()[2] for row in data["saved"]}
    assert sum(step["ms"] for step in data["steps"]) > 0
    assert data["machine"]["operations"] > 1e8
    assert any(kernel["lines"] and "define" in kernel["text"] for kernel in data["kernels"])
    assert data["memory"]["blocks"][0]["source"]
    assert "passes" in data["explain"]


def test_pages_without_times_of_halves_and_methods(tmp_path: Path) -> None:
    forward = aj.compile(lambda x: (x.sin() * x).sum())
    x = aj.tensor([1.0, 2.0], requires_grad=True)
    forward(x).backward()
    data = data_of(forward.report().html)
    assert data["steps"] == []
    assert "backward half, after fusion" in data["graphs"]
    assert data["saved"][0]["why"].startswith("read by ")

    class Model:
        @aj.compile
        def double(self, x: Any) -> Any:
            return "</script>" and x * 2

    assert data_of(Model().double.report(tmp_path / "m.html", np.ones(2)).html)["name"] == "double"


def test_kernels_have_their_instructions() -> None:
    compiled = aj.compile(lambda x, w: np.tanh(x @ w))
    kernels = data_of(compiled.report(None, np.ones((8, 4)), np.ones((4, 3))).html)["kernels"]
    named = {kernel["name"]: kernel.get("assembly", "") for kernel in kernels}
    assert all("ret" in text for name, text in named.items() if name != "shared functions")
    assert not any(line.lstrip().startswith((".cfi", ".p2align")) for text in named.values() for line in text.splitlines())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "programs.py"
    module.write_text("import numpy as np\nimport adjit as aj\ndef plain(x, n):\n    return np.sin(x) * n\nscale = 3.0\n")
    target = tmp_path / "page.html"
    assert main(["report", f"{module}:plain", "--args", "np.ones(3), scale", "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert data_of(target.read_text())["steps"]
    assert main(["report", f"{module}:missing"]) == 1
    assert main(["report", "nothing"]) == 1
    for arguments, message in ((["no_such_module_xyz:f"], "no module 'no_such_module_xyz'"),
                               ([f"{module}:plain", "--args", "[1, 2"], "no list of arguments: SyntaxError"),
                               ([f"{module}:plain", "--args", "unknown"], "NameError: name 'unknown'"),
                               ([f"{module}:plain", "--args", "1.0, 2.0, 3.0, 4.0, 5.0"], "does not fit"),
                               ([f"{module}:plain.missing"], "has no 'plain.missing'")):
        capsys.readouterr()
        assert main(["report", *arguments]) == 1
        assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install 'adjit[browser]'")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    made.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    yield made
    made.quit()


def large_graph(groups: int = 40, ops: int = 50) -> dict[str, Any]:
    """The facts of a graph of 2,000 ops from forty lines."""
    lines = ["graph @large(%x: f32[4]) {", "  %v0: f32[4] = sin %x  # large.py:1 in part0"]
    for number in range(1, groups * ops):
        lines.append(f"  %v{number}: f32[4] = {'tanh' if number == 777 else 'sin'} %v{number - 1}  "
                     f"# large.py:{number // ops + 1} in part{number // ops % 7}")
    graph = parse("\n".join([*lines, f"  return %v{groups * ops - 1}", "}"]))
    return pages._graph(graph)


def test_in_a_browser(browser: Any, tmp_path: Path) -> None:
    """No error, no request; search finds, folding works, lines lead from tables to the graph; 2,000 ops load in a second of its time."""
    step = aj.compile(aj.value_and_grad(loss))
    data = data_of(step.report(None, *ARGUMENTS).html)
    small, large = tmp_path / "small.html", tmp_path / "large.html"
    small.write_text(pages.page_text(data))
    large.write_text(pages.page_text({**data, "graphs": {"before fusion": large_graph()}}))
    run = browser.execute_script

    def thread_seconds() -> float:
        found: float = next(each["value"] for each in browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
                            if each["name"] == "TaskDuration")
        return found

    browser.get(small.as_uri())
    assert run("return adjitLoaded") > 0
    assert run("return graph.cy.nodes(':parent').length") == 2          # the loops, as boxes
    run("document.getElementById('search').value = 'matmul'; graph.search('matmul')")
    assert run("return document.getElementById('found').textContent") != "0 found"
    assert "matmul" in run("return document.getElementById('details').textContent")
    count = run("return graph.cy.nodes().length")
    run("document.getElementById('fold').click()")
    assert run("return graph.cy.nodes(':parent').length") == 0
    assert run("return graph.cy.nodes().length") < count
    run("document.getElementById('unfold').click()")
    assert run("return graph.cy.nodes().length") == count
    run("document.getElementById('mode').value = 'line'; document.getElementById('mode').dispatchEvent(new Event('change'))")
    assert 0 < run("return graph.cy.nodes().length") < count
    for tab in ("kernels", "steps", "memory", "saved", "text"):
        run(f"show('{tab}')")
        assert run(f"return document.getElementById('{tab}').textContent.length") > 40
    run("document.querySelector('#kernels details').open = true")
    run("document.querySelector('#memory rect.block').dispatchEvent(new Event('click'))")
    assert run("return document.getElementById('graph').classList.contains('shown')")
    assert run("return document.getElementById('search').value").endswith(".py:" + run("return DATA.memory.blocks[0].line").split(":")[1])
    times = []
    for _ in range(2):
        browser.get("about:blank")
        begin = thread_seconds()
        browser.get(large.as_uri())
        assert run("return graph.graph.nodes.length") == 2002
        times.append(thread_seconds() - begin)
    assert min(times) < 1.0
    run("graph.search('tanh')")
    assert run("return document.getElementById('found').textContent") == "1 found"
    assert browser.get_log("browser") == []
