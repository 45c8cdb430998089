"""The notice of a first call that takes long: on a terminal, once, with the function, the stage and the line of most ops."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from adjit.runtime import first_call_notice

SCRIPT = """
    import time, numpy as np, adjit as aj
    from adjit.runtime import first_call_notice
    first_call_notice.AFTER_S = 0.3
    STAGE
    @aj.compile
    def quick(x):
        return x + 1
    @aj.compile
    def slow(x):
        for _ in range(600):
            x = np.sin(x) * 1.01        # most of them
        if SLEEPS:
            time.sleep(1.0)
        return x
    quick(np.ones(3))
    slow(np.ones(3))
    slow(np.ones(3))
"""
IN_PASSES = """
    from adjit.runtime import compile_graph
    make = compile_graph.make_executable
    def slowly(*args):
        time.sleep(1.0)
        return make(*args)
    compile_graph.make_executable = slowly
    first_call_notice.AFTER_S = 0.8
"""


def run(folder: Path, stage: str, sleeps: bool, terminal: bool) -> str:
    """What the script writes to standard error."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).replace("STAGE", textwrap.dedent(stage)).replace("SLEEPS", str(sleeps)))
    ours, theirs = pty.openpty() if terminal else os.pipe()
    environment = {**os.environ, "ADJIT_CACHE_SIZE": "0"}
    with subprocess.Popen([sys.executable, str(script)], stderr=theirs, cwd=folder, env=environment) as process:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:     # the terminal has no other end any more
            pass
        assert process.wait(timeout=120) == 0
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


@pytest.mark.share(2)
@pytest.mark.parametrize("stage", ["tracing", "machine code"])
def test_a_terminal_is_told(tmp_path: Path, stage: str) -> None:
    text = run(tmp_path, IN_PASSES if stage != "tracing" else "", stage == "tracing", terminal=True)
    lines = [line for line in text.splitlines() if " slow " in line]
    assert len(lines) == 2, text
    after, many = (0.3, "1,") if stage == "tracing" else (0.8, "")
    assert f"adjit: compiling slow takes more than {after} s; {stage}, {many}" in lines[0]
    assert "of them from script.py:" in lines[0]
    assert ("x = np.sin(x) * 1.01        # most of them\n    A Python loop" in text) == (stage == "tracing")     # then it is one loop
    assert "adjit: slow was compiled in" in lines[1]


def test_nothing_is_said_without_a_terminal(tmp_path: Path) -> None:
    assert "adjit: " not in run(tmp_path, "", True, terminal=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_said_where_the_user_wants_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_call_notice, "AFTER_S", 0.01)
    for quiet in ("1", "0"):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("ADJIT_QUIET", quiet)
        with first_call_notice.long_call_announced(run):
            time.sleep(0.3)
        assert ("compiling run" in terminal.getvalue()) == (quiet == "0")


def test_a_call_that_is_interrupted_was_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(first_call_notice, "AFTER_S", 0.01)

    def interrupted() -> None:
        with first_call_notice.long_call_announced(interrupted):
            while "takes more" not in terminal.getvalue():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "adjit: interrupted ended after 0" in terminal.getvalue()
    assert "was compiled" not in terminal.getvalue()
