"""Derivatives of functions of tensors by the names of `torch.autograd.functional`: `jacobian`, `hessian`, `vjp`, `jvp`, `vhp`, `hvp`.

>>> import adjit as aj
>>> jacobian(lambda x: x * x, aj.tensor([1.0, 2.0]))
tensor([[2., 0.],
        [0., 4.]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.eager.autograd_methods import grad
from adjit.eager.modes import enable_grad
from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir.errors import NonDifferentiableError, ShapeError
from adjit.tracer.user_location import find_user_location

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]
Inputs = Tensor | Sequence[Tensor]


def _leaves(inputs: Inputs, create_graph: bool) -> tuple[list[Tensor], bool]:
    """Return the inputs to differentiate at, connected to the graph only for `create_graph`; and whether there was one tensor."""
    single = isinstance(inputs, Tensor)
    given: list[Tensor] = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if create_graph:
        return [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in given], single
    return [x.detach().requires_grad_() for x in given], single


def _outputs(outputs: Any) -> tuple[list[Tensor], bool]:
    return ([outputs], True) if isinstance(outputs, Tensor) else (list(outputs), False)


def _packed(items: Sequence[Any], single: bool) -> Any:
    return items[0] if single else tuple(items)


def _gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor], v: Sequence[Tensor] | None, create_graph: bool, strict: bool,
               name: str, keep: bool = False) -> list[Tensor]:
    depend = [i for i, output in enumerate(outputs) if output.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if depend:
        found = grad([outputs[i] for i in depend], list(inputs), None if v is None else [v[i] for i in depend], keep or create_graph,
                     create_graph, allow_unused=True)
    if strict and (len(depend) < len(outputs) or any(gradient is None for gradient in found)):
        raise NonDifferentiableError(f"{name}(strict=True): an output does not depend on an input", find_user_location())
    made = [new_tensor(np.zeros(x.shape, x.dtype)) if gradient is None else gradient for x, gradient in zip(inputs, found, strict=True)]
    return made if create_graph else [gradient.detach() for gradient in made]


def _cotangents(v: Any, outputs: Sequence[Tensor], name: str) -> list[Tensor]:
    if v is None:
        if len(outputs) > 1 or outputs[0].numel() != 1:
            raise ShapeError(f"The vector v can only be None if the output of {name} is a single element", find_user_location(),
                             hint="pass v, of the shape of the output")
        return [new_tensor(np.ones(outputs[0].shape, outputs[0].dtype))]
    given = [v] if isinstance(v, Tensor) else list(v)
    for vector, output in zip(given, outputs, strict=True):
        if vector.shape != output.shape:
            raise ShapeError(f"{name}: v has the shape {vector.shape}, expected {output.shape}", find_user_location())
    return given


def jacobian(func: Function, inputs: Inputs, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:
    """Derivatives of all outputs in all inputs: for each output a tuple over inputs, of shapes (*output, *input); single tensors bare.

    With `create_graph` they can be differentiated. `vectorize` and `strategy` change nothing here.

    >>> import adjit as aj
    >>> jacobian(lambda x, y: x.sum() * y, (aj.ones(2), aj.tensor(3.0)))
    (tensor([3., 3.]), tensor(2.))
    """
    with enable_grad():
        leaves, single = _leaves(inputs, create_graph)
        outputs, single_output = _outputs(func(*leaves))
        rows = []
        for output in outputs:
            flat = output.reshape(-1)
            by_element = [_gradients([flat[i]], leaves, None, create_graph, strict, "jacobian", True) for i in range(flat.numel())]
            rows.append(_packed([_stacked([each[j] for each in by_element], output, leaf) for j, leaf in enumerate(leaves)], single))
        return _packed(rows, single_output)


def _stacked(gradients: Sequence[Tensor], output: Tensor, leaf: Tensor) -> Tensor:
    if not gradients:
        return new_tensor(np.zeros((*output.shape, *leaf.shape), leaf.dtype))
    together: Any = np.stack(gradients)     # type: ignore[call-overload]
    return together.reshape(*output.shape, *leaf.shape)     # type: ignore[no-any-return]


def hessian(func: Function, inputs: Inputs, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """Second derivatives of a function with one element: for each pair of inputs a tensor (*input, *input); of one tensor bare.

    >>> import adjit as aj
    >>> hessian(lambda x: (x ** 3).sum(), aj.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    single = isinstance(inputs, Tensor)

    def first(*leaves: Tensor) -> Any:
        output = func(*leaves)
        if not isinstance(output, Tensor) or output.numel() != 1:
            raise ShapeError("The Tensor returned by the function given to hessian should contain a single element", find_user_location())
        return tuple(_gradients([output], leaves, None, True, strict, "hessian"))

    found = jacobian(first, [inputs] if isinstance(inputs, Tensor) else inputs, create_graph, strict)
    return found[0][0] if single else found


def vjp(func: Function, inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Outputs, and the product of the vector `v` (of the outputs' shapes) and the Jacobian.

    >>> import adjit as aj
    >>> vjp(lambda x: x * x, aj.tensor([1.0, 2.0]), aj.tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    with enable_grad():
        leaves, single = _leaves(inputs, create_graph)
        outputs, single_output = _outputs(func(*leaves))
        found = _gradients(outputs, leaves, _cotangents(v, outputs, "vjp"), create_graph, strict, "vjp")
    return _packed(outputs if create_graph else [output.detach() for output in outputs], single_output), _packed(found, single)


def jvp(func: Function, inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Outputs, and the product of the Jacobian and the vector `v` (of the inputs' shapes): by two reverse passes.

    >>> import adjit as aj
    >>> jvp(lambda x: x * x, aj.tensor([1.0, 2.0]), aj.tensor([1.0, 10.0]))[1]
    tensor([ 2., 40.])
    """
    with enable_grad():
        leaves, _ = _leaves(inputs, create_graph)
        outputs, single_output = _outputs(func(*leaves))
        vectors = _cotangents(v, leaves, "jvp")
        dummies = [new_tensor(np.zeros(output.shape, output.dtype)).requires_grad_() for output in outputs]
        first = _gradients(outputs, leaves, dummies, True, strict, "jvp")
        found = _gradients(first, dummies, vectors, create_graph, False, "jvp")
    return _packed(outputs if create_graph else [output.detach() for output in outputs], single_output), _packed(found, single_output)


def vhp(func: Function, inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Output of a function with one element, and the product of the vector `v` (of the inputs' shapes) and the Hessian.

    >>> import adjit as aj
    >>> vhp(lambda x: (x ** 3).sum(), aj.tensor([1.0, 2.0]), aj.tensor([1.0, 1.0]))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        leaves, single = _leaves(inputs, create_graph)
        output = func(*leaves)
        first = _gradients([output], leaves, None, True, strict, "vhp")
        found = _gradients(first, leaves, _cotangents(v, leaves, "vhp"), create_graph, strict, "vhp")
    return output if create_graph else output.detach(), _packed(found, single)


def hvp(func: Function, inputs: Inputs, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Output of a function with one element, and the product of its Hessian and the vector `v`: the same as `vhp`, by symmetry.

    >>> import adjit as aj
    >>> hvp(lambda x: (x ** 3).sum(), aj.tensor([1.0, 2.0]), aj.tensor([1.0, 1.0]))[1]
    tensor([ 6., 12.])
    """
    return vhp(func, inputs, v, create_graph, strict)
