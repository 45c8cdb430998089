"""Operations on tensors that are one native program: convolutions, pooling and loops, beside the same by NumPy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn
from adjit.codegen.numpy.chunks import KernelCompiler
from adjit.eager.call import known_calls
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import IndexingError, UnsupportedError
from adjit.ir.graph import Graph
from adjit.ir.types import F64, I64, TensorType
from adjit.nn import functional
from adjit.nn.recurrent_cells import SHORT_LOOP, loop_lengths
from adjit.runtime.native import eager_program
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")

RNG = np.random.default_rng(0)
Shapes = tuple[tuple[int, ...], ...]

FUNCTIONS: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "conv2d": (lambda a, b, c: functional.conv2d(a, b, c, stride=2, padding=1), ((4, 8, 33, 32), (16, 8, 3, 3), (16,))),
    "conv_transpose1d": (lambda a, b: functional.conv_transpose1d(a, b, stride=2), ((4, 16, 65), (16, 16, 4))),
    "max_pool2d": (lambda a: functional.max_pool2d(a, 3, 2, 1), ((4, 8, 33, 32),)),
    "avg_pool1d": (lambda a: functional.avg_pool1d(a, 2), ((8, 16, 256),)),
}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """Graphs that programs are compiled for."""
    graphs: list[Graph] = []
    compile = KernelCompiler.compile_program
    assert compile is not None

    def counting(graph: Graph) -> Any:
        graphs.append(graph)
        return compile(graph)
    known_calls.clear()
    monkeypatch.setattr(KernelCompiler, "compile_program", staticmethod(counting))
    return graphs


def derivatives(function: Callable[..., Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The result, its gradients, and the gradients of a function of these."""
    operands = [aj.tensor(array, requires_grad=True) for array in arrays]
    result = function(*operands)
    gradients = aj.autograd.grad((result ** 2).sum(), operands, create_graph=True)
    second = aj.autograd.grad(sum((gradient ** 2).sum() for gradient in gradients), operands)
    return [found.detach().numpy() for found in (result, *gradients, *second)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives_are_those_of_numpy(name: str, compiled: list[Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    function, shapes = FUNCTIONS[name]
    arrays = [RNG.normal(size=shape) for shape in shapes]
    found = derivatives(function, arrays)
    assert len(compiled) >= 3
    known_calls.clear()
    monkeypatch.setattr(KernelCompiler, "compile_program", None)
    for number, expected in zip(found, derivatives(function, arrays), strict=True):
        np.testing.assert_allclose(number, expected, rtol=1e-12, atol=1e-12 * np.max(np.abs(expected)))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "RNN": lambda: nn.RNN(3, 4, dtype="float64", bidirectional=True), "GRU": lambda: nn.GRU(3, 4, dtype="float64"),
    "LSTM": lambda: nn.LSTM(3, 4, dtype="float64", proj_size=2)}


@pytest.mark.parametrize("name", LAYERS)
def test_sequences_are_loops(name: str, compiled: list[Graph]) -> None:
    """They are compiled, as several loops if they are long, and have the values and derivatives of steps that are taken one by one: those
    of packed sequences. A step or two are loops of NumPy."""
    layer = LAYERS[name]()
    length = 2 * SHORT_LOOP + 3
    weights = list(layer.parameters())

    def states(output: Any) -> Any:
        return sum((state ** 2).sum() for state in (output if isinstance(output, tuple) else (output,)))

    def whole(x: aj.Tensor, *weights: aj.Tensor) -> Any:
        output, last = layer(x)
        return (output ** 3).sum() + states(last)

    def by_steps(x: aj.Tensor, *weights: aj.Tensor) -> Any:
        output, last = layer(nn.utils.rnn.pack_padded_sequence(x, [length] * 2))
        return (output.data ** 3).sum() + states(last)

    x = RNG.normal(size=(length, 2, 3))
    found = []
    for function in (whole, by_steps):
        given = aj.tensor(x, requires_grad=True)
        value = function(given)
        gradients = aj.autograd.grad(value, (given, *weights), create_graph=True)
        second = aj.autograd.grad(sum((gradient ** 2).sum() for gradient in gradients), (given, *weights))
        found.append([number.detach().numpy() for number in (value, *gradients, *second)])
        assert compiled
        if function is whole:
            compiled.clear()
            compiled += [Graph("known", (), (), ())]
    assert len(compiled) == 1
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-11, atol=1e-12)
    layer(aj.tensor(x[:2]))
    assert len(compiled) == 1


def test_lengths_of_loops() -> None:
    for steps in range(1, 2000):
        lengths = loop_lengths(steps)
        assert sum(lengths) == steps
        assert all(length in (16, 64, 256) for length in lengths[:-1])
        assert 0 < lengths[-1] < 2 * SHORT_LOOP


def test_recurrent_states_of_another_dtype() -> None:
    """A state that begins in a narrower dtype than the weights have is of theirs from the first step on."""
    layer, x = nn.GRU(3, 4, dtype="float64"), aj.tensor(RNG.normal(size=(5, 2, 3)))
    first = aj.tensor(RNG.normal(size=(1, 2, 4)).astype(np.float32))
    output, last = layer(x, first)
    assert output.dtype == last.dtype == aj.float64
    np.testing.assert_array_equal(output.detach().numpy(), layer(x, first.double())[0].detach().numpy())


def test_layouts_of_operands(compiled: list[Graph]) -> None:
    """Operands that are transposed, strided or not aligned are copied; those that are read-only are left alone."""
    x, w = RNG.normal(size=(4, 8, 32, 32)).astype(np.float32), RNG.normal(size=(16, 8, 3, 3)).astype(np.float32)
    expected = functional.conv2d(aj.tensor(x), aj.tensor(w)).numpy()
    assert compiled
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    odd[...] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    spread = np.repeat(x, 2, axis=3)[..., ::2]
    for given in (odd, fixed, spread):
        np.testing.assert_array_equal(functional.conv2d(aj.from_numpy(given), aj.tensor(w)).numpy(), expected)
    swapped = aj.tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).permute(0, 3, 1, 2)
    np.testing.assert_array_equal(functional.conv2d(swapped, aj.tensor(w)).numpy(), expected)


def test_bits_do_not_depend_on_threads(compiled: list[Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    function, shapes = FUNCTIONS["conv2d"]
    arrays = [RNG.normal(size=shape).astype(np.float32) for shape in shapes]
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("ADJIT_THREADS", threads)
        known_calls.clear()
        eager_program._compiled.cache_clear()
        found.append([derivatives(function, arrays) for _ in range(2)])
    for again in (found[0][1], *found[1]):
        for one, other in zip(found[0][0], again, strict=True):
            np.testing.assert_array_equal(one, other)
    eager_program._compiled.cache_clear()


def test_results_are_arrays_of_their_own(compiled: list[Graph]) -> None:
    """Programs of the same shapes share working memory, not results."""
    a, w = (aj.tensor(RNG.normal(size=shape)) for shape in ((4, 8, 32, 32), (8, 8, 3, 3)))
    first = functional.conv2d(a, w)
    before = first.numpy().copy()
    second = functional.conv2d(a + 1.0, w)
    second += 1.0
    np.testing.assert_array_equal(first.numpy(), before)
    assert compiled


def attention(q: Any, k: Any, v: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


SEVERAL: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "grid_sample": (lambda x, y: functional.grid_sample(x, y.tanh() * 1.2, align_corners=False), ((2, 3, 5, 5), (2, 4, 4, 2))),
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, (128,), w, b), ((64, 128), (128,), (128,))),
    "batch_norm": (lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True), ((8, 16, 9, 16), (16,), (16,))),
    "attention": (attention, ((2, 2, 64, 16),) * 3),
    "prelu": (functional.prelu, ((4, 16, 512), (16,))),     # a number for each channel
}


@pytest.mark.parametrize("name", SEVERAL)
def test_graphs_of_several_functions(name: str, compiled: list[Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves are programs: of many calls of NumPy, or of several that go through many elements."""
    function, shapes = SEVERAL[name]
    arrays = [RNG.normal(size=shape) for shape in shapes]

    def gradients() -> list[np.ndarray]:
        operands = [aj.tensor(array, requires_grad=True) for array in arrays]
        result = function(*operands)
        return [found.detach().numpy() for found in (result, *aj.autograd.grad((result ** 2).sum(), operands))]
    found = gradients()
    assert len(compiled) == 2
    known_calls.clear()
    monkeypatch.setattr(KernelCompiler, "compile_program", None)
    for number, expected in zip(found, gradients(), strict=True):
        np.testing.assert_allclose(number, expected, rtol=1e-11, atol=1e-12)


def test_working_memory_of_large_programs_is_given_back(compiled: list[Graph]) -> None:
    """There may be one for each shape of a batch."""
    operands = [aj.tensor(RNG.normal(size=(4, 4, 256, 16)).astype(np.float32)) for _ in range(3)]
    tracemalloc.start()
    try:
        attention(*operands)
        current, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert compiled
    assert peak > 4 * 4 * 256 * 256 * 4 > 4 * current


def test_indices_out_of_range() -> None:
    """Are NumPy's error, to which the caller adds the line."""
    builder = GraphBuilder("f")
    x, indices = builder.param(TensorType(F64, (4,))), builder.param(TensorType(I64, (2,)))
    with emitting(builder):
        graph = builder.build([ops.take(x, indices, axis=0)])
    run = eager_program.compile_program(graph)
    np.testing.assert_array_equal(run(np.arange(4.0), np.array([3, 0]))[0], [3.0, 0.0])
    with pytest.raises(IndexError, match="out of") as raised:
        run(np.arange(4.0), np.array([0, 7]))
    assert not isinstance(raised.value, IndexingError)


def test_small_operations_are_numpys(compiled: list[Graph]) -> None:
    functional.conv2d(aj.ones(1, 2, 8, 8), aj.ones(3, 2, 3, 3))
    functional.max_pool2d(aj.ones(1, 2, 8, 8), 2)
    assert not compiled


def test_what_cannot_be_compiled_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(graph: Graph) -> Any:
        raise UnsupportedError("too large")
    function, shapes = FUNCTIONS["conv_transpose1d"]
    arrays = [RNG.normal(size=shape) for shape in shapes]
    known_calls.clear()
    expected = derivatives(function, arrays)
    known_calls.clear()
    monkeypatch.setattr(KernelCompiler, "compile_program", staticmethod(refuse))
    for number, wanted in zip(derivatives(function, arrays), expected, strict=True):
        np.testing.assert_allclose(number, wanted, rtol=1e-12, atol=1e-12 * np.max(np.abs(wanted)))
    known_calls.clear()
