"""Writes `tests/api/nn/pytorch_references.json`, what the installed PyTorch gives for all cases.

`python tests/support/pytorch_references.py`, after a change of `tests/support/pytorch_cases.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from support.pytorch_cases import CASES, Case, Library, outcome  # noqa: E402

FILE = TESTS / "api" / "nn" / "pytorch_references.json"
PYTORCH = Library(torch.nn, torch.nn.functional, lambda x, **options: torch.tensor(x, **options), torch.autograd.grad, torch.log_softmax)


def references() -> dict[str, dict[str, Any]]:
    return {case.title: of(case) for case in CASES}


def of(case: Case) -> dict[str, Any]:
    """What PyTorch gives: of functions with second derivatives, unless it has none."""
    try:
        return outcome(case, PYTORCH, twice=case.settings is None)
    except (RuntimeError, NotImplementedError):
        return outcome(case, PYTORCH, twice=False)


if __name__ == "__main__":
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(title)}: {json.dumps(found)}" for title, found in references().items()) + "\n}\n")
