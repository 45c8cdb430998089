"""Convolutions and pooling as ops: against SciPy, native against the interpreter, and what they need of memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
import scipy
from support.each import for_each
from support.native_steps import TARGET_CASES, LoadedSteps, load_together, run_steps, some
from support.op_cases import check_derivative, gradient_graph, sample_graph

import adjit as aj
from adjit.codegen.llvm.target import TARGETS, Target
from adjit.codegen.native.conv import separable_pooling as overlapping_windows
from adjit.codegen.native.lower_op import lower_op
from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.definition import OpDefinition, Sample
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.convolution import kernel_gradient
from adjit.ir.ops.window_geometry import WindowGeometry
from adjit.ir.types import F32, F64, TensorType

F = aj.nn.functional
PLAIN: dict[str, Any] = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "interior": (0, 0), "dilation": (1, 1), "groups": 1}
HALVES: dict[str, Any] = {"sizes": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), "interior": (0, 0), "dilation": (1, 1)}
SAME = {"low": (1, 1), "high": (1, 1)}
LINE: dict[str, Any] = {"stride": (1,), "interior": (0,), "dilation": (1,)}


def normal(*shape: int, dtype: np.dtype = F64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def native(sample: Sample, definition: OpDefinition, target: Target, one_at_a_time: bool = False) -> np.ndarray:
    op = sample_graph(definition, sample).ops[-1]
    steps = lower_op(op, {}, target)
    (found,) = run_steps(steps, sample.arrays, [op.result.type], op.attrs.get("scratch_bytes", 0), target, one_at_a_time=one_at_a_time)
    return found


def check_native(samples: Mapping[str, tuple[OpDefinition, Sample, float]], target: Target) -> None:
    """Native steps, compiled together, against the meaning of their ops, within a tolerance."""
    lowered = {name: sample_graph(definition, sample).ops[-1] for name, (definition, sample, _) in samples.items()}
    codes = load_together([lower_op(op, {}, target) for op in lowered.values()], target)

    def check(op: Op, code: LoadedSteps, definition: OpDefinition, sample: Sample, tolerance: float) -> None:
        (expected,) = evaluate(definition, sample.arrays, sample.attrs)
        (found,) = run_steps(code, sample.arrays, [op.result.type], op.attrs.get("scratch_bytes", 0), target)
        largest = np.abs(expected).max() if "convolution" in definition.name else 1.0
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * largest)

    for_each(((name, (op, code, *samples[name])) for (name, op), code in zip(lowered.items(), codes, strict=True)), check)


def gradient_sample(x: np.ndarray, w: np.ndarray, attrs: dict[str, Any]) -> Sample:
    """The derivative in the kernels of a convolution of these arrays."""
    ct_type = sample_graph(ops.convolution, Sample((x, w), attrs)).results[0].type
    ct = normal(*ct_type.shape, dtype=x.dtype, seed=3)
    graph = trace_graph("g", [TensorType(x.dtype, x.shape), ct_type], lambda x, ct: [kernel_gradient(x, ct, w.shape[2:], attrs)])
    return Sample((x, ct), graph.ops[-1].attrs)


# -- the meaning

@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_is_scipys_correlation(stride: int) -> None:
    x, w = normal(2, 3, 9, 8), normal(4, 3, 3, 2, seed=1)
    (found,) = evaluate(ops.convolution, [x, w], PLAIN | {"stride": (stride, stride)})
    for n, o in np.ndindex(2, 4):
        whole = sum(scipy.signal.correlate(x[n, c], w[o, c], "valid") for c in range(3))
        np.testing.assert_allclose(found[n, o], whole[::stride, ::stride], rtol=1e-12, atol=1e-12)


def test_panels_of_a_large_image_make_up_the_whole() -> None:
    """The windows of this image take several times the memory of a panel."""
    x, w = normal(1, 8, 200, 200), normal(2, 8, 5, 5, seed=1)
    (found,) = evaluate(ops.convolution, [x, w], PLAIN)
    (upper,) = evaluate(ops.convolution, [x[:, :, :70], w], PLAIN)
    (lower,) = evaluate(ops.convolution, [x[:, :, 66:], w], PLAIN)
    np.testing.assert_allclose(found, np.concatenate([upper, lower], 2), rtol=1e-12, atol=1e-12)


def test_third_derivatives() -> None:
    """The rules are written with the two ops alone, so that derivatives of any order are."""
    graph = sample_graph(ops.convolution, Sample((normal(1, 2, 4, 3), normal(2, 1, 2, 2, seed=1)), PLAIN | {"groups": 2, "stride": (2, 1)}))
    arrays = [normal(1, 2, 4, 3), normal(2, 1, 2, 2, seed=1), normal(*graph.results[0].type.shape, seed=2)]
    twice = gradient_graph(gradient_graph(graph, 0), 1)
    check_derivative(twice, [*arrays, normal(1, 2, 4, 3, seed=4)], 2)
    assert {op.name for op in twice.ops} <= {"convolution", "convolution_kernel_gradient", "reshape", "flip", "transpose"}


# -- native against the interpreter

CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "lenet": ((3, 1, 28, 28), (16, 1, 3, 3), SAME),
    "second layer": ((3, 16, 14, 14), (32, 16, 3, 3), SAME),
    "many channels, so several parts": ((2, 130, 7, 7), (20, 130, 3, 3), SAME),
    "several chunks of kernels": ((1, 5, 9, 9), (70, 5, 3, 3), SAME),
    "many taps, strides": ((1, 3, 40, 37), (5, 3, 7, 7), {"low": (3, 3), "high": (3, 3), "stride": (2, 2)}),
    "a row that is cut": ((1, 20, 4, 1500), (3, 20, 3, 5), {"low": (1, 2), "high": (1, 2)}),
    "one channel a group": ((1, 16, 12, 21), (16, 1, 3, 3), {"groups": 16, "stride": (2, 1)}),
    "zeros between": ((2, 4, 6, 9), (3, 4, 3, 3), {"interior": (1, 2), "low": (1, 2), "high": (2, 0)}),
    "zeros between, strides, dilation": ((1, 2, 9, 8), (3, 2, 2, 3), {"interior": (1, 2), "stride": (3, 2), "dilation": (2, 1)}),
    "zeros between, a row that is cut": ((1, 2, 3, 700), (3, 2, 3, 3), {"interior": (1, 2), "low": (2, 2), "high": (2, 2)}),
    "zeros between, phases without elements": ((1, 3, 4, 5), (4, 3, 1, 1), {"interior": (1, 2), "low": (1, -1), "high": (1, 2)}),
    "zeros between, many taps": ((1, 2, 5, 4), (3, 2, 7, 9), {"interior": (0, 1), "low": (5, 5), "high": (6, 5)}),
    "1 x 1": ((2, 24, 10, 10), (40, 24, 1, 1), {}),
    "a short vector, a short kernel": ((1, 1, 5), (1, 1, 4), LINE | {"low": (3,), "high": (3,)}),
    "vectors, a short kernel": ((3, 1, 533), (1, 1, 5), LINE | {"low": (4,), "high": (2,)}),
    "vectors, a short kernel, negative padding": ((2, 1, 700), (1, 1, 32), LINE | {"low": (-3,), "high": (20,)}),
    "long filters": ((2, 1, 1, 700), (1, 1, 1, 300), {}),
    "long filters, strides, several outputs": ((1, 2, 2, 420), (20, 2, 2, 101), {"stride": (1, 3), "dilation": (1, 2)}),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
def test_native_convolution_and_kernel_gradient(dtype: np.dtype, target: Target, exhaustive: bool) -> None:
    samples: dict[str, tuple[OpDefinition, Sample, float]] = {}
    for case, (images, kernels, attrs) in some(CONVOLUTIONS.items(), target, exhaustive, (target.vector_bytes + dtype.itemsize) // 4):
        x, w = normal(*images, dtype=dtype), normal(*kernels, dtype=dtype, seed=1)
        for definition, sample in ((ops.convolution, Sample((x, w), PLAIN | attrs)),
                                   (ops.convolution_kernel_gradient, gradient_sample(x, w, PLAIN | attrs))):
            samples[f"{definition.name}, {case}"] = definition, sample, 30 * float(np.finfo(dtype).eps)
    check_native(samples, target)


@pytest.mark.parametrize("target", TARGET_CASES)
def test_bits_do_not_depend_on_the_order_of_tasks(target: Target) -> None:
    x, w = normal(20, 5, 9, 9, dtype=F32), normal(6, 5, 3, 3, dtype=F32, seed=1)
    for definition, sample in ((ops.convolution, Sample((x, w), PLAIN)), (ops.convolution_kernel_gradient, gradient_sample(x, w, PLAIN))):
        steps = lower_op(sample_graph(definition, sample).ops[-1], {}, target)
        assert steps[0].tasks > 1
        np.testing.assert_array_equal(native(sample, definition, target), native(sample, definition, target, one_at_a_time=True))


@pytest.mark.parametrize("target", TARGET_CASES)
def test_gradients_in_kernels_share_what_turns_cotangents(target: Target) -> None:
    """It knows no size, so that a program compiles it once."""
    samples = [gradient_sample(normal(*images, dtype=F32), normal(*kernels, dtype=F32), PLAIN | attrs)
               for images, kernels, attrs in map(CONVOLUTIONS.__getitem__, ("lenet", "second layer", "many taps, strides"))]
    first, *others = [lower_op(sample_graph(ops.convolution_kernel_gradient, sample).ops[-1], {}, target)[0].shared for sample in samples]
    assert len(first) == 1
    assert all(other == first for other in others)


@pytest.mark.parametrize("outputs", [1, 20])
def test_long_filters_are_not_written_out(outputs: int) -> None:
    """Functions for some of their elements serve all others that lie alike."""
    sample = gradient_sample(normal(1, 1, 1, 3000, dtype=F32), normal(outputs, 1, 1, 1001, dtype=F32), PLAIN)
    step, _ = lower_op(sample_graph(ops.convolution_kernel_gradient, sample).ops[-1], {}, TARGETS["avx512"])
    assert step.text.count("\ndefine ") <= 8


@pytest.mark.parametrize("gradient", [False, True], ids=["images", "kernels"])
def test_windows_that_reach_too_far_are_refused(gradient: bool) -> None:
    """What one row of them reads lies in scratch memory."""
    def distant(x: np.ndarray, w: np.ndarray) -> Any:
        return np.sum(aj.nn.functional.conv2d(x, w, dilation=1200) ** 2)

    compiled = aj.compile(aj.grad(distant, 1) if gradient else distant, backend="native")
    with pytest.raises(UnsupportedError, match=r"convolution.* reach over \S+ MiB"):
        compiled(np.ones((1, 1, 2600, 2600), F32), np.ones((1, 1, 3, 3), F32))


POOLS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "halves": ((3, 2, 28, 28), {}),
    "halves, odd": ((2, 29, 35), {}),
    "meet": ((2, 15, 37), {"sizes": (3, 3), "low": (1, 1), "high": (1, 1)}),
    "every one": ((2, 9, 37), {"sizes": (3, 3), "stride": (1, 1)}),
    "far": ((1, 20, 50), {"sizes": (5, 6), "stride": (3, 5)}),
    "gaps": ((1, 20, 50), {"sizes": (3, 2), "stride": (4, 3), "low": (1, 1), "high": (1, 0)}),
    "dilated": ((1, 9, 40), {"sizes": (2, 3), "stride": (1, 2), "dilation": (3, 2)}),
    "one row, dilated": ((1, 9, 40), {"sizes": (1, 2), "stride": (2, 3), "dilation": (2, 1), "low": (1, 0)}),
    "tall": ((1, 45, 19), {"sizes": (18, 3), "stride": (2, 2), "low": (3, 1), "high": (2, 0), "dilation": (2, 1)}),
    "wide": ((1, 5, 90), {"sizes": (2, 34), "stride": (1, 2), "low": (0, 9), "high": (1, 3)}),
    "one row": ((2, 3, 40), {"sizes": (1, 4), "stride": (1, 3), "low": (0, 2), "high": (0, 2)}),
    "much padding": ((1, 5, 6), {"sizes": (3, 2), "stride": (1, 1), "low": (4, 5), "high": (3, 20)}),
    "three axes": ((2, 3, 9, 21), {"sizes": (3, 3, 2), "stride": (2, 2, 2), "low": (1, 1, 0), "high": (1, 1, 0), "interior": (0, 0, 0),
                                   "dilation": (1, 1, 1)}),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("definition", [ops.window_sum, ops.window_max, ops.window_max_take, ops.window_max_scatter],
                         ids=lambda definition: definition.name)
def test_native_pooling(definition: OpDefinition, target: Target, exhaustive: bool) -> None:
    check_pooling(some(POOLS, target, exhaustive, target.vector_bytes // 16 + len(definition.name)), definition, target)


def check_pooling(cases: Iterable[str], definition: OpDefinition, target: Target) -> None:
    samples: dict[str, tuple[OpDefinition, Sample, float]] = {}
    for case in cases:
        shape, given = POOLS[case]
        attrs = HALVES | given
        plain = normal(*shape, dtype=F32)
        ties = np.maximum(np.round(plain), 0)
        missing = np.where(normal(*shape, seed=5) > 1.5, F32.type(np.nan), plain)
        for x in (np.stack([plain, ties, missing]), plain.astype(F64)):
            arrays: tuple[np.ndarray, ...] = (x,)
            if definition is ops.window_max_take:
                arrays = (x, normal(*x.shape, dtype=x.dtype, seed=6))
            if definition is ops.window_max_scatter:
                windows = sample_graph(ops.window_max, Sample((x,), attrs)).results[0].type
                arrays = (x, normal(*windows.shape, dtype=x.dtype, seed=7))
            tolerance = float((4 + np.prod(attrs["sizes"])) * np.finfo(x.dtype).eps)
            samples[f"{case} of {x.dtype}"] = definition, Sample(arrays, attrs), tolerance
    check_native(samples, target)


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("definition", [ops.window_max, ops.window_max_scatter])
@pytest.mark.parametrize("case", ["meet", "every one", "tall"])
def test_pooling_of_a_few_rows_at_a_time(case: str, definition: OpDefinition, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an image is larger than the memory of a step."""
    shape, given = POOLS[case]
    window = WindowGeometry(*((1, *numbers) for numbers in (shape[-2:], (HALVES | given)["sizes"], (HALVES | given)["stride"])),
                      *((0, *(HALVES | given)[name]) for name in ("low", "high", "interior")), (1, *(HALVES | given)["dilation"]))
    chosen = []
    for memory in (1 << 20, 1 << 10):
        while True:
            monkeypatch.setattr(overlapping_windows, "MAX_BUFFER_BYTES", memory)
            block = overlapping_windows.choose_block(window, target.lanes(4), 12)
            if block is not None:
                break
            memory += 1 << 10
        chosen.append(block.rows)
    assert chosen[1] < chosen[0]
    check_pooling([case], definition, target)


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("sizes", [(2, 2), (3, 4), (5, 6)])
def test_native_sharing(sizes: tuple[int, int], target: Target) -> None:
    """Windows side by side, small ones and others, that leave out some rows and columns."""
    attrs = HALVES | {"sizes": sizes, "stride": sizes}
    x = np.round(normal(2, 3 * sizes[0] + 1, 25 * sizes[1] - 1, dtype=F32))
    x[x > 1.5] = np.nan
    arrays = (x, normal(2, 3, 24, dtype=F32, seed=1))
    (expected,) = evaluate(ops.window_max_share, arrays, attrs)
    np.testing.assert_array_equal(native(Sample(arrays, attrs), ops.window_max_share, target), expected)


@pytest.mark.parametrize("images", [(1, 512, 224, 1500), (1, 3, 1500, 1500), (8, 512, 7, 7)])
def test_a_task_needs_little_scratch_memory(images: tuple[int, ...]) -> None:
    """Whatever the images: a panel is cut along rows, columns and channels."""
    for size, stride in ((3, 1), (7, 2)):
        attrs = PLAIN | {"stride": (stride, stride)}
        x, w = TensorType(F64, images), TensorType(F64, (256, images[1], size, size))
        op = trace_graph("f", [x, w], lambda x, w, attrs=attrs: [ops.convolution(x, w, **attrs)]).ops[-1]
        gradient = trace_graph("g", [x, op.result.type],
                               lambda x, ct, size=size, attrs=attrs: [kernel_gradient(x, ct, (size, size), attrs)]).ops[-1]
        assert all(0 < lower_op(step, {}, TARGETS["avx512"])[0].scratch_bytes < 1 << 20 for step in (op, gradient))


# -- programs

def steps_of_cnn(batch: int) -> tuple[Any, tuple[Any, ...]]:
    def loss(p: list[Any], x: Any, y: Any) -> Any:
        h = F.max_pool2d(F.relu(F.conv2d(x, p[0], padding=1)), 2)
        h = F.max_pool2d(F.relu(F.conv2d(h, p[1], padding=1)), 2)
        return F.cross_entropy(np.reshape(h, (batch, -1)) @ p[2], y)

    p = [normal(16, 1, 3, 3, dtype=F32), normal(32, 16, 3, 3, dtype=F32) / 10, normal(32 * 7 * 7, 10, dtype=F32) / 30]
    return aj.value_and_grad(loss), (p, normal(batch, 1, 28, 28, dtype=F32), np.arange(batch) % 10)


def test_no_buffer_has_the_size_of_patches() -> None:
    """The patches of the second layer alone are 9 times its input."""
    step, arguments = steps_of_cnn(8)
    compiled = aj.compile(step)
    compiled(*arguments)
    activations = 4 * 8 * (16 * 28 * 28 + 16 * 14 * 14 + 32 * 14 * 14 + 32 * 7 * 7)
    report = compiled.memory()
    assert report.peak_bytes < 3 * activations
    largest = max(block.size for block in report.blocks)
    assert largest == 4 * 8 * 16 * 28 * 28


@pytest.mark.parametrize("backend", ["numba", "native"])
def test_backends_agree_on_a_network(backend: str) -> None:
    step, arguments = steps_of_cnn(4)
    value, gradients = aj.compile(step, backend=backend)(*arguments)
    expected_value, expected = aj.compile(step, backend="interpret")(*arguments)
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    for found, right in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5 * np.abs(right).max())


def test_tensors_keep_no_patches() -> None:
    """What a node of the dynamic graph keeps is its operands."""
    x, w = aj.tensor(normal(2, 3, 16, 16, dtype=F32), requires_grad=True), aj.tensor(normal(4, 3, 3, 3, dtype=F32), requires_grad=True)
    result = F.conv2d(x, w, padding=1)
    saved = result.grad_fn.saved_tensors
    assert {array.shape for array in saved} == {x.shape, w.shape}
    result.sum().backward()
    assert x.grad.shape == x.shape
