"""adjit.nn.functional against formulas and loops in plain NumPy, its derivatives against finite differences; and with tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import nn_functions, nn_layers
from support.backends import COMPILING
from support.each import parametrize_within
from support.nn_checks import Case, check_derivative, check_kernels, check_second_derivative, check_value
from support.nn_functions import LABELS, X

import adjit as aj
from adjit.eager.generator import manual_seed
from adjit.eager.tensor import Tensor, tensor
from adjit.nn import functional as F

CASES: dict[str, Case] = nn_functions.CASES | nn_layers.CASES


@parametrize_within("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_value_on_plain_arrays_and_compiled(name: str, dtype: type) -> None:
    check_value(CASES[name], dtype)


@pytest.mark.parametrize("name", CASES)
def test_derivative_against_finite_differences(name: str) -> None:
    check_derivative(CASES[name])


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
def test_second_derivative_against_finite_differences(name: str) -> None:
    check_second_derivative(CASES[name])


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("backend", COMPILING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cases", [nn_functions.CASES, nn_layers.CASES], ids=["functions", "layers"])
def test_kernels_agree_with_the_interpreter(cases: dict[str, Case], dtype: type, backend: str, exhaustive: bool) -> None:
    """With numba, which takes a tenth of a second for a kernel, one function in six."""
    names = [name for name in cases if name != "cross_entropy map"]
    if backend == "numba" and not exhaustive:
        names = names[dtype is np.float32 :: 6]
    check_kernels({name: cases[name] for name in names}, dtype, backend)


def derivative(function: Callable[[Any], Any], at: float) -> float:
    return float(aj.grad(function)(np.float64(at)))


def test_relu_at_the_kink_and_nan() -> None:
    assert derivative(F.relu, 0.0) == 0.0
    assert derivative(F.relu, -0.0) == 0.0
    assert derivative(F.relu, 1e-300) == 1.0
    np.testing.assert_array_equal(F.relu(np.array([np.nan, -np.inf, np.inf])), [np.nan, 0.0, np.inf])


def test_extreme_arguments_are_stable() -> None:
    huge = np.array([-1e4, 0.0, 1e4])
    np.testing.assert_array_equal(F.sigmoid(huge), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(F.softplus(huge), [0.0, np.log(2), 1e4])
    np.testing.assert_array_equal(F.softmax(huge), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(F.log_softmax(huge), [-2e4, -1e4, 0.0])
    assert F.logsumexp(huge) == 1e4
    assert F.logsumexp(np.full(3, -np.inf)) == -np.inf
    assert F.cross_entropy(huge, np.array(0)) == 2e4
    assert F.binary_cross_entropy_with_logits(huge, np.array([0.0, 0.0, 1.0]), reduction="sum") == np.log(2)
    for function in (F.sigmoid, F.softplus, F.softmax, F.log_softmax, F.silu, F.gelu, lambda x: F.cross_entropy(x, np.array(0))):
        assert np.isfinite(aj.grad(lambda x, f=function: np.sum(f(x)))(huge)).all()
    np.testing.assert_allclose(aj.grad(lambda x: np.sum(F.softplus(x)))(huge), [0.0, 0.5, 1.0])


def test_softplus_is_exact_at_the_threshold() -> None:
    assert derivative(lambda x: F.softplus(x, threshold=1.0), 1.0) == pytest.approx(1 / (1 + np.exp(-1.0)))


@pytest.mark.parametrize("label", [-1, 5])
def test_label_out_of_range_is_nan_there_only_where_it_is_compiled(label: int) -> None:
    labels = np.array([0, label, 2, 2])
    loss = aj.compile(lambda x, labels: F.cross_entropy(x, labels, reduction="none"))(X, labels)
    assert np.isnan(loss).tolist() == [False, True, False, False]
    assert np.isnan(aj.compile(F.nll_loss)(X, labels))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64])
def test_one_hot(dtype: type) -> None:
    np.testing.assert_array_equal(F.one_hot(np.array([[1], [0]], dtype), 3), np.eye(3)[[[1], [0]]])
    assert F.one_hot(np.array([1], dtype), 3).dtype == np.int64
    assert F.one_hot(np.array([1], dtype), 3, np.float32).dtype == np.float32
    np.testing.assert_array_equal(aj.compile(lambda labels: F.one_hot(labels, 3))(np.array([9], dtype)), np.zeros((1, 3)))
    assert F.one_hot(np.zeros((0, 2), dtype), 3).shape == (0, 2, 3)


def test_integer_target_of_mse_keeps_the_dtype() -> None:
    assert F.mse_loss(np.ones(3, np.float32), np.arange(3)).dtype == np.float32


def test_dropout() -> None:
    x = np.ones(20000, np.float32)
    out = F.dropout(x, 0.25, key=aj.random.key(1))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out[out != 0], 1 / 0.75, rtol=1e-6)
    assert abs((out == 0).mean() - 0.25) < 0.015
    np.testing.assert_array_equal(F.dropout(x, 0.0, key=aj.random.key(1)), x)
    np.testing.assert_array_equal(F.dropout(x, 1.0, key=aj.random.key(1)), 0 * x)
    gradient = aj.grad(lambda x: np.sum(F.dropout(x, 0.25, key=aj.random.key(1))))(x)
    np.testing.assert_array_equal(gradient, out)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: F.relu(np.arange(3)), aj.errors.DTypeError, "relu takes floating-point arrays, got int64"),
    (lambda: F.gelu(X, "fast"), ValueError, "'none' or 'tanh'"),
    (lambda: F.layer_norm(X, 4), aj.errors.ShapeError, r"normalized_shape \(4,\) is not the end of the shape \(4, 5\)"),
    (lambda: F.layer_norm(X, 5, np.ones(4)), aj.errors.ShapeError, r"weight has shape \(4,\), it has to be \(5,\)"),
    (lambda: F.cross_entropy(X, np.zeros(3, int)), aj.errors.ShapeError, r"labels of scores \(4, 5\) have shape \(4,\), got \(3,\)"),
    (lambda: F.cross_entropy(X, np.ones((4, 4))), aj.errors.ShapeError, r"probabilities, and has the shape of the input, \(4, 5\)"),
    (lambda: F.cross_entropy(X, np.zeros(4, bool)), aj.errors.DTypeError, "labels are integers, got bool"),
    (lambda: F.cross_entropy(np.float64(1.0), np.array(0)), aj.errors.ShapeError, r"got \(\)"),
    (lambda: F.cross_entropy(X, LABELS, reduction="average"), ValueError, "reduction is 'mean', 'sum' or 'none', got 'average'"),
    (lambda: F.cross_entropy(X, LABELS, label_smoothing=2.0), ValueError, "label_smoothing lies in"),
    (lambda: F.mse_loss(np.ones((4, 2)), np.ones(4)), aj.errors.ShapeError, r"prediction has shape \(4, 2\), the target \(4,\)"),
    (lambda: F.dropout(X, 1.5, key=aj.random.key(0)), ValueError, "p lies in"),
    (lambda: F.dropout(X, 0.5, key=3), aj.errors.DTypeError, r"make one with adjit.random.key"),
    (lambda: F.one_hot(X, 3), aj.errors.DTypeError, "labels are integers"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


# -- tensors

@pytest.mark.share(3)
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


def test_a_gradient_takes_a_key_a_call() -> None:
    gradient = aj.grad(lambda x: np.sum(F.dropout(x)))
    manual_seed(7)
    expected = [F.dropout(np.ones(100)) for _ in range(3)]
    manual_seed(7)
    for array in expected:
        np.testing.assert_array_equal(gradient(np.ones(100)), array)


@pytest.mark.parametrize("transform", [
    lambda fun, x: aj.vjp(fun, x), lambda fun, x: aj.jvp(fun, (x,), (x,)), lambda fun, x: aj.hvp(fun, (x,), (x,)),
    lambda fun, x: aj.hessian(fun)(x), lambda fun, x: aj.grad(aj.checkpoint(fun))(x),
    lambda fun, x: aj.compile(lambda x: aj.scan(lambda carry, _: (fun(carry), None), x[0], None, length=2))(x)])
def test_a_function_that_runs_several_times_is_given_its_key(transform) -> None:
    manual_seed(7)
    with pytest.raises(aj.errors.TraceError, match=r"inside of a differentiated function\n.*\n.*\n +pass a key of adjit.random"):
        transform(lambda x: np.sum(F.dropout(x)), np.ones(3))
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


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_of_tensors_of_several_shapes_are_broadcast_with_a_warning(loss: Any) -> None:
    prediction = aj.tensor([[1.0], [2.0]], requires_grad=True)
    with pytest.warns(UserWarning, match="they are broadcast"):
        found = loss(prediction, aj.tensor([0.5, 1.5, 2.5]))
    with pytest.warns(UserWarning, match="they are broadcast"):
        assert loss(prediction, aj.tensor(1.0), reduction="none").shape == (2, 1)
    expected = loss(prediction.expand(2, 3), aj.tensor([[0.5, 1.5, 2.5]] * 2))
    assert found.item() == expected.item()
    found.backward()
    assert prediction.grad.shape == (2, 1)
    with pytest.raises(aj.errors.ShapeError, match="the prediction has shape"):
        loss(prediction, aj.ones(3, 2))
