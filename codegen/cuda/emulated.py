"""The emulated device: the LLVM text of kernels, compiled for this processor as it is. Threads are fibres; warps and blocks wait for each
other as on a device.

Only the names of NVVM's intrinsics lead to functions of the emulator, and a check precedes every access to the device's memory: it has to
lie in what the launch was given for a parameter, aligned, and may be written only where that is a result or scratch memory. A barrier that
not all threads of a block reach, or a shuffle that not all lanes of a warp reach, ends the launch with an error in place of hanging. Blocks
run one after the other, in any order: results that change with it are a race between blocks.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Sequence
from functools import cache

import numpy as np

from adjit.codegen.cuda.emulator_text import (
    ERRORS,
    FUNCTIONS,
    MAX_SHARED_BYTES,
    STACK_BYTES,
    TABLE,
    WORDS,
    emulator_text,
)
from adjit.codegen.cuda.kernel import Kernel
from adjit.codegen.cuda.target import MAX_THREADS
from adjit.codegen.cuda.text import FOUR_FLOATS
from adjit.codegen.llvm.link import CompiledObject, LoadedKernel, load
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import Target, host_target
from adjit.codegen.process.off_main_thread import off_main_thread

_RENAMED = {"llvm.nvvm.read.ptx.sreg.tid.x": "thread", "llvm.nvvm.read.ptx.sreg.ctaid.x": "block", "llvm.nvvm.barrier0": "barrier",
            "llvm.nvvm.shfl.sync.bfly.i32": "shuffle", "llvm.nvvm.f2tf32.rna": "tf32", "llvm.nvvm.ff2bf16x2.rn": "bf16",
            "llvm.nvvm.mma.m16n8k8.row.col.tf32": "mma_tf32", "llvm.nvvm.mma.m16n8k16.row.col.bf16": "mma_bf16",
            "cudaGraphSetConditional": "condition"}
"""Functions of the emulator in place of intrinsics."""

_PREFIX = "adjit_emulated."
_ACCESS = re.compile(r"^  (?:%\S+ = load (?P<loaded>[^,]+)|store (?P<stored><[^>]*(?:<[^>]*>)?[^>]*>|\S+) \S+), "
                     r"ptr addrspace\((?P<space>[13])\) (?P<place>\S+), align (?P<align>\d+)", re.M)
_ELEMENT_BYTES = {"float": 4, "double": 8, "i1": 1}


class EmulationError(RuntimeError):
    """What a device would do in silence: an access outside of a launch's memory, a barrier that some threads miss."""


def _size(type: str) -> int:
    vector = re.fullmatch(r"<(\d+) x (.+)>", type)
    if vector:
        return int(vector[1]) * _size(vector[2])
    return _ELEMENT_BYTES.get(type) or int(type[1:]) // 8


def text_for_processor(kernel: Kernel) -> str:
    """The module of a kernel for this processor, with an entry that takes an array of arguments."""
    def checked(match: re.Match[str]) -> str:
        size, write = _size(match["loaded"] or match["stored"]), "true" if match["stored"] else "false"
        return f"  call void @{_PREFIX}access(ptr {match['place']}, i64 {size}, i64 {match['align']}, i1 {write})\n{match[0]}"

    text = _ACCESS.sub(checked, kernel.text)
    text = re.sub(r"^(?:target |declare .*@(?:llvm\.nvvm\.|cudaGraph)|!nvvm|!10 ).*\n", "", text, flags=re.M)
    for name, function in _RENAMED.items():
        text = text.replace(f"@{name}(", f"@{_PREFIX}{function}(")
    text = re.sub(rf"^@{kernel.name}\.shared = .*$", f"@{_PREFIX}shared = external global i8", text, flags=re.M)
    text = text.replace(f"@{kernel.name}.shared", f"@{_PREFIX}shared")
    text = re.sub(r" ?addrspace\(\d\)", "", text).replace("ptx_kernel ", "internal ").replace(", !invariant.load !9", "")
    types = [*["ptr"] * len(kernel.pointers), *["i64"] * kernel.numbers]
    loads = "\n".join(f"  %at{i} = getelementptr i64, ptr %arguments, i64 {i}\n  %a{i} = load {type}, ptr %at{i}"
                      for i, type in enumerate(types))
    passed = ", ".join(f"{type} %a{i}" for i, type in enumerate(types))
    declared = [f"declare i32 @{_PREFIX}thread()", f"declare i32 @{_PREFIX}block()", f"declare void @{_PREFIX}barrier()",
                f"declare i32 @{_PREFIX}shuffle(i32, i32, i32, i32)", f"declare void @{_PREFIX}access(ptr, i64, i64, i1)",
                f"declare void @{_PREFIX}condition(i64, i32)",
                f"declare i32 @{_PREFIX}tf32(float)", f"declare <2 x bfloat> @{_PREFIX}bf16(float, float)",
                *(f"declare {FOUR_FLOATS} @{_PREFIX}mma_{kind}({', '.join([*['i32'] * WORDS, *['float'] * 4])})"
                  for kind in ("tf32", "bf16"))]
    return "\n".join([*declared, text, f"define void @{kernel.name}.entry(ptr %arguments) {{\n{loads}\n"
                      f"  call void @{kernel.name}({passed})\n  ret void\n}}\n"])


class _Emulator:
    """The functions of the emulator, loaded once a process. One launch runs at a time."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm  # imported with the first program for a device

        llvm.initialize_native_target()
        llvm.initialize_native_asmparser()
        self._code = load(CompiledObject(emit_object(emulator_text(), _host()), TABLE))
        addresses = (ctypes.c_int64 * len(FUNCTIONS)).from_address(self._code.address)
        self.symbols = {f"{_PREFIX}{name}": address for name, address in zip(FUNCTIONS, addresses, strict=True)}
        words, pointer = ctypes.c_int64, ctypes.c_void_p
        self._launch = ctypes.CFUNCTYPE(words, *[pointer] * 2, *[words] * 3, *[pointer] * 3, *[words] * 3, pointer)(
            self.symbols.pop(f"{_PREFIX}launch"))
        block = np.empty(STACK_BYTES * MAX_THREADS + 64, np.uint8)
        self._stacks = block[-block.ctypes.data % 64:]
        self._lock = threading.Lock()

    def launch(self, entry: int, kernel: Kernel, arguments: Sequence[int], ranges: Sequence[tuple[int, int, bool]],
               order: np.ndarray, preempt: int, seed: int) -> tuple[int, np.ndarray]:
        """The status of a launch, and the block, thread and address of a fault."""
        shared = self.symbols[f"{_PREFIX}shared"]
        table = np.array([(shared, shared + kernel.shared_bytes, 1), *ranges], np.int64)
        passed, fault = np.array(arguments, np.uint64), np.zeros(3, np.int64)
        with self._lock:
            status = self._launch(entry, passed.ctypes.data, len(order), kernel.threads, kernel.shared_bytes, order.ctypes.data,
                                  self._stacks.ctypes.data, table.ctypes.data, len(table), max(preempt - 1, 0), seed, fault.ctypes.data)
        return status, fault


@cache
@off_main_thread
def _emulator() -> _Emulator:
    return _Emulator()


def _host() -> Target:
    target = host_target()
    assert target is not None
    return target


class EmulatedKernel:
    """A kernel, compiled for this processor."""

    def __init__(self, kernel: Kernel):
        assert kernel.shared_bytes <= MAX_SHARED_BYTES
        assert kernel.threads <= MAX_THREADS
        self.kernel = kernel
        self._code = _load(kernel)

    def launch(self, grid: int, pointers: Sequence[tuple[int, int]], numbers: Sequence[int], order: np.ndarray | None = None,
               preempt: int = 0, seed: int = 1) -> None:
        """Run the blocks of a launch, in `order` if it is given. `pointers` are addresses with the bytes that the launch may touch there.
        Threads change at one of `preempt` accesses (a power of two; 0: only where they wait), by a sequence that `seed` begins. Raises
        `EmulationError`."""
        kernel = self.kernel
        assert len(pointers) == len(kernel.pointers)
        assert len(numbers) == kernel.numbers
        ranges = [(address, address + nbytes, access != "read")
                  for (address, nbytes), access in zip(pointers, kernel.pointers, strict=True)]
        blocks = np.arange(grid, dtype=np.int64) if order is None else np.ascontiguousarray(order, np.int64)
        status, fault = _emulator().launch(self._code.address, kernel, [*(address for address, _ in pointers), *numbers], ranges, blocks,
                                           preempt, seed)
        if status:
            block, thread, address = fault.tolist()
            near = min(((address - begin, number) for number, (begin, _, _) in enumerate(ranges)), key=lambda item: abs(item[0]),
                       default=None)
            where = f", {near[0]} bytes from where parameter {near[1]} begins" if address and near else ""
            raise EmulationError(f"{kernel.name}: {ERRORS[status]}: block {block}, thread {thread}{where}")


@off_main_thread
def _load(kernel: Kernel) -> LoadedKernel:
    symbols = _emulator().symbols
    return load(CompiledObject(emit_object(text_for_processor(kernel), _host()), f"{kernel.name}.entry"), symbols)
