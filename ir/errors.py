"""Every error a user can meet, and the source locations they point at.

An error says what happened, where in the user's code, and what to do about it.
"""

from __future__ import annotations

import linecache
from enum import Enum

from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source: `file`, 1-based `line`, enclosing `function`."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    def source(self) -> str:
        """The text of the line, stripped; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def describe(self) -> str:
        """One or two lines for messages: the place, and the source text where it is known."""
        text = self.source()
        return f"{self}\n        {text}" if text else str(self)


class Role(Enum):
    """Why an op exists: the user's computation, its adjoint, a forward op run again, or an optimiser's update."""

    PRIMAL = "primal"
    ADJOINT = "adjoint"
    RECOMPUTE = "recompute"
    UPDATE = "update"


class AdjitError(Exception):
    """Base of all errors of adjit.

    `message` says what happened, `location` where in the user's code, `hint` what to do.
    """

    def __init__(self, message: str, location: Location | None = None, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.location is not None:
            lines.append(f"    at {self.location.describe()}")
        if self.hint:
            lines.append(f"    {self.hint}")
        return "\n".join(lines)


class ShapeError(AdjitError, ValueError):
    """Shapes that do not fit together."""


class IndexingError(ShapeError, IndexError):
    """An index, a mask, an axis or a class label that does not fit the shape it is for."""


class ArgumentError(AdjitError, ValueError):
    """An argument with a value that a function does not take."""


class DTypeError(AdjitError, TypeError):
    """A dtype that an operation, or adjit, does not support; or a scalar where an array is needed."""


class IntegerOverflowError(AdjitError, OverflowError):
    """A Python integer that the dtype of the arrays it meets cannot hold."""


class TraceError(AdjitError, RuntimeError):
    """Something that cannot be traced, or a traced value used outside of its trace."""


class UnsupportedError(AdjitError, NotImplementedError):
    """A NumPy function, argument or object that has no rule."""


class NonDifferentiableError(AdjitError, TypeError, RuntimeError):
    """A derivative asked for where there is none."""


class GraphFreedError(AdjitError, RuntimeError):
    """A second backward pass through a graph whose saved tensors were freed."""


class InPlaceError(AdjitError, RuntimeError):
    """A write in place that would make a gradient wrong."""


class AnomalyError(AdjitError, RuntimeError):
    """NaN in a backward pass, found by anomaly detection."""


class ExportError(AdjitError, RuntimeError):
    """An exported file that cannot be written, read or trusted."""


class StateError(AdjitError, RuntimeError):
    """The state of a module that does not fit, or a file of one that cannot be written, read or trusted."""


class CacheError(AdjitError, RuntimeError):
    """A disk cache that cannot be used."""


class DonationError(AdjitError, ValueError):
    """A donated argument whose buffer cannot be taken."""


class RenderError(AdjitError, RuntimeError):
    """A picture that cannot be drawn; `source` is its text in the DOT language."""

    def __init__(self, message: str, source: str, location: Location | None = None, hint: str | None = None):
        super().__init__(message, location, hint)
        self.source = source


class VerificationError(AdjitError, AssertionError):
    """A graph that breaks an invariant of the IR: a defect of adjit, or of a hand-written graph."""


class ParseError(AdjitError, ValueError):
    """IR text that cannot be read; the message holds line, column and a caret."""
