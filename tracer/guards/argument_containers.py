"""Lists, dicts and dataclasses among the arguments that a traced function changes: `p["w"] = p["w"] * 0.5`.

The function gets containers of its own, with traced arrays in them. What it puts there or takes out, each call of the program puts into the
caller's containers, or takes out of them, when it has run.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from adjit.ir.errors import ArgumentError
from adjit.tracer.array import TracedArray
from adjit.tracer.guards.source import MISSING, Source, is_scalar
from adjit.tracer.guards.templates import ARGUMENTS, Template, TemplateMaker
from adjit.tracer.trees import children_of, with_children
from adjit.tracer.user_location import find_user_location

Path = tuple[int, ...]
"""Way to an object from `(args, kwargs)`: which child it is of which."""

_DICTS = (dict, OrderedDict, defaultdict)
_SEQUENCES = (list, deque)


Returned = tuple[tuple[Path, Path], ...]
"""Places in a result, each with the place among the arguments that holds the same object."""


class Node(NamedTuple):
    """A container among the arguments, with its items before the function ran."""

    path: Path
    container: Any
    items: dict[Any, Any]


class ContainerChange(NamedTuple):
    """Container among the arguments that each call changes: its items behind the call, those that it has already without a template."""

    path: Path
    name: str       # as the code writes it
    items: tuple[tuple[Any, Template | None], ...]

    def content(self, results: Sequence[Any], made: dict[int, Any]) -> dict[Any, Any]:
        """Items of the caller's container behind a call."""
        before = items_of(argument_at(made[ARGUMENTS], self.path))
        return {key: before[key] if template is None else template(results, made) for key, template in self.items}

    def store(self, arguments: Any, content: Mapping[Any, Any]) -> None:
        """Give the caller's container these items."""
        container = argument_at(arguments, self.path)
        if isinstance(container, _DICTS) and list(container) != list(content):
            container.clear()
            container.update(content)
        elif isinstance(container, _SEQUENCES) and len(container) != len(content):
            container.clear()
            container.extend(content.values())
        else:
            for key, template in self.items:
                if template is None:
                    continue
                if isinstance(container, (*_DICTS, *_SEQUENCES)):
                    container[key] = content[key]
                else:
                    setattr(container, key, content[key])


def argument_at(arguments: Any, path: Path) -> Any:
    """The object at a path."""
    for position in path:
        arguments = children_of(arguments)[position]
    return arguments


def read_argument(path: Path, results: Sequence[Any], made: dict[int, Any]) -> Any:
    """Template of an argument, or of a part of one: the caller's object."""
    return argument_at(made[ARGUMENTS], path)


def objects_of(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Objects of a tree with their paths, leaves included."""
    yield path, tree
    for position, child in enumerate(children_of(tree)):
        yield from objects_of(child, (*path, position))


def is_changeable(node: Any) -> bool:
    """True for a container whose items can be changed and stored again."""
    return type(node) in (*_DICTS, *_SEQUENCES) or (dataclasses.is_dataclass(node) and not isinstance(node, type))


def items_of(container: Any) -> dict[Any, Any]:
    """Items of a container, by key, position or name."""
    if isinstance(container, _DICTS):
        return dict(container)
    if isinstance(container, _SEQUENCES):
        return dict(enumerate(container))
    if not is_changeable(container):
        return dict(enumerate(children_of(container)))
    names = dict.fromkeys([*(field.name for field in dataclasses.fields(container)), *getattr(container, "__dict__", ())])
    return {name: value for name in names if (value := getattr(container, name, MISSING)) is not MISSING}


def nodes_of(arguments: Any) -> list[Node]:
    """The containers among the arguments of a trace that can change."""
    return [Node(path, node, items_of(node)) for path, node in objects_of(arguments) if not isinstance(node, tuple) and (
        is_changeable(node) or children_of(node))]


def is_same(before: Any, now: Any) -> bool:
    """True if the function left an item as it was."""
    return before is now or (type(before) is type(now) and is_scalar(now) and bool(before == now))


def changed_nodes(nodes: Sequence[Node]) -> list[Node]:
    """Those of the containers that the function changed."""
    found = []
    for node in nodes:
        now = items_of(node.container)
        if list(now) != list(node.items) or not all(is_same(node.items[key], value) for key, value in now.items()):
            found.append(node)
    return found


def is_stored_again(node: Node) -> bool:
    """True if calls may make a change: not of an integer, of which each number would be another program; nor where an attribute is gone."""
    now = items_of(node.container)
    if not is_changeable(node.container):
        return False
    return isinstance(node.container, (*_DICTS, *_SEQUENCES)) or node.items.keys() <= now.keys()


def change_of(node: Node, name: str, make: TemplateMaker) -> ContainerChange:
    """Describe what calls do with a container. Raises `NotRepeatableError` for what they cannot make."""
    now = items_of(node.container)
    return ContainerChange(node.path, name, tuple(
        (key, None if key in node.items and is_same(node.items[key], value) else make(value)) for key, value in now.items()))


def templates_of_arguments(arguments: Any) -> dict[int, Template]:
    """Templates of the arguments and their parts, by identity."""
    return {id(value): partial(read_argument, path) for path, value in objects_of(arguments) if path and not is_scalar(value)}


def templates_of_arrays(arguments: Any) -> dict[int, Template]:
    """Templates of the traced arrays among the arguments, by identity: what a function stores is the caller's array."""
    return {id(value): partial(read_argument, path) for path, value in objects_of(arguments) if isinstance(value, TracedArray)}


def containers_in(result: Any, known: Mapping[int, Path]) -> Returned:
    """Paths in a result at which a container is that was passed, with its path among the arguments; `known` has these by identity."""
    return tuple((path, known[id(value)]) for path, value in objects_of(result) if id(value) in known) if known else ()


def changed_in(returned: Returned, changes: Sequence[ContainerChange]) -> Returned:
    """Those of the containers in a result that each call changes, outermost ones alone."""
    found: list[tuple[Path, Path]] = []
    for path, argument in returned:
        if any(change.path == argument for change in changes) and not any(path[:len(outer)] == outer for outer, _ in found):
            found.append((path, argument))
    return tuple(found)


def put_at(tree: Any, path: Path, value: Any) -> Any:
    """A tree with another object at a path."""
    if not path:
        return value
    children = list(children_of(tree))
    children[path[0]] = put_at(children[path[0]], path[1:], value)
    return with_children(tree, children)


def check_apart(changes: Sequence[ContainerChange], arguments: Any, sources: Collection[Source]) -> None:
    """Raise `ArgumentError` if a container that a call changes is passed in two places, or is read from outside as well: the function has a
    container of its own for each."""
    places: dict[int, list[Path]] = {}
    for path, node in objects_of(arguments):
        if is_changeable(node):
            places.setdefault(id(node), []).append(path)
    outside = {id(held): source.path for source in sources for held in (source.holder, source.value)}
    for change in changes:
        container = argument_at(arguments, change.path)
        if len(places[id(container)]) > 1 or id(container) in outside:
            where = f"read as {outside[id(container)]}, too" if id(container) in outside else "passed twice"
            raise ArgumentError(f"{change.name} is a {type(container).__name__} that the function changes, and is {where}",
                                find_user_location(), hint="pass a copy: dict(p), list(p), copy.copy(p)")
