"""Objects that hold tensors and change them: modules, optimisers. Compiled functions take them by reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjit.eager.capture import current_capture, is_number
from adjit.tracer.box import ByReference
from adjit.tracer.source import find_user_location


class Stateful(ByReference):
    """Base class of objects whose tensors a compiled function reads, and writes, where they are.

    In a compiled function its tensors are part of the program; what else it holds is looked at when the program is made, and compared
    at every call.
    """

    _filled_later: tuple[str, ...] = ()     # attributes, dicts, that are filled while a function is traced (and emptied where that fails)

    def __setattr__(self, name: str, value: Any) -> None:
        capture = current_capture()
        if capture is not None:
            capture.attributes_set[id(self.__dict__), name] = find_user_location()
        object.__setattr__(self, name, value)


def hyperparameter(group: Mapping[str, Any], name: str, index: int | None = None) -> Any:
    """`group[name]`, or `group[name][index]` of a tuple: a number that may change between the steps of an optimiser.

    While a function is captured: a traced scalar in its place, which the program reads from `group` at every call.
    """
    capture = current_capture()
    value = group[name] if index is None else group[name][index]
    return value if capture is None or not is_number(value) else capture.read_number(group, name, index)
