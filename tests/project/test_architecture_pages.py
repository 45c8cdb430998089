"""The maintainers' pages, ARCHITECTURE.md and docs/internals: they stay short, the files and names in them exist, and the graphs on
ARCHITECTURE.md are those that the compiler prints."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.project import PACKAGES, ROOT

import adjit as aj
from adjit.ir.printer import print_graph
from adjit.passes.options import Options
from adjit.passes.pipeline import run_pipeline
from adjit.tracer.trace import trace_function

ARCHITECTURE, CONTRIBUTING = ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"
FOLDER = ROOT / "docs" / "internals"
INTERNALS = sorted(FOLDER.glob("*.md"))
PAGES = [ARCHITECTURE, CONTRIBUTING, *INTERNALS]

SUFFIXES = (".py", ".pyi", ".md", ".ir", ".txt", ".json", ".toml", ".c")
STAGE = re.compile(r"^\*(\w+)\*:[^\n]*\n\n```\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
ELIDED = "..."

def for_each_page(test: Callable[[Path], None]) -> Callable[[Path], None]:
    """Run a test with every page, in the gate too: a page takes milliseconds."""
    return pytest.mark.share(1)(pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)(test))


def code_spans(text: str) -> Iterator[str]:
    """What stands in backticks in the text, but for blocks of code."""
    for found in re.finditer(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield found[1]


def is_path(span: str) -> bool:
    """True if a code span names a file or a folder of the project."""
    folder, slash, _ = span.partition("/")
    return re.fullmatch(r"[\w.*-]+(/[\w.*-]+)*/?", span) is not None and (
        span.endswith(SUFFIXES) or (bool(slash) and folder in (*PACKAGES, "tests", "docs", "benchmarks", "examples")))


def missing_paths(text: str) -> list[str]:
    """Paths in a page that lead nowhere; a `*` stands for any name."""
    return [span for span in code_spans(text) if is_path(span) and not list(ROOT.glob(span))]


@cache
def words_of_the_project() -> frozenset[str]:
    """All words of the code, of its tests and of its configuration."""
    files = [path for folder in (*PACKAGES, "tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")]
    files = [path for path in files if path != Path(__file__)] + [ROOT / "pyproject.toml", ROOT / "Makefile"]
    return frozenset(word for path in files for word in re.findall(r"\w+", path.read_text()))


def missing_names(text: str) -> list[str]:
    """Identifiers in a page (`choose_saved_values`, `Options.cache_bytes`) that occur nowhere in the project."""
    known = words_of_the_project() | set(dir(builtins))
    return [span for span in code_spans(text) if re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", span) and not is_path(span)
            and not known.issuperset(re.findall(r"\w+", span))]


def shows(block: str, printed: str) -> bool:
    """True if the lines of a block are those of a printed graph; a line of three dots stands for any lines."""
    lines = block.strip("\n").split("\n")
    pattern = "".join(r"(?:.*\n)*" if line == ELIDED else re.escape(line) + r"\n" for line in lines)
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


def test_architecture_page_is_short() -> None:
    assert len(ARCHITECTURE.read_bytes()) <= 10_000


@pytest.mark.parametrize("page", [page for page in INTERNALS if page.name != "README.md"], ids=lambda page: page.stem)
def test_pages_have_one_subject_each(page: Path) -> None:
    assert 1_500 <= len(page.read_bytes()) <= 8_000
    assert len(re.findall(r"^# ", page.read_text(), re.MULTILINE)) == 1


@for_each_page
def test_links_lead_to_files(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_every_page_is_in_the_index() -> None:
    linked = re.findall(r"^- \[\w+\]\((\w+\.md)\)", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(linked) == [page.name for page in INTERNALS if page.name != "README.md"]
    listed = re.search(r"\(docs/internals/README\.md\): ([\w,\s]+)\.", ARCHITECTURE.read_text())
    assert listed is not None
    assert [f"{name}.md" for name in re.findall(r"\w+", listed[1])] == sorted(linked)


@for_each_page
def test_files_and_folders_exist(page: Path) -> None:
    assert not missing_paths(page.read_text())


@for_each_page
def test_names_occur_in_the_code(page: Path) -> None:
    assert not missing_names(page.read_text())


def test_wrong_paths_and_names_are_noticed() -> None:
    text = "`ir/graph.py` `ir/no_such.py` `no_such.py` `tests/passes/text/*.ir` `codegen/none/` `a/b` `Graph` `Options.no_such_field`"
    assert missing_paths(text) == ["ir/no_such.py", "no_such.py", "codegen/none/"]
    assert missing_names(text) == ["Options.no_such_field"]


def test_stages_are_what_the_compiler_prints() -> None:
    page = ARCHITECTURE.read_text()
    (source,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {"np": np, "aj": aj}
    exec(source, names)
    traced = trace_function(names["step"], (np.ones((4, 2), np.float32), np.ones((8, 4), np.float32)), {}).graph     # type: ignore[arg-type]
    traced = replace(traced, param_roles=("donated", "input"))
    options = Options(only_kernels=True, cache_bytes=1 << 20)       # of the native backend, on any machine
    graphs = run_pipeline(traced, options, verify=True).graphs
    blocks = dict(STAGE.findall(page))
    assert list(blocks) == list(graphs)
    for stage, graph in graphs.items():
        printed = print_graph(graph, locations=False)
        assert shows(blocks[stage], printed), f"{stage}:\n{printed}"


def test_a_block_has_to_agree_line_by_line() -> None:
    printed = "graph @f() {\n  %0 = a\n  %1 = b\n  return %1\n}\n"
    assert all(shows(block, printed) for block in (printed, "...\n  %1 = b\n...", "graph @f() {\n...\n}", "...\n  return %1\n}"))
    assert not any(shows(block, printed) for block in (
        "", "graph @f() {", "...\n  %1 = a\n...", "...\n  %1 = b\n...\n  %0 = a\n...", "%1 = b\n...", "graph @f() {\n  return %1\n}"))
