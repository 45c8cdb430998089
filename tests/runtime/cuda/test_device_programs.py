"""Compiled functions on the emulated device: results, donation, the order of launches, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.device_runs import same_bits

import adjit as aj
from adjit.codegen.cuda.emulated import EmulationError
from adjit.errors import ArgumentError, DonationError, IndexingError, UnsupportedError
from adjit.runtime.cuda import devices, driver
from adjit.runtime.cuda.device_array import DeviceArray
from adjit.runtime.cuda.emulated_driver import check_order
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")


def numbers(*shape: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def loss(p: dict[str, Any], x: Any, t: Any) -> Any:
    z = np.maximum(x @ p["w1"] + p["b1"], 0) @ p["w2"] + p["b2"]
    z = z - z.max(-1, keepdims=True)
    return -((z - np.log(np.exp(z).sum(-1, keepdims=True))) * t).sum(-1).mean()


def step(p: dict[str, Any], m: dict[str, Any], v: dict[str, Any], x: Any, t: Any) -> Any:
    """A training step with Adam."""
    value, g = aj.value_and_grad(loss)(p, x, t)
    m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
    v = {k: 0.999 * v[k] + 0.001 * g[k] * g[k] for k in p}
    return value, {k: p[k] - 1e-3 * m[k] / (np.sqrt(v[k]) + 1e-8) for k in p}, m, v


def state(dtype: type) -> tuple[Any, ...]:
    shapes = {"w1": (50, 32), "b1": (32,), "w2": (32, 10), "b2": (10,)}
    p, m = ({k: numbers(*shape, seed=seed, dtype=dtype) for k, shape in shapes.items()} for seed in (1, 2))
    return p, m, {k: numbers(*shape, seed=3, dtype=dtype) ** 2 for k, shape in shapes.items()}


@pytest.fixture(scope="module")
def device_step() -> Callable[..., Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADJIT_CUDA", "emulated")
        compiled = aj.compile(step, device="cuda", donate=("p", "m", "v"))
        compiled(*aj.device_put(state(np.float32)), numbers(20, 50), np.eye(10, dtype=np.float32)[np.arange(20) % 10])
        return compiled


def test_training_steps_are_those_of_the_cpu(device_step: Callable[..., Any]) -> None:
    x, t = numbers(20, 50), np.eye(10, dtype=np.float32)[np.arange(20) % 10]
    here, there = state(np.float32), aj.device_put(state(np.float32))
    first = there[0]["w1"]
    on_cpu = aj.compile(step)
    for _ in range(3):
        value, *here = on_cpu(*here, x, t)
        device_value, *there = device_step(*there, x, t)
        assert float(device_value) == pytest.approx(float(value), rel=1e-6)
    assert there[0]["w1"] is first          # donated: updated in its own memory
    for a, b in zip(here, aj.device_get(there), strict=True):
        for key in a:
            np.testing.assert_allclose(b[key], a[key], rtol=1e-4, atol=1e-6)


def test_any_order_that_dependencies_allow_gives_the_same_bits(device_step: Callable[..., Any]) -> None:
    x, t = numbers(20, 50), np.eye(10, dtype=np.float32)[np.arange(20) % 10]
    executable, arrays = device_step.programs()[0].executable, [*[a for tree in state(np.float32) for a in tree.values()], x, t]
    found = []
    for seed in (1, 2):
        executable.driver._random.seed(seed)
        found.append([np.asarray(array) for array in executable.run(arrays, arrays)])
    assert all(map(same_bits, *found))


def test_a_forgotten_dependency_is_noticed(device_step: Callable[..., Any]) -> None:
    nodes = device_step.programs()[0].executable.program.nodes
    check_order(nodes)
    for number, node in enumerate(nodes):
        for dropped in node.after:
            after = tuple(other for other in node.after if other != dropped)
            with pytest.raises(EmulationError, match="neither waits"):
                check_order([*nodes[:number], replace(node, after=after), *nodes[number + 1:]])


def attention(p: dict[str, Any], x: Any) -> Any:
    batch, length, size = x.shape
    q, k, v = (np.transpose((x @ p[name]).reshape(batch, length, 2, size // 2), (0, 2, 1, 3)) for name in "qkv")
    scores = np.where(np.tri(length, dtype=bool), q @ np.swapaxes(k, -1, -2) / np.sqrt(size / 2).astype(x.dtype), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = x + np.transpose(weights / weights.sum(-1, keepdims=True) @ v, (0, 2, 1, 3)).reshape(batch, length, size)
    mean = y.mean(-1, keepdims=True)
    return (y - mean) / np.sqrt(((y - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * p["g"]


def test_gradients_of_attention_are_those_of_the_cpu() -> None:
    def gradient(p: dict[str, Any], x: Any, t: Any) -> Any:
        return aj.value_and_grad(lambda p: ((attention(p, x) - t) ** 2).mean())(p)
    p = {name: 5 * numbers(16, 16, seed=seed, dtype=np.float64) for seed, name in enumerate("qkv")} | {"g": np.ones(16)}
    x, t = (numbers(2, 12, 16, seed=seed, dtype=np.float64) for seed in (7, 8))
    value, gradients = aj.compile(gradient)(p, x, t)
    device_value, device_gradients = aj.compile(gradient, device="cuda")(p, x, t)
    assert float(device_value) == pytest.approx(float(value), rel=1e-13)
    for name, expected in gradients.items():
        np.testing.assert_allclose(np.asarray(device_gradients[name]), expected, rtol=1e-9, atol=1e-13)


def test_elementwise_functions_have_the_bits_of_the_cpu() -> None:
    def chain(x: Any, y: Any) -> Any:
        return np.exp(np.sin(x) * y) - np.log1p(x * x) * np.tanh(y) + np.arctan2(x, y), np.abs(x) ** y
    x, y = 40 * numbers(33, 7), 30 * numbers(33, 7, seed=1)
    x[0, :4] = np.inf, -np.inf, np.nan, -0.0
    found, expected = aj.compile(chain, device="cuda")(x, y), aj.compile(chain, backend="native")(x, y)
    assert all(same_bits(np.asarray(a), b) for a, b in zip(found, expected, strict=True))


def test_results_stay_on_the_device() -> None:
    @aj.compile(device="cuda")
    def scaled(x: Any, factor: float) -> Any:
        return {"y": x * factor, "sum": np.sum(x), "x": x}

    x = numbers(4, 3)
    given = aj.device_put(x)
    found = scaled(given, 2.0)
    assert all(isinstance(array, DeviceArray) for array in found.values())
    assert found["x"] is not given                              # results share no memory with arguments
    assert np.asarray(found["x"]).tobytes() == x.tobytes()
    assert float(found["sum"]) == pytest.approx(float(x.sum()), rel=1e-6)
    assert found["sum"].shape == ()
    assert f"{found['sum']:.3f}" == f"{float(found['sum']):.3f}"
    assert round(found["sum"], 1) == pytest.approx(float(found["sum"]), abs=0.06)
    for refused in (lambda: given.sum(), lambda: given.T, lambda: round(given)):
        with pytest.raises(aj.errors.UnsupportedError, match=r"copy the array with aj\.device_get"):
            refused()
    assert not hasattr(given, "reshape")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = given.nothing
    assert scaled(found["y"], 3.0)["y"].block_until_ready().shape == (4, 3)
    assert scaled(x, 3.0)["y"].shape == (4, 3)
    assert scaled.cache_info().traces == 2                      # arrays here and there are two signatures
    text = scaled.explain(found["y"], 3.0)
    assert "on the device 'cuda'" in text
    assert "launches on the emulated device" in text
    assert "each call copies 8 B to the device, of 1 array" in text
    assert any("define ptx_kernel" in kernel for kernel in scaled.kernels(x, 3.0).values())


def test_arguments_of_any_layout_and_size() -> None:
    function = aj.compile(lambda x: (x + 1, x.sum(0), x.T @ x), device="cuda")
    for x in (numbers(6, 5)[::2, ::-1], numbers(5, 6).T, numbers(3, 1), numbers(0, 3), numbers(2, 3).astype(">f4")):
        for found, expected in zip(function(x), (x + 1, x.sum(0), x.T @ x), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


def test_a_donated_array_is_given_once() -> None:
    function = aj.compile(lambda x, y: x + y, device="cuda", donate="x")
    x = aj.device_put(numbers(3))
    with pytest.raises(DonationError, match="donated argument x is the same array as y"):
        function(x, x)
    assert function(x, numbers(3)) is x


def descend(table: Any, tokens: Any) -> Any:
    return table - aj.grad(lambda table: (table[tokens] ** 2).sum())(table) / 4


def test_rows_are_read_and_updated_at_indices() -> None:
    table, tokens = numbers(5, 3), np.array([4, 0, -1, 4])
    function = aj.compile(descend, device="cuda", donate="table")
    there = aj.device_put(table)
    assert function(there, tokens) is there
    np.testing.assert_allclose(np.asarray(there), aj.compile(descend)(table, tokens), rtol=1e-6)
    before = np.asarray(there)
    assert function(there, np.array([1, 5, 0, 5])) is there         # nothing waits; who reads is told
    with pytest.raises(IndexingError, match="index 5 is out of bounds for axis 0 with size 5") as caught:
        np.asarray(there)
    assert "test_device_programs.py" in str(caught.value)
    assert same_bits(np.asarray(there), before)         # nothing was written
    profile = function.profile(aj.device_put(table), tokens)
    assert "scatter_add" in str(profile)


def test_indices_that_are_computed_late_are_checked_before_anything_is_written() -> None:
    def late(w: Any, x: Any) -> Any:
        w = w + 1
        return w, x[w.sum().astype(int)]
    w = aj.device_put(np.ones(2))
    function = aj.compile(late, device="cuda", donate="w")
    with pytest.raises(IndexingError, match="index 4 is out of bounds for axis 0 with size 4"):
        float(function(w, numbers(4))[1])
    assert np.asarray(w).tolist() == [1, 1]
    assert float(function(w, numbers(5))[1]) == numbers(5)[4]


def test_random_numbers_are_those_of_the_cpu() -> None:
    def drawn(x: Any) -> Any:
        return np.where(aj.random.uniform(aj.random.key(3), x.shape) < 0.5, x, 0.0), aj.random.normal(aj.random.key(4), (9,))
    there, here = aj.compile(drawn, device="cuda")(numbers(20)), aj.compile(drawn, backend="native")(numbers(20))
    for found, expected in zip(there, here, strict=True):
        assert same_bits(np.asarray(found), expected)


def test_fourier_transforms_of_long_lines() -> None:
    """In passes, some of them with a large prime factor; roots of unity from one table and from two."""
    for shape, axis in (((202, 2), 0), ((4100,), 0)):
        x = numbers(*shape).astype(float)

        def transformed(x: Any, axis: int = axis) -> Any:
            half = np.fft.rfft(x, axis=axis)
            whole = np.fft.ifft(x + 1j * x[::-1], axis=axis)
            return half.imag, whole.real, np.fft.irfft(half * half, n=x.shape[axis], axis=axis)

        for found, expected in zip(aj.compile(transformed, device="cuda")(x), transformed(x), strict=True):
            np.testing.assert_allclose(np.asarray(found), expected, atol=1e-14 * np.abs(expected).max() )


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: np.fft.rfft(np.repeat(x[:1], 131101)).real, "lines of 131101 float32 has no code .* yet: .* no prime factor above 131072"),
    (lambda x: aj.scan(lambda c, e: (c + aj.special.ellipk(c), c), x[0], x)[0], r"scipy\.special\.ellipk cannot be computed"),
    (lambda x: aj.special.ellipk(x), r"scipy\.special\.ellipk cannot be computed on the device 'cuda' yet"),
], ids=["transform", "in a loop", "library"])
def test_what_has_no_code_is_refused_at_its_line(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        aj.compile(function, device="cuda")(numbers(5))
    assert "test_device_programs.py" in str(caught.value)
    assert "omit device=" in str(caught.value)


@pytest.mark.parametrize(("shape", "axis"), [((2100,), 0), ((2, 1100, 2), 1)], ids=str)
def test_long_lines_are_sorted_by_merging_runs(shape: tuple[int, ...], axis: int) -> None:
    x = np.round(8 * numbers(*shape, seed=5), 1)                # many are equal
    x.reshape(-1)[::97] = np.nan
    function = aj.compile(lambda x, i: (np.sort(x, axis), np.argsort(x, axis, kind="stable"), np.sort(i, axis), np.partition(x, 900, axis)),
                          device="cuda")
    i = (1000 * numbers(*shape, seed=6)).astype(np.int32)
    ordered, order, integers, parts = map(np.asarray, function(x, i))
    np.testing.assert_array_equal(ordered, np.sort(x, axis))
    np.testing.assert_array_equal(order, np.argsort(x, axis, kind="stable"))
    np.testing.assert_array_equal(integers, np.sort(i, axis))
    np.testing.assert_array_equal(np.sort(parts, axis), ordered)
    np.testing.assert_array_equal(parts.take(900, axis), ordered.take(900, axis))


@pytest.mark.parametrize(("shape", "axis"), [((9000,), 0), ((2, 700, 3), 1)], ids=str)
def test_long_lines_are_added_and_searched_in_pieces(shape: tuple[int, ...], axis: int) -> None:
    x = np.round(20 * numbers(*shape, seed=5, dtype=np.float64), 1)              # many extremes are equal
    i = (10 * x).astype(np.int32)
    with_nan = np.where(np.arange(x.size).reshape(shape) % 640 == 600, np.nan, x)

    def found(x: Any, i: Any, y: Any) -> Any:
        return (np.cumsum(x, axis), np.cumsum(i, axis), np.maximum.accumulate(i, axis), np.argmax(x, axis), np.argmin(i, axis),
                np.argmin(y, axis), aj.grad(lambda x: (np.cumsum(x, axis) * x).sum())(x))

    there = aj.compile(found, device="cuda")(x, i, with_nan)
    for a, b in zip(map(np.asarray, there), aj.compile(found)(x, i, with_nan), strict=True):
        if b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-10)
        else:
            np.testing.assert_array_equal(a, b)


def test_writes_are_refused() -> None:
    def writing(x: Any) -> Any:
        x[0] = 1
        return x
    x = numbers(3)
    for given in (x, aj.device_put(x)):
        with pytest.raises(UnsupportedError, match="writing writes to x, and is compiled for the device 'cuda'"):
            aj.compile(writing, device="cuda")(given)
    assert x[0] != 1


def test_arrays_on_the_device_are_for_functions_of_the_device() -> None:
    given = aj.device_put(numbers(3))
    with pytest.raises(UnsupportedError, match="x is on the device 'cuda', and <lambda> is compiled for the CPU"):
        aj.compile(lambda x: x + 1, device="cpu")(given)
    assert isinstance(aj.compile(lambda x: x + 1)(given), DeviceArray)      # for where the array is
    for use in (lambda: given + 1, lambda: 2 * given, lambda: np.exp(given), lambda: np.sum(given), lambda: given[0], lambda: given == 1):
        with pytest.raises(UnsupportedError, match="computed in compiled functions alone"):
            use()


def test_arrays_on_the_device_are_read_as_arguments_alone() -> None:
    outside = aj.device_put(numbers(1))
    for function in (lambda x: x + outside, lambda x: np.add(x, outside), lambda x: x * outside.item(), lambda x: x * np.asarray(outside)):
        with pytest.raises(UnsupportedError, match=r"argument|pass it"):
            aj.compile(function, device="cuda")(numbers(3))


def test_functions_of_the_device_within_others() -> None:
    inner = aj.compile(lambda x: (x * x).sum(), device="cuda")
    x = numbers(3)
    for outer in (aj.grad(inner), aj.compile(aj.grad(inner), device="cuda"), aj.compile(lambda x: aj.grad(inner)(x) + 0, device="cuda")):
        found = outer(x)
        assert isinstance(found, DeviceArray)
        np.testing.assert_allclose(np.asarray(found), 2 * x, rtol=1e-6)
    with pytest.raises(UnsupportedError, match="is called in a function that is compiled for 'cpu'"):
        aj.compile(lambda x: inner(x) + 1)(x)


def test_options_of_the_cpu_are_refused() -> None:
    with pytest.raises(ArgumentError, match="backend 'native' is for the CPU"):
        aj.compile(lambda x: x, device="cuda", backend="native")
    with pytest.raises(ArgumentError, match="unknown device 'tpu'"):
        aj.compile(lambda x: x, device="tpu")
    with pytest.raises(UnsupportedError, match="cannot flush"):
        aj.compile(lambda x: x, device="cuda", flush_subnormals=True)


def test_without_a_card_there_is_one_error_at_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJIT_CUDA")
    monkeypatch.setattr(driver, "LIBRARY", "libcuda_that_nobody_has.so")
    monkeypatch.delitem(devices._made, "auto", raising=False)
    with pytest.raises(UnsupportedError, match="there is no driver for NVIDIA GPUs here: libcuda_that_nobody_has") as caught:
        aj.compile(lambda x: x, device="cuda")
    assert "test_device_programs.py" in str(caught.value)
    assert "ADJIT_CUDA=emulated" in str(caught.value)


def network(p: tuple[Any, ...], x: Any) -> Any:
    h = aj.nn.functional.max_pool2d(np.maximum(aj.nn.functional.conv2d(x, p[0], padding=1, stride=2), 0), 2)
    return (aj.nn.functional.avg_pool2d(aj.nn.functional.conv2d(h, p[1], groups=2), 2) ** 2).sum()


def test_gradients_of_convolutions_are_those_of_the_cpu() -> None:
    p, x = (numbers(4, 3, 3, 3), numbers(2, 2, 3, 3, seed=1)), numbers(4, 3, 33, 32, seed=2)      # sums of 2,176 products: a block each
    expected, found = (aj.compile(aj.value_and_grad(network, (0, 1)), **options)(p, x) for options in ({}, {"device": "cuda"}))
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-5)
    for a, b in zip((*found[1][0], found[1][1]), (*expected[1][0], expected[1][1]), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-6)


def solved(a: Any, b: Any) -> Any:
    return (np.linalg.solve(a, b) ** 2).sum() + np.linalg.inv(a).sum() + np.linalg.slogdet(a)[1].sum() + np.linalg.cholesky(
        a @ np.swapaxes(a, -1, -2)).sum()


@pytest.mark.parametrize("size", [3, 19])       # 19: more elements than threads of a block
def test_systems_of_equations_are_solved_as_on_the_cpu(size: int) -> None:
    a, b = numbers(2, size, size, dtype=np.float64) + np.eye(size), numbers(2, size, 3, seed=1, dtype=np.float64)
    expected, found = (aj.compile(aj.value_and_grad(solved, (0, 1)), **options)(a, b) for options in ({}, {"device": "cuda"}))
    for x, y in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-9, atol=1e-10)
