"""The emulated device notices what a card would pass over in silence, or hang on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from adjit.codegen.cuda.emulated import EmulatedKernel, EmulationError
from adjit.codegen.cuda.text import FOUR_FLOATS, KernelText
from adjit.ir.types import F32, F64
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="the emulated device is for CPython on Linux on x86-64")

Body = Callable[[KernelText, str, str, str], None]


def run(body: Body, threads: int = 64, preempt: int = 0) -> np.ndarray:
    """What a kernel leaves in 64 numbers, given 64 others; `body` gets the text, both pointers and the number of the thread."""
    text = KernelText(threads)
    source, target = text.pointer("read"), text.pointer("write")
    body(text, source, target, text.thread())
    memory = np.arange(130, dtype=np.float32)
    given, found = memory[:64], np.zeros(64, np.float32)
    EmulatedKernel(text.kernel("test")).launch(1, [(given.ctypes.data, 256), (found.ctypes.data, 256)], (), preempt=preempt)
    return found


def half_of_threads(text: KernelText, thread: str) -> str:
    return text.compare("slt", thread, 16)


def misses_a_barrier(text: KernelText, source: str, target: str, thread: str) -> None:
    with text.where(half_of_threads(text, thread)):
        text.barrier()


def misses_a_shuffle(text: KernelText, source: str, target: str, thread: str) -> None:
    with text.where(half_of_threads(text, thread)):
        text.write([text.exchanged("0x0000000000000000", F32, 1)], target, F32, thread)


def misses_a_product_of_the_warp(text: KernelText, source: str, target: str, thread: str) -> None:
    with text.where(half_of_threads(text, thread)):
        text.call(FOUR_FLOATS, "@llvm.nvvm.mma.m16n8k8.row.col.tf32", *[("i32", 0)] * 6, *[("float", "0x0000000000000000")] * 4)


def writes_to_an_operand(text: KernelText, source: str, target: str, thread: str) -> None:
    text.write(text.read(target, F32, thread), source, F32, thread)


def reads_behind_the_end(text: KernelText, source: str, target: str, thread: str) -> None:
    text.write(text.read(source, F32, text.plus(thread, 1)), target, F32, thread)


def reads_before_the_beginning(text: KernelText, source: str, target: str, thread: str) -> None:
    text.write(text.read(source, F32, text.plus(thread, -1)), target, F32, thread)


def reads_unaligned(text: KernelText, source: str, target: str, thread: str) -> None:
    place = text.place(source, F32, 1)
    text.write([text.convert("fptrunc", "double", text.read(place, F64)[0], "float")], target, F32, thread)


def waits_for_different_things(text: KernelText, source: str, target: str, thread: str) -> None:
    condition = half_of_threads(text, thread)
    with text.where(condition):
        text.barrier()
    with text.where(text.not_(condition)):
        text.write([text.exchanged("0x0000000000000000", F32, 1)], target, F32, thread)
        text.barrier()


@pytest.mark.parametrize(("body", "message"), [
    (misses_a_barrier, "a barrier that some threads of the block do not reach"),
    (misses_a_shuffle, "a shuffle or product that some lanes of the warp do not reach|threads wait for different things"),
    (misses_a_product_of_the_warp, "a shuffle or product that some lanes of the warp do not reach|threads wait for different things"),
    (writes_to_an_operand, "outside of the memory of the launch, or a write to memory that is only read: block 0, thread 0, 0 bytes"),
    (reads_behind_the_end, "outside of the memory .* thread 63, 256 bytes from where parameter 0 begins"),
    (reads_before_the_beginning, "outside of the memory .* thread 0, -4 bytes from where parameter 0 begins"),
    (reads_unaligned, "an access that is not aligned"),
    (waits_for_different_things, "threads wait for different things"),
])
def test_what_a_card_would_not_say(body: Body, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(body)


def turned(text: KernelText, source: str, target: str, thread: str) -> None:
    """Neighbours exchange, then the block turns its numbers around in shared memory."""
    start = text.reserve_shared(64 * 4)
    (value,) = text.read(source, F32, thread)
    moved = text.exchanged(value, F32, 1)
    text.do(f"store float {moved}, ptr addrspace(3) {text.shared_place(start, 'float', thread)}, align 4")
    text.barrier()
    other = text.let(f"load float, ptr addrspace(3) {text.shared_place(start, 'float', text.sub(63, thread))}, align 4")
    text.write([other], target, F32, thread)


def without_its_barrier(text: KernelText, source: str, target: str, thread: str) -> None:
    turned(text, source, target, thread)
    text.lines = [line for line in text.lines if "barrier0" not in line]


@pytest.mark.parametrize("preempt", [0, 1, 4])
def test_threads_run_in_any_order_between_barriers(preempt: int) -> None:
    expected = np.arange(64, dtype=np.float32).reshape(32, 2)[:, ::-1].reshape(-1)[::-1]
    np.testing.assert_array_equal(run(turned, preempt=preempt), expected)
    assert not np.array_equal(run(without_its_barrier, preempt=preempt), expected)
