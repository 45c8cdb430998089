"""Errors that adjit raises, by name; all derive from `AdjitError`.

Each error says what happened, where in the caller's code (`.location`), and what to do (`.hint`).

>>> issubclass(ShapeError, AdjitError) and issubclass(ShapeError, ValueError)
True
"""

from adjit.ir.errors import (
    AdjitError,
    AnomalyError,
    ArgumentError,
    CacheError,
    DistributedError,
    DonationError,
    DTypeError,
    ExportError,
    GraphFreedError,
    IndexingError,
    InPlaceError,
    IntegerOverflowError,
    Location,
    NonDifferentiableError,
    NonFiniteError,
    RenderError,
    ShadowWarning,
    ShapeError,
    StateError,
    TraceError,
    UnsupportedError,
    ZeroDivisorError,
)

__all__ = [
    "AdjitError", "AnomalyError", "ArgumentError", "CacheError", "DTypeError", "DistributedError", "DonationError", "ExportError",
    "GraphFreedError", "InPlaceError", "IndexingError", "IntegerOverflowError", "Location", "NonDifferentiableError",
    "NonFiniteError", "RenderError", "ShadowWarning", "ShapeError", "StateError", "TraceError", "UnsupportedError", "ZeroDivisorError",
]
