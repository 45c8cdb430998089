"""Caches of functions (`functools.cache`, `lru_cache`) that a traced function calls: values of a trace are taken out of them at its end,
and the trace holds until they are cleared."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

from adjit.ir.errors import TraceError
from adjit.tracer.guards.source import Source
from adjit.tracer.guards.templates import holds_traced
from adjit.tracer.user_location import find_user_location

_CACHED: type = type(lru_cache(len))


def caches_among(values: Iterable[Any]) -> list[Any]:
    """The cached functions among values."""
    return list({id(value): value for value in values if type(value) is _CACHED}.values())


def clean_caches(sources: Iterable[Source]) -> None:
    """Let no cache among these sources keep a value of the trace. Raises `TraceError` where a later call would find one that it does
    not compute itself: the result of a cached function whose arguments do not depend on the call."""
    kept = next(iter([wrapper for wrapper in map(_clean, caches_among(source.value for source in sources)) if wrapper is not None]), None)
    if kept is not None:
        raise TraceError(f"{kept.__qualname__} is a cached function, and its cache keeps a value of this call, which does not depend on "
                         "its arguments: later calls would have to find it there", find_user_location(),
                         hint="pass the value to the cached function as an argument, or leave the cache out")


def cleared_caches(sources: Iterable[Source]) -> list[Source]:
    """Sources that tell whether the caches among other ones were cleared: what they kept was part of the trace, and may be another value
    when it is computed again."""
    return [Source(f"the cache of {each.__qualname__}", partial(_is_cleared, each, each.cache_info().misses), False, each, False)
            for each in caches_among(source.value for source in sources)]


def _is_cleared(wrapper: Any, misses: int) -> bool:
    return bool(wrapper.cache_info().misses < misses)


def _clean(wrapper: Any) -> Any:
    """Clear a cache that holds values of a trace; the wrapper if one of them does not follow from its key."""
    held = gc.get_referents(wrapper)        # of a cache with a limit the keys and results, of another one a dict of them
    if not any(map(holds_traced, held)):
        return None
    alone = False
    for before, each in zip([None, *held], held, strict=False):
        if isinstance(each, dict):
            alone = alone or any(holds_traced(result) and not holds_traced(key) for key, result in each.items())
        elif holds_traced(each):
            is_key = isinstance(each, tuple)        # as all keys that hold more than an integer or a text
            alone = alone or not (is_key or holds_traced(before))
    wrapper.cache_clear()
    return wrapper if alone else None
