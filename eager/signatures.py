"""Signatures of the methods and functions of tensors, made on request: by `help`, `inspect.signature` and completion.

The methods themselves take `*args, **kwargs`, which they pass to the function that does the work; making all signatures would double the
time that making the methods takes. The stubs for type checkers are written from these signatures too: `docs/make_tensor_stubs.py`.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

import numpy as np

Function = Callable[..., Any]

_DETAILS = ("out", "casting", "order", "subok")
"""Parameters of NumPy's functions that tensors replace by other methods: methods that write in place, `to`, `contiguous`."""

_PARAMETERS = {"Array": "TensorLike", "Dim": "int | Sequence[int] | None", "Sizes": "Sequence[int]"}
_RESULTS = {"Any": "Tensor", "TracedArray": "Tensor", "Array": "Tensor", "Array | ValuesAndIndices": "Any"}


class OnRequest:
    """Signature that is made when `inspect.signature` finds it in the attribute `__wrapped__`."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Signature]):
        self._make = make

    @property
    def __signature__(self) -> Signature:
        return self._make()

    @property
    def __globals__(self) -> dict[str, Any]:
        """Names of the annotations, which `typing.get_type_hints` looks for here."""
        return vars(sys.modules["adjit.eager.methods"])


def named(function: Function, name: str) -> Function:
    """Give `function` the name of a method of tensors, which its errors show; a copy of it, if it is a method of another name already."""
    if function.__qualname__ == f"Tensor.{function.__name__}" != f"Tensor.{name}" and isinstance(function, FunctionType):
        copied = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
        copied.__kwdefaults__ = function.__kwdefaults__
        function = functools.update_wrapper(copied, function, updated=("__dict__", "__annotations__"))
        del function.__dict__["__wrapped__"]
    function.__name__, function.__qualname__ = name, f"Tensor.{name}"
    return function


def like(method: Function, function: Function, in_place: bool = False) -> None:
    """Give `method` the signature of `function`, with itself as the first argument."""
    method.__wrapped__ = OnRequest(functools.partial(of_method, function, in_place))        # type: ignore[attr-defined]


def sized(method: Function, *names: str) -> None:
    """Give `method` a signature with integers, or one sequence of them, also by each of these names."""
    method.__wrapped__ = OnRequest(functools.partial(_of_sizes, names))       # type: ignore[attr-defined]


def as_function(function: Function, method: Function) -> None:
    """Give `function` the signature of a tensor method, with a first argument that is a tensor or can become one."""
    def make() -> Signature:
        signature = inspect.signature(method)
        _, *others = signature.parameters.values()
        first = Parameter("input", Parameter.POSITIONAL_OR_KEYWORD, annotation="TensorLike")
        return signature.replace(parameters=[first, *others])

    function.__wrapped__ = OnRequest(make)      # type: ignore[attr-defined]


def of_method(function: Function, in_place: bool) -> Signature:
    """Return the signature of the method of tensors that calls `function` on the tensor.

    >>> from adjit.eager.functional import shapes
    >>> print(of_method(shapes.narrow, in_place=False))
    (self, dim: 'int', start: 'int', length: 'int') -> 'Tensor'
    """
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in _DETAILS and p.kind is not p.VAR_KEYWORD]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        others = _operands(function, parameters)
    else:
        others = [_other() if p.kind is p.POSITIONAL_ONLY or p.name == "b" else p.replace(annotation=_translated(p))
                  for p in parameters[1:]]
    returned = str(signature.return_annotation)
    result = "Tensor" if in_place else _RESULTS.get(returned, returned.replace("Array", "Tensor"))
    return Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *others], return_annotation=result)


def _operands(function: Function, parameters: list[Parameter]) -> list[Parameter]:
    """Return the operands of an elementwise function after the first: by name if `function` has names for them other than NumPy's."""
    named = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in ("a", "b")]
    if len(named) > 1:
        return [p.replace(annotation="TensorLike") for p in named[1:]]
    ufunc = getattr(np, function.__name__, None)
    count = ufunc.nin if isinstance(ufunc, np.ufunc) else 1     # methods from scipy.special have one operand
    return [_other("values" if function.__name__ == "heaviside" else "other")] * (count - 1)


def _other(name: str = "other") -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation="TensorLike")


def _translated(parameter: Parameter) -> str:
    """Translate an annotation to the names that users know."""
    text = re.sub(r"\b(Array|Dim|Sizes)\b", lambda found: _PARAMETERS[found[0]], str(parameter.annotation))
    return f"{text} | None" if text == "TensorLike" and parameter.default is None else text


def _of_sizes(names: tuple[str, ...]) -> Signature:
    several = "int | Sequence[int]"
    return Signature([
        Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), Parameter("sizes", Parameter.VAR_POSITIONAL, annotation=several),
        *(Parameter(name, Parameter.KEYWORD_ONLY, annotation=f"{several} | None", default=None) for name in names)],
        return_annotation="Tensor")
