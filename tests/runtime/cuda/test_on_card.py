"""A card against the emulated device, bit for bit: `make test-cuda` where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.device_runs import device_cases, executable_of, run_on_device, same_bits
from support.each import for_each
from support.op_cases import sample_graph
from support.random_loops import compare

import adjit as aj
from adjit.errors import IndexingError, UnsupportedError
from adjit.ir.definition import OpDefinition, Sample
from adjit.runtime.cuda import devices
from adjit.runtime.cuda.device_executable import DeviceExecutable
from adjit.runtime.cuda.driver import Driver
from adjit.runtime.native.code import native_is_supported

PARTS = 8


@cache
def card() -> Driver | None:
    try:
        return Driver()
    except UnsupportedError:
        return None


pytestmark = pytest.mark.skipif(card() is None or not native_is_supported(), reason="needs an NVIDIA GPU: make test-cuda")


@pytest.fixture(autouse=True)
def on_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJIT_CUDA", raising=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_bits_are_those_of_the_emulated_device(part: int) -> None:
    def check(definition: OpDefinition, sample: Sample) -> None:
        compare_drivers(definition, sample, card())

    for_each(((name, (definition, sample)) for name, definition, sample in device_cases(True, 1)[part::PARTS]), check)


def compare_drivers(definition: OpDefinition, sample: Sample, other: Any) -> None:
    """Run a sample on the emulated device and on another one; twice there, as bits are the same in every run."""
    graph = sample_graph(definition, sample)
    arrays = [np.array(array, order="C") for array in sample.arrays]
    expected = run_on_device(graph, arrays)
    executable: DeviceExecutable = executable_of(graph, other)
    for _ in range(2):
        found = [np.asarray(array) for array in executable.run(arrays, arrays)]
        assert all(map(same_bits, found, expected)), "other bits than those of the emulated device"


@pytest.mark.parametrize("seed", range(300, 312))
def test_random_nests_of_loops(seed: int) -> None:
    compare(seed, 2, device="cuda")


@pytest.mark.parametrize(("precision", "error"), [("high", 1e-5), ("tf32", 1e-3), ("bf16", 1e-2)])
def test_products_in_fewer_digits(precision: str, error: float) -> None:
    """Bits may be others than those of the emulated device: cards add in an order of their own. They are the same in every run."""
    rng = np.random.default_rng(5)
    for rows, inner, columns in ((33, 50, 18), (1024, 512, 2048)):
        x, w = rng.standard_normal((rows, inner), np.float32), rng.standard_normal((inner, columns), np.float32)
        product, exact = aj.compile(lambda x, w: x @ w, device="cuda", matmul_precision=precision), x.astype(float) @ w
        first, second = (np.asarray(product(x, w)) for _ in range(2))
        assert same_bits(first, second)
        assert np.abs(first - exact).max() < error * np.abs(exact).max()


def test_a_bad_index_leaves_the_card_as_it_was() -> None:
    function, w = aj.compile(lambda w, x, i: (w + 1, x[i]), device="cuda", donate="w"), aj.device_put(np.zeros(3))
    _, rows = function(w, np.ones(4), np.array([0, 7]))
    with pytest.raises(IndexingError):
        np.asarray(rows)
    assert np.asarray(w).tolist() == [0, 0, 0]
    assert function(w, np.ones(4), np.array([0, 3]))[0] is w


def test_loops_stay_on_the_card() -> None:
    """Rounds, branches and a bad index in a loop; a driver from CUDA 12.4 on runs them as one graph, and finds the index by itself."""
    def walked(x: Any, steps: Any) -> Any:
        def body(c: Any, i: Any) -> Any:
            grown = aj.while_loop(lambda c: c < 3, lambda c: c * 1.7 + x[i], c)
            return aj.cond(grown > 4, lambda c: c - x[i] * 3, lambda c: c / 3, grown), grown
        return aj.scan(body, 0.1, steps)

    x, steps = np.linspace(0.3, 1.2, 4), np.array([0, 3, 1, 2, 3])
    function = aj.compile(walked, device="cuda", threads=1)
    for _ in range(4):
        for found, expected in zip(function(x, steps), walked_here(x, steps), strict=True):
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
    with pytest.raises(IndexingError, match="index 4 is out of bounds"):
        np.asarray(function(x, np.array([0, 4, 1, 2, 3]))[0])
    assert devices.driver().has_conditional_nodes == ("branches that stay on the device" in function.explain(x, steps))


def walked_here(x: Any, steps: Any) -> Any:
    c, rows = 0.1, []
    for i in steps:
        while c < 3:
            c = c * 1.7 + x[i]
        rows.append(c)
        c = c - x[i] * 3 if c > 4 else c / 3
    return c, np.array(rows)


def test_out_of_memory_is_an_error_and_no_end() -> None:
    with pytest.raises(MemoryError, match="out of memory"):
        devices.driver().allocate(1 << 46)
    assert float(aj.compile(lambda x: x.sum(), device="cuda")(np.ones(3))) == 3


def test_pytorch_reads_the_memory() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    made = aj.compile(lambda x: x * 2, device="cuda")(np.arange(1000.0))
    assert torch.as_tensor(made, device="cuda").sum().item() == 999000


def test_pytorch_gives_and_takes_by_dlpack() -> None:
    """On a stream of its own, each waits for the other: the sums are of what was computed last."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    double, total = aj.compile(lambda x: x * 2 + 1), aj.compile(lambda x: x.sum())
    side = torch.cuda.Stream()
    for size in (1000, 1_000_000):
        with torch.cuda.stream(side):
            given = torch.arange(size, dtype=torch.float64, device="cuda") * 1.0
            taken = torch.from_dlpack(double(given))
            assert taken.sum().item() == size * size
            assert float(total(taken * 3)) == 3 * size * size
        tensor = aj.from_dlpack(given)
        tensor += 1
        aj.cuda.synchronize()
        assert given.sum().item() == size * (size + 1) / 2
        assert torch.from_dlpack(tensor).data_ptr() == given.data_ptr() == tensor.data_ptr()


_BEGIN = """
import os, numpy as np, adjit as aj
def squared(x):
    return (x * x).sum() + np.tanh(x).max()
function, x = aj.compile(squared, device="cuda"), aj.device_put(np.linspace(0, 1, 5000).astype(np.float32))
"""
_TWICE = _BEGIN + "print(float.hex([float(function(x)) for _ in range(200)][-1]))"
_FAULT = _BEGIN + """
function(x)
x._buffer.address = 64
try:
    y = function(x)
    float(y)
except Exception as error:
    print(type(error).__name__, error)
os._exit(0)         # this process has lost the card
"""
_FORK = _BEGIN + """
function(x)
if not os.fork():
    try:
        float(function(x))
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
print(float(function(x)) > 0)
"""


def start(code: str, **variables: str) -> subprocess.Popen[str]:
    """A process of its own, on the card."""
    environment = {name: value for name, value in os.environ.items() if name != "ADJIT_CUDA"}
    return subprocess.Popen([sys.executable, "-c", code], env=environment | variables, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_the_card() -> None:
    first, second = (process.communicate(timeout=120)[0] for process in (start(_TWICE), start(_TWICE)))
    assert first == second != ""


@pytest.mark.parametrize(("variables", "words"), [({}, "the last program launched is squared"), ({"ADJIT_CUDA_SYNC": "1"}, "of squared")])
def test_a_kernel_that_faults_is_named(variables: dict[str, str], words: str) -> None:
    output, _ = start(_FAULT, **variables).communicate(timeout=120)
    assert "CudaError" in output
    assert words in output


def test_a_process_that_was_forked_is_refused() -> None:
    output, _ = start(_FORK).communicate(timeout=120)
    assert "before this process was forked" in output
    assert output.endswith("True\n")


def test_times_registers_and_memory_are_those_of_the_card() -> None:
    function, x = aj.compile(lambda x: np.exp(x).sum(0), device="cuda"), aj.device_put(np.ones((1000, 1000), np.float32))
    assert 0 < function.profile(x).milliseconds < 10
    assert all("registers a thread" in text for text in function.kernels(x).values())
    memory = aj.cuda.memory()
    assert x.nbytes <= memory.used <= memory.reserved <= memory.total


def test_training_steps_have_the_bits_of_the_emulated_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def losses() -> list[float]:
        aj.manual_seed(0)
        model = aj.nn.Sequential(aj.nn.Linear(20, 16), aj.nn.GELU(), aj.nn.Linear(16, 3)).to("cuda")
        optimizer = aj.optim.Adam(model.parameters(), lr=1e-2)
        x = aj.tensor(np.linspace(-1, 1, 240).reshape(12, 20), dtype="float32", device="cuda")

        @aj.compile
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        found = [step(x).item() for _ in range(5)]
        step.export(tmp_path / "step.adjit", x)
        loaded = aj.load(tmp_path / "step.adjit")
        return [*found, *(float(loaded(x.cpu().numpy())) for _ in range(3))]

    there = losses()
    monkeypatch.setenv("ADJIT_CUDA", "emulated")
    assert there == losses()
