"""Hooks of modules in backward passes: identities around a call see the gradients of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjit.eager.apply import apply
from adjit.eager.modes import modes
from adjit.eager.state import Stateful
from adjit.eager.tensor import Tensor
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched

Hook = Callable[..., Any]


class BackwardHooks(Stateful):
    """Hooks of a module: `before`, with the gradients of outputs, and `after`, with those of inputs as well."""

    def __init__(self) -> None:
        self.before: list[Hook] = []
        self.after: list[Hook] = []

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    def of_call(self, module: Any) -> Watch:
        """Return the identities for a call."""
        return Watch(module, self)


class Watch:
    """Identities around one call of a module."""

    def __init__(self, module: Any, hooks: BackwardHooks):
        self.module = module
        self.hooks = hooks
        self.places: list[int] = []     # of inputs that have gradients
        self.count = 0
        self.grad_output: tuple[Any, ...] = ()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs, behind an identity that calls the hooks when it gets their gradients."""
        self.count = len(args)
        self.places = _with_gradient(args)
        return _behind_identity(args, self.places, None, self._at_inputs) if self.hooks.after else args

    def outputs(self, output: Any) -> Any:
        """Return the outputs, a tensor or a tuple of them, behind an identity that notes their gradients."""
        several = output if isinstance(output, tuple) else (output,)
        passed = _behind_identity(several, _with_gradient(several), self._at_outputs, None)
        return passed if isinstance(output, tuple) else passed[0]

    def _at_outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self.hooks.before):
            grads = _replaced(hook(self.module, grads), grads)
        self.grad_output = grads
        if not self.places:
            self._at_inputs((None,) * self.count)
        return grads

    def _at_inputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in list(self.hooks.after):
            grads = _replaced(hook(self.module, grads, self.grad_output), grads)
        return grads


def _with_gradient(items: tuple[Any, ...]) -> list[int]:
    """Places of the tensors that require a gradient."""
    return [place for place, item in enumerate(items) if modes.grad and isinstance(item, Tensor) and item.requires_grad]


def _replaced(returned: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    if returned is None:
        return grads
    return returned if isinstance(returned, tuple) else (returned,)


def _behind_identity(items: tuple[Any, ...], places: list[int], before: Hook | None, after: Hook | None) -> tuple[Any, ...]:
    """Return the items, of which those at `places` pass one node of the graph: `before` and `after` it is run, in a backward pass, they get
    the gradients of all items, and give those that are passed on."""
    if not places:
        return items
    passed = list(items)
    for place, tensor in zip(places, apply(_same, ([items[place] for place in places],)), strict=True):
        passed[place] = tensor
    node = passed[places[0]].grad_fn
    watch: Any = before or after
    node.metadata["module"] = watch.__self__.module       # for messages

    def on(hook: Hook, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        every: list[Any] = [None] * len(items)
        for place, grad in zip(places, grads, strict=True):
            every[place] = grad
        changed = hook(tuple(every))
        return tuple(changed[place] for place in places)

    if before is not None:
        node.register_prehook(lambda grads: on(before, grads))
    if after is not None:
        node.register_hook(lambda grads, _: on(after, grads))
    return tuple(passed)


@dispatched
def _same(tensors: list[Any]) -> list[Any]:
    return [as_traced(tensor).copy() for tensor in tensors]
