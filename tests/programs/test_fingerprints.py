"""Everything that the compiler makes of the nine workloads, as hashes: IR text after each stage, and LLVM text for each target.

A change of names or of structure leaves every hash as it is. Where a change of what is compiled is meant, `pytest --update-golden` writes
`golden/fingerprints.json` anew: the lines of the difference say which workloads and stages the change reached.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
from support.project import ROOT

from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.program import lower_program
from adjit.ir.printer import print_graph
from adjit.runtime import compile_options
from adjit.runtime.machine import DEFAULT_CACHE_BYTES
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")

FOLDER = Path(__file__).parent
GOLDEN = FOLDER / "golden" / "fingerprints.json"

sys.path.insert(0, str(ROOT / "benchmarks"))

from workloads import WORKLOADS  # noqa: E402


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.fixture
def golden(update_golden: bool) -> dict[str, dict[str, str]]:
    return json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_workload_compiles_to_the_recorded_texts(name: str, golden: dict[str, dict[str, str]], update_golden: bool,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_options, "core_cache_bytes", lambda: DEFAULT_CACHE_BYTES)       # the same plan on every machine
    workload = WORKLOADS[name](backend="native")
    program = workload.function.program(workload.function.fun, workload.arguments, {})
    found = {stage: digest(print_graph(graph)) for stage, graph in program.pipeline.graphs.items()}
    found |= {target.name: digest(lower_program(program.planned, target).text) for target in TARGETS.values()}
    if update_golden:
        GOLDEN.write_text(json.dumps(golden | {name: found}, indent=1, sort_keys=True) + "\n")
    else:
        assert found == golden.get(name)
