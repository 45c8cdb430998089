"""Preparation of a call's arrays for a program on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import DonationError, TraceError
from adjit.ir.graph import WRITABLE_ROLES, Graph
from adjit.ir.types import TensorType, in_native_order
from adjit.runtime.cuda.device_array import DeviceArray
from adjit.tracer.user_location import find_user_location


class DeviceInputs:
    """Checks of arrays for the parameters of `graph`; `paths` are their names for messages. Arrays of NumPy's are copied to the device at
    each call; those on the device are used as they are."""

    def __init__(self, graph: Graph, paths: Sequence[str]):
        self.paths = tuple(paths)
        self._expected = [value.type for value in graph.params]
        self._donated = [index for index, role in enumerate(graph.param_roles) if role in WRITABLE_ROLES]

    def prepare(self, arrays: Sequence[Any], passed: Sequence[Any]) -> list[Any]:
        """The arrays, those of NumPy's contiguous. Raises `DonationError` for a donated array that is another argument, too."""
        fit: list[Any] = []
        for array, type in zip(arrays, self._expected, strict=True):
            if not isinstance(array, DeviceArray):
                array = np.asarray(array, in_native_order(array.dtype), order="C")
            if array.shape != type.shape or array.dtype != type.dtype:
                raise TraceError(f"the program was compiled for {type}, got {TensorType(array.dtype, array.shape)}")
            fit.append(array)
        if self._donated:
            self._check_apart(fit)
        return fit

    def _check_apart(self, fit: Sequence[Any]) -> None:
        addresses = [array.address if isinstance(array, DeviceArray) and array.nbytes else 0 for array in fit]
        known = [address for address in addresses if address]
        if len(known) == len(set(known)):
            return
        for donated in self._donated:
            for other, address in enumerate(addresses):
                if other != donated and address == addresses[donated] != 0:
                    raise DonationError(f"donated argument {self.paths[donated]} is the same array as {self.paths[other]}",
                                        find_user_location(),
                                        hint="each donated buffer is overwritten by the call: pass a copy of one of the two")
