"""`np.einsum`: pairs of operands become matmuls; labels of one operand alone become diagonals and sums."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import BOOL, check_dtype, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.dispatch import implements
from adjit.tracer.functions.contraction import contract
from adjit.tracer.functions.shapes import diagonal_view, in_order_of, permute
from adjit.tracer.functions.ufuncs import store
from adjit.tracer.promotion import Casting, dtype_argument
from adjit.tracer.user_location import find_user_location

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
Term = tuple[Value, str]        # a tensor and the label of each of its axes


@implements(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """Equivalent of `numpy.einsum_path`, which needs shapes alone."""
    return np.einsum_path(*(np.broadcast_to(x.dtype.type(0), x.shape) if isinstance(x, TracedArray) else x for x in operands),
                          optimize=optimize)


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, dtype: Any = None, order: str = "K", casting: Casting = "safe", optimize: Any = False) -> Any:
    """Equivalent of `numpy.einsum`; three operands and more are contracted in pairs, as with its `optimize=True`."""
    inputs, output, arrays = _parse(operands)
    target = dtype_argument(dtype) if dtype is not None else check_dtype(np.result_type(*(x.dtype for x in arrays)))
    for place, x in enumerate(arrays):
        if not np.can_cast(x.dtype, target, casting):
            raise TypeError(f"Iterator operand {place} dtype could not be cast from {x.dtype!r} to {target!r} "
                            f"according to the rule '{casting}'")
    sizes = _sizes(inputs, arrays)
    if out is None and target == arrays[0].dtype and output and len(arrays) == 1 and set(output) == set(inputs[0]):
        x, labels = _diagonal_view(arrays[0], inputs[0])
        return permute(x, [labels.index(label) for label in output])
    terms = [_diagonals(lowering.convert(x.value, target), labels) for x, labels in zip(arrays, inputs, strict=True)]
    terms = [_widen(term, sizes) for term in terms]
    for pair in _order(inputs, output, sizes, len(terms)):
        chosen = [terms[i] for i in pair]
        terms = [term for i, term in enumerate(terms) if i not in pair]
        needed = set(output).union(*(labels for _, labels in terms))
        if len(chosen) == len(arrays) == 2 and is_inexact(target):
            terms.append(_two(chosen[0], chosen[1], needed, sizes))
            continue
        result = _sum_out(chosen[0], needed.union(*(labels for _, labels in chosen[1:])))
        for position, other in enumerate(chosen[1:], start=2):
            later = needed.union(*(labels for _, labels in chosen[position:]))
            result = _pair(result, other, later, sizes)
        terms.append(result)
    value, labels = _sum_out(terms[0], set(output))
    value = lowering.transpose(value, [labels.index(label) for label in output])
    return store(in_order_of(wrap(value), "A"), out, name="einsum")


def _parse(operands: Sequence[Any]) -> tuple[list[str], str, list[TracedArray]]:
    """Return the labels of every operand and of the output, ellipses and implicit outputs written out."""
    if not isinstance(operands[0], str):
        operands = _from_lists(operands)
    text = operands[0].replace(" ", "")
    arrays = [as_traced(x) for x in operands[1:]]
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(arrays):
        raise ShapeError(f"einsum: {text!r} names {len(inputs)} operands, {len(arrays)} were given", find_user_location())
    unused = [letter for letter in _LETTERS if letter not in text]
    widths = [x.ndim - len(labels.replace("...", "")) for labels, x in zip(inputs, arrays, strict=True)]
    for labels, width, x in zip(inputs, widths, arrays, strict=True):
        if width < 0 or (width and "..." not in labels):
            raise ShapeError(f"einsum: the subscripts {labels!r} do not fit an operand of shape {x.shape}", find_user_location())
    widest = max((width for labels, width in zip(inputs, widths, strict=True) if "..." in labels), default=0)
    dots = "".join(unused[:widest])
    inputs = [labels.replace("...", dots[widest - width:]) for labels, width in zip(inputs, widths, strict=True)]
    if not arrow:
        counts = Counter("".join(labels.replace(".", "") for labels in left.split(",")).replace(",", ""))
        output = dots + "".join(sorted(label for label, count in counts.items() if count == 1))
    if arrow and dots and "..." not in output:
        raise ShapeError(f"einsum: the output {output!r} has no '...' for the dimensions of the operands there", find_user_location())
    output = output.replace("...", dots)
    unknown = set(output) - set("".join(inputs))
    if unknown or len(set(output)) != len(output) or not all(label in _LETTERS for label in "".join((output, *inputs))):
        raise ShapeError(f"einsum: {text!r} is no valid subscript string", find_user_location())
    return inputs, output, arrays


def _from_lists(operands: Sequence[Any]) -> list[Any]:
    """Convert the other form: array, labels, array, labels, ..., output labels."""
    def text(labels: Sequence[Any]) -> str:
        return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)

    pairs, output = (operands[:-1], "->" + text(operands[-1])) if len(operands) % 2 else (operands, "")
    return [",".join(text(labels) for labels in pairs[1::2]) + output, *pairs[0::2]]


def _sizes(inputs: list[str], arrays: list[TracedArray]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for labels, x in zip(inputs, arrays, strict=True):
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.get(label, 1)
            if size != known and 1 not in (size, known):
                shapes = " and ".join(str(each.shape) for each in arrays)
                raise ShapeError(f"einsum: label {label!r} has the sizes {known} and {size} in {shapes}", find_user_location())
            sizes[label] = size if known == 1 else known
    return sizes


def _order(inputs: list[str], output: str, sizes: dict[str, int], count: int) -> list[tuple[int, ...]]:
    """Contraction order: the operands of each contraction; results go to the end of the list."""
    if count <= 2:
        return [tuple(range(count))]
    shapes = [np.broadcast_to(np.empty(()), [sizes[label] for label in labels]) for labels in inputs]
    path, _ = np.einsum_path(",".join(inputs) + "->" + output, *shapes, optimize="greedy")
    return [tuple(step) for step in path[1:]]


def _diagonal_view(x: TracedArray, labels: str) -> tuple[TracedArray, str]:
    """Return the diagonals of repeated labels in the memory of `x`: if nothing is summed NumPy gives a view."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            x = diagonal_view(x, 0, first, labels.index(label, first + 1))
            labels = labels.replace(label, "", 2) + label
    return x, labels


def _diagonals(value: Value, labels: str) -> Term:
    """Take the diagonal of repeated labels of one operand."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [i for i in range(len(labels)) if i not in (first, second)]
            shape = value.type.shape
            size = max(shape[first], shape[second])
            value = lowering.broadcast(value, [size if i in (first, second) else n for i, n in enumerate(shape)])
            outer = tuple(shape[i] for i in rest)
            flat = lowering.reshape(lowering.transpose(value, (*rest, first, second)), (*outer, size * size))
            value = ops.slice(flat, start=(0,) * (len(outer) + 1), stop=(*outer, size * size), step=(*(1,) * len(outer), size + 1))
            labels = "".join(labels[i] for i in rest) + label
    return value, labels


def _widen(term: Term, sizes: dict[str, int]) -> Term:
    """Broadcast axes of size 1 that stand for a larger one, as an ellipsis allows."""
    value, labels = term
    return lowering.broadcast(value, [sizes[label] for label in labels]), labels


def _sum_out(term: Term, needed: set[str]) -> Term:
    return _reduced(ops.reduce_or if term[0].type.dtype == BOOL else ops.reduce_sum, term, needed)


def _reduced(reduce: Callable[..., Value], term: Term, needed: set[str]) -> Term:
    value, labels = term
    axes = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    return reduce(value, axes=axes) if axes else value, "".join(label for label in labels if label in needed)


def _two(a: Term, b: Term, needed: set[str], sizes: dict[str, int]) -> Term:
    """Contract two terms as `_pair` does, with NumPy's NaN. NumPy sums the products of all elements, which gives NaN for inf - inf and 0 *
    inf. `_pair` first sums a label of one operand alone, and inf stays inf: NaN is put where inf meets a sum of numbers of both signs, or
    of 0."""
    value, labels = _pair(a, b, needed, sizes)
    kind = value.type.dtype
    for one, other in ((a, b), (b, a)):
        own = needed | set(other[1])
        if set(one[1]) <= own:
            continue
        zero = ops.full_like(one[0], 0.0)
        one_sign = [_reduced(ops.reduce_and, (sign(one[0], zero), one[1]), own)[0] for sign in (ops.greater, ops.less)]
        mixed = ops.logical_not(ops.logical_or(*one_sign)), "".join(label for label in one[1] if label in own)
        infinite = _reduced(ops.reduce_or, (ops.isinf(other[0]), other[1]), needed | set(one[1]))
        flags, others = ((lowering.convert(flag, kind), names) for flag, names in (mixed, infinite))
        within = set(mixed[1]) <= set(infinite[1])      # no product of matrices is needed then
        count, names = _sum_out(_pair(flags, others, needed.union(infinite[1]) if within else needed, sizes), needed)
        meets = ops.greater(lowering.transpose(count, [names.index(label) for label in labels]), ops.full_like(value, 0.0))
        value = ops.multiply(value, ops.select(meets, ops.full_like(value, math.nan), ops.full_like(value, 1.0)))
    return value, labels


def _pair(a: Term, b: Term, needed: set[str], sizes: dict[str, int]) -> Term:
    """Contract two terms, keeping the labels in `needed`."""
    a, b = _sum_out(a, needed | set(b[1])), _sum_out(b, needed | set(a[1]))
    (left, left_labels), (right, right_labels) = a, b
    shared = [label for label in left_labels if label in right_labels]
    batch = [label for label in shared if label in needed]
    summed = [label for label in shared if label not in needed]
    rows = [label for label in left_labels if label not in shared]
    columns = [label for label in right_labels if label not in shared]

    def arrange(value: Value, labels: str, order: list[str]) -> Value:
        return lowering.transpose(value, [labels.index(label) for label in order])

    def extent(labels: list[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    result = [*batch, *rows, *columns]
    shape = [sizes[label] for label in result]
    left, right = arrange(left, left_labels, [*batch, *rows, *summed]), arrange(right, right_labels, [*batch, *summed, *columns])
    if not summed:
        x = lowering.reshape(left, (*left.type.shape, *(1,) * len(columns)))
        y = lowering.reshape(right, (*right.type.shape[:len(batch)], *(1,) * len(rows), *right.type.shape[len(batch):]))
        return ops.multiply(lowering.broadcast(x, shape), lowering.broadcast(y, shape)), "".join(result)
    outer = tuple(sizes[label] for label in batch)
    product = contract(lowering.reshape(left, (*outer, extent(rows), extent(summed))),
                       lowering.reshape(right, (*outer, extent(summed), extent(columns))))
    return lowering.reshape(product, shape), "".join(result)
