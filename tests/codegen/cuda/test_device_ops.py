"""Every op with code for devices, on the emulated device, against its meaning."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.device_kernels import PTXAS
from support.device_runs import OPTIONS, device_cases, is_refused, run_on_device
from support.each import for_each
from support.op_cases import op_cases, sample_graph

from adjit.codegen.cuda.kernel import Kernel
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.ptx import ptx_of
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.errors import UnsupportedError
from adjit.ir.builder import trace_graph
from adjit.ir.definition import Kind, OpDefinition, Rounding, Sample
from adjit.ir.interpreter import interpret
from adjit.ir.ops import concatenate, pad
from adjit.ir.types import F64, TensorType
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")

PARTS = 8
ONE_IN = 12
"""Without `--exhaustive`, the first sample of each op and one in twelve of the others."""

OF_ANY_PHASE = ("eig", "eigh", "eigvals", "svd")
"""Ops whose vectors may be turned, or whose values have no order: tests/codegen/cuda/test_device_factors.py has what holds for them."""


@pytest.mark.parametrize("part", range(PARTS))
def test_results_are_those_of_the_interpreter(part: int, exhaustive: bool) -> None:
    for_each(((name, (definition, sample)) for name, definition, sample in device_cases(exhaustive, ONE_IN)[part::PARTS]
              if definition.name not in OF_ANY_PHASE), check)


def check(definition: OpDefinition, sample: Sample) -> None:
    graph = sample_graph(definition, sample)
    found = run_on_device(graph, sample.arrays)
    with np.errstate(all="ignore"):
        expected = interpret(graph, [np.array(array, order="C") for array in sample.arrays])
        for a, b in zip(found, map(np.asarray, expected), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            if a.dtype.kind not in "fc" or definition.rounding in (Rounding.NONE, Rounding.ONCE) or definition.kind is Kind.MOVEMENT:
                np.testing.assert_array_equal(a, b)
            else:
                largest = np.max(np.abs(b), where=np.isfinite(b), initial=0.0)
                limits = np.finfo(a.dtype)
                np.testing.assert_allclose(a, b, rtol=64 * limits.eps, atol=8 * limits.eps * largest + limits.tiny)


def program_of(definition: OpDefinition, sample: Sample) -> DeviceProgram:
    return DeviceProgram(run_pipeline(sample_graph(definition, sample), OPTIONS, True).final)


def test_arrays_are_joined_by_one_launch() -> None:
    """Of up to eight arrays of any shapes, and so are an array and what it is padded with; updates wait for what they update."""
    def joined(*arrays: Any) -> list[Any]:
        return [concatenate(*arrays, axis=0), pad(arrays[0], low=(1, 0), high=(2, 3), interior=(0, 0), value=7.0)]

    shapes = [(2, 6), (3, 6), (0, 6), (3, 6), (1, 6)]
    graph = trace_graph("joined", [TensorType(F64, shape) for shape in shapes], joined)
    arrays = [np.random.default_rng(i).random(shape) for i, shape in enumerate(shapes)]
    for found, expected in zip(run_on_device(graph, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len(DeviceProgram(run_pipeline(graph, OPTIONS, True).final).nodes) == 2


def test_what_has_no_code_is_refused() -> None:
    for case in op_cases():
        _, definition, sample = case
        if is_refused(case):
            with pytest.raises(UnsupportedError, match=r"on the device 'cuda' yet|have no code for the device"):
                program_of(definition, sample)


def test_ptx_of_every_op_says_how_to_round_and_calls_nobody(exhaustive: bool) -> None:
    texts: dict[str, str] = {}
    for _, definition, sample in device_cases(exhaustive, 1 << 30):
        for name, kernel in program_of(definition, sample).kernels.items():
            for target in (SM_80, SM_90) if exhaustive else (SM_90,):
                texts.setdefault(f"{name} {target.name}", ptx_of(kernel, target))
    assert len(texts) > 100
    for name, text in texts.items():
        assert not re.search(r"\.extern|\.approx|\.ftz|\bcall\b", text), name
        assert not re.search(r"\b(?:add|sub|mul|fma|div)\.f(?:32|64)", text), name


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (pip install nvidia-cuda-nvcc)")
def test_ptxas_assembles_every_kernel(tmp_path: Path, exhaustive: bool) -> None:
    """With few bytes of spills: ptxas spills some where that lets more threads run at a time."""
    if not exhaustive:
        pytest.skip("--exhaustive")
    kernels: dict[str, Kernel] = {}
    for _, definition, sample in device_cases(exhaustive, 1):
        kernels.update(program_of(definition, sample).kernels)
    for name, kernel in kernels.items():
        for target in (SM_80, SM_90):
            path = tmp_path / "kernel.ptx"
            path.write_text(ptx_of(kernel, target))
            done = subprocess.run([str(PTXAS), "-v", f"-arch={target.name}", str(path), "-o", str(tmp_path / "kernel.cubin")],
                                  capture_output=True, text=True)
            assert done.returncode == 0, f"{name}: {done.stderr}"
            assert all(int(spilled) <= 16 for spilled in re.findall(r"(\d+) bytes spill stores", done.stderr)), f"{name}: {done.stderr}"
