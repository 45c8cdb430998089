"""Measures adjit on an NVIDIA GPU, beside PyTorch and JAX where this environment has them: `make bench-cuda`.

    python benchmarks/gpu.py [--results FILE] [--workloads a,b] [--small]

Times are of many calls between two waits for the card, the least of five rounds; the libraries take turns within a round. `cpu` is the time
of the processor a call, which launches and waits for nothing. Without a card nothing is measured: one line says why. `--small` divides the
sizes, to see that everything runs, on the emulated device too.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from results import FOLDER, commit, now

import adjit as aj
from adjit.errors import UnsupportedError
from adjit.runtime.cuda import devices

ROUNDS = 5
LEAST_SECONDS = 0.2     # of a round

Case = dict[str, Callable[[], Any]]
"""Libraries, each with a call that launches the work once."""


def adam(divisor: int) -> tuple[Case, int]:
    """Adam over 100 M float32: read four arrays, write three."""
    n = 100_000_000 // divisor
    arrays = {name: np.zeros(n, np.float32) for name in ("p", "g", "m", "v")}

    def step(p: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = np.float32(0.9) * m + np.float32(0.1) * g, np.float32(0.999) * v + np.float32(0.001) * g * g
        return p - np.float32(1e-3) * m / (np.sqrt(v) + np.float32(1e-8)), m, v

    compiled, state = aj.compile(step, device="cuda", donate=("p", "m", "v")), aj.device_put(arrays)

    def ours() -> None:
        state["p"], state["m"], state["v"] = compiled(state["p"], state["g"], state["m"], state["v"])

    case: Case = {"adjit": ours}
    torch = _torch()
    if torch is not None:
        param = torch.zeros(n, device="cuda", requires_grad=True)
        param.grad = torch.zeros(n, device="cuda")
        fused = torch.optim.Adam([param], fused=True)
        case["PyTorch, fused"] = fused.step
    jax = _jax()
    if jax is not None:
        import jax.numpy as jnp

        there = {name: jnp.zeros(n, jnp.float32) for name in arrays}

        def update(p: Any, g: Any, m: Any, v: Any) -> Any:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

        jitted = jax.jit(update, donate_argnums=(0, 2, 3))

        def theirs() -> None:
            there["p"], there["m"], there["v"] = jitted(there["p"], there["g"], there["m"], there["v"])

        case["JAX"] = theirs
    return case, 7 * 4 * n


def _elementwise(xp: Any, x: Any, y: Any) -> Any:
    return xp.exp(xp.sin(x) * y) - xp.log1p(x * x) * xp.tanh(y)


def chain(divisor: int) -> tuple[Case, int]:
    """exp(sin(x) y) - log1p(x²) tanh(y), 100 M float32."""
    n = 100_000_000 // divisor
    x, y = (np.linspace(-2, 2, n, dtype=np.float32) for _ in range(2))
    return _functions(_elementwise, (x, y)), 3 * 4 * n


def softmax(divisor: int) -> tuple[Case, int]:
    """Softmax of 32,768 rows of 1,024 float32."""
    x = np.random.default_rng(0).standard_normal((32768 // divisor, 1024), np.float32)

    def rows(xp: Any, x: Any) -> Any:
        e = xp.exp(x - _max(xp, x))
        return e / e.sum(-1, keepdims=True)

    return _functions(rows, (x,)), 2 * x.nbytes


def _max(xp: Any, x: Any) -> Any:
    return xp.amax(x, -1, keepdim=True) if xp.__name__ == "torch" else xp.max(x, -1, keepdims=True)


def layer_norm(divisor: int) -> tuple[Case, int]:
    """Layer norm of 32,768 rows of 1,024 float32, and its gradients in rows, gain and bias for a cotangent."""
    rng = np.random.default_rng(0)
    x, ct = (rng.standard_normal((32768 // divisor, 1024), np.float32) for _ in range(2))
    gain, bias = np.ones(1024, np.float32), np.zeros(1024, np.float32)

    def value(x: Any, gain: Any, bias: Any, ct: Any) -> Any:
        d = x - x.mean(-1, keepdims=True)
        return ((d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(1e-5)) * gain + bias) * ct).sum()

    compiled, there = aj.compile(aj.value_and_grad(value, (0, 1, 2)), device="cuda"), aj.device_put((x, gain, bias, ct))
    case: Case = {"adjit": lambda: compiled(*there)}
    torch = _torch()
    if torch is not None:
        given = [torch.tensor(each, device="cuda", requires_grad=index < 3) for index, each in enumerate((x, gain, bias, ct))]

        def run() -> Any:
            out = torch.nn.functional.layer_norm(given[0], (1024,), given[1], given[2])
            return torch.autograd.grad((out * given[3]).sum(), given[:3])

        case |= {"PyTorch": run, "torch.compile": torch.compile(run)}
    jax = _jax()
    if jax is not None:
        import jax.numpy as jnp

        def of(x: Any, gain: Any, bias: Any, ct: Any) -> Any:
            d = x - x.mean(-1, keepdims=True)
            return ((d / jnp.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * gain + bias) * ct).sum()

        jitted, arrays = jax.jit(jax.value_and_grad(of, (0, 1, 2))), [jnp.asarray(each) for each in (x, gain, bias, ct)]
        case["JAX"] = lambda: jitted(*arrays)
    return case, 3 * x.nbytes


def mlp(divisor: int) -> tuple[Case, int]:
    """A training step of a network 784-512-10 with Adam, batch 128, as modules and optimisers."""
    return _training((784, 512 // min(divisor, 8), 10), 128 // min(divisor, 8)), 0


def wide_mlp(divisor: int) -> tuple[Case, int]:
    """A training step of a network of three layers of 4,096 with Adam, batch 4,096, float32."""
    return _training((4096 // divisor,) * 4, 4096 // divisor), 0


def wide_mlp_tf32(divisor: int) -> tuple[Case, int]:
    """The same step with products of factors that are rounded to 11 digits (TF32)."""
    return _training((4096 // divisor,) * 4, 4096 // divisor, "tf32"), 0


def product(divisor: int) -> tuple[Case, int]:
    """A product of matrices of 4,096 by 4,096, float32."""
    return _product(4096 // divisor, "highest"), 0


def product_high(divisor: int) -> tuple[Case, int]:
    """The same in three products of factors of 11 digits; PyTorch's "high" is TF32."""
    return _product(4096 // divisor, "high"), 0


def product_tf32(divisor: int) -> tuple[Case, int]:
    """The same of factors that are rounded to 11 digits (TF32)."""
    return _product(4096 // divisor, "tf32"), 0


def _product(size: int, precision: str) -> Case:
    rng = np.random.default_rng(0)
    arrays = tuple(rng.standard_normal((size, size), np.float32) for _ in range(2))
    return _functions(lambda xp, x, y: x @ y, arrays, precision)


def _in_precision(torch: Any, precision: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """A call by PyTorch with products in as many digits: of all calls, it has one switch for them."""
    def switched() -> Any:
        torch.set_float32_matmul_precision("highest" if precision == "highest" else "high")
        return call()

    return switched


def _training(sizes: tuple[int, ...], batch: int, precision: str = "highest") -> Case:
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((batch, sizes[0]), np.float32), rng.integers(0, sizes[-1], batch)

    def make(lib: Any) -> Callable[[], Any]:
        nn = lib.nn
        layers = [layer for i, o in pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU())]
        model = nn.Sequential(*layers[:-1]).to("cuda")
        options = {"capturable": True} if lib.__name__ == "torch" else {}
        optimizer = lib.optim.Adam(model.parameters(), lr=1e-3, **options)
        given, labels = lib.tensor(x).to("cuda"), lib.tensor(t).to("cuda")

        def step(x: Any, t: Any) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            return loss

        if lib is aj:
            ours = aj.compile(step, matmul_precision=precision)
            return lambda: ours(given, labels)
        compiled = lib.compile(step)
        return _in_precision(lib, precision, lambda: compiled(given, labels))

    torch = _torch()
    return {"adjit": make(aj)} | ({} if torch is None else {"torch.compile": make(torch)})


def _functions(function: Callable[..., Any], arrays: tuple[np.ndarray, ...], precision: str = "highest") -> Case:
    compiled = aj.compile(lambda *given: function(np, *given), device="cuda", matmul_precision=precision)
    there = aj.device_put(arrays)
    case: Case = {"adjit": lambda: compiled(*there)}
    torch, jax = _torch(), _jax()
    if torch is not None:
        tensors = [torch.tensor(array, device="cuda") for array in arrays]
        generated = torch.compile(lambda *given: function(torch, *given))
        case["torch.compile"] = _in_precision(torch, precision, lambda: generated(*tensors))
    if jax is not None:
        import jax.numpy as jnp

        def with_digits(*given: Any) -> Any:
            with jax.default_matmul_precision({"high": "TF32_TF32_F32_X3", "tf32": "tensorfloat32"}.get(precision, precision)):
                return function(jnp, *given)

        jitted, given = jax.jit(with_digits), [jnp.asarray(array) for array in arrays]
        case["JAX"] = lambda: jitted(*given)
    return case


WORKLOADS: dict[str, Callable[[int], tuple[Case, int]]] = {
    "adam": adam, "chain": chain, "softmax": softmax, "layer_norm": layer_norm, "mlp": mlp, "wide_mlp": wide_mlp,
    "wide_mlp_tf32": wide_mlp_tf32, "product": product, "product_high": product_high, "product_tf32": product_tf32}


def _torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def _jax() -> Any:
    if importlib.util.find_spec("jax") is None:
        return None
    import jax

    return jax if jax.default_backend() == "gpu" else None


def _wait(library: str) -> None:
    if library == "adjit":
        aj.cuda.synchronize()
    elif library == "JAX":
        import jax

        jax.effects_barrier()
        jax.device_put(0.0).block_until_ready()
    else:
        import torch

        torch.cuda.synchronize()


def measure(case: Case) -> dict[str, dict[str, float]]:
    """Seconds of a first call, and of a call: on the card, and of the processor."""
    cells: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    for library, call in case.items():
        begin = time.perf_counter()
        call()
        _wait(library)
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        call()
        _wait(library)
        counts[library] = max(1, min(1000, int(LEAST_SECONDS / max(time.perf_counter() - begin, 1e-6))))
        cells[library] = {"first": first, "seconds": float("inf"), "cpu": float("inf")}
    for _ in range(ROUNDS):
        for library, call in case.items():
            count, cell = counts[library], cells[library]
            begin, cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                call()
            cell["cpu"] = min(cell["cpu"], (time.process_time() - cpu) / count)
            _wait(library)
            cell["seconds"] = min(cell["seconds"], (time.perf_counter() - begin) / count)
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FOLDER / "gpu.json")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--small", action="store_true", help="small sizes: to see that it runs")
    options = parser.parse_args()
    try:
        driver = devices.driver()
    except UnsupportedError as error:
        print(f"skipped: {error.message}")
        return 0
    if driver.stream is None and not options.small:
        print("skipped: times of the emulated device say nothing of a card (ADJIT_CUDA=emulated)")
        return 0
    content: dict[str, Any] = {"card": driver.name, "about": driver.describe(), "begun": now(), "commit": commit(), "small": options.small,
                               "cells": {}}
    for name in options.workloads.split(","):
        case, nbytes = WORKLOADS[name](512 if options.small else 1)
        cells = measure(case)
        content["cells"][name] = {"about": (WORKLOADS[name].__doc__ or "").strip(), "bytes": nbytes, "libraries": cells}
        print(name, *(f"{library} {cell['seconds'] * 1e6:.1f} us" for library, cell in cells.items()), sep="  ", flush=True)
        new = options.results.with_suffix(".new")       # a run that is ended keeps what it has measured
        new.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(new, options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
