"""Preparation of a call's arrays for a program: contiguous, aligned, in native byte order; donated arrays are checked first.

All errors in arguments are found here, before any memory is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import ArgumentError, DonationError, TraceError
from adjit.ir.graph import WRITABLE_ROLES, Graph
from adjit.ir.types import TensorType, in_native_order
from adjit.runtime.arena import data_address
from adjit.tracer.trace import Pairs
from adjit.tracer.user_location import find_user_location


class Inputs:
    """Checks and preparation of arrays for the parameters of `graph`; `paths` are their names for messages (`params['w1']`).

    Parameters in `written` are arrays that the function writes to: the program may work on a copy, whose content the caller copies back.
    The second parameter of each pair in `same` is the same array as the first, and the program does not use it. Those in `rows` are arrays
    of any number of rows.
    """

    def __init__(self, graph: Graph, paths: Sequence[str], written: Collection[int] = (), same: Pairs = (), rows: Collection[int] = ()):
        roles = [role in WRITABLE_ROLES for role in graph.param_roles]
        self.paths = tuple(paths)
        self._expected = [(value.type.shape, value.type.dtype, donated) for value, donated in zip(graph.params, roles, strict=True)]
        self._sizes = [value.type.nbytes for value in graph.params]
        self._donated = roles
        self._rows = frozenset(rows)
        unused = {index for _, index in same if graph.param_roles[index] != "donated"}
        self._sized = [index for index, size in enumerate(self._sizes) if size and index not in unused]
        self._written = frozenset(written)
        self._updated = [role == "updated" and index not in self._written for index, role in enumerate(graph.param_roles)]
        self._known: list[tuple[Any, int]] = [(None, 0)] * len(roles)       # last updated arrays: most calls pass the same again
        self._apart: list[int] = []      # addresses that were found disjoint: most calls pass the same again

    def prepare(self, arrays: Sequence[np.ndarray], passed: Sequence[Any]) -> list[np.ndarray]:
        """`arrays` themselves if they meet the requirements, else copies; `passed` are the caller's objects.

        Raises `DonationError` for a donated argument whose buffer cannot be used: it is not a writable, aligned, C-contiguous array in
        native byte order, or it shares memory with another parameter.
        """
        fit = []
        known = self._known
        for index, (array, (shape, dtype, donated)) in enumerate(zip(arrays, self._expected, strict=True)):
            flags = array.flags
            if array is known[index][0] and flags.writeable:
                fit.append(array)
                continue
            fits = flags.c_contiguous and flags.aligned and array.dtype == dtype and type(array) is np.ndarray
            if index in self._written:
                self._check_written(index, passed[index])
            elif donated and not (fits and flags.writeable and passed[index] is array):
                self._check_donated(index, passed[index])
            if not fits:
                is_given = donated and index not in self._written
                array = np.asarray(array) if is_given else np.array(array, in_native_order(array.dtype), order="C")
            if index in self._rows:
                shape = (*array.shape[:1], *shape[1:])
            if array.shape != shape or array.dtype != dtype:
                raise TraceError(f"the program was compiled for {TensorType(dtype, shape)}, got {array.dtype} {array.shape}")
            if self._updated[index]:
                known[index] = array, data_address(array)
            fit.append(array)
        if any(self._donated):
            self._check_overlap(fit, passed)
        return fit

    def _check_written(self, index: int, leaf: Any) -> None:
        if not isinstance(leaf, np.ndarray):
            raise ArgumentError(f"{self.paths[index]} is a {type(leaf).__name__}, not an array, and the function writes to it",
                                find_user_location(), hint=f"pass np.asarray({self.paths[index]})")
        if not leaf.flags.writeable:
            raise ArgumentError(f"assignment destination is read-only: the function writes to {self.paths[index]}", find_user_location(),
                                hint=f"pass a copy ({self.paths[index]}.copy())")

    def _check_donated(self, index: int, leaf: Any) -> None:
        path = self.paths[index]
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
        """Raise `DonationError` if a donated array shares memory with another parameter."""
        starts = [known if array is same else data_address(array) for array, (same, known) in zip(arrays, self._known, strict=True)]
        if starts == self._apart and not self._rows:
            return
        end_of_any = end_of_donated = any_index = donated_index = 0     # ends of the arrays that begin before the current one
        for index in sorted(self._sized, key=starts.__getitem__):
            start = starts[index]
            end = start + (arrays[index].nbytes if index in self._rows else self._sizes[index])
            donated = self._donated[index]
            if start < (end_of_any if donated else end_of_donated):
                other = any_index if donated else donated_index
                raise DonationError(*self._overlap_message(index, other, passed[index] is passed[other]))
            if end > end_of_any:
                end_of_any, any_index = end, index
            if donated:
                end_of_donated, donated_index = end, index
        self._apart = starts

    def _overlap_message(self, first: int, second: int, same: bool) -> tuple[str, None, str]:
        donated, other = sorted((first, second), key=lambda index: (not self._donated[index], index))
        return (
            f"donated argument {self.paths[donated]} {'is the same array as' if same else 'shares memory with'} {self.paths[other]}",
            None, "each donated buffer is overwritten by the call: pass a copy of one of the two")

