"""What eager mode refuses about the values of indices, labels and probabilities, and that its errors name the user's line."""

from __future__ import annotations

import copy
import operator

import numpy as np
import pytest

import adjit as aj
import adjit.nn.functional as F
from adjit.errors import AdjitError, DTypeError, IndexingError

SCORES = np.zeros((2, 3))
LABELS = [
    lambda labels, make: F.cross_entropy(make(SCORES), make(labels)),
    lambda labels, make: F.nll_loss(make(SCORES), make(labels)),
    lambda labels, make: F.one_hot(make(labels), 3),
    lambda labels, make: F.cross_entropy(input=make(SCORES), target=make(labels), reduction="none"),
    lambda labels, make: aj.nn.CrossEntropyLoss(ignore_index=-5)(aj.tensor(SCORES), aj.tensor(labels)),
]


@pytest.mark.parametrize("make", [np.asarray, aj.tensor], ids=["ndarray", "tensor"])
@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("label", [3, 5, -1, -100])
def test_a_label_that_is_no_class_is_refused(loss, label, make):
    labels = np.array([1, label])
    if label == -100 and loss is not LABELS[2] and loss is not LABELS[4]:
        assert np.isfinite(np.asarray(loss(labels, make))).all()
        return
    negative = loss is LABELS[2] and label < 0      # PyTorch's words
    words = f"non-negative, got the label {label}" if negative else f"label {label} is out of range: there are 3 classes"
    with pytest.raises(IndexError, match=words) as caught:
        loss(labels, make)
    assert isinstance(caught.value, IndexingError)
    assert "test_eager_checks.py" in str(caught.value)


def test_compiled_losses_give_nan_for_a_label_that_is_no_class():
    loss = aj.compile(F.cross_entropy)
    assert np.isnan(np.asarray(loss(SCORES, np.array([0, 5]))))


@pytest.mark.parametrize("probability", [1.5, -0.1, np.nan])
def test_probabilities_lie_in_0_and_1(probability):
    with pytest.raises(ValueError, match="from 0 to 1") as caught:
        F.binary_cross_entropy(aj.tensor([0.5, probability]), aj.tensor([1.0, 1.0]))
    assert isinstance(caught.value, AdjitError)


X, PLACES = aj.tensor(np.arange(6.0).reshape(3, 2)), aj.tensor([[0, 1], [-1, 0]])
INDICES = {
    "embedding": lambda: F.embedding(aj.tensor([0, -1]), X), "Embedding": lambda: aj.nn.Embedding(3, 2)(aj.tensor([-1])),
    "gather": lambda: X.gather(0, PLACES),
    "scatter": lambda: X.scatter(0, PLACES, 1.0), "scatter_": lambda: X.clone().scatter_(0, PLACES, 1.0),
    "scatter_add": lambda: X.scatter_add(dim=1, index=PLACES, src=X), "index_select": lambda: X.index_select(0, aj.tensor([-1])),
    "index_add": lambda: X.index_add(0, aj.tensor([0, 1, -1]), X),
}


@pytest.mark.parametrize("name", INDICES)
def test_functions_that_take_indices_refuse_negative_ones(name):
    with pytest.raises(IndexError, match="index -1 is out of range") as caught:
        INDICES[name]()
    assert isinstance(caught.value, AdjitError)


@pytest.mark.parametrize("function", [aj.Tensor.gather, aj.Tensor.index_select,
                                      lambda x, dim, index: x.index_add(dim, index, index * x[:1]),
                                      lambda x, dim, index: x.scatter_add(dim, index, index * x[:1])])
def test_compiled_functions_that_take_indices_refuse_negative_ones(function):
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
        aj.compile(function)(aj.arange(3), 0, aj.tensor([-1]))


ERRORS = {
    "Embedding": (IndexError, lambda: aj.nn.Embedding(3, 2)(aj.tensor([7]))), "gather": (IndexError, lambda: X.gather(0, PLACES + 7)),
    "axis": (np.exceptions.AxisError, lambda: X.sum(5)), "sizes": (ValueError, lambda: X.reshape(-1, -1)),
    "index": (IndexError, lambda: X[7]), "indices": (IndexError, lambda: X[aj.tensor([7])]), "many": (IndexError, lambda: X[0, 0, 0]),
    "assigned": (IndexError, lambda: X.clone().__setitem__(9, 0.0)), "clamp": (ValueError, lambda: X.clamp()),
    "float index": (IndexError, lambda: X[aj.tensor([0.5])]), "stack": (ValueError, lambda: np.stack([X, X[0]])),
    "out": (NotImplementedError, lambda: np.multiply(X, 2.0, out=aj.zeros(X.shape))),
    "array out": (NotImplementedError, lambda: np.add(SCORES, X.clone(), out=np.zeros(SCORES.shape))),
    "plain operands": (NotImplementedError, lambda: np.sum(SCORES, axis=0, out=aj.zeros(3))),
    "in place": (NotImplementedError, lambda: operator.iadd(np.zeros(X.shape), X)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_in_eager_mode_name_the_users_line(name):
    kind, run = ERRORS[name]
    with pytest.raises(AdjitError) as caught:
        run()
    assert isinstance(caught.value, kind if kind is not np.exceptions.AxisError else (ValueError, IndexError))
    assert "test_eager_checks.py" in str(caught.value)


def test_float_labels_are_told_from_probabilities():
    with pytest.raises(ValueError, match="labels of classes are integers"):
        F.cross_entropy(aj.tensor(SCORES), aj.tensor([0.0, 1.0]))


NAMED = [F.relu, F.relu6, F.hardtanh, F.leaky_relu, F.elu, F.selu, F.gelu, F.silu, F.softplus, F.softsign, F.logsigmoid, F.tanh, F.sigmoid,
         F.softmax, F.log_softmax, F.normalize, F.dropout]


@pytest.mark.parametrize("function", NAMED, ids=lambda function: function.__name__)
def test_the_first_argument_is_called_input(function):
    assert function(input=X).shape == (3, 2)


def test_losses_and_layers_take_input_by_name():
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        assert loss(input=X, target=X).item() == 0.0
    assert F.linear(input=X, weight=X).shape == (3, 3)
    assert F.embedding(input=aj.tensor([0]), weight=X).shape == (1, 2)
    assert F.binary_cross_entropy_with_logits(input=X, target=X * 0).ndim == 0
    assert F.conv1d(input=X[None], weight=aj.tensor(np.ones((1, 3, 1)))).shape == (1, 1, 2)
    assert F.max_pool2d(input=aj.tensor(np.ones((1, 2, 2))), kernel_size=2).shape == (1, 1, 1)


class Foreign:
    """An array of another library."""

    def __dlpack__(self):
        raise NotImplementedError

    def __rmul__(self, other):
        raise AssertionError("the other library was asked")


def test_arrays_of_other_libraries_are_named():
    for run in (lambda: X * Foreign(), lambda: Foreign() - X, lambda: X.clone().__iadd__(Foreign())):
        with pytest.raises(TypeError, match=r"Foreign(.|\n)*from_dlpack"):
            run()


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="inhomogeneous") as caught:
        aj.tensor([[1], [1, 2]])
    assert isinstance(caught.value, AdjitError)


def test_a_gradient_of_another_dtype_is_refused():
    x = aj.tensor([1.0], requires_grad=True)
    with pytest.raises(DTypeError, match="float64"):
        x.grad = aj.tensor(np.ones(1))


def test_a_deep_copy_of_a_result_names_the_users_line():
    x = aj.tensor([1.0], requires_grad=True)
    for run in (copy.deepcopy, aj.compile(copy.deepcopy), aj.compile(lambda y: copy.deepcopy(y * 2))):
        with pytest.raises(AdjitError, match=r"test_eager_checks\.py"):
            run(x * 2)
