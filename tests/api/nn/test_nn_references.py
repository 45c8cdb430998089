"""Functions and modules of `nn` against numbers that PyTorch gave for the same inputs: values, gradients, second order, names of states.

`tests/support/pytorch_references.py` makes the numbers; where PyTorch is installed, they are compared with it too.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support.project import TESTS
from support.pytorch_cases import CASES, Case, Library, leaves, outcome, weights

import adjit as aj

REFERENCES: dict[str, dict[str, Any]] = json.loads((TESTS / "api" / "nn" / "pytorch_references.json").read_text())
ADJIT = Library(aj.nn, aj.nn.functional, aj.tensor, aj.autograd.grad, aj.nn.functional.log_softmax)


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for key, numbers in expected.items():
        if key in ("values", "gradients", "second", "buffers"):
            for mine, other in zip(found[key], numbers, strict=True):
                np.testing.assert_allclose(mine or 0.0, other or 0.0, 1e-9, 1e-10, err_msg=key)
        else:
            assert found[key] == numbers, key


def test_every_case_has_numbers() -> None:
    assert [case.title for case in CASES] == list(REFERENCES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_like_pytorch(case: Case) -> None:
    expected = REFERENCES[case.title]
    assert_same(outcome(case, ADJIT, "second" in expected), expected)


def test_numbers_are_those_of_the_installed_pytorch() -> None:
    pytest.importorskip("torch")
    from support.pytorch_references import references
    for title, expected in references().items():
        if not title.startswith(AT_KINKS):
            found = {key: numbers for key, numbers in REFERENCES[title].items() if key != "second" or key in expected}
            assert_same(found, json.loads(json.dumps(expected)))      # PyTorch 2.13 has no second derivative of pdist


AT_KINKS = "margin_ranking_loss (3,)"
"""A case at the bound of `clamp`, where the derivative is 0 in PyTorch 2.14 and here, 1 in versions before it."""


COMPILED = ("adaptive_max_pool2d", "avg_pool3d", "max_pool3d", "ctc_loss", "embedding_bag", "pdist", "conv_transpose3d")
"""Functions whose kernels are compiled, all in one program."""


def test_compiled() -> None:
    """One program with a case of each of these functions, and all gradients, gives what they give one by one."""
    chosen = {case.name: case for case in CASES if case.name in COMPILED}
    inputs = {name: [x for x in case.inputs if x.dtype.kind == "f"] for name, case in chosen.items()}

    def everything(arrays: dict[str, list[aj.Tensor]]) -> Any:
        total: Any = 0.0
        for name, case in chosen.items():
            options = {key: aj.tensor(value) if isinstance(value, np.ndarray) else value for key, value in case.options.items()}
            function = getattr(aj.nn.functional, name)
            results = leaves(case.run(ADJIT, function, *arrays[name], **options) if case.run else function(*arrays[name], **options))
            total = total + sum((x * aj.tensor(weights(x.shape, 3))).sum() for x in results if x.requires_grad)
        flat = [x for several in arrays.values() for x in several]
        return total, aj.autograd.grad(total, flat)

    def tensors() -> dict[str, list[aj.Tensor]]:
        return {name: [aj.tensor(x, requires_grad=True) for x in several] for name, several in inputs.items()}

    expected, found = everything(tensors()), aj.compile(everything)(tensors())
    np.testing.assert_allclose(found[0].detach().numpy(), expected[0].detach().numpy(), 1e-11)
    for mine, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-11, 1e-11)
