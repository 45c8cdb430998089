"""What docs/trust.md says about files, the environment and the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.project import ROOT

from adjit.runtime.exports.linker import _DRIVERS, _LINKERS
from adjit.runtime.native.code import native_is_supported
from adjit.runtime.settings import SETTINGS

PAGE = (ROOT / "docs" / "trust.md").read_text()
needs_native = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), *arguments], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_every_variable_is_on_the_page() -> None:
    packages = ("api", "codegen", "eager", "ir", "passes", "runtime", "tracer")
    sources = "".join(path.read_text() for room in packages for path in (ROOT / room).rglob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', sources)) | {setting.variable for setting in SETTINGS} | {"OMP_NUM_THREADS"}
    assert read >= {"CC", "XDG_CACHE_HOME", "ADJIT_THREADS"}
    assert [name for name in sorted(read) if f"`{name}`" not in PAGE] == []
    assert all(f"`{name}`" in PAGE for name in (*_DRIVERS, *_LINKERS))


@needs_native
def test_what_is_opened_and_started(tmp_path: Path) -> None:
    """Compiling, running, exporting and loading write to the cache and to what was named, start the linker, and connect to nothing."""
    seen = run("""
        import os, sys
        from pathlib import Path
        folder = Path(sys.argv[1])
        seen = set()
        def audit(event, given):
            if event == "open" and isinstance(given[0], (str, bytes)) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                path = Path(os.fsdecode(given[0]))
                if "__pycache__" not in path.parts and path != Path(os.devnull):
                    seen.add("writes " + (path.relative_to(folder).parts[0] if path.is_relative_to(folder) else str(path)))
            elif event in ("subprocess.Popen", "os.posix_spawn"):       # by which Python 3.13 starts them
                seen.add("starts " + os.path.basename(given[0]))
            elif event.startswith(("socket.", "os.system", "os.exec", "urllib.")):
                seen.add(event)
        sys.addaudithook(audit)
        import numpy as np, adjit as aj
        step = aj.compile(aj.value_and_grad(lambda x: np.sum(np.sin(x) @ x.T)))
        for _ in range(3):
            step(np.ones((3, 3)))
        step.export(folder / "step.adjit", np.ones((3, 3)))
        step.export(folder / "step.so", np.ones((3, 3)))
        aj.load(folder / "step.adjit")(np.ones((3, 3)))
        print(*sorted(seen), sep="\\n")
        """, str(tmp_path), ADJIT_CACHE_DIR=str(tmp_path / "cache"), ADJIT_DUMP="")
    lines = [re.sub(r"\.(step\.\w+)-\w+", r"\1", line) for line in seen.splitlines()]
    assert {line for line in lines if line.startswith("writes")} <= {"writes cache", "writes step.adjit", "writes step.so"}
    assert {"writes cache", "writes step.adjit"} <= set(lines)
    assert all(line.split()[1] in (*_DRIVERS, *_LINKERS, os.path.basename(os.environ.get("CC", "cc")))
               for line in lines if line.startswith("starts"))
    assert all(line.startswith(("writes", "starts")) for line in lines)


@needs_native
def test_what_is_left_of_it_in_the_process() -> None:
    """Once the threads that compile have ended."""
    assert run("""
        import gc, os, signal, sys, threading, time, warnings
        import numpy as np, adjit as aj
        from adjit.codegen.process import off_main_thread

        def state():
            handlers = [signal.getsignal(n) for n in range(1, signal.NSIG)]
            return (handlers, sys.getswitchinterval(), gc.isenabled(), gc.get_threshold(), gc.callbacks[:], gc.get_freeze_count(),
                    dict(os.environ), sys.getrecursionlimit(), os.sched_getaffinity(0), os.getcwd(), list(warnings.filters), np.geterr(),
                    threading.active_count())

        def wait():
            while any(thread.name.startswith(off_main_thread.THREAD_NAME_PREFIX) for thread in threading.enumerate()) \\
                    or off_main_thread._running:
                time.sleep(0.01)

        signal.signal(signal.SIGUSR1, lambda number, frame: None)
        np.linalg.norm([1.0])
        before = state()
        step = aj.compile(aj.value_and_grad(lambda x: np.sum(np.sin(x) @ x.T)))
        for _ in range(3):
            step(np.ones((300, 300)))
        del step
        wait()
        after = state()
        print([k for k, (a, b) in enumerate(zip(before, after)) if a != b])
        """) == "[]"


@needs_native
def test_what_is_while_it_compiles() -> None:
    """The main thread's handler of SIGINT is its own, the collector is held off, and other threads are at work."""
    assert run("""
        import gc, signal, threading
        import numpy as np, adjit as aj
        from adjit.passes import pipeline
        run_pipeline = pipeline.run_pipeline
        def watched(*arguments, **rolling):
            if not rolling:
                print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, gc.isenabled(), threading.get_ident() == main)
            return run_pipeline(*arguments, **rolling)
        pipeline.run_pipeline = watched
        main = threading.get_ident()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        aj.compile(lambda x: np.sin(x) * 2)(np.ones(3))
        print(gc.isenabled())
        """, ADJIT_CACHE_SIZE="0").split() == ["True", "False", "False", "True"]
