"""History of a tensor that is written to in place: the node of its new content, and of that of what it is a view of."""

from __future__ import annotations

from adjit.eager.call import differentiable
from adjit.eager.modes import modes
from adjit.eager.node import Edge, Node, edge_of, node_of_view
from adjit.eager.tensor import Tensor
from adjit.eager.views import copy_slices, operation_at, root_of
from adjit.ir.errors import InPlaceError
from adjit.tracer.user_location import find_user_location


def check_writable(target: Tensor) -> None:
    """Raise `InPlaceError` if a write in place would be lost to the gradient."""
    if not modes.grad:
        return
    root = root_of(target)
    if root._requires_grad and root._node is None:
        what = "a leaf that requires grad" if root is target else "a view of a leaf that requires grad"
        raise InPlaceError(f"{what} is written to in place: a leaf Variable that requires grad is being used in an in-place operation",
                           find_user_location(),
                           hint="update it within adjit.no_grad(), or write to a copy: x = x.clone()")


def rebase_history(target: Tensor, node: Node | None, trace: object, index: int = 0) -> None:
    """Set the node of the new content of `target`, its result number `index`; each base of the view is then made from the view and from its
    own old content elsewhere."""
    while (view := target._view) is not None:
        parent = view.parent
        edges: tuple[Edge | None, Edge | None] = (edge_of(parent) if differentiable(parent) else None,
                                                  None if node is None else (node, index))
        wanted = tuple(i for i, edge in enumerate(edges) if edge is not None)
        content = target.array
        node = node_of_view(copy_slices(view.graph, view.index, wanted, operation_at(content)), edges,
                            lambda v=view, content=content: [v.parent.array.value, content.value, *v.positions],    # type: ignore[misc]
                            trace) if wanted else None
        target, index = parent, 0
    target._node, target._index, target._requires_grad = node, index, node is not None
    target._history += 1
