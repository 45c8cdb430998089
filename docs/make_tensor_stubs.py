"""Writes the stubs of the tensor methods and functions that are made when they are imported: `python docs/make_tensor_stubs.py`.

Type checkers and editors read `eager/tensor_methods.pyi` and `api/tensor_function_names.pyi`; there are no modules of these names.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adjit.eager import arguments, signatures
from adjit.eager.tensor import Tensor
from adjit.tensor_functions import FUNCTIONS, METHODS

ROOT = Path(__file__).resolve().parent.parent
METHODS_STUB = ROOT / "eager" / "tensor_methods.pyi"
FUNCTIONS_STUB = ROOT / "api" / "tensor_function_names.pyi"

HEAD = """\
# Written by: python docs/make_tensor_stubs.py
# ruff: noqa: E501

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

"""
METHODS_HEAD = HEAD + """\
from adjit.eager.device import device as _device
from adjit.eager.functional.order_statistics import Extrema
from adjit.eager.functional.reductions import ValuesAndIndices
from adjit.eager.functional.scattering import Reduction
from adjit.eager.generator import Generator
from adjit.eager.node import Handle, Node
from adjit.eager.tensor import Tensor
from adjit.tracer.array_wrapper import ArrayWrapper

TensorLike: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic | float | Sequence[Any]
_bool: TypeAlias = bool
_float: TypeAlias = float
_int: TypeAlias = int
_str: TypeAlias = str

class TensorMethods(ArrayWrapper):
    device: _device
    @property
    def is_cuda(self) -> _bool: ...
    @property
    def is_cpu(self) -> _bool: ...
    @property
    def is_nested(self) -> _bool: ...
    @property
    def is_ipu(self) -> _bool: ...
    @property
    def is_maia(self) -> _bool: ...
    @property
    def is_meta(self) -> _bool: ...
    @property
    def is_mkldnn(self) -> _bool: ...
    @property
    def is_mps(self) -> _bool: ...
    @property
    def is_mtia(self) -> _bool: ...
    @property
    def is_quantized(self) -> _bool: ...
    @property
    def is_sparse(self) -> _bool: ...
    @property
    def is_sparse_csr(self) -> _bool: ...
    @property
    def is_vulkan(self) -> _bool: ...
    @property
    def is_xla(self) -> _bool: ...
    @property
    def is_xpu(self) -> _bool: ...
    @property
    def layout(self) -> str: ...
    @property
    def output_nr(self) -> _int: ...
    requires_grad: _bool
    grad: Tensor | None
    data: Tensor
    @property
    def grad_fn(self) -> Node | None: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def retains_grad(self) -> _bool: ...
    @property
    def nbytes(self) -> _int: ...
    @property
    def itemsize(self) -> _int: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def mH(self) -> Tensor: ...

    @property
    def real(self) -> Tensor: ...
    @real.setter
    def real(self, new: Any) -> None: ...

    @property
    def imag(self) -> Tensor: ...
    @imag.setter
    def imag(self, new: Any) -> None: ...
    @property
    def H(self) -> Tensor: ...
    def __array__(self, dtype: Any = ..., copy: _bool | None = ...) -> np.ndarray[Any, Any]: ...
    def __dlpack__(self, **arguments: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    def __bool__(self) -> _bool: ...
    def __float__(self) -> _float: ...
    def __complex__(self) -> complex: ...
    def __int__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, element: object) -> _bool: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
"""
FUNCTIONS_HEAD = HEAD.replace("from collections.abc import Callable, Iterator, Sequence", "from collections.abc import Sequence").replace(
    "from typing import Any, Literal, TypeAlias, overload\n\nimport numpy as np\n", "from typing import Any, Literal, overload\n") + """\
from adjit.eager.functional.order_statistics import Extrema
from adjit.eager.functional.reductions import ValuesAndIndices
from adjit.eager.functional.scattering import Reduction
from adjit.eager.generator import Generator
from adjit.eager.tensor import Tensor
from adjit.eager.tensor_methods import TensorLike

"""

OVERLOADS = {
    "max": ["({first}) -> Tensor", "({first}, dim: int, keepdim: bool = ..., *, keepdims: bool = ...) -> ValuesAndIndices",
            "({first}, *, axis: int, keepdim: bool = ..., keepdims: bool = ...) -> ValuesAndIndices",
            "({first}, other: TensorLike) -> Tensor"],
    "size": ["({first}) -> tuple[int, ...]", "({first}, dim: int) -> int"],
    "stride": ["({first}) -> tuple[int, ...]", "({first}, dim: int) -> int"],
    "split": ["({first}, split_size: int | Sequence[int], dim: int = ..., *, axis: int = ...) -> tuple[Tensor, ...]",
              "({first}, *, split_size_or_sections: int | Sequence[int], dim: int = ..., axis: int = ...) -> tuple[Tensor, ...]"],
    "swapaxes": ["({first}, dim0: int, dim1: int) -> Tensor", "({first}, *, axis0: int, axis1: int) -> Tensor"],
    "type": ["({first}) -> str", "({first}, dtype: Any, non_blocking: bool = ...) -> Tensor"],
    "nonzero": ["({first}, as_tuple: Literal[False] = ...) -> Tensor", "({first}, as_tuple: Literal[True]) -> tuple[Tensor, ...]"],
}
OVERLOADS["view"] = ["({first}, *sizes: int | Sequence[int], size: int | Sequence[int] | None = ..., "
                     "shape: int | Sequence[int] | None = ...) -> Tensor", "({first}, dtype: Any) -> Tensor"]
OVERLOADS["min"] = OVERLOADS["max"]
OVERLOADS["median"] = OVERLOADS["max"][:-1]
for _name in ("scatter", "scatter_"):
    OVERLOADS[_name] = ["({first}, dim: int, index: TensorLike, src: TensorLike) -> Tensor",
                        "({first}, dim: int, index: TensorLike, *, value: float) -> Tensor"]
"""Methods whose results depend on what they are given."""

OF_THE_COMPILER = {"apply_wrapped", "apply_closure", "around", "as_argument", "signature_key", "traced"}
"""Public by their names only."""


def parameters_text(signature: inspect.Signature) -> str:
    """The signature as a stub writes it: every default is `...`."""
    text = str(signature.replace(parameters=[
        p if p.default is p.empty else p.replace(default=...) for p in signature.parameters.values()])).replace("Ellipsis", "...")
    text = re.sub(r"""(: |-> )(['"])(.*?)\2(?=[,)]| =|$)""", r"\1\3", text)
    return re.sub(r"\bself: Tensor\b", "self", text).replace("np.ndarray", "np.ndarray[Any, Any]")


def definitions(name: str, signature: inspect.Signature, first: str) -> Iterator[str]:
    forms = [text.format(first=first) for text in OVERLOADS.get(name, ())] or [*map(parameters_text, with_numpy_names(name, signature))]
    for form in forms:
        if len(forms) > 1:
            yield "@overload"
        yield f"def {name}{form}: ..."


def with_numpy_names(name: str, signature: inspect.Signature) -> Iterator[inspect.Signature]:
    """The signature with NumPy's keywords too, if the method takes them; in a form of its own where the parameter has no default."""
    parameters = signature.parameters
    has_sizes = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    names = arguments.NUMPY_NAMES if is_made_of_function(getattr(Tensor, name)) and not has_sizes else {}
    others = {theirs: parameters[ours] for theirs, several in names.items() for ours in several
              if ours in parameters and theirs not in parameters}
    optional = [p.replace(name=theirs, kind=p.KEYWORD_ONLY) for theirs, p in others.items() if p.default is not p.empty]
    yield signature.replace(parameters=[*parameters.values(), *optional])
    required = {p.name: theirs for theirs, p in others.items() if p.default is p.empty}
    if required:
        index = min(map([*parameters].index, required))
        yield signature.replace(parameters=[
            p if i < index else p.replace(name=required.get(p.name, p.name), kind=p.KEYWORD_ONLY)
            for i, p in enumerate((*parameters.values(), *optional))])


def is_made_of_function(method: Any) -> bool:
    """True for a method whose keywords `adjit.eager.arguments` binds."""
    made = vars(method).get("__wrapped__")
    return isinstance(vars(made).get("__wrapped__") if inspect.isfunction(made) else made, signatures.OnRequest)


def in_class(line: str) -> str:
    """A line of the class, whose methods hide the builtin types of their names."""
    head, arrow, result = line.partition(" -> ")
    name, bracket, parameters = head.partition("(")
    return "    " + name + re.sub(r"\b(int|float|bool|str)\b", r"_\1", bracket + parameters + arrow + result)


def operators() -> Iterator[str]:
    for name in sorted(name for name in vars(Tensor) if re.fullmatch(r"__[a-z]+__", name)):
        if name in ("__eq__", "__ne__"):
            yield f"def {name}(self, other: object) -> Tensor: ...  # type: ignore[override]"
        elif name.strip("_") in ("neg", "pos", "abs", "invert"):
            yield f"def {name}(self) -> Tensor: ..."
        elif any(name in (f"__{of}{base}__" for of in ("", "r", "i")) for base in OPERATORS):
            yield f"def {name}(self, other: TensorLike) -> Tensor: ..."


OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
             "lt", "le", "gt", "ge")


def methods_stub() -> str:
    lines = [in_class(line) for line in operators()]
    for name in sorted(vars(Tensor)):
        method: Any = inspect.getattr_static(Tensor, name)
        if inspect.isfunction(method) and not name.startswith("_") and name not in OF_THE_COMPILER:
            lines += map(in_class, definitions(name, inspect.signature(method), "self"))
    return METHODS_HEAD + "\n".join(lines) + "\n"


def functions_stub() -> str:
    lines = [line for name in sorted(METHODS) for line in definitions(name, inspect.signature(FUNCTIONS[name]), "input: TensorLike")]
    others = sorted((name, function.__name__) for name, function in FUNCTIONS.items() if name not in METHODS)
    imports = [f"from {FUNCTIONS[name].__module__} import {name} as {name}" for name, function in others if name == function]
    imports.sort()
    lines += [f"{name} = {function}" for name, function in others if name != function]
    public = textwrap.fill(", ".join(f'"{name}"' for name in sorted(FUNCTIONS)), 140, initial_indent="    ", subsequent_indent="    ")
    return FUNCTIONS_HEAD.rstrip("\n") + "\n" + "\n".join([*imports, "", f"__all__ = [\n{public},\n]", "", *lines]) + "\n"


if __name__ == "__main__":
    METHODS_STUB.write_text(methods_stub())
    FUNCTIONS_STUB.write_text(functions_stub())
