# Written by: python docs/make_namespace_stubs.py

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from adjit.eager.tensor import Tensor

NDArray: TypeAlias = np.ndarray[Any, Any]
Numbers: TypeAlias = np.generic | float | Sequence[Any]
Plain: TypeAlias = np.ndarray[Any, Any] | np.generic | float
Key: TypeAlias = np.ndarray[Any, Any] | np.generic | int
Size: TypeAlias = int | Sequence[int]
Padding: TypeAlias = int | Sequence[int] | Literal["valid", "same"]

class SignAndLogarithm(NamedTuple):
    sign: Tensor
    logabsdet: Tensor
