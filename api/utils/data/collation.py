"""Samples into batches: numbers, arrays and tensors are stacked, within dicts, tuples and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.tensor_functions import stack


def default_collate(batch: Sequence[Any]) -> Any:
    """Make a batch of samples of one structure: tensors and arrays are stacked, floats become a float64 tensor, integers int64; texts stay
    as they are; dicts, named tuples and lists keep their type, and tuples become lists.

    Raises `TypeError` for other samples, `ValueError` for sequences of several lengths, `ShapeError` for arrays of several shapes.

    >>> import adjit as aj
    >>> default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    {'x': tensor([1., 2.], dtype=float64), 'name': ['a', 'b']}
    >>> default_collate([(aj.ones(2), 3), (aj.zeros(2), 4)])
    [tensor([[1., 1.],
            [0., 0.]]), tensor([3, 4])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, np.ndarray) and first.dtype.kind in "biufc":
        return as_tensor(np.stack(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=np.float64)
    if isinstance(first, (bool, int, np.number, np.bool_)):
        return as_tensor(np.array(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        collated = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return collated if type(first) is dict else _rebuilt(first, collated)
    if isinstance(first, Sequence):
        if len({len(sample) for sample in batch}) > 1:
            raise ValueError(f"the samples of a batch are sequences of {min(map(len, batch))} to {max(map(len, batch))} items: give the "
                             "DataLoader a collate_fn that pads them")
        parts = [default_collate(each) for each in zip(*batch, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return parts if isinstance(first, (tuple, list)) else _rebuilt(first, parts)
    raise TypeError(f"a sample of a batch is a {type(first).__module__}.{type(first).__qualname__}: samples are numbers, arrays, tensors, "
                    "texts, and dicts, tuples and lists of these; give the DataLoader a collate_fn for others")


def default_convert(data: Any) -> Any:
    """Convert the arrays of one sample to tensors, within dicts, tuples and lists; all else stays as it is.

    >>> default_convert({"x": np.ones(2, np.float32), "name": "a"})
    {'x': tensor([1., 1.]), 'name': 'a'}
    """
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biufc":
        return as_tensor(data)
    if isinstance(data, Mapping):
        converted = {key: default_convert(value) for key, value in data.items()}
        return converted if type(data) is dict else _rebuilt(data, converted)
    if hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, (tuple, list)):
        return list(map(default_convert, data))
    return data


def _rebuilt(like: Any, content: Any) -> Any:
    """Make a container of the type of `like`; the plain one where the type takes other arguments."""
    try:
        return type(like)(content)
    except TypeError:
        return content
