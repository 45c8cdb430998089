"""What solvers have in common: functions of trees as functions of one vector, with what they close over as arguments; bounds; results.

A function is traced once, into a graph; solvers and derivative rules append copies of this graph.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from adjit.ir.errors import DTypeError, NonDifferentiableError, ShapeError, TraceError
from adjit.ir.types import is_float
from adjit.passes.autodiff.reverse_control_flow import emit_region
from adjit.runtime.number_lists import stacked_lists
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import transform
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.region_trace import trace_region
from adjit.tracer.results import StaticLeaf
from adjit.tracer.trees import Tree, flatten, optree, paths, unflatten
from adjit.tracer.user_location import find_user_location, return_location

Function = Callable[..., Any]
Arrays = Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Result:
    """Outcome of a solver; a tree, so that programs may return it and `vmap` and `map` stack it.

    `x`: the solution, with the tree of `x0`. `fun`: the minimum that was found; for `root` and `fixed_point` what is left of the equations.
    `jac`: the gradient at `x`, with the tree of `x0`; for equations the Jacobian of all of them in all unknowns, a matrix. `success`: True
    if the tolerance was reached, or if no further digit can be gained. `nit`: number of points at which the function was evaluated.

    >>> import numpy as np
    >>> from adjit import compile, solve
    >>> found = compile(lambda a: solve.newton(lambda x: np.cosh(x - a), 0.0))(0.5)
    >>> round(float(found.x), 9), float(found.fun), bool(found.success)
    (0.5, 1.0, True)
    """

    x: Any
    fun: Any
    jac: Any
    success: Any
    nit: Any


class Vectors:
    """Trees of the kind of `x0` as vectors."""

    def __init__(self, x0: Tree, name: str, dtype: Any = None) -> None:
        found, self.tree = flatten(stacked_lists(x0))
        if not found:
            raise TraceError(f"{name}: x0 has no numbers", find_user_location())
        self.names = [f"x0{path}" for path in paths(self.tree)]
        leaves = [_as_float(leaf, f"{name}: {what}", dtype) for leaf, what in zip(found, self.names, strict=True)]
        self.shapes = [np.shape(leaf) for leaf in leaves]
        self.dtype = np.result_type(*(leaf.dtype for leaf in leaves))
        self.ends = [0, *accumulate(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)]
        self.initial = self.ravel(unflatten(self.tree, leaves))
        self.size = self.ends[-1]

    def ravel(self, tree: Tree) -> Any:
        leaves = [np.reshape(as_traced(leaf), (-1,)).astype(self.dtype) for leaf in flatten(tree)[0]]
        return leaves[0] if len(leaves) == 1 else np.concatenate(leaves)

    def unravel(self, vector: Any) -> Tree:
        """Tree of a vector, or of vectors along the last axis: their axes are the first ones of each array."""
        first = np.shape(vector)[:-1]
        return unflatten(self.tree, [np.reshape(vector[..., start:end], (*first, *shape)) for start, end, shape
                                     in zip(self.ends, self.ends[1:], self.shapes, strict=False)])


class Problem:
    """A function of a vector and of `theta`: the arrays among its arguments, and those that it closes over.

    `value(x, theta)` appends a copy of the function to the trace under way, which returns a vector, or a number for `scalar`. The vector,
    and so many arguments behind it that `varying` counts, differ from copy to copy: no decision of Python may depend on them.
    """

    def __init__(self, fun: Function, x0: Tree, args: tuple[Any, ...], name: str, scalar: bool, dtype: Any = None,
                 varying: int = 1) -> None:
        self.what = f"{name} of {describe(fun)}"
        if not isinstance(args, tuple):
            raise TraceError(f"{self.what}: args is {type(args).__name__}, expected a tuple", find_user_location(),
                             hint="write (data,) for a single argument")
        self.vectors = Vectors(x0, self.what, dtype)
        self.region = trace_region(lambda x, *args: _with_arrays(fun(self.vectors.unravel(x), *args)), (self.vectors.initial, *args),
                                   name=describe(fun), varying=varying)
        self.theta = tuple(map(wrap, self.region.operands[1:]))
        self._check(fun, scalar)
        self.count = sum(value.type.size for value in self.region.graph.results)
        self.scalar = scalar

    def _check(self, fun: Function, scalar: bool) -> None:
        results = [value.type for value in self.region.graph.results]
        found = ", ".join(map(str, results)) or "no array"
        if not results or any(isinstance(leaf, StaticLeaf) for leaf in self.region.out_leaves):
            raise NonDifferentiableError(f"{self.what}: it returns what is no array", return_location(fun) or find_user_location(),
                                         hint="return arrays, computed from the parameters")
        if not all(is_float(type.dtype) for type in results):
            raise DTypeError(f"{self.what}: it returns {found}, expected real floats", return_location(fun) or find_user_location())
        if scalar and (len(results) != 1 or results[0].shape != ()):
            raise ShapeError(f"{self.what}: it returns {found}, expected a number", return_location(fun) or find_user_location(),
                             hint="minimize a number: np.sum or np.mean of an array; adjit.solve.lm takes residuals")

    def value(self, x: Any, theta: Arrays) -> Any:
        values = emit_region(self.region.graph, [as_traced(array).value for array in (x, *theta)])
        if self.scalar:
            return wrap(values[0]).astype(self.vectors.dtype)
        leaves = [np.reshape(wrap(value), (-1,)).astype(self.vectors.dtype) for value in values]
        return leaves[0] if len(leaves) == 1 else np.concatenate(leaves)

    def rebuilt(self, vector: Any) -> Tree:
        """The result of the function, of the elements of a vector."""
        types = [value.type for value in self.region.graph.results]
        ends = [0, *accumulate(type.size for type in types)]
        leaves = [np.reshape(vector[start:end], type.shape) for start, end, type in zip(ends, ends[1:], types, strict=False)]
        places = [leaf if isinstance(leaf, int) else leaf.index for leaf in self.region.out_leaves if not isinstance(leaf, StaticLeaf)]
        return unflatten(self.region.out_tree, [leaves[place] for place in places])


def _with_arrays(tree: Tree) -> Tree:
    """Tree with arrays in place of Python numbers: a function may return constants, too."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [as_traced(float(leaf)) if type(leaf) in (int, float) else leaf for leaf in leaves])


def _as_float(leaf: Any, what: str, dtype: Any) -> Any:
    array = as_traced(leaf) if isinstance(leaf, (bool, int, float)) or hasattr(leaf, "dtype") else None
    if array is None or array.dtype.kind not in "fiu":
        found = type(leaf).__name__ if array is None else array.dtype.name
        raise DTypeError(f"{what} is {found}, expected real numbers", find_user_location(),
                         hint="split complex numbers into real and imaginary parts" if found.startswith("complex") else None)
    dtype = dtype or (array.dtype if array.dtype.kind == "f" else np.float64)
    return array if array.dtype == dtype else array.astype(dtype)


def bounds_of(bounds: Any, vectors: Vectors, name: str) -> tuple[Any, Any] | None:
    """Vectors of lower and upper bounds."""
    if bounds is None:
        return None
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        raise TraceError(f"{name}: bounds are a pair (lower, upper), got {type(bounds).__name__}"
                         + (f" of {len(bounds)}" if isinstance(bounds, (tuple, list)) else ""), find_user_location(),
                         hint="each is None, a number, or a tree like x0; SciPy's list of pairs is (lower, upper) of its columns")
    lower, upper = (_bound(bound, vectors, f"{name}: the {which} bound", limit)
                    for bound, which, limit in zip(bounds, ("lower", "upper"), (-np.inf, np.inf), strict=True))
    return lower, upper


def _bound(bound: Any, vectors: Vectors, what: str, limit: float) -> Any:
    bound = stacked_lists(bound)
    if bound is None or not flatten(bound)[0]:
        return as_traced(np.full(vectors.size, limit, vectors.dtype))
    try:
        leaves = optree.broadcast_prefix(bound, unflatten(vectors.tree, range(len(vectors.shapes))), namespace="adjit", none_is_leaf=True)
    except ValueError:
        raise TraceError(f"{what} has another structure than x0", find_user_location(),
                         hint="None, a number, or the containers of x0 with a number, an array or None for each of its arrays") from None
    full = []
    for leaf, shape in zip(leaves, vectors.shapes, strict=True):
        array = as_traced(limit if leaf is None else leaf)
        try:
            full.append(np.broadcast_to(array, shape))
        except ValueError:
            raise ShapeError(f"{what} has shape {array.shape} for parameters of shape {shape}", find_user_location()) from None
    return vectors.ravel(unflatten(vectors.tree, full))


def check_options(name: str, tol: Any, max_iterations: Any) -> tuple[float, int]:
    if isinstance(max_iterations, bool) or not hasattr(max_iterations, "__index__") or max_iterations < 1:
        raise TraceError(f"{name}: max_iterations is {max_iterations!r}, expected a positive integer", find_user_location())
    if not isinstance(tol, (int, float, np.number)) or not tol >= 0:
        raise TraceError(f"{name}: tol is {tol!r}, expected a number of at least 0", find_user_location())
    return float(tol), operator.index(max_iterations)


def run(fun: Function, name: str, settings: tuple[Any, ...], body: Function, *args: Any) -> Any:
    """`body(*args)` in the trace under way, or compiled; the program is cached on `fun`."""
    return transform(fun, name, settings, body, like_fun=False)(*args)
