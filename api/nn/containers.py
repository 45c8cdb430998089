"""Modules that hold modules or parameters: `Sequential`, `ModuleList`, `ModuleDict`, `ParameterList`, `ParameterDict`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, overload

from adjit.eager.tensor import Tensor
from adjit.nn.module import Kind, Module, tree_text
from adjit.nn.parameter import Parameter

Item = TypeVar("Item")


class _Items(Module, Generic[Item]):
    """Attributes "0", "1", ... as a list."""

    _kind: Kind

    def _items(self) -> list[Any]:
        values = self.__dict__
        return [values[name] for name, kind in self._kinds.items() if kind is self._kind]

    def _set_items(self, items: Iterable[Any]) -> None:
        """Replace the items by others."""
        items = list(items)
        for name in [name for name, kind in self._kinds.items() if kind is self._kind]:
            delattr(self, name)
        for index, item in enumerate(items):
            self._add_item(str(index), item)

    def _add_item(self, name: str, item: Any) -> None:
        self.add_module(name, item)

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items())

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Any:
        items = self._items()
        return type(self)(items[index]) if isinstance(index, slice) else items[self._index(index)]      # type: ignore[call-arg]

    def __setitem__(self, index: int, item: Any) -> None:
        names = [name for name, kind in self._kinds.items() if kind is self._kind]
        setattr(self, names[self._index(index)], item)

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        del items[index]
        self._set_items(items)

    def _index(self, index: Any) -> int:
        number, count = operator.index(index), len(self)
        if not -count <= number < count:
            raise IndexError(f"index {number} of a {type(self).__name__} of {count}")
        return number % count

    def append(self, item: Any) -> Self:
        """Add an item at the end; returns the container."""
        self._add_item(str(len(self)), item)
        return self

    def extend(self, items: Iterable[Any]) -> Self:
        """Add several items at the end; returns the container."""
        for item in list(items):
            self.append(item)
        return self

    def insert(self, index: int, item: Any) -> Self:
        """Insert an item before the one at `index`; returns the container."""
        items = self._items()
        items.insert(index, item)
        self._set_items(items)
        return self

    def __iadd__(self, items: Iterable[Any]) -> Self:
        return self.extend(items)


class Sequential(_Items[Module]):
    """Modules in sequence, each called with the previous one's result. Takes modules, or a dict of them by name.

    >>> from adjit.nn import Linear, ReLU
    >>> Sequential(Linear(4, 3), ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    _kind = Kind.MODULE

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(modules):
                if not isinstance(module, Module):
                    raise TypeError(_no_module(index, module))
            self._set_items(modules)

    def forward(self, x: Any) -> Tensor:
        """The result of the last module."""
        for module in self._items():
            x = module(x)
        return x

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return super().__getitem__(index)
        made = type(self)()
        for name, module in list(self._registered(Kind.MODULE))[index]:
            made.add_module(name, module)
        return made


def _no_module(index: int, given: Any) -> str:
    text = f"Sequential takes modules, number {index} is "
    if isinstance(given, (list, tuple)):
        return f"{text}a {type(given).__name__}: write Sequential(*modules)"
    if isinstance(given, type):
        return f"{text}the class {given.__name__}: write {given.__name__}(...)"
    return f"{text}a {type(given).__name__}"


class ModuleList(_Items[Module]):
    """List of modules, all of them registered.

    >>> from adjit.nn import Linear
    >>> ModuleList(Linear(2, 2) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    _kind = Kind.MODULE

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self._set_items(modules or ())

    def __repr__(self) -> str:
        runs: list[list[Any]] = []      # equal consecutive texts: first and last number, text
        for index, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = index
            else:
                runs.append([index, index, text])
        lines = [f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}" for first, last, text in runs]
        return tree_text(type(self).__name__, "", [line.replace("\n", "\n  ") for line in lines])


class ParameterList(_Items[Parameter]):
    """List of parameters, all of them registered; other tensors become parameters.

    >>> import adjit
    >>> ParameterList([adjit.ones(2), adjit.zeros(3, 2)])
    ParameterList(
      (0): Parameter containing: [float32 of size 2]
      (1): Parameter containing: [float32 of size 3x2]
    )
    """

    _kind = Kind.PARAMETER

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._set_items(values or ())

    def _add_item(self, name: str, item: Any) -> None:
        self.register_parameter(name, item if isinstance(item, Parameter) else Parameter(item))

    def __setitem__(self, index: int, item: Any) -> None:
        super().__setitem__(index, item if isinstance(item, Parameter) else Parameter(item))

    def __repr__(self) -> str:
        return tree_text("ParameterList", "", [f"({index}): {_of(parameter)}" for index, parameter in enumerate(self)])


def _of(parameter: Tensor) -> str:
    size = "x".join(map(str, parameter.shape))
    return f"Parameter containing: [{parameter.dtype}{f' of size {size}' if size else ''}]"


class _Named(Module, Generic[Item]):
    """Base of dicts of modules and of parameters: registered attributes of one kind, by their names."""

    _kind: Kind

    def __getitem__(self, key: str) -> Item:
        if self._kinds.get(key) is not self._kind:
            raise KeyError(key)
        return self.__dict__[key]       # type: ignore[no-any-return]

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self.keys())

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """Return the names."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Item]:
        """Return the modules or parameters."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[str, Item]]:
        """Return pairs of name and module or parameter."""
        return list(self._registered(self._kind))


class ModuleDict(_Named[Module]):
    """Dict of modules, all of them registered; keys are strings without ".".

    >>> from adjit.nn import Linear
    >>> heads = ModuleDict({"mean": Linear(3, 1), "scale": Linear(3, 1)})
    >>> list(heads), heads["mean"]
    (['mean', 'scale'], Linear(in_features=3, out_features=1, bias=True))
    """

    _kind = Kind.MODULE

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, or replace modules of the same names."""
        for key, module in modules.items() if isinstance(modules, Mapping) else modules:
            self.add_module(key, module)

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module


class ParameterDict(_Named[Parameter]):
    """Dict of parameters, all of them registered; other tensors become parameters. Keys are strings without ".".

    >>> import adjit
    >>> ParameterDict({"scale": adjit.ones(2), "shift": adjit.zeros(2)})
    ParameterDict(
      (scale): Parameter containing: [float32 of size 2]
      (shift): Parameter containing: [float32 of size 2]
    )
    """

    _kind = Kind.PARAMETER

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def __setitem__(self, key: str, value: Any) -> None:
        self.register_parameter(key, value if isinstance(value, Parameter) else Parameter(value))

    def update(self, parameters: Mapping[str, Any]) -> None:
        """Add parameters, or replace parameters of the same names."""
        for key, value in parameters.items():
            self[key] = value

    def __repr__(self) -> str:
        return tree_text("ParameterDict", "", [f"({key}): {_of(parameter)}" for key, parameter in self.items()])
