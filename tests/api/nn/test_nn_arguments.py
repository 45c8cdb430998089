"""Arguments of modules and optimisers: those of PyTorch that change nothing are accepted, others refused in clear words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.errors import ShapeError, UnsupportedError

X = np.linspace(-4, 4, 24).reshape(2, 12).astype(np.float32)


@pytest.mark.parametrize("make", [
    lambda **a: nn.Linear(2, 3, **a), lambda **a: nn.Bilinear(2, 3, 4, **a), lambda **a: nn.Embedding(3, 2, **a),
    lambda **a: nn.Conv1d(2, 3, 2, **a), lambda **a: nn.Conv2d(2, 3, 2, **a), lambda **a: nn.LayerNorm(3, **a),
    lambda **a: nn.GroupNorm(1, 3, **a), lambda **a: nn.BatchNorm1d(3, **a), lambda **a: nn.BatchNorm2d(3, **a),
    lambda **a: nn.RMSNorm(3, **a), lambda **a: nn.PReLU(**a), lambda **a: nn.RNN(2, 3, **a), lambda **a: nn.GRU(2, 3, **a),
    lambda **a: nn.LSTM(2, 3, **a), lambda **a: nn.RNNCell(2, 3, **a), lambda **a: nn.GRUCell(2, 3, **a),
    lambda **a: nn.LSTMCell(2, 3, **a),
    lambda **a: nn.MultiheadAttention(4, 2, **a), lambda **a: nn.TransformerEncoderLayer(4, 2, 8, **a)])
def test_layers_are_on_the_cpu(make: Any) -> None:
    made = make(device="cpu", dtype=np.float64)
    assert {parameter.dtype for parameter in made.parameters()} == {np.dtype(np.float64)}
    with pytest.raises(UnsupportedError, match="the device cuda:1"):
        make(device="cuda:1")


@pytest.mark.parametrize("kind", [nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Hardsigmoid,
                                  nn.Hardtanh])
def test_activations_in_place(kind: Any) -> None:
    x, leaf = aj.tensor(X), aj.tensor(X, requires_grad=True)
    expected = kind()(leaf)
    result = kind(inplace=True)(x)
    assert result is x
    np.testing.assert_array_equal(x.numpy(), expected.detach().numpy())
    expected.sum().backward()
    second = aj.tensor(X, requires_grad=True)
    kind(inplace=True)(second * 1.0).sum().backward()
    np.testing.assert_allclose(second.grad.numpy(), leaf.grad.numpy(), rtol=1e-6)
    assert repr(kind(inplace=True)).endswith("inplace=True)")
    assert "inplace" not in repr(kind())


def test_dropout_in_place() -> None:
    x = aj.tensor(np.ones(50, np.float32))
    assert nn.Dropout(0.5, inplace=True)(x) is x
    assert set(x.numpy()) == {0.0, 2.0}
    assert repr(nn.Dropout(0.2)) == "Dropout(p=0.2, inplace=False)"


def test_arguments_that_change_nothing() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    nn.Embedding(3, 2, 0, max_norm=None, sparse=False)
    nn.MaxPool2d(2, return_indices=False)
    for optimizer in (aj.optim.Adam, aj.optim.AdamW, aj.optim.SGD, aj.optim.RMSprop, aj.optim.Adagrad):
        optimizer([aj.tensor([1.0])], 0.1, foreach=True, fused=None, capturable=False)
        with pytest.raises(TypeError, match=rf"{optimizer.__name__}\(\) got an unexpected keyword argument 'leraning_rate'"):
            optimizer([aj.tensor([1.0])], leraning_rate=0.1)
        with pytest.raises(UnsupportedError, match="steps are not differentiable"):
            optimizer([aj.tensor([1.0])], 0.1, differentiable=True)


@pytest.mark.parametrize(("make", "argument"), [
    (lambda: nn.EmbeddingBag(3, 2, sparse=True), "sparse"), (lambda: nn.Embedding(3, 2, sparse=True), "sparse")])
def test_arguments_that_would_change_something(make: Any, argument: str) -> None:
    with pytest.raises(UnsupportedError, match=f"the argument {argument}"):
        make()


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: nn.Linear(2.5, 2), TypeError, "2.5 is no integer"),
    (lambda: nn.Linear(-1, 2), ShapeError, "-1 is negative"),
    (lambda: nn.Sequential([nn.ReLU()]), TypeError, r"number 0 is a list: write Sequential\(\*modules\)"),
    (lambda: nn.Sequential(nn.ReLU(), nn.Linear), TypeError, r"number 1 is the class Linear: write Linear\(\.\.\.\)"),
    (lambda: nn.Sequential(nn.ReLU(), np.tanh), TypeError, "number 1 is a ufunc"),
    (lambda: aj.optim.Adam(nn.Linear(1, 1)), TypeError, r"got a Linear: pass model\.parameters\(\)"),
    (lambda: aj.optim.Adam(nn.Linear(1, 1).parameters), TypeError, r"got a method: it was not called, pass model\.parameters\(\)"),
    (lambda: aj.optim.Adam([{"parms": [aj.tensor([1.0])]}]), ValueError, "its tensors under \"params\", got the keys 'parms'"),
    (lambda: aj.optim.AdamW([aj.tensor([1.0])], lr="x"), TypeError, "the learning rate is a number, got 'x'"),
    (lambda: aj.optim.lr_scheduler.CosineAnnealingLR(aj.optim.SGD([aj.tensor([1.0])]), T_max=0), ValueError, "T_max is positive, got 0"),
])
def test_mistakes_are_named(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_dropout_between_no_layers() -> None:
    with pytest.warns(UserWarning, match=r"LSTM: dropout=0\.1 does nothing in one layer") as caught:
        nn.LSTM(2, 3, num_layers=1, dropout=0.1)
    assert caught[0].filename == __file__


def test_texts() -> None:
    assert "padding_mode=reflect" in repr(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"))
    assert repr(nn.Linear(1, 1).load_state_dict(nn.Linear(1, 1).state_dict())) == "<All keys matched successfully>"
    assert "missing_keys=['bias']" in repr(nn.Linear(1, 1).load_state_dict({"weight": np.ones((1, 1))}, strict=False))


def test_values_and_indices_are_on_lines_of_their_own() -> None:
    assert repr(aj.max(aj.tensor([1.0, 3.0]), dim=0)) == "ValuesAndIndices(\nvalues=tensor(3.),\nindices=tensor(1))"


def test_the_state_of_adagrad_is_there_before_the_first_step() -> None:
    x = aj.tensor([1.0, 2.0], requires_grad=True)
    state = aj.optim.Adagrad([x], initial_accumulator_value=0.5).state_dict()["state"][0]
    assert state["step"].item() == 0
    np.testing.assert_array_equal(state["sum"].numpy(), [0.5, 0.5])
