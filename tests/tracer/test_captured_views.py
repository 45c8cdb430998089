"""Views of closed-over arrays: one parameter for one memory, as long as its content is the same."""

from __future__ import annotations

import numpy as np

import adjit as aj

WEIGHTS = np.array([1.0, 2.0, 3.0])


def captured(compiled: aj.CompiledFunction, *args: object) -> int:
    return compiled.ir("traced", *args).count(" captured")


def test_a_view_in_each_round_is_one_parameter() -> None:
    @aj.compile
    def f(x):
        for _ in range(20):
            x = np.sum(WEIGHTS[:, None] * np.sin(x), axis=0) + WEIGHTS[1:]
        return x

    x = np.array([0.1, 0.2])
    expected = x
    for _ in range(20):
        expected = np.sum(WEIGHTS[:, None] * np.sin(expected), axis=0) + WEIGHTS[1:]
    np.testing.assert_allclose(f(x), expected, rtol=1e-13)
    assert captured(f, x) == 2


def test_views_follow_their_array() -> None:
    held = np.array([1.0, 2.0])
    f = aj.compile(lambda x: x * held[:, None] + held[:, None])
    for value in (1.0, 5.0, -2.0):
        held[0] = value
        np.testing.assert_array_equal(f(3.0), 3.0 * held[:, None] + held[:, None])


def test_content_that_changes_between_two_views_is_two_parameters() -> None:
    """What the function writes into a plain array of its own is not mixed up."""
    def f(x):
        table = np.zeros((2, 2))
        total = 0.0
        for number in range(4):
            table[:] = number
            total = total + np.sum(x * table[:, :1])
        return total

    assert aj.compile(f)(np.ones(2)) == f(np.ones(2)) == 24.0
