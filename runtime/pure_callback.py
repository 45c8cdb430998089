"""`pure_callback`: a function that adjit does not trace, as an op of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.ir.host_functions import HostFunction, make_handle
from adjit.ir.ops.callback import encode_types
from adjit.ir.types import TensorType, check_dtype, is_inexact
from adjit.runtime.bound_function import BoundCompiledFunction
from adjit.runtime.caches.transform_cache import kept
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.transform_arguments import describe
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper, find_wrapper
from adjit.tracer.scope import active_scope
from adjit.tracer.trace import is_tracing
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import TreeSpec, flatten, unflatten
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]


@user_frames_only
def pure_callback(function: Function, result_shapes: Any, *args: Any, vjp: Function | None = None) -> Any:
    """`function(*args)` for a function that adjit cannot trace: a simulator, a sparse solve, code of another library.

    Compiled programs call it whenever they come to this place, on NumPy arrays (0-d ones are NumPy scalars), in the calling thread. `args`
    are arrays, numbers, tensors, or trees of them. `result_shapes` says what it returns: a pair (shape, dtype), anything with `.shape` and
    `.dtype`, a float, or a tree of these; results have to have these shapes and dtypes, and this tree.

    `vjp(cotangent, result, *args)` gives the derivative, in NumPy: a tuple with one cotangent for each argument, with its tree, shapes and
    dtypes (or None, for zero); with one argument, its cotangent alone will do. `cotangent` has the tree of the result. It is not traced
    either, so that there are no second derivatives, unless it is decorated with `adjit.compile`.

    The function has to be pure: its result is a matter of its arguments alone. A call whose result nobody needs is left out, and equal
    calls may become one. It is kept alive as long as a program calls it. What it raises is raised by the program, with its own traceback.

    Raises `ShapeError` or `DTypeError` for results that are not those of `result_shapes`, `NonDifferentiableError` where a derivative is
    missing. A program with a callback cannot be exported (`ExportError`).

    >>> import numpy as np
    >>> import adjit as aj
    >>> def solve(a, b):                        # stands for a solver that adjit knows nothing of
    ...     return np.linalg.solve(a, b)
    >>> def solve_vjp(cotangent, x, a, b):
    ...     z = np.linalg.solve(a.T, cotangent)
    ...     return -np.outer(z, x), z
    >>> def energy(a, b):
    ...     return np.sum(aj.pure_callback(solve, (b.shape, b.dtype), a, b, vjp=solve_vjp) ** 2)
    >>> aj.grad(energy, argnums=1)(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0]))
    array([1. , 0.5])
    """
    types, out_tree = _result_types(result_shapes)
    leaves, tree = flatten(args)
    for leaf in leaves:
        if not isinstance(leaf, (np.ndarray, np.generic, bool, int, float, TracedArray, ArrayWrapper)):
            raise ArgumentError(f"pure_callback got a {type(leaf).__name__} among the arguments of {describe(function)}",
                                find_user_location(), "pass arrays and numbers; the function can read all else from its closure")
    scope = active_scope()
    if scope is not None:
        scope.root.host_functions += [function] if vjp is None or _is_traced(vjp) else [function, vjp]
    call = kept(function, ("pure_callback", vjp, types, out_tree, tree), lambda: _Callback(function, vjp, types, out_tree, tree))
    return unflatten(out_tree, call(leaves))


class _Shape:
    """Type of a result, as a leaf of the tree of `result_shapes`; a dataclass would be a node."""

    def __init__(self, type: TensorType):
        self.type = type


def _result_types(shapes: Any) -> tuple[tuple[TensorType, ...], TreeSpec]:
    leaves, tree = flatten(_with_types(shapes))
    types = tuple(leaf.type for leaf in leaves if isinstance(leaf, _Shape))
    if len(types) != len(leaves) or not types:
        raise ArgumentError(f"result_shapes of pure_callback is {shapes!r}", find_user_location(),
                            hint="write (shape, dtype), as in ((3,), np.float64), pass an array like the result, or a tree of these")
    return types, tree


def _with_types(shapes: Any) -> Any:
    if type(shapes) is float:       # an argument that is like the result, outside of a trace
        shapes = np.float64(shapes)
    if hasattr(shapes, "shape") and hasattr(shapes, "dtype"):
        return _Shape(TensorType(check_dtype(np.dtype(shapes.dtype)), tuple(map(int, shapes.shape))))
    if isinstance(shapes, tuple) and len(shapes) == 2 and _is_shape(shapes[0]) and isinstance(shapes[1], (str, type, np.dtype)):
        dtype = check_dtype(np.dtype(shapes[1]))
        return _Shape(TensorType(dtype, tuple(map(int, shapes[0]))))
    if isinstance(shapes, dict):
        return {key: _with_types(item) for key, item in shapes.items()}
    if isinstance(shapes, (list, tuple)):
        items = [_with_types(item) for item in shapes]
        return type(shapes)(*items) if hasattr(shapes, "_fields") else type(shapes)(items)
    return shapes


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, (tuple, list)) and all(isinstance(size, (int, np.integer)) for size in shape)


class _Callback:
    """A function, its derivative, and the trees of its arguments and results: what one call of `pure_callback` fixes."""

    def __init__(self, function: Function, vjp: Function | None, types: tuple[TensorType, ...], out_tree: TreeSpec, tree: TreeSpec):
        self.function, self.vjp = function, vjp
        self.types, self.out_tree, self.tree = types, out_tree, tree
        self.name = describe(function)
        self.differentiated: custom_vjp[Any, Any] | None = None
        if vjp is not None:
            self.differentiated = custom_vjp(_named(self.primal, self.name))
            self.differentiated.defvjp(self.forward, self.backward)
            self.differentiated.__adjit_functions__ = ()        # which the program calls: what they read is no part of it
            self.differentiated.pure = True

    def __call__(self, leaves: Sequence[Any]) -> Any:
        wrapper = find_wrapper(leaves, {})
        if wrapper is None and not is_tracing() and not any(isinstance(leaf, TracedArray) for leaf in leaves):
            given = [np.asarray(leaf) for leaf in leaves]
            host = HostFunction(self.name, self.run, tuple(TensorType(a.dtype, a.shape) for a in given), self.types, find_user_location())
            return [array[()] for array in host(given)]
        leaves = [np.asarray(leaf) if isinstance(leaf, int) else leaf for leaf in leaves]
        if self.differentiated is not None:
            return self.differentiated(*leaves)
        return self.primal(*leaves) if wrapper is None else wrapper.apply_wrapped(self.primal, tuple(leaves), {})

    # -- in a trace

    def primal(self, *leaves: Any) -> Any:
        return _emit(self.name, self.run, self.types, leaves)

    def forward(self, *leaves: Any) -> tuple[Any, Any]:
        assert self.differentiated is not None
        results = self.differentiated(*leaves) if _is_traced(self.vjp) else self.primal(*leaves)     # a second derivative goes through it
        return results, (results, leaves)

    def backward(self, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        results, leaves = residuals
        wanted = [index for index, leaf in enumerate(leaves) if is_inexact(as_traced(leaf).value.type.dtype)]
        assert self.vjp is not None
        if _is_traced(self.vjp):
            found = self.pulled(cotangents, results, leaves)
            return tuple(found[index] if index in wanted else None for index in range(len(leaves)))
        types = tuple(as_traced(leaves[index]).value.type for index in wanted)
        count = len(self.types)

        def run(*arrays: Any) -> list[Any]:
            given = self.pulled(arrays[:count], arrays[count:2 * count], arrays[2 * count:])
            return [np.zeros(type.shape, type.dtype) if given[index] is None else given[index]
                    for index, type in zip(wanted, types, strict=True)]

        pulled = dict(zip(wanted, _emit(describe(self.vjp), run, types, (*cotangents, *results, *leaves)), strict=True))
        return tuple(pulled.get(index) for index in range(len(leaves)))

    # -- calls of the user's functions, in a trace or in a running program

    def run(self, *leaves: Any) -> list[Any]:
        found = self.function(*unflatten(self.tree, leaves))
        return self._leaves(found, self.out_tree, f"{self.name} returns", "as result_shapes says")

    def pulled(self, cotangents: Sequence[Any], results: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        assert self.vjp is not None
        args = unflatten(self.tree, leaves)
        found = self.vjp(unflatten(self.out_tree, cotangents), unflatten(self.out_tree, results), *args)
        per_argument = found if isinstance(found, tuple) and (len(args) != 1 or len(found) == 1) else (found,)
        if len(per_argument) != len(args):
            raise ShapeError(f"{describe(self.vjp)} returns {len(per_argument)} cotangents for {len(args)} arguments of {self.name}",
                             find_user_location(), hint="return a tuple with one cotangent for each argument; None stands for zero")
        cotangent_leaves: list[Any] = []
        for argument, cotangent in zip(args, per_argument, strict=True):
            tree = flatten(argument)[1]
            cotangent_leaves += [None] * tree.num_leaves if cotangent is None else \
                self._leaves(cotangent, tree, f"{describe(self.vjp)} returns", f"as the argument of {self.name}")
        return cotangent_leaves

    @staticmethod
    def _leaves(found: Any, tree: TreeSpec, what: str, expected: str) -> list[Any]:
        try:
            leaves: list[Any] = tree.flatten_up_to(found)
        except ValueError as error:
            raise ShapeError(f"{what} another structure than expected, {expected}: {error}", find_user_location()) from None
        return leaves


def _is_traced(vjp: Function | None) -> bool:
    """True if a derivative is part of the program, rather than called by it."""
    return isinstance(vjp, (CompiledFunction, BoundCompiledFunction, custom_vjp))


def _named(method: Function, name: str) -> Function:
    def call(*leaves: Any) -> Any:
        return method(*leaves)

    call.__name__ = call.__qualname__ = name
    return call


def _emit(name: str, run: Function, types: tuple[TensorType, ...], leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Append a call of `run` to the trace under way."""
    arrays = [as_traced(leaf) for leaf in leaves]
    function = HostFunction(name, run, tuple(array.value.type for array in arrays), types, find_user_location())
    handle = as_traced(make_handle(function))
    values = ops.callback.emit(handle.value, *(array.value for array in arrays), function=name, results=encode_types(types))
    return tuple(map(wrap, values))
