"""NumPy's functions over traced arrays, made of op records. Importing this package fills the tables of the protocols."""

from adjit.tracer.functions import (
    applying,
    assembling,
    complex_numbers,
    composites,
    contraction,
    creation,
    einsum,
    indexing,
    joining,
    masked_indexing,
    masking,
    number_parts,
    reductions,
    scimath,
    searching,
    selecting,
    sets,
    shapes,
    signals,
    special,
    statistics,
    texts,
    ufunc_methods,
    ufuncs,
    writing,
)

__all__ = [
    "applying", "assembling", "complex_numbers", "composites", "contraction", "creation", "einsum", "indexing", "joining",
    "masked_indexing", "masking", "number_parts", "reductions", "scimath", "searching", "selecting", "sets", "shapes", "signals", "special",
    "statistics", "texts",
    "ufunc_methods", "ufuncs", "writing",
]
