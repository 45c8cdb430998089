"""Update of many tensors at once by one function, in place and outside of the graph: the step of an optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjit.eager.apply import emit, run_arrays
from adjit.eager.call import describe, find_call
from adjit.eager.capture import traced
from adjit.eager.in_place import assign, written_without_gradient
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor
from adjit.ir.errors import DTypeError, Role
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location

Update = Callable[..., Sequence[Any]]


def update_in_place(function: Update, targets: Sequence[Tensor], operands: Sequence[Any] = (), *statics: Any) -> None:
    """Set each of `targets` to the result of `function(targets, operands, *statics)` for it.

    `function` gets lists of traced arrays (a Python float among the operands stays a weak scalar, and a new float needs no new trace) and
    returns one array for each target, of its shape and dtype. It is traced once for each combination of dtypes, shapes and `statics`, which
    are hashable. Nothing is recorded for derivatives; versions count up.
    """
    key: list[Any] = [update_in_place, function, len(targets), *statics]
    arrays: list[Any] = list(targets)
    for target in targets:
        array = target.array
        key += (array.dtype, array.shape)
    for operand in operands:
        describe(operand, arrays, key, True)
    before, modes.grad = modes.grad, False
    try:
        call = find_call(lambda *given: _checked(function(*given, *statics), given[0]), (list(targets), list(operands)), {}, arrays,
                         tuple(key), (), True, False)
        arrays += call.constants
        scope = active_scope()
        if scope is not None and not scope.evaluates:
            inputs = [traced(operand) for operand in arrays]
            with scope.builder.at(role=Role.UPDATE):        # type: ignore[union-attr]
                values = emit(call.operation, [input.value for input in inputs], scope)
                for target, input, value in zip(targets, inputs[:len(targets)], values, strict=True):
                    input.assign(written_without_gradient(target, input.value, value))
        else:
            outs = run_arrays(call.operation, [operand.array if isinstance(operand, Tensor) else operand for operand in arrays])
            for target, out in zip(targets, outs, strict=True):
                assign(target.array, out)
    finally:
        modes.grad = before
    for target in targets:
        target._writes[0] += 1


def _checked(results: Sequence[Any], targets: Sequence[Any]) -> Sequence[Any]:
    for result, target in zip(results, targets, strict=True):
        if (result.dtype, result.shape) != (target.dtype, target.shape):
            raise DTypeError(f"an update gives {result.dtype}{list(result.shape)} for a tensor {target.dtype}{list(target.shape)}",
                             find_user_location(), hint="convert the result to the dtype of its target")
    return results
