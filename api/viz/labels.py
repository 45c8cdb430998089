"""Texts in the picture of a program: ops in short form, kernels as tables of their ops, source lines as tooltips."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import chain, groupby
from typing import Any

from adjit.ir.definition import Kind
from adjit.ir.errors import Location, Role
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.control_flow import display_name
from adjit.ir.printer import attribute
from adjit.runtime.reports.memory_plot import COLOURS

ROLE_NAMES = {Role.PRIMAL: "forward", Role.ADJOINT: "backward", Role.RECOMPUTE: "forward, recomputed", Role.UPDATE: "update"}
WRITTEN_ATTRIBUTES = ("axes", "axis", "permutation")
LETTERS = 46
"""Letters of a line in a kernel's box."""
UNBROKEN = "\N{NO-BREAK SPACE}"
KERNEL_COLOUR = "#404040"
TYPE_COLOUR = "#505050"


class Folded:
    """Values of a graph that get no node: constants are written into the ops that use them, broadcasts are left out."""

    def __init__(self, graph: Graph):
        self.literals: dict[Value, str] = {}
        self._sources: dict[Value, Value] = {}
        for op in graph.ops:
            if op.name == "constant":
                self.literals[op.result] = _number(op.attrs["value"])
            elif op.name == "iota":
                self.literals[op.result] = "iota"
            elif op.name == "broadcast":
                operand = op.operands[0]
                if operand in self.literals:
                    self.literals[op.result] = self.literals[operand]
                else:
                    self._sources[op.result] = self.source(operand)

    def source(self, value: Value) -> Value:
        """Return the value that is drawn for `value`: itself, or the operand of its broadcast."""
        return self._sources.get(value, value)

    def holds(self, op: Op) -> bool:
        """True if an op gets no node."""
        return op.definition.kind is Kind.MEMORY or any(value in self.literals or value in self._sources for value in op.results)


def op_text(op: Op, literals: Mapping[Value, str]) -> str:
    """Format an op with its constant operands and its axes: `multiply(·, 0.9)`, `reduce_sum axes 1`."""
    operands = [literals.get(value, "·") for value in op.operands]
    if op.name == "matmul":
        operands = [text + "ᵀ" * op.attrs[key] for text, key in zip(operands, ("transpose_a", "transpose_b"), strict=True)]
    text = op.name if all(operand == "·" for operand in operands) else f"{op.name}({', '.join(operands)})"
    return " ".join([text, *(f"{key} {attribute(op.attrs[key]).strip('(,)')}" for key in WRITTEN_ATTRIBUTES if key in op.attrs)])


def op_label(op: Op, literals: Mapping[Value, str]) -> str:
    """Format op and type as an HTML-like label."""
    return f"<{escape(op_text(op, literals))}{_types(op.results)}>"


def value_label(name: str, value: Value, literal: str | None = None) -> str:
    """Format name and type of a parameter or a result as an HTML-like label."""
    return f"<<b>{escape(name)}</b>{' = ' + escape(literal) if literal else ''}{_types([value])}>"


def kernel_label(op: Op) -> str:
    """Format an op that owns graphs as a table: its name and size, its ops in the colours of their roles, the types of its results."""
    size = f" {op.attrs['rows']} × {op.attrs['columns']}" if op.name == "fused" else f" {op.name}"
    rows = [_row(f'<font color="white"><b>{escape(display_name(op))}</b>{escape(size)}</font>', KERNEL_COLOUR)]
    for role, ops in groupby(inner_ops(op), key=lambda pair: pair[0].role):
        counted = ((text, len(list(same))) for text, same in groupby(text for _, text in ops))
        words = ", ".join((text if count == 1 else f"{count} {text}").replace(" ", UNBROKEN) for text, count in counted)
        rows.append(_row('<br align="left"/>'.join([*map(escape, _wrap(words)), ""]), COLOURS[role]))
    rows.append(_row(f'<font point-size="8" color="{TYPE_COLOUR}">{"<br/>".join(_wrap(_type_list(op.results)))}</font>', "white"))
    return f'<<table border="1" cellborder="0" cellspacing="0" cellpadding="4" color="{KERNEL_COLOUR}">{"".join(rows)}</table>>'


def drawn_ops(graph: Graph) -> Iterator[tuple[Op, str]]:
    """Yield the ops of a region that compute something, each with its text; also the ops of nested regions."""
    folded = Folded(graph)
    for op in graph.ops:
        for region in op.regions:
            yield from drawn_ops(region)
        if not op.regions and not folded.holds(op):
            yield op, op_text(op, folded.literals)


def inner_ops(op: Op) -> Iterator[tuple[Op, str]]:
    """Yield the ops of all regions of an op."""
    return chain.from_iterable(map(drawn_ops, op.regions))


def tooltip(op: Op) -> str:
    """Origin of an op: the source lines, and the ops of a kernel by line."""
    if not op.regions:
        return f"{op.name}: {_place(op.loc)}"
    lines: dict[str, list[str]] = {}
    for inner, _ in inner_ops(op):
        lines.setdefault(_place(inner.loc), []).append(inner.name)
    return "\n".join(f"{location}: {', '.join(names)}" for location, names in lines.items())


def _place(location: Location | None) -> str:
    return location.describe().replace("\n        ", "  ") if location else "no source line"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else attribute(value)


def _types(values: Iterable[Value]) -> str:
    return f'<br/><font point-size="8" color="{TYPE_COLOUR}">{_type_list(values)}</font>'


def _type_list(values: Iterable[Value]) -> str:
    return ", ".join(str(value.type) for value in values)


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, LETTERS, break_long_words=False, break_on_hyphens=False)


def _row(content: str, colour: str) -> str:
    return f'<tr><td align="left" bgcolor="{colour}">{content}</td></tr>'
