"""Functions that transforms make, as objects: functions of Python cannot say how they are pickled."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from adjit.ir.errors import UnsupportedError
from adjit.runtime.pickled_functions import ATTRIBUTE, MadeOfFunction
from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]


class TransformedFunction(MadeOfFunction):
    """What a transform makes of a function, its `__wrapped__`: calls are those of `call`.

    `again`, called with the function, is the transform; it can be pickled. Transformed functions of one function with equal `settings` do
    the same.
    """

    __slots__ = ("__adjit_settings__", "__dict__", "__weakref__", "_again", "_call")       # functools.wraps copies what is in the dict
    __name__: str       # of the function, as the rest that functools.update_wrapper sets
    __wrapped__: Function

    def __init__(self, call: Function, again: Function | None, settings: tuple[Any, ...]):
        self._call, self._again, self.__adjit_settings__ = call, again, settings

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"

    def called_by(self, call: Function, how: str, again: Function) -> TransformedFunction:
        """The function as `call` calls it, which is described by `how`."""
        made = TransformedFunction(call, again, (how, *self.__adjit_settings__))
        vars(made).update({name: value for name, value in vars(self).items() if name not in vars(made) and name != ATTRIBUTE})
        return made

    def _parts(self) -> tuple[Function, tuple[Any, ...]]:
        """See `MadeOfFunction._parts`."""
        if self._again is None:
            raise UnsupportedError(f"{self.__name__} cannot be pickled", find_user_location(), hint="make it in the process that calls it")
        return self._again, (self.__wrapped__,)
