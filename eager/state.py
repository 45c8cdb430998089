"""Objects that hold tensors and change them: modules, optimisers. Compiled functions take them by reference."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Self

from adjit.eager.capture import current_capture, is_number, made_in_trace
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.user_location import find_user_location


class Stateful(IdentityKeyed):
    """Base class of objects whose tensors a compiled function reads and writes in place.

    In a compiled function its tensors are part of the program; its other contents are read when the program is made, and compared at every
    call.
    """

    _filled_later: tuple[str, ...] = ()     # dict attributes that are filled while a function is traced (and emptied if that fails)
    _outside_of_traces: tuple[str, ...] = ()    # attributes that compiled functions cannot read, so that they are not compared

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        capture = current_capture()
        if capture is not None:
            capture.made[id(made)] = weakref.ref(made), find_user_location()
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        capture = current_capture()
        if capture is not None:
            capture.attributes_set[id(self.__dict__), name] = find_user_location()
        object.__setattr__(self, name, value)


def hyperparameter(owner: Stateful, group: Mapping[str, Any], name: str, index: int | None = None) -> Any:
    """Return `group[name]`, or `group[name][index]` of a tuple: a number of `owner` that may change between the steps of an optimiser.

    While a function is captured this is a traced scalar, which the program reads from `group` at every call. An optimiser that the function
    makes is made again in every call, with its original numbers.
    """
    capture = current_capture()
    value = group[name] if index is None else group[name][index]
    if capture is None or not is_number(value) or made_in_trace(owner):
        return value
    return capture.read_number(group, name, index)
