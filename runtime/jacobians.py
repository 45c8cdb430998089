"""`jacobian`, `jacfwd`, `jacrev`, `hessian`: matrices of derivatives, as one batched derivative.

Forward mode pushes a batch of tangents through the function, the basis vectors of the arguments; reverse mode pulls back a batch of
cotangents, those of the outputs. The function itself runs once in either: its values are shared by the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal, ParamSpec, Protocol, overload

import numpy as np

from adjit.ir import ops
from adjit.ir.batching import move_axis, reshaped, spread
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import NonDifferentiableError
from adjit.ir.graph import Graph, Value
from adjit.ir.ops.traits import HOST_CALLS
from adjit.ir.thread_context import thread
from adjit.ir.types import I64, TensorType, complex_dtype, is_complex, real_dtype
from adjit.runtime.as_typed import as_typed
from adjit.runtime.derivatives import Primal, trace_primal
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import Argnums, Function, argument_numbers, as_tuple, grad, transform
from adjit.runtime.vmap import emit_batched
from adjit.tracer.array import wrap
from adjit.tracer.trees import unflatten
from adjit.tracer.user_location import find_user_location

P = ParamSpec("P")
Mode = Literal["auto", "forward", "reverse"]


class JacobianTransform(Protocol):
    """Type of the transforms: called with a function, or without one as decorators."""

    __name__: str

    @overload
    def __call__(self, fun: None = None, *, argnums: Argnums = 0, argnum: Argnums | None = None,
                 argnames: str | Sequence[str] | None = None, has_aux: bool = False,
                 holomorphic: bool = False) -> Callable[[Function], Callable[..., Any]]: ...

    @overload
    def __call__(self, fun: np.ufunc, argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False) -> Callable[..., Any]: ...

    @overload
    def __call__(self, fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, *,
                 holomorphic: bool = False) -> Callable[P, Any]: ...

    @overload
    def __call__(self, fun: Function, *, argnum: Argnums | None = None, argnames: str | Sequence[str] | None = None,
                 has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]: ...


def as_transform(transform: Callable[..., Function]) -> JacobianTransform:
    """Give a transform the forms of `as_typed`, and their types."""
    return as_typed(transform)      # type: ignore[return-value]


@as_transform
def jacobian(fun: Function, argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False) -> Function:
    """The Jacobian of `fun`: for every leaf of the output the tree of the argument (for a tuple `argnums`, a tuple of trees), each leaf an
    array of shape `output.shape + argument.shape`. A list of numbers, as argument or output, counts as the array of them. Raises the same
    errors as `grad`, except for the shape of the output. With `has_aux` the function returns (output, anything), and the result is
    (Jacobian, anything).

    It is `jacfwd` where the differentiated arguments have at most as many elements as the outputs, else `jacrev`, which also serves for
    functions with `pure_callback`. With `holomorphic`, of complex arguments and outputs, it is the matrix of complex derivatives.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _jacobian(jacobian, fun, argnums, "auto", has_aux, holomorphic)


@as_transform
def jacfwd(fun: Function, argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False) -> Function:
    """`jacobian` in forward mode: a batch of as many tangents as the differentiated arguments have elements.

    >>> import numpy as np
    >>> jacfwd(lambda p: p[0] * np.arange(3.0) + p[1])(np.array([1.0, 2.0]))
    array([[0., 1.],
           [1., 1.],
           [2., 1.]])
    """
    return _jacobian(jacfwd, fun, argnums, "forward", has_aux, holomorphic)


@as_transform
def jacrev(fun: Function, argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False) -> Function:
    """`jacobian` in reverse mode: a batch of as many cotangents as the outputs have elements.

    >>> import numpy as np
    >>> jacrev(lambda x: [np.sum(x), x[0] * x[1]])(np.array([2.0, 3.0, 4.0]))
    array([[1., 1., 1.],
           [3., 2., 0.]])
    """
    return _jacobian(jacrev, fun, argnums, "reverse", has_aux, holomorphic)


@as_transform
def hessian(fun: Function, argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False) -> Function:
    """The matrix of second derivatives of a scalar function: `jacobian(grad(fun))`, forward mode over reverse mode. With `holomorphic`, of
    a complex function of complex arguments, that of its complex derivatives; for a real function of them, take real and imaginary parts.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] * x[1])(np.array([1.0, 2.0]))
    array([[0., 1.],
           [1., 0.]])
    """
    return _jacobian(jacobian, grad(fun, argnums, has_aux, holomorphic=holomorphic), argnums, "auto", has_aux, holomorphic)


def _jacobian(kind: JacobianTransform, fun: Function, argnums: Argnums, mode: Mode, has_aux: bool, holomorphic: bool) -> Function:
    numbers, name = argument_numbers(argnums), kind.__name__
    again = functools.partial(kind, argnums=numbers, has_aux=has_aux, holomorphic=holomorphic)

    def matrix(*args: Any, **kwargs: Any) -> Any:
        primal = trace_primal(fun, args, kwargs, as_tuple(numbers), name, has_aux, lists_are_arrays=True)
        found = _matrix(primal, numbers, *_mode_for_complex(primal, mode, f"{name} of {describe(fun)}", holomorphic))
        return (found, primal.run()[1]) if has_aux else found

    return transform(fun, name, (numbers, has_aux, holomorphic), matrix, again=again)


def _mode_for_complex(primal: Primal, mode: Mode, what: str, holomorphic: bool) -> tuple[Mode, bool]:
    """The mode for complex numbers, and whether reverse mode gives conjugates: along a real argument all is known of a complex output,
    and of a real output in a complex argument. Raises `NonDifferentiableError` where both are complex and the function is not said to be
    holomorphic: the derivative has four parts, of which a complex number has two."""
    arguments = [is_complex(value.type.dtype) for value in primal.region.graph.params[:len(primal.arguments.leaves)]]
    outputs = [is_complex(type.dtype) for type in primal.outputs]
    if holomorphic and not all((*arguments, *outputs)):
        raise NonDifferentiableError(f"{what}: with holomorphic=True, outputs and arguments have to be complex", find_user_location(),
                                     hint="convert them with .astype(complex), or leave holomorphic=True out")
    if holomorphic or not any((*arguments, *outputs)):
        return mode, holomorphic
    needed: Mode = "forward" if any(outputs) else "reverse"
    if any(arguments) and any(outputs):
        raise NonDifferentiableError(
            f"{what}: arguments and outputs are complex", find_user_location(),
            hint="holomorphic=True for holomorphic functions; else take the matrix with respect to real and imaginary parts (f of x + 1j * "
                 "y, np.real of the output), or products with it: adjit.jvp, adjit.vjp, adjit.hvp")
    if mode not in ("auto", needed):
        raise NonDifferentiableError(f"{what}: {'an argument is' if any(arguments) else 'an output is'} complex", find_user_location(),
                                     hint=f"adjit.jacobian and adjit.jac{'fwd' if any(outputs) else 'rev'} take it")
    return needed, False


def _matrix(primal: Primal, numbers: int | tuple[int, ...], mode: Mode, conjugates: bool) -> Any:
    arguments = [value.type for value in primal.region.graph.params[:len(primal.arguments.leaves)]]
    rows, columns = sum(type.size for type in primal.outputs), sum(type.size for type in arguments)
    forward = mode == "forward" or (mode == "auto" and not _calls_host(primal.region.graph) and _is_narrow(rows, columns))
    if not rows or not columns:
        blocks = [[ops.constant(value=0.0, dtype=argument.dtype, shape=output.shape + argument.shape) for argument in arguments]
                  for output in primal.outputs]
    else:
        blocks = _pushed(primal, arguments, columns) if forward else _pulled(primal, arguments, rows)
        if conjugates and not forward:
            blocks = [[ops.conj(block) for block in row] for row in blocks]
    trees = [primal.gradients(list(map(wrap, row))) for row in blocks]
    return unflatten(primal.out_tree, [tree[0] if isinstance(numbers, int) else tree for tree in trees])


def _is_narrow(rows: int, columns: int) -> bool:
    """True if a matrix has at least as many rows as columns; for programs for any number of rows, if it has with as many as are traced
    first."""
    probe = thread.context.row_probe
    return columns <= rows if probe is None else probe.choose(columns <= rows)


def _calls_host(graph: Graph) -> bool:
    return any(op.name in HOST_CALLS or any(map(_calls_host, op.regions)) for op in graph.ops)


def _pushed(primal: Primal, arguments: Sequence[TensorType], count: int) -> list[list[Value]]:
    """Blocks of the matrix by output and argument, from the tangents of all outputs along the basis vectors of all arguments."""
    builder, operands = _function_of(primal, "pushforward")
    tangents = [builder.param(type) for type in arguments]
    with emitting(builder), builder.at(loc=find_user_location()):
        graph = builder.build(primal.pushed(operands, tangents))
    found = emit_batched(graph, [*primal.region.operands, *_basis(arguments, count)], count)
    rows = [spread(value, example, count) for value, example in zip(found, graph.results, strict=True)]
    return [[_as(reshaped(move_axis(part, 0, part.type.rank - 1), output.shape + argument.shape), argument.dtype)
             for part, argument in zip(_split(row, arguments), arguments, strict=True)]
            for row, output in zip(rows, primal.outputs, strict=True)]


def _as(value: Value, dtype: np.dtype) -> Value:
    """`value` in the dtype of the argument, as in reverse mode."""
    wanted = complex_dtype(real_dtype(dtype)) if is_complex(value.type.dtype) else dtype
    return value if value.type.dtype == wanted else ops.convert(value, dtype=wanted)


def _pulled(primal: Primal, arguments: Sequence[TensorType], count: int) -> list[list[Value]]:
    """Blocks of the matrix by output and argument, from the cotangents of all arguments for the basis vectors of all outputs."""
    builder, operands = _function_of(primal, "pullback")
    cotangents = [builder.param(type) for type in primal.outputs]
    with emitting(builder), builder.at(loc=find_user_location()):
        graph = builder.build(primal.pulled(operands, dict(enumerate(cotangents))))
    found = emit_batched(graph, [*primal.region.operands, *_basis(primal.outputs, count)], count)
    columns = [_split(spread(value, example, count), primal.outputs) for value, example in zip(found, graph.results, strict=True)]
    return [[reshaped(column[index], output.shape + argument.shape) for column, argument in zip(columns, arguments, strict=True)]
            for index, output in enumerate(primal.outputs)]


def _function_of(primal: Primal, name: str) -> tuple[GraphBuilder, list[Value]]:
    """Builder of a graph with parameters for the operands of the function, and these."""
    builder = GraphBuilder(f"{name}_{primal.region.graph.name}")
    return builder, [builder.param(value.type, value.name) for value in primal.region.graph.params]


def _basis(types: Sequence[TensorType], count: int) -> list[Value]:
    """All basis vectors of arrays of these types, `count` in all, as a batch: for each array its part of each vector."""
    found, start = [], 0
    for type in types:
        shape = (count, type.size)
        number = ops.iota(dtype=I64, shape=shape, axis=0)
        place = ops.iota(dtype=I64, shape=shape, axis=1)
        if start:
            place = ops.add(place, ops.full_like(place, start))
        found.append(reshaped(ops.convert(ops.equal(number, place), dtype=type.dtype), (count, *type.shape)))
        start += type.size
    return found


def _split(value: Value, types: Sequence[TensorType]) -> list[Value]:
    """Parts of `value` along its first axis, one for the elements of each of these types."""
    ends = list(accumulate(type.size for type in types))
    if len(ends) == 1:
        return [value]
    rest, rank = value.type.shape[1:], value.type.rank
    return [ops.slice(value, start=(end - type.size, *[0] * (rank - 1)), stop=(end, *rest), step=(1,) * rank)
            for end, type in zip(ends, types, strict=True)]
