"""Signatures of calls for the cache of compiled functions: tree, dtypes, shapes and static values.

`flatten_call` runs at every call of a compiled function, so the common case, arrays in dicts, is a short loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.lazy_module import loaded
from adjit.ir.types import C128, F64, I64, LARGEST_INTEGER, SHORT_NAMES, TensorType, check_dtype, is_half
from adjit.tracer.array import TracedArray
from adjit.tracer.array_checks import check_array
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf, IdentityKeyed, held_by
from adjit.tracer.foreign_arrays import foreign_array, is_foreign_array, is_on_card, type_name
from adjit.tracer.guards.array_access import ORIGINAL_CLASS
from adjit.tracer.guards.module_owner import ModuleOwner, owner_of_class
from adjit.tracer.trees import TreeSpec, as_name, flatten_arguments, is_static, paths, structure_text
from adjit.tracer.user_location import find_user_location

_NATIVE = frozenset(SHORT_NAMES.values())
_WEAK = ("weak",)
_WEAK_COMPLEX = ("weak", complex)
_WEAK_INTEGER = ("weak", int)
_INEXACT = (float, complex, np.inexact)
_PLAIN = (*_INEXACT, int, str, bytes, type(None))


Integers = Mapping[TreeSpec, Collection[int]]
"""Leaves of arguments, by their structure, that are inputs of a program though they are Python integers."""

NO_INTEGERS: Integers = {}


def is_liftable_integer(leaf: Any) -> bool:
    """True for a Python integer that can be an input."""
    return type(leaf) is int and -LARGEST_INTEGER <= leaf <= LARGEST_INTEGER


class StaticArgument:
    """Argument named in `static=`: one leaf, whatever it holds."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


@dataclass(slots=True, eq=False)       # not frozen: one is made at every call, and freezing takes twice as long
class CallSignature:
    """Flattened arguments of one call. Never changed.

    `key` is equal for calls that can share a trace. `leaves` are the arrays to pass, in the order of the graph's
    parameters. `all_leaves` are all leaves of `(args, kwargs)`, whose structure is `tree`; `leaf_keys` says of each
    whether it is an array `(dtype, shape)`, a NumPy scalar `(dtype, ())`, an array of no dimension `(dtype, (), ndarray)`, which can be
    written to, a Python number `("weak",)` (a float), `("weak", complex)` or `("weak", int)`, or static `("static", value)`. `foreign`
    has the index and the type of each leaf that is an array of another library. `arguments` are `(args, kwargs)` themselves.
    """

    key: tuple[Any, ...]
    leaves: tuple[np.ndarray, ...]
    all_leaves: tuple[Any, ...]
    leaf_keys: tuple[tuple[Any, ...], ...]
    tree: TreeSpec
    function: Callable[..., Any]
    positional: int
    foreign: tuple[tuple[int, str], ...] = ()
    rows: int = 0       # number of rows, where the shapes in `key` stand for any
    exact: CallSignature | None = None      # the signature for this number of rows
    arguments: tuple[Any, Any] = ((), {})

    def leaf_paths(self) -> list[str]:
        """Expressions of the leaves in the user's code: `params['w1']`."""
        return argument_paths(self.function, self.positional, self.tree)

    def identity_keyed(self) -> list[Any]:
        """Objects that are taken by reference: arguments, the function itself, or the object that the function is bound to."""
        return [value for value in (*held_by(self.function), *self.all_leaves) if isinstance(value, IdentityKeyed)]

    def memory(self) -> list[np.ndarray]:
        """The caller's array for each of `leaves`, where the caller has one: `leaves` holds copies of arrays in another byte order."""
        traced = (leaf for index, leaf in enumerate(self.all_leaves) if self.is_traced(index))
        return [leaf if isinstance(leaf, np.ndarray) else array for leaf, array in zip(traced, self.leaves, strict=True)]

    def of_these_rows(self) -> CallSignature:
        """The signature for the number of rows of this call."""
        return self if self.exact is None else self.exact

    def owners(self) -> list[Any]:
        """Objects that `key` names by their identity: the key is valid as long as they live."""
        bound = [self.function.__self__] if isinstance(self.function, MethodType) else []
        return bound + [leaf for leaf in self.all_leaves if is_by_reference(leaf)]

    def on_devices(self) -> list[tuple[str, str]]:
        """Path and device of each leaf that is in the memory of a device."""
        found = [index for index in range(len(self.leaf_keys)) if self.is_on_device(index)]
        paths = self.leaf_paths() if found else []
        return [(paths[index], self.leaf_keys[index][-1]) for index in found]

    def without_arguments(self) -> CallSignature:
        """Signature that can be retained for long: without the arguments and the object of a bound method."""
        function = partial(self.function.__func__, None) if isinstance(self.function, MethodType) else self.function
        return replace(self, leaves=(), all_leaves=(), function=function, exact=None, arguments=((), {}))

    def integers(self) -> Integers:
        """The Python integers that are passed as inputs."""
        found = frozenset(index for index, key in enumerate(self.leaf_keys) if key is _WEAK_INTEGER)
        return {self.tree: found} if found else {}

    def is_traced(self, index: int) -> bool:
        return self.leaf_keys[index][0] != "static"

    def is_on_device(self, index: int) -> bool:
        """True if a leaf was in the memory of a device."""
        key = self.leaf_keys[index]
        return isinstance(key[-1], str) and key[0] != "static" and len(key) > 2

    def leaf_type(self, index: int) -> TensorType:
        """Type of a traced leaf."""
        key = self.leaf_keys[index]
        if key[0] == "weak":
            return TensorType(F64 if key is _WEAK else I64 if key is _WEAK_INTEGER else C128, ())
        return TensorType(check_dtype(key[0]), key[1])

    def traced_paths(self) -> list[str]:
        """Paths of `leaves`."""
        return [path for index, path in enumerate(self.leaf_paths()) if self.is_traced(index)]

    def value_names(self) -> list[str]:
        """Names for the parameters of the graph: `params.w1`."""
        return [as_name(path) for path in self.traced_paths()]

    def descriptions(self) -> list[str]:
        """One line per leaf: `params['w1']: f32[784,512]`."""
        return [f"{path}: {_describe(key)}" for path, key in zip(self.leaf_paths(), self.leaf_keys, strict=True)]


def _by_reference() -> tuple[type, ...]:
    """Classes of arguments that are no trees, besides those of the user: what the function reads of them is compared at every call, as of
    the objects in its closure."""
    namespace = loaded("argparse", "Namespace")
    return (IdentityKeyed, SimpleNamespace) if namespace is None else (IdentityKeyed, SimpleNamespace, namespace)


def is_by_reference(leaf: Any) -> bool:
    """True for an argument that is taken by reference: an object of a class of the user's that is neither a number nor an array."""
    return isinstance(leaf, _by_reference()) or (
        owner_of_class(type(leaf)) is ModuleOwner.USER and type(leaf) is not StaticArgument and not is_static(leaf) and not isinstance(
            leaf, (ArrayWrapper, DeviceLeaf, TracedArray, np.ndarray, np.generic, float, complex)) and not is_foreign_array(leaf))


def flatten_call(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
                 static_names: frozenset[str] = frozenset(), context: object = None, integers: Integers = NO_INTEGERS) -> CallSignature:
    """Flatten the arguments of a call; `context` is everything else that the trace depends on. Python integers are static but for those of
    `integers`. Raises `DTypeError` or `UnsupportedError` that names an argument that cannot be traced.
    """
    if static_names:
        args, kwargs = _wrap_static(fun, args, kwargs, static_names)
    all_leaves, tree = flatten_arguments(tuple(args), kwargs)
    arrays: list[Any] = []
    keys: list[tuple[Any, ...]] = []
    wrappers: list[ArrayWrapper] = []
    foreign: list[tuple[int, str]] = []
    inputs = integers.get(tree, ()) if integers else ()
    for index, leaf in enumerate(all_leaves):
        if (type(leaf) is np.ndarray or type(leaf) in ORIGINAL_CLASS) and ((dtype := leaf.dtype) in _NATIVE or is_half(dtype)):
            arrays.append(leaf)
            keys.append((dtype, leaf.shape) if leaf.shape else (dtype, (), np.ndarray))
        elif type(leaf) is float:
            arrays.append(np.asarray(leaf))
            keys.append(_WEAK)
        elif type(leaf) is complex:
            arrays.append(np.asarray(leaf))
            keys.append(_WEAK_COMPLEX)
        elif index in inputs and is_liftable_integer(leaf):
            arrays.append(np.asarray(leaf))
            keys.append(_WEAK_INTEGER)
        elif isinstance(leaf, ArrayWrapper):
            array = leaf.array
            wrappers.append(leaf)
            arrays.append(array)
            keys.append((array.dtype, array.shape, *leaf.signature_key()))
        elif isinstance(leaf, DeviceLeaf):
            arrays.append(leaf)
            keys.append((leaf.dtype, leaf.shape, leaf.device))
        elif isinstance(leaf, _by_reference()):
            keys.append(("static", (type(leaf), id(leaf)), IdentityKeyed))
        elif type(leaf) is StaticArgument or is_static(leaf):
            value = leaf.value if type(leaf) is StaticArgument else leaf
            keys.append(("static", _static_key(value, partial(_path, fun, len(args), tree, index))))
        elif is_by_reference(leaf):
            keys.append(("static", (type(leaf), id(leaf)), IdentityKeyed))
        else:
            array = _as_array(leaf, partial(_path, fun, len(args), tree, index))
            arrays.append(array)
            if is_foreign_array(leaf) and not isinstance(leaf, (np.ndarray, np.generic)):
                foreign.append((index, type_name(type(leaf))))
            if isinstance(array, DeviceLeaf):
                keys.append((array.dtype, array.shape, array.device))
                continue
            keys.append((array.dtype, (), np.ndarray) if array.ndim == 0 and isinstance(leaf, np.ndarray) else (array.dtype, array.shape))
    leaf_keys = tuple(keys)
    bound = (id(fun.__self__),) if isinstance(fun, MethodType) else ()
    same = _repeated(wrappers) if len(wrappers) > 1 else ()       # one tensor given twice is not the same as two
    return CallSignature((tree, leaf_keys, context, *same, *bound), tuple(arrays), tuple(all_leaves), leaf_keys, tree, fun, len(args),
                         tuple(foreign), arguments=(args, kwargs))


def _repeated(wrappers: Sequence[ArrayWrapper]) -> tuple[int, ...]:
    """Index of the first occurrence of each wrapper; empty if all differ."""
    first: dict[int, int] = {}
    first_positions = tuple(first.setdefault(id(wrapper), position) for position, wrapper in enumerate(wrappers))
    return first_positions if len(first) < len(wrappers) else ()


def describe_difference(old: CallSignature, new: CallSignature) -> str:
    """Describe the difference that made a new trace necessary, in one sentence for `explain()`.

    The first differing argument is named, with what it was and what it is.
    """
    if old.tree != new.tree:
        return _describe_structure(old, new)
    for path, before, after in zip(new.leaf_paths(), old.leaf_keys, new.leaf_keys, strict=True):
        if before != after:
            if before[2:] == after[2:] == (IdentityKeyed,):
                return f"{path} is another {after[1][0].__name__}"
            what = "the static value of " if before[0] == after[0] == "static" else ""
            return f"{what}{path} changed from {_describe(before)} to {_describe(after)}"
    if old.key != new.key:
        return "the method is called on another object"
    return "nothing about the arguments changed"


def parameter_names(fun: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the first `count` positional parameters; `rest[0]`, ... for those that `*rest` takes."""
    inner: Any = getattr(fun, "__wrapped__", fun)
    if isinstance(inner, IdentityKeyed):          # a module passes on its arguments
        fun = inner.forward if hasattr(inner, "forward") else fun
    target, skip = (fun.__func__, 1) if isinstance(fun, MethodType) else (fun, 0)
    if type(target) is FunctionType and not hasattr(target, "__wrapped__"):
        code = target.__code__
        names = list(code.co_varnames[skip:code.co_argcount])
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & inspect.CO_VARARGS else "argument"
    else:
        try:
            parameters = inspect.signature(fun).parameters.values()
        except (TypeError, ValueError):
            parameters = ()         # type: ignore[assignment]
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "argument")
    return names[:count] + [f"{rest}[{i}]" for i in range(max(count - len(names), 0))]


def argument_paths(fun: Callable[..., Any], positional: int, tree: TreeSpec) -> list[str]:
    """Return the expression in the user's code for every leaf of `(args, kwargs)`."""
    names = parameter_names(fun, positional)
    result = []
    for path, accessor in zip(tree.paths(), paths(tree), strict=True):
        head = f"[{path[0]!r}][{path[1]!r}]"
        result.append((names[path[1]] if path[0] == 0 else path[1]) + accessor[len(head):])
    return result


def container_name(fun: Callable[..., Any], positional: int, tree: TreeSpec, path: Sequence[int]) -> str:
    """Return the expression in the user's code for the object at a path of positions from `(args, kwargs)`."""
    text, parent = "", tree
    for depth, position in enumerate(path):
        entry = parent.entries()[position]
        if depth == 1:
            text = parameter_names(fun, positional)[entry] if path[0] == 0 else str(entry)
        elif depth:
            text += f".{entry}" if hasattr(parent.type, "__dataclass_fields__") else f"[{entry!r}]"
        parent = parent.child(position)
    return text


def _path(fun: Callable[..., Any], positional: int, tree: TreeSpec, index: int) -> str:
    return argument_paths(fun, positional, tree)[index]


def _wrap_static(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], static: frozenset[str]) -> tuple[Any, Any]:
    names = parameter_names(fun, len(args))
    wrapped = tuple(StaticArgument(value) if name.partition("[")[0] in static else value for name, value in zip(names, args, strict=True))
    return wrapped, {name: StaticArgument(value) if name in static else value for name, value in kwargs.items()}


def _static_key(value: Any, path: Callable[[], str]) -> Any:
    """Make a hashable key that is equal only for values that act alike: 1 is not True, 0.0 not -0.0 and no float64, and NaN is NaN."""
    if isinstance(value, _INEXACT):
        return type(value), repr(value)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_static_key(item, path) for item in value)
    if isinstance(value, dict):
        return dict, tuple((_static_key(key, path), _static_key(item, path)) for key, item in value.items())
    if isinstance(value, (frozenset, set)):
        return type(value), frozenset(_static_key(item, path) for item in value)
    if type(value) is slice:
        return slice, (value.start, value.stop, value.step)
    if hasattr(type(value), "__dataclass_fields__"):        # its own equality may leave fields out, and finds 1 and 1.0 the same
        return type(value), tuple((name, _static_key(getattr(value, name, None), path)) for name in type(value).__dataclass_fields__)
    try:
        hash(value)
    except TypeError:
        raise UnsupportedError(
            f"the static argument {path()} is a {type(value).__name__}, which has no hash", find_user_location(),
            hint="static arguments are compared at every call: pass a tuple or a number, or leave it out of static=") from None
    return (type(value), _Equal(value, _content(value, path))) if _compares_by_code(value) else (type(value), value)


class _Equal(NamedTuple):
    """Static object whose class says in code of the user's which others it equals: what its attributes hold counts, too."""

    value: Any
    content: tuple[Any, ...]

    def __repr__(self) -> str:
        return repr(self.value)


def _compares_by_code(value: Any) -> bool:
    return isinstance(getattr(type(value), "__eq__", None), FunctionType) and owner_of_class(type(value)) is ModuleOwner.USER


def _content(value: Any, path: Callable[[], str]) -> tuple[Any, ...]:
    """What the attributes of an object hold: values by their keys, and other objects by identity."""
    slots = {name for kind in type(value).__mro__ for name in vars(kind) if isinstance(vars(kind)[name], MemberDescriptorType)}
    held = {**{name: getattr(value, name) for name in sorted(slots) if hasattr(value, name)}, **getattr(value, "__dict__", {})}
    return tuple((name, _static_key(item, path) if _is_plain(item) else (type(item), id(item))) for name, item in held.items())


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, tuple) else isinstance(value, _PLAIN)


def _as_array(leaf: Any, path: Callable[[], str]) -> Any:
    """Convert a leaf that is neither a plain native array nor static."""
    if isinstance(leaf, TracedArray):
        _ = leaf.value          # raises if its trace is over
        raise TraceError(f"the argument {path()} is a traced array of a trace that is still under way", find_user_location(),
                         hint="call the compiled function inside of the trace, or return the array first")
    if isinstance(leaf, (np.ndarray, np.generic)):
        dtype = check_array(leaf, lambda: f"the argument {path()}")      # type: ignore[arg-type]
        return np.asarray(leaf, dtype=dtype)
    if isinstance(leaf, (float, complex)):
        return np.asarray(leaf)
    if is_foreign_array(leaf):
        return DeviceLeaf.borrowed(leaf, path) if is_on_card(leaf) else foreign_array(leaf, path)
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
    raise UnsupportedError(
        f"the argument {path()} is a {kind}, neither an array nor a tree of arrays", find_user_location(),
        hint="have the function close over the sparse array, which is read at each call; or pass its elements, A.data, and make it of them "
        "in the function" if kind.startswith("scipy.sparse.") else
        "pass arrays, numbers, or dicts, lists, tuples and dataclasses of them; name it in static= if it is part of the program, "
        "or register the class with optree (namespace 'adjit')")


def _describe(key: tuple[Any, ...]) -> str:
    if key is _WEAK:
        return "a Python float"
    if key is _WEAK_COMPLEX:
        return "a Python complex"
    if key is _WEAK_INTEGER:
        return "a Python int"
    if key[2:] == (IdentityKeyed,):
        return f"a {key[1][0].__name__}"
    if key[0] == "static":
        return _describe_static(*key[1])
    where = " (an array)" if key[2:] == (np.ndarray,) else f" on the device {key[2]!r}" if key[2:] and isinstance(key[2], str) else ""
    return f"{TensorType(key[0], key[1])}{where}"


def _describe_static(kind: type, value: Any) -> str:
    """Describe the value that a key of `_static_key` stands for."""
    if issubclass(kind, _INEXACT):
        return str(value)
    if issubclass(kind, list):
        return f"[{', '.join(_describe_static(*item) for item in value)}]"
    if issubclass(kind, tuple):
        return f"({', '.join(_describe_static(*item) for item in value)}{',' * (len(value) == 1)})"
    if kind is dict:
        return f"{{{', '.join(f'{_describe_static(*name)}: {_describe_static(*item)}' for name, item in value)}}}"
    if issubclass(kind, (frozenset, set)):
        return f"{kind.__name__}({{{', '.join(sorted(_describe_static(*item) for item in value))}}})"
    if kind is slice:
        return f"slice{value}"
    if hasattr(kind, "__dataclass_fields__"):
        return f"{kind.__name__}({', '.join(f'{name}={_describe_static(*item)}' for name, item in value)})"
    return f"{value!r}" + (f" ({kind.__name__})" if kind is bool else "")


def _describe_structure(old: CallSignature, new: CallSignature) -> str:
    before, after = old.leaf_paths(), new.leaf_paths()
    added = [path for path in after if path not in before]
    gone = [path for path in before if path not in after]
    words = ([f"{', '.join(added)} added"] if added else []) + ([f"{', '.join(gone)} gone"] if gone else [])
    otherwise = f"from {structure_text(old.tree)} to {structure_text(new.tree)}"
    return "the structure of the arguments changed: " + ("; ".join(words) or otherwise)


def function_name(fun: Any) -> str:
    """Return the name for the graph of a function."""
    while isinstance(fun, partial):
        fun = fun.func
    return getattr(fun, "__name__", type(fun).__name__)
