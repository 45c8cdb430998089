"""The libraries that are compared: their names, what importing them means, and how each is used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One column of the report.

    environment   the name of its virtual environment (`environments.py`) and of its requirements
    modules       what a user's program imports
    usage         how it is used here: what its documentation calls the fast way
    outputs       whose memory results are in
    curves        whether it is in the curves of growing cost unless it is asked for; the reason where it is not
    """

    title: str
    environment: str
    modules: tuple[str, ...]
    usage: str
    outputs: str
    curves: bool | str = True

    @property
    def ours(self) -> bool:
        return self.environment == "adjit"


CATALOGUE = {
    "adjit": Entry(
        "adjit", "adjit", ("adjit",), "`aj.compile` of the whole step, parameters and optimiser state donated",
        "training state in place; losses and gradients of gradient problems in fresh memory"),
    "adjit_captured": Entry(
        "adjit captured", "adjit", ("adjit",), "`aj.compile` of a training step on eager tensors: `loss.backward()`, `optimizer.step()`",
        "parameters, gradients and optimiser state in place", curves="its programs are adjit's"),
    "adjit_eager": Entry(
        "adjit eager", "adjit", ("adjit",), "eager tensors, `loss.backward()`, `optimizer.step()`",
        "parameters in place; intermediate values and gradients in fresh memory", curves="it is meant for looking at, not for speed"),
    "jax": Entry(
        "JAX jit", "jax", ("jax", "jax.numpy"), "`jax.jit` of the whole step, parameters and optimiser state donated, persistent cache on",
        "training state in donated buffers; losses and gradients in fresh memory"),
    "torch": Entry(
        "PyTorch", "torch", ("torch",),
        "eager, fused functions (`layer_norm`, `scaled_dot_product_attention`, ...), `fused=True` optimisers",
        "parameters in place; intermediate values and gradients in fresh memory"),
    "torch_compile": Entry(
        "torch.compile", "torch", ("torch",), "`torch.compile(loss, fullgraph=True, dynamic=False)`, `fused=True` optimisers",
        "parameters in place; gradients in fresh memory"),
    "autograd": Entry(
        "HIPS autograd", "autograd", ("autograd", "autograd.numpy"), "`value_and_grad`, updates in NumPy",
        "parameters in place; everything else in fresh memory"),
    "pytensor": Entry(
        "PyTensor", "pytensor", ("pytensor", "pytensor.tensor"),
        "`mode=\"NUMBA\"`, shared variables with updates, borrowed outputs, `trust_input=True`",
        "shared variables are replaced; outputs are borrowed", curves="its first calls would take longer than all the others' together"),
    "tinygrad": Entry(
        "tinygrad", "tinygrad", ("tinygrad",), "`TinyJit` around the whole step, its CPU device (clang), its optimisers",
        "parameters assigned in place; outputs in buffers of the captured step",
        curves="its first calls would take longer than all the others' together"),
    "numpy": Entry(
        "NumPy by hand", "numpy", ("numpy",), "gradients derived and written by hand, in place where a careful person would",
        "training state in place; everything else in fresh memory"),
}
