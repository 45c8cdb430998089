"""`scan`, `fori_loop`, `while_loop` and `cond`: loops and branches that stay loops and branches in the compiled program.

Within a trace they emit an op whose regions are the traced functions. Outside of a trace the loop is compiled,
and the compiled loop is cached on its function.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple, overload

import numpy as np

from adjit.ir import ops
from adjit.ir.control_flow import add_captures, drop_carries
from adjit.ir.errors import DTypeError, ShapeError, TraceError, UnsupportedError
from adjit.ir.graph import Graph, Value, number_of
from adjit.ir.types import BOOL, I64, TensorType, is_inexact
from adjit.runtime.caches.transform_cache import kept
from adjit.runtime.compile_function import compile
from adjit.runtime.transform_arguments import describe
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.control_flow import (
    BodyParameter,
    Remedy,
    TracedBody,
    WrapperReturned,
    check_structure,
    check_types,
    is_numeric,
    trace_body,
    wrapping,
)
from adjit.tracer.lowering import convert
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.renamed_parameters import renamed_parameters
from adjit.tracer.trace import is_tracing
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import Tree, TreeSpec, flatten, paths, unflatten
from adjit.tracer.user_location import find_user_location, return_location

Function = Callable[..., Any]
C = TypeVar("C")            # a carry, a tree
X = TypeVar("X")
Y = TypeVar("Y")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

LOOPS = Remedy("a carry keeps its shape in all iterations: start with an array of the shape that the function returns; "
               "return an array that grows by a row per iteration as the y of a scan",
               "convert one of them: .astype(np.{expected}) of the result, or start with {found}")
BRANCHES = Remedy("both branches have to return arrays of the same shapes: bring one of them to the shape of the other",
                  "convert one of them: .astype(np.{expected}) in the second branch, or .astype(np.{found}) in the first")


@overload
def scan(f: Callable[[C, X], tuple[C, Y]], init: C, xs: X, length: int | None = None, reverse: bool = False) -> tuple[C, Y]: ...


@overload       # the slices of xs, and Python numbers in init, may have other types than xs and init
def scan(f: Callable[[C, Any], tuple[C, Y]], init: Tree, xs: Tree = None, length: int | None = None,
         reverse: bool = False) -> tuple[C, Y]: ...


@user_frames_only
def scan(f: Function, init: Tree, xs: Tree = None, length: int | None = None, reverse: bool = False) -> tuple[Tree, Tree]:
    """A loop over the slices of arrays, with a carry: `carry, y = f(carry, x)` for each slice `x` of the arrays `xs` along their first
    axis, from `init` on. Returns the pair (last carry, the `y` stacked along a new first axis).

    `init`, `xs` and `y` are trees of arrays and numbers; `xs=None` with `length` passes None for the slice. The carry keeps its structure,
    shapes and dtypes: a change raises `TraceError`, `ShapeError` or `DTypeError`, which show both. Python numbers in `init` take the dtype
    that `f` returns for them. `reverse` starts with the last slice. Compiled, it is one loop, whose body is traced once. Its derivative is
    a loop too, over the values that each iteration saves.

    >>> import numpy as np
    >>> total, sums = scan(lambda total, x: (total + x, total + x), 0.0, np.array([1.0, 2.0, 3.0]))
    >>> float(total), sums
    (6.0, array([1., 3., 6.]))
    """
    def run(init: Tree, xs: Tree, numbers: frozenset[int]) -> tuple[Tree, Tree]:
        return _scan(f, init, xs, length, reverse, numbers)

    result: tuple[Tree, Tree] = _run("scan", f, (length, reverse), run, init, xs)
    return result


@overload
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, C], C], init_val: C) -> C: ...


@overload       # Python numbers in init_val take the types that body_fun gives them
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, C], C], init_val: Tree) -> C: ...


@user_frames_only
@renamed_parameters(lo="lower", hi="upper", f="body_fun", init="init_val")
def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Tree) -> Tree:
    """A counted loop: `carry = body_fun(i, carry)` for each integer `i` from `lower` to `upper - 1`, from `init_val` on. Returns the last
    carry.

    With Python integers as bounds it is a `scan`, with traced bounds a `while_loop`; carry, errors and derivatives are the same as there.
    Raises `DTypeError` for bounds that are not integers.

    >>> import numpy as np
    >>> fori_loop(0, 3, lambda i, x: x * 2.0 + i, np.array([1.0, 0.0]))
    array([12.,  4.])
    """
    low, high = _static_bound(lower), _static_bound(upper)
    if low is not None and high is not None:
        return _run("fori_loop", body_fun, (low, high), lambda init, numbers: _counted_scan(body_fun, low, high, init, numbers), init_val)
    bounds = [_traced_bound(bound, name) if known is None else known
              for known, bound, name in ((low, lower, "lower"), (high, upper, "upper"))]

    def run(init: Tree, lo: Any, hi: Any, numbers: frozenset[int]) -> Tree:
        return _counted_while(body_fun, lo, hi, init, numbers)

    return _run("fori_loop", body_fun, (), run, init_val, *map(_as_array, bounds))


@overload
def while_loop(cond_fun: Callable[[C], Any], body_fun: Callable[[C], C], init_val: C) -> C: ...


@overload       # Python numbers in init_val take the types that body_fun gives them
def while_loop(cond_fun: Callable[[C], Any], body_fun: Callable[[C], C], init_val: Tree) -> C: ...


@user_frames_only
@renamed_parameters(cond="cond_fun", body="body_fun", init="init_val")
def while_loop(cond_fun: Function, body_fun: Function, init_val: Tree) -> Tree:
    """A loop with a condition: `state = body_fun(state)` as long as `cond_fun(state)` is true, from `init_val` on. Returns the last state.

    The state is a tree of arrays and numbers that keeps its structure, shapes and dtypes (else `TraceError`, `ShapeError`, `DTypeError`);
    `cond_fun` returns a bool scalar. Reverse differentiation saves a fixed number of states as checkpoints, and recomputes the iterations
    between them (`docs/derivatives.md`).

    >>> import numpy as np
    >>> float(while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 3.0))
    192.0
    """
    return _run("while_loop", body_fun, (cond_fun,), lambda init, numbers: _while_loop(cond_fun, body_fun, init, numbers), init_val)


FUNCTIONS["while_loop"] = while_loop     # of functions that repeat until all elements are done


@user_frames_only
@renamed_parameters(f="true_fun", g="false_fun")
def cond(pred: Any, true_fun: Callable[[*Ts], R], false_fun: Callable[[*Ts], R], *operands: *Ts) -> R:
    """A branch: `true_fun(*operands)` if `pred` (a bool scalar) is true, else `false_fun(*operands)`; only one of them runs.

    Both return the same structure with the same shapes and dtypes, else `TraceError`, `ShapeError` or `DTypeError`. The derivative is that
    of the branch taken. Outside of a trace `cond` is an ordinary `if`.

    >>> import numpy as np
    >>> float(cond(True, np.sin, np.cos, 0.0))
    0.0
    """
    for branch in (true_fun, false_fun):
        if not callable(branch):
            raise TypeError(f"cond takes functions as branches, got a {branch.__class__.__name__}: cond(p, lambda: x, lambda: y); "
                            "numpy.where(p, x, y) chooses between values")
    if not is_tracing():
        return true_fun(*operands) if bool(pred) else false_fun(*operands)
    if issubclass(type(pred), (bool, np.bool_)):
        return true_fun(*operands) if pred else false_fun(*operands)
    return _on_wrappers(lambda pred, *args: _cond(pred, true_fun, false_fun, args))(pred, *operands)       # type: ignore[no-any-return]


def _run(name: str, fun: Function, settings: tuple[Any, ...], run: Function, init: Tree, *others: Tree) -> Tree:
    """`run(init, *others, numbers)`, in the current trace, or compiled and cached on `fun`. `numbers` tells which leaves of `init` are
    Python numbers."""
    leaves, tree = flatten(init)
    numbers = frozenset(index for index, leaf in enumerate(leaves)
                        if issubclass(type(leaf), (bool, int, float)) and not isinstance(leaf, np.generic))
    call = functools.partial(_on_wrappers(run), numbers=numbers)
    if is_tracing():
        return call(init, *others)

    def compiled() -> Function:
        def loop(*args: Tree) -> Tree:
            return call(*args)

        loop.__name__ = loop.__qualname__ = f"{name}_{describe(fun)}"
        return compile(loop)

    program = kept(fun, (name, *settings, numbers), compiled)
    return program(unflatten(tree, map(_as_array, leaves)),
                   *(unflatten(other_tree, map(_as_array, found)) for found, other_tree in map(flatten, others)))


def _as_array(leaf: Any) -> Any:
    """Integers as arrays, which are traced, so that a new integer needs no new program."""
    return np.asarray(leaf) if isinstance(leaf, (bool, int)) else leaf


def _on_wrappers(body: Function) -> Function:
    """`body`, which runs within a trace. If tensors are among the arguments or closed over, it is one operation of tensors."""

    def run_wrapping(wrapper: ArrayWrapper | None, *args: Any, **kwargs: Any) -> Any:
        with wrapping(wrapper):
            return body(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        wrapper = next((leaf for leaf in flatten(args)[0] if isinstance(leaf, ArrayWrapper)), None)
        if wrapper is None:
            try:
                return run_wrapping(None, *args, **kwargs)
            except WrapperReturned as found:
                wrapper = found.wrapper
        return wrapper.apply_closure(functools.update_wrapper(functools.partial(run_wrapping, wrapper), body), args, kwargs)

    return run


def _static_bound(bound: Any) -> int | None:
    """The value of a bound that is known while tracing; else None."""
    return operator.index(bound) if issubclass(type(bound), (int, np.integer)) else None


def _traced_bound(bound: Any, name: str) -> Any:
    array = bound.array if isinstance(bound, ArrayWrapper) else bound
    if not hasattr(array, "dtype") or array.dtype.kind not in "iu" or array.shape != ():
        what = f"{array.dtype} {array.shape}" if hasattr(array, "dtype") else type(bound).__name__
        raise DTypeError(f"the bound {name} of fori_loop is {what}, expected an integer", find_user_location())
    return bound


# -- within a trace


def _scan(f: Function, init: Tree, xs: Tree, length: int | None, reverse: bool, numbers: frozenset[int]) -> tuple[Tree, Tree]:
    name = describe(f)
    carried, sliced = _Leaves(init, "the initial carry", numbers), _Leaves(xs, "xs")
    steps = _length(sliced, length, name)
    slices = [BodyParameter(array.value.type.with_shape(array.value.type.shape[1:]), wrapper=wrapper)
              for array, wrapper in zip(sliced.arrays, sliced.wrappers, strict=True)]
    trees: list[TreeSpec] = []

    def body(leaves: Sequence[Any]) -> list[Any]:
        count = len(carried.arrays)
        returned = f(unflatten(carried.tree, leaves[:count]), unflatten(sliced.tree, leaves[count:]))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TraceError(f"{name} has to return a pair (carry, y), got {type(returned).__name__}",
                             return_location(f) or find_user_location(),
                             hint="return (carry, None) if there is nothing to stack")
        carry, tree = flatten(returned[0])
        check_structure(carried.tree, tree, f"the carry that {name} returns", "the initial carry", f)
        rows, row_tree = flatten(returned[1])
        trees[:] = [row_tree]
        return [*rows, *carry]

    traced = _trace_stable(body, name, carried, slices, f"the carry that {name} returns", "the initial carry")
    count, fixed = len(carried.arrays), traced.unchanged(len(carried.arrays))
    rows = len(traced.graph.results) - count
    results = ops.scan.emit(
        *carried.without(fixed), *sliced.values, *traced.captures, *carried.only(fixed), length=steps, carries=count - len(fixed),
        regions=(drop_carries(traced.graph, count, fixed),), slices=len(sliced.arrays), reverse=bool(reverse), scratch_bytes=0)
    return carried.rebuild(results[rows:], fixed), unflatten(trees[0], map(wrap, results[:rows]))


def _length(sliced: _Leaves, length: int | None, name: str) -> int:
    """The number of iterations of a scan."""
    sizes: dict[int, str] = {} if length is None else {operator.index(length): "length"}
    for path, array in zip(paths(sliced.tree), sliced.arrays, strict=True):
        if not array.shape:
            raise ShapeError(f"scan of {name}: xs{path} is {array.value.type}, which has no slices", find_user_location(),
                             hint="xs are arrays with a first axis to iterate over; close over values that are the same in every iteration")
        sizes.setdefault(array.shape[0], f"xs{path}")
    if len(sizes) != 1:
        found = ", ".join(f"{what} of {size}" for size, what in sizes.items())
        raise ShapeError(f"scan of {name}: different lengths: {found}" if sizes else f"scan of {name}: no xs, and no length",
                         find_user_location(), hint=None if sizes else "pass length=")
    (steps,) = sizes
    if steps < 0:
        raise ShapeError(f"scan of {name}: the length is {steps}", find_user_location())
    return steps


def _counted_scan(f: Function, lo: int, hi: int, init: Tree, numbers: frozenset[int]) -> Tree:
    steps = max(hi - lo, 0)
    counts = ops.iota(dtype=I64, shape=(steps,), axis=0)
    counts = ops.add(counts, ops.full_like(counts, lo)) if lo else counts
    body = functools.wraps(f)(lambda carry, i: (f(i, carry), None))
    return _scan(body, init, wrap(counts), steps, False, numbers)[0]


def _counted_while(f: Function, lo: Any, hi: Any, init: Tree, numbers: frozenset[int]) -> Tree:
    last = convert(as_traced(hi).value, I64)
    first = wrap(convert(as_traced(lo).value, I64))
    body = functools.wraps(f)(lambda state: (state[0] + 1, f(state[0], state[1])))
    return _while_loop(lambda state: state[0] < wrap(last), body, (first, init), frozenset(index + 1 for index in numbers))[1]


def _while_loop(condition: Function, body: Function, init: Tree, numbers: frozenset[int]) -> Tree:
    name = describe(body)
    carried = _Leaves(init, "the initial state", numbers)

    def step(leaves: Sequence[Any]) -> list[Any]:
        after, tree = flatten(body(unflatten(carried.tree, leaves)))
        check_structure(carried.tree, tree, f"the state that {name} returns", "the initial state", body)
        return after

    traced = _trace_stable(step, name, carried, [], f"the state that {name} returns", "the initial state")
    test = trace_body(lambda leaves: condition(unflatten(carried.tree, leaves)), describe(condition), carried.parameters(False))
    if [value.type for value in test.graph.results] != [TensorType(BOOL, ())]:
        found = ", ".join(str(value.type) for value in test.graph.results) or "nothing"
        raise DTypeError(f"the condition {describe(condition)} of a while_loop returns {found}, expected a bool scalar",
                         return_location(condition) or find_user_location(), hint="compare scalars, or reduce with np.any or np.all")
    count, fixed = len(carried.arrays), traced.unchanged(len(carried.arrays))
    (tested, run), outer = _with_same_operands(test, traced, count)
    results = ops.while_loop.emit(
        *carried.without(fixed), *outer, *carried.only(fixed),
        regions=(drop_carries(tested, count, fixed), drop_carries(run, count, fixed)),
        carries=count - len(fixed), checkpointed=(), checkpoints=0, scratch_bytes=0)
    return carried.rebuild(results, fixed)


def _cond(pred: Any, f: Function, g: Function, args: tuple[Tree, ...]) -> Tree:
    predicate = as_traced(pred)
    if predicate.shape != () or predicate.dtype != BOOL:
        raise DTypeError(f"the predicate of cond is {predicate.value.type}, expected a bool scalar", find_user_location(),
                         hint="write pred.any(), pred.all() or pred != 0; np.where chooses element by element")
    given = _Leaves(args, "an argument of cond: args")
    first, second = (trace_body(functools.partial(_call_branch, branch, given.tree), describe(branch), given.parameters(False))
                     for branch in (f, g))
    what, of = f"in the False branch, the result of {describe(g)}", f"in the True branch, the result of {describe(f)}"
    check_structure(first.out_tree, second.out_tree, what, of, g)
    types = [(one.type.dtype, other.type.dtype) for one, other in zip(first.graph.results, second.graph.results, strict=True)]
    second = second.converted({i: one for i, (one, _) in enumerate(types) if _may_become(one, second, i)})
    first = first.converted({i: other for i, (_, other) in enumerate(types)
                             if second.graph.results[i].type.dtype == other and _may_become(other, first, i)})
    check_types(second, 0, [value.type for value in first.graph.results], first.out_tree, what, of, BRANCHES)
    regions, outer = _with_same_operands(first, second, len(given.arrays))
    results = ops.cond.emit(predicate.value, *given.values, *outer, regions=regions, scratch_bytes=0)
    weak = [one and other and is_inexact(value.type.dtype) for one, other, value in zip(first.weak, second.weak, results, strict=True)]
    return unflatten(first.out_tree, map(wrap, results, weak))


def _may_become(dtype: np.dtype, body: TracedBody, index: int) -> bool:
    """True if a result is a Python number, traced as another dtype, whose value fits `dtype`: 0.5 is no integer, 300 no 8-bit integer,
    and True no number."""
    value = body.graph.results[index]
    number = value.type.dtype
    if not body.weak[index] or number in (dtype, BOOL):
        return False
    producer = next((op for op in body.graph.ops if value in op.results), None)
    content = number_of(producer)
    if content is not None and number.kind == "i" and dtype.kind in "iu":
        return bool(np.iinfo(dtype).min <= content <= np.iinfo(dtype).max)
    return np.can_cast(number, dtype, "same_kind")


def _call_branch(branch: Function, tree: TreeSpec, leaves: Sequence[Any]) -> Tree:
    return branch(*unflatten(tree, leaves))


class _Leaves:
    """Leaves of a tree as arrays: initial values or operands of a loop. `numbers` are the Python numbers among them."""

    def __init__(self, tree: Tree, what: str, numbers: frozenset[int] = frozenset()):
        leaves, self.tree = flatten(tree)
        self.wrappers: list[ArrayWrapper | None] = []
        self.arrays: list[TracedArray] = []
        for index, leaf in enumerate(leaves):
            if not is_numeric(leaf):
                raise UnsupportedError(f"{what}{paths(self.tree)[index]} is {leaf!r}, which is not an array", find_user_location(),
                                       hint="close over values that are not arrays and do not change")
            array = as_traced(leaf)
            self.wrappers.append(leaf if isinstance(leaf, ArrayWrapper) else None)
            self.arrays.append(wrap(array.value, scalar=array.scalar) if array.weak and not is_inexact(array.dtype) else array)
        self.numbers = numbers.union(index for index, array in enumerate(self.arrays) if array.weak)

    @property
    def values(self) -> list[Value]:
        return [array.value for array in self.arrays]

    def parameters(self, carried: bool) -> list[BodyParameter]:
        return [BodyParameter(array.value.type, array.weak, carried, wrapper)
                for array, wrapper in zip(self.arrays, self.wrappers, strict=True)]

    def adapt(self, index: int, dtype: np.dtype) -> None:
        """Give an initial value another dtype, which is not weak."""
        self.arrays[index] = wrap(convert(self.arrays[index].value, dtype))

    def only(self, chosen: Sequence[int]) -> list[Value]:
        return [self.arrays[index].value for index in chosen]

    def without(self, chosen: Sequence[int]) -> list[Value]:
        return [array.value for index, array in enumerate(self.arrays) if index not in chosen]

    def rebuild(self, values: Sequence[Value], fixed: Sequence[int]) -> Tree:
        """The tree with other arrays, as weak as the initial leaves; leaves in `fixed` stay."""
        new = iter(values)
        return unflatten(self.tree, (wrap(array.value if index in fixed else next(new), array.weak)
                                     for index, array in enumerate(self.arrays)))


def _trace_stable(body: Callable[[Sequence[Any]], list[Any]], name: str, carried: _Leaves, others: Sequence[BodyParameter], what: str,
                  of: str) -> TracedBody:
    """The body of a loop, traced so that its carried values keep their types. Python numbers among the initial values take the types that
    the body returns, if the values fit (0.5 is no integer): then the body is traced again."""
    while True:
        traced = trace_body(body, name, [*carried.parameters(True), *others])
        first = len(traced.graph.results) - len(carried.arrays)
        changed = False
        converted: dict[int, np.dtype] = {}
        for index, array in enumerate(carried.arrays):
            found, weak = traced.graph.results[first + index].type, traced.weak[first + index]
            wider = is_inexact(found.dtype) if array.weak else np.result_type(array.dtype, found.dtype) == found.dtype
            if found.shape != array.shape or (found == array.value.type and (weak or not array.weak)):
                continue
            if _may_become(array.dtype, traced, first + index):
                converted[first + index] = array.dtype
            elif not weak and wider and index in carried.numbers:
                carried.adapt(index, found.dtype)
                carried.numbers -= {index}
                changed = True
        if not changed:
            break
    traced = traced.converted(converted)
    check_types(traced, first, [array.value.type for array in carried.arrays], carried.tree, what, of, LOOPS)
    return traced


def _with_same_operands(first: TracedBody, second: TracedBody, count: int) -> tuple[tuple[Graph, Graph], list[Value]]:
    """Two regions with the same operands, which are all outer values that either region captures; and these values."""
    outer = list(dict.fromkeys((*first.captures, *second.captures)))
    return (add_captures(first.graph, count, first.captures, outer), add_captures(second.graph, count, second.captures, outer)), outer
