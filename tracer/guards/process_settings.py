"""Settings of the process that traced functions read, and data of library modules: `decimal.getcontext().prec`, `sys.path`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from adjit.tracer.guards.module_owner import ModuleOwner, owner_of, owner_of_class
from adjit.tracer.guards.source import Source, is_scalar, read_item

_GETTERS = {
    "numpy": frozenset({"geterr", "get_printoptions", "getbufsize"}), "decimal": frozenset({"getcontext"}),
    "sys": frozenset({"getrecursionlimit", "getswitchinterval", "get_int_max_str_digits"}),
    "locale": frozenset({"setlocale"}), "socket": frozenset({"getdefaulttimeout"}), "tempfile": frozenset({"gettempdir"})}
"""Functions that give settings of the process, by module. Those that Python's own parts read unseen are left out."""

_READERS = {
    "numpy": {"array2string": "get_printoptions", "array_repr": "get_printoptions", "array_str": "get_printoptions"},
    "decimal": {"Decimal": "getcontext", "localcontext": "getcontext"},
    "locale": dict.fromkeys(("getlocale", "localeconv", "format_string", "currency", "atof", "atoi", "delocalize", "strxfrm"), "setlocale")}
"""Functions and classes that read such a setting, with what gives it."""

_CONSTANTS = frozenset({"pi", "e", "inf", "nan", "tau", "euler_gamma", "newaxis", "infj", "nanj", "maxsize"})
_CONTAINERS = (dict, list, set, deque)


def settings_of(module: ModuleType, path: str, names: Collection[str]) -> Iterator[Source]:
    """Yield what functions of a module that code names give, or read, as texts."""
    readers = _READERS.get(module.__name__, {})
    named = {readers.get(name, name) for name in names if name in readers or name in _GETTERS.get(module.__name__, ())}
    for name in sorted(named):
        yield setting(getattr(module, name), f"{path}.{name}()", module)


def settings_behind(value: Any) -> Iterator[Source]:
    """Yield the setting that a function gives, or that a function, class or object reads."""
    kind = value if isinstance(value, (type, FunctionType, BuiltinFunctionType)) else type(value)
    module, name = getattr(kind, "__module__", None), getattr(kind, "__name__", "")
    if module in _GETTERS and module in sys.modules:
        yield from settings_of(sys.modules[module], module, (name,))


def setting(getter: Callable[..., Any], path: str, holder: Any) -> Source:
    """The source of what a getter of a setting gives, as a text."""
    read = partial(_text, getter)
    return Source(path, read, read(), holder, False)


def _text(getter: Callable[..., Any]) -> str:
    if getter.__name__ == "setlocale":
        return str(getter(sys.modules["locale"].LC_ALL))
    found = getter()
    if getter.__name__ == "getcontext":     # but for the flags, which computing sets
        return repr([getattr(found, name) for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")])
    return repr(found)


def data_of(module: ModuleType, path: str, names: Collection[str]) -> Iterator[Source]:
    """Yield the attributes of a library's module that code names and that anybody may change: numbers, texts, containers, and what the
    user has put there. Functions and classes of the library stay what they are."""
    table = vars(module)
    for name in sorted(table.keys() & names):
        item = table[name]
        scalar = is_scalar(item) and name not in _CONSTANTS and not name.startswith("__")
        if scalar or (issubclass(type(item), _CONTAINERS) and item is not sys.modules) or _is_of_user(item):
            yield Source(f"{path}.{name}", partial(read_item, table, name), item, table)


def _is_of_user(item: Any) -> bool:
    if type(item) is ModuleType:
        return False
    kind = item if isinstance(item, type) else type(item)
    return (owner_of(item.__module__ or "") if kind is FunctionType else owner_of_class(kind)) is ModuleOwner.USER
