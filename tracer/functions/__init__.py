"""NumPy's functions over traced arrays, made of op records. Importing this package fills the tables of the protocols."""

from adjit.tracer.functions import (
    composites,
    contraction,
    creation,
    einsum,
    indexing,
    joining,
    masked_indexing,
    masking,
    reductions,
    searching,
    selecting,
    sets,
    shapes,
    special,
    ufuncs,
)

__all__ = [
    "composites", "contraction", "creation", "einsum", "indexing", "joining", "masked_indexing", "masking", "reductions", "searching",
    "selecting", "sets", "shapes", "special", "ufuncs",
]
