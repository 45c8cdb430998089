"""Writes the examples that `help` shows of functions that are made when they are imported: `python docs/make_examples.py`.

Each is a call with arguments chosen by the names of the parameters, and the result that it gave: `api/function_examples.py`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter
from pathlib import Path
from typing import Any

import numpy as np

import adjit as aj
from adjit import function_examples
from adjit.tensor_functions import METHODS

EXAMPLES = Path(__file__).resolve().parent.parent / "api" / "function_examples.py"
HEAD = '''\
"""Examples of functions that are made when they are imported, by module and name. Written by: python docs/make_examples.py"""

'''

MATRIX, VECTOR = "[[1.0, 2.0], [3.0, 4.0]]", "[0.25, 0.5]"
_OF_MATRICES, _OF_BITS = """
    all any amax amin argmax argmin max min mean sum prod var std median cumsum cumprod logsumexp norm count_nonzero nansum nanmean
    matmul mm addmm mv flatten unflatten squeeze unsqueeze permute transpose t movedim broadcast_to narrow select unbind split chunk
    flip roll diagonal diag tril triu index_select gather scatter scatter_add sort argsort topk numel index_add index_fill index_copy
    take_along_dim diff masked_select masked_fill reshape tile repeat_interleave average ptp trace swapaxes moveaxis rot90 fliplr flipud
    expand_dims ravel matrix_transpose permute_dims adjoint cov corrcoef cummax cummin kthvalue mode msort
    quantile nanquantile logcumsumexp aminmax tensordot vstack hstack concatenate stack take repeat kron outer tensordot
""", """
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_invert bitwise_left_shift bitwise_right_shift invert left_shift right_shift
"""
OF_MATRICES, BITS = set(_OF_MATRICES.split()), set(_OF_BITS.split())
ABOVE_ONE = {"acosh", "arccosh"}

PLAIN = {"dim": "0", "weight": "0.5", "exponent": "2.0", "min": "0.3", "value": "1.0", "start": "0", "length": "1", "k": "1", "chunks": "2",
         "split_size": "1", "shifts": "1", "repeats": "2", "sizes": "(1, 2)", "source": "0", "destination": "1", "axis": "0",
         "shape": "(4,)",
         "axis1": "0", "axis2": "1", "reps": "2", "shift": "1", "n": "1", "d": "2", "alpha": "1.0"}
ARRAYS = {"index": "[1, 0]", "indices": "[1, 0]", "mask": "[[True, False], [False, True]]", "vec": "[1.0, 2.0]", "src": MATRIX,
          "source": MATRIX, "mat1": MATRIX, "mat2": MATRIX}
OF_ONE: dict[tuple[str, str], str] = {
    ("gather", "index"): "[[1, 0]]", ("scatter", "index"): "[[1, 0]]", ("scatter_add", "index"): "[[1, 0]]",
    ("take_along_dim", "indices"): "[[1, 0]]"}
SIZES = {"reshape": "4", "permute": "1, 0", "flip": "0", "tile": "2", "broadcast_to": "2, 2, 2", "transpose": "0, 1"}

WHOLE = {
    "bmm": "{0}([[[1.0, 2.0]]]), {0}([[[3.0], [4.0]]])", "baddbmm": "{0}([[[1.0]]]), {0}([[[1.0, 2.0]]]), {0}([[[3.0], [4.0]]])",
    "outer": "{0}([1.0, 2.0]), {0}([3.0, 4.0])", "broadcast_to": "{0}([1.0, 2.0]), (2, 2)",
    "where": "{0}([True, False]), {0}([1.0, 2.0]), 0.0", "einsum": "'i,i->', {0}([1.0, 2.0]), {0}([3.0, 4.0])",
    "pad": "{0}([1.0, 2.0]), 1", "split": "{0}([1.0, 2.0]), 2", "array_split": "{0}([1.0, 2.0]), 2", "hsplit": "{0}([1.0, 2.0]), 2",
    "vsplit": "{0}([[1.0], [2.0]]), 2", "astype": "{0}([1.0, 2.0]), 'float32'",
    "select": "[{0}([True, False])], [{0}([1.0, 2.0])]",
    "addbmm": "{0}([[1.0]]), {0}([[[1.0, 2.0]]]), {0}([[[3.0], [4.0]]])", "addmv": "{0}([1.0]), {0}([[1.0, 2.0]]), {0}([3.0, 4.0])",
    "addr": "{0}([[1.0, 2.0]]), {0}([3.0]), {0}([4.0, 5.0])", "bincount": "{0}([0, 2, 2])", "clip": "{0}([0.25, 0.5]), 0.3, 1.0",
    "cross": "{0}([1.0, 0.0, 0.0]), {0}([0.0, 1.0, 0.0])",
    "diagonal_scatter": "{0}([[1.0, 2.0], [3.0, 4.0]]), {0}([5.0, 6.0])", "dsplit": "{0}([[[1.0, 2.0]]]), 2",
    "gcd": "{0}([12, 18]), {0}([8, 12])", "lcm": "{0}([4, 6]), {0}([6, 9])",
    "index_put": "{0}([1.0, 2.0]), ({0}([1]),), {0}([5.0])", "index_reduce": "{0}([1.0, 2.0]), 0, {0}([1, 1]), {0}([5.0, 7.0]), 'amax'",
    "is_nonzero": "{0}([2.0])", "masked_scatter": "{0}([1.0, 2.0]), {0}([False, True]), {0}([5.0, 6.0])",
    "matrix_power": "{0}([[1.0, 1.0], [0.0, 1.0]]), 3", "multinomial": "{0}([0.0, 1.0]), 1", "mvlgamma": "{0}([2.0]), 1",
    "nonzero_static": "{0}([0.0, 2.0]), size=2", "renorm": "{0}([[3.0, 4.0]]), 2, 0, 1.0",
    "scatter_reduce": "{0}([1.0, 2.0]), 0, {0}([1, 1]), {0}([5.0, 7.0]), 'prod'", "select_scatter": "{0}([1.0, 2.0]), {0}(5.0), 0, 1",
    "slice_scatter": "{0}([1.0, 2.0, 3.0]), {0}([5.0, 6.0]), start=1", "split_with_sizes": "{0}([1.0, 2.0, 3.0]), [1, 2]",
    "tensor_split": "{0}([1.0, 2.0, 3.0]), 2", "swapaxes": "{0}([[1.0, 2.0]]), 0, 1", "swapdims": "{0}([[1.0, 2.0]]), 0, 1",
    "cholesky_solve": "{0}([[1.0]]), {0}([[2.0]])", "lu_solve": "{0}([[1.0]]), {0}([[2.0]]), {0}([1])",
    "triangular_solve": "{0}([[1.0]]), {0}([[2.0]])", "orgqr": "{0}([[1.0], [0.0]]), {0}([2.0])",
    "ormqr": "{0}([[1.0], [0.0]]), {0}([2.0]), {0}([[1.0], [1.0]])",
    **dict.fromkeys(("cholesky", "cholesky_inverse", "det", "inverse", "logdet", "lu", "matrix_exp", "pinverse", "qr", "slogdet", "svd",
                     "geqrf"), "{0}([[4.0]])")}
"""Arguments of functions whose parameters do not say enough."""
OF_TENSORS = {"cross", "swapaxes", "clip"}
"""Names in `WHOLE` whose functions of NumPy need no such arguments."""


def arguments(name: str, function: Callable[..., Any], make: str) -> str:
    """Text of the arguments without which the function cannot be called."""
    content = MATRIX if name in OF_MATRICES else "[1, 2]" if name in BITS else "[1.5, 2.0]" if name in ABOVE_ONE else VECTOR
    if name in WHOLE and not (make == "aj.tensor" and name in ("split", "select")) and not (make == "np.array" and name in OF_TENSORS):
        return WHOLE[name].format(make)
    first, *others = inspect.signature(function).parameters.values()
    written = [f"{make}({content})"]
    for p in others:
        if p.kind is p.VAR_POSITIONAL and name in SIZES:
            written.append(SIZES[name])
        elif p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            written.append(argument(name, p, content, make))
    if name == "clamp":
        written.append("min=0.3")
    if first.name == "n":       # of polygamma
        written = ["1", f"{make}({content})"]
    return ", ".join(written)


def argument(name: str, parameter: Parameter, content: str, make: str) -> str:
    given = OF_ONE.get((name, parameter.name))
    if given is None and parameter.name in PLAIN and not (parameter.name == "source" and name.startswith("index")):
        return PLAIN[parameter.name] if (name, parameter.name) != ("select", "index") else "0"
    if name == "select":
        return "0"
    second = content if name in BITS or content == MATRIX else "[2.0, 4.0]"
    return f"{make}({given or ARRAYS.get(parameter.name, second)})"


def examples(module: str, names: list[str], make: str) -> Iterator[str]:
    for name in names:
        function = getattr(getattr(aj, module) if module else aj, name)
        if not callable(function) or isinstance(function, type) or has_one_of_its_own(function):
            continue
        with contextlib.suppress(Exception):        # a function of other arguments has no example
            given = arguments(name, function, make)
            call = f"aj.{module + '.' if module else ''}{name}({given})"
            call += ".shape" * (name == "empty_like")       # its content is any
            result = eval(call, {"aj": aj, "np": np})
            if module == "special" and "nan" in repr(result):       # parameters come first, and are larger than the variable
                call = call.replace(given, "), ".join([part.rstrip(")") for part in reversed(given.split("), "))]) + ")")
                result = eval(call, {"aj": aj, "np": np})
                if "nan" in repr(result):
                    continue
            if result is not None and "\n\n" not in repr(result) and "object at" not in repr(result):
                yield f"    {f'{module}.{name}'.lstrip('.')!r}: {(call, repr(result))!r},\n"


def has_one_of_its_own(function: Callable[..., Any]) -> bool:
    """True if the docstring has an example that is not one of these: aliases of a function share a docstring."""
    doc = function.__doc__ or ""
    return ">>>" in doc and not any(f">>> {call}" in doc for call, _ in function_examples.EXAMPLES.values())


def text() -> str:
    numpys = [name for name in dir(aj.numpy) if name not in aj.numpy.__all__ and not name.startswith("_") and hasattr(np, name)]
    lines = [*examples("", [name for name in sorted(METHODS) if name != "bernoulli"], "aj.tensor"), *examples("numpy", numpys, "np.array"),
             *examples("special", [name for name in dir(aj.special) if name not in aj.special.__all__], "np.array")]
    return f"{HEAD}# ruff: noqa: E501\nEXAMPLES: dict[str, tuple[str, str]] = {{\n{''.join(lines)}}}\n"


if __name__ == "__main__":
    EXAMPLES.write_text(text())
