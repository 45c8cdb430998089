"""PyTorch programs as people write them, thirty of them. Each file is one: `main()` returns the numbers that it found.

`run(name, "adjit")` runs the file with its imports changed, and nothing else: `import torch` becomes `import adjit as torch`, and
`from torch.nn import functional` becomes `from adjit.nn import functional`. `@compiled` stands where a program has `torch.compile`.
`PYTHONPATH=tests python tests/support/pytorch_programs/__init__.py`, with PyTorch installed, writes PyTorch's numbers to `GOLDEN`.
"""

from __future__ import annotations

import builtins
import json
import linecache
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
GOLDEN = FOLDER.parent.parent / "programs" / "golden" / "pytorch_programs.json"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
_compile: list[Callable[..., Any]] = []
_devices: list[str] = []        # where modules are


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled where the program runs compiled."""
    return _compile[-1](function) if _compile else function


def draws(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers that are the same for both libraries."""
    return np.random.default_rng(seed).standard_normal(shape)


def filled(module: Any, seed: int) -> Any:
    """The module, its parameters filled with numbers that are the same for both libraries."""
    rng = np.random.default_rng(seed)
    module = module.to(_devices[-1]) if _devices else module
    for parameter in module.parameters():
        parameter.data.copy_(parameter.data.new_tensor(0.4 * rng.standard_normal(tuple(parameter.shape))))
    return module


def run(name: str, library: str, compile: Callable[..., Any] | None = None, on_device: bool = False) -> dict[str, list[float]]:
    """The numbers that a program finds with `torch` or `adjit`, by name; `compile` is what `@compiled` does. `on_device`: tensors and
    modules are made on the device "cuda"."""
    path = FOLDER / f"{name}.py"
    source = with_import_of(path.read_text(), library)
    module = ModuleType(f"{name}_with_{library}")
    module.__file__ = f"{path}:{library}"
    if on_device:
        source = re.sub(rf"^import {library} as torch$", "torch = _torch", source, flags=re.MULTILINE)
        source = source.replace(".numpy()", ".cpu().numpy()")
        module.__dict__["_torch"] = _OnDevice(library)
        _devices.append("cuda")
    linecache.cache[module.__file__] = len(source), None, source.splitlines(keepends=True), module.__file__
    if compile is not None:
        _compile.append(compile)
    try:
        exec(builtins.compile(source, module.__file__, "exec"), module.__dict__)
        return numbers(module.main())
    finally:
        if compile is not None:
            _compile.pop()
        if on_device:
            _devices.pop()


_MAKERS = ("tensor", "Tensor", "FloatTensor", "LongTensor", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "randperm",
           "arange", "linspace", "eye", "from_numpy", "as_tensor")


class _OnDevice(ModuleType):
    """A library whose functions that make tensors make them on the device "cuda"."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self.__name__), name)
        return partial(_made, found) if name in _MAKERS else found


def _made(make: Callable[..., Any], *args: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
    tensor = make(*args, **kwargs).to("cuda")
    return tensor.requires_grad_() if requires_grad else tensor


def with_import_of(source: str, library: str) -> str:
    """A program's text with imports of torch changed to those of a library."""
    for pattern, changed in ((r"^import torch$", f"import {library} as torch"),
                             (r"^import torch\.([\w.]+) as", rf"import {library}.\1 as"),
                             (r"^from torch\b", f"from {library}")):
        source = re.sub(pattern, changed, source, flags=re.MULTILINE)
    return source


def numbers(value: Any, path: str = "") -> dict[str, list[float]]:
    """All numbers in nested results, by their place; of large arrays the first few, and sums with fixed weights."""
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)) and not all(isinstance(item, (int, float)) for item in value):
        items = enumerate(value)        # type: ignore[assignment]
    else:
        return {path: _summary(np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value, np.float64).ravel())}
    found: dict[str, list[float]] = {}
    for key, item in items:
        found |= numbers(item, f"{path}.{key}" if path else str(key))
    return found


def _summary(values: np.ndarray) -> list[float]:
    if values.size <= 12:
        return values.tolist()
    order = np.arange(values.size)
    return [*values[:4].tolist(), *(float(values @ np.cos((k + 1) * order)) for k in range(4)), float(np.abs(values).sum())]


if __name__ == "__main__":
    found = {name: {key: [float(f"{number:.9g}") for number in row] for key, row in run(name, "torch").items()} for name in NAMES}
    GOLDEN.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.items()) + "\n}\n")
