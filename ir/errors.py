"""Errors that a user can meet, and the source locations they point at.

An error says what happened, where in the user's code, and what to do about it. It is of the class that NumPy raises, and of that which
PyTorch raises, `RuntimeError` most often: handlers that were written for either catch it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """Location in the user's source: `file`, 1-based `line`, enclosing `function`.

    >>> print(Location("step.py", 3, "loss"))
    step.py:3 in loss
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    def source(self) -> str:
        """Text of the line, stripped; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def describe(self) -> str:
        """One or two lines for messages: the location, and the source text if it is known."""
        text = self.source()
        return f"{self}\n        {text}" if text else str(self)


class Role(Enum):
    """Reason why an op exists: the user's computation, its adjoint, a rematerialized forward op, or an optimiser's update."""

    PRIMAL = "primal"
    ADJOINT = "adjoint"
    RECOMPUTE = "recompute"
    UPDATE = "update"

    @property
    def phase(self) -> str:
        """The part of a training step that the op belongs to, as reports name it."""
        return {Role.PRIMAL: "forward", Role.ADJOINT: "backward", Role.RECOMPUTE: "recomputed", Role.UPDATE: "update"}[self]


class AdjitError(Exception):
    """Base of all errors of adjit.

    `message` says what happened, `location` where in the user's code, `hint` what to do.

    >>> import numpy as np
    >>> import adjit as aj
    >>> try:
    ...     aj.compile(lambda x: np.is_busday(x))(np.eye(2))
    ... except AdjitError as error:
    ...     print(error.message)
    numpy.is_busday has no rule for traced arrays
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


ErrorKind = TypeVar("ErrorKind", bound=AdjitError)


class Refusal(AdjitError):
    """Base of the errors for what adjit cannot do and NumPy can."""

    def __init__(self, message: str, location: Location | None = None, hint: str | None = None):
        super().__init__(message, location, hint)
        refused(self)


REFUSAL_OBSERVERS: list[Callable[[AdjitError], None]] = []
"""Functions that are told of each refusal when it is made."""


def refused(error: ErrorKind) -> ErrorKind:
    """The error, of which observers are told: adjit cannot do what NumPy can, although its class is one that NumPy raises, too."""
    for observe in REFUSAL_OBSERVERS:
        observe(error)
    return error


class ShapeError(AdjitError, ValueError, RuntimeError):
    """Shapes that do not fit together.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.compile(lambda x, y: x + y)(np.ones(2), np.ones(3))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.ShapeError: add: the shapes of float64[2] and float64[3] cannot be broadcast together
    """


class IndexingError(AdjitError, IndexError, RuntimeError):
    """An index, a mask, an axis or a class label that does not fit the shape that it indexes. Of an axis it is also a `ValueError`, as
    NumPy's `AxisError` is.

    >>> import adjit as aj
    >>> aj.tensor([1.0, 2.0])[3]       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.IndexingError: index 3 is out of bounds for axis 0 with size 2
    """


class ArgumentError(AdjitError, ValueError, RuntimeError):
    """An argument with a value that a function does not take.

    >>> import adjit as aj
    >>> aj.tensor([1.0, 2.0]).clamp()       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.ArgumentError: clamp: at least one of min and max is given
    """


class DTypeError(AdjitError, TypeError, RuntimeError):
    """A dtype that an operation, or adjit, does not support; or a scalar where an array is needed.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.nn.functional.relu(np.arange(3))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.DTypeError: relu takes floating-point arrays, got int64
    """


class IntegerOverflowError(AdjitError, OverflowError):
    """A Python integer that does not fit the dtype of the arrays it is combined with.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.compile(lambda x: x + 300)(np.zeros(2, np.uint8))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.IntegerOverflowError: Python integer 300 out of bounds for uint8
    """


class TraceError(Refusal, RuntimeError):
    """Something that cannot be traced, or a traced value used outside of its trace.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.compile(lambda x: np.asarray(x))(np.ones(2))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.TraceError: making an ordinary ndarray of a traced array, whose values are not known while tracing (...)
    """


class UnsupportedError(Refusal, NotImplementedError):
    """A NumPy function, argument or object that has no rule.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.compile(lambda x: np.shares_memory(x, x))(np.eye(2))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.UnsupportedError: numpy.shares_memory has no rule for traced arrays
    """


class NonDifferentiableError(Refusal, TypeError, RuntimeError):
    """A derivative asked for where there is none.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.grad(lambda x: 2 * x)(np.ones(2))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.NonDifferentiableError: grad of <lambda>: the output has shape (2,), expected a scalar
    """


class GraphFreedError(AdjitError, RuntimeError):
    """A second backward pass through a graph whose saved tensors were freed.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> y.backward()       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.GraphFreedError: MulBackward0 has no saved tensors any more: a backward pass through it has freed them
    """


class ZeroDivisorError(AdjitError, ZeroDivisionError, RuntimeError):
    """Integers of an eager tensor are divided by 0.

    >>> import adjit as aj
    >>> aj.tensor([1, 2]) // 0       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.ZeroDivisorError: __floordiv__: integers are divided by 0
    """


class InPlaceError(AdjitError, RuntimeError):
    """A write in place that would make a gradient wrong.

    >>> import adjit as aj
    >>> aj.tensor([1.0], requires_grad=True).add_(1.0)       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.InPlaceError: a leaf that requires grad is written to in place
    """


class AnomalyError(AdjitError, RuntimeError):
    """NaN in a backward pass, found by anomaly detection.

    >>> import adjit as aj
    >>> x = aj.tensor([0.0], requires_grad=True)
    >>> with aj.autograd.detect_anomaly():      # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     (x / x).sum().backward()
    Traceback (most recent call last):
    adjit.errors.AnomalyError: DivBackward0 gives NaN in the gradient of operand 1
    """


class NonFiniteError(AdjitError, FloatingPointError):
    """A NaN or an infinity in the results of a call, within `adjit.debug.nans()`.

    >>> import numpy as np
    >>> import adjit as aj
    >>> with aj.debug.nans():      # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     aj.compile(np.log)(0.0)
    Traceback (most recent call last):
    adjit.errors.NonFiniteError: log makes -inf
    """


class ShadowWarning(RuntimeWarning):
    """A compiled function computes something else than the Python function, as a shadow run found (`adjit.compile(f, shadow=...)`).

    >>> issubclass(ShadowWarning, RuntimeWarning)
    True
    """


class ExportError(AdjitError, RuntimeError):
    """An exported file that cannot be written, read or trusted.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.compile(lambda x: 2 * x).export("step.txt", np.ones(2))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.ExportError: 'step.txt' has no suffix that says what to write
    """


class StateError(AdjitError, RuntimeError):
    """A module's state that does not fit, or a state file that cannot be written, read or trusted.

    >>> import adjit as aj
    >>> aj.nn.Linear(3, 2).load_state_dict({})       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.StateError: the state does not fit Linear; nothing was loaded
    """


class DistributedError(AdjitError, RuntimeError):
    """Ranks whose programs differ, an error of MPI, or a world that is set up in another way than its ranks say.

    >>> issubclass(DistributedError, RuntimeError)
    True
    """


class CacheError(AdjitError, RuntimeError):
    """A disk cache that cannot be used.

    >>> issubclass(CacheError, AdjitError)
    True
    """


class DonationError(AdjitError, ValueError):
    """A donated argument whose buffer cannot be taken.

    >>> import numpy as np
    >>> import adjit as aj
    >>> x = np.ones(2)
    >>> x.flags.writeable = False
    >>> aj.compile(lambda x: x + 1.0, donate="x")(x)       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.errors.DonationError: donated argument x is read-only
    """


class RenderError(AdjitError, RuntimeError):
    """A picture that cannot be drawn; `source` is its text in the DOT language.

    >>> RenderError("there is no program dot", "digraph {}").source
    'digraph {}'
    """

    def __init__(self, message: str, source: str, location: Location | None = None, hint: str | None = None):
        super().__init__(message, location, hint)
        self.source = source


class VerificationError(AdjitError, AssertionError):
    """A graph that breaks an invariant of the IR: a defect of adjit, or of a hand-written graph."""


class ParseError(AdjitError, ValueError):
    """IR text that cannot be read; the message holds line, column and a caret."""
