"""`DataLoader`: a data set in batches, in order or shuffled, read by threads ahead of the program."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, TimeoutError
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from adjit.eager.generator import Generator, next_key
from adjit.utils.data.collation import default_collate, default_convert
from adjit.utils.data.datasets import Dataset, IterableDataset, Samples, Subset, TensorDataset
from adjit.utils.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from adjit.utils.data.workers import Worker, WorkerInfo

T = TypeVar("T")
_END = object()


class DataLoader(Generic[T]):
    """Batches of a data set, as often as it is iterated over.

    dataset         samples by index, with `__getitem__` and `__len__`, or an `IterableDataset`.
    batch_size      samples of a batch; None: single samples, not batches.
    shuffle         in a new random order in each epoch: that of `generator`, by default the one of `adjit.manual_seed`.
    sampler         order of the samples, or `batch_sampler`, lists of indices, in place of the arguments above.
    collate_fn      function of a list of samples that makes a batch; by default `default_collate`.
    drop_last       leave out a last batch that is shorter.
    num_workers     threads that make batches ahead, `prefetch_factor` (2) each, in turns; 0: none. Reading files, and NumPy's and adjit's
                    computations, run side by side; Python code of the data set does not.
    worker_init_fn  called with the number of each worker when it starts, which is once an epoch unless `persistent_workers`.
    timeout         seconds after which a batch of a worker is given up with a `RuntimeError`; 0: never.
    pin_memory      without a meaning on the CPU, and ignored.

    Raises `ValueError` for arguments that exclude each other.

    >>> import adjit as aj
    >>> data = TensorDataset(aj.arange(10))
    >>> loader = DataLoader(data, batch_size=4, shuffle=True, generator=aj.Generator().manual_seed(0))
    >>> [len(batch) for (batch,) in loader], len(loader)
    ([4, 4, 2], 3)
    """

    def __init__(self, dataset: Dataset[T] | Samples[T], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Iterable[int] | None = None, batch_sampler: Iterable[Any] | None = None, num_workers: int = 0,
                 collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], object] | None = None, generator: Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False) -> None:
        _check(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, drop_last, timeout, prefetch_factor, persistent_workers)
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.persistent_workers = persistent_workers
        self._workers: list[Worker] = []
        if sampler is None and not isinstance(dataset, IterableDataset):
            samples: Any = dataset
            sampler = RandomSampler(samples, generator=generator) if shuffle else SequentialSampler(samples)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_size is None and batch_sampler is None else default_collate)

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            if self.batch_size is None:
                return len(self.dataset)        # type: ignore[arg-type]
            full, rest = divmod(len(self.dataset), self.batch_size)      # type: ignore[arg-type]
            return full + bool(rest and not self.drop_last)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)      # type: ignore[arg-type]

    def __iter__(self) -> Iterator[T]:
        if self.num_workers:
            return self._ahead()
        if isinstance(self.dataset, IterableDataset):
            return self._streamed()
        return map(self._read, self.sampler if self.batch_sampler is None else self.batch_sampler)      # type: ignore[arg-type]

    # -- batches

    def _read(self, indices: Any) -> Any:
        """Make the batch of these indices, or the sample at one."""
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[indices])
        if self.collate_fn is default_collate and _is_of_tensors(self.dataset):
            return list(self.dataset[np.array(indices)] if isinstance(self.dataset, TensorDataset) else self.dataset[list(indices)])
        several = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn([self.dataset[index] for index in indices] if several is None else several(indices))

    def _streamed(self) -> Iterator[Any]:
        """Yield the batches of an `IterableDataset`."""
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    # -- workers

    def _ahead(self) -> Iterator[Any]:
        """Yield the batches that workers make, in the order of their numbers."""
        workers = self._workers or self._start()
        pending: deque[tuple[Worker, Future[Any]]] = deque()
        ended: set[Worker] = set()
        try:
            submit = self._of_streams(workers, ended) if isinstance(self.dataset, IterableDataset) else self._of_indices(workers)
            pending.extend(islice(submit, self.num_workers * (self.prefetch_factor or 1)))
            while pending:
                worker, future = pending.popleft()
                try:
                    batch = future.result(self.timeout or None)
                except TimeoutError:
                    if future.done():       # raised by the data set
                        raise
                    raise RuntimeError(f"worker {worker.info.id} of a DataLoader made no batch in {self.timeout} seconds") from None
                if batch is _END:
                    ended.add(worker)
                pending.extend(islice(submit, 1))
                if batch is not _END:
                    yield batch
        finally:
            for _, future in pending:
                future.cancel()
            if not self.persistent_workers:
                for worker in workers:
                    worker.stop()
                self._workers = []

    def _start(self) -> list[Worker]:
        seed = int(next_key(self.generator)) >> 1       # a positive int64, for programs that seed others with it
        workers = [Worker(WorkerInfo(number, self.num_workers, seed + number, self.dataset), self.worker_init_fn)
                   for number in range(self.num_workers)]
        if self.persistent_workers:
            self._workers = workers
        return workers

    def _of_indices(self, workers: list[Worker]) -> Iterator[tuple[Worker, Future[Any]]]:
        for number, indices in enumerate(self.sampler if self.batch_sampler is None else self.batch_sampler):       # type: ignore[arg-type]
            worker = workers[number % len(workers)]
            yield worker, worker.submit(self._read, indices)

    def _of_streams(self, workers: list[Worker], ended: set[Worker]) -> Iterator[tuple[Worker, Future[Any]]]:
        """Submit the next batch of each worker's own run through the data set, until all runs have ended."""
        streams = [self._streamed() for _ in workers]
        while len(ended) < len(workers):
            for worker, stream in zip(workers, streams, strict=True):
                if worker not in ended:
                    yield worker, worker.submit(next, stream, _END)


def _is_of_tensors(dataset: Any) -> bool:
    """True if the rows of a batch can be read by one index of each tensor."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is TensorDataset


def _check(dataset: Any, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, num_workers: int, drop_last: bool,
           timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    streams = isinstance(dataset, IterableDataset)
    problems = {
        "shuffle=, sampler= and batch_sampler= are for data sets with samples by index": streams and (
            shuffle or sampler is not None or batch_sampler is not None),
        "sampler= and shuffle=True exclude each other": sampler is not None and shuffle,
        "batch_sampler= excludes batch_size=, shuffle=, sampler= and drop_last=": batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or drop_last),
        "batch_size=None excludes drop_last=": batch_size is None and drop_last,
        f"batch_size is a positive integer or None, got {batch_size!r}": batch_size is not None and (
            not isinstance(batch_size, int) or batch_size < 1),
        f"num_workers is 0 or a positive integer, got {num_workers!r}": not isinstance(num_workers, int) or num_workers < 0,
        f"timeout is not negative, got {timeout}": timeout < 0,
        "prefetch_factor= and persistent_workers= are for num_workers= above 0": not num_workers and (
            prefetch_factor is not None or persistent_workers),
        f"prefetch_factor is a positive integer, got {prefetch_factor!r}": prefetch_factor is not None and prefetch_factor < 1,
    }
    for problem, holds in problems.items():
        if holds:
            raise ValueError(f"DataLoader: {problem}")
