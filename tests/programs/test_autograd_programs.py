"""Random eager programs of operations, views and writes in place: gradients against finite differences, everything against PyTorch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.eager_programs import Instruction, Run, contents, start, step, total
from support.shared_memory_programs import gradients, random_program

import adjit as aj

NUMBERS = st.integers(0, 999)
INSTRUCTIONS: st.SearchStrategy[Instruction] = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
PROGRAMS = st.lists(INSTRUCTIONS, min_size=1, max_size=12)
SHAPES = st.lists(st.integers(0, 9), min_size=3, max_size=3)
EXAMPLES = int(os.environ.get("RANDOM_EXAMPLES", "150" if settings.default.derandomize else "3000"))
"""Many with `--exhaustive`, which the profile in conftest.py shows."""

SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def execute(arrays: list[np.ndarray], program: list[Instruction], count: int) -> tuple[Run, Any]:
    run = start(aj, arrays)
    for instruction in program:
        step(run, instruction)
    return run, total(run, count)


def is_smooth(instruction: Instruction) -> bool:
    """Whether the derivative of what an instruction does is what differences show: nothing cut off, no kinks."""
    kind, _, _, c = instruction
    return {0: c % 16 not in (4, 7), 1: c % 16 not in (4, 7), 2: c % 7 != 4, 3: c % 7 != 4, 4: c % 5 != 3, 5: c % 12 != 9, 6: c % 12 != 9,
            7: c % 20 not in (10, 15, 18), 8: c % 4 != 3, 9: False}[kind % 10]


@SETTINGS
@given(SHAPES, PROGRAMS, NUMBERS)
def test_gradients_are_what_differences_show(shapes: list[int], program: list[Instruction], seed: int) -> None:
    program = [instruction for instruction in program if is_smooth(instruction)]
    arrays = contents(shapes, seed)
    run, result = execute(arrays, program, 3)
    assume(result.requires_grad and np.isfinite(result.item()) and abs(result.item()) < 1e4)
    try:
        result.backward()
    except aj.errors.InPlaceError:
        assume(False)
    step_size = 1e-6
    direction = np.random.default_rng(seed + 1)
    for number in (0, 1):
        along = direction.normal(size=arrays[number].shape)
        ends = []
        for sign in (1, -1):
            moved = list(arrays)
            moved[number] = arrays[number] + sign * step_size * along
            other, end = execute(moved, program, 3)
            assert other.errors == run.errors
            ends.append(end.item())
        slope = (ends[0] - ends[1]) / (2 * step_size)
        gradient = run.tensors[number].grad
        found = 0.0 if gradient is None else float((gradient.numpy() * along).sum())
        assert found == pytest.approx(slope, rel=2e-4, abs=2e-4)


@SETTINGS
@given(SHAPES, PROGRAMS, NUMBERS, st.integers(1, 5))
def test_programs_do_what_they_do_in_pytorch(shapes: list[int], program: list[Instruction], seed: int, count: int) -> None:
    """Values, errors, what requires grad, what is a leaf, and gradients.

    Where PyTorch refuses and we do not (writes to parts of a split, operands that were written to but are not needed), there is nothing to
    compare.
    """
    torch = pytest.importorskip("torch")
    arrays = contents(shapes, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = start(aj, arrays), start(torch, arrays)
        for instruction in program:
            step(ours, instruction)
            step(theirs, instruction)
            assume(ours.errors[-1] == theirs.errors[-1])
            assert len(ours.tensors) == len(theirs.tensors)
            for mine, other in zip(ours.tensors, theirs.tensors, strict=True):
                try:
                    is_leaf = other.is_leaf
                except RuntimeError:        # a part of a split that was written to
                    assume(False)
                assert mine.shape == tuple(other.shape)
                assert mine.requires_grad == other.requires_grad
                assert mine.is_leaf == is_leaf
                np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12)
        result, expected = total(ours, count), total(theirs, count)
        assert result.requires_grad == expected.requires_grad
        assume(expected.requires_grad)
        try:
            expected.backward()
        except RuntimeError:
            assume(False)
        result.backward()
    for mine, other in zip(ours.tensors[:3], theirs.tensors[:3], strict=True):
        assert (mine.grad is None) == (other.grad is None)
        if mine.grad is not None:
            np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-7, atol=1e-10)


WRITING = st.lists(st.tuples(st.sampled_from([0, 2, 2, 4, 5, 5, 6, 7, 7, 8, 9, 9, 9]), NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=8)


@settings(SETTINGS, max_examples=SETTINGS.max_examples // 5)
@given(SHAPES, WRITING, NUMBERS, st.integers(1, 5))
def test_captured_programs_have_the_gradients_of_eager_ones(shapes: list[int], program: list[Instruction], seed: int, count: int) -> None:
    """Writes with and without gradients, views and what is detached, within a compiled function whose result is differentiated outside.

    A capture may refuse what eager tensors do; it does not do something else.
    """
    program = [instruction for instruction in program if instruction[0] % 10 != 8 or instruction[3] % 4 != 3]     # no sizes made of values
    arrays = contents(shapes, seed)
    expected, result = execute(arrays, program, count)
    assume(not any(expected.errors) and result.requires_grad and np.isfinite(result.item()))

    def captured(*leaves: Any) -> Any:
        run = Run(aj, list(leaves))
        for instruction in program:
            step(run, instruction)
        assume(not any(run.errors))
        return total(run, count)

    found = start(aj, arrays)
    try:
        result.backward()
        value = aj.compile(captured, backend="interpret")(*found.tensors)
        value.backward()
    except (aj.errors.InPlaceError, aj.errors.NonDifferentiableError, aj.errors.UnsupportedError):
        assume(False)
    np.testing.assert_allclose(value.item(), result.item(), rtol=1e-9, atol=1e-10)
    for mine, other in zip(found.tensors, expected.tensors, strict=False):
        ours, theirs = (np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in (mine, other))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def leaf_of_adjit(array: np.ndarray, requires_grad: bool) -> Any:
    return aj.tensor(array, requires_grad=requires_grad)


def compare_with_captured(seeds: Iterable[int], wanted: Callable[[Any], tuple[Any, Any]], refused: tuple[type[Exception], ...]) -> int:
    """Random writes to shared memory, compiled, beside the value and the gradients that `wanted` gives for the same program; how many were
    compared, and not refused."""
    compared = 0
    for seed in seeds:
        program = random_program(np.random.default_rng(seed))
        try:
            value, slopes = wanted(program)
            captured, found = gradients(aj, program, leaf_of_adjit, lambda function: aj.compile(function, backend="interpret"))
        except refused:
            continue
        compared += 1
        np.testing.assert_allclose(captured, value, 1e-9, 1e-12, err_msg=str(seed))
        for ours, theirs in zip(found, slopes, strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-7, 1e-9, err_msg=str(seed))
    return compared


def test_writes_to_shared_memory_have_the_gradients_of_eager_ones(exhaustive: bool) -> None:
    """What is written through a base, its views and what is detached of them, and under `no_grad`, in any order."""
    assert compare_with_captured(range(3000 if exhaustive else 30), lambda program: gradients(aj, program, leaf_of_adjit), (
        aj.errors.InPlaceError, aj.errors.ShapeError, aj.errors.NonDifferentiableError)) > 20


def test_writes_to_shared_memory_are_those_of_pytorch(exhaustive: bool) -> None:
    """What PyTorch refuses is not compared."""
    torch = pytest.importorskip("torch")

    def in_torch(program: Any) -> tuple[Any, Any]:
        return gradients(torch, program, lambda array, requires_grad: torch.tensor(array, requires_grad=requires_grad))

    assert compare_with_captured(range(10_000, 13_000 if exhaustive else 10_150), in_torch, (RuntimeError, aj.errors.AdjitError)) > 50


@pytest.mark.parametrize("order", [
    lambda v, a, w: (a.mul_(w.sum()), v.add_(1.0)),                     # the base after what is detached of it
    lambda v, a, w: (v.mul_(w.sum()), a.mul_(3.0)),                     # the other way round: no matter of v's derivative
    lambda v, a, w: (a.mul_(w.sum()), v[:2].mul_(2.0), a[1:].add_(w[0])),
    lambda v, a, w: (a[:2].mul_(w.sum()), v.zero_(), a.add_(1.0))])
def test_each_tensor_on_a_memory_has_a_derivative_of_its_own(order: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        v = x * 1.5
        a = v.detach()
        order(v, a, w)
        return a.sum() + (v * 2 + x).sum() + w[1]

    slopes = []
    for run in (function, aj.compile(function, backend="interpret")):
        x, w = aj.tensor([1.0, 2.0, 3.0], requires_grad=True), aj.tensor([0.5, 0.25], requires_grad=True)
        run(x, w).backward()
        slopes.append([x.grad.tolist(), w.grad.tolist()])
    assert slopes[0] == slopes[1]


@pytest.mark.parametrize("outside", [True, False])
def test_a_write_through_a_detached_leaf_is_never_part_of_its_derivative(outside: bool) -> None:
    """Eagerly ones. A compiled forward half keeps the leaf, which the program overwrites: it says so."""
    leaf = aj.ones(3, requires_grad=True)
    alias = leaf.detach()

    def function(x: Any) -> Any:
        (alias if outside else leaf.detach()).mul_(2.0)
        return (leaf * x).sum()

    result = aj.compile(function, backend="interpret")(aj.ones(3))
    assert (result.item(), leaf.tolist()) == (6.0, [2.0] * 3)
    with pytest.raises(aj.errors.InPlaceError):
        result.backward()
