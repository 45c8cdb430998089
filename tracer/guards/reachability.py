"""Objects that functions can reach besides their arguments: by the globals, closure cells and attributes that their code names.

Names are followed in the user's own code. Objects of an installed library are compared by identity: neither its modules nor its functions
are followed, and no code of its objects is run.
"""

from __future__ import annotations

import builtins
import ctypes
import dataclasses
import gc
import importlib
import logging
import mmap
import os
import sys
import weakref
from abc import ABCMeta
from array import array as MachineArray
from collections import ChainMap, UserDict, UserList, UserString, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from contextvars import ContextVar
from functools import cache, partial, singledispatchmethod
from io import IOBase
from itertools import chain
from operator import attrgetter, methodcaller
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, NamedTuple

import numpy as np

from adjit.ir.lazy_module import loaded
from adjit.tracer.array import TracedArray
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import ArrayWrapper, IdentityKeyed
from adjit.tracer.flow.bytecode_flow import stored_and_read
from adjit.tracer.foreign_arrays import foreign_content, is_foreign_array
from adjit.tracer.guards.bytecode import (
    CLASSES,
    EVERYTHING,
    FIELDS,
    FORMATS,
    GLOBALS,
    MEMBERS,
    MODULES,
    STORING,
    cells_read_by,
    code_of_text,
    compares_type,
    environment_of,
    evaluated_by,
    fields_of,
    globals_of,
    imports_of,
    names_of,
    only_calls,
    optional_attributes,
    stored_by,
    texts_of,
    whole_of,
    without,
)
from adjit.tracer.guards.module_owner import ModuleOwner, module_of, owner_of, owner_of_class
from adjit.tracer.guards.process_settings import data_of, setting, settings_behind, settings_of
from adjit.tracer.guards.source import (
    CONTAINERS,
    MAX_ITEMS,
    MISSING,
    NO_ATTRIBUTES,
    Source,
    attribute_reader,
    by_first_paths,
    checksum,
    function_behind,
    has_attributes,
    is_scalar,
    items_of,
    key_text,
    keys_of,
    names_in,
    own_attributes,
    position_of,
    read_cell,
    read_element,
    read_item,
    read_slot,
    set_among,
)
from adjit.tracer.guards.type_slots import Registrations, slot_addresses, slots_of
from adjit.tracer.scope import open_traces

MAX_SOURCES = 200_000
"""Sources that are followed; an object with more is reported as not guarded."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BUFFERS = (bytearray, memoryview, MachineArray, ctypes.Array, ctypes.Structure, ctypes._SimpleCData, mmap.mmap)
_DATA = (       # their own code, which is not followed, reads everything they hold
    UserDict, UserList, UserString, ChainMap, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet, nullcontext)
_DATA_MODULES = frozenset({"configparser", "multiprocessing.sharedctypes", *(f"numpy.polynomial.{name}" for name in (
    "chebyshev", "hermite", "hermite_e", "laguerre", "legendre", "polynomial"))})
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_READERS = _words("""
    put place putmask copyto fill vectorize frompyfunc nditer ndenumerate broadcast asmatrix matrix bmat recarray rec ndarray fromiter full
    random default_rng""")
"""Names of functions and classes of NumPy's that read arrays in C, which is not logged."""

_MEMORY_READERS = _words("memoryview bytes bytearray BytesIO from_bytes frombuffer")
"""Names of functions and classes that read the memory of any object: also of an array that stands for a traced one."""

_MEMORY_MODULES = _words("array base64 binascii bz2 codecs ctypes gzip hashlib hmac lzma marshal pickle struct zlib")
"""Modules of the standard library whose functions and classes do; those in C have an underscore before the name."""

_SEEING = frozenset({"__getitem__", "__setitem__"})
_ANSWERING = frozenset({"__getattr__", "__getattribute__"})
_ENVIRONMENT: Any = os.environ._data      # type: ignore[attr-defined]
_IMMUTABLE_LIBRARIES = frozenset({"jax", "jaxlib"})
_BUILTINS = frozenset(dir(builtins))
_HEAP_TYPE = 1 << 9      # of classes in Python
_MAKING = frozenset({"__init__", "__new__", "__post_init__", "__class_getitem__", "__init_subclass__"})     # where the class is named
_NOT_CALLED = _MAKING | {       # by operators and built-in functions that matter to a trace
    "__del__", "__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__set_name__",
    "__dir__", "__sizeof__", "__annotate__", "__annotate_func__"}


class Mentions(NamedTuple):
    """Names in the code that was reached: of variables and attributes, of attributes that may be missing, of values that are compared or
    written down as a whole; and the objects with such a name, by identity; of texts that are evaluated."""

    names: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    whole_objects: frozenset[int] = frozenset()
    evaluated: frozenset[str] = frozenset()


class Roots(list[Any]):
    """Objects to begin with. `paths`: what the code calls some of them, by identity."""

    paths: Mapping[int, str] = MappingProxyType({})


class Reachability:
    """Sources that some functions and objects reach.

    `found` are the sources, `codes` the code of the user's functions. `unguarded` are objects, with their paths, that may change in ways
    that only their library's code could tell. `calls_libraries`: the code names functions that are not followed, and may read any array;
    `reads_memory`: also an array that stands for a traced one.
    `stored`: names of values that are stored into items, see `stored_by`. `stored_variables`: globals that the code binds. `held`: lists of
    modules and optimisers, with their paths. `followed` are the objects whose attributes and items are sources,
    `tables` those of the user, and namespaces, with their paths and tables of attributes.
    """

    def __init__(self, roots: Sequence[Any], known: Reachability | None = None, host: Sequence[Any] = ()):
        """Follow `roots`. `known`: sources that were reached before from the same roots, which keep their paths; their names are looked for
        from the beginning. `host`: functions that the program calls, so that what they read is no part of the trace."""
        mentions = Mentions() if known is None or host else known.mentions
        hidden = tuple(part for function in host for part in _parts_of(function))
        while True:
            walk = _Walk(mentions, known is not None, hidden)
            walk.run(roots)
            if walk.mentions() == mentions:
                break
            mentions = walk.mentions()
        self.mentions: Mentions = mentions
        self.names = mentions.names
        self.found: list[Source] = walk.found if known is None else by_first_paths(known.found, walk.found)
        self.codes, self.asking, self.compares_type = walk.codes, walk.asking, walk.compares_type
        self.not_only_called = walk.not_only_called
        self.stored_variables, self.held, self.tables = walk.stored_variables, walk.held, walk.tables
        self.unguarded, self.followed = walk.unguarded, tuple(walk.seen.values())
        constants = chain((constant for code in walk.codes for constant in code.co_consts), (source.value for source in walk.found))
        self.reads_memory = walk.reads_memory or not mentions.names.isdisjoint(_MEMORY_READERS) or (
            "join" in mentions.names and any(type(constant) is bytes for constant in constants))
        self.calls_libraries = walk.calls_libraries or self.reads_memory or not mentions.names.isdisjoint(_READERS)
        holding = {source.path for source in walk.found if isinstance(source.value, (list, dict))} - {
            source.path for source in walk.found if not isinstance(source.value, (list, dict))}
        self.stored = frozenset[str]().union(*(
            stored_by(code, (globals_of(code) | frozenset(code.co_freevars)) & holding) for code in walk.codes))

    def by_key(self) -> dict[tuple[str, int], Source]:
        """Return the sources by their keys."""
        return {source.key: source for source in self.found}


def _parts_of(function: Any) -> Iterator[Any]:
    """Yield a callable and the functions that a call of it runs."""
    yield function
    for inner in (getattr(function, "__func__", None), function.func if isinstance(function, partial) else None,
                  None if isinstance(function, FunctionType) else vars(type(function)).get("__call__")):
        if isinstance(inner, (FunctionType, MethodType, partial)):
            yield from _parts_of(inner)


class _Walk:
    """Walk over values by the names that occur in code, breadth first."""

    def __init__(self, mentions: Mentions, afterwards: bool, hidden: Sequence[Any] = ()):
        self.afterwards = afterwards
        self.hidden = frozenset(map(id, hidden))
        self.hidden_codes = frozenset(part.__code__ for part in hidden if isinstance(part, FunctionType))
        self.names, self.optional = set(mentions.names), set(mentions.optional)
        self.whole, self.whole_objects = set(mentions.whole), set(mentions.whole_objects)
        self.evaluated = set(mentions.evaluated)
        self.scopes: dict[int, dict[str, Any]] = {}     # globals of the functions that evaluate texts
        self.asking: dict[tuple[int, str], tuple[str, dict[str, Any]]] = {}     # globals of those that call `type`, `print`, ...
        self.compares_type = False
        self.not_only_called: set[tuple[int, str]] = set()      # globals of those that do more with `float` or `int` than to call it
        self.texts: dict[CodeType, None] = {}           # code of these texts
        self.found: list[Source] = []
        self.codes: list[CodeType] = []
        self.stored_variables: list[Source] = []
        self.held: list[tuple[str, list[Any]]] = []
        self.tables: list[tuple[Any, str, Mapping[str, Any]]] = []
        self.unguarded: dict[str, Any] = {}
        self.calls_libraries = self.reads_memory = False
        self.kinds: set[type] = set()
        self.asked_modules: set[str] = set()
        self.seen: dict[int, Any] = {}
        self._waiting: deque[tuple[Any, str]] = deque()

    def mentions(self) -> Mentions:
        """Names that the walk found, and those that it began with."""
        return Mentions(frozenset(self.names), frozenset(self.optional), frozenset(self.whole), frozenset(self.whole_objects),
                        frozenset(self.evaluated))

    def run(self, roots: Iterable[Any]) -> None:
        paths = roots.paths if isinstance(roots, Roots) else {}
        for root in roots:
            self.follow(root, paths.get(id(root), ""))
        self.follow_waiting()
        self.evaluate_texts()
        if MODULES in self.names:       # at last, so that paths are those of the code where there are some
            for name, module in list(sys.modules.items()):
                if owner_of(name) is ModuleOwner.USER:
                    self.imported(name, module)
            self.follow_waiting()

    def follow_waiting(self) -> None:
        """Follow the queued values, and all that they lead to."""
        while self._waiting:
            value, path = self._waiting.popleft()
            if len(self.found) > MAX_SOURCES:
                self.unguarded.setdefault(path, value)
                return
            self.reads_memory = self.reads_memory or _reads_memory(value)
            for source in self.sources(value, path):
                self.add(source)

    def add(self, source: Source) -> None:
        """Add a source that was found, and queue its value."""
        self.found.append(source)
        if source.followed:
            self.follow(source.value, source.path)
        if source.value is dataclasses.replace:
            self.names.add(FIELDS)
        if type(source.value) is str:
            if FORMATS in self.names:
                self.names |= fields_of(source.value)
            if MODULES in self.names and source.value.isidentifier():
                self.module_named(source.value)
        if self.evaluated and isinstance(source.value, (str, CodeType)) and not self.evaluated.isdisjoint(names_in(source.path)):
            self.text(source.value)

    def text(self, text: str | CodeType) -> None:
        """Note a text, or its code, that is given to `eval` or `exec`."""
        code = code_of_text(text) if isinstance(text, str) else text
        if code is not None and code not in self.texts:
            self.texts[code] = None
            self.mention(code)

    def evaluate_texts(self) -> None:
        """Follow the globals that evaluated texts name, in the scope of each function that evaluates some."""
        known: set[tuple[int, str]] = set()
        while True:
            wanted = {(scope, name) for scope in self.scopes for code in self.texts for name in globals_of(code)} - known
            if not wanted:
                return
            known |= wanted
            for scope in self.scopes.values():
                for code in self.texts:
                    self.imports(code, scope)
            for identity, name in sorted(wanted):
                scope = self.scopes[identity]
                self.add(Source(name, partial(read_item, scope, name), scope.get(name, MISSING), scope))
            self.follow_waiting()

    def mention(self, code: CodeType) -> None:
        """Note the names in code that runs."""
        self.names |= names_of(code)
        self.optional |= optional_attributes(code)
        self.codes.append(code)
        self.whole |= whole_of(code)
        texts = evaluated_by(code)
        self.evaluated |= texts.names
        for text in texts.texts:
            self.text(text)

    def follow(self, value: Any, path: str) -> None:
        """Queue a value whose sources are to be followed."""
        if id(value) in self.hidden or value is vars(builtins):      # `eval` puts the builtins into the names that it is given
            return
        if isinstance(value, ArrayWrapper):
            if id(value) not in self.seen:
                self.seen[id(value)] = value
                self.tensor(value, path)
            return
        if self.whole and not is_scalar(value) and not names_in(path).isdisjoint(self.whole):
            self.whole_objects.add(id(value))
        if isinstance(value, TracedArray) or id(value) in self.seen or (is_scalar(value) and not has_attributes(value)):
            return
        if type(value) is np.ndarray and not value.dtype.hasobject:
            return
        self.seen[id(value)] = value
        self._waiting.append((value, path))

    def tensor(self, value: Any, path: str) -> None:
        """Follow the properties of a tensor that are not guarded elsewhere: its hooks, and `requires_grad` if code names it."""
        for hook in getattr(value, "_hooks", None) or ():
            self.follow(getattr(hook, "hook", hook), path)      # one that waits for the sum
        if "requires_grad" in self.names:
            reference = weakref.ref(value)
            read = partial(_requires_grad, reference)
            self.found.append(Source(f"{path}.requires_grad", read, read(), reference, False))

    def sources(self, value: Any, path: str) -> Iterator[Source]:
        """Yield the sources that a value has, or leads to in one step."""
        if isinstance(value, FunctionType):
            yield from self.function(value)
        elif isinstance(value, MethodType):
            self.follow(value.__self__, path or "self")
            self.follow(value.__func__, path)
        elif isinstance(value, partial):
            for name, holder in (("func", value.func), ("args", value.args), ("keywords", value.keywords)):
                yield Source(f"{path}.{name}", partial(getattr, value, name), holder, value, False)
                yield from items_of(holder, path)
            self.follow(value.func, path)
        elif isinstance(value, BuiltinFunctionType):
            yield from settings_behind(value)
            if value in (getattr, vars, dir, eval, exec, globals, __import__):
                self.names |= {EVERYTHING} | ({GLOBALS} if value in (eval, exec, globals) else {MODULES} if value is __import__ else set())
            elif is_ndarray(value.__self__):        # bound: it does not call an observed method
                self.calls_libraries = True
                yield Source(f"{path}.__self__", partial(getattr, value, "__self__"), value.__self__, value)
            elif not isinstance(value.__self__, (ModuleType, type)):
                self.follow(value.__self__, path)
        elif isinstance(value, MethodWrapperType):      # table.__setitem__, bound
            self.follow(value.__self__, path)
        elif isinstance(value, (attrgetter, methodcaller)):
            self.names |= {name for text in value.__reduce__()[1] if isinstance(text, str) for name in text.split(".")}
        elif isinstance(value, ModuleType):
            yield from self.module(value, path)
        elif value is sys.modules:
            self.names.add(MODULES)
        elif value is os.environ or value is getattr(os, "environb", None):
            if path.rpartition(".")[2] not in ("environ", "environb"):      # code says what it reads there
                self.follow(_ENVIRONMENT, "os.environ")
        elif is_ndarray(value):
            for index, item in enumerate(value.flat if value.dtype.hasobject else ()):
                yield Source(f"{path}.flat[{index}]", partial(read_element, value, index), item, value)
            if value.__class__ not in (np.ndarray, np.memmap):      # a masked array, say
                yield from self.attributes(value, own_attributes(value), path, all_names=True)
        elif isinstance(value, weakref.ReferenceType):
            yield Source(f"{path}()", value, value(), value)
        elif issubclass(type(value), (weakref.ProxyType, weakref.CallableProxyType)):
            yield Source(f"the object behind {path}", partial(_referent, value), _referent(value), value)
        elif isinstance(value, ContextVar):
            yield Source(f"{path}.get()", partial(value.get, MISSING), value.get(MISSING), value)
        elif isinstance(value, np.ufunc):
            for part in gc.get_referents(value):        # the function that `np.frompyfunc` calls
                self.follow(part, path)
        elif isinstance(value, ctypes._Pointer):
            if value:
                yield Source(f"the content of {path}", partial(_checksum_behind, value), _checksum_behind(value), value)
        elif isinstance(value, _BUFFERS):
            if value is not open_traces:        # which counts the trace itself
                yield Source(f"the content of {path}", partial(checksum, value), checksum(value), value)
        elif isinstance(value, _VIEWS):
            self.follow(gc.get_referents(value)[0], path)       # the dict; `mapping` is a new proxy each time
        elif isinstance(value, Iterator) and owner_of_class(type(value)) is ModuleOwner.KNOWN and not isinstance(value, IOBase):
            yield Source(f"the position of {path}", partial(position_of, value), position_of(value), value)
            if own_attributes(value):       # a mock, which is everything
                yield from self.object(value, path)
        else:
            yield from items_of(value, path)
            if isinstance(value, (dict, set, frozenset)):
                for item in list(value):
                    self.follow(item, f"{path}{{...}}")
            if isinstance(value, defaultdict):
                self.follow(value.default_factory, path)
                if "default_factory" in self.names:
                    yield Source(f"{path}.default_factory", attribute_reader(value, "default_factory"), value.default_factory, value)
            if type(value) not in CONTAINERS:
                yield from self.object(value, path)

    def function(self, function: FunctionType) -> Iterator[Source]:
        owner = owner_of(function.__module__ or "")
        if owner is ModuleOwner.KNOWN:
            yield from settings_behind(function)
        wrapped = vars(function).get("__wrapped__")
        if wrapped is not None:
            self.follow(wrapped, "")
        registry = vars(function).get("registry")       # of functools.singledispatch
        if isinstance(registry, MappingProxyType):
            yield from items_of(registry, f"{function.__name__}.registry")
        self.calls_libraries = self.calls_libraries or owner is ModuleOwner.LIBRARY
        if function in (importlib.import_module, loaded("pkgutil", "resolve_name")):
            self.names.add(MODULES)
        code = without(function.__code__, self.hidden_codes)
        used = function.__code__.co_freevars if code is function.__code__ else cells_read_by(code)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            content = read_cell(cell) if name in used else MISSING
            if owner in (ModuleOwner.USER, ModuleOwner.OURS):
                if content is not MISSING:
                    yield Source(name, partial(read_cell, cell), content, cell)
            elif isinstance(content, (FunctionType, MethodType, partial)):     # a library's decorator: follow the decorated function
                self.follow(content, name)
        if owner is not ModuleOwner.USER:
            return
        self.mention(code)
        scope = function.__globals__
        if evaluated_by(code).in_globals:
            self.scopes[id(scope)] = scope
        if "type" in globals_of(code):
            self.asking[id(scope), "type"] = "type", scope
            self.compares_type = self.compares_type or compares_type(code)
        for name in {"print", "len", "hasattr", "getattr"} & globals_of(code):
            self.asking[id(scope), name] = name, scope
        for name in {"float", "int"} & globals_of(code):
            self.asking[id(scope), name] = name, scope
            if not only_calls(code, name):
                self.not_only_called.add((id(scope), name))
        self.imports(code, scope)
        if MODULES in names_of(code):
            for text in filter(str.isidentifier, texts_of(code)):
                self.module_named(text)
        for text in environment_of(code):
            if text == EVERYTHING:
                self.follow(_ENVIRONMENT, "os.environ")
            else:
                yield Source(f"os.environ[{text!r}]", partial(os.environ.get, text, MISSING), os.environ.get(text, MISSING), os)
        name = function.__name__
        yield Source(f"the code of {name}", partial(getattr, function, "__code__"), function.__code__, function, False)
        if function.__defaults__:
            yield Source(f"the defaults of {name}", partial(getattr, function, "__defaults__"), function.__defaults__, function, False)
            optional = code.co_varnames[:code.co_argcount][-len(function.__defaults__):]
            for index, parameter in enumerate(optional):
                default = function.__defaults__[index]
                yield Source(f"{name}({parameter}=)", partial(read_item, function.__defaults__, index), default, function)
        if function.__kwdefaults__:
            keywords = function.__kwdefaults__
            yield Source(f"the keyword defaults of {name}", partial(getattr, function, "__kwdefaults__"), keywords, function)
        variables: Set[str] = globals_of(code)     # builtins too: a global may shadow one later
        if GLOBALS in self.names:
            yield Source("keys(globals())", partial(tuple, scope), tuple(scope), scope, False)
            variables = {*variables, *(variable for variable in scope if not variable.startswith("__"))}
        for variable in sorted(variables):
            yield Source(variable, partial(read_item, scope, variable), scope.get(variable, MISSING), scope)
        for variable in sorted(vars(builtins).keys() & variables - _BUILTINS):       # gettext's `_`, a profiler's `profile`
            yield Source(f"builtins.{variable}", partial(read_item, vars(builtins), variable), vars(builtins)[variable], builtins)
        self.stored_variables += [Source(variable, partial(read_item, scope, variable), scope.get(variable, MISSING), scope)
                                  for kind, variable in sorted(stored_and_read(code)[0]) if kind == "variable"]
        yield from self.attributes(function, vars(function), name)
        if self.optional or EVERYTHING in self.names:
            yield Source(f"keys({name}.__dict__)", partial(tuple, vars(function)), tuple(vars(function)), vars(function), False)

    def imports(self, code: CodeType, scope: Mapping[str, Any]) -> None:
        """Follow the modules that code imports; one that is missing after the trace may come later."""
        for imported in imports_of(code):
            modules = list(self.modules(imported, scope))
            for module in modules:
                self.imported(module, sys.modules[module])
            if self.afterwards and not modules:     # an import that failed in the trace
                self.found.append(Source(f"sys.modules[{imported!r}]", partial(read_item, sys.modules, imported), MISSING, sys.modules))

    def modules(self, name: str, scope: Mapping[str, Any]) -> Iterator[str]:
        """Names of the loaded modules that an import may mean, in code with these globals: an import may be relative to a package."""
        own = scope.get("__name__") or ""
        parents = [own[:end] for end, letter in enumerate(own + ".") if letter == "."]
        for module in {own if name == "__name__" else name, *(f"{parent}.{name}".rstrip(".") for parent in parents)}:
            if module in sys.modules:
                yield module

    def module_named(self, name: str) -> None:
        """Note that code may ask whether a module is loaded."""
        if name not in self.asked_modules:
            self.asked_modules.add(name)
            read = partial(read_item, sys.modules, name)
            self.found.append(Source(f"sys.modules[{name!r}]", read, sys.modules.get(name, MISSING), sys.modules, False))

    def imported(self, name: str, module: ModuleType) -> None:
        """Follow a module that code imports or looks up; one of the user may be replaced in `sys.modules`."""
        if owner_of(name) is ModuleOwner.USER and id(module) not in self.seen:
            self.found.append(Source(f"sys.modules[{name!r}]", partial(read_item, sys.modules, name), module, sys.modules))
        self.follow(module, name)

    def module(self, module: ModuleType, path: str) -> Iterator[Source]:
        owner = owner_of(module.__name__)
        if owner is ModuleOwner.USER:
            yield from self.attributes(module, vars(module), path)
            yield from self.absent(module, (), vars(module), path)
            if EVERYTHING in self.names:
                yield Source(f"keys({path}.__dict__)", partial(keys_of, module), keys_of(module), module, False)
            if "__getattr__" in vars(module):
                self.follow(vars(module)["__getattr__"], f"{path}.__getattr__")
                yield from self.set_later((module,), path)
        if owner in (ModuleOwner.KNOWN, ModuleOwner.LIBRARY):
            yield from settings_of(module, path, self.names)
            yield from data_of(module, path, self.names)
            for name in self.names & vars(module).keys() if owner is ModuleOwner.LIBRARY else ():
                item = vars(module)[name]
                if isinstance(item, (FunctionType, BuiltinFunctionType, type)):
                    self.calls_libraries = True
                elif isinstance(item, ModuleType):
                    self.follow(item, f"{path}.{name}")

    def object(self, value: Any, path: str) -> Iterator[Source]:
        """Yield the attributes whose names occur in code: of an object and of its class, methods included."""
        own = own_attributes(value)
        self.follow(own.get("__wrapped__"), path)
        if "__func__" in own:       # a compiled function that is bound
            self.follow(own["__self__"], path or "self")
            self.follow(own["__func__"], path)
        besides: Any = own.get("__adjit_functions__", ())     # functions that an object of ours calls
        for function in besides:
            self.follow(function, path)
        if isinstance(value, IdentityKeyed):
            yield from self.identity_keyed(value, path)
            reads = getattr(type(value), "__adjit_reads__", {})     # a compiled module is of the module's class for `isinstance` alone
            read = {attribute for name, attribute in reads.items() if name in self.names}
            if reads:
                self.names |= read - {""}
                yield from self.attributes(value, own, path, all_names="" in read)
        kind = value if isinstance(value, type) else type(value)
        owner = owner_of_class(kind)
        yield from settings_behind(kind)
        if isinstance(value, np.vectorize):
            self.follow(value.pyfunc, path)
        elif module_of(kind) == "xml.etree.ElementTree":
            self.unguarded.setdefault(path, value)
        elif isinstance(value, logging.Logger) and "isEnabledFor" in self.names:
            yield setting(value.getEffectiveLevel, f"{path}.getEffectiveLevel()", value)
        if own is not NO_ATTRIBUTES and kind is not value and not isinstance(value, IdentityKeyed) and (
                owner is ModuleOwner.USER or kind is SimpleNamespace):
            self.tables.append((value, path, own))
        if owner is ModuleOwner.USER:
            yield from self.instance(value, kind, own, path)
        elif isinstance(value, _DATA) or module_of(kind) in _DATA_MODULES:
            yield from self.attributes(value, own, path, all_names=True)
        elif owner is ModuleOwner.KNOWN and not isinstance(value, type):
            whole = own is not NO_ATTRIBUTES and self.is_whole(value, kind)
            yield from self.attributes(value, own, path, all_names=whole)
            yield from self.absent(value, kind.__mro__, own, path)
            members = MEMBERS in self.names and kind is loaded("argparse", "Namespace")
            if own is not NO_ATTRIBUTES and (whole or EVERYTHING in self.names or members):
                yield Source(f"keys({path}.__dict__)", partial(keys_of, value), keys_of(value), value, False)
        elif owner is ModuleOwner.LIBRARY and not isinstance(value, type):
            self.calls_libraries = True
            for name, item in list(own.items())[:MAX_ITEMS]:
                yield Source(f"{path}.{name}", partial(read_item, own, name), item, own, False)
                if is_ndarray(item) or owner_of_class(type(item)) is ModuleOwner.USER:
                    self.follow(item, f"{path}.{name}")
            if in_attributes(type(value)) and all(map(_is_part, own.values())):
                yield from self.parts(value, kind, own, path)
                return
            deep = any(not (is_scalar(item) or is_ndarray(item) or callable(item)) for item in own.values())
            deep = deep or (not isinstance(value, dict) and not _SEEING.isdisjoint(dir(kind))) or (not own and "__call__" in dir(kind))
            if deep and module_of(kind).partition(".")[0] not in _IMMUTABLE_LIBRARIES and not _is_family(kind) \
                    and not (is_foreign_array(value) and foreign_content(value) is not None):     # whose content is a guard
                self.unguarded.setdefault(path, value)

    def parts(self, value: Any, kind: type, own: Mapping[str, Any], path: str) -> Iterator[Source]:
        """Yield the slots of an object of SciPy's that holds nothing but attributes, and follow what these hold."""
        slots = {name: slot for base in kind.__mro__ for name, slot in vars(base).items() if isinstance(slot, MemberDescriptorType)}
        for name, slot in slots.items():
            yield Source(f"{path}.{name}", partial(read_slot, slot, value), read_slot(slot, value), value)
        for name, item in own.items():
            if type(item) in (tuple, list, dict) or in_attributes(type(item)):
                self.follow(item, f"{path}.{name}")

    def instance(self, value: Any, kind: type, own: Mapping[str, Any], path: str) -> Iterator[Source]:
        """Yield the sources of an object of a user's class, or of such a class."""
        kinds: list[type] = list(kind.__mro__)
        if isinstance(value, type):
            kinds += type.mro(type(kind))
        users = [base for base in kinds if owner_of_class(base) is ModuleOwner.USER]
        inherits = any(owner_of_class(base) is ModuleOwner.LIBRARY or base in _DATA for base in kinds)
        if any(owner_of_class(base) is ModuleOwner.OURS for base in kinds):
            self.names |= {"forward", "backward", "setup_context"}      # ours call these
        yield from self.absent(value, kinds, own, path)
        if {CLASSES, STORING} <= self.names and kind is not value:      # `type(self).count += 1`
            self.follow(kind, kind.__name__)
        if isinstance(value, type):
            for field in own.get("__dataclass_fields__", {}).values():
                self.follow(field.default_factory, path)
        elif not isinstance(value, IdentityKeyed):
            yield Source(f"type({path})", partial(type, value), type(value), value, False)
            whole = self.is_whole(value, kind)
            if own is not NO_ATTRIBUTES and (whole or EVERYTHING in self.names):
                yield Source(f"keys({path}.__dict__)", partial(keys_of, value), keys_of(value), value, False)
            yield from self.attributes(value, own, path, all_names=inherits or whole)
            for base in users:
                for name in sorted(vars(base) if whole else self._named(vars(base))):
                    slot = vars(base)[name]
                    if isinstance(slot, MemberDescriptorType):
                        yield Source(f"{path}.{name}", partial(read_slot, slot, value), read_slot(slot, value), value)
        if EVERYTHING in self.names:
            for base in users:
                yield Source(f"keys({base.__name__}.__dict__)", partial(keys_of, base), keys_of(base), base, False)
        if kind not in self.kinds:
            self.kinds.add(kind)
            addresses = slot_addresses(kind)
            yield Source(f"the methods of {kind.__name__}", partial(slots_of, kind, addresses), slots_of(kind, addresses), kind, False)
        if isinstance(value, ABCMeta):
            registered = Registrations(value)
            yield Source(f"the classes registered with {path}", registered, registered(), value, False)
        if isinstance(value, type) and "__subclasses__" in self.names:
            yield Source(f"{path}.__subclasses__()", partial(_subclasses, value), _subclasses(value), value, False)
            for derived in _subclasses(value):
                self.follow(derived, derived.__name__)
        if any(not _ANSWERING.isdisjoint(vars(base)) for base in users):
            yield from self.set_later((value, *users), path)
        by_super = "super" in self.names        # finds what a nearer class or the object itself hides
        hidden = () if isinstance(value, type) or by_super else own.keys()
        before: list[Any] = [] if isinstance(value, (type, IdentityKeyed)) else [own]     # tables that are searched earlier
        for base in users:
            table = vars(base)
            for name in sorted(table.keys() - hidden):
                item = table[name]
                special = name.startswith("__") and name.endswith("__")
                if special and isinstance(function_behind(item), FunctionType):
                    item = function_behind(item)
                    making = isinstance(value, type) and name in _MAKING
                    written = not item.__code__.co_filename.startswith("<") or _GENERATING.isdisjoint(vars(base))
                    if written and (making or name not in _NOT_CALLED):
                        yield Source(f"{path}.{name}", partial(read_item, table, name), table[name], base, False)
                        self.follow(item, f"{path}.{name}")
                elif special or (name not in self.names and EVERYTHING not in self.names):
                    continue
                elif hasattr(type(item), "__get__"):        # a function, or one behind properties, class methods and compiled methods
                    yield Source(f"{path}.{name}", partial(read_item, table, name), item, base, False)
                    for nearer in before:
                        if name not in nearer:      # as a method that calls `super()` is
                            yield Source(f"{path}.{name}", partial(read_item, nearer, name), MISSING, nearer)
                    if isinstance(item, classmethod):
                        self.names.add(CLASSES)
                    self.follow(function_behind(item), f"{path}.{name}")
                    self.follow(item.dispatcher if isinstance(item, singledispatchmethod) else None, f"{path}.{name}")
                else:
                    found = getattr(value, name)            # of the instance: an attribute of its own may hide it later
                    place = base if isinstance(value, IdentityKeyed) or own is NO_ATTRIBUTES else value if isinstance(value, type) else own
                    yield Source(f"{path}.{name}", attribute_reader(value, name), found, place,
                                 inherited=place is not base and name not in own)
                    if by_super and found is not item:
                        yield Source(f"{path}.{name}", partial(read_item, table, name), item, base)
            before.append(table)

    def set_later(self, holders: tuple[Any, ...], path: str) -> Iterator[Source]:
        """Yield a source of the attributes that code names and `__getattr__` answers: one of these holders may have them later."""
        names = frozenset(self.names).difference(*map(own_attributes, holders))
        yield Source(f"the attributes of {path}", partial(set_among, names, holders), frozenset(), holders[0], False)

    def is_whole(self, value: Any, kind: type) -> bool:
        """True if code compares or writes down an object whose class does so by the attributes of the object, or replaces some of them."""
        by_attributes = kind in (SimpleNamespace, loaded("argparse", "Namespace")) or "__dataclass_fields__" in vars(kind)
        return (by_attributes and (id(value) in self.whole_objects or EVERYTHING in self.whole)) or (
            FIELDS in self.names and "__dataclass_fields__" in vars(kind))

    def absent(self, value: Any, kinds: Iterable[type], own: Mapping[str, Any], path: str) -> Iterator[Source]:
        """Yield the attributes that code asks for and that are missing in an object and in the user's classes."""
        there = own.keys() | {name for base in kinds for name in vars(base)}
        if isinstance(value, IdentityKeyed):
            return
        users = [base for base in kinds if owner_of_class(base) is ModuleOwner.USER and base is not value]
        for name in sorted(self.optional - there):
            yield Source(f"{path}.{name}", partial(read_item, own, name), MISSING, own)
            for base in users:
                yield Source(f"{path}.{name}", partial(read_item, vars(base), name), MISSING, base)

    def identity_keyed(self, value: Any, path: str) -> Iterator[Source]:
        """Follow a module or optimiser. Its own contents are compared elsewhere; other objects that it holds, the content of arrays, and
        the code of its methods are followed here."""
        self.names |= {"__call__", "forward"}
        stack: list[tuple[str, Any, Any, Any]] = [
            (f"{path}.{name}", value, name, item) for name, item in list(own_attributes(value).items())]
        while stack:
            item_path, holder, name, item = stack.pop()
            if isinstance(item, dict):
                stack += [(f"{item_path}[{key_text(key)}]", item, key, entry) for key, entry in item.items()]
            elif isinstance(item, (list, tuple)):
                if isinstance(item, list):
                    self.held.append((item_path, item))
                stack += [(f"{item_path}[{index}]", item, index, entry) for index, entry in enumerate(item)]
            elif is_ndarray(item):
                read = attribute_reader(holder, name) if holder is value else partial(read_item, holder, name)
                yield Source(item_path, read, item, item)
                self.follow(item, item_path)
            elif not isinstance(item, (set, frozenset)):
                self.follow(item, item_path)

    def attributes(self, owner: Any, table: Mapping[str, Any], path: str, all_names: bool = False) -> Iterator[Source]:
        in_table = isinstance(owner, (ModuleType, FunctionType)) or (
            not isinstance(owner, type) and type(owner).__getattribute__ is not object.__getattribute__)      # a proxy, which hides its own
        for name in sorted(table if all_names else self._named(table)):
            read = partial(read_item, table, name) if in_table else attribute_reader(owner, name)
            yield Source(f"{path}.{name}", read, table[name], table)

    def _named(self, table: Mapping[str, Any]) -> Iterable[str]:
        if "value" in self.names and "_value_" in table:        # of an enumeration
            self.names.add("_value_")
        if EVERYTHING in self.names and len(table) <= MAX_ITEMS:
            return [name for name in table if not name.startswith("__")]
        return self.names & table.keys()


_GENERATING = frozenset({"__dataclass_fields__", "__attrs_attrs__", "_fields"})
"""Attributes of classes whose special methods a decorator has made, with names of files such as `<string>`, as code typed in has."""


def _subclasses(kind: type) -> tuple[type, ...]:
    return tuple(type.__subclasses__(kind))


def _checksum_behind(pointer: Any) -> int:
    return checksum(pointer.contents)


def _referent(proxy: Any) -> Any:
    """The object that a weak proxy passes on to, as a method bound to it says."""
    try:
        return proxy.__init__.__self__
    except ReferenceError:
        return MISSING


def _reads_memory(value: Any) -> bool:
    """True for what the modules define that read the memory of objects: modules, functions, classes, and objects of these."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) if isinstance(
        value, (FunctionType, BuiltinFunctionType, type)) else module_of(type(value))
    return isinstance(module, str) and module.partition(".")[0].lstrip("_") in _MEMORY_MODULES


def _requires_grad(reference: weakref.ref[Any]) -> Any:
    return getattr(reference(), "requires_grad", MISSING)


def _is_part(item: Any) -> bool:
    """True if what an attribute holds can be compared, followed, or does not change: a module, a tree of points that C holds; a family of
    distributions is a part of the library."""
    if is_ndarray(item):
        return not item.dtype.hasobject
    return is_scalar(item) or callable(item) or type(item) in (tuple, list, dict) or isinstance(item, np.dtype) \
        or in_attributes(type(item)) or _is_family(type(item)) or isinstance(item, ModuleType) \
        or (module_of(type(item)).partition(".")[0] == "scipy" and not type(item).__flags__ & _HEAP_TYPE)


def _is_family(kind: type) -> bool:
    return any(base.__name__ in ("rv_generic", "multi_rv_generic") for base in kind.__mro__)


def _in_attributes(kind: type) -> bool:
    """True for a class of SciPy's, written in Python, whose objects are what their attributes hold: sparse arrays, interpolators,
    distributions with their parameters."""
    if module_of(kind).partition(".")[0] != "scipy" or _is_family(kind):
        return False
    slots = sum(isinstance(slot, MemberDescriptorType) for base in kind.__mro__ for slot in vars(base).values())
    return kind.__basicsize__ <= object.__basicsize__ + _POINTER * (slots + 2)      # a dict and weak references


_POINTER = tuple.__itemsize__
in_attributes: Callable[[Any], bool] = cache(_in_attributes)
