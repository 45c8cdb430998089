"""Random programs, and derivatives of random functions, for a batch of examples: what each example gives alone.

RANDOM_EXAMPLES=2000 runs that many of each, others in each run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_derivatives import Function, gradient, random_function, second, tangent
from support.random_programs import Program, random_program

from adjit.ir.batching import batch_region, batched_results
from adjit.ir.graph import Graph
from adjit.ir.interpreter import interpret
from adjit.ir.verifier import Stage, verify
from adjit.passes.autodiff.differentiate import differentiate, expand_vjps
from adjit.passes.options import Options

MORE = int(os.environ.get("RANDOM_EXAMPLES", "0"))
RANDOM = st.integers(0, 1 << 64).map(Random)
SIZE = 3


def examples(count: int) -> settings:
    exhaustive = not settings.default.derandomize
    return settings(max_examples=MORE or (10 * count if exhaustive else count), derandomize=not (MORE or exhaustive), deadline=None,
                    database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example])


def chosen_flags(choose: Random, count: int) -> list[bool]:
    flags = [choose.random() < 0.6 for _ in range(count)]
    flags[choose.randrange(count)] = True
    return flags


def example_of(results: Sequence[np.ndarray], batched: Graph, graph: Graph, example: int) -> list[np.ndarray]:
    return [array[example, ...] if flag else array for array, flag in zip(results, batched_results(batched, graph), strict=True)]


@examples(60)
@given(st.builds(random_program, RANDOM, st.integers(1, 14), st.booleans()), RANDOM)
def test_program_of_a_batch(program: Program, choose: Random) -> None:
    """All examples are the same, so that rounding decides nothing."""
    flags = chosen_flags(choose, len(program.arrays))
    batched = batch_region(program.graph, flags, SIZE)
    verify(batched, Stage.TRACED)
    arrays = [np.stack([array] * SIZE) if flag else array for array, flag in zip(program.arrays, flags, strict=True)]
    with np.errstate(all="ignore"):
        results = interpret(batched, arrays)
    for example in range(SIZE):
        program.check(example_of(results, batched, program.graph, example), f"of example {example}, batched {flags}")


@examples(40)
@given(st.builds(random_function, RANDOM, st.integers(1, 10)), RANDOM)
def test_derivatives_of_a_batch(function: Function, choose: Random) -> None:
    """The examples lie along a line. Derivatives are expanded before the batch is made, or behind."""
    graph = choose.choice((gradient, second, tangent))(function)
    alone = differentiate(graph, Options())
    count, others = len(function.arrays), [function.cotangent, *function.directions]
    flags = [index in function.wrt or (index >= count and choose.random() < 0.5) for index in range(len(graph.params))]
    moved = [(*function.moved(1e-3 * example), *others) for example in range(SIZE)]
    given = [np.stack([arrays[index] for arrays in moved]) if flag else moved[0][index] for index, flag in enumerate(flags)]
    expected = [interpret(alone, [array[example, ...] if flag else array for array, flag in zip(given, flags, strict=True)])
                for example in range(SIZE)]
    for before in (expand_vjps(graph), graph):
        batched = batch_region(before, flags, SIZE)
        found = interpret(differentiate(batched, Options()), given)
        for example in range(SIZE):
            for one, other in zip(example_of(found, batched, before, example), expected[example], strict=True):
                scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * scale)
