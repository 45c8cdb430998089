"""Counts what programs for an NVIDIA GPU ask of a card, without one: `make bench-cuda-counts` writes results/gpu_counts.json.

    python benchmarks/gpu_counts.py [--results FILE] [--works a,b]

Programs are compiled for a card as far as PTX, and not run. Kernels that go once through their arrays, and a step of each tiling of
products, run in the tests' interpreter of PTX, which counts instructions. From these numbers and what the maker of a card says of it
follows the least time in which the card could do that, which nobody measured. The same sources give the same numbers on every machine.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from problems import PROBLEMS
from results import FOLDER
from workloads import workload

import adjit as aj
from adjit import nn
from adjit.codegen.cuda import products
from adjit.codegen.cuda.nodes import Node
from adjit.codegen.cuda.products import LARGE, MEDIUM, SMALL, Tiling, choose_tiling
from adjit.codegen.cuda.program import DeviceProgram
from adjit.codegen.cuda.target import DEVICE_RULE
from adjit.ir.analysis.buffer_assignment import ResultKind
from adjit.ir.builder import trace_graph
from adjit.ir.graph import WRITABLE_ROLES, Graph
from adjit.ir.ops import matmul
from adjit.ir.types import F32, TensorType
from adjit.nn import functional as F
from adjit.passes.pipeline import run_pipeline
from adjit.tracer.trace import trace_function

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests"))

from support.device_kernels import FUNCTIONS, Buffers, interpret, program_of
from support.device_runs import OPTIONS

RESULTS = "gpu_counts.json"

CARD = {"name": "NVIDIA H200 SXM", "multiprocessors": 132, "bytes": 4.8e12, "operations": 67e12, "instructions": 33.4e12}
"""What NVIDIA says of the card: bytes a second of its memory, operations of float32 a second, two for each multiply-add. Instructions of
threads: four schedulers of 32 lanes in each multiprocessor, at 1.98 GHz."""

Count = dict[str, Any]
TILINGS = {"128 x 128": LARGE, "64 x 64": MEDIUM, "32 x 32": SMALL}
ORIENTATIONS = ((False, False), (False, True), (True, False))


@dataclass(frozen=True)
class Work:
    """Work of a card: a graph, the seconds that a call may take on the card, and what it is."""

    about: str
    graph: Callable[[], Graph]
    target: float | None = None
    kernel: str | None = None       # the sample kernel of the tests that it is


def sample(name: str, rows: int, columns: int = 1024) -> Callable[[], Graph]:
    """A sample kernel of the tests, of arrays that take no memory."""
    function, shapes = FUNCTIONS[name]
    return lambda: trace_function(function, [_zeros(shape) for shape in shapes(rows, columns)], {}).graph


def _zeros(shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.float32(0), shape)


def _traced(function: Any, arguments: tuple[Any, ...]) -> Graph:
    graph: Graph = function.program(function.fun, arguments, {}).pipeline.graphs["traced"]
    return graph


def training(sizes: tuple[int, ...], batch: int) -> Graph:
    """A training step of linear layers with Adam."""
    model = nn.Sequential(*[layer for i, o in pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU())][:-1])
    return _step(model, aj.tensor(np.zeros((batch, sizes[0]), np.float32)), aj.tensor(np.zeros(batch, np.int64)))


def _step(model: nn.Module, x: aj.Tensor, t: aj.Tensor) -> Graph:
    optimizer = aj.optim.Adam(model.parameters(), lr=1e-3)

    @aj.compile(backend="interpret")
    def step(x: Any, t: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        return loss

    return _traced(step, (x, t))


def block() -> Graph:
    """The problem `transformer` of the comparison."""
    found = workload(PROBLEMS["transformer"](), "interpret")
    return _traced(found.function, found.arguments)


class Block(nn.Module):
    """Attention to what came before, then a layer of its own for each position."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.norm2(x))


class GPT(nn.Module):
    """Numbers of characters to scores of the next one at every position."""

    def __init__(self, characters: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, tokens: aj.Tensor) -> aj.Tensor:
        scores = self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions.weight)))
        return scores.reshape(-1, scores.shape[-1])


def gpt(batch: int = 64, length: int = 256, layers: int = 6) -> Graph:
    """A training step of a transformer of 10.7 million parameters, all layers written out."""
    tokens = np.zeros((batch, length), np.int64)
    return _step(GPT(65, length, 384, 6, layers), aj.tensor(tokens), aj.tensor(tokens.reshape(-1)))


WORKS = {
    "adam": Work("Adam over 100 M float32", sample("adam", 1, 100_000_000), 0.72e-3, "adam"),
    "chain": Work("exp(sin(x) y) - log1p(x²) tanh(y), 100 M float32", sample("chain", 1, 100_000_000), 0.40e-3, "chain"),
    "softmax": Work("softmax of 32,768 rows of 1,024 float32", sample("softmax", 32768), 73e-6, "softmax"),
    "layer_norm": Work("layer norm of as many, and its gradients in rows, gain and bias", sample("layer norm gradient", 32768), 110e-6,
                       "layer norm gradient"),
    "mlp": Work("training step 784-512-10 with Adam, batch 128", lambda: training((784, 512, 10), 128), 35e-6),
    "wide_mlp": Work("training step of three layers of 4,096 with Adam, batch 4,096", lambda: training((4096,) * 4, 4096), 30e-3),
    "transformer": Work("training step of the transformer block of the comparison, SGD", block),
    "gpt": Work("training step of a transformer with 10.7 M parameters, Adam, 64 texts of 256", gpt, 28e-3),
}


def count(work: Work, shares: dict[str, float]) -> Count:
    """What a call of the work asks of the card. `shares` are those of multiply-adds in the products of each tiling."""
    program = DeviceProgram(run_pipeline(work.graph(), OPTIONS, True).final, conditional=True)
    chains: list[int] = []
    for node in program.nodes:
        chains.append(1 + max((chains[number] for number in node.after), default=0))
    found: Count = {"about": work.about, "target": work.target, "launches": len(program.steps), "kernels": len(program.launches),
                    "different": len(program.kernels), "chain": max(chains), "bytes": sum(map(_bytes, program.launches)),
                    "least_bytes": least_bytes(program), "arena": program.assignment.arena_bytes,
                    "operations": sum(operations(node) for node in program.launches),
                    "seconds": sum(_seconds(node, shares) for node in program.launches)}
    if work.kernel is not None:
        found |= _of_kernel(work.kernel, program.launches[0])
        found["seconds"] = max(found["seconds"], found["instructions"] * found["elements"] / CARD["instructions"])
    return found


def _bytes(node: Node) -> int:
    """Bytes of the arrays that the kernel's text reads or writes, each once."""
    uses = Counter(re.findall(r"%p\d+\b", node.launch.kernel.text))
    pointers = zip(node.launch.pointers, node.launch.kernel.pointers, strict=True)
    return sum(pointer.nbytes * (2 if access == "update" else 1)
               for number, (pointer, access) in enumerate(pointers) if uses[f"%p{number}"] > 1)


def least_bytes(program: DeviceProgram) -> int:
    """Bytes of arguments and results: what is updated in place is read and written."""
    graph, assignment = program.assignment.graph, program.assignment
    params = sum(value.type.nbytes * (2 if role in WRITABLE_ROLES else 1)
                 for value, role in zip(graph.params, graph.param_roles, strict=True))
    made = zip(graph.results, assignment.result_locations, strict=True)
    return params + sum(value.type.nbytes for value, location in made if location.kind is not ResultKind.DONATED)


def _product_of(node: Node) -> tuple[int, int, int, int] | None:
    """Matrices, rows, columns and inner indices of the product that a node computes."""
    inner = [op for region in node.op.regions for op in region.ops]
    op = next((op for op in (node.op, *inner) if op.name == "matmul"), None)
    if op is None or not node.name.startswith("adjit_product"):
        return None
    *_, rows, columns = op.result.type.shape
    return op.result.type.size // (rows * columns), rows, columns, op.operands[0].type.shape[-2 if op.attrs["transpose_a"] else -1]


def operations(node: Node) -> int:
    """Two for each multiply-add of a product; 0 for other nodes."""
    sizes = _product_of(node)
    return 0 if sizes is None else 2 * int(np.prod(sizes))


def _seconds(node: Node, shares: dict[str, float]) -> float:
    """The least time of a launch: that of its bytes, or that in which multiprocessors compute the tiles of a product in turn."""
    least = _bytes(node) / CARD["bytes"]
    sizes = _product_of(node)
    if sizes is None:
        return least
    matrices, rows, columns, inner = sizes
    tiling = choose_tiling((LARGE, MEDIUM, SMALL), rows, columns, matrices)
    label = next(label for label, each in TILINGS.items() if each is tiling)
    rate = CARD["operations"] / CARD["multiprocessors"] * shares[label]
    turns = -(-node.launch.grid // CARD["multiprocessors"])
    return max(least, turns * 2 * tiling.tile**2 * inner / rate)


def _of_kernel(name: str, node: Node) -> Count:
    """Instructions for an element of a kernel that goes once through its arrays, by a run of one of its blocks."""
    rows, columns = 4 * DEVICE_RULE.max_blocks_with_column_sums, 1024       # a block goes through several, as in the work itself
    program, arrays = program_of(name, rows, columns, np.float32)
    launch = program.nodes[0].launch
    assert launch.kernel == node.launch.kernel      # sizes are parameters
    found = interpret(replace(launch, grid=1), Buffers(program, arrays).of(program, 0))
    whole = max(pointer.nbytes for pointer in node.launch.pointers)
    return {"instructions": sum(found.instructions.values()) * 32 / (rows * columns // launch.grid), "elements": whole // 4,
            "sector_efficiency": found.sector_efficiency, "bank_conflicts": found.bank_conflicts}


@dataclass(frozen=True)
class ProductStep:
    """What a step along the inner index costs: instructions by name, without moves, which ptxas leaves out; conflicts of banks and accesses
    of shared memory; bytes that threads ask for from memory."""

    instructions: Counter[str]
    conflicts: int
    shared: int
    bytes: int

    @property
    def share(self) -> float:
        """Multiply-adds, of all instructions."""
        return self.instructions["fma.rn.f32"] / sum(self.instructions.values())


def product_step(tiling: Tiling, transposed: tuple[bool, bool]) -> ProductStep:
    """A step of a product by one tile, in the interpreter."""
    short, long = (_product(tiling, steps * 16 * tiling.groups, transposed) for steps in (2, 4))
    more = Counter({name: number - short.instructions[name] for name, number in long.instructions.items() if not name.startswith("mov")})
    return ProductStep(more, long.bank_conflicts - short.bank_conflicts, sum(number for name, number in more.items() if ".shared" in name),
                       long.bytes_asked - short.bytes_asked)


def _product(tiling: Tiling, inner: int, transposed: tuple[bool, bool]) -> Any:
    size = tiling.tile
    types = [TensorType(F32, (inner, size) if first else (size, inner)) for first in (transposed[0], not transposed[1])]
    graph = trace_graph("product", types, lambda a, b: list(matmul.emit(a, b, transpose_a=transposed[0], transpose_b=transposed[1])))
    with patch.object(products, "choose_tiling", lambda *sizes: tiling):
        program = DeviceProgram(run_pipeline(graph, OPTIONS, True).final)
    arrays = [np.ones(type.shape, np.float32) for type in types]
    found = interpret(program.nodes[0].launch, Buffers(program, arrays).of(program, 0))
    assert found.sector_efficiency == 1
    return found


def count_products() -> dict[str, Count]:
    """For each tiling the least share of multiply-adds of all orientations, and the operations for each byte that a tile reads."""
    found = {}
    for label, tiling in TILINGS.items():
        steps = [product_step(tiling, transposed) for transposed in ORIENTATIONS]
        operations = 2 * tiling.tile**2 * 32 * tiling.groups        # of two steps
        found[label] = {"share": min(step.share for step in steps), "operations_a_byte": operations / max(step.bytes for step in steps)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FOLDER / RESULTS)
    parser.add_argument("--works", default=",".join(WORKS))
    options = parser.parse_args()
    content: Count = {"card": CARD, "products": count_products(), "works": {}}
    shares = {label: found["share"] for label, found in content["products"].items()}
    for name in options.works.split(","):
        content["works"][name] = found = count(WORKS[name], shares)
        print(name, found, flush=True)
    options.results.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
