"""Tensors are printed as PyTorch prints them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from adjit.eager.formatting import format_tensor, tensor_repr

f32 = np.float32

TEXTS = [
    (f32(20), "tensor(20.)"),
    (f32(-2.5), "tensor(-2.5000)"),
    (f32([14]), "tensor([14.])"),
    (f32([1.5, 2.25]), "tensor([1.5000, 2.2500])"),
    (f32([1, 2]), "tensor([1., 2.])"),
    (f32([1, -2, 10]), "tensor([ 1., -2., 10.])"),
    (f32([0, -0.0]), "tensor([0., -0.])"),
    (f32(0.1234567), "tensor(0.1235)"),
    (f32([1, 1000]), "tensor([   1., 1000.])"),
    (f32([1, 1001]), "tensor([1.0000e+00, 1.0010e+03])"),
    (f32([1.5, 2e5]), "tensor([1.5000e+00, 2.0000e+05])"),
    (f32(1e-5), "tensor(1.0000e-05)"),
    (f32(1e8), "tensor(100000000.)"),
    (f32(2e8), "tensor(2.0000e+08)"),
    (f32([np.nan, 1, np.inf, -np.inf]), "tensor([nan, 1., inf, -inf])"),
    (f32([np.nan, 1.5]), "tensor([   nan, 1.5000])"),
    (f32([np.inf, 1e-5]), "tensor([       inf, 1.0000e-05])"),
    (f32([np.nan, np.inf, 0]), "tensor([nan, inf, 0.])"),
    (np.array([True, False]), "tensor([ True, False])"),
    (np.array([1, -20, 300]), "tensor([  1, -20, 300])"),
    (np.array(7), "tensor(7)"),
    (np.int32([1]), "tensor([1], dtype=int32)"),
    (np.uint8([255, 1]), "tensor([255,   1], dtype=uint8)"),
    (np.array([[1.0, 2.0], [3.0, 4.5]]), "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]], dtype=float64)"),
    (f32(np.zeros((2, 2, 1))), "tensor([[[0.],\n         [0.]],\n\n        [[0.],\n         [0.]]])"),
    (f32(np.zeros((1, 2, 1, 1))), "tensor([[[[0.]],\n\n         [[0.]]]])"),
    (f32([]), "tensor([])"),
    (f32(np.zeros((0, 3))), "tensor([], size=(0, 3))"),
    (np.zeros(0), "tensor([], dtype=float64)"),
    (np.zeros((2, 0), np.int64), "tensor([], size=(2, 0), dtype=int64)"),
    (np.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (np.arange(30), "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
                    "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"),
    (np.arange(1008).reshape(7, 144),
     "tensor([[   0,    1,    2,  ...,  141,  142,  143],\n        [ 144,  145,  146,  ...,  285,  286,  287],\n"
     "        [ 288,  289,  290,  ...,  429,  430,  431],\n        ...,\n        [ 576,  577,  578,  ...,  717,  718,  719],\n"
     "        [ 720,  721,  722,  ...,  861,  862,  863],\n        [ 864,  865,  866,  ..., 1005, 1006, 1007]])"),
]


@pytest.mark.parametrize(("array", "text"), TEXTS, ids=[re.sub(r"\s+", " ", text)[:60] for _, text in TEXTS])
def test_texts(array, text):
    assert tensor_repr(np.asarray(array)) == text


def test_only_shown_elements_decide_how_a_summary_is_written():
    array = np.zeros(2000, np.float32)
    array[1000] = 1e20
    assert tensor_repr(array) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"


def test_suffixes():
    assert tensor_repr(f32([14.0]), "MulBackward0") == "tensor([14.], grad_fn=<MulBackward0>)"
    assert tensor_repr(f32([14.0]), "MulBackward0", True) == "tensor([14.], grad_fn=<MulBackward0>)"
    assert tensor_repr(f32([14.0]), requires_grad=True) == "tensor([14.], requires_grad=True)"
    assert tensor_repr(np.array(2.0), "AddBackward0") == "tensor(2., dtype=float64, grad_fn=<AddBackward0>)"
    assert tensor_repr(np.array(2.0), requires_grad=True, prefix="Variable") == "Variable(2., dtype=float64, requires_grad=True)"


def test_suffixes_that_do_not_fit_begin_a_line():
    assert tensor_repr(np.linspace(0, 1, 6), "MulBackward0") == (
        "tensor([0.0000, 0.2000, 0.4000, 0.6000, 0.8000, 1.0000], dtype=float64,\n       grad_fn=<MulBackward0>)")
    assert tensor_repr(np.linspace(0, 1, 8), "MulBackward0") == (
        "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000],\n       dtype=float64, grad_fn=<MulBackward0>)")
    for length in range(40, 72):
        text = format_tensor(f32([1.0]), ["x" * length])
        assert max(map(len, text.split("\n"))) <= 80


def test_as_torch():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    for _ in range(1500):
        shape = tuple(random.integers(0, 5, random.integers(0, 5))) if random.random() < 0.9 else tuple(random.integers(1, 40, 3))
        kind = random.integers(0, 5)
        array = random.standard_normal(shape) * 10.0 ** random.integers(-6, 9)
        if kind == 1:
            array = np.trunc(array * 10.0 ** random.integers(-9, 3))
        elif kind == 2:
            array = array * 10.0 ** random.integers(-3, 4, shape)
        elif kind == 3:
            array = np.where(random.random(shape) < 0.3, random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), array)
        elif kind == 4:
            array = random.choice([True, False], shape) if random.random() < 0.3 else random.integers(-10**random.integers(1, 9), 10, shape)
        if kind != 4:
            array = np.asarray(array, random.choice([np.float32, np.float64]))
        array = np.asarray(array)
        tensor = torch.tensor(array)
        # The name of a dtype is longer in torch, which can move a suffix to the next line.
        own_dtype = "dtype=" in tensor_repr(array)
        dtype = [f"dtype={tensor.dtype}"] if own_dtype else []
        size = [f"size={array.shape}"] if not array.size and array.ndim != 1 else []
        assert format_tensor(array, [*size, *dtype]) == repr(tensor)
        if array.dtype.kind == "f":
            assert format_tensor(array, [*size, *dtype, "requires_grad=True"]) == repr(tensor.requires_grad_())
            assert format_tensor(array, [*size, *dtype, "grad_fn=<CloneBackward0>"]) == repr(tensor.clone())
            if not own_dtype:
                assert tensor_repr(array, requires_grad=True) == repr(tensor)
                assert tensor_repr(array, "CloneBackward0") == repr(tensor.clone())
