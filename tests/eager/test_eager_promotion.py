"""Which dtype results of tensors of different dtypes have: the same in eager mode and in compiled functions."""

from __future__ import annotations

import numpy as np
import pytest

import adjit as aj
from adjit.errors import DTypeError

I64, I32, U8, BOOL = (aj.tensor(np.array([1, 0, 2]).astype(dtype)) for dtype in (np.int64, np.int32, np.uint8, np.bool_))
F32, F64 = aj.tensor([1.0, 2.0, 3.0]), aj.tensor(np.array([1.0, 2.0, 3.0]))

CASES = {
    "i64 * 1.5": (lambda x: x * 1.5, [I64], np.float32), "1.5 - i64": (lambda x: 1.5 - x, [I64], np.float32),
    "bool * 2.5": (lambda x: x * 2.5, [BOOL], np.float32), "u8 / 255": (lambda x: x / 255, [U8], np.float32),
    "1 / i64": (lambda x: 1 / x, [I64], np.float32), "i64 / i64": (lambda x, y: x / y, [I64, I64], np.float32),
    "i64 + f32": (lambda x, y: x + y, [I64, F32], np.float32), "f32 * i32": (lambda x, y: x * y, [F32, I32], np.float32),
    "f32 + bool": (lambda x, y: x + y, [F32, BOOL], np.float32), "i64 + f64": (lambda x, y: x + y, [I64, F64], np.float64),
    "f32 + f64": (lambda x, y: x + y, [F32, F64], np.float64), "f32 * np.float64": (lambda x: x * np.float64(2), [F32], np.float32),
    "sqrt": (lambda x: x.sqrt(), [I64], np.float32), "np.exp": (lambda x: np.exp(x), [I32], np.float32),
    "sin of u8": (lambda x: x.sin(), [U8], np.float32), "sqrt of bool": (lambda x: x.sqrt(), [BOOL], np.float32),
    "sigmoid": (lambda x: x.sigmoid(), [I64], np.float32), "rsqrt": (lambda x: x.rsqrt(), [I64], np.float32),
    "erfc": (lambda x: x.erfc(), [I64], np.float32), "reciprocal": (lambda x: x.reciprocal(), [I64], np.float32),
    "where": (lambda x, y: np.where(x > 0, x, y), [I64, F32], np.float32), "x.where": (lambda x: x.where(x > 0, 0.5), [I64], np.float32),
    "clamp": (lambda x: x.clamp(0.5, 1.5), [I64], np.float32), "pow": (lambda x: x ** 0.5, [I64], np.float32),
    "i64 + u8": (lambda x, y: x + y, [I64, U8], np.int64), "i64 * 2": (lambda x: x * 2, [I64], np.int64),
    "i64 // 2": (lambda x: x // 2, [I64], np.int64), "div floor": (lambda x: x.div(2, rounding_mode="floor"), [I64], np.int64),
    "i64 & i64": (lambda x, y: x & y, [I64, I64], np.int64), "i64 > 0.5": (lambda x: x > 0.5, [I64], np.bool_),
    "sum": (lambda x: x.sum(), [I32], np.int64), "f32 += i64": (lambda x, y: (x * 1).add_(y), [F32, I64], np.float32),
    "matmul": (lambda x, y: x @ y, [I64, F32], np.float32), "addcmul": (lambda x, y: y.addcmul(x, x), [I64, F32], np.float32),
    "f32 + ndarray": (lambda x: x + np.arange(3), [F32], np.float32), "f32 * np.int64": (lambda x: x * np.int64(3), [F32], np.float32),
    "f32 * 0-d f64": (lambda x: x * aj.tensor(np.float64(2)), [F32], np.float32),
    "0-d f64 ** f32": (lambda x, y: y[0] ** x, [F32, F64], np.float32),
    "i32 * 0-d i64": (lambda x, y: x * y[0], [I32, I64], np.int32), "i64 * 0-d f64": (lambda x, y: x * y[0], [I64, F64], np.float64),
    "where of numbers": (lambda x: aj.where(x > 1, 1.0, 0.0), [F32], np.float32),
    "where of ints": (lambda x: aj.where(x > 1, 1, 0), [F32], np.int64),
    "where with f64": (lambda x, y: aj.where(x > 1, x, y[0]), [F32, F64], np.float32),
    "f32 *= f64": (lambda x, y: (x * 1).mul_(y), [F32, F64], np.float32),
    "cat": (lambda x, y: aj.cat([x, y]), [F32, I64], np.float32), "cat with f64": (lambda x, y: aj.cat([x, y]), [I64, F64], np.float64),
    "stack": (lambda x, y: aj.stack([x, y]), [I64, F32], np.float32), "hstack": (lambda x, y: aj.hstack([x, y]), [BOOL, F32], np.float32),
    "full": (lambda x: x + aj.full((3,), np.log(2.0)), [F32], np.float32),
}


@pytest.mark.parametrize("name", CASES)
def test_promotion(name):
    function, operands, dtype = CASES[name]
    eager, compiled = function(*operands), aj.compile(function)(*operands)
    assert (eager.dtype, compiled.dtype) == (dtype, dtype)
    np.testing.assert_allclose(eager.numpy(), compiled.numpy(), rtol=1e-6)
    with np.errstate(all="ignore"):
        if name not in ("x.where", "clamp", "div floor", "f32 += i64", "addcmul", "sigmoid", "rsqrt", "erfc", "reciprocal", "cat",
                        "cat with f64", "stack", "hstack", "full", "where of numbers", "where of ints", "where with f64",
                        "f32 *= f64", "f32 * 0-d f64"):
            plain = function(*(x.numpy().view(_Methods) for x in operands))
            np.testing.assert_allclose(eager.numpy(), np.asarray(plain), rtol=1e-3)


class _Methods(np.ndarray):
    """An ndarray with the methods that the cases use."""

    def sqrt(self):
        return np.sqrt(self)

    def sin(self):
        return np.sin(self)


@pytest.mark.parametrize("name", ["mean", "var", "std", "norm"])
def test_statistics_of_integers_are_refused(name):
    with pytest.raises(DTypeError, match=r"takes floating-point tensors.*int64"):
        getattr(I64, name)()
    assert I64.mean(dtype=np.float32).item() == 1.0


def test_the_gradient_goes_to_the_float_operand():
    x = aj.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * I64).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 2.0]
    assert x.grad.dtype == np.float32


def test_plain_arrays_in_compiled_functions_promote_as_in_numpy():
    assert aj.compile(lambda x, y: x + y)(np.arange(3), np.ones(3, np.float32)).dtype == np.float64
    assert aj.compile(np.sqrt)(np.arange(3)).dtype == np.float64
