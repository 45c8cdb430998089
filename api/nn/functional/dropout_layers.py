"""Dropout: elements are zero by chance, and the others are scaled so that the mean is preserved."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit import random
from adjit.eager.generator import next_key
from adjit.ir.errors import ArgumentError, TraceError
from adjit.nn.functional.arguments import Array, floating, with_inplace
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location


def dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, key: Any = None) -> Any:
    """Set each element of `input` to zero with probability `p`, else divide it by `1 - p`; `input` itself if `training` is False or `p` is
    0. With `inplace` the result is written into `input`.

    The random numbers depend on `key` (see `adjit.random`), so that the same key drops the same elements; without a key the default
    generator makes a new one for each call (see `adjit.manual_seed`).
    Source: Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting, JMLR 15 (2014).

    >>> from adjit import random
    >>> set(dropout(np.ones(100), 0.5, key=random.key(0)).tolist()) == {0.0, 2.0}
    True
    """
    for flag, given in (("training", training), ("inplace", inplace)):
        if not isinstance(given, bool):
            raise TypeError(f"dropout: {flag} is True or False, got {type(given).__name__}; a key is given by name, key=")
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: p lies in [0, 1], got {p}", find_user_location())
    if not training or p == 0.0:
        return input
    return drop(input, p, new_key("dropout") if key is None else key, inplace=inplace)      # type: ignore[call-arg]


def new_key(function: str) -> Any:
    """Make a key with the default generator; raises `TraceError` within a differentiated function, which cannot change outside state."""
    try:
        return next_key()
    except TraceError as error:
        raise TraceError(f"{function} takes its key from the default generator, which cannot change inside of a differentiated function",
                         find_user_location(), hint="pass a key of adjit.random, as an argument of the function") from error


@with_inplace
@dispatched
def drop(x: Array, p: float, key: Any) -> Array:
    """Apply `dropout` with its key."""
    x = floating(x, "dropout")
    kept = random.bernoulli(key, 1.0 - p, x.shape)
    return np.where(kept, x * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0.0)
