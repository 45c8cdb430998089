"""Warnings for gradients that would be lost silently: tensors whose operations are recorded are converted to plain numbers."""

from __future__ import annotations

import dis
import linecache
import re
import sys
from functools import lru_cache
from types import CodeType

from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor
from adjit.ir.errors import NonDifferentiableError
from adjit.tracer.user_location import find_user_location, warn_user

_PREDICATE = re.compile(r"(\w+\s*\.\s*)*is(nan|inf|finite|close)\s*\(")


def check_number(tensor: Tensor, what: str, depth: int = 2) -> None:
    """Warn if `what`, called by the caller's caller, `depth` frames up, makes a Python number of a tensor that requires grad.

    Raises `NonDifferentiableError` if the number is written into an array (NumPy raises a `ValueError` from that error). Numbers that are
    only printed (`"%.3f" % loss`) or tested (`math.isnan(loss)`) lose nothing, nor do numbers that adjit's own functions read.
    """
    if not modes.grad or not tensor.requires_grad:      # type: ignore[attr-defined]
        return
    frame = sys._getframe(depth)
    if frame.f_globals.get("__name__", "").partition(".")[0] == "adjit":
        return
    use = _use_of_number(frame.f_code, frame.f_lasti)
    if use == "written":
        raise NonDifferentiableError("a tensor that requires grad is written into an array, which would lose the gradient",
                                     find_user_location(), hint="collect tensors in a list and join them, aj.stack(list); or write "
                                                                "x.item() if only the number is wanted")
    if use != "shown":
        warn_user(f"{what} of a tensor that requires grad: the number is no part of the graph, and its gradient is lost. Compute with "
                  "tensors (aj.exp in place of math.exp), or write x.item() if only the number is wanted")


@lru_cache(maxsize=4096)
def _use_of_number(code: CodeType, offset: int) -> str:
    """Use of the number that the instruction at `offset` reads: "written", "shown", or empty if unknown."""
    for step in dis.get_instructions(code):
        if step.offset == offset:
            if step.opname == "STORE_SUBSCR":
                return "written"
            if step.opname == "BINARY_OP" and step.argrepr.startswith("%"):
                return "shown"
            where = step.positions
            if where is None or where.lineno is None or where.lineno != where.end_lineno:
                return ""
            line = linecache.getline(code.co_filename, where.lineno).encode()[where.col_offset:where.end_col_offset]
            return "shown" if _PREDICATE.match(line.decode(errors="replace")) else ""
    return ""
