"""Errors of NumPy's functions: what NumPy says of arrays of these shapes and dtypes, at the user's line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adjit.ir.errors import AdjitError, ArgumentError, DTypeError, IndexingError, ShapeError
from adjit.tracer.array import ORDINARY, TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.caught_errors import is_caught_as_numpys, note_refusal
from adjit.tracer.user_location import find_user_location

MAX_ELEMENTS = 1 << 22
"""Elements of arguments up to which NumPy's function is called: it may succeed, and then takes its time."""

MAX_WRITTEN = 1 << 16
"""Elements of arguments up to which stand-ins can be written to."""

RAISED = (ValueError, TypeError, IndexError)
"""Errors that may be NumPy's, too."""

_PLAIN = frozenset((*RAISED, OverflowError, ZeroDivisionError, np.exceptions.AxisError, np.linalg.LinAlgError))
_OF_SHAPES = (ShapeError, IndexingError, DTypeError, ArgumentError)
_KINDS: tuple[type[Exception], ...] = (np.exceptions.AxisError, np.linalg.LinAlgError, IndexError, ValueError, TypeError)
_OURS = {np.exceptions.AxisError: IndexingError, IndexError: IndexingError, TypeError: DTypeError}
_OF_VALUES = ("read-only", "Singular matrix", "positive definite", "converge", "NaN", "inf", "scalar variable")
"""Words in errors about values of the arguments, which stand-ins do not have; and about an index into a scalar, by which Python, where it
iterates over a traced one, would end the loop."""


_STAND_IN = re.compile(r", got '1(\.0)?'$")
"""Words of an error about what stands in for an argument."""


class _Succeeded(Exception):
    """What stands for the error of a function of NumPy that has none."""


class _NoStandIn(Exception):
    """Raised for arguments that have no stand-in."""


def as_numpy_raises(error: Exception, function: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception:
    """The error with NumPy's message and kind, if its `function` raises one for stand-ins of the arguments; else `error` itself.

    The message of `error` follows NumPy's where it says something else.
    """
    if function is None or not (isinstance(error, _OF_SHAPES) or type(error) in _PLAIN):
        return error
    theirs = _raised_by(function, args, kwargs)
    if isinstance(theirs, _Succeeded) and isinstance(error, DTypeError):
        note_refusal(error)     # what NumPy does not raise
    if theirs is None or isinstance(theirs, _Succeeded) or any(word in str(theirs) for word in _OF_VALUES):
        return error
    if is_caught_as_numpys(type(error)) or is_caught_as_numpys(type(theirs)):
        return type(theirs)(*theirs.args).with_traceback(error.__traceback__)
    message, ours = _STAND_IN.sub("", str(theirs).strip()), error.message if isinstance(error, AdjitError) else str(error)
    first, *rest = ours.split("\n")
    rest = [line.strip() for line in rest if line.strip() not in message]
    own = [first] if first not in message and message not in first else []
    message = first if message in first else message
    kind = next(kind for kind in _KINDS if isinstance(theirs, kind))
    base = _OURS.get(kind, ArgumentError)
    if isinstance(error, AdjitError) and _caught_as(type(error)) <= _caught_as(kind):
        base = type(error)
        if message == ours and isinstance(error, kind):
            return error
    location, hint = (error.location, error.hint) if isinstance(error, AdjitError) else (None, None)
    made = _class(base, kind)("\n    ".join([message, *own, *rest]), location or find_user_location(), hint)
    return made.with_traceback(error.__traceback__)


def _raised_by(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception | None:
    """The error that NumPy's function raises for stand-ins, if there are any."""
    elements = [0]
    try:
        positional, named = _stand_in(args, elements), _stand_in(dict(kwargs), elements)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(*positional, **named)
    except RAISED as error:
        return error
    except Exception:       # of stand-ins, or of another kind: not what happened here
        return None
    return _Succeeded()


def _stand_in(x: Any, elements: list[int]) -> Any:
    if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
        return type(x)(_stand_in(item, elements) for item in x)
    if type(x) is dict:
        return {name: _stand_in(item, elements) for name, item in x.items()}
    if type(x) in ORDINARY:
        return _array_like(x, elements)
    if isinstance(x, (TracedArray, ArrayWrapper)) or (callable(x) and not isinstance(x, (type, np.ufunc))):
        raise _NoStandIn        # a function of the user's is not called again
    if isinstance(x, np.ndarray):
        elements[0] += x.size
    return x


def _array_like(x: TracedArray, elements: list[int]) -> Any:
    """An array or number of ones, of an integer or bool of zeros: an index is in range."""
    elements[0] += int(np.prod(x.shape, dtype=np.int64))
    if elements[0] > MAX_ELEMENTS:
        raise _NoStandIn
    number = x.dtype.type(x.dtype.kind in "fc")
    if not x.shape and x.scalar:
        return number.item() if x.weak else number
    return np.full(x.shape, number) if elements[0] <= MAX_WRITTEN else np.broadcast_to(number, x.shape)


def _caught_as(kind: type[Exception]) -> set[type[Exception]]:
    """The errors of NumPy's by which a handler catches this one."""
    return {each for each in RAISED if issubclass(kind, each)}


def _class(base: type[AdjitError], kind: type[Exception]) -> type[AdjitError]:
    """A class of errors that are of both kinds."""
    return base if issubclass(base, kind) else type(kind.__name__, (base, kind), {"__module__": base.__module__, "__doc__": base.__doc__})
