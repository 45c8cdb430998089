"""Ops of planned graphs: memory made explicit."""

from __future__ import annotations

from adjit.ir.definition import Kind, OpDefinition, define
from adjit.ir.ops.sampling import no_samples

free: OpDefinition = define(
    "free", Kind.MEMORY, vjp=None,
    doc="The memory of the operands may be used again from here on.",
    infer=lambda *types: (), evaluate=lambda *arrays: (), samples=no_samples)

