"""Options of `compile`, checked where the user gives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.codegen.cuda.target import DEVICE_RULE
from adjit.codegen.llvm.target import is_installed
from adjit.eager.device import card_number, named, number_of, place_of
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError, UnsupportedError
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import is_half
from adjit.passes.options import Options, RollingRule
from adjit.runtime import settings
from adjit.runtime.machine import core_cache_bytes
from adjit.runtime.native.code import native_is_supported
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.runtime.cuda import devices
else:
    devices = LazyModule("adjit.runtime.cuda.devices")

DEVICES = ("cpu", "cuda")
PRECISIONS = ("highest", "high", "tf32", "bf16")
Names = str | int | Iterable[str | int]
Rows = Names | Mapping[str | int, int]


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options in effect. `backend` is "native", "numba" or "interpret"; `static` and `donate` are names of arguments. A program that
    `repeats` runs a function again for its derivative: what that stores outside was stored before. `batch` names the arguments that are
    arrays of any number of rows, and the program `keeps_rows` between loops over them in memory of the call. A function that `follows` is
    compiled for the device of its tensors and arrays, for the CPU if none is on one. `matmul_precision` is for devices alone."""

    static: frozenset[str] = frozenset()
    donate: frozenset[str] = frozenset()
    backend: str = "numba"
    device: str = "cpu"
    threads: int | None = None
    memory_budget: int | float | None = None
    flush_subnormals: bool = False
    roll_loops: bool | None = None
    saved_dtype: np.dtype | None = None
    repeats: bool = False
    shadow: float = 0.0
    batch: frozenset[str] = frozenset()
    keeps_rows: bool = True
    follows: bool = False
    matmul_precision: str = "highest"

    @property
    def card(self) -> int:
        """The number of the card that programs are compiled for, if they are."""
        return number_of(self.device)

    @property
    def pass_options(self) -> Options:
        """Options of the passes."""
        if self.device != "cpu":
            return Options(self.memory_budget, True, saved_dtype=self.saved_dtype, kernels=DEVICE_RULE,
                           matmul_precision=self.matmul_precision)
        native = self.backend == "native"
        rolls = settings.ROLL_LOOPS.get() if self.roll_loops is None else self.roll_loops
        return Options(self.memory_budget, native, core_cache_bytes() if native else None, self.flush_subnormals and native,
                       RollingRule() if rolls else None, self.saved_dtype, from_end=native,
                       complex_products=native, inverses=native)


def known_place(device: Any) -> str | None:
    """A device by the name that programs keep, "cpu", or "cuda" for the first card; None for None. Raises `ArgumentError` for what is no
    device of programs, `UnsupportedError` for a card that is not there."""
    kind = str(named(device)).partition(":")[0]
    if device is not None and kind not in DEVICES:
        raise ArgumentError(f"unknown device {device!r}; the choices are {', '.join(DEVICES)}", find_user_location())
    try:
        number = card_number(device)
    except ValueError as error:
        raise ArgumentError(str(error), find_user_location()) from None
    return place_of(number) if number is not None else None if device is None else "cpu"


def make_compile_options(fun: Callable[..., Any], static: Names, donate: Names, backend: str, device: str | int | None, threads: int | None,
                 memory_budget: int | float | None, flush_subnormals: bool, roll_loops: bool | None = None,
                         saved_dtype: Any = None, shadow: float = 0.0, batch: Rows = (),
                         matmul_precision: str = "highest") -> CompileOptions:
    """The options for `fun`. Raises `ValueError`, `TypeError` or `UnsupportedError`, which names the invalid option and the reason."""
    settings.check()
    static_names, donated_names = _argument_names(fun, "static", static), _argument_names(fun, "donate", donate)
    if static_names & donated_names:
        raise ArgumentError(f"an argument cannot be static and donated: {', '.join(sorted(static_names & donated_names))}",
                            find_user_location())
    rows = _argument_names(fun, "batch", _names_of_rows(batch))
    if rows & static_names:
        raise ArgumentError(f"an argument cannot be static and have rows: {', '.join(sorted(rows & static_names))}", find_user_location())
    place = known_place(device)
    _check_threads(threads)
    check_budget(memory_budget)
    if flush_subnormals and backend in ("numba", "interpret"):
        raise UnsupportedError(f"backend {backend!r} cannot flush subnormal numbers to zero", find_user_location(),
                               hint="use backend='native', or 'auto'")
    if roll_loops is not None and not isinstance(roll_loops, bool):
        raise TypeError(f"roll_loops= takes True, False or None, got {roll_loops!r}")
    if matmul_precision not in PRECISIONS:
        raise ArgumentError(f"unknown matmul_precision {matmul_precision!r}; the choices are {', '.join(PRECISIONS)}", find_user_location())
    on_card = place not in (None, "cpu")
    chosen = _device_backend(backend, flush_subnormals, shadow) if on_card else _choose_backend(backend)
    return CompileOptions(static_names, donated_names, chosen, place or "cpu", threads, memory_budget, bool(flush_subnormals), roll_loops,
                          _half_dtype(saved_dtype), shadow=_share(shadow), batch=rows, follows=device is None and backend == "auto",
                          matmul_precision=matmul_precision)


def for_device(options: CompileOptions, place: str) -> CompileOptions:
    """The options for a card. Raises `UnsupportedError` for options that programs there do not have."""
    return replace(options, device=place, backend=_device_backend("auto", options.flush_subnormals, options.shadow))


def function_name(fun: Callable[..., Any]) -> str:
    """The name of a function, for messages."""
    return getattr(fun, "__qualname__", None) or type(fun).__name__


def _argument_names(fun: Callable[..., Any], option: str, wanted: Names) -> frozenset[str]:
    """The names of arguments that are given by name or position."""
    wanted = (wanted,) if isinstance(wanted, (str, int)) else tuple(wanted)
    if not wanted:
        return frozenset()
    parameters = list(inspect.signature(getattr(fun, "forward", fun) if isinstance(fun, IdentityKeyed) else fun).parameters.values())
    names = [parameter.name for parameter in parameters]
    keywords = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    owner, found = function_name(fun), set()
    for item in wanted:
        if isinstance(item, bool) or not isinstance(item, (str, int)):
            raise TypeError(f"{option}= takes names and positions of arguments, got {item!r}")
        if isinstance(item, str):
            if item == keywords:
                raise ArgumentError(f"{option}= names {item!r}, the **keywords of {owner}; name single keywords instead",
                                    find_user_location())
            if item not in names and keywords is None:
                raise ArgumentError(f"{option}= names {item!r}, which is not an argument of {owner}; its arguments are {', '.join(names)}",
                                    find_user_location())
            found.add(item)
        else:
            if not -len(positional) <= item < len(positional):
                raise ArgumentError(f"{option}= names position {item}, but {owner} has {len(positional)} positional arguments",
                                    find_user_location())
            found.add(positional[item])
    return frozenset(found)


def _names_of_rows(batch: Rows) -> Names:
    """Names and positions of the arguments that have rows, each along its first axis. Raises `ArgumentError` for another axis."""
    if not isinstance(batch, Mapping):
        return batch
    for name, axis in batch.items():
        if isinstance(axis, bool) or not isinstance(axis, int) or axis:
            raise ArgumentError(f"batch= says that the rows of {name!r} are along axis {axis!r}: one program serves arrays whose rows are "
                                "along axis 0", find_user_location(),
                                hint="pass the array with its rows first, and transpose it in the function")
    return tuple(batch)


def _choose_backend(backend: str) -> str:
    if backend not in settings.BACKENDS:
        raise ArgumentError(f"unknown backend {backend!r}; the choices are {', '.join(settings.BACKENDS)}", find_user_location())
    wanted = settings.BACKEND.get() if backend == "auto" else backend
    as_python = settings.DISABLE_JIT.get()
    missing = [] if as_python else [package for package in ("llvmlite", "numba") if not is_installed(package)]
    if wanted == "native" and "llvmlite" in missing:
        raise _not_installed("native", "llvmlite")
    if wanted == "native" and not native_is_supported():
        raise UnsupportedError("the native backend is for CPython on Linux on x86-64", find_user_location(),
                               hint="use backend='numba', or 'auto'")
    if wanted == "numba" and missing:
        raise _not_installed("numba", missing[-1])
    if wanted == "auto":
        return "native" if native_is_supported() and not as_python else "interpret" if missing else "numba"
    return wanted


def _not_installed(backend: str, package: str) -> UnsupportedError:
    return UnsupportedError(f"the {backend} backend needs the package {package}, which is not installed", find_user_location(),
                            hint=f"pip install {package}; or use backend='interpret', or 'auto', which takes what there is")


def _device_backend(backend: str, flush_subnormals: bool, shadow: float) -> str:
    """The backend of functions for a device; raises `UnsupportedError` if there is no device."""
    if backend != "auto":
        raise ArgumentError(f"backend {backend!r} is for the CPU", find_user_location(), hint="omit backend=, or device=")
    if flush_subnormals:
        raise UnsupportedError("device 'cuda' cannot flush subnormal numbers to zero yet", find_user_location(),
                               hint="omit flush_subnormals=")
    if shadow:
        raise UnsupportedError("calls of functions for the device 'cuda' are not compared yet", find_user_location(), hint="omit shadow=")
    if not is_installed("llvmlite"):
        raise _not_installed("cuda", "llvmlite")
    try:
        devices.driver()
    except UnsupportedError as error:
        raise UnsupportedError(error.message, find_user_location(), hint=error.hint) from None
    return "cuda"


def _check_threads(threads: int | None) -> None:
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int)):
        raise TypeError(f"threads= takes a number of threads, got {threads!r}")
    if threads is not None and threads < 1:
        raise ArgumentError(f"threads= has to be at least 1, got {threads}", find_user_location())


def _half_dtype(dtype: Any) -> np.dtype | None:
    found = None if dtype is None else dtype_argument(dtype)
    if found is not None and not is_half(found):
        raise ArgumentError(f"saved_dtype= takes 'bfloat16', 'float16' or None, got {dtype!r}", find_user_location())
    return found


def _share(shadow: float) -> float:
    if isinstance(shadow, bool) or not isinstance(shadow, (int, float)):
        raise TypeError(f"shadow= takes a share of the calls, got {shadow!r}")
    if not 0.0 <= shadow <= 1.0:
        raise ArgumentError(f"shadow= has to be from 0 to 1, got {shadow!r}", find_user_location(), "0.01 compares one call in a hundred")
    return float(shadow)


def check_budget(budget: int | float | None) -> None:
    """Raise `TypeError` or `ArgumentError` for what is no memory budget."""
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, (int, float))):
        raise TypeError(f"memory_budget= takes bytes (int) or a fraction (float), got {budget!r}")
    if budget is not None and not (budget >= 0 and (isinstance(budget, int) or budget <= 1)):
        raise ArgumentError(f"memory_budget= has to be a number of bytes, or a float from 0 to 1, got {budget!r}", find_user_location())
