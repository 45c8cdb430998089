"""Complex samples of op records, made of their samples of reals, and arrays of special numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from support.op_cases import type_of

from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample
from adjit.ir.errors import DTypeError
from adjit.ir.types import C64, C128, F32, F64

PRIMITIVE = tuple(kind for kind in Kind if kind not in (Kind.REGION, Kind.MEMORY, Kind.CHECK, Kind.CREATION, Kind.LINALG))
"""Matrix ops take complex numbers as they are, and have samples of them."""


def with_imaginary_parts(array: np.ndarray) -> np.ndarray:
    """Floats become complex numbers, whose imaginary parts are the same floats in another order."""
    if array.dtype not in (F32, F64):
        return array
    imag = 0.5 * np.roll(array.reshape(-1), 1)[::-1].reshape(array.shape) if array.size > 1 else 0.7 * array
    made = np.empty(array.shape, C64 if array.dtype == F32 else C128)
    made.real, made.imag = array, imag
    return made


def complex_samples(definition: OpDefinition) -> Iterator[Sample]:
    """Samples of finite floats as complex ones, if the op takes complex numbers."""
    for sample in definition.samples():
        arrays = tuple(map(with_imaginary_parts, sample.arrays))
        if all(array is old for array, old in zip(arrays, sample.arrays, strict=True)):
            continue
        if definition.name == "power" and not sample.arrays[0].all():       # 0 to a complex power has no derivative
            continue
        if any(array.dtype.kind == "c" and not np.isfinite(array).all() for array in arrays):
            continue
        made = replace(sample, arrays=arrays)
        if definition.name == "convert":
            made = replace(made, attrs={"dtype": C64 if sample.attrs["dtype"] == F32 else C128})
        try:
            definition.result_types([type_of(array) for array in arrays], made.attrs)
        except DTypeError:
            continue
        yield made


def complex_cases() -> Iterator[tuple[str, OpDefinition, Sample]]:
    """(name, op, sample) of all complex samples."""
    for name, definition in DEFINITIONS.items():
        if definition.kind in PRIMITIVE:
            for number, sample in enumerate(complex_samples(definition)):
                yield f"{name} {number}", definition, sample


PARTS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-20, -1e-160, 5e-324, 30.0, -720.0, 710.3, 1e160, -1.7e308, np.inf, -np.inf, np.nan])
"""Numbers around which elementary functions take another way."""


def special_numbers(dtype: np.dtype) -> np.ndarray:
    """All pairs of `PARTS`."""
    made = np.empty((PARTS.size, PARTS.size), dtype)
    with np.errstate(over="ignore", under="ignore"):
        made.real, made.imag = PARTS[:, None], PARTS
    return made.reshape(-1)
