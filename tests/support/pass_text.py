"""Before/after text of passes: from their docstrings and from the files in `tests/passes/text`, and arrays to run such graphs on.

A file holds cases, separated by lines of `=`. A case is: a line `// title`; a line `// run: pass, pass` and, where they are needed, `//
approximately: why` (results may differ in rounding or in the sign of a zero), `// memory_budget: N`, `// inverses: yes`, `// stage: NAME`
(that the graphs obey; that of the last pass by default); the graph before; a line of `-`; the graph after. `pytest --update-golden`
rewrites the last part.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from adjit.ir.graph import Graph
from adjit.ir.parser import parse
from adjit.ir.types import F16
from adjit.ir.verifier import Stage
from adjit.passes.options import Options, RollingRule
from adjit.passes.pipeline import PIPELINE
from adjit.passes.simplify.hoist_loop_invariants import hoist_loop_invariants
from adjit.passes.simplify.loops import eliminate_dead_carries

FOLDER = Path(__file__).parent.parent / "passes" / "text"
PARTS = (eliminate_dead_carries, hoist_loop_invariants)        # applied within other passes
PASSES: dict[str, Callable[[Graph, Options], Graph]] = {run.__name__: run for run in (*(step.run for step in PIPELINE), *PARTS)}
STAGES = {step.run.__name__: step.ensures for step in PIPELINE} | {run.__name__: Stage.OPTIMIZED for run in PARTS}
_BLOCK = re.compile(r"^(?P<indent> *)(?P<kind>Before|After):[^\n]*\n(?P<text>(?:(?P=indent) +[^\n]*\n|\s*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One graph before and after some passes."""

    name: str
    passes: tuple[str, ...]
    before: str
    after: str
    stage: Stage
    approximately: bool = False
    options: Options = field(default_factory=lambda: Options(only_kernels=True, cache_bytes=1 << 20, rolling=RollingRule(4, 8),
                                                             saved_dtype=F16, from_end=True, complex_products=True, inverses=True,
                                                             matmul_precision="tf32"))
    path: Path | None = None

    def run(self) -> Graph:
        return self.passes_on(parse(self.before))

    def passes_on(self, graph: Graph) -> Graph:
        for name in self.passes:
            graph = PASSES[name](graph, self.options)
        return graph


def docstring_cases(run: Callable[[Graph, Options], Graph]) -> list[Case]:
    """Return the Before/After pairs in the docstring of a pass, and of its module."""
    text = "\n".join(inspect.getdoc(documented) or "" for documented in (run, inspect.getmodule(run)))
    blocks = [(found["kind"], textwrap.dedent(found["text"])) for found in _BLOCK.finditer(text + "\n")]
    kinds = [kind for kind, _ in blocks]
    if kinds != ["Before", "After"] * (len(kinds) // 2):
        raise ValueError(f"{run.__name__}: Before and After do not alternate")
    name = run.__name__
    return [Case(f"{name}-{i}", (name,), blocks[2 * i][1], blocks[2 * i + 1][1], STAGES[name]) for i in range(len(blocks) // 2)]


def file_cases(path: Path) -> list[Case]:
    """Return the cases of a golden file."""
    cases = []
    for text in re.split(r"^=+\n", path.read_text(), flags=re.MULTILINE):
        before, _, after = text.partition("----\n")
        title, *notes = re.findall(r"^// (.*)$", before, flags=re.MULTILINE)
        note = dict(line.split(": ") for line in notes)
        passes = tuple(note["run"].split(", "))
        stage = Stage[note["stage"].upper()] if "stage" in note else STAGES[passes[-1]]
        budget = note.get("memory_budget")
        options = Options(None if budget is None else float(budget) if "." in budget else int(budget), inverses="inverses" in note)
        cases.append(Case(f"{path.stem}-{title}", passes, before, after, stage, "approximately" in note, options, path))
    return cases


def all_cases() -> list[Case]:
    """Return the cases of all passes of the pipeline, and of all golden files."""
    seen = dict.fromkeys((*(step.run for step in PIPELINE), *PARTS))
    documented = [case for run in seen for case in docstring_cases(run)]
    return documented + [case for path in sorted(FOLDER.glob("*.ir")) for case in file_cases(path)]


SPECIAL = (float("nan"), 1.0, -0.0, float("inf"), 0.0, -2.5, float("-inf"), 3.0, 1e-40, -1.0, 7.25, 3e38, -1e30, 0.1)


def special_arrays(graph: Graph) -> Iterator[list[np.ndarray]]:
    """Yield arguments for `graph` that hold NaN, infinities, both zeros, tiny and huge numbers in many combinations.

    Some libraries add up a row of a product in another order if fewer rows are asked for: sums in products may overflow in no order.
    """
    has_products = any(op.name == "matmul" for op in graph.ops)
    numbers = np.array([1e35 if has_products and number == 3e38 else number for number in SPECIAL])
    for turn in range(len(SPECIAL)):
        arrays = []
        for position, value in enumerate(graph.params):
            dtype, size = value.type.dtype, value.type.size
            steps = (np.arange(size) * (position + 1) + turn * (2 * position + 1)) % len(SPECIAL)
            if dtype.kind in "fc":
                flat = numbers[steps].astype(dtype)
                if dtype.kind == "c":
                    flat.imag = numbers[(steps * 3 + position + 5) % len(SPECIAL)]
            elif dtype.kind == "b":
                flat = steps % 3 == 0
            else:
                limits = np.iinfo(dtype)
                flat = np.array([0, 1, limits.min, limits.max, 5, limits.max - 1, 17], dtype)[steps % 7]
            arrays.append(flat.reshape(value.type.shape))
        yield arrays


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """True if two arrays hold the same bits; all NaNs count as one."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)))
