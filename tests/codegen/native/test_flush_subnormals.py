"""`aj.compile(flush_subnormals=True)`: subnormal numbers are zeros within the program, and nowhere else."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.llvm.target import NEON
from adjit.codegen.native.program import lower_program
from adjit.ir.errors import UnsupportedError
from adjit.runtime import settings
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")
SUBNORMAL = {np.float32: np.float32(1e-40), np.float64: np.float64(1e-310)}
FLAGS = 0x3F        # what went wrong so far: any arithmetic changes these bits
FLUSHING, UPWARD = 0x8040, 0x4000


class Environment:
    """The floating-point environment of this thread, as the C library gives it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libm.so.6")
        self._buffer = (ctypes.c_uint32 * 8)()

    @property
    def control(self) -> int:
        self._library.fegetenv(self._buffer)
        return self._buffer[7] & ~FLAGS

    @control.setter
    def control(self, word: int) -> None:
        self._library.fegetenv(self._buffer)
        self._buffer[7] = word
        self._library.fesetenv(self._buffer)


@pytest.fixture
def environment() -> Iterator[Environment]:
    found = Environment()
    before = found.control
    yield found
    found.control = before


def with_and_without(function: Callable[..., Any], **options: Any) -> tuple[Any, Any]:
    return tuple(aj.compile(function, backend="native", flush_subnormals=flush, **options) for flush in (True, False))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", SUBNORMAL)
def test_operands_and_results_are_zeros(dtype: type, threads: int, environment: Environment) -> None:
    flushing, plain = with_and_without(lambda small, x: (small * 4, x * x), threads=threads)
    before = environment.control
    small, x = np.full(1 << 19, SUBNORMAL[dtype]), np.full(1 << 19, np.sqrt(np.finfo(dtype).tiny) / 4, dtype)
    for _ in range(4):          # the last by way of the native entry; threads of the pool belong to both programs, in turns
        assert [np.count_nonzero(result) for result in flushing(small, x)] == [0, 0]
        for result, wanted in zip(plain(small, x), (small * 4, x * x), strict=True):
            assert np.all(wanted > 0)
            assert result.tobytes() == wanted.tobytes()
    assert environment.control == before


@pytest.mark.parametrize("control", [0x1F80 | FLUSHING, 0x1F80 | UPWARD, 0x1F80])
def test_the_callers_environment_is_as_before(control: int, environment: Environment) -> None:
    table, rows = np.array([1.0, 1e-310]), np.array([0, 1])
    flushing, plain = with_and_without(lambda table, rows: table[rows] * 3)
    for function in (flushing, plain, flushing, plain, flushing, plain):
        function(table, rows)
    environment.control = control
    flushed, kept = flushing(table, rows), plain(table, rows)
    assert environment.control == control
    with pytest.raises(IndexError):
        flushing(table, np.array([0, 2]))
    assert environment.control == control
    environment.control = 0x1F80
    assert flushed[1] == 0
    assert (kept[1] == 0) == bool(control & FLUSHING)       # NumPy's meaning is that of the environment
    assert (table * 3)[1] > 0


def test_loops_and_panels() -> None:
    def halvings(x):
        return aj.scan(lambda x, _: (x / 2, None), x, None, length=20)[0]

    def until_small(x):
        return aj.while_loop(lambda state: np.max(state[0]) > 0, lambda state: (state[0] / 2, state[1] + 1), (x, 0.0))[1]
    x = np.full(5, 2.0 ** -1010)
    flushing, plain = with_and_without(halvings)
    assert np.all(flushing(x) == 0)
    assert np.all(plain(x) == x * 2.0 ** -20)
    assert [function(x) for function in with_and_without(until_small)] == [13, 65]

    def layers(x, w):
        for _ in range(3):
            x = np.maximum(x @ w, 0)
        return x
    rng = np.random.default_rng(0)
    x, w = rng.uniform(1, 2, (4096, 64)).astype("f"), (rng.uniform(0, 1, (64, 64)) * 1e-14).astype("f")
    flushing, plain = with_and_without(layers, threads=2)
    assert "tiled" in flushing.ir("planned", x, w)
    assert np.all(plain(x, w) > 0)
    assert np.all(flushing(x, w) == 0)


def test_functions_of_subnormals_are_those_of_zeros() -> None:
    functions = (np.exp, np.expm1, np.log, np.log1p, np.sqrt, np.sin, np.tanh, np.arctan, np.cbrt, aj.special.erf, aj.special.gammaln,
                 lambda x: 1 / x, lambda x: x ** 1.5, lambda x: np.sum(x), np.max, lambda x: x == 0, lambda x: x > 0)
    for dtype, subnormal in SUBNORMAL.items():
        for function in functions:
            flushing, plain = with_and_without(function)
            x = np.full(9, subnormal, dtype)
            with np.errstate(all="ignore"):
                got = np.abs(flushing(x))       # what is chosen, and not computed, may be the number itself
                np.testing.assert_array_equal(np.where(got == subnormal, 0, got), np.abs(plain(np.zeros_like(x))))


def test_training_steps_and_both_halves() -> None:
    def trained(flush: bool) -> np.ndarray:
        model = aj.nn.Linear(3, 1, bias=False)
        optimizer = aj.optim.SGD(model.parameters(), lr=1.0)
        with aj.no_grad():
            model.weight[...] = 0.0

        @aj.compile(flush_subnormals=flush)
        def step(x):
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss
        for _ in range(3):
            step(aj.full((4, 3), 1e-40))
        return model.weight.detach().numpy()
    assert np.all(trained(True) == 0)
    assert np.all(trained(False) < 0)

    for flush in (True, False):
        x = aj.tensor([1e-30, 1.0], requires_grad=True)
        square = aj.compile(lambda x: (x * 1e-12).sum(), flush_subnormals=flush)
        square(x).backward(aj.tensor(1e-30))
        assert np.all(x.grad.numpy() == 0) == flush


def test_reports_know() -> None:
    x = np.full(8, 1e-310)
    flushing, plain = with_and_without(lambda x: x * 2)
    flushing(x), plain(x)
    assert "subnormal numbers are zeros" in flushing.explain()
    assert "subnormal" not in plain.explain()
    assert len(flushing.profile(x).entries) == 1        # the timed program is another text
    assert "stmxcsr" in flushing.program(flushing.fun, (), {}).executable.program.text
    assert "stmxcsr" not in plain.program(plain.fun, (), {}).executable.program.text


def test_the_disk_cache_knows_them_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path))
    x = np.full(8, 1e-310)
    for _ in range(2):          # compiled, then found
        flushing, plain = with_and_without(lambda x: x * 2)
        assert np.all(flushing(x) == 0)
        assert np.all(plain(x) == x * 2)
        assert "subnormal numbers are zeros" in flushing.explain()
    assert "found by the traced graph" in flushing.explain()


def test_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: Environment) -> None:
    x = np.full(8, 1e-310)
    before = environment.control
    for function, flush in zip(with_and_without(lambda x: x * 2), (True, False), strict=True):
        path = tmp_path / f"{flush}.adjit"
        function.export(path, x)
        assert np.all(aj.load(path)(x) == 0) == flush
        with monkeypatch.context() as patch:        # code for no level of the file: compiled from its graph
            patch.setenv(settings.TARGET.variable, "sse2")
            loaded = aj.load(path)
            assert np.all(loaded(x) == 0) == flush
        functions = aj.compile(lambda x: np.sum(x * 2), backend="native", flush_subnormals=flush).as_callable(x)
        assert (functions.value(8, (ctypes.c_double * 8)(*x), None) == 0) == flush
        if shutil.which("cc"):
            function.export(tmp_path / f"double_{flush}.so", x)
            assert ("subnormal numbers are zeros" in (tmp_path / f"double_{flush}.h").read_text()) == flush
            library = ctypes.CDLL(str(tmp_path / f"double_{flush}.so"))
            result, arena = np.ones(8), np.zeros(4096 + 64, np.uint8)
            arrays = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, result)]
            run = getattr(library, f"double_{flush}_run")
            assert run(*arrays, ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % 64)) == 0
            assert np.all(result == 0) == flush
        planned = function.program(function.fun, (x,), {}).planned
        assert ("fpcr" in lower_program(planned, NEON, flush_subnormals=flush).text) == flush
        function.export(tmp_path / "arm.o", x, target="aarch64-linux-gnu")
    assert environment.control == before


def test_other_backends_refuse_or_ignore_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in ("numba", "interpret"):
        with pytest.raises(UnsupportedError, match="cannot flush subnormal"):
            aj.compile(lambda x: x, backend=backend, flush_subnormals=True)
    monkeypatch.setenv(settings.BACKEND.variable, "interpret")
    assert aj.compile(lambda x: x * 2, flush_subnormals=True)(np.full(2, 1e-310))[0] > 0
    assert aj.compile(flush_subnormals=True)(lambda x: x).compile_options.flush_subnormals
