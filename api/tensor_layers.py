"""Functions of PyTorch's top level with an order of arguments of their own: cells of recurrent networks, random counts, embeddings; and
constructors by type, `FloatTensor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.checks import check_parameter
from adjit.eager.generator import Generator, keys_from
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.lazy_module import LazyModule
from adjit.tensor_creation import sizes_of, zeros

if TYPE_CHECKING:
    from adjit import distributions
    from adjit.nn import functional
else:
    distributions, functional = LazyModule("adjit.distributions"), LazyModule("adjit.nn.functional")


def fill(input: Any, value: Any) -> Tensor:
    """A tensor of the shape and dtype of another one, filled with a number.

    >>> fill(tensor([1.0, 2.0]), 3.0)
    tensor([3., 3.])
    """
    return as_tensor(input).clone().fill_(value)


def constant_pad_nd(input: Any, pad: Sequence[int], value: float = 0.0) -> Tensor:
    """Pad the last dimensions with a number, as `nn.functional.pad`.

    >>> constant_pad_nd(tensor([1.0, 2.0]), [1, 0])
    tensor([0., 1., 2.])
    """
    return functional.pad(input, tuple(pad), "constant", value)      # type: ignore[no-any-return]


def embedding(weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Rows of a matrix, as `nn.functional.embedding(indices, weight)`.

    >>> embedding(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1]))
    tensor([[3., 4.]])
    """
    return functional.embedding(indices, weight, None if padding_idx < 0 else padding_idx,      # type: ignore[no-any-return]
                                scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def poisson(input: Any, generator: Generator | None = None) -> Tensor:
    """Draw from Poisson distributions with these rates.

    >>> poisson(tensor([0.0, 0.0]))
    tensor([0., 0.])
    """
    check_parameter("poisson", "rates", input, ">= 0")
    with nullcontext() if generator is None else keys_from(generator.next_key):
        return distributions.Poisson(as_tensor(input), validate_args=False).sample()      # type: ignore[no-any-return]


def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Tensor:
    """Draw how many of `count` trials succeed with the probability `prob`.

    >>> binomial(tensor([3.0, 5.0]), tensor([1.0, 0.0]))
    tensor([3., 0.])
    """
    with nullcontext() if generator is None else keys_from(generator.next_key):
        return distributions.Binomial(as_tensor(count), as_tensor(prob), validate_args=False).sample()      # type: ignore[no-any-return]


def _gates(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple[Tensor, Tensor]:
    return functional.linear(input, w_ih, b_ih), functional.linear(hx, w_hh, b_hh)


def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """The next state of a simple recurrent cell, `tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh)`.

    >>> rnn_tanh_cell(zeros(1, 2), zeros(1, 3), zeros(3, 2), zeros(3, 3))
    tensor([[0., 0., 0.]])
    """
    inputs, states = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return (inputs + states).tanh()


def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """As `rnn_tanh_cell`, with relu in place of tanh.

    >>> rnn_relu_cell(zeros(1, 2), zeros(1, 3), zeros(3, 2), zeros(3, 3))
    tensor([[0., 0., 0.]])
    """
    inputs, states = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    return (inputs + states).relu()


def lstm_cell(input: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Tensor, Tensor]:
    """The next state `(h, c)` of an LSTM cell, as `nn.LSTMCell` has it.

    >>> lstm_cell(zeros(1, 2), (zeros(1, 1), zeros(1, 1)), zeros(4, 2), zeros(4, 1))
    (tensor([[0.]]), tensor([[0.]]))
    """
    inputs, states = _gates(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    i, f, g, o = (inputs + states).chunk(4, -1)
    cell = f.sigmoid() * hx[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Tensor:
    """The next state of a GRU cell, as `nn.GRUCell` has it.

    >>> gru_cell(zeros(1, 2), zeros(1, 1), zeros(3, 2), zeros(3, 1))
    tensor([[0.]])
    """
    inputs, states = _gates(input, hx, w_ih, w_hh, b_ih, b_hh)
    (r, z, n), (hr, hz, hn) = inputs.chunk(3, -1), states.chunk(3, -1)
    reset, update = (r + hr).sigmoid(), (z + hz).sigmoid()
    new = (n + reset * hn).tanh()
    return new + update * (hx - new)


def _of_type(name: str, dtype: str) -> Callable[..., Tensor]:
    def make(*given: Any) -> Tensor:
        if len(given) == 1 and not isinstance(given[0], int):
            return tensor(given[0], dtype)
        return zeros(sizes_of(given or (0,)), dtype=dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (f"Make a tensor of dtype {dtype} of nested lists or an array; or of zeros, in a shape: PyTorch's older name of "
                    f"`adjit.tensor`.\n\n    >>> {name}([1]).dtype.name\n    {dtype!r}\n    ")
    make.tensor_dtype = np.dtype(dtype)     # type: ignore[attr-defined]
    return make


BoolTensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, ShortTensor = (
    _of_type(f"{name}Tensor", dtype) for name, dtype in (
        ("Bool", "bool"), ("Byte", "uint8"), ("Char", "int8"), ("Double", "float64"), ("Float", "float32"), ("Half", "float16"),
        ("Int", "int32"), ("Long", "int64"), ("Short", "int16")))

__all__ = [
    "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
    "binomial", "constant_pad_nd", "embedding", "fill", "gru_cell", "lstm_cell", "poisson", "rnn_relu_cell",
    "rnn_tanh_cell",
]
