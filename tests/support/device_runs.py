"""Runs of graphs on the emulated device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from support.op_cases import Case, op_cases

from adjit.codegen.cuda.target import DEVICE_RULE
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph
from adjit.passes.options import Options
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.cuda.device_executable import DeviceExecutable
from adjit.runtime.cuda.devices import AnyDriver
from adjit.runtime.cuda.emulated_driver import EmulatedDriver

OPTIONS = Options(only_kernels=True, kernels=DEVICE_RULE)
DRIVER = EmulatedDriver()
"""One device for all tests: equal kernels are compiled once."""


def device_cases(exhaustive: bool, one_in: int) -> list[Case]:
    """Samples of ops with code for devices: all, or the first one of each op and one in so many of the others."""
    found = [case for case in op_cases() if not is_refused(case)]
    first = {case[1].name: case for case in reversed(found)}
    return found if exhaustive else [case for number, case in enumerate(found) if case is first[case[1].name] or number % one_in == 0]


def is_refused(case: Case) -> bool:
    """True for a sample that is refused, though its op has code for others, and for ops that only programs for the CPU have."""
    _, definition, sample = case
    of_bools = definition.name == "matmul" and sample.arrays[0].dtype == bool
    return definition.kind is Kind.EXTERNAL or definition.name in ("complex_matmul", "inverse") or of_bools


def executable_of(graph: Graph, driver: AnyDriver = DRIVER) -> DeviceExecutable:
    return DeviceExecutable(run_pipeline(graph, OPTIONS, True).final, driver)


def run_on_device(graph: Graph, arrays: Sequence[np.ndarray], driver: EmulatedDriver = DRIVER) -> list[np.ndarray]:
    """The results of a traced graph."""
    arrays = [np.array(array, order="C") for array in arrays]
    return [np.asarray(array) for array in executable_of(graph, driver).run(arrays, arrays)]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """True if two arrays are the same, bit for bit; any NaN is as good as another, as processors make different ones."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    nan = (a != a) & (b != b)
    return bool((nan | (np.where(nan, 0, a).astype(a.dtype).tobytes() == np.where(nan, 0, b).astype(b.dtype).tobytes())).all())
