"""Data sets and their batches, as a training script has them."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import adjit as aj
from adjit.utils.data import DataLoader, Dataset, TensorDataset, random_split


class Pairs(Dataset[tuple[aj.Tensor, int]]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[aj.Tensor, int]:
        return aj.ones(2), index


def batches() -> None:
    data = TensorDataset(aj.randn(8, 4), aj.randn(8, 1))
    for x, y in DataLoader(data, batch_size=2, shuffle=True):
        print(x, y)
    first, *_ = random_split(data, [4, 4])
    loader = DataLoader(first, batch_size=2)
    assert_type(len(loader), int)
    for batch in loader:
        assert_type(batch, tuple[Any, ...])
    for pair in DataLoader(Pairs()):
        assert_type(pair, tuple[aj.Tensor, int])
    for row in DataLoader(np.ones((4, 2)), batch_size=2):
        print(row)
    for number in DataLoader([1.0, 2.0]):
        assert_type(number, float)
    DataLoader(3)       # type: ignore
