"""`grad` and its family: transforms of functions.

Within a trace a transform emits the derivative as an op. Outside of a trace it compiles a program that does so. The program is cached on
the function, so writing `grad(f)(x)` again compiles nothing.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, overload

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import Location, NonDifferentiableError, TraceError
from adjit.ir.types import is_complex
from adjit.runtime.as_typed import as_typed
from adjit.runtime.bound_function import BoundCompiledFunction
from adjit.runtime.caches.transform_cache import kept
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction, make_compiled
from adjit.runtime.derivatives import Primal, trace_primal, traced_values
from adjit.runtime.transform_arguments import describe, match_leaves
from adjit.runtime.transformed_function import TransformedFunction
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.functions import composites
from adjit.tracer.region_trace import trace_region
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.trace import is_tracing
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import flatten, optree, structure_text, unflatten
from adjit.tracer.user_location import find_user_location, return_location

REPORTS = ("ir", "kernels", "explain", "memory", "profile", "export", "as_callable", "cache_info", "clear_cache")
"""Methods of compiled functions that functions of `grad` and its kin have, too: about the program that calls outside of a trace run."""

Function = Callable[..., Any]
Argnums = int | Sequence[int]

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Function)
First = TypeVar("First", bound=Any)     # the first argument, which functions are differentiated by; the bound is for lambdas
Aux = TypeVar("Aux")
Leaf = TypeVar("Leaf")
Primals = TypeVarTuple("Primals")


@overload
def grad(fun: None = None, *, argnums: Argnums = 0, argnum: Argnums | None = None, argnames: str | Sequence[str] | None = None,
         has_aux: bool = False) -> Callable[[Function], Callable[..., Any]]: ...


@overload
def grad(fun: Function, *, argnum: Argnums, has_aux: bool = False) -> Callable[..., Any]: ...


@overload
def grad(fun: Function, *, argnames: str | Sequence[str], has_aux: bool = False) -> Callable[..., Any]: ...


@overload
def grad(fun: np.ufunc, argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False) -> Callable[..., Any]: ...


@overload
def grad(fun: Callable[Concatenate[First, P], Any], argnums: Literal[0] = 0,     # type: ignore[overload-overlap]
         has_aux: Literal[False] = False, *, holomorphic: bool = False) -> Callable[Concatenate[First, P], First]: ...


@overload
def grad(fun: Callable[Concatenate[First, P], tuple[Any, Aux]], argnums: Literal[0] = 0, *,     # type: ignore[overload-overlap]
         has_aux: Literal[True], holomorphic: bool = False) -> Callable[Concatenate[First, P], tuple[First, Aux]]: ...


@overload
def grad(fun: Callable[P, Any], argnums: Sequence[int], has_aux: Literal[False] = False, *,
         holomorphic: bool = False) -> Callable[P, tuple[Any, ...]]: ...


@overload
def grad(fun: Callable[P, Any], argnums: Argnums, has_aux: bool = False, *, holomorphic: bool = False) -> Callable[P, Any]: ...


@overload
def grad(fun: Callable[P, Any], argnums: Argnums = 0, *, has_aux: bool, holomorphic: bool = False) -> Callable[P, Any]: ...


@as_typed       # type: ignore[misc]
def grad(fun: Function, argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False) -> Function:
    """The gradient of `fun`, which returns a floating-point scalar, as a function of the same arguments.

    `argnums` are the positional arguments to differentiate by (negative ones count from the end). For an int, the result has the tree,
    shapes and dtypes of that argument; for a tuple, it is a tuple of such trees. Keyword arguments are passed through. With `has_aux` the
    function returns (scalar, anything), and the result is (gradient, anything). What `fun` writes to the arguments of `argnums`, it writes
    to copies; the caller sees what it writes to other arrays.

    The gradient of a complex argument z = x + iy is d/dx + i d/dy: `z - rate * gradient` descends. Where the function is holomorphic and
    its output is complex, `holomorphic=True` gives its complex derivative.

    Raises `NonDifferentiableError` if the output is not a float scalar (or an integer that depends on no argument: its gradient is 0), or a
    differentiated argument is not made of floats or complex numbers; with `holomorphic`, if the output or one of them is not complex.

    >>> import numpy as np
    >>> grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    >>> grad(lambda z: np.abs(z) ** 2)(3 + 4j)
    np.complex128(6+8j)
    >>> grad(lambda z: z * z, holomorphic=True)(3 + 4j)
    np.complex128(6+8j)
    """
    numbers = argument_numbers(argnums)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        _, aux, gradients = _value_and_grad(fun, args, kwargs, numbers, has_aux, "grad", holomorphic)
        return (gradients, aux) if has_aux else gradients

    again = functools.partial(grad, argnums=numbers, has_aux=has_aux, holomorphic=holomorphic)
    return transform(fun, "grad", (numbers, has_aux, holomorphic), gradient, again=again)


@overload
def value_and_grad(fun: None = None, *, argnums: Argnums = 0, argnum: Argnums | None = None, argnames: str | Sequence[str] | None = None,
                   has_aux: bool = False) -> Callable[[Function], Callable[..., Any]]: ...


@overload
def value_and_grad(fun: Function, *, argnum: Argnums, has_aux: bool = False) -> Callable[..., Any]: ...


@overload
def value_and_grad(fun: Function, *, argnames: str | Sequence[str], has_aux: bool = False) -> Callable[..., Any]: ...


@overload
def value_and_grad(fun: np.ufunc, argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]: ...


@overload
def value_and_grad(fun: Callable[Concatenate[First, P], R], argnums: Literal[0] = 0,     # type: ignore[overload-overlap]
                   has_aux: bool = False) -> Callable[Concatenate[First, P], tuple[R, First]]: ...


@overload
def value_and_grad(fun: Callable[P, R], argnums: Sequence[int], has_aux: bool = False) -> Callable[P, tuple[R, tuple[Any, ...]]]: ...


@overload
def value_and_grad(fun: Callable[P, R], argnums: Argnums, has_aux: bool = False) -> Callable[P, tuple[R, Any]]: ...


@as_typed       # type: ignore[misc]
def value_and_grad(fun: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:     # type: ignore[misc]
    """Like `grad`, but returns the pair (value, gradient); with `has_aux`, ((value, anything), gradient).

    >>> import numpy as np
    >>> value, gradient = value_and_grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    >>> float(value), gradient
    (5.0, array([2., 4.]))
    """
    numbers = argument_numbers(argnums)

    def both(*args: Any, **kwargs: Any) -> Any:
        value, aux, gradients = _value_and_grad(fun, args, kwargs, numbers, has_aux, "value_and_grad")
        return ((value, aux), gradients) if has_aux else (value, gradients)

    again = functools.partial(value_and_grad, argnums=numbers, has_aux=has_aux)
    return transform(fun, "value_and_grad", (numbers, has_aux), both, again=again)


@overload
def vjp(fun: Callable[[*Primals], R], *primals: *Primals) -> tuple[R, Callable[[Any], tuple[*Primals]]]: ...


@overload
def vjp(fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...


@overload
def vjp(fun: Callable[..., tuple[R, Aux]], *primals: Any, has_aux: Literal[True]) -> tuple[R, Callable[[Any], tuple[Any, ...]], Aux]: ...


@user_frames_only       # type: ignore[misc]
def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """`(fun(*primals), pullback)`; `pullback(cotangent)` is a tuple with one cotangent per primal, with the primal's tree.

    The cotangent has the tree, shapes and dtypes of the output. With `has_aux` the function returns (output, anything), and the result is
    (output, pullback, anything). All primals and outputs must be floats (`NonDifferentiableError`); a cotangent that does not match raises
    `ShapeError` or `DTypeError`.

    >>> import numpy as np
    >>> out, pullback = vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 3., 40.]), array([ 1., 20.]))
    """
    if not primals:
        raise TypeError("vjp takes the function and its arguments: value, pullback = vjp(f, x)")
    numbers = tuple(range(len(primals)))
    forward, backward = _programs(fun, numbers, "vjp", has_aux)
    if is_tracing() and not any(isinstance(leaf, ArrayWrapper) for leaf in flatten(primals)[0]):
        primal = trace_primal(fun, primals, {}, numbers, "vjp", has_aux)
        (output, aux), pullback = primal.run(), functools.partial(_pull_back, primal)
    elif is_tracing():
        (output, aux), pullback = forward.fun(primals, {}), functools.partial(backward.fun, primals, {})
    else:
        saved = _map(_copy, primals)      # the pullback is at these values, even if the arrays are written to later
        (output, aux), pullback = forward(saved, {}), functools.partial(backward, saved, {})
    return (output, pullback, aux) if has_aux else (output, pullback)


@overload
def jvp(fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False) -> tuple[R, R]: ...


@overload
def jvp(fun: Callable[..., tuple[R, Aux]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True]) -> tuple[R, R, Aux]: ...


@user_frames_only       # type: ignore[misc]
def jvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """`(fun(*primals), tangent)`: the derivative of `fun` at `primals` along `tangents`, which have the primals' trees, shapes and dtypes.
    With `has_aux` the function returns (output, anything), and the result is (output, tangent, anything). Raises the same errors as `vjp`.

    >>> import numpy as np
    >>> value, tangent = jvp(np.sin, (0.0,), (2.0,))
    >>> float(value), float(tangent)
    (0.0, 2.0)
    """

    def push(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
        primal = trace_primal(fun, primals, {}, range(len(primals)), "jvp", has_aux)
        types = [value.type for value in primal.region.graph.params[:len(primal.arguments.leaves)]]
        leaves = match_leaves(primal.arguments.tree, types, tangents, "tangents")
        output, aux, tangent = primal.push_forward(traced_values(leaves))
        return (output, tangent, aux) if has_aux else (output, tangent)

    for given, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(given, (tuple, list)):
            raise TraceError(f"jvp of {describe(fun)}: the {what} are a {type(given).__name__}, expected a tuple, one item per argument",
                             find_user_location(), hint=f"write ({what[:-1]},) for a single one")
    result: tuple[Any, ...] = transform(fun, "jvp", (has_aux,), push, like_fun=False)(tuple(primals), tuple(tangents))
    return result


@overload
def hvp(fun: Callable[..., Any], primals: tuple[First], tangents: Sequence[Any]) -> First: ...


@overload
def hvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any: ...


@user_frames_only
def hvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of the Hessian of a scalar function at `primals` with `tangents`: the derivative of the gradient along them.

    The result has the tree of the primals; if there is one primal, the tree of that argument.

    >>> import numpy as np
    >>> hvp(lambda x: np.sum(x ** 3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    array([ 6., 12.])
    """
    if not isinstance(primals, (tuple, list)):
        raise TypeError(f"hvp takes a tuple of arguments, and one of directions: hvp(f, (x,), (v,)), got a {type(primals).__name__}")
    _, product = jvp(grad(fun, tuple(range(len(primals)))), primals, tangents)
    return product[0] if len(primals) == 1 else product


@overload
def checkpoint(fun: np.ufunc) -> Callable[..., Any]: ...


@overload
def checkpoint(fun: Callable[P, R]) -> Callable[P, R]: ...


def checkpoint(fun: Function) -> Function:
    """`fun`, recomputed in the backward pass: only its arguments are saved, and intermediate values are rematerialized by a second run.

    >>> import numpy as np
    >>> float(grad(checkpoint(lambda x: np.sin(np.sin(x))))(0.0))
    1.0
    """

    @user_frames_only
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return emit(*args, **kwargs) if is_tracing() else fun(*args, **kwargs)

    def body(*args: Any, **kwargs: Any) -> Any:
        region = trace_region(fun, args, kwargs, name=describe(fun))
        return region.rebuild(ops.checkpoint.emit(*region.operands, regions=(region.graph,)))

    emit = _on_wrappers(body)
    return kept(fun, "checkpoint", lambda: _without_program(_named(
        fun, "checkpoint", TransformedFunction(checkpointed, checkpoint, ("checkpoint",)))))


def stop_gradient(x: Leaf) -> Leaf:
    """`x` (a tree), as a constant for every derivative.

    >>> float(grad(lambda x: x * stop_gradient(x))(3.0))
    3.0
    """
    return _map(_stop, x)       # type: ignore[no-any-return]


def _stop(leaf: Any) -> Any:
    if isinstance(leaf, ArrayWrapper):
        return composites.stop_gradient(leaf)
    return wrap(ops.stop_gradient(leaf.value), leaf.weak) if isinstance(leaf, TracedArray) else leaf


def transform(fun: Function, name: str, settings: tuple[Any, ...], body: Function, like_fun: bool = True,
              again: Function | None = None) -> TransformedFunction:
    """`body`: called directly within a trace, compiled outside of one. The same function for the same `fun` and settings. `again` makes it
    of a function, where it may be pickled."""

    def make() -> TransformedFunction:
        on_wrappers = _on_wrappers(_named(fun, name, body, like_fun))
        program = _compiled(fun, name, on_wrappers, like_fun)
        transformed = _named(fun, name, TransformedFunction(program, again, (name, *settings)), like_fun)
        vars(transformed).update({report: getattr(program, report) for report in REPORTS})
        return transformed

    return kept(fun, (name, *settings), make)


def _without_program(function: TransformedFunction) -> TransformedFunction:
    """`function`, whose calls run no single program, with reports that say so."""

    def refuse(report: str) -> Function:
        @user_frames_only
        def refused(*_: Any, **__: Any) -> Any:
            raise TraceError(f"{function.__name__} is not one program, but runs several, or none", find_user_location(),
                             hint=f"compile it as one: adjit.compile({function.__name__}).{report}(...)")

        return refused

    vars(function).update({report: refuse(report) for report in REPORTS})
    return function


def _on_wrappers(body: Function) -> Function:
    """`body`, which runs within a trace. If tensors are among the arguments, it is one operation of tensors."""

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        wrapper = next((leaf for leaf in flatten((args, kwargs))[0] if isinstance(leaf, ArrayWrapper)), None)
        return body(*args, **kwargs) if wrapper is None else wrapper.apply_closure(body, args, kwargs)

    return run


def _compiled(fun: Function, name: str, body: Function, like_fun: bool, repeats: bool = False) -> CompiledFunction:
    """`body`, compiled with the options of `fun` if that is a compiled function."""
    named = _named(fun, name, body, like_fun)
    if not isinstance(fun, (CompiledFunction, BoundCompiledFunction)):
        plain = compile(named)
        return make_compiled(named, replace(plain.compile_options, repeats=True)) if repeats else plain
    static = fun.compile_options.static if like_fun else frozenset[str]()
    return make_compiled(named, replace(fun.compile_options, static=static, donate=frozenset(), repeats=repeats))


def _named(fun: Function, name: str, function: F, like_fun: bool = True) -> F:
    """`function`, named for messages. `like_fun`: it takes the arguments of `fun`."""
    if like_fun:
        functools.update_wrapper(function, fun, updated=())
    function.__name__ = function.__qualname__ = f"{name}_{describe(fun)}"      # type: ignore[attr-defined]
    return function


def argument_numbers(argnums: Argnums) -> int | tuple[int, ...]:
    """`argnums` as an int or a tuple of ints, for comparison."""
    try:
        if isinstance(argnums, (tuple, list)):
            return tuple(map(operator.index, argnums))
        return operator.index(argnums)      # type: ignore[arg-type]
    except TypeError:
        names = isinstance(argnums, str) or (isinstance(argnums, (tuple, list)) and all(isinstance(name, str) for name in argnums))
        is_argument = isinstance(argnums, float) or hasattr(argnums, "dtype")
        raise TypeError(f"argnums takes positions of arguments, an int or a tuple of ints, not {argnums!r}"
                        + (f"; names go to argnames={argnums!r}" if names else "")
                        + ("; a transform takes the function, and gives one that takes the arguments: grad(f)(x)" if is_argument else "")
                        ) from None


def as_tuple(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else numbers


def _value_and_grad(fun: Function, args: Sequence[Any], kwargs: Mapping[str, Any], numbers: int | tuple[int, ...], has_aux: bool,
                    transform: str, holomorphic: bool = False) -> tuple[Any, Any, Any]:
    primal = trace_primal(fun, args, kwargs, as_tuple(numbers), transform, has_aux, pulled_once=True)
    if not optree.treespec_is_leaf(primal.out_tree) or primal.outputs[0].shape != ():
        is_leaf = optree.treespec_is_leaf(primal.out_tree)
        found = f"has shape {primal.outputs[0].shape}" if is_leaf else f"is a tree, {structure_text(primal.out_tree)}"
        raise NonDifferentiableError(
            f"{transform} of {describe(fun)}: the output {found}, expected a scalar", return_location(fun) or find_user_location(),
            hint="reduce it with .sum() or .mean(), or use adjit.vjp (with a cotangent) or adjit.jacobian"
            + ("" if is_leaf else "; has_aux=True allows results besides the scalar") if primal.outputs else "is there a `return`?")
    _check_complex(primal, f"{transform} of {describe(fun)}", return_location(fun) or find_user_location(), holomorphic)
    one = ops.constant(value=1.0, dtype=primal.outputs[0].dtype, shape=())
    value, aux, leaves = primal.pull_back({0: one})
    gradients = primal.gradients([FUNCTIONS[np.conjugate](leaf) for leaf in leaves] if holomorphic else leaves)
    return value, aux, gradients[0] if isinstance(numbers, int) else gradients


def _check_complex(primal: Primal, what: str, location: Location | None, holomorphic: bool) -> None:
    """Raise `NonDifferentiableError` for a complex output without `holomorphic`, and for reals with it."""
    output, arguments = primal.outputs[0], primal.region.graph.params[:len(primal.arguments.leaves)]
    if not holomorphic and is_complex(output.dtype):
        raise NonDifferentiableError(
            f"{what}: the output is complex ({output}), and its derivative is no gradient", location,
            hint="return a real number, such as abs(z) ** 2 or z.real; or ask for the derivative of a holomorphic function: "
                 "grad(..., holomorphic=True)")
    if holomorphic and not all(is_complex(type.dtype) for type in (output, *(value.type for value in arguments))):
        raise NonDifferentiableError(f"{what}: with holomorphic=True, output and arguments have to be complex; the output is {output}, the "
                                     f"arguments are {', '.join(str(value.type) for value in arguments)}", location,
                                     hint="convert them with .astype(complex), or leave holomorphic=True out")


def _pull_back(primal: Primal, cotangent: Any) -> tuple[Any, ...]:
    leaves = match_leaves(primal.out_tree, primal.outputs, cotangent, "the cotangent")
    _, _, pulled = primal.pull_back(dict(enumerate(traced_values(leaves))))
    return primal.gradients(pulled)


def _programs(fun: Function, numbers: tuple[int, ...], transform: str, has_aux: bool) -> tuple[CompiledFunction, CompiledFunction]:
    """Two compiled functions: output and auxiliary output from (args, kwargs), and the pullback from (args, kwargs, cotangent)."""

    def forward(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return trace_primal(fun, args, kwargs, numbers, transform, has_aux).run()

    def backward(args: tuple[Any, ...], kwargs: dict[str, Any], cotangent: Any) -> tuple[Any, ...]:
        return _pull_back(trace_primal(fun, args, kwargs, numbers, transform, has_aux), cotangent)

    return kept(fun, ("pullback", transform, numbers, has_aux), lambda: (
        _compiled(fun, f"{transform}_output", _on_wrappers(forward), like_fun=False),
        _compiled(fun, f"{transform}_pullback", _on_wrappers(backward), like_fun=False, repeats=True)))


def _map(function: Function, tree: Any) -> Any:
    leaves, spec = flatten(tree)
    return unflatten(spec, map(function, leaves))


def _copy(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
