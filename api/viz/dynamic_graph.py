"""`make_dot`: the dynamic graph of tensors, in the colours and shapes of torchviz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjit.eager.tensor import Tensor
from adjit.eager.views import root_of
from adjit.ir.errors import DTypeError
from adjit.tracer.trees import flatten
from adjit.tracer.user_location import find_user_location
from adjit.viz.drawing import escape, new_digraph

NODE = {"style": "filled", "shape": "box", "align": "left", "fontsize": "10", "ranksep": "0.1", "height": "0.2", "fontname": "monospace"}
LEAF, SAVED, OUTPUT, BASE = "lightblue", "orange", "darkolivegreen1", "darkolivegreen3"
INCHES_A_LINE, MIN_INCHES = 0.15, 12.0
VALUE_LETTERS = 50


def make_dot(output: Any, params: Mapping[str, Tensor] | None = None, show_attrs: bool = False, show_saved: bool = False) -> Any:
    """Draw the graph that led to `output`, a tensor or a tree of tensors, as a `graphviz.Digraph`, in the style of torchviz.

    Grey boxes are the nodes of the graph (`grad_fn`), light blue ones the leaves that require grad, with their names in `params`
    (`dict(model.named_parameters())`), light green ones the outputs; if an output is a view, its base is dark green. `show_saved` adds, in
    orange, the values that each node saves for its derivative; `show_attrs` writes into each node its attributes, the user's notes
    (`metadata`), and its source line if it is known.

    `.render("net", format="svg")` draws the graph, `.source` is its DOT text. Raises `TypeError` for an output or a parameter that is no
    tensor, `UnsupportedError` if the package `graphviz` is missing, `GraphFreedError` if `show_saved` asks for saved tensors that were
    freed; the picture's `render` raises `RenderError` if there is no program `dot`.

    >>> import adjit as aj
    >>> a, b = aj.tensor(2.0, requires_grad=True), aj.tensor(3.0, requires_grad=True)
    >>> picture = make_dot((a + b) * (b + 1), params={"a": a, "b": b})
    >>> [line.strip() for line in picture.source.splitlines() if "Mul" in line or "lightblue" in line]
    ['n1 [label=MulBackward0]', '()" fillcolor=lightblue]', '()" fillcolor=lightblue]']
    >>> picture.render("product", format="png")     # doctest: +SKIP
    'product.png'
    """
    outputs, _ = flatten(output)
    if not outputs or not all(isinstance(tensor, Tensor) for tensor in outputs):
        kind = next((type(leaf).__name__ for leaf in outputs if not isinstance(leaf, Tensor)), "an empty tree")
        raise DTypeError(f"make_dot draws the graph of tensors, got {kind}", find_user_location(),
                         hint="give it the Tensor that a model or a loss function returned, or a tuple of them")
    names = {}
    for name, tensor in (params or {}).items():
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"params[{name!r}] is no tensor but {type(tensor).__name__}", find_user_location(),
                             hint="params is a dict of names and tensors, such as dict(model.named_parameters())")
        names[id(tensor)] = name
    return _Drawing(names, show_attrs, show_saved).draw(outputs)


class _Drawing:
    def __init__(self, names: Mapping[int, str], show_attrs: bool, show_saved: bool):
        self.digraph = new_digraph("dynamic_graph", node_attr=NODE)
        self.names = names
        self.show_attrs = show_attrs
        self.show_saved = show_saved
        self.numbers: dict[int, str] = {}
        self.drawn: set[int] = set()
        self.alive: list[Any] = []      # so that no two of them have the same id

    def draw(self, outputs: list[Tensor]) -> Any:
        for tensor in outputs:
            self._output(tensor, OUTPUT)
        inches = max(MIN_INCHES, INCHES_A_LINE * len(self.digraph.body))
        self.digraph.graph_attr["size"] = f"{inches:g},{inches:g}"
        return self.digraph

    def _output(self, tensor: Tensor, colour: str) -> None:
        if not self._first(tensor):
            return
        name = self._name(tensor)
        self.digraph.node(name, self._text(tensor), fillcolor=colour)
        if tensor.grad_fn is not None:
            self._nodes(tensor.grad_fn)
            self.digraph.edge(self._name(tensor.grad_fn), name)
        base = root_of(tensor)
        if base is not tensor:
            self._output(base, BASE)
            self.digraph.edge(self._name(base), name, style="dotted")

    def _nodes(self, root: Any) -> None:
        """Draw a node and all nodes that it leads to."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if not self._first(node):
                continue
            name = self._name(node)
            self.digraph.node(name, self._node_text(node))
            if self.show_saved:
                self._saved(node, name)
            variable = getattr(node, "variable", None)
            if variable is not None:
                if self._first(variable):
                    self.digraph.node(self._name(variable), self._text(variable), fillcolor=LEAF)
                self.digraph.edge(self._name(variable), name)
            following = [found for found, _ in node.next_functions if found is not None]
            for found in following:
                self.digraph.edge(self._name(found), name)
            waiting += reversed(following)

    def _first(self, thing: Any) -> bool:
        """True if a tensor or a node is met for the first time."""
        number = id(thing)
        if number in self.drawn:
            return False
        self.drawn.add(number)
        return True

    def _saved(self, node: Any, name: str) -> None:
        for number, (what, tensor) in enumerate(zip(node.saved_names, node.saved_tensors, strict=True)):
            known = self.names.get(id(tensor))
            saved = f"{name}_saved{number}"
            self.digraph.node(saved, self._text(tensor, f"{what} = {known}" if known else what), fillcolor=SAVED)
            self.digraph.edge(name, saved, dir="none")

    def _name(self, thing: Any) -> str:
        """Name a tensor or a node of the graph in the DOT text: numbers in the order of drawing."""
        if id(thing) not in self.numbers:
            self.numbers[id(thing)] = f"n{len(self.numbers)}"
            self.alive.append(thing)
        return self.numbers[id(thing)]

    def _text(self, tensor: Tensor, what: str | None = None) -> str:
        """Name, if there is one, and shape of a tensor."""
        what = self.names.get(id(tensor), "") if what is None else what
        shape = f"({', '.join(map(str, tensor.shape))})"
        return escape(f"{what}\n{shape}" if what else shape)

    def _node_text(self, node: Any) -> str:
        """Name of a node, and a table of its properties."""
        if not self.show_attrs:
            return escape(node.name())
        known = {**dict.fromkeys(node.saved_names, "[saved tensor]"), **{str(key): str(value) for key, value in node.metadata.items()}}
        if node.location is not None:
            known["source"] = str(node.location)
        if not known:
            return escape(node.name())
        width = max(map(len, known))
        rows = [f"{key:<{width}}: {_cut(text)}" for key, text in known.items()]
        rule = "-" * max(len(node.name()), *map(len, rows))
        return escape("\n".join([node.name(), rule, *rows]))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= VALUE_LETTERS else text[:VALUE_LETTERS - 1] + "…"
