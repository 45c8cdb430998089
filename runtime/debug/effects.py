"""Effects in compiled functions: what `adjit.debug.print`, `callback` and `breakpoint` do each time a program comes to their line."""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from string import Formatter
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.host_functions import HostFunction, make_handle
from adjit.ir.ops.effect import TOKEN
from adjit.ir.waiting_effects import run_effect
from adjit.runtime.custom_vjp import custom_vjp
from adjit.tracer.array import TracedArray, as_traced, contains_traced
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.flow.lifted_numbers import LiftedNumber, NotLiftable
from adjit.tracer.flow.printed_texts import PRINTS, Conversion, PrintedText, pieces_of
from adjit.tracer.guards.printing import stream_of, text_of, unless_shown, without_stand_in
from adjit.tracer.scope import active_scope
from adjit.tracer.trace import is_tracing
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import TreeSpec, flatten, unflatten
from adjit.tracer.user_location import find_user_location, is_ours

T = TypeVar("T")
Function = Callable[..., Any]


@user_frames_only
def print(text: str, /, *args: Any, **values: Any) -> None:
    """Print `text.format(*args, **values)` each time the program comes to this line.

    Values are arrays, numbers, tensors, or trees of them; NumPy formats what the program computed (`{x}`, `{x[0]:.3f}`, `{x.shape}`). What
    is not an array, such as a text, is that of the trace. Prints of one call come in the order of Python's, also in loops and branches,
    once for each example under `vmap`, and in the backward half where a backward rule or `on_gradient` has one. Derivatives pass it by.

    Raises `ArgumentError` for a text that names a value that is not given, or has no place for one that is.

    >>> import numpy as np
    >>> import adjit as aj
    >>> @aj.compile
    ... def f(x):
    ...     y = np.sin(x)
    ...     aj.debug.print("y = {y:.3f}, twice {}", 2 * y, y=y)
    ...     return y * y
    >>> float(f(0.0))
    y = 0.000, twice 0.0
    0.0
    >>> float(aj.grad(f)(0.0))
    y = 0.000, twice 0.0
    0.0
    """
    try:
        fields = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"aj.debug.print: {text!r} is no format text: {error}", find_user_location(),
                            hint='write aj.debug.print("x = {x}", x=x)') from None
    names = [field.partition(".")[0].partition("[")[0] for field in fields]
    places = iter(range(len(names)))
    for name in [name or str(next(places)) for name in names]:
        if not (int(name) < len(args) if name.isdecimal() else name in values):
            raise ArgumentError(f"aj.debug.print: {text!r} names {{{name}}}, which is not given", find_user_location(),
                                hint="pass a value for each pair of braces" if name.isdecimal() else f"pass it: {name}={name}")
    unused = [repr(value) for index, value in enumerate(args) if not any(names) and index >= len(names)]
    unused += [name for name in values if name not in names]
    if unused:
        raise ArgumentError(f"aj.debug.print: {text!r} has no place for {len(unused)} of the values", find_user_location(),
                            hint='write aj.debug.print("x = {x}", x=x)')
    if "" in names and any(map(str.isdecimal, names)):
        raise ArgumentError(f"aj.debug.print: {text!r} mixes numbered braces and others", find_user_location(), hint="number all or none")

    def show(*args: Any, **values: Any) -> None:
        builtins.print(text.format(*args, **values))

    _run("print", show, args, values, text)


def print_in_program(*args: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = False) -> bool:
    """Have the program print what `print` is given in a trace, if tensors, numbers of the call or texts of such are among that, or were
    printed before in the function; returns whether it will.

    Raises `NotLiftable` for texts that no program prints: into a file that the function has opened, for instance; and for the first value
    where another one that has none was printed before, which is the program's then, too.
    """
    scope = active_scope()
    assert scope is not None
    known, flow = scope.root.known_arrays, None if scope.root.values is None else scope.root.values.flow
    prints_all = known is not None and known.prints and not scope.evaluates
    texts = [[arg] if isinstance(arg, (TracedArray, Tensor)) else pieces_of(text_of(arg)) for arg in args]
    found = [piece for pieces in texts for piece in pieces if not isinstance(piece, str)]
    if not prints_all and not any(
            isinstance(piece, (Tensor, PrintedText)) or (isinstance(piece, TracedArray) and piece.is_of_call) for piece in found):
        return False
    stream = stream_of(file)
    if not stream or not all(option is None or type(option) in (str, bool) for option in (sep, end, flush)):
        needed = frozenset(piece.source for piece in found if isinstance(piece, PrintedText))
        if needed:
            raise NotLiftable(needed)
        return False
    if known is not None and not known.prints:
        if scope.root.prints or (flow is not None and flow.has_ways):
            raise NotLiftable(frozenset((PRINTS,)))
        known.prints = True
    values = [piece.value if isinstance(piece, PrintedText) else piece for piece in found]
    forms = [[piece if isinstance(piece, str) else (piece.form,) if isinstance(piece, PrintedText) else () for piece in pieces]
             for pieces in texts]
    make = [_tensor_shown_as(value, Tensor if value is not piece else type(value)) if isinstance(value, Tensor) else
            np.ndarray.item if isinstance(value, TracedArray) and (value.weak or isinstance(value, LiftedNumber)) else None
            for value, piece in zip(values, found, strict=True)]
    options = {"sep": sep, "end": end, "flush": flush}

    def show(*arrays: Any) -> None:
        following = iter([array if made is None else made(np.asarray(array)) for made, array in zip(make, arrays, strict=True)])
        lines = ["".join(piece if isinstance(piece, str) else _text(next(following), *piece) for piece in pieces) for pieces in forms]
        builtins.print(*lines, file=getattr(sys, stream), **options)

    show = unless_shown(show, scope.root.unshown, not values)
    history = [getattr(each, "args", None) for each in make]
    _run("print", show, tuple(values), {}, repr((forms, stream, options, history)))
    return True


def _tensor_shown_as(tensor: Tensor, kind: type[Tensor]) -> Callable[[np.ndarray], Tensor]:
    """What makes the tensor of a call that prints as the one of the trace does, with the name of its `grad_fn`. Of a part of a text the
    class has shown its own part, `Parameter containing:`."""
    node = tensor.grad_fn       # type: ignore[attr-defined]
    return partial(_shown_tensor, kind, None if node is None else node.name(), tensor._requires_grad)


def _shown_tensor(kind: type[Tensor], grad_fn: str | None, requires_grad: bool, array: np.ndarray) -> Tensor:
    made = new_tensor(array)
    made.__class__ = kind
    node: Any = None if grad_fn is None else SimpleNamespace(name=lambda: grad_fn)
    made._requires_grad, made._node = requires_grad, node
    return made


def _text(value: Any, form: str | None = None) -> str:
    return str(value) if form is None else form % (value,) if isinstance(form, Conversion) else format(value, form)


@user_frames_only
def callback(function: Function, /, *args: Any, **kwargs: Any) -> None:
    """Call `function(*args, **kwargs)` each time the program comes to this line, with NumPy arrays (0-d ones are NumPy scalars).

    What it returns is dropped; what it raises is raised by the program. Unlike that of `pure_callback`, each call is made, once, in
    the order of Python's. `args` are arrays, numbers, tensors, or trees of them; the function is not traced, and may read and change
    anything.

    >>> import numpy as np
    >>> import adjit as aj
    >>> losses = []
    >>> @aj.compile
    ... def step(w, x):
    ...     loss, gradient = aj.value_and_grad(lambda w: np.sum((w * x) ** 2))(w)
    ...     aj.debug.callback(losses.append, loss)
    ...     return w - 0.25 * gradient
    >>> w = step(step(np.array([1.0, 2.0]), 1.0), 1.0)
    >>> [float(loss) for loss in losses]
    [5.0, 1.25]
    """
    if not callable(function):
        raise ArgumentError(f"aj.debug.callback takes a function and its arguments, got {function!r}", find_user_location(),
                            hint="write aj.debug.callback(f, x)")
    _run("callback", function, args, kwargs, _function_key(function))


@user_frames_only
def breakpoint(**values: Any) -> None:
    """Stop in the debugger each time the program comes to this line, with the values that the program computed.

    The debugger is Python's `breakpoint()` (pdb, or what `PYTHONBREAKPOINT` names). It stands at the user's line, and sees the arrays among
    the local variables of the function by their names, or the `values` alone, if any are given. Changes of variables do not go back into
    the program; an error, or `quit`, ends the call.

    >>> import adjit as aj
    >>> @aj.compile
    ... def double(x):
    ...     y = x + x
    ...     breakpoint(y=y)
    ...     return y
    >>> double(1.0)                 # doctest: +SKIP
    (Pdb) p y
    """
    frame = _user_frame()
    if not values and frame is not None:
        values = {name: value for name, value in frame.f_locals.items() if _is_traced(value) or isinstance(value, _PLAIN)}
    if frame is None:
        sys.breakpointhook()
        return
    code, names = _code_at(frame), frame.f_globals

    def stop(**values: Any) -> None:
        exec(code, names, {**values, "__adjit_stop__": sys.breakpointhook})

    _run("breakpoint", stop, (), values, None)


def on_gradient(function: Function, x: T) -> T:
    """`x`; in the backward half, `function` is called with the gradient of the result with respect to it, an array of its shape.

    A function in Python is traced, as a part of the backward half: it may call `aj.debug.print`, `callback` and `breakpoint`. One in C,
    such as `print` or `seen.append`, is called by the program, with an array of NumPy's.

    >>> import numpy as np
    >>> import adjit as aj
    >>> def f(x):
    ...     y = aj.debug.on_gradient(lambda g: aj.debug.print("gradient of y: {}", g), np.sin(x))
    ...     return np.sum(y * y)
    >>> aj.grad(f)(np.zeros(2))
    gradient of y: [0. 0.]
    array([0., 0.])
    """
    observed, function = custom_vjp(_identity, constant_closures=True), without_stand_in(function)

    def backward(_: None, gradient: Any) -> tuple[Any]:
        if isinstance(function, BuiltinFunctionType) or isinstance(getattr(function, "__self__", None), (list, deque)):
            callback(function, gradient)        # lists have other methods while changes to them are noted
        else:
            function(gradient)
        return (gradient,)

    observed.defvjp(lambda x: (x, None), backward)
    return observed(x)


def _identity(x: T) -> T:
    return x


_PLAIN = (bool, int, float, complex, np.generic, str)


def _is_traced(value: Any) -> bool:
    """True for a value of the program: all but Python's own numbers, which are those of the trace."""
    return isinstance(value, (np.ndarray, TracedArray, ArrayWrapper)) or contains_traced(value)


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


def _code_at(frame: FrameType) -> CodeType:
    """Code that stops in the debugger, and says that it is the line of a frame."""
    return compile("__adjit_stop__()", frame.f_code.co_filename, "exec").replace(
        co_firstlineno=frame.f_lineno, co_name=frame.f_code.co_name, co_qualname=frame.f_code.co_qualname)


def _run(name: str, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], key: Hashable) -> None:
    """Call a function now, or make its call part of the trace under way. `key` is equal for functions that do the same."""
    leaves, tree = flatten((args, kwargs))
    if not is_tracing():
        args, kwargs = unflatten(tree, [np.asarray(leaf.array)[()] if isinstance(leaf, ArrayWrapper) else leaf for leaf in leaves])
        run_effect(partial(function, *args, **kwargs))
        return
    scope = active_scope()
    assert scope is not None
    places = [index for index, leaf in enumerate(leaves) if _is_traced(leaf)]
    arrays = [as_traced(leaves[index]) for index in places]
    fixed = [None if index in places else leaf for index, leaf in enumerate(leaves)]
    types = *(array.value.type for array in arrays), TOKEN
    location = find_user_location()
    known = scope.root.shared
    key = "effect", name, key, tree, tuple(places), tuple(map(_key, fixed)), types, location
    if key not in known:        # effects that do the same are equal ops, and others are not: so loops and ways are told from each other
        call = _Call(function, tree, places, fixed)
        known[key] = make_handle(HostFunction(name, call, types, (TOKEN,), location)), f"adjit.debug.{name} {len(known)}"
        scope.root.host_functions.append(function)
    handle, attribute = known[key]
    ops.effect.emit(as_traced(handle).value, *(array.value for array in arrays), function=attribute)


class _Call:
    """Call of a function for the arrays of a program, at the `places` of its leaves; the others are `fixed`."""

    def __init__(self, function: Function, tree: TreeSpec, places: Sequence[int], fixed: Sequence[Any]):
        self.function, self.tree, self.places, self.fixed = function, tree, places, fixed

    def __call__(self, *arrays: Any) -> list[Any]:
        leaves = list(self.fixed)
        for index, array in zip(self.places, arrays[:-1], strict=True):
            leaves[index] = array
        args, kwargs = unflatten(self.tree, leaves)
        run_effect(partial(self.function, *args, **kwargs))
        return [arrays[-1] + 1]


def _key(value: Any) -> Hashable:
    """Key that is equal for values that print alike; objects are told by identity, and live as long as the call that holds them."""
    return (type(value), repr(value)) if isinstance(value, (str, bytes, bool, int, float, complex, np.generic, type(None))) else id(value)


def _function_key(function: Function) -> Hashable:
    """Key of a function: those that one line makes again and again are equal if they close over the same objects."""
    if not isinstance(function, FunctionType):
        return id(function)
    cells = [_key(cell.cell_contents) for cell in function.__closure__ or ()]
    return function.__code__, tuple(cells), tuple(map(_key, function.__defaults__ or ()))
