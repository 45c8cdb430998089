"""Steps of recurrent networks, over traced arrays: the effect of one step on the hidden state.

`gates` is `input @ weight_ih.T + bias_ih`, of all steps at once for a sequence. A sequence is one operation of the dynamic graph; where
sequences have different lengths, each step is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjit.ir import ops
from adjit.runtime.control_flow import scan
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import sigmoid

Array = Any


@dispatched
def rnn_tanh_step(gates: Array, hidden: Array, weight: Array, bias: Array | None) -> tuple[Array]:
    """tanh(gates + hidden @ weight.T + bias).

    >>> rnn_tanh_step(np.zeros((1, 2)), np.ones((1, 2)), np.zeros((2, 2)), None)
    (array([[0., 0.]]),)
    """
    return (np.tanh(gates + _recurrent(hidden, weight, bias)),)


@dispatched
def rnn_relu_step(gates: Array, hidden: Array, weight: Array, bias: Array | None) -> tuple[Array]:
    """relu(gates + hidden @ weight.T + bias)."""
    return (wrap(ops.relu((gates + _recurrent(hidden, weight, bias)).value)),)


@dispatched
def lstm_step(gates: Array, hidden: Array, cell: Array, weight: Array, bias: Array | None) -> tuple[Array, Array]:
    """The next hidden state and cell; the gates are input, forget, content, output.

    Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997, with the forget gate of Gers, Schmidhuber and Cummins, 2000.
    """
    entry, forget, content, output = _parts(gates + _recurrent(hidden, weight, bias), 4)
    cell = sigmoid(forget) * cell + sigmoid(entry) * np.tanh(content)
    return sigmoid(output) * np.tanh(cell), cell


@dispatched
def gru_step(gates: Array, hidden: Array, weight: Array, bias: Array | None) -> tuple[Array]:
    """The next hidden state; the gates are reset, update, new.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, arXiv:1406.1078; the reset gate acts on the product.
    """
    reset, update, new = _parts(gates, 3)
    reset_more, update_more, new_more = _parts(_recurrent(hidden, weight, bias), 3)
    new = np.tanh(new + sigmoid(reset + reset_more) * new_more)
    return (new + sigmoid(update + update_more) * (hidden - new),)


def _over_sequence(step: Callable[..., tuple[Array, ...]]) -> Callable[..., tuple[Array, ...]]:
    """Make the function that takes a step for each of the gates (T, ...): one loop, which is one node of the dynamic graph."""

    def layer(gates: Array, states: Sequence[Array], weight: Array, bias: Array | None, projection: Array | None, backwards: bool
              ) -> tuple[Array, ...]:
        dtype = np.result_type(gates, weight, *states)      # a state keeps its dtype from one step to the next

        def take_step(states: Sequence[Array], gates: Array) -> tuple[tuple[Array, ...], Array]:
            states = step(gates, *states, weight, bias)
            if projection is not None:
                states = (projected(states[0], projection), *states[1:])
            return tuple(states), states[0]

        last, hidden = scan(take_step, tuple(as_traced(state).astype(dtype) for state in states), gates, reverse=backwards)
        return (hidden, *last)

    layer.__name__ = layer.__qualname__ = step.__name__.replace("step", "layer")
    layer.__doc__ = f"The hidden states of all steps (T, ...), then the states after the last one, each step by `{step.__name__}`."
    return dispatched(layer)


class Kind(NamedTuple):
    """Kind of network: its numbers of gates and states, its step, and all steps of a sequence."""

    gates: int
    states: int
    step: Callable[..., Any]
    layer: Callable[..., Any]


KINDS = {"RNN_TANH": Kind(1, 1, rnn_tanh_step, _over_sequence(rnn_tanh_step)),
         "RNN_RELU": Kind(1, 1, rnn_relu_step, _over_sequence(rnn_relu_step)),
         "LSTM": Kind(4, 2, lstm_step, _over_sequence(lstm_step)), "GRU": Kind(3, 1, gru_step, _over_sequence(gru_step))}


def loop_lengths(steps: int) -> list[int]:
    """Cut a sequence into loops of few different lengths, each of which is compiled by itself for eager tensors: sequences of any length
    then need no more than some thirty programs.

    >>> loop_lengths(31), loop_lengths(32), loop_lengths(100)
    ([31], [16, 16], [64, 16, 20])
    """
    lengths = []
    for length in (256, 64, SHORT_LOOP):
        while steps >= length + SHORT_LOOP:
            lengths.append(length)
            steps -= length
    return [*lengths, steps]


SHORT_LOOP = 16
"""Steps of the shortest loop of several."""


@dispatched
def stack_steps(steps: Sequence[Array]) -> Array:
    """Stack steps to a sequence (T, ...)."""
    return np.stack([as_traced(step) for step in steps])


@dispatched
def both_directions(forward: Array, backward: Array) -> Array:
    """Concatenate the outputs of both directions."""
    return np.concatenate([as_traced(forward), as_traced(backward)], axis=-1)


@dispatched
def split_steps(sequence: Array, sizes: Sequence[int]) -> tuple[Array, ...]:
    """Split packed sequences into their steps, which have these numbers of rows."""
    ends = np.cumsum(sizes)
    return tuple(as_traced(sequence)[end - size:end] for end, size in zip(ends.tolist(), sizes, strict=True))


@dispatched
def join_rows(steps: Sequence[Array]) -> Array:
    """Concatenate rows of several steps, or of states."""
    return np.concatenate([as_traced(step) for step in steps])


@dispatched
def projected(hidden: Array, weight: Array) -> Array:
    """hidden @ weight.T, the smaller hidden state of an LSTM (Sak, Senior and Beaufays, arXiv:1402.1128)."""
    return np.matmul(hidden, as_traced(weight).T)


@dispatched
def no_state(gates: Array, size: int) -> Array:
    """Make zeros, `size` of them for each sequence in the batch."""
    return np.zeros_like(as_traced(gates), shape=(*gates.shape[:-1], size))


def _recurrent(hidden: Array, weight: Array, bias: Array | None) -> Array:
    product = np.matmul(hidden, as_traced(weight).T)
    return product if bias is None else product + bias


def _parts(gates: Array, count: int) -> list[Array]:
    size = gates.shape[-1] // count
    return [gates[..., number * size:(number + 1) * size] for number in range(count)]
