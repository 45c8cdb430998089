"""Functions by SciPy's names, for traced arrays, tensors and plain arrays.

Ufuncs of `scipy.special` work on traced arrays and tensors as they are; other functions of SciPy make ordinary arrays, so they are here,
in modules with SciPy's names. While a function is traced, SciPy's own functions hand traced arguments over to these
(`tracer.scipy_functions`); elsewhere `import adjit.scipy.stats as stats`, and the rest of the line stays. Which names there are:
`docs/scipy.md`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjit.ir.spelling import nearest as _nearest

if TYPE_CHECKING:
    from adjit.scipy import fft, integrate, interpolate, linalg, ndimage, optimize, signal, sparse, spatial, special, stats

__all__ = ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special", "stats"]


def __getattr__(name: str) -> Any:
    """Import a module when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'adjit.scipy' has no attribute {name!r}{_nearest(name, __all__)}", name=name, obj=None)
    return import_module(f"adjit.scipy.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
