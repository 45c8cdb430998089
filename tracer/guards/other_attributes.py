"""Attributes of objects from outside that code binds by names which it does not say: `setattr(o, prefix + name, value)`, an own
`__setattr__`, code of a library. No source leads to them, so the tables of attributes are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_

from adjit.tracer.array import contains_traced
from adjit.tracer.guards.module_owner import ModuleOwner, owner_of_class
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source, attribute_reader, is_scalar
from adjit.tracer.guards.templates import holds_traced


class OtherAttributes:
    """Attributes, before a trace, of the objects that a function reaches."""

    def __init__(self, known: Reachability):
        self._before = [(value, path, table, dict(table)) for value, path, table in known.tables]

    def changed(self, before: Reachability, after: Reachability) -> Iterator[tuple[Source, Source]]:
        """Yield the attributes that were bound in the trace, as sources from before and behind it, and that are no sources: numbers, texts,
        and what holds values of the trace. Other objects that a library keeps are its own affair."""
        changed = [each for each in self._before if len(each[2]) != len(each[3]) or not all(map(is_, each[2].values(), each[3].values()))]
        known = {(id(source.holder), source.path.rpartition(".")[2]) for source in (*before.found, *after.found)} if changed else set()
        for value, path, table, then in changed:
            plain = not any(owner_of_class(kind) is ModuleOwner.LIBRARY for kind in type(value).__mro__)
            for name in sorted({*table, *then}):
                old, new = then.get(name, MISSING), table.get(name, MISSING)
                if new is old or (id(table), name) in known or name.startswith("__"):
                    continue
                if contains_traced(new) or holds_traced(new) or (plain and is_scalar(new) and (old is MISSING or is_scalar(old))):
                    source = Source(f"{path}.{name}", attribute_reader(value, name), new, table)
                    yield source._replace(value=old), source
