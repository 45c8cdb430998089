"""Arithmetic on gradients that are tensors: recorded if gradients are on, captured within a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.eager.apply import apply, execute
from adjit.eager.call import differentiable
from adjit.eager.in_place import apply_in_place
from adjit.eager.modes import modes
from adjit.eager.operation import Backward
from adjit.eager.tensor import Tensor, new_tensor
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.array_wrapper import DeviceLeaf


def add(first: Tensor, second: Tensor) -> Tensor:
    """Add two tensors."""
    return apply(np.add, (first, second))       # type: ignore[no-any-return]


def add_to(total: Tensor, more: Tensor) -> None:
    """Add in place."""
    apply_in_place(np.add, total, (more,))


def own(cotangent: Tensor) -> Tensor:
    """Copy the value to memory of its own, connected to the graph in the same way."""
    array = cotangent.array
    made = new_tensor(wrap(array.value, scalar=False) if isinstance(array, TracedArray) else
                      array.copy() if isinstance(array, DeviceLeaf) else np.array(array))
    made._node, made._index, made._requires_grad = cotangent._node, cotangent._index, cotangent._requires_grad
    return made


def pull_back(backward: Backward, operands: Sequence[Any]) -> list[Tensor]:
    """Run the backward half of an operation as an operation of its own."""
    wanted = tuple(i for i, operand in enumerate(operands) if differentiable(operand)) if modes.grad else ()
    return execute(backward.for_operands(operands).operation(wanted), operands)
