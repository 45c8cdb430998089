"""The arrays of one call, as programs need them: contiguous, aligned, in native byte order; donated ones checked first.

Everything that can be wrong with an argument is found here, before any memory is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import DonationError, TraceError
from adjit.ir.graph import Graph
from adjit.runtime.arena import data_address


class Inputs:
    """Checks and prepares the arrays for the parameters of `graph`; `paths` are their names for messages (`params['w1']`)."""

    def __init__(self, graph: Graph, paths: Sequence[str]):
        self._types = [value.type for value in graph.params]
        self._roles = graph.param_roles
        self._paths = tuple(paths)
        self._donated = tuple(i for i, role in enumerate(graph.param_roles) if role == "donated")
        self._sizes = [type.nbytes for type in self._types]

    def prepare(self, arrays: Sequence[np.ndarray], passed: Sequence[Any]) -> list[np.ndarray]:
        """`arrays` themselves where they are fit to be used, else copies; `passed` is what the caller gave for them.

        Raises `DonationError` for a donated argument whose buffer cannot be taken: not a writable, aligned, C-contiguous array in
        native byte order, or sharing memory with another parameter.
        """
        for index in self._donated:
            self._check_donated(index, passed[index])
        fit = [array if _fits(array) else np.array(array, array.dtype.newbyteorder("="), order="C", copy=True) for array in arrays]
        for array, type in zip(fit, self._types, strict=True):
            if array.shape != type.shape or array.dtype != type.dtype:
                raise TraceError(f"the program was compiled for {type}, got {array.dtype} {array.shape}")
        if self._donated:
            self._check_overlap(fit, passed)
        return fit

    def _check_donated(self, index: int, leaf: Any) -> None:
        if isinstance(leaf, np.ndarray) and leaf.flags.carray and leaf.dtype.isnative:
            return
        path = self._paths[index]
        if not isinstance(leaf, np.ndarray):
            raise DonationError(
                f"donated argument {path} is a {type(leaf).__name__}, not an array, and has no buffer to update",
                hint=f"pass np.asarray({path}), and pass the returned array to the next call")
        flags = leaf.flags
        problem = (
            "is read-only" if not flags.writeable else
            f"is not C-contiguous (shape {leaf.shape}, strides {leaf.strides})" if not flags.c_contiguous else
            "is not aligned" if not flags.aligned else
            "is not in native byte order" if not leaf.dtype.isnative else "")
        if problem:
            raise DonationError(f"donated argument {path} {problem}", hint=f"pass a copy ({path}.copy()), or do not donate it")

    def _check_overlap(self, arrays: Sequence[np.ndarray], passed: Sequence[Any]) -> None:
        """No donated array may share memory with any other parameter."""
        spans = sorted((data_address(array), size, i) for i, (array, size) in enumerate(zip(arrays, self._sizes, strict=True)) if size)
        last_any = last_donated = (0, -1)      # (end, parameter) of the span that reaches furthest so far
        for start, size, index in spans:
            donated = self._roles[index] == "donated"
            end, other = last_any if donated else last_donated
            if start < end:
                raise DonationError(*self._overlap_message(index, other, passed[index] is passed[other]))
            last_any = max(last_any, (start + size, index))
            if donated:
                last_donated = max(last_donated, (start + size, index))

    def _overlap_message(self, first: int, second: int, same: bool) -> tuple[str, None, str]:
        donated, other = sorted((first, second), key=lambda index: (self._roles[index] != "donated", index))
        return (
            f"donated argument {self._paths[donated]} {'is the same array as' if same else 'shares memory with'} {self._paths[other]}",
            None, "each donated buffer is overwritten by the call: pass a copy of one of the two")


def _fits(array: np.ndarray) -> bool:
    flags = array.flags
    return flags.c_contiguous and flags.aligned and type(array) is np.ndarray and array.dtype.isnative
