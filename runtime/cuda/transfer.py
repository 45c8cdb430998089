"""Copies of trees of arrays to a device, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.eager.device import number_of
from adjit.ir.errors import ArgumentError, UnsupportedError
from adjit.ir.types import in_native_order
from adjit.runtime.compile_options import known_place
from adjit.runtime.cuda import device_array, devices, dlpack
from adjit.tracer.array_checks import check_array
from adjit.tracer.foreign_arrays import is_on_card, type_name
from adjit.tracer.trees import flatten, unflatten
from adjit.tracer.user_location import find_user_location


def device_put(tree: Any, device: str | int = "cuda") -> Any:
    """Copy the arrays of a tree to a device, "cuda", which is the current card, or "cuda:1".

    `tree` is an array, or a list, dict, tuple or dataclass of arrays; arrays that are on the device already stay what they are, and leaves
    that are no arrays, Python's numbers among them, too. Arrays of another card are copied from there; arrays of PyTorch's and CuPy's on a
    card are taken without a copy. Returns the tree with a `DeviceArray` in place of each array of NumPy's. Raises `UnsupportedError` if
    there is no such device, `DTypeError` for a dtype that programs do not have.

    >>> import os, numpy as np, adjit as aj
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> weights = aj.device_put({"w": np.ones(3)})
    >>> weights["w"].shape, weights["w"].device
    ((3,), 'cuda')
    >>> aj.device_get(weights)
    {'w': array([1., 1., 1.])}
    """
    place = known_place(device)
    if place in (None, "cpu"):
        raise ArgumentError(f"unknown device {device!r}; the choices are cuda", find_user_location())
    number = number_of(place)
    devices.driver(number)
    leaves, spec = flatten(tree)
    return unflatten(spec, [put(leaf, number) if isinstance(leaf, (np.ndarray, np.generic, device_array.DeviceArray)) else
                            borrowed(leaf, lambda: "the array") if is_on_card(leaf) else leaf for leaf in leaves])


def put(array: Any, number: int) -> device_array.DeviceArray:
    """A copy of one array on a card; an array that is there itself."""
    if isinstance(array, device_array.DeviceArray):
        return array if array.driver.number == number else device_array.moved(devices.driver(number), array)
    check_array(array, "the array", find_user_location())
    return device_array.put(devices.driver(number), np.asarray(array, in_native_order(array.dtype), order="C"))


def borrowed(value: Any, path: Callable[[], str]) -> device_array.DeviceArray:
    """An array on the memory of an array of another library that is on the card. Raises `UnsupportedError` if there is none."""
    kind = type_name(type(value))
    try:
        driver = devices.driver(value.__dlpack_device__()[1] if devices.driver().stream is not None else 0)
    except UnsupportedError as error:
        raise UnsupportedError(f"the argument {path()} is a {kind} in the memory of a device, and {error.message}", find_user_location(),
                               hint="copy it to the CPU first (.cpu(), jax.device_get)") from None
    return dlpack.borrowed(value, driver, f"{path()}, a {kind},")


def device_get(tree: Any) -> Any:
    """Copy the arrays of a tree from the device: it waits until they are computed.

    Returns the tree with an array of NumPy's in place of each `DeviceArray`; other leaves stay what they are.

    >>> import os, numpy as np, adjit as aj
    >>> os.environ["ADJIT_CUDA"] = "emulated"          # where there is no card
    >>> twice = aj.compile(lambda x: {"y": 2 * x, "sum": np.sum(x)}, device="cuda")
    >>> aj.device_get(twice(np.arange(3.0)))
    {'y': array([0., 2., 4.]), 'sum': array(3.)}
    """
    leaves, spec = flatten(tree)
    return unflatten(spec, [np.asarray(leaf) if isinstance(leaf, device_array.DeviceArray) else leaf for leaf in leaves])
