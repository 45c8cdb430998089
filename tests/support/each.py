"""Many samples in one test item: all are checked, and those that fail are named in one error."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import pytest


class Extent:
    """How much is checked: with `everything`, which `--exhaustive` sets, each sample whatever its test's `share`."""

    everything = False


def for_each(samples: Mapping[str, Any] | Iterable[tuple[str, Any]], check: Callable[..., None], share: int = 1) -> None:
    """Call `check` with each sample (with its items if it is a tuple). Samples have names: the names of all that fail are in the message of
    one `ExceptionGroup`, which holds their errors. A check that skips affects its sample only; if all checks skip, the item skips. One in
    `share` of the samples is checked, all with `--exhaustive`.

    >>> for_each({"one": 1, "two": 2}, lambda number: print(number))
    1
    2
    """
    failures: list[Exception] = []
    names: list[str] = []
    skipped: list[BaseException] = []
    count = 0
    named = samples.items() if isinstance(samples, Mapping) else samples
    for name, sample in islice(named, 0, None, 1 if Extent.everything else share):
        count += 1
        try:
            check(*sample) if isinstance(sample, tuple) else check(sample)
        except pytest.skip.Exception as skip:
            skipped.append(skip)
        except (Exception, pytest.fail.Exception) as error:
            failure = error if isinstance(error, Exception) else AssertionError(str(error))
            failure.add_note(f"sample: {name}")
            failures.append(failure)
            names.append(name)
    assert count, "there are no samples"
    if len(skipped) == count:
        raise skipped[0]
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} samples: {'; '.join(names)}", failures)


def parametrize_within(names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], object] | Iterable[str] | None = None,
                       share: int = 1) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrise like `pytest.mark.parametrize`, but check the values within one item, in order: for tests that take no longer than the
    overhead of an item, some milliseconds. Fixtures of the test are the same for all values; `share` as for `for_each`."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [tuple(value) if len(arguments) > 1 else (value,) for value in values]
    if ids is None or callable(ids):
        labels = [", ".join(str(ids(value) if ids else getattr(value, "__name__", value)) for value in row) for row in rows]
    else:
        labels = list(ids)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def item(**fixtures: Any) -> None:
            for_each(zip(labels, ((row,) for row in rows), strict=True),
                     lambda row: test(**fixtures, **dict(zip(arguments, row, strict=True))), share)

        return item_like(item, test, arguments)

    return decorate


def item_like(item: Callable[..., None], test: Callable[..., None], without: Iterable[str], also: str = "") -> Callable[..., None]:
    """Give `item` the name of `test`, its fixtures and parameters except `without`, and `also`."""
    signature = inspect.signature(test)
    kept = [parameter for name, parameter in signature.parameters.items() if name not in set(without)]
    if also:
        kept.insert(0, inspect.Parameter(also, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    item.__name__, item.__doc__, item.__module__ = test.__name__, test.__doc__, test.__module__
    item.__qualname__ = test.__qualname__
    item.__signature__ = signature.replace(parameters=kept)     # type: ignore[attr-defined]
    item.pytestmark = list(getattr(test, "pytestmark", []))     # type: ignore[attr-defined]
    return item
