"""What a trace took from outside of its arguments, and how to notice that it was rebound.

The function's code names the globals, closure cells and attributes it can reach. Those that are arrays and were
captured are looked up again at each call, so that an array bound anew is the one that is passed. Whatever else is reached
(numbers, functions, containers, arrays that are read as ordinary ones) was built into the graph: if it changes, the trace
no longer holds.
"""

from __future__ import annotations

import dataclasses
import dis
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from adjit.tracer.box import ByReference
from adjit.tracer.scope import Capture, fingerprint

_SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
NUMBERS = (bool, int, float, complex, np.number)
_FOREIGN = frozenset(sys.stdlib_module_names | {
    "numpy", "optree", "adjit", "numba", "llvmlite", "scipy", "pytest", "_pytest", "hypothesis"}) - {"__main__"}
_MAX_ITEMS = 1000       # a longer container is compared by identity and length only
_MAX_DEPTH = 8
_MAX_BYTES = 1 << 12    # of a larger array, a sample is compared
_MISSING = object()


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """One place outside of the arguments: `read()` gives what is bound there now; `path` is how the code writes it."""

    path: str
    read: Callable[[], Any] = dataclasses.field(repr=False)
    value: Any = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """The places a trace depends on. `captured` holds for each captured array where it came from, if that is known."""

    arrays: tuple[np.ndarray, ...]
    captured: tuple[tuple[int, Source], ...]            # number of the captured array, and a place where it is bound
    fixed: tuple[Source, ...]                           # must stay what they were
    frozen: tuple[tuple[np.ndarray, int], ...]          # arrays that must keep their content
    read: tuple[tuple[Source, int], ...]                # places of arrays that the function may have read as ordinary ones

    def current(self) -> tuple[np.ndarray, ...] | None:
        """The arrays to pass for the captured parameters now; None where the trace no longer holds."""
        for source in self.fixed:
            now = source.read()
            if now is not source.value and not _same(now, source.value):
                return None
        for array, content in self.frozen:
            if fingerprint(array) != content:
                return None
        for source, content in self.read:
            if sample(source.value) != content:
                return None
        arrays = self.arrays
        for index, source in self.captured:
            bound = source.read()
            if bound is not arrays[index]:
                old = self.arrays[index]
                if type(bound) is not type(old) or bound.dtype != old.dtype or bound.shape != old.shape:
                    return None
                if arrays[index] is not old:        # two places that held one array now hold two
                    return None
                arrays = (*arrays[:index], bound, *arrays[index + 1:])
        if len(self.captured) > 1 and arrays is not self.arrays and not self._consistent(arrays):
            return None
        return arrays

    def _consistent(self, arrays: tuple[np.ndarray, ...]) -> bool:
        return all(source.read() is arrays[index] for index, source in self.captured)

    def changed(self) -> str:
        """What was rebound, in words for `explain()`; empty where nothing was."""
        for source in self.fixed:
            now = source.read()
            if not _same(now, source.value):
                if isinstance(now, _SCALARS) and isinstance(source.value, _SCALARS):
                    return f"{source.path} changed from {source.value!r} to {now!r}"
                return f"{source.path} was bound to another object" if now is not _MISSING else f"{source.path} is gone"
        if any(fingerprint(array) != content for array, content in self.frozen):
            return "the content of a mask that decides a shape changed"
        for source, content in self.read:
            if sample(source.value) != content:
                return f"the content of {source.path}, which is no input of the program (but read in Python, as {source.path}[0]), changed"
        if self.current() is None:
            names = ", ".join(dict.fromkeys(source.path for index, source in self.captured if source.read() is not self.arrays[index]))
            return f"{names} was bound to an array of another shape or dtype"
        return ""


def find_sources(roots: Sequence[Any]) -> dict[str, Source]:
    """Everything that the functions (and objects) in `roots` can reach by the names in their code, by path."""
    return {source.path: source for source in _walk(roots).found}


def find_codes(roots: Sequence[Any]) -> list[CodeType]:
    """The code of the functions that `find_sources` meets."""
    return _walk(roots).codes


def _walk(roots: Sequence[Any]) -> _Walk:
    names: set[str] = set()
    while True:
        walk = _Walk(set(names))
        for root in roots:
            walk.value(root, "", 0)
        if walk.names == names:
            return walk
        names = walk.names


def make_sources(before: dict[str, Source], after: dict[str, Source], captures: Sequence[Capture],
                 frozen: Sequence[tuple[np.ndarray, int]]) -> Sources:
    """The guards of a trace; what the function itself rebound while it was traced is left out."""
    numbers = {id(capture.array): index for index, capture in enumerate(captures)}
    captured, fixed, read = [], [], []
    for path, source in after.items():
        if path not in before or not _same(before[path].value, source.value):
            continue
        if isinstance(source.value, np.ndarray) and id(source.value) in numbers:
            captured.append((numbers[id(source.value)], source))
            continue
        fixed.append(source)
        if isinstance(source.value, np.ndarray) and not source.value.dtype.hasobject \
                and not any(np.may_share_memory(source.value, capture.array) for capture in captures):
            read.append((source, sample(source.value)))
    return Sources(tuple(capture.array for capture in captures), tuple(captured), tuple(fixed), tuple(frozen), tuple(read))


def sample(array: np.ndarray) -> int:
    """A checksum of the content; of elements spread over it where that would take long at every call."""
    if array.nbytes <= _MAX_BYTES:
        return fingerprint(array)
    step = array.nbytes // _MAX_BYTES | 1       # odd: not the same column of each row of a power of two
    return fingerprint(array.flat[::step])


def _same(now: Any, then: Any) -> bool:
    if now is then:
        return True
    return isinstance(then, _SCALARS) and type(now) is type(then) and (repr(now) == repr(then))


class _Walk:
    """Follows values by the names that occur in code."""

    def __init__(self, names: set[str]):
        self.names = names
        self.found: list[Source] = []
        self.codes: list[CodeType] = []
        self.seen: set[int] = set()

    def value(self, value: Any, path: str, depth: int) -> None:
        if isinstance(value, (*_SCALARS, np.ndarray)) or id(value) in self.seen or depth > _MAX_DEPTH:
            return
        self.seen.add(id(value))
        for step, read, item in self.steps(value, path):
            if isinstance(item, ModuleType) and item.__name__.partition(".")[0] in _FOREIGN:
                continue
            self.found.append(Source(step, read, item))
            self.value(item, step, depth + 1)

    def steps(self, value: Any, path: str) -> Iterator[tuple[str, Callable[[], Any], Any]]:
        """What is reached from `value` in one step."""
        if isinstance(value, FunctionType):
            yield from self.function(value)
        elif isinstance(value, MethodType):
            self.value(value.__self__, path or "self", 0)
            self.value(value.__func__, path, 0)
        elif isinstance(value, partial):
            for item in (value.func, *value.args, *value.keywords.values()):
                self.value(item, path, 0)
        elif isinstance(value, dict):
            yield f"len({path})", partial(len, value), len(value)
            if len(value) <= _MAX_ITEMS:
                for key in list(value):
                    if isinstance(key, (str, int, tuple, bool)):
                        yield f"{path}[{key!r}]", partial(read_item, value, key), value[key]
        elif isinstance(value, (set, frozenset)):
            if len(value) <= _MAX_ITEMS:
                yield f"set({path})", partial(_members, value), _members(value)
        elif isinstance(value, (list, tuple, deque)):
            if not isinstance(value, tuple):
                yield f"len({path})", partial(len, value), len(value)
            if len(value) <= _MAX_ITEMS:
                for index, item in enumerate(list(value)):
                    yield f"{path}[{index}]", partial(read_item, value, index), item
        elif isinstance(value, ModuleType):
            yield from self.attributes(value, vars(value), path)
        else:
            yield from self.instance(value, path)

    def function(self, function: FunctionType) -> Iterator[tuple[str, Callable[[], Any], Any]]:
        top = (function.__module__ or "").partition(".")[0]
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.value(wrapped, "", 0)
        if top in _FOREIGN and top != "adjit":
            return
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            content = read_cell(cell)
            if content is not _MISSING:
                yield name, partial(read_cell, cell), content
        if top == "adjit":
            return
        for index, default in enumerate(function.__defaults__ or ()):
            yield f"{function.__name__}.__defaults__[{index}]", partial(read_item, function.__defaults__, index), default
        self.names |= set(_names(function.__code__))
        self.codes.append(function.__code__)
        scope = function.__globals__
        for name in sorted(_globals(function.__code__) & scope.keys()):
            yield name, partial(read_item, scope, name), scope[name]
        yield from self.attributes(function, vars(function), function.__name__)

    def instance(self, value: Any, path: str) -> Iterator[tuple[str, Callable[[], Any], Any]]:
        """The attributes whose names occur in code: those of an object and of its class, methods included."""
        if hasattr(value, "__wrapped__"):
            self.value(value.__wrapped__, path, 0)
        for function in getattr(value, "__adjit_functions__", ()):      # what an object of ours calls besides
            self.value(function, path, 0)
        if isinstance(value, ByReference):
            self.by_reference(value, path)
        kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
        if kinds[0].__module__.partition(".")[0] in _FOREIGN:
            return
        if not isinstance(value, (type, ByReference)):
            if callable(value):
                self.names.add("__call__")
            yield from self.attributes(value, getattr(value, "__dict__", {}), path)
            for kind in kinds:
                slots = kind.__dict__.get("__slots__", ())
                yield from self.attributes(value, {name: getattr(value, name) for name in slots if hasattr(value, name)}
                                           if not isinstance(slots, str) else {}, path)
        own = () if isinstance(value, type) else getattr(value, "__dict__", {}).keys()
        for kind in kinds:
            if kind.__module__.partition(".")[0] in _FOREIGN:
                continue
            for name in sorted(self.names & kind.__dict__.keys() - own):
                item = kind.__dict__[name]
                if isinstance(item, (np.ndarray, *_SCALARS, list, tuple, dict, set, frozenset)):
                    found = getattr(value, name)        # of the instance: an attribute of its own may hide it later
                    yield f"{path}.{name}", _attribute(value, name), found
                elif isinstance(item, FunctionType):
                    yield f"{path}.{name}", partial(getattr, kind, name, _MISSING), item
                else:                                   # what is behind properties, class methods and compiled methods
                    self.value(_behind(item), f"{path}.{name}", 0)

    def by_reference(self, value: Any, path: str) -> None:
        """What it holds is looked after elsewhere, but the code of its methods, and of what it holds, counts."""
        self.names |= {"__call__", "forward"}
        stack = list(vars(value).values())
        while stack:
            item = stack.pop()
            if isinstance(item, ByReference):
                self.value(item, path, 0)
            elif isinstance(item, dict):
                stack += item.values()
            elif isinstance(item, (list, tuple)):
                stack += item

    def attributes(self, owner: Any, table: Any, path: str) -> Iterator[tuple[str, Callable[[], Any], Any]]:
        for name in sorted(self.names & table.keys()):
            yield f"{path}.{name}", partial(getattr, owner, name, _MISSING), table[name]


def _attribute(value: Any, name: str) -> Callable[[], Any]:
    """Reads an attribute; of an object that is taken by reference without keeping it alive."""
    if not isinstance(value, ByReference):
        return partial(getattr, value, name, _MISSING)
    reference = weakref.ref(value)
    return lambda: getattr(reference(), name, _MISSING)


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a code object and in those nested in it; also those for `getattr`."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant


@lru_cache(maxsize=4096)
def _globals(code: CodeType) -> frozenset[str]:
    """The names that a code object, or one nested in it, looks up as globals: not those of attributes."""
    names = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return frozenset(names.union(*(_globals(constant) for constant in code.co_consts if isinstance(constant, CodeType))))


def _behind(descriptor: Any) -> Any:
    """The function that a property, a class method or the like calls; the object itself where it is none."""
    for name in ("fget", "func", "__func__"):
        function = getattr(descriptor, name, None)
        if isinstance(function, FunctionType):
            return function
    return descriptor


def _members(items: Set[Any]) -> str:
    return ", ".join(sorted(map(repr, items)))


def read_cell(cell: CellType) -> Any:
    """What a closure cell holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def read_item(container: Any, key: Any) -> Any:
    """An item of a dict, list or tuple."""
    try:
        return container[key]
    except (KeyError, IndexError):
        return _MISSING
