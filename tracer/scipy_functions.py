"""SciPy's functions, distributions and interpolators as they act while a function is traced: `adjit.scipy`'s take traced arguments.

SciPy asks no argument what to do with it, so its functions are intercepted as NumPy's are. What has no rule says why. Only modules that
the program has imported are looked at, each once.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from adjit.ir.errors import REFUSAL_OBSERVERS, AdjitError, UnsupportedError
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import find_wrapper
from adjit.tracer.fresh_array import has_traced, made, opened
from adjit.tracer.interception import Interception, calling_module
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location, is_ours

Function = Callable[..., Any]

_MODULES = ("fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "sparse.linalg", "spatial",
            "spatial.distance", "spatial.transform", "special", "stats")
_ONLY = {"sparse": ("block_array", "block_diag", "bmat", "diags", "diags_array", "hstack", "kron", "spdiags", "tril", "triu", "vstack"),
         "spatial": (), "spatial.transform": (),
         "sparse.linalg": ("bicg", "bicgstab", "cg", "factorized", "gmres", "lgmres", "minres", "norm", "splu", "spsolve")}
"""Modules of which few functions have a rule."""
_INTERPOLATORS = ("Akima1DInterpolator", "BSpline", "BarycentricInterpolator", "CubicHermiteSpline", "CubicSpline", "KroghInterpolator",
                  "LinearNDInterpolator", "NearestNDInterpolator", "PPoly", "PchipInterpolator", "RBFInterpolator",
                  "RegularGridInterpolator", "interp1d", "UnivariateSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline",
                  "RectBivariateSpline", "CloughTocher2DInterpolator")

_intercepted: dict[str, Interception] = {}


@contextmanager
def scipy_functions() -> Iterator[None]:
    """Have the functions of SciPy's modules take traced arguments within the block."""
    with ExitStack() as stack:
        for name in _MODULES:
            module = sys.modules.get(f"scipy.{name}")
            if module is not None and hasattr(module, "__all__"):       # it may be half imported
                if name not in _intercepted:
                    _intercepted[name] = _interception(name, module)
                stack.enter_context(_intercepted[name].in_force())
        yield


def _are_ours(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True while a function is traced, for traced arrays and tensors among the arguments."""
    return is_tracing() and (has_traced((args, kwargs)) or find_wrapper(args, kwargs) is not None)


def _ours(module: str) -> Any:
    return import_module(f"adjit.scipy.{module}")


def _reasons() -> Any:
    return import_module("adjit.scipy.reasons")


def _interception(name: str, module: Any) -> Interception:
    """Replacements for a module's functions, but for those that have a reason to take plain arrays alone."""
    functions, refused, calls = Interception(), _reasons().REASONS.get(name, {}), _reasons().CALLS
    for public in _ONLY.get(name, module.__all__):
        if type(found := vars(module).get(public)) is FunctionType and refused.get(public, calls) == calls:
            functions.add(found, _function(name, public))
    if name == "fft":           # the functions themselves ask backends, and are objects of C
        for backend in (module._basic_backend, module._realtransforms_backend):
            for public, found in vars(backend).items():
                if type(found) is FunctionType and public in module.__all__:
                    functions.add(found, _function(name, public))
    elif name == "sparse":
        _add_sparse(functions, module)
    elif name == "sparse.linalg":
        functions.add_method(module.SuperLU, "solve", _of_factors)
    elif name == "spatial":
        functions.add(vars(module.KDTree)["query"], _of_tree)
        functions.add_method(module.cKDTree, "query", _of_tree)
    elif name == "spatial.transform":
        ours = import_module("adjit.scipy.spatial.rotations")
        for method in (*ours.MAKERS, *ours.METHODS):
            found = vars(module.Rotation).get(method)
            if type(found := getattr(found, "__func__", found)) is FunctionType:        # of older SciPy it is of C
                functions.add(found, _of_rotation(method, method in ours.MAKERS))
    elif name == "interpolate":
        _add_interpolators(functions, module)
    elif name == "stats":
        _add_distributions(functions, module)
    return functions


def _function(module: str, name: str) -> Callable[[Function], Function]:
    """Replacement for a function of a module."""
    calls_back = _reasons().REASONS.get(module, {}).get(name) == _reasons().CALLS

    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_tracing():
                return own(*args, **kwargs)
            if _are_ours(args, kwargs):
                return getattr(_ours(module), name)(*opened(args), **opened(kwargs))
            if is_ours(calling_module()):
                return own(*args, **kwargs)
            return made(own, args, kwargs) if not calls_back else calling_back(f"scipy.{module}.{name}", own, args, kwargs)
        return call
    return replacement


def calling_back(name: str, own: Function, args: Any, kwargs: Any) -> Any:
    """Call a function of SciPy's, by its full name, that calls a Python function, whose result may turn out to be traced: that is refused.
    SciPy's code in C may lose the error, and raise another."""
    refusals: list[AdjitError] = []
    REFUSAL_OBSERVERS.append(refusals.append)
    try:
        return made(own, args, kwargs)
    except Exception:
        if not refusals:
            raise
        raise UnsupportedError(
            f"{name} calls a Python function on plain numbers, and gets traced ones of it", find_user_location(),
            hint=_reasons().INSTEAD.get(name.rpartition(".")[2], "call it by aj.pure_callback, its derivative as vjp=")) from None
    finally:
        REFUSAL_OBSERVERS.remove(refusals.append)


def _remedy(names: list[str]) -> str:
    """What to do where SciPy's functions of these names, with their modules, made an ordinary array of a traced one."""
    reasons = _reasons()
    for part, remedy in reasons.PARTS.items():
        if names[0].startswith(f"scipy.{part}."):
            return str(remedy)
    for name in (name.rpartition(".")[2] for name in names):
        for module, refused in reasons.REASONS.items():
            if refused.get(name, reasons.NOT_YET) not in (reasons.NOT_YET, reasons.CALLS):
                return f"scipy.{module}.{name} takes plain arrays alone: {refused[name]}"
    return "adjit.scipy has no rule for it (docs/scipy.md): write it in NumPy, or call SciPy by aj.pure_callback"


FUNCTIONS["remedy for scipy"] = _remedy


# -- distributions

def _add_distributions(functions: Interception, module: Any) -> None:
    kinds = [type(getattr(module, name, None)) for name in module.__all__]
    for method, found in _methods(*dict.fromkeys(base for kind in kinds if issubclass(kind, module.rv_continuous.__mro__[1])
                                                 for base in kind.__mro__[:-1])):
        functions.add(found, _of_distribution(method))
    functions.add(module.gaussian_kde, _constructor("gaussian_kde", "stats"))
    for method, found in _methods(module.gaussian_kde):
        functions.add(found, _of_kernels(method))
    of_vectors = type(module.dirichlet).__mro__[1]
    for name, kind in zip(module.__all__, kinds, strict=True):
        if issubclass(kind, of_vectors):
            frozen = vars(sys.modules[kind.__module__]).get(f"{name}_frozen", object)
            for method, found in _methods(kind):
                functions.add(found, _of_vectors(name, method))
            for method, found in _methods(frozen):
                functions.add(found, _of_frozen_vectors(name, method))


def _methods(*kinds: type) -> Iterator[tuple[str, FunctionType]]:
    """Public methods that classes define, and calls; but for `rvs`: its draws warn (`tracer.libraries`)."""
    for name, found in itertools.chain.from_iterable(vars(kind).items() for kind in kinds):
        if type(found) is FunctionType and name != "rvs" and (name == "__call__" or not name.startswith("_")):
            yield name, found


def _of_distribution(method: str) -> Callable[[Function], Function]:
    """Replacement for a method of SciPy's distributions of a number."""
    def replacement(own: Function) -> Function:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _are_ours(args, kwargs):
                name = self.name
                if type(getattr(sys.modules["scipy.stats"], name, None)) is not type(self):
                    raise UnsupportedError(f"the distribution {name} is not one of SciPy's own, and has no rule for traced arrays",
                                           find_user_location(), hint="write its density in NumPy")
                return getattr(getattr(_ours("stats"), name), method)(*opened(args), **opened(kwargs))
            return own(self, *args, **kwargs)
        return call
    return replacement


def _of_kernels(method: str) -> Callable[[Function], Function]:
    """Replacement for a method of a sum of kernels around plain samples."""
    def replacement(own: Function) -> Function:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _are_ours(args, kwargs):
                around = import_module("adjit.scipy.stats.kernels").around_kernels(self)
                return getattr(around, method)(*opened(args), **opened(kwargs))
            return own(self, *args, **kwargs)
        return call
    return replacement


def _of_vectors(name: str, method: str) -> Callable[[Function], Function]:
    """Replacement for a method of a distribution of vectors."""
    def replacement(own: Function) -> Function:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _are_ours(args, kwargs):
                return getattr(getattr(_ours("stats"), name), method)(*opened(args), **opened(kwargs))
            return own(self, *args, **kwargs)
        return call
    return replacement


def _of_frozen_vectors(name: str, method: str) -> Callable[[Function], Function]:
    """Replacement for a method of a distribution of vectors that holds its parameters, as attributes of the same names."""
    def replacement(own: Function) -> Function:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _are_ours(args, kwargs):
                function = getattr(getattr(_ours("stats"), name), method)
                parameters = [key for key in list(inspect.signature(function).parameters)[1:] if key not in kwargs and hasattr(self, key)]
                return function(*opened(args), **opened(kwargs), **{key: getattr(self, key) for key in parameters})
            return own(self, *args, **kwargs)
        return call
    return replacement


# -- sparse arrays

_OPERATORS = {"_matmul_dispatch": "__matmul__", "_rmatmul_dispatch": "__rmatmul__", "_mul_scalar": "multiply"} | {name: name for name in (
    "multiply", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__")}
"""Methods that take an operand, which may be traced: what they are of sparse arrays of traced elements."""


def _add_sparse(functions: Interception, module: Any) -> None:
    methods: dict[Any, str] = {}
    for form, kind in itertools.product(("csr", "csc", "coo", "dia", "bsr"), ("array", "matrix")):
        name = f"{form}_{kind}"
        functions.add(getattr(module, name), _sparse_class(name))
        for base in getattr(module, name).__mro__:
            for method in _OPERATORS:
                if type(found := vars(base).get(method)) is FunctionType:
                    methods.setdefault(found, method)
    for found, method in methods.items():
        functions.add(found, _of_sparse(_OPERATORS[method]))


def _sparse_class(name: str) -> Callable[[Function], Function]:
    """Replacement for a class of sparse arrays, whose elements may be traced."""
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if _are_ours(args, kwargs):
                return _ours("sparse").make(name, *opened(args), **opened(kwargs))
            return own(*args, **kwargs)
        return call
    return replacement


def _of_sparse(name: str) -> Callable[[Function], Function]:
    """Replacement for a method of SciPy's sparse arrays that takes an operand."""
    def replacement(own: Function) -> Function:
        def call(self: Any, other: Any) -> Any:
            if not _are_ours((other,), {}):
                return own(self, other)
            if name == "__matmul__" and np.ndim(other) and isinstance(other, TracedArray):
                return _ours("sparse").matmul(self, opened(other))      # of any number of dimensions, and format
            return getattr(_ours("sparse").as_sparse(self), name)(opened(other))
        return call
    return replacement


def _of_factors(own: Function) -> Function:
    """Replacement for the method that solves with the factors of a sparse array."""
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _ours("sparse.linalg").solved(self, *opened(args), **kwargs) if _are_ours(args, kwargs) else own(self, *args, **kwargs)
    return call


# -- rotations and neighbours

def _of_rotation(method: str, makes: bool) -> Callable[[Function], Function]:
    """Replacement for a method of SciPy's rotations, or for a function that makes them."""
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not _are_ours(args, kwargs):
                return own(*args, **kwargs)
            ours = import_module("adjit.scipy.spatial.rotations")
            if makes:
                return getattr(ours.Rotation, method)(*opened(args), **opened(kwargs))
            return getattr(ours.around(args[0]), method)(*opened(args[1:]), **opened(kwargs))
        return call
    return replacement


def _of_tree(own: Function) -> Function:
    """Replacement for the search for neighbours of traced places."""
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _are_ours(args, kwargs):
            return import_module("adjit.scipy.spatial.neighbours").query(self, *opened(args), **opened(kwargs))
        return own(self, *args, **kwargs)
    return call


# -- interpolators

def _add_interpolators(functions: Interception, module: Any) -> None:
    methods: dict[Any, str] = {}
    for name in _INTERPOLATORS:
        kind = getattr(module, name)
        functions.add(kind, _constructor(name))
        for base in kind.__mro__:
            for method in ("__call__", "integrate", "integral", "derivatives"):
                if type(found := vars(base).get(method)) is FunctionType:
                    methods.setdefault(found, method)
    for found, method in methods.items():
        functions.add(found, _of_interpolator(method))
    for name in ("LinearNDInterpolator", "CloughTocher2DInterpolator"):     # in C
        functions.add_method(getattr(module, name), "__call__", _of_interpolator("__call__"))


def _constructor(name: str, module: str = "interpolate") -> Callable[[Function], Function]:
    """Replacement for the class of an interpolator or of a density, whose points may be traced."""
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if _are_ours(args, kwargs):
                return getattr(_ours(module), name)(*opened(args), **opened(kwargs))
            return own(*args, **kwargs)
        return call
    return replacement


def _of_interpolator(method: str) -> Callable[[Function], Function]:
    """Replacement for a method of an interpolator of plain points."""
    def replacement(own: Function) -> Function:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _are_ours(args, kwargs):
                return getattr(_ours("interpolate").around(self), method)(*opened(args), **opened(kwargs))
            return own(self, *args, **kwargs)
        return call
    return replacement
