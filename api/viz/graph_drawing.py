"""Drawing of one graph of a program: ops by role, kernels as boxes, parameters and results, and the values saved for the backward half."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.ops.traits import CONTROL_FLOW
from adjit.runtime.reports.memory_plot import COLOURS
from adjit.viz.drawing import escape, new_digraph
from adjit.viz.labels import KERNEL_COLOUR, ROLE_NAMES, Folded, drawn_ops, kernel_label, op_label, tooltip, value_label

FONT = "Helvetica,Arial,sans-serif"
GRAPH = {"fontname": FONT, "fontsize": "14", "labelloc": "t", "nodesep": "0.2", "ranksep": "0.35", "newrank": "true"}
NODE = {"fontname": FONT, "fontsize": "10", "height": "0.3", "margin": "0.08,0.04", "shape": "box",
        "style": "filled,rounded", "fillcolor": "white"}
EDGE = {"color": "#707070", "arrowsize": "0.6", "fontname": FONT, "fontsize": "8"}
PARAMETER = {"shape": "ellipse", "style": "filled", "fillcolor": "white"}
CAPTURED = {**PARAMETER, "style": "filled,dashed"}
RESULT = {"shape": "octagon", "style": "filled", "fillcolor": "#fff3b0", "margin": "0.02,0.02"}
KERNEL = {"shape": "plain", "style": ""}
KEPT = {"color": "#c0392b", "penwidth": "2"}
TINTS = {Role.PRIMAL: "#f3f8fc", Role.ADJOINT: "#fff6ec", Role.UPDATE: "#f6f5fa"}
MIN_COARSE_EDGES, COARSE = 500, {"splines": "line", "nslimit": "0.2", "nslimit1": "1", "mclimit": "0.1"}
"""Number of edges from which `dot` makes a coarse layout: with its defaults it takes minutes."""
BACKWARD = frozenset({Role.ADJOINT, Role.RECOMPUTE})


def draw_graph(graph: Graph, title: str, result_names: Sequence[str]) -> Any:
    """Draw `graph` as a `graphviz.Digraph`."""
    return _Drawing(graph, title, result_names).digraph


class _Drawing:
    def __init__(self, graph: Graph, title: str, result_names: Sequence[str]):
        self.graph = graph
        self.digraph = new_digraph(graph.name, graph_attr={**GRAPH, "label": escape(title)}, node_attr=NODE, edge_attr=EDGE)
        self.folded = Folded(graph)
        self.producers = producers(graph)
        self.names = {op: f"op{number}" for number, op in enumerate(op for op in graph.ops if not self.folded.holds(op))}
        self.halves = {op: _half(op) for op in self.names}
        self.roles: dict[Role | None, list[tuple[str, dict[str, str]]]] = {None: [], **{role: [] for role in TINTS}}
        self.edges: dict[tuple[str, str], dict[str, str]] = {}
        self.known: set[str] = set()
        for op in self.names:
            self._op(op)
        for number, (value, name) in enumerate(zip(graph.results, result_names, strict=True)):
            self._result(f"result{number}", value, name)
        self._write()

    def _op(self, op: Op) -> None:
        half = self.halves[op]
        if op.regions:
            attributes = {**KERNEL, "label": kernel_label(op)}
        else:
            attributes = {"fillcolor": COLOURS[op.role], "label": op_label(op, self.folded.literals)}
        self.roles[half].append((self.names[op], {**attributes, "tooltip": escape(tooltip(op))}))
        for position, operand in enumerate(op.operands):
            if operand not in self.folded.literals:
                self._edge(operand, self.names[op], half, _reads_backward(op, position))

    def _result(self, node: str, value: Value, name: str) -> None:
        source = self.folded.source(value)
        half = self.halves.get(self.producers[source]) if source in self.producers else None
        literal = self.folded.literals.get(value)
        self.roles[half].append((node, {**RESULT, "label": value_label(name, value, literal), "tooltip": escape(f"result {name}")}))
        if literal is None:
            self._edge(source, node, half, False)

    def _edge(self, value: Value, target: str, half: Role | None, backward: bool) -> None:
        source = self.folded.source(value)
        maker = self.producers.get(source)
        kept = backward and maker is not None and _made_forward(maker, source)
        start = self.names[maker] if maker is not None else self._parameter(source, half)
        attributes = {"tooltip": str(source.type), **(KEPT if kept else {})}
        if kept or (start, target) not in self.edges:
            self.edges[start, target] = attributes

    def _parameter(self, value: Value, half: Role | None) -> str:
        """Draw a parameter: one node in each half that reads it, so that no lines cross the whole picture."""
        number = self.graph.params.index(value)
        node = f"param{number}_{half.value if half else 'mixed'}"
        if node not in self.known:
            self.known.add(node)
            role = self.graph.param_roles[number]
            shape = CAPTURED if role == "captured" else PARAMETER
            label = value_label(value.name or str(number), value)
            self.roles[half].append((node, {**shape, "label": label, "tooltip": f"{role} parameter"}))
        return node

    def _write(self) -> None:
        for half, nodes in self.roles.items():
            if half is None:
                self._nodes(self.digraph, nodes)
            elif nodes:
                with self.digraph.subgraph(name=f"cluster_{half.value}") as cluster:
                    cluster.attr(label=ROLE_NAMES[half], style="filled,rounded", color=TINTS[half], fontcolor="#404040")
                    self._nodes(cluster, nodes)
        for (start, end), attributes in self.edges.items():
            self.digraph.edge(start, end, **attributes)
        if len(self.edges) > MIN_COARSE_EDGES:
            self.digraph.graph_attr.update(COARSE)
        self._legend()

    @staticmethod
    def _nodes(where: Any, nodes: Sequence[tuple[str, dict[str, str]]]) -> None:
        for node, attributes in nodes:
            where.node(node, **attributes)

    def _legend(self) -> None:
        roles = {op.role for op in self.names if not op.regions} | {inner.role for op in self.names for region in op.regions
                                                                   for inner, _ in drawn_ops(region)}
        samples = [(f"legend_{role.value}", ROLE_NAMES[role], {"fillcolor": COLOURS[role]}) for role in Role if role in roles]
        if any(op.regions for op in self.names):
            what = "kernel" if any(op.name == "fused" for op in self.names) else "function"
            samples.append(("legend_kernel", what, {"style": "filled", "fillcolor": KERNEL_COLOUR, "fontcolor": "white"}))
        samples.append(("legend_parameter", "parameter", PARAMETER))
        if "captured" in self.graph.param_roles:
            samples.append(("legend_captured", "captured array", CAPTURED))
        samples.append(("legend_result", "result", RESULT))
        if any(attributes.get("color") == KEPT["color"] for attributes in self.edges.values()):
            look = {"shape": "plaintext", "style": "", "fontcolor": KEPT["color"]}
            samples.append(("legend_kept", "red: saved for the\nbackward half", look))
        with self.digraph.subgraph(name="cluster_legend") as legend:
            legend.attr(label="legend", style="rounded", color="#a0a0a0", fontcolor="#404040", rank="same")
            for node, text, attributes in samples:
                legend.node(node, text, **attributes)
            for (node, *_), (following, *_) in pairwise(samples):
                legend.edge(node, following, style="invis")


def _half(op: Op) -> Role | None:
    """Box of an op: forward, backward or update; None for a kernel with ops of several."""
    roles = {inner.role for region in op.regions for inner, _ in drawn_ops(region)} or {op.role}
    halves = {Role.ADJOINT if role in BACKWARD else role for role in roles}
    return halves.pop() if len(halves) == 1 else None


def _reads_backward(op: Op, position: int) -> bool:
    """True if an operand is read for the backward half."""
    if not op.regions or op.name in CONTROL_FLOW:
        return op.role in BACKWARD
    region = op.regions[0]
    return position < len(region.params) and any(
        inner.role in BACKWARD for inner in region.ops if region.params[position] in inner.operands)


def _made_forward(op: Op, value: Value) -> bool:
    """True if a result of an op is computed by the forward half."""
    if op.regions and op.name not in CONTROL_FLOW:
        region = op.regions[0]
        made = producers(region).get(region.results[op.results.index(value)])
        return made is not None and made.role is Role.PRIMAL
    return op.role is Role.PRIMAL
