"""Elementwise operations on large tensors by kernels: values and gradients of small ones, one kernel for all shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.numpy import chunks
from adjit.codegen.numpy.chunks import CHUNK, MANY_ELEMENTS, MIN_ELEMENTS, SMALL_CHUNK, ChunkGraph
from adjit.codegen.process.off_main_thread import Task
from adjit.eager.call import known_calls
from adjit.ir.errors import IndexingError
from adjit.ir.ops.random import philox_word
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.nn import functional
from adjit.runtime.native import chunk_kernel
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")

RNG = np.random.default_rng(0)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "erf": aj.erf, "gelu": functional.gelu, "erfinv": lambda x: aj.erfinv(x * 0.1), "lgamma": lambda x: aj.lgamma(x * x + 0.5),
    "mish": functional.mish, "logit": lambda x: aj.special.logit(aj.sigmoid(x)),
    "weak": lambda x: aj.erf(2.5 * x) ** 2 - 1
}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[ChunkGraph]:
    """Graphs that kernels are compiled for."""
    graphs: list[ChunkGraph] = []
    compile = chunks.KernelCompiler.compile
    assert compile is not None

    def counting(graph: ChunkGraph) -> Any:
        graphs.append(graph)
        return compile(graph)
    known_calls.clear()
    monkeypatch.setattr(chunks.KernelCompiler, "compile", staticmethod(counting))
    monkeypatch.setattr(chunks.KernelCompiler, "compile_program", None)     # takes whole graphs, kernels or not
    return graphs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_small_tensors(name: str, dtype: type, compiled: list[ChunkGraph],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are computed by NumPy here."""
    function, compile = FUNCTIONS[name], chunks.KernelCompiler.compile
    assert compile is not None
    for shape in ((MIN_ELEMENTS + 5,), (3, CHUNK // 2, 7)):
        x = RNG.normal(size=shape).astype(dtype)
        x.flat[:4] = np.nan, np.inf, -np.inf, -0.0
        whole = aj.tensor(x, requires_grad=True)
        y = function(whole)
        (y * y).sum().backward()
        assert compiled
        known_calls.clear()
        monkeypatch.setattr(chunks.KernelCompiler, "compile", None)
        for part in (np.s_[:100], np.s_[-100:]):
            small = aj.tensor(x.reshape(-1)[part], requires_grad=True)
            z = function(small)
            (z * z).sum().backward()
            near = {"rtol": 2e-6 if dtype == np.float32 else 1e-13, "atol": 1e-6 if dtype == np.float32 else 1e-13}
            np.testing.assert_allclose(y.detach().numpy().reshape(-1)[part], z.detach().numpy(), **near)
            np.testing.assert_allclose(whole.grad.numpy().reshape(-1)[part], small.grad.numpy(), rtol=near["rtol"] * 10, atol=1e-5)
        known_calls.clear()
        monkeypatch.setattr(chunks.KernelCompiler, "compile", staticmethod(compile))


def test_bits_depend_on_nothing_but_the_element(compiled: list[ChunkGraph]) -> None:
    """Neither on the place in the array nor on its layout."""
    x = RNG.normal(size=(CHUNK + 3, 2)).astype(np.float32)
    found = aj.erf(aj.tensor(x)).numpy()
    for other in (x[::-1], np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[:, ::-1]):
        expected = aj.erf(aj.tensor(np.ascontiguousarray(other))).numpy()
        np.testing.assert_array_equal(aj.erf(aj.tensor(other)).numpy(), expected)
    np.testing.assert_array_equal(aj.erf(aj.tensor(np.concatenate([x, x]))).numpy()[-len(x):], found)
    assert len({graph.graph for graph in compiled}) == 1 < len(compiled)


def test_random_numbers_are_those_of_small_draws() -> None:
    """Numbers of one generator, from the first on, whatever the number of them."""
    for draw in (aj.rand, aj.randn):
        aj.manual_seed(3)
        many = draw(3 * CHUNK + 1, dtype=aj.float64).numpy()
        assert abs(np.mean(many) - (0.5 if draw is aj.rand else 0.0)) < 0.03
        aj.manual_seed(3)
        assert len(np.unique(many)) == many.size
        again = draw(3 * CHUNK + 1, dtype=aj.float64).numpy()
        np.testing.assert_array_equal(many, again)
    aj.manual_seed(3)
    np.testing.assert_allclose(aj.rand(3 * CHUNK + 1, dtype=aj.float64).numpy()[:50], _first(50), rtol=1e-15)


def test_keys_are_those_of_their_counters() -> None:
    """Which are computed many at a time: at the ends of blocks, from any state, and from two generators by turns."""
    first, second = aj.Generator().manual_seed(12345), aj.Generator()
    for start in (0, 250, 2**63 - 3, 2**64 - 3):
        second.set_state(aj.tensor(np.array([7, start], np.uint64)))
        first.set_state(aj.tensor(np.array([12345, start], np.uint64)))
        for count in range(start, start + 12):
            for generator, key in ((first, 12345), (second, 7)):
                assert int(generator.next_key()) == philox_word((count + 2**63) % 2**64, key)
    assert second.get_state().tolist() == [7, 9]
    assert second.counter._version > 40


def test_few_random_numbers_are_one_kernel(compiled: list[ChunkGraph]) -> None:
    aj.manual_seed(5)
    few = aj.rand(10, 7).numpy().ravel()
    aj.manual_seed(5)
    np.testing.assert_array_equal(aj.rand(10, 700).numpy().ravel()[:70], few)
    assert aj.randn(5, 20).shape == (5, 20)
    assert [(graph.size, graph.chunk) for graph in compiled] == [(70, SMALL_CHUNK), (7000, CHUNK), (100, SMALL_CHUNK)]
    compiled.clear()
    for size in (9, 99, 100, 5000, 6001):       # the number of them is an operand: it is no part of the kernel
        aj.manual_seed(6)
        many = aj.randn(size).numpy()
        aj.manual_seed(6)
        np.testing.assert_array_equal(many, aj.randn(1, size).numpy()[0])
    assert len({graph.graph for graph in compiled}) == 2


def _first(count: int) -> np.ndarray:
    aj.manual_seed(3)
    return aj.rand(count, dtype=aj.float64).numpy()


def test_results_are_arrays_of_their_own() -> None:
    """They may be written to, and operands are left alone."""
    x = aj.tensor(RNG.normal(size=2 * CHUNK), requires_grad=True)
    before = x.detach().numpy().copy()
    y = functional.gelu(x)
    y += 1.0
    y.sum().backward()
    np.testing.assert_array_equal(x.detach().numpy(), before)
    np.testing.assert_allclose(y.detach().numpy()[:9], functional.gelu(aj.tensor(before[:9])).numpy() + 1.0, rtol=1e-14)
    w = aj.tensor(np.array(0.5), requires_grad=True)
    (aj.erf(x * w).sum() + aj.erf(w)).backward()
    slope = np.sum(2 / np.sqrt(np.pi) * np.exp(-(0.5 * before) ** 2) * before) + 2 / np.sqrt(np.pi) * np.exp(-0.25)
    np.testing.assert_allclose(w.grad.numpy(), slope, rtol=1e-12)


def test_second_derivatives() -> None:
    x = aj.tensor(RNG.normal(size=CHUNK), requires_grad=True)
    (first,) = aj.autograd.grad(aj.erf(x).sum(), x, create_graph=True)
    (second,) = aj.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), -2 * x.detach().numpy() * first.detach().numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("size", [2, 3, SMALL_CHUNK - 1, SMALL_CHUNK, SMALL_CHUNK + 1, 200, CHUNK - 1])
def test_fewer_elements_than_a_chunk(size: int, compiled: list[ChunkGraph]) -> None:
    """They are cut into small chunks, or filled up to one."""
    x = np.linspace(-2, 3, size)
    leaf, weight = aj.tensor(x, requires_grad=True), aj.tensor(0.5, dtype=aj.float64)
    y = aj.erf(leaf * weight).reshape(1, -1)
    y.sum().backward()
    assert [graph.chunk for graph in compiled] == [SMALL_CHUNK]
    np.testing.assert_allclose(y.detach().numpy()[0], [math.erf(number / 2) for number in x], rtol=1e-14)
    np.testing.assert_allclose(leaf.grad.numpy(), np.exp(-x ** 2 / 4) / np.sqrt(np.pi), rtol=1e-14)
    y *= 2.0
    np.testing.assert_allclose(aj.lgamma(leaf.detach().abs() + 1.0).numpy(), [math.lgamma(abs(number) + 1) for number in x], rtol=1e-13,
                               atol=1e-15)


def test_sigmoid_of_few_elements_is_numpys(compiled: list[ChunkGraph]) -> None:
    aj.sigmoid(aj.ones(100))
    assert not compiled


LARGE = MANY_ELEMENTS // 64
GROUPED: dict[str, Callable[..., Any]] = {
    "loss": lambda x, y, b: functional.smooth_l1_loss(x, y),
    "two losses": lambda x, y, b: functional.binary_cross_entropy_with_logits(x, y) * functional.mse_loss(x, y),
    "relu": lambda x, y, b: functional.relu(x),
    "clamp": lambda x, y, b: aj.clamp(x, -0.5, 0.5),
    "where": lambda x, y, b: aj.where(x > y, x, y * 2.0),
    "rows": lambda x, y, b: functional.layer_norm(x, (LARGE,), b, b),
    "softmax": lambda x, y, b: functional.softmax(x * y, -1),
    "variance": lambda x, y, b: x.std(),
    "elu of a row": lambda x, y, b: functional.elu(x + b),
    "a row": lambda x, y, b: x + b,
    "labels": lambda x, y, b: functional.cross_entropy(x, aj.arange(64) * 3),
    "triangle": lambda x, y, b: aj.tril(x * y, -3),
    "outer": lambda x, y, b: aj.outer(b[:256], b[256:512]),
}


@pytest.mark.parametrize("name", GROUPED)
def test_groups_of_elementwise_ops(name: str, compiled: list[ChunkGraph], monkeypatch: pytest.MonkeyPatch) -> None:
    """Elementwise ops before, between and after others are a kernel each; values and gradients are NumPy's."""
    function = GROUPED[name]

    def run() -> list[np.ndarray]:
        known_calls.clear()
        rng = np.random.default_rng(1)
        leaves = [aj.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((64, LARGE), (64, LARGE), (LARGE,))]
        result = function(*leaves)
        (result * result).sum().backward()
        return [result.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves if leaf.grad is not None)]

    found = run()
    assert compiled
    monkeypatch.setattr(chunks.KernelCompiler, "compile", None)
    for array, expected in zip(found, run(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-11, atol=1e-13)
    known_calls.clear()


@pytest.mark.parametrize("length", [63, 64, 65, 127, 520, 1000, CHUNK, CHUNK + 1, 70_000])
def test_rows_of_any_length(length: int, compiled: list[ChunkGraph]) -> None:
    """Operands with a number for each row, or one row for all, whatever lies in memory; the bits are those of NumPy, op by op."""
    rows = -(-MANY_ELEMENTS // length)
    x = RNG.normal(size=(length, rows)).astype(np.float32).T
    column, row = RNG.normal(size=(rows, 2))[:, :1].astype(np.float32), RNG.normal(size=2 * length).astype(np.float32)[::-2]
    found = functional.softplus(aj.tensor(x) * aj.tensor(column) - aj.tensor(row))
    shifted = aj.sub(aj.tensor(x), aj.tensor(column)[:, 0][:, None])
    np.testing.assert_array_equal(shifted.numpy(), x - column)
    np.testing.assert_array_equal((aj.tensor(x) / aj.tensor(row)).numpy(), x / row)
    np.testing.assert_allclose(found.numpy(), np.logaddexp(x * column - row, 0.0), rtol=1e-5, atol=1e-6)
    assert {graph.length for graph in compiled} == ({length, rows * length} if length >= SMALL_CHUNK else {rows * length})
    assert all(graph.chunk <= graph.length for graph in compiled)


def test_one_operand_for_rows_and_columns_has_no_kernel() -> None:
    graph = parse("""
        graph @f(%x: f32[256], %y: f32[256]) {
          %0: f32[256,256] = broadcast %x {axes=(0,), shape=(256, 256)}
          %1: f32[256,256] = broadcast %y {axes=(1,), shape=(256, 256)}
          %2: f32[256,256] = multiply %0, %1
          return %2
        }""")
    x, y = (RNG.normal(size=256).astype(np.float32) for _ in range(2))
    function = chunks.chunked(graph)
    assert function is not None
    np.testing.assert_array_equal(function(x, y)[0], np.outer(x, y))
    assert chunks.chunked(parse(str(print_graph(graph)).replace("%y {axes", "%x {axes"))) is None


def test_new_axes_repeat_nothing() -> None:
    graph = parse("""
        graph @f(%x: f64[5000]) {
          %0: f64[1,5000] = broadcast %x {axes=(1,), shape=(1, 5000)}
          %1: f64[1,5000] = erf %0
          return %1
        }""")
    function, x = chunks.chunked(graph), RNG.normal(size=5000)
    assert function is not None
    np.testing.assert_allclose(function(x)[0][0], [math.erf(number) for number in x], rtol=1e-14)


def test_one_kernel_for_rows_of_many_lengths(compiled: list[ChunkGraph]) -> None:
    for length in (1000, 1010, 511, 2000):
        aj.ones(200, length) * aj.ones(length)
    assert {graph.length for graph in compiled} == {1000, 1010, 511, 2000}
    assert len({graph.graph for graph in compiled}) == 2


@pytest.mark.parametrize("shape", [(MIN_ELEMENTS,), (3, MIN_ELEMENTS // 2 + 77), (MIN_ELEMENTS // 4, 2, 3), (2, 2049, 33), (700, 100)])
def test_sums_of_rows(shape: tuple[int, ...]) -> None:
    """Of float32, by machine code; as exact as NumPy's, and infinities and NaN are where NumPy has them."""
    x = RNG.normal(size=shape).astype(np.float32)
    for axes in (-1, tuple(range(len(shape))), tuple(range(1, len(shape))) or 0):
        found, exact = aj.tensor(x).sum(axes).numpy(), np.sum(x, axes, np.float64)
        scale = np.sum(np.abs(x), axes, np.float64)
        assert found.dtype == np.float32
        assert np.all(np.abs(found - exact) <= 4e-7 * scale)
    if x.ndim > 1:
        np.testing.assert_array_equal(aj.tensor(x).sum(-1).numpy(), aj.tensor(np.concatenate([x, x])).sum(-1).numpy()[:len(x)])
    turned = aj.tensor(x).t() if x.ndim == 2 else aj.tensor(x[::-1])
    np.testing.assert_allclose(turned.sum(-1).numpy(), np.sum(turned.numpy(), -1, np.float64), rtol=1e-4, atol=1e-3)
    x.reshape(-1)[:2] = np.inf, np.nan
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isfinite(aj.tensor(x).sum(-1).numpy()), np.isfinite(x.sum(-1)))
    x.reshape(-1)[:2] = np.inf, 3e38
    assert aj.tensor(x).sum().item() == np.inf


def test_sums_are_added_by_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    sum_rows = chunks.KernelCompiler.sum_rows
    assert sum_rows is not None

    def counting(x: np.ndarray, sums: np.ndarray, length: int, stride: int) -> None:
        shapes.append(sums.shape)
        sum_rows(x, sums, length, stride)
    monkeypatch.setattr(chunks.KernelCompiler, "sum_rows", staticmethod(counting))
    known_calls.clear()
    x = aj.ones(300, 200)
    x.sum(), x.mean(-1), x.sum(0), x.double().sum(), x[:5].sum()
    x.t().sum(), x.t().sum(0), x[:, 1:].sum(-1), x.reshape(30, 10, 200).mean((0, 2))
    assert shapes == [(), (300,), (), (300,), (300,), (30, 10)]


def test_sums_of_any_layout() -> None:
    """By rows, slices, or NumPy: of transposed arrays, parts and repeated elements, over any dimensions. Slices have NumPy's bits."""
    whole = np.random.default_rng(0).normal(size=(10, 40, 84)).astype("f4")
    part = whole[:5]
    arrays = [part, np.asfortranarray(part), part.transpose(2, 0, 1), whole[::2], part[:, :, 1:], part[::-1], part[:, ::2, ::2],
              np.ascontiguousarray(part.transpose(1, 2, 0)).transpose(2, 0, 1), np.broadcast_to(whole[:1], whole.shape), part[:, :1]]
    for x in arrays:
        for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            sums, expected = np.asarray(chunks.Sums(axes)(x)), np.add.reduce(x, axes, np.float64)
            assert (sums.shape, sums.dtype) == (expected.shape, np.float32)
            np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(chunks.Sums((1,))(whole), np.add.reduce(whole, 1))


def test_kernels_keep_the_layout_of_their_operands() -> None:
    """Operands that are transposed alike are not copied, and the result is laid out as they are; others are."""
    x, y = (aj.tensor(np.random.default_rng(seed).normal(size=(256, 260)).astype("f4")) for seed in (0, 1))
    for operands in ((x.t(), y.t()), (x.t(), y.t().contiguous()), (x.t()[1:], y.t()[1:])):
        found = aj.nn.functional.silu(operands[0]) * operands[1].erf()
        expected = aj.nn.functional.silu(operands[0].contiguous()) * operands[1].contiguous().erf()
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert x.t().sigmoid().stride() == (1, 260)
    assert aj.nn.functional.dropout(x.t(), 0.5).stride() == (256, 1)


def test_extrema_of_rows_and_filled_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """By machine code from some size on: with NumPy's bits, NaN wherever it lies, and any number of elements behind the last vector."""
    called = []
    for name in ("extrema_rows", "fill"):
        function = getattr(chunks.KernelCompiler, name)
        monkeypatch.setattr(chunks.KernelCompiler, name, staticmethod(
            lambda *arguments, name=name, function=function: [found := function(*arguments), called.append((name, found))][0]))
    known_calls.clear()
    for shape in ((3, 11_000), (1000, 33), (1500, 31), (20_000, 2), (20, 30, 70)):
        x = RNG.normal(size=shape).astype(np.float32)
        x.flat[0], x.flat[-1] = np.inf, -np.inf
        tensor = aj.tensor(x)
        for place in (None, 0, x.size // 2, x.size - 1):
            if place is not None:
                tensor.view(-1)[place], x.flat[place] = np.nan, np.nan
            for found, wanted in ((tensor.amax(-1), x.max(-1)), (tensor.amin(-1), x.min(-1))):
                np.testing.assert_array_equal(found.numpy(), wanted)
            assert called == [("extrema_rows", place is None)] * 2
            called.clear()
    aj.tensor(x.astype(np.float64)).amax(-1), aj.tensor(x).amax(0)
    for count, dtype in ((70_001, aj.float32), (70_002, aj.int64), (70_003, aj.complex64), (70_001, aj.int32)):
        filled = aj.ones(count, dtype=dtype)
        assert filled.numpy().tolist() == [1] * count
    assert aj.ones(70_001, dtype=aj.uint8).sum().item() == aj.ones(65_535).sum().item() + 4466 == 70_001
    assert called == [("fill", True)] * 4 + [("fill", False)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(8, 5000), (11, 3001), (7, 6000), (40_000, 1), (33, 2001), (20, 30, 70)])
def test_scans_and_products_have_the_bits_of_numpy(shape: tuple[int, ...], dtype: type) -> None:
    x = RNG.normal(size=shape).astype(dtype)
    x[0].flat[:1], x[-1].flat[-1:] = -0.0, np.nan
    for given in (x, np.asfortranarray(x)):
        leaf = aj.tensor(given, requires_grad=True)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(leaf.cumsum(-1).detach().numpy(), x.cumsum(-1))
            np.testing.assert_array_equal(leaf.cumprod(-1).detach().numpy(), x.cumprod(-1))
            np.testing.assert_array_equal(leaf.prod(-1).detach().numpy(), x.prod(-1))
        leaf.cumsum(-1).backward(aj.tensor(x))
        np.testing.assert_array_equal(leaf.grad.numpy(), x[..., ::-1].cumsum(-1)[..., ::-1])
    assert np.signbit(aj.tensor(x).cumsum(-1).numpy().flat[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int16])
def test_elements_of_rows_at_indices(dtype: type) -> None:
    """Taken and added to, also from the end; indices out of range are refused with their number."""
    x, indices = RNG.normal(size=(9, 70)).astype(dtype), RNG.integers(-70, 70, (9, 1000))
    for given in (x, np.asfortranarray(x)):
        leaf = aj.tensor(given, requires_grad=np.dtype(dtype).kind == "f")
        found = aj.take_along_dim(leaf, aj.tensor(indices), 1)
        np.testing.assert_array_equal(found.detach().numpy(), np.take_along_axis(x, indices, 1))
        if leaf.requires_grad:
            weights = RNG.integers(0, 9, indices.shape).astype(dtype)
            found.backward(aj.tensor(weights))
            expected = np.zeros_like(x)
            np.add.at(expected, (np.arange(9)[:, None], indices), weights)
            np.testing.assert_array_equal(leaf.grad.numpy(), expected)
    for wrong in (70, -71):
        indices[5, 700] = wrong
        with pytest.raises(IndexingError, match=f"index {wrong} is out of bounds for axis 1 with size 70"):
            aj.take_along_dim(aj.tensor(x), aj.tensor(indices), 1)


def test_rows_are_scanned_and_indexed_by_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for name in ("scan_rows", "at_indices"):
        function = getattr(chunks.KernelCompiler, name)
        monkeypatch.setattr(chunks.KernelCompiler, name, staticmethod(
            lambda *arguments, name=name, function=function: [called.append(name), function(*arguments)][1]))
    known_calls.clear()
    x, indices = aj.ones(200, 300, requires_grad=True), aj.zeros(200, 300, dtype=aj.int64)
    assert x.cumsum(-1)[0, -1] == 300
    assert x.prod(-1).sum() == 200
    assert called == ["scan_rows", "scan_rows"]
    x.gather(1, indices).backward(aj.ones(200, 300))
    assert called[2:] == ["at_indices", "at_indices"]
    np.testing.assert_array_equal(x.grad.numpy()[:, 0], np.full(200, 300.0))


def test_kernels_on_disk_are_loaded_by_the_thread_that_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one, and its start, would take as long as the rest."""
    x, begun = aj.ones(5), []
    x.erfc()
    known_calls.clear()
    chunk_kernel._compiled.cache_clear()
    begin = Task.begin
    monkeypatch.setattr(Task, "begin", lambda task: [begun.append(task), begin(task)][1])
    for _ in range(2):      # what is not on disk yet is compiled, and then found there
        begun.clear()
        x.erfc()
        known_calls.clear()
        chunk_kernel._compiled.cache_clear()
    assert begun == []
