"""The errors that adjit raises, by name; all derive from `AdjitError`.

Each says what happened, where in the caller's code (`.location`), and what to do (`.hint`).

>>> issubclass(ShapeError, AdjitError) and issubclass(ShapeError, ValueError)
True
"""

from adjit.ir.errors import (
    AdjitError,
    CacheError,
    DonationError,
    DTypeError,
    ExportError,
    GraphFreedError,
    Location,
    NonDifferentiableError,
    ShapeError,
    TraceError,
    UnsupportedError,
)

__all__ = [
    "AdjitError", "CacheError", "DTypeError", "DonationError", "ExportError", "GraphFreedError", "Location",
    "NonDifferentiableError", "ShapeError", "TraceError", "UnsupportedError",
]
