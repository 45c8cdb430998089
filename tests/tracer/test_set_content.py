"""Sets outside of the arguments: each change of them is seen, whatever it does to their tables, and looking costs little."""

from __future__ import annotations

import numpy as np
import pytest

import adjit as aj
from adjit.tracer.guards import set_content
from adjit.tracer.guards.set_content import SetContent


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("count", [0, 3, 2000])
def test_each_change_is_seen(monkeypatch: pytest.MonkeyPatch, count: int, known: bool) -> None:
    if not known:       # another Python, whose sets may lie otherwise
        monkeypatch.setattr(set_content, "_is_known", lambda: False)
    rng, values = np.random.default_rng(0), set[float](map(float, range(count)))
    read = SetContent(values)
    assert read() is read() is read.items
    for _ in range(200):
        item, other = (float(number) for number in rng.integers(0, count + 3, size=2))
        getattr(values, ("add", "discard")[rng.integers(2)])(item)
        if rng.integers(2):
            values.symmetric_difference_update({other})
        assert (read() is read.items) == (tuple(values) == read.items and all(a is b for a, b in zip(values, read.items, strict=True)))
        assert read() == tuple(values)


def test_a_replaced_item_of_a_large_set_is_seen_in_one_look() -> None:
    values = set(range(2000))
    read = SetContent(values)
    assert read() is read.items
    values.remove(7)
    assert read() == tuple(values)
    values.add(7)
    assert read() is read.items
    values |= {5000}
    assert read() == tuple(values)


def test_a_function_that_reads_a_set_follows_it() -> None:
    values = {0.5, 1.0, 2.5}
    compiled = aj.compile(lambda x: x * sum(values))
    for change in (lambda: None, lambda: values.add(4.0), lambda: values.discard(1.0), lambda: values.add(1.0), lambda: values.clear()):
        change()
        for x in (1.0, 2.0):
            assert compiled(x) == x * sum(values)
    assert compiled.cache_info().traces <= 5
