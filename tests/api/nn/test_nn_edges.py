"""Functions of `nn` at their edges: nothing in the batch, NaN, arguments that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ArgumentError
from adjit.nn import functional as F
from adjit.nn.functional import interpolation

EMPTY = np.zeros((0, 4, 4, 4), np.float32)


@pytest.mark.parametrize(("name", "options", "shape"), [
    ("interpolate", {"size": (3, 3), "mode": "bilinear"}, (0, 4, 3, 3)), ("adaptive_max_pool2d", {"output_size": 3}, (0, 4, 3, 3)),
    ("max_pool2d", {"kernel_size": 2}, (0, 4, 2, 2)), ("pixel_shuffle", {"upscale_factor": 2}, (0, 1, 8, 8)),
    ("pixel_unshuffle", {"downscale_factor": 2}, (0, 16, 2, 2)), ("channel_shuffle", {"groups": 2}, (0, 4, 4, 4)),
    ("instance_norm", {}, (0, 4, 4, 4)), ("local_response_norm", {"size": 3}, (0, 4, 4, 4)),
    ("grid_sample", {"grid": np.zeros((0, 2, 2, 2), np.float32), "align_corners": False}, (0, 4, 2, 2))], ids=lambda value: str(value)[:20])
def test_nothing_in_the_batch(name: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    result = getattr(F, name)(EMPTY, **options)
    assert (result.shape, result.dtype) == (shape, np.float32)


def test_nan_stays() -> None:
    image = np.array([[[[1.0, np.nan, 3.0, 0.0, 2.0]]]])
    values, indices = F.adaptive_max_pool2d(image, (1, 2), return_indices=True)
    np.testing.assert_array_equal(values, [[[[np.nan, 3.0]]]])
    np.testing.assert_array_equal(indices, [[[[1, 2]]]])
    place = np.array([[[[np.nan, 0.0], [1e30, 0.0]]]])
    np.testing.assert_array_equal(F.grid_sample(np.ones((1, 1, 2, 2)), place, align_corners=False), [[[[np.nan, 0.0]]]])


def test_sampled_channels_of_a_pixel_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the bits of those that are sampled alone, and gradients."""
    draw = np.random.default_rng(0)
    image, places = draw.normal(size=(2, 5, 4, 3)), draw.normal(size=(2, 5, 4, 2))
    places[0, 1, 2, 0], places[1, 2, 0], places[1, 0, 0] = np.nan, np.inf, -np.inf
    gradients = aj.grad(lambda x, y: np.nansum(F.grid_sample(x, y, align_corners=False) ** 2), (0, 1))
    found = []
    for channels in (interpolation.MIN_CHANNELS, 6):
        monkeypatch.setattr(interpolation, "MIN_CHANNELS", channels)
        found.append((F.grid_sample(image, places, align_corners=False), *gradients(image, places)))
        gradients.clear_cache()
    np.testing.assert_array_equal(*[values for values, *_ in found])
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)


def test_bags() -> None:
    """An empty bag gives zeros; offsets begin with 0."""
    weight = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(F.embedding_bag(np.array([2, 1]), weight, np.array([0, 0, 2]), mode="max"), [[0, 0], [4, 5], [0, 0]])
    for offsets in ([1], [0, 5]):
        with pytest.raises(ArgumentError, match="offsets begin with 0, and end at most with 2"):
            F.embedding_bag(np.array([2, 1]), weight, np.array(offsets))


def test_refusals() -> None:
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="var is not negative"):
        F.gaussian_nll_loss(x, x, -x)
    with pytest.raises(IndexError, match="label 3 is out of range"):
        F.multi_margin_loss(x, np.array([0, 3]))
    with pytest.raises(IndexError, match="label 7 is out of range"):
        F.ctc_loss(np.zeros((3, 2, 4)), np.array([1, 7]), [3, 3], [1, 1])
    with pytest.raises(ArgumentError, match="pass num_classes"):
        aj.compile(F.one_hot)(np.array([0, 1]))


def test_classes_follow_from_labels() -> None:
    np.testing.assert_array_equal(F.one_hot(aj.tensor([0, 2])).numpy(), [[1, 0, 0], [0, 0, 1]])


def test_weights_of_losses() -> None:
    """The mean with weights divides by their sum, but for the Huber loss, as in PyTorch."""
    x, y, w = np.array([1.0, 2.0]), np.array([0.0, 4.0]), np.array([1.0, 3.0])
    assert F.mse_loss(x, y, weight=w) == (1.0 + 3.0 * 4.0) / 4.0
    assert F.l1_loss(x, y, weight=w) == (1.0 + 3.0 * 2.0) / 4.0
    assert F.huber_loss(x, y, weight=w) == (0.5 + 3.0 * 1.5) / 2.0
