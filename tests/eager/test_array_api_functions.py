"""Every function of the array standard, on tensors and in programs, beside `array_api_strict`, which implements the standard and no more.

The standard's own suite is in no package registry (`test_array_api.py`). This is a table of calls: what each gives has the dtype, the shape
and the values that the reference gives, for dtypes that the reference takes there, and pairs of them that are promoted. Further, each
parameter of the reference's signatures is given by its name, and elementwise functions get shapes that are broadcast, empty ones, and
infinities, NaN and signed zeros, of which the sign is compared.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
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


OF_ONE = _calls("abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log "
                "log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc")
OF_TWO = _calls("add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide "
                "greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply "
                "nextafter not_equal pow remainder subtract")

ONE: dict[str, Case] = {
    **OF_ONE,
    **_calls("nonzero unique_all unique_counts unique_inverse unique_values matrix_transpose ones_like zeros_like from_dlpack "
             "linalg.diagonal linalg.trace linalg.matrix_transpose linalg.svdvals linalg.pinv fft.fft fft.ifft fft.fftn fft.ifftn "
             "fft.rfft fft.irfft fft.rfftn fft.irfftn fft.hfft fft.ihfft fft.fftshift fft.ifftshift"),
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
    **OF_TWO,
    **_calls("isin vecdot tensordot broadcast_arrays linalg.tensordot linalg.vecdot"),
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


SHAPES = (((), (2, 3)), ((3, 1), (1, 4)), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((1,), (0,)), ((2, 3, 2), (2, 3, 2)))
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-310, 1e300]
OF_COMPLEX = _calls("abs add conj equal imag isfinite isinf isnan multiply negative not_equal real sqrt subtract").keys()
"""Functions of complex numbers whose parts are defined where one of them is infinite or NaN."""


def _elementwise(cases: Sequence[tuple[str, Case, list[np.ndarray]]], backend: str = "interpret") -> None:
    """Calls on tensors, and all of them in one program, beside the reference; zeros have its signs."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        program = aj.compile(lambda given: [case(np, *own) for (_, case, _), own in zip(cases, given, strict=True)], backend=backend)
        for (name, case, arrays), compiled in zip(cases, program([arrays for *_, arrays in cases]), strict=True):
            expected = case(strict, *map(strict.asarray, arrays))
            for found in (case(xp, *map(aj.tensor, arrays)), compiled):
                _agree(found, expected, name)
                (one,), (two,) = _arrays(found), _arrays(expected)
                if two.dtype.kind == "f":
                    np.testing.assert_array_equal(np.signbit(one[two == 0]), np.signbit(two[two == 0]), name)


def _takes(case: Case, arrays: list[np.ndarray]) -> bool:
    try:
        case(strict, *map(strict.asarray, arrays))
    except (IndexError, TypeError, ValueError, np.linalg.LinAlgError):
        return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_shapes() -> None:
    random = np.random.default_rng(0)
    cases = []
    for (name, case), shapes in itertools.product({**OF_ONE, **OF_TWO}.items(), SHAPES):
        for dtype in ("float64", "int64", "bool", "complex128"):
            arrays = [(random.random(shape) * 3).astype(dtype) for shape in (shapes if name in OF_TWO else shapes[:1])]
            if _takes(case, arrays):
                cases.append((name, case, arrays))
                break
    assert {name for name, *_ in cases} == {*OF_ONE, *OF_TWO}
    _elementwise(cases)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["interpret", "native"])
def test_special_values(backend: str) -> None:
    x, y = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
    cases = [(name, case, arrays) for name, case in OF_ONE.items() if _takes(case, arrays := [np.array(SPECIAL)])]
    cases += [(name, case, arrays) for name, case in OF_TWO.items() if _takes(case, arrays := [x, y])]
    z = x.astype(complex)
    z.imag = y
    cases += [(name, case, arrays) for name, case in {**OF_ONE, **OF_TWO}.items() if name in OF_COMPLEX
              and (arrays := [z] if name in OF_ONE else [z, z[::-1].copy()])]
    assert len(cases) > 60
    _elementwise(cases, backend)


MATRICES = np.array([[[4, 1, 0], [1, 3, -1], [0, -1, 2]], [[2, 0.5, 0], [0.5, 1, 0], [0, 0, 5]]])
ARRAYS = {"obj": MATRICES, "x": MATRICES, "x1": MATRICES, "x2": MATRICES[::-1] + 0.25}
OTHERS = {"axes": (2, 0, 1), "axis": 1, "destination": 2, "fill_value": 1.5, "indices": np.array([1, 0, 1]), "n": 3, "n_rows": 3, "num": 7,
          "repeats": 2, "repetitions": (1, 2, 1), "shape": (6, 3), "shift": 1, "source": 0, "start": 1, "stop": 6}
"""What parameters get that have no default. Arrays have fewer dimensions if the reference takes no such ones."""
OPTIONS: dict[str, Sequence[Any]] = {
    "append": [MATRICES], "axes": [(0,), (0, 1), 2], "axis": [0, -1, None, (0, 1)], "copy": [True], "correction": [1, 0.5], "d": [0.5],
    "descending": [True], "device": [None], "dtype": ["float32", "float64", "complex128"], "endpoint": [False], "full_matrices": [False],
    "include_initial": [True], "indexing": ["ij"], "invert": [True], "k": [1, -1], "keepdims": [True], "max": [2.0], "min": [0.5],
    "mode": ["complete"], "n": [2, 5], "n_cols": [5], "norm": ["ortho", "forward"], "num": [4], "offset": [1], "ord": [1, 2, np.inf, "fro"],
    "prepend": [MATRICES], "rtol": [1e-3], "s": [(2, 4)], "side": ["right"], "sorter": [np.array([0, 1, 2])], "stable": [False, True],
    "step": [2], "stop": [6], "upper": [True]}
AS_NUMPY = {"argsort": {"descending"}, "sort": {"descending"}, "fft.fftfreq": {"dtype"}, "fft.rfftfreq": {"dtype"}, "isin": {"invert"}}
"""Parameters that NumPy's functions lack, and one that the reference ignores."""
TABLES_ALONE = {"arange", "asarray", "astype", "broadcast_shapes", "can_cast", "empty", "empty_like", "finfo", "from_dlpack", "iinfo",
                "isdtype", "result_type", "squeeze"}
"""Functions that need a dtype, shapes, or an axis of one element, or leave values open."""


def _by_name(path: str, needed: Sequence[Any], options: dict[str, Any]) -> tuple[Case, list[np.ndarray]]:
    """A call with options by name, and its arrays."""
    def filled(xp: Any, left: Iterator[Any], name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [next(left) for _ in value]
        return next(left) if isinstance(value, np.ndarray) else getattr(xp, value) if name == "dtype" else value

    def case(xp: Any, *arrays: Any) -> Any:
        left = iter(arrays)
        positional = [filled(xp, left, "", value) for value in needed]
        return attrgetter(path)(xp)(*positional, **{name: filled(xp, left, name, value) for name, value in options.items()})

    values = [*needed, *options.values()]
    return case, [array for value in values for array in (value if isinstance(value, list) else [value]) if isinstance(array, np.ndarray)]


def _calls_by_name(path: str) -> list[tuple[str, Case, list[np.ndarray]]]:
    """Calls of a function that the reference takes: one with each value of each parameter that has a default."""
    parameters = inspect.signature(attrgetter(path)(strict)).parameters.values()
    rest = any(one.kind is one.VAR_POSITIONAL for one in parameters)        # meshgrid, broadcast_arrays
    names = ["x"] if rest else [one.name for one in parameters if one.default is one.empty]
    named = [(one.name, value) for one in parameters if one.default is not one.empty and one.name not in AS_NUMPY.get(path, ())
             for value in OPTIONS[one.name]]
    found = []
    for like in (MATRICES, MATRICES[0], MATRICES[0, 0], np.arange(3), np.ones(3, complex), MATRICES[0, 0] > 0):
        given = {name: np.resize(value, like.shape).astype(like.dtype) for name, value in ARRAYS.items()}
        given["x1"] = np.sort(given["x1"]) if path == "searchsorted" else given["x1"]
        given |= {**OTHERS, "arrays": [given["x1"], given["x2"]], "condition": given["x"] > 0.5}
        for options in ({}, *({name: value} for name, value in named)):
            case, arrays = _by_name(path, [given[name] for name in names], options)
            if _takes(case, arrays):
                found.append((f"{path} {options}", case, arrays))
        if found:
            break
    return found


def test_parameters_by_name() -> None:
    """Every parameter of the reference's signatures, beside the arguments that have no default by position."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for path in sorted({*ONE, *TWO} - TABLES_ALONE):
            cases = [*_calls_by_name(path)]
            assert cases, path
            expected = [case(strict, *map(strict.asarray, arrays)) for _, case, arrays in cases]
            for (name, case, arrays), wanted in zip(cases, expected, strict=True):
                _agree(case(xp, *map(aj.tensor, arrays)), wanted, name)
            if path not in NOT_IN_PROGRAMS:
                program = aj.compile(lambda given, cases=cases: [case(np, *own) for (_, case, _), own in zip(cases, given, strict=True)],
                                     backend="interpret")
                _agree(program([arrays for *_, arrays in cases]), expected, path)


OPERATORS = {name: getattr(operator, name) for name in [
    "add", "and_", "eq", "floordiv", "ge", "gt", "iadd", "imul", "ior", "ipow", "isub", "ixor", "le", "lshift", "lt", "matmul", "mod",
    "mul", "ne", "or_", "pow", "rshift", "sub", "truediv", "xor"]}


def _operands() -> Iterator[tuple[str, Case, list[np.ndarray]]]:
    for (name, function), dtype in itertools.product(OPERATORS.items(), SOME):
        x, y = _values(dtype, 0), _values(dtype, 1)
        other = y.T if name == "matmul" else y[:1]
        yield name, lambda xp, x, y, function=function: function(xp.asarray(x, copy=True), y), [x, other]
        for number in (True, 3, 1.5, 2j):
            yield name, lambda xp, x, function=function, number=number: function(xp.asarray(x, copy=True), number), [x]
            if not name.startswith("i"):
                yield f"reflected {name}", lambda xp, y, function=function, number=number: function(number, y), [y]
    for name in ("neg", "pos", "abs", "invert"):
        for dtype in SOME:
            yield name, lambda xp, x, name=name: getattr(operator, name)(x), [_values(dtype, 0)]


def test_devices_of_new_arrays() -> None:
    for make in (np.zeros_like, np.ones_like, lambda x, device: np.full_like(x, 2.0, device=device)):
        for device in (None, "cpu"):
            program = aj.compile(lambda x, make=make, device=device: make(x, device=device), backend="interpret")
            np.testing.assert_array_equal(program(MATRICES), make(MATRICES, device=device))
        with pytest.raises(ValueError, match="Device not understood"):
            make(aj.tensor(MATRICES), device="gpu")


@pytest.mark.filterwarnings("ignore")
def test_operators() -> None:
    """Of arrays, and of arrays and Python's numbers, from both sides."""
    cases = [(name, case, arrays) for name, case, arrays in _operands() if _takes(case, arrays)]
    assert {name.removeprefix("reflected ") for name, *_ in cases} == {*OPERATORS, "neg", "pos", "abs", "invert"}
    for name, case, arrays in cases:
        _agree(case(xp, *map(aj.tensor, arrays)), case(strict, *map(strict.asarray, arrays)), name)
