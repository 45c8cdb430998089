"""What functions can reach besides their arguments: by the globals, closure cells and attributes that their code names.

Names are followed where the user's own code says them. What belongs to an installed library is compared by identity: neither its modules
nor its functions are gone into, and no code of its objects is run.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from array import array as MachineArray
from collections import ChainMap, UserDict, UserList, UserString
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from io import IOBase
from threading import local
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from adjit.tracer.array import TracedArray
from adjit.tracer.box import ArrayBox, ByReference
from adjit.tracer.bytecode import EVERYTHING, globals_of, names_of
from adjit.tracer.inputs import is_ndarray
from adjit.tracer.libraries import Home, home_of, home_of_class
from adjit.tracer.places import (
    CONTAINERS,
    MAX_ITEMS,
    MISSING,
    Source,
    attribute_reader,
    checksum,
    elements_of,
    function_behind,
    is_scalar,
    items_of,
    key_text,
    own_attributes,
    position_of,
    read_cell,
    read_item,
    read_slot,
)

MAX_DEPTH = 64

_BUFFERS = (bytearray, memoryview, MachineArray, ctypes.Array, ctypes.Structure, ctypes._SimpleCData, mmap.mmap)
_NAMESPACES = (SimpleNamespace, local)
_DATA = (UserDict, UserList, UserString, ChainMap)      # their own code, which is not followed, reads all that they hold
_READERS = frozenset({"memoryview", "bytes", "bytearray", "pickle", "hashlib", "struct", "zlib", "ctypes"})
_IMMUTABLE_LIBRARIES = frozenset({"jax", "jaxlib"})
_NOT_CALLED = frozenset({       # by operators and built-in functions that matter to a trace
    "__init__", "__new__", "__post_init__", "__del__", "__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__", "__getstate__",
    "__setstate__", "__init_subclass__", "__class_getitem__", "__set_name__", "__dir__", "__sizeof__", "__annotate__", "__annotate_func__"})


class Reach:
    """What is reached from some functions and objects.

    `found` are the places, `codes` the code of the user's functions. `unseen` are objects, with their paths, that may change without that
    anybody could tell but their library's code. `calls_libraries`: functions of other libraries are named, which may read any array.
    """

    def __init__(self, roots: Sequence[Any], known: Reach | None = None):
        """`known`: what was reached from them before, whose names are looked for from the beginning."""
        names: frozenset[str] = frozenset() if known is None else known.names
        while True:
            walk = _Walk(names)
            for root in roots:
                walk.value(root, "", 0)
            if walk.names == names:
                break
            names = frozenset(walk.names)
        self.names: frozenset[str] = names
        self.found = walk.found
        self.codes = walk.codes
        self.unseen = walk.unseen
        self.calls_libraries = walk.calls_libraries or not names.isdisjoint(_READERS)

    def by_key(self) -> dict[tuple[str, int], Source]:
        """The places by their keys."""
        return {source.key: source for source in self.found}


class _Walk:
    """Follows values by the names that occur in code."""

    def __init__(self, names: Iterable[str]):
        self.names = set(names)
        self.found: list[Source] = []
        self.codes: list[CodeType] = []
        self.unseen: dict[str, Any] = {}
        self.calls_libraries = False
        self._seen: dict[int, Any] = {}

    def value(self, value: Any, path: str, depth: int) -> None:
        """Follow a value; what it holds is noted."""
        if is_scalar(value) or isinstance(value, (ArrayBox, TracedArray)) or id(value) in self._seen or depth > MAX_DEPTH:
            return
        if is_ndarray(value) and not value.dtype.hasobject:
            return
        self._seen[id(value)] = value
        for source in self.places(value, path):
            self.found.append(source)
            if source.followed:
                self.value(source.value, source.path, depth + 1)

    def places(self, value: Any, path: str) -> Iterator[Source]:
        """The places that a value has, or leads to in one step."""
        if isinstance(value, FunctionType):
            yield from self.function(value)
        elif isinstance(value, MethodType):
            self.value(value.__self__, path or "self", 0)
            self.value(value.__func__, path, 0)
        elif isinstance(value, partial):
            self.value(value.func, path, 0)
            for holder in (value.args, value.keywords):
                yield from items_of(holder, path)
        elif isinstance(value, BuiltinFunctionType):
            if not isinstance(value.__self__, (ModuleType, type)):
                self.value(value.__self__, path, 0)
        elif isinstance(value, ModuleType):
            yield from self.module(value, path)
        elif is_ndarray(value):
            yield Source(f"{path}[...]", partial(elements_of, value), elements_of(value), value)
        elif isinstance(value, weakref.ReferenceType):
            yield Source(f"{path}()", value, value(), value)
        elif isinstance(value, ContextVar):
            yield Source(f"{path}.get()", partial(value.get, MISSING), value.get(MISSING), value)
        elif isinstance(value, _BUFFERS):
            yield Source(f"the content of {path}", partial(checksum, value), checksum(value), value)
        elif isinstance(value, Iterator) and home_of_class(type(value)) is Home.KNOWN and not isinstance(value, IOBase):
            yield Source(f"the position of {path}", partial(position_of, value), position_of(value), value)
        else:
            yield from items_of(value, path)
            if type(value) not in CONTAINERS:
                yield from self.object(value, path)

    def function(self, function: FunctionType) -> Iterator[Source]:
        home = home_of(function.__module__ or "")
        wrapped = vars(function).get("__wrapped__")
        if wrapped is not None:
            self.value(wrapped, "", 0)
        self.calls_libraries = self.calls_libraries or home is Home.LIBRARY
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            content = read_cell(cell)
            if home in (Home.USER, Home.OURS):
                if content is not MISSING:
                    yield Source(name, partial(read_cell, cell), content, cell)
            elif isinstance(content, (FunctionType, MethodType, partial)):     # of a library's decorator: what it decorates
                self.value(content, name, 0)
        if home is not Home.USER:
            return
        code = function.__code__
        self.names |= names_of(code)
        self.codes.append(code)
        name = function.__name__
        yield Source(f"the code of {name}", partial(getattr, function, "__code__"), code, function, False)
        if function.__defaults__:
            yield Source(f"the defaults of {name}", partial(getattr, function, "__defaults__"), function.__defaults__, function, False)
            optional = code.co_varnames[:code.co_argcount][-len(function.__defaults__):]
            for index, parameter in enumerate(optional):
                default = function.__defaults__[index]
                yield Source(f"{name}({parameter}=)", partial(read_item, function.__defaults__, index), default, function)
        if function.__kwdefaults__:
            keywords = function.__kwdefaults__
            yield Source(f"the keyword defaults of {name}", partial(getattr, function, "__kwdefaults__"), keywords, function)
        scope = function.__globals__
        for variable in sorted(globals_of(code) & scope.keys()):
            yield Source(variable, partial(read_item, scope, variable), scope[variable], scope)
        yield from self.attributes(function, vars(function), name)

    def module(self, module: ModuleType, path: str) -> Iterator[Source]:
        home = home_of(module.__name__)
        if home is Home.USER:
            yield from self.attributes(module, vars(module), path)
        elif home is Home.LIBRARY:
            for name in self.names & vars(module).keys():
                item = vars(module)[name]
                if is_scalar(item) and not name.startswith("__"):
                    yield Source(f"{path}.{name}", partial(read_item, vars(module), name), item, module)
                elif isinstance(item, (FunctionType, BuiltinFunctionType, type)):
                    self.calls_libraries = True
                elif isinstance(item, ModuleType):
                    self.value(item, f"{path}.{name}", 0)
        elif module is os and not self.names.isdisjoint(("environ", "getenv")):
            for name in sorted(self.names & os.environ.keys()):
                yield Source(f"os.environ[{name!r}]", partial(os.environ.get, name, MISSING), os.environ[name], module)

    def object(self, value: Any, path: str) -> Iterator[Source]:
        """The attributes whose names occur in code: those of an object and of its class, methods included."""
        own = own_attributes(value)
        self.value(own.get("__wrapped__"), path, 0)
        besides: Any = own.get("__adjit_functions__", ())     # what an object of ours calls
        for function in besides:
            self.value(function, path, 0)
        if isinstance(value, ByReference):
            yield from self.by_reference(value, path)
        kind = value if isinstance(value, type) else type(value)
        home = home_of_class(kind)
        if home is Home.USER:
            yield from self.instance(value, kind, own, path)
        elif isinstance(value, _NAMESPACES) or kind.__module__ == "argparse":
            yield from self.attributes(value, own, path)
        elif isinstance(value, _DATA) or kind.__module__ == "configparser":
            yield from self.attributes(value, own, path, all_names=True)
        elif home is Home.LIBRARY and not isinstance(value, type):
            self.calls_libraries = True
            for name, item in list(own.items())[:MAX_ITEMS]:
                yield Source(f"{path}.{name}", partial(read_item, own, name), item, own, False)
                if is_ndarray(item) or home_of_class(type(item)) is Home.USER:
                    self.value(item, f"{path}.{name}", 0)
            if "__setitem__" in dir(kind) and kind.__module__.partition(".")[0] not in _IMMUTABLE_LIBRARIES:
                self.unseen.setdefault(path, value)

    def instance(self, value: Any, kind: type, own: Mapping[str, Any], path: str) -> Iterator[Source]:
        """What an object of a class of the user's holds, or such a class."""
        kinds: list[type] = list(kind.__mro__)
        if isinstance(value, type):
            kinds += type.mro(type(kind))
        users = [base for base in kinds if home_of_class(base) is Home.USER]
        inherits = any(home_of_class(base) is Home.LIBRARY or base in _DATA for base in kinds)
        if not isinstance(value, (type, ByReference)):
            yield from self.attributes(value, own, path, all_names=inherits)
            for base in users:
                for name in sorted(self._named(vars(base))):
                    slot = vars(base)[name]
                    if isinstance(slot, MemberDescriptorType) and (found := read_slot(slot, value)) is not MISSING:
                        yield Source(f"{path}.{name}", partial(read_slot, slot, value), found, value)
        hidden = () if isinstance(value, type) else own.keys()
        for base in users:
            table = vars(base)
            for name in sorted(table.keys() - hidden):
                item = table[name]
                special = name.startswith("__") and name.endswith("__")
                if special and isinstance(item, FunctionType):
                    if name not in _NOT_CALLED and not item.__code__.co_filename.startswith("<"):       # none that a decorator wrote
                        self.value(item, f"{path}.{name}", 0)
                elif name not in self.names or special:
                    continue
                elif isinstance(item, FunctionType):
                    yield Source(f"{path}.{name}", partial(read_item, table, name), item, base)
                elif hasattr(type(item), "__get__"):        # what is behind properties, class methods and compiled methods
                    self.value(function_behind(item), f"{path}.{name}", 0)
                else:
                    found = getattr(value, name)            # of the instance: an attribute of its own may hide it later
                    yield Source(f"{path}.{name}", attribute_reader(value, name), found, base)

    def by_reference(self, value: Any, path: str) -> Iterator[Source]:
        """What modules and optimisers hold is compared elsewhere; but not what lies within other objects that they hold, nor the content
        of arrays. And the code of their methods counts."""
        self.names |= {"__call__", "forward"}
        stack: list[tuple[str, Any, Any, Any]] = [
            (f"{path}.{name}", value, name, item) for name, item in list(own_attributes(value).items())]
        while stack:
            place, holder, name, item = stack.pop()
            if isinstance(item, dict):
                stack += [(f"{place}[{key_text(key)}]", item, key, entry) for key, entry in item.items()]
            elif isinstance(item, (list, tuple)):
                stack += [(f"{place}[{index}]", item, index, entry) for index, entry in enumerate(item)]
            elif is_ndarray(item):
                read = attribute_reader(holder, name) if holder is value else partial(read_item, holder, name)
                yield Source(place, read, item, item)
                self.value(item, place, 0)
            elif not isinstance(item, (set, frozenset)):
                self.value(item, place, 0)

    def attributes(self, owner: Any, table: Mapping[str, Any], path: str, all_names: bool = False) -> Iterator[Source]:
        in_table = isinstance(owner, (ModuleType, FunctionType))
        for name in sorted(table if all_names else self._named(table)):
            read = partial(read_item, table, name) if in_table else attribute_reader(owner, name)
            yield Source(f"{path}.{name}", read, table[name], table)

    def _named(self, table: Mapping[str, Any]) -> Iterable[str]:
        if EVERYTHING in self.names and len(table) <= MAX_ITEMS:
            return [name for name in table if not name.startswith("__")]
        return self.names & table.keys()
