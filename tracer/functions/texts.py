"""Texts of arrays: of the values in the call that is being traced, which is a decision of the trace, as with `str(x)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.tracer.array import as_traced, known_array
from adjit.tracer.dispatch import implements


def _text_of(name: str) -> None:
    numpys = getattr(np, name)

    def function(a: Any, *args: Any, **kwargs: Any) -> str:
        x = as_traced(a).without_derivative()
        content = known_array(x)
        return str(numpys(content if x.ndim or not x.scalar else content[()], *args, **kwargs))

    function.__name__, function.__doc__ = name, f"Equivalent of `numpy.{name}` of up to 64 elements."
    implements(numpys)(function)


for _name in ("array2string", "array_repr", "array_str"):
    _text_of(_name)
