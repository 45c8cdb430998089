"""Names of the nodes of the dynamic graph, by function: PyTorch's names. Also the set of functions that return views."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjit.eager.functional import shapes
from adjit.eager.functional.matmul import einsum_of_one
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.registry import FUNCTIONS

Name = str | Callable[[Sequence[Any], Mapping[str, Any]], str]


@functools.cache
def raw(function: Any) -> Callable[..., Any]:
    """Return adjit's function for NumPy's, as it is written over traced arrays."""
    return inspect.unwrap(FUNCTIONS[function])


VIEW_FUNCTIONS: frozenset[Callable[..., Any]] = frozenset({
    shapes.get_view, shapes.get_view_at, shapes.get_part, shapes.view, shapes.view_dtype, shapes.reshape, shapes.flatten, shapes.unflatten,
    shapes.unsqueeze, shapes.squeeze, shapes.permute,
    shapes.transpose, shapes.t, shapes.movedim, shapes.expand, shapes.narrow, shapes.select, shapes.split, shapes.chunk, shapes.unbind,
    shapes.unfold, shapes.at_least, shapes.sum_to_size, einsum_of_one,
    shapes.diagonal, shapes.split_with_sizes, shapes.tensor_split, shapes.hsplit, shapes.vsplit, shapes.dsplit,
    *map(raw, (np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.expand_dims, np.squeeze, np.broadcast_to, np.diagonal,
               np.real, np.imag)),
})
"""Functions whose results share memory with their first argument, wherever NumPy's do."""

STRIDED: dict[Callable[..., Any], Callable[..., np.ndarray]] = {shapes.unfold: shapes.unfolded, shapes.view_dtype: shapes.as_dtype}
"""For views that no op of NumPy takes: functions of the array and the other arguments that do."""


def node_name(function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """Return the name of the node for a call of `function`: PyTorch's name, or the function's own name in the same form.

    >>> node_name(np.multiply), node_name(np.logaddexp), node_name(shapes.chunk)
    ('MulBackward0', 'LogaddexpBackward0', 'SplitBackward0')
    """
    own = getattr(function, "__name__", "function")
    name = _NAMES.get(own)
    if name is None:
        return "".join(word[:1].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", own)) + "Backward0"
    return name if isinstance(name, str) else name(args, {} if kwargs is None else kwargs)


def _is_array(arg: Any) -> bool:
    return isinstance(arg, (ArrayWrapper, TracedArray, np.ndarray))


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], position: int, *names: str) -> Any:
    """Return an argument by position or by one of its names."""
    if len(args) > position:
        return args[position]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _reduction(name: str, whole: int, along: int) -> Name:
    """Name for reductions: one number for all elements, and another for some dimensions."""
    return lambda args, kwargs: f"{name}Backward{whole if _argument(args, kwargs, 1, 'dim', 'axis') is None else along}"


def _numbered(name: str, position: int, argument: str, array: int, number: int) -> Name:
    """Name with another number if an argument is an array."""
    return lambda args, kwargs: f"{name}Backward{array if _is_array(_argument(args, kwargs, position, argument)) else number}"


def _difference(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return "SubBackward0" if not args or _is_array(args[0]) else "RsubBackward1"


def _quotient(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return f"DivBackward{0 if _argument(args, kwargs, 2, 'rounding_mode') is None else 2}"


def _power(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    base, exponent = (_is_array(_argument(args, kwargs, position, name)) for position, name in enumerate(("x", "exponent")))
    return f"PowBackward{1 if base and exponent else 0 if base or not exponent else 2}"


def _product(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    left, right = (arg.array.ndim if isinstance(arg, ArrayWrapper) else np.ndim(arg) for arg in args[:2])
    return {(2, 2): "Mm", (2, 1): "Mv", (1, 2): "Mv", (1, 1): "Dot"}.get((left, right), "Bmm") + "Backward0"


def _index(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Name for a basic index: the name for its last item, as PyTorch applies the items one by one."""
    index = _argument(args, kwargs, 1, "index")
    parts = index if isinstance(index, tuple) else (index,)
    telling = [part for part in parts if part is not Ellipsis and part != slice(None)] or [part for part in parts if part is not Ellipsis]
    if not telling:
        return "AliasBackward0"
    last = telling[-1]
    return "UnsqueezeBackward0" if last is None else "SliceBackward0" if isinstance(last, slice) else "SelectBackward0"


def _part(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    last = [part for part in args[1] if part != ()][-1]
    return "UnsqueezeBackward0" if last is None else "SelectBackward0" if last[0] is None else "SliceBackward0"


def _clamp(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    bounds = [_argument(args, kwargs, 1, "min", "a_min"), _argument(args, kwargs, 2, "max", "a_max")]
    return f"ClampBackward{0 if any(map(_is_array, bounds)) else 1}"


def _linear(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return "MmBackward0" if _argument(args, kwargs, 2, "bias") is None else "AddmmBackward0"


_NAMES: dict[str, Name] = {
    "add": "AddBackward0", "subtract": _difference, "multiply": "MulBackward0", "divide": _quotient,
    "negative": "NegBackward0", "absolute": "AbsBackward0", "fabs": "AbsBackward0", "power": _power, "float_power": _power,
    "square": "PowBackward0", "remainder": _numbered("Remainder", 1, "other", 1, 0), "fmod": _numbered("Fmod", 1, "other", 1, 0),
    "arcsin": "AsinBackward0", "arccos": "AcosBackward0", "arctan": "AtanBackward0", "arcsinh": "AsinhBackward0",
    "arccosh": "AcoshBackward0", "arctanh": "AtanhBackward0", "arctan2": "Atan2Backward0", "log1p": "Log1PBackward0",
    "rint": "RoundBackward0", "round": "RoundBackward0", "clamp": _clamp, "clip": _clamp, "lerp": _numbered("Lerp", 2, "weight", 1, 0),
    "gammaln": "LgammaBackward0", "psi": "DigammaBackward0", "expit": "SigmoidBackward0",
    "to_dtype": "ToCopyBackward0", "astype": "ToCopyBackward0",
    "copy": "CloneBackward0", "copy_from": "CopyBackwards", "assign": "CopyBackwards", "fill": _numbered("Fill", 1, "value", 2, 1),
    "set_item": "CopySlices",
    "sum": _reduction("Sum", 0, 1), "mean": _reduction("Mean", 0, 1), "prod": _reduction("Prod", 0, 1),
    "max": _reduction("Max", 1, 0), "min": _reduction("Min", 1, 0), "norm": "LinalgVectorNormBackward0",
    "matmul": _product, "linear": _linear, "outer": "MulBackward0",
    **dict.fromkeys(("get_view", "get_view_at"), _index), "get_part": _part, "getitem": "IndexBackward0", "get_item": "IndexBackward0",
    "take_along_axis": "GatherBackward0",
    "reshape": "ViewBackward0", "flatten": "ViewBackward0", "unflatten": "ViewBackward0", "ravel": "ViewBackward0",
    "squeeze": lambda args, kwargs: f"SqueezeBackward{0 if _argument(args, kwargs, 1, 'dim', 'axis') is None else 1}",
    "expand_dims": "UnsqueezeBackward0", "swapaxes": "TransposeBackward0", "movedim": "PermuteBackward0", "moveaxis": "PermuteBackward0",
    "broadcast_to": "ExpandBackward0", "tile": "RepeatBackward0", "narrow": "SliceBackward0", "chunk": "SplitBackward0",
    "concatenate": "CatBackward0", "diag": "DiagonalBackward0",
    "at_top": "TopkBackward0", "gather_from_start": "GatherBackward0",
    "scatter": _numbered("Scatter", 3, "src", 0, 1), "pad": "ConstantPadNdBackward0",
    "cross": "LinalgCrossBackward0", "median": _reduction("Median", 0, 1), "nanmedian": _reduction("Nanmedian", 0, 1),
    "msort": "SortBackward0", "diagflat": "DiagEmbedBackward0", "fliplr": "FlipBackward0", "flipud": "FlipBackward0",
    "prelu": "PreluKernelBackward0", **dict.fromkeys(("tensor_split", "hsplit", "vsplit", "dsplit"), "SliceBackward0"),
    "det": "LinalgDetBackward0", "slogdet": "LinalgSlogdetBackward0", "inv": "LinalgInvExBackward0", "pinv": "LinalgPinvBackward0",
    "_pinverse": "LinalgPinvBackward0", "matrix_exp": "LinalgMatrixExpBackward0", "qr": "LinalgQrBackward0", "_qr": "LinalgQrBackward0",
    "svd": "LinalgSvdBackward0", "_lu": "LinalgLuFactorExBackward0", "lu_factor": "LinalgLuFactorExBackward0", "lu": "LinalgLuBackward0",
    "lu_solve": "LinalgLuSolveBackward0", "_lu_solved": "LinalgLuSolveBackward0", "eigh": "LinalgEighBackward0",
    "eig": "LinalgEigBackward0", "solve": "LinalgSolveExBackward0", "cholesky": "LinalgCholeskyExBackward0",
    "_cholesky": "CholeskyBackward0", "solve_triangular": "LinalgSolveTriangularBackward0", "vector_norm": "LinalgVectorNormBackward0",
    "conv2d": "ConvolutionBackward0", "max_pool2d": "MaxPool2DWithIndicesBackward0", "avg_pool2d": "AvgPool2DBackward0",
    "batch_norm": "NativeBatchNormBackward0", "batch_norm_with_statistics": "NativeBatchNormBackward0",
    "layer_norm": "NativeLayerNormBackward0", "group_norm": "NativeGroupNormBackward0",
    "cross_entropy": "NllLossBackward0", "nll_loss": "NllLossBackward0", "drop": "MulBackward0",
    "smooth_l1_loss": "SmoothL1LossBackward0", "logsigmoid": "LogSigmoidBackward0", "relu6": "HardtanhBackward0",
}
