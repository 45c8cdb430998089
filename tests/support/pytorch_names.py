"""Writes `docs/pytorch_names.json`, the public names of the installed PyTorch: `python tests/support/pytorch_names.py`.

`docs/make_torch_page.py` compares adjit with them, without PyTorch.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributions
import torch.nn.utils.parametrizations
import torch.nn.utils.parametrize

FILE = Path(__file__).resolve().parent.parent.parent / "docs" / "pytorch_names.json"
HELPERS = ("Optional", "assert_int_or_pair", "boolean_dispatch", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
           "has_torch_function_variadic", "common_notes", "Tensor", "variable", "Variable")
"""Names that PyTorch's modules import or deprecate, and that are no part of them."""


def public(home: Any, wanted: Callable[[str, Any], bool]) -> list[str]:
    return [name for name in dir(home) if name[0] != "_" and name not in HELPERS and wanted(name, getattr(home, name, None))]


def named(home: Any, names: Iterable[str] | None = None) -> list[str]:
    """What a module lists in `__all__`, modules aside."""
    return sorted(name for name in names or home.__all__ if name not in HELPERS and not isinstance(getattr(home, name), ModuleType))


def is_function(name: str, value: Any) -> bool:
    """True for a function of PyTorch that is not the in-place twin of another one."""
    return callable(value) and not inspect.isclass(value) and name[0].islower() and not name.endswith("_")


def sections() -> dict[str, list[str]]:
    """Public names by module."""
    nn, utils = torch.nn, torch.nn.utils
    return {
        "nn": public(nn, lambda name, value: inspect.isclass(value)),
        "nn.functional": public(nn.functional, is_function),
        "nn.init": [name for name in named(nn.init) if name.endswith("_") or name == "calculate_gain"],
        "nn.utils": named(utils), "nn.utils.rnn": named(utils.rnn), "nn.utils.parametrize": named(utils.parametrize),
        "nn.utils.parametrizations": named(utils.parametrizations),
        "optim": named(torch.optim), "optim.lr_scheduler": named(torch.optim.lr_scheduler),
        "optim.swa_utils": named(torch.optim.swa_utils),
        "autograd": named(torch.autograd), "autograd.functional": named(torch.autograd.functional), "func": named(torch.func),
        "linalg": public(torch.linalg, is_function), "special": named(torch.special), "fft": named(torch.fft),
        "distributions": named(torch.distributions),
        "Tensor": public(torch.Tensor, lambda name, value: True),
        "torch": public(torch, is_function),
    }


if __name__ == "__main__":
    lines = (f"{json.dumps(section)}: {json.dumps(names)}" for section, names in sections().items())
    version = torch.__version__.partition("+")[0]
    FILE.write_text(f'{{"version": "{version}", "names": {{\n' + ",\n".join(lines) + "\n}}\n")
