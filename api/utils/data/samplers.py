"""Samplers: the indices of samples in the order in which they are read, drawn anew in each epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from adjit.eager.generator import Generator
from adjit.tensor_creation import rand, randint, randperm

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Indices, or lists of them, one after another: subclasses define `__iter__`, and `__len__` if it is known.

    >>> class Backwards(Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(Backwards())
    [2, 1, 0]
    """

    def __init__(self, data_source: Any = None) -> None:
        return

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")


class SequentialSampler(Sampler[int]):
    """All indices in their order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in random order, again and again up to `num_samples`; with `replacement` each draw is independent. The numbers are those
    of the generator, by default the one of `adjit.manual_seed`. Raises `ValueError` for a number below 1.

    >>> import adjit as aj
    >>> sorted(RandomSampler("abc", generator=aj.Generator().manual_seed(0)))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
                 generator: Generator | None = None) -> None:
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples < 1):
            raise ValueError(f"num_samples is a positive integer, got {num_samples!r}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """Number of indices in an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        total, left = len(self.data_source), self.num_samples
        if self.replacement:
            yield from randint(0, total, (left,), generator=self.generator).tolist()
            return
        while left > 0 and total:
            order = randperm(total, generator=self.generator).tolist()
            yield from order[:left]
            left -= total

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> import adjit as aj
    >>> sorted(SubsetRandomSampler([7, 5], generator=aj.Generator().manual_seed(0)))
    [5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in randperm(len(self.indices), generator=self.generator).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices of chances that are proportional to the weights; without `replacement` each at most once. Raises `ValueError` for weights
    that are negative or not finite, or for more draws than there are.

    Without replacement: the smallest of exponential numbers divided by the weights. Source: Efraimidis and Spirakis, Weighted random
    sampling with a reservoir, Information Processing Letters 97 (2006).

    >>> import adjit as aj
    >>> set(WeightedRandomSampler([0.0, 1.0, 0.0, 2.0], 50, generator=aj.Generator().manual_seed(0))) == {1, 3}
    True
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Generator | None = None) -> None:
        self.weights = np.array(weights, np.float64)
        possible = np.count_nonzero(self.weights)
        if self.weights.ndim != 1 or not np.all(np.isfinite(self.weights) & (self.weights >= 0)) or not possible:
            raise ValueError("weights are a sequence of finite numbers, none of them negative, and not all of them 0")
        if not isinstance(num_samples, int) or num_samples < 1 or (not replacement and num_samples > possible):
            raise ValueError(f"num_samples is a positive integer{'' if replacement else f', at most {possible}'}, got {num_samples!r}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        count = self.num_samples if self.replacement else len(self.weights)
        drawn = rand(count, dtype=np.float64, generator=self.generator).numpy()
        if self.replacement:
            ends = np.cumsum(self.weights)
            last = np.flatnonzero(self.weights)[-1]     # by rounding, a draw can be at the very end
            return iter(np.minimum(np.searchsorted(ends, drawn * ends[-1], side="right"), last).tolist())
        with np.errstate(divide="ignore"):
            times = np.where(self.weights > 0, -np.log1p(-drawn) / self.weights, np.inf)
        return iter(np.argsort(times, kind="stable")[:count].tolist()[:self.num_samples])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of a sampler; the last one is shorter, or is left out with `drop_last`. Raises `ValueError` for a size
    below 1.

    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise ValueError(f"batch_size is a positive integer, got {batch_size!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)     # type: ignore[arg-type]
        return full + bool(rest and not self.drop_last)
