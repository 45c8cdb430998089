"""`np.einsum` of two operands is a sum of products, also where an operand is summed first: NaN wherever inf meets -inf, or 0 meets inf."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.backends import BACKENDS
from support.tracing import run_traced

import adjit as aj

SPECS = ["ab,gb->b", "ab,b->b", "ab,bc->c", "ab,bc->", "a,b->", "ab,cb->ac", "ab,cd->", "ab,bc->ac", "abc,bd->d", "abc,cd->bd", "ab,ab->",
         "aab,bc->", "ab,->b", "abx,cbx->xb", "ab,b->"]
NUMBERS = [1.0, -1.0, 2.0, 0.5, 0.0, np.inf, -np.inf, np.nan]


def sum_of_products(spec: str, *operands: np.ndarray) -> np.ndarray:
    """The definition. NumPy's own loops take a factor out of a sum where they can, and have inf then, too."""
    left, _, output = spec.partition("->")
    inputs = left.split(",")
    sizes = {label: size for labels, x in zip(inputs, operands, strict=True) for label, size in zip(labels, x.shape, strict=True)}
    total = np.zeros([sizes[label] for label in output])
    with np.errstate(invalid="ignore"):
        for place in itertools.product(*map(range, sizes.values())):
            at = dict(zip(sizes, place, strict=True))
            factors = [x[tuple(at[label] for label in labels)] for labels, x in zip(inputs, operands, strict=True)]
            total[tuple(at[label] for label in output)] += np.prod(factors)
    return total


@pytest.mark.share(5)
@pytest.mark.parametrize("spec", SPECS)
def test_infinities_are_those_of_the_sum_of_products(spec: str) -> None:
    random = np.random.default_rng(1)
    met = set()
    for trial in range(40):
        inputs = spec.partition("->")[0].split(",")
        sizes = {label: int(random.integers(1, 4)) for label in "abcdgx"}
        chances = [0.2, 0.1, 0.2, 0.2, 0.08, 0.12, 0.08, 0.02]
        operands = [random.choice(NUMBERS, [sizes[label] for label in labels], p=chances) for labels in inputs]
        if trial % 2:
            operands = [np.abs(x) for x in operands]
        expected = sum_of_products(spec, *operands)
        np.testing.assert_allclose(run_traced(lambda *xs: np.einsum(spec, *xs), *operands), expected, rtol=1e-14)
        met.update(np.select([np.isnan(expected), np.isinf(expected)], [np.nan, np.inf], 0.0).reshape(-1).astype(str).tolist())
    assert met == {"nan", "inf", "0.0"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_product_of_sums_is_not_infinite(backend: str) -> None:
    x = np.array([[np.inf], [-1.0]])

    def fun(x):
        return np.einsum("ab,gb->b", x, x)

    with np.errstate(invalid="ignore"):
        assert np.isnan(fun(x)).all()
    assert np.isnan(aj.compile(fun, backend=backend)(x)).all()
    tensor = aj.tensor(x, requires_grad=True)
    result = np.einsum("ab,gb->b", tensor, tensor)
    result.sum().backward()
    assert np.isnan(result.detach().numpy()).all()
    assert np.isnan(tensor.grad.numpy()).any()


def test_gradients_of_finite_numbers_are_exact() -> None:
    a, b = np.arange(6.0).reshape(2, 3) - 2, np.arange(12.0).reshape(3, 4) - 5
    for_a, for_b = aj.grad(lambda a, b: np.sum(np.einsum("ab,bc->c", a, b)), argnums=(0, 1))(a, b)
    np.testing.assert_array_equal(for_a, np.broadcast_to(b.sum(1), (2, 3)))
    np.testing.assert_array_equal(for_b, np.broadcast_to(a.sum(0)[:, None], (3, 4)))
