# Written by: python docs/make_namespace_stubs.py
# ruff: noqa: I001

from numpy import abs as abs
from numpy import absolute as absolute
from numpy import acos as acos
from numpy import acosh as acosh
from numpy import add as add
from numpy import all as all
from numpy import allclose as allclose
from numpy import amax as amax
from numpy import amin as amin
from numpy import angle as angle
from numpy import any as any
from numpy import append as append
from numpy import apply_along_axis as apply_along_axis
from numpy import apply_over_axes as apply_over_axes
from numpy import arange as arange
from numpy import arccos as arccos
from numpy import arccosh as arccosh
from numpy import arcsin as arcsin
from numpy import arcsinh as arcsinh
from numpy import arctan as arctan
from numpy import arctan2 as arctan2
from numpy import arctanh as arctanh
from numpy import argmax as argmax
from numpy import argmin as argmin
from numpy import argpartition as argpartition
from numpy import argsort as argsort
from numpy import argwhere as argwhere
from numpy import around as around
from numpy import array as array
from numpy import array2string as array2string
from numpy import array_equal as array_equal
from numpy import array_equiv as array_equiv
from numpy import array_repr as array_repr
from numpy import array_split as array_split
from numpy import array_str as array_str
from numpy import asarray as asarray
from numpy import asin as asin
from numpy import asinh as asinh
from numpy import astype as astype
from numpy import atan as atan
from numpy import atan2 as atan2
from numpy import atanh as atanh
from numpy import atleast_1d as atleast_1d
from numpy import atleast_2d as atleast_2d
from numpy import atleast_3d as atleast_3d
from numpy import average as average
from numpy import bincount as bincount
from numpy import bitwise_and as bitwise_and
from numpy import bitwise_count as bitwise_count
from numpy import bitwise_invert as bitwise_invert
from numpy import bitwise_left_shift as bitwise_left_shift
from numpy import bitwise_not as bitwise_not
from numpy import bitwise_or as bitwise_or
from numpy import bitwise_right_shift as bitwise_right_shift
from numpy import bitwise_xor as bitwise_xor
from numpy import block as block
from numpy import bool_ as bool_
from numpy import broadcast_arrays as broadcast_arrays
from numpy import broadcast_to as broadcast_to
from numpy import can_cast as can_cast
from numpy import cbrt as cbrt
from numpy import ceil as ceil
from numpy import choose as choose
from numpy import clip as clip
from numpy import column_stack as column_stack
from numpy import common_type as common_type
from numpy import compress as compress
from numpy import concat as concat
from numpy import concatenate as concatenate
from numpy import conj as conj
from numpy import conjugate as conjugate
from numpy import convolve as convolve
from numpy import copy as copy
from numpy import copysign as copysign
from numpy import copyto as copyto
from numpy import corrcoef as corrcoef
from numpy import correlate as correlate
from numpy import cos as cos
from numpy import cosh as cosh
from numpy import count_nonzero as count_nonzero
from numpy import cov as cov
from numpy import cross as cross
from numpy import cumprod as cumprod
from numpy import cumsum as cumsum
from numpy import cumulative_prod as cumulative_prod
from numpy import cumulative_sum as cumulative_sum
from numpy import deg2rad as deg2rad
from numpy import degrees as degrees
from numpy import delete as delete
from numpy import diag as diag
from numpy import diag_indices_from as diag_indices_from
from numpy import diagflat as diagflat
from numpy import diagonal as diagonal
from numpy import diff as diff
from numpy import digitize as digitize
from numpy import divide as divide
from numpy import divmod as divmod
from numpy import dot as dot
from numpy import dsplit as dsplit
from numpy import dstack as dstack
from numpy import dtype as dtype
from numpy import e as e
from numpy import ediff1d as ediff1d
from numpy import einsum as einsum
from numpy import einsum_path as einsum_path
from numpy import empty as empty
from numpy import empty_like as empty_like
from numpy import equal as equal
from numpy import euler_gamma as euler_gamma
from numpy import exp as exp
from numpy import exp2 as exp2
from numpy import expand_dims as expand_dims
from numpy import expm1 as expm1
from numpy import extract as extract
from numpy import eye as eye
from numpy import fabs as fabs
from numpy import fill_diagonal as fill_diagonal
from numpy import fix as fix
from numpy import flatnonzero as flatnonzero
from numpy import flip as flip
from numpy import fliplr as fliplr
from numpy import flipud as flipud
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import float_power as float_power
from numpy import floor as floor
from numpy import floor_divide as floor_divide
from numpy import fmax as fmax
from numpy import fmin as fmin
from numpy import fmod as fmod
from numpy import frexp as frexp
from numpy import full as full
from numpy import full_like as full_like
from numpy import gcd as gcd
from numpy import geomspace as geomspace
from numpy import gradient as gradient
from numpy import greater as greater
from numpy import greater_equal as greater_equal
from numpy import heaviside as heaviside
from numpy import histogram as histogram
from numpy import histogram2d as histogram2d
from numpy import histogram_bin_edges as histogram_bin_edges
from numpy import histogramdd as histogramdd
from numpy import hsplit as hsplit
from numpy import hstack as hstack
from numpy import hypot as hypot
from numpy import i0 as i0
from numpy import identity as identity
from numpy import imag as imag
from numpy import inf as inf
from numpy import inner as inner
from numpy import insert as insert
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import int8 as int8
from numpy import interp as interp
from numpy import intersect1d as intersect1d
from numpy import invert as invert
from numpy import isclose as isclose
from numpy import iscomplex as iscomplex
from numpy import iscomplexobj as iscomplexobj
from numpy import isfinite as isfinite
from numpy import isin as isin
from numpy import isinf as isinf
from numpy import isnan as isnan
from numpy import isneginf as isneginf
from numpy import isposinf as isposinf
from numpy import isreal as isreal
from numpy import isrealobj as isrealobj
from numpy import ix_ as ix_
from numpy import kron as kron
from numpy import lcm as lcm
from numpy import ldexp as ldexp
from numpy import left_shift as left_shift
from numpy import less as less
from numpy import less_equal as less_equal
from numpy import lexsort as lexsort
from numpy import linspace as linspace
from numpy import log as log
from numpy import log10 as log10
from numpy import log1p as log1p
from numpy import log2 as log2
from numpy import logaddexp as logaddexp
from numpy import logaddexp2 as logaddexp2
from numpy import logical_and as logical_and
from numpy import logical_not as logical_not
from numpy import logical_or as logical_or
from numpy import logical_xor as logical_xor
from numpy import logspace as logspace
from numpy import matmul as matmul
from numpy import matrix_transpose as matrix_transpose
from numpy import matvec as matvec
from numpy import max as max
from numpy import maximum as maximum
from numpy import mean as mean
from numpy import median as median
from numpy import meshgrid as meshgrid
from numpy import min as min
from numpy import min_scalar_type as min_scalar_type
from numpy import minimum as minimum
from numpy import mod as mod
from numpy import modf as modf
from numpy import moveaxis as moveaxis
from numpy import multiply as multiply
from numpy import nan as nan
from numpy import nan_to_num as nan_to_num
from numpy import nanargmax as nanargmax
from numpy import nanargmin as nanargmin
from numpy import nancumprod as nancumprod
from numpy import nancumsum as nancumsum
from numpy import nanmax as nanmax
from numpy import nanmean as nanmean
from numpy import nanmedian as nanmedian
from numpy import nanmin as nanmin
from numpy import nanpercentile as nanpercentile
from numpy import nanprod as nanprod
from numpy import nanquantile as nanquantile
from numpy import nanstd as nanstd
from numpy import nansum as nansum
from numpy import nanvar as nanvar
from numpy import ndarray as ndarray
from numpy import ndim as ndim
from numpy import negative as negative
from numpy import newaxis as newaxis
from numpy import nextafter as nextafter
from numpy import nonzero as nonzero
from numpy import not_equal as not_equal
from numpy import ones as ones
from numpy import ones_like as ones_like
from numpy import outer as outer
from numpy import packbits as packbits
from numpy import pad as pad
from numpy import partition as partition
from numpy import percentile as percentile
from numpy import permute_dims as permute_dims
from numpy import pi as pi
from numpy import piecewise as piecewise
from numpy import place as place
from numpy import poly as poly
from numpy import polyadd as polyadd
from numpy import polyder as polyder
from numpy import polydiv as polydiv
from numpy import polyfit as polyfit
from numpy import polyint as polyint
from numpy import polymul as polymul
from numpy import polysub as polysub
from numpy import polyval as polyval
from numpy import positive as positive
from numpy import pow as pow
from numpy import power as power
from numpy import prod as prod
from numpy import ptp as ptp
from numpy import put as put
from numpy import put_along_axis as put_along_axis
from numpy import putmask as putmask
from numpy import quantile as quantile
from numpy import rad2deg as rad2deg
from numpy import radians as radians
from numpy import ravel as ravel
from numpy import ravel_multi_index as ravel_multi_index
from numpy import real as real
from numpy import real_if_close as real_if_close
from numpy import reciprocal as reciprocal
from numpy import remainder as remainder
from numpy import repeat as repeat
from numpy import reshape as reshape
from numpy import resize as resize
from numpy import result_type as result_type
from numpy import right_shift as right_shift
from numpy import rint as rint
from numpy import roll as roll
from numpy import rollaxis as rollaxis
from numpy import roots as roots
from numpy import rot90 as rot90
from numpy import round as round
from numpy import row_stack as row_stack
from numpy import searchsorted as searchsorted
from numpy import select as select
from numpy import setdiff1d as setdiff1d
from numpy import setxor1d as setxor1d
from numpy import shape as shape
from numpy import sign as sign
from numpy import signbit as signbit
from numpy import sin as sin
from numpy import sinc as sinc
from numpy import sinh as sinh
from numpy import size as size
from numpy import sort as sort
from numpy import sort_complex as sort_complex
from numpy import spacing as spacing
from numpy import split as split
from numpy import sqrt as sqrt
from numpy import square as square
from numpy import squeeze as squeeze
from numpy import stack as stack
from numpy import std as std
from numpy import subtract as subtract
from numpy import sum as sum
from numpy import swapaxes as swapaxes
from numpy import take as take
from numpy import take_along_axis as take_along_axis
from numpy import tan as tan
from numpy import tanh as tanh
from numpy import tensordot as tensordot
from numpy import tile as tile
from numpy import trace as trace
from numpy import transpose as transpose
from numpy import trapezoid as trapezoid
from numpy import tri as tri
from numpy import tril as tril
from numpy import tril_indices_from as tril_indices_from
from numpy import trim_zeros as trim_zeros
from numpy import triu as triu
from numpy import triu_indices_from as triu_indices_from
from numpy import true_divide as true_divide
from numpy import trunc as trunc
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64
from numpy import uint8 as uint8
from numpy import union1d as union1d
from numpy import unique as unique
from numpy import unique_all as unique_all
from numpy import unique_counts as unique_counts
from numpy import unique_inverse as unique_inverse
from numpy import unique_values as unique_values
from numpy import unpackbits as unpackbits
from numpy import unravel_index as unravel_index
from numpy import unstack as unstack
from numpy import unwrap as unwrap
from numpy import vander as vander
from numpy import var as var
from numpy import vdot as vdot
from numpy import vecdot as vecdot
from numpy import vecmat as vecmat
from numpy import vsplit as vsplit
from numpy import vstack as vstack
from numpy import where as where
from numpy import zeros as zeros
from numpy import zeros_like as zeros_like

from adjit import linalg as linalg
from adjit.nn.functional import sigmoid as sigmoid
from adjit.special import erf as erf
from adjit.special import log_softmax as log_softmax
from adjit.special import logsumexp as logsumexp
from adjit.special import softmax as softmax

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "angle",
    "any",
    "append",
    "apply_along_axis",
    "apply_over_axes",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "around",
    "array",
    "array2string",
    "array_equal",
    "array_equiv",
    "array_repr",
    "array_split",
    "array_str",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "bincount",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block",
    "bool_",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "cbrt",
    "ceil",
    "choose",
    "clip",
    "column_stack",
    "common_type",
    "compress",
    "concat",
    "concatenate",
    "conj",
    "conjugate",
    "convolve",
    "copy",
    "copysign",
    "copyto",
    "corrcoef",
    "correlate",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "deg2rad",
    "degrees",
    "delete",
    "diag",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "diff",
    "digitize",
    "divide",
    "divmod",
    "dot",
    "dsplit",
    "dstack",
    "dtype",
    "e",
    "ediff1d",
    "einsum",
    "einsum_path",
    "empty",
    "empty_like",
    "equal",
    "erf",
    "euler_gamma",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "extract",
    "eye",
    "fabs",
    "fill_diagonal",
    "fix",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "float32",
    "float64",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "full",
    "full_like",
    "gcd",
    "geomspace",
    "gradient",
    "greater",
    "greater_equal",
    "heaviside",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "hsplit",
    "hstack",
    "hypot",
    "i0",
    "identity",
    "imag",
    "inf",
    "inner",
    "insert",
    "int16",
    "int32",
    "int64",
    "int8",
    "interp",
    "intersect1d",
    "invert",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "ix_",
    "kron",
    "lcm",
    "ldexp",
    "left_shift",
    "less",
    "less_equal",
    "lexsort",
    "linalg",
    "linspace",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logspace",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "matvec",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "min_scalar_type",
    "minimum",
    "mod",
    "modf",
    "moveaxis",
    "multiply",
    "nan",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "ndarray",
    "ndim",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "outer",
    "packbits",
    "pad",
    "partition",
    "percentile",
    "permute_dims",
    "pi",
    "piecewise",
    "place",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "positive",
    "pow",
    "power",
    "prod",
    "ptp",
    "put",
    "put_along_axis",
    "putmask",
    "quantile",
    "rad2deg",
    "radians",
    "ravel",
    "ravel_multi_index",
    "real",
    "real_if_close",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "resize",
    "result_type",
    "right_shift",
    "rint",
    "roll",
    "rollaxis",
    "roots",
    "rot90",
    "round",
    "row_stack",
    "searchsorted",
    "select",
    "setdiff1d",
    "setxor1d",
    "shape",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "size",
    "softmax",
    "sort",
    "sort_complex",
    "spacing",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "trapezoid",
    "tri",
    "tril",
    "tril_indices_from",
    "trim_zeros",
    "triu",
    "triu_indices_from",
    "true_divide",
    "trunc",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unpackbits",
    "unravel_index",
    "unstack",
    "unwrap",
    "vander",
    "var",
    "vdot",
    "vecdot",
    "vecmat",
    "vsplit",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]
