"""Table of the functions of `scipy.special` that the op `external` calls, and the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import DEFINITIONS
from adjit.ir.graph import Value
from adjit.ir.ops.complex_numbers import complex, imag, real
from adjit.ir.types import is_complex

Rule = Callable[..., Value]
Derivative = Rule | str | None
"""Rule of a derivative; the reason why there is none; None if the derivative is 0."""


@dataclass(frozen=True, slots=True)
class ExternalFunction:
    """Function `name` of scipy.special, of `arity` numbers; `derivatives` has a tuple for each result, with a derivative for each operand.

    The first `whole` operands are whole numbers in C. A function `of_complex` numbers, so many of its last ones, has their parts as
    operands, one pair after the other, and the parts of its results as results.
    """

    name: str
    arity: int
    derivatives: tuple[tuple[Derivative, ...], ...]
    whole: int = 0
    of_complex: int = 0


FUNCTIONS: dict[str, ExternalFunction] = {}
"""By name; the loop for complex numbers of a function that has one for real ones, too, has a name of its own: `complex_name`."""

NOT_CLOSED = "it has no closed form"
ORDER = "the derivative in the order has no closed form"
WHOLE = "it is made for whole numbers"


def of_complex(name: str) -> str:
    """Name of the loop for complex numbers."""
    return name if name in FUNCTIONS and FUNCTIONS[name].of_complex else f"complex_{name}"


def call(function: str, *operands: Value, output: int = 0) -> Value:
    """Emit the function on these operands, of one dtype; if they are complex, its loop for complex numbers."""
    external = DEFINITIONS["external"]
    if not is_complex(operands[-1].type.dtype):
        return external(*operands, function=function, output=output)
    function = of_complex(function)
    parts = parts_of(operands, FUNCTIONS[function].of_complex)
    return complex(*(external(*parts, function=function, output=2 * output + part) for part in (0, 1)))


def parts_of(operands: Sequence[Value], count: int) -> list[Value]:
    """Real operands of a loop for complex numbers: the parts of the last `count` ones, and the real parts of the others."""
    others = len(operands) - count
    found = [real(x) if is_complex(x.type.dtype) else x for x in operands[:others]]
    return found + [part for x in operands[others:] for part in (real(x), imag(x))]
