"""Views in the dynamic graph: after a write in place, a view and its base still have the right history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from adjit.eager.device import DeviceRuntime
from adjit.eager.operation import Operation
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Value
from adjit.ir.types import is_complex
from adjit.passes.autodiff.reverse_ad import pull_back, run_forward
from adjit.passes.options import Options
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.lowering import Strides, constant, reshape

if TYPE_CHECKING:
    from adjit.eager.tensor import Tensor


class Layout:
    """Where a view on a device lies, whose elements are a copy there: `steps`, the strides in elements that it has in PyTorch. Result
    number `index` of the graph `written` is the content of its base after a write to the view; the graph takes the operands of the view
    operation, then new contents, of which the one at `content` is this view's. No graph: elements repeat, and are not written to."""

    def __init__(self, steps: Strides, written: Graph | None, operands: int, content: int, index: int):
        self.steps, self._written, self._places = steps, written, (operands, content, index)

    def again(self, steps: Strides) -> Layout:
        """The layout of the same view of a base with other strides."""
        return Layout(steps, self._written, *self._places)

    @property
    def writable(self) -> bool:
        """True if no element repeats."""
        return self._written is not None

    def write(self, make: Callable[..., Operation]) -> Operation:
        """Operation (operands of the view operation, new content of the view) -> new content of its base, bits unchanged."""
        return _write_operation(self._graph, make)

    @cached_property
    def _graph(self) -> Graph:
        whole, (operands, content, index) = self._written, self._places
        assert whole is not None
        alone = eliminate_dead_code(whole.with_ops(whole.ops, (whole.results[index],)), Options())
        params = (*alone.params[:operands], alone.params[content])
        return Graph("copy_slices", params, alone.ops, alone.results)


@lru_cache(maxsize=4096)
def _write_operation(graph: Graph, make: Callable[..., Operation]) -> Operation:
    return make("CopySlices", graph, 1, ())


def layouts_of(builder: GraphBuilder, made: Iterable[Any], first: TracedArray) -> tuple[Layout | None, ...]:
    """Layouts of the traced arrays that a function has `made` of the parameter `first`, in their order; None for copies."""
    operands = len(builder.params)
    written: list[Value] = []
    found: list[tuple[int, int, int] | bool] = []
    for array in made:
        is_view = isinstance(array, TracedArray) and (array is first or array.alias is not None)
        if is_view and array.writable:
            found.append((operands, len(builder.params), len(written)))
            written.append(_base_after(array, builder.param(array.value.type)))
        else:
            found.append(is_view)
    whole = builder.build(written)
    return tuple(None if place is False else Layout(array.steps, None, 0, 0, 0) if place is True else Layout(array.steps, whole, *place)
                 for array, place in zip(made, found, strict=True))


def _base_after(array: TracedArray, content: Value) -> Value:
    """The content of the array at the end of a chain of views, after a write to one."""
    while (view := array.alias) is not None:
        array, content = view.base, reshape(view.write(view.content(), content), view.base.shape)
    return content


class View:
    """View of a tensor: result number `index` of `operation` on `parent`; its node is up to date while `history` is the root's.

    Within a trace a view may be at integers that are not known: `at` is its index then, and the graph takes the traced integers, too.
    """

    __slots__ = ("at", "history", "index", "operation", "parent")

    def __init__(self, parent: Tensor, operation: Operation, index: int):
        self.parent = parent
        self.operation = operation
        self.index = index
        self.at: tuple[Any, ...] = ()
        self.history = parent._history if parent._view is None else root_of(parent)._history

    @property
    def name(self) -> str:
        """Name of the operation's node."""
        return self.operation.name

    @property
    def graph(self) -> Graph:
        """Graph of the operation, from the parent to the view."""
        return self.operation.graph

    @property
    def positions(self) -> list[Value]:
        """Further operands of the graph."""
        return [item.value for item in self.at if isinstance(item, TracedArray)]

    @property
    def root(self) -> Tensor:
        """Tensor at the end of the chain of views."""
        return root_of(self.parent)


class PartView(View):
    """View on a device at integers that its operation takes as operands, of value `places`; constants in the graph of the view."""

    __slots__ = ("places",)

    def __init__(self, parent: Tensor, operation: Operation, index: int, places: tuple[Any, ...]):
        super().__init__(parent, operation, index)
        self.places = places

    @property
    def graph(self) -> Graph:
        builder, whole = GraphBuilder(self.operation.graph.name), self.operation.graph
        base = builder.param(whole.params[0].type)
        with emitting(builder):
            places = [constant(int(place), value.type.dtype) for place, value in zip(self.places, whole.params[1:], strict=True)]
            return builder.build(builder.inline(whole, (base, *places)))


def root_of(tensor: Tensor) -> Tensor:
    """Return the tensor whose memory this one is a view of; itself if it is no view."""
    while tensor._view is not None:
        tensor = tensor._view.parent
    return tensor


def operation_at(array: Any) -> Callable[..., Operation]:
    """What makes operations that run where an array is."""
    return DeviceRuntime.operation(array.device) if isinstance(array, DeviceLeaf) else Operation


@lru_cache(maxsize=4096)
def view_operation(name: str, graph: Graph, index: int, make: Callable[..., Operation]) -> Operation:
    """Operation that takes a view of its first operand, to be differentiated."""
    return make(name, graph.with_ops(graph.ops, (graph.results[index],)), 1, (0,))


@lru_cache(maxsize=4096)
def composed(first: Graph, first_index: int, second: Graph, second_index: int) -> Graph:
    """Graph of the view that result `second_index` of `second` is of result `first_index` of `first`."""
    builder = GraphBuilder("composed")
    base = builder.param(first.params[0].type)
    with emitting(builder):
        between = builder.inline(first, (base,))[first_index]
        return builder.build([builder.inline(second, (between,))[second_index]])


def _replaced(old: Value, new: Value, touched: Value) -> Value:
    """`new` where `touched` is not 0; of complex numbers, part by part, as a view may be of one part."""
    if is_complex(old.type.dtype):
        return ops.complex(*(_replaced(part(old), part(new), part(touched)) for part in (ops.real, ops.imag)))
    return ops.select(ops.not_equal(touched, ops.full_like(touched, 0.0)), new, old)


@lru_cache(maxsize=4096)
def copy_slices(graph: Graph, index: int, wanted: tuple[int, ...], make: Callable[..., Operation]) -> Operation:
    """Operation (parent, new content of the view, positions) -> new content of the parent, for a view that is result `index` of `graph`.

    The elements to replace are those in the view: the elements where its derivative, for a cotangent of ones, is not 0. A view of no
    elements has no derivative, and replaces nothing.
    """
    builder = GraphBuilder("copy_slices")
    parent = builder.param(graph.params[0].type)
    content = builder.param(graph.results[index].type)
    positions = [builder.param(value.type) for value in graph.params[1:]]
    with emitting(builder):
        forward = run_forward(builder, graph, [parent, *positions], (0,), (index,))
        moved, *_ = pull_back(builder, forward, {index: content})
        touched, *_ = pull_back(builder, forward, {index: ops.full_like(content, 1 + 1j if is_complex(content.type.dtype) else 1.0)})
        result: Value = parent
        if moved is not None and touched is not None:
            result = _replaced(parent, moved, touched)
    return make("CopySlices", builder.build([result]), 1, wanted, force_requires_grad=True)
