"""Marks of numbers that are not known while a function is traced, as a call behind its program sets them."""

from __future__ import annotations

from typing import Any, NoReturn

from adjit.ir.errors import TraceError
from adjit.tracer.user_location import find_user_location


class PendingNumber:
    """Mark of what a call behind the program will set; whoever computes with it, returns or keeps it is refused."""

    __slots__ = ("call", "name")

    def __init__(self, call: str, name: str):
        self.call, self.name = call, name

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `TraceError` at the line that uses the number."""
        raise TraceError(f"the compiled function uses {self.name} behind {self.call}, which is called when the program is done",
                         find_user_location(), hint=f"make {self.call} its last step, and read {self.name} outside of the function")


for _name in ("bool", "float", "int", "index", "complex", "array", "array_ufunc", "array_function", "getitem", "iter", "len", "call",
              "getattr", "str", "repr", "format", "hash", "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "round", "contains",
              "copy", "deepcopy",
              *(prefix + name for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod") for prefix in ("", "r"))):
    setattr(PendingNumber, f"__{_name}__", PendingNumber.refuse)
