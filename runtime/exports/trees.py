"""Trees as plain data, so that an exported program can take and return them without the code that traced it.

A tree is described by nested lists and dicts that JSON can represent: `{"leaf": 0}`, `{"dict": [["w", {"leaf": 0}]]}`, `{"tuple": [...]}`,
`{"list": [...]}`, `{"fields": ["AdamState", ["m", "v"], [...]]}` (a named tuple or a dataclass), `{"constant": 3}`.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from adjit.ir.errors import ExportError

TreeDescription = dict[str, Any]
"""Description of a tree."""

CONSTANTS = (bool, int, float, str, type(None))
"""Types of constants that a description holds as plain JSON values."""


class Leaf:
    """Placeholder for leaf number `index`, in a tree to be described."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index


def describe_tree(tree: Any, what: str) -> TreeDescription:
    """The description of a tree of `Leaf`s and constants. `what` names the tree in the `ExportError` for other leaves."""
    kind = type(tree)
    if kind is Leaf:
        return {"leaf": tree.index}
    if kind in CONSTANTS:
        return {"constant": tree}
    if kind is dict and all(type(key) in (str, int) for key in tree):
        return {"dict": [[key, describe_tree(item, f"{what}[{key!r}]")] for key, item in tree.items()]}
    if kind in (list, tuple):
        return {kind.__name__: [describe_tree(item, f"{what}[{index}]") for index, item in enumerate(tree)]}
    names = getattr(kind, "_fields", None) if isinstance(tree, tuple) else \
        [field.name for field in dataclasses.fields(tree)] if dataclasses.is_dataclass(tree) else None
    if names is not None:
        return {"fields": [kind.__name__, list(names), [describe_tree(getattr(tree, name), f"{what}.{name}") for name in names]]}
    raise ExportError(f"{what} is a {kind.__name__}, which an exported program can neither take nor return",
                      hint="pass dicts with string or int keys, lists, tuples, named tuples or dataclasses of arrays and numbers")


def flatten_tree(form: TreeDescription, tree: Any, leaves: list[Any], path: str) -> None:
    """Append the leaves of `tree` to `leaves`. Raises `TypeError` or `ValueError`, which names the path, if the tree does not match
    `form`."""
    ((kind, content),) = form.items()
    if kind == "leaf":
        leaves[content] = tree
    elif kind == "constant":
        if type(tree) is not type(content) or tree != content:
            raise ValueError(f"{path} was {content!r} when the program was exported, and is a constant of it; got {tree!r}")
    elif kind == "dict":
        if type(tree) is not dict or tree.keys() != {key for key, _ in content}:
            raise _mismatch(path, f"a dict with the keys {', '.join(repr(key) for key, _ in content)}", tree)
        for key, item in content:
            flatten_tree(item, tree[key], leaves, f"{path}[{key!r}]")
    elif kind == "fields":
        name, names, items = content
        if not all(hasattr(tree, field) for field in names):
            raise _mismatch(path, f"a {name} with the fields {', '.join(names)}", tree)
        for field, item in zip(names, items, strict=True):
            flatten_tree(item, getattr(tree, field), leaves, f"{path}.{field}")
    else:
        if type(tree).__name__ != kind or not isinstance(tree, (list, tuple)) or len(tree) != len(content):
            raise _mismatch(path, f"a {kind} of {len(content)}", tree)
        for index, (item, part) in enumerate(zip(content, tree, strict=True)):
            flatten_tree(item, part, leaves, f"{path}[{index}]")


def unflatten_tree(form: TreeDescription, leaves: Sequence[Any]) -> Any:
    """The tree with these leaves.

    >>> unflatten_tree({"dict": [["a", {"leaf": 1}], ["b", {"tuple": [{"leaf": 0}, {"constant": 3}]}]]}, [10, 20])
    {'a': 20, 'b': (10, 3)}
    """
    ((kind, content),) = form.items()
    if kind == "leaf":
        return leaves[content]
    if kind == "constant":
        return content
    if kind == "dict":
        return {key: unflatten_tree(item, leaves) for key, item in content}
    if kind == "fields":
        name, names, items = content
        return record_type(name, tuple(names))(*(unflatten_tree(item, leaves) for item in items))
    built = [unflatten_tree(item, leaves) for item in content]
    return built if kind == "list" else tuple(built)


def check_form(form: Any, leaves: int) -> None:
    """Raise `ValueError` if data read from a file is not the description of a tree with at most `leaves` leaves."""
    if not isinstance(form, dict) or len(form) != 1:
        raise ValueError("the description of a tree is invalid")
    ((kind, content),) = form.items()
    if kind == "leaf":
        if type(content) is not int or not 0 <= content < leaves:
            raise ValueError("a tree has a leaf with an invalid number")
        return
    if kind == "constant":
        if type(content) not in CONSTANTS:
            raise ValueError("a tree has an invalid constant")
        return
    if kind == "dict":
        items = [item for key, item in content if type(key) in (str, int)]
        complete = len(items) == len(content)
    elif kind == "fields":
        name, names, items = content
        complete = len(names) == len(items) and all(type(field) is str and field.isidentifier() for field in (name, *names))
    else:
        items, complete = content, kind in ("list", "tuple") and isinstance(content, list)
    if not complete:
        raise ValueError("the description of a tree is invalid")
    for item in items:
        check_form(item, leaves)


def leaf_paths(form: TreeDescription, path: str, found: dict[int, str]) -> dict[int, str]:
    """Add to `found` the path, as Python code, of each leaf below `path`."""
    found.update((content, place) for place, is_leaf, content in tree_items(form, path) if is_leaf)
    return found


def tree_items(form: TreeDescription, path: str) -> Iterator[tuple[str, bool, Any]]:
    """The leaves (with their numbers) and constants (with their values) below `path`: their paths as Python code, and whether they are
    leaves.

    >>> list(tree_items({"tuple": [{"leaf": 0}, {"constant": 3}]}, "y"))
    [('y[0]', True, 0), ('y[1]', False, 3)]
    """
    ((kind, content),) = form.items()
    if kind in ("leaf", "constant"):
        yield path, kind == "leaf", content
    elif kind == "dict":
        for key, item in content:
            yield from tree_items(item, f"{path}[{key!r}]")
    elif kind == "fields":
        for name, item in zip(*content[1:], strict=True):
            yield from tree_items(item, f"{path}.{name}")
    else:
        for index, item in enumerate(content):
            yield from tree_items(item, f"{path}[{index}]")


@cache
def record_type(name: str, names: tuple[str, ...]) -> type:
    """The named-tuple type that represents a record in an exported program; the same type for equal descriptions."""
    return namedtuple(name, names)


def _mismatch(path: str, wanted: str, tree: Any) -> TypeError:
    keys = f" with the keys {', '.join(map(repr, tree))}" if isinstance(tree, dict) else f" of {len(tree)}" \
        if isinstance(tree, (list, tuple)) else ""
    return TypeError(f"{path} has to be {wanted}, got a {type(tree).__name__}{keys}")
