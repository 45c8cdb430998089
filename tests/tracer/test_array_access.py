"""Arrays that are inputs and read by Python as well: what Python read is compared at each call, what is only an input may change."""

from __future__ import annotations

import gc
import math
import os
import sys
import threading
from collections.abc import Callable
from hashlib import md5
from struct import unpack
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError
from adjit.tracer.guards.array_access import logging_access
from adjit.tracer.guards.content import ContentGuard
from adjit.tracer.trace import trace_function

W = np.array([1.0, 2.0, 3.0])


def data() -> np.ndarray:
    return np.array([1.0, 2.0, 4.0])


READS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "mean": lambda w, y: np.sum((w - y) ** 2) / np.sum((y - np.mean(y)) ** 2),
    "mean of a method": lambda w, y: np.sum(w * y) * y.mean(),
    "mask": lambda w, y: np.sum((w - y)[y > 1.5]),
    "not a number": lambda w, y: np.sum((w - y)[~np.isnan(y)]),
    "largest": lambda w, y: np.sum(w * y / y.max()),
    "product with itself": lambda w, y: w @ y + y.T @ y,
    "a decision": lambda w, y: np.sum(w * y) if y[0] > 1.5 else np.sum(w - y),
    "an item": lambda w, y: np.sum(w * y) * y[1],
    "a slice": lambda w, y: np.sum(w * y) * float(np.sum(y[1:])),
    "a view of a view": lambda w, y: np.sum(w * y) * y.reshape(3, 1)[1:].T.item(0, 0),
    "an integer array": lambda w, y: np.sum(w * y) * y[[0, 2]].sum(),
    "sorted": lambda w, y: np.sum(w * y) * sorted(y)[1],
    "iteration": lambda w, y: sum(float(a) * b for a, b in zip(y, w, strict=True)) + np.sum(w * y),
    "as a list": lambda w, y: np.sum(w * y) * y.tolist()[2],
    "np.array": lambda w, y: np.sum(w * y) * np.array([y, y]).sum(),
    "np.asarray": lambda w, y: np.sum(w * y) * np.asarray(y, dtype=np.float32)[0],
    "np.asarray, and an operator": lambda w, y: np.sum(w * y) * (np.asarray(y) + 1)[0],
    "copy": lambda w, y: np.sum(w * y) * y.copy()[0],
    "a ufunc's method": lambda w, y: np.sum(w * y) * np.add.reduce(y),
    "einsum": lambda w, y: np.sum(w * y) * np.einsum("i,i->", y, y),
    "where": lambda w, y: np.sum(w * np.where(y > 1.5, y, 0.0)),
    "concatenate": lambda w, y: np.sum(w * y) * np.concatenate([y, [1.0]])[0],
    "truth": lambda w, y: np.sum(w * y) * (2.0 if (y > 1.5).any() else 1.0),
    "contains": lambda w, y: np.sum(w * y) * (2.0 if 10.0 in y else 1.0),
    "text": lambda w, y: np.sum(w * y) * len(f"{y}"),
    "bytes": lambda w, y: np.sum(w * y) * y.tobytes()[7],
    "flat": lambda w, y: np.sum(w * y) * next(iter(y.flat)),
    "in place elsewhere": lambda w, y: np.sum(w * y) * np.add(y, 1.0, out=np.zeros(3))[0],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("backend", ["native", "interpret"])
@pytest.mark.parametrize("name", READS)
def test_what_python_reads_is_compared(name: str, backend: str) -> None:
    read, y = READS[name], data()
    compiled = aj.compile(lambda w: read(w, y), backend=backend)
    for content in ([1.0, 2.0, 4.0], [1.0, 2.0, 4.0], [10.0, 20.0, 60.0], [10.0, 0.5, 60.0], [1.0, 2.0, 4.0]):
        y[:] = content
        for _ in range(3):
            assert compiled(W) == pytest.approx(read(W, y), rel=1e-12)


def test_functions_in_c_read_arrays() -> None:
    """Also those that the tracer replaces, functions by another name than their module's, and arrays that stand for traced ones."""
    state = SimpleNamespace(y=data())
    reads = [lambda: max(state.y), lambda: min(state.y), lambda: math.fsum(state.y), lambda: math.dist(state.y, W), lambda: crc32(state.y),
             lambda: float(unpack("ddd", state.y)[0]), lambda: int.from_bytes(md5(state.y).digest()[:4], "big"),
             lambda: int.from_bytes(b"".join([state.y])[6:16], "big"),
             lambda: aj.tensor(state.y)[0].item(), lambda: float(aj.tensor([state.y, state.y])[1, 0])]

    def add(w: np.ndarray) -> np.ndarray:
        checksum = crc32(state.y)
        state.y += w
        return w * checksum

    def put(w: np.ndarray) -> np.ndarray:
        checksum = crc32(state.y)
        state.y = state.y + w
        return w * checksum

    compiled = [aj.compile(lambda w, read=read: w * read(), backend="interpret") for read in reads]
    for content in ([1.0, 2.0, 4.0], [10.0, 20.0, 60.0], [0.5, 2.0, 60.0]):
        state.y[:] = content
        for function, read in zip(compiled, reads, strict=True):
            np.testing.assert_array_equal(function(W), W * read())
    adding = aj.compile(add, backend="interpret")
    for _ in range(3):
        expected = W * crc32(state.y)
        np.testing.assert_array_equal(adding(W), expected)
    with pytest.raises(TraceError, match="written in C"):
        aj.compile(put, backend="interpret")(W)


ONLY_INPUTS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "operators": lambda w, y: np.sum((w - y) ** 2 * y),
    "functions": lambda w, y: np.dot(y, w) + np.sum(np.where(w > 0, y, w)),
    "views": lambda w, y: np.sum(w[1:] * y[1:]) + np.sum(w * y[::-1]) + np.sum(w[:, None] * y.reshape(1, 3)),
    "transposed": lambda w, y: np.sum(y.reshape(3, 1).T @ w),
    "form": lambda w, y: np.sum(w * y) * len(y) * y.shape[0] * y.ndim * y.size + y.dtype.itemsize,
    "np.asarray": lambda w, y: np.sum(w * np.asarray(y)),
    "an inner function": lambda w, y: aj.grad(lambda v: np.sum(v * y * v))(w).sum(),
    "zeros_like": lambda w, y: np.sum(w * y + np.zeros_like(y)),
    "ufunc with a scalar": lambda w, y: np.sum(np.maximum(w, y)),
}


@pytest.mark.parametrize("name", ONLY_INPUTS)
def test_what_is_only_an_input_may_change(name: str) -> None:
    read, y = ONLY_INPUTS[name], data()
    compiled = aj.compile(lambda w: read(w, y))
    for content in ([1.0, 2.0, 4.0], [10.0, 20.0, 60.0], [1.5, 0.5, 60.0]):
        y[:] = content
        for _ in range(3):
            assert compiled(W) == pytest.approx(read(W, y), rel=1e-12)
    assert compiled.cache_info().traces == 1


def test_an_input_that_python_reads_may_be_bound_to_an_equal_one() -> None:
    y = data()
    compiled = aj.compile(lambda w: np.sum(w * y) * np.mean(y))
    compiled(W)
    y = data()
    assert compiled(W) == np.sum(W * y) * np.mean(y)
    assert compiled.cache_info().traces == 1
    y = 2 * data()
    assert compiled(W) == np.sum(W * y) * np.mean(y)
    assert compiled.cache_info().traces == 2


def test_one_element_of_a_large_array() -> None:
    y = np.zeros(50_000)
    compiled = aj.compile(lambda w: np.sum(w) * (1 + np.mean(y)))
    for _ in range(5):
        compiled(W)
    for place in (0, 1666, 25_001, 49_999):
        y[place] += 1e6
        for _ in range(3):
            assert compiled(W) == pytest.approx(np.sum(W) * (1 + np.mean(y)))


def test_elements_that_change_places() -> None:
    y = np.arange(1000.0)
    compiled = aj.compile(lambda w: w * y[7] + y.sum())
    for _ in range(5):
        compiled(1.0)
    for first, second in ((7, 8), (7, 39), (7, 519), (0, 999)):
        y[[first, second]] = y[[second, first]]
        assert compiled(1.0) == y[7] + y.sum()


@pytest.mark.parametrize("make", [
    lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)), lambda: np.arange(12.0).reshape(3, 4)[::2, ::3],
    lambda: np.arange(6).astype(">i4"), lambda: np.array(3.0), lambda: np.zeros((0, 3)), lambda: np.arange(6.0)[::-1],
    lambda: np.arange(3, dtype=np.uint8),
    lambda: np.array([True, False])])
def test_arrays_of_any_form(make: Callable[[], np.ndarray]) -> None:
    y = make()
    compiled = aj.compile(lambda w: np.sum(w) * float(np.sum(y)) + y.size)
    for _ in range(4):
        assert compiled(W) == np.sum(W) * float(np.sum(y)) + y.size
    y[...] = 1
    for _ in range(4):
        assert compiled(W) == np.sum(W) * float(np.sum(y)) + y.size
    assert compiled.cache_info().traces == (2 if y.size else 1)


def test_a_buffer_that_the_function_fills_and_reads() -> None:
    buffer = np.zeros(3)

    def fun(w: Any) -> Any:
        buffer[:] = 2.0
        return w * float(buffer[1])

    compiled = aj.compile(fun)
    assert [compiled(1.0) for _ in range(4)] == [2.0] * 4
    buffer[:] = 5.0
    assert compiled(1.0) == 2.0
    assert buffer.tolist() == [2.0] * 3
    assert compiled.cache_info().traces == 1        # every call fills it before what it reads


def test_a_counter_in_an_array_counts() -> None:
    counter = np.zeros(1)

    def fun(w: Any) -> Any:
        counter[0] += 1
        return w * float(counter[0])

    compiled = aj.compile(fun)
    assert [compiled(1.0) for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_arrays_are_themselves_again_after_a_trace() -> None:
    y, of = data(), np.arange(10.0)
    view, kept = of[2:5], []

    def fun(w: Any) -> Any:
        kept.append((y[1:], y.T, of.reshape(2, 5), np.zeros_like(y), y[y > 1.5]))
        gc.collect()
        assert isinstance(y, np.ndarray)
        assert y.__class__ is np.ndarray
        return np.sum(w * y * view) + y.sum()

    def failing(w: Any) -> Any:
        y.sum()
        raise KeyError

    asarray = np.asarray
    aj.compile(fun)(W)
    with pytest.raises(KeyError):
        aj.compile(failing)(W)
    assert all(type(array) is np.ndarray for array in (y, of, view, *kept[0]))
    assert np.asarray is asarray
    assert sys.getrefcount(y) < 20


def test_two_threads_observe_the_same_array() -> None:
    y, errors = data(), []
    inside = threading.Barrier(2, timeout=20)

    def work(factor: float) -> None:
        def fun(w: Any) -> Any:
            inside.wait()
            read = y.sum()
            inside.wait()
            return np.sum(w * y) * read * factor
        try:
            assert aj.compile(fun)(W) == pytest.approx(np.sum(W * y) * y.sum() * factor)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (1.0, 2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert type(y) is np.ndarray


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_is_forked_during_a_trace_has_ordinary_arrays() -> None:
    y = data()
    inside, done = threading.Event(), threading.Event()

    def fun(w: Any) -> Any:
        inside.set()
        done.wait(20)
        return np.sum(w * y)

    thread = threading.Thread(target=trace_function, args=(fun, (W,), {}))       # forks wait for compilations
    thread.start()
    inside.wait(20)
    assert type(y) is not np.ndarray
    child = os.fork()
    if not child:
        os._exit(0 if type(y) is np.ndarray and y.sum() == 7.0 else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert type(y) is np.ndarray


def test_a_memory_map_is_observed(tmp_path: Any) -> None:
    y = np.memmap(tmp_path / "y", np.float64, "w+", shape=(3,))
    y[:] = data()
    traced = aj.compile(lambda w: np.sum(w * y))
    read = aj.compile(lambda w: np.sum(w * y) * y[0])
    for content in ([1.0, 2.0, 4.0], [3.0, 2.0, 4.0]):
        y[:] = content
        for _ in range(3):
            assert traced(W) == np.sum(W * y)
            assert read(W) == np.sum(W * y) * y[0]
    assert (traced.cache_info().traces, read.cache_info().traces) == (1, 2)
    assert type(y) is np.memmap


@pytest.mark.parametrize("use", [
    lambda y, x: y.reshape(3, 1).dot(x[:1]), lambda y, x: y.T.dot(x), lambda y, x: y[1:].dot(x[1:]), lambda y, x: y.clip(x[0], x[1]),
    lambda y, x: y.searchsorted(x), lambda y, x: y.sum(where=x > 1.5), lambda y, x: y.compress(x > 0.7), lambda y, x: y.round(1).dot(x)])
def test_methods_that_are_given_a_traced_array(use: Callable[..., Any]) -> None:
    y = data()
    compiled = aj.compile(lambda x: use(y, x))
    for x in (np.array([0.5, 1.5, 2.5]), np.array([1.0, 2.5, 3.0])):
        np.testing.assert_array_equal(compiled(x), use(y, x))
    y[:] = [2.0, 5.0, 6.0]
    np.testing.assert_array_equal(compiled(x), use(y, x))


def test_what_is_noted() -> None:
    y, other = data(), data()
    with logging_access([y, other]) as observation:
        assert y.shape == (3,)
        assert len(y[1:]) == 2
        assert not observation.read
        assert y[1:][0] == 2.0
    assert observation.read == {id(y)}
    with logging_access([y]) as observation:
        y[0] = 5.0
    assert not observation.read
    assert ContentGuard("y", y).holds()
    assert not ContentGuard("y", y, observation.checksums[id(y)]).holds()        # of what it held before
