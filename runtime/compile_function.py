"""`compile`: the decorator of functions and modules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from adjit.runtime.compile_options import Names, Rows, function_name, make_compile_options
from adjit.runtime.compiled import CompiledFunction, make_compiled
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.tracebacks import user_frames_only

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
CompiledKind = TypeVar("CompiledKind", bound=IdentityKeyed)      # for modules: a compiled module has the type of the module


class _Decorator(Protocol):
    """`compile` with its options: a decorator of functions and modules."""

    @overload
    def __call__(self, fun: CompiledKind, /) -> CompiledKind: ...

    @overload
    def __call__(self, fun: np.ufunc, /) -> CompiledFunction[..., Any]: ...

    @overload
    def __call__(self, fun: Callable[P, R], /) -> CompiledFunction[P, R]: ...


@overload
def compile(fun: CompiledKind, *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str | int | None = ...,
            threads: int | None = ..., memory_budget: int | float | None = ..., flush_subnormals: bool = ...,
            roll_loops: bool | None = ..., saved_dtype: Any = ..., shadow: float = ...,
            batch: Rows = ..., matmul_precision: str = ...,
            mode: str | None = ..., fullgraph: bool = ..., dynamic: bool | None = ...) -> CompiledKind: ...


@overload
def compile(fun: np.ufunc, *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str | int | None = ...,
            threads: int | None = ..., memory_budget: int | float | None = ...,
            flush_subnormals: bool = ..., roll_loops: bool | None = ..., saved_dtype: Any = ...,
            shadow: float = ...,
            batch: Rows = ..., matmul_precision: str = ...,
            mode: str | None = ..., fullgraph: bool = ..., dynamic: bool | None = ...) -> CompiledFunction[..., Any]: ...


@overload
def compile(fun: Callable[P, R], *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str | int | None = ...,
            threads: int | None = ..., memory_budget: int | float | None = ..., flush_subnormals: bool = ...,
            roll_loops: bool | None = ..., saved_dtype: Any = ..., shadow: float = ...,
            batch: Rows = ..., matmul_precision: str = ...,
            mode: str | None = ..., fullgraph: bool = ..., dynamic: bool | None = ...) -> CompiledFunction[P, R]: ...


@overload
def compile(fun: None = None, *, static: Names = ..., donate: Names = ..., backend: str = ..., device: str | int | None = ...,
            threads: int | None = ..., memory_budget: int | float | None = ..., flush_subnormals: bool = ...,
            roll_loops: bool | None = ..., saved_dtype: Any = ..., shadow: float = ...,
            batch: Rows = ..., matmul_precision: str = ...,
            mode: str | None = ..., fullgraph: bool = ..., dynamic: bool | None = ...) -> _Decorator: ...


@user_frames_only       # type: ignore[misc]
def compile(fun: Callable[..., Any] | None = None, *, static: Names = (), donate: Names = (), backend: str = "auto",
            device: str | int | None = None, threads: int | None = None, memory_budget: int | float | None = None,
            flush_subnormals: bool = False, roll_loops: bool | None = None, saved_dtype: Any = None, shadow: float = 0.0,
            batch: Rows = (), matmul_precision: str = "highest", mode: str | None = None, fullgraph: bool = True,
            dynamic: bool | None = None) -> Any:
    """Compile a function of NumPy arrays, or a method: a decorator, with or without arguments.

    Arrays, NumPy scalars, tensors and floats among the arguments are traced. A bool, int, str, None, enum, callable or dtype, and every
    leaf of the arguments named in `static`, is part of the signature. Trees of these (dict, list, tuple, dataclass, ...) are allowed.
    Results have the structure that the function returns; 0-d results are NumPy scalars. What the function writes to its arguments is in the
    caller's arrays after the call, unless it fails. A result never shares memory with an argument, except for arguments that were written
    to and are returned, and for `donate`, which names arguments whose buffers the call may overwrite: then the returned arrays are the very
    arrays passed in.

    `static` and `donate` hold names or positions of arguments. `backend` is "auto", "native", "numba" or "interpret" (NumPy, one op at a
    time). `threads` is the maximum number of threads of a kernel; the result does not depend on it. `memory_budget` trades time for
    memory, as values are computed again for the backward half instead of saved. It bounds the working memory of the program, saved values
    and the tile of one thread included, in bytes (int) or as a fraction (float) of what it works in without a budget; of tensors that have
    a gradient it bounds what the forward half keeps until `backward()`, as a fraction of all that it could keep. Bytes that cannot do are
    said in a warning, with the least that can; a fraction that cannot gets the least.

    With `flush_subnormals`, subnormal numbers (below 1.2e-38 in float32, 2.3e-308 in float64) count as 0, as operands and as results:
    processors take a hundred times longer for them, and training makes many, in squares of small gradients and in vanishing gradients. Only
    this function's own arithmetic is affected, not the caller's or NumPy's. Only the native backend supports it; if "auto" selects another
    one, the option has no effect. A compiled function that is called within another one is part of that one.

    `roll_loops=False` leaves Python loops unrolled in the program, True makes loops of those that are worth it, None does as
    `ADJIT_ROLL_LOOPS` says, which is True by default. With a `memory_budget` they stay unrolled.

    `saved_dtype="bfloat16"` (or "float16") saves what the forward half keeps for the backward half in two bytes an element: half the memory
    of activations in float32. Results stay what they are; gradients are computed in the dtypes of the program, of saved values that are
    rounded, to 8 digits in base 2 (float16: 11 digits, and at most 65504). Programs that run in tiles keep activations in caches, and
    narrow what they save in memory alone.

    `shadow=0.01` has one call in a hundred, the first among them, made again by the plain Python function on copies of the arguments, in
    another thread, with transforms run op by op by NumPy. Where results differ by more than rounding, the next call warns once
    (`ShadowWarning`), with the op and the line that a bisection over the graph finds, and a file for `python -m adjit replay FILE`. Calls
    of functions with `shadow` go through Python, which takes some microseconds; those with tensors are not compared.

    `batch={"x": 0, "y": 0}` names arguments, arrays or trees of arrays, whose rows, along axis 0, may be any number: one program serves
    all, panel by panel. Where rows mix, or Python uses their number itself, there is a program for each number, as without `batch`, and
    `explain()` says where and why. Names or positions alone say the same. Only the native backend has such programs; with others the option
    has no effect.

    `device="cuda"` compiles for an NVIDIA GPU, the current one, `"cuda:1"` or 1 for the second: results are arrays there (`np.asarray(y)`
    copies one), arrays of NumPy's are copied there at each call, and those of `aj.device_put` are used as they are. What has no code there
    is refused with its line. Without `device` it is compiled for where its tensors and arrays are: a card if one is there, else the CPU.

    `matmul_precision` says how many digits a card keeps of float32 in products of matrices: "highest" keeps all. "tf32" rounds both factors
    to 11 digits in base 2, "bf16" to 8, for arithmetic that is many times as fast; "high" takes three products of 11 digits, which keep
    about 21. Sums are float32. It is a permission: products with fewer than 8 rows or columns keep all digits, and so do all on the CPU.

    `mode`, `fullgraph` and `dynamic` are options of `torch.compile`, and change nothing: programs are whole, each for its shapes.

    Raises `ValueError` or `TypeError` for invalid arguments, `UnsupportedError` for a backend or device that is not available, or does not
    support an option. The call raises `DonationError` before anything is written if a donated buffer cannot be used, and, with nothing
    changed, `MemoryError` if memory is exhausted, `IndexingError` if an index is out of range, and `ArgumentError` (a `ValueError`) for a
    read-only array that the function writes to, or one that shares a part of its memory with another argument.

    >>> import numpy as np
    >>> @compile
    ... def norm(x):
    ...     return np.sqrt(np.sum(x * x))
    >>> norm(np.array([3.0, 4.0]))
    np.float64(5.0)
    >>> norm.cache_info()
    CacheInfo(hits=0, traces=1, size=1, limit=128)
    """
    if fun is None:
        return functools.partial(
            compile, static=static, donate=donate, backend=backend, device=device, threads=threads, memory_budget=memory_budget,
            flush_subnormals=flush_subnormals, roll_loops=roll_loops, saved_dtype=saved_dtype,
            shadow=shadow, batch=batch, matmul_precision=matmul_precision)
    if isinstance(fun, (staticmethod, classmethod, property)):
        raise TypeError(f"compile cannot decorate a {type(fun).__name__}: put @{type(fun).__name__} above @compile")
    if inspect.iscoroutinefunction(fun):
        raise TypeError(f"compile takes a function that returns arrays, and {function_name(fun)} is async: compile what it calls")
    if not callable(fun):
        raise TypeError(f"compile takes a function, got {fun!r}")
    if isinstance(fun, CompiledFunction):
        fun = fun.fun
    return make_compiled(fun, make_compile_options(
        fun, static, donate, backend, device, threads, memory_budget, flush_subnormals, roll_loops, saved_dtype, shadow, batch,
        matmul_precision))
