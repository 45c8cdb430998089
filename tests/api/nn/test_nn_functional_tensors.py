"""adjit.nn.functional with tensors: the same values and gradients as with arrays, and dropout by the default generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_nn_functional
import test_nn_functional_layers
from support.nn_checks import Case

import adjit as aj
from adjit.eager.generator import manual_seed
from adjit.eager.tensor import Tensor, tensor
from adjit.nn import functional as F

CASES: dict[str, Case] = test_nn_functional.CASES | test_nn_functional_layers.CASES


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_tensors_are_those_of_arrays(name: str) -> None:
    function, _, arrays = CASES[name]
    leaves = [tensor(array, requires_grad=True) for array in arrays]
    result = function(*leaves)
    assert isinstance(result, Tensor)
    np.testing.assert_allclose(result.detach().numpy(), function(*arrays), rtol=1e-13, atol=1e-13)
    cotangent = np.random.default_rng(0).standard_normal(result.shape)
    result.backward(tensor(cotangent))
    gradient_of = aj.grad(lambda *xs: np.sum(function(*xs) * cotangent), argnums=tuple(range(len(arrays))))
    for leaf, gradient in zip(leaves, aj.compile(gradient_of, backend="interpret")(*arrays), strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(leaf.grad.numpy(), gradient, rtol=1e-12, atol=1e-12)


def test_dropout_takes_keys_of_the_default_generator() -> None:
    x = np.ones(1000, np.float32)
    manual_seed(7)
    first, second = F.dropout(x), F.dropout(x, 0.25)
    assert set(first.tolist()) == {0.0, 2.0}
    assert 0.2 < (second == 0).mean() < 0.3
    assert not np.array_equal(first, F.dropout(x))
    manual_seed(7)
    np.testing.assert_array_equal(F.dropout(x), first)
    leaf = tensor(x, requires_grad=True)
    manual_seed(7)
    F.dropout(leaf).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), first)


@pytest.mark.parametrize("options", [{"training": False}, {"p": 0.0}])
def test_dropout_that_does_nothing_needs_no_random_number(options: dict[str, Any]) -> None:
    manual_seed(7)
    expected = F.dropout(np.ones(10))
    manual_seed(7)
    x = np.ones(10)
    assert F.dropout(x, **options) is x
    np.testing.assert_array_equal(F.dropout(x), expected)


def test_compiled_dropout_draws_anew_in_each_call() -> None:
    x = np.ones(1000, np.float32)
    manual_seed(7)
    expected = [F.dropout(x), F.dropout(x)]
    manual_seed(7)
    compiled = aj.compile(lambda x: F.dropout(x), backend="interpret")
    for array in expected:
        np.testing.assert_array_equal(compiled(x), array)


def test_a_differentiated_function_is_given_its_key() -> None:
    manual_seed(7)
    with pytest.raises(aj.errors.TraceError, match=r"inside of a differentiated function\n.*\n.*\n +pass a key of adjit.random"):
        aj.grad(lambda x: np.sum(F.dropout(x)))(np.ones(3))
    first = F.dropout(np.ones(100))
    manual_seed(7)
    np.testing.assert_array_equal(F.dropout(np.ones(100)), first)


def test_attention_takes_a_key_of_the_default_generator() -> None:
    q, k, v = np.zeros((1, 2)), np.zeros((100, 2)), np.eye(100)
    manual_seed(7)
    first = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    manual_seed(7)
    np.testing.assert_allclose(F.dropout(np.full((1, 100), 0.01)), first)
    assert not np.array_equal(F.scaled_dot_product_attention(q, k, v, dropout_p=0.5), first)
