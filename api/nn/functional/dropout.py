"""Dropout: elements are zero by chance, and the others grow so that the mean stays."""

from __future__ import annotations

import numpy as np

from adjit import random
from adjit.nn.functional.arguments import Array, floating
from adjit.tracer.entry import entry_point


@entry_point
def drop(x: Array, p: float, key: Array) -> Array:
    """Each element of `x` zero with probability `p`, else divided by `1 - p`."""
    x = floating(x, "dropout")
    kept = random.bernoulli(key, 1.0 - p, x.shape)
    return np.where(kept, x * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0.0)


def dropout(x: Array, rate: float, key: Array) -> Array:
    """Each element of `x` zero with probability `rate`, else divided by `1 - rate`; `key` from `adjit.random`.

    >>> from adjit import random
    >>> dropout(np.ones(4), 0.5, random.key(0)).shape
    (4,)
    """
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"dropout: rate lies in [0, 1], got {rate}")
    return drop(x, rate, key)
