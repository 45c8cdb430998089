"""Sources: bindings outside of the arguments of a function, and functions that look them up again."""

from __future__ import annotations

import itertools
import operator
import re
import weakref
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from operator import is_
from threading import local
from types import CellType, FunctionType, MappingProxyType, MemberDescriptorType
from typing import Any, NamedTuple

import numpy as np

from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.guards.set_content import SetContent

SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


def is_scalar(value: Any) -> bool:
    """True if a value is a number, text or the like itself; `isinstance` takes traced arrays for what they stand for."""
    return issubclass(type(value), SCALARS)


def has_attributes(value: Any) -> bool:
    """True if an object may have attributes of its own: its class is the user's, derived from `float` or `str`."""
    return hasattr(type(value), "__dict__") and type(value).__module__ not in ("builtins", "numpy") and bool(own_attributes(value))


def _typed(item: Any) -> tuple[type, Any]:
    return type(item), item


def same(now: Any, then: Any) -> bool:
    """True if two values mean the same to a program."""
    if now is then:
        return True
    if type(now) is not type(then):
        return False
    if isinstance(then, tuple):
        return len(now) == len(then) and (all(map(is_, now, then)) or all(map(same, now, then)))
    if is_scalar(then):
        return bool(now == then) if issubclass(type(then), (int, str, bytes)) else repr(now) == repr(then)
    return isinstance(then, frozenset) and now == then and ({*map(_typed, now)} == {*map(_typed, then)})


MAX_ITEMS = 100_000
"""Items of a container that are followed; the items of a longer container are compared, but not followed."""

MAX_GUARDED_ITEMS = 32
"""Numbers in a container that are sources of their own, each with its name in messages."""


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""Value of a source where nothing is bound."""


class Source(NamedTuple):
    """One source outside of the arguments: `read()` returns the object that is bound there now; `path` is its expression in the code;
    `holder` is the object that holds it."""

    path: str
    read: Callable[[], Any]
    value: Any
    holder: Any
    followed: bool = True       # whether the contents of the value are followed too
    inherited: bool = False     # whether the value is the default that the class of the holder has

    @property
    def key(self) -> tuple[str, int]:
        """Key that is equal for the same source found again."""
        return self.path, id(self.holder)

    @property
    def held(self) -> Any:
        """What is bound in the place itself; `MISSING` where its class has the value."""
        return MISSING if self.inherited else self.value

    def is_bound(self) -> bool:
        """True if something is bound in the place itself now."""
        read: Any = self.read
        return not self.inherited or read.args[1] in own_attributes(read.args[0])


def items_of(value: Any, path: str) -> Iterator[Source]:
    """Yield the contents of a container: its length, and each item; all items as one source if they are many that need not be followed."""
    if isinstance(value, (dict, MappingProxyType)):
        odd = isinstance(value, dict) and type(value).__iter__ is not dict.__iter__ and type(value) is not OrderedDict
        pairs = list(dict.items(value) if odd and isinstance(value, dict) else value.items())
        if odd or _at_once([item for _, item in pairs]):        # a library's settings, which have a way of their own to give items
            yield Source(f"{path}[...]", partial(pairs_of, value), pairs_of(value), value, False)
            pairs = [(key, item) for key, item in pairs if type(item) in CONTAINERS] if odd else []
        else:
            yield Source(f"keys({path})", partial(tuple, value), tuple(key for key, _ in pairs), value, False)
        for key, item in pairs:
            yield Source(f"{path}[{key_text(key)}]", partial(read_item, value, key), item, value)
    elif isinstance(value, (list, tuple, deque)):
        if not isinstance(value, tuple):
            yield Source(f"len({path})", partial(len, value), len(value), value)
        if _at_once(value):
            yield Source(f"{path}[...]", partial(tuple, value), tuple(value), value, False)
            return
        for index, item in enumerate(list(list.__iter__(value) if isinstance(value, list) else value)):
            yield Source(f"{path}[{index}]", partial(read_item, value, index), item, value)
    elif isinstance(value, set):
        read = SetContent(value)
        yield Source(f"set({path})", read, read.items, value, False)


def _at_once(items: Collection[Any]) -> bool:
    return len(items) > MAX_ITEMS or (len(items) > MAX_GUARDED_ITEMS and all(is_scalar(item) for item in items))


CONTAINERS = (dict, list, tuple, set, frozenset, deque, MappingProxyType)


def names_in(path: str) -> set[str]:
    """Return the names in a path."""
    return set(re.findall(r"[A-Za-z_]\w*", path))


def own_attributes(value: Any) -> Mapping[str, Any]:
    """Return the attributes of an object itself, or of a class, without running code of its class."""
    if isinstance(value, (type, local)):
        return vars(value)
    try:
        found: Any = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return NO_ATTRIBUTES
    return found if isinstance(found, dict) else NO_ATTRIBUTES


NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})
"""Attributes of an object that cannot have any of its own."""


def keys_of(value: Any) -> tuple[str, ...]:
    """Names of the attributes of an object itself, or of a class or a module."""
    return tuple(own_attributes(value))


def set_among(names: frozenset[str], holders: tuple[Any, ...]) -> frozenset[str]:
    """Names among `names` that are attributes of these objects and classes themselves."""
    return frozenset().union(*(names & own_attributes(holder).keys() for holder in holders))


def attribute_reader(value: Any, name: str) -> Callable[[], Any]:
    """Make a reader of an attribute; an object that is taken by reference is not kept alive by it."""
    if not isinstance(value, IdentityKeyed):
        return partial(getattr, value, name, MISSING)
    reference = weakref.ref(value)
    return lambda: getattr(reference(), name, MISSING)


def function_behind(descriptor: Any) -> Any:
    """Return the function that a property, a class method or the like calls; the object itself if there is none."""
    for name in ("fget", "func", "__func__"):
        function = getattr(descriptor, name, None)
        if isinstance(function, FunctionType):
            return function
    return descriptor


def read_cell(cell: CellType) -> Any:
    """Return the content of a closure cell."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def read_item(container: Any, key: Any) -> Any:
    """Return an item of a dict, list or tuple; a missing item is not created."""
    if isinstance(container, dict):
        return dict.get(container, key, MISSING)
    try:
        return list.__getitem__(container, key) if isinstance(container, list) else container[key]
    except (KeyError, IndexError):
        return MISSING


def read_slot(slot: MemberDescriptorType, value: Any) -> Any:
    """Return the content of an object's slot."""
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def by_first_paths(before: Iterable[Source], after: Iterable[Source]) -> list[Source]:
    """The sources behind a trace, those of places that were there `before` by the path that they had: an object may be found by another one
    now, and what is stored in it is in the same place. What was stored in objects that nothing leads to any more is among them."""
    before = list(before)
    places: dict[Any, str] = {place: source.path for source in before if (place := _place_of(source)) is not None}
    known = {source.key for source in before}
    found = [source if source.key in known else source._replace(path=places.get(_place_of(source), source.path)) for source in after]
    holders = {id(source.holder) for source in found}
    for source in before:       # of objects that nothing leads to now
        if id(source.holder) not in holders and not source.inherited and _place_of(source) is not None:
            now = source.read()
            if now is not source.value and now is not MISSING:
                found.append(source._replace(value=now))
    return found


def _place_of(source: Source) -> tuple[Any, ...] | None:
    """What is equal for sources of one attribute or item, or of the length or keys of one container, whatever their paths; None for
    others."""
    read = source.read
    if not isinstance(read, partial):
        return None
    if read.func in (len, tuple) and len(read.args) == 1:
        return read.func, id(read.args[0]), source.path.endswith("[...]")
    if read.func is read_slot:
        return read.func, id(read.args[1]), id(read.args[0])
    named = read.func in (getattr, read_item) and is_scalar(read.args[1])
    return (read.func, id(source.holder), read.args[1], type(read.args[1])) if named else None


def read_within(read: Callable[[], Any], step: Callable[..., Any], name: Any) -> Any:
    """Return a part of what is in a place now, by the function of a source of this part."""
    holder = read()
    try:
        if step is getattr:
            return getattr(holder, name, MISSING)
        return read_slot(name, holder) if step is read_slot else read_item(holder, name)
    except TypeError:       # there is another kind of object
        return MISSING


def read_element(array: np.ndarray, index: int) -> Any:
    """Return an element of an array of objects."""
    return array.flat[index] if index < array.size else MISSING


def rebind(read: Callable[[], Any], value: Any) -> bool:
    """Bind a value again where a reader of a source reads it; `MISSING` takes the binding away. False if there is no way to."""
    if not isinstance(read, partial) or read.keywords:
        return False
    args: tuple[Any, ...] = read.args
    holder = args[0]
    if read.func is read_item and isinstance(holder, (dict, list, deque)):
        if value is not MISSING and not isinstance(holder, dict) and args[1] == len(holder):
            holder.append(value)
        elif value is not MISSING:
            holder[args[1]] = value
        elif isinstance(holder, dict):
            holder.pop(args[1], None)
        else:
            _shorten(holder, args[1])
    elif read.func is len and isinstance(holder, (list, deque)):
        _shorten(holder, value)
    elif read.func is read_within:
        return _rebind_within(args[0], args[1], args[2], value)
    elif read.func is read_cell and value is not MISSING:
        holder.cell_contents = value
    elif read.func is read_slot and value is not MISSING:
        args[0].__set__(args[1], value)
    elif read.func is getattr and value is not MISSING:
        try:        # not by a `__setattr__` of the user's, which may bind another attribute
            (object.__setattr__ if isinstance(type(holder).__setattr__, FunctionType) else setattr)(holder, args[1], value)
        except (AttributeError, TypeError):
            return False        # read-only, as `partial.func`: nothing is ever stored there
    elif read.func is getattr:
        if args[1] in vars(holder):
            (object.__delattr__ if isinstance(type(holder).__delattr__, FunctionType) else delattr)(holder, args[1])
    else:
        return False
    return True


def _rebind_within(read: Callable[[], Any], step: Callable[..., Any], name: Any, value: Any) -> bool:
    """Bind a part of what is in a place; of a tuple, bind another tuple there."""
    holder = read()
    if isinstance(holder, tuple) and step is read_item and value is not MISSING:
        items = [*holder[:name], value, *holder[name + 1:]]
        return rebind(read, holder._make(items) if hasattr(holder, "_make") else type(holder)(items))
    return rebind(partial(step, name, holder) if step is read_slot else partial(step, holder, name), value)


def _shorten(items: list[Any] | deque[Any], length: int) -> None:
    while len(items) > length:
        items.pop()


def pairs_of(table: Mapping[Any, Any]) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(dict.items(table) if isinstance(table, dict) else table.items()))


def key_text(key: Any) -> str:
    return repr(key) if is_scalar(key) else f"<{type(key).__name__} at {id(key):#x}>" if not isinstance(key, tuple) else \
        f"({', '.join(map(key_text, key))})"


def checksum(buffer: Any) -> int:
    """Checksum of the bytes behind an object, and of its format and shape."""
    view = memoryview(buffer)
    return zlib.crc32(view if view.c_contiguous else view.tobytes(), zlib.crc32(repr((view.format, view.shape)).encode()))


def position_of(iterator: Any) -> Any:
    """Position of an iterator, as a number or a text; most kinds have none, and get a value that never compares equal."""
    if isinstance(iterator, (itertools.count, itertools.repeat)):
        return repr(iterator)
    left = operator.length_hint(iterator, -1)
    return object() if left < 0 else f"{left} left"
