"""What distributions have in common: SciPy's arguments, and its values at the edges, outside of the support and for bad parameters."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.ir.spelling import nearest
from adjit.ir.types import F64, is_float
from adjit.runtime.compile_function import compile
from adjit.scipy.mirror import attribute_of, is_plain, no_rule, scipys
from adjit.scipy.reasons import METHODS, NOT_YET
from adjit.scipy.stats.inverses import quantile
from adjit.scipy.stats.shapes import SHAPES
from adjit.tracer.array import as_traced, contains_traced
from adjit.tracer.array_wrapper import find_wrapper
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import stop_gradient
from adjit.tracer.promotion import as_operand, common_dtype
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


class Distribution:
    """Distribution by SciPy's name. Functions of a variable take it first, then the shape parameters, `loc` and (if continuous) `scale`.

    Float32 arguments give float32 results, where SciPy gives float64.
    """

    shapes: tuple[str, ...] = ()
    """Names of the shape parameters."""
    defaults: ClassVar[dict[str, float]] = {}
    """Default values of shape parameters."""
    of_variable: tuple[str, ...] = ()
    """Public functions of a variable."""
    of_parameters: tuple[str, ...] = ("mean", "var", "std", "entropy", "median", "support")
    """Public functions of the parameters alone."""
    of_number: tuple[str, ...] = ("interval", "moment")
    """Public functions of something else that is not traced, and of the parameters."""
    with_loops: tuple[str, ...] = ()
    """Those of the public functions that are loops."""
    placed: tuple[str, ...] = ("loc", "scale")
    variable = "x"
    if TYPE_CHECKING:
        mean: Callable[..., Any]
        var: Callable[..., Any]
        _public_ppf: Callable[..., Any]

    def __init__(self, name: str) -> None:
        self.name = name
        for public in (*self.of_variable, "interval"):
            setattr(self, public, self._entry(public, True))
        for public in self.of_parameters:
            setattr(self, public, self._entry(public, False))
        self._skewness, self._kurtosis = self._entry("skewness", False), self._entry("kurtosis", False)

    def _entry(self, public: str, of_variable: bool) -> Callable[..., Any]:
        names = (*self._variables(public)[:of_variable], *self.shapes, *self.placed)
        defaults = {**self.defaults, "loc": 0, "scale": 1}

        def call(*args: Any, **kwargs: Any) -> Any:
            theirs = plain_function(self.name, public, args, kwargs)
            return (theirs or (traced if is_plain(*args, **kwargs) else within))(*args, **kwargs)

        def compute(*args: Any, **kwargs: Any) -> Any:
            if len(args) > len(names):
                raise TypeError(f"{self.name}.{public}() takes {len(names)} arguments, {len(args)} were given")
            given = dict(zip(names, args, strict=False))
            for key, value in kwargs.items():
                if key not in names or key in given:
                    raise TypeError(f"{self.name}.{public}() got {'two values for' if key in given else 'no'} argument {key!r}")
                given[key] = value
            if missing := [key for key in names if key not in given and key not in defaults]:
                raise TypeError(f"{self.name}.{public}() missing {len(missing)} required argument: {', '.join(map(repr, missing))}")
            return getattr(self, f"_public_{public}")(*_floats([given.get(key, defaults.get(key)) for key in names]))

        call.__name__ = public
        call.__qualname__ = f"{self.name}.{public}"
        call.__doc__ = f"Equivalent of `scipy.stats.{self.name}.{public}`."
        call.__signature__ = inspect.Signature([        # type: ignore[attr-defined]
            inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=defaults.get(key, inspect.Parameter.empty))
            for key in names])
        within = dispatched(compute)
        traced = compile(within, backend="interpret") if public in self.with_loops else within       # loops need a trace
        return call

    def _variables(self, public: str) -> tuple[str]:
        return ({"ppf": "q", "isf": "q", "interval": "confidence"}.get(public, self.variable),)

    def stats(self, *args: Any, moments: str = "mv", **kwargs: Any) -> Any:
        """Equivalent of `scipy.stats` distributions' `stats`: the mean ("m"), the variance ("v"), and of many distributions the skewness
        ("s") and the excess kurtosis ("k")."""
        if (theirs := plain_function(self.name, "stats", args, kwargs)) is not None:
            return theirs(*args, moments=moments, **kwargs)
        known = {"m": self.mean, "v": self.var, "s": self._skewness, "k": self._kurtosis}
        if not known.keys() >= set(moments):
            raise UnsupportedError(f"{self.name}.stats(moments={moments!r})", find_user_location(), hint="there are 'm', 'v', 's' and 'k'")
        results = tuple(known[letter](*args, **kwargs) for letter in known if letter in moments)
        return results if len(results) > 1 else results[0]

    def moment(self, order: int, *args: Any, **kwargs: Any) -> Any:
        """Equivalent of `scipy.stats` distributions' `moment`, for orders 0 to 4 (3 and 4 as `stats`)."""
        if (theirs := plain_function(self.name, "moment", args, kwargs)) is not None:
            return theirs(order, *args, **kwargs)
        if order not in (0, 1, 2, 3, 4):
            raise UnsupportedError(f"{self.name}.moment of order {order}", find_user_location(), hint="there are the orders 0 to 4")
        mean = self.mean(*args, **kwargs)
        if order < 2:
            return mean if order else np.ones_like(mean)
        variance = self.var(*args, **kwargs)
        if order == 2:
            return variance + np.square(mean)
        third = self._skewness(*args, **kwargs) * variance ** 1.5
        if order == 3:
            return third + 3.0 * mean * variance + mean ** 3
        fourth = (self._kurtosis(*args, **kwargs) + 3.0) * np.square(variance)
        return fourth + 4.0 * mean * third + 6.0 * np.square(mean) * variance + mean ** 4

    def nnlf(self, theta: Any, x: Any) -> Any:
        """Equivalent of `scipy.stats` distributions' `nnlf`: minus the sum of log densities of samples, by parameters in a row."""
        if (theirs := plain_function(self.name, "nnlf", (theta, x), {})) is not None:
            return theirs(theta, x)
        return -np.sum(getattr(self, self.of_variable[1])(x, *theta))

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        return Frozen(self, args, kwargs)

    freeze = __call__

    def held(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Attribute of a distribution that holds these parameters; None if there is none of this name."""
        return None

    def __getattr__(self, name: str) -> Any:
        """Return what else SciPy's distribution has under this name, for plain arrays."""
        return of_scipy(self.__dict__.get("name", ""), name)

    def __repr__(self) -> str:
        return f"<adjit.scipy.stats.{self.name}>"

    # -- what a distribution states, of the standard variable. `_sf`, `_logcdf`, `_logsf` and `_isf` where they are more exact than what
    # follows from the others.

    def _public_median(self, *parameters: Any) -> Any:
        return self._public_ppf(FUNCTIONS["astype"](as_traced(0.5), parameters[0].dtype), *parameters)

    def _public_skewness(self, *parameters: Any) -> Any:
        return self._of_shape(0, parameters)

    def _public_kurtosis(self, *parameters: Any) -> Any:
        return self._of_shape(1, parameters)

    def _of_shape(self, number: int, parameters: tuple[Any, ...]) -> Any:
        if self.name not in SHAPES:
            raise self._not_closed("stats")
        shapes, (loc, *scale) = parameters[:len(self.shapes)], parameters[len(self.shapes):]
        good = self._valid(*shapes) & np.True_ & (loc == loc) & (scale[0] > 0 if scale else np.True_)
        return np.where(good, SHAPES[self.name](*shapes)[number], math.nan)

    def _public_interval(self, confidence: Any, *parameters: Any) -> tuple[Any, Any]:
        return self._public_ppf((1.0 - confidence) / 2.0, *parameters), self._public_ppf((1.0 + confidence) / 2.0, *parameters)

    def _public_support(self, *parameters: Any) -> tuple[Any, Any]:
        shapes, (loc, *scale) = parameters[:len(self.shapes)], parameters[len(self.shapes):]
        good = self._valid(*shapes) & np.True_ & (scale[0] > 0 if scale else np.True_)
        low, high = self._support(*shapes)
        factor = scale[0] if scale else 1.0
        return np.where(good, low * factor + loc, math.nan), np.where(good, high * factor + loc, math.nan)

    def _valid(self, *shapes: Any) -> Any:
        """True where the shape parameters are good; as in SciPy, positive ones by default."""
        good: Any = True
        for shape in shapes:
            good = good & (shape > 0)
        return good

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return -math.inf, math.inf

    def _cdf(self, x: Any, *shapes: Any) -> Any:
        raise self._not_closed("cdf")

    def _sf(self, x: Any, *shapes: Any) -> Any:
        return 1.0 - self._cdf(x, *shapes)

    def _logcdf(self, x: Any, *shapes: Any) -> Any:
        return np.log(self._cdf(x, *shapes))

    def _logsf(self, x: Any, *shapes: Any) -> Any:
        return np.log(self._sf(x, *shapes))

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        raise self._not_closed("ppf")

    def _isf(self, q: Any, *shapes: Any) -> Any:
        return self._ppf(1.0 - q, *shapes)

    def _mean(self, *shapes: Any) -> Any:
        raise self._not_closed("mean")

    def _var(self, *shapes: Any) -> Any:
        raise self._not_closed("var")

    def _entropy(self, *shapes: Any) -> Any:
        raise self._not_closed("entropy")

    def _not_closed(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name}.{what} has no closed form here", find_user_location(),
                                hint=f"call scipy.stats.{self.name}.{what} on plain numbers outside of the compiled function")


class Frozen:
    """Distribution with its parameters: `norm(loc=1.0).logpdf(x)` is `norm.logpdf(x, loc=1.0)`."""

    def __init__(self, distribution: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.dist, self.args, self.kwds = distribution, args, kwargs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):        # copies and pickles ask before there is anything
            raise AttributeError(name)
        distribution, args, kwds = self.dist, self.args, self.kwds
        if name == "stats":
            return lambda moments="mv": distribution.stats(*args, moments=moments, **kwds)
        if name in distribution.of_parameters:
            return functools.partial(getattr(distribution, name), *args, **kwds)
        if name in (*distribution.of_variable, *distribution.of_number):
            function = getattr(distribution, name)
            return lambda *variable, **given: function(*variable, *args, **given, **kwds)
        if (held := distribution.held(name, args, kwds)) is not None:
            return held
        if find_wrapper(args, kwds) is None and not any(map(contains_traced, (*args, *kwds.values()))):
            return of_scipy(distribution.name, name, args, kwds)
        found = of_scipy(distribution.name, name)
        if not callable(found):
            raise no_rule(f"scipy.stats.{distribution.name}(...).{name}", NOT_YET)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise no_rule(f"scipy.stats.{distribution.name}.{name}", METHODS.get(name, NOT_YET))

        return refuse

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.dist.of_variable, *self.dist.of_parameters, *self.dist.of_number, "stats"})


def of_scipy(distribution: str, name: str, args: tuple[Any, ...] | None = None, kwds: dict[str, Any] | None = None) -> Any:
    """Attribute of SciPy's distribution, or of the one with these parameters, that ours does not have: its methods take plain arrays only.
    Raises `AttributeError` if there is none, or no SciPy."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        theirs = getattr(scipys("stats"), distribution)
    except UnsupportedError:
        raise AttributeError(f"adjit.scipy.stats.{distribution} has no attribute {name!r} without SciPy", name=name, obj=None) from None
    if args is not None:
        theirs = theirs(*args, **(kwds or {}))
    if not hasattr(theirs, name):
        there = sorted(each for each in dir(theirs) if not each.startswith("_"))
        raise AttributeError(f"scipy.stats.{distribution} has no attribute {name!r}{nearest(name, there)}", name=name, obj=None)
    return attribute_of(theirs, name, f"scipy.stats.{distribution}.{name}")


@functools.cache
def scipys_function(name: str, public: str) -> Callable[..., Any] | None:
    """SciPy's function of a distribution, for plain arrays outside of a trace; None without SciPy."""
    try:
        return getattr(getattr(scipys("stats"), name, None), public, None)
    except UnsupportedError:
        return None


def plain_function(name: str, public: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """SciPy's function of a distribution, if it is to be called with these arguments: plain ones outside of a trace, of float64."""
    if not is_plain(*args, **kwargs) or any(map(_is_of_another_precision, (*args, *kwargs.values()))):
        return None
    return scipys_function(name, public)


def _is_of_another_precision(x: Any) -> bool:
    """True for arguments that decide on another result than float64, and for traced ones, which have escaped from their trace."""
    dtype = getattr(x, "dtype", None)
    return contains_traced(x) or (dtype is not None and is_float(dtype) and dtype != F64)


def _floats(values: list[Any]) -> list[Any]:
    """The values as arrays of their common float dtype."""
    dtype = common_dtype([as_operand(value) for value in values])
    if not is_float(dtype):
        dtype = F64
    return [FUNCTIONS["astype"](as_traced(value), dtype) for value in values]


def chosen(*cases: tuple[Any, Any], otherwise: Any) -> Any:
    """The value of the first case whose condition holds."""
    for condition, value in reversed(cases):
        otherwise = np.where(condition, value, otherwise)
    return otherwise


def around_zero(x: Any, middle: Any, slope: Any, value: Callable[[Any], Any]) -> Any:
    """The function `value`, whose formula has no derivative at 0: there it is `middle`, with this slope, which may be infinite."""
    zero, steep = x == 0, np.isinf(slope)
    there = middle + np.where(steep, np.cbrt(x), np.where(steep, 0.0, slope) * x)
    return np.where(zero, there, value(np.where(zero, 1.0, x)))


class Continuous(Distribution):
    """Continuous distribution. `_logpdf` (or `_pdf`), `_cdf` and `_ppf` are those of the standard variable, within the support."""

    of_variable = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")

    def _pdf(self, x: Any, *shapes: Any) -> Any:
        return np.exp(self._logpdf(x, *shapes))

    def _logpdf(self, x: Any, *shapes: Any) -> Any:
        return np.log(self._pdf(x, *shapes))

    def _public_logpdf(self, x: Any, *parameters: Any) -> Any:
        return self._density(x, parameters, lambda y, shapes, scale: self._logpdf(y, *shapes) - np.log(scale), -math.inf)

    def _public_pdf(self, x: Any, *parameters: Any) -> Any:
        return self._density(x, parameters, lambda y, shapes, scale: self._pdf(y, *shapes) / scale, 0.0)

    def _density(self, x: Any, parameters: tuple[Any, ...], value: Callable[..., Any], outside: float) -> Any:
        *shapes, loc, scale = parameters
        y = (x - loc) / scale
        low, high = self._support(*shapes)
        within = (y >= low) & (y <= high) & np.isfinite(y)
        good = self._valid(*shapes) & (scale > 0)
        return chosen((~good | np.isnan(x), math.nan), (within, value(y, shapes, scale)), otherwise=outside)

    def _public_cdf(self, x: Any, *parameters: Any) -> Any:
        return self._share(x, parameters, self._cdf, 0.0, 1.0)

    def _public_logcdf(self, x: Any, *parameters: Any) -> Any:
        return self._share(x, parameters, self._logcdf, -math.inf, 0.0)

    def _public_sf(self, x: Any, *parameters: Any) -> Any:
        return self._share(x, parameters, self._sf, 1.0, 0.0)

    def _public_logsf(self, x: Any, *parameters: Any) -> Any:
        return self._share(x, parameters, self._logsf, 0.0, -math.inf)

    def _share(self, x: Any, parameters: tuple[Any, ...], value: Callable[..., Any], below: float, above: float) -> Any:
        *shapes, loc, scale = parameters
        y = (x - loc) / scale
        low, high = self._support(*shapes)
        good = self._valid(*shapes) & (scale > 0)
        return chosen((~good | np.isnan(x), math.nan), (y <= low, below), (y >= high, above), otherwise=value(y, *shapes))

    def _public_ppf(self, q: Any, *parameters: Any) -> Any:
        return self._quantile(q, parameters, self._ppf, 0.0, 1.0)

    def _public_isf(self, q: Any, *parameters: Any) -> Any:
        return self._quantile(q, parameters, self._isf, 1.0, 0.0)

    def _quantile(self, q: Any, parameters: tuple[Any, ...], value: Callable[..., Any], at_low: float, at_high: float) -> Any:
        *shapes, loc, scale = parameters
        low, high = self._support(*shapes)
        good = self._valid(*shapes) & (scale > 0) & (q >= 0) & (q <= 1)
        y = chosen((q == at_low, low), (q == at_high, high), otherwise=value(q, *shapes))
        return np.where(good, y * scale + loc, math.nan)

    def _public_mean(self, *parameters: Any) -> Any:
        *shapes, loc, scale = parameters
        return self._checked(parameters, self._mean(*shapes) * scale + loc)

    def _public_var(self, *parameters: Any) -> Any:
        *shapes, _, scale = parameters
        return self._checked(parameters, self._var(*shapes) * np.square(scale))

    def _public_std(self, *parameters: Any) -> Any:
        return np.sqrt(self._public_var(*parameters))

    def _public_entropy(self, *parameters: Any) -> Any:
        *shapes, _, scale = parameters
        return self._checked(parameters, self._entropy(*shapes) + np.log(scale))

    def _checked(self, parameters: tuple[Any, ...], value: Any) -> Any:
        *shapes, loc, scale = parameters
        return np.where(self._valid(*shapes) & (scale > 0) & (loc == loc), value, math.nan)


class Solved(Continuous):
    """Distribution whose quantiles are found between the ends of `_bracket`, which are finite."""

    with_loops: tuple[str, ...] = ("ppf", "isf", "median", "interval")

    def _bracket(self, q: Any, *shapes: Any) -> tuple[Any, Any]:
        return self._support(*shapes)

    def _ppf(self, q: Any, *shapes: Any) -> Any:
        return quantile(self, q, *shapes)


class Symmetric(Continuous):
    """Distribution that is symmetric around 0."""

    def _sf(self, x: Any, *shapes: Any) -> Any:
        return self._cdf(-x, *shapes)

    def _logsf(self, x: Any, *shapes: Any) -> Any:
        return self._logcdf(-x, *shapes)

    def _isf(self, q: Any, *shapes: Any) -> Any:
        return -self._ppf(q, *shapes)

    def _mean(self, *shapes: Any) -> Any:
        return 0.0


class Positive(Continuous):
    """Distribution on positive numbers, 0 included where its density is finite there."""

    def _support(self, *shapes: Any) -> tuple[Any, Any]:
        return 0.0, math.inf


class Discrete(Distribution):
    """Distribution on whole numbers; `_logpmf`, `_cdf` (of whole numbers within the support) and `_ppf` are stated."""

    of_variable = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
    placed = ("loc",)
    variable = "k"

    def _logpmf(self, k: Any, *shapes: Any) -> Any:
        return np.log(self._pmf(k, *shapes))

    def _pmf(self, k: Any, *shapes: Any) -> Any:
        return np.exp(self._logpmf(k, *shapes))

    def _public_logpmf(self, k: Any, *parameters: Any) -> Any:
        return self._mass(k, parameters, self._logpmf, -math.inf)

    def _public_pmf(self, k: Any, *parameters: Any) -> Any:
        return self._mass(k, parameters, self._pmf, 0.0)

    def _mass(self, k: Any, parameters: tuple[Any, ...], value: Callable[..., Any], outside: float) -> Any:
        *shapes, loc = parameters
        y = k - loc
        low, high = self._support(*shapes)
        within = (y >= low) & (y <= high) & (np.floor(y) == y) & np.isfinite(y)
        return chosen((~self._good(shapes) | np.isnan(k), math.nan), (within, value(y, *shapes)), otherwise=outside)

    def _good(self, shapes: list[Any]) -> Any:
        return self._valid(*shapes) & np.True_

    def _public_cdf(self, k: Any, *parameters: Any) -> Any:
        return self._share(k, parameters, self._cdf, 0.0, 1.0)

    def _public_logcdf(self, k: Any, *parameters: Any) -> Any:
        return self._share(k, parameters, self._logcdf, -math.inf, 0.0)

    def _public_sf(self, k: Any, *parameters: Any) -> Any:
        return self._share(k, parameters, self._sf, 1.0, 0.0)

    def _public_logsf(self, k: Any, *parameters: Any) -> Any:
        return self._share(k, parameters, self._logsf, 0.0, -math.inf)

    def _share(self, k: Any, parameters: tuple[Any, ...], value: Callable[..., Any], below: float, above: float) -> Any:
        *shapes, loc = parameters
        y = k - loc
        low, high = self._support(*shapes)
        return chosen((~self._good(shapes) | np.isnan(k), math.nan), (y < low, below), (y >= high, above),
                      otherwise=value(np.floor(y), *shapes))

    def _public_ppf(self, q: Any, *parameters: Any) -> Any:
        return self._quantile(q, parameters, self._ppf, 0.0, 1.0)

    def _public_isf(self, q: Any, *parameters: Any) -> Any:
        return self._quantile(q, parameters, self._isf, 1.0, 0.0)

    def _quantile(self, q: Any, parameters: tuple[Any, ...], value: Callable[..., Any], at_low: float, at_high: float) -> Any:
        *shapes, loc = parameters
        low, high = self._support(*shapes)
        good = self._good(shapes) & (q >= 0) & (q <= 1)
        y = chosen((q == at_low, low - 1.0), (q == at_high, high), otherwise=stop_gradient(value(q, *shapes)))
        return np.where(good, y + loc, math.nan)

    def _public_mean(self, *parameters: Any) -> Any:
        *shapes, loc = parameters
        return np.where(self._good(shapes), self._mean(*shapes) + loc, math.nan)

    def _public_var(self, *parameters: Any) -> Any:
        *shapes, loc = parameters
        return np.where(self._good(shapes) & (loc == loc), self._var(*shapes), math.nan)

    def _public_std(self, *parameters: Any) -> Any:
        return np.sqrt(self._public_var(*parameters))

    def _public_entropy(self, *parameters: Any) -> Any:
        *shapes, loc = parameters
        return np.where(self._good(shapes) & (loc == loc), self._entropy(*shapes), math.nan)

    def _found(self, q: Any, guess: Any, shapes: tuple[Any, ...]) -> Any:
        """The smallest whole number whose share is at least q, next to `guess`, where the share would be q exactly."""
        low, _ = self._support(*shapes)
        above = np.ceil(guess)
        below = np.maximum(above - 1.0, low)
        return np.where(self._cdf(below, *shapes) >= q, below, above)
