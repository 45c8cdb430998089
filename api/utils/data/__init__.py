"""Data sets, samplers and loaders of batches, by PyTorch's names.

>>> import adjit as aj
>>> pairs = TensorDataset(aj.arange(6.0), aj.arange(6))
>>> [y.tolist() for x, y in DataLoader(pairs, batch_size=4)]
[[0, 1, 2, 3], [4, 5]]
"""

from adjit.utils.data.collation import default_collate, default_convert
from adjit.utils.data.datasets import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from adjit.utils.data.loader import DataLoader
from adjit.utils.data.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from adjit.utils.data.workers import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler",
    "SequentialSampler", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]
