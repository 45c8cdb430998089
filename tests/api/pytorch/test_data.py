"""`adjit.utils.data`: data sets, samplers, collation and loaders, with and without workers."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, namedtuple
from itertools import chain
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ShapeError
from adjit.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

Point = namedtuple("Point", "x y")


class Numbers(Dataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    """The numbers below `count`, each worker its share."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        info = get_worker_info()
        return iter(range(self.count) if info is None else range(info.id, self.count, info.num_workers))


def seeded(seed: int = 0) -> aj.Generator:
    return aj.Generator().manual_seed(seed)


def batches(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


# -- data sets


def test_tensor_dataset() -> None:
    x, y = aj.arange(6.0).reshape(3, 2), aj.tensor([0, 1, 2])
    data = TensorDataset(x, y)
    assert len(data) == 3
    assert (data[2][0].tolist(), data[2][1].item()) == ([4.0, 5.0], 2)
    for wrong in ((), (x, aj.zeros(2)), (aj.tensor(1.0),)):
        with pytest.raises(ShapeError, match="tensors of one length"):
            TensorDataset(*wrong)


def test_concatenated_and_chained() -> None:
    both = Numbers(2) + Numbers(3)
    assert isinstance(both, ConcatDataset)
    assert [both[i] for i in range(-5, 5)] == [0, 1, 0, 1, 2] * 2
    for outside in (5, -6):
        with pytest.raises(IndexError, match=f"sample {outside} of 5"):
            both[outside]
    chained = Stream(2) + Stream(1)
    assert isinstance(chained, ChainDataset)
    assert (list(chained), len(chained)) == ([0, 1, 0], 3)
    with pytest.raises(TypeError, match="ChainDataset"):
        ConcatDataset([Stream(1)])


@pytest.mark.parametrize(("lengths", "sizes"), [([7, 3], [7, 3]), ([0.5, 0.5], [5, 5]), ([0.33, 0.33, 0.34], [4, 3, 3]), ([10, 0], [10, 0]),
                                                ([0.7, 0.2, 0.1], [7, 2, 1])])
def test_random_split(lengths: Any, sizes: list[int]) -> None:
    parts = random_split(Numbers(10), lengths, seeded(1))
    assert [len(part) for part in parts] == sizes
    drawn = [part[i] for part in parts for i in range(len(part))]
    assert sorted(drawn) == list(range(10))
    assert drawn != list(range(10))
    again = random_split(Numbers(10), lengths, generator=seeded(1))
    assert [list(part.indices) for part in again] == [list(part.indices) for part in parts]


@pytest.mark.parametrize("lengths", [[5, 4], [0.5, 0.6], [11, -1], [1.5, -0.5], [5.0, 5.0]])
def test_lengths_that_do_not_fit(lengths: Any) -> None:
    with pytest.raises(ValueError, match=r"lengths|fractions"):
        random_split(Numbers(10), lengths)


# -- samplers


def test_random_order_depends_on_the_generator_alone() -> None:
    aj.manual_seed(3)
    first, second = list(RandomSampler(Numbers(20))), list(RandomSampler(Numbers(20)))
    aj.manual_seed(3)
    assert list(RandomSampler(Numbers(20))) == first != second
    sampler = RandomSampler(Numbers(20), generator=seeded(4))
    epochs = [list(sampler), list(sampler)]
    assert epochs[0] != epochs[1]
    assert list(RandomSampler(Numbers(20), generator=seeded(4))) == epochs[0]
    assert sorted(epochs[1]) == list(range(20))


def test_numbers_of_draws() -> None:
    assert Counter(RandomSampler(Numbers(3), num_samples=7, generator=seeded())).most_common(1)[0][1] == 3
    drawn = list(RandomSampler(Numbers(4), replacement=True, num_samples=400, generator=seeded()))
    assert all(60 < drawn.count(i) < 140 for i in range(4))
    assert sorted(SubsetRandomSampler([9, 5, 7], seeded())) == [5, 7, 9]
    with pytest.raises(ValueError, match="num_samples"):
        RandomSampler(Numbers(3), num_samples=0)


def test_weighted_draws() -> None:
    drawn = Counter(WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=seeded()))
    assert drawn[1] == 0
    assert 850 < drawn[0] < 1150       # 1000 expected, its standard deviation is 27
    without = WeightedRandomSampler([1.0, 0.0, 3.0, 1e9], 2, replacement=False, generator=seeded(2))
    drawn = Counter(tuple(without) for _ in range(400))
    assert {pair[0] for pair in drawn} == {3}
    assert 250 < drawn[3, 2] < 350     # 300 expected, its standard deviation is 9
    assert sorted(WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]
    for weights, count in (([-1.0, 2.0], 1), ([0.0], 1), ([1.0, np.nan], 1), ([1.0, 1.0], 0), ([1.0, 0.0], 2)):
        with pytest.raises(ValueError, match=r"weights|num_samples"):
            WeightedRandomSampler(weights, count, replacement=False)


def test_batches_of_indices() -> None:
    assert (list(BatchSampler(range(5), 2, True)), len(BatchSampler(range(5), 2, True))) == ([[0, 1], [2, 3]], 2)
    assert len(BatchSampler(range(5), 2, False)) == 3
    with pytest.raises(ValueError, match="batch_size"):
        BatchSampler(range(5), 0, False)


# -- collation


def test_collation() -> None:
    tensors = default_collate([aj.ones(2), aj.zeros(2)])
    assert (tensors.shape, tensors.dtype) == ((2, 2), aj.float32)
    arrays = default_collate([np.ones(2, np.float32), np.zeros(2, np.float32)])
    assert (type(arrays), arrays.dtype) == (aj.Tensor, aj.float32)
    kinds = [default_collate(each) for each in ([1.5, 2], [1, 2], [True, False], [np.float32(1), np.float32(2)], [np.int32(1)])]
    assert [each.dtype for each in kinds] == [aj.float64, aj.int64, aj.bool, aj.float32, aj.int32]
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([(1, "a"), (2, "b")])[1] == ("a", "b")
    point = default_collate([Point(1, 2.0), Point(3, 4.0)])
    assert (type(point), point.x.tolist(), point.y.tolist()) == (Point, [1, 3], [2.0, 4.0])
    ordered = default_collate([OrderedDict(a=1), OrderedDict(a=2)])
    assert (type(ordered), ordered["a"].tolist()) == (OrderedDict, [1, 2])
    pair = default_collate([(1, [2.0, 3.0]), (4, [5.0, 6.0])])
    assert (type(pair), pair[0].tolist(), [part.tolist() for part in pair[1]]) == (list, [1, 4], [[2.0, 5.0], [3.0, 6.0]])
    with pytest.raises(TypeError, match=r"collate_fn"):
        default_collate([object()])
    with pytest.raises(ValueError, match=r"1 to 2 items.*collate_fn"):
        default_collate([[1], [1, 2]])
    assert default_convert((np.ones(1), "a", 2))[1:] == ["a", 2]


# -- loaders


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_in_order(workers: int) -> None:
    loader = DataLoader(Numbers(10), batch_size=4, num_workers=workers)
    assert batches(loader) == batches(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3
    short = DataLoader(Numbers(10), 4, drop_last=True, num_workers=workers)
    assert (batches(short), len(short)) == ([[0, 1, 2, 3], [4, 5, 6, 7]], 2)
    single = DataLoader(Numbers(3), batch_size=None, num_workers=workers)
    assert (list(single), len(single)) == ([0, 1, 2], 3)
    own = DataLoader(Numbers(9), batch_sampler=[[8, 1], [0]], num_workers=workers)
    assert (batches(own), len(own)) == ([[8, 1], [0]], 2)
    assert list(DataLoader(Numbers(4), 2, sampler=[3, 2, 0], collate_fn=tuple, num_workers=workers)) == [(3, 2), (0,)]


def test_shuffling_is_that_of_the_generator_whatever_the_workers() -> None:
    def epochs(**arguments: Any) -> Any:
        loader = DataLoader(Numbers(12), 5, shuffle=True, **arguments)
        return batches(loader), batches(loader)

    first, second = epochs(generator=seeded(1))
    assert first != second
    assert sorted(chain.from_iterable(first)) == list(range(12))
    assert epochs(generator=seeded(1)) == (first, second)
    aj.manual_seed(1)
    default = epochs()
    aj.manual_seed(1)
    assert epochs() == default
    with_workers = epochs(generator=seeded(1), num_workers=2)
    assert with_workers == epochs(generator=seeded(1), num_workers=2)


def test_rows_of_tensors_are_those_of_single_samples() -> None:
    x, y = aj.randn(7, 2, 3), aj.arange(7)
    data = TensorDataset(x, y)
    halves = random_split(data, [4, 3], seeded())
    for dataset in (data, halves[0], random_split(halves[1], [2, 1], seeded())[0]):
        fast = list(DataLoader(dataset, 3))
        slow = list(DataLoader(dataset, 3, collate_fn=lambda samples: default_collate(samples)))
        assert len(fast) == len(slow)
        for some, others in zip(fast, slow, strict=True):
            assert type(some) is type(others) is list
            for one, other in zip(some, others, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one.numpy(), other.numpy())
        some[0].zero_()     # a batch has memory of its own
    assert not (x == 0).all()


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_streams(workers: int) -> None:
    loader = DataLoader(Stream(7), batch_size=2, num_workers=workers)
    found = batches(loader)
    assert sorted(chain.from_iterable(found)) == list(range(7))
    assert found == batches(loader)
    if workers == 2:        # in turns: worker 0 has the even numbers
        assert found == [[0, 2], [1, 3], [4, 6], [5]]
    assert sorted(DataLoader(Stream(3), batch_size=None, num_workers=workers)) == [0, 1, 2]
    assert len(loader) == 4
    assert batches(DataLoader(Stream(3), batch_size=2, drop_last=True)) == [[0, 1]]


class Draws(Numbers):
    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return index, aj.rand(2), -1 if info is None else info.id, threading.get_ident()


def test_workers_are_threads_with_random_numbers_of_their_own() -> None:
    def run() -> Any:
        found = list(DataLoader(Draws(8), 2, num_workers=2, generator=seeded(6)))
        return [batch[1].tolist() for batch in found], [batch[2].tolist() for batch in found], {int(t) for b in found for t in b[3]}

    state = aj.get_rng_state().tolist()
    drawn, ids, threads = run()
    assert ids == [[0, 0], [1, 1]] * 2
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert run()[0] == drawn
    assert len({number for batch in drawn for row in batch for number in row}) == 16
    assert aj.get_rng_state().tolist() == state


def test_workers_begin_once_an_epoch_or_once() -> None:
    for persistent, times in ((False, 4), (True, 2)):
        begun: list[int] = []
        loader = DataLoader(Numbers(4), 1, num_workers=2, worker_init_fn=begun.append, persistent_workers=persistent)
        assert batches(loader) == batches(loader)
        assert sorted(begun) == sorted([0, 1] * (times // 2))


def test_threads_end_with_the_epoch() -> None:
    before = threading.active_count()
    for batch in DataLoader(Numbers(100), 1, num_workers=3):
        if batch.item() == 2:
            break
    deadline = time.monotonic() + 10.0
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


class Broken(Numbers):
    def __getitem__(self, index: int) -> int:
        if index == 3:
            raise KeyError("no sample 3")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_the_data_set_are_raised_at_their_batch(workers: int) -> None:
    loader = iter(DataLoader(Broken(6), 2, num_workers=workers))
    assert next(loader).tolist() == [0, 1]
    with pytest.raises(KeyError, match="no sample 3"):
        next(loader)


def test_a_worker_that_takes_too_long() -> None:
    wait = threading.Event()

    class Slow(Numbers):
        def __getitem__(self, index: int) -> int:
            wait.wait(30.0)
            return index

    with pytest.raises(RuntimeError, match=r"worker 0 .* in 0.05 seconds"):
        next(iter(DataLoader(Slow(2), num_workers=1, timeout=0.05)))
    wait.set()


@pytest.mark.parametrize("arguments", [
    {"shuffle": True, "sampler": [0]}, {"batch_sampler": [[0]], "batch_size": 2}, {"batch_sampler": [[0]], "shuffle": True},
    {"batch_size": None, "drop_last": True}, {"batch_size": 0}, {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2},
    {"persistent_workers": True}, {"num_workers": 1, "prefetch_factor": 0}])
def test_arguments_that_exclude_each_other(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="DataLoader: "):
        DataLoader(Numbers(2), **arguments)
    with pytest.raises(ValueError, match="samples by index"):
        DataLoader(Stream(2), shuffle=True)


def test_a_training_loop() -> None:
    aj.manual_seed(0)
    inputs = aj.randn(64, 3)
    targets = inputs @ aj.tensor([[1.0], [-2.0], [0.5]])
    model = aj.nn.Linear(3, 1)
    optimizer = aj.optim.SGD(model.parameters(), lr=0.3)

    @aj.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = aj.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(20):
        for x, y in DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True, generator=seeded()):
            loss = step(x, y)
    assert loss.item() < 1e-6
