"""Recomputation of parts of a model in the backward half, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from adjit import random
from adjit.eager.generator import keys_from, next_key
from adjit.ir.errors import ArgumentError, TraceError
from adjit.runtime.transforms import checkpoint as recomputed
from adjit.tracer.user_location import find_user_location

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True,
               **kwargs: Any) -> Any:
    """Call `function(*args, **kwargs)`, so that a compiled model or loss, whose `backward()` is called afterwards, saves the arguments
    only, and recomputes the rest in its backward half.

    The same as `adjit.checkpoint(function)(*args, **kwargs)` for functions that draw no random numbers. Those of dropout and the like come
    from a key that the default generator makes for the call, and are the same when they are recomputed. Outside of compiled functions it
    is the call alone, which saves what any call saves. `use_reentrant` and `preserve_rng_state` choose among PyTorch's implementations,
    and change nothing here.

    >>> import adjit as aj
    >>> x = aj.tensor([0.5, 1.0], requires_grad=True)
    >>> step = aj.compile(lambda x: checkpoint(lambda x: (x * x).exp(), x, use_reentrant=False).sum())
    >>> step(x).backward()
    >>> x.grad
    tensor([1.2840, 5.4366])
    """
    try:
        key = next_key()
    except TraceError:      # within a differentiated function, where drawing is an error that says so
        return recomputed(_chain([function]))(*args, **kwargs)

    def keyed(key: Any, *args: Any, **kwargs: Any) -> Any:
        numbers = count()
        with keys_from(lambda: random.fold_in(key, next(numbers))):     # the default generator cannot advance within what is recomputed
            return function(*args, **kwargs)

    return recomputed(keyed)(key, *args, **kwargs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          preserve_rng_state: bool = True) -> Any:
    """Call the functions, or the modules of a `Sequential`, one after another, in `segments` parts of which each but the last is a
    `checkpoint`. Raises `ArgumentError` if there are fewer functions than parts.

    >>> import adjit as aj
    >>> checkpoint_sequential([aj.square, aj.neg, aj.square, aj.neg], 2, aj.tensor([1.0, 2.0]))
    tensor([ -1., -16.])
    """
    each: Sequence[Callable[..., Any]] = list(functions)
    if not 1 <= segments <= len(each):
        raise ArgumentError(f"checkpoint_sequential: {segments} segments of {len(each)} functions", find_user_location())
    size = len(each) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(_chain(each[start:start + size]), input)
    return _chain(each[size * (segments - 1):])(input)


def _chain(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Make one function of several. It is a plain function, which is freed with what was made for it: `adjit.checkpoint` holds others."""
    def run(*args: Any, **kwargs: Any) -> Any:
        result = functions[0](*args, **kwargs)
        for function in functions[1:]:
            result = function(result)
        return result

    return run
