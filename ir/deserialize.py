"""Makes dataclasses from plain data, as JSON gives it. Nothing is trusted: every field is checked.

    deserialize(Artifact, json.loads(text))      # the inverse of `dataclasses.asdict`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Set
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def deserialize(kind: type[T], data: Any) -> T:
    """Object of a dataclass from the dict of its fields; raises `ValueError` if a field is missing, surplus or of another type.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     name: str
    ...     at: tuple[int, ...]
    >>> deserialize(Point, {"name": "a", "at": [1, 2]})
    Point(name='a', at=(1, 2))
    >>> deserialize(Point, {"name": "a", "at": "12"})
    Traceback (most recent call last):
    ValueError: field 'at' of Point has a value of the wrong type: '12'
    """
    if not isinstance(data, dict):
        raise ValueError(f"expected the fields of {kind.__name__} as a dict, got {_shortened(data)}")
    readers, needed = _fields(kind)     # type: ignore[arg-type]
    if not needed <= data.keys() <= readers.keys():
        raise ValueError(f"expected the fields {sorted(readers)} of {kind.__name__}, got {_shortened(list(data))}")
    fields = {}
    for name, value in data.items():
        try:
            fields[name] = readers[name](value)
        except _TypeMismatchError:
            raise ValueError(f"field {name!r} of {kind.__name__} has a value of the wrong type: {_shortened(value)}") from None
    return kind(**fields)


class _TypeMismatchError(Exception):
    """Value that does not have the type of its field."""


Reader = Callable[[Any], Any]
"""Function that makes the value of a field; raises `_TypeMismatchError`."""


@cache
def _fields(kind: Any) -> tuple[dict[str, Reader], set[str]]:
    """Reader of each field, and the names of the required fields."""
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    return ({field.name: _reader(hints[field.name]) for field in fields},
            {field.name for field in fields if field.default is missing and field.default_factory is missing})


def _reader(kind: Any) -> Reader:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if dataclasses.is_dataclass(kind):
        return partial(deserialize, kind)    # type: ignore[arg-type]
    if origin is UnionType:
        (other,) = (_reader(argument) for argument in arguments if argument is not NoneType)
        return lambda value: None if value is None else other(value)
    if origin is tuple:
        return partial(_tuple, _reader(arguments[0])) if arguments[1:] == (...,) else partial(_fixed_tuple, tuple(map(_reader, arguments)))
    if origin is not None and issubclass(origin, Mapping):
        return partial(_mapping, arguments[0], _reader(arguments[1]))
    return partial(_plain, {float, int} if kind is float else {kind})


def _plain(kinds: Set[type], value: Any) -> Any:
    if type(value) not in kinds:
        raise _TypeMismatchError
    return value


def _tuple(read: Reader, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _TypeMismatchError
    return tuple(map(read, value))


def _fixed_tuple(readers: tuple[Reader, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)) or len(value) != len(readers):
        raise _TypeMismatchError
    return tuple(read(item) for read, item in zip(readers, value, strict=True))


def _mapping(key: type, read: Reader, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict) or (key is int and not all(name.isascii() and name.isdecimal() for name in value)):
        raise _TypeMismatchError
    return {key(name): read(item) for name, item in value.items()}


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}..."
