"""What the README and the other pages say is so: examples run, and print what is shown; commands exist; links lead somewhere."""

from __future__ import annotations

import doctest
import re
import signal
import subprocess
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.project import ROOT

README = (ROOT / "README.md").read_text()
PAGES = sorted(page for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.share(3)
@pytest.mark.parametrize("page", [page for page in PAGES if "```python\n" in page.read_text()], ids=lambda page: page.name)
def test_python_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


CONSOLES = [page for page in PAGES if "```pycon\n" in page.read_text()]


@pytest.mark.parametrize("page", CONSOLES, ids=lambda page: page.name)
def test_console_examples_of_a_page_print_what_it_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as one session."""
    blocks = re.findall(r"^```pycon\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {"__name__": "__main__"}, page.name, page.name, 0)
    report: list[str] = []
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)      # what runs in the background may ignore it
    with warnings.catch_warnings(), ExitStack() as after:
        after.callback(signal.signal, signal.SIGINT, handler)
        warnings.simplefilter("default")
        monkeypatch.setattr(warnings, "showwarning", lambda message, kind, *_: print(f"{kind.__name__}: {message}"))
        options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        outcome = doctest.DocTestRunner(optionflags=options).run(session, out=report.append)
    assert outcome.attempted == sum(block.count(">>> ") for block in blocks) > 5
    assert outcome.failed == 0, "".join(report)


def test_readme_example_learns(tmp_path: Path) -> None:
    block = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert float(done.stdout.split()[-1]) < 0.02


def test_commands_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert {"demo", "test"} <= commands
    assert all(f"\n{command}:" in makefile for command in commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", page.read_text()):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading:
            assert heading in anchors(linked), f"{target}#{heading}"


def anchors(page: Path) -> set[str]:
    """The names that headings of a page are linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
