"""Distributions: by a file that PyTorch wrote; draws by their moments and gradients; shapes, errors, compiled functions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.each import parametrize_within
from support.torch_distributions import CASES, GOLDEN, summary

import adjit as aj
from adjit import distributions as d
from adjit.distributions import gamma_draws
from adjit.eager import any_size

EXPECTED = json.loads(GOLDEN.read_text())


@parametrize_within("key", EXPECTED)
def test_as_pytorch(key: str) -> None:
    shape, number, gradients = summary(aj, *key.split())
    assert shape == EXPECTED[key][0]
    np.testing.assert_allclose(number, EXPECTED[key][1], 1e-8, 1e-9)
    np.testing.assert_allclose(np.nan_to_num(gradients), np.nan_to_num(EXPECTED[key][2]), 1e-7, 1e-8)


def test_the_file_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for key in EXPECTED:
        assert summary(torch, *key.split())[1] == pytest.approx(EXPECTED[key][1])


@parametrize_within("name", [name for name in CASES if name not in ("Cauchy", "HalfCauchy", "Categorical", "StudentT", "Pareto")])
def test_draws_have_the_mean_and_the_variance(name: str) -> None:
    aj.manual_seed(1)
    made = getattr(d, name)(*map(aj.tensor, CASES[name][0]))
    drawn = made.sample((4000,))
    assert drawn.shape == (4000, *made.batch_shape, *made.event_shape)
    assert not drawn.requires_grad
    mean, variance = made.mean.numpy(), made.variance.numpy()
    np.testing.assert_array_less(abs(drawn.numpy().mean(0) - mean), 5 * np.sqrt(variance / 4000) + 1e-9)
    if name != "LogNormal":
        np.testing.assert_allclose(drawn.numpy().var(0), variance, 0.25, 0.01)


@parametrize_within(("name", "params", "expected"), [
    ("Gamma", (2.5, 1.0), 1.0), ("Gamma", (0.3, 1.0), 1.0), ("Beta", (2.0, 3.0), 0.12), ("Normal", (2.0, 1.0), 1.0),
    ("Exponential", (2.0,), -0.25)])
def test_draws_have_the_gradient_of_the_mean(name: str, params: tuple[float, ...], expected: float) -> None:
    aj.manual_seed(0)
    first, *others = (aj.tensor(np.float64(param), requires_grad=True) for param in params)
    getattr(d, name)(first, *others).rsample((20000,)).mean().backward()
    assert float(first.grad) == pytest.approx(expected, abs=0.03)


def test_quantiles_are_those_of_scipy() -> None:
    special, rng = pytest.importorskip("scipy.special"), np.random.default_rng(0)
    a, u = np.concatenate([1.0 + rng.exponential(20.0, 500), 10.0 ** rng.uniform(0, 4, 500)]), rng.random(1000)
    log_x = aj.compile(gamma_draws._quantile, backend="interpret")(a, u)
    np.testing.assert_allclose(log_x, np.log(special.gammaincinv(a, u)), 1e-8, 1e-8)
    rate = 10.0 ** rng.uniform(-3, 4, 1000)
    u[:4], rate[3:5] = (0.0, 2.0**-53, 1.0 - 2.0**-53, 0.5), 0.0
    k = aj.compile(gamma_draws._poisson_quantile, backend="interpret")(u, rate)
    assert (special.pdtr(k, rate) >= u - 1e-12).all()
    assert (special.pdtr(np.maximum(k - 1, 0), rate) <= u + 1e-12)[k > 0].all()
    assert not k[[0, 3, 4]].any()


def test_draws_have_derivatives_of_two_orders() -> None:
    special = pytest.importorskip("scipy.special")
    a, u, h = np.array([1.5, 1.5, 31.9, 40.0]), np.array([0.1, 0.99, 0.5, 0.5]), np.array([1e-3, 1e-3, 1e-2, 1e-2])

    def first(a: np.ndarray) -> np.ndarray:
        return aj.grad(lambda a: gamma_draws._log_quantile(a, u).sum())(a)

    found, second = aj.compile(lambda a: aj.jvp(first, (a,), (np.ones(4),)), backend="interpret")(a)
    points = [np.log(special.gammaincinv(a + k * h, u)) for k in (-2, -1, 0, 1, 2)]
    np.testing.assert_allclose(found, (8 * (points[3] - points[1]) - points[4] + points[0]) / (12 * h), 1e-7)
    np.testing.assert_allclose(second, (points[1] - 2 * points[2] + points[3]) / h**2, 1e-3)


def test_one_program_draws_samples_of_all_shapes() -> None:
    a = aj.tensor(np.array([0.5, 3.0, 40.0]), requires_grad=True)

    def draws(rows: int) -> list[np.ndarray]:
        aj.manual_seed(3)
        drawn = d.Gamma(a, 1.0).rsample((rows,))
        drawn.sum().backward()
        return [each.detach().numpy() for each in (drawn, d.Gamma(a.detach(), 1.0).sample((rows,)), d.Poisson(a.detach()).sample((rows,)))]

    expected = draws(25)
    traced = any_size._graph.cache_info().misses
    for rows in (21, 20, 1, 0):     # of which the last ones fill no chunk
        for drawn, first in zip(draws(rows), expected, strict=True):
            np.testing.assert_array_equal(drawn, first[:rows])
    assert any_size._graph.cache_info().misses == traced


def test_batches_and_events() -> None:
    made = d.Independent(d.Normal(aj.zeros(2, 3), aj.ones(2, 3)), 1)
    assert (made.batch_shape, made.event_shape, made.rsample((4,)).shape) == ((2,), (3,), (4, 2, 3))
    assert made.log_prob(aj.zeros(2, 3)).shape == (2,)
    assert made.expand((5, 2)).batch_shape == (5, 2)
    assert d.kl_divergence(made, made).tolist() == [0.0, 0.0]
    mixture = d.MixtureSameFamily(d.Categorical(aj.ones(3)), d.Independent(d.Normal(aj.zeros(3, 2), aj.ones(3, 2)), 1))
    assert (mixture.sample((7,)).shape, mixture.log_prob(aj.zeros(7, 2)).shape) == ((7, 2), (7,))
    squashed = d.TransformedDistribution(d.Normal(aj.zeros(2), aj.ones(2)), [d.TanhTransform(), d.AffineTransform(1.0, 2.0)])
    x = squashed.rsample((3,))
    inner = ((x - 1.0) / 2.0).atanh()
    expected = d.Normal(0.0, 1.0).log_prob(inner) - np.log(2.0) - (1 - inner.tanh() ** 2).log()
    np.testing.assert_allclose(squashed.log_prob(x).numpy(), expected.numpy(), 1e-4, 1e-4)
    binomial = d.Binomial(5, aj.tensor([0.25, 0.5]))
    assert binomial.enumerate_support().shape == (6, 2)
    np.testing.assert_allclose(binomial.log_prob(binomial.enumerate_support()).exp().sum(0).numpy(), 1.0, 1e-6)


def test_a_transform_keeps_what_it_was_given_last() -> None:
    """Its inverse is infinite where the result was rounded: actions of a policy that has learnt to act at the bounds."""
    policy = d.TransformedDistribution(d.Normal(aj.tensor([30.0]), aj.ones(1)), [d.transforms.TanhTransform(cache_size=1)])
    action = policy.rsample()
    assert bool(policy.log_prob(action).isfinite()) is True
    assert bool(policy.log_prob(action.clone()).isfinite()) is False


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Expected parameter scale .* to satisfy the constraint positive"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match=r"Expected value argument .* within the support"):
        d.Bernoulli(0.5).log_prob(aj.tensor(2.0))
    with pytest.raises(ValueError, match="either probs or logits"):
        d.Categorical()
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\)"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Poisson(1.0))
    assert d.Bernoulli(0.5, validate_args=False).log_prob(aj.tensor(2.0)).shape == ()


def test_compiled_policy_gradient() -> None:
    logits = aj.zeros(3).requires_grad_()

    def step(action: aj.Tensor) -> tuple[aj.Tensor, ...]:
        policy = d.Categorical(logits=logits)
        normal = d.Normal(logits[0], 1.0)
        loss = -policy.log_prob(action) + 0.1 * policy.entropy() + normal.rsample() * 0.0
        loss.backward()
        return loss, policy.sample((5,))

    loss, drawn = aj.compile(step)(aj.tensor(1))
    assert float(loss.detach()) == pytest.approx(np.log(3) * 1.1, abs=1e-5)
    np.testing.assert_allclose(logits.grad.numpy(), [1 / 3, -2 / 3, 1 / 3], 1e-5)
    assert set(drawn.tolist()) <= {0, 1, 2}
