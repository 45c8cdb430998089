"""PyTorch's parameter names work for every function and method of tensors; other names raise `TypeError` with the name of the function."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.tensor_functions import FUNCTIONS, METHODS

PARAMETERS = """
abs acos acosh asin asinh atan atanh ceil clone cos cosh digamma erf erfc erfinv exp expm1 floor frac isfinite isinf isnan lgamma log:
log10 log1p log2 logical_not logit neg numel reciprocal relu rsqrt sigmoid sign sin sinh sqrt square t tan tanh trunc bernoulli:
add sub: other alpha
atan2 eq equal ge gt le logical_and logical_or logical_xor lt matmul maximum minimum mul ne remainder: other
fmod floor_divide hypot fmax fmin copysign logaddexp inner arctan2 multiply true_divide not_equal less greater: other
div: other rounding_mode
pow: exponent
heaviside: values
allclose isclose: other rtol atol equal_nan
addcdiv addcmul: tensor1 tensor2 value
addmm: mat1 mat2 beta alpha
baddbmm: batch1 batch2 beta alpha
addmv: mat vec beta alpha
bmm mm: mat2
mv: vec
dot: tensor
outer ger: vec2
lerp: end weight
clamp: min max
masked_fill: mask value
masked_select: mask
all any amax amin argmax argmin max min median nanmean nansum logsumexp mean prod sum: dim keepdim
count_nonzero unbind unsqueeze squeeze: dim
std var: dim unbiased keepdim
std var: dim correction keepdim
cumsum cumprod softmax log_softmax: dim dtype
norm: p dim keepdim
argsort sort: dim descending stable
topk: k dim largest sorted
max min: other
reshape: shape
broadcast_to view expand: size
permute flip tile: dims
transpose: dim0 dim1
swapaxes: axis0 axis1
repeat: repeats
flatten: start_dim end_dim
unflatten: dim sizes
movedim: source destination
repeat_interleave: repeats dim
narrow: dim start length
select: dim index
split: split_size dim
split: split_size_or_sections dim
chunk: chunks dim
roll: shifts dims
diagonal: offset dim1 dim2
diag tril triu: diagonal
diff: n dim
gather: dim index
index_select: dim index
index_add index_copy: dim index source
index_fill: dim index value
scatter scatter_add: dim index src
scatter: dim index value
take_along_dim: indices dim
round: decimals
take: index
new_zeros new_ones: size dtype
absolute adjoint angle arccos arccosh arcsin arcsinh arctan arctanh bitwise_not conj conj_physical corrcoef deg2rad detach exp2 fix fliplr:
flipud frexp i0 is_complex is_conj is_distributed is_floating_point is_neg is_signed isneginf isposinf isreal logdet lu matrix_exp msort:
negative positive rad2deg ravel resolve_conj resolve_neg sgn signbit sinc slogdet argwhere nonzero det inverse nan_to_num geqrf:
bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor gcd greater_equal igamma igammac is_same_size kron lcm: other
ldexp: other
less_equal logaddexp2 multiply nextafter subtract vdot xlogy dist: other
subtract: other alpha
addbmm: batch1 batch2 beta alpha
addr: vec1 vec2 beta alpha
aminmax: dim keepdim
bincount: weights minlength
cholesky cholesky_inverse: upper
cholesky_solve: input2 upper
clamp_max: max
clamp_min: min
clip: min max
cov: correction
cross: other dim
cummax cummin logcumsumexp: dim
diag_embed: offset dim1 dim2
diagflat: offset
diagonal_scatter: src offset
divide: other rounding_mode
dsplit hsplit tensor_split vsplit: indices_or_sections
float_power: exponent
hardshrink: lambd
histc: bins min max
index_put: indices values accumulate
index_reduce: dim index source reduce include_self
is_nonzero:
kthvalue: k dim keepdim
lu_solve: LU_data LU_pivots
masked_scatter: mask source
matrix_power: n
mode: dim keepdim
moveaxis: source destination
multinomial: num_samples replacement
mvlgamma: p
nanmedian: dim keepdim
nanquantile quantile: q dim keepdim interpolation
nonzero_static: size
orgqr: tau
ormqr: tau other left transpose
pinverse: rcond
prelu: weight
put: index source accumulate
qr: some
renorm: p dim maxnorm
rot90: k dims
scatter_reduce: dim index src reduce include_self
select_scatter: src dim index
slice_scatter: src dim start end step
split_with_sizes unsafe_split_with_sizes: split_sizes dim
unsafe_chunk: chunks dim
unsafe_split: split_size dim
narrow_copy: dim start length
is_inference:
stft: n_fft hop_length win_length window center pad_mode normalized onesided return_complex
istft: n_fft hop_length win_length window center normalized onesided length return_complex
svd: some compute_uv
swapdims: dim0 dim1
trace:
triangular_solve: A upper transpose
unfold: dimension size step
unique: sorted return_inverse return_counts dim
unique_consecutive: return_inverse return_counts dim
"""
CASES = [(name, tuple(parameters.split())) for line in PARAMETERS.strip().splitlines()
         for names, _, parameters in [line.partition(":")] for name in names.split()]

MATRIX = np.array([[0.25, 0.5], [0.75, 0.5]])
VECTOR, STACK, INDEX = MATRIX[0], np.stack([MATRIX, MATRIX]), np.array([1, 0])
VALUES: dict[str, Any] = {
    "other": MATRIX, "alpha": 2.0, "beta": 3.0, "rounding_mode": "floor", "exponent": 2.0, "values": MATRIX, "rtol": 0.1, "atol": 0.1,
    "equal_nan": True, "tensor1": MATRIX, "tensor2": MATRIX, "value": 2.0, "mat1": MATRIX, "mat2": MATRIX, "batch1": STACK, "batch2": STACK,
    "mat": MATRIX, "vec": VECTOR, "tensor": VECTOR, "vec2": VECTOR, "end": MATRIX, "weight": 0.5, "min": 0.3, "max": 0.6,
    "mask": MATRIX > 0.3, "dim": 0, "keepdim": True, "unbiased": False, "correction": 0, "dtype": np.float64, "p": 1, "descending": True,
    "stable": True, "k": 1, "largest": False, "sorted": True, "shape": (4,), "size": (2, 2), "dims": (1, 0), "dim0": 0, "dim1": 1,
    "axis0": 0, "axis1": 1, "repeats": 2, "start_dim": 0, "end_dim": 1, "sizes": (1, 2), "source": MATRIX, "destination": 0, "start": 0,
    "length": 1, "index": INDEX, "split_size": 1, "split_size_or_sections": [1, 1], "chunks": 2, "shifts": (1, 1), "offset": 1, "dim2": 1,
    "diagonal": 1, "n": 1, "src": MATRIX, "indices": INDEX[None], "decimals": 1, "vec1": VECTOR, "weights": VECTOR, "minlength": 3,
    "upper": True, "input2": MATRIX, "indices_or_sections": 2, "lambd": 0.4, "bins": 2, "accumulate": True, "reduce": "amax",
    "include_self": False, "LU_data": MATRIX, "LU_pivots": INDEX + 1, "num_samples": 1, "replacement": True, "q": 0.5,
    "interpolation": "lower", "tau": VECTOR, "left": False, "transpose": True, "rcond": 1e-3, "some": True, "maxnorm": 0.5,
    "step": 1, "split_sizes": [1, 1], "compute_uv": True, "A": MATRIX, "dimension": 0, "return_inverse": True, "return_counts": True,
    "n_fft": 2, "hop_length": 1, "win_length": 2, "window": np.ones(2), "center": True, "pad_mode": "constant", "normalized": True,
    "onesided": True, "return_complex": True}
OF_ONE: dict[str, dict[str, Any]] = {
    "gather": {"index": INDEX[None]}, "scatter": {"index": INDEX[None]}, "scatter_add": {"index": INDEX[None]}, "select": {"index": 1},
    "movedim": {"source": 1}, "diagonal": {"dim1": 0}, "bmm": {"mat2": STACK}, "repeat": {"repeats": (2, 1)},
    "addbmm": {"batch1": STACK, "batch2": STACK}, "bincount": {"weights": np.ones(2)}, "cross": {"other": np.ones((3, 2))},
    "diagonal_scatter": {"src": VECTOR, "offset": 0}, "index_put": {"indices": (INDEX,), "values": MATRIX},
    "moveaxis": {"source": 1}, "prelu": {"weight": VECTOR}, "put": {"source": VECTOR}, "rot90": {"dims": (0, 1)},
    "scatter_reduce": {"index": INDEX[None]}, "select_scatter": {"src": VECTOR, "index": 1}, "slice_scatter": {"end": 2},
    "unfold": {"size": 1}, "vdot": {"other": VECTOR}, "nonzero_static": {"size": 2}, "diag_embed": {"dim1": 0},
    "istft": {"length": 2, "return_complex": False},
    "gcd": {"other": INDEX}, "lcm": {"other": INDEX}, "is_same_size": {"other": aj.tensor(MATRIX)}, "mvlgamma": {"p": 1},
    **{name: {"other": INDEX} for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")}}
OPERANDS = {"bmm": STACK, "baddbmm": STACK, "dot": VECTOR, "outer": VECTOR, "ger": VECTOR, "mv": MATRIX, "addmv": VECTOR,
            "addr": MATRIX, "vdot": VECTOR, "bincount": INDEX, "cross": np.eye(3)[:, :2], "dsplit": STACK, "is_nonzero": np.ones(1),
            **dict.fromkeys(("gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
                             "bitwise_right_shift"), INDEX),
            "mvlgamma": MATRIX + 1, "cholesky": np.eye(2), "acosh": MATRIX + 1, "istft": MATRIX + 0j}
IN_PYTORCH_ONLY_BY_KEYWORD = {"alpha", "beta", "value", "rounding_mode", "correction", "stable", "dtype", "keepdim", "axis0",
                              "axis1", "split_size_or_sections", "unbiased", "include_self", "interpolation"}
BY_KEYWORD = {"aminmax", "nonzero_static"}


def given(name: str, parameters: tuple[str, ...]) -> dict[str, Any]:
    return {p: OF_ONE.get(name, {}).get(p, VALUES[p]) for p in parameters}


def tensor_of(name: str) -> aj.Tensor:
    aj.manual_seed(0)
    return aj.tensor(OPERANDS.get(name, MATRIX))


def same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and str(found) == str(expected)


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=lambda case: case if isinstance(case, str) else "_".join(case) or "none")
def test_all_arguments_by_keyword_are_those_by_position(name: str, parameters: tuple[str, ...]) -> None:
    keywords = {"L" if p == "input2" else p: argument for p, argument in given(name, parameters).items()}
    positional = [argument for p, argument in keywords.items() if p not in IN_PYTORCH_ONLY_BY_KEYWORD and name not in BY_KEYWORD]
    is_by_position = "axis0" in keywords or "split_size_or_sections" in keywords or name in ("scatter", "index_fill", "masked_fill")
    if is_by_position:
        rest, positional = {}, list(keywords.values())
    else:
        rest = {p: argument for p, argument in keywords.items() if p in IN_PYTORCH_ONLY_BY_KEYWORD or name in BY_KEYWORD}
    expected = getattr(tensor_of(name), name)(*positional, **rest)
    assert same(getattr(tensor_of(name), name)(**keywords), expected)
    if name in FUNCTIONS:
        assert same(getattr(aj, name)(input=tensor_of(name), **keywords), expected)
        assert same(getattr(aj, name)(tensor_of(name), **keywords), expected)


@pytest.mark.parametrize("name", [name for name in dir(aj.Tensor) if name.endswith("_") and not name.startswith("_")])
def test_methods_that_write_take_the_same_names(name: str) -> None:
    for _, parameters in [case for case in CASES if case[0] == name[:-1]]:
        keywords = given(name[:-1], parameters)
        expected = tensor_of(name[:-1])
        result = getattr(tensor_of(name[:-1]), name[:-1])(**keywords)
        if result.shape == expected.shape and name[:-1] != "bernoulli":
            assert same(getattr(tensor_of(name[:-1]), name)(**keywords), expected.copy_(other=result))


def test_the_table_names_every_function() -> None:
    assert set(METHODS) == {name for name, _ in CASES} & set(METHODS)


@pytest.mark.parametrize(("call", "expected"), [
    (lambda: aj.zeros(size=(2, 3)), (2, 3)), (lambda: aj.ones(size=[2]), (2,)), (lambda: aj.empty(size=(2,)), (2,)),
    (lambda: aj.rand(size=(2,), dtype="float64"), (2,)), (lambda: aj.randn(size=(2,)), (2,)),
    (lambda: aj.full(size=(2,), fill_value=1.0), (2,)), (lambda: aj.randint(low=0, high=3, size=(2,)), (2,)),
    (lambda: aj.arange(start=0, end=4, step=2), (2,)), (lambda: aj.linspace(start=0.0, end=1.0, steps=2), (2,)),
    (lambda: aj.eye(n=2, m=3), (2, 3)), (lambda: aj.randperm(n=2), (2,)), (lambda: aj.zeros_like(input=aj.ones(2)), (2,)),
    (lambda: aj.full_like(input=aj.ones(2), fill_value=1.0), (2,)), (lambda: aj.from_numpy(ndarray=VECTOR), (2,)),
    (lambda: aj.cat(tensors=[aj.ones(1, 2)] * 2, dim=1), (1, 4)), (lambda: aj.stack(tensors=[aj.ones(2)] * 3, dim=1), (2, 3)),
    (lambda: aj.cat([aj.ones(1, 2)] * 2, axis=1), (1, 4)), (lambda: aj.stack([aj.ones(2)] * 3, axis=1), (2, 3)),
    (lambda: aj.concat([aj.ones(1, 2)] * 2, axis=1), (1, 4)),
    (lambda: aj.where(condition=VECTOR > 0, input=aj.ones(2), other=0.0), (2,)),
])
def test_functions_that_make_and_join_tensors(call: Any, expected: tuple[int, ...]) -> None:
    assert call().shape == expected


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_unknown_keywords_are_errors_with_the_name_of_the_function(name: str) -> None:
    first = aj.tensor(OPERANDS.get(name, MATRIX))
    with pytest.raises(TypeError, match=rf"\b{'cat' if name in ('concat', 'concatenate') else name}\(\) .*'nonsense'"):
        getattr(aj, name)(first, nonsense=1)


@pytest.mark.parametrize("name", sorted(name for name in vars(aj.Tensor) if not name.startswith("_")))
def test_unknown_keywords_are_errors_with_the_name_of_the_method(name: str) -> None:
    method = inspect.getattr_static(aj.Tensor, name)
    if inspect.isfunction(method) and name not in ("apply_closure", "apply_wrapped", "around", "as_argument", "signature_key", "traced"):
        with pytest.raises(TypeError, match=rf"\b{name}\(\) .*'nonsense'"):
            getattr(aj.tensor(MATRIX), name)(nonsense=1)


@pytest.mark.parametrize(("call", "message"), [
    (lambda x: aj.matmul(x), r"matmul\(\) missing a required argument: 'other'; the signature is matmul\(self, other"),
    (lambda x: aj.exp(x, x), r"exp\(\) got too many positional arguments"),
    (lambda x: x.mul(x, other=x), r"mul\(\) got multiple values for argument 'other'"),
    (lambda x: x.sum(dim=0, axis=0), r"sum\(\) got axis and dim, two names of one argument"),
    (lambda x: x.reshape(4, shape=(4,)), r"reshape\(\) got an argument twice: by position and as shape"),
    (lambda x: x.mul_(), r"mul_\(\) missing a required argument: 'other'"),
    (lambda x: aj.zeros(2, size=(2,)), "sizes are given twice"),
])
def test_other_wrong_arguments_are_errors_with_the_name_of_the_function(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(aj.tensor(MATRIX))


def test_errors_of_the_function_itself_are_unchanged() -> None:
    with pytest.raises(aj.errors.ShapeError):
        aj.tensor(MATRIX).mul(np.ones(3))
