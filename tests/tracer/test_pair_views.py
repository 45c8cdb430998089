"""Views of complex arrays as pairs of reals, and back."""

import numpy as np
import pytest

import adjit as aj
from adjit.errors import UnsupportedError

Z = (np.arange(6.0) - 1j * np.arange(6.0)[::-1]).reshape(2, 3)


def _written(z):
    pairs = z.view(np.float64)
    pairs[..., 1] *= 3.0
    pairs[0, :2] = 7.0
    return z * 1.0, pairs * 1.0


def _written_back(x):
    z = x.view(complex)
    z *= 1j
    x[0, 1] = 5.0
    return z + 0.0, x * 1.0


def _negated_by_bits(x):
    bits = x.T.view(np.uint64)
    bits[...] ^= np.uint64(1 << 63)
    x[0, 0] = 4.0
    return bits + np.uint64(0), x * 1.0


@pytest.mark.parametrize(("fun", "x"), [
    (lambda z: z.view(float), Z),
    (lambda z: z.view(np.float32), Z.astype(np.complex64)),
    (lambda z: z.view(float).view(complex), Z),
    (lambda x: x.view(complex), np.arange(8.0).reshape(2, 4)),
    (lambda x: x.view("F"), np.array([np.nan, -0.0, np.inf, 1.0], np.float32)),
    (lambda z: z[:1].view(float), Z),
    (lambda z: z.view(float), np.zeros((2, 0), complex)),
    (_written, Z),
    (_written_back, np.arange(8.0).reshape(2, 4)),
    (lambda x: x.reshape(1, 3, 4, 2).view(np.complex128), np.arange(48.0).reshape(1, 6, 8)[:, :3]),
    (_negated_by_bits, np.array([[1.0, -0.0, np.nan], [np.inf, -2.5, 1e-310]])),
    (lambda x: (x.view(np.int32), x.view(np.uint32), x[0].view(np.int32)), np.array([1.5, -np.inf], np.float32)),
    (lambda x: (x.view(np.uint8), x.view(np.uint8).view(np.int8)), np.array([-1, 127, 0], np.int8)),
])
def test_views_are_those_of_numpy(fun, x):
    before, after = x.copy(), x.copy()
    expected = fun(before)
    results = aj.compile(fun)(after)
    for result, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (results, expected)), strict=True):
        assert result.dtype == other.dtype
        np.testing.assert_array_equal(result, other)
    np.testing.assert_array_equal(after, before)


def test_the_derivative_is_that_of_the_parts():
    gradient = aj.grad(lambda x: (x.view(complex) ** 2).real.sum())(np.arange(4.0))
    np.testing.assert_array_equal(gradient, [0.0, -2.0, 4.0, -6.0])


@pytest.mark.parametrize("fun", [
    lambda z: z.view(np.int64),
    lambda z: z.view(np.float32),
    lambda z: z.real.copy()[:, :2].view(complex),
])
def test_other_views_are_refused(fun):
    with pytest.raises(UnsupportedError, match=r"numpy\.ndarray\.view of .* as .*: bits are not read"):
        aj.compile(fun)(Z)


def test_at_with_values_that_numpy_would_truncate_is_refused():
    def add(x):
        np.add.at(x, [0, 0], 0.5)
        return x

    with pytest.raises(UnsupportedError, match=r"numpy\.add\.at of int64 with values that give float64(.|\n)*astype\('int64'\)"):
        aj.compile(add)(np.arange(3))


@pytest.mark.parametrize("fun", [
    lambda z: z[:, ::2].view(float),
    lambda z: z.T.view(float),
    lambda z: z.real.copy().view(complex),
    lambda z: z[0].reshape(3)[0:1].reshape(()).view(float),
])
def test_errors_are_those_of_numpy(fun):
    with pytest.raises(ValueError) as theirs:
        fun(Z)
    with pytest.raises(ValueError) as ours:
        aj.compile(fun)(Z)
    assert ours.value.message == str(theirs.value)
