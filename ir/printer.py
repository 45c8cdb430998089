"""Prints a graph as text that `parser.parse` reads back.

    graph @loss(%x: f32[32,784], %w: f32[784,10] donated) {
      %0: f32[32,10] = matmul %x, %w {transpose_a=false, transpose_b=false}  # model.py:12 in loss
      return %0
    }

Names are deterministic: a value is printed with its name if that is unique, else with a number.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import short_name

if TYPE_CHECKING:
    import json
else:
    json = LazyModule("json")

_HINT = re.compile(r"[A-Za-z_][\w.]*\Z")


def print_graph(graph: Graph, locations: bool = True, notes: dict[Op, str] | None = None) -> str:
    """Text of `graph`. `locations=False` leaves out source lines and roles (for cache keys); each of `notes` gets a line of its own below
    its op, for messages.
    """
    return "\n".join(_Printer(locations, notes or {}).graph(graph, "")) + "\n"


def graph_text(graph: Graph) -> str:
    """Text for the key of a graph: equal only for equal graphs. A region that several ops share is printed once: the functions of
    `np.linalg` in a Python loop that stays unrolled have the same few regions in each iteration."""
    return "\n".join(_Printer(True, {}, {}).graph(graph, ""))


def attribute(value: Any) -> str:
    """Text of one attribute."""
    if isinstance(value, np.dtype):
        return short_name(value)
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else {"inf": "inf", "-inf": "-inf"}.get(repr(value), "nan")
    if isinstance(value, complex):
        return f"complex({attribute(value.real)}, {attribute(value.imag)})"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(attribute, value)) + ("," if len(value) == 1 else "") + ")"
    raise TypeError(f"no text form for the attribute {value!r} of type {type(value).__name__}")


class _Printer:
    def __init__(self, locations: bool, notes: dict[Op, str], shared: dict[int, int] | None = None):
        self.locations = locations
        self.notes = notes
        self.shared = shared        # number of each region that was printed, by its identity; None: print it each time

    def graph(self, graph: Graph, indent: str) -> list[str]:
        names = _name_values(graph)
        params = ", ".join(
            f"%{names[value]}: {value.type}" + ("" if role == "input" else f" {role}")
            for value, role in zip(graph.params, graph.param_roles, strict=True))
        lines = [f"{indent}graph @{graph.name}({params}) {{"]
        for op in graph.ops:
            lines += self.op(op, names, indent + "  ")
            if op in self.notes:
                lines.append(f"{indent}  // {self.notes[op]}")
        lines.append(f"{indent}  return" + _names(graph.results, names))
        lines.append(indent + "}")
        return lines

    def op(self, op: Op, names: dict[Value, str], indent: str) -> list[str]:
        slots = [*(f" @ {slot}" for slot in op.slots), *[""] * len(op.results)]
        left = ", ".join(f"%{names[value]}: {value.type}{slot}" for value, slot in zip(op.results, slots, strict=False))
        line = indent + (f"{left} = " if left else "") + op.name + _names(op.operands, names)
        if len(op.slots) > len(op.results):
            line += f" scratch @ {op.slots[-1]}"
        if op.attrs:
            line += " {" + ", ".join(f"{key}={attribute(value)}" for key, value in sorted(op.attrs.items())) + "}"
        comment = self.comment(op)
        if not op.regions:
            return [line + comment]
        lines = [line + " [" + comment]
        for region in op.regions:
            if self.shared is not None and id(region) in self.shared:
                lines.append(f"region {self.shared[id(region)]}")
                continue
            if self.shared is not None:
                self.shared[id(region)] = len(self.shared)
            lines += self.graph(region, indent + "  ")
        return [*lines, indent + "]"]

    def comment(self, op: Op) -> str:
        if not self.locations:
            return ""
        words = ([str(op.loc)] if op.loc else []) + ([op.role.value] if op.role is not Role.PRIMAL else [])
        return "  # " + ", ".join(words) if words else ""


def _names(values: tuple[Value, ...], names: dict[Value, str]) -> str:
    return (" " + ", ".join(f"%{names[value]}" for value in values)) if values else ""


def _name_values(graph: Graph) -> dict[Value, str]:
    names: dict[Value, str] = {}
    taken: set[str] = set()
    number = 0
    defined = (*graph.params, *(value for op in graph.ops for value in op.results))
    used = (*(value for op in graph.ops for value in op.operands), *graph.results)
    for value in dict.fromkeys((*defined, *used)):      # undefined values are defects, which the verifier reports
        hint = value.name if value.name and _HINT.match(value.name) else None
        if hint is None or hint in taken:
            while str(number) in taken:
                number += 1
            hint = str(number)
        names[value] = hint
        taken.add(hint)
    return names
