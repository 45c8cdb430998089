"""The collectives of a program, in the order in which it runs them: what has to be the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator

from adjit.ir.errors import Location
from adjit.ir.graph import Graph, Op
from adjit.ir.ops.collectives import NAMES


def collectives_of(graph: Graph) -> tuple[str, ...]:
    """A line for each collective, and around those of loops and branches."""
    return tuple(_lines(graph))


def _lines(graph: Graph) -> Iterator[str]:
    for op in graph.ops:
        if op.name in NAMES:
            yield line_of(op)
        elif op.regions:
            inner = [tuple(_lines(region)) for region in op.regions]
            if any(inner):
                yield f"{op.name} of {op.attrs['length']} iterations" if "length" in op.attrs else op.name
                for lines in inner:
                    yield from ("{", *lines, "}")


def line_of(op: Op) -> str:
    """The line of a collective: what has to be the same on all ranks."""
    attrs = "".join(f" {name}={value}" for name, value in sorted(op.attrs.items()) if name != "note")
    return f"{op.name} {op.operands[0].type}{attrs}{op.attrs.get('note', '')}"


def table_of(op: Op) -> int | None:
    """The number of the operand of a loop or branch that is the table of the collectives in its regions; None if there are none."""
    for region in op.regions:
        for inner in region.ops:
            number = 1 if inner.name in NAMES else table_of(inner)
            if number is not None:
                return region.params.index(inner.operands[number]) + (op.name == "cond")
    return None


def first_collective(graph: Graph) -> Location | None:
    """The user's line of the first collective that has one."""
    found = next(_collectives(graph), None)
    return None if found is None else found.loc


def _collectives(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        if op.name in NAMES and op.loc is not None:
            yield op
        for region in op.regions:
            yield from _collectives(region)
