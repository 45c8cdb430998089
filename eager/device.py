"""Devices by PyTorch's names: all tensors are in the memory of the CPU."""

from __future__ import annotations

from typing import Any, Self

from adjit.ir.errors import UnsupportedError
from adjit.tracer.user_location import find_user_location

KINDS = ("cpu", "cuda", "mps", "xpu", "meta")
"""Kinds that texts can name. Tensors exist on the first only."""


class device(str):
    """Name of a device, as programs write it: a kind, `type`, and a number, `index`, or None. It is a text, equal to "cpu" or "cuda:1".

    Raises `ValueError` for a kind that PyTorch does not know. Tensors and modules can be on "cpu" only: giving another device to a function
    or a method raises `UnsupportedError` there.

    >>> device("cuda:1")
    device(type='cuda', index=1)
    >>> device("cpu").type, device("cpu") == "cpu"
    ('cpu', True)
    """

    __slots__ = ()

    def __new__(cls, type: str, index: int | None = None) -> Self:
        kind, _, number = type.partition(":")
        if kind not in KINDS or (number and (index is not None or not number.isdecimal())):
            raise ValueError(f"{type!r} is no device: devices are named as \"cpu\" or \"cuda:0\", of the kinds {', '.join(KINDS)}")
        return super().__new__(cls, type if index is None else f"{type}:{index}")

    @property
    def type(self) -> str:
        """Kind of the device."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:      # type: ignore[override]
        """Number among the devices of its kind, if there is one."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"


CPU = device("cpu")


def check_device(given: Any) -> None:
    """Accept "cpu", where all tensors are; raises `UnsupportedError` for other devices."""
    if given is not None and given is not CPU and given not in ("cpu", "cpu:0"):
        raise UnsupportedError(f"the device {given}: tensors and modules are in the memory of the CPU", find_user_location(),
                               hint="leave the device out, or choose it by aj.cuda.is_available(), which is False")


def names_device(given: Any) -> bool:
    """True for a device, or a text that names one, among arguments that may be dtypes too."""
    return isinstance(given, str) and given.partition(":")[0] in KINDS
