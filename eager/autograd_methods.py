"""Gradient methods of tensors: `backward`, `grad_fn`, `detach`, hooks; and the function `grad`, which returns gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from adjit.eager import signatures
from adjit.eager.apply import apply, machine_code
from adjit.eager.capture import current_capture, traced
from adjit.eager.device import CPU, device_of
from adjit.eager.engine import backward as run_backward
from adjit.eager.formatting import tensor_repr
from adjit.eager.gradient_overrides import separate_history, with_gradient_of
from adjit.eager.in_place import WRITERS, apply_writer, written_without_gradient
from adjit.eager.node import Edge, Handle, Node, edge_of, follow_writes
from adjit.eager.tensor import Tensor, as_tensor, new_tensor
from adjit.eager.tensor import tensor as make_tensor
from adjit.eager.transfer import moved
from adjit.ir.errors import ArgumentError, DTypeError, NonDifferentiableError, ShapeError, TraceError, UnsupportedError
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import is_complex, is_inexact
from adjit.tracer.array import TracedArray, known_for_text, view_of
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.flow.printed_texts import mark_of_text
from adjit.tracer.scope import is_tracing
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.user_location import find_user_location, warn_user

if TYPE_CHECKING:
    import html
else:
    html = LazyModule("html")


def _grad_fn(self: Tensor) -> Node | None:
    """The node that made the tensor; None for a leaf."""
    if self._view is not None:
        follow_writes(self)
    return self._node


def _get_requires_grad(self: Tensor) -> bool:
    """True if operations on the tensor are recorded. Can be set for leaves."""
    if self._view is not None:
        follow_writes(self)
    return self._requires_grad


def _set_requires_grad(self: Tensor, value: bool) -> None:
    value = bool(value)
    if value and not is_inexact(self.dtype):
        raise DTypeError(f"only floating-point tensors can require grad, this one is {self.dtype}", find_user_location(),
                         hint="convert it first: x.float() or x.double()")
    if not value and not _is_leaf(self):
        raise NonDifferentiableError("requires_grad of a tensor that was computed cannot be switched off", find_user_location(),
                                     hint="use x.detach()")
    if self._node is None and value != self._requires_grad:
        capture = current_capture()
        if capture is not None and is_tracing():
            traced(self)            # the value before the trace is noted
            capture.requires_grad_set_at[id(self)] = find_user_location()
            if value and id(self) not in capture.entries:       # later derivatives of the whole graph end here
                self.array = separate_history(self.array)
        self._requires_grad = value


def _is_leaf(self: Tensor) -> bool:
    """True if the tensor was made by the user, or by operations on tensors that do not require grad."""
    return _grad_fn(self) is None


def _get_grad(self: Tensor) -> Tensor | None:
    """Gradient that backward passes have accumulated; None before the first pass. For leaves, and, after `retain_grad()`, for other
    tensors."""
    capture = current_capture()
    if capture is not None:
        capture.read_gradient(self)
    if self._grad is None and not self._retains_grad and not _is_leaf(self):
        warn_user("the .grad of a tensor that was computed is None: backward passes fill the .grad of leaves (the .grad attribute of a "
                  "Tensor that is not a leaf Tensor is being accessed). Call x.retain_grad() before backward(), or use "
                  "aj.autograd.grad(loss, x)")
    return self._grad


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise DTypeError(f"a gradient is a tensor or None, got a {type(value).__name__}", find_user_location())
        if value.dtype != self.dtype:
            raise DTypeError(f"the gradient of a tensor of dtype {self.dtype} has the same dtype, got {value.dtype}", find_user_location(),
                             hint=f"convert it: gradient.to({str(self.dtype)!r})")
        if value.shape != self.shape:
            raise ShapeError(f"the gradient of a tensor of shape {self.shape} has the same shape, got {value.shape}", find_user_location())
        if device_of(value.array) is not device_of(self.array):
            raise ArgumentError(f"the gradient of a tensor on {device_of(self.array)} is there, too, got one on {device_of(value.array)} "
                                "(attempting to assign a gradient located on another device)", find_user_location(),
                                hint=f"move it: gradient.to({str(device_of(self.array))!r})")
    capture = current_capture()
    if capture is not None:
        capture.write_gradient(self)
    self._grad = value


def _requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set `requires_grad` of a leaf; returns the tensor."""
    _set_requires_grad(self, requires_grad)
    return self


def _detach(self: Tensor) -> Tensor:
    """Return a tensor on the same memory that is no part of the graph."""
    made = _sharing(self, _detach)
    made._writes = self._writes
    return made


def _detach_(self: Tensor) -> Tensor:
    """Take the tensor out of the graph: it becomes a leaf that does not require grad."""
    if self._view is not None:
        raise NonDifferentiableError("a view cannot be detached in place", find_user_location(), hint="use x.detach()")
    self._node, self._index, self._requires_grad = None, 0, False
    return self


def _get_data(self: Tensor) -> Tensor:
    """Content as a tensor that is no part of the graph; the graph does not see writes to it. Can be set."""
    return _sharing(self, _get_data)


def _sharing(self: Tensor, again: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a tensor on the same memory that is no part of the graph; `again` makes it from a tensor."""
    content, capture = _content(self), current_capture()
    if capture is None or not isinstance(content, TracedArray):
        return new_tensor(content)
    entry = capture.entries.get(id(self))       # an outside tensor that requires no grad never will within the trace
    made = new_tensor(content if entry is not None and not entry.requires_grad else separate_history(content))
    capture.shared[id(made)] = made, self, again
    return made


def _content(self: Tensor) -> Any:
    """Content of the tensor; within a trace the traced array."""
    return traced(self) if is_tracing() else self.array


def _set_data(self: Tensor, value: Any) -> None:
    array = _content(value if isinstance(value, Tensor) else as_tensor(value))
    if array.dtype != self.dtype:
        raise DTypeError(f"the data of a tensor of dtype {self.dtype} is set to {array.dtype}", find_user_location(),
                         hint="convert it first")
    capture = current_capture()
    if capture is not None and isinstance(array, TracedArray):
        old = traced(self).value
        capture.check_new_memory(self, array)
        target = weakref.ref(self)      # its own content must not keep it alive

        def read(new: Any) -> Any:
            tensor = target()
            return new if tensor is None else written_without_gradient(tensor, old, new)

        array = view_of(array, read, with_gradient_of, array.steps)
    self.array = array


def _retain_grad(self: Tensor) -> None:
    """Let backward passes accumulate the gradient of this tensor in `.grad`, though it is no leaf."""
    if not _get_requires_grad(self):
        raise NonDifferentiableError("retain_grad() of a tensor that does not require grad", find_user_location())
    node = _grad_fn(self)
    if node is None or self._retains_grad:
        return
    self._retains_grad = True
    _result_hooks(node, self._index).append(_Retain(self))


class _Retain:
    """Hook of `retain_grad()`: it runs last, so that it sees the gradient after all other hooks."""

    def __init__(self, tensor: Tensor):
        self._tensor = weakref.ref(tensor)

    def __call__(self, gradient: Tensor) -> None:
        tensor = self._tensor()
        if tensor is not None:
            _add_to_grad(tensor, gradient)


def _add_to_grad(tensor: Tensor, gradient: Tensor) -> None:
    known = tensor._grad
    tensor._grad = gradient if known is None else apply(np.add, (known, gradient))


def _retains(self: Tensor) -> bool:
    """True if `retain_grad()` was called on the tensor."""
    return self._retains_grad


def _register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Handle:
    """Call `hook(gradient)` whenever the gradient of this tensor was computed; a result other than None replaces the gradient."""
    if not _get_requires_grad(self):
        raise NonDifferentiableError("register_hook() on a tensor that does not require grad", find_user_location())
    node = _grad_fn(self)
    if node is None:
        self._hooks = hooks = self._hooks if self._hooks is not None else []
    else:
        hooks = _result_hooks(node, self._index)
    hooks.insert(len(hooks) - sum(isinstance(known, _Retain) for known in hooks), hook)
    return Handle(hooks, hook)


class _AfterAccumulation:
    """Hook of a leaf that runs when the gradient is in `.grad`."""

    def __init__(self, hook: Callable[[Tensor], object]):
        self.hook = hook

    def __call__(self, gradient: Tensor) -> None:
        """Leave the gradient as it is: the engine calls `hook` later."""


def _register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], object]) -> Handle:
    """Call `hook(tensor)` whenever a backward pass has added to the `.grad` of this leaf, as an optimiser within the pass does."""
    if not _is_leaf(self) or not self._requires_grad:
        raise NonDifferentiableError("post accumulate grad hooks cannot be registered on non-leaf tensors, or on such that require no grad",
                                     find_user_location())
    self._hooks = self._hooks if self._hooks is not None else []
    after = _AfterAccumulation(hook)
    self._hooks.append(after)
    return Handle(self._hooks, after)


def _result_hooks(node: Node, index: int) -> list[Callable[..., Any]]:
    if node.result_hooks is None:
        node.result_hooks = {}
    return node.result_hooks.setdefault(index, [])


def _backward(self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
              inputs: Tensor | Sequence[Tensor] | None = None) -> None:
    """Compute the gradient of this tensor with respect to all leaves it was computed from, and add it to their `.grad`.

    `gradient` is the cotangent, a tensor of this one's shape; it can be left out for a tensor of one element. The saved tensors of the
    graph are freed during the pass unless `retain_graph`. With `create_graph` the gradients can be differentiated. `inputs` names the only
    tensors that get a gradient; other tensors than leaves are allowed.

    Raises `NonDifferentiableError` for a tensor that does not require grad, `ShapeError` for a missing or unfit `gradient`,
    `GraphFreedError` for a graph that was freed, `InPlaceError` where a saved tensor was written to.
    """
    backward([self], [gradient], retain_graph, create_graph, inputs)


def backward(tensors: Tensor | Sequence[Tensor], grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             inputs: Tensor | Sequence[Tensor] | None = None) -> None:
    """Run `tensor.backward` for several tensors at once.

    >>> from adjit.eager.tensor import tensor
    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> backward([(x * x).sum(), x.sum()])
    >>> x.grad
    tensor([3., 5.])
    """
    outputs = _as_list(tensors)
    roots = _roots(outputs, grad_tensors, "backward()")
    wanted = None if inputs is None else _as_list(inputs)
    targets = None if wanted is None else _targets(wanted, "backward(inputs=)")
    found = run_backward(roots, create_graph if retain_graph is None else retain_graph, create_graph, targets)
    for index, tensor in enumerate(wanted or ()):
        if index in found and tensor._node is not None and not tensor._retains_grad:
            _add_to_grad(tensor, found[index])


@overload
def grad(outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Any = None,
         retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True, allow_unused: Literal[False] = False,
         is_grads_batched: bool = False, materialize_grads: Literal[False] = ...) -> tuple[Tensor, ...]: ...


@overload
def grad(outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Any = None,
         retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True, *, allow_unused: bool = ...,
         is_grads_batched: bool = ..., materialize_grads: Literal[True]) -> tuple[Tensor, ...]: ...


@overload
def grad(outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Any = None,
         retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True, *, allow_unused: bool,
         is_grads_batched: bool = ..., materialize_grads: bool = ...) -> tuple[Tensor | None, ...]: ...


@overload
def grad(outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Any,
         retain_graph: bool | None, create_graph: bool, only_inputs: bool, allow_unused: bool, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple[Tensor | None, ...]: ...


def grad(outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Any = None,
         retain_graph: bool | None = None, create_graph: bool = False, only_inputs: bool = True, allow_unused: bool = False,
         is_grads_batched: bool = False, materialize_grads: bool = False) -> tuple[Tensor | None, ...]:
    """Compute the gradients of `outputs` (summed) with respect to each of `inputs`, which need not be leaves; `.grad` does not change.

    Arguments and errors are as in `tensor.backward`; an input that the outputs do not depend on raises `NonDifferentiableError`, or
    with `allow_unused` gives None, with `materialize_grads` zeros. `only_inputs` is True, in PyTorch too. With `is_grads_batched`, the
    first dimension of `grad_outputs` is a batch of cotangents: gradients have it, too.

    >>> from adjit.eager.tensor import tensor
    >>> x = tensor(3.0, requires_grad=True)
    >>> (first,) = grad(x ** 3, x, create_graph=True)
    >>> (second,) = grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    if not only_inputs:
        raise UnsupportedError("grad(only_inputs=False), which accumulates into other leaves", find_user_location(),
                               hint="leave it out, and call backward() for the gradients of all leaves")
    wanted = _as_list(inputs)
    if is_grads_batched:
        batch = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
        rows = [grad(outputs, inputs, [each[i] for each in batch], True, create_graph, allow_unused=allow_unused,
                     materialize_grads=materialize_grads) for i in range(batch[0].shape[0])]
        return tuple(None if column[0] is None else apply(np.stack, (list(column),)) for column in zip(*rows, strict=True))
    targets = _targets(wanted, "grad()")
    keep = create_graph if retain_graph is None else retain_graph
    found = run_backward(_roots(_as_list(outputs), grad_outputs, "grad()"), keep, create_graph, targets, accumulate=False)
    gradients = tuple(found.get(targets[edge_of(tensor)]) for tensor in wanted)
    if materialize_grads:
        return tuple(wanted[index].new_zeros(wanted[index].shape) if gradient is None else gradient
                     for index, gradient in enumerate(gradients))
    for index, gradient in enumerate(gradients):
        if gradient is None and not allow_unused:
            raise NonDifferentiableError(f"grad(): the outputs do not depend on input {index}", find_user_location(),
                                         hint="pass allow_unused=True to get None for it")
    return gradients


def _as_list(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    items = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for item in items:
        if not isinstance(item, Tensor):
            raise DTypeError(f"expected a tensor or a sequence of tensors, got a {type(item).__name__}", find_user_location())
    return items


def _targets(inputs: Sequence[Tensor], what: str) -> dict[Edge, int]:
    if not inputs:
        raise ShapeError(f"{what}: there is no input to compute a gradient of", find_user_location())
    targets: dict[Edge, int] = {}
    for index, tensor in enumerate(inputs):
        if not _get_requires_grad(tensor):
            raise NonDifferentiableError(f"{what}: input {index} does not require grad", find_user_location())
        targets.setdefault(edge_of(tensor), index)
    return targets


def _roots(outputs: Sequence[Tensor], gradients: Any, what: str) -> list[tuple[Edge, Tensor]]:
    given = [gradients] * len(outputs) if gradients is None else [gradients] if isinstance(gradients, Tensor) else list(gradients)
    if len(given) != len(outputs):
        raise ShapeError(f"{what}: {len(outputs)} outputs and {len(given)} gradients", find_user_location())
    roots = []
    for index, (output, gradient) in enumerate(zip(outputs, given, strict=True)):
        if not _get_requires_grad(output):
            raise NonDifferentiableError(
                f"{what} of a tensor that does not require grad and has no grad_fn: element {index} of tensors does not require grad and "
                "does not have a grad_fn", find_user_location(),
                hint="make a leaf that it is computed from with requires_grad=True; computing under no_grad() or detach() cuts the graph")
        roots.append((edge_of(output), _cotangent(output, gradient, what)))
    return roots


def _cotangent(output: Tensor, gradient: Any, what: str) -> Tensor:
    if gradient is None:
        if output.array.size != 1:
            raise ShapeError(
                f"{what} of a tensor of shape {output.shape}: without a gradient this is possible for a tensor of one element only "
                "(grad can be implicitly created only for scalar outputs)",
                find_user_location(), hint="pass gradient= a tensor of that shape (the vector of a vector-Jacobian product), or reduce the "
                                           "tensor to one number first, e.g. with .sum()")
        if is_complex(output.dtype):
            raise NonDifferentiableError(
                f"{what} of a complex tensor ({output.dtype}): its derivative is no gradient", find_user_location(),
                hint="reduce it to a real number first, such as abs(z) ** 2 or z.real; or pass gradient=")
        ones = np.ones(output.shape, output.dtype)
        return make_tensor(ones) if is_tracing() else moved(new_tensor(ones), device_of(output.array))
    given = gradient if isinstance(gradient, Tensor) else as_tensor(
        gradient if isinstance(gradient, (np.ndarray, np.generic)) else np.asarray(gradient, output.dtype))
    if given.shape != output.shape:
        raise ShapeError(f"{what}: the gradient has the shape {given.shape}, the tensor {output.shape}", find_user_location())
    return given if given.dtype == output.dtype else given.to(output.dtype)      # type: ignore[no-any-return]


def _repr(self: Tensor) -> str:
    array = self.array
    if isinstance(array, TracedArray):
        if (mark := mark_of_text(self, None)) is not None:
            return mark
        known = known_for_text(array)
        if known is None:
            kind = array.value.type if array.scope.open else array.dtype
            return f"<placeholder for a tensor {kind}, in a function that is traced>"
        array = known
    node = _grad_fn(self)
    where = device_of(array)
    return tensor_repr(array.copied() if isinstance(array, DeviceLeaf) else array, None if node is None else node.name(),
                       self._requires_grad and node is None, type(self)._prefix, None if where is CPU else where)


def _repr_html_(self: Tensor) -> str:
    return f"<pre>{html.escape(_repr(self))}</pre><p>shape {tuple(self.shape)}, {self.dtype}, {self.nbytes:,} bytes</p>"


def _apply_boxed(cls: type[Tensor], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if machine_code.call is not None and function not in WRITERS:
        made = machine_code.call(function, *args, **kwargs)
        if made is not None:
            return made
    if kwargs.get("out") is not None:
        raise UnsupportedError(
            f"{function.__name__}(out=...) of tensors: the result would be no part of the graph", find_user_location(),
            hint="write into a tensor with x.copy_(...) or x[...] = ...; in place of array += tensor, write array = array + tensor, or "
                 "array += tensor.detach().numpy()")
    if function not in WRITERS:
        return apply(function, args, kwargs)
    if args and isinstance(args[0], Tensor):
        return apply_writer(function, args, kwargs)
    if args and isinstance(args[0], np.ndarray) and not is_tracing():
        raise UnsupportedError(f"{function.__name__} of a tensor into an ndarray: what is written would be no part of the graph",
                               find_user_location(), hint="write into a tensor, or write x.detach().numpy()")
    return apply(function, args, kwargs)


def _as_argument(self: Tensor, traced_content: TracedArray) -> Tensor:
    capture = current_capture()
    if capture is None:
        raise TraceError("a tensor is an argument of a trace that does not support tensors", find_user_location())
    return capture.enter_argument(self, traced_content)


def _signature_key(self: Tensor) -> tuple[Any, ...]:
    requires_grad = self._requires_grad if self._view is None else _get_requires_grad(self)
    return (Tensor, requires_grad, self.array.device) if isinstance(self.array, DeviceLeaf) else (Tensor, requires_grad)


def install() -> None:
    """Install the attributes and methods of this file on `Tensor`."""
    Tensor.apply_wrapped = classmethod(_apply_boxed)      # type: ignore[assignment]
    Tensor.as_argument = _as_argument       # type: ignore[method-assign, assignment]
    Tensor.signature_key = _signature_key   # type: ignore[method-assign, assignment]
    Tensor.traced = traced      # type: ignore[method-assign, assignment]
    for name, attribute in {"grad_fn": property(_grad_fn), "requires_grad": property(_get_requires_grad, _set_requires_grad),
                            "is_leaf": property(_is_leaf), "grad": property(_get_grad, _set_grad), "data": property(_get_data, _set_data),
                            "retains_grad": property(_retains)}.items():
        setattr(Tensor, name, attribute)
    methods: dict[str, Callable[..., Any]] = {
        "requires_grad_": _requires_grad_, "detach": _detach, "detach_": _detach_, "retain_grad": _retain_grad,
        "register_hook": _register_hook, "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook,
         "__repr__": _repr, "_repr_html_": _repr_html_}
    for name, method in methods.items():
        setattr(Tensor, name, signatures.named(method, name))
    Tensor.backward = user_frames_only(signatures.named(_backward, "backward"))     # type: ignore[method-assign]


install()
