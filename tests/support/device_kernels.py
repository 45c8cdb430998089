"""Kernels of devices that tests run one by one: sample functions, the memory of a program as arrays, and both ways to run a launch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support.device_runs import OPTIONS
from support.ptx_interpreter import Machine
from support.tracing import checked_trace

import adjit as aj
from adjit.codegen.cuda.emulated import EmulatedKernel
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.nodes import WORK
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.ptx import ptx_of
from adjit.passes.pipeline import run_pipeline


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def adam(w: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 1e-3 * m / (np.sqrt(v) + 1e-8), m, v


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[int, int], list[tuple[int, ...]]]]] = {
    "softmax": (softmax, lambda rows, columns: [(rows, columns)]),
    "softmax gradient": (aj.grad(lambda x, c: (softmax(x) * c).sum()), lambda rows, columns: [(rows, columns)] * 2),
    "layer norm gradient": (aj.grad(lambda x, g, b, c: (layer_norm(x, g, b) * c).sum(), (0, 1, 2)),
                            lambda rows, columns: [(rows, columns), (columns,), (columns,), (rows, columns)]),
    "layer norm": (layer_norm, lambda rows, columns: [(rows, columns), (columns,), (columns,)]),
    "chain": (lambda x, y: np.exp(np.sin(x) * y) - np.log1p(x * x) * np.tanh(y), lambda rows, columns: [(rows * columns,)] * 2),
    "gelu": (lambda x, b: 0.5 * (x + b) * (1.0 + np.tanh(0.8 * ((x + b) + 0.04 * (x + b) ** 3))),
             lambda rows, columns: [(rows, columns), (columns,)]),
    "adam": (adam, lambda rows, columns: [(rows * columns,)] * 4),
    "sum": (lambda x, y: (np.sin(x) * y).sum(), lambda rows, columns: [(rows, columns)] * 2),
    "norms": (lambda x: (x.sum(0) ** 2).sum() + np.abs(x).max(0), lambda rows, columns: [(rows, columns)]),
    "product": (lambda a, b: np.maximum(a @ b.T + 1, 0), lambda rows, columns: [(rows, 20), (9, 20)]),
    "movement": (lambda x: np.concatenate([np.pad(x.T, 1), np.flip(x.T[:1, :], 1).repeat(2, 1)[:, :x.shape[0] + 2]]),
                 lambda rows, columns: [(rows, columns)]),
    "means": (lambda x: x.reshape(2, -1, x.shape[1]).mean((0, 2)), lambda rows, columns: [(rows // 2 * 2, columns // 8)]),
}


def program_of(name: str, rows: int, columns: int, dtype: type) -> tuple[DeviceProgram, list[np.ndarray]]:
    function, shapes = FUNCTIONS[name]
    rng = np.random.default_rng(len(name))
    arrays = [rng.random(shape).astype(dtype) for shape in shapes(rows, columns)]
    return DeviceProgram(run_pipeline(checked_trace(function, *arrays).graph, OPTIONS, True).final), arrays


class Buffers:
    """Memory of a program as arrays, by buffer: parameters, results and arena, which nobody wrote yet."""

    def __init__(self, program: DeviceProgram, arrays: list[np.ndarray]):
        self.memory: dict[tuple[str, int], np.ndarray] = {("arena", 0): _filled(program.assignment.arena_bytes),
                                                          (WORK, 0): _filled(program.work_bytes)}
        for slot, type in program.assignment.buffers.items():
            self.memory[slot.space, slot.offset] = _filled(type.nbytes)
        for index, array in enumerate(arrays):
            self.memory["param", index][:] = array.reshape(-1).view(np.uint8)

    def of(self, program: DeviceProgram, number: int) -> list[np.ndarray]:
        """What each pointer of a node leads to."""
        node = program.nodes[number]
        found = []
        for slot, pointer in zip(node.places, node.launch.pointers, strict=True):
            key, start = (("arena", 0), slot.offset) if slot.space == "arena" else ((slot.space, slot.offset), slot.start)
            found.append(self.memory[key][start:start + pointer.nbytes])
        return found


def _filled(nbytes: int) -> np.ndarray:
    block = np.full(nbytes + 64, 0xFF, np.uint8)
    return block[-block.ctypes.data % 64:][:nbytes]


def emulate(launch: Launch, buffers: list[np.ndarray], **options: Any) -> None:
    pointers = [(buffer.ctypes.data, buffer.nbytes) for buffer in buffers]
    EmulatedKernel(launch.kernel).launch(launch.grid, pointers, launch.numbers, **options)


def interpret(launch: Launch, buffers: list[np.ndarray], initialised: list[bool] | None = None) -> Any:
    kernel = launch.kernel
    return Machine(ptx_of(kernel)).launch(kernel.name, launch.grid, kernel.threads, buffers, launch.numbers, initialised=initialised,
                                          written=[access != "read" for access in kernel.pointers])


PTXAS = shutil.which("ptxas") or next(iter(map(str, Path(np.__file__).parent.parent.glob("nvidia/cu*/bin/ptxas"))), None)
"""The assembler of PTX, if it is installed."""
