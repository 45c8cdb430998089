"""`dataclass` as in the standard library, but decorating a class takes a fifth of the time: the package has over a hundred, and most
processes make few instances of them.

The standard decorator compiles six methods of each class when the class is made: 0.4 ms for a frozen one. Here `__init__` is compiled only
when some instances have been made, and the other methods are closures. `dataclasses.fields`, `replace`, `asdict` and `field` work as
ever.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True, weakref_slot=False):
        """Decorator like `dataclasses.dataclass`, with the options that adjit uses."""
        def make(cls: type) -> type:
            defined = vars(cls).keys()
            wants_repr, wants_eq = repr and "__repr__" not in defined, eq and "__eq__" not in defined
            cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot)
            fields = tuple(dataclasses.fields(cls))
            if "__init__" not in defined:
                cls.__init__, cls.__signature__ = _deferred_init(cls, frozen), _Signature(cls)
            if wants_repr:
                cls.__repr__ = _repr([field.name for field in fields if field.repr])
            if wants_eq:
                _add_comparison(cls, [field.name for field in fields if field.compare], frozen)
            if frozen:
                cls.__setattr__, cls.__delattr__ = _frozen_setattr, _frozen_delattr
                if slots:
                    cls.__getstate__, cls.__setstate__ = _getstate, _setstate
            return cls
        return make if cls is None else make(cls)

__all__ = ["dataclass"]

_MISSING = dataclasses.MISSING


MAX_INTERPRETED_INITS = 24
"""Instances whose fields are assigned one by one; compiling `__init__` takes as long as about thirty of them."""


def _deferred_init(cls: type, frozen: bool) -> Callable[..., None]:
    made = 0
    fields: tuple[dataclasses.Field[Any], ...] = ()

    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal made, fields
        made, fields = made + 1, fields or dataclasses.fields(cls)
        if made > MAX_INTERPRETED_INITS or not _assign_fields(self, fields, object.__setattr__ if frozen else setattr, args, kwargs):
            cls.__init__ = init = _init(cls, frozen)    # type: ignore[misc]
            init(self, *args, **kwargs)
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


class _Signature:
    """Signature of a class for `inspect.signature` and `help`, made of the fields: `__init__` itself takes any arguments at first."""

    __slots__ = ("_of",)

    def __init__(self, of: type):
        self._of = of

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if owner is not self._of:       # a subclass may have an `__init__` of its own
            raise AttributeError("__signature__")
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        return inspect.Signature([inspect.Parameter(field.name, kind, annotation=field.type, default=(
            ... if field.default_factory is not _MISSING else empty if field.default is _MISSING else field.default))
            for field in dataclasses.fields(owner) if field.init], return_annotation=None)


def _assign_fields(self: Any, fields: Iterable[dataclasses.Field[Any]], assign: Callable[[Any, str, Any], None], args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> bool:
    """Assign all fields as `__init__` does. Returns False for a bad call, so that the compiled `__init__` raises the usual TypeError."""
    given, taken = iter(args), 0
    for field in fields:
        if field.init and (value := next(given, _MISSING)) is not _MISSING:
            if field.name in kwargs:
                return False
        elif field.init and field.name in kwargs:
            value = kwargs[field.name]
            taken += 1
        elif field.default is not _MISSING:
            value = field.default
        elif field.default_factory is not _MISSING:
            value = field.default_factory()
        elif field.init:
            return False
        else:
            continue
        assign(self, field.name, value)
    if taken < len(kwargs) or next(given, _MISSING) is not _MISSING:
        return False
    if hasattr(self, "__post_init__"):
        self.__post_init__()
    return True


def _init(cls: type, frozen: bool) -> Callable[..., None]:
    """Compiled `__init__`, as fast as a handwritten one. Classes of the same form share the compiled text, which names fields by number:
    renaming the fields takes a twentieth of the time of compiling.
    """
    names: dict[str, Any] = {"put": object.__setattr__, "missing": _MISSING}
    parameters, body, defaults, fields = ["self"], [], [], {}
    for number, field in enumerate(dataclasses.fields(cls)):
        name = value = f"field_{number}"
        fields[name] = field.name
        if field.default_factory is not _MISSING:
            names[f"make_{name}"] = field.default_factory
            value = f"make_{name}() if {name} is missing else {name}" if field.init else f"make_{name}()"
            defaults += [_MISSING] if field.init else []
        elif field.default is not _MISSING:
            names[f"default_{name}"] = field.default
            value = name if field.init else f"default_{name}"
            defaults += [field.default] if field.init else []
        elif not field.init:
            continue
        parameters += [name] if field.init else []
        descriptor = vars(cls).get(field.name)
        if not frozen:
            body.append(f"self.{name} = {value}")
        elif isinstance(descriptor, MemberDescriptorType):      # setting a slot through its descriptor is faster than by name
            names[f"put_{name}"] = descriptor.__set__
            body.append(f"put_{name}(self, {value})")
        else:
            body.append(f"put(self, '{name}', {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    code = _renamed(_compiled("\n ".join([f"def __init__({', '.join(parameters)}):", *(body or ["pass"])])), fields)
    init = FunctionType(code, names, "__init__", tuple(defaults))
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@cache
def _compiled(text: str) -> CodeType:
    """Code object of the function `__init__` in `text`."""
    names: dict[str, FunctionType] = {}
    exec(text, {}, names)       # in globals of its own the function would be a reference cycle
    return names["__init__"].__code__


def _renamed(code: CodeType, names: dict[str, str]) -> CodeType:
    """Copy of `code` with other names for variables and attributes."""
    def renamed(old: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(names.get(item, item) if isinstance(item, str) else item for item in old)
    return code.replace(co_varnames=renamed(code.co_varnames), co_names=renamed(code.co_names), co_consts=renamed(code.co_consts))


def _repr(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
    return __repr__


def _add_comparison(cls: Any, names: list[str], frozen: bool) -> None:
    read: Callable[[Any], Any] = attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)

    def __eq__(self: Any, other: object) -> Any:
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    cls.__eq__ = __eq__
    if "__hash__" not in vars(cls) or vars(cls)["__hash__"] is None:
        cls.__hash__ = (lambda self: hash(read(self))) if frozen else None


def _frozen_setattr(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _frozen_delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
