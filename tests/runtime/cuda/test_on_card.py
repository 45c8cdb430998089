"""A card against the emulated device, bit for bit: `make test-cuda` where there is one."""

from __future__ import annotations

from functools import cache
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


def test_a_bad_index_leaves_the_card_as_it_was() -> None:
    function, w = aj.compile(lambda w, x, i: (w + 1, x[i]), device="cuda", donate="w"), aj.device_put(np.zeros(3))
    with pytest.raises(IndexingError):
        function(w, np.ones(4), np.array([0, 7]))
    assert np.asarray(w).tolist() == [0, 0, 0]
    assert function(w, np.ones(4), np.array([0, 3]))[0] is w


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
