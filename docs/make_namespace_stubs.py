"""Writes the stubs of the functions that are named after NumPy's, SciPy's and PyTorch's: `python docs/make_namespace_stubs.py`.

Type checkers and editors read them instead of the modules: what a function gives follows from what it is given, a tensor or an array.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from pathlib import Path

import numpy as np

from adjit import linalg, random, special
from adjit import numpy as adjit_numpy
from adjit.nn import functional
from adjit.tracer.registry import numpy_namespace

ROOT = Path(__file__).resolve().parent.parent
HEAD = "# Written by: python docs/make_namespace_stubs.py\n"
ARGUMENT_TYPES = HEAD + """
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from adjit.eager.tensor import Tensor

NDArray: TypeAlias = np.ndarray[Any, Any]
Numbers: TypeAlias = np.generic | float | Sequence[Any]
Plain: TypeAlias = np.ndarray[Any, Any] | np.generic | float
Key: TypeAlias = np.ndarray[Any, Any] | np.generic | int
Size: TypeAlias = int | Sequence[int]
Padding: TypeAlias = int | Sequence[int] | Literal["valid", "same"]

class SignAndLogarithm(NamedTuple):
    sign: Tensor
    logabsdet: Tensor
"""
IMPORTS = HEAD + """# ruff: noqa: E501, F401, RUF100

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, overload

import numpy as np

from adjit.argument_types import Key, NDArray, Numbers, Padding, Plain, SignAndLogarithm, Size
from adjit.eager.generator import Generator
from adjit.eager.tensor import Tensor
from adjit.eager.tensor_methods import TensorLike
from adjit.nn.functional.arguments import Array, Reduction

"""

ARRAYS = ("input", "weight", "bias", "a", "b", "x", "x1", "x2", "x3", "x4")
"""Parameters without a type that take arrays."""

OF_UFUNCS = {"out": "NDArray | None", "where": "Any", "casting": "str", "order": "str", "dtype": "Any", "subok": "bool"}
SCALARS = ("cond", "det", "matrix_norm", "norm", "logsumexp", "vector_norm")
"""Functions whose results are arrays or scalars; so are those of functions with a parameter `reduction`."""

OF_TUPLES = '''
def eig(a: TensorLike) -> Any: ...
def eigh(a: TensorLike, UPLO: str = ...) -> Any: ...
def lstsq(a: TensorLike, b: TensorLike, rcond: Any = ...) -> tuple[Any, Any, Any, Any]: ...
def matrix_function(a: TensorLike, fun: Callable[[Any], Any], UPLO: str = ...) -> Any: ...
def matrix_rank(A: TensorLike, tol: Any = ..., hermitian: bool = ..., *, rtol: Any = ..., atol: Any = ...) -> Any: ...
def multi_dot(arrays: Sequence[Any], *, out: Any = ...) -> Any: ...
def qr(a: TensorLike, mode: str = ...) -> Any: ...
def svd(a: TensorLike, full_matrices: bool = ..., compute_uv: bool = ..., hermitian: bool = ...) -> Any: ...
def cholesky_ex(a: TensorLike, *, upper: bool = ..., check_errors: bool = ...) -> Any: ...
def inv_ex(a: TensorLike, *, check_errors: bool = ...) -> Any: ...
def solve_ex(a: TensorLike, b: TensorLike, *, left: bool = ..., check_errors: bool = ...) -> Any: ...
def lu(a: TensorLike, *, pivot: bool = ...) -> Any: ...
def lu_factor(a: TensorLike, *, pivot: bool = ...) -> Any: ...
def lu_factor_ex(a: TensorLike, *, pivot: bool = ..., check_errors: bool = ...) -> Any: ...
def lu_solve(LU: TensorLike, pivots: TensorLike, B: TensorLike, *, left: bool = ..., adjoint: bool = ...) -> Any: ...
def matrix_exp(A: TensorLike) -> Any: ...
def householder_product(A: TensorLike, tau: TensorLike) -> Any: ...
def vander(x: TensorLike, N: int | None = ...) -> Any: ...
def vecdot(x: TensorLike, y: TensorLike, *, dim: int = ...) -> Any: ...
def cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = ...) -> Any: ...
def diagonal(x: TensorLike, /, *, offset: int = ..., dim1: int = ..., dim2: int = ...) -> Any: ...
def matmul(input: TensorLike, other: TensorLike) -> Any: ...
@overload
def slogdet(a: Tensor) -> SignAndLogarithm: ...
@overload
def slogdet(a: NDArray | Numbers) -> Any: ...
'''

RANDOM = '''
def key(seed: int | np.ndarray[Any, Any] | np.generic) -> np.uint64: ...
def split(key: Key, n: int = ...) -> np.ndarray[Any, np.dtype[np.uint64]]: ...
def fold_in(key: Key, number: int | NDArray | np.generic) -> np.uint64: ...
@overload
def permutation(key: Key, x: Tensor) -> Tensor: ...
@overload
def permutation(key: Key, x: int | NDArray | np.generic) -> NDArray: ...
@overload
def normal(key: Key, shape: Size, dtype: Any = ...) -> NDArray: ...
@overload
def normal(key: Key, *, dtype: Any = ...) -> Any: ...
@overload
def uniform(key: Key, shape: Size, dtype: Any = ..., low: Plain = ..., high: Plain = ...) -> NDArray: ...
@overload
def uniform(key: Key, *, dtype: Any = ..., low: Plain = ..., high: Plain = ...) -> Any: ...
@overload
def bernoulli(key: Key, p: TensorLike, shape: Size) -> NDArray: ...
@overload
def bernoulli(key: Key, p: TensorLike = ..., *, shape: Size) -> NDArray: ...
@overload
def bernoulli(key: Key, p: TensorLike = ..., shape: None = ...) -> Any: ...
def randint(key: Key, shape: Size, low: int | NDArray | np.generic, high: int | NDArray | np.generic, dtype: Any = ...) -> NDArray: ...
def manual_seed(seed: int) -> Generator: ...
def get_rng_state() -> Tensor: ...
def set_rng_state(state: Any) -> None: ...
def fork_rng(devices: Any = ..., enabled: bool = ...) -> AbstractContextManager[None]: ...
'''


def is_array(parameter: Parameter) -> bool:
    annotation = str(parameter.annotation)
    return annotation in ("Array", "Array | None") or (
        parameter.name in ARRAYS and (annotation in ("Any", "Any | None") or parameter.annotation is parameter.empty))


def overloads(signature: Signature, anything: str, scalars: bool) -> Iterator[str]:
    """One form for each operand that is the first tensor among them, one for each that is the first array, and one for the rest.

    No two forms take the same arrays: mypy would take the result for `Any`, because the types of arrays have `Any` in them.
    """
    arrays = [p for p in signature.parameters.values() if is_array(p)]
    required = [p.name for p in arrays if p.default is p.empty]
    returned = str(signature.return_annotation)
    several = returned.count("Array") if returned.startswith("tuple[") else 1
    numbers = "Numbers" if anything == "TensorLike" else "np.generic | float"
    plain = f"NDArray | {numbers}"
    for index, first in enumerate(required):
        types = dict.fromkeys(required[:index], plain) | {first: "Tensor"}
        yield text_of(signature, types, anything, "Tensor" if several == 1 else f"tuple[{', '.join(['Tensor'] * several)}]")
    if scalars or several > 1 or len(arrays) > len(required):       # a tensor among the optional arguments makes the result one
        yield text_of(signature, dict.fromkeys(required, plain), anything, "Any")
        return
    for index, first in enumerate(required):
        types = dict.fromkeys(required[:index], numbers) | {first: "NDArray"} | dict.fromkeys(required[index + 1:], plain)
        yield text_of(signature, types, anything, "NDArray")
    yield text_of(signature, dict.fromkeys(required, numbers), anything, "Any")


def text_of(signature: Signature, types: dict[str, str], anything: str, result: str) -> str:
    shown = []
    for p in signature.parameters.values():
        annotation = types.get(p.name) or (anything if is_array(p) else str(OF_UFUNCS.get(p.name, p.annotation)))
        if is_array(p) and p.default is None:
            annotation += " | None"
        shown.append(p.replace(annotation=annotation, default=p.empty if p.default is p.empty else ...))
    text = str(Signature(shown, return_annotation=result)).replace("Ellipsis", "...")
    return re.sub(r"""(: |-> )(['"])(.*?)\2(?=[,)]| =|$)""", r"\1\3", text)


def definitions(names: list[str], module: object, anything: str) -> str:
    lines = []
    for name in names:
        function: Callable[..., object] = getattr(module, name)
        signature = inspect.signature(function)
        for text in overloads(signature, anything, name in SCALARS or "reduction" in signature.parameters):
            lines += ["@overload", f"def {name}{text}: ..."]
    return "\n".join(lines) + "\n"


def listed(names: list[str]) -> str:
    return "__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(names)) + "]\n\n"


def numpy_stub() -> str:
    own = ("erf", "log_softmax", "logsumexp", "softmax")
    functions = {name for name in numpy_namespace() if not name.startswith("_")}
    numpys = sorted((functions | set(adjit_numpy.__all__)) & set(dir(np)) - {"linalg"} - set(own))
    imports = [f"from numpy import {name} as {name}\n" for name in sorted(numpys, key=str.lower)]
    imports += ["\n", "from adjit import linalg as linalg\n", "from adjit.nn.functional import sigmoid as sigmoid\n"]
    imports += [f"from adjit.special import {name} as {name}\n" for name in own]
    return f"{HEAD}# ruff: noqa: I001\n\n{''.join(imports)}\n{listed([*numpys, *own, 'linalg', 'sigmoid'])}".rstrip("\n") + "\n"


def special_stub() -> str:
    names = dir(special)
    return IMPORTS + listed(names) + definitions(names, special, "TensorLike")


def random_stub() -> str:
    return IMPORTS + listed(random.__all__) + RANDOM.lstrip("\n")


def linalg_stub() -> str:
    names = [name for name in linalg.__all__ if name != "LinAlgError" and f"def {name}(" not in OF_TUPLES]
    imports = IMPORTS.replace("from adjit.nn.", "from adjit.linalg.failures import LinAlgError as LinAlgError\nfrom adjit.nn.")
    return imports + listed(linalg.__all__) + definitions(names, linalg, "TensorLike") + OF_TUPLES


def functional_stub() -> str:
    arguments = IMPORTS.replace("import Array, Reduction", "import Array, InterpolationMode, OutputSize, Reduction")
    return arguments + listed(functional.__all__) + definitions(functional.__all__, functional, "Array")


STUBS = {
    ROOT / "api" / "argument_types.pyi": lambda: ARGUMENT_TYPES,
    ROOT / "api" / "numpy.pyi": numpy_stub, ROOT / "api" / "special.pyi": special_stub, ROOT / "api" / "random.pyi": random_stub,
    ROOT / "api" / "linalg" / "__init__.pyi": linalg_stub, ROOT / "api" / "nn" / "functional" / "__init__.pyi": functional_stub,
}

if __name__ == "__main__":
    for path, stub in STUBS.items():
        path.write_text(stub())
