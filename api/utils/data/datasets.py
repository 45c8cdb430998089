"""Data sets: samples by index, or one after another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from math import floor, isclose
from typing import Any, Generic, Protocol, TypeVar

from adjit.eager.generator import Generator
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ShapeError
from adjit.tensor_creation import randperm
from adjit.tracer.user_location import find_user_location

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Samples(Protocol[T_co]):
    """What is indexed as a data set is, without being one: a list, an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> T_co: ...


class Dataset(Generic[T_co]):
    """Samples by index: subclasses define `__getitem__`, and `__len__` for the samplers. `__getitems__(indices)`, if there is one, returns
    several samples at once.

    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index ** 2
    >>> [(Squares() + Squares())[index] for index in (3, 4, 5)]
    [9, 0, 1]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples one after another: subclasses define `__iter__`. Each worker of a loader iterates over all of it, unless it asks
    `get_worker_info` for its part.

    >>> class Stream(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 2])
    >>> list(Stream() + Stream())
    [1, 2, 1, 2]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Samples that are the rows of tensors of one length, a tuple of one row of each. Raises `ShapeError` for tensors of several lengths.

    >>> import adjit as aj
    >>> TensorDataset(aj.tensor([1.0, 2.0]), aj.tensor([3, 4]))[1]
    (tensor(2.), tensor(4))
    """

    def __init__(self, *tensors: Tensor) -> None:
        lengths = [tensor.shape[0] if tensor.shape else None for tensor in tensors]
        if not tensors or None in lengths or len(set(lengths)) > 1:
            raise ShapeError("TensorDataset takes tensors of one length, got the shapes "
                             f"{', '.join(str(tuple(tensor.shape)) for tensor in tensors) or 'of none'}", find_user_location())
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class ConcatDataset(Dataset[T_co]):
    """Samples of several data sets, one set after another.

    >>> ConcatDataset([[1, 2], [3]])[-1]
    3
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise TypeError("ConcatDataset takes data sets with samples by index, at least one; ChainDataset takes IterableDatasets")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        index %= len(self)
        which = bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[T_co]):
    """Samples of several `IterableDataset`s, one set after another.

    >>> list(ChainDataset([[1, 2], [3]]))
    [1, 2, 3]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


class Subset(Dataset[T_co]):
    """Samples of a data set at these indices.

    >>> list(Subset("abcd", [3, 0]))
    ['d', 'a']
    """

    def __init__(self, dataset: Dataset[T_co] | Samples[T_co], indices: Sequence[int]) -> None:
        self.dataset: Any = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[T] | Samples[T], lengths: Sequence[float], generator: Generator | None = None) -> list[Subset[T]]:
    """Split a data set by chance into subsets of these lengths, or of these fractions of it, which sum to 1: what is left over by rounding
    down goes to the first ones, one each. The order is that of the generator, by default the one of `adjit.manual_seed`.

    Raises `ValueError` for lengths that are not as many as there are samples.

    >>> import adjit as aj
    >>> parts = random_split(range(10), [0.75, 0.25], generator=aj.Generator().manual_seed(0))
    >>> [len(part) for part in parts], sorted([*parts[0], *parts[1]]) == list(range(10))
    ([8, 2], True)
    """
    total = len(dataset)        # type: ignore[arg-type]
    if isclose(sum(lengths), 1.0) and sum(lengths) <= 1.0 + 1e-9 and not all(isinstance(length, int) for length in lengths):
        if any(not 0 <= length <= 1 for length in lengths):
            raise ValueError(f"fractions of a data set lie in [0, 1], got {list(lengths)}")
        sizes = [floor(total * fraction) for fraction in lengths]
        for position in range(total - sum(sizes)):
            sizes[position % len(sizes)] += 1
    else:
        sizes = list(lengths)       # type: ignore[arg-type]
    if sum(sizes) != total or any(not isinstance(size, int) or size < 0 for size in sizes):
        raise ValueError(f"the lengths {list(lengths)} do not sum to the {total} samples of the data set, or to 1")
    order = randperm(total, generator=generator).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size:end]) for size, end in zip(sizes, ends, strict=True)]
