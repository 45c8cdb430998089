"""NumPy 2's promotion (NEP 50), resolved while tracing: NumPy itself is asked which dtypes its loop would use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from adjit.ir.errors import DTypeError, refused
from adjit.ir.thread_context import thread
from adjit.ir.types import (
    C128,
    F16,
    F32,
    F64,
    I64,
    SHORT_NAMES,
    SUPPORTED_DTYPES,
    bfloat16,
    check_dtype,
    dtype_kind,
    is_half,
    is_supported,
)
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.lowering import broadcast, constant, convert
from adjit.tracer.user_location import find_user_location

Operand = TracedArray | np.generic | bool | int | float | complex
Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
Kind = np.dtype | type      # a dtype, or `int`, `float` or `complex` for a weak scalar


def as_operand(x: Any) -> Operand:
    """Return `x` as an operand of an elementwise function; scalars stay scalars, so that they cost nothing."""
    if isinstance(x, TracedArray) or type(x) in (float, int, bool, complex) or (
            isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)):
        return x
    if isinstance(x, np.generic):
        check_dtype(x.dtype)
        return x
    return as_traced(x)


def shape_of(x: Operand) -> tuple[int, ...]:
    return x.shape if isinstance(x, TracedArray) else ()


def kind_of(x: Operand) -> Kind:
    """Return the kind of `x` in promotion."""
    if isinstance(x, TracedArray):
        return x.dtype if not x.weak or x.dtype.kind == "b" else _WEAK_KINDS.get(dtype_kind(x.dtype), int)
    if isinstance(x, np.generic):
        return check_dtype(x.dtype)
    return np.dtype(np.bool_) if isinstance(x, bool) else next(kind for kind in (float, int, complex) if isinstance(x, kind))


_WEAK_KINDS: dict[str, type] = {"f": float, "c": complex}


def is_weak(x: Any) -> bool:
    return x.weak if isinstance(x, TracedArray) else isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)


def to_value(x: Operand, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """Return `x` as a value of this dtype and shape."""
    if isinstance(x, TracedArray):
        x.check_fits(dtype)
        return broadcast(convert(x.value, dtype), shape)
    return constant(x, dtype, shape)


_DEFAULTS: dict[type, np.dtype] = {int: I64, float: F64, complex: C128}


@lru_cache(maxsize=4096)
def loop_dtypes(ufunc: np.ufunc, kinds: tuple[Kind, ...], dtype: np.dtype | tuple[Any, ...] | None, casting: Casting
                ) -> tuple[np.dtype, ...]:
    """Return the dtypes that `ufunc` computes with: of its inputs, then of its outputs. `dtype` is that of the outputs, or the dtypes of
    the loop, with None where NumPy chooses."""
    if all(isinstance(kind, type) for kind in kinds):
        kinds = tuple(_DEFAULTS[kind] for kind in kinds)      # type: ignore[index]
    signature = dtype if dtype is None or isinstance(dtype, tuple) else (None,) * ufunc.nin + (dtype,) * ufunc.nout
    options: dict[str, Any] = {} if signature is None else {"signature": signature}
    resolved = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout), casting=casting, **options)
    return tuple(check_dtype(dtype) if is_supported(dtype) else dtype for dtype in resolved)


def resolve(ufunc: np.ufunc, operands: Sequence[Operand], dtype: Any = None, casting: Casting = "same_kind") -> tuple[np.dtype, ...]:
    """Resolve dtypes as `loop_dtypes` does; raises `DTypeError` if NumPy raises, or if adjit does not have the loop's dtype."""
    asked = dtype if dtype is None or isinstance(dtype, tuple) else np.dtype(dtype)
    kinds = tuple(map(kind_of, operands))
    if not _as_pytorch() or not any(map(_is_bfloat16, kinds)):
        return _supported_dtypes(ufunc, kinds, asked, casting)
    stand_in = _stand_in(kinds)
    asked = tuple(map(stand_in, asked)) if isinstance(asked, tuple) else stand_in(asked)
    dtypes = _supported_dtypes(ufunc, tuple(map(stand_in, kinds)), asked, casting)
    return tuple(bfloat16() if dtype == F16 else dtype for dtype in dtypes)


def _as_pytorch() -> bool:
    """True within one operation of tensors, where bfloat16 promotes as in PyTorch: with a Python number to itself, not to float32."""
    scopes = thread.context.scopes
    return bool(scopes) and scopes[-1].as_pytorch


def _is_bfloat16(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and is_half(kind) and kind != F16


def _stand_in(kinds: Sequence[Kind]) -> Callable[[Any], Any]:
    """What promotes in NumPy as bfloat16 does in PyTorch: float16, or beside float16 float32."""
    dtype = F32 if F16 in kinds else F16
    return lambda kind: dtype if _is_bfloat16(kind) else kind


def loop_of(ufunc: np.ufunc, signature: Any) -> tuple[Any, ...]:
    """Return the dtypes that `signature=` asks for: of the inputs, then of the outputs, with None where NumPy chooses."""
    if isinstance(signature, str):
        signature = tuple(signature.replace("->", ""))
    if not isinstance(signature, tuple):
        signature = (signature,)
    if len(signature) == 1:
        signature = (None,) * ufunc.nin + signature * ufunc.nout
    if len(signature) != ufunc.nin + ufunc.nout:
        raise ValueError(f"a type-tuple must be specified of length 1 or {ufunc.nin + ufunc.nout} for ufunc '{ufunc.__name__}'")
    return tuple(None if kind is None else np.dtype(kind) for kind in signature)


@lru_cache(maxsize=4096)
def _supported_dtypes(ufunc: np.ufunc, kinds: tuple[Kind, ...], dtype: np.dtype | tuple[Any, ...] | None, casting: Casting
                      ) -> tuple[np.dtype, ...]:
    try:
        dtypes = loop_dtypes(ufunc, kinds, dtype, casting)
    except TypeError as error:
        raise DTypeError(f"{ufunc.__name__}: {error}", find_user_location()) from None
    for resolved in dtypes:
        if not is_supported(resolved):
            names = ", ".join(kind.__name__ if isinstance(kind, type) else str(kind) for kind in kinds)
            raise DTypeError(f"{ufunc.__name__} of {names} is {resolved} in NumPy, which is not supported", find_user_location(),
                             hint="convert the operand with .astype(np.float32) or .astype(np.float64) first")
    return dtypes


def dtype_argument(dtype: Any) -> np.dtype:
    """Return the dtype that a user named; raises `DTypeError` if it is not supported."""
    known = _NATIVE.get(dtype) if isinstance(dtype, np.dtype) else None
    if known is not None:
        return known
    target = bfloat16() if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype)
    if not is_supported(target):
        raise refused(DTypeError(f"{target}: this dtype is not supported", find_user_location(), hint=f"supported: {SUPPORTED_DTYPES}"))
    return check_dtype(target)


_NATIVE = {dtype: dtype for dtype in SHORT_NAMES.values()}


def common_dtype(operands: Sequence[Operand]) -> np.dtype:
    """Return `np.result_type` of the operands."""
    kinds = [kind_of(x) for x in operands]
    found = any(map(_is_bfloat16, kinds)) and _as_pytorch()
    kinds = list(map(_stand_in(kinds), kinds)) if found else kinds
    dtype = check_dtype(np.result_type(*(kind(0) if isinstance(kind, type) else kind for kind in kinds)))
    return bfloat16() if found and dtype == F16 else dtype


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """Accumulator dtype of `sum`, `prod`, `cumsum` and `cumprod`: small integers and bools are widened."""
    if dtype.kind in "bi":
        return I64
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype
