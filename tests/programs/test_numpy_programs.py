"""Whole programs as people write them, unchanged: value and gradient, whichever way is traced first, call after call with other data.

`golden/numpy_programs.txt` names those that are refused, and why: one that begins to run, or is refused for another reason, makes the test
fail until the file is written anew (`--update-golden`). `--exhaustive` runs all, natively too, with their data in other orders.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from support.each import for_each
from support.numpy_comparison import Call, Differs, check_gradients, check_values, compare, quietly
from support.numpy_programs import all_programs
from support.numpy_programs.program import NumPyProgram

import adjit as aj
from adjit.codegen.llvm.target import host_targets

GOLDEN = Path(__file__).parent / "golden" / "numpy_programs.txt"
ORDERS = ((0, 1, 2), (2, 1, 0), (1, 0, 2))
"""Seeds of the data of calls: the first is traced first, and others may take other branches."""

NATIVE_ROUNDING = 1e-13
"""Of values relative to the largest: native exponentials and their like are off by an ulp or two, and sums have another order."""

WRONG: dict[str, str] = {}
"""Programs with a wrong value or gradient or a crash, and which: a defect, strict until it is mended."""


def refusal(program: NumPyProgram, backend: str, order: tuple[int, ...], derivatives: bool = True) -> str:
    """Check a program; returns why it is refused, or an empty text."""
    calls: list[Call] = [program.arguments(seed) for seed in order]
    rounding = program.rounding if backend == "interpret" else max(program.rounding, NATIVE_ROUNDING)
    part = "value"
    try:
        check_values(program.function, calls, backend, rounding)
        if program.wrt and derivatives:
            part = "gradient"
            check_gradients(program.function, calls, program.wrt, backend)
    except aj.errors.AdjitError as error:
        reason = re.sub(r" \(.*", "", str(error).splitlines()[0])
        return f"{program.name}: {part}: {type(error).__name__}: {reason}"
    return ""


def known() -> dict[str, str]:
    return {line.split(":")[0]: line for line in GOLDEN.read_text().splitlines() if line and line[0] != "#"}


def check(program: NumPyProgram, backend: str, order: tuple[int, ...], derivatives: bool = True) -> None:
    if program.name in WRONG:
        with pytest.raises(Exception, match=WRONG[program.name]):
            assert not refusal(program, backend, order)
        return
    found = refusal(program, backend, order, derivatives)
    if derivatives or found or ": gradient:" not in known().get(program.name, ""):
        assert found == known().get(program.name, ""), "if the difference is an improvement, run this file with --update-golden"


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")


FILES = sorted({program.function.__module__ for program in all_programs().values()})


@pytest.mark.parametrize("file", FILES, ids=lambda name: name.rpartition(".")[2])
def test_programs_run_unchanged(file: str, update_golden: bool, exhaustive: bool) -> None:
    """By the interpreter, the first trace with one set of data or another: every sixth program, gradients of every twelfth."""
    programs = [program for program in all_programs().values() if program.function.__module__ == file]
    if update_golden:
        lines = known()
        for program in programs:
            lines.pop(program.name, None)
            if program.name not in WRONG and (reason := refusal(program, "interpret", ORDERS[len(program.name) % 2])):
                lines[program.name] = reason
        comments = [line for line in GOLDEN.read_text().splitlines() if line[:1] == "#"]
        GOLDEN.write_text("\n".join([*comments, *(lines[name] for name in sorted(lines))]) + "\n")
    for_each(((program.name, (program, "interpret", ORDERS[len(program.name) % 2], exhaustive or number % 12 == 0))
              for number, program in enumerate(programs) if exhaustive or number % 6 == 0), check, share=2)


@pytest.mark.skipif(not host_targets(), reason="no native code on this machine")
def test_programs_run_natively(exhaustive: bool) -> None:
    programs = [program for number, program in enumerate(all_programs().values()) if exhaustive or number % 40 == 5]
    for_each(((program.name, (program, "native", ORDERS[2])) for program in programs), check, share=2)


def test_programs_run_whatever_was_traced_first(exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("takes minutes: --exhaustive")
    for order in ORDERS:
        for_each(((program.name, (program, "interpret", order)) for program in all_programs().values()), check)


def test_every_difference_is_seen() -> None:
    """The comparison itself, on results that are a bit, a dtype, a shape, a place or an error off."""
    array = np.arange(3.0)
    for found in (np.nextafter(array, 9), array.astype("f4"), array[:2], [array], ValueError("x"), array + np.nan):
        with pytest.raises(Differs):
            compare(found, array, 0.0, "result")
    compare(array * (1 + 1e-15), array, 1e-14, "result")

    def wrong(x: object) -> object:
        return x if isinstance(x, np.ndarray) and x is array else aj.stop_gradient(x) * x      # type: ignore[operator]

    with quietly(), pytest.raises(Differs, match="slope"):
        check_gradients(wrong, [(np.arange(1.0, 4.0),)], (0,), "interpret")


def test_table_names_programs() -> None:
    assert set(known()) | set(WRONG) <= set(all_programs())
    assert not set(known()) & set(WRONG)
