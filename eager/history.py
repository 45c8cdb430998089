"""History of a tensor that is written to in place: the node of its new content, and of that of what it is a view of."""

from __future__ import annotations

import numpy as np

from adjit.eager.call import differentiable
from adjit.eager.capture import current_capture
from adjit.eager.modes import modes
from adjit.eager.node import Edge, Node, edge_of, node_of_view
from adjit.eager.tensor import Tensor
from adjit.eager.views import composed, copy_slices, operation_at, root_of
from adjit.ir.errors import InPlaceError, UnsupportedError
from adjit.tracer.user_location import find_user_location


def check_writable(target: Tensor) -> None:
    """Raise `InPlaceError` if a write in place would be lost to the gradient."""
    if not modes.grad:
        return
    root = root_of(target)
    if root._requires_grad and root._node is None:
        capture = current_capture()
        entry = None if capture is None else capture.entries.get(id(root))
        if entry is not None and not entry.is_leaf:
            raise UnsupportedError(f"a tensor of shape {target.shape} from outside of the compiled function, which was computed with a "
                                   "gradient, is written to in place: the graph outside would not know", find_user_location(),
                                   hint="return a new tensor (x = x * 2 for x *= 2), or write to x outside of the compiled function")
        what = "a leaf that requires grad" if root is target else "a view of a leaf that requires grad"
        raise InPlaceError(f"{what} is written to in place: a leaf Variable that requires grad is being used in an in-place operation",
                           find_user_location(),
                           hint="update it within adjit.no_grad(), or write to a copy: x = x.clone()")


def rebase_history(target: Tensor, node: Node | None, trace: object, index: int = 0) -> None:
    """Set the node of the new content of `target`, its result number `index`; each base of the view is then made from the view and from its
    own old content elsewhere."""
    while (view := target._view) is not None:
        parent, graph, number = view.parent, view.graph, view.index
        while (outer := parent._view) is not None and _repeats(parent):       # its other elements are those of the part, not old ones
            parent, graph, number = outer.parent, composed(outer.graph, outer.index, graph, number), 0
        edges: tuple[Edge | None, Edge | None] = (edge_of(parent) if differentiable(parent) else None,
                                                  None if node is None else (node, index))
        wanted = tuple(i for i, edge in enumerate(edges) if edge is not None)
        content = target.array
        node = node_of_view(copy_slices(graph, number, wanted, operation_at(content)), edges,
                            lambda v=view, content=content: [v.parent.array.value, content.value, *v.positions],    # type: ignore[misc]
                            trace) if wanted else None
        target, index = parent, 0
    target._node, target._index, target._requires_grad = node, index, node is not None
    target._history += 1


def _repeats(target: Tensor) -> bool:
    """True for a view that `expand` or `unfold` made, which may have elements twice."""
    return type(target.array) is np.ndarray and not target.array.flags.writeable
