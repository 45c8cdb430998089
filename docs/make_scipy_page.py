"""Writes `docs/scipy.md`, what of SciPy has a rule: `python docs/make_scipy_page.py`.

The names are those in `__all__` of SciPy's modules; reasons are in `api/scipy/reasons.py`, derivatives in
`ir/ops/external_functions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import scipy

from adjit.ir.ops.external_functions import FUNCTIONS
from adjit.ir.ops.external_table import Derivative
from adjit.scipy.reasons import REASONS
from adjit.tracer.functions.external import NAMES
from adjit.tracer.registry import special_function

PAGE = Path(__file__).with_name("scipy.md")
MODULES = ("special", "stats", "linalg", "fft", "integrate", "interpolate", "optimize", "signal", "ndimage", "spatial", "spatial.distance")

HEAD = f"""\
# SciPy

`pip install 'adjit[scipy]'`: SciPy is needed for the functions that it computes itself, and for plain arrays. Native programs call its
functions of C.

- In traced functions (`aj.compile`, `aj.grad`, ...) `scipy.signal.lfilter(...)` and its kin run as they are: while a function is traced,
  SciPy's functions hand traced arguments to those of `adjit.scipy`, which have derivatives. So do distributions (`scipy.stats.norm.logpdf`,
  `norm(loc)`), interpolators made outside or inside (`CubicSpline`, `interp1d`, ...), sparse arrays (below), `KDTree.query` (distances
  have derivatives, indices are SciPy's) and `scipy.spatial.transform.Rotation` (of vectors, angles and quaternions; of SciPy 1.17 on).
  What these objects hold is compared at each call.
- Sparse arrays (csr, csc, coo, dia; bsr of plain elements) may have traced elements in known places:
  `coo_matrix((values, (rows, columns)))`, `csr_array((data, indices, indptr))`, `diags`, `kron`, `bmat`, `hstack`, `vstack`, `block_diag`,
  `tril`. They have sums, products (with vectors, matrices and sparse arrays, of which one may be plain), slices, `multiply`, `diagonal`,
  formats and `toarray()`, and are results as SciPy's classes. `spsolve`, `splu(A).solve`, `cg`, `gmres` and kin call SciPy when the
  program comes to them, with derivatives in elements and right-hand sides. Traced places, `todense()`, `max`, eigenvalues and graphs
  are refused.
- Eager tensors, and code that is not traced, call the modules of `adjit.scipy`: `import adjit.scipy.signal as signal`, and the rest of the
  line stays.
- Plain arrays outside of a trace get SciPy's own results.
- Names without a rule are SciPy's own, for plain arrays; with traced ones they raise `UnsupportedError`, which says why.
- What SciPy checks in values (knots in ascending order, `bounds_error=True`, a singular matrix) is not checked in traced ones: the result
  is NaN or infinite, or the docstring says what it is.

This page is made by `docs/make_scipy_page.py` from the names of SciPy {scipy.__version__}; a test keeps it up to date.
"""

NOTES = {
    "linalg": "Signs and phases of vectors are those of `numpy.linalg`. `eig(a, b)` is that of `b ** -1 @ a`, in its order, and `b` must\n"
              "not be singular; left vectors have a largest component that is real and positive. `eigh(subset_by_value=...)` is refused\n"
              "with traced arrays.",
    "interpolate": "`make_interp_spline`, `splrep` and kin need known places `x` (and knots `t`); derivatives go to `y`. `CubicSpline`\n"
                   "takes traced ones. Where values decide on knots or on the smoothness (`s > 0`, `lam=None`), traced ones are refused.",
    "ndimage": """\
Splines of the modes `reflect` and `grid-mirror` go through the elements exactly; SciPy's are off by 2e-7 (order 3) to 7e-5 (order 5)
where an axis has 5 elements, and by rounding from 12 to 20 on. Gaussian filters with a traced `sigma` need `radius=`, the number of
elements to both sides; or name the argument in `static=` of `aj.compile`, which makes a program for each value.""",
}
"""What a module's functions ask of traced arrays."""


def names(module: str) -> list[str]:
    """Functions and distributions of a module, in order; no exceptions, classes of objects with a state, or submodules."""
    theirs = import_module(f"scipy.{module}")
    return sorted(name for name in theirs.__all__ if not isinstance(thing := getattr(theirs, name, None), ModuleType) and
                  (not isinstance(thing, type) or name in import_module(f"adjit.scipy.{module}").__all__))


def has_rule(module: str, name: str) -> bool:
    if name in import_module(f"adjit.scipy.{module}").__all__:
        return True
    thing: Any = getattr(import_module(f"scipy.{module}"), name)
    return module == "special" and special_function(getattr(thing, "__name__", name)) is not None


def state(module: str, name: str) -> str:
    """"yes", why not, or nothing if that is not known."""
    return "yes" if has_rule(module, name) else REASONS[module].get(name, "")


def unexplained() -> list[str]:
    """Names of the installed SciPy that have neither a rule nor a reason."""
    return [f"{module}.{name}" for module in MODULES for name in names(module) if not state(module, name)]


def superfluous() -> list[str]:
    """Names that have both."""
    return [f"{module}.{name}" for module in MODULES for name in names(module) if has_rule(module, name) and name in REASONS[module]]


def tables(module: str) -> Iterator[str]:
    states = {name: state(module, name) for name in names(module)}
    yes = [f"`{name}`" for name, answer in states.items() if answer == "yes"]
    yield f"*yes* ({len(yes)}): {', '.join(yes)}\n"
    refused: dict[str, list[str]] = {}
    for name, answer in states.items():
        if answer != "yes":
            refused.setdefault(answer, []).append(f"`{name}`")
    if refused:
        yield "| no | because |"
        yield "|---|---|"
        for reason, members in refused.items():
            yield f"| {', '.join(members)} | {reason} |"
        yield ""


def in_words(rule: Derivative) -> str:
    return "yes" if callable(rule) else "0" if rule is None else f"no: {rule}"


def derivatives() -> Iterator[str]:
    yield "### Functions that SciPy computes\n"
    yield "Beside each its derivatives, one for each argument (of the first result)."
    yield "Those in the parameters of incomplete gamma and beta functions, of distribution functions made of them, and of hypergeometric"
    yield "functions are differences of order eight of SciPy's values: within 2e-9 of themselves, and not through results below 1e-290.\n"
    of_complex = sorted(known.name for known in FUNCTIONS.values() if known.of_complex)
    yield f"Complex numbers, with derivatives in them: {', '.join(f'`{name}`' for name in of_complex)}.\n"
    yield "| function | derivatives |"
    yield "|---|---|"
    for name in NAMES:
        known = FUNCTIONS[name]
        rules = known.derivatives[0][:known.arity - known.of_complex]
        yield f"| `{name}` | {', '.join(map(in_words, rules))} |"
    yield ""


def lines() -> Iterator[str]:
    yield HEAD
    for module in MODULES:
        yield f"## scipy.{module}\n"
        if module in NOTES:
            yield f"{NOTES[module]}\n"
        yield from tables(module)
        if module == "special":
            yield from derivatives()


def page() -> str:
    """The text of the page."""
    return "\n".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page())
