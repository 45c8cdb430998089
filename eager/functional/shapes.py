"""Functions that change the shape of a tensor, split it, join it, or select from it, with PyTorch's arguments."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NoReturn

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import IndexingError, ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import I64, is_inexact
from adjit.tracer import lowering
from adjit.tracer.array import as_traced, view_of, wrap
from adjit.tracer.functions.shapes import complete_shape, diagonal_view, normalize_axis, view_strides
from adjit.tracer.user_location import find_user_location

Array = Any
Sizes = Sequence[int]


def get_item(x: Array, index: Any, joined: int = 1) -> Array:
    """`x[index]` for an index with arrays in it: a copy of the elements. The first `joined` dimensions count as one."""
    x = as_traced(x)
    return (x if joined == 1 else np.reshape(x, (math.prod(x.shape[:joined]), *x.shape[joined:])))[index]


def get_view(x: Array, index: tuple[Any, ...]) -> Array:
    """`x[index]` for an index of integers, slices, None and an ellipsis: a view, also of one element."""
    return as_traced(x)[index if any(item is Ellipsis for item in index) else (*index, ...)]


def get_view_at(x: Array, index: tuple[Any, ...]) -> Array:
    """`x[index]` as `get_view`, where some integers are arrays without dimensions, whose value is not known."""
    return get_view(x, tuple(wrap(as_traced(item).value, scalar=True) if hasattr(item, "dtype") else item for item in index))


def get_part(x: Array, parts: tuple[Any, ...], *starts: Array) -> Array:
    """`x[index]` for a basic index, as `get_view`, whose integers are operands: one operation for all places. Each of `parts` is a new axis
    (None), a whole one (()), or a number of elements, some apart, from the next of `starts` on; None elements are one, without its axis."""
    view: Array = as_traced(x)
    axis, places = 0, iter(starts)
    for part in parts:
        if part is None:
            view = np.expand_dims(view, axis)
        elif part:
            size, step = part
            view = _part_of_axis(view, axis, next(places), 1 if size is None else size, step)
            if size is None:
                view = np.squeeze(view, axis)
                continue
        axis += 1
    return view


def _part_of_axis(x: Array, axis: int, start: Array, size: int, step: int) -> Array:
    whole = x.shape[axis]
    first: Array = np.clip(as_traced(start), 0, whole - (size - 1) * step - 1)     # it is in range: nothing has to check it
    chosen = (first + wrap(ops.iota(dtype=I64, shape=(size,), axis=0)) * step).value
    column = tuple(-1 if other == axis else 1 for other in range(x.ndim))

    def read(value: Value) -> Value:
        return ops.take(value, chosen, axis=axis)

    def write(base: Value, value: Value) -> Value:
        distance = wrap(ops.iota(dtype=I64, shape=(whole,), axis=0)) - first
        number = distance if step == 1 else distance // step
        inside = (distance >= 0) & (number < size)
        inside = inside if step == 1 else inside & (distance % step == 0)
        nearest: Array = np.clip(number, 0, size - 1)
        written: Array = np.where(np.reshape(inside, column), wrap(ops.take(value, nearest.value, axis=axis)), wrap(base))
        return written.value        # type: ignore[no-any-return]

    return view_of(x, read, write, (*x.steps[:axis], x.steps[axis] * step, *x.steps[axis + 1:]))


def reshape(x: Array, shape: Sizes) -> Array:
    """The same elements in row-major order; one size may be -1."""
    return np.reshape(as_traced(x), tuple(shape))


def view_dtype(x: Array, dtype: Any) -> Array:
    """The same memory read as another dtype: pairs of reals as complex numbers, or the reverse; the bits as numbers of the same size."""
    return as_traced(x).view(dtype)


def view(x: Array, shape: Sizes) -> Array:
    """The same elements in another shape and in the same memory; one size may be -1. Raises `ShapeError` if they would be copied."""
    x = as_traced(x)
    sizes = complete_shape(tuple(shape), x.size, x.shape, "view")
    if x.size and x.layout_known and view_strides(x.shape, x.steps, sizes) is None:
        refuse_view(x.shape, sizes)
    return np.reshape(x, sizes)


def refuse_view(have: Sizes, want: Sizes) -> NoReturn:
    """Raise the error of `view`."""
    raise ShapeError(f"view: the elements of this tensor of shape {tuple(have)} do not lie in memory in the order that the shape "
                     f"{tuple(want)} needs (view size is not compatible with input tensor's size and stride)", find_user_location(),
                     hint="use reshape(), which copies them then")


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """Join the dimensions from `start_dim` to `end_dim` (included)."""
    x = as_traced(x)
    if not x.ndim:
        return np.reshape(x, (1,))
    first, last = normalize_axis(start_dim, x.ndim), normalize_axis(end_dim, x.ndim)
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    return np.reshape(x, (*x.shape[:first], int(np.prod(x.shape[first:last + 1])), *x.shape[last + 1:]))


def unflatten(x: Array, dim: int, sizes: Sizes) -> Array:
    """Split one dimension into several; one size may be -1."""
    x = as_traced(x)
    axis = normalize_axis(dim, x.ndim)
    if -1 in sizes:
        known = -int(np.prod(sizes))
        sizes = tuple(x.shape[axis] // known if size == -1 and known else size for size in sizes)
    if int(np.prod(sizes)) != x.shape[axis]:
        raise ShapeError(f"unflatten: the sizes {tuple(sizes)} do not make up dimension {axis} of {x.shape}", find_user_location())
    return np.reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1:]))


def unsqueeze(x: Array, dim: int) -> Array:
    """Insert a new dimension of size 1 at `dim`."""
    return np.expand_dims(as_traced(x), dim)


def squeeze(x: Array, dim: int | Sizes | None = None, *dims: int) -> Array:
    """Remove the dimensions of size 1, or those of `dim` that are of size 1."""
    x = as_traced(x)
    if dim is None:
        return np.squeeze(x)
    several = (*(dim if isinstance(dim, (tuple, list)) else (dim,)), *dims)
    if not x.ndim:
        check_dims_of_scalar(several)
    axes = [normalize_axis(item, x.ndim) for item in several] if x.ndim else []
    return np.squeeze(x, tuple(axis for axis in axes if x.shape[axis] == 1))


def permute(x: Array, dims: Sizes) -> Array:
    """Reorder the dimensions to the order `dims`."""
    return np.transpose(as_traced(x), tuple(dims))


def transpose(x: Array, dim0: int, dim1: int) -> Array:
    """Swap two dimensions."""
    x = as_traced(x)
    return np.swapaxes(x, dim0, dim1) if x.ndim else x


def t(x: Array) -> Array:
    """Transpose a matrix; tensors of fewer dimensions stay unchanged."""
    x = as_traced(x)
    if x.ndim > 2:
        raise ShapeError(f"t() takes a tensor of at most two dimensions, got the shape {x.shape}", find_user_location(),
                         hint="transpose(dim0, dim1) swaps two dimensions, permute(dims) reorders them")
    return np.transpose(x)


def movedim(x: Array, source: int | Sizes, destination: int | Sizes) -> Array:
    """Move dimensions to other positions; the others stay in their order."""
    moved: Array = as_traced(x)
    if moved.ndim:
        return np.moveaxis(moved, source, destination)
    for dims in (source, destination):
        check_dims_of_scalar(dims)
    return moved


def check_dims_of_scalar(dims: int | Sizes) -> None:
    """Raise `IndexingError` for dimensions that a tensor without any does not have: as a vector, it has 0 and -1."""
    for dim in dims if isinstance(dims, (tuple, list)) else (dims,):
        if dim not in (0, -1):
            raise IndexingError(f"dimension {dim} of a tensor without dimensions (Dimension out of range (expected to be in range of "
                                f"[-1, 0], but got {dim}))", find_user_location())


def expand(x: Array, sizes: Sizes) -> Array:
    """Repeat dimensions of size 1 without a copy, new ones in front; -1 keeps a size."""
    x = as_traced(x)
    new = len(sizes) - x.ndim
    if new < 0 or -1 in sizes[:new] or any(have != 1 and size not in (-1, have) for have, size in zip(x.shape, sizes[new:], strict=True)):
        raise ShapeError(f"expand: a tensor of shape {x.shape} cannot get the sizes {tuple(sizes)} (the expanded size must match the "
                         "existing size at non-singleton dimensions)", find_user_location(),
                         hint="only dimensions of size 1 are repeated; -1 stands for the size of an existing one; new ones come first")
    shape = (*sizes[:new], *(have if size == -1 else size for have, size in zip(x.shape, sizes[new:], strict=True)))
    if math.prod(shape) == x.size:      # no element repeats: it can be written to
        return x[...] if shape == x.shape else np.reshape(x, shape)
    return np.broadcast_to(x, shape)


def repeat(x: Array, sizes: Sizes) -> Array:
    """Repeat the tensor as a whole along each dimension (`np.tile`); more `sizes` than dimensions make new ones in front."""
    x = as_traced(x)
    if len(sizes) < x.ndim:
        raise ShapeError(f"repeat: {len(sizes)} numbers for {x.ndim} dimensions", find_user_location(),
                         hint="give one a dimension, or more")
    return np.tile(x, tuple(sizes))


def repeat_interleave(x: Array, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Array:
    """Repeat each element (`np.repeat`). `output_size`, which PyTorch need not compute then, is checked."""
    made = np.repeat(as_traced(x), repeats, axis=dim)
    size = made.shape[0 if dim is None else dim]
    if output_size is not None and output_size != size:
        raise ShapeError(f"repeat_interleave: the repeats sum up to {size}, output_size is {output_size}", find_user_location())
    return made


def narrow_copy(x: Array, dim: int, start: int, length: int) -> Array:
    """Copy `length` elements of one dimension from `start` on."""
    return np.copy(narrow(x, dim, start, length))


def narrow(x: Array, dim: int, start: int, length: int) -> Array:
    """Select `length` elements of one dimension from `start` on."""
    x = as_traced(x)
    axis = normalize_axis(dim, x.ndim)
    size = x.shape[axis]
    first = start + size if start < 0 else start
    if not (0 <= first <= size and 0 <= length <= size - first):
        raise ShapeError(f"narrow: dimension {axis} of {x.shape} has no {length} elements from {start} on", find_user_location())
    return x[(*(slice(None),) * axis, slice(first, first + length))]


def select(x: Array, dim: int, index: int) -> Array:
    """Select one element of a dimension, which is removed."""
    x = as_traced(x)
    return get_view(x, (*(slice(None),) * normalize_axis(dim, x.ndim), index))


def unbind(x: Array, dim: int = 0) -> tuple[Array, ...]:
    """Return all elements of a dimension as separate tensors."""
    x = as_traced(x)
    return tuple(select(x, dim, index) for index in range(x.shape[normalize_axis(dim, x.ndim)]))


def split(x: Array, split_size: Any, dim: int = 0) -> tuple[Array, ...]:
    """Split into pieces of size `split_size` (the last one may be smaller), or of these sizes."""
    x = as_traced(x)
    axis = normalize_axis(dim, x.ndim)
    size = x.shape[axis]
    if isinstance(split_size, (tuple, list)):
        sizes = [operator.index(item) for item in split_size]
        if sum(sizes) != size or min(sizes, default=0) < 0:
            raise ShapeError(f"split: the sizes {sizes} do not add up to dimension {axis} of {x.shape}", find_user_location())
        bounds = [0, *accumulate(sizes)]
    else:
        each = operator.index(split_size)
        if each <= 0:
            raise ValueError(f"split: pieces have a positive size, got {each}")
        bounds = [*range(0, size, each), size] if size else [0, 0]
    return tuple(narrow(x, axis, first, last - first) for first, last in pairwise(bounds))


def chunk(x: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    """Split into at most `chunks` pieces of one size; the last one may be smaller."""
    x = as_traced(x)
    if chunks <= 0:
        raise ValueError(f"chunk: a positive number of pieces, got {chunks}")
    return split(x, max(-(-x.shape[normalize_axis(dim, x.ndim)] // chunks), 1), dim)


def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Concatenate the tensors along `dim`."""
    arrays = of_one_dtype(tensors)
    try:
        return np.concatenate(arrays, axis=dim)
    except ValueError as error:
        raise ValueError(f"{error} (sizes of tensors must match except in dimension {dim})") from error


def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Stack the tensors, all of one shape, along a new dimension."""
    return np.stack(of_one_dtype(tensors), axis=dim)


def of_one_dtype(tensors: Sequence[Array]) -> list[Array]:
    """Convert the arrays to one dtype: the widest one of floats if there are any."""
    arrays = [as_traced(x) for x in tensors]
    if len({array.dtype for array in arrays}) > 1:
        kinds = [array.dtype for array in arrays if is_inexact(array.dtype)]
        if kinds and len(kinds) < len(arrays):
            wide = np.result_type(*kinds)
            arrays = [array.astype(wide) for array in arrays]
    return arrays


def flip(x: Array, dims: Any) -> Array:
    """Reverse the order of elements along `dims`."""
    x, dims = as_traced(x), tuple(dims) if isinstance(dims, (tuple, list)) else dims
    return np.flip(x, () if not x.ndim and dims in (0, -1, (0,), (-1,)) else dims)


def roll(x: Array, shifts: int | Sizes, dims: int | Sizes | None = None) -> Array:
    """Shift elements by `shifts` along `dims`, from the end to the front; of the flattened tensor without `dims`."""
    return np.roll(as_traced(x), shifts, dims)


def diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Diagonal of two dimensions, as the last one."""
    return diagonal_view(as_traced(x), offset, dim1, dim2)


def diag(x: Array, diagonal: int = 0) -> Array:
    """Make a matrix from its diagonal, or return the diagonal of a matrix."""
    return np.diag(as_traced(x), diagonal)


def tril(x: Array, diagonal: int = 0) -> Array:
    """Set the elements above the diagonal to 0."""
    return np.tril(as_traced(x), diagonal)


def triu(x: Array, diagonal: int = 0) -> Array:
    """Set the elements below the diagonal to 0."""
    return np.triu(as_traced(x), diagonal)


def split_with_sizes(x: Array, split_sizes: Sizes, dim: int = 0) -> tuple[Array, ...]:
    """Split into pieces of these sizes."""
    return split(x, list(split_sizes), dim)


def tensor_split(x: Array, indices_or_sections: Any, dim: int = 0) -> tuple[Array, ...]:
    """Split into so many pieces, of sizes that differ by at most one; or before these indices, as in `np.array_split`."""
    x = as_traced(x)
    axis = normalize_axis(dim, x.ndim)
    size = x.shape[axis]
    if isinstance(indices_or_sections, (tuple, list)):
        bounds = [0, *(min(max(index + size if index < 0 else index, 0), size) for index in map(operator.index, indices_or_sections)), size]
    else:
        sections = operator.index(indices_or_sections)
        if sections <= 0:
            raise ValueError(f"tensor_split: a positive number of pieces, got {sections}")
        each, longer = divmod(size, sections)
        bounds = [0, *accumulate(each + 1 if i < longer else each for i in range(sections))]
    return tuple(narrow(x, axis, first, max(last - first, 0)) for first, last in pairwise(bounds))


def _split_along(name: str, least: int, axis: Any) -> Any:
    def function(x: Array, indices_or_sections: Any, *more: int) -> tuple[Array, ...]:
        x, indices_or_sections = as_traced(x), (indices_or_sections, *more) if more else indices_or_sections
        if x.ndim < least:
            raise ShapeError(f"{name} takes a tensor of at least {least} dimensions, got the shape {x.shape}", find_user_location())
        along = axis(x.ndim)
        if isinstance(indices_or_sections, int) and (indices_or_sections <= 0 or x.shape[along] % indices_or_sections):
            raise ShapeError(f"{name}: dimension {along} of {x.shape} is not split into {indices_or_sections} equal pieces",
                             find_user_location(), hint="tensor_split makes pieces of different sizes")
        return tensor_split(x, indices_or_sections, along)

    function.__name__ = name
    function.__doc__ = f"`tensor_split` along dimension {axis(least)}, into equal pieces or before these indices."
    return function


hsplit = _split_along("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
vsplit = _split_along("vsplit", 2, lambda ndim: 0)
dsplit = _split_along("dsplit", 3, lambda ndim: 2)


def rot90(x: Array, k: int = 1, dims: Sizes = (0, 1)) -> Array:
    """Turn by 90 degrees `k` times, from the first of two dimensions towards the second."""
    first, second = dims
    return np.rot90(as_traced(x), k, (first, second))


def diag_embed(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Make matrices with the last dimension as their diagonal, in the dimensions `dim1` and `dim2` of the result."""
    x = as_traced(x)
    size = x.shape[-1] + abs(offset)
    written: Array = np.copy(as_traced(np.zeros((*x.shape[:-1], size, size), x.dtype)))
    diagonal_view(written, offset, -2, -1)[...] = x
    return np.moveaxis(written, (-2, -1), (dim1, dim2))


def diagflat(x: Array, offset: int = 0) -> Array:
    """Make a matrix with the elements of the flattened tensor on a diagonal."""
    return diag_embed(np.reshape(as_traced(x), (-1,)), offset)


def unfold(x: Array, dimension: int, size: int, step: int = 1) -> Array:
    """Slices of `size` elements of a dimension, every `step` elements one, as a new last dimension: a view, read-only where they overlap.
    """
    x = as_traced(x)
    if not x.ndim:
        check_dims_of_scalar(dimension)
        vector = unfold(np.reshape(x, (1,)), 0, size, step)
        return np.reshape(vector, (size,))
    axis = normalize_axis(dimension, x.ndim)
    if not 0 <= size <= x.shape[axis] or step <= 0:
        raise ShapeError(f"unfold: slices of {size} elements, {step} apart, of dimension {axis} of {x.shape}", find_user_location())
    windows = (x.shape[axis] - size) // step + 1
    starts = wrap(ops.iota(dtype=I64, shape=(windows, size), axis=0)) * step
    indices = (starts + wrap(ops.iota(dtype=I64, shape=(windows, size), axis=1))).value
    back = (*range(axis + 1), *range(axis + 2, x.ndim + 1), axis + 1)       # the slices go last
    inverse = tuple(np.argsort(back).tolist())

    def read(value: Value) -> Value:
        return lowering.transpose(ops.take(value, indices, axis=axis), back)

    def write(base: Value, value: Value) -> Value:
        return ops.scatter_set(base, indices, lowering.transpose(value, inverse), axis=axis)

    strides = (*x.steps[:axis], x.steps[axis] * step, *x.steps[axis + 1:], x.steps[axis])
    return view_of(x, read, write, strides, writable=step >= size or windows == 1)


def unfolded(array: np.ndarray, dimension: int, size: int, step: int = 1) -> np.ndarray:
    """The memory that `unfold` is a view of, as an array of its shape."""
    if not array.ndim:
        return array.reshape(1)[:size]
    axis = dimension % array.ndim
    shape = (*array.shape[:axis], (array.shape[axis] - size) // step + 1, *array.shape[axis + 1:], size)
    strides = (*array.strides[:axis], array.strides[axis] * step, *array.strides[axis + 1:], array.strides[axis])
    writeable = array.flags.writeable and (step >= size or shape[axis] == 1)
    return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=writeable)


def as_dtype(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The memory that `view_dtype` is a view of. Raises `ShapeError` where the numbers of a pair do not lie side by side."""
    try:
        return array.view(dtype)
    except ValueError as error:
        half = np.dtype(dtype).itemsize
        if array.dtype.kind == "c" and array.ndim and array.shape[-1] == 1 and 2 * half == array.itemsize:
            parts = (*array.shape[:-1], 2), (*array.strides[:-1], half)
            return np.lib.stride_tricks.as_strided(array.real, *parts, writeable=array.flags.writeable)
        raise ShapeError(f"view: {error}", find_user_location(), hint="call .contiguous() first, which makes a copy") from None


def at_least(x: Array, ndim: int) -> Array:
    """`x` with new dimensions of size 1, as `numpy.atleast_1d` and its kin add them: a view."""
    return {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}[ndim](as_traced(x))


def sum_to_size(x: Array, size: Sizes) -> Array:
    """Sum over the dimensions that broadcasting from `size` would have repeated; without any, a view."""
    x = as_traced(x)
    new = x.ndim - len(size)
    if new < 0 or any(want not in (1, have) for want, have in zip(size, x.shape[new:], strict=True)):
        raise ShapeError(f"sum_to_size: the sizes {tuple(size)} are not expandable to the shape {x.shape}", find_user_location())
    if tuple(size) == x.shape:
        return x[...]
    dtype = np.int64 if x.dtype.kind in "bu" else None
    x = np.sum(x, axis=tuple(range(new)), dtype=dtype)
    repeated = tuple(axis for axis, (want, have) in enumerate(zip(size, x.shape, strict=True)) if want != have)
    return np.sum(x, axis=repeated, keepdims=True) if repeated else x
