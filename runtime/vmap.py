"""`vmap`: a function of one example becomes a function of a batch of examples.

The function is traced once, for one example, into a region; then the rule of each of its ops (`adjit.ir.batching`) writes the op for the
batch into the trace under way. Derivatives are expanded before, so that what all examples share is computed once: `x @ w` of
`grad(loss)(w, x)` is one product for all rows `x`. Derivatives of a `while_loop` are not, since only the function itself says which
examples are done: there the function is batched, then differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from adjit.ir.batching import inline_batched, is_batched, move_axis, spread
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ShapeError, TraceError
from adjit.ir.graph import Graph, Value
from adjit.passes.autodiff.differentiate import expand_vjps
from adjit.runtime.as_typed import is_method, of_instances
from adjit.runtime.transform_arguments import argument_names, describe
from adjit.runtime.transforms import transform
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.region_trace import trace_region
from adjit.tracer.results import NumberLeaf, StaticLeaf
from adjit.tracer.signature import is_by_reference
from adjit.tracer.trees import NAMESPACE, Tree, flatten, is_static, optree, paths, structure_text, unflatten
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")


@overload
def vmap(fun: None = None, in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None, *, in_dims: Any = None,
         out_dims: Any = None) -> Callable[[Function], Function]: ...


@overload
def vmap(fun: Callable[..., R], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None, *, in_dims: Any = None,
         out_dims: Any = None) -> Callable[..., R]: ...


def vmap(fun: Function | None = None, in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None, *, in_dims: Any = None,
         out_dims: Any = None) -> Function:
    """`fun`, mapped over an axis of its arguments: the results are those of a loop over the examples, stacked, computed as one program of
    arrays.

    `in_axes` says for each positional argument along which axis its examples lie: an int for all arguments, or a tuple with an int or None
    for each. None is for an argument that all examples share. For an argument that is a tree, an entry may be a tree like its upper part:
    `in_axes=({"w": 0, "b": None},)`. Keyword arguments are mapped along their first axis. `out_axes` says in the same way where the axis of
    the examples is in each result; None is for a result that is the same for all. `axis_size`, the number of examples, has to be given only
    if no argument has an axis. Without the function it is a decorator: `@vmap(in_axes=(0, None))`. `in_dims` and `out_dims` are PyTorch's
    names of the axes; `adjit.func.vmap` is PyTorch's function. In the body of a class it maps a method; `self` is the same for all.

    `vmap` and the other transforms (`grad`, `jacobian`, `compile`, another `vmap`, ...) may be put around each other, and into functions of
    loops and branches, in any order. A `while_loop` goes on until it has ended for all examples; those that are done keep their state. A
    `cond` whose predicate is another one for each example chooses between the results of both branches. Random draws take a key: pass
    `adjit.random.split(key, n)`. `pure_callback` is called for one example after the other.

    Raises `ShapeError` for arguments of different sizes, and for axes that are out of range, `TraceError` for axes that do not fit the
    arguments or results, and for Python code that asks for a value (`if x > 0`) on which the examples do not agree.

    >>> import numpy as np
    >>> def distance(x, y):
    ...     return np.sqrt(np.sum((x - y) ** 2))
    >>> points = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> vmap(distance, in_axes=(0, None))(points, np.array([0.0, 0.0]))
    array([ 0.,  5., 10.])
    >>> vmap(vmap(distance, in_axes=(None, 0)), in_axes=(0, None))(points, points)
    array([[ 0.,  5., 10.],
           [ 5.,  0.,  5.],
           [10.,  5.,  0.]])
    """
    in_axes, out_axes = in_axes if in_dims is None else in_dims, out_axes if out_dims is None else out_dims
    if fun is None:
        return functools.partial(vmap, in_axes=in_axes, out_axes=out_axes, axis_size=axis_size)
    entries, spec = flatten((in_axes, out_axes))
    if any(hasattr(entry, "shape") and entry.shape for entry in entries):
        raise TypeError("vmap takes the function, and gives one that takes the arguments: vmap(f)(x); in_axes is an array here")
    for entry in entries:
        if isinstance(entry, bool) or not hasattr(entry, "__index__"):
            raise TraceError(f"vmap of {describe(fun)}: an axis of in_axes or out_axes is {entry!r}", find_user_location(),
                             hint="an axis is an int, or None for what all examples share")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        return _map_examples(fun, args, kwargs, in_axes, out_axes, axis_size)

    again = functools.partial(vmap, in_axes=in_axes, out_axes=out_axes, axis_size=axis_size)
    plain = transform(fun, "vmap", (tuple(entries), spec, axis_size), mapped, again=again)
    if not is_method(fun):
        return plain

    def of_instance(method: Function, count: int) -> Function:
        own = in_axes[1:] if isinstance(in_axes, tuple) and len(in_axes) == count + 1 else in_axes
        return vmap(method, own, out_axes, axis_size)

    return of_instances(plain, fun, of_instance, again)


def number_of_examples(fun: Function, args: tuple[Any, ...], in_axes: Any) -> int:
    """The number of examples in arguments. Raises the errors of a call of `vmap`."""
    return _mapped_arguments(fun, args, {}, in_axes, None, f"vmap of {describe(fun)}").size


def map_in_chunks(mapped: Function, args: tuple[Any, ...], in_axes: Any, out_axes: Any, chunk: int) -> Any:
    """Results of `mapped`, a function of `vmap` with these axes, called for `chunk` examples after the other, and joined."""
    what = describe(mapped)
    given, tree = _mapped_arguments(mapped, args, {}, in_axes, None, what), flatten(args)[1]
    parts = []
    for start in range(0, given.size, chunk):
        leaves = [leaf if axis is None else leaf[(*(slice(None),) * axis, slice(start, start + chunk))]
                  for leaf, axis in zip(given.leaves, given.axes, strict=True)]
        parts.append(flatten(mapped(*unflatten(tree, leaves))))
    out_tree = parts[0][1]
    places = _axes_of_results(unflatten(out_tree, range(out_tree.num_leaves)), out_axes, what)
    columns = zip(*(leaves for leaves, _ in parts), strict=True)
    return unflatten(out_tree, [column[0] if axis is None else np.concatenate(column, axis)
                                for column, axis in zip(columns, places, strict=True)])


def emit_batched(graph: Graph, operands: Sequence[Value], size: int) -> list[Value]:
    """Append `graph` to the trace under way, for a batch of `size` examples of those operands that have one dimension more than its
    parameters; returns the results, of which some may not be batched."""
    return inline_batched(expand_vjps(graph, but_with=_LOOPS), operands, size)


_LOOPS = frozenset({"while_loop"})


class _Shared:
    """Mark in a tree of axes, where None would be structure: the same for all examples."""

    def __repr__(self) -> str:
        return "None"


_SHARED = _Shared()


@dataclass(frozen=True, slots=True)
class _Mapped:
    """Arguments of a call: their leaves, for each one its name for messages and its axis, or None; and the number of examples."""

    leaves: tuple[Any, ...]
    axes: tuple[int | None, ...]
    size: int


def _map_examples(fun: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], in_axes: Any, out_axes: Any,
                  axis_size: int | None) -> Any:
    what = f"vmap of {describe(fun)}"
    given = _mapped_arguments(fun, args, kwargs, in_axes, axis_size, what)
    _, tree = flatten((args, dict(kwargs)))
    args, kwargs = unflatten(tree, given.leaves)
    region = trace_region(fun, args, kwargs, name=describe(fun), axes=given.axes)
    values = emit_batched(region.graph, region.operands, given.size)
    places = _axes_of_results(unflatten(region.out_tree, range(len(region.out_leaves))), out_axes, what)
    results: list[Any] = []
    for leaf, axis, path in zip(region.out_leaves, places, paths(region.out_tree), strict=True):
        if isinstance(leaf, StaticLeaf) and (axis is None or not isinstance(leaf.value, (bool, int, float, np.generic))):
            results.append(leaf.value)
            continue
        if isinstance(leaf, StaticLeaf):
            value = example = as_traced(leaf.value).value
        else:
            index = leaf.index if isinstance(leaf, NumberLeaf) else leaf
            value, example = values[index], region.graph.results[index]
        results.append(wrap(_placed(value, example, axis, given.size, f"{what}: out_axes is {axis} for result{path}")))
    return unflatten(region.out_tree, results)


def _placed(value: Value, example: Value, axis: int | None, size: int, what: str) -> Value:
    """Result of a batch, with the batch axis where `out_axes` says."""
    if axis is None:
        if is_batched(value, example):
            raise TraceError(f"{what}, which is another one for each example", find_user_location(),
                             hint="None is for results that do not depend on a mapped argument: give the axis, or reduce the result over "
                                  "the examples behind vmap")
        return value
    rank = example.type.rank + 1
    if not -rank <= axis < rank:
        raise ShapeError(f"{what}, which has shape {example.type.shape} for one example and {rank} axes in all", find_user_location(),
                         hint=f"an axis from {-rank} to {rank - 1}")
    return move_axis(spread(value, example, size), 0, axis % rank)


def _axes_of_results(indices: Tree, out_axes: Any, what: str) -> list[int | None]:
    return _broadcast(out_axes, indices, f"{what}: out_axes", "the result")


def _broadcast(prefix: Any, tree: Tree, what: str, of: str) -> list[int | None]:
    """Axis for each leaf of `tree`, from a tree of axes like its upper part."""
    marked = optree.tree_map(lambda axis: _SHARED if axis is None else axis, prefix, none_is_leaf=True, namespace=NAMESPACE)
    try:
        found = optree.broadcast_prefix(marked, tree, namespace=NAMESPACE)
    except ValueError:
        raise TraceError(f"{what} has the structure\n        {structure_text(flatten(marked)[1])}\n    which does not fit {of}\n        "
                         f"{structure_text(flatten(tree)[1])}", find_user_location(),
                         hint="one axis for all of it, or the same containers down to where one axis will do") from None
    return [None if isinstance(axis, _Shared) else int(axis) for axis in found]


def _mapped_arguments(fun: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], in_axes: Any, axis_size: int | None,
                      what: str) -> _Mapped:
    """Leaves of the arguments with their axes. Raises `ShapeError` or `TraceError` if axes do not fit them."""
    names = argument_names(fun, len(args))
    entries = list(in_axes) if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
    if len(entries) != len(args):
        raise TraceError(f"{what}: in_axes has {len(entries)} entries for {len(args)} positional arguments", find_user_location(),
                         hint="one for each positional argument, or an int for all; keyword arguments are mapped along their first axis")
    leaves: list[Any] = []
    axes: list[int | None] = []
    sizes: dict[int, str] = {}
    for name, argument, entry in (*zip(names, args, entries, strict=True), *((name, item, 0) for name, item in kwargs.items())):
        found, tree = flatten(argument)
        for leaf, path, axis in zip(found, paths(tree), _broadcast(entry, argument, f"{what}: in_axes for {name}", "it"), strict=True):
            place = None if axis is None else _checked_axis(leaf, axis, f"{what}: in_axes is {axis} for {name}{path}")
            leaves.append(leaf)
            axes.append(place)
            if place is not None:
                sizes.setdefault(np.shape(_opened(leaf))[place], f"{name}{path} (axis {place} of {np.shape(_opened(leaf))})")
    if axis_size is not None:
        sizes.setdefault(axis_size, f"axis_size={axis_size}")
    if len(sizes) > 1:
        raise ShapeError(f"{what}: the number of examples is {' but '.join(f'{size} for {name}' for size, name in sizes.items())}",
                         find_user_location(), hint="mapped axes are equally long; None in in_axes is for what all examples share")
    if not sizes:
        raise TraceError(f"{what}: no argument has an axis of examples", find_user_location(),
                         hint="pass axis_size=, the number of examples, or an axis for one of the arguments")
    return _Mapped(tuple(leaves), tuple(axes), next(iter(sizes)))


def _opened(leaf: Any) -> Any:
    return leaf.array if isinstance(leaf, ArrayWrapper) else leaf


def _checked_axis(leaf: Any, axis: int, what: str) -> int | None:
    """Axis of a leaf, not negative; None for a leaf that is no number or array, and the same for all examples."""
    array = _opened(leaf)
    if is_by_reference(leaf) or (is_static(leaf) and not isinstance(leaf, (bool, int))):
        return None
    if not isinstance(array, (np.ndarray, np.generic, TracedArray, bool, int, float)):
        return None
    shape = np.shape(array)
    if not -len(shape) <= axis < len(shape):
        kind = f"has shape {shape}" if shape or hasattr(array, "dtype") else f"is the number {array!r}"
        raise ShapeError(f"{what}, which {kind}", find_user_location(),
                         hint="pass an array that has an example at each index of this axis, or None in in_axes for an argument that all "
                              "examples share")
    return axis % len(shape)
