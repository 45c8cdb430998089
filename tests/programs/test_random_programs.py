"""Random programs through the whole compiler: every pass keeps the meaning, every backend computes it, no pass needs more memory.

Programs of ops, and derivatives of functions made of ops. RANDOM_EXAMPLES=2000 runs that many of each, others in each run. Programs
as users write them are in test_random_functions.py.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.device_runs import run_on_device
from support.kernel_runs import as_python, run_fused
from support.memory_simulation import simulate
from support.pass_text import same_bits
from support.random_derivatives import Function, gradient, random_function, second, tangent
from support.random_programs import Program, random_program

from adjit.codegen.llvm.target import Target, host_targets
from adjit.codegen.native import program_code
from adjit.ir.analysis.buffer_assignment import arena_bytes
from adjit.ir.analysis.kernel_schedule import CPU_RULE, KernelRule
from adjit.ir.graph import Graph
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.autodiff.partition.choose_saved_values import saved_bytes
from adjit.passes.memory.plan_memory import peak_bytes
from adjit.passes.options import Options
from adjit.passes.pipeline import PIPELINE
from adjit.runtime.native.code import obtain_program
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.numba import kernel_step
from adjit.runtime.numba.executable import Executable
from adjit.runtime.numba.kernels import compile_kernels

MORE = int(os.environ.get("RANDOM_EXAMPLES", "0"))

KEEPS_EVERY_BIT = frozenset({"remove_stop_gradients", "eliminate_dead_code", "choose_saved_values", "fuse_kernels", "schedule"})
"""Passes that change no op; after them, interpreting gives the same bits. `eliminate_common_subexpressions` keeps them but for matmuls:
of one operand twice NumPy's product has other bits than of two that are equal."""

RANDOM = st.one_of(st.randoms(use_true_random=False), st.integers(0, 1 << 64).map(Random))
"""CompileOptions that hypothesis makes, and can make smaller, or those of a seed, which are spread evenly."""

PROGRAMS = st.builds(random_program, RANDOM, st.integers(1, 14), st.booleans())
FUNCTIONS = st.builds(random_function, RANDOM, st.integers(1, 10))
BUDGETS = st.sampled_from((None, None, 0, 0.5, 100))
BLOCKS = st.sampled_from((CPU_RULE.elements_per_block, 8, 3))


def examples(count: int) -> settings:
    """So many in the gate; ten times as many others with `--exhaustive`, which the profile in conftest.py shows."""
    exhaustive = not settings.default.derandomize
    return settings(max_examples=MORE or (10 * count if exhaustive else count), derandomize=not (MORE or exhaustive), deadline=None,
                    database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example])


@contextmanager
def machine(elements_per_block: int) -> Iterator[None]:
    """Without a disk cache, with small blocks, so that small programs have several, and with kernels that are always split."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        patch.setenv("ADJIT_CACHE_SIZE", "0")
        patch.setenv("ADJIT_VERIFY", "1")
        patch.setattr(KernelRule, "elements_per_block", elements_per_block)
        patch.setattr(kernel_step, "SPLIT_NANOSECONDS", 0.0)
        patch.setattr(program_code, "MIN_PARALLEL_NS", 0.0)
        yield


# -- programs of ops


def run_passes(program: Program) -> dict[str, Graph]:
    """The graph after each pass, each checked against the one before and against what the program has to give."""
    graph, graphs = program.graph, {}
    verify(graph)
    before = interpret(graph, program.arrays)
    for step in PIPELINE:
        graph = graphs[step.name] = step.run(graph, Options())
        verify(graph, step.ensures, after=step.name)
        assert parse(print_graph(graph)) == graph, f"text after {step.name}"
        if step.name == "plan_memory":
            found, memory = simulate(graph, program.arrays)
            for index, role in enumerate(graph.param_roles):
                assert role == "donated" or memory.buffers[f"param+{index}"].tobytes() == program.arrays[index].tobytes()
        else:
            found = interpret(graph, program.arrays)
        program.check(found, f"after {step.name}")
        if step.name in KEEPS_EVERY_BIT:
            assert all(map(same_bits, found, before)), f"bits after {step.name}"
        before = found
    return graphs


def check_memory(graphs: dict[str, Graph]) -> None:
    """What passes promise of every program: no more is saved, the order needs no more, no arena is smaller than the peak."""
    assert saved_bytes(graphs["choose_saved_values"]) <= saved_bytes(graphs["eliminate_dead_code"])
    assert peak_bytes(graphs["schedule"]) <= peak_bytes(graphs["fuse_kernels"])
    assert arena_bytes(graphs["plan_memory"]) >= peak_bytes(graphs["schedule"])


def run_compiled(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a planned graph, its kernels compiled and split over three threads; only donated arrays are written."""
    copies = [array.copy() for array in arrays]
    results = [np.array(array) for array in Executable(graph, compile_kernels(graph), threads=3).run(copies, copies)]
    for role, copy, array in zip(graph.param_roles, copies, arrays, strict=True):
        assert role == "donated" or copy.tobytes() == array.tobytes()
    return results


def run_native(graph: Graph, arrays: Sequence[np.ndarray], target: Target) -> list[np.ndarray]:
    """The results of a planned graph as a native program, which have the same bits on one thread and on two; only donated arrays are
    written."""
    found = []
    code = obtain_program(graph, target)
    for threads in (1, 2):
        copies = [array.copy() for array in arrays]
        found.append([np.array(array) for array in NativeExecutable(code, lambda: graph, threads).run(copies, copies)])
        for role, copy, array in zip(graph.param_roles, copies, arrays, strict=True):
            assert role == "donated" or copy.tobytes() == array.tobytes()
    assert all(map(same_bits, *found)), "bits on two threads"
    return found[0]


@examples(60)
@given(PROGRAMS, BLOCKS)
def test_every_pass_keeps_the_meaning(program: Program, elements_per_block: int) -> None:
    with machine(elements_per_block):
        graphs = run_passes(program)
        check_memory(graphs)
        program.check(run_fused(graphs["schedule"], program.arrays, as_python, splits=2), "of kernels as Python")
        program.check(run_fused(graphs["schedule"], program.arrays, as_python, in_place=True), "of kernels that write in place")


@examples(12)
@given(PROGRAMS, BLOCKS)
def test_the_executable_computes_what_the_interpreter_does(program: Program, elements_per_block: int) -> None:
    with machine(elements_per_block):
        program.check(run_compiled(run_passes(program)["plan_memory"], program.arrays), "of the executable")


@pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)
@examples(12)
@given(program=PROGRAMS, elements_per_block=BLOCKS)
def test_native_programs_compute_what_the_interpreter_does(target: Target, program: Program, elements_per_block: int) -> None:
    with machine(elements_per_block):
        program.check(run_native(run_passes(program)["plan_memory"], program.arrays, target), f"on {target.name}")


@pytest.mark.skipif(not host_targets(), reason="the emulated device is for x86-64")
@examples(12)
@given(program=PROGRAMS, elements_per_block=BLOCKS)
def test_device_programs_compute_what_the_interpreter_does(program: Program, elements_per_block: int) -> None:
    with machine(elements_per_block):
        program.check(run_on_device(program.graph, program.arrays), "on the emulated device")


# -- derivatives

def difference(function: Function, values: Graph, more: Sequence[np.ndarray], step: float = 1e-5) -> tuple[list[np.ndarray], list[float]]:
    """Central differences of the results of `values` along the function's direction, and how far each may be off."""
    def along(distance: float) -> list[np.ndarray]:
        low, high = (interpret(values, [*function.moved(sign * distance), *more]) for sign in (-1, 1))
        return [(b - a) / (2 * distance) for a, b in zip(low, high, strict=True)]

    fine, coarse = along(step), along(2 * step)
    return fine, [1e-6 * (1 + np.max(np.abs(a), initial=0)) + 3 * float(np.max(np.abs(a - b), initial=0))
                  for a, b in zip(fine, coarse, strict=True)]


def close(found: np.ndarray, wanted: np.ndarray, atol: float, what: str) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol, err_msg=what)


def check_derivatives(function: Function) -> list[tuple[Graph, list[np.ndarray]]]:
    """Compare first and second derivatives with differences and with each other; their graphs, with arrays."""
    none = Options()
    graphs = [gradient(function), second(function), tangent(function)]
    first, again, forward = (differentiate(graph, none) for graph in graphs)
    arrays = [*function.arrays, function.cotangent]
    more = [*arrays, *function.directions]
    value, *cotangents = interpret(first, arrays)
    plain = differentiate(function.region, none)
    assert same_bits(value, interpret(plain, function.arrays)[0]), "value"

    (moved,), (error,) = difference(function, plain, [])
    inner = sum(np.sum(a * b) for a, b in zip(cotangents, function.directions, strict=True))
    weight = 1 + np.sum(np.abs(function.cotangent))
    close(inner, np.sum(function.cotangent * moved), error * weight, "gradient and differences")
    change = interpret(forward, more)[-1]
    close(change, moved, error, "tangent and differences")
    scale = np.sum(np.abs(function.cotangent * change))
    scale += sum(np.sum(np.abs(a * b)) for a, b in zip(cotangents, function.directions, strict=True))
    close(np.sum(function.cotangent * change), inner, 1e-10 * (1 + scale), "tangent and gradient")
    (_, *turned), (_, *errors) = difference(function, first, [function.cotangent])
    for found, wanted, error in zip(interpret(again, more)[-len(turned):], turned, errors, strict=True):
        close(found, wanted, error, "second derivative and differences of the gradient")
    return [(graphs[0], arrays), (graphs[1], more), (graphs[2], more)]


def check_passes(graph: Graph, arrays: list[np.ndarray], options: Options) -> tuple[dict[str, Graph], list[np.ndarray], list[float]]:
    """The graph after each pass, each giving what it gave right after the expansion; that, and how far rounding may lead."""
    verify(graph)
    assert parse(print_graph(graph)) == graph
    graphs: dict[str, Graph] = {}
    generator = np.random.default_rng(1)
    wanted: list[np.ndarray] = []
    errors: list[float] = []
    for step in PIPELINE:
        graph = graphs[step.name] = step.run(graph, options)
        verify(graph, step.ensures, after=step.name)
        assert parse(print_graph(graph)) == graph, f"text after {step.name}"
        if step.ensures is Stage.TRACED:        # a `vjp` has no value yet
            continue
        found = simulate(graph, arrays)[0] if step.name == "plan_memory" else interpret(graph, arrays)
        if not wanted:
            wanted = list(found)
            near = interpret(graph, [np.asarray(array * (1 + 1e-13 * generator.uniform(-1, 1, array.shape))) for array in arrays])
            errors = [100 * float(np.max(np.abs(a - b), initial=0)) + 1e-11 * (1 + float(np.max(np.abs(a), initial=0)))
                      for a, b in zip(near, wanted, strict=True)]
        for a, b, error in zip(found, wanted, errors, strict=True):
            close(a, b, error, f"after {step.name}")
    return graphs, wanted, errors


@examples(12)
@given(FUNCTIONS, BUDGETS, BLOCKS)
def test_derivatives_are_right_after_every_pass(function: Function, budget: int | float | None, elements_per_block: int) -> None:
    with machine(elements_per_block):
        for graph, arrays in check_derivatives(function):
            graphs, wanted, errors = check_passes(graph, arrays, Options(budget))
            check_memory(graphs)
            for a, b, error in zip(run_fused(graphs["schedule"], arrays, as_python), wanted, errors, strict=True):
                close(a, b, error, "of kernels as Python")


@examples(5)
@given(FUNCTIONS, BLOCKS)
def test_compiled_derivatives(function: Function, elements_per_block: int) -> None:
    with machine(elements_per_block):
        for graph, arrays in check_derivatives(function):
            graphs, wanted, errors = check_passes(graph, arrays, Options())
            for a, b, error in zip(run_compiled(graphs["plan_memory"], arrays), wanted, errors, strict=True):
                close(a, b, error, "of the executable")
            for target in host_targets():
                for a, b, error in zip(run_native(graphs["plan_memory"], arrays, target), wanted, errors, strict=True):
                    close(a, b, error, f"on {target.name}")


def test_what_each_pass_does_for_the_arena() -> None:
    """No pass raises it over many programs. Of a single one it may be raised a little: recomputing and scheduling lower the bytes saved and
    the peak, which packing may not follow; a kernel waits for its operands, and gives several results at once.
    """
    def arena(graph: Graph, without: str = "") -> int:
        for step in PIPELINE:
            if step.name != without:
                graph = step.run(graph, Options())
        return arena_bytes(graph)

    lowering = ("choose_saved_values", "fuse_kernels", "schedule")
    total, left_out = 0, dict.fromkeys(lowering, 0)
    for seed in range(100):
        graph = gradient(random_function(Random(seed), 4 + seed % 12))
        needed = arena(graph)
        total += needed
        for name in lowering:
            other = arena(graph, name)
            left_out[name] += other
            assert needed <= 2 * other + 256, f"{name}, seed {seed}"
    assert total <= left_out["choose_saved_values"]
    assert total <= left_out["schedule"]
    assert total <= 0.95 * left_out["fuse_kernels"]
