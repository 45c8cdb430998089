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
            attrs = "".join(f" {name}={value}" for name, value in sorted(op.attrs.items()) if name != "note")
            yield f"{op.name} {op.operands[0].type}{attrs}{op.attrs.get('note', '')}"
        elif op.regions:
            inner = [tuple(_lines(region)) for region in op.regions]
            if any(inner):
                yield f"{op.name} of {op.attrs['length']} iterations" if "length" in op.attrs else op.name
                for lines in inner:
                    yield from ("{", *lines, "}")


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
