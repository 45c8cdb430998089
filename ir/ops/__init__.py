"""All op records, each under the name of its op. Importing this package fills `definition.DEFINITIONS`."""

from adjit.ir.ops.arithmetic import (
    abs,
    add,
    ceil,
    divide,
    floor,
    floor_divide,
    multiply,
    negative,
    reciprocal,
    remainder,
    rint,
    sign,
    square,
    strong_divide,
    strong_multiply,
    strong_product,
    subtract,
    trunc,
)
from adjit.ir.ops.broadcasting import broadcast, reduce_sum
from adjit.ir.ops.callback import callback
from adjit.ir.ops.collectives import all_gather, all_reduce, all_to_all, broadcast_rank, vary
from adjit.ir.ops.comparison import equal, greater, greater_equal, isfinite, isinf, isnan, less, less_equal, not_equal
from adjit.ir.ops.complex_numbers import complex, conj, imag, real, view_as_complex, view_as_real
from adjit.ir.ops.contraction import complex_matmul, matmul
from adjit.ir.ops.control_flow import cond, scan, while_loop
from adjit.ir.ops.convolution import convolution, convolution_kernel_gradient
from adjit.ir.ops.creation import constant, full_like, iota, table
from adjit.ir.ops.cumulative import argmax, argmin, argpartition, argsort, cummax, cummin, cumprod, cumsum, partition, sort
from adjit.ir.ops.decompositions import column_order, eig, eigh, eigvals, eigvalsh, qr, qr_raw, svd, svdvals
from adjit.ir.ops.effect import effect, effects_end
from adjit.ir.ops.elementwise_math import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cbrt,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    hypot,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    power,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from adjit.ir.ops.external import external
from adjit.ir.ops.factors import cholesky, inverse, lu, lu_inverse, lu_solve, triangular_solve
from adjit.ir.ops.fourier import fft, irfft, rfft
from adjit.ir.ops.guard import guard
from adjit.ir.ops.indexing import scatter_add, scatter_add_along_axis, scatter_set, take, take_along_axis
from adjit.ir.ops.logical import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    invert,
    left_shift,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    right_shift,
)
from adjit.ir.ops.movement import add_slice, concatenate, flip, pad, reshape, slice, transpose, update_slice
from adjit.ir.ops.panels import panels
from adjit.ir.ops.random import philox
from adjit.ir.ops.reduction import reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod
from adjit.ir.ops.region import checkpoint, custom_call, free, fused, matmul_epilogue, vjp
from adjit.ir.ops.selection import bitcast, convert, fmax, fmin, maximum, minimum, relu, select, stop_gradient
from adjit.ir.ops.special import digamma, erfc, erfcx, erfinv, i0e, i1e, lgamma, trigamma
from adjit.ir.ops.systems import banded_solve, sylvester
from adjit.ir.ops.tiled import tiled
from adjit.ir.ops.windows import window_max, window_max_scatter, window_max_share, window_max_take, window_sum

__all__ = [
    "abs", "add", "add_slice", "all_gather", "all_reduce", "all_to_all", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argmax", "argmin", "argpartition", "argsort", "banded_solve", "bitcast", "bitwise_and", "bitwise_or", "bitwise_xor",
    "broadcast", "broadcast_rank", "callback", "cbrt", "ceil", "checkpoint", "cholesky", "column_order", "complex", "complex_matmul",
    "concatenate", "cond", "conj", "constant", "convert", "convolution", "convolution_kernel_gradient", "cos", "cosh", "cummax",
    "cummin", "cumprod", "cumsum", "custom_call", "digamma", "divide", "effect", "effects_end", "eig", "eigh", "eigvals", "eigvalsh",
    "equal", "erf", "erfc", "erfcx", "erfinv", "exp", "exp2", "expm1", "external", "fft", "flip", "floor", "floor_divide", "fmax",
    "fmin", "free", "full_like", "fused", "greater", "greater_equal", "guard", "hypot", "i0e", "i1e", "imag", "inverse", "invert", "iota",
    "irfft", "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal", "lgamma", "log", "log10", "log1p", "log2", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "lu", "lu_inverse", "lu_solve", "matmul", "matmul_epilogue", "maximum",
    "minimum", "multiply", "negative", "not_equal", "pad", "panels", "partition", "philox", "power", "qr", "qr_raw", "real",
    "reciprocal", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "relu", "remainder", "reshape",
    "rfft", "right_shift", "rint", "scan", "scatter_add", "scatter_add_along_axis", "scatter_set", "select", "sigmoid", "sign", "sin",
    "sinh", "slice", "sort", "sqrt", "square", "stop_gradient", "strong_divide", "strong_multiply", "strong_product", "subtract", "svd",
    "svdvals", "sylvester", "table", "take", "take_along_axis", "tan", "tanh", "tiled", "transpose", "triangular_solve", "trigamma",
    "trunc", "update_slice", "vary", "view_as_complex", "view_as_real", "vjp", "while_loop", "window_max", "window_max_scatter",
    "window_max_share", "window_max_take", "window_sum",
]
