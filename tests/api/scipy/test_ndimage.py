"""`adjit.scipy.ndimage`: SciPy's values and dtypes in all modes, derivatives of two orders, tensors, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_float32, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import ShapeError, UnsupportedError

theirs = pytest.importorskip("scipy.ndimage")
from adjit.scipy import ndimage  # noqa: E402

RANDOM = np.random.default_rng(6)
LINE, IMAGE, CUBE = RANDOM.normal(size=9), RANDOM.normal(size=(5, 6)), RANDOM.normal(size=(3, 4, 5))
ODD, EVEN = RANDOM.normal(size=3), RANDOM.normal(size=4)
KERNEL, WIDE = RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(4, 3))
WHOLE = RANDOM.integers(0, 200, (5, 6))
PLACES = RANDOM.uniform(-9, 14, (2, 3, 7))
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
OTHER_NAMES = ("grid-mirror", "grid-constant", "grid-wrap")

FILTERS: dict[str, Case] = {
    **{f"correlate {mode}": (lambda s, mode=mode: lambda x, y, k, w, o, e: [
        s.correlate(x, k, mode=mode, cval=0.5), s.convolve(x, w, mode=mode, cval=0.5), s.correlate1d(x, o, 0, mode=mode, cval=0.5),
        s.convolve1d(x, e, mode=mode, cval=0.5), s.convolve(y, o, mode=mode, origin=1), s.correlate1d(y, e, mode=mode, origin=-1)],
        (IMAGE, LINE, KERNEL, WIDE, ODD, EVEN)) for mode in (*MODES, *OTHER_NAMES)},
    "correlate along axes": (lambda s: lambda x, k, o: [s.correlate(x, k, axes=(0, 2)), s.convolve(x, k, axes=(2, 1), origin=(0, -1)),
                                                        s.correlate(x, o, axes=(2,)), s.correlate(x, k[:, :, None])], (CUBE, KERNEL, ODD)),
    "constant of zeros": (lambda s: lambda x, o, e: [s.correlate1d(x, o, mode="constant"), s.convolve1d(x, e, 0, mode="constant")],
                          (IMAGE, ODD, EVEN)),
    **{f"gaussian {mode}": (lambda s, mode=mode: lambda x, y: [
        s.gaussian_filter(x, 1.0, mode=mode, cval=1.0), s.gaussian_filter(x, (0.5, 0), (1, 0), mode=mode),
        s.gaussian_filter1d(y, 0.8, order=3, mode=mode), s.gaussian_laplace(x, 0.7, mode=mode), s.gaussian_filter(y, 1.0, radius=2)],
        (IMAGE, LINE)) for mode in MODES},
    "gaussian gradient": (lambda s: lambda x: [s.gaussian_gradient_magnitude(x, 1.0), s.gaussian_gradient_magnitude(x, 0.5, axes=1),
                                               s.gaussian_laplace(x, 0.5, axes=(0,))], (IMAGE,)),
    "uniform": (lambda s: lambda x, y: [s.uniform_filter(x, 3), s.uniform_filter(x, (2, 5), mode=["nearest", "wrap"], origin=(0, 1)),
                                        s.uniform_filter1d(y, 4, mode="mirror"), s.uniform_filter(x, 2, axes=(1,))], (IMAGE, LINE)),
    "edges": (lambda s: lambda x, c: [s.sobel(x), s.sobel(x, 0, mode="constant"), s.prewitt(c, 1, mode="wrap"), s.laplace(x),
                                      s.laplace(c, mode=["wrap", "nearest", "mirror"]), s.laplace(x, axes=(1,))], (IMAGE, CUBE)),
    **{f"extremes {mode}": (lambda s, mode=mode: lambda x, y: [
        s.maximum_filter(x, 3, mode=mode), s.minimum_filter(x, (2, 4), mode=mode, cval=0.1), s.maximum_filter1d(y, 5, mode=mode),
        s.minimum_filter1d(x, 4, 0, mode=mode, origin=1), s.maximum_filter(x, footprint=CROSS, mode=mode),
        s.minimum_filter(x, footprint=CROSS[:2], mode=mode, origin=(0, 1)), s.maximum_filter(y, 6, axes=0)], (IMAGE, LINE))
       for mode in MODES},
    **{f"ranks {mode}": (lambda s, mode=mode: lambda x, y: [
        s.median_filter(x, 3, mode=mode), s.median_filter(y, 4, mode=mode), s.rank_filter(x, -2, (1, 3), mode=mode),
        s.percentile_filter(x, 30, footprint=CROSS, mode=mode, cval=0.1), s.percentile_filter(y, -10, 3, mode=mode)], (IMAGE, LINE))
       for mode in MODES},
}
SAMPLING: dict[str, Case] = {
    **{f"map_coordinates {mode}": (lambda s, mode=mode: lambda x, y, c: [
        s.map_coordinates(x, c, order=1, mode=mode, cval=0.3), s.map_coordinates(y, 2 * c[:1], order=1, mode=mode)],
        (IMAGE, LINE, PLACES)) for mode in (*MODES, *OTHER_NAMES)},
    **{f"shift {mode}": (lambda s, mode=mode: lambda x, y: [
        s.shift(x, 1.3, order=1, mode=mode, cval=0.3), s.shift(x, (-7.2, 0.4), order=1, mode=mode), s.shift(y, 2, order=1, mode=mode)],
        (IMAGE, LINE)) for mode in (*MODES, *OTHER_NAMES)},
    "zoom": (lambda s: lambda x, y: [s.zoom(x, 1.7, order=1), s.zoom(x, (0.5, 2), order=1, mode="nearest"), s.zoom(y, 0.4, order=1),
                                     s.zoom(x, 1.5, order=1, grid_mode=True, mode="grid-constant"), s.zoom(x, 1, order=1),
                                     s.zoom(y, 2.5, order=1, grid_mode=True, mode="grid-wrap")], (IMAGE, LINE)),
    **{f"affine {mode}": (lambda s, mode=mode: lambda x, c, m: [
        s.affine_transform(x, m[:2, :2], (0.4, -1.1), order=1, mode=mode, cval=0.3), s.affine_transform(x, m[:2], order=1, mode=mode),
        s.affine_transform(c, m[:3, :3], order=1, mode=mode, output_shape=(2, 3, 4)),
        s.affine_transform(x, m[0, :2] + 1.5, 0.3, order=1, mode=mode, output_shape=(3, 4))],
        (IMAGE, CUBE, 0.5 * RANDOM.normal(size=(3, 3)))) for mode in MODES},
    "rotate": (lambda s: lambda x, c: [s.rotate(x, 30, order=1, reshape=False), s.rotate(x, 30, order=1), s.rotate(x, -90, order=1),
                                       s.rotate(c, 20, (0, 2), order=1, mode="nearest"), s.rotate(c, 200, (2, 1), order=1)], (IMAGE, CUBE)),
}
BOARD = RANDOM.normal(size=(13, 12))
SPLINES: dict[str, Case] = {
    **{f"splines {mode}": (lambda s, mode=mode, order=order: lambda x, c, m: [
        s.map_coordinates(x, c, order=order, mode=mode, cval=0.3), s.map_coordinates(x, c, order=3, mode=mode, prefilter=False),
        s.affine_transform(x, m + np.eye(2), (0.4, -1.1), order=order, mode=mode, output_shape=(3, 4)),
        s.shift(x, (-15.2, 0.4), mode=mode), s.zoom(x, (1.2, 0.3), mode=mode, grid_mode="grid" in mode), s.spline_filter(x, mode=mode)],
        (BOARD, 2.2 * PLACES, 0.5 * RANDOM.normal(size=(2, 2))))
       for order, mode in zip((2, 3, 4, 5, 2, 3, 4, 5), (*MODES, *OTHER_NAMES), strict=True)},
    "splines of cubes": (lambda s: lambda c: [s.rotate(c, 20, (0, 2)), s.spline_filter1d(c, 4, 1), s.zoom(c, 2, order=5)], (CUBE,)),
}
EXACT: dict[str, Case] = {
    "splines of complex numbers": (lambda s: lambda x: [s.shift(x, 0.5), s.spline_filter(x), s.spline_filter1d(x, mode="grid-wrap")],
                                   (LINE + 1j * LINE[::-1],)),
    "splines of short lines": (lambda s: lambda x, c: [s.map_coordinates(x[:n], c[:1], order=5, mode=mode)
                                                       for n in (1, 2, 3) for mode in ("mirror", "grid-wrap", "constant")], (LINE, PLACES)),
    **{f"nearest element, {mode}": (lambda s, mode=mode: lambda x, y, c: [
        s.map_coordinates(x, c, order=0, mode=mode, cval=0.3), s.shift(x, (1.6, -8.2), order=0, mode=mode),
        s.zoom(y, 1.7, order=0, mode=mode),
        s.affine_transform(x, np.array([[0.9, 0.2], [-0.3, 1.1]]), order=0, mode=mode), s.shift(y, -11.0, order=0, mode=mode),
        s.rotate(x, 45, order=0, mode=mode)], (IMAGE, LINE, PLACES)) for mode in (*MODES, *OTHER_NAMES)},
    "one element": (lambda s: lambda x, c: [s.map_coordinates(x, c, order=1, mode=mode) for mode in MODES], (LINE[:1], PLACES[:1])),
    "whole numbers": (lambda s: lambda x: [s.uniform_filter(x, 3), s.gaussian_filter(x, 1.0), s.sobel(x), s.shift(x, 0.4, order=1),
                                           s.zoom(x, 1.5, order=1), s.median_filter(x, 3), s.maximum_filter(x, 3),
                                           s.correlate(x, np.array([[1, -2]])), s.laplace(x)], (WHOLE,)),
    "short whole numbers": (lambda s: lambda x: [s.uniform_filter(x, 3), s.gaussian_filter(x, 1.0), s.minimum_filter(x, 2),
                                                 s.map_coordinates(x, PLACES, order=1)], (WHOLE.astype(np.uint8),)),
    "complex numbers": (lambda s: lambda x, o: [s.correlate1d(x, o), s.convolve1d(x, o[::-1]), s.convolve(x, o), s.correlate(x, o.real),
                                                s.uniform_filter(x, 3), s.shift(x, 0.5, order=1)],
                        (LINE + 1j * LINE[::-1], ODD + 2j * ODD)),
    "output": (lambda s: lambda x: [s.gaussian_filter(x, 1.0, output=np.float32), s.correlate1d(x, ODD, output=int),
                                    s.maximum_filter(x, 3, output="float32"), s.shift(x, 0.4, output=np.float32, order=1)], (IMAGE,)),
    "empty": (lambda s: lambda x: [s.uniform_filter(x, 3), s.correlate1d(x, ODD)], (np.zeros((0, 3)),)),
    "strided": (lambda s: lambda x: [s.gaussian_filter(x.T[::-1], 1.0), s.maximum_filter(x[::2, ::-1], 2)], (IMAGE,)),
}
CASES = FILTERS | SAMPLING | SPLINES


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_values(backend: str, exhaustive: bool) -> None:
    chosen = some(CASES | EXACT, exhaustive, 0, 2 if backend == "interpret" else 8)
    for_each(chosen, lambda *case: check_values(case, ndimage, theirs, backend), share=2)


def test_mapped(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 3), lambda *case: check_mapped(case, ndimage), share=2)


def test_derivatives(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1), lambda *case: check_derivatives(case, ndimage), share=2)


def test_tensors(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive) if exhaustive else {name: CASES[name] for name in ("correlate wrap", "edges", "zoom")},
             lambda *case: check_tensors(case, ndimage, theirs))


def test_float32() -> None:
    for_each({name: CASES[name] for name in ("gaussian reflect", "affine nearest", "extremes wrap")},
             lambda *case: check_float32(case, ndimage, theirs))


def test_traced_scales_and_angles_have_derivatives() -> None:
    for function, at in ((lambda s: np.sum(ndimage.gaussian_filter(IMAGE, s, radius=3, order=1) ** 2), 0.9),
                         (lambda a: np.sum(ndimage.rotate(IMAGE, a, order=1, reshape=False, mode="nearest") ** 2), 31.0),
                         (lambda s: np.sum(ndimage.shift(IMAGE, s, order=1, mode="mirror") ** 2), 0.3)):
        found = aj.compile(aj.grad(function), backend="interpret")(at)
        assert found == pytest.approx((function(at + 1e-6) - function(at - 1e-6)) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("mode", ["reflect", "nearest", "mirror", "grid-wrap"])
def test_splines_go_through_the_elements(mode: str) -> None:
    """Also of short lines that are reflected, where SciPy's do so to a few digits only."""
    for size, order in ((2, 5), (3, 4), (5, 3)):
        places = np.arange(float(size))[None]
        found = aj.compile(lambda x, c=places, k=order: ndimage.map_coordinates(x, c, order=k, mode=mode), backend="interpret")(LINE[:size])
        np.testing.assert_allclose(found, LINE[:size], atol=2e-6 if mode == "nearest" else 1e-13)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda x: ndimage.shift(x, 0.5, order=6), RuntimeError, "spline order not supported"),
    (lambda x: ndimage.gaussian_filter(x, x[0, 0]), UnsupportedError, "radius="),
    (lambda x: ndimage.rotate(x, x[0, 0], order=1), UnsupportedError, "reshape=False"),
    (lambda x: ndimage.zoom(x, x[0, 0], order=1), UnsupportedError, "map_coordinates"),
    (lambda x: ndimage.uniform_filter(x, 3, output=np.zeros((3, 3))), UnsupportedError, "output= is an array"),
    (lambda x: ndimage.correlate1d(x, [1.0, 2.0], origin=2), ValueError, "Invalid origin"),
    (lambda x: ndimage.correlate1d(x, [1.0, 2.0], mode="reflected"), ValueError, "boundary mode"),
    (lambda x: ndimage.gaussian_filter(x, [1.0, 2.0, 3.0]), ShapeError, "3 values for 2 axes"),
    (lambda x: ndimage.label(x), UnsupportedError, r"scipy\.ndimage\.label has no rule"),
])
def test_what_does_not_fit(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(np.eye(3))
