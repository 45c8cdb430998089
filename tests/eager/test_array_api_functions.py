"""Every function of the array standard, on tensors and in programs, beside `array_api_strict`, which implements the standard and no more.

The standard's own suite is in no package registry (`test_array_api.py`). This is a table of calls: what each gives has the dtype, the shape
and the values that the reference gives, for dtypes that the reference takes there, and pairs of them that are promoted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from support.array_api_namespace import xp

import adjit as aj

strict = pytest.importorskip("array_api_strict")

SOME = ("bool", "int32", "uint8", "float32", "complex128")
DTYPES = (*SOME, "int8", "int16", "int64", "uint16", "uint32", "uint64", "float64", "complex64")
PAIRS = (("uint8", "int8"), ("float32", "float64"), ("float32", "complex64"))
MORE_PAIRS = (("int8", "int32"), ("uint16", "int64"), ("uint64", "uint8"), ("complex64", "float64"), ("int64", "int16"))

NO_FUNCTIONS = {"Device", "set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict_flags", "ArrayAPIStrictFlags",
                "__array_namespace_info__", "fft", "linalg"}
NOT_IN_PROGRAMS = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values", "from_dlpack"}
"""Functions whose results have no shape before values are known, and of memory."""

Case = Callable[..., Any]


def _calls(names: str, *args: Any, **kwargs: Any) -> dict[str, Case]:
    def call(path: str) -> Case:
        return lambda xp, *arrays: attrgetter(path)(xp)(*arrays, *args, **kwargs)
    return {name: call(name) for name in names.split()}


def _definite(function: Callable[[Any, Any], Any]) -> Case:
    """A call with a matrix that is positive definite."""
    return lambda xp, x: function(xp.linalg, xp.matmul(x, xp.conj(x).T) + xp.eye(3, dtype=x.dtype))


ONE: dict[str, Case] = {
    **_calls("abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log1p "
             "log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc nonzero "
             "unique_all unique_counts unique_inverse unique_values matrix_transpose ones_like zeros_like from_dlpack linalg.diagonal "
             "linalg.trace linalg.matrix_transpose linalg.svdvals linalg.pinv fft.fft fft.ifft fft.fftn fft.ifftn fft.rfft fft.irfft "
             "fft.rfftn fft.irfftn fft.hfft fft.ihfft fft.fftshift fft.ifftshift"),
    **_calls("linalg.matrix_norm", ord="nuc"), **_calls("linalg.vector_norm", axis=1, ord=3), **_calls("linalg.matrix_rank"),
    **_calls("all any argmax argmin count_nonzero max mean min prod std sum var", axis=1, keepdims=True),
    **_calls("argsort sort", axis=0), **_calls("cumulative_prod cumulative_sum", axis=1, include_initial=True),
    **_calls("broadcast_to", (2, 3, 4)), **_calls("expand_dims diff flip unstack", axis=1), **_calls("moveaxis", 0, 1),
    **_calls("permute_dims", (1, 0)), **_calls("repeat", 2, axis=1), **_calls("reshape", (2, -1)), **_calls("roll", (1, -1), axis=(0, 1)),
    **_calls("tile", (2, 1, 2)), **_calls("tril triu", k=1), **_calls("full_like", 1), **_calls("asarray", copy=True),
    "arange": lambda xp, x: xp.arange(2, 9, 3, dtype=x.dtype),
    "astype": lambda xp, x: [xp.astype(x, dtype) for dtype in (x.dtype, xp.bool, xp.complex128)],
    "empty": lambda xp, x: xp.empty((0, 2), dtype=x.dtype),
    "empty_like": lambda xp, x: xp.empty_like(x[:0, :]),
    "eye": lambda xp, x: xp.eye(3, 4, k=1, dtype=x.dtype),
    "finfo": lambda xp, x: float(xp.finfo(x.dtype).eps),
    "full": lambda xp, x: xp.full((2, 1), 1, dtype=x.dtype),
    "iinfo": lambda xp, x: int(xp.iinfo(x.dtype).max),
    "isdtype": lambda xp, x: [xp.isdtype(x.dtype, kind) for kind in ("bool", "integral", ("signed integer", "complex floating"))],
    "fft.fftfreq": lambda xp, x: xp.fft.fftfreq(5, d=0.5),
    "fft.rfftfreq": lambda xp, x: xp.fft.rfftfreq(6),
    "linalg.cholesky": _definite(lambda linalg, x: linalg.cholesky(x)),
    "linalg.det": _definite(lambda linalg, x: linalg.det(x)),
    "linalg.eigh": _definite(lambda linalg, x: linalg.eigh(x).eigenvalues),
    "linalg.eigvalsh": _definite(lambda linalg, x: linalg.eigvalsh(x)),
    "linalg.inv": _definite(lambda linalg, x: linalg.inv(x)),
    "linalg.matrix_power": _definite(lambda linalg, x: linalg.matrix_power(x, 3)),
    "linalg.qr": _definite(lambda linalg, x: linalg.matmul(*linalg.qr(x))),
    "linalg.slogdet": _definite(lambda linalg, x: linalg.slogdet(x)),
    "linalg.svd": _definite(lambda linalg, x: linalg.svd(x, full_matrices=False).S),
    "linspace": lambda xp, x: xp.linspace(0, 3, 7, dtype=x.dtype, endpoint=False),
    "ones": lambda xp, x: xp.ones(3, dtype=x.dtype),
    "squeeze": lambda xp, x: xp.squeeze(x[:1, :], axis=0),
    "take": lambda xp, x: xp.take(x, xp.asarray([2, 0, 2]), axis=1),
    "take_along_axis": lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1),
    "zeros": lambda xp, x: xp.zeros((1, 2), dtype=x.dtype)}

TWO: dict[str, Case] = {
    **_calls("add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide "
             "greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter "
             "not_equal pow remainder subtract isin vecdot tensordot broadcast_arrays linalg.tensordot linalg.vecdot"),
    "linalg.cross": lambda xp, x, y: xp.linalg.cross(x[:, :3], y[:, :3]),
    "linalg.matmul": lambda xp, x, y: xp.linalg.matmul(x, y.T),
    "linalg.outer": lambda xp, x, y: xp.linalg.outer(x[0, :], y[1, :]),
    "linalg.solve": lambda xp, x, y: xp.linalg.solve(xp.matmul(y, y.T) + xp.eye(3, dtype=y.dtype), x),
    "broadcast_shapes": lambda xp, x, y: xp.broadcast_shapes(x.shape, (1, 1)),
    "can_cast": lambda xp, x, y: xp.can_cast(x.dtype, y.dtype),
    "clip": lambda xp, x, y: xp.clip(x, max=y) if x.dtype == y.dtype else x,
    "concat": lambda xp, x, y: [xp.concat([x, y]), xp.concat([x, y], axis=None)],
    "matmul": lambda xp, x, y: [xp.matmul(x, y.T), xp.matmul(x, y[0, :])],
    "meshgrid": lambda xp, x, y: xp.meshgrid(x[0, :], y[0, :], indexing="ij"),
    "result_type": lambda xp, x, y: xp.zeros(1, dtype=xp.result_type(x, y)),
    "searchsorted": lambda xp, x, y: xp.searchsorted(xp.sort(x[0, :]), y[1, :], side="right") if x.dtype == y.dtype else x,
    "stack": lambda xp, x, y: xp.stack([x, y], axis=-1),
    "where": lambda xp, x, y: xp.where(x != y, x, y)}


def _values(dtype: str, number: int) -> np.ndarray:
    x = np.array(([[0, 1, 3, 2], [5, 2, 0, 4], [1, 7, 2, 6]], [[1, 2, 2, 1], [3, 2, 5, 1], [1, 1, 2, 3]])[number])
    if dtype == "bool":
        return x > 2
    if np.dtype(dtype).kind in "ifc" and not number:
        x[1] *= -1
    return (x / 4 if np.dtype(dtype).kind in "fc" else x).astype(dtype)


def _arrays(found: Any) -> list[np.ndarray]:
    if isinstance(found, (tuple, list)):
        return [array for each in found for array in _arrays(each)]
    return [np.from_dlpack(found) if isinstance(found, type(strict.asarray(0))) else found.numpy() if isinstance(found, aj.Tensor)
            else np.asarray(found)]


def _agree(found: Any, expected: Any, name: str) -> None:
    for one, two in zip(_arrays(found), _arrays(expected), strict=True):
        relative, absolute = (2e-6, 1e-7) if two.dtype in (np.float32, np.complex64) else (1e-13, 1e-14)
        np.testing.assert_allclose(one, two, relative, absolute, err_msg=name)
        assert (one.dtype, one.shape) == (two.dtype, two.shape), name


def _taken(case: Case, kinds: Sequence[tuple[str, ...]]) -> list[tuple[list[np.ndarray], Any]]:
    """Arguments that the reference takes, with what it gives."""
    found = []
    for kind in kinds:
        arrays = [_values(dtype, number) for number, dtype in enumerate(kind)]
        try:
            found.append((arrays, case(strict, *map(strict.asarray, arrays))))
        except (TypeError, ValueError):     # a dtype that the function is not for
            continue
    return found


def test_each_function_is_in_a_table() -> None:
    names = {name for name in strict.__all__ if not name.startswith("__") and callable(getattr(strict, name))
             and not isinstance(getattr(strict, name), type(strict.float32))}
    names |= {f"{module}.{name}" for module in ("linalg", "fft") for name in getattr(strict, module).__all__}
    assert names - NO_FUNCTIONS == {*ONE, *TWO}


@pytest.mark.parametrize("count", [1, 2])
def test_functions(count: int, exhaustive: bool) -> None:
    dtypes = DTYPES if exhaustive else SOME
    kinds = [(dtype,) * count for dtype in dtypes] + ([*PAIRS, *(MORE_PAIRS if exhaustive else ())] if count == 2 else [])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, case in (ONE if count == 1 else TWO).items():
            taken = _taken(case, kinds)
            assert taken, name
            for arrays, expected in taken:
                _agree(case(xp, *map(aj.tensor, arrays)), expected, name)
            if name not in NOT_IN_PROGRAMS:
                program = aj.compile(lambda given, case=case: [case(np, *arrays) for arrays in given], backend="interpret")
                _agree(program([arrays for arrays, _ in taken]), [expected for _, expected in taken], name)
