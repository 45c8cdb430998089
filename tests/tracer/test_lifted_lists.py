"""Lists that decisions make longer or shorter: a buffer and a count of the state, so that one program serves every choice of items."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import adjit as aj


def chosen(x, t):
    """Items appended by a decision, read after the loop in all ways that need no length."""
    hits, places, ends = [x[0]], [], {"low": [], "high": []}
    for i in range(len(x)):
        if x[i] > t:
            hits.append(x[i] ** 2)
            places.append(i)
        ends["low" if x[i] < 0.4 else "high"].append(x[i])
    total = sum(hits) / len(hits) + np.sum(np.array(hits)[1:]) + max(hits) - min(hits) + np.mean(hits)
    return total + sum(ends["low"]) - 2 * sum(ends["high"]) + (np.sum(x[places]) if places else 0.0)


def stacked(x, t):
    """A stack that is read and emptied while it grows, and a loop over what is left."""
    stack, s = [], 0.0 * x[0]
    for v in x:
        while stack and stack[-1] < v:
            s = s + stack.pop() * v
        stack.append(v)
        if len(stack) > 3:
            stack[0] = stack[0] + v
            stack.clear()
    for left in stack:
        s = s + left * t
    return s


def grown_by_comprehension(x, t):
    return sum([v * v for v in x if v > t]) + 0.0


def grouped(x, t):
    """Rows in lists that a decision chooses, and events as tuples."""
    rows, events = x[:4].reshape(2, 2), [(0, x[0])]
    centers = [rows[0], 2 * rows[1]]
    for _ in range(2):
        groups = [[centers[0]], [centers[1]]]
        for i, row in enumerate(rows):
            near = np.sum((row - centers[0]) ** 2) < t * np.sum((row - centers[1]) ** 2)
            groups[0 if near else 1].append(row)
            if not near:
                events.append((i, row[0]))
        centers = [np.mean(group, axis=0) for group in groups]
    s = 0.0 * t
    for i, v in events:
        s = s + v * (i + 1)
    return s + np.sum(centers[0] * centers[1]) + events[-1][1]


def integrated(x, t):
    """Steps of an adaptive method: times that are Python's float at first, points as arrays, as many of both."""
    time, y, h, times, points = 0.0, x[:2], 0.5, [0.0], [x[:2]]
    while time < 1.0:
        h = min(h, 1.0 - time)
        slope = -y * y[::-1]
        new = y + 0.5 * h * (slope - (y + h * slope) * (y + h * slope)[::-1])
        if np.max(np.abs(new - y - h * slope)) < 0.1 + 0.1 * t:
            time, y = time + h, new
            times.append(time)
            points.append(y)
            h = h * 1.5
        else:
            h = h * np.sqrt(0.3)
    return np.trapezoid(np.array(points)[:, 0], np.array(times)) + len(times)


CALLS = [np.abs(np.random.default_rng(seed).normal(size=5)) for seed in range(3)]


@pytest.mark.parametrize("function", [chosen, stacked, grown_by_comprehension, grouped, integrated])
def test_one_program_serves_other_choices(function):
    compiled = aj.compile(function, backend="interpret")
    gradient = aj.compile(aj.grad(function), backend="interpret")
    for t in (0.5, 9.0, 0.0):
        for x in CALLS:
            assert compiled(x, t) == pytest.approx(function(x, t), rel=1e-14)
    before = compiled.cache_info().traces
    assert before <= 4
    for x in (np.linspace(0.1, 1.3, 5), np.linspace(0.9, 0.2, 5)):
        assert compiled(x, 0.62) == pytest.approx(function(x, 0.62), rel=1e-14)
    assert compiled.cache_info().traces <= before + (function is stacked)
    expected = [(function(x + step, 0.5) - function(x - step, 0.5)) / 2e-6 for step in 1e-6 * np.eye(len(x))]
    np.testing.assert_allclose(gradient(x, 0.5), expected, rtol=1e-5, atol=1e-7)


def test_more_items_than_there_is_room_for():
    def f(x):
        hits = []
        for _ in range(30):
            for v in x:
                if v > 0.5:
                    hits.append(v)
        return sum(hits)

    compiled = aj.compile(f, backend="interpret")
    for x in (np.array([0.6, 0.4, 0.1]), np.linspace(0.3, 0.9, 3), np.array([0.7, 0.8, 0.9])):
        assert compiled(x) == pytest.approx(f(x), rel=1e-13)


def test_what_needs_a_length_is_guarded():
    def f(x, t):
        hits, other = [], []
        same = hits
        for v in x:
            if v > t:
                same.append(v)
                other.append(2 * v)
        return hits, [p * q for p, q in zip(hits, other, strict=True)], sorted(hits)[-2:], hits[1:], 3.0 in hits

    compiled = aj.compile(f, backend="interpret")
    for t in (0.5, 0.9, 0.5, 9.0):
        for x in CALLS[:2]:
            assert compiled(x, t) == f(x, t)
            assert type(compiled(x, t)[0]) is list


def test_what_is_no_buffer_is_traced_as_before():
    """Items of several kinds, arrays, writes by what a list of Python's alone can do, and errors."""
    def mixed(x, t):
        hits = [0.0]
        for v in x:
            if v > t:
                hits.append(v)
                hits.insert(0, v * v)
        hits.sort()
        return hits[0] + hits[-1]

    def written(x, t):
        rows, y = [x[:2]], x[2:4] * 1.0
        for i in range(4):
            if x[i] > t:
                rows.append(y)
            rows[-1][i % 2] = 1.0
            y[0] += x[i]
        return sum(np.sum(row) for row in rows)

    def empty(x, t):
        hits = []
        for v in x:
            if v > t:
                hits.append(v)
        return max(hits)

    compiled, raising = aj.compile(mixed, backend="interpret"), aj.compile(empty, backend="interpret")
    writing = aj.compile(written, backend="interpret")
    for t in (0.5, 9.0, 0.5):
        assert compiled(CALLS[0], t) == pytest.approx(mixed(CALLS[0], t))
        assert writing(CALLS[0].copy(), t) == pytest.approx(written(CALLS[0].copy(), t))
    assert raising(CALLS[0], 0.5) == max(CALLS[0])
    with pytest.raises(ValueError, match="empty"):
        raising(CALLS[0], 9.0)
    assert raising(CALLS[1], 0.5) == max(CALLS[1])


def test_lists_that_grow_while_iterators_go_through_them():
    def early(x, t):
        queue = [x[0], x[1]]
        for v in queue:
            if v > t and len(queue) < 6:
                queue.append(0.7 * v)
        return sum(queue)

    def late(x, t):
        queue = [x[0]]
        for v in x[1:]:
            if v > t:
                queue.append(v)
        for i, v in enumerate(queue):
            if v > t and i < 5:
                queue.append(0.7 * v)
        for v in queue:
            if v > 2 * t and len(queue) < 12:
                queue.append(0.5 * v)
        return sum(queue)

    for function in (early, late):
        compiled = aj.compile(function, backend="interpret")
        for t in (0.5, 0.3):
            assert compiled(CALLS[0], t) == pytest.approx(function(CALLS[0], t), rel=1e-14)


def test_lists_that_live_on_are_pythons():
    kept = []

    def f(x, t):
        hits = []
        for v in x:
            if v > t:
                hits.append(v)
        kept[:] = hits
        return sum(hits)

    compiled = aj.compile(f, backend="interpret")
    for t in (0.5, 0.8, 0.5):
        assert compiled(CALLS[0], t) == pytest.approx(sum(kept))
        assert type(kept) is list
        assert kept == [v for v in CALLS[0] if v > t]
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found).__name__ == "LiftedList"]
