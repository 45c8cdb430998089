"""`autograd.Function` within a trace: a call with a rule of its own, which derivatives taken of the whole graph later follow too."""

from __future__ import annotations

from typing import Any

from adjit.eager.apply_closed import apply_closed
from adjit.eager.capture import traced
from adjit.eager.modes import enable_grad, no_grad
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.user_function import Context, Function, gradients_of
from adjit.ir import ops
from adjit.ir.types import is_float
from adjit.runtime.custom_vjp import custom_vjp
from adjit.tracer.array import TracedArray, as_traced, wrap


class _Call:
    """One call: what `custom_vjp` needs, made of `forward` and `backward`. Arrays outside, tensors inside."""

    def __init__(self, function: type[Function], args: tuple[Any, ...], wanted: tuple[int, ...]):
        self.function, self.args, self.wanted = function, args, wanted
        self.places = [place for place, arg in enumerate(args) if isinstance(arg, Tensor)]
        self.context = Context()
        self.returned: list[Tensor] = []
        self.rule = custom_vjp(self.primal)
        self.rule.defvjp(self.forward, self.backward)

    def primal(self, *arrays: TracedArray) -> Any:
        """The results."""
        self.context = Context()
        self.context.needs_input_grad = tuple(index in self.wanted for index in range(len(self.args)))
        args = list(self.args)
        for place, array in zip(self.places, arrays, strict=True):
            args[place] = new_tensor(as_traced(array))
        with no_grad():
            returned = self.function.forward(self.context, *args)
        self.returned = list(returned) if isinstance(returned, tuple) else [returned]
        results = tuple(self.result(item) for item in self.returned)
        return results if isinstance(returned, tuple) else results[0]

    def result(self, item: Tensor) -> TracedArray:
        array = traced(item)
        return wrap(ops.stop_gradient(array.value), scalar=False) if self.context.is_constant(item) else array

    def forward(self, *arrays: TracedArray) -> Any:
        """The results, which have the rule again, and the tensors in the context: those that were saved, and attributes."""
        self.primal(*arrays)
        context, returned = self.context, self.returned
        results = self.rule(*arrays)
        self.context = context          # that of this order: `rule` was traced, with contexts of its own
        known = {id(item): result for item, result in zip(returned, results if isinstance(results, tuple) else (results,), strict=True)}
        saved, attributes = context.contents()

        def content(tensor: Tensor) -> Any:
            return traced(tensor) if id(tensor) not in known else known[id(tensor)]

        return results, ([None if tensor is None else content(tensor) for tensor in saved],
                         {name: content(tensor) for name, tensor in attributes.items()})

    def backward(self, residuals: Any, cotangent: Any) -> Any:
        """The cotangents of the tensors among the arguments."""
        saved, attributes = residuals
        self.context.save_for_backward(*(None if array is None else _active(array) for array in saved))
        vars(self.context).update({name: _active(array) for name, array in attributes.items()})
        given = cotangent if isinstance(cotangent, tuple) else (cotangent,)
        with enable_grad():
            gradients = gradients_of(self.function, self.context, [_active(array) for array in given], len(self.args))
        return tuple(None if gradients[place] is None or place not in self.wanted else traced(gradients[place]) for place in self.places)


def _active(array: Any) -> Tensor:
    """A tensor within a rule. It counts as differentiated, so that calls of other functions with rules keep theirs."""
    tensor = new_tensor(as_traced(array))
    tensor._requires_grad = is_float(tensor.dtype)
    return tensor


def _apply_traced(function: type[Function], args: tuple[Any, ...], wanted: tuple[int, ...]) -> Any:
    call = _Call(function, args, wanted)

    def run(*args: Any) -> Any:
        return call.rule(*(traced(args[place]) for place in call.places))

    run.__name__ = function.__name__
    return apply_closed(run, args, {})


def install() -> None:
    """Let `Function.apply` do this in traces."""
    Function._apply_traced = classmethod(_apply_traced)      # type: ignore[assignment]
