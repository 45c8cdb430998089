"""`compile` of a module: the result is a module with the parameters, names and modes of the original; only calls differ."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from adjit.runtime.compiled import CompiledFunction, make_compiled

_OWN = frozenset({"compile_options", "fun", "_cache", "_compiling", "_integers", "_is_native", "_rows"})


_REPORTS = ("as_callable", "cache_info", "clear_cache", "explain", "export", "ir", "kernels", "memory", "profile", "report")
"""Methods of compiled functions that a compiled module has."""


def _is_own(name: str) -> bool:
    """True if an attribute belongs to the compiled function; all other attributes belong to the module."""
    return name in _OWN or (name.startswith("__") and name.endswith("__"))


class CompiledModule(CompiledFunction[..., Any]):
    """A compiled module. Everything except its calls and reports belongs to the original module. So a module that contains it trains and
    saves the original's parameters, under names without a prefix: checkpoints are compatible with and without `compile`.

    It passes for an instance of the module's class, and its `vars` are those of the module: tools that inspect modules see the original.

    >>> from adjit.nn import Linear, Module, Sequential
    >>> from adjit.runtime.compile_function import compile
    >>> model = Sequential(compile(Linear(3, 2)))
    >>> isinstance(model[0], Module), list(model.state_dict())
    (True, ['0.weight', '0.bias'])
    >>> print(model)
    Sequential(
      (0): compiled Linear(in_features=3, out_features=2, bias=True)
    )
    """

    @property       # type: ignore[misc]
    def __class__(self) -> type:        # type: ignore[override]
        """The class of the module, for `isinstance`; `type` returns the real class."""
        return type(self.fun)

    @property
    def __dict__(self) -> dict[str, Any]:       # type: ignore[misc, override]
        return vars(self.fun)

    def __getattr__(self, name: str) -> Any:
        if _is_own(name):
            raise AttributeError(f"a {CompiledModule.__name__} has no attribute {name!r}", name=name, obj=self)
        return getattr(self.fun, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_own(name):
            object.__setattr__(self, name, value)
        else:
            setattr(self.fun, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.fun, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_REPORTS, *dir(self.fun)})

    def __repr__(self) -> str:
        return f"compiled {self.fun!r}"

    def __copy__(self) -> Any:
        return make_compiled(copy.copy(self.fun), self.compile_options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return make_compiled(copy.deepcopy(self.fun, memo), self.compile_options)

    def __reduce__(self) -> tuple[Any, ...]:
        return make_compiled, (self.fun, self.compile_options)

    # -- containers

    def __bool__(self) -> bool:
        return bool(self.fun)

    def __len__(self) -> int:
        return len(self.fun)        # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fun)       # type: ignore[call-overload, no-any-return]

    def __contains__(self, item: object) -> bool:
        return item in self.fun     # type: ignore[operator]

    def __getitem__(self, index: Any) -> Any:
        return self.fun[index]      # type: ignore[index]

    def __setitem__(self, index: Any, item: Any) -> None:
        self.fun[index] = item      # type: ignore[index]

    def __delitem__(self, index: Any) -> None:
        del self.fun[index]         # type: ignore[attr-defined]
