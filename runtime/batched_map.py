"""`map`: a function for each slice of arrays, as a loop of the program whose iterations are dealt to threads."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import current_emitter
from adjit.ir.errors import ShapeError, TraceError, UnsupportedError
from adjit.ir.graph import has_effects
from adjit.ir.thread_context import thread
from adjit.runtime.control_flow import scan
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import transform
from adjit.runtime.vmap import vmap
from adjit.tracer.row_count import is_tracked
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import Tree, flatten, paths, unflatten
from adjit.tracer.user_location import find_user_location

R = TypeVar("R")


@user_frames_only
def map(f: Callable[[Any], R], xs: Tree, batch: int = 1) -> R:
    """`f(x)` for each slice `x` of the arrays `xs` along their first axis, with the results stacked along a new first axis.

    `xs` and the results are trees of arrays. It is a loop of the program: `f` is traced once, each example takes branches and ends loops by
    itself, and the working memory is that of one example a thread. The examples are dealt to threads (`compile(threads=)`,
    `ADJIT_THREADS`); results and derivatives have the same bits for any number of them. `batch` examples at a time are one group, computed
    as by `vmap`: longer vectors, for functions of small arrays. Functions that call Python (`pure_callback`) run on one thread.

    Raises `ShapeError` for arrays of different lengths or without an axis, `TraceError` for a batch that is not a positive integer,
    `UnsupportedError` for effects (`aj.debug.print`) in groups of which the last one is not full.

    >>> import numpy as np
    >>> def root(a):                                    # each example takes as many steps as it needs
    ...     return while_loop(lambda x: np.abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    >>> from adjit import while_loop
    >>> map(root, np.array([1.0, 4.0, 9.0]))
    array([1., 2., 3.])
    >>> map(lambda pair: pair["a"] * pair["b"], {"a": np.arange(3.0), "b": np.ones((3, 2))}, batch=2)
    array([[0., 0.],
           [1., 1.],
           [2., 2.]])
    """
    if isinstance(batch, bool) or not hasattr(batch, "__index__") or operator.index(batch) < 1:
        raise TraceError(f"map of {describe(f)}: batch is {batch!r}", find_user_location(), hint="the number of examples of a group")
    mapped = functools.partial(_map, f, batch=operator.index(batch))
    result: R = transform(f, "map", (operator.index(batch),), mapped)(xs)
    return result


def _map(f: Callable[[Any], Any], xs: Tree, batch: int) -> Tree:
    count = _count(f, xs)
    probe = thread.context.row_probe
    if probe is not None and probe.choose(is_tracked(count)):
        return vmap(f)(xs)      # of the rows of a panel: panels are the groups, and are dealt to threads
    batch = min(batch, max(count, 1))
    if batch == 1:
        return scan(functools.wraps(f)(lambda _, x: (None, f(x))), None, xs)[1]
    leaves, tree = flatten(xs)
    groups = unflatten(tree, [_grouped(leaf, count, batch) for leaf in leaves])
    each = vmap(f)
    found, out_tree = flatten(scan(functools.wraps(f)(lambda _, x: (None, each(x))), None, groups)[1])
    if count % batch and _last_has_effects():       # the examples that fill the last group would have theirs too
        raise UnsupportedError(f"map of {describe(f)}: batch={batch} does not divide {count} examples, and the function has effects "
                               "(aj.debug.print, callback)", find_user_location(), hint="leave out batch=, or give a divisor of the length")
    return unflatten(out_tree, [np.reshape(leaf, (-(-count // batch) * batch, *leaf.shape[2:]))[:count] for leaf in found])


def _last_has_effects() -> bool:
    """True if the loop that was traced last has effects."""
    builder = current_emitter()
    loops = [op for op in builder.ops if op.name == "scan"] if isinstance(builder, GraphBuilder) else []
    return bool(loops) and has_effects(loops[-1])


def _grouped(leaf: Any, count: int, batch: int) -> Any:
    """Array in groups of `batch` examples; the last example fills the last group."""
    missing = -count % batch
    if missing:
        leaf = np.concatenate([leaf, np.broadcast_to(leaf[-1:], (missing, *np.shape(leaf)[1:]))])
    return np.reshape(leaf, ((count + missing) // batch, batch, *np.shape(leaf)[1:]))


def _count(f: Callable[[Any], Any], xs: Tree) -> int:
    """Number of examples. Raises `ShapeError` if arrays do not agree on it."""
    leaves, tree = flatten(xs)
    sizes: dict[int, str] = {}
    for path, leaf in zip(paths(tree), leaves, strict=True):
        if not np.shape(leaf):
            raise ShapeError(f"map of {describe(f)}: xs{path} has no axis", find_user_location(),
                             hint="xs are arrays with an example at each index of their first axis; close over what all examples share")
        sizes.setdefault(np.shape(leaf)[0], f"xs{path}")
    if len(sizes) != 1:
        found = " but ".join(f"{size} for {name}" for size, name in sizes.items()) or "not known: xs has no arrays"
        raise ShapeError(f"map of {describe(f)}: the number of examples is {found}", find_user_location(),
                         hint="first axes are equally long")
    return next(iter(sizes))
