"""Calls of `autograd.Function` within a trace: each has a derivative rule of its own, which later derivatives of the graph follow, too."""

from __future__ import annotations

from typing import Any

from adjit.eager.capture import traced
from adjit.eager.closures import apply_closure
from adjit.eager.modes import enable_grad
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.user_function import Context, Function, gradients_of
from adjit.ir import ops
from adjit.ir.types import is_inexact
from adjit.runtime.custom_vjp import custom_vjp
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.control_flow import warn_of_additions
from adjit.tracer.scope import outermost_scope


class _Call:
    """One call of an `autograd.Function`, whose `forward` has `returned` its results. The call is emitted as a function with the
    rule `backward`, of its arguments, its results and the other tensors in the context; this function returns the results."""

    def __init__(self, function: type[Function], context: Context, returned: Any, args: tuple[Any, ...], wanted: tuple[int, ...]):
        self.function, self.wanted, self.arguments = function, wanted, len(args)
        self.positions = [position for position, arg in enumerate(args) if isinstance(arg, Tensor)]
        self.context = context
        self.several = isinstance(returned, tuple)
        self.results: list[Tensor] = list(returned) if self.several else [returned]
        self.saved, self.attributes = self.context.contents()
        self.tensors = [*(args[position] for position in self.positions), *self.results]
        known = {id(tensor) for tensor in self.tensors}
        others = [tensor for tensor in (*self.saved, *self.attributes.values()) if tensor is not None and id(tensor) not in known]
        self.tensors += others
        self.position = {id(tensor): index for index, tensor in reversed(list(enumerate(self.tensors)))}
        self.rule = custom_vjp(self.primal, constant_closures=True)
        self.rule.defvjp(self.forward, self.backward)

    @property
    def result_positions(self) -> range:
        """Indices of the results in `tensors`."""
        return range(len(self.positions), len(self.positions) + len(self.results))

    def primal(self, *arrays: TracedArray) -> tuple[TracedArray, ...]:
        return tuple(wrap(ops.stop_gradient(as_traced(arrays[position]).value), scalar=False) if self.context.is_constant(item)
                     else arrays[position] for position, item in zip(self.result_positions, self.results, strict=True))

    def forward(self, *arrays: TracedArray) -> Any:
        """The results, with the rule applied, and the arrays of all tensors for the backward rule."""
        results = self.rule(*arrays)
        return results, (*arrays[:len(self.positions)], *results, *arrays[len(self.positions) + len(self.results):])

    def backward(self, tensors: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        """The cotangents of the tensors; only arguments have any."""
        inner = [_active(array) for array in tensors]
        self.context.save_for_backward(*(None if tensor is None else inner[self.position[id(tensor)]] for tensor in self.saved))
        vars(self.context).update({name: inner[self.position[id(tensor)]] for name, tensor in self.attributes.items()})
        whole = outermost_scope()       # that of the function which is compiled: the call is traced apart
        added = whole.added()
        with enable_grad():
            gradients = gradients_of(self.function, self.context, [_active(array) for array in cotangents], self.arguments)
        warn_of_additions(whole, added, f"{self.function.__name__}.backward()", "in each backward pass",
                          "Count outside of the function")
        found = [None if gradients[position] is None or position not in self.wanted else traced(gradients[position])
                 for position in self.positions]
        return (*found, *(None for _ in self.tensors[len(found):]))


def _active(array: Any) -> Tensor:
    """A tensor within a rule. It requires grad, so that calls of other functions with rules follow their rules."""
    tensor = new_tensor(as_traced(array))
    tensor._requires_grad = is_inexact(tensor.dtype)
    return tensor


def _apply_traced(function: type[Function], context: Context, returned: Any, args: tuple[Any, ...], wanted: tuple[int, ...]) -> Any:
    call = _Call(function, context, returned, args, wanted)

    def run(*tensors: Any) -> Any:
        return call.rule(*map(traced, tensors))

    run.__name__ = function.__name__
    results = apply_closure(run, tuple(call.tensors), {})
    results = tuple(item.copy_(result) if call.context.is_dirty(item) else result
                    for item, result in zip(call.results, results, strict=True))
    return results if call.several else results[0]


def install() -> None:
    """Install the traced form of `Function.apply`."""
    Function._apply_traced = classmethod(_apply_traced)      # type: ignore[assignment]
