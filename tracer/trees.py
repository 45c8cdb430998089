"""Nested containers of arrays, by optree; dataclasses are registered when they are met."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections import deque
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from adjit.tracer.array_wrapper import ArrayWrapper, IdentityKeyed

try:
    import optree as optree
except ImportError:     # exported programs run without it
    from adjit.tracer import optree_stub as optree  # type: ignore[no-redef]

NAMESPACE = "adjit"
_PLAIN = frozenset({np.ndarray, float, int, bool, str})
# Dicts keep their order, as it can matter to the program: `list(params.values())[0]`. The setting lasts as long as this object.
_ordered = optree.dict_insertion_ordered(True, namespace=NAMESPACE)
_ordered.__enter__()

Tree = Any
TreeSpec = optree.PyTreeSpec


def flatten(tree: Tree) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree and its structure. None is structure, not a leaf."""
    leaves, spec = optree.tree_flatten(tree, namespace=NAMESPACE)
    found = [kind for kind in map(type, leaves) if kind not in _PLAIN and hasattr(kind, "__dataclass_fields__")]
    if not found:
        return leaves, spec
    for kind in dict.fromkeys(found):
        _register_dataclass(kind)
    return flatten(tree)


def flatten_arguments(args: tuple[Any, ...], kwargs: Any) -> tuple[list[Any], TreeSpec]:
    """Return `flatten((args, kwargs))`, quickly if there are positional arguments only, and all of them are plain leaves."""
    for arg in args:
        if not (type(arg) in _LEAVES or isinstance(arg, (ArrayWrapper, IdentityKeyed))):
            return flatten((args, kwargs))
    if kwargs:
        return flatten((args, kwargs))
    spec = _flat.get(len(args))
    if spec is None:
        spec = _flat[len(args)] = flatten(((0.0,) * len(args), {}))[1]
    return list(args), spec


_LEAVES = frozenset({np.ndarray, float})
_flat: dict[int, TreeSpec] = {}


def unflatten(spec: TreeSpec, leaves: Iterable[Any]) -> Tree:
    return optree.tree_unflatten(spec, leaves)


def register_container(kind: type, plain: Any) -> None:
    """Register a class of containers that flatten as those of a plain class do, and are built as such."""
    def children(node: Any) -> tuple[tuple[Any, ...], Any, tuple[Any, ...]]:
        keys = tuple(node)
        return tuple(node[key] for key in keys), keys, keys

    def build(keys: Any, values: Iterable[Any]) -> Any:
        made = plain()
        made.update(zip(keys, values, strict=True))
        return made

    if issubclass(plain, dict):
        optree.register_pytree_node(kind, children, build, path_entry_type=optree.MappingEntry, namespace=NAMESPACE)
    elif issubclass(plain, (list, deque)):
        optree.register_pytree_node(kind, lambda node: (tuple(node), None), lambda _, values: plain(values),
                                    path_entry_type=optree.SequenceEntry, namespace=NAMESPACE)


def register_tuple(kind: type[tuple[Any, ...]]) -> None:
    """Register a class of tuples, whose objects flatten as tuples do, and are built as such."""
    optree.register_pytree_node(kind, lambda node: (tuple(node), None), lambda _, items: tuple(items),
                                path_entry_type=optree.SequenceEntry, namespace=NAMESPACE)


def children_of(node: Any) -> Sequence[Any]:
    """The children of a node of a tree; none of a leaf."""
    if optree.tree_is_leaf(node, namespace=NAMESPACE):      # the error of a leaf has its text, which decides on a value
        return ()
    return optree.tree_flatten_one_level(node, namespace=NAMESPACE)[0]      # type: ignore[no-any-return]


def with_children(node: Any, children: Sequence[Any]) -> Any:
    """Copy of a node of a tree with other children."""
    _, metadata, _, build = optree.tree_flatten_one_level(node, namespace=NAMESPACE)
    return build(metadata, children)


_STATIC = (bool, int, str, bytes, range, enum.Enum, np.dtype, type, EllipsisType)
_SLICED_BY = frozenset({int, type(None)})


def is_static(leaf: Any) -> bool:
    """True if a leaf is part of the key of a trace instead of a traced value."""
    return (isinstance(leaf, _STATIC) and not isinstance(leaf, np.generic)) \
        or (callable(leaf) and not hasattr(leaf, "__array__")) \
        or (type(leaf) is slice and all(type(part) in _SLICED_BY for part in (leaf.start, leaf.stop, leaf.step)))


def paths(spec: TreeSpec) -> list[str]:
    """Return the path of each leaf from the root, as Python would write it: `['w1'][0]`."""
    return [accessor.codify("") for accessor in spec.accessors()]


def structure_text(spec: TreeSpec) -> str:
    """Describe a structure: `{'w': *, 'b': (*, *)}`, a star for each leaf."""
    return str(spec).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(f", namespace={NAMESPACE!r}")


def as_name(path: str) -> str:
    """Convert a path to the name of a value: `params['w1'][0]` is `params.w1.0`."""
    return ".".join(re.findall(r"\w+", path))


_HEAP_TYPE = 1 << 9
_STATIC_TYPES = frozenset({int, str, bool, "int", "str", "bool"})


def _register_dataclass(kind: type) -> None:
    """Register a dataclass. Fields that are declared as int, str or bool are part of the structure, if that is what they hold.

    Of a dataclass that is a dict, too, as results of networks are, the entries are those fields that they hold, and other values.
    """
    plain: Any = next(base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)
    fields = tuple(field.name for field in dataclasses.fields(kind))
    declared = frozenset(field.name for field in dataclasses.fields(kind) if field.type in _STATIC_TYPES)

    def children(node: Any) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
        static = tuple((name, getattr(node, name)) for name in fields if name in declared and type(getattr(node, name)) in _STATIC_TYPES)
        names = tuple(name for name in fields if name not in dict(static)) if static else fields
        values = [getattr(node, name) for name in names]
        if not issubclass(plain, dict):
            return tuple(values), (names, static, ()), names
        places = {id(getattr(node, name)): name for name in reversed(fields)}
        entries = []
        for key, value in plain.items(node):
            entries.append((key, places.get(id(value))))
            if entries[-1][1] is None:
                values.append(value)
        return tuple(values), (names, static, tuple(entries)), (*names, *(str(key) for key, place in entries if place is None))

    def build(structure: Any, values: Iterable[Any]) -> Any:
        node = plain.__new__(kind)
        names, static, entries = structure
        rest = iter(values)
        for name, value in (*zip(names, rest, strict=False), *static):
            object.__setattr__(node, name, value)
        for key, place in entries:
            plain.__setitem__(node, key, next(rest) if place is None else getattr(node, place))
        return node

    optree.register_pytree_node(kind, children, build, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE)
