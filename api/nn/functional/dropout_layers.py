"""Dropout: elements are zero by chance, and the others are scaled so that the mean is preserved."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit import random
from adjit.eager.generator import next_key
from adjit.ir.errors import ArgumentError, ShapeError, TraceError
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
def drop(x: Array, p: float, key: Any, whole: int = 0) -> Array:
    """Apply `dropout` with its key; what differs in the last `whole` axes alone is kept or dropped together."""
    x = floating(x, "dropout")
    kept = random.bernoulli(key, 1.0 - p, (*x.shape[:x.ndim - whole], *(1,) * whole))
    return np.where(kept, x * (1.0 / (1.0 - p) if p < 1.0 else 0.0), 0.0)


def dropout1d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, key: Any = None) -> Any:
    """Dropout of whole channels of (N, C, L) or (C, L), like `dropout2d`.

    >>> from adjit import random
    >>> set(dropout1d(np.ones((1, 100, 2)), key=random.key(0)).sum(2).ravel().tolist()) == {0.0, 4.0}
    True
    """
    return _drop_channels("dropout1d", input, p, training, inplace, key, 1)


def dropout2d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, key: Any = None) -> Any:
    """Set whole channels of (N, C, H, W) or (C, H, W) to zero with probability `p`, else divide them by `1 - p`; arguments as in `dropout`.

    Source: Tompson et al., Efficient object localization using convolutional networks, arXiv:1411.4280.

    >>> from adjit import random
    >>> set(dropout2d(np.ones((1, 100, 2, 2)), key=random.key(0)).sum((2, 3)).ravel().tolist()) == {0.0, 8.0}
    True
    """
    return _drop_channels("dropout2d", input, p, training, inplace, key, 2)


def dropout3d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, key: Any = None) -> Any:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W), like `dropout2d`.

    >>> from adjit import random
    >>> set(dropout3d(np.ones((1, 100, 1, 2, 2)), key=random.key(0)).sum((2, 3, 4)).ravel().tolist()) == {0.0, 8.0}
    True
    """
    return _drop_channels("dropout3d", input, p, training, inplace, key, 3)


def alpha_dropout(input: Array, p: float = 0.5, training: bool = False, inplace: bool = False, *, key: Any = None) -> Any:
    """Set elements to the lowest value of `selu` with probability `p`, then scale and shift all to preserve mean 0 and variance 1.

    Arguments are as in `dropout`. Source: Klambauer et al., Self-Normalizing Neural Networks, arXiv:1706.02515.

    >>> from adjit import random
    >>> len(set(alpha_dropout(np.ones(100), training=True, key=random.key(0)).tolist()))
    2
    """
    return _drop_to_alpha("alpha_dropout", input, p, training, inplace, key, False)


def feature_alpha_dropout(input: Array, p: float = 0.5, training: bool = False, inplace: bool = False, *, key: Any = None) -> Any:
    """`alpha_dropout` of whole channels of (N, C, ...).

    >>> from adjit import random
    >>> dropped = feature_alpha_dropout(np.ones((1, 8, 3)), training=True, key=random.key(0))
    >>> bool((dropped[..., :1] == dropped).all())
    True
    """
    return _drop_to_alpha("feature_alpha_dropout", input, p, training, inplace, key, True)


def _check_probability(function: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{function}: p lies in [0, 1], got {p}", find_user_location())


def _drop_channels(function: str, input: Any, p: float, training: bool, inplace: bool, key: Any, axes: int) -> Any:
    _check_probability(function, p)
    if np.ndim(input) not in (axes + 1, axes + 2):
        names = ", ".join("DHW"[3 - axes:] if axes > 1 else "L")
        raise ShapeError(f"{function} takes (N, C, {names}) or (C, {names}), got the shape {np.shape(input)}", find_user_location())
    if not training or p == 0.0:
        return input
    return drop(input, p, new_key(function) if key is None else key, axes, inplace=inplace)      # type: ignore[call-arg]


def _drop_to_alpha(function: str, input: Any, p: float, training: bool, inplace: bool, key: Any, channels: bool) -> Any:
    _check_probability(function, p)
    if not training or p == 0.0:
        return input
    return _to_alpha(input, p, channels, new_key(function) if key is None else key, inplace=inplace)      # type: ignore[call-arg]


@with_inplace
@dispatched
def _to_alpha(input: Array, p: float, channels: bool, key: Any) -> Array:
    x = floating(input, "alpha_dropout")
    kept = random.bernoulli(key, 1.0 - p, (*x.shape[:2], *(1,) * (x.ndim - 2)) if channels else x.shape)
    if p == 1.0:
        return x * 0.0
    scale = ((_LOWEST ** 2 * p + 1.0) * (1.0 - p)) ** -0.5
    return np.where(kept, x, -_LOWEST) * scale + scale * _LOWEST * p


_LOWEST = 1.7580993408473766
"""Minus the lowest value of `selu`."""
