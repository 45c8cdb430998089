"""Methods that change the shape of a tensor itself: `t_`, `transpose_`, `squeeze_`, `unsqueeze_`. It becomes a view of what it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from adjit.eager import arguments, signatures
from adjit.eager.apply import apply
from adjit.eager.capture import current_capture
from adjit.eager.functional import shapes
from adjit.eager.history import check_writable
from adjit.eager.modes import enable_grad, modes
from adjit.eager.tensor import Tensor
from adjit.ir.errors import UnsupportedError
from adjit.tracer.array import TracedArray
from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.user_location import find_user_location


def becomes_view(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Method that makes a tensor the view `function` of what it was: the same memory, the next node."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs:
            args, kwargs = arguments.bound(method, function, args, kwargs)
        check_writable(self)
        capture = current_capture()
        if capture is not None and (id(self) in capture.entries or not isinstance(self.array, TracedArray)):
            raise UnsupportedError(f"{name}: a tensor from outside of the compiled function gets another shape", find_user_location(),
                                   hint=f"x = x.{name.rstrip('_')}(...) makes a view of it")
        before = Tensor.__new__(type(self))
        vars(before).update(vars(self))
        is_leaf = self._node is None and self._view is None
        try:
            with nullcontext() if modes.grad or is_leaf else enable_grad():       # the shape is no content: its history goes on
                view: Tensor = apply(function, (before, *args), kwargs)
        except Exception as error:
            hide_frames(error)
            arguments.check(method, (self, *args), kwargs)
            raise
        if is_leaf and self._requires_grad:     # under no_grad: it stays a leaf
            self.array = view.array
        elif view is not before:
            self.array, self._node, self._index = view.array, view._node, view._index
            self._requires_grad, self._view, self._history = view._requires_grad, view._view, view._history
        return self

    method.__name__ = name
    signatures.like(method, function, in_place=True)
    method.__doc__ = f"{function.__doc__}\n\n        The tensor itself gets this shape; it is returned."
    return method


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "t_": shapes.t, "transpose_ swapaxes_ swapdims_": shapes.transpose, "squeeze_": shapes.squeeze, "unsqueeze_": shapes.unsqueeze,
}
METHODS = {name: becomes_view(name, function) for names, function in _FUNCTIONS.items() for name in names.split()}
"""Methods by name."""
