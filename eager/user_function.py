"""`Function`: an operation of the dynamic graph whose derivative is written by the user, on tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from adjit.eager.call import differentiable
from adjit.eager.capture import current_capture, traced
from adjit.eager.device import device_of
from adjit.eager.history import check_writable, rebase_history
from adjit.eager.modes import modes, no_grad
from adjit.eager.node import Edge, Node, edge_of
from adjit.eager.tensor import Tensor, new_tensor, tensor
from adjit.ir.errors import GraphFreedError, InPlaceError, ShapeError
from adjit.ir.thread_context import thread
from adjit.ir.types import TensorType, is_inexact
from adjit.tracer.functions import creation
from adjit.tracer.row_count import plain_shape
from adjit.tracer.scope import active_scope, is_tracing
from adjit.tracer.user_location import find_user_location


class Context:
    """Context that `forward` passes to `backward`: `save_for_backward`, `needs_input_grad`, and attributes of the user's own."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._saved: list[tuple[Tensor | None, int]] | None = []
        self._constant: set[int] = set()
        self._dirty: tuple[Tensor, ...] = ()
        self._materialize = True
        self._results: dict[int, int] = {}      # by the identity of a saved tensor: the number of the result that it is
        self._node: Callable[[], Node | None] = lambda: None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save operands or results for `saved_tensors`."""
        self._saved = [(tensor, 0 if tensor is None else tensor._writes[0]) for tensor in tensors]

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Mark results that have no derivative."""
        self._constant = {id(tensor) for tensor in tensors}

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Mark operands that `forward` has written to, and that it returns: they are the results from then on."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether `backward` gets zeros, as it does unless told otherwise, or None for results without a cotangent."""
        self._materialize = bool(value)

    def is_constant(self, result: Tensor) -> bool:
        """True if this result of `forward` has no derivative."""
        return id(result) in self._constant

    def is_dirty(self, result: Tensor) -> bool:
        """True if this result of `forward` is an operand that it wrote to."""
        return any(result is tensor for tensor in self._dirty)

    def contents(self) -> tuple[list[Tensor | None], dict[str, Tensor]]:
        """Return the tensors that were saved, and those among the attributes."""
        return ([tensor for tensor, _ in self._saved or ()],
                {name: value for name, value in vars(self).items() if isinstance(value, Tensor)})

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """Tensors that were saved. Raises `InPlaceError` if one was written to since, `GraphFreedError` after they were freed."""
        if self._saved is None:
            raise GraphFreedError("the saved tensors of a function were freed by a backward pass", find_user_location(),
                                  hint="pass retain_graph=True to every backward() or grad() but the last")
        for saved, version in self._saved:
            if saved is not None and saved._writes[0] != version and saved.array.size:
                raise InPlaceError(f"a tensor of shape {saved.shape} that a function saved was written to in place", find_user_location(),
                                   hint="save a clone(), or do not write to it")
        return tuple(self._with_history(saved) for saved, _ in self._saved)

    def connect(self, node: Node, results: Mapping[int, int]) -> None:
        """Note the node of the call, and the numbers of its differentiable `results`, by the identity of what `forward` returned. The
        context holds neither the node nor its results: the node holds the context, and memory would wait for the collector of cycles."""
        self._node = weakref.ref(node)
        assert self._saved is not None
        for place, (saved, version) in enumerate(self._saved):
            if id(saved) in results:
                own = saved.detach() if saved is not None and self.is_dirty(saved) else saved
                self._saved[place] = own, version
                self._results[id(own)] = results[id(saved)]
        self._dirty = ()

    def _with_history(self, saved: Tensor | None) -> Tensor | None:
        """A saved tensor; one that is a result with the history of that result."""
        index, node = self._results.get(id(saved)), self._node()
        if saved is None or index is None or node is None:
            return saved
        made: Tensor = saved.detach()
        made._node, made._index, made._requires_grad = node, index, True
        return made


class FunctionNode(Node):
    """Call of a `Function`."""

    context: Context
    function: type[Function]
    operands: Any       # types of the operands that are differentiated
    results: list[TensorType]
    device: str     # of the operands that are differentiated

    def pull_back(self, cotangents: list[Tensor | None]) -> list[Tensor | None]:
        """Compute the cotangents of the wanted operands."""
        zeros = self.context._materialize
        given = [self._zeros(result) if cotangent is None and zeros else cotangent
                 for cotangent, result in zip(cotangents, self.results, strict=True)]
        gradients = gradients_of(self.function, self.context, given, len(self.edges))
        return [gradients[index] for index in self.operation.wanted]

    def _zeros(self, result: TensorType) -> Tensor:
        if is_tracing():
            return new_tensor(creation.zeros(result.shape, result.dtype))
        return tensor(np.zeros(result.shape, result.dtype), device=self.device)

    def release(self) -> None:
        self.context._saved = None


def run_forward(function: type[Function], context: Context, args: tuple[Any, ...]) -> Any:
    """Return the results of `forward`, without recording anything. If there is a `setup_context`, `forward` takes no context."""
    with no_grad():
        if function.setup_context is Function.setup_context:
            returned = function.forward(context, *args)
        else:
            returned = function.forward(*args)
            function.setup_context(context, args, returned)
    _check_dirty(function, context, returned)
    return returned


def _check_dirty(function: type[Function], context: Context, returned: Any) -> None:
    """Raise `InPlaceError` if operands that `forward` wrote to are no results, or are leaves that require grad."""
    results = returned if isinstance(returned, tuple) else (returned,)
    for operand in context._dirty:
        if not any(operand is result for result in results):
            raise InPlaceError(f"{function.__name__}.forward does not return a tensor that it marks as dirty: the inputs that are modified "
                               "in place must all be outputs of the function", find_user_location(), hint="return it from forward")
        check_writable(operand)


def gradients_of(function: type[Function], context: Context, cotangents: list[Tensor | None], arguments: int) -> tuple[Tensor | None, ...]:
    """Return the results of `backward`, one gradient for each of the arguments; None for arguments that were left to their defaults may
    follow."""
    returned = function.backward(context, *cotangents)
    gradients = returned if isinstance(returned, tuple) else (returned,)
    if all(gradient is None for gradient in gradients[arguments:]):
        gradients = gradients[:arguments]
    if len(gradients) != arguments:
        raise ShapeError(f"{function.__name__}.backward returned {len(gradients)} gradients for {arguments} arguments",
                         find_user_location())
    return gradients


class Function:
    """Base of operations with a derivative of their own: subclasses define `forward(ctx, ...)` and `backward`, users call `apply`. Or they
    define `forward(...)` without a context, and `setup_context(ctx, inputs, output)`.

    `backward` gets the cotangents of the results and returns one gradient for each argument of `forward`, None for arguments without one.
    It can be differentiated itself if it is made of differentiable operations.

    >>> import adjit
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         x, = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = adjit.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the results, one tensor or a tuple of them."""
        raise NotImplementedError("a Function defines forward(ctx, ...)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what `backward` needs, after a `forward` that takes no `ctx`."""
        raise NotImplementedError("a Function whose forward takes no ctx defines setup_context(ctx, inputs, output)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients of the arguments of `forward`."""
        raise NotImplementedError("a Function defines backward(ctx, ...)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward`, and record it if an argument requires grad."""
        wanted = tuple(index for index, arg in enumerate(args) if differentiable(arg)) if modes.grad else ()
        context = Context()
        context.needs_input_grad = tuple(index in wanted for index in range(len(args)))
        in_trace = bool(wanted) and is_tracing()
        if in_trace:
            for arg in args:
                if isinstance(arg, Tensor):
                    traced(arg)         # from now on its writes are counted
        returned = run_forward(cls, context, args)
        if in_trace and (context._dirty or not _is_of_trace()):
            return cls._apply_traced(context, returned, args, wanted)
        several = returned if isinstance(returned, tuple) else (returned,)
        results = [item if context.is_dirty(item) else item.detach() for item in several]
        if wanted:
            edges: list[Edge | None] = [edge_of(arg) if index in wanted else None for index, arg in enumerate(args)]
            active = tuple(is_inexact(item.dtype) and not context.is_constant(item) for item in several)
            operation: Any = SimpleNamespace(name=f"{cls.__name__}Backward", saved=(), results=len(results), wanted=wanted, active=active,
                                             weak=frozenset())
            node = FunctionNode(operation, tuple(edges), [], find_user_location(), current_capture())
            node.context, node.function, node.results = context, cls, [_type(item) for item in results]
            node.operands = [_type(args[index]) for index in wanted]
            node.device = device_of(args[wanted[0]].array)
            for index, result in enumerate(results):
                if context.is_dirty(result):
                    rebase_history(result, node if active[index] else None, None, index)
                elif active[index]:
                    result._node, result._index, result._requires_grad = node, index, True
            context.connect(node, {id(item): index for index, item in enumerate(several) if active[index] and (
                context.is_dirty(item) or not any(item is arg for arg in args))})
        return tuple(results) if isinstance(returned, tuple) else results[0]

    @classmethod
    def _apply_traced(cls, context: Context, returned: Any, args: tuple[Any, ...], wanted: tuple[int, ...]) -> Any:
        """Finish `apply` within a trace, by a rule of the graph; `runtime` sets this."""
        raise NotImplementedError


def _is_of_trace() -> bool:
    """True for a call in a function that is compiled, as long as its graph needs no rules: backward passes of the trace run `backward` as
    lines of that function, with all that it prints, keeps and counts."""
    scope = active_scope()
    known = None if scope is None or scope is not scope.root or scope.evaluates else scope.known_arrays
    return known is not None and not known.rules and len(thread.context.captures) == 1


def _type(x: Tensor) -> TensorType:
    return TensorType(x.dtype, plain_shape(x.shape))
