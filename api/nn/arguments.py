"""Arguments of PyTorch's that are accepted where they change nothing."""

from __future__ import annotations

from adjit.ir.errors import UnsupportedError
from adjit.tracer.user_location import find_user_location


def refuse(name: str, **arguments: object) -> None:
    """Raise `UnsupportedError` where one of these arguments, which would change what is computed, is true."""
    for argument, value in arguments.items():
        if value:
            raise UnsupportedError(f"{name} has the argument {argument} for PyTorch's sake, it does nothing", find_user_location(),
                                   hint="leave it out")
