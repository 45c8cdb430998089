"""Elementwise functions of another library: compiled functions of scalars, called once for each element.

The functions are those of `scipy.special`. Native programs call the C functions of `scipy.special.cython_special`, without Python; the
interpreter, the numba backend and eager tensors call the ufuncs of `scipy.special` themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir.definition import Kind, NoDerivative, OpDefinition, Sample, define
from adjit.ir.errors import DTypeError, UnsupportedError
from adjit.ir.graph import Attributes, Value
from adjit.ir.lazy_module import LazyModule
from adjit.ir.ops.arithmetic import strong_multiply
from adjit.ir.ops.rules import FLOAT, same_as_operands
from adjit.ir.ops.sampling import edge_pairs, edges, uniform
from adjit.ir.types import F32, F64, I64, TensorType

if TYPE_CHECKING:
    from adjit.ir.ops import external_functions as table
else:
    table = LazyModule("adjit.ir.ops.external_functions")

MODULE = "scipy.special.cython_special"
"""Module with the functions of C."""

_same = same_as_operands(FLOAT)


def scipy_special() -> Any:
    """Import `scipy.special`; raises `UnsupportedError` if SciPy is not installed."""
    try:
        import scipy.special
    except ImportError:
        raise UnsupportedError("this function is SciPy's, and SciPy is not installed", hint="pip install 'adjit[scipy]'") from None
    return scipy.special


def _infer(*types: TensorType, function: str, output: int) -> TensorType:
    known = table.FUNCTIONS.get(function)
    if known is None or not 0 <= output < len(known.derivatives):
        raise DTypeError(f"there is no result {output} of a function {function!r}")
    if len(types) != known.arity:
        raise DTypeError(f"{function} takes {known.arity} operands, got {len(types)}")
    return _same(*types)


def _evaluate(*arrays: np.ndarray, function: str, output: int) -> np.ndarray:
    """Results of the float64 loop, as machine code calls the functions of doubles."""
    known, given = table.FUNCTIONS[function], [array.astype(F64, copy=False) for array in arrays]
    if known.whole:
        given[:known.whole] = [array.astype(I64) for array in given[:known.whole]]
    if known.of_complex:
        first = len(given) - 2 * known.of_complex
        given[first:] = [complex_of(*given[k:k + 2]) for k in range(first, len(given), 2)]
    result = getattr(scipy_special(), known.name)(*given)
    results = result if isinstance(result, tuple) else (result,)
    if known.of_complex:
        results = tuple(part for number in results for part in (number.real, number.imag))
    return np.asarray(results[output]).astype(arrays[0].dtype, copy=False)


def complex_of(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Complex numbers of these parts, also where they are infinite."""
    found = np.empty(real.shape, np.complex128)
    found.real, found.imag = real, imaginary
    return found


def _vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...],
         attrs: Attributes) -> Sequence[Value | NoDerivative | None]:
    function, output = attrs["function"], attrs["output"]
    pulled: list[Value | NoDerivative | None] = []
    known = table.FUNCTIONS[function]
    for number, rule in enumerate(known.derivatives[output]):
        if isinstance(rule, str):
            pulled.append(NoDerivative(f"scipy.special.{known.name} has no derivative in its argument {number + 1}: {rule}"))
        else:
            pulled.append(None if rule is None else strong_multiply(ct, rule(results[0], *operands)))
    return pulled


def _samples() -> Iterator[Sample]:
    """Functions of one to four operands, and one with several results; all functions are tested by themselves."""
    def sample(function: str, *ranges: tuple[float, float], wrt: tuple[int, ...], shape: tuple[int, ...] = (3, 4), dtype: np.dtype = F64,
               output: int = 0) -> Sample:
        arrays = tuple(uniform(shape, *ends, dtype, seed) for seed, ends in enumerate(ranges))
        return Sample(arrays, {"function": function, "output": output}, differentiable=wrt)

    for shape in ((3, 4), (), (0, 3)):
        yield sample("ellipk", (-0.5, 0.8), wrt=(0,) if shape else (), shape=shape)
    yield sample("gammainc", (0.5, 3), (0.5, 3), wrt=(1,))
    yield sample("poch", (0.5, 3), (0.5, 3), wrt=(0, 1))
    yield sample("betainc", (1.5, 3), (1.5, 3), (0.2, 0.8), wrt=(2,))
    yield sample("hyp2f1", (0.5, 1), (0.5, 1), (1.5, 2), (0.1, 0.5), wrt=(3,))
    yield sample("sici", (0.5, 3), wrt=(0,), output=1)
    yield sample("jv", (0, 2), (0.5, 3), wrt=(1,))
    yield sample("jv", (0, 2), (0.5, 3), wrt=(), dtype=F32)
    yield sample("eval_hermite", (0, 4), (0.5, 3), wrt=())
    degrees = np.arange(12.0).reshape(3, 4) % 5
    yield Sample((degrees, uniform((3, 4), 0.5, 3)), {"function": "eval_hermite", "output": 0}, differentiable=(1,))
    yield sample("wofz", (-2, 2), (0.1, 2), wrt=(0, 1), output=1)
    yield sample("wofz", (-2, 2), (0.1, 2), wrt=(), dtype=F32)
    yield sample("complex_sici", (0.5, 3), (-1, 1), wrt=(0, 1), output=3)
    yield sample("complex_elliprc", (0.5, 3), (0.5, 1), (0.5, 2), (-1, -0.5), wrt=(0, 1, 2, 3), output=1)
    for dtype in (F32, F64):
        yield Sample((edges(dtype),), {"function": "k0", "output": 0})
        yield Sample(edge_pairs(dtype), {"function": "gammaincc", "output": 0})


external: OpDefinition = define(
    "external", Kind.EXTERNAL, attributes={"function": str, "output": int},
    doc="Result number `output` of the function of scipy.special with this name, at each element; computed in float64.",
    infer=_infer, evaluate=_evaluate, vjp=_vjp, samples=_samples, external=(MODULE, "functions of numbers"))
